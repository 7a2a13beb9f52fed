"""`alignment`: what the leading left singular vectors of F are, in Hermite polynomials of X̃β and of X̃β⋆."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from onestride._numerics import Array
from onestride.comparison import Agreement, Check, Pair, agree, check, seeds_words, together
from onestride.experiments.kit import EXPONENT, THRESHOLDS, mean_of, pm, points, row_of, spiked_problem
from onestride.experiments.outcome import Figure, Judgement, Progress, told
from onestride.experiments.verdict import FAILS, HOLDS, NOT_YET, UNDECIDED, spoken, tally
from onestride.plot import Panel, Series
from onestride.problem import Problem
from onestride.result import Estimate
from onestride.simulation.spectrum import MeasuredSpectrum, measure_spectrum_along
from onestride.theory.outliers import Outliers, find_outliers

CLAIM = "The k-th is the power (X̃β)^k, so it carries the teacher's component of degree k."
SIZES = {
    "n": (300, 1200, 4000),
    "seeds": (3, 4, 6),
    "alphas": (
        (0.15, 0.3, 0.45),
        (0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5),
        np.linspace(0, 0.5, 11).tolist(),
    ),
    "points": (12, 28, 45),
    "ns": ((150, 300), (300, 600, 1200), (500, 1000, 2000, 4000)),
    "along": (9, 13, 25),
    "far": ((1e10,), (1e4, 1e6, 1e8, 1e10), (1e4, 1e6, 1e8, 1e10)),
}
CONSTANT, STEP_SAMPLES = 4.0, 4  # as in `spectrum`
VECTORS, DEGREES = 3, 5
DIRECTIONS = {"overlaps": "X̃β", "teacher_overlaps": "X̃β⋆"}
WINDOWS = (0.15, 0.29, 0.355)  # vector k is followed in n inside window k
TARGETS = ("X̃β", "(X̃β)²", "H₃(X̃β)")  # powers, made orthogonal to the vectors before
TOLERANCE = 0.05  # absolute: what the theory of an overlap may miss at finite size
ALIGNED = 0.9  # squared overlap from which a vector counts as its target


@dataclass(frozen=True)
class Followed:
    """Vector v inside its window: squared overlap with its target, measured along `ns`, by theory along `far` too."""

    v: int
    ns: Sequence[int]
    far: Sequence[float]
    measured: list[Estimate]
    theory: list[Outliers]
    curve: dict[int, Outliers]  # theory alone, at sizes of its own

    @property
    def line(self) -> list[float]:
        """The theory's overlap at each size."""
        return [self.overlap(o) for o in self.theory]

    def overlap(self, found: Outliers) -> float:
        """Of the vector with its target, NaN where the theory does not see the spike."""
        return float(target_overlap(found, self.v)) if found.leading.size > self.v else np.nan


@dataclass(frozen=True)
class Overlaps:
    """Spectra at each exponent, measured and by theory, the theory's `curve` at the exponents `fine`, and the trends in n."""

    alphas: Sequence[float]
    measured: list[MeasuredSpectrum]
    theory: list[Outliers]
    fine: Array
    curve: list[Outliers]
    followed: list[Followed]


def measure(size: SimpleNamespace, progress: Progress) -> Overlaps:
    """Measure overlaps on a grid of exponents, and follow three of them in n."""
    fine = np.linspace(-0.05, 0.5, size.points)
    curve = [find_outliers(the_problem(size.n, float(a)), nodes=17) for a in fine]
    theory = [find_outliers(the_problem(size.n, a), nodes=25) for a in size.alphas]
    look = partial(measure_spectrum_along, seeds=size.seeds, count=VECTORS, device=size.device)
    measured = look(the_problem(size.n, 0.0), size.alphas, progress=told(progress, 0.2, 0.6))
    along = [look(the_problem(n, 0.0), WINDOWS) for n in size.ns]
    progress(0.8)
    followed = []
    for v, alpha in enumerate(WINDOWS):
        runs = [at[v] for at in along]
        judged = [int(n) for n in (*size.ns, *size.far)]
        between = np.geomspace(judged[0], judged[-1], size.along).round().astype(int).tolist()
        line = {n: find_outliers(the_problem(n, alpha), nodes=17) for n in sorted({*judged, *between})}
        far = [line[n] for n in judged]
        followed.append(Followed(v, size.ns, size.far, [Estimate(target_overlap(m, v)) for m in runs], far, line))
    progress(0.95)
    return Overlaps(size.alphas, measured, theory, fine, curve, followed)


def the_problem(n: int, alpha: float) -> Problem:
    """The problem of `spectrum`."""
    return spiked_problem(n, constant=CONSTANT, exponent=alpha, step_samples=STEP_SAMPLES)


def target_overlap(found: Outliers | MeasuredSpectrum, k: int) -> Array:
    """Squared overlap of vector k with its target: the k-th power, for k = 3 without its part along X̃β."""
    values = (found.overlaps, found.power_overlaps)
    overlaps, powers = (v.values if isinstance(v, Estimate) else v for v in values)
    return overlaps[..., k, 3] if k == 2 else powers[..., k, k]


def judge(data: Overlaps) -> Judgement:
    """Every overlap beside theory, and those with the targets along n."""
    overlaps, rows = _beside_theory(data)
    for f in data.followed:
        for i, (n, said) in enumerate(zip((*f.ns, *f.far), f.line, strict=True)):
            row = {"vector": f.v + 1, "target": TARGETS[f.v], "alpha": WINDOWS[f.v], "n": int(n)}
            row |= {"theory": said if np.isfinite(said) else None}
            rows.append(row | (mean_of(f.measured[i]) if i < len(f.measured) else {}))
    now, limit = [f.measured[-1] for f in data.followed], [f.line[-1] for f in data.followed]
    words = ", ".join(f"{pm(e, 2, 'f')} (n → 10¹⁰: {x:.3f})" for e, x in zip(now, limit, strict=True))
    run = data.measured[0]
    return Judgement(
        words=_words(overlaps, [check(e, low=ALIGNED, among=len(now)) for e in now], limit),
        finding=(
            f"Squared overlaps at n = {run.problem.n} ({len(run.seeds)} seeds) within {TOLERANCE:g} of the profile theory: {tally(overlaps)}. "
            f"Overlaps of u₁ with X̃β (α = 0.15), u₂ with (X̃β)² (α = 0.29), u₃ with H₃(X̃β) (α = 0.355) at n = {data.followed[0].ns[-1]}, and in theory at "
            f"n = 10¹⁰: {words}."
        ),
        surprise=_what_the_vectors_are(rows, data.alphas, float(data.followed[2].theory[-1].power_overlaps[2, 2])),
        rows=rows,
    )


def _beside_theory(data: Overlaps) -> tuple[list[Pair], list[dict[str, Any]]]:
    """Squared overlaps with H₀ … H₄ of both directions at every exponent where the theory sees the spike."""
    pairs, rows = [], []
    among = len(DIRECTIONS) * DEGREES * VECTORS * len(data.alphas)
    for name, title in DIRECTIONS.items():
        for v, k in np.ndindex(VECTORS, DEGREES):
            for alpha, m, o in zip(data.alphas, data.measured, data.theory, strict=True):
                if o.leading.size > v:
                    e, said = getattr(m, name)[v, k], float(getattr(o, name)[v, k])
                    pairs.append(agree(said, e, 0.0, absolute=TOLERANCE, among=among))
                    rows.append(row_of(pairs[-1], vector=v + 1, direction=title, degree=k, alpha=alpha))
    return pairs, rows


def _words(overlaps: Sequence[Pair], now: Sequence[Check], far: Sequence[float]) -> str:
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
    later, unclear = f"{NOT_YET}; in theory it holds as n → ∞", f"{UNDECIDED} at this n: {seeds_words(now)}"
    return spoken(together(now), HOLDS, later, unclear) + rest


def _what_the_vectors_are(rows: list[dict[str, Any]], alphas: Sequence[float], third: float) -> str:
    """The third vector's target, the second's constant part, the teacher's share, and where alignment is best."""

    def measured(vector: int, direction: str, degree: int, alpha: float) -> str:
        kept = ("vector", "direction", "degree", "alpha")
        found = [r for r in rows if tuple(r.get(key) for key in kept) == (vector, direction, degree, alpha)]
        return f"{found[0]['measured']:.2f} ± {found[0]['stderr']:.1g}" if found else "not seen by the theory"

    near, last = (min(alphas, key=lambda a, w=w: abs(a - w)) for w in WINDOWS[1:])
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


def draw(data: Overlaps) -> Figure:
    """Overlaps against α with both directions, and with the targets against n."""
    panels = []
    for name, title in DIRECTIONS.items():
        for v in range(VECTORS):
            series = []
            for k in range(DEGREES):
                line = [getattr(o, name)[v, k] if o.leading.size > v else np.nan for o in data.curve]
                colour = (k - 1) % 5
                series += [Series("", data.fine, line, colour=colour)]
                found = [getattr(m, name)[v, k] for m in data.measured]
                series += [points(f"H{'₀₁₂₃₄'[k]}", data.alphas, found, colour)]
            heading, axes = f"u{'₁₂₃'[v]} with H_k({title})", (EXPONENT, "squared overlap")
            options = {"verticals": THRESHOLDS, "ylim": (-0.03, 1.05), "xlim": (-0.06, 0.52)}
            panels.append(Panel(heading, *axes, series, **options))
    for f in data.followed:
        line = [f.overlap(found) for found in f.curve.values()]
        series = [Series("theory", list(f.curve), line, colour=f.v), points("simulation", f.ns, f.measured, f.v)]
        heading = f"u{'₁₂₃'[f.v]} with {TARGETS[f.v]}, α = {WINDOWS[f.v]:g}"
        panels.append(Panel(heading, "n", "squared overlap", series, logx=True, ylim=(-0.03, 1.05)))
    run = data.measured[0]
    caption = (
        f"Squared overlaps of the leading left singular vectors u₁, u₂, u₃ of F with Hermite polynomials of X̃β/|β| (top) and X̃β⋆ (middle) against α at "
        f"n = {run.problem.n}, and with their targets against n (bottom): simulation (points, mean ± standard error of {len(run.seeds)} seeds) and profile theory (lines, where it "
        f"sees the spike). σ(z) = erf(z + ½), centred; teacher H₁ + H₂/√2, no noise, d = N = n/2, η = {CONSTANT:g}·n^α, labels-only gradient on "
        f"{STEP_SAMPLES}n samples. Vertical lines: thresholds (ℓ−1)/(2ℓ)."
    )
    now = ", ".join(f"u{'₁₂₃'[f.v]} with {TARGETS[f.v]} {f.measured[-1].mean:.2f}" for f in data.followed)
    far = ", ".join(f"{f.line[-1]:.3f}" for f in data.followed)
    title = f"At n = {data.followed[0].ns[-1]} the overlaps are {now}; in theory at n = 10¹⁰ they are {far}"
    return Figure(panels, caption, columns=3, title=title)
