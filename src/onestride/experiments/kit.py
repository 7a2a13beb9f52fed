"""What experiments share: the problems they ask about, and the numbers, rows, series and panels made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onestride.compare import Check, Pair
from onestride.plot import Panel, Series
from onestride.problem import Problem, Step
from onestride.result import Estimate
from onestride.theory.plateau import window

THRESHOLDS = ((0.0, "0"), (0.25, "1/4"), (1 / 3, "1/3"), (0.375, "3/8"))
EXPONENT = "α = log η / log n"
QUADRATIC = (0.0, 1.0, 2**-0.5)  # H₁ + H₂/√2
ERRORS = {"train_loss": "ridge objective", "test_error": "test error"}


def problem_at(n: int, *, exponent: float | None = None, constant: float = 1.0, **fields: Any) -> Problem:
    """D = n/2, N = 3n/2, teacher H₁ + H₂/√2, noise 0.5, λ = 0.1 and the step c·n^α, unless `fields` say otherwise."""
    shape: dict[str, Any] = {"n": n, "d": n // 2, "N": 3 * n // 2, "teacher": QUADRATIC, "noise": 0.5, "ridge": 0.1}
    step = Step(constant=constant) if exponent is None else Step(constant=constant, exponent=exponent)
    return Problem(**shape | {"step": step} | fields)


def paper_problem(n: int, **fields: Any) -> Problem:
    """The talk's setting 2: as `problem_at`, with ReLU, no noise and the labels-only gradient."""
    return problem_at(n, **{"activation": "relu", "noise": 0.0, "gradient": "labels"} | fields)


def pm(estimate: Estimate, digits: int = 3) -> str:
    """Mean ± standard error."""
    return f"{float(estimate.mean):.{digits}g} ± {float(estimate.stderr):.1g}"


def row_of(found: Pair | Check, **labels: Any) -> dict[str, Any]:
    """A line of the deciding numbers: labels, theory where there is one, measured ± stderr, outcome."""
    theory, check = ({"theory": float(found.predicted)}, found.check) if isinstance(found, Pair) else ({}, found)
    return labels | theory | {"measured": check.mean, "stderr": check.stderr, "outcome": found.outcome.name.lower()}


def points(label: str, x: Sequence[float], estimate: Estimate, **options: Any) -> Series:
    """Measured means with their standard errors."""
    return Series(label, x, np.ravel(estimate.mean), np.ravel(estimate.stderr), "simulation", **options)


def inside_windows(exponents: Sequence[float]) -> list[float]:
    """Those below 1/2 that are not a threshold."""
    return [float(a) for a in exponents if a < 0.5 and not np.isnan(window(a))]


def exponent_panel(title: str, label: str, series: Sequence[Series], lines: Sequence[tuple[float, str]] = ()) -> Panel:
    """A quantity against α with the thresholds of the windows."""
    return Panel(title, EXPONENT, label, series, verticals=THRESHOLDS, horizontals=lines)
