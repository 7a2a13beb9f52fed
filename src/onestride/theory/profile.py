"""The profile theory: errors at finite n for every step from 0 to c√n (levels T2, T2i, T2M, T2S).

`build_profile` sets the equations up, `solve` solves them at one λ, `quadratic_form` reads errors off the solution;
`errors` does so on a grid, walking down in λ with the tangent of each solution as the start of the next.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from onestride._numerics import Array, relative_gap
from onestride.problem import Problem, Step
from onestride.result import Errors, Status
from onestride.theory.assumptions import failed_assumption
from onestride.theory.profile_equations import Solution, solve
from onestride.theory.profile_model import BEST_LEVEL, LEVELS, NODES, Profile, build_profile
from onestride.theory.profile_quadratic import gram_and_derivative, quadratic_form, special_gram
from onestride.theory.smoothing import LARGEST_REACH

__all__ = [
    "BEST_LEVEL",
    "LEVELS",
    "Profile",
    "Solution",
    "build_profile",
    "errors",
    "gram_and_derivative",
    "out_of_range",
    "quadratic_form",
    "solve",
    "special_gram",
]


STRONG = 3.0  # of a row's length: for weaker steps the default nodes are accurate to 1e-4 or much better
NODE_TOLERANCE = 0.01


def errors(
    problem: Problem, steps: list[Step], ridges: ArrayLike, *, level: str = BEST_LEVEL, nodes: int = NODES
) -> Errors:
    """Train and test errors on steps × penalties; cells that could not be solved are NaN with a sentence."""
    lam = np.asarray(ridges, float)
    shape = (len(steps), lam.size)
    values = np.full((3, *shape), np.nan)
    residual, iterations = np.full(shape, np.nan), np.zeros(shape, int)
    status, message = np.full(shape, Status.SOLVED, object), np.full(shape, Status.SOLVED.value, object)
    for i, step in enumerate(steps):
        stepped = problem.replace(step=step)
        reason = failed_assumption(stepped)
        if reason is not None:
            status[i], message[i] = Status.ASSUMPTION, reason
            continue
        profile = build_profile(stepped, level, nodes=nodes)
        reason = out_of_range(profile)
        if reason is not None:
            status[i], message[i] = Status.NOT_CONVERGED, reason
            continue
        values[:, i], residual[i], iterations[i], message[i] = _walk(profile, lam)
        if profile.learned.amplitude > STRONG and np.isfinite(values[:, i]).any():
            # quadrature is what can fail now: compare with more nodes
            finer = build_profile(stepped, level, nodes=round(1.5 * nodes))
            coarse = values[:, i].copy()
            values[:, i], residual[i], iterations[i], message[i] = _walk(finer, lam)
            change = relative_gap(values[:, i], coarse).max(0)
            for j in np.flatnonzero(change > NODE_TOLERANCE):
                message[i, j] = (
                    f"the step is so strong that {nodes} quadrature nodes are too few: more of them change the answer "
                    f"by {100 * change[j]:.0f} % (weights along the learned direction are now about "
                    f"{profile.learned.amplitude:.2g} times the length of a row)"
                )
        failed = message[i] != Status.SOLVED.value
        status[i, failed], values[:, i, failed] = Status.NOT_CONVERGED, np.nan
    return Errors(values[0], values[1], values[2], residual, iterations, status, message)


def _walk(profile: Profile, lam: Array) -> tuple[Array, Array, Array, Array]:
    """Errors, residuals, iterations and messages at every λ, from the largest down."""
    values, residual, iterations = np.full((3, lam.size), np.nan), np.full(lam.size, np.nan), np.zeros(lam.size, int)
    message = np.full(lam.size, Status.SOLVED.value, object)
    previous: Solution | None = None
    for j in np.argsort(-lam, kind="stable"):
        near = previous is not None and previous.lam.real < 30 * lam[j]
        solution = solve(profile, float(lam[j]), previous if near else None)
        residual[j], iterations[j] = solution.residual, solution.iterations
        if solution.converged:
            with np.errstate(all="ignore"):  # numbers of very different sizes end as NaN, which is told
                values[:, j] = errors_at(profile, solution)
            previous = solution
        if not np.isfinite(values[:, j]).all():
            message[j] = (
                f"{Status.NOT_CONVERGED.value}: residual {solution.residual:.1e} after "
                f"{solution.iterations} steps at λ = {lam[j]:g}"
            )
    return values, residual, iterations, message


def errors_at(profile: Profile, solution: Solution) -> tuple[float, float, float]:
    """Ridge objective λY, training error −λ² ∂Y/∂λ and test error (leave-one-out) of one solution, λ > 0."""
    lam = float(np.real(solution.lam))
    tangents = [solution.tangent(1.0), solution.tangent(1 / solution.rho**2)]
    Y, (by_lam, by_leaving_out) = quadratic_form(profile, solution, tangents)
    return float(np.real(lam * Y)), float(np.real(-(lam**2) * by_lam)), float(np.real(-by_leaving_out))


def out_of_range(profile: Profile) -> str | None:
    """Why the smoothed activation or teacher could not be computed, if so."""
    if all(np.isfinite(x).all() for x in (profile.mu, profile.K, profile.K2, profile.e)):
        if all(np.isfinite(x).all() for x in (profile.h0, profile.h1, profile.hr)):
            return None
        return f"the teacher {profile.problem.target.name!r} is too large to be averaged over the unlearned directions"
    reach = float(np.abs(profile.theta).max() * profile.z.max() + 20 * np.sqrt(profile.v.max()))
    return (
        f"the step is so large that pre-activations reach {reach:.2g}, where activation "
        f"{profile.problem.sigma.name!r} overflows or which is beyond the {LARGEST_REACH:.0f} this theory tabulates"
    )
