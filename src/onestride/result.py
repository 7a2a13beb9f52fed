"""Frozen results. Failure is a value with a sentence in it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onestride._errors import InputError
from onestride._numerics import Array, Float
from onestride.problem import Problem

QUANTITIES = ("train_loss", "train_mse", "test_error")


class Status(enum.Enum):
    """How a prediction ended; the value is the sentence shown to the user."""

    SOLVED = "solved"
    THRESHOLD = "the exponent lies on a threshold (ℓ−1)/(2ℓ), where the limit depends on the constant of the step"
    INACCURATE = "the equations are solved, but for this problem their numbers are known to be off by more than 5 %"
    ASSUMPTION = "an assumption of this theory does not hold for this problem"
    NOT_CONVERGED = "the equations were not solved to the required accuracy"


class TheoryError(ValueError):
    """There is no (converged) theory value for this problem; the sentence says why."""


@dataclass(frozen=True)
class Prediction:
    """What a theory says about one problem.

    `train_loss` is the ridge objective (1/n)‖ỹ − Fâ‖² + λ‖â‖², `train_mse` its first term, `test_error` the error on
    fresh labels (noise included). `residual` and `iterations` certify the solution of the theory's equations.
    """

    problem: Problem
    method: str
    train_loss: float
    train_mse: float
    test_error: float
    status: Status
    message: str
    accuracy: str
    residual: float
    iterations: int
    untrained: Prediction | None = field(default=None, repr=False)

    @property
    def train_gain(self) -> float:
        """Fall of the ridge objective due to the step."""
        return 0.0 if self.untrained is None else self.untrained.train_loss - self.train_loss

    @property
    def test_gain(self) -> float:
        """Fall of the test error due to the step."""
        return 0.0 if self.untrained is None else self.untrained.test_error - self.test_error

    def to_dict(self) -> dict[str, Any]:
        """Numbers and words, ready for JSON (NaN becomes None)."""
        row: dict[str, Any] = {
            name: _number(getattr(self, name)) for name in (*QUANTITIES, "train_gain", "test_gain", "residual")
        }
        row |= {"method": self.method, "status": self.status.name.lower(), "message": self.message}
        row |= {"accuracy": self.accuracy, "iterations": self.iterations}
        if self.untrained is not None:
            row["untrained"] = {name: _number(getattr(self.untrained, name)) for name in QUANTITIES}
        return row


@dataclass(frozen=True)
class Errors:
    """Arrays a theory returns for steps × penalties; `status` holds Status members, `message` their sentences."""

    train_loss: Array
    train_mse: Array
    test_error: Array
    residual: Array
    iterations: Array
    status: Array
    message: Array


@dataclass(frozen=True)
class PredictionGrid:
    """Predictions over exponents (rows) and penalties (columns); index it to get one `Prediction`."""

    problem: Problem
    method: str
    exponents: Array
    ridges: Array
    trained: Errors = field(repr=False)
    untrained: Errors = field(repr=False)
    accuracy: str = ""

    @property
    def train_loss(self) -> Array:
        """Ridge objective, exponents × penalties."""
        return self.trained.train_loss

    @property
    def train_mse(self) -> Array:
        """Mean squared training residual, exponents × penalties."""
        return self.trained.train_mse

    @property
    def test_error(self) -> Array:
        """Test error, noise included, exponents × penalties."""
        return self.trained.test_error

    @property
    def train_gain(self) -> Array:
        """Fall of the ridge objective due to the step."""
        return self.untrained.train_loss - self.trained.train_loss

    @property
    def test_gain(self) -> Array:
        """Fall of the test error due to the step."""
        return self.untrained.test_error - self.trained.test_error

    @property
    def status(self) -> Array:
        """One Status per cell."""
        return self.trained.status

    def __getitem__(self, cell: tuple[int, int]) -> Prediction:
        i, j = cell
        problem = self.problem.at(exponent=float(self.exponents[i]), ridge=float(self.ridges[j]))
        base = self._prediction(problem, self.untrained, (0, j), None)
        return self._prediction(problem, self.trained, (i, j), base)

    def _prediction(self, problem: Problem, e: Errors, at: tuple[int, int], base: Prediction | None) -> Prediction:
        return Prediction(
            problem,
            self.method,
            float(e.train_loss[at]),
            float(e.train_mse[at]),
            float(e.test_error[at]),
            e.status[at],
            str(e.message[at]),
            self.accuracy,
            float(e.residual[at]),
            int(e.iterations[at]),
            base,
        )


@dataclass(frozen=True)
class Estimate:
    """A measured quantity: one value per seed along the first axis."""

    values: Float[Array, "seeds *shape"]

    @property
    def mean(self) -> Any:
        """Mean over seeds."""
        return self.values.mean(0)

    @property
    def stderr(self) -> Any:
        """Standard error of the mean; NaN for a single seed, which says nothing about spread."""
        s = self.values.shape[0]
        if s < 2:
            return np.full(self.values.shape[1:], np.nan)[()]
        return self.values.std(0, ddof=1) / np.sqrt(s)

    def __sub__(self, other: Estimate) -> Estimate:
        """Paired difference, seed by seed."""
        return Estimate(self.values - other.values)

    def __getitem__(self, cell: Any) -> Estimate:
        return Estimate(self.values[(slice(None), *cell)] if isinstance(cell, tuple) else self.values[:, cell])

    def __format__(self, spec: str) -> str:
        return f"{self.mean:{spec}} ± {self.stderr:{spec}}"


@dataclass(frozen=True)
class Simulation:
    """Measured errors; the names of `Prediction`, each an `Estimate`. For a grid the estimates have two more axes."""

    problem: Problem
    seeds: tuple[int, ...]
    train_loss: Estimate
    train_mse: Estimate
    test_error: Estimate
    untrained: Simulation | None = field(default=None, repr=False)
    exponents: Array | None = None
    ridges: Array | None = None
    spot_check: float | None = None  # float32 only: largest relative difference of one cell from float64

    def cell(self, i: int, j: int) -> Simulation:
        """One exponent and penalty of a grid."""
        if self.exponents is None or self.ridges is None:
            raise IndexError("this simulation is a single cell, not a grid")
        problem = self.problem.at(exponent=float(self.exponents[i]), ridge=float(self.ridges[j]))

        def one(s: Simulation, base: Simulation | None) -> Simulation:
            at = (i, j)
            errors = (s.train_loss[at], s.train_mse[at], s.test_error[at])
            return Simulation(problem, s.seeds, *errors, untrained=base, spot_check=s.spot_check)

        return one(self, None if self.untrained is None else one(self.untrained, None))

    @property
    def train_gain(self) -> Estimate:
        """Fall of the ridge objective due to the step, paired by seed."""
        return self._before.train_loss - self.train_loss

    @property
    def test_gain(self) -> Estimate:
        """Fall of the test error due to the step, paired by seed."""
        return self._before.test_error - self.test_error

    @property
    def _before(self) -> Simulation:
        if self.untrained is None:
            raise InputError("a gain needs the network without the step; simulate with untrained=True")
        return self.untrained

    def to_dict(self) -> dict[str, Any]:
        """Means, standard errors and values, ready for JSON."""
        row: dict[str, Any] = {"seeds": list(self.seeds)}
        if self.spot_check is not None:
            row["spot_check"] = self.spot_check
        for name in QUANTITIES if self.untrained is None else (*QUANTITIES, "train_gain", "test_gain"):
            estimate: Estimate = getattr(self, name)
            row[name] = {
                "mean": _plain(estimate.mean),
                "stderr": _plain(estimate.stderr),
                "values": _plain(estimate.values),
            }
        if self.untrained is not None:
            row["untrained"] = {name: {"mean": _plain(getattr(self.untrained, name).mean)} for name in QUANTITIES}
        return row


def _number(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None


def _plain(x: Any) -> Any:
    """Nested lists with None where a number is not finite: JSON has no NaN."""
    if isinstance(x, np.ndarray) and x.ndim:
        return [_plain(v) for v in x]
    return _number(float(x))
