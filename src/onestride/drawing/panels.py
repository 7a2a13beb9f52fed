"""What a figure is made of: series, panels and maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from onestride._errors import InputError, quoted

Kind = Literal["theory", "marked", "simulation", "limit", "histogram", "scatter"]


@dataclass(frozen=True)
class Series:
    """One curve, one set of points, or one histogram (x are the bin edges).

    `seeds` are the values of every point whose means are y, seed by seed; the table of the figure keeps them.

    >>> one.plot.Series("squares", [0, 1, 2], [0, 1, 4]).kind
    'theory'
    """

    label: str
    x: ArrayLike
    y: ArrayLike
    error: ArrayLike | None = None
    kind: Kind = "theory"
    colour: int = 0
    seeds: Sequence[ArrayLike] | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InputError(f"kind of a series must be one of {', '.join(get_args(Kind))}, got {quoted(self.kind)}")
        places, values = np.size(self.x), np.size(self.y) + (self.kind == "histogram")
        if places != values:
            raise InputError(f"x of the series {self.label!r} must have {values} values, as y tells, got {places}")


@dataclass(frozen=True)
class Panel:
    """One set of axes: what is drawn and how the axes read. Lines are (position, label) pairs.

    Panels of one figure whose axes have the same name share their limits, unless one is not `shared`.

    >>> one.plot.Panel("growth", "x", "y", [one.plot.Series("squares", [0, 1, 2], [0, 1, 4])]).title
    'growth'
    """

    title: str
    xlabel: str
    ylabel: str
    series: Sequence[Series]
    logx: bool = False
    logy: bool = False
    verticals: Sequence[tuple[float, str]] = ()
    horizontals: Sequence[tuple[float, str]] = ()
    xticks: Sequence[float] = ()
    xnames: Sequence[str] = ()  # words in place of the numbers at xticks
    xlim: tuple[float, float] | None = None
    ylim: tuple[float, float] | None = None  # widened where a measured point would lie outside
    linear_to: float = 0.0  # y is linear up to ± this and logarithmic beyond: far points do not flatten the rest
    shared: bool = True


@dataclass(frozen=True)
class Map:
    """A quantity over a plane: values (y × x) as colours, each written into its cell.

    >>> len(one.plot.draw([one.plot.Map("plane", "x", "y", [0, 1], [0, 1], [[1, 2], [3, 4]])]).axes) >= 1
    True
    """

    title: str
    xlabel: str
    ylabel: str
    x: ArrayLike
    y: ArrayLike
    values: ArrayLike
    log: bool = False
