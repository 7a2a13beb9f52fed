"""Room on the host for an array that a device cannot keep: reserved beside the device's work, as that takes longer than the copy."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from onestride._backend.devices import Backend
from onestride._backend.streams import row_blocks


class Resting:
    """An array of a device set aside on the host, by row blocks."""

    def __init__(self, rows: int, length: int, backend: Backend) -> None:
        self._shape, self._backend, self._blocks = (rows, length), backend, row_blocks(rows, length)
        pool = ThreadPoolExecutor(1)
        self._room = [pool.submit(backend.host_empty, block.stop - block.start, length) for block in self._blocks]
        pool.shutdown(wait=False)

    def __iter__(self) -> Iterator[tuple[slice, Any]]:
        """Row blocks and what they hold, on the host."""
        return ((block, room.result()) for block, room in zip(self._blocks, self._room, strict=True))

    def lay_down(self, array: Any) -> Resting:
        """With the array in it."""
        for block, room in self:
            self._backend.fetch(array[block, :], room)
        return self

    def taken_up(self) -> Any:
        """On the device again."""
        out = self._backend.empty(*self._shape)
        for block, room in self:
            out[block, :] = self._backend.put(room)
        return out
