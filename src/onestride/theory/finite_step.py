"""The finite-step theory: the step's mean spike exactly, the bulk frozen at that of the untrained network.

With b_k = [μ(θ_k z); √(2/d) e(θ_k z)] as in the profile theory, ρ, q, U of the untrained bulk and D = ρ diag(w),

    Y = hᵀ(D⁻¹ + q M₀)⁻¹h + U (E h1)² + ρ (E h1² − (E h1)² + E hr + σ_ε²),      M₀ = N Σ_k w_k b_k b_kᵀ,
    ridge objective λY,   training error −λ² Y',   test error −Y'/ρ²;

for the full gradient the direction a sees q_a = 1/(1 + ρ c_{>1}²) instead of q: q M₀ + (q_a − q) N m mᵀ, m = E[A b].
One eigendecomposition of M₀ per step serves every λ.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from onestride._numerics import Array
from onestride.problem import Problem, Step
from onestride.result import Errors, Status
from onestride.theory.assumptions import failed_assumption, needs_identity, needs_rank_one
from onestride.theory.bulk import Bulk, bulk_errors, bulk_of
from onestride.theory.profile.build import Ending, try_model
from onestride.theory.profile.quadratic_form import mean_gram
from onestride.theory.profile.sectors import Model
from onestride.theory.registry import Theory

_WHAT = "the theory of a frozen bulk"


def errors(problem: Problem, steps: list[Step], ridges: ArrayLike) -> Errors:
    """Train and test errors on steps × penalties."""
    bulk = bulk_of(problem, ridges)
    shape = (len(steps), bulk.ridge.size)
    Y, dY = np.full(shape, np.nan), np.full(shape, np.nan)
    status, message = np.full(shape, Status.SOLVED, object), np.full(shape, Status.SOLVED.value, object)
    for i, step in enumerate(steps):
        stepped = problem.replace(step=step)
        reason = needs_rank_one(stepped, _WHAT)
        model = try_model(stepped, "rank-one") if reason is None else Ending(Status.ASSUMPTION, reason)
        if isinstance(model, Ending):
            status[i], message[i] = model
        else:
            Y[i], dY[i] = quadratic_form(model, bulk)
    return bulk_errors(bulk, Y, dY, status, message)


def quadratic_form(model: Model, bulk: Bulk) -> tuple[Array, Array]:
    """Y and ∂Y/∂λ at every penalty of `bulk`."""
    spike, d_spike = _spike(model, bulk)
    w, h1 = model.w, model.sectors[0].h
    linear = ((w @ h1) ** 2).sum()
    rest = w @ ((h1**2).sum(1) + model.tail) - linear + model.problem.noise**2
    return spike + linear * bulk.U + rest * bulk.rho, d_spike + linear * bulk.d_U + rest * bulk.d_rho


def _spike(model: Model, bulk: Bulk) -> tuple[Array, Array]:
    """hᵀ(D⁻¹ + M)⁻¹h = ρ yᵀ(I + ρq Λ + κ u uᵀ)⁻¹y in the eigenbasis of M₀, κ = ρ(q_a − q), and its λ-derivative."""
    root = np.sqrt(np.tile(model.w, 2))
    mean = model.means.cases[0][1]
    M0 = mean_gram(model, mean, np.ones(model.theta.size))
    eigenvalues, basis = np.linalg.eigh(root[:, None] * M0 * root)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    y = basis.T @ (root * model.means.h)
    rho, q = bulk.rho[:, None], bulk.q[:, None]
    inverse = 1 / (1 + rho * q * eigenvalues)  # λ × modes
    x = inverse * y
    d_rho_q = bulk.d_rho * bulk.q + bulk.rho * bulk.d_q
    through_output = np.zeros_like(bulk.rho)
    if model.learned.through_output:
        u = basis.T @ (root * (np.sqrt(model.problem.N) * (model.weight * model.A) @ mean))
        power = model.problem.sigma.nonlinear_power
        q_a = 1 / (1 + bulk.rho * power)
        kappa = bulk.rho * (q_a - bulk.q)
        d_kappa = bulk.d_rho * (q_a - bulk.q) + bulk.rho * (-(q_a**2) * power * bulk.d_rho - bulk.d_q)
        x = x - (kappa * (x @ u) / (1 + kappa * (inverse @ u**2)))[:, None] * (inverse * u)
        through_output = d_kappa * (x @ u) ** 2
    form = x @ y
    d_form = -d_rho_q * (x * x @ eigenvalues) - through_output
    return bulk.rho * form, bulk.d_rho * form + bulk.rho * d_form


def domain(problem: Problem) -> str | None:
    """Why the theory does not apply; None where it does."""
    return failed_assumption(problem) or needs_identity(problem, _WHAT) or needs_rank_one(problem, _WHAT)


THEORY = Theory(
    "finite-step",
    errors,
    "finite n with the untrained network's bulk: within 1 % of the profile theory (n = 1,500) for λ ≥ 0.1 and α ≤ 0.25, "
    "within 2 % for λ ≥ 0.1 and α ≤ 0.3, tens of percent off at λ = 0.001 and α = 1/2",
    domain,
)
