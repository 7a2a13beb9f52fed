"""From numbers to a verdict: an enum with the words for it, and the sentences that say what decided it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import numpy as np

from onestride.comparison import Agreement, Check, check, seeds_words, together
from onestride.learning_curves import Scaling
from onestride.result import Estimate, Prediction, PredictionGrid, Status


class Verdict(StrEnum):
    """How a claim came out; `FOUND` for a question without a claim to hold or fail."""

    HOLDS = "holds"
    PARTLY = "holds in part"
    NOT_YET = "not at this size"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    FOUND = "found"

    @classmethod
    def of(cls, words: str) -> Verdict:
        """The one that the words begin with, the longest if several do."""
        return max((v for v in cls if words.startswith(v.value)), key=lambda v: len(v.value), default=cls.FOUND)


HOLDS, PARTLY, NOT_YET, FAILS, UNDECIDED = tuple(Verdict)[:5]


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


def decide(checks: Iterable[Check], *, holds: str = HOLDS, fails: str = FAILS) -> str:
    """Three outcomes in words: `holds` when all agree, `fails` when one differs, else undecided and for want of how many seeds."""
    found = list(checks)
    outcome = together(found)
    if outcome is Agreement.UNDECIDED:
        return f"{UNDECIDED}: {seeds_words(found)}"
    return holds if outcome is Agreement.AGREES else fails


def by_name(checks: Mapping[str, Sequence[Check]]) -> dict[Agreement, list[str]]:
    """Names by the joint outcome of their checks."""
    outcomes = {name: together(found) for name, found in checks.items()}
    return {outcome: [name for name in checks if outcomes[name] is outcome] for outcome in Agreement}


def decide_each(checks: Mapping[str, Sequence[Check]]) -> str:
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


def listed(checks: Mapping[str, Sequence[Check]]) -> str:
    """The names that agree, that differ and that are undecided, in words."""
    return "; ".join(
        f"{outcome.name.lower()}: {', '.join(names) or 'none'}" for outcome, names in by_name(checks).items()
    )


def of_claims(outcomes: Sequence[Agreement]) -> Verdict:
    """Of several claims, all decided: they hold, hold in part or do not."""
    return HOLDS if set(outcomes) == {Agreement.AGREES} else PARTLY if Agreement.AGREES in outcomes else FAILS


def spoken(outcome: Agreement, agrees: str, differs: str, undecided: str) -> str:
    """The words for an outcome."""
    return {Agreement.AGREES: agrees, Agreement.DIFFERS: differs, Agreement.UNDECIDED: undecided}[outcome]


def tally(rows: Sequence[Check]) -> str:
    """How many agree, differ and are undecided."""
    counts = [sum(row.outcome is outcome for row in rows) for outcome in Agreement]
    words = f"{counts[0]} of {len(rows)} agree, {counts[1]} differ, {counts[2]} are undecided"
    return f"{words} ({seeds_words(rows)})" if counts[2] else words


def beside_theory(words: str, rows: Sequence[Check]) -> str:
    """A verdict on a claim, and how theory fares beside the same numbers."""
    return f"{words}; beside theory {tally(rows)}" if rows else words


def worded(difference: Estimate, room: float, *, above: str, below: str, equal: str, unclear: str) -> str:
    """The sentence that a measured difference allows: equal within ± room, clearly above or below 0, or none of them."""
    if check(difference, -room, room).agrees:
        return equal
    return above if check(difference, low=0).agrees else below if check(difference, high=0).agrees else unclear


def marks(*theory: Prediction | PredictionGrid | Scaling) -> str:
    """A sentence on how many numbers the theory itself marks as inaccurate; nothing when there are none."""
    found = [status is Status.INACCURATE for t in theory for status in np.ravel(np.asarray(t.status, object))]
    return f" The theory itself marks {sum(found)} of its {len(found)} problems as inaccurate." if any(found) else ""
