"""What simulations say about the numbers of the profile theory, and what of a problem lies outside of those that were simulated.

The ranges of what was simulated stand in tables: the sentence and the check are both made from them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onestride.problem import Problem
from onestride.theory.direction import without_a_direction
from onestride.theory.profile.anisotropy import sigma_of

# levels below the best: of a step at n = 1,000 or 1,500
OF_LEVEL = {
    "rank-one": (
        "finite n, the step's rank-one part only: against the literal gradient step median 0.7 % (train) and 0.5 % "
        "(test), at worst 8 % at α = 1/2, over 1,440 cells of simulation at n = 1,500, c = 1"
    ),
    "isotropic": (
        "finite n, gradient fluctuations taken as isotropic: within 1–3 % of simulation almost everywhere for c up to "
        "4, 10–12 % off for a large prefactor with a mostly quadratic teacher"
    ),
    "resolved": (
        "finite n: against simulation median 0.7 % (train) and 0.4 % (test), at worst 3 %, over 1,440 cells at "
        "n = 1,500, c = 1, α ≤ 1/2, λ from 0.001 to 1; for c = 3 at α = 1/2 the training error can be 4–12 % low"
    ),
    "full": (
        "finite n, degree two and higher of the inputs as noise (n, N ≪ d²/2): of 13,824 numbers simulated at n = 1,000 "
        "(d/n from 0.25 to 1, c = 1, α ≤ 1/2, λ from 0.001 to 1) 98.6 % lie within 3 standard errors or 2 %"
    ),
}

Range = tuple[int, int]
_SIZES: dict[str, Callable[[Problem], float]] = {
    "n/d": lambda problem: problem.n / problem.d,
    "n": lambda problem: problem.n,
    "c": lambda problem: problem.step.constant,
}
_SHOWN = {"n/d": "{:.3g}", "n": "{:,}", "c": "{:g}"}


@dataclass(frozen=True)
class Simulated:
    """A sentence about problems that were simulated, and the ranges of n/d, n and c in it, by the fields {ratio}, {n} and {c}."""

    told: str
    n: Range
    ratio: Range | None = None
    c: Range | None = None
    note: str = ""

    def sentence(self, problem: Problem) -> str:
        """What was simulated, and what of this problem lies outside of it."""
        words = {name: "" if ends is None else _words(name, ends) for name, ends in self._ranges.items()}
        told = self.told.format(ratio=words["n/d"], n=words["n"], c=words["c"]) + self.note
        away = " and ".join(
            f"{name} = {_SHOWN[name].format(_SIZES[name](problem))}"
            for name, ends in self._ranges.items()
            if ends is not None and not ends[0] <= _SIZES[name](problem) <= ends[1]
        )
        return f"{told}; this problem, with {away}, lies outside of them" if away else told

    @property
    def _ranges(self) -> dict[str, Range | None]:
        return {"n/d": self.ratio, "n": self.n, "c": self.c}


def _words(name: str, ends: Range) -> str:
    """A range as it is read: n from 600 to 2,000; c ≤ 2; 1 < c ≤ 3."""
    low, high = ends
    if name == "c":
        return f"{low} < c ≤ {high}" if low else f"c ≤ {high}"
    return f"{name} from {low:,} to {high:,}"


_WITHIN = "lie within 3 standard errors or 2 %"
_STEPS = "α ≤ 1/2, λ from 0.001 to 1) and not marked as inaccurate"
# (n/d > 4, c > 1): numbers simulated and not marked as inaccurate, share of them within (docs/verification.md)
_MEASURED = {
    (False, False): (2952, "99.7 %"),
    (False, True): (1176, "99.1 %"),
    (True, False): (6336, "99.1 %"),
    (True, True): (3501, "98.9 %"),
}
_OF_SEVERAL = Simulated(
    "finite n, every degree of the inputs, a teacher of several directions: of 3,648 numbers simulated for 52 random problems (two and "
    f"three directions, {{n}}, {{ratio}}, {{c}}, {_STEPS} 99.4 % {_WITHIN}",
    n=(600, 2000),
    ratio=(1, 40),
    c=(0, 2),
)
_SEVERAL = {
    "fresh": Simulated(
        "finite n, several steps on fresh batches: of 2,046 numbers simulated for 40 problems (2 to 10 steps, {n}, "
        f"{_STEPS} 96.9 % {_WITHIN}",
        n=(600, 2000),
    ),
    "reused": Simulated(
        "finite n, several steps on one batch: of 228 numbers simulated for 6 problems (2 or 3 steps, {n}, "
        f"{_STEPS} all {_WITHIN}",
        n=(600, 2000),
    ),
}
# by what is combined: numbers simulated on a GPU with 16 to 40 seeds and not marked as inaccurate, problems, share of them within
_COMBINED = {
    ("directions", "inputs"): (2412, 42, "98.2 %"),
    ("steps", "directions"): (2064, 45, "98.4 %"),
    ("steps", "inputs"): (1137, 45, "97.8 %"),
}
_SAME_BATCH = Simulated(
    "finite n, the readout fitted on the samples of the step: of 2,352 numbers simulated for 53 random problems ({n}, {ratio}, "
    f"{{c}}, {_STEPS} 97.2 % {_WITHIN}",
    n=(600, 1500),
    ratio=(1, 23),
    c=(0, 2),
)
# by kind of inputs that are not isotropic: the same for problems of two independent simulators (docs/inputs.md)
_OF_INPUTS = {
    "correlated inputs": (2340, "95.7 %"),
    "a covariance with one spike of at most 2√d": (852, "95.7 %"),
    "random lengths": (336, "97.3 %"),
}


def accuracy(problem: Problem) -> str:
    """What simulations of problems of this kind say about the level of every degree, and what of this one lies outside of them."""
    blind = without_a_direction(problem) if _is_plain(problem) else ""
    return (f"{blind}. Accuracy: " if blind else "") + _of_its_kind(problem).sentence(problem)


def _is_plain(problem: Problem) -> bool:
    """One step on isotropic inputs, whose samples the readout has not seen."""
    same_batch = not problem.fresh and problem.eta > 0
    return problem.steps == 1 and not same_batch and not _has_a_law(problem)


def _has_a_law(problem: Problem) -> bool:
    return problem.law.eigenvalues is not None and not problem.law.isotropic


def _of_its_kind(problem: Problem) -> Simulated:
    if not problem.fresh and problem.eta > 0 and problem.steps == 1:
        return _on_the_same_batch(problem)
    combined = _of_combinations(problem)
    if combined is not None:
        return combined
    if problem.steps > 1:
        return _SEVERAL[problem.batch]
    if _has_a_law(problem):
        return _of_inputs(problem)
    return _of_one_direction(problem) if problem.directions == 1 else _OF_SEVERAL


def _of_one_direction(problem: Problem) -> Simulated:
    """By n/d and c."""
    few, strong = problem.n > 4 * problem.d, max(problem.step.constant, problem.eta / np.sqrt(float(problem.n))) > 1
    numbers, within = _MEASURED[few, strong]
    other = (
        ""
        if problem.inputs == "gaussian"
        else f"; {problem.law.name} entries have their own lengths and labels and are Gaussian ones otherwise (82 of 84 numbers simulated with ±1 entries at d = 600)"
    )
    return Simulated(
        f"finite n, every degree of the inputs: of {numbers:,} numbers simulated for random problems with {{ratio}} and {{c}} ({{n}}, "
        f"{_STEPS} {within} {_WITHIN}",
        n=(400, 3000),
        ratio=(4, 100) if few else (1, 4),
        c=(1, 3) if strong else (0, 1),
        note=other,
    )


def _of_inputs(problem: Problem) -> Simulated:
    """Where the inputs have a covariance or random lengths."""
    law = problem.law
    kind = "random lengths" if law.freedom is not None else "correlated inputs"
    if law.freedom is None and sigma_of(problem).spike is not None:
        kind = "a covariance with one spike of at most 2√d"
    numbers, within = _OF_INPUTS[kind]
    return Simulated(
        f"finite n, every degree of inputs with their own covariance: of {numbers:,} numbers simulated with {kind} ({{n}}, {{c}}, "
        f"{_STEPS} {within} {_WITHIN}",
        n=(600, 1900),
        c=(0, 2),
    )


def _of_combinations(problem: Problem) -> Simulated | None:
    """Where several directions, several steps and a law of the inputs come together; None where they do not."""
    has = {"directions": problem.directions > 1, "steps": problem.steps > 1, "inputs": _has_a_law(problem)}
    words = {
        "directions": "several directions",
        "steps": "several steps",
        "inputs": "inputs with a covariance or random lengths",
    }
    if sum(has.values()) < 2:
        return None
    told = [
        f"{words[a]} and {words[b]}: of {numbers:,} numbers simulated for {count} problems {within}"
        for (a, b), (numbers, count, within) in _COMBINED.items()
        if has[a] and has[b]
    ]
    return Simulated(
        f"finite n, every degree of the inputs; {'; '.join(told)} (not marked as inaccurate, {{n}}, {{c}}, α ≤ 1/2, λ from 0.001 to 1) {_WITHIN}",
        n=(600, 1500),
        c=(0, 2),
    )


def _on_the_same_batch(problem: Problem) -> Simulated:
    """Where the readout is fitted on the samples of the step."""
    if problem.directions > 1:
        what, numbers, count, within = "several directions", 312, 16, "95.5 %"
    elif not problem.law.isotropic:
        what, numbers, count, within = "inputs with a covariance", 192, 9, "96.4 %"
    else:
        return _SAME_BATCH
    return Simulated(
        f"finite n, the readout fitted on the samples of the step, with {what}: of {numbers} numbers simulated for {count} random problems with "
        f"some that are not marked as inaccurate ({{n}}, {{c}}, α from 0.1 to 1/2, λ from 0.001 to 1) {within} {_WITHIN}",
        n=(300, 700),
        c=(0, 2),
    )
