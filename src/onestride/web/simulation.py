"""Simulations in the background: one at a time, in a process of its own, into a store seed by seed.

Errors are the `run` records of a sweep, so the explorer and sweeps share their results. At the chosen α the spectrum and
the learned shares are measured too, as records of the explorer's own kinds in a folder of their own. What is finished is
on disk; the server may be killed at any time.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from onestride._backend import require_memory
from onestride._errors import InputError
from onestride.problem import Problem
from onestride.result import QUANTITIES, Estimate, _plain
from onestride.simulation.cost import Plan
from onestride.simulation.learned import measure_learned
from onestride.simulation.memory import learned_memory, spectrum_memory
from onestride.simulation.spectrum import measure_spectrum
from onestride.store import Record, Store, StoreError
from onestride.sweeps.cells import problem_content, problem_from, run_cell
from onestride.sweeps.task import Task, machine, perform
from onestride.web.browse import in_reach
from onestride.web.query import write_query
from onestride.web.workers import deaf, start_worker

EXPONENTS = tuple(np.linspace(0, 0.5, 9).round(6).tolist())
SPECTRUM, LEARNED = "explorer-spectrum", "explorer-learned"
NUMERICS = 1  # of the explorer's own kinds
MOST_SEEDS = 64
WORK_LIMIT = 1.0e11  # n·N·min(n, N) and friends: about three minutes a seed on one core
OWN_FOLDER = "explorer"  # inside the store, so that a sweep's store holds a sweep's records only
STAGES = 3  # per seed: errors, spectrum, learned shares
BINS = 42


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
    if isinstance(seeds, bool) or not isinstance(seeds, int) or not 2 <= seeds <= MOST_SEEDS:
        raise InputError(f"seeds must be a whole number from 2 to {MOST_SEEDS}, got {str(seeds)[:40]!r}")
    return seeds


# ---------------------------------------------------------------------- in the process of its own


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
            _spectrum(problem, seed, own)
            tell(seed * STAGES + 2)
            _learned(problem, seed, own)
            tell(seed * STAGES + 3)
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


def _own_record(kind: str, problem: Problem, seed: int) -> tuple[dict[str, Any], str]:
    cell = run_cell(problem_content(problem), seed)
    return cell, Record.new(kind, cell, {}, {}, numerics=NUMERICS).key


def _spectrum(problem: Problem, seed: int, results: Store) -> None:
    cell, key = _own_record(SPECTRUM, problem, seed)
    if key in results:
        return
    m = measure_spectrum(problem, [seed], count=min(6, problem.n, problem.N))
    values = {"eigenvalues": [float(f"{v:.5g}") for v in m.eigenvalues.values[0]]}
    values |= {"leading": m.leading.values[0].tolist(), "on_direction": m.on_direction.values[0].tolist()}
    values |= {"untrained_edge": [float(m.untrained_edge.values[0])]}
    results.put(Record.new(SPECTRUM, cell, values, machine(), numerics=NUMERICS))


def _learned(problem: Problem, seed: int, results: Store) -> None:
    cell, key = _own_record(LEARNED, problem, seed)
    if key in results:
        return
    m = measure_learned(problem, [seed])
    values = {str(k): float(m.fraction.values[0, i]) for i, k in enumerate(m.degrees)}
    results.put(Record.new(LEARNED, cell, values, machine(), numerics=NUMERICS))


# ---------------------------------------------------------------------- in the server


@dataclass
class Job:
    """The simulation that runs, or the last one that ran."""

    problem: Problem
    seeds: int
    process: Any
    report: Any
    started: float = field(default_factory=time.monotonic)
    done: int = 0
    state: str = "running"
    message: str = ""
    seconds: float = 0.0

    @property
    def total(self) -> int:
        """Parts of the work."""
        return self.seeds * STAGES

    def listen(self) -> None:
        """Take in what the process has said."""
        while self.state == "running":
            try:
                if not self.report.poll():
                    break
                word, value = self.report.recv()
            except (EOFError, OSError):
                self._end("failed", "the process of the simulation ended without a word")
                break
            if word == "done":
                self.done = value
            else:
                self._end("done" if word == "end" else "failed", value)
        if self.state == "running":
            self.seconds = time.monotonic() - self.started
            if not self.process.is_alive() and not self.report.poll():
                self._end("failed", "the process of the simulation ended without a word")

    def _end(self, state: str, message: str) -> None:
        self.state, self.message = state, message
        self.process.join(timeout=1)

    def cancel(self) -> None:
        """End the process; what it had stored stays."""
        if self.state == "running":
            self.process.terminate()
            self.process.join(timeout=2)
            self.state = "cancelled"

    def to_dict(self) -> dict[str, Any]:
        """For the page."""
        names = ("seeds", "done", "total", "state", "message")
        row: dict[str, Any] = {name: getattr(self, name) for name in names}
        return row | {"seconds": round(self.seconds, 1), "n": self.problem.n, "query": write_query(self.problem)}


class Simulations:
    """The running job and everything the store knows, indexed for the page."""

    def __init__(self, path: Path, *, work: Callable[..., None] = work) -> None:
        self.path = path
        self.work = work  # what the process of a job calls
        self.job: Job | None = None
        self.store = Store(path, create=True)  # opening changes nothing on disk
        self.own = Store(path / OWN_FOLDER, create=True)
        self.version = 0
        self._curves: dict[str, dict[float, dict[int, dict[str, float]]]] = {}
        self._problems: dict[str, Problem] = {}
        self._index(self.store)

    def refresh(self) -> None:
        """Read what was stored meanwhile, here or by another process."""
        if self.job is not None:
            self.job.listen()
        self._index(self.store.refresh())
        self.version += len(self.own.refresh())

    def _index(self, records: Iterable[Record]) -> None:
        for record in records:
            self.version += 1
            if record.kind == "run":
                content = record.cell["problem"]
                signature, exponent = _signature(content)
                seeds = self._curves.setdefault(signature, {}).setdefault(exponent, {})
                seeds[record.cell["seed"]] = record.values
                if signature not in self._problems and (problem := _known(content)) is not None:
                    self._problems[signature] = problem

    def start(self, problem: Problem, seeds: int) -> Job:
        """Begin a simulation of `problem` over the exponents of the figures."""
        self.refresh()
        if self.job is not None and self.job.state == "running":
            raise BusyError("a simulation is running; wait for it or cancel it first")
        check_size(problem)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the store {self.path} cannot be written: {error.strerror}") from None
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        arguments = (problem.to_dict(), seeds, str(self.path), theirs)
        process = context.Process(target=self.work, args=arguments, daemon=True)
        with deaf():
            process.start()
        theirs.close()
        self.job = Job(problem, seeds, process, ours)
        return self.job

    def cancel(self) -> None:
        """End the running simulation, if there is one."""
        if self.job is not None:
            self.job.listen()
            self.job.cancel()

    def state(self) -> dict[str, Any]:
        """The job, the store's version and the finished problems, newest last."""
        self.refresh()
        runs = []
        for signature, problem in list(self._problems.items())[-30:]:
            if not in_reach(problem):
                continue
            seeds = max(len(s) for s in self._curves[signature].values())
            words = f"n = {problem.n:,}, {problem.sigma.name}, λ = {problem.ridge:g}, c = {problem.step.constant:g}"
            runs.append({"words": f"{words}, {seeds} seeds", "query": write_query(problem)})
        job = None if self.job is None else self.job.to_dict()
        return {"job": job, "version": self.version, "runs": runs, "store": self.path.name}

    def points(self, problem: Problem) -> dict[str, Any]:
        """What was measured for this problem: errors at every exponent, and spectrum and learned shares at its own."""
        self.refresh()
        signature, _ = _signature(problem_content(problem))
        columns = self._curves.get(signature, {})
        row: dict[str, Any] = {"version": self.version, "seeds": max((len(s) for s in columns.values()), default=0)}
        for name in QUANTITIES:
            row[name] = [
                {"alpha": exponent, "seeds": len(seeds)} | _estimate([v[name] for v in seeds.values()])
                for exponent, seeds in sorted(columns.items())
            ]
        return row | self._own_points(problem)

    def _own_points(self, problem: Problem) -> dict[str, Any]:
        def records(kind: str) -> list[dict[str, Any]]:
            keys = (_own_record(kind, problem, seed)[1] for seed in range(MOST_SEEDS))
            return [record.values for key in keys if (record := self.own.get(key)) is not None]

        row: dict[str, Any] = {}
        learned = records(LEARNED)
        if learned:
            row["learned"] = {k: _estimate([values[k] for values in learned]) for k in learned[0]}
        spectra = records(SPECTRUM)
        if spectra:
            row |= _histogram(spectra, problem.n)
        return row


def _known(content: dict[str, Any]) -> Problem | None:
    """The problem of a record, if its functions are registered here."""
    try:
        return problem_from(content)
    except InputError:
        return None


class BusyError(Exception):
    """A simulation is already running."""


def _signature(content: dict[str, Any]) -> tuple[str, float]:
    """The content of a problem without the exponent of its step, and that exponent."""
    step = dict(content.get("step", {"constant": 0.0, "exponent": 0.0}))
    exponent = float(step.pop("exponent", 0.0))
    return json.dumps(content | {"step": step}, sort_keys=True), exponent


def _estimate(values: list[float]) -> dict[str, float | None]:
    e = Estimate(np.array(values, float))
    return {"mean": _plain(e.mean), "stderr": _plain(e.stderr)}


def _histogram(spectra: list[dict[str, Any]], n: int) -> dict[str, Any]:
    """Density per log eigenvalue of the bulk, and the spikes: above the untrained edge and functions of X̃β."""
    leading, share = (np.array([s[name] for s in spectra]) for name in ("leading", "on_direction"))
    edge = np.array([s["untrained_edge"] for s in spectra])
    count = round(float(((leading > edge) & (share > 0.5)).sum(1).mean()))
    values = np.concatenate([s["eigenvalues"][: len(s["eigenvalues"]) - count] for s in spectra])
    values = values[values > 1e-9 * values.max()]
    heights, edges = np.histogram(np.log(values), bins=BINS)
    density = heights / (len(spectra) * n) / np.diff(edges)
    spikes = [_estimate(list(column)) for column in leading.T[:count]]
    return {"histogram": {"edges": np.exp(edges).tolist(), "density": density.tolist()}, "spikes": spikes}
