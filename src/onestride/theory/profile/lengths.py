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
from scipy.special import gammaincinv

from onestride._numerics import Array, Float, adapted_rule, gauss_density
from onestride.functions import Function
from onestride.problem import Problem, Step
from onestride.teachers import Target, Teacher
from onestride.theory.direction import direction
from onestride.theory.profile.gradient_noise import (
    Signal,
    SpectralNodes,
    compressed,
    grouped,
    noise_of,
    noisy,
    one_direction,
)

_BINS = 14  # of log ℓ
_ROUNDING = 1e-13
FEW = 8  # of them in a batch of several steps: errors move by 0.1 %


class StepLaw(NamedTuple):
    """star (one for each direction of the teacher), own: C⋆/c₁ and C_p/c₁ (0 for labels). batch: E q². power: E r². quadratic: ν̄.
    slope: V̄.

    mean, square: moments of ρ and of the rest's weight with (z⋆, q/E q²), the part of an isotropic matrix taken off.
    """

    star: Float[Array, "k"]
    own: float
    batch: float
    power: float
    quadratic: float
    slope: float
    mean: Float[Array, "b b"]
    square: Float[Array, "b b"]


@lru_cache(maxsize=64)
def length_rule(freedom: float | None, n: int, bins: int = _BINS) -> tuple[Float[Array, "l"], Float[Array, "l"]]:
    """Nodes and probabilities of ℓ, ℓ² = (f − 2)/χ²_f, as n samples see it; ℓ = 1 without freedom."""
    if freedom is None:
        return np.ones(1), np.ones(1)
    square: Array = (freedom - 2) / (2 * gammaincinv(freedom / 2, (np.arange(n) + 0.5) / n))
    x = np.log(square)
    group = np.minimum((x - x.min()) / np.ptp(x) * bins, bins - 1).astype(int)
    group = np.unique(group, return_inverse=True)[1]
    count = np.bincount(group)
    return np.sqrt(np.bincount(group, square) / count), count / n


def row_lengths(problem: Problem, *, sampled: bool) -> tuple[Float[Array, "l"], Float[Array, "l"]]:
    """Nodes and probabilities of ℓ for the rows: as n samples see it where they are `sampled`, as their spectrum is; else of the law itself.

    Rows that are judged, and in few draws those of the fit, are longer than any of n samples, and errors are means over both. One node more, which
    takes its probability from the shortest, gives E ℓ² = 1 and E ℓ⁴ = (f − 2)/(f − 4): far out errors are quadratic in ℓ², or have no
    mean (`without_a_mean`).
    """
    freedom = problem.law.freedom
    lengths, weights = length_rule(freedom, problem.n)
    if sampled or freedom is None or freedom <= 4:
        return lengths, weights
    first, second = 1 - weights @ lengths**2, (freedom - 2) / (freedom - 4) - weights @ lengths**4
    longer, short = float(first**2 / second), np.zeros(weights.size)
    short[0] = min(longer, float(weights[0]) / 2)
    return np.append(lengths, np.sqrt(second / first)), np.append(weights - short, longer)


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


def without_a_mean(problem: Problem) -> str | None:
    """Which of teacher and activation grows too fast for errors to have a mean, E ℓ^{2k} = ∞ from 2k = f on; None where neither does."""
    freedom = problem.law.freedom
    assert freedom is not None
    each = {"the teacher": problem.target.growth, f"activation {problem.sigma.name!r}": problem.sigma.growth}
    name = max(each, key=lambda one: each[one])
    return name if 2 * each[name] >= freedom or freedom <= 4 else None


def quartic_share(problem: Problem) -> float:
    """Share of E y², or of E σ² if that is larger, that goes like ℓ⁴: of a + bℓ² + cℓ⁴ at ℓ = 1, 2, 3 it is cE ℓ⁴/(a + b + cE ℓ⁴)."""
    freedom = problem.law.freedom
    assert freedom is not None
    fourth, shares = (freedom - 2) / (freedom - 4), list[float]()
    labels = [_labels(problem.target, length) for length in (1.0, 2.0, 3.0)]
    for powers in (
        [float(one.w @ one.y**2) for one in labels],
        [_slopes(problem.sigma, l).power for l in (1.0, 2.0, 3.0)],
    ):
        c = ((powers[2] - powers[1]) / 5 - (powers[1] - powers[0]) / 3) / 8
        shares.append(fourth * c / (powers[0] + (fourth - 1) * c) if c > 0 else 0.0)
    return max(shares)


def output_of_lengths(problem: Problem) -> float:
    """Power of √N E σ(ℓu), the output of equal readouts 1/√N before the step, over lengths ℓ."""
    lengths, weights = length_rule(problem.law.freedom, problem.step_samples)
    x, w = problem.sigma.rule
    mean = np.array([w @ (problem.sigma(x) * gauss_density(x / length)) / length for length in lengths])
    return float(problem.N * (weights @ mean**2))


def moved_law(problem: Problem) -> SpectralNodes:
    """The law of M for the bulk, where lengths are random: that of a residual ρ."""
    return _moved_law(problem.replace(ridge=1.0, step=Step.none()), problem.sigma, problem.target)  # pyright: ignore[reportArgumentType]


class _Labels(NamedTuple):
    """The teacher at one length: nodes u of its (turned) coordinates, labels and probabilities."""

    u: Float[Array, "m k"]
    y: Float[Array, "m"]
    w: Float[Array, "m"]


def _labels(target: Target, length: float) -> _Labels:
    """σ⋆(ℓz⋆), or g(ℓu)."""
    if isinstance(target, Teacher):
        _, u, w = target.turned
        return _Labels(u, target.at(length * u), w)
    z, w = target.rule
    return _Labels((z / length)[:, None], target(z), w * gauss_density(z / length) / length)


@lru_cache(maxsize=16)
def _moved_law(problem: Problem, sigma: Function, target: Target) -> SpectralNodes:
    law, samples = step_law(problem), list[Signal]()
    lengths, weights = length_rule(problem.law.freedom, problem.step_samples)
    for length, weight in zip(lengths, weights, strict=True):
        power, _, k2, _ = _slopes(sigma, float(length))
        u, y, w = _labels(target, float(length))
        kept = weight * w > 1e-12
        labels = (
            grouped(one_direction(y[kept], u[kept, 0], w[kept]))
            if u.shape[1] > 1
            else one_direction(y[kept], u[kept, 0], w[kept])
        )
        extra = problem.noise**2 + (power if problem.gradient == "full" else 0.0)
        signal = noisy(labels, extra, 12)
        samples.append(
            signal._replace(g=signal.g * (length**2 * k2 / (law.quadratic or 1.0)), weight=weight * signal.weight)
        )
    signal = Signal(*(np.concatenate(parts) for parts in zip(*samples, strict=True)))
    residual = compressed(signal._replace(weight=signal.weight / signal.weight.sum()))
    noise = noise_of(residual, law.power, float(law.star[0]), problem.d / problem.step_samples)
    return noise.bulk_law()


class _Powers(NamedTuple):
    """E r^j (first axis j = 1 … 4), E r^j u and E r^j (uuᵀ − I) at one length, r = y + N(0, extra)."""

    plain: Float[Array, "4"]
    once: Float[Array, "4 k"]
    twice: Float[Array, "4 k k"]


def _powers(labels: _Labels, extra: float) -> _Powers:
    u, y, w = labels
    r = w * np.stack([y, y**2 + extra, y**3 + 3 * y * extra, y**4 + 6 * y**2 * extra + 3 * extra**2])
    plain = r.sum(1)
    return _Powers(plain, r @ u, np.stack([(u.T * row) @ u for row in r]) - plain[:, None, None] * np.eye(u.shape[1]))


@lru_cache(maxsize=16)
def _step_law(problem: Problem, sigma: Function, target: Target) -> StepLaw:
    c1, full = sigma.coefficients[1], problem.gradient == "full"
    lengths, weights = length_rule(problem.law.freedom, problem.step_samples)
    slopes, powers = [_slopes(sigma, float(length)) for length in lengths], list[_Powers]()
    for length, slope in zip(lengths, slopes, strict=True):
        extra = problem.noise**2 + (slope.power if full else 0.0)
        if problem.law.freedom is None:
            extra = direction(problem).residual_power - target.second_moment
        powers.append(_powers(_labels(target, float(length)), extra))
    first, second, variance = (
        np.array([getattr(slope, name) for slope in slopes]) for name in ("first", "second", "variance")
    )
    plain, once, twice = (np.stack(part, axis=1) for part in zip(*powers, strict=True))  # power of r × length
    linear = abs(c1) > _ROUNDING * np.sqrt(sigma.second_moment)  # k₀ is known to that
    relative = (
        first / c1 if linear and problem.law.freedom is not None else np.ones_like(first)
    )  # 1 without random lengths
    q, kappa, private = lengths * relative, lengths**2 * second, lengths**2 * variance
    power, batch = float(weights @ plain[1]), float((weights * q**2) @ plain[1])
    nu = np.sqrt(float((weights * kappa**2) @ plain[1]) / (power or 1.0)) * (np.sign(sigma.coefficients[2]) or 1.0)
    slope = float((weights * private) @ plain[1]) / (power or 1.0)

    def moments(weight: Array, j: int) -> Array:
        """E x(uuᵀ − I), E x q u/E q² and E x q²/(E q²)² of x = weight r^j."""
        across, weight = (weights * weight * q) @ once[j] / (batch or 1.0), weights * weight
        last = float((weight * q**2) @ plain[j + 1]) / (batch or 1.0) ** 2
        return np.block([[np.tensordot(weight, twice[j - 1], 1), across[:, None]], [across, np.array(last)]])

    mean, square = moments(kappa / (nu or 1.0), 1), moments(private / (slope or 1.0), 2)
    if problem.law.freedom is not None:  # with z⋆ and q of higher powers of ℓ than the fourth they do not exist
        mean[-1, -1] = 0.0
        square[-1], square[:, -1] = 0.0, 0.0
    own = float((weights * lengths**2) @ (first * relative)) if full else 0.0
    return StepLaw((weights * q) @ once[0], own, batch, power, float(nu), slope, mean, square)
