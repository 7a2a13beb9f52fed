"""A claim of the paper, checked: what it says, what was predicted, what was measured, and a verdict in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onestride.compare import Agreement, Check, Row, check, seeds_words, together
from onestride.plot import Panel
from onestride.problem import Problem, Step
from onestride.result import Estimate, Prediction, PredictionGrid, Status

HOLDS, PARTLY, NOT_YET, FAILS = "holds", "holds in part", "not at this size", "does not hold"
UNDECIDED = "undecided"
VERDICTS = (HOLDS, PARTLY, NOT_YET, FAILS, UNDECIDED)


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


def slope_check(slope: tuple[float, float], seeds: int, high: float, among: int = 1) -> Check:
    """Whether an exponent of `growth` is at most `high`, with the degrees of freedom of the largest n: the fewest."""
    return Check(*slope, seeds, high=high, among=among)


def count_check(counts: Estimate, low: float, high: float, among: int = 1) -> Check:
    """Whether a mean count lies in [low, high]; equal counts in s seeds still leave room for one other in s."""
    seeds = counts.values.shape[0]
    return Check(float(counts.mean), max(float(counts.stderr), 1 / seeds), seeds, low, high, among)


def short(checks: Iterable[Check | Row], fails: str = FAILS) -> str:
    """`decide` in one of the VERDICTS alone, for the table; `undecided` has the seeds for the text."""
    return decide(checks, fails=fails).split(":")[0]


def undecided(*checks: Check | Row) -> str:
    """A sentence on what these seeds do not decide; nothing when they decide everything."""
    return f" Undecided at these seeds: {seeds_words(checks)}." if together(checks) is Agreement.UNDECIDED else ""


def decide(checks: Iterable[Check | Row], *, holds: str = HOLDS, fails: str = FAILS) -> str:
    """Three outcomes in words: `holds` when all agree, `fails` when one differs, else undecided and for want of how many seeds."""
    found = list(checks)
    outcome = together(found)
    if outcome is Agreement.UNDECIDED:
        return f"{UNDECIDED}: {seeds_words(found)}"
    return holds if outcome is Agreement.AGREES else fails


def by_name(checks: Mapping[str, Sequence[Check | Row]]) -> dict[Agreement, list[str]]:
    """Names by the joint outcome of their checks."""
    outcomes = {name: together(found) for name, found in checks.items()}
    return {outcome: [name for name in checks if outcomes[name] is outcome] for outcome in Agreement}


def decide_each(checks: Mapping[str, Sequence[Check | Row]]) -> str:
    """Holds when it does for every name, does not when for none; else in part, naming those that differ or are undecided."""
    names = by_name(checks)
    agree, differ, unclear = (names[o] for o in (Agreement.AGREES, Agreement.DIFFERS, Agreement.UNDECIDED))
    needed = (
        f"{UNDECIDED} for {', '.join(unclear)}: {seeds_words(c for name in unclear for c in checks[name])}"
        if unclear
        else ""
    )
    if not differ:
        return needed or HOLDS
    wrong = f"not for {', '.join(differ)}" if agree or unclear else ""
    start = f"{PARTLY}: {wrong}" if agree else f"{FAILS}: {wrong}" if wrong else FAILS
    return f"{start}; {needed}" if needed else start


def tally(rows: Sequence[Check | Row]) -> str:
    """How many agree, differ and are undecided."""
    counts = [sum(row.outcome is outcome for row in rows) for outcome in Agreement]
    words = f"{counts[0]} of {len(rows)} agree, {counts[1]} differ, {counts[2]} are undecided"
    return f"{words} ({seeds_words(rows)})" if counts[2] else words


def worded(difference: Estimate, room: float, *, above: str, below: str, equal: str, unclear: str) -> str:
    """The sentence that a measured difference allows: equal within ± room, clearly above or below 0, or none of them."""
    if check(difference, -room, room).agrees:
        return equal
    return above if check(difference, low=0).agrees else below if check(difference, high=0).agrees else unclear


def marks(*theory: Prediction | PredictionGrid) -> str:
    """A sentence on how many numbers the theory itself marks as inaccurate; nothing when there are none."""
    found = [status is Status.INACCURATE for t in theory for status in np.ravel(np.asarray(t.status, object))]
    return f" The theory itself marks {sum(found)} of its {len(found)} problems as inaccurate." if any(found) else ""
