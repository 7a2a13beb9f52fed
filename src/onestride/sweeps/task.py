"""What a worker does: one seed of a group of cells, or their theory, as finished records."""

from __future__ import annotations

import itertools
import platform
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy
from threadpoolctl import ThreadpoolController

from onestride import __version__
from onestride.problem import Problem
from onestride.result import QUANTITIES, PredictionGrid, Simulation
from onestride.simulation.run import simulate_grid
from onestride.store import Record
from onestride.sweeps.cells import NUMERICS, Group, Pair, kind_of
from onestride.sweeps.lucks import luck_record
from onestride.theory.predict import predict_grid

Values = dict[Pair, dict[str, Any]]


@dataclass(frozen=True)
class Task:
    """One seed of some (exponent, penalty) pairs of a problem, or with `seed=None` their theory.

    `ridges` are the penalties of the whole group: all are fitted beside each other whichever pairs are wanted, so that a
    cell computed again is computed in the same company.
    """

    problem: Problem
    pairs: tuple[Pair, ...]
    ridges: tuple[float, ...]
    seed: int | None
    method: str
    threads: int | None = None
    attempt: int = 1
    device: str | None = None

    @property
    def kind(self) -> str:
        """Of the records it makes."""
        return kind_of(self.seed)

    @property
    def cells(self) -> list[dict[str, Any]]:
        """What each pair's record is about."""
        return self._group.cells(self.seed)

    @property
    def keys(self) -> list[str]:
        """The keys of its records, in the order of `pairs`."""
        return self._group.keys(self.seed)

    @property
    def _group(self) -> Group:
        return Group(self.problem, self.pairs, (), self.method)


def perform(task: Task) -> list[Record]:
    """The records of a task; a cell that cannot be computed gets a failure record with the reason."""
    started = time.perf_counter()
    exponents = list(dict.fromkeys(exponent for exponent, _ in task.pairs))
    with _controller().limit(limits=task.threads), np.errstate(all="ignore"):  # overflow is told as a failure
        values, reasons = _attempt(task, exponents, list(task.ridges))
    cost = {"seconds": round(time.perf_counter() - started, 6), "together": len(task.pairs), "threads": task.threads}
    if task.device is not None and task.seed is not None:
        cost["device"] = task.device
    where = _finished_here() | cost
    records = []
    for pair, cell in zip(task.pairs, task.cells, strict=True):
        if pair in values:
            records.append(Record.new(task.kind, cell, values[pair], where, numerics=NUMERICS[task.kind]))
        else:
            records.append(_failure(task, cell, reasons[pair], where))
    return records


def _failure(task: Task, cell: dict[str, Any], reason: str, where: dict[str, Any]) -> Record:
    """A record that says why a cell has no value."""
    about = {"of": task.kind, "cell": cell, "attempt": task.attempt}
    return Record.new("failure", about, {"reason": reason}, where, numerics=NUMERICS["failure"])


def failures_of(task: Task, reason: str) -> list[Record]:
    """Failure records for every pair of a task that did not come back."""
    where = _finished_here()
    return [_failure(task, cell, reason, where) for cell in task.cells]


def _attempt(task: Task, exponents: list[float], ridges: list[float]) -> tuple[Values, dict[Pair, str]]:
    """Values of every pair, and reasons where there is none; a grid that fails is tried again in smaller parts."""
    try:
        return _compute(task, exponents, ridges), {}
    except Exception as error:
        if len(exponents) > 1:
            parts = [([exponent], ridges) for exponent in exponents]
        elif len(ridges) > 1:
            parts = [(exponents, [ridge]) for ridge in ridges]
        else:
            reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            return {}, {(exponents[0], ridges[0]): reason}
    values: Values = {}
    reasons: dict[Pair, str] = {}
    for part in parts:
        found, missed = _attempt(task, *part)
        values |= found
        reasons |= missed
    return values, reasons


def _compute(task: Task, exponents: list[float], ridges: list[float]) -> Values:
    """The values of a grid of pairs; without a step (c = 0) all exponents are the problem's own."""
    steps = task.problem.step.constant != 0
    asked = exponents if steps else [task.problem.step.exponent]
    if task.seed is None:
        read = partial(_predicted, predict_grid(task.problem, asked, ridges, method=cast("Any", task.method)))
    else:
        read = partial(_simulated, simulate_grid(task.problem, asked, ridges, [task.seed], device=task.device))
    places = itertools.product(enumerate(exponents), enumerate(ridges))
    return {(exponent, ridge): read(i if steps else 0, j) for (i, exponent), (j, ridge) in places}


def _simulated(grid: Simulation, i: int, j: int) -> dict[str, Any]:
    """Plain values of one seed, and the luck in them, from which `rows` makes precise ones."""
    found = {name: getattr(grid, name)[i, j] for name in QUANTITIES}
    found |= {f"untrained_{name}": getattr(grid.untrained, name)[i, j] for name in QUANTITIES}
    return {name: float(e.raw.values[0]) for name, e in found.items()} | {"luck": luck_record(found)}


def _predicted(grid: PredictionGrid, i: int, j: int) -> dict[str, Any]:
    found = grid[i, j]
    before = found.untrained or found
    numbers = {name: float(getattr(found, name)) for name in QUANTITIES}
    numbers |= {f"untrained_{name}": float(getattr(before, name)) for name in QUANTITIES}
    words = {"method": found.method, "status": found.status.name.lower()}
    words |= {"untrained_status": before.status.name.lower(), "message": found.message}
    return numbers | words | {"residual": found.residual}


# ---------------------------------------------------------------------- where it runs


@cache
def _controller() -> ThreadpoolController:
    """The BLAS libraries of this process; finding them takes a millisecond, so it is done once."""
    return ThreadpoolController()


def _finished_here() -> dict[str, Any]:
    return machine() | {"finished": datetime.now(UTC).isoformat(timespec="milliseconds")}


@cache
def machine() -> dict[str, Any]:
    """The part of the provenance that is the same for everything this process computes."""
    return versions() | {"commit": commit(), "host": socket.gethostname()}


def versions() -> dict[str, Any]:
    """Of what computes, and the kind of machine."""
    used = {"onestride": __version__, "python": platform.python_version()}
    used |= {"numpy": np.__version__, "scipy": scipy.__version__}
    return used | {"system": f"{platform.system()} {platform.machine()}"}


def commit() -> str | None:
    """The commit of the checkout this package runs from, read from its files; None when it is installed."""
    for folder in Path(__file__).resolve().parents:
        head = folder / ".git" / "HEAD"
        if head.is_file():
            with suppress(OSError):
                text = head.read_text().strip()
                return text if not text.startswith("ref: ") else (head.parent / text[5:]).read_text().strip()
            return None
    return None
