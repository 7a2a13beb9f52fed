"""What a sweep will cost, before anything runs: cells, floating-point work, memory per worker, time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from onestride.drawing import Panel, Series
from onestride.inputs import Covariance
from onestride.result import Result
from onestride.simulation import cost
from onestride.simulation.run import simulate_grid
from onestride.store import Store
from onestride.sweeps.cells import Group, kind_of
from onestride.sweeps.drive import cores, default_workers, largest_memory
from onestride.sweeps.spec import Sweep
from onestride.sweeps.task import Task, perform

TRIAL_WORK = 2e9  # operations of the trial run that the estimate of the time rests on


@dataclass(frozen=True, repr=False)
class SweepPlan(Result):
    """Counts and costs of what is left to compute; `seconds` is an estimate, `basis` says what it rests on."""

    _told = ("name", "axes", "cells", "cells_known", "groups", "runs", "runs_known", "predictions", "predictions_known")
    _told += ("flops", "memory", "workers", "threads", "seconds", "basis")
    _brief = ("name", "cells", "cells_known", "runs", "predictions", "seconds", "workers")
    _sentences = ("basis",)

    name: str
    axes: dict[str, list[Any]]
    cells: int
    cells_known: int
    groups: int
    runs: int
    runs_known: int
    predictions: int
    predictions_known: int
    flops: float
    memory: float
    workers: int
    threads: int
    seconds: float
    basis: str

    def panels(self) -> Sequence[Panel]:
        """What is wanted and what the store knows."""
        kinds = ("cells", "runs", "predictions")
        wanted, known = [getattr(self, kind) for kind in kinds], [getattr(self, f"{kind}_known") for kind in kinds]
        series = [
            Series("wanted", range(3), wanted, kind="simulation"),
            Series("known", range(3), known, kind="marked", colour=1),
        ]
        return [Panel("sweep", "", "count", series, xticks=range(3), xnames=kinds)]


def make_plan(
    sweep: Sweep,
    store: Store | None = None,
    *,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SweepPlan:
    """Count what `sweep` needs beyond what `store` knows, and estimate the time by a short trial.

    `progress` hears how many cells of how many were looked up.
    """
    tell = progress or (lambda done, total: None)
    tell(0, len(sweep.points))
    groups = sweep.groups
    count = workers or default_workers(groups)
    cells, cells_known = 0, 0
    wanted, known = {"run": 0, "theory": 0}, {"run": 0, "theory": 0}
    left: dict[str, list[tuple[Group, int]]] = {"run": [], "theory": []}  # and how many exponents a part still needs
    for group in groups:
        for part in group.parts:
            missing = group.pairs
            if store:  # where nothing is known no key need be made
                keys = zip(group.pairs, group.keys(part), strict=True)
                missing = [pair for pair, key in keys if key not in store]
            wanted[kind_of(part)] += len(group.pairs)
            known[kind_of(part)] += len(group.pairs) - len(missing)
            if missing:
                left[kind_of(part)].append((group, len({exponent for exponent, _ in missing})))
        cells += len(group.pairs)
        if store:
            cells_known += sum(all(key in store for key in keys) for keys in group.keys_by_cell)
        tell(cells, len(sweep.points))
    flops = sum(work(group, exponents) for group, exponents in left["run"])
    seconds, basis = _estimate(left["run"], [group for group, _ in left["theory"]], sweep.method, flops, count)
    return SweepPlan(
        name=sweep.name,
        axes=sweep.axes,
        cells=cells,
        cells_known=cells_known,
        groups=len(groups),
        runs=wanted["run"],
        runs_known=known["run"],
        predictions=wanted["theory"],
        predictions_known=known["theory"],
        flops=flops,
        memory=largest_memory(groups),
        workers=count,
        threads=max(1, cores() // count),
        seconds=seconds,
        basis=basis,
    )


def work(group: Group, exponents: int | None = None) -> float:
    """Floating-point operations of one seed of a group, by the cost model of the simulation."""
    count = exponents or len(group.exponents)
    return cost.Plan(group.problem, count + 1, len(group.ridges), exponents=count).flops


def _estimate(
    runs: list[tuple[Group, int]], theory: list[Group], method: str, flops: float, workers: int
) -> tuple[float, str]:
    """Seconds, and the sentence on what they rest on."""
    seconds, basis = 0.0, []
    if runs:
        group, exponents = max(runs, key=lambda item: work(*item))
        scale = min(1.0, (TRIAL_WORK / work(group, exponents)) ** (1 / 3))
        problem = group.problem
        if isinstance(problem.inputs, Covariance):  # of this d only; drawing others takes as long
            problem = problem.replace(inputs="gaussian")
        least = {"n": 10, "d": max(10, problem.directions), "N": 10}
        sizes = {name: max(few, round(scale * getattr(problem, name))) for name, few in least.items()}
        sizes |= {"n_step": None if problem.n_step is None else max(10, round(scale * problem.n_step))}
        small = Group(problem.replace(**sizes), group.pairs, (0,))
        pairs = tuple((exponent, ridge) for exponent in group.exponents for ridge in group.ridges)
        simulate_grid(
            problem.replace(**least, n_step=None), [problem.step.exponent], [1.0], 1
        )  # so that loading the libraries is not timed
        started = time.perf_counter()
        perform(Task(small.problem, pairs, group.ridges, 0, method, 1))
        taken = time.perf_counter() - started
        seconds += flops / (work(small) / taken)
        basis.append(f"one seed at n = {small.problem.n}, d = {small.problem.d}, N = {small.problem.N} ({taken:.2g} s)")
    if theory:
        group = max(theory, key=lambda item: len(item.pairs))
        started = time.perf_counter()
        first = group.exponents[:2]
        pairs = tuple(pair for pair in group.pairs if pair[0] in first)
        perform(Task(group.problem, pairs, group.ridges, None, method, 1))
        taken = time.perf_counter() - started
        seconds += sum(taken * len(g.exponents) / len(first) for g in theory)
        basis.append(f"one prediction at {len(first)} exponent{'s' * (len(first) > 1)} ({taken:.2g} s)")
    if not basis:
        return 0.0, "nothing is left to compute"
    return seconds / workers, f"timed now, on one thread: {' and '.join(basis)}; workers taken as fully parallel"
