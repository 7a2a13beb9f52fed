"""Ridge regression at many penalties from one factorisation: min_a (1/n)‖y − Fa‖² + λ‖a‖²."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import get_lapack_funcs

from onestride._numerics import Array

# Below this ratio of shift to Gram norm, squaring F costs more than six digits: decompose F itself instead.
SMALLEST_SHIFT = 1e-10


@dataclass(frozen=True)
class RidgePath:
    """Coefficients (N × penalties), ridge objective and mean squared residual at each penalty."""

    coefficients: Array
    train_loss: Array
    train_mse: Array


def ridge_path(F: Array, y: Array, ridges: Array) -> RidgePath:
    """Fit all penalties; dual for n ≤ N, primal for n > N.

    dual     α = (FFᵀ + λn)⁻¹y,   â = Fᵀα,   residual y − Fâ = λnα
    primal   â = (FᵀF + λn)⁻¹Fᵀy
    """
    n, N = F.shape
    shifts = n * np.asarray(ridges, float)
    dual = n <= N
    gram = F @ F.T if dual else F.T @ F
    if shifts.min() < SMALLEST_SHIFT * np.linalg.norm(gram):
        return _from_svd(F, y, ridges)
    if dual:
        alpha = solve_shifted(gram, y, shifts)
        coefficients = F.T @ alpha
        return RidgePath(coefficients, ridges * (y @ alpha), ridges**2 * n * (alpha**2).sum(0))
    coefficients = solve_shifted(gram, F.T @ y, shifts)
    return _with_losses(F, y, ridges, coefficients)


def solve_shifted(gram: Array, b: Array, shifts: Array) -> Array:
    """(K + sI)⁻¹b for every shift s > 0, as columns; the symmetric positive semi-definite K is overwritten.

    One Householder reduction K = QTQᵀ to tridiagonal form (4m³/3 operations) serves all shifts: each then costs O(m)
    for T + s and one application of Q.
    """
    m = b.size
    if m == 1:
        return b[:, None] / (gram[0, 0] + shifts)
    names = ("sytrd", "sytrd_lwork", "ormqr", "ptsv")
    sytrd, sytrd_lwork, ormqr, ptsv = get_lapack_funcs(names, (gram, b))
    work, _ = sytrd_lwork(m, lower=1)
    reflectors, diagonal, off, tau, info = sytrd(gram.T, lower=1, lwork=int(work), overwrite_a=1)
    _require(info == 0, info)
    below = np.asfortranarray(reflectors[1:, :-1])

    def apply_q(columns: Array, trans: str) -> Array:
        out = np.array(columns, order="F")
        rest = np.asfortranarray(out[1:])
        size = ormqr("L", trans, below, tau, rest, -1)[1][0]
        out[1:], _, info = ormqr("L", trans, below, tau, rest, int(size))
        _require(info == 0, info)
        return out

    rotated = apply_q(b[:, None], "T")
    solutions = np.empty((m, shifts.size), order="F")
    for j, shift in enumerate(shifts):
        *_, x, info = ptsv(diagonal + shift, off.copy(), rotated)
        _require(info == 0, info)
        solutions[:, j] = x[:, 0]
    return apply_q(solutions, "N")


def _from_svd(F: Array, y: Array, ridges: Array) -> RidgePath:
    """â = V s(s² + λn)⁻¹ Uᵀy: the accurate route for tiny penalties."""
    U, s, Vt = np.linalg.svd(F, full_matrices=False)
    shifts = F.shape[0] * np.asarray(ridges)
    coefficients = Vt.T @ (s[:, None] / (s[:, None] ** 2 + shifts) * (U.T @ y)[:, None])
    return _with_losses(F, y, ridges, coefficients)


def _with_losses(F: Array, y: Array, ridges: Array, coefficients: Array) -> RidgePath:
    mse = ((y[:, None] - F @ coefficients) ** 2).mean(0)
    return RidgePath(coefficients, mse + ridges * (coefficients**2).sum(0), mse)


def _require(success: bool, info: int) -> None:
    if not success:
        raise RuntimeError(f"the ridge system could not be factorised (LAPACK info {info}); use a larger penalty")
