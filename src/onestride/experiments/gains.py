"""`gains`: does one step lower the ridge objective by Δ_ℓ and the test error by Λ_ℓ, the limits of the window?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from onestride._numerics import Array
from onestride.comparison import ERROR_TOLERANCE, GAIN_TOLERANCE, Agreement, Pair, agree, seeds_words, together
from onestride.experiments.kit import WINDOWS, mean_of, ns_of, paper_problem, pm, points, seeds_along, seeds_of
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.verdict import FAILS, HOLDS, NOT_YET, UNDECIDED, Verdict, spoken
from onestride.plot import Panel, Series
from onestride.result import Estimate, PredictionGrid, Simulation
from onestride.simulation.equivalent import MeasuredLimit, measure_limit
from onestride.simulation.run import simulate_grid
from onestride.theory.predict import predict_grid

CLAIM = "In window ℓ one step lowers the ridge objective by Δ_ℓ and the test error by Λ_ℓ, whatever α inside it."
SIZES = {"ns": ((150, 300), (400, 800, 1600), (1000, 2000, 4000, 8000)), "seeds": (4, 6, 8), "points": (9, 40, 60)}
LARGEST = 10**15
ALONG = {"theory": {}, "rank-one step": {"method": "profile", "level": "rank-one"}}  # drawn to n = LARGEST
GAINS = {"train_gain": ("Δ", "train_loss", "ridge objective"), "test_gain": ("Λ", "test_error", "test error")}


@dataclass(frozen=True)
class Gains:
    """Simulation and theory at each size, the limit, the limit model at the largest size, theory at n = 10⁹ and along n."""

    measured: list[Simulation]
    finite: list[PredictionGrid]
    limit: PredictionGrid
    model: MeasuredLimit
    far: PredictionGrid
    along: Array  # sample sizes up to LARGEST
    lines: dict[str, list[PredictionGrid]]  # theory there, of the exact step and of an exactly rank-one one

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
    far = np.geomspace(2 * size.ns[-1], LARGEST, size.points)
    along = np.unique(np.concatenate([np.geomspace(size.ns[0] / 1.2, far[0], size.points // 3), far]).round())
    problems = [paper_problem(int(n)) for n in along]
    lines = {name: [predict_grid(p, alphas, [p.ridge], **how) for p in problems] for name, how in ALONG.items()}
    return Gains(measured, finite, limit, model, distant(), along, lines)


def distant(n: int = 10**9) -> PredictionGrid:
    """The theory of an exactly rank-one step at a size nobody can simulate."""
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
        surprise=f"At n = 10⁹ the theory of an exactly rank-one step has reached {far}. {_exact(data)}",
        rows=[row for name in GAINS for row in _rows(data, name)],
    )


def _exact(data: Gains) -> str:
    """What theory says far out after the exact step, beside the limit."""
    far, limits = (grid.test_gain[:, 0] for grid in (data.lines["theory"][-1], data.limit))
    told = " and ".join(f"{x:.3f} (α = {alpha:g})" for x, alpha in zip(far, WINDOWS, strict=True))
    away = [
        f"{alpha:g}"
        for x, limit, alpha in zip(far, limits, WINDOWS, strict=True)
        if abs(x / limit - 1) > ERROR_TOLERANCE
    ]
    left = (
        f"; at α = {', '.join(away)} that is not the limit: the gradient's own fluctuations lengthen the rows of W, which adds a "
        "constant to the square of the direction"
        if away
        else ""
    )
    return f"After the exact step the test error falls in theory by {told} at n = 10¹⁵{left}."


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
    """Both gains along n where they were simulated, and theory on to n = 10¹⁵."""
    panels = [_near(data, name) for name in GAINS] + [_far(data, name) for name in GAINS]
    now, run = data.measured[-1].test_gain[:, 0].mean, data.measured[-1].problem
    last = data.lines["theory"][-1].test_gain[:, 0]
    title = "; ".join(
        f"Λ{'₁₂'[i]} = {limit:.3f}: {now[i]:.3f} measured at n = {run.n}, {last[i]:.3f} in theory at n = 10¹⁵"
        for i, limit in enumerate(data.limit.test_gain[:, 0])
    )
    caption = (
        "Fall of the ridge objective and of the test error due to one step (λ = 0.1, η = n^α), paired by seed: simulation, profile theory at the same n (top) "
        "and on to n = 10¹⁵ (bottom, after the exact step and after an exactly rank-one one), and the limits Δ_ℓ and Λ_ℓ of the window. ReLU, teacher H₁ + H₂/√2, no noise, labels-only gradient, d = n/2, N = 3n/2; mean ± standard error of "
        f"{seeds_of(data.measured)}."
    )
    return Figure(panels, caption, title=title)


def _near(data: Gains, name: str) -> Panel:
    """Where there are simulations: the nodes of the line are its own."""
    _, _, label = GAINS[name]
    ns = ns_of(data.measured)
    inside = data.along <= 2 * ns[-1]
    series: list[Series] = []
    for i, alpha in enumerate(WINDOWS):
        line = [getattr(t, name)[i, 0] for t in data.lines["theory"]]
        series += [
            points(f"simulation, α = {alpha:g}", ns, [getattr(run, name)[i, 0] for run in data.measured], i),
            Series(f"theory, α = {alpha:g}", data.along[inside], np.array(line)[inside], colour=i),
        ]
    span = ns[0] / 1.2, 1.2 * ns[-1]
    return Panel(f"{label}: simulated sizes", "n simulated", f"fall of the {label}", series, True, xticks=ns, xlim=span)


def _far(data: Gains, name: str) -> Panel:
    """Theory to sizes nobody can simulate, with the limits of the paper."""
    symbol, _, label = GAINS[name]
    series: list[Series] = []
    for i, alpha in enumerate(WINDOWS):
        lines = {how: [getattr(t, name)[i, 0] for t in found] for how, found in data.lines.items()}
        series.append(Series(f"theory, α = {alpha:g}", data.along, lines["theory"], colour=i))
        series.append(Series(f"rank-one step, α = {alpha:g}", data.along, lines["rank-one step"], colour=i + 2))
        limit = np.full(2, getattr(data.limit, name)[i, 0])
        ends = [data.along[0], data.along[-1]]
        series.append(Series(f"limit, α = {alpha:g}", ends, limit, kind="limit", colour=i))
    return Panel(
        f"{label}: theory to n = 10¹⁵, limits {symbol}₁, {symbol}₂", "n", f"fall of the {label}", series, logx=True
    )
