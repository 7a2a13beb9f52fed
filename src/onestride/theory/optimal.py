"""`optimal_ridge`: the penalty with the smallest predicted test error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onestride._backend.threads import one_thread
from onestride._numerics import Array
from onestride.drawing import Panel
from onestride.functions import InputError
from onestride.problem import Problem, expect
from onestride.result import Prediction, Result, TheoryError
from onestride.theory.descent import vertex
from onestride.theory.predict import predict
from onestride.theory.profile.strength import Level
from onestride.theory.registry import Method, choose

_COARSE = 1.0  # decades between the first penalties tried
_CLOSER = 4  # points between the neighbours of the best of them, which is none of these
_CLOSEST = 0.1  # decades between the last three


@dataclass(frozen=True, repr=False)
class OptimalRidge(Result):
    """The best penalty found, the prediction there, and whether it lies at the end of the range searched."""

    _told = ("ridge", "test_error", "at_boundary", "message")
    _brief = ("ridge", "test_error", "at_boundary")
    _equation = "min of the predicted test error over λ"

    problem: Problem
    ridge: float
    prediction: Prediction
    at_boundary: bool
    message: str

    def panels(self) -> Sequence[Panel]:
        """The errors at the best penalty."""
        return self.prediction.panels()

    @property
    def test_error(self) -> float:
        """Predicted test error at the best penalty."""
        return self.prediction.test_error


@one_thread()
def optimal_ridge(
    problem: Problem,
    *,
    bounds: tuple[float, float] = (1e-6, 1e3),
    method: Method = "auto",
    level: Level | None = None,
    throw: bool = True,
) -> OptimalRidge:
    """Minimise the predicted test error over λ in `bounds`, on a log scale; `problem.ridge` plays no part.

    A scan in decades, a closer look around its best point, and three penalties around the vertex of the parabola in log λ there,
    whose own vertex is the answer: the penalty to about 1 %, the error, flat there, to about 1e-6. Raises `TheoryError` where the best
    number is one that is known to be off, unless `throw=False`.

    >>> problem = one.Problem(n=200, d=100, N=150, teacher=[0, 1, 0.7071], noise=0.5, step=one.Step(exponent=0.3))
    >>> print(f"{one.optimal_ridge(problem).ridge:.2f}")
    0.59
    """
    expect(problem)
    low, high = _checked(bounds)
    theory = choose(problem, method, level).searching

    def test_errors(ridges: Array) -> Array:
        return theory.errors(problem, [problem.step], ridges).test_error[0]

    def result(ridge: float, at_boundary: bool, text: str) -> OptimalRidge:
        there = problem.at(ridge=ridge)
        return OptimalRidge(there, ridge, predict(there, method=method, level=level, throw=throw), at_boundary, text)

    points: Array = np.geomspace(low, high, max(5, int(np.ceil(np.log10(high / low) / _COARSE)) + 1))
    values = test_errors(points)
    if not np.isfinite(values).any():
        raise TheoryError(predict(problem, method=method, level=level, throw=False).message)
    at = int(np.nanargmin(values))
    if at in (0, points.size - 1):
        end, side = ("lower", "smaller") if at == 0 else ("upper", "larger")
        text = f"the test error still falls towards {side} penalties at the {end} end, λ = {points[at]:g}"
        return result(float(points[at]), True, text)
    ends = float(points[at - 1]), float(points[at + 1])
    inside = np.asarray(np.geomspace(*ends, _CLOSER + 2), float)[1:-1]
    best = _vertex(np.append(points, inside), np.append(values, test_errors(inside)))
    closest: Array = best * 10 ** (_CLOSEST * np.arange(-1.0, 2.0))
    best = _vertex(closest, test_errors(closest)) if low < closest[0] and closest[-1] < high else best
    return result(best, False, f"the test error is smallest at λ = {best:.3g}")


def _checked(bounds: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = (float(b) for b in bounds)
    except (TypeError, ValueError):
        low = high = np.nan
    if not (np.isfinite(high) and 0 < low < high):
        raise InputError(f"bounds must be two finite penalties, 0 < lower < upper, got {bounds!r}")
    return low, high


def _vertex(ridges: Array, values: Array) -> float:
    """The minimum of the parabola in log λ through the best penalty and its neighbours among those that are known."""
    known = np.isfinite(values)
    order = np.argsort(ridges[known])
    return float(np.exp(vertex(np.log(ridges[known][order]), values[known][order])[0]))
