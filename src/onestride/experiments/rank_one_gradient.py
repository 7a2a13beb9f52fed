"""`rank-one-gradient`: is the first gradient c₁aβᵀ, and for which β?"""

from __future__ import annotations

import numpy as np

from onestride.compare import ERROR_FLOOR, agree
from onestride.experiments.claim import Sizes, growth, paper_problem, pm
from onestride.experiments.outcome import Outcome, Settings
from onestride.plot import Panel, Series
from onestride.problem import Problem
from onestride.simulate.gradient import gradient_singular_values, measure_gradient
from onestride.theory.direction import direction

GRADIENTS = {"full": "literal gradient", "labels": "labels-only gradient"}
Slope = tuple[float, float]  # exponent of n, its standard error


def missing_part(problem: Problem) -> float:
    """c₁|Xᵀf₀/n| = c₁√(c₁² + φ₀ Var f₀): the limit of ‖G − c₁aβᵀ‖ with the wrong β, a rank-one matrix of its own."""
    sigma, phi0 = problem.sigma, problem.d / problem.step_samples
    c1 = sigma.coefficients[1]
    return float(c1 * np.sqrt(c1**2 + phi0 * sigma.second_moment))


def judge(literal_residual: Slope, literal_labels: Slope, labels_labels: Slope) -> str:
    """A distance goes to zero when its exponent is below −1/4, and below 0 by two standard errors."""
    curves = (literal_residual, literal_labels, labels_labels)
    right, wrong, paper = (slope < -0.25 and slope + 2 * se < 0 for slope, se in curves)
    if right and paper and not wrong:
        return "holds, with β from the residual; for the literal gradient β = Xᵀy/n is wrong"
    if right and paper:
        return "holds for either β"
    if right or paper:
        return "holds in part"
    return "does not hold"


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
    floor_holds = agree(limit, curves["literal, β = Xᵀy/n"][-1], 2 * ERROR_FLOOR).agrees

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
        verdict=judge(right, wrong, paper),
        finding=(
            f"Literal gradient at n = {ns[-1]}: the distance is {pm(last[0])} and falls like n^({right[0]:.2f} ± {right[1]:.2f}) with "
            f"β = Xᵀ(y − f₀)/n; with β = Xᵀy/n it is {pm(last[1])}, n^({wrong[0]:.2f} ± {wrong[1]:.2f}), and "
            f"{'stays at' if floor_holds else 'is not at'} c₁|Xᵀf₀/n| = {limit:.3f}. Labels-only gradient with β = Xᵀy/n: {pm(last[2])}, "
            f"n^({paper[0]:.2f} ± {paper[1]:.2f}). The largest singular value is {pm(first[0][1])} (c₁|β| = {first[0][0]:.3f}) and "
            f"{pm(first[1][1])} (c₁|β| = {first[1][0]:.3f}), the second {pm(first[0][2])} and {pm(first[1][2])}."
        ),
        surprise=(
            "The literal gradient is as close to rank one as the other; only the direction differs. The wrong β leaves a second "
            "rank-one matrix, −c₁a(Xᵀf₀/n)ᵀ, because the untrained output f₀ is of order one. The distance falls a little slower than "
            "n^(−1/2): the largest |a_j| grows like √(log N / N)."
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
