"""`sweep`: compute what a store does not know yet, on any executor, and yield rows as they finish."""

from __future__ import annotations

import os
import random
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing import current_process
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from onestride._backend import require_device
from onestride.functions import InputError
from onestride.simulation.cost import Plan
from onestride.store import Record, Store
from onestride.sweeps.cells import NUMERICS, Group, cell_content, group_cells, key_of, run_cell, theory_cell
from onestride.sweeps.pool import NoWorkers, SturdyPool
from onestride.sweeps.rows import Row
from onestride.sweeps.spec import Sweep, read_sweep
from onestride.sweeps.statistics import FIRST_LOOK, sequence_stderr
from onestride.sweeps.task import Task, failures_of, machine, perform

REFRESH_SECONDS = 1.0  # how often to look for what other drivers have written
MAX_SEEDS = 100


@dataclass(frozen=True)
class Progress:
    """Where a sweep stands, counted in results: one per cell and seed, and one per cell for its theory.

    `known` results and `cells_known` whole cells were in the store before.
    """

    done: int
    total: int
    failed: int
    known: int
    cells: int
    cells_known: int


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
    progress: Callable[[Progress], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Row]:
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
        sequence (see `sweeps.statistics`), up to `max_seeds`.
    retry_failed
        Compute again what failed in an earlier run; otherwise it stays failed.
    progress
        Called with a `Progress` after each task.
    stop
        Asked between tasks; once it says True nothing new is started and what runs is finished and stored.
    """
    if getattr(current_process(), "_inheriting", False):
        sys.exit(1)  # a worker that imports an unguarded script; the driver says what to do
    plan = source if isinstance(source, Sweep) else read_sweep(source)
    if target_stderr is not None and not target_stderr > 0:
        raise InputError(f"target_stderr must be a number above 0, got {target_stderr!r}")
    for name, number in (("workers", workers), ("threads", threads), ("max_seeds", max_seeds)):
        if number is not None and number < 1:
            raise InputError(f"{name} must be a whole number, 1 or more, got {number!r}")
    if device is not None and executor is None:
        require_device(device)
    opened = store if isinstance(store, Store) else Store(store, create=True)
    groups = group_cells(plan.points)
    count = (
        workers or (getattr(executor, "_max_workers", None) if executor else default_workers(groups, device)) or cores()
    )
    if executor is None:
        threads = threads or max(1, cores() // count)
    state = _State(plan, opened, groups, threads, device, target_stderr, max_seeds, retry_failed)
    return _drive(state, executor, count, progress or (lambda _: None), stop)


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_workers(groups: list[Group], device: str | None = None) -> int:
    """One per core, fewer when memory for the largest problem is short; one on a GPU."""
    if device is not None and device.startswith(("cuda", "cupy")):
        return 1
    largest = max(Plan(group.problem, len(group.exponents) + 1, len(group.ridges)).memory for group in groups)
    return max(1, min(cores(), int(0.9 * psutil.virtual_memory().available / largest)))


@dataclass
class _Job:
    """A group on its way: its seeds, keys, and how many of its tasks are not finished."""

    group: Group
    contents: list[dict[str, Any]]
    seeds: list[int]
    open: int = 0
    keys: dict[int | None, list[str]] = field(default_factory=dict)
    left: dict[int | None, int] = field(default_factory=dict)  # results that each open task is to bring


class _State:
    """What is known, what failed, what is left."""

    def __init__(
        self,
        plan: Sweep,
        store: Store,
        groups: list[Group],
        threads: int | None,
        device: str | None,
        target: float | None,
        max_seeds: int,
        retry: bool,
    ) -> None:
        self.plan, self.store, self.threads, self.device = plan, store, threads, device
        self.target, self.max_seeds, self.retry = target, max_seeds, retry
        for damage in store.heal():
            warnings.warn(f"set aside and to be computed again: {damage}", stacklevel=3)
        cell = {"name": plan.name, "sweep": plan.data}
        where = machine() | {"started": datetime.now(UTC).isoformat(timespec="seconds")}
        store.put(Record.new("sweep", cell, {"cells": len(plan.points)}, where, numerics=NUMERICS["sweep"]))
        self.attempts: dict[str, int] = {}  # of keys that failed, before or now
        self.reasons: dict[str, str] = {}  # of keys that failed and are not to be tried again
        self.learn(store.records("failure"), earlier=True)
        self.jobs = []
        for group in groups:
            content, constant = group.content, group.problem.step.constant
            first = 0 if target is None else min(FIRST_LOOK, max_seeds)
            seeds = (*group.seeds, *_further(group.seeds, first))
            self.jobs.append(_Job(group, [cell_content(content, p, constant) for p in group.pairs], list(seeds)))
        self.done = self.total = self.known = self.failed = 0
        self.cells = sum(len(job.contents) for job in self.jobs)
        self.cells_known = 0
        self.looked = time.monotonic()

    def keys(self, job: _Job, seed: int | None) -> list[str]:
        if seed not in job.keys:
            if seed is None:
                found = [key_of("theory", theory_cell(content, self.plan.method)) for content in job.contents]
            else:
                found = [key_of("run", run_cell(content, seed)) for content in job.contents]
            job.keys[seed] = found
        return job.keys[seed]

    def learn(self, records: list[Record], *, earlier: bool = False) -> None:
        """Note what failed; an earlier failure is tried again when asked for."""
        for record in records:
            if record.kind == "failure":
                key = key_of(record.cell["of"], record.cell["cell"])
                self.attempts[key] = max(self.attempts.get(key, 0), record.cell["attempt"])
                if not (earlier and self.retry):
                    self.reasons[key] = record.values["reason"]

    def task(self, job: _Job, seed: int | None) -> Task | None:
        """What is left to compute for a seed (None: the theory), or None when nothing is."""
        keys = self.keys(job, seed)
        left = [i for i, key in enumerate(keys) if key not in self.store and key not in self.reasons]
        if not left:
            return None
        attempt = 1 + max(self.attempts.get(keys[i], 0) for i in left)
        pairs = tuple(job.group.pairs[i] for i in left)
        where = (self.threads, attempt, self.device)
        return Task(job.group.problem, pairs, job.group.ridges, seed, self.plan.method, *where)

    def begin(self, job: _Job, seeds: list[int | None]) -> list[int | None]:
        """Count the results of these seeds, known, failed earlier and all, and say which seeds need work."""
        if not job.keys:  # the first look at this job
            whole = zip(*(self.keys(job, seed) for seed in seeds), strict=True)
            self.cells_known += sum(all(key in self.store for key in keys) for keys in whole)
        left = {seed: len(task.pairs) for seed in seeds if (task := self.task(job, seed)) is not None}
        known = len(job.contents) * len(seeds) - sum(left.values())
        job.open += len(left)
        job.left |= left
        self.total += len(job.contents) * len(seeds)
        self.known += known
        self.done += known
        self.failed += sum(key in self.reasons and key not in self.store for s in seeds for key in self.keys(job, s))
        return list(left)

    def further(self, job: _Job) -> list[int]:
        """Seeds to add to a finished job so that its test errors become certain enough."""
        if self.target is None or len(job.seeds) >= self.max_seeds:
            return []
        for row in self.rows(job):
            if not row.failures and sequence_stderr(np.array(row.test_error.values)) > self.target:
                count = len(job.seeds)
                return list(_further(tuple(job.seeds), min(self.max_seeds, count + max(1, count // 2))))
        return []

    def rows(self, job: _Job) -> Iterator[Row]:
        for i, pair in enumerate(job.group.pairs):
            keys = [self.keys(job, seed)[i] for seed in job.seeds]
            theory = self.store.get(self.keys(job, None)[i]) if self.plan.method != "none" else None
            runs = tuple(record for key in keys if (record := self.store.get(key)) is not None)
            every = (*keys, *job.keys.get(None, ())[i : i + 1])
            failed = tuple(self.reasons[key] for key in every if key in self.reasons and key not in self.store)
            yield Row(job.group.cell(pair), runs, theory.values if theory else None, failed)


def _further(seeds: tuple[int, ...], count: int) -> Iterator[int]:
    """The smallest unused seeds that bring their number to `count`."""
    used, missing, seed = set(seeds), count - len(seeds), 0
    while missing > 0:
        if seed not in used:
            missing -= 1
            yield seed
        seed += 1


def _drive(
    state: _State, executor: Executor | None, workers: int, report: Callable[[Progress], None], stop: Callable[[], bool]
) -> Iterator[Row]:
    """The loop: keep the executor busy, store what comes back, yield the rows of finished groups."""
    queue: deque[tuple[_Job, int | None]] = deque()
    pending: dict[Future[list[Record]], tuple[_Job, Task]] = {}
    finished: deque[_Job] = deque()

    def add(job: _Job, seeds: list[int | None]) -> None:
        work = state.begin(job, seeds)
        queue.extend((job, seed) for seed in work)
        if not job.open:
            finished.append(job)

    def settle(job: _Job, seed: int | None, records: list[Record]) -> None:
        state.store.put(*records)
        state.learn(records)
        state.done += job.left.pop(seed)
        state.failed += sum(record.kind == "failure" for record in records)
        job.open -= 1
        if not job.open:
            finished.append(job)

    theory: list[int | None] = [None] if state.plan.method != "none" else []
    for job in state.jobs:
        add(job, [*theory, *job.seeds])
    if state.store.others_write():  # two drivers on one store: do not compute the same things side by side
        random.Random(os.getpid()).shuffle(queue)
    own = executor is None
    pool = executor
    try:
        report(_progress(state))
        while queue or pending or finished:
            while finished:
                job = finished.popleft()
                more = state.further(job)
                job.seeds += more
                if more:
                    add(job, list(more))
                else:
                    yield from state.rows(job)
            halted = stop()
            if halted:
                queue.clear()
                for future in _waiting(pending, workers):
                    del pending[future]
            if queue:
                state.store.open_journal()
            if queue and pool is None:
                pool = SturdyPool(min(workers, len(queue)))
            if queue and time.monotonic() - state.looked > REFRESH_SECONDS:
                state.learn(state.store.refresh())
                state.looked = time.monotonic()
            while queue and len(pending) < 3 * workers:
                job, seed = queue.popleft()
                task = state.task(job, seed)
                if task is None:  # another driver has it meanwhile
                    settle(job, seed, [])
                else:
                    assert pool is not None
                    pending[pool.submit(perform, task)] = (job, task)
            if not pending:
                continue
            wait(pending, timeout=0.5, return_when=FIRST_COMPLETED)
            for future in [
                future for future in pending if future.done()
            ]:  # cancelled ones, too, which `wait` overlooks
                job, task = pending.pop(future)
                settle(job, task.seed, _records(future, task))
                report(_progress(state))
    except BaseException as error:
        if pool is not None and not isinstance(error, OSError | InputError):  # the executor is there
            _keep_running(state, pending, workers)
        raise
    finally:
        if own and pool is not None:
            pool.shutdown(cancel_futures=True)
        state.store.close()


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


def _waiting(pending: dict[Future[list[Record]], tuple[_Job, Task]], workers: int) -> list[Future[list[Record]]]:
    """Cancel what has not been started. The oldest tasks run, also where an executor would let them be cancelled."""
    return [future for future in list(pending)[workers:] if future.cancel()]


def _keep_running(state: _State, pending: dict[Future[list[Record]], tuple[_Job, Task]], workers: int) -> None:
    """Store what was running when the loop was left: an interrupt, or a consumer that has seen enough."""
    dropped = _waiting(pending, workers)
    for future, (_, task) in pending.items():
        if future not in dropped:
            state.store.put(*_records(future, task))


def _progress(state: _State) -> Progress:
    return Progress(state.done, state.total, state.failed, state.known, state.cells, state.cells_known)
