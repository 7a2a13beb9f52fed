"""Random arrays drawn block by block, ahead of their use, by threads of the host or by a device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

import numpy as np

from onestride._backend.devices import Backend
from onestride._backend.normals import device_normals, draws_itself
from onestride._backend.streams import Role, prefetched, row_blocks, stream

T = TypeVar("T")
AHEAD = 4  # blocks that a device draws in advance


def drawn_ahead(tasks: Iterable[Callable[[], T]], backend: Backend, *, there: bool) -> Iterator[T]:
    """What the tasks draw, the next blocks while one is used: by threads of the host, or by the device beside its other work."""
    if not there:
        yield from prefetched(tasks)
        return

    def beside(task: Callable[[], T]) -> T:
        with backend.beside("draws"):
            return task()

    for drawn in prefetched((partial(beside, task) for task in tasks), 1, AHEAD):
        backend.hold(getattr(drawn, "X", drawn))  # of samples the inputs
        yield drawn


def draw_normals(generator: np.random.Generator, rows: int, length: int, backend: Backend, *, there: bool) -> Any:
    """Normal numbers made on the device, or on the host where it likes them."""
    found = device_normals(generator, rows, length, backend) if there else None
    if found is None:
        found = backend.host_empty(rows, length)
        generator.standard_normal(out=found)
    return found


def normal_rows(seed: int, role: Role, rows: int, length: int, backend: Backend) -> Callable[[int], Any]:
    """A function that gives the next so many of `rows` rows of normal numbers, on the backend, drawn block by block."""
    rest: Any
    there, blocks, rest = draws_itself(backend, rows * length), row_blocks(rows, length), backend.empty(0, length)

    def draw(k: int) -> Any:
        return draw_normals(stream(seed, role, block=k), blocks[k].stop - blocks[k].start, length, backend, there=there)

    drawn = drawn_ahead([partial(draw, k) for k in range(len(blocks))], backend, there=there)

    def take(count: int) -> Any:  # no function that calls itself, which is a cycle: what it holds must go when it does
        nonlocal rest
        parts: list[Any] = []
        while count > rest.shape[0]:
            parts += [rest] if rest.shape[0] else []
            count, rest = count - rest.shape[0], backend.put(next(drawn))
        parts, rest = [*parts, rest[:count, :]], rest[count:, :]
        return backend.xp.concat(parts, axis=0) if len(parts) > 1 else parts[0]

    return take
