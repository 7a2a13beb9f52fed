"""`measure_gradient`: how close the first gradient is to the rank-one matrix c₁aβᵀ, and for which β."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse.linalg import svds

from onestride._backend import HOST, Backend, choose
from onestride._numerics import Array, Float
from onestride.problem import Problem
from onestride.result import Estimate
from onestride.simulation.arguments import seed_tuple
from onestride.simulation.features import told_of_overflow
from onestride.simulation.krylov import leading_eigenpairs
from onestride.simulation.memory import gradient_memory, require_room
from onestride.simulation.network import draw_network, gradient, step_batch, step_gradient
from onestride.simulation.rows import Rows
from onestride.simulation.spectrum import decompose


@dataclass(frozen=True)
class MeasuredGradient:
    """Operator norms, one value per seed.

    singular_values
        The leading five of G.
    distance_labels, distance_residual
        ‖G − c₁aβᵀ‖ with β = Xᵀy/n and with β = Xᵀr/n, r the residual of the literal gradient.
    """

    problem: Problem
    seeds: tuple[int, ...]
    singular_values: Estimate = field(repr=False)
    distance_labels: Estimate
    distance_residual: Estimate


@told_of_overflow
def measure_gradient(
    problem: Problem, seeds: int | Iterable[int] = 4, *, device: str | None = None
) -> MeasuredGradient:
    """Draw the network and the batch of the step, form G exactly, and compare it with c₁aβᵀ."""
    seed_list, backend = seed_tuple(seeds), choose(device)
    require_room(problem, gradient_memory(problem, backend).memory, backend)
    c1 = problem.sigma.coefficients[1]
    values: list[tuple[Array, Array, Array]] = []
    for seed in seed_list:
        network = draw_network(problem, seed)
        batch = step_batch(problem, seed)
        G = gradient(problem, network, batch, backend).G
        beta_labels = batch.X.T @ batch.y / problem.step_samples
        beta_residual = gradient(problem.replace(gradient="full"), network, batch, backend).beta
        leading = largest_singular_values(G, min(5, *G.shape), backend)
        distances = [
            largest_singular_values(G - c1 * np.outer(network.a, beta), 1, backend)[0]
            for beta in (beta_labels, beta_residual)
        ]
        values.append((leading, *distances))
    leading, by_labels, by_residual = (Estimate(np.array(v)) for v in zip(*values, strict=True))
    return MeasuredGradient(problem, seed_list, leading, by_labels, by_residual)


@told_of_overflow
def gradient_singular_values(problem: Problem, seed: int, *, device: str | None = None) -> Float[Array, "values"]:
    """All min(N, d) singular values of G of one draw, decreasing."""
    backend = choose(device)
    require_room(problem, gradient_memory(problem, backend).memory, backend)
    G = step_gradient(problem, draw_network(problem, seed), seed, backend).G
    if backend.on_host:
        return np.linalg.svd(G, compute_uv=False)
    values, _ = decompose(Rows.longer(backend.put(G), backend), 1, 0)
    return np.sqrt(values[::-1])


def largest_singular_values(
    A: Any, count: int, backend: Backend = HOST, *, tolerance: float = 1e-6
) -> Float[Array, "count"]:
    """The `count` largest singular values, decreasing: Lanczos for large matrices, a full decomposition for small.

    On a device `tolerance` is that of the vectors; the error of a value is of the order of its square.
    """
    if not backend.on_host:
        values, _ = leading_eigenpairs(Rows.longer(backend.put(A), backend), count, tolerance=tolerance)
        return np.sqrt(np.maximum(values, 0.0))
    if min(A.shape) <= max(2 * count, 20):
        return np.linalg.svd(A, compute_uv=False)[:count]
    start = np.ones(min(A.shape)) / np.sqrt(min(A.shape))  # fixed, so that a repeated run gives the same digits
    return np.sort(svds(A, k=count, v0=start, return_singular_vectors=False))[::-1]
