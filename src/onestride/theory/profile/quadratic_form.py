"""Y = yᵀRy and its derivatives: the errors of the ridge fit, read off a solution of the profile equations.

The mean feature vectors b_k = [μ(θ_k z); √(2/d) e(θ_k z)] span a "special sector" with Gram matrix

    M = N Σ_k w_k q_k b_k b_kᵀ,      D₂ = D twice,      h = [h0; 0],
    Y = hᵀ(D₂⁻¹ + M)⁻¹h + Σ_p π_p h1ᵀ U_p h1 + Σ_i w_i ρ_i (hr_i + σ_ε²).

When the learned direction is t = Wᵀa the linear part has no component along a, which adds to M

    Xᵀ(D⁻¹ + V₀ − V_aa)⁻¹X,   X = √N Σ_k w_k q_k A_k √G_k K_k b_kᵀ,   V_aa = Σ_k w_k q_k A_k² G_k K_k K_kᵀ.

Ridge objective λY, training error −λ² ∂Y/∂λ, and by the leave-one-out identity the test error is −∂Y/∂t at
λ_i = λ + t/ρ_i².
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onestride._numerics import Array, Inexact, solve
from onestride.theory.profile.equations import Solution, linear_sector
from onestride.theory.profile.model import Profile


def mean_gram(profile: Profile, q: Inexact[Array, "k"]) -> Inexact[Array, "ii ii"]:
    """N Σ_k w_k q_k b_k b_kᵀ; for Gaussian rows with what their length adds."""
    weight = profile.problem.N * profile.weight * q
    b, extra = profile.row_mean, profile.length_mean
    plain = (b.T * weight) @ b
    return plain if extra is None else plain + (extra.T * weight) @ extra


def special_gram(profile: Profile, rho: Inexact[Array, "i"], q: Inexact[Array, "k"]) -> Inexact[Array, "ii ii"]:
    """M of the special sector, 2i × 2i."""
    return gram_and_derivative(profile, rho, q, None, None)[0]


def gram_and_derivative(
    profile: Profile,
    rho: Inexact[Array, "i"],
    q: Inexact[Array, "k"],
    d_rho: Inexact[Array, "i"] | None,
    d_q: Inexact[Array, "k"] | None,
) -> tuple[Inexact[Array, "ii ii"], Inexact[Array, "ii ii"]]:
    """M and its derivative along (dρ, dq); the derivative is 0 when they are None."""
    N, weight, K, b = profile.problem.N, profile.weight, profile.K, profile.row_mean
    M = mean_gram(profile, q)
    dM = np.zeros_like(M) if d_q is None else mean_gram(profile, d_q)
    if not profile.learned.through_output:
        return M, dM
    G = profile.G @ profile.pi  # the linear part's strength, averaged over the spectrum
    a = profile.A * np.sqrt(G)
    D = profile.w * rho

    def cross(q: Array) -> Array:
        return (K.T * (np.sqrt(N) * weight * q * a)) @ b

    def rest(q: Array) -> Array:  # V₀ − V_aa
        return (K.T * (weight * q * G * (1 / profile.psi - profile.A**2))) @ K

    X, C = cross(q), rest(q)
    E = solve(np.eye(D.size) + D[:, None] * C, np.eye(D.size))
    Y = E @ (D[:, None] * X)
    M = M + X.T @ Y
    if d_q is not None and d_rho is not None:
        Z, dX = E.T @ X, cross(d_q)
        dM = dM + dX.T @ Y + Y.T @ dX + Z.T @ ((profile.w * d_rho)[:, None] * Z) - Y.T @ rest(d_q) @ Y
    return M, dM


class Linear(NamedTuple):
    """The teacher's linear part at one p of the spectrum it sees: x = U_p h1 and b = h1 − V₀x."""

    probability: float
    G: Array
    x: Array
    b: Array


def response(
    profile: Profile, rho: Inexact[Array, "i"], q: Inexact[Array, "k"]
) -> tuple[Inexact[Array, "ii"], Inexact[Array, "ii"], list[Linear]]:
    """What the resolvent makes of the teacher: x = (D₂⁻¹ + M)⁻¹h, b = h − Mx, and its linear part for every p."""
    D = profile.w * rho
    D2 = np.tile(D, 2)
    h = np.concatenate([profile.h0, np.zeros_like(profile.h0)])
    M = special_gram(profile, rho, q)
    root = np.sqrt(D2 if np.iscomplexobj(D2) or D2.min() > 0 else D2.astype(complex))
    # (D₂⁻¹ + M)⁻¹h in a form whose matrix has eigenvalues ≥ 1 for λ > 0
    x = root * solve(np.eye(D2.size) + root[:, None] * M * root, root * h)
    linear = []
    for probability, G in zip(profile.pi_teacher, profile.G_teacher.T, strict=True):
        V0, E = linear_sector(profile, D, q, G)
        x1 = E @ (D * profile.h1)
        linear.append(Linear(probability, G, x1, profile.h1 - V0 @ x1))
    return x, h - M @ x, linear


def quadratic_form(
    profile: Profile, solution: Solution, tangents: Sequence[tuple[Array, Array]] = ()
) -> tuple[Any, list[Any]]:
    """Y and its derivative along each tangent (dρ, dq) of the solution."""
    rho, q = solution.rho, solution.q
    x, b, linear = response(profile, rho, q)
    tail = profile.hr + profile.problem.noise**2
    Y = profile.h0 @ x[: rho.size] + (profile.w * rho) @ tail
    Y += sum(part.probability * (profile.h1 @ part.x) for part in linear)
    derivatives = []
    for d_rho, d_q in tangents:
        _, dM = gram_and_derivative(profile, rho, q, d_rho, d_q)
        dD = profile.w * d_rho
        dY = b @ (np.tile(dD, 2) * b) - x @ dM @ x + dD @ tail
        for part in linear:
            Kx = profile.K @ part.x
            moved = (profile.weight * d_q * part.G / profile.psi) @ (Kx * Kx)
            dY += part.probability * (part.b @ (dD * part.b) - moved)
        derivatives.append(dY)
    return Y, derivatives
