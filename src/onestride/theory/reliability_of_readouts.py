"""Where readouts that are all equal make the theory off by more than 5 %: few, grown and shared of `reliability`."""

from __future__ import annotations

import numpy as np

from onestride.problem import Problem
from onestride.theory.direction import direction
from onestride.theory.profile.harmonics import multiplicity
from onestride.theory.profile.neurons import learned_direction
from onestride.theory.profile.one_readout import Together, together_of
from onestride.theory.profile.strength import strength

_DIRECTIONS, _ALONG = 0.02, 0.045  # of S₂ − 1 and of t̂ᵀSt̂/E S − 1, over d
_CLEAN, _LEARNED, _APART = (
    0.02,
    0.25,
    0.2,
)  # of E σ⋆², of B₂, and of S₂ − 1 (silu, d = 55, n = 291: test error 12 % low; relu, d = 79: 7 %)
_GROWN, _GROWN_SMALL = 4.0, 1.8  # of E S, and where the penalty is small
_SHARED, _SHOWN, _LINEAR = 0.1, 3.5, 0.53  # of m θ, of it over s², and of s
SMALL_PENALTY = 0.1  # of E σ²


def by_one_readout(problem: Problem, *, first_order: bool = False) -> str | None:
    """What M does to all neurons alike stretches few directions, or all of them far; `first_order`: of a theory that has it to first order only."""
    if problem.readout != "constant":
        return None
    together = _together(problem)
    if together is None or first_order:
        return _shared(problem)
    stretched = together.along_learned / together.mean
    if together.second - 1 > _DIRECTIONS * problem.d or stretched - 1 > _ALONG * problem.d:
        return (
            f"with a constant readout the batch's second moments stretch all neurons alike, as a covariance of the inputs would that has {problem.d / together.second:.2g} "
            f"directions and is {stretched:.2g} times its mean along the learned one, which is not small beside d = {problem.d}"
        )
    learned = max(problem.n, problem.N) / multiplicity(problem.d - 1, 2)
    noise = problem.noise**2 / max(problem.target.second_moment, np.finfo(float).tiny)
    if noise < _CLEAN and learned > _LEARNED and together.second - 1 > _APART:
        return (
            f"with a constant readout the batch's second moments stretch all neurons alike, and with max(n, N) = {learned:.2g} times its functions degree two of the "
            "inputs, which is beginning to be learned, sees that: labels without noise show it"
        )
    return _grown(together.mean, _GROWN)


def by_one_readout_at(problem: Problem, ridge: float) -> str | None:
    """The same for small penalties."""
    if problem.readout != "constant" or problem.eta == 0 or problem.steps > 1:
        return None
    if ridge > SMALL_PENALTY * problem.sigma.second_moment:
        return None
    together = _together(problem)
    return None if together is None else _grown(together.mean, _GROWN_SMALL)


def _together(problem: Problem) -> Together | None:
    learned = learned_direction(problem, through_output=True)
    return together_of(problem, learned, strength(problem, "full", learned))


def _grown(mean: float, most: float) -> str | None:
    if mean < most:
        return None
    return (
        f"with a constant readout the batch makes the squares of all neurons' lengths off the learned direction {mean:.2g} times what they were: what "
        "each owes to the samples of the step is described for small moves"
    )


def _shared(problem: Problem) -> str | None:
    """Neurons of one readout, which M all moves alike: what was weight along the learned direction goes into others."""
    power = problem.target.second_moment + problem.noise**2
    if power == 0:
        return None
    share, amplitude = (
        (problem.target.nonlinear_power + problem.noise**2) / power,
        abs(learned_direction(problem).amplitude),
    )
    batch = problem.d / problem.step_samples * direction(problem).residual_power
    moved = 2 * abs(problem.sigma.coefficients[2]) * problem.eta * np.sqrt(batch / problem.N)
    if share > _LINEAR or moved * amplitude < max(_SHARED, _SHOWN * share**2):
        return None
    return (
        f"with a constant readout the batch's second moments move all neurons in the same way, by {moved:.2g} of their length, and with "
        f"them what a step of amplitude {amplitude:.2g} has put along the learned direction: labels that are mostly linear in x show that"
    )
