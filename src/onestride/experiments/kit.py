"""What experiments share: the problems they ask about, and the numbers, rows, series and panels made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onestride._numerics import Array
from onestride.compare import Check, Pair
from onestride.plot import Panel, Series
from onestride.problem import Problem, Step
from onestride.result import Estimate, PredictionGrid, Simulation
from onestride.theory.baselines import baselines
from onestride.theory.plateau import window

THRESHOLDS = ((0.0, "0"), (0.25, "1/4"), (1 / 3, "1/3"), (0.375, "3/8"))
EXPONENT = "α = log η / log n"
QUADRATIC = (0.0, 1.0, 2**-0.5)  # H₁ + H₂/√2
ERRORS = {"train_loss": "ridge objective", "test_error": "test error"}


def problem_at(n: int, *, exponent: float | None = None, constant: float = 1.0, **fields: Any) -> Problem:
    """D = n/2, N = 3n/2, teacher H₁ + H₂/√2, noise 0.5, λ = 0.1 and the step c·n^α, unless `fields` say otherwise."""
    shape: dict[str, Any] = {"n": n, "d": n // 2, "N": 3 * n // 2, "teacher": QUADRATIC, "noise": 0.5, "ridge": 0.1}
    shape["step"] = Step(constant=constant) if exponent is None else Step(constant=constant, exponent=exponent)
    return Problem(**shape | fields)


def paper_problem(n: int, **fields: Any) -> Problem:
    """The talk's setting 2: as `problem_at`, with ReLU, no noise and the labels-only gradient."""
    return problem_at(n, **{"activation": "relu", "noise": 0.0, "gradient": "labels"} | fields)


def pm(estimate: Estimate, digits: int = 3, kind: str = "g") -> str:
    """Mean ± standard error; `kind` "f" counts digits behind the point."""
    return f"{float(estimate.mean):.{digits}{kind}} ± {float(estimate.stderr):.1g}"


def mean_of(estimate: Estimate, name: str = "measured") -> dict[str, float]:
    """Mean and standard error of a line of numbers."""
    return {name: float(estimate.mean), "stderr": float(estimate.stderr)}


def row_of(found: Pair | Check, **labels: Any) -> dict[str, Any]:
    """A line of the deciding numbers: labels, theory where there is one, measured ± stderr, outcome."""
    theory, check = ({"theory": float(found.predicted)}, found.check) if isinstance(found, Pair) else ({}, found)
    return labels | theory | {"measured": check.mean, "stderr": check.stderr, "outcome": found.outcome.name.lower()}


def points(label: str, x: ArrayLike, found: Estimate | Sequence[Estimate], colour: int = 0) -> Series:
    """Measured means with their standard errors, from one estimate of many numbers or one for each."""
    parts = [found] if isinstance(found, Estimate) else found
    mean, error = (np.concatenate([np.ravel(getattr(e, name)) for e in parts]) for name in ("mean", "stderr"))
    return Series(label, x, mean, error, "simulation", colour)


def both_models(found: Simulation) -> Array:
    """Test errors without and with the first step of a grid, seeds × 2 × penalties."""
    assert found.untrained is not None
    return np.stack([model.test_error.values[:, 0] for model in (found.untrained, found)], axis=1)


def both_predicted(grids: Sequence[PredictionGrid]) -> Array:
    """The same of predictions, grids × 2 × penalties."""
    return np.array([[grid.untrained.test_error[0], grid.test_error[0]] for grid in grids])


def each(found: Estimate) -> list[Estimate]:
    """The numbers of an estimate (seeds × numbers), one by one."""
    return [found[i] for i in range(found.values.shape[1])]


def best_linear(problem: Problem) -> list[tuple[float, str]]:
    """The best linear predictor's test error, as the horizontal line of a panel."""
    return [(baselines(problem)["best-linear"].test_error, "best linear predictor")]


def inside_windows(exponents: Iterable[float]) -> list[float]:
    """Those below 1/2 that are not a threshold."""
    return [float(a) for a in exponents if a < 0.5 and not np.isnan(window(a))]


def exponent_panel(title: str, label: str, series: Sequence[Series], lines: Sequence[tuple[float, str]] = ()) -> Panel:
    """A quantity against α with the thresholds of the windows."""
    return Panel(title, EXPONENT, label, series, verticals=THRESHOLDS, horizontals=lines)
