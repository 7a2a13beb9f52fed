"""Claims about the gradient and the feature matrix: 1 rank one, 2 spikes, 3 alignment, 4 expansion, 10a c₁ = 0."""

from __future__ import annotations

import numpy as np

from onestride.compare import Agreement, Check, check, together
from onestride.experiments.claim import (
    NOT_YET,
    PARTLY,
    Claim,
    Sizes,
    count_check,
    growth,
    paper_problem,
    pm,
    short,
    slope_check,
    undecided,
)
from onestride.plot import Panel, Series
from onestride.problem import Problem
from onestride.result import Estimate
from onestride.simulation.equivalent import MeasuredEquivalence
from onestride.simulation.gradient import measure_gradient
from onestride.simulation.spectrum import MeasuredSpectrum, measure_spectrum
from onestride.theory.direction import direction
from onestride.theory.plateau import active_powers, window
from onestride.theory.spectrum import Spectrum, spectrum

WINDOWS = (0.15, 0.29, 0.35)  # one exponent inside each of the windows ℓ = 1, 2, 3
STRONG = 2.0  # the prefactor c of the spike claims: at c = 1 the second spike needs far larger n


def rank_one_gradient(sizes: Sizes) -> Claim:
    """Claim 1: ‖G − c₁aβᵀ‖ → 0, and for which β."""
    runs = {
        gradient: [measure_gradient(paper_problem(n, gradient=gradient), sizes.seeds_at(n)) for n in sizes.ns]
        for gradient in ("full", "labels")
    }
    full, labels = runs["full"], runs["labels"]
    curves = {
        "literal gradient, β = Xᵀ(y − f₀)/n": [m.distance_residual for m in full],
        "literal gradient, β = Xᵀy/n": [m.distance_labels for m in full],
        "labels-only gradient, β = Xᵀy/n": [m.distance_labels for m in labels],
    }
    slopes = {label: growth(sizes.ns, values) for label, values in curves.items()}
    (right, right_se), (wrong, wrong_se), (paper, paper_se) = slopes.values()
    falls = [slope_check(slope, sizes.seeds, 0.0, among=3) for slope in slopes.values()]
    wrong_falls = {Agreement.AGREES: "it falls too", Agreement.DIFFERS: "it does not fall"}.get(
        falls[1].outcome, "it is not shown to fall"
    )
    last = [values[-1] for values in curves.values()]
    series = [
        Series(label, sizes.ns, [e.mean for e in values], [e.stderr for e in values], "simulation", i)
        for i, (label, values) in enumerate(curves.items())
    ]
    anchor = float(curves["literal gradient, β = Xᵀ(y − f₀)/n"][0].mean)
    guide = Series("slope −1/2", sizes.ns, anchor * (np.array(sizes.ns) / sizes.ns[0]) ** -0.5, kind="limit", colour=4)
    return Claim(
        "1",
        "The gradient is close to rank one, c₁aβᵀ",
        "‖G − c₁aβᵀ‖ → 0",
        f"{pm(last[0], 2)}, n^({right:.2f} ± {right_se:.2f})",
        short([falls[0], falls[2]], NOT_YET),
        f"For the literal gradient the right β is Xᵀ(y − f₀)/n: the distance goes like n^({right:.2f} ± {right_se:.2f}) "
        f"to {pm(last[0])} at n = {sizes.ns[-1]}. With β = Xᵀy/n {wrong_falls}, {pm(last[1])}, "
        f"n^({wrong:.2f} ± {wrong_se:.2f}): the untrained output f₀ is of order one. The paper's β = Xᵀy/n is "
        f"right for the gradient with labels in place of residuals: {pm(last[2])}, n^({paper:.2f} ± {paper_se:.2f}). "
        f"Theory expects n^(−1/2) up to logarithms: the largest |a_j| and residual grow with n.{undecided(falls[0], falls[2])}",
        [
            {"curve": label, "n": n, "distance": float(e.mean), "stderr": float(e.stderr)}
            for label, values in curves.items()
            for n, e in zip(sizes.ns, values, strict=True)
        ],
        (Panel("distance to rank one", "n", "‖G − c₁aβᵀ‖", (*series, guide), logx=True, logy=True, xticks=sizes.ns),),
        "Operator norm of G − c₁aβᵀ. ReLU, teacher H₁ + H₂/√2, no noise, d = n/2, N = 3n/2; mean ± standard error.",
    )


def spikes(sizes: Sizes) -> tuple[Claim, Claim]:
    """Claims 2 and 3: how many eigenvalues leave the bulk, and what their left singular vectors are."""
    problems = [[paper_problem(n, constant=STRONG, exponent=a) for n in sizes.ns] for a in WINDOWS]
    seeds = [max(3, sizes.seeds_at(n) // 2) for n in sizes.ns]
    measured = [[measure_spectrum(p, s, count=4) for p, s in zip(row, seeds, strict=True)] for row in problems]
    theory = [[spectrum(p, density=p.n == sizes.ns[-1]) for p in row] for row in problems]
    return _count_claim(sizes, problems, measured, theory), _alignment_claim(sizes, measured[1], theory[1])


def _count_claim(
    sizes: Sizes, problems: list[list[Problem]], measured: list[list[MeasuredSpectrum]], theory: list[list[Spectrum]]
) -> Claim:
    limits = [len(active_powers(row[-1], window(row[-1].step.exponent))) for row in problems]
    rows, now, finite, counts = [], [], [], []
    for row, limit, ms, ts in zip(problems, limits, measured, theory, strict=True):
        for p, m, t in zip(row, ms, ts, strict=True):
            entry = {"alpha": p.step.exponent, "c": STRONG, "n": p.n, "spikes_limit": limit}
            entry |= {"spikes_predicted": t.outliers, "spikes_measured": float(m.outliers.mean)}
            for k in range(2):
                entry[f"eigenvalue_{k + 1}"] = float(m.leading.mean[k])
                entry[f"predicted_{k + 1}"] = float(t.leading[k]) if k < t.outliers else None
            rows.append(entry | {"edge": t.edge})
        now.append(float(ms[-1].outliers.mean))
        counts.append(count_check(ms[-1].outliers, limit - 0.5, limit + 0.5, among=len(problems)))
        finite.append(ts[-1].outliers)
    second = paper_problem(sizes.ns[-1], exponent=WINDOWS[1])
    weak = spectrum(second, density=False)
    n = sizes.ns[-1]
    trend = ", ".join(
        f"{m.leading.mean[1]:.3g} (edge {t.edge:.3g}) at n = {p.n}"
        for p, m, t in zip(problems[1], measured[1], theory[1], strict=True)
    )
    return Claim(
        "2",
        "ℓ spikes leave the spectrum in window ℓ (those with c_k ≠ 0)",
        f"{', '.join(map(str, limits))} for α = {', '.join(map(str, WINDOWS))}",
        ", ".join(f"{x:.2g}" for x in now) + f" at n = {n}",
        short(counts, NOT_YET),
        f"With c = {STRONG:g} in η = c·n^α, {', '.join(f'{x:.2g}' for x in now)} eigenvalues of FFᵀ/n leave the bulk and are "
        f"functions of X̃β at n = {n}; the finite-n theory says {', '.join(map(str, finite))}, the limit "
        f"{', '.join(map(str, limits))} (ReLU has c₃ = 0: no cubic spike in window 3). Second eigenvalue at "
        f"α = {WINDOWS[1]}: {trend}. The prefactor decides: with c = 1 the theory sees {weak.outliers} of 2 at this n.{undecided(*counts)}",
        rows,
        tuple(_spectrum_panel(m[-1], t[-1]) for m, t in zip(measured, theory, strict=True)),
        f"Eigenvalues of FFᵀ/n at n = {n}, d = n/2, N = 3n/2, c = {STRONG:g}: histogram over all seeds, bulk density from "
        "the profile theory (line), spikes measured (points) and predicted (vertical lines). ReLU, teacher H₁ + H₂/√2.",
    )


def _spectrum_panel(m: MeasuredSpectrum, t: Spectrum) -> Panel:
    """Density per unit of log eigenvalue, E·ρ(E), so that equal areas are equal shares of the spectrum."""
    values = m.eigenvalues.values
    bulk = values[(values > 1e-9) & (values < 1.05 * t.edge)]
    heights, edges = np.histogram(np.log(bulk), bins=40)
    density = heights / values.size / np.diff(edges)
    series = [Series("measured bulk", np.exp(edges), density, kind="histogram")]
    if t.trained is not None:
        series.append(Series("predicted bulk", t.trained.grid, t.trained.grid * t.trained.density))
    count = max(t.outliers, round(float(m.outliers.mean)))
    if count:
        at, error = np.full(count, 0.04 * density.max()), np.zeros(count)
        series.append(Series("measured spikes", m.leading.mean[:count], at, error, "simulation", 1))
    lines = [(float(x), f"k = {k}") for x, k in zip(t.leading, t.degrees, strict=True)]
    limits = float(np.exp(edges[0])), 1.5 * float(max(m.leading.mean[0], t.edge))
    label = "density per log eigenvalue"
    title = f"α = {m.problem.step.exponent:g}"
    return Panel(title, "eigenvalue of FFᵀ/n", label, series, logx=True, verticals=lines, xlim=limits)


def _alignment_claim(sizes: Sizes, measured: list[MeasuredSpectrum], theory: list[Spectrum]) -> Claim:
    first = [Estimate(m.power_overlaps.values[:, 0, 0]) for m in measured]
    second = [Estimate(m.power_overlaps.values[:, 1, 1]) for m in measured]
    on_z = [Estimate(m.on_direction.values[:, 1]) for m in measured]
    t = theory[-1]
    said = [f"{t.power_overlaps[k, k]:.3f}" for k in range(min(2, t.outliers))]
    rise = float(second[-1].mean - second[0].mean), float(np.hypot(second[-1].stderr, second[0].stderr))
    falls = slope_check(rise, len(measured[-1].seeds), 0.0)
    trend = {Agreement.AGREES: "does not rise", Agreement.DIFFERS: "rises"}.get(falls.outcome, "is not shown to rise")
    aligned = [check(e[-1], low=0.9, among=2) for e in (first, second)]
    series = [
        Series("u₁ with X̃β", sizes.ns, [e.mean for e in first], [e.stderr for e in first], "simulation", 0),
        Series("u₂ with (X̃β)²", sizes.ns, [e.mean for e in second], [e.stderr for e in second], "simulation", 1),
    ]
    for k in range(2):
        y = [s.power_overlaps[k, k] if s.outliers > k else np.nan for s in theory]
        series.append(Series(f"theory for u{'₁₂'[k]}", sizes.ns, y, colour=k))
    rows = [
        {"n": n, "u1_on_power_1": float(a.mean), "u1_stderr": float(a.stderr), "u2_on_power_2": float(b.mean)}
        | {"u2_stderr": float(b.stderr), "u2_on_functions": float(c.mean)}
        | {f"u{k + 1}_theory": float(s.power_overlaps[k, k]) if s.outliers > k else None for k in range(2)}
        for n, a, b, c, s in zip(sizes.ns, first, second, on_z, theory, strict=True)
    ]
    return Claim(
        "3",
        "Left singular vector k follows (X̃β)^k",
        "squared overlaps → 1, 1",
        f"{pm(first[-1])}, {pm(second[-1])}",
        short(aligned, NOT_YET),
        f"At n = {sizes.ns[-1]}, α = {WINDOWS[1]}, c = {STRONG:g}: squared overlap of u₁ with X̃β {pm(first[-1])}, of u₂ with "
        f"(X̃β)² {pm(second[-1])} (with all functions of X̃β {pm(on_z[-1])}; theory at this n {', '.join(said)}). "
        f"The second was {pm(second[0])} at n = {sizes.ns[0]} and {trend} with n. The second "
        f"spike is the power z², not H₂: it has a constant part.{undecided(*aligned)}",
        rows,
        (Panel("alignment of the spikes", "n", "squared overlap", series, logx=True, xticks=sizes.ns, ylim=(0, 1.05)),),
        f"Squared overlaps of the two leading left singular vectors of F with powers of X̃β, α = {WINDOWS[1]}, "
        f"c = {STRONG:g}; mean ± standard error, lines from the profile theory. ReLU, H₁ + H₂/√2, d = n/2, N = 3n/2.",
    )


def expansion(sizes: Sizes, runs: dict[float, list[MeasuredEquivalence]]) -> Claim:
    """Claim 4: ‖F − F_ℓ‖/√n → 0; `runs` are those of claims 5 and 6."""
    series, rows, words = [], [], []
    falls: dict[str, list[Check]] = {"exact": [], "rank one": []}
    for i, (alpha, row) in enumerate(runs.items()):
        ell = row[0].ell
        for kind, name in (("exact", "distance"), ("rank one", "distance_rank_one")):
            estimates: list[Estimate] = [getattr(m, name) for m in row]
            slope, se = growth(sizes.ns, estimates)
            falls[kind].append(slope_check((slope, se), estimates[-1].values.shape[0], 0.0, among=2 * len(runs)))
            words.append(f"α = {alpha:g}, ℓ = {ell}, {kind} step {pm(estimates[-1])}, n^({slope:.2f} ± {se:.2f})")
            means, errors = [e.mean for e in estimates], [e.stderr for e in estimates]
            label = f"α = {alpha:g}, ℓ = {ell}, {kind} step"
            series.append(Series(label, sizes.ns, means, errors, "simulation", 2 * i + (kind == "rank one")))
            rows += [
                {"alpha": alpha, "ell": ell, "step": kind, "n": n, "distance": float(e.mean), "stderr": float(e.stderr)}
                for n, e in zip(sizes.ns, estimates, strict=True)
            ]
    last = [row[-1].distance for row in runs.values()]
    strong = [row[-1] for row in runs.values()][-1]
    means = [row.column_means for row in list(runs.values())[-1]]
    exponent = 2 * strong.problem.step.exponent - 0.5
    exact, rank_one = (together(falls[kind]) for kind in ("exact", "rank one"))
    told = {Agreement.AGREES: "falls as the theorem says", Agreement.DIFFERS: "does not fall"}
    verdict = (
        PARTLY
        if rank_one is Agreement.AGREES and exact is Agreement.DIFFERS
        else short([*falls["exact"], *falls["rank one"]], NOT_YET)
    )
    return Claim(
        "4",
        "F is close to F_ℓ: ‖F − F_ℓ‖/√n falls with n",
        "→ 0",
        ", ".join(pm(e, 2) for e in last),
        verdict,
        f"At n = {sizes.ns[-1]}: {'; '.join(words)}. After an exactly rank-one step the distance {told.get(rank_one, 'is not shown to fall or not')}, after the exact one it {told.get(exact, 'is not shown to fall or not')}. After "
        "the exact gradient step and for α > 1/4 our theory says that a part must remain: the gradient's own fluctuations change the lengths of the "
        "rows of W, which shifts column j of F by c₂φ E r² Var σ′ η²a_j². Over √n that constant-vector part has size "
        f"√3 c₂φ E r² Var σ′ η²/√N = {constant_part(strong.problem):.3f}, which grows like n^{exponent:.2f}; the column means "
        f"measured are {pm(means[0])} at n = {sizes.ns[0]} and {pm(means[-1])} at n = {sizes.ns[-1]}.{undecided(*falls['exact'], *falls['rank one'])}",
        rows,
        (Panel("distance of F to its expansion", "n", "‖F − F_ℓ‖/√n", series, logx=True, logy=True, xticks=sizes.ns),),
        "Operator norm of F − F_ℓ over √n. ReLU, teacher H₁ + H₂/√2, c = 1, d = n/2, N = 3n/2; mean ± standard error.",
    )


def constant_part(problem: Problem) -> float:
    """√3 c₂φ₀ E r² Var σ′ η²/√N: what the gradient's fluctuations add to ‖F − F_ℓ‖/√n along the constant vector.

    Pair j of W grows to squared length 1 + η²a_j²φ₀ E r² Var σ′ (the isotropic level of the profile theory), and E σ(√v Z) − E σ(Z) ≈ c₂(v − 1).
    """
    sigma, phi0 = problem.sigma, problem.d / problem.step_samples
    inflation = phi0 * direction(problem).residual_power * sigma.derivative_variance * problem.eta**2
    return float(np.sqrt(3) * abs(sigma.coefficients[2]) * inflation / np.sqrt(problem.N))


def no_linear_activation(sizes: Sizes) -> Claim:
    """Claim 10a: with c₁ = 0 no spike carries a function of X̃β."""
    n, seeds = sizes.ns[-1], max(3, sizes.seeds // 2)
    broken = paper_problem(n, constant=STRONG, exponent=WINDOWS[1], activation=(0.0, 0.0, 0.5))
    without, usual = (
        measure_spectrum(p, seeds, count=4) for p in (broken, paper_problem(n, constant=STRONG, exponent=WINDOWS[1]))
    )
    found, reference = feature_spikes(without), feature_spikes(usual)
    first = Estimate(without.overlaps.values[:, 0, 0])
    none = count_check(found, -0.5, 0.5)
    left = float(without.leading.mean[0] / without.untrained_edge.mean)
    return Claim(
        "10a",
        "An activation with c₁ = 0 gives no spike that carries a feature",
        "0 spikes",
        f"{found.mean:.2g} (ReLU: {reference.mean:.2g})",
        short([none]),
        f"σ = H₂/2 at n = {n}, α = {WINDOWS[1]}, c = {STRONG:g}: {found.mean:.2g} eigenvalues leave the bulk with a vector that "
        f"varies with X̃β, against {reference.mean:.2g} for ReLU on the same draws. The largest eigenvalue is {left:.2g} times "
        f"the untrained edge; the squared overlap of its vector with the constant one is {pm(first)}: the step changes the lengths of "
        f"the rows of W and so the means of the features, as in claim 4.{undecided(none)}",
        [
            {"activation": "H2/2", "feature_spikes": float(found.mean), "constant_overlap": float(first.mean)},
            {"activation": "relu", "feature_spikes": float(reference.mean), "constant_overlap": None},
        ],
    )


def feature_spikes(m: MeasuredSpectrum) -> Estimate:
    """Leading eigenvalues above the untrained spectrum with more than a quarter of the vector on non-constant functions of X̃β."""
    above = m.leading.values > m.untrained_eigenvalues.values[:, -1:]
    varying = m.on_direction.values - m.overlaps.values[:, :, 0]
    return Estimate((above & (varying > 0.25)).sum(1).astype(float))
