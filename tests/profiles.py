"""What tests of the profile theory share: problems by their ratios or sizes, drawn directions, tangents against differences."""

from __future__ import annotations

import numpy as np

from onestride import Problem, Step
from onestride.theory.profile.equations import newton, solve
from onestride.theory.profile.quadratic_form import quadratic_form
from tolerances import assert_close

TEACHER = (0.0, 1.0, 2**-0.5)


def by_ratios(n=1500, shape=(0.5, 1.5), activation="relu", gradient="labels", step=None, **rest) -> Problem:
    """Shape: d/n and N/n."""
    d, N = round(shape[0] * n), round(shape[1] * n)
    rest = {"teacher": TEACHER} | rest
    return Problem(n=n, d=d, N=N, activation=activation, gradient=gradient, step=step or Step.none(), **rest)


def by_sizes(alpha=None, shape=(1500, 750, 2250), activation="relu", c=1.0, gradient="labels", **rest) -> Problem:
    """Shape: n, d and N."""
    n, d, N = shape
    step, rest = Step.none() if alpha is None else Step(constant=c, exponent=alpha), {"teacher": TEACHER} | rest
    return Problem(n=n, d=d, N=N, activation=activation, gradient=gradient, step=step, **rest)


def assert_tangents_match_differences(model, lam):
    """∂Y/∂λ (training error) and the leave-one-out tangent (test error) against central differences."""
    s = solve(model, lam)
    for speed in (np.ones_like(s.rho), 1 / s.rho**2):
        h = 1e-5 * lam / speed.mean()
        Y = [quadratic_form(model, newton(model, lam + sign * h * speed, s.rho, s.q))[0] for sign in (1, -1)]
        _, (tangent,) = quadratic_form(model, s, [s.tangent(speed)])
        assert_close(tangent, (Y[0] - Y[1]) / (2 * h), rel=1e-6)


def drawn_directions(p, rng, tilt):
    """A batch's X and r, t̂ = √(1−tilt²) β̂ + tilt p̂, and the unit e along β⋆ − (β⋆ᵀt̂)t̂, β⋆ the first axis."""
    X = rng.standard_normal((p.n, p.d))
    r = p.target(X[:, 0]) + p.noise * rng.standard_normal(p.n)
    beta, other, star = X.T @ r / p.n, rng.standard_normal(p.d), np.eye(p.d)[0]
    beta /= np.linalg.norm(beta)
    for u in (beta, star - (star @ beta) * beta):  # p̂ is off both β and β⋆
        other -= (other @ u) / (u @ u) * u
    t = np.sqrt(1 - tilt**2) * beta + tilt * other / np.linalg.norm(other)
    e = star - (star @ t) * t
    return X, r, t, e / np.linalg.norm(e)
