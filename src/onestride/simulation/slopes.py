"""How the errors lean on the luck of a seed: their first variation in the law of (z, y) and in the weights, measured.

With ē(z, ζ) = g − E[f̂|z, ζ], what is left to learn, H = F(FᵀF + λn)⁻¹Fᵀ, s the mean of 1 − H_ii, and ω = 1 + E f̂_u², f̂_u the fit of
unit noise, adding one sample with argument z to the others changes n times

    objective    s ρ ē²                               from  n·objective − (the same without it) = r²/(1 − H_ii)
    MSE          s²(ω ρ²ē² − 2ρēδ)                    δ = −(λ/s) ∂E[f̂|z, ζ]/∂λ;   MSE = (1 − λ∂_λ) objective
    test error   (ω − 1)ρ²ē² − 2ρēδ                   −2e E[(g − f̂)c] + e² E c²,  c the response of f̂ to its residual e

where ρ(z) = E[1 − H_ii|z]/s = 1/(1 + Σ_j φ_j(ψ_j² − 1)/n): a function ψ_j of which the fraction φ_j is learned takes φ_jψ_j²/n of H_ii;
so that a moment (1/n)Σψ_j(z_i) enters with slope E[· ψ_j]. A change of the features σ_j = σ(w_jᵀx) changes them by

    objective    −2s Σ_j â_j E[ē dσ_j]                the envelope theorem
    test error   −2ω Σ_j (â_j E[(ē − δ/ω) dσ_j] + â'_j E[ē dσ_j]),   â' = −(λ/sω) ∂â/∂λ;      MSE: s² times that

with dσ_j = ηc₁a_j zσ'(w_jᵀx) for the step's βᵀΣβ⋆, ½(w_jᵀΣβ⋆) zσ'(w_jᵀx) for the weights' Σ_j (w_jᵀΣβ⋆)², and
ηc₁a_j ζσ'(w_jᵀx)/2|b| for the tilt |b|²: for a teacher of one direction, as averages over more would be slow.
They hold to leading order in 1/n. What is subtracted has mean 0 whatever the slopes are: they decide how much is gained.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from onestride._backend import DeviceArray
from onestride._numerics import Array, Float
from onestride.simulation.features import Trained
from onestride.simulation.held_out import HeldOut
from onestride.simulation.known import KnownMoments, count
from onestride.simulation.network import draw_readout
from onestride.simulation.ridge import SplitPath, sets

ACROSS = 6  # nodes of the part of w_jᵀx that is independent of the coordinates


@dataclass(frozen=True)
class Neurons:
    """Covariances of w_jᵀx: with (z, ζ) for W₀ and G, and variances for W₀, both, and G (3 × N)."""

    before: Float[Array, "*s N coordinates"]
    moved: Float[Array, "*s N coordinates"]
    variances: Float[Array, "3 *s N"]

    def at(self, eta: float) -> tuple[Float[Array, "*s N coordinates"], Float[Array, "*s N"]]:
        """Covariance with (z, ζ) after a step of size η, and the standard deviation of what is independent of them."""
        along = self.before + eta * self.moved
        whole = self.variances[0] + 2 * eta * self.variances[1] + eta**2 * self.variances[2]
        return along, np.sqrt(np.maximum(whole - (along**2).sum(-1), 0.0))


def neurons(trained: Trained, known: KnownMoments) -> Neurons | None:
    """Of a network after one step; None where the moments are not known or there was more than one step."""
    if known.averages is None or trained.each:
        return None
    backend, times = trained.plan.backend, known.problem.law.times
    W0, G = trained.untrained(), trained.step()
    if times is not None:  # a law's Σ acts on host arrays
        before, moved = backend.get(W0), backend.get(G)
        SW, SG = times(before), times(moved)
        variances = [(before * SW).sum(1), (before * SG).sum(1), (moved * SG).sum(1)]
        return Neurons(SW @ known.coordinates.T, SG @ known.coordinates.T, np.stack(variances))
    xp, B = backend.xp, backend.put(known.coordinates.mT)
    parts: list[Array] = []
    for rows in backend.tiles(*W0.shape[-2:]):  # products as large as the weights themselves might not fit
        w, g = W0[..., rows, :], G[..., rows, :]
        parts.append(np.stack([backend.get(xp.sum(one * other, axis=-1)) for one, other in ((w, w), (w, g), (g, g))]))
    return Neurons(backend.get(W0 @ B), backend.get(G @ B), np.concatenate(parts, axis=-1))


@dataclass(frozen=True)
class Fitted:
    """What the slopes of one network rest on, for every penalty: ē and δ at the nodes of z, s, ω, and on the device â, â'."""

    left: Float[Array, "*s penalties nodes"]
    change: Float[Array, "*s penalties nodes"]
    s: Float[Array, "*s penalties 1"]
    omega: Float[Array, "*s penalties 1"]
    a: DeviceArray
    a_change: DeviceArray


def slopes(
    trained: Trained,
    j: int,
    path: SplitPath,
    held: HeldOut,
    unit: float | Float[Array, "*s 1"],
    beside: tuple[Neurons, Float[Array, "*s"]] | None,
) -> Float[Array, "3 *s penalties moments"]:
    """The slopes of the three errors of network j in every known moment; `unit` is n/|u|².

    `beside` are the neurons and |b|, or None, and then the slopes in the moments of step and weights are 0. Of a stack of
    seeds everything has one more axis.
    """
    known, penalties, stack = held.known, path.loss.shape[-1], path.loss.shape[:-2]
    averages = known.averages
    if averages is None or not held.usable:
        return np.zeros((3, *stack, penalties, count(known.problem)))
    m, backend = averages.taught.size, trained.plan.backend
    p, moved = held.expansions[:, :, j, ..., :m].mean(1)
    s, omega = path.noise[..., 0, :, None], 1 + held.noise(unit)[j][..., None]
    a, slope = sets(path.coefficients, penalties)[:3:2]
    left, change = averages.g - p @ averages.expanded, -(moved @ averages.expanded) / s
    fitted = Fitted(left, change, s, omega, a, slope * backend.put(-1 / (s * omega).mT))
    rho = 1 / (1 + _learned(p, averages.taught) @ (averages.expanded**2 - 1) / known.problem.n)
    square, cross = (rho * left) ** 2, 2 * rho * left * change
    effects = np.stack([s * square / rho, s**2 * (omega * square - cross), (omega - 1) * square - cross])
    fit = effects * averages.weight @ averages.psi[1:].T
    if beside is None or known.problem.directions > 1:
        others = np.zeros((3, *stack, penalties, 2 * known.problem.directions + 1))
    else:
        others = _of_weights(known, trained, float(trained.etas[j]), fitted, *beside)
    return np.concatenate([fit, others], axis=-1)


def _learned(
    found: Float[Array, "*s penalties functions"], taught: Float[Array, "functions"]
) -> Float[Array, "*s penalties functions"]:
    """The fraction of each of the teacher's functions that is learned, between 0 and 1; 0 of the others."""
    there = np.abs(taught) > 1e-6
    return np.where(there, np.clip(found / np.where(there, taught, 1.0), 0.0, 1.0), 0.0)


def _of_weights(
    known: KnownMoments, trained: Trained, eta: float, fitted: Fitted, cells: Neurons, tilt: Float[Array, "*s"]
) -> Float[Array, "3 *s penalties 3"]:
    """Slopes in the moments of step, weights and tilt: E[· zσ'(w_jᵀx)] on the nodes of (z, ζ), for every neuron."""
    averages, problem, backend = known.averages, known.problem, trained.plan.backend
    assert averages is not None
    along, across = (backend.put(one) for one in cells.at(eta))
    x, w = hermegauss(ACROSS)
    centre = along @ backend.put(averages.z.T)
    derivative: Any = 0.0
    for node, weight in zip(x.tolist(), (w / w.sum()).tolist(), strict=True):
        derivative = derivative + weight * problem.sigma.derivative(centre + across[..., None] * node)
    learnable = fitted.left - fitted.change / fitted.omega
    a = eta * problem.sigma.coefficients[1] * trained.drawn(partial(draw_readout, problem))
    size = tilt[..., None]
    moves = [(0, a), (0, cells.before[..., 0] / 2), (1, np.where(size > 0, a / (2 * np.where(size > 0, size, 1)), 0.0))]
    s, omega = fitted.s[..., 0], fitted.omega[..., 0]
    out = np.zeros((3, *s.shape, 3))
    for i, (coordinate, weights) in enumerate(moves):
        if coordinate >= averages.z.shape[1]:
            continue
        moved = averages.weight * averages.z[:, coordinate]
        first, second = (derivative @ backend.put((moved * one).mT) for one in (fitted.left, learnable))
        loss, test = (
            backend.get(backend.xp.sum(backend.put(weights)[..., None] * one, axis=-2))
            for one in (fitted.a * first, fitted.a * second + fitted.a_change * first)
        )
        out[..., i] = [-2 * s * loss, -2 * s**2 * omega * test, -2 * omega * test]
    return out
