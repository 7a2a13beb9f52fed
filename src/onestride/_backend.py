"""Where arrays and random numbers come from, and how much memory there is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import psutil

from onestride._errors import InputError

Role = Literal[
    "teacher", "weights", "readout", "step_inputs", "step_noise", "ridge_inputs", "ridge_noise", "test_inputs", "probe"
]
_CHILD: dict[Role, int] = {
    "teacher": 0,
    "weights": 1,
    "readout": 2,
    "step_inputs": 3,
    "step_noise": 4,
    "ridge_inputs": 5,
    "ridge_noise": 6,
    "test_inputs": 7,
    "probe": 8,
}

TILE_BYTES = 64 * 2**20  # rows that enter matrix products are processed in tiles of about this size
CACHE_BYTES = 2**20  # elementwise work in tiles that stay in cache


def stream(seed: int, role: Role, part: int = 0) -> np.random.Generator:
    """The random stream of one role of one seed: the same alone, in a batch of 100, or on another machine.

    `part` numbers independent streams of one role, such as the batches of several steps; 0 is the role's own.
    """
    key = (_CHILD[role], part) if part else (_CHILD[role],)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def tiles(rows: int, row_length: int, *, cache: bool = False) -> Iterator[slice]:
    """Slices that cut `rows` rows of `row_length` doubles into pieces of about 64 MiB, or of cache size."""
    size = max(1, (CACHE_BYTES if cache else TILE_BYTES) // (8 * max(row_length, 1)))
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def require_memory(needed: float, what: str) -> None:
    """Refuse, in a sentence, work that does not fit into the memory that is free now."""
    free = psutil.virtual_memory().available
    if needed > 0.9 * free:
        raise InputError(
            f"{what} needs about {needed / 2**30:.3g} GiB of memory and {free / 2**30:.3g} GiB are free; "
            "use smaller sizes or a larger machine"
        )
