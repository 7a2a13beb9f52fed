"""`beyond-half`: steps larger than √n, α from 1/2 to 1, where there is no theory of n → ∞: errors, alignment and spectrum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from onestride._numerics import Array
from onestride.comparison import GAIN_FLOOR, Check, check
from onestride.experiments.kit import EXPONENT, best_linear, pm, points, problem_at
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.verdict import FAILS, PARTLY, decide
from onestride.plot import Panel
from onestride.problem import Problem
from onestride.result import Estimate, PredictionGrid, Status, TheoryError, theory_series
from onestride.simulation.run import simulate_grid
from onestride.simulation.spectrum import measure_spectrum
from onestride.theory.predict import predict_grid
from onestride.theory.spectrum import spectrum

CLAIM = (
    "Open. The paper stops at α = 1/2, where the step is as large as the initial weights; beyond it the gradient's own noise "
    "exceeds them, so nothing more should be gained."
)
SIZES = {
    "ns": ((60, 120), (300, 600), (1000, 2000)),
    "seeds": (4, 10, 10),
    "alphas": ((0.3, 0.5, 0.75, 1.0), *[tuple(np.linspace(0.3, 1, 15))] * 2),
    "theory": ((0.3, 0.5, 0.75, 1.0), *[tuple(np.linspace(0.3, 1, 29))] * 2),  # exponents, those above among them
    "spectra": ((0.4, 0.8), *[(0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)] * 2),
}
ACTIVATIONS = ("relu", "tanh")
RIDGES = np.geomspace(1e-2, 1e5, 15)
FIXED = 2  # index of λ = 0.1
HALF = [(0.5, "1/2")]
DEGREES = {"H₁": 1, "H₂": 2}


@dataclass(frozen=True)
class Beyond:
    """Test errors against exponents and penalties, theory of this n, and spectra of the ReLU features at the largest n."""

    n: int  # the largest
    alphas: Array
    errors: dict[tuple[str, int], Estimate]  # by activation and n: seeds × exponents × RIDGES
    theory: dict[str, PredictionGrid]  # exponents × RIDGES
    spectra: Sequence[float]  # exponents of the spectra
    held: dict[str, list[Estimate]]  # the part of H_k(X̃β⋆) in the span of the two leading left singular vectors
    held_theory: dict[str, list[float]]  # at the exponents of the theory
    held_status: list[Status]  # of these
    shares: list[Estimate]  # the leading squared singular values as parts of ‖F‖²


def measure(size: SimpleNamespace, progress: Progress) -> Beyond:
    """Test error at a fixed and at the best penalty, then the leading singular values and vectors, against α."""
    alphas, n = np.array(size.alphas), size.ns[-1]
    errors, theory = {}, {}
    for activation in ACTIVATIONS:
        for m in size.ns:
            errors[activation, m] = simulate_grid(
                problem_of(m, activation), alphas, RIDGES, size.seeds, untrained=False, device=size.device
            ).test_error
        theory[activation] = predict_grid(problem_of(n, activation), size.theory, RIDGES)
        progress(len(theory) / 3)
    relu = [problem_of(n, "relu").at(exponent=a) for a in size.spectra]
    spectra = [measure_spectrum(p, max(3, size.seeds // 2), count=3, device=size.device) for p in relu]
    known, status = zip(*(_overlaps(relu[0].at(exponent=float(a))) for a in size.theory), strict=True)
    held = {h: [Estimate(m.teacher_overlaps.values[:, :2, k].sum(1)) for m in spectra] for h, k in DEGREES.items()}
    expected = {h: [float(overlaps[:2, k].sum()) for overlaps in known] for h, k in DEGREES.items()}
    shares = [Estimate(m.leading.values / m.eigenvalues.values.sum(1, keepdims=True)) for m in spectra]
    return Beyond(n, alphas, errors, theory, size.spectra, held, expected, list(status), shares)


def _overlaps(problem: Problem) -> tuple[Array, Status]:
    """Of the leading vectors with the teacher's degrees in theory, and its status; NaN where it has none."""
    try:
        found = spectrum(problem, density=False)
    except TheoryError:
        return np.full((2, max(DEGREES.values()) + 1), np.nan), Status.NOT_CONVERGED
    return found.teacher_overlaps, found.status


def problem_of(n: int, activation: str) -> Problem:
    """At λ = 0.1, with a step of size 1."""
    return problem_at(n, activation=activation, ridge=RIDGES[FIXED])


def judge(data: Beyond) -> Judgement:
    """Does the error at the best penalty fall beyond 1/2, and what becomes of the one at a fixed penalty?"""
    changes = {key: further(data.alphas, _tuned(values)) for key, values in data.errors.items()}
    told = [
        f"{a}, n = {n}: {_change(gain)} at α = {where:.2g} than at 1/2" for (a, n), (where, gain, _) in changes.items()
    ]
    rows = [row for key in data.errors for row in _rows(data, *key)]
    relu, tanh = (_rows(data, activation, data.n)[-1] for activation in ACTIVATIONS)
    seeds = len(next(iter(data.errors.values())).values)
    return Judgement(
        words=words([more_is_gained(changes[a, data.n], len(ACTIVATIONS)) for a in ACTIVATIONS]),
        finding=(
            f"At its best penalty the smallest test error beyond 1/2 is ({seeds} seeds, paired; {GAIN_FLOOR:.0%} of the error counts as nothing) "
            f"{'; '.join(told)}. At λ = 0.1 and α = 1 it is {relu['λ = 0.1']:.2f} ± {relu['stderr']:.1g} for relu, whose features grow with η "
            f"(best λ there {relu['best λ']:.3g}), and {tanh['λ = 0.1']:.2f} ± "
            f"{tanh['stderr']:.1g} for tanh, which saturates. {_leading(data)} "
            f"{' '.join(_beside_theory(data, activation) for activation in ACTIVATIONS)}"
        ),
        surprise=f"{_through_half(data)} {_undone(relu, tanh)}",
        rows=rows,
    )


def words(nothing: list[Check]) -> str:
    """Holds when no activation gains anything beyond 1/2, in part when only some are shown to gain."""
    more = sum(found.differs for found in nothing)
    some = f"{FAILS}: larger steps still gain" if more == len(nothing) else f"{PARTLY}: some activations still gain"
    return decide(nothing, fails=some)


def _tuned(values: Estimate) -> Estimate:
    """Errors (seeds × exponents) at the penalty whose mean is smallest, exponent by exponent."""
    return Estimate(np.stack([values.values[:, i, j] for i, j in enumerate(values.mean.argmin(1))], axis=1))


def further(alphas: np.ndarray, errors: Estimate) -> tuple[float, Estimate, float]:
    """The best exponent above 1/2, the (paired) fall of the error from 1/2 to it, and the error at 1/2."""
    half = int(np.argmin(np.abs(alphas - 0.5)))
    beyond = half + 1 + int(np.argmin(errors.mean[half + 1 :]))
    return float(alphas[beyond]), errors[half] - errors[beyond], float(errors.mean[half])


def more_is_gained(change: tuple[float, Estimate, float], among: int) -> Check:
    """Is the further gain of `further` nothing, at most GAIN_FLOOR of the error at 1/2?"""
    _, gain, error = change
    return check(gain, high=GAIN_FLOOR * error, among=among)


def _rows(data: Beyond, activation: str, n: int) -> list[dict[str, Any]]:
    values = data.errors[activation, n]
    fixed, tuned, best = values[:, FIXED], _tuned(values), values.mean.argmin(1)
    return [
        {
            "activation": activation,
            "n": n,
            "alpha": float(alpha),
            "λ = 0.1": float(fixed.mean[i]),
            "stderr": float(fixed.stderr[i]),
            "best λ": float(RIDGES[best[i]]),
            "at best λ": float(tuned.mean[i]),
            "stderr at best": float(tuned.stderr[i]),
        }
        for i, alpha in enumerate(data.alphas)
    ]


def _leading(data: Beyond) -> str:
    """What the two leading vectors hold at both ends, and carry at the last."""
    first, *_, last = data.spectra
    held, share = data.held["H₁"], data.shares[-1]
    return (
        f"For relu the two leading left singular vectors together hold {pm(held[0])} of X̃β⋆ at α = {first:g} and {pm(held[-1])} at "
        f"α = {last:g}, where they carry {pm(Estimate(share.values[:, :2].sum(1)))} of ‖F‖² and the third {pm(share[2], 2)}."
    )


def _change(gain: Estimate) -> str:
    """A fall of the error, or a rise, as a positive number."""
    return f"{pm(gain, 2)} lower" if gain.mean >= 0 else f"{pm(Estimate(-gain.values), 2)} higher"


def _through_half(data: Beyond) -> str:
    """The error at λ = 0.1 just before, at and just after α = 1/2."""
    half = int(np.argmin(np.abs(data.alphas - 0.5)))
    near = slice(half - 1, half + 2)
    told = [
        f"{activation} " + ", ".join(f"{e:.2f}" for e in data.errors[activation, data.n].mean[near, FIXED])
        for activation in ACTIVATIONS
    ]
    return (
        f"Through α = {', '.join(f'{a:.2g}' for a in data.alphas[near])} the error at λ = 0.1 goes {'; '.join(told)}."
    )


def _beside_theory(data: Beyond, activation: str) -> str:
    """How far beyond 1/2 the theory of this n is not known to be off, and how near it is there, at λ = 0.1."""
    grid, measured = data.theory[activation], data.errors[activation, data.n][:, FIXED]
    at = [int(np.argmin(np.abs(grid.exponents - a))) for a in data.alphas]
    beyond = [
        (i, j)
        for i, j in enumerate(at)
        if data.alphas[i] > 0.5 + 1e-9 and grid.trained.status[j, FIXED] is Status.SOLVED
    ]
    count = int(np.sum(data.alphas > 0.5 + 1e-9))
    if not beyond:
        return f"For {activation} at λ = 0.1 theory marks each of its {count} errors beyond 1/2 as inaccurate."
    told = (
        f"For {activation} at λ = 0.1 theory does not mark {len(beyond)} of its {count} errors beyond 1/2 as inaccurate"
    )
    gaps = [measured.mean[i] / grid.test_error[j, FIXED] - 1 for i, j in beyond]
    worst = int(np.argmax(np.abs(gaps)))
    i, j = beyond[worst]
    return f"{told}, and the simulation is at most {gaps[worst]:+.1%} ± {measured.stderr[i] / grid.test_error[j, FIXED]:.1%} from these (α = {data.alphas[i]:.2g})."


def _undone(*ends: dict[str, Any]) -> str:
    """What a penalty that may grow with F undoes of the harm at the largest step."""
    told = [
        f"{r['activation']} {r['at best λ']:.2f} ± {r['stderr at best']:.1g} at λ = {r['best λ']:.3g} instead of {r['λ = 0.1']:.2f}"
        for r in ends
    ]
    return f"At α = {ends[0]['alpha']:g} the best penalty brings the error to: {'; '.join(told)}."


def _best(grid: PredictionGrid) -> tuple[Array, Array]:
    """The smallest predicted error of every exponent, and its status."""
    errors = np.where(np.isfinite(grid.test_error), grid.test_error, np.inf)
    best = np.arange(len(errors)), errors.argmin(1)
    return np.where(np.isfinite(errors[best]), errors[best], np.nan), grid.trained.status[best]


def draw(data: Beyond) -> Figure:
    """Errors of both activations, and what the leading vectors of the ReLU features hold and carry, against α."""
    n, panels, overlap, alphas = data.n, [], [], data.spectra
    for activation in ACTIVATIONS:
        values, theory = data.errors[activation, n], data.theory[activation]
        series = (
            *theory_series(
                "theory, λ = 0.1", theory.exponents, theory.test_error[:, FIXED], theory.trained.status[:, FIXED]
            ),
            *theory_series("theory, best λ", theory.exponents, *_best(theory), colour=1),
            points("simulation, λ = 0.1", data.alphas, values[:, FIXED]),
            points("simulation, best λ", data.alphas, _tuned(values), colour=1),
        )
        lines = best_linear(problem_of(n, activation))
        panels.append(
            Panel(
                f"{activation}, n = {n}", EXPONENT, "test error", series, logy=True, verticals=HALF, horizontals=lines
            )
        )
    for k, (name, line) in enumerate(data.held_theory.items()):
        overlap += theory_series(f"theory, {name}", data.theory["relu"].exponents, line, data.held_status, k + 2)
        overlap.append(points(f"simulation, {name}", alphas, data.held[name], colour=k + 2))
    spread = [points(f"singular value {j + 1}", alphas, [s[j] for s in data.shares], colour=j + 4) for j in range(3)]
    title = f"relu, teacher in the two leading vectors, n = {n}"
    panels.append(Panel(title, EXPONENT, "squared projection", overlap, verticals=HALF))
    panels.append(Panel(f"relu, share of ‖F‖², n = {n}", EXPONENT, "s²/‖F‖²", spread, verticals=HALF))
    seeds = [len(found.values) for found in (data.errors[ACTIVATIONS[0], n], data.shares[0])]
    caption = (
        f"ReLU and tanh, teacher H₁ + H₂/√2, noise 0.5, d = n/2, N = 3n/2, η = n^α, literal gradient, {seeds[0]} seeds (spectra: "
        f"{seeds[1]}), mean ± standard error. Best λ: the smallest mean error on a grid of {RIDGES.size} from 0.01 to 10⁵. Theory "
        "of this n."
    )
    changes = {a: further(data.alphas, _tuned(data.errors[a, n])) for a in ACTIVATIONS}
    title = f"Beyond α = 1/2, at the best λ and n = {n}, the smallest test error is " + " and ".join(
        f"{_change(gain)} than at 1/2 ({a}, α = {where:.2g})" for a, (where, gain, _) in changes.items()
    )
    return Figure(panels, caption, title=title)
