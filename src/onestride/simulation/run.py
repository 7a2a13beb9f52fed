"""`simulate` and `simulate_grid`: measured train and test errors, sharing all work across exponents and penalties."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onestride._backend import current, prefetched, using
from onestride._numerics import Array
from onestride.functions import InputError
from onestride.problem import Problem, exponent_axis, grid_axis
from onestride.result import QUANTITIES, Estimate, Simulation
from onestride.simulation.features import (
    Trained,
    features,
    fitted_rows,
    holds_weights,
    overflow,
    train_further,
    train_once,
)
from onestride.simulation.memory import LARGEST, memory_needed, require_room
from onestride.simulation.network import (
    Batch,
    batch_blocks,
    batch_tasks,
    draw_network,
    gradient_over,
    held_out_tiles,
    weight_tasks,
)
from onestride.simulation.ridge import RidgePath, fit_rows
from onestride.simulation.streamed import streamed_gradient, streamed_paths, worth_streaming

MOST_SEEDS = 1_000_000
Progress = Callable[[int, int], None]


def simulate(
    problem: Problem,
    seeds: int | Iterable[int] = 8,
    *,
    n_test: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    executor: Executor | None = None,
    untrained: bool = True,
    progress: Progress | None = None,
) -> Simulation:
    """Measure train and test error after the step, and the same without it (`.untrained`), over independent seeds.

    `seeds=8` means seeds 0 … 7; give a list to choose them. Test errors use `n_test` fresh samples (2n, at least 2000)
    and the exact contribution of the label noise. The other options are those of `simulate_grid`.
    """
    how: dict[str, Any] = {"n_test": n_test, "device": device, "dtype": dtype, "executor": executor}
    how |= {"untrained": untrained, "progress": progress}
    grid = simulate_grid(problem, [problem.step.exponent], [problem.ridge], seeds, **how)
    return grid.cell(0, 0)


def simulate_grid(
    problem: Problem,
    exponents: ArrayLike,
    ridges: ArrayLike,
    seeds: int | Iterable[int] = 8,
    *,
    n_test: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    executor: Executor | None = None,
    untrained: bool = True,
    progress: Progress | None = None,
) -> Simulation:
    """Measure every exponent and penalty on common random numbers; estimates have axes (seeds, exponents, penalties).

    A problem without a step (the default, c = 0) has no exponents but its own: others are refused, not ignored.

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
    """
    alphas, lams = exponent_axis(problem, exponents), grid_axis("ridges", ridges, positive=True)
    seed_list = seed_tuple(seeds)
    rows = test_rows(problem, n_test)
    sizes = [problem.step.replace(exponent=float(a)).size(problem.n) for a in alphas]
    etas, which = np.unique([0.0, *sizes] if untrained else sizes, return_inverse=True)
    total = len(seed_list) * etas.size
    values = np.empty((len(QUANTITIES), len(seed_list), etas.size, lams.size))
    with using(device, dtype) as backend:
        require_room(problem, memory_needed(problem, etas.size, lams.size, rows), n_test=n_test)
        for i, seed in enumerate(seed_list):

            def tick(k: int, done: int = i * etas.size) -> None:
                if progress is not None:
                    progress(done + k, total)

            values[:, i] = _one_seed(problem, etas, lams, seed, rows, executor, tick)
    check = None
    if backend.dtype == "float32":
        check = _spot_check(problem, etas[-1:], lams[:1], seed_list[0], rows, backend.device, values[:, 0, -1:, :1])
    values, before = values[:, :, which], None
    if untrained:  # measured once; broadcast it so that it pairs with every exponent
        base = np.broadcast_to(values[:, :, :1], (*values.shape[:2], alphas.size, lams.size))
        before = Simulation(problem, seed_list, Estimate(base[0]), Estimate(base[1]), Estimate(base[2]))
    loss, mse, test = (Estimate(v[:, -alphas.size :]) for v in values)
    return Simulation(problem, seed_list, loss, mse, test, before, alphas, lams, check)


def _spot_check(
    problem: Problem, etas: Array, ridges: Array, seed: int, n_test: int, device: str, found: Array
) -> float:
    """Largest relative difference of one cell's errors from the same cell in float64."""
    with using(device, "float64"):
        exact = _one_seed(problem, etas, ridges, seed, n_test, None, lambda _: None)
    return float(np.max(np.abs(found / exact - 1)))


def _one_seed(
    problem: Problem,
    etas: Array,
    ridges: Array,
    seed: int,
    n_test: int,
    executor: Executor | None,
    tick: Callable[[int], None],
) -> Array:
    """Train loss, train MSE and test error, shape (3, steps, penalties), of one seed."""
    test = None
    if problem.steps > 1:
        trained = train_further(problem, etas, seed)
        paths = _paths(trained, ridges, seed, executor, tick)
    elif executor is not None or worth_streaming(problem, etas.size):
        network = draw_network(problem, seed, to_host=False)
        trained = train_once(problem, etas, seed, network.W0, streamed_gradient(problem, seed, executor, network))
        paths = _paths(trained, ridges, seed, executor, tick)
    else:
        draws = _Draws(problem, seed, n_test)
        network = draw_network(problem, seed, to_host=False, drawn=draws.take("weights"))
        G = gradient_over(problem, network, draws.take("step"), to_host=False).G
        trained = train_once(problem, etas, seed, network.W0, G)
        del network, G
        paths = _stored_paths(trained, ridges, lambda: draws.take("ridge"))
        test = draws.take("test")
    fitted = []
    for k, path in enumerate(paths):
        fitted.append(path)
        tick(k + 1)
    out = np.empty((3, etas.size, ridges.size))
    for k, path in enumerate(fitted):
        out[0, k], out[1, k] = path.train_loss, path.train_mse
    out[2] = _test_error(
        trained, [path.coefficients for path in fitted], held_out_tiles(problem, seed, n_test, test), n_test
    )
    return out


class _Draws:
    """The random arrays of one seed in the order of their use: the next ones are drawn while the device works."""

    def __init__(self, problem: Problem, seed: int, n_test: int) -> None:
        passes = 1 if holds_weights(problem) else 2
        ridge = batch_tasks(problem, seed, "ridge_inputs", "ridge_noise", problem.n)
        tasks: dict[str, list[Any]] = {
            "weights": weight_tasks(problem, seed),
            "step": batch_tasks(problem, seed, "step_inputs", "step_noise", problem.step_samples),
            "ridge": ridge,
            "test": batch_tasks(problem, seed, "test_inputs", None, n_test),
        }
        order = [*tasks["weights"], *tasks["step"], *(ridge * passes), *tasks["test"]]
        self._sizes = {name: len(part) for name, part in tasks.items()}
        self._drawn = prefetched(order)

    def take(self, name: str) -> Iterator[Any]:
        return islice(self._drawn, self._sizes[name])


def _paths(
    trained: Trained, ridges: Array, seed: int, executor: Executor | None, tick: Callable[[int], None]
) -> Iterable[RidgePath]:
    problem, steps = trained.problem, trained.etas.size
    if worth_streaming(problem, steps):
        return streamed_paths(trained, ridges, seed, executor, lambda share: tick(int(share * (steps - 1))))
    samples = partial(batch_blocks, problem, seed, "ridge_inputs", "ridge_noise", problem.n)
    return _stored_paths(trained, ridges, samples)


def _stored_paths(trained: Trained, ridges: Array, samples: Callable[[], Iterator[Batch]]) -> Iterator[RidgePath]:
    problem = trained.problem
    labels: list[Array] = []

    def noted() -> Iterator[Batch]:
        labels.clear()
        for batch in samples():
            labels.append(batch.y)
            yield batch

    for eta, rows in zip(trained.etas, fitted_rows(trained, noted), strict=True):
        y = current().put(np.concatenate(labels))
        try:
            yield fit_rows(rows, y, ridges, dual=problem.n <= problem.N)
        except OverflowError:
            raise overflow(problem, eta) from None


def _test_error(
    trained: Trained, coefficients: list[Any], held_out: Iterator[tuple[Array, Array]], n_test: int
) -> Array:
    """Mean of (σ⋆(β⋆ᵀx) − f̂(x))² over fresh x, plus the noise variance; predictions never see a label."""
    backend, problem = current(), trained.problem
    total = [backend.zeros(c.shape[1]) for c in coefficients]
    of = features(trained)
    for X, signal in held_out:
        target = backend.put(signal)[:, None]
        for k, F in enumerate(of(X)):
            gap = target - F @ coefficients[k]
            total[k] += backend.xp.sum(gap * gap, axis=0)
    return np.stack([backend.get(t) for t in total]) / n_test + problem.noise**2


def test_rows(problem: Problem, n_test: int | None) -> int:
    """Number of test samples: as asked for, else 2n and at least 2000."""
    if n_test is None:
        return max(2 * problem.n, 2000)
    if isinstance(n_test, bool) or not isinstance(n_test, int | np.integer) or not 1 <= n_test <= LARGEST:
        raise InputError(f"n_test must be a whole number from 1 to 10^100, got {str(n_test)[:40]}")
    return int(n_test)


def seed_tuple(seeds: int | Iterable[int]) -> tuple[int, ...]:
    """Seeds 0 … k−1 for a number k, or the distinct non-negative whole numbers given."""
    try:
        given = tuple(islice(range(seeds) if isinstance(seeds, int | np.integer) else seeds, MOST_SEEDS + 1))
        numbers = tuple(map(int, given))
    except (TypeError, ValueError, OverflowError):
        given, numbers = None, ()
    if len(numbers) > MOST_SEEDS:
        raise InputError(f"seeds: there must be at most {MOST_SEEDS:,}, got {seeds!r:.40}")
    distinct = len(set(numbers)) == len(numbers) and numbers == given
    if isinstance(seeds, bool) or not numbers or min(numbers) < 0 or max(numbers) >= 2**63 or not distinct:
        raise InputError(f"seeds must be a whole number above 0 or a list of distinct ones, got {seeds!r:.80}")
    return numbers
