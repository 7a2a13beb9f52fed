"""Ridge regression at many penalties from one factorisation: min_a (1/n)‖y − Fa‖² + λ‖a‖²."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onestride._backend import HOST, Backend, DeviceArray, require_memory
from onestride._numerics import Array, Float
from onestride.simulation.rows import Rows
from onestride.simulation.shifted import solve_shifted


@dataclass(frozen=True)
class RidgePath:
    """Coefficients (N × penalties), ridge objective and mean squared residual at each penalty."""

    coefficients: DeviceArray
    train_loss: Float[Array, "penalties"]
    train_mse: Float[Array, "penalties"]


def ridge_path(F: DeviceArray, y: DeviceArray, ridges: Float[Array, "penalties"], backend: Backend = HOST) -> RidgePath:
    """Fit all penalties; dual for n ≤ N, primal for n > N."""
    n, N = F.shape
    path = fit_rows(Rows.longer(backend.put(F), backend), backend.put(y), ridges, dual=n <= N)
    return RidgePath(backend.get(path.coefficients), path.train_loss, path.train_mse)


def fit_rows(B: Rows, y: DeviceArray, ridges: Float[Array, "penalties"], *, dual: bool) -> RidgePath:
    """Fit from the rows of B, which is Fᵀ for the dual and F for the primal problem.

    dual     α = (FFᵀ + λn)⁻¹y,   â = Fᵀα,   residual y − Fâ = λnα
    primal   â = (FᵀF + λn)⁻¹Fᵀy
    """
    backend, xp = B.backend, B.backend.xp
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
    except np.linalg.LinAlgError:
        return _from_svd(B, y, lam, dual=dual)
    return _with_losses(coefficients, fitted, y, lam, backend)


def _from_svd(B: Rows, y: DeviceArray, ridges: Float[Array, "penalties"], *, dual: bool) -> RidgePath:
    """â = V s(s² + λn)⁻¹ Uᵀy: the accurate route for tiny penalties."""
    backend = B.backend
    needed = 8.0 * 4 * B.width * (B.length + B.width)
    require_memory(needed, f"a penalty as small as λ = {ridges.min():.3g}", backend)
    F = B.whole().T if dual else B.whole()
    U, s, Vt = backend.xp.linalg.svd(F, full_matrices=False)
    s = s[:, None]
    coefficients = Vt.T @ (s / (s * s + backend.put(y.shape[0] * ridges)) * (U.T @ y)[:, None])
    return _with_losses(coefficients, F @ coefficients, y, ridges, backend)


def _with_losses(
    coefficients: DeviceArray, fitted: DeviceArray, y: DeviceArray, ridges: Float[Array, "penalties"], backend: Backend
) -> RidgePath:
    xp = backend.xp
    residual = y[:, None] - fitted
    mse = backend.get(xp.sum(residual * residual, axis=0)) / y.shape[0]
    return RidgePath(coefficients, mse + ridges * backend.get(xp.sum(coefficients * coefficients, axis=0)), mse)
