"""Slopes of the test error: its derivatives by whatever a problem is made of, the step, the penalty, the samples.

A solution x = (log ρ, log q) of the equations r(x; m, λ) = 0 moves with its model m(p), and the test error T = −∂Y[τ] is a derivative
itself, along τ, the solution's answer to the leave-one-out direction. With the Jacobian J that Newton's method leaves factored,

    J ẋ = −∂r/∂p,      J τ̇ = −d/dp (J τ − 1/ρ),      dT/dp = −d/dp ∂Y[τ] − ∂Y[τ̇],

d/dp along (x + ẋ dp, m + dm) at fixed τ. J τ − 1/ρ is the imaginary part of r at x + iετ and λ_i = λ + iε/ρ_i², over ε. Of the models
only tables are compared, at two problems near by; nothing is solved there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from onestride._numerics import Array, Float
from onestride.problem import Problem
from onestride.result import Errors, Status
from onestride.theory.profile import errors as profile
from onestride.theory.profile.build import NODES, Ending, try_model
from onestride.theory.profile.equations import Solution, residual_only
from onestride.theory.profile.errors import SEARCHING, Trail, errors
from onestride.theory.profile.quadratic_form import quadratic_form
from onestride.theory.profile.same_batch import ratio
from onestride.theory.profile.sectors import Model
from onestride.theory.profile.strength import BEST_LEVEL
from onestride.theory.registry import Move, Theory

_STEP = 1e-30  # imaginary, for derivatives
_LONGER = 0.2  # of a move along which the ratio of both fits is compared, in logarithms: over 1e-3 its slope is off by up to 0.05


def slopes(
    problem: Problem, moves: Sequence[Move], *, level: str = BEST_LEVEL, nodes: int = NODES
) -> tuple[Errors, Float[Array, "moves"]]:
    """The errors of one problem, and the derivative of the logarithm of its test error along every move; NaN where it has none."""
    trail: Trail = {}
    found = errors(problem, [problem.step], [problem.ridge], level=level, nodes=nodes, checked=False, trail=trail)
    model = try_model(problem, level, nodes=nodes, same_batch=True)
    if found.status[0, 0] is not Status.SOLVED or isinstance(model, Ending):
        return found, np.full(len(moves), np.nan)
    members = [_Point(p, one.at(problem.ridge), trail[j][problem.ridge]) for j, (p, one) in enumerate(model.members)]
    out = [_along(members, move, level, nodes) for move in moves]
    if not problem.fresh and problem.eta > 0:
        out = [slope + _of_the_batch(problem, move) for slope, move in zip(out, moves, strict=True)]
    return found, np.array(out)


@dataclass(frozen=True)
class _Point:
    """One member of a model with its probability, solved at one penalty."""

    probability: float
    model: Model
    solution: Solution

    @cached_property
    def tau(self) -> Float[Array, "m"]:
        """How log ρ and log q answer the leave-one-out direction."""
        return self.solution.answer(1 / self.solution.rho**2)

    @cached_property
    def test(self) -> float:
        """The test error."""
        return self.form(self.tau)

    def form(self, tangent: Array) -> float:
        """−∂Y along a change of log ρ and log q: at τ the test error."""
        rho, q = self.solution.rho, self.solution.q
        along = rho * tangent[: rho.size], q * tangent[rho.size :]
        return -complex(quadratic_form(self.model, self.solution, [along])[1][0]).real

    def moved(self, change: Array) -> _Point:
        """The point with log ρ and log q changed, no longer a solution."""
        rho, q = self.solution.rho, self.solution.q
        rho, q = rho * np.exp(change[: rho.size]), q * np.exp(change[rho.size :])
        return replace(self, solution=replace(self.solution, rho=rho, q=q))

    def left(self, tau: Array | None = None) -> Float[Array, "m"]:
        """What is left of the equations; with τ of J τ = 1/ρ."""
        rho, q, lam = self.solution.rho, self.solution.q, np.real(self.solution.lam)
        if tau is None:
            return residual_only(self.model, lam, rho, q)
        turned = rho * np.exp(1j * _STEP * tau[: rho.size]), q * np.exp(1j * _STEP * tau[rho.size :])
        return np.asarray(np.imag(residual_only(self.model, lam + 1j * _STEP / rho**2, *turned)) / _STEP, float)


def _along(members: list[_Point], move: Move, level: str, nodes: int) -> float:
    """D log T/dp along one move."""
    sides = [_side(members, at, level, nodes) for at in (move.below, move.above)]
    if sides[0] is None and sides[1] is None:  # tables of another size on both sides: solve there
        return _by_errors(move, level, nodes)
    low, high = (0.0 if side is None else at for side, at in zip(sides, (move.low, move.high), strict=True))
    below, above = (members if side is None else side for side in sides)
    if high == low:
        return _by_errors(move, level, nodes)
    change = 0.0
    for here, left, right in zip(members, below, above, strict=True):
        change += here.probability * _of_one(here, left, right, low, high)
        change += (right.probability - left.probability) / (high - low) * here.test
    return change / sum(here.probability * here.test for here in members)


def _of_one(here: _Point, left: _Point, right: _Point, low: float, high: float) -> float:
    """dT/dp of one member, which is itself the side that is at no distance."""
    tau, distance, none = here.tau, high - low, np.zeros_like(here.tau)

    def apart(f: Callable[[_Point], Array]) -> Array:
        return ((none if high == 0 else f(right)) - (none if low == 0 else f(left))) / distance

    x = -here.solution.solved(apart(lambda point: point.left()))
    left, right = left.moved(low * x), right.moved(high * x)
    turned = -here.solution.solved(apart(lambda point: point.left(tau)))
    tests = [here.test if at == 0 else point.form(tau) for at, point in ((low, left), (high, right))]
    return (tests[1] - tests[0]) / distance + here.form(turned)


def _side(members: list[_Point], at: Problem, level: str, nodes: int) -> list[_Point] | None:
    """The unsolved members of a problem near by; None where their tables have another size."""
    model = try_model(at, level, nodes=nodes, same_batch=True)
    if isinstance(model, Ending) or len(model.members) != len(members):
        return None
    out = [
        _Point(p, one.at(at.ridge), replace(here.solution, lam=at.ridge))
        for (p, one), here in zip(model.members, members, strict=True)
    ]
    alike = all(_sizes(there.model) == _sizes(here.model) for there, here in zip(out, members, strict=True))
    return out if alike else None


def _sizes(model: Model) -> tuple[object, ...]:
    """Rows and neurons, and where inputs have a covariance the columns that are cut; elsewhere they fade (`sectors.columns`)."""
    sizes = model.w.size, model.theta.size
    if model.means.coupled is None:
        return sizes
    columns = tuple(sector.factors[1].shape for sector in model.sectors)
    return *sizes, columns, tuple(b.shape for _, b in model.means.cases)


def _by_errors(move: Move, level: str, nodes: int) -> float:
    """The same from the errors on both sides."""
    tests = [
        errors(at, [at.step], [at.ridge], level=level, nodes=nodes, checked=False).test_error[0, 0]
        for at in (move.below, move.above)
    ]
    return float(np.log(tests[1] / tests[0]) / (move.high - move.low))


def _of_the_batch(here: Problem, move: Move) -> float:
    """What it changes that the readout is fitted on the samples of the step, on a longer move: rows are put in other groups on the way."""
    longer = _LONGER / (move.high - move.low)
    step, ridge = move.above.eta / move.below.eta, move.above.ridge / move.below.ridge
    if step == 1:  # which moves no row
        penalties = here.ridge * ridge ** (np.array([move.low, move.high]) * longer / (move.high - move.low))
        at = ratio(here, penalties)[2]
    else:
        at = [_ratio_at(here, step, ridge, x * longer / (move.high - move.low)) for x in (move.low, move.high)]
    return float(np.log(at[1] / at[0]) / _LONGER)


def _ratio_at(here: Problem, step: float, ridge: float, power: float) -> float:
    """Of the test errors, with the step and the penalty times powers of these."""
    there = here.replace(step=here.step.replace(constant=here.step.constant * step**power))
    return float(ratio(there, np.array([here.ridge * ridge**power]))[2, 0])


def at_level(level: str) -> Theory:
    """The profile theory at one of its levels, with its slopes."""
    theory = profile.at_level(level)
    return replace(theory, at_level=at_level, slopes=partial(slopes, level=level, nodes=SEARCHING))


THEORY = at_level(BEST_LEVEL)
