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
            unit, along = _unit(n * lam), backend.get(y @ alpha)
            size = backend.get(xp.sum((alpha * backend.put(unit)) ** 2, axis=0))
            return RidgePath(coefficients, lam * along, lam / unit * (n * lam / unit) * size)
        moments = backend.zeros(B.width)
        for rows, tile in B:
            moments += tile.T @ y[rows]
        coefficients, fitted = solve_shifted(B, moments, n * lam)
    except np.linalg.LinAlgError:
        return _from_svd(B, y, lam, dual=dual)
    return _with_losses(coefficients, fitted, y, lam, backend)


def _unit(shifts: Float[Array, "penalties"]) -> Float[Array, "penalties"]:
    """Factors that keep the square of α from being 0 at enormous penalties."""
    return np.where(shifts > 1e10, shifts, 1.0)


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
        N × columns, all penalties of each: fitted to g, fitted to u, λ∂â/∂λ of the first; fitted to further probes.
    loss, mse
        Axes ((gg, gu, uu), penalties): of labels g + σu they are gg + 2σ·gu + σ²·uu.
    noise
        Loss and MSE (first axis) of unit noise of length √n, averaged over u and the probes: their expectations are
        tr(1 − H)/n and tr(1 − H)²/n, H = F(FᵀF + λn)⁻¹Fᵀ.

    Of a stack of features, one of each seed, all have one more axis, the first.
    """

    coefficients: DeviceArray
    loss: Float[Array, "*s 3 penalties"]
    mse: Float[Array, "*s 3 penalties"]
    noise: Float[Array, "*s 2 penalties"]

    @property
    def columns(self) -> int:
        """How many sets of coefficients there are."""
        return self.coefficients.shape[-1] // self.loss.shape[-1]


def fit_split(B: Rows, g: DeviceArray, U: DeviceArray, ridges: Float[Array, "penalties"], *, dual: bool) -> SplitPath:
    """As `fit_rows`, of the signal g and the unit noise U (n × probes), of which the first is that of the labels."""
    backend, lam = B.backend, np.asarray(ridges, float)
    Y, n, turned = backend.xp.concat([g[..., None], U], axis=-1), g.shape[-1], backend.xp.matrix_transpose
    shifts = n * lam
    try:
        if dual:
            found = solve_twice(B, Y, shifts)
            each, labels = sets(found.x, lam.size), sets(Y, 1)
            unit = _unit(shifts)
            sized = [part * backend.put(unit) for part in each]
            loss = products(labels, each, backend) * lam
            mse = products(sized, sized, backend) * (lam / unit * (shifts / unit))
            lengths = products(labels, labels, backend)[..., 2:, :] / n
            return joined(found.image, found.again_image, loss, mse, lengths, shifts, backend)
        moments = backend.zeros(*B.stack, B.width, Y.shape[-1])
        for rows, tile in B:
            moments += turned(tile) @ Y[..., rows, :]
        found = solve_twice(B, moments, shifts)
    except np.linalg.LinAlgError:
        if B.stack:
            raise  # of one of the stack: each alone will tell
        return _split_from_svd(B, Y, lam, dual=dual)
    return _split_losses(found.x, found.image, found.again, Y, lam, backend)


def sets(columns: DeviceArray, size: int) -> list[DeviceArray]:
    """Columns in sets of one size: those of g, of u, and so on."""
    return [columns[..., i : i + size] for i in range(0, columns.shape[-1], size)]


def products(
    left: list[DeviceArray], right: list[DeviceArray], backend: Backend
) -> Float[Array, "*s products penalties"]:
    """Inner products gg, gu, uu of columns, and those of each further set with itself, as host arrays."""
    places = [(0, 0), (0, 1), *((k, k) for k in range(1, len(left)))]
    return np.stack([backend.get(backend.xp.sum(left[i] * right[j], axis=-2)) for i, j in places], axis=-2)


def joined(
    coefficients: DeviceArray,
    again: DeviceArray,
    loss: Float[Array, "*s products penalties"],
    mse: Float[Array, "*s products penalties"],
    lengths: Float[Array, "*s probes 1"],
    shifts: Float[Array, "penalties"],
    backend: Backend,
) -> SplitPath:
    """Put slope and probes in their places, and average over noise of unit power; `lengths` are the |u|²/n of the probes."""
    size = shifts.size
    slope = -1.0 * backend.put(shifts) * again
    ordered = [coefficients[..., : 2 * size], slope]
    if coefficients.shape[-1] > 2 * size:
        ordered.append(coefficients[..., 2 * size :])
    noise = np.stack([(part[..., 2:, :] / lengths).mean(-2) for part in (loss, mse)], axis=-2)
    return SplitPath(backend.xp.concat(ordered, axis=-1), loss[..., :3, :], mse[..., :3, :], noise)


def _split_from_svd(B: Rows, Y: DeviceArray, ridges: Float[Array, "penalties"], *, dual: bool) -> SplitPath:
    backend = B.backend
    require_memory(8.0 * 4 * B.width * (B.length + B.width), f"a penalty of λ = {ridges.min():.3g}", backend)
    F = B.whole().T if dual else B.whole()
    U, s, Vt = backend.xp.linalg.svd(F, full_matrices=False)
    s, inner, shifts = s[:, None], U.T @ Y, backend.put(Y.shape[0] * ridges)
    parts = [Vt.T @ (s / (s * s + shifts) * inner[:, k : k + 1]) for k in range(Y.shape[1])]
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
    residuals = [y - part for y, part in zip(sets(Y, 1), sets(fitted, ridges.size), strict=True)]
    each = sets(coefficients, ridges.size)
    n, labels = Y.shape[-2], sets(Y, 1)
    mse = products(residuals, residuals, backend) / n
    loss, lengths = mse + ridges * products(each, each, backend), products(labels, labels, backend)[..., 2:, :] / n
    return joined(coefficients, again, loss, mse, lengths, n * ridges, backend)
