"""Linear maps of the inputs that the features learn: where the target varies, found by a narrow network and refined by itself.

quadratic   M = Σ_t M_t²,  M_t = ⟨t(r) zzᵀ⟩ for t(r) = r and r², each centred and of unit variance: the second Hermite coefficients
            of the residual and of its square. A target like z₁(z₂² − 1) has no linear and no quadratic part; its square has.
outer       M = ⟨∇f ∇fᵀ⟩ of the fitted network f, all of it or its diagonal: the average outer product of its gradients.

A map takes the layer W₀ to W₀ + ρ W₀√M/|W₀√M|·|W₀|, brought back to the length of W₀. The first is quadratic; outer ones follow,
each of the network that the one before made, with readout, penalty and input scale fitted again by leave-one-out. M has d² numbers
at most, so that a narrow network and some of the rows are enough to find it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from onestride._backend.threads import together
from onestride._numerics import Array
from onestride.estimator._layer import Layer, stepped
from onestride.estimator._ridge import Readout, best_penalty, decompose

MapKind = Literal["full", "diagonal"]
MAP_ALPHAS = np.logspace(-9, 6, 16)
_LIFT = 100.0  # the residual of the start is taken at this multiple of the penalty: it keeps more signal
_SEEN = 1e-3  # directions with less than this share of the largest variance are not seen
_FACTORS = (0.5, 1.0, 2.0)  # of the input scale, tried after each map


class LearnedMap(NamedTuple):
    """√M (d × d), and the factor of the input scale and the penalty that suited the narrow network behind it."""

    root: Array
    factor: float
    alpha: float

    def applied(self, layer: Layer, step: float) -> Layer:
        """The layer after a step of relative size ρ along this map; one that another leads keeps its own scale."""
        change = layer.W @ self.root
        size = np.linalg.norm(change)
        if size == 0:
            return layer
        moved = stepped(layer, change * (np.linalg.norm(layer.W) / size), step)
        return moved if layer.leader(1.0)[0] is not layer else moved.at_scale(self.factor)


class Narrow(NamedTuple):
    """The first neurons of a layer, moved along a map, with the readout that leave-one-out chose for them."""

    learned: LearnedMap
    layer: Layer
    readout: Readout
    settled: bool


def start_maps(layer: Layer, Z: Array, Y: Array, w: Array, step: float, neurons: int) -> tuple[Layer, Narrow]:
    """The first `neurons` of the layer, and the same moved along the quadratic map."""
    narrow = layer.first(neurons)
    features = narrow.design(Z)
    path = decompose(features, Y, w)
    c, c0 = path.readout(_LIFT * best_penalty(path, MAP_ALPHAS)[0])
    quadratic = LearnedMap(_root(quadratic_map(Z, Y - (features @ c + c0), w)), 1.0, 1.0)
    return narrow, _refitted(narrow, quadratic, Z, Y, w, step, _FACTORS)


def learn_maps(
    start: tuple[Layer, Narrow], Z: Array, Y: Array, w: Array, step: float, kind: MapKind, most: int
) -> Iterator[LearnedMap]:
    """The maps after 1, 2, … `most` outer products. The input scale is sought until it stays."""
    narrow, now = start
    for k in range(most):
        M = outer_map(now.layer, now.readout.coefficients, Z, w)
        learned = now.learned._replace(root=_root(np.diag(np.diag(M)) if kind == "diagonal" else M))
        yield learned
        if k + 1 < most:
            now = _refitted(narrow, learned, Z, Y, w, step, (1.0,) if now.settled else _FACTORS)


def _refitted(
    narrow: Layer, learned: LearnedMap, Z: Array, Y: Array, w: Array, step: float, factors: tuple[float, ...]
) -> Narrow:
    """Move along a map, then choose penalty and input scale by leave-one-out."""

    def fitted(factor: float) -> tuple[float, Narrow]:
        scaled = learned._replace(factor=learned.factor * factor)
        moved = scaled.applied(narrow, step)
        path = decompose(moved.design(Z), Y, w)
        alpha, error = best_penalty(path, MAP_ALPHAS)
        return error, Narrow(scaled._replace(alpha=alpha), moved, path.readout(alpha), factor == 1.0)

    return min(together(fitted, factors), key=lambda stage: stage[0])[1]


def quadratic_map(Z: Array, residual: Array, w: Array) -> Array:
    """Σ_t M_t² over the residuals (n × outputs) and their squares, d × d."""
    share = w / w.sum()
    M = np.zeros((Z.shape[1], Z.shape[1]))
    for t in np.hstack([residual, np.square(residual)]).astype(np.float64).T:
        centred = t - share @ t
        spread = np.sqrt(share @ np.square(centred))
        if spread > 0:
            part = (Z * (share * centred / spread)[:, None]).T @ Z
            M += part @ part
    return M


def outer_map(layer: Layer, coefficients: Array, Z: Array, w: Array) -> Array:
    """⟨∇f ∇fᵀ⟩ over rows, summed over outputs, d × d, in the directions along which the rows vary.

    Along the others, as the difference of two nearly equal columns, the slope of f says nothing of the target.
    """
    share = (w / w.sum())[:, None]
    variances, axes = np.linalg.eigh(((Z * share).T @ Z).astype(np.float64))
    seen = axes[:, variances > _SEEN * variances[-1]]
    M = np.zeros((Z.shape[1], Z.shape[1]))
    for gradients in layer.input_gradients(Z, coefficients):
        M += (gradients * share).T @ gradients
    return seen @ (seen.T @ M @ seen) @ seen.T


def _root(M: Array) -> Array:
    values, vectors = np.linalg.eigh(np.asarray(M, np.float64))
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
