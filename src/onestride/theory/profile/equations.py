"""The equations of the profile theory and their solution at a real, complex or negative λ.

Unknowns: ρ_i, n times the diagonal of R = (FFᵀ + λn)⁻¹ at samples of kind i, and q_k, the diagonal of
λn (FᵀF + λn)⁻¹ at neurons of kind k. With D = diag(w_i ρ_i) and, for each sector l and each p of its law,

    V₀ = (N/B_l) Σ_k w_k q_k g_kp K_k K_kᵀ,   E = (I + D V₀)⁻¹,   U = E D,   V = V₀ E,
    row      1/ρ_i = λ_i + (N/n) Σ_k w_k q_k rest_ki + Σ_l (B_l/n) Σ_p π_p V_ii
    column   1/q_k = 1 + Σ_i w_i ρ_i rest_ki + Σ_l Σ_p π_p g_kp K_kᵀ U K_k

K is a product of few columns and rows, K = X Y. With C = (N/B) Xᵀ diag(w q g) X and P = Y D Yᵀ all of this is small:
V = Yᵀ C T Y, K E = X T Y and K U Kᵀ = X T P Xᵀ with T = (I + P C)⁻¹.

Newton's method in (log ρ, log q) with a capped step, after half-steps of the fixed-point map while far away; the rows of
residual and Jacobian are scaled by ρ_i and q_k. The Jacobian costs ten to a hundred residuals: at λ > 0, and elsewhere where asked for
(`sparing`), steps after one of Newton's, or from a solution near by with its Jacobian, are Broyden's, while each leaves less than a
third of the residual before. Otherwise every step takes its own Jacobian.

The strengths of a sector are a product of few columns and rows, too, g_kp = Σ_m a_km b_mp (`Sector.law`): sums over p come first.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import get_lapack_funcs

from onestride._numerics import Array, Float, Inexact, inverse
from onestride.theory.bulk import bulk_of
from onestride.theory.profile.sectors import Model, Sector

TOLERANCE = 1e-10  # on the scaled residual
ROUNDING = 1e-13  # where Newton's method ends by itself
MOST_STEPS = 300  # of Newton's method on the way to one λ; a continuation that needs more has gone astray
_WORTH = 0.3  # of the residual before: what a step with the last Jacobian must reach to be worth another
_LARGE = 350  # rows and neurons from which on half of them must do


class Guess(NamedTuple):
    """Where to start: ρ, q, and the factors of a Jacobian near by, if there are any."""

    rho: Inexact[Array, "i"]
    q: Inexact[Array, "k"]
    factors: Any = None


@dataclass(frozen=True)
class Solution:
    """ρ_i and q_k at one λ, with the certificate: scaled residual, Newton steps taken, and whether that is enough.

    Where Jacobians were spared there is none: `near` has the factors of the last one, of a point near by.
    """

    lam: complex
    rho: Inexact[Array, "i"]
    q: Inexact[Array, "k"]
    residual: float
    iterations: int
    converged: bool
    jacobian: Inexact[Array, "m m"] | None
    near: Any = None

    @cached_property
    def factors(self) -> Any:
        """Those of the Jacobian."""
        return self.near if self.jacobian is None else _lu(self.jacobian)

    def solved(self, right: Inexact[Array, "m"]) -> Inexact[Array, "m"]:
        """The change of (log ρ, log q) that moves the scaled residual by `right`."""
        return _lu_solve(self.factors, right)

    def answer(self, row: Array | float) -> Inexact[Array, "m"]:
        """D log ρ and d log q when λ_i moves at speed `row`: 1 for ∂/∂λ, 1/ρ² for the leave-one-out direction."""
        return self.solved(np.concatenate([self.rho * row, np.zeros(self.q.size)]))

    def tangent(self, row: Array | float) -> tuple[Inexact[Array, "i"], Inexact[Array, "k"]]:
        """The same of ρ and q themselves."""
        step, size = self.answer(row), self.rho.size
        return self.rho * step[:size], self.q * step[size:]


def _lu(A: Inexact[Array, "m m"]) -> tuple[Any, Any, Any]:
    """Factors of A by LAPACK itself: a hundred unknowns are solved in the time that checking arguments takes."""
    getrf, getrs = get_lapack_funcs(("getrf", "getrs"), (A,))
    factors, pivots, _ = getrf(A)
    return factors, pivots, getrs


def _lu_solve(factors: tuple[Any, Any, Any], b: Inexact[Array, "m"]) -> Inexact[Array, "m"]:
    lu, pivots, getrs = factors
    return getrs(lu, pivots, b)[0]


class Block(NamedTuple):
    """A sector at one p of its law, or at several: T = (I + P C)⁻¹ and C T, in the few columns of K."""

    T: Inexact[Array, "*p r r"]
    CT: Inexact[Array, "*p r r"]


def block(
    model: Model, sector: Sector, P: Inexact[Array, "r r"], q: Inexact[Array, "k"], strength: Float[Array, "*p k"]
) -> Block:
    """The sector where the neurons' law is `strength`."""
    X = sector.factors[0]
    C = (X.T * (model.weight * q * strength * (model.problem.N / sector.dim))[..., None, :]) @ X
    M = P @ C
    M.reshape(*M.shape[:-2], -1)[..., :: M.shape[-1] + 1] += 1
    T = inverse(M)
    return Block(T, C @ T)


class _Laws(NamedTuple):
    """A sector on its own law g = a b: P, C for every column of a, so that C_p = Σ_m b_mp C_m, and T at every p."""

    sector: Sector
    P: Inexact[Array, "r r"]
    C: Inexact[Array, "m r r"]
    T: Inexact[Array, "p r r"]

    @classmethod
    def of(cls, model: Model, sector: Sector, rho: Inexact[Array, "i"], q: Inexact[Array, "k"]) -> _Laws:
        """At ρ and q."""
        (X, Y), (a, b) = sector.factors, sector.law
        P = (Y * (model.w * rho)) @ Y.T
        C = (X.T * (model.weight * q * a.T * (model.problem.N / sector.dim))[:, None, :]) @ X
        M = _mixed(b.T, P @ C)
        M.reshape(len(M), -1)[:, :: P.shape[0] + 1] += 1
        return cls(sector, P, C, inverse(M))


def _mixed(weights: Float[Array, "*p m"], matrices: Inexact[Array, "m r r"]) -> Inexact[Array, "*p r r"]:
    """Σ_m weights_m matrices_m; as `np.tensordot`, which takes longer than that to look at its arguments."""
    return (weights @ matrices.reshape(len(matrices), -1)).reshape(*weights.shape[:-1], *matrices.shape[1:])


def _every_law(model: Model, rho: Inexact[Array, "i"], q: Inexact[Array, "k"]) -> list[_Laws]:
    """Of the sectors that have columns; others are noise."""
    return [_Laws.of(model, sector, rho, q) for sector in model.sectors if len(sector.factors[1])]


def _left(
    model: Model, lam: Any, rho: Inexact[Array, "i"], q: Inexact[Array, "k"], laws: list[_Laws]
) -> Inexact[Array, "m"]:
    """Scaled residuals of all equations."""
    row = 1 / rho - lam - model.N_over_n * ((model.weight * q) @ model.rest)
    column = 1 / q - 1 - model.rest @ (model.w * rho)
    for sector, P, C, T in laws:
        (X, Y), (a, b) = sector.factors, sector.law
        mean = _mixed(b * sector.share, T)  # Σ_p π_p b_mp T_p
        row = row - (sector.dim / model.problem.n) * (((C @ mean).sum(0) @ Y) * Y).sum(0)
        column = column - (a.T * ((X @ (mean @ P)) * X).sum(-1)).sum(0)
    return np.concatenate([rho * row, q * column])


def residual_only(model: Model, lam: Any, rho: Inexact[Array, "i"], q: Inexact[Array, "k"]) -> Inexact[Array, "m"]:
    """Scaled residuals of all equations."""
    return _left(model, lam, rho, q, _every_law(model, rho, q))


def residual_and_jacobian(
    model: Model, lam: Any, rho: Inexact[Array, "i"], q: Inexact[Array, "k"]
) -> tuple[Inexact[Array, "m"], Inexact[Array, "m m"]]:
    """Scaled residuals of all equations and their Jacobian in (log ρ, log q); λ may differ from row to row."""
    laws, D, wq = _every_law(model, rho, q), model.w * rho, model.weight * q
    size, n, N = rho.size, model.problem.n, model.problem.N
    row = 1 / rho - lam - model.N_over_n * (wq @ model.rest)
    column = 1 / q - 1 - model.rest @ D
    jacobian = np.zeros((size + q.size, size + q.size), np.result_type(rho, q, float))
    (VV, _), (H, SS) = ((half[:, :size], half[:, size:]) for half in (jacobian[:size], jacobian[size:]))
    H += model.rest
    for sector, P, C, T in laws:
        Y = sector.factors[1]
        # V, K E and K U Kᵀ at each p, squared: the factors are weighted by the roots of what the squares are weighted by
        for X, share, b, Tp in zip(sector.by_strength, sector.share, sector.law[1].T, T, strict=True):
            TY, on_rows, on_neurons = Tp @ Y, np.sqrt(share * sector.dim / n), np.sqrt(share * N / sector.dim)
            V, S = Y.T @ (on_rows * _mixed(b, C) @ TY), X @ (on_neurons * (Tp @ P)) @ X.T
            row -= on_rows * V.diagonal()
            column -= (share / on_neurons) * S.diagonal()
            for total, value in (VV, V), (H, X @ (np.sqrt(share) * TY)), (SS, S):
                total += np.square(value, out=value)
    np.multiply(H.T, (-model.N_over_n * rho)[:, None] * wq, out=jacobian[:size, size:])
    VV *= rho[:, None] * D
    H *= -q[:, None] * D
    SS *= q[:, None] * wq
    jacobian.reshape(-1)[:: size + q.size + 1] -= 1
    return np.concatenate([rho * row, q * column]), jacobian


def newton(
    model: Model,
    lam: Any,
    rho: Inexact[Array, "i"],
    q: Inexact[Array, "k"],
    factors: Any = None,
    *,
    tolerance: float = ROUNDING,
    steps: int = 40,
    cap: float = 1.0,
    residual: Inexact[Array, "m"] | None = None,
    sparing: bool = False,
) -> Solution:
    """Newton's method from (ρ, q) at λ (a number, or one per row), the first steps with the factors of another Jacobian, if given;
    `residual` is that of the start, if somebody has it. `sparing`: at any λ a Jacobian only where the last one is not good enough,
    and none of the solution.
    """
    size, best, taken, jacobian, near = rho.size, np.inf, 0, None, factors
    positive = not np.iscomplexobj(lam) and bool(np.min(lam) > 0)
    evaluate, past = _residual if positive or sparing else residual_and_jacobian, list[Array]()
    if residual is None:
        residual, jacobian = evaluate(model, lam, rho, q)
    while taken < steps:
        error = float(np.abs(residual).max())
        # stop at rounding level: small, and no longer falling
        if not np.isfinite(error) or error <= tolerance or (error < 0.1 * TOLERANCE and error > 0.5 * best):
            break
        best = min(best, error)
        if error > 1 and positive:  # far away: half a step of the fixed-point map, in logarithms
            step = -0.5 * np.log1p(-residual)
        else:
            if factors is None:
                if jacobian is None:
                    residual, jacobian = residual_and_jacobian(model, lam, rho, q)
                near = factors = _lu(jacobian)
                past = []
            step = _broyden(_lu_solve(factors, -residual), past)
            if not np.isfinite(step).all():
                residual = step  # there is no way on from here
                break
            whole = min(1.0, cap / max(float(np.abs(step).max()), 1e-300))
            step *= whole
            past.append(step)
            if whole < 1:
                factors = None
        taken += 1
        rho, q = rho * np.exp(step[:size]), q * np.exp(step[size:])
        residual, jacobian = evaluate(model, lam, rho, q)
        if not ((positive or sparing) and np.abs(residual).max() < _WORTH * error):
            factors = None
    if jacobian is None and (near is None or not sparing):
        residual, jacobian = residual_and_jacobian(model, lam, rho, q)
    error = float(np.abs(residual).max())
    return Solution(lam, rho, q, error, taken, bool(error <= max(TOLERANCE, tolerance)), jacobian, near)


def _residual(
    model: Model, lam: Any, rho: Inexact[Array, "i"], q: Inexact[Array, "k"]
) -> tuple[Inexact[Array, "m"], Inexact[Array, "m m"] | None]:
    """The residual where its Jacobian may not be needed."""
    return residual_only(model, lam, rho, q), None


def _broyden(step: Inexact[Array, "m"], past: list[Inexact[Array, "m"]]) -> Inexact[Array, "m"]:
    """Broyden's step: that of the last Jacobian, corrected by what the steps since it have shown (Kelley 1995, section 7.3)."""
    for before, after in pairwise(past):
        step = step + after * (np.vdot(before, step) / np.vdot(before, before))
    return step / (1 - np.vdot(past[-1], step) / np.vdot(past[-1], past[-1])) if past else step


def solve(
    model: Model,
    lam: complex,
    start: Solution | None = None,
    guess: Guess | None = None,
    *,
    tolerance: float = ROUNDING,
) -> Solution:
    """Solve at λ, from a neighbouring solution, or a guess, if given, else by continuation.

    λ > 0: from the untrained network's ρ and q, else down from a large λ. Complex λ: down from a large imaginary part
    at the same real part. λ < 0 (beyond the spectrum of −FFᵀ/n): in from far away, where ρ = 1/λ.
    """
    cap = 1.0 if np.isreal(lam) and np.real(lam) > 0 else 0.3
    if np.isreal(lam):
        lam = float(np.real(lam))
    taken = 0
    with np.errstate(all="ignore"):  # a failing iteration ends as `converged=False`
        if start is not None or cap == 1.0:
            near, known = (guess, None) if start is None else _better(model, lam, _predict(start, lam), guess)
            near, most = near or _untrained(model, float(np.real(lam))), 25 if start is None else 40
            found = newton(model, lam, *near, cap=cap, steps=most, tolerance=tolerance, residual=known)
            if found.converged:
                return found
            taken = found.iterations
        path, most = _path(lam), MOST_STEPS // (1 if model.w.size + model.theta.size < _LARGE else 2)
        kind = complex if np.iscomplexobj(path) else float
        found = newton(model, path[0], np.full(model.w.size, 1 / path[0], kind), np.ones(model.theta.size, kind))
        for value in path[1:]:
            taken += found.iterations
            if taken > most or not np.isfinite(found.residual):
                return replace(found, lam=lam, converged=False, iterations=taken)
            found = newton(model, value, found.rho, found.q, cap=min(cap, 0.7), tolerance=1e-6, steps=100)
        taken += found.iterations
        found = newton(model, lam, found.rho, found.q, cap=min(cap, 0.7), steps=100)
    return replace(found, iterations=found.iterations + taken)


def _better(model: Model, lam: complex, near: Guess, guess: Guess | None) -> tuple[Guess, Inexact[Array, "m"] | None]:
    """Whichever leaves less of the equations, and what it leaves."""
    if guess is None:
        return near, None
    left = [residual_only(model, lam, one.rho, one.q) for one in (near, guess)]
    sizes = [float(np.abs(one).max()) for one in left]
    return (guess, left[1]) if sizes[1] < sizes[0] else (near, left[0])


def _predict(start: Solution, lam: complex) -> Guess:
    """Move a solution along its λ-tangent (in logarithms) to a neighbouring positive λ; elsewhere just reuse it."""
    if not (np.isreal(lam) and np.isreal(start.lam) and np.real(lam) > 0 and np.real(start.lam) > 0):
        return Guess(start.rho, start.q)
    if lam == start.lam:
        return Guess(start.rho, start.q, start.factors)
    ratio = float(np.log(np.real(lam) / np.real(start.lam)))
    d_rho, d_q = start.tangent(float(np.real(start.lam)) * ratio)
    return Guess(
        start.rho * np.exp(np.clip(d_rho / start.rho, -5, 5)),
        start.q * np.exp(np.clip(d_q / start.q, -5, 5)),
        start.factors,
    )


def _untrained(model: Model, lam: float) -> Guess:
    bulk = bulk_of(model.problem, lam)
    return Guess(np.full(model.w.size, float(bulk.rho)), np.full(model.theta.size, float(bulk.q)))


def _path(lam: complex) -> Array:
    """Penalties of the continuation, the last one λ itself."""
    if np.isreal(lam) and np.real(lam) > 0:
        far = max(100.0, float(np.real(lam)))
        return np.geomspace(
            far, float(np.real(lam)), int(np.ceil((np.log(far) - np.log(float(np.real(lam)))) / np.log(4))) + 2
        )
    if np.isreal(lam):
        return float(np.real(lam)) * np.geomspace(1e4, 1, 60)
    height = abs(np.imag(lam))
    far = max(1e3, height)
    return np.real(lam) + 1j * np.sign(np.imag(lam)) * np.geomspace(far, height, 60)
