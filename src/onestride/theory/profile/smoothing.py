"""A scalar function seen through Gaussian noise: f(t + √v g) = μ + k √v g + e (g² − 1) + rest, g ~ N(0, 1).

    μ(t; v) = E f(t + √v g),   k = E f'(t + √v g) = ∂μ/∂t,   e = (v/2) E f'' = (v/2) ∂k/∂t,   k₂ = Var f − v k².

Smoothing is a semigroup: noise of variance v is noise of variance v₀ followed by v − v₀. So f is integrated once, with
its own quadrature rule, at variance v₀ on a uniform grid x_j; there it is an entire function, and the second smoothing
is a short sum of Gaussian weights that the trapezoid rule makes exact to rounding. Coarser grids, v₀ = 4^j·0.4, are
made from finer ones the same way, for large v; for v below ½ there are finer ones, j < 0, each integrated. No derivative of f is needed.
"""

# pyright: reportMissingTypeStubs=false
from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import roots_hermitenorm

from onestride._numerics import PANEL_NODES, Array, Float, gauss_density
from onestride.functions import Function

_BASE = 0.4  # v₀ of the finest grid
_SPACING = 0.36  # its step: aliasing is below 1e-14 for v ≥ 1
_WINDOW = 8.6  # Gaussian weights beyond this many standard deviations are dropped
_NEAR = 30.0  # the function's own rule reaches 42; further out it is taken to be smooth
_AT_ONCE = 100_000  # values held at a time: a few arrays of so many fit into the cache
SMALLEST = 0.01  # variance
LARGEST_REACH = 2.0**15  # pre-activations beyond this are refused
_SPLINE = 0.2  # distance of the nodes of a smoothed function, in standard deviations: interpolated to 1e-5
_MANY_POINTS = 500  # of such a spline, from which on neurons have more or fewer of them
_MOST_POINTS = 1e6  # of such a spline: neurons that far out are beyond any theory


class Smoothed(NamedTuple):
    """μ, k = μ', k₂ = Var f − v k² and e = (v/2) μ'' at the same points."""

    mu: Array
    k: Array
    k2: Array
    e: Array


class _Table(NamedTuple):
    """μ, k, k₂ at variance v on the grid x_j = j·step, |j| ≤ half."""

    v: float
    step: float
    half: int
    mu: Array
    k: Array
    k2: Array


def smooth(f: Function, t: Array, v: Array | float) -> Smoothed:
    """μ, k, k₂, e of f at means t and variances v ≥ SMALLEST (broadcast together)."""
    t, v = (np.ascontiguousarray(x, float) for x in np.broadcast_arrays(t, v))
    out = np.empty((4, t.size))
    flat_t, flat_v = t.ravel(), v.ravel()
    if not flat_t.size:
        return Smoothed(*out.reshape(4, *t.shape))
    reach = np.abs(flat_t).max() + (_WINDOW + 12) * np.sqrt(max(flat_v.max(), 1.0))
    if not reach <= LARGEST_REACH:
        return Smoothed(*np.full((4, *t.shape), np.nan))
    level = np.floor(np.log(np.where(flat_v < 0.5, flat_v, np.maximum(flat_v, 1.0))) / np.log(4.0) + 1e-12).astype(int)
    log_reach = int(np.ceil(np.log2(max(reach, 64.0))))
    with np.errstate(over="ignore", invalid="ignore"):  # an overflowing activation ends as NaN, which callers report
        for j in np.unique(level):
            table = _table(f, int(j), log_reach)
            chosen = np.flatnonzero(level == j)
            # points that need windows of similar width go together
            width = np.ceil(4 * np.log2(flat_v[chosen] - table.v))
            for value in np.unique(width):
                group = chosen[width == value]
                out[:, group] = _from_table(table, flat_t[group], flat_v[group])
    return Smoothed(*out.reshape(4, *t.shape))


def _from_table(table: _Table, t: Array, v: Array) -> Array:
    """μ, k, k₂ and e of the tabulated function, smoothed with what is left of the variance, τ = v − v₀."""
    reach = int(np.ceil(_WINDOW * np.sqrt((v - table.v).max()) / table.step))
    parts = np.array_split(np.arange(t.size), t.size * (2 * reach + 1) // _AT_ONCE + 1)
    return np.concatenate([_in_windows(table, t[part], v[part], reach) for part in parts], axis=1)


def _in_windows(table: _Table, t: Array, v: Array, reach: int) -> Array:
    """The same by windows of `reach` points of the grid on either side.

    k₂ = E_τ[k₂⁰] + v₀ E_τ[(k⁰)²] + Var_τ(μ⁰) − v k²: no large numbers cancel, however large t is.
    """
    tau, centre = v - table.v, np.rint(t / table.step).astype(int)
    offset = table.step * np.arange(-reach, reach + 1) + (table.step * centre - t)[:, None]
    weight = np.square(offset)
    weight *= -1 / (2 * tau[:, None])
    np.exp(weight, out=weight)
    weight /= weight.sum(1, keepdims=True)
    index = centre[:, None] + np.arange(table.half - reach, table.half + reach + 1)
    mu0, k0, k20 = table.mu[index], table.k[index], table.k2[index]
    mu, k, k2 = (np.einsum("ij,ij->i", weight, values) for values in (mu0, k0, k20))
    mu0 -= mu[:, None]
    k0 -= k[:, None]
    slope = np.einsum("ij,ij->i", np.multiply(weight, offset, out=offset), k0) / tau
    k2 += np.einsum("ij,ij->i", weight, np.square(mu0, out=mu0))
    k2 += table.v * np.einsum("ij,ij->i", weight, np.square(k0, out=k0)) - tau * k * k
    return np.stack([mu, k, np.maximum(k2, 0.0), v / 2 * slope])


@lru_cache(maxsize=128)
def _table(f: Function, level: int, log_reach: int) -> _Table:
    """Level `level`: v₀ = 0.4·4^level, integrated for level ≤ 0. It reaches 2^log_reach, less what the windows of the coarser levels need."""
    step = _SPACING * 2.0**level
    half = int(np.ceil((2.0**log_reach - 12 * 2.0**level) / step)) + 1
    x = step * np.arange(-half, half + 1)
    v = _BASE * 4.0**level
    if level <= 0:
        near = np.abs(x) <= _NEAR
        mu, k, k2 = np.empty((3, x.size))
        mu[near], k[near], k2[near] = smooth_directly(f, x[near], v)[:3]
        mu[~near], k[~near], k2[~near] = _gauss_hermite(f, x[~near], v)[:3]
        return _Table(v, step, half, mu, k, k2)
    finer = _table(f, level - 1, log_reach)
    mu, k, k2, _ = _from_table(finer, x, np.full(x.size, v))
    return _Table(v, step, half, mu, k, k2)


def smooth_directly(f: Function, t: Array, v: float) -> Smoothed:
    """The same four functions by quadrature with the function's own rule, for any v ≤ 1: slower, kinks resolved.

    Panels are cut until none is wider than √v. Below v = 1e-6 a kink is seen by no node and Gauss-Hermite takes over.
    """
    t = np.asarray(t, float)
    if v < 1e-6:
        return _gauss_hermite(f, t, v)
    x, w = fine_rule(f, int(np.ceil(np.log2(max(1 / np.sqrt(v), 1.0)))))
    out = np.empty((4, t.size))
    fx, root = f(x), np.sqrt(v)
    for i, mean in enumerate(t.ravel()):
        lo, hi = np.searchsorted(x, (mean - _WINDOW * root, mean + _WINDOW * root))
        g = (x[lo:hi] - mean) / root
        p = gauss_density(g) * w[lo:hi] / root
        out[:, i] = _moments(p / p.sum(), g, fx[lo:hi], v)
    return Smoothed(*out.reshape(4, *t.shape))


def _gauss_hermite(f: Function, t: Array, v: float) -> Smoothed:
    g, p = roots_hermitenorm(48)
    p = p / p.sum()
    parts = np.array_split(t, t.size // 20_000 + 1)
    out = [_moments(p, g, f(part[:, None] + np.sqrt(v) * g), v) for part in parts]
    return Smoothed(*(np.concatenate(column) for column in zip(*out, strict=True)))


def _moments(p: Array, g: Array, values: Array, v: float) -> Smoothed:
    """μ, k, k₂, e from values at t + √v g with probabilities p."""
    mu = values @ p
    rest = values - np.asarray(mu)[..., None]
    k1 = rest @ (p * g)
    k2 = (rest - np.asarray(k1)[..., None] * g) ** 2 @ p
    e = rest @ (p * (g * g - 1)) / 2
    if v == 0:
        return Smoothed(mu, 0 * mu, 0 * mu, 0 * mu)
    return Smoothed(mu, k1 / np.sqrt(v), k2, e)


@lru_cache(maxsize=64)
def fine_rule(f: Function, halvings: int) -> tuple[Array, Array]:
    """The rule of f with every panel wider than 2^(−halvings) cut into that width."""
    x, w = (a.reshape(-1, PANEL_NODES) for a in f.rule)
    width = w.sum(1)
    pieces = np.maximum(1, np.rint(width * 2.0**halvings).astype(int))
    if pieces.max() == 1:
        return f.rule
    left = (x[:, 0] + x[:, -1]) / 2 - width / 2
    unit, share = (x[0] - left[0]) / width[0], w[0] / width[0]
    panel: Array = np.repeat(np.arange(int(width.size)), pieces)
    which = np.arange(panel.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    piece = (width / pieces)[panel]
    start = left[panel] + which * piece
    return (start[:, None] + piece[:, None] * unit).ravel(), (piece[:, None] * share).ravel()


def points_on_lines(t: Float[Array, "a u"], v: Float[Array, "a"]) -> Float[Array, "a"]:
    """How many points of a spline each v takes."""
    return 2 * (np.abs(t).max(1) + 1e-3) / np.sqrt(v) / _SPLINE


def smooth_on_lines(
    f: Function, other: Function, t: Float[Array, "a u"], v: Float[Array, "a"]
) -> Float[Array, "7 a u"]:
    """μ, k, k₂, e (`smooth`) and k'' of f, and μ and k of another function, at many means for each v, by splines through few."""
    out, points = np.full((7, *t.shape), np.nan), points_on_lines(t, v)
    if not points.max() < _MOST_POINTS:
        return out
    octave = np.floor(
        np.log2(np.maximum(points / _MANY_POINTS, 0.5))
    )  # where they are many, each its own, to a factor of two
    for one in np.unique(octave):
        some = octave == one
        out[:, some] = _on_equal_lines(f, other, t[some], v[some], float(points[some].max()))
    return out


def _on_equal_lines(
    f: Function, other: Function, t: Float[Array, "a u"], v: Float[Array, "a"], points: float
) -> Float[Array, "7 a u"]:
    """The same with as many points for every v."""
    reach, out = np.abs(t).max(1) + 1e-3, np.full((7, *t.shape), np.nan)
    line = np.linspace(-1, 1, 9 + int(np.ceil(points)))
    mu, k, k2, e = smooth(f, reach[:, None] * line, v[:, None])
    parts = np.stack([mu, k, k2, e, *smooth(other, reach[:, None] * line, v[:, None])[:2]])
    known = [bool(np.isfinite(part).all()) for part in (parts[:4], parts[4:])]
    parts[np.repeat(known, (4, 2)) == 0] = 0.0
    together = max(_AT_ONCE // (4 * max(t.shape[1], line.size)), 1)
    for first in range(0, t.shape[0], together):
        some = slice(first, first + together)
        spline = CubicSpline(line, np.moveaxis(parts[:, some], -1, 0))
        _on_spline(spline, t[some] / reach[some, None], out[:, some])
    out[4] *= (2 / (v * reach))[:, None]  # k' = 2e/v
    out[np.repeat(known, (5, 2)) == 0] = np.nan
    return out


def _on_spline(spline: CubicSpline, x: Float[Array, "a u"], out: Float[Array, "7 a u"]) -> None:
    """The first four columns of a spline on a uniform grid, the slope of the fourth and the others; where to look is no search there."""
    grid, count = spline.x, len(x)
    at = ((x - grid[0]) * ((grid.size - 1) / (grid[-1] - grid[0]))).astype(np.intp)
    np.clip(at, 0, grid.size - 2, out=at)
    beyond = x - grid[at]
    at *= count
    at += np.arange(count)[:, None]
    c = np.ascontiguousarray(np.moveaxis(spline.c, 2, 0)).reshape(
        6, 4, -1
    )  # by part and power; of every interval all a
    slope = np.stack([3 * c[3, 0], 2 * c[3, 1], c[3, 2]])
    for row, part in zip(out, (*c[:4], slope, *c[4:]), strict=True):
        row[:] = part[0][at]
        for power in part[1:]:
            row *= beyond
            row += power[at]
