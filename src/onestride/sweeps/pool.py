"""A process pool that survives its workers, as a `concurrent.futures.Executor`.

Each worker is a standard `ProcessPoolExecutor` of one process, so that a worker that dies takes nothing but its own task
with it and it is known which task that was. The task is given to a new process; after three deaths its future gets a
`WorkerLost`. Workers ignore Ctrl-C (the driver decides) and end with the driver, even when it is killed.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from onestride._processes import deaf, end_with_parent, quiet_tracker

TRIES = 3


class WorkerLost(RuntimeError):
    """The process that ran a task died again and again."""


class NoWorkers(BrokenExecutor):
    """Worker processes die before they can take a task."""


class SturdyPool(Executor):
    """`workers` processes; `submit` and `shutdown` as for any executor."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._waiting: queue.SimpleQueue[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]] | None]
        self._waiting = queue.SimpleQueue()
        self._closed = threading.Event()
        quiet_tracker()
        self._threads = [threading.Thread(target=self._lane, daemon=True) for _ in range(workers)]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn(*args)` in a worker process."""
        if kwargs:
            raise TypeError("a task takes positional arguments only")
        if self._closed.is_set():
            raise RuntimeError("the pool is shut down")
        future: Future[Any] = Future()
        self._waiting.put((future, fn, args))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let running tasks end; with `cancel_futures` drop those that wait."""
        self._closed.set()
        while cancel_futures:
            try:
                item = self._waiting.get_nowait()
            except queue.Empty:
                break
            if item is not None:
                item[0].cancel()
        for _ in self._threads:
            self._waiting.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _lane(self) -> None:
        """One worker: take a task, run it in the process, start another process if that one dies."""
        process: ProcessPoolExecutor | None = None
        while (item := self._waiting.get()) is not None:
            future, fn, args = item
            if not future.set_running_or_notify_cancel():
                continue
            for _ in range(TRIES):
                try:
                    process = process or _new_process()
                    result = process.submit(fn, *args).result()
                except BrokenProcessPool:
                    if process is not None:
                        process.shutdown()
                    process = None
                except BaseException as error:
                    future.set_exception(error)
                    break
                else:
                    future.set_result(result)
                    break
            else:
                reason = f"its process died {TRIES} times, killed by the system (out of memory?) or by hand"
                future.set_exception(WorkerLost(reason))
        if process is not None:
            process.shutdown()


def _new_process() -> ProcessPoolExecutor:
    """A pool of one process that has shown that it lives."""
    for _ in range(TRIES):
        process = None
        try:
            with deaf():
                process = ProcessPoolExecutor(max_workers=1, mp_context=_context(), initializer=_begin)
                started = process.submit(os.getpid)
            started.result()
            return process
        except (BrokenProcessPool, OSError, EOFError):  # the last two of the server that forks them
            if process is not None:
                process.shutdown()
    raise NoWorkers(
        'worker processes end before they begin: a script must run the sweep under `if __name__ == "__main__":`, as each '
        "worker imports it (elsewhere the system refuses them: out of memory, too many processes)"
    )


def _context() -> Any:
    """Processes that inherit no threads and no open files, with the heavy imports done once where that is possible."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["onestride.sweeps.task"])
    return context


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
