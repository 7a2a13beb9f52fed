"""Frozen results. Failure is a value with a sentence in it."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from onestride import _html
from onestride._errors import InputError
from onestride._numerics import Array, Float, Int
from onestride.drawing import Panel, Series
from onestride.estimate import Estimate as Estimate
from onestride.estimate import Luck as Luck
from onestride.estimate import heavy_tails, label_skewness
from onestride.problem import Problem
from onestride.shown import Result as Result
from onestride.shown import Variables, text
from onestride.shown import json_text as json_text
from onestride.shown import plain as plain

QUANTITIES = ("train_loss", "train_mse", "test_error")
GAINS = {"train_gain": "train_loss", "test_gain": "test_error"}  # falls due to the step, and of what
LABELS = {
    "train_loss": "ridge objective",
    "train_mse": "training error",
    "test_error": "test error",
    "train_gain": "gain in ridge objective",
    "test_gain": "gain in test error",
}
_ERRORS = "test error E(y − âᵀσ(Wx))²,  â = argmin (1/n)‖ỹ − Fa‖² + λ‖a‖²"
_OFF = ", known to be off"  # after the name of what a theory marks
_MOST_CURVES = 5  # of one figure: as many colours and line styles as there are


class Status(enum.Enum):
    """How a prediction ended; the value is the sentence shown to the user."""

    SOLVED = "solved"
    THRESHOLD = "the exponent lies on a threshold (ℓ−1)/(2ℓ), where the limit depends on the constant of the step"
    INACCURATE = "the equations are solved, but for this problem their numbers are known to be off by more than 5 %"
    ASSUMPTION = "an assumption of this theory does not hold for this problem"
    NOT_CONVERGED = "the equations were not solved to the required accuracy"


class TheoryError(ValueError):
    """There is no (converged) theory value for this problem; the sentence says why.

    >>> try:
    ...     one.predict(one.Problem(n=100, d=50, N=8))
    ... except one.TheoryError as error:
    ...     print(error)
    the theory describes large problems and needs n, d, N and n_step of at least 10, got n = 100, d = 50, N = 8, n_step = 100
    """


def theory_series(label: str, x: ArrayLike, y: ArrayLike, status: Any, colour: int = 0) -> list[Series]:
    """A theory's curve; numbers whose status is not solved as a second, dashed one that says so."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    solved = np.array([s is Status.SOLVED for s in np.ravel(np.asarray(status, object))])
    series: list[Series] = []
    if solved.any() or not np.isfinite(y).any():
        series.append(Series(label, x, np.where(solved, y, np.nan), colour=colour))
    if np.isfinite(y[~solved]).any():
        series.append(Series(label + _OFF, x, np.where(solved, np.nan, y), kind="marked", colour=colour))
    return series


@dataclass(frozen=True, repr=False)
class Prediction(Result):
    """What a theory says about one problem.

    `train_loss` is the ridge objective (1/n)‖ỹ − Fâ‖² + λ‖â‖², `train_mse` its first term, `test_error` the error on
    fresh labels (noise included). `residual` and `iterations` certify the solution of the theory's equations.
    """

    _told = (*QUANTITIES, *GAINS, "residual", "method", "status", "message", "accuracy", "iterations", "untrained")
    _brief = ("test_error", "test_gain", "train_loss", "train_gain", "train_mse", "status")
    _equation = _ERRORS

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

    def _second_line(self) -> str:
        return f"{self.method}: {self.accuracy}" if self.status is Status.SOLVED else self.message

    def panels(self) -> Sequence[Panel]:
        """The three errors after the step and without it."""
        parts = [("predicted", self)] + ([] if self.untrained is None else [("without the step", self.untrained)])
        shown = {label + _OFF * (p.status is not Status.SOLVED): p for label, p in parts}
        return [_by_quantity({label: [getattr(p, name) for name in QUANTITIES] for label, p in shown.items()})]


def _by_quantity(values: dict[str, list[float]], errors: dict[str, list[float]] | None = None) -> Panel:
    """The three errors side by side, one set of points for each name."""
    places, error = range(len(QUANTITIES)), errors or {}
    series = [
        Series(name, [i + 0.12 * k for i in places], found, error.get(name), _kind_of_points(name), colour=4 * k)
        for k, (name, found) in enumerate(values.items())
    ]
    return Panel("errors", "", "error", series, xticks=list(places), xnames=[LABELS[name] for name in QUANTITIES])


def _kind_of_points(name: str) -> Literal["marked", "simulation"]:
    return "marked" if name.endswith(_OFF) else "simulation"


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

    @classmethod
    def none(cls, shape: tuple[int, int], status: Status, message: str) -> Errors:
        """No number anywhere, and why."""
        nan, why = np.full(shape, np.nan), (np.full(shape, status, object), np.full(shape, message, object))
        return cls(nan, nan, nan, nan, np.zeros(shape, int), *why)


@dataclass(frozen=True, repr=False)
class PredictionGrid(Result):
    """Predictions over exponents (rows) and penalties (columns); index it to get one `Prediction`."""

    _told = ("method", "exponents", "ridges", *QUANTITIES, *GAINS, "status", "accuracy")
    _brief = ("exponents", "ridges", "test_error", "test_gain")
    _equation = _ERRORS

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

    def _second_line(self) -> str:
        solved = sum(one is Status.SOLVED for one in self.status.flat)
        return f"{self.method}: {solved} of {self.status.size} cells solved; {self.accuracy}"

    def _picture(self) -> str:
        return _grid_picture(self.problem, self.exponents, self.ridges, self.test_error)

    def panels(self) -> Sequence[Panel]:
        """Test error and gain against the exponent, a curve for each penalty; against the penalty of one exponent."""
        along, curves = _curves(self.problem, self.exponents, self.ridges)
        found = {LABELS[name]: getattr(self, name) for name in ("test_error", "test_gain")}

        def series(values: Array) -> list[Series]:
            drawn = (theory_series(name, along.x, values[at], self.status[at], k) for k, (name, at) in curves)
            return [one for parts in drawn for one in parts]

        return [along.panel(name, series(values)) for name, values in found.items()]

    def _axes(self) -> dict[str, Sequence[Any]]:
        return {"exponent": cast("Any", self.exponents), "ridge": cast("Any", self.ridges)}

    def _variables(self) -> Variables:
        return {name: (("exponent", "ridge"), getattr(self, name)) for name in (*QUANTITIES, *GAINS, "status")}

    def __getitem__(self, cell: tuple[int, int]) -> Prediction:
        i, j = cell
        problem = self.problem.at(exponent=float(self.exponents[i]), ridge=float(self.ridges[j]))
        base = self._prediction(problem, self.untrained, (0, j), None)
        return self._prediction(problem, self.trained, (i, j), base)

    def _prediction(self, problem: Problem, e: Errors, at: tuple[int, int], base: Prediction | None) -> Prediction:
        errors = float(e.train_loss[at]), float(e.train_mse[at]), float(e.test_error[at])
        ended = e.status[at], str(e.message[at]), self.accuracy, float(e.residual[at]), int(e.iterations[at])
        return Prediction(problem, self.method, *errors, *ended, base)


@dataclass(frozen=True)
class _Along:
    """The axis a grid is drawn along."""

    x: Array
    name: str
    log: bool

    def panel(self, quantity: str, series: Sequence[Series]) -> Panel:
        return Panel(quantity, self.name, quantity, series, logx=self.log)


def _curves(problem: Problem, exponents: Array, ridges: Array) -> tuple[_Along, list[tuple[int, tuple[str, Any]]]]:
    """The axis to draw along, from left to right, and the curves in turn: their labels and their places in exponents × penalties."""
    if exponents.size == 1 and ridges.size > 1:
        order = np.argsort(ridges)
        return _Along(ridges[order], "penalty λ", True), [(0, (f"α = {exponents[0]:g}", (0, order)))]
    shown = np.unique(np.linspace(0, ridges.size - 1, min(ridges.size, _MOST_CURVES)).round().astype(int))
    order = np.argsort(exponents)
    curves = [(f"λ = {ridges[j]:.3g}", (order, int(j))) for j in shown]
    return _Along(exponents[order], exponent_words(problem), False), list(enumerate(curves))


def exponent_words(problem: Problem) -> str:
    """The name of the axis of α, with c where it is not 1."""
    c = problem.step.constant
    return "exponent α" if c in (0, 1) else f"exponent α of η = {c:g}·n^α"


def _grid_picture(problem: Problem, exponents: Array, ridges: Array, values: Array) -> str:
    along, curves = _curves(problem, exponents, ridges)
    words = f"test error against the {along.name}: {', '.join(label for _, (label, _) in curves)}"
    x = np.log(along.x) if along.log else along.x
    return _html.curves(x, [values[at] for _, (_, at) in curves], words=words)


@dataclass(frozen=True, repr=False)
class Simulation(Result):
    """Measured errors; the names of `Prediction`, each an `Estimate`. For a grid the estimates have two more axes."""

    _told = ("seeds", "tails", "spot_check", "untrained")
    _equation = _ERRORS

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
    def tails(self) -> str | None:
        """That ± is too narrow with so few seeds, where the labels have heavy tails, and how many would do; else None."""
        return heavy_tails(label_skewness(self.problem), len(self.seeds))

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
        estimates: dict[str, Estimate] = {name: getattr(self, name) for name in self._names}
        return super().to_dict() | {name: plain(e) | {"values": plain(e.values)} for name, e in estimates.items()}

    def _within(self) -> dict[str, Any]:
        return {name: {"mean": plain(getattr(self, name).mean)} for name in QUANTITIES}

    @property
    def _names(self) -> tuple[str, ...]:
        return QUANTITIES if self.untrained is None else (*QUANTITIES, *GAINS)

    def _lines(self) -> Iterator[tuple[str, str]]:
        yield "seeds", str(len(self.seeds))
        if self.exponents is not None and self.ridges is not None:
            yield "exponents", text(plain(self.exponents))
            yield "ridges", text(plain(self.ridges))
        yield from ((name, text(plain(getattr(self, name)))) for name in self._names)
        if self.tails:
            yield "tails", self.tails

    def _first_line(self) -> str:
        shown = [
            name for name in ("test_error", "test_gain", "train_loss", "train_gain", "train_mse") if name in self._names
        ]
        return ", ".join(f"{name} {text(plain(getattr(self, name)))}" for name in shown)

    def _second_line(self) -> str:
        if self.tails:
            return self.tails
        grid = (
            ""
            if self.exponents is None or self.ridges is None
            else f", {self.exponents.size} exponents × {self.ridges.size} penalties"
        )
        if len(self.seeds) == 1:
            return f"one seed{grid}: no error bar"
        return f"mean ± standard error over {len(self.seeds)} seeds{grid}; gains are paired by seed"

    def _picture(self) -> str:
        if self.exponents is None or self.ridges is None:
            return ""
        return _grid_picture(self.problem, self.exponents, self.ridges, self.test_error.mean)

    def panels(self) -> Sequence[Panel]:
        """The three errors with their error bars; of a grid test error and gain along the exponent or the penalty."""
        if self.exponents is None or self.ridges is None:
            shown = {"simulated": self} | ({} if self.untrained is None else {"without the step": self.untrained})
            means, errors = (
                {label: [float(getattr(getattr(s, name), part)) for name in QUANTITIES] for label, s in shown.items()}
                for part in ("mean", "stderr")
            )
            return [_by_quantity(means, errors)]
        along, curves = _curves(self.problem, self.exponents, self.ridges)
        found = {LABELS[name]: getattr(self, name) for name in ("test_error", "test_gain") if name in self._names}

        def series(e: Estimate) -> list[Series]:
            return [Series(name, along.x, e.mean[at], e.stderr[at], "simulation", k) for k, (name, at) in curves]

        return [along.panel(name, series(e)) for name, e in found.items()]

    def _axes(self) -> dict[str, Sequence[Any]]:
        axes: dict[str, Any] = {"seed": self.seeds}
        if self.exponents is not None:
            axes |= {"exponent": self.exponents, "ridge": self.ridges}
        return axes

    def _variables(self) -> Variables:
        return {name: (tuple(self._axes()), getattr(self, name).values) for name in self._names}
