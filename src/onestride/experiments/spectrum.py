"""`spectrum`: the eigenvalues of FFᵀ/n in the windows ℓ = 0, 1, 2, 3, and the vectors behind its spikes."""

from __future__ import annotations

from typing import Any

import numpy as np

from onestride.compare import Agreement, Check, Pair, agree, seeds_words, together
from onestride.experiments.claim import HOLDS, NOT_YET, UNDECIDED, count_check, tally
from onestride.experiments.outcome import Outcome, Settings
from onestride.plot import Panel, Series
from onestride.problem import Problem, Step
from onestride.result import Estimate
from onestride.simulation.spectrum import MeasuredSpectrum, largest_sample_share, leading_vectors, measure_spectrum
from onestride.theory.spectrum import Spectrum, spectrum

ALPHAS = (-0.3, 0.15, 0.29, 0.355)  # one exponent in each of the windows ℓ = 0, 1, 2, 3
CONSTANT, STEP_SAMPLES = 4.0, 4  # η = 4n^α, the step sees 4n samples
POSITION_TOLERANCE = 0.05  # what the theory of a spike's position may miss at finite size


def judge(counts: dict[int, Check], placed: list[Pair]) -> str:
    """`counts`: window ℓ → is the number of spikes ℓ? `placed`: is each spike where the finite-n theory puts it?"""
    wrong = [ell for ell, found in counts.items() if found.differs]
    if wrong:
        return f"{NOT_YET}: wrong number of spikes in window {', '.join(map(str, wrong))}"
    if together(counts.values()) is Agreement.UNDECIDED:
        return f"{UNDECIDED}: {seeds_words(counts.values())}"
    where = {
        Agreement.AGREES: "",
        Agreement.DIFFERS: ", but spikes are not where theory puts them",
        Agreement.UNDECIDED: f"; whether within {POSITION_TOLERANCE:.0%} of where theory puts them is {UNDECIDED}: ",
    }[together(placed)]
    return f"{HOLDS} at this n and c{where}" + (seeds_words(placed) if where.endswith(": ") else "")


def the_problem(n: int, alpha: float, constant: float = CONSTANT, step_samples: int = STEP_SAMPLES) -> Problem:
    """erf(z + ½), teacher H₁ + H₂/√2, d = N = n/2, the labels-only gradient."""
    sizes: dict[str, Any] = {"n": n, "d": n // 2, "N": n // 2, "n_step": step_samples * n}
    step = Step(constant=constant, exponent=alpha)
    return Problem(**sizes, activation="shifted_erf", teacher=(0, 1, 2**-0.5), gradient="labels", step=step)


def run(settings: Settings) -> Outcome:
    """Measure and predict the spectrum in each window, and read the leading left singular vectors."""
    n, seeds = settings.pick(400, 2000, 6000), settings.seed_count(4, 6, 6)
    windows = settings.pick((1, 3), (0, 1, 2, 3), (0, 1, 2, 3))
    panels, rows, placed, counted = [], [], [], {}
    for i, ell in enumerate(windows):
        problem = the_problem(n, ALPHAS[ell])
        m, t = measure_spectrum(problem, seeds, count=5), spectrum(problem)
        seen = round(float(m.outliers.mean))
        row = {"window": ell, "alpha": ALPHAS[ell], "spikes_limit": ell, "spikes_measured": float(m.outliers.mean)}
        row |= {"spikes_stderr": float(m.outliers.stderr), "spikes_theory": t.outliers, "edge_theory": t.edge}
        row |= {"spikes_theory_c1": spectrum(the_problem(n, ALPHAS[ell], 1.0), density=False).outliers}
        row |= {"bulk_distance": bulk_distance(m, t)}
        counted[ell] = count_check(m.outliers, ell - 0.5, ell + 0.5, among=len(windows))
        for k in range(3):
            judged = (
                agree(float(t.leading[k]), m.leading[k], POSITION_TOLERANCE, among=sum(windows))
                if k < t.outliers
                else None
            )
            row |= {f"eigenvalue_{k + 1}": float(m.leading.mean[k]), f"stderr_{k + 1}": float(m.leading.stderr[k])}
            row |= {f"theory_{k + 1}": None if judged is None else judged.predicted}
            row |= {f"on_functions_{k + 1}": float(m.on_direction.mean[k])}
            if judged is not None and k < seen:
                placed.append(judged)
        rows.append(row)
        panels += [_histogram(m, t, ell), _vectors(problem, max(seen, 1), ell)]
        settings.progress((i + 1) / (len(windows) + 0.5))
    larger = spectrum(the_problem(100_000, ALPHAS[3]), density=False).outliers
    noisy_problem = the_problem(n, ALPHAS[3], step_samples=1)
    noisy = measure_spectrum(noisy_problem, seeds, count=5)
    remembered = Estimate(np.array([largest_sample_share(noisy_problem, seed, 3) for seed in range(min(seeds, 4))]))
    last = rows[-1]
    spikes = ", ".join(
        f"{last[f'eigenvalue_{k}']:.3g} ± {last[f'stderr_{k}']:.1g}"
        + (f" (theory {last[f'theory_{k}']:.3g})" if last[f"theory_{k}"] is not None else " (theory: in the bulk)")
        for k in (1, 2, 3)
    )
    shares = ", ".join(f"{last[f'on_functions_{k}']:.2f}" for k in (1, 2, 3))
    keys = ("alpha", "spikes_measured", "spikes_theory", "spikes_limit", "spikes_theory_c1")
    counts = {key: ", ".join(f"{row[key]:.3g}" for row in rows) for key in keys}
    return Outcome(
        name="spectrum",
        question="How many eigenvalues of FFᵀ/n leave the bulk in each window of α, and what are their vectors?",
        claim="In window ℓ, (ℓ−1)/(2ℓ) < α < ℓ/(2ℓ+2), ℓ spikes leave the bulk, one for each power (X̃β)^k, k ≤ ℓ.",
        verdict=judge(counted, placed),
        finding=(
            f"n = {n}, c = {CONSTANT:g}, α = {counts['alpha']}: {counts['spikes_measured']} spikes measured, {counts['spikes_theory']} by the "
            f"theory at this n, {counts['spikes_limit']} in the limit. In window 3 the leading eigenvalues are {spikes}; the bulk ends at "
            f"{last['edge_theory']:.3g}. Within {POSITION_TOLERANCE:.0%} of the theory's places: {tally(placed)}. "
            f"The distribution functions of bulk and prediction differ by at most {max(row['bulk_distance'] for row in rows):.3f}. The share of "
            f"the three leading vectors of window 3 that is a function of X̃β is {shares}. "
            f"With c = 1 the theory sees {counts['spikes_theory_c1']} spikes at this n."
        ),
        surprise=_prefactor_and_noise(noisy, remembered, larger, last),
        rows=rows,
        panels=tuple(panels),
        caption=(
            f"σ(z) = erf(z + ½), centred; teacher H₁ + H₂/√2, no noise, n = {n}, d = N = n/2, η = {CONSTANT:g}·n^α, labels-only gradient on {STEP_SAMPLES}n samples. Left: "
            f"eigenvalues of FFᵀ/n of {seeds} seeds (histogram), bulk density of the profile theory (line), spikes measured (points, mean ± standard "
            "error) and predicted (vertical lines, with the dominant degree). Right: √n times the leading left singular vectors of one draw against "
            "X̃β/|β|, and the polynomials of degree 5 through them."
        ),
    )


def _prefactor_and_noise(noisy: MeasuredSpectrum, remembered: Estimate, larger: int, last: dict[str, Any]) -> str:
    """What another prefactor, a larger n and a step on fewer samples do to window 3."""
    left, right = noisy.outliers, f"{last['spikes_measured']:.2g} ± {last['spikes_stderr']:.1g}"
    return (
        f"Windows do not count spikes by themselves: in window 3 the theory sees {last['spikes_theory_c1']} with c = 1 at this n, and {larger} with c = {CONSTANT:g} at "
        f"n = 10⁵. When the step sees n samples instead of {STEP_SAMPLES}n, {left.mean:.2g} ± {left.stderr:.1g} spikes are measured there instead of {right}; of "
        f"the third vector (eigenvalue {noisy.leading.mean[2]:.3g} ± {noisy.leading.stderr[2]:.1g}) {noisy.on_direction.mean[2]:.0%} is then a function of X̃β and "
        f"{remembered.mean:.0%} ± {remembered.stderr:.0%} a function of X̃x⋆, x⋆ the sample of the step with the largest label."
    )


def bulk_distance(m: MeasuredSpectrum, t: Spectrum) -> float:
    """Largest gap between the measured and predicted distribution functions of the bulk, as shares of all n eigenvalues."""
    assert t.trained is not None
    grid, density = t.trained.grid, np.nan_to_num(t.trained.density)
    steps = np.diff(grid) * (density[1:] + density[:-1]) / 2
    predicted = t.trained.atom + np.append(0, np.cumsum(steps))
    values, n = np.sort(m.eigenvalues.values, axis=None), m.problem.n
    seeds = m.eigenvalues.values.shape[0]
    measured = max(1 - m.problem.N / n, 0) + np.searchsorted(values, grid) / (seeds * n)
    inside = grid < t.edge
    return float(np.abs(measured - predicted)[inside].max())


def _histogram(m: MeasuredSpectrum, t: Spectrum, ell: int) -> Panel:
    """Density per unit of log eigenvalue, E·ρ(E), so that equal areas are equal shares of the spectrum."""
    assert t.trained is not None
    values, edge = m.eigenvalues.values, 1.02 * t.edge
    bulk = values[(values > 1e-9) & (values < edge)]
    heights, edges = np.histogram(np.log(bulk), bins=45)
    density = heights / (values.shape[0] * m.problem.n) / np.diff(edges)
    series = [
        Series("measured", np.exp(edges), density, kind="histogram"),
        Series("predicted bulk", t.trained.grid, t.trained.grid * t.trained.density),
    ]
    count = round(float(m.outliers.mean))
    if count:
        at = np.full(count, 0.06 * density.max())
        series.append(Series("measured spikes", m.leading.mean[:count], at, kind="simulation", colour=1))
    lines = [(float(x), f"k = {k}" if k else "const.") for x, k in zip(t.leading, t.degrees, strict=True)]
    limits = float(np.exp(edges[0])), 500.0
    title, label = f"ℓ = {ell}: α = {m.problem.step.exponent:g}", "density per log eigenvalue"
    return Panel(title, "eigenvalue of FFᵀ/n", label, series, logx=True, verticals=lines, xlim=limits)


def _vectors(problem: Problem, count: int, ell: int) -> Panel:
    z, vectors = leading_vectors(problem, 0, count)
    line = np.linspace(-2.6, 2.6, 131)
    dots, curves = [], []
    for k in range(count):
        u = np.sqrt(problem.n) * vectors[:, k]
        fit = np.polynomial.Polynomial.fit(z, u, 5)
        sign = 1.0 if fit(2.5) > 0 else -1.0
        dots.append(Series("", z, sign * u, kind="scatter", colour=k))
        curves.append(Series(f"u{'₁₂₃₄₅'[k]}", line, sign * fit(line), colour=k))
    title = f"ℓ = {ell}: leading vectors"
    return Panel(title, "X̃β/|β|", "√n u", (*dots, *curves), xlim=(-3.5, 3.5), ylim=(-4, 5))
