"""A tall matrix that is read row by row: its products, and its Gram matrix.

On a device there may be a stack of them, one of each seed; the axes of the matrix are then the last two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from onestride._backend import HOST, Backend, DeviceArray, on_host
from onestride._backend.lapack import add_gram, apply_gram
from onestride._numerics import Array
from onestride.simulation.panels import Panels

# rows of B that are used twice for one reading: in the cache of one core where columns leave room there, else in the one that cores share
NEAR_BYTES, SHARED_BYTES, OWN_CACHE = 2**18, 2**22, 2**20


@dataclass(frozen=True)
class Rows:
    """A tall matrix B (length × width), stored or made anew, tile by tile, each time it is read."""

    length: int
    width: int
    tile: Callable[[slice], DeviceArray]
    backend: Backend = HOST
    stack: tuple[int, ...] = ()

    @classmethod
    def stored(cls, B: DeviceArray, backend: Backend = HOST) -> Rows:
        """The rows of an array."""
        *stack, length, width = B.shape
        return cls(length, width, lambda rows: B[..., rows, :], backend, tuple(stack))

    @classmethod
    def longer(cls, F: DeviceArray, backend: Backend = HOST) -> Rows:
        """The rows of F, or of Fᵀ when n ≤ N: the longer axis first."""
        return cls.stored(F.T if F.shape[0] <= F.shape[1] else F, backend)

    def __iter__(self) -> Iterator[tuple[slice, Any]]:
        for rows in self.backend.tiles(self.length, self.width):
            yield rows, self.tile(rows)

    def __matmul__(self, V: DeviceArray) -> DeviceArray:
        out = self.backend.empty(*self.stack, self.length, V.shape[-1])
        for rows, tile in self:
            out[..., rows, :] = tile @ V
        return out

    def whole(self) -> DeviceArray:
        """B itself."""
        return self.backend.xp.concat([tile for _, tile in self], axis=0)

    def gram_apply(self, V: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
        """BᵀBV and BV in one pass."""
        empty, zeros, turned = self.backend.empty, self.backend.zeros, self.backend.xp.matrix_transpose
        image, out = (
            make(*self.stack, size, V.shape[-1]) for make, size in ((empty, self.length), (zeros, self.width))
        )
        near_by = 16 * self.width * V.shape[-1] + NEAR_BYTES <= OWN_CACHE
        size = max(1, (NEAR_BYTES if near_by else SHARED_BYTES) // (8 * self.width))
        for rows, tile in self:
            if on_host(V) and tile.flags.c_contiguous and tile.dtype == np.float64:
                applied, part = apply_gram(tile, V, size)
            else:
                part = tile @ V
                applied = turned(tile) @ part
            image[..., rows, :] = part
            out += applied
        return out, image

    def gram(self, dtype: str) -> DeviceArray:
        """BᵀB in `dtype`: its upper triangle by columns on the host, its lower block triangle on a device; else zeros."""
        if self.backend.on_host:
            return self._host_gram(dtype)
        K = self.backend.zeros(*self.stack, self.width, self.width, dtype=dtype)
        self._add_gram(Panels.of(K), dtype)
        return K

    def panels(self, dtype: str) -> Panels:
        """BᵀB in `dtype`, of which a device stores the lower block triangle only."""
        K = Panels.zeros(self.stack, self.width, self.backend, dtype)
        self._add_gram(K, dtype)
        return K

    def _add_gram(self, K: Panels, dtype: str) -> None:
        turned, unit = self.backend.xp.matrix_transpose, None
        for _, tile in self:
            T, unit = self.backend.factor(tile, dtype, unit)
            for j, column in zip(K.parts, K.columns, strict=True):
                self.backend.add_product(column, turned(T[..., j.start :]), T[..., j], unit * unit)

    def _host_gram(self, dtype: str) -> Array:
        """By SciPy's BLAS, as everything here: NumPy's is another library, whose threads would wait beside ours."""
        gram: Array = np.zeros((self.width, self.width), dtype, order="F")
        for _, tile in self:
            with np.errstate(over="ignore", invalid="ignore"):  # the norm of K will tell
                T = np.ascontiguousarray(tile, dtype)
            add_gram(T, gram)
        return gram
