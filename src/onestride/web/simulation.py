"""What the process of a simulation does: fill a store seed by seed, so that the server may be killed at any time.

Errors are the `run` records of a sweep, so the explorer and sweeps share their results. At the chosen α the spectrum and
the learned shares are measured too, and of the first seed the predictor, neurons and leading vectors themselves, as records of
the explorer's own kinds in a folder of their own.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from onestride._backend import require_memory
from onestride._errors import InputError, is_whole
from onestride.problem import Problem
from onestride.simulation.cost import Plan
from onestride.simulation.function import sample_function
from onestride.simulation.learned import measure_learned
from onestride.simulation.memory import learned_memory, spectrum_memory
from onestride.simulation.sampled_network import sample_network
from onestride.simulation.spectrum import measure_spectrum
from onestride.store import Record, Store
from onestride.sweeps.cells import problem_content, run_cell
from onestride.sweeps.task import Task, machine, perform
from onestride.web.workers import start_worker

EXPONENTS = tuple(np.linspace(0, 0.5, 9).round(6).tolist())
SPECTRUM, LEARNED = "explorer-spectrum", "explorer-learned"
FUNCTION, NETWORK = "explorer-function", "explorer-network"
POINTS = 400  # at which the predictor is drawn, samples of the vectors and neurons
NUMERICS = 1  # of the explorer's own kinds
MOST_SEEDS = 64
WORK_LIMIT = 1.0e11  # n·N·min(n, N) and friends: about three minutes a seed on one core
OWN_FOLDER = "explorer"  # inside the store, so that a sweep's store holds a sweep's records only
STAGES = 3  # per seed: errors, spectrum, learned shares


def check_size(problem: Problem) -> None:
    """Refuse, in a sentence with the largest n that would do, what would take too long or not fit."""
    n, d, N = problem.n, problem.d, problem.N
    work = float(n) * N * min(n, N) + (3.0 * n + problem.step_samples) * N * d / 4
    if work > WORK_LIMIT:
        largest = n * (WORK_LIMIT / work) ** (1 / 3)
        digits = max(0, math.floor(math.log10(max(largest, 1))) - 1)
        rounded = math.floor(largest / 10**digits) * 10**digits
        raise InputError(
            f"n = {n:,} is too large to simulate here: with these ratios the explorer goes up to n = {rounded:,}; "
            "choose a smaller n, or run a sweep"
        )
    measurements = (
        Plan(problem, len(EXPONENTS) + 2).memory,
        spectrum_memory(problem, 6, full=True).memory,
        learned_memory(problem, max(4 * n, 4000)).memory,
    )
    require_memory(max(measurements), f"n = {n}, d = {d}, N = {N}")


def check_seeds(seeds: Any) -> int:
    """A whole number of seeds, 2 to 64."""
    if not is_whole(seeds) or not 2 <= seeds <= MOST_SEEDS:
        raise InputError(f"seeds must be a whole number from 2 to {MOST_SEEDS}, got {str(seeds)[:40]!r}")
    return seeds


def work(fields: dict[str, Any], seeds: int, store: str, report: Any) -> None:
    """What the process does; `report.send` gets ("done", parts), and at last ("end", "") or ("failed", sentence)."""
    start_worker()
    if hasattr(os, "nice"):
        os.nice(10)  # whoever waits for theory comes first
    try:
        fill(Path(store), Problem.from_dict(fields), seeds, lambda done: report.send(("done", done)))
        report.send(("end", ""))
    except Exception as error:  # told to the page, whatever it is
        report.send(("failed", str(error) or type(error).__name__))


def fill(store: Path, problem: Problem, seeds: int, tell: Callable[[int], None] = lambda _: None) -> None:
    """Simulate seed after seed; every finished part is in the store before `tell` hears of it and the next begins."""
    threads = max(1, (os.cpu_count() or 2) - 1)
    with Store(store, create=True) as results, Store(store / OWN_FOLDER, create=True) as own:
        for seed in range(seeds):
            _errors(problem, seed, results, threads)
            tell(seed * STAGES + 1)
            if seed == 0:
                _measure(FUNCTION, problem, seed, own)
                _measure(NETWORK, problem, seed, own)
            for part, kind in enumerate((SPECTRUM, LEARNED), 2):
                _measure(kind, problem, seed, own)
                tell(seed * STAGES + part)
        _errors(problem, None, results, threads)


def _errors(problem: Problem, seed: int | None, results: Store, threads: int) -> None:
    """Errors of one seed at every exponent; with no seed what theory says of them, for the view of the store."""
    exponents = sorted({*EXPONENTS, problem.step.exponent})
    pairs = tuple((a, problem.ridge) for a in exponents)
    task = Task(problem, pairs, (problem.ridge,), seed, "auto", threads)
    if not all(key in results for key in task.keys):
        records = perform(task)
        results.put(*records)
        missed = [r for r in records if r.kind == "failure"]
        if missed and seed is not None:
            raise InputError(missed[0].values["reason"])


def _measure(kind: str, problem: Problem, seed: int, own: Store) -> None:
    """A measurement of the explorer's own kind, unless it is there."""
    record = own_record(kind, problem, seed)
    if record.key not in own:
        own.put(replace(record, values=MEASURES[kind](problem, seed), provenance=machine()))


def own_record(kind: str, problem: Problem, seed: int) -> Record:
    """A record of the explorer's own kind, still empty."""
    return Record.new(kind, run_cell(problem_content(problem), seed), {}, {}, numerics=NUMERICS)


def _spectrum(problem: Problem, seed: int) -> dict[str, Any]:
    m = measure_spectrum(problem, [seed], count=min(6, problem.n, problem.N))
    values = {"eigenvalues": [float(f"{v:.5g}") for v in m.eigenvalues.values[0]]}
    values |= {"leading": m.leading.values[0].tolist(), "on_direction": m.on_direction.values[0].tolist()}
    return values | {"untrained_edge": [float(m.untrained_edge.values[0])]}


def _learned(problem: Problem, seed: int) -> dict[str, Any]:
    m = measure_learned(problem, [seed])
    return {str(k): float(m.fraction.values[0, i]) for i, k in enumerate(m.degrees)}


def _function(problem: Problem, seed: int) -> dict[str, Any]:
    sampled = sample_function(problem, seed, POINTS)
    return {part.name: _short(getattr(sampled, part.name)) for part in fields(sampled)}


def _network(problem: Problem, seed: int) -> dict[str, Any]:
    sampled = sample_network(problem, seed, POINTS)
    return {part.name: _short(getattr(sampled, part.name)) for part in fields(sampled)}


def _short(values: Any) -> Any:
    """Four digits are more than a figure shows."""
    return [_short(v) if np.ndim(v) else float(f"{v:.4g}") for v in values]


MEASURES = {FUNCTION: _function, NETWORK: _network, SPECTRUM: _spectrum, LEARNED: _learned}
