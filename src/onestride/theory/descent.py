"""`descend`: to the bottom of a valley by its slopes, within bounds.

    step = −B⁻¹g on the coordinates that are free,      B y-updated: B s → g(x + s) − g(x)        (BFGS, damped as Powell does)

A coordinate at a bound that its slope points beyond is not free. Where a step brings less than its slope promised, or leads where there is
no number, it is shortened. The search ends where the next step promises less than `CLOSE` of the value, here a logarithm.
`vertex` is the bottom of what a few values along one coordinate show.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onestride._numerics import Array, Float

CLOSE = 3e-5
_FARTHEST = 1.0  # of a step in any coordinate
_MOST = 40  # looks
_LEAST_BEND = 0.02

Look = Callable[[Array], tuple[float, Array]]  # the value and its slopes at a point


def descend(
    look: Look, start: Float[Array, "x"], bend: Float[Array, "x"], low: Float[Array, "x"], high: Float[Array, "x"]
) -> Float[Array, "x"]:
    """The lowest point found from `start`, where the second derivatives are about `bend`."""
    x, B = start, np.diag(np.where(bend > _LEAST_BEND, bend, _LEAST_BEND))
    value, slope = look(x)
    for _ in range(_MOST):
        step = _step(B, slope, (x <= low) & (slope > 0) | (x >= high) & (slope < 0))
        promised = -float(slope @ step)
        if not promised / 2 > CLOSE:
            break
        found = _shortened(look, x, value, step, promised, low, high)
        if found is None:
            break
        there, value, new = found
        B, x, slope = _updated(B, there - x, new - slope), there, new
    return x


def vertex(x: Float[Array, "x"], y: Float[Array, "x"]) -> tuple[float, float]:
    """The lowest point of the parabola through the smallest of some values and its neighbours, which must be known.

    At an end, and beside a value that is not known, it is the smallest value itself; NaN where none is known.
    """
    if not np.isfinite(y).any():
        return np.nan, np.nan
    at = int(np.nanargmin(y))
    if not 0 < at < x.size - 1 or not np.isfinite(y[at - 1 : at + 2]).all():
        return float(x[at]), float(y[at])
    left, right = x[at] - x[at - 1], x[at + 1] - x[at]
    before, after = (y[at - 1] - y[at]) / left, (y[at + 1] - y[at]) / right  # both 0 or more
    bend, slope = (before + after) / (left + right), (after * left - before * right) / (left + right)
    if not bend > 0:
        return float(x[at]), float(y[at])
    return float(x[at] - slope / (2 * bend)), float(y[at] - slope**2 / (4 * bend))


def _step(B: Array, slope: Array, held: Array) -> Float[Array, "x"]:
    """The step of Newton's method in the coordinates that are not held, capped."""
    step, free = np.zeros_like(slope), ~held
    step[free] = -np.linalg.solve(B[np.ix_(free, free)], slope[free])
    return step * min(1.0, _FARTHEST / max(float(np.abs(step).max()), 1e-300))


def _shortened(
    look: Look, x: Array, value: float, step: Array, promised: float, low: Array, high: Array
) -> tuple[Array, float, Array] | None:
    """The step, or as much of it as keeps a ten-thousandth of its promise: the point, its value and slopes; None where nothing does."""
    part = 1.0
    while part * promised / 2 > CLOSE:
        there = np.clip(x + part * step, low, high)
        found, slope = look(there)
        if found <= value - 1e-4 * part * promised and np.isfinite(slope).all():
            return there, found, slope
        vertex = part * promised / (2 * (found - value + part * promised)) if np.isfinite(found) else 0.25
        part *= float(np.clip(vertex, 0.1, 0.5))
    return None


def _updated(B: Array, s: Array, y: Array) -> Float[Array, "x x"]:
    """B s → y, as far as B stays positive."""
    Bs, bend = B @ s, float(s @ y)
    size = float(s @ Bs)
    if bend < 0.2 * size:
        mixed = 0.8 * size / (size - bend)
        y, bend = mixed * y + (1 - mixed) * Bs, 0.2 * size
    return B - np.outer(Bs, Bs) / size + np.outer(y, y) / bend
