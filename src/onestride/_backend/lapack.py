"""LAPACK's tridiagonal form, called without the lock of Python, so that several threads have one each under way.

SciPy's own functions for it keep that lock. The same routines are in `scipy.linalg.cython_lapack`, where a capsule has the address of each.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import cython_lapack

_BLOCK = 64  # LAPACK takes fewer columns at a time


@lru_cache
def _routine(name: str) -> Any:
    api, capsule = ctypes.pythonapi, getattr(cython_lapack, "__pyx_capi__")[name]  # noqa: B009
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    signature: bytes = api.PyCapsule_GetName(capsule)
    assert signature.endswith(b"int *, int *)"), f"{name} is {signature.decode()}"
    count = signature.count(b",") + 1
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)(api.PyCapsule_GetPointer(capsule, signature))


def _call(name: str, like: np.ndarray, *arguments: bytes | int | np.ndarray) -> None:
    """The routine for the precision of `like`; the last of its arguments is whether it succeeded."""
    info = ctypes.c_int(0)
    given: list[Any] = []
    for one in arguments:
        plain = ctypes.byref(ctypes.c_int(one)) if isinstance(one, int) else one
        given.append(plain.ctypes.data if isinstance(plain, np.ndarray) else plain)
    _routine(("s" if like.dtype == np.float32 else "d") + name)(*given, ctypes.byref(info))
    if info.value != 0:
        raise np.linalg.LinAlgError(f"{name} of LAPACK ended with info {info.value}")


def tridiagonal_form(K: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """K = QTQᵀ of a symmetric matrix by columns, of which the upper triangle is read and overwritten by Q: diagonal of T, what is beside it, and factors of Q."""
    m = K.shape[0]
    assert K.flags.f_contiguous
    diagonal, off, tau = (np.empty(size, K.dtype) for size in (m, m - 1, m - 1))
    work = np.empty(_BLOCK * m, K.dtype)
    _call("sytrd", K, b"U", m, K, m, diagonal, off, tau, work, work.size)
    return diagonal, off, tau


def rotate(Q: np.ndarray, tau: np.ndarray, columns: np.ndarray, *, back: bool) -> None:
    """Put QᵀX, or QX for the way back, in the place of X, in Fortran's order."""
    m, count = columns.shape
    assert columns.flags.f_contiguous
    assert columns.dtype == Q.dtype
    work = np.empty(_BLOCK * (count + _BLOCK + 1), Q.dtype)
    _call("ormtr", Q, b"L", b"U", b"N" if back else b"T", m, count, Q, m, tau, columns, m, work, work.size)
