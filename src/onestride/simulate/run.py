"""`simulate` and `simulate_grid`: measured train and test errors, sharing all work across exponents and penalties."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import ArrayLike

from onestride._backend import require_memory, stream, tiles
from onestride._numerics import Array
from onestride.functions import InputError
from onestride.problem import Problem, grid_axis
from onestride.result import QUANTITIES, Estimate, Simulation
from onestride.simulate.network import draw_batch, draw_network, draw_teacher, step_gradient
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
    sigma = problem.sigma
    network = draw_network(problem, seed)
    G = step_gradient(problem, network, seed).G
    batch = draw_batch(problem, seed, "ridge_inputs", "ridge_noise", problem.n)
    pre, shift = batch.X @ network.W0.T, batch.X @ G.T
    out = np.empty((3, etas.size, ridges.size))
    coefficients = np.empty((etas.size, problem.N, ridges.size))
    for k, eta in enumerate(etas):
        F = sigma(pre + eta * shift)
        if not np.isfinite(F).all():
            raise InputError(
                f"activation {sigma.name!r} overflows on the features of a step of size η = {eta:.4g}; "
                "use a smaller exponent or constant"
            )
        path = ridge_path(F, batch.y, ridges)
        coefficients[k] = path.coefficients
        out[0, k], out[1, k] = path.train_loss, path.train_mse
        tick(k + 1)
    del pre, shift
    out[2] = _test_error(problem, network.W0, G, etas, coefficients, seed, n_test)
    return out


def _test_error(
    problem: Problem, W0: Array, G: Array, etas: Array, coefficients: Array, seed: int, n_test: int
) -> Array:
    """Mean of (σ⋆(β⋆ᵀx) − f̂(x))² over fresh x, plus the noise variance; predictions never see a label."""
    beta_star, inputs = draw_teacher(problem, seed), stream(seed, "test_inputs")
    total = np.zeros((etas.size, coefficients.shape[-1]))
    for rows in tiles(n_test, problem.N):
        X = inputs.standard_normal((rows.stop - rows.start, problem.d))
        signal = problem.target(X @ beta_star)
        pre, shift = X @ W0.T, X @ G.T
        for k, eta in enumerate(etas):
            prediction = problem.sigma(pre + eta * shift) @ coefficients[k]
            total[k] += ((signal[:, None] - prediction) ** 2).sum(0)
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
