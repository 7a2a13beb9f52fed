"""`rank-one-gradient`: is the first gradient c₁aβᵀ, and for which β?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from onestride._numerics import Array
from onestride.comparison import Check, agree, seeds_words
from onestride.experiments.kit import mean_of, paper_problem, pm, points, seeds_along, seeds_of
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.verdict import FAILS, HOLDS, PARTLY, UNDECIDED, growth, slope_check, spoken, worded
from onestride.plot import Panel, Series
from onestride.problem import Problem
from onestride.result import Estimate
from onestride.simulation.gradient import MeasuredGradient, gradient_singular_values, measure_gradient
from onestride.theory.direction import direction

CLAIM = "‖G − c₁aβᵀ‖ → 0 with β = Xᵀy/n."
SIZES = {"ns": ((100, 200, 400), (400, 800, 1600), (1000, 2000, 4000, 8000)), "seeds": (6, 8, 8)}
GRADIENTS = {"full": "literal gradient", "labels": "labels-only gradient"}
RIGHT, WRONG, PAPER = "literal, β = Xᵀ(y − f₀)/n", "literal, β = Xᵀy/n", "labels-only, β = Xᵀy/n"
SINGULAR = ((5, 6), (7, 8))  # colours of s₁ and s₂ for each gradient
VANISHING = -0.25  # a distance that falls like this power of n, or faster, goes to zero


@dataclass(frozen=True)
class Gradients:
    """For each kind of gradient, distances and leading singular values along n, and all singular values of one draw."""

    ns: Sequence[int]
    runs: dict[str, list[MeasuredGradient]]
    values: dict[str, Array]

    @property
    def curves(self) -> dict[str, list[Estimate]]:
        """‖G − c₁aβᵀ‖ along n for both gradients and both β."""
        full, labels = self.runs.values()
        return {
            RIGHT: [m.distance_residual for m in full],
            WRONG: [m.distance_labels for m in full],
            PAPER: [m.distance_labels for m in labels],
            "labels-only, β = Xᵀ(y − f₀)/n": [m.distance_residual for m in labels],
        }


def measure(size: SimpleNamespace, progress: Progress) -> Gradients:
    """Form G exactly at several n, and compare it with c₁aβᵀ for both β and both gradients."""
    runs: dict[str, list[MeasuredGradient]] = {gradient: [] for gradient in GRADIENTS}
    for i, gradient in enumerate(GRADIENTS):
        for k, (n, seeds) in enumerate(seeds_along(size.ns, size.seeds)):
            problem = paper_problem(n, gradient=gradient)
            runs[gradient].append(measure_gradient(problem, seeds, device=size.device))
            progress((i + 4.0 ** (k + 1 - len(size.ns))) / 2 - 0.02)
    last = {gradient: found[-1].problem for gradient, found in runs.items()}
    one = {gradient: gradient_singular_values(p, 0, device=size.device) for gradient, p in last.items()}
    return Gradients(size.ns, runs, one)


def judge(data: Gradients) -> Judgement:
    """The exponents of the distances in n, and the two largest singular values beside c₁|β|."""
    curves, ns, seeds = data.curves, data.ns, len(data.runs["full"][-1].seeds)
    slopes = {label: growth(ns, values) for label, values in curves.items()}
    rows = [
        {"curve": label, "n": n}
        | mean_of(e, "distance")
        | {"exponent": slopes[label][0], "exponent_stderr": slopes[label][1]}
        for label, values in curves.items()
        for n, e in zip(ns, values, strict=True)
    ]
    (literal, first), (labels, second) = (
        (largest(runs[-1].problem), runs[-1].singular_values) for runs in data.runs.values()
    )
    limit = missing_part(paper_problem(ns[-1]))
    near = agree(limit, curves[WRONG][-1]).outcome
    stays = spoken(near, "which is, within 5 %,", "which is not", "undecided at these seeds whether within 5 % of")
    rate = {label: f"n^({e:.2f} ± {error:.2f})" for label, (e, error) in slopes.items()}
    last = {label: pm(values[-1]) for label, values in curves.items()}
    return Judgement(
        words=_words(*(slope_check(slopes[label], seeds, VANISHING, among=3) for label in (RIGHT, WRONG, PAPER))),
        finding=(
            f"Literal gradient at n = {ns[-1]}: the distance is {last[RIGHT]} and goes like {rate[RIGHT]} with "
            f"β = Xᵀ(y − f₀)/n; with β = Xᵀy/n it is {last[WRONG]}, {rate[WRONG]}, {stays} "
            f"the limit c₁|Xᵀf₀/n| = {limit:.3f}. Labels-only gradient with β = Xᵀy/n: {last[PAPER]}, "
            f"{rate[PAPER]}. The largest singular value is {pm(first[0])} (c₁|β| = {literal:.3f}) and "
            f"{pm(second[0])} (c₁|β| = {labels:.3f}), the second {pm(first[1])} and {pm(second[1])}."
        ),
        surprise=(
            f"{_closeness(curves[RIGHT][-1], curves[PAPER][-1])} With the wrong β a second rank-one matrix, −c₁a(Xᵀf₀/n)ᵀ, is left over, "
            f"because the untrained output f₀ is of order one. {_rate(slopes[RIGHT], seeds)}"
        ),
        rows=rows,
    )


def largest(problem: Problem) -> float:
    """c₁|β|: the limit of the largest singular value of G."""
    return float(problem.sigma.coefficients[1] * direction(problem).s)


def missing_part(problem: Problem) -> float:
    """c₁|Xᵀf₀/n| = c₁√(c₁² + φ₀ Var f₀): the limit of ‖G − c₁aβᵀ‖ with the wrong β, a rank-one matrix of its own."""
    sigma, phi0 = problem.sigma, problem.d / problem.step_samples
    c1 = sigma.coefficients[1]
    return float(c1 * np.sqrt(c1**2 + phi0 * sigma.second_moment))


def _words(right: Check, wrong: Check, paper: Check) -> str:
    """From the exponents of three distances: literal with β of the residual and of the labels, labels-only with β of the labels."""
    checks = (right, wrong, paper)
    if right.differs and paper.differs:
        return FAILS
    if right.differs or paper.differs:
        return PARTLY
    if not (right.agrees and paper.agrees):
        return f"{UNDECIDED}: {seeds_words(checks)}"
    literal = f"{HOLDS}, with β from the residual; for the literal gradient β = Xᵀy/n is"
    unclear = f"{literal} {UNDECIDED}: {seeds_words(checks)}"
    return spoken(wrong.outcome, f"{HOLDS} for either β", f"{literal} wrong", unclear)


def _closeness(literal: Estimate, labels: Estimate) -> str:
    """Literal gradient beside the labels-only one at the largest n, each with its own β, paired by seed."""
    how = worded(
        literal - labels,
        0.1 * float(labels.mean),
        above="less close to rank one than",
        below="closer to rank one than",
        equal="as close to rank one, within 10 %, as",
        unclear="not told apart in its distance from rank one from",
    )
    return f"Each with its own β, the literal gradient is {how} the labels-only one ({pm(literal)} and {pm(labels)})."


def _rate(slope: tuple[float, float], seeds: int) -> str:
    """The measured exponent beside −1/2."""
    half, rate = slope_check(slope, seeds, -0.5).outcome, "n^(−1/2)"
    words = spoken(half, f"as fast as {rate} or faster", f"slower than {rate}", f"at a rate not told apart from {rate}")
    return f"The distance falls {words}; theory expects √(log N/n), as the largest |a_j| grows like √(log N/N)."


def draw(data: Gradients) -> Figure:
    """The singular values of one draw, and distances and the two largest singular values along n."""
    ns, curves, scale = data.ns, data.curves, np.asarray(data.ns, float)
    panels = [_histogram(data, i) for i in range(2)]
    series = [points(label, ns, values, i) for i, (label, values) in enumerate(curves.items())]
    for label, shape in (("n^(−1/2)", scale**-0.5), ("√(log N/n)", np.sqrt(np.log(1.5 * scale) / scale))):
        anchor = float(curves[RIGHT][-1].mean) * 1.12
        series.append(Series(label, ns, anchor * shape / shape[-1], kind="limit", colour=4 * (label[0] == "n")))
    lines = [(missing_part(paper_problem(ns[-1])), "limit c₁|Xᵀf₀/n|")]
    options = {"logx": True, "logy": True, "xticks": ns}
    panels.append(Panel("distance to rank one", "n", "‖G − c₁aβᵀ‖", series, horizontals=lines, **options))
    series = []
    for i, (gradient, name) in enumerate(GRADIENTS.items()):
        runs = data.runs[gradient]
        for k in range(2):
            series.append(points(f"s{'₁₂'[k]}, {name}", ns, [m.singular_values[k] for m in runs], SINGULAR[i][k]))
        series.append(Series(f"c₁|β|, {name}", ns, np.full(len(ns), largest(runs[-1].problem)), colour=SINGULAR[i][0]))
    panels.append(Panel("two largest singular values", "n", "singular value of G", series, **options))
    caption = (
        f"ReLU, teacher H₁ + H₂/√2, no noise, d = n/2, N = 3n/2, n up to {ns[-1]}. Top: singular values of one draw of G without the "
        f"largest (histogram), the largest (point, mean over {len(data.runs['full'][-1].seeds)} seeds), and its prediction c₁|β| (vertical line). Bottom: "
        f"‖G − c₁aβᵀ‖ in operator norm, the two largest singular values; mean ± standard error of "
        f"{seeds_of(data.runs['full'])}."
    )
    title = (
        f"‖G − c₁aβᵀ‖ at n = {ns[-1]}: {pm(curves[RIGHT][-1])} with β = Xᵀ(y − f₀)/n, {pm(curves[WRONG][-1])} with "
        f"β = Xᵀy/n (literal gradient); it goes like n^({growth(ns, curves[RIGHT])[0]:.2f}) and n^({growth(ns, curves[WRONG])[0]:.2f})"
    )
    return Figure(panels, caption, title=title)


def _histogram(data: Gradients, i: int) -> Panel:
    gradient, name = list(GRADIENTS.items())[i]
    run, values = data.runs[gradient][-1], data.values[gradient]
    low, line = max(float(np.quantile(values, 0.02)), 1e-3 * values[1]), largest(run.problem)
    heights, edges = np.histogram(values[1:], np.geomspace(low, values[1], 40))
    top, at = run.singular_values.mean[0], 0.08 * heights.max()
    series = [
        Series("singular values 2, 3, …", edges, heights, kind="histogram"),
        Series(f"s₁, {name}", [top], [at], kind="simulation", colour=SINGULAR[i][0]),
    ]
    title, axes = f"{name}, n = {run.problem.n}", ("singular value of G", "count")
    return Panel(title, *axes, series, True, verticals=[(line, "c₁|β|")], xlim=(low, 2 * line))
