"""A few leading eigenpairs of BᵀB, or its spectral density, from products with B alone.

A full decomposition costs about 9m³ operations on top of the Gram matrix; these need a few dozen passes over B.
"""

from __future__ import annotations

import numpy as np

from onestride._backend import DeviceArray
from onestride._numerics import Array, Float
from onestride.simulation.rows import Rows

SPARE = 4  # extra columns of the block: they let the wanted ones converge
MAX_BLOCKS = 100
CHECK_EVERY = 4
PROBES, STEPS = 8, 80  # of the quadrature


def leading_eigenpairs(rows: Rows, count: int, *, tolerance: float = 1e-9) -> tuple[Array, DeviceArray]:
    """The `count` largest eigenvalues of BᵀB, decreasing, and their unit eigenvectors as columns, on the device.

    Block Lanczos with full orthogonalisation, until |Kv − θv| ≤ tolerance·θ for each pair; the start is fixed, so a
    repeated run gives the same digits.
    """
    backend, xp, m = rows.backend, rows.backend.xp, rows.width
    width = min(count + SPARE, m)
    most = min(MAX_BLOCKS, m // width) * width
    basis, image = backend.empty(m, most), backend.empty(m, most)
    block, _ = xp.linalg.qr(backend.put(np.random.default_rng(0).standard_normal((m, width))))
    for end in range(width, most + 1, width):
        basis[:, end - width : end] = block
        product, _ = rows.gram_apply(block)
        image[:, end - width : end] = product
        V, KV = basis[:, :end], image[:, :end]
        if end // width % CHECK_EVERY == 0 or end == most:
            small = backend.get(V.T @ KV)
            theta, Y = np.linalg.eigh((small + small.T) / 2)
            values, chosen = theta[::-1][:count], backend.put(Y[:, ::-1][:, :count].copy())
            vectors = V @ chosen
            residual = KV @ chosen - vectors * backend.put(values.copy())
            if np.all(backend.get(xp.sqrt(xp.sum(residual * residual, axis=0))) <= tolerance * values):
                return values, vectors
        for _ in range(2):  # twice is enough
            product = product - V @ (V.T @ product)
            product, _ = xp.linalg.qr(product)
        block = product
    return _dense(rows, count)


def _dense(rows: Rows, count: int) -> tuple[Array, DeviceArray]:
    """The same from the whole matrix: for one too small to iterate on, or eigenvalues too close together."""
    B, xp = rows.whole(), rows.backend.xp
    values, vectors = xp.linalg.eigh(B.T @ B)
    return rows.backend.get(values)[::-1][:count].copy(), xp.flip(vectors, axis=1)[:, :count]


def lanczos_quadrature(
    rows: Rows, generator: np.random.Generator, *, probes: int = PROBES, steps: int = STEPS
) -> Float[Array, "2 nodes"]:
    """Nodes and weights (2 × probes·steps) with Σ w f(θ) ≈ (1/m) tr f(BᵀB): stochastic Lanczos quadrature.

    Each probe is a random unit vector; its Lanczos matrix of `steps` steps gives nodes θ (eigenvalues) and weights (squared
    first components). Polynomials of degree < 2·steps are integrated exactly against each probe's spectral measure, whose
    spread around the mean falls as 1/√(m·probes).
    """
    backend, xp, m = rows.backend, rows.backend.xp, rows.width
    steps = min(steps, m)
    v = backend.put(generator.standard_normal((m, probes)))
    v = v / xp.sqrt(xp.sum(v * v, axis=0))
    basis, diagonal, off = [v], np.empty((steps, probes)), np.empty((steps, probes))
    for k in range(steps):
        w, _ = rows.gram_apply(basis[-1])
        diagonal[k] = backend.get(xp.sum(basis[-1] * w, axis=0))
        for _ in range(2):
            for u in basis:
                w = w - u * xp.sum(u * w, axis=0)
        size = xp.sqrt(xp.sum(w * w, axis=0))
        off[k] = backend.get(size)
        if k + 1 < steps:
            basis.append(w / xp.where(size == 0, xp.ones_like(size), size))
    nodes: list[Array] = []
    for p in range(probes):
        T = np.diag(diagonal[:, p]) + np.diag(off[:-1, p], 1) + np.diag(off[:-1, p], -1)
        theta, Y = np.linalg.eigh(T)
        nodes.append(np.stack([theta, Y[0] ** 2 / probes]))
    return np.concatenate(nodes, axis=1)
