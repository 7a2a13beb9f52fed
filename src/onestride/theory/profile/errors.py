"""Errors of the profile theory on steps × penalties.

`build_model` sets the equations up, `solve` solves them at one λ, `quadratic_form` reads errors off the solution;
`errors` does so on a grid, walking down in λ with the tangent of each solution as the start of the next.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from onestride._numerics import Array, Float, relative_gap
from onestride.problem import Problem, Step
from onestride.result import Errors, Status
from onestride.theory.assumptions import failed_assumption
from onestride.theory.profile.accuracy import OF_LEVEL, accuracy
from onestride.theory.profile.anisotropy import sigma_of
from onestride.theory.profile.build import NODES, Ending, build_model, try_model
from onestride.theory.profile.equations import Guess, Solution, solve
from onestride.theory.profile.quadratic_form import quadratic_form
from onestride.theory.profile.same_batch import ratio
from onestride.theory.profile.sectors import Model
from onestride.theory.profile.strength import BEST_LEVEL, level_name
from onestride.theory.registry import Theory

STRONG = 3.1  # of a row's length: for weaker steps the default nodes are accurate to 1e-4 or much better
NODE_TOLERANCE = 0.01
# where two thirds of the nodes change errors by less, all of them are accurate to 1e-4 (29 random problems)
_NEARLY = 1e-3
_NEARLY_OF_FEW = 0.03  # to 2e-3, where several draws have half the nodes (`anisotropy.of_many`) and two thirds are 11
SEARCHING = 21  # nodes of a search: errors to 3e-4
_ROUNDING = 1e-3  # what it may do to errors of very different sizes

Walk = tuple[Array, Array, Array, Array]  # errors, residuals, iterations and messages at every λ
Trail = dict[int, dict[float, Solution]]  # by member of the model and λ: what the last step has left for the next


def errors(
    problem: Problem,
    steps: list[Step],
    ridges: ArrayLike,
    *,
    level: str = BEST_LEVEL,
    nodes: int = NODES,
    checked: bool = True,
    trail: Trail | None = None,
) -> Errors:
    """Train and test errors on steps × penalties; cells that could not be solved are NaN with a sentence.

    After strong steps other nodes must give the same (`_checked`), unless told not to look. Solutions of the last step are left in `trail`.
    """
    lam = np.asarray(ridges, float)
    shape = (len(steps), lam.size)
    values = np.full((3, *shape), np.nan)
    residual, iterations = np.full(shape, np.nan), np.zeros(shape, int)
    status, message = np.full(shape, Status.SOLVED, object), np.full(shape, Status.SOLVED.value, object)
    trail = {} if trail is None else trail
    for i, step in enumerate(steps):
        stepped = problem.replace(step=step)
        follow = _one_step if stepped.steps == 1 else _several_steps
        found = follow(stepped, level, nodes, lam, checked, trail)
        if isinstance(found, Ending):
            status[i], message[i] = found
            continue
        if not stepped.fresh and stepped.eta > 0:
            found = _on_the_same_batch(stepped, lam, *found)
        values[:, i], residual[i], iterations[i], message[i] = found
        failed = message[i] != Status.SOLVED.value
        status[i, failed], values[:, i, failed] = Status.NOT_CONVERGED, np.nan
    return Errors(values[0], values[1], values[2], residual, iterations, status, message)


def _one_step(problem: Problem, level: str, nodes: int, lam: Array, checked: bool, trail: Trail) -> Walk | Ending:
    """Errors at every λ after one step."""
    model = try_model(problem, level, nodes=nodes, same_batch=True)
    if isinstance(model, Ending):
        return model
    walks = [_walk(member, lam, trail, j) for j, (_, member) in enumerate(model.members)]
    found, strong = _averaged(model, walks), model.learned.amplitude > STRONG
    if checked and strong and np.isfinite(found[0]).any():
        return _checked(problem, model, level, nodes, lam, walks[0], found)
    return found


def _several_steps(problem: Problem, level: str, nodes: int, lam: Array, checked: bool, trail: Trail) -> Walk | Ending:
    """The same after several: other draws than the likeliest are followed where that one has a number."""
    first = try_model(problem, level, nodes=nodes, same_batch=True, likeliest=True)
    if isinstance(first, Ending):
        return first
    found = _walk(first, lam, trail, 0)
    if checked and first.learned.amplitude > STRONG and np.isfinite(found[0]).any():
        # two directions take many nodes: there are no more, and fewer must give the same within the tolerance
        fewer = build_model(problem, level, nodes=round(3 / 4 * nodes), likeliest=True)
        _too_few(found, relative_gap(found[0], _walk(fewer, lam, {}, 0)[0]).max(0), nodes, first)
    there = found[3] == Status.SOLVED.value
    if not there.any():
        return found
    model = try_model(problem, level, nodes=nodes, same_batch=True)
    if isinstance(model, Ending):
        return model
    others = [_walk(member, lam[there], trail, j) for j, (_, member) in enumerate(model.members[1:], 1)]
    values, residual, iterations, message = found
    here = values[:, there], residual[there], iterations[there], message[there]
    values[:, there], residual[there], iterations[there], message[there] = _averaged(model, [here, *others])
    return found


def _checked(problem: Problem, model: Model, level: str, nodes: int, lam: Array, likeliest: Walk, found: Walk) -> Walk:
    """After a strong step quadrature is what can fail: fewer nodes must give nearly the same (of several draws the likeliest), or else more."""
    fewer = build_model(problem, level, nodes=round(2 / 3 * nodes), likeliest=True)
    change = relative_gap(likeliest[0], _walk(fewer, lam, {}, 0)[0]).max(0)
    few = model.draws and sigma_of(problem).spike is not None
    if (change < (_NEARLY_OF_FEW if few else _NEARLY)).all():
        return found
    more = try_model(problem, level, nodes=round(1.5 * nodes), same_batch=True)
    if isinstance(more, Ending):
        return *found[:3], np.full(lam.size, more.message, object)
    other = _averaged(more, [_walk(member, lam, {}, 0) for _, member in more.members])
    _too_few(other, relative_gap(other[0], found[0]).max(0), nodes, model)
    return other


def _too_few(found: Walk, change: Array, nodes: int, model: Model) -> None:
    """Say so where errors change with the nodes."""
    for j in np.flatnonzero(change > NODE_TOLERANCE):
        found[3][j] = (
            f"the step is so strong that {nodes} quadrature nodes are too few: more of them change the answer "
            f"by {100 * change[j]:.0f} % (weights along the learned direction are now about "
            f"{model.learned.amplitude:.2g} times the length of a row)"
        )


def _guess(last: dict[float, Solution], lam: float, above: Solution | None, model: Model) -> Guess | None:
    """ρ and q of the last step at λ, moved as they have moved at the λ above."""
    there = last.get(lam)
    if there is None or (there.rho.size, there.q.size) != (model.w.size, model.theta.size):
        return None
    before = None if above is None else last.get(float(above.lam.real))
    if above is None or before is None:
        return Guess(there.rho, there.q, there.factors)
    return Guess(there.rho * (above.rho / before.rho), there.q * (above.q / before.q), there.factors)


def _averaged(model: Model, walks: list[Walk]) -> Walk:
    """Errors, residuals, iterations and messages averaged over the members."""
    if len(walks) == 1:
        return walks[0]
    values = sum(p * one[0] for (p, _), one in zip(model.members, walks, strict=True))
    message = walks[0][3]
    for one in walks[1:]:
        message = np.where(message == Status.SOLVED.value, one[3], message)
    return np.asarray(values), np.max([one[1] for one in walks], 0), np.sum([one[2] for one in walks], 0), message


def _walk(model: Model, lam: Array, trail: Trail, member: int) -> Walk:
    """Errors, residuals, iterations and messages of one member at every λ, from the largest down."""
    values, residual, iterations = np.full((3, lam.size), np.nan), np.full(lam.size, np.nan), np.zeros(lam.size, int)
    message = np.full(lam.size, Status.SOLVED.value, object)
    previous: Solution | None = None
    last, now = trail.get(member, {}), dict[float, Solution]()
    for j in np.argsort(-lam, kind="stable"):
        near = previous if previous is not None and previous.lam.real < 30 * lam[j] else None
        here, at = model.at(float(lam[j])), float(lam[j])
        solution = solve(here, at, near, _guess(last, at, near, here))
        residual[j], iterations[j] = solution.residual, solution.iterations
        if solution.converged:
            with np.errstate(all="ignore"):  # numbers of very different sizes end as NaN, which is told
                values[:, j] = errors_at(here, solution)
            previous = now[at] = solution
        if not np.isfinite(values[:, j]).all():
            message[j] = (
                f"{Status.NOT_CONVERGED.value}: residual {solution.residual:.1e} after "
                f"{solution.iterations} steps at λ = {lam[j]:g}"
            )
        elif not _consistent(values[:, j], model.problem.noise):
            message[j] = (
                f"{Status.NOT_CONVERGED.value}: in double precision its errors contradict each other at λ = {lam[j]:g} (ridge "
                f"objective {values[0, j]:.3g}, training error {values[1, j]:.3g}, test error {values[2, j]:.3g})"
            )
            values[:, j] = np.nan
        else:
            values[1, j] = min(max(values[1, j], 0.0), values[0, j])  # rounding
    trail[member] = now
    return values, residual, iterations, message


def _on_the_same_batch(
    problem: Problem, lam: Array, values: Array, residual: Array, iterations: Array, message: Array
) -> Walk:
    """The same when the readout is fitted on the samples of the step."""
    values = values * ratio(problem, lam)
    values[1] = np.minimum(values[1], values[0])
    unsolved = (message == Status.SOLVED.value) & ~np.isfinite(values).all(0)
    words = f"{Status.NOT_CONVERGED.value}: on rows that the step has seen"
    return values, residual, iterations, np.where(unsolved, words, message)


def _consistent(errors: Float[Array, "3"], noise: float) -> bool:
    """0 ≤ training error ≤ ridge objective and test error ≥ σ_ε², up to rounding."""
    train_loss, train_mse, test_error = errors
    fits = -_ROUNDING * train_loss <= train_mse <= train_loss * (1 + _ROUNDING)
    return bool(fits and test_error >= noise**2 * (1 - _ROUNDING))


def errors_at(model: Model, solution: Solution) -> tuple[float, float, float]:
    """Ridge objective λY, training error −λ² ∂Y/∂λ and test error (leave-one-out) of one solution, λ > 0."""
    lam = np.float64(np.real(solution.lam))  # its square may be beyond all numbers
    tangents = [solution.tangent(1.0), solution.tangent(1 / solution.rho**2)]
    Y, (by_lam, by_leaving_out) = quadratic_form(model, solution, tangents)
    return complex(lam * Y).real, complex(-(lam**2) * by_lam).real, complex(-by_leaving_out).real


def at_level(level: str) -> Theory:
    """The profile theory at one of its levels."""
    level = level_name(level)
    return Theory(
        "profile",
        partial(errors, level=level),
        OF_LEVEL.get(level, accuracy),
        partial(failed_assumption, schedules=level == BEST_LEVEL, same_batch=level == BEST_LEVEL),
        every_degree=level == BEST_LEVEL,
        at_level=at_level,  # `slopes` adds its own
        unchecked=partial(errors, level=level, nodes=SEARCHING, checked=False),
    )
