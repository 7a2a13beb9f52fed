"""Tiles: rows that enter matrix products in pieces, and elementwise work that stays in cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from onestride._backend.arrays import DeviceArray
from onestride._backend.threads import by_rows, spare

TILE_BYTES = 64 * 2**20  # rows that enter matrix products are processed in tiles of about this size
CACHE_BYTES = 2**20  # elementwise work in tiles that stay in cache
DEVICE_ROWS = 2048
THREAD_NUMBERS = 2**15  # elementwise work that a thread is worth


def tile_rows(row_length: float, *, on_host: bool) -> int:
    """How many rows of `row_length` doubles make a tile of about 64 MiB; on a device at least 2048: products need them."""
    return max(1 if on_host else DEVICE_ROWS, int(TILE_BYTES // (8 * max(row_length, 1))))


def tiles(rows: int, row_length: int, *, on_host: bool) -> Iterator[slice]:
    """Slices that cut `rows` rows into tiles."""
    size = tile_rows(row_length, on_host=on_host)
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def map_tiles(f: Callable[..., DeviceArray], *arrays: DeviceArray, out: DeviceArray | None = None) -> DeviceArray:
    """Apply f to arrays with the same rows, into `out`: on the host in threads and in tiles that stay in cache.

    There f(*tiles, out=tile) writes its result into a tile of `out`; elsewhere f(*tiles) returns it.
    """
    first = arrays[0]
    if not isinstance(first, np.ndarray):
        if out is None:
            return f(*arrays)
        for rows in tiles(*first.shape[-2:], on_host=False):
            out[..., rows, :] = f(*(a[..., rows, :] for a in arrays))
        return out
    result = np.empty_like(first) if out is None else out
    size = max(1, CACHE_BYTES // (8 * max(first.shape[1], 1)))

    def work(share: slice) -> None:
        for i in range(share.start, share.stop, size):
            rows = slice(i, min(i + size, share.stop))
            f(*(a[rows] for a in arrays), out=result[rows])

    if first.shape[0] and spare():
        by_rows(work, first.shape[0], least=-(-THREAD_NUMBERS // max(first.shape[1], 1)), products=False)
    elif first.shape[0]:
        work(slice(0, first.shape[0]))
    return result
