"""Errors of the profile theory on steps × penalties.

`build_model` sets the equations up, `solve` solves them at one λ, `quadratic_form` reads errors off the solution;
`errors` does so on a grid, walking down in λ with the tangent of each solution as the start of the next.
"""

from __future__ import annotations

import re
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from onestride._numerics import Array, Float, relative_gap
from onestride.problem import Problem, Step
from onestride.result import Errors, Status
from onestride.theory.assumptions import failed_assumption
from onestride.theory.direction import without_a_direction
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
    lam = float(np.real(solution.lam))
    tangents = [solution.tangent(1.0), solution.tangent(1 / solution.rho**2)]
    Y, (by_lam, by_leaving_out) = quadratic_form(model, solution, tangents)
    return complex(lam * Y).real, complex(-(lam**2) * by_lam).real, complex(-by_leaving_out).real


_ACCURACY = {
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
# (n/d > 4, c > 1): numbers simulated and not marked as inaccurate, share of them within (docs/verification.md)
_MEASURED = {
    (False, False): (2952, "99.7 %"),
    (False, True): (1176, "99.1 %"),
    (True, False): (6336, "99.1 %"),
    (True, True): (3501, "98.9 %"),
}


_OF_SEVERAL = (
    "finite n, every degree of the inputs, a teacher of several directions: of 3,648 numbers simulated for 52 random problems (two and "
    "three directions, n from 600 to 2,000, n/d from 1 to 40, c ≤ 2, α ≤ 1/2, λ from 0.001 to 1) and not marked as inaccurate 99.4 % "
    "lie within 3 standard errors or 2 %"
)
_SEVERAL = {
    "fresh": (
        "finite n, several steps on fresh batches: of 2,046 numbers simulated for 40 problems (2 to 10 steps, n from 600 to 2,000, α ≤ "
        "1/2, λ from 0.001 to 1) and not marked as inaccurate 96.9 % lie within 3 standard errors or 2 %"
    ),
    "reused": (
        "finite n, several steps on one batch: of 228 numbers simulated for 6 problems (2 or 3 steps, n from 600 to 2,000, α ≤ 1/2, λ from "
        "0.001 to 1) and not marked as inaccurate all lie within 3 standard errors or 2 %"
    ),
}
# by what is combined: numbers simulated on a GPU with 16 to 40 seeds and not marked as inaccurate, problems, share of them within
_COMBINED = {
    ("directions", "inputs"): (2412, 42, "98.2 %"),
    ("steps", "directions"): (2064, 45, "98.4 %"),
    ("steps", "inputs"): (1137, 45, "97.8 %"),
}
_SAME_BATCH = (
    "finite n, the readout fitted on the samples of the step: of 2,352 numbers simulated for 53 random problems (n from 600 to 1,500, n/d from 1 "
    "to 23, c ≤ 2, α ≤ 1/2, λ from 0.001 to 1) and not marked as inaccurate 97.2 % lie within 3 standard errors or 2 %"
)
_SAME_BATCH_COMBINED = (
    "finite n, the readout fitted on the samples of the step, with {what}: of {numbers} numbers simulated for {count} random problems with some that "
    "are not marked as inaccurate (n from 300 to 700, c ≤ 2, α from 0.1 to 1/2, λ from 0.001 to 1) {within} lie within 3 standard errors or 2 %"
)
# by kind of inputs that are not isotropic: the same for problems of two independent simulators (docs/inputs.md)
_OF_INPUTS = {
    "correlated inputs": (2340, "95.7 %"),
    "a covariance with one spike of at most 2√d": (852, "95.7 %"),
    "random lengths": (336, "97.3 %"),
}


def _accuracy_of_inputs(problem: Problem) -> str:
    """What simulations say where the inputs have a covariance or random lengths."""
    law = problem.law
    kind = "random lengths" if law.freedom is not None else "correlated inputs"
    if law.freedom is None and sigma_of(problem).spike is not None:
        kind = "a covariance with one spike of at most 2√d"
    numbers, within = _OF_INPUTS[kind]
    return (
        f"finite n, every degree of inputs with their own covariance: of {numbers:,} numbers simulated with {kind} (n from 600 to "
        f"1,900, c ≤ 2, α ≤ 1/2, λ from 0.001 to 1) and not marked as inaccurate {within} lie within 3 standard errors or 2 %"
    )


def _accuracy_of_combinations(problem: Problem) -> str | None:
    """What simulations say where several directions, several steps and a law of the inputs come together; None where they do not."""
    has = {
        "directions": problem.directions > 1,
        "steps": problem.steps > 1,
        "inputs": problem.law.eigenvalues is not None and not problem.law.isotropic,
    }
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
    return (
        f"finite n, every degree of the inputs; {'; '.join(told)} (not marked as inaccurate, n from 600 to 1,500, c ≤ 2, α ≤ 1/2, λ from 0.001 "
        "to 1) lie within 3 standard errors or 2 %"
    )


def _accuracy_on_the_same_batch(problem: Problem) -> str:
    """What simulations say where the readout is fitted on the samples of the step."""
    told = _SAME_BATCH_COMBINED.format
    if problem.directions > 1:
        return told(what="several directions", numbers=312, count=16, within="95.5 %")
    if not problem.law.isotropic:
        return told(what="inputs with a covariance", numbers=192, count=9, within="96.4 %")
    return _SAME_BATCH


def _accuracy_of_the_best(problem: Problem) -> str:
    """What simulations say about problems of this kind, and what of this one lies outside of those that were simulated."""
    told = _accuracy_of_its_kind(problem)
    outside = _outside(problem, told)
    return f"{told}; this problem, with {outside}, lies outside of them" if outside else told


def _outside(problem: Problem, told: str) -> str:
    """Which of n, n/d and c lie outside the ranges that the sentence `told` names."""
    number = r"([\d.,]*\d)"
    shown = {"n": f"{problem.n:,}", "n/d": f"{problem.n / problem.d:.3g}", "c": f"{problem.step.constant:g}"}
    value = {"n": problem.n, "n/d": problem.n / problem.d, "c": problem.step.constant}
    low = re.findall(rf"\b(n(?:/d)?) from {number} to {number}", told)
    ranges = {name: (float(a.replace(",", "")), float(b.replace(",", ""))) for name, a, b in low}
    if most := re.findall(rf"\bc ≤ {number}", told):
        ranges["c"] = (0.0, float(most[0]))
    return " and ".join(f"{name} = {shown[name]}" for name, (a, b) in ranges.items() if not a <= value[name] <= b)


def _accuracy_of_its_kind(problem: Problem) -> str:
    """What simulations of random problems of this kind, by n/d and c, say about the level of every degree."""
    if not problem.fresh and problem.eta > 0 and problem.steps == 1:
        return _accuracy_on_the_same_batch(problem)
    combined = _accuracy_of_combinations(problem)
    if combined is not None:
        return combined
    if problem.steps > 1:
        return _SEVERAL[problem.batch]
    if problem.law.eigenvalues is not None and not problem.law.isotropic:
        return _accuracy_of_inputs(problem)
    few, strong = problem.n > 4 * problem.d, max(problem.step.constant, problem.eta / np.sqrt(float(problem.n))) > 1
    numbers, within = _MEASURED[few, strong]
    ratio, size = "n/d from 4 to 100" if few else "n/d from 1 to 4", "1 < c ≤ 3" if strong else "c ≤ 1"
    other = (
        ""
        if problem.inputs == "gaussian"
        else f"; {problem.law.name} entries have their own lengths and labels and are Gaussian ones otherwise (82 of 84 numbers simulated with ±1 entries at d = 600)"
    )
    measured = (
        f"finite n, every degree of the inputs: of {numbers:,} numbers simulated for random problems with {ratio} and {size} (n "
        f"from 400 to 3,000, α ≤ 1/2, λ from 0.001 to 1) and not marked as inaccurate {within} lie within 3 standard errors or 2 %{other}"
    )
    blind = without_a_direction(problem)
    return (f"{blind}. Accuracy: " if blind else "") + (measured if problem.directions == 1 else _OF_SEVERAL)


def at_level(level: str) -> Theory:
    """The profile theory at one of its levels."""
    level = level_name(level)
    accuracy = _ACCURACY.get(level, _accuracy_of_the_best)
    return Theory(
        "profile",
        partial(errors, level=level),
        accuracy,
        partial(failed_assumption, schedules=level == BEST_LEVEL, same_batch=level == BEST_LEVEL),
        every_degree=level == BEST_LEVEL,
        at_level=at_level,  # `slopes` adds its own
        unchecked=partial(errors, level=level, nodes=SEARCHING, checked=False),
    )
