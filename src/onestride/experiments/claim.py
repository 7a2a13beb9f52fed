"""A claim of the paper, checked: what it says, what was predicted, what was measured, and a verdict in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onestride.plot import Panel
from onestride.problem import Problem, Step
from onestride.result import Estimate

HOLDS, PARTLY, NOT_YET, FAILS = "holds", "holds in part", "not at this size", "does not hold"


@dataclass(frozen=True)
class Claim:
    """One line of the claims table; `detail` has the numbers and the trend in n, `panels` the figure."""

    number: str
    statement: str
    predicted: str
    measured: str
    verdict: str
    detail: str
    rows: list[dict[str, Any]] = field(repr=False)
    panels: tuple[Panel, ...] = field(default=(), repr=False)
    caption: str = field(default="", repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Words and numbers, without the figure."""
        names = ("number", "statement", "predicted", "measured", "verdict", "detail", "rows")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Sizes:
    """Sample sizes of the trend in n, and seeds at the largest of them (smaller ones get more)."""

    ns: tuple[int, ...]
    seeds: int

    def seeds_at(self, n: int) -> int:
        """More seeds where they are cheap: the cost of one grows like n³."""
        return int(min(4 * self.seeds, self.seeds * (self.ns[-1] / n) ** 1.5))


SIZES = {
    "small": Sizes((150, 300), 4),
    "standard": Sizes((400, 800, 1600), 6),
    "large": Sizes((1000, 2000, 4000, 8000), 8),
}


def paper_problem(n: int, **changes: Any) -> Problem:
    """The talk's setting 2 at d = n/2, N = 3n/2: ReLU, teacher H₁ + H₂/√2, no noise, the labels-only gradient."""
    base = Problem(
        n=n, d=n // 2, N=3 * n // 2, activation="relu", teacher=(0, 1, 2**-0.5), ridge=0.1, gradient="labels"
    )
    if "exponent" in changes:
        changes["step"] = Step(constant=changes.pop("constant", 1.0), exponent=changes.pop("exponent"))
    return base.replace(**changes)


def pm(estimate: Estimate, digits: int = 3) -> str:
    """Mean ± standard error, for the table."""
    return f"{float(estimate.mean):.{digits}g} ± {float(estimate.stderr):.1g}"


def growth(ns: Sequence[float], estimates: Sequence[Estimate]) -> tuple[float, float]:
    """Exponent e of a power law n^e through positive estimates, and its standard error, by weighted least squares."""
    x = np.log(np.asarray(ns, float))
    y = np.log([float(e.mean) for e in estimates])
    sd = np.array([float(e.stderr) / float(e.mean) for e in estimates])
    weights = 1 / sd**2
    centre = weights @ x / weights.sum()
    spread = weights @ (x - centre) ** 2
    return float(weights @ ((x - centre) * y) / spread), float(spread**-0.5)
