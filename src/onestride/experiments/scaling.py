"""`scaling`: how the error falls with the samples, with a step and without, tuned, and with which exponents."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np

from onestride._numerics import Array
from onestride.comparison import ERROR_TOLERANCE, Pair, agree, check
from onestride.experiments.kit import pm, points, problem_at, row_of
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.verdict import decide, marks, tally
from onestride.learning_curves import Scaling, panels, scaling
from onestride.problem import Step
from onestride.result import Estimate, Status
from onestride.simulation.run import simulate

CLAIM = "Theory follows the tuned error along n at fixed d and N; a step that grows with n lowers it where n exceeds N, too."
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
    """Do simulated errors lie on the curve, and does a step lower the one at the largest n simulated, draw by draw?"""
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
    told = [f"{name} {_course(c)}" for name, c in data.curves.items()]
    sizes = next(iter(data.curves.values())).problems
    (last, after), (_, before) = (list(data.measured[name].items())[-1] for name in CURVES)
    fall = before - after
    return Judgement(
        words=decide([*pairs, check(fall, low=0)]),
        finding=(
            f"Along n from {sizes[0].n} to {sizes[-1].n} at d = {sizes[0].d}, N = {sizes[0].N} the tuned test error goes {'; '.join(told)}. Simulated "
            f"errors within {ERROR_TOLERANCE:.0%} of theory, where it does not mark its own: {tally(pairs)}.{marks(*data.curves.values())} "
            f"At n = {sizes[last].n}, {sizes[last].n / sizes[last].N:.3g} times N, a step lowers the simulated error by {pm(fall)} (paired by seed)."
        ),
        surprise=_surprise(data),
        rows=rows,
    )


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _solved(*curves: Scaling) -> Array:
    """The positions whose numbers none of the curves marks."""
    return np.flatnonzero([all(s is Status.SOLVED for s in at) for at in zip(*(c.status for c in curves), strict=True)])


def _course(curve: Scaling) -> str:
    """From where to where a curve goes and how it falls at its end, without the numbers that theory marks."""
    good = _solved(curve)
    if not good.size:
        return f"is marked at each of its {len(curve.problems)} sizes"
    at, error = curve.at[good], curve.test_error[good]
    end = _last(at, error)
    rate = f", the excess over its last value like n^{end:.2f} at the end" if np.isfinite(end) else ""
    return f"from {error[0]:.3g} at n = {at[0]:.0f} to {error[-1]:.3g} at n = {at[-1]:.0f}{rate}"


def _last(at: Array, error: Array) -> float:
    """The exponent of what is left above the last value, over the decade that ends half a decade before it; NaN where there is none."""
    left: Array = error - error[-1]
    i, j = (int(np.argmin(np.abs(np.log10(at / at[-1]) + decades))) for decades in (1.5, 0.5))
    return float(np.log(left[j] / left[i]) / np.log(at[j] / at[i])) if i < j and min(left[i], left[j]) > 0 else np.nan


def _surprise(data: Data) -> str:
    """Where a step helps most along the curves, of the numbers that theory does not mark."""
    curve, without = (data.curves[name] for name in CURVES)
    return f"{_most(curve, without)} {_first(curve, data.measured['with a step'])}"


def _most(curve: Scaling, without: Scaling) -> str:
    good = _solved(curve, without)
    if not good.size:
        return f"At none of the {len(curve.problems)} sizes is there a number of both curves that theory does not mark."
    share = 1 - curve.test_error[good] / without.test_error[good]
    at, verb = int(np.argmax(share)), "lowers" if share[-1] > 0 else "raises"
    last = f"n = {curve.problems[good[-1]].n}, the last that theory does not mark,"
    end = (
        f"; at {last} it {verb} that by {abs(share[-1]):.0%}"
        if at < share.size - 1
        else ", the last that theory does not mark"
    )
    help_ = "helps most" if share[at] > 0 else "harms least"
    return f"In theory a step of n^{EXPONENT:g} {help_}, by {abs(share[at]):.0%} of the tuned error, at n = {curve.problems[good[at]].n}{end}."


def _first(curve: Scaling, measured: dict[int, Estimate]) -> str:
    j, error = next(iter(measured.items()))
    mark = ", marked as inaccurate" if curve.status[j] is Status.INACCURATE else ""
    return f"At n = {curve.problems[j].n} the error after it was measured at {pm(error)}, theory {curve.test_error[j]:.3g}{mark}."


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
    title = "Tuned test error, where theory does not mark it: " + "; ".join(
        f"{name} {_course(c).partition(',')[0]}" for name, c in data.curves.items()
    )
    return Figure([errors, slope], caption, title=title)
