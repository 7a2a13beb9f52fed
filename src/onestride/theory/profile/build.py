"""`build_model`: the rows, neurons and sectors of a problem at one of the levels of the theory."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from onestride.functions import Function
from onestride.problem import Problem
from onestride.result import Status, TheoryError
from onestride.theory.assumptions import failed_assumption, needs_identity
from onestride.theory.profile import classic, covariance, degrees, schedule
from onestride.theory.profile.one_neuron import DIVERGED
from onestride.theory.profile.sectors import Model
from onestride.theory.profile.smoothing import LARGEST_REACH
from onestride.theory.profile.strength import BEST_LEVEL, isotropic_noise, level_name
from onestride.theory.profile.travel import stable, travel

NODES = 41  # of z and of A at the levels of one degree; three quarters of them with every degree
_LONGEST = 1e4  # fluctuations of the gradient beside a neuron: exponentials of the step are numbers up to there


def build_model(
    problem: Problem,
    level: str = BEST_LEVEL,
    *,
    nodes: int = NODES,
    min_weight: float | None = None,
    likeliest: bool = False,
) -> Model:
    """Set up the profile theory for `problem` (its ridge plays no part: `solve` takes λ), of several draws the likeliest alone if asked for."""
    level = level_name(level)
    if level == "degrees":
        functions, likeliest = (problem.sigma, problem.target), likeliest and not problem.law.isotropic
        return _every_degree(problem.replace(ridge=1.0), *functions, _every_degree_nodes(nodes), min_weight, likeliest)  # pyright: ignore[reportArgumentType]
    return classic.build(problem, level, nodes=nodes, min_weight=min_weight or 1e-12)


def _every_degree_nodes(nodes: int) -> int:
    """Nodes of A with every degree."""
    return 2 * round(3 * nodes / 8) + 1


@lru_cache(maxsize=8)
def _every_degree(
    problem: Problem, sigma: Function, target: Function, nodes: int, min_weight: float | None, likeliest: bool
) -> Model:
    """The model serves every penalty asked for; the functions are named since a registered name may change its meaning."""
    assert (sigma, target) == (problem.sigma, problem.target)
    if not problem.law.isotropic:
        several = problem.steps > 1 and not likeliest  # their likeliest draw was there before the others (`errors`)
        known = _every_degree(problem, sigma, target, nodes, min_weight, True) if several else None  # pyright: ignore[reportArgumentType]
        return covariance.build(problem, nodes=nodes, min_weight=min_weight, likeliest=likeliest, known=known)
    build = degrees.build if problem.steps == 1 or problem.eta == 0 else schedule.build
    return build(problem, nodes=nodes, min_weight=min_weight or covariance.RAREST)


class Ending(NamedTuple):
    """How a computation ended: a status of `predict` and its sentence."""

    status: Status
    message: str


@np.errstate(all="ignore")  # numbers out of range end as NaN or infinite, which is told
def try_model(
    problem: Problem,
    level: str = BEST_LEVEL,
    *,
    nodes: int = NODES,
    build: Callable[..., Model] = build_model,
    same_batch: bool = False,
    likeliest: bool = False,
    min_weight: float | None = None,
) -> Model | Ending:
    """The model of `problem`, or why it has none: an assumption that fails, numbers out of range.

    `likeliest`: after several steps, or by `build_model` itself, of several draws this one alone; `min_weight`: of neurons, likewise, with rows
    no longer than samples are.
    `same_batch`: the caller knows what to do where the ridge regression has no samples of its own; the model is for fresh ones.
    """
    several = problem.steps > 1 and problem.eta > 0
    best = level_name(level) == BEST_LEVEL
    reason = failed_assumption(problem, schedules=best, same_batch=best and same_batch)
    if reason is None and level_name(level) != BEST_LEVEL:
        reason = needs_identity(problem, f"level={level!r}")
    try:
        diverged = reason is None and several and not travel(problem, _every_degree_nodes(nodes)).grown <= DIVERGED
    except TheoryError as error:
        return Ending(Status.NOT_CONVERGED, str(error))
    if diverged:
        reason = (
            f"gradient descent diverges: after {problem.steps} steps the residual has more than {DIVERGED:g} times its power "
            f"(the literal gradient is stable for c₁²η up to {stable(problem):.3g}, the largest here is "
            f"{problem.sigma.coefficients[1] ** 2 * max(problem.etas):.3g})"
        )
    if reason is not None:
        return Ending(Status.ASSUMPTION, reason)
    longer = problem.eta * np.sqrt(isotropic_noise(problem) / problem.N) if problem.eta else 0.0
    if longer > _LONGEST:
        told = f"the fluctuations of the gradient are {longer:.2g} times as long as a neuron"
        return Ending(Status.NOT_CONVERGED, f"the step is so large that {told}: pre-activations are out of range")
    if several or build is build_model:
        build = partial(build_model, likeliest=likeliest, min_weight=min_weight)
    try:
        model = build(problem, level, nodes=nodes)
    except TheoryError as error:
        return Ending(Status.NOT_CONVERGED, str(error))
    except np.linalg.LinAlgError:
        told = "after these steps the covariance of the weights along what was learned is not positive in this theory"
        return Ending(Status.NOT_CONVERGED, f"{told}: the steps are too large for it")
    broken = next((one for _, one in model.members if not one.finite), None)
    return model if broken is None else Ending(Status.NOT_CONVERGED, _out_of_range(broken))


def _out_of_range(model: Model) -> str:
    """Why the smoothed activation or teacher could not be computed."""
    if np.isfinite(model.rest).all():
        return f"the teacher {model.problem.target.name!r} is too large to be averaged over the unlearned directions"
    reach = float(np.abs(model.theta).max() * np.abs(model.z).max() + 20 * np.sqrt(model.v.max()))
    return (
        f"the step is so large that pre-activations reach {reach:.2g}, where activation "
        f"{model.problem.sigma.name!r} overflows or which is beyond the {LARGEST_REACH:.0f} this theory tabulates"
    )
