"""The directions that lead the weights of the neurons after several steps (`schedule` says what is made of them)."""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onestride._numerics import Array, Float
from onestride.theory.profile.one_neuron import Path

_SECOND = 0.05  # weights along a second direction beyond which first order is off by more than 0.2 %
_NEGLIGIBLE = 1e-6  # squared weights along a further direction below which it is left out


class Frame(NamedTuple):
    """Orthonormal directions, on those of the path: E (learned, one or two rows), e (zero if β⋆ is learned), further; the teacher's are
    Eᵀz + root ζ, ζ along e.
    """

    E: Float[Array, "m dirs"]
    e: Float[Array, "k dirs"]
    root: Float[Array, "k k"]
    further: Float[Array, "f dirs"]


def frame(path: Path, d: int) -> Frame:
    """The learned directions, the unlearned part of the teacher, and a further one."""
    end = path.end
    L = np.sqrt(end.weight)[:, None] * end.L
    k = end.taught
    star = np.eye(L.shape[1])[:k]
    values, V = np.linalg.svd(np.vstack([L, changed(path, d) @ star]))[1:]
    E = _forward(path, V[: 2 if values[1] > _SECOND else 1])
    left, turn = np.linalg.eigh(np.eye(k) - E[:, :k].T @ E[:, :k])
    length = np.sqrt(np.maximum(left, 0.0))
    e = turn.T @ (star - E[:, :k].T @ E) * np.where(length > 1e-5, 1 / np.maximum(length, 1e-5), 0.0)[:, None]
    known = np.vstack([E, e])
    values, V = np.linalg.svd(L - (L @ known.T) @ known, full_matrices=False)[1:]
    return Frame(E, e, turn * length, V[: 1 if values[0] ** 2 > _NEGLIGIBLE else 0])


def learned(path: Path) -> Float[Array, "m dirs"]:
    """The directions along which neurons have weights on average: E without what M has made of their first weights along the teacher."""
    values, V = np.linalg.svd(np.sqrt(path.end.weight)[:, None] * path.end.L)[1:]
    return _forward(path, V[: 1 + int((values[1:2] > _SECOND).sum())])  # neurons that are all alike have one


def _forward(path: Path, E: Float[Array, "m dirs"]) -> Float[Array, "m dirs"]:
    """With the sign that readouts have along each."""
    sign = np.sign((path.end.weight * path.end.A) @ (path.end.L @ E.T))
    return E * np.where(sign == 0, 1, sign)[:, None]


def to_first_order(path: Path, resolved: int) -> float:
    """Weights off so many leading directions, root mean square over the neurons."""
    values = np.linalg.svd(np.sqrt(path.end.weight)[:, None] * path.end.L, compute_uv=False)
    return float(np.sqrt(np.sum(values[resolved:] ** 2)))


def changed(path: Path, d: int) -> Float[Array, "k k"]:
    """The root of E_A|s sᵀ − b²|/d."""
    values, vectors = np.linalg.eigh(path.end.stretched)
    mean = np.einsum("a,aij,aj,akj->ik", path.end.weight / d, vectors, np.abs(values), vectors)
    values, vectors = np.linalg.eigh(mean)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
