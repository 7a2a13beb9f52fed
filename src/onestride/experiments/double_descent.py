"""`double-descent`: test error against N/n, for random features and after one step, at a small and a larger penalty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onestride.compare import ERROR_TOLERANCE, Agreement, Check, Pair, agree, check, seeds_words, together
from onestride.experiments.claim import FAILS, HOLDS, PARTLY, UNDECIDED, marks, tally, worded
from onestride.experiments.outcome import Outcome, Settings
from onestride.plot import Panel, Series, theory_series
from onestride.problem import Problem, Step
from onestride.result import Estimate
from onestride.simulation.run import simulate_grid
from onestride.theory.baselines import baselines
from onestride.theory.predict import predict_grid

ALPHA = 0.3
RIDGES = (1e-3, 0.3)
MODELS = {"untrained": "random features", "trained": f"after a step, α = {ALPHA:g}"}
TICKS = (0.125, 0.25, 0.5, 1, 2, 4, 8)


def run(settings: Settings) -> Outcome:
    """Simulate a range of widths at fixed n and d, with and without the step, on common random numbers."""
    n, seeds = settings.pick(100, 400, 1600), settings.seed_count(6, 12, 12)
    ratios = np.array(settings.pick((0.25, 1, 4), (0.125, 0.25, 0.5, 0.7, 1, 1.4, 2, 4, 8), (0.125, *TICKS[1:])))
    curve = np.geomspace(ratios[0], ratios[-1], settings.pick(9, 49, 49))
    problem = Problem(
        n=n, d=n // 2, N=n, teacher=(0, 1, 2**-0.5), noise=0.5, ridge=RIDGES[0], step=Step(exponent=ALPHA)
    )
    base = baselines(problem)
    rows: list[dict[str, Any]] = []
    falls: list[Estimate] = []
    judged: list[Pair] = []
    theories = []
    errors: dict[tuple[str, float], list[np.ndarray]] = {(m, r): [] for m in MODELS.values() for r in RIDGES}
    among = len(MODELS) * len(RIDGES) * ratios.size
    for i, ratio in enumerate(ratios):
        wide = problem.replace(N=round(n * ratio))
        measured, theory = simulate_grid(wide, [ALPHA], RIDGES, seeds), predict_grid(wide, [ALPHA], RIDGES)
        assert measured.untrained is not None
        theories.append(theory)
        falls.append(Estimate(1 - measured.test_error.values[:, 0] / measured.untrained.test_error.values[:, 0]))
        for model, name in MODELS.items():
            found = (measured if model == "trained" else measured.untrained).test_error
            for j, ridge in enumerate(RIDGES):
                row = agree(float(getattr(theory, model).test_error[0, j]), found[0, j], among=among)
                judged.append(row)
                errors[name, ridge].append(found[0, j].values)
                rows.append({"model": name, "ridge": ridge, "N/n": float(ratio), "theory": row.predicted})
                rows[-1] |= {"measured": row.measured, "stderr": row.stderr, "outcome": row.outcome.name.lower()}
        settings.progress((i + 1) / ratios.size)
    lines = [predict_grid(problem.replace(N=round(n * r)), [ALPHA], RIDGES) for r in curve]

    panels = []
    for model, name in MODELS.items():
        series = []
        for j, ridge in enumerate(RIDGES):
            line = [float(getattr(p, model).test_error[0, j]) for p in lines]
            mean, error = (_column(rows, name, ridge, key) for key in ("measured", "stderr"))
            status = [getattr(p, model).status[0, j] for p in lines]
            series += theory_series(f"theory, λ = {ridge:g}", curve, line, status, colour=j)
            series += [Series(f"simulation, λ = {ridge:g}", ratios, mean, error, "simulation", j)]
        level = [(base["best-linear"].test_error, "best linear predictor")]
        panels.append(_panel(name, "test error", series, level))
    gains = []
    for j, ridge in enumerate(RIDGES):
        line = [1 - float(p.test_error[0, j] / p.untrained.test_error[0, j]) for p in lines]
        points = [f.mean[j] for f in falls], [f.stderr[j] for f in falls]
        gains += theory_series(f"theory, λ = {ridge:g}", curve, line, [p.status[0, j] for p in lines], colour=j)
        gains += [Series(f"simulation, λ = {ridge:g}", ratios, *points, "simulation", j)]
    panels.append(_panel("what the step removes", "relative fall of the test error", gains, [(0.0, "no gain")]))

    peaks = {key: peak(ratios, Estimate(np.stack(values, axis=1))) for key, values in errors.items()}
    small = [peaks[name, RIDGES[0]] for name in MODELS.values()]
    wide = [_column(rows, name, RIDGES[0], "measured")[-1] for name in MODELS.values()]
    tops = [r for r in rows if r["N/n"] == 1 and r["ridge"] == RIDGES[0]]
    closed = [mei_montanari(p.problem.replace(ridge=ridge)) for p in lines for ridge in RIDGES]
    ours = np.concatenate([p.untrained.test_error[0] for p in lines])
    apart = float(np.abs(ours / closed - 1).max())
    best = int(np.argmin([float(p.test_error[0, 1]) for p in lines]))
    return Outcome(
        name="double-descent",
        question="Does the peak of the test error at N = n survive one gradient step?",
        claim=(
            "Ridgeless random features have a peak of the test error at N = n, and a large penalty removes it (Mei and "
            "Montanari 2022). The peak is one of the fit, not of the features: a step lowers the error but leaves it in place."
        ),
        verdict=judge(small, [peaks[name, RIDGES[1]] for name in MODELS.values()]),
        finding=(
            f"At n = {n} and λ = {RIDGES[0]:g} the measured test error has {small[0]} for random features, and {small[1]} after the step. At N = n it is {tops[0]['measured']:.2f} ± {tops[0]['stderr']:.1g} (theory "
            f"{tops[0]['theory']:.2f}) and {tops[1]['measured']:.2f} ± {tops[1]['stderr']:.1g} (theory {tops[1]['theory']:.2f}), at "
            f"N = {ratios[-1]:g}n {wide[0]:.2f} and {wide[1]:.2f}. At λ = {RIDGES[1]:g} there is "
            f"{' and '.join(f'{peaks[m, RIDGES[1]]} ({m})' for m in MODELS.values())}. Within {ERROR_TOLERANCE:.0%} of the profile theory "
            f"({seeds} seeds): {tally(judged)}.{marks(*theories)}"
        ),
        surprise=(
            f"After the step and at λ = {RIDGES[1]:g} wider is {'not always better' if best < curve.size - 1 else 'better'}: the theory's error is smallest at "
            f"N = {curve[best]:.2g}n ({float(lines[best].test_error[0, 1]):.3f}) and {float(lines[-1].test_error[0, 1]):.3f} at N = {ratios[-1]:g}n. "
            f"{_gain_by_width(ratios, falls)}"
        ),
        rows=rows,
        panels=tuple(panels),
        caption=(
            f"Test error against the width. ReLU, teacher H₁ + H₂/√2, noise 0.5, n = {n}, d = n/2, η = n^{ALPHA:g} (literal gradient, "
            f"n fresh samples), {seeds} seeds, mean ± standard error. Lines: profile theory at this n, "
            f"without the step within {apart:.1%} of the closed form of Mei and Montanari, n → ∞."
        ),
        columns=3,
    )


@dataclass(frozen=True)
class Peak:
    """The largest interior point of a curve, and whether it stands above the left and the right end."""

    position: float
    above: tuple[Check, Check]

    @property
    def outcome(self) -> Agreement:
        """Agrees: it is a peak. Differs: it is not, for it lies below an end."""
        return together(self.above)

    def __str__(self) -> str:
        words = {Agreement.AGREES: "a peak at N/n = {:g}", Agreement.DIFFERS: "no peak"}
        return words.get(self.outcome, "an undecided peak at N/n = {:g}").format(self.position)


def peak(x: Sequence[float] | np.ndarray, y: Estimate) -> Peak:
    """The highest interior point of means y (seeds × points), with its height above both ends, paired by seed."""
    top = 1 + int(np.argmax(y.mean[1:-1]))
    left, right = (check(y[top] - y[end], low=0, among=2) for end in (0, -1))
    return Peak(float(x[top]), (left, right))


def judge(small: Sequence[Peak], large: Sequence[Peak]) -> str:
    """Holds when at the small penalty both models peak within 30 % of N = n and at the larger one neither peaks."""
    unclear = [c for p in (*small, *large) if p.outcome is Agreement.UNDECIDED for c in p.above]
    placed = [p.outcome is Agreement.AGREES and 0.7 <= p.position <= 1.45 for p in small]
    if all(placed) and all(p.outcome is Agreement.DIFFERS for p in large):
        return HOLDS
    if unclear:
        return f"{UNDECIDED}: {seeds_words(unclear)}"
    return PARTLY if any(placed) else FAILS


def _gain_by_width(ratios: np.ndarray, falls: Sequence[Estimate]) -> str:
    """The relative gain at the narrowest, at N = n and at the widest network."""
    narrow, wide = falls[0], falls[-1]
    moves = worded(
        Estimate(narrow.values[:, 1] - wide.values[:, 1]),
        0.0,
        above="falls with the width",
        below="rises with the width",
        equal="stays",
        unclear="is not told to change with the width",
    )
    at = int(np.argmin(np.abs(ratios - 1)))
    middle = falls[at]
    return (
        f"The relative gain {moves}, from {narrow.mean[1]:.1%} ± {narrow.stderr[1]:.1%} at N = {ratios[0]:g}n to {wide.mean[1]:.1%} ± {wide.stderr[1]:.1%} at "
        f"N = {ratios[-1]:g}n; at λ = {RIDGES[0]:g} it is {narrow.mean[0]:.1%}, {middle.mean[0]:.1%} at N = {ratios[at]:g}n and {wide.mean[0]:.1%}."
    )


def mei_montanari(problem: Problem) -> float:
    """The n → ∞ test error of random features ridge regression, noise included (Mei and Montanari 2022, Theorem 2)."""
    sigma, target = problem.sigma, problem.target
    p1, p2, rest = problem.N / problem.d, problem.n / problem.d, sigma.nonlinear_power
    z2, u = sigma.coefficients[1] ** 2 / rest, np.sqrt(p1 * p2 * problem.ridge * problem.psi / rest)
    a = b = 1.0
    for _ in range(100_000):
        mixed = z2 / (1 + z2 * a * b)
        new = p1 / (u + b + mixed * b), p2 / (u + a + mixed * a)
        change = max(abs(new[0] - a), abs(new[1] - b))
        a, b = 0.5 * (a + new[0]), 0.5 * (b + new[1])
        if change < 1e-13 * (a + b):
            break
    x, z4, z6 = -a * b, z2**2, z2**3
    e0 = -(x**5) * z6 + 3 * x**4 * z4 + (p1 * p2 - p1 - p2 + 1) * x**3 * z6 - 2 * x**3 * z4 - 3 * x**3 * z2
    e0 += (p1 + p2 - 3 * p1 * p2 + 1) * x**2 * z4 + 2 * x**2 * z2 + x**2 + 3 * p1 * p2 * x * z2 - p1 * p2
    e1 = p2 * x**3 * z4 - p2 * x**2 * z2 + p1 * p2 * x * z2 - p1 * p2
    e2 = x**5 * z6 - 3 * x**4 * z4 + (p1 - 1) * x**3 * z6 + 2 * x**3 * z4 + 3 * x**3 * z2
    e2 += -(p1 + 1) * x**2 * z4 - 2 * x**2 * z2 - x**2
    linear, nonlinear, noise = target.coefficients[1] ** 2, target.nonlinear_power, problem.noise**2
    return float(linear * e1 / e0 + (noise + nonlinear) * e2 / e0 + nonlinear + noise)


def _column(rows: list[dict[str, Any]], name: str, ridge: float, key: str) -> list[float]:
    return [row[key] for row in rows if row["model"] == name and row["ridge"] == ridge]


def _panel(title: str, ylabel: str, series: list[Series], lines: list[tuple[float, str]]) -> Panel:
    return Panel(title, "N/n", ylabel, series, logx=True, xticks=TICKS, verticals=[(1.0, "N = n")], horizontals=lines)
