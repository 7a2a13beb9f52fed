"""`linear-part`: what one step does when the activation (c₁ = 0) or the teacher (c⋆₁ = 0) has no linear part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from onestride.comparison import Check, check
from onestride.experiments.kit import QUADRATIC, exponent_panel, mean_of, paper_problem, pm, points
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.verdict import count_check, decide_each
from onestride.plot import Panel, Series
from onestride.result import Estimate, PredictionGrid, Simulation
from onestride.simulation.run import simulate_grid
from onestride.simulation.spectrum import MeasuredSpectrum, measure_spectrum
from onestride.theory.predict import predict_grid

CLAIM = "An activation with c₁ = 0 gives no spike that carries a feature; a teacher with c⋆₁ = 0 leaves the step without a gain."
SIZES = {"n": (300, 1600, 4000), "seeds": (4, 6, 8), "fine": (5, 21, 21)}
ACTIVATIONS = {"H₂/2": (0.0, 0.0, 0.5), "ReLU": "relu"}
TEACHERS = {"H₂/√2": (0.0, 0.0, 2**-0.5), "H₁ + H₂/√2": QUADRATIC}
ALPHAS = (0.15, 0.29, 0.4)
STRONG = 2.0  # the prefactor c for the spikes: at c = 1 the second of ReLU needs far larger n
NOTHING = 0.05  # this part of the gain with a linear part counts as no gain
NOISE = 0.5


@dataclass(frozen=True)
class Broken:
    """Spectra by activation at α = ALPHAS[1], and gains by teacher at every exponent with the theory."""

    spectra: dict[str, MeasuredSpectrum]
    gains: dict[str, Simulation]
    theory: dict[str, PredictionGrid]
    lines: dict[str, PredictionGrid]  # theory at exponents of its own


def measure(size: SimpleNamespace, progress: Progress) -> Broken:
    """The same draws with and without a linear part of the activation, then of the teacher."""
    spectra, gains, theory, lines = {}, {}, {}, {}
    fine = np.linspace(ALPHAS[0], ALPHAS[-1], size.fine)
    for name, activation in ACTIVATIONS.items():
        problem = paper_problem(size.n, constant=STRONG, exponent=ALPHAS[1], activation=activation)
        spectra[name] = measure_spectrum(problem, size.seeds, count=4, device=size.device)
        progress(0.2 * len(spectra))
    for name, teacher in TEACHERS.items():
        problem = paper_problem(size.n, teacher=teacher, noise=NOISE)
        gains[name] = simulate_grid(problem, ALPHAS, [problem.ridge], size.seeds, device=size.device)
        theory[name], lines[name] = (predict_grid(problem, a, [problem.ridge]) for a in (ALPHAS, fine))
        progress(0.4 + 0.3 * len(gains))
    return Broken(spectra, gains, theory, lines)


def judge(data: Broken) -> Judgement:
    """Spikes that carry a feature beside those of ReLU, gains beside those with a linear part."""
    (broken, _), (without, usual) = data.spectra.values(), (run.test_gain[:, 0] for run in data.gains.values())
    spikes = {name: feature_spikes(found) for name, found in data.spectra.items()}
    n, alpha = broken.problem.n, ALPHAS[1]
    none, said = spikes["H₂/2"], [f"{pm(without[i])} and {pm(usual[i])} at α = {a:g}" for i, a in enumerate(ALPHAS)]
    grown = float(broken.leading.mean[0] / broken.untrained_edge.mean)
    return Judgement(
        words=_words([count_check(none, -0.5, 0.5)], _gain_checks(without, usual)),
        finding=(
            f"σ = H₂/2 at n = {n}, α = {alpha:g}, c = {STRONG:g}: {none.mean:.2g} eigenvalues leave the bulk with a vector that "
            f"varies with X̃β, against {spikes['ReLU'].mean:.2g} for ReLU on the same draws. Test gain of one step with noise {NOISE:g} for the teachers "
            f"{' and '.join(TEACHERS)}: {'; '.join(said)} ({len(without.values)} seeds). {NOTHING:.0%} of the second counts as no gain."
        ),
        surprise=(
            f"With c₁ = 0 the largest eigenvalue is {grown:.2g} times the untrained edge all the same; the squared overlap of its vector with the constant one is "
            f"{pm(broken.overlaps[0, 0])}: the step changes the lengths of the rows of W and so the means of the features. With c⋆₁ = 0 the gain is "
            f"{pm(without[len(ALPHAS) - 1])} at α = {ALPHAS[-1]:g}; a negative one is the cost of a step in a random direction."
        ),
        rows=_rows(data),
    )


def _rows(data: Broken) -> list[dict]:
    n, rows = next(iter(data.spectra.values())).problem.n, []

    def add(case: str, quantity: str, alpha: float, found: Estimate, theory: float | None = None) -> None:
        row = {"case": case, "n": n, "alpha": alpha, "quantity": quantity, "theory": theory}
        rows.append(row | mean_of(found))

    for name, found in data.spectra.items():
        add(f"activation {name}", "spikes that carry a feature", ALPHAS[1], feature_spikes(found))
        add(f"activation {name}", "squared overlap of u₁ with the constant", ALPHAS[1], found.overlaps[0, 0])
    for name, run in data.gains.items():
        for i, alpha in enumerate(ALPHAS):
            theory = float(data.theory[name].test_gain[i, 0])
            add(f"teacher {name}", "test gain", alpha, run.test_gain[i, 0], theory if np.isfinite(theory) else None)
    return rows


def feature_spikes(m: MeasuredSpectrum) -> Estimate:
    """Leading eigenvalues above the untrained spectrum with more than a quarter of the vector on non-constant functions of X̃β."""
    above = m.leading.values > m.untrained_eigenvalues.values[:, -1:]
    varying = m.on_direction.values - m.overlaps.values[:, :, 0]
    return Estimate((above & (varying > 0.25)).sum(1).astype(float))


def _gain_checks(without: Estimate, usual: Estimate) -> list[Check]:
    """At each exponent: is the gain at most NOTHING of that with a linear part?"""
    return [check(without[i], high=NOTHING * float(usual[i].mean), among=len(ALPHAS)) for i in range(len(ALPHAS))]


def _words(spikes: Sequence[Check], gains: Sequence[Check]) -> str:
    """`spikes`: are there none with c₁ = 0? `gains`: is there none with c⋆₁ = 0?"""
    return decide_each({"c₁ = 0": spikes, "c⋆₁ = 0": gains})


def draw(data: Broken) -> Figure:
    """The eigenvalues of both activations, and the gains of both teachers against α."""
    panels = [_eigenvalues(name, found) for name, found in data.spectra.items()]
    series = []
    for i, name in enumerate(TEACHERS):
        series += [
            points(f"simulation, {name}", ALPHAS, data.gains[name].test_gain, colour=i),
            Series(f"theory, {name}", data.lines[name].exponents, data.lines[name].test_gain[:, 0], colour=i),
        ]
    panels.append(exponent_panel("gain by teacher, paired", "fall of the test error", series, [(0.0, "no gain")]))
    run = next(iter(data.spectra.values()))
    caption = (
        f"Left and middle: eigenvalues of FFᵀ/n of {len(run.seeds)} seeds (histogram), the leading ones (points, mean) and the largest without the step "
        f"(vertical line), α = {ALPHAS[1]:g}, c = {STRONG:g}, no noise. Right: fall of the test error with ReLU, c = 1, noise {NOISE:g}: simulation (mean ± standard error) and "
        f"profile theory (lines). n = {run.problem.n}, d = n/2, N = 3n/2, λ = 0.1, labels-only gradient; vertical lines on the right: thresholds (ℓ−1)/(2ℓ)."
    )
    spikes = [feature_spikes(found).mean for found in data.spectra.values()]
    gains = [run.test_gain[len(ALPHAS) - 1, 0] for run in data.gains.values()]
    title = (
        f"c₁ = 0: {spikes[0]:.2g} spikes that carry a feature, {spikes[1]:.2g} for ReLU; c⋆₁ = 0: gain {pm(gains[0], 2)} at "
        f"α = {ALPHAS[-1]:g}, {pm(gains[1], 2)} with a linear part"
    )
    return Figure(panels, caption, columns=3, title=title)


def _eigenvalues(name: str, found: MeasuredSpectrum) -> Panel:
    """Share of all eigenvalues per bin, on a logarithmic axis."""
    values, edge = found.eigenvalues.values, float(found.untrained_edge.mean)
    edges = np.geomspace(0.02 * edge, 1.2 * float(values.max()), 50)
    shares = np.histogram(values, edges)[0] / values.size
    series = [
        Series("eigenvalues", edges, shares, kind="histogram"),
        Series("leading", found.leading.mean, np.full(4, 0.05 * shares.max()), kind="simulation", colour=2),
    ]
    lines = [(edge, "edge without the step")]
    return Panel(f"σ = {name}", "eigenvalue of FFᵀ/n", "share", series, logx=True, verticals=lines)
