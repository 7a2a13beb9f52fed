"""The direction the gradient finds: β = Xᵀr/n, its length s and its overlap with the teacher.

The residual r is y − f₀(x) for the literal gradient and y for the labels-only one, so with φ₀ = d/n_step

    s² = |β|² = c⋆₁² + φ₀ E r² (+ c₁² in full mode),      E r² = E σ⋆² + σ_ε² (+ Var f₀ − 2 Cov(σ⋆, f₀) in full mode).

With a random readout the covariance vanishes; with a_j = 1/√N the neurons' quadratic parts add up to c₂√N(|x|²/d − 1),
which sees the teacher's, Cov(σ⋆, f₀) = 2c⋆₂c₂√N/d.

A teacher g of several directions has C = |E[g z]| for c⋆₁, E g² for E σ⋆², tr E[g H₂(z)] for 2c⋆₂, and the overlap is that of β
with its mean direction E[g z]; with all directions across that one it is 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from onestride.problem import Problem


@dataclass(frozen=True)
class Direction:
    """Length s of β, its overlap with β⋆ (the teacher's mean direction), and the power E r² of the residual."""

    s: float
    overlap: float
    residual_power: float
    output_power: float


def direction(problem: Problem) -> Direction:
    """The limits of |β|, β⋆ᵀβ/|β| and E r²."""
    sigma, target = problem.sigma, problem.target
    c1, teacher_c1 = sigma.coefficients[1], target.coefficients[1]
    full = problem.gradient == "full"
    output_power = output_variance(problem) if full else 0.0
    shared = float(np.trace(target.tensor(2))) * sigma.coefficients[2] * math.sqrt(problem.N) / problem.d
    if not (full and problem.readout == "constant"):
        shared = 0.0
    residual_power = float(target.second_moment + problem.noise**2 + output_power - 2 * shared)
    s2 = teacher_c1**2 + problem.d / problem.step_samples * residual_power + (c1**2 if full else 0.0)
    s = float(np.sqrt(s2))
    return Direction(s, float(teacher_c1 / s) if s > 0 else 0.0, residual_power, output_power)


def output_variance(problem: Problem) -> float:
    """Var f₀(x) of the untrained network: E σ², and with a constant readout 2c₂²N/d more.

    Σ_j a_j H₂(w_jᵀx) has random signs for a random readout; with a_j = 1/√N it adds up to √N(|x|²/d − 1).
    """
    sigma = problem.sigma
    extra = 2 * sigma.coefficients[2] ** 2 / problem.psi if problem.readout == "constant" else 0.0
    return sigma.second_moment + extra


def without_a_direction(problem: Problem) -> str | None:
    """Why a step learns no direction of this teacher, where E[y z] = 0; None where it is not, or there is no step."""
    if problem.eta == 0 or problem.target.coefficients[1] != 0 or problem.target.second_moment == 0:
        return None
    which = "its direction" if problem.directions == 1 else "any of its directions"
    return (
        f"the teacher has E[y z] = 0, so that the gradient does not point along {which}: the learned direction has overlap 0 with "
        "it, and one step learns nothing of it while n, d and N are of one order"
    )
