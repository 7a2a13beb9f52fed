"""Rows: one per cell, with the statistics of its seeds beside the theory; computed from the store, never stored."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from onestride.drawing import Panel, Series
from onestride.estimate import heavy_tails, label_skewness
from onestride.functions import InputError
from onestride.inputs import Covariance
from onestride.problem import Problem, Step
from onestride.result import GAINS, LABELS, QUANTITIES, Estimate, Result, Status
from onestride.shown import Variables, text
from onestride.step import read_step
from onestride.store import Record, Store
from onestride.sweeps.cells import NUMERICS, cell_name, problem_of
from onestride.sweeps.lucks import measured
from onestride.sweeps.statistics import student_half_width

MEASURED = (*QUANTITIES, *GAINS)
SOLVED = Status.SOLVED.name.lower()


@dataclass(frozen=True, repr=False)
class Row(Result):
    """One cell: what was measured over its seeds, what theory says, and what failed.

    `estimate(name)` gives the values, mean and standard error of train_loss, train_mse, test_error, and of train_gain and
    test_gain, the falls due to the step, paired by seed; `.raw` of it are the plain values.
    """

    problem: Problem
    runs: tuple[Record, ...] = field(repr=False)
    theory: dict[str, Any] | None = field(repr=False)
    failures: tuple[str, ...] = ()

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds measured."""
        return tuple(run.cell["seed"] for run in self.runs)

    @property
    def status(self) -> str:
        """How the theory ended, a name of `Status` in small letters; none when there is no theory value."""
        return "none" if self.theory is None else str(self.theory["status"])

    @property
    def tails(self) -> str | None:
        """That ± is too narrow with so few seeds, where the labels have heavy tails, and how many would do; else None."""
        if len(self.runs) < 2:
            return None
        try:
            skewness = label_skewness(self.problem, freed=self.test_error.luck is not None)
        except InputError:  # a teacher that is not registered here
            return None
        return heavy_tails(skewness, len(self.runs))

    def _second_line(self) -> str:
        return self.tails or ""

    def _first_line(self) -> str:
        names = ("test_error", "test_gain")
        parts = [
            f"{name} {text(self.estimate(name).to_dict())}, theory {self.predicted(name):.4g}"
            for name in names
            if self.runs
        ]
        parts = parts or [f"{name} theory {self.predicted(name):.4g}" for name in names]
        return f"{'; '.join(parts)} ({self.status}), {len(self.runs)} seeds" + f", {len(self.failures)} failed" * bool(
            self.failures
        )

    def _lines(self) -> Iterator[tuple[str, str]]:
        for name in MEASURED:
            measured = text(self.estimate(name).to_dict()) if self.runs else "not measured"
            yield name, f"{measured}; theory {self.predicted(name):.4g}"
        yield "theory", self.status
        yield "seeds", str(len(self.runs))
        if self.tails:
            yield "tails", self.tails
        if self.failures:
            yield "failed", "; ".join(dict.fromkeys(self.failures))

    def panels(self) -> Sequence[Panel]:
        """Measured errors with their error bars beside the theory."""
        places, names = list(range(len(QUANTITIES))), [LABELS[name] for name in QUANTITIES]
        words, kind = ("theory", "simulation") if self.status == SOLVED else ("theory, marked", "marked")
        series = [Series(words, places, [self.predicted(name) for name in QUANTITIES], kind=kind, colour=1)]
        if self.runs:
            found = [self.estimate(name) for name in QUANTITIES]
            mean, bars = [float(e.mean) for e in found], [float(e.stderr) for e in found]
            series.append(Series("simulation", places, mean, bars, kind="simulation"))
        return [Panel("one cell", "", "error", series, xticks=places, xnames=names)]

    def _variables(self) -> Variables:
        return {name: ((), value) for name, value in self.to_dict().items() if value is not None}

    def estimate(self, name: str) -> Estimate:
        """The measured quantity, one value per seed."""
        if name in GAINS:
            return self.estimate(f"untrained_{GAINS[name]}") - self.estimate(GAINS[name])
        return measured([run.values for run in self.runs], name)

    def predicted(self, name: str) -> float:
        """The theory's value; NaN when there is none."""
        if self.theory is None:
            return math.nan
        if name in GAINS:
            return float(self.theory[f"untrained_{GAINS[name]}"] - self.theory[GAINS[name]])
        return float(self.theory[name])

    def z(self, name: str) -> float:
        """(predicted − measured)/standard error; NaN for fewer than two seeds."""
        if len(self.runs) < 2:
            return math.nan
        found = self.estimate(name)
        return (self.predicted(name) - float(found.mean)) / float(found.stderr) if found.stderr > 0 else math.nan

    @property
    def train_loss(self) -> Estimate:
        """The ridge objective."""
        return self.estimate("train_loss")

    @property
    def train_mse(self) -> Estimate:
        """Its first term, the mean squared training residual."""
        return self.estimate("train_mse")

    @property
    def test_error(self) -> Estimate:
        """The error on fresh labels, noise included."""
        return self.estimate("test_error")

    @property
    def test_gain(self) -> Estimate:
        """Fall of the test error due to the step, paired by seed."""
        return self.estimate("test_gain")

    @property
    def train_gain(self) -> Estimate:
        """Fall of the ridge objective due to the step, paired by seed."""
        return self.estimate("train_gain")

    def to_dict(self) -> dict[str, Any]:
        """One flat row: the problem, then mean, standard error, 95 % interval, theory and z of each quantity."""
        row = flat_problem(self.problem) | {"seeds": len(self.runs), "failed": len(self.failures)}
        for name in MEASURED:
            mean = stderr = half = math.nan
            if self.runs:
                found = self.estimate(name)
                mean, stderr, half = float(found.mean), float(found.stderr), student_half_width(found.values)
            row |= {name: mean, f"{name}_stderr": stderr, f"{name}_low": mean - half, f"{name}_high": mean + half}
            row |= {f"{name}_theory": self.predicted(name), f"{name}_z": self.z(name)}
        words = self.theory or {"method": "", "message": ""}
        row |= {"method": words["method"], "status": self.status, "message": words["message"]}
        row["untrained_status"] = "none" if self.theory is None else self.theory.get("untrained_status", self.status)
        return row | {"reason": "; ".join(dict.fromkeys(self.failures)), "tails": self.tails or ""}


def solved(line: dict[str, Any], name: str) -> bool:
    """Whether theory's value of a quantity may be shown as solved; a gain needs the network without the step, too."""
    statuses = {line["status"], line["untrained_status"]} if name in GAINS else {line["status"]}
    return statuses == {SOLVED}


def tails_words(rows: Sequence[Row]) -> str:
    """In how many cells ± is too narrow for their labels' tails, and the first of their sentences; nothing when in none."""
    found = [told for row in rows if (told := row.tails)]
    return f"In {len(found):,} of {len(rows):,} cells {found[0]}; see tails in an export." if found else ""


def flat_problem(problem: Problem) -> dict[str, Any]:
    """The fields of a problem in one level, coefficients and a covariance as text, with φ = d/n and ψ = d/N."""
    data = {name: getattr(problem, name) for name in Problem.model_fields if name != "step"}
    for name in ("activation", "teacher"):
        if not isinstance(data[name], str):
            data[name] = "[" + ", ".join(f"{c!r}" for c in data[name]) + "]"
    if isinstance(problem.inputs, Covariance):  # two that read alike are kept apart by a mark of their numbers
        numbers = repr((problem.inputs.eigenvalues, problem.inputs.teacher)).encode()
        data["inputs"] = f"{problem.inputs!r} {hashlib.sha256(numbers).hexdigest()[:6]}"
    data["n_step"] = problem.step_samples
    step = {"constant": problem.step.constant, "exponent": problem.step.exponent}
    return data | step | {"phi": problem.phi, "psi": problem.psi}


def stored_rows(store: Store, *, method: str | None = None, only: Iterable[Problem] | None = None) -> list[Row]:
    """Every cell of a store as a row, in the order of its parameters; `only` picks problems, `method` the theory.

    Without `method` a cell shows the theory that was stored for it first.

    >>> import tempfile
    >>> from onestride.sweeps.rows import stored_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stored_rows(one.Store(folder, create=True))
    []
    """
    runs: dict[str, list[Record]] = {}
    theory: dict[str, dict[str, Any]] = {}
    failures: dict[str, list[str]] = {}
    done = set()
    for record in store:
        if record.numerics != NUMERICS.get(record.kind):
            continue  # the same description gave other numbers then
        if record.kind == "run":
            name = cell_name(record.cell)
            runs.setdefault(name, []).append(record)
            done.add((name, record.cell["seed"]))
        elif record.kind == "theory" and method in (None, record.cell["method"]):
            theory.setdefault(cell_name(record.cell), record.values)
    for record in store.records("failure"):
        cell = record.cell["cell"]
        name = cell_name(cell)
        resolved = (name, cell["seed"]) in done if record.cell["of"] == "run" else name in theory
        if not resolved:
            failures.setdefault(name, []).append(record.values["reason"])
    wanted = None if only is None else set(only)
    rows = []
    for name in dict.fromkeys((*runs, *theory, *failures)):
        problem = _problem(json.loads(name))
        if wanted is None or problem in wanted:
            measured = tuple(sorted(runs.get(name, ()), key=lambda run: run.cell["seed"]))
            rows.append(Row(problem, measured, theory.get(name), tuple(failures.get(name, ()))))
    return sorted(rows, key=lambda row: _order(row.problem))


def _problem(content: dict[str, Any]) -> Problem:
    try:
        return problem_of(content)
    except ValueError:  # a function that is not registered here: the row can be shown all the same
        data: dict[str, Any] = {name: value for name, value in content.items() if name not in ("registered", "step")}
        data = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
        step = read_step(content["step"]) if "step" in content else Step.none()
        return Problem.model_construct(None, **data, step=step)


def _order(problem: Problem) -> tuple[Any, ...]:
    text = [str(problem.activation), str(problem.teacher), problem.gradient, problem.weights, problem.readout]
    sizes = [problem.n, problem.d, problem.N, problem.noise, problem.step.constant]
    return (*text, *sizes, problem.step.exponent, problem.ridge)
