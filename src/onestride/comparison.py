"""`compare`: do theory and simulation agree, differ, or is that undecided?

A mean m ± e over s seeds lies, with confidence 1 − p, in m ± t·e, t the two-sided quantile of Student's law with s − 1
degrees of freedom. Of a number that should lie in [low, high] we say that it

    agrees      when its own 95 % interval lies inside;
    differs     when the interval of joint confidence lies outside: 1 − 5 %/k for each of the k numbers judged together;
    undecided   otherwise, with the number of seeds that would decide, by the spread that was measured.

Student's law asks for means that are nearly normal. Where labels have such heavy tails that they are not (`estimate.label_skewness`) all is
undecided. Elsewhere a number outside its tolerance is said to agree at most once in forty times, and of k numbers inside theirs at least
one is said to differ at most once in twenty.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from scipy.special import stdtrit

from onestride.drawing import Panel, Series
from onestride.estimate import ENDLESS, MOST_SEEDS, label_skewness, nearly_normal, rounded
from onestride.functions import InputError
from onestride.problem import Problem, expect
from onestride.result import (
    GAINS,
    LABELS,
    QUANTITIES,
    Estimate,
    Prediction,
    Result,
    Simulation,
    Status,
    TheoryError,
    plain,
)
from onestride.shown import Variables
from onestride.simulation.arguments import OnProgress, seed_tuple
from onestride.simulation.run import simulate
from onestride.theory.predict import predict
from onestride.theory.registry import Method

CONFIDENCE = 0.95
ERROR_TOLERANCE = 0.05  # of a predicted error: what a theory of the limit may miss at finite size
GAIN_TOLERANCE = 0.20  # of a predicted gain, the difference of two errors …
GAIN_FLOOR = 0.01  # … or this part of the error without the step, where that is more


class Agreement(enum.Enum):
    """How a number stands to what was expected of it."""

    AGREES = "agrees: its own interval lies inside the tolerance"
    DIFFERS = "differs: the interval of joint confidence lies outside the tolerance"
    UNDECIDED = "undecided: its own interval does not lie inside the tolerance, nor that of joint confidence outside, or tails are too heavy to tell"


def quantile(seeds: float, among: int = 1) -> float:
    """The factor t of a two-sided interval from `seeds` values, one of `among` that hold together with 95 %."""
    return float(stdtrit(seeds - 1, 1 - (1 - CONFIDENCE) / (2 * among)))


@dataclass(frozen=True)
class Check:
    """Does the expectation behind mean ± stderr, known from `seeds` values, lie in [low, high]? One of `among` numbers.

    >>> from onestride.comparison import Check
    >>> Check(mean=1.0, stderr=0.001, seeds=30, low=0.95, high=1.05).outcome.name
    'AGREES'
    """

    mean: float
    stderr: float
    seeds: int
    low: float = -math.inf
    high: float = math.inf
    among: int = 1
    skewness: float = 0.0  # of one value, where it is known

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of this number alone."""
        return self._around(1)

    @property
    def joint_interval(self) -> tuple[float, float]:
        """Interval that holds together with those of all `among` numbers in 95 %."""
        return self._around(self.among)

    def _around(self, among: int) -> tuple[float, float]:
        half = quantile(self.seeds, among) * self.stderr
        return self.mean - half, self.mean + half

    def _beyond(self, interval: tuple[float, float]) -> bool:
        return interval[1] < self.low or interval[0] > self.high

    @property
    def outcome(self) -> Agreement:
        """Agrees, differs or undecided; a number that is not finite differs."""
        if not math.isfinite(self.mean):
            return Agreement.DIFFERS
        if not self.nearly_normal:
            return Agreement.UNDECIDED
        low, high = self.interval
        if self.low <= low and high <= self.high:
            return Agreement.AGREES
        return Agreement.DIFFERS if self._beyond(self.joint_interval) else Agreement.UNDECIDED

    @property
    def beyond_alone(self) -> bool:
        """Whether its own interval lies outside the tolerance, which of several numbers is not enough to differ."""
        return self._beyond(self.interval)

    @property
    def nearly_normal(self) -> bool:
        """Whether the mean is, so that Student's interval holds it as often as it says."""
        return nearly_normal(self.skewness, self.seeds)

    @property
    def agrees(self) -> bool:
        """True only when its own interval lies inside the tolerance."""
        return self.outcome is Agreement.AGREES

    @property
    def differs(self) -> bool:
        """True only when the interval of joint confidence lies outside the tolerance."""
        return self.outcome is Agreement.DIFFERS

    @property
    def seeds_needed(self) -> int | None:
        """The fewest seeds that would decide if mean and spread stayed as they are; None beyond MOST_SEEDS."""
        if self.outcome is not Agreement.UNDECIDED:
            return self.seeds
        inside = self.low <= self.mean <= self.high
        room = min(abs(self.mean - edge) for edge in (self.low, self.high))
        spread = self.stderr * math.sqrt(self.seeds)

        def enough(seeds: int) -> bool:
            wide = quantile(seeds, 1 if inside else self.among) * spread / math.sqrt(seeds)
            return wide < room and replace(self, seeds=seeds).nearly_normal

        few, many = self.seeds, MOST_SEEDS
        if not enough(many):
            return None
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (few, middle) if enough(middle) else (middle, many)
        return many


def check(
    measured: Estimate, low: float = -math.inf, high: float = math.inf, *, among: int = 1, skewness: float = 0.0
) -> Check:
    """A measured mean against the interval [low, high] in which it should lie."""
    return Check(float(measured.mean), float(measured.stderr), measured.values.shape[0], low, high, among, skewness)


def together(checks: Iterable[Check]) -> Agreement:
    """One outcome for several: agrees when all agree, differs when one differs."""
    outcomes = {one.outcome for one in checks}
    if Agreement.DIFFERS in outcomes:
        return Agreement.DIFFERS
    return Agreement.UNDECIDED if Agreement.UNDECIDED in outcomes else Agreement.AGREES


def seeds_words(checks: Iterable[Check]) -> str:
    """How many seeds would decide what is undecided, in words."""
    undecided = [one for one in checks if one.outcome is Agreement.UNDECIDED]
    if not undecided:
        return "these seeds decide"
    needed = [one.seeds_needed for one in undecided if not math.isinf(one.skewness)]
    if not needed:
        return "no number of seeds would decide, as errors have no variance"
    known, edge = [n for n in needed if n is not None], needed.count(None)
    if not known:
        return f"more than {MOST_SEEDS:,} seeds would be needed: at the edge of the tolerance"
    left = {"at the edge of the tolerance": edge, "without a variance": len(undecided) - len(needed)}
    but = ", and ".join(f"{count}, {why}" for why, count in left.items() if count)
    return f"about {rounded(max(known))} seeds would decide{but and f' all but {but}'}"


@dataclass(frozen=True, repr=False)
class Pair(Check, Result):
    """One quantity: predicted beside measured ± standard error, which should lie within a tolerance of it."""

    _told = ("quantity", "predicted", "measured", "stderr", "z", "gap", "tolerance", "interval", "outcome")
    _told += ("agrees", "seeds_needed")
    _brief = ("quantity", "predicted", "measured", "stderr", "outcome")

    quantity: str = ""
    predicted: float = math.nan
    __repr__ = Result.__repr__

    @property
    def measured(self) -> float:
        """Mean over seeds."""
        return self.mean

    @property
    def outcome(self) -> Agreement:
        """Agrees, differs or undecided; without a predicted number there is no agreement."""
        return super().outcome if math.isfinite(self.predicted) else Agreement.DIFFERS

    @property
    def tolerance(self) -> float:
        """How far from the predicted number counts as agreement."""
        return (self.high - self.low) / 2

    @property
    def z(self) -> float:
        """Distance in standard errors."""
        return (self.predicted - self.measured) / self.stderr if self.stderr > 0 else math.nan

    @property
    def gap(self) -> float:
        """Relative distance."""
        return (self.predicted - self.measured) / abs(self.measured) if self.measured else math.nan


def agree(
    predicted: float,
    measured: Estimate,
    relative: float = ERROR_TOLERANCE,
    *,
    absolute: float = 0.0,
    among: int = 1,
    skewness: float = 0.0,
    quantity: str = "",
) -> Pair:
    """Judge one of `among` numbers: the tolerance is `relative`·|predicted|, or `absolute` where that is more."""
    room = max(relative * abs(predicted), absolute)
    judged = check(measured, predicted - room, predicted + room, among=among, skewness=skewness)
    return Pair(**vars(judged), quantity=quantity, predicted=predicted)


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """Theory beside simulation for one problem."""

    _told = ("outcome", "agrees", "verdict", "prediction.method", "prediction.status", "simulation.seeds")
    _told += ("seeds_needed", "confidence", "rows")
    _equation = "agrees: the 95 % interval m ± t·e of the simulation lies within the tolerance around the prediction"
    confidence = CONFIDENCE

    problem: Problem
    prediction: Prediction = field(repr=False)
    simulation: Simulation = field(repr=False)
    rows: tuple[Pair, ...]
    verdict: str

    @property
    def outcome(self) -> Agreement:
        """Agrees when every row agrees, differs when one differs, else undecided."""
        return together(self.rows)

    @property
    def agrees(self) -> bool:
        """True only when every row agrees; False when they differ or when it is undecided."""
        return self.outcome is Agreement.AGREES

    @property
    def seeds_needed(self) -> int | None:
        """About how many seeds decide every row, by the spread of these; None when more than MOST_SEEDS."""
        needed = [row.seeds_needed for row in self.rows]
        return None if None in needed else max(n for n in needed if n is not None)

    def _first_line(self) -> str:
        test = next(row for row in self.rows if row.quantity == "test_error")
        words = (
            f"{LABELS[test.quantity]} predicted {test.predicted:.4g}, measured {test.measured:.4g} ± {test.stderr:.2g}"
        )
        return f"{self.outcome.name.lower()} over {len(self.simulation.seeds)} seeds; {words}"

    def panels(self) -> Sequence[Panel]:
        """Measured over predicted, each with its 95 % interval, and what counts as agreement."""
        ratio = [row for row in self.rows if row.predicted]
        names = [LABELS[row.quantity] for row in ratio]
        measured = [row.measured / row.predicted for row in ratio]
        half = [abs(row.interval[1] - row.measured) / abs(row.predicted) for row in ratio]
        series = [Series("simulation, 95 % interval", range(len(ratio)), measured, half, kind="simulation")]
        for edge in (-1, 1):
            edges = [1 + edge * row.tolerance / abs(row.predicted) for row in ratio]
            series.append(Series("tolerance" if edge > 0 else "", range(len(ratio)), edges, kind="limit", colour=4))
        words = {"horizontals": [(1.0, "theory")], "xticks": list(range(len(ratio))), "xnames": names}
        return [Panel(self.outcome.name.lower(), "", "simulation / theory", series, **words)]

    def _axes(self) -> dict[str, Sequence[str]]:
        return {"quantity": [row.quantity for row in self.rows]}

    def _variables(self) -> Variables:
        names = ("predicted", "measured", "stderr", "z", "gap", "tolerance", "outcome")
        return {name: (("quantity",), [plain(getattr(row, name)) for row in self.rows]) for name in names}

    def _lines(self) -> Iterator[tuple[str, str]]:
        for row in self.rows:
            measured = f"measured {row.measured:.4g} ± {row.stderr:.2g}, {row.outcome.name.lower()}"
            yield LABELS[row.quantity], f"predicted {row.predicted:.4g}, {measured}"
        yield "verdict", self.verdict


def compare(
    problem: Problem,
    seeds: int | Iterable[int] = 8,
    *,
    method: Method = "auto",
    device: str | None = None,
    progress: OnProgress | bool | None = None,
) -> Comparison:
    """Predict and simulate one problem, on a device as in `simulate`, and say whether they agree, differ or neither.

    A number agrees within 5 % of an error, or within 20 % of a gain (1 % of the error, where that is more). Numbers that
    the theory itself marks as inaccurate are compared all the same, and the verdict says so.

    >>> problem = one.Problem(n=200, d=100, N=150, teacher=[0, 1, 0.7071], noise=0.5, step=one.Step(exponent=0.3))
    >>> found = one.compare(problem, seeds=4)
    >>> found.outcome.name in ("AGREES", "DIFFERS", "UNDECIDED"), len(found.rows)
    (True, 5)
    """
    expect(problem)
    chosen = seed_tuple(seeds)
    if len(chosen) < 2:
        raise InputError(f"seeds must be 2 or more to give an error bar, got {len(chosen)}")
    prediction = predict(problem, method=method, throw=False)
    if not math.isfinite(prediction.test_error):
        raise TheoryError(prediction.message)
    simulation = simulate(problem, chosen, device=device, progress=progress)
    names = QUANTITIES if problem.step.constant == 0 else (*QUANTITIES, *GAINS)
    skewness = label_skewness(problem)
    rows = tuple(_compare_one(name, prediction, simulation, len(names), skewness) for name in names)
    return Comparison(problem, prediction, simulation, rows, _verdict(prediction, rows, len(chosen)))


def _compare_one(name: str, prediction: Prediction, simulation: Simulation, among: int, skewness: float) -> Pair:
    relative, absolute = ERROR_TOLERANCE, 0.0
    if name in GAINS and prediction.untrained is not None:
        relative, absolute = GAIN_TOLERANCE, GAIN_FLOOR * getattr(prediction.untrained, GAINS[name])
    measured: Estimate = getattr(simulation, name)
    how = {"absolute": absolute, "among": among, "skewness": skewness, "quantity": name}
    return agree(getattr(prediction, name), measured, relative, **how)


def _verdict(prediction: Prediction, rows: Sequence[Pair], seeds: int) -> str:
    by = {outcome: [row for row in rows if row.outcome is outcome] for outcome in Agreement}
    who, rule = (
        f"Theory ({prediction.method}) and simulation",
        f"{ERROR_TOLERANCE:.0%} of an error, {GAIN_TOLERANCE:.0%} of a gain or {GAIN_FLOOR:.0%} of the error",
    )
    marked = (
        "" if prediction.status is Status.SOLVED else f" The theory itself marks its numbers: {prediction.message}."
    )
    if by[Agreement.DIFFERS]:
        return (
            f"{who} differ in {len(by[Agreement.DIFFERS])} of {len(rows)} numbers by more than the tolerance ({rule}): "
            f"{'; '.join(map(_words, by[Agreement.DIFFERS]))}. {len(by[Agreement.AGREES])} agree and "
            f"{len(by[Agreement.UNDECIDED])} are undecided. What to expect of this theory: {prediction.accuracy}.{marked}"
        )
    if math.isinf(rows[0].skewness):
        return f"Undecided, and no number of seeds decides: {ENDLESS}.{marked}"
    if not rows[0].nearly_normal:
        return (
            f"Undecided after {seeds} seeds: the labels have tails so heavy that a few of them carry most of their power, and most draws see less "
            f"than its mean (skewness of one seed's: {rows[0].skewness:.2g}), so that intervals by the spread of so few seeds are too narrow. By this "
            f"law of the labels {seeds_words(rows)}.{marked}"
        )
    if by[Agreement.UNDECIDED]:
        alone = [f"{LABELS[r.quantity]} {_reach(r, r.interval)}" for r in by[Agreement.UNDECIDED] if not r.beyond_alone]
        joint = [
            f"{LABELS[r.quantity]} {_reach(r, r.joint_interval)}" for r in by[Agreement.UNDECIDED] if r.beyond_alone
        ]
        crossing = {
            f"{CONFIDENCE:.0%} interval": alone,
            f"joint {100 * (1 - (1 - CONFIDENCE) / len(rows)):.3g}% interval": joint,
        }
        wide = " and ".join(
            f"the {name} of simulation over theory crosses the tolerance for {', '.join(found)}"
            for name, found in crossing.items()
            if found
        )
        return (
            f"Undecided after {seeds} seeds: {len(by[Agreement.AGREES])} of {len(rows)} numbers agree (within {rule}), none "
            f"differs, and {wide}. By this spread {seeds_words(rows)}.{marked}"
        )
    return f"{who} agree: the {CONFIDENCE:.0%} intervals of all {len(rows)} numbers lie within the tolerance ({rule}).{marked}"


def _words(row: Pair) -> str:
    low, high = row.interval
    return (
        f"{LABELS[row.quantity]} predicted {row.predicted:.4g}, measured {row.measured:.4g} ± {row.stderr:.2g} "
        f"({low:.4g} to {high:.4g}, z = {row.z:+.1f})"
    )


def _reach(row: Pair, interval: tuple[float, float]) -> str:
    """The interval relative to the predicted number."""
    low, high = (end / row.predicted - 1 if row.predicted else math.nan for end in interval)
    return f"({min(low, high):+.0%} to {max(low, high):+.0%})"
