"""One BLAS thread, or a few, where matrices are small: threads that wait for a busy core cost tens of times more."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache, lru_cache, partial
from threading import Lock, local
from typing import Any, TypeVar

A = TypeVar("A")
B = TypeVar("B")

_lock = Lock()
_inside = 0  # calls under way, in any Python thread
_found: Any = None
_here = local()
_busy = 0  # threads that work for `together`


@lru_cache(maxsize=1)
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # pyright: ignore[reportMissingTypeStubs]

    return ThreadpoolController()


def _blas_threads() -> int:
    return max((library["num_threads"] for library in _controller().info() if library["user_api"] == "blas"), default=1)


def cores() -> int:
    """How many threads the work in hand may use: as many as BLAS did before it was limited here."""
    return _here.cores if getattr(_here, "limited", False) else _blas_threads()


def spare() -> int:
    """How many threads could help here: of those of `together`, once inside it, the idle ones."""
    return max(0, cores() - _busy) if getattr(_here, "helping", False) else cores() - 1


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


def together(work: Callable[[A], B], items: Iterable[A], *, products: bool = True) -> list[B]:
    """[work(item) …] side by side in threads, with one BLAS thread each.

    NumPy lets them run so, LAPACK and BLAS as SciPy calls them do not. Each is in the context of the caller, as to NumPy's warnings. The
    caller works too and waits for nothing that has not begun, so that threads, which stay for the next call, may call this in turn; there are
    never more of them than `cores`, and who calls where all are busy works alone. Work without `products` of matrices leaves BLAS, which other
    threads may be using, as it is.
    """
    tasks: list[Callable[[], B]] = [partial(copy_context().run, partial(work, item)) for item in items]
    available = cores()
    workers = min(available, len(tasks), 1 + spare())
    if workers < 2:
        return [task() for task in tasks]
    limit = _controller().limit(limits=1, user_api="blas") if products else None
    waiting, results = deque(enumerate(tasks)), dict[int, B]()
    help_out = partial(_drain, waiting, results, available, products)
    helpers = [_helpers(available).submit(help_out) for _ in range(workers - 1)]
    try:
        _drain(waiting, results, available)
        for helper in helpers:
            if not helper.cancel():
                helper.result()
    finally:
        waiting.clear()
        wait([helper for helper in helpers if not helper.cancel()])
        if limit is not None:
            limit.restore_original_limits()
    return [results[k] for k in range(len(tasks))]


@cache
def _helpers(available: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(available - 1, thread_name_prefix="onestride")


if hasattr(os, "register_at_fork"):  # threads do not live on in the child
    os.register_at_fork(after_in_child=_helpers.cache_clear)


def _drain(
    waiting: deque[tuple[int, Callable[[], B]]], results: dict[int, B], available: int, limited: bool = False
) -> None:
    """Do what waits, until nothing does or something fails; `limited` where BLAS may keep a limit for every thread."""
    before = vars(_here).copy()
    _here.limited, _here.cores, _here.helping = True, available, True
    _count(0 if before.get("helping") else 1)
    if limited:
        _controller().limit(limits=1, user_api="blas")
    try:
        while waiting:
            try:
                k, task = waiting.popleft()
            except IndexError:  # another thread was quicker
                break
            results[k] = task()
    except BaseException:
        waiting.clear()
        raise
    finally:
        vars(_here).clear()
        vars(_here).update(before)
        _count(0 if before.get("helping") else -1)


def _count(change: int) -> None:
    global _busy
    with _lock:
        _busy += change


def by_rows(
    work: Callable[[slice], B], n: int, least: int = 1, most: int | None = None, *, products: bool = True
) -> list[B]:
    """[work(rows) …] as `together` does for slices of n rows: as many as there are cores, of `least` to `most` rows."""
    size = min(most or n, max(least, -(-n // cores())))
    return together(work, [slice(start, min(start + size, n)) for start in range(0, n, size)], products=products)
