"""Where several steps take the neurons, on fresh batches or on one, and how large they may be.

Descent of the squared loss is stable while what is linear in it shrinks. On fresh batches t = Wᵀa follows
t ← (1 − c₁²η) t + c₁η (c⋆₁β⋆ + ν), |ν|² = φ₀E r², and E r² holds c₁²|t|²; on one batch the residuals follow r ← (1 − ηK) r,
K = c₁² XXᵀ/n + φ₀ Var σ', whose largest eigenvalue is c₁²(1 + √φ₀)² + φ₀ Var σ':

    fresh     (1 − c₁²η)² + φ₀(c₁²η)² ≤ 1,  that is  c₁²η ≤ 2/(1 + φ₀)
    reused    c₁²η ≤ 2/((1 + √φ₀)² + φ₀ Var σ'/c₁²)

Beyond, the residual grows from step to step. The gradient of labels knows no such bound.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from onestride.functions import Function
from onestride.problem import Problem
from onestride.theory.profile.one_neuron import Path, travel_fresh
from onestride.theory.profile.same_samples import travel_again


def travel(problem: Problem, nodes: int = 31) -> Path:
    """Follow the neurons through the problem's steps."""
    return _travel(problem.replace(ridge=1.0), problem.sigma, problem.target, nodes)  # pyright: ignore[reportArgumentType]


@lru_cache(maxsize=8)
def _travel(problem: Problem, sigma: Function, target: Function, nodes: int) -> Path:
    """The path serves every penalty; the functions are named since a registered name may change its meaning."""
    assert (sigma, target) == (problem.sigma, problem.target)
    again = problem.batch == "reused" and problem.steps > 1
    return travel_again(problem, nodes) if again else travel_fresh(problem, nodes)


def stable(problem: Problem) -> float:
    """The largest c₁²η that leaves descent with the literal gradient stable."""
    phi0, sigma = problem.d / problem.step_samples, problem.sigma
    if problem.batch == "fresh":
        return 2 / (1 + phi0)
    return float(2 / ((1 + np.sqrt(phi0)) ** 2 + phi0 * sigma.derivative_variance / sigma.coefficients[1] ** 2))
