"""A function of several coordinates, resolved by degree: f(r c), c the first k coordinates of a point of the sphere S^{D−1}.

    f = h_0 + Σ_{l ≤ L} Σ_m h_lm P_lm(c) + rest,      h_lm = E[f P_lm],

P_lm the polynomials of degree l that are orthonormal on the sphere: harmonics of degree l that depend on k coordinates only.
There are as many as products of l coordinates, C(l + k − 1, l), and for D → ∞ they become products of Hermite polynomials
of √D c; l = 1 has √D c₁ … √D c_k. With k = 1 this is `harmonics`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from onestride._numerics import Array, Float
from onestride.teachers import all_products, index_of
from onestride.theory.profile.harmonics import gegenbauer, sphere_rule

_NODES = {1: 64, 2: 48, 3: 26}  # of each coordinate
_AT_ONCE = 1_000_000  # values held at a time


class Ball(NamedTuple):
    """Nodes c of k coordinates of the sphere, probabilities, and the orthonormal polynomials there."""

    c: Float[Array, "m k"]
    weight: Float[Array, "m"]
    basis: Float[Array, "m parts"]


@lru_cache(maxsize=16)
def ball(D: float, k: int, L: int, count: int) -> Ball:
    """c₁ is a coordinate of S^{D−1}, c₂ that of S^{D−2} times √(1 − c₁²), and so on; Gauss's nodes for each."""
    c, weight, left = np.empty((1, 0)), np.ones(1), np.ones(1)
    for j in range(k):
        g, p = sphere_rule(D - j, count)
        new = np.sqrt(left)[:, None] * (g / np.sqrt(D - j))
        c = np.concatenate([np.repeat(c, g.size, 0), new.reshape(-1, 1)], axis=1)
        left, weight = np.maximum(np.repeat(left, g.size) - new.ravel() ** 2, 0.0), np.outer(weight, p).ravel()
    kept = weight > 1e-15
    c, weight = c[kept], weight[kept] / weight[kept].sum()
    return Ball(c, weight, _orthonormal(c, weight, D, L))


def _orthonormal(c: Array, weight: Array, D: float, L: int) -> Float[Array, "m parts"]:
    """Products of one coordinate's polynomials, each less its parts of lower degree and along those before it."""
    k, table = c.shape[1], gegenbauer(np.sqrt(D) * c, D, L)  # degrees × m × k
    powers = [np.bincount(np.array(p, int), minlength=k) for p in all_products(k, L)]
    columns = [np.prod([table[l, :, j] for j, l in enumerate(row)], axis=0) for row in powers]
    Q, R = np.linalg.qr(np.sqrt(weight)[:, None] * np.stack(columns, 1))
    return Q * np.sign(np.diag(R)) / np.sqrt(weight)[:, None]


class Sight(NamedTuple):
    """What the rows tell of the teacher's coordinates: u = mean + root ζ, ζ = r c the unlearned ones, one for each column."""

    mean: Float[Array, "i k"]
    root: Float[Array, "k k"]


def sight_along(overlap: float, z: Float[Array, "i"], k: int) -> Sight:
    """Rows that know a coordinate z of overlap ϱ with u₁: u₁ = ϱz + √(1 − ϱ²) ζ₁."""
    mean, root = np.zeros((z.size, k)), np.ones(k)
    mean[:, 0], root[0] = overlap * z, np.sqrt(1 - overlap**2)
    return Sight(mean, np.diag(root))


def resolve_several(
    f: Callable[[Float[Array, "*m k"]], Float[Array, "*m"]],
    sight: Sight,
    r: Float[Array, "i"],
    D: float,
    L: int,
    *,
    degree: int | None = None,
) -> list[Array]:
    """h_0 (i), h_1 … h_L (i × parts each) and the variance of the rest (i) of f(mean + root r c).

    `degree`: that of f where it is a polynomial, for which one node of each coordinate more than it, or L, is exact.
    """
    size, k = r.size, sight.mean.shape[1]
    nodes = ball(D, k, L, _NODES[k] if degree is None else min(max(degree, L) + 1, _NODES[k]))
    weighted, moves = nodes.weight[:, None] * nodes.basis, nodes.c @ sight.root.T
    parts, power = np.empty((size, nodes.basis.shape[1])), np.empty(size)
    for rows in np.array_split(np.arange(size), size * nodes.weight.size // _AT_ONCE + 1):
        u = sight.mean[rows, None] + r[rows, None, None] * moves
        with np.errstate(all="ignore"):  # an overflowing function ends as NaN, which callers report
            values = f(u)
            parts[rows], power[rows] = values @ weighted, values**2 @ nodes.weight
    rest = np.maximum(power - (parts**2).sum(1), 0.0)
    return [parts[:, 0], *(parts[:, index_of(k, l)] for l in range(1, L + 1)), rest]
