"""The untrained network: m₁, m₂ and the random-features errors (Adlam & Pennington 2020; Mei & Montanari 2022).

With F₀ = σ(X̃W₀ᵀ) and R = (F₀F₀ᵀ + λnI)⁻¹, the limits ρ = tr R and U = tr(X̃ᵀRX̃)/d solve, with r = ψ/φ = n/N,

    ρ = 1/(λ + q c_{>1}²/r + φV),     q = 1/(1 + ρ c_{>1}² + c₁² U),
    V₀ = c₁² q/ψ,   U = ρ/(1 + ρV₀),   V = V₀/(1 + ρV₀),      m₁ = ρ/r,   m₂ = U/r.

Given ρ, q is the positive root of a quadratic; what is left is one scalar equation with one root in
[1/(λ + E σ²/r), 1/λ], which is bracketed. With y = ρV₀ in place of ρ both equations are one of degree four,

    λ y(1 + y)² + [1 + y − φy − (φ c_{>1}²/c₁²) y(1 + y)]·[(1 + y)(c_{>1}² y − c₁²/ψ) + c₁² y] = 0,

which at λ = −E gives the density Im ρ/π of the eigenvalues of F₀F₀ᵀ/n at E.
"""

# pyright: reportMissingTypeStubs=false
from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import ArrayLike
from scipy.optimize.elementwise import find_root  # pyright: ignore[reportUnknownVariableType]

from onestride._numerics import Array
from onestride.problem import Problem
from onestride.result import Errors, Status

RESIDUAL_TOLERANCE = 1e-11


@dataclass(frozen=True)
class Bulk:
    """ρ, q, U and their λ-derivatives, one entry per penalty."""

    ridge: Array
    rho: Array
    q: Array
    U: Array
    d_rho: Array
    d_q: Array
    d_U: Array
    residual: Array
    iterations: Array
    n_over_N: Array

    @property
    def m1(self) -> Array:
        """m₁ of the paper."""
        return self.rho / self.n_over_N

    @property
    def m2(self) -> Array:
        """m₂ of the paper."""
        return self.U / self.n_over_N

    @property
    def d_m1(self) -> Array:
        """∂m₁/∂λ."""
        return self.d_rho / self.n_over_N

    @property
    def d_m2(self) -> Array:
        """∂m₂/∂λ."""
        return self.d_U / self.n_over_N


def solve_bulk(ridge: ArrayLike, phi: ArrayLike, psi: ArrayLike, c1: float, nonlinear_power: float) -> Bulk:
    """Solve for ρ, q, U at penalties λ > 0 and ratios φ = d/n, ψ = d/N (all broadcast together).

    `nonlinear_power` is c_{>1}² = E σ² − c₁².
    """
    lam, phi, psi = (np.array(x, float) for x in np.broadcast_arrays(ridge, phi, psi))
    r, c1sq, cg2 = psi / phi, c1 * c1, nonlinear_power

    def residual(log_rho: Array, lam: Array, phi: Array, psi: Array) -> Array:
        rho = np.exp(log_rho)
        q, V = _q_and_V(rho, psi, c1sq, cg2)
        return 1 - lam * rho - rho * q * cg2 * phi / psi - phi * rho * V

    lower, upper = -np.log(lam + (c1sq + cg2) / r), -np.log(lam)
    bracket = (lower - 1e-9, upper + 1e-9)  # the bounds are attained when σ = 0 or λ → ∞
    root: Any = find_root(
        residual, bracket, args=(lam, phi, psi), tolerances={"xatol": 1e-15, "xrtol": 4e-16, "fatol": 0.0}
    )
    rho = np.exp(root.x)
    q, V = _q_and_V(rho, psi, c1sq, cg2)
    T = 1 / (1 + rho * c1sq * q / psi)
    U = rho * T
    # λ-derivatives: the Jacobian in (log ρ, log q), each equation scaled by its unknown
    a11 = -1 + phi * (rho * V) ** 2
    a12 = -rho * q * (cg2 / r + phi * c1sq * T * T / psi)
    a21 = -rho * q * (cg2 + c1sq * T * T)
    a22 = -1 + (c1sq * U * q) ** 2 / psi
    det = a11 * a22 - a12 * a21
    d_rho, d_q = rho * (a22 * rho / det), q * (-a21 * rho / det)
    d_U = T * T * d_rho - U * U * (c1sq / psi) * d_q
    residuals = np.maximum(
        np.abs(1 - lam * rho - rho * q * cg2 / r - phi * rho * V),
        np.abs(1 - q * (1 + rho * cg2 + c1sq * U)),
    )
    return Bulk(lam, rho, q, U, d_rho, d_q, d_U, residuals, np.asarray(root.nit), r)


def bulk_of(problem: Problem, ridge: ArrayLike) -> Bulk:
    """The bulk of a problem's untrained network."""
    network = (problem.phi, problem.psi, float(problem.sigma.coefficients[1]), float(problem.sigma.nonlinear_power))
    if np.size(ridge) > 1:
        return solve_bulk(ridge, *network)
    return _one_bulk(float(np.reshape(ridge, ())), np.shape(ridge), *network)


@lru_cache(maxsize=32)
def _one_bulk(ridge: float, shape: tuple[int, ...], phi: float, psi: float, c1: float, nonlinear_power: float) -> Bulk:
    """Kept: every cell of a curve and every plateau asks for the same one."""
    found = solve_bulk(np.full(shape, ridge), phi, psi, c1, nonlinear_power)
    for field in fields(found):
        np.asarray(getattr(found, field.name)).setflags(write=False)
    return found


def bulk_density(problem: Problem, E: Array) -> Array:
    """The density of F₀F₀ᵀ/n at points E > 0, the atom at 0 excluded; c₁ ≠ 0."""
    c1sq, cg2, phi, psi = problem.sigma.coefficients[1] ** 2, problem.sigma.nonlinear_power, problem.phi, problem.psi
    y = Polynomial([0.0, 1.0])
    fixed = (1 + y - phi * y - (phi * cg2 / c1sq) * y * (1 + y)) * ((1 + y) * (cg2 * y - c1sq / psi) + c1sq * y)
    moving: Array = np.outer(-E, np.pad((y * (1 + y) ** 2).coef, (0, 1)))
    coefficients = np.pad(fixed.coef, (0, 5 - fixed.coef.size)) + moving
    companion = np.zeros((E.size, 4, 4))
    companion[:, 1:, :3], companion[:, :, 3] = np.eye(3), -coefficients[:, :4] / coefficients[:, 4:]
    root = np.linalg.eigvals(companion)
    rho = (1 - (phi * cg2 / c1sq) * root - phi * root / (1 + root)) / -E[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):  # a root with ρ = 0 is none of ours
        q = root * psi / (rho * c1sq)
        physical = (rho.imag > 0) & ((q / -E[:, None]).imag > 0)  # one at most
    return np.where(physical, rho.imag, 0.0).max(1) / np.pi


def bulk_errors(bulk: Bulk, Y: Array, dY: Array, status: Array, message: Array) -> Errors:
    """Ridge objective λY, training error −λ²Y' and test error −Y'/ρ² (leave-one-out), Y and Y' on steps × penalties."""
    unsolved = ~(bulk.residual <= RESIDUAL_TOLERANCE) & (status == Status.SOLVED)
    status[unsolved], message[unsolved] = Status.NOT_CONVERGED, Status.NOT_CONVERGED.value
    valid = np.where(status == Status.SOLVED, 1.0, np.nan)
    return Errors(
        train_loss=valid * bulk.ridge * Y,
        train_mse=valid * -(bulk.ridge**2) * dY,
        test_error=valid * -dY / bulk.rho**2,
        residual=np.broadcast_to(bulk.residual, Y.shape),
        iterations=np.broadcast_to(bulk.iterations, Y.shape),
        status=status,
        message=message,
    )


def _q_and_V(rho: Array, psi: Array, c1sq: float, cg2: float) -> tuple[Array, Array]:
    """The positive root q of A C q² + h q − 1 = 0, in whichever form does not cancel, and V."""
    A, C = 1 + rho * cg2, rho * c1sq / psi
    h = A + c1sq * rho - C
    disc = np.sqrt(h * h + 4 * A * C)
    with np.errstate(divide="ignore", invalid="ignore"):  # the branch not taken may be 0/0
        q = np.where(h > 0, 2 / (h + disc), (disc - h) / (2 * A * C))
    return q, (c1sq * q / psi) / (1 + C * q)
