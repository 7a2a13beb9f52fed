"""`double-descent`: test error against N/n, for random features and after one step, at a small and a larger penalty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from onestride._numerics import Array
from onestride.comparison import ERROR_TOLERANCE, Agreement, Check, agree, check, seeds_words, together
from onestride.experiments.kit import best_linear, both_models, both_predicted, pm, points, problem_at, row_of
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.verdict import FAILS, HOLDS, PARTLY, UNDECIDED, marks, tally, worded
from onestride.plot import Panel, Series, theory_series
from onestride.problem import Problem
from onestride.result import Estimate, PredictionGrid
from onestride.simulation.run import simulate_grid
from onestride.theory.predict import predict_grid

CLAIM = (
    "Ridgeless random features have a peak of the test error at N = n, and a large penalty removes it (Mei and "
    "Montanari 2022). The peak is one of the fit, not of the features: a step lowers the error but leaves it in place."
)
TICKS = (0.125, 0.25, 0.5, 1, 2, 4, 8)
SIZES = {
    "n": (100, 400, 1600),
    "seeds": (6, 12, 12),
    "ratios": ((0.25, 1, 4), (0.125, 0.25, 0.5, 0.7, 1, 1.4, 2, 4, 8), TICKS),
    "fine": (9, 49, 49),
}
ALPHA = 0.3
RIDGES = (1e-3, 0.3)
MODELS = ("random features", f"after a step, α = {ALPHA:g}")


@dataclass(frozen=True)
class Widths:
    """Test errors at the widths N = ratio · n, measured and in theory, and theory alone along a finer `curve` of ratios."""

    problem: Problem
    ratios: Array
    measured: Estimate  # seeds × ratios × models × penalties
    theory: list[PredictionGrid]
    curve: Array
    lines: list[PredictionGrid]
    apart: float  # largest relative distance of theory without the step from the closed form

    @property
    def falls(self) -> Estimate:
        """What part of the error the step removes, seeds × ratios × penalties."""
        return Estimate(1 - self.measured.values[:, :, 1] / self.measured.values[:, :, 0])


def measure(size: SimpleNamespace, progress: Progress) -> Widths:
    """Simulate a range of widths at fixed n and d, with and without the step, on common random numbers."""
    problem = problem_at(size.n, N=size.n, ridge=RIDGES[0], exponent=ALPHA)
    ratios = np.array(size.ratios)
    curve = np.geomspace(ratios[0], ratios[-1], size.fine)
    errors, theory = [], []
    for ratio in ratios:
        wide = problem.replace(N=round(size.n * ratio))
        errors.append(both_models(simulate_grid(wide, [ALPHA], RIDGES, size.seeds, device=size.device)))
        theory.append(predict_grid(wide, [ALPHA], RIDGES))
        progress(len(theory) / ratios.size)
    lines = [predict_grid(problem.replace(N=round(size.n * r)), [ALPHA], RIDGES) for r in curve]
    closed = [[mei_montanari(p.problem.replace(ridge=ridge)) for ridge in RIDGES] for p in lines]
    apart = float(np.abs(both_predicted(lines)[:, 0] / closed - 1).max())
    return Widths(problem, ratios, Estimate(np.stack(errors, axis=1)), theory, curve, lines, apart)


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


def judge(data: Widths) -> Judgement:
    """Peaks of the measured curves, every point beside theory, and the relative gain against the width."""
    theory = both_predicted(data.theory)
    cells = list(np.ndindex(theory.shape))
    judged = [agree(float(theory[cell]), data.measured[cell], among=theory.size) for cell in cells]
    rows = [
        row_of(pair, model=MODELS[m], ridge=RIDGES[j], **{"N/n": float(data.ratios[i])})
        for (i, m, j), pair in zip(cells, judged, strict=True)
    ]
    small, large = ([peak(data.ratios, data.measured[:, m, j]) for m in range(len(MODELS))] for j in range(len(RIDGES)))
    tops = [r for r in rows if r["N/n"] == 1 and r["ridge"] == RIDGES[0]]
    top = [f"{r['measured']:.2f} ± {r['stderr']:.1g} (theory {r['theory']:.2f})" for r in tops]
    wide = data.measured.mean[-1, :, 0]
    return Judgement(
        words=words(small, large),
        finding=(
            f"At n = {data.problem.n} and λ = {RIDGES[0]:g} the measured test error has {small[0]} for random features, and {small[1]} "
            f"after the step. At N = n it is {top[0]} and {top[1]}, at "
            f"N = {data.ratios[-1]:g}n {wide[0]:.2f} and {wide[1]:.2f}. At λ = {RIDGES[1]:g} there is "
            f"{' and '.join(f'{found} ({m})' for m, found in zip(MODELS, large, strict=True))}. Within {ERROR_TOLERANCE:.0%} of the profile theory "
            f"({len(data.measured.values)} seeds): {tally(judged)}.{marks(*data.theory)}"
        ),
        surprise=f"{_best_width(data)} {_gain_by_width(data.ratios, data.falls)}",
        rows=rows,
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


def words(small: Sequence[Peak], large: Sequence[Peak]) -> str:
    """Holds when at the small penalty both models peak within 30 % of N = n and at the larger one neither peaks."""
    unclear = [c for p in (*small, *large) if p.outcome is Agreement.UNDECIDED for c in p.above]
    placed = [p.outcome is Agreement.AGREES and 0.7 <= p.position <= 1.45 for p in small]
    if all(placed) and all(p.outcome is Agreement.DIFFERS for p in large):
        return HOLDS
    wrong = any(p.outcome is not Agreement.UNDECIDED and not at for p, at in zip(small, placed, strict=True))
    wrong |= any(p.outcome is Agreement.AGREES for p in large)
    seeds = f"{UNDECIDED}: {seeds_words(unclear)}" if unclear else ""
    if not wrong:
        return seeds
    return f"{PARTLY if any(placed) else FAILS}{seeds and f'; other peaks are {seeds}'}"


def _best_width(data: Widths) -> str:
    """Where the theory's error after the step is smallest at the larger penalty."""
    line = both_predicted(data.lines)[:, 1, 1]
    best = int(np.argmin(line))
    return (
        f"After the step and at λ = {RIDGES[1]:g} wider is {'not always better' if best < line.size - 1 else 'better'}: the theory's error is smallest at "
        f"N = {data.curve[best]:.2g}n ({line[best]:.3f}) and {line[-1]:.3f} at N = {data.ratios[-1]:g}n."
    )


def _gain_by_width(ratios: Array, falls: Estimate) -> str:
    """The relative gain at the narrowest, at N = n and at the widest network."""
    moves = worded(
        falls[0, 1] - falls[-1, 1],
        0.0,
        above="falls with the width",
        below="rises with the width",
        equal="stays",
        unclear="is not told to change with the width",
    )
    at = int(np.argmin(np.abs(ratios - 1)))
    narrow, wide = (f"{falls.mean[i, 1]:.1%} ± {falls.stderr[i, 1]:.1%} at N = {ratios[i]:g}n" for i in (0, -1))
    small = falls.mean[:, 0]
    return (
        f"The relative gain {moves}, from {narrow} to {wide}; "
        f"at λ = {RIDGES[0]:g} it is {small[0]:.1%}, {small[at]:.1%} at N = {ratios[at]:g}n and {small[-1]:.1%}."
    )


def draw(data: Widths) -> Figure:
    """Both models' errors and the relative gain against the width."""
    lines = both_predicted(data.lines)
    panels = [
        _panel(data, name, "test error", lines[:, m], data.measured[:, m], model, best_linear(data.problem))
        for m, (model, name) in enumerate(zip(("untrained", "trained"), MODELS, strict=True))
    ]
    fall = 1 - lines[:, 1] / lines[:, 0]
    gain = "what the step removes", "relative fall of the test error"
    panels.append(_panel(data, *gain, fall, data.falls, "trained", [(0.0, "no gain")]))
    caption = (
        f"Test error against the width. ReLU, teacher H₁ + H₂/√2, noise 0.5, n = {data.problem.n}, d = n/2, η = n^{ALPHA:g} (literal gradient, "
        f"n fresh samples), {len(data.measured.values)} seeds, mean ± standard error. Lines: profile theory at this n, "
        f"without the step within {data.apart:.1%} of the closed form of Mei and Montanari, n → ∞."
    )
    middle, wide = (data.measured[i, :, 0] for i in (int(np.abs(data.ratios - 1).argmin()), -1))
    title = (
        f"λ = {RIDGES[0]:g}: at N = n the test error is {pm(middle[0])} without the step and {pm(middle[1])} after it, "
        + (f"at N = {data.ratios[-1]:g}n {pm(wide[0])} and {pm(wide[1])}")
    )
    return Figure(panels, caption, columns=3, title=title)


def _panel(
    data: Widths, title: str, label: str, line: Array, found: Estimate, model: str, levels: list[tuple[float, str]]
) -> Panel:
    """Numbers ratios × penalties against N/n; theory is marked where that of `model` is."""
    series: list[Series] = []
    for j, ridge in enumerate(RIDGES):
        status = [getattr(p, model).status[0, j] for p in data.lines]
        series += theory_series(f"theory, λ = {ridge:g}", data.curve, line[:, j], status, colour=j)
        series.append(points(f"simulation, λ = {ridge:g}", data.ratios, found[:, j], colour=j))
    axes = {"logx": True, "logy": label == "test error", "xticks": TICKS}
    return Panel(title, "N/n", label, series, **axes, verticals=[(1.0, "N = n")], horizontals=levels)
