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

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag

from onestride._numerics import Array, Float, Inexact, solve
from onestride.problem import Problem, Step
from onestride.theory.bulk import bulk_of
from onestride.theory.direction import direction
from onestride.theory.profile.batch_plane import Plane, plane_of, sectors_of
from onestride.theory.profile.batch_rows import GroupedRows, batch_rows, own_share, with_test_rows
from onestride.theory.profile.equations import Solution, block, newton
from onestride.theory.profile.harmonics import degrees_resolved, resolve
from onestride.theory.profile.neurons import normal_rule, resolution
from onestride.theory.profile.sectors import Means, Model, Sector, split_teacher

_NODES = 31  # of z on the rows of the second kind, and of A
_GROUPS = (21, 9)  # of z and of r, of the samples of the step and of fresh ones alike
_DEGREES, _NOISE = (
    4,
    60.0,
)  # resolved at most; a degree of more than so many times max(n, N) harmonics is noise to the ratio
_JUDGED = 1e9  # penalty of the rows of the second kind, in units of λ
_STEP = 1e-30  # imaginary, for derivatives


class Batch(NamedTuple):
    """The model on the rows of both kinds, these rows, κ, what xᵀMx/d adds to mean features, which rows are of the first kind, the
    directions they are known by, and p along these (off u) where t is not all of Wᵀa.
    """

    model: Model
    rows: GroupedRows
    kappa: Float[Array, "k i"]
    remembered: Float[Array, "k i"]
    fitted: Array
    plane: Plane
    output: Float[Array, "e"]


def ratio(problem: Problem, lam: Float[Array, "lam"]) -> Float[Array, "3 lam"]:
    """Ridge objective, training and test error on the samples of the step over those on fresh ones; NaN where not solved."""
    if direction(problem).residual_power == 0 or problem.eta == 0:
        return np.ones((3, lam.size))
    if problem.readout == "constant":  # of an odd activation: the same with neurons turned round
        problem = problem.replace(readout="rademacher")
    with np.errstate(all="ignore"):
        after, before = (
            _errors(_build(problem, seen=True, moved=moved), lam)
            / _errors(_build(problem, seen=False, moved=moved), lam)
            for moved in (True, False)
        )
        return after / before


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
    output = plane.axes[1:, k] * (not moved)
    return Batch(model, rows, kappa, parts[-1] * bent[:, None], fitted, plane, output)


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
    model, rows, problem = batch.model, batch.rows, batch.model.problem
    D, linear, N = model.w * rho, model.sectors[0], problem.N
    nothing = np.zeros((D.size, 1))
    one, form = np.eye(rows.label.shape[1] + 1)[[0, -1]]  # the blocks of functions of the row, of those times xᵀMx/d
    B = [_on(model.means.cases[0][1], np.tile(one, (D.size, 1))) + _on(batch.remembered, np.tile(form, (D.size, 1)))]
    S = [np.diag(N * model.weight * q)]
    if problem.gradient == "full":
        with_a = (model.A / np.sqrt(N))[:, None]
        B[0] = B[0] + _on(batch.kappa * with_a, np.append(rows.output, nothing, axis=1))
        for x, on_output in zip(rows.plane, batch.output, strict=True):
            B[0] = B[0] + _on(linear.K / np.sqrt(model.v)[:, None] * with_a * on_output, np.append(x, nothing, axis=1))
        S[0] = _without_a(batch, D, S[0], with_a)
    coordinates = [np.append(x, nothing, axis=1) for x in rows.plane]
    if batch.plane.turned:
        coordinates = [np.outer(rows.z, one), *coordinates]
    B += [_on(linear.factors[1], coordinate) for coordinate in coordinates]
    S.append(_hanging_together(batch, D, q))
    if len(model.sectors) > 1:
        seen = np.sqrt(model.sectors[1].dim / problem.n) * rows.unit
        B.append(_on(model.sectors[1].factors[1], np.outer(seen, one) + form))
        V, P = _dressed(model, model.sectors[1], D, q)
        S.append(V @ solve(np.eye(P.shape[0]) - P @ V, np.eye(P.shape[0])))
    for sector in model.sectors[:2] if rows.unit.any() else ():
        B.append(_on(sector.factors[1], np.outer(rows.unit, one)))
        S.append(-(sector.dim / problem.n) * _dressed(model, sector, D, q)[0])
    basis, middle = np.concatenate(B), block_diag(*S)
    wide, h = np.tile(D, one.size), np.append(rows.label, nothing, axis=1).T.ravel()
    v = basis @ (wide * h)
    x = solve(np.eye(v.size) + (basis * wide) @ basis.T @ middle, v)
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


def _without_a(
    batch: Batch, D: Inexact[Array, "i"], q: Inexact[Array, "k k"], with_a: Float[Array, "k 1"]
) -> Inexact[Array, "k k"]:
    """Q of neurons whose features have no component along a, in the rest and in sector 1; q holds N w_k q_k."""
    linear, eye = batch.model.sectors[0], np.eye(D.size)
    U = batch.kappa * with_a
    seen = U.T @ q
    Q = q + seen.T @ solve(eye - D[:, None] * (seen @ U), D[:, None] * seen)
    K = linear.K * np.sqrt(linear.mean_strength)[:, None]
    U = K * with_a
    seen = U.T @ Q
    return Q + seen.T @ solve(eye + D[:, None] * ((K.T @ q @ K) / linear.dim - seen @ U), D[:, None] * seen)
