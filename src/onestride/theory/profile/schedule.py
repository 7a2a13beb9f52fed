"""Several steps: the every-degree model of `degrees` on what the one-neuron map (`travel`) leaves.

The map gives the neurons' weights L(A) on the teacher's direction and a few directions of noise. Three kinds of directions:

    learned    E₁ and, where it is above 0.05, E₂: the rows' coordinates z ∈ R¹ or R², σ(θ·z + s u) resolved by degree as for one
               step. They lead the matrix of L over the neurons, with a row for β⋆ of length √(E_A|s² − b²|/d): what M has made of the
               initial weights along it counts as learned, too. (A teacher of several directions has a row for each, and as many e.)
    e          the unlearned part of β⋆, ζ = e·x: to first order, a block of the special sector carried by sector 1
    further    the next direction of noise: the same, without a part of the teacher

The rest of the weights went through Π_t (1 + τ_t k'_t M_t), M_t = (1/n) Xᵀ diag(r_t) X. With M̂ = Σ η_tκ_t M_t/Σ ηκ, one M of
T n_step samples whose residuals are the mixture of η_tκ_t r_t (κ_t the size of k'_t over the neurons), and its spectral laws (`gradient_noise`) along the bulk, E_m and e,

    G(m) = b² Π_t (1 + τ_t k'_t m)² + c S(m)/E r²,       c such that Σ_p π_p G(m_p) = v,

v and b from the map. With T = 1 this is `degrees.build` but for the neuron's own share of the output, left out there.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from onestride._numerics import Array, Complex, Float
from onestride.problem import Problem
from onestride.theory.profile.degrees import (
    build_untrained,
    gauss_nodes,
    higher_sectors,
    linear_sector,
    of_entries,
    radii_of,
)
from onestride.theory.profile.gradient_noise import GradientNoise, SpectralNodes, noise_of
from onestride.theory.profile.harmonics import degrees_resolved, radius_rule, resolve, sphere_rule
from onestride.theory.profile.leading import Frame, frame
from onestride.theory.profile.memory import Kinds
from onestride.theory.profile.neurons import LearnedDirection, normal_rule, resolution
from onestride.theory.profile.one_neuron import Path
from onestride.theory.profile.schedule_memory import Movement, remembered
from onestride.theory.profile.sectors import COARSE, Model, all_in_columns, split_teacher
from onestride.theory.profile.several import Sight
from onestride.theory.profile.travel import travel

_GAUSSIAN = 10**12  # a sphere of that many dimensions: its coordinates are Gaussian
# nodes of z₂, lengths of x, ω₁ and ω₂ with two learned directions: within 3e-3 of 7, 3, 5 and 5. Fewer of ω₂ have ω₂² the same in every
# neuron, and the second direction may be one of the teacher, of which its quadratic part is learned by those that differ
_SECOND_COORDINATE, _LENGTHS, _OFFSETS, _SECOND_OFFSETS = 5, 2, 3, 3


class Spectrum:
    """The spectral laws of M̂ that vectors on the path's directions see."""

    def __init__(self, problem: Problem, path: Path) -> None:
        law = path.residual
        assert law is not None
        power, taught = float(law.weight @ law.rr), law.weight @ law.ru
        length = float(np.linalg.norm(taught))
        self.noise: GradientNoise = noise_of(law, power, length, path.phi)
        # β̂ = ϱ·β⋆ + √(1−ϱ²) ν̂: the transforms of ν̂, the noise of all batches together
        n, k = self.noise, path.end.taught
        rho, across = taught * (n.overlap / max(length, 1e-300)), np.sqrt(max(1 - n.overlap**2, 1e-12))
        self._star, self._taught = n.star, k
        self._star_noise = (n.cross - n.star @ rho) / across
        self._noise_noise = (n.beta - 2 * across * self._star_noise @ rho - n.star @ rho @ rho) / across**2
        self._mean = float(law.weight @ law.r)
        self._unit = path.end.noise[k:] / np.sqrt(problem.d / problem.step_samples * path.shared_power)

    def between(self, a: Float[Array, "dirs"], b: Float[Array, "dirs"]) -> Complex[Array, "x"]:
        """aᵀ(M̂ − x)⁻¹b; what is neither along β⋆ nor along ν̂ sees the bulk."""
        k = self._taught
        on_a, on_b = a[k:] @ self._unit, b[k:] @ self._unit
        off = a[k:] @ b[k:] - on_a * on_b
        mixed = self._star_noise @ (a[:k] * on_b + b[:k] * on_a)
        return self._star @ b[:k] @ a[:k] + mixed + on_a * on_b * self._noise_noise + off * self.noise.bulk

    def along(self, a: Float[Array, "dirs"]) -> SpectralNodes:
        """The law that a direction sees."""
        return self._centred(self.noise.nodes(self.between(a, a)[:, None, None]))

    def _centred(self, law: SpectralNodes) -> SpectralNodes:
        """E r in M̂ moves all weights alike, and is in b."""
        return replace(law, eigenvalue=law.eigenvalue - self._mean)

    def among(self, e: Float[Array, "k dirs"]) -> SpectralNodes:
        """The law that orthonormal directions see together; the bulk's for those that are 0."""
        if len(e) == 1 and not e.any():
            return self.noise.bulk_law()
        seen = np.stack([np.stack([self.between(a, b) for b in e], axis=1) for a in e], axis=1)
        seen[:, np.arange(len(e)), np.arange(len(e))] += np.outer(self.noise.bulk, ~e.any(1))
        return self._centred(self.noise.nodes(seen))

    def moments(self, a: Float[Array, "dirs"], b: Float[Array, "dirs"]) -> tuple[float, float]:
        """aᵀM̂b and aᵀM̂²b."""
        density = np.imag(self.between(a, b)) * np.gradient(self.noise.x) / np.pi
        x = self.noise.x - self._mean
        return float(density @ x), float(density @ x**2)


class Growth:
    """G(m) of the rest of the weights, neurons × nodes of a law."""

    def __init__(self, path: Path, spectrum: Spectrum) -> None:
        self._path, self._power = path, spectrum.noise.power
        bulk = spectrum.noise.bulk_law()
        self._higher = np.maximum(path.end.v - self._moved(bulk) @ bulk.weight, 0.0)

    def _moved(self, law: SpectralNodes) -> Float[Array, "a p"]:
        each = 1 + self._path.bends[:, None, :] * law.eigenvalue[:, None]
        return (self._path.end.b[:, None] * each.prod(axis=2)) ** 2

    def on(self, law: SpectralNodes) -> Float[Array, "a p"]:
        """G."""
        return self._moved(law) + self._higher[:, None] * law.power / self._power

    def mean(self, law: SpectralNodes) -> Float[Array, "a"]:
        """Σ_p π_p G."""
        return self.on(law) @ law.weight


class RowNodes(NamedTuple):
    """Nodes (z, r) of the rows and probabilities."""

    z: Float[Array, "i m"]
    r: Float[Array, "i"]
    w: Float[Array, "i"]


def build(problem: Problem, *, nodes: int = 31, min_weight: float = 1e-7) -> Model:
    """Set up every degree for a problem of several steps."""
    path = travel(problem, nodes)
    if path.residual is None:
        return build_untrained(problem)
    directions, spectrum = frame(path, problem.d), Spectrum(problem, path)
    E, overlap = directions.E, min(float(np.linalg.norm(directions.E[:, 0])), 1.0)
    D = problem.d - len(E)
    L = degrees_resolved(D, max(problem.n, problem.N))
    amplitude = float(np.sqrt(path.end.weight @ (path.end.L @ E[0]) ** 2))
    rows = _rows(problem, amplitude, len(E), nodes)
    neurons, movement = _neurons(problem, path, directions, spectrum, min_weight)
    scale = np.sqrt(neurons.v)[:, None] * rows.r
    parts = resolve(problem.sigma, movement.theta @ rows.z.T, scale, D, L)
    z = rows.z @ (E[:, 0] / overlap) if overlap > 0 else rows.z[:, 0]  # what of z the teacher sees
    sight = Sight(rows.z @ E[:, : problem.directions], directions.root) if problem.directions > 1 else None
    teacher = split_teacher(problem.target, overlap, z, rows.r, rows.w, D, L, sight, as_taught=problem.law.normal)
    means, linear = remembered(
        problem, movement, neurons, parts, teacher, linear_sector(D, parts[1], teacher[1], neurons)
    )
    sectors = (linear, *higher_sectors(problem, D, parts, teacher, neurons))
    sectors, rest = all_in_columns(sectors, parts[-2], rows.w, neurons.weight, least=COARSE)
    learned = LearnedDirection(amplitude, overlap, True, float(E[0] @ path.end.output))
    kinds = (neurons.A, neurons.theta, neurons.weight, neurons.v)
    return Model(
        problem, "degrees", learned, D, z, rows.r, rows.w, *kinds, sectors, rest, means, teacher[-1], sight=sight
    )  # fmt: skip


def _rows(problem: Problem, amplitude: float, learned: int, nodes: int) -> RowNodes:
    """Nodes of z along the first learned direction as for one step, few along the second."""
    z, w = normal_rule(*resolution(amplitude, nodes))
    kept = w > 1e-9
    z, w = z[kept][:, None], w[kept] / w[kept].sum()
    if learned == 2:
        second, share = sphere_rule(_GAUSSIAN, _SECOND_COORDINATE)
        z = np.stack([np.repeat(z[:, 0], second.size), np.tile(second, z.size)], axis=1)
        w = np.outer(w, share).ravel()
        kept = w > 1e-8
        z, w = z[kept], w[kept] / w[kept].sum()
    r, share = radius_rule(problem.d - learned, _LENGTHS if learned == 2 else radii_of(problem.d))
    return RowNodes(*of_entries(problem, np.repeat(z, r.size, axis=0), np.tile(r, len(z)), np.outer(w, share).ravel()))


def _offsets(problem: Problem, learned: int) -> tuple[Float[Array, "o m"], Float[Array, "o"], Float[Array, "o"]]:
    """Nodes of a neuron's weights ω along the learned directions before the steps, of |w_⊥|² (Gaussian rows), and shares."""
    d, sphere = problem.d, problem.weights == "sphere"
    omega, share = sphere_rule(d if sphere else _GAUSSIAN, 5 if learned == 1 else _OFFSETS)
    omega, length = omega[:, None] / np.sqrt(d), np.ones(omega.size)
    if learned == 2:
        second, other = sphere_rule(d if sphere else _GAUSSIAN, _SECOND_OFFSETS)
        omega = np.stack([np.repeat(omega[:, 0], second.size), np.tile(second / np.sqrt(d), len(omega))], axis=1)
        length, share = np.ones(len(omega)), np.outer(share, other).ravel()
    if not sphere:
        r, other = radius_rule(d - learned, 2 if d >= 200 else 3)
        length, omega = np.tile(r**2 / d, len(omega)), np.repeat(omega, r.size, axis=0)
        share = np.outer(share, other).ravel()
    return omega, length, share


def _neurons(
    problem: Problem, path: Path, directions: Frame, spectrum: Spectrum, min_weight: float
) -> tuple[Kinds, Movement]:
    """Nodes (A, ω) of the neurons, and what moved them."""
    end, (E, e, _, further), growth = path.end, directions, Growth(path, spectrum)
    among = spectrum.among(e)
    laws = gauss_nodes(spectrum.noise.bulk_law()), gauss_nodes(among)
    bulk, teacher = (growth.on(law) for law in laws)
    learned, on_e, on_further = end.L @ E.T, end.L @ e.T, end.L @ further.T
    lost = (end.L**2).sum(1) - sum((part**2).sum(1) for part in (learned, on_e, on_further))
    omega, length, share = _offsets(problem, len(E))
    at, omega = np.repeat(np.arange(end.A.size), len(omega)), np.tile(omega, (end.A.size, 1))
    weight, length = np.outer(end.weight, share).ravel(), np.tile(length, end.A.size)
    kept = weight > min_weight
    at, omega, length, weight = at[kept], omega[kept], length[kept], weight[kept] / weight[kept].sum()
    seen_along = [spectrum.along(direction) for direction in E]
    along = np.stack([growth.mean(law) for law in seen_along], axis=1)[at]
    means = np.array([law.weight @ law.eigenvalue for law in seen_along])
    A, a = end.A[at], end.A[at] / np.sqrt(problem.N)
    kept = end.b[at, None] + path.bends.sum(1)[at, None] * means
    before = omega * np.clip(kept / np.sqrt(along), -1, 1)  # what w·E was, as far as ω tells
    aside = length
    if problem.weights == "sphere":  # |w_j| = 1, of which w_j − a_j p is left off E; no real neuron has a_j near 1
        aside = np.maximum(1 - (omega**2).sum(1) - 2 * a * (before @ (E @ end.output)) - a**2, 0.1)
    aside = aside * np.exp(2 * ((end.pull[at] @ E.T) * before).sum(1))
    v = aside * (bulk @ laws[0].weight + lost)[at] + (on_e[at] ** 2).sum(1) + (on_further[at] ** 2).sum(1)
    theta, relative = learned[at] + omega * np.sqrt(along), (aside / v)[:, None]
    strengths = (bulk[at] * relative, laws[0].weight, teacher[at] * relative, laws[1].frame)
    along_e = np.einsum("at,tci,tcj->aij", teacher, laws[1].frame, laws[1].frame)[at]
    kinds = Kinds(A, omega[:, 0], aside, weight, theta[:, 0], v, along[:, 0], along_e, *strengths)
    cross = np.array([[spectrum.moments(direction, part) for part in e] for direction in E])
    moved = (means, np.einsum("t,tci,tcj->ij", among.eigenvalue, among.frame, among.frame))
    return kinds, Movement(path, directions.E, e, at, theta, omega, along, on_e[at], on_further[at], cross, *moved)
