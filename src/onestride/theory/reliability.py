"""Where the profile theory is known to be off by more than 5 %, and the sentence that says why.

Four things it leaves out, each with a number whose limit was set by simulation (benchmarks/reliability.py):

    degrees    the untrained network's errors with every degree of the inputs and their length resolved (`yardstick`),
               relative to this theory's: δ; a step makes the neglected parts weigh more, δ(1 + 2 θ), θ its amplitude
    tails      a nonlinear part of kurtosis κ averages out over min(n, N) rows or neurons only: κ g/min(n, N), g the
               factor by which its power grows with the squared length f = η² φ₀ E r² Var σ'/N that the gradient's
               fluctuations add to a neuron
    noise      f > 8: the fluctuations are three times as long as the neurons were, and no longer small
    readout    with a constant readout all neurons move alike, and in the literal gradient what the theory treats as
               independent adds up: θ > 1
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from onestride._numerics import Array, gauss_density, relative_gap
from onestride.functions import Function
from onestride.problem import Problem, Step
from onestride.result import QUANTITIES, Errors, Status
from onestride.theory.assumptions import beyond_the_model
from onestride.theory.profile.errors import errors as profile_errors
from onestride.theory.profile.neurons import learned_direction
from onestride.theory.profile.strength import isotropic_noise
from onestride.theory.yardstick import untrained_errors

KNOWN_OFF = 0.05
_WITH_STEP = 2.0  # how a step of amplitude 1 multiplies what the unresolved degrees are worth, beside 1
_TAILS = 0.09
_READOUT = 1.0
_NOISE = 8.0
_UNCHECKED = 0.1  # of n or N over d²/2, where the yardstick has no solution to offer


def mark(problem: Problem, steps: list[Step], ridges: Array, errors: Errors, untrained: Errors) -> Errors:
    """`errors` with the solved cells that are known to be off by more than 5 % marked as such; numbers stay."""
    status, message = errors.status.copy(), errors.message.copy()
    if not (status == Status.SOLVED).any() or beyond_the_model(problem.replace(step=Step.none())) is not None:
        return errors
    resolved = untrained_errors(problem, tuple(map(float, ridges)))
    plain = np.stack([getattr(untrained, name)[0] for name in QUANTITIES])
    for i, step in enumerate(steps):
        stepped = problem.replace(step=step)
        whole = _by_step(stepped)
        for j in np.flatnonzero(
            (status[i] == Status.SOLVED) & ((whole is not None) | _suspect(stepped, plain, resolved))
        ):
            reason = whole or _by_degrees(stepped, plain[:, j], resolved[:, j])
            status[i, j], message[i, j] = Status.INACCURATE, f"{Status.INACCURATE.value}: {reason}"
    return replace(errors, status=status, message=message)


def known_off(problem: Problem) -> str | None:
    """Why the theory is known to be off by more than 5 % for this problem at its own penalty; None when it is not."""
    reason = _by_step(problem)
    if reason is not None:
        return reason
    plain = _plain(problem.replace(step=Step.none()))  # pyright: ignore[reportArgumentType]
    resolved = untrained_errors(problem, (problem.ridge,))[:, 0]
    return _by_degrees(problem, plain, resolved) if _suspect(problem, plain, resolved) else None


@lru_cache(maxsize=256)
def _plain(problem: Problem) -> Array:
    errors = profile_errors(problem, [Step.none()], [problem.ridge])
    return np.array([getattr(errors, name)[0, 0] for name in QUANTITIES])


def _suspect(problem: Problem, plain: Array, resolved: Array) -> Array:
    """Where δ(1 + 2θ) > 5 %, δ = max |plain/resolved − 1| over the three errors; n, N ≳ d²/2 where δ is not known."""
    gap = relative_gap(plain, resolved).max(0)
    return np.where(np.isfinite(gap), gap * (1 + _WITH_STEP * _amplitude(problem)) > KNOWN_OFF, _few_inputs(problem))


def _amplitude(problem: Problem) -> float:
    """θ: how far the step moves a neuron along the learned direction, in units of its length."""
    return abs(learned_direction(problem).amplitude) if problem.eta else 0.0


def _few_inputs(problem: Problem) -> bool:
    return 2 * max(problem.n, problem.N) / problem.d**2 > _UNCHECKED


def _by_degrees(problem: Problem, plain: Array, resolved: Array) -> str:
    sizes = f"n = {problem.n}, N = {problem.N}, d²/2 = {problem.d**2 / 2:.3g}"
    gap = relative_gap(plain, resolved)
    if not np.isfinite(gap).all():
        return f"degree two of the inputs is learned and no longer noise when n or N is of order d²/2 ({sizes})"
    worst = int(np.argmax(gap))
    name = ("ridge objective", "training error", "test error")[worst]
    text = (
        f"without a step its {name} is {plain[worst]:.3g}, and {resolved[worst]:.3g} when degree two and higher of the "
        f"inputs and their length are resolved ({sizes})"
    )
    if gap[worst] > KNOWN_OFF:
        return text
    return f"{text}; a step that moves neurons by {_amplitude(problem):.2g} of their length makes such parts weigh more"


def _by_step(problem: Problem) -> str | None:
    amplitude = _amplitude(problem)
    if problem.readout == "constant" and problem.gradient == "full" and amplitude > _READOUT:
        return (
            "with a constant readout and the literal gradient the theory holds while the step moves neurons by less than their length, and here "
            f"it is {amplitude:.3g} times that"
        )
    spread, few = fluctuation(problem), min(problem.n, problem.N)
    tails, growth = nonlinear_tails(problem.sigma, min(spread, _NOISE))
    if tails * growth / few > _TAILS:
        step = f", its power grows {growth:.2g}-fold by the fluctuations of the step," if growth > 1.1 else ","
        return (
            f"the nonlinear part of activation {problem.sigma.name!r} has kurtosis {tails:.3g}{step} too heavy a tail "
            f"for min(n, N) = {few} to average out"
        )
    if spread > _NOISE:
        return (
            f"the step is so strong that the fluctuations of the gradient, {np.sqrt(spread):.2g} times as long as a neuron "
            "was, are no longer small beside it"
        )
    return None


def nonlinear_tails(sigma: Function, spread: float) -> tuple[float, float]:
    """κ = E s⁴/(E s²)² of the nonlinear part s of σ(z), and E s² of σ(√(1 + f) z) relative to it; (0, 1) when s = 0."""
    x, w = sigma.rule

    def nonlinear(v: float) -> tuple[Array, Array]:
        p = w * gauss_density(x / np.sqrt(v)) / np.sqrt(v)
        centred = sigma(x) - p @ sigma(x)
        return p, centred - (p @ (centred * x)) / v * x

    p, s = nonlinear(1.0)
    power = float(p @ s**2)
    if power <= 1e-12 * sigma.second_moment:
        return 0.0, 1.0
    wide, grown = nonlinear(1 + spread)
    return float(p @ (s / np.sqrt(power)) ** 4), float(wide @ grown**2) / power


def fluctuation(problem: Problem) -> float:
    """Squared length f = η² φ₀ E r² Var σ'/N that the gradient's fluctuations add to a neuron (the isotropic level's)."""
    return problem.eta**2 * isotropic_noise(problem) / problem.N if problem.eta else 0.0
