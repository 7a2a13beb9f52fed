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

import numpy as np

from onestride._backend import DeviceArray, prefetched, row_blocks
from onestride._errors import InputError
from onestride._numerics import Array
from onestride.simulation.cost import Plan
from onestride.simulation.features import Trained, features, overflow
from onestride.simulation.network import Batch, batch_tasks, gradient_sums, ridge_roles, step_tasks
from onestride.simulation.ridge import RidgePath
from onestride.simulation.shifted import solve_gram

BLOCKS_PER_TASK = 4  # so that moving one set of Gram matrices is cheap beside computing it


def streamed_gradient(plan: Plan, seed: int, executor: Executor, W0: DeviceArray, a: Array) -> Array:
    """G of the first step, its row blocks spread over the executor."""
    work = partial(_gradient_part, plan, seed, plan.backend.get(W0), a)
    (G,) = _summed(work, plan.problem.step_samples, plan.problem.d, executor)
    return G / plan.problem.step_samples


def streamed_paths(
    trained: Trained, ridges: Array, executor: Executor | None, tell: Callable[[float], None]
) -> list[RidgePath]:
    """The ridge path of each η from the sums of one pass over the samples.

    â = (FᵀF + λn)⁻¹Fᵀy,  n·mse = |y|² − 2âᵀFᵀy + âᵀFᵀFâ
    """
    problem, backend, held = trained.plan.problem, trained.plan.backend, trained
    if executor is not None and not trained.each:  # host arrays travel
        held = replace(trained, W0=backend.get(trained.untrained()), G=backend.get(trained.step()))
    grams, moments, power = _summed(partial(_gram_part, held), problem.n, problem.d, executor, tell)
    paths: list[RidgePath] = []
    for eta, gram, b in zip(trained.etas, grams, moments, strict=True):
        K, b = backend.put(gram), backend.put(b)
        try:
            coefficients = solve_gram(backend.copy(K), b, problem.n * ridges, backend)
        except OverflowError:
            raise overflow(problem, eta) from None
        except np.linalg.LinAlgError:
            raise InputError(
                f"ridge = {ridges.min():.3g} is too small for n = {problem.n} streamed samples: "
                "FᵀF has lost the digits it would need; use a larger penalty"
            ) from None
        fit = 2 * (b @ coefficients) - backend.xp.sum(coefficients * (K @ coefficients), axis=0)
        mse = (power - backend.get(fit)) / problem.n
        size = backend.get(backend.xp.sum(coefficients * coefficients, axis=0))
        paths.append(RidgePath(coefficients, mse + ridges * size, mse))
    return paths


def _gradient_part(plan: Plan, seed: int, W0: Array, a: Array, blocks: list[int]) -> tuple[Array]:
    tasks = step_tasks(plan.problem, seed, backend=plan.backend)
    batches = prefetched(tasks[k] for k in blocks)
    return (plan.backend.get(gradient_sums(plan.problem, W0, a, batches, plan.backend)[0]),)


def _gram_part(trained: Trained, blocks: list[int]) -> tuple[Array, Array, Array]:
    """FᵀF and Fᵀy for each η, and |y|², over some row blocks."""
    problem, backend, steps = trained.plan.problem, trained.plan.backend, trained.etas.size
    grams, moments, power = backend.zeros(steps, problem.N, problem.N), backend.zeros(steps, problem.N), 0.0
    of = features(trained)
    tasks = ridge_tasks(trained.plan, trained.seed)
    for batch in prefetched(tasks[k] for k in blocks):
        power += float(batch.y @ batch.y)
        for rows in backend.tiles(batch.y.size, problem.N):
            y = backend.put(batch.y[rows])
            for k, F in enumerate(of(batch.X[rows])):
                backend.add_product(grams[k, :, :], F.T, F)
                moments[k, :] += F.T @ y
    return backend.get(grams), backend.get(moments), np.array(power)


def ridge_tasks(plan: Plan, seed: int) -> list[Callable[[], Batch]]:
    """Functions that draw the blocks of the ridge regression's samples."""
    return batch_tasks(plan.problem, seed, *ridge_roles(plan.problem), plan.problem.n, backend=plan.backend)


def _summed(
    work: Callable[[list[int]], tuple[Array, ...]],
    rows: int,
    d: int,
    executor: Executor | None,
    tell: Callable[[float], None] = lambda _: None,
) -> tuple[Array, ...]:
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
    total: tuple[Array, ...] = ()
    done = 0
    for part in results:
        if total:
            for array, more in zip(total, part, strict=True):
                array += more
        else:
            total = tuple(np.array(array) for array in part) if executor else part
        del part  # its memory is the next one's
        tell((done := done + 1) / len(tasks))
    return total
