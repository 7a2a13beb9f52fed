"""Quadrature against the standard normal law, and Hermite polynomials. Knows nothing about networks."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import Any

import numpy as np
from jaxtyping import Bool as Bool
from jaxtyping import Complex as Complex
from jaxtyping import Float as Float
from jaxtyping import Inexact as Inexact
from jaxtyping import Int as Int
from numpy.polynomial.legendre import leggauss, legvander

# with its shape: Float[Array, "n d"], which the tests check at run time (numpy.typing.NDArray is no class since NumPy 2.5)
Array = np.ndarray[Any, np.dtype[Any]]

PANEL_NODES = 16  # Gauss-Legendre nodes on each panel
_MAX_PANELS = 2048  # panels bisected at one level before the rule gives up refining
_MAX_DEPTH = 50  # bisections of one panel
_ROUNDING = 1e-15  # of the whole: what halving a panel may change its integral by
_REACH = 42.0  # half-width of the interval: smoothing at t uses a window of a few units around t
_SQRT_2PI = np.sqrt(2 * np.pi)


def gauss_density(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The standard normal density."""
    return np.exp(-x * x / 2) / _SQRT_2PI


def _panel_nodes(
    left: Float[Array, "panels"], right: Float[Array, "panels"]
) -> tuple[Float[Array, "panels 16"], Float[Array, "panels 16"]]:
    x, w = leggauss(PANEL_NODES)
    half, centre = (right - left)[:, None] / 2, (right + left)[:, None] / 2
    return centre + half * x, half * w


def adapted_rule(f: Callable[[Array], Array]) -> tuple[Float[Array, "nodes"], Float[Array, "nodes"]]:
    """Nodes and weights on [-42, 42] (Lebesgue measure) that integrate f and f² against a unit Gaussian.

    Composite Gauss-Legendre on unit panels with an edge at 0. A panel is bisected while halving it changes its
    Gaussian-weighted integral of f or f² by more than rounding, so kinks and jumps are cornered wherever
    they are: plain Gauss-Hermite is off in the third digit on ReLU.
    """
    edges = np.arange(-_REACH, _REACH + 1)
    left, right = edges[:-1], edges[1:]

    def moments(left: Array, right: Array) -> Array:
        x, w = _panel_nodes(left, right)
        fx, p = f(x), gauss_density(x) * w
        return np.stack([(p * fx).sum(1), (p * fx * fx).sum(1)])

    x16, w16 = leggauss(PANEL_NODES)
    modes = legvander(x16, PANEL_NODES - 1) * w16[:, None] * (np.arange(PANEL_NODES) + 0.5)
    # nodal values to values at the ends
    to_ends = np.stack([modes @ (-1.0) ** np.arange(PANEL_NODES), modes.sum(1)], -1)

    def hidden(left: Array, right: Array, size: float) -> Array:
        """What a kink or jump between the outermost nodes and the ends, which no node sees, could contribute."""
        ends = np.stack([np.nextafter(left, right), np.nextafter(right, left)], -1)
        actual, expected = f(ends), f(_panel_nodes(left, right)[0]) @ to_ends
        gap = np.abs(actual - expected) * (1 + (np.abs(actual) + np.abs(expected)) / size)
        return ((right - left) * (1 - x16[-1]) / 2) * (gap * gauss_density(ends)).max(-1)

    scale: Array | None = None
    done: list[tuple[Array, Array]] = []
    for _ in range(_MAX_DEPTH):
        middle = (left + right) / 2
        coarse = moments(left, right)
        fine = moments(left, middle) + moments(middle, right)
        if scale is None:
            scale = np.array([np.sqrt(fine[1].sum()), fine[1].sum()]) + np.finfo(float).tiny
        split = (np.abs(fine - coarse) > _ROUNDING * scale[:, None]).any(0)
        split |= hidden(left, right, scale[0]) > _ROUNDING * scale[0]
        done.append((left[~split], right[~split]))
        if not split.any():
            break
        if split.sum() > _MAX_PANELS:  # a kink needs two panels a level: this is rounding noise, or too wild to resolve
            done.append((left[split], right[split]))
            break
        left, middle, right = left[split], middle[split], right[split]
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
    else:
        done.append((left, right))
    lefts, rights = (np.concatenate(side) for side in zip(*done, strict=True))
    order = np.argsort(lefts)
    x, w = _panel_nodes(lefts[order], rights[order])
    return x.ravel(), w.ravel()


def root_factorials(degree: int) -> Float[Array, "degrees"]:
    """√k!, k = 0..degree: what a coefficient of H_k is multiplied by to be one of the normalised H_k/√k!."""
    return np.sqrt([float(factorial(k)) for k in range(degree + 1)])


def hermite_table(x: Array, degree: int) -> Float[Array, "degrees *shape"]:
    """Normalised probabilists' Hermite polynomials H_k(x)/√k!, k = 0..degree, by their stable recurrence."""
    x = np.asarray(x, float)
    table = np.empty((degree + 1, *x.shape))
    table[0] = 1.0
    if degree:
        table[1] = x
    for k in range(1, degree):
        table[k + 1] = (x * table[k] - np.sqrt(k) * table[k - 1]) / np.sqrt(k + 1)
    return table


def monomials_in_hermite(degree: int) -> Float[Array, "degrees degrees"]:
    """Rows p = 0..degree of x^p in the normalised Hermite basis: x^p = Σ_i M[p, i] H_i/√i!.

    x·h_i = √(i+1) h_{i+1} + √i h_{i-1} gives each row from the one above.
    """
    table = np.zeros((degree + 1, degree + 1))
    table[0, 0] = 1.0
    root = np.sqrt(np.arange(degree + 1))
    for p in range(degree):
        table[p + 1, 1:] += root[1:] * table[p, :-1]
        table[p + 1, :-1] += root[1:] * table[p, 1:]
    return table


def solve(
    A: Inexact[Array, "... n n"], b: Inexact[Array, "n"] | Inexact[Array, "... n m"]
) -> Inexact[Array, "... n"] | Inexact[Array, "... n m"]:
    """A⁻¹b; NaN where A is singular to rounding, which an iteration reports as not converged."""
    try:
        return np.linalg.solve(A, b)
    except np.linalg.LinAlgError:
        return np.full(b.shape, np.nan, np.result_type(A, b))


def inverse(A: Inexact[Array, "... n n"]) -> Inexact[Array, "... n n"]:
    """A⁻¹ of matrices that are small; NaN as in `solve`."""
    try:
        return np.linalg.inv(A)
    except np.linalg.LinAlgError:
        return np.full_like(A, np.nan)


def leading_rows(M: Float[Array, "a u"], count: int) -> Float[Array, "count u"]:
    """The first right singular vectors of a wide matrix, by way of the small M Mᵀ: exact where singular values are above 1e-8 of the largest."""
    square = M @ M.T
    if not np.isfinite(square).all():
        raise np.linalg.LinAlgError("numbers out of range have no singular vectors")
    left = np.linalg.eigh(square)[1][:, ::-1]
    return np.linalg.qr(M.T @ left[:, :count])[0].T


def relative_gap(value: Array, reference: Array) -> Float[Array, "..."]:
    """|value/reference − 1|; 0 where both are equal, also when both are 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(value == reference, 0.0, np.abs(value / reference - 1))
