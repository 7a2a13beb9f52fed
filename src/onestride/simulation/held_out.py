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
from typing import cast

import numpy as np

from onestride._numerics import Array, Float
from onestride.simulation.features import Trained, features
from onestride.simulation.known import KnownMoments
from onestride.simulation.ridge import SplitPath

SAMPLES_PER_FUNCTION = 40  # fewer than that, and p would be more luck than fit
G, GAP, NOISE, SLOPE = range(4)  # the last four columns


@dataclass(frozen=True)
class HeldOut:
    """Sums over each half of the test samples, axes (halves, networks, penalties, columns, columns).

    `probes` are mean squares of the fits of further noise of length √n.
    """

    sums: Float[Array, "2 networks penalties columns columns"]
    rows: tuple[int, int]
    known: KnownMoments
    probes: Float[Array, "probes networks penalties"]

    @property
    def functions(self) -> int:
        """How many columns are ψ."""
        return self.sums.shape[-1] - 4

    def power(self, i: int, j: int) -> Float[Array, "networks penalties"]:
        """Mean of the product of two of the last four columns."""
        at = self.functions
        return self.sums[..., at + i, at + j].sum(0) / sum(self.rows)

    def with_noise(self, noise: float) -> HeldOut:
        """The same with f̂ fitted to g + σu in the place of f̂_g."""
        turn = np.eye(self.sums.shape[-1])
        turn[self.functions + NOISE, self.functions + GAP] = -noise
        return replace(self, sums=turn.T @ self.sums @ turn)

    def noise(self, unit: float) -> Float[Array, "networks penalties"]:
        """E f̂_u² of unit noise, averaged over u, of length √(n/unit), and the probes."""
        return (unit * self.power(NOISE, NOISE) + self.probes.sum(0)) / (1 + self.probes.shape[0])

    @cached_property
    def expansions(self) -> Float[Array, "2 2 networks penalties functions"]:
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

    def error(self) -> Float[Array, "networks penalties"]:
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
    trained: Trained, paths: list[SplitPath], tiles: Iterator[tuple[Array, Array]], known: KnownMoments
) -> HeldOut:
    """Sum over the test samples; predictions never see a label."""
    plan, backend, coordinates = trained.plan, trained.plan.backend, known.coordinates
    if not trained.each:
        trained = replace(trained, W0=trained.untrained(), G=trained.step())
    penalties, rows = paths[0].loss.shape[1], plan.tests
    of, half, start = features(trained), rows // 2, 0
    across = [_across(trained, j, path, known) for j, path in enumerate(paths)]
    shared = 1 + (0 if known.averages is None else known.averages.taught.size)
    own = 3 + (0 if known.averages is None else 1 + coordinates.shape[0])
    sums = np.zeros((2, len(paths), shared + own * penalties, shared + own * penalties))
    probes = np.zeros((paths[0].columns - 3, len(paths), penalties))
    for X, signal in tiles:
        cut = min(max(half - start, 0), signal.size)
        start += signal.size
        columns = np.empty((signal.size, shared + own * penalties))
        each = columns[:, shared:].reshape(signal.size, own, penalties)
        columns[:, 0] = signal
        if known.averages is not None:
            columns[:, 1:shared] = known.psi(X).T
        for j, F in enumerate(of(X)):
            found = backend.get(F @ paths[j].coefficients).reshape(signal.size, -1, penalties)
            probes[:, j] += (found[:, 3:] ** 2).sum(0)
            each[:, :3] = found[:, :3]
            each[:, 0] = signal[:, None] - each[:, 0]
            if known.averages is not None:
                t = X @ across[j]
                each[:, 3] = t
                each[:, 4:] = t[:, None, :] * (X @ coordinates.T)[:, :, None]
            for i, part in enumerate((columns[:cut], columns[cut:])):
                sums[i, j] += part.T @ part
    order = [
        [*range(1, shared), *(shared + (3 + i) * penalties + q for i in range(own - 3)), 0] for q in range(penalties)
    ]
    order = np.array([one + [shared + i * penalties + q for i in range(3)] for q, one in enumerate(order)])
    return HeldOut(sums[:, :, order[:, :, None], order[:, None, :]], (half, rows - half), known, probes / rows)


def _across(trained: Trained, j: int, path: SplitPath, known: KnownMoments) -> Float[Array, "d penalties"]:
    """ℓ of t = ℓᵀx: âᵀW, uncorrelated with (z, ζ) and of variance 1; 0 where nothing is left of it."""
    if known.averages is None:
        return np.zeros((known.problem.d, path.loss.shape[1]))
    backend, a = trained.plan.backend, path.coefficients[:, : path.loss.shape[1]]
    if trained.each:
        ell = backend.get(backend.put(trained.each[j]).T @ a)
    else:
        eta = float(trained.etas[j])
        ell = backend.get(trained.untrained().T @ a) + eta * backend.get(trained.step().T @ a)
    ell = np.stack([known.across(one) for one in ell.T])
    size = np.sqrt(np.maximum((ell * known.image(ell)).sum(1), 0.0))[:, None]
    return np.where(size > 1e-12 * np.abs(ell).max(initial=0.0), ell / np.where(size > 0, size, 1.0), 0.0).T
