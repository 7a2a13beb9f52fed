"""`activations`: eight activations and two that break a condition, Hermite coefficients beside predicted and measured gains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onestride.compare import GAIN_FLOOR, GAIN_TOLERANCE, Agreement, Check, Pair, agree, check, together
from onestride.experiments.claim import FAILS, PARTLY, UNDECIDED, decide, marks, pm, seeds_words, tally
from onestride.experiments.outcome import Outcome, Settings
from onestride.plot import Panel, Series
from onestride.problem import Problem, Step
from onestride.result import Estimate
from onestride.simulation.learned import measure_learned
from onestride.simulation.run import simulate_grid
from onestride.theory.assumptions import failed_assumption
from onestride.theory.learned import learned
from onestride.theory.predict import predict_grid

ACTIVATIONS: dict[str, Any] = {
    name: name for name in ("relu", "gelu", "silu", "elu", "softplus", "tanh", "erf", "sin")
} | {"H₁/2 + H₄/20": (0, 0.5, 0, 0, 0.05), "H₂/2": (0, 0, 0.5)}
ALPHAS = (0.2, 0.4)  # a window with the linear spike only, and one with the quadratic spike too
LINEAR = "linear part only"
NOTHING = 0.03  # a learned fraction below this is none


def run(settings: Settings) -> Outcome:
    """Gains at both exponents and the learned fraction of H₂ at the larger one, for every activation."""
    n, seeds = settings.pick(80, 500, 2000), settings.seed_count(4, 12, 12)
    rows: list[dict[str, Any]] = []
    gains: list[Estimate] = []
    parts: list[Estimate] = []
    judged: list[Pair] = []
    theories = []
    silent: list[Check] = []
    among = len(ALPHAS) * len(ACTIVATIONS)
    for i, (name, activation) in enumerate(ACTIVATIONS.items()):
        problem = Problem(
            n=n,
            d=n // 2,
            N=3 * n // 2,
            activation=activation,
            teacher=(0, 1, 2**-0.5),
            noise=0.5,
            ridge=0.1,
            step=Step(),
        )
        measured, theory = (
            simulate_grid(problem, ALPHAS, [problem.ridge], seeds),
            predict_grid(problem, ALPHAS, [problem.ridge]),
        )
        strong = problem.at(exponent=ALPHAS[1])
        part = Estimate(measure_learned(strong, seeds).fraction.values[:, 1])
        refused = failed_assumption(strong)
        theories.append(theory)
        c = problem.sigma.coefficients
        row: dict[str, Any] = {
            "activation": name,
            "c1": float(c[1]),
            "c2": float(c[2]),
            "c3": float(c[3]),
            "c4": float(c[4]),
        }
        gains.append(measured.test_gain[:, 0])
        for j, alpha in enumerate(ALPHAS):
            gain, expected = measured.test_gain[j, 0], float(theory.test_gain[j, 0])
            row |= {f"gain {alpha:g}, theory": None if refused else expected, f"gain {alpha:g}": float(gain.mean)}
            before = float(theory.untrained.test_error[0, 0])
            told = agree(expected, gain, GAIN_TOLERANCE, absolute=GAIN_FLOOR * before, among=among)
            if refused:
                silent.append(check(gain, high=GAIN_FLOOR * before, among=len(ALPHAS)))
            else:
                judged.append(told)
            row |= {
                f"stderr {alpha:g}": float(gain.stderr),
                f"outcome {alpha:g}": None if refused else told.outcome.name.lower(),
            }
        parts.append(part)
        row |= {"H2, theory": None if refused else float(learned(strong).fraction[1])}
        rows.append(row | {"H2": float(part.mean), "stderr H2": float(part.stderr)})
        settings.progress((i + 1) / len(ACTIVATIONS))
    base = Problem(n=n, d=n // 2, N=3 * n // 2, teacher=(0, 1, 2**-0.5), noise=0.5)
    told = failed_assumption(base.replace(activation=ACTIVATIONS["H₂/2"], step=Step(exponent=0.4)))

    x = list(range(len(rows)))
    panels = [
        Panel(
            "Hermite coefficients",
            "",
            "c_k",
            [
                Series(f"c{'₁₂₃₄'[k - 1]}", x, [r[f"c{k}"] for r in rows], kind="simulation", colour=k - 1)
                for k in (1, 2, 3, 4)
            ],
            xticks=x,
            xnames=list(ACTIVATIONS),
            horizontals=[(0.0, "0")],
        )
    ]
    series = []
    for j, alpha in enumerate(ALPHAS):
        series += [Series(f"theory, α = {alpha:g}", *_levels(rows, f"gain {alpha:g}, theory"), colour=j)]
        series += [
            Series(
                f"simulation, α = {alpha:g}",
                x,
                [r[f"gain {alpha:g}"] for r in rows],
                [r[f"stderr {alpha:g}"] for r in rows],
                "simulation",
                j,
            )
        ]
    panels.append(
        Panel(
            "gain in test error",
            "",
            "fall of the test error",
            series,
            xticks=x,
            xnames=list(ACTIVATIONS),
            horizontals=[(0.0, "no gain")],
        )
    )
    series = [
        Series("theory", *_levels(rows, "H2, theory"), colour=1),
        Series("simulation", x, [r["H2"] for r in rows], [r["stderr H2"] for r in rows], "simulation", 1),
    ]
    panels.append(
        Panel(
            f"learned fraction of H₂, α = {ALPHAS[1]:g}",
            "",
            "fraction",
            series,
            xticks=x,
            xnames=list(ACTIVATIONS),
            horizontals=[(0.0, LINEAR)],
        )
    )

    usual = [r for r in rows if r["c1"]]
    by_c2 = {
        bool(c2): [e for r, e in zip(rows, parts, strict=True) if r["c1"] and bool(r["c2"]) is c2]
        for c2 in (False, True)
    }
    without = [check(e, -NOTHING, NOTHING, among=len(by_c2[False])) for e in by_c2[False]]
    with_c2 = [check(e, low=0, among=len(by_c2[True])) for e in by_c2[True]]
    odd, even = [r for r in usual if not r["c2"]], [r for r in usual if r["c2"]]
    best = max(usual, key=lambda r: r["gain 0.4"])
    quartic = next(r for r in rows if r["activation"] == "H₁/2 + H₄/20")
    return Outcome(
        name="activations",
        question="How does the gain depend on the activation, and what happens when c₁ = 0 or c₂ = 0?",
        claim="Only the Hermite coefficients matter. c₁ = 0 breaks the rank-one gradient and the gain; c₂ = 0 leaves the quadratic part unlearned.",
        verdict=judge(judged, silent, without, with_c2),
        finding=(
            f"At n = {n}, gains of the {len(usual)} activations with c₁ ≠ 0 within {GAIN_TOLERANCE:.0%} of theory ({seeds} seeds): {tally(judged)}; the largest at α = 0.4 is {best['activation']}'s, {best['gain 0.4']:.3f} ± {best['stderr 0.4']:.1g}. "
            f"With c₁ = 0 (H₂/2) the gain is {pm(gains[-1][0])} at α = 0.2 and {pm(gains[-1][1])} at α = 0.4, and theory refuses: “{told}”. With "
            f"c₂ = 0 the learned fraction of H₂ is at most {max(abs(r['H2']) for r in odd):.3f}, with c₂ ≠ 0 it is "
            f"{min(r['H2'] for r in even):.3f} ({min(even, key=lambda r: r['H2'])['activation']}) to {max(r['H2'] for r in even):.3f} "
            f"({max(even, key=lambda r: r['H2'])['activation']}).{marks(*theories)}"
        ),
        surprise=(
            "For tanh, erf and sin c₂ = 0 is more than a vanishing coefficient: the network is an odd function and cannot contain H₂ at "
            f"all. {quartic['activation']} is not odd and has c₂ = 0 too; its fraction of H₂ is {quartic['H2']:.3f} ± {quartic['stderr H2']:.1g} "
            f"(theory {quartic['H2, theory']:.3f}), {_seen(parts[rows.index(quartic)])}; the fourth power of the direction, a spike above α = 3/8, contains H₂."
        ),
        rows=rows,
        panels=tuple(panels),
        caption=(
            f"Teacher H₁ + H₂/√2, noise 0.5, λ = 0.1, n = {n}, d = n/2, N = 3n/2, η = n^α, literal gradient, {seeds} seeds, mean ± standard "
            "error. Short lines: profile theory, which refuses the last activation (c₁ = 0)."
        ),
        columns=3,
    )


def judge(
    gains: Sequence[Check | Pair], silent: Sequence[Check], without_c2: Sequence[Check], with_c2: Sequence[Check]
) -> str:
    """From the gains beside theory, whether there is none at c₁ = 0, and the H₂ fractions: none at c₂ = 0, some at c₂ ≠ 0."""
    claims: dict[str, Sequence[Check | Pair]] = {
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


def _levels(rows: list[dict[str, Any]], key: str) -> tuple[list[float], list[float]]:
    """A short level at each position where theory has a value, none where it refuses."""
    x, y = [], []
    for i, row in enumerate(rows):
        value = np.nan if row[key] is None else row[key]
        x, y = [*x, i - 0.35, i + 0.35, np.nan], [*y, value, value, np.nan]
    return x, y
