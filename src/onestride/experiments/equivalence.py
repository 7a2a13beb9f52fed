"""`equivalence`: do train and test error change when F is replaced by F_ℓ, or F₀ by its Gaussian equivalent?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onestride.compare import ERROR_TOLERANCE, Agreement, Check, check, together
from onestride.experiments.claim import HOLDS, NOT_YET, Sizes, decide, growth, paper_problem, pm, slope_check, tally
from onestride.experiments.claims_features import constant_part
from onestride.experiments.outcome import Outcome, Settings
from onestride.plot import Panel, Series
from onestride.result import Estimate
from onestride.simulation.equivalent import HIGHEST, VARIANTS, measure_expansions
from onestride.theory.predict import predict

ALPHAS = {0.15: 1, 0.29: 2}  # exponent: window
QUANTITIES = {"train_loss": "ridge objective", "test_error": "test error"}
CURVES = {"F_0": "F₀", "F_1": "F₁", "F_2": "F₂", "F_4": "F₄", "Gaussian F_window": "Gaussian"}  # F₃ = F₂: c₃ = 0


def judge(gaps: Sequence[Check]) -> str:
    """Is every relative gap of F_ℓ and of the Gaussian equivalents, at the largest n, within ERROR_TOLERANCE of 0?"""
    above = sum(gap.differs for gap in gaps)
    within = f"{ERROR_TOLERANCE:.0%}"
    return decide(
        gaps, holds=f"{HOLDS} within {within}", fails=f"{NOT_YET}: {above} of {len(gaps)} gaps are above {within}"
    )


def run(settings: Settings) -> Outcome:
    """Fit the ridge regression on every matrix, on the same data, for both gradients and one exponent in each of windows 1 and 2."""
    ns = settings.pick((100, 200), (300, 600, 1200), (500, 1000, 2000, 4000))
    sizes = Sizes(ns, settings.seed_count(3, 10, 10))
    gradients = ("labels", "full")
    runs, done = {}, 0.0
    for gradient in gradients:
        for alpha, ell in ALPHAS.items():
            runs[gradient, alpha] = []
            for n in ns:
                problem = paper_problem(n, exponent=alpha, gradient=gradient)
                runs[gradient, alpha].append(measure_expansions(problem, ell, sizes.seeds_at(n)))
                done += n**1.5 / (4 * sum(m**1.5 for m in ns))
                settings.progress(0.98 * done)

    rows, panels, slopes = [], [], {}
    gaps: dict[str, Estimate] = {}
    for (gradient, alpha), row in runs.items():
        ell, where = ALPHAS[alpha], f"α = {alpha:g}, {gradient}"
        for quantity, label in QUANTITIES.items():
            measured: list[Estimate] = [getattr(m, quantity) for m in row]
            relative = {
                name: [Estimate(e.values[:, v] / e.values[:, 0] - 1) for e in measured]
                for v, name in enumerate(VARIANTS)
            }
            plain = [Estimate(e.values[:, -2] / e.values[:, 1] - 1) for e in measured]  # Gaussian F₀ against F₀
            for i, n in enumerate(ns):
                entry = {"gradient": gradient, "alpha": alpha, "window": ell, "quantity": quantity, "n": n}
                entry |= {
                    "F": float(measured[i].mean[0]),
                    "theory_F": float(getattr(predict(row[i].problem, throw=False), quantity)),
                }
                for name in VARIANTS[1:]:
                    entry |= {
                        f"{name} gap": float(relative[name][i].mean),
                        f"{name} stderr": float(relative[name][i].stderr),
                    }
                entry |= {"Gaussian F_0 against F_0": float(plain[i].mean), "stderr": float(plain[i].stderr)}
                rows.append(entry | {"column_means": float(row[i].column_means.mean)})
            for name, e in ((f"F_{ell}", relative[f"F_{ell}"][-1]), ("Gaussian", relative["Gaussian F_window"][-1])):
                gaps[f"{name} ({where}, {label})"] = e
            gaps[f"Gaussian F_0 against F_0 ({where}, {label})"] = plain[-1]
            if gradient == "full":
                theory = [entry["theory_F"] for entry in rows[-len(ns) :]]
                panels += _panels(ns, measured, relative, theory, label, f"α = {alpha:g} (ℓ = {ell})")
        slopes[gradient, alpha] = growth(ns, [m.column_means for m in row])

    def gap(gradient: str, alpha: float, name: str, quantity: str, n: int) -> str:
        found = next(
            r for r in rows if (r["gradient"], r["alpha"], r["quantity"], r["n"]) == (gradient, alpha, quantity, n)
        )
        return f"{found[f'{name} gap']:+.1%} ± {found[f'{name} stderr']:.1%}"

    ends = (ns[0], ns[-1])
    trend = "; ".join(
        f"α = {alpha:g}: F_{ell} {' → '.join(gap('full', alpha, f'F_{ell}', 'test_error', n) for n in ends)}, "
        f"F_0 {gap('full', alpha, 'F_0', 'test_error', ns[-1])}, F_4 {gap('full', alpha, 'F_4', 'test_error', ns[-1])}, "
        f"Gaussian {' → '.join(gap('full', alpha, 'Gaussian F_window', 'test_error', n) for n in ends)}"
        for alpha, ell in ALPHAS.items()
    )
    strong = runs["full", 0.29]
    (up, up_se), predicted = slopes["full", 0.29], constant_part(strong[-1].problem)
    worst = max(gaps, key=lambda name: abs(gaps[name].mean))
    checks = [check(e, -ERROR_TOLERANCE, ERROR_TOLERANCE, among=len(gaps)) for e in gaps.values()]
    moves = {Agreement.AGREES: "still falls with n", Agreement.DIFFERS: "does not fall with n"}.get(
        slope_check((up, up_se), sizes.seeds, 0.0).outcome, "is not told to fall or to rise with n"
    )
    closed = {
        Agreement.AGREES: "The errors close their gaps all the same",
        Agreement.DIFFERS: "Not all gaps of the errors are closed at this n",
        Agreement.UNDECIDED: "Whether the errors close their gaps all the same is undecided at these seeds",
    }[together(checks)]
    return Outcome(
        name="equivalence",
        question="Do train and test error change when F is replaced by its expansion F_ℓ, or F₀ by a Gaussian matrix?",
        claim="In window ℓ both errors are the same in the limit with F, with F_ℓ, and with F₀ in it replaced by c₁X̃W₀ᵀ + c_{>1}Z.",
        verdict=judge(checks),
        finding=(
            f"Relative change of the test error, literal gradient, paired by seed, n = {ends[0]} → {ends[1]}. {trend}. The largest of the {len(gaps)} gaps that the "
            f"claim sends to zero is {gaps[worst].mean:+.1%} ± {gaps[worst].stderr:.1%} at n = {ns[-1]}: {worst}. Within {ERROR_TOLERANCE:.0%}: {tally(checks)}."
        ),
        surprise=(
            "F − F_ℓ itself should not vanish for α > 1/4: the gradient's fluctuations lengthen the rows of W, which shifts the column means of F. At α = 0.29 those of F − F₂ "
            f"have length {pm(strong[0].column_means)} at n = {ns[0]} and {pm(strong[-1].column_means)} at n = {ns[-1]}, n^({up:.2f} ± {up_se:.2f}), which {moves}; "
            f"theory has a part of {predicted:.3f} at this n that grows like n^{2 * 0.29 - 0.5:.2f}. {closed}: that part is a constant feature, of no use for centred labels. "
            f"Terms beyond the window, test error at n = {ns[-1]}: F_2 {gap('full', 0.29, 'F_2', 'test_error', ns[-1])}, F_{HIGHEST} {gap('full', 0.29, f'F_{HIGHEST}', 'test_error', ns[-1])}."
        ),
        rows=rows,
        panels=tuple(panels),
        caption=(
            "Ridge regression (λ = 0.1) on F = σ(X̃Wᵀ), on F_ℓ = F₀ + Σ_{k≤ℓ} c_k(c₁η)^k(X̃β)^k(a^k)ᵀ, and on the Gaussian equivalent, F_ℓ of the window with F₀ replaced by "
            "c₁X̃W₀ᵀ + c_{>1}Z. Left: errors, with the profile theory for F (line). Right: relative change against F, paired by seed. Literal gradient (the labels-only one "
            "is in the numbers). ReLU (c₃ = 0, so F₃ = F₂), teacher H₁ + H₂/√2, no noise, η = n^α, d = n/2, N = 3n/2; mean ± standard error, "
            f"{sizes.seeds_at(ns[0])} seeds at n = {ns[0]} to {sizes.seeds} at n = {ns[-1]}. Points are shifted sideways to be seen."
        ),
    )


def _panels(
    ns: Sequence[int],
    measured: list[Estimate],
    relative: dict[str, list[Estimate]],
    theory: list[float],
    label: str,
    where: str,
) -> list[Panel]:
    """The errors of F, of F₀ and of the Gaussian equivalent; and the relative change of every variant."""
    errors = [Series("F, theory", ns, theory, colour=0)]
    for name, drawn, colour, shift in (
        ("F", "F", 0, 1.0),
        ("F_0", "F₀", 3, 1.03),
        ("Gaussian F_window", "Gaussian", 4, 1.06),
    ):
        v = VARIANTS.index(name)
        means, spread = [e.mean[v] for e in measured], [e.stderr[v] for e in measured]
        errors.append(Series(drawn, np.asarray(ns) * shift, means, spread, "simulation", colour))
    changes = []
    for i, (name, drawn) in enumerate(CURVES.items()):
        means, spread = [100 * e.mean for e in relative[name]], [100 * e.stderr for e in relative[name]]
        colour = (3, 0, 1, 2, 4)[i]
        changes.append(Series(drawn, np.asarray(ns) * 1.03**i, means, spread, "simulation", colour))
    options = {"logx": True, "xticks": ns}
    zero = [(0.0, "F")]
    return [
        Panel(f"{label}, {where}", "n", label, errors, **options),
        Panel(f"{label}, {where}", "n", "change against F in %", changes, horizontals=zero, **options),
    ]
