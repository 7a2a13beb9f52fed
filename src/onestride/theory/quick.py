"""One cell of a curve and everything at the chosen α, at two qualities: what the explorer draws.

`QUICK` answers while a slider moves: for one step on isotropic inputs the isotropic level of the profile theory on a coarse
quadrature, with every degree of the inputs where they are resolved, and the bulk as it was before the step; for every other
problem the default level on that quadrature. `FULL` is what `predict`, `learned` and `spectrum` return, a second or two later.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from onestride import functions
from onestride._numerics import Array, Float, hermite_table
from onestride.problem import Problem
from onestride.result import QUANTITIES, Status, TheoryError, plain
from onestride.teachers import Target, all_products, degree_fractions, hermite_components
from onestride.theory.assumptions import failed_assumption
from onestride.theory.density import visible_degrees
from onestride.theory.direction import direction
from onestride.theory.expansion import expansion_distance
from onestride.theory.learned import DEGREE, learned, predicted_components, teacher_degrees
from onestride.theory.plateau import window_of
from onestride.theory.predict import predict
from onestride.theory.profile import covariance, degrees
from onestride.theory.profile.build import Ending, build_model, try_model
from onestride.theory.profile.equations import ROUNDING, Solution, solve
from onestride.theory.profile.errors import STRONG, errors, errors_at
from onestride.theory.profile.neurons import learned_direction
from onestride.theory.profile.sectors import Model
from onestride.theory.profile.strength import BEST_LEVEL
from onestride.theory.profile.travel import stable
from onestride.theory.quick_spectrum import quick_spectrum
from onestride.theory.reliability import known_off, off_at
from onestride.theory.spectrum import beyond_the_spectrum, missing_mass, spectrum


@dataclass(frozen=True)
class Quality:
    """Level and quadrature nodes of the profile theory, and how many exponents a curve has."""

    name: str
    level: str
    nodes: int
    points: int
    words: str


QUICK = Quality(
    "quick",
    "isotropic",
    13,
    7,
    "Quick theory while you move: isotropic gradient noise, coarse quadrature, bulk as before the step.",
)
FULL = Quality("full", BEST_LEVEL, 21, 26, "Profile theory with every degree of the inputs: what one.predict returns.")
QUALITIES = {q.name: q for q in (QUICK, FULL)}
SOLVED = Ending(Status.SOLVED, "")
_ELSEWHERE = "Quick theory while you move: coarse quadrature."  # where there is no cheaper level
_NO_DIRECTION = (
    "the formula for β holds for inputs of identity covariance and one length; a simulation shows the neurons along β"
)
_SAME_SAMPLES = (
    "the readout is fitted on the samples of the step: of that the page has the errors at this step, as predict does; curves, map and learned "
    "shares it has for fresh samples"
)
_PER_AMPLITUDE, _STRONGEST = 10, 3  # nodes more for each unit of the amplitude above one, up to four
_CURVE = 121  # points of the teacher's curve
_RADII = 2  # nodes of the length of x while a slider moves
_ENOUGH = 1e-6  # scaled residual while a slider moves
_MODELS = 64  # of the last curves: they serve every penalty


def _one_isotropic_step(problem: Problem) -> bool:
    """Whether the levels of one step on isotropic inputs describe the problem, the fit having samples of its own."""
    return problem.law.isotropic and (problem.eta == 0 or (problem.steps == 1 and problem.fresh))


def words_of(problem: Problem, quality: Quality) -> str:
    """What is said of the numbers that are drawn."""
    return quality.words if quality is FULL or _one_isotropic_step(problem) else _ELSEWHERE


@dataclass(frozen=True)
class Cell:
    """Ridge objective, training error and test error, E[f̂ h_k] along the first direction, the learned share of degrees 1 … 4."""

    errors: tuple[float, float, float]
    components: Float[Array, "5"]
    fraction: Float[Array, "4"]
    verdict: Ending = SOLVED


def cell(problem: Problem, quality: Quality, start: Solution | None) -> tuple[Cell, Solution | None]:
    """One step size: errors and learned shares from one solution of the profile equations."""

    def nothing(verdict: Ending) -> tuple[Cell, None]:
        return Cell((math.nan, math.nan, math.nan), np.full(DEGREE + 1, np.nan), np.full(DEGREE, np.nan), verdict), None

    model = _model(problem, quality)
    if isinstance(model, Ending):
        return nothing(model)
    same = start is not None and start.rho.size == model.w.size and start.q.size == model.theta.size
    enough = _ENOUGH if quality is QUICK else ROUNDING
    solution = solve(model, problem.ridge, start if same else None, tolerance=enough)
    if not solution.converged:
        words = f"the equations were not solved: residual {solution.residual:.1e}"
        return nothing(Ending(Status.NOT_CONVERGED, words))
    values, verdict = _errors(problem, model, solution, quality)
    reason = known_off(problem) or off_at(problem, problem.ridge, values[2])
    if verdict is SOLVED and reason is not None:
        verdict = Ending(Status.INACCURATE, reason)
    found, taught = predicted_components(model, solution), hermite_components(problem.target, DEGREE)
    shares = degree_fractions(found, taught, problem.directions)
    return Cell(values, _first_direction(problem, found), shares, verdict), solution


def _model(problem: Problem, quality: Quality) -> Model | Ending:
    again = not problem.fresh and problem.eta > 0
    if again and failed_assumption(problem, schedules=True, same_batch=True) is None:
        return Ending(Status.ASSUMPTION, _SAME_SAMPLES)
    level = quality.level if _one_isotropic_step(problem) else BEST_LEVEL
    return try_model(problem, level, nodes=_nodes(problem, quality), build=_coarse if quality is QUICK else build_model)


def errors_along(problem: Problem, ridges: Array, quality: Quality) -> Float[Array, "penalties"]:
    """The test error at every penalty; NaN where there is none."""
    model = _model(problem, quality)
    if isinstance(model, Ending):
        return np.full(ridges.size, np.nan)
    found, solution = np.full(ridges.size, np.nan), None
    for i in np.argsort(-ridges):
        solution = solve(model, float(ridges[i]), solution)
        if solution.converged:
            found[i] = errors_at(model, solution)[2]
        else:
            solution = None
    return found


def _nodes(problem: Problem, quality: Quality) -> int:
    """More for stronger steps, which make features steeper: without them the error at amplitude 4 is 70 % off, n = 10⁹."""
    if not _one_isotropic_step(problem) or problem.eta == 0 or problem.sigma.coefficients[1] == 0:
        return quality.nodes
    amplitude = learned_direction(problem).amplitude
    beyond = math.ceil(min(amplitude - 1, _STRONGEST)) if math.isfinite(amplitude) else 0
    return quality.nodes + _PER_AMPLITUDE * max(beyond, 0)


def _first_direction(problem: Problem, components: Float[Array, "products"]) -> Float[Array, "5"]:
    """Those of h_0 … h_4 of β₁ᵀx alone."""
    every = all_products(problem.directions, DEGREE)
    return components[[every.index((0,) * k) for k in range(DEGREE + 1)]]


def _coarse(problem: Problem, level: str, *, nodes: int) -> Model:
    """`build_model` at a level of one degree, or as coarsely with every degree: within 2 % of `predict`'s, 4 % at α = 1/2."""
    return _kept_coarse(problem.replace(ridge=1.0), problem.sigma, problem.target, level, nodes)  # pyright: ignore[reportArgumentType]


@lru_cache(maxsize=_MODELS)
def _kept_coarse(problem: Problem, sigma: functions.Function, target: Target, level: str, nodes: int) -> Model:
    """One model for every penalty; the functions are named since a registered name may change its meaning."""
    assert (sigma, target) == (problem.sigma, problem.target)
    few = 2 * round(3 * nodes / 8) + 1
    if not problem.law.isotropic:
        return covariance.build(problem, nodes=few)
    seen = visible_degrees(problem)
    if level == BEST_LEVEL or seen == 1:
        return build_model(problem, level, nodes=nodes)
    return degrees.build(problem, level=level, nodes=few, radii=_RADII, degrees=seen)


def _errors(
    problem: Problem, model: Model, solution: Solution, quality: Quality
) -> tuple[tuple[float, float, float], Ending]:
    if quality is QUICK or model.learned.amplitude <= STRONG:
        return errors_at(model, solution), SOLVED
    checked = errors(problem, [problem.step], [problem.ridge], level=quality.level)  # with its check of the quadrature
    status: Status = checked.status[0, 0]
    train_loss, train_mse, test_error = (float(getattr(checked, name)[0, 0]) for name in QUANTITIES)
    return (train_loss, train_mse, test_error), SOLVED if status is Status.SOLVED else Ending(
        status, str(checked.message[0, 0])
    )


# ---------------------------------------------------------------------- at the chosen α


def here(problem: Problem, quality: Quality) -> dict[str, Any]:
    """Errors, learned shares and spectrum at the problem's own α, and the numbers that enter the formulas."""
    row = facts(problem)
    row |= _here_full(problem) if quality is FULL else _here_quick(problem)
    row |= {"quality": quality.name, "words": words_of(problem, quality), "stable": stability(problem)}
    return row | {"expansion": _expansion(problem, row), "no_spectrum": _undrawn(problem)}


def _undrawn(problem: Problem) -> str:
    """Why the page has no spectrum: there is none, or none with the functions that its vectors are."""
    reason = failed_assumption(problem, schedules=True)
    if reason is not None or beyond_the_spectrum(problem) is None:
        return reason or ""
    return (
        "after several steps, and for inputs with a covariance or random lengths, the page does not draw the spectrum: the command onestride spectrum "
        "has its bulk and the positions of what leaves it; what functions these vectors are is not known"
    )


def _expansion(problem: Problem, row: dict[str, Any]) -> dict[str, Any] | None:
    """‖F − F_ℓ‖/√n along the learned direction beside ‖F‖/√n = √(largest eigenvalue); None outside every window or where it is off."""
    found, ell = row["spectrum"], window_of(problem.step)
    if not found or not math.isfinite(ell) or problem.sigma.coefficients[1] == 0:
        return None
    if found["edge"] is None or found.get("unreliable") or row["status"] == "inaccurate":
        return None
    distance, largest = expansion_distance(problem, int(ell)), max([found["edge"], *found["leading"]])
    return {"ell": int(ell), "distance": plain(distance), "norm": plain(math.sqrt(largest))}


def stability(problem: Problem) -> dict[str, Any] | None:
    """c₁²η beside its bound, and the exponent at which it is reached; None where no bound is known."""
    slope = problem.sigma.coefficients[1] ** 2
    if problem.steps == 1 or problem.gradient != "full" or slope * problem.step.constant == 0:
        return None
    bound = stable(problem)
    exponent = math.log(bound / (slope * problem.step.constant)) / math.log(problem.n) if problem.n > 1 else math.nan
    return {"bound": plain(bound), "value": plain(slope * max(problem.etas)), "exponent": plain(exponent)}


def facts(problem: Problem) -> dict[str, Any]:
    """What needs no equation to be solved: sizes, η, the window ℓ, coefficients, the direction β."""
    ell = window_of(problem.step)
    beta, told = direction(problem), problem.law.isotropic
    return {
        "n": problem.n,
        "d": problem.d,
        "N": problem.N,
        "eta": problem.eta,
        "window": None if not math.isfinite(ell) else int(ell),
        "threshold": math.isnan(ell),
        "activation": plain(problem.sigma.coefficients[:7]),
        "teacher": plain(problem.target.coefficients[:7]),
        "link": plain(functions.teacher(problem.teacher).coefficients[:7]),
        "directions": problem.directions,
        "steps": problem.steps,
        "function": _teacher_curve(problem),
        "teacher_power": plain(problem.target.second_moment) if problem.law.freedom is None else None,
        "overlap": plain(beta.overlap) if told else None,
        "length": plain(beta.s) if told else None,
        "residual_power": plain(beta.residual_power) if told else None,
        "no_direction": "" if told else _NO_DIRECTION,
    }


def _teacher_curve(problem: Problem) -> dict[str, Any]:
    """σ⋆ on a grid of z = β⋆ᵀx; of several directions E[y | β₁ᵀx] up to degree four."""
    z = np.linspace(-3, 3, _CURVE)
    if problem.directions == 1:
        return {"z": plain(z), "teacher": plain(problem.target(z))}
    taught = _first_direction(problem, hermite_components(problem.target, DEGREE))
    return {"z": plain(z), "teacher": plain(taught @ hermite_table(z, DEGREE))}


def _here_quick(problem: Problem) -> dict[str, Any]:
    found, _ = cell(problem, QUICK, None)
    return {
        **dict(zip(QUANTITIES, map(plain, found.errors), strict=True)),
        "fraction": {str(k): plain(found.fraction[k - 1]) for k in teacher_degrees(problem)},
        "components": plain(found.components),
        "status": found.verdict.status.name.lower(),
        "message": found.verdict.message,
        "spectrum": None
        if math.isnan(found.errors[2]) or beyond_the_spectrum(problem)
        else quick_spectrum(problem, QUICK.level, QUICK.nodes),
    }


def _here_full(problem: Problem) -> dict[str, Any]:
    prediction = predict(problem, throw=False)
    row: dict[str, Any] = {name: plain(getattr(prediction, name)) for name in QUANTITIES}
    status = prediction.status
    row |= {"status": status.name.lower(), "message": "" if status is Status.SOLVED else prediction.message}
    row |= {"accuracy": prediction.accuracy, "fraction": {}, "components": [None] * (DEGREE + 1), "spectrum": None}
    if math.isnan(prediction.test_error):
        return row
    here_, _ = cell(problem, FULL, None)
    if math.isnan(here_.errors[2]):
        return row | {"message": row["message"] or here_.verdict.message}
    try:
        shares = learned(problem)
        row["components"] = plain(here_.components)
        row["fraction"] = {str(k): plain(v) for k, v in zip(shares.degrees, shares.fraction, strict=True)}
        found = None if beyond_the_spectrum(problem) else spectrum(problem)
    except TheoryError as error:
        return row | {"message": row["message"] or str(error)}
    if found is None:
        return row
    told = found.to_dict()
    kept = ("leading", "degrees", "edge", "message", "untrained", "trained", "expected", "on_direction")
    kept += ("overlaps", "untrained_edge", "between", "between_degrees")
    row["spectrum"] = {name: told.get(name) for name in kept} | {"unreliable": bool(missing_mass(found.trained))}
    return row
