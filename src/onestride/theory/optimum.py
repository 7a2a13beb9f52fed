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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from onestride._backend.threads import one_thread
from onestride._errors import InputError
from onestride._numerics import Array
from onestride.drawing import Panel, Series
from onestride.problem import Problem, Step, expect
from onestride.result import Errors, Prediction, Result, Status, TheoryError
from onestride.table import Table
from onestride.theory.assumptions import failed_assumption, not_computable
from onestride.theory.descent import descend
from onestride.theory.predict import predict
from onestride.theory.profile.strength import Level
from onestride.theory.registry import Method, Move, Theory, choose
from onestride.theory.reliability import known_off, mark

VARIABLES = ("step", "ridge", "split")
Variable = Literal["step", "ridge", "split"]
RIDGES = (1e-6, 1e3)  # penalties looked at
SHARES = (0.02, 0.98)  # of the samples that go to the step
_STEPS = 9  # sizes of the step in the scan, from 1/10 to 30√n
_PENALTIES = np.geomspace(1e-4, 1e2, 5)
_SPLITS = (0.1, 0.3, 0.5, 0.7, 0.9)
_APART = 1e-3  # of two problems that a slope compares, in the logarithms
_SAMPLES = 1e-2  # the same in shares of the samples: tables are cut differently from one sample to the next, errors by up to 4e-5
_HALVINGS = 5  # of the way to the largest step that may be trusted
_AT_END = 2e-2  # the same of a bound and a minimum that lies at it


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
        axes = self._scan(names)
        start = {axis.name: axis.value for axis in axes}
        if start.get("eta") == 0:  # no step is best among those tried
            return self.at(**start), ()
        moving = [axis for axis in axes if not axis.fixed]
        low, high, bend, x = (
            np.array([getattr(axis, part) for axis in moving]) for part in ("low", "high", "bend", "x")
        )

        def problem_at(x: Array) -> Problem:
            return self.at(
                **start | {axis.name: _value(axis.name, float(v)) for axis, v in zip(moving, x, strict=True)}
            )

        def look(x: Array) -> tuple[float, Array]:
            here, aside = problem_at(x), [problem_at(x + _APART * each) for each in np.eye(x.size)]
            return self._look(
                here, [self._move(axis.name, here, there) for axis, there in zip(moving, aside, strict=True)]
            )

        x = descend(look, x, bend, low, high) if moving else x
        ends = {axis.name for axis, v, a, b in zip(moving, x, low, high, strict=True) if min(v - a, b - v) < _AT_END}
        ends |= {axis.name for axis in axes if axis.fixed and not axis.low < axis.x < axis.high}
        return problem_at(x), tuple(name for name in names if _FIELD[name] in ends)

    def _move(self, name: str, here: Problem, there: Problem) -> Move:
        """From one problem to another in one variable; samples are whole, and a hundredth of them or one."""
        if name != "share":
            return Move(here, there, 0.0, _APART)
        budget, n_step = here.n + here.step_samples, here.step_samples
        more = max(round(_SAMPLES * budget), 1)
        more = more if n_step + more < budget else -more
        eta = here.eta if "step" in self.names else None
        there = self.at(share=(n_step + more) / budget, ridge=here.ridge, eta=eta)
        apart = _coordinate("share", there.step_samples / budget) - _coordinate("share", n_step / budget)
        return Move(here, there, 0.0, apart) if apart > 0 else Move(there, here, apart, 0.0)

    def _look(self, here: Problem, moves: list[Move]) -> tuple[float, Array]:
        """The logarithm of the test error and its slopes; infinite where there is none that may be trusted."""
        theory = choose(here, self.method, self.level).searching
        if theory.slopes is not None and not self._known_off(here, theory):
            found, slopes = theory.slopes(here, moves)
            return float(np.log(self._trusted(here, theory, np.array([here.ridge]), found)[0])), slopes
        value, sides = np.log(self.error(here)), [[self.error(at) for at in move[:2]] for move in moves]
        with np.errstate(divide="ignore", invalid="ignore"):  # a side may have no number
            return float(value), np.array(
                [np.log(b / a) / (move.high - move.low) for move, (a, b) in zip(moves, sides, strict=True)]
            )

    def _scan(self, names: tuple[str, ...]) -> list[_Axis]:
        """By variable, in the order of `names`: where to start, and the ends of the search."""
        etas, ridges, table = self._scanned
        tried, penalties = (
            np.arange(x.size - 1) if name in names else np.array([x.size - 1])
            for name, x in (("step", etas), ("ridge", ridges))
        )
        some = table[np.ix_(tried, penalties)]
        i, j = _smallest(some, self._why)
        eta, ridge, out = float(etas[tried[i]]), float(ridges[penalties[j]]), list[_Axis]()
        if "step" in names:
            ends = (float(etas[0]), float(etas[-3])) if self._of_rows else (1e-3, self._largest(etas[tried], some))
            stepped = slice(0, tried.size - 1)  # the last is none
            bend = _bend(np.log(etas[tried][stepped]), some[stepped, j], i)
            out.append(_Axis("eta", eta, ends, bend, fixed=self._of_rows or eta == 0))
        if "ridge" in names:
            out.append(_Axis("ridge", ridge, RIDGES, _bend(np.log(ridges[penalties]), some[i], j)))
        if "split" in names:
            at = {"eta": eta if "step" in names else None, "ridge": ridge}
            splits = np.array([[self.error(self.at(**at, share=share))] for share in _SPLITS])
            k = _smallest(splits, self._why)[0]
            bend = _bend(np.array([_coordinate("share", share) for share in _SPLITS]), splits[:, 0], k)
            out.append(_Axis("share", _SPLITS[k], SHARES, bend))
        return out

    def _largest(self, etas: Array, errors: Array) -> float:
        """Where the steps end that have a number to be trusted: the largest of the scan, and beyond it where the theory is not known to be off."""
        low = float(etas[np.isfinite(errors).any(1)].max(initial=1e-3))
        high = float(etas[etas > low].min(initial=np.inf))
        theory = choose(self.problem, self.method, self.level)
        if not (np.isfinite(high) and low in etas and self._known_off(self.at(eta=high), theory)):
            return low
        for _ in range(_HALVINGS):
            middle = float(np.sqrt(low * high))
            low, high = (low, middle) if self._known_off(self.at(eta=middle), theory) else (middle, high)
        return low

    @property
    def _of_rows(self) -> bool:
        return isinstance(self.problem.inputs, Table)

    def _steps(self) -> Array:
        """Steps of the scan; of a table those at which its theory does not interpolate."""
        if self._of_rows:
            return float(np.sqrt(self.problem.N)) * 2.0 ** np.arange(-6, 5, 2)
        return np.asarray(np.geomspace(1 / 10, 30 * float(self.problem.n) ** 0.5, _STEPS), float)

    @cached_property
    def _scanned(self) -> tuple[Array, Array, Array]:
        """Steps (the last one as given), penalties (the same) and test errors, for every search: models are what takes time."""
        ridges = np.append(_PENALTIES if "ridge" in self.names else [], self.problem.ridge)

        def row(eta: float) -> Array:
            return self._errors(self.at(eta=eta), ridges)

        steps: list[float] = self._steps().tolist() if "step" in self.names else []
        rows = {eta: row(eta) for eta in steps}
        if self._of_rows and rows:  # the steps between, beside the best of all and the best at the penalty given
            best = {min(rows, key=lambda eta: float(rows[eta][some].min())) for some in (slice(None), slice(-1, None))}
            rows |= {eta: row(eta) for eta in {near for at in best for near in (at / 2, 2 * at)} - set(rows)}
        etas = [*sorted(rows), 0.0, self.problem.eta] if rows else [self.problem.eta]
        table = [rows[eta] if eta in rows else row(eta) for eta in etas]
        return np.array(etas), ridges, np.array(table)

    def _errors(self, at: Problem, ridges: Array) -> Array:
        """Test errors at these penalties; infinite where they are unknown or known to be off."""
        theory = choose(at, self.method, self.level).searching
        if self._known_off(at, theory):
            return np.full(ridges.size, np.inf)
        return self._trusted(at, theory, ridges, theory.errors(at, [at.step], ridges))

    def _known_off(self, at: Problem, theory: Theory) -> bool:
        marked = not (theory.limit or theory.of_tables)
        try:
            return marked and failed_assumption(at.replace(step=Step.none())) is None and known_off(at) is not None
        except TheoryError:  # a step out of range
            return True

    def _trusted(self, at: Problem, theory: Theory, ridges: Array, found: Errors) -> Array:
        """The test errors among these; infinite where they are unknown or known to be off."""
        if not (theory.limit or theory.of_tables):
            before = (
                found if theory.every_degree else theory.errors(at, [Step.none()], ridges)
            )  # what `mark` needs of it
            found = mark(at, [at.step], ridges, found, before, every_degree=theory.every_degree)
        return np.where([status is Status.SOLVED for status in found.status[0]], found.test_error[0], np.inf)

    def _why(self) -> str:
        return predict(self.problem, method=self.method, level=self.level, throw=False).message


_FIELD = {"step": "eta", "ridge": "ridge", "split": "share"}


@dataclass(frozen=True)
class _Axis:
    """One variable of a search: where the scan left it, its ends, and the second derivative of log(error) there."""

    name: str
    value: float
    ends: tuple[float, float]
    bend: float
    fixed: bool = False  # at one of the values of the scan

    @property
    def x(self) -> float:
        return _coordinate(self.name, self.value)

    @property
    def low(self) -> float:
        return _coordinate(self.name, self.ends[0])

    @property
    def high(self) -> float:
        return _coordinate(self.name, self.ends[1])


def _bend(x: Array, errors: Array, at: int) -> float:
    """The second derivative of log(error) at the smallest of some errors; 0 where its neighbours do not tell."""
    if not 0 < at < errors.size - 1 or not np.isfinite(errors[at - 1 : at + 2]).all():
        return 0.0
    y = np.log(errors[at - 1 : at + 2])
    return float(2 * np.diff(np.diff(y) / np.diff(x[at - 1 : at + 2]))[0] / (x[at + 1] - x[at - 1]))


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
