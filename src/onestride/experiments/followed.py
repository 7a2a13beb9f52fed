"""What theory says before the steps and after each of them, beside what was followed in simulations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onestride._numerics import Array, Float
from onestride.comparison import Pair, agree
from onestride.plot import Series, theory_series
from onestride.problem import Problem, Step
from onestride.result import Estimate, Status
from onestride.theory.predict import predict_grid
from onestride.theory.profile.travel import leading_overlap


@dataclass(frozen=True)
class TheoryPath:
    """By the number of steps 0, 1, … the test error over the teacher's power, the overlap (vᵀβ⋆)² and a status.

    Both end where theory does: a teacher with E[y z] = 0 is followed for one step, since what later ones make of the direction that a
    batch shows by chance differs from draw to draw.
    """

    test_error: Float[Array, "steps"]
    overlap: Float[Array, "steps"]
    status: tuple[Status, ...]

    @property
    def solved(self) -> list[int]:
        """After how many steps, from 1 on, there is a number that is not known to be off."""
        return [t for t, status in enumerate(self.status) if t and status is Status.SOLVED]

    def errors_beside(self, risks: Estimate, among: int, skewness: float = 0.0) -> list[Pair]:
        """The test error beside measured ones (seeds × steps, from 1 on), where theory does not mark its own."""
        how: dict[str, Any] = {"among": among, "skewness": skewness, "quantity": "test error"}
        return [agree(float(self.test_error[t]), risks[t - 1], **how) for t in self.solved]

    def overlaps_beside(self, overlaps: Estimate, among: int, skewness: float = 0.0) -> list[Pair]:
        """The same for the overlap."""
        how: dict[str, Any] = {"among": among, "skewness": skewness, "quantity": "overlap"}
        return [agree(float(self.overlap[t]), overlaps[t - 1], **how) for t in self.solved]

    def series(self, values: Float[Array, "steps"], label: str, colour: int, first: int = 0) -> list[Series]:
        """A line through the numbers from `first` on, dashed where they are known to be off."""
        steps = np.arange(len(values))
        return theory_series(label, steps[first:], values[first:], self.status[first:], colour)


def theory_path(problem: Problem, ridges: Sequence[float], steps: int) -> TheoryPath:
    """Theory for up to so many steps, each at the best of the penalties."""
    errors, overlaps, status = list[float](), list[float](), list[Status]()
    blind = problem.target.coefficients[1] == 0
    for count in range(1 + (min(steps, 1) if blind else steps)):
        there = problem.replace(steps=count) if count else problem.replace(steps=1, step=Step.none())
        grid = predict_grid(there, [there.step.exponent], ridges)
        if not np.isfinite(grid.test_error).any():
            break
        at = int(np.nanargmin(grid.test_error[0]))
        errors.append(float(grid.test_error[0, at] - problem.noise**2) / problem.target.second_moment)
        one_direction = count > 0 and problem.directions == 1
        overlaps.append(leading_overlap(there) if one_direction else np.nan)
        status.append(grid.status[0, at])
    return TheoryPath(np.array(errors), np.array(overlaps), tuple(status))
