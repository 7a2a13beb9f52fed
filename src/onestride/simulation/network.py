"""Draws: the teacher, the untrained network, batches of data; and the exact gradient steps.

Draws are NumPy arrays on the host, large Gaussian ones arrays of a device that makes them itself; the gradient is computed there.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from onestride._backend import (
    HOST,
    Backend,
    DeviceArray,
    Role,
    device_normals,
    draw_normals,
    drawn_ahead,
    draws_itself,
    map_tiles,
    on_host,
    project,
    row_blocks,
    stream,
    tiles,
)
from onestride._errors import InputError
from onestride._numerics import Array, Float
from onestride.problem import Problem

T = TypeVar("T")
PROBES = 3  # draws of noise beside that of the labels, to average over it


@dataclass(frozen=True)
class Network:
    """W₀ (N × d), which may be on a device, and the readout a (N) before the step."""

    W0: Any
    a: Float[Array, "N"]


@dataclass(frozen=True)
class Batch:
    """Inputs X (rows × d), which may be on a device, noiseless labels and noisy labels y."""

    X: Any
    signal: Float[Array, "n"]
    y: Float[Array, "n"]


@dataclass(frozen=True)
class Gradient:
    """G = −∂L/∂W at W₀ (N × d), the residual r it used, and β = Xᵀr/n (d)."""

    G: Float[Array, "N d"]
    residual: Float[Array, "n"]
    beta: Float[Array, "d"]


def draw_teacher(problem: Problem, seed: int) -> Float[Array, "d"]:
    """β⋆, the first of several directions: uniform on the unit sphere of R^d, scaled to β⋆ᵀΣβ⋆ = 1 where x has a covariance."""
    g = stream(seed, "teacher").standard_normal(problem.d)
    return problem.law.normalised(_with_energies(problem, g / np.linalg.norm(g))[None])[0]


def draw_directions(problem: Problem, seed: int) -> Float[Array, "directions d"]:
    """The directions of the teacher as rows (directions × d), orthonormal in Σ; the first is `draw_teacher`'s."""
    if problem.directions == 1:
        return draw_teacher(problem, seed)[None]
    g = stream(seed, "teacher").standard_normal((problem.directions, problem.d))
    q, r = np.linalg.qr(g.T)
    rows = (q * np.sign(np.diag(r))).T
    rows[0] = _with_energies(problem, rows[0])
    return problem.law.normalised(rows)


def _with_energies(problem: Problem, beta: Float[Array, "d"]) -> Float[Array, "d"]:
    """The direction itself, or its signs with the energies that the law of the inputs fixes."""
    energies = problem.law.teacher
    return beta if energies is None else np.sign(beta) * np.sqrt(energies)


def labels(problem: Problem, directions: Float[Array, "directions d"], X: DeviceArray) -> Float[Array, "n"]:
    """The teacher's noiseless labels of the rows of X: σ⋆(Xβ⋆), or g of several coordinates."""
    if problem.directions > 1:
        return problem.target(project(X, directions.T))
    if on_host(X):  # on one thread: several blocks are drawn at a time
        return problem.target(np.einsum("ij,j->i", X, directions[0]))
    return problem.target(project(X, directions[0]))


def drawn_there(problem: Problem, backend: Backend) -> bool:
    """Whether the device itself makes weights and inputs of a problem."""
    return problem.law.plain and draws_itself(backend, problem.N * problem.d)


def in_order(tasks: Iterable[Callable[[], T]], problem: Problem, backend: Backend) -> Iterator[T]:
    """What the tasks draw, the next blocks while one is used: by threads of the host, or by the device beside its other work."""
    return drawn_ahead(tasks, backend, there=drawn_there(problem, backend))


def joined(batches: Iterable[Batch], backend: Backend) -> Iterator[Batch]:
    """Batches as they are on the host; on a device as many in one as a tile of its products has rows."""
    if backend.on_host:
        yield from batches
        return
    waiting: list[Batch] = []
    for batch in batches:
        if waiting and sum(one.y.size for one in (*waiting, batch)) > tiles.DEVICE_ROWS:
            yield _in_one(waiting, backend)
            waiting = []
        waiting.append(batch)
    yield _in_one(waiting, backend)


def _in_one(batches: list[Batch], backend: Backend) -> Batch:
    if len(batches) == 1:
        return batches[0]
    labels = (np.concatenate([getattr(batch, name) for batch in batches]) for name in ("signal", "y"))
    return Batch(backend.xp.concat([backend.put(batch.X) for batch in batches], axis=0), *labels)


def weight_tasks(problem: Problem, seed: int, backend: Backend = HOST) -> list[Callable[[], Array]]:
    """Functions that draw the row blocks of W₀, where the backend likes them."""
    blocks = row_blocks(problem.N, problem.d)

    def draw(k: int) -> Array:
        size, generator = blocks[k].stop - blocks[k].start, stream(seed, "weights", block=k)
        W = draw_normals(generator, size, problem.d, backend, there=drawn_there(problem, backend))
        W /= np.sqrt(problem.d) if problem.weights != "sphere" else _lengths(W, backend)[:, None]
        return W

    return [partial(draw, k) for k in range(len(blocks))]


def _lengths(W: Any, backend: Backend) -> Any:
    return np.sqrt(np.einsum("ij,ij->i", W, W)) if on_host(W) else backend.xp.sqrt(backend.xp.sum(W * W, axis=1))


def draw_weights(
    problem: Problem, seed: int, backend: Backend = HOST, drawn: Iterator[Array] | None = None
) -> DeviceArray:
    """W₀ with unit rows (or Gaussian ones), on the backend; `drawn` are its blocks if somebody has them already."""
    blocks = row_blocks(problem.N, problem.d)
    drawn = in_order(weight_tasks(problem, seed, backend), problem, backend) if drawn is None else drawn
    if len(blocks) == 1:
        (W,) = drawn
        return backend.put(W)
    W0 = backend.empty(problem.N, problem.d)
    for rows, W in zip(blocks, drawn, strict=True):
        W0[rows, :] = backend.put(W)
    return W0


def draw_readout(problem: Problem, seed: int) -> Float[Array, "N"]:
    """The readout a, of size 1/√N."""
    generator, N = stream(seed, "readout"), problem.N
    if problem.readout == "gaussian":
        a = generator.standard_normal(N)
    elif problem.readout == "rademacher":
        a = generator.choice([-1.0, 1.0], N)
    else:
        a = np.ones(N)
    return a / np.sqrt(N)


def draw_network(problem: Problem, seed: int) -> Network:
    """W₀ and the readout of a seed."""
    return network_on(HOST, problem, seed)


def network_on(backend: Backend, problem: Problem, seed: int) -> Network:
    """The same, with W₀ on the backend."""
    return Network(draw_weights(problem, seed, backend), draw_readout(problem, seed))


def draw_inputs(problem: Problem, generator: np.random.Generator, rows: int, backend: Backend = HOST) -> Any:
    """`rows` samples of the law `problem.inputs`, as rows, where the backend likes them; every law has E|x|² = d."""
    X = device_normals(generator, rows, problem.d, backend) if drawn_there(problem, backend) else None
    if X is None:
        X = backend.host_empty(rows, problem.d)
        problem.law.fill(generator, X)
    return X


def draw_batch(problem: Problem, seed: int, inputs: Role, noise: Role | None, rows: int, part: int = 0) -> Batch:
    """`rows` fresh samples; without a noise stream y is the noiseless signal. `part` as in `stream`."""
    return batch_on(HOST, problem, seed, inputs, noise, rows, part)


def batch_on(
    backend: Backend, problem: Problem, seed: int, inputs: Role, noise: Role | None, rows: int, part: int = 0
) -> Batch:
    """The same, with X where the backend likes it."""
    tasks, blocks = batch_tasks(problem, seed, inputs, noise, rows, part, backend), row_blocks(rows, problem.d)
    drawn = in_order(tasks, problem, backend)
    if len(blocks) == 1:
        (batch,) = drawn
        return batch
    X, signal, y = backend.empty(rows, problem.d), np.empty(rows), np.empty(rows)
    for block, batch in zip(blocks, drawn, strict=True):
        X[block, :], signal[block], y[block] = backend.put(batch.X), batch.signal, batch.y
    return Batch(X, signal, y)


def batch_tasks(
    problem: Problem, seed: int, inputs: Role, noise: Role | None, rows: int, part: int = 0, backend: Backend = HOST
) -> list[Callable[[], Batch]]:
    """Functions that draw the blocks of `draw_batch`, where the backend likes them."""
    directions = draw_directions(problem, seed)
    errors = None if noise is None else problem.noise * draw_noise(seed, noise, rows, part)
    blocks = row_blocks(rows, problem.d)

    def draw(k: int) -> Batch:
        size = blocks[k].stop - blocks[k].start
        X = draw_inputs(problem, stream(seed, inputs, part, k), size, backend)
        signal = labels(problem, directions, X)
        return Batch(X, signal, signal if errors is None else signal + errors[blocks[k]])

    return [partial(draw, k) for k in range(len(blocks))]


def draw_noise(seed: int, role: Role, rows: int, part: int = 0) -> Float[Array, "n"]:
    """The label noise of a batch in units of its standard deviation."""
    return stream(seed, role, part).standard_normal(rows)


def draw_probes(problem: Problem, seed: int) -> Float[Array, "n probes"]:
    """The label noise of the ridge regression, and further noise of length √n where its average is wanted."""
    own = draw_noise(seed, ridge_roles(problem)[1], problem.n)[:, None]
    if problem.noise == 0 or not problem.fresh:  # nothing to average, or features that know the noise
        return own
    more = stream(seed, "probe", part=1).standard_normal((problem.n, PROBES))
    return np.hstack([own, more * np.sqrt(problem.n / (more**2).sum(0))])


def held_out_tiles(
    problem: Problem, seed: int, rows: int, backend: Backend = HOST, drawn: Iterator[Batch] | None = None
) -> Iterator[tuple[Any, Array]]:
    """Fresh test inputs and their noiseless labels, tile by tile; `drawn` as in `draw_weights`."""
    tasks = batch_tasks(problem, seed, "test_inputs", None, rows, backend=backend)
    drawn = in_order(tasks, problem, backend) if drawn is None else drawn
    for batch in drawn:
        for part in backend.tiles(batch.y.size, problem.N):
            yield batch.X[part], batch.signal[part]


def gradient(problem: Problem, network: Network, batch: Batch | Iterable[Batch], backend: Backend = HOST) -> Gradient:
    """The negative gradient of (1/2n)‖y − σ(XWᵀ)a‖² at W₀, row tile by row tile, as host arrays.

    G = (1/n) Σ_i r_i [a ∘ σ'(W₀x_i)] x_iᵀ with r = y − σ(XW₀ᵀ)a, or r = y for the labels-only gradient.
    """
    batches = [batch] if isinstance(batch, Batch) else batch
    G, (Xr, _), residual = gradient_sums(problem, network.W0, network.a, batches, backend)
    n = residual.size
    G *= 1 / n
    return Gradient(backend.get(G), residual, Xr / n)


def gradient_sums(
    problem: Problem, W0: DeviceArray, a: Float[Array, "N"], batches: Iterable[Batch], backend: Backend
) -> tuple[DeviceArray, Float[Array, "2 d"], Array]:
    """The sums nG (on the backend), Xᵀr and Xᵀy, and r over samples; parts of a batch may be computed apart and added."""
    sigma = problem.sigma

    def weighted(z: Array, r: Array, out: Array | None = None) -> Array:
        return sigma.derivative(z) * r if out is None else np.multiply(sigma.derivative(z), r, out=out)

    W, readout = backend.put(W0), backend.put(a)
    G, beta = backend.zeros(*W0.shape), np.zeros((2, W0.shape[1]))
    residual: list[Array] = []
    for batch in batches:
        for rows in backend.tiles(batch.y.size, a.size):
            X, y = backend.put(batch.X[rows]), backend.put(batch.y[rows])
            pre, r = X @ W.T, y
            if problem.gradient == "full":
                r = y - map_tiles(sigma, pre) @ readout
            backend.add_product(G, map_tiles(weighted, pre, r[:, None]).T, X)
            beta += [backend.get(X.T @ r), backend.get(X.T @ y)]
            residual.append(backend.get(r))
    G *= readout[:, None]
    return G, beta, np.concatenate(residual)


def ridge_roles(problem: Problem) -> tuple[Role, Role]:
    """The streams of inputs and noise of the ridge regression: its own, or those of the step."""
    return ("ridge_inputs", "ridge_noise") if problem.fresh else ("step_inputs", "step_noise")


def step_batch(problem: Problem, seed: int, step: int = 0) -> Batch:
    """The samples of a step, counted from 0; a reused batch is the first one."""
    return draw_batch(problem, seed, "step_inputs", "step_noise", problem.step_samples, _part(problem, step))


def _part(problem: Problem, step: int) -> int:
    return step if problem.batch == "fresh" else 0


def step_gradient(problem: Problem, network: Network, seed: int, backend: Backend = HOST) -> Gradient:
    """The first gradient, on the seed's own batch of the step, drawn block by block, as host arrays."""
    tasks = step_tasks(problem, seed, backend=backend)
    return gradient(problem, network, in_order(tasks, problem, backend), backend)


def step_tasks(problem: Problem, seed: int, step: int = 0, backend: Backend = HOST) -> list[Callable[[], Batch]]:
    """Functions that draw the blocks of `step_batch`."""
    rows, part = problem.step_samples, _part(problem, step)
    return batch_tasks(problem, seed, "step_inputs", "step_noise", rows, part, backend)


def weights_path(
    problem: Problem, network: Network, seed: int, eta: float, backend: Backend = HOST
) -> Iterator[Float[Array, "N d"]]:
    """W₁, W₂, … after each of `problem.steps` steps W_{t+1} = W_t + η_t G(W_t); a stays at its initial value.

    `eta` takes the place of the problem's own: steps of different sizes keep their proportions.
    """
    W = network.W0
    for step, size in enumerate(problem.etas):
        batches = in_order(step_tasks(problem, seed, step, backend), problem, backend)
        G = gradient(problem, Network(W, network.a), batches, backend).G
        G *= eta * (size / problem.eta if problem.eta else 1.0)
        G += W
        W = G
        yield W


def trained_weights(
    problem: Problem, network: Network, seed: int, eta: float | None = None, backend: Backend = HOST
) -> Float[Array, "N d"]:
    """W after the last step, of size η of the problem unless given."""
    *_, W = weights_path(problem, network, seed, problem.eta if eta is None else eta, backend)
    return W


def at_exponents(problem: Problem, exponents: Iterable[float]) -> list[Problem]:
    """The problem with each exponent of the step; with its own it is itself."""
    own = problem.step.exponent
    return [problem if alpha == own else problem.at(exponent=float(alpha)) for alpha in exponents]


def drawn_weights(
    problems: Sequence[Problem], network: Network, seed: int, backend: Backend, step: Gradient | None = None
) -> list[Callable[[], DeviceArray]]:
    """W₀, and W of problems that differ in the size of their step, on the device, made when asked for; after one step from one G."""
    W0 = backend.put(network.W0)
    if problems[0].steps > 1:
        each = [backend.put(trained_weights(problem, network, seed, backend=backend)) for problem in problems]
        return [partial(_same, W) for W in (W0, *each)]
    G = backend.put((step or step_gradient(problems[0], network, seed, backend)).G)
    return [partial(_same, W0), *(partial(_moved, W0, G, problem.eta) for problem in problems)]


def _same(W: DeviceArray) -> DeviceArray:
    return W


def _moved(W: DeviceArray, G: DeviceArray, eta: float) -> DeviceArray:
    return eta * G + W


def require_single(problem: Problem, what: str) -> None:
    """Refuse, in a sentence, a problem of several steps or directions, or of one batch for both layers, for `what`."""
    if not problem.fresh:
        raise InputError(f"{what} is defined for fresh samples of the ridge regression, got fresh=False")
    if problem.steps > 1 or problem.directions > 1:
        raise InputError(
            f"{what} is defined for one step and one direction of the teacher, "
            f"got steps = {problem.steps}, directions = {problem.directions}"
        )
