"""Landmarks: features of a Gaussian kernel at training rows, whose map of the inputs takes the moves of a network.

    φ(z) = √N L⁻¹(k(z, a_1) … k(z, a_N)),   LLᵀ = (k(a_i, a_j)),   k(z, z') = exp(−s²|R(z − z')|²/⟨|R(a_i − a_j)|²⟩),   R = I before the move

a_1 … a_N are training rows, so that φᵀφ/N is the kernel of Nyström: it stands where the rows lie. A network on the same inputs, the `guide`, says how R
moves: by its step or its maps, which multiply R as they multiply its W. Which s suits the moved R is told by leave-one-out with some of the
rows and landmarks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri  # pyright: ignore[reportAttributeAccessIssue]

from onestride._backend import map_tiles, namespace, on_host
from onestride._backend.lapack import times_triangle
from onestride._backend.threads import by_rows, together
from onestride._numerics import Array
from onestride.estimator._layer import Layer
from onestride.estimator._ridge import best_penalty, decompose

QUICK_ROWS, QUICK_NEURONS = 500, 256  # that scales are sought with
_SCALES = (0.25, 0.5, 1.0, 2.0)  # s
_ALPHAS = np.logspace(-9, 6, 16)
_ALIKE = 1e-8  # added to k(a, a) = 1: nearly equal landmarks are one


@dataclass(frozen=True)
class Landmarks(Layer):
    """φ(z), followed by the inputs when `skip`; W is R (d × d), the anchors (N × d) are the landmarks, b is empty."""

    scale: float = 1.0
    guide: Layer | None = None
    guide_alpha: float = 1.0

    @property
    def width(self) -> int:
        """N."""
        assert self.anchors is not None
        return self.anchors.shape[0]

    def leader(self, alpha: float) -> tuple[Layer, float]:
        """The guide and its penalty."""
        assert self.guide is not None
        return self.guide, self.guide_alpha

    def at_scale(self, scale: float) -> Landmarks:
        """The same with that s."""
        return replace(self, scale=scale)

    def first(self, count: int) -> Landmarks:
        """Of the first landmarks."""
        assert self.anchors is not None
        return replace(self, anchors=self.anchors[:count])

    def settled(self, Z: Array, Y: Array, w: Array, alpha: float) -> tuple[Landmarks, float]:
        """The same with the s, and a penalty, that leave-one-out chooses; the former penalty is of another s."""
        part, few = slice(None, None, -(-len(Z) // QUICK_ROWS)), self.first(QUICK_NEURONS)
        Z, Y, w = Z[part], Y[part], w[part]
        found = together(lambda s: best_penalty(decompose(few.at_scale(s).design(Z), Y, w), _ALPHAS), _SCALES)
        (alpha, _), scale = min(zip(found, _SCALES, strict=True), key=lambda one: one[0][1])
        return self.at_scale(scale), alpha

    @cached_property
    def _mapped(self) -> tuple[Any, Any, Any]:
        """sRᵀ/√⟨|R(a_i − a_j)|²⟩ (d × d), the landmarks under it (N × d) and √N L⁻ᵀ (N × N)."""
        A, R = np.asarray(self.anchors, np.float64), self.W.T.astype(np.float64)
        spread = np.sqrt(2 * np.square((A - A.mean(axis=0)) @ R).sum(axis=1).mean())
        R = R * (self.scale / spread if spread > 0 else 1.0)
        V = A @ R
        K = np.empty((len(V), len(V)))
        by_rows(lambda rows: _kernel(V[rows], V, out=K[rows]), len(V), QUICK_NEURONS)
        K.flat[:: len(K) + 1] = 1 + _ALIKE
        U, failed = dpotrf(K.T, overwrite_a=True)  # UᵀU; SciPy's as the next: two BLAS would wait for each other
        if failed:
            raise np.linalg.LinAlgError("the kernel at the landmarks has no Cholesky factor")
        mixing, _ = dtrtri(U, overwrite_c=True)
        mixing *= np.sqrt(len(K))
        return R, V, mixing

    def placed(self, put: Callable[[Array], Any]) -> Landmarks:
        """The same where `put` brings its arrays."""
        moved = replace(self, guide=None)
        vars(moved)["_mapped"] = tuple(put(part) for part in self._mapped)  # what was made on the host
        return moved

    def design(self, Z: Array) -> Array:
        """Features of standardised rows, n × (N + d), in the precision of Z and where it lives; made in double precision."""
        R, V, mixing = self._mapped
        if on_host(Z):
            features = np.empty((len(Z), self.width + self.skip * Z.shape[1]))
            hidden, features[:, self.width :] = features[:, : self.width], Z if self.skip else 0
            times_triangle(_kernel(Z @ R, V, out=hidden), mixing)
            return features.astype(Z.dtype, copy=False)
        hidden = _kernel(Z @ R, V) @ mixing
        return namespace(Z).concat([hidden, Z], axis=1) if self.skip else hidden

    def input_gradients(self, Z: Array, coefficients: Array) -> Iterator[Array]:
        """∇_z of each output in turn at every row, n × d."""
        R, V, mixing = self._mapped
        U = Z @ R
        K = _kernel(U, V)
        for c in coefficients.T:
            pull = 2 * K * (mixing @ c[: self.width])
            gradients = (pull @ V - pull.sum(axis=1)[:, None] * U) @ R.T
            yield gradients + c[self.width :] if self.skip else gradients


def _kernel(U: Any, V: Any, out: Array | None = None) -> Any:
    """exp(−|u − v|²), n × N: the exponent is a product, (2u, −|u|², −1)ᵀ(v, 1, |v|²)."""
    xp = namespace(U)
    squares_u, squares_v = (xp.sum(A * A, axis=1)[:, None] for A in (U, V))
    left = xp.concat([2 * U, -squares_u, xp.zeros_like(squares_u) - 1], axis=1)
    right = xp.concat([V, xp.ones_like(squares_v), squares_v], axis=1)
    if not on_host(U):
        exponent = left @ right.T
        return xp.exp(xp.where(exponent < 0, exponent, 0 * exponent))
    exponent = np.matmul(left, right.T, out=out)
    return map_tiles(_gaussian, exponent, out=exponent)


def _gaussian(exponent: Array, out: Array) -> Array:
    """At most 1, whatever rounding has made of u = v."""
    return np.exp(np.minimum(exponent, 0.0, out=out), out=out)


def draw_landmarks(Z: Array, count: int, skip: bool, generator: np.random.Generator) -> Landmarks:
    """Of at most `count` of the rows Z (n × d), without a guide yet."""
    rows = generator.permutation(len(Z))[:count]
    return Landmarks(np.eye(Z.shape[1], dtype=Z.dtype), np.empty(0, Z.dtype), "erf", skip, Z[rows])


def led(unit: Landmarks, guide: Layer, alpha: float, columns: int) -> Landmarks:
    """The landmarks on the leading columns, with the guide whose moves they take and its penalty."""
    assert unit.anchors is not None
    W, anchors = unit.W[:columns, :columns], unit.anchors[:, :columns]
    return replace(unit, W=W, anchors=anchors, guide=guide, guide_alpha=alpha)
