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
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, get_blas_funcs, get_lapack_funcs

from onestride._backend import HOST, Backend, DeviceArray, on_host
from onestride._numerics import Array, Float
from onestride.simulation.rows import Rows, blocks

STACK_BLOCK = 128  # at least, of the Cholesky factorisations of a stack, whose products are many already
DIRECT_BELOW = 400  # smaller systems are solved in float64 at once: the factorisation is not what costs
CHOLESKY_UP_TO = 4  # shifts on the host; more of them share one tridiagonal form
# of |K|: below it, squaring B costs more than six digits (float32: two) and B itself must be decomposed
SMALLEST_SHIFT = {"float64": 1e-10, "float32": 1e-5}
TOLERANCE = 1e-12  # bound on the relative error of the solutions, or the rounding of a direct solution if larger
SLOPE_TOLERANCE = 1e-6  # of what only weighs numbers of mean 0, or is averaged over (`slopes`, `luck`)
MAX_STEPS = 30
TRUSTED_STEPS = 6  # so many leave the residual of the recurrence within rounding of the true one

Solver = Callable[[Any], Any]


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
    return solve_twice(rows, b[:, None], shifts)[:2]


def solve_twice(
    rows: Rows, b: DeviceArray, shifts: Float[Array, "shifts"], *, exact: int = 2
) -> tuple[DeviceArray, DeviceArray, DeviceArray]:
    """The x = (BᵀB + s)⁻¹b of each column of b for every shift, Bx, and (BᵀB + s)⁻¹x of the first column of b.

    Columns of x: all shifts of the first b, then of the next. The last is −∂x/∂s. It, and columns of b beyond the first
    `exact`, are refined no further than SLOPE_TOLERANCE.
    """
    backend = rows.backend
    if not way(rows.width, shifts.size, backend).refined:
        x, again = solve_gram_twice(rows.gram(backend.dtype), b, shifts, backend)
        return x, rows @ x, again
    for dtype in ("float32", "float64") if backend.dtype == "float64" else ("float32",):
        solution = _factorise_and_refine(rows, b, shifts, dtype, exact)
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
    x = solver(_columns_for(b, shifts.size, backend))
    return x, solver(x[..., : shifts.size])


def _columns_for(b: DeviceArray, shifts: int, backend: Backend) -> DeviceArray:
    """Every column of b once for each shift."""
    zeros = backend.zeros(b.shape[-2], shifts)
    return backend.xp.concat([b[..., k : k + 1] + zeros for k in range(b.shape[-1])], axis=-1)


def _factorise_and_refine(
    rows: Rows, b: DeviceArray, shifts: Float[Array, "shifts"], dtype: str, exact: int
) -> tuple[DeviceArray, DeviceArray, DeviceArray] | None:
    """Solve with factors of K in `dtype`, in as many groups of shifts as memory asks for.

    None if K + s is not positive definite in that precision, or the refinement does not get there.
    """
    backend, exact = rows.backend, min(exact, b.shape[-1])
    low = dtype != backend.dtype
    with backend.fast_products(low):
        K = rows.gram(dtype)
        norm = _norm(K, backend)
        if not np.isfinite(norm) and low:
            return None  # float32 overflows first
        _require_digits(shifts, norm, backend.dtype)
        pieces: list[tuple[DeviceArray, DeviceArray, DeviceArray]] = []
        tridiagonal = way(rows.width, shifts.size, backend).tridiagonal
        for part in [shifts] if tridiagonal else _groups(shifts, rows, dtype):
            try:
                solver = factors(K, part, backend, tridiagonal=tridiagonal, last=part[-1] == shifts[-1])
                found = _refine(rows, _columns_for(b[..., :exact], part.size, backend), part, solver, dtype, norm)
                rough = found and _refine(
                    rows, _beside(found[0], b, exact, part.size, backend), part, solver, dtype, norm, SLOPE_TOLERANCE
                )
            except np.linalg.LinAlgError:  # every library's word for "not positive definite"
                return None
            if not found or not rough:
                return None
            x, image = (
                backend.xp.concat([one, more[..., part.size :]], axis=-1)
                for one, more in zip(found, rough, strict=True)
            )
            pieces.append((x, image, rough[0][..., : part.size]))
            del solver
    x, image, again = zip(*pieces, strict=True)
    sizes = [one.shape[-1] for one in again]
    return _sorted(x, sizes, backend), _sorted(image, sizes, backend), backend.xp.concat(again, axis=-1)


def _beside(x: DeviceArray, b: DeviceArray, exact: int, shifts: int, backend: Backend) -> DeviceArray:
    """The solutions of the first column of b, and the columns beyond the exact ones for every shift."""
    if b.shape[-1] <= exact:
        return x[..., :shifts]
    return backend.xp.concat([x[..., :shifts], _columns_for(b[..., exact:], shifts, backend)], axis=-1)


def _sorted(groups: Sequence[DeviceArray], sizes: Sequence[int], backend: Backend) -> DeviceArray:
    """The columns of groups of shifts in the order of `solve_twice`: the right-hand sides one after the other."""
    if len(groups) == 1:
        return groups[0]
    sides = groups[0].shape[-1] // sizes[0]
    parts = [one[..., k * size : (k + 1) * size] for k in range(sides) for one, size in zip(groups, sizes, strict=True)]
    return backend.xp.concat(parts, axis=-1)


def _groups(shifts: Float[Array, "shifts"], rows: Rows, dtype: str) -> list[Array]:
    """Shifts whose factors are in memory together; the last of all may overwrite K."""
    one = prod(rows.stack) * rows.width**2 * np.dtype(dtype).itemsize
    fit = max(1, int(0.8 * rows.backend.free_memory() / one))
    return [shifts[i : i + fit] for i in range(0, shifts.size, fit)]


def _norm(K: DeviceArray, backend: Backend) -> float:
    """At least the Frobenius norm, and at most √2 of it, also when only one triangle is stored; of a stack the largest."""
    if on_host(K):
        nrm2 = get_blas_funcs("nrm2", (K,))
        return float(np.sqrt(2) * nrm2(K.ravel(order="K")))
    sums = [backend.xp.sum(K[..., i, :] * K[..., i, :], axis=(-2, -1)) for i in blocks(K.shape[-1])]
    return float(np.sqrt(2 * backend.get(sum(sums[1:], start=sums[0])).max()))


def _require_digits(shifts: Float[Array, "shifts"], norm: float, dtype: str) -> None:
    if not np.isfinite(norm):
        raise OverflowError
    if float(np.min(shifts)) < SMALLEST_SHIFT[dtype] * norm:
        raise IllConditionedError


# ------------------------------------------------------------------------------------------------- preconditioners


def factors(
    K: DeviceArray, shifts: Float[Array, "shifts"], backend: Backend, *, tridiagonal: bool, last: bool
) -> Solver:
    """A function that applies (K + s_j)⁻¹ to column j, in the precision of K; LinAlgError unless K + s is positive.

    Of p shifts column j + p takes the first again, and so on.
    """
    if not on_host(K):
        return _device_cholesky(K, shifts, backend, last=last)
    if tridiagonal:
        return tridiagonal_solver(K, shifts)
    solvers = [host_cholesky(K if last and s == shifts[-1] else K.copy(order="F"), s) for s in shifts]

    def solve(R: Array) -> Array:  # one after the other set of columns: a factor is read once for all of them
        X = np.empty_like(R)
        for j, one in enumerate(solvers):
            X[:, j :: len(solvers)] = one(R[:, j :: len(solvers)])
        return X

    return solve


def host_cholesky(K: Float[Array, "m m"], shift: float) -> Solver:
    """A function that applies (K + s)⁻¹; K, whole or its upper triangle by columns, is overwritten."""
    K.flat[:: K.shape[0] + 1] += shift
    factor = cho_factor(_columns(K), lower=False, overwrite_a=True, check_finite=False)
    return lambda R: cho_solve(factor, R, check_finite=False)


def _device_cholesky(K: DeviceArray, shifts: Float[Array, "shifts"], backend: Backend, *, last: bool) -> Solver:
    """Blocked Cholesky factorisation of K + s for all shifts, and all K of a stack, at once, made of matrix products.

    K + s = LLᵀ, block by block:  L_kk = chol(K_kk + s),  L_ik = K_ik L_kk⁻ᵀ,  K_ij −= L_ik L_jkᵀ.
    Diagonal blocks of the result hold L_kk⁻¹, so that solving is made of products too.
    """
    xp, m, turned = backend.xp, K.shape[-1], backend.xp.matrix_transpose
    stack, p = prod(K.shape[:-2]), shifts.size
    L = xp.reshape(K, (stack, 1, m, m))
    if not last or p > 1:  # else nobody needs K any more
        L = backend.empty(stack, p, m, m, dtype=_name(K.dtype))
        L[...] = xp.reshape(K, (stack, 1, m, m))
    L = xp.reshape(L, (stack * p, m, m))
    s = backend.put(np.tile(np.asarray(shifts, float), stack), _name(K.dtype))[:, None, None]
    parts = blocks(m, max(STACK_BLOCK, m // 8) if stack > 1 else None)
    failures: list[DeviceArray] = []
    for index, k in enumerate(parts):
        identity = backend.eye(k.stop - k.start, _name(K.dtype))
        factor, failed = backend.cholesky(L[:, k, k] + s * identity)
        failures.append(failed)
        inverse = backend.solve_triangular(factor, identity)
        L[:, k, k] = inverse
        if k.stop < m:
            panel = L[:, k.stop :, k] @ turned(inverse)
            L[:, k.stop :, k] = panel
            for j in parts[index + 1 :]:
                below, block = slice(j.start - k.stop, None), slice(j.start - k.stop, j.stop - k.stop)
                backend.add_product(L[:, j.start :, j], panel[:, below, :], turned(panel[:, block, :]), -1.0)

    if not all(float(xp.max(failed)) == 0 for failed in failures):
        raise np.linalg.LinAlgError("not positive definite")

    def solve(R: DeviceArray) -> DeviceArray:
        apart = xp.reshape(R, (stack, m, -1, p))
        X = backend.copy(xp.reshape(xp.permute_dims(apart, (0, 3, 1, 2)), (stack * p, m, -1)))
        for k in parts:  # L⁻¹
            X[:, k, :] = L[:, k, k] @ (X[:, k, :] - L[:, k, : k.start] @ X[:, : k.start, :])
        for k in reversed(parts):  # L⁻ᵀ
            rest = X[:, k, :] - turned(L[:, k.stop :, k]) @ X[:, k.stop :, :]
            X[:, k, :] = turned(L[:, k, k]) @ rest
        return xp.reshape(xp.permute_dims(xp.reshape(X, (stack, p, m, -1)), (0, 2, 3, 1)), R.shape)

    return solve


def tridiagonal_solver(K: Float[Array, "m m"], shifts: Float[Array, "shifts"]) -> Solver:
    """Apply (K + s_j)⁻¹ to column j; the symmetric positive semi-definite K is overwritten.

    One Householder reduction K = QTQᵀ (4m³/3 operations) serves all shifts: each then costs O(m) for T + s. LAPACK is
    quicker on the upper triangle, whose reflectors run from the last row to the first: we turn rows round to apply them.
    """
    m = K.shape[0]
    if m == 1:
        return lambda R: R / (K[0, 0] + np.tile(shifts, R.shape[1] // shifts.size))
    names = ("sytrd", "sytrd_lwork", "ormqr", "ptsv")
    sytrd, sytrd_lwork, ormqr, ptsv = get_lapack_funcs(names, (K,))
    work, _ = sytrd_lwork(m, lower=0)
    reflectors, diagonal, off, tau, info = sytrd(_columns(K), lower=0, lwork=int(work), overwrite_a=1)
    _require_success(info)
    reflectors = np.asfortranarray(reflectors[-2::-1, :0:-1])
    diagonal, off, tau = diagonal[::-1], off[::-1], tau[::-1].copy()

    def rotate(columns: Array, trans: str) -> None:
        size = ormqr("L", trans, reflectors, tau, columns[1:], -1)[1][0]
        columns[1:], _, info = ormqr("L", trans, reflectors, tau, columns[1:], int(size))
        _require_success(info)

    def solve(R: Array) -> Array:
        columns = np.array(R[::-1], order="F", dtype=K.dtype)
        rotate(columns, "T")
        for j, shift in enumerate(shifts):
            *_, x, info = ptsv(diagonal + K.dtype.type(shift), off.copy(), columns[:, j :: len(shifts)])
            _require_success(info)
            columns[:, j :: len(shifts)] = x
        rotate(columns, "N")
        return columns[::-1]

    return solve


def _columns(K: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """K by columns, as LAPACK wants it: as it is, or the transpose of a symmetric matrix by rows."""
    return K if K.flags.f_contiguous else K.T


def _require_success(info: int) -> None:
    if info != 0:
        raise np.linalg.LinAlgError(
            f"the shifted matrix is not positive definite (LAPACK info {info}); use a larger penalty"
        )


def _name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


# ------------------------------------------------------------------------------------------------------ refinement


def _refine(
    rows: Rows,
    right: DeviceArray,
    shifts: Float[Array, "shifts"],
    solver: Solver,
    dtype: str,
    norm: float,
    tolerance: float = TOLERANCE,
) -> tuple[DeviceArray, DeviceArray] | None:
    """Preconditioned conjugate gradients for all columns side by side; None unless the residual becomes small.

    The bound |r|/(s|x|) on the relative error must fall below `tolerance`, or below the ε|K|/s that rounding alone
    leaves in any solution. Bx is summed along the way. Each step adds at most rounding of that size to r; after more
    than TRUSTED_STEPS we compute it anew, and start again from it if it is not as small as it seemed.
    """
    backend, xp = rows.backend, rows.backend.xp
    shifts = np.tile(shifts, right.shape[-1] // shifts.size)
    s = backend.put(np.asarray(shifts, float))
    goal = s * backend.put(np.maximum(tolerance, backend.eps * norm / np.asarray(shifts)))
    x, image = backend.zeros(*right.shape), backend.zeros(*rows.stack, rows.length, shifts.size)
    r = x + right
    for _ in range(2):
        d, before = backend.zeros(*x.shape), None
        for steps in range(1, MAX_STEPS + 1):
            size = _norms(r, xp)  # unit columns: float32 has a narrow range
            z = backend.put(solver(backend.put(_ratio(r, size, xp), dtype))) * size
            now = xp.sum(r * z, axis=-2, keepdims=True)
            d = z if before is None else z + _ratio(now, before, xp) * d
            before = now
            applied, along = rows.gram_apply(d)
            q = applied + s * d
            step = _ratio(now, xp.sum(d * q, axis=-2, keepdims=True), xp)
            x, r, image = x + step * d, r - step * q, image + step * along
            left = backend.get(_norms(r, xp) / (goal * _norms(x, xp)))
            if not np.isfinite(left).all():
                return None
            if left.max() <= 1 and steps <= TRUSTED_STEPS:
                return x, image
            if left.max() <= 1:
                break
        applied, image = rows.gram_apply(x)
        r = right - applied - s * x
        if backend.get(_norms(r, xp) / (goal * _norms(x, xp))).max() <= 4:
            return x, image
    return None


def _norms(columns: DeviceArray, xp: ModuleType) -> DeviceArray:
    return xp.sqrt(xp.sum(columns * columns, axis=-2, keepdims=True))


def _ratio(a: DeviceArray, b: DeviceArray, xp: ModuleType) -> DeviceArray:
    """a/b, and 0 where b is 0: a column that is solved exactly stays where it is."""
    return a / xp.where(b == 0, xp.ones_like(b), b)
