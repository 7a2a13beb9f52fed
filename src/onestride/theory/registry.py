"""The theories by name. To add one, write its file and register a `Theory` (see docs/extend.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from numpy.typing import ArrayLike

from onestride._errors import InputError, one_of, quoted
from onestride._numerics import Array
from onestride.problem import Problem, Step
from onestride.result import Errors
from onestride.table import Table

# the choices of `method=` for editors and type checkers; a theory of one's own is registered at run time
Method = Literal["auto", "profile", "finite-step", "plateau", "exact-plateau", "table"]


class Move(NamedTuple):
    """Two problems on a line through a third one, and where on it they are: low ≤ 0 < high."""

    below: Problem
    above: Problem
    low: float
    high: float


@dataclass(frozen=True)
class Theory:
    """One theory of the errors.

    name
        What `method=` calls it.
    errors
        (problem, steps, penalties) → `Errors`: three errors, a status and a sentence for each step and penalty.
    accuracy
        One honest sentence on what it is worth, with the numbers behind it, or a function of the problem that says it.
    domain
        Why the theory does not apply to a problem; None where it does.
    limit
        A theory of n → ∞ says so: its numbers are not marked as inaccurate, and "auto" never takes it.
    every_degree
        It resolves every degree of the inputs: n and N may be of order d² and beyond.
    at_level
        The same theory at the level that `level=` names, where there are several.
    of_tables
        It describes the rows of a table, and "auto" takes it for those problems only. It marks its numbers itself.
    unchecked
        `errors` on as few nodes as a search can do with, where that is quicker.
    slopes
        (problem, moves) → the same of one problem, and d log(test error) along every move, where derivatives cost less than errors.
    """

    name: str
    errors: Callable[[Problem, list[Step], ArrayLike], Errors]
    accuracy: str | Callable[[Problem], str]
    domain: Callable[[Problem], str | None]
    limit: bool = False
    every_degree: bool = False
    at_level: Callable[[str], Theory] | None = None
    of_tables: bool = False
    unchecked: Callable[[Problem, list[Step], ArrayLike], Errors] | None = None
    slopes: Callable[[Problem, Sequence[Move]], tuple[Errors, Array]] | None = None

    @property
    def searching(self) -> Theory:
        """The theory as a search asks it, many times over: without what only makes sure of the answer."""
        return self if self.unchecked is None else replace(self, errors=self.unchecked)

    def words(self, problem: Problem) -> str:
        """What is known about its accuracy for problems like this one."""
        return self.accuracy if isinstance(self.accuracy, str) else self.accuracy(problem)


_THEORIES: dict[str, Theory] = {}


def register(theory: Theory) -> None:
    """Make a theory known by its name; "auto" tries those registered first before the others."""
    _THEORIES[theory.name] = theory


def methods() -> tuple[str, ...]:
    """What `method=` may be."""
    return ("auto", *_THEORIES)


def choose(problem: Problem, method: str, level: str | None) -> Theory:
    """The theory called `method`; for "auto" the first of finite n that applies, or the first, which says why not."""
    one_of("method", method, methods())
    if method == "auto":
        of_rows = isinstance(problem.inputs, Table)
        finite = [theory for theory in _THEORIES.values() if not theory.limit and theory.of_tables == of_rows]
        theory = next((theory for theory in finite if theory.domain(problem) is None), finite[0])
    else:
        theory = _THEORIES[method]
    if level is None:
        return theory
    if theory.at_level is None:
        having = " or ".join(f"method={name!r}" for name, other in _THEORIES.items() if other.at_level)
        raise InputError(f"level goes with {having}, got level={quoted(level)} with method={method!r}")
    return theory.at_level(level)
