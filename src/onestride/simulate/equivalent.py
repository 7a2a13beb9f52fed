"""What the paper puts in the place of F: the spiked expansion F_ℓ, its Gaussian equivalent, and the limit model.

F_ℓ       = F₀ + Σ_{k≤ℓ} c_k (c₁η)^k (X̃β)^{∘k} (a^{∘k})ᵀ
Gaussian  = the same with F₀ replaced by c₁X̃W₀ᵀ + c_{>1}Z, Z with independent N(0, 1) entries
limit     = ridge on F₀ plus the powers (X̃β)^k, k ≤ ℓ, c_k ≠ 0, whose coefficients are not penalised
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from onestride._backend import require_memory, stream
from onestride._numerics import Array
from onestride.problem import Problem
from onestride.result import Estimate
from onestride.simulate.gradient import largest_singular_values
from onestride.simulate.network import (
    Gradient,
    Network,
    draw_batch,
    draw_network,
    held_out_tiles,
    require_single,
    step_gradient,
)
from onestride.simulate.ridge import ridge_path
from onestride.simulate.run import memory_needed, seed_tuple

VARIANTS = ("features", "expansion", "gaussian")


@dataclass(frozen=True)
class MeasuredEquivalence:
    """How far F is from F_ℓ, and what that does to the errors; one value per seed.

    distance, distance_rank_one
        ‖F − F_ℓ‖/√n after the exact gradient step, and after the rank-one step W₀ + ηc₁aβᵀ on the same draw.
    column_means
        Length of the vector of column means of F − F_ℓ: the size, over √n, of its part along the constant vector.
    train_loss, test_error
        Axes (seeds, F | F_ℓ | Gaussian equivalent of F_ℓ).
    """

    problem: Problem
    ell: int
    seeds: tuple[int, ...]
    distance: Estimate
    distance_rank_one: Estimate
    column_means: Estimate
    train_loss: Estimate
    test_error: Estimate


@dataclass(frozen=True)
class MeasuredLimit:
    """Errors of the limit model, axes (seeds, ℓ = 0 … highest)."""

    problem: Problem
    seeds: tuple[int, ...]
    train_loss: Estimate
    test_error: Estimate


def measure_equivalence(problem: Problem, ell: int, seeds: int | Iterable[int] = 4) -> MeasuredEquivalence:
    """Fit the ridge regression on F, on F_ℓ and on the Gaussian equivalent, on the same data."""
    seed_list = seed_tuple(seeds)
    require_single(problem, "the expansion F_ℓ")
    require_memory(memory_needed(problem), f"n = {problem.n}, d = {problem.d}, N = {problem.N}")
    rows = [_equivalence(problem, ell, seed) for seed in seed_list]
    distances, loss, test = (Estimate(np.array(column)) for column in zip(*rows, strict=True))
    return MeasuredEquivalence(problem, ell, seed_list, distances[0], distances[1], distances[2], loss, test)


def measure_limit(problem: Problem, highest: int, seeds: int | Iterable[int] = 4) -> MeasuredLimit:
    """Fit the limit model for ℓ = 0 … highest; ℓ = 0 is the random features model."""
    seed_list = seed_tuple(seeds)
    require_single(problem, "the limit model")
    require_memory(memory_needed(problem) + 16.0 * problem.n**2, f"n = {problem.n}, d = {problem.d}, N = {problem.N}")
    rows = [_limit(problem, highest, seed) for seed in seed_list]
    loss, test = (Estimate(np.array(column)) for column in zip(*rows, strict=True))
    return MeasuredLimit(problem, seed_list, loss, test)


def spikes(problem: Problem, network: Network, projection: Array, ell: int) -> Array:
    """Σ_{k≤ℓ} c_k (c₁η)^k (X̃β)^{∘k} (a^{∘k})ᵀ for projection = X̃β."""
    c = problem.sigma.coefficients
    strength = c[1] * problem.eta
    left = np.stack([(strength * projection) ** k for k in range(1, ell + 1)], axis=1)
    right = np.stack([c[k] * network.a**k for k in range(1, ell + 1)], axis=0)
    return left @ right


def _variants(
    problem: Problem, network: Network, step: Gradient, ell: int, noise: np.random.Generator
) -> Callable[[Array], Iterator[Array]]:
    """A function from inputs to the three feature matrices, one after the other."""
    sigma, W0 = problem.sigma, network.W0
    c1, rest = sigma.coefficients[1], np.sqrt(sigma.nonlinear_power)

    def features(X: Array) -> Iterator[Array]:
        pre = X @ W0.T
        yield sigma(pre + problem.eta * (X @ step.G.T))
        spiked = spikes(problem, network, X @ step.beta, ell)
        yield sigma(pre) + spiked
        yield c1 * pre + rest * noise.standard_normal(pre.shape) + spiked

    return features


def _equivalence(problem: Problem, ell: int, seed: int) -> tuple[Array, Array, Array]:
    network = draw_network(problem, seed)
    step = step_gradient(problem, network, seed)
    features = _variants(problem, network, step, ell, stream(seed, "probe"))
    batch = draw_batch(problem, seed, "ridge_inputs", "ridge_noise", problem.n)
    ridge = np.array([problem.ridge])
    F, F_ell, gaussian = features(batch.X)
    strength = problem.sigma.coefficients[1] * problem.eta
    F_one = problem.sigma(batch.X @ network.W0.T + strength * np.outer(batch.X @ step.beta, network.a))
    norms = [largest_singular_values(matrix - F_ell, 1)[0] / np.sqrt(problem.n) for matrix in (F, F_one)]
    distances = np.array([*norms, np.linalg.norm((F - F_ell).mean(0))])
    del F_one
    paths = [ridge_path(matrix, batch.y, ridge) for matrix in (F, F_ell, gaussian)]
    del F, F_ell, gaussian
    total, rows = np.zeros(len(paths)), 2 * problem.n
    for X, signal in held_out_tiles(problem, seed, rows):
        for i, (matrix, path) in enumerate(zip(features(X), paths, strict=True)):
            total[i] += ((signal - matrix @ path.coefficients[:, 0]) ** 2).sum()
    return distances, np.array([path.train_loss[0] for path in paths]), total / rows + problem.noise**2


def _limit(problem: Problem, highest: int, seed: int) -> tuple[Array, Array]:
    """With R = (F₀F₀ᵀ + λn)⁻¹ and free columns P: w = (PᵀRP)⁻¹PᵀRy, α = R(y − Pw), objective λ(y − Pw)ᵀα."""
    sigma, n = problem.sigma, problem.n
    network = draw_network(problem, seed)
    beta = step_gradient(problem, network, seed).beta
    beta = beta / np.linalg.norm(beta)
    batch = draw_batch(problem, seed, "ridge_inputs", "ridge_noise", n)
    F0 = sigma(batch.X @ network.W0.T)
    gram = F0 @ F0.T
    gram.flat[:: n + 1] += problem.ridge * n
    factor = cho_factor(gram, lower=True, overwrite_a=True)
    powers = [k for k in range(1, highest + 1) if sigma.coefficients[k] != 0]
    P = np.stack([np.ones(n), *((batch.X @ beta) ** k for k in powers)], axis=1)[:, 1:]
    solved = cho_solve(factor, np.column_stack([batch.y, P]))
    losses, readouts, weights = [], [], []
    for ell in range(highest + 1):
        count = sum(k <= ell for k in powers)
        Pl, RP = P[:, :count], solved[:, 1 : count + 1]
        w = np.linalg.solve(Pl.T @ RP, Pl.T @ solved[:, 0]) if count else np.zeros(0)
        alpha = solved[:, 0] - RP @ w
        losses.append(problem.ridge * (batch.y - Pl @ w) @ alpha)
        readouts.append(F0.T @ alpha)
        weights.append(np.pad(w, (0, len(powers) - count)))
    total, rows = np.zeros(highest + 1), 2 * n
    for X, signal in held_out_tiles(problem, seed, rows):
        g = X @ beta
        free = np.stack([np.ones_like(g), *(g**k for k in powers)], axis=1)[:, 1:] @ np.array(weights).T
        prediction = sigma(X @ network.W0.T) @ np.array(readouts).T + free
        total += ((signal[:, None] - prediction) ** 2).sum(0)
    return np.array(losses), total / rows + problem.noise**2
