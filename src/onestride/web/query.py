"""The address of the page and the problem it stands for; the same problem as Python, TOML or a command.

Sizes are given by n and the two ratios of the theory, φ = d/n and ψ = d/N; the step's own samples by their ratio to n; inputs
with a spike, Σ ∝ I + κvvᵀ, by κ and the overlap of v with the teacher.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from onestride._errors import WHOLE, InputError, short, typed_number
from onestride.functions import DEGREES, function_names
from onestride.inputs import Covariance, input_law
from onestride.problem import Problem, Step
from onestride.teachers import MOST_DIRECTIONS
from onestride.theory.assumptions import failed_assumption, too_large

DEFAULTS: dict[str, str] = {
    "n": "1000",
    "phi": "0.5",
    "psi": "0.3333333333",
    "activation": "relu",
    "teacher": "0,1,0.7071",
    "noise": "0.5",
    "ridge": "0.1",
    "constant": "1",
    "exponent": "0.3",
    "gradient": "full",
    "weights": "sphere",
    "readout": "gaussian",
    "step_samples": "1",
    "steps": "1",
    "batch": "fresh",
    "fresh": "true",
    "inputs": "gaussian",
    "kappa": "5",
    "overlap": "0.5",
    "directions": "1",
    "mix": "sum",
}
SPIKED = "spiked"  # inputs with kappa and overlap
INPUTS = ("gaussian", "uniform", "rademacher", "student", "ar1", "power", "elliptic", SPIKED)
MOST_INPUTS = 20_000  # of a covariance, whose eigenvalues are written out
MOST_STEPS = 20
PLAIN = Problem(n=10, d=10, N=10)  # every other field has its default
LONGEST_VALUE = 300
LARGEST_N = 10**15
RANGES = {  # far beyond the sliders, and well inside what the equations can be solved for
    "phi": (1e-3, 1e3),
    "psi": (1e-3, 1e3),
    "step_samples": (1e-3, 1e3),
    "noise": (0.0, 1e6),
    "ridge": (1e-12, 1e12),
    "constant": (0.0, 1e9),
    "exponent": (-10.0, 10.0),
    "kappa": (-0.9, 1e6),
    "overlap": (0.0, 1.0),
    "activation": (-1e6, 1e6),
    "teacher": (-1e6, 1e6),
}


def once(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The parameters of an address by name; one that is given twice is a mistake."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise InputError(f"{name[:40]!r} is given more than once in the address")
        found[name] = value
    return found


def read_problem(query: Mapping[str, str]) -> Problem:
    """The problem of an address; what the address leaves out has its default. Mistakes are told in a sentence."""
    problem = problem_of_any_size(query)
    reason = too_large(problem)
    if reason is not None:
        raise InputError(reason)
    return problem


def problem_of_any_size(query: Mapping[str, str]) -> Problem:
    """The same without a limit of d and N, as the end of an axis may have it."""
    unknown = sorted(set(query) - set(DEFAULTS))
    if unknown:
        raise InputError(f"{short(unknown[0])} is not a parameter of the explorer; known: {', '.join(DEFAULTS)}")
    for name, value in query.items():
        if len(value) > LONGEST_VALUE:
            raise InputError(f"{name} must be at most {LONGEST_VALUE} characters long, got {len(value)}")
    given = DEFAULTS | dict(query)
    n = typed_number("n", given["n"], WHOLE)
    if not (n.is_integer() and 1 <= n <= LARGEST_N):
        raise InputError(f"n must be a whole number from 1 to 10^15, got {short(given['n'])}")
    value = {name: _within(name, given[name]) for name in RANGES if name not in ("activation", "teacher")}
    d = max(1, round(value["phi"] * n))
    fields: dict[str, Any] = {name: given[name] for name in ("gradient", "weights", "readout", "batch", "mix")}
    fields |= {name: _function(name, given[name]) for name in ("activation", "teacher")}
    fields |= {"steps": _whole("steps", given["steps"], MOST_STEPS), "fresh": _truth("fresh", given["fresh"])}
    fields |= {"directions": _whole("directions", given["directions"], MOST_DIRECTIONS)}
    return Problem(
        n=int(n),
        d=d,
        N=max(1, round(d / value["psi"])),
        noise=value["noise"],
        ridge=value["ridge"],
        step=Step(constant=value["constant"], exponent=value["exponent"]),
        n_step=None if value["step_samples"] == 1 else max(1, round(value["step_samples"] * n)),
        inputs=_inputs(given["inputs"], d, value["kappa"], value["overlap"]),
        **fields,
    )


def write_query(problem: Problem) -> dict[str, str]:
    """The address of a problem, every parameter written out."""
    values = {name: getattr(problem, name, None) for name in DEFAULTS}
    values |= {"constant": problem.step.constant, "exponent": problem.step.exponent}
    values |= {"step_samples": problem.step_samples / problem.n, "fresh": str(problem.fresh).lower()}
    spike = _spike(problem.inputs)
    kappa, overlap = spike or (float(DEFAULTS["kappa"]), float(DEFAULTS["overlap"]))
    values |= {"kappa": kappa, "overlap": overlap} | ({"inputs": SPIKED} if spike else {})
    return {name: _written(value) for name, value in values.items()}


def _written(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_written, value))
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def in_reach(problem: Problem) -> bool:
    """Whether the page has controls for everything in this problem."""
    one_size = len(set(problem.etas)) == 1  # of all steps
    known = problem.inputs in INPUTS if isinstance(problem.inputs, str) else _spike(problem.inputs) is not None
    few = problem.steps <= MOST_STEPS and problem.directions <= MOST_DIRECTIONS
    return problem.centred and one_size and known and few and not callable(problem.teacher)


def _inputs(name: str, d: int, kappa: float, overlap: float) -> str | Covariance:
    """The law of the inputs; what has a covariance has d eigenvalues."""
    if name not in INPUTS:
        raise InputError(f"inputs must be one of {', '.join(INPUTS)}, got {short(name)}")
    if (name == SPIKED or input_law(name).times is not None) and not 2 <= d <= MOST_INPUTS:
        raise InputError(f"inputs={name} needs d from 2 to {MOST_INPUTS:,} on this page, got d = {d:,}")
    return Covariance.spiked(d, kappa, overlap) if name == SPIKED else name


def _spike(inputs: str | Covariance) -> tuple[float, float] | None:
    """Κ and the overlap of a covariance that `Covariance.spiked` makes; None for any other law."""
    if isinstance(inputs, str) or inputs.teacher is None or len(inputs.eigenvalues) < 2:
        return None
    kappa = inputs.eigenvalues[0] / inputs.eigenvalues[-1] - 1
    overlap = math.sqrt(inputs.teacher[0] / sum(inputs.teacher))
    same = Covariance.spiked(len(inputs.eigenvalues), kappa, overlap)
    gaps = (
        abs(x - y)
        for a, b in ((same.eigenvalues, inputs.eigenvalues), (same.teacher, inputs.teacher))
        if a and b
        for x, y in zip(a, b, strict=True)
    )
    return (kappa, overlap) if max(gaps) < 1e-9 else None


def _within(name: str, text: str) -> float:
    number, (low, high) = typed_number(name, text), RANGES[name]
    if not low <= number <= high:
        raise InputError(f"{name} must be a number from {low:g} to {high:g}, got {short(text)}")
    return number


def _whole(name: str, text: str, most: int) -> int:
    number = typed_number(name, text, WHOLE)
    if not (number.is_integer() and 1 <= number <= most):
        raise InputError(f"{name} must be a whole number from 1 to {most}, got {short(text)}")
    return int(number)


def _truth(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise InputError(f"{name} must be true or false, got {short(text)}")
    return text == "true"


def _function(name: str, text: str) -> str | tuple[float, ...]:
    """A name, or Hermite coefficients separated by commas."""
    if "," not in text:
        if text not in function_names():
            raise InputError(
                f"{name} must be one of {', '.join(function_names())}, or Hermite coefficients such as 0,1,0.7071, "
                f"got {short(text)}"
            )
        return text
    parts = text.split(",")
    if len(parts) > DEGREES + 1:
        raise InputError(f"{name} must have at most {DEGREES + 1} Hermite coefficients, got {len(parts)}")
    return tuple(_within(name, part) for part in parts)


# ---------------------------------------------------------------------- the problem in other words

SCRIPT = """\
import onestride as one

problem = one.Problem(
{fields}
)
prediction = one.predict(problem, throw=False)
print(prediction.test_error, prediction.train_loss)  # after the step: test error, ridge objective
print(prediction.message)  # whether to rely on them
"""
SHARES = """\
if prediction.test_error >= 0:  # it is NaN where the theory has no number
    print(one.learned(problem).fraction)  # share of each degree of the teacher that is learned
"""
SPECTRUM = "    print(one.spectrum(problem, density=False).leading)  # eigenvalues of FFᵀ/n that leave the bulk\n"


def copies(problem: Problem) -> dict[str, str]:
    """A script, the file that `onestride … --problem FILE` reads, and a command."""
    return {"python": as_python(problem), "toml": problem.to_toml(), "command": as_command(problem)}


def as_python(problem: Problem) -> str:
    """A script that builds the problem and prints what the page shows."""
    fields, defaults = problem.to_dict(), PLAIN.to_dict()
    step = fields.pop("step")
    kept = {k: v for k, v in fields.items() if k in ("n", "d", "N", "noise", "ridge") or v != defaults.get(k)}
    lines = [f"    {name}={_literal(value)}," for name, value in kept.items() if name != "inputs"]
    lines.append(f"    step=one.Step(constant={step['constant']!r}, exponent={step['exponent']!r}),")
    if spike := _spike(problem.inputs):
        lines.append(f"    inputs=one.Covariance.spiked({problem.d}, {spike[0]:.10g}, {spike[1]:.10g}),")
    elif "inputs" in kept:
        lines.append(f"    inputs={_literal(kept['inputs'])},")
    script = SCRIPT.format(fields="\n".join(lines))
    if failed_assumption(problem, schedules=True) is not None:
        return script
    return script + SHARES + (SPECTRUM if problem.law.isotropic and problem.steps == 1 else "")


def as_command(problem: Problem) -> str:
    """The command that prints this problem's prediction; a covariance has to be in a file."""
    if not isinstance(problem.inputs, str):
        return "onestride predict --problem problem.toml  # what Copy as TOML gives, saved"
    query = write_query(problem)
    options: list[tuple[str, Any]] = [("n", problem.n), ("d", problem.d), ("N", problem.N)]
    options += [(name, query[name]) for name in ("activation", "teacher")]
    options += [("noise", repr(problem.noise)), ("ridge", repr(problem.ridge))]
    options += [("constant", repr(problem.step.constant)), ("exponent", repr(problem.step.exponent))]
    for name in ("gradient", "weights", "readout", "n_step", "steps", "batch", "inputs", "directions", "mix"):
        if getattr(problem, name) != getattr(PLAIN, name):
            options.append((name.replace("_", "-"), getattr(problem, name)))
    words = ["onestride", "predict", *(f"--{name}={shlex.quote(str(value))}" for name, value in options)]
    return " ".join([*words, *([] if problem.fresh else ["--no-fresh"])])


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
