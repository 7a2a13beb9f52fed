"""Which assumption of the finite-n theories fails for a problem, told in a sentence."""

from __future__ import annotations

import numpy as np

from onestride.problem import Problem
from onestride.table import NO_LAW, Table
from onestride.teachers import MOST_DIRECTIONS

SMALLEST_SIZE = 10
LARGEST_SIZE = 10**18
MOST_EIGENVALUES = 200_000  # of a covariance, all d of which the theory goes through: seconds and a GiB
MOST_LENGTHS = 10**7  # of samples with random lengths, likewise
MOST_STEPS = 250  # followed one by one: 20 s on one batch
_ROUNDING = 1e-9  # of the Hermite coefficients of an activation
LARGEST = 1e60  # of λ, E σ², E σ⋆² and the noise, and one over the least of λ: their products must stay finite numbers


def beyond_the_model(problem: Problem, *, schedules: bool = False, same_batch: bool = False) -> str | None:
    """What no theory describes: inputs of unknown covariance, many directions, overflow; and what only those of `schedules` or of the
    `same_batch` for both layers do.
    """
    if isinstance(problem.inputs, Table):
        return f"this theory needs a law of the inputs, and {NO_LAW}"
    if problem.law.eigenvalues is None:
        return (
            f"the theory needs the covariance of the inputs, and the law {problem.law.name!r} does not state it; "
            "InputLaw(…, eigenvalues=numpy.ones) says that it is the identity"
        )
    if problem.directions > MOST_DIRECTIONS:
        return (
            f"the theory averages the teacher over its directions and needs at most {MOST_DIRECTIONS} of them, "
            f"got directions={problem.directions}"
        )
    if problem.steps > 1 and problem.step.constant > 0:
        if not schedules:
            return f"this theory describes one gradient step, got steps={problem.steps}"
        if problem.batch == "reused" and problem.law.freedom is not None:
            return (
                f"the theory of several steps on one batch needs inputs without random lengths, got inputs={problem.inputs!r} with batch="
                '"reused": a long row carries more of what it has seen'
            )
    if not problem.fresh and problem.step.constant > 0:
        reason = _on_the_same_batch(problem, described=same_batch)
        if reason is not None:
            return reason
    return out_of_range(problem)


def not_computable(problem: Problem) -> str | None:
    """Why no theory can be asked, as sizes or powers are beyond computing; the first reason there is."""
    return None if out_of_range(problem) is None else beyond_the_model(problem, schedules=True, same_batch=True)


def too_large(problem: Problem) -> str | None:
    """Which sizes are beyond computing with, whatever the theory; None where none is."""
    if max(problem.n, problem.d, problem.N, problem.step_samples) <= LARGEST_SIZE:
        return None
    return (
        f"the theory computes in double precision and needs n, d, N and n_step of at most {LARGEST_SIZE:.0e}, got "
        f"n = {problem.n}, d = {problem.d}, N = {problem.N}, n_step = {problem.step_samples}"
    )


def out_of_range(problem: Problem) -> str | None:
    """Which size or power is too large or too small to be computed with, whatever the theory; None where none is."""
    reason = too_large(problem)
    if reason is not None:
        return reason
    if problem.steps > MOST_STEPS:
        return f"the theory follows steps one by one and needs at most {MOST_STEPS} of them, got steps={problem.steps}"
    if not problem.law.isotropic and problem.d > MOST_EIGENVALUES:
        return (
            f"the theory goes through all eigenvalues of a covariance and needs d of at most {MOST_EIGENVALUES:,} with "
            f"inputs={problem.law.name!r}, got d = {problem.d}"
        )
    if problem.law.freedom is not None and max(problem.n, problem.step_samples) > MOST_LENGTHS:
        return (
            f"the theory goes through the lengths of all samples and needs n and n_step of at most {MOST_LENGTHS:.0e} with "
            f"inputs={problem.law.name!r}, got n = {problem.n}, n_step = {problem.step_samples}"
        )
    with np.errstate(all="ignore"):
        if problem.sigma.second_moment == 0:
            what, why = (
                ("so small that its square is 0 in double precision", "larger coefficients do")
                if problem.sigma.coefficients.any()
                else ("that is 0", "its features hold nothing")
            )
            return f"the theory cannot be computed for an activation {what}, got {problem.sigma.name!r}: {why}"
        sizes = {"λ": problem.ridge, "1/λ": 1 / problem.ridge, "the noise": problem.noise}
        powers = {"E σ²": problem.sigma.second_moment, "E σ⋆²": problem.target.second_moment}
        sizes |= powers | {f"1/{name}": 1 / power for name, power in powers.items() if power > 0}
    reason = beyond(sizes)
    return None if reason is None else f"the theory computes in double precision and {reason}"


def beyond(sizes: dict[str, float]) -> str | None:
    """The first of these, by name, whose products need not be finite numbers; None where none is."""
    for name, size in sizes.items():
        if not size <= LARGEST:
            return f"needs {name} of at most {LARGEST:g}, got {_told(size)}"
    return None


def _told(size: float) -> str:
    return f"{size:g}" if np.isfinite(size) else "more than the largest number there is"


def _on_the_same_batch(problem: Problem, *, described: bool) -> str | None:
    """Why a readout fitted on the samples of the step is not described; None where it is."""
    if not described:
        return (
            "this theory needs fresh samples for the ridge regression, got fresh=False: a row that the step has seen carries its own "
            "residual in its features, and what is left of it when it is left out is not a test error"
        )
    what = "the theory of a readout fitted on the samples of the step (fresh=False)"
    if problem.steps > 1:
        return f"{what} is derived for one step, got steps={problem.steps}: later steps see residuals that the rows already carry"
    if problem.law.freedom is not None:
        return f"{what} needs inputs without random lengths, got inputs={problem.inputs!r}: a long row carries more of its own residual"
    if problem.readout == "constant" and not odd(problem):
        return (
            f"{what} needs a random readout or an odd activation, got readout='constant' with activation {problem.sigma.name!r}: the moves of "
            "all neurons along the batch's own second moments then add up to an output that hides in the length of a row, which is described "
            "to 10 % only"
        )
    return None


def odd(problem: Problem) -> bool:
    """Whether σ is odd: turning neurons round with the signs of their readouts then changes nothing."""
    return bool(np.abs(problem.sigma.coefficients[::2]).max() < _ROUNDING)


def needs_identity(problem: Problem, what: str) -> str | None:
    """Why `what`, which is derived for isotropic inputs, does not apply; None where it does."""
    if problem.law.isotropic:
        return None
    return f"{what} needs inputs with identity covariance and without random lengths, got inputs={problem.inputs!r}"


def needs_rank_one(problem: Problem, what: str) -> str | None:
    """Why `what`, which expands in powers of a rank-one step, does not apply; None where it does."""
    sigma, step = problem.sigma, problem.step
    if step.constant == 0:
        return None
    if step.exponent > 0.5:
        return (
            f"{what} needs a step of at most c·√n, α ≤ 1/2; at α = {step.exponent:g} the fluctuations of the "
            "gradient grow with n and no longer stay small beside the weights"
        )
    if sigma.coefficients[1] == 0:
        return (
            f"{what} needs c₁ ≠ 0, and activation {sigma.name!r} has c₁ = 0: the gradient is then not close to rank one"
        )
    return None


def failed_assumption(problem: Problem, *, schedules: bool = False, same_batch: bool = False) -> str | None:
    """The first assumption of the finite-n theories that `problem` breaks; None when all hold.

    `schedules`: several steps are described, too; `same_batch`: a readout fitted on the samples of the step.
    """
    sigma, step = problem.sigma, problem.step
    reason = beyond_the_model(problem, schedules=schedules, same_batch=same_batch)
    if reason is not None:
        return reason
    if min(problem.n, problem.d, problem.N, problem.step_samples) < SMALLEST_SIZE:
        return (
            f"the theory describes large problems and needs n, d, N and n_step of at least {SMALLEST_SIZE}, got "
            f"n = {problem.n}, d = {problem.d}, N = {problem.N}, n_step = {problem.step_samples}"
        )
    if step.constant == 0:
        return None
    if sigma.coefficients[1] == 0 and (problem.law.freedom is not None or problem.steps > 1):
        what, why = "several steps", "what batches show by chance then decides where neurons go"
        if problem.law.freedom is not None:
            what, why = (
                "inputs with random lengths",
                "the slope along the gradient then changes its sign with the length",
            )
        return f"with {what} the theory needs c₁ ≠ 0, and activation {sigma.name!r} has c₁ = 0: {why}"
    if problem.gradient == "full" and not problem.centred and abs(sigma.coefficients[0]) > 1e-12:
        return (
            f"with the full gradient the theory needs a centred activation, c₀ = 0, and {sigma.name!r} was left "
            f"uncentred (c₀ = {sigma.coefficients[0]:.4g}): the network's output then has a random mean"
        )
    if not np.isfinite(problem.eta):
        return f"the step η = {step.constant:g}·n^{step.exponent:g} is not a finite number"
    return None
