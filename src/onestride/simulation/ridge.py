"""Ridge regression at many penalties from one factorisation: min_a (1/n)‖y − Fa‖² + λ‖a‖²."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onestride._backend import HOST, Backend, DeviceArray, require_memory
from onestride._numerics import Array, Float
from onestride.simulation.rows import Rows
from onestride.simulation.shifted import solve_shifted, solve_twice


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


# ---------------------------------------------------------------------------------------------- signal and noise apart


@dataclass(frozen=True)
class SplitPath:
    """Ridge regression on labels g + σu with g and u apart: both errors are quadratic forms in the labels.

    coefficients
        N × 3·penalties: fitted to g, fitted to u, and λ∂â/∂λ of the first.
    loss, mse
        Axes ((gg, gu, uu), penalties): of labels g + σu they are gg + 2σ·gu + σ²·uu.
    """

    coefficients: DeviceArray
    loss: Float[Array, "3 penalties"]
    mse: Float[Array, "3 penalties"]


def fit_split(B: Rows, g: DeviceArray, u: DeviceArray, ridges: Float[Array, "penalties"], *, dual: bool) -> SplitPath:
    """As `fit_rows`, of the signal g and the unit noise u."""
    backend, xp, lam = B.backend, B.backend.xp, np.asarray(ridges, float)
    Y, n = xp.stack([g, u], axis=1), g.shape[0]
    shifts = n * lam
    try:
        if dual:
            alpha, coefficients, again = solve_twice(B, Y, shifts)
            loss = pairs([g[:, None], u[:, None]], halves(alpha), backend) * lam
            slope = B @ again
            mse = pairs(halves(alpha), halves(alpha), backend) * (lam * shifts)
            return SplitPath(_joined(coefficients, slope, shifts, backend), loss, mse)
        moments = backend.zeros(B.width, 2)
        for rows, tile in B:
            moments += tile.T @ Y[rows, :]
        coefficients, fitted, again = solve_twice(B, moments, shifts)
    except np.linalg.LinAlgError:
        return _split_from_svd(B, Y, lam, dual=dual)
    return _split_losses(coefficients, fitted, again, Y, lam, backend)


def halves(columns: DeviceArray) -> list[DeviceArray]:
    """The columns of g and those of u."""
    middle = columns.shape[1] // 2
    return [columns[:, :middle], columns[:, middle:]]


def pairs(left: list[DeviceArray], right: list[DeviceArray], backend: Backend) -> Float[Array, "3 penalties"]:
    """Inner products (gg, gu, uu) of columns, as host arrays."""
    products = [backend.xp.sum(left[i] * right[j], axis=0) for i, j in ((0, 0), (0, 1), (1, 1))]
    return np.stack([backend.get(one) for one in products])


def _joined(coefficients: DeviceArray, again: DeviceArray, shifts: Array, backend: Backend) -> DeviceArray:
    return backend.xp.concat([coefficients, -1.0 * backend.put(shifts) * again], axis=1)


def _split_from_svd(B: Rows, Y: DeviceArray, ridges: Float[Array, "penalties"], *, dual: bool) -> SplitPath:
    backend = B.backend
    require_memory(8.0 * 4 * B.width * (B.length + B.width), f"a penalty of λ = {ridges.min():.3g}", backend)
    F = B.whole().T if dual else B.whole()
    U, s, Vt = backend.xp.linalg.svd(F, full_matrices=False)
    s, inner, shifts = s[:, None], U.T @ Y, backend.put(Y.shape[0] * ridges)
    parts = [Vt.T @ (s / (s * s + shifts) * inner[:, k : k + 1]) for k in range(2)]
    again = Vt.T @ (s / (s * s + shifts) ** 2 * inner[:, :1])
    coefficients = backend.xp.concat(parts, axis=1)
    return _split_losses(coefficients, F @ coefficients, again, Y, ridges, backend)


def _split_losses(
    coefficients: DeviceArray,
    fitted: DeviceArray,
    again: DeviceArray,
    Y: DeviceArray,
    ridges: Float[Array, "penalties"],
    backend: Backend,
) -> SplitPath:
    residuals = [Y[:, k : k + 1] - part for k, part in enumerate(halves(fitted))]
    mse = pairs(residuals, residuals, backend) / Y.shape[0]
    loss = mse + ridges * pairs(halves(coefficients), halves(coefficients), backend)
    return SplitPath(_joined(coefficients, again, Y.shape[0] * ridges, backend), loss, mse)
