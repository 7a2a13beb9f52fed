"""`errors`: train and test error against log η / log n, for the talk's two settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from onestride.comparison import ERROR_TOLERANCE, Agreement, Check, Pair, agree, check, seeds_words, together
from onestride.experiments.kit import ERRORS, QUADRATIC, exponent_panel, inside_windows, pm, points, problem_at, row_of
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.verdict import FAILS, HOLDS, NOT_YET, UNDECIDED, marks, tally, worded
from onestride.plot import Series, theory_series
from onestride.problem import Problem
from onestride.result import Estimate, PredictionGrid, Simulation
from onestride.simulation.run import simulate_grid
from onestride.theory.baselines import baselines
from onestride.theory.predict import predict_grid

CLAIM = (
    "Both errors fall by a plateau in each window of α; in setting 2 the error passes below what random features reach."
)
SIZES = {"n": (200, 1200, 8000), "seeds": (4, 8, 16), "points": (6, 11, 11), "fine": (11, 41, 61)}
FAR = 10**15
SETTINGS = {"setting 1: H₁, noise 1": ((0.0, 1.0), 1.0), "setting 2: H₁ + H₂/√2": (QUADRATIC, 0.0)}


@dataclass(frozen=True)
class Setting:
    """One of the talk's settings: simulation and theory at the same exponents, and the curves to draw."""

    title: str
    problem: Problem
    measured: Simulation
    theory: PredictionGrid
    plateaus: PredictionGrid  # at those of the exponents that lie inside a window
    curve: PredictionGrid
    limit: PredictionGrid
    far: PredictionGrid  # the curve at n = FAR


def measure(size: SimpleNamespace, progress: Progress) -> list[Setting]:
    """Simulate both settings on a grid of exponents, with the profile theory and the limits."""
    alphas, fine = np.linspace(0, 0.5, size.points), np.linspace(0, 0.5, size.fine)
    found = []
    for title, (teacher, noise) in SETTINGS.items():
        problem = problem_at(size.n, activation="softplus", teacher=teacher, noise=noise, ridge=0.01)
        ridges = [problem.ridge]
        measured = simulate_grid(problem, alphas, ridges, size.seeds, device=size.device)
        theory, curve = (predict_grid(problem, a, ridges) for a in (alphas, fine))
        plateaus, limit = (
            predict_grid(problem, inside_windows(a), ridges, method="plateau")
            for a in (alphas, np.linspace(0.002, 0.45, 300))
        )
        far = predict_grid(
            problem_at(FAR, activation="softplus", teacher=teacher, noise=noise, ridge=0.01), fine, ridges
        )
        found.append(Setting(title, problem, measured, theory, plateaus, curve, limit, far))
        progress(len(found) / len(SETTINGS))
    return found


def judge(settings: list[Setting]) -> Judgement:
    """Every point beside the theory at this n and, inside a window, beside its plateau."""
    first = settings[0]
    among = [2 * len(ERRORS) * len(grid.exponents) for grid in (first.theory, first.plateaus)]
    rows: list[dict] = []
    finite: list[Pair] = []
    plateaus: list[Pair] = []
    for k, setting in enumerate(settings):
        for name in ERRORS:
            for i, alpha in enumerate(setting.theory.exponents):
                measured = getattr(setting.measured, name)[i, 0]
                finite.append(agree(getattr(setting.theory, name)[i, 0], measured, among=among[0], quantity=name))
                rows.append(row_of(finite[-1], setting=k + 1, quantity=name, alpha=float(alpha)))
                at = np.flatnonzero(setting.plateaus.exponents == alpha)
                limit = float(getattr(setting.plateaus, name)[at[0], 0]) if at.size else None
                if limit is not None:
                    plateaus.append(agree(limit, measured, among=among[1], quantity=name))
                on = plateaus[-1].outcome.name.lower() if limit is not None else None
                rows[-1] |= {"plateau": limit, "on plateau": on}
    gain: Estimate = settings[-1].measured.test_gain[-1, 0]
    return Judgement(
        words=_words(plateaus, finite, check(gain, low=0)),
        finding=_finding(settings, rows, plateaus, finite, gain),
        surprise=" ".join(_inside(k + 1, setting) for k, setting in enumerate(settings)),
        rows=rows,
    )


def _words(plateaus: Sequence[Pair], finite: Sequence[Pair], below: Check) -> str:
    """`below`: is there a gain at α = 1/2?"""
    theory = {
        Agreement.AGREES: "the theory at this n agrees",
        Agreement.DIFFERS: "the theory at this n differs too",
        Agreement.UNDECIDED: f"the theory at this n is {UNDECIDED}: {seeds_words(finite)}",
    }[together(finite)]
    if below.differs:
        return f"{FAILS}: the error does not pass below that of random features; {theory}"
    away = sum(pair.outcome is Agreement.DIFFERS for pair in plateaus)
    if away:
        return f"{NOT_YET}: {away} of {len(plateaus)} points are off their plateau by more than {ERROR_TOLERANCE:.0%}; {theory}"
    if together([*plateaus, below]) is Agreement.UNDECIDED:
        return f"{UNDECIDED} for the plateaus: {seeds_words([*plateaus, below])}; {theory}"
    return f"{HOLDS} within {ERROR_TOLERANCE:.0%}; {theory}"


def _finding(
    settings: list[Setting], rows: list[dict], plateaus: Sequence[Pair], finite: Sequence[Pair], gain: Estimate
) -> str:
    problem, seeds = settings[0].problem, len(gain.values)
    off = max((r for r in rows if r["plateau"] is not None), key=lambda r: abs(r["plateau"] / r["measured"] - 1))
    worst = max(rows, key=lambda r: abs(r["theory"] / r["measured"] - 1))
    ends = (
        next(r for r in rows if r["setting"] == 2 and r["quantity"] == "test_error" and r["alpha"] == a)
        for a in (0, 0.5)
    )
    start, end = (f"{r['measured']:.3f} ± {r['stderr']:.1g}" for r in ends)
    return (
        f"At n = {problem.n} ({seeds} seeds), within {ERROR_TOLERANCE:.0%} of the plateaus of the limit: {tally(plateaus)}; "
        f"the furthest is {off['plateau'] / off['measured'] - 1:+.0%} from simulation ({_place(off)}). Within "
        f"{ERROR_TOLERANCE:.0%} of the profile theory at this n: {tally(finite)}; the largest gap is "
        f"{worst['theory'] / worst['measured'] - 1:+.1%} ({_place(worst)}, measured {worst['measured']:.4g} ± {worst['stderr']:.1g}). "
        f"In setting 2 the test error goes from {start} at α = 0 to {end} at α = 1/2, "
        f"{gain.mean:.3f} ± {gain.stderr:.1g} below that of random features.{marks(*(s.theory for s in settings))}"
    )


def _place(row: dict) -> str:
    return f"setting {row['setting']}, {ERRORS[row['quantity']]}, α = {row['alpha']:g}"


def _inside(k: int, setting: Setting) -> str:
    """What the test error does inside window 1, where the limit is flat."""
    inner = [i for i, a in enumerate(setting.theory.exponents) if 0 < a < 0.25]
    start, end = (setting.theory.exponents[i] for i in (inner[0], inner[-1]))
    fall = setting.measured.test_error[inner[-1], 0] - setting.measured.test_error[inner[0], 0]
    how = worded(
        fall,
        0.0,
        above="it rises",
        below="there is no plateau to be seen",
        equal="it is flat",
        unclear="these seeds do not tell it from flat",
    )
    where = f"from α = {start:g} to {end:g}, inside window 1, where the limit is flat"
    return (
        f"Setting {k}: {where}, the test error changes by {fall.mean:+.3f} ± {fall.stderr:.1g} (paired by seed): {how}."
    )


def draw(settings: list[Setting]) -> Figure:
    """Both errors of both settings against α, and the fall of the test error below random features, paired by seed."""
    panels = []
    for setting in settings:
        linear = baselines(setting.problem)["best-linear"].test_error, "best linear predictor = kernel lower bound"
        for name, label in ERRORS.items():
            lines = [(float(getattr(setting.curve.untrained, name)[0, 0]), "random features")]
            lines += [linear] if name == "test_error" else []
            panels.append(exponent_panel(f"{setting.title}, {label}", label, _series(setting, name), lines))
        fall, below = "fall below random features", [(0.0, "random features")]
        panels.append(exponent_panel(f"{setting.title}, paired", fall, _series(setting, "test_gain"), below))
    n, gain = settings[0].problem.n, settings[-1].measured.test_gain[-1, 0]
    caption = (
        f"Softplus, n = {n}, d = n/2, N = 3n/2, λ = 0.01, η = n^α, literal gradient, {len(gain.values)} seeds, mean ± standard error. "
        "Right: test error of random features minus that after the step, paired by seed. Vertical lines: thresholds (ℓ−1)/(2ℓ)."
    )
    title = f"Setting 2 at α = 1/2 and n = {n}: the test error lies {pm(gain)} below that of random features"
    return Figure(panels, caption, columns=3, title=title)


def _series(setting: Setting, name: str) -> list[Series]:
    """Simulation, theory at its n and at FAR, and the limit."""
    curve, far, limit = (getattr(grid, name)[:, 0] for grid in (setting.curve, setting.far, setting.limit))
    return [
        *theory_series("theory at this n", setting.curve.exponents, curve, setting.curve.status[:, 0]),
        Series("theory, n = 10¹⁵", setting.far.exponents, far, colour=2),
        Series("limit n → ∞", setting.limit.exponents, limit, kind="limit", colour=3),
        points("simulation", setting.theory.exponents, getattr(setting.measured, name)),
    ]
