"""`simulate` and `simulate_grid`: measured train and test errors, sharing all work across exponents and penalties."""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from itertools import islice
from threading import Lock
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from onestride._backend import choose
from onestride._backend.threads import one_thread
from onestride._errors import InputError, quoted, true_or_false
from onestride._numerics import Array, Float
from onestride._progress import shown
from onestride.problem import Problem, expect, exponent_axis, grid_axis
from onestride.result import Simulation
from onestride.simulation.arguments import OnProgress, seed_tuple, step_sizes, test_rows
from onestride.simulation.cost import Plan
from onestride.simulation.features import Trained, fitted_rows, overflow, told_of_overflow, train_further
from onestride.simulation.held_out import held_out
from onestride.simulation.known import KnownMoments
from onestride.simulation.luck import Drawn, estimates, measured
from onestride.simulation.memory import require_room
from onestride.simulation.network import (
    Batch,
    batch_tasks,
    draw_probes,
    draw_readout,
    draw_weights,
    gradient_sums,
    held_out_tiles,
    in_order,
    step_tasks,
    weight_tasks,
)
from onestride.simulation.own_rows import simulate_rows
from onestride.simulation.ridge import SplitPath, fit_split
from onestride.simulation.rows import Rows
from onestride.simulation.streamed import ridge_tasks, streamed_gradient, streamed_paths
from onestride.simulation.together import draws_ahead, seeds_together
from onestride.table import Table

T = TypeVar("T")


def simulate(
    problem: Problem,
    seeds: int | Iterable[int] = 8,
    *,
    n_test: int | None = None,
    device: str | None = None,
    dtype: Literal["float64", "float32"] | None = None,
    executor: Executor | None = None,
    untrained: bool = True,
    progress: OnProgress | bool | None = None,
) -> Simulation:
    """Measure train and test error after the step, and the same without it (`.untrained`), over independent seeds.

    `seeds=8` means seeds 0 … 7; give a list to choose them. Test errors use `n_test` fresh samples (2n, at least 2000)
    and the exact contribution of the label noise. The other options are those of `simulate_grid`.

    Values are freed of luck whose law is known (`simulation.luck`): their expectation is that of the plain ones, which are
    still there, `simulate(…).test_error.raw`, and their spread smaller, by what depends on the problem.

    >>> problem = one.Problem(n=200, d=100, N=150, teacher=[0, 1, 0.7071], noise=0.5, step=one.Step(exponent=0.3))
    >>> s = one.simulate(problem, seeds=2, n_test=500)
    >>> s.test_error.values.shape
    (2,)
    >>> print(f"the step helps: {s.test_gain.mean > 0}")
    the step helps: True
    """
    expect(problem)
    how: dict[str, Any] = {"n_test": n_test, "device": device, "dtype": dtype, "executor": executor}
    how |= {"untrained": untrained, "progress": progress}
    grid = simulate_grid(problem, [problem.step.exponent], [problem.ridge], seeds, **how)
    return grid.cell(0, 0)


@told_of_overflow
def simulate_grid(
    problem: Problem,
    exponents: ArrayLike,
    ridges: ArrayLike,
    seeds: int | Iterable[int] = 8,
    *,
    n_test: int | None = None,
    device: str | None = None,
    dtype: Literal["float64", "float32"] | None = None,
    executor: Executor | None = None,
    untrained: bool = True,
    progress: OnProgress | bool | None = None,
) -> Simulation:
    """Measure every exponent and penalty on common random numbers; estimates have axes (seeds, exponents, penalties).

    A problem without a step (the default, c = 0) has no exponents but its own: others are refused, not ignored. One made by `from_data` is
    measured on rows of its table, tested on those that neither step nor fit have (`simulation.own_rows`); device, dtype and n_test play no part.

    Per seed, XW₀ᵀ, X̃W₀ᵀ and X̃Gᵀ are formed once and one factorisation per exponent serves every penalty; `plan` tells
    time and memory beforehand.

    device
        "cpu" (NumPy), "cuda" or "cuda:1" (torch), "torch" (torch on the CPU), "cupy". The draws are the same on all.
    dtype
        "float64", or "float32", which also computes one cell in float64 and keeps the difference (`spot_check`).
    executor
        Any `concurrent.futures.Executor`, such as Dask's `client.get_executor()`: when n ≫ N, the row blocks of each
        seed are spread over it.
    untrained
        Whether to measure the network without the step too (`.untrained`, and the gains that need it).
    progress
        A function of (done, total); by default a call that takes long shows a bar in a terminal and a line in a notebook, and
        False is silence.

    >>> problem = one.Problem(n=60, d=30, N=40, step=one.Step(exponent=0.3))
    >>> found = one.simulate_grid(problem, exponents=[0.1, 0.3], ridges=[0.1, 1.0], seeds=2)
    >>> found.test_error.values.shape  # seeds, exponents, penalties
    (2, 2, 2)
    """
    expect(problem)
    true_or_false(untrained=untrained)
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise InputError(f"executor must be an Executor, with a method submit, or None, got {quoted(executor)}")
    alphas, lams = exponent_axis(problem, exponents), grid_axis("ridges", ridges, positive=True)
    if isinstance(problem.inputs, Table):
        chosen = seed_tuple(seeds)
        return simulate_rows(problem, problem.inputs, alphas, lams, chosen, untrained=untrained, progress=progress)
    seed_list, rows = seed_tuple(seeds), test_rows(problem, n_test)
    etas, which = step_sizes(problem, alphas, untrained=untrained)
    plan = Plan(problem, etas.size, lams.size, rows, choose(device, dtype), alphas.size, len(seed_list))
    require_room(problem, plan.memory, plan.backend, n_test=n_test)
    with shown(progress, "simulating") as tell:
        drawn = _every_seed(plan, etas, lams, seed_list, executor, tell)
    check = None
    if plan.backend.dtype == "float32":
        check = _spot_check(plan, etas[-1:], lams[:1], seed_list[0], drawn[0].plain[:, -1:, :1])
    before = None
    if untrained:  # measured once; repeated so that it pairs with every exponent
        loss, mse, test = estimates(drawn, np.zeros(alphas.size, int))
        before = Simulation(problem, seed_list, loss, mse, test)
    loss, mse, test = estimates(drawn, which[-alphas.size :])
    if not np.isfinite([np.square(e.values) for e in (loss, mse, test)]).all():
        raise OverflowError
    return Simulation(problem, seed_list, loss, mse, test, before, alphas, lams, check)


def _every_seed(
    plan: Plan, etas: Array, ridges: Array, seeds: Sequence[int], executor: Executor | None, tell: OnProgress
) -> list[Drawn]:
    """Seed after seed; or many in one call of a device; or several at a time, each on one core."""
    count = _Count(len(seeds) * etas.size, tell)

    def measure(seed: int) -> Drawn:
        return _one_seed(plan, etas, ridges, seed, executor, count.part())

    if executor is None and plan.together > 1:
        groups = [seeds[i : i + plan.together] for i in range(0, len(seeds), plan.together)]
        ahead, drawn = draws_ahead(plan, groups), list[Drawn]()
        for group in groups:
            found = seeds_together(plan, etas, ridges, group, ahead, count.part(len(group)))
            drawn += [measure(seed) for seed in group] if found is None else found
        return drawn
    if executor is not None or plan.side_by_side == 1:
        return [measure(seed) for seed in seeds]

    def on_one_core(seed: int) -> Drawn:
        with one_thread():  # each thread says so itself
            return measure(seed)

    with one_thread(), ThreadPoolExecutor(plan.side_by_side) as pool:
        waiting = [pool.submit(copy_context().run, on_one_core, seed) for seed in seeds]
        return [one.result() for one in waiting]


class _Count:
    """How many networks of all seeds are measured, told from any thread, one at a time."""

    def __init__(self, total: int, tell: OnProgress) -> None:
        self._done, self._total, self._tell, self._lock = 0, total, tell, Lock()

    def part(self, seeds: int = 1) -> Callable[[int], None]:
        """A function that hears how many networks of these seeds are done."""
        own = 0

        def tick(k: int) -> None:
            nonlocal own
            with self._lock:
                own, before = k, own
                self._done = min(self._done + seeds * (k - before), self._total)
                self._tell(self._done, self._total)

        return tick


def _spot_check(plan: Plan, etas: Array, ridges: Array, seed: int, found: Array) -> float:
    """Largest relative difference of one cell's errors from the same cell in float64."""
    alone = replace(plan, networks=1, penalties=1, backend=choose(plan.device, "float64"))
    return float(np.max(np.abs(found / _one_seed(alone, etas, ridges, seed, None, lambda _: None).plain - 1)))


def _one_seed(
    plan: Plan,
    etas: Float[Array, "networks"],
    ridges: Float[Array, "penalties"],
    seed: int,
    executor: Executor | None,
    tick: Callable[[int], None],
) -> Drawn:
    """Ridge objective, training error and test error of one seed."""
    problem, backend = plan.problem, plan.backend
    draws = _Draws(plan, seed, ahead=problem.steps == 1 and executor is None and not plan.streams)
    known, beta = KnownMoments.of(problem, seed), None
    if problem.steps > 1:
        trained = train_further(plan, etas, seed)
    else:
        W0, a = draw_weights(problem, seed, backend, draws.take("weights")), draw_readout(problem, seed)
        if executor is None:
            G, beta, _ = gradient_sums(problem, W0, a, draws.take("step"), backend)
            G *= 1 / problem.step_samples
            beta /= problem.step_samples
        else:
            G, beta = streamed_gradient(plan, seed, executor, W0, a)
        known = known.after_step(beta[0])
        copied = None if plan.keeps_weights or plan.streams else backend.fetched(G)
        trained = Trained(plan, etas, (seed,), W0, G, copied=copied)
        del W0, G
    if plan.streams:
        every = streamed_paths(trained, ridges, executor, lambda share: tick(int(share * (etas.size - 1))))
        paths = (path for path in every)
    else:
        paths = _stored_paths(trained, ridges, partial(draws.take, "ridge"), known)
    fitted: list[SplitPath] = []
    moments: list[Array] = []
    with closing(paths):  # also where `tick` raises: its threads are not left to the garbage collector
        for k, (path, of_labels) in enumerate(paths):
            fitted.append(path)
            moments.append(of_labels)
            tick(k + 1)
    trained = trained.at_hand()
    held = held_out(trained, fitted, held_out_tiles(problem, seed, plan.tests, backend, draws.take("test")), known)
    return measured(trained, fitted, held, moments[0], beta)


class _Draws:
    """The random arrays of one seed; `ahead`: in the order of their use, the next ones while the device works."""

    def __init__(self, plan: Plan, seed: int, *, ahead: bool) -> None:
        problem, backend = plan.problem, plan.backend
        self._tasks: dict[str, Callable[[], list[Any]]] = {
            "weights": partial(weight_tasks, problem, seed, backend),
            "step": partial(step_tasks, problem, seed, backend=backend),
            "ridge": partial(ridge_tasks, plan, seed),
            "test": partial(batch_tasks, problem, seed, "test_inputs", None, plan.tests, backend=backend),
        }
        passes = {"ridge": 2 if plan.stores_products and not plan.keeps_weights else 1}
        tasks = {name: make() for name, make in self._tasks.items() if ahead}
        self._sizes = {name: len(part) for name, part in tasks.items()}
        self._in_order = partial(in_order, problem=problem, backend=backend)
        self._drawn = self._in_order([task for name, part in tasks.items() for task in part * passes.get(name, 1)])

    def take(self, name: str) -> Iterator[Any]:
        """The blocks of one of them, in order."""
        return islice(self._drawn, self._sizes[name]) if self._sizes else self._in_order(self._tasks[name]())


def _stored_paths(
    trained: Trained, ridges: Array, samples: Callable[[], Iterator[Batch]], known: KnownMoments
) -> Generator[tuple[SplitPath, Array]]:
    """The ridge path of each η, with the moments of the labels."""
    plan, problem = trained.plan, trained.plan.problem
    signals: list[Array] = []
    sums: list[Array] = []

    def noted() -> Iterator[Batch]:
        signals.clear()
        sums.clear()
        for batch in samples():
            signals.append(batch.signal)
            sums.append(known.sums(batch.X))
            yield batch

    U = plan.backend.put(draw_probes(problem, trained.seed))

    def fit(eta: float, rows: Rows) -> tuple[SplitPath, Array]:
        g = plan.backend.put(np.concatenate(signals))
        try:
            return fit_split(rows, g, U, ridges, dual=problem.n <= problem.N), np.sum(sums, axis=0) / problem.n
        except OverflowError:
            raise overflow(problem, eta) from None

    networks = zip(trained.etas, fitted_rows(trained, noted), strict=True)
    if plan.networks_at_once == 1:
        return (fit(eta, rows) for eta, rows in networks)
    return _in_turn(fit, networks, plan.networks_at_once)


def _in_turn(work: Callable[..., T], items: Iterator[tuple[Any, ...]], workers: int) -> Generator[T]:
    """What `work` makes of each item, so many at a time, each on one core; an item is taken only when that of so many before it is done."""

    def on_one_core(*item: Any) -> T:
        with one_thread():
            return work(*item)

    first = next(items)  # with the products that all of them share
    with one_thread(), ThreadPoolExecutor(workers) as pool:
        waiting = [pool.submit(copy_context().run, on_one_core, *first)]
        for item in items:
            waiting.append(pool.submit(copy_context().run, on_one_core, *item))
            if len(waiting) == workers:
                yield waiting.pop(0).result()
        for one in waiting:
            yield one.result()
