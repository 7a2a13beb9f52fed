"""`activations`: eight activations and two that break a condition, Hermite coefficients beside predicted and measured gains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from onestride.comparison import GAIN_FLOOR, GAIN_TOLERANCE, Agreement, Check, Pair, agree, check, seeds_words, together
from onestride.experiments.kit import pm, points, problem_at
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.verdict import FAILS, PARTLY, UNDECIDED, decide, marks, tally
from onestride.plot import Panel, Series, theory_series
from onestride.problem import Problem
from onestride.result import Estimate, PredictionGrid, Status
from onestride.simulation.learned import measure_learned
from onestride.simulation.run import simulate_grid
from onestride.theory.learned import learned
from onestride.theory.predict import predict_grid

CLAIM = "Only the Hermite coefficients matter. c₁ = 0 breaks the rank-one gradient and the gain; c₂ = 0 leaves the quadratic part unlearned."
SIZES = {"n": (80, 500, 2000), "seeds": (4, 12, 12)}
QUARTIC = "H₁/2 + H₄/20"
ACTIVATIONS: dict[str, Any] = {
    name: name for name in ("relu", "gelu", "silu", "elu", "softplus", "tanh", "erf", "sin")
} | {QUARTIC: (0, 0.5, 0, 0, 0.05), "H₂/2": (0, 0, 0.5)}
ALPHAS = (0.2, 0.4)  # a window with the linear spike only, and one with the quadratic spike too
NOTHING = 0.03  # a learned fraction below this is none


@dataclass(frozen=True)
class Tried:
    """One activation: gains at ALPHAS and the learned fraction of H₂ at the larger; and theory's."""

    name: str
    problem: Problem
    gain: Estimate  # seeds × ALPHAS
    part: Estimate
    theory: PredictionGrid
    part_theory: float

    @property
    def c(self) -> list[float]:
        """Hermite coefficients c₀ … c₄."""
        return [float(c) for c in self.problem.sigma.coefficients[:5]]

    def pair(self, j: int) -> Pair:
        """One gain beside theory."""
        floor, among = self.floor, len(ALPHAS) * len(ACTIVATIONS)
        return agree(float(self.theory.test_gain[j, 0]), self.gain[j], GAIN_TOLERANCE, absolute=floor, among=among)

    @property
    def floor(self) -> float:
        """A gain that counts as none."""
        return GAIN_FLOOR * float(self.theory.untrained.test_error[0, 0])


def measure(size: SimpleNamespace, progress: Progress) -> list[Tried]:
    """Gains at both exponents and the learned fraction of H₂ at the larger one, for every activation."""
    found = []
    for name, activation in ACTIVATIONS.items():
        problem = problem_at(size.n, activation=activation)
        strong = problem.at(exponent=ALPHAS[1])
        gain = simulate_grid(problem, ALPHAS, [problem.ridge], size.seeds, device=size.device).test_gain[:, 0]
        part = measure_learned(strong, size.seeds, device=size.device).fraction[1]
        theory = predict_grid(problem, ALPHAS, [problem.ridge])
        found.append(Tried(name, problem, gain, part, theory, float(learned(strong).fraction[1])))
        progress(len(found) / len(ACTIVATIONS))
    return found


def judge(data: list[Tried]) -> Judgement:
    """Gains beside theory where it is not known to be off, none with c₁ = 0, and the fraction of H₂ with and without c₂."""
    judged = [t.pair(j) for t in data for j in range(len(ALPHAS)) if t.theory.trained.status[j, 0] is Status.SOLVED]
    silent = [check(t.gain[j], high=t.floor, among=len(ALPHAS)) for t in data if not t.c[1] for j in range(len(ALPHAS))]
    odd, even = [t for t in data if t.c[1] and not t.c[2]], [t for t in data if t.c[1] and t.c[2]]
    without = [check(t.part, -NOTHING, NOTHING, among=len(odd)) for t in odd]
    with_c2 = [check(t.part, low=0, among=len(even)) for t in even]
    best = max(data, key=lambda t: t.gain.mean[1])
    least, *_, most = sorted(even, key=lambda t: t.part.mean)
    last, quartic = data[-1], next(t for t in data if t.name == QUARTIC)
    return Judgement(
        words=words(judged, silent, without, with_c2),
        finding=(
            f"At n = {last.problem.n}, gains of the {len(data)} activations within {GAIN_TOLERANCE:.0%} of theory ({len(last.part.values)} seeds): {tally(judged)}; the largest at α = 0.4 is {best.name}'s, {pm(best.gain[1], 3, 'f')}. "
            f"With c₁ = 0 (H₂/2) the gain is {pm(last.gain[0])} at α = 0.2 and {pm(last.gain[1])} at α = 0.4 (theory {last.theory.test_gain[0, 0]:+.3f} and {last.theory.test_gain[1, 0]:+.3f}{_mark(last.theory.status[:, 0])}). With "
            f"c₂ = 0 the learned fraction of H₂ is at most {max(abs(t.part.mean) for t in odd):.3f}, with c₂ ≠ 0 it is "
            f"{least.part.mean:.3f} ({least.name}) to {most.part.mean:.3f} ({most.name}).{marks(*(t.theory for t in data))}"
        ),
        surprise=(
            "For tanh, erf and sin c₂ = 0 is more than a vanishing coefficient: the network is an odd function and cannot contain H₂ at "
            f"all. {quartic.name} is not odd and has c₂ = 0 too; its fraction of H₂ is {pm(quartic.part, 3, 'f')} "
            f"(theory {quartic.part_theory:.3f}{_mark(quartic.theory.status[1])}), {_seen(quartic.part)}; the fourth power of the direction, a spike above α = 3/8, contains H₂."
        ),
        rows=[_row(t) for t in data],
    )


def _mark(marked: Iterable[Status]) -> str:
    """How many of the numbers before it theory marks, in words."""
    off = [status is Status.INACCURATE for status in marked]
    count = sum(off)
    if not count:
        return ""
    return ", marked as inaccurate" if all(off) else f", {count} of them marked as inaccurate"


def words(
    gains: Sequence[Check], silent: Sequence[Check], without_c2: Sequence[Check], with_c2: Sequence[Check]
) -> str:
    """From the gains beside theory, whether there is none at c₁ = 0, and the H₂ fractions: none at c₂ = 0, some at c₂ ≠ 0."""
    claims: dict[str, Sequence[Check]] = {
        "the gains are not those of the theory": gains,
        "c₁ = 0 does not prevent a gain": silent,
        "c₂ = 0 does not always prevent learning H₂": without_c2,
        "c₂ ≠ 0 does not always suffice for it": with_c2,
    }
    wrong = [words for words, found in claims.items() if together(found) is Agreement.DIFFERS]
    unclear = [c for found in claims.values() for c in found if c.outcome is Agreement.UNDECIDED]
    if not wrong:
        return decide(unclear)
    rest = f"; {len(unclear)} numbers are {UNDECIDED}: {seeds_words(unclear)}" if unclear else ""
    return FAILS if len(wrong) == len(claims) else f"{PARTLY}: {' and '.join(wrong)}{rest}"


def _seen(part: Estimate) -> str:
    told = {Agreement.AGREES: "clearly above 0", Agreement.DIFFERS: "below 0"}
    return told.get(check(part, low=0).outcome, "not told apart from 0 at these seeds")


def _row(t: Tried) -> dict[str, Any]:
    row: dict[str, Any] = {"activation": t.name} | {f"c{k}": t.c[k] for k in (1, 2, 3, 4)}
    for j, alpha in enumerate(ALPHAS):
        pair = t.pair(j)
        row |= {f"gain {alpha:g}, theory": pair.predicted, f"gain {alpha:g}": pair.measured}
        row |= {f"stderr {alpha:g}": pair.stderr, f"outcome {alpha:g}": pair.outcome.name.lower()}
    return row | {"H2, theory": t.part_theory, "H2": float(t.part.mean), "stderr H2": float(t.part.stderr)}


def draw(data: list[Tried]) -> Figure:
    """Hermite coefficients, gains and learned fractions, activation by activation."""
    x = list(range(len(data)))
    panel = partial(Panel, xlabel="", xticks=x, xnames=[t.name for t in data])
    coefficients = [
        Series(f"c{'₁₂₃₄'[k - 1]}", x, [t.c[k] for t in data], kind="simulation", colour=k + 1) for k in (1, 2, 3, 4)
    ]
    gains = []
    for j, alpha in enumerate(ALPHAS):
        gains += _levels(
            f"theory, α = {alpha:g}",
            [float(t.theory.test_gain[j, 0]) for t in data],
            [t.theory.status[j, 0] for t in data],
            j,
        )
        gains.append(points(f"simulation, α = {alpha:g}", x, [t.gain[j] for t in data], colour=j))
    parts = (
        *_levels(f"theory, α = {ALPHAS[1]:g}", [t.part_theory for t in data], [t.theory.status[1, 0] for t in data], 1),
        points(f"simulation, α = {ALPHAS[1]:g}", x, [t.part for t in data], colour=1),
    )
    learned = f"learned fraction of H₂, α = {ALPHAS[1]:g}"
    panels = (
        panel("Hermite coefficients", ylabel="c_k", series=coefficients, horizontals=[(0.0, "zero")]),
        panel("gain in test error", ylabel="fall of the test error", series=gains, horizontals=[(0.0, "zero")]),
        panel(learned, ylabel="fraction", series=parts, horizontals=[(0.0, "zero")]),
    )
    caption = (
        f"Teacher H₁ + H₂/√2, noise 0.5, λ = 0.1, n = {data[0].problem.n}, d = n/2, N = 3n/2, η = n^α, literal gradient, {len(data[0].part.values)} seeds, mean ± standard "
        "error. Short lines: profile theory."
    )
    least, *_, most = sorted((t for t in data if t.c[1]), key=lambda t: float(t.gain.mean[1]))
    title = (
        f"At α = {ALPHAS[1]:g} the gain goes from {pm(least.gain[1])} ({least.name}) to {pm(most.gain[1])} ({most.name}); "
        f"with c₁ = 0 ({data[-1].name}) it is {pm(data[-1].gain[1])}"
    )
    return Figure(panels, caption, columns=3, title=title)


def _levels(label: str, values: Sequence[float], status: Sequence[Status], colour: int) -> list[Series]:
    """A short level at each position, drawn as marked where theory marks its number."""
    x = [at for i in range(len(values)) for at in (i - 0.35, i + 0.35, np.nan)]
    y = [at for value in values for at in (value, value, np.nan)]
    return theory_series(label, x, y, [one for one in status for _ in range(3)], colour)
