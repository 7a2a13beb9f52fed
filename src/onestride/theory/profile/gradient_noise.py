"""What the step does besides the rank-one part: it also moves row j by 2c₂ηa_j M w_j and by noise of higher order.

    M = (1/n) Xᵀ diag(r) X,     r the residual in the gradient,  r = σ⋆(z⋆) + N(0, σ_ε² (+ Var f₀ in full mode)).

Each direction u sees M through its own spectral law, with transform uᵀ(M − x)⁻¹u. With φ₀ = d/n_step, β the learned
direction less its part along p = W₀ᵀa, s = |β| and A_ab = E[r z⋆^{a+b}/(1 + φ₀ r m)], these transforms are

    bulk, and p      m(x) = 1/(−x + E[r/(1 + φ₀ r m)])
    β⋆               g(x) = 1/(A₁₁ − x)
    β⋆ with β̂        A₀₁ g/s
    β̂                (A₀₁² g − A₀₀)/s²

The higher orders have covariance ∝ S = (1/n) Xᵀ diag(r²) X, which is large where M is large: along an eigenvector of M
with eigenvalue x its mean is Im[m E r²/(1 + φ₀ r m)]/Im m.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import roots_hermitenorm

from onestride._numerics import Array, Complex, Float, gauss_density
from onestride.functions import Function
from onestride.problem import Problem
from onestride.theory.direction import direction

_HEIGHT = 1e-4  # of the real axis, in standard deviations of the law
_GRID = 700  # points x before refinement
_UNRESOLVED = 1e-3  # mass of a law between two points
_RESIDUALS = 160  # nodes kept of the law of r


@dataclass(frozen=True)
class SpectralNodes:
    """Nodes of a spectral law of M: eigenvalue, probability, and the mean of S there."""

    eigenvalue: Float[Array, "p"]
    weight: Float[Array, "p"]
    power: Float[Array, "p"]


@dataclass(frozen=True)
class ResidualLaw:
    """Nodes of the residual: r, r z⋆, r z⋆² and r² averaged over each, and probabilities."""

    r: Float[Array, "r"]
    rz: Float[Array, "r"]
    rzz: Float[Array, "r"]
    rr: Float[Array, "r"]
    weight: Float[Array, "r"]


@dataclass(frozen=True)
class GradientNoise:
    """Transforms of M on a grid x + i0 of the real line, the mean of S along it, and the length of β."""

    x: Float[Array, "x"]
    bulk: Complex[Array, "x"]
    star: Complex[Array, "x"]
    cross: Complex[Array, "x"]
    beta: Complex[Array, "x"]
    projected: Complex[Array, "x"]
    local_power: Float[Array, "x"]
    sd: float
    power: float
    overlap: float

    def bulk_law(self) -> SpectralNodes:
        """The law seen by all but a few directions; mean 0 and variance φ₀ E r² are imposed, being exact."""
        law = _bins(self.x, np.imag(self.bulk), self.local_power, self.sd)
        eigenvalue = law.eigenvalue - law.weight @ law.eigenvalue
        eigenvalue *= self.sd / np.sqrt(law.weight @ eigenvalue**2)
        return SpectralNodes(eigenvalue, law.weight, law.power * (self.power / (law.weight @ law.power)))

    def projected_teacher_law(self) -> SpectralNodes:
        """The law seen by the teacher's unlearned direction when M is first projected off β (the resolved level)."""
        return _bins(self.x, np.imag(self.projected), self.local_power, self.sd)

    def teacher_law(self, tilt: float) -> SpectralNodes:
        """The law seen by e, β⋆ less its part along the learned direction t̂ = √(1 − tilt²) β̂ + tilt p̂."""
        rho, straight = self.overlap, 1 - tilt**2
        e = self.star - rho * straight * (2 * self.cross - rho * straight * self.beta)
        e = e + rho**2 * straight * tilt**2 * self.bulk
        return _bins(self.x, np.imag(e) / (1 - rho**2 * straight), self.local_power, self.sd)

    def learned_law(self, tilt: float) -> SpectralNodes:
        """The law seen by the learned direction t̂ itself."""
        return _bins(self.x, np.imag((1 - tilt**2) * self.beta + tilt**2 * self.bulk), self.local_power, self.sd)


def gradient_noise(problem: Problem) -> GradientNoise:
    """The spectral laws of M for this problem; they do not depend on the size of the step and are cached."""
    extra = problem.noise**2 + direction(problem).output_power
    return _gradient_noise(problem.target, extra, problem.d / problem.step_samples)


def residual_law(target: Function, extra: float) -> ResidualLaw:
    """Nodes of r = σ⋆(z⋆) + N(0, extra), compressed so that E r, E r z⋆, E r z⋆² and E r² are kept."""
    z, w = target.rule
    w = w * gauss_density(z)
    kept = w > 1e-14
    z, w = z[kept], w[kept] / w[kept].sum()
    r = target(z)
    if extra > 0:
        g, wg = roots_hermitenorm(24)
        r = (r[:, None] + np.sqrt(extra) * g).ravel()
        z, w = np.repeat(z, g.size), np.outer(w, wg / wg.sum()).ravel()
    order = np.argsort(r, kind="stable")
    r, z, w = r[order], z[order], w[order]
    share = np.cumsum(w * (1e-3 + r * r / (w @ r**2)))
    group = np.minimum((share / share[-1] * _RESIDUALS).astype(int), _RESIDUALS - 1)
    total = np.bincount(group, w, _RESIDUALS)
    kept = total > 0

    def mean(values: Array) -> Array:
        return np.bincount(group, w * values, _RESIDUALS)[kept] / total[kept]

    return ResidualLaw(mean(r), mean(r * z), mean(r * z * z), mean(r * r), total[kept])


@lru_cache(maxsize=64)
def _gradient_noise(target: Function, extra: float, phi: float) -> GradientNoise:
    law = residual_law(target, extra)
    power = target.second_moment + extra
    sd = float(np.sqrt(phi * power))
    length = np.hypot(target.coefficients[1], sd)
    # β⋆ᵀMβ⋆ ≤ √(3 E r²) lies far out when φ₀ is small; so do the φ₀ r_i, one for each sample, when φ₀ is large
    far = np.arcsinh(40 * (14 + 4 / np.sqrt(phi) + 1.5 * phi * np.abs(law.r).max() / sd))
    x = sd * np.sinh(np.linspace(-far, far, _GRID)) / 40
    m = _stieltjes(x, law, phi, sd)
    for _ in range(40):  # refine where β⋆'s law changes fast: an eigenvalue of M that sticks out along the teacher
        A00, A01, A11 = _resolvent_means(m, law, phi)
        star = 1 / (A11 - (x + 1j * _HEIGHT * sd))
        turns = np.abs(np.diff(np.angle(star))) > 0.25  # a pole lies between, or is near
        unresolved = np.abs(np.diff(np.imag(star))) * np.diff(x) / (2 * np.pi)  # by the trapezoid rule
        wide = (turns | (unresolved > _UNRESOLVED)) & (np.diff(x) > _HEIGHT * sd / 8)
        if not wide.any():
            break
        new = (x[:-1][wide] + x[1:][wide]) / 2
        at = np.searchsorted(x, new)
        x, m = np.insert(x, at, new), np.insert(m, at, _stieltjes(new, law, phi, sd))
    A00, A01, A11 = _resolvent_means(m, law, phi)
    height = x + 1j * _HEIGHT * sd
    star = 1 / (A11 - height)
    spread = m * (law.weight @ (law.rr[:, None] / (1 + phi * law.r[:, None] * m)))
    with np.errstate(divide="ignore", invalid="ignore"):
        local_power = np.where(np.imag(m) > 1e-12, np.imag(spread) / np.imag(m), power)
    return GradientNoise(
        x=x,
        bulk=m,
        star=star,
        cross=A01 * star / length,
        beta=(A01**2 * star - A00) / length**2,
        projected=length**2 / (sd**2 * (A11 - height - A01**2 / A00)),
        local_power=local_power,
        sd=sd,
        power=power,
        overlap=float(target.coefficients[1] / length),
    )


def _resolvent_means(m: Array, law: ResidualLaw, phi: float) -> tuple[Array, Array, Array]:
    """A₀₀, A₀₁ and A₁₁ = E[r z⋆^{a+b}/(1 + φ₀ r m)]."""
    part = 1 / (1 + phi * law.r[:, None] * m)
    return (law.weight * law.r) @ part, (law.weight * law.rz) @ part, (law.weight * law.rzz) @ part


def _stieltjes(x: Array, law: ResidualLaw, phi: float, sd: float) -> Array:
    """m(x + i0) of the bulk, every point continued by itself from far above the real axis."""
    r, w = law.r[:, None], law.weight
    heights = np.geomspace(50 * sd, _HEIGHT * sd, 30)
    m = -1 / (x + 1j * heights[0])
    for height in heights:
        target = x + 1j * height
        for _ in range(40):
            part = r / (1 + phi * r * m)
            mean = w @ part
            step = -(1 / m + target - mean) / (-1 / m**2 + phi * (w @ part**2))
            step *= np.minimum(1, 0.5 * np.abs(m) / np.maximum(np.abs(step), 1e-300))
            new = m + step
            fixed = (m + 1 / (mean - target)) / 2  # keeps Im m > 0
            new = np.where(new.imag > 0, new, fixed)
            change = np.abs(new - m) / np.abs(new)
            m = new
            if change.max() < (1e-10 if height == heights[-1] else 1e-3):
                break
    return m


def _bins(x: Array, density: Array, power: Array, sd: float, nodes: int = 20) -> SpectralNodes:
    """Cut a law into bins of equal ∫ density (1 + x²/var); each becomes one node at its mean."""
    mass = np.where(density * np.maximum(np.abs(x), sd) > 6e-5, density, 0.0) * np.gradient(x) / np.pi
    share = np.cumsum(mass * (1 + (x / sd) ** 2))
    group = np.minimum((share / share[-1] * nodes).astype(int), nodes - 1)
    total = np.bincount(group, mass, nodes)
    kept = total > 0
    mean = np.bincount(group, mass * x, nodes)[kept] / total[kept]
    at = np.bincount(group, mass * power, nodes)[kept] / total[kept]
    return SpectralNodes(mean, total[kept] / total.sum(), at)
