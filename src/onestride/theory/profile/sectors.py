"""The features as rows × neurons and a list of sectors: what every equation of the profile theory is about.

A feature is a mean, a sum over sectors and noise. With i the kind of a sample, k that of a neuron,

    F = b_k(i) + Σ_l K_l(k, i) ⟨y_l, x_l⟩/√B_l + √rest(k, i) Z,        x_l, y_l Gaussian vectors of dimension B_l,

x_l a sample's coordinates in sector l (the harmonics of degree l of its direction), y_l the neuron's, whose covariance has
the strengths g_kp with shares π_p. The teacher splits over the same sectors, y = h₀(i) + Σ_l h_l(i) ⟨e_l, x_l⟩ + rest.
Random features, the levels of `classic` and the every-degree level of `degrees` are builders of this one object; the
equations, the errors, the spectrum and the learned shares are written for it once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from onestride._numerics import Array, Float
from onestride.problem import Problem
from onestride.teachers import Target, Teacher
from onestride.theory.profile.harmonics import resolve
from onestride.theory.profile.neurons import LearnedDirection
from onestride.theory.profile.several import Sight, resolve_several, sight_along

_SEEN = 1e-5  # those of K that samples and neurons see, over the largest of sector 1: errors change by at most 1e-4
COARSE = 1e-4  # the same after several steps, with two coordinates of the rows
_BY_DEGREE = 3e-5  # the same of degree one where inputs have a covariance: errors change by 6e-5
_MEANT = 1e-6  # those of the means, over the largest of all blocks
_FADING = 4.0  # columns fade in from there to so many times that
_NEGLIGIBLE = 1e-6  # singular values of K below this share of the largest: errors change by 3e-7
_LOST = 1e-13  # what is rounding
_ALIKE = 1e-14  # the same of strengths


def split(f: Target, overlap: float, z: Array, r: Array, D: float, L: int, sight: Sight | None = None) -> list[Array]:
    """The parts of f(ϱz + √(1−ϱ²) r u) on the rows: h_0 (i), h_1 … h_L (i × 1) and the variance of the rest (i).

    For a teacher of several directions u are as many coordinates, the first of which is beside z unless `sight` says otherwise,
    and h_l has a column for each of its polynomials of degree l.
    """
    if isinstance(f, Teacher):
        return resolve_several(f.at, sight or sight_along(overlap, z, f.directions), r, D, L, degree=f.degree)
    parts = resolve(f, overlap * z, np.sqrt(1 - overlap**2) * r, D, L)[:-1]
    return [parts[0], *(part[:, None] for part in parts[1:-1]), parts[-1]]


def split_teacher(
    target: Target,
    overlap: float,
    z: Array,
    r: Array,
    w: Array,
    D: float,
    L: int,
    sight: Sight | None = None,
    *,
    as_taught: bool = True,
) -> list[Array]:
    """The same of the teacher, E σ⋆² imposed (`as_taught`; of Gaussian inputs it is known): at overlap 1 a kink falls between nodes."""
    h0, *parts, tail = split(target, overlap, z, r, D, L, sight)
    if not as_taught:
        return [h0, *parts, tail]
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
    teacher_frame: Float[Array, "t c components"]

    @cached_property
    def factors(self) -> tuple[Float[Array, "k r"], Float[Array, "r i"]]:
        """K as a product of few columns and rows (10 to 50): it is smooth in the nodes."""
        if not np.isfinite(self.K).all():
            return self.K, np.eye(self.K.shape[1])
        left, values, right = np.linalg.svd(self.K, full_matrices=False)
        kept = values > _NEGLIGIBLE * values[:1]
        return left[:, kept], values[kept, None] * right[kept]

    @cached_property
    def law(self) -> tuple[Float[Array, "k m"], Float[Array, "m p"]]:
        """The strengths as a product of few columns and rows, to rounding: in a neuron's readout they are nearly quadratic."""
        if not np.isfinite(self.strength).all():
            return self.strength, np.eye(self.share.size)
        mean = np.where(self.strength.any(0), self.strength.mean(0), 1.0)
        left, values, right = np.linalg.svd(self.strength / mean, full_matrices=False)
        kept = values > _ALIKE * values[0]
        return left[:, kept] * values[kept], right[kept] * mean

    @cached_property
    def by_strength(self) -> list[Float[Array, "k r"]]:
        """The columns of K times √g_kp, for each p."""
        return [self.factors[0] * root[:, None] for root in np.sqrt(self.strength).T]

    @cached_property
    def mean_strength(self) -> Float[Array, "k"]:
        """Σ_p π_p g_kp."""
        return self.strength @ self.share


class Columns(NamedTuple):
    """K = X Y + left, X and Y with few columns and rows; largest: K's largest singular value."""

    X: Float[Array, "k r"]
    Y: Float[Array, "r i"]
    left: Float[Array, "k i"]
    largest: float


def columns(
    K: Float[Array, "k i"],
    w: Float[Array, "i"],
    weight: Float[Array, "k"],
    largest: float = 0.0,
    *,
    least: float = _SEEN,
) -> Columns:
    """The columns of K that samples and neurons see, in the norm of their probabilities; Y is orthonormal in it.

    They come and go without a jump, so that errors are smooth in whatever a problem is made of: what is faded of a column is left.
    """
    if not np.isfinite(K).all():  # the model will say why
        return Columns(K, np.eye(K.shape[1]), np.zeros_like(K), 0.0)
    A = np.sqrt(weight)[:, None] * K * np.sqrt(w)
    wide = K.shape[0] < K.shape[1]
    U, values, seen = _seen(A if wide else A.T, least, largest)
    X, Y = (U * values, U.T @ A / values[:, None]) if wide else (A @ U, U.T)
    kept = X @ ((1 - np.sqrt(1 - seen**2))[:, None] * Y)
    neurons, samples = np.sqrt(weight)[:, None], np.sqrt(w)
    largest = float(values.max(initial=0.0))
    return Columns(X * seen / neurons, Y / samples, (A - kept) / neurons / samples, largest)


def _seen(
    A: Float[Array, "a b"], least: float, largest: float
) -> tuple[Float[Array, "a r"], Float[Array, "r"], Float[Array, "r"]]:
    """The singular vectors of A's columns that are seen, their singular values from the largest down, and how much is seen of each: 0 to 1."""
    squares, U = (part[..., ::-1] for part in np.linalg.eigh(A @ A.T))
    values = np.sqrt(np.maximum(squares, 0.0))
    least = max(least * max(float(values[0]), largest), np.finfo(float).tiny)
    x = np.clip(np.log(np.maximum(values / least, 1.0)) / np.log(_FADING), 0.0, 1.0)
    kept = x > 0
    return U[:, kept], values[kept], (x * x * (3 - 2 * x))[kept]


def in_columns(sector: Sector, seen: Columns) -> tuple[Sector, Float[Array, "k i"]]:
    """The sector in few columns, and what is left of it: noise, of that variance."""
    return with_factors(sector, seen.X, seen.Y), sector.mean_strength[:, None] * seen.left**2


def with_factors(sector: Sector, X: Float[Array, "k r"], Y: Float[Array, "r i"]) -> Sector:
    """The sector with K = X Y."""
    out = replace(sector, K=X @ Y)
    out.__dict__["factors"] = X, Y
    return out


def all_in_columns(
    sectors: Sequence[Sector],
    rest: Float[Array, "k i"],
    w: Float[Array, "i"],
    weight: Float[Array, "k"],
    *,
    least: float = _SEEN,
) -> tuple[tuple[Sector, ...], Float[Array, "k i"]]:
    """Sectors in the columns that are seen beside the first one's largest, and the features' noise with the others'."""
    out, largest = list[Sector](), 0.0
    for sector in sectors:
        seen = columns(sector.K, w, weight, largest, least=least)
        largest = largest or seen.largest
        sector, left = in_columns(sector, seen)
        out.append(sector)
        rest = rest + left
    return tuple(out), rest


def in_columns_by_degree(
    sectors: Sequence[Sector],
    rest: Float[Array, "k i"],
    w: Float[Array, "i"],
    weight: Float[Array, "k"],
    chance: float,
) -> tuple[list[Sector], Float[Array, "k i"]]:
    """The same where inputs have a covariance: what is told by a column of singular value s goes with s²√(E g²)/B_l, and what errors see of
    it, where they are averaged over several models, with the chance of this one.

    The noise is K² less that of the columns kept, at every node: errors move with s² then, and where K² of those cut is taken, with s.
    """
    told = [float(np.sqrt(weight @ (sector.strength**2 @ sector.share))) / sector.dim for sector in sectors]
    out, largest = list[Sector](), 0.0
    for sector, scale in zip(sectors, np.sqrt(told[0] / np.array(told)), strict=True):
        seen = columns(sector.K, w, weight, largest, least=_BY_DEGREE / np.sqrt(chance) * max(1.0, float(scale)))
        largest = largest or seen.largest
        cut = with_factors(sector, seen.X, seen.Y)
        rest = rest + sector.mean_strength[:, None] * (sector.K**2 - cut.K**2)
        out.append(cut)
    return out, rest


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

    bases: B_j of every block (r_j × i), orthonormal under the weights w; those that are hardly seen fade as in `columns`. blocks: where each is in vectors of length Σ r_j.
    cases, independent, h: those of `Means`, in these coordinates. K: that of the sector which carries a block, where it has excess.
    """

    bases: tuple[Float[Array, "_ i"], ...]
    blocks: tuple[slice, ...]
    cases: tuple[tuple[float, Float[Array, "k m"]], ...]
    independent: tuple[Float[Array, "k m"], ...]
    h: Float[Array, "p"]
    K: tuple[Float[Array, "k _"] | None, ...]


def _row_space(
    rows: Float[Array, "_ i"], w: Float[Array, "i"], exactly: Float[Array, "i"] | None, largest: float
) -> tuple[Float[Array, "_ i"], Float[Array, "_"], float]:
    """Few rows, orthonormal under w, how much the others see of each (`columns`), and their largest singular value.

    A last one, of which they see nothing, makes `exactly` a combination of all.
    """
    if not np.isfinite(rows).all():
        return np.diag(1 / np.sqrt(w)), np.ones(w.size), 0.0
    right, values, seen = _seen((rows * np.sqrt(w)).T, _MEANT, largest)
    if exactly is not None:
        more = exactly * np.sqrt(w)
        for _ in range(2):
            more = more - right @ (right.T @ more)
        size = float(np.linalg.norm(more))
        if size > _LOST * float(np.linalg.norm(exactly * np.sqrt(w))):
            right, seen = np.column_stack([right, more / size]), np.append(seen, 0.0)
    return right.T / np.sqrt(w), seen, float(values.max(initial=0.0))


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
        plain: list[Array | None] = list(means.h.reshape(-1, size))
        own: list[list[Array]] = [[] for _ in plain]
        for sector, combined, excess in zip(self.sectors, means.carried, means.excess, strict=False):
            own += [[] if excess is None else [sector.K]] * combined.shape[0]
            plain += [None] * combined.shape[0]
        neurons, largest = np.sqrt(self.weight)[:, None], 0.0
        bases, fading = list[Array](), list[Array]()
        for at, more, h in zip(every, own, plain, strict=True):
            rows = np.concatenate([neurons * part for part in [*(part[:, at] for part in parts), *more]])
            B, seen_of, values = _row_space(rows, self.w, h, largest)
            largest = largest or values
            bases.append(B)
            fading.append(seen_of)

        def seen(b: Array) -> Array:
            each = zip(every, bases, fading, strict=True)
            return np.concatenate([((b[..., at] * self.w) @ B.T) * share for at, B, share in each], axis=-1)

        stops = [int(stop) for stop in np.cumsum([len(B) for B in bases])]
        return FewColumns(
            tuple(bases),
            tuple(slice(stop - len(B), stop) for B, stop in zip(bases, stops, strict=True)),
            tuple((p, seen(b)) for p, b in means.cases),
            tuple(seen(b) for b in means.independent),
            np.concatenate([B @ (self.w * h) for B, h in zip(bases, plain, strict=True) if h is not None]),
            tuple(
                ((more[0] * self.w) @ B.T) * share if more else None
                for B, more, share in zip(bases, own, fading, strict=True)
            ),
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
