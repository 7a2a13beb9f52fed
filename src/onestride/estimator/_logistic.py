"""Multinomial logistic regression on the features of a fit, with the penalty chosen on held-out rows.

min over (C, c₀) of −Σ_i w_i Σ_k s_ik log softmax(c₀ + Cᵀf_i)_k + ½α|C|²,   s_ik the share of class k among the copies of row i.

Solved by L-BFGS in the eigenbasis of the ridge regression, √w F = BVᵀ, where |C| = |VᵀC|, and in units in which the quadratic part of
the loss at equal probabilities is the identity, C = V(qE + α)^(−½)Θ with q = (1 − 1/K)/K: a few dozen iterations. Penalties
go from the largest down, each from the solution of the one before, until the loss on held-out rows rises.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from onestride._numerics import Array
from onestride.estimator._ridge import Decomposition, Readout

PENALTIES = np.logspace(3, -3, 7)
HELD_OUT = 3  # one row in three chooses the penalty
MOST_ROWS = 3000  # rows enough to choose it with
_QUICK = {"maxiter": 40, "gtol": 1e-5, "ftol": 1e-6}  # to choose
_THOROUGH = {"maxiter": 200, "gtol": 1e-6, "ftol": 1e-9}  # to fit
_NEGLIGIBLE = 1e-13  # eigenvalues below this share of the largest are rounding
NEVER = -1e3  # logit of a class without rows


def fit_logistic(path: Decomposition, shares: Array, generator: np.random.Generator) -> tuple[Readout, float]:
    """The readout (features × classes, and intercepts) and its penalty; shares n × classes, rows that add up to 1."""
    w, e = path.weights, path.eigenvalues
    keep = e > _NEGLIGIBLE * max(float(e[-1]), np.finfo(float).tiny)
    basis = (path.rows if path.primal else path.vectors * np.sqrt(e))[:, keep] / np.sqrt(w)[:, None]
    present = (w @ shares) > 0
    K = int(present.sum())
    C, intercept = np.zeros((basis.shape[1], present.size)), np.where(present, 0.0, NEVER)
    alpha = float(PENALTIES[0])
    if K > 1 and basis.shape[1]:
        known = shares[:, present]
        alpha, start = _chosen_penalty(basis, e[keep], known, w, generator)
        C[:, present], intercept[present] = _solution(basis, e[keep], known, w, alpha, start, _THOROUGH)
    vectors = path.vectors[:, keep] if path.primal else path.rows.T @ (path.vectors[:, keep] / np.sqrt(e[keep]))
    coefficients = vectors @ C
    return Readout(coefficients, intercept - path.feature_mean @ coefficients), alpha


def _chosen_penalty(
    basis: Array, e: Array, shares: Array, w: Array, generator: np.random.Generator
) -> tuple[float, tuple[Array, Array]]:
    """The penalty with the smallest loss on a third of the rows, of those fitted to the others, and its solution.

    Penalties fall until the loss rises.
    """
    rows = generator.permutation(len(basis))[:MOST_ROWS]
    out, rest = rows[::HELD_OUT], np.setdiff1d(rows, rows[::HELD_OUT])
    mean = np.maximum(w @ shares / w.sum(), 1e-12)
    now = np.zeros((basis.shape[1], shares.shape[1])), np.log(mean) - np.log(mean).mean()
    best = np.inf, float(PENALTIES[0]), now
    if not rest.size:
        return best[1:]
    portion = float(w[rest].sum() / w.sum())
    for alpha in PENALTIES:
        now = _solution(basis[rest], e * portion, shares[rest], w[rest], alpha * portion, now, _QUICK)
        loss = -float(w[out] @ (shares[out] * log_softmax(basis[out] @ now[0] + now[1], axis=1)).sum(1))
        if loss > best[0]:
            break
        best = loss, float(alpha), now
    return best[1:]


def _solution(
    basis: Array, e: Array, shares: Array, w: Array, alpha: float, start: tuple[Array, Array], options: dict[str, float]
) -> tuple[Array, Array]:
    """(C, c₀) in the eigenbasis at one penalty."""
    r, K, total = basis.shape[1], shares.shape[1], float(w.sum())
    unit = 1 / np.sqrt(e * (1 - 1 / K) / K + alpha)[:, None]

    def loss(flat: Array) -> tuple[float, Array]:
        parameters = flat.reshape(r + 1, K)
        C, c0 = unit * parameters[:r], parameters[r]
        logp = log_softmax(basis @ C + c0, axis=1)
        pull = w[:, None] * (np.exp(logp) - shares)
        slope = np.vstack([unit * (basis.T @ pull + alpha * C), pull.sum(0)])
        value = -float(w @ (shares * logp).sum(1)) + 0.5 * alpha * float(np.square(C).sum())
        return value / total, slope.ravel() / total

    first = np.vstack([start[0] / unit, start[1]]).ravel()
    found = minimize(loss, first, jac=True, method="L-BFGS-B", options=options).x.reshape(r + 1, K)
    return unit * found[:r], found[r]
