"""How heavy the tails are that a theory of means has to average out: those of the features and those of the residuals."""

from __future__ import annotations

import numpy as np

from onestride._numerics import Array, gauss_density
from onestride.functions import Function
from onestride.problem import Problem
from onestride.theory.direction import direction
from onestride.theory.profile.gradient_noise import signal_of


def nonlinear_tails(sigma: Function, spread: float) -> tuple[float, float]:
    """κ = E s⁴/(E s²)² of the nonlinear part s of σ(z), and E s² of σ(√(1 + f) z) relative to it; (0, 1) when s = 0."""
    x, w = sigma.rule

    def nonlinear(v: float) -> tuple[Array, Array]:
        p = w * gauss_density(x / np.sqrt(v)) / np.sqrt(v)
        centred = sigma(x) - p @ sigma(x)
        return p, centred - (p @ (centred * x)) / v * x

    p, s = nonlinear(1.0)
    power = float(p @ s**2)
    if power <= 1e-12 * sigma.second_moment:
        return 0.0, 1.0
    wide, grown = nonlinear(1 + spread)
    return float(p @ (s / np.sqrt(power)) ** 4), float(wide @ grown**2) / power


def residual_kurtosis(problem: Problem) -> float:
    """E r⁴/(E r²)² of labels plus a Gaussian output and noise."""
    signal = signal_of(problem.target)
    g, w = signal.g, signal.weight
    square, other = float(w @ g**2), direction(problem).residual_power - float(w @ g**2)
    return float(w @ g**4 + 6 * square * other + 3 * other**2) / (square + other) ** 2 if square + other > 0 else 3.0
