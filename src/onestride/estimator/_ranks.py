"""Normal scores of the columns beside the columns: what a monotone function of a column would show is there already.

r = Φ⁻¹ of the share of training rows below x, by 200 quantiles with straight lines between them, the mean of both ends where entries are
equal; then standardised. Trees see a column only through its ranks; features of the ranks see skewed columns as trees do.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import ndtri

from onestride._backend.threads import cores, together
from onestride._backend.tiles import THREAD_NUMBERS
from onestride._numerics import Array

KNOTS = 200
_NOTHING = 1e-12  # the variance of scores of a constant is rounding
_SAME = 1e-6  # ranks that differ from a multiple of their column by less than this share of variance are left out


@dataclass(frozen=True)
class Ranks:
    """Quantiles (knots × d) of the scaled columns, and mean and scale of the scores; scale inf, so that r = 0, for columns left out."""

    knots: Array
    mean: Array
    scale: Array

    def scores(self, V: Array, trust: Array | float) -> Array:
        """Standardised normal scores of scaled entries, n × d; those that are trusted less count for less."""
        return (raw_scores(self.knots, V) * trust - self.mean) / self.scale


def raw_scores(knots: Array, V: Array) -> Array:
    """Φ⁻¹ of the share of rows below, column by column."""
    levels = ndtri((np.arange(len(knots)) + 0.5) / len(knots))
    out = np.empty(V.shape)

    def score(columns: slice) -> None:
        for o, v, q in zip(out.T[columns], V.T[columns], knots.T[columns], strict=True):
            o[:] = (np.interp(v, q, levels) - np.interp(-v, -q[::-1], -levels[::-1])) / 2

    together(score, column_parts(V))
    return out


def quantiles(A: Array, levels: Array | tuple[float, ...], weights: Array) -> Array:
    """Of every column by weight, levels × d: entries of the column, the one rule that weights as repetition."""

    def some(columns: slice) -> Array:
        return np.quantile(A[:, columns], levels, axis=0, weights=weights, method="inverted_cdf")

    return np.concatenate(together(some, column_parts(A)), axis=1)


def column_parts(A: Array) -> list[slice]:
    """The columns in as many parts as threads are worth."""
    count = max(1, min(cores(), A.shape[1], A.size // THREAD_NUMBERS))
    edges = np.linspace(0, A.shape[1], count + 1).astype(int).tolist()
    return [slice(start, stop) for start, stop in pairwise(edges)]


def read_ranks(V: Array, Z: Array, trust: Array | float, weights: Array) -> Ranks:
    """Of scaled columns V, n × d, by weight; columns whose ranks say what the standardised Z say already are left out."""
    count = min(KNOTS, len(V))
    levels = (np.arange(count) + 0.5) / count
    knots = quantiles(V, levels, weights)
    share = weights / weights.sum()
    R = raw_scores(knots, V) * trust
    mean = share @ R
    variance, Z = share @ np.square(R - mean), Z - share @ Z
    power = share @ np.square(Z)
    explained = np.divide(np.square(share @ (Z * (R - mean))), power, out=np.zeros_like(power), where=power > 0)
    new = (variance - explained > _SAME * variance) & (variance > _NOTHING)
    return Ranks(knots, mean, np.where(new, np.sqrt(variance), np.inf))
