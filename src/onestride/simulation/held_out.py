"""Test error with less luck of the test samples: part of it from exact moments.

    E(g − f̂)² = mean over samples of [(g − f̂)² − (g − pᵀψ)²]  +  E(g − pᵀψ)²,      E(g − pᵀψ)² = E g² − 2pᵀE[gψ] + |p|²

for any p that has not seen these samples: it is the regression of f̂ on ψ over the other half of them, so each half serves
the other and nothing is biased. ψ are orthonormal functions of a Gaussian x: Hermite polynomials of z, and t and t·z_l with
t ∝ âᵀWx, freed of z: the linear part of f̂, of which there is little else that is large.
All sums needed are the entries of one small Gram matrix of the columns (ψ, g, g − f̂_g, f̂_u, λ∂f̂_g/∂λ) for each half.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from onestride._numerics import Array, Float
from onestride.simulation.features import Trained, features
from onestride.simulation.known import EXPANDED, KnownMoments
from onestride.simulation.ridge import SplitPath

SAMPLES_PER_FUNCTION = 40  # fewer than that, and p would be more luck than fit
G, GAP, NOISE, SLOPE = range(4)  # the last four columns


@dataclass(frozen=True)
class HeldOut:
    """Sums over each half of the test samples, axes (halves, networks, penalties, columns, columns)."""

    sums: Float[Array, "2 networks penalties columns columns"]
    rows: tuple[int, int]
    known: KnownMoments

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
        return HeldOut(turn.T @ self.sums @ turn, self.rows, self.known)

    def expansions(self) -> Float[Array, "2 2 networks penalties functions"]:
        """Coefficients of f̂_g and of its slope in ψ (first axis), by each half of the samples (second)."""
        m, at = self.functions, self.functions
        gram, taught = self.sums[..., :m, :m], self.sums[..., :m, at + G] - self.sums[..., :m, at + GAP]
        right = np.stack([taught, self.sums[..., :m, at + SLOPE]], axis=-1)
        return np.moveaxis(np.linalg.pinv(gram, hermitian=True, rcond=1e-10) @ right, -1, 0)

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
            p, S = self.expansions()[0, other], self.sums[half]
            fitted = np.einsum("...i,...ij,...j->...", p, S[..., :m, :m], p)
            total = total - (S[..., at + G, at + G] - 2 * (p * S[..., :m, at + G]).sum(-1) + fitted)
            total = total + self.rows[half] * (known.power - 2 * p @ taught + (p * p).sum(-1))
        return total / sum(self.rows)


def held_out(
    trained: Trained, paths: list[SplitPath], tiles: Iterator[tuple[Array, Array]], known: KnownMoments
) -> HeldOut:
    """Sum over the test samples; predictions never see a label."""
    plan, backend, k = trained.plan, trained.plan.backend, known.problem.directions
    if not trained.each:
        trained = replace(trained, W0=trained.untrained(), G=trained.step())
    penalties, rows = paths[0].loss.shape[1], plan.tests
    of, half, start = features(trained), rows // 2, 0
    across = [_across(trained, j, path, known) for j, path in enumerate(paths)]
    m = known.expanded and known.expanded + 1 + k
    sums = np.zeros((2, len(paths), penalties, m + 4, m + 4))
    for X, signal in tiles:
        part = np.arange(start, start + signal.size) < half
        start += signal.size
        columns = np.empty((signal.size, penalties, m + 4))
        if m:
            columns[:, :, : known.expanded] = known.psi(X, EXPANDED[k]).T[:, None, :]
        columns[:, :, m + G] = signal[:, None]
        for j, F in enumerate(of(X)):
            found = backend.get(F @ paths[j].coefficients).reshape(signal.size, 3, penalties)
            if m:
                t = X @ across[j]
                columns[:, :, known.expanded] = t
                columns[:, :, known.expanded + 1 : m] = t[:, :, None] * (X @ known.directions.T)[:, None, :]
            columns[:, :, m + GAP] = signal[:, None] - found[:, 0]
            columns[:, :, m + NOISE], columns[:, :, m + SLOPE] = found[:, 1], found[:, 2]
            for i, mask in enumerate((part, ~part)):
                C = np.moveaxis(columns[mask], 1, 0)
                sums[i, j] += np.swapaxes(C, 1, 2) @ C
    return HeldOut(sums, (half, rows - half), known)


def _across(trained: Trained, j: int, path: SplitPath, known: KnownMoments) -> Float[Array, "d penalties"]:
    """ℓ of t = ℓᵀx: âᵀW, uncorrelated with z and of variance 1; 0 where nothing is left of it."""
    if known.averages is None:
        return np.zeros((known.problem.d, path.loss.shape[1]))
    backend, a = trained.plan.backend, path.coefficients[:, : path.loss.shape[1]]
    if trained.each:
        ell = backend.get(backend.put(trained.each[j]).T @ a)
    else:
        eta = float(trained.etas[j])
        ell = backend.get(trained.untrained().T @ a) + eta * backend.get(trained.step().T @ a)
    ell = ell - known.directions.T @ (known.images @ ell)
    times = known.problem.law.times
    size = np.sqrt(np.maximum((ell * (ell if times is None else times(ell.T).T)).sum(0), 0.0))
    return np.where(size > 1e-12 * np.abs(ell).max(initial=0.0), ell / np.where(size > 0, size, 1.0), 0.0)
