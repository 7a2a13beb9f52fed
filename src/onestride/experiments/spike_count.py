"""`spike-count`: how many eigenvalues of FFᵀ/n have left the bulk, over α and n, and how the prefactor moves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np

from onestride._numerics import Array
from onestride.comparison import Check, check, seeds_words
from onestride.experiments.kit import EXPONENT, THRESHOLDS, mean_of, number, spiked_problem
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.verdict import FAILS, HOLDS, UNDECIDED
from onestride.plot import Panel, Series
from onestride.problem import Problem
from onestride.result import Estimate
from onestride.simulation.spectrum import measure_spectrum_along
from onestride.theory.outliers import find_outliers, real_path, special_eigenvalues, spike_model

CLAIM = "ℓ of them for (ℓ−1)/(2ℓ) < α < ℓ/(2ℓ+2), whatever the prefactor c (those k with c_k ≠ 0)."
SIZES = {
    "ns": ((150, 300), (200, 400, 800, 1600), (500, 1000, 2000, 4000)),
    "seeds": (2, 3, 6),
    "alphas": ((0.1, 0.4), (0, 0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5), np.linspace(0, 0.5, 11).tolist()),
    "far": (6, 14, 20),  # how many n up to 10⁹ beside those simulated
}
LIMITS = (0.0, 0.25, 1 / 3)  # where spikes 1, 2, 3 appear as n → ∞
ACTIVATIONS = {"relu": ("ReLU", 2), "shifted_erf": ("erf(z + ½)", 3)}  # name: label, highest spike followed
FOLLOWED = [(activation, k) for activation, (_, spikes) in ACTIVATIONS.items() for k in range(spikes)]
CONSTANT, PREFACTORS = 2.0, (1.0, 2.0, 4.0)
MATCHING = 0.8  # share of draws in which simulation counts what the theory does
ON_DIRECTION = 0.5  # a spike is a function of X̃β by more than this


@dataclass(frozen=True)
class Cell:
    """One activation, n and α: spikes counted and predicted."""

    activation: str
    n: int
    alpha: float
    measured: Estimate
    theory: int


@dataclass(frozen=True)
class Counts:
    """Cells simulated, and for each activation the η at which the theory sees each next spike, at the sizes `far`."""

    cells: list[Cell]
    far: Array
    boundaries: dict[str, Array]  # axes (far, spikes)

    @property
    def ns(self) -> list[int]:
        """The sample sizes simulated."""
        return sorted({cell.n for cell in self.cells})

    @property
    def seeds(self) -> int:
        """How many in each cell."""
        return self.cells[0].measured.values.size

    def exponents(self, activation: str, constant: float) -> Array:
        """α of η = c·n^α on the boundaries."""
        return np.log(self.boundaries[activation] / constant) / np.log(self.far)[:, None]

    def eta(self, activation: str, k: int, n: int) -> float:
        """The boundary of spike k + 1 at a size between those of `far`."""
        return float(np.exp(np.interp(np.log(n), np.log(self.far), np.log(self.boundaries[activation][:, k]))))


def measure(size: SimpleNamespace, progress: Progress) -> Counts:
    """Follow the boundaries with the theory to large n; count spikes in simulations where they can be run."""
    far = np.unique([*map(float, size.ns), *np.geomspace(size.ns[0], 1e9, size.far).round()])
    cells, boundaries = [], {}
    done, total = 0, len(ACTIVATIONS) * (len(far) + len(size.ns) * 2)
    for activation, (_, spikes) in ACTIVATIONS.items():
        boundaries[activation] = np.stack([_boundaries(activation, far, k) for k in range(1, spikes + 1)], axis=1)
        done += len(far)
        progress(done / total)
        for n in size.ns:
            start = spiked_problem(n, activation=activation, constant=CONSTANT)
            along = measure_spectrum_along(start, size.alphas, size.seeds, count=6, device=size.device)
            for alpha, found in zip(size.alphas, along, strict=True):
                said = int((find_outliers(found.problem, nodes=17).on_direction > ON_DIRECTION).sum())
                cells.append(Cell(activation, n, float(alpha), found.outliers, said))
            done += 2
            progress(done / total)
    return Counts(cells, far, boundaries)


def the_problem(activation: str, n: int, eta: float) -> Problem:
    """Teacher H₁ + H₂/√2, d = N = n/2, the labels-only gradient on 4n samples, a step of size η."""
    return spiked_problem(n, activation=activation, constant=eta, exponent=0.0)


def _boundaries(activation: str, ns: Array, k: int) -> Array:
    """`boundary` for increasing n, each started from the one before."""
    found: list[float] = []
    for i, n in enumerate(ns):
        start = 2.0 * float(n) ** LIMITS[k - 1]
        if i and np.isfinite(found[-1]):
            start = found[-1] * float(n / ns[i - 1]) ** LIMITS[k - 1]
        found.append(boundary(activation, int(n), k, start))
    return np.array(found)


def boundary(activation: str, n: int, k: int, start: float) -> float:
    """The η near `start` at which the theory begins to see k spikes: its k-th strength is 1. NaN when there is none.

    Strengths grow nearly like η^{2k}, so Newton's method in logarithms needs two or three steps. At small n some grow
    slowly near 1, which are followed until they are there, and some have a largest value below it.
    """
    x, last = np.log(start), None
    for _ in range(10):
        strengths = strengths_at_the_edge(the_problem(activation, n, float(np.exp(x))), nodes=17)
        if strengths.size < k:  # no theory at a step this large
            return float("nan")
        y = float(np.log(strengths[k - 1]))
        grown = 2.0 * k if last is None or last[0] == x else (y - last[1]) / (x - last[0])
        if grown <= 0 and -0.5 < y < 0:
            return float("nan")
        slope = float(np.clip(grown, k / 2 if abs(y) > 0.5 else 0.3, 3 * k))
        if abs(y) < (0.2 if grown > k / 2 else 0.02):
            return float(np.exp(x - y / slope))
        last, x = (x, y), x - float(np.clip(y / slope, -1, 1))
    return float("nan")


def strengths_at_the_edge(problem: Problem, *, nodes: int) -> Array:
    """`strengths` of `find_outliers`, none where there is no theory: its places and vectors, and the gaps below, take twice as long."""
    model = spike_model(problem, "isotropic", nodes)
    path = real_path(model)
    return special_eigenvalues(model, path[-1]) if path else np.empty(0)


def judge(data: Counts) -> Judgement:
    """Counts beside theory, and where the theory's boundaries lie and tend to."""
    ns, far = data.ns, data.far
    share = Estimate(np.mean([c.measured.values == c.theory for c in data.cells], axis=0))  # one value per seed
    slopes, gaps = [], []
    for activation, k in FOLLOWED:
        x, y = np.log(far), np.log(data.boundaries[activation][:, k])
        slopes.append((float((y[-1] - y[-2]) / (x[-1] - x[-2])), LIMITS[k]))
        gaps.append(abs(float(np.interp(np.log(ns[-1]), x, y / x)) - LIMITS[k]))
    named = ", ".join(
        f"{round(e, 2) + 0.0:.2f} ({ACTIVATIONS[a][0]}, spike {k + 1})"
        for (e, _), (a, k) in zip(slopes, FOLLOWED, strict=True)
    )
    absent = [
        f"spike {k + 1} of {ACTIVATIONS[a][0]}" for gap, (a, k) in zip(gaps, FOLLOWED, strict=True) if not gap < np.inf
    ]
    far_off = f"a boundary is up to {np.nanmax(gaps):.2f} from its threshold" + (
        f", and none is known for {' and '.join(absent)}" if absent else ""
    )
    return Judgement(
        words=_words(check(share, low=MATCHING), slopes, np.inf if absent else max(gaps)),
        finding=(
            f"In {share.mean:.0%} ± {share.stderr:.0%} of {len(data.cells)} cells (n from {ns[0]} to {ns[-1]}, c = {CONSTANT:g}, {data.seeds} seeds each) the number of spikes "
            f"is that of the finite-n theory. At c = 1 the second ReLU spike {_appears(data, 'relu', 1)} (window: 0.25); "
            f"the third of erf(z + ½) {_appears(data, 'shifted_erf', 2)} (window: 0.333). At n = {ns[-1]} and c = 1 {far_off}. In the theory the "
            f"step at which a spike appears grows like n^e with e = {named} at the largest n; the windows say 0, 1/4, 1/3."
        ),
        surprise=_prefactors(data),
        rows=_rows(data),
    )


def _words(agreeing: Check, slopes: Sequence[tuple[float, float]], gap: float) -> str:
    """Words for three numbers.

    `agreeing`: is the share of cells with the count of the finite-n theory at least MATCHING? `slopes`: (e, threshold) for each
    boundary η_k ∝ n^e of the theory. `gap`: largest |α_k − threshold| at the largest n that was simulated, at c = 1.
    """
    if agreeing.differs:
        return f"{FAILS}: theory and simulation count differently"
    if not agreeing.agrees:
        return f"{UNDECIDED} whether theory and simulation count alike: {seeds_words([agreeing])}"
    if not all(abs(e - limit) <= 0.04 for e, limit in slopes):
        return f"{FAILS}: the boundaries do not tend to the windows"
    return f"{HOLDS} as a limit, not at this n" if gap > 0.02 else HOLDS


def _appears(data: Counts, activation: str, k: int) -> str:
    """Where the theory begins to see spike k + 1 at c = 1, at the smallest n at which it does and at the largest."""
    alphas, far = data.exponents(activation, 1.0)[:, k], [float(n) for n in data.far]
    seen = np.flatnonzero(np.isfinite(alphas))
    if not seen.size:
        return f"appears at no step from n = {number(far[0])} to {number(far[-1])}"
    first, last = seen[0], seen[-1]
    before = f"at no step for n = {number(far[first - 1])}, at" if first else "at"
    return f"appears {before} α = {alphas[first]:.2f} for n = {number(far[first])} and at {alphas[last]:.3f} for n = {number(far[last])}"


def _prefactors(data: Counts) -> str:
    """Where the boundaries lie at the largest n simulated, for the smallest and the largest prefactor, by the theory."""
    n, (few, *_, most) = data.ns[-1], PREFACTORS
    alphas = {c: [float(np.log(data.eta(a, k, n) / c) / np.log(n)) for a, k in FOLLOWED] for c in (few, most)}
    early = {c: sum(a < LIMITS[k] for a, (_, k) in zip(at, FOLLOWED, strict=True)) for c, at in alphas.items()}
    known = sum(map(np.isfinite, alphas[few]))
    width, shift = LIMITS[2] - LIMITS[1], float(np.log(most / few) / np.log(n))
    return (
        f"The prefactor does not drop out at n = {n}: from c = {few:g} to c = {most:g} every boundary moves by log(c)/log(n) = {shift:.2f}, "
        f"{'more' if shift > width else 'less'} than the width of window 2 ({width:.3f}). Of the {known} spikes with a boundary there, with c = {few:g}, {early[few]} appear below their thresholds, "
        f"with c = {most:g}, {early[most]}."
    )


def _rows(data: Counts) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for cell in data.cells:
        rows.append({"activation": ACTIVATIONS[cell.activation][0], "n": cell.n, "alpha": cell.alpha, "c": CONSTANT})
        rows[-1] |= {"theory": cell.theory} | mean_of(cell.measured)
    for activation, (label, _) in ACTIVATIONS.items():
        for n, alphas in zip(data.far, data.exponents(activation, CONSTANT), strict=True):
            rows.append({"activation": label, "n": int(n), "c": CONSTANT})
            rows[-1] |= {f"alpha_spike_{k + 1}": float(a) for k, a in enumerate(alphas) if np.isfinite(a)}
    return rows


def draw(data: Counts) -> Figure:
    """Cells and boundaries over α and n, and the boundaries of other prefactors."""
    panels = [_cells(data, activation) for activation in ACTIVATIONS]
    for activation, (label, spikes) in ACTIVATIONS.items():
        series = []
        for k, c in product(range(spikes), PREFACTORS):
            kind, name = ("theory", f"spike {k + 1} appears") if c == CONSTANT else ("limit", "c = 1 and c = 4")
            at = data.exponents(activation, c)[:, k]
            series.append(Series(name, at, data.far, kind=kind, colour=k + 1))
        furthest = float(np.nanmax(data.exponents(activation, PREFACTORS[0])))
        panels.append(_panel(f"{label}: c = 4 (left), 2, 1 (right)", series, (-0.2, max(0.6, furthest + 0.02))))
    caption = (
        f"Number of eigenvalues of FFᵀ/n that left the bulk and whose vector is a function of X̃β. Top: measured (symbols, rounded mean of {data.seeds} seeds) "
        f"and, from the profile theory, where each next spike appears (lines), η = {CONSTANT:g}·n^α. Bottom: those lines for three prefactors. Teacher "
        "H₁ + H₂/√2, no noise, d = N = n/2, labels-only gradient on 4n samples. Vertical lines: thresholds (ℓ−1)/(2ℓ)."
    )
    share = np.mean([c.measured.values == c.theory for c in data.cells])
    title = (
        f"In {share:.0%} of the draws the number of spikes is that of theory at this n; at c = 1 the second of ReLU "
        f"{_appears(data, 'relu', 1)} (window: 1/4)"
    )
    return Figure(panels, caption, title=title)


def _cells(data: Counts, activation: str) -> Panel:
    """The counts of one activation beside the boundaries."""
    label, spikes = ACTIVATIONS[activation]
    lines = data.exponents(activation, CONSTANT)
    series = [Series(f"spike {k + 1} appears", lines[:, k], data.far, colour=k + 1) for k in range(spikes)]
    mine = [cell for cell in data.cells if cell.activation == activation]
    for count in range(spikes + 1):
        places = [(cell.alpha, cell.n) for cell in mine if round(float(cell.measured.mean)) == count]
        if places:
            series.append(Series(f"{count} measured", *zip(*places, strict=True), kind="simulation", colour=count))
    return _panel(f"{label}, c = {CONSTANT:g}", series, (-0.06, 0.52))


def _panel(title: str, series: Sequence[Series], xlim: tuple[float, float]) -> Panel:
    return Panel(title, EXPONENT, "n", series, logy=True, verticals=THRESHOLDS, xlim=xlim)
