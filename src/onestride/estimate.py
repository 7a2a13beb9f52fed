"""Measured quantities: a value for each seed, their mean and its standard error, and the luck that is known of them.

An interval by the spread of s seeds asks for a mean that is nearly normal. Labels y whose power lies in a few of them have none:
seeds see less than the mean power, mostly, and no spread that says so. How skewed the power of a seed's n labels is follows from
the teacher,

    γ = E(y² − E y²)³/(Var y²)^{3/2}/√n,

and with γ/√s above 1 the standard error is too small, unless the seeds are freed of that luck (`simulation.known`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

import numpy as np

from onestride._numerics import Array, Float, gauss_density
from onestride.drawing import Panel, Series
from onestride.problem import Problem
from onestride.shown import Result, Variables, text
from onestride.table import Table
from onestride.teachers import Target

_MOST_CURVES = 5  # of one figure
MOST_SKEWED = 1.0  # of a mean over seeds: below it 95 % intervals miss up to 9 % of the time, at 8, 16: up to a quarter
MOST_SEEDS = 10_000  # beyond it more seeds are no answer
ENDLESS = "errors grow so fast with the random length of an input that they have no variance: ± says little, however many seeds there are"
MOST_KNOWN = 2  # directions of a teacher whose moments of a draw are known


@dataclass(frozen=True)
class Luck:
    """What is known of the luck in measured values, one row per seed: see `simulation.luck`.

    `moments` have expectation 0 and law that no error bar need count; `slopes` say how much of each is in the values.
    """

    freed: Float[Array, "seeds *shape"]
    slopes: Float[Array, "seeds *shape moments"]
    moments: Float[Array, "seeds moments"]

    def precise(self) -> Float[Array, "seeds *shape"]:
        """Values less slope times moment, the slopes being those of the other seeds; of one seed as they are."""
        seeds = self.moments.shape[0]
        if seeds < 2:
            return self.freed
        others = (self.slopes.sum(0) - self.slopes) / (seeds - 1)
        return self.freed - np.einsum("s...m,sm->s...", others, self.moments)


@dataclass(frozen=True, repr=False)
class Estimate(Result):
    """A measured quantity: one value per seed along the first axis.

    Values may be freed of luck whose law is known, which leaves their expectation as it is; `raw` are the plain ones.

    >>> from onestride.estimate import Estimate
    >>> import numpy as np
    >>> f"{Estimate(np.array([1.0, 2.0, 3.0])):.2f}"
    '2.00 ± 0.58'
    """

    _told = ("mean", "stderr")

    values: Float[Array, "seeds *shape"]
    plain: Float[Array, "seeds *shape"] | None = field(default=None, repr=False)
    luck: Luck | None = field(default=None, repr=False)

    @classmethod
    def freed(cls, plain: Float[Array, "seeds *shape"], luck: Luck) -> Estimate:
        """Plain values freed of their luck."""
        return cls(luck.precise(), plain, luck)

    @property
    def raw(self) -> Estimate:
        """The plain values, as they were measured."""
        return self if self.plain is None else Estimate(self.plain)

    @property
    def mean(self) -> Any:
        """Mean over seeds."""
        return self.values.mean(0)

    @property
    def stderr(self) -> Any:
        """Standard error of the mean; NaN for a single seed, which says nothing about spread."""
        s = self.values.shape[0]
        if s < 2:
            return np.full(self.values.shape[1:], np.nan)[()]
        return self.values.std(0, ddof=1) / np.sqrt(s)

    def __sub__(self, other: Estimate) -> Estimate:
        """Paired difference, seed by seed."""
        return Estimate(self.values - other.values, self.raw.values - other.raw.values)

    def __getitem__(self, cell: Any) -> Estimate:
        at: tuple[Any, ...] = (slice(None), *cast("tuple[Any, ...]", cell if isinstance(cell, tuple) else (cell,)))
        luck = self.luck and Luck(self.luck.freed[at], self.luck.slopes[at], self.luck.moments)
        return Estimate(self.values[at], self.raw.values[at], luck)

    def __format__(self, spec: str) -> str:
        return f"{self.mean:{spec}} ± {self.stderr:{spec}}"

    def _first_line(self) -> str:
        seeds = self.values.shape[0]
        return f"{text(self.to_dict())} {'of one seed' if seeds == 1 else f'over {seeds} seeds'}"

    def panels(self) -> Sequence[Panel]:
        """The value of each seed, with the mean."""
        each = self.values.reshape(self.values.shape[0], -1)[:, :_MOST_CURVES]
        series = [
            Series("", np.arange(len(each)), column, kind="simulation", colour=k) for k, column in enumerate(each.T)
        ]
        return [Panel("by seed", "seed", "value", series, horizontals=[(float(m), "") for m in each.mean(0)])]

    def _axes(self) -> dict[str, Sequence[Any]]:
        shape = self.values.shape
        return {"seed" if i == 0 else f"axis_{i}": range(size) for i, size in enumerate(shape)}

    def _variables(self) -> Variables:
        return {"value": (tuple(self._axes()), self.values), "raw": (tuple(self._axes()), self.raw.values)}


# ---------------------------------------------------------------------- labels with heavy tails


def is_known(problem: Problem) -> bool:
    """Whether the moments of a draw are known, so that its values are freed of them: x is Gaussian, its teacher has few directions."""
    return problem.law.normal and problem.directions <= MOST_KNOWN


def label_skewness(problem: Problem, *, freed: bool = True) -> float:
    """Of (1/n) Σ y², the power of one seed's labels, z Gaussian; 0 for a table and where `freed` seeds are freed of it.

    With random lengths it is infinite where teacher or activation grow so fast that squared errors have no variance, E ℓ^{4k} = ∞.

    >>> from onestride.estimate import label_skewness
    >>> heavy = one.Problem(n=400, d=200, N=300, teacher=[0, 1, 0.7071], directions=3, mix="staircase")
    >>> f"{label_skewness(heavy):.0f}, of one direction {label_skewness(heavy.replace(directions=1)):.0f}"
    '44, of one direction 0'
    """
    if isinstance(problem.inputs, Table) or (freed and is_known(problem)):
        return 0.0
    if problem.law.freedom is not None and 4 * max(problem.target.growth, problem.sigma.growth) >= problem.law.freedom:
        return math.inf
    s, (g2, g4, g6) = problem.noise**2, _powers(problem.target)
    y2, y4 = g2 + s, g4 + 6 * g2 * s + 3 * s**2
    third = g6 + 15 * g4 * s + 45 * g2 * s**2 + 15 * s**3 - 3 * y4 * y2 + 2 * y2**3
    found = third / max(y4 - y2**2, 1e-300) ** 1.5 / math.sqrt(problem.n)
    return found if math.isfinite(found) else 0.0


@lru_cache(maxsize=64)
def _powers(target: Target) -> tuple[float, float, float]:
    """E g², E g⁴, E g⁶."""
    z, weight = target.rule
    weight = weight * gauss_density(z) if target.directions == 1 else weight
    with np.errstate(over="ignore"):
        g = target(z)
        return float(weight @ g**2), float(weight @ g**4), float(weight @ g**6)


def nearly_normal(skewness: float, seeds: int) -> bool:
    """Whether a mean over seeds is, one value having this skewness, so that Student's interval holds it as often as it says."""
    return abs(skewness) <= MOST_SKEWED * math.sqrt(seeds)


def rounded(seeds: int) -> int:
    """Two digits, rounded up: the spread itself is an estimate."""
    unit = 10 ** max(len(str(seeds)) - 2, 0)
    return -(-seeds // unit) * unit


def heavy_tails(skewness: float, seeds: int) -> str | None:
    """What is to be said of ± over so many seeds of labels of this skewness; None where they do, and of one seed, which has none."""
    if seeds < 2 or nearly_normal(skewness, seeds):
        return None
    if math.isinf(skewness):
        return ENDLESS
    needed = math.ceil((skewness / MOST_SKEWED) ** 2)
    enough = f"about {rounded(needed):,}" if needed <= MOST_SEEDS else f"more than {MOST_SEEDS:,}"
    return (
        f"± is too narrow: labels with heavy tails, whose mean power over {seeds} seeds has skewness "
        f"{skewness / math.sqrt(seeds):.2g} ({MOST_SKEWED:g} at most is needed); {enough} seeds would do"
    )
