"""The features after the step, node by node: what the equations of the profile theory are about.

With z_i the samples' coordinate along the learned direction and θ_j the neurons' weight along it,

    F_ij = μ(θ_j z_i) + k(θ_j z_i) (w_⊥j · x_⊥i) + √k₂(θ_j z_i) Z_ij + √(2/d) e(θ_j z_i) g_i,

a low-rank mean plus a matrix with a variance profile (μ, k, k₂, e: `smoothing`, at the variance v_j of a
pre-activation). Three levels differ in the strength G of w_⊥ after the step; p runs over the spectrum of M:

    T2    G = 1 − 1/d                                             the exact rank-one step
    T2i   G = (1 − 1/d) (1 + (η²/N) φ₀ E r² Var σ' A²)            isotropic fluctuations of the gradient
    T2M   G_p = (1 − 1/d) ((1 + 2c₂ηA m_p/√N)² + (η²/N) φ₀ E r² (Var σ' − 4c₂²) A²)     resolved along M
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onestride._numerics import Array
from onestride.functions import InputError
from onestride.problem import Problem
from onestride.theory.direction import direction
from onestride.theory.gradient_noise import SpectralNodes, spectral_laws
from onestride.theory.neurons import Learned, learned_direction, neuron_nodes, normal_rule
from onestride.theory.smoothing import smooth, smooth_directly

LEVELS = ("T2", "T2i", "T2M")
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
    level: str = "T2M",
    *,
    nodes: int = NODES,
    min_weight: float = 1e-12,
    through_output: bool | None = None,
) -> Profile:
    """Set up the profile theory for `problem` (its ridge plays no part: `solve` takes λ).

    `nodes` counts those of z and of A; neuron nodes of probability below `min_weight` are dropped (0.03/N before asking
    for an edge of the spectrum). `through_output` forces the form of the learned direction, see `neurons`.
    """
    if level not in LEVELS:
        raise InputError(f"level must be one of {', '.join(LEVELS)}, got {level!r}")
    eta, sigma = problem.eta, problem.sigma
    learned = learned_direction(problem, eta, through_output=through_output)
    count, scale = _resolution(learned.amplitude, nodes)
    z, w = normal_rule(count, scale)
    joint = level != "T2" and eta > 0
    neurons = neuron_nodes(problem, learned, nodes, joint=joint, min_weight=min_weight)
    G, pi, G_teacher, pi_teacher = _strengths(problem, level, neurons.A)
    v = G @ pi
    s = smooth(sigma, neurons.theta[:, None] * z, v[:, None])
    teacher = smooth_directly(problem.target, learned.overlap * z, 1 - learned.overlap**2)
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
        h0=teacher.mu,
        h1=np.sqrt(1 - learned.overlap**2) * teacher.k,
        hr=teacher.k2,
    )


def _resolution(amplitude: float, nodes: int) -> tuple[int, float]:
    """Nodes of z and the scale on which they crowd near 0: |z| ~ 1/θ for strong steps."""
    scale = 1 / max(1.0, amplitude)
    return 2 * round(nodes * np.arcsinh(7.5 / scale) / np.arcsinh(7.5) / 2 - 0.5) + 1, scale


def _strengths(problem: Problem, level: str, A: Array) -> tuple[Array, Array, Array, Array]:
    """G and π on the spectrum of M seen by the bulk, and the same along the teacher's direction."""
    shrink, one = 1 - 1 / problem.d, np.ones(1)
    if level == "T2" or problem.eta == 0:
        G = np.full((A.size, 1), shrink)
        return G, one, G, one
    sigma, beta = problem.sigma, direction(problem)
    phi0 = problem.d / problem.step_samples
    size = problem.eta * A / np.sqrt(problem.N)
    quadratic = 4 * sigma.coefficients[2] ** 2
    if level == "T2i":
        G = shrink * (1 + phi0 * beta.residual_power * sigma.derivative_variance * size**2)[:, None]
        return G, one, G, one
    higher = phi0 * max(sigma.derivative_variance - quadratic, 0.0) * size**2

    def strength(law: SpectralNodes) -> Array:
        moved = (1 + np.sqrt(quadratic) * np.sign(sigma.coefficients[2]) * size[:, None] * law.eigenvalue) ** 2
        return shrink * (moved + higher[:, None] * beta.residual_power)

    bulk, teacher = spectral_laws(problem)
    return strength(bulk), bulk.weight, strength(teacher), teacher.weight
