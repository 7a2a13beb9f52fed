"""What the step's gradient is made of when inputs have random lengths, x = ℓ Σ^{1/2} g: averages over ℓ.

A neuron sees σ(ℓu), u ~ N(0, 1), the teacher σ⋆(ℓz⋆), and with k₀(ℓ) = E σ'(ℓu), k₂(ℓ) = E σ''(ℓu), v(ℓ) = Var σ'(ℓu) and the
residual r = σ⋆(ℓz⋆) + N(0, σ_ε² + E σ(ℓu)²) (labels: without the last) the three orders of the gradient in w have the weights

    rank one      q = r ℓ k₀/c₁,      C⋆ = E ℓ²k₀ σ⋆'(ℓz⋆),   C_p = E ℓ²k₀²
    M             ρ = r ℓ²k₂/ν̄,       ν̄² = E r²ℓ⁴k₂²/E r²
    the rest      r²ℓ²v,              together of the variance V̄ = E r²ℓ²v/E r²

in the places of r, c₁c⋆₁, c₁², r, 2c₂, r² and Var σ', which they are for ℓ = 1. Lengths are heavy-tailed: n samples see the n
mid-quantiles of their law, in bins of log ℓ.
"""

# pyright: reportMissingTypeStubs=false
from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import gammaincinv, roots_hermitenorm

from onestride._numerics import Array, Float, adapted_rule, gauss_density
from onestride.functions import Function
from onestride.problem import Problem, Step
from onestride.theory.direction import direction
from onestride.theory.profile.gradient_noise import SpectralNodes, compressed, noise_of, one_direction

_BINS = 14  # of log ℓ


class StepLaw(NamedTuple):
    """star, own: C⋆/c₁ and C_p/c₁ (0 for labels). batch: E q². power: E r². quadratic: ν̄. slope: V̄.

    mean, square: moments of ρ and of the rest's weight with (z⋆, q/E q²): 2 × 2, the part of an isotropic matrix taken off.
    """

    star: float
    own: float
    batch: float
    power: float
    quadratic: float
    slope: float
    mean: Float[Array, "2 2"]
    square: Float[Array, "2 2"]


@lru_cache(maxsize=64)
def length_rule(freedom: float | None, n: int) -> tuple[Float[Array, "l"], Float[Array, "l"]]:
    """Nodes and probabilities of ℓ, ℓ² = (f − 2)/χ²_f, as n samples see it; ℓ = 1 without freedom."""
    if freedom is None:
        return np.ones(1), np.ones(1)
    square: Array = (freedom - 2) / (2 * gammaincinv(freedom / 2, (np.arange(n) + 0.5) / n))
    x = np.log(square)
    group = np.minimum((x - x.min()) / np.ptp(x) * _BINS, _BINS - 1).astype(int)
    group = np.unique(group, return_inverse=True)[1]
    count = np.bincount(group)
    return np.sqrt(np.bincount(group, square) / count), count / n


class _Slopes(NamedTuple):
    """E f(ℓu)², k₀, k₂ and v of a function at one ℓ."""

    power: float
    first: float
    second: float
    variance: float


def _slopes(f: Function, length: float) -> _Slopes:
    x, w = f.rule
    u = x / length
    w = w * gauss_density(u) / length
    values = f(x)
    first, second = float(w @ (values * u)) / length, float(w @ (values * (u * u - 1))) / length**2
    y, wy = adapted_rule(f.derivative)
    wy = wy * gauss_density(y / length) / length
    return _Slopes(float(w @ values**2), first, second, max(float(wy @ f.derivative(y) ** 2) - first**2, 0.0))


def step_law(problem: Problem) -> StepLaw:
    """The averages of this problem's step."""
    return _step_law(problem.replace(ridge=1.0, step=Step.none()), problem.sigma, problem.target)  # pyright: ignore[reportArgumentType]


def moved_law(problem: Problem) -> SpectralNodes:
    """The law of M for the bulk, where lengths are random: that of a residual ρ."""
    return _moved_law(problem.replace(ridge=1.0, step=Step.none()), problem.sigma, problem.target)  # pyright: ignore[reportArgumentType]


@lru_cache(maxsize=16)
def _moved_law(problem: Problem, sigma: Function, target: Function) -> SpectralNodes:
    law, samples = step_law(problem), list[tuple[Array, Array, Array]]()
    lengths, weights = length_rule(problem.law.freedom, problem.step_samples)
    g, wg = roots_hermitenorm(12)
    for length, weight in zip(lengths, weights, strict=True):
        power, _, k2, _ = _slopes(sigma, float(length))
        z, w = target.rule
        z, w, y = z / length, weight * w * gauss_density(z / length) / length, target(z)
        z, w, y = z[w > 1e-12], w[w > 1e-12], y[w > 1e-12]
        extra = problem.noise**2 + (power if problem.gradient == "full" else 0.0)
        r = (y[:, None] + np.sqrt(extra) * g) * (length**2 * k2 / (law.quadratic or 1.0))
        samples.append((r.ravel(), np.repeat(z, g.size), np.outer(w, wg / wg.sum()).ravel()))
    r, z, w = (np.concatenate(parts) for parts in zip(*samples, strict=True))
    residual = compressed(one_direction(r, z, w / w.sum()))
    noise = noise_of(residual, law.power, law.star, problem.d / problem.step_samples)
    return noise.bulk_law()


@lru_cache(maxsize=16)
def _step_law(problem: Problem, sigma: Function, target: Function) -> StepLaw:
    c1, full = sigma.coefficients[1], problem.gradient == "full"
    lengths, weights = length_rule(problem.law.freedom, problem.step_samples)
    rows: list[Array] = []
    for length, weight in zip(lengths, weights, strict=True):
        power, k0, k2, variance = _slopes(sigma, float(length))
        z, w = target.rule
        z, y = z / length, target(z)
        w = weight * w * gauss_density(z) / length
        extra = problem.noise**2 + (power if full else 0.0)
        if problem.law.freedom is None:
            extra = direction(problem).residual_power - target.second_moment
        fixed = (length, k0, k2, variance, extra)
        rows.append(np.stack([w, z, y, *(np.full_like(z, value) for value in fixed)]))
    w, z, y, length, k0, k2, variance, extra = np.concatenate(rows, axis=1)
    r1, r2, r3, r4 = y, y**2 + extra, y**3 + 3 * y * extra, y**4 + 6 * y**2 * extra + 3 * extra**2
    power, q, kappa = float(w @ r2), length * k0 / c1, length**2 * k2
    nu, slope = (
        np.sqrt(float(w @ (kappa**2 * r2)) / (power or 1.0)),
        float(w @ (length**2 * variance * r2)) / (power or 1.0),
    )
    batch = float(w @ (q**2 * r2))
    nu = nu * (np.sign(sigma.coefficients[2]) or 1.0)
    rho, rest = kappa / (nu or 1.0), length**2 * variance / (slope or 1.0)
    star = float(w @ (q * z * y))
    mean = _moments(w, z, (rho * r1, rho * q * r2, rho * q**2 * r3), batch)
    square = _moments(w, z, (rest * r2, rest * q * r3, rest * q**2 * r4), batch)
    if problem.law.freedom is not None:  # with z⋆ and q of higher powers of ℓ than the fourth they do not exist
        mean[1, 1] = square[0, 1] = square[1, 0] = square[1, 1] = 0.0
    own = float(w @ (length**2 * k0**2)) / c1 if full else 0.0
    return StepLaw(star, own, batch, power, float(nu), slope, mean, square)


def _moments(w: Array, z: Array, weight: tuple[Array, Array, Array], batch: float) -> Float[Array, "2 2"]:
    """E x(z² − 1), E x q z/E q² and E x q²/(E q²)²."""
    across, batch = float(w @ (weight[1] * z)), batch or 1.0
    return np.array(
        [[float(w @ (weight[0] * (z * z - 1))), across / batch], [across / batch, float(w @ weight[2]) / batch**2]]
    )
