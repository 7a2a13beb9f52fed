"""The step size η = c·n^α, and lists of them: one for each of several steps."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Self

from pydantic import field_validator

from onestride._errors import InputError
from onestride._fields import Frozen, NonNegative, Real


class Step(Frozen):
    """The size of the gradient step, η = constant · n^exponent.

    >>> one.Step(constant=2, exponent=0.5).size(100)
    20.0
    >>> one.Step.none().size(100)
    0.0
    """

    constant: NonNegative = 1.0
    exponent: Real = 0.0

    @classmethod
    def none(cls) -> Step:
        """No step: the random features model."""
        return cls(constant=0.0, exponent=0.0)

    def size(self, n: int) -> float:
        """η at sample size n."""
        try:
            eta = self.constant * float(n) ** self.exponent
        except OverflowError:
            eta = math.inf if self.constant else 0.0
        if not math.isfinite(eta):
            raise InputError(f"step: {self.constant:g} · n^{self.exponent:g} is too large a number at n = {n}")
        return eta

    def sizes(self, n: int, steps: int) -> tuple[float, ...]:
        """η of each of `steps` steps at sample size n."""
        return (self.size(n),) * steps

    def as_data(self) -> Any:
        """Plain numbers: a table, or a list of tables."""
        return {"constant": self.constant, "exponent": self.exponent}


class Schedule(Step):
    """Step sizes that differ from step to step, `Problem(step=[Step(…), Step(…)])`; the whole has one c and one α.

    constant and exponent are the largest of the list. To change them is to change all steps together: c by a factor, α by
    a shift, so that the steps keep their proportions and, where all have the same exponent, all get the new one.

    >>> steps = [one.Step(constant=1.0, exponent=0.3), one.Step(constant=0.5, exponent=0.3)]
    >>> [step.constant for step in one.Problem(n=400, d=200, N=300, step=steps).step.each]
    [1.0, 0.5]
    """

    each: tuple[Step, ...]

    @field_validator("each")
    @classmethod
    def _several(cls, each: tuple[Step, ...]) -> tuple[Step, ...]:
        if len(each) < 2 or any(isinstance(step, Schedule) for step in each):
            raise InputError("a schedule is a list of two or more steps")
        return each

    @classmethod
    def of(cls, steps: Iterable[Any]) -> Step:
        """The schedule with these steps; a plain Step where all are the same."""
        each = [step if isinstance(step, Step) else Step(**step) for step in steps]
        if not each:
            raise InputError("a schedule is a list of two or more steps")
        if all(step == each[0] or step.constant == each[0].constant == 0 for step in each):
            return each[0]
        taken = [step for step in each if step.constant > 0]
        constant, exponent = max(step.constant for step in taken), max(step.exponent for step in taken)
        return cls(each=tuple(each), constant=constant, exponent=exponent)

    def replace(self, **changes: Any) -> Self:
        """A copy at another c or α: every step is multiplied, or shifted, alike."""
        constant, exponent = (changes.get(name, getattr(self, name)) for name in ("constant", "exponent"))
        factor, shift = constant / self.constant, exponent - self.exponent
        each = tuple(
            Step(constant=step.constant * factor, exponent=round(step.exponent + shift, 12)) if step.constant else step
            for step in self.each
        )
        return type(self)(each=each, constant=constant, exponent=exponent)

    def sizes(self, n: int, steps: int) -> tuple[float, ...]:
        """η of each step at sample size n; `steps` is their number."""
        return tuple(step.size(n) for step in self.each)

    def as_data(self) -> Any:
        """A list of tables."""
        return [step.as_data() for step in self.each]


def read_step(data: Any) -> Step:
    """The inverse of `as_data`."""
    return Schedule.of(data) if isinstance(data, list) else Step(**data)
