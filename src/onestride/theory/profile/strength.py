"""How strong the weights off the learned direction are after the step: the four levels of the profile theory.

With τ = ηA/√N, φ₀ = d/n_step and p running over the spectrum of M = (1/n) Xᵀ diag(r) X (`gradient_noise`), the strength
G of w_⊥ over 1 − 1/d is

    rank-one    1                                                    the exact rank-one step
    isotropic   1 + τ² φ₀ E r² Var σ'                                isotropic fluctuations of the gradient
    resolved    (1 + 2c₂τ m_p)² + τ² φ₀ E r² (Var σ' − 4c₂²)         resolved along M
    full        (1 + 2c₂τ m_p)² + τ² φ₀ S_p (Var σ' − 4c₂²)          the noise of higher order too, S = (1/n) Xᵀ diag(r²) X,
                                                                     and M's action on the learned direction itself

Notes and older files call them T2, T2i, T2M and T2S; those names are understood as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, cast, get_args

import numpy as np

from onestride._errors import one_of
from onestride._numerics import Array, Float
from onestride.problem import Problem
from onestride.theory.direction import direction
from onestride.theory.profile.gradient_noise import SpectralNodes, gradient_noise
from onestride.theory.profile.neurons import LearnedDirection, readout_rule

Level = Literal["rank-one", "isotropic", "resolved", "full", "degrees"]
LEVELS: tuple[Level, ...] = get_args(Level)
BEST_LEVEL: Final = "degrees"
_READOUTS = 31  # nodes of A, where an average over it is asked for
_CODES = {"T2": "rank-one", "T2i": "isotropic", "T2M": "resolved", "T2S": "full"}


def level_name(level: str) -> Level:
    """The level's name, for a name or its code."""
    name = _CODES.get(str(level), level)
    one_of("level", name, LEVELS)
    return cast("Level", name)


@dataclass(frozen=True)
class Strength:
    """G = (1 − 1/d)((1 + quadratic·τ (m + shift))² + higher·τ² S) on the spectral laws that the bulk, the teacher's unlearned
    and the learned direction see; that of the last is None where the step leaves the variance of θ alone.
    """

    problem: Problem
    quadratic: float
    higher: float
    bulk: SpectralNodes
    teacher: SpectralNodes
    learned: SpectralNodes | None
    shift: float = 0.0

    def on(self, law: SpectralNodes, A: Float[Array, "k"]) -> Float[Array, "k p"]:
        """G, neurons × nodes of the law."""
        tau = self.problem.eta * A[:, None] / np.sqrt(self.problem.N)
        moved = (1 + self.quadratic * tau * (law.eigenvalue + self.shift)) ** 2
        return (1 - 1 / self.problem.d) * (moved + self.higher * tau**2 * law.power)

    def along_learned(self, A: Float[Array, "k"]) -> Float[Array, "k"]:
        """The factor by which the step changes the variance of θ at fixed A."""
        return np.ones_like(A) if self.learned is None else self.on(self.learned, A) @ self.learned.weight

    def kept_along_learned(self, A: Float[Array, "k"]) -> Float[Array, "k"]:
        """1 + 2c₂τ t̂ᵀMt̂: what becomes of a weight along t̂, apart from what M brings from others."""
        mean = 0.0 if self.learned is None else self.learned.weight @ self.learned.eigenvalue + self.shift
        return 1 + self.quadratic * mean * self.problem.eta * A / np.sqrt(self.problem.N)


def isotropic_noise(problem: Problem) -> float:
    """φ₀ E r² Var σ': what the gradient's fluctuations add to the squared length of a neuron, over τ²."""
    phi0, power = problem.d / problem.step_samples, direction(problem).residual_power
    return phi0 * power * problem.sigma.derivative_variance


def strength(problem: Problem, level: str, learned: LearnedDirection) -> Strength | None:
    """How strong w_⊥ is; None when the step leaves it alone (rank-one, no step, labels that are all 0)."""
    phi0, power = problem.d / problem.step_samples, direction(problem).residual_power
    if level == "rank-one" or problem.eta == 0 or power == 0:
        return None
    slope_variance, c2 = problem.sigma.derivative_variance, problem.sigma.coefficients[2]
    if level == "isotropic":
        point = SpectralNodes(np.zeros(1), np.ones(1), np.full(1, power), np.ones((1, 1, 1)))
        teacher = replace(point, frame=np.eye(problem.directions)[None])
        return Strength(problem, 0.0, phi0 * slope_variance, point, teacher, None)
    noise = gradient_noise(problem)
    if level == "resolved":
        laws = (noise.bulk_law(), noise.projected_teacher_law())
        bulk, teacher = (replace(law, power=np.full_like(law.power, power)) for law in laws)
        along = None
    else:
        bulk, teacher, along = noise.bulk_law(), noise.teacher_law(learned.tilt), noise.learned_law(learned.tilt)
    higher = phi0 * max(slope_variance - 4 * c2**2, 0.0)
    return Strength(problem, 2 * c2, higher, bulk, teacher, along, own_shift(problem))


def own_shift(problem: Problem) -> float:
    """What the network's own output adds to M: −f₀ in the residual, whose quadratic part gives −2c₂ Σ_j a_j w_j w_jᵀ, of size 1/√d
    but −2c₂√N/d for a_j = 1/√N.
    """
    if problem.gradient != "full" or problem.readout != "constant":
        return 0.0
    return float(-2 * problem.sigma.coefficients[2] * np.sqrt(problem.N) / problem.d)


def unlearned_stretch(problem: Problem, learned: LearnedDirection) -> float:
    """|E/G − 1|, E and G the covariance of the weights along the teacher's unlearned directions and along others, root mean
    square over neurons.
    """
    law = strength(problem, "full", learned)
    if law is None:
        return 0.0
    A, weight = readout_rule(problem, _READOUTS)
    E = np.einsum("kt,tca,tcb->kab", law.on(law.teacher, A), law.teacher.frame, law.teacher.frame)
    G = law.on(law.bulk, A) @ law.bulk.weight
    change = E / G[:, None, None] - np.eye(E.shape[1])
    return float(np.sqrt(weight @ np.square(change).sum((1, 2))))
