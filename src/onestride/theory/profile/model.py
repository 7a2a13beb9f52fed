"""The features after the step, node by node: what the equations of the profile theory are about.

With z_i the samples' coordinate along the learned direction and θ_j the neurons' weight along it,

    F_ij = μ(θ_j z_i) + k(θ_j z_i) (w_⊥j · x_⊥i) + √k₂(θ_j z_i) Z_ij + √(2/d) e(θ_j z_i) g_i,

a low-rank mean plus a matrix with a variance profile (μ, k, k₂, e: `smoothing`, at the variance v_j of a
pre-activation). The strength G of w_⊥ after the step is what the levels differ in (`strength`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from onestride._numerics import Array, Float
from onestride.problem import Problem
from onestride.result import Status
from onestride.theory.assumptions import failed_assumption
from onestride.theory.profile.neurons import LearnedDirection, learned_direction, neuron_nodes, normal_rule
from onestride.theory.profile.smoothing import LARGEST_REACH, smooth, smooth_directly
from onestride.theory.profile.strength import BEST_LEVEL, level_name, strength

NODES = 41


@dataclass(frozen=True)
class Profile:
    """Everything the equations need, on nodes i of z, k of the neurons and p of the spectrum of M.

    `row_mean` (k × 2i) stacks μ and √(2/d) e: neuron k's mean feature on functions of z and on g·functions of z.
    `G_teacher`, `pi_teacher` are G and its law along the teacher's direction. `h0`, `h1`, `hr` split the teacher:
    σ⋆(ρz + √(1−ρ²) ζ) = h0(z) + h1(z) ζ + rest of variance hr(z).
    """

    problem: Problem
    level: str
    learned: LearnedDirection
    z: Float[Array, "i"]
    w: Float[Array, "i"]
    A: Float[Array, "k"]
    theta: Float[Array, "k"]
    weight: Float[Array, "k"]
    v: Float[Array, "k"]
    mu: Float[Array, "k i"]
    K: Float[Array, "k i"]
    K2: Float[Array, "k i"]
    e: Float[Array, "k i"]
    G: Float[Array, "k p"]
    pi: Float[Array, "p"]
    G_teacher: Float[Array, "k t"]
    pi_teacher: Float[Array, "t"]
    h0: Float[Array, "i"]
    h1: Float[Array, "i"]
    hr: Float[Array, "i"]

    @property
    def phi(self) -> float:
        """φ = d/n."""
        return self.problem.phi

    @property
    def psi(self) -> float:
        """ψ = d/N."""
        return self.problem.psi

    @property
    def n_over_N(self) -> float:
        """n/N = ψ/φ, the r of the equations."""
        return self.problem.n / self.problem.N

    @cached_property
    def neuron_basis(self) -> tuple[Float[Array, "k r"], Float[Array, "r i"]]:
        """K as a product of few columns and rows (10 to 25, to rounding): k(θz) is smooth in θ."""
        if not np.isfinite(self.K).all():
            return self.K, np.eye(self.K.shape[1])
        left, values, right = np.linalg.svd(self.K, full_matrices=False)
        kept = values > 1e-15 * values[:1]
        return left[:, kept], values[kept, None] * right[kept]

    @property
    def row_mean(self) -> Float[Array, "k ii"]:
        """b_k = [μ(θ_k z); √(2/d) e(θ_k z)], k × 2i."""
        return np.concatenate([self.mu, np.sqrt(2 / self.problem.d) * self.e], axis=1)

    @property
    def length_mean(self) -> Float[Array, "k ii"] | None:
        """With Gaussian rows |w_j|² varies by √(2/d), which adds that much of e(θz) to neuron j's mean feature."""
        if self.problem.weights == "sphere":
            return None
        e = np.sqrt(2 / self.problem.d) * self.e
        return np.concatenate([e, np.zeros_like(e)], axis=1)


def build_profile(
    problem: Problem,
    level: str = BEST_LEVEL,
    *,
    nodes: int = NODES,
    min_weight: float = 1e-12,
    through_output: bool | None = None,
    shift: float = 0.0,
) -> Profile:
    """Set up the profile theory for `problem` (its ridge plays no part: `solve` takes λ).

    `nodes` counts those of z and of A; neuron nodes of probability below `min_weight` are dropped (0.03/N before asking
    for an edge of the spectrum). `through_output` forces the form of the learned direction, `shift` moves the nodes of
    A, see `neurons`.
    """
    level = level_name(level)
    learned = learned_direction(problem, through_output=through_output)
    count, scale = _resolution(learned.amplitude, nodes)
    z, w = normal_rule(count, scale)
    rest = strength(problem, level, learned)
    along = None if rest is None else rest.along_learned
    neurons = neuron_nodes(problem, learned, nodes, min_weight=min_weight, strength=along, shift=shift)
    if rest is None:
        G = G_teacher = np.full((neurons.A.size, 1), 1 - 1 / problem.d)
        pi = pi_teacher = np.ones(1)
    else:
        G, pi = rest.on(rest.bulk, neurons.A), rest.bulk.weight
        G_teacher, pi_teacher = rest.on(rest.teacher, neurons.A), rest.teacher.weight
    v = G @ pi
    smoothed = smooth(problem.sigma, neurons.theta[:, None] * z, v[:, None])
    teacher = _teacher(problem, learned.overlap, z, w)
    strengths = (G, pi, G_teacher, pi_teacher)
    return Profile(problem, level, learned, z, w, *neurons, v, *smoothed, *strengths, *teacher)


class Verdict(NamedTuple):
    """How a computation ended: a status of `predict` and its sentence."""

    status: Status
    message: str


def try_profile(problem: Problem, level: str = BEST_LEVEL, *, nodes: int = NODES) -> Profile | Verdict:
    """The profile of `problem`, or why it has none: an assumption that fails, numbers out of range."""
    reason = failed_assumption(problem)
    if reason is not None:
        return Verdict(Status.ASSUMPTION, reason)
    profile = build_profile(problem, level, nodes=nodes)
    reason = out_of_range(profile)
    return profile if reason is None else Verdict(Status.NOT_CONVERGED, reason)


def out_of_range(profile: Profile) -> str | None:
    """Why the smoothed activation or teacher could not be computed, if so."""
    if all(np.isfinite(x).all() for x in (profile.mu, profile.K, profile.K2, profile.e)):
        if all(np.isfinite(x).all() for x in (profile.h0, profile.h1, profile.hr)):
            return None
        return f"the teacher {profile.problem.target.name!r} is too large to be averaged over the unlearned directions"
    reach = float(np.abs(profile.theta).max() * profile.z.max() + 20 * np.sqrt(profile.v.max()))
    return (
        f"the step is so large that pre-activations reach {reach:.2g}, where activation "
        f"{profile.problem.sigma.name!r} overflows or which is beyond the {LARGEST_REACH:.0f} this theory tabulates"
    )


def _teacher(
    problem: Problem, overlap: float, z: Float[Array, "i"], w: Float[Array, "i"]
) -> tuple[Float[Array, "i"], Float[Array, "i"], Float[Array, "i"]]:
    """h0, h1, hr on the nodes; E[h0² + h1² + hr] = E σ⋆² is imposed, since a kink at overlap 1 falls between nodes."""
    parts = smooth_directly(problem.target, overlap * z, 1 - overlap**2)
    h0, h1, hr = parts.mu, np.sqrt(1 - overlap**2) * parts.k, parts.k2
    power = w @ (h0**2 + h1**2 + hr)
    scale = problem.target.second_moment / power if power > 0 else 1.0
    return np.sqrt(scale) * h0, np.sqrt(scale) * h1, scale * hr


def _resolution(amplitude: float, nodes: int) -> tuple[int, float]:
    """Nodes of z and the scale on which they crowd near 0: |z| ~ 1/θ for strong steps."""
    scale = 1 / max(1.0, amplitude)
    return 2 * round(nodes * np.arcsinh(7.5 / scale) / np.arcsinh(7.5) / 2 - 0.5) + 1, scale
