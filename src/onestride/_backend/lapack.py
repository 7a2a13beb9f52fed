"""BLAS's Gram matrices and triangular products and LAPACK's tridiagonal form, called without the lock of Python, so that several threads have one each under way.

SciPy's own functions for them keep that lock. The same routines are in `scipy.linalg.cython_lapack` and `cython_blas`, where a capsule has the
address of each.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

_BLOCK = 64  # LAPACK takes fewer columns at a time


@lru_cache
def _routine(name: str) -> Any:
    api, tables = ctypes.pythonapi, [getattr(one, "__pyx_capi__") for one in (cython_lapack, cython_blas)]  # noqa: B009
    capsule = next(table[name] for table in tables if name in table)
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    signature: bytes = api.PyCapsule_GetName(capsule)
    assert signature.startswith(b"void (char *"), f"{name} is {signature.decode()}"
    assert signature.endswith(b"int *)"), f"{name} is {signature.decode()}"
    count = signature.count(b",") + 1
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)(api.PyCapsule_GetPointer(capsule, signature))


def _call(name: str, like: np.ndarray, *arguments: Any) -> None:
    """The routine for the precision of `like`, in which numbers that are not whole are given, too."""
    single = like.dtype == np.float32
    real = ctypes.c_float if single else ctypes.c_double

    def given(one: Any) -> Any:
        if isinstance(one, np.ndarray):
            return one.ctypes.data
        if isinstance(one, int | float):
            return ctypes.byref(ctypes.c_int(one) if isinstance(one, int) else real(one))
        return one

    _routine(("s" if single else "d") + name)(*map(given, arguments))


def _factorise(name: str, like: np.ndarray, *arguments: Any) -> None:
    """A routine of LAPACK, the last of whose arguments is whether it succeeded."""
    info = ctypes.c_int(0)
    _call(name, like, *arguments, ctypes.byref(info))
    if info.value != 0:
        raise np.linalg.LinAlgError(f"{name} of LAPACK ended with info {info.value}")


def add_gram(B: np.ndarray, K: np.ndarray) -> None:
    """Add BᵀB, of B by rows, to the upper triangle of K by columns."""
    length, width = B.shape
    assert B.flags.c_contiguous
    assert K.flags.f_contiguous
    assert B.dtype == K.dtype
    assert K.shape == (width, width)
    _call("syrk", K, b"U", b"N", width, length, 1.0, B, width, 1.0, K, width)


def times_triangle(B: np.ndarray, U: np.ndarray) -> None:
    """Put BU in the place of B, by rows that may be those of a wider matrix; U is an upper triangle by columns."""
    length, width = B.shape
    assert B.strides[1] == B.itemsize
    assert U.flags.f_contiguous
    assert U.shape == (width, width)
    assert B.dtype == U.dtype
    _call("trmm", B, b"L", b"U", b"T", b"N", width, length, 1.0, U, width, B, B.strides[0] // B.itemsize)


def apply_gram(B: np.ndarray, V: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """BᵀBV and BV, of B by rows in float64, so many of them at a time: those are read from memory once and used twice."""
    (length, width), count = B.shape, V.shape[1]
    right, out, image = np.asfortranarray(V, float), np.zeros((width, count), order="F"), np.empty((length, count))
    assert B.flags.c_contiguous
    assert B.dtype == image.dtype
    assert right.shape[0] == width
    gemm, row = _routine("dgemm"), B.strides[0]
    w, k, one, zero = *_at(ctypes.c_int, width, count), *_at(ctypes.c_double, 1.0, 0.0)
    at, found, given, sums = (a.ctypes.data for a in (B, image, right, out))
    for start in range(0, length, rows):  # hundreds of calls: what they share is prepared
        (some,) = _at(ctypes.c_int, min(rows, length - start))
        block, part = at + start * row, found + start * image.strides[0]
        gemm(b"T", b"N", k, some, w, one, given, w, block, w, zero, part, k)
        gemm(b"N", b"T", w, k, some, one, block, w, part, k, one, sums, w)
    return out, image


def _at(kind: Any, *values: float) -> list[Any]:
    """Addresses of numbers, as Fortran wants them."""
    return [ctypes.byref(kind(value)) for value in values]


def tridiagonal_form(K: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """K = QTQᵀ of a symmetric matrix by columns, of which the upper triangle is read and overwritten by Q: diagonal of T, what is beside it, and factors of Q."""
    m = K.shape[0]
    assert K.flags.f_contiguous
    diagonal, off, tau = (np.empty(size, K.dtype) for size in (m, m - 1, m - 1))
    work = np.empty(_BLOCK * m, K.dtype)
    _factorise("sytrd", K, b"U", m, K, m, diagonal, off, tau, work, work.size)
    return diagonal, off, tau


def rotate(Q: np.ndarray, tau: np.ndarray, columns: np.ndarray, *, back: bool) -> None:
    """Put QᵀX, or QX for the way back, in the place of X, in Fortran's order."""
    m, count = columns.shape
    assert columns.flags.f_contiguous
    assert columns.dtype == Q.dtype
    work = np.empty(_BLOCK * (count + _BLOCK + 1), Q.dtype)
    _factorise("ormtr", Q, b"L", b"U", b"N" if back else b"T", m, count, Q, m, tau, columns, m, work, work.size)
