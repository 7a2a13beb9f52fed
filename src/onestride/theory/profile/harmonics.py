"""A scalar function of one coordinate, resolved by degree: f(t + s u), u a coordinate of a point of the sphere S^{D−1}.

    f(t + s u) = b + Σ_{l ≤ L} k_l P_l(u) + rest,     b = E f,   k_l = E[f P_l],   e = (s/2) ∂b/∂s,

P_l the orthonormal polynomials of u (Gegenbauer's). For x̂ and ŵ on the sphere P_l(⟨ŵ, x̂⟩) = ⟨Y_l(ŵ), Y_l(x̂)⟩/√B_l with the
B_l harmonics Y_l of degree l, each of variance 1: a feature's part of degree l is a Gaussian-like block of dimension B_l.
For D → ∞ P_l(u) becomes h_l(√D u), Hermite's.
"""

# pyright: reportConstantRedefinition=false, reportMissingTypeStubs=false
from __future__ import annotations

from functools import lru_cache
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.polynomial.legendre import leggauss
from scipy.linalg import eigh_tridiagonal
from scipy.special import binom

from onestride._numerics import PANEL_NODES, Array, Float
from onestride.functions import Function
from onestride.theory.profile.smoothing import LARGEST_REACH, fine_rule

_WINDOW = 8.0  # standard deviations of s u beyond which nothing is added
_SMALL = 40  # spheres of smaller dimension end within the window
_LOCAL = 64  # nodes of u where the function's own rule does not reach
_LOCALLY = -100  # marks those points
_AT_ONCE = 100_000  # values f(x) held at a time: a few arrays of so many fit into the cache
_NEIGHBOURS = 24  # nodes of t that a value is interpolated from

HIGHEST_DEGREE = 8  # resolved at most


def multiplicity(D: int, l: int) -> float:
    """B_l, the number of independent harmonics of degree l on S^{D−1}."""
    return float(comb(D + l - 1, l) - (comb(D + l - 3, l - 2) if l >= 2 else 0))


def degrees_resolved(D: int, largest: float, *, most: int = HIGHEST_DEGREE, factor: float = 3000.0) -> int:
    """The last degree whose multiplicity is below 3000 max(n, N), or so many; higher ones are noise to the features.

    Where one begins to be resolved errors jump by about half over the factor: 2e-4, and 0.8 % at 60, with a third less time.
    """
    L = 1
    while most > L and multiplicity(D, L + 1) < factor * largest:
        L += 1
    return L


def radius_rule(D: float, count: int) -> tuple[Float[Array, "r"], Float[Array, "r"]]:
    """Gauss nodes and probabilities for |x|, x ~ N(0, I_D): |x|²/2 is a Gamma(D/2) variable."""
    k, a = np.arange(count), D / 2 - 1  # the three-term recurrence of the Laguerre polynomials (Golub and Welsch)
    y, vectors = eigh_tridiagonal(2 * k + 1 + a, np.sqrt(k[1:] * (k[1:] + a)))
    return np.sqrt(2 * y), vectors[0] ** 2


def sphere_rule(D: float, count: int) -> tuple[Float[Array, "u"], Float[Array, "u"]]:
    """Gauss nodes and probabilities for √D u, u a coordinate of a uniform point of S^{D−1}."""
    g, vectors = eigh_tridiagonal(np.zeros(count), _recurrence(D, count))
    return g, vectors[0] ** 2


def _recurrence(D: float, count: int) -> Float[Array, "l"]:
    """c_1 … c_{count−1} of g P_l = c_{l+1} P_{l+1} + c_l P_{l−1}, g = √D u: √l for D → ∞."""
    l = np.arange(1, count)
    last = np.divide(l + D - 3, 2 * l + D - 4, out=np.ones(l.size), where=l > 1)  # 0/0 on a circle
    return np.sqrt(l * (D / (2 * l + D - 2)) * last)


def gegenbauer(g: Array, D: float, L: int) -> Float[Array, "degrees *shape"]:
    """The orthonormal polynomials P_0 … P_L at g = √D u."""
    c, table = _recurrence(D, L + 2), np.empty((L + 1, *g.shape))
    table[0] = 1.0
    if L:
        table[1] = g
    for l in range(1, L):
        table[l + 1] = (g * table[l] - c[l - 1] * table[l - 1]) / c[l]
    return table


def resolve(f: Function, t: Array, s: Array, D: float, L: int) -> Float[Array, "parts *shape"]:
    """b, k_1 … k_L, the variance of the rest and e of f(t + s u), first axis, at means t and scales s of u."""
    t, s = np.broadcast_arrays(np.asarray(t, float), np.asarray(s, float))
    flat_t, sd = t.ravel(), s.ravel() / np.sqrt(D)  # of s u
    if not np.abs(flat_t).max() + 20 * sd.max() <= LARGEST_REACH:
        return np.full((L + 3, *t.shape), np.nan)
    with np.errstate(all="ignore"):  # an overflowing function ends as NaN, which callers report
        table = _table(f, flat_t, sd, D, L)
        out = _directly(f, flat_t, sd, D, L) if table is None else table(flat_t, sd)
    return out.reshape(L + 3, *t.shape)


class _Table(NamedTuple):
    """The parts on a grid of t (equal distances) and s (Chebyshev's nodes in log s): they are smooth in both."""

    start: float
    distance: float
    log_s: Float[Array, "m"]
    parts: Float[Array, "parts m t"]

    def __call__(self, t: Array, sd: Array) -> Array:
        """Interpolated at the points (t, sd): Lagrange's polynomials through the nearest t and through all s."""
        widths, which = np.unique(sd, return_inverse=True)
        m = self.log_s.size
        sign = np.sin((np.arange(m) + 0.5) * np.pi / m) * (-1.0) ** np.arange(m)
        across = _barycentric(np.log(widths), self.log_s, sign)
        at = (t - self.start) / self.distance
        first = np.floor(at).astype(int) - _NEIGHBOURS // 2 + 1
        order = np.arange(_NEIGHBOURS)
        along = _barycentric(at - first, order, (-1.0) ** order * binom(_NEIGHBOURS - 1, order))
        index = (which * self.parts.shape[2] + first)[:, None] + order
        out = np.stack([np.einsum("ij,ij->i", (across @ part).ravel()[index], along) for part in self.parts])
        out[-2] = np.maximum(out[-2], 0.0)
        return out


def _barycentric(x: Array, nodes: Array, weight: Array) -> Float[Array, "x nodes"]:
    """Values at x of Lagrange's polynomials on the nodes."""
    gap = x[:, None] - nodes
    part = weight / np.where(gap == 0, 1e-200, gap)
    return part / part.sum(1, keepdims=True)


def _table(f: Function, t: Array, sd: Array, D: float, L: int) -> _Table | None:
    """A table that reaches all points, where it is smooth enough and takes fewer values than the points."""
    low, high = sd.min(), sd.max()
    if D < 16 or low < 2.0**-10:
        return None
    half = np.log(high / low) / 2
    # smoothing by N(0, s²) is analytic in log s up to ±iπ/4, which gives Chebyshev's interpolation its rate
    count = 1 if half == 0 else 2 + int(np.ceil(24 / np.arcsinh(np.pi / 4 / half)))
    distance = low / (5 if D >= 40 else 8)
    length = int(np.ceil((t.max() - t.min()) / distance)) + _NEIGHBOURS + 1
    nodes = np.arange(length) - float(_NEIGHBOURS // 2)
    if 2 * nodes.size * count > t.size:
        return None
    grid = t.min() + distance * nodes
    log_s = np.log(low) + half * (1 + np.cos((np.arange(count) + 0.5) * np.pi / count))
    values = _directly(f, np.tile(grid, count), np.repeat(np.exp(log_s), grid.size), D, L)
    return _Table(float(grid[0]), float(distance), log_s, values.reshape(L + 3, count, grid.size))


def _directly(f: Function, t: Array, sd: Array, D: float, L: int) -> Float[Array, "parts x"]:
    """The parts by quadrature at every point."""
    out = np.empty((L + 3, t.size))
    reach = f.rule[1].sum() / 2
    level = np.floor(np.log2(sd)).astype(int) + (2 if D >= _SMALL else 1)  # panels as wide as the density allows
    half = min(_WINDOW, np.sqrt(D)) * sd
    beyond = np.abs(t) + half >= reach
    level[beyond] = np.maximum(level[beyond], 1)  # the rule is continued from this level on
    far = beyond & ((sd < 2) | (np.abs(t) >= reach + half))
    level[far | (sd < 2.0**-10)] = _LOCALLY  # a kink is seen by few points on this scale
    if f.exact is not None:
        level[:] = _LOCALLY  # exact for polynomials
    for value in np.unique(level):
        chosen = np.flatnonzero(level == value)
        chosen = chosen[np.argsort(sd[chosen], kind="stable")]  # windows of similar width go together
        if value == _LOCALLY:
            for part in np.array_split(chosen, chosen.size * _LOCAL // _AT_ONCE + 1):
                out[:, part] = _locally(f, t[part], sd[part], D, L)
            continue
        rule = _rule(f, int(value))
        nodes, on_rule = _window_by_window if D >= _SMALL else _from_end_to_end, f(rule[0])
        lo, hi = (np.searchsorted(rule[0], t[chosen] + sign * _WINDOW * sd[chosen]) for sign in (-1, 1))
        for part in np.array_split(chosen, chosen.size * int((hi - lo).max()) // _AT_ONCE + 1):
            out[:, part] = _by_rule(*nodes(f, rule, on_rule, t[part], sd[part], D), D, L)
    return out


def _rule(f: Function, level: int) -> tuple[Array, Array]:
    """The function's own rule with panels of up to 2^level, continued beyond its ends where windows reach further."""
    if level <= 0:
        return fine_rule(f, -level)
    x, w = _merged(f, level)
    unit, share = _unit_panel()
    far = w.sum() / 2 + 2.0**level * (np.arange(33)[:, None] + unit).ravel()
    weight = np.tile(2.0**level * share, 33)
    return np.concatenate([-far[::-1], x, far]), np.concatenate([weight[::-1], w, weight])


@lru_cache(maxsize=64)
def _merged(f: Function, level: int) -> tuple[Array, Array]:
    """Neighbouring panels made one, up to a width of 2^level, where one polynomial gives the values on both."""
    if level == 0:
        return f.rule
    whole, (unit, share) = 2.0**level, _unit_panel()
    x, w = (a.reshape(-1, unit.size) for a in _merged(f, level - 1))
    width = w.sum(1)
    left = (x[:, 0] + x[:, -1] - width) / 2
    halves = np.isclose(width, whole / 2)
    aligned = np.abs(left / whole - np.rint(left / whole)) < 1e-9
    pair = np.flatnonzero(halves[:-1] & halves[1:] & aligned[:-1])
    merged = left[pair, None] + whole * unit
    old = f(np.concatenate([x[pair], x[pair + 1]], axis=1))
    weight = 1 / np.prod(unit[:, None] - unit + np.eye(unit.size), axis=1)
    guess = f(merged) @ _barycentric(np.concatenate([unit, 1 + unit]) / 2, unit, weight).T
    with np.errstate(invalid="ignore"):
        same = np.abs(guess - old).max(1) <= 1e-13 * (np.abs(old).max(1) + np.sqrt(f.second_moment))
    kept = np.ones(width.size, bool)
    kept[pair[same]] = kept[pair[same] + 1] = False
    new_x = np.concatenate([x[kept], merged[same]])
    new_w = np.concatenate([w[kept], np.tile(whole * share, (int(same.sum()), 1))])
    order = np.argsort(new_x[:, 0])
    return new_x[order].ravel(), new_w[order].ravel()


@lru_cache(maxsize=1)
def _unit_panel() -> tuple[Array, Array]:
    x, w = leggauss(PANEL_NODES)
    return (1 + x) / 2, w / 2


def _window_by_window(
    f: Function, rule: tuple[Array, Array], on_rule: Array, t: Array, sd: Array, D: float
) -> tuple[Array, Array, Array]:
    """The function's own rule, which resolves its kinks, around each t: nodes in units of sd, weights, values."""
    x, weight = rule
    lo = np.searchsorted(x, t - _WINDOW * sd)
    width = int((np.searchsorted(x, t + _WINDOW * sd) - lo).max())
    padding = np.zeros(width)
    at, weights, values = (sliding_window_view(np.concatenate([a, padding]), width)[lo] for a in (x, weight, on_rule))
    at -= t[:, None]
    at /= sd[:, None]
    return at, weights, values


def _from_end_to_end(
    f: Function, rule: tuple[Array, Array], on_rule: Array, t: Array, sd: Array, D: float
) -> tuple[Array, Array, Array]:
    """The same on a small sphere, where the density ends like (1 − u²)^((D−3)/2): whole panels, and one up to each end."""
    x, weight = (a.reshape(-1, PANEL_NODES) for a in rule)
    left = np.append((x[:, 0] + x[:, -1] - weight.sum(1)) / 2, (x[-1, 0] + x[-1, -1] + weight[-1].sum()) / 2)
    low: Array = t - np.sqrt(D) * sd
    high: Array = t + np.sqrt(D) * sd
    first = np.minimum(np.searchsorted(left, low), left.size - 1)
    last = np.maximum(np.searchsorted(left, high, side="right") - 1, first)  # whole panels are first … last − 1
    chosen = first[:, None] + np.arange(int((last - first).max()))
    inside = chosen < last[:, None]
    chosen = np.minimum(chosen, x.shape[0] - 1)
    unit, share = _unit_panel()
    # 1 ∓ u = (distance) v² makes the density's half-integer power of it a whole one
    below, above = np.clip(left[first], low, high) - low, high - np.clip(left[last], low, high)
    at_ends = np.concatenate(
        [low[:, None] + np.outer(below, unit**2), high[:, None] - np.outer(above, unit**2)], axis=1
    )
    weight_ends = np.concatenate([np.outer(length, 2 * unit * share) for length in (below, above)], axis=1)
    wide = (t.size, -1)
    at = np.concatenate([x[chosen].reshape(wide), at_ends], axis=1)
    weights = np.concatenate([(weight[chosen] * inside[:, :, None]).reshape(wide), weight_ends], axis=1)
    values = np.concatenate([on_rule.reshape(x.shape)[chosen].reshape(wide), f(at_ends)], axis=1)
    return (at - t[:, None]) / sd[:, None], weights, values


def _by_rule(at: Array, weights: Array, values: Array, D: float, L: int) -> Array:
    """The parts from values at √D u = `at` with Lebesgue weights, which are changed."""
    density = np.square(at)
    density *= -1 / D
    np.log1p(np.maximum(density, -1 + 1e-16, out=density), out=density)  # off a large sphere nothing is left
    density *= (D - 3) / 2
    weights *= np.exp(density, out=density)
    weights /= weights.sum(1, keepdims=True)
    return _moments(values, at, weights, D, L)


def _locally(f: Function, t: Array, sd: Array, D: float, L: int) -> Array:
    g, p = sphere_nodes(D)
    return _moments(f(t[:, None] + sd[:, None] * g), np.broadcast_to(g, (t.size, g.size)), p[None, :], D, L)


@lru_cache(maxsize=64)
def sphere_nodes(D: float) -> tuple[Float[Array, "u"], Float[Array, "u"]]:
    """`sphere_rule` with nodes enough for any polynomial that a teacher can be."""
    return sphere_rule(D, _LOCAL)


def _moments(values: Array, g: Array, p: Array, D: float, L: int) -> Array:
    """The parts of f from its values at √D u = g with probabilities p."""
    out = np.empty((L + 3, values.shape[0]))
    out[0] = np.einsum("ij,ij->i", values, p)
    left = values - out[0][:, None]
    weighted = left * p
    variance = np.einsum("ij,ij->i", left, weighted)
    # e = ½ E[(f − b)((D − 3) u²/(1 − u²) − 1)], by parts in u
    np.multiply(g, g, out=left)
    below = np.subtract(D, left)
    np.divide(left, np.maximum(below, 1e-12 * D, out=below), out=below)
    out[-1] = np.einsum("ij,ij->i", weighted, below) * (D - 3) / 2
    c = _recurrence(D, L + 2)
    below[:], here = 1.0, np.array(g)
    # those with leading coefficient 1, ∏_{j ≤ l} c_j P_l: each is g times the last less c_l² times that before
    for l in range(1, L + 1):
        out[l] = np.einsum("ij,ij->i", weighted, here)
        if l < L:
            below *= -(c[l - 1] ** 2)
            below += np.multiply(g, here, out=left)
            below, here = here, below
    out[1 : L + 1] /= np.cumprod(c[:L])[:, None]
    out[-2] = np.maximum(variance - (out[1 : L + 1] ** 2).sum(0), 0.0)
    return out
