"""Random streams: a tree of seeds, roles, parts and row blocks; and threads that draw ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Any, Literal, TypeVar, get_args

import numpy as np

T = TypeVar("T")
Role = Literal[
    "teacher", "weights", "readout", "step_inputs", "step_noise", "ridge_inputs", "ridge_noise", "test_inputs", "probe"
]
_CHILD: dict[Role, int] = {
    role: k for k, role in enumerate(get_args(Role))
}  # their order is part of every stored number
MOST_AHEAD = 16  # blocks drawn in advance: more would only fill memory
BLOCK_NUMBERS = 2**24  # random numbers drawn from one stream; larger arrays take several streams, drawn in parallel


def stream(seed: int, role: Role, part: int = 0, block: int = 0) -> np.random.Generator:
    """The random stream of one role of one seed: the same alone, in a batch of 100, or on another machine.

    `part` numbers independent streams of one role, such as the batches of several steps; `block` the row blocks of an
    array that is drawn in parallel. 0 and 0 is the role's own.
    """
    key = (_CHILD[role], part, block) if block else (_CHILD[role], part) if part else (_CHILD[role],)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def row_blocks(rows: int, row_length: int) -> list[slice]:
    """The row blocks of a random array: as many whole rows as 2²⁴ numbers hold, each block with its own stream."""
    size = max(1, BLOCK_NUMBERS // max(row_length, 1))
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]


def prefetched(tasks: Iterable[Callable[[], T]], workers: int | None = None, ahead: int | None = None) -> Iterator[T]:
    """The results of the tasks in order; the next ones, as many as there are threads unless given, are computed while one is used.

    Nothing waits for the threads at the end: they go when the pool does. Whoever leaves this half-way may leave it to the garbage collector,
    in any thread and at any point, also where that thread has the very locks that waiting needs.
    """
    workers = workers or min(threads(), MOST_AHEAD)
    pool, waiting = ThreadPoolExecutor(workers), list[Future[T]]()
    for task in tasks:
        waiting.append(pool.submit(task))
        if len(waiting) > (ahead or workers):
            yield waiting.pop(0).result()
    del pool
    while waiting:
        yield waiting.pop(0).result()


@lru_cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def threads() -> int:
    """How many threads elementwise work may use: as many as the linear algebra does, so workers of a pool do not fight."""
    return max((library.num_threads for library in _blas().lib_controllers), default=1)
