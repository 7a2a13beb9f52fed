"""What the step remembers: of its batch, of the network's output and of the length of the rows, in the mean features.

After the step a neuron of kind (A, ω) has mean features b on functions of the row, and two more things in them: xᵀMx/d, which
changes the variance of every pre-activation, and ζ = e·x, the unlearned part of the teacher's argument. With τ = ηA/√N,
ν = 2c₂, E r² the residual's power, n the samples of the step and e(·) = v ∂b/∂v:

    length    |w_j|² changes by 2τ w_j·γ_j: e (2τ/v) √(E r²/n (Eψ² − ψ₀² − ψ₁²)), ψ(g) = g σ'(g), new for each neuron
    mean      the mean residual r̄ ~ N(0, E r²/n) moves all of them:  b + e (2ντ/v) r̄
    memory    xᵀMx/d has variance 2E r²/n over x: e (2ντ/v) √(2E r²/n) on f·xᵀMx/d
    kick      M couples t̂ and e: given ω the mean of w·e is C ω/√G_t, G_t the strength along t̂, C = 2ντ t̂ᵀMe + ν²τ² t̂ᵀM²e
    output    t = Wᵀa holds p = W₀ᵀa, and |w_j| = 1 makes w_j − a_j p shorter by 2a_j w_j·p: its length and its weight along
              ζ vary together where t̂, and with it e, has a part along p
    cubic     E[r 3c₃H₂(w·x)x] = 6c₃(w·g)w + 18c₃(c⋆₃(w·β⋆)²β⋆ − c₃p/d), g = c⋆₁β⋆ − c₁p: neurons grow along themselves
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from onestride._numerics import Array, Float, gauss_density
from onestride.functions import Function
from onestride.problem import Problem
from onestride.theory.direction import direction
from onestride.theory.profile.gradient_noise import gradient_noise
from onestride.theory.profile.neurons import LearnedDirection
from onestride.theory.profile.sectors import Means, Sector
from onestride.theory.profile.strength import Strength


class Kinds(NamedTuple):
    """Nodes (A, ω, length): |w_⊥|² before the step is `aside`, after it v; the laws of M give the strengths relative to it."""

    A: Float[Array, "k"]
    omega: Float[Array, "k"]
    aside: Float[Array, "k"]
    weight: Float[Array, "k"]
    theta: Float[Array, "k"]
    v: Float[Array, "k"]
    along: Float[Array, "k"]
    along_e: Float[Array, "k"]
    bulk: Float[Array, "k p"]
    share: Float[Array, "p"]
    teacher: Float[Array, "k t"]
    teacher_share: Float[Array, "t"]


def remembered(
    problem: Problem,
    learned: LearnedDirection,
    law: Strength | None,
    kinds: Kinds,
    parts: Float[Array, "parts k i"],
    teacher: Float[Array, "parts i"],
    linear: Sector,
) -> tuple[Means, Sector]:
    """The special sector on f, f·xᵀMx/d and f·ζ, averaged over r̄ by three points; and sector 1 less what is in it."""
    zero = np.zeros_like(parts[0])
    cases, independent = [(1.0, zero, zero)], []
    C = coupling(problem, learned, law, kinds.A)
    weight_e = C * kinds.omega / np.sqrt(kinds.along)
    if law is not None:
        cases, own = _of_the_batch(problem, law, kinds, parts[-1])
        independent.append(np.concatenate([own, zero, zero], axis=1))
        tau = problem.eta * kinds.A / np.sqrt(problem.N)
        weight_e = weight_e + tau * cubic(problem, learned, kinds.omega)[1]
    kick = linear.K * (weight_e / np.sqrt(kinds.v))[:, None]
    left = kinds.along_e - C**2 / kinds.along  # variance of w·e given ω, times d
    lengths = length(problem, learned, literal=law is not None)
    if lengths.across > 0 and learned.overlap**2 < 1 - 1e-9:
        moved, on_e = _with_the_length(problem, lengths, kinds, C, left)
        along_e = on_e * np.sqrt(kinds.aside / kinds.v / linear.dim)
        independent.append(np.concatenate([parts[-1] * moved[:, None], zero, linear.K * along_e[:, None]], axis=1))
        left = left - on_e**2
    kept = np.clip(left / kinds.along_e, 0.0, 1.0)
    means = Means(
        tuple((p, np.concatenate([parts[0] + mean, form, kick], axis=1)) for p, mean, form in cases),
        tuple(independent),
        np.concatenate([teacher[0], np.zeros_like(teacher[0]), teacher[1]]),
        carried=True,
    )
    return means, replace(linear, teacher_strength=linear.teacher_strength * kept[:, None])


def _of_the_batch(
    problem: Problem, law: Strength, kinds: Kinds, e: Float[Array, "k i"]
) -> tuple[list[tuple[float, Array, Array]], Float[Array, "k i"]]:
    """(probability, what r̄ adds, what xᵀMx/d multiplies) at three r̄, and what each neuron's own gradient adds."""
    tau = problem.eta * kinds.A / np.sqrt(problem.N)
    noise = direction(problem).residual_power / problem.step_samples  # E r²/n
    lengthened = e * (2 * tau * kinds.aside / kinds.v)[:, None]
    shared, root = law.quadratic * lengthened, np.sqrt(3 * noise)
    rule = ((0.0, 2 / 3), (root, 1 / 6), (-root, 1 / 6))
    cases = [(p, mean * shared, np.sqrt(2 * noise) * shared) for mean, p in rule]
    return cases, np.sqrt(noise * _own_slope(problem.sigma)) * lengthened


def _with_the_length(
    problem: Problem, lengths: Length, kinds: Kinds, C: Array, left: Array
) -> tuple[Float[Array, "k"], Float[Array, "k"]]:
    """Given ω: the relative spread of |w|² by ℓ·w, and the covariance of w·e with it; M does not turn p, p̂ᵀMe = 0."""
    spread = np.sqrt(np.maximum(lengths.along**2 * (1 - 1 / kinds.along) + lengths.across**2, 1e-300))
    most = np.sqrt(np.maximum(left, 0.0))
    on_e = np.clip((lengths.across * lengths.cosine - C * lengths.along / kinds.along) / spread, -most, most)
    return kinds.A / np.sqrt(float(problem.N) * problem.d) * spread / kinds.aside, on_e


def coupling(problem: Problem, learned: LearnedDirection, law: Strength | None, A: Array) -> Float[Array, "k"]:
    """C = 2ντ t̂ᵀMe + ν²τ² t̂ᵀM²e, d times the covariance of a neuron's weights along t̂ and e after the step."""
    if law is None or law.learned is None or learned.overlap**2 > 1 - 1e-9:
        return np.zeros_like(A)
    first, second = _cross_moments(problem, learned)
    tau = problem.eta * A / np.sqrt(problem.N)
    return 2 * law.quadratic * tau * first + (law.quadratic * tau) ** 2 * (second + 2 * law.shift * first)


def cubic(problem: Problem, learned: LearnedDirection, omega: Float[Array, "k"]) -> tuple[Array, Array]:
    """What degree three of σ adds to the mean gradient of a neuron along t̂ and along e, the mean over w·e taken.

    E[r 3c₃H₂(w·x)x] = 6c₃(w·g)w + 18c₃(c⋆₃(w·β⋆)²β⋆ − c₃p/d),   g = c⋆₁β⋆ − c₁p (full) or c⋆₁β⋆ (labels).
    """
    c1, c3 = problem.sigma.coefficients[[1, 3]] if problem.gradient == "full" else (0.0, problem.sigma.coefficients[3])
    star1, star3 = problem.target.coefficients[[1, 3]]
    overlap, tilt, d = learned.overlap, learned.tilt, problem.d
    unlearned = np.sqrt(max(1 - overlap**2, 0.0))
    p_on_e = -overlap * tilt / unlearned if unlearned > 1e-5 else 0.0
    square = overlap**2 * omega**2 + unlearned**2 / d  # E (w·β⋆)² given ω
    own = 3 * c3 if c1 else 0.0
    along = 6 * (star1 * overlap - c1 * tilt) * omega**2 + 18 * star3 * square * overlap - 6 * own * tilt / d
    across = 6 * (star1 * unlearned - c1 * p_on_e) / d + 18 * star3 * square * unlearned - 6 * own * p_on_e / d
    return c3 * along, c3 * across


class Length(NamedTuple):
    """A neuron's squared length before the step, less its part along a_j p, changes by a_j ℓ·w_j: ℓ along t̂, across it, and
    the cosine of what is across with e, the unlearned part of β⋆.
    """

    along: float
    across: float
    cosine: float
    star: float
    output: float


def pull(problem: Problem, learned: LearnedDirection) -> Length:
    """ℓ = 12 c₃η g: the literal gradient's part along w_j itself, 6c₃(w·g)w."""
    strength = 12 * problem.sigma.coefficients[3] * problem.eta
    output = strength * problem.sigma.coefficients[1] if problem.gradient == "full" else 0.0
    return _vector(learned, strength * problem.target.coefficients[1], -output)


def length(problem: Problem, learned: LearnedDirection, *, literal: bool) -> Length:
    """ℓ = −2p, as |w_j| = 1 (rows on the sphere), and what the literal gradient adds."""
    unit = -2.0 if problem.weights == "sphere" and learned.through_output else 0.0
    added = pull(problem, learned) if literal else _vector(learned, 0.0, 0.0)
    return _vector(learned, added.star, added.output + unit)


def _vector(learned: LearnedDirection, star: float, output: float) -> Length:
    """ℓ = star β⋆ + output p; p and β⋆ are orthogonal."""
    overlap, tilt = learned.overlap, learned.tilt
    along = star * overlap + output * tilt
    across = np.sqrt(max(star**2 + output**2 - along**2, 0.0))
    unlearned = np.sqrt(max(1 - overlap**2, 0.0))
    on_e = star * unlearned - output * overlap * tilt / unlearned if unlearned > 1e-5 else 0.0
    cosine = float(np.clip(on_e / across, -1, 1)) if across > 0 else 0.0
    return Length(along, float(across), cosine, star, output)


def _cross_moments(problem: Problem, learned: LearnedDirection) -> tuple[float, float]:
    """t̂ᵀMe and t̂ᵀM²e from the spectral transforms of M, e = (β⋆ − ϱ t̂)/√(1 − ϱ²)."""
    noise = gradient_noise(problem)
    straight, overlap = 1 - learned.tilt**2, learned.overlap
    along = straight * noise.beta + learned.tilt**2 * noise.bulk
    transform = (np.sqrt(straight) * noise.cross - overlap * along) / np.sqrt(1 - overlap**2)
    density = np.imag(transform) * np.gradient(noise.x) / np.pi
    return float(density @ noise.x), float(density @ noise.x**2)


def _own_slope(sigma: Function) -> float:
    """Eψ² − ψ₀² − ψ₁² of ψ(g) = g σ'(g)."""
    x, w = sigma.rule
    p = w * gauss_density(x)
    psi = x * sigma.derivative(x)
    return max(float(p @ psi**2 - (p @ psi) ** 2 - (p @ (psi * x)) ** 2), 0.0)
