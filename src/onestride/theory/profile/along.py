"""Neurons along the directions of a step when the inputs have a covariance: their weights.

Before the step ω = Σ^{1/2}w has covariance Σ/d, after it G_k/d, G_k = Σ + x_kΣ² + b F_k bᵀ (`covariance`), where the batch knows
two directions b₁ = Σs and b₂ = Σ^{1/2}ν: given ν a sample is x_i = z⋆Σβ⋆ + r_iν/E r² + a fresh part, so

    E M = [Σβ⋆ ν] m [Σβ⋆ ν]ᵀ,   m = [[E r(z⋆² − 1), E r²z⋆/E r²], [·, E r³/(E r²)²]],   S the same moments with r² in the place of r.

(A teacher of several directions has a b for each of them, and E r(uuᵀ − I), E r²u/E r².) The rest of M, M̃, takes b to fresh directions
M̃b, orthogonal on average: ΣMΣ = ΣM̃Σ + [b M̃b] W [b M̃b]ᵀ, W = [[m, cᵀ], [c, 0]]. c makes |Mb|² what it is: what is fresh in the samples is
across their residuals, so that φ₀S₀, S₀ = S − E r² m_ν m_νᵀ (m_ν the last column of m), is added to it. On [b M̃b]

    F_k = 2ν_kW + ν_k² [[m B m + φ₀S₀, ·], [m + c B m, c + cᵀ + c B cᵀ]] + τ²φ₀(Var σ' − 4c₂²) [[S, 0], [0, 0]],   B_ab = b_aᵀΣ⁻¹b_b.

Along the coordinates u of the rows weights have covariance κ_k = uᵀG_ku, ω_u = L_kξ/√d with L_kL_kᵀ = κ_k. They tell of the weights
before the step what Cov(ω, ω⁰) = (1 + νM)Σ says, and so of the neuron's length before it and of what degree three makes of it.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from onestride._numerics import Array, Float, Int
from onestride.problem import Problem
from onestride.theory.profile.anisotropy import Directions
from onestride.theory.profile.harmonics import radius_rule
from onestride.theory.profile.moves import Moves

LEAST = 0.1  # of the variance left to a neuron: no real one has a_j near 1
_ALL_ALIKE = 0.005  # variance of a neuron's length up to which all have one: training errors move by 1 % at most


class OwnLengths(NamedTuple):
    """Nodes of a neuron's wᵀΣw and their probabilities; left: the standard deviation that they leave out."""

    nodes: tuple[Float[Array, "s"], Float[Array, "s"]]
    left: float


def own_lengths(problem: Problem, second: float, count: int) -> OwnLengths:
    """Of mean 1 and variance 2 tr Σ²/d², on the sphere 2 (tr Σ² − d)/d²: so many nodes, or one where it is small or one is asked for."""
    variance = max(2 * (second - (problem.weights == "sphere")) / problem.d, 0.0)
    if variance < _ALL_ALIKE or count == 1:
        return OwnLengths((np.ones(1), np.ones(1)), float(np.sqrt(variance)))
    r, weight = radius_rule(2 / variance, count)
    return OwnLengths((r**2 * variance / 2, weight), 0.0)


class Bent(NamedTuple):
    """What degree three of σ adds for ω_u² beyond its mean: to θ, and along Σ²u and Σs_a.

    A step moves ω by τΣ(6c₃(β·w)ω + 3c₃T(s·ω, s·ω)s), T = E[g H₃(u)]; `directions` has the mean of it.
    """

    theta: Float[Array, "k u"]
    twice: Float[Array, "k u"]
    star: Float[Array, "k a"]

    @classmethod
    def of(cls, problem: Problem, at: Directions, a: Float[Array, "k"], xi: Float[Array, "k u"], known: Known) -> Bent:
        """With y = κ⁻¹ω_u: Σ²u (βᵀΣ^{1/2}u y)y and Σs T(sᵀΣu y, sᵀΣu y), less their means."""
        frame, lam, u = at.frame, at.sigma.eigenvalues, at.rows
        kappa, across = frame.gram(u, u, lam), frame.gram(u, u, lam**2)
        told = np.linalg.inv(kappa) @ known.first / np.sqrt(problem.d)
        yy = told @ (xi[:, :, None] * xi[:, None, :] - np.eye(len(u))) @ told.transpose(0, 2, 1)
        along = np.array([frame.inner(at.bend, x) for x in u])
        to_stars = frame.gram(at.batch[:-1], u)
        once = problem.steps == 1
        T = 3 * once * problem.sigma.coefficients[3] * problem.eta * problem.target.tensor(3)
        twice = a[:, None] * (yy @ along)
        star = a[:, None] * np.einsum("abc,au,bv,kuv->kc", T, to_stars, to_stars, yy)
        return cls(twice @ across + star @ to_stars, twice, star)


class Weights(NamedTuple):
    """Neurons (A, ξ): θ along the coordinates of the rows, v = wᵀΣw off them, probabilities.

    at: which readout of the moves. quadratic: ν_k. noise: x_k. grown: tr G_k/d. ratio: share of v that is not along further directions. off: the share of tr Σ that is not along
    the coordinates of the rows. batch: F_k. spread: L_k⁻ᵀ, so that κ_k⁻¹ω_u = L_k⁻ᵀξ/√d. towards: F_k bᵀu.
    """

    A: Float[Array, "k"]
    at: Int[Array, "k"]
    xi: Float[Array, "k u"]
    weight: Float[Array, "k"]
    theta: Float[Array, "k u"]
    v: Float[Array, "k"]
    aside: Float[Array, "k"]
    quadratic: Float[Array, "k"]
    noise: Float[Array, "k"]
    grown: Float[Array, "k"]
    ratio: Float[Array, "k"]
    off: float
    batch: Float[Array, "k b b"]
    spread: Float[Array, "k u u"]
    towards: Float[Array, "k b u"]
    known: Known
    bent: Bent

    @classmethod
    def after(
        cls,
        problem: Problem,
        at: Directions,
        moves: Moves,
        which: Int[Array, "k"],
        xi: Float[Array, "k u"],
        length: Float[Array, "k"],
        weight: Float[Array, "k"],
        gram: Callable[[int], Float[Array, "u u"]],
    ) -> Weights:
        """The neurons after the steps; `length`: wᵀΣw before them relative to its mean."""
        d, lam, A, frame = problem.d, at.sigma.eigenvalues, moves.A[which], at.frame
        nu, noise, kept = moves.quadratic[which], moves.noise[which], moves.kept(lam)
        grown = (kept**2 @ lam / d)[which] + noise * at.sigma.moment(2)
        F = _by_the_batch(at, moves, which)
        to_batch = np.pad(frame.gram(at.batch, at.rows), ((0, len(at.batch)), (0, 0)))
        towards = F @ to_batch
        first = np.array([[lam * frame.dot(u, v) for v in at.rows] for u in at.rows])
        kappa: Array = (
            np.moveaxis(first @ kept.T**2, 2, 0)[which] + noise[:, None, None] * gram(2) + to_batch.T @ towards
        )
        L = np.linalg.cholesky(kappa)
        spread = np.linalg.inv(L).transpose(0, 2, 1)
        known = Known.of(at, moves, which, first, spread)
        bent = Bent.of(problem, at, A / np.sqrt(problem.N), xi, known)
        theta = moves.learned[which] + np.einsum("kab,kb->ka", L, xi) / np.sqrt(d) + bent.theta
        aside = length * _aside(problem, at, A / np.sqrt(problem.N), xi, known, gram)
        # per coordinate that is not one of the rows
        off, v = (d - float(np.trace(gram(1)))) / (d - len(at.rows)), aside * grown + (moves.on[which] ** 2).sum(1)
        strengths = (nu, noise, grown, aside * grown / v, off)
        return cls(A, which, xi, weight, theta, v, aside, *strengths, F, spread, towards, known, bent)

    def stretch(self, at: Directions) -> Float[Array, "k"]:
        """E/G: the variance of a neuron's weights along the teacher's unlearned directions (their mean) relative to that without F."""
        frame, lam, e = at.frame, at.sigma.eigenvalues, at.teacher.e
        to_e, first = frame.gram(at.batch, e), (float(np.trace(frame.gram(e, e, lam**power))) for power in (1, 2))
        plain = next(first) + self.noise * next(first)
        return 1 + np.einsum("ae,kab,be->k", to_e, self.batch[:, : len(to_e), : len(to_e)], to_e) / plain


class Across(NamedTuple):
    """Weights along e, the teacher's only unlearned direction: √d times their mean is drift·ξ, their variance beside it own/d.

    whole: variance with drift. batch: F_k bᵀe, so that own weights along e go with others along Σe + [b M̃b] batch, off drift.
    """

    drift: Float[Array, "k u"]
    own: Float[Array, "k"]
    whole: Float[Array, "k"]
    batch: Float[Array, "k b"]

    @classmethod
    def of(cls, at: Directions, moves: Moves, kinds: Weights) -> Across:
        """G_k between e and the rows' coordinates, given them, and along e."""
        frame, lam, e = at.frame, at.sigma.eigenvalues, at.teacher.e[0]
        kept, to_e = moves.kept(lam)[kinds.at] ** 2, frame.gram(at.batch, [e])[:, 0]
        first = np.array([lam * frame.dot(e, x) for x in (*at.rows, e)]).T
        first = kept @ first + np.multiply.outer(kinds.noise, lam @ first)
        first[:, :-1] += np.einsum("a,kau->ku", to_e, kinds.towards[:, : to_e.size])
        first[:, -1] += kinds.batch[:, : to_e.size, : to_e.size] @ to_e @ to_e
        drift = np.einsum("ku,kuv->kv", first[:, :-1], kinds.spread)
        own = np.maximum(first[:, -1] - (drift**2).sum(1), 0.01 * first[:, -1])
        return cls(drift, own, first[:, -1], kinds.batch[:, :, : to_e.size] @ to_e)


class Known(NamedTuple):
    """What weights along the rows' coordinates after the steps tell of those before, ω_u⁰ = first ξ/√d on average, and of ℓ·w: by
    Cov(ω, ω⁰) = (1 + νM)Σ; bend: the same of the part of ℓ that degree three makes.
    """

    first: Float[Array, "k u u"]
    pull: Float[Array, "k u"]
    bend: Float[Array, "k u"]

    @classmethod
    def of(
        cls, at: Directions, moves: Moves, which: Int[Array, "k"], first: Array, spread: Float[Array, "k u u"]
    ) -> Known:
        """From E M and what is left of the first weights."""
        frame, lam, kept = at.frame, at.sigma.eigenvalues, moves.kept(at.sigma.eigenvalues)
        nu, to_batch = moves.quadratic[which][:, None, None], frame.gram(at.batch, at.rows)
        told = np.moveaxis(first @ kept.T, 2, 0)[which] + nu * (to_batch.T @ moves.mean @ to_batch)
        both = (at.pull, 2 * at.sigma.moment(2) * at.bend)
        direct = np.array([[frame.dot(u, x) for u in at.rows] for x in both]) @ kept.T
        by_batch = frame.gram(both, [b / lam for b in at.batch]) @ moves.mean @ to_batch
        seen = np.moveaxis(direct, 2, 0)[which] + nu * by_batch
        pull, bend = np.moveaxis(seen @ spread, 1, 0)
        return cls(told @ spread, pull, bend)


def _by_the_batch(at: Directions, moves: Moves, which: Int[Array, "k"]) -> Float[Array, "k m m"]:
    """F_k on the directions b and M̃b."""
    lam, nu, noise, m = at.sigma.eigenvalues, moves.quadratic[which], moves.noise[which], moves.mean
    B = np.pad(at.star_moved, (0, 1))
    B[-1, -1] = moves.noise_length
    left = np.stack([moves.left(lam, at.frame.dot(b, b)) for b in at.batch], axis=1)[which]
    left = (left[:, :, None] + left[:, None, :]) * nu[:, None, None]
    own = moves.square - moves.power * np.outer(
        m[-1], m[-1]
    )  # of M: what is fresh in its samples is across their residuals
    c = _further_spread(at, own * moves.spread / (moves.power or 1.0), moves.spread)
    F = left * m + np.multiply.outer(nu**2, m @ B @ m + own * moves.spread / (moves.power or 1.0))
    F = F + np.multiply.outer(noise / (moves.power or 1.0) - nu**2 * moves.spread / (moves.power or 1.0), moves.square)
    cross = left * c + np.multiply.outer(nu**2, m + c @ B @ m)
    again = np.multiply.outer(nu**2, c + c.T + c @ B @ c.T)
    return np.block([[F, cross.transpose(0, 2, 1)], [cross, again]])


def _further_spread(at: Directions, excess: Float[Array, "b b"], spread: float) -> Float[Array, "b b"]:
    """C of M̂ = … + b̃ c bᵀ + h.c., b̃ = M̃b: M's samples know b, so that |Mb|² is not that of another direction but has this excess."""
    s = [b / at.sigma.eigenvalues for b in at.batch]
    gram = at.frame.gram(s, s)
    values, V = np.linalg.eigh(gram)
    values = np.maximum(values, 1e-12 * values.max())
    root, inverse = ((V * values**power) @ V.T for power in (0.5, -0.5))
    values, V = np.linalg.eigh(root @ excess @ root / (spread or 1.0))
    c = inverse @ ((V * (np.sqrt(np.maximum(1 + values, 0.0)) - 1)) @ V.T) @ inverse
    return np.linalg.lstsq(at.frame.gram(at.batch, at.batch), at.frame.gram(at.batch, s), rcond=1e-9)[0] @ c


def _aside(
    problem: Problem, at: Directions, a: Array, xi: Float[Array, "k u"], known: Known, gram: Callable[[int], Array]
) -> Float[Array, "k"]:
    """wᵀΣw off the coordinates of the rows before the step, given the weights along them."""
    d, sphere = problem.d, problem.weights == "sphere"
    inverse = np.linalg.inv(gram(1))
    shape = inverse @ gram(2) @ inverse - sphere * inverse  # of ω_u⁰ in it, off its mean
    shape = known.first.transpose(0, 2, 1) @ shape @ known.first
    across = np.einsum("ka,kab,kb->k", xi, shape, xi) - np.trace(shape, axis1=1, axis2=2)
    along = ((xi @ np.linalg.cholesky(gram(1)).T) ** 2).sum(1)
    output, bend = ((part * xi).sum(1) / np.sqrt(d) for part in (known.pull - known.bend, known.bend))
    aside = 1 + (across - along) / d + a * output - sphere * a**2
    return np.maximum(aside, LEAST) * np.exp(a * bend)
