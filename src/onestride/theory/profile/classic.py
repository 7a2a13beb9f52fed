"""The levels rank-one, isotropic, resolved and full: one sector, degree one of the inputs.

With z_i the samples' coordinate along the learned direction and θ_j the neurons' weight along it,

    F_ij = μ(θ_j z_i) + k(θ_j z_i) (w_⊥j · x_⊥i) + √k₂(θ_j z_i) Z_ij + √(2/d) e(θ_j z_i) g_i,

a low-rank mean, the linear sector of dimension d with strength G (`strength`), noise, and the length of x to first order,
g ~ N(0, 1) (μ, k, k₂, e: `smoothing`, at the variance v_j of a pre-activation). Higher degrees count as noise: n, N ≪ d²/2.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

import numpy as np

from onestride.problem import Problem
from onestride.theory.profile.neurons import learned_direction, neuron_nodes, normal_rule, resolution
from onestride.theory.profile.sectors import Means, Model, Sector, split_teacher
from onestride.theory.profile.smoothing import smooth
from onestride.theory.profile.strength import strength

GAUSSIAN = 10**15  # a sphere of that many dimensions: its coordinates are Gaussian to rounding


def build(
    problem: Problem,
    level: str,
    *,
    nodes: int,
    min_weight: float = 1e-12,
    through_output: bool | None = None,
    shift: float = 0.0,
) -> Model:
    """Set up one of the four levels for `problem` (its ridge plays no part: `solve` takes λ).

    `nodes` counts those of z and of A; neuron nodes of probability below `min_weight` are dropped (0.03/N before asking
    for an edge of the spectrum). `through_output` forces the form of the learned direction, `shift` moves the nodes of
    A, see `neurons`.
    """
    learned = learned_direction(problem, through_output=through_output)
    z, w = normal_rule(*resolution(learned.amplitude, nodes))
    law = strength(problem, level, learned)
    along = None if law is None else law.along_learned
    neurons = neuron_nodes(problem, learned, nodes, min_weight=min_weight, strength=along, shift=shift)
    if law is None:
        G = G_teacher = np.full((neurons.A.size, 1), 1 - 1 / problem.d)
        pi, frame = np.ones(1), np.eye(problem.directions)[None]
    else:
        G, pi = law.on(law.bulk, neurons.A), law.bulk.weight
        G_teacher, frame = law.on(law.teacher, neurons.A), law.teacher.frame
    v = G @ pi
    mu, k, k2, e = smooth(problem.sigma, neurons.theta[:, None] * z, v[:, None])
    r = np.full(z.size, np.sqrt(GAUSSIAN))
    h0, h1, tail = split_teacher(problem.target, learned.overlap, z, r, w, GAUSSIAN, 1)
    length = np.sqrt(2 / problem.d) * e  # |x|² varies by that much; with Gaussian rows so does |w_j|²
    independent = () if problem.weights == "sphere" else (np.concatenate([length, np.zeros_like(length)], axis=1),)
    means = Means(((1.0, np.concatenate([mu, length], axis=1)),), independent, np.concatenate([h0, np.zeros_like(h0)]))
    linear = Sector(float(problem.d), k, G, pi, h1, G_teacher, frame)
    return Model(problem, level, learned, GAUSSIAN, z, r, w, *neurons, v, (linear,), k2, means, tail)
