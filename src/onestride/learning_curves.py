"""`scaling`: learning curves, the error against n, d or N, with its local exponent, from theory and where it fits by simulation.

    excess(v) = test error − σ_ε²,      exponent = d log excess / d log v,      v the samples, inputs or neurons.

The other sizes stay (`hold="sizes"`) or go along (`hold="ratios"`: d/n, N/n and n_step/n as in the problem given). `tuned`
takes the best penalty at every point instead of the problem's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from numbers import Real
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from onestride import _html
from onestride._errors import InputError, is_whole, one_of, quoted, true_or_false
from onestride._numerics import Array, Float
from onestride._progress import OnProgress, shown
from onestride.plot import Panel, Series, theory_series
from onestride.problem import Problem, Step, expect, grid_axis
from onestride.result import Estimate, Prediction, Result, Simulation, Status, TheoryError, plain
from onestride.shown import Variables
from onestride.simulation.arguments import seed_tuple
from onestride.simulation.own_rows import enough_rows
from onestride.simulation.run import simulate
from onestride.table import Table
from onestride.theory.optimal import optimal_ridge
from onestride.theory.predict import predict
from onestride.theory.profile.strength import Level
from onestride.theory.registry import Method

Axis = Literal["n", "d", "N"]
POINTS = 25  # of a curve whose sizes are not given: from 100 to 10⁶
MOST_POINTS = 10_000  # each takes a prediction


@dataclass(frozen=True, repr=False)
class Scaling(Result):
    """A learning curve: at each size the predicted error with and without the step, its exponent, and what was measured.

    `simulated` holds simulations by position on the axis; `landmarks` the sizes where n passes N, d or d²/2, or N does.
    """

    _told = ("along", "hold", "at", "test_error", "untrained", "excess", "exponent", "ridge", "status")
    _told += ("landmarks", "measured", "message")
    _brief = ("along", "at", "test_error", "exponent")

    problem: Problem
    along: Axis
    hold: str
    problems: tuple[Problem, ...] = field(repr=False)
    predictions: tuple[Prediction, ...] = field(repr=False)
    without: tuple[Prediction, ...] = field(repr=False)
    simulated: dict[int, Simulation] = field(repr=False)
    landmarks: dict[str, float]

    def panels(self) -> Sequence[Panel]:
        """The curve and its local exponent."""
        return panels(self)

    def _picture(self) -> str:
        words = f"log test error against log {self.along}"
        return _html.curves(np.log(self.at), [np.log(self.test_error)], words=words)

    def _axes(self) -> dict[str, Sequence[float]]:
        return {self.along: self.at.tolist()}

    def _variables(self) -> Variables:
        names = ("test_error", "untrained", "excess", "exponent", "ridge")
        found: Variables = {name: ((self.along,), getattr(self, name)) for name in names}
        return found | {"status": ((self.along,), [plain(one) for one in self.status])}

    @property
    def at(self) -> Float[Array, "axis"]:
        """The sizes."""
        return np.array([float(getattr(p, self.along)) for p in self.problems])

    @property
    def test_error(self) -> Float[Array, "axis"]:
        """Predicted test error; NaN where there is no theory."""
        return np.array([p.test_error for p in self.predictions])

    @property
    def untrained(self) -> Float[Array, "axis"]:
        """The same without the step."""
        return np.array([p.test_error for p in self.without])

    @property
    def excess(self) -> Float[Array, "axis"]:
        """Test error above the noise; of a table, whose noise nobody knows, the test error."""
        return self.test_error - self.problem.known_noise

    @property
    def exponent(self) -> Float[Array, "axis"]:
        """D log excess/d log size, by central differences, one-sided beside a point that may not be trusted where this one may."""
        found = np.full(self.at.size, np.nan)
        solved = np.array([s is Status.SOLVED for s in self.status])
        with np.errstate(all="ignore"):
            x, y = np.log(self.at), np.log(self.excess)
            for run in np.split(np.arange(x.size), np.flatnonzero(np.diff(solved)) + 1):
                if run.size > 1:
                    found[run] = np.gradient(y[run], x[run])
        return found

    @property
    def ridge(self) -> Float[Array, "axis"]:
        """The penalty at each point."""
        return np.array([p.ridge for p in self.problems])

    @property
    def status(self) -> tuple[Status, ...]:
        """How each prediction ended."""
        return tuple(p.status for p in self.predictions)

    @property
    def measured(self) -> dict[str, dict[str, float]]:
        """Simulated test errors by size."""
        found = {i: s.test_error for i, s in self.simulated.items()}
        return {f"{self.at[i]:.0f}": {"mean": float(e.mean), "stderr": float(e.stderr)} for i, e in found.items()}

    @property
    def message(self) -> str:
        """From where to where the error falls, and how fast at the end."""
        good = np.flatnonzero([s is Status.SOLVED for s in self.status])
        if not good.size:
            return f"no point has a number that may be trusted: {self.predictions[0].message}"
        first, last = good[0], good[-1]
        text = (
            f"the predicted test error goes from {self.test_error[first]:.4g} at {self.along} = {self.at[first]:.4g} to "
            f"{self.test_error[last]:.4g} at {self.along} = {self.at[last]:.4g}"
        )
        slope = self.exponent[last]
        if np.isfinite(slope):
            above = "" if isinstance(self.problem.inputs, Table) else " above the noise"
            text += f", there like {self.along}^{slope:.2g}{above}"
        off = self.at.size - good.size
        return text if not off else f"{text}; {off} of {self.at.size} points are not solved or known to be off"


def scaling(
    problem: Problem,
    along: Axis = "n",
    at: ArrayLike | None = None,
    *,
    hold: Literal["sizes", "ratios"] = "sizes",
    tuned: bool = False,
    seeds: int = 0,
    largest: int = 2000,
    method: Method = "auto",
    level: Level | None = None,
    progress: OnProgress | bool | None = None,
) -> Scaling:
    """The learning curve of a problem along its samples n, inputs d or neurons N.

    Parameters
    ----------
    at
        Sizes along the axis, up to 10¹⁵; 25 from 100 to 10⁶ when None.
    hold
        ``"sizes"``: only this size changes. ``"ratios"``: n, d, N and n_step keep their proportions.
    tuned
        The best penalty at every point.
    seeds, largest
        Points with n, d and N up to `largest` are simulated with this many seeds; of a table those it has the rows for are
        measured on them.
    progress
        As in `simulate`.

    >>> problem = one.Problem(n=200, d=100, N=150, teacher=[0, 1, 0.7071], noise=0.5, step=one.Step(exponent=0.3))
    >>> curve = one.scaling(problem, along="n", at=[100, 200])
    >>> print(curve.test_error.round(2))
    [2.38 1.87]
    """
    expect(problem)
    one_of("along", along, ("n", "d", "N"))
    one_of("hold", hold, ("sizes", "ratios"))
    true_or_false(tuned=tuned)
    chosen = () if is_whole(seeds) and seeds == 0 else seed_tuple(seeds)
    if not isinstance(largest, Real) or not largest > 0:
        raise InputError(f"largest must be a number above 0, got {quoted(largest)}")
    sizes = grid_axis("at", np.geomspace(100, 1e6, POINTS) if at is None else at, positive=True)
    if sizes.size > MOST_POINTS:
        raise InputError(f"at must be at most {MOST_POINTS:,} sizes, got {sizes.size:,}")
    if sizes.max() > 1e15:
        raise InputError(f"at must be sizes up to 1e15, got {sizes.max():g}")
    predictions: list[Prediction] = []
    without: list[Prediction] = []
    simulated: dict[int, Simulation] = {}
    with shown(progress, "learning curve") as tell:
        for i, size in enumerate(sizes):
            predictions.append(_predicted(_sized(problem, along, float(size), hold), tuned, method, level))
            without.append(_untrained(predictions[i], tuned, method, level))
            p = predictions[i].problem
            if chosen and max(p.n, p.d, p.N) <= largest and _has_rows(p):
                simulated[i] = simulate(p, seeds=chosen, untrained=False)
            tell(i + 1, sizes.size)
    problems = tuple(found.problem for found in predictions)
    points = tuple(predictions), tuple(without), simulated
    return Scaling(problem, along, hold, problems, *points, _landmarks(problems, along))


def _has_rows(problem: Problem) -> bool:
    """Whether a table has the rows to measure this on; any other problem has."""
    table = problem.inputs
    return not isinstance(table, Table) or enough_rows(problem, table) is None


def _sized(problem: Problem, along: Axis, size: float, hold: str) -> Problem:
    """The problem with this size along the axis; counts are whole."""
    if hold == "sizes":
        return problem.replace(**{along: max(round(size), 1)})
    return problem.in_proportion(size / getattr(problem, along))


def _predicted(problem: Problem, tuned: bool, method: Method, level: Level | None) -> Prediction:
    """At the problem's penalty; at the best one when `tuned`, where there is one."""
    if tuned:
        with suppress(TheoryError):
            return optimal_ridge(problem, method=method, level=level, throw=False).prediction
    return predict(problem, method=method, level=level, throw=False)


def _untrained(found: Prediction, tuned: bool, method: Method, level: Level | None) -> Prediction:
    """The network before the step: at its own best penalty when `tuned`."""
    if found.problem.eta == 0:
        return found
    if not tuned and found.untrained is not None:
        return found.untrained
    return _predicted(found.problem.replace(step=Step.none()), tuned, method, level)


def _landmarks(problems: Sequence[Problem], along: Axis) -> dict[str, float]:
    """Sizes where the curve crosses n = N (double descent), n = d, and n or N = d²/2 (products of two inputs)."""
    events = {
        "n = N": lambda p: np.log(float(p.n)) - np.log(float(p.N)),
        "n = d": lambda p: np.log(float(p.n)) - np.log(float(p.d)),
        "n = d²/2": lambda p: np.log(2 * float(p.n)) - 2 * np.log(float(p.d)),
        "N = d²/2": lambda p: np.log(2 * float(p.N)) - 2 * np.log(float(p.d)),
    }
    at = np.log([float(getattr(p, along)) for p in problems])
    out: dict[str, float] = {}
    for words, log_ratio in events.items():
        level = np.array([log_ratio(p) for p in problems])
        crossing = np.flatnonzero(np.diff(np.sign(level)) != 0)
        if crossing.size and not np.allclose(level, 0):
            i = int(crossing[0])
            share = level[i] / (level[i] - level[i + 1])
            out[words] = float(np.exp(at[i] + share * (at[i + 1] - at[i])))
    return out


def panels(found: Scaling, measured: Mapping[int, Estimate] | None = None) -> list[Panel]:
    """The curve with its simulated points (or those measured elsewhere) and landmarks, and its local exponent."""
    x, log = found.at, bool(found.at.max() > 5 * found.at.min())
    without = [p.status for p in found.without]
    curves = theory_series("after the step", x, found.test_error, found.status)
    if any(p.eta for p in found.problems):
        curves += theory_series("without a step", x, found.untrained, without, colour=4)
    by_position = {i: s.test_error for i, s in found.simulated.items()} if measured is None else measured
    if by_position:
        where, means = list(by_position), list(by_position.values())
        y, error = [float(e.mean) for e in means], [float(e.stderr) for e in means]
        curves.append(Series("simulated", x[where], y, error, "simulation", seeds=[e.values for e in means]))
    marks = [(size, words) for words, size in found.landmarks.items()]
    slope = theory_series("d log excess / d log size", x, found.exponent, found.status, colour=2)
    words = "other sizes fixed" if found.hold == "sizes" else "ratios fixed"
    axis = {"n": "samples n", "d": "inputs d", "N": "neurons N"}[found.along]
    return [
        Panel(f"test error, {words}", axis, "test error", curves, logx=log, logy=True, verticals=marks),
        Panel("local exponent", axis, "exponent", slope, logx=log, verticals=[(x, "") for x, _ in marks]),
    ]
