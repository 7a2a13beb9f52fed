"""`atlas`: the best step and the best test error over a plane of problems, (φ, ψ) or (n, noise).

At every point of the plane the test error is tabulated over steps and penalties; for each step it is that of the best penalty, by a
parabola in log λ through the best and its neighbours, then that of the best step, by one in log η. The theory is that of `predict` on the few nodes of a map: errors within 2 % of its
(`one.optimum` has the rest), a map of 6 × 6 points in seconds. Cells whose numbers are known to be off do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from onestride._backend.threads import one_thread
from onestride._errors import InputError
from onestride._numerics import Array, Float
from onestride.drawing import Map
from onestride.problem import Problem, Step, grid_axis
from onestride.result import Result, Status
from onestride.shown import Variables
from onestride.theory.profile.errors import errors
from onestride.theory.reliability import known_off

Plane = Literal["phi-psi", "n-noise"]
NODES = 17
_STEPS = 9  # sizes of the step, from 1/2 to 5√n, and none
_RIDGES = np.geomspace(3e-3, 10, 7)
_AXES = {
    "phi": np.geomspace(0.1, 3, 6),
    "psi": np.geomspace(0.1, 3, 6),
    "n": np.geomspace(100, 3000, 6),
    "noise": np.linspace(0, 1.5, 6),
}


@dataclass(frozen=True, repr=False)
class Atlas(Result):
    """Maps over a plane of problems, rows along y: the best test error, the best step η, its penalty, and the best without a step.

    NaN where no number may be trusted; a best step of 0 where none is better than any tried.
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
        names = {"phi": "φ = d/n", "psi": "ψ = d/N", "n": "samples n", "noise": "noise σ_ε"}
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
        return (
            f"over ({', '.join(self.over)}) the best step goes from η = {steps.min():.3g} to {steps.max():.3g} and lowers the best test "
            f"error by up to {np.nanmax(self.gain):.0%}; on the {NODES} nodes of a map, errors to about 2 %"
        )


@one_thread()
def atlas(problem: Problem, over: Plane = "phi-psi", x: ArrayLike | None = None, y: ArrayLike | None = None) -> Atlas:
    """The best step and test error at every point of a plane.

    Parameters
    ----------
    over
        ``"phi-psi"``: x is φ = d/n, y is ψ = d/N, d as in the problem. ``"n-noise"``: x is n with d, N and n_step in their
        proportions, y the noise σ_ε.
    x, y
        Points of the axes; six each when None.
    """
    if over not in ("phi-psi", "n-noise"):
        raise InputError(f"over must be 'phi-psi' or 'n-noise', got {over!r}")
    names = ("phi", "psi") if over == "phi-psi" else ("n", "noise")
    xs = grid_axis("x", _AXES[names[0]] if x is None else x, positive=True)
    ys = np.asarray(_AXES[names[1]] if y is None else y, float)
    if over == "phi-psi" or ys.ndim != 1 or not (ys >= 0).all():
        ys = grid_axis("y", ys, positive=over == "phi-psi")
    cells = np.array([[_best(_at(problem, over, float(a), float(b))) for a in xs] for b in ys])
    return Atlas(problem, names, xs, ys, *np.moveaxis(cells, -1, 0))


def _at(problem: Problem, over: Plane, x: float, y: float) -> Problem:
    if over == "phi-psi":
        return problem.replace(n=max(round(problem.d / x), 1), N=max(round(problem.d / y), 1))
    factor = x / problem.n
    names = ("n", "d", "N", "n_step") if problem.n_step else ("n", "d", "N")
    return problem.replace(noise=y, **{name: max(round(getattr(problem, name) * factor), 1) for name in names})


def _best(problem: Problem) -> tuple[float, float, float, float]:
    """The smallest test error, its step and penalty, and the smallest without a step."""
    etas = np.asarray(np.geomspace(0.5, 5 * float(np.sqrt(problem.n)), _STEPS), float)
    ridges, tuned = np.array([_vertex(np.log(_RIDGES), _errors(problem, float(eta))) for eta in etas]).T
    bare, untrained = _vertex(np.log(_RIDGES), _errors(problem, 0.0))
    if not np.isfinite(tuned).any() or np.nanmin(tuned) >= untrained:
        return untrained, 0.0, float(np.exp(bare)), untrained
    step, lowest = _vertex(np.log(etas), tuned)
    return lowest, float(np.exp(step)), float(np.exp(ridges[np.nanargmin(tuned)])), untrained


def _errors(problem: Problem, eta: float) -> Float[Array, "penalties"]:
    """Test errors at the penalties of the table; NaN where they are unknown or known to be off."""
    step = Step(constant=eta, exponent=0.0) if eta else Step.none()
    there = problem.replace(step=step)
    if known_off(there) is not None:
        return np.full(_RIDGES.size, np.nan)
    found = errors(there, [step], _RIDGES, nodes=NODES, checked=False)
    return np.where([status is Status.SOLVED for status in found.status[0]], found.test_error[0], np.nan)


def _vertex(x: Array, y: Array) -> tuple[float, float]:
    """Where the parabola through the smallest value and its neighbours has its minimum, and that; NaN where no value is known."""
    if not np.isfinite(y).any():
        return np.nan, np.nan
    at = int(np.nanargmin(y))
    if not 0 < at < x.size - 1 or not np.isfinite(y[at - 1 : at + 2]).all():
        return float(x[at]), float(y[at])
    distance, bend, slope = x[1] - x[0], y[at - 1] - 2 * y[at] + y[at + 1], (y[at + 1] - y[at - 1]) / 2
    if not bend > 0:
        return float(x[at]), float(y[at])
    return float(x[at] - distance * slope / bend), float(y[at] - slope**2 / (2 * bend))
