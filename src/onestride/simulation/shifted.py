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

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, get_blas_funcs, get_lapack_funcs

from onestride._backend import current, tiles
from onestride._numerics import Array

DIRECT_BELOW = 400  # smaller systems are solved in float64 at once: the factorisation is not what costs
CHOLESKY_UP_TO = 4  # shifts on the host; more of them share one tridiagonal form
# of |K|: below it, squaring B costs more than six digits (float32: two) and B itself must be decomposed
SMALLEST_SHIFT = {"float64": 1e-10, "float32": 1e-5}
TOLERANCE = 1e-12  # bound on the relative error of the solutions, or the rounding of a direct solution if larger
MAX_STEPS = 30
TRUSTED_STEPS = 6  # so many leave the residual of the recurrence within rounding of the true one
NEAR_BYTES = 2**19  # rows of B in the cache of one core
DEVICE_BLOCK = 1024

Solver = Callable[[Any], Any]


class IllConditionedError(Exception):
    """The Gram matrix has lost the digits that the smallest shift needs."""


@dataclass(frozen=True)
class Rows:
    """A tall matrix B (length × width), stored or made anew, tile by tile, each time it is read."""

    length: int
    width: int
    tile: Callable[[slice], Any]

    def __iter__(self) -> Iterator[tuple[slice, Any]]:
        for rows in tiles(self.length, self.width):
            yield rows, self.tile(rows)

    def __matmul__(self, V: Any) -> Any:
        out = current().empty(self.length, V.shape[1])
        for rows, tile in self:
            out[rows, :] = tile @ V
        return out

    def gram_apply(self, V: Any) -> tuple[Any, Any]:
        """BᵀBV and BV in one pass."""
        backend = current()
        image, out = backend.empty(self.length, V.shape[1]), backend.zeros(self.width, V.shape[1])
        gemm: Any = get_blas_funcs("gemm", (V,)) if backend.on_host else None
        for rows, tile in self:
            if gemm is None or not tile.flags.c_contiguous:
                part = tile @ V
                image[rows, :] = part
                out += tile.T @ part
                continue
            V = np.asfortranarray(V)
            size = max(1, NEAR_BYTES // (8 * self.width))
            for i in range(0, tile.shape[0], size):  # read from memory once, used twice
                near = tile[i : i + size].T
                part = gemm(1.0, near, V, trans_a=1)
                image[rows][i : i + size] = part
                out = gemm(1.0, near, part, beta=1.0, c=out, overwrite_c=1)
        return out, image

    def gram(self, dtype: str) -> Any:
        """BᵀB in `dtype`: its upper triangle by columns on the host, its lower block triangle on a device; else zeros."""
        backend = current()
        if backend.on_host:
            return self._host_gram(dtype)
        K = backend.zeros(self.width, self.width, dtype=dtype)
        for _, tile in self:
            T = backend.put(tile, dtype)
            for j in _blocks(self.width, 4 * DEVICE_BLOCK):
                backend.add_product(K[j.start :, j], T[:, j.start :].T, T[:, j])
        return K

    def _host_gram(self, dtype: str) -> Array:
        """By SciPy's BLAS, as everything here: NumPy's is another library, whose threads would wait beside ours."""
        K = np.zeros((self.width, self.width), dtype, order="F")
        syrk: Any = get_blas_funcs("syrk", (K,))
        for _, tile in self:
            with np.errstate(over="ignore", invalid="ignore"):  # the norm of K will tell
                T = np.ascontiguousarray(tile, dtype)
            K = syrk(1.0, T.T, beta=1.0, c=K, lower=0, overwrite_c=1)
        return K


def solve_shifted(rows: Rows, b: Any, shifts: Array) -> tuple[Any, Any]:
    """The x = (BᵀB + s)⁻¹b for every shift, as columns, and Bx."""
    backend = current()
    if backend.on_host and rows.width < DIRECT_BELOW:
        K = rows.gram(backend.dtype)
        _require_digits(shifts, _norm(K), backend.dtype)
        x = tridiagonal_solver(K, shifts)(np.repeat(b[:, None], shifts.size, axis=1))
        return x, rows @ x
    for dtype in ("float32", "float64") if backend.dtype == "float64" else ("float32",):
        solution = _factorise_and_refine(rows, b, shifts, dtype)
        if solution is not None:
            return solution
    raise IllConditionedError


def solve_gram(K: Any, b: Any, shifts: Array) -> Any:
    """The x = (K + s)⁻¹b for every shift, as columns, when there is only K, which is overwritten."""
    backend = current()
    _require_digits(shifts, _norm(K), backend.dtype)
    solver = tridiagonal_solver(K, shifts) if backend.on_host else factors(K, shifts, last=True)
    if solver is None:
        raise IllConditionedError
    return solver(b[:, None] + backend.zeros(b.shape[0], shifts.size))


def _factorise_and_refine(rows: Rows, b: Any, shifts: Array, dtype: str) -> tuple[Any, Any] | None:
    """Solve with factors of K in `dtype`, in as many groups of shifts as memory asks for; None if that fails."""
    backend, xp = current(), current().xp
    low = dtype != backend.dtype
    with backend.fast_products(low):
        K = rows.gram(dtype)
        norm = _norm(K)
        if not np.isfinite(norm) and low:
            return None  # float32 overflows first
        _require_digits(shifts, norm, backend.dtype)
        pieces = []
        for part in _groups(shifts, rows.width, dtype):
            solver = factors(K, part, last=part[-1] == shifts[-1])
            if solver is None:
                return None
            found = _refine(rows, b, part, solver, dtype, norm)
            if found is None:
                return None
            pieces.append(found)
            del solver
    x, image = zip(*pieces, strict=True)
    return xp.concat(x, axis=1), xp.concat(image, axis=1)


def _groups(shifts: Array, width: int, dtype: str) -> list[Array]:
    """Shifts whose factors are in memory together; the last of all may overwrite K."""
    if current().on_host and shifts.size > CHOLESKY_UP_TO:
        return [shifts]
    fit = max(1, int(0.8 * current().free_memory() / (width**2 * np.dtype(dtype).itemsize)))
    return [shifts[i : i + fit] for i in range(0, shifts.size, fit)]


def _norm(K: Any) -> float:
    """At least the Frobenius norm, and at most √2 of it, also when only one triangle is stored."""
    xp = current().xp
    if current().on_host:
        nrm2: Any = get_blas_funcs("nrm2", (K,))
        return float(np.sqrt(2) * nrm2(K.ravel(order="K")))
    return float(np.sqrt(2 * sum(float(xp.sum(K[i, :] * K[i, :])) for i in _blocks(K.shape[0]))))


def _require_digits(shifts: Array, norm: float, dtype: str) -> None:
    if not np.isfinite(norm):
        raise OverflowError
    if float(np.min(shifts)) < SMALLEST_SHIFT[dtype] * norm:
        raise IllConditionedError


# ------------------------------------------------------------------------------------------------- preconditioners


def factors(K: Any, shifts: Array, *, last: bool) -> Solver | None:
    """A function that applies (K + s_j)⁻¹ to column j, in the precision of K; None if K + s is not positive."""
    try:
        if not current().on_host:
            return _device_cholesky(K, shifts, last=last)
        if shifts.size > CHOLESKY_UP_TO:
            return tridiagonal_solver(K, shifts)
        solvers = [host_cholesky(K if last and s == shifts[-1] else K.copy(order="F"), s) for s in shifts]
    except Exception as error:  # each library has its own class for "not positive definite"
        if any(word in str(error).lower() for word in ("positive", "cholesky")):
            return None
        raise
    return lambda R: np.concatenate([solve(R[:, j : j + 1]) for j, solve in enumerate(solvers)], axis=1)


def host_cholesky(K: Array, shift: float) -> Solver:
    """A function that applies (K + s)⁻¹; K, whole or its upper triangle by columns, is overwritten."""
    K.flat[:: K.shape[0] + 1] += shift
    factor = cho_factor(_columns(K), lower=False, overwrite_a=True, check_finite=False)
    return lambda R: cho_solve(factor, R, check_finite=False)


def _device_cholesky(K: Any, shifts: Array, *, last: bool) -> Solver:
    """Blocked Cholesky factorisation of K + s for all shifts at once, made of matrix products.

    K + s = LLᵀ, block by block:  L_kk = chol(K_kk + s),  L_ik = K_ik L_kk⁻ᵀ,  K_ij −= L_ik L_jkᵀ.
    Diagonal blocks of the result hold L_kk⁻¹, so that solving is made of products too.
    """
    backend, xp, m = current(), current().xp, K.shape[0]
    if last and shifts.size == 1:
        L = K[None, :, :]  # nobody needs K any more
    else:
        L = backend.empty(shifts.size, m, m, dtype=_name(K.dtype))
        L[...] = K[None, :, :]
    s = backend.put(np.asarray(shifts, float), _name(K.dtype))[:, None, None]
    parts, failures = _blocks(m), []
    for index, k in enumerate(parts):
        identity = backend.eye(k.stop - k.start, _name(K.dtype))
        factor, failed = backend.cholesky(L[:, k, k] + s * identity)
        failures.append(failed)
        inverse = backend.solve_triangular(factor, identity)
        L[:, k, k] = inverse
        if k.stop < m:
            panel = L[:, k.stop :, k] @ _transpose(inverse)
            L[:, k.stop :, k] = panel
            for j in parts[index + 1 :]:
                below, block = slice(j.start - k.stop, None), slice(j.start - k.stop, j.stop - k.stop)
                backend.add_product(L[:, j.start :, j], panel[:, below, :], _transpose(panel[:, block, :]), -1.0)

    if not all(float(xp.max(failed)) == 0 for failed in failures):
        raise ValueError("not positive definite")

    def solve(R: Any) -> Any:
        X = backend.copy(R.T[:, :, None])
        for k in parts:  # L⁻¹
            X[:, k, :] = L[:, k, k] @ (X[:, k, :] - L[:, k, : k.start] @ X[:, : k.start, :])
        for k in reversed(parts):  # L⁻ᵀ
            rest = X[:, k, :] - _transpose(L[:, k.stop :, k]) @ X[:, k.stop :, :]
            X[:, k, :] = _transpose(L[:, k, k]) @ rest
        return X[:, :, 0].T

    return solve


def _transpose(stack: Any) -> Any:
    return current().xp.matrix_transpose(stack)


def tridiagonal_solver(K: Array, shifts: Array) -> Solver:
    """Apply (K + s_j)⁻¹ to column j; the symmetric positive semi-definite K is overwritten.

    One Householder reduction K = QTQᵀ (4m³/3 operations) serves all shifts: each then costs O(m) for T + s. LAPACK is
    quicker on the upper triangle, whose reflectors run from the last row to the first: we turn rows round to apply them.
    """
    m = K.shape[0]
    if m == 1:
        return lambda R: R / (K[0, 0] + shifts)
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
            *_, x, info = ptsv(diagonal + K.dtype.type(shift), off.copy(), columns[:, j])
            _require_success(info)
            columns[:, j] = x.ravel()
        rotate(columns, "N")
        return columns[::-1]

    return solve


def _columns(K: Array) -> Array:
    """K by columns, as LAPACK wants it: as it is, or the transpose of a symmetric matrix by rows."""
    return K if K.flags.f_contiguous else K.T


def _require_success(info: int) -> None:
    if info != 0:
        raise RuntimeError(f"the shifted matrix is not positive definite (LAPACK info {info}); use a larger penalty")


def _name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def _blocks(size: int, block: int = DEVICE_BLOCK) -> list[slice]:
    return [slice(i, min(i + block, size)) for i in range(0, size, block)]


# ------------------------------------------------------------------------------------------------------ refinement


def _refine(rows: Rows, b: Any, shifts: Array, solver: Solver, dtype: str, norm: float) -> tuple[Any, Any] | None:
    """Preconditioned conjugate gradients for all shifts side by side; None unless the residual becomes small.

    The bound |r|/(s|x|) on the relative error must fall below TOLERANCE, or below the ε|K|/s that rounding alone
    leaves in any solution. Bx is summed along the way. Each step adds at most rounding of that size to r; after more
    than TRUSTED_STEPS we compute it anew, and start again from it if it is not as small as it seemed.
    """
    backend, xp = current(), current().xp
    s = backend.put(np.asarray(shifts, float))
    goal = s * backend.put(np.maximum(TOLERANCE, backend.eps * norm / np.asarray(shifts)))
    x, image = backend.zeros(b.shape[0], shifts.size), backend.zeros(rows.length, shifts.size)
    r = x + b[:, None]
    for _ in range(2):
        d, before = backend.zeros(*x.shape), None
        for steps in range(1, MAX_STEPS + 1):
            size = _norms(r)  # unit columns: float32 has a narrow range
            z = backend.put(solver(backend.put(_ratio(r, size), dtype))) * size
            now = xp.sum(r * z, axis=0)
            d = z if before is None else z + _ratio(now, before) * d
            before = now
            applied, along = rows.gram_apply(d)
            q = applied + s * d
            step = _ratio(now, xp.sum(d * q, axis=0))
            x, r, image = x + step * d, r - step * q, image + step * along
            left = backend.get(_norms(r) / (goal * _norms(x)))
            if not np.isfinite(left).all():
                return None
            if left.max() <= 1 and steps <= TRUSTED_STEPS:
                return x, image
            if left.max() <= 1:
                break
        applied, image = rows.gram_apply(x)
        r = b[:, None] - applied - s * x
        if backend.get(_norms(r) / (goal * _norms(x))).max() <= 4:
            return x, image
    return None


def _norms(columns: Any) -> Any:
    xp = current().xp
    return xp.sqrt(xp.sum(columns * columns, axis=0))


def _ratio(a: Any, b: Any) -> Any:
    """a/b, and 0 where b is 0: a column that is solved exactly stays where it is."""
    xp = current().xp
    return a / xp.where(b == 0, xp.ones_like(b), b)
