"""`baselines`: what simpler predictors reach on the same problem; all test errors contain the label noise."""

# pyright: reportMissingTypeStubs=false
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar  # pyright: ignore[reportUnknownVariableType]

from onestride._html import table
from onestride.drawing import Panel, Series
from onestride.functions import InputError
from onestride.problem import Problem, Step, expect
from onestride.result import Result, Status
from onestride.table import Table
from onestride.theory.assumptions import beyond_the_model, needs_identity
from onestride.theory.density import resolves_degrees
from onestride.theory.direction import direction
from onestride.theory.predict import predict
from onestride.theory.profile.anisotropy import directions, draws, sigma_of
from onestride.theory.profile.degrees import build_untrained
from onestride.theory.profile.harmonics import multiplicity
from onestride.theory.profile.travel import leading_overlap
from onestride.theory.table.rows import linear_errors

BASELINES = ("random-features", "linear-ridge", "best-linear", "kernel", "direction-only", "bayes")
_ROUNDING = 1e-12  # of the labels' power: an error below is what the least penalty leaves of 0


@dataclass(frozen=True, repr=False)
class Baseline(Result):
    """The test error of a reference predictor and a sentence on what it is; the names of `Prediction`."""

    _told = ("method", "test_error", "status", "message")
    _brief = ("method", "test_error", "status")

    problem: Problem
    method: str
    test_error: float
    status: Status
    message: str

    def panels(self) -> Sequence[Panel]:
        """Its test error, above the noise."""
        series = [Series(self.method, [0], [self.test_error], kind="simulation")]
        noise = [(self.problem.noise**2, "noise")]
        return [Panel("baseline", "", "test error", series, horizontals=noise, xticks=[0], xnames=[self.method])]


class Baselines(dict[str, Baseline]):
    """Baselines by name; shown as a list of test errors."""

    def __repr__(self) -> str:
        return "\n  ".join(["Baselines: test errors", *(f"{name} {words}" for name, words in self._lines())])

    def _repr_html_(self) -> str:
        return table("Baselines, test error", self._lines())

    def _lines(self) -> list[tuple[str, str]]:
        return [(name, f"{one.test_error:.4g}: {one.message}") for name, one in self.items()]


def baselines(problem: Problem) -> Baselines:
    """Test errors of the predictors that a trained network should be measured against, by name.

    random-features   no step, the same ridge regression
    linear-ridge      ridge regression on the inputs, n samples, best penalty
    best-linear       the best linear function of x:       E σ⋆² − c⋆₁² + σ_ε²
    kernel            the lower bound of kernel methods, n ~ d:  the same number (Ba et al. 2022)
                      where degrees l ≥ 2 of power P_l are resolved:  Σ_l P_l (1 − n/B_l)₊ + σ_ε²
    direction-only    E[y | βᵀx]:                          Σ_k c⋆_k² k! (1 − ϱ^{2k}) + σ_ε²,  ϱ = β⋆ᵀβ/|β|
    bayes             σ⋆(β⋆ᵀx):                            σ_ε²

    Of a table: the first three, from its rows. For inputs with a covariance there is no kernel bound: a kernel may know the directions in which inputs vary most. After several
    steps β is the direction along which neurons have moved most.

    >>> problem = one.Problem(n=200, d=100, N=150, teacher=[0, 1, 0.7071], noise=0.5, step=one.Step(exponent=0.3))
    >>> found = one.baselines(problem)
    >>> print(f"{found['best-linear'].test_error:.2f}, {found['bayes'].test_error:.2f}")
    1.25, 0.25
    """
    expect(problem)
    if isinstance(problem.inputs, Table):
        return _of_rows(problem, problem.inputs)
    reason = beyond_the_model(problem.replace(step=Step.none()))
    if problem.law.freedom is not None:
        reason = reason or needs_identity(problem, "the theory of the baselines")
    if reason is not None:
        raise InputError(reason)
    found = float(sum(p * overlap for p, overlap in _overlaps(problem)))
    untrained = predict(problem.replace(step=Step.none()), throw=False)
    values = {"random-features": untrained.test_error} | closed_baselines(problem)
    words = {
        "random-features": "the untrained network's features with the same ridge regression",
        "linear-ridge": "ridge regression on the inputs with its best penalty, n samples",
        "best-linear": "the best linear function of the inputs, infinitely many samples",
        "kernel": _kernel_words(problem) if problem.law.isotropic else "",
        "direction-only": (
            f"the best function of βᵀx alone, the direction the gradient finds (overlap {found:.3g} with the teacher)"
        ),
        "bayes": "the teacher itself: only the label noise is left",
    }
    status = {"random-features": untrained.status}
    return Baselines(
        (name, Baseline(problem, name, float(values[name]), status.get(name, Status.SOLVED), words[name]))
        for name in BASELINES
        if name in values
    )


def _of_rows(problem: Problem, rows: Table) -> Baselines:
    """Baselines of a table; what depends on the noise, which nobody knows, is left out."""
    untrained = predict(problem.replace(step=Step.none()), throw=False)
    linear = rows.facts.linear if rows.facts else float("nan")
    values = {
        "random-features": (untrained.test_error, "the untrained network's features with the same ridge regression"),
        "linear-ridge": (
            linear_errors(rows, problem.n),
            "ridge regression on the columns with its best penalty, n rows",
        ),
        "best-linear": (1 - linear, "the best linear function of the columns, infinitely many rows"),
    }
    status = {"random-features": untrained.status}
    return Baselines(
        (name, Baseline(problem, name, float(value), status.get(name, Status.SOLVED), words))
        for name, (value, words) in values.items()
    )


def _kernel_words(problem: Problem) -> str:
    if not resolves_degrees(problem):
        return (
            "no kernel or random-features method goes below this while n, d, N are of the same order: "
            "the teacher's nonlinear power plus the noise"
        )
    return (
        "no rotation-invariant kernel and no random-features method goes below this: n samples fix at most n of the "
        f"{multiplicity(problem.d, 2):.0f} harmonics of degree 2, and so of every higher degree"
    )


def closed_baselines(problem: Problem) -> dict[str, float]:
    """Test errors of the baselines that need no equation to be solved, by name."""
    noise, nonlinear = problem.noise**2, problem.target.nonlinear_power
    kernel = {"kernel": kernel_bound(problem)} if problem.law.isotropic else {}
    return {
        "linear-ridge": linear_ridge(problem),
        "best-linear": nonlinear + noise,
        **kernel,
        "direction-only": direction_only(problem),
        "bayes": noise,
    }


def kernel_bound(problem: Problem) -> float:
    """The part of the teacher's power beyond degree 1 that n functions of x cannot hold, averaged over rotations of it.

    A kernel method's f̂ lies in a space of n functions that does not know β⋆, and so holds at most n/B_l of the power
    P_l of the harmonics of degree l; degrees whose B_l is far above n count as not held at all.
    """
    noise = problem.noise**2
    if problem.d == 1:  # no harmonics beyond degree 1: what is not ±1 is a function of the length, which is no secret
        return noise
    if not resolves_degrees(problem):
        return problem.target.nonlinear_power + noise
    model = build_untrained(problem)
    left = sum(max(1 - problem.n / s.dim, 0.0) * float((model.w @ s.h**2).sum()) for s in model.sectors[1:])
    return left + float(model.w @ model.tail) + noise


def linear_ridge(problem: Problem, ridge: float | None = None) -> float:
    """Test error of ridge regression on the n inputs themselves; the best penalty when none is given.

    1/ρ = λ + φ/(1 + ρ), U = ρ/(1 + ρ), Y = c⋆₁²U + (rest)ρ and the error is −Y'/ρ² (leave-one-out). The noise seen by
    the linear fit is everything else, rest = E σ⋆² − c⋆₁² + σ_ε²; the best λ is φ·rest/c⋆₁².
    """
    curved = not problem.law.isotropic and problem.law.freedom is None
    error, noise = (_with_covariance if curved else _isotropic)(problem, ridge), problem.noise**2
    return error if ridge is not None or error > _ROUNDING * (problem.target.second_moment + noise) else noise


def _isotropic(problem: Problem, ridge: float | None) -> float:
    linear = problem.target.coefficients[1] ** 2
    rest, phi = problem.target.nonlinear_power + problem.noise**2, problem.phi
    if ridge is None and linear == 0:
        return rest
    lam = max(phi * rest / linear, 1e-12) if ridge is None else ridge
    b = 1 - phi - lam
    root = float(np.hypot(b, 2 * np.sqrt(lam)))
    rho = (b + root) / (2 * lam) if b > 0 else 2 / (root - b)
    d_rho = -1 / (1 / rho**2 - phi / (1 + rho) ** 2)
    return float(-(linear / (1 + rho) ** 2 + rest) * d_rho / rho**2)


def _with_covariance(problem: Problem, ridge: float | None) -> float:
    """The same for inputs of covariance Σ: 1/ρ = λ + (1/n) Σ_p λ_p/(1 + ρλ_p), U_p = ρ/(1 + ρλ_p), Y = c⋆₁² Σ_p λ_pβ⋆_p² U_p + (rest)ρ."""
    sigma, n = sigma_of(problem), problem.n
    values, seen = sigma.eigenvalues, sigma.eigenvalues * sigma.energy[0]
    linear, rest = problem.target.coefficients[1] ** 2, problem.target.nonlinear_power + problem.noise**2

    def error(log_rho: float) -> tuple[float, float]:
        rho = np.exp(log_rho)
        lam = 1 / rho - np.sum(values / (1 + rho * values)) / n
        d_rho = -1 / (1 / rho**2 - np.sum((values / (1 + rho * values)) ** 2) / n)
        return float(lam), float(-(linear * np.sum(seen / (1 + rho * values) ** 2) + rest) * d_rho / rho**2)

    if ridge is None and linear == 0:
        return rest
    # λ falls as ρ grows, from ∞ to 0
    low, high = -60.0, 60.0
    floor = 1e-12 if ridge is None else ridge
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if error(middle)[0] > floor else (low, middle)
    if ridge is not None:
        return error(low)[1]

    def risk(log_rho: float) -> float:
        return error(log_rho)[1]

    best: Any = minimize_scalar(risk, bounds=(low - 60, low), method="bounded", options={"xatol": 1e-6})
    return float(best.fun)


def _overlaps(problem: Problem) -> list[tuple[float, float]]:
    """Probabilities and overlaps with β⋆ of the direction found: of β, or of what the neurons' movement has most of."""
    if problem.eta > 0 and not problem.law.isotropic and problem.steps == 1:
        cases = draws(problem, sigma_of(problem))
        return [(p, float(np.linalg.norm(directions(problem, one).teacher.overlap[0]))) for p, one in cases]
    if problem.steps > 1 and problem.eta > 0 and problem.directions == 1 and problem.law.isotropic:
        return [(1.0, float(np.sqrt(leading_overlap(problem))))]
    return [(1.0, direction(problem).overlap)]


def direction_only(problem: Problem) -> float:
    """E Var(y | βᵀx): the risk of the best predictor that sees only the direction found by the gradient."""
    target, c = problem.target, problem.target.normalised
    seen = sum(p * float(np.sum(c**2 * overlap ** (2 * np.arange(c.size)))) for p, overlap in _overlaps(problem))
    return max(target.second_moment - seen, 0.0) + problem.noise**2
