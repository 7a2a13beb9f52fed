"""How heavy the tails are that a theory of means has to average out: those of features, of residuals, and of inputs that are not Gaussian."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from onestride._numerics import Array, gauss_density
from onestride.functions import Function
from onestride.inputs import excess_kurtosis
from onestride.problem import Problem
from onestride.theory.direction import direction
from onestride.theory.profile.gradient_noise import signal_of


def nonlinear_tails(sigma: Function, spread: float) -> tuple[float, float]:
    """κ = E s⁴/(E s²)² of the nonlinear part s of σ(z), and E s² of σ(√(1 + f) z) relative to it; (0, 1) when s = 0."""
    power, kurtosis = _untrained_tails(sigma)
    if power <= 1e-12 * sigma.second_moment:
        return 0.0, 1.0
    p, s = _nonlinear(sigma, 1 + spread)
    return kurtosis, float(p @ s**2) / power


@lru_cache(maxsize=64)
def _untrained_tails(sigma: Function) -> tuple[float, float]:
    """E s² and κ."""
    p, s = _nonlinear(sigma, 1.0)
    power = float(p @ s**2)
    return power, float(p @ (s / np.sqrt(power)) ** 4) if power > 0 else 0.0


def _nonlinear(sigma: Function, v: float) -> tuple[Array, Array]:
    """Probabilities of z ~ N(0, v), and the nonlinear part of σ there."""
    x, w = sigma.rule
    p, values = w * gauss_density(x / np.sqrt(v)) / np.sqrt(v), sigma(x)
    centred = values - p @ values
    return p, centred - (p @ (centred * x)) / v * x


def residual_kurtosis(problem: Problem) -> float:
    """E r⁴/(E r²)² of labels plus a Gaussian output and noise."""
    signal = signal_of(problem.target)
    g, w = signal.g, signal.weight
    square, other = float(w @ g**2), direction(problem).residual_power - float(w @ g**2)
    return float(w @ g**4 + 6 * square * other + 3 * other**2) / (square + other) ** 2 if square + other > 0 else 3.0


def changed_by_entries(problem: Problem) -> float:
    """How independent entries of excess kurtosis κ change the power that no linear predictor reaches, noise included, relative to it.

    z⋆ = β⋆·x has fourth cumulant κ₄ = κ E Σ_i β⋆_i⁴ = 3κ/(d + 2) then, and E f(z⋆) is E f + κ₄ E[f H₄]/24 of a Gaussian to first order.
    """
    target = problem.target
    assert isinstance(target, Function), "one direction"
    power = target.nonlinear_power + problem.noise**2
    x, w = target.rule
    seen = w * gauss_density(x) * (x**4 - 6 * x**2 + 3) / 24
    g = target(x)
    change = float(seen @ g**2 - 2 * target.coefficients[1] * (seen @ (g * x)))
    return 3 * excess_kurtosis(problem.law) / (problem.d + 2) * change / power if power > 0 else 0.0
