"""Several steps on inputs with a covariance: the one-neuron map of `one_neuron` where Σ turns every direction.

In the space of g a neuron is ω = Σ_i L_i e_i + rest, e_i orthonormal, the teacher's s first; the rest has covariance
(Π_t(1 + g_tλ)² λ + x λ²)/d along the eigenvector of λ. A step on a fresh batch, with E over g, k and B as in `one_neuron`, does

    mean       ω ← ω + τ Σ(Σ_i E[R k u_i] e_i + B rest)                so that every direction brings Σe_i with it, and g_t = τB
    noise      new directions Σν of Gram matrix τ τ' φ₀ E[r² k k'] over the neurons, ν isotropic
    own        x ← x (1 + τB)² + τ² φ₀ E[r² (E[σ'²|u] − k²)]
    stretched  s ← s (1 + τ(B + s⋆ᵀΣs⋆ E[R k' (u⋆² − 1)]))

after which the leading directions over the neurons are kept beside the teacher's and what others hold goes to x. All of them are
sums over the eigenbasis of a few independent vectors (`anisotropy`): β⋆, p = W₀ᵀa and a few ν of every batch; along a spike of Σ p has
the value it has for one step of all steps' size, the first ν of each batch that of its ν over √T. Σ = I gives `one_neuron`; with random
lengths a batch shows every node at every length.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from onestride._numerics import Array, Float, leading_rows
from onestride.problem import Problem, Step
from onestride.theory.profile.anisotropy import (
    Directions,
    Frame,
    Sigma,
    Vector,
    directions,
    sigma_of,
    stars_of,
    unlearned,
    with_spike,
)
from onestride.theory.profile.degrees import gauss_nodes
from onestride.theory.profile.gradient_noise import ResidualLaw, Signal, noise_of
from onestride.theory.profile.leading import learned
from onestride.theory.profile.lengths import step_law
from onestride.theory.profile.moves import Moves
from onestride.theory.profile.one_neuron import (
    DIVERGED,
    Bend,
    Path,
    Seen,
    State,
    by_chance,
    look,
    lost,
    luck,
    moved,
    of_residuals,
    own_growth,
    residual_law,
    spent,
    untrained,
)

_NOISES = 3  # directions beside the teacher's that are followed
NEW = 2  # directions of noise that a step may add
CROWDED = 0.3  # scale of the nodes of A: 23 of them are as accurate as 31 on the scale 1, where neurons do not saturate
_SATURATED = 2.0  # of |∂L/∂A| at 0 over the length of L
_LEAST = 1e-9  # squared length of a direction below which it is none


@dataclass(frozen=True)
class Course(Path):
    """A path with its directions e_i, the vectors they are made of, the noise that M̂ knows, x, g_t, and the pull of neurons along
    themselves: for all of them that in proportion to a.
    """

    sigma: Sigma
    frame: Frame
    units: tuple[Vector, ...]
    shared: Vector
    noise: Float[Array, "a"]
    grows: Float[Array, "a t"]
    pull: Vector

    @property
    def kept(self) -> Float[Array, "a d"]:
        """Π_t(1 + g_tλ)."""
        return np.prod(1 + self.grows[:, None] * self.sigma.eigenvalues[:, None], axis=2)

    @property
    def saturates(self) -> bool:
        """Whether neurons of large |A| stay behind; where all go on, L is in proportion to A."""
        length = np.sqrt(self.end.weight @ np.square(self.end.L).sum(1))
        return bool(self.steepness > _SATURATED * length)

    @property
    def turned(self) -> float:
        """|Π_t(1 + g_tλ) − 1| along the largest eigenvector, root mean square over the neurons."""
        change = np.prod(1 + self.grows * self.sigma.eigenvalues.max(), axis=1) - 1
        return float(np.sqrt(self.end.weight @ change**2))


@dataclass(frozen=True)
class _Walk:
    """Where the neurons are: state, directions, x, g_t, the noise of all batches so far, and the pull."""

    state: State
    units: list[Vector]
    noise: Float[Array, "a"]
    grows: list[Float[Array, "a"]]
    shared: Vector
    pull: Vector


def travel_correlated(problem: Problem, nodes: int, sigma: Sigma | None = None) -> Path:
    """Follow the neurons through steps on fresh batches of inputs with covariance Σ."""
    sigma = sigma_of(problem) if sigma is None else sigma
    frame, state, units = start(problem, sigma, nodes)
    walk = _Walk(state, units, np.zeros_like(state.A), [], 0 * units[0], 0 * units[0])
    powers, bends, sizes, laws = list[float](), list[Array](), list[float](), list[Signal]()
    chance, work = 0.0, 0.0
    for step, eta in enumerate(problem.etas):
        seen = look(problem, walk.state)
        work = spent(problem, walk.state, seen, work)
        powers.append(float(seen.w @ seen.power))
        if not powers[-1] <= DIVERGED * powers[0]:
            return lost(problem, walk.state, powers)
        chance, bend = by_chance(problem, walk.state, seen, eta, chance), Bend.of(walk.state, seen)
        bends.append(eta * bend.by)
        sizes.append(eta * bend.common(walk.state))
        laws.append(of_residuals(seen, bend.psi, problem.directions))
        walk = _advance(problem, sigma, frame, walk, seen, bend, eta, step)
    state, shares = walk.state, np.array(sizes)
    total, shares = shares.sum(), shares / shares.sum()
    residual = residual_law(shares, laws) if max(powers) > 0 else None
    phi = problem.d / problem.step_samples / problem.steps
    power, own = (float(np.square(x) @ powers) for x in (shares, problem.etas))
    each = np.stack(bends, axis=1) * (state.A / np.sqrt(problem.N))[:, None]
    path = (state, problem.etas, tuple(powers), each, own, power, phi, residual, luck(problem, state, chance))
    return Course(
        *path, sigma, frame, tuple(walk.units), walk.shared / total, walk.noise, np.stack(walk.grows, axis=1), walk.pull
    )


def start(problem: Problem, sigma: Sigma, nodes: int) -> tuple[Frame, State, list[Vector]]:
    """Before the first step: A/√N along Σ^{1/2}p. The vectors are the teacher's, p, `NEW` of every batch, and what else M̂ knows."""
    d, k, made = problem.d, problem.directions, NEW * problem.steps + 1
    noises = np.tile(sigma.eigenvalues / d, (made, 1))
    frame = Frame(
        np.concatenate([sigma.energy, np.full((1, d), 1 / d), noises]), sigma.spike, _at_spike(problem, sigma)
    )
    stars = np.zeros((k, k + made + 2, d))
    stars[:, :k] = np.array(stars_of(sigma))[:, :k]
    output = np.zeros((k + made + 2, d))
    output[k] = np.sqrt(sigma.eigenvalues)
    state = untrained(problem, nodes, CROWDED)
    L, units, _ = leading_of(frame, state, state.L, [*stars, output], k)
    kappa = np.array([frame.inner(e, e, sigma.eigenvalues) for e in units])
    return frame, replace(state, L=L, kappa=kappa), units


def _at_spike(problem: Problem, sigma: Sigma) -> Float[Array, "vectors"] | None:
    """Values of the vectors at a spike of Σ."""
    if sigma.spike is None:
        return None
    k, steps = problem.directions, problem.steps
    whole = Step(constant=sum(problem.etas), exponent=0.0)
    *taught, p, nu = cast("Array", directions(problem.replace(step=whole, steps=1), sigma).frame.at_spike)
    out = np.zeros(k + 1 + NEW * steps + 1)
    out[:k], out[k] = taught, p
    length = np.sqrt(problem.d / problem.step_samples * step_law(problem).batch)
    once = problem.batch == "reused"  # one batch has one ν, and later ones are across it
    out[k + 1 : -1 : NEW * (steps if once else 1)] = nu / (max(length, 1e-300) * np.sqrt(1 if once else steps))
    return out


def _advance(
    problem: Problem, sigma: Sigma, frame: Frame, walk: _Walk, seen: Seen, bend: Bend, eta: float, step: int
) -> _Walk:
    """A step of size η on the fresh batch seen."""
    state, lam, k = walk.state, sigma.eigenvalues, problem.directions
    phi0, tau = problem.d / problem.step_samples, eta * state.A / np.sqrt(problem.N)
    wr, answer = seen.w * seen.power, seen.response
    root = np.sqrt(phi0 * wr)
    shared = tau[:, None] * answer.k * root
    turn = leading_rows(np.sqrt(state.weight)[:, None] * shared, NEW)
    turn[0] *= np.sign(turn[0] @ root) or 1.0  # ν and not −ν, whose value at a spike is another
    held, first = shared @ turn.T, k + 1 + NEW * step
    made = np.zeros((len(turn), *walk.shared.shape))
    made[np.arange(len(turn)), first + np.arange(len(turn))] = np.sqrt(lam)
    B = own_growth(problem, state, seen)
    mean = tau[:, None] * ((answer.k * (seen.w * seen.R)) @ seen.u)
    weights = np.concatenate([state.L, mean, held], axis=1)
    vectors = [*walk.units, *(lam * e for e in walk.units), *(made[m] for m in range(len(turn)))]
    L, units, dropped = leading_of(frame, state, weights, vectors, k)
    private = tau**2 * phi0 * (answer.square @ wr) - (held**2).sum(1)
    noise = walk.noise * (1 + tau * B) ** 2 + private + dropped / sigma.moment(2)
    grows = [*walk.grows, tau * B]
    known = walk.shared.copy()
    known_by = eta * bend.common(state) * root * bend.psi
    known[first : first + len(turn)] += (turn @ known_by)[:, None]
    left = known_by @ known_by - np.square(turn @ known_by).sum()
    known[-2] = np.sqrt(known[-2] ** 2 + max(left, 0.0))
    after = moved(problem, state, seen, eta)
    state = placed(after, sigma, frame, L, units, grows, noise)
    bent = tau[:, None] * answer.twisted  # ℓ = Σ E[R k'' u_i] e_i and, of the first batch, its noise
    pulls = [bent @ ((seen.w * seen.R)[:, None] * seen.u), (step == 0) * bent @ (root[:, None] * turn.T)]
    each = (after.weight * after.A) @ np.concatenate(pulls, axis=1) / (after.weight @ after.A**2) * np.sqrt(problem.N)
    pull = walk.pull + np.tensordot(each, np.stack([*walk.units, *(vector / lam for vector in made)]), 1)
    return _Walk(state, units, noise, grows, known, pull)


def placed(
    after: State,
    sigma: Sigma,
    frame: Frame,
    L: Float[Array, "a dirs"],
    units: list[Vector],
    grows: list[Float[Array, "a"]],
    noise: Float[Array, "a"],
) -> State:
    """The neurons after a step with weights L on `units`: v and b of what Π_t(1 + g_tλ) keeps of their first weights, and of noise."""
    lam = sigma.eigenvalues
    kept = np.prod(1 + np.stack(grows, axis=1)[:, None] * lam[:, None], axis=2)
    return replace(
        after,
        L=L,
        v=kept**2 @ lam / lam.size + noise * sigma.moment(2),
        b=kept @ lam / lam.size,
        output=np.zeros(len(units)),
        noise=np.zeros(len(units)),
        pull=np.zeros_like(L),
        kappa=np.array([frame.inner(e, e, lam) for e in units]),
    )


def leading_of(
    frame: Frame, state: State, weights: Float[Array, "a raw"], vectors: list[Vector], k: int, count: int = _NOISES
) -> tuple[Float[Array, "a dirs"], list[Vector], Float[Array, "a"]]:
    """Weights on the teacher's directions (the first k of `vectors`) and on those that hold most off them; what is dropped."""
    stars = vectors[:k]
    # along a spike two of the teacher's directions need not be orthogonal
    to_stars = np.linalg.solve(frame.gram(stars, stars), frame.gram(stars, vectors)).T
    off = [v - np.tensordot(line, np.stack(stars), 1) for v, line in zip(vectors, to_stars, strict=True)]
    values, Q = np.linalg.eigh(frame.gram(off, off))
    real = values > _LEAST * values.max()
    values, Q = values[real], Q[:, real]
    on = weights @ (Q * np.sqrt(values))
    turn = np.linalg.svd(np.sqrt(state.weight)[:, None] * on, full_matrices=False)[2][:count]
    combined = turn @ (Q / np.sqrt(values)).T
    units = [*stars, *(np.tensordot(line, np.stack(off), 1) for line in combined)]
    held = on @ turn.T
    return np.concatenate([weights @ to_stars, held], axis=1), units, (on**2).sum(1) - (held**2).sum(1)


def course_directions(problem: Problem, course: Course) -> tuple[Directions, Moves]:
    """Rows, teacher and batch of the course, and what it made of the neurons."""
    sigma, frame, end, k = course.sigma, course.frame, course.end, problem.directions
    lam, stars, units = sigma.eigenvalues, list(course.units[:k]), np.stack(course.units)
    E = learned(
        course
    )  # what M stretches is in F of `along`: in the rows as well, ±1 readouts under ar1 were up to 50 % off
    # beside a spike's coordinate, or random lengths, a second direction counts to first order
    several = sigma.spike is None and problem.law.freedom is None
    rows = [np.tensordot(line, units, 1) for line in (E if several else E[:1])]
    if sigma.spike is not None:
        rows = with_spike(frame, rows, sigma.spike)
    on_rows = frame.gram(course.units, rows)
    further = _orthonormal(frame, [frame.off(unit, rows) for unit in course.units])
    on_further = frame.gram(course.units, further)
    output = np.zeros_like(course.shared)
    output[k] = np.sqrt(lam)
    pull = 2 * sigma.moment(2) * np.sqrt(lam) * course.pull + (
        -2.0 * output / np.sqrt(lam) if problem.weights == "sphere" else 0.0
    )
    batch = [*(lam * star for star in stars), np.sqrt(lam) * course.shared]
    law = course.residual
    assert law is not None
    power = float(law.weight @ law.rr)
    noise = noise_of(law, power, float(np.linalg.norm(law.weight @ law.ru)), course.phi)
    length = float(np.sqrt(end.weight @ (end.L @ on_rows[:, 0]) ** 2))
    taught, squared = unlearned(frame, stars, rows), frame.inner(pull, pull)
    at = Directions(
        sigma, frame, length, rows, taught, batch, np.sqrt(lam) * pull, squared, 0 * pull, frame.gram(stars, stars, lam)
    )
    own_noise = 2 * end.A * np.sqrt(course.own_power / (problem.step_samples * problem.N))
    spread, residual = course.phi * power, course.shared_power / problem.step_samples
    moments = _moments(law)
    if problem.law.freedom is not None:  # higher powers of ℓ than the fourth have no mean
        moments[0][-1, -1] = 0.0
        moments[1][-1], moments[1][:, -1] = 0.0, 0.0
    batches = (power, spread, frame.inner(course.shared, course.shared), residual, *moments)
    # M̂ takes steps for one matrix, of which neurons see other shares: ν²M̂²'s noise is at most what they have, x
    most = np.sqrt(np.maximum(course.noise, 0.0) / np.maximum(spread * (course.kept**2).max(1), 1e-300))
    nu = np.clip(course.bends.sum(1), -most, most)
    neurons = (end.A, end.weight, end.L @ on_rows, end.L @ on_further, further, nu, course.noise)
    return at, Moves(*neurons, course.grows, own_noise, *batches, gauss_nodes(noise.bulk_law()))


def _orthonormal(frame: Frame, vectors: list[Vector]) -> list[Vector]:
    """Orthonormal vectors that span the same."""
    values, Q = np.linalg.eigh(frame.gram(vectors, vectors))
    return [np.tensordot(q / np.sqrt(v), np.stack(vectors), 1) for v, q in zip(values, Q.T, strict=True) if v > 1e-6]


def _moments(law: ResidualLaw) -> tuple[Array, Array]:
    """E r(uuᵀ − I), E r²u/E r² and E r³/(E r²)², and the same with r² in the place of r: r u over a node's r is its mean u."""
    w, power, k = law.weight, float(law.weight @ law.rr), law.ru.shape[1]
    out: list[Array] = []
    for j in (0, 1):
        x = law.r**j
        twice = np.tensordot(w * x, law.ruu, 1) - float(w @ (law.r if j == 0 else law.rr)) * np.eye(k)
        across = (w * x * law.r) @ law.ru / power
        last = float((w * x * law.r) @ law.rr) / power**2
        out.append(np.block([[twice, across[:, None]], [across, np.array(last)]]))
    return out[0], out[1]
