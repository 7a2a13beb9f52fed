"""`beyond-half`: steps larger than √n, α from 1/2 to 1, where there is no theory: errors, alignment and spectrum."""

from __future__ import annotations

from typing import Any

import numpy as np

from onestride.compare import GAIN_FLOOR, Check, check
from onestride.experiments.claim import FAILS, PARTLY, decide, pm
from onestride.experiments.outcome import Outcome, Settings
from onestride.plot import Panel, Series
from onestride.problem import Problem, Step
from onestride.result import Estimate
from onestride.simulation.run import simulate_grid
from onestride.simulation.spectrum import MeasuredSpectrum, measure_spectrum
from onestride.theory.assumptions import failed_assumption
from onestride.theory.baselines import baselines
from onestride.theory.predict import predict_grid
from onestride.theory.spectrum import spectrum

ACTIVATIONS = ("relu", "tanh")
RIDGES = np.geomspace(1e-2, 1e5, 15)
FIXED = 2  # index of λ = 0.1
HALF = [(0.5, "1/2")]


def run(settings: Settings) -> Outcome:
    """Test error at a fixed and at the best penalty, then the leading singular values and vectors, against α."""
    ns, seeds = settings.pick((60, 120), (300, 600), (1000, 2000)), settings.seed_count(4, 10, 10)
    alphas = np.array(settings.pick((0.3, 0.5, 0.75, 1.0), np.linspace(0.3, 1, 15), np.linspace(0.3, 1, 15)))
    below = np.linspace(0.3, 0.5, settings.pick(3, 9, 9))
    rows: list[dict[str, Any]] = []
    panels = []
    changes: dict[tuple[str, int], tuple[float, Estimate, float]] = {}
    for k, activation in enumerate(ACTIVATIONS):
        runs = {
            n: simulate_grid(_problem(n, activation), alphas, RIDGES, seeds, untrained=False).test_error for n in ns
        }
        for n, values in runs.items():
            best, tuned = values.mean.argmin(1), _tuned(values)
            changes[activation, n] = further(alphas, tuned)
            for i, alpha in enumerate(alphas):
                row = {"activation": activation, "n": n, "alpha": float(alpha), "λ = 0.1": float(values.mean[i, FIXED])}
                row |= {"stderr": float(values.stderr[i, FIXED]), "best λ": float(RIDGES[best[i]])}
                rows.append(row | {"at best λ": float(tuned.mean[i]), "stderr at best": float(tuned.stderr[i])})
        problem, fixed, tuned = _problem(ns[-1], activation), runs[ns[-1]][:, FIXED], _tuned(runs[ns[-1]])
        theory = predict_grid(problem, below, RIDGES).test_error
        panels.append(
            Panel(
                f"{activation}, n = {ns[-1]}",
                "α = log η / log n",
                "test error",
                (
                    Series("theory, λ = 0.1", below, theory[:, FIXED]),
                    Series("theory, best λ", below, theory.min(1), colour=1),
                    Series("simulation, λ = 0.1", alphas, fixed.mean, fixed.stderr, "simulation"),
                    Series("simulation, best λ", alphas, tuned.mean, tuned.stderr, "simulation", 1),
                ),
                verticals=HALF,
                horizontals=[(baselines(problem)["best-linear"].test_error, "best linear predictor")],
            )
        )
        settings.progress((k + 1) / 3)
    spectra, leading = _spectra(settings, ns[-1], rows)
    told = failed_assumption(_problem(ns[-1], "relu").at(exponent=0.75))
    words = [
        f"{a}, n = {n}: {pm(gain, 2)} lower at α = {where:.2g} than at 1/2"
        for (a, n), (where, gain, _) in changes.items()
    ]
    worst = {a: next(r for r in reversed(rows) if r.get("activation") == a and r["n"] == ns[-1]) for a in ACTIVATIONS}
    return Outcome(
        name="beyond-half",
        question="What happens when the step is larger than √n?",
        claim=(
            "Open. Theory stops at α = 1/2, where the step is as large as the initial weights; beyond it the gradient's own noise "
            "exceeds them, so nothing more should be gained."
        ),
        verdict=judge([more_is_gained(changes[a, ns[-1]], len(ACTIVATIONS)) for a in ACTIVATIONS]),
        finding=(
            f"At its best penalty the smallest test error beyond 1/2 is ({seeds} seeds, paired; {GAIN_FLOOR:.0%} of the error counts as nothing) "
            + "; ".join(words)
            + f". At λ = 0.1 and α = 1 it is {worst['relu']['λ = 0.1']:.2f} ± {worst['relu']['stderr']:.1g} for relu, whose features grow with η "
            f"so that λ no longer acts (best λ there {worst['relu']['best λ']:.0f}), and {worst['tanh']['λ = 0.1']:.2f} ± "
            f"{worst['tanh']['stderr']:.1g} for tanh, which saturates. {leading} Theory says: “{told}”."
        ),
        surprise=f"{_through_half(rows, ns[-1], alphas)} {_undone(rows, ns[-1])}",
        rows=rows,
        panels=(*panels, *spectra),
        caption=(
            f"ReLU and tanh, teacher H₁ + H₂/√2, noise 0.5, d = n/2, N = 3n/2, η = n^α, literal gradient, {seeds} seeds (spectra: "
            f"{max(3, seeds // 2)}), mean ± standard error. Best λ: the smallest mean error on a grid of {RIDGES.size} from 0.01 to 10⁵. Theory "
            "is drawn where it exists, α ≤ 1/2."
        ),
    )


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


def _rows_of(rows: list[dict[str, Any]], activation: str, n: int) -> list[dict[str, Any]]:
    return [r for r in rows if (r["activation"], r["n"]) == (activation, n)]


def _through_half(rows: list[dict[str, Any]], n: int, alphas: np.ndarray) -> str:
    """The error at λ = 0.1 just before, at and just after α = 1/2."""
    half = int(np.argmin(np.abs(alphas - 0.5)))
    told = []
    for activation in ACTIVATIONS:
        near = _rows_of(rows, activation, n)[half - 1 : half + 2]
        told.append(f"{activation} " + ", ".join(f"{r['λ = 0.1']:.2f}" for r in near))
    return f"Through α = {', '.join(f'{a:.2g}' for a in alphas[half - 1 : half + 2])} the error at λ = 0.1 goes {'; '.join(told)}."


def _undone(rows: list[dict[str, Any]], n: int) -> str:
    """What a penalty that may grow with F undoes of the harm at the largest step."""
    told = []
    rows_at_end = [_rows_of(rows, activation, n)[-1] for activation in ACTIVATIONS]
    for activation, last in zip(ACTIVATIONS, rows_at_end, strict=True):
        told.append(
            f"{activation} {last['at best λ']:.2f} ± {last['stderr at best']:.1g} at λ = {last['best λ']:.2g} instead of {last['λ = 0.1']:.2f}"
        )
    return f"At α = {rows_at_end[0]['alpha']:g} the best penalty brings the error to: {'; '.join(told)}."


def _problem(n: int, activation: str) -> Problem:
    return Problem(
        n=n,
        d=n // 2,
        N=3 * n // 2,
        activation=activation,
        teacher=(0, 1, 2**-0.5),
        noise=0.5,
        ridge=RIDGES[FIXED],
        step=Step(),
    )


def _spectra(settings: Settings, n: int, rows: list[dict[str, Any]]) -> tuple[list[Panel], str]:
    """Overlaps of the two leading left singular vectors of ReLU features, and the leading shares of ‖F‖²."""
    alphas = settings.pick(
        (0.4, 0.8), (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0), (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    )
    problem, seeds = _problem(n, "relu"), max(3, settings.seed_count(4, 10, 10) // 2)
    measured = [measure_spectrum(problem.at(exponent=a), seeds, count=3) for a in alphas]
    below = [a for a in alphas if a <= 0.5]
    theory = [spectrum(problem.at(exponent=a), density=False) for a in below]
    overlap = []
    for k in (1, 2):  # the part of H_k(X̃β⋆) in the span of the two leading vectors
        line = [float(s.teacher_overlaps[:2, k].sum()) for s in theory]
        e = [Estimate(m.teacher_overlaps.values[:, :2, k].sum(1)) for m in measured]
        overlap += [Series(f"theory, H{'₁₂'[k - 1]}", below, line, colour=k - 1)]
        overlap += [
            Series(
                f"simulation, H{'₁₂'[k - 1]}", alphas, [v.mean for v in e], [v.stderr for v in e], "simulation", k - 1
            )
        ]
    shares = [_shares(m) for m in measured]
    spread = [
        Series(
            f"singular value {j + 1}",
            alphas,
            [s.mean[j] for s in shares],
            [s.stderr[j] for s in shares],
            "simulation",
            j,
        )
        for j in range(3)
    ]
    settings.progress(0.95)
    found = [Estimate(m.teacher_overlaps.values[:, :2, 1].sum(1)) for m in measured]
    two = Estimate(shares[-1].values[:, :2].sum(1))
    text = (
        f"For relu the two leading left singular vectors together hold {pm(found[0])} of X̃β⋆ at α = {alphas[0]:g} and {pm(found[-1])} at "
        f"α = {alphas[-1]:g}, where they carry {pm(two)} of ‖F‖² and the third {pm(shares[-1][2], 2)}."
    )
    return [
        Panel(
            f"relu, teacher in the two leading vectors, n = {n}",
            "α = log η / log n",
            "squared projection",
            overlap,
            verticals=HALF,
        ),
        Panel(f"relu, share of ‖F‖², n = {n}", "α = log η / log n", "s²/‖F‖²", spread, verticals=HALF),
    ], text


def _shares(m: MeasuredSpectrum) -> Estimate:
    return Estimate(m.leading.values / m.eigenvalues.values.sum(1, keepdims=True))


def judge(nothing: list[Check]) -> str:
    """Holds when no activation gains anything beyond 1/2, in part when only some are shown to gain."""
    more = sum(found.differs for found in nothing)
    some = f"{FAILS}: larger steps still gain" if more == len(nothing) else f"{PARTLY}: some activations still gain"
    return decide(nothing, fails=some)
