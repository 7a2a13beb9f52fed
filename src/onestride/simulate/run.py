"""`simulate` and `simulate_grid`: measured train and test errors, sharing all work across exponents and penalties."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from onestride._backend import require_memory, tiles
from onestride._numerics import Array
from onestride.functions import InputError
from onestride.problem import Problem, grid_axis
from onestride.result import QUANTITIES, Estimate, Simulation
from onestride.simulate.network import Network, draw_batch, draw_network, held_out_tiles, step_gradient, trained_weights
from onestride.simulate.ridge import ridge_path

Progress = Callable[[int, int], None]


def simulate(
    problem: Problem, seeds: int | Iterable[int] = 8, *, n_test: int | None = None, progress: Progress | None = None
) -> Simulation:
    """Measure train and test error after the step, and the same without it (`.untrained`), over independent seeds.

    `seeds=8` means seeds 0 … 7; give a list to choose them. Test errors use `n_test` fresh samples (2n, at least 2000)
    and the exact contribution of the label noise.
    """
    grid = simulate_grid(problem, [problem.step.exponent], [problem.ridge], seeds, n_test=n_test, progress=progress)
    return grid.cell(0, 0)


def simulate_grid(
    problem: Problem,
    exponents: ArrayLike,
    ridges: ArrayLike,
    seeds: int | Iterable[int] = 8,
    *,
    n_test: int | None = None,
    progress: Progress | None = None,
) -> Simulation:
    """Measure every exponent and penalty on common random numbers; estimates have axes (seeds, exponents, penalties).

    Per seed, XW₀ᵀ, X̃W₀ᵀ and X̃Gᵀ are formed once and one tridiagonalisation per exponent serves every penalty.
    Memory: three n × N arrays, one min(n, N)² array and the data; see `memory_needed`.
    """
    alphas, lams = grid_axis("exponents", exponents), grid_axis("ridges", ridges, positive=True)
    seed_list = seed_tuple(seeds)
    rows = max(2 * problem.n, 2000) if n_test is None else n_test
    if rows < 1:
        raise InputError(f"n_test must be 1 or more, got {n_test}")
    require_memory(memory_needed(problem), f"n = {problem.n}, d = {problem.d}, N = {problem.N}")
    etas = np.array([0.0, *(problem.step.replace(exponent=float(a)).size(problem.n) for a in alphas)])
    total = len(seed_list) * etas.size
    values = np.empty((len(QUANTITIES), len(seed_list), etas.size, lams.size))
    for i, seed in enumerate(seed_list):

        def tick(k: int, done: int = i * etas.size) -> None:
            if progress is not None:
                progress(done + k, total)

        values[:, i] = _one_seed(problem, etas, lams, seed, rows, tick)
    # η = 0 was measured once; broadcast it so that it pairs with every exponent
    base = np.broadcast_to(values[:, :, :1], (*values.shape[:2], alphas.size, lams.size))
    untrained = Simulation(problem, seed_list, Estimate(base[0]), Estimate(base[1]), Estimate(base[2]))
    loss, mse, test = (Estimate(v[:, 1:]) for v in values)
    return Simulation(problem, seed_list, loss, mse, test, untrained, alphas, lams)


def memory_needed(problem: Problem) -> float:
    """Bytes: three n × N arrays (X̃W₀ᵀ, X̃Gᵀ, F), two min(n, N)² arrays, W₀ and G, the batches, and tiles."""
    n, d, N, n0 = problem.n, problem.d, problem.N, problem.step_samples
    return 8 * (3.0 * n * N + 2.0 * min(n, N) ** 2 + 2.0 * N * d + max(n, n0) * d) + 4 * 64 * 2**20


def _one_seed(
    problem: Problem, etas: Array, ridges: Array, seed: int, n_test: int, tick: Callable[[int], None]
) -> Array:
    """Train loss, train MSE and test error, shape (3, steps, penalties), of one seed."""
    features = _features(problem, draw_network(problem, seed), etas, seed)
    batch = draw_batch(problem, seed, "ridge_inputs", "ridge_noise", problem.n)
    out = np.empty((3, etas.size, ridges.size))
    coefficients = np.empty((etas.size, problem.N, ridges.size))
    for k, F in enumerate(features(batch.X)):
        if not np.isfinite(F).all():
            raise InputError(
                f"activation {problem.sigma.name!r} overflows on the features of a step of size η = {etas[k]:.4g}; "
                "use a smaller exponent or constant"
            )
        path = ridge_path(F, batch.y, ridges)
        coefficients[k] = path.coefficients
        out[0, k], out[1, k] = path.train_loss, path.train_mse
        tick(k + 1)
    del batch
    out[2] = _test_error(problem, features, coefficients, seed, n_test)
    return out


def _features(problem: Problem, network: Network, etas: Array, seed: int) -> Callable[[Array], Iterator[Array]]:
    """A function from inputs to the features after steps of each size η, one after the other in the same memory.

    One step is linear in η, so XW₀ᵀ and XGᵀ serve every η; several steps need the final weights of each.
    """
    sigma, W0 = problem.sigma, network.W0
    if problem.steps == 1:
        G = step_gradient(problem, network, seed).G

        def features(X: Array) -> Iterator[Array]:
            pre, shift = X @ W0.T, X @ G.T
            F = np.empty_like(pre)  # filled again for each η
            for eta in etas:
                for rows in tiles(*pre.shape, cache=True):
                    F[rows] = sigma(pre[rows] + eta * shift[rows])
                yield F

        return features
    weights = [trained_weights(problem, network, seed, eta) if eta else W0 for eta in etas]
    return lambda X: (sigma(X @ W.T) for W in weights)


def _test_error(
    problem: Problem, features: Callable[[Array], Iterator[Array]], coefficients: Array, seed: int, n_test: int
) -> Array:
    """Mean of (σ⋆(β⋆ᵀx) − f̂(x))² over fresh x, plus the noise variance; predictions never see a label."""
    total = np.zeros((coefficients.shape[0], coefficients.shape[-1]))
    for X, signal in held_out_tiles(problem, seed, n_test):
        for k, F in enumerate(features(X)):
            total[k] += ((signal[:, None] - F @ coefficients[k]) ** 2).sum(0)
    return total / n_test + problem.noise**2


def seed_tuple(seeds: int | Iterable[int]) -> tuple[int, ...]:
    """Seeds 0 … k−1 for a number k, or the distinct non-negative whole numbers given."""
    try:
        numbers = tuple(range(seeds)) if isinstance(seeds, int | np.integer) else tuple(int(s) for s in seeds)
    except (TypeError, ValueError):
        numbers = ()
    if isinstance(seeds, bool) or not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise InputError(f"seeds must be a whole number above 0 or a list of distinct ones, got {seeds!r}")
    return numbers
