"""`regularisation`: the best penalty λ against the exponent α of the step, and how much of the gain tuning λ can replace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onestride.compare import ERROR_FLOOR, agree
from onestride.experiments.claim import FAILS, HOLDS, PARTLY
from onestride.experiments.outcome import Outcome, Settings
from onestride.plot import Panel, Series
from onestride.problem import Problem, Step
from onestride.result import Estimate
from onestride.simulate.run import simulate_grid
from onestride.theory.baselines import baselines
from onestride.theory.optimal import optimal_ridge
from onestride.theory.predict import predict_grid

NOISES = (0.0, 1.0)
BOUNDS = (0.05, 20.0)
FIXED = 0.01  # the penalty of the talk's figures, for comparison
THRESHOLDS = ((0.0, "0"), (0.25, "1/4"), (1 / 3, "1/3"), (0.375, "3/8"))
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
    peak = top = plain = float("nan")
    for k, noise in enumerate(NOISES):
        problem = Problem(
            n=n, d=n // 2, N=3 * n // 2, activation="softplus", teacher=(0, 1, 2**-0.5), noise=noise, step=Step()
        )
        best = [optimal_ridge(problem.at(exponent=float(a)), bounds=BOUNDS) for a in curve]
        at_points = [best[int(np.argmin(np.abs(curve - a)))] for a in points]
        settings.progress((k + 0.4) / 2)
        measured = simulate_grid(problem, points, ridges, seeds, untrained=False).test_error
        found = [minimum(ridges, measured[i].values) for i in range(points.size)]
        tuned = [_at(ridges, measured[i].values, at_points[i].ridge) for i in range(points.size)]
        gains.append(tuned[0] - tuned[-1])
        for i, alpha in enumerate(points):
            place, place_error = found[i]
            row = agree(at_points[i].test_error, tuned[i], ERROR_FLOOR)
            rows.append({"noise": noise, "alpha": float(alpha), "best ridge, theory": at_points[i].ridge})
            rows[-1] |= {
                "best ridge, measured": place,
                "factor of error": place_error,
                "best error, theory": row.predicted,
            }
            rows[-1] |= {"best error, measured": row.measured, "stderr": row.stderr, "agrees": row.agrees}
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
    good = sum(r["agrees"] for r in rows)
    return Outcome(
        name="regularisation",
        question="Which penalty is best after a step of size n^α, and can tuning it replace the step?",
        claim=(
            "Nothing is published on it. The natural guess: the best penalty stays that of random features, a matter of noise and "
            "sizes, and the step lowers the tuned error as it lowers any other."
        ),
        verdict=judge(
            [[(r["best ridge, measured"], r["factor of error"]) for r in part] for part in (clean, noisy)], gains
        ),
        finding=(
            f"At n = {n} the best penalty moves from λ = {_ridge(clean[0])} at α = 0 to {_ridge(clean[-1])} at α = 1/2 without noise, and from "
            f"{_ridge(noisy[0])} to {_ridge(noisy[-1])} with noise 1 (theory {clean[0]['best ridge, theory']:.2g} to "
            f"{clean[-1]['best ridge, theory']:.2g}, and {noisy[0]['best ridge, theory']:.2g} to {noisy[-1]['best ridge, theory']:.2g}). With its own "
            f"best penalty the test error still falls from {clean[0]['best error, measured']:.3f} ± {clean[0]['stderr']:.1g} to "
            f"{clean[-1]['best error, measured']:.3f} ± {clean[-1]['stderr']:.1g} without noise and from {noisy[0]['best error, measured']:.3f} ± "
            f"{noisy[0]['stderr']:.1g} to {noisy[-1]['best error, measured']:.3f} ± {noisy[-1]['stderr']:.1g} with it. {good} of {len(rows)} best errors "
            f"agree with theory; measured best penalties are {min(ratio):.2f} to {max(ratio):.2f} times the predicted ones (furthest: noise "
            f"{far['noise']:g}, α = {far['alpha']:g})."
        ),
        surprise=(
            f"Learning more does not call for a smaller penalty: without noise the theory's best λ is largest at α = {peak:.3g}, {top:.2f} "
            "times that of random features; perhaps (not tested) the learned spike carries the linear part whatever λ is and the rest is "
            f"better shrunk. And much of what the step gains at λ = {FIXED:g} ({plain:.2f} in theory) is variance that a good penalty removes "
            f"without it: {gains[0].mean:.3f} ± {gains[0].stderr:.1g} is left at the best penalties."
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


def judge(ridges: Sequence[Sequence[tuple[float, float]]], gains: Sequence[Estimate]) -> str:
    """From (λ, error factor) along α and the gain of the tuned test error, one of each per level of noise.

    The step must lower the tuned error by 3 errors; the best λ counts as moved when any differs from the first by more
    than 3 errors of their ratio and by more than a fifth.
    """
    if not all(float(gain.mean) > 3 * float(gain.stderr) for gain in gains):
        return FAILS
    changes = []
    for first, *others in ridges:
        for place, error in others:
            ratio, noise = np.log(place / first[0]), np.hypot(np.log(error), np.log(first[1]))
            changes += [ratio] if abs(ratio) > max(3 * noise, np.log(1.2)) else []
    if not changes:
        return HOLDS
    largest = float(np.exp(max(changes, key=abs)))
    return f"{PARTLY}: tuning does not replace the step, but the best penalty changes, by up to a factor {largest:.1f}"


def _ridge(row: dict[str, Any]) -> str:
    return f"{row['best ridge, measured']:.2g} (× or ÷ {row['factor of error']:.2g})"
