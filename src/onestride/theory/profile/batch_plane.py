"""The directions by which a row of the step's batch is known, in the space of g (x = Σ^{1/2} g).

A row that the step has seen has coordinates along the teacher's directions s_a, the output's p̂ = Σ^{1/2}p (literal gradient) and the unit
vector ν̂ along Gᵀr, orthonormal vectors of which it carries √φ₀ r̂ along ν̂, and one along the learned direction u. For isotropic
inputs u lies among the others; a covariance turns it, as the gradient takes s, p̂ and ν̂ to Σs, Σp̂ and Σν̂: what is off them is one more
coordinate, new in every row. `axes` are orthonormal combinations of them all: u, what it leaves of the teacher's directions (e), and the rest.

Neurons' weights along them have the covariance Σ a_p b_p G_p/d between axes a and b, G the strengths of sector 1: `mass`. For isotropic
inputs that is G's law along the teacher for the e and along the bulk for others, and weights along u are nodes of the neurons; with a
covariance they hang together with all others, and count to first order like them.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from onestride._numerics import Array, Float
from onestride.problem import Problem, Step
from onestride.theory.profile.anisotropy import Nodes, Sigma, Vector, directions, sigma_of, stars_of, unlearned
from onestride.theory.profile.degrees import gauss_nodes, higher_sectors, kinds_of, linear_sector
from onestride.theory.profile.gradient_noise import gradient_noise
from onestride.theory.profile.higher import Energies, Stretched, higher_sector
from onestride.theory.profile.lengths import step_law
from onestride.theory.profile.memory import Kinds
from onestride.theory.profile.neurons import LearnedDirection, learned_direction, readout_rule
from onestride.theory.profile.sectors import Sector
from onestride.theory.profile.several import Sight, sight_along
from onestride.theory.profile.strength import strength

_EIGENVALUES = (6, 5)  # bins of log λ in sector 1 and in the factors of higher degrees
_NONE = 1e-6  # squared length of what is left of a vector off others from which on it is a direction of its own


@dataclass(frozen=True)
class Plane:
    """axes: u, e_1 … e_k and the rest, on s_1 … s_k, p̂, ν̂ and what is new. overlap, root: s = overlap u + root e. D: dimension of the rest.
    turned: weights along u are among those of `mass` (axes × axes × nodes), which are the nodes of sector 1's laws, of the bulk and of
    the teacher in this order; without it `mass` begins with e.
    """

    learned: LearnedDirection
    axes: Float[Array, "q b"]
    overlap: Float[Array, "k"]
    root: Float[Array, "k k"]
    D: int
    turned: bool
    kinds: Kinds
    mass: Float[Array, "m m p"]
    few: tuple[Float[Array, "a f"], Nodes] | None = None

    def sight(self, z: Float[Array, "i"]) -> Sight | None:
        """What rows that know z see of a teacher of several directions."""
        k = self.overlap.size
        if k == 1:
            return None
        return Sight(np.outer(z, self.overlap), self.root) if self.turned else sight_along(float(self.overlap[0]), z, k)

    @property
    def on_output(self) -> Float[Array, "q"]:
        """p̂ along the axes."""
        return self.axes[:, self.overlap.size]


def plane_of(problem: Problem, nodes: int, *, moved: bool = True) -> Plane:
    """Axes and neurons after the step; `moved` False: the same axes, and neurons as they were before it."""
    return (_isotropic if problem.law.isotropic else _turned)(problem, nodes, moved=moved)


def _isotropic(problem: Problem, nodes: int, *, moved: bool) -> Plane:
    learned, k, full = learned_direction(problem), problem.directions, problem.gradient == "full"
    unit = np.eye(k + 3)
    t = learned.overlap * unit[0] + (learned.tilt * unit[k] if full else 0.0)
    t[k + 1] = np.sqrt(max(1 - t @ t, 0.0))
    stars = unit[:k] if learned.overlap**2 < 1 - 1e-9 else np.concatenate([unit[k + 1 : k + 2], unit[1:k]])
    axes = _orthonormal(np.stack([t, *stars, *unit[k : k + full], unit[k + 1]]))
    law = strength(problem, "full", learned) if moved else None
    if not moved:  # w_j = a_j p + …, of which t̂ has its cosine with p
        problem = problem.replace(step=Step.none())
        learned = replace(learned, amplitude=learned.tilt / np.sqrt(problem.N))
    kinds = kinds_of(problem, learned, law, nodes)
    bulk, frame = kinds.share.size, kinds.teacher_frame
    mass = np.zeros((len(axes) - 1, len(axes) - 1, bulk + len(frame)))
    mass[:k, :k, bulk:] = np.einsum("tca,tcb->abt", frame, frame)
    rest = np.arange(k, len(axes) - 1)
    mass[rest, rest, :bulk] = kinds.share
    overlap, root = np.zeros(k), np.eye(k)
    overlap[0], root[0, 0] = learned.overlap, np.sqrt(1 - learned.overlap**2)
    return Plane(learned, axes, overlap, root, problem.d - 1, False, kinds, mass)


def _orthonormal(vectors: Float[Array, "v b"]) -> Float[Array, "q b"]:
    """Each less its part along those before it; those of which nothing is left go."""
    out = vectors[:0]
    for vector in vectors:
        for _ in range(2):
            vector = vector - (out @ vector) @ out
        if vector @ vector > _NONE:
            out = np.concatenate([out, vector[None] / np.linalg.norm(vector)])
    return out


def _turned(problem: Problem, nodes: int, *, moved: bool) -> Plane:
    sigma, k, full = sigma_of(problem), problem.directions, problem.gradient == "full"
    at, lam = directions(problem, sigma), sigma.eigenvalues
    frame, t = at.frame, at.rows[0] * at.length
    if not full:  # p is in t as in every neuron's first weights, and no row knows it
        t = t.copy()
        t[k] = 0.0
    length, stars = float(np.sqrt(frame.inner(t, t))), stars_of(sigma)
    output, noise = np.zeros_like(t), np.zeros_like(t)
    output[k], noise[k + 1] = np.sqrt(lam), 1 / np.sqrt(lam)
    noise /= np.sqrt(frame.inner(noise, noise))
    u = t / length if length else noise  # without a linear part neurons go no common way, and any row is as good
    base = [*stars, *([output] if full else []), noise]
    where = [*range(k), *([k] if full else []), k + 1]
    seen, unit = np.zeros(k + 3), np.eye(k + 3)
    seen[where] = frame.gram([u], base)[0]
    seen *= min(1.0, 1 / float(np.linalg.norm(seen)))
    seen[-1] = np.sqrt(max(1 - seen @ seen, 0.0))
    taught = unlearned(frame, stars, [u])
    overlap = taught.overlap[:, 0]
    e = np.linalg.solve(taught.root, unit[:k] - np.outer(overlap, seen))
    axes = _orthonormal(np.concatenate([seen[None], e, unit[where[k:]]]))
    combined = axes @ np.linalg.pinv(np.concatenate([seen[None], unit[where]]))
    bins = sigma.nodes(_EIGENVALUES[0])
    vectors: list[Vector] = [u, *base]
    inner = np.stack([np.stack([bins.sum(frame.dot(a, b)) for b in vectors]) for a in vectors])
    mass = np.einsum("ac,bd,cdp->abp", combined, combined, inner)
    amplitude = (length if moved else seen[k]) / np.sqrt(problem.N)
    learned = LearnedDirection(amplitude, float(np.linalg.norm(overlap)), full, float(seen[k]))
    kinds, of_law, higher = _neurons(problem, sigma, learned, nodes, moved=moved)
    mass = np.concatenate([np.einsum("abp,m->abpm", mass, of_law).reshape(*mass.shape[:2], -1), 0 * mass[:, :, :1]], 2)
    return Plane(learned, axes, overlap, taught.root, problem.d, True, kinds, mass, higher)


def _neurons(
    problem: Problem, sigma: Sigma, learned: LearnedDirection, nodes: int, *, moved: bool
) -> tuple[Kinds, Float[Array, "m"], tuple[Float[Array, "k p"], Nodes]]:
    """Neurons by readout, the shares of M's nodes, and strengths on fewer eigenvalues: λ(1 + ν√λ m)² and the noise of higher order, as in
    `covariance` without γ.
    """
    A, weight = readout_rule(problem, nodes, 1 / max(1.0, learned.amplitude))
    A, weight = A[weight > 1e-7], weight[weight > 1e-7] / weight[weight > 1e-7].sum()
    step, phi0 = step_law(problem), problem.d / problem.step_samples
    tau = (problem.eta * A / np.sqrt(problem.N) if moved else 0 * A)[:, None, None]
    nu, law = step.quadratic * tau, gauss_nodes(gradient_noise(problem).bulk_law())
    rest = phi0 * max(step.slope - step.quadratic**2, 0.0) * tau**2

    def grown(at: Nodes) -> Float[Array, "k p m"]:
        lam = at.value[:, None]
        return lam * (1 + nu * np.sqrt(lam) * law.eigenvalue) ** 2 + rest * lam**2 * law.power

    bins, few = (sigma.nodes(count) for count in _EIGENVALUES)
    G, share = grown(bins), np.outer(bins.share, law.weight).ravel()
    v = G.reshape(A.size, -1) @ share
    bulk, one = G.reshape(A.size, -1) / v[:, None], np.ones((A.size, 1))
    laws = (one[:, :, None], bulk, share, one, np.ones((1, 1, 1)))
    kinds = Kinds(A, 0 * A, np.ones_like(A), weight, learned.amplitude * A, v, np.ones_like(A), *laws)
    return kinds, law.weight, (grown(few) @ law.weight / v[:, None], few)


def sectors_of(problem: Problem, plane: Plane, parts: Float[Array, "parts k i"]) -> tuple[Sector, ...]:
    """The sectors of the features on these rows; labels are in the special sector."""
    none, L = np.zeros((parts.shape[2], 1)), parts.shape[0] - 3
    linear = linear_sector(plane.D, parts[1], none, plane.kinds)
    if plane.few is None:
        return (linear, *higher_sectors(problem, plane.D, parts, [none] * (L + 1), plane.kinds))
    G, nodes = plane.few
    alike = Stretched(plane.kinds.weight, np.ones(plane.kinds.A.size))
    along = Energies(nodes.share[None], np.zeros((1, nodes.share.size)))
    return (linear, *(higher_sector(l, plane.D, parts[l], none, G, nodes, along, alike) for l in range(2, L + 1)))
