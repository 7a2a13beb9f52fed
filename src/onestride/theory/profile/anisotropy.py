"""Where the directions of a problem lie in the spectrum of Σ, the covariance of the inputs x = Σ^{1/2} g.

In the eigenbasis of Σ (eigenvalues λ_p of sum d) a step knows three vectors: the teacher's β⋆ (β⋆ᵀΣβ⋆ = 1), the output's
p = W₀ᵀa and the noise ν of β = Xᵀr/n. They are independent, so sums over p need their energies only,

    E β⋆_p² as the law of the inputs says,   E p_p² = 1/d,   E ν_p² = φ₀ E r² λ_p/d.

A direction without preference is b/√(bᵀΣb), b isotropic, and has less energy where λ_p is large than 1/d (`mean_energy`).
By Stein's formula the mean gradient of neuron j is c₁a_j Σg, g = c⋆₁β⋆ − c₁p (labels: without p), and with degree three of σ

    t = Wᵀa = p + η(c₁(Σg + ν) + c₃(6Σ²g + 18(c⋆₃ β⋆ᵀΣ²β⋆ Σβ⋆ − c₃Σp))/d)                          (tr Σ = d)

In the space of g, where inputs are isotropic, the learned direction is u = Σ^{1/2}t/|Σ^{1/2}t|, the teacher's s = Σ^{1/2}β⋆.
A teacher of k directions has as many vectors β_j, orthonormal in Σ; turned, Qβ, the gradient's mean is along the first (`teachers`),
and c⋆₃β⋆ᵀΣ²β⋆ becomes E[g H₃(u)] with two indices on s_aᵀΣs_b.
A single eigenvalue that makes up much of tr Σ², a spike, has few coordinates (one) and no average: there the vectors have a
value, β⋆'s own and for p and ν what they are on average given t's root mean square.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from onestride._numerics import Array, Float, Int
from onestride.problem import Problem
from onestride.teachers import Teacher
from onestride.theory.profile.lengths import step_law

_MANY = 30.0  # degrees of freedom from which one teacher stands for all
_RARE = 0.1  # the chance of a draw below which little of an error is its own
_BY_TEACHER = 0.5  # share of the teacher in the energies along a spike from which those of p and ν are not drawn
_TAUGHT, _ALONE = 0.25, 1.5  # the teacher's share along an eigenvector, and its eigenvalue, from which on it is one too
_SPIKE = 0.25  # share of tr Σ² in one eigenvalue from which its coordinate is resolved

# (tr Σ)²/tr Σ² below which numbers are known to be off, for a teacher of one direction and of several: with 20 (ar1, d = 88) an untrained
# network's training error is 10 % low, with 29 (d = 129) up to 8 %; labels of several are up to 30 % off with 31 to 54 (6 of 56 problems),
# and none of 98 is with more
FEWEST_DIRECTIONS = 30.0, 60.0


@dataclass(frozen=True)
class Nodes:
    """Eigenvalues in bins of log λ: their mean, their share, and the bin of each."""

    value: Float[Array, "p"]
    share: Float[Array, "p"]
    index: Int[Array, "d"]

    def sum(self, values: Float[Array, "... d"]) -> Float[Array, "... p"]:
        """Σ over each bin."""
        flat = values.reshape(-1, values.shape[-1])
        out = np.stack([np.bincount(self.index, row, self.value.size) for row in flat])
        return out.reshape(*values.shape[:-1], -1)


def binned(values: Float[Array, "d"], weight: Float[Array, "d"], count: int) -> Nodes:
    """At most `count` bins of equal width in log λ."""
    x = np.log(values)
    width = np.ptp(x) / count
    index = np.zeros(x.size, int) if width < 1e-9 else np.minimum((x - x.min()) / width, count - 1).astype(int)
    index = np.unique(index, return_inverse=True)[1]
    share = np.bincount(index, weight)
    return Nodes(np.bincount(index, weight * values) / share, share, index)


@dataclass(frozen=True)
class Sigma:
    """Eigenvalues of Σ, energies of the teacher's directions along its eigenvectors, Q that turns these, and what the energies of p and
    ν along a spike are multiplied by.
    """

    eigenvalues: Float[Array, "d"]
    energy: Float[Array, "k d"]
    turn: Float[Array, "k k"]
    chance: float = 1.0

    @cached_property
    def spike(self) -> int | None:
        """The eigenvector whose coordinate is resolved."""
        top = int(np.argmax(self.eigenvalues))
        value, taught = self.eigenvalues[top], self.eigenvalues[top] * self.energy[0, top]
        large = value**2 > _SPIKE * np.sum(self.eigenvalues**2)
        return top if large or (taught > _TAUGHT and value > _ALONE) else None

    def moment(self, k: int) -> float:
        """S_k = tr Σ^k/d."""
        return float(np.mean(self.eigenvalues**k))

    def nodes(self, count: int, *, spike: bool = True) -> Nodes:
        """The eigenvalues in bins, with or without the one whose coordinate is resolved."""
        d = self.eigenvalues.size
        weight = np.full(d, 1 / d)
        if not spike and self.spike is not None:
            weight[self.spike] = 1e-9 / d
        return binned(self.eigenvalues, weight / weight.sum(), count)


def mean_energy(eigenvalues: Float[Array, "d"]) -> Float[Array, "d"]:
    """E[b_p²/Σ_q λ_q b_q²] for b of independent N(0, 1), about (1 + 2(S₂ − λ_p)/d)/d; with λ_p their sum is 1.

    1/Q = ∫e^{−sQ}ds makes it ∫ ds (1 + 2sλ_p)⁻¹ Π_q(1 + 2sλ_q)^{−1/2}; by the trapezoidal rule in log s.
    """
    s = np.exp(np.arange(-23.0, 40.0, 0.25)) / eigenvalues.sum()  # to 1e-9 from three eigenvalues on
    spread = 1 + 2 * s[:, None] * eigenvalues
    energy = (s * np.exp(-0.5 * np.log(spread).sum(1))) @ (1 / spread)
    return energy / (energy @ eigenvalues)


def sigma_of(problem: Problem) -> Sigma:
    """Σ of the problem's inputs."""
    law, d = problem.law, problem.d
    assert law.eigenvalues is not None
    values = np.asarray(law.eigenvalues(d), float)
    energy, turn = np.tile(mean_energy(values), (problem.directions, 1)), np.eye(problem.directions)
    if law.teacher is not None:
        energy[0] = law.teacher
    sigma = Sigma(values, energy, turn)
    if sigma.spike is not None and problem.directions > 1:  # off the first they have no value there to speak of
        energy[1:, sigma.spike] = 0.0
        energy[1:] /= (energy[1:] @ sigma.eigenvalues)[:, None]
    if law.teacher is None or not isinstance(
        problem.target, Teacher
    ):  # directions without preference may be turned ones
        return sigma
    return replace(sigma, turn=problem.target.rotation)


def draws(problem: Problem, sigma: Sigma) -> list[tuple[float, Sigma]]:
    """Σ with a few teachers, and with a few values of p and ν along a spike: one coordinate each, χ² with one degree of freedom. The likeliest comes first."""
    cases = teachers(problem, sigma)
    if sigma.spike is None or problem.eta == 0:
        return cases
    at = directions(problem, sigma).frame
    assert at.at_spike is not None
    if np.sum(at.at_spike[:-2] ** 2) > _BY_TEACHER * np.sum(at.energy[:, sigma.spike]):
        return cases
    root = np.sqrt(6)
    rule = ((3 - root, (3 + root) / 6), (3 + root, (3 - root) / 6))  # Gauss's of two nodes
    return [(p * w, replace(one, chance=float(x))) for p, one in cases for x, w in rule]


def of_many(nodes: int, chance: float) -> tuple[int, float]:
    """Nodes of one draw, and the chance by which its columns are cut (`in_columns_by_degree`), where a spike makes each of several models large.

    Half the nodes, a third for a rare draw, and a cut ten times as high: errors of 21 problems (d from 12 to 166) moved by
    0.07 % at most, of ELU after the strongest steps by 0.3 %.
    """
    return 2 * round(nodes / (4 if chance > _RARE else 6)) + 1, chance / 100


class Counts(NamedTuple):
    """Nodes of the rows' first coordinate and of the readout, and the chance by which columns are cut."""

    rows: int
    readouts: int
    chance: float


def after_steps(nodes: int, chance: float, *, every: bool) -> Counts:
    """The same after several steps: about half the nodes of z where rows have two coordinates, three quarters of the readout's (they crowd
    near 0) unless `every` one is asked for, as where neurons saturate, once more three quarters for a rare draw, and higher cuts.

    Of 32 problems (d from 12 to 97) errors of 27 moved by 0.09 % at most, of five, where 31 nodes that do not crowd were off, by more.
    """
    readouts = nodes if every else _odd(3 * nodes / 4, 17)
    rows = min(_odd(nodes / 1.8, 15), nodes)
    return (
        Counts(rows, _odd(3 * readouts / 4, 17), chance / 30) if chance < _RARE else Counts(rows, readouts, chance / 10)
    )


def _odd(count: float, least: int) -> int:
    """An odd number near `count`."""
    return max(2 * round((count - 1) / 2) + 1, least)


def teachers(problem: Problem, sigma: Sigma) -> list[tuple[float, Sigma]]:
    """Σ with teachers of few draws: what a step learns goes with Σ_p λ_p³β⋆_p², which a random teacher lets vary.

    Given Σ_p λ_pβ⋆_p² = 1 that sum varies as 2Σφ²/d², φ = λ³ − cλ with Σφλ = 0, like a χ² variable with K = (Σλ³)²/Σφ² degrees
    of freedom. Where they are few, errors are averaged over the two nodes of its Gauss rule, the energies moved along φ.
    """
    lam = sigma.eigenvalues
    moved = lam**3 - lam * np.sum(lam**4) / np.sum(lam**2)
    spread = float(np.linalg.norm(moved))
    if problem.law.teacher is not None or problem.eta == 0 or np.sum(lam**3) ** 2 > _MANY * spread**2:
        return [(1.0, sigma)]
    skewness = np.sqrt(8) * spread / np.sum(lam**3)
    out: list[tuple[float, Sigma]] = []
    for sign in (-1, 1):
        x = (skewness + sign * np.hypot(skewness, 2)) / 2  # mean 0, variance 1 and this skewness
        energy = sigma.energy.copy()
        energy[0] *= np.maximum(1 + x * np.sqrt(2) * moved / spread, 0.0)
        energy[0] /= energy[0] @ lam
        out.append((float(1 / (1 + x * x)), replace(sigma, energy=energy)))
    return out


Vector = Array  # coefficients (vectors × d) on the teacher's directions, p, ν and, last, on the spike's own unit vector


@dataclass(frozen=True)
class Frame:
    """Sums over the eigenbasis: energies of the teacher's directions, p and ν, and their values at a spike."""

    energy: Float[Array, "vectors d"]
    spike: int | None = None
    at_spike: Float[Array, "vectors"] | None = None

    def dot(self, a: Vector, b: Vector) -> Float[Array, "d"]:
        """a_p b_p on average."""
        out = (a[:-1] * b[:-1] * self.energy).sum(0)
        if self.spike is not None and self.at_spike is not None:
            values = np.append(self.at_spike, 1.0)
            out[self.spike] = (values @ a[:, self.spike]) * (values @ b[:, self.spike])
        return out

    def inner(self, a: Vector, b: Vector, weight: Array | float = 1.0) -> float:
        """Σ_p weight_p a_p b_p."""
        return float(np.sum(weight * self.dot(a, b)))

    def gram(self, a: Sequence[Vector], b: Sequence[Vector], weight: Array | float = 1.0) -> Float[Array, "a b"]:
        """The inner products of every two."""
        return np.array([[self.inner(x, y, weight) for y in b] for x in a]).reshape(len(a), len(b))

    def off(self, a: Vector, units: list[Vector]) -> Vector:
        """What is left of a off the orthonormal `units`."""
        for unit in units:
            a = a - self.inner(a, unit) * unit
        return a


class Unlearned(NamedTuple):
    """Teacher and rows: overlap of its directions s_a with the rows' coordinates u, e = root⁻¹(s − overlap u), root² = I − overlap²."""

    overlap: Float[Array, "k u"]
    root: Float[Array, "k k"]
    e: list[Vector]


def unlearned(frame: Frame, stars: list[Vector], rows: list[Vector]) -> Unlearned:
    """What the rows' coordinates leave of the teacher's directions, orthonormal."""
    overlap = frame.gram(stars, rows)
    if rows:
        overlap *= min(1.0, (1 - 1e-9) / max(float(np.linalg.norm(overlap, 2)), 1e-300))
    values, vectors = np.linalg.eigh(np.eye(len(stars)) - overlap @ overlap.T)
    root, inverse = ((vectors * values**power) @ vectors.T for power in (0.5, -0.5))
    rest = [
        star - sum((x * u for x, u in zip(line, rows, strict=True)), 0 * star)
        for star, line in zip(stars, overlap, strict=True)
    ]
    return Unlearned(overlap, root, [np.tensordot(line, np.stack(rest), 1) for line in inverse])


def stars_of(sigma: Sigma) -> list[Vector]:
    """s_a = Σ^{1/2}(Qβ)_a."""
    k, d = sigma.energy.shape
    stars = np.zeros((k, k + 3, d))
    stars[:, :k] = sigma.turn[:, :, None] * np.sqrt(sigma.eigenvalues)
    return list(stars)


def before_the_step(sigma: Sigma) -> tuple[Unlearned, Frame]:
    """The teacher beside a spike's coordinate, where there is one."""
    k, d = sigma.energy.shape
    energy, rows = np.concatenate([sigma.energy, np.zeros((2, d))]), list[Vector]()
    if sigma.spike is None:
        return unlearned(Frame(energy), stars_of(sigma), rows), Frame(energy)
    unit = np.zeros((k + 3, d))
    unit[-1, sigma.spike] = 1.0
    frame = Frame(energy, sigma.spike, np.sqrt(energy[:, sigma.spike]))
    return unlearned(frame, stars_of(sigma), [unit]), frame


@dataclass(frozen=True)
class Directions:
    """The directions of a step, in the space of g.

    length: |Σ^{1/2}t|. rows: the coordinates that are functions of the row: u, and a spike's off it. teacher: what they leave of its
    directions. batch: Σs and, last, Σ^{1/2}ν, which the step's batch knows. pull: Σ^{1/2}ℓ, a neuron's
    squared length being 1 + a_jℓ·w_j before it is moved.
    """

    sigma: Sigma
    frame: Frame
    length: float
    rows: list[Vector]
    teacher: Unlearned
    batch: list[Vector]
    pull: Vector
    own: float  # |ℓ|²
    bend: Vector  # 6c₃η Σ^{1/2}β, β = Xᵀr/n, 0 after several steps
    star_moved: Float[Array, "k k"]  # s_aᵀΣs_b


def directions(problem: Problem, sigma: Sigma) -> Directions:
    """t, u, e and what else the step knows."""
    lam, d, eta, k = sigma.eigenvalues, problem.d, problem.eta, problem.directions
    law = step_law(problem)
    energy = np.stack([*sigma.energy, np.full(d, 1 / d), law.batch * lam / problem.step_samples])
    (c1, c3), own, stars = problem.sigma.coefficients[[1, 3]], law.own, stars_of(sigma)
    star_moved = Frame(energy).gram(stars, stars, lam)
    pulled = np.einsum("abc,ab->c", problem.target.tensor(3), star_moved)
    g = np.zeros((k + 3, d))
    g[:k], g[k] = (law.star @ sigma.turn)[:, None], -own
    beta = lam * g  # Xᵀr/n: its mean, and ν
    beta[k + 1] = 1.0
    t = eta * (c1 + 6 * c3 * lam / d) * beta
    t[:k] += np.outer(eta * c3 * 3 * pulled @ sigma.turn, lam / d)
    t[k] += 1 - (eta * 18 * c3**2 * lam / d if own else 0.0)
    if sigma.spike is not None:
        energy[k:, sigma.spike] *= sigma.chance
    frame = _frame(energy, t, sigma.spike)
    root = np.sqrt(lam)
    length = float(np.sqrt(frame.inner(t, t, lam)))
    rows = [root * t / length]
    if sigma.spike is not None:
        rows = with_spike(frame, rows, sigma.spike)
    noise = np.zeros_like(g)
    noise[k + 1] = root
    pull = 12 * c3 * eta * sigma.moment(2) * beta
    if problem.weights == "sphere":
        pull[k] -= 2.0
    squared, batch = frame.inner(pull, pull), [*(lam * star for star in stars), noise]
    taught, bend = unlearned(frame, stars, rows), 6 * c3 * eta * root * beta
    return Directions(sigma, frame, length, rows, taught, batch, root * pull, squared, bend, star_moved)


def _frame(energy: Array, t: Vector, spike: int | None) -> Frame:
    """At a spike t has its root mean square, and p and ν what they are on average given that."""
    if spike is None:
        return Frame(energy)
    at, moves = energy[:, spike], t[:-1, spike]
    star = np.sqrt(at[:-2])
    mean, spread = float(moves[:-2] @ star), float(moves[-2:] ** 2 @ at[-2:])
    excess = (np.sign(mean) or 1.0) * np.hypot(mean, np.sqrt(spread)) - mean
    along = moves[-2:] * at[-2:] * (excess / spread if spread > 0 else 0.0)
    return Frame(energy, spike, np.array([*star, *along]))


def with_spike(frame: Frame, rows: list[Vector], spike: int) -> list[Vector]:
    """U and the spike's unit vector off it, unless they are one."""
    unit = np.zeros_like(rows[0])
    unit[-1, spike] = 1.0
    rest = frame.off(unit, rows)
    norm = frame.inner(rest, rest)
    return [*rows, rest / np.sqrt(norm)] if norm > 1e-4 else rows
