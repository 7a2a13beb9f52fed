"""The one regression at full size: tiles of rows, one Gram matrix, leave-one-out on some of the rows.

    m = Σ_i w_i f_i/Σw,   K = Σ_i w_i (f_i − m)(f_i − m)ᵀ,   Σ_i w_i (f_i − m) y_i

are sums over rows. A tile of rows becomes features, on the host or on a device, and is gone when it has been added: memory does not grow
with n, and rows may lie in a file. Sums are about m₀, the mean of the first rows, K = Σ w(f − m₀)(f − m₀)ᵀ − Σw (m − m₀)(m − m₀)ᵀ. The
left-out residuals of `shown` rows alone choose the penalty: 2mp² of work for m rows in place of 2np².
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import eigh

from onestride._backend import HOST, Backend, prefetched
from onestride._backend.threads import cores, together
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
    for part, made in _tiles(moved, Z[shown], p, backend, lambda made, _: backend.put(made, "float64") - (m0 + mean)):
        rows[part] = backend.get(made @ vectors) * np.sqrt(w[shown[part]])[:, None]
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


def _tiles(
    layer: Layer, Z: Any, p: int, backend: Backend, finish: Callable[[Any, slice], Any] = lambda made, rows: made
) -> Iterator[tuple[slice, Any]]:
    """Slices of rows and their features, finished: on the host a tile by threads, else the next rows are read in threads meanwhile."""
    slices = backend.tiles(len(Z), p)
    if backend.on_host:
        for rows in slices:
            yield rows, _made(layer, Z, rows, finish)
        return

    def read(rows: slice) -> tuple[slice, Any]:
        return rows, Z[rows]

    tasks: Iterator[Callable[[], tuple[slice, Any]]] = (partial(read, rows) for rows in slices)
    for rows, some in prefetched(tasks):
        yield rows, finish(layer.design(backend.put(some)), rows)


def _made(layer: Layer, Z: Any, rows: slice, finish: Callable[[Any, slice], Any]) -> Any:
    """A tile of features, each thread with a share of its rows."""
    edges = np.linspace(rows.start, rows.stop, cores() + 1).astype(int).tolist()
    parts = [slice(a, b) for a, b in pairwise(edges) if a < b]
    made = together(lambda part: finish(layer.design(Z[part]), part), parts)
    return made[0] if len(made) == 1 else np.concatenate(made)


def _sums(layer: Layer, Z: Any, Y: Array, w: Array, p: int, backend: Backend) -> tuple[Any, Any, Any, Any]:
    """m₀, Σ w(f − m₀), Σ w(f − m₀)(f − m₀)ᵀ and Σ w(f − m₀)yᵀ over all rows, in double precision on the device."""
    gram, right = backend.zeros(p, p, dtype="float64"), backend.zeros(p, Y.shape[1], dtype="float64")
    shift = backend.zeros(p, dtype="float64")
    m0 = backend.xp.mean(backend.put(layer.design(backend.put(Z[:FIRST_ROWS])), "float64"), axis=0)

    def root(rows: slice) -> Any:
        return backend.put(np.sqrt(w[rows]), "float64")[:, None]

    def centred(made: Any, rows: slice) -> Any:
        features = backend.put(made, "float64")
        features -= m0
        features *= root(rows)
        return features

    for rows, features in _tiles(layer, Z, p, backend, centred):
        shift += (features.T @ root(rows))[:, 0]
        right += features.T @ (root(rows) * backend.put(Y[rows], "float64"))
        backend.add_product(gram, features.T, features)
    return m0, shift, gram, right


def _eigh(gram: Any, backend: Backend) -> tuple[Array, Any]:
    """Eigenvalues on the host, not below 0, and eigenvectors on the device."""
    if backend.on_host:
        values, vectors = eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
    else:
        values, vectors = backend.xp.linalg.eigh(gram)
    return np.maximum(backend.get(values), 0.0), vectors
