"""`rank-one-gradient`: is the first gradient c₁aβᵀ, and for which β?"""

from __future__ import annotations

import numpy as np

from onestride.compare import Agreement, Check, agree, seeds_words
from onestride.experiments.claim import (
    FAILS,
    HOLDS,
    PARTLY,
    UNDECIDED,
    Sizes,
    growth,
    paper_problem,
    pm,
    slope_check,
    worded,
)
from onestride.experiments.outcome import Outcome, Settings
from onestride.plot import Panel, Series
from onestride.problem import Problem
from onestride.result import Estimate
from onestride.simulation.gradient import gradient_singular_values, measure_gradient
from onestride.theory.direction import direction

GRADIENTS = {"full": "literal gradient", "labels": "labels-only gradient"}
VANISHING = -0.25  # a distance that falls like this power of n, or faster, goes to zero


def missing_part(problem: Problem) -> float:
    """c₁|Xᵀf₀/n| = c₁√(c₁² + φ₀ Var f₀): the limit of ‖G − c₁aβᵀ‖ with the wrong β, a rank-one matrix of its own."""
    sigma, phi0 = problem.sigma, problem.d / problem.step_samples
    c1 = sigma.coefficients[1]
    return float(c1 * np.sqrt(c1**2 + phi0 * sigma.second_moment))


def judge(right: Check, wrong: Check, paper: Check) -> str:
    """From the exponents of three distances: literal with β of the residual and of the labels, labels-only with β of the labels."""
    checks = (right, wrong, paper)
    outcomes = [c.outcome for c in checks]
    if right.differs and paper.differs:
        return FAILS
    if right.differs or paper.differs:
        return PARTLY
    if not (right.agrees and paper.agrees):
        return f"{UNDECIDED}: {seeds_words(checks)}"
    words = {
        Agreement.AGREES: f"{HOLDS} for either β",
        Agreement.DIFFERS: f"{HOLDS}, with β from the residual; for the literal gradient β = Xᵀy/n is wrong",
        Agreement.UNDECIDED: f"{HOLDS}, with β from the residual; for the literal gradient β = Xᵀy/n is {UNDECIDED}: {seeds_words(checks)}",
    }
    return words[outcomes[1]]


def run(settings: Settings) -> Outcome:
    """Form G exactly at several n, and compare it with c₁aβᵀ for both β and both gradients."""
    ns = settings.pick((100, 200, 400), (400, 800, 1600), (1000, 2000, 4000, 8000))
    sizes = Sizes(ns, settings.seed_count(6, 8, 8))
    runs = {}
    for i, gradient in enumerate(GRADIENTS):
        runs[gradient] = []
        for k, n in enumerate(ns):
            runs[gradient].append(measure_gradient(paper_problem(n, gradient=gradient), sizes.seeds_at(n)))
            settings.progress((i + 4.0 ** (k + 1 - len(ns))) / 2 - 0.02)
    curves = {
        "literal, β = Xᵀ(y − f₀)/n": [m.distance_residual for m in runs["full"]],
        "literal, β = Xᵀy/n": [m.distance_labels for m in runs["full"]],
        "labels-only, β = Xᵀy/n": [m.distance_labels for m in runs["labels"]],
        "labels-only, β = Xᵀ(y − f₀)/n": [m.distance_residual for m in runs["labels"]],
    }
    slopes = {label: growth(ns, values) for label, values in curves.items()}
    right, wrong, paper, _ = slopes.values()
    limit = missing_part(paper_problem(ns[-1]))
    stays = {
        Agreement.AGREES: "which is, within 5 %,",
        Agreement.DIFFERS: "which is not",
        Agreement.UNDECIDED: "undecided at these seeds whether within 5 % of",
    }[agree(limit, curves["literal, β = Xᵀy/n"][-1]).outcome]
    checks = [slope_check(slope, sizes.seeds, VANISHING, among=3) for slope in (right, wrong, paper)]

    panels, rows, first = [], [], []
    for i, (gradient, name) in enumerate(GRADIENTS.items()):
        problem = paper_problem(ns[-1], gradient=gradient)
        values = gradient_singular_values(problem, 0)
        low = max(float(np.quantile(values, 0.02)), 1e-3 * values[1])
        heights, edges = np.histogram(values[1:], np.geomspace(low, values[1], 40))
        outlier = float(problem.sigma.coefficients[1] * direction(problem).s)
        top = runs[gradient][-1].singular_values
        first.append((outlier, top[0], top[1]))
        series = [
            Series("singular values 2, 3, …", edges, heights, kind="histogram"),
            Series("largest, mean of seeds", [top.mean[0]], [0.08 * heights.max()], kind="simulation", colour=1 + i),
        ]
        label = "singular value of G"
        line = [(outlier, "c₁|β|")]
        panels.append(
            Panel(f"{name}, n = {ns[-1]}", label, "count", series, True, verticals=line, xlim=(low, 2 * outlier))
        )
    points = [
        Series(label, ns, [e.mean for e in values], [e.stderr for e in values], "simulation", i)
        for i, (label, values) in enumerate(curves.items())
    ]
    scale = np.asarray(ns, float)
    for label, shape in (("n^(−1/2)", scale**-0.5), ("√(log N/n)", np.sqrt(np.log(1.5 * scale) / scale))):
        anchor = float(curves["literal, β = Xᵀ(y − f₀)/n"][-1].mean) * 1.12
        points.append(Series(label, ns, anchor * shape / shape[-1], kind="limit", colour=4 * (label[0] == "n")))
    lines = [(limit, "limit c₁|Xᵀf₀/n|")]
    options = {"logx": True, "logy": True, "xticks": ns}
    panels.append(Panel("distance to rank one", "n", "‖G − c₁aβᵀ‖", points, horizontals=lines, **options))
    second = []
    for i, (gradient, name) in enumerate(GRADIENTS.items()):
        for k in range(2):
            estimates = [m.singular_values[k] for m in runs[gradient]]
            means, errors = [e.mean for e in estimates], [e.stderr for e in estimates]
            second.append(Series(f"s{'₁₂'[k]}, {name}", ns, means, errors, "simulation", 2 * i + k))
        second.append(Series(f"c₁|β|, {name}", ns, np.full(len(ns), first[i][0]), colour=2 * i))
    panels.append(Panel("two largest singular values", "n", "singular value of G", second, **options))
    for label, values in curves.items():
        for n, e in zip(ns, values, strict=True):
            rows.append({"curve": label, "n": n, "distance": float(e.mean), "stderr": float(e.stderr)})
            rows[-1] |= {"exponent": slopes[label][0], "exponent_stderr": slopes[label][1]}
    last = [values[-1] for values in curves.values()]
    return Outcome(
        name="rank-one-gradient",
        question="Is the first gradient the rank-one matrix c₁aβᵀ, and for which β?",
        claim="‖G − c₁aβᵀ‖ → 0 with β = Xᵀy/n.",
        verdict=judge(*checks),
        finding=(
            f"Literal gradient at n = {ns[-1]}: the distance is {pm(last[0])} and goes like n^({right[0]:.2f} ± {right[1]:.2f}) with "
            f"β = Xᵀ(y − f₀)/n; with β = Xᵀy/n it is {pm(last[1])}, n^({wrong[0]:.2f} ± {wrong[1]:.2f}), {stays} "
            f"the limit c₁|Xᵀf₀/n| = {limit:.3f}. Labels-only gradient with β = Xᵀy/n: {pm(last[2])}, "
            f"n^({paper[0]:.2f} ± {paper[1]:.2f}). The largest singular value is {pm(first[0][1])} (c₁|β| = {first[0][0]:.3f}) and "
            f"{pm(first[1][1])} (c₁|β| = {first[1][0]:.3f}), the second {pm(first[0][2])} and {pm(first[1][2])}."
        ),
        surprise=(
            f"{_closeness(curves)} With the wrong β a second rank-one matrix, −c₁a(Xᵀf₀/n)ᵀ, is left over, because the untrained output "
            f"f₀ is of order one. {_rate(right, sizes.seeds)}"
        ),
        rows=rows,
        panels=tuple(panels),
        caption=(
            f"ReLU, teacher H₁ + H₂/√2, no noise, d = n/2, N = 3n/2, n up to {ns[-1]}. Top: singular values of one draw of G without the "
            f"largest (histogram), the largest (point, mean over {sizes.seeds} seeds), and its prediction c₁|β| (vertical line). Bottom: "
            f"‖G − c₁aβᵀ‖ in operator norm, the two largest singular values; mean ± standard error of "
            f"{sizes.seeds_at(ns[0])} seeds at n = {ns[0]} to {sizes.seeds} at n = {ns[-1]}."
        ),
    )


def _closeness(curves: dict[str, list[Estimate]]) -> str:
    """Literal gradient beside the labels-only one at the largest n, each with its own β, paired by seed."""
    literal, labels = (curves[name][-1] for name in ("literal, β = Xᵀ(y − f₀)/n", "labels-only, β = Xᵀy/n"))
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
    half = slope_check(slope, seeds, -0.5)
    told = {Agreement.AGREES: "as fast as n^(−1/2) or faster", Agreement.DIFFERS: "slower than n^(−1/2)"}
    words = told.get(half.outcome, "at a rate not told apart from n^(−1/2)")
    return f"The distance falls {words}; theory expects √(log N/n), as the largest |a_j| grows like √(log N/N)."
