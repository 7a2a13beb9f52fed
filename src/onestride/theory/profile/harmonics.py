"""A scalar function of one coordinate, resolved by degree: f(t + s u), u a coordinate of a point of the sphere S^{D−1}.

    f(t + s u) = b + Σ_{l ≤ L} k_l P_l(u) + rest,     b = E f,   k_l = E[f P_l],   e = (s/2) ∂b/∂s,

P_l the orthonormal polynomials of u (Gegenbauer's). For x̂ and ŵ on the sphere P_l(⟨ŵ, x̂⟩) = ⟨Y_l(ŵ), Y_l(x̂)⟩/√B_l with the
B_l harmonics Y_l of degree l, each of variance 1: a feature's part of degree l is a Gaussian-like block of dimension B_l.
For D → ∞ P_l(u) becomes h_l(√D u), Hermite's.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.polynomial.legendre import leggauss
from scipy.linalg import eigh_tridiagonal
from scipy.special import binom

from onestride._numerics import Array, Float
from onestride.functions import Function
from onestride.theory.profile.smoothing import LARGEST_REACH, fine_rule

_WINDOW = 8.0  # standard deviations of s u beyond which nothing is added
_LOCAL = 64  # nodes of u where the function's own rule does not reach
_WIDE = -2  # marks points whose window is wider than that rule
_AT_ONCE = 400_000  # values f(x) held at a time
_NEIGHBOURS = 24  # nodes of t that a value is interpolated from


def multiplicity(D: int, l: int) -> float:
    """B_l, the number of independent harmonics of degree l on S^{D−1}."""
    return float(comb(D + l - 1, l) - (comb(D + l - 3, l - 2) if l >= 2 else 0))


def degrees_resolved(D: int, largest: int, *, most: int = 6, factor: float = 60.0) -> int:
    """The last degree whose multiplicity is below 60 max(n, N); higher ones are noise to the features."""
    L = 1
    while most > L and multiplicity(D, L + 1) < factor * largest:
        L += 1
    return L


def radius_rule(D: int, count: int) -> tuple[Float[Array, "r"], Float[Array, "r"]]:
    """Gauss nodes and probabilities for |x|, x ~ N(0, I_D): |x|²/2 is a Gamma(D/2) variable."""
    k, a = np.arange(count), D / 2 - 1  # the three-term recurrence of the Laguerre polynomials (Golub and Welsch)
    y, vectors = eigh_tridiagonal(2 * k + 1 + a, np.sqrt(k[1:] * (k[1:] + a)))
    return np.sqrt(2 * y), vectors[0] ** 2


def sphere_rule(D: int, count: int) -> tuple[Float[Array, "u"], Float[Array, "u"]]:
    """Gauss nodes and probabilities for √D u, u a coordinate of a uniform point of S^{D−1}."""
    g, vectors = eigh_tridiagonal(np.zeros(count), _recurrence(D, count))
    return g, vectors[0] ** 2


def _recurrence(D: int, count: int) -> Float[Array, "l"]:
    """c_1 … c_{count−1} of g P_l = c_{l+1} P_{l+1} + c_l P_{l−1}, g = √D u: √l for D → ∞."""
    l = np.arange(1, count)
    return np.sqrt(l * (D / (2 * l + D - 2)) * ((l + D - 3) / (2 * l + D - 4)))


def resolve(f: Function, t: Array, s: Array, D: int, L: int) -> Float[Array, "parts *shape"]:
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


def _table(f: Function, t: Array, sd: Array, D: int, L: int) -> _Table | None:
    """A table that reaches all points, where it is smooth enough and takes fewer values than the points."""
    low, high = sd.min(), sd.max()
    if D < 16 or low < 2.0**-10:
        return None
    half = np.log(high / low) / 2
    # smoothing by N(0, s²) is analytic in log s up to ±iπ/4, which gives Chebyshev's interpolation its rate
    count = 1 if half == 0 else 2 + int(np.ceil(24 / np.arcsinh(np.pi / 4 / half)))
    distance = low / (5 if D >= 40 else 8)
    nodes = np.arange(-_NEIGHBOURS // 2, np.ceil((t.max() - t.min()) / distance) + _NEIGHBOURS // 2 + 1)
    if 2 * nodes.size * count > t.size:
        return None
    grid = t.min() + distance * nodes
    log_s = np.log(low) + half * (1 + np.cos((np.arange(count) + 0.5) * np.pi / count))
    values = _directly(f, np.tile(grid, count), np.repeat(np.exp(log_s), grid.size), D, L)
    return _Table(float(grid[0]), float(distance), log_s, values.reshape(L + 3, count, grid.size))


def _directly(f: Function, t: Array, sd: Array, D: int, L: int) -> Float[Array, "parts x"]:
    """The parts by quadrature at every point."""
    out = np.empty((L + 3, t.size))
    reach = float(f.rule[0][-1])
    near = np.abs(t) + _WINDOW * sd < reach
    halvings = np.where(near, np.ceil(np.log2(np.maximum(1 / sd, 1.0))), -1).astype(int)
    halvings = np.where(sd < 2.0**-10, -1, halvings)  # a kink is seen by few points on this scale
    halvings = np.where(~near & (sd > 3) & (np.abs(t) < reach + _WINDOW * sd), _WIDE, halvings)
    for level in np.unique(halvings):
        chosen = np.flatnonzero(halvings == level)
        chosen = chosen[np.argsort(sd[chosen], kind="stable")]  # windows of similar width go together
        rule = _wide_rule(f) if level == _WIDE else fine_rule(f, max(int(level), 0))
        per_point = rule[0].size if level == _WIDE else _WINDOW * 2 * 16 * 2.0**level * sd[chosen].max() + 400
        for part in np.array_split(chosen, int(chosen.size * per_point / _AT_ONCE) + 1):
            out[:, part] = (
                _locally(f, t[part], sd[part], D, L) if level == -1 else _by_rule(f, rule, t[part], sd[part], D, L)
            )
    return out


def _by_rule(f: Function, rule: tuple[Array, Array], t: Array, sd: Array, D: int, L: int) -> Array:
    """With the function's own rule, which resolves its kinks."""
    x, weight = rule
    lo = np.searchsorted(x, t - _WINDOW * sd)
    width = int((np.searchsorted(x, t + _WINDOW * sd) - lo).max())
    padding = np.zeros(width)
    at, weights, values = (sliding_window_view(np.concatenate([a, padding]), width)[lo] for a in (x, weight, f(x)))
    at -= t[:, None]
    at /= sd[:, None]
    density = np.square(at)
    density *= -1 / D
    np.log1p(np.maximum(density, -1.0, out=density), out=density)  # log1p(-1) = −∞ off the sphere
    density *= (D - 3) / 2
    weights *= np.exp(density, out=density)
    weights /= weights.sum(1, keepdims=True)
    return _moments(values, at, weights, D, L)


@lru_cache(maxsize=16)
def _wide_rule(f: Function) -> tuple[Array, Array]:
    """The function's rule continued by panels that grow: far out only the window is narrow, and it is wide."""
    x, w = f.rule
    edges = w.sum() / 2 * 1.2 ** np.arange(39)  # panels never wider than 8 standard deviations of a window
    y, v = leggauss(16)
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    far, weight = (middle[:, None] + half[:, None] * y).ravel(), (half[:, None] * v).ravel()
    return np.concatenate([-far[::-1], x, far]), np.concatenate([weight[::-1], w, weight])


def _locally(f: Function, t: Array, sd: Array, D: int, L: int) -> Array:
    g, p = _sphere_nodes(D)
    return _moments(f(t[:, None] + sd[:, None] * g), np.broadcast_to(g, (t.size, g.size)), p[None, :], D, L)


@lru_cache(maxsize=64)
def _sphere_nodes(D: int) -> tuple[Array, Array]:
    return sphere_rule(D, _LOCAL)


def _moments(values: Array, g: Array, p: Array, D: int, L: int) -> Array:
    """The parts of f from its values at √D u = g with probabilities p."""
    out = np.empty((L + 3, values.shape[0]))
    out[0] = np.einsum("ij,ij->i", values, p)
    left = values - out[0][:, None]
    weighted = left * p
    variance = np.einsum("ij,ij->i", left, weighted)
    # e = ½ E[(f − b)((D − 3) u²/(1 − u²) − 1)], by parts in u
    np.multiply(g, g, out=left)
    out[-1] = np.einsum("ij,ij->i", weighted, left / np.maximum(D - left, 1e-12 * D)) * (D - 3) / 2
    c = _recurrence(D, L + 2)
    below, here = np.ones_like(g), np.array(g)
    for l in range(1, L + 1):
        out[l] = np.einsum("ij,ij->i", weighted, here)
        if l < L:  # P_{l+1} = (g P_l − c_l P_{l−1})/c_{l+1}
            below *= -c[l - 1]
            below += np.multiply(g, here, out=left)
            below /= c[l]
            below, here = here, below
    out[-2] = np.maximum(variance - (out[1 : L + 1] ** 2).sum(0), 0.0)
    return out
