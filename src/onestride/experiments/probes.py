"""Measurements that the experiments on open questions share: a ridge fit on given weights, directions, spikes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onestride._numerics import Array
from onestride.problem import Problem
from onestride.result import Estimate
from onestride.simulation.network import Batch
from onestride.simulation.ridge import ridge_path

ABOVE = 1.1  # a spike lies this factor above the untrained network's largest value


def ridge_risk(problem: Problem, W: Array, train: Batch, test: Batch, ridges: Sequence[float] | None = None) -> Array:
    """Mean of (signal − f̂)² on `test` for the ridge fit of `train` on σ(XWᵀ), one value per penalty; no noise added."""
    lams = np.array([problem.ridge] if ridges is None else ridges, float)
    coefficients = ridge_path(problem.sigma(train.X @ W.T), train.y, lams).coefficients
    return ((test.signal[:, None] - problem.sigma(test.X @ W.T) @ coefficients) ** 2).mean(0)


def found(change: Array, directions: Array, count: int) -> Array:
    """Squared length of each direction (rows) inside the `count` leading right singular vectors of W − W₀."""
    _, vectors = np.linalg.eigh(change.T @ change)
    return ((directions @ vectors[:, -count:]) ** 2).sum(1)


def squared_singular_values(A: Array) -> Array:
    """Eigenvalues of the smaller Gram matrix, increasing."""
    return np.linalg.eigvalsh(A @ A.T if A.shape[0] <= A.shape[1] else A.T @ A)


def spike_count(matrix: Array, untrained_edge: float) -> int:
    """How many singular values lie 10 % or more above the untrained network's largest, given squared."""
    return int((squared_singular_values(matrix) > ABOVE**2 * untrained_edge).sum())


def said(values: Array | Estimate, digits: int = 3) -> str:
    """Mean ± standard error over seeds, in words."""
    estimate = values if isinstance(values, Estimate) else Estimate(np.asarray(values, float))
    return f"{float(estimate.mean):.{digits}g} ± {float(estimate.stderr):.1g}"
