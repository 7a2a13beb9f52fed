"""Features after steps of every size η, σ(XW₀ᵀ + ηXGᵀ): two matrix products serve all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from onestride._backend import current, map_tiles, tiles
from onestride._numerics import Array
from onestride.problem import Problem
from onestride.simulate.network import Network, trained_weights
from onestride.simulate.shifted import Rows


@dataclass(frozen=True)
class Trained:
    """W₀ and the gradient G of one step, W = W₀ + ηG for every η; after several steps the final W of `each` η."""

    problem: Problem
    etas: Array
    W0: Array
    G: Any = None
    each: tuple[Array, ...] = ()


def train(problem: Problem, network: Network, etas: Array, seed: int, gradient: Callable[[], Any]) -> Trained:
    """What the features of every η need; G rests on the host when the device cannot hold it beside the features."""
    if problem.steps > 1:
        each = tuple(trained_weights(problem, network, seed, eta) if eta else network.W0 for eta in etas)
        return Trained(problem, etas, network.W0, each=each)
    G = gradient()
    n, N, d = problem.n, problem.N, problem.d
    if 8.0 * (2 * n * N + N * d + 2 * min(n, N) ** 2) > 0.9 * current().free_memory():
        G = current().get(G)
    return Trained(problem, etas, network.W0, G)


def fitted_rows(trained: Trained, X: Array) -> Iterator[Rows]:
    """For each η the rows that the ridge regression reads: those of Fᵀ when n ≤ N, else of F, the longer axis first.

    F is stored, in the same memory for every η, unless a device is too small for it; then it is made anew from the
    two products whenever it is read.
    """
    sigma, backend = trained.problem.sigma, current()
    dual = X.shape[0] <= trained.W0.shape[0]
    if trained.each:
        for W in trained.each:
            F = _product(W, X, dual)
            yield _stored(map_tiles(sigma, F, out=F))
        return
    pre, shift = _product(trained.W0, X, dual), _product(trained.G, X, dual)
    length, width = pre.shape
    room = backend.on_host or backend.free_memory() > 8.0 * length * width + 20.0 * width**2
    F = backend.empty(length, width) if room else None
    for eta in trained.etas:
        f = _after_step(sigma, float(eta))
        if F is None:
            yield Rows(length, width, lambda rows, f=f: f(pre[rows, :], shift[rows, :]))
        else:
            yield _stored(map_tiles(f, pre, shift, out=F))


def features(trained: Trained) -> Callable[[Array], Iterator[Any]]:
    """A function from inputs to the features after each η, one after the other, on the device."""
    sigma, backend = trained.problem.sigma, current()
    if trained.each:
        return lambda X: (map_tiles(sigma, backend.put(X) @ backend.put(W).T) for W in trained.each)
    W0, G = backend.put(trained.W0), backend.put(trained.G)

    def of(X: Array) -> Iterator[Any]:
        inputs = backend.put(X)
        pre, shift = inputs @ W0.T, inputs @ G.T
        F = backend.empty(*pre.shape)  # filled again for each η
        for eta in trained.etas:
            yield map_tiles(_after_step(sigma, float(eta)), pre, shift, out=F)

    return of


def _after_step(sigma: Callable[[Any], Any], eta: float) -> Callable[[Any, Any], Any]:
    return lambda pre, shift: sigma(pre + eta * shift)


def _stored(B: Any) -> Rows:
    length, width = B.shape
    return Rows(length, width, lambda rows: B[rows, :])


def _product(W: Any, X: Array, dual: bool) -> Any:
    """WXᵀ (dual) or XWᵀ; the inputs go to the device block by block."""
    backend = current()
    W = backend.put(W)
    if backend.on_host:
        X = backend.put(X)
        return W @ X.T if dual else X @ W.T
    n, N = X.shape[0], W.shape[0]
    out = backend.empty(N, n) if dual else backend.empty(n, N)
    for rows in tiles(n, N):
        inputs = backend.put(X[rows])
        if dual:
            out[:, rows] = W @ inputs.T
        else:
            out[rows, :] = inputs @ W.T
    return out
