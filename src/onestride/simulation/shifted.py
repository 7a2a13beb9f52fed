"""(BᵀB + s)⁻¹b for many shifts s > 0: factorise in half the precision, then refine with B itself in full precision.

K = BᵀB is formed and factorised in float32, which costs half as much (on a GPU, with TF32 products, a fifth). The
factors precondition conjugate gradients on the exact operator v ↦ Bᵀ(Bv) + sv, which then needs 2 to 8 steps instead of
hundreds. The error is bounded by the residual at the end: |x − x*|/|x| ≤ |b − (K + s)x|/(s|x|).

Operations, m × m shifted systems, B of L rows, p shifts:

    Gram                        L m²             symmetric
    Cholesky, per shift         m³/3
    tridiagonal form, once      4m³/3            half of it matrix-vector products: as dear as five Choleskys
    one step of refinement      4 L m p
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, get_blas_funcs, get_lapack_funcs

from onestride._backend import HOST, Backend, DeviceArray, on_host
from onestride._backend.lapack import rotate, tridiagonal_form
from onestride._numerics import Array, Float, Int
from onestride.simulation.panels import Panels, Solver
from onestride.simulation.refined import Refined, Systems, columns_for, refine
from onestride.simulation.rows import Rows

DIRECT_BELOW = 400  # smaller systems are solved in float64 at once: the factorisation is not what costs
CHOLESKY_UP_TO = 4  # shifts on the host; more of them share one tridiagonal form
# of |K|: below it, squaring B costs more than six digits (float32: two) and B itself must be decomposed
SMALLEST_SHIFT = {"float64": 1e-10, "float32": 1e-5}

Gram = DeviceArray | Panels  # on the host whole or its upper triangle


class IllConditionedError(np.linalg.LinAlgError):
    """The Gram matrix has lost the digits that the smallest shift needs."""


class Way(NamedTuple):
    """How shifted systems are solved: refined from float32 factors or at once; by a tridiagonal form or by Cholesky."""

    refined: bool
    tridiagonal: bool


def way(width: int, shifts: int, backend: Backend, *, only_gram: bool = False) -> Way:
    """How so many systems of one width are solved; with nothing but their Gram matrix there is nothing to refine."""
    direct = backend.on_host and (only_gram or width < DIRECT_BELOW)
    return Way(not (direct or only_gram), direct or (backend.on_host and shifts > CHOLESKY_UP_TO))


def solve_shifted(rows: Rows, b: DeviceArray, shifts: Float[Array, "shifts"]) -> tuple[DeviceArray, DeviceArray]:
    """The x = (BᵀB + s)⁻¹b for every shift, as columns, and Bx."""
    found = _solve(rows, b[:, None], shifts, exact=1, twice=False)
    return found.x, found.image


def solve_twice(rows: Rows, b: DeviceArray, shifts: Float[Array, "shifts"], *, exact: int = 2) -> Refined:
    """The x = (BᵀB + s)⁻¹b of each column of b for every shift, and (BᵀB + s)⁻¹x of the first column of b; and B times both.

    Columns of x: all shifts of the first b, then of the next. The second is −∂x/∂s. It, and columns of b beyond the first
    `exact`, are refined no further than SLOPE_TOLERANCE.
    """
    return _solve(rows, b, shifts, exact=min(exact, b.shape[-1]), twice=True)


def _solve(rows: Rows, b: DeviceArray, shifts: Float[Array, "shifts"], *, exact: int, twice: bool) -> Refined:
    backend = rows.backend
    if not way(rows.width, shifts.size, backend).refined:
        x, again = solve_gram_twice(rows.gram(backend.dtype), b, shifts, backend)
        return Refined(x, rows @ x, again, rows @ again) if twice else Refined(x, rows @ x)
    for dtype in ("float32", "float64") if backend.dtype == "float64" else ("float32",):
        solution = _factorise_and_refine(rows, b, shifts, dtype, exact, twice)
        if solution is not None:
            return solution
    raise IllConditionedError


def solve_gram(K: DeviceArray, b: DeviceArray, shifts: Float[Array, "shifts"], backend: Backend = HOST) -> DeviceArray:
    """The x = (K + s)⁻¹b for every shift, as columns, when there is only K, which is overwritten."""
    return solve_gram_twice(K, b[:, None], shifts, backend)[0]


def solve_gram_twice(
    K: DeviceArray, b: DeviceArray, shifts: Float[Array, "shifts"], backend: Backend = HOST
) -> tuple[DeviceArray, DeviceArray]:
    """As `solve_twice`, when there is only K, which is overwritten."""
    _require_digits(shifts, _norm(K, backend), backend.dtype)
    chosen = way(K.shape[0], shifts.size, backend, only_gram=True)
    solver = factors(K, shifts, backend, tridiagonal=chosen.tridiagonal, last=True)
    which = np.arange(shifts.size)
    x = solver(columns_for(b, shifts.size, backend), np.tile(which, b.shape[-1]))
    return x, solver(x[..., : shifts.size], which)


def _factorise_and_refine(
    rows: Rows, b: DeviceArray, shifts: Float[Array, "shifts"], dtype: str, exact: int, twice: bool
) -> Refined | None:
    """Solve with factors of K in `dtype`, in as many groups of shifts as memory asks for.

    None if K + s is not positive definite in that precision, or the refinement does not get there.
    """
    backend = rows.backend
    low = dtype != backend.dtype
    with backend.fast_products(low):
        K = rows.gram(dtype) if backend.on_host else rows.panels(dtype)
        norm = _norm(K, backend)
        if not np.isfinite(norm) and low:
            return None  # float32 overflows first
        _require_digits(shifts, norm, backend.dtype)
        pieces: list[Refined] = []
        tridiagonal = way(rows.width, shifts.size, backend).tridiagonal
        for part in [shifts] if tridiagonal else _groups(shifts, rows, dtype):
            try:
                solver = factors(K, part, backend, tridiagonal=tridiagonal, last=part[-1] == shifts[-1])
            except np.linalg.LinAlgError:  # every library's word for "not positive definite"
                return None
            found = refine(Systems(rows, part, solver, dtype, norm), b, exact, twice=twice)
            if found is None:
                return None
            pieces.append(found)
            del solver
    sizes = [one.x.shape[-1] // b.shape[-1] for one in pieces]
    names = ("x", "image", "again", "again_image") if twice else ("x", "image")
    joined = [_sorted([getattr(one, name) for one in pieces], sizes, backend) for name in names]
    return Refined(*joined)


def _sorted(groups: Sequence[DeviceArray], sizes: Sequence[int], backend: Backend) -> DeviceArray:
    """The columns of groups of shifts in the order of `solve_twice`: the right-hand sides one after the other."""
    if len(groups) == 1:
        return groups[0]
    sides = groups[0].shape[-1] // sizes[0]
    parts = [one[..., k * size : (k + 1) * size] for k in range(sides) for one, size in zip(groups, sizes, strict=True)]
    return backend.xp.concat(parts, axis=-1)


def _groups(shifts: Float[Array, "shifts"], rows: Rows, dtype: str) -> list[Array]:
    """Shifts whose factors are in memory together; the last of all may overwrite K. A device stores their triangle only."""
    one = prod(rows.stack) * rows.width**2 * np.dtype(dtype).itemsize / (1 if rows.backend.on_host else 2)
    fit = max(1, int(0.8 * rows.backend.free_memory() / one))
    return [shifts[i : i + fit] for i in range(0, shifts.size, fit)]


def _norm(K: Gram, backend: Backend) -> float:
    """At least the Frobenius norm, and at most √2 of it, also when only one triangle is stored; of a stack the largest."""
    if on_host(K):
        nrm2 = get_blas_funcs("nrm2", (K,))
        return float(np.sqrt(2) * nrm2(K.ravel(order="K")))
    return Panels.of(K).norm(backend)


def _require_digits(shifts: Float[Array, "shifts"], norm: float, dtype: str) -> None:
    if not np.isfinite(norm):
        raise OverflowError
    if float(np.min(shifts)) < SMALLEST_SHIFT[dtype] * norm:
        raise IllConditionedError


# ------------------------------------------------------------------------------------------------- preconditioners


def factors(K: Gram, shifts: Float[Array, "shifts"], backend: Backend, *, tridiagonal: bool, last: bool) -> Solver:
    """A function that applies (K + s_j)⁻¹ to columns, in the precision of K, given j for each; LinAlgError unless K + s is positive.

    A device takes columns of all shifts in turn only.
    """
    if not on_host(K):
        return Panels.of(K).cholesky(shifts, backend, overwrite=last)
    if tridiagonal:
        return tridiagonal_solver(K, shifts)
    solvers = [host_cholesky(K if last and s == shifts[-1] else K.copy(order="F"), s) for s in shifts]

    def solve(R: Array, which: Int[Array, "columns"]) -> Array:  # a factor is read once for all of its columns
        X = np.empty_like(R)
        for j in np.unique(which):
            X[:, which == j] = solvers[j](R[:, which == j])
        return X

    return solve


def host_cholesky(K: Float[Array, "m m"], shift: float) -> Callable[[Any], Any]:
    """A function that applies (K + s)⁻¹; K, whole or its upper triangle by columns, is overwritten."""
    K.flat[:: K.shape[0] + 1] += shift
    factor = cho_factor(_columns(K), lower=False, overwrite_a=True, check_finite=False)
    return lambda R: cho_solve(factor, R, check_finite=False)


def tridiagonal_solver(K: Float[Array, "m m"], shifts: Float[Array, "shifts"]) -> Solver:
    """Apply (K + s_j)⁻¹ to columns, given j for each; the symmetric positive semi-definite K is overwritten.

    One Householder reduction K = QTQᵀ (4m³/3 operations) serves all shifts: each then costs O(m) for T + s. LAPACK is
    quicker on the upper triangle.
    """
    m = K.shape[0]
    if m == 1:
        return lambda R, which: R / (K[0, 0] + shifts[which])
    Q, (ptsv,) = np.require(_columns(K), requirements=["F", "W"]), get_lapack_funcs(("ptsv",), (K,))
    diagonal, off, tau = tridiagonal_form(Q)

    def solve(R: Array, which: Int[Array, "columns"]) -> Array:
        columns = np.array(R, order="F", dtype=K.dtype)
        rotate(Q, tau, columns, back=False)
        for j in np.unique(which):
            *_, x, info = ptsv(diagonal + K.dtype.type(shifts[j]), off.copy(), columns[:, which == j])
            _require_success(info)
            columns[:, which == j] = x
        rotate(Q, tau, columns, back=True)
        return columns

    return solve


def _columns(K: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """K by columns, as LAPACK wants it: as it is, or the transpose of a symmetric matrix by rows."""
    return K if K.flags.f_contiguous else K.T


def _require_success(info: int) -> None:
    if info != 0:
        raise np.linalg.LinAlgError(
            f"the shifted matrix is not positive definite (LAPACK info {info}); use a larger penalty"
        )
