"""The features as rows × neurons and a list of sectors: what every equation of the profile theory is about.

A feature is a mean, a sum over sectors and noise. With i the kind of a sample, k that of a neuron,

    F = b_k(i) + Σ_l K_l(k, i) ⟨y_l, x_l⟩/√B_l + √rest(k, i) Z,        x_l, y_l Gaussian vectors of dimension B_l,

x_l a sample's coordinates in sector l (the harmonics of degree l of its direction), y_l the neuron's, whose covariance has
the strengths g_kp with shares π_p. The teacher splits over the same sectors, y = h₀(i) + Σ_l h_l(i) ⟨e_l, x_l⟩ + rest.
Random features, the levels of `classic` and the every-degree level of `degrees` are builders of this one object; the
equations, the errors, the spectrum and the learned shares are written for it once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from onestride._numerics import Array, Float
from onestride.problem import Problem
from onestride.teachers import Target, Teacher
from onestride.theory.profile.harmonics import resolve
from onestride.theory.profile.neurons import LearnedDirection
from onestride.theory.profile.several import Sight, resolve_several, sight_along

_COLUMNS = 1e-4  # singular values of K and b that samples see, over the largest: errors change by less than 5e-5
_NEGLIGIBLE = 1e-6  # singular values of K below this share of the largest: errors change by 3e-7
_LOST = 1e-13  # the same of the means, where it is rounding
_SMOOTH = 1e-5  # the same after several steps, with two coordinates of the rows: errors change by less than 1e-6


def split(f: Target, overlap: float, z: Array, r: Array, D: float, L: int, sight: Sight | None = None) -> list[Array]:
    """The parts of f(ϱz + √(1−ϱ²) r u) on the rows: h_0 (i), h_1 … h_L (i × 1) and the variance of the rest (i).

    For a teacher of several directions u are as many coordinates, the first of which is beside z unless `sight` says otherwise,
    and h_l has a column for each of its polynomials of degree l.
    """
    if isinstance(f, Teacher):
        return resolve_several(f.at, sight or sight_along(overlap, z, f.directions), r, D, L)
    parts = resolve(f, overlap * z, np.sqrt(1 - overlap**2) * r, D, L)[:-1]
    return [parts[0], *(part[:, None] for part in parts[1:-1]), parts[-1]]


def split_teacher(
    target: Target, overlap: float, z: Array, r: Array, w: Array, D: float, L: int, sight: Sight | None = None
) -> list[Array]:
    """The same of the teacher, E σ⋆² imposed: at overlap 1 a kink falls between nodes."""
    h0, *parts, tail = split(target, overlap, z, r, D, L, sight)
    power = w @ (h0**2 + sum((part**2).sum(1) for part in parts) + tail)
    scale = target.second_moment / power if power > 0 else 1.0
    return [np.sqrt(scale) * h0, *(np.sqrt(scale) * part for part in parts), scale * tail]


@dataclass(frozen=True)
class Sector:
    """One block of the features.

    dim: multiplicity B_l. K: strength of the features on the nodes. strength (k × p) and share (p): the law of the
    neurons' covariance in this sector, by which K² is multiplied. h: the teacher's part on the rows, in m orthonormal
    components (one for a teacher of one direction). teacher_strength, teacher_frame: that law along the teacher; node t
    sees the combinations frame_t h, Σ_t frame_tᵀ frame_t = I.
    """

    dim: float
    K: Float[Array, "k i"]
    strength: Float[Array, "k p"]
    share: Float[Array, "p"]
    h: Float[Array, "i m"]
    teacher_strength: Float[Array, "k t"]
    teacher_frame: Float[Array, "t c m"]

    @cached_property
    def factors(self) -> tuple[Float[Array, "k r"], Float[Array, "r i"]]:
        """K as a product of few columns and rows (10 to 50): it is smooth in the nodes."""
        if not np.isfinite(self.K).all():
            return self.K, np.eye(self.K.shape[1])
        left, values, right = np.linalg.svd(self.K, full_matrices=False)
        kept = values > _NEGLIGIBLE * values[:1]
        return left[:, kept], values[kept, None] * right[kept]

    @cached_property
    def mean_strength(self) -> Float[Array, "k"]:
        """Σ_p π_p g_kp."""
        return self.strength @ self.share


def in_few_columns(
    part: Float[Array, "k i"], w: Float[Array, "i"], largest: float = 0.0
) -> tuple[Float[Array, "k r"], Float[Array, "r i"]]:
    """Part = X Y with few columns, to `_COLUMNS` of the largest singular value, its own or the one given, in the norm of the samples."""
    if not np.isfinite(part).all():  # the model will say why
        return part, np.eye(part.shape[1])
    root = np.sqrt(w)
    left, values, right = np.linalg.svd(part * root, full_matrices=False)
    kept = values > _COLUMNS * max(values[0], largest)
    kept[0] = True
    return left[:, kept] * values[kept], right[kept] / root


def in_columns(sector: Sector, w: Float[Array, "i"], largest: float = 0.0) -> Sector:
    """The sector with K in as few columns as the samples see."""
    sector.__dict__["factors"] = in_few_columns(sector.K, w, largest)
    return sector


@dataclass(frozen=True)
class Coupled:
    """Directions of sector 1 that hang together, with the coordinates that are functions of the row (`coupled`).

    rows: how many of the directions, the first, are such coordinates; the others have a block of the means each, the last
    of them the teacher's, one for each of its directions. mass: Σ a_p b_p over the coordinates of each node p of the sector's law, for every two directions.
    norm: the same for the neurons' own covariance, Σ_p norm_p = 1. bases: the columns (rows of B) through which each block is
    seen: functions of the row, the same times xᵀMx/d, and the directions. less: parts that are independent from neuron to
    neuron and that sector 1 counts too much. squared: whether a last block is that of degree two along the teacher's unlearned
    direction, e ⊗ e, carried by sector 2.
    """

    rows: int
    mass: Float[Array, "a a p"]
    norm: Float[Array, "p"]
    bases: tuple[Float[Array, "_ i"], ...]
    less: tuple[Float[Array, "k m"], ...]
    squared: bool = False

    @property
    def of_directions(self) -> tuple[Float[Array, "_ i"], ...]:
        """Columns of the directions of sector 1."""
        return self.bases[2 : len(self.bases) - self.squared]

    @cached_property
    def starts(self) -> list[int]:
        """Where each block begins in a vector of the special sector, and its end."""
        return [0, *np.cumsum([len(B) for B in self.bases]).tolist()]


@dataclass(frozen=True)
class Means:
    """The mean features: a special sector of low rank, in which the spikes live.

    Its space holds functions of the row, f(i), and f(i) times further variables: the blocks of a vector of length blocks·i.
    The first, plain ones hold the teacher's h; the others are `carried` by sectors. cases: (probability, b) with b_k in that
    space (k × blocks·i), over what the step's batch leaves to chance. independent: parts that are independent from neuron to
    neuron, of which only the squares add up. carried: for sectors 1, 2, …, combinations (orthonormal rows) of the teacher's
    directions there, each a block f(i) times that direction, whose resolvent is that sector's and which holds its h. excess:
    for the same sectors, covariance of a neuron's weights along them that the sector's strengths do not hold, of either sign.
    coupled: all blocks in few columns, sector 1's h among them, where its directions hang together.
    """

    cases: tuple[tuple[float, Float[Array, "k m"]], ...]
    independent: tuple[Float[Array, "k m"], ...]
    h: Float[Array, "p"]
    carried: tuple[Float[Array, "_ _"], ...] = ()
    excess: tuple[Float[Array, "k _ _"] | None, ...] = ()
    coupled: Coupled | None = None


class FewColumns(NamedTuple):
    """The special sector as means and teacher see it: what they are in block j is a combination b̂ of the few rows of B_j.

    bases: B_j of every block (r_j × i), orthonormal under the weights w. blocks: where each is in vectors of length Σ r_j.
    cases, independent, h: those of `Means`, in these coordinates. K: that of the sector which carries a block, where it has excess.
    """

    bases: tuple[Float[Array, "_ i"], ...]
    blocks: tuple[slice, ...]
    cases: tuple[tuple[float, Float[Array, "k m"]], ...]
    independent: tuple[Float[Array, "k m"], ...]
    h: Float[Array, "p"]
    K: tuple[Float[Array, "k _"] | None, ...]


def _row_space(rows: Float[Array, "_ i"], w: Float[Array, "i"], least: float) -> Float[Array, "_ i"]:
    """Few rows, orthonormal under w, of which all are combinations."""
    if not np.isfinite(rows).all():
        return np.diag(1 / np.sqrt(w))
    _, values, right = np.linalg.svd(np.linalg.qr(rows * np.sqrt(w), mode="r"), full_matrices=False)
    return right[values > least * values[0]] / np.sqrt(w)


@dataclass(frozen=True)
class Model:
    """Rows, neurons, sectors and means of one problem.

    D: dimension of the rest of x. z, r: a sample's coordinate along the learned direction and the rest's length; w:
    probabilities. A, theta,
    weight: a neuron's readout, its weight along the learned direction, probability; v: variance of the rest of its
    pre-activation. rest (k × i): variance of the features that no sector resolves. tail: the same of the teacher. adapted:
    the same for a given penalty, where the law of sector 1 depends on it (`covariance`). draws: probabilities and models over
    which errors are averaged in its place, where teachers of one law differ too much for one of them. sight: what the rows tell
    of a teacher of several directions, where that is more than z.
    """

    problem: Problem
    level: str
    learned: LearnedDirection
    D: float
    z: Float[Array, "i"]
    r: Float[Array, "i"]
    w: Float[Array, "i"]
    A: Float[Array, "k"]
    theta: Float[Array, "k"]
    weight: Float[Array, "k"]
    v: Float[Array, "k"]
    sectors: tuple[Sector, ...]
    rest: Float[Array, "k i"]
    means: Means
    tail: Float[Array, "i"]
    adapted: Callable[[float], Model] | None = None
    draws: tuple[tuple[float, Model], ...] = ()
    sight: Sight | None = None

    def at(self, lam: float) -> Model:
        """The model for this penalty, where its sectors depend on it."""
        return self if self.adapted is None else self.adapted(lam)

    @property
    def members(self) -> tuple[tuple[float, Model], ...]:
        """The models whose errors are averaged: itself alone, as a rule."""
        return self.draws or ((1.0, self),)

    @cached_property
    def few(self) -> FewColumns:
        """The special sector in few columns (20 to 100 a block): its means, like K, are smooth in the nodes."""
        means, size = self.means, self.w.size
        parts = [b for _, b in means.cases] + list(means.independent)
        every = [slice(start, start + size) for start in range(0, parts[0].shape[1], size)]
        own: list[list[Array]] = [[h[None]] for h in means.h.reshape(-1, size)]
        for sector, combined, excess in zip(self.sectors, means.carried, means.excess, strict=False):
            own += [[] if excess is None else [sector.K]] * combined.shape[0]
        least = _LOST if self.problem.steps == 1 else _SMOOTH
        bases = tuple(
            _row_space(np.concatenate([part[:, at] for part in parts] + more), self.w, least)
            for at, more in zip(every, own, strict=True)
        )

        def seen(b: Array) -> Array:
            return np.concatenate([(b[..., at] * self.w) @ B.T for at, B in zip(every, bases, strict=True)], axis=-1)

        stops = [int(stop) for stop in np.cumsum([len(B) for B in bases])]
        return FewColumns(
            bases,
            tuple(slice(stop - len(B), stop) for B, stop in zip(bases, stops, strict=True)),
            tuple((p, seen(b)) for p, b in means.cases),
            tuple(seen(b) for b in means.independent),
            np.concatenate([B @ (self.w * h[0][0]) for B, h in zip(bases, own[: means.h.size // size], strict=False)]),
            tuple((more[0] * self.w) @ B.T if more else None for B, more in zip(bases, own, strict=True)),
        )

    @property
    def N_over_n(self) -> float:
        """N/n."""
        return self.problem.N / self.problem.n

    def split(self, f: Target) -> list[Array]:
        """f(β⋆ᵀx) over the rows and sectors: h_0, h_1 … h_L and the variance of the rest."""
        h0, *parts, tail = split(f, self.learned.overlap, self.z, self.r, self.D, len(self.sectors), self.sight)
        # a sector may hold directions in which f has no part
        more = (sector.h.shape[1] - part.shape[1] for sector, part in zip(self.sectors, parts, strict=True))
        return [h0, *(np.pad(part, ((0, 0), (0, k))) for part, k in zip(parts, more, strict=True)), tail]

    @property
    def finite(self) -> bool:
        """Whether activation and teacher could be averaged everywhere."""
        parts = [self.rest, self.tail, self.means.h, *(b for _, b in self.means.cases)]
        parts += [x for sector in self.sectors for x in (sector.K, sector.h)]
        return all(bool(np.isfinite(x).all()) for x in parts)
