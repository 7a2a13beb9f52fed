"""What the step remembers: of its batch, of the network's output and of the length of the rows, in the mean features.

After the step a neuron of kind (A, ω) has mean features b on functions of the row, and two more things in them: xᵀMx/d, which
changes the variance of every pre-activation, and ζ = e·x, the unlearned part of the teacher's argument. With τ = ηA/√N,
ν = 2c₂, E r² the residual's power, n the samples of the step and e(·) = v ∂b/∂v:

    length    |w_j|² changes by 2τ w_j·γ_j: e (2τ/v) √(E r²/n (Eψ² − ψ₀² − ψ₁² − ψ₂²)), ψ(g) = g σ'(g), new for each neuron
    turned    ψ₂ is that of w_jᵀMw_j, the neuron's own part of degree two along M, which sees xᵀMx/d too: e (2τ/v) √(E r²/n) ψ₂ on f and
              K₂ s/√B₂ on f·xᵀMx/d together, new for each neuron (K₂ and B₂ of sector 2, s² = Σ π m² g²/Σ π m² its strength along M)
    mean      the mean residual r̄ ~ N(0, E r²/n) moves all of them:  b + e (2ντ/v) r̄
    memory    xᵀMx/d has variance 2E r²/n over x: e (2ντ/v) √(2E r²/n) on f·xᵀMx/d
    kick      M couples t̂ and e: given ω the mean of w·e is C ω/√G_t, G_t the strength along t̂, C = 2ντ t̂ᵀMe + ν²τ² t̂ᵀM²e
    output    t = Wᵀa holds p = W₀ᵀa, and |w_j| = 1 makes w_j − a_j p shorter by 2a_j w_j·p: its length and its weight along
              ζ vary together where t̂, and with it e, has a part along p
    cubic     the gradient of degree three holds 6c₃(w·β)w, β = Xᵀr/n with the luck of its batch: neurons grow along themselves;
              and 18c₃(c⋆₃(w·β⋆)²β⋆ − c₃p/d)
    quartic   that of degree four holds 12c₄(wᵀMw)w: neurons with large weights along β⋆ grow along themselves, by 24c₄c⋆₂(w·β⋆)²

A teacher of k directions, turned so that E[g u] = (C, 0, …), has β⋆ for its mean direction, C for c⋆₁, and k unlearned
directions e, u₂ … u_k with a block f·ζ for each: M couples t̂ to all of them, the output and a neuron's length to e alone.
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
from onestride.theory.profile.harmonics import multiplicity
from onestride.theory.profile.neurons import LearnedDirection, readout_rule
from onestride.theory.profile.sectors import Means, Sector
from onestride.theory.profile.strength import Strength, own_shift, strength

_READOUTS = 31  # nodes of A, where an average over it is asked for


class Kinds(NamedTuple):
    """Nodes (A, ω, length): |w_⊥|² before the step is `aside`, after it v; the laws of M give the strengths relative to it."""

    A: Float[Array, "k"]
    omega: Float[Array, "k"]
    aside: Float[Array, "k"]
    weight: Float[Array, "k"]
    theta: Float[Array, "k"]
    v: Float[Array, "k"]
    along: Float[Array, "k"]
    along_e: Float[Array, "k e e"]
    bulk: Float[Array, "k p"]
    share: Float[Array, "p"]
    teacher: Float[Array, "k t"]
    teacher_frame: Float[Array, "t c e"]


def remembered(
    problem: Problem,
    learned: LearnedDirection,
    law: Strength | None,
    kinds: Kinds,
    parts: Float[Array, "parts k i"],
    teacher: list[Array],
    linear: Sector,
) -> tuple[Means, Sector]:
    """The special sector on f, f·xᵀMx/d and f·ζ, averaged over r̄ by three points; and sector 1 less what is in it."""
    zero, k = np.zeros_like(parts[0]), problem.directions
    cases, independent = [(1.0, zero, zero)], list[Array]()
    C = coupling(problem, learned, law, kinds.A)
    weight_e = C * (kinds.omega / np.sqrt(kinds.along))[:, None]
    if law is not None:
        cases, own, turned = of_the_batch(problem, law, kinds, parts[-1])
        independent.append(np.concatenate([own, *[zero] * (k + 1)], axis=1))
        independent.append(np.concatenate([turned, _along_M(law, kinds, parts, linear.dim), *[zero] * k], axis=1))
        tau = problem.eta * kinds.A / np.sqrt(problem.N)
        weight_e = weight_e + tau[:, None] * cubic(problem, learned, kinds.omega)[1]
    kick = _on_directions(linear.K, weight_e / np.sqrt(kinds.v)[:, None])
    left, E = given_omega(kinds, C[:, None], kinds.along[:, None])
    excess = np.zeros_like(E)
    lengths = length(problem, learned, literal=law is not None)
    if lengths.across > 0 and learned.overlap**2 < 1 - 1e-9:
        moved, on_e = _with_the_length(problem, learned, law, lengths, kinds, C, E)
        along_e = on_e * np.sqrt(kinds.aside / kinds.v / linear.dim)[:, None]
        own = [parts[-1] * moved[:, None], zero, *_on_directions(linear.K, along_e)]
        independent.append(np.concatenate(own, axis=1))
        share, excess = given_length(E, on_e)
        left = left * share[:, None]
    means = Means(
        tuple((p, np.concatenate([parts[0] + mean, form, *kick], axis=1)) for p, mean, form in cases),
        tuple(independent),
        np.concatenate([teacher[0], np.zeros_like(teacher[0])]),
        carried=(np.eye(k),),
        excess=(None if k == 1 else excess * (kinds.aside / kinds.v / linear.dim)[:, None, None],),
    )
    return means, replace(linear, teacher_strength=linear.teacher_strength * left)


def _on_directions(K: Float[Array, "k i"], weight: Float[Array, "k e"]) -> list[Float[Array, "k i"]]:
    """The mean features f·ζ of neurons with mean weights along e, u₂ … u_k."""
    return [K * column[:, None] for column in weight.T]


def given_omega(
    kinds: Kinds, C: Float[Array, "k m e"], along: Float[Array, "k m"]
) -> tuple[Float[Array, "k t"], Float[Array, "k e e"]]:
    """Share of the variance of w·e along each node's directions that ω does not tell, and d Cov(w·e) with it.

    One direction keeps 1 − C²/(G_t E); of several, every node keeps this share of what it sees of them.
    """
    frame, strength = kinds.teacher_frame, kinds.teacher * (kinds.v / kinds.aside)[:, None]
    seen = np.einsum("tca,kab,tcb->kt", frame, kinds.along_e, frame)
    told = np.einsum("ktcm,km->kt", np.einsum("tca,kma->ktcm", frame, C) ** 2, 1 / along)
    left = np.clip(1 - told / seen, 0.0, 1.0)
    return left, np.einsum("kt,tca,tcb->kab", strength * left, frame, frame)


def given_length(
    E: Float[Array, "k e e"], on_e: Float[Array, "k e"]
) -> tuple[Float[Array, "k"], Float[Array, "k e e"]]:
    """What is left of E = d Cov(w·e) when |w| is known, E − XXᵀ = share·E + excess, both without negative eigenvalues.

    One direction has no excess. The share is that of the direction of which |w| tells most; what the others have beyond it goes
    to the special sector.
    """
    share = np.clip(1 - told(E, on_e), 0.0, 1.0)
    return share, (1 - share)[:, None, None] * E - on_e[:, :, None] * on_e[:, None, :]


def told(E: Float[Array, "k e e"], on_e: Float[Array, "k e"]) -> Float[Array, "k"]:
    """XᵀE⁻¹X: the share of the variance along one direction that is known."""
    least = 1e-15 * np.eye(E.shape[1])  # all of it may be known already
    return np.einsum("ka,ka->k", on_e, np.linalg.solve(E + least, on_e[:, :, None])[:, :, 0])


def of_the_batch(
    problem: Problem, law: Strength, kinds: Kinds, e: Float[Array, "k i"]
) -> tuple[list[tuple[float, Array, Array]], Float[Array, "k i"], Float[Array, "k i"]]:
    """(probability, what r̄ adds, what xᵀMx/d multiplies) at three r̄, and what each neuron's own gradient adds, off M and along it."""
    tau = problem.eta * kinds.A / np.sqrt(problem.N)
    noise = direction(problem).residual_power / problem.step_samples  # E r²/n
    lengthened = e * (2 * tau * kinds.aside / kinds.v)[:, None]
    shared, root = law.quadratic * lengthened, np.sqrt(3 * noise)
    rule = ((0.0, 2 / 3), (root, 1 / 6), (-root, 1 / 6))
    cases = [(p, mean * shared, np.sqrt(2 * noise) * shared) for mean, p in rule]
    along = slope_along_M(problem.sigma)
    own = np.sqrt(noise * max(own_slope(problem.sigma) - along**2, 0.0)) * lengthened
    return cases, own, np.sqrt(noise) * along * lengthened


def _along_M(law: Strength, kinds: Kinds, parts: Float[Array, "parts k i"], D: float) -> Float[Array, "k i"]:
    """K₂ s/√B₂: how neurons see xᵀMx/d, where degree two is resolved."""
    if parts.shape[0] < 5:
        return np.zeros_like(parts[0])
    G, seen = law.on(law.bulk, kinds.A), law.bulk.weight * law.bulk.eigenvalue**2
    seen = seen if seen.any() else law.bulk.weight  # a law of one node
    strength = np.sqrt(G**2 @ seen / seen.sum()) / (G @ law.bulk.weight)
    return parts[2] * (strength / np.sqrt(multiplicity(int(D), 2)))[:, None]


def _with_the_length(
    problem: Problem, learned: LearnedDirection, law: Strength | None, lengths: Length, kinds: Kinds, C: Array, E: Array
) -> tuple[Float[Array, "k"], Float[Array, "k e"]]:
    """Given ω: the relative spread of |w|² by ℓ·w, and the covariance of w·e with it.

    With T = 1 + ντM, w·t̂ and w·e after the step are t̂ᵀTw and eᵀTw: their covariances with ℓ·w are ℓᵀTt̂ and ℓᵀTe over d. ℓ lies
    in the plane of β⋆ and p: across t̂ it has a part along e and none along u₂ … u_k; M does not turn p, p̂ᵀMe = 0.
    """
    with_t, with_e = np.full(kinds.A.size, lengths.along), np.zeros((kinds.A.size, problem.directions))
    with_e[:, 0] = lengths.on_e
    if law is not None and law.learned is not None:
        tau = problem.eta * kinds.A / np.sqrt(problem.N)
        first, _ = gradient_noise(problem).coupling(learned.tilt, learned.overlap)
        moved = np.einsum("t,tca,tcb->ab", law.teacher.eigenvalue + law.shift, law.teacher.frame, law.teacher.frame)
        with_t = lengths.along * law.kept_along_learned(kinds.A) + lengths.on_e * law.quadratic * tau * first[0]
        with_e = with_e + law.quadratic * tau[:, None] * (lengths.along * first + lengths.on_e * moved[0])
    spread = np.sqrt(np.maximum(lengths.along**2 + lengths.across**2 - with_t**2 / kinds.along, 1e-300))
    most = np.sqrt(np.maximum(np.einsum("kee->ke", E), 0.0))
    on_e = with_e - C * (with_t / kinds.along)[:, None]
    on_e = np.clip(on_e / spread[:, None], -most, most)
    on_e = on_e / np.sqrt(np.maximum(told(E, on_e), 1.0))[:, None]  # no more than there is
    return kinds.A / np.sqrt(float(problem.N) * problem.d) * spread / kinds.aside, on_e


def coupling(problem: Problem, learned: LearnedDirection, law: Strength | None, A: Array) -> Float[Array, "k e"]:
    """C = 2ντ t̂ᵀMe + ν²τ² t̂ᵀM²e, d times the covariance of a neuron's weights along t̂ and e (and u₂ … u_k) after the step."""
    if law is None or law.learned is None or learned.overlap**2 > 1 - 1e-9:
        return np.zeros((A.size, problem.directions))
    first, second = gradient_noise(problem).coupling(learned.tilt, learned.overlap)
    tau = (problem.eta * A / np.sqrt(problem.N))[:, None]
    return 2 * law.quadratic * tau * first + (law.quadratic * tau) ** 2 * (second + 2 * law.shift * first)


def tie(problem: Problem, learned: LearnedDirection, *, beyond: float = 0.0) -> float:
    """The correlation C/√(G_t G_e) of a neuron's weights along t̂ and e that M makes, root mean square over neurons (one direction).

    Where the largest eigenvalue of M, which moves no neuron by more than u of itself, shows that it is at most `beyond`: that bound,
    |C| ≤ 2u + u² and G ≥ (1 − u)².
    """
    A, weight = readout_rule(problem, _READOUTS)
    if problem.eta == 0 or direction(problem).residual_power == 0:
        return 0.0
    most = 2 * abs(problem.sigma.coefficients[2]) * problem.eta * np.abs(A) / np.sqrt(problem.N)
    most = most * (gradient_noise(problem).reach + abs(own_shift(problem)))
    bound = float(np.sqrt(weight @ np.where(most < 0.5, (2 * most + most**2) / (1 - most) ** 2, 1.0) ** 2))
    law = strength(problem, "full", learned) if bound > beyond else None
    if law is None:
        return bound
    C, spread = coupling(problem, learned, law, A)[:, 0], law.on(law.teacher, A) @ law.teacher.weight
    return float(np.sqrt(weight @ (C**2 / (law.along_learned(A) * spread))))


def cubic(problem: Problem, learned: LearnedDirection, omega: Float[Array, "k"]) -> tuple[Array, Array]:
    """What degree three of σ adds to the mean gradient of a neuron along t̂, and along e and u₂ … u_k, the mean over w·e taken.

    (1/n) Σ_i r_i 3c₃H₂(w·x_i)x_i = 6c₃(w·β)w + 18c₃(c⋆₃(w·β⋆)²β⋆ − c₃p/d (full)) + new for each neuron,   β = Xᵀr/n;

    with several directions 6c⋆₃(w·β⋆)²β⋆ is the tensor E[g H₃(u)] applied to w twice.
    """
    c3, star3 = problem.sigma.coefficients[3], problem.target.tensor(3)
    overlap, d = learned.overlap, problem.d
    unlearned = np.sqrt(max(1 - overlap**2, 0.0))
    beta = _vector(problem, learned, *_gradient_direction(problem))
    output = _vector(problem, learned, 0.0, 3 * c3 if problem.gradient == "full" else 0.0, 0.0)
    pulled = np.einsum("ka,aac->kc", _squares(problem, learned, omega**2), star3)
    along = 6 * beta.along * omega**2 + 3 * pulled[:, 0] * overlap - 6 * output.along / d
    across = 3 * pulled
    across[:, 0] = 6 * (beta.on_e - output.on_e) / d + 3 * pulled[:, 0] * unlearned
    return c3 * along, c3 * across


def quartic(problem: Problem, learned: LearnedDirection, shift: float, square: Float[Array, "k"]) -> Float[Array, "k"]:
    """12c₄ wᵀE[M]w, E M = E[r(uuᵀ − I)] + shift: what degree four of σ adds to the mean gradient of a neuron along itself, given the
    mean square of w·t̂; (1/n) Σ_i r_i 4c₄H₃(w·x_i)x_i = 12c₄(wᵀMw − r̄)w + new.
    """
    mean = _squares(problem, learned, square) @ np.diagonal(problem.target.tensor(2)) + shift
    return 12 * problem.sigma.coefficients[4] * mean


def _squares(problem: Problem, learned: LearnedDirection, square: Float[Array, "k"]) -> Float[Array, "k u"]:
    """Mean squares of a neuron's weights along the teacher's directions, given that along t̂."""
    out = np.full((square.size, problem.directions), 1 / problem.d)
    out[:, 0] = learned.overlap**2 * square + (1 - learned.overlap**2) / problem.d
    return out


class Length(NamedTuple):
    """A neuron's squared length before the step, less its part along a_j p, changes by a_j ℓ·w_j: ℓ along t̂, across it, and
    the cosine of what is across with e, the unlearned part of β⋆.
    """

    along: float
    across: float
    cosine: float
    star: float
    output: float
    luck: float

    @property
    def on_e(self) -> float:
        """ℓ·e."""
        return self.across * self.cosine


def pull(problem: Problem, learned: LearnedDirection) -> Length:
    """ℓ = 12 c₃η β: the literal gradient's part along w_j itself, 6c₃(w·β)w, β = Xᵀr/n with the luck of its batch."""
    strength = 12 * problem.sigma.coefficients[3] * problem.eta
    return _vector(problem, learned, *(strength * part for part in _gradient_direction(problem)))


def length(problem: Problem, learned: LearnedDirection, *, literal: bool) -> Length:
    """ℓ = −2p, as |w_j| = 1 (rows on the sphere), and what the literal gradient adds."""
    unit = -2.0 if problem.weights == "sphere" and learned.through_output else 0.0
    added = pull(problem, learned) if literal else _vector(problem, learned, 0.0, 0.0, 0.0)
    return _vector(problem, learned, added.star, added.output + unit, added.luck)


def _gradient_direction(problem: Problem) -> tuple[float, float, float]:
    """β = Xᵀr/n along β⋆, p and what is new in the batch: c⋆₁, −c₁ (full) and √(φ₀ E r²)."""
    star, output = problem.target.coefficients[1], 0.0
    if problem.gradient == "full":
        output = -problem.sigma.coefficients[1]
    return star, output, np.sqrt(max(direction(problem).s ** 2 - star**2 - output**2, 0.0))


def _vector(problem: Problem, learned: LearnedDirection, star: float, output: float, luck: float) -> Length:
    """ℓ = star β⋆ + output p + luck b, b the direction of what is new in β: orthogonal, and t̂ in their span."""
    overlap, tilt = learned.overlap, learned.tilt
    rest = np.sign(problem.sigma.coefficients[1]) * np.sqrt(max(1 - overlap**2 - tilt**2, 0.0))
    along = star * overlap + output * tilt + luck * rest
    across = np.sqrt(max(star**2 + output**2 + luck**2 - along**2, 0.0))
    unlearned = np.sqrt(max(1 - overlap**2, 0.0))
    on_e = (star - overlap * along) / unlearned if unlearned > 1e-5 else 0.0
    cosine = float(np.clip(on_e / across, -1, 1)) if across > 0 else 0.0
    return Length(float(along), float(across), cosine, star, output, luck)


def own_slope(sigma: Function) -> float:
    """Eψ² − ψ₀² − ψ₁² of ψ(g) = g σ'(g)."""
    x, p, psi = _own_gradient(sigma)
    return max(float(p @ psi**2 - (p @ psi) ** 2 - (p @ (psi * x)) ** 2), 0.0)


def slope_along_M(sigma: Function) -> float:
    """ψ₂ = E[ψ h₂]."""
    x, p, psi = _own_gradient(sigma)
    return float(p @ (psi * (x * x - 1))) / np.sqrt(2)


def _own_gradient(sigma: Function) -> tuple[Array, Array, Array]:
    """Nodes g, probabilities, and ψ there."""
    x, w = sigma.rule
    return x, w * gauss_density(x), x * sigma.derivative(x)
