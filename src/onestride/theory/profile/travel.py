"""Where several steps take the neurons, on fresh batches or on one, and how large they may be.

Descent of the squared loss is stable while what is linear in it shrinks. On fresh batches t = Wᵀa follows
t ← (1 − c₁²η) t + c₁η (c⋆₁β⋆ + ν), |ν|² = φ₀E r², and E r² holds c₁²|t|²; on one batch the residuals follow r ← (1 − ηK) r,
K = c₁² XXᵀ/n + φ₀ Var σ', whose largest eigenvalue is c₁²(1 + √φ₀)² + φ₀ Var σ':

    fresh     (1 − c₁²η)² + φ₀(c₁²η)² ≤ 1,  that is  c₁²η ≤ 2/(1 + φ₀)
    reused    c₁²η ≤ 2/((1 + √φ₀)² + φ₀ Var σ'/c₁²);  with Σ for (1 + √φ₀)² the upper end of the spectrum of XXᵀ/n
    Σ         (fresh) Σ_p φ₀c₁²ηλ_p/(2 − c₁²ηλ_p) ≤ d: t along the eigenvector of λ follows the first line with λη for η, c₁²Σ_p λ_pt_p² in E r²

Beyond, the residual grows from step to step. The gradient of labels knows no such bound.
"""

# pyright: reportMissingTypeStubs=false
from __future__ import annotations

from functools import lru_cache
from typing import cast

import numpy as np
from scipy.optimize import brentq  # pyright: ignore[reportUnknownVariableType]

from onestride.functions import Function
from onestride.problem import Problem
from onestride.result import TheoryError
from onestride.theory.profile.anisotropy import Sigma
from onestride.theory.profile.correlated import travel_correlated
from onestride.theory.profile.correlated_again import travel_correlated_again
from onestride.theory.profile.one_neuron import Path, travel_fresh
from onestride.theory.profile.same_samples import travel_again

# steepness in A up to which 31 nodes of A give errors to 1e-3 (tanh, 2 to 10 steps of √n); 5 % off at twice it without crowding
_STEEP = 3.1


def travel(problem: Problem, nodes: int = 31) -> Path:
    """Follow the neurons through the problem's steps; `TheoryError` where numbers leave the range of floating point."""
    try:
        return _travel(problem.replace(ridge=1.0), problem.sigma, problem.target, nodes)  # pyright: ignore[reportArgumentType]
    except np.linalg.LinAlgError:
        steps = "a step" if problem.steps == 1 else f"{problem.steps} steps"
        raise TheoryError(f"in the course of {steps} of this size numbers leave the range of floating point") from None


@lru_cache(maxsize=16)  # seven sizes of a step on two numbers of nodes (`diagnose`)
def _travel(problem: Problem, sigma: Function, target: Function, nodes: int) -> Path:
    """The path serves every penalty; the functions are named since a registered name may change its meaning."""
    assert (sigma, target) == (problem.sigma, problem.target)
    if not problem.law.isotropic:
        return travel_turned(problem, nodes)
    follow = travel_again if problem.batch == "reused" and problem.steps > 1 else travel_fresh
    path = follow(problem, nodes)
    steepness = path.steepness
    return path if not steepness > _STEEP else follow(problem, nodes, 1 / steepness)


def travel_turned(problem: Problem, nodes: int = 31, sigma: Sigma | None = None) -> Path:
    """The same for inputs with a covariance, or for another draw of it."""
    reused = problem.batch == "reused" and problem.steps > 1
    return (travel_correlated_again if reused else travel_correlated)(problem, nodes, sigma)


def leading_overlap(problem: Problem) -> float:
    """(vᵀβ⋆)² of the leading right singular vector v of W − W₀: all of L but the A/√N along p that were there before."""
    end = travel(problem).end
    p = np.append(end.output, np.sqrt(max(1 - end.output @ end.output, 0.0)))  # some of it on none of L's directions
    change = np.pad(end.L, ((0, 0), (0, 1))) - np.outer(end.A / np.sqrt(problem.N), p)
    return float(np.linalg.svd(np.sqrt(end.weight)[:, None] * change, full_matrices=False)[2][0, 0] ** 2)


def stable(problem: Problem) -> float:
    """The largest c₁²η that leaves descent with the literal gradient stable."""
    phi0, sigma = problem.d / problem.step_samples, problem.sigma
    if problem.batch == "fresh":
        return 2 / (1 + phi0) if problem.law.isotropic else _stable_under(problem, phi0)
    linear = sigma.coefficients[1] ** 2
    edge = (1 + np.sqrt(phi0)) ** 2 if problem.law.isotropic else _edge_under(problem, phi0)
    return float(2 * linear / (edge * linear + phi0 * sigma.derivative_variance))


def _edge_under(problem: Problem, phi0: float) -> float:
    """The largest eigenvalue of XXᵀ/n: the least of 1/s + φ₀ Σ_p λ_p/(1 − sλ_p)/d over s below one over the largest λ."""
    assert problem.law.eigenvalues is not None
    lam = problem.law.eigenvalues(problem.d)

    def slope(s: float) -> float:
        return phi0 * float(np.mean((s * lam / (1 - s * lam)) ** 2)) - 1

    s = cast("float", brentq(slope, 0.0, (1 - 1e-12) / float(lam.max()), xtol=1e-15))
    return float(1 / s + phi0 * np.mean(lam / (1 - s * lam)))


def _stable_under(problem: Problem, phi0: float) -> float:
    """The root of Σ_p φ₀xλ_p/(2 − xλ_p) = d."""
    assert problem.law.eigenvalues is not None
    lam = problem.law.eigenvalues(problem.d)

    def excess(x: float) -> float:
        return phi0 * float(np.mean(x * lam / (2 - x * lam))) - 1

    return cast("float", brentq(excess, 0.0, 2 / float(lam.max()) * (1 - 1e-12)))
