"""What a sweep wants, what its store knows of it, what failed, and what is left to compute."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

import numpy as np

from onestride.store import Record, Store
from onestride.sweeps.cells import NUMERICS, Group, Part, failed_key
from onestride.sweeps.rows import Row
from onestride.sweeps.spec import Sweep
from onestride.sweeps.statistics import FIRST_LOOK, sequence_stderr
from onestride.sweeps.task import Task, machine


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


@dataclass
class Job:
    """A group on its way, with the number of results that each of its unfinished parts is to bring."""

    group: Group
    left: dict[Part, int] = field(default_factory=dict)


class Ledger:
    """The books of one run of a sweep. With a `target` seeds are added until the test errors are that certain."""

    def __init__(self, sweep: Sweep, store: Store, *, target: float | None, max_seeds: int, retry_failed: bool) -> None:
        for damage in store.heal():
            warnings.warn(f"set aside and to be computed again: {damage}", stacklevel=3)
        cell = {"name": sweep.name, "sweep": sweep.data}
        where = machine() | {"started": datetime.now(UTC).isoformat(timespec="seconds")}
        store.put(Record.new("sweep", cell, {"cells": len(sweep.points)}, where, numerics=NUMERICS["sweep"]))
        self.store, self.target, self.max_seeds = store, target, max_seeds
        self.progress = Progress(0, 0, 0, 0, 0, 0)
        self.attempts: dict[str, int] = {}  # of keys that failed, before or now
        self.reasons: dict[str, str] = {}  # of keys that failed and are not to be tried again
        self.learn(store.records("failure"), again=retry_failed)
        first = 0 if target is None else min(FIRST_LOOK, max_seeds)
        self.jobs = [Job(group.with_seeds(_further(group.seeds, first))) for group in sweep.groups]

    def learn(self, records: Iterable[Record], *, again: bool = False) -> None:
        """Note what failed; `again` says that it is to be tried once more."""
        for record in records:
            if record.kind == "failure":
                key = failed_key(record)
                self.attempts[key] = max(self.attempts.get(key, 0), record.cell["attempt"])
                if not again:
                    self.reasons[key] = record.values["reason"]

    def begin(self, job: Job) -> tuple[Part, ...]:
        """Count the cells of a job, those known as a whole, and all its results; the parts that need work."""
        known = sum(all(key in self.store for key in keys) for keys in job.group.keys_by_cell)
        self._count(cells=len(job.group.pairs), cells_known=known)
        return self._open(job, job.group.parts)

    def add_seeds(self, job: Job) -> tuple[Part, ...] | None:
        """Give a finished job seeds if its test errors are too uncertain, or their spread is not to be trusted (`tails`); which of them need work, None if it got none."""
        seeds = job.group.seeds
        if self.target is None or len(seeds) >= self.max_seeds:
            return None
        found = (row for row in self.rows(job) if not row.failures)
        if not any(row.tails or sequence_stderr(np.array(row.test_error.values)) > self.target for row in found):
            return None
        more = _further(seeds, min(self.max_seeds, len(seeds) + max(1, len(seeds) // 2)))
        job.group = job.group.with_seeds(more)
        return self._open(job, more)

    def _open(self, job: Job, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """Count the results of these parts, known, failed earlier and all; those that need work."""
        left = {part: len(wanted) for part in parts if (wanted := self._wanted(job, part))}
        job.left |= left
        total = len(job.group.pairs) * len(parts)
        known = total - sum(left.values())
        failed = sum(self._failed(key) for part in parts for key in job.group.keys(part))
        self._count(total=total, known=known, done=known, failed=failed)
        return tuple(left)

    def task(self, job: Job, part: Part, threads: int | None, device: str | None) -> Task | None:
        """What is left to compute of a part, or None when nothing is."""
        wanted, group = self._wanted(job, part), job.group
        if not wanted:
            return None
        attempt = 1 + max(self.attempts.get(group.keys(part)[i], 0) for i in wanted)
        pairs = tuple(group.pairs[i] for i in wanted)
        return Task(group.problem, pairs, group.ridges, part, group.method, threads, attempt, device)

    def settle(self, job: Job, part: Part, records: list[Record]) -> None:
        """Store what a part has brought."""
        self.store.put(*records)
        self.learn(records)
        self._count(done=job.left.pop(part), failed=sum(record.kind == "failure" for record in records))

    def rows(self, job: Job) -> Iterator[Row]:
        """The cells of a job as far as they are known."""
        for pair, keys in zip(job.group.pairs, job.group.keys_by_cell, strict=True):
            found = [record for key in keys if (record := self.store.get(key)) is not None]
            runs = tuple(record for record in found if record.kind == "run")
            theory = next((record.values for record in found if record.kind == "theory"), None)
            failures = tuple(self.reasons[key] for key in keys if self._failed(key))
            yield Row(job.group.cell(pair), runs, theory, failures)

    def _wanted(self, job: Job, part: Part) -> list[int]:
        """The places of the pairs of which this part is neither known nor given up."""
        keys = job.group.keys(part)
        return [i for i, key in enumerate(keys) if key not in self.store and key not in self.reasons]

    def _failed(self, key: str) -> bool:
        return key in self.reasons and key not in self.store

    def _count(self, **more: int) -> None:
        self.progress = Progress(**{name: now + more.get(name, 0) for name, now in asdict(self.progress).items()})


def _further(seeds: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The smallest unused seeds that bring their number to `count`."""
    used = set(seeds)
    unused = (seed for seed in itertools.count() if seed not in used)
    return tuple(itertools.islice(unused, max(0, count - len(seeds))))
