"""One neuron of each readout through all steps on fresh batches: the map that the whole network follows.

Before a step a neuron of readout A = √N a is w = L·(β⋆, ν₁, ν₂, …) + rest: weights L on the teacher's direction and on a few
directions made by the noise of earlier batches, and a rest of squared length v. Given the inputs' coordinates u ~ N(0, I) on
these directions, with μ, k, k', k'' = E σ, E σ', E σ'', E σ''' at mean L·u and variance v, e = v ∂μ/∂v, τ = ηA/√N, φ₀ = d/n_step:

    output     F(u) = √N E_A[A (μ + e o(u))],   R = σ⋆ − F   (labels: R = σ⋆)
               o(u) = (|u|² − dim u + (s² − b²) u⋆²/v)/d:  the rest has weights of variance v/d on u too, and s² for b² on β⋆
    residual   E[r²|u] = R² + σ_ε² + E_A[A²(k₂ + v k²)] − (E_A[A² b k])² + 2g²/d,   g = √N E_A[A e],  |x|² varying by 2/d
    mean       L ← L + τ E[R k u]                               the population's gradient
    noise      new directions of Gram matrix τ τ' φ₀ E[r² k k'] over the neurons: what they share of the batch's noise
    own        b ← b (1 + τB),   B = E[R k'] − (2/d) E[g k'] − (A/√N) (E σσ'z − c₁² − 6c₁c₃)
               v ← v (1 + τB)² + τ² φ₀ E[r² (E[σ'²|u] − k²)],   s ← s (1 + τ(B + E[R k' (u⋆² − 1)]))

b is what is left of a weight before the first step, s the same along β⋆, where M = E[r x xᵀ] makes it grow. A teacher of k directions
has as many coordinates u⋆ (turned, `teachers`), first of all, E[R k' (u⋆u⋆ᵀ − I)] and a matrix s. The last part of B
is the neuron's own share of the output, whose linear part is in F through p = W₀ᵀa: before the first step L is A/√N along p, and
the rest has no component along a. After each step the leading directions over the neurons are kept, what others hold goes to v.
"""

# pyright: reportConstantRedefinition=false, reportMissingTypeStubs=false
from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from onestride._numerics import Array, Float, gauss_density, leading_rows
from onestride.functions import Function
from onestride.problem import Problem
from onestride.result import TheoryError
from onestride.teachers import Teacher
from onestride.theory.profile.coordinates import coordinates
from onestride.theory.profile.gradient_noise import (
    ResidualLaw,
    Signal,
    compressed,
    grouped,
    noisy,
    one_direction,
)
from onestride.theory.profile.lengths import FEW, length_rule
from onestride.theory.profile.neurons import readout_rule
from onestride.theory.profile.smoothing import SMALLEST, points_on_lines, smooth_on_lines

_FEWEST = 5  # nodes of A that make a law of them; a readout of ±1 has two
_NOISES = 3  # directions of noise that are followed
_ODD = 1e-6  # mean of ψ, whose square has the mean 1, below which it is rounding
_MOST_NODES = 2 * 10**5  # of all coordinates and lengths together, for every node of A: 1 GiB, four seconds a step
_MOST_POINTS = 5e3, 1e5  # of a smoothed activation, and all steps together: neurons a hundred times as long in 20 steps
_MOST_WORK = 2e7  # values that neurons answer on one path, four seconds: strong steps follow four of them
_COSTS = {
    "fresh": (1.0, 16),
    "reused": (0.25, 100),
}  # of a value and of a point of a smoothed activation, on one batch for one path
DIVERGED = 1000.0  # growth of the residual's power from which on neurons are not followed


@dataclass(frozen=True)
class State:
    """The neurons of readout A (probability `weight`): L (the teacher's directions first), v, b, s = star.

    On the directions of L also output: p = W₀ᵀa; noise: that of M̂'s Xᵀr/n (`Path`; on the way Σ ηκν); pull: Σ τ E[R k'' u]
    and √φ₀ r k'' along the first batch's noise, by which a neuron's weights along it make it grow (those that it began with).
    """

    A: Float[Array, "a"]
    weight: Float[Array, "a"]
    L: Float[Array, "a dirs"]
    v: Float[Array, "a"]
    b: Float[Array, "a"]
    star: Float[Array, "a k k"]
    output: Float[Array, "dirs"]
    noise: Float[Array, "_"]
    pull: Float[Array, "a dirs"]
    kappa: Float[Array, "dirs"] | None = None  # eᵀΣe of the directions, where it is not 1

    @property
    def taught(self) -> int:
        """Directions of the teacher."""
        return self.star.shape[1]

    @property
    def stretched(self) -> Float[Array, "a k k"]:
        """S sᵀ − b²: what M has made of a neuron's first weights along the teacher's directions."""
        grown = self.star @ self.star.transpose(0, 2, 1) - (self.b**2)[:, None, None] * np.eye(self.taught)
        root = 1.0 if self.kappa is None else np.sqrt(self.kappa[: self.taught])
        return grown * np.multiply.outer(root, root)


class Response(NamedTuple):
    """What the neurons answer at inputs u: μ, k, k', k'', E σ'² and its slope (a × u)."""

    mu: Float[Array, "a u"]
    k: Float[Array, "a u"]
    k2: Float[Array, "a u"]
    e: Float[Array, "a u"]
    bent: Float[Array, "a u"]
    twisted: Float[Array, "a u"]
    square: Float[Array, "a u"]
    square_slope: Float[Array, "a u"]


class Seen(NamedTuple):
    """What a batch shows at nodes u of probabilities w: the response, R, g and E[r²|u]; at random lengths every
    length with the same nodes u.
    """

    u: Float[Array, "u dirs"]
    w: Float[Array, "u"]
    response: Response
    R: Float[Array, "u"]
    longer: Float[Array, "u"]
    power: Float[Array, "u"]


class Bend(NamedTuple):
    """K' of a step as k'_A(u) = by_A ψ(u), E[r²ψ²] = E r²: M = (1/n) Xᵀ diag(rψ) X is then one matrix for all neurons."""

    by: Float[Array, "a"]
    psi: Float[Array, "u"]

    @classmethod
    def of(cls, state: State, seen: Seen) -> Bend:
        """The leading one of the functions k'_A over the neurons; ψ = 1 before the first step, and without a mean where σ and the labels are odd."""
        share, bent = seen.w * seen.power, seen.response.bent
        root = np.sqrt(share / max(float(share.sum()), 1e-300))
        over = np.sqrt(state.weight) * state.A
        lead = leading_rows(over[:, None] * bent * root, 1)[0]
        answers = over * (bent @ (root * lead))
        size = float(np.linalg.norm(answers))
        if not size > 1e-9:
            return cls(np.zeros_like(state.A), np.ones_like(root))
        psi = (over * answers) @ bent / size**2
        by, mean = bent @ (root**2 * psi), float(root**2 @ psi)
        sign = np.sign(mean if abs(mean) > _ODD else (state.weight * state.A**3) @ by) or 1.0  # alike in every step
        return cls(sign * by, sign * psi)

    def common(self, state: State) -> float:
        """κ, its size over the neurons; steps count alike where it vanishes."""
        return max(float(np.sqrt(state.weight @ (state.A * self.by) ** 2)), 1e-9)


@dataclass(frozen=True)
class Path:
    """Where the neurons have gone, and what moved them.

    powers: E r_t². bends: τ_t k'_t of `Bend`, by which M_t = Xᵀ diag(r_tψ_t) X/n of step t multiplies the rest.
    own_power: Σ_t η_t² E r_t². What all M_t do together is M̂ = Σ η_tκ_t M_t/Σ ηκ, κ² = E_A[A² k'²]: one M of T n_step samples
    with d over their number phi and the residuals T η_tκ_t r_tψ_t/Σ ηκ, whose law is `residual` (None where there is nothing to learn from,
    or where descent has diverged and the neurons were followed no further); shared_power/n_step is the variance of their mean.
    luck: standard deviation of the neurons' common weight along β⋆, √N E_A[A L⋆], by the chance of the batches, over √N E_A[L⋆²]^½.
    """

    end: State
    etas: tuple[float, ...]
    powers: tuple[float, ...]
    bends: Float[Array, "a t"]
    own_power: float
    shared_power: float
    phi: float
    residual: ResidualLaw | None
    luck: float

    @property
    def steepness(self) -> float:
        """|∂L/∂A| at A = 0: saturating neurons of large |A| stop, and those between them go on from step to step."""
        after = int(np.searchsorted(self.end.A, 0.0, side="right"))
        before = int(np.searchsorted(self.end.A, 0.0, side="left")) - 1
        if before < 0 or after == self.end.A.size or self.end.A.size < _FEWEST:
            return 0.0
        rise = np.linalg.norm(self.end.L[after] - self.end.L[before])
        return float(rise / (self.end.A[after] - self.end.A[before]))

    @property
    def grown(self) -> float:
        """By how much the residual's power has grown since the first step, at most."""
        return max(self.powers) / self.powers[0] if self.powers[0] > 0 else 1.0


def travel_fresh(problem: Problem, nodes: int, scale: float = 1.0) -> Path:
    """Follow the neurons through steps on fresh batches; `scale` is that of the nodes of A."""
    state, powers, chance, work = untrained(problem, nodes, scale), list[float](), 0.0, 0.0
    bends, sizes, laws = list[Array](), list[float](), list[Signal]()
    for eta in problem.etas:
        seen = look(problem, state)
        work = spent(problem, state, seen, work)
        powers.append(float(seen.w @ seen.power))
        if not powers[-1] <= DIVERGED * powers[0]:
            return lost(problem, state, powers)
        chance, bend = by_chance(problem, state, seen, eta, chance), Bend.of(state, seen)
        bends.append(eta * bend.by)
        sizes.append(eta * bend.common(state))
        laws.append(of_residuals(seen, bend.psi, problem.directions))
        state = advance(problem, state, seen, bend, eta, first=len(powers) == 1)
    shares = np.array(sizes)
    state, shares = replace(state, noise=state.noise / shares.sum()), shares / shares.sum()
    residual = residual_law(shares, laws) if max(powers) > 0 else None
    phi = problem.d / problem.step_samples / problem.steps
    shared, own = (float(np.square(x) @ powers) for x in (shares, problem.etas))
    each = np.stack(bends, axis=1) * (state.A / np.sqrt(problem.N))[:, None]
    return Path(state, problem.etas, tuple(powers), each, own, shared, phi, residual, luck(problem, state, chance))


def untrained(problem: Problem, nodes: int, scale: float = 1.0) -> State:
    """Before the first step: A/√N along p."""
    A, weight = readout_rule(problem, nodes, scale)
    kept = weight > 1e-12
    A, weight = A[kept], weight[kept] / weight[kept].sum()
    k, one = problem.directions, np.ones_like(A)
    L, p = np.zeros((A.size, k + 1)), np.eye(k + 1)[k]
    L[:, k] = A / np.sqrt(problem.N)
    return State(A, weight, L, one, one, np.tile(np.eye(k), (A.size, 1, 1)), p, np.zeros(k + 1), np.zeros_like(L))


def lost(problem: Problem, state: State, powers: list[float]) -> Path:
    """The path of a descent that diverges, as far as it was followed."""
    return Path(state, problem.etas, (*powers, np.inf), np.zeros((state.A.size, 0)), 0.0, 0.0, 1.0, None, np.inf)


def by_chance(problem: Problem, state: State, seen: Seen, eta: float, before: float) -> float:
    """Variance of √N E_A[A L⋆] over batches after a step: κ = E_A[A²k] turns it by 1 − ηE[κ²u⋆²] and adds η²E[r²κ²u⋆²]/n_step."""
    along = ((state.weight * state.A**2) @ seen.response.k * seen.u[:, 0]) ** 2
    kept = 1 - eta * float(seen.w @ along) if problem.gradient == "full" else 1.0
    return kept**2 * before + eta**2 * float((seen.w * seen.power) @ along) / problem.step_samples


def spent(problem: Problem, state: State, seen: Seen, before: float) -> float:
    """How many values neurons have answered since the first step; `TheoryError` where more would take tens of seconds."""
    points = points_on_lines(state.L @ seen.u.T, np.maximum(state.v, SMALLEST)).sum()
    value, point = _COSTS[problem.batch]
    work = before + value * seen.response.mu.size + point * float(points)
    if problem.steps > 1 and work > _MOST_WORK:
        told = f"weights of {np.sqrt((state.L**2).sum(1).max()):.2g} of their length"
        raise TheoryError(f"the {problem.steps} steps give neurons {told}, too large for so many steps to be followed")
    return work


def luck(problem: Problem, state: State, chance: float) -> float:
    """By how much of itself what was learned of β⋆ varies from draw to draw."""
    return float(np.sqrt(chance / max(problem.N * float(state.weight @ state.L[:, 0] ** 2), 1e-300)))


def respond(problem: Problem, state: State, u: Float[Array, "u dirs"], length: float = 1.0) -> Response:
    """σ(ℓ·) and its derivatives averaged over the rest of the weights, which sees u with variance v (1 + o(u))."""
    t, v = state.L @ u.T, np.maximum(state.v, SMALLEST)
    most = max(_MOST_POINTS[0], _MOST_POINTS[1] / problem.steps)
    if problem.gradient == "labels" and points_on_lines(t, v).max() > most:  # the literal one diverges before
        told = f"weights of {np.sqrt((state.L**2).sum(1).max()):.2g} of their length"
        raise TheoryError(f"the {problem.steps} steps give neurons {told}, too large for so many steps to be followed")
    f, squared = _at_length(problem.sigma, length), _at_length(_slope_squared(problem.sigma), length)
    mu, k, k2, e, twisted, square, slope = smooth_on_lines(f, squared, t, v)
    spread = (u**2).sum(1) - u.shape[1] if state.kappa is None else (u**2 - 1) @ state.kappa
    products = (u[:, : state.taught, None] * u[:, None, : state.taught]).reshape(len(u), -1)
    off = ((state.stretched.reshape(v.size, -1) / v[:, None]) @ products.T + spread) / problem.d
    v = v[:, None]
    mu += e * off
    k += off * (v / 2) * twisted
    return Response(mu, k, k2, e, e * (2 / v), twisted, length**2 * square, length**2 * slope)


def put_out(problem: Problem, state: State, seen: Response) -> tuple[Array, Array, Array]:
    """F(u), the variance of the output around it, and g."""
    A, weight, v = state.A, state.weight, np.maximum(state.v, SMALLEST)
    longer, varies = np.sqrt(problem.N) * ((weight * A) @ seen.e), 2 * second_moment(problem) / problem.d
    spread = (weight * A**2) @ (seen.k2 + v[:, None] * seen.k**2) - ((weight * A**2 * state.b) @ seen.k) ** 2
    return np.sqrt(problem.N) * ((weight * A) @ seen.mu), np.maximum(spread, 0.0) + longer**2 * varies, longer


def second_moment(problem: Problem) -> float:
    """Tr Σ²/d: |x|²/d varies by 2/d times it."""
    law = problem.law
    return 1.0 if law.isotropic or law.eigenvalues is None else float(np.mean(law.eigenvalues(problem.d) ** 2))


def look(problem: Problem, state: State) -> Seen:
    """What the next, fresh batch shows."""
    lengths, chances = length_rule(problem.law.freedom, problem.step_samples, FEW)
    degree = problem.target.degree if isinstance(problem.target, Teacher) else None
    u, w = coordinates(np.sqrt(state.weight @ state.L**2), state.taught, _MOST_NODES // lengths.size, degree)
    each = [respond(problem, state, u, float(length)) for length in lengths]
    seen = each[0] if len(each) == 1 else Response(*(np.concatenate(part, axis=1) for part in zip(*each, strict=True)))
    R = np.concatenate([labels_at(problem, length * u) for length in lengths])
    u, w = np.tile(u, (lengths.size, 1)), np.outer(chances, w).ravel()
    power, longer = np.full(w.size, problem.noise**2), np.zeros(w.size)
    if problem.gradient == "full":
        F, spread, longer = put_out(problem, state, seen)
        R, power = R - F, power + spread
    return Seen(u, w, seen, R, longer, power + R**2)


def labels_at(problem: Problem, u: Float[Array, "u dirs"]) -> Float[Array, "u"]:
    """The teacher at its coordinates, the first of u."""
    target = problem.target
    return target.at(u[:, : target.directions]) if isinstance(target, Teacher) else target(u[:, 0])


def moved(problem: Problem, state: State, seen: Seen, eta: float) -> State:
    """L, b, s and the pull after a step of size η by the mean gradient, E over the nodes."""
    a, answer, wR = state.A / np.sqrt(problem.N), seen.response, seen.w * seen.R
    tau = eta * a
    own = own_growth(problem, state, seen)
    taught = seen.u[:, : state.taught]
    stretch = np.stack([answer.bent @ (wR[:, None] * (taught * axis[:, None])) for axis in taught.T], axis=1)
    stretch += (own - answer.bent @ wR)[:, None, None] * np.eye(state.taught)
    if state.kappa is not None:
        stretch *= state.kappa[: state.taught, None]
    return replace(
        state,
        L=state.L + tau[:, None] * ((answer.k * wR) @ seen.u),
        b=state.b * (1 + tau * own),
        star=state.star + tau[:, None, None] * (stretch @ state.star),
        pull=state.pull + tau[:, None] * ((answer.twisted * wR) @ seen.u),
    )


def own_growth(problem: Problem, state: State, seen: Seen) -> Float[Array, "a"]:
    """B."""
    a, bent, w = state.A / np.sqrt(problem.N), seen.response.bent, seen.w
    return bent @ (w * (seen.R - seen.longer * (2 * second_moment(problem) / problem.d))) - _own_share(problem, a)


def advance(problem: Problem, state: State, seen: Seen, bend: Bend, eta: float, *, first: bool) -> State:
    """The neurons after a step of size η on the fresh batch seen."""
    phi0, tau = problem.d / problem.step_samples, eta * state.A / np.sqrt(problem.N)
    after, wr = moved(problem, state, seen, eta), seen.w * seen.power
    root = np.sqrt(phi0 * wr)
    shared = seen.response.k * root
    v = (after.b / state.b) ** 2 * state.v + tau**2 * (phi0 * (seen.response.square @ wr) - (shared**2).sum(1))
    # the directions of noise, old and new (one for each node u), turned so that the first hold most
    k = state.taught
    noises = np.concatenate([after.L[:, k:], tau[:, None] * shared], axis=1)
    turn = leading_rows(np.sqrt(state.weight)[:, None] * noises, _NOISES)
    old, new = turn[:, : state.L.shape[1] - k], turn[:, state.L.shape[1] - k :]
    L = np.concatenate([after.L[:, :k], noises @ turn.T], axis=1)
    own, known = first * tau[:, None] * seen.response.twisted * root, eta * bend.common(state) * root * bend.psi
    return replace(
        after,
        L=L,
        v=v + (noises**2).sum(1) - (L[:, k:] ** 2).sum(1),
        output=np.concatenate([state.output[:k], old @ state.output[k:]]),
        noise=np.concatenate([state.noise[:k], old @ state.noise[k:] + new @ known]),
        pull=np.concatenate([after.pull[:, :k], after.pull[:, k:] @ old.T + own @ new.T], axis=1),
    )


@lru_cache(maxsize=32)
def _slope_squared(sigma: Function) -> Function:
    return Function(f"{sigma.name}'²", lambda z: sigma.derivative(z) ** 2, centred=False)


@lru_cache(maxsize=64)
def _at_length(f: Function, length: float) -> Function:
    """f(ℓ·)."""
    return f if length == 1 else Function(f"{f.name} at {length:.6g}", lambda z: f(length * z), centred=False)


def _own_share(problem: Problem, a: Array) -> Array | float:
    """A (E σσ'z − c₁² − 6c₁c₃)."""
    if problem.gradient == "labels":
        return 0.0
    sigma, c = problem.sigma, problem.sigma.coefficients
    x, w = sigma.rule
    mean = float((w * gauss_density(x)) @ (sigma(x) * sigma.derivative(x) * x))
    return a * (mean - c[1] ** 2 - 6 * c[1] * c[3])


def residual_law(shares: Float[Array, "t"], laws: list[Signal]) -> ResidualLaw:
    """The law of T η_tκ_t r_tψ_t/Σ ηκ, every step with the same probability."""
    T = len(laws)
    pieces = [law._replace(g=T * share * law.g, weight=law.weight / T) for share, law in zip(shares, laws, strict=True)]
    return compressed(Signal(*(np.concatenate(part) for part in zip(*pieces, strict=True))))


def of_residuals(seen: Seen, psi: Float[Array, "u"], k: int) -> Signal:
    """R ψ and the teacher's coordinates, r with what varies around R."""
    g, extra = seen.R * psi, (seen.power - seen.R**2) * psi**2
    if k == 1:
        return noisy(one_direction(g, seen.u[:, 0], seen.w), extra, 12)
    u = seen.u[:, :k]
    return noisy(grouped(Signal(g, u, u[:, :, None] * u[:, None, :], seen.w)), float(seen.w @ extra), 12)
