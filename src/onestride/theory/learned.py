"""`learned`: how much of each Hermite degree of the teacher the trained predictor f̂ recovers.

The residual of sample i when it is left out of the fit is [Ry]_i/R_ii, and R_ii = ρ(z_i)/n. So for any function g

    E[g(x)(y − f̂(x))] = lim (g/ρ)ᵀ R y,

a bilinear form of the same resolvent as Y = yᵀRy. Split g = h_k(β⋆ᵀx), h_k = H_k/√k!, along the learned direction,
g = g0(z) + g1(z)ζ + rest, as the teacher is split into h0, h1 and a rest:

    (g/ρ)ᵀRy = (g0/ρ)ᵀ(D₂⁻¹ + M)⁻¹h + Σ_p π_p (g1/ρ)ᵀU_p h1 + Σ_i w_i Cov(rest_g, rest_y | z_i),
    g0 = ϱ^k h_k(z),   g1 = √k ϱ^{k−1} √(1−ϱ²) h_{k−1}(z),

with ϱ the overlap of the learned direction and β⋆. E[f̂ h_k] = c⋆_k√k! − E[h_k(y − f̂)], and E f̂² follows from the test
error, L = E σ⋆² − 2E[σ⋆f̂] + E f̂² + σ_ε².
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import comb

import numpy as np

from onestride._numerics import Array, Float, hermite_table
from onestride.problem import Problem, Step
from onestride.result import Result, Status, TheoryError
from onestride.theory.profile.equations import Solution, solve
from onestride.theory.profile.errors import errors_at
from onestride.theory.profile.model import Profile, Verdict, try_profile
from onestride.theory.profile.quadratic_form import response
from onestride.theory.profile.strength import BEST_LEVEL, level_name
from onestride.theory.reliability import known_off
from onestride.theory.threads import one_thread

DEGREE = 4


@dataclass(frozen=True)
class Learned(Result):
    """Predicted components of f̂; `untrained` holds those without the step.

    degrees: the k ≤ 4 with c⋆_k ≠ 0. fraction: E[f̂ H_k(β⋆ᵀx)]/(c⋆_k k!) for each; 1 is fully learned. unexplained: E f̂²
    outside the span of H_0 … H_4 of β⋆ᵀx. status: `INACCURATE` where the theory's errors are known to be off by more than
    5 %, with the sentence in `message`.
    """

    _told = ("degrees", "fraction", "level", "unexplained", "status", "message")

    problem: Problem
    level: str
    degrees: tuple[int, ...]
    fraction: Float[Array, "degrees"]
    unexplained: float
    status: Status
    message: str
    untrained: Learned | None = field(default=None, repr=False)


@one_thread()
def learned(problem: Problem, *, level: str = BEST_LEVEL) -> Learned:
    """Predict the learned fraction of each Hermite degree of the teacher, with and without the step.

    Degree k ≥ 2 off the learned direction counts as noise, which needs n ≪ d²/2; `status` says where that is known to fail.
    """
    level = level_name(level)
    before = _components(problem.replace(step=Step.none()), level)
    after = before if problem.eta == 0 else _components(problem, level)
    degrees = tuple(teacher_degrees(problem))

    def wrap(stepped: Problem, found: tuple[Array, float], untrained: Learned | None) -> Learned:
        components, unexplained = found
        reason = known_off(stepped)
        status = Status.SOLVED if reason is None else Status.INACCURATE
        message = status.value if reason is None else f"{status.value}: {reason}"
        fraction = components[list(degrees)] / problem.target.normalised[list(degrees)]
        return Learned(problem, level, degrees, fraction, unexplained, status, message, untrained)

    return wrap(problem, after, wrap(problem.replace(step=Step.none()), before, None))


def teacher_degrees(problem: Problem) -> list[int]:
    """The k ≤ 4 with c⋆_k ≠ 0."""
    return [k for k in range(1, DEGREE + 1) if problem.target.coefficients[k] != 0]


def _components(problem: Problem, level: str) -> tuple[Array, float]:
    """E[f̂ h_k], k = 0 … 4, and the power of f̂ outside their span."""
    profile = try_profile(problem, level)
    if isinstance(profile, Verdict):
        raise TheoryError(profile.message)
    solution = solve(profile, problem.ridge)
    if not solution.converged:
        raise TheoryError(f"the profile equations were not solved: residual {solution.residual:.1e}")
    left_over, target = residual_moments(profile, solution), problem.target
    components = target.normalised[: DEGREE + 1] - left_over[:-1]
    test_error = errors_at(profile, solution)[2]
    # L − σ_ε² = E(σ⋆ − f̂)², and left_over[-1] = E[σ⋆(y − f̂)] = E σ⋆² − E[σ⋆f̂]
    power = test_error - problem.noise**2 - target.second_moment + 2 * (target.second_moment - left_over[-1])
    return components, float(max(power - (components**2).sum(), 0.0))


def residual_moments(profile: Profile, solution: Solution) -> Float[Array, "6"]:
    """E[g(x)(y − f̂(x))] for g = h_0 … h_4 of β⋆ᵀx, and last for g = σ⋆(β⋆ᵀx)."""
    rho, size = np.real(solution.rho), profile.w.size
    x, _, parts = response(profile, rho, np.real(solution.q))
    linear = sum(part.probability * part.x for part in parts)
    g0, g1, rest = _split_probes(profile)
    return (g0 / rho) @ x[:size] + (g1 / rho) @ linear + rest @ profile.w


def _split_probes(profile: Profile) -> tuple[Array, Array, Array]:
    """g0 and g1 on the nodes and Cov(rest_g, rest_y | z), for the probes h_0 … h_4 and σ⋆."""
    overlap, c = profile.learned.overlap, profile.problem.target.normalised
    aside = np.sqrt(1 - overlap**2)
    table = hermite_table(profile.z, c.size - 1)
    h = table[: DEGREE + 1]
    k = np.arange(DEGREE + 1)
    g0 = overlap ** k[:, None] * h
    g1 = np.zeros_like(g0)
    g1[1:] = (np.sqrt(k[1:]) * overlap ** k[:-1] * aside)[:, None] * h[:-1]
    # rest of h_k: Σ_{j≥2} √C(k,j) ϱ^{k−j} aside^j h_{k−j}(z) h_j(ζ), and the same for the teacher: match each h_j(ζ)
    rest = np.zeros_like(g0)
    for j in range(2, DEGREE + 1):
        teacher_j = _component(c, j, overlap, aside, table)
        for degree in range(j, DEGREE + 1):
            weight = np.sqrt(comb(degree, j)) * overlap ** (degree - j) * aside**j
            rest[degree] += weight * table[degree - j] * teacher_j
    return np.vstack([g0, profile.h0]), np.vstack([g1, profile.h1]), np.vstack([rest, profile.hr])


def _component(c: Array, j: int, overlap: float, aside: float, table: Array) -> Array:
    """The coefficient of h_j(ζ) in Σ_m c_m h_m(ϱz + aside·ζ), as a function of z."""
    out = np.zeros(table.shape[1])
    for m in range(j, c.size):
        if c[m] != 0:
            out += c[m] * np.sqrt(comb(m, j)) * overlap ** (m - j) * aside**j * table[m - j]
    return out
