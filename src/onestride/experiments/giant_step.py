"""`giant-step`: η of order √n (α = 1/2): the fixed point of Cui et al. 2024, the profile theory, and two readouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onestride.compare import ERROR_TOLERANCE, Agreement, Check, check, seeds_words, together
from onestride.conventions import problem_from
from onestride.experiments.claim import FAILS, HOLDS, PARTLY, UNDECIDED, pm
from onestride.experiments.outcome import Outcome, Settings
from onestride.plot import Panel, Series
from onestride.problem import Problem, Step
from onestride.result import Estimate
from onestride.simulation.run import simulate, simulate_grid
from onestride.theory.baselines import baselines
from onestride.theory.giant_step import giant_step
from onestride.theory.predict import predict

# Cui et al.'s two settings; n₀ = α₀d samples for the step, p = d neurons, α = n/d on the axis.
SETTINGS = {
    "n₀ = d/2": {"alpha0": 0.5, "eta_tilde": 1, "lam": 0.01, "teacher": "tanh"},
    "n₀ = 20d": {"alpha0": 20, "eta_tilde": 3, "lam": 0.1, "teacher": "sin"},
}
PUBLISHED = {0.2: 0.2944, 0.667: 0.3185, 1.133: 0.2770, 1.6: 0.2057, 2.067: 0.1722, 2.533: 0.1549, 3.0: 0.1445}
CONSTANTS = (0.5, 1.0, 2.0, 4.0, 8.0)


def run(settings: Settings) -> Outcome:
    """Both of Cui et al.'s settings against n/d, then constant and Gaussian readout against the prefactor c."""
    d, seeds = settings.pick(80, 300, 1000), settings.seed_count(6, 30, 20)
    ratios = settings.pick((0.5, 2.0), tuple(PUBLISHED), tuple(PUBLISHED))
    panels, rows = [], []
    gaps: dict[str, dict[str, Estimate]] = {}
    for k, (title, setting) in enumerate(SETTINGS.items()):

        def at(ratio: float, setting: dict[str, Any] = setting) -> Problem:
            return problem_from("cui2024", d=d, alpha=float(ratio), beta=1, activation="tanh", **setting)

        # each ratio has seeds of its own, so that the points are independent
        measured = [simulate(at(r), range(i * seeds, (i + 1) * seeds)).test_error for i, r in enumerate(ratios)]
        theories = {name: [errors(at(r)) for r in ratios] for name, errors in THEORIES.items()}
        gaps[title] = {
            name: Estimate(np.mean([e.values / t - 1 for t, e in zip(values, measured, strict=True)], axis=0))
            for name, values in theories.items()
        }
        for i, r in enumerate(ratios):
            rows.append(_row(title, "n/d", r, theories["profile theory"][i], theories["Cui et al."][i], measured[i]))
        curve = np.linspace(ratios[0], ratios[-1], settings.pick(5, 29, 29))
        series = [
            Series(name, curve, [f(at(r)) for r in curve], colour=i) for i, (name, f) in enumerate(THEORIES.items())
        ]
        series.append(
            Series(
                f"simulation, d = {d}", ratios, [e.mean for e in measured], [e.stderr for e in measured], "simulation"
            )
        )
        if k == 0:
            published = list(PUBLISHED), list(PUBLISHED.values())
            series.append(Series("published, d = 2000", *published, kind="simulation", colour=1))
        panels.append(Panel(f"tanh student of {setting['teacher']}, {title}", "n/d", "test error", series))
        settings.progress((k + 1) / 3)
    panel, better = _readouts(settings, rows)
    few, many = SETTINGS
    lead = int(np.argmin([float(e.mean) for e in better]))
    lead_clear = check(better[lead], low=0, among=len(better)).differs
    return Outcome(
        name="giant-step",
        question="Is the error after a step of order √n known, and does it matter which readout the step starts from?",
        claim=(
            "For a constant readout the error has an exact limit, a fixed point with an isotropic bulk (Cui et al. 2024), exact for "
            "n₀ ≫ d. A readout with more values learns more functions of the direction found (Dandi et al. 2024)."
        ),
        verdict=judge(near_zero(gaps[many]["Cui et al."]), near_zero(gaps[few]["Cui et al."]), better),
        finding=(
            f"Average relative distance of simulation from theory over {len(ratios)} ratios n/d (d = {d}, {seeds} seeds each): for n₀ = 20d "
            f"fixed point {_percent(gaps[many]['Cui et al.'])}, profile theory {_percent(gaps[many]['profile theory'])}; for n₀ = d/2 fixed point "
            f"{_percent(gaps[few]['Cui et al.'])}, profile theory {_percent(gaps[few]['profile theory'])}. The constant readout's test error less the Gaussian one's is "
            + ", ".join(f"{pm(e, 2)} at c = {c:g}" for c, e in zip(CONSTANTS, better, strict=True))
            + " (paired by seed)."
        ),
        surprise=(
            f"More values are {'not always better: the constant readout, which puts the whole step into one function of the direction found,' if lead_clear else 'not shown to be worse anywhere: the constant readout'} "
            f"does best against the Gaussian one at c = {CONSTANTS[lead]:g} ({pm(better[lead], 2)}; {pm(better[-1], 2)} at c = {CONSTANTS[-1]:g}). The profile theory is "
            f"{_last(rows, 'constant')} from simulation at c = {CONSTANTS[-1]:g} for the constant readout, {_last(rows, 'gaussian')} for "
            "the Gaussian one."
        ),
        rows=rows,
        panels=(*panels, panel),
        caption=(
            f"Left and middle: settings of Cui et al. 2024 in their scaling, p = d = {d}, constant readout, η = η̃√p, labels-only gradient, "
            f"no noise; η̃ = 1, λ_C = 0.01 (left), η̃ = 3, λ_C = 0.1 (middle), {seeds} seeds; published means are over 3 seeds. Right: ReLU, "
            f"teacher H₁ + H₂/√2, noise 0.5, λ = 0.1, n = {_size(settings)}, d = n/2, N = 3n/2, n₀ = 4n, η = c√n, labels-only gradient, "
            f"{settings.seed_count(6, 20, 12)} seeds; the fixed point is drawn where its iteration converges. Mean ± standard error."
        ),
        columns=3,
    )


def _fixed_point(problem: Problem) -> float:
    with np.errstate(over="ignore", invalid="ignore"):  # it says so itself when it diverges
        return giant_step(problem).test_error


THEORIES: dict[str, Callable[[Problem], float]] = {
    "profile theory": lambda problem: predict(problem, throw=False).test_error,
    "Cui et al.": _fixed_point,
}


def _size(settings: Settings) -> int:
    return settings.pick(100, 400, 2000)


def _readouts(settings: Settings, rows: list[dict[str, Any]]) -> tuple[Panel, list[Estimate]]:
    """Test error against c at α = 1/2 for both readouts; the panel, and constant minus Gaussian at every c."""
    n, seeds = _size(settings), settings.seed_count(6, 20, 12)
    base = Problem(n=n, d=n // 2, N=3 * n // 2, teacher=(0, 1, 2**-0.5), noise=0.5, gradient="labels", n_step=4 * n)
    exponents = 0.5 + np.log(CONSTANTS) / np.log(n)  # the same step with constant 1: one simulation serves all c
    curve = np.geomspace(CONSTANTS[0], CONSTANTS[-1], settings.pick(3, 17, 17))
    series, found = [], {}
    for k, readout in enumerate(("constant", "gaussian")):
        problem = base.replace(readout=readout, step=Step())
        found[readout] = simulate_grid(problem, exponents, [base.ridge], seeds, untrained=False).test_error[:, 0]

        def at(c: float, problem: Problem = problem) -> Problem:
            return problem.replace(step=Step(constant=float(c), exponent=0.5))

        theories = THEORIES if readout == "constant" else {"profile theory": THEORIES["profile theory"]}
        for name, errors in theories.items():
            exact = name == "profile theory"
            line = [errors(at(c)) for c in curve]
            series.append(
                Series(f"{name}, {readout}", curve, line, kind="theory" if exact else "limit", colour=k if exact else 2)
            )
        mean, error = found[readout].mean, found[readout].stderr
        series.append(Series(f"simulation, {readout}", CONSTANTS, mean, error, "simulation", k))
        for i, c in enumerate(CONSTANTS):
            values = [errors(at(c)) for errors in theories.values()]
            rows.append(
                _row(
                    f"{readout} readout",
                    "c",
                    c,
                    values[0],
                    values[-1] if len(values) > 1 else np.nan,
                    found[readout][i],
                )
            )
    lines = [(baselines(base)["best-linear"].test_error, "best linear predictor")]
    panel = Panel(
        "constant and Gaussian readout",
        "c, with η = c√n",
        "test error",
        series,
        logx=True,
        xticks=CONSTANTS,
        horizontals=lines,
    )
    return panel, [(found["constant"] - found["gaussian"])[i] for i in range(len(CONSTANTS))]


def near_zero(gap: Estimate) -> Check:
    """Is an average relative gap within ERROR_TOLERANCE of 0?"""
    return check(gap, -ERROR_TOLERANCE, ERROR_TOLERANCE, among=2)


def judge(far: Check, near: Check, better: Sequence[Estimate]) -> str:
    """From the fixed point's gaps at n₀ ≫ d and at n₀ = d/2, and the Gaussian readout's advantage at rising c."""
    above = [check(e, low=0, among=len(better)) for e in better]
    richer, poorer = above[-1].outcome, any(c.differs for c in above[:-1])
    if far.agrees and near.agrees and together(above) is Agreement.AGREES:
        return HOLDS
    if far.differs and richer is Agreement.DIFFERS:
        return FAILS
    told = {Agreement.AGREES: "within", Agreement.DIFFERS: "not within", Agreement.UNDECIDED: f"{UNDECIDED} within"}
    fixed = f"{told[far.outcome]} {ERROR_TOLERANCE:.0%} for n₀ ≫ d, {told[near.outcome]} it for n₀ = d/2"
    words = {Agreement.AGREES: "is better", Agreement.DIFFERS: "is not better", Agreement.UNDECIDED: f"is {UNDECIDED}"}
    readout = f"{words[richer]} at the largest c{' but worse at smaller ones' if poorer else ''}"
    unclear = [c for c in (far, near, above[-1]) if c.outcome is Agreement.UNDECIDED]
    start = PARTLY if far.agrees or richer is Agreement.AGREES else UNDECIDED if unclear else FAILS
    seeds = f" ({seeds_words(unclear)})" if unclear else ""
    return f"{start}: the fixed point is {fixed}, the Gaussian readout {readout}{seeds}"


def _last(rows: list[dict[str, Any]], readout: str) -> str:
    """Relative distance of the profile theory at the largest c."""
    row = next(r for r in reversed(rows) if r["setting"] == f"{readout} readout")
    return (
        "not solved, so no distance"
        if row["profile theory"] is None
        else f"{row['profile theory'] / row['measured'] - 1:+.0%}"
    )


def _percent(e: Estimate) -> str:
    return f"{float(e.mean):+.1%} ± {float(e.stderr):.1%}"


def _row(setting: str, axis: str, x: float, profile: float, fixed: float, measured: Estimate) -> dict[str, Any]:
    numbers = {"profile theory": profile, "Cui et al.": fixed}
    row = {"setting": setting, "axis": axis, "x": float(x)}
    row |= {name: float(value) if np.isfinite(value) else None for name, value in numbers.items()}
    return row | {"measured": float(measured.mean), "stderr": float(measured.stderr)}
