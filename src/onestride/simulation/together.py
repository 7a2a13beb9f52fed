"""Many small seeds in one call of a device: a stack of networks, of samples, of features and of ridge regressions.

Everything is as for one seed, with one more axis: X (s × n × d), W₀ and G (s × N × d), F (s × n × N). Draws are made by
the streams of each seed; factorisations take all seeds and penalties at once (`shifted`), one step size after the other.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from onestride._backend import Backend, DeviceArray
from onestride._numerics import Array, Float
from onestride.problem import Problem
from onestride.simulation.cost import Plan
from onestride.simulation.features import Trained, after_step
from onestride.simulation.held_out import held_out
from onestride.simulation.known import KnownMoments
from onestride.simulation.luck import Drawn, measured
from onestride.simulation.network import (
    Batch,
    batch_tasks,
    draw_probes,
    draw_readout,
    in_order,
    step_tasks,
    weight_tasks,
)
from onestride.simulation.ridge import SplitPath, fit_split
from onestride.simulation.rows import Rows
from onestride.simulation.streamed import ridge_tasks


def draws_ahead(plan: Plan, groups: Sequence[Sequence[int]]) -> Iterator[Any]:
    """The random arrays of all groups of seeds, in the order `seeds_together` uses them: drawn while the device works."""
    problem, backend = plan.problem, plan.backend
    kinds: list[Callable[[int], list[Callable[[], Any]]]] = [
        partial(weight_tasks, problem, backend=backend),
        partial(step_tasks, problem, backend=backend),
        partial(ridge_tasks, plan),
        lambda seed: batch_tasks(problem, seed, "test_inputs", None, plan.tests, backend=backend),
    ]
    every = (task for group in groups for tasks in kinds for seed in group for task in tasks(seed))
    return in_order(every, problem, backend)


def seeds_together(
    plan: Plan,
    etas: Float[Array, "networks"],
    ridges: Float[Array, "penalties"],
    seeds: Sequence[int],
    drawn: Iterator[Any],
    tick: Callable[[int], None],
) -> list[Drawn] | None:
    """What each seed measures; None if one of them needs more care than a stack can give. Takes its draws in any case."""
    problem, backend = plan.problem, plan.backend
    W0 = _stack(list(islice(drawn, len(seeds))), backend)
    batches = [list(islice(drawn, len(seeds))) for _ in range(3)]
    step, ridge, test = (_Stack(list(one), backend) for one in batches)
    trained = Trained(plan, etas, tuple(seeds), W0, stacked=True)
    G, beta = _gradient(problem, W0, trained.drawn(partial(draw_readout, problem)), step, backend)
    each = [KnownMoments.of(problem, seed).after_step(b[0]) for seed, b in zip(seeds, beta, strict=True)]
    if len({one.coordinates.shape for one in each}) > 1:
        return None
    trained, known = Trained(plan, etas, tuple(seeds), W0, G, stacked=True), KnownMoments.stacked(each)
    fit = np.stack([one.sums(batch.X) for one, batch in zip(each, ridge.batches, strict=True)]) / problem.n
    paths: list[SplitPath] = []
    try:
        for path in _paths(trained, ridge, ridges):
            paths.append(path)
            tick(len(paths))
    except (OverflowError, np.linalg.LinAlgError):
        return None
    held = held_out(trained, paths, iter([(test.X, test.signal)]), known)
    return measured(trained, paths, held, fit, beta).apart()


class _Stack:
    """The samples of all seeds: inputs and labels on the device."""

    def __init__(self, batches: list[Batch], backend: Backend) -> None:
        self.batches = batches
        self.X = _stack([batch.X for batch in batches], backend)
        self.signal, self.y = (
            backend.put(np.stack([getattr(batch, name) for batch in batches])) for name in ("signal", "y")
        )


def _stack(arrays: Sequence[Array], backend: Backend) -> DeviceArray:
    """Host arrays of one shape on the device, one after the other: there is no second copy of all of them on the host."""
    out = backend.empty(len(arrays), *arrays[0].shape)
    for i, array in enumerate(arrays):
        out[i, ...] = backend.put(array)
    return out


def _gradient(
    problem: Problem, W0: DeviceArray, a: Float[Array, "s N"], batch: _Stack, backend: Backend
) -> tuple[DeviceArray, Float[Array, "s 2 d"]]:
    """G of every seed, and Xᵀr/n₀ and Xᵀy/n₀."""
    turned, readout, sigma = backend.xp.matrix_transpose, backend.put(a)[..., None], problem.sigma
    pre, r = batch.X @ turned(W0), batch.y[..., None]
    if problem.gradient == "full":
        r = r - sigma(pre) @ readout
    G = turned(sigma.derivative(pre) * r) @ batch.X * (readout / problem.step_samples)
    both = backend.xp.concat([r, batch.y[..., None]], axis=-1)
    return G, backend.get(turned(both) @ batch.X) / problem.step_samples


def _paths(trained: Trained, batch: _Stack, ridges: Float[Array, "penalties"]) -> Iterator[SplitPath]:
    """The ridge path of each η, of all seeds."""
    plan, backend = trained.plan, trained.plan.backend
    problem, turned = plan.problem, backend.xp.matrix_transpose
    dual, weights = problem.n <= problem.N, (trained.untrained(), trained.step())
    pre, shift = (W @ turned(batch.X) if dual else batch.X @ turned(W) for W in weights)
    U = backend.put(trained.drawn(partial(draw_probes, problem)))
    for eta in trained.etas:
        F = after_step(problem.sigma, float(eta))(pre, shift)
        yield fit_split(Rows.stored(F, backend), batch.signal, U, ridges, dual=dual)
