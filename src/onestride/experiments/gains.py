"""`gains`: does one step lower the ridge objective by Δ_ℓ and the test error by Λ_ℓ, the limits of the window?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from onestride.comparison import GAIN_TOLERANCE, Agreement, Pair, agree, seeds_words, together
from onestride.experiments.kit import WINDOWS, mean_of, ns_of, paper_problem, pm, points, seeds_along, seeds_of
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.verdict import FAILS, HOLDS, NOT_YET, UNDECIDED, Verdict, spoken
from onestride.plot import Panel, Series
from onestride.result import Estimate, PredictionGrid, Simulation
from onestride.simulation.equivalent import MeasuredLimit, measure_limit
from onestride.simulation.run import simulate_grid
from onestride.theory.predict import predict_grid

CLAIM = "In window ℓ one step lowers the ridge objective by Δ_ℓ and the test error by Λ_ℓ, whatever α inside it."
SIZES = {"ns": ((150, 300), (400, 800, 1600), (1000, 2000, 4000, 8000)), "seeds": (4, 6, 8)}
GAINS = {"train_gain": ("Δ", "train_loss", "ridge objective"), "test_gain": ("Λ", "test_error", "test error")}


@dataclass(frozen=True)
class Gains:
    """Simulation and theory at each size, the limit, the limit model at the largest size, and theory at n = 10⁹."""

    measured: list[Simulation]
    finite: list[PredictionGrid]
    limit: PredictionGrid
    model: MeasuredLimit
    far: PredictionGrid

    def free(self, error: str) -> list[Estimate]:
        """The gains of ridge regression with the powers of X̃β up to ℓ free, ℓ = 1, 2."""
        values = getattr(self.model, error).values
        return [Estimate(values[:, 0] - values[:, ell]) for ell in WINDOWS.values()]


def measure(size: SimpleNamespace, progress: Progress) -> Gains:
    """Simulate the step along n and the limit model at the largest."""
    alphas, measured, finite = list(WINDOWS), [], []
    for n, seeds in seeds_along(size.ns, size.seeds):
        problem = paper_problem(n, exponent=alphas[0])
        measured.append(simulate_grid(problem, alphas, [problem.ridge], seeds, device=size.device))
        finite.append(predict_grid(problem, alphas, [problem.ridge]))
        progress(0.7 * len(measured) / len(size.ns))
    last = measured[-1].problem
    limit = predict_grid(last, alphas, [last.ridge], method="plateau")
    model = measure_limit(last, max(WINDOWS.values()), size.seeds, device=size.device)
    return Gains(measured, finite, limit, model, distant())


def distant(n: int = 10**9) -> PredictionGrid:
    """The finite-n theory at a size nobody can simulate."""
    return predict_grid(paper_problem(n, exponent=0.0), list(WINDOWS), [0.1], method="profile", level="rank-one")


def judge(data: Gains) -> Judgement:
    """Gains beside the theory at this n and beside the limit, and the limit beside its model."""
    pairs = {name: _pairs(data, name) for name in GAINS}
    reached, model = ([pair for found in pairs.values() for pair in found[kind]] for kind in ("limit", "model"))
    far = "; ".join(
        f"{', '.join(f'{x:.3f}' for x in getattr(data.far, name)[:, 0])} where the limits {symbol}_ℓ are "
        f"{', '.join(f'{x:.3f}' for x in getattr(data.limit, name)[:, 0])}"
        for name, (symbol, *_) in GAINS.items()
    )
    return Judgement(
        words=_words(reached, model),
        finding=" ".join(_sentence(data, name, found) for name, found in pairs.items()),
        surprise=f"At n = 10⁹ the finite-n theory of the gains has reached {far}.",
        rows=[row for name in GAINS for row in _rows(data, name)],
    )


def _pairs(data: Gains, name: str) -> dict[str, list[Pair]]:
    """Three comparisons at the largest n: gains with the theory there, gains with the limit, the limit model with the limit."""
    limits, finite = getattr(data.limit, name)[:, 0], getattr(data.finite[-1], name)[:, 0]
    measured = [getattr(data.measured[-1], name)[i, 0] for i in range(len(WINDOWS))]
    beside = {"finite": (finite, measured), "limit": (limits, measured), "model": (limits, data.free(GAINS[name][1]))}
    return {
        kind: [agree(float(v), e, GAIN_TOLERANCE, among=len(WINDOWS)) for v, e in zip(values, found, strict=True)]
        for kind, (values, found) in beside.items()
    }


def _words(reached: Sequence[Pair], model: Sequence[Pair]) -> str:
    """The verdict and, where it is undecided, for want of how many seeds."""
    verdict = limit_verdict(together(reached), together(model))
    if verdict is not UNDECIDED:
        return verdict
    if together(reached) is Agreement.DIFFERS:
        return f"{UNDECIDED}: not reached at this n, and for the limit itself {seeds_words(model)}"
    return f"{UNDECIDED}: {seeds_words([*reached, *model])}"


def limit_verdict(reached: Agreement, model: Agreement) -> Verdict:
    """Holds when the limit is reached; not at this size when it is not, but the limit model has it; fails when that has not."""
    if model is Agreement.DIFFERS:
        return FAILS
    if reached is Agreement.DIFFERS and model is Agreement.AGREES:
        return NOT_YET
    return HOLDS if reached is Agreement.AGREES else UNDECIDED


def _sentence(data: Gains, name: str, pairs: dict[str, list[Pair]]) -> str:
    symbol, error, label = GAINS[name]
    near, limit = (
        spoken(together(pairs[kind]), "is confirmed", "is not confirmed", "is undecided at these seeds")
        for kind in ("finite", "model")
    )
    now = " and ".join(
        f"{p.measured:.3g} ± {p.stderr:.1g} (theory at this n {p.predicted:.3f})" for p in pairs["finite"]
    )
    free = " and ".join(pm(e) for e in data.free(error))
    limits = ", ".join(f"{symbol}{'₁₂'[i]} = {p.predicted:.3f}" for i, p in enumerate(pairs["limit"]))
    return (
        f"At n = {data.model.problem.n} the gains in the {label} at α = {' and '.join(f'{a:g}' for a in WINDOWS)} are {now}: the theory at this n {near} "
        f"(within {GAIN_TOLERANCE:.0%}). Ridge with the powers of X̃β free gives {free} where {limits}: the limit itself {limit}."
    )


def _rows(data: Gains, name: str) -> list[dict]:
    rows = []
    for i, alpha in enumerate(WINDOWS):
        for run, theory in zip(data.measured, data.finite, strict=True):
            row = {"quantity": name, "alpha": alpha, "n": run.problem.n, "theory": float(getattr(theory, name)[i, 0])}
            rows.append(row | mean_of(getattr(run, name)[i, 0]) | {"limit": float(getattr(data.limit, name)[i, 0])})
    return rows


def draw(data: Gains) -> Figure:
    """Both gains along n."""
    panels = [_panel(data, name) for name in GAINS]
    caption = (
        "Fall of the ridge objective and of the test error due to one step (λ = 0.1, η = n^α): simulation, profile theory at the same n, and the limits "
        "Δ_ℓ and Λ_ℓ of the window. ReLU, teacher H₁ + H₂/√2, no noise, labels-only gradient, d = n/2, N = 3n/2; mean ± standard error of "
        f"{seeds_of(data.measured)}."
    )
    return Figure(panels, caption)


def _panel(data: Gains, name: str) -> Panel:
    (symbol, _, label), ns = GAINS[name], ns_of(data.measured)
    series: list[Series] = []
    for i, (alpha, ell) in enumerate(WINDOWS.items()):
        limit = np.full(len(ns), getattr(data.limit, name)[i, 0])
        series += [
            points(f"α = {alpha:g}", ns, [getattr(run, name)[i, 0] for run in data.measured], i),
            Series("theory at finite n", ns, [getattr(t, name)[i, 0] for t in data.finite], colour=i),
            Series(f"limit {symbol}{'₁₂'[ell - 1]}", ns, limit, kind="limit", colour=i),
        ]
    return Panel(f"gain, {label}", "n", f"fall of the {label}", series, logx=True, xticks=ns)
