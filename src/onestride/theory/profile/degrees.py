"""The level "degrees": every degree of the inputs a sector of its own, for any n, d and N, and what a step remembers.

Given the coordinate z along the learned direction and the length r of the rest of x, a feature is σ(θz + s u) with u a
coordinate of a point of S^{D−1} and s = √v r: its parts of degree l = 1 … L in u (`harmonics`) are sectors of dimension
B_l, rows are nodes (z, r), neurons nodes (A, ω), ω the weight along the learned direction before the step. Degrees with
B_l ≫ n, N stay noise: with L = 1 this is the level "full" of `classic`, up to O(1/d). Without a step nothing is learned:
z goes, D = d, and this is the random-features theory with every degree (Defilippis, Loureiro and Misiakiewicz 2024).

In the linear sector the neurons' covariance follows the spectrum of M (`strength`), in degree 2 pairs of its nodes. Along the teacher
M stretches neurons from G to E, and what they see of its degree l by (E/G)^l: that counts even where B_l ≫ n, N.

What the step's own batch, the network's output and the length of the rows leave in the means is in `memory`.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from dataclasses import replace
from math import comb

import numpy as np

from onestride._numerics import Array, Float, gauss_density
from onestride.inputs import excess_kurtosis
from onestride.problem import Problem
from onestride.teachers import products
from onestride.theory.profile.gradient_noise import SpectralNodes
from onestride.theory.profile.harmonics import degrees_resolved, multiplicity, radius_rule, resolve, sphere_rule
from onestride.theory.profile.memory import Kinds, cubic, pull, quartic, remembered
from onestride.theory.profile.neurons import LearnedDirection, learned_direction, normal_rule, readout_rule, resolution
from onestride.theory.profile.one_readout import Together, remembered_together, together_of
from onestride.theory.profile.sectors import Means, Model, Sector, all_in_columns, split_teacher
from onestride.theory.profile.strength import Strength, strength

_OFFSETS = 5  # nodes of ω
_SPECTRUM = 4  # nodes of M's laws
_SPREAD = 3e-3  # of a law, relative to its mean and over how many functions there are, that a degree does not see


def build(
    problem: Problem,
    *,
    level: str = "full",
    nodes: int = 31,
    radii: int | None = None,
    degrees: int | None = None,
    min_weight: float = 1e-7,
    memory: bool = True,
    shift: float = 0.0,
) -> Model:
    """Set up every degree for `problem`; `level` is that of the strength of the weights off the learned direction."""
    if problem.eta == 0:
        return build_untrained(problem, radii=radii, degrees=degrees)
    D = problem.d - 1
    # t = Wᵀa is right for both gradients and for η → 0; where only spikes are asked for, labels are nearer to β
    learned = learned_direction(problem, through_output=True if memory else None)
    law = strength(problem, level, learned)
    together = together_of(problem, learned, law) if memory else None
    z, r, w = of_entries(problem, *_rows(learned, D, nodes, radii, together))
    neurons = kinds_of(problem, learned, law, nodes, min_weight, shift)
    L = degrees or degrees_resolved(D, max(problem.n, problem.N))
    if memory and not degrees and L == 1:
        stretched = max(problem.n, problem.N) * float(neurons.weight @ _stretch(neurons) ** 2)
        L = degrees_resolved(D, stretched, most=2)
    scale = np.sqrt(neurons.v)[:, None] * r
    parts = resolve(problem.sigma, neurons.theta[:, None] * z, scale, D, L)
    unlearned, sphere = (r, D) if together is None else together.unlearned(r, D)
    teacher = split_teacher(problem.target, learned.overlap, z, unlearned, w, sphere, L, as_taught=problem.law.normal)
    linear = linear_sector(D, parts[1], teacher[1], neurons)
    if not memory or together is not None:
        means = Means(((1.0, parts[0]),), (), teacher[0])
    else:
        means, linear = remembered(problem, learned, law, neurons, parts, teacher, linear)
    sectors = (linear, *higher_sectors(problem, D, parts, teacher, neurons))
    sectors, rest = all_in_columns(sectors, parts[-2], w, neurons.weight)
    if together is not None:
        means, linear = remembered_together(problem, learned, together, neurons, (r, w), parts, teacher, sectors[0])
        sectors = (linear, *sectors[1:])
    kinds = (neurons.A, neurons.theta, neurons.weight, neurons.v)
    return Model(problem, "degrees", learned, sphere, z, unlearned, w, *kinds, sectors, rest, means, teacher[-1])


def build_untrained(problem: Problem, *, radii: int | None = None, degrees: int | None = None) -> Model:
    """The network before the step: rows are lengths of x, neurons lengths of w (one on the sphere), D = d."""
    d = problem.d
    L = degrees or degrees_resolved(d, max(problem.n, problem.N))
    z, r, w = of_entries(problem, np.zeros(radii or 7), *radius_rule(d, radii or 7))
    length, weight = (np.ones(1), np.ones(1)) if problem.weights == "sphere" else radius_rule(d, 5)
    length = length if problem.weights == "sphere" else length / np.sqrt(d)
    parts = resolve(problem.sigma, np.zeros(1), length[:, None] * r, d, L)
    teacher = split_teacher(problem.target, 0.0, z, r, w, d, L, as_taught=problem.law.normal)
    none = np.zeros(length.size)
    sectors = (_isotropic(multiplicity(d, l), parts[l], teacher[l]) for l in range(1, L + 1))
    sectors = tuple(by_entries(problem, d, l, sector) for l, sector in enumerate(sectors, 1))
    means, learned = Means(((1.0, parts[0]),), (), teacher[0]), LearnedDirection(0.0, 0.0, False, 0.0)
    kinds = (none, none, weight, length**2)
    return Model(problem, "degrees", learned, d, z, r, w, *kinds, sectors, parts[-2], means, teacher[-1])


def radii_of(d: float) -> int:
    """Nodes of the length of x: its relative spread is 1/√(2d)."""
    return next(count for least, count in ((1000, 2), (50, 3), (35, 4), (25, 5), (0, 7)) if d >= least)


def _rows(
    learned: LearnedDirection, D: int, nodes: int, radii: int | None, together: Together | None = None
) -> tuple[Array, Array, Array]:
    """Nodes (z, r) and probabilities."""
    z, wz = normal_rule(*resolution(learned.amplitude, nodes))
    if together is None:
        r, wr = radius_rule(D, radii or radii_of(D + 1))
    else:
        r, wr = together.rows(D, radii or radii_of((D + 1) / together.second))
    kept = wz > 1e-9
    z, wz = z[kept], wz[kept] / wz[kept].sum()
    return np.repeat(z, r.size), np.tile(r, z.size), np.outer(wz, wr).ravel()


def of_entries(problem: Problem, z: Array, r: Array, w: Array) -> tuple[Array, Array, Array]:
    """Gaussian rows (z, r) made as long as rows of independent entries of excess kurtosis κ are: |x|² varies by (2 + κ)d, not by 2d.

    Their direction stays, so z⋆ = β⋆·x gets the fourth cumulant 3κ/(d + 2) that it has for a random β⋆. z may have several columns.
    """
    if problem.law.normal:
        return z, r, w
    square = (z.reshape(r.size, -1) ** 2).sum(1) + r**2
    scale = (square / problem.d) ** np.sqrt(max(1 + excess_kurtosis(problem.law) / 2, 0.0)) / square
    scale = np.sqrt(scale * problem.d / (w @ (scale * square)))
    return z * scale.reshape(-1, *[1] * (z.ndim - 1)), r * scale, w


def by_entries(problem: Problem, D: int, l: int, sector: Sector) -> Sector:
    """The sector of degree l with the strengths that its functions have for independent entries of excess kurtosis κ.

    C(D, l) of them are products of different entries and as strong as for Gaussian inputs; in the others x_i² has the variance
    2 + κ in place of 2, and entries ±1 have none of them. The teacher has its power where the features have theirs.
    """
    if problem.law.normal or l == 1:
        return sector
    different = comb(D, l) / sector.dim
    share = np.array([different, 1 - different])
    strength = np.array([1.0, max(1 + excess_kurtosis(problem.law) / 2, 0.0)])
    strength = strength / (share @ strength)
    frame = sector.teacher_frame[:, None] * np.sqrt(share * strength)[:, None, None]
    return replace(
        sector,
        strength=_products(sector.strength, strength),
        share=np.outer(sector.share, share).ravel(),
        teacher_strength=_products(sector.teacher_strength, strength),
        teacher_frame=frame.reshape(-1, *frame.shape[2:]),
    )


def _products(law: Float[Array, "k p"], strength: Float[Array, "e"]) -> Float[Array, "k pe"]:
    return (law[:, :, None] * strength).reshape(law.shape[0], -1)


def kinds_of(
    problem: Problem,
    learned: LearnedDirection,
    law: Strength | None,
    nodes: int,
    min_weight: float = 1e-7,
    shift: float = 0.0,
) -> Kinds:
    """Nodes of a neuron's readout, of its weight along the learned direction and, for Gaussian rows, of its length."""
    d = problem.d
    # neurons with a small readout differ most after a strong step: nodes crowd where θ is of order one
    A, weight = readout_rule(problem, nodes, 1 / max(1.0, learned.amplitude), shift=shift)
    if problem.weights == "sphere":
        omega, wo = sphere_rule(d, _OFFSETS)
        omega, aside = omega / np.sqrt(d), np.ones_like(omega)
        pace = np.ones_like(omega)
    else:
        g, wg = sphere_rule(10**12, _OFFSETS)  # a Gaussian
        r, wr = radius_rule(d - 1, 2 if d >= 200 else 3)
        omega, aside = np.repeat(g, r.size) / np.sqrt(d), np.tile(r**2 / d, g.size)
        wo, pace = np.outer(wg, wr).ravel(), _pace(problem, omega**2 + aside)
    pace, A, omega, aside = (
        np.tile(pace, A.size),
        np.repeat(A, omega.size),
        *(np.tile(v, A.size) for v in (omega, aside)),
    )
    weight = np.outer(weight, wo).ravel()
    kept = weight > min_weight
    A, omega, aside, weight = A[kept], omega[kept], aside[kept], weight[kept] / weight[kept].sum()
    pace = pace[kept]
    if law is None:
        along, bulk, share = np.ones_like(A), np.ones((A.size, 1)), np.ones(1)
        teacher, frame = bulk, np.eye(problem.directions)[None]
    else:
        few, along_teacher = gauss_nodes(law.bulk), gauss_nodes(law.teacher)
        bulk, share, frame = law.on(few, A) / (1 - 1 / d), few.weight, along_teacher.frame
        teacher = law.on(along_teacher, A) / (1 - 1 / d)
        along = np.ones_like(A) if law.learned is None else law.along_learned(A) / (1 - 1 / d)
    kept = np.ones_like(A) if law is None else np.clip(law.kept_along_learned(A) / np.sqrt(along), -1, 1)
    before, a = omega * kept, A / np.sqrt(problem.N)  # what w·t̂ was, as far as ω tells
    if problem.weights == "sphere":  # |w_j| = 1, of which w_j − a_j p is left off t̂; no real neuron has a_j near 1
        aside = np.maximum(1 - omega**2 - 2 * learned.tilt * a * before - learned.through_output * a**2, 0.1)
    if law is not None:
        itself = quartic(problem, learned, law.shift, before**2 + (1 - kept**2) / d)
        exponent = pull(problem, learned).along * a * before + 2 * problem.eta * a * itself
        aside = aside * np.exp(np.clip(exponent, -200, 200))  # far beyond what any theory describes, and still a number
    grown = bulk @ share
    theta = learned.amplitude * A * pace + omega * np.sqrt(along)
    if law is not None:
        theta = theta + problem.eta * A / np.sqrt(problem.N) * cubic(problem, learned, omega)[0]
    strengths = (bulk / grown[:, None], share, teacher / grown[:, None], frame)
    along_e = np.einsum("kt,tca,tcb->kab", teacher, frame, frame)
    return Kinds(A, omega, aside, weight, theta, aside * grown, along, along_e, *strengths)


def _pace(problem: Problem, square: Float[Array, "o"]) -> Float[Array, "o"]:
    """E σ'(|w|g)/c₁: how far the step takes a neuron of another length than 1 along the learned direction, relative to one of length 1."""
    x, w = problem.sigma.rule
    slopes = problem.sigma.derivative(np.sqrt(square)[:, None] * x) @ (w * gauss_density(x))
    c1 = problem.sigma.coefficients[1]
    return slopes / c1 if c1 != 0 else np.ones_like(square)


def gauss_nodes(law: SpectralNodes) -> SpectralNodes:
    """A law on few nodes that keep its first moments (Lanczos, in blocks where several directions see it), with the mean
    of S kept too.
    """
    m = np.repeat(law.eigenvalue, law.frame.shape[1])
    start = law.frame.reshape(m.size, -1)  # orthonormal columns, one for each direction
    k = start.shape[1]
    if law.eigenvalue.size <= _SPECTRUM:
        return law
    basis = new = start
    for _ in range(_SPECTRUM - 1):
        new = m[:, None] * new
        for _ in range(2):
            new = new - basis @ (basis.T @ new)
        left, values, _ = np.linalg.svd(new, full_matrices=False)
        new = left[:, values > 1e-12 * np.abs(m).max()]
        basis = np.concatenate([basis, new], axis=1)
    few, vectors = np.linalg.eigh((basis.T * m) @ basis)
    frame, order = vectors[:k].T, np.argsort(law.eigenvalue)
    weight = (frame**2).sum(1) / k
    power = np.interp(few, law.eigenvalue[order], law.power[order])
    mean = weight @ power
    return SpectralNodes(few, weight, power * ((law.weight @ law.power) / mean if mean > 0 else 1.0), frame[:, None, :])


def linear_sector(D: int, K: Array, h: Array, neurons: Kinds) -> Sector:
    """Degree one, along the spectrum of M."""
    return Sector(float(D), K, neurons.bulk, neurons.share, h, neurons.teacher, neurons.teacher_frame)


def higher_sectors(problem: Problem, D: int, parts: Array, teacher: list[Array], neurons: Kinds) -> list[Sector]:
    """Degrees 2 … L; degree two on pairs (p, p') of M's nodes, √(g_p g_p'), higher ones as if M were isotropic off the teacher."""
    sectors: list[Sector] = []
    for l in range(2, parts.shape[0] - 2):
        sector = _isotropic(multiplicity(D, l), parts[l], teacher[l])
        if l == 2:
            i, j = np.tril_indices(neurons.share.size)
            share = neurons.share[i] * neurons.share[j] * np.where(i == j, 1, 2)
            law = neurons.bulk[:, i] * neurons.bulk[:, j], share
            law = _few(*law, neurons.weight, sector.dim / max(problem.n, problem.N))
            sector = Sector(sector.dim, sector.K, *law, sector.h, *_pairs(neurons.teacher, neurons.teacher_frame))
        elif problem.directions == 1:
            sector = replace(sector, teacher_strength=_stretch(neurons)[:, None] ** l)
        sectors.append(by_entries(problem, D, l, sector))
    return sectors


def _few(law: Float[Array, "k p"], share: Float[Array, "p"], weight: Array, times: float) -> tuple[Array, Array]:
    """The law of a degree with `times` as many functions as samples or neurons; its mean, where that moves errors by 2e-4 at most.

    Functions are then hardly told apart: what errors see of them is the mean strength, and its spread over `times`.
    """
    mean = law @ share
    spread = float(weight @ ((law**2 @ share) / mean**2 - 1)) / times
    return (mean[:, None], np.ones(1)) if spread < _SPREAD else (law, share)


def _stretch(neurons: Kinds) -> Float[Array, "k"]:
    """E/G: the variance of a neuron's weights along the teacher's unlearned directions (their mean) relative to that of others."""
    frame = neurons.teacher_frame
    return neurons.teacher @ np.square(frame).sum((1, 2)) / frame.shape[2]


def _isotropic(dim: float, K: Array, h: Array) -> Sector:
    one = np.ones((K.shape[0], 1))
    return Sector(dim, K, one, np.ones(1), h, one, np.eye(h.shape[1])[None])


def _pairs(strength: Array, frame: Float[Array, "t c k"]) -> tuple[Array, Array]:
    """The law of products of two directions: v ⊗ v', made symmetric, in the components (0, 0), (0, 1) … of `products`."""
    v, strength = frame.reshape(-1, frame.shape[2]), np.repeat(strength, frame.shape[1], axis=1)
    i, j = np.tril_indices(v.shape[0])
    twice = np.where(i == j, 1, np.sqrt(2))
    columns = [
        v[i, a] * v[j, a] if a == b else (v[i, a] * v[j, b] + v[i, b] * v[j, a]) / np.sqrt(2)
        for a, b in products(v.shape[1], 2)
    ]
    return strength[:, i] * strength[:, j], (twice * np.array(columns)).T[:, None, :]
