"""What steps do to the neurons when inputs have a covariance, by readout: one step in closed form.

After them a neuron of readout A = √N a is, in the space of g,

    ω = Σ_u θ_u(A) u + Σ_e m_e(A) e + (1 + ν M̂)Π_t(1 + g_tΣ) ω₀ + noise,       ω₀ = Σ^{1/2}w₀,

means θ along the rows' coordinates and m along further directions, M̂ = (1/n)Xᵀdiag(r̂)X of all batches together, and noise of
covariance x Σ²/d, which holds ν²Mω₀'s own. One step has θ = |Σ^{1/2}t| a, ν = 2c₂ηa and nothing else; several are followed in
`correlated`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onestride._numerics import Array, Float
from onestride.problem import Problem
from onestride.theory.profile.anisotropy import Directions, Vector
from onestride.theory.profile.degrees import gauss_nodes
from onestride.theory.profile.gradient_noise import SpectralNodes, gradient_noise
from onestride.theory.profile.lengths import moved_law, step_law
from onestride.theory.profile.neurons import readout_rule


class Moves(NamedTuple):
    """Neurons of readout A: θ = learned, m = on (along `further`, orthonormal and off the rows' coordinates), ν = quadratic, x = noise,
    g = grows; own: 2τ√(E r²/n), by which a neuron's own gradient lengthens it.

    Of the batches: power = E r̂², spread = φ₀E r̂², noise_length = |ν|² of the shared noise, residual = E r̂²/n the variance of M̂'s
    mean; mean and square: the moments m and S of `along`; law: M_g's spectral law (None where there is no residual).
    """

    A: Float[Array, "a"]
    weight: Float[Array, "a"]
    learned: Float[Array, "a u"]
    on: Float[Array, "a f"]
    further: list[Vector]
    quadratic: Float[Array, "a"]
    noise: Float[Array, "a"]
    grows: Float[Array, "a t"]
    own: Float[Array, "a"]
    power: float
    spread: float
    noise_length: float
    residual: float
    mean: Float[Array, "b b"]
    square: Float[Array, "b b"]
    law: SpectralNodes | None

    def kept(self, lam: Float[Array, "p"]) -> Float[Array, "a p"]:
        """Π_t(1 + g_tλ): what is left of a neuron's first weights."""
        return np.prod(1 + self.grows[:, None, :] * lam[:, None], axis=2)

    def left(self, lam: Float[Array, "p"], energy: Float[Array, "p"]) -> Float[Array, "a"]:
        """The same averaged with these energies; 1 where there are none."""
        return self.kept(lam) @ energy / energy.sum() if energy.sum() > 0 else np.ones_like(self.A)


def one_step(problem: Problem, at: Directions, nodes: int) -> Moves:
    """Of a single step."""
    law, phi0 = step_law(problem), problem.d / problem.step_samples
    # neurons with a small readout differ most after a strong step: nodes crowd where θ is of order one
    A, weight = readout_rule(problem, nodes, 1 / max(1.0, at.length / np.sqrt(problem.N)))
    tau = problem.eta * A / np.sqrt(problem.N)
    nu, learned = law.quadratic * tau, np.zeros((A.size, len(at.rows)))
    learned[:, 0] = at.length * A / np.sqrt(problem.N)
    noise = phi0 * law.power * (nu**2 + tau**2 * max(law.slope - law.quadratic**2, 0.0))
    spectrum = None
    if law.power > 0:
        whole = gradient_noise(problem).bulk_law() if problem.law.freedom is None else moved_law(problem)
        spectrum = gauss_nodes(whole)
    residual = law.power / problem.step_samples
    none, own = np.zeros((A.size, 0)), 2 * tau * np.sqrt(residual)
    # the residual holds −f₀: equal readouts add −2c₂ Σ_j a_jΣw_jw_jᵀΣ to M, which is −2c₂√N Σ²/d, on average S₂Σ in the place of Σ²
    alike = problem.gradient == "full" and problem.readout == "constant"
    shift = -2 * problem.sigma.coefficients[2] * np.sqrt(problem.N) / problem.d * at.sigma.moment(2)
    grows = (nu * shift)[:, None] if alike else none
    batch = (law.power, phi0 * law.power, phi0 * law.batch, residual, law.mean, law.square)
    return Moves(A, weight, learned, none, [], nu, noise, grows, own, *batch, spectrum)
