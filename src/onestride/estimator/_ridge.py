"""Weighted ridge regression with an intercept: every penalty, and exact leave-one-out, from one eigendecomposition.

min over (c, c₀) of Σ_i w_i|y_i − c₀ − f_iᵀc|² + α|c|². With centred rows, K = Σ_i w_i f_i f_iᵀ = VEVᵀ,

    ĉ(α) = V(E + α)⁻¹Vᵀ Σ_i w_i f_i y_i,      left-out residual_i = residual_i/(1 − w_i h_i),
    h_i = 1/Σw + f_iᵀ(K + α)⁻¹f_i.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve

from onestride._backend.threads import by_rows
from onestride._numerics import Array

_THREAD_FLOPS = 5 * 10**7  # of a product of matrices that a thread is worth


class Readout(NamedTuple):
    """ĉ (features × outputs) and c₀, for features that are not centred."""

    coefficients: Array
    intercept: Array


@dataclass(frozen=True)
class Decomposition:
    """The decomposition of one regression; primal (of K) for n ≥ p rows, dual (of √w FFᵀ√w) for fewer.

    `rows` are the centred rows √w F (n × p), in the basis of the eigenvectors when primal; `projected` is the target there.
    Rows, weights and centred targets may be those of some rows; `total` is then the weight of all.
    """

    feature_mean: Array
    target_mean: Array
    weights: Array
    rows: Array
    centred: Array
    eigenvalues: Array
    vectors: Array
    projected: Array
    primal: bool
    total: float = 0.0

    @property
    def mass(self) -> float:
        """Σw over all rows."""
        return self.total or float(self.weights.sum())

    @property
    def targets(self) -> Array:
        """As they were given, up to rounding."""
        return self.centred + self.target_mean

    def readout(self, alpha: float) -> Readout:
        """The regression at one penalty."""
        solved = self.vectors @ (self.projected / (self.eigenvalues + alpha)[:, None])
        c = solved if self.primal else self.rows.T @ solved
        return Readout(c, self.target_mean - self.feature_mean @ c)

    def left_out(self, alphas: Array) -> Array:
        """Target minus the prediction of the regression without that row, penalties × n × outputs.

        primal   residual y − fᵀĉ,                          1 − w_i h_i = 1 − w_i/Σw − w_i Σ_k (f_iᵀv_k)²/(e_k + α)
        dual     residual √w⁻¹ Σ_k u_k α/(e_k + α) u_kᵀ√w y,  1 − w_i h_i = Σ_k u_ik² α/(e_k + α) − w_i/Σw
        """
        alphas, root = np.asarray(alphas, float), np.sqrt(self.weights)[:, None]
        share = self.weights[:, None] / self.mass
        shrink = 1 / (self.eigenvalues[:, None] + alphas)
        shrink = shrink if self.primal else shrink * alphas
        basis = self.rows if self.primal else self.vectors
        n, outputs = self.centred.shape
        pull = (self.projected[:, None, :] * shrink[:, :, None]).reshape(len(shrink), -1)
        parts = by_rows(lambda some: (np.square(basis[some]) @ shrink, basis[some] @ pull), n, 2**18 // len(shrink))
        kept, fitted = (np.concatenate(part) for part in zip(*parts, strict=True))
        kept = 1 - share - kept if self.primal else kept - share
        residuals = fitted.reshape(n, alphas.size, outputs)
        if self.primal:
            residuals = (root * self.centred)[:, None, :] - residuals
        return (residuals / root[:, :, None] / np.maximum(kept, 1e-12)[:, :, None]).transpose(1, 0, 2)

    def of(self, targets: Array) -> Decomposition:
        """The same features with other targets, n × outputs."""
        mean = self.weights @ targets / self.weights.sum()
        centred = targets - mean
        rooted = np.sqrt(self.weights)[:, None] * centred
        projected = (self.rows if self.primal else self.vectors).T @ rooted
        return replace(self, target_mean=mean, centred=centred, projected=projected)


def decompose(features: Array, targets: Array, weights: Array) -> Decomposition:
    """Decompose once; features n × p, targets n × outputs, weights n, all positive. Works in double precision."""
    rows, mean, centred, target_mean = _centred(features, targets, weights)
    gram, right = _normal_equations(rows, centred, weights)
    primal = len(gram) == rows.shape[1]
    eigenvalues, vectors = np.linalg.eigh(gram)  # which threads can do side by side, SciPy's cannot
    eigenvalues, projected = np.maximum(eigenvalues, 0.0), vectors.T @ right
    turned = np.empty_like(rows) if primal else rows
    if primal:
        by_rows(lambda some: np.matmul(rows[some], vectors, out=turned[some]), *_worth(rows))
    return Decomposition(mean, target_mean, weights, turned, centred, eigenvalues, vectors, projected, primal)


def ridge_solutions(features: Array, targets: Array, weights: Array, alphas: Array) -> list[Readout]:
    """The readout at a few penalties, one Cholesky factor each: quicker than `decompose` and without leave-one-out."""
    rows, mean, centred, target_mean = _centred(features, targets, weights)
    gram, right = _normal_equations(rows, centred, weights)
    diagonal = gram.diagonal().copy()
    smallest = 1e-14 * diagonal.sum()  # below this the factor is rounding
    solutions = []
    for alpha in alphas:
        np.fill_diagonal(gram, diagonal + max(float(alpha), smallest))
        solved = cho_solve((np.linalg.cholesky(gram), True), right, check_finite=False)
        c = solved if len(solved) == rows.shape[1] else rows.T @ solved
        solutions.append(Readout(c, target_mean - mean @ c))
    return solutions


def best_penalty(path: Decomposition, alphas: Array) -> tuple[float, float]:
    """The penalty with the smallest leave-one-out mean squared error (over rows by weight, and outputs), and that error."""
    errors = np.square(path.left_out(alphas)).mean(2) @ (path.weights / path.weights.sum())
    best = int(np.argmin(errors))
    return float(alphas[best]), float(errors[best])


def _centred(features: Array, targets: Array, weights: Array) -> tuple[Array, Array, Array, Array]:
    """√w F from centred features, their mean, centred targets, their mean; double precision copies."""
    share = weights / weights.sum()
    features, targets = features.astype(np.float64), targets.astype(np.float64)
    mean, target_mean = share @ features, share @ targets
    features -= mean
    if (weights != 1).any():
        features *= np.sqrt(weights)[:, None]
    return features, mean, targets - target_mean, target_mean


def _normal_equations(rows: Array, targets: Array, weights: Array) -> tuple[Array, Array]:
    """K (p × p) for n ≥ p rows, √w FFᵀ√w (n × n) for fewer, and the right-hand side; from √w F."""
    targets = np.sqrt(weights)[:, None] * targets
    if rows.shape[0] < rows.shape[1]:
        return rows @ rows.T, targets
    return sum(by_rows(lambda some: rows[some].T @ rows[some], *_worth(rows))), rows.T @ targets  # pyright: ignore[reportReturnType]


def _worth(rows: Array) -> tuple[int, int]:
    """Their number, and how many of them a thread is worth."""
    return len(rows), _THREAD_FLOPS // rows.shape[1] ** 2
