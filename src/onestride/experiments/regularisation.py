"""`regularisation`: the best penalty λ against the exponent α of the step, and how much of the gain tuning λ can replace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onestride.compare import ERROR_TOLERANCE, Agreement, Check, Pair, agree, check, seeds_words, together
from onestride.experiments.claim import FAILS, HOLDS, PARTLY, UNDECIDED, tally
from onestride.experiments.outcome import Outcome, Settings
from onestride.plot import Panel, Series
from onestride.problem import Problem, Step
from onestride.result import Estimate
from onestride.simulation.run import simulate_grid
from onestride.theory.baselines import baselines
from onestride.theory.optimal import optimal_ridge
from onestride.theory.predict import predict_grid

NOISES = (0.0, 1.0)
BOUNDS = (0.05, 20.0)
FIXED = 0.01  # the penalty of the talk's figures, for comparison
THRESHOLDS = ((0.0, "0"), (0.25, "1/4"), (1 / 3, "1/3"), (0.375, "3/8"))
MOVED = 1.2  # a best penalty within this factor of the first has not moved
SHOWN = (0.0, 0.3, 0.5)  # exponents of the panel with the whole curves


def run(settings: Settings) -> Outcome:
    """Predict the best penalty on a grid of exponents and measure it on common random numbers at a few of them."""
    n, seeds = settings.pick(100, 500, 2000), settings.seed_count(6, 12, 12)
    points = np.array(settings.pick((0.0, 0.5), (0.0, 0.1, 0.2, 0.3, 0.4, 0.5), (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)))
    curve = np.linspace(0, 0.5, settings.pick(2, 21, 21))  # holds the points
    ridges = np.geomspace(1e-2, 30, settings.pick(9, 15, 21))
    rows: list[dict[str, Any]] = []
    penalty, error, shape = [], [], []
    gains: list[Estimate] = []
    judged: list[Pair] = []
    peak = top = plain = float("nan")
    for k, noise in enumerate(NOISES):
        problem = Problem(
            n=n, d=n // 2, N=3 * n // 2, activation="softplus", teacher=(0, 1, 2**-0.5), noise=noise, step=Step()
        )
        best = [optimal_ridge(problem.at(exponent=float(a)), bounds=BOUNDS, throw=False) for a in curve]
        at_points = [best[int(np.argmin(np.abs(curve - a)))] for a in points]
        settings.progress((k + 0.4) / 2)
        measured = simulate_grid(problem, points, ridges, seeds, untrained=False).test_error
        found = [minimum(ridges, measured[i].values) for i in range(points.size)]
        tuned = [_at(ridges, measured[i].values, at_points[i].ridge) for i in range(points.size)]
        gains.append(tuned[0] - tuned[-1])
        for i, alpha in enumerate(points):
            place, place_error = found[i]
            row = agree(at_points[i].test_error, tuned[i], among=len(NOISES) * points.size)
            judged.append(row)
            rows.append({"noise": noise, "alpha": float(alpha), "best ridge, theory": at_points[i].ridge})
            rows[-1] |= {
                "best ridge, measured": place,
                "factor of error": place_error,
                "best error, theory": row.predicted,
            }
            rows[-1] |= {
                "best error, measured": row.measured,
                "stderr": row.stderr,
                "outcome": row.outcome.name.lower(),
            }
        label = f"noise {noise:g}"
        if noise == 0:
            highest = max(range(curve.size), key=lambda i: best[i].ridge)
            peak, top = float(curve[highest]), best[highest].ridge / best[0].ridge
        penalty += [Series(f"theory, {label}", curve, [b.ridge for b in best], colour=k)]
        places, factors = np.array([f[0] for f in found]), np.array([f[1] for f in found])
        penalty += [Series(f"simulation, {label}", points, places, places * (factors - 1), "simulation", k)]
        fixed = predict_grid(problem, curve, [FIXED]).test_error[:, 0]
        plain = float(fixed[0] - fixed[-1]) if noise == 0 else plain
        base = baselines(problem)["best-linear"].test_error
        mine = [r for r in rows if r["noise"] == noise]
        series = [
            Series("best λ, theory", curve, [b.test_error for b in best], colour=k),
            Series(
                "best λ, simulation",
                points,
                [r["best error, measured"] for r in mine],
                [r["stderr"] for r in mine],
                "simulation",
                k,
            ),
            Series(f"λ = {FIXED:g}, theory", curve, fixed, kind="limit", colour=k),
        ]
        lines = [(base, "best linear predictor")]
        error.append(
            Panel(
                f"best test error, {label}",
                "α = log η / log n",
                "test error",
                series,
                verticals=THRESHOLDS,
                horizontals=lines,
            )
        )
        if noise:
            shape = _curves(problem, ridges, points, measured)
        settings.progress((k + 1) / 2)

    clean, noisy = ([r for r in rows if r["noise"] == noise] for noise in NOISES)
    ratio = [r["best ridge, measured"] / r["best ridge, theory"] for r in rows]
    far = max(rows, key=lambda r: abs(np.log(r["best ridge, measured"] / r["best ridge, theory"])))
    return Outcome(
        name="regularisation",
        question="Which penalty is best after a step of size n^α, and can tuning it replace the step?",
        claim=(
            "Nothing is published on it. The natural guess: the best penalty stays that of random features, a matter of noise and "
            "sizes, and the step lowers the tuned error as it lowers any other."
        ),
        verdict=judge(
            [[(r["best ridge, measured"], r["factor of error"]) for r in part] for part in (clean, noisy)], gains, seeds
        ),
        finding=(
            f"At n = {n} the best penalty moves from λ = {_ridge(clean[0])} at α = 0 to {_ridge(clean[-1])} at α = 1/2 without noise, and from "
            f"{_ridge(noisy[0])} to {_ridge(noisy[-1])} with noise 1 (theory {clean[0]['best ridge, theory']:.2g} to "
            f"{clean[-1]['best ridge, theory']:.2g}, and {noisy[0]['best ridge, theory']:.2g} to {noisy[-1]['best ridge, theory']:.2g}). With its own "
            f"best penalty the test error still falls from {clean[0]['best error, measured']:.3f} ± {clean[0]['stderr']:.1g} to "
            f"{clean[-1]['best error, measured']:.3f} ± {clean[-1]['stderr']:.1g} without noise and from {noisy[0]['best error, measured']:.3f} ± "
            f"{noisy[0]['stderr']:.1g} to {noisy[-1]['best error, measured']:.3f} ± {noisy[-1]['stderr']:.1g} with it. Best errors within "
            f"{ERROR_TOLERANCE:.0%} of theory: {tally(judged)}; measured best penalties are {min(ratio):.2f} to {max(ratio):.2f} times the predicted ones (furthest: noise "
            f"{far['noise']:g}, α = {far['alpha']:g})."
        ),
        surprise=(
            f"{'Learning more does not call for a smaller penalty' if top > 1 else 'The best penalty falls with the step'}: without noise the theory's best λ is largest at α = {peak:.3g}, "
            f"{top:.2f} times that at α = 0. At λ = {FIXED:g} the theory's error falls by {plain:.2f} from α = 0 to 1/2, at the best penalties the "
            f"measured one by {gains[0].mean:.3f} ± {gains[0].stderr:.1g}: {max(1 - float(gains[0].mean) / plain, 0):.0%} of the fall at the small penalty is variance that a good one removes without the step."
        ),
        rows=rows,
        panels=(
            Panel("best penalty", "α = log η / log n", "λ", penalty, logy=True, verticals=THRESHOLDS),
            Panel("test error against λ, noise 1", "λ", "test error", shape, logx=True),
            *error,
        ),
        caption=(
            f"Softplus, teacher H₁ + H₂/√2, n = {n}, d = n/2, N = 3n/2, η = n^α, literal gradient, {seeds} seeds, mean ± standard error "
            f"(of the best penalty: jackknife of log λ). Vertical lines: thresholds (ℓ−1)/(2ℓ)."
        ),
    )


def _curves(problem: Problem, ridges: np.ndarray, points: np.ndarray, measured: Estimate) -> list[Series]:
    fine = np.geomspace(ridges[0], ridges[-1], 2 * ridges.size - 1 if ridges.size > 9 else 5)
    shown = [a for a in SHOWN if a in points]
    theory = predict_grid(problem, shown, fine).test_error
    series = []
    for j, alpha in enumerate(shown):
        e = measured[int(np.flatnonzero(points == alpha)[0])]
        series += [Series(f"theory, α = {alpha:g}", fine, theory[j], colour=j)]
        series += [Series(f"simulation, α = {alpha:g}", ridges, e.mean, e.stderr, "simulation", j)]
    return series


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


def judge(ridges: Sequence[Sequence[tuple[float, float]]], gains: Sequence[Estimate], seeds: int) -> str:
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
    if together(lower) is Agreement.UNDECIDED or (unclear and not moved):
        return f"{UNDECIDED}: {seeds_words(unclear)}"
    if not moved:
        return f"{HOLDS} within a factor {MOVED:g}"
    largest = float(np.exp(max(moved, key=abs)))
    return f"{PARTLY}: tuning does not replace the step, but the best penalty changes, by up to a factor {largest:.1f}"


def _ridge(row: dict[str, Any]) -> str:
    return f"{row['best ridge, measured']:.2g} (× or ÷ {row['factor of error']:.2g})"
