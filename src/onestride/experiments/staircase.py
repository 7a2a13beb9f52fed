"""`staircase`: how much of each degree of the teacher the trained predictor has learned, against α."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import factorial

import numpy as np
from numpy.typing import ArrayLike

from onestride._numerics import Array
from onestride.compare import Agreement, Check, Pair, agree, check, seeds_words
from onestride.experiments.claim import FAILS, HOLDS, NOT_YET, UNDECIDED, tally
from onestride.experiments.outcome import Outcome, Settings
from onestride.plot import Panel, Series
from onestride.problem import Problem, Step
from onestride.result import Estimate
from onestride.simulation.learned import measure_learned
from onestride.theory.direction import direction
from onestride.theory.learned import learned

THRESHOLDS = ((0.0, "0"), (0.25, "1/4"), (1 / 3, "1/3"), (0.375, "3/8"))
TEACHER = (0.0, *(factorial(k) ** -0.5 for k in range(1, 5)))  # degrees 1 … 4 with power 1 each
FAR = {10**6: "n = 10⁶", 10**9: "n = 10⁹", 10**15: "n = 10¹⁵"}
LARGEST = 10**15
VISIBLE = 0.1  # a degree counts as learned above this fraction
TOLERANCE = 0.05  # absolute: what the theory of a fraction may miss at finite size


def the_problem(n: int, alpha: float) -> Problem:
    """erf(z + ½), four degrees, d = n/4, N = n/2, the labels-only gradient on 4n samples: a direction close to the teacher's."""
    return Problem(
        n=n,
        d=n // 4,
        N=n // 2,
        n_step=4 * n,
        activation="shifted_erf",
        teacher=TEACHER,
        ridge=0.01,
        gradient="labels",
        step=Step(constant=1.0, exponent=alpha),
    )


def onset(alphas: ArrayLike, fractions: ArrayLike) -> float:
    """The first α at which a fraction exceeds VISIBLE, by linear interpolation; NaN when it never does."""
    x, y = np.asarray(alphas, float), np.asarray(fractions, float)
    above = np.flatnonzero(y > VISIBLE)
    if not above.size:
        return float("nan")
    i = above[0]
    return float(x[0]) if i == 0 else float(x[i - 1] + (VISIBLE - y[i - 1]) * (x[i] - x[i - 1]) / (y[i] - y[i - 1]))


def judge(
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


def run(settings: Settings) -> Outcome:
    """Measure the learned fraction of each degree on a grid of exponents; follow the theory to large n."""
    n, seeds = settings.pick(400, 1600, 6000), settings.seed_count(3, 6, 8)
    alphas = settings.pick((0.1, 0.3, 0.5), np.linspace(0, 0.5, 11).round(3).tolist(), np.linspace(0, 0.5, 11).tolist())
    fine = np.linspace(0, 0.5, settings.pick(13, 51, 101))
    sizes = (n, *settings.pick([LARGEST], list(FAR), list(FAR)))
    lines = {m: np.array([learned(the_problem(m, float(a))).fraction for a in fine]) for m in sizes}
    settings.progress(0.2)
    measured, at = [], []
    for i, alpha in enumerate(alphas):
        measured.append(measure_learned(the_problem(n, alpha), seeds))
        at.append(learned(the_problem(n, alpha)).fraction)
        settings.progress(0.2 + 0.78 * (i + 1) / len(alphas))
    untrained = learned(the_problem(n, 0.0)).untrained
    assert untrained is not None
    overlap = direction(the_problem(n, 0.0)).overlap
    panels, rows, onsets, far = [], [], [], []
    fractions, visible = [], []
    for k in range(1, 5):
        values: list[Estimate] = [m.fraction[k - 1] for m in measured]
        means, errors = [float(e.mean) for e in values], [float(e.stderr) for e in values]
        series = [
            Series("simulation", alphas, means, errors, "simulation"),
            Series(f"theory, n = {n}", fine, lines[n][:, k - 1]),
        ]
        for c, m in enumerate(sizes[1:]):
            kind = "limit" if m == LARGEST else "theory"
            series.append(Series(FAR[m], fine, lines[m][:, k - 1], kind=kind, colour=c + 1))
        levels = [(float(untrained.fraction[k - 1]), "without the step"), (overlap ** (2 * k), "cos²ᵏ(β, β⋆)")]
        title, limits = f"degree {k}", (-0.06, 1.05)
        options = {"verticals": THRESHOLDS, "horizontals": levels, "ylim": limits}
        panels.append(Panel(title, "α = log η / log n", "fraction learned", series, **options))
        onsets.append(onset(alphas, means))
        far.append(onset(fine, lines[LARGEST][:, k - 1]))
        for alpha, e, fraction in zip(alphas, values, at, strict=True):
            judged = agree(float(fraction[k - 1]), e, 0.0, absolute=TOLERANCE, among=4 * len(alphas))
            fractions.append(judged)
            row = {
                "degree": k,
                "alpha": alpha,
                "theory": judged.predicted,
                "measured": judged.measured,
                "stderr": judged.stderr,
            }
            rows.append(row | {"outcome": judged.outcome.name.lower()})
        visible.append([check(e, high=VISIBLE, among=len(alphas)) for e in values])
    last = [measured[-1].fraction[k] for k in range(4)]
    words = ", ".join(f"{float(e.mean):.3f} ± {float(e.stderr):.1g}" for e in last)
    starts = ", ".join("never" if np.isnan(a) else f"{a:.2f}" for a in onsets[1:])
    nearest = [int(np.abs(fine - a).argmin()) for a in (0.3, 0.355, 0.42)]
    stairs = "; ".join(", ".join(f"{x:.2f}" for x in lines[LARGEST][i]) + f" at α = {fine[i]:.2f}" for i in nearest)
    return Outcome(
        name="staircase",
        question="How much of each degree of the teacher has the trained predictor learned, at which α?",
        claim="Degree k of the teacher is learned for α > (k−1)/(2k) and not below: a staircase in α.",
        verdict=judge(fractions, visible[1:], onsets[1:], far[1:]),
        finding=(
            f"At n = {n} the fractions of degrees 1, 2, 3, 4 at α = 1/2 are {words}; within {TOLERANCE:g} of the profile theory ({seeds} seeds): "
            f"{tally(fractions)}. The means of degrees 2, 3, 4 pass {VISIBLE:g} at α = {starts}; in theory at n = 10¹⁵ at "
            f"{', '.join(f'{a:.3f}' for a in far[1:])} (thresholds 0.250, 0.333, 0.375). The staircase at n = 10¹⁵ (degrees 1 to 4): {stairs}."
        ),
        surprise=_stairs(lines, fine, float(untrained.fraction[0]), overlap),
        rows=rows,
        panels=tuple(panels),
        caption=(
            f"E[f̂ H_k(β⋆ᵀx)]/(c⋆_k k!), 1 is fully learned: simulation at n = {n} (points, mean ± standard error of {seeds} seeds) and profile theory at this and larger n. "
            "Teacher H₁ + H₂/√2 + H₃/√6 + H₄/√24 (power 1 in each degree), no noise; σ(z) = erf(z + ½), centred; d = n/4, N = n/2, λ = 0.01, η = n^α, labels-only gradient on "
            "4n samples. Vertical lines: thresholds (ℓ−1)/(2ℓ)."
        ),
    )


def _stairs(lines: dict[int, Array], fine: Array, untrained: float, overlap: float) -> str:
    """What the theory's staircase at the largest n looks like, and how far from steps it is at the smaller ones."""
    window_2, window_4 = (int(np.abs(fine - a).argmin()) for a in (0.3, 0.42))
    far = lines[LARGEST]
    ends = ", ".join(f"{far[window_4, k - 1]:.2f} beside {overlap ** (2 * k):.2f} (degree {k})" for k in (2, 3, 4))
    ramps = "; ".join(
        f"n = {m:.0e}: {', '.join('never' if np.isnan(a) else f'{a:.2f}' for a in (onset(fine, lines[m][:, k]) for k in (1, 2, 3)))}"
        for m in lines
    )
    return (
        f"In theory at n = 10¹⁵ degree 2 is learned in two steps, {far[window_2, 1]:.2f} at α = {fine[window_2]:.2f} and {far[window_4, 1]:.2f} at α = {fine[window_4]:.2f}: in window 2 z² brings its "
        f"mean with it, with z⁴ the fit can have H₂ alone. No degree is learned fully; at α = {fine[window_4]:.2f} the theory has, beside cos²ᵏ(β, β⋆), {ends}. Random features "
        f"already know {untrained:.2f} of degree 1. The steps form slowly: degrees 2, 3, 4 pass {VISIBLE:g} in theory at α = ({ramps})."
    )
