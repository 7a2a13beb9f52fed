"""`predict` and `predict_grid`: one call, one result type, whichever theory answers."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from onestride.functions import InputError
from onestride.problem import Problem, Step, grid_axis
from onestride.result import Prediction, PredictionGrid, Status, TheoryError
from onestride.theory import plateau

METHODS = ("auto", "plateau")
ACCURACY = {
    "plateau": "the n → ∞ limit inside a window; at realistic n gains are off by tens of percent",
}


def predict(problem: Problem, *, method: str = "auto", throw: bool = True) -> Prediction:
    """Predict train and test error after the step, and the same without it (`.untrained`).

    With `throw=False` a problem without a theory gives NaN and a status instead of raising `TheoryError`.
    """
    grid = predict_grid(problem, [problem.step.exponent], [problem.ridge], method=method)
    prediction = grid[0, 0]
    if throw and prediction.status is not Status.SOLVED:
        raise TheoryError(prediction.message)
    return prediction


def predict_grid(problem: Problem, exponents: ArrayLike, ridges: ArrayLike, *, method: str = "auto") -> PredictionGrid:
    """Predict for every exponent of the step and every penalty; cells without a theory are NaN with a status."""
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    alphas, lams = grid_axis("exponents", exponents), grid_axis("ridges", ridges, positive=True)
    chosen = "plateau" if method == "auto" else method
    steps: Sequence[Step] = [problem.step.replace(exponent=float(a)) for a in alphas]
    trained = plateau.errors(problem, list(steps), lams)
    untrained = plateau.errors(problem, [Step.none()], lams)
    return PredictionGrid(problem, chosen, alphas, lams, trained, untrained, ACCURACY[chosen])
