"""Frozen results. Failure is a value with a sentence in it."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from html import escape
from operator import attrgetter
from typing import Any, ClassVar, cast

import numpy as np

from onestride._errors import InputError
from onestride._numerics import Array, Float, Int
from onestride.problem import Problem

QUANTITIES = ("train_loss", "train_mse", "test_error")
GAINS = {"train_gain": "train_loss", "test_gain": "test_error"}  # falls due to the step, and of what


class Status(enum.Enum):
    """How a prediction ended; the value is the sentence shown to the user."""

    SOLVED = "solved"
    THRESHOLD = "the exponent lies on a threshold (ℓ−1)/(2ℓ), where the limit depends on the constant of the step"
    INACCURATE = "the equations are solved, but for this problem their numbers are known to be off by more than 5 %"
    ASSUMPTION = "an assumption of this theory does not hold for this problem"
    NOT_CONVERGED = "the equations were not solved to the required accuracy"


class TheoryError(ValueError):
    """There is no (converged) theory value for this problem; the sentence says why."""


class Result:
    """What every result can do: tell its numbers and words as JSON, and show itself in a notebook.

    `_told` names what is told, fields or properties; of `prediction.method` it is `method`.
    """

    _told: ClassVar[tuple[str, ...]]
    _if_any: ClassVar[tuple[str, ...]] = ("spot_check", "trained", "untrained")  # left out when there is none

    def to_dict(self) -> dict[str, Any]:
        """Numbers and words, ready for JSON: NaN becomes None, an estimate its mean and standard error."""
        told = {name.rpartition(".")[2]: attrgetter(name)(self) for name in self._told}
        return {name: plain(value) for name, value in told.items() if value is not None or name not in self._if_any}

    def _within(self) -> dict[str, Any]:
        """What is told of it as a part of another result."""
        return self.to_dict()

    def _lines(self) -> Iterator[tuple[str, str]]:
        """Names and values of the table in a notebook."""
        return ((name, _text(value)) for name, value in self.to_dict().items())

    def _repr_html_(self) -> str:
        cells = (f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in self._lines())
        return f"<table><caption>{type(self).__name__}</caption>{''.join(cells)}</table>"


def plain(value: Any) -> Any:
    """`value` as JSON has it: nested lists, None where a number is not finite, names in small letters for outcomes."""
    if isinstance(value, Result):
        return value._within()  # pyright: ignore[reportPrivateUsage]
    if isinstance(value, Problem):
        return value.to_dict()
    if isinstance(value, Estimate):
        return {"mean": plain(value.mean), "stderr": plain(value.stderr)}
    if isinstance(value, enum.Enum):
        return value.name.lower()
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in cast("Mapping[Any, Any]", value).items()}
    if is_dataclass(value):
        return {part.name: plain(getattr(value, part.name)) for part in fields(value)}
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, np.ndarray) and value.ndim:
        return [plain(one) for one in value]
    if isinstance(value, tuple | list):
        return [plain(one) for one in cast("Iterable[Any]", value)]
    number = cast("float", value)
    return float(number) if np.isfinite(number) else None


def json_text(data: Any, *, ascii_only: bool = False) -> str:
    """Results, numbers and words as the text of a JSON file: what is not finite is null."""
    return json.dumps(plain(data), indent=2, ensure_ascii=ascii_only, allow_nan=False)


def _text(value: Any) -> str:
    """A plain value in a few words: a number with four digits, mean ± standard error, the size of what is long."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        parts = cast("list[Any]", value)
        long = len(parts) > 8 or any(isinstance(one, list) for one in parts)
        return f"{' × '.join(map(str, np.shape(parts)))} values" if long else ", ".join(map(_text, parts))
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        if "stderr" in named and np.ndim(named["mean"]) == 1:
            return _text([{"mean": m, "stderr": e} for m, e in zip(named["mean"], named["stderr"], strict=True)])
        if "stderr" in named:
            return f"{_text(named['mean'])} ± {_text(named['stderr'])}"
        return ", ".join(f"{name} {_text(one)}" for name, one in named.items())
    return "–" if value is None else str(value)


@dataclass(frozen=True)
class Prediction(Result):
    """What a theory says about one problem.

    `train_loss` is the ridge objective (1/n)‖ỹ − Fâ‖² + λ‖â‖², `train_mse` its first term, `test_error` the error on
    fresh labels (noise included). `residual` and `iterations` certify the solution of the theory's equations.
    """

    _told = (*QUANTITIES, *GAINS, "residual", "method", "status", "message", "accuracy", "iterations", "untrained")

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

    def _within(self) -> dict[str, Any]:
        return {name: plain(getattr(self, name)) for name in QUANTITIES}


@dataclass(frozen=True)
class Errors:
    """Arrays a theory returns for steps × penalties; `status` holds Status members, `message` their sentences."""

    train_loss: Float[Array, "steps penalties"]
    train_mse: Float[Array, "steps penalties"]
    test_error: Float[Array, "steps penalties"]
    residual: Float[Array, "steps penalties"]
    iterations: Int[Array, "steps penalties"]
    status: Array
    message: Array


@dataclass(frozen=True)
class PredictionGrid(Result):
    """Predictions over exponents (rows) and penalties (columns); index it to get one `Prediction`."""

    _told = ("method", "exponents", "ridges", *QUANTITIES, *GAINS, "status", "accuracy")

    problem: Problem
    method: str
    exponents: Float[Array, "exponents"]
    ridges: Float[Array, "penalties"]
    trained: Errors = field(repr=False)
    untrained: Errors = field(repr=False)
    accuracy: str = ""

    @property
    def train_loss(self) -> Float[Array, "exponents penalties"]:
        """Ridge objective, exponents × penalties."""
        return self.trained.train_loss

    @property
    def train_mse(self) -> Float[Array, "exponents penalties"]:
        """Mean squared training residual, exponents × penalties."""
        return self.trained.train_mse

    @property
    def test_error(self) -> Float[Array, "exponents penalties"]:
        """Test error, noise included, exponents × penalties."""
        return self.trained.test_error

    @property
    def train_gain(self) -> Float[Array, "exponents penalties"]:
        """Fall of the ridge objective due to the step."""
        return self.untrained.train_loss - self.trained.train_loss

    @property
    def test_gain(self) -> Float[Array, "exponents penalties"]:
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
class Luck:
    """What is known of the luck in measured values, one row per seed: see `simulation.luck`.

    `moments` have expectation 0 and law that no error bar need count; `slopes` say how much of each is in the values.
    """

    freed: Float[Array, "seeds *shape"]
    slopes: Float[Array, "seeds *shape moments"]
    moments: Float[Array, "seeds moments"]

    def precise(self) -> Float[Array, "seeds *shape"]:
        """Values less slope times moment, the slopes being those of the other seeds; of one seed as they are."""
        seeds = self.moments.shape[0]
        if seeds < 2:
            return self.freed
        others = (self.slopes.sum(0) - self.slopes) / (seeds - 1)
        return self.freed - np.einsum("s...m,sm->s...", others, self.moments)


@dataclass(frozen=True)
class Estimate:
    """A measured quantity: one value per seed along the first axis.

    Values may be freed of luck whose law is known, which leaves their expectation as it is; `raw` are the plain ones.
    """

    values: Float[Array, "seeds *shape"]
    plain: Float[Array, "seeds *shape"] | None = field(default=None, repr=False)
    luck: Luck | None = field(default=None, repr=False)

    @classmethod
    def freed(cls, plain: Float[Array, "seeds *shape"], luck: Luck) -> Estimate:
        """Plain values freed of their luck."""
        return cls(luck.precise(), plain, luck)

    @property
    def raw(self) -> Estimate:
        """The plain values, as they were measured."""
        return self if self.plain is None else Estimate(self.plain)

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
        return Estimate(self.values - other.values, self.raw.values - other.raw.values)

    def __getitem__(self, cell: Any) -> Estimate:
        at: tuple[Any, ...] = (slice(None), *cast("tuple[Any, ...]", cell if isinstance(cell, tuple) else (cell,)))
        luck = self.luck and Luck(self.luck.freed[at], self.luck.slopes[at], self.luck.moments)
        return Estimate(self.values[at], self.raw.values[at], luck)

    def __format__(self, spec: str) -> str:
        return f"{self.mean:{spec}} ± {self.stderr:{spec}}"


@dataclass(frozen=True)
class Simulation(Result):
    """Measured errors; the names of `Prediction`, each an `Estimate`. For a grid the estimates have two more axes."""

    _told = ("seeds", "spot_check", "untrained")

    problem: Problem
    seeds: tuple[int, ...]
    train_loss: Estimate
    train_mse: Estimate
    test_error: Estimate
    untrained: Simulation | None = field(default=None, repr=False)
    exponents: Float[Array, "exponents"] | None = None
    ridges: Float[Array, "penalties"] | None = None
    spot_check: float | None = None  # float32 only: largest relative difference of one cell from float64

    def __getitem__(self, cell: tuple[int, int]) -> Simulation:
        """One exponent and penalty of a grid."""
        if self.exponents is None or self.ridges is None:
            raise IndexError("this simulation is a single cell, not a grid")
        i, j = cell
        problem = self.problem.at(exponent=float(self.exponents[i]), ridge=float(self.ridges[j]))

        def one(s: Simulation, base: Simulation | None) -> Simulation:
            errors = (s.train_loss[cell], s.train_mse[cell], s.test_error[cell])
            return Simulation(problem, s.seeds, *errors, untrained=base, spot_check=s.spot_check)

        return one(self, None if self.untrained is None else one(self.untrained, None))

    def cell(self, i: int, j: int) -> Simulation:
        """The same as `self[i, j]`."""
        return self[i, j]

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
        names = QUANTITIES if self.untrained is None else (*QUANTITIES, *GAINS)
        estimates: dict[str, Estimate] = {name: getattr(self, name) for name in names}
        return super().to_dict() | {name: plain(e) | {"values": plain(e.values)} for name, e in estimates.items()}

    def _within(self) -> dict[str, Any]:
        return {name: {"mean": plain(getattr(self, name).mean)} for name in QUANTITIES}
