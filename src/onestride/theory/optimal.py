"""`optimal_ridge`: the penalty with the smallest predicted test error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onestride._numerics import Array
from onestride.functions import InputError
from onestride.problem import Problem
from onestride.result import Prediction, Result, TheoryError
from onestride.theory.predict import predict
from onestride.theory.registry import choose
from onestride.theory.threads import one_thread

_COARSE = 0.5  # decades between the first penalties tried
_REFINEMENTS = (9, 7)  # points of each further look, between the neighbours of the best so far


@dataclass(frozen=True)
class OptimalRidge(Result):
    """The best penalty found, the prediction there, and whether it lies at the end of the range searched."""

    _told = ("ridge", "test_error", "at_boundary", "message")

    problem: Problem
    ridge: float
    prediction: Prediction
    at_boundary: bool
    message: str

    @property
    def test_error(self) -> float:
        """Predicted test error at the best penalty."""
        return self.prediction.test_error


@one_thread()
def optimal_ridge(
    problem: Problem,
    *,
    bounds: tuple[float, float] = (1e-6, 1e3),
    method: str = "auto",
    level: str | None = None,
    throw: bool = True,
) -> OptimalRidge:
    """Minimise the predicted test error over λ in `bounds`, on a log scale; `problem.ridge` plays no part.

    A scan in half decades, two closer looks around its best point, then the vertex of a parabola in log λ through the
    three best points: the penalty to about 1 %, the error, flat there, to about 1e-6. Raises `TheoryError` where the best
    number is one that is known to be off, unless `throw=False`.
    """
    low, high = _checked(bounds)
    theory = choose(problem, method, level)

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
    for count in _REFINEMENTS:
        left, right = float(points[max(at - 1, 0)]), float(points[min(at + 1, points.size - 1)])
        points = np.geomspace(left, right, count)
        values = test_errors(points)
        at = int(np.nanargmin(values))
    best = _vertex(np.log(points), values, at)
    return result(best, False, f"the test error is smallest at λ = {best:.3g}")


def _checked(bounds: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = (float(b) for b in bounds)
    except (TypeError, ValueError):
        low = high = np.nan
    if not (np.isfinite(high) and 0 < low < high):
        raise InputError(f"bounds must be two finite penalties, 0 < lower < upper, got {bounds!r}")
    return low, high


def _vertex(x: Array, y: Array, at: int) -> float:
    """The minimum, on the scale of λ, of the parabola through the best point and its neighbours."""
    if not 0 < at < x.size - 1 or not np.isfinite(y[at - 1 : at + 2]).all():
        return float(np.exp(x[at]))
    step, bend = x[1] - x[0], y[at - 1] - 2 * y[at] + y[at + 1]
    shift = 0.5 * step * (y[at - 1] - y[at + 1]) / bend if bend > 0 else 0.0
    return float(np.exp(x[at] + np.clip(shift, -step, step)))
