"""`staircase`: how much of each degree of the teacher the trained predictor has learned, against α."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import factorial
from types import SimpleNamespace

import numpy as np
from numpy.typing import ArrayLike

from onestride._numerics import Array
from onestride.comparison import Agreement, Check, Pair, agree, check, seeds_words
from onestride.experiments.kit import EXPONENT, THRESHOLDS, number, pm, points, row_of, spiked_problem
from onestride.experiments.outcome import Figure, Judgement, Progress, told
from onestride.experiments.verdict import FAILS, HOLDS, NOT_YET, UNDECIDED, tally
from onestride.plot import Panel, Series
from onestride.problem import Problem
from onestride.result import Estimate
from onestride.simulation.learned import MeasuredLearned, measure_learned_along
from onestride.theory.direction import direction
from onestride.theory.learned import Learned, learned

CLAIM = "Degree k of the teacher is learned for α > (k−1)/(2k) and not below: a staircase in α."
LARGEST = 10**15
FAR = {10**6: "n = 10⁶", 10**9: "n = 10⁹", LARGEST: "n = 10¹⁵"}
SIZES = {
    "n": (400, 1600, 6000),
    "seeds": (3, 6, 8),
    "alphas": ((0.1, 0.3, 0.5), np.linspace(0, 0.5, 11).round(3).tolist(), np.linspace(0, 0.5, 11).tolist()),
    "points": (26, 51, 101),
    "far": ((LARGEST,), tuple(FAR), tuple(FAR)),
}
DEGREES = (1, 2, 3, 4)
TEACHER = (0.0, *(factorial(k) ** -0.5 for k in DEGREES))  # power 1 in each degree
VISIBLE = 0.1  # a degree counts as learned above this fraction
TOLERANCE = 0.05  # absolute: what the theory of a fraction may miss at finite size


@dataclass(frozen=True)
class Stairs:
    """Fractions at each exponent, measured and by theory; `lines`: theory at the exponents `fine` for n and larger sizes."""

    alphas: Sequence[float]
    measured: list[MeasuredLearned]
    theory: list[Learned]
    fine: Array
    lines: dict[int, Array]
    starts: dict[int, list[float]]  # where theory begins to learn degrees 2, 3, 4
    untrained: Array

    @property
    def problem(self) -> Problem:
        """One of the problems simulated."""
        return self.measured[0].problem

    @property
    def overlap(self) -> float:
        """Cos(β, β⋆), the same for every step."""
        return direction(self.problem).overlap

    def values(self, k: int) -> list[Estimate]:
        """The measured fractions of degree k."""
        return [m.fraction[k - 1] for m in self.measured]

    def near(self, alpha: float) -> int:
        """The index of the exponent of `fine` nearest to α."""
        return int(np.abs(self.fine - alpha).argmin())


def measure(size: SimpleNamespace, progress: Progress) -> Stairs:
    """Measure the learned fraction of each degree on a grid of exponents; follow the theory to large n."""
    fine = np.linspace(0, 0.5, size.points)
    lines = {m: np.array([learned(the_problem(m, float(a))).fraction for a in fine]) for m in (size.n, *size.far)}
    starts = {m: [start(m, k, fine, line[:, k - 1]) for k in DEGREES[1:]] for m, line in lines.items()}
    progress(0.2)
    theory = [learned(the_problem(size.n, alpha)) for alpha in size.alphas]
    progress(0.3)
    measured = measure_learned_along(
        the_problem(size.n, 0.0), size.alphas, size.seeds, device=size.device, progress=told(progress, 0.3, 0.98)
    )
    untrained = learned(the_problem(size.n, 0.0)).untrained
    assert untrained is not None
    return Stairs(size.alphas, measured, theory, fine, lines, starts, untrained.fraction)


def the_problem(n: int, alpha: float) -> Problem:
    """erf(z + ½), four degrees, d = n/4, N = n/2, the labels-only gradient on 4n samples: a direction close to the teacher's."""
    return spiked_problem(n, d=n // 4, teacher=TEACHER, ridge=0.01, exponent=alpha)


def onset(alphas: ArrayLike, fractions: ArrayLike) -> float:
    """The first α at which a fraction exceeds VISIBLE, by linear interpolation; NaN when it never does."""
    x, y = np.asarray(alphas, float), np.asarray(fractions, float)
    above = np.flatnonzero(y > VISIBLE)
    if not above.size:
        return float("nan")
    i = above[0]
    return float(x[0]) if i == 0 else float(x[i - 1] + (VISIBLE - y[i - 1]) * (x[i] - x[i - 1]) / (y[i] - y[i - 1]))


def start(n: int, k: int, alphas: Array, fractions: Array) -> float:
    """The α at which theory's fraction of degree k passes VISIBLE: between two of `alphas`, halved down to a thousandth."""
    above = np.flatnonzero(fractions > VISIBLE)
    if not above.size or not above[0]:
        return onset(alphas, fractions)
    low, high = float(alphas[above[0] - 1]), float(alphas[above[0]])
    while high - low > 1e-3:
        middle = (low + high) / 2
        passed = learned(the_problem(n, middle)).fraction[k - 1] > VISIBLE
        low, high = (low, middle) if passed else (middle, high)
    return (low + high) / 2


def judge(data: Stairs) -> Judgement:
    """Every fraction beside theory, and where each degree begins to be learned."""
    n, seeds, alphas = data.problem.n, len(data.measured[0].seeds), data.alphas
    fractions, rows = [], []
    for k in DEGREES:
        for alpha, e, said in zip(alphas, data.values(k), data.theory, strict=True):
            predicted, among = float(said.fraction[k - 1]), len(DEGREES) * len(alphas)
            fractions.append(agree(predicted, e, 0.0, absolute=TOLERANCE, among=among))
            rows.append(row_of(fractions[-1], degree=k, alpha=alpha))
    visible = [[check(e, high=VISIBLE, among=len(alphas)) for e in data.values(k)] for k in DEGREES[1:]]
    starts = [onset(alphas, [float(e.mean) for e in data.values(k)]) for k in DEGREES[1:]]
    far = data.starts[LARGEST]
    ends = ", ".join(pm(data.values(k)[-1], 3, "f") for k in DEGREES)
    stairs = "; ".join(
        ", ".join(f"{round(x, 2) + 0.0:.2f}" for x in data.lines[LARGEST][i]) + f" at α = {data.fine[i]:.2f}"
        for i in map(data.near, (0.3, 0.355, 0.42))
    )
    return Judgement(
        words=_words(fractions, visible, starts, far),
        finding=(
            f"At n = {n} the fractions of degrees 1, 2, 3, 4 at α = 1/2 are {ends}; within {TOLERANCE:g} of the profile theory ({seeds} seeds): "
            f"{tally(fractions)}. The means of degrees 2, 3, 4 pass {VISIBLE:g} at α = {_places(starts)}; in theory at n = 10¹⁵ at "
            f"{', '.join(f'{a:.3f}' for a in far)} (thresholds 0.250, 0.333, 0.375). The staircase at n = 10¹⁵ (degrees 1 to 4): {stairs}."
        ),
        surprise=_stairs(data),
        rows=rows,
    )


def _words(
    fractions: Sequence[Pair], visible: Sequence[Sequence[Check]], measured: Sequence[float], far: Sequence[float]
) -> str:
    """From the fractions beside theory, and for degrees 2, 3, 4: is it below VISIBLE at each α?, its onset, that of the theory far out."""
    thresholds = [at for at, _ in THRESHOLDS[1:]]
    away = sum(row.outcome is Agreement.DIFFERS for row in fractions)
    if away:
        return f"{FAILS}: theory and simulation differ in {away} of {len(fractions)} fractions"
    if not all(abs(a - at) < 0.03 for a, at in zip(far, thresholds, strict=True)):
        return f"{FAILS}: in theory the steps are not at the thresholds"
    open_ = [row for row in fractions if row.outcome is Agreement.UNDECIDED]
    rest = "; in theory it holds as n → ∞"
    if open_:
        rest += f", beside simulation {UNDECIDED} in {len(open_)} of {len(fractions)} fractions: {seeds_words(open_)}"
    states = [learned_anywhere(found) for found in visible]
    never = [str(k + 2) for k, state in enumerate(states) if state is Agreement.DIFFERS]
    unclear = [k for k, state in enumerate(states) if state is Agreement.UNDECIDED]
    if never:
        return f"{NOT_YET}: degree {', '.join(never)} is not learned at any α{rest}"
    if unclear:
        seeds = seeds_words(c for k in unclear for c in visible[k])
        return (
            f"{UNDECIDED} whether degree {', '.join(str(k + 2) for k in unclear)} is learned at this n: {seeds}{rest}"
        )
    if all(abs(a - at) < 0.03 for a, at in zip(measured, thresholds, strict=True)):
        return f"{HOLDS}{rest if open_ else ''}"
    ordered = all(a < b for a, b in pairwise(measured))
    return f"{NOT_YET}: the degrees come {'in order' if ordered else 'out of order'}, without steps{rest}"


def learned_anywhere(below: Sequence[Check]) -> Agreement:
    """Agrees when a fraction is clearly above VISIBLE at some α, differs when clearly below at all; `below`: is it below?"""
    if any(found.differs for found in below):
        return Agreement.AGREES
    return Agreement.DIFFERS if all(found.agrees for found in below) else Agreement.UNDECIDED


def _places(onsets: Sequence[float]) -> str:
    return ", ".join("never" if np.isnan(a) else f"{a:.2f}" for a in onsets)


def _stairs(data: Stairs) -> str:
    """What the theory's staircase at the largest n looks like, and how far from steps it is at the smaller ones."""
    fine, far, (window_2, window_4) = data.fine, data.lines[LARGEST], map(data.near, (0.3, 0.42))
    ends = ", ".join(f"{far[window_4, k - 1]:.2f} beside {data.overlap ** (2 * k):.2f} (degree {k})" for k in (2, 3, 4))
    ramps = "; ".join(f"n = {number(m)}: {_places(places)}" for m, places in data.starts.items())
    return (
        f"In theory at n = 10¹⁵ degree 2 is learned in two steps, {far[window_2, 1]:.2f} at α = {fine[window_2]:.2f} and {far[window_4, 1]:.2f} at α = {fine[window_4]:.2f}: in window 2 z² brings its "
        f"mean with it, with z⁴ the fit can have H₂ alone. No degree is learned fully; at α = {fine[window_4]:.2f} the theory has, beside cos²ᵏ(β, β⋆), {ends}. Random features "
        f"already know {data.untrained[0]:.2f} of degree 1. The steps form slowly: degrees 2, 3, 4 pass {VISIBLE:g} in theory at α = ({ramps})."
    )


def draw(data: Stairs) -> Figure:
    """The fraction of each degree against α."""
    n, panels = data.problem.n, []
    for k in DEGREES:
        series = [points("simulation", data.alphas, data.values(k))]
        for c, (m, line) in enumerate(data.lines.items()):
            kind, label = "limit" if m == LARGEST else "theory", f"theory, {FAR.get(m, f'n = {n}')}"
            series.append(Series(label, data.fine, line[:, k - 1], kind=kind, colour=c))
        levels = [(float(data.untrained[k - 1]), "without the step"), (data.overlap ** (2 * k), "cos²ᵏ(β, β⋆)")]
        options = {"verticals": THRESHOLDS, "horizontals": levels, "ylim": (-0.06, 1.05)}
        panels.append(Panel(f"degree {k}", EXPONENT, "fraction learned", series, **options))
    caption = (
        f"E[f̂ H_k(β⋆ᵀx)]/(c⋆_k k!), 1 is fully learned: simulation at n = {n} (points, mean ± standard error of {len(data.measured[0].seeds)} seeds) and profile theory at this and larger n. "
        "Teacher H₁ + H₂/√2 + H₃/√6 + H₄/√24 (power 1 in each degree), no noise; σ(z) = erf(z + ½), centred; d = n/4, N = n/2, λ = 0.01, η = n^α, labels-only gradient on "
        "4n samples. Vertical lines: thresholds (ℓ−1)/(2ℓ)."
    )
    title = (
        f"In theory at n = 10¹⁵ degrees 2, 3, 4 are learned from α = {', '.join(f'{a:.3f}' for a in data.starts[LARGEST])} on (thresholds 0.250, 0.333, 0.375); "
        + (
            f"at n = {n}, α = 1/2, degrees 1 to 4 are learned to {', '.join(f'{data.values(k)[-1].mean:.2f}' for k in DEGREES)}"
        )
    )
    return Figure(panels, caption, title=title)
