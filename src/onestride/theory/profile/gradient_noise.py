"""What the step does besides the rank-one part: it also moves row j by 2c₂ηa_j M w_j and by noise of higher order.

    M = (1/n) Xᵀ diag(r) X,     r the residual in the gradient,  r = σ⋆(z⋆) + N(0, σ_ε² (+ Var f₀ in full mode)).

Each direction u sees M through its own spectral law, with transform uᵀ(M − x)⁻¹u. With φ₀ = d/n_step, β the learned
direction less its part along p = W₀ᵀa, s = |β| and A_ab = E[r z⋆^{a+b}/(1 + φ₀ r m)], these transforms are

    bulk, and p      m(x) = 1/(−x + E[r/(1 + φ₀ r m)])
    β⋆               g(x) = 1/(A₁₁ − x)
    β⋆ with β̂        A₀₁ g/s
    β̂                (A₀₁² g − A₀₀)/s²

For a teacher of k directions, turned so that E[g u] = (C, 0, …), r depends on u ∈ R^k: A₀₁ = E[r u/…] is a vector, A₁₁ = E[r uuᵀ/…]
a matrix, g(x) = (A₁₁ − x)⁻¹ too, and what the unlearned directions e, u₂ … u_k see is a matrix-valued law.

The higher orders have covariance ∝ S = (1/n) Xᵀ diag(r²) X, which is large where M is large: along an eigenvector of M
with eigenvalue x its mean is Im[m E r²/(1 + φ₀ r m)]/Im m. A direction in the plane of β⋆ and of the noise ν hangs together with S beyond
that, as x·ν̂ = N(0, 1) + √φ₀ r/√E r²: there S_p is scaled to its mean, E r²(t̂·x)².
"""

# pyright: reportMissingTypeStubs=false, reportConstantRedefinition=false
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import roots_hermitenorm

from onestride._numerics import Array, Complex, Float, gauss_density
from onestride.problem import Problem
from onestride.teachers import Target, Teacher
from onestride.theory.direction import direction

_HEIGHT = 1e-4  # of the real axis, in standard deviations of the law
_GRID = 700  # points x before refinement
_STRIDE = 8  # every so many of them is continued from far above the real axis, others begin between their neighbours
_UNRESOLVED = 1e-3  # mass of a law between two points
_RESIDUALS = 160  # nodes kept of the law of r
_SEEN = 6e-5  # density · max(|x|, sd) above which x is in the support of a law
_SIGNALS = 1200  # of the law of a teacher of several directions


@dataclass(frozen=True)
class SpectralNodes:
    """Nodes of a spectral law of M: eigenvalue, probability, and the mean of S there.

    frame: of a law that k directions see together, matrices with Σ_p frame_pᵀ frame_p = I_k, the shares of each node. One
    direction has the square roots of the probabilities.
    """

    eigenvalue: Float[Array, "p"]
    weight: Float[Array, "p"]
    power: Float[Array, "p"]
    frame: Float[Array, "p c k"]


@dataclass(frozen=True)
class ResidualLaw:
    """Nodes of the residual: r, r u, r uuᵀ and r² averaged over each, and probabilities."""

    r: Float[Array, "r"]
    ru: Float[Array, "r k"]
    ruu: Float[Array, "r k k"]
    rr: Float[Array, "r"]
    weight: Float[Array, "r"]


@dataclass(frozen=True)
class GradientNoise:
    """Transforms of M on a grid x + i0 of the real line, the mean of S along it, and the length of β."""

    x: Float[Array, "x"]
    bulk: Complex[Array, "x"]
    star: Complex[Array, "x k k"]
    cross: Complex[Array, "x k"]
    beta: Complex[Array, "x"]
    projected: Complex[Array, "x k k"]
    local_power: Float[Array, "x"]
    sd: float
    power: float
    overlap: float
    square: Float[Array, "m m"]  # E r²xxᵀ, x along u_1 … u_k and ν̂

    @cached_property
    def reach(self) -> float:
        """The largest |eigenvalue| of M, those that stick out along the teacher's directions among them."""
        density = np.imag(self.bulk + np.einsum("xaa->x", self.star))
        return float(np.abs(self.x[density * np.maximum(np.abs(self.x), self.sd) > _SEEN]).max())

    def bulk_law(self) -> SpectralNodes:
        """The law seen by all but a few directions; mean 0 and variance φ₀ E r² are imposed, being exact."""
        law = _bins(self.x, np.imag(self.bulk)[:, None, None], self.local_power, self.sd)
        eigenvalue = law.eigenvalue - law.weight @ law.eigenvalue
        eigenvalue *= self.sd / np.sqrt(law.weight @ eigenvalue**2)
        power = law.power * (self.power / (law.weight @ law.power))
        return SpectralNodes(eigenvalue, law.weight, power, law.frame)

    def nodes(self, transform: Complex[Array, "x k k"], count: int = 20) -> SpectralNodes:
        """The law of directions with these transforms."""
        return _bins(self.x, np.imag(transform), self.local_power, self.sd, count)

    def projected_teacher_law(self) -> SpectralNodes:
        """The law seen by the teacher's unlearned directions when M is first projected off β (the resolved level)."""
        return _bins(self.x, np.imag(self.projected), self.local_power, self.sd)

    def teacher_law(self, tilt: float) -> SpectralNodes:
        """The law seen by e, β⋆ less its part along the learned direction t̂ = √(1 − tilt²) β̂ + tilt p̂, and by u₂ … u_k."""
        rho, straight = self.overlap, 1 - tilt**2
        law = _bins(self.x, np.imag(self.unlearned(tilt)), self.local_power, self.sd)
        e = np.eye(len(self.square))[:-1]
        e[0] -= rho * straight * self._beta
        off = e[0] @ self.square @ e[0] + rho**2 * straight * tilt**2 * self.power
        each = np.append(off / (1 - rho**2 * straight), np.diag(self.square)[1:-1])
        return _of_mean(law, float(each.mean()))

    def learned_law(self, tilt: float) -> SpectralNodes:
        """The law seen by the learned direction t̂ itself."""
        law = _bins(self.x, np.imag(self.along(tilt))[:, None, None], self.local_power, self.sd)
        along = self._beta @ self.square @ self._beta
        return _of_mean(law, float((1 - tilt**2) * along + tilt**2 * self.power))

    @property
    def _beta(self) -> Float[Array, "m"]:
        """β̂ on u_1 … u_k and ν̂."""
        beta = np.zeros(len(self.square))
        beta[0], beta[-1] = self.overlap, np.sqrt(1 - self.overlap**2)
        return beta

    def coupling(self, tilt: float, overlap: float) -> Float[Array, "2 k"]:
        """t̂ᵀMe and t̂ᵀM²e for e = (β⋆ − ϱt̂)/√(1 − ϱ²) and u₂ … u_k, ϱ the overlap of t̂."""
        density = np.imag(self.between(tilt, overlap)) * np.gradient(self.x)[:, None] / np.pi
        return np.stack([self.x @ density, self.x**2 @ density])

    def along(self, tilt: float) -> Complex[Array, "x"]:
        """t̂ᵀ(M − x)⁻¹t̂."""
        return (1 - tilt**2) * self.beta + tilt**2 * self.bulk

    def between(self, tilt: float, overlap: float) -> Complex[Array, "x k"]:
        """t̂ᵀ(M − x)⁻¹e and so on."""
        out = np.copysign(np.sqrt(1 - tilt**2), overlap * self.overlap) * self.cross  # t̂ may hold −β̂, when c₁ < 0
        out[:, 0] = (out[:, 0] - overlap * self.along(tilt)) / np.sqrt(1 - overlap**2)
        return out

    def unlearned(self, tilt: float) -> Complex[Array, "x k k"]:
        """The same of e, u₂ … u_k among themselves."""
        taken, out = self.overlap * (1 - tilt**2), self.star.copy()
        out[:, 0, :] -= taken * self.cross
        out[:, :, 0] -= taken * self.cross
        out[:, 0, 0] += self.overlap * taken * self.along(tilt)
        return _rescaled(out, 1 - self.overlap * taken)


def _of_mean(law: SpectralNodes, power: float) -> SpectralNodes:
    """The law with S of this mean."""
    mean = float(law.weight @ law.power)
    return replace(law, power=law.power * (power / mean)) if mean > 0 else law


def _rescaled(law: Array, length2: float) -> Array:
    """A law of k directions, the first of which was of squared length `length2`."""
    law[:, 0, :] /= np.sqrt(length2)
    law[:, :, 0] /= np.sqrt(length2)
    return law


def gradient_noise(problem: Problem) -> GradientNoise:
    """The spectral laws of M for this problem; they do not depend on the size of the step and are cached."""
    extra = problem.noise**2 + direction(problem).output_power
    return _gradient_noise(problem.target, extra, problem.d / problem.step_samples)


class Signal(NamedTuple):
    """Nodes of the labels' law: g, the means of u and uuᵀ there, and probabilities."""

    g: Float[Array, "m"]
    u: Float[Array, "m k"]
    uu: Float[Array, "m k k"]
    weight: Float[Array, "m"]


@lru_cache(maxsize=64)
def signal_of(target: Target) -> Signal:
    """By the function's own rule; for several directions in groups of about the same g."""
    if isinstance(target, Teacher):
        g, u, w = target.turned
        return grouped(Signal(g, u, u[:, :, None] * u[:, None, :], w))
    z, w = target.rule
    w = w * gauss_density(z)
    kept = w > 1e-14
    z, w = z[kept], w[kept] / w[kept].sum()
    return Signal(target(z), z[:, None], (z * z)[:, None, None], w)


def grouped(signal: Signal) -> Signal:
    """The same on fewer nodes: groups of about the same g."""
    group = _groups(signal.g, signal.weight, _SIGNALS)
    weight, (g, u, uu) = _grouped(group, signal.weight, signal[:3])
    return Signal(g, u, uu, weight)


def _groups(r: Array, w: Array, most: int) -> Array:
    """Which of `most` groups of neighbouring values each r belongs to, by ∫ dw (1/1000 + r²/E r²)."""
    order, power = np.argsort(r, kind="stable"), max(float(w @ r**2), np.finfo(float).tiny)  # a teacher may be 0
    share = np.cumsum((w * (1e-3 + r * r / power))[order])
    out = np.empty(r.size, int)
    out[order] = np.minimum((share / share[-1] * most).astype(int), most - 1)
    return out


def _grouped(group: Array, w: Array, values: Sequence[Array]) -> tuple[Array, list[Array]]:
    """Probabilities of the groups, and means over them."""
    total = np.bincount(group, w)
    kept = total > 0

    def mean(value: Array) -> Array:
        flat = value.reshape(group.size, -1)
        sums = np.stack([np.bincount(group, w * column)[kept] for column in flat.T], 1)
        return (sums / total[kept, None]).reshape(-1, *value.shape[1:])

    return total[kept], [mean(value) for value in values]


def residual_law(target: Target, extra: float) -> ResidualLaw:
    """Nodes of r = σ⋆(z⋆) + N(0, extra), compressed so that E r, E r u, E r uuᵀ and E r² are kept."""
    return compressed(noisy(signal_of(target), extra))


def noisy(signal: Signal, extra: Array | float, count: int = 24) -> Signal:
    """The same with N(0, extra) added to g, by so many nodes."""
    if not np.max(extra) > 0:
        return signal
    g, wg = roots_hermitenorm(count)
    r = (signal.g[:, None] + np.sqrt(np.broadcast_to(extra, signal.g.shape))[:, None] * g).ravel()
    u, uu = np.repeat(signal.u, g.size, 0), np.repeat(signal.uu, g.size, 0)
    return Signal(r, u, uu, np.outer(signal.weight, wg / wg.sum()).ravel())


def one_direction(r: Array, z: Array, w: Array) -> Signal:
    """Nodes of r and the coordinate z along β⋆."""
    return Signal(r, z[:, None], (z * z)[:, None, None], w)


def compressed(signal: Signal) -> ResidualLaw:
    """Residuals on few nodes."""
    r, u, uu, w = signal
    parts = (r, r[:, None] * u, r[:, None, None] * uu, r * r)
    weight, (r, ru, ruu, rr) = _grouped(_groups(r, w, _RESIDUALS), w, parts)
    return ResidualLaw(r, ru, ruu, rr, weight)


@lru_cache(maxsize=64)
def _gradient_noise(target: Target, extra: float, phi: float) -> GradientNoise:
    power = target.second_moment + extra
    return noise_of(residual_law(target, extra), power, target.coefficients[1], phi)


def noise_of(law: ResidualLaw, power: float, taught: float, phi: float) -> GradientNoise:
    """The transforms for residuals of a law with power E r² and E[r u₁] = taught."""
    sd = float(np.sqrt(phi * power))
    length = np.hypot(taught, sd)
    # β⋆ᵀMβ⋆ ≤ √(3 E r²) lies far out when φ₀ is small; so do the φ₀ r_i, one for each sample, when φ₀ is large
    far: float = np.arcsinh(40 * (14 + 4 / np.sqrt(phi) + 1.5 * phi * np.abs(law.r).max() / sd))
    x = sd * np.sinh(np.linspace(-far, far, _GRID)) / 40
    m = _stieltjes(x, law, phi, sd)
    A00, A01, A11 = _resolvent_means(m, law, phi)
    for _ in range(40):  # refine where β⋆'s law changes fast: an eigenvalue of M that sticks out along the teacher
        star = _star(x, A11, sd)
        phase = np.angle(np.linalg.eigvals(star)).sum(1)  # of det, but two poles do not turn it back to where it was
        turns = np.abs(np.diff(phase)) > 0.25  # a pole lies between, or is near
        mean = np.einsum("xaa->x", np.imag(star))
        unresolved = np.abs(np.diff(mean)) * np.diff(x) / (2 * np.pi)  # by the trapezoid rule
        wide = (turns | (unresolved > _UNRESOLVED)) & (np.diff(x) > _HEIGHT * sd / 8)
        if not wide.any():
            break
        new = (x[:-1][wide] + x[1:][wide]) / 2
        solved = _stieltjes(new, law, phi, sd, (m[:-1][wide] + m[1:][wide]) / 2)
        at: Array = np.searchsorted(x, new)
        known: list[Array] = [x, m, A00, A01, A11]
        added: list[Array] = [new, solved, *_resolvent_means(solved, law, phi)]
        grown: list[Array] = [np.insert(old, at, one, 0) for old, one in zip(known, added, strict=True)]
        x, m, A00, A01, A11 = grown
    star = _star(x, A11, sd)
    answered = np.einsum("xab,xb->xa", star, A01)
    off = A11 - A01[:, :, None] * A01[:, None, :] / A00[:, None, None]
    spread = m * (law.weight @ (law.rr[:, None] / (1 + phi * law.r[:, None] * m)))
    with np.errstate(divide="ignore", invalid="ignore"):
        local_power = np.where(np.imag(m) > 1e-12, np.imag(spread) / np.imag(m), power)
    return GradientNoise(
        x=x,
        bulk=m,
        star=star,
        cross=answered / length,
        beta=(np.einsum("xa,xa->x", A01, answered) - A00) / length**2,
        projected=_rescaled(_star(x, off, sd), sd**2 / length**2),
        local_power=local_power,
        sd=sd,
        power=power,
        overlap=float(taught / length),
        square=_square(law, power, phi),
    )


def _square(law: ResidualLaw, power: float, phi: float) -> Float[Array, "m m"]:
    """E r²xxᵀ on u and ν̂, x·ν̂ = N(0, 1) + √φ₀ r/√E r²: r u over a node's r is its mean u."""
    w, r = law.weight, law.r
    cross = np.sqrt(phi / power) * ((w * r**2) @ law.ru) if power > 0 else 0 * law.ru[0]
    own = power + (phi / power * float((w * r**2) @ law.rr) if power > 0 else 0.0)
    return np.block([[np.tensordot(w * r, law.ruu, 1), cross[:, None]], [cross, np.array(own)]])


def _star(x: Array, A11: Array, sd: float) -> Complex[Array, "x k k"]:
    """(A₁₁ − x)⁻¹ just above the real axis."""
    return np.linalg.inv(A11 - (x + 1j * _HEIGHT * sd)[:, None, None] * np.eye(A11.shape[1]))


def _resolvent_means(m: Array, law: ResidualLaw, phi: float) -> tuple[Array, Array, Array]:
    """A₀₀, A₀₁ and A₁₁: E[r/…], E[r u/…] and E[r uuᵀ/…] over 1 + φ₀ r m."""
    part = law.weight * (1 / (1 + phi * law.r[:, None] * m)).T
    return part @ law.r, part @ law.ru, np.tensordot(part, law.ruu, 1)


def _stieltjes(x: Array, law: ResidualLaw, phi: float, sd: float, near: Array | None = None) -> Array:
    """m(x + i0) of the bulk, the one root with Im m > 0: of its equation 1/m = E[r/(1 + φ₀rm)] − x the right-hand side, as
    a map of m, takes the upper half-plane into itself.

    By Newton's method from `near`, by default from between points continued down from a few heights above the real axis; a
    point that this does not solve is continued from far above it in small steps.
    """
    if near is None:
        few = np.append(x[:-1:_STRIDE], x[-1])
        near = np.interp(x, few, _continued(few, law, phi, sd, heights=7))
    start: Array = near
    m, unsolved = _newton(start, x + 1j * _HEIGHT * sd, law, phi, 1e-10)
    if unsolved.size:
        m[unsolved] = _continued(x[unsolved], law, phi, sd, heights=30)
    return m


def _continued(x: Array, law: ResidualLaw, phi: float, sd: float, heights: int) -> Array:
    """Down to _HEIGHT, every point by itself."""
    *above, last = np.geomspace(50 * sd, _HEIGHT * sd, heights)
    m: Array = -1 / (x + 1j * above[0])
    for height in above:
        m, _ = _newton(m, x + 1j * height, law, phi, 1e-3)
    return _newton(m, x + 1j * last, law, phi, 1e-10)[0]


def _newton(m: Array, z: Array, law: ResidualLaw, phi: float, tolerance: float) -> tuple[Array, Array]:
    """Newton's method at the points z, half a step of the map where it leaves the upper half-plane; and what is unsolved."""
    m, left = m.copy(), np.arange(m.size)
    r, first, second = phi * law.r[:, None], law.weight * law.r, law.weight * law.r**2
    for _ in range(40):
        at, target = m[left], z[left]
        part = 1 / (1 + r * at)
        mean = first @ part
        step = -(1 / at + target - mean) / (-1 / at**2 + phi * (second @ np.square(part, out=part)))
        step *= 0.5 * np.abs(at) / np.maximum(np.abs(step), 0.5 * np.abs(at))
        new = at + step
        m[left] = new = np.where(new.imag > 0, new, (at + 1 / (mean - target)) / 2)
        left = left[~(np.abs(new - at) < tolerance * np.abs(new))]
        if not left.size:
            break
    return m, left


def _bins(x: Array, density: Float[Array, "x k k"], power: Array, sd: float, nodes: int = 20) -> SpectralNodes:
    """Cut a law into bins of equal ∫ density (1 + x²/var); each becomes one node at its mean."""
    k = density.shape[1]
    mean_density = np.einsum("xaa->x", density) / k
    seen = np.where(mean_density * np.maximum(np.abs(x), sd) > _SEEN, 1.0, 0.0) * np.gradient(x) / np.pi
    mass = mean_density * seen
    share = np.cumsum(mass * (1 + (x / sd) ** 2))
    group = np.minimum((share / share[-1] * nodes).astype(int), nodes - 1)
    total, (mean, at) = _grouped(group, mass, (x, power))
    if k == 1:
        weight = total / total.sum()
        return SpectralNodes(mean, weight, at, np.sqrt(weight)[:, None, None])
    matrices = np.zeros((nodes, k, k))
    np.add.at(matrices, group, density * seen[:, None, None])
    matrices = matrices[np.bincount(group, mass, nodes) > 0]
    whole = _root((matrices + matrices.transpose(0, 2, 1)).sum(0) / 2, -0.5)
    frame = np.stack([_root(whole @ (P + P.T) @ whole / 2, 0.5) for P in matrices])
    whole = _root(np.einsum("pca,pcb->ab", frame, frame), -0.5)  # parts that rounding made negative are gone
    frame = frame @ whole
    return SpectralNodes(mean, np.einsum("pca,pca->p", frame, frame) / k, at, frame)


def _root(P: Float[Array, "k k"], power: float) -> Float[Array, "k k"]:
    """A power of a symmetric matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh(P)
    return (vectors * np.maximum(values, 0.0) ** power) @ vectors.T
