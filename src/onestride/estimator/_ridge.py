"""Weighted ridge regression with an intercept: every penalty, and exact leave-one-out, from one eigendecomposition.

min over (c, c₀) of Σ_i w_i|y_i − c₀ − f_iᵀc|² + α|c|². With centred rows, K = Σ_i w_i f_i f_iᵀ = VEVᵀ,

    ĉ(α) = V(E + α)⁻¹Vᵀ Σ_i w_i f_i y_i,      left-out residual_i = residual_i/(1 − w_i h_i),
    h_i = 1/Σw + f_iᵀ(K + α)⁻¹f_i.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from onestride._numerics import Array


@dataclass(frozen=True)
class RidgePath:
    """The decomposition of one regression; primal for n ≥ p rows, dual for fewer.

    `rows` are f_iᵀV (primal, n × p) or the eigenvectors of √w FFᵀ√w (dual, n × n); `projected` is the target in the same
    basis; `lift` takes basis coordinates to coefficients.
    """

    feature_mean: Array
    target_mean: Array
    weights: Array
    centred: Array
    eigenvalues: Array
    rows: Array
    projected: Array
    lift: Array
    primal: bool

    def coefficients(self, alpha: float) -> Array:
        """ĉ(α), p × outputs."""
        return self.lift @ (self.projected / (self.eigenvalues + alpha)[:, None])

    def intercept(self, coefficients: Array) -> Array:
        """c₀ for features that are not centred."""
        return self.target_mean - self.feature_mean @ coefficients

    def left_out(self, alpha: float) -> Array:
        """Target minus the prediction of the regression without that row, n × outputs."""
        shrink = 1 / (self.eigenvalues + alpha)
        if self.primal:
            fitted = self.rows @ (self.projected * shrink[:, None])
            leverage = np.square(self.rows) @ shrink * self.weights
        else:
            fitted = self.rows @ (self.projected * (shrink * self.eigenvalues)[:, None])
            fitted /= np.sqrt(self.weights)[:, None]
            leverage = np.square(self.rows) @ (shrink * self.eigenvalues)
        leverage = leverage + self.weights / self.weights.sum()
        return (self.centred - fitted) / np.maximum(1 - leverage, 1e-12)[:, None]

    def left_out_error(self, alpha: float) -> float:
        """Weighted mean squared left-out residual, averaged over outputs."""
        return float(np.average(np.square(self.left_out(alpha)).mean(1), weights=self.weights))


def ridge_path(features: Array, targets: Array, weights: Array) -> RidgePath:
    """Decompose once; features n × p, targets n × outputs, weights n, all positive. Works in double precision."""
    features, targets = features.astype(np.float64), targets.astype(np.float64)
    mean, target_mean = np.average(features, axis=0, weights=weights), np.average(targets, axis=0, weights=weights)
    features -= mean
    centred = targets - target_mean
    root = np.sqrt(weights)[:, None]
    primal = features.shape[0] >= features.shape[1]
    weighted = features * root
    gram = weighted.T @ weighted if primal else weighted @ weighted.T
    eigenvalues, vectors = eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    if primal:
        rows, projected, lift = features @ vectors, vectors.T @ (weighted.T @ (root * centred)), vectors
    else:
        rows, projected, lift = vectors, vectors.T @ (root * centred), weighted.T @ vectors
    return RidgePath(mean, target_mean, weights, centred, eigenvalues, rows, projected, lift, primal)


def best_penalty(path: RidgePath, alphas: Array) -> tuple[float, float]:
    """The penalty with the smallest leave-one-out error, and that error."""
    errors = [path.left_out_error(alpha) for alpha in alphas]
    best = int(np.argmin(errors))
    return float(alphas[best]), errors[best]
