"""Several steps on one batch of inputs with a covariance: the map of `correlated` on rows that have been seen before (`same_samples`).

In the space of g, x = Σ^{1/2}g, a step on residuals r adds ΣGᵀg_A/n to the neurons, g_A = r k_A. With ĝ_m orthonormal functions of the
rows that span all g so far and ν̂_m = Gᵀĝ_m/√(nd), of energy 1/d along every eigenvector, a row is

    row      g = g̃ + √(1/n) Σ_m ĝ_m √d ν̂_m,  so that along e = Σ_m f_m(Σ)ν̂_m + …  it has  e·g = e·g̃ + √φ₀ Σ_m ĝ_m tr f_m(Σ)/d

g̃ fresh: what a row has seen it carries along every power of Σ, and Σν̂ of squared length S₂ carries √φ₀ĝ like ν̂ itself. The residuals
of a step depend on g̃ along all orthonormal q_b that neurons have ever had weights on, and the gradient's mean is

    mean     ω ← ω + τ Σ(Σ_b E[r k q_b·g̃] q_b + √φ₀ Σ_m E[r k ĝ_m] ν̂_m + B rest)        (Stein's formula; the rows' own parts of Gᵀĝ_m)
    noise    new directions Σν̂ of Gram matrix τ τ'φ₀E[g⊥g⊥'],  g⊥ = g less its part in the span of the ĝ
    own      x = (A²/N) φ₀ E m_A² + what dropped directions hold

and all that a neuron's own weights do on a row is as in `same_samples`, |x|²/n being φ₀ there too. Σ = I gives `same_samples`.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from onestride._numerics import Array, Float, leading_rows
from onestride.problem import Problem
from onestride.theory.profile.anisotropy import Frame, Sigma, Vector, sigma_of
from onestride.theory.profile.correlated import NEW, Course, leading_of, placed, start
from onestride.theory.profile.gradient_noise import Signal, compressed
from onestride.theory.profile.one_neuron import (
    DIVERGED,
    Bend,
    Path,
    Seen,
    State,
    by_chance,
    labels_at,
    lost,
    luck,
    moved,
    own_growth,
    spent,
)
from onestride.theory.profile.same_samples import ROWS, BatchRows, look_again, sobol_normals, unseen, varying

_FOLLOWED = 5  # directions beside the teacher's
_PART = 1e-4  # squared length of a direction off others from which on it is one of its own


@dataclass(frozen=True)
class _Walk:
    """Where the neurons are, and the rows: g̃ along q, ĝ and its places among the vectors of `start`."""

    state: State
    units: list[Vector]
    grows: list[Float[Array, "a"]]
    noise: Float[Array, "a"]
    rows: BatchRows
    q: list[Vector]
    fresh: Float[Array, "q b"]
    places: list[int]
    pull: Vector


def travel_correlated_again(problem: Problem, nodes: int, sigma: Sigma | None = None) -> Path:
    """Follow the neurons through steps on one batch of inputs with covariance Σ."""
    sigma = sigma_of(problem) if sigma is None else sigma
    k, T, phi0 = problem.directions, problem.steps, problem.d / problem.step_samples
    normals = sobol_normals(3 + k + _FOLLOWED * (T - 1))
    frame, state, units = start(problem, sigma, nodes)
    labels, first = labels_at(problem, normals) + problem.noise * normals[:, k + 1], normals[:, : k + 1]
    rows = unseen(labels, normals[:, k + 2], first, state)
    walk = _Walk(state, units, [], np.zeros_like(state.A), rows, units, first, [], 0 * units[0])
    powers, shares, bends, residuals = list[float](), list[float](), list[Array](), list[Array]()
    chance, work = 0.0, 0.0
    for step, eta in enumerate(problem.etas):
        if step:
            walk = _seen_again(problem, sigma, frame, walk, normals[:, 3 + k :])
        seen = look_again(problem, walk.state, walk.rows)
        work = spent(problem, walk.state, seen, work)
        powers.append(float(np.mean(seen.power)))
        if not powers[-1] <= DIVERGED * powers[0]:
            return lost(problem, walk.state, powers)
        chance, bend = by_chance(problem, walk.state, seen, eta, chance), Bend.of(walk.state, seen)
        bends.append(eta * bend.by)
        shares.append(eta * bend.common(walk.state))
        residuals.append(seen.R * bend.psi)
        walk = _advance(problem, sigma, frame, walk, seen, eta, step)
    state, rows = walk.state, walk.rows
    mean = np.array(shares) / sum(shares) @ np.array(residuals)
    power, own = float(np.mean(mean**2)), float(np.mean(rows.followed**2))
    along, shared = rows.seen @ mean / ROWS, 0 * walk.pull
    shared[walk.places] = np.sqrt(phi0) * along[:, None]
    shared[-2] = np.sqrt(phi0 * max(power - along @ along, 0.0))
    star = walk.fresh[:, :k]
    signal = Signal(mean, star, star[:, :, None] * star[:, None, :], np.full(ROWS, 1 / ROWS))
    law = compressed(signal) if max(powers) > 0 else None
    each = np.stack(bends, axis=1) * (state.A / np.sqrt(problem.N))[:, None]
    path = (state, problem.etas, tuple(powers), each, own, power, phi0, law, luck(problem, state, chance))
    return Course(*path, sigma, frame, tuple(walk.units), shared, walk.noise, np.stack(walk.grows, axis=1), walk.pull)


def _seen_again(problem: Problem, sigma: Sigma, frame: Frame, walk: _Walk, normals: Float[Array, "q more"]) -> _Walk:
    """The rows along the neurons' directions: g̃ along what is new in these, and what the rows carry."""
    q, fresh, used = list(walk.q), walk.fresh, len(walk.q) - problem.directions - 1
    for unit in walk.units:
        rest = frame.off(frame.off(unit, q), q)
        norm = frame.inner(rest, rest)
        if norm > _PART:
            q.append(rest / np.sqrt(norm))
            fresh = np.concatenate([fresh, normals[:, used : used + 1]], axis=1)
            used += 1
    carried = np.array(
        [[e[place] @ np.sqrt(sigma.eigenvalues) / problem.d for place in walk.places] for e in walk.units]
    )
    u = fresh @ frame.gram(q, walk.units) + np.sqrt(problem.d / problem.step_samples) * (carried @ walk.rows.seen).T
    return replace(walk, rows=replace(walk.rows, u=u), q=q, fresh=fresh)


def _advance(problem: Problem, sigma: Sigma, frame: Frame, walk: _Walk, seen: Seen, eta: float, step: int) -> _Walk:
    """A step of size η on the batch."""
    state, rows, lam, k = walk.state, walk.rows, sigma.eigenvalues, problem.directions
    phi0, a, answer = problem.d / problem.step_samples, state.A / np.sqrt(problem.N), seen.response
    g, bent = (eta * a[:, None] * part * seen.R for part in (answer.k, answer.twisted))
    known, bent_known = (part @ rows.seen.T / ROWS for part in (g, bent))
    new, bent_new = ((part - on @ rows.seen) * np.sqrt(phi0 / ROWS) for part, on in ((g, known), (bent, bent_known)))
    right = leading_rows(np.sqrt(state.weight)[:, None] * new, NEW)
    right[0] *= np.sign(right[0] @ seen.R) or 1.0  # as on fresh batches
    held, places = new @ right.T, [*walk.places, *(k + 1 + NEW * step + m for m in range(len(right)))]
    made = np.zeros((len(places), *walk.pull.shape))
    made[np.arange(len(places)), places] = np.sqrt(lam)
    weights = np.concatenate([state.L, g @ walk.fresh / ROWS, np.sqrt(phi0) * known, held], axis=1)
    vectors = [*walk.units, *(lam * e for e in walk.q), *(made[m] for m in range(len(made)))]
    L, units, left = leading_of(frame, state, weights, vectors, k, _FOLLOWED)
    followed = rows.followed + eta * seen.R
    dropped = rows.dropped + (new**2).sum(1) - (held**2).sum(1) + left / sigma.moment(2)
    own = rows.own + eta * seen.R * varying(answer)
    noise = a**2 * phi0 * np.mean(own**2, axis=1) + dropped
    grows = [*walk.grows, eta * a * own_growth(problem, state, seen)]
    after = moved(problem, state, seen, eta)
    state = placed(after, sigma, frame, L, units, grows, noise)
    pulls = np.concatenate([bent @ walk.fresh / ROWS, (step == 0) * bent_new @ right.T], axis=1)
    each = (after.weight * after.A) @ pulls / (after.weight @ after.A**2) * np.sqrt(problem.N)
    pull = walk.pull + np.tensordot(each, np.stack([*walk.q, *(vector / lam for vector in made[-len(right) :])]), 1)
    functions = np.concatenate([rows.seen, right * np.sqrt(ROWS)])
    rows = replace(rows, seen=functions, followed=followed, own=own, dropped=dropped)
    return replace(walk, state=state, units=units, grows=grows, noise=noise, rows=rows, places=places, pull=pull)
