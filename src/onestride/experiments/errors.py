"""`errors`: train and test error against log η / log n, for the talk's two settings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onestride.compare import ERROR_TOLERANCE, Agreement, Check, Row, agree, check, seeds_words, together
from onestride.experiments.claim import FAILS, HOLDS, NOT_YET, UNDECIDED, marks, tally, worded
from onestride.experiments.outcome import Outcome, Settings
from onestride.plot import Panel, Series
from onestride.problem import Problem, Step
from onestride.result import Estimate
from onestride.simulation.run import simulate_grid
from onestride.theory.baselines import baselines
from onestride.theory.plateau import window
from onestride.theory.predict import predict_grid

TEACHERS = {"setting 1: H₁, noise 1": ((0.0, 1.0), 1.0), "setting 2: H₁ + H₂/√2": ((0.0, 1.0, 2**-0.5), 0.0)}
THRESHOLDS = ((0.0, "0"), (0.25, "1/4"), (1 / 3, "1/3"), (0.375, "3/8"))
QUANTITIES = {"train_loss": "ridge objective", "test_error": "test error"}


def judge(plateaus: Sequence[Row], finite: Sequence[Row], below: Check) -> str:
    """`plateaus`: measured beside the n → ∞ limits; `finite`: beside the theory at this n; `below`: is there a gain at α = 1/2?"""
    theory = {
        Agreement.AGREES: "the theory at this n agrees",
        Agreement.DIFFERS: "the theory at this n differs too",
        Agreement.UNDECIDED: f"the theory at this n is {UNDECIDED}: ",
    }[together(finite)]
    theory += seeds_words(finite) if theory.endswith(": ") else ""
    if below.differs:
        return f"{FAILS}: the error does not pass below that of random features; {theory}"
    away = sum(row.outcome is Agreement.DIFFERS for row in plateaus)
    if away:
        return f"{NOT_YET}: {away} of {len(plateaus)} points are off their plateau by more than {ERROR_TOLERANCE:.0%}; {theory}"
    if together([*plateaus, below]) is Agreement.UNDECIDED:
        return f"{UNDECIDED} for the plateaus: {seeds_words([*plateaus, below])}; {theory}"
    return f"{HOLDS} within {ERROR_TOLERANCE:.0%}; {theory}"


def run(settings: Settings) -> Outcome:
    """Simulate both settings on a grid of exponents and compare every point with the profile theory."""
    n, seeds = settings.pick(200, 1200, 8000), settings.seed_count(4, 8, 16)
    points, curve = np.linspace(0, 0.5, settings.pick(6, 11, 11)), np.linspace(0, 0.5, settings.pick(11, 41, 41))
    panels, rows, finite, plateaus, falls, gains, theories = [], [], [], [], [], [], []
    lies = [a for a in points if a < 0.5 and not np.isnan(window(a))]  # exponents inside a window
    among = 2 * len(QUANTITIES) * points.size, 2 * len(QUANTITIES) * len(lies)
    for k, (title, (teacher, noise)) in enumerate(TEACHERS.items()):
        problem = Problem(
            n=n, d=n // 2, N=3 * n // 2, activation="softplus", teacher=teacher, noise=noise, ridge=0.01, step=Step()
        )
        measured = simulate_grid(problem, points, [problem.ridge], seeds)
        at_points = predict_grid(problem, points, [problem.ridge])
        smooth = predict_grid(problem, curve, [problem.ridge])
        inside = [a for a in np.linspace(0.002, 0.45, 300) if not np.isnan(window(a))]
        limit = predict_grid(problem, inside, [problem.ridge], method="plateau")
        steps = predict_grid(problem, lies, [problem.ridge], method="plateau")
        base = baselines(problem)
        for name, label in QUANTITIES.items():
            estimate: Estimate = getattr(measured, name)
            series = (
                Series("theory at this n", curve, getattr(smooth, name)[:, 0]),
                Series("limit n → ∞", inside, getattr(limit, name)[:, 0], kind="limit"),
                Series("simulation", points, estimate.mean[:, 0], estimate.stderr[:, 0], "simulation"),
            )
            lines = [(float(getattr(smooth.untrained, name)[0, 0]), "random features")]
            if name == "test_error":
                lines += [(base["best-linear"].test_error, "best linear predictor = kernel lower bound")]
            panels.append(
                Panel(f"{title}, {label}", "α = log η / log n", label, series, verticals=THRESHOLDS, horizontals=lines)
            )
            for i, alpha in enumerate(points):
                row = agree(float(getattr(at_points, name)[i, 0]), estimate[i, 0], among=among[0], quantity=name)
                finite.append(row)
                step = None
                if alpha in lies:
                    value = float(getattr(steps, name)[lies.index(alpha), 0])
                    step = agree(value, estimate[i, 0], among=among[1], quantity=name)
                    plateaus.append(step)
                rows.append(
                    {"setting": k + 1, "quantity": name, "alpha": float(alpha), "theory": row.predicted}
                    | {"measured": row.measured, "stderr": row.stderr, "outcome": row.outcome.name.lower()}
                    | {"plateau": step and step.predicted, "on plateau": step and step.outcome.name.lower()}
                )
        start, *_, end = (i for i, a in enumerate(points) if 0 < a < 0.25)
        falls.append(measured.test_error[end, 0] - measured.test_error[start, 0])
        theories.append(at_points)
        gains.append(measured.test_gain[-1, 0])
        settings.progress((k + 1) / 2)
    gain: Estimate = gains[-1]
    inner = [float(a) for a in points if 0 < a < 0.25]
    off = max((r for r in rows if r["plateau"] is not None), key=lambda r: abs(r["plateau"] / r["measured"] - 1))
    worst = max(rows, key=lambda row: abs(row["theory"] / row["measured"] - 1))
    gap = worst["theory"] / worst["measured"] - 1
    first, last = (
        next(r for r in rows if r["setting"] == 2 and r["quantity"] == "test_error" and r["alpha"] == a)
        for a in (0, 0.5)
    )
    return Outcome(
        name="errors",
        question="How do train and test error fall with the exponent of the step, beside theory and baselines?",
        claim="Both errors fall by a plateau in each window of α; in setting 2 the error passes below what random features reach.",
        verdict=judge(plateaus, finite, check(gain, low=0)),
        finding=(
            f"At n = {n} ({seeds} seeds), within {ERROR_TOLERANCE:.0%} of the plateaus of the limit: {tally(plateaus)}; the furthest is {off['plateau'] / off['measured'] - 1:+.0%} "
            f"from simulation (setting {off['setting']}, {off['quantity']}, α = {off['alpha']:g}). Within {ERROR_TOLERANCE:.0%} of the profile theory at this n: {tally(finite)}; the largest gap is {gap:+.1%} (setting {worst['setting']}, {worst['quantity']}, α = {worst['alpha']:g}, "
            f"measured {worst['measured']:.4g} ± {worst['stderr']:.1g}). In setting 2 the test error falls from "
            f"{first['measured']:.3f} ± {first['stderr']:.1g} at α = 0 to {last['measured']:.3f} ± {last['stderr']:.1g} at α = 1/2, "
            f"{gain.mean:.3f} ± {gain.stderr:.1g} below that of random features.{marks(*theories)}"
        ),
        surprise=" ".join(_inside(k + 1, fall, inner) for k, fall in enumerate(falls)),
        rows=rows,
        panels=tuple(panels),
        caption=(
            f"Softplus, n = {n}, d = n/2, N = 3n/2, λ = 0.01, η = n^α, literal gradient, {seeds} seeds, mean ± standard error. "
            "Vertical lines: thresholds (ℓ−1)/(2ℓ)."
        ),
    )


def _inside(setting: int, fall: Estimate, inner: Sequence[float]) -> str:
    """What the test error does inside window 1, where the limit is flat."""
    how = worded(
        fall,
        0.0,
        above="it rises",
        below="there is no plateau to be seen",
        equal="it is flat",
        unclear="these seeds do not tell it from flat",
    )
    where = f"from α = {inner[0]:g} to {inner[-1]:g}, inside window 1, where the limit is flat"
    return f"Setting {setting}: {where}, the test error changes by {fall.mean:+.3f} ± {fall.stderr:.1g} (paired by seed): {how}."
