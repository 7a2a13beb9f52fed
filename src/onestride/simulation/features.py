"""Features after steps of every size η, σ(XW₀ᵀ + ηXGᵀ): two matrix products serve all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from onestride._backend import DEVICE_ROWS, current, fits, map_tiles, tiles
from onestride._errors import InputError
from onestride._numerics import Array
from onestride.problem import Problem
from onestride.simulation.network import Batch, draw_network, trained_weights
from onestride.simulation.shifted import Rows


@dataclass(frozen=True)
class Trained:
    """W₀ and the gradient G of one step, W = W₀ + ηG for every η; after several steps the final W of `each` η.

    A device that cannot hold them beside the features has neither: W₀ (None) is drawn anew when it is needed and G
    rests on the host.
    """

    problem: Problem
    etas: Array
    seed: int
    W0: Any = None
    G: Any = None
    each: tuple[Array, ...] = ()

    def untrained(self) -> Any:
        """W₀ on the device."""
        return draw_network(self.problem, self.seed, to_host=False).W0 if self.W0 is None else current().put(self.W0)


def train_once(problem: Problem, etas: Array, seed: int, W0: Any, G: Any) -> Trained:
    """The result of one step; W₀ and G stay on the device if it has room for them beside the features."""
    if holds_weights(problem):
        return Trained(problem, etas, seed, W0, G)
    return Trained(problem, etas, seed, None, current().get(G))


def train_further(problem: Problem, etas: Array, seed: int) -> Trained:
    """The result of several steps."""
    network = draw_network(problem, seed)
    each = tuple(trained_weights(problem, network, seed, eta) if eta else network.W0 for eta in etas)
    return Trained(problem, etas, seed, each=each)


def holds_weights(problem: Problem) -> bool:
    """Whether the device can hold W₀ and G beside the features, judged by its whole memory."""
    weights = 16.0 * problem.N * problem.d
    return current().on_host or device_memory(problem) + weights < 0.97 * current().total_memory()


def device_memory(problem: Problem) -> float:
    """Bytes that X̃W₀ᵀ, X̃Gᵀ, a float32 Gram matrix, its factor and a few tiles take on a device."""
    n, N = problem.n, problem.N
    return 8.0 * (2 * n * N + min(n, N) ** 2 + 6 * DEVICE_ROWS * min(n, N))


def fitted_rows(trained: Trained, samples: Callable[[], Iterator[Batch]]) -> Iterator[Rows]:
    """For each η the rows that the ridge regression reads: those of Fᵀ when n ≤ N, else of F, the longer axis first.

    `samples` gives the blocks of X̃ anew each time. F is stored, in the same memory for every η, unless there is no room
    for it; then it is made anew from the two products whenever it is read.
    """
    sigma, backend = trained.problem.sigma, current()
    for W in trained.each:
        (F,) = _products([W], samples, trained.problem.n)
        yield _stored(map_tiles(sigma, F, out=F))
    if trained.each:
        return
    if trained.W0 is None:  # one at a time: there is no room for both
        (pre,) = _products([trained.untrained()], samples, trained.problem.n)
        (shift,) = _products([trained.G], samples, trained.problem.n)
    else:
        pre, shift = _products([trained.W0, trained.G], samples, trained.problem.n)
    length, width = pre.shape
    F = backend.empty(length, width) if fits(8.0 * length * width + 20.0 * width**2) else None
    for eta in trained.etas:
        f = _after_step(sigma, float(eta))
        if F is None:
            yield Rows(length, width, lambda rows, f=f: map_tiles(f, pre[rows, :], shift[rows, :]))
        else:
            yield _stored(map_tiles(f, pre, shift, out=F))


def feature_rows(problem: Problem, X: Array, W: Any) -> Rows:
    """The rows of F = σ(XWᵀ), or of Fᵀ when n ≤ N, the longer axis first; made anew when there is no room for them."""
    backend, sigma = current(), problem.sigma
    left, right = backend.put(X), backend.put(W)
    if left.shape[0] <= right.shape[0]:
        left, right = right, left

    def tile(rows: slice) -> Any:
        F = left[rows, :] @ right.T
        return map_tiles(sigma, F, out=F)

    length, width = left.shape[0], right.shape[0]
    return (
        _stored(tile(slice(0, length))) if fits(8.0 * length * width + 20.0 * width**2) else Rows(length, width, tile)
    )


def features(trained: Trained) -> Callable[[Array], Iterator[Any]]:
    """A function from inputs to the features after each η, one after the other, on the device."""
    sigma, backend = trained.problem.sigma, current()
    if trained.each:
        return lambda X: (map_tiles(sigma, backend.put(X) @ backend.put(W).T) for W in trained.each)
    W0, G = trained.untrained(), backend.put(trained.G)

    def of(X: Array) -> Iterator[Any]:
        inputs = backend.put(X)
        pre, shift = inputs @ W0.T, inputs @ G.T
        F = backend.empty(*pre.shape)  # filled again for each η
        for eta in trained.etas:
            yield map_tiles(_after_step(sigma, float(eta)), pre, shift, out=F)

    return of


def overflow(problem: Problem, eta: float) -> InputError:
    """The sentence for features that are not finite numbers."""
    return InputError(
        f"activation {problem.sigma.name!r} overflows on the features of a step of size η = {eta:.4g}; "
        "use a smaller exponent or constant"
    )


def _after_step(sigma: Callable[..., Any], eta: float) -> Callable[..., Any]:
    def f(pre: Any, shift: Any, out: Any = None) -> Any:
        z = eta * shift if out is None else np.multiply(shift, eta, out=out)
        z += pre
        return sigma(z) if out is None else sigma(z, out=out)

    return f


def _stored(B: Any) -> Rows:
    length, width = B.shape
    return Rows(length, width, lambda rows: B[rows, :])


def _products(weights: list[Any], samples: Callable[[], Iterator[Batch]], n: int) -> list[Any]:
    """WXᵀ when n ≤ N, else XWᵀ, for each W, in one pass over the blocks of X."""
    backend = current()
    weights = [backend.put(W) for W in weights]
    N = weights[0].shape[0]
    out: list[Any] = []
    start = 0
    for batch in samples():
        if batch.y.size == n and backend.on_host:
            X = backend.put(batch.X)
            return [W @ X.T if n <= N else X @ W.T for W in weights]
        out = out or [backend.empty(N, n) if n <= N else backend.empty(n, N) for _ in weights]
        for part in tiles(batch.y.size, N):
            X, rows = backend.put(batch.X[part]), slice(start + part.start, start + part.stop)
            for W, product in zip(weights, out, strict=True):
                if n <= N:
                    product[:, rows] = W @ X.T
                else:
                    product[rows, :] = X @ W.T
        start += batch.y.size
    return out
