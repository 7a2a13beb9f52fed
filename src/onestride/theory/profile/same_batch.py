"""The readout fitted on the samples of the step: by how much its errors differ from those on fresh samples.

The equations have rows of two kinds, those of the fit, which have seen the step (`batch_rows`), and those it is judged on, which have
not: rows of the fit with a penalty λ_i → ∞. As min Σ_i s_i (y_i − f(x_i))² + λn|a|² has the slope (y_i − f̂(x_i))² in s_i, the test
error is −∂Y/∂t at 1/λ_i = −t on the rows of the second kind; with rows of one kind this is the leave-one-out identity.

On functions of a row and the same times ξ_c the special sector has the Gram matrix

    M = N b Q bᵀ + Σ_δ x_δ W_δ x_δ − φ₀ r̂ V r̂,     V = Σ_p π_p V_p of sector 1,   W = U⁻¹ − D⁻¹, U = Σ_p π_p U_p:

the mean features, the plane of β⋆, p and ν, whose coordinates a row is known by, and what the columns of X lack along r; and in degree
two, of dimension B₂, the same with xᵀMx/d, of mean φ₀r and variance 2E r²/n, in the place of x·ν (`memory`). With the literal gradient a
neuron's features have no component along a, in sector 1 as W̃ᵀa = 0 and in the rest as Σ_j a_j (σ − c₁H₁)(w_j·x) is known:

    Q = q + qU_r(D⁻¹ − U_rᵀqU_r)⁻¹U_rᵀq,  then  Q + QU(D⁻¹ + V₀ − UᵀQU)⁻¹UᵀQ,      U_r = aκ, U = aK₁;     b += aκ ω.

M is of low rank, M = BᵀSB, so that Y = hᵀDh − vᵀS(1 + BDBᵀS)⁻¹v, v = BDh. Left out: that M = XᵀRX/n and the noise of higher order hang
together with X beyond a row's own share; what else a step leaves in the mean features (`memory`), and the length of x. Therefore the errors
of the theory for fresh samples are multiplied by the ratio of the two, both of this theory, on the same groups of z.
What a batch shows of its rows changes nothing in a network that it has not moved: the ratio is 1 there, and what it is here (the groups;
z² along a t̂ that the rows have made, without what the other functions of degree two lack for it) divides the answer.
"""

# pyright: reportConstantRedefinition=false, reportMissingTypeStubs=false
from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag

from onestride._numerics import Array, Float, Inexact, solve
from onestride.functions import Function
from onestride.problem import Problem, Step
from onestride.theory.bulk import bulk_of
from onestride.theory.direction import direction
from onestride.theory.profile.batch_plane import Plane, plane_of, sectors_of
from onestride.theory.profile.batch_rows import GroupedRows, batch_rows, own_share, with_test_rows
from onestride.theory.profile.equations import Solution, block, newton
from onestride.theory.profile.harmonics import degrees_resolved, resolve
from onestride.theory.profile.neurons import normal_rule, resolution
from onestride.theory.profile.sectors import Means, Model, Sector, split_teacher

_NODES = 21  # of z on the rows of the second kind, and of A: the ratio to 1e-5
_GROUPS = (21, 9)  # of z and of r, of the samples of the step and of fresh ones alike
_DEGREES, _NOISE = 4, 60.0  # resolved at most; with more than so many times max(n, N) harmonics a degree is noise
_JUDGED = 1e9  # penalty of the rows of the second kind, in units of λ
_STEP = 1e-30  # imaginary, for derivatives
_ROUNDING = 1e-15  # squared share of the largest from which on a function of the neurons is rounding


class Batch(NamedTuple):
    """The model on the rows of both kinds, these rows, which of them are of the first kind, and the directions they are known by.

    neurons: orthonormal columns Z that hold all that is known of neurons, each times the root of its share; `output` is aκ, `linear` K₁
    and `linear_output` aK₁ in these columns. basis: B; labels: h.
    """

    model: Model
    rows: GroupedRows
    fitted: Array
    plane: Plane
    neurons: Float[Array, "k s"]
    output: Float[Array, "s i"]
    linear: Float[Array, "s i"]
    linear_output: Float[Array, "s i"]
    basis: Float[Array, "b ci"]
    labels: Float[Array, "ci"]


def ratio(problem: Problem, lam: Float[Array, "lam"]) -> Float[Array, "3 lam"]:
    """Ridge objective, training and test error on the samples of the step over those on fresh ones; NaN where not solved."""
    if direction(problem).residual_power == 0 or problem.eta == 0:
        return np.ones((3, lam.size))
    if problem.readout == "constant":  # of an odd activation: the same with neurons turned round
        problem = problem.replace(readout="rademacher")
    with np.errstate(all="ignore"):
        kept = _batches(problem.at(ridge=1.0), problem.sigma, problem.target)  # pyright: ignore[reportArgumentType]
        after, before = (_errors(seen, lam) / _errors(unseen, lam) for seen, unseen in kept)
        return after / before


@lru_cache(maxsize=2)  # a search asks for other penalties
def _batches(problem: Problem, sigma: Function, target: Function) -> tuple[tuple[Batch, Batch], ...]:
    """Rows that have seen the step and rows that have not, after it and before it; functions are named as a name may change its meaning."""
    assert (sigma, target) == (problem.sigma, problem.target)
    return tuple(
        (_build(problem, seen=True, moved=moved), _build(problem, seen=False, moved=moved)) for moved in (True, False)
    )


def _build(problem: Problem, *, seen: bool, moved: bool = True) -> Batch:
    plane = plane_of(problem, _NODES)
    D, learned, k = plane.D, plane.learned, problem.directions
    L = degrees_resolved(D, max(problem.n, problem.N), most=_DEGREES, factor=_NOISE)
    z, w = normal_rule(*resolution(learned.amplitude, _NODES))
    z, w = z[w > 1e-9], w[w > 1e-9] / w[w > 1e-9].sum()
    teacher = split_teacher(problem.target, learned.overlap, z, np.full(z.size, np.sqrt(D)), w, D, 1, plane.sight(z))
    rows = batch_rows(problem, plane, seen=seen, groups=_GROUPS)
    fitted = np.arange(rows.w.size + z.size) < rows.w.size
    rows = with_test_rows(rows, z, w, teacher, problem.noise)
    if not moved:
        plane = plane_of(problem, _NODES, moved=False)
        problem = problem.replace(step=Step.none())
    kinds = plane.kinds
    parts = resolve(problem.sigma, kinds.theta[:, None] * rows.z, np.sqrt(kinds.v * D)[:, None], D, L)
    kappa = np.zeros_like(parts[0])
    if seen or problem.gradient == "full":
        added, kappa = own_share(problem, kinds, rows.z, np.where(fitted & seen, rows.r, 0.0))
        parts[0] += added
    means = Means(((1.0, parts[0]),), (), rows.label[:, 0])
    each, radius = (kinds.A, kinds.theta, kinds.weight, kinds.v), np.full(rows.z.size, np.sqrt(D))
    sectors = sectors_of(problem, plane, parts)
    model = Model(
        problem, "degrees", plane.learned, D, rows.z, radius, rows.w, *each, sectors, parts[-2], means, rows.tail
    )
    tau, power = problem.eta * kinds.A / np.sqrt(problem.N), direction(problem).residual_power
    bent = 4 * problem.sigma.coefficients[2] * tau * kinds.aside / kinds.v * np.sqrt(2 * power / problem.n)
    on_output = plane.axes[1:, k] * (not moved)  # p along the axes off u, where t is not all of Wᵀa
    return _in_few_columns(model, rows, fitted, plane, kappa, parts[-1] * bent[:, None], on_output)


def _in_few_columns(
    model: Model,
    rows: GroupedRows,
    fitted: Array,
    plane: Plane,
    kappa: Float[Array, "k i"],
    remembered: Float[Array, "k i"],
    on_output: Float[Array, "e"],
) -> Batch:
    """What does not change with ρ and q. `remembered`: what xᵀMx/d adds to mean features."""
    problem, linear, nothing = model.problem, model.sectors[0], np.zeros((rows.w.size, 1))
    a, K = (model.A / np.sqrt(problem.N))[:, None], linear.K * np.sqrt(linear.mean_strength)[:, None]
    functions = [model.means.cases[0][1], remembered, K, kappa * a, K * a, linear.K / np.sqrt(model.v)[:, None] * a]
    functions = functions if problem.gradient == "full" else functions[:3]
    Z = _columns(every := np.sqrt(model.weight)[:, None] * np.concatenate(functions, axis=1))
    mean, form, K, *with_a = np.split(Z.T @ every, len(functions), axis=1)
    of_row, of_form = np.eye(rows.label.shape[1] + 1)[
        [0, -1]
    ]  # the blocks of functions of the row, of those times xᵀMx/d
    start = _on(mean, np.tile(of_row, (rows.w.size, 1))) + _on(form, np.tile(of_form, (rows.w.size, 1)))
    coordinates = [np.append(x, nothing, axis=1) for x in rows.plane]
    if with_a:
        start += _on(with_a[0], np.append(rows.output, nothing, axis=1))
        start += sum(_on(with_a[2] * on, x) for on, x in zip(on_output, coordinates, strict=True))
    if plane.turned:
        coordinates = [np.outer(rows.z, of_row), *coordinates]
    B = [start, *(_on(linear.factors[1], x) for x in coordinates)]
    if len(model.sectors) > 1:
        seen = np.sqrt(model.sectors[1].dim / problem.n) * rows.unit
        B.append(_on(model.sectors[1].factors[1], np.outer(seen, of_row) + of_form))
    B += [_on(sector.factors[1], np.outer(rows.unit, of_row)) for sector in _lacking(model, rows)]
    h = np.append(rows.label, nothing, axis=1).T.ravel()
    kappa, on_a = (with_a[0], with_a[1]) if with_a else (0 * K, 0 * K)
    return Batch(model, rows, fitted, plane, Z, kappa, K, on_a, np.concatenate(B), h)


def _lacking(model: Model, rows: GroupedRows) -> tuple[Sector, ...]:
    """Sectors in which the rows of the step lack something along r."""
    return model.sectors[:2] if rows.unit.any() else ()


def _columns(functions: Float[Array, "k f"]) -> Float[Array, "k s"]:
    """Orthonormal columns that hold these functions of the neurons, all but what is rounding."""
    size, vectors = np.linalg.eigh(functions @ functions.T)
    return vectors[:, size > _ROUNDING * size[-1]]


def _errors(batch: Batch, lam: Float[Array, "lam"]) -> Float[Array, "3 lam"]:
    """Ridge objective, training error and test error, from the largest λ down."""
    out, previous = np.full((3, lam.size), np.nan), None
    for j in np.argsort(-lam, kind="stable"):
        solution = _solve(batch, float(lam[j]), previous)
        if not solution.converged:
            continue
        previous = solution
        Y, by_lam = _moved(batch, solution, np.where(batch.fitted, 1.0, 0.0))
        _, by_weight = _moved(batch, solution, np.where(batch.fitted, 0.0, 1 / solution.rho**2))
        out[:, j] = lam[j] * Y, -(lam[j] ** 2) * by_lam, -by_weight
    return out


def _solve(batch: Batch, lam: float, start: Solution | None) -> Solution:
    """From the solution at a larger λ, else from the untrained network's, else down from a large λ."""
    penalty = np.where(batch.fitted, 1.0, _JUDGED)
    if start is None:
        bulk = bulk_of(batch.model.problem, lam)
        rho, q = np.full(penalty.size, float(bulk.rho)), np.full(batch.model.theta.size, float(bulk.q))
    else:
        rho, q = start.rho, start.q
    found = newton(batch.model, lam * penalty, np.where(batch.fitted, rho, 1 / (lam * penalty)), q)
    if found.converged:
        return found
    path = np.geomspace(max(100.0, lam), lam, 12)
    rho, q = 1 / (path[0] * penalty), np.ones_like(q)
    for value in path:
        found = newton(
            batch.model, value * penalty, np.where(batch.fitted, rho, 1 / (value * penalty)), q, cap=0.7, steps=100
        )
        rho, q = found.rho, found.q
    return found


def _moved(batch: Batch, solution: Solution, speed: Float[Array, "i"]) -> tuple[float, float]:
    """Y and its derivative when λ_i moves at this speed, by a complex step."""
    d_rho, d_q = solution.tangent(speed)
    Y = complex(quadratic_form(batch, solution.rho + 1j * _STEP * d_rho, solution.q + 1j * _STEP * d_q))
    return Y.real, Y.imag / _STEP


def quadratic_form(batch: Batch, rho: Inexact[Array, "i"], q: Inexact[Array, "k"]) -> Any:
    """Y = hᵀDh − vᵀS(1 + BDBᵀS)⁻¹v and what ξ does not tell of the labels."""
    model, rows, B, h = batch.model, batch.rows, batch.basis, batch.labels
    D = model.w * rho
    S = [_of_neurons(batch, D, q), _hanging_together(batch, D, q)]
    if len(model.sectors) > 1:
        V, P = _dressed(model, model.sectors[1], D, q)
        S.append(V @ solve(np.eye(P.shape[0]) - P @ V, np.eye(P.shape[0])))
    S += [-(sector.dim / model.problem.n) * _dressed(model, sector, D, q)[0] for sector in _lacking(model, rows)]
    middle, wide = block_diag(*S), np.tile(D, h.size // D.size)
    v = B @ (wide * h)
    x = solve(np.eye(v.size) + (B * wide) @ B.T @ middle, v)
    return D @ rows.tail + h @ (wide * h) - v @ (middle @ x)


def _dressed(
    model: Model, sector: Sector, D: Inexact[Array, "i"], q: Inexact[Array, "k"]
) -> tuple[Inexact[Array, "r r"], Inexact[Array, "r r"]]:
    """V = Σ_p π_p C T of a sector in the few columns of its K, and P."""
    Y = sector.factors[1]
    P = (Y * D) @ Y.T
    return np.tensordot(sector.share, block(model, sector, P, q, sector.strength.T).CT, 1), P


def _hanging_together(batch: Batch, D: Inexact[Array, "i"], q: Inexact[Array, "k"]) -> Inexact[Array, "ar ar"]:
    """W = V(1 − PV)⁻¹ of the directions that rows are known by, V_ab = Σ_p mass_abp C T in sector 1."""
    model, linear, mass = batch.model, batch.model.sectors[0], batch.plane.mass
    Y = linear.factors[1]
    P = (Y * D) @ Y.T
    law = np.concatenate([linear.strength, linear.teacher_strength], axis=1)
    CT = block(model, linear, P, q, law.T).CT
    size = len(mass) * len(P)
    V = np.tensordot(mass, CT, 1).transpose(0, 2, 1, 3).reshape(size, size)
    return V @ solve(np.eye(size) - np.kron(np.eye(len(mass)), P) @ V, np.eye(size))


def _on(functions: Float[Array, "r i"], coordinate: Float[Array, "i c"]) -> Float[Array, "r ci"]:
    """Functions of a row times one of its coordinates, in the blocks 1, ξ_1, …."""
    return np.concatenate([functions * column for column in coordinate.T], axis=1)


def _of_neurons(batch: Batch, D: Inexact[Array, "i"], q: Inexact[Array, "k"]) -> Inexact[Array, "s s"]:
    """Q in the columns Z; with the literal gradient neurons' features have no component along a, in the rest and in sector 1."""
    problem, Z = batch.model.problem, batch.neurons
    G = (Z.T * (problem.N * q)) @ Z
    if problem.gradient != "full":
        return G
    U, K = batch.output, batch.linear
    Q = solve(np.eye(len(G)) - G @ (U * D) @ U.T, G)
    seen = batch.linear_output.T @ Q
    rest = K.T @ (G / batch.model.sectors[0].dim) @ K - seen @ batch.linear_output
    return Q + seen.T @ solve(np.eye(D.size) + D[:, None] * rest, D[:, None] * seen)
