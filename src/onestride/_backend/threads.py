"""One BLAS thread, or a few, where matrices are small: threads that wait for a busy core cost tens of times more."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock, local
from typing import Any

_lock = Lock()
_inside = 0  # calls under way, in any Python thread
_found: Any = None
_here = local()


@lru_cache(maxsize=1)
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # pyright: ignore[reportMissingTypeStubs]

    return ThreadpoolController()


@contextmanager
def few_threads(most: int) -> Generator[None]:
    """Limit BLAS to so many threads. Some builds keep that number for each thread of Python, some for the whole process.

    So every thread sets its own limit, and each goes back to the numbers that the first found: those of a thread that
    comes while another is inside may already be the limit. A limit inside another changes nothing.
    """
    global _inside, _found
    if getattr(_here, "limited", False):
        yield
        return
    with _lock:
        now = max(
            (library["num_threads"] for library in _controller().info() if library["user_api"] == "blas"), default=1
        )
        limit = _controller().limit(limits=min(most, now), user_api="blas")
        _found = limit if _inside == 0 else _found
        _inside += 1
    _here.limited = True
    try:
        yield
    finally:
        _here.limited = False
        with _lock:
            _inside -= 1
            _found.restore_original_limits()


@contextmanager
def one_thread() -> Generator[None]:
    """Limit BLAS to one thread."""
    with few_threads(1):
        yield
