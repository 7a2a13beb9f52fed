"""What the paper puts in the place of F: the spiked expansions F_ℓ, their Gaussian equivalents, and the limit model.

F_ℓ           = F₀ + Σ_{k≤ℓ} c_k (c₁η)^k (X̃β)^{∘k} (a^{∘k})ᵀ
Gaussian F_ℓ  = the same with F₀ replaced by c₁X̃W₀ᵀ + c_{>1}Z, Z with independent N(0, 1) entries
limit         = ridge on F₀ plus the powers (X̃β)^k, k ≤ ℓ, c_k ≠ 0, whose coefficients are not penalised
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from onestride._backend import Backend, DeviceArray, choose, map_tiles, namespace, normal_rows, project
from onestride._numerics import Array, Float
from onestride.problem import Problem
from onestride.result import Estimate
from onestride.simulation.arguments import seed_tuple
from onestride.simulation.features import told_of_overflow
from onestride.simulation.gradient import largest_singular_values
from onestride.simulation.memory import Room, distance_memory, expansion_memory, limit_memory, require_room
from onestride.simulation.network import (
    Gradient,
    Network,
    batch_on,
    draw_batch,
    draw_network,
    held_out_tiles,
    network_on,
    require_single,
    step_gradient,
)
from onestride.simulation.ridge import ridge_path
from onestride.simulation.shifted import host_cholesky

HIGHEST = 4
TESTS = 2  # test samples for each sample of the fit
VARIANTS = ("F", *(f"F_{ell}" for ell in range(HIGHEST + 1)), "Gaussian F_0", "Gaussian F_window")
Features = Callable[[Array], Iterator[DeviceArray]]


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


@dataclass(frozen=True)
class MeasuredDistance:
    """How far F is from F_ℓ; one value per seed.

    distance, distance_rank_one
        ‖F − F_ℓ‖/√n after the exact gradient step, and after the rank-one step W₀ + ηc₁aβᵀ on the same draw.
    column_means
        Length of the vector of column means of F − F_ℓ: the size, over √n, of its part along the constant vector.
    """

    problem: Problem
    ell: int
    seeds: tuple[int, ...]
    distance: Estimate
    distance_rank_one: Estimate
    column_means: Estimate


@dataclass(frozen=True)
class MeasuredLimit:
    """Errors of the limit model, axes (seeds, ℓ = 0 … highest)."""

    problem: Problem
    seeds: tuple[int, ...]
    train_loss: Estimate
    test_error: Estimate


@told_of_overflow
def measure_expansions(
    problem: Problem, window: int, seeds: int | Iterable[int] = 4, *, device: str | None = None
) -> MeasuredExpansions:
    """Fit F, F_0 … F_4, the Gaussian equivalent of F_0, and the same plus the spikes k ≤ `window`."""
    seed_list, backend = seed_tuple(seeds), choose(device)
    _require(problem, "the expansion F_ℓ", expansion_memory(problem, backend), backend)
    rows = [_expansions(problem, window, seed, backend) for seed in seed_list]
    loss, test, means = (Estimate(np.array(column)) for column in zip(*rows, strict=True))
    return MeasuredExpansions(problem, window, seed_list, loss, test, means)


@told_of_overflow
def measure_distance(
    problem: Problem, ell: int, seeds: int | Iterable[int] = 4, *, device: str | None = None
) -> MeasuredDistance:
    """Form F, F_ℓ and the features after a rank-one step on the same data, and measure how far they are apart."""
    seed_list, backend = seed_tuple(seeds), choose(device)
    _require(problem, "the expansion F_ℓ", distance_memory(problem, backend), backend)
    rows = [_distances(problem, ell, seed, backend) for seed in seed_list]
    return MeasuredDistance(
        problem, ell, seed_list, *(Estimate(np.array(column)) for column in zip(*rows, strict=True))
    )


@told_of_overflow
def measure_limit(
    problem: Problem, highest: int, seeds: int | Iterable[int] = 4, *, device: str | None = None
) -> MeasuredLimit:
    """Fit the limit model for ℓ = 0 … highest; ℓ = 0 is the random features model."""
    seed_list, backend = seed_tuple(seeds), choose(device)
    _require(problem, "the limit model", limit_memory(problem, backend), backend)
    rows = [_limit(problem, highest, seed, backend) for seed in seed_list]
    loss, test = (Estimate(np.array(column)) for column in zip(*rows, strict=True))
    return MeasuredLimit(problem, seed_list, loss, test)


def _require(problem: Problem, what: str, room: Room, backend: Backend) -> None:
    require_single(problem, what)
    require_room(problem, room.memory, backend)


def spikes(problem: Problem, a: DeviceArray, projection: DeviceArray, ell: int) -> DeviceArray:
    """Σ_{k≤ℓ} c_k (c₁η)^k (X̃β)^{∘k} (a^{∘k})ᵀ for projection = X̃β."""
    c, xp = problem.sigma.coefficients, namespace(projection)
    strength = float(c[1]) * problem.eta
    left = xp.stack([(strength * projection) ** k for k in range(1, ell + 1)], axis=1)
    right = xp.stack([float(c[k]) * a**k for k in range(1, ell + 1)], axis=0)
    return left @ right


def _variants(
    problem: Problem, network: Network, step: Gradient, window: int, seed: int, names: Iterable[str], backend: Backend
) -> Features:
    """A function from inputs, those of the fit and then of the test, to the feature matrices of these names of `VARIANTS`, one after the other."""
    sigma, noise = problem.sigma, normal_rows(seed, "probe", (1 + TESTS) * problem.n, problem.N, backend)
    W0, a, G, beta = (backend.put(array) for array in (network.W0, network.a, step.G, step.beta))
    c1, rest = float(sigma.coefficients[1]), float(np.sqrt(sigma.nonlinear_power))

    def features(X: Array) -> Iterator[DeviceArray]:
        inputs = backend.put(X)
        pre, projection = inputs @ W0.T, inputs @ beta
        bases: dict[str, DeviceArray] = {}
        for name in names:
            if name == "F":
                yield map_tiles(sigma, pre + problem.eta * (inputs @ G.T))
                continue
            base, _, degree = name.rpartition("F_")
            if base not in bases:
                bases.clear()
                bases[base] = c1 * pre + rest * noise(X.shape[0]) if base else map_tiles(sigma, pre)
            ell = window if degree == "window" else int(degree)
            yield bases[base] + spikes(problem, a, projection, ell) if ell else bases[base]

    return features


def _ridge_fits(
    problem: Problem,
    seed: int,
    y: Float[Array, "n"],
    matrices: Iterable[DeviceArray],
    features: Features,
    backend: Backend,
) -> tuple[Float[Array, "variants"], Float[Array, "variants"]]:
    """Ridge objective with each matrix, and test error with what `features` puts in its place for fresh inputs."""
    paths = [ridge_path(matrix, y, np.array([problem.ridge]), backend) for matrix in matrices]
    readouts = [backend.put(path.coefficients[:, 0]) for path in paths]
    total, rows = np.zeros(len(paths)), TESTS * problem.n
    for X, signal in held_out_tiles(problem, seed, rows, backend):
        for i, matrix in enumerate(features(X)):
            total[i] += ((signal - backend.get(matrix @ readouts[i])) ** 2).sum()
    return np.array([path.train_loss[0] for path in paths]), total / rows + problem.noise**2


def _expansions(problem: Problem, window: int, seed: int, backend: Backend) -> tuple[Array, Array, float]:
    network = network_on(backend, problem, seed)
    step = step_gradient(problem, network, seed, backend)
    features = _variants(problem, network, step, window, seed, VARIANTS, backend)
    batch = batch_on(backend, problem, seed, "ridge_inputs", "ridge_noise", problem.n)
    means: dict[str, Array] = {}

    def noted() -> Iterator[DeviceArray]:
        for name, matrix in zip(VARIANTS, features(batch.X), strict=True):
            means[name] = backend.get(backend.xp.mean(matrix, axis=0))
            yield matrix

    loss, test = _ridge_fits(problem, seed, batch.y, noted(), features, backend)
    return loss, test, float(np.linalg.norm(means["F"] - means[f"F_{window}"]))


def _distances(problem: Problem, ell: int, seed: int, backend: Backend) -> tuple[float, float, float]:
    network = draw_network(problem, seed)
    step = step_gradient(problem, network, seed, backend)
    features = _variants(problem, network, step, ell, seed, ("F", f"F_{ell}"), backend)
    X = draw_batch(problem, seed, "ridge_inputs", None, problem.n).X
    F, F_ell = (backend.copy(matrix) for matrix in features(X))
    strength = float(problem.sigma.coefficients[1] * problem.eta)
    inputs, beta, a = (backend.put(array) for array in (X, step.beta, network.a))
    F_one = problem.sigma(inputs @ backend.put(network.W0).T + strength * (inputs @ beta)[:, None] * a[None, :])
    exact, rank_one = (
        largest_singular_values(matrix - F_ell, 1, backend)[0] / np.sqrt(problem.n) for matrix in (F, F_one)
    )
    return exact, rank_one, float(np.linalg.norm(backend.get(backend.xp.mean(F - F_ell, axis=0))))


def _limit(
    problem: Problem, highest: int, seed: int, backend: Backend
) -> tuple[Float[Array, "ells"], Float[Array, "ells"]]:
    """With R = (F₀F₀ᵀ + λn)⁻¹ and free columns P: w = (PᵀRP)⁻¹PᵀRy, α = R(y − Pw), objective λ(y − Pw)ᵀα."""
    sigma, n = problem.sigma, problem.n
    network = draw_network(problem, seed)
    beta = step_gradient(problem, network, seed, backend).beta
    beta = beta / np.linalg.norm(beta)
    batch = draw_batch(problem, seed, "ridge_inputs", "ridge_noise", n)
    W0 = backend.put(network.W0)
    F0 = sigma(backend.put(batch.X) @ W0.T)
    powers = [k for k in range(1, highest + 1) if sigma.coefficients[k] != 0]
    P = np.stack([np.ones(n), *((batch.X @ beta) ** k for k in powers)], axis=1)[:, 1:]
    solved = host_cholesky(backend.get(F0 @ F0.T), problem.ridge * n)(np.column_stack([batch.y, P]))
    losses: list[float] = []
    readouts: list[Array] = []
    weights: list[Array] = []
    for ell in range(highest + 1):
        count = sum(k <= ell for k in powers)
        Pl, RP = P[:, :count], solved[:, 1 : count + 1]
        w = cast("Array", np.linalg.solve(Pl.T @ RP, Pl.T @ solved[:, 0])) if count else np.zeros(0)
        alpha = solved[:, 0] - RP @ w
        losses.append(problem.ridge * (batch.y - Pl @ w) @ alpha)
        readouts.append(backend.get(F0.T @ backend.put(alpha)))
        weights.append(np.pad(w, (0, len(powers) - count)))
    total, rows = np.zeros(highest + 1), TESTS * n
    for X, signal in held_out_tiles(problem, seed, rows, backend):
        g = project(X, beta)
        free = np.stack([np.ones_like(g), *(g**k for k in powers)], axis=1)[:, 1:] @ np.array(weights).T
        prediction = backend.get(sigma(backend.put(X) @ W0.T) @ backend.put(np.array(readouts).T)) + free
        total += ((signal[:, None] - prediction) ** 2).sum(0)
    return np.array(losses), total / rows + problem.noise**2
