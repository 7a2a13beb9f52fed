"""Targets with outliers, and predictions beyond the targets.

A target that left-out predictions miss by more than eight robust standard deviations of their residuals, and to which they come
no nearer than the mean does, is an outlier: no feature explains it, and its square would outweigh the rest. It is pulled in,

    y' = ŷ + clip(y − ŷ, ±8σ),   ŷ the left-out prediction of the fit to y',   σ = median|y − ŷ|/0.6745,

until nothing changes: Huber's estimate of location, with a threshold that no normal residual passes and few of a signal not yet learned.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from onestride._numerics import Array
from onestride.estimator._ridge import Decomposition, best_penalty

FAR_OFF = 8.0  # robust standard deviations of left-out residuals
MARGIN = 0.1  # predictions end this share of the range of the targets beyond it
TOLD = 1.0  # and are told of when they would have ended this many ranges beyond it
_ROUNDS = 20
_NORMAL_MEDIAN = 0.6744897501960817  # of |z|
_EXPLAINED = 0.9  # outliers whose squares left-out predictions lower to less than this are signal


def pulled_in(path: Decomposition, Y: Array, alphas: Array) -> tuple[Array, Array]:
    """The targets (n × outputs) with outliers pulled in, and which entries were; `path` is that of Y."""
    pulled, limit = Y, np.zeros(Y.shape[1])
    for _ in range(_ROUNDS):
        fit = path.of(pulled)
        alpha, _ = best_penalty(fit, alphas)
        predicted = pulled - fit.left_out(np.array([alpha]))[0]
        residual = Y - predicted
        limit = FAR_OFF * _median(np.abs(residual), path.weights) / _NORMAL_MEDIAN
        following = np.where(np.abs(residual) > limit, predicted + np.clip(residual, -limit, limit), Y)
        moved = np.abs(following - pulled).max()
        pulled = following
        if moved <= 1e-3 * float(np.abs(Y).max()):
            break
    out = pulled != Y
    if out.any():
        left_out = path.left_out(np.array([best_penalty(path, alphas)[0]]))[0]
        out &= ~(_explained(left_out, path.centred, path.weights, out) | (limit == 0))
    return np.where(out, pulled, Y), out


def pulled_by(predicted: Array, Y: Array, w: Array, path: Decomposition, alphas: Array) -> tuple[Array, Array]:
    """The same for the targets of a large table, of which a sample was fitted: `path` is that of the sample's targets, pulled in already.

    `predicted` (n × outputs) by that fit, which has not seen most of the rows.
    """
    missed = path.left_out(np.array([best_penalty(path, alphas)[0]]))[0]
    limit = FAR_OFF * _median(np.abs(missed), path.weights) / _NORMAL_MEDIAN
    residual = Y - predicted
    out = np.abs(residual) > limit
    if out.any():
        out &= ~(_explained(residual, Y - w @ Y / w.sum(), w, out) | (limit == 0))
    return np.where(out, predicted + np.clip(residual, -limit, limit), Y), out


def _explained(residual: Array, centred: Array, w: Array, out: Array) -> Array:
    """Of which outputs the outliers are signal: predictions come nearer to them than the mean does."""
    missed, power = ((w[:, None] * np.square(A) * out).sum(0) for A in (residual, centred))
    return missed < _EXPLAINED * power


def _median(A: Array, weights: Array) -> Array:
    return np.quantile(A, 0.5, axis=0, weights=weights, method="inverted_cdf")


@dataclass(frozen=True)
class TargetRange:
    """Smallest and largest standardised training target of every output: predictions end a tenth of the range beyond."""

    low: Array
    high: Array

    def held(self, outputs: Array, mean: Array, scale: Array) -> Array:
        """Standardised outputs inside, with one warning when some would have ended more than one range beyond."""
        width = self.high - self.low
        low, high = self.low - MARGIN * width, self.high + MARGIN * width
        beyond = np.maximum(low - outputs, outputs - high)
        count = int((beyond > TOLD * width).any(axis=1).sum())
        if count:
            first, last = ([f"{v:.6g}" for v in np.atleast_1d(edge * scale + mean)] for edge in (low, high))
            warnings.warn(
                f"{count} of {len(outputs)} predictions would lie far beyond the training targets and were held at their "
                f"range, a tenth wider: {', '.join(first)} to {', '.join(last)}",
                UserWarning,
                stacklevel=4,  # the caller of predict
            )
        return np.clip(outputs, low.astype(outputs.dtype), high.astype(outputs.dtype))
