"""Test error with less luck of the test samples: part of it from exact moments.

    E(g − f̂)² = mean over samples of [(g − f̂)² − (g − pᵀψ)²]  +  E(g − pᵀψ)²,      E(g − pᵀψ)² = E g² − 2pᵀE[gψ] + |p|²

for any p that has not seen these samples: it is the regression of f̂ on ψ over the other half of them, so each half serves
the other and nothing is biased. ψ are orthonormal functions of a Gaussian x: Hermite polynomials of (z, ζ), see `known`, and
t, t·z_l, t·ζ with t ∝ âᵀWx, freed of these: the rest of the linear part of f̂, of which there is little else that is large.
All sums needed are the entries of one small Gram matrix of the columns (ψ, g, g − f̂_g, f̂_u, λ∂f̂_g/∂λ) for each half.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from onestride._backend import Backend, DeviceArray
from onestride._numerics import Array, Float, Int
from onestride.simulation.features import Trained, features
from onestride.simulation.known import KnownMoments
from onestride.simulation.ridge import SplitPath

SAMPLES_PER_FUNCTION = 40  # fewer than that, and p would be more luck than fit
G, GAP, NOISE, SLOPE = range(4)  # the last four columns


@dataclass(frozen=True)
class HeldOut:
    """Sums over each half of the test samples, axes (halves, networks, penalties, columns, columns).

    `probes` are mean squares of the fits of further noise of length √n. A stack of seeds has its axis after the networks'.
    """

    sums: Float[Array, "2 networks *s penalties columns columns"]
    rows: tuple[int, int]
    known: KnownMoments
    probes: Float[Array, "probes networks *s penalties"]

    @property
    def functions(self) -> int:
        """How many columns are ψ."""
        return self.sums.shape[-1] - 4

    def power(self, i: int, j: int) -> Float[Array, "networks *s penalties"]:
        """Mean of the product of two of the last four columns."""
        at = self.functions
        return self.sums[..., at + i, at + j].sum(0) / sum(self.rows)

    def with_noise(self, noise: float) -> HeldOut:
        """The same with f̂ fitted to g + σu in the place of f̂_g."""
        turn = np.eye(self.sums.shape[-1])
        turn[self.functions + NOISE, self.functions + GAP] = -noise
        return replace(self, sums=turn.T @ self.sums @ turn)

    def noise(self, unit: float | Float[Array, "*s 1"]) -> Float[Array, "networks *s penalties"]:
        """E f̂_u² of unit noise, averaged over u, of length √(n/unit), and the probes."""
        return (unit * self.power(NOISE, NOISE) + self.probes.sum(0)) / (1 + self.probes.shape[0])

    @cached_property
    def expansions(self) -> Float[Array, "2 2 networks *s penalties functions"]:
        """Coefficients of f̂_g and of its slope in ψ (first axis), by each half of the samples (second)."""
        m, at = self.functions, self.functions
        gram, taught = self.sums[..., :m, :m], self.sums[..., :m, at + G] - self.sums[..., :m, at + GAP]
        right = np.stack([taught, self.sums[..., :m, at + SLOPE]], axis=-1)
        gram = gram + 1e-9 * np.trace(gram, axis1=-2, axis2=-1)[..., None, None] * np.eye(m)  # t may be nothing
        return np.moveaxis(cast("Array", np.linalg.solve(gram, right)), -1, 0)

    @property
    def usable(self) -> bool:
        """Whether there are functions with known moments, and samples enough to fit them."""
        return self.functions > 0 and min(self.rows) >= SAMPLES_PER_FUNCTION * self.functions

    def error(self) -> Float[Array, "networks *s penalties"]:
        """E(g − f̂_g)², from exact moments as far as they are known."""
        if not self.usable or self.known.averages is None:
            return self.power(GAP, GAP)
        m, at, known = self.functions, self.functions, self.known.averages
        taught = np.concatenate([known.taught, np.zeros(m - known.taught.size)])
        total = self.sums[..., at + GAP, at + GAP].sum(0)
        for half, other in ((0, 1), (1, 0)):
            p, S = self.expansions[0, other], self.sums[half]
            fitted = np.einsum("...i,...ij,...j->...", p, S[..., :m, :m], p)
            total = total - (S[..., at + G, at + G] - 2 * (p * S[..., :m, at + G]).sum(-1) + fitted)
            total = total + self.rows[half] * (known.power - 2 * p @ taught + (p * p).sum(-1))
        return total / sum(self.rows)


def held_out(
    trained: Trained, paths: list[SplitPath], tiles: Iterator[tuple[DeviceArray, DeviceArray]], known: KnownMoments
) -> HeldOut:
    """Sum over the test samples, on the device; predictions never see a label."""
    plan, backend = trained.plan, trained.plan.backend
    of, half, start, networks = features(trained), plan.tests // 2, 0, range(len(paths))
    coordinates = backend.put(known.coordinates.mT, "float64")
    across = [backend.put(one, "float64") for one in _across(trained, paths, known)]
    sums: list[list[Any]] = [[0.0, 0.0] for _ in paths]
    probes: list[Any] = [0.0 for _ in paths]
    for X, signal in tiles:
        inputs, cut = backend.put(X, "float64"), min(max(half - start, 0), X.shape[-2])
        start += X.shape[-2]
        z = None if known.averages is None else inputs @ coordinates
        shared = [backend.put(signal, "float64")[..., None]]
        if z is not None:
            shared.append(backend.put(known.psi(backend.get(z)), "float64"))
        for j, F in zip(networks, of(inputs), strict=True):
            found = backend.put(F @ paths[j].coefficients, "float64")
            columns, more = _columns(shared, found, z, inputs, across[j], backend)
            probes[j] = probes[j] + more
            for i, part in enumerate((columns[..., :cut, :], columns[..., cut:, :])):
                sums[j][i] = sums[j][i] + backend.xp.matrix_transpose(part) @ part
    whole = np.stack([[backend.get(sums[j][i]) for j in networks] for i in (0, 1)])
    order, rows = _places(known, paths[0].loss.shape[-1]), (half, plan.tests - half)
    squares = np.stack([backend.get(one) for one in probes]) / plan.tests
    squares = np.moveaxis(squares.reshape(*squares.shape[:-1], -1, order.shape[0]), -2, 0)
    return HeldOut(whole[..., order[:, :, None], order[:, None, :]], rows, known, squares)


def _columns(
    shared: list[DeviceArray],
    found: DeviceArray,
    z: DeviceArray | None,
    X: DeviceArray,
    across: DeviceArray,
    backend: Backend,
) -> tuple[DeviceArray, DeviceArray]:
    """For each sample g, ψ of (z, ζ); at all penalties g − f̂_g, f̂_u, λ∂f̂_g/∂λ, t, t·z, t·ζ. And Σ f̂² of further noise."""
    p = across.shape[-1]
    own = [shared[0] - found[..., :p], found[..., p : 3 * p]]
    if z is not None:
        t = X @ across
        own += [t, *(t * z[..., k : k + 1] for k in range(z.shape[-1]))]
    probes = backend.xp.sum(found[..., 3 * p :] ** 2, axis=-2)
    return backend.xp.concat([*shared, *own], axis=-1), probes


def _places(known: KnownMoments, penalties: int) -> Int[Array, "penalties columns"]:
    """Which columns are those of a penalty, in the order ψ, t, t·z, t·ζ, g, g − f̂_g, f̂_u, λ∂f̂_g/∂λ."""
    shared = 1 + (0 if known.averages is None else known.averages.taught.size)
    own = 3 + (0 if known.averages is None else 1 + known.coordinates.shape[-2])
    first = [shared + i * penalties for i in (*range(3, own), 0, 1, 2)]
    each = [
        [*range(1, shared), *(i + q for i in first[:-3]), 0, *(i + q for i in first[-3:])] for q in range(penalties)
    ]
    return np.array(each)


def _across(trained: Trained, paths: list[SplitPath], known: KnownMoments) -> list[Float[Array, "*s d penalties"]]:
    """ℓ of t = ℓᵀx for each network: âᵀW, uncorrelated with (z, ζ) and of variance 1; 0 where nothing is left of it."""
    penalties, backend = paths[0].loss.shape[-1], trained.plan.backend
    if known.averages is None:
        return [np.zeros((known.problem.d, penalties)) for _ in paths]
    turned, fits = backend.xp.matrix_transpose, [path.coefficients[..., :penalties] for path in paths]
    if trained.each:
        images = [backend.get(backend.put(W).T @ a) for W, a in zip(trained.each, fits, strict=True)]
    else:  # all networks at once: W₀ and G are read once
        together = backend.xp.concat(fits, axis=-1)
        before, moved = (backend.get(turned(W) @ together) for W in (trained.untrained(), trained.step()))
        images = [
            before[..., j * penalties : (j + 1) * penalties]
            + float(eta) * moved[..., j * penalties : (j + 1) * penalties]
            for j, eta in enumerate(trained.etas)
        ]
    return [_unit(known, ell) for ell in images]


def _unit(known: KnownMoments, ell: Float[Array, "*s d penalties"]) -> Float[Array, "*s d penalties"]:
    rows = known.across(ell).mT
    size = np.sqrt(np.maximum((rows * known.image(rows)).sum(-1), 0.0))[..., None]
    some = size > 1e-12 * np.abs(rows).max(axis=(-2, -1), initial=0.0, keepdims=True)
    return np.where(some, rows / np.where(size > 0, size, 1.0), 0.0).mT
