"""What a sweep will cost, before anything runs: cells, floating-point work, memory per worker, time."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

from onestride.simulation import cost
from onestride.simulation.run import simulate_grid
from onestride.store import Store
from onestride.sweeps.cells import Group, cell_content, group_cells, key_of, run_cell, theory_cell
from onestride.sweeps.drive import cores, default_workers
from onestride.sweeps.spec import Sweep
from onestride.sweeps.task import Task, perform

TRIAL_WORK = 2e9  # operations of the trial run that the estimate of the time rests on


@dataclass(frozen=True)
class Plan:
    """Counts and costs of what is left to compute; `seconds` is an estimate, `basis` says what it rests on."""

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

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


def make_plan(sweep: Sweep, store: Store | None = None, *, workers: int | None = None) -> Plan:
    """Count what `sweep` needs beyond what `store` knows, and estimate the time by a short trial."""
    groups = group_cells(sweep.points)
    count = workers or default_workers(groups)
    left_runs: list[tuple[Group, int]] = []  # groups and how many of their cells one seed still needs
    left_theory: list[Group] = []
    runs_known = predictions_known = cells_known = 0
    for group in groups:
        contents = [cell_content(group.content, pair, group.problem.step.constant) for pair in group.pairs]
        whole = [True] * len(contents)
        for seed in group.seeds:
            known = [store is not None and key_of("run", run_cell(content, seed)) in store for content in contents]
            whole = [a and b for a, b in zip(whole, known, strict=True)]
            runs_known += sum(known)
            if not all(known):
                missing = {pair[0] for pair, there in zip(group.pairs, known, strict=True) if not there}
                left_runs.append((group, len(missing)))
        if sweep.method != "none":
            keys = [key_of("theory", theory_cell(content, sweep.method)) for content in contents]
            known = [store is not None and key in store for key in keys]
            whole = [a and b for a, b in zip(whole, known, strict=True)]
            predictions_known += sum(known)
            if not all(known):
                left_theory.append(group)
        cells_known += sum(whole)
    flops = sum(work(group, exponents) for group, exponents in left_runs)
    seconds, basis = _estimate(left_runs, left_theory, sweep.method, flops, count)
    cells = sum(len(group.pairs) for group in groups)
    return Plan(
        name=sweep.name,
        axes=sweep.axes,
        cells=cells,
        cells_known=cells_known,
        groups=len(groups),
        runs=sum(len(group.pairs) * len(group.seeds) for group in groups),
        runs_known=runs_known,
        predictions=cells if sweep.method != "none" else 0,
        predictions_known=predictions_known,
        flops=flops,
        memory=max(cost.Plan(group.problem, len(group.exponents) + 1, len(group.ridges)).memory for group in groups),
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
        sizes = {name: max(10, round(scale * getattr(problem, name))) for name in ("n", "d", "N")}
        sizes |= {"n_step": None if problem.n_step is None else max(10, round(scale * problem.n_step))}
        small = Group(problem.replace(**sizes), group.pairs, (0,))
        pairs = tuple((exponent, ridge) for exponent in group.exponents for ridge in group.ridges)
        simulate_grid(problem.replace(n=10, d=5, N=10), [0.0], [1.0], 1)  # so that loading the libraries is not timed
        started = time.perf_counter()
        perform(Task(small.problem, pairs, group.ridges, 0, method, 1))
        taken = time.perf_counter() - started
        seconds += flops / (work(small) / taken)
        basis.append(f"one seed at n = {small.problem.n}, d = {small.problem.d}, N = {small.problem.N} ({taken:.2g} s)")
    if theory:
        group = max(theory, key=lambda item: len(item.pairs))
        started = time.perf_counter()
        pairs = tuple(pair for pair in group.pairs if pair[0] in group.exponents[:2])
        perform(Task(group.problem, pairs, group.ridges, None, method, 1))
        taken = time.perf_counter() - started
        seconds += sum(taken * len(g.exponents) / len(group.exponents[:2]) for g in theory)
        basis.append(f"one prediction at {len(group.exponents[:2])} exponents ({taken:.2g} s)")
    if not basis:
        return 0.0, "nothing is left to compute"
    return seconds / workers, f"timed now, on one thread: {' and '.join(basis)}; workers taken as fully parallel"
