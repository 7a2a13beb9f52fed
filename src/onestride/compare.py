"""`compare`: do theory and simulation agree, and with what certainty?

A predicted number p and a measured mean m ± e over s seeds agree when |p − m| ≤ max(k·e, floor·|m|). k is the two-sided
99 % quantile of Student's t with s − 1 degrees of freedom, so an exact theory is called wrong once in a hundred rows at
most. The floor (2 % of an error, 10 % of a gain) is what a theory of the limit may miss at finite size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from scipy.stats import t as student

from onestride.functions import InputError
from onestride.problem import Problem
from onestride.result import QUANTITIES, Estimate, Prediction, Simulation
from onestride.simulate.run import Progress, seed_tuple, simulate
from onestride.theory.predict import predict

ERROR_FLOOR, GAIN_FLOOR, CONFIDENCE = 0.02, 0.10, 0.99


@dataclass(frozen=True)
class Row:
    """One quantity: predicted, measured ± standard error, z = (predicted − measured)/stderr, and whether they agree."""

    quantity: str
    predicted: float
    measured: float
    stderr: float
    agrees: bool

    @property
    def z(self) -> float:
        """Distance in standard errors."""
        return (self.predicted - self.measured) / self.stderr if self.stderr > 0 else math.nan

    @property
    def gap(self) -> float:
        """Relative distance."""
        return (self.predicted - self.measured) / abs(self.measured) if self.measured else math.nan


@dataclass(frozen=True)
class Comparison:
    """Theory beside simulation for one problem."""

    problem: Problem
    prediction: Prediction = field(repr=False)
    simulation: Simulation = field(repr=False)
    rows: tuple[Row, ...]
    verdict: str

    @property
    def agrees(self) -> bool:
        """True when every row agrees."""
        return all(row.agrees for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Numbers and words, ready for JSON."""

        def number(x: float) -> float | None:
            return x if math.isfinite(x) else None

        rows = [
            {
                "quantity": row.quantity,
                "predicted": number(row.predicted),
                "measured": number(row.measured),
                "stderr": number(row.stderr),
                "z": number(row.z),
                "gap": number(row.gap),
                "agrees": row.agrees,
            }
            for row in self.rows
        ]
        words = {"verdict": self.verdict, "agrees": self.agrees, "method": self.prediction.method}
        return words | {"seeds": list(self.simulation.seeds), "rows": rows}


def agree(predicted: float, measured: Estimate, floor: float) -> Row:
    """Judge one number; the rule is in the module's first lines."""
    seeds = measured.values.shape[0]
    mean, stderr = float(measured.mean), float(measured.stderr)
    k = float(student.ppf((1 + CONFIDENCE) / 2, seeds - 1))
    return Row("", predicted, mean, stderr, bool(abs(predicted - mean) <= max(k * stderr, floor * abs(mean))))


def compare(
    problem: Problem,
    seeds: int | Iterable[int] = 8,
    *,
    method: str = "auto",
    device: str | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Predict and simulate one problem, on a device as in `simulate`, and say in words whether the two agree."""
    chosen = seed_tuple(seeds)
    if len(chosen) < 2:
        raise InputError(f"seeds must be 2 or more to give an error bar, got {len(chosen)}")
    prediction = predict(problem, method=method)
    simulation = simulate(problem, chosen, device=device, progress=progress)
    rows = []
    for name in (*QUANTITIES, "train_gain", "test_gain"):
        if name.endswith("gain") and problem.step.constant == 0:
            continue
        floor = GAIN_FLOOR if name.endswith("gain") else ERROR_FLOOR
        row = agree(getattr(prediction, name), getattr(simulation, name), floor)
        rows.append(Row(name, row.predicted, row.measured, row.stderr, row.agrees))
    return Comparison(problem, prediction, simulation, tuple(rows), _verdict(prediction, rows, len(chosen)))


def _verdict(prediction: Prediction, rows: list[Row], seeds: int) -> str:
    k = student.ppf((1 + CONFIDENCE) / 2, seeds - 1)
    missed = [row for row in rows if not row.agrees]
    rule = (
        f"within {k:.1f} standard errors ({CONFIDENCE:.0%} of Student's t at {seeds} seeds) "
        f"or {ERROR_FLOOR:.0%} ({GAIN_FLOOR:.0%} for gains)"
    )
    if not missed:
        return f"Theory ({prediction.method}) and simulation agree: all {len(rows)} numbers {rule}."
    worst = "; ".join(
        f"{row.quantity} predicted {row.predicted:.4g}, measured {row.measured:.4g} ± {row.stderr:.2g} "
        f"({row.gap:+.1%}, z = {row.z:+.1f})"
        for row in missed
    )
    return (
        f"Theory ({prediction.method}) and simulation differ in {len(missed)} of {len(rows)} numbers: {worst}. "
        f"The others agree {rule}. What to expect of this theory: {prediction.accuracy}."
    )
