"""Ridge regression at many penalties from one factorisation: min_a (1/n)‖y − Fa‖² + λ‖a‖²."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onestride._backend import current, require_memory
from onestride._numerics import Array
from onestride.simulation.shifted import IllConditionedError, Rows, solve_shifted


@dataclass(frozen=True)
class RidgePath:
    """Coefficients (N × penalties), ridge objective and mean squared residual at each penalty."""

    coefficients: Any
    train_loss: Array
    train_mse: Array


def ridge_path(F: Any, y: Any, ridges: Array) -> RidgePath:
    """Fit all penalties on the current device; dual for n ≤ N, primal for n > N."""
    backend = current()
    n, N = F.shape
    F, y = backend.put(F), backend.put(y)
    B = F.T if n <= N else F
    path = fit_rows(Rows(max(n, N), min(n, N), lambda rows: B[rows, :]), y, ridges, dual=n <= N)
    return RidgePath(backend.get(path.coefficients), path.train_loss, path.train_mse)


def fit_rows(B: Rows, y: Any, ridges: Array, *, dual: bool) -> RidgePath:
    """Fit from the rows of B, which is Fᵀ for the dual and F for the primal problem.

    dual     α = (FFᵀ + λn)⁻¹y,   â = Fᵀα,   residual y − Fâ = λnα
    primal   â = (FᵀF + λn)⁻¹Fᵀy
    """
    backend, xp = current(), current().xp
    lam = np.asarray(ridges, float)
    n = y.shape[0]
    try:
        if dual:
            alpha, coefficients = solve_shifted(B, y, n * lam)
            along, size = backend.get(y @ alpha), backend.get(xp.sum(alpha * alpha, axis=0))
            return RidgePath(coefficients, lam * along, lam**2 * n * size)
        moments = backend.zeros(B.width)
        for rows, tile in B:
            moments += tile.T @ y[rows]
        coefficients, fitted = solve_shifted(B, moments, n * lam)
    except IllConditionedError:
        return _from_svd(B, y, lam, dual=dual)
    return _with_losses(coefficients, fitted, y, lam)


def _from_svd(B: Rows, y: Any, ridges: Array, *, dual: bool) -> RidgePath:
    """â = V s(s² + λn)⁻¹ Uᵀy: the accurate route for tiny penalties."""
    backend, xp = current(), current().xp
    require_memory(8.0 * 4 * B.width * (B.length + B.width), f"a penalty as small as λ = {ridges.min():.3g}")
    F = xp.concat([tile for _, tile in B], axis=0)
    F = F.T if dual else F
    U, s, Vt = xp.linalg.svd(F, full_matrices=False)
    s = s[:, None]
    coefficients = Vt.T @ (s / (s * s + backend.put(y.shape[0] * ridges)) * (U.T @ y)[:, None])
    return _with_losses(coefficients, F @ coefficients, y, ridges)


def _with_losses(coefficients: Any, fitted: Any, y: Any, ridges: Array) -> RidgePath:
    backend, xp = current(), current().xp
    residual = y[:, None] - fitted
    mse = backend.get(xp.sum(residual * residual, axis=0)) / y.shape[0]
    return RidgePath(coefficients, mse + ridges * backend.get(xp.sum(coefficients * coefficients, axis=0)), mse)
