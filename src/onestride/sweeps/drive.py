"""`sweep`: compute what a store does not know yet, on any executor, and yield rows as they finish."""

from __future__ import annotations

import os
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from multiprocessing import current_process
from pathlib import Path
from typing import Any

import psutil

from onestride._backend import require_device
from onestride._progress import shown
from onestride.functions import InputError
from onestride.simulation.cost import Plan
from onestride.store import Record, Store
from onestride.sweeps.cells import Group, Part
from onestride.sweeps.ledger import Job, Ledger, Progress
from onestride.sweeps.pool import NoWorkers, SturdyPool
from onestride.sweeps.rows import Row
from onestride.sweeps.running import Running
from onestride.sweeps.spec import Sweep, read_sweep, require_known_to_workers
from onestride.sweeps.task import Task, failures_of, perform

REFRESH_SECONDS = 1.0  # how often to look for what other drivers have written
MAX_SEEDS = 100
AHEAD = 3  # tasks handed to the executor for each worker, so that none waits for the next


def sweep(
    source: str | Path | dict[str, Any] | Sweep,
    store: str | Path | Store,
    *,
    workers: int | None = None,
    threads: int | None = None,
    executor: Executor | None = None,
    device: str | None = None,
    target_stderr: float | None = None,
    max_seeds: int = MAX_SEEDS,
    retry_failed: bool = False,
    progress: Callable[[Progress], None] | bool | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Running:
    """Run a sweep and yield each cell as a `Row` when its seeds and its theory are there; known cells come first.

    Everything computed is in the store before it is yielded. Run it again to resume: what the store knows is not computed.

    Parameters
    ----------
    source
        A TOML file, a dictionary of the same shape, or a `Sweep`.
    store
        The folder of results; made when it does not exist.
    workers, threads
        Worker processes (one per core that memory allows), and BLAS threads in each (the cores divided among them).
    executor
        Any `concurrent.futures.Executor` in place of the pool; `workers` then says how many tasks it runs at once.
    device
        Where the workers simulate, as in `simulate`; on a GPU there is one worker unless `workers` says otherwise.
    target_stderr
        Add seeds to a group until the standard error of every cell's test error is at most this, by a confidence
        sequence (see `sweeps.statistics`), and its labels' tails are not too heavy for so many (`Row.tails`), up to `max_seeds`.
    retry_failed
        Compute again what failed in an earlier run; otherwise it stays failed.
    progress
        Called with a `Progress` after each task; by default a bar in a terminal, a line in a notebook; False is silence.
    stop
        Asked between tasks; once it says True nothing new is started and what runs is finished and stored.

    >>> import tempfile
    >>> from concurrent.futures import ThreadPoolExecutor  # or none of it: worker processes, under `if __name__ == "__main__":`
    >>> sweep = {"problem": {"n": 40, "d": 20, "N": 30, "seeds": 2}, "axes": {"ridge": [0.1, 1.0]}, "method": "none"}
    >>> with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as threads:
    ...     rows = one.sweep(sweep, folder, executor=threads).finish().rows
    >>> [row.problem.ridge for row in rows]
    [0.1, 1.0]
    """
    if getattr(current_process(), "_inheriting", False):
        sys.exit(1)  # a worker that imports an unguarded script; the driver says what to do
    described = source if isinstance(source, Sweep) else read_sweep(source)
    _require_numbers(target_stderr, {"workers": workers, "threads": threads, "max_seeds": max_seeds})
    if executor is None:
        require_known_to_workers(described)
        if device is not None:
            require_device(device)
    opened = store if isinstance(store, Store) else Store(store, create=True)
    ledger = Ledger(described, opened, target=target_stderr, max_seeds=max_seeds, retry_failed=retry_failed)
    rows = _told(progress, lambda report: _Driver(ledger, executor, workers, threads, device, report, stop).rows())
    return Running(described.name, len(described.points), rows)


def _require_numbers(target_stderr: float | None, counts: dict[str, int | None]) -> None:
    if target_stderr is not None and not target_stderr > 0:
        raise InputError(f"target_stderr must be a number above 0, got {target_stderr!r}")
    for name, number in counts.items():
        if number is not None and number < 1:
            raise InputError(f"{name} must be a whole number, 1 or more, got {number!r}")


def _told(
    progress: Callable[[Progress], None] | bool | None, rows: Callable[[Any], Iterator[Row]]
) -> Generator[Row, None, None]:
    """The rows of a sweep whose progress is shown here, unless it is told to somebody."""
    if callable(progress):
        yield from rows(progress)
        return
    with shown(progress, "sweep") as tell:
        yield from rows(lambda at: tell(at.done, at.total))


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_workers(groups: Iterable[Group], device: str | None = None) -> int:
    """One per core, fewer when memory for the largest problem is short; one on a GPU."""
    if device is not None and device.startswith(("cuda", "cupy")):
        return 1
    return max(1, min(cores(), int(0.9 * psutil.virtual_memory().available / largest_memory(groups))))


def largest_memory(groups: Iterable[Group]) -> float:
    """Bytes that a worker needs for the largest of these problems."""
    return max(Plan(group.problem, len(group.exponents) + 1, len(group.ridges)).memory for group in groups)


class _Driver:
    """The loop: keep the executor busy, store what comes back, yield the rows of finished groups."""

    def __init__(
        self,
        ledger: Ledger,
        executor: Executor | None,
        workers: int | None,
        threads: int | None,
        device: str | None,
        report: Callable[[Progress], None],
        stop: Callable[[], bool],
    ) -> None:
        self.ledger, self.store, self.report, self.stop = ledger, ledger.store, report, stop
        self.executor, self.threads, self.device, self.owns_executor = executor, threads, device, executor is None
        if executor is None:
            self.workers = workers or default_workers([job.group for job in ledger.jobs], device)
            self.threads = threads or max(1, cores() // self.workers)
        else:
            self.workers: int = workers or getattr(executor, "_max_workers", None) or cores()
        self.queue: deque[tuple[Job, Part]] = deque()
        self.pending: dict[Future[list[Record]], tuple[Job, Task]] = {}
        self.finished: deque[Job] = deque()
        self.looked = time.monotonic()

    def rows(self) -> Iterator[Row]:
        """Run to the end."""
        for job in self.ledger.jobs:
            self._enqueue(job, self.ledger.begin(job))
        if self.store.others_write():  # two drivers on one store: do not compute the same things side by side
            random.Random(os.getpid()).shuffle(self.queue)
        try:
            self.report(self.ledger.progress)
            while self.queue or self.pending or self.finished:
                while self.finished:
                    yield from self._finish(self.finished.popleft())
                if self.stop():
                    self.queue.clear()
                    self._cancel_waiting()
                if self.queue:
                    self._submit()
                if self.pending:
                    self._collect()
        except BaseException as error:
            if self.executor is not None and not isinstance(error, OSError | InputError):  # the executor is there
                self._keep_running()
            raise
        finally:
            if self.owns_executor and self.executor is not None:
                self.executor.shutdown(cancel_futures=True)
            self.store.close()

    def _enqueue(self, job: Job, parts: Iterable[Part]) -> None:
        self.queue.extend((job, part) for part in parts)
        if not job.left:
            self.finished.append(job)

    def _settle(self, job: Job, part: Part, records: list[Record]) -> None:
        self.ledger.settle(job, part, records)
        if not job.left:
            self.finished.append(job)

    def _finish(self, job: Job) -> Iterator[Row]:
        """The rows of a job, unless it needs further seeds."""
        parts = self.ledger.add_seeds(job)
        if parts is None:
            yield from self.ledger.rows(job)
        else:
            self._enqueue(job, parts)

    def _submit(self) -> None:
        """Hand tasks to the executor, those left out that another driver has done meanwhile."""
        self.store.open_journal()
        if self.executor is None:
            self.executor = SturdyPool(min(self.workers, len(self.queue)))
        if time.monotonic() - self.looked > REFRESH_SECONDS:
            self.ledger.learn(self.store.refresh())
            self.looked = time.monotonic()
        while self.queue and len(self.pending) < AHEAD * self.workers:
            job, part = self.queue.popleft()
            task = self.ledger.task(job, part, self.threads, self.device)
            if task is None:
                self._settle(job, part, [])
            else:
                self.pending[self.executor.submit(perform, task)] = (job, task)

    def _collect(self) -> None:
        """Wait a moment, and store what has come back."""
        wait(self.pending, timeout=0.5, return_when=FIRST_COMPLETED)
        done = [future for future in self.pending if future.done()]  # cancelled ones, too, which `wait` overlooks
        for future in done:
            job, task = self.pending.pop(future)
            try:
                records = _records(future, task)
            except (InputError, ConnectionError):  # of an executor that has no processes any more
                if not self.stop():
                    raise
                continue  # what ends the driver may have been told to them, too
            self._settle(job, task.seed, records)
            self.report(self.ledger.progress)

    def _cancel_waiting(self) -> None:
        """Forget what has not been started. The oldest tasks run, also where an executor would let them be cancelled."""
        for future in list(self.pending)[self.workers :]:
            if future.cancel():
                del self.pending[future]

    def _keep_running(self) -> None:
        """Store what was running when the loop was left: an interrupt, or a consumer that has seen enough."""
        self._cancel_waiting()
        for future, (_, task) in self.pending.items():
            self.store.put(*_records(future, task))


def _records(future: Future[list[Record]], task: Task) -> list[Record]:
    """What a task gave, or failure records that say why it gave nothing."""
    try:
        return future.result()
    except NoWorkers as error:
        raise InputError(str(error)) from None
    except (BrokenExecutor, CancelledError) as error:
        reason = str(error) or "they were cancelled, as when a scheduler ends"
        raise ConnectionError(f"the executor gave up its tasks: {reason}; run the sweep again to resume") from None
    except Exception as error:
        return failures_of(task, str(error) or type(error).__name__)
