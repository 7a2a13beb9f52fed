"""Weighted ridge regression with an intercept: every penalty, and exact leave-one-out, from one eigendecomposition.

min over (c, c₀) of Σ_i w_i|y_i − c₀ − f_iᵀc|² + α|c|². With centred rows, K = Σ_i w_i f_i f_iᵀ = VEVᵀ,

    ĉ(α) = V(E + α)⁻¹Vᵀ Σ_i w_i f_i y_i,      left-out residual_i = residual_i/(1 − w_i h_i),
    h_i = 1/Σw + f_iᵀ(K + α)⁻¹f_i.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from onestride._numerics import Array


class Readout(NamedTuple):
    """ĉ (features × outputs) and c₀, for features that are not centred."""

    coefficients: Array
    intercept: Array


@dataclass(frozen=True)
class Decomposition:
    """The decomposition of one regression; primal (of K) for n ≥ p rows, dual (of √w FFᵀ√w) for fewer.

    `features` are centred rows (n × p), `vectors` the eigenvectors, `projected` the target in their basis.
    """

    feature_mean: Array
    target_mean: Array
    weights: Array
    features: Array
    centred: Array
    eigenvalues: Array
    vectors: Array
    projected: Array

    @property
    def primal(self) -> bool:
        """Whether `vectors` are those of K (p × p)."""
        return self.vectors.shape[0] == self.features.shape[1]

    def readout(self, alpha: float) -> Readout:
        """The regression at one penalty."""
        solved = self.vectors @ (self.projected / (self.eigenvalues + alpha)[:, None])
        c = solved if self.primal else self.features.T @ (np.sqrt(self.weights)[:, None] * solved)
        return Readout(c, self.target_mean - self.feature_mean @ c)

    def left_out(self, alphas: Array) -> Array:
        """Target minus the prediction of the regression without that row, penalties × n × outputs.

        primal   residual y − fᵀĉ,                          1 − w_i h_i = 1 − w_i/Σw − w_i Σ_k (f_iᵀv_k)²/(e_k + α)
        dual     residual √w⁻¹ Σ_k u_k α/(e_k + α) u_kᵀ√w y,  1 − w_i h_i = Σ_k u_ik² α/(e_k + α) − w_i/Σw
        """
        alphas, root = np.asarray(alphas, float), np.sqrt(self.weights)[:, None]
        share = self.weights[:, None] / self.weights.sum()
        shrink = 1 / (self.eigenvalues[:, None] + alphas)
        if self.primal:
            rows = root * (self.features @ self.vectors)
            keep = 1 - share - np.square(rows) @ shrink
            residuals = np.stack([root * self.centred - rows @ (self.projected * s[:, None]) for s in shrink.T])
        else:
            shrink *= alphas
            keep = np.square(self.vectors) @ shrink - share
            residuals = np.stack([self.vectors @ (self.projected * s[:, None]) for s in shrink.T])
        return residuals / root / np.maximum(keep.T, 1e-12)[:, :, None]


def decompose(features: Array, targets: Array, weights: Array) -> Decomposition:
    """Decompose once; features n × p, targets n × outputs, weights n, all positive. Works in double precision."""
    features, mean, centred, target_mean = _centred(features, targets, weights)
    _, gram, right = _normal_equations(features, centred, weights)
    eigenvalues, vectors = eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
    eigenvalues, projected = np.maximum(eigenvalues, 0.0), vectors.T @ right
    return Decomposition(mean, target_mean, weights, features, centred, eigenvalues, vectors, projected)


def ridge_solutions(features: Array, targets: Array, weights: Array, alphas: Array) -> list[Readout]:
    """The readout at a few penalties, one Cholesky factor each: quicker than `decompose` and without leave-one-out."""
    features, mean, centred, target_mean = _centred(features, targets, weights)
    rows, gram, right = _normal_equations(features, centred, weights)
    diagonal = gram.diagonal().copy()
    smallest = 1e-14 * diagonal.sum()  # below this the factor is rounding
    solutions = []
    for alpha in alphas:
        np.fill_diagonal(gram, diagonal + max(float(alpha), smallest))
        solved = cho_solve(cho_factor(gram, check_finite=False), right, check_finite=False)
        c = solved if len(solved) == features.shape[1] else rows.T @ solved
        solutions.append(Readout(c, target_mean - mean @ c))
    return solutions


def best_penalty(path: Decomposition, alphas: Array) -> tuple[float, float]:
    """The penalty with the smallest leave-one-out mean squared error (over rows by weight, and outputs), and that error."""
    errors = np.square(path.left_out(alphas)).mean(2) @ (path.weights / path.weights.sum())
    best = int(np.argmin(errors))
    return float(alphas[best]), float(errors[best])


def _centred(features: Array, targets: Array, weights: Array) -> tuple[Array, Array, Array, Array]:
    """Centred features, their mean, centred targets, their mean; double precision copies."""
    share = weights / weights.sum()
    features, targets = features.astype(np.float64), targets.astype(np.float64)
    mean, target_mean = share @ features, share @ targets
    features -= mean
    return features, mean, targets - target_mean, target_mean


def _normal_equations(features: Array, targets: Array, weights: Array) -> tuple[Array, Array, Array]:
    """√w F; K (p × p) for n ≥ p rows, √w FFᵀ√w (n × n) for fewer; and the right-hand side. From centred rows."""
    root = np.sqrt(weights)[:, None]
    rows, targets = features * root, root * targets
    if features.shape[0] >= features.shape[1]:
        return rows, rows.T @ rows, rows.T @ targets
    return rows, rows @ rows.T, targets
