"""The n → ∞ limits inside a window: Δ_ℓ and Λ_ℓ for every ℓ (Moniri et al. 2024, extended to all ℓ for the test error).

For (ℓ−1)/(2ℓ) < α < ℓ/(2ℓ+2) the powers (X̃β)^k, k ≤ ℓ with c_k ≠ 0, become free directions of the ridge fit: their
coefficients are no longer penalised. Let t_i = c⋆_i ρ^i be the teacher seen through the overlap ρ = β⋆ᵀβ/|β|, and let
u be the polynomial in the span of those powers closest to t in the norm Σ_i w_i i! u_i², w₁ = U, else w_i = ρ_bulk.
Then yᵀRy falls by C_ℓ = Σ_i w_i i! (2u_i t_i − u_i²), and

    Δ_ℓ = λ C_ℓ  (ridge objective),     Λ_ℓ = −(1/ρ_bulk²) ∂C_ℓ/∂λ  (test error, by the leave-one-out identity).

These are the limits after an exactly rank-one step. The exact step moves neuron j by its own noise, too, which lengthens it
by κ times the square of its move along β: where degree k of σ sees (θ_j z)^k, it sees E_g(z + √κ g)^k θ_j^k,

    κ = φ₀ E r² Var σ'/(c₁ s)²,

the square of β's coordinate with a constant κ, its cube with 3κz. For ℓ ≥ 2 that does not vanish: "exact-plateau".
Directions are free as far as neurons differ in how they take them, by a_j^k: with readouts of one size there is one (a constant
readout) or two (±1).
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from onestride._numerics import Array, Float, monomials_in_hermite
from onestride.problem import Problem, Step
from onestride.result import Errors, Status
from onestride.theory.assumptions import beyond_the_model, needs_identity
from onestride.theory.bulk import Bulk, bulk_errors, bulk_of
from onestride.theory.direction import direction
from onestride.theory.profile.strength import isotropic_noise
from onestride.theory.registry import Theory

HIGHEST_DEGREE = 24  # monomials beyond this are numerically dependent; windows ℓ > 24 (α > 0.479) say so


def window(exponent: float) -> float:
    """The ℓ with (ℓ−1)/(2ℓ) < α < ℓ/(2ℓ+2): 0 for α < 0, ∞ for α ≥ 1/2, NaN on a threshold."""
    if exponent >= 0.5:
        return math.inf
    x = 1 / (1 - 2 * exponent)  # threshold k is below α exactly when k < x
    nearest = round(x)
    if nearest >= 1 and abs(x - nearest) < 1e-9 * nearest:
        return math.nan
    return math.floor(x)


def window_of(step: Step) -> float:
    """The window of a step; 0 without one."""
    return window(step.exponent) if step.constant > 0 else 0.0


def failed_assumption(problem: Problem) -> str | None:
    """Which assumption of the limit theory fails for this problem, if any."""
    reason = beyond_the_model(problem) or needs_identity(problem, "the theory of n → ∞")
    if reason is not None:
        return reason
    if problem.step.constant > 0 and problem.sigma.coefficients[1] == 0:
        return (
            f"the plateau theory needs c₁ ≠ 0, and activation {problem.sigma.name!r} has c₁ = 0: "
            "the gradient is then not close to rank one"
        )
    if not problem.centred and problem.sigma.coefficients[0] != 0:
        return f"the plateau theory needs a centred activation, c₀ = 0; {problem.sigma.name!r} was left uncentred"
    return None


def smoothed_powers(degree: int, spread: float) -> Float[Array, "degrees degrees"]:
    """Rows k = 0 … degree of E_g(z + √κ g)^k in the normalised Hermite basis, κ = `spread`: p_{k+1} = z p_k + κ k p_{k−1}."""
    powers = np.eye(degree + 1)
    for k in range(1, degree):
        powers[k + 1] = np.roll(powers[k], 1) + spread * k * powers[k - 1]
    return powers @ monomials_in_hermite(degree)


def fitted_polynomial(
    powers: list[int], weights: Float[Array, "*cells degrees"], t: Float[Array, "degrees"], spread: float = 0.0
) -> Float[Array, "*cells degrees"]:
    """The combination of E(x + √κ g)^k, k in `powers`, closest to Σ_i t_i h_i in the norm Σ_i weights_i (·)_i², h_i = H_i/√i!.

    `weights` has shape (…, degree + 1); so has the result. Solved by QR, not by normal equations.
    """
    degree = t.shape[-1] - 1
    S = smoothed_powers(degree, spread)[powers]
    S = S / np.linalg.norm(S, axis=1, keepdims=True)
    root = np.sqrt(weights)
    basis = np.swapaxes(S * root[..., None, :], -1, -2)
    Q, _ = np.linalg.qr(basis)
    projected = Q @ (np.swapaxes(Q, -1, -2) @ (root * t)[..., None])
    return projected[..., 0] / root


def captured(bulk: Bulk, powers: list[int], teacher: Array, overlap: float, spread: float = 0.0) -> tuple[Array, Array]:
    """C_ℓ and ∂C_ℓ/∂λ at every penalty of `bulk`; `teacher` holds c⋆_i √i!."""
    if not powers:
        return np.zeros_like(bulk.rho), np.zeros_like(bulk.rho)
    degree = max(powers)
    t = np.zeros(degree + 1)
    t[: teacher.size] = teacher[: degree + 1]
    t = t * overlap ** np.arange(degree + 1)
    linear = np.arange(degree + 1) == 1
    w = np.where(linear, bulk.U[..., None], bulk.rho[..., None])
    dw = np.where(linear, bulk.d_U[..., None], bulk.d_rho[..., None])
    u = fitted_polynomial(powers, w / bulk.rho[..., None], t, spread)
    gain = 2 * u * t - u * u
    return (w * gain).sum(-1), (dw * gain).sum(-1)


def active_powers(problem: Problem, ell: float) -> list[int]:
    """K_ℓ = {1 ≤ k ≤ ℓ : c₁ c_k ≠ 0}, of those whose a^{∘k} are one vector the lowest, which is the largest."""
    if problem.sigma.coefficients[1] == 0:
        return []
    highest = int(min(ell, HIGHEST_DEGREE))
    powers = [k for k in range(1, highest + 1) if problem.sigma.coefficients[k] != 0]
    if problem.readout == "gaussian":
        return powers
    alike = 1 if problem.readout == "constant" else 2  # of ±1 the even powers are one vector and the odd ones another
    return sorted({k % alike: k for k in reversed(powers)}.values())


def own_noise(problem: Problem) -> float:
    """κ: what a neuron's own noise adds to its squared length, over the square of its move along β."""
    move = problem.sigma.coefficients[1] * direction(problem).s
    return isotropic_noise(problem) / move**2 if move else 0.0


def errors(problem: Problem, steps: list[Step], ridges: ArrayLike, spread: float = 0.0) -> Errors:
    """Train and test errors on steps × penalties, each step replaced by the plateau of its window."""
    bulk, target, overlap = bulk_of(problem, ridges), problem.target, direction(problem).overlap
    linear, rest = target.coefficients[1] ** 2, target.nonlinear_power + problem.noise**2
    Y = linear * bulk.U + rest * bulk.rho
    dY = linear * bulk.d_U + rest * bulk.d_rho
    shape = (len(steps), bulk.ridge.size)
    C, dC = np.zeros(shape), np.zeros(shape)
    status, message = np.full(shape, Status.SOLVED, object), np.full(shape, Status.SOLVED.value, object)
    for i, step in enumerate(steps):
        ell = window_of(step)
        reason = failed_assumption(problem.replace(step=step))
        if math.isnan(ell):
            status[i], message[i] = Status.THRESHOLD, f"α = {step.exponent:g}: {Status.THRESHOLD.value}"
        elif math.isinf(ell):
            reason = f"the plateau theory needs α < 1/2, got α = {step.exponent:g}"
        else:
            C[i], dC[i] = captured(bulk, active_powers(problem, ell), target.normalised, overlap, spread)
            if ell > HIGHEST_DEGREE:
                message[i] = f"solved; of the {ell:g} powers of this window those above {HIGHEST_DEGREE} are left out"
        if reason is not None:
            status[i], message[i] = Status.ASSUMPTION, reason
    return bulk_errors(bulk, Y - C, dY - dC, status, message)


def exact_errors(problem: Problem, steps: list[Step], ridges: ArrayLike) -> Errors:
    """The same after the exact step, in which every neuron has its own noise."""
    return errors(problem, steps, ridges, own_noise(problem))


THEORY = Theory(
    "plateau",
    errors,
    "the n → ∞ limit inside a window, after an exactly rank-one step; at realistic n gains are off by tens of percent",
    failed_assumption,
    limit=True,
)
EXACT = Theory(
    "exact-plateau",
    exact_errors,
    "the n → ∞ limit inside a window, after the exact step; at realistic n gains are off by tens of percent",
    failed_assumption,
    limit=True,
)
