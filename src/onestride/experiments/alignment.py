"""`alignment`: what the leading left singular vectors of F are, in Hermite polynomials of X̃β and of X̃β⋆."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onestride._numerics import Array
from onestride.compare import Agreement, Check, Pair, agree, check, seeds_words, together
from onestride.experiments.claim import FAILS, HOLDS, NOT_YET, UNDECIDED, tally
from onestride.experiments.outcome import Outcome, Settings
from onestride.experiments.spectrum import CONSTANT, STEP_SAMPLES, the_problem
from onestride.plot import Panel, Series
from onestride.result import Estimate
from onestride.simulation.spectrum import MeasuredSpectrum, measure_spectrum
from onestride.theory.outliers import Outliers, find_outliers

THRESHOLDS = ((0.0, "0"), (0.25, "1/4"), (1 / 3, "1/3"), (0.375, "3/8"))
VECTORS = 3
WINDOWS = (0.15, 0.29, 0.355)  # vector k is followed in n inside window k
TARGETS = ("X̃β", "(X̃β)²", "H₃(X̃β)")  # powers, made orthogonal to the vectors before
TOLERANCE = 0.05  # absolute: what the theory of an overlap may miss at finite size
ALIGNED = 0.9  # squared overlap from which a vector counts as its target


def target_overlap(found: Outliers | MeasuredSpectrum, k: int) -> Array:
    """Squared overlap of vector k with its target: the k-th power, for k = 3 without its part along X̃β."""
    values = (found.overlaps, found.power_overlaps)
    overlaps, powers = (v.values if isinstance(v, Estimate) else v for v in values)
    if k == 2:
        return overlaps[..., k, 3]
    return powers[..., k, k]


def judge(overlaps: Sequence[Pair], now: Sequence[Check], far: Sequence[float]) -> str:
    """`overlaps`: measured beside theory at this n; `now`: are the overlaps with the targets above ALIGNED?; `far`: theory at large n."""
    away = sum(row.outcome is Agreement.DIFFERS for row in overlaps)
    if away:
        return f"{FAILS}: theory and simulation differ in {away} of {len(overlaps)} overlaps"
    if min(far) < ALIGNED:
        return f"{FAILS}: in theory some overlap stays below {ALIGNED:g}"
    open_ = [row for row in overlaps if row.outcome is Agreement.UNDECIDED]
    rest = (
        f"; theory beside simulation is {UNDECIDED} in {len(open_)} of {len(overlaps)} overlaps: {seeds_words(open_)}"
        if open_
        else ""
    )
    words = {
        Agreement.AGREES: HOLDS,
        Agreement.DIFFERS: f"{NOT_YET}; in theory it holds as n → ∞",
        Agreement.UNDECIDED: f"{UNDECIDED} at this n: ",
    }[together(now)]
    return words + (seeds_words(now) if words.endswith(": ") else "") + rest


def run(settings: Settings) -> Outcome:
    """Measure overlaps on a grid of exponents, and follow three of them in n."""
    n, seeds = settings.pick(300, 1200, 4000), settings.seed_count(3, 4, 6)
    alphas = settings.pick(
        (0.15, 0.3, 0.45), (0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5), np.linspace(0, 0.5, 11).tolist()
    )
    fine = np.linspace(-0.05, 0.5, settings.pick(4, 28, 45))
    ns = settings.pick((150, 300), (300, 600, 1200), (500, 1000, 2000, 4000))
    far = settings.pick((1e10,), (1e4, 1e6, 1e8, 1e10), (1e4, 1e6, 1e8, 1e10))
    curve = [find_outliers(the_problem(n, float(a)), nodes=17) for a in fine]
    at = [find_outliers(the_problem(n, a), nodes=25) for a in alphas]
    measured = []
    for i, alpha in enumerate(alphas):
        measured.append(measure_spectrum(the_problem(n, alpha), seeds, count=VECTORS))
        settings.progress(0.2 + 0.6 * (i + 1) / len(alphas))
    panels, rows, overlaps = [], [], []
    among = 2 * 5 * VECTORS * len(alphas)  # directions × degrees × vectors × exponents
    for name, title in (("overlaps", "X̃β"), ("teacher_overlaps", "X̃β⋆")):
        for v in range(VECTORS):
            series = []
            for k in range(5):
                line = [getattr(o, name)[v, k] if o.leading.size > v else np.nan for o in curve]
                values: list[Estimate] = [getattr(m, name)[v, k] for m in measured]
                means, errors = [e.mean for e in values], [e.stderr for e in values]
                colour = (k - 1) % 5
                series += [Series("", fine, line, colour=colour)]
                series += [Series(f"H{'₀₁₂₃₄'[k]}", alphas, means, errors, "simulation", colour)]
                for alpha, e, o in zip(alphas, values, at, strict=True):
                    if o.leading.size <= v:
                        continue
                    judged = agree(float(getattr(o, name)[v, k]), e, 0.0, absolute=TOLERANCE, among=among)
                    overlaps.append(judged)
                    row = {"vector": v + 1, "direction": title, "degree": k, "alpha": alpha, "theory": judged.predicted}
                    row |= {"measured": judged.measured, "stderr": judged.stderr}
                    rows.append(row | {"outcome": judged.outcome.name.lower()})
            heading = f"u{'₁₂₃'[v]} with H_k({title})"
            options = {"verticals": THRESHOLDS, "ylim": (-0.03, 1.05), "xlim": (-0.06, 0.52)}
            panels.append(Panel(heading, "α = log(η/c)/log n", "squared overlap", series, **options))
    now, limit = [], []
    for v, (alpha, target) in enumerate(zip(WINDOWS, TARGETS, strict=True)):
        runs = [Estimate(target_overlap(measure_spectrum(the_problem(m, alpha), seeds, count=VECTORS), v)) for m in ns]
        grid = [*ns, *far]
        theory = [find_outliers(the_problem(int(m), alpha), nodes=17) for m in grid]
        line = [float(target_overlap(o, v)) if o.leading.size > v else np.nan for o in theory]
        now.append(runs[-1])
        limit.append(line[-1])
        means, errors = [e.mean for e in runs], [e.stderr for e in runs]
        series = [Series("theory", grid, line, colour=v), Series("simulation", ns, means, errors, "simulation", v)]
        heading = f"u{'₁₂₃'[v]} with {target}, α = {alpha:g}"
        panels.append(Panel(heading, "n", "squared overlap", series, logx=True, ylim=(-0.03, 1.05)))
        for m, e, said in zip(grid, [*runs, *[None] * len(far)], line, strict=True):
            row = {
                "vector": v + 1,
                "target": target,
                "alpha": alpha,
                "n": int(m),
                "theory": said if np.isfinite(said) else None,
            }
            rows.append(row | ({} if e is None else {"measured": float(e.mean), "stderr": float(e.stderr)}))
    settings.progress(0.95)
    words = ", ".join(f"{e.mean:.2f} ± {e.stderr:.1g} (n → 10¹⁰: {x:.3f})" for e, x in zip(now, limit, strict=True))
    third = find_outliers(the_problem(int(far[-1]), WINDOWS[2]), nodes=17).power_overlaps[2, 2]
    return Outcome(
        name="alignment",
        question="What functions of the data are the leading left singular vectors of F?",
        claim="The k-th is the power (X̃β)^k, so it carries the teacher's component of degree k.",
        verdict=judge(overlaps, [check(e, low=ALIGNED, among=len(now)) for e in now], limit),
        finding=(
            f"Squared overlaps at n = {n} ({seeds} seeds) within {TOLERANCE:g} of the profile theory: {tally(overlaps)}. "
            f"Overlaps of u₁ with X̃β (α = 0.15), u₂ with (X̃β)² (α = 0.29), u₃ with H₃(X̃β) (α = 0.355) at n = {ns[-1]}, and in theory at "
            f"n = 10¹⁰: {words}."
        ),
        surprise=_what_the_vectors_are(rows, alphas, float(third)),
        rows=rows,
        panels=tuple(panels),
        columns=3,
        caption=(
            f"Squared overlaps of the leading left singular vectors u₁, u₂, u₃ of F with Hermite polynomials of X̃β/|β| (top) and X̃β⋆ (middle) against α at "
            f"n = {n}, and with their targets against n (bottom): simulation (points, mean ± standard error of {seeds} seeds) and profile theory (lines, where it "
            f"sees the spike). σ(z) = erf(z + ½), centred; teacher H₁ + H₂/√2, no noise, d = N = n/2, η = {CONSTANT:g}·n^α, labels-only gradient on "
            f"{STEP_SAMPLES}n samples. Vertical lines: thresholds (ℓ−1)/(2ℓ)."
        ),
    )


def _what_the_vectors_are(rows: list[dict[str, Any]], alphas: Sequence[float], third: float) -> str:
    """The third vector's target, the second's constant part, the teacher's share, and where alignment is best."""

    def measured(vector: int, direction: str, degree: int, alpha: float) -> str:
        kept = ("vector", "direction", "degree", "alpha")
        found = [r for r in rows if tuple(r.get(key) for key in kept) == (vector, direction, degree, alpha)]
        return f"{found[0]['measured']:.2f} ± {found[0]['stderr']:.1g}" if found else "not seen by the theory"

    near = min(alphas, key=lambda a: abs(a - WINDOWS[1]))
    last = min(alphas, key=lambda a: abs(a - WINDOWS[2]))
    first = [r for r in rows if (r["vector"], r.get("direction"), r.get("degree")) == (1, "X̃β", 1)]
    best = max(first, key=lambda r: r["measured"])
    end = first[-1]
    return (
        "The third vector is not the power: singular vectors are orthogonal, so it is (X̃β)³ without its part along X̃β, which is H₃; its overlap with (X̃β)³ is then 6/15 "
        f"(theory at n = 10¹⁰: {third:.2f}). The second keeps the constant part of z², a third of it in the limit: at α = {near:g} its overlap with the constant is "
        f"{measured(2, 'X̃β', 0, near)} and with H₂(X̃β) {measured(2, 'X̃β', 2, near)}. With the teacher's own H_k(X̃β⋆) overlaps are smaller by (β⋆ᵀβ/|β|)^{{2k}}: "
        f"{measured(1, 'X̃β⋆', 1, last)}, {measured(2, 'X̃β⋆', 2, last)}, {measured(3, 'X̃β⋆', 3, last)} for k = 1, 2, 3 at α = {last:g}. The overlap of u₁ with X̃β is largest at "
        f"α = {best['alpha']:g} ({best['measured']:.3f} ± {best['stderr']:.1g}) and {end['measured']:.3f} ± {end['stderr']:.1g} at α = {end['alpha']:g}."
    )
