"""A closer look at single draws: the vectors behind the spikes, all singular values of G, and ridge fits on every F_ℓ.

F_ℓ       = F₀ + Σ_{k≤ℓ} c_k (c₁η)^k (X̃β)^{∘k} (a^{∘k})ᵀ
Gaussian  = F₀ replaced by c₁X̃W₀ᵀ + c_{>1}Z, Z with independent N(0, 1) entries
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from onestride._backend import require_memory, stream, tiles
from onestride._numerics import Array
from onestride.problem import Problem
from onestride.result import Estimate
from onestride.simulate.equivalent import spikes
from onestride.simulate.network import (
    Gradient,
    Network,
    draw_batch,
    draw_network,
    draw_teacher,
    gradient,
    step_gradient,
)
from onestride.simulate.ridge import ridge_path
from onestride.simulate.run import memory_needed, seed_tuple
from onestride.simulate.spectrum import decompose

HIGHEST = 4
VARIANTS = ("F", *(f"F_{ell}" for ell in range(HIGHEST + 1)), "Gaussian F_0", "Gaussian F_window")


@dataclass(frozen=True)
class MeasuredExpansions:
    """Ridge fits on the same data with each matrix of `VARIANTS`; estimates have axes (seeds, variants).

    column_means
        Axis (seeds): length of the vector of column means of F − F_window, its part along the constant vector over √n.
    """

    problem: Problem
    window: int
    seeds: tuple[int, ...]
    train_loss: Estimate = field(repr=False)
    test_error: Estimate = field(repr=False)
    column_means: Estimate = field(repr=False)


def measure_expansions(problem: Problem, window: int, seeds: int | Iterable[int] = 4) -> MeasuredExpansions:
    """Fit F, F_0 … F_4, the Gaussian equivalent of F_0, and the same plus the spikes k ≤ `window`."""
    seed_list = seed_tuple(seeds)
    require_memory(memory_needed(problem), f"n = {problem.n}, d = {problem.d}, N = {problem.N}")
    rows = [_expansions(problem, window, seed) for seed in seed_list]
    loss, test, means = (Estimate(np.array(column)) for column in zip(*rows, strict=True))
    return MeasuredExpansions(problem, window, seed_list, loss, test, means)


def leading_vectors(problem: Problem, seed: int, count: int) -> tuple[Array, Array]:
    """X̃β/|β| (n) and the `count` leading left singular vectors of F (n × count, unit columns) of one draw."""
    network = draw_network(problem, seed)
    step = step_gradient(problem, network, seed)
    X = draw_batch(problem, seed, "ridge_inputs", None, problem.n).X
    _, vectors = decompose(problem.sigma(X @ (network.W0 + problem.eta * step.G).T), count)
    return X @ step.beta / np.linalg.norm(step.beta), vectors


def largest_sample_share(problem: Problem, seed: int, k: int) -> float:
    """How much of the k-th leading left singular vector of F (from 1) is a cubic polynomial, without constant, of x⋆ᵀx.

    x⋆ is the input of the step whose residual is largest: a sample that the gradient may remember on its own.
    """
    network = draw_network(problem, seed)
    batch = draw_batch(problem, seed, "step_inputs", "step_noise", problem.step_samples)
    step = gradient(problem, network, batch)
    X = draw_batch(problem, seed, "ridge_inputs", None, problem.n).X
    _, vectors = decompose(problem.sigma(X @ (network.W0 + problem.eta * step.G).T), k)
    powers = np.vander(X @ batch.X[np.abs(step.residual).argmax()] / np.sqrt(problem.d), 4)[:, :3]
    basis, _ = np.linalg.qr(powers - powers.mean(0))
    return float(((basis.T @ vectors[:, k - 1]) ** 2).sum())


def gradient_singular_values(problem: Problem, seed: int) -> Array:
    """All min(N, d) singular values of G of one draw, decreasing."""
    return np.linalg.svd(step_gradient(problem, draw_network(problem, seed), seed).G, compute_uv=False)


def _variants(
    problem: Problem, network: Network, step: Gradient, window: int, noise: np.random.Generator
) -> Callable[[Array], Iterator[Array]]:
    """A function from inputs to the feature matrices of `VARIANTS`, one after the other."""
    sigma = problem.sigma
    c1, rest = sigma.coefficients[1], np.sqrt(sigma.nonlinear_power)

    def features(X: Array) -> Iterator[Array]:
        pre, projection = X @ network.W0.T, X @ step.beta
        yield sigma(pre + problem.eta * (X @ step.G.T))
        F0 = sigma(pre)
        yield F0
        for ell in range(1, HIGHEST + 1):
            yield F0 + spikes(problem, network, projection, ell)
        del F0
        gaussian = c1 * pre + rest * noise.standard_normal(pre.shape)
        yield gaussian
        yield gaussian + spikes(problem, network, projection, window) if window else gaussian

    return features


def _expansions(problem: Problem, window: int, seed: int) -> tuple[Array, Array, float]:
    network = draw_network(problem, seed)
    step = step_gradient(problem, network, seed)
    features = _variants(problem, network, step, window, stream(seed, "probe"))
    batch = draw_batch(problem, seed, "ridge_inputs", "ridge_noise", problem.n)
    ridge = np.array([problem.ridge])
    readouts, losses, means = [], [], {}
    for name, matrix in zip(VARIANTS, features(batch.X), strict=True):
        path = ridge_path(matrix, batch.y, ridge)
        readouts.append(path.coefficients[:, 0])
        losses.append(path.train_loss[0])
        means[name] = matrix.mean(0)
    total, rows = np.zeros(len(VARIANTS)), 2 * problem.n
    inputs, beta_star = stream(seed, "test_inputs"), draw_teacher(problem, seed)
    for part in tiles(rows, problem.N):
        X = inputs.standard_normal((part.stop - part.start, problem.d))
        signal = problem.target(X @ beta_star)
        for i, matrix in enumerate(features(X)):
            total[i] += ((signal - matrix @ readouts[i]) ** 2).sum()
    gap = float(np.linalg.norm(means["F"] - means[f"F_{window}"]))
    return np.array(losses), total / rows + problem.noise**2, gap
