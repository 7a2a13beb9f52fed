"""`atlas`: the best step and the best test error over a plane of problems, (φ, ψ), (n, N) or (n, noise).

At every point of the plane the test error is tabulated over steps and penalties, from the best step of the point before until both
neighbours of the best are worse; for each step it is that of the best penalty, by a parabola in log λ through the best and its neighbours, then that of the best step, by one in log η. The theory is that of `predict` on the
few nodes of a map: errors within 2 % of its (`one.optimum` has the rest), a map of 6 × 6 points in seconds. Cells whose numbers are known
to be off do not count. Of a table the theory is that of its rows, with fewer draws of a step's change than
`predict` takes: of 39 cells of two tables 36 are within 2.5 % of a map with all of them, the worst 8 % off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from onestride._backend.threads import one_thread
from onestride._errors import InputError
from onestride._numerics import Array, Float
from onestride.drawing import Map
from onestride.problem import Problem, Step, expect, grid_axis
from onestride.result import Result, Status
from onestride.shown import Variables
from onestride.table import Table
from onestride.theory.descent import vertex
from onestride.theory.profile.errors import errors
from onestride.theory.reliability import known_off
from onestride.theory.table.errors import errors as of_rows
from onestride.theory.table.rows import OF_A_MAP

Plane = Literal["phi-psi", "n-N", "n-noise"]
NAMES: dict[str, tuple[str, str]] = {"phi-psi": ("phi", "psi"), "n-N": ("n", "N"), "n-noise": ("n", "noise")}
NODES = 17
_STEPS = 9  # sizes of the step, from 1/2 to 5√n, and none
_RIDGES = np.geomspace(3e-3, 10, 7)
_OF_ROWS = np.geomspace(1e-5, 10, 19)  # of a table, where more of them cost nothing
_AXES = {
    "phi": np.geomspace(0.1, 3, 6),
    "psi": np.geomspace(0.1, 3, 6),
    "n": np.geomspace(100, 3000, 6),
    "N": np.geomspace(64, 2048, 6),
    "noise": np.linspace(0, 1.5, 6),
}


@dataclass(frozen=True, repr=False)
class Atlas(Result):
    """Maps over a plane of problems, rows along y: the best test error, the best step η, its penalty, and the best without a step.

    NaN where no number of any step may be trusted; a best step of 0 where none is better than any tried.
    """

    _told = ("over", "x", "y", "test_error", "step", "ridge", "untrained", "message")
    _brief = ("over", "test_error", "step")

    problem: Problem
    over: tuple[str, str]
    x: Float[Array, "x"]
    y: Float[Array, "y"]
    test_error: Float[Array, "y x"]
    step: Float[Array, "y x"]
    ridge: Float[Array, "y x"]
    untrained: Float[Array, "y x"]

    def panels(self) -> Sequence[Map]:
        """The best test error, and the step that reaches it."""
        names = {"phi": "φ = d/n", "psi": "ψ = d/N", "n": "samples n", "N": "neurons N", "noise": "noise σ_ε"}
        names |= {"n": "samples n, with d and N in proportion"} if self.over == NAMES["n-noise"] else {}
        axes = names[self.over[0]], names[self.over[1]], self.x, self.y
        return [Map("best test error", *axes, self.test_error), Map("best step η", *axes, self.step, log=True)]

    def _axes(self) -> dict[str, Sequence[float]]:
        return {self.over[1]: self.y.tolist(), self.over[0]: self.x.tolist()}

    def _variables(self) -> Variables:
        plane = (self.over[1], self.over[0])
        return {name: (plane, getattr(self, name)) for name in ("test_error", "step", "ridge", "untrained", "gain")}

    @property
    def gain(self) -> Float[Array, "y x"]:
        """What the best step adds to the best penalty, as a share of the error without it."""
        return 1 - self.test_error / self.untrained

    @property
    def message(self) -> str:
        """From where to where the best step and its gain go."""
        if not np.isfinite(self.test_error).any():
            return "no point of the plane has a number that may be trusted"
        steps = self.step[np.isfinite(self.step)]
        nodes = (
            "" if isinstance(self.problem.inputs, Table) else f"; on the {NODES} nodes of a map, errors to about 2 %"
        )
        return (
            f"over ({', '.join(self.over)}) the best step goes from η = {steps.min():.3g} to {steps.max():.3g} and lowers the best test "
            f"error by up to {np.nanmax(self.gain):.0%}{nodes}"
        )


@one_thread()
def atlas(
    problem: Problem,
    over: Plane | None = None,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Atlas:
    """The best step and test error at every point of a plane.

    Parameters
    ----------
    over
        ``"phi-psi"``: x is φ = d/n, y is ψ = d/N, d as in the problem. ``"n-N"``: x is n, y is N, all else as in the problem; the only plane
        of a table. ``"n-noise"``: x is n with d, N and n_step in their proportions, y the noise σ_ε. None: the first that the problem has.
    x, y
        Points of the axes; six each when None.
    progress
        Called with the points done and their number.

    >>> from onestride.theory.atlas import atlas
    >>> problem = one.Problem(n=200, d=100, N=150, teacher=[0, 1, 0.7071], noise=0.5)
    >>> atlas(problem, "n-N", x=[200], y=[150]).test_error.round(1)
    array([[1.6]])
    """
    expect(problem)
    over = plane_of(problem, over)
    xs = grid_axis("x", _axis(problem, NAMES[over][0]) if x is None else x, positive=True)
    ys = np.asarray(_axis(problem, NAMES[over][1]) if y is None else y, float)
    if over != "n-noise" or ys.ndim != 1 or not (ys >= 0).all():
        ys = grid_axis("y", ys, positive=over != "n-noise")
    cells: list[tuple[float, ...]] = []
    for b in ys:
        for a in xs:
            cells.append(best_at(problem, over, float(a), float(b), near=cells[-1][1] if cells else 0.0))
            progress(len(cells), xs.size * ys.size)
    table = np.reshape(cells, (ys.size, xs.size, 4))
    return Atlas(problem, NAMES[over], xs, ys, *np.moveaxis(table, -1, 0))


def plane_of(problem: Problem, over: str | None) -> Plane:
    """The plane asked for, or the first that the problem has."""
    of_rows = isinstance(problem.inputs, Table)
    over = over or ("n-N" if of_rows else "phi-psi")
    if over not in NAMES or (of_rows and over != "n-N"):
        allowed = "'n-N', as d and the noise of a table are its own" if of_rows else ", ".join(map(repr, NAMES))
        raise InputError(f"over must be {'' if of_rows else 'one of '}{allowed}, got {over!r}")
    return cast("Plane", over)


def axes(problem: Problem, over: Plane) -> tuple[Array, Array]:
    """Points of both axes."""
    return _axis(problem, NAMES[over][0]), _axis(problem, NAMES[over][1])


def best_at(problem: Problem, over: Plane, x: float, y: float, near: float = 0.0) -> tuple[float, float, float, float]:
    """One point: the smallest test error, its step and penalty, and the smallest without a step; looking first at the step `near`."""
    problem = _at(problem, over, x, y)
    etas, logs = _steps_of(problem), np.log(_OF_ROWS if isinstance(problem.inputs, Table) else _RIDGES)
    beside = logs.size // 2  # where the last step's best penalty was

    def tuned(eta: float) -> tuple[float, float]:
        nonlocal beside
        values = _downhill(lambda some: _errors(problem, eta, np.exp(logs[some])), logs.size, beside)
        beside = int(np.nanargmin(values)) if np.isfinite(values).any() else beside
        return vertex(logs, values)

    ridges: dict[int, float] = {}

    def each(some: list[int]) -> Array:
        found = {i: tuned(float(etas[i])) for i in some}
        ridges.update({i: ridge for i, (ridge, _) in found.items()})
        return np.array([error for _, error in found.values()])

    first = int(np.argmin(np.abs(np.log(etas / (near if near > 0 else etas[etas.size // 2])))))
    errors_at = _downhill(each, etas.size, first)
    bare, untrained = tuned(0.0)
    if not np.isfinite(errors_at).any():
        return math.nan, math.nan, math.nan, untrained
    if np.nanmin(errors_at) >= untrained:
        return untrained, 0.0, float(np.exp(bare)), untrained
    step, lowest = vertex(np.log(etas), errors_at)
    return lowest, float(np.exp(step)), float(np.exp(ridges[int(np.nanargmin(errors_at))])), untrained


def _axis(problem: Problem, name: str) -> Array:
    """Points of an axis; of a table powers of two, at which its theory does not interpolate, up to twice its rows."""
    table = problem.inputs
    if not isinstance(table, Table):
        return _AXES[name]
    powers: Array = np.arange(6.0, float(np.log2(2 * table.rows))) if name == "n" else np.array([6.0, 8.0, 10.0])
    return 2.0**powers


def _at(problem: Problem, over: Plane, x: float, y: float) -> Problem:
    if over == "phi-psi":
        return problem.replace(n=max(round(problem.d / x), 1), N=max(round(problem.d / y), 1))
    if over == "n-N":
        return problem.replace(n=max(round(x), 1), N=max(round(y), 1))
    return problem.in_proportion(x / problem.n).replace(noise=y)


def _downhill(values_at: Callable[[list[int]], Array], size: int, first: int) -> Float[Array, "size"]:
    """Values around the smallest of a list, from position `first` down to where both neighbours are larger; NaN where none was needed.

    Where no value is known yet the walk goes on to the next position below, and from the first to the last.
    """
    found, tried, at = np.full(size, np.nan), set[int](), first
    while True:
        new = [i for i in (at - 1, at, at + 1) if 0 <= i < size and i not in tried]
        if new:
            found[new] = values_at(new)
            tried |= set(new)
        if np.isfinite(found).any():
            best = int(np.nanargmin(found))
        elif len(tried) == size:
            return found
        else:
            best = max((i for i in range(size) if i not in tried and i < first), default=max(set(range(size)) - tried))
        if best == at:
            return found
        at = best


def _steps_of(problem: Problem) -> Float[Array, "steps"]:
    """Sizes of the step, evenly in log η; of a table those at which its theory does not interpolate."""
    if isinstance(problem.inputs, Table):
        return np.sqrt(problem.N) * 2.0 ** np.arange(-5, 4)
    return np.asarray(np.geomspace(0.5, 5 * float(np.sqrt(problem.n)), _STEPS), float)


def _errors(problem: Problem, eta: float, penalties: Float[Array, "penalties"]) -> Float[Array, "penalties"]:
    """Test errors at these penalties; NaN where they are unknown or known to be off."""
    step = Step(constant=eta, exponent=0.0) if eta else Step.none()
    there = problem.replace(step=step)
    if isinstance(problem.inputs, Table):
        found = of_rows(there, [step], penalties, effort=OF_A_MAP)
    elif known_off(there) is not None:
        return np.full(penalties.size, np.nan)
    else:
        found = errors(there, [step], penalties, nodes=NODES, checked=False)
    return np.where([status is Status.SOLVED for status in found.status[0]], found.test_error[0], np.nan)
