"""Many more samples than neurons: rows stream past once and leave their Gram matrices FᵀF, one for every η.

Memory: one N × N matrix for each η and one block of rows, whatever n is. Sums over row blocks may be computed apart, by
the workers of any executor, and added.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from onestride._backend import Backend, current, row_blocks, tiles, using
from onestride._errors import InputError
from onestride._numerics import Array
from onestride.problem import Problem
from onestride.simulation.features import Trained, features, overflow
from onestride.simulation.network import Network, batch_blocks, gradient_over, gradient_sums, step_blocks
from onestride.simulation.ridge import RidgePath
from onestride.simulation.shifted import IllConditionedError, solve_gram

LARGE = 2**27  # numbers, 1 GiB: less is stored, which also serves penalties too small for a Gram matrix
BLOCKS_PER_TASK = 4  # so that moving one set of Gram matrices is cheap beside computing it


def worth_streaming(problem: Problem, steps: int) -> bool:
    """Whether the features are large and the Gram matrices of all step sizes are smaller."""
    n, N = problem.n, problem.N
    return 3 * n * N > LARGE and n > N * max(steps, 2)


def streamed_gradient(problem: Problem, seed: int, executor: Executor | None, network: Network) -> Any:
    """G of the first step, its row blocks spread over the executor if there is one."""
    if executor is None:
        return gradient_over(problem, network, step_blocks(problem, seed), to_host=False).G
    network = Network(current().get(network.W0), network.a)
    work = partial(_gradient_part, problem, network, seed, current())
    (G,) = _summed(work, problem.step_samples, problem.d, executor)
    return G / problem.step_samples


def streamed_paths(
    trained: Trained, ridges: Array, seed: int, executor: Executor | None, tell: Callable[[float], None]
) -> list[RidgePath]:
    """The ridge path of each η from the sums of one pass over the samples.

    â = (FᵀF + λn)⁻¹Fᵀy,  n·mse = |y|² − 2âᵀFᵀy + âᵀFᵀFâ
    """
    problem, backend = trained.problem, current()
    held = trained
    if executor is not None and not trained.each:  # host arrays travel
        held = replace(trained, W0=backend.get(trained.untrained()), G=backend.get(trained.G))
    grams, moments, power = _summed(partial(_gram_part, held, seed, backend), problem.n, problem.d, executor, tell)
    paths = []
    for eta, gram, b in zip(trained.etas, grams, moments, strict=True):
        K, b = backend.put(gram), backend.put(b)
        try:
            coefficients = solve_gram(backend.copy(K), b, problem.n * ridges)
        except OverflowError:
            raise overflow(problem, eta) from None
        except IllConditionedError:
            raise InputError(
                f"ridge = {ridges.min():.3g} is too small for n = {problem.n} streamed samples: "
                "FᵀF has lost the digits it would need; use a larger penalty"
            ) from None
        fit = 2 * (b @ coefficients) - backend.xp.sum(coefficients * (K @ coefficients), axis=0)
        mse = (power - backend.get(fit)) / problem.n
        size = backend.get(backend.xp.sum(coefficients * coefficients, axis=0))
        paths.append(RidgePath(coefficients, mse + ridges * size, mse))
    return paths


def _gradient_part(problem: Problem, network: Network, seed: int, backend: Backend, blocks: list[int]) -> tuple[Array]:
    with using(backend.device, backend.dtype):
        return (backend.get(gradient_sums(problem, network, step_blocks(problem, seed, blocks))[0]),)


def _gram_part(trained: Trained, seed: int, backend: Backend, blocks: list[int]) -> tuple[Array, Array, Array]:
    """FᵀF and Fᵀy for each η, and |y|², over some row blocks."""
    problem, steps, N = trained.problem, trained.etas.size, trained.problem.N
    with using(backend.device, backend.dtype):
        grams, moments, power = backend.zeros(steps, N, N), backend.zeros(steps, N), 0.0
        of = features(trained)
        for batch in batch_blocks(problem, seed, "ridge_inputs", "ridge_noise", problem.n, only=blocks):
            power += float(batch.y @ batch.y)
            for rows in tiles(batch.y.size, N):
                y = backend.put(batch.y[rows])
                for k, F in enumerate(of(batch.X[rows])):
                    backend.add_product(grams[k, :, :], F.T, F)
                    moments[k, :] += F.T @ y
        return backend.get(grams), backend.get(moments), np.array(power)


def _summed(
    work: Callable[[list[int]], tuple[Array, ...]],
    rows: int,
    d: int,
    executor: Executor | None,
    tell: Callable[[float], None] = lambda _: None,
) -> Any:
    """The sums of `work` over all row blocks, added in their order, so that the digits do not depend on who was first.

    `tell` hears the share that is done.
    """
    blocks = list(range(len(row_blocks(rows, d))))
    tasks = [blocks[i : i + BLOCKS_PER_TASK] for i in range(0, len(blocks), BLOCKS_PER_TASK)]
    if executor is None:
        results = (work(task) for task in tasks)
    else:
        futures = deque(executor.submit(work, task) for task in tasks)
        results = (futures.popleft().result() for _ in tasks)  # a result that is added is forgotten
    total: tuple[Array, ...] | None = None
    done = 0
    for part in results:
        if total is None:
            total = tuple(np.array(array) for array in part) if executor else part
        else:
            for array, more in zip(total, part, strict=True):
                array += more
        del part  # its memory is the next one's
        tell((done := done + 1) / len(tasks))
    return total
