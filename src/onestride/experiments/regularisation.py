"""`regularisation`: the best penalty λ against the exponent α of the step, and how much of the gain tuning λ can replace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from onestride._numerics import Array
from onestride.comparison import ERROR_TOLERANCE, Agreement, Check, agree, check, seeds_words, together
from onestride.experiments.kit import EXPONENT, THRESHOLDS, best_linear, each, exponent_panel, pm, points, problem_at
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.verdict import FAILS, HOLDS, PARTLY, UNDECIDED, marks, tally
from onestride.plot import Panel, Series, theory_series
from onestride.problem import Problem
from onestride.result import Estimate, PredictionGrid
from onestride.simulation.run import simulate_grid
from onestride.theory.optimal import OptimalRidge, optimal_ridge
from onestride.theory.predict import predict_grid

CLAIM = (
    "Nothing is published on it. The natural guess: the best penalty stays that of random features, a matter of noise and "
    "sizes, and the step lowers the tuned error as it lowers any other."
)
POINTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
SIZES = {
    "n": (100, 500, 2000),
    "seeds": (6, 12, 12),
    "points": ((0.0, 0.5), POINTS, POINTS),
    "fine": (2, 21, 21),  # exponents of the theory, which hold the points
    "ridges": (9, 15, 21),
    "fine_ridges": (5, 29, 41),
}
NOISES = (0.0, 1.0)
BOUNDS = (0.05, 20.0)
FIXED = 0.01  # the penalty of the talk's figures, for comparison
MOVED = 1.2  # a best penalty within this factor of the first has not moved
SHOWN = (0.0, 0.3, 0.5)  # exponents of the panel with the whole curves


@dataclass(frozen=True)
class Level:
    """One level of noise: the theory's best penalties along the curve, and at the points what was measured beside them."""

    problem: Problem
    best: list[OptimalRidge]  # along the curve
    fixed: PredictionGrid  # at FIXED, along the curve
    measured: Estimate  # seeds × points × penalties
    predicted: list[OptimalRidge]  # at the points
    found: list[tuple[float, float]]  # the measured best penalty and the factor of its error
    tuned: list[Estimate]  # the measured error at the predicted best penalty


@dataclass(frozen=True)
class Tuning:
    """The axes, every level of noise, and theory at all penalties for the largest, at the exponents SHOWN."""

    points: Array
    ridges: Array
    curve: Array
    levels: list[Level]
    whole: PredictionGrid


def measure(size: SimpleNamespace, progress: Progress) -> Tuning:
    """Predict the best penalty on a grid of exponents and measure it on common random numbers at a few of them."""
    levels, alphas, curve = [], np.array(size.points), np.linspace(0, 0.5, size.fine)
    ridges, fine = (np.geomspace(1e-2, 30, count) for count in (size.ridges, size.fine_ridges))
    for k, noise in enumerate(NOISES):
        problem = problem_at(size.n, activation="softplus", noise=noise)
        best = [optimal_ridge(problem.at(exponent=float(a)), bounds=BOUNDS, throw=False) for a in curve]
        progress((k + 0.4) / 2)
        how = {"untrained": False, "device": size.device}
        measured = simulate_grid(problem, alphas, ridges, size.seeds, **how).test_error
        fixed = predict_grid(problem, curve, [FIXED])
        predicted = [best[int(np.argmin(np.abs(curve - a)))] for a in alphas]
        found = [minimum(ridges, e.values) for e in each(measured)]
        tuned = [_at(ridges, e.values, p.ridge) for e, p in zip(each(measured), predicted, strict=True)]
        levels.append(Level(problem, best, fixed, measured, predicted, found, tuned))
        progress((k + 1) / 2)
    whole = predict_grid(levels[-1].problem, [a for a in SHOWN if a in alphas], fine)
    return Tuning(alphas, ridges, curve, levels, whole)


def minimum(ridges: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """The penalty of the lowest mean error (seeds × penalties) by a parabola in log λ, and e^(jackknife error of log λ)."""
    seeds = values.shape[0]
    leave_out = [_vertex(np.log(ridges), np.delete(values, s, axis=0).mean(0)) for s in range(seeds)]
    spread = np.sqrt((seeds - 1) * np.var(leave_out))
    return float(np.exp(_vertex(np.log(ridges), values.mean(0)))), float(np.exp(spread))


def _vertex(x: np.ndarray, y: np.ndarray) -> float:
    """Where a parabola through the five points around the smallest is lowest."""
    at = int(np.clip(np.argmin(y), 2, y.size - 3))
    near = slice(at - 2, at + 3)
    bend, slope, _ = np.polyfit(x[near] - x[at], y[near], 2)
    return float(x[at] + np.clip(-slope / (2 * bend) if bend > 0 else 0.0, x[near][0] - x[at], x[near][-1] - x[at]))


def _at(ridges: np.ndarray, values: np.ndarray, ridge: float) -> Estimate:
    """Every seed's error at the predicted best penalty, interpolated in log λ: no choice is made on the data."""
    return Estimate(np.array([np.interp(np.log(ridge), np.log(ridges), row) for row in values]))


def judge(data: Tuning) -> Judgement:
    """How far the best penalty moves, whether the tuned error still falls, and both beside theory."""
    levels = data.levels
    count = len(levels) * data.points.size
    judged = [
        [agree(b.test_error, e, among=count) for b, e in zip(level.predicted, level.tuned, strict=True)]
        for level in levels
    ]
    rows = [
        {
            "noise": level.problem.noise,
            "alpha": float(alpha),
            "best ridge, theory": best.ridge,
            "best ridge, measured": place,
            "factor of error": factor,
            "best error, theory": pair.predicted,
            "best error, measured": pair.measured,
            "stderr": pair.stderr,
            "outcome": pair.outcome.name.lower(),
        }
        for level, pairs in zip(levels, judged, strict=True)
        for alpha, best, (place, factor), pair in zip(data.points, level.predicted, level.found, pairs, strict=True)
    ]
    gains = [level.tuned[0] - level.tuned[-1] for level in levels]
    return Judgement(
        words=words([level.found for level in levels], gains, len(gains[0].values)),
        finding=_finding(levels[0].problem.n, rows, tally([pair for pairs in judged for pair in pairs]))
        + marks(*(best.prediction for level in levels for best in level.predicted)),
        surprise=_surprise(data.curve, levels[0], gains[0]),
        rows=rows,
    )


def words(ridges: Sequence[Sequence[tuple[float, float]]], gains: Sequence[Estimate], seeds: int) -> str:
    """From (λ, error factor) along α and the gain of the tuned test error, one of each per level of noise.

    The step must lower the tuned error; the best λ stays when every one is within a factor MOVED of the first.
    """
    lower = [check(gain, low=0, among=len(gains)) for gain in gains]
    if together(lower) is Agreement.DIFFERS:
        return FAILS
    count, stays = sum(len(row) - 1 for row in ridges), []
    for first, *others in ridges:
        for place, error in others:
            noise = float(np.hypot(np.log(error), np.log(first[1])))
            stays.append(Check(float(np.log(place / first[0])), noise, seeds, -np.log(MOVED), np.log(MOVED), count))
    moved = [c.mean for c in stays if c.differs]
    unclear = [c for c in (*lower, *stays) if c.outcome is Agreement.UNDECIDED]
    if unclear and not moved:
        return f"{UNDECIDED}: {seeds_words(unclear)}"
    if not moved:
        return f"{HOLDS} within a factor {MOVED:g}"
    changes = f"the best penalty changes, by up to a factor {float(np.exp(max(moved, key=abs))):.1f}"
    if together(lower) is Agreement.UNDECIDED:
        return f"{FAILS}: {changes}; {UNDECIDED} whether tuning replaces the step: {seeds_words(lower)}"
    return f"{PARTLY}: tuning does not replace the step, but {changes}"


def _finding(n: int, rows: list[dict[str, Any]], agreement: str) -> str:
    ends = [[r for r in rows if r["noise"] == noise][end] for noise in NOISES for end in (0, -1)]
    ridge = [f"{r['best ridge, measured']:.2g} (× or ÷ {r['factor of error']:.2g})" for r in ends]
    theory = [f"{r['best ridge, theory']:.2g}" for r in ends]
    error = [f"{r['best error, measured']:.3f} ± {r['stderr']:.1g}" for r in ends]
    ratio = [r["best ridge, measured"] / r["best ridge, theory"] for r in rows]
    far = rows[int(np.argmax(np.abs(np.log(ratio))))]
    return (
        f"At n = {n} the best penalty is λ = {ridge[0]} at α = 0 and {ridge[1]} at α = 1/2 without noise, "
        f"{ridge[2]} and {ridge[3]} with noise 1 (theory {theory[0]} and {theory[1]}, {theory[2]} and {theory[3]}). With its own "
        f"best penalty the test error goes from {error[0]} to {error[1]} without noise and from {error[2]} to {error[3]} with it. "
        f"Best errors within {ERROR_TOLERANCE:.0%} of theory: {agreement}; measured best penalties are {min(ratio):.2f} to {max(ratio):.2f} "
        f"times the predicted ones (furthest: noise {far['noise']:g}, α = {far['alpha']:g})."
    )


def _surprise(curve: Array, clean: Level, gain: Estimate) -> str:
    """Where the theory's best penalty is largest without noise, and how much of the fall at FIXED is the step's."""
    ridges = [b.ridge for b in clean.best]
    top, peak = max(ridges) / ridges[0], curve[int(np.argmax(ridges))]
    plain = float(clean.fixed.test_error[0, 0] - clean.fixed.test_error[-1, 0])
    return (
        f"{'Learning more does not call for a smaller penalty' if top > 1 else 'The best penalty falls with the step'}: without noise the theory's best λ is largest at α = {peak:.3g}, "
        f"{top:.2f} times that at α = 0. At λ = {FIXED:g} the theory's error falls by {plain:.2f} from α = 0 to 1/2, at the best penalties the "
        f"measured one by {pm(gain, 3, 'f')}: {max(1 - float(gain.mean) / plain, 0):.0%} ± {float(gain.stderr) / plain:.0%} of the fall at the small penalty is variance that a good one removes without the step."
    )


def draw(data: Tuning) -> Figure:
    """The best penalty and the best error against α, and the error against λ at the largest noise."""
    penalty, panels = [], []
    for k, level in enumerate(data.levels):
        label = f"noise {level.problem.noise:g}"
        places, factors = np.array(level.found).T
        status = [b.prediction.status for b in level.best]
        penalty += theory_series(f"theory, {label}", data.curve, [b.ridge for b in level.best], status, k)
        spread = places * (factors - 1)
        penalty.append(Series(f"simulation, {label}", data.points, places, spread, "simulation", k))
        fixed = level.fixed
        series = (
            *theory_series(f"theory, {label}", data.curve, [b.test_error for b in level.best], status, k),
            points(f"simulation, {label}", data.points, level.tuned, colour=k),
            *theory_series(
                f"theory, λ = {FIXED:g}, {label}", data.curve, fixed.test_error[:, 0], fixed.status[:, 0], k + 4
            ),
        )
        title = f"best test error, {label}"
        panels.append(exponent_panel(title, f"test error, {label}", series, best_linear(level.problem)))
    last, whole, shape = data.levels[-1], data.whole, []
    for j, alpha in enumerate(whole.exponents):
        at = int(np.flatnonzero(data.points == alpha)[0])
        shape += theory_series(f"theory, α = {alpha:g}", whole.ridges, whole.test_error[j], whole.status[j], j + 2)
        shape.append(points(f"simulation, α = {alpha:g}", data.ridges, last.measured[at], colour=j + 2))
    first = (
        Panel("best penalty", EXPONENT, "λ", penalty, logy=True, verticals=THRESHOLDS),
        Panel("test error against λ, noise 1", "λ", "test error, noise 1", shape, logx=True),
    )
    caption = (
        f"Softplus, teacher H₁ + H₂/√2, n = {last.problem.n}, d = n/2, N = 3n/2, η = n^α, literal gradient, {len(last.measured.values)} seeds, mean ± standard error "
        f"(of the best penalty: jackknife of log λ). Vertical lines: thresholds (ℓ−1)/(2ℓ)."
    )
    title = "Test error at the best λ, from α = 0 to 1/2: " + "; ".join(
        f"{pm(level.tuned[0])} to {pm(level.tuned[len(data.points) - 1])} (noise {level.problem.noise:g})"
        for level in data.levels
    )
    return Figure([*first, *panels], caption, title=title)
