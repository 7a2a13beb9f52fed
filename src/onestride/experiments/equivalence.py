"""`equivalence`: do train and test error change when F is replaced by F_ℓ, or F₀ by its Gaussian equivalent?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from onestride.comparison import ERROR_TOLERANCE, Check, check, together
from onestride.experiments.kit import (
    ERRORS,
    WINDOWS,
    constant_part,
    ns_of,
    paper_problem,
    pm,
    points,
    seeds_along,
    seeds_of,
)
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.verdict import HOLDS, NOT_YET, decide, growth, slope_check, spoken, tally
from onestride.plot import Panel, Series
from onestride.result import Estimate, Prediction
from onestride.simulation.equivalent import HIGHEST, VARIANTS, MeasuredExpansions, measure_expansions
from onestride.theory.predict import predict

CLAIM = "In window ℓ both errors are the same in the limit with F, with F_ℓ, and with F₀ in it replaced by c₁X̃W₀ᵀ + c_{>1}Z."
SIZES = {"ns": ((100, 200), (300, 600, 1200), (500, 1000, 2000, 4000)), "seeds": (3, 10, 8), "points": (5, 15, 15)}
CURVES = {"F_0": "F₀", "F_1": "F₁", "F_2": "F₂", "F_4": "F₄", "Gaussian F_window": "Gaussian"}  # F₃ = F₂: c₃ = 0
BEND = 5.0
CHANGE = f"change in %, logarithmic beyond {BEND:g}"
PLAIN = "Gaussian F_0 against F_0"


@dataclass(frozen=True)
class Case:
    """One gradient and exponent: the fits on every matrix and the theory for F, along n; theory alone at the sizes `fine`."""

    gradient: str
    alpha: float
    runs: list[MeasuredExpansions]
    theory: list[Prediction]
    fine: list[Prediction]

    def changes(self, quantity: str) -> dict[str, list[Estimate]]:
        """Relative change against F with each of VARIANTS, and of the Gaussian F₀ against F₀, paired by seed, along n."""
        values = [getattr(run, quantity).values for run in self.runs]
        found = {name: [Estimate(e[:, v] / e[:, 0] - 1) for e in values] for v, name in enumerate(VARIANTS)}
        return found | {PLAIN: [Estimate(e[:, -2] / e[:, 1] - 1) for e in values]}


def measure(size: SimpleNamespace, progress: Progress) -> list[Case]:
    """Fit the ridge regression on every matrix, on the same data, for both gradients and one exponent in each of windows 1 and 2."""
    cases, done = [], 0.0
    for gradient in ("labels", "full"):
        for alpha, ell in WINDOWS.items():
            runs = []
            for n, seeds in seeds_along(size.ns, size.seeds):
                problem = paper_problem(n, exponent=alpha, gradient=gradient)
                runs.append(measure_expansions(problem, ell, seeds, device=size.device))
                done += n**1.5 / (4 * sum(m**1.5 for m in size.ns))
                progress(0.98 * done)
            problems = [run.problem for run in runs]
            along = np.geomspace(size.ns[0], size.ns[-1], size.points).round().astype(int)
            drawn = along if gradient == "full" else []
            between = [paper_problem(int(n), exponent=alpha, gradient=gradient) for n in drawn]
            theory, fine = ([predict(p, throw=False) for p in some] for some in (problems, between))
            cases.append(Case(gradient, alpha, runs, theory, fine))
    return cases


def judge(cases: list[Case]) -> Judgement:
    """Every gap that the claim sends to zero, at the largest n; the trend in n and the column means of F − F_ℓ."""
    gaps: dict[str, Estimate] = {}
    for case in cases:
        for quantity, label in ERRORS.items():
            changes = case.changes(quantity)
            for words, name in (
                (f"F_{WINDOWS[case.alpha]}", f"F_{WINDOWS[case.alpha]}"),
                ("Gaussian", "Gaussian F_window"),
                (PLAIN, PLAIN),
            ):
                gaps[f"{words} (α = {case.alpha:g}, {case.gradient}, {label})"] = changes[name][-1]
    checks = [check(e, -ERROR_TOLERANCE, ERROR_TOLERANCE, among=len(gaps)) for e in gaps.values()]
    worst = max(gaps, key=lambda name: abs(gaps[name].mean))
    literal, ns = [case for case in cases if case.gradient == "full"], ns_of(cases[0].runs)
    return Judgement(
        words=_words(checks),
        finding=(
            f"Relative change of the test error, literal gradient, paired by seed, n = {ns[0]} → {ns[-1]}. "
            f"{'; '.join(map(_trend, literal))}. The largest of the {len(gaps)} gaps that the claim sends to zero is {_said(gaps[worst])} "
            f"at n = {ns[-1]}: {worst}. Within {ERROR_TOLERANCE:.0%}: {tally(checks)}."
        ),
        surprise=_column_means(literal[-1], checks),
        rows=[row for case in cases for row in _rows(case)],
    )


def _words(gaps: Sequence[Check]) -> str:
    """Is every relative gap of F_ℓ and of the Gaussian equivalents, at the largest n, within ERROR_TOLERANCE of 0?"""
    above = sum(gap.differs for gap in gaps)
    within = f"{ERROR_TOLERANCE:.0%}"
    return decide(
        gaps, holds=f"{HOLDS} within {within}", fails=f"{NOT_YET}: {above} of {len(gaps)} gaps are above {within}"
    )


def _said(gap: Estimate) -> str:
    return f"{gap.mean:+.1%} ± {gap.stderr:.1%}"


def _trend(case: Case) -> str:
    """The test error of one exponent at the smallest and the largest n."""
    changes, name = case.changes("test_error"), f"F_{WINDOWS[case.alpha]}"
    ends = {key: f"{_said(found[0])} → {_said(found[-1])}" for key, found in changes.items()}
    return (
        f"α = {case.alpha:g}: {name} {ends[name]}, F_0 {_said(changes['F_0'][-1])}, F_4 {_said(changes['F_4'][-1])}, "
        f"Gaussian {ends['Gaussian F_window']}"
    )


def _column_means(case: Case, checks: Sequence[Check]) -> str:
    """What remains of F − F_ℓ in window 2, and that the errors do not mind."""
    means, ns, alpha = [run.column_means for run in case.runs], ns_of(case.runs), case.alpha
    slope = growth(ns, means)
    falls = slope_check(slope, len(case.runs[-1].seeds), 0.0).outcome
    moves = spoken(falls, "still falls with n", "does not fall with n", "is not told to fall or to rise with n")
    closed = spoken(
        together(checks),
        "The errors close their gaps all the same",
        "Not all gaps of the errors are closed at this n",
        "Whether the errors close their gaps all the same is undecided at these seeds",
    )
    beyond = {name: _said(found[-1]) for name, found in case.changes("test_error").items()}
    return (
        f"F − F_ℓ itself should not vanish for α > 1/4: the gradient's fluctuations lengthen the rows of W, which shifts the column means of F. At α = {alpha:g} those of F − F₂ "
        f"have length {pm(means[0])} at n = {ns[0]} and {pm(means[-1])} at n = {ns[-1]}, n^({slope[0]:.2f} ± {slope[1]:.2f}), which {moves}; "
        f"theory has a part of {constant_part(case.runs[-1].problem):.3f} at this n that grows like n^{2 * alpha - 0.5:.2f}. {closed}: that part is a constant feature, of no use for centred labels. "
        f"Terms beyond the window, test error at n = {ns[-1]}: F_2 {beyond['F_2']}, F_{HIGHEST} {beyond[f'F_{HIGHEST}']}."
    )


def _rows(case: Case) -> list[dict]:
    rows = []
    for quantity in ERRORS:
        changes = case.changes(quantity)
        for i, (run, theory) in enumerate(zip(case.runs, case.theory, strict=True)):
            row = {"gradient": case.gradient, "alpha": case.alpha, "window": WINDOWS[case.alpha], "quantity": quantity}
            row |= {"n": run.problem.n, "F": float(getattr(run, quantity).mean[0])}
            row |= {"theory_F": float(getattr(theory, quantity))}
            for name in VARIANTS[1:]:
                gap = changes[name][i]
                row |= {f"{name} gap": float(gap.mean), f"{name} stderr": float(gap.stderr)}
            row |= {PLAIN: float(changes[PLAIN][i].mean), "stderr": float(changes[PLAIN][i].stderr)}
            rows.append(row | {"column_means": float(run.column_means.mean)})
    return rows


def draw(cases: list[Case]) -> Figure:
    """Errors and their changes along n, for the literal gradient."""
    panels = [panel for case in cases if case.gradient == "full" for name in ERRORS for panel in _panels(case, name)]
    caption = (
        "Ridge regression (λ = 0.1) on F = σ(X̃Wᵀ), on F_ℓ = F₀ + Σ_{k≤ℓ} c_k(c₁η)^k(X̃β)^k(a^k)ᵀ, and on the Gaussian equivalent, F_ℓ of the window with F₀ replaced by "
        "c₁X̃W₀ᵀ + c_{>1}Z. Left: errors, with the profile theory for F (line). Right: relative change against F, paired by seed. Literal gradient (the labels-only one "
        "is in the numbers). ReLU (c₃ = 0, so F₃ = F₂), teacher H₁ + H₂/√2, no noise, η = n^α, d = n/2, N = 3n/2; mean ± standard error, "
        f"{seeds_of(cases[0].runs)}. Points are shifted sideways to be seen."
    )
    shown = {case.alpha: case.changes("test_error") for case in cases if case.gradient == "full"}
    title = f"Test error at n = {cases[0].runs[-1].problem.n} against that with F, paired: " + "; ".join(
        f"α = {alpha:g}: F{'₀₁₂'[WINDOWS[alpha]]} {_percent(found[f'F_{WINDOWS[alpha]}'][-1])}, "
        f"Gaussian {_percent(found['Gaussian F_window'][-1])}"
        for alpha, found in shown.items()
    )
    return Figure(panels, caption, title=title)


def _percent(change: Estimate) -> str:
    return f"{100 * change.mean:+.1f} ± {100 * change.stderr:.1f} %"


def _panels(case: Case, quantity: str) -> list[Panel]:
    """The errors of F, of F₀ and of the Gaussian equivalent; and the relative change of every variant."""
    ns, changes = np.asarray(ns_of(case.runs)), case.changes(quantity)
    fine = [t.problem.n for t in case.fine], [getattr(t, quantity) for t in case.fine]
    errors = [Series("F, theory", *fine, colour=0)]
    for name, drawn, colour, shift in (
        ("F", "F", 0, 1.0),
        ("F_0", "F₀", 3, 1.03),
        ("Gaussian F_window", "Gaussian", 4, 1.06),
    ):
        found = [getattr(run, quantity)[VARIANTS.index(name)] for run in case.runs]
        errors.append(points(drawn, ns * shift, found, colour))
    relative = [
        points(drawn, ns * 1.03**i, [Estimate(100 * e.values) for e in changes[name]], (3, 1, 2, 5, 4)[i])
        for i, (name, drawn) in enumerate(CURVES.items())
    ]
    title = f"{ERRORS[quantity]}, α = {case.alpha:g} (ℓ = {WINDOWS[case.alpha]})"
    options = {"logx": True, "xticks": ns_of(case.runs)}
    return [
        Panel(title, "n", ERRORS[quantity], errors, **options),
        Panel(f"{title}, paired", "n", CHANGE, relative, horizontals=[(0.0, "F itself")], linear_to=BEND, **options),
    ]
