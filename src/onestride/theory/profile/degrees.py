"""The level "degrees": every degree of the inputs a sector of its own, for any n, d and N, and what a step remembers.

Given the coordinate z along the learned direction and the length r of the rest of x, a feature is σ(θz + s u) with u a
coordinate of a point of S^{D−1} and s = √v r: its parts of degree l = 1 … L in u (`harmonics`) are sectors of dimension
B_l, rows are nodes (z, r), neurons nodes (A, ω), ω the weight along the learned direction before the step. Degrees with
B_l ≫ n, N stay noise: with L = 1 this is the level "full" of `classic`, up to O(1/d). Without a step nothing is learned:
z goes, D = d, and this is the random-features theory with every degree (Defilippis, Loureiro and Misiakiewicz 2024).

In the linear sector the neurons' covariance follows the spectrum of M (`strength`), in degree 2 pairs of its nodes.

What the step's own batch leaves in the means, with τ = ηA/√N, ν = 2c₂, E r² the residual's power and e = v ∂b/∂v:

    length    |w_j|² changes by 2τ w_j·γ_j: e (2τ/v) √(E r²/n (Eψ² − ψ₀² − ψ₁²)), ψ(g) = g σ'(g), new for each neuron
    mean      the mean residual r̄ ~ N(0, E r²/n) moves all of them:  b + e (2ντ/v) r̄
    memory    the variance of a pre-activation depends on x through xᵀMx/d, of variance 2E r²/n: e (2ντ/v) √(2E r²/n)
    kick      M couples the learned direction and e, the unlearned part of β⋆: given ω the mean of w·e is
              C ω/√(…), C = 2ντ t̂ᵀMe + ν²τ² t̂ᵀM²e
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from onestride._numerics import Array, Float, gauss_density
from onestride.functions import Function
from onestride.problem import Problem
from onestride.theory.direction import direction
from onestride.theory.profile.gradient_noise import SpectralNodes, gradient_noise
from onestride.theory.profile.harmonics import degrees_resolved, multiplicity, radius_rule, resolve, sphere_rule
from onestride.theory.profile.neurons import LearnedDirection, learned_direction, normal_rule, readout_rule, resolution
from onestride.theory.profile.sectors import Means, Model, Sector, split_teacher
from onestride.theory.profile.strength import Strength, strength

_OFFSETS = 5  # nodes of ω
_SPECTRUM = 4  # nodes of M's laws
_PAIRS = 6.0  # degree 2 follows pairs of them while its multiplicity is below this many times max(n, N)


def build(
    problem: Problem,
    *,
    level: str = "full",
    nodes: int = 31,
    radii: int | None = None,
    degrees: int | None = None,
    min_weight: float = 1e-10,
    memory: bool = True,
    shift: float = 0.0,
) -> Model:
    """Set up every degree for `problem`; `level` is that of the strength of the weights off the learned direction."""
    if problem.eta == 0:
        return build_untrained(problem, radii=radii, degrees=degrees)
    D = problem.d - 1
    L = degrees or degrees_resolved(D, max(problem.n, problem.N))
    learned = learned_direction(problem)
    law = strength(problem, level, learned)
    z, r, w = _rows(learned, D, nodes, radii or _radii(problem.d))
    neurons = _neurons(problem, learned, law, nodes, min_weight, shift)
    scale = np.sqrt(neurons.v)[:, None] * r
    parts = resolve(problem.sigma, neurons.theta[:, None] * z, scale, D, L)
    teacher = split_teacher(problem.target, learned.overlap, z, r, w, D, L)
    sectors = [_linear(D, parts[1], teacher[1], neurons)]
    for l in range(2, L + 1):
        paired = l == 2 and multiplicity(D, 2) < _PAIRS * max(problem.n, problem.N)
        sectors.append(_higher(multiplicity(D, l), parts[l], teacher[l], neurons, paired=paired))
    if memory:
        means, sectors[0] = _memory(problem, learned, law, neurons, parts, teacher, sectors[0])
    else:
        means = Means(((1.0, parts[0]),), (), teacher[0])
    kinds = (neurons.A, neurons.theta, neurons.weight, neurons.v)
    return Model(problem, "degrees", learned, D, z, r, w, *kinds, tuple(sectors), parts[-2], means, teacher[-1])


def build_untrained(problem: Problem, *, radii: int | None = None, degrees: int | None = None) -> Model:
    """The network before the step: rows are lengths of x, neurons lengths of w (one on the sphere), D = d."""
    d = problem.d
    L = degrees or degrees_resolved(d, max(problem.n, problem.N))
    r, w = radius_rule(d, radii or 7)
    length, weight = (np.ones(1), np.ones(1)) if problem.weights == "sphere" else radius_rule(d, 5)
    length = length if problem.weights == "sphere" else length / np.sqrt(d)
    parts = resolve(problem.sigma, np.zeros(1), length[:, None] * r, d, L)
    teacher = split_teacher(problem.target, 0.0, np.zeros(r.size), r, w, d, L)
    one, none = np.ones((length.size, 1)), np.zeros(length.size)
    sectors = tuple(
        Sector(multiplicity(d, l), parts[l], one, np.ones(1), teacher[l], one, np.ones(1)) for l in range(1, L + 1)
    )
    means, learned = Means(((1.0, parts[0]),), (), teacher[0]), LearnedDirection(0.0, 0.0, False, 0.0)
    kinds = (none, none, weight, length**2)
    return Model(problem, "degrees", learned, d, np.zeros(r.size), r, w, *kinds, sectors, parts[-2], means, teacher[-1])


def _radii(d: int) -> int:
    """Nodes of the length of x: its relative spread is 1/√(2d)."""
    return next(count for least, count in ((1000, 2), (50, 3), (35, 4), (25, 5), (0, 7)) if d >= least)


def _rows(learned: LearnedDirection, D: int, nodes: int, radii: int) -> tuple[Array, Array, Array]:
    """Nodes (z, r) and probabilities."""
    z, wz = normal_rule(*resolution(learned.amplitude, nodes))
    r, wr = radius_rule(D, radii)
    kept = wz > 1e-14
    z, wz = z[kept], wz[kept] / wz[kept].sum()
    return np.repeat(z, r.size), np.tile(r, z.size), np.outer(wz, wr).ravel()


class _Neurons(NamedTuple):
    """Nodes (A, ω, length): |w_⊥|² before the step is `aside`, after it v; the laws of M give the strengths relative to it."""

    A: Float[Array, "k"]
    omega: Float[Array, "k"]
    aside: Float[Array, "k"]
    weight: Float[Array, "k"]
    theta: Float[Array, "k"]
    v: Float[Array, "k"]
    along: Float[Array, "k"]
    along_e: Float[Array, "k"]
    bulk: Float[Array, "k p"]
    share: Float[Array, "p"]
    teacher: Float[Array, "k t"]
    teacher_share: Float[Array, "t"]


def _neurons(
    problem: Problem, learned: LearnedDirection, law: Strength | None, nodes: int, min_weight: float, shift: float
) -> _Neurons:
    d = problem.d
    A, weight = readout_rule(problem, nodes, shift=shift)
    if problem.weights == "sphere":
        omega, wo = sphere_rule(d, _OFFSETS)
        omega, aside = omega / np.sqrt(d), np.ones_like(omega)
    else:
        g, wg = sphere_rule(10**12, _OFFSETS)  # a Gaussian
        r, wr = radius_rule(d - 1, 2 if d >= 200 else 3)
        omega, aside = np.repeat(g, r.size) / np.sqrt(d), np.tile(r**2 / d, g.size)
        wo = np.outer(wg, wr).ravel()
    A, omega, aside = np.repeat(A, omega.size), np.tile(omega, A.size), np.tile(aside, A.size)
    weight = np.outer(weight, wo).ravel()
    if problem.weights == "sphere":
        aside = 1 - omega**2
    kept = weight > min_weight
    A, omega, aside, weight = A[kept], omega[kept], aside[kept], weight[kept] / weight[kept].sum()
    if law is None:
        along, bulk, share = np.ones_like(A), np.ones((A.size, 1)), np.ones(1)
        teacher, teacher_share = bulk, share
    else:
        few = [_gauss(x) for x in (law.bulk, law.teacher)]
        (bulk, share), (teacher, teacher_share) = ((law.on(x, A) / (1 - 1 / d), x.weight) for x in few)
        along = np.ones_like(A) if law.learned is None else law.along_learned(A) / (1 - 1 / d)
    aside = aside * np.exp(_length(problem, learned).along * omega * A / np.sqrt(problem.N * along))
    grown = bulk @ share
    theta = learned.amplitude * A + omega * np.sqrt(along)
    theta = theta + problem.eta * A / np.sqrt(problem.N) * _cubic(problem, learned, omega)[0]
    strengths = (bulk / grown[:, None], share, teacher / grown[:, None], teacher_share)
    return _Neurons(A, omega, aside, weight, theta, aside * grown, along, teacher @ teacher_share, *strengths)


def _gauss(law: SpectralNodes) -> SpectralNodes:
    """A law on few nodes that keep its first moments (Lanczos), with the mean of S kept too."""
    m, p = law.eigenvalue, law.weight
    if m.size <= _SPECTRUM:
        return law
    basis, a, b = [np.sqrt(p)], [], []
    for _ in range(_SPECTRUM):
        v = m * basis[-1]
        a.append(v @ basis[-1])
        for _ in range(2):
            v = v - sum((v @ q) * q for q in basis)
        b.append(np.linalg.norm(v))
        if b[-1] < 1e-12 * np.abs(m).max():
            break
        basis.append(v / b[-1])
    few, vectors = np.linalg.eigh(np.diag(a) + np.diag(b[: len(a) - 1], 1) + np.diag(b[: len(a) - 1], -1))
    weight, order = vectors[0] ** 2, np.argsort(m)
    power = np.interp(few, m[order], law.power[order])
    mean = weight @ power
    return SpectralNodes(few, weight, power * ((p @ law.power) / mean if mean > 0 else 1.0))


def _linear(D: int, K: Array, h: Array, neurons: _Neurons) -> Sector:
    return Sector(float(D), K, neurons.bulk, neurons.share, h, neurons.teacher, neurons.teacher_share)


def _higher(dim: float, K: Array, h: Array, neurons: _Neurons, *, paired: bool) -> Sector:
    """Degree two on pairs (p, p') of M's nodes, √(g_p g_p'); higher degrees as if M were isotropic."""
    one = np.ones((neurons.A.size, 1)), np.ones(1)
    if not paired:
        return Sector(dim, K, *one, h, *one)
    return Sector(dim, K, *_pairs(neurons.bulk, neurons.share), h, *_pairs(neurons.teacher, neurons.teacher_share))


def _pairs(strength: Array, share: Array) -> tuple[Array, Array]:
    i, j = np.tril_indices(share.size)
    return strength[:, i] * strength[:, j], share[i] * share[j] * np.where(i == j, 1, 2)


def _memory(
    problem: Problem,
    learned: LearnedDirection,
    law: Strength | None,
    neurons: _Neurons,
    parts: Array,
    teacher: Array,
    linear: Sector,
) -> tuple[Means, Sector]:
    """The special sector on f, f·xᵀMx/d and f·ζ, averaged over r̄ by three points; and sector 1 less what is in it."""
    e, zero = parts[-1], np.zeros_like(parts[-1])
    independent, cases = [], [(1.0, zero, zero)]
    if law is not None:
        tau = problem.eta * neurons.A / np.sqrt(problem.N)
        noise = direction(problem).residual_power / problem.step_samples  # E r²/n
        lengthened = e * (2 * tau * neurons.aside / neurons.v)[:, None]
        shared = law.quadratic * lengthened
        root = np.sqrt(3 * noise)
        cases = [(p, g * shared, np.sqrt(2 * noise) * shared) for g, p in ((0.0, 2 / 3), (root, 1 / 6), (-root, 1 / 6))]
        own = np.sqrt(noise * _own_slope(problem.sigma)) * lengthened
        independent.append(np.concatenate([own, zero, zero], axis=1))
    C = _coupling(problem, learned, law, neurons.A)
    kick = linear.K * (C * neurons.omega / np.sqrt(neurons.along * neurons.v))[:, None]
    if law is not None:
        kick = kick + linear.K * (tau * _cubic(problem, learned, neurons.omega)[1] / np.sqrt(neurons.v))[:, None]
    left = neurons.along_e - C**2 / neurons.along  # variance of w·e given ω, times d
    length, unlearned = _length(problem, learned), learned.overlap**2 < 1 - 1e-9
    if length.across > 0 and unlearned:
        # ℓ·w, which |w_j|² moves with, and w·e, both given ω
        spread = np.sqrt(np.maximum(length.along**2 + length.across**2 - length.along**2 / neurons.along, 1e-300))
        on_e = (length.across * length.cosine - C * length.along / neurons.along) / spread
        on_e = np.clip(on_e, -np.sqrt(np.maximum(left, 0)), np.sqrt(np.maximum(left, 0)))
        moved = e * (neurons.A / np.sqrt(problem.N * problem.d) * spread / neurons.aside)[:, None]
        weight = linear.K * (on_e * np.sqrt(neurons.aside / neurons.v / linear.dim))[:, None]
        independent.append(np.concatenate([moved, zero, weight], axis=1))
        left = left - on_e**2
    kept = np.clip(left / neurons.along_e, 0.0, 1.0)
    means = Means(
        tuple((p, np.concatenate([parts[0] + moved, form, kick], axis=1)) for p, moved, form in cases),
        tuple(independent),
        np.concatenate([teacher[0], np.zeros_like(teacher[0]), teacher[1]]),
        carried=True,
    )
    return means, replace(linear, teacher_strength=linear.teacher_strength * kept[:, None])


def _coupling(problem: Problem, learned: LearnedDirection, law: Strength | None, A: Array) -> Array:
    """C = 2ντ t̂ᵀMe + ν²τ² t̂ᵀM²e, d times the covariance of a neuron's weights along t̂ and e after the step."""
    if law is None or law.learned is None or learned.overlap**2 > 1 - 1e-9:
        return np.zeros_like(A)
    first, second = _cross_moments(problem, learned)
    tau = problem.eta * A / np.sqrt(problem.N)
    return 2 * law.quadratic * tau * first + (law.quadratic * tau) ** 2 * (second + 2 * law.shift * first)


def _cubic(problem: Problem, learned: LearnedDirection, omega: Float[Array, "k"]) -> tuple[Array, Array]:
    """What degree three of σ adds to the mean gradient of a neuron along t̂ and along e, the mean over w·e taken.

    E[r 3c₃H₂(w·x)x] = 6c₃(w·g)w + 18c₃(c⋆₃(w·β⋆)²β⋆ − c₃p/d),   g = c⋆₁β⋆ − c₁p (full) or c⋆₁β⋆ (labels).
    """
    c1, c3 = problem.sigma.coefficients[[1, 3]] if problem.gradient == "full" else (0.0, problem.sigma.coefficients[3])
    star1, star3 = problem.target.coefficients[[1, 3]]
    overlap, tilt, d = learned.overlap, learned.tilt, problem.d
    unlearned = np.sqrt(max(1 - overlap**2, 0.0))
    p_on_e = -overlap * tilt / unlearned if unlearned > 1e-5 else 0.0
    square = overlap**2 * omega**2 + unlearned**2 / d  # E (w·β⋆)² given ω
    own = 3 * c3 if c1 else 0.0
    along = 6 * (star1 * overlap - c1 * tilt) * omega**2 + 18 * star3 * square * overlap - 6 * own * tilt / d
    across = 6 * (star1 * unlearned - c1 * p_on_e) / d + 18 * star3 * square * unlearned - 6 * own * p_on_e / d
    return c3 * along, c3 * across


class _Length(NamedTuple):
    """A neuron's squared length before the step, less its part along a_j p, changes by a_j ℓ·w_j: ℓ along t̂, across it, and
    the cosine of what is across with e, the unlearned part of β⋆."""

    along: float
    across: float
    cosine: float


def _length(problem: Problem, learned: LearnedDirection) -> _Length:
    """ℓ = −2p, as |w_j| = 1 (rows on the sphere), and + 12 c₃η (c⋆₁β⋆ − c₁p), the gradient's part along w_j itself."""
    pull = 12 * problem.sigma.coefficients[3] * problem.eta
    star = pull * problem.target.coefficients[1]
    output = -2.0 * (problem.weights == "sphere") if learned.through_output else 0.0
    if problem.gradient == "full":
        output -= pull * problem.sigma.coefficients[1]
    overlap, tilt = learned.overlap, learned.tilt  # p·t̂; p and β⋆ are orthogonal
    along = star * overlap + output * tilt
    across = np.sqrt(max(star**2 + output**2 - along**2, 0.0))
    unlearned = np.sqrt(max(1 - overlap**2, 0.0))
    on_e = star * unlearned - output * overlap * tilt / unlearned if unlearned > 1e-5 else 0.0
    return _Length(along, across, float(np.clip(on_e / across, -1, 1)) if across > 0 else 0.0)


def _cross_moments(problem: Problem, learned: LearnedDirection) -> tuple[float, float]:
    """t̂ᵀMe and t̂ᵀM²e from the spectral transforms of M, e = (β⋆ − ϱ t̂)/√(1 − ϱ²)."""
    noise = gradient_noise(problem)
    straight, overlap = 1 - learned.tilt**2, learned.overlap
    along = straight * noise.beta + learned.tilt**2 * noise.bulk
    transform = (np.sqrt(straight) * noise.cross - overlap * along) / np.sqrt(1 - overlap**2)
    density = np.imag(transform) * np.gradient(noise.x) / np.pi
    return float(density @ noise.x), float(density @ noise.x**2)


def _own_slope(sigma: Function) -> float:
    """Eψ² − ψ₀² − ψ₁² of ψ(g) = g σ'(g)."""
    x, w = sigma.rule
    p = w * gauss_density(x)
    psi = x * sigma.derivative(x)
    return max(float(p @ psi**2 - (p @ psi) ** 2 - (p @ (psi * x)) ** 2), 0.0)
