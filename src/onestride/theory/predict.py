"""`predict` and `predict_grid`: one call, one result type, whichever theory answers."""

from __future__ import annotations

from numpy.typing import ArrayLike

from onestride._backend.threads import one_thread
from onestride._errors import true_or_false
from onestride.problem import Problem, Step, expect, exponent_axis, grid_axis
from onestride.result import Errors, Prediction, PredictionGrid, Status, TheoryError
from onestride.theory import finite_step, plateau
from onestride.theory.assumptions import not_computable
from onestride.theory.profile import slopes as profile
from onestride.theory.profile.strength import Level
from onestride.theory.registry import Method, choose, methods, register
from onestride.theory.registry import Theory as Theory
from onestride.theory.reliability import mark
from onestride.theory.table import errors as table

for _theory in (
    profile.THEORY,
    finite_step.THEORY,
    plateau.THEORY,
    plateau.EXACT,
    table.THEORY,
):  # the one place that lists them
    register(_theory)
METHODS = methods()


def predict(problem: Problem, *, method: Method = "auto", level: Level | None = None, throw: bool = True) -> Prediction:
    """Predict train and test error after the step, and the same without it (`.untrained`).

    Parameters
    ----------
    method
        ``"profile"``: finite n, steps of any size. ``"finite-step"``: the same with a frozen bulk, for weak steps,
        in a millisecond. ``"plateau"``: the n → ∞ limits of the paper, after an exactly rank-one step, and
        ``"exact-plateau"``: after the exact one. ``"table"``: of the rows behind a problem made by `from_data`.
        ``"auto"``: the most accurate that applies.
    level
        Of the profile theory: ``"degrees"`` (the default) resolves every degree of the inputs, for any n, d and N;
        ``"full"``, ``"resolved"``, ``"isotropic"`` and ``"rank-one"`` (`theory.profile.strength`) take degree two and
        higher for noise, which needs n, N ≪ d²/2.
    throw
        With `throw=False` a problem without a theory gives NaN and a status instead of raising `TheoryError`, and one
        for which the theory is known to be off by more than 5 % its numbers with the status `INACCURATE`.

    >>> problem = one.Problem(n=200, d=100, N=150, teacher=[0, 1, 0.7071], noise=0.5, step=one.Step(exponent=0.3))
    >>> p = one.predict(problem)
    >>> print(f"{p.test_error:.3f}, {p.untrained.test_error:.3f} without the step: {p.status.value}")
    1.875, 2.191 without the step: solved
    """
    expect(problem)
    true_or_false(throw=throw)
    grid = predict_grid(problem, [problem.step.exponent], [problem.ridge], method=method, level=level)
    prediction = grid[0, 0]
    if throw and prediction.status is not Status.SOLVED:
        raise TheoryError(prediction.message)
    return prediction


@one_thread()
def predict_grid(
    problem: Problem, exponents: ArrayLike, ridges: ArrayLike, *, method: Method = "auto", level: Level | None = None
) -> PredictionGrid:
    """Predict for every exponent of the step and every penalty, one status per cell.

    Cells without a theory are NaN; those known to be off by more than 5 % keep their numbers with the status
    `INACCURATE` and a sentence (`.trained.message`, or the message of `grid[i, j]`).
    A problem without a step (the default, c = 0) has no exponents but its own: others are refused, not ignored.

    >>> problem = one.Problem(n=200, d=100, N=150, teacher=[0, 1, 0.7071], noise=0.5, step=one.Step(exponent=0.3))
    >>> grid = one.predict_grid(problem, exponents=[0.1, 0.3], ridges=[0.1, 1.0])
    >>> print(grid.test_error.round(2))
    [[2.04 1.88]
     [1.87 1.67]]
    >>> grid[0, 1].status.value
    'solved'
    """
    expect(problem)
    return grid_by(choose(problem, method, level), problem, exponents, ridges)


def grid_by(theory: Theory, problem: Problem, exponents: ArrayLike, ridges: ArrayLike) -> PredictionGrid:
    """What a theory says, with its marks."""
    alphas, lams = exponent_axis(problem, exponents), grid_axis("ridges", ridges, positive=True)
    steps = [problem.step.replace(exponent=float(a)) for a in alphas]
    reason = None if theory.of_tables else not_computable(problem)
    if reason is not None:
        trained, untrained = (Errors.none((count, lams.size), Status.ASSUMPTION, reason) for count in (len(steps), 1))
        return PredictionGrid(problem, theory.name, alphas, lams, trained, untrained, "nothing was computed")
    trained, untrained = theory.errors(problem, steps, lams), theory.errors(problem, [Step.none()], lams)
    if not (theory.limit or theory.of_tables):
        trained = mark(problem, steps, lams, trained, untrained, every_degree=theory.every_degree)
        untrained = mark(problem, [Step.none()], lams, untrained, untrained, every_degree=theory.every_degree)
    return PredictionGrid(problem, theory.name, alphas, lams, trained, untrained, theory.words(problem))
