"""A table as the network sees it: equal rows merged, columns standardised at any magnitude, and rows far outside told."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onestride._backend.threads import by_rows, together
from onestride._backend.tiles import THREAD_NUMBERS
from onestride._numerics import Array
from onestride.estimator._categories import Categories
from onestride.estimator._ranks import Ranks, column_parts, quantiles, read_ranks

FAR = 4.0  # a row further than this many training ranges outside the training range is reported
MANY_ROWS = 200_000  # of more, some tell medians and ranges, and rows are standardised when they are asked for
TELLING_ROWS = 50_000  # so many of them
ENOUGH_FOR_A_RANGE = 12  # fewer distinct rows do not tell how far a column goes
CLIP = 3.0  # of a clipped column, in units of its quantile range
_NORMAL_RANGES = 2.4387  # (q₀.₉₅ − q₀.₀₅)/(q₀.₇₅ − q₀.₂₅) of a normal column
_QUANTILE = "inverted_cdf"  # an entry of the column: the one rule that weights as repetition
_ROUNDING = 8  # a column whose range is within this many roundings of its largest entry is constant
MOST_INPUTS = 500  # with more columns than this, d³ work outweighs the rest of a fit
_UNSEEN = (
    1e-6  # of the variance of a column: no row varies along a direction with less, as the difference of near twins
)
_RARE_GAPS = 0.01  # of a column: with fewer no column says where they are
_WHITEN_FLOOR = 1e-3  # principal components below this share of the largest variance are not blown up further


@dataclass(frozen=True)
class Inputs:
    """z = (u − mean)/scale of u = v/√(1 + (v/3)²)/(1 + r²), v = (x − centre)/spread by column, then rotated when whitened.

    `rotation` also takes out the directions along which no training row varies, as the difference of two nearly equal columns:
    a slope along them is not told by any row, and a new row in which one of the two is wild would be read by it.

    `centre` and `spread` are the median and a range of quantiles: a few wild entries move neither, and after the smooth clip
    to ±3 none of them is wild. r counts how many training ranges x lies outside the training range: nothing was seen there, so
    that the further out, the less an entry says. Not clipped, u = v with mean and standard deviation. A column without variation
    is 0 whatever it holds. `low` and `high` are the ends of the training range, `rows` the number of distinct training rows.
    """

    centre: Array
    spread: Array
    clip: bool
    low: Array
    high: Array
    rows: int
    mean: Array | float = 0.0
    scale: Array | float = 1.0
    rotation: Array | None = None
    ranks: Ranks | None = None

    def standardised(self, X: Array) -> Array:
        """Every row's z, followed by its ranks if they are wanted, in the precision of X; inf where z overflows, which no clipped one does."""
        parts = by_rows(lambda rows: self._standardised(X[rows]), len(X), least=THREAD_NUMBERS // X.shape[1])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _standardised(self, X: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            V, trust = self.scaled(X), self._trust(X)
            U = smooth_clip(V) * trust if self.clip else V
            Z = ((U - self.mean) / self.scale).astype(X.dtype)
            Z = Z if self.rotation is None else Z @ self.rotation.astype(X.dtype)
            return Z if self.ranks is None else np.hstack([Z, self.ranks.scores(V, trust).astype(X.dtype)])

    def scaled(self, X: Array) -> Array:
        """The columns in units of their spread, by halves: a difference of the largest numbers is a number too."""
        return (X / 2 - self.centre / 2) / (self.spread / 2)

    def _trust(self, X: Array) -> Array | float:
        """1/(1 + r²), 1 when nothing is clipped."""
        if not self.clip:
            return 1.0
        return 1 / (1 + np.square(np.minimum(np.maximum(self._outside(X), 0.0), 1e100)))

    def with_ranks(self, X: Array, weights: Array) -> Inputs:
        """The same with the ranks of the training rows X, n × d, by weight."""
        with np.errstate(over="ignore", invalid="ignore"):
            plain = replace(self, rotation=None, ranks=None)
            return replace(self, ranks=read_ranks(self.scaled(X), plain.standardised(X), self._trust(X), weights))

    def _outside(self, X: Array) -> Array:
        """How many training ranges every entry lies outside the training range, below 0 inside; 0 for constant columns."""
        low, high = self.low.astype(np.float64) / 2, self.high.astype(np.float64) / 2
        return np.maximum(low - X / 2, X / 2 - high) / np.maximum(high - low, self.spread / 2)

    def to_columns(self, vectors: Array) -> Array:
        """From the network's coordinates to standardised columns, along the last axis; 0 for constant columns."""
        plain, d = vectors[..., : self.spread.size], self.spread.size
        plain = plain if self.rotation is None else plain @ self.rotation.T
        if vectors.shape[-1] > d:  # columns and ranks rise together
            plain = plain + vectors[..., d:]
        return plain * np.isfinite(self.spread)

    def warn_of_far_rows(self, X: Array, names: Array | None) -> None:
        """One warning when rows lie more than `FAR` training ranges outside the training range of some column."""
        if self.rows < ENOUGH_FOR_A_RANGE:
            return
        with np.errstate(over="ignore", invalid="ignore"):
            far = self._outside(X)
        count = int((far > FAR).any(axis=1).sum())
        if not count:
            return
        i, j = np.unravel_index(int(np.nanargmax(far)), far.shape)
        told = (
            "where an entry counts for next to nothing" if self.clip else "where predictions can be off by any factor"
        )
        name = f"column {j}" if names is None else f"column {names[j]!r}"
        warnings.warn(
            f"{count} of {len(X)} rows lie far outside the training rows, {told}: worst is row {i} with {X[i, j]:.6g} in "
            f"{name}, {far[i, j]:.3g} training ranges outside [{self.low[j]:.6g}, {self.high[j]:.6g}]",
            UserWarning,
            stacklevel=5,  # the caller of predict or transform
        )


def read_inputs(X: Array, weights: Array, whiten: bool, clip: bool) -> Inputs:
    """The standardisation of the rows X, n × d, by weight."""
    centre, spread = median_and_range(X, weights) if clip else location_and_scale(X, weights)
    edges = connected_range(X, centre, spread) if clip else (X.min(axis=0), X.max(axis=0))
    inputs = Inputs(centre, spread, clip, *edges, len(X))
    if clip:
        mean, scale = location_and_scale(inputs.standardised(X.astype(np.float64)), weights)
        inputs = replace(inputs, mean=mean, scale=scale)
    told_apart = clip and X.shape[1] <= min(MOST_INPUTS, len(X) - 1)
    if not (whiten or told_apart):
        return inputs
    Z = inputs.standardised(X)
    wide = Z.astype(np.float64)
    variances, axes = np.linalg.eigh((wide * (weights / weights.sum())[:, None]).T @ wide)
    seen = variances > _UNSEEN if told_apart else np.ones(variances.size, bool)
    if whiten:
        floor = _WHITEN_FLOOR * variances[-1] if variances[-1] > 0 else 1.0
        return replace(inputs, rotation=(axes * seen / np.sqrt(np.maximum(variances, floor))).astype(Z.dtype))
    if seen.sum() == np.isfinite(inputs.spread).sum():  # only constant columns do not vary, and they are 0 already
        return inputs
    return replace(inputs, rotation=((axes * seen) @ axes.T).astype(Z.dtype))


def smooth_clip(V: Array) -> Array:
    """v/√(1 + (v/3)²): the identity for small v, ±3 for large (RealMLP, Holzmüller, Grinsztajn and Steinwart 2024)."""
    t = np.clip(V / CLIP, -1e100, 1e100)
    return CLIP * t / np.sqrt(1 + t * t)


def median_and_range(A: Array, weights: Array) -> tuple[Array, Array]:
    """Weighted median and spread of each column: of normal entries the interquartile range, as (q₀.₉₅ − q₀.₀₅)/2.44.

    A column that is mostly one value has its spread in the others: it is at least the median of the distances from the median
    that are not 0. inf, so that v = 0, for a constant column. Order statistics: no square, no overflow.
    """
    constant = ~np.isfinite(location_and_scale(A, weights)[1])
    rounding = _ROUNDING * np.finfo(A.dtype).eps * np.abs(A).max(axis=0).astype(np.float64)
    halves = A / 2.0
    low, centre, high = quantiles(halves, (0.05, 0.5, 0.95), weights)
    spread = (high - low) / _NORMAL_RANGES

    def widen(columns: slice) -> None:
        for j in np.flatnonzero(~constant[columns]) + columns.start:
            distance = np.abs(halves[:, j] - centre[j])
            away = distance > rounding[j] / 2
            if away.any():
                spread[j] = max(spread[j], np.quantile(distance[away], 0.5, weights=weights[away], method=_QUANTILE))

    together(widen, column_parts(A))
    return 2 * centre, np.where(constant | (spread <= rounding / 2), np.inf, 2 * spread)


def connected_range(A: Array, centre: Array, spread: Array) -> tuple[Array, Array]:
    """The range of each column without the outermost entries that stand alone, each twice as far out as the one before it.

    One row tells nothing of the way to it; two near each other, or a rare value that comes twice, count as seen. Distances are
    from the median, and what lies within the spread is never alone.
    """
    ordered = np.sort(A / 2.0, axis=0)  # halves, and so the distances below
    middle, step = centre / 2, np.where(np.isfinite(spread), spread, 0.0) / 2
    edges = []
    for sign in (-1, 1):
        outwards = ordered[::sign]
        distance = np.maximum(sign * (outwards - middle), step)  # rising
        leap = np.vstack([np.diff(distance, axis=0) > distance[:-1], np.ones((1, A.shape[1]), bool)])
        seen = ~leap  # an entry before a leap, and after one, is alone
        seen[1:] |= ~leap[:-1]
        seen |= distance <= step
        edges.append(outwards[len(A) - 1 - seen[::-1].argmax(axis=0), np.arange(A.shape[1])])
    return 2 * edges[0], 2 * edges[1]


@dataclass(frozen=True)
class Missing:
    """Missing entries (NaN): replaced by the median of their column; one column more, 0 or 1, for each that had some.

    Fewer than one in a hundred have none: a column that is 1 in a row or two tells nothing of what it means.
    """

    medians: Array
    told: Array

    def filled(self, X: Array) -> Array:
        """X without NaN, n × (d + columns that had some); X itself when there is nothing to do."""
        gaps = np.isnan(X)
        if not gaps.any() and not self.told.any():
            return X
        return np.hstack([np.where(gaps, self.medians.astype(X.dtype), X), gaps[:, self.told].astype(X.dtype)])

    def folded(self, by_column: Array) -> Array:
        """Numbers of all columns, those of a gap added to the column it is in; d."""
        whole = by_column[: self.told.size].copy()
        whole[self.told] += by_column[self.told.size :]
        return whole


def read_missing(X: Array, weights: Array) -> Missing:
    """Medians by weight of what is there, and which columns of X have gaps, more than a few."""
    gaps = np.isnan(X)
    some = np.asarray(gaps.any(axis=0))
    told = some & (weights @ gaps >= _RARE_GAPS * weights.sum())
    medians = np.zeros(X.shape[1])
    for j in np.flatnonzero(some & ~gaps.all(axis=0)):
        there = ~gaps[:, j]
        medians[j] = np.quantile(X[there, j].astype(np.float64), 0.5, weights=weights[there], method=_QUANTILE)
    untouched = np.flatnonzero(~some)
    medians[untouched] = quantiles(X[:, untouched].astype(np.float64), (0.5,), weights)[0]
    return Missing(medians, told)


def location_and_scale(A: Array, weights: Array) -> tuple[Array, Array]:
    """Weighted mean and standard deviation of each column; the latter is inf, so that z = 0, for a constant column.

    Computed in units of a power of two near the largest entry: exact, and squares neither overflow nor vanish.
    """
    unit = magnitude(A)
    scaled, share = np.ldexp(A.astype(np.float64), -unit), weights / weights.sum()
    low = scaled.min(axis=0)
    mean = low + share @ (scaled - low)  # of a constant exactly that
    scale = np.ldexp(np.sqrt(share @ np.square(scaled - mean)), unit)
    constant = (np.ptp(scaled, axis=0) <= _ROUNDING * np.finfo(A.dtype).eps) | (scale == 0)
    return np.ldexp(mean, unit), np.where(constant, np.inf, scale)


def magnitude(A: Array) -> Array:
    """The e with 2^(e−1) ≤ max|a| < 2^e, per column."""
    return np.frexp(np.abs(A).max(axis=0).astype(np.float64))[1]


def merged(X: Array, Y: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Rows with equal inputs become one: weights add, targets average.

    No ridge fit changes, the order of rows stops mattering, a weight equals repetition, and no row is judged by its twin.
    Averages start from each column's smallest entry: those of a constant are that constant.
    """
    distinct, group = np.unique(X, axis=0, return_inverse=True)
    group = group.ravel()
    total = np.bincount(group, weights)
    part = weights / total[group]
    means = [low + np.bincount(group, part * (column - low)) for low, column in zip(Y.min(axis=0), Y.T, strict=True)]
    return distinct, np.stack(means, axis=1), total


class StandardRows:
    """The rows of a large table, standardised when they are asked for; X may be a memory-mapped file."""

    def __init__(self, X: Array, categories: Categories, missing: Missing, inputs: Inputs) -> None:
        self.X, self.categories, self.missing, self.inputs = X, categories, missing, inputs
        self.shape, self.dtype = (len(X), inputs.spread.size * (1 + (inputs.ranks is not None))), X.dtype

    def __len__(self) -> int:
        return len(self.X)

    def plain(self) -> StandardRows:
        """Without ranks."""
        return StandardRows(self.X, self.categories, self.missing, replace(self.inputs, ranks=None))

    def __getitem__(self, rows: Any) -> Array:
        return self.inputs.standardised(self.missing.filled(self.categories.expanded(self.X[rows])))


def narrowed(Z: Any, columns: int) -> Any:
    """The rows with their leading columns alone."""
    if Z.shape[1] == columns:
        return Z
    return Z[:, :columns] if isinstance(Z, np.ndarray) else Z.plain()


def read_table(
    X: Array, Y: Array, weights: Array, categories: Categories, whiten: bool, clip: bool, ranks: bool, seed: int
) -> tuple[Missing, Inputs, Any, Array, Array]:
    """How gaps are filled and columns scaled, the standardised rows, their targets and weights.

    Equal rows are merged up to `MANY_ROWS`; of more, `TELLING_ROWS` tell medians, ranges and scales, and rows are standardised when they are
    asked for.
    """
    if len(X) <= MANY_ROWS:
        X = categories.expanded(X)
        missing = read_missing(X, weights)
        X, Y, weights = merged(missing.filled(X), Y, weights)
        inputs = read_inputs(X, weights, whiten, clip)
        inputs = inputs.with_ranks(X, weights) if ranks else inputs
        return missing, inputs, inputs.standardised(X), Y, weights
    rows = np.sort(np.random.default_rng(seed).choice(len(X), min(TELLING_ROWS, len(X)), replace=False))
    some = categories.expanded(X[rows])
    missing = read_missing(some, weights[rows])
    some = missing.filled(some)
    inputs = read_inputs(some, weights[rows], whiten, clip)
    inputs = inputs.with_ranks(some, weights[rows]) if ranks else inputs
    return missing, inputs, StandardRows(X, categories, missing, inputs), Y, weights
