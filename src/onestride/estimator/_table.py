"""A table as the network sees it: equal rows merged, columns standardised at any magnitude, and rows far outside told."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np

from onestride._numerics import Array

FAR = 4.0  # a row further than this many training ranges outside the training range is reported
ENOUGH_FOR_A_RANGE = 12  # fewer distinct rows do not tell how far a column goes
_ROUNDING = 8  # a column whose range is within this many roundings of its largest entry is constant
_WHITEN_FLOOR = 1e-3  # principal components below this share of the largest variance are not blown up further


@dataclass(frozen=True)
class Inputs:
    """z = (x − mean)/scale by column, then rotated when whitened. A column without variation is 0 whatever it holds.

    `low` and `high` are the smallest and largest training entries, `rows` the number of distinct training rows.
    """

    mean: Array
    scale: Array
    low: Array
    high: Array
    rows: int
    rotation: Array | None = None

    def standardised(self, X: Array) -> Array:
        """Every row's z, in the precision of X; inf where it overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            Z = ((X - self.mean) / self.scale).astype(X.dtype)
            return Z if self.rotation is None else Z @ self.rotation.astype(X.dtype)

    def to_columns(self, vectors: Array) -> Array:
        """From the network's coordinates to standardised columns, along the last axis; 0 for constant columns."""
        return (vectors if self.rotation is None else vectors @ self.rotation.T) * np.isfinite(self.scale)

    def warn_of_far_rows(self, X: Array, names: Array | None) -> None:
        """One warning when rows lie more than `FAR` training ranges outside the training range of some column."""
        if self.rows < ENOUGH_FOR_A_RANGE:
            return
        low, high = self.low.astype(np.float64), self.high.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            beyond = np.maximum(low - X, X - high)
            far = beyond / np.where(np.isfinite(self.scale), high - low, np.inf)
            deviations = beyond / self.scale
        count = int((far > FAR).any(axis=1).sum())
        if not count:
            return
        i, j = np.unravel_index(int(np.nanargmax(far)), far.shape)
        name = f"column {j}" if names is None else f"column {names[j]!r}"
        warnings.warn(
            f"{count} of {len(X)} rows lie far outside the training rows, where predictions can be off by any factor: "
            f"worst is row {i} with {X[i, j]:.6g} in {name}, {far[i, j]:.3g} training ranges "
            f"({deviations[i, j]:.3g} standard deviations) outside [{low[j]:.6g}, {high[j]:.6g}]",
            UserWarning,
            stacklevel=5,  # the caller of predict or transform
        )


def read_inputs(X: Array, weights: Array, whiten: bool) -> Inputs:
    """The standardisation of the rows X, n × d, by weight."""
    inputs = Inputs(*location_and_scale(X, weights), X.min(axis=0), X.max(axis=0), len(X))
    if not whiten:
        return inputs
    Z = inputs.standardised(X)
    variances, axes = np.linalg.eigh((Z * (weights / weights.sum())[:, None].astype(Z.dtype)).T @ Z)
    floor = _WHITEN_FLOOR * variances[-1] if variances[-1] > 0 else 1.0
    rotation = (axes / np.sqrt(np.maximum(variances, floor))).astype(Z.dtype)
    return replace(inputs, rotation=rotation)


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
