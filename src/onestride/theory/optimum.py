"""`optimum`: the step, the penalty and the split of the samples with the smallest predicted test error, together.

    min over η, λ, s of the test error,     n_step = s B samples for the step, n = (1 − s) B for the fit,

B = n + n_step the budget of the problem given. A scan finds the valley: steps from 1/30 to 30√n against penalties by decades
(one model of the theory serves all penalties, on the nodes of a search; of a table steps from √N/64 to 16√N), then shares of the samples. From there a quadratic model of the error in
(log η, log λ, log s/(1 − s)) leads to the minimum. Only numbers that are not known to be off count: where the error still
falls at the end of what the theory describes, `at_boundary` names the variable.

Why no tangents in η and s, as there are in λ: λ enters the equations themselves, and one linear system gives dρ, dq (`equations.Solution`). η and
n_step enter what they are made of: the law of the gradient's noise (roots, tables, expectations window by window), the nodes and the
averages of σ over them. A tangent through all of these would be as long as they are, and setting a model up is more than half of the cost of
an error, so that implicit differentiation, which spares the solution only, costs as much as two errors: what a difference costs. The
quadratic model takes 10 to 20 errors in all.
"""

# pyright: reportMissingTypeStubs=false
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np
from scipy.optimize import Bounds, minimize  # pyright: ignore[reportUnknownVariableType]

from onestride._backend.threads import one_thread
from onestride._errors import InputError
from onestride._numerics import Array
from onestride.drawing import Panel, Series
from onestride.problem import Problem, Step
from onestride.result import Prediction, Result, Status, TheoryError
from onestride.table import Table
from onestride.theory.assumptions import failed_assumption
from onestride.theory.predict import predict
from onestride.theory.profile.strength import Level
from onestride.theory.registry import Method, choose
from onestride.theory.reliability import known_off, mark

VARIABLES = ("step", "ridge", "split")
Variable = Literal["step", "ridge", "split"]
RIDGES = (1e-6, 1e3)  # penalties looked at
SHARES = (0.02, 0.98)  # of the samples that go to the step
_STEPS = 12  # sizes of the step in the scan, from 1/30 to 30√n
_PENALTIES = np.geomspace(1e-4, 1e2, 7)
_SPLITS = (0.1, 0.3, 0.5, 0.7, 0.9)
_CLOSE = 1e-2  # where the search ends, in the logarithms; the error is flat there
_MOST = 80  # evaluations of the search


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
    1.65 at λ = 0.59, 1.88 before

    What is not in `over` stays as it is; with `each=False` no variable is tuned alone beside. The budget of a split is n + n_step of the problem given. The best step is
    written with the problem's own exponent. `TheoryError` where no cell of the scan has a number that may be trusted.
    """
    names = _checked(over)
    search = _Search(problem, names, method, level)
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


@dataclass(frozen=True)
class _Search:
    """Problems as points: η, λ and the share of the samples that go to the step."""

    problem: Problem
    names: tuple[str, ...]
    method: Method
    level: Level | None

    def at(self, *, eta: float | None = None, ridge: float | None = None, share: float | None = None) -> Problem:
        """The problem there."""
        found = self.problem
        if share is not None:
            budget = found.n + found.step_samples
            n_step = min(max(round(share * budget), 1), budget - 1)
            found = found.replace(n=budget - n_step, n_step=n_step)
        if eta is not None:
            alpha = found.step.exponent
            found = found.replace(step=Step(constant=eta / float(found.n) ** alpha, exponent=alpha if eta else 0.0))
        return found if ridge is None else found.replace(ridge=ridge)

    def error(self, at: Problem) -> float:
        """The test error; infinite where there is none that may be trusted."""
        return float(self._errors(at, np.array([at.ridge]))[0])

    def alone(self, name: str) -> float:
        """The test error with one variable tuned; NaN where no value of it has a number that may be trusted."""
        try:
            return self.error(self.over((name,))[0])
        except TheoryError:
            return float("nan")

    def over(self, names: tuple[str, ...]) -> tuple[Problem, tuple[str, ...]]:
        """The best problem, and which variables end where the search does."""
        scanned = self._scan(names)
        start, size = {name: value for name, (value, _) in scanned.items()}, len(names)
        if start.get("eta") == 0:  # no step is best among those tried
            return self.at(**start), ()
        x0 = np.array([_coordinate(name, value) for name, value in start.items()])
        low, high = np.array([[_coordinate(name, end) for end in ends] for name, (_, ends) in scanned.items()]).T

        def problem_at(x: Array) -> Problem:
            return self.at(**{name: _value(name, float(v)) for name, v in zip(start, x, strict=True)})

        def loss(x: Array) -> float:
            return np.log(min(self.error(problem_at(x)), 1e300))

        found = cast(
            "Any",
            minimize(
                loss,
                x0,
                method="COBYQA",
                bounds=Bounds(low, high),
                options={"initial_tr_radius": 0.5, "final_tr_radius": _CLOSE, "maxfev": _MOST * size},
            ),
        )
        x = np.clip(np.asarray(found["x"], float), low, high)
        names_at = [name for name, v, a, b in zip(names, x, low, high, strict=True) if min(v - a, b - v) < 2 * _CLOSE]
        best = problem_at(x)
        return (best, tuple(names_at)) if self.error(best) <= self.error(self.at(**start)) else (self.at(**start), ())

    def _scan(self, names: tuple[str, ...]) -> dict[str, tuple[float, tuple[float, float]]]:
        """By variable, in the order of `names`: where to start, and the ends of the search."""
        etas, ridges, table = self._scanned
        tried, penalties = (
            np.arange(x.size - 1) if name in names else np.array([x.size - 1])
            for name, x in (("step", etas), ("ridge", ridges))
        )
        some = table[np.ix_(tried, penalties)]
        i, j = _smallest(some, self._why)
        out: dict[str, tuple[float, tuple[float, float]]] = {}
        if "step" in names:
            trusted = etas[tried][np.isfinite(some).any(1) & (etas[tried] > 0)]
            out["eta"] = float(etas[tried[i]]), (1e-3, float(trusted.max(initial=1e-3)))
        if "ridge" in names:
            out["ridge"] = float(ridges[penalties[j]]), RIDGES
        if "split" in names:
            at = {"eta": float(etas[tried[i]]), "ridge": float(ridges[penalties[j]])}
            splits = np.array([[self.error(self.at(**at, share=share))] for share in _SPLITS])
            out["share"] = _SPLITS[_smallest(splits, self._why)[0]], SHARES
        return out

    def _steps(self) -> Array:
        """Steps of the scan; of a table at powers of two of η/√N, which its theory has without interpolation."""
        if isinstance(self.problem.inputs, Table):
            return float(np.sqrt(self.problem.N)) * 2.0 ** np.arange(-6, 5, 2)
        return np.asarray(np.geomspace(1 / 30, 30 * float(np.sqrt(self.problem.n)), _STEPS), float)

    @cached_property
    def _scanned(self) -> tuple[Array, Array, Array]:
        """Steps (the last one as given), penalties (the same) and test errors, for every search: models are what takes time."""
        etas = np.append(np.append(self._steps(), 0.0) if "step" in self.names else [], self.problem.eta)
        ridges = np.append(_PENALTIES if "ridge" in self.names else [], self.problem.ridge)
        return etas, ridges, np.array([self._errors(self.at(eta=float(eta)), ridges) for eta in etas])

    def _errors(self, at: Problem, ridges: Array) -> Array:
        """Test errors at these penalties; infinite where they are unknown or known to be off."""
        theory = choose(at, self.method, self.level).searching
        marked = not (theory.limit or theory.of_tables)
        if marked and failed_assumption(at.replace(step=Step.none())) is None and known_off(at) is not None:
            return np.full(ridges.size, np.inf)
        found = theory.errors(at, [at.step], ridges)
        if marked:
            before = (
                found if theory.every_degree else theory.errors(at, [Step.none()], ridges)
            )  # what `mark` needs of it
            found = mark(at, [at.step], ridges, found, before, every_degree=theory.every_degree)
        return np.where([status is Status.SOLVED for status in found.status[0]], found.test_error[0], np.inf)

    def _why(self) -> str:
        return predict(self.problem, method=self.method, level=self.level, throw=False).message


def _smallest(table: Array, why: Callable[[], str]) -> tuple[int, int]:
    if not np.isfinite(table).any():
        raise TheoryError(f"no step and penalty tried has a number that may be trusted: {why()}")
    i, j = np.unravel_index(int(np.argmin(table)), table.shape)
    return int(i), int(j)


def _coordinate(name: str, value: float) -> float:
    return float(np.log(value / (1 - value)) if name == "share" else np.log(value))


def _value(name: str, coordinate: float) -> float:
    return float(1 / (1 + np.exp(-coordinate)) if name == "share" else np.exp(coordinate))


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
