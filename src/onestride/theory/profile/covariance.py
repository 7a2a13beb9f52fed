"""The level "degrees" for inputs with a covariance, x = Σ^{1/2} g: every degree a sector, λ_p its strengths.

A neuron sees ω_j·g, ω_j = Σ^{1/2}w_j. Rows are nodes (z, r): z the coordinates of g that are resolved (along u, the learned
direction, and along a spike of Σ), r the length of the rest of x; neurons are nodes (A, ξ), θ = |Σ^{1/2}t| A/√N + ω, ω the
weights along those coordinates, of covariance κ_k/d. A feature is σ(θ·z + s v), v a coordinate of a sphere (`harmonics`); its
parts of degree l are sectors whose strengths are products of l eigenvalues.

Given ω the other weights have a mean: Σ couples u with Σu, and so does what the step's batch does (`drift`). Besides its
rank-one part the step does w_j → (1 + ν_jM)w_j + noise, ν_j = 2c₂τ, τ = ηA/√N, M = (1/n)Xᵀdiag(r)X = Σ^{1/2}M_gΣ^{1/2}. On average

    G_k = Σ^{1/2}(1 + ν_kM)²Σ^{1/2} + noise = Σ + x_kΣ² + b F_k bᵀ,     x_k = φ₀E r²(ν_k² + τ²(Var σ' − 4c₂²)),

b the two directions the batch knows. Σ and M_g do not commute. To second order in M a coordinate p feels, beside its mean,
−4φ₀E r² λ_p² V¹ÛV¹, Û = Σ_p π_p λ_p² U_p (V¹: V₀ weighted with ν_k); nodes m of M's law at strength

    λ_p((1 + ν_k √(λ_pγ_p) m)² + ν_k²λ_p φ₀E r²(1 − γ_p)),     γ_p = Û/(λ_pU_p), at most 1,

have the same mean and, for one number U_p = ρ/(1 + λ_p x), x = ρV₀_p/λ_p of the untrained network at this penalty, the same
second order; γ = 1 for Σ = I, where this is `degrees`. A direction b that the batch knows is taken to M̃b, of coordinates √(λ_pγ_p) m b_p at those
nodes (`along`): by the same rule, b̃ᵀUb̃ = φ₀E r² |b|² Û and b̃ᵀ(ΣM̃Σ)b as they are. In degree two e ⊗ e is a block of the special sector (`drift`).

With random lengths, x = ℓ Σ^{1/2} g, ℓ is one more label of a row, and the step's coefficients are those of `lengths`.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeGuard

import numpy as np

from onestride._numerics import Array, Float, Int
from onestride.problem import Problem
from onestride.theory.bulk import bulk_of
from onestride.theory.profile.along import LEAST, Across, OwnLengths, Weights, own_lengths
from onestride.theory.profile.anisotropy import (
    FEWEST_DIRECTIONS,
    Directions,
    Nodes,
    Sigma,
    Unlearned,
    after_steps,
    before_the_step,
    directions,
    draws,
    of_many,
    sigma_of,
)
from onestride.theory.profile.correlated import Course, course_directions
from onestride.theory.profile.drift import AGAIN, Second, left_over, moved_means
from onestride.theory.profile.harmonics import HIGHEST_DEGREE, multiplicity, radius_rule, resolve, sphere_rule
from onestride.theory.profile.higher import Stretched, higher_sector, seen_by
from onestride.theory.profile.lengths import row_lengths
from onestride.theory.profile.moves import Moves, one_step
from onestride.theory.profile.neurons import LearnedDirection, normal_rule, resolution
from onestride.theory.profile.one_neuron import Path
from onestride.theory.profile.sectors import (
    Coupled,
    Means,
    Model,
    Sector,
    in_columns_by_degree,
    split,
    split_teacher,
    with_factors,
)
from onestride.theory.profile.several import Sight
from onestride.theory.profile.travel import travel, travel_turned

# 20 in the place of 10, 12 of 7, 24 of 12 or 5 of 3 move errors by 0.13 % at most (ar1 and power, n = 1,200, d = 600)
_EIGENVALUES = 10  # bins of log λ in sector 1
_HIGHER = 7  # and in the factors of higher degrees
_OFFSET = 5  # nodes of ω along u alone
# along each of two coordinates, by the variance above which it takes so many: with 3 along a spike of 18 in d = 113 labels H₁ + 0.4 H₃ have 6 %
# of their test error too much, with 5 and 9 it is 0.4 and 0.2 % from that of 11
_OFFSETS = ((0.04, 9), (0.01, 5), (0.0, 3))
_ALIKE = 9  # along u alone, where readouts are alike and nothing else tells neurons apart: 5 would be off by 1.7 % after strong steps
_ACROSS = 5  # nodes of z along a spike
_RADII = 3  # nodes of the length of x
_FAR = 3.0  # times a row's length: along weights as large z has so many nodes that random lengths leave |g| one
RAREST = 1e-7  # neurons that are rarer are left out
_NOISE = 60.0  # a degree is noise when its multiplicity over S₂^l is above this many times max(n, N)


def build(
    problem: Problem,
    *,
    nodes: int = 31,
    min_weight: float | None = None,
    likeliest: bool = False,
    known: Model | None = None,
) -> Model:
    """Set up every degree for inputs with a covariance, with all draws of it or the likeliest alone, which may be `known`.

    min_weight: neurons that are rarer are left out, and rows longer than all samples; without it there are such rows.
    """
    sigma = sigma_of(problem)
    if problem.eta == 0:
        return build_untrained(problem, sigma, min_weight)
    cases = draws(problem, sigma)
    several = len(cases) > 1 and (problem.steps > 1 or sigma.spike is not None)
    first = known or _of_draw(problem, cases[0], several, nodes, min_weight)
    if likeliest or len(cases) == 1:
        return first
    others = ((case[0], _of_draw(problem, case, several, nodes, min_weight)) for case in cases[1:])
    return replace(first, draws=((cases[0][0], first), *others))


def _of_draw(problem: Problem, case: tuple[float, Sigma], several: bool, nodes: int, min_weight: float | None) -> Model:
    """The model of one draw; of several each has fewer nodes."""
    p, sigma = case
    if problem.steps == 1:
        count, chance = of_many(nodes, p) if several else (nodes, p)
        at = directions(problem, sigma)
        return Builder(problem, at, one_step(problem, at, count), count, min_weight, chance).model
    follow = travel_turned if problem.law.isotropic else travel  # which keeps them
    mean = follow(problem) if several else None
    steep = isinstance(mean, Course) and mean.saturates
    counts = after_steps(nodes, p, every=steep or not several)
    # a drawn teacher with which descent diverges has the one of mean energies in its place, with which it does not
    course = travel_turned(problem, counts.readouts, sigma) if several else follow(problem, nodes)
    if not _followed(course):
        course = mean or follow(problem)
    if not _followed(course):
        return build_untrained(problem, sigma, min_weight)
    at, moves = course_directions(problem, course)
    rows, chance = (counts.rows, counts.chance) if len(at.rows) > 1 else (nodes, p)
    return Builder(problem, at, moves, rows, min_weight, chance).model


def _followed(path: Path) -> TypeGuard[Course]:
    """Whether the neurons were followed to the end."""
    return isinstance(path, Course) and path.residual is not None


def degrees_resolved(D: int, largest: float, second: float) -> int:
    """The last degree that is not noise: Σ_p (strength)² over the multiplicity is S₂^l/B_l."""
    L = 1
    while L < HIGHEST_DEGREE and multiplicity(D, L + 1) < _NOISE * largest * second ** (L + 1):
        L += 1
    return L


def teacher_length(d: int, second: float, along: float, r2: Array) -> tuple[Array, float]:
    """Length of the teacher's unlearned coordinate given that of x, and the dimension of the sphere it then lies on.

    ζ = e·g has E[ζ² | r²] = 1 + (r² − 1) κ/S₂ with κ = eᵀΣe; the sphere's dimension dS₂/κ² leaves ζ its fourth moment.
    """
    D = max(d * second / along**2, 4.0)
    return np.sqrt(D * np.maximum(1 + (r2 - 1) * along / second, 0.05)), D


def build_untrained(problem: Problem, sigma: Sigma, min_weight: float | None = None) -> Model:
    """The network before the step; a spike of Σ is a coordinate of its own."""
    d, lam, spike = problem.d, sigma.eigenvalues, sigma.spike
    z, wz = (np.zeros(1), np.ones(1)) if spike is None else normal_rule(15)
    omega, weight = (np.zeros(1), np.ones(1)) if spike is None else sphere_rule(d, 9)
    top = 0.0 if spike is None else float(lam[spike])
    D0, off = (
        d - (spike is not None),
        1 - top / d,
    )  # off the spike: coordinates, and what is left of a pre-activation's variance
    second, (taught, frame) = (sigma.moment(2) - top**2 / d) / off**2, before_the_step(sigma)
    along = np.array([[frame.dot(a, b) for b in taught.e] for a in taught.e])
    own = own_lengths(problem, second * D0 / d, 5)
    (omega, size), weight = _grid([(omega, weight), own.nodes])
    sphere = problem.weights == "sphere"
    aside = size * np.maximum(1 - top / d - (sphere and spike is not None) * (omega**2 - 1) / d, LEAST)
    lengths = row_lengths(problem, sampled=min_weight is not None)
    r, wr = radius_rule(d / second, 7 if spike is None and lengths[0].size == 1 else _RADII)
    (z, r2, scale), w = _grid([(z, wz), (r**2 * second / d, wr), lengths])
    L = degrees_resolved(D0, max(problem.n, problem.N), second)
    theta = omega * np.sqrt(top / d)
    parts = resolve(problem.sigma, theta[:, None] * z * scale, np.sqrt(np.outer(aside, r2 * D0)) * scale, D0, L)
    length, D = teacher_length(d, second, max(float(np.einsum("aap,p->", along, lam)) / len(along) / off, 1e-3), r2)
    seen, length = _seen(taught, z[None], scale), length * scale
    teacher = _split(problem, seen, length, w, D, L)
    nodes, few = (sigma.nodes(count, spike=False) for count in (_EIGENVALUES, _HIGHER))
    strength, frames = np.tile(nodes.value * D0 / d / off, (weight.size, 1)), _roots(nodes.sum(along))
    sectors = [_sector(float(D0), parts[1], strength, nodes.share, teacher[1], frames)]
    factors = np.tile(few.value * D0 / d / off, (weight.size, 1))
    each = seen_by(np.einsum("aap->ap", along), sigma, few)
    for l in range(2, L + 1):
        sectors.append(
            higher_sector(l, D0, parts[l], teacher[l], factors, few, each, Stretched(weight, np.ones(weight.size)))
        )
    means = Means(((1.0, parts[0]),), (own.left * parts[-1],) if own.left > 1e-9 else (), teacher[0])
    learned, none = LearnedDirection(0.0, seen.overlap, False, 0.0), np.zeros(weight.size)
    fields = (problem, "degrees", learned, D, seen.z, length, w, none, theta, weight, aside)
    return Model(*fields, tuple(sectors), parts[-2], means, teacher[-1], sight=seen.sight)


@dataclass(frozen=True)
class Builder:
    """The model after the step, part by part."""

    problem: Problem
    at: Directions
    moves: Moves
    nodes: int
    min_weight: float | None
    chance: float = 1.0  # of its draw

    @cached_property
    def amplitude(self) -> float:
        """Weights along the learned direction, root mean square: |Σ^{1/2}t|/√N."""
        return float(np.sqrt(self.moves.weight @ self.moves.learned[:, 0] ** 2))

    def gram(self, power: int) -> Float[Array, "u u"]:
        """uᵀΣ^power u of the coordinates of the rows."""
        frame, lam = self.at.frame, self.at.sigma.eigenvalues
        return frame.gram(self.at.rows, self.at.rows, lam**power)

    @cached_property
    def aside(self) -> tuple[float, float]:
        """What is left of Σ off the coordinates of the rows."""
        return left_over(self.at)

    @cached_property
    def rows(self) -> tuple[Array, Array, Array, Array]:
        """Nodes (z, r², ℓ) and probabilities; z (u × i)."""
        count, scale = resolution(self.amplitude, self.nodes)
        second, d = self.aside[0], self.problem.d
        lengths = row_lengths(self.problem, sampled=self.min_weight is not None)
        radii = _RADII if len(self.at.rows) == 1 and lengths[0].size == 1 else 2
        if lengths[0].size > 1 and self.amplitude > _FAR:
            radii = 1
        r, wr = radius_rule(d / second, radii)
        axes = [normal_rule(count, scale), *(sphere_rule(10**12, _ACROSS) for _ in self.at.rows[1:])]
        values, weight = _grid([*axes, (r**2 * second / d, wr), lengths])
        kept = weight > min(1e-9, 1e-6 * float(lengths[1].min()))  # of long rows, however rare, all z count
        return values[:-2, kept], values[-2, kept], values[-1, kept], weight[kept] / weight[kept].sum()

    @cached_property
    def weights(self) -> Weights:
        """Nodes (A, ξ) of the neurons."""
        problem, sphere = self.problem, self.problem.weights == "sphere"
        axes = [(np.arange(self.moves.A.size), self.moves.weight)]
        offsets = [_OFFSET if self.moves.A.size > 2 else _ALIKE]
        if len(self.at.rows) > 1:
            variances = 0 * self.gram(1).diagonal() if self.few else self.gram(1).diagonal() / problem.d
            offsets = [next(count for least, count in _OFFSETS if variance >= least) for variance in variances]
        axes += [sphere_rule(problem.d if sphere else 10**12, count) for count in offsets]
        values, weight = _grid([*axes, self.lengths.nodes])
        kept = weight > (self.min_weight or RAREST)
        which, xi, weight = values[0, kept].astype(int), values[1:-1, kept].T, weight[kept] / weight[kept].sum()
        return Weights.after(problem, self.at, self.moves, which, xi, values[-1, kept], weight, self.gram)

    @cached_property
    def lengths(self) -> OwnLengths:
        """Of the neurons, off the coordinates of the rows."""
        return own_lengths(self.problem, self.aside[0] * (1 - len(self.at.rows) / self.problem.d), 1 if self.few else 2)

    @cached_property
    def few(self) -> bool:
        """Whether Σ has so few directions that numbers are known to be off: nodes of each neuron would take minutes there."""
        lam, spike = self.at.sigma.eigenvalues, self.at.sigma.spike
        rest = lam if spike is None else np.delete(lam, spike)
        left = float(rest.sum() ** 2 / (rest @ rest))
        return self.problem.law.freedom is None and left < FEWEST_DIRECTIONS[self.problem.directions > 1]

    def nodes_off(self, count: int) -> Nodes:
        """Eigenvalues in bins, each with its share of the coordinates that are not along those of the rows."""
        nodes, d = self.at.sigma.nodes(count), self.problem.d
        taken = sum(nodes.sum(self.at.frame.dot(u, u)) for u in self.at.rows) / d
        share = np.maximum(nodes.share - taken, 1e-12)
        return replace(nodes, share=share / share.sum())

    def strengths(self, nodes: Nodes, x: float | None) -> tuple[Array, Array, Array]:
        """G_kp relative to its mean, shares, and how often each node of Σ occurs; x as in the head of this file."""
        w, moves, lam, law = self.weights, self.moves, nodes.value, self.moves.law
        left, kept = (w.grown * w.off / w.ratio)[:, None], moves.kept(lam)[w.at] ** 2
        if law is None or x is None:
            return (kept * lam + w.noise[:, None] * lam**2) / left, nodes.share, np.ones(1)
        gamma = _gamma(nodes, x)
        p, m = (index.ravel() for index in np.indices((lam.size, law.weight.size)))
        lam, gamma, nu, spread = lam[p], gamma[p], w.quadratic[:, None], moves.spread
        moved = (1 + nu * np.sqrt(lam * gamma) * law.eigenvalue[m]) ** 2 + nu**2 * lam * spread * (1 - gamma)
        higher = (w.noise[:, None] - kept[:, p] * nu**2 * spread) * lam**2 * (law.power[m] / moves.power)
        return (kept[:, p] * lam * moved + higher) / left, nodes.share[p] * law.weight[m], law.weight

    def on_nodes(
        self, mass: Float[Array, "a a p"], again: Int[Array, "a"], nodes: Nodes, x: float
    ) -> Float[Array, "a a pm"]:
        """Σ a_p b_p at every node of Σ and of M's law, which a direction Mb takes as √(λγ) m b."""
        law, root = self.moves.law, np.sqrt(nodes.value * _gamma(nodes, x))
        if law is None:
            return np.where((again[:, None] + again > 0)[:, :, None], 0.0, mass)
        times = (again[:, None] + again)[:, :, None]
        each = (mass * root**times)[:, :, :, None] * (law.weight * law.eigenvalue**times)[:, :, None, :]
        return each.reshape(*mass.shape[:2], -1)

    @cached_property
    def model(self) -> Model:
        """Rows, neurons, sectors and means."""
        problem, at, D = self.problem, self.at, self.problem.d - len(self.at.rows)
        (z, r2, scale, w), kinds = self.rows, self.weights
        second, along = self.aside
        stretch, L = kinds.stretch(at), degrees_resolved(D, max(problem.n, problem.N), second)
        if L == 1:
            largest = max(problem.n, problem.N) * float(kinds.weight @ stretch**2)
            L = min(degrees_resolved(D, largest, second), 2)
        parts = resolve(problem.sigma, kinds.theta @ z * scale, np.sqrt(np.outer(kinds.v, r2 * D)) * scale, D, L)
        length, sphere = teacher_length(problem.d, second, along, r2)
        seen, length = _seen(at.teacher, z, scale), length * scale
        teacher = _split(problem, seen, length, w, sphere, L)
        few, along = self.nodes_off(_HIGHER), np.stack([at.frame.dot(e, e) for e in at.teacher.e])
        factors, each = self.strengths(few, None)[0], seen_by(along, at.sigma, few)
        taken = Stretched(kinds.weight, stretch)
        higher = [higher_sector(l, D, parts[l], teacher[l], factors, few, each, taken) for l in range(2, L + 1)]
        across = Across.of(at, self.moves, kinds) if L > 1 and problem.directions == 1 else None
        if across is not None:
            strength = higher[0].teacher_strength * ((across.own / across.whole) ** 2)[:, None]
            higher[0] = replace(higher[0], teacher_strength=strength)
        nodes, unseen = self.nodes_off(_EIGENVALUES), np.eye(problem.directions)  # `coupled` knows better
        strength, share, _ = self.strengths(nodes, None)
        linear = _sector(float(D), parts[1], strength, share, teacher[1], np.sqrt(share)[:, None, None] * unseen)
        (linear, *higher), rest = in_columns_by_degree((linear, *higher), parts[-2], w, kinds.weight, self.chance)
        second = None if across is None else Second(*higher[0].factors, higher[0].dim, teacher[2][:, 0], across)
        means, carried, bases, less = moved_means(
            problem,
            at,
            self.moves,
            kinds,
            parts,
            (teacher[0], teacher[1]),
            w,
            linear.factors,
            second,
            self.lengths.left,
        )
        every = [*at.rows, *carried.values()]
        again = np.array([0] * len(at.rows) + [name.startswith(AGAIN) for name in carried])
        mass = np.array([[nodes.sum(at.frame.dot(a, b)) for b in every] for a in every])

        def adapted(lam: float) -> Model:
            bulk = bulk_of(problem, lam)
            x = float(bulk.rho * bulk.q * problem.sigma.coefficients[1] ** 2 * problem.N / problem.d)
            strength, share, repeat = self.strengths(nodes, x)
            norm = np.kron(nodes.share * nodes.value / kinds.off, repeat)
            coupled = Coupled(len(at.rows), self.on_nodes(mass, again, nodes, x), norm, bases, less, second is not None)
            frame = np.sqrt(share)[:, None, None] * unseen
            moved = replace(linear, strength=strength, share=share, teacher_strength=strength, teacher_frame=frame)
            sectors = (with_factors(moved, *linear.factors), *higher)
            return replace(model, sectors=sectors, means=replace(means, coupled=coupled), adapted=None)

        learned, shown = LearnedDirection(self.amplitude, seen.overlap, True, 0.0), (kinds.A, kinds.theta[:, 0])
        fields = (problem, "degrees", learned, sphere, seen.z, length, w, *shown, kinds.weight, kinds.v)
        model = Model(*fields, tuple(higher), rest, means, teacher[-1], sight=seen.sight)
        return replace(adapted(1.0), adapted=adapted)


def _gamma(nodes: Nodes, x: float) -> Float[Array, "p"]:
    """γ_p of the head of this file."""
    lam = nodes.value
    return np.minimum(nodes.share @ (lam**2 / (1 + x * lam)) * (1 + x * lam) / lam, 1.0)


def _grid(axes: list[tuple[Array, Array]]) -> tuple[Float[Array, "axes points"], Float[Array, "points"]]:
    """All combinations of nodes, and the products of their probabilities."""
    nodes = np.meshgrid(*(axis for axis, _ in axes), indexing="ij")
    weight = np.meshgrid(*(weight for _, weight in axes), indexing="ij")
    return np.stack([x.ravel() for x in nodes]), np.prod([w.ravel() for w in weight], axis=0)


class _Seen(NamedTuple):
    """What the rows see of the teacher: of one direction a coordinate z and its overlap, of several a sight."""

    overlap: float
    z: Float[Array, "i"]
    sight: Sight | None


def _seen(teacher: Unlearned, z: Float[Array, "u i"], scale: Float[Array, "i"]) -> _Seen:
    overlap = float(np.linalg.norm(teacher.overlap[0]))
    if len(teacher.overlap) > 1:
        return _Seen(
            overlap, z[0] * scale, Sight((teacher.overlap @ z[: teacher.overlap.shape[1]] * scale).T, teacher.root)
        )
    return _Seen(overlap, (teacher.overlap[0] @ z / overlap if overlap > 0 else z[0]) * scale, None)


def _split(problem: Problem, seen: _Seen, r: Array, w: Array, D: float, L: int) -> list[Array]:
    """The teacher's parts; its power is the problem's where lengths are not random."""
    if problem.law.freedom is None:
        return split_teacher(problem.target, seen.overlap, seen.z, r, w, D, L, seen.sight)
    return split(problem.target, seen.overlap, seen.z, r, D, L, seen.sight)


def _sector(dim: float, K: Array, strength: Array, share: Array, h: Array, frame: Float[Array, "p c m"]) -> Sector:
    """A sector whose law the teacher sees in that frame."""
    return Sector(dim, K, strength, share, h, strength, frame)


def _roots(along: Float[Array, "k k p"]) -> Float[Array, "p k k"]:
    """Square roots of the matrices that the teacher's directions have in every bin."""
    values, vectors = np.linalg.eigh(np.moveaxis(along, 2, 0))
    return np.einsum("pab,pb,pcb->pac", vectors, np.sqrt(np.maximum(values, 0.0)), vectors)
