"""`learned`: how much of each Hermite degree of the teacher the trained predictor f̂ recovers.

The residual of sample i when it is left out of the fit is [Ry]_i/R_ii, and R_ii = ρ(z_i)/n. So for any function g

    E[g(x)(y − f̂(x))] = lim (g/ρ)ᵀ R y,

a bilinear form of the same resolvent as Y = yᵀRy. Split g = h_k(β⋆ᵀx), h_k = H_k/√k!, over the rows and sectors as the
teacher is split into h_0, h_1 … h_L and a rest, g = g_0(i) + Σ_l g_l(i)⟨e_l, x_l⟩ + rest:

    (g/ρ)ᵀRy = (g_0/ρ)ᵀ(D̃⁻¹ + M)⁻¹h_0 + Σ_l Σ_p π_p (g_l/ρ)ᵀU_lp h_l + Σ_i w_i Cov(rest_g, rest_y | i).

A teacher g of several directions has products of Hermite polynomials of its coordinates in place of h_k; its part of degree k is
g_k = Σ g_km h_km.

With one sector and many inputs g_0 = ϱ^k h_k(z), g_1 = √k ϱ^{k−1} √(1−ϱ²) h_{k−1}(z), ϱ the overlap of the learned
direction and β⋆. E[f̂ h_k] = c⋆_k√k! − E[h_k(y − f̂)], and E f̂² follows from the test error,
L = E σ⋆² − 2E[σ⋆f̂] + E f̂² + σ_ε².

Of a table (`from_data`) the rows themselves say it, h_k being polynomials of a row's index: `theory.table.shares`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import factorial

import numpy as np

from onestride._backend.threads import one_thread
from onestride._numerics import Array, Float, hermite_table
from onestride.drawing import Panel, Series
from onestride.functions import Function, hermite_polynomial
from onestride.problem import Problem, Step, expect
from onestride.result import Result, Status, TheoryError
from onestride.shown import Variables
from onestride.table import Table
from onestride.teachers import (
    Teacher,
    all_products,
    degree_fractions,
    degree_powers,
    direction_fractions,
    hermite_components,
    index_of,
)
from onestride.theory.direction import without_a_direction
from onestride.theory.profile.build import Ending, try_model
from onestride.theory.profile.coupled import coupled_answers
from onestride.theory.profile.equations import Solution, solve
from onestride.theory.profile.errors import errors_at
from onestride.theory.profile.harmonics import gegenbauer, sphere_nodes
from onestride.theory.profile.quadratic_form import (
    answered,
    answers,
    carrier,
    left_by_means,
    special_answer,
    special_gram,
)
from onestride.theory.profile.sectors import Model, split
from onestride.theory.profile.several import resolve_several, sight_along
from onestride.theory.profile.strength import BEST_LEVEL, Level, level_name
from onestride.theory.reliability import known_off
from onestride.theory.table.errors import refused
from onestride.theory.table.shares import table_shares

DEGREE = 4


@dataclass(frozen=True, repr=False)
class Learned(Result):
    """Predicted components of f̂; `untrained` holds those without the step.

    degrees: the k ≤ 4 that the teacher has. fraction: E[f̂ H_k(β⋆ᵀx)]/(c⋆_k k!) for each; 1 is fully learned. Of a teacher g of
    several directions, E[f̂ g_k]/E g_k², g_k its part of total degree k. by_direction (directions × 4): the same of
    H_k(β_jᵀx) alone, NaN where the teacher has none. unexplained: E f̂² less the power of these mean components of degree up
    to four; how much they vary from draw to draw is in it, which `measure_learned` leaves out (n = 600, d = 20: up to 10 % of it).
    status: `INACCURATE` where the theory's errors are known to be off by more than 5 %, with the sentence in `message`.
    """

    _told = ("degrees", "fraction", "by_direction", "level", "unexplained", "status", "message")
    _brief = ("degrees", "fraction", "unexplained", "status")
    _equation = "fraction of degree k: E[f̂(x) H_k(β⋆ᵀx)]/(c⋆_k k!)"

    problem: Problem
    level: str
    degrees: tuple[int, ...]
    fraction: Float[Array, "degrees"]
    by_direction: Float[Array, "directions 4"]
    unexplained: float
    status: Status
    message: str
    untrained: Learned | None = field(default=None, repr=False)

    def panels(self) -> Sequence[Panel]:
        """What is learned of each degree, after the step and without it."""
        shown = {"after the step": self} | ({} if self.untrained is None else {"without it": self.untrained})
        series = [
            Series(label, found.degrees, found.fraction, kind="simulation", colour=4 * k)
            for k, (label, found) in enumerate(shown.items())
        ]
        return [Panel("learned", "Hermite degree", "fraction", series, xticks=self.degrees)]

    def _axes(self) -> dict[str, Sequence[int]]:
        return {"degree": self.degrees, "direction": range(len(self.by_direction)), "k": range(1, DEGREE + 1)}

    def _variables(self) -> Variables:
        found: Variables = {"fraction": (("degree",), self.fraction)}
        if self.untrained is not None:
            found["untrained_fraction"] = (("degree",), self.untrained.fraction)
        return found | {"unexplained": ((), self.unexplained), "by_direction": (("direction", "k"), self.by_direction)}


@one_thread()
def learned(problem: Problem, *, level: Level = BEST_LEVEL) -> Learned:
    """Predict the learned fraction of each Hermite degree of the teacher, with and without the step.

    For a problem made by `from_data` the teacher is the function along the table's index, and the answer comes from its rows. At the level
    "degrees" an untrained network learns degree k as far as n and N reach its B_k ~ d^k/k! harmonics; at the
    levels of one degree it learns k = 1 alone, which needs n, N ≪ d²/2.

    >>> problem = one.Problem(n=200, d=100, N=150, teacher=[0, 1, 0.7071], noise=0.5, step=one.Step(exponent=0.3))
    >>> print(one.learned(problem).fraction.round(2))
    [0.68 0.08]
    """
    expect(problem)
    if isinstance(problem.inputs, Table):
        return _of_rows(problem)
    level = level_name(level)
    before = _shares(problem.replace(step=Step.none()), level)
    after = before if problem.eta == 0 else _shares(problem, level)
    degrees = tuple(teacher_degrees(problem))

    def wrap(stepped: Problem, found: tuple[Array, Array, float], untrained: Learned | None) -> Learned:
        fraction, by_direction, unexplained = found
        reason, blind = known_off(stepped), without_a_direction(stepped)
        status = Status.SOLVED if reason is None else Status.INACCURATE
        message = status.value if reason is None else f"{status.value}: {reason}"
        if blind is not None:
            message = f"{message}; {blind}"
        shares = (fraction[[k - 1 for k in degrees]], by_direction, unexplained)
        return Learned(problem, level, degrees, *shares, status, message, untrained)

    return wrap(problem, after, wrap(problem.replace(step=Step.none()), before, None))


def _of_rows(problem: Problem) -> Learned:
    """What a network learns of the function along the index of a table."""
    reason = refused(problem)
    if reason is not None:
        raise TheoryError(reason)
    degrees = tuple(teacher_degrees(problem))

    def of(stepped: Problem, untrained: Learned | None) -> Learned:
        shares, outside, off = table_shares(stepped)
        by_direction = np.array([[shares[k] if k + 1 in degrees else np.nan for k in range(DEGREE)]])
        status = Status.SOLVED if off is None else Status.INACCURATE
        message = status.value if off is None else f"{status.value}: {off}"
        if not degrees:
            message = f"{message}; the rows show no function along one direction"
        fraction = shares[[k - 1 for k in degrees]]
        return Learned(problem, "table", degrees, fraction, by_direction, outside, status, message, untrained)

    before = of(problem.replace(step=Step.none()), None)
    return of(problem, before) if problem.eta else replace(before, untrained=before)


def teacher_degrees(problem: Problem) -> list[int]:
    """The k ≤ 4 that the teacher has: c⋆_k ≠ 0."""
    power = degree_powers(hermite_components(problem.target, DEGREE), problem.directions)
    return [k for k in range(1, DEGREE + 1) if power[k] != 0]


def _shares(problem: Problem, level: str) -> tuple[Array, Array, float]:
    """Learned fractions by degree and by direction, and the power of f̂ outside the span of H_0 … H_4."""
    model = try_model(problem, level)
    if isinstance(model, Ending):
        raise TheoryError(model.message)
    chances, found = zip(
        *((p, _of_member(member.at(problem.ridge), problem.ridge)) for p, member in model.members), strict=True
    )
    fraction, by_direction, unexplained = (
        np.tensordot(chances, np.array(part), 1) for part in zip(*found, strict=True)
    )
    return fraction, by_direction, float(unexplained)


def _of_member(model: Model, ridge: float) -> tuple[Array, Array, float]:
    """The same of one model."""
    problem, solution = model.problem, solve(model, ridge)
    if not solution.converged:
        raise TheoryError(f"the profile equations were not solved: residual {solution.residual:.1e}")
    left_over, target = residual_moments(model, solution), problem.target
    taught = hermite_components(target, DEGREE)
    components = taught - left_over[:-1]
    test_error = errors_at(model, solution)[2]
    # L − σ_ε² = E(σ⋆ − f̂)², and left_over[-1] = E[σ⋆(y − f̂)] = E σ⋆² − E[σ⋆f̂]
    power = test_error - problem.noise**2 - target.second_moment + 2 * (target.second_moment - left_over[-1])
    unexplained = float(max(power - (components**2).sum(), 0.0))
    k = problem.directions
    return degree_fractions(components, taught, k), direction_fractions(components, taught, k), unexplained


def predicted_components(model: Model, solution: Solution) -> Float[Array, "products"]:
    """E[f̂ h_k(β⋆ᵀx)] for k = 0 … 4; of several directions of every product, as `all_products` counts them."""
    return hermite_components(model.problem.target, DEGREE) - residual_moments(model, solution)[:-1]


def residual_moments(model: Model, solution: Solution) -> Float[Array, "moments"]:
    """E[g(x)(y − f̂(x))] for g = h_0 … h_4 of β⋆ᵀx (of several directions: their products), and last for the teacher."""
    rho, q, target = np.real(solution.rho), np.real(solution.q), model.problem.target
    fitted = _answered_teacher(model, rho, q)
    if isinstance(target, Teacher):
        return _joint_moments(model, target, fitted, rho)
    split_all = _polynomials_split if target.exact is not None else _each_split
    every, products = split_all(model, target)
    out = np.empty(DEGREE + 2)
    for k, (parts, both) in enumerate(zip(every, products, strict=True)):
        rest = both - sum(_each_row(x, y) for x, y in zip(parts, every[-1], strict=True))
        out[k] = sum(_each_row(part, x) @ (1 / rho) for part, x in zip(parts, fitted, strict=True)) + model.w @ rest
    return out


def _each_split(model: Model, target: Function) -> tuple[list[list[Array]], list[Array]]:
    """h_0 … h_4 and the teacher over rows and sectors, without the rest; and E[g σ⋆ | row] of each."""
    functions = [*(_normalised_hermite(k) for k in range(DEGREE + 1)), target]
    products = [split(_product(g, target), model.learned.overlap, model.z, model.r, model.D, 0)[0] for g in functions]
    return [model.split(g)[:-1] for g in functions], products


def _polynomials_split(model: Model, target: Function) -> tuple[list[list[Array]], list[Array]]:
    """The same for a polynomial, all of them at once: Gauss's nodes on the sphere are exact."""
    g, p = sphere_nodes(model.D)
    beside = np.sqrt((1 - model.learned.overlap**2) / model.D) * model.r
    at = (model.learned.overlap * model.z)[:, None] + beside[:, None] * g
    values = np.concatenate([hermite_table(at, DEGREE), target(at)[None]])
    parts = np.einsum("kij,lj->kli", values, gegenbauer(g, model.D, len(model.sectors)) * p)
    every = [[row[0], *(part[:, None] for part in row[1:])] for row in parts]
    return every, list(values * values[-1] @ p)


def _joint_moments(model: Model, target: Teacher, fitted: list[Array], rho: Array) -> Float[Array, "moments"]:
    """The same of products of Hermite polynomials: polynomials of degree four, which have no rest beyond degree four."""
    L, k = len(model.sectors), target.directions
    sight = model.sight or sight_along(model.learned.overlap, model.z, k)
    rows = (sight, model.r, model.D, max(L, DEGREE))
    *taught, beyond = resolve_several(target.at, *rows, degree=target.degree)
    tail = sum(((part**2).sum(1) for part in taught[L + 1 :]), beyond)

    def against(parts: list[Array], rest: Array) -> float:
        return float(
            sum(_each_row(p, x) @ (1 / rho) for p, x in zip(parts[: L + 1], fitted, strict=True)) + model.w @ rest
        )

    out: list[float] = []
    for m in range(index_of(k, DEGREE).stop):
        parts = resolve_several(lambda u, m=m: _product_of(u @ target.rotation, m), *rows, degree=DEGREE)[:-1]
        rest = sum((_each_row(p, g) for p, g in zip(parts[L + 1 :], taught[L + 1 :], strict=True)), np.zeros_like(rho))
        out.append(against(parts, rest))
    return np.array([*out, against(taught, tail)])


def _each_row(x: Array, y: Array) -> Float[Array, "i"]:
    """Inner products of two parts, row by row; h_0 has one number a row, the others several, y perhaps more than x."""
    return x * y if x.ndim == 1 else np.einsum("im,im->i", x, y[:, : x.shape[1]])


def _product_of(z: Float[Array, "*m k"], m: int) -> Float[Array, "*m"]:
    """The m-th product of Hermite polynomials, as `joint_hermite` counts them."""
    k = z.shape[-1]
    powers = np.bincount(np.array(all_products(k, DEGREE)[m], int), minlength=k)
    return np.prod([hermite_table(z[..., j], int(l))[l] for j, l in enumerate(powers)], axis=0)


def _answered_teacher(model: Model, rho: Array, q: Array) -> list[Array]:
    """R y in the special sector (functions of the row) and in every other one: its part along the teacher."""
    if model.means.coupled is not None:
        plain, along = coupled_answers(model, rho, q)
        others = [answered(answers(model, s, s.h, rho, q)) for s in model.sectors[1:]]
        return [plain, along, *others]
    few, (wide, known) = model.few, carrier(model, rho, q)
    plain: Array = np.zeros(rho.size)
    left: list[Array] = [np.zeros_like(sector.h) for sector in model.sectors]
    for probability, b in few.cases:
        M = special_gram(model, b, rho, q, few).M
        on_rows, beside = left_by_means(model, M, special_answer(model, M, wide, known))
        plain = plain + probability * (model.w * rho * on_rows[0])
        left = [a + probability * b for a, b in zip(left, beside, strict=True)]
    return [plain, *(answered(answers(model, s, h, rho, q)) for s, h in zip(model.sectors, left, strict=True))]


@lru_cache(maxsize=8)
def _normalised_hermite(k: int) -> Function:
    """h_k = H_k/√k!."""
    if k == 0:
        return Function("1", np.ones_like, centred=False)
    return hermite_polynomial([0.0] * k + [1 / np.sqrt(float(factorial(k)))])


@lru_cache(maxsize=256)
def _product(f: Function, g: Function) -> Function:
    return Function(f"{f.name}·{g.name}", lambda z: f(z) * g(z), centred=False)
