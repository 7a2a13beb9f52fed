"""The one regression at full size: tiles of rows, one Gram matrix, leave-one-out on some of the rows.

    m = Σ_i w_i f_i/Σw,   K = Σ_i w_i (f_i − m)(f_i − m)ᵀ,   Σ_i w_i (f_i − m) y_i

are sums over rows. A tile of rows becomes features, on the host or on a device, and is gone when it has been added: memory does not grow
with n, and rows may lie in a file. Sums are about m₀, the mean of the first rows, K = Σ w(f − m₀)(f − m₀)ᵀ − Σw (m − m₀)(m − m₀)ᵀ. The
left-out residuals of `shown` rows alone choose the penalty: 2mp² of work for m rows in place of 2np². On the host threads make the features of some
rows each, then blocks of K, with one BLAS thread: products, exponentials and copies then take all cores alike. Only the eigendecomposition is left
to the threads of BLAS, which wait busily when they have done something, in the way of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.blas import dgemm, dger, dsyrk  # pyright: ignore[reportAttributeAccessIssue]

from onestride._backend import HOST, Backend, on_host, prefetched
from onestride._backend.threads import by_rows, cores, together
from onestride._numerics import Array
from onestride.estimator._layer import Layer
from onestride.estimator._ridge import Decomposition, Readout, decompose

FIRST_ROWS = 256  # whose mean is m₀
LEFT_OUT_ROWS = 4000  # whose left-out residuals choose the penalty
PART_ROWS = 256  # of a tile that a thread takes at a time


def regression(
    layer: Layer, Z: Any, Y: Array, w: Array, shown: Array | None = None, backend: Backend = HOST
) -> Decomposition:
    """The ridge regression on the layer's features; streamed where rows are many, Z then anything that gives rows by index.

    With `shown`, rising, left-out residuals are those of these rows.
    """
    p = layer.width + Z.shape[1] * layer.skip
    if shown is None or len(Z) < p:
        return decompose(layer.design(Z[:]), Y, w)
    moved, total = layer.placed(backend.put), float(w.sum())
    target_mean = w @ Y / total
    m0, shift, gram, right, rows = _sums(moved, Z, Y - target_mean, w, shown, p, backend)
    mean = shift / total
    eigenvalues, vectors = _eigh(gram, mean, total, backend)
    turned, root = mean @ vectors, np.sqrt(w[shown])
    if backend.on_host:  # by the BLAS whose threads the eigendecomposition has left waiting
        rows = dger(-1.0, turned, root, a=dgemm(1.0, vectors, rows.T, trans_a=True), overwrite_a=True).T
    else:
        for some in backend.tiles(len(shown), p):
            part, roots = (backend.put(one, "float64") for one in (rows[some], root[some]))
            rows[some] = backend.get(part @ vectors - roots[:, None] * turned)
    host = [backend.get(a) for a in (m0 + mean, vectors, vectors.T @ right)]
    return Decomposition(
        host[0], target_mean, w[shown], rows, Y[shown] - target_mean, eigenvalues, host[1], host[2], True, total
    )


def tiled_outputs(layer: Layer, Z: Any, readout: Readout, backend: Backend = HOST) -> Array:
    """f(z), n × outputs, in the precision of Z, tile by tile."""
    if backend.on_host and len(Z) * layer.width < 2**20:
        return layer.outputs(Z[:], readout)
    moved = layer.placed(backend.put)
    c, c0 = (backend.put(part) for part in readout)
    out = np.empty((len(Z), len(readout.intercept)), Z.dtype)
    for rows, some in _tiles(Z, layer.width + Z.shape[1], backend):
        if on_host(some):
            out[rows] = np.concatenate(by_rows(partial(_outputs, moved, some, c, c0), len(some), most=PART_ROWS))
        else:
            out[rows] = backend.get(backend.put(moved.design(some)) @ c + c0)
    return out


def _outputs(layer: Layer, Z: Array, c: Array, c0: Array, rows: slice) -> Array:
    return layer.design(Z[rows]) @ c + c0


def _tiles(Z: Any, p: int, backend: Backend) -> Iterator[tuple[slice, Any]]:
    """Slices of rows and what they hold, on the device; the next rows are read in threads meanwhile."""

    def read(rows: slice) -> tuple[slice, Any]:
        return rows, Z[rows]

    tasks: Iterator[Callable[[], tuple[slice, Any]]] = (partial(read, rows) for rows in backend.tiles(len(Z), p))
    for rows, some in prefetched(tasks):
        yield rows, backend.put(some)


def _sums(
    layer: Layer, Z: Any, Y: Array, w: Array, shown: Array, p: int, backend: Backend
) -> tuple[Any, Any, Any, Any, Array]:
    """m₀, Σ w(f − m₀), Σ w(f − m₀)(f − m₀)ᵀ and Σ w(f − m₀)yᵀ over all rows, in double precision on the device; √w(f − m₀) of `shown` rows.

    Of the symmetric one the host has the lower half alone.
    """
    gram, right = backend.zeros(p, p, dtype="float64").T, backend.zeros(p, 1 + Y.shape[1], dtype="float64")
    m0 = backend.xp.mean(backend.put(_design(layer, backend.put(Z[:FIRST_ROWS])), "float64"), axis=0)
    kept, room = np.empty((len(shown), p)), np.empty((0, p))
    for rows, some in _tiles(Z, p, backend):
        among = shown - rows.start
        where = slice(*np.searchsorted(among, (0, some.shape[0])).tolist())
        root = np.sqrt(w[rows])[:, None]
        aims = backend.put(np.hstack([root, root * Y[rows]]), "float64")
        if on_host(some):
            room = room if len(room) >= len(some) else np.empty((len(some), p))
            features = room[: len(some)]
            work = partial(_centred, layer, some, m0, aims, features, among[where], kept[where])
            right += sum(by_rows(work, len(some), most=PART_ROWS))
            _add_gram(gram, features)
        else:
            features = backend.put(layer.design(some), "float64")
            features -= m0
            features *= aims[:, :1]
            right += features.T @ aims
            kept[where] = backend.get(backend.xp.take(features, backend.put(among[where], "int64"), axis=0))
            backend.add_product(gram, features.T, features)
    return m0, right[:, 0], gram, right[:, 1:], kept


def _design(layer: Layer, Z: Any) -> Any:
    """The features, on the host by threads."""
    return np.concatenate(by_rows(lambda rows: layer.design(Z[rows]), len(Z))) if on_host(Z) else layer.design(Z)


def _centred(
    layer: Layer, Z: Array, mean: Array, aims: Array, out: Array, wanted: Array, kept: Array, rows: slice
) -> Array:
    """√w(f − mean) of some rows into `out`, of those `wanted` also into `kept`; products with `aims`, whose first column is √w."""
    features = out[rows]
    np.multiply(layer.design(Z[rows]) - mean, aims[rows, :1], out=features)
    where = slice(*np.searchsorted(wanted, (rows.start, rows.stop)).tolist())
    kept[where] = features[wanted[where] - rows.start]
    return features.T @ aims[rows]


def _add_gram(gram: Array, rows: Array) -> None:
    """Add Σ f fᵀ, its lower half, block by block."""
    count, p = 1, len(gram)
    while count * (count + 1) < 6 * cores():  # a few blocks for each thread, so that all end at about the same time
        count += 1
    blocks = [slice(p * k // count, p * (k + 1) // count) for k in range(count)]

    def add(pair: tuple[slice, slice]) -> None:
        gram[pair] += rows[:, pair[0]].T @ rows[:, pair[1]]

    together(add, [(i, j) for k, j in enumerate(blocks) for i in blocks[k:]])


def _eigh(gram: Any, mean: Any, total: float, backend: Backend) -> tuple[Array, Any]:
    """Of Σ w(f − m₀)(f − m₀)ᵀ − Σw·mean·meanᵀ: eigenvalues on the host, not below 0, and eigenvectors on the device."""
    if backend.on_host:
        gram = dsyrk(-total, mean[:, None], 1.0, gram, lower=True, overwrite_c=True)
        values, vectors = eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
    else:
        values, vectors = backend.xp.linalg.eigh(gram - total * mean[:, None] * mean)
    return np.maximum(backend.get(values), 0.0), vectors
