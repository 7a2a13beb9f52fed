"""What a curve of the page may run along: the numbers of an address, from where to where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onestride._errors import InputError
from onestride.problem import Problem
from onestride.theory.quick import Quality
from onestride.theory.quick_curves import along, error_map
from onestride.web.query import MOST_INPUTS, problem_of_any_size, read_problem


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`, further where the problem itself is; even in logarithms when `log`."""

    low: float
    high: float
    log: bool = True


AXES = {
    "exponent": Axis(0.0, 0.5, log=False),
    "ridge": Axis(1e-4, 10.0),
    "n": Axis(1e2, 1e15),
    "phi": Axis(0.05, 4.0),
    "psi": Axis(0.05, 4.0),
    "noise": Axis(0.0, 2.0, log=False),
    "constant": Axis(0.1, 10.0),
}


def check_axis(name: str) -> str:
    """A name of `AXES`, or a sentence."""
    if name not in AXES:
        raise InputError(f"axis must be one of {', '.join(AXES)}, got {name[:40]!r}")
    return name


def curve(query: Mapping[str, str], name: str, quality: Quality) -> dict[str, Any]:
    """Errors and shares of the problem of an address along one of its numbers."""
    problem, axis = read_problem(query), AXES[name]

    def at(value: float) -> Problem:
        return problem_of_any_size(dict(query) | {name: str(round(value)) if name == "n" else f"{value:.10g}"})

    return along(problem, name, at, _ends(problem, name), quality, log=axis.log)


def penalty_map(problem: Problem, quality: Quality) -> dict[str, Any]:
    """The test error over (α, λ)."""
    return error_map(problem, (AXES["ridge"].low, AXES["ridge"].high), quality)


def _ends(problem: Problem, name: str) -> tuple[float, float]:
    """Where the axis begins and ends; the d of a covariance has a limit."""
    axis, own = AXES[name], getattr(problem, name) if name != "constant" else problem.step.constant
    own = own if own > 0 or not axis.log else axis.low
    low, high = min(axis.low, own), max(axis.high, own)
    if problem.law.times is None or name not in ("n", "phi"):
        return low, high
    return low, min(high, MOST_INPUTS * (problem.n / problem.d if name == "n" else 1 / problem.n))
