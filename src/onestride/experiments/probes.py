"""What the experiments on open questions share: several steps, a ridge fit on given weights, directions, spikes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onestride._backend import HOST, Backend, DeviceArray
from onestride._numerics import Array
from onestride.experiments.outcome import Progress
from onestride.problem import Problem, Step
from onestride.result import Estimate
from onestride.simulation.network import Batch
from onestride.simulation.ridge import ridge_path

ABOVE = 1.1  # a spike lies this factor above the untrained network's largest value


def steps_problem(d: int, steps: int, **fields: Any) -> Problem:
    """N = 8d samples per step, N = 2d, η = √n, y in place of the residual, no noise."""
    return Problem(n=8 * d, d=d, N=2 * d, steps=steps, gradient="labels", step=Step(exponent=0.5), **fields)


def over_seeds(
    run: Callable[[int], Sequence[Array]], seeds: int, progress: Progress, part: tuple[int, int] = (0, 1)
) -> list[Estimate]:
    """The arrays that `run` returns for seed 0, 1, …, stacked; they are part (i, of how many) of the experiment."""
    runs = []
    for seed in range(seeds):
        runs.append(run(seed))
        progress((part[0] + (seed + 1) / seeds) / part[1])
    return [Estimate(np.array(values)) for values in zip(*runs, strict=True)]


def ridge_risk(
    problem: Problem, W: Array, train: Batch, test: Batch, ridges: Sequence[float] | None = None, *, backend: Backend
) -> Array:
    """Mean of (signal − f̂)² on `test` for the ridge fit of `train` on σ(XWᵀ), one value per penalty; no noise added."""
    lams = np.array([problem.ridge] if ridges is None else ridges, float)
    put, there = backend.put, backend.put(W).T
    coefficients = ridge_path(problem.sigma(put(train.X) @ there), train.y, lams, backend=backend).coefficients
    found = backend.get(problem.sigma(put(test.X) @ there) @ put(coefficients))
    return ((test.signal[:, None] - found) ** 2).mean(0)


def best_risk(
    problem: Problem, W: Array, train: Batch, test: Batch, ridges: Sequence[float], *, backend: Backend
) -> float:
    """`ridge_risk` at the penalty that is best on `test`, in units of the teacher's power."""
    return ridge_risk(problem, W, train, test, ridges, backend=backend).min() / (test.signal**2).mean()


def found(change: Array, directions: Array, count: int, *, backend: Backend = HOST) -> Array:
    """Squared length of each direction (rows) inside the `count` leading right singular vectors of W − W₀."""
    there = backend.put(change)
    _, vectors = backend.xp.linalg.eigh(there.T @ there)
    return ((directions @ backend.get(vectors[:, -count:])) ** 2).sum(1)


def squared_singular_values(A: DeviceArray, *, backend: Backend = HOST) -> Array:
    """Eigenvalues of the smaller Gram matrix, increasing."""
    B = backend.put(A)
    return backend.get(backend.xp.linalg.eigvalsh(B @ B.T if B.shape[0] <= B.shape[1] else B.T @ B))


def spike_count(matrix: DeviceArray, untrained_edge: float, *, backend: Backend = HOST) -> int:
    """How many singular values lie 10 % or more above the untrained network's largest, given squared."""
    return int((squared_singular_values(matrix, backend=backend) > ABOVE**2 * untrained_edge).sum())
