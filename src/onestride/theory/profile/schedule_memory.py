"""What several steps leave in the mean features besides the learned directions: `memory` for a path of steps.

With y = Σ_t τ_t k'_t, ē² = Σ_t (η_tκ_t)² E r_t²/(Σ ηκ)²/n_step, the variance of M̂'s mean residual, and e(·) = v ∂b/∂v as in `memory`:

    length    e (2a/v) √(Σ_t η_t² E r_t²/n_step (Eψ² − ψ₀² − ψ₁²)), ψ(g) = g σ'(g), new for each neuron
    mean      b + e (2y/v) r̄,   r̄ ~ N(0, ē²)
    memory    e (2y/v) √2 ē on f·xᵀM̂x/d
    kick      M̂ couples E_m and e: given ω the mean of w·e is L·e + Σ_m C_m ω_m/√G_m, C_m = 2b y E_mᵀM̂e + y² E_mᵀM̂²e
              (a teacher of several directions leaves several e, all of them so)
    output    unit rows and the pull along themselves: |w_j|² varies with ℓ·w_j, ℓ = −2a p + 2 Σ_t τ_t E[R k'' u]
    further   the mean weight on a further direction of noise, to first order
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from onestride._numerics import Array, Float
from onestride.problem import Problem
from onestride.theory.profile.memory import Kinds, given_length, given_omega, own_slope, told
from onestride.theory.profile.one_neuron import Path
from onestride.theory.profile.sectors import Means, Sector


class Movement(NamedTuple):
    """The path, its learned directions E and e, and the neurons' nodes: which A (`at`), θ and ω on E, G along E, mean weights on
    e and on further directions; cross: E_mᵀM̂e and E_mᵀM̂²e; means: E_mᵀM̂E_m; among: eᵀM̂e.
    """

    path: Path
    E: Float[Array, "m dirs"]
    e: Float[Array, "e dirs"]
    at: Array
    theta: Float[Array, "k m"]
    omega: Float[Array, "k m"]
    along: Float[Array, "k m"]
    on_e: Float[Array, "k e"]
    on_further: Float[Array, "k f"]
    cross: Float[Array, "m e 2"]
    means: Float[Array, "m"]
    among: Float[Array, "e e"]

    @property
    def bend(self) -> Float[Array, "k"]:
        """Y = Σ_t τ_t k'_t."""
        return self.path.bends.sum(1)[self.at]

    @property
    def coupling(self) -> Float[Array, "k m e"]:
        """C_m."""
        y, b = self.bend[:, None, None], self.path.end.b[self.at][:, None, None]
        return 2 * b * y * self.cross[:, :, 0] + y**2 * self.cross[:, :, 1]


def remembered(
    problem: Problem,
    movement: Movement,
    kinds: Kinds,
    parts: Float[Array, "parts k i"],
    teacher: list[Array],
    linear: Sector,
) -> tuple[Means, Sector]:
    """The special sector on f, f·xᵀM̂x/d, f·(further) and f·ζ, averaged over r̄; and sector 1 less what is in it."""
    C, per_weight = movement.coupling, linear.K / np.sqrt(kinds.v)[:, None]
    on_e = movement.on_e + np.einsum("kme,km->ke", C, movement.omega / np.sqrt(movement.along))
    weights = np.concatenate([on_e, movement.on_further], axis=1)
    carried = [per_weight * weight[:, None] for weight in weights.T]
    lengthened = parts[-1] * (2 * kinds.aside / kinds.v)[:, None]
    noise, shared = movement.path.shared_power / problem.step_samples, lengthened * movement.bend[:, None]
    form, root = np.sqrt(2 * noise) * shared, np.sqrt(3 * noise)
    rule = ((0.0, 2 / 3), (root, 1 / 6), (-root, 1 / 6))
    cases = tuple((p, np.concatenate([parts[0] + mean * shared, form, *carried], axis=1)) for mean, p in rule)
    power = movement.path.own_power / problem.step_samples * own_slope(problem.sigma)
    own = lengthened * (kinds.A * np.sqrt(power / problem.N))[:, None]
    zeros = [np.zeros_like(own)] * (1 + len(carried))
    left, E = given_omega(kinds, C, movement.along)
    moved, with_e = _with_the_length(problem, movement, kinds, C, E)
    along_e = [per_weight * (part * np.sqrt(kinds.aside / linear.dim))[:, None] for part in with_e.T]
    independent = (
        np.concatenate([own, *zeros], axis=1),
        np.concatenate([parts[-1] * moved[:, None], zeros[0], *along_e, *zeros[1 + len(along_e) :]], axis=1),
    )
    share, excess = given_length(E, with_e)
    further = movement.on_further.shape[1]
    excess = np.pad(excess, ((0, 0), (0, further), (0, further))) * (kinds.aside / kinds.v / linear.dim)[:, None, None]
    h = np.concatenate([teacher[0], np.zeros_like(teacher[0])])
    seen = (np.eye(len(carried)),), (None if problem.directions == 1 else excess,)
    linear = replace(linear, teacher_strength=linear.teacher_strength * left * share[:, None])
    return Means(cases, independent, h, *seen), _with_further(linear, further)


def _with_further(linear: Sector, further: int) -> Sector:
    """Sector 1 with directions beside e in which the teacher has no part and which see the bulk's law."""
    e, roots = linear.teacher_frame, np.sqrt(linear.share)
    frames, strengths = [np.pad(e, ((0, 0), (0, 0), (0, further)))], [linear.teacher_strength]
    for j in range(e.shape[2], e.shape[2] + further):
        frames.append(np.zeros((roots.size, e.shape[1], e.shape[2] + further)))
        frames[-1][:, 0, j] = roots
        strengths.append(linear.strength)
    h = np.pad(linear.h, ((0, 0), (0, further)))
    return replace(
        linear, h=h, teacher_strength=np.concatenate(strengths, axis=1), teacher_frame=np.concatenate(frames)
    )


def _with_the_length(
    problem: Problem, movement: Movement, kinds: Kinds, C: Float[Array, "k m e"], E: Float[Array, "k e e"]
) -> tuple[Float[Array, "k"], Float[Array, "k e"]]:
    """Given ω: the relative spread of |w|² by ℓ·w off E₁, and the covariance of w·e with it."""
    end, G = movement.path.end, movement.along[:, 0]
    a = kinds.A / np.sqrt(problem.N)
    unit = -2 * a if problem.weights == "sphere" else 0 * a
    pull = 2 * end.pull[movement.at]
    ell = unit[:, None] * end.output + pull
    squared = unit**2 + (pull**2).sum(1) + 2 * unit * (pull @ end.output)  # |p| = 1, also where directions were dropped
    along, on_e, y, b = ell @ movement.E[0], ell @ movement.e.T, movement.bend[:, None], end.b[movement.at][:, None]
    cross = movement.cross[0, :, 0]
    # ℓᵀTE₁ with T = b + Y M̂, and ℓᵀTe
    with_t = along * (b + y * movement.means[0])[:, 0] + y[:, 0] * (on_e @ cross)
    with_e = along[:, None] * y * cross + b * on_e + y * (on_e @ movement.among)
    spread = np.sqrt(np.maximum(squared - with_t**2 / G, 1e-300))
    most = np.sqrt(np.maximum(np.einsum("kee->ke", E), 0.0))
    with_e = np.clip((with_e - C[:, 0] * (with_t / G)[:, None]) / spread[:, None], -most, most)
    if with_e.shape[1] > 1:
        with_e = with_e / np.sqrt(np.maximum(told(E, with_e), 1.0))[:, None]  # no more than there is
    return spread / np.sqrt(problem.d) / kinds.aside, with_e * movement.e.any(1)
