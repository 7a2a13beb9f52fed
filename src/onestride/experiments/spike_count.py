"""`spike-count`: how many eigenvalues of FFᵀ/n have left the bulk, over α and n, and how the prefactor moves it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onestride._numerics import Array
from onestride.compare import Check, check, seeds_words
from onestride.experiments.claim import FAILS, HOLDS, UNDECIDED
from onestride.experiments.outcome import Outcome, Settings
from onestride.plot import Panel, Series
from onestride.problem import Problem, Step
from onestride.result import Estimate
from onestride.simulation.spectrum import measure_spectrum
from onestride.theory.outliers import find_outliers

THRESHOLDS = ((0.0, "0"), (0.25, "1/4"), (1 / 3, "1/3"), (0.375, "3/8"))
LIMITS = (0.0, 0.25, 1 / 3)  # where spikes 1, 2, 3 appear as n → ∞
ACTIVATIONS = {"relu": ("ReLU", 2), "shifted_erf": ("erf(z + ½)", 3)}  # name: label, highest spike followed
CONSTANT, PREFACTORS = 2.0, (1.0, 2.0, 4.0)
MATCHING = 0.8  # share of draws in which simulation counts what the theory does
ON_DIRECTION = 0.5  # a spike is a function of X̃β by more than this


def the_problem(activation: str, n: int, eta: float) -> Problem:
    """Teacher H₁ + H₂/√2, d = N = n/2, the labels-only gradient on 4n samples, a step of size η."""
    half = n // 2
    step = Step(constant=eta, exponent=0.0)
    return Problem(
        n=n, d=half, N=half, n_step=4 * n, activation=activation, teacher=(0, 1, 2**-0.5), gradient="labels", step=step
    )


def boundary(activation: str, n: int, k: int, start: float) -> float:
    """The η near `start` at which the theory begins to see k spikes: its k-th strength is 1. NaN when there is none.

    Strengths grow nearly like η^{2k}, so Newton's method in logarithms needs two or three steps.
    """
    x, last = np.log(start), None
    for _ in range(10):
        strengths = find_outliers(the_problem(activation, n, float(np.exp(x))), nodes=17).strengths
        if strengths.size < k:  # no theory at a step this large
            return float("nan")
        y = float(np.log(strengths[k - 1]))
        slope = 2.0 * k if last is None or last[0] == x else float(np.clip((y - last[1]) / (x - last[0]), k / 2, 3 * k))
        if abs(y) < 0.2:
            return float(np.exp(x - y / slope))
        last, x = (x, y), x - float(np.clip(y / slope, -1, 1))
    return float("nan")


def boundaries(activation: str, ns: Array, k: int) -> Array:
    """`boundary` for increasing n, each started from the one before."""
    found: list[float] = []
    start = 2.0 * float(ns[0]) ** LIMITS[k - 1]
    for i, n in enumerate(ns):
        if i and np.isfinite(found[-1]):
            start = found[-1] * float(n / ns[i - 1]) ** LIMITS[k - 1]
        elif i:
            start = 2.0 * float(n) ** LIMITS[k - 1]
        found.append(boundary(activation, int(n), k, start))
    return np.array(found)


def exponent(eta: Array, n: Array, constant: float) -> Array:
    """α of η = c·n^α."""
    return np.log(eta / constant) / np.log(n)


def judge(agreeing: Check, slopes: Sequence[tuple[float, float]], gap: float) -> str:
    """Words for three numbers.

    `agreeing`: is the share of cells with the count of the finite-n theory at least MATCHING? `slopes`: (e, threshold) for each
    boundary η_k ∝ n^e of the theory. `gap`: largest |α_k − threshold| at the largest n that was simulated, at c = 1.
    """
    if agreeing.differs:
        return f"{FAILS}: theory and simulation count differently"
    if not agreeing.agrees:
        return f"{UNDECIDED} whether theory and simulation count alike: {seeds_words([agreeing])}"
    if max(abs(e - limit) for e, limit in slopes) > 0.04:
        return f"{FAILS}: the boundaries do not tend to the windows"
    return f"{HOLDS} as a limit, not at this n" if gap > 0.02 else HOLDS


def run(settings: Settings) -> Outcome:
    """Follow the boundaries with the theory to large n; count spikes in simulations where they can be run."""
    ns = settings.pick((150, 300), (200, 400, 800, 1600), (500, 1000, 2000, 4000, 8000))
    alphas = settings.pick((0.1, 0.4), (0, 0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5), np.linspace(0, 0.5, 11).tolist())
    near = np.geomspace(ns[0], 1e9, settings.pick(2, 8, 14)).round()
    far = settings.pick(np.array([ns[0], 1e7, 1e9]), near, near)
    seeds = settings.seed_count(2, 3, 4)
    panels, rows, theory, hits = [], [], {}, []
    total = len(ACTIVATIONS) * (len(far) + len(ns) * 2)
    done = 0
    for activation, (label, spikes) in ACTIVATIONS.items():
        theory[activation] = np.stack([boundaries(activation, far, k) for k in range(1, spikes + 1)], axis=1)
        done += len(far)
        settings.progress(done / total)
        for n in ns:
            for alpha in alphas:
                problem = the_problem(activation, n, CONSTANT * n**alpha)
                m = measure_spectrum(problem, seeds, count=6)
                t = find_outliers(problem, nodes=17)
                said = int((t.on_direction > ON_DIRECTION).sum())
                rows.append({"activation": label, "n": n, "alpha": float(alpha), "c": CONSTANT, "theory": said})
                rows[-1] |= {"measured": float(m.outliers.mean), "stderr": float(m.outliers.stderr)}
                hits.append(m.outliers.values == said)
            done += 2
            settings.progress(done / total)
        mine = [row for row in rows if row["activation"] == label]
        series = [
            Series(f"spike {k + 1} appears", exponent(theory[activation][:, k], far, CONSTANT), far, colour=k + 1)
            for k in range(spikes)
        ]
        for count in range(spikes + 1):
            cells = [(row["alpha"], row["n"]) for row in mine if round(row["measured"]) == count]
            if cells:
                series.append(Series(f"{count} measured", *zip(*cells, strict=True), kind="simulation", colour=count))
        title, axes = f"{label}, c = {CONSTANT:g}", ("α = log(η/c)/log n", "n")
        panels.append(Panel(title, *axes, series, logy=True, verticals=THRESHOLDS, xlim=(-0.06, 0.52)))
    for activation, (label, spikes) in ACTIVATIONS.items():
        series = []
        for k in range(spikes):
            for c in PREFACTORS:
                kind = "theory" if c == CONSTANT else "limit"
                name = f"spike {k + 1}, c = {c:g}" if c == CONSTANT else ""
                series.append(Series(name, exponent(theory[activation][:, k], far, c), far, kind=kind, colour=k + 1))
        title = f"{label}: c = 1 (right), 2, 4 (left)"
        panels.append(
            Panel(title, "α = log(η/c)/log n", "n", series, logy=True, verticals=THRESHOLDS, xlim=(-0.2, 0.6))
        )

    share = Estimate(np.mean(hits, axis=0))  # of the cells, one value per seed
    followed = [(activation, k) for activation, (_, spikes) in ACTIVATIONS.items() for k in range(spikes)]
    slopes, gaps = [], []
    for activation, k in followed:
        x, y = np.log(far), np.log(theory[activation][:, k])
        slopes.append((float((y[-1] - y[-2]) / (x[-1] - x[-2])), LIMITS[k]))
        gaps.append(abs(float(np.interp(np.log(ns[-1]), x, y / x)) - LIMITS[k]))
    named = ", ".join(
        f"{e:.2f} ({ACTIVATIONS[a][0]}, spike {k + 1})" for (e, _), (a, k) in zip(slopes, followed, strict=True)
    )
    second, third = (exponent(theory[a][:, k], far, 1.0) for a, k in (("relu", 1), ("shifted_erf", 2)))
    for activation, (label, _) in ACTIVATIONS.items():
        for n, etas in zip(far, theory[activation], strict=True):
            rows.append({"activation": label, "n": int(n), "c": CONSTANT})
            alphas_k = exponent(etas, np.full(etas.shape, n), CONSTANT)
            rows[-1] |= {f"alpha_spike_{k + 1}": float(a) for k, a in enumerate(alphas_k) if np.isfinite(a)}
    return Outcome(
        name="spike-count",
        question="How many eigenvalues have left the bulk at a given α and n, and how does the prefactor of the step move it?",
        claim="ℓ of them for (ℓ−1)/(2ℓ) < α < ℓ/(2ℓ+2), whatever the prefactor c (those k with c_k ≠ 0).",
        verdict=judge(check(share, low=MATCHING), slopes, max(gaps)),
        finding=(
            f"In {share.mean:.0%} ± {share.stderr:.0%} of {len(hits)} cells (n from {ns[0]} to {ns[-1]}, c = {CONSTANT:g}, {seeds} seeds each) the number of spikes "
            f"is that of the finite-n theory. At c = 1 the second ReLU spike appears at α = {second[0]:.2f} for n = {far[0]:.0f} and at "
            f"{second[-1]:.3f} for n = {far[-1]:.0e} (window: 0.25); the third spike of erf(z + ½) at {third[np.isfinite(third)][0]:.2f} and "
            f"{third[-1]:.3f} (window: 0.333). At n = {ns[-1]} and c = 1 a boundary is up to {max(gaps):.2f} from its threshold. In the theory the "
            f"step at which a spike appears grows like n^e with e = {named} at the largest n; the windows say 0, 1/4, 1/3."
        ),
        surprise=_prefactors(theory, far, ns[-1]),
        rows=rows,
        panels=tuple(panels),
        caption=(
            f"Number of eigenvalues of FFᵀ/n that left the bulk and whose vector is a function of X̃β. Top: measured (symbols, rounded mean of {seeds} seeds) "
            f"and, from the profile theory, where each next spike appears (lines), η = {CONSTANT:g}·n^α. Bottom: those lines for three prefactors. Teacher "
            "H₁ + H₂/√2, no noise, d = N = n/2, labels-only gradient on 4n samples. Vertical lines: thresholds (ℓ−1)/(2ℓ)."
        ),
    )


def _prefactors(theory: dict[str, Array], far: Array, n: int) -> str:
    """Where the boundaries lie at the largest n simulated, for the smallest and the largest prefactor, by the theory."""
    few, most = PREFACTORS[0], PREFACTORS[-1]
    places: dict[float, list[tuple[float, float]]] = {few: [], most: []}
    for activation, (_, spikes) in ACTIVATIONS.items():
        for k in range(spikes):
            eta = float(np.exp(np.interp(np.log(n), np.log(far), np.log(theory[activation][:, k]))))
            for c, found in places.items():
                found.append((float(np.log(eta / c) / np.log(n)), LIMITS[k]))
    early = {c: sum(alpha < limit for alpha, limit in found if np.isfinite(alpha)) for c, found in places.items()}
    width, shift = LIMITS[2] - LIMITS[1], float(np.log(most / few) / np.log(n))
    return (
        f"The prefactor does not drop out at n = {n}: from c = {few:g} to c = {most:g} every boundary moves by log(c)/log(n) = {shift:.2f}, "
        f"{'more' if shift > width else 'less'} than the width of window 2 ({width:.3f}). With c = {few:g} {early[few]} of {len(places[few])} spikes appear below their thresholds, "
        f"with c = {most:g} {early[most]}."
    )
