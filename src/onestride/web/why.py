"""What `diagnose` finds, with the change that each finding asks for as parameters of the address."""

from __future__ import annotations

from typing import Any

from onestride.diagnosis import Finding, diagnose
from onestride.problem import Problem
from onestride.theory.quick import Quality

BEYOND = 0.02  # how far above the threshold of a window the page goes


def why(problem: Problem, quality: Quality) -> dict[str, Any]:
    """Summary and findings; `set` holds what a click changes, by name."""
    found = diagnose(problem)
    rows = [{"words": f.sentence, "change": f.change, "set": _change(problem, f)} for f in found.findings]
    return {"message": found.summary, "findings": rows, "quality": quality.name}


def _change(problem: Problem, finding: Finding) -> dict[str, str]:
    """The parameters that a finding asks for; none where it asks for another function."""
    numbers = finding.numbers
    match finding.cause:
        case "no-step":
            return {"constant": "1"}
        case "step-beyond-theory":
            return {"exponent": "0.5"}
        case "wrong-window":
            return {"exponent": f"{numbers['threshold'] + BEYOND:.3g}"}
        case "prefactor-too-small" if numbers["needed_c"] < float("inf"):
            return {"constant": f"{1.01 * numbers['needed_c']:.3g}"}  # above it, after rounding
        case "penalty":
            return {"ridge": f"{numbers['best_ridge']:.2g}"}
        case "step-too-large" | "step-too-small":
            factor = float(numbers["better_eta"]) / float(numbers["eta"])
            return {"constant": f"{problem.step.constant * factor:.3g}"}
        case _:
            return {}
