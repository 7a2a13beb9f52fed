"""`constant-step`: η = O(1) as in Ba et al. 2022: the gain, the linear limit, and the degree-two part that stays unlearned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onestride.compare import GAIN_TOLERANCE, Agreement, Check, agree, check, seeds_words, together
from onestride.conventions import problem_from
from onestride.experiments.claim import FAILS, HOLDS, NOT_YET, UNDECIDED, growth, marks, pm, tally, worded
from onestride.experiments.outcome import Outcome, Settings
from onestride.plot import Panel, Series
from onestride.problem import Problem, Step
from onestride.result import Estimate
from onestride.simulation.learned import measure_learned
from onestride.simulation.run import simulate_grid
from onestride.theory.learned import learned
from onestride.theory.predict import predict_grid

ETAS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
GROWING = 0.3  # exponent of the step that is compared with the constant ones
STEPS = {"η = 1": Step(constant=1.0), "η = 4": Step(constant=4.0), f"η = n^{GROWING:g}": Step(exponent=GROWING)}
NOTHING = 0.02  # a learned fraction below this is none
FIGURE_3 = {"psi2": 2, "lam": 1e-4, "activation": "tanh", "teacher": "softplus", "noise": 0.25}


def quadratic(n: int) -> Problem:
    """ReLU student of H₁ + H₂/√2: the student has a degree-two part to learn with."""
    return Problem(n=n, d=n // 2, N=3 * n // 2, teacher=(0, 1, 2**-0.5), noise=0.5, ridge=0.3, gradient="labels")


def run(settings: Settings) -> Outcome:
    """Gain and learned parts against η, the degree-two part against n, and Ba et al.'s Figure 3(a)."""
    ns = settings.pick((80, 160), (200, 400, 800), (500, 1000, 2000, 4000))
    seeds = settings.seed_count(6, 10, 12)
    problem, noise = quadratic(ns[-1]).replace(step=Step()), quadratic(ns[-1]).noise ** 2
    bound = problem.target.nonlinear_power
    exponents = np.log(ETAS) / np.log(problem.n)  # η = n^α
    smooth = np.geomspace(ETAS[0], ETAS[-1], settings.pick(5, 15, 25))
    measured = simulate_grid(problem, exponents, [problem.ridge], seeds)
    theory = predict_grid(problem, np.log(smooth) / np.log(problem.n), [problem.ridge])
    at_points = predict_grid(problem, exponents, [problem.ridge])
    settings.progress(0.4)
    gain, risk = measured.test_gain, Estimate(measured.test_error.values - noise)
    rows = [
        _row("gain", eta, problem.n, float(at_points.test_gain[i, 0]), gain[i, 0]) for i, eta in enumerate(ETAS)
    ] + [
        _row("risk", eta, problem.n, float(at_points.test_error[i, 0]) - noise, risk[i, 0])
        for i, eta in enumerate(ETAS)
    ]

    second: dict[str, list[Estimate]] = {label: [] for label in STEPS}
    expected: dict[str, list[float]] = {label: [] for label in STEPS}
    for n in ns:
        for label, step in STEPS.items():
            stepped = quadratic(n).replace(step=step)
            more = int(seeds * min(4.0, (ns[-1] / n) ** 1.5))
            second[label].append(Estimate(measure_learned(stepped, more).fraction.values[:, 1]))
            expected[label].append(float(learned(stepped).fraction[1]))
            rows.append(_row("fraction of H2", stepped.eta, n, expected[label][-1], second[label][-1]))
    settings.progress(0.75)
    figure3, checks = _figure_3(settings, seeds, rows)

    first, four, growing = (second[label][-1] for label in STEPS)
    trend = f"from {pm(second['η = 4'][0], 2)} to {pm(second['η = 4'][-1], 2)}"
    if all(e.mean > 0 for e in second["η = 4"]):
        trend = "like n^({:.2f} ± {:.2f})".format(*growth(ns, second["η = 4"]))
    risks = [(risk[i, 0], bound) for i in range(len(ETAS))] + checks
    above = [check(e, low=limit, among=len(risks)) for e, limit in risks]
    margin = min((float(e.mean) - limit) / float(e.stderr) for e, limit in risks)
    gains = [agree(r["theory"], gain[i, 0], GAIN_TOLERANCE, among=len(ETAS)) for i, r in enumerate(rows[: len(ETAS)])]
    one_step = ETAS.index(1.0)
    far = {label: float(learned(quadratic(10**6).replace(step=step)).fraction[1]) for label, step in STEPS.items()}
    return Outcome(
        name="constant-step",
        question="What does a step of constant size buy, and does it learn anything beyond a linear function?",
        claim=(
            "With η = O(1) the test error falls if c₁, c⋆₁ and η are not 0, but never below the power of the teacher's nonlinear "
            "part: no nonlinear part is learned (Ba et al. 2022)."
        ),
        verdict=judge(gain[ETAS.index(4.0), 0], above, second["η = 1"], second["η = 4"]),
        finding=(
            f"At n = {problem.n} the step η = 1 lowers the test error by {pm(gain[one_step, 0])} (theory "
            f"{float(at_points.test_gain[one_step, 0]):.3g}); gains within {GAIN_TOLERANCE:.0%} of theory: {tally(gains)}. Risks above the kernel lower bound: "
            f"{tally(above)}, the closest {margin:+.1f} standard errors from it. The learned fraction of H₂ is {pm(first, 2)} at "
            f"η = 1 and {pm(four, 2)} at η = 4 (theory {expected['η = 4'][-1]:.3g}), which goes "
            f"{trend} with n; at η = n^{GROWING:g} it is {pm(growing, 2)}. Theory at n = 10⁶ "
            f"has {far['η = 4']:.1g} and {far[f'η = n^{GROWING:g}']:.2g}. The reason: the H₂ spike has "
            f"strength c₂(c₁η)²·O(n^(−1/2)) beside a bulk of order 1, so it needs η² ≫ √n.{marks(at_points)}"
        ),
        surprise=_large_constants(problem, gain[-1, 0], [second["η = 1"][0], second["η = 4"][0]], expected, ns[0]),
        rows=rows,
        panels=(
            Panel(
                "gain",
                "η",
                "fall of the test error",
                (
                    Series("theory", smooth, theory.test_gain[:, 0]),
                    Series("simulation", ETAS, gain.mean[:, 0], gain.stderr[:, 0], "simulation"),
                ),
                logx=True,
                xticks=ETAS,
            ),
            Panel(
                "risk (without noise)",
                "η",
                "test error − noise²",
                (
                    Series("theory", smooth, theory.test_error[:, 0] - noise),
                    Series("simulation", ETAS, risk.mean[:, 0], risk.stderr[:, 0], "simulation"),
                ),
                logx=True,
                xticks=ETAS,
                horizontals=[
                    (float(at_points.untrained.test_error[0, 0]) - noise, "random features"),
                    (bound, "kernel lower bound"),
                ],
            ),
            Panel(
                "why: the degree-two part",
                "n",
                "learned fraction of H₂",
                [
                    Series(k, ns, [e.mean for e in v], [e.stderr for e in v], "simulation", i)
                    for i, (k, v) in enumerate(second.items())
                ]
                + [Series(f"theory, {k}", ns, v, colour=i) for i, (k, v) in enumerate(expected.items())],
                logx=True,
                xticks=ns,
            ),
            figure3,
        ),
        caption=(
            f"First three panels: ReLU, teacher H₁ + H₂/√2, noise 0.5, λ = 0.3, d = n/2, N = 3n/2, labels-only gradient, n = {problem.n} "
            f"where it is not the axis, {seeds} seeds there and up to four times as many at smaller n. Last: the setting of Ba et al. 2022, Figure 3(a): tanh "
            f"student, softplus teacher, noise 0.25, λ = 1e-4, N = 2d, d = {settings.pick(60, 200, 512)}. Mean ± standard error."
        ),
    )


def _large_constants(
    problem: Problem, gain: Estimate, second: Sequence[Estimate], expected: dict[str, list[float]], n: int
) -> str:
    """The largest constant as a power of n, what of H₂ it learns in theory, and the fractions at the smallest n."""
    alpha, part = (
        np.log(ETAS[-1]) / np.log(problem.n),
        learned(problem.replace(step=Step(constant=ETAS[-1]))).fraction[1],
    )
    told = []
    for label, found in zip(("η = 1", "η = 4"), second, strict=True):
        room = Estimate(found.values - expected[label][0])
        how = worded(
            room, NOTHING, above="above", below="below", equal=f"within {NOTHING:g} of", unclear="not told apart from"
        )
        told.append(f"at {label} {pm(found, 2)} is {how} theory ({expected[label][0]:.2g})")
    return (
        f"At realistic n a constant is not small: η = {ETAS[-1]:g} at n = {problem.n} is n^{alpha:.2f}, {'above' if alpha > 0.25 else 'below'} the threshold 1/4, and its gain of {pm(gain)} "
        f"comes with a learned fraction {part:.2g} of H₂ in theory, which the limit theorem puts at 0. The fraction of H₂ at the smallest n, {n}: {'; '.join(told)} (n is {n / (n // 2) ** 2 * 2:.2g} of d²/2)."
    )


def _figure_3(settings: Settings, seeds: int, rows: list[dict[str, Any]]) -> tuple[Panel, list[tuple[Estimate, float]]]:
    """Risk against n/d at η = 0 and a constant η; also (risk, lower bound) for every point."""
    d = settings.pick(60, 200, 512)
    ratios = settings.pick((1.0, 4.0), (0.5, 1.0, 2.0, 3.0, 4.0, 6.0), (0.5, 1.0, 2.0, 3.0, 4.0, 6.0))
    curve = np.linspace(ratios[0], ratios[-1], settings.pick(4, 23, 23))
    etas, noise = (4.0,), FIGURE_3["noise"] ** 2

    def at(ratio: float) -> tuple[Problem, np.ndarray]:
        p = problem_from("ba2022", d=d, psi1=float(ratio), eta=1.0, **FIGURE_3)
        return p, np.log(etas) / np.log(p.n)

    values = []
    for ratio in ratios:
        p, exponents = at(ratio)
        s = simulate_grid(p, exponents, [p.ridge], seeds)
        assert s.untrained is not None
        values.append(
            Estimate(np.concatenate([s.untrained.test_error.values[:, :1, 0], s.test_error.values[:, :, 0]], 1) - noise)
        )
        t = predict_grid(p, exponents, [p.ridge])
        for i, eta in enumerate((0.0, *etas)):
            expected = t.untrained.test_error[0, 0] if i == 0 else t.test_error[i - 1, 0]
            rows.append(_row("risk, Figure 3a", eta, p.n, float(expected) - noise, values[-1][i]))
    grids = [predict_grid(p, e, [p.ridge]) for p, e in map(at, curve)]
    bound = at(1.0)[0].target.nonlinear_power
    series = []
    for i, eta in enumerate((0.0, *etas)):
        line = [float(g.untrained.test_error[0, 0] if i == 0 else g.test_error[i - 1, 0]) - noise for g in grids]
        series.append(Series(f"theory, η = {eta:g}", curve, line, colour=i))
        series.append(
            Series(
                f"simulation, η = {eta:g}",
                ratios,
                [v.mean[i] for v in values],
                [v.stderr[i] for v in values],
                "simulation",
                i,
            )
        )
    panel = Panel(
        "Ba et al., Figure 3(a)",
        "n/d",
        "test error − noise²",
        series,
        logy=True,
        horizontals=[(bound, "kernel lower bound")],
    )
    return panel, [(v[i], bound) for v in values for i in range(1 + len(etas))]


def judge(gain: Estimate, above: Sequence[Check], at_one: Sequence[Estimate], at_four: Sequence[Estimate]) -> str:
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


def _row(quantity: str, eta: float, n: int, theory: float, measured: Estimate) -> dict[str, Any]:
    row = {"quantity": quantity, "eta": float(eta), "n": n, "theory": theory}
    return row | {"measured": float(measured.mean), "stderr": float(measured.stderr)}
