"""Measured quantities: a value for each seed, their mean and its standard error, and the luck that is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from onestride._numerics import Array, Float
from onestride.drawing import Panel, Series
from onestride.shown import Result, Variables, text

_MOST_CURVES = 5  # of one figure


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
