"""`best-step`: the step and the penalty tuned together by theory, beside simulations there and at other steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from onestride._numerics import Array
from onestride.comparison import ERROR_TOLERANCE, Check, agree, check
from onestride.experiments.kit import pm, points, problem_at, row_of, rows_along
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.verdict import decide, tally
from onestride.plot import Panel, Series, theory_series
from onestride.problem import Problem, Step
from onestride.result import Estimate, PredictionGrid
from onestride.simulation.run import simulate_grid
from onestride.theory.optimum import Optimum, optimum
from onestride.theory.predict import predict_grid

CLAIM = "The step that theory finds best is the best that can be measured, and tuning it gains what tuning the penalty does not."
SIZES = {"ns": ((80, 120), (150, 300, 500), (400, 1000, 3000)), "seeds": (4, 24, 16), "points": (5, 41, 41)}
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the best step: those simulated
ROOM = 0.01  # of the error: what another step may be better by


@dataclass(frozen=True)
class Tuned:
    """The optimum at one n, test errors measured at `FACTORS` of its step and at none, and theory along the step."""

    best: Optimum
    measured: Estimate  # factors, then without a step
    theory: PredictionGrid

    @property
    def problem(self) -> Problem:
        """The problem at its optimum."""
        return self.best.problem


def measure(size: SimpleNamespace, progress: Progress) -> list[Tuned]:
    """Tune step and penalty at every n by theory, and simulate around the best step at the best penalty."""
    found = []
    for i, n in enumerate(size.ns):
        best = optimum(problem_at(n, exponent=0.3))
        at, alpha = best.problem, best.problem.step.exponent
        steps = alpha + np.log(FACTORS) / np.log(n)  # a factor m of the step is log m/log n more in its exponent
        run = simulate_grid(at, steps, [at.ridge], size.seeds, device=size.device)
        assert run.untrained is not None
        values = np.concatenate([run.test_error.values[:, :, 0], run.untrained.test_error.values[:, :1, 0]], axis=1)
        line = alpha + np.log(np.geomspace(1 / 8, 8, size.points)) / np.log(n)
        found.append(Tuned(best, Estimate(values), predict_grid(at, line, [at.ridge])))
        progress((i + 1) / len(size.ns))
    return found


def judge(found: list[Tuned]) -> Judgement:
    """Is theory right at its optimum, and is no other step tried better by more than `ROOM`? Errors are paired by seed."""
    right = [agree(one.best.test_error, one.measured[FACTORS.index(1.0)], among=len(found)) for one in found]
    better = [c for one in found for c in _others(one, len(found) * (len(FACTORS) - 1))]
    rows = []
    for one, pair in zip(found, right, strict=True):
        rows.append(
            row_of(
                pair, n=one.problem.n, quantity="test error at the best step", eta=one.best.step, ridge=one.best.ridge
            )
        )
        rows += rows_along("factor", FACTORS, one.measured[: len(FACTORS)], n=one.problem.n, quantity="test error")
    last = found[-1]
    slope = np.polyfit(np.log([o.problem.n for o in found]), np.log([max(o.best.step, 1e-9) for o in found]), 1)[0]
    told = [
        f"n = {o.problem.n}: η = {o.best.step:.3g}, λ = {o.best.ridge:.2g}, test error {o.best.test_error:.3g}, measured "
        f"{pm(o.measured[FACTORS.index(1.0)])}; "
        + "".join(f"{name} alone {error:.3g}, " for name, error in o.best.alone.items())
        + f"as given {o.best.before:.3g}"
        for o in found
    ]
    return Judgement(
        words=decide([*right, *better]),
        finding=(
            f"Tuned together, as predicted: {'. '.join(told)}. Within {ERROR_TOLERANCE:.0%} of theory: {tally(right)}. Steps of "
            f"{', '.join(f'{f:g}' for f in FACTORS if f != 1)} times the best are no better than it by {ROOM:.0%} of the error: {tally(better)}."
        ),
        surprise=(
            f"Along n at fixed ratios the best step goes like n^{slope:.2f} in theory. At n = {last.problem.n} a step a quarter of the best "
            f"costs {_cost(last, 0.25)} and one 4 times as large {_cost(last, 4.0)} in test error, no step at all {_cost(last, None)}."
        ),
        rows=rows,
    )


def _others(one: Tuned, among: int) -> list[Check]:
    """Whether each other step is no better than the best by more than `ROOM`."""
    at = FACTORS.index(1.0)
    best = one.measured.values[:, at]
    room = -ROOM * float(best.mean())
    rest = [i for i in range(len(FACTORS)) if i != at]
    return [check(Estimate(one.measured.values[:, i] - best), low=room, among=among) for i in rest]


def _cost(one: Tuned, factor: float | None) -> str:
    """How much larger the measured error is at this factor of the best step, paired by seed."""
    i = len(FACTORS) if factor is None else FACTORS.index(factor)
    more: Array = one.measured.values[:, i] - one.measured.values[:, FACTORS.index(1.0)]
    return pm(Estimate(more), 2)


def draw(found: list[Tuned]) -> Figure:
    """Test error against the step, and what tuning alone and together reaches against n."""
    curves: list[Series] = []
    middle = FACTORS.index(1.0)
    for i, one in enumerate(found):
        etas = [
            Step(constant=one.problem.step.constant, exponent=float(a)).size(one.problem.n)
            for a in one.theory.exponents
        ]
        label = f"n = {one.problem.n}"
        above = one.theory.test_error[:, 0] - one.best.test_error
        curves += theory_series(f"theory, {label}", etas, above, one.theory.status[:, 0], i)
        paired = Estimate(one.measured.values[:, : len(FACTORS)] - one.measured.values[:, middle : middle + 1])
        curves.append(points(label, [f * one.best.step for f in FACTORS], paired, colour=i))
    ns = [one.problem.n for one in found]
    reached = {
        "as given": [one.best.before for one in found],
        "step alone": [one.best.alone["step"] for one in found],
        "penalty alone": [one.best.alone["ridge"] for one in found],
        "both": [one.best.test_error for one in found],
    }
    lines = [
        Series(f"theory, {name}", *_levels(ns, values), colour=3 + i)
        for i, (name, values) in enumerate(reached.items())
    ]
    lines.append(points("measured, both", ns, [one.measured[middle] for one in found], colour=6))
    steps = [Series("theory, both", *_levels(ns, [one.best.step for one in found]), colour=6)]
    caption = (
        f"ReLU, teacher H₁ + H₂/√2, noise 0.5, d = n/2, N = 3n/2, literal gradient; as given: η = n^0.3, λ = 0.1. Left: at the best "
        f"penalty, paired by seed with the best step of theory. {len(found[0].measured.values)} seeds, mean ± standard error."
    )
    last, (less, more) = found[-1], (FACTORS.index(f) for f in (0.5, 2.0))
    apart = [pm(last.measured[i] - last.measured[middle], 2) for i in (less, more)]
    title = (
        f"n = {last.problem.n}: half the best step costs {apart[0]} of test error, twice {apart[1]}; tuned together "
        f"{last.best.test_error:.3f}, the penalty alone {last.best.alone['ridge']:.3f}, the step alone {last.best.alone['step']:.3f}"
    )
    return Figure(
        [
            Panel("error against the step", "η", "test error minus that at the best step", curves, logx=True),
            Panel("what tuning reaches", "n", "test error", lines, logx=True, xticks=ns),
            Panel("the best step", "n", "best η", steps, logx=True, logy=True, xticks=ns),
        ],
        caption,
        columns=3,
        title=title,
    )


def _levels(ns: Sequence[int], values: Sequence[float]) -> tuple[list[float], list[float]]:
    """A short level at each n: every one is an optimum of its own, with nothing known between."""
    x = [at for n in ns for at in (n / 1.08, n * 1.08, np.nan)]
    return x, [at for value in values for at in (value, value, np.nan)]
