"""`spectrum`: the eigenvalues of FFᵀ/n in the windows ℓ = 0, 1, 2, 3, and the vectors behind its spikes."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from onestride._numerics import Array
from onestride.comparison import Agreement, Check, Pair, agree, seeds_words, together
from onestride.experiments.kit import spiked_problem
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.verdict import HOLDS, NOT_YET, UNDECIDED, count_check, spoken, tally
from onestride.plot import Panel, Series
from onestride.result import Estimate
from onestride.simulation.spectrum import (
    MeasuredSpectrum,
    largest_sample_share,
    leading_vectors,
    measure_spectrum,
    measure_spectrum_along,
)
from onestride.theory.spectrum import Spectrum, spectrum

CLAIM = "In window ℓ, (ℓ−1)/(2ℓ) < α < ℓ/(2ℓ+2), ℓ spikes leave the bulk, one for each power (X̃β)^k, k ≤ ℓ."
SIZES = {"n": (400, 2000, 6000), "seeds": (4, 6, 6), "windows": ((1, 3), (0, 1, 2, 3), (0, 1, 2, 3))}
ALPHAS = (-0.3, 0.15, 0.29, 0.355)  # one exponent in each of the windows ℓ = 0, 1, 2, 3
CONSTANT, STEP_SAMPLES = 4.0, 4  # η = 4n^α, the step sees 4n samples
DOTS = 400  # samples drawn of each vector
POSITION_TOLERANCE = 0.05  # what the theory of a spike's position may miss at finite size


@dataclass(frozen=True)
class Window:
    """The spectrum in window ℓ, how many spikes the theory sees with c = 1, and X̃β/|β| and leading vectors of one draw."""

    ell: int
    measured: MeasuredSpectrum
    theory: Spectrum
    spikes_c1: int
    vectors: tuple[Array, Array]

    @property
    def seen(self) -> int:
        """How many spikes are measured."""
        return round(float(self.measured.outliers.mean))


@dataclass(frozen=True)
class Spectra:
    """The windows, and three looks beside window 3: a larger n in theory, a step on n samples, its largest label."""

    windows: list[Window]
    larger: int
    noisy: MeasuredSpectrum
    remembered: Estimate


def measure(size: SimpleNamespace, progress: Progress) -> Spectra:
    """Measure and predict the spectrum in each window, and read the leading left singular vectors."""
    windows, alphas = [], [ALPHAS[ell] for ell in size.windows]
    along = measure_spectrum_along(
        spiked_problem(size.n, constant=CONSTANT), alphas, size.seeds, count=5, device=size.device
    )
    for ell, measured in zip(size.windows, along, strict=True):
        problem = measured.problem
        plain = spectrum(spiked_problem(size.n, exponent=ALPHAS[ell]), density=False).outliers
        vectors = leading_vectors(problem, 0, max(round(float(measured.outliers.mean)), 1), device=size.device)
        windows.append(Window(ell, measured, spectrum(problem), plain, vectors))
        progress(len(windows) / (len(size.windows) + 0.5))
    last: dict[str, Any] = {"constant": CONSTANT, "exponent": ALPHAS[3]}
    larger = spectrum(spiked_problem(100_000, **last), density=False).outliers
    few = spiked_problem(size.n, step_samples=1, **last)
    noisy = measure_spectrum(few, size.seeds, count=5, device=size.device)
    remembered = [largest_sample_share(few, seed, 3, device=size.device) for seed in range(min(size.seeds, 4))]
    return Spectra(windows, larger, noisy, Estimate(np.array(remembered)))


def judge(data: Spectra) -> Judgement:
    """How many spikes there are in each window, and where."""
    windows, problem = data.windows, data.windows[0].measured.problem
    among = sum(window.ell for window in windows)
    pairs = [_places(window, among) for window in windows]
    placed = [pair for window, found in zip(windows, pairs, strict=True) for pair in found[: window.seen]]
    rows = [_row(window, found) for window, found in zip(windows, pairs, strict=True)]
    counted = {w.ell: count_check(w.measured.outliers, w.ell - 0.5, w.ell + 0.5, among=len(windows)) for w in windows}
    last = rows[-1]
    spikes = ", ".join(
        f"{last[f'eigenvalue_{k}']:.3g} ± {last[f'stderr_{k}']:.1g}"
        + (f" (theory {last[f'theory_{k}']:.3g})" if last[f"theory_{k}"] is not None else " (theory: in the bulk)")
        for k in (1, 2, 3)
    )
    shares = ", ".join(f"{last[f'on_functions_{k}']:.2f}" for k in (1, 2, 3))
    keys = ("alpha", "spikes_measured", "spikes_theory", "spikes_limit", "spikes_theory_c1")
    counts = {key: ", ".join(f"{row[key]:.3g}" for row in rows) for key in keys}
    return Judgement(
        words=_words(counted, placed),
        finding=(
            f"n = {problem.n}, c = {CONSTANT:g}, α = {counts['alpha']}: {counts['spikes_measured']} spikes measured, {counts['spikes_theory']} by the "
            f"theory at this n, {counts['spikes_limit']} in the limit. In window 3 the leading eigenvalues are {spikes}; the bulk ends at "
            f"{last['edge_theory']:.3g}. Within {POSITION_TOLERANCE:.0%} of the theory's places: {tally(placed)}. "
            f"The distribution functions of bulk and prediction differ by at most {max(row['bulk_distance'] for row in rows):.3f}. The share of "
            f"the three leading vectors of window 3 that is a function of X̃β is {shares}. "
            f"With c = 1 the theory sees {counts['spikes_theory_c1']} spikes at this n."
        ),
        surprise=_prefactor_and_noise(data, last),
        rows=rows,
    )


def _places(window: Window, among: int) -> list[Pair]:
    """The leading eigenvalues beside the theory's spikes, three at most."""
    spikes = range(min(3, window.theory.outliers))
    measured, theory = window.measured.leading, window.theory.leading
    return [agree(float(theory[k]), measured[k], POSITION_TOLERANCE, among=among) for k in spikes]


def _row(window: Window, places: list[Pair]) -> dict[str, Any]:
    m, t = window.measured, window.theory
    row = {"window": window.ell, "alpha": ALPHAS[window.ell], "spikes_limit": window.ell}
    row |= {"spikes_measured": float(m.outliers.mean), "spikes_stderr": float(m.outliers.stderr)}
    row |= {"spikes_theory": t.outliers, "edge_theory": t.edge, "spikes_theory_c1": window.spikes_c1}
    row |= {"bulk_distance": bulk_distance(m, t)}
    for k in range(3):
        row |= {f"eigenvalue_{k + 1}": float(m.leading.mean[k]), f"stderr_{k + 1}": float(m.leading.stderr[k])}
        row |= {f"theory_{k + 1}": places[k].predicted if k < len(places) else None}
        row |= {f"on_functions_{k + 1}": float(m.on_direction.mean[k])}
    return row


def _words(counts: dict[int, Check], placed: list[Pair]) -> str:
    """`counts`: window ℓ → is the number of spikes ℓ? `placed`: is each spike where the finite-n theory puts it?"""
    wrong = [ell for ell, found in counts.items() if found.differs]
    if wrong:
        return f"{NOT_YET}: wrong number of spikes in window {', '.join(map(str, wrong))}"
    if together(counts.values()) is Agreement.UNDECIDED:
        return f"{UNDECIDED}: {seeds_words(counts.values())}"
    within = (
        f"; whether within {POSITION_TOLERANCE:.0%} of where theory puts them is {UNDECIDED}: {seeds_words(placed)}"
    )
    where = spoken(together(placed), "", ", but spikes are not where theory puts them", within)
    return f"{HOLDS} at this n and c{where}"


def _prefactor_and_noise(data: Spectra, last: dict[str, Any]) -> str:
    """What another prefactor, a larger n and a step on fewer samples do to window 3."""
    noisy, remembered = data.noisy, data.remembered
    left, right = noisy.outliers, f"{last['spikes_measured']:.2g} ± {last['spikes_stderr']:.1g}"
    return (
        f"Windows do not count spikes by themselves: in window 3 the theory sees {last['spikes_theory_c1']} with c = 1 at this n, and {data.larger} with c = {CONSTANT:g} at "
        f"n = 10⁵. When the step sees n samples, {left.mean:.2g} ± {left.stderr:.1g} spikes are measured there, with {STEP_SAMPLES}n {right}; of "
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


def draw(data: Spectra) -> Figure:
    """For each window the eigenvalues and the leading vectors."""
    panels = [panel for window in data.windows for panel in (_histogram(window), _vectors(window))]
    measured = data.windows[0].measured
    caption = (
        f"σ(z) = erf(z + ½), centred; teacher H₁ + H₂/√2, no noise, n = {measured.problem.n}, d = N = n/2, η = {CONSTANT:g}·n^α, labels-only gradient on {STEP_SAMPLES}n samples. Left: "
        f"eigenvalues of FFᵀ/n of {len(measured.seeds)} seeds (histogram), bulk density of the profile theory (line), spikes measured (points, means over "
        f"seeds) and predicted (vertical lines, with the dominant degree). Right: √n times the leading left singular vectors of one draw ({min(DOTS, measured.problem.n)} of its samples) against "
        "X̃β/|β|, and the polynomials of degree 5 through them."
    )
    counts = [w.measured.outliers.mean for w in data.windows]
    title = f"Spikes measured in windows {', '.join(str(w.ell) for w in data.windows)}: " + ", ".join(
        f"{c:.3g}" for c in counts
    )
    said = ", ".join(str(w.theory.outliers) for w in data.windows)
    return Figure(panels, caption, title=f"{title}; predicted at n = {measured.problem.n}: {said}")


def _histogram(window: Window) -> Panel:
    """Density per unit of log eigenvalue, E·ρ(E), so that equal areas are equal shares of the spectrum."""
    m, t = window.measured, window.theory
    assert t.trained is not None
    values, edge = m.eigenvalues.values, 1.02 * t.edge
    bulk = values[(values > 1e-9) & (values < edge)]
    heights, edges = np.histogram(np.log(bulk), bins=45)
    density = heights / (values.shape[0] * m.problem.n) / np.diff(edges)
    series = [
        Series("measured", np.exp(edges), density, kind="histogram"),
        Series("predicted bulk", t.trained.grid, t.trained.grid * t.trained.density),
    ]
    if window.seen:
        at = np.full(window.seen, 0.06 * density.max())
        series.append(Series("measured spikes", m.leading.mean[: window.seen], at, kind="simulation", colour=1))
    lines = [(float(x), f"k = {k}" if k else "const.") for x, k in zip(t.leading, t.degrees, strict=True)]
    limits = float(np.exp(edges[0])), 500.0
    title, label = f"ℓ = {window.ell}: α = {m.problem.step.exponent:g}", "density per log eigenvalue"
    return Panel(title, "eigenvalue of FFᵀ/n", label, series, logx=True, verticals=lines, xlim=limits)


def _vectors(window: Window) -> Panel:
    z, vectors = window.vectors
    line = np.linspace(-2.6, 2.6, 131)
    dots, curves = [], []
    for k in range(vectors.shape[1]):
        u = np.sqrt(z.size) * vectors[:, k]
        fit = np.polynomial.Polynomial.fit(z, u, 5)
        sign = 1.0 if fit(2.5) > 0 else -1.0
        dots.append(Series("", z[:DOTS], sign * u[:DOTS], kind="scatter", colour=k + 1))
        curves.append(Series(f"u{'₁₂₃₄₅'[k]}", line, sign * fit(line), colour=k + 1))
    title = f"ℓ = {window.ell}: leading vectors"
    x, y = (np.concatenate([np.ravel(getattr(s, axis)) for s in dots]) for axis in ("x", "y"))
    wide = max(3.5, 1.05 * float(np.abs(x).max()))  # no dot is cut off
    limits = min(-4.0, 1.05 * float(y.min())), max(5.0, 1.05 * float(y.max()))
    return Panel(title, "X̃β/|β|", "√n u", (*dots, *curves), xlim=(-wide, wide), ylim=limits)
