"""The features after the step, node by node: what the equations of the profile theory are about.

With z_i the samples' coordinate along the learned direction and θ_j the neurons' weight along it,

    F_ij = μ(θ_j z_i) + k(θ_j z_i) (w_⊥j · x_⊥i) + √k₂(θ_j z_i) Z_ij + √(2/d) e(θ_j z_i) g_i,

a low-rank mean plus a matrix with a variance profile (μ, k, k₂, e: `smoothing`, at the variance v_j of a
pre-activation). The levels differ in the strength G of w_⊥ after the step. With τ = ηA/√N, φ₀ = d/n_step and p running
over the spectrum of M = (1/n) Xᵀ diag(r) X (`gradient_noise`), G/(1 − 1/d) is

    T2    1                                                    the exact rank-one step
    T2i   1 + τ² φ₀ E r² Var σ'                                isotropic fluctuations of the gradient
    T2M   (1 + 2c₂τ m_p)² + τ² φ₀ E r² (Var σ' − 4c₂²)         resolved along M
    T2S   (1 + 2c₂τ m_p)² + τ² φ₀ S_p (Var σ' − 4c₂²)          the noise of higher order too, S = (1/n) Xᵀ diag(r²) X,
                                                               and M's action on the learned direction itself
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from onestride._numerics import Array
from onestride.functions import InputError
from onestride.problem import Problem
from onestride.theory.direction import direction
from onestride.theory.gradient_noise import SpectralNodes, gradient_noise
from onestride.theory.neurons import Learned, learned_direction, neuron_nodes, normal_rule
from onestride.theory.smoothing import smooth, smooth_directly

LEVELS = ("T2", "T2i", "T2M", "T2S")
BEST_LEVEL = "T2S"
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
    eta: float
    learned: Learned
    z: Array
    w: Array
    A: Array
    theta: Array
    weight: Array
    v: Array
    mu: Array
    K: Array
    K2: Array
    e: Array
    G: Array
    pi: Array
    G_teacher: Array
    pi_teacher: Array
    h0: Array
    h1: Array
    hr: Array

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
    def neuron_basis(self) -> tuple[Array, Array]:
        """K as a product of few columns and rows (10 to 25, to rounding): k(θz) is smooth in θ."""
        if not np.isfinite(self.K).all():
            return self.K, np.eye(self.K.shape[1])
        left, values, right = np.linalg.svd(self.K, full_matrices=False)
        kept = values > 1e-15 * values[:1]
        return left[:, kept], values[kept, None] * right[kept]

    @property
    def row_mean(self) -> Array:
        """b_k = [μ(θ_k z); √(2/d) e(θ_k z)], k × 2i."""
        return np.concatenate([self.mu, np.sqrt(2 / self.problem.d) * self.e], axis=1)

    @property
    def length_mean(self) -> Array | None:
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
    if level not in LEVELS:
        raise InputError(f"level must be one of {', '.join(LEVELS)}, got {level!r}")
    eta, sigma = problem.eta, problem.sigma
    learned = learned_direction(problem, eta, through_output=through_output)
    count, scale = _resolution(learned.amplitude, nodes)
    z, w = normal_rule(count, scale)
    strength = _strength(problem, level, learned)
    along = None if strength is None else strength.along_learned
    neurons = neuron_nodes(problem, learned, nodes, min_weight=min_weight, strength=along, shift=shift)
    if strength is None:
        G = G_teacher = np.full((neurons.A.size, 1), 1 - 1 / problem.d)
        pi = pi_teacher = np.ones(1)
    else:
        G, pi = strength.on(strength.bulk, neurons.A), strength.bulk.weight
        G_teacher, pi_teacher = strength.on(strength.teacher, neurons.A), strength.teacher.weight
    v = G @ pi
    s = smooth(sigma, neurons.theta[:, None] * z, v[:, None])
    h0, h1, hr = _teacher(problem, learned.overlap, z, w)
    return Profile(
        problem=problem,
        level=level,
        eta=eta,
        learned=learned,
        z=z,
        w=w,
        A=neurons.A,
        theta=neurons.theta,
        weight=neurons.weight,
        v=v,
        mu=s.mu,
        K=s.k,
        K2=s.k2,
        e=s.e,
        G=G,
        pi=pi,
        G_teacher=G_teacher,
        pi_teacher=pi_teacher,
        h0=h0,
        h1=h1,
        hr=hr,
    )


def _teacher(problem: Problem, overlap: float, z: Array, w: Array) -> tuple[Array, Array, Array]:
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


@dataclass(frozen=True)
class _Strength:
    """G = (1 − 1/d)((1 + quadratic·τ m)² + higher·τ² S), τ = ηA/√N, on three spectral laws of M."""

    problem: Problem
    quadratic: float
    higher: float
    bulk: SpectralNodes
    teacher: SpectralNodes
    learned: SpectralNodes | None

    def on(self, law: SpectralNodes, A: Array) -> Array:
        """G, neurons × nodes of the law."""
        tau = self.problem.eta * A[:, None] / np.sqrt(self.problem.N)
        moved = (1 + self.quadratic * tau * law.eigenvalue) ** 2
        return (1 - 1 / self.problem.d) * (moved + self.higher * tau**2 * law.power)

    def along_learned(self, A: Array) -> Array:
        """The factor by which the step changes the variance of θ at fixed A."""
        return np.ones_like(A) if self.learned is None else self.on(self.learned, A) @ self.learned.weight


def _strength(problem: Problem, level: str, learned: Learned) -> _Strength | None:
    """How strong w_⊥ is after the step; None when the step leaves it alone (level T2, no step, labels that are all 0)."""
    phi0, power = problem.d / problem.step_samples, direction(problem).residual_power
    if level == "T2" or problem.eta == 0 or power == 0:
        return None
    slope_variance, c2 = problem.sigma.derivative_variance, problem.sigma.coefficients[2]
    if level == "T2i":
        point = SpectralNodes(np.zeros(1), np.ones(1), np.full(1, power))
        return _Strength(problem, 0.0, phi0 * slope_variance, point, point, None)
    noise = gradient_noise(problem)
    if level == "T2M":
        laws = (noise.bulk_law(), noise.projected_teacher_law())
        bulk, teacher = (replace(law, power=np.full_like(law.power, power)) for law in laws)
        along = None
    else:
        bulk, teacher, along = noise.bulk_law(), noise.teacher_law(learned.tilt), noise.learned_law(learned.tilt)
    return _Strength(problem, 2 * c2, phi0 * max(slope_variance - 4 * c2**2, 0.0), bulk, teacher, along)
