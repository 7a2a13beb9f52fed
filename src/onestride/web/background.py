"""Simulations as the server sees them: one job at a time in a process of its own, and what the store knows by now."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from onestride._errors import InputError
from onestride._processes import deaf
from onestride.estimate import heavy_tails, label_skewness
from onestride.problem import Problem
from onestride.result import QUANTITIES, Estimate, plain
from onestride.simulation.spectrum import are_spikes
from onestride.store import Record, Store, StoreError
from onestride.sweeps.cells import problem_content, problem_of
from onestride.sweeps.lucks import measured
from onestride.web.query import in_reach, write_query
from onestride.web.simulation import (
    FUNCTION,
    LEARNED,
    MOST_SEEDS,
    NETWORK,
    OWN_FOLDER,
    SPECTRUM,
    STAGES,
    check_size,
    own_record,
    work,
)

BINS = 42
MOST_RUNS = 30  # finished problems that the page lists


class BusyError(Exception):
    """A simulation is already running."""


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

    def listen(self) -> None:
        """Take in what the process has said; its end without a word is heard as the end of the pipe."""
        try:
            while self.state == "running" and self.report.poll():
                word, value = self.report.recv()
                if word == "done":
                    self.done = value
                else:
                    self._end("done" if word == "end" else "failed", value)
        except (EOFError, OSError):
            self._end("failed", "the process of the simulation ended without a word")
        if self.state == "running":
            self.seconds = time.monotonic() - self.started

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
        row = {name: getattr(self, name) for name in ("seeds", "done", "state", "message")}
        row |= {"total": self.seeds * STAGES, "seconds": round(self.seconds, 1)}
        row["tails"] = heavy_tails(label_skewness(self.problem), self.seeds)
        return row | {"n": self.problem.n, "query": write_query(self.problem)}


@dataclass(frozen=True)
class _Curve:
    """What was measured of one problem but for the exponent of its step: values by exponent and seed."""

    problem: Problem | None
    at: dict[float, dict[int, dict[str, float]]] = field(default_factory=dict)

    @property
    def seeds(self) -> int:
        return max(map(len, self.at.values()), default=0)


class Simulations:
    """The running job and everything the store knows, indexed for the page."""

    def __init__(self, path: Path, *, work: Callable[..., None] = work) -> None:
        self.path = path
        self.work = work  # what the process of a job calls
        self.job: Job | None = None
        self.store = Store(path, create=True)  # opening changes nothing on disk
        self.own = Store(path / OWN_FOLDER, create=True)
        self.version = 0
        self._curves: dict[str, _Curve] = {}
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
                if signature not in self._curves:
                    self._curves[signature] = _Curve(_known(content))
                self._curves[signature].at.setdefault(exponent, {})[record.cell["seed"]] = record.values

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
        for curve in [curve for curve in self._curves.values() if curve.problem is not None][-MOST_RUNS:]:
            p = curve.problem
            if p is not None and in_reach(p):
                words = f"n = {p.n:,}, {p.sigma.name}, λ = {p.ridge:g}, c = {p.step.constant:g}, {curve.seeds} seeds"
                runs.append({"words": words, "query": write_query(p)})
        job = None if self.job is None else self.job.to_dict()
        return {"job": job, "version": self.version, "runs": runs, "store": self.path.name}

    def points(self, problem: Problem) -> dict[str, Any]:
        """What was measured for this problem: errors at every exponent, and spectrum and learned shares at its own."""
        self.refresh()
        signature, _ = _signature(problem_content(problem))
        curve = self._curves.get(signature, _Curve(problem))
        row: dict[str, Any] = {"version": self.version, "seeds": curve.seeds}
        for name in QUANTITIES:
            row[name] = [
                {"alpha": exponent, "seeds": len(seeds)} | _with_gain(list(seeds.values()), name)
                for exponent, seeds in sorted(curve.at.items())
            ]
        if learned := self._own_values(LEARNED, problem):
            row["learned"] = {k: _estimate([values[k] for values in learned]) for k in learned[0]}
        if sampled := self._own_values(FUNCTION, problem):
            row["function"] = sampled[0]
        if drawn := self._own_values(NETWORK, problem):
            row["network"] = drawn[0]
        if spectra := self._own_values(SPECTRUM, problem):
            row |= _histogram(spectra, problem.n)
        return row

    def _own_values(self, kind: str, problem: Problem) -> list[dict[str, Any]]:
        found = (self.own.get(own_record(kind, problem, seed).key) for seed in range(MOST_SEEDS))
        return [record.values for record in found if record is not None]


def _known(content: dict[str, Any]) -> Problem | None:
    """The problem of a record, if its functions are registered here."""
    try:
        return problem_of(content)
    except InputError:
        return None


def _signature(content: dict[str, Any]) -> tuple[str, float]:
    """The content of a problem without the exponent of its step, and that exponent."""
    step = dict(content.get("step", {"constant": 0.0, "exponent": 0.0}))
    exponent = float(step.pop("exponent", 0.0))
    return json.dumps(content | {"step": step}, sort_keys=True), exponent


def _with_gain(runs: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """An error, and by how much it is below that without the step, paired by seed."""
    after = measured(runs, name)
    return plain(after) | {"gain": plain(measured(runs, f"untrained_{name}") - after)}


def _estimate(values: list[float]) -> dict[str, float | None]:
    return plain(Estimate(np.array(values, float)))


def _histogram(spectra: list[dict[str, Any]], n: int) -> dict[str, Any]:
    """Density per log eigenvalue of the bulk, and the spikes: above the untrained edge and functions of X̃β."""
    leading, share = (np.array([s[name] for s in spectra]) for name in ("leading", "on_direction"))
    edge = np.array([s["untrained_edge"] for s in spectra])
    count = round(float(are_spikes(leading, edge, share).sum(1).mean()))
    values = np.concatenate([s["eigenvalues"][: len(s["eigenvalues"]) - count] for s in spectra])
    values = values[values > 1e-9 * values.max()]
    heights, edges = np.histogram(np.log(values), bins=BINS)
    density = heights / (len(spectra) * n) / np.diff(edges)
    spikes = [_estimate(list(column)) for column in leading.T[:count]]
    return {"histogram": {"edges": np.exp(edges).tolist(), "density": density.tolist()}, "spikes": spikes}
