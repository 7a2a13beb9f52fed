"""The one regression at full size: tiles of rows, one Gram matrix, leave-one-out on some of the rows.

    m = Σ_i w_i f_i/Σw,   K = Σ_i w_i (f_i − m)(f_i − m)ᵀ,   Σ_i w_i (f_i − m) y_i

are sums over rows. A tile of rows becomes features, on the host or on a device, and is gone when it has been added: memory does not grow
with n, and rows may lie in a file. Sums are about m₀, the mean of the first rows, K = Σ w(f − m₀)(f − m₀)ᵀ − Σw (m − m₀)(m − m₀)ᵀ. The
left-out residuals of `shown` rows alone choose the penalty: 2mp² of work for m rows in place of 2np².
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import eigh

from onestride._backend import HOST, Backend, map_tiles, on_host, prefetched
from onestride._numerics import Array
from onestride.estimator._layer import Layer
from onestride.estimator._ridge import Decomposition, Readout, decompose

FIRST_ROWS = 256  # whose mean is m₀
LEFT_OUT_ROWS = 4000  # whose left-out residuals choose the penalty


def regression(
    layer: Layer, Z: Any, Y: Array, w: Array, shown: Array | None = None, backend: Backend = HOST
) -> Decomposition:
    """The ridge regression on the layer's features; streamed where rows are many, Z then anything that gives rows by index.

    With `shown`, left-out residuals are those of these rows.
    """
    p = layer.width + Z.shape[1] * layer.skip
    if shown is None or len(Z) < p:
        return decompose(layer.design(Z[:]), Y, w)
    moved, total = on_device(layer, backend), float(w.sum())
    target_mean = w @ Y / total
    m0, shift, gram, right = _sums(moved, Z, Y - target_mean, w, p, backend)
    mean = shift / total
    gram -= total * mean[:, None] * mean
    eigenvalues, vectors = _eigh(gram, backend)
    rows = np.empty((len(shown), p))
    for part, made in _tiles(moved, Z[shown], p, backend):
        root = backend.put(np.sqrt(w[shown[part]]), "float64")[:, None]
        rows[part] = backend.get(_centred(backend.put(made, "float64"), m0 + mean, root) @ vectors)
    host = [backend.get(a) for a in (m0 + mean, vectors, vectors.T @ right)]
    return Decomposition(
        host[0], target_mean, w[shown], rows, Y[shown] - target_mean, eigenvalues, host[1], host[2], True, total
    )


def on_device(layer: Layer, backend: Backend) -> Layer:
    """The layer with its arrays on the device."""
    return layer if backend.on_host else layer.placed(backend.put)


def tiled_outputs(layer: Layer, Z: Any, readout: Readout, backend: Backend = HOST) -> Array:
    """f(z), n × outputs, in the precision of Z, tile by tile."""
    if backend.on_host and len(Z) * layer.width < 2**20:
        return layer.outputs(Z[:], readout)
    moved = on_device(layer, backend)
    c, c0 = (backend.put(part) for part in readout)
    out = np.empty((len(Z), len(readout.intercept)), Z.dtype)
    for rows, features in _tiles(moved, Z, layer.width + Z.shape[1], backend):
        out[rows] = backend.get(backend.put(features) @ c + c0)
    return out


def _tiles(layer: Layer, Z: Any, p: int, backend: Backend) -> Iterator[tuple[slice, Any]]:
    """Slices of rows and their features; the next rows are read in threads meanwhile."""

    def read(rows: slice) -> tuple[slice, Any]:
        return rows, Z[rows]

    tasks: Iterator[Callable[[], tuple[slice, Any]]] = (partial(read, rows) for rows in backend.tiles(len(Z), p))
    for rows, some in prefetched(tasks):
        yield rows, layer.design(backend.put(some))


def _centred(features: Any, mean: Any, root: Any) -> Any:
    """(f − mean)√w in place, by threads on the host."""
    if not on_host(features):
        features -= mean
        features *= root
        return features
    work = partial(_shifted, mean=mean)
    return map_tiles(work, features, root, out=features)


def _shifted(features: Array, root: Array, out: Array, mean: Array) -> Array:
    return np.multiply(np.subtract(features, mean, out=out), root, out=out)


def _sums(layer: Layer, Z: Any, Y: Array, w: Array, p: int, backend: Backend) -> tuple[Any, Any, Any, Any]:
    """m₀, Σ w(f − m₀), Σ w(f − m₀)(f − m₀)ᵀ and Σ w(f − m₀)yᵀ over all rows, in double precision on the device."""
    gram, right = backend.zeros(p, p, dtype="float64"), backend.zeros(p, Y.shape[1], dtype="float64")
    shift = backend.zeros(p, dtype="float64")
    m0 = backend.xp.mean(backend.put(layer.design(backend.put(Z[:FIRST_ROWS])), "float64"), axis=0)

    for rows, made in _tiles(layer, Z, p, backend):
        root = backend.put(np.sqrt(w[rows]), "float64")[:, None]
        features = _centred(backend.put(made, "float64"), m0, root)
        shift += (features.T @ root)[:, 0]
        right += features.T @ (root * backend.put(Y[rows], "float64"))
        backend.add_product(gram, features.T, features)
    return m0, shift, gram, right


def _eigh(gram: Any, backend: Backend) -> tuple[Array, Any]:
    """Eigenvalues on the host, not below 0, and eigenvectors on the device."""
    if backend.on_host:
        values, vectors = eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
    else:
        values, vectors = backend.xp.linalg.eigh(gram)
    return np.maximum(backend.get(values), 0.0), vectors
