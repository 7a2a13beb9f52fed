"""Claims about train and test error: 5, 6 equivalence, 7, 8 Δ_ℓ and Λ_ℓ, 9 what is learned, 10b no linear part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onestride.compare import ERROR_TOLERANCE, GAIN_TOLERANCE, Agreement, agree, check, together
from onestride.experiments.claim import (
    FAILS,
    HOLDS,
    NOT_YET,
    UNDECIDED,
    Claim,
    Sizes,
    paper_problem,
    pm,
    short,
    undecided,
)
from onestride.plot import Panel, Series
from onestride.result import Estimate, PredictionGrid, Simulation
from onestride.simulation.equivalent import MeasuredEquivalence, MeasuredLimit, measure_equivalence, measure_limit
from onestride.simulation.learned import measure_learned
from onestride.simulation.run import simulate, simulate_grid
from onestride.theory.learned import learned
from onestride.theory.predict import predict, predict_grid

ALPHAS = {0.15: 1, 0.29: 2}  # exponent: window
PRINTED = {"train_loss": ("5", "ridge objective"), "test_error": ("6", "test error")}


def equivalence_runs(sizes: Sizes) -> dict[float, list[MeasuredEquivalence]]:
    """Fits with F, F_ℓ and the Gaussian equivalent at every size, for one exponent in each of windows 1 and 2."""
    return {
        alpha: [
            measure_equivalence(paper_problem(n, exponent=alpha), ell, max(4, sizes.seeds_at(n) // 2)) for n in sizes.ns
        ]
        for alpha, ell in ALPHAS.items()
    }


def equivalence(sizes: Sizes, runs: dict[float, list[MeasuredEquivalence]]) -> list[Claim]:
    """Claims 5 and 6: the errors do not change when F is replaced by F_ℓ, nor by its Gaussian equivalent."""
    claims = []
    for quantity, (number, name) in PRINTED.items():
        rows, panels, gaps, words = [], [], [], []
        for alpha, row in runs.items():
            measured: list[Estimate] = [getattr(m, quantity) for m in row]
            theory = [getattr(predict(m.problem, throw=False), quantity) for m in row]
            series = [Series("theory for F", sizes.ns, theory, colour=0)]
            for v, label in enumerate(("F", f"F_ℓ, ℓ = {row[0].ell}", "Gaussian equivalent")):
                means, errors = [e.mean[v] for e in measured], [e.stderr[v] for e in measured]
                series.append(Series(label, sizes.ns, means, errors, "simulation", v))
            panels.append(Panel(f"α = {alpha:g}", "n", name, series, logx=True, xticks=sizes.ns))
            relative = [e.values[:, 1:] / e.values[:, :1] - 1 for e in measured]
            for n, e, r in zip(sizes.ns, measured, relative, strict=True):
                rows.append(
                    {"alpha": alpha, "n": n} | dict(zip(("F", "F_ell", "gaussian"), map(float, e.mean), strict=True))
                )
                rows[-1] |= {"F_ell_gap": float(r[:, 0].mean()), "gaussian_gap": float(r[:, 1].mean())}
            gaps.append(Estimate(relative[-1]))
            ends = [
                f"{g[:, 0].mean():+.1%}, {g[:, 1].mean():+.1%} at n = {n}"
                for g, n in zip(relative, sizes.ns, strict=True)
            ]
            words.append(f"α = {alpha:g}: {'; '.join(ends[:: len(ends) - 1])}")
        worst = max(float(np.abs(g.mean).max()) for g in gaps)
        among = 2 * len(gaps)
        closed = [check(g[v], -ERROR_TOLERANCE, ERROR_TOLERANCE, among=among) for g in gaps for v in (0, 1)]
        claims.append(
            Claim(
                number,
                f"The {name} is the same with F, with F_ℓ and with the Gaussian equivalent",
                "differences → 0",
                "; ".join(f"{g.mean[0]:+.1%} ± {g.stderr[0]:.1%}, {g.mean[1]:+.1%} ± {g.stderr[1]:.1%}" for g in gaps),
                short(closed, NOT_YET),
                f"Relative change, paired by seed, with F_ℓ and with the Gaussian equivalent. {'. '.join(words)}. The largest at "
                f"the largest size is {worst:.1%}; {ERROR_TOLERANCE:.0%} counts as the same.{undecided(*closed)}",
                rows,
                tuple(panels),
                f"The {name} of ridge regression (λ = 0.1) on F, on F_ℓ and on the Gaussian equivalent of F_ℓ, and the "
                "profile theory for F. ReLU, teacher H₁ + H₂/√2, no noise, c = 1, d = n/2, N = 3n/2.",
            )
        )
    return claims


@dataclass(frozen=True)
class GainRuns:
    """Measured gains at each size, the limit model at the largest, and both theories."""

    grids: list[Simulation]
    finite: list[PredictionGrid]
    limits: list[PredictionGrid]
    model: MeasuredLimit


def gain_runs(sizes: Sizes) -> GainRuns:
    """Simulate the step and the limit model for claims 7 and 8."""
    alphas = list(ALPHAS)
    problems = [paper_problem(n, exponent=alphas[0]) for n in sizes.ns]
    grids = [simulate_grid(p, alphas, [p.ridge], sizes.seeds_at(p.n)) for p in problems]
    finite = [predict_grid(p, alphas, [p.ridge]) for p in problems]
    limits = [predict_grid(p, alphas, [p.ridge], method="plateau") for p in problems]
    return GainRuns(grids, finite, limits, measure_limit(problems[-1], 2, sizes.seeds))


def gains(sizes: Sizes, runs: GainRuns) -> list[Claim]:
    """Claims 7 and 8: the fall of the ridge objective tends to Δ_ℓ, that of the test error to Λ_ℓ."""
    claims = []
    for number, symbol, quantity, error, name in (
        ("7", "Δ", "train_gain", "train_loss", "ridge objective"),
        ("8", "Λ", "test_gain", "test_error", "test error"),
    ):
        limits = [float(getattr(runs.limits[-1], quantity)[i, 0]) for i in range(2)]
        finite = np.array([[float(getattr(g, quantity)[i, 0]) for i in range(2)] for g in runs.finite])
        measured = [[getattr(g, quantity)[i, 0] for i in range(2)] for g in runs.grids]
        model: Estimate = getattr(runs.model, error)
        free = [Estimate(model.values[:, 0] - model.values[:, ell]) for ell in (1, 2)]
        pairs = {"model": (limits, free), "finite": (finite[-1], measured[-1]), "limit": (limits, measured[-1])}
        rows_of = {
            name: [agree(float(v), e, GAIN_TOLERANCE, among=2) for v, e in zip(values, found, strict=True)]
            for name, (values, found) in pairs.items()
        }
        told = {Agreement.AGREES: "is confirmed", Agreement.DIFFERS: "is not confirmed"}
        limit, near = (told.get(together(rows_of[name]), "is undecided at these seeds") for name in ("model", "finite"))
        series, rows = [], []
        for i, (alpha, ell) in enumerate(ALPHAS.items()):
            means, errors = [m[i].mean for m in measured], [m[i].stderr for m in measured]
            series.append(Series(f"α = {alpha:g}", sizes.ns, means, errors, "simulation", i))
            series.append(Series("theory at finite n", sizes.ns, finite[:, i], colour=i))
            series.append(
                Series(
                    f"limit {symbol}{'₁₂'[ell - 1]}",
                    sizes.ns,
                    np.full(len(sizes.ns), limits[i]),
                    kind="limit",
                    colour=i,
                )
            )
            for n, m, f in zip(sizes.ns, measured, finite, strict=True):
                rows.append({"alpha": alpha, "n": n, "measured": float(m[i].mean), "stderr": float(m[i].stderr)})
                rows[-1] |= {"theory": float(f[i]), "limit": limits[i]}
        distant = distant_gains(quantity)
        now = [f"{pm(measured[-1][i])} (theory at this n {finite[-1, i]:.3f})" for i in range(2)]
        claims.append(
            Claim(
                number,
                f"The step lowers the {name} by {symbol}_ℓ",
                f"{symbol}₁ = {limits[0]:.3f}, {symbol}₂ = {limits[1]:.3f}",
                f"{pm(measured[-1][0])}, {pm(measured[-1][1])}",
                limit_verdict(*(together(rows_of[name]) for name in ("limit", "model"))),
                f"At n = {sizes.ns[-1]} the gains at α = 0.15 and 0.29 are {now[0]} and {now[1]}: the theory at this n {near} (within {GAIN_TOLERANCE:.0%}). Ridge with the powers "
                f"of X̃β free gives {pm(free[0])} and {pm(free[1])}: the limit itself {limit}. At n = 10⁹ the finite-n theory has reached "
                f"{distant[0]:.3f} and {distant[1]:.3f}.{undecided(*(row for found in rows_of.values() for row in found))}",
                rows,
                (Panel(f"gain, {name}", "n", f"fall of the {name}", series, logx=True, xticks=sizes.ns),),
                f"Fall of the {name} due to one step (λ = 0.1, c = 1): simulation, profile theory at the same n, and the limit "
                f"{symbol}_ℓ of the window. ReLU, teacher H₁ + H₂/√2, no noise, d = n/2, N = 3n/2.",
            )
        )
    return claims


def limit_verdict(reached: Agreement, model: Agreement) -> str:
    """Holds when the limit is reached; not at this size when it is not, but the limit model has it; fails when that has not."""
    if model is Agreement.DIFFERS:
        return FAILS
    if reached is Agreement.DIFFERS and model is Agreement.AGREES:
        return NOT_YET
    return HOLDS if reached is Agreement.AGREES else UNDECIDED


def distant_gains(quantity: str, n: int = 10**9) -> list[float]:
    """The finite-n theory's gains at a size nobody can simulate, one for each exponent."""
    far = predict_grid(paper_problem(n, exponent=0.0), list(ALPHAS), [0.1], method="profile", level="T2")
    return [float(getattr(far, quantity)[i, 0]) for i in range(len(ALPHAS))]


def learned_parts(sizes: Sizes) -> Claim:
    """Claim 9: a constant step learns nothing beyond the linear part, α > 1/4 learns the quadratic one."""
    settings = {"constant step, η = 1": 0.0, "α = 0.3": 0.3, "α = 0.4": 0.4}
    measured, theory = {}, {}
    for label, alpha in settings.items():
        problems = [paper_problem(n, exponent=alpha) for n in sizes.ns]
        runs = [measure_learned(p, max(4, sizes.seeds_at(p.n) // 2)) for p in problems]
        measured[label] = [Estimate(m.fraction.values[:, 1]) for m in runs]
        theory[label] = [float(learned(p).fraction[1]) for p in problems]
    constant, growing = measured["constant step, η = 1"][-1], measured["α = 0.3"][-1]
    checks = [check(constant, -0.02, 0.02, among=2), check(growing, low=0, among=2)]
    series = []
    for i, label in enumerate(settings):
        means, errors = [e.mean for e in measured[label]], [e.stderr for e in measured[label]]
        series += [Series(label, sizes.ns, means, errors, "simulation", i)]
        series += [Series("theory", sizes.ns, theory[label], colour=i)]
    return Claim(
        "9",
        "A constant step learns only the linear part; α > 1/4 learns the quadratic part too",
        "0; above 0",
        f"{pm(constant, 2)}; {pm(growing)}",
        short(checks),
        f"Fraction of the teacher's H₂ component in the trained predictor at n = {sizes.ns[-1]}: {pm(constant)} for η = 1 (theory "
        f"{theory['constant step, η = 1'][-1]:.4f}), {pm(growing)} for α = 0.3 (theory {theory['α = 0.3'][-1]:.3f}), "
        f"{pm(measured['α = 0.4'][-1])} for α = 0.4 (theory {theory['α = 0.4'][-1]:.3f}).{undecided(*checks)}",
        [
            {"step": label, "n": n, "fraction_H2": float(e.mean), "stderr": float(e.stderr), "theory": t}
            for label in settings
            for n, e, t in zip(sizes.ns, measured[label], theory[label], strict=True)
        ],
        (Panel("learned part of degree 2", "n", "fraction of c⋆₂ recovered", series, logx=True, xticks=sizes.ns),),
        "E[f̂ H₂(β⋆ᵀx)]/(2c⋆₂) of the trained predictor: 1 is fully learned. ReLU, teacher H₁ + H₂/√2, λ = 0.1, c = 1, "
        "d = n/2, N = 3n/2.",
    )


def no_linear_teacher(sizes: Sizes) -> Claim:
    """Claim 10b: without a linear part of the teacher the step does not help."""
    n = sizes.ns[-1]
    quadratic = paper_problem(n, exponent=0.29, teacher=(0, 0, 2**-0.5), noise=0.5)
    usual = paper_problem(n, exponent=0.29, noise=0.5)
    seeds = sizes.seeds_at(n)
    broken, helped = simulate(quadratic, seeds).test_gain, simulate(usual, seeds).test_gain
    none = check(broken, high=0.05 * float(helped.mean))
    return Claim(
        "10b",
        "A teacher without linear part gives no gain",
        "0",
        f"{pm(broken, 2)} (with one: {pm(helped)})",
        short([none]),
        f"Test gain of one step at α = 0.29, n = {n}, noise 0.5: {pm(broken)} for the teacher H₂/√2 (a negative gain is the cost of "
        f"a step in a random direction), {pm(helped)} for H₁ + H₂/√2. 5 % of that counts as no gain.{undecided(none)}",
        [
            {"teacher": "H2/sqrt2", "test_gain": float(broken.mean), "stderr": float(broken.stderr)},
            {"teacher": "H1 + H2/sqrt2", "test_gain": float(helped.mean), "stderr": float(helped.stderr)},
        ],
    )
