"""A scalar function of one coordinate, resolved by degree: f(t + s u), u a coordinate of a point of the sphere S^{D−1}.

    f(t + s u) = b + Σ_{l ≤ L} k_l P_l(u) + rest,     b = E f,   k_l = E[f P_l],   e = (s/2) ∂b/∂s,

P_l the orthonormal polynomials of u (Gegenbauer's). For x̂ and ŵ on the sphere P_l(⟨ŵ, x̂⟩) = ⟨Y_l(ŵ), Y_l(x̂)⟩/√B_l with the
B_l harmonics Y_l of degree l, each of variance 1: a feature's part of degree l is a Gaussian-like block of dimension B_l.
For D → ∞ P_l(u) becomes h_l(√D u), Hermite's.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.linalg import eigh_tridiagonal

from onestride._numerics import Array, Float
from onestride.functions import Function
from onestride.theory.profile.smoothing import LARGEST_REACH, fine_rule

_WINDOW = 8.0  # standard deviations of s u beyond which nothing is added
_LOCAL = 64  # nodes of u where the function's own rule does not reach
_WIDE = -2  # marks points whose window is wider than that rule
_AT_ONCE = 400_000  # values f(x) held at a time


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
    out = np.empty((L + 3, t.size))
    flat_t, sd = t.ravel(), s.ravel() / np.sqrt(D)  # of s u
    if not np.abs(flat_t).max() + 20 * sd.max() <= LARGEST_REACH:
        return np.full((L + 3, *t.shape), np.nan)
    reach = float(f.rule[0][-1])
    near = np.abs(flat_t) + _WINDOW * sd < reach
    halvings = np.where(near, np.ceil(np.log2(np.maximum(1 / sd, 1.0))), -1).astype(int)
    halvings = np.where(sd < 2.0**-10, -1, halvings)  # a kink is seen by few points on this scale
    halvings = np.where(~near & (sd > 3) & (np.abs(flat_t) < reach + _WINDOW * sd), _WIDE, halvings)
    with np.errstate(all="ignore"):  # an overflowing function ends as NaN, which callers report
        for level in np.unique(halvings):
            chosen = np.flatnonzero(halvings == level)
            chosen = chosen[np.argsort(sd[chosen], kind="stable")]  # windows of similar width go together
            if level == _WIDE:
                rule = _wide_rule(f)
                for part in np.array_split(chosen, chosen.size * rule[0].size // _AT_ONCE + 1):
                    out[:, part] = _by_rule(f, rule, flat_t[part], sd[part], D, L)
                continue
            if level < 0:
                for part in np.array_split(chosen, chosen.size * _LOCAL // _AT_ONCE + 1):
                    out[:, part] = _locally(f, flat_t[part], sd[part], D, L)
                continue
            rule = fine_rule(f, int(level))
            per_point = _WINDOW * 2 * 16 * 2.0**level * sd[chosen].max() + 400
            for part in np.array_split(chosen, int(chosen.size * per_point / _AT_ONCE) + 1):
                out[:, part] = _by_rule(f, rule, flat_t[part], sd[part], D, L)
    return out.reshape(L + 3, *t.shape)


def _by_rule(f: Function, rule: tuple[Array, Array], t: Array, sd: Array, D: int, L: int) -> Array:
    """With the function's own rule, which resolves its kinks."""
    x, weight = rule
    lo = np.searchsorted(x, t - _WINDOW * sd)
    width = int((np.searchsorted(x, t + _WINDOW * sd) - lo).max())
    index = np.minimum(lo[:, None] + np.arange(width), x.size - 1)
    g = (x[index] - t[:, None]) / sd[:, None]
    u2 = np.minimum(g * g / D, 1.0)
    p = np.exp((D - 3) / 2 * np.log1p(-u2)) * weight[index]  # log1p(-1) = −∞ off the sphere
    return _moments(f(x)[index], g, p / p.sum(1, keepdims=True), D, L)


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
    out[0] = (p * values).sum(1)
    left = values - out[0][:, None]
    # e = ½ E[(f − b)((D − 3) u²/(1 − u²) − 1)], by parts in u
    out[-1] = (p * left * ((D - 3) / D * g * g / np.maximum(1 - g * g / D, 1e-12) - 1)).sum(1) / 2
    c = _recurrence(D, L + 2)
    below, here = np.zeros_like(g), np.ones_like(g)
    for l in range(1, L + 1):
        below, here = here, (g * here - (c[l - 2] * below if l > 1 else 0.0)) / c[l - 1]
        out[l] = (p * left * here).sum(1)
        left = left - out[l][:, None] * here
    out[-2] = (p * left * left).sum(1)
    return out
