"""Several steps on one batch: the one-neuron map on rows that have been seen before.

A step on residuals r adds to the neurons the noise vectors Xᵀg_A/n, g_A = r k_A, and to row i of the batch its own share of them. With
ĝ_m orthonormal functions of the rows that span all g so far and ν̂_m the unit vector along Xᵀĝ_m, of length √φ₀ √n,

    row        u_m = x·ν̂_m = fresh N(0, 1) + √φ₀ ĝ_m           what a row has seen it carries in its coordinates
    mean       L ← L + τ E[r k u]                              E over the rows of the batch: r and u are no longer independent
    noise      new directions with Gram matrix τ τ' φ₀ E[g⊥ g⊥'],  g⊥ = g less its part in the span of the ĝ
    private    σ'(w·x) of a neuron differs from k by δ_s, E δ² = E σ'² − k²: its weights follow the rows one by one. On a row h shifts by
               (A/√N) φ₀ Σ_s η_s r_s δ_s. The δ of all steps are taken for one variable times its size: with m_A = Σ_s η_s r_s (E δ_s²)^½
               f shifts by φ₀ E_A[A² m_A (E δ²)^½],   k by (A/√N) φ₀ m_A (½ ∂E σ'²/∂t − k k')/(E δ²)^½
    own        v = b² + (A²/N) φ₀ E m_A² + what dropped directions hold
    residual   r = y − F(u) − φ₀ E_A[A² m_A (E δ²)^½] − √(Var f) n_i,   n_i the same in every step

M̂ = Σ η_tκ_t M_t/Σ ηκ is now one M of n_step samples, whose residual is the mean of r_t with the weights η_tκ_t. Everything else is
as on fresh batches. Expectations over rows are means over Sobol's points, made normal: for 2¹³ of them within 0.2 %.
"""

# pyright: reportMissingTypeStubs=false
from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from onestride._numerics import Array, Float
from onestride.problem import Problem
from onestride.theory.profile.gradient_noise import Signal, compressed
from onestride.theory.profile.one_neuron import (
    DIVERGED,
    Bend,
    Path,
    Response,
    Seen,
    State,
    by_chance,
    labels_at,
    lost,
    luck,
    moved,
    put_out,
    respond,
    spent,
    untrained,
)

ROWS = 2**13
_NEW = 2  # directions of noise that a step may add
_FLAT = 0.05  # of their first size: slopes of saturated neurons that differ less are not divided by that
_LEAST = 1e-7  # squared weights on a direction below which it goes to v


@dataclass(frozen=True)
class BatchRows:
    """The rows of the batch: labels y, n_i, coordinates u, the functions ĝ, Σ_s η_s r_s and m_A; and what neurons hold on dropped ĝ."""

    labels: Float[Array, "q"]
    noise: Float[Array, "q"]
    u: Float[Array, "q dirs"]
    seen: Float[Array, "m q"]
    followed: Float[Array, "q"]
    own: Float[Array, "a q"]
    dropped: Float[Array, "a"]


@lru_cache(maxsize=2)
def sobol_normals(dims: int) -> Float[Array, "q dims"]:
    """Sobol's points as normal variables of mean 0 and covariance 1."""
    from scipy.stats import qmc  # takes longer to load than most predictions

    points: Array = ndtri((qmc.Sobol(dims, scramble=False).random(ROWS) + 0.5 / ROWS) % 1)
    points -= points.mean(0)
    return np.linalg.solve(np.linalg.cholesky(points.T @ points / ROWS), points.T).T


def travel_again(problem: Problem, nodes: int, scale: float = 1.0) -> Path:
    """Follow the neurons through steps on one batch; `scale` is that of the nodes of A."""
    k = problem.directions
    normals = sobol_normals(3 + k + _NEW * problem.steps)
    labels = labels_at(problem, normals) + problem.noise * normals[:, k + 1]
    state, powers, shares = untrained(problem, nodes, scale), list[float](), list[float]()
    bends: list[Array] = []
    chance, work = 0.0, 0.0
    residuals: list[Array] = []
    rows = unseen(labels, normals[:, k + 2], normals[:, : k + 1], state)
    for step, eta in enumerate(problem.etas):
        seen = look_again(problem, state, rows)
        work = spent(problem, state, seen, work)
        powers.append(float(np.mean(seen.power)))
        if not powers[-1] <= DIVERGED * powers[0]:
            return lost(problem, state, powers)
        bend = Bend.of(state, seen)
        bends.append(eta * bend.by)
        shares.append(eta * bend.common(state))
        residuals.append(seen.R * bend.psi)
        chance = by_chance(problem, state, seen, eta, chance)
        fresh = normals[:, 3 + k + _NEW * step : 3 + k + _NEW * (step + 1)]
        state, rows = step_again(problem, state, seen, rows, eta, fresh)
    share = np.array(shares) / sum(shares)
    mean, phi0 = share @ np.array(residuals), problem.d / problem.step_samples
    noise = np.concatenate([np.zeros(k + 1), np.sqrt(phi0) * (rows.seen @ mean) / ROWS])
    each = np.stack(bends, axis=1) * (state.A / np.sqrt(problem.N))[:, None]
    u = rows.u[:, :k]
    signal = Signal(mean, u, u[:, :, None] * u[:, None, :], np.full(ROWS, 1 / ROWS))
    law = compressed(signal) if max(powers) > 0 else None
    own, shared = float(np.mean(rows.followed**2)), float(np.mean(mean**2))
    return Path(
        replace(state, noise=noise),
        problem.etas,
        tuple(powers),
        each,
        own,
        shared,
        phi0,
        law,
        luck(problem, state, chance),
    )


def unseen(labels: Float[Array, "q"], noise: Float[Array, "q"], u: Float[Array, "q dirs"], state: State) -> BatchRows:
    """The rows before the first step."""
    none, own = np.zeros((0, ROWS)), np.zeros((state.A.size, ROWS))
    return BatchRows(labels, noise, u, none, np.zeros(ROWS), own, np.zeros_like(state.A))


def varying(seen: Response) -> Float[Array, "a q"]:
    """(E σ'² − k²)^½, by which the slopes of neurons of one readout differ."""
    return np.sqrt(np.maximum(seen.square - seen.k**2, 0.0))


def look_again(problem: Problem, state: State, rows: BatchRows) -> Seen:
    """What the batch shows when it comes again."""
    answer, r, longer = respond(problem, state, rows.u), rows.labels, np.zeros(ROWS)
    size, shift = varying(answer), problem.d / problem.step_samples * rows.own  # φ₀ m_A
    if problem.gradient == "full":
        F, spread, longer = put_out(problem, state, answer)
        r = r - F - (state.weight * state.A**2) @ (shift * size) - np.sqrt(spread) * rows.noise
    turned = (answer.square_slope / 2 - answer.k * answer.bent) * size
    turned /= size**2 + _FLAT**2 * max(problem.sigma.derivative_variance, 1e-12)
    k = answer.k + (state.A / np.sqrt(problem.N))[:, None] * shift * turned
    square = k**2 + size**2
    return Seen(rows.u, np.full(ROWS, 1 / ROWS), answer._replace(k=k, square=square), r, longer, r**2)


def step_again(
    problem: Problem, state: State, seen: Seen, rows: BatchRows, eta: float, fresh: Float[Array, "q new"]
) -> tuple[State, BatchRows]:
    """Neurons and rows after a step of size η on the batch."""
    phi0, a = problem.d / problem.step_samples, state.A / np.sqrt(problem.N)
    new, pull = (
        (eta * a)[:, None] * (g - (g @ rows.seen.T / ROWS) @ rows.seen) * np.sqrt(phi0 / ROWS)
        for g in (seen.response.k * seen.R, seen.response.twisted * seen.R)
    )
    values, right = np.linalg.svd(np.sqrt(state.weight)[:, None] * new, full_matrices=False)[1:]
    right = right[:_NEW][values[:_NEW] ** 2 > _LEAST]
    held, count = new @ right.T, len(right)
    functions = right * np.sqrt(ROWS)
    followed = rows.followed + eta * seen.R
    dropped = rows.dropped + (new**2).sum(1) - (held**2).sum(1)
    own = rows.own + eta * seen.R * varying(seen.response)
    private = a**2 * phi0 * np.mean(own**2, axis=1)
    after = moved(problem, state, seen, eta)
    after = replace(
        after,
        L=np.concatenate([after.L, held], axis=1),
        v=after.b**2 + private + dropped,
        output=np.concatenate([state.output, np.zeros(count)]),
        pull=np.concatenate([after.pull, pull @ right.T * (not rows.followed.any())], axis=1),
    )
    u = np.concatenate([rows.u, fresh[:, :count] + np.sqrt(phi0) * functions.T], axis=1)
    known = np.concatenate([rows.seen, functions])
    return after, replace(rows, u=u, seen=known, followed=followed, own=own, dropped=dropped)
