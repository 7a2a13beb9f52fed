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

from onestride._backend import DeviceArray, row_blocks
from onestride._errors import InputError
from onestride._numerics import Array, Float
from onestride.simulation.cost import Plan
from onestride.simulation.features import Trained, features, overflow
from onestride.simulation.known import KnownMoments
from onestride.simulation.network import (
    Batch,
    batch_tasks,
    draw_probes,
    gradient_sums,
    in_order,
    ridge_roles,
    step_tasks,
)
from onestride.simulation.ridge import SplitPath, joined, products, sets
from onestride.simulation.shifted import solve_gram_twice

BLOCKS_PER_TASK = 4  # so that moving one set of Gram matrices is cheap beside computing it


def streamed_gradient(
    plan: Plan, seed: int, executor: Executor, W0: DeviceArray, a: Array
) -> tuple[Array, Float[Array, "2 d"]]:
    """G of the first step, and Xᵀr/n₀ and Xᵀy/n₀, their row blocks spread over the executor."""
    work = partial(_gradient_part, plan, seed, plan.backend.get(W0), a)
    G, beta = _summed(work, plan.problem.step_samples, plan.problem.d, executor)
    return G / plan.problem.step_samples, beta / plan.problem.step_samples


def streamed_paths(
    trained: Trained, ridges: Array, executor: Executor | None, tell: Callable[[float], None]
) -> list[tuple[SplitPath, Float[Array, "fit"]]]:
    """The ridge path of each η, and the moments of the labels, from the sums of one pass over the samples.

    â = (FᵀF + λn)⁻¹Fᵀy,  n·mse = |y|² − 2âᵀFᵀy + âᵀFᵀFâ,  with y = g and y = u side by side
    """
    problem, backend, held = trained.plan.problem, trained.plan.backend, trained
    if executor is not None and not trained.each:  # host arrays travel
        held = replace(trained, W0=backend.get(trained.untrained()), G=backend.get(trained.step()))
    grams, moments, power, sums = _summed(partial(_gram_part, held), problem.n, problem.d, executor, tell)
    paths: list[tuple[SplitPath, Array]] = []
    for eta, gram, b in zip(trained.etas, grams, moments, strict=True):
        K, b = backend.put(gram), backend.put(b)
        shifts = problem.n * ridges
        try:
            coefficients, again = solve_gram_twice(backend.copy(K), b, shifts, backend)
        except OverflowError:
            raise overflow(problem, eta) from None
        except np.linalg.LinAlgError:
            raise InputError(
                f"ridge = {ridges.min():.3g} is too small for n = {problem.n} streamed samples: "
                "FᵀF has lost the digits it would need; use a larger penalty"
            ) from None
        both, images, sides = sets(coefficients, ridges.size), sets(K @ coefficients, ridges.size), sets(b, 1)
        fit = products(sides, both, backend) + products(both, sides, backend) - products(both, images, backend)
        mse = (power[:, None] - fit) / problem.n
        loss = mse + ridges * products(both, both, backend)
        lengths = power[2:, None] / problem.n
        paths.append((joined(coefficients, again, loss, mse, lengths, shifts, backend), sums / problem.n))
    return paths


def _gradient_part(plan: Plan, seed: int, W0: Array, a: Array, blocks: list[int]) -> tuple[Array, Array]:
    tasks = step_tasks(plan.problem, seed, backend=plan.backend)
    batches = in_order((tasks[k] for k in blocks), plan.problem, plan.backend)
    sums = gradient_sums(plan.problem, W0, a, batches, plan.backend)
    return plan.backend.get(sums[0]), sums[1]


def _gram_part(trained: Trained, blocks: list[int]) -> tuple[Array, Array, Array, Array]:
    """FᵀF and Fᵀ(g, u, …) for each η; |g|², gᵀu, |u|², … and the sums of the moments of the labels, over some row blocks."""
    problem, backend, steps = trained.plan.problem, trained.plan.backend, trained.etas.size
    of, seed = features(trained), trained.seed
    noise = draw_probes(problem, seed)
    grams, moments = backend.zeros(steps, problem.N, problem.N), backend.zeros(steps, problem.N, 1 + noise.shape[1])
    power = np.zeros(2 + noise.shape[1])
    tasks, places = ridge_tasks(trained.plan, seed), row_blocks(problem.n, problem.d)
    known, sums = KnownMoments.of(problem, seed), 0.0
    batches = in_order((tasks[k] for k in blocks), problem, backend)
    for k, batch in zip(blocks, batches, strict=True):
        labels = np.column_stack([batch.signal, noise[places[k]]])
        power[[0, *range(2, power.size)]] += (labels**2).sum(0)
        power[1] += labels[:, 0] @ labels[:, 1]
        sums = sums + known.sums(batch.X)
        for rows in backend.tiles(batch.y.size, problem.N):
            Y = backend.put(labels[rows])
            for j, F in enumerate(of(batch.X[rows])):
                backend.add_product(grams[j, :, :], F.T, F)
                moments[j, :, :] += F.T @ Y
    return backend.get(grams), backend.get(moments), power, np.asarray(sums)


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
