"""The equations of the profile theory and their solution at a real, complex or negative λ.

Unknowns: ρ_i, n times the diagonal of R = (FFᵀ + λn)⁻¹ at samples with z = z_i, and q_k, the diagonal of
λn (FᵀF + λn)⁻¹ at neurons of kind k. With D = diag(w_i ρ_i), K_k = (k(θ_k z_i))_i and, for each p of M's spectrum,

    V₀ = (1/ψ) Σ_k w_k q_k G_k K_k K_kᵀ,   E = (I + D V₀)⁻¹,   U = E D,   V = V₀ E,
    row      1/ρ_i = λ_i + (1/r) Σ_k w_k q_k k₂(θ_k z_i) + φ Σ_p π_p V_ii
    column   1/q_k = 1 + Σ_i w_i ρ_i k₂(θ_k z_i) + Σ_p π_p G_k K_kᵀ U K_k

Newton's method in (log ρ, log q) with a capped step, after half-steps of the fixed-point map while far away; the rows of
residual and Jacobian are scaled by ρ_i and q_k.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onestride._numerics import Array, Float, Inexact
from onestride._numerics import solve as linear_solve
from onestride.theory.bulk import bulk_of
from onestride.theory.profile.model import Profile

TOLERANCE = 1e-10  # on the scaled residual
MOST_STEPS = 300  # of Newton's method on the way to one λ; a continuation that needs more has gone astray


@dataclass(frozen=True)
class Solution:
    """ρ_i and q_k at one λ, with the certificate: scaled residual, Newton steps taken, and whether that is enough."""

    lam: complex
    rho: Inexact[Array, "i"]
    q: Inexact[Array, "k"]
    residual: float
    iterations: int
    converged: bool
    jacobian: Inexact[Array, "m m"]

    def tangent(self, row: Array | float) -> tuple[Inexact[Array, "i"], Inexact[Array, "k"]]:
        """dρ, dq when λ_i moves at speed `row`: 1 for ∂/∂λ, 1/ρ² for the leave-one-out direction."""
        size = self.rho.size
        rhs = np.concatenate([self.rho * row, np.zeros(self.q.size)])
        step = linear_solve(self.jacobian, rhs)
        return self.rho * step[:size], self.q * step[size:]


def linear_sector(
    profile: Profile, D: Inexact[Array, "i"], q: Inexact[Array, "k"], strength: Float[Array, "k"]
) -> tuple[Inexact[Array, "i i"], Inexact[Array, "i i"]]:
    """V₀ and E = (I + D V₀)⁻¹ at one node of M's spectrum, given its column of G."""
    basis, across = profile.neuron_basis
    V0 = across.T @ ((basis.T * (profile.weight * q * strength / profile.psi)) @ basis) @ across
    return V0, linear_solve(np.eye(D.size) + D[:, None] * V0, np.eye(D.size))


def residual_and_jacobian(
    profile: Profile, lam: Any, rho: Inexact[Array, "i"], q: Inexact[Array, "k"]
) -> tuple[Inexact[Array, "m"], Inexact[Array, "m m"]]:
    """Scaled residuals of all equations and their Jacobian in (log ρ, log q); λ may differ from row to row."""
    w, weight, K, K2 = profile.w, profile.weight, profile.K, profile.K2
    D, wq, inverse_r = w * rho, weight * q, 1 / profile.n_over_N
    row = 1 / rho - lam - inverse_r * (wq @ K2)
    column = 1 / q - 1 - K2 @ D
    dtype = np.result_type(rho, q, float)
    basis, across = profile.neuron_basis  # K in few columns: the product of neurons × neurons is most of the work
    VV, H, SS = np.zeros((w.size, w.size), dtype), K2.astype(dtype), np.zeros((q.size, q.size), dtype)
    for p, probability in enumerate(profile.pi):
        G = profile.G[:, p]
        V0, E = linear_sector(profile, D, q, G)
        part = across @ E
        V, T = V0 @ E, basis @ part
        row = row - probability * profile.phi * np.diag(V)
        column = column - probability * G * np.einsum("ki,ki->k", T * D, K)
        VV += probability * V * V
        H += (probability * G)[:, None] * (T * T)
        left = basis * np.sqrt(np.sqrt(probability) * G)[:, None]
        S = left @ ((part * D) @ across.T) @ left.T
        SS += np.square(S, out=S)
    size = w.size
    jacobian = np.empty((size + q.size, size + q.size), dtype)
    jacobian[:size, :size] = profile.phi * rho[:, None] * VV * D
    jacobian[:size, size:] = -inverse_r * rho[:, None] * H.T * wq
    jacobian[size:, :size] = -q[:, None] * H * D
    jacobian[size:, size:] = q[:, None] * SS * (wq / profile.psi)
    jacobian.flat[:: size + q.size + 1] -= 1
    return np.concatenate([rho * row, q * column]), jacobian


def newton(
    profile: Profile,
    lam: Any,
    rho: Inexact[Array, "i"],
    q: Inexact[Array, "k"],
    *,
    tolerance: float = 1e-13,
    steps: int = 40,
    cap: float = 1.0,
) -> Solution:
    """Newton's method from (ρ, q) at λ (a number, or one per row)."""
    size, best, taken = rho.size, np.inf, 0
    positive = not np.iscomplexobj(lam) and bool(np.min(lam) > 0)
    residual, jacobian = residual_and_jacobian(profile, lam, rho, q)
    while taken < steps:
        error = float(np.abs(residual).max())
        # stop at rounding level: small, and no longer falling
        if not np.isfinite(error) or error <= tolerance or (error < 0.1 * TOLERANCE and error > 0.5 * best):
            break
        best = min(best, error)
        if error > 1 and positive:  # far away: half a step of the fixed-point map, in logarithms
            step = -0.5 * np.log1p(-residual)
        else:
            step = linear_solve(jacobian, -residual)
            if not np.isfinite(step).all():
                break
            step *= min(1.0, cap / max(float(np.abs(step).max()), 1e-300))
        taken += 1
        rho, q = rho * np.exp(step[:size]), q * np.exp(step[size:])
        residual, jacobian = residual_and_jacobian(profile, lam, rho, q)
    error = float(np.abs(residual).max())
    return Solution(lam, rho, q, error, taken, bool(error <= max(TOLERANCE, tolerance)), jacobian)


def solve(profile: Profile, lam: complex, start: Solution | None = None) -> Solution:
    """Solve at λ, from a neighbouring solution if given, else by continuation.

    λ > 0: from the untrained network's ρ and q, else down from a large λ. Complex λ: down from a large imaginary part
    at the same real part. λ < 0 (beyond the spectrum of −FFᵀ/n): in from far away, where ρ = 1/λ.
    """
    cap = 1.0 if np.isreal(lam) and np.real(lam) > 0 else 0.3
    if np.isreal(lam):
        lam = float(np.real(lam))
    taken = 0
    with np.errstate(all="ignore"):  # a failing iteration ends as `converged=False`
        if start is not None or cap == 1.0:
            near = _untrained(profile, float(np.real(lam))) if start is None else _predict(start, lam)
            found = newton(profile, lam, *near, cap=cap, steps=25 if start is None else 40)
            if found.converged:
                return found
            taken = found.iterations
        path = _path(lam)
        kind = complex if np.iscomplexobj(path) else float
        found = newton(profile, path[0], np.full(profile.w.size, 1 / path[0], kind), np.ones(profile.theta.size, kind))
        for value in path[1:]:
            taken += found.iterations
            if taken > MOST_STEPS or not np.isfinite(found.residual):
                return replace(found, lam=lam, converged=False, iterations=taken)
            found = newton(profile, value, found.rho, found.q, cap=min(cap, 0.7), tolerance=1e-6, steps=100)
        taken += found.iterations
        found = newton(profile, lam, found.rho, found.q, cap=min(cap, 0.7), steps=100)
    return replace(found, iterations=found.iterations + taken)


def _predict(start: Solution, lam: complex) -> tuple[Array, Array]:
    """Move a solution along its λ-tangent (in logarithms) to a neighbouring positive λ; elsewhere just reuse it."""
    if not (np.isreal(lam) and np.isreal(start.lam) and np.real(lam) > 0 and np.real(start.lam) > 0):
        return start.rho, start.q
    if lam == start.lam:
        return start.rho, start.q
    ratio = float(np.log(np.real(lam) / np.real(start.lam)))
    d_rho, d_q = start.tangent(float(np.real(start.lam)) * ratio)
    return (
        start.rho * np.exp(np.clip(d_rho / start.rho, -5, 5)),
        start.q * np.exp(np.clip(d_q / start.q, -5, 5)),
    )


def _untrained(profile: Profile, lam: float) -> tuple[Array, Array]:
    bulk = bulk_of(profile.problem, lam)
    return np.full(profile.w.size, float(bulk.rho)), np.full(profile.theta.size, float(bulk.q))


def _path(lam: complex) -> Array:
    """Penalties of the continuation, the last one λ itself."""
    if np.isreal(lam) and np.real(lam) > 0:
        far = max(100.0, float(np.real(lam)))
        return np.geomspace(far, float(np.real(lam)), int(np.ceil(np.log(far / float(np.real(lam))) / np.log(4))) + 2)
    if np.isreal(lam):
        return float(np.real(lam)) * np.geomspace(1e4, 1, 60)
    height = abs(np.imag(lam))
    far = max(1e3, height)
    return np.real(lam) + 1j * np.sign(np.imag(lam)) * np.geomspace(far, height, 60)
