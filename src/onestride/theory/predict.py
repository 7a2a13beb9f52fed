"""`predict` and `predict_grid`: one call, one result type, whichever theory answers."""

from __future__ import annotations

from numpy.typing import ArrayLike

from onestride.functions import InputError
from onestride.problem import Problem, Step, exponent_axis, grid_axis
from onestride.result import Errors, Prediction, PredictionGrid, Status, TheoryError
from onestride.theory import finite_step, plateau, profile
from onestride.theory.reliability import mark
from onestride.theory.threads import one_thread

METHODS = ("auto", "profile", "finite-step", "plateau")
ACCURACY = {
    "plateau": "the n → ∞ limit inside a window; at realistic n gains are off by tens of percent",
    "finite-step": (
        "finite n with the untrained network's bulk: within 1 % of the profile theory (n = 1,500) for λ ≥ 0.1 and "
        "α ≤ 0.25, within 2 % for λ ≥ 0.1 and α ≤ 0.3, tens of percent off at λ = 0.001 and α = 1/2"
    ),
    "T2": (
        "finite n, the step's rank-one part only: against the literal gradient step median 0.7 % (train) and 0.5 % "
        "(test), at worst 8 % at α = 1/2, over 1,440 cells of simulation at n = 1,500, c = 1"
    ),
    "T2i": (
        "finite n, gradient fluctuations taken as isotropic: within 1–3 % of simulation almost everywhere for c up to "
        "4, 10–12 % off for a large prefactor with a mostly quadratic teacher"
    ),
    "T2M": (
        "finite n: against simulation median 0.7 % (train) and 0.4 % (test), at worst 3 %, over 1,440 cells at "
        "n = 1,500, c = 1, α ≤ 1/2, λ from 0.001 to 1; for c = 3 at α = 1/2 the training error can be 4–12 % low"
    ),
    "T2S": (
        "finite n: of 13,824 numbers simulated at n = 1,000 (c = 1, α ≤ 1/2, λ from 0.001 to 1) 98.6 % lie within 3 "
        "standard errors or 2 %"
    ),
    "T2S elsewhere": (
        "finite n: of 11,391 numbers simulated for problems of every kind (n from 200 to 2,048, c from 0.5 to 12) and not "
        "marked as inaccurate 97.6 % lie within 3 standard errors or 2 %"
    ),
}


def predict(problem: Problem, *, method: str = "auto", level: str | None = None, throw: bool = True) -> Prediction:
    """Predict train and test error after the step, and the same without it (`.untrained`).

    Parameters
    ----------
    method
        ``"profile"``: finite n, every step up to c√n. ``"finite-step"``: the same with a frozen bulk, for weak steps,
        in a millisecond. ``"plateau"``: the n → ∞ limits. ``"auto"``: the most accurate that applies.
    level
        Of the profile theory: ``"T2S"`` (the default), ``"T2M"``, ``"T2i"`` or ``"T2"``, see `theory.profile_model`.
    throw
        With `throw=False` a problem without a theory gives NaN and a status instead of raising `TheoryError`, and one
        for which the theory is known to be off by more than 5 % its numbers with the status `INACCURATE`.
    """
    grid = predict_grid(problem, [problem.step.exponent], [problem.ridge], method=method, level=level)
    prediction = grid[0, 0]
    if throw and prediction.status is not Status.SOLVED:
        raise TheoryError(prediction.message)
    return prediction


@one_thread()
def predict_grid(
    problem: Problem, exponents: ArrayLike, ridges: ArrayLike, *, method: str = "auto", level: str | None = None
) -> PredictionGrid:
    """Predict for every exponent of the step and every penalty, one status per cell.

    Cells without a theory are NaN; those known to be off by more than 5 % keep their numbers with the status
    `INACCURATE` and a sentence (`.trained.message`, or the message of `grid[i, j]`).
    A problem without a step (the default, c = 0) has no exponents but its own: others are refused, not ignored.
    """
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    chosen = "profile" if method == "auto" else method  # the profile theory applies wherever the others do
    if level is not None and (chosen != "profile" or level not in profile.LEVELS):
        raise InputError(
            f"level must be one of {', '.join(profile.LEVELS)} and goes with method='profile', "
            f"got level={level!r} with method={method!r}"
        )
    alphas, lams = exponent_axis(problem, exponents), grid_axis("ridges", ridges, positive=True)
    steps = [problem.step.replace(exponent=float(a)) for a in alphas]
    level = level or profile.BEST_LEVEL

    def errors(steps: list[Step]) -> Errors:
        if chosen == "profile":
            return profile.errors(problem, steps, lams, level=level)
        return (finite_step if chosen == "finite-step" else plateau).errors(problem, steps, lams)

    trained, untrained = errors(steps), errors([Step.none()])
    if chosen != "plateau":  # that one is a limit, and says so
        trained = mark(problem, steps, lams, trained, untrained)
        untrained = mark(problem, [Step.none()], lams, untrained, untrained)
    words = _accuracy(problem, level if chosen == "profile" else chosen)
    return PredictionGrid(problem, chosen, alphas, lams, trained, untrained, words)


def _accuracy(problem: Problem, name: str) -> str:
    """What simulations of problems like this one say about the theory called `name`."""
    usual = problem.readout == "gaussian" and problem.weights == "sphere" and problem.step_samples == problem.n
    checked = usual and problem.step.constant <= 1 and 0.25 <= problem.phi <= 1 and 0.5 <= problem.N / problem.n <= 1.5
    return ACCURACY[name if name != "T2S" or checked else "T2S elsewhere"]
