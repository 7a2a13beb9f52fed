"""Categories, by the conventions of scikit-learn's HistGradientBoosting: which columns have them, and one column of 0 and 1 per level.

``"from_dtype"`` takes the columns of a data frame whose dtype is categorical; a list or mask names columns. Missing entries are a level of
their own where the training rows had some. What the training rows did not have counts as missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onestride._errors import InputError
from onestride._numerics import Array

MOST_LEVELS = 255  # of a column: the most frequent; others count as missing


@dataclass
class Categories:
    """The levels of each categorical column by its number, and in which of them training rows had gaps."""

    levels: dict[int, Any] = field(default_factory=dict)
    gaps: set[int] = field(default_factory=set)

    def coded(self, X: Any) -> Any:
        """X with every level replaced by its number, NaN for what is missing or unknown; X itself without categories, or
        where it lacks columns, which scikit-learn then says.
        """
        if not self.levels:
            return X
        shape = _shape(X)
        if len(shape) != 2 or shape[1] <= max(self.levels):
            return X
        if not _is_frame(X):
            table = np.asarray(X)
            out = table.astype(table.dtype if table.dtype.kind == "f" else object)
            for j, levels in self.levels.items():
                out[:, j] = _codes(table[:, j].astype(object), levels)
            return out if table.dtype.kind == "f" else out.astype(np.float64)
        coded = {j: _codes(np.asarray(_column(X, j), object), levels) for j, levels in self.levels.items()}
        if not hasattr(X, "iloc"):  # polars, whose frames are not changed
            kept = {j: _column(X, j) for j in coded}
            return X.with_columns([type(kept[j])(kept[j].name, codes) for j, codes in coded.items()])
        X = X.copy(deep=False)
        for j, codes in coded.items():
            X.isetitem(j, codes)
        return X

    def expanded(self, X: Array) -> Array:
        """Coded rows with one column of 0 and 1 per level in place of each categorical column; one in all for two levels."""
        if not self.levels:
            return X
        parts = []
        for j in range(X.shape[1]):
            column = X[:, j : j + 1]
            if j in self.levels:
                known = column == np.arange(len(self.levels[j]))
                column = (np.hstack([known, np.isnan(column)]) if j in self.gaps else known).astype(X.dtype)
                column = column[:, 1:] if column.shape[1] == 2 else column
            parts.append(column)
        return np.hstack(parts)

    def owners(self, d: int) -> Array:
        """The column of X, of d, that each expanded column comes from."""
        widths = [self._width(j) if j in self.levels else 1 for j in range(d)]
        return np.repeat(np.arange(d), widths)

    def names(self, columns: Iterable[Any]) -> list[str]:
        """Names of the expanded columns: that of the column, for a level followed by it."""
        out: list[str] = []
        for j, name in enumerate(columns):
            told = [*self.levels.get(j, ()), *(["missing"] if j in self.gaps else [])]
            told = told[1:] if len(told) == 2 else told
            out += [f"{name}_{level}" for level in told] if j in self.levels else [str(name)]
        return out

    def _width(self, j: int) -> int:
        count = len(self.levels[j]) + (j in self.gaps)
        return 1 if count == 2 else count


def read_categories(X: Any, wanted: Any) -> Categories:
    """The categories of a table, or a sentence when `categorical_features` does not fit it."""
    frame = _is_frame(X)
    if wanted is None or (isinstance(wanted, str) and wanted == "from_dtype"):
        found = [j for j, kind in enumerate(X.dtypes) if _is_category(kind)] if frame and wanted is not None else []
    else:
        found = _columns(X, wanted, frame)
    out = Categories()
    for j in found:
        column = np.asarray(_column(X, j) if frame else np.asarray(X)[:, j], object)
        there = ~_missing(column)
        levels, counts = _levels(column[there])
        out.levels[j] = [levels[k] for k in np.sort(np.argsort(-counts, kind="stable")[:MOST_LEVELS])]
        if not there.all() or len(levels) > MOST_LEVELS:
            out.gaps.add(j)
    return out


def _columns(X: Any, wanted: Any, frame: bool) -> list[int]:
    """Numbers of the columns that a list of names or numbers, or a mask, means."""
    shape = _shape(X)
    d = shape[1] if len(shape) == 2 else 0
    asked = np.atleast_1d(np.asarray(wanted))
    allowed = f"'from_dtype', None, or names, numbers below {d} or a mask of columns"
    if asked.dtype.kind == "b" and asked.size == d:
        return np.flatnonzero(asked).tolist()
    if asked.dtype.kind in "iu" and asked.size and asked.min() >= 0 and asked.max() < d:
        return sorted({int(j) for j in asked})
    if asked.dtype.kind in "UO" and frame and all(name in list(X.columns) for name in asked):
        return sorted({list(X.columns).index(name) for name in asked})
    if not asked.size:
        return []
    raise InputError(f"categorical_features must be {allowed}, got {wanted!r}")


def _levels(entries: Array) -> tuple[list[Any], Array]:
    """The different entries in order (of their names where they do not compare), and how often each comes."""
    counts: dict[Any, int] = {}
    for entry in entries:
        counts[entry] = counts.get(entry, 0) + 1
    try:
        ordered = sorted(counts)
    except TypeError:
        ordered = sorted(counts, key=str)
    return ordered, np.array([counts[level] for level in ordered], int)


def _codes(column: Array, levels: list[Any]) -> Array:
    number = {level: float(k) for k, level in enumerate(levels)}
    return np.array([number.get(entry, np.nan) if _same(entry) else np.nan for entry in column], np.float64)


def _missing(column: Array) -> Array:
    """None, NaN and pandas' NA."""
    return np.array([entry is None or not _same(entry) for entry in column], bool)


def _same(entry: Any) -> bool:
    try:
        return bool(entry == entry)
    except TypeError:  # pandas' NA does not say whether it equals itself
        return False


def _shape(X: Any) -> tuple[int, ...]:
    return getattr(X, "shape", None) or np.shape(X)


def _is_frame(X: Any) -> bool:
    return hasattr(X, "dtypes") and hasattr(X, "columns")


def _column(X: Any, j: int) -> Any:
    return X.iloc[:, j] if hasattr(X, "iloc") else X[X.columns[j]]


def _is_category(kind: Any) -> bool:
    return type(kind).__name__ in ("CategoricalDtype", "Categorical", "Enum")  # of pandas, of polars
