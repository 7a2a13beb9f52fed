"""The search of `optimum`: a scan for the valley, then the slopes of the error down to its bottom (`descent`).

One model of the theory serves all penalties; with several steps a model, and even to know whether a size of them may be trusted, takes seconds.
What makes them known to be off grows with their size (58 random problems, 9 sizes each). So that is asked once of a size and not between two
that may be trusted, but of the best one; the scan ends where two sizes in a row may not, and where numbers cease to be trusted on the way
to them is looked for only if the error falls that far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from onestride._numerics import Array
from onestride.problem import Problem, Step
from onestride.result import Errors, Status, TheoryError
from onestride.table import Table
from onestride.theory.assumptions import failed_assumption
from onestride.theory.descent import descend
from onestride.theory.predict import predict
from onestride.theory.profile.strength import Level
from onestride.theory.registry import Method, Move, Theory, choose
from onestride.theory.reliability import OFF_IN_A_ROW, known_off, mark

RIDGES = (1e-6, 1e3)  # penalties looked at
SHARES = (0.02, 0.98)  # of the samples that go to the step
_STEPS = 9  # sizes of the step in the scan, from 1/10 to 30√n
_PENALTIES = np.geomspace(1e-4, 1e2, 5)
_SPLITS = (0.1, 0.3, 0.5, 0.7, 0.9)
_APART = 1e-3  # of two problems that a slope compares, in the logarithms
_SAMPLES = 1e-2  # the same in shares of the samples: tables are cut differently from one sample to the next, errors by up to 4e-5
_HALVINGS = 5  # of the way to the largest step that may be trusted
_AT_END = 2e-2  # the same of a bound and a minimum that lies at it
_MOST = 600.0  # |log n^α|: at 700 the range of numbers ends


@dataclass(frozen=True)
class Search:
    """Problems as points: η, λ and the share of the samples that go to the step."""

    problem: Problem
    names: tuple[str, ...]
    method: Method
    level: Level | None
    _off: dict[Problem, bool] = field(default_factory=dict[Problem, bool], init=False)

    def at(self, *, eta: float | None = None, ridge: float | None = None, share: float | None = None) -> Problem:
        """The problem there."""
        found = self.problem
        if share is not None:
            budget = found.n + found.step_samples
            n_step = min(max(round(share * budget), 1), budget - 1)
            found = found.replace(n=budget - n_step, n_step=n_step)
        if eta is not None:
            found = found.replace(step=_step(eta, float(found.n), found.step.exponent))
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
        if any(axis.name == "eta" and axis.value == 0 for axis in axes):  # no step is best among those tried
            return self.at(**{axis.name: axis.value for axis in axes}), ()
        lowest, ends = self._lowest(axes)
        if any(axis.name in ends and axis.beyond is not None for axis in lowest):  # on into what the scan has not seen
            lowest, ends = self._lowest([axis.wider() for axis in lowest])
        best = self.at(**{axis.name: axis.value for axis in lowest})
        if self._known_off(best, surely=True):  # and its neighbours are not
            return self.over(names)
        return best, tuple(name for name in names if _FIELD[name] in ends)

    def _lowest(self, axes: list[_Axis]) -> tuple[list[_Axis], set[str]]:
        """The axes at the bottom of the valley, and those of them at an end."""
        start, moving = {axis.name: axis.value for axis in axes}, [axis for axis in axes if not axis.fixed]
        low, high, bend, x = (
            np.array([getattr(axis, part) for axis in moving]) for part in ("low", "high", "bend", "x")
        )

        def values(x: Array) -> dict[str, float]:
            return start | {axis.name: _value(axis.name, float(v)) for axis, v in zip(moving, x, strict=True)}

        def look(x: Array) -> tuple[float, Array]:
            here, *aside = (self.at(**values(at)) for at in (x, *(x + _APART * np.eye(x.size))))
            return self._look(
                here, [self._move(axis.name, here, there) for axis, there in zip(moving, aside, strict=True)]
            )

        x = descend(look, x, bend, low, high) if moving else x
        ends = {axis.name for axis, v, a, b in zip(moving, x, low, high, strict=True) if min(v - a, b - v) < _AT_END}
        ends |= {axis.name for axis in axes if axis.fixed and not axis.low < axis.x < axis.high}
        return [replace(axis, value=values(x)[axis.name]) for axis in axes], ends

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
        if theory.slopes is not None and not self._known_off(here):
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
            stepped = slice(0, tried.size - 1)  # the last is none
            bend = _bend(np.log(etas[tried][stepped]), some[stepped, j], i)
            out.append(self._steps_axis(eta, etas[tried], some, bend))
        if "ridge" in names:
            out.append(_Axis("ridge", ridge, RIDGES, _bend(np.log(ridges[penalties]), some[i], j)))
        if "split" in names:
            at = {"eta": eta if "step" in names else None, "ridge": ridge}
            splits = np.array([[self.error(self.at(**at, share=share))] for share in _SPLITS])
            k = _smallest(splits, self._why)[0]
            bend = _bend(np.array([_coordinate("share", share) for share in _SPLITS]), splits[:, 0], k)
            out.append(_Axis("share", _SPLITS[k], SHARES, bend))
        return out

    def _steps_axis(self, eta: float, etas: Array, errors: Array, bend: float) -> _Axis:
        """Of the step: it ends at the largest of the scan that has a number to be trusted, or where such numbers end beyond that."""
        if self._of_rows:
            return _Axis("eta", eta, (float(etas[0]), float(etas[-2])), bend, fixed=True)
        low = float(etas[np.isfinite(errors).any(1)].max(initial=1e-3))
        high = float(etas[etas > low].min(initial=np.inf))
        between = (low, high) if low in etas and np.isfinite(high) else None
        axis = _Axis("eta", eta, (1e-3, low), bend, eta == 0, between and (lambda: self._largest(*between)))
        return axis.wider() if eta == low else axis

    def _largest(self, low: float, high: float) -> float:
        """Where the steps end that have a number to be trusted, between one that has and one that has none."""
        if not self._known_off(self.at(eta=high)):
            return low
        for _ in range(_HALVINGS):
            middle = float(np.sqrt(low * high))
            low, high = (low, middle) if self._known_off(self.at(eta=middle)) else (middle, high)
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
        rows, off = dict[float, Array](), 0
        for eta in steps:
            rows[eta] = row(eta) if off < OFF_IN_A_ROW else np.full(ridges.size, np.inf)
            if self.problem.steps > 1 and off < OFF_IN_A_ROW:
                off = off + 1 if self._known_off(self.at(eta=eta)) else 0
        if self._of_rows and rows:  # the steps between, beside the best of all and the best at the penalty given
            best = {min(rows, key=lambda eta: float(rows[eta][some].min())) for some in (slice(None), slice(-1, None))}
            rows |= {eta: row(eta) for eta in {near for at in best for near in (at / 2, 2 * at)} - set(rows)}
        etas = [*sorted(rows), 0.0, self.problem.eta] if rows else [self.problem.eta]
        table = [rows[eta] if eta in rows else row(eta) for eta in etas]
        return np.array(etas), ridges, np.array(table)

    def _errors(self, at: Problem, ridges: Array) -> Array:
        """Test errors at these penalties; infinite where they are unknown or known to be off."""
        theory = choose(at, self.method, self.level).searching
        if self._known_off(at):
            return np.full(ridges.size, np.inf)
        return self._trusted(at, theory, ridges, theory.errors(at, [at.step], ridges))

    def _known_off(self, at: Problem, *, surely: bool = False) -> bool:
        """Whether there is no number, or a rule knows it to be off, whatever the penalty."""
        theory, at = choose(at, self.method, self.level), at.replace(ridge=1.0)
        if theory.limit or theory.of_tables or (not surely and self._between_trusted(at)):
            return False
        if at not in self._off:
            try:
                before = failed_assumption(at.replace(step=Step.none()))
                self._off[at] = theory.domain(at) is not None or (before is None and known_off(at) is not None)
            except TheoryError:  # a step out of range
                self._off[at] = True
        return self._off[at]

    def _between_trusted(self, at: Problem) -> bool:
        """Whether several steps are larger than some that were asked about and smaller than others, none of them off."""
        samples = at.n, at.step_samples
        asked = {other.eta: off for other, off in self._off.items() if (other.n, other.step_samples) == samples}
        below = max((eta for eta in asked if eta <= at.eta), default=None)
        above = min((eta for eta in asked if eta >= at.eta), default=None)
        if at.steps == 1 or below is None or above is None:
            return False
        return below > 0 and not (asked[below] or asked[above])

    def _trusted(self, at: Problem, theory: Theory, ridges: Array, found: Errors) -> Array:
        """The test errors among these; infinite where they are unknown or known to be off."""
        if not (theory.limit or theory.of_tables):
            before = (
                found if theory.every_degree else theory.errors(at, [Step.none()], ridges)
            )  # what `mark` needs of it
            found = mark(at, [at.step], ridges, found, before, every_degree=theory.every_degree, asked=True)
        return np.where([status is Status.SOLVED for status in found.status[0]], found.test_error[0], np.inf)

    def _why(self) -> str:
        return predict(self.problem, method=self.method, level=self.level, throw=False).message


def _step(eta: float, n: float, exponent: float) -> Step:
    """η with this exponent, or without one where c = η/n^α would leave the range of numbers."""
    exponent = exponent if eta and abs(exponent) * float(np.log(n)) < _MOST else 0.0
    return Step(constant=eta / n**exponent, exponent=exponent)


_FIELD = {"step": "eta", "ridge": "ridge", "split": "share"}


@dataclass(frozen=True)
class _Axis:
    """One variable of a search: where the scan left it, its ends, and the second derivative of log(error) there."""

    name: str
    value: float
    ends: tuple[float, float]
    bend: float
    fixed: bool = False  # at one of the values of the scan
    beyond: Callable[[], float] | None = (
        None  # where it ends in truth, above a scan that has seen no reason to go there
    )

    def wider(self) -> _Axis:
        """Up to its own end."""
        return self if self.beyond is None else replace(self, ends=(self.ends[0], self.beyond()), beyond=None)

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
