"""`diagnose`: why a problem shows no spike or generalises poorly, in words, with the numbers and what to change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from onestride.problem import Problem, expect
from onestride.result import Prediction, Result, Status, TheoryError
from onestride.shown import Variables
from onestride.table import Table
from onestride.theory.assumptions import failed_assumption, not_computable
from onestride.theory.optimal import optimal_ridge
from onestride.theory.outliers import find_outliers
from onestride.theory.plateau import active_powers, window
from onestride.theory.predict import predict_grid
from onestride.theory.reliability import OFF_IN_A_ROW, known_off
from onestride.theory.spectrum import Spectrum, spectrum
from onestride.theory.table.errors import refused

DEGREES = 4  # Hermite degrees of the teacher that are looked at
SMALL_SHARE = 0.01  # parts of the teacher below this share of its power are left alone
EXCESS = 0.05  # a penalty costs too much when it adds this much to the error above the noise
STEP_EXCESS = 0.02  # the same for the step
STEP_FACTORS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Finding:
    """One cause: its name, a sentence, the numbers behind it, and what to change."""

    cause: str
    sentence: str
    numbers: dict[str, float]
    change: str

    def __str__(self) -> str:
        return f"{self.cause}: {self.sentence}. {self.change}."


@dataclass(frozen=True, repr=False)
class Diagnosis(Result):
    """All findings, gravest first; none means that nothing known to go wrong does."""

    _told = ("summary", "findings")
    _brief = ("causes",)

    problem: Problem
    findings: tuple[Finding, ...]
    summary: str

    @property
    def causes(self) -> tuple[str, ...]:
        """The names of the findings."""
        return tuple(f.cause for f in self.findings)

    def __str__(self) -> str:
        return "\n".join([self.summary, *map(str, self.findings)])

    def _axes(self) -> dict[str, Sequence[str]]:
        return {"cause": self.causes}

    def _variables(self) -> Variables:
        return {name: (("cause",), [getattr(f, name) for f in self.findings]) for name in ("sentence", "change")}

    def _lines(self) -> Iterator[tuple[str, str]]:
        yield "summary", self.summary
        yield from ((f.cause, f"{f.sentence}. {f.change}.") for f in self.findings)


def diagnose(problem: Problem) -> Diagnosis:
    """Look for the known causes of missing spikes and of poor generalisation.

    Every test error named is `predict`'s own. Causes: no-step, no-linear-part (c₁ = 0), step-beyond-theory (α > 1/2),
    teacher-without-linear-part (c⋆₁ = 0), activation-misses-degree, wrong-window, readouts-of-one-size, prefactor-too-small,
    penalty, step-too-large, step-too-small; and theory-inaccurate, where its numbers are known to be off by more than 5 %.

    >>> one.diagnose(one.Problem(n=100, d=50, N=70, activation=[0, 0, 1], step=one.Step(exponent=0.3))).causes
    ('theory-inaccurate', 'no-linear-part')
    """
    expect(problem)
    reason = None if isinstance(problem.inputs, Table) else not_computable(problem)
    if reason is not None:  # powers beyond all numbers say nothing about structure
        return Diagnosis(problem, (_no_theory(reason),), "no finite-n theory holds here")
    findings = list(_structural(problem))
    if isinstance(problem.inputs, Table):  # its rows say what a step and a penalty do; there are no windows to be in
        findings = [finding for finding in findings if finding.cause == "no-step"]
        reason = refused(problem)
    else:
        reason = failed_assumption(problem, schedules=True, same_batch=True)
    if reason is None:
        try:
            return _with_theory(problem, findings)
        except TheoryError as error:
            reason = str(error)
    if not findings:
        findings.append(_no_theory(reason))
    return Diagnosis(problem, tuple(findings), "no finite-n theory holds here, so only causes by structure are named")


def _no_theory(reason: str) -> Finding:
    return Finding("no-theory", reason, {}, "Change the problem so that a theory applies")


def _with_theory(problem: Problem, findings: list[Finding]) -> Diagnosis:
    told = "the spectrum of features on the samples of the step is not described"
    if problem.fresh or problem.eta == 0:
        seen = spectrum(problem.replace(fresh=True), density=False)
        told = seen.message
        if (
            problem.eta > 0 and problem.steps == 1 and problem.law.isotropic
        ):  # elsewhere only the spikes' positions are known
            findings = [*findings, *_spikes(problem, seen)]
    exponents = _exponents(problem)
    grid = predict_grid(problem, list(exponents.values()), [problem.ridge])
    tried = {factor: grid[i, 0] for i, factor in enumerate(exponents)}
    predicted = tried[1.0]
    if predicted.status is Status.INACCURATE:
        unreliable = Finding("theory-inaccurate", predicted.message, {}, "Simulate it, or do not rely on the numbers")
        findings = [unreliable, *findings]
    elif predicted.status is not Status.SOLVED:
        raise TheoryError(predicted.message)
    else:
        findings = [*findings, *_penalty(problem, predicted.test_error)]
    if problem.eta > 0:
        findings = [*findings, *_step_size(problem, predicted, tried)]
    if problem.eta == 0 or predicted.status is Status.INACCURATE:
        return Diagnosis(problem, tuple(findings), told)
    return Diagnosis(problem, tuple(findings), f"{told}; {_gain(predicted)}")


def _exponents(problem: Problem) -> dict[float, float]:
    """Factor of the step's size → exponent, for the problem itself and for steps whose numbers no rule knows to be off."""
    if problem.eta == 0:
        return {1.0: problem.step.exponent}
    # a factor m of the step's size is log m/log n more in its exponent
    found, off = dict[float, float](), 0
    for m in STEP_FACTORS:
        at = problem.step.exponent + float(np.log(m) / np.log(problem.n))
        if m == 1 or (off < OFF_IN_A_ROW and _may_be_better(problem.at(exponent=at))):
            found[m], off = at, off if m == 1 else 0
        elif problem.steps > 1:
            off += 1
    return found


def _may_be_better(problem: Problem) -> bool:
    try:
        return isinstance(problem.inputs, Table) or known_off(problem) is None
    except TheoryError:  # a step out of range
        return False


def _gain(here: Prediction) -> str:
    """What the step is worth, in words."""
    before = here.test_error + here.test_gain
    if here.test_gain <= 0:
        return f"the step does not help: test error {here.test_error:.4g}, {before:.4g} without"
    return f"the step lowers the predicted test error from {before:.4g} to {here.test_error:.4g}"


def _structural(problem: Problem) -> Iterator[Finding]:
    """Causes that need no computation: they follow from Hermite coefficients and the exponent."""
    sigma, target, alpha = problem.sigma, problem.target, problem.step.exponent
    if problem.eta == 0:
        yield Finding("no-step", "the step has size 0: these are random features", {"eta": 0.0}, "Take a step, c > 0")
        return
    if sigma.coefficients[1] == 0:
        yield Finding(
            "no-linear-part",
            f"activation {sigma.name!r} has c₁ = 0, so the gradient is not close to rank one and no spike carries its direction",
            {"c1": 0.0},
            "Use an activation with c₁ ≠ 0 or shift this one",
        )
    if alpha > 0.5:
        yield Finding(
            "step-beyond-theory",
            f"α = {alpha:g} is above 1/2: as n grows, noise in the gradient outgrows the weights",
            {"alpha": alpha},
            "Use α ≤ 1/2",
        )
    if target.coefficients[1] == 0:
        yield Finding(
            "teacher-without-linear-part",
            _no_linear_part(problem),
            {"teacher_c1": 0.0, "overlap": 0.0},
            "One step cannot learn this teacher (information exponent above 1); use one with a linear part",
        )
    for k in _teacher_degrees(problem):
        if k > 1 and sigma.coefficients[k] == 0 and target.coefficients[1] != 0:
            yield Finding(
                "activation-misses-degree",
                f"the teacher has degree {k} ({_share(problem, k):.0%} of its power) but activation "
                f"{sigma.name!r} has c_{k} = 0: no spike of that degree forms at any α below 1/2",
                {"degree": float(k), "share": _share(problem, k)},
                f"Use an activation with c_{k} ≠ 0" + (", such as relu or softplus" if k == 2 else ""),
            )


def _no_linear_part(problem: Problem) -> str:
    if problem.directions == 1:
        return "the teacher has c⋆₁ = 0, so β = Xᵀy/n does not point to β⋆: its overlap is 0 and spikes carry noise"
    return "the teacher has E[y z] = 0, so β = Xᵀy/n points to none of its directions: its overlap is 0 and spikes carry noise"


def _spikes(problem: Problem, seen: Spectrum) -> Iterator[Finding]:
    """Spikes that this window does not have, or that are too weak at this n and c."""
    sigma, alpha, c = problem.sigma, problem.step.exponent, problem.step.constant
    if sigma.coefficients[1] == 0:  # said already
        return
    ell = window(alpha)
    if math.isnan(ell):  # a threshold: the window below it
        ell = round(1 / (1 - 2 * alpha)) - 1
    powers = active_powers(problem, ell)
    for k in sorted({1, *_teacher_degrees(problem)}):
        if sigma.coefficients[k] == 0 or k in (*seen.degrees, *seen.between_degrees):
            continue
        threshold = (k - 1) / (2 * k)
        share = _share(problem, k)
        if ell < k:
            yield Finding(
                "wrong-window",
                f"α = {alpha:g} is not above {threshold:.4g}, where the spike of degree {k} ({share:.0%} of the "
                "teacher's power) appears",
                {"degree": float(k), "alpha": alpha, "threshold": threshold, "share": share},
                f"Use α above {threshold:.4g}",
            )
            continue
        if k not in powers:
            below = next(p for p in powers if problem.readout == "constant" or (k - p) % 2 == 0)
            yield Finding(
                "readouts-of-one-size",
                f"with readout={problem.readout!r} neurons take degrees {below} and {k} of the step alike: degree {k} "
                f"({share:.0%} of the teacher's power) has no spike of its own at any n",
                {"degree": float(k), "below": float(below), "share": share},
                'Use readout="gaussian"',
            )
            continue
        strength = seen.strengths.get(k, 0.0)
        needed = needed_constant(problem, k)
        advice = f"Use c ≥ {needed:.3g}" if math.isfinite(needed) else "Use a larger α or more samples"
        later = ", although the window has it as n → ∞" if math.isfinite(ell) else ""
        yield Finding(
            "prefactor-too-small",
            f"the spike of degree {k} reaches {strength:.2g} of what it needs to leave the bulk at n = {problem.n}, "
            f"c = {c:g}, α = {alpha:g}{later}",
            {"degree": float(k), "strength": strength, "c": c, "needed_c": needed},
            advice,
        )


def needed_constant(problem: Problem, degree: int, *, largest: float = 1e3) -> float:
    """The smallest larger c at which the spike of this degree leaves the uppermost bulk (to 2 %).

    ∞ when there is none up to `largest`·c, or up to where the theory is known to be off.
    """
    c = problem.step.constant

    def larger(factor: float) -> Problem:
        return problem.replace(step=problem.step.replace(constant=c * factor))

    def visible(factor: float) -> bool:
        found = find_outliers(larger(factor), nodes=25)
        return found.converged and degree in found.leading_degrees

    low, high = 0.5, 1.0
    while low < 1 or not visible(high):
        low, high = high, 2 * high
        if high > largest or known_off(larger(high)) is not None:
            return math.inf
    while high / low > 1.02:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if visible(middle) else (middle, high)
    return c * high


def _penalty(problem: Problem, here: float) -> Iterator[Finding]:
    best = optimal_ridge(problem)
    if here - best.test_error <= EXCESS * max(best.test_error - problem.known_noise, 1e-12):
        return
    size = "small" if problem.ridge < best.ridge else "large"
    yield Finding(
        "penalty",
        f"λ = {problem.ridge:g} is too {size}: the predicted test error is {here:.4g}, and {best.test_error:.4g} "
        f"at λ = {best.ridge:.3g}",
        {"ridge": problem.ridge, "best_ridge": best.ridge, "test_error": here, "best_error": best.test_error},
        f"Use λ near {best.ridge:.2g}" + (" or beyond: the error still falls there" if best.at_boundary else ""),
    )


def _step_size(problem: Problem, predicted: Prediction, sizes: dict[float, Prediction]) -> Iterator[Finding]:
    """Compare with steps of other sizes at the same penalty, and with none."""
    tried = [*sizes.values(), predicted.untrained or predicted]
    # only a number that is not known to be off can be better
    errors = np.array([p.test_error if p.status is Status.SOLVED else np.nan for p in tried])
    factors = [*sizes, 0.0]
    if not np.isfinite(errors).any():
        return
    at = int(np.nanargmin(errors))
    here, best = predicted.test_error, float(errors[at])
    if here - best <= STEP_EXCESS * max(best - problem.known_noise, 1e-12):
        return
    numbers = {"eta": problem.eta, "better_eta": problem.eta * factors[at], "test_error": here, "better_error": best}
    cause, word = ("step-too-large", "smaller") if factors[at] < 1 else ("step-too-small", "larger")
    advice = "Take no step" if factors[at] == 0 else f"Use c near {problem.step.constant * factors[at]:.3g}"
    yield Finding(
        cause,
        f"a {word} step is better at this λ: the predicted test error is {here:.4g} at η = {_size(problem.eta)} and "
        f"{best:.4g} at η = {_size(numbers['better_eta'])}",
        numbers,
        advice,
    )


def _size(eta: float) -> str:
    """Three digits, and whole numbers where they have more."""
    return f"{eta:.3g}" if eta < 999.5 else f"{eta:,.0f}"


def _teacher_degrees(problem: Problem) -> list[int]:
    return [k for k in range(1, DEGREES + 1) if _share(problem, k) >= SMALL_SHARE]


def _share(problem: Problem, k: int) -> float:
    """Share of the teacher's power in degree k."""
    power = problem.target.second_moment
    return float(problem.target.normalised[k] ** 2 / power) if power else 0.0
