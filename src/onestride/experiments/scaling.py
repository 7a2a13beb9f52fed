"""`scaling`: how the error falls with the samples, with a step and without, tuned, and with which exponents."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np

from onestride._numerics import Array
from onestride.comparison import ERROR_TOLERANCE, Pair, agree
from onestride.experiments.kit import pm, points, problem_at, row_of
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.verdict import decide, tally
from onestride.learning_curves import Scaling, panels, scaling
from onestride.problem import Step
from onestride.result import Estimate, Status
from onestride.simulation.run import simulate

CLAIM = "Theory follows the tuned error along n at fixed d and N; a step that grows with n still lowers it where random features have reached their floor."
SIZES = {"d": (20, 40, 60), "points": (5, 33, 65), "simulated": (2, 4, 6), "seeds": (4, 64, 64)}
EXPONENT = 0.3  # of the step
CURVES = {"with a step": 1.0, "without": 0.0}


@dataclass(frozen=True)
class Data:
    """Tuned learning curves along n, with a step and without, and simulated test errors by position on them."""

    curves: dict[str, Scaling]
    measured: dict[str, dict[int, Estimate]]


def measure(size: SimpleNamespace, progress: Progress) -> Data:
    """Curves at fixed d and N from n = d to 10⁴ d, simulated at some of the nodes up to 40 d."""
    base = problem_at(10 * size.d, d=size.d, N=5 * size.d)
    at = np.geomspace(size.d, 1e4 * size.d, size.points).round()
    curves: dict[str, Scaling] = {}
    measured: dict[str, dict[int, Estimate]] = {}
    for i, (name, constant) in enumerate(CURVES.items()):
        step = Step(constant=constant, exponent=EXPONENT) if constant else Step.none()
        curves[name] = scaling(base.replace(step=step), "n", at, tuned=True)
        progress((2 * i + 1) / 4)
        small = [j for j, p in enumerate(curves[name].problems) if p.n <= 40 * size.d]
        chosen = np.unique(np.linspace(0, small[-1], size.simulated).round().astype(int)).tolist()
        measured[name] = {
            j: simulate(curves[name].problems[j], size.seeds, untrained=False, device=size.device).test_error
            for j in chosen
        }
        progress((2 * i + 2) / 4)
    return Data(curves, measured)


def judge(data: Data) -> Judgement:
    """Do simulated errors lie on the curve, and does the excess over its last decade fall as it should?"""
    among = sum(len(found) for found in data.measured.values())
    pairs: list[Pair] = []
    rows = []
    for name, found in data.measured.items():
        curve = data.curves[name]
        for j, error in found.items():
            if curve.status[j] is Status.SOLVED:
                pairs.append(agree(float(curve.test_error[j]), error, among=among))
                rows.append(row_of(pairs[-1], curve=name, n=curve.problems[j].n))
        for j, p in enumerate(curve.problems):
            rows.append(
                {
                    "curve": name,
                    "n": p.n,
                    "theory": float(curve.test_error[j]),
                    "exponent": _finite(curve.exponent[j]),
                    "ridge": p.ridge,
                }
            )
    told = [
        f"{name} from {c.test_error[0]:.3g} to {c.test_error[-1]:.3g}, the excess over its last value like n^{_last(c):.2f} at the end"
        for name, c in data.curves.items()
    ]
    sizes = next(iter(data.curves.values())).problems
    return Judgement(
        words=decide(pairs),
        finding=(
            f"From n = {sizes[0].n} to {sizes[-1].n} at d = {sizes[0].d}, N = {sizes[0].N} the tuned test error goes {'; '.join(told)}. Simulated "
            f"errors within {ERROR_TOLERANCE:.0%} of theory: {tally(pairs)}."
        ),
        surprise=_surprise(data),
        rows=rows,
    )


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _last(curve: Scaling) -> float:
    """The exponent of what is left above the last value, over the decade that ends half a decade before it."""
    left: Array = curve.test_error - curve.test_error[-1]
    i, j = (int(np.argmin(np.abs(np.log10(curve.at / curve.at[-1]) + decades))) for decades in (1.5, 0.5))
    return float(np.log(left[j] / left[i]) / np.log(curve.at[j] / curve.at[i])) if min(left[i], left[j]) > 0 else np.nan


def _surprise(data: Data) -> str:
    """Where a step helps most along the curve."""
    with_step, without = (data.curves[name].test_error for name in CURVES)
    share = 1 - with_step / without
    at, curve = int(np.nanargmax(share)), data.curves["with a step"]
    first = next(iter(data.measured["with a step"].items()))
    verb = "lowers" if share[-1] > 0 else "raises"
    end = f"; at n = {curve.problems[-1].n} it {verb} that by {abs(share[-1]):.0%}" if at < share.size - 1 else ""
    return f"A step of n^{EXPONENT:g} {'helps most' if share[at] > 0 else 'harms least'} at n = {curve.problems[at].n}, by {abs(share[at]):.0%} of the tuned error{end}. At n = {curve.problems[first[0]].n} it was measured at {pm(first[1])}, theory {curve.test_error[first[0]]:.3g}."


def draw(data: Data) -> Figure:
    """Both curves with their simulated points, and local exponents."""
    found = data.curves["with a step"]
    errors, slope = panels(found, measured=data.measured["with a step"])
    without = data.measured["without"]
    at = [data.curves["without"].at[j] for j in without]
    errors = replace(
        errors, series=[*errors.series, points("simulated, without", at, list(without.values()), colour=4)]
    )
    seeds = len(next(iter(data.measured["without"].values())).values)
    p = found.problems[0]
    caption = (
        f"ReLU, teacher H₁ + H₂/√2, noise 0.5, d = {p.d}, N = {p.N}, the best penalty at every point, η = n^{EXPONENT:g}, literal gradient. Vertical lines: "
        f"n = d, n = N, n = d²/2. {seeds} seeds, mean ± standard error."
    )
    ends = {name: (c.test_error[0], c.test_error[-1]) for name, c in data.curves.items()}
    title = f"Tuned test error from n = {p.n} to {found.problems[-1].n:,}: " + ", ".join(
        f"{a:.3g} to {b:.3g} {name}" for name, (a, b) in ends.items()
    )
    return Figure([errors, slope], caption, title=title)
