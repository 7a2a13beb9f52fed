"""Draws: the teacher, the untrained network, batches of data; and the exact gradient steps.

Draws are NumPy arrays on the host; the gradient is computed on the current device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from onestride._backend import Backend, Role, current, map_tiles, prefetched, row_blocks, stream, tiles
from onestride._errors import InputError
from onestride._numerics import Array
from onestride.problem import Problem

STUDENT_FREEDOM = 5  # degrees of freedom of "student" and "elliptic" inputs
AR1 = 0.8  # Σ_ij = AR1^|i−j| of "ar1" inputs
POWER = 0.5  # eigenvalues ∝ k^−POWER of "power" inputs


@dataclass(frozen=True)
class Network:
    """W₀ (N × d) and the readout a (N) before the step."""

    W0: Any
    a: Array


@dataclass(frozen=True)
class Batch:
    """Inputs X (rows × d), noiseless labels and noisy labels y."""

    X: Array
    signal: Array
    y: Array


@dataclass(frozen=True)
class Gradient:
    """G = −∂L/∂W at W₀ (N × d), the residual r it used, and β = Xᵀr/n (d)."""

    G: Any
    residual: Array
    beta: Array


def draw_teacher(problem: Problem, seed: int) -> Array:
    """β⋆, uniform on the unit sphere of R^d; the first of several directions."""
    g = stream(seed, "teacher").standard_normal(problem.d)
    return g / np.linalg.norm(g)


def draw_directions(problem: Problem, seed: int) -> Array:
    """The orthonormal directions of the teacher as rows (directions × d); the first is `draw_teacher`'s."""
    if problem.directions == 1:
        return draw_teacher(problem, seed)[None]
    g = stream(seed, "teacher").standard_normal((problem.directions, problem.d))
    q, r = np.linalg.qr(g.T)
    return (q * np.sign(np.diag(r))).T


def labels(problem: Problem, directions: Array, X: Array) -> Array:
    """The teacher's noiseless labels of the rows of X: σ⋆(Xβ⋆), or the mix of several directions."""
    if problem.directions == 1:
        return problem.target(
            np.einsum("ij,j->i", X, directions[0])
        )  # on one thread: several blocks are drawn at a time
    parts = problem.target(X @ directions.T)
    if problem.mix == "staircase":
        parts = np.cumprod(parts, axis=1)
    return parts.sum(1) / np.sqrt(problem.directions)


def weight_tasks(problem: Problem, seed: int) -> list[Callable[[], Array]]:
    """Functions that draw the row blocks of W₀."""
    blocks, backend = row_blocks(problem.N, problem.d), current()  # threads do not inherit the backend

    def draw(k: int) -> Array:
        W = backend.host_empty(blocks[k].stop - blocks[k].start, problem.d)
        stream(seed, "weights", block=k).standard_normal(out=W)
        W /= np.sqrt(np.einsum("ij,ij->i", W, W)[:, None] if problem.weights == "sphere" else problem.d)
        return W

    return [partial(draw, k) for k in range(len(blocks))]


def draw_network(problem: Problem, seed: int, *, to_host: bool = True, drawn: Iterator[Array] | None = None) -> Network:
    """W₀ with unit rows (or Gaussian ones) and the readout a of size 1/√N; W₀ on the device unless `to_host`.

    `drawn` are the blocks of W₀ if somebody has them already.
    """
    N, d, backend = problem.N, problem.d, current()
    blocks = row_blocks(N, d)
    drawn = prefetched(weight_tasks(problem, seed)) if drawn is None else drawn
    if len(blocks) == 1:
        (W0,) = drawn
        W0 = W0 if to_host else backend.put(W0)
    else:
        W0 = np.empty((N, d)) if to_host else backend.empty(N, d)
        for rows, W in zip(blocks, drawn, strict=True):
            W0[rows, :] = W if to_host else backend.put(W)
    generator = stream(seed, "readout")
    if problem.readout == "gaussian":
        a = generator.standard_normal(N)
    elif problem.readout == "rademacher":
        a = generator.choice([-1.0, 1.0], N)
    else:
        a = np.ones(N)
    return Network(W0, a / np.sqrt(N))


def draw_inputs(problem: Problem, generator: np.random.Generator, rows: int, backend: Backend | None = None) -> Array:
    """`rows` samples of the law `problem.inputs`, as rows, where the backend likes them; every law has E|x|² = d."""
    shape, freedom = (rows, problem.d), STUDENT_FREEDOM
    if problem.inputs == "uniform":
        return generator.uniform(-np.sqrt(3), np.sqrt(3), shape)
    if problem.inputs == "rademacher":
        return generator.choice([-1.0, 1.0], shape)
    if problem.inputs == "student":
        X = generator.standard_t(freedom, shape)
        X *= np.sqrt((freedom - 2) / freedom)
        return X
    X = generator.standard_normal(out=(backend or current()).host_empty(*shape))
    if problem.inputs == "elliptic":
        X *= np.sqrt((freedom - 2) / generator.chisquare(freedom, (rows, 1)))
    elif problem.inputs == "ar1":
        for j in range(1, problem.d):
            X[:, j] = AR1 * X[:, j - 1] + np.sqrt(1 - AR1**2) * X[:, j]
    elif problem.inputs == "power":
        eigenvalues = np.arange(1.0, problem.d + 1) ** -POWER
        X *= np.sqrt(eigenvalues / eigenvalues.mean())
    return X


def draw_batch(problem: Problem, seed: int, inputs: Role, noise: Role | None, rows: int, part: int = 0) -> Batch:
    """`rows` fresh samples; without a noise stream y is the noiseless signal. `part` as in `stream`."""
    drawn, blocks = batch_blocks(problem, seed, inputs, noise, rows, part), row_blocks(rows, problem.d)
    if len(blocks) == 1:
        (batch,) = drawn
        return batch
    X, signal, y = np.empty((rows, problem.d)), np.empty(rows), np.empty(rows)
    for block, batch in zip(blocks, drawn, strict=True):
        X[block], signal[block], y[block] = batch.X, batch.signal, batch.y
    return Batch(X, signal, y)


def batch_blocks(
    problem: Problem,
    seed: int,
    inputs: Role,
    noise: Role | None,
    rows: int,
    part: int = 0,
    only: Iterable[int] | None = None,
) -> Iterator[Batch]:
    """The samples of `draw_batch` block by block (all, or `only` some), the next ones drawn while one is used."""
    tasks = batch_tasks(problem, seed, inputs, noise, rows, part)
    return prefetched(tasks if only is None else [tasks[k] for k in only])


def batch_tasks(
    problem: Problem, seed: int, inputs: Role, noise: Role | None, rows: int, part: int = 0
) -> list[Callable[[], Batch]]:
    """Functions that draw the blocks of `draw_batch`."""
    directions = draw_directions(problem, seed)
    errors = None if noise is None else problem.noise * stream(seed, noise, part).standard_normal(rows)
    blocks, backend = row_blocks(rows, problem.d), current()

    def draw(k: int) -> Batch:
        size = blocks[k].stop - blocks[k].start
        X = draw_inputs(problem, stream(seed, inputs, part, k), size, backend)
        signal = labels(problem, directions, X)
        return Batch(X, signal, signal if errors is None else signal + errors[blocks[k]])

    return [partial(draw, k) for k in range(len(blocks))]


def held_out_tiles(
    problem: Problem, seed: int, rows: int, drawn: Iterator[Batch] | None = None
) -> Iterator[tuple[Array, Array]]:
    """Fresh test inputs and their noiseless labels, tile by tile; `drawn` as in `draw_network`."""
    for batch in batch_blocks(problem, seed, "test_inputs", None, rows) if drawn is None else drawn:
        for part in tiles(batch.y.size, problem.N):
            yield batch.X[part], batch.signal[part]


def gradient(problem: Problem, network: Network, batch: Batch) -> Gradient:
    """The negative gradient of (1/2n)‖y − σ(XWᵀ)a‖² at W₀, row tile by row tile, as host arrays.

    G = (1/n) Σ_i r_i [a ∘ σ'(W₀x_i)] x_iᵀ with r = y − σ(XW₀ᵀ)a, or r = y for the labels-only gradient.
    """
    return gradient_over(problem, network, [batch])


def gradient_over(problem: Problem, network: Network, batches: Iterable[Batch], *, to_host: bool = True) -> Gradient:
    """The gradient on the samples of all batches together; G stays on the device unless `to_host`."""
    G, Xr, residual = gradient_sums(problem, network, batches)
    n = residual.size
    G *= 1 / n
    return Gradient(current().get(G) if to_host else G, residual, Xr / n)


def gradient_sums(problem: Problem, network: Network, batches: Iterable[Batch]) -> tuple[Any, Array, Array]:
    """The sums nG (on the device), Xᵀr, and r over samples; parts of a batch may be computed apart and added."""
    backend, sigma = current(), problem.sigma

    def weighted(z: Any, r: Any, out: Any = None) -> Any:
        return sigma.derivative(z) * r if out is None else np.multiply(sigma.derivative(z), r, out=out)

    W, a = backend.put(network.W0), backend.put(network.a)
    G, Xr, residual = backend.zeros(*network.W0.shape), np.zeros(network.W0.shape[1]), []
    for batch in batches:
        for rows in tiles(batch.y.size, network.a.size):
            X, r = backend.put(batch.X[rows]), backend.put(batch.y[rows])
            pre = X @ W.T
            if problem.gradient == "full":
                r = r - map_tiles(sigma, pre) @ a
            backend.add_product(G, map_tiles(weighted, pre, r[:, None]).T, X)
            Xr += backend.get(X.T @ r)
            residual.append(backend.get(r))
    G *= a[:, None]
    return G, Xr, np.concatenate(residual)


def step_batch(problem: Problem, seed: int, step: int = 0) -> Batch:
    """The samples of a step, counted from 0; a reused batch is the first one."""
    return draw_batch(problem, seed, "step_inputs", "step_noise", problem.step_samples, _part(problem, step))


def _part(problem: Problem, step: int) -> int:
    return step if problem.batch == "fresh" else 0


def step_gradient(problem: Problem, network: Network, seed: int) -> Gradient:
    """The first gradient, on the seed's own batch of the step, drawn block by block."""
    return gradient_over(problem, network, step_blocks(problem, seed))


def step_blocks(problem: Problem, seed: int, only: Iterable[int] | None = None, step: int = 0) -> Iterator[Batch]:
    """The samples of `step_batch` block by block."""
    rows, part = problem.step_samples, _part(problem, step)
    return batch_blocks(problem, seed, "step_inputs", "step_noise", rows, part, only)


def weights_path(problem: Problem, network: Network, seed: int, eta: float) -> Iterator[Array]:
    """W₁, W₂, … after each of `problem.steps` steps W_{t+1} = W_t + ηG(W_t); a stays at its initial value."""
    W = network.W0
    for step in range(problem.steps):
        G = gradient_over(problem, Network(W, network.a), step_blocks(problem, seed, step=step)).G
        G *= eta
        G += W
        W = G
        yield W


def trained_weights(problem: Problem, network: Network, seed: int, eta: float | None = None) -> Array:
    """W after the last step, of size η of the problem unless given."""
    *_, W = weights_path(problem, network, seed, problem.eta if eta is None else eta)
    return W


def require_single(problem: Problem, what: str) -> None:
    """Refuse, in a sentence, a problem of several steps or directions where `what` is only defined for one."""
    if problem.steps > 1 or problem.directions > 1:
        raise InputError(
            f"{what} is defined for one step and one direction of the teacher, "
            f"got steps = {problem.steps}, directions = {problem.directions}"
        )
