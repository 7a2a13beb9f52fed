"""One BLAS thread for the theory: its matrices are small, and threads that wait for a busy core cost tens of times more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any

_lock = Lock()
_inside = 0  # calls under way, in any Python thread
_limited: Any = None


@lru_cache(maxsize=1)
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread; the first to enter sets the limit and the last to leave lifts it."""
    global _inside, _limited
    with _lock:
        if _inside == 0:
            _limited = _controller().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limited.restore_original_limits()
