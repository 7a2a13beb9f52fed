"""One BLAS thread, or a few, where matrices are small: threads that wait for a busy core cost tens of times more."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import lru_cache, partial
from threading import Lock, local
from typing import Any, TypeVar

A = TypeVar("A")
B = TypeVar("B")

_lock = Lock()
_inside = 0  # calls under way, in any Python thread
_found: Any = None
_here = local()


@lru_cache(maxsize=1)
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # pyright: ignore[reportMissingTypeStubs]

    return ThreadpoolController()


def _blas_threads() -> int:
    return max((library["num_threads"] for library in _controller().info() if library["user_api"] == "blas"), default=1)


def cores() -> int:
    """How many threads the work in hand may use: as many as BLAS did before it was limited here."""
    return _here.cores if getattr(_here, "limited", False) else _blas_threads()


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
        now = _here.cores = _blas_threads()
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


def together(work: Callable[[A], B], items: Iterable[A]) -> list[B]:
    """[work(item) …] side by side in threads, with one BLAS thread each; what they may use is shared among them.

    NumPy lets them run so, LAPACK and BLAS as SciPy calls them do not. Each is in the context of the caller, as to NumPy's warnings.
    """
    tasks: list[Callable[[], B]] = [partial(copy_context().run, partial(work, item)) for item in items]
    available = cores()
    workers = min(available, len(tasks))
    if workers < 2:
        return [task() for task in tasks]
    limit = _controller().limit(limits=1, user_api="blas")
    try:
        with ThreadPoolExecutor(workers, initializer=_begin, initargs=(available // workers,)) as pool:
            return [done.result() for done in [pool.submit(task) for task in tasks]]
    finally:
        limit.restore_original_limits()


def _begin(share: int) -> None:
    """A thread of `together`: it ends with its pool, and so does its limit where BLAS keeps one for every thread."""
    _here.limited, _here.cores = True, share
    _controller().limit(limits=1, user_api="blas")
