"""`optimum`: the step, the penalty and the split of the samples with the smallest predicted test error, together.

    min over η, λ, s of the test error,     n_step = s B samples for the step, n = (1 − s) B for the fit,

B = n + n_step the budget of the problem given. A scan finds the valley, as there may be several: steps from 1/10 to 30√n against penalties
from 1e-4 to 100 (one model of the theory serves all penalties, on the nodes of a search), then shares of the samples. From there the slopes of the
error in (log η, log λ, log s/(1 − s)) lead to the minimum (`descent`). They come from the equations (`profile.slopes`); of the
other theories from differences of errors. Of a table steps are powers of two of η/√N: its error is interpolated between them in log η
and smallest at one of them. Only numbers that are not known to be off count: where the error still falls at the end of what the theory
describes, `at_boundary` names the variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from onestride._backend.threads import one_thread
from onestride._errors import InputError
from onestride.drawing import Panel, Series
from onestride.problem import Problem, expect
from onestride.result import Prediction, Result, Status, TheoryError
from onestride.table import Table
from onestride.theory.assumptions import not_computable
from onestride.theory.predict import predict
from onestride.theory.profile.strength import Level
from onestride.theory.registry import Method
from onestride.theory.search import Search

VARIABLES = ("step", "ridge", "split")
Variable = Literal["step", "ridge", "split"]


@dataclass(frozen=True, repr=False)
class Optimum(Result):
    """The best problem found, its prediction, and the best when each variable is tuned alone.

    `problem` has the best step, penalty, n and n_step in it; `alone` the test error with one variable tuned and the others
    as they were given (NaN where none of those numbers may be trusted); `at_boundary` names variables at the end of the range searched.
    """

    _told = ("over", "step", "ridge", "n", "n_step", "test_error", "before", "alone", "at_boundary", "message")
    _brief = ("test_error", "before", "step", "ridge", "n", "n_step")
    _equation = "min of the predicted test error over step, penalty and split"

    problem: Problem
    over: tuple[str, ...]
    prediction: Prediction
    before: float
    alone: dict[str, float]
    at_boundary: tuple[str, ...]
    message: str

    def panels(self) -> Sequence[Panel]:
        """The test error as given, with each variable tuned alone, and with all of them."""
        found = (
            {"as given": self.before}
            | {f"best {name}": error for name, error in self.alone.items()}
            | {"all": self.test_error}
        )
        places = list(range(len(found)))
        series = [Series("predicted", places, list(found.values()), kind="simulation")]
        return [Panel("what tuning brings", "", "test error", series, xticks=places, xnames=list(found))]

    @property
    def test_error(self) -> float:
        """Predicted test error at the optimum."""
        return self.prediction.test_error

    @property
    def step(self) -> float:
        """The best η."""
        return self.problem.eta

    @property
    def ridge(self) -> float:
        """The best λ."""
        return self.problem.ridge

    @property
    def n(self) -> int:
        """Samples of the fit."""
        return self.problem.n

    @property
    def n_step(self) -> int:
        """Samples of the step."""
        return self.problem.step_samples


@one_thread()
def optimum(
    problem: Problem,
    over: Sequence[Variable] = ("step", "ridge"),
    *,
    method: Method = "auto",
    level: Level | None = None,
    each: bool = True,
) -> Optimum:
    """Minimise the predicted test error over the step's size, the penalty and the split of the samples, or some of them.

    >>> problem = one.Problem(n=200, d=100, N=150, teacher=[0, 1, 0.7071], noise=0.5, step=one.Step(exponent=0.3))
    >>> best = one.optimum(problem, over=["ridge"])
    >>> print(f"{best.test_error:.2f} at λ = {best.ridge:.2f}, {best.before:.2f} before")
    1.65 at λ = 0.58, 1.87 before

    What is not in `over` stays as it is; with `each=False` no variable is tuned alone beside. The budget of a split is n + n_step of the problem given. The best step is
    written with the problem's own exponent. `TheoryError` where no cell of the scan has a number that may be trusted.
    """
    expect(problem)
    names = _checked(over)
    if "split" in names and not problem.fresh:
        raise InputError("over='split' needs samples of their own for the step, got a problem with fresh=False")
    reason = None if isinstance(problem.inputs, Table) else not_computable(problem)
    if reason is None and problem.target.second_moment == 0 and problem.noise == 0:
        reason = "the labels are all 0, so that no step and no penalty is better than another"
    if reason is not None:
        raise TheoryError(reason)
    search = Search(problem, names, method, level)
    best, at_boundary = search.over(names)
    alone = {} if len(names) == 1 or not each else {name: search.alone(name) for name in names}
    prediction = predict(best, method=method, level=level)
    before = predict(problem, method=method, level=level, throw=False)
    given = before.test_error if before.status is Status.SOLVED else float("nan")
    message = _sentence(names, best, prediction, given, alone, at_boundary)
    return Optimum(best, names, prediction, given, alone, at_boundary, message)


def _checked(over: Sequence[str]) -> tuple[str, ...]:
    given = (over,) if isinstance(over, str) else tuple(over)
    if not given or any(name not in VARIABLES for name in given) or len(set(given)) < len(given):
        raise InputError(f"over must be some of {', '.join(map(repr, VARIABLES))}, each once, got {over!r}")
    return tuple(name for name in VARIABLES if name in given)


def _sentence(
    names: tuple[str, ...],
    best: Problem,
    found: Prediction,
    before: float,
    alone: dict[str, float],
    ends: tuple[str, ...],
) -> str:
    parts: list[str] = []
    if "step" in names:
        parts.append(f"η = {best.eta:.3g}" if best.eta else "no step")
    if "ridge" in names:
        parts.append(f"λ = {best.ridge:.3g}")
    if "split" in names:
        parts.append(f"{best.step_samples} samples for the step and {best.n} for the fit")
    given = f", {before:.4g} as given" if np.isfinite(before) else ""
    text = f"the predicted test error is smallest, {found.test_error:.4g}{given}, at {', '.join(parts)}"
    if alone:
        text += "; with one of them tuned alone: " + ", ".join(
            f"{name} {error:.4g}" if np.isfinite(error) else f"{name} unknown" for name, error in alone.items()
        )
    if ends:
        text += f"; it still falls where the search over the {' and the '.join(ends)} ends"
    return text
