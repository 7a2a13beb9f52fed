"""Where the directions of a problem lie in the spectrum of Σ, the covariance of the inputs x = Σ^{1/2} g.

In the eigenbasis of Σ (eigenvalues λ_p of sum d) a step knows three vectors: the teacher's β⋆ (β⋆ᵀΣβ⋆ = 1), the output's
p = W₀ᵀa and the noise ν of β = Xᵀr/n. They are independent, so sums over p need their energies only,

    E β⋆_p² as the law of the inputs says,   E p_p² = 1/d,   E ν_p² = φ₀ E r² λ_p/d.

By Stein's formula the mean gradient of neuron j is c₁a_j Σg, g = c⋆₁β⋆ − c₁p (labels: without p), and with degree three of σ

    t = Wᵀa = p + η(c₁(Σg + ν) + c₃(6Σ²g + 18(c⋆₃ β⋆ᵀΣ²β⋆ Σβ⋆ − c₃Σp))/d)                          (tr Σ = d)

In the space of g, where inputs are isotropic, the learned direction is u = Σ^{1/2}t/|Σ^{1/2}t|, the teacher's s = Σ^{1/2}β⋆.
A single eigenvalue that makes up much of tr Σ², a spike, has few coordinates (one) and no average: there the vectors have a
value, β⋆'s own and for p and ν what they are on average given t's root mean square.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from onestride._numerics import Array, Float, Int
from onestride.problem import Problem
from onestride.theory.profile.lengths import step_law

_MANY = 30.0  # degrees of freedom from which one teacher stands for all
_BY_TEACHER = 0.5  # share of the teacher in the energies along a spike from which those of p and ν are not drawn
_SPIKE = 0.25  # share of tr Σ² in one eigenvalue from which its coordinate is resolved


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
    """Eigenvalues of Σ, the teacher's energies along its eigenvectors, and what those of p and ν along a spike are multiplied by."""

    eigenvalues: Float[Array, "d"]
    energy: Float[Array, "d"]
    chance: float = 1.0

    @cached_property
    def spike(self) -> int | None:
        """The eigenvector whose coordinate is resolved."""
        top = int(np.argmax(self.eigenvalues))
        return top if self.eigenvalues[top] ** 2 > _SPIKE * np.sum(self.eigenvalues**2) else None

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


def sigma_of(problem: Problem) -> Sigma:
    """Σ of the problem's inputs."""
    law, d = problem.law, problem.d
    assert law.eigenvalues is not None
    energy = np.full(d, 1 / d) if law.teacher is None else np.array(law.teacher)
    return Sigma(np.asarray(law.eigenvalues(d), float), energy)


def draws(problem: Problem, sigma: Sigma) -> list[tuple[float, Sigma]]:
    """Σ with a few teachers, and with a few values of p and ν along a spike: one coordinate each, χ² with one degree of freedom."""
    cases = teachers(problem, sigma)
    if sigma.spike is None or problem.eta == 0:
        return cases
    at = directions(problem, sigma).frame
    assert at.at_spike is not None
    if at.at_spike[0] ** 2 > _BY_TEACHER * np.sum(at.energy[:, sigma.spike]):
        return cases
    root = np.sqrt(6)
    rule = ((3 - root, (3 + root) / 6), (3 + root, (3 - root) / 6))  # Gauss's of two nodes
    return [(p * w, replace(one, chance=float(x))) for p, one in cases for x, w in rule]


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
        energy = sigma.energy * np.maximum(1 + x * np.sqrt(2) * moved / spread, 0.0)
        out.append((float(1 / (1 + x * x)), replace(sigma, energy=energy / (energy @ lam))))
    return out


Vector = Array  # 4 × d: coefficients on β⋆, p, ν and on the spike's own unit vector


@dataclass(frozen=True)
class Frame:
    """Sums over the eigenbasis: energies of β⋆, p and ν, and their values at a spike."""

    energy: Float[Array, "3 d"]
    spike: int | None = None
    at_spike: Float[Array, "3"] | None = None

    def dot(self, a: Vector, b: Vector) -> Float[Array, "d"]:
        """a_p b_p on average."""
        out = (a[:3] * b[:3] * self.energy).sum(0)
        if self.spike is not None and self.at_spike is not None:
            values = np.append(self.at_spike, 1.0)
            out[self.spike] = (values @ a[:, self.spike]) * (values @ b[:, self.spike])
        return out

    def inner(self, a: Vector, b: Vector, weight: Array | float = 1.0) -> float:
        """Σ_p weight_p a_p b_p."""
        return float(np.sum(weight * self.dot(a, b)))

    def off(self, a: Vector, units: list[Vector]) -> Vector:
        """What is left of a off the orthonormal `units`."""
        for unit in units:
            a = a - self.inner(a, unit) * unit
        return a


@dataclass(frozen=True)
class Directions:
    """The directions of a step, in the space of g.

    length: |Σ^{1/2}t|. rows: the coordinates that are functions of the row: u, and a spike's off it. overlap: of each with the
    teacher. unlearned: e, the teacher off them. batch: Σs and Σ^{1/2}ν, which the step's batch knows. pull: Σ^{1/2}ℓ, a neuron's
    squared length being 1 + a_jℓ·w_j before it is moved.
    """

    sigma: Sigma
    frame: Frame
    length: float
    rows: list[Vector]
    overlap: Float[Array, "u"]
    unlearned: Vector
    batch: tuple[Vector, Vector]
    pull: Vector
    own: float  # |ℓ|²
    star_moved: float  # β⋆ᵀΣ²β⋆


def directions(problem: Problem, sigma: Sigma) -> Directions:
    """t, u, e and what else the step knows."""
    lam, d, eta = sigma.eigenvalues, problem.d, problem.eta
    law = step_law(problem)
    energy = np.stack([sigma.energy, np.full(d, 1 / d), law.batch * lam / problem.step_samples])
    c1, c3, star3, own = *problem.sigma.coefficients[[1, 3]], problem.target.coefficients[3], law.own
    star_moved = float(lam**2 @ sigma.energy)
    g = np.zeros((4, d))
    g[0], g[1] = law.star, -own
    beta = lam * g  # Xᵀr/n: its mean, and ν
    beta[2] = 1.0
    t = eta * (c1 + 6 * c3 * lam / d) * beta
    t[0] += eta * c3 * 18 * star3 * star_moved * lam / d
    t[1] += 1 - (eta * 18 * c3**2 * lam / d if own else 0.0)
    if sigma.spike is not None:
        energy[1:, sigma.spike] *= sigma.chance
    frame = _frame(energy, t, sigma.spike)
    root = np.sqrt(lam)
    length = float(np.sqrt(frame.inner(t, t, lam)))
    rows, star = [root * t / length], np.zeros((4, d))
    star[0] = root
    if sigma.spike is not None:
        rows = _with_spike(frame, rows, sigma.spike)
    overlap = np.array([frame.inner(star, u) for u in rows])
    overlap *= min(1.0, (1 - 1e-9) / max(float(np.linalg.norm(overlap)), 1e-300))
    e = star - sum(x * u for x, u in zip(overlap, rows, strict=True))
    e /= np.sqrt(1 - overlap @ overlap)
    noise = np.zeros((4, d))
    noise[2] = root
    pull = 12 * c3 * eta * sigma.moment(2) * beta
    if problem.weights == "sphere":
        pull[1] -= 2.0
    squared = frame.inner(pull, pull)
    return Directions(sigma, frame, length, rows, overlap, e, (lam * star, noise), root * pull, squared, star_moved)


def _frame(energy: Array, t: Vector, spike: int | None) -> Frame:
    """At a spike t has its root mean square, and p and ν what they are on average given that."""
    if spike is None:
        return Frame(energy)
    at, moves = energy[:, spike], t[:3, spike]
    star = np.sqrt(at[0])
    mean, spread = moves[0] * star, float(moves[1:] ** 2 @ at[1:])
    excess = (np.sign(mean) or 1.0) * np.hypot(mean, np.sqrt(spread)) - mean
    along = moves[1:] * at[1:] * (excess / spread if spread > 0 else 0.0)
    return Frame(energy, spike, np.array([star, *along]))


def _with_spike(frame: Frame, rows: list[Vector], spike: int) -> list[Vector]:
    """U and the spike's unit vector off it, unless they are one."""
    unit = np.zeros_like(rows[0])
    unit[3, spike] = 1.0
    rest = frame.off(unit, rows)
    norm = frame.inner(rest, rest)
    return [*rows, rest / np.sqrt(norm)] if norm > 1e-4 else rows
