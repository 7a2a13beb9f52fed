"""A symmetric matrix on a device as its lower block triangle: block columns from the diagonal down, half the memory of the whole.

Of a stack of them, one of each seed, the axes of the matrix are the last two. Everything is made of matrix products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from onestride._backend import Backend, DeviceArray
from onestride._numerics import Array, Float, Int

DEVICE_BLOCK = 2048
STACK_BLOCK = 128  # at least, of a stack, whose products are many already

# (K + s)⁻¹ of columns, of which the second argument says the shift of each
Solver = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Panels:
    """Block columns `columns` of the rows from `parts[k].start` on; of an array that exists, views of it."""

    parts: Sequence[slice]
    columns: Sequence[DeviceArray]

    @classmethod
    def of(cls, K: DeviceArray | Panels) -> Panels:
        """The lower block triangle of a whole matrix, in the same memory."""
        if isinstance(K, Panels):
            return K
        parts = _blocks(K.shape[-1], _block(K.shape[-1], K.shape[:-2]))
        return cls(parts, [K[..., k.start :, k] for k in parts])

    @classmethod
    def zeros(cls, stack: tuple[int, ...], width: int, backend: Backend, dtype: str) -> Panels:
        """0, in memory of its own."""
        parts = _blocks(width, _block(width, stack))
        return cls(parts, [backend.zeros(*stack, width - k.start, k.stop - k.start, dtype=dtype) for k in parts])

    @property
    def width(self) -> int:
        """Of the whole matrix."""
        return self.parts[-1].stop

    def norm(self, backend: Backend) -> float:
        """Between the Frobenius norm and √2 times it; of a stack the largest."""
        sums = [backend.xp.sum(column * column, axis=(-2, -1)) for column in self.columns]
        return float(np.sqrt(2 * backend.get(sum(sums[1:], start=sums[0])).max()))

    def cholesky(self, shifts: Float[Array, "shifts"], backend: Backend, *, overwrite: bool) -> Solver:
        """Factorise K + s for all shifts, and all K of a stack, at once; apply (K + s)⁻¹ to columns of all shifts in turn.

        K + s = LLᵀ, block by block:  L_kk = chol(K_kk + s),  L_ik = K_ik L_kk⁻ᵀ,  K_ij −= L_ik L_jkᵀ.
        Diagonal blocks of the result hold L_kk⁻¹, so that solving is made of products too.
        """
        xp, m, turned, p = backend.xp, self.width, backend.xp.matrix_transpose, shifts.size
        stack, kind = prod(self.columns[0].shape[:-2]), _name(self.columns[0].dtype)
        L = [_for_each(column, p, stack, backend, overwrite) for column in self.columns]
        s = backend.put(np.tile(np.asarray(shifts, float), stack), kind)[:, None, None]
        failures: list[DeviceArray] = []
        unit = None
        for index, (k, column) in enumerate(zip(self.parts, L, strict=True)):
            size = k.stop - k.start
            identity = backend.eye(size, kind)
            factor, failed = backend.cholesky(column[:, :size, :] + s * identity)
            failures.append(failed)
            inverse = backend.solve_triangular(factor, identity)
            column[:, :size, :] = inverse
            if k.stop < m:
                panel = column[:, size:, :] @ turned(inverse)
                column[:, size:, :] = panel
                panel, unit = backend.factor(panel, kind, unit)
                for j, right in zip(self.parts[index + 1 :], L[index + 1 :], strict=True):
                    below, block = slice(j.start - k.stop, None), slice(j.start - k.stop, j.stop - k.stop)
                    backend.add_product(right, panel[:, below, :], turned(panel[:, block, :]), -unit * unit)
        if not all(float(xp.max(failed)) == 0 for failed in failures):
            raise np.linalg.LinAlgError("not positive definite")

        def solve(R: DeviceArray, which: Int[Array, "columns"]) -> DeviceArray:
            assert which.size % p == 0
            apart = xp.reshape(R, (stack, m, -1, p))
            X = backend.copy(xp.reshape(xp.permute_dims(apart, (0, 3, 1, 2)), (stack * p, m, -1)))
            for k, column in zip(self.parts, L, strict=True):  # L⁻¹
                size = k.stop - k.start
                X[:, k, :] = column[:, :size, :] @ X[:, k, :]
                if k.stop < m:
                    backend.add_product(X[:, k.stop :, :], column[:, size:, :], X[:, k, :], -1.0)
            for k, column in zip(reversed(self.parts), reversed(L), strict=True):  # L⁻ᵀ
                size = k.stop - k.start
                rest = X[:, k, :] - turned(column[:, size:, :]) @ X[:, k.stop :, :]
                X[:, k, :] = turned(column[:, :size, :]) @ rest
            return xp.reshape(xp.permute_dims(xp.reshape(X, (stack, p, m, -1)), (0, 2, 3, 1)), R.shape)

        return solve


def _for_each(column: DeviceArray, shifts: int, stack: int, backend: Backend, overwrite: bool) -> DeviceArray:
    """A copy of a block column for every shift; itself if there is one shift and nobody needs it any more."""
    xp, (rows, width) = backend.xp, column.shape[-2:]
    if overwrite and shifts == 1:
        return xp.reshape(column, (stack, rows, width)) if column.ndim == 3 else column[None, ...]
    out = backend.empty(stack, shifts, rows, width, dtype=_name(column.dtype))
    out[...] = xp.reshape(column, (stack, 1, rows, width))
    return xp.reshape(out, (stack * shifts, rows, width))


def _block(width: int, stack: Sequence[int]) -> int:
    return max(STACK_BLOCK, width // 8) if prod(stack) > 1 else DEVICE_BLOCK


def _blocks(size: int, block: int) -> list[slice]:
    return [slice(i, min(i + block, size)) for i in range(0, size, block)]


def _name(dtype: object) -> str:
    return str(dtype).rpartition(".")[2]
