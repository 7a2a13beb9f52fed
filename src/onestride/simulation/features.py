"""Features after steps of every size η, σ(XW₀ᵀ + ηXGᵀ): two matrix products serve all of them."""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np

from onestride._backend import Backend, DeviceArray, map_tiles, moved
from onestride._errors import InputError
from onestride._numerics import Array
from onestride.functions import Function
from onestride.problem import Problem, expect
from onestride.simulation.cost import Plan
from onestride.simulation.network import Batch, draw_network, draw_weights, joined, trained_weights
from onestride.simulation.rows import Rows

P = ParamSpec("P")
T = TypeVar("T")


@dataclass
class Trained:
    """W₀ and the gradient G of one step, W = W₀ + ηG for every η; after several steps the final W of `each` η.

    A device that cannot hold them beside the features has neither while it fits: W₀ (None) is drawn anew when it is needed
    and G rests on the host, where `copied` brings it meanwhile. Of several seeds at once both have one more axis, the first.
    """

    plan: Plan
    etas: Array
    seeds: tuple[int, ...]
    W0: DeviceArray | None = None
    G: DeviceArray | None = None
    each: tuple[Array, ...] = ()
    stacked: bool = False
    copied: Future[Array] | None = None

    @property
    def seed(self) -> int:
        """The only one."""
        (seed,) = self.seeds
        return seed

    def drawn(self, draw: Callable[[int], Array]) -> Array:
        """What a seed draws; of a stack what each does."""
        return np.stack([draw(seed) for seed in self.seeds]) if self.stacked else draw(self.seed)

    def untrained(self) -> DeviceArray:
        """W₀ on the device."""
        backend = self.plan.backend
        return draw_weights(self.plan.problem, self.seed, backend) if self.W0 is None else backend.put(self.W0)

    def step(self) -> DeviceArray:
        """G on the device."""
        assert self.G is not None, "after several steps there is no one gradient"
        return self.plan.backend.put(self.G)

    def set_aside(self) -> None:
        """W₀ is forgotten, and G on the host."""
        assert self.copied is not None, "the plan keeps the weights"
        self.W0, self.G, self.copied = None, self.copied.result(), None

    def at_hand(self) -> Trained:
        """With W₀ and G on the device, where the features are gone and there is room for them again."""
        return self if self.each else replace(self, W0=self.untrained(), G=self.step())

    def after(self, eta: float) -> DeviceArray:
        """W = W₀ + ηG on the device, made there row by row: nothing else of its size is."""
        assert self.G is not None
        backend = self.plan.backend
        W = self.untrained() if self.W0 is None else backend.copy(self.untrained())
        for rows in backend.tiles(*W.shape):
            W[rows, :] = W[rows, :] + eta * backend.put(self.G[rows, :])
        return W


def train_further(plan: Plan, etas: Array, seed: int) -> Trained:
    """The result of several steps."""
    problem, network = plan.problem, draw_network(plan.problem, seed)
    each = (trained_weights(problem, network, seed, eta, plan.backend) if eta else network.W0 for eta in etas)
    return Trained(plan, etas, (seed,), each=tuple(each))


def fitted_rows(trained: Trained, samples: Callable[[], Iterator[Batch]]) -> Iterator[Rows]:
    """For each η the rows that the ridge regression reads: those of Fᵀ when n ≤ N, else of F, the longer axis first.

    `samples` gives the blocks of X̃ anew each time. F is stored, in the same memory for every η (in turn, where several are
    fitted at once), unless there is no room for it; then it is made anew from the two products whenever it is read, or from X̃ and W if these do not fit either.
    """
    plan, backend = trained.plan, trained.plan.backend
    sigma, n = plan.problem.sigma, plan.problem.n
    for W in trained.each:
        (pre,) = _products([W], samples, n, backend)
        yield Rows.stored(map_tiles(sigma, pre, out=pre), backend)
    if trained.each:
        return
    if not plan.stores_products:
        yield from _rows_of_weights(trained, samples)
        return
    if plan.keeps_weights:
        pre, shift = _products([trained.untrained(), trained.step()], samples, n, backend)
    else:  # one at a time: there is no room for both beside both weights
        (pre,) = _products([trained.untrained()], samples, n, backend)
        trained.W0 = None
        (shift,) = _products([trained.step()], samples, n, backend)
        trained.set_aside()
    length, width = pre.shape
    F = [backend.empty(length, width) for _ in range(plan.networks_at_once)] if plan.stores_features else []
    for k, eta in enumerate(trained.etas):
        f = after_step(sigma, float(eta))
        if F:
            yield Rows.stored(map_tiles(f, pre, shift, out=F[k % len(F)]), backend)
        else:
            yield Rows(length, width, lambda rows, f=f: map_tiles(f, pre[rows, :], shift[rows, :]), backend)


def _rows_of_weights(trained: Trained, samples: Callable[[], Iterator[Batch]]) -> Iterator[Rows]:
    """As `fitted_rows`, from X̃ and W on the device, where even two products of the shape of F have no room."""
    plan, backend = trained.plan, trained.plan.backend
    if not plan.keeps_weights:
        trained.set_aside()
    X, start = backend.empty(plan.problem.n, plan.problem.d), 0
    for batch in samples():
        X[start : start + batch.y.size, :] = backend.put(batch.X)
        start += batch.y.size
    for eta in trained.etas:
        W = trained.after(float(eta))
        yield feature_rows(plan.problem, X, W, backend, stored=plan.stores_features)
        del W


def feature_rows(problem: Problem, X: DeviceArray, W: DeviceArray, backend: Backend, *, stored: bool) -> Rows:
    """The rows of F = σ(XWᵀ), or of Fᵀ when n ≤ N, the longer axis first; made anew in every pass unless `stored`."""
    left, right = backend.put(X), backend.put(W)
    if left.shape[0] <= right.shape[0]:
        left, right = right, left

    def tile(rows: slice) -> DeviceArray:
        F = left[rows, :] @ right.T
        return map_tiles(problem.sigma, F, out=F)

    length, width = left.shape[0], right.shape[0]
    return Rows.stored(tile(slice(0, length)), backend) if stored else Rows(length, width, tile, backend)


def features(trained: Trained) -> Callable[[DeviceArray], Iterator[DeviceArray]]:
    """A function from inputs to the features after each η, one after the other, on the device."""
    sigma, backend = trained.plan.problem.sigma, trained.plan.backend
    if trained.each:
        return lambda X: (map_tiles(sigma, backend.put(X) @ backend.put(W).T) for W in trained.each)
    W0, G = trained.untrained(), trained.step()

    turned = backend.xp.matrix_transpose

    def of(X: DeviceArray) -> Iterator[DeviceArray]:
        inputs = backend.put(X)
        pre, shift = inputs @ turned(W0), inputs @ turned(G)
        F = backend.empty(*pre.shape)  # filled again for each η
        for eta in trained.etas:
            yield map_tiles(after_step(sigma, float(eta)), pre, shift, out=F)

    return of


def overflow(problem: Problem, eta: float) -> InputError:
    """The sentence for features, or their squares, that are not finite numbers."""
    return InputError(
        f"activation {problem.sigma.name!r} overflows on the features of a step of size η = {eta:.4g}, or the labels do; "
        "use a smaller exponent or constant, or smaller coefficients"
    )


def told_of_overflow(measure: Callable[Concatenate[Problem, P], T]) -> Callable[Concatenate[Problem, P], T]:
    """The same measurement, in which numbers beyond the largest end in that sentence and not in warnings."""

    @wraps(measure)
    def told(problem: Problem, *args: P.args, **options: P.kwargs) -> T:
        expect(problem)
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                return measure(problem, *args, **options)
            except OverflowError:
                raise overflow(problem, problem.eta) from None

    return told


def after_step(sigma: Function, eta: float) -> Callable[..., DeviceArray]:
    """A function from XW₀ᵀ and XGᵀ to the features after a step of size η."""

    def f(pre: Array, shift: Array, out: Array | None = None) -> Array:
        if out is None:
            return sigma(moved(pre, eta, shift))
        z = np.multiply(shift, eta, out=out)
        z += pre
        return sigma(z, out=out)

    return f


def _products(
    weights: list[DeviceArray], samples: Callable[[], Iterator[Batch]], n: int, backend: Backend
) -> list[DeviceArray]:
    """WXᵀ when n ≤ N, else XWᵀ, for each W, in one pass over the blocks of X."""
    weights = [backend.put(W) for W in weights]
    N = weights[0].shape[0]
    out: list[DeviceArray] = []
    start = 0
    for batch in joined(samples(), backend):
        if batch.y.size == n and backend.on_host:
            whole = backend.put(batch.X)
            return [W @ whole.T if n <= N else whole @ W.T for W in weights]
        out = out or [backend.empty(N, n) if n <= N else backend.empty(n, N) for _ in weights]
        for part in backend.tiles(batch.y.size, N):
            X, rows = backend.put(batch.X[part]), slice(start + part.start, start + part.stop)
            for W, product in zip(weights, out, strict=True):
                if n <= N:
                    product[:, rows] = W @ X.T
                else:
                    product[rows, :] = X @ W.T
        start += batch.y.size
    return out
