"""How far the paper's expansion F_ℓ is from the features F at finite n.

    F_ℓ = F₀ + Σ_{k≤ℓ} c₁^k c_k η^k (X̃β)^{∘k} (a^{∘k})ᵀ,    ‖F − F_ℓ‖ = o(√n) as n → ∞ inside window ℓ.

At finite n two parts of F − F_ℓ are not small: what the step does along β, a function of z and A,

    Δ(z, A) = μ(θz; v) − Σ_{k≤ℓ} c_k (θz)^k,    θ = c₁ηs A/√N,    ‖·‖/√n = √N · ‖Δ‖ in L²(z) × L²(A),

and the gradient's fluctuations, which make a pre-activation's variance v = 1 + τ²φ₀ E r² Var σ' (the isotropic level).
"""

from __future__ import annotations

import numpy as np

from onestride.problem import Problem
from onestride.theory.direction import direction
from onestride.theory.profile.neurons import normal_rule, readout_rule
from onestride.theory.profile.smoothing import smooth
from onestride.theory.profile.strength import isotropic_noise

_NODES = 31


def expansion_distance(problem: Problem, ell: int) -> float:
    """The part of ‖F − F_ℓ‖/√n that lies along the learned direction; NaN where the activation overflows."""
    c, eta, beta = problem.sigma.coefficients, problem.eta, direction(problem)
    ell = min(ell, c.size - 1)
    A, weight = readout_rule(problem, _NODES)
    theta = c[1] * eta * beta.s * A / np.sqrt(problem.N)
    z, w = normal_rule(_NODES, 1 / max(1.0, float(np.abs(theta).max()) / 3))
    v = 1 + isotropic_noise(problem) * (eta * A) ** 2 / problem.N
    u = theta[:, None] * z
    powers = np.array([u**k for k in range(1, ell + 1)]).reshape(ell, *u.shape)
    spikes = np.tensordot(c[1 : ell + 1], powers, 1)
    with np.errstate(all="ignore"):
        rest = np.sqrt(weight)[:, None] * (smooth(problem.sigma, u, v[:, None]).mu - spikes) * np.sqrt(w)
    if not np.isfinite(rest).all():
        return float("nan")
    return float(np.sqrt(problem.N) * np.linalg.norm(rest, 2))
