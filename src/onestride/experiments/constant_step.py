"""`constant-step`: η = O(1) as in Ba et al. 2022: the gain, the linear limit, and the degree-two part that stays unlearned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onestride._numerics import Array
from onestride.comparison import GAIN_TOLERANCE, Agreement, Check, agree, check, seeds_words, together
from onestride.conventions import problem_from
from onestride.experiments.kit import both_models, both_predicted, each, mean_of, pm, points, problem_at, seeds_along
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.verdict import FAILS, HOLDS, NOT_YET, UNDECIDED, growth, marks, tally, worded
from onestride.plot import Panel, Series, theory_series
from onestride.problem import Problem, Step
from onestride.result import Estimate, PredictionGrid, Status
from onestride.simulation.learned import measure_learned
from onestride.simulation.run import simulate_grid
from onestride.theory.learned import learned
from onestride.theory.predict import predict_grid

CLAIM = (
    "With η = O(1) the test error falls if c₁, c⋆₁ and η are not 0, but never below the power of the teacher's nonlinear "
    "part: no nonlinear part is learned (Ba et al. 2022)."
)
SIZES = {
    "ns": ((80, 160), (200, 400, 800), (500, 1000, 2000, 4000)),
    "seeds": (6, 10, 12),
    "fine": (11, 16, 26),  # those at the constants among them
    "d": (60, 200, 512),  # of Figure 3(a), with the ratios n/d
    "ratios": ((1.0, 4.0), *[(0.5, 1.0, 2.0, 3.0, 4.0, 6.0)] * 2),
    "fine_ratios": (4, 23, 23),
}
ETAS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
GROWING = 0.3  # exponent of the step that is compared with the constant ones
STEPS = {"η = 1": Step(constant=1.0), "η = 4": Step(constant=4.0), f"η = n^{GROWING:g}": Step(exponent=GROWING)}
NOTHING = 0.02  # a learned fraction below this is none
FIGURE_3 = {"psi2": 2, "lam": 1e-4, "activation": "tanh", "teacher": "softplus", "noise": 0.25}
FIGURE_3_ETA = 4.0  # beside 0


def quadratic(n: int, step: Step) -> Problem:
    """ReLU student of H₁ + H₂/√2: the student has a degree-two part to learn with."""
    return problem_at(n, ridge=0.3, gradient="labels", step=step)


@dataclass(frozen=True)
class Curve:
    """A number measured at some x beside theory there, and theory alone at `fine_x`, with the status of each number."""

    x: Sequence[Any]
    measured: list[Estimate]
    theory: Sequence[float] | Array
    fine_x: ArrayLike
    fine: ArrayLike
    status: Sequence[Status] | Array

    def series(self, label: str = "", colour: int = 0) -> list[Series]:
        """The line and the points."""
        end = f", {label}" if label else ""
        line = theory_series(f"theory{end}", self.fine_x, self.fine, self.status, colour)
        return [*line, points(f"simulation{end}", self.x, self.measured, colour)]


@dataclass(frozen=True)
class Steps:
    """Gain and risk against a constant η at the largest n, fractions of H₂ against n, and risks against n/d."""

    problem: Problem
    theory: PredictionGrid
    gain: Curve
    risk: Curve
    fractions: dict[str, Curve]  # one for each of STEPS
    far: dict[str, float]  # theory's fraction of H₂ at n = 10⁶
    largest: float  # and at the largest constant
    figure_3: dict[float, Curve]  # by η, each against n/d
    others: list[Problem]  # those of Figure 3(a)


def measure(size: SimpleNamespace, progress: Progress) -> Steps:
    """Gain and learned parts against η, the degree-two part against n, and Ba et al.'s Figure 3(a)."""
    problem, etas = quadratic(size.ns[-1], Step()), np.geomspace(ETAS[0], ETAS[-1], size.fine)
    noise = problem.noise**2
    found = simulate_grid(problem, powers(problem, ETAS), [problem.ridge], size.seeds, device=size.device)
    theory, line = (predict_grid(problem, powers(problem, x), [problem.ridge]) for x in (ETAS, etas))
    gain = Curve(
        ETAS, each(found.test_gain[:, 0]), theory.test_gain[:, 0], etas, line.test_gain[:, 0], line.status[:, 0]
    )
    known = [grid.test_error[:, 0] - noise for grid in (theory, line)]
    risk = Curve(
        ETAS, each(Estimate(found.test_error.values[:, :, 0] - noise)), known[0], etas, known[1], line.status[:, 0]
    )
    progress(0.4)
    fractions = {label: _fractions(size, step) for label, step in STEPS.items()}
    progress(0.75)
    far = {label: float(learned(quadratic(10**6, step)).fraction[1]) for label, step in STEPS.items()}
    largest = float(learned(problem.replace(step=Step(constant=ETAS[-1]))).fraction[1])
    return Steps(problem, theory, gain, risk, fractions, far, largest, *_figure_3(size))


def powers(problem: Problem, etas: ArrayLike) -> Array:
    """The exponents α with η = n^α."""
    return np.log(etas) / np.log(problem.n)


def _fractions(size: SimpleNamespace, step: Step) -> Curve:
    """Learned fractions of H₂ along n, with up to four times as many seeds at smaller n."""
    runs = [measure_learned(quadratic(n, step), s, device=size.device) for n, s in seeds_along(size.ns, size.seeds)]
    found, theory = [m.fraction[1] for m in runs], [float(learned(m.problem).fraction[1]) for m in runs]
    along = np.geomspace(size.ns[0], size.ns[-1], size.fine).round().astype(int).tolist()
    line = [learned(quadratic(n, step)) for n in along]
    return Curve(size.ns, found, theory, along, [float(at.fraction[1]) for at in line], [at.status for at in line])


def _figure_3(size: SimpleNamespace) -> tuple[dict[float, Curve], list[Problem]]:
    """Risk against n/d without a step and with one of constant size; and the problems."""
    fine, count = np.linspace(size.ratios[0], size.ratios[-1], size.fine_ratios), len(size.ratios)
    ratios = [float(r) for r in (*size.ratios, *fine)]
    problems = [problem_from("ba2022", d=size.d, psi1=r, eta=1.0, **FIGURE_3) for r in ratios]
    cells = [(p, powers(p, [FIGURE_3_ETA]), [p.ridge]) for p in problems]
    found = [both_models(simulate_grid(*cell, size.seeds, device=size.device)) for cell in cells[:count]]
    grids = [predict_grid(*cell) for cell in cells]
    theory = both_predicted(grids)[..., 0] - problems[0].noise ** 2
    status = [[grid.untrained.status[0, 0], grid.status[0, 0]] for grid in grids[count:]]
    measured = np.stack(found, axis=1)[..., 0] - problems[0].noise ** 2
    return {
        eta: Curve(
            size.ratios,
            each(Estimate(measured[:, :, k])),
            theory[:count, k],
            fine,
            theory[count:, k],
            [both[k] for both in status],
        )
        for k, eta in enumerate((0.0, FIGURE_3_ETA))
    }, problems[:count]


def judge(data: Steps) -> Judgement:
    """Is there a gain, does every risk lie above its bound, and what becomes of the fraction of H₂ as n grows?"""
    gain, expected = data.gain.measured, data.gain.theory
    gains = [agree(float(t), gain[i], GAIN_TOLERANCE, among=len(ETAS)) for i, t in enumerate(expected)]
    risks = [(e, bound_of(data.problem)) for e in data.risk.measured]
    risks += [(e, bound_of(data.others[0])) for curve in data.figure_3.values() for e in curve.measured]
    above = [check(e, low=limit, among=len(risks)) for e, limit in risks]
    margin = min((float(e.mean) - limit) / float(e.stderr) for e, limit in risks)
    at_one, at_four, growing = (curve.measured for curve in data.fractions.values())
    trend = f"from {pm(at_four[0], 2)} to {pm(at_four[-1], 2)}"
    if all(e.mean > 0 for e in at_four):
        trend = "like n^({:.2f} ± {:.2f})".format(*growth(data.fractions["η = 4"].x, at_four))
    one = ETAS.index(1.0)
    return Judgement(
        words=words(gain[ETAS.index(4.0)], above, at_one, at_four),
        finding=(
            f"At n = {data.problem.n} the step η = 1 lowers the test error by {pm(gain[one])} (theory "
            f"{expected[one]:.3g}); gains within {GAIN_TOLERANCE:.0%} of theory: {tally(gains)}. Risks above the kernel lower bound: "
            f"{tally(above)}, the closest {margin:+.1f} standard errors from it. The learned fraction of H₂ is {pm(at_one[-1], 2)} at "
            f"η = 1 and {pm(at_four[-1], 2)} at η = 4 (theory {data.fractions['η = 4'].theory[-1]:.3g}), which goes "
            f"{trend} with n; at η = n^{GROWING:g} it is {pm(growing[-1], 2)}. Theory at n = 10⁶ "
            f"has {data.far['η = 4']:.1g} at η = 4 and {data.far[f'η = n^{GROWING:g}']:.2g} at η = n^{GROWING:g}. The reason: the H₂ spike has "
            f"strength c₂(c₁η)²·O(n^(−1/2)) beside a bulk of order 1, so it needs η² ≫ √n.{marks(data.theory)}"
        ),
        surprise=_large_constants(data, gain[-1]),
        rows=_rows(data),
    )


def bound_of(problem: Problem) -> float:
    """The kernel lower bound: the power of the teacher's nonlinear part."""
    return problem.target.nonlinear_power


def words(gain: Estimate, above: Sequence[Check], at_one: Sequence[Estimate], at_four: Sequence[Estimate]) -> str:
    """From the gain at η = 4, whether risks lie above their bounds, and the H₂ fractions at η = 1 and 4 along n.

    It fails when the step does harm or a risk lies below its bound; it holds when there is a gain, the fraction at η = 1 is
    NOTHING and the one at η = 4 is NOTHING or falls with n.
    """
    early, late = at_four[0], at_four[-1]
    error = float(np.hypot(early.stderr, late.stderr))
    helps, none = check(gain, low=0, among=2), check(at_one[-1], -NOTHING, NOTHING, among=2)
    falling = Check(float(early.mean - late.mean), error, late.values.shape[0], low=0)
    gone = check(late, -NOTHING, NOTHING)
    if helps.differs or together(above) is Agreement.DIFFERS:
        return FAILS
    last = gone if gone.agrees else falling
    if none.differs or last.differs:
        return NOT_YET
    unclear = [c for c in (helps, none, last, *above) if not c.agrees]
    return f"{UNDECIDED}: {seeds_words(unclear)}" if unclear else HOLDS


def _large_constants(data: Steps, gain: Estimate) -> str:
    """The largest constant as a power of n, what of H₂ it learns in theory, and the fractions at the smallest n."""
    alpha, n = powers(data.problem, ETAS)[-1], data.fractions["η = 1"].x[0]
    told, near = [], f"within {NOTHING:g} of"
    for label in ("η = 1", "η = 4"):
        first, theory = data.fractions[label].measured[0], data.fractions[label].theory[0]
        off = Estimate(first.values - theory)
        how = worded(off, NOTHING, above="above", below="below", equal=near, unclear="not told apart from")
        told.append(f"at {label} {pm(first, 2)} is {how} theory ({theory:.2g})")
    return (
        f"At realistic n a constant is not small: η = {ETAS[-1]:g} at n = {data.problem.n} is n^{alpha:.2f}, {'above' if alpha > 0.25 else 'below'} the threshold 1/4, and its gain of {pm(gain)} "
        f"comes with a learned fraction {data.largest:.2g} of H₂ in theory, which the limit theorem puts at 0. The fraction of H₂ at the smallest n, {n}: {'; '.join(told)} (n is {n / (n // 2) ** 2 * 2:.2g} of d²/2)."
    )


def _rows(data: Steps) -> list[dict[str, Any]]:
    """Every curve, line by line; those of a figure side by side."""

    def lines(quantity: str, curve: Curve, etas: Sequence[float], ns: Sequence[int]) -> list[dict[str, Any]]:
        found = zip(etas, ns, curve.theory, curve.measured, strict=True)
        label = {"quantity": quantity}
        return [label | {"eta": float(eta), "n": n, "theory": float(t)} | mean_of(m) for eta, n, t, m in found]

    ns, at = data.fractions["η = 1"].x, [data.problem.n] * len(ETAS)
    rows = lines("gain", data.gain, ETAS, at) + lines("risk", data.risk, ETAS, at)
    parts = [lines("fraction of H2", data.fractions[k], [s.size(n) for n in ns], ns) for k, s in STEPS.items()]
    ns = [p.n for p in data.others]
    risks = [lines("risk, Figure 3a", curve, [eta] * len(ns), ns) for eta, curve in data.figure_3.items()]
    return rows + [row for side in (parts, risks) for together in zip(*side, strict=True) for row in together]


def draw(data: Steps) -> Figure:
    """Gain and risk against η, the fraction of H₂ against n, and Ba et al.'s Figure 3(a)."""
    problem, risk, second = data.problem, "test error − noise²", data.fractions.items()
    bounds = [(bound_of(p), "kernel lower bound") for p in (problem, data.others[0])]
    untrained = float(data.theory.untrained.test_error[0, 0]) - problem.noise**2, "random features"
    ns = data.fractions["η = 1"].x
    fractions = [s for i, (k, curve) in zip((2, 1, 3), second, strict=True) for s in curve.series(k, colour=i)]
    series = [
        s for k, (eta, c) in zip((4, 1), data.figure_3.items(), strict=True) for s in c.series(f"η = {eta:g}", colour=k)
    ]
    gain, risks = data.gain.series(), data.risk.series()
    panels = (
        Panel("gain", "η", "fall of the test error", gain, logx=True, xticks=ETAS),
        Panel("risk (without noise)", "η", risk, risks, logx=True, xticks=ETAS, horizontals=[untrained, bounds[0]]),
        Panel("why: the degree-two part", "n", "learned fraction of H₂", fractions, logx=True, xticks=ns),
        Panel("Ba et al., Figure 3(a)", "n/d", risk, series, logy=True, horizontals=bounds[1:]),
    )
    caption = (
        f"First three panels: ReLU, teacher H₁ + H₂/√2, noise 0.5, λ = 0.3, d = n/2, N = 3n/2, labels-only gradient, n = {problem.n} "
        f"where it is not the axis, {len(data.gain.measured[0].values)} seeds there and up to four times as many at smaller n. Last: the setting of Ba et al. 2022, Figure 3(a): tanh "
        f"student, softplus teacher, noise 0.25, λ = 1e-4, N = 2d, d = {data.others[0].d}. Mean ± standard error."
    )
    title = (
        f"At n = {problem.n} a step η = {ETAS[-1]:g} gains {pm(data.gain.measured[-1])}; the learned fraction of H₂ is "
        + ", ".join(f"{pm(curve.measured[-1], 2)} ({k})" for k, curve in second)
    )
    return Figure(panels, caption, title=title)
