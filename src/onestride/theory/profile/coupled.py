"""The special sector when directions of sector 1 are not independent of each other: inputs with a covariance.

Sector 1 has the precision 𝒜_p = D⁻¹ + V₀_p on coordinate p, U_p = 𝒜_p⁻¹. Means reach it along a few directions: e, the
unlearned part of the teacher, and others, a, whose weights hang together with a neuron's kind. Coordinates that are
functions of the row, u, are no part of it: a vector Y_p of sector 1 has S_u = Σ_p u_p Y_p = 0. With

    𝒰_ab = Σ_p a_p b_p U_p,       D̃_ab = 𝒰_ab − 𝒰_au 𝒰_uu⁻¹ 𝒰_ub        the covariance of S_a = Σ_p a_p Y_p.

K = X Y is a product of few columns and rows, and V₀ = YᵀC Y; with P = Y D Yᵀ, T = (I + P C)⁻¹ and W_ab = Σ_p a_p b_p C_p T_p

    U_p = D − D Yᵀ C_p T_p Y D,       D̃_ab = (a·b) D − D Yᵀ(W_ab + W_au P(I − W_uu P)⁻¹ W_ub) Y D.

Features and teacher see a vector of the special sector through few columns B of each block (on functions of the row, on the
same times xᵀMx/d, and on S_a); those are its coordinates here, B_a D̃_ab B_bᵀ their covariance. Under forces F = Bᵀb the
minimum has Y_p = U_p(Σ_u u_p μ_u + Σ_a a_p F_a), μ = Yᵀ(I − W_uu P)⁻¹ Σ_a W_ua Y D F_a, and the derivative of FᵀD̃F is that of
Σ_p (…)ᵀU_p(…) at fixed forces.

Means may reach degree two as well, along e ⊗ e: a last block, whose D̃ is Σ_t π_tU_t of sector 2.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onestride._numerics import Array, Float, Inexact, solve
from onestride.theory.profile.equations import block
from onestride.theory.profile.sectors import Coupled, Model

Tangent = tuple[Array, Array]  # dρ, dq


class Blocks(NamedTuple):
    """Vectors of the special sector by name: f of the row, memory (f times xᵀMx/d), directions, and the teacher's, in columns."""

    bases: dict[str, Float[Array, "r i"]]
    neurons: int

    def vector(self, **parts: Array) -> Float[Array, "k m"]:
        """Side by side, 0 where nothing is given; a part may leave out the last columns."""
        out: list[Array] = []
        for name, B in self.bases.items():
            part = parts.get(name, np.zeros((self.neurons, 0)))
            out.append(np.pad(part, ((0, 0), (0, len(B) - part.shape[1]))))
        return np.concatenate(out, axis=1)


class Resolved(NamedTuple):
    """C T of sector 1 at every p, W between all directions (flattened over u and its columns), P, (I − W_uu P)⁻¹, and C T of sector 2."""

    CT: Inexact[Array, "p r r"]
    W: Inexact[Array, "a a r r"]
    P: Inexact[Array, "r r"]
    free: Inexact[Array, "ur ur"]
    second: Inexact[Array, "t r r"] | None


def coupled_of(model: Model) -> Coupled:
    """The directions, of a model that has them."""
    assert model.means.coupled is not None
    return model.means.coupled


def resolved(model: Model, rho: Inexact[Array, "i"], q: Inexact[Array, "k"]) -> Resolved:
    """Sector 1 at a solution, as the directions see it."""
    linear, coupled = model.sectors[0], coupled_of(model)
    X, Y = linear.factors
    P = (Y * (model.w * rho)) @ Y.T
    weight = (model.weight * q * (model.problem.N / linear.dim))[:, None] * linear.strength
    C = np.stack([(X.T * column) @ X for column in weight.T])
    CT = C @ solve(np.eye(P.shape[0]) + P @ C, np.broadcast_to(np.eye(P.shape[0]), C.shape))
    W = np.tensordot(coupled.mass, CT, axes=(2, 0))
    rows, size = coupled.rows, P.shape[0]
    WP = (W[:rows, :rows] @ P).transpose(0, 2, 1, 3).reshape(rows * size, rows * size)
    second = None
    if coupled.squared:
        Y, g = model.sectors[1].factors[1], model.sectors[1].teacher_strength.T
        second = block(model, model.sectors[1], (Y * (model.w * rho)) @ Y.T, q, g).CT
    return Resolved(CT, W, P, solve(np.eye(rows * size) - WP, np.eye(rows * size)), second)


def _shares_of_second(model: Model) -> Float[Array, "t"]:
    """π_t of sector 2 along the teacher, which has one direction here."""
    return np.square(model.sectors[1].teacher_frame).sum((1, 2))


def _inner(model: Model, at: Resolved) -> Inexact[Array, "a a r r"]:
    """W_ab + W_au P(I − W_uu P)⁻¹ W_ub for the directions of the blocks."""
    rows, size = coupled_of(model).rows, at.P.shape[0]
    count = at.W.shape[0] - rows
    Wub = at.W[:rows, rows:].transpose(0, 2, 1, 3).reshape(rows * size, count * size)
    back = np.kron(np.eye(rows), at.P) @ (at.free @ Wub)
    out = (Wub.T @ back).reshape(count, size, count, size).transpose(0, 2, 1, 3)
    return at.W[rows:, rows:] + out


def coupled_carrier(model: Model, rho: Inexact[Array, "i"], at: Resolved) -> Inexact[Array, "m m"]:
    """B D̃ Bᵀ: D̃ is D on the first two blocks, then comes that of the directions."""
    coupled, D, Y = coupled_of(model), model.w * rho, model.sectors[0].factors[1]
    dots, inner = coupled.mass[coupled.rows :, coupled.rows :].sum(-1), _inner(model, at)
    seen = [(B * D) @ Y.T for B in coupled.of_directions]
    wide = np.zeros((model.means.h.size,) * 2, inner.dtype)
    start = coupled.starts
    for j, B in enumerate(coupled.bases[: 2 + len(seen)]):
        for l in range(j if j < 2 else 2, j + 1):
            C = coupled.bases[l]
            value = (B * D) @ C.T
            if j >= 2:
                value = dots[j - 2, l - 2] * value - seen[j - 2] @ inner[j - 2, l - 2] @ seen[l - 2].T
            wide[start[j] : start[j + 1], start[l] : start[l + 1]] = value
            wide[start[l] : start[l + 1], start[j] : start[j + 1]] = value.T
    if at.second is not None:
        B = coupled.bases[-1] * D
        to = B @ model.sectors[1].factors[1].T
        inner = np.tensordot(_shares_of_second(model), at.second, 1)
        wide[start[-2] :, start[-2] :] = B @ coupled.bases[-1].T - to @ inner @ to.T
    return wide


def _forces(model: Model, rho: Inexact[Array, "i"], at: Resolved, b: Inexact[Array, "m"]) -> tuple[Array, Array]:
    """Bᵀb on the first two blocks, and on all directions, the rows' coordinates (μ) first."""
    coupled, Y = coupled_of(model), model.sectors[0].factors[1]
    start = coupled.starts
    every = coupled.bases[: 2 + len(coupled.of_directions)]
    F = np.stack([b[start[j] : start[j + 1]] @ B for j, B in enumerate(every)])
    seen = np.einsum("uars,as->ur", at.W[: coupled.rows, coupled.rows :], F[2:] @ (Y * (model.w * rho)).T).ravel()
    return F[:2], np.concatenate([(at.free @ seen).reshape(coupled.rows, -1) @ Y, F[2:]])


def coupled_moved(model: Model, rho: Inexact[Array, "i"], at: Resolved, b: Inexact[Array, "m"], along: Tangent) -> Any:
    """bᵀ dD̃ b."""
    plain, F = _forces(model, rho, at, b)
    moved = sum(part @ (model.w * along[0] * part) for part in plain)
    moved = moved + _second_moved(model, rho, at, b, along)
    return moved + _sector_moved(model, rho, at, F, coupled_of(model).mass, along)


def _second_moved(model: Model, rho: Inexact[Array, "i"], at: Resolved, b: Inexact[Array, "m"], along: Tangent) -> Any:
    """The same of the block of degree two: Σ_t π_t FᵀdU_tF."""
    if at.second is None:
        return 0.0
    coupled, sector, D = coupled_of(model), model.sectors[1], model.w * rho
    F, Y = b[coupled.starts[-2] :] @ coupled.bases[-1], sector.factors[1]
    left = F - (at.second @ (Y @ (D * F))) @ Y  # t i: D⁻¹U_tF
    Kx, share = (left * D) @ sector.K.T, _shares_of_second(model)
    by_neurons = (model.weight * along[1] * (model.problem.N / sector.dim)) @ (sector.teacher_strength * (Kx**2).T)
    return share @ (left**2 @ (model.w * along[0])) - share @ by_neurons


def _answer(
    model: Model, rho: Inexact[Array, "i"], at: Resolved, b: Inexact[Array, "m"]
) -> tuple[Inexact[Array, "i"], Inexact[Array, "i k"]]:
    """D̃Bᵀb itself, on functions of the row and along the teacher's directions."""
    D, Y = model.w * rho, model.sectors[0].factors[1]
    plain, F = _forces(model, rho, at, b)
    x = F - (F @ (Y * D).T) @ at.CT.transpose(0, 2, 1) @ Y  # p a i: D⁻¹U_pF_a
    taught = coupled_of(model).mass[-model.problem.directions :]
    return D * plain[0], D[:, None] * np.einsum("kap,pai->ik", taught, x)


def _sector_moved(
    model: Model, rho: Inexact[Array, "i"], at: Resolved, F: Inexact[Array, "a i"], mass: Array, along: Tangent
) -> Any:
    """Σ_p Σ_ab mass_abp F_aᵀ dU_p F_b."""
    linear, D = model.sectors[0], model.w * rho
    X, Y = linear.factors
    inner = (F @ (Y * D).T) @ at.CT.transpose(0, 2, 1)  # p a r: C T Y D F
    b = F - inner @ Y  # D⁻¹U_pF
    weighted = np.einsum("abp,pbi->pai", mass, b)
    moved = np.einsum("pai,i,pai->", weighted, model.w * along[0], b)
    Kx = ((b * D) @ Y.T) @ X.T  # p a k
    weight = (model.weight * along[1] * (model.problem.N / linear.dim))[:, None] * linear.strength
    return moved - np.einsum("pak,kp,pak->", np.einsum("abp,pbk->pak", mass, Kx), weight, Kx)


class _Gram(NamedTuple):
    """M for mean features b, (Ū⁻¹ − V_aa)⁻¹X = D Yᵀ answer and what Ū is applied to in it, Yᵀ applied (K = X Y)."""

    b: Float[Array, "k m"]
    M: Inexact[Array, "m m"]
    answer: Inexact[Array, "r m"]
    applied: Inexact[Array, "r m"]


def _of_neurons_alone(model: Model, q: Inexact[Array, "k"]) -> Inexact[Array, "m m"]:
    """N Σ_k w_k q_k of the parts that are independent from neuron to neuron: most of the work, and the same for all cases."""
    weight, M = model.problem.N * model.weight * q, np.zeros((model.means.h.size,) * 2, q.dtype)
    for sign, parts in (1, model.means.independent), (-1, coupled_of(model).less):
        for part in parts:
            used = np.flatnonzero(part.any(0))
            some = part[:, used]
            M[np.ix_(used, used)] += (some.T * (sign * weight)) @ some
    return M


def _gram(model: Model, b: Float[Array, "k m"], q: Inexact[Array, "k"], at: Resolved, alone: Array) -> _Gram:
    """N Σ_k w_k q_k b_k b_kᵀ with the independent parts, and what t = Wᵀa adds as in `quadratic_form`: xᵀ P answer."""
    N, wq = model.problem.N, model.weight * q
    M = alone + (b.T * (N * wq)) @ b
    x = (model.sectors[0].factors[0].T * (np.sqrt(N) * wq * model.A)) @ b
    answer, applied = without_output(model, x, q, at)
    return _Gram(b, M + x.T @ (at.P @ answer), answer, applied)


def _gram_moved(model: Model, gram: _Gram, x: Inexact[Array, "m"], rho: Array, at: Resolved, along: Tangent) -> Any:
    """xᵀ dM x."""
    N, u, (X, Y) = model.problem.N, gram.b @ x, model.sectors[0].factors
    y = X @ (at.P @ (gram.answer @ x))
    each = u * u + sum((part @ x) ** 2 for part in model.means.independent)
    each = N * (each - sum((part @ x) ** 2 for part in coupled_of(model).less))
    each = each + 2 * np.sqrt(N) * model.A * u * y + model.A**2 * y * y
    return (model.weight * along[1]) @ each + norm_moved(model, rho, at, Y.T @ (gram.applied @ x), along)


def coupled_form(
    model: Model, rho: Inexact[Array, "i"], q: Inexact[Array, "k"], tangents: Sequence[Tangent]
) -> tuple[Any, list[Any]]:
    """What the special sector adds to Y = yᵀRy, and its derivatives."""
    at, h = resolved(model, rho, q), model.means.h
    wide, alone = coupled_carrier(model, rho, at), _of_neurons_alone(model, q)
    Y: Any = 0.0
    derivatives: list[Any] = [0.0 for _ in tangents]
    for probability, b in model.means.cases:
        gram = _gram(model, b, q, at, alone)
        x = wide @ solve(np.eye(h.size) + gram.M @ wide, h)
        Y += probability * (h @ x)
        for j, along in enumerate(tangents):
            moved = coupled_moved(model, rho, at, h - gram.M @ x, along)
            derivatives[j] += probability * (moved - _gram_moved(model, gram, x, rho, at, along))
    return Y, derivatives


def coupled_special(
    model: Model, b: Float[Array, "k m"], rho: Inexact[Array, "i"], q: Inexact[Array, "k"]
) -> tuple[Inexact[Array, "m m"], Inexact[Array, "m m"]]:
    """D̃ and M of the special sector."""
    at = resolved(model, rho, q)
    return coupled_carrier(model, rho, at), _gram(model, b, q, at, _of_neurons_alone(model, q)).M


def coupled_answers(
    model: Model, rho: Inexact[Array, "i"], q: Inexact[Array, "k"]
) -> tuple[Inexact[Array, "i"], Inexact[Array, "i m"]]:
    """R y on functions of the row, and in sector 1 along the teacher's directions."""
    at, h = resolved(model, rho, q), model.means.h
    wide, alone = coupled_carrier(model, rho, at), _of_neurons_alone(model, q)
    out = np.zeros((rho.size, 1 + model.problem.directions))
    for probability, b in model.means.cases:
        M = _gram(model, b, q, at, alone).M
        x = wide @ solve(np.eye(h.size) + M @ wide, h)
        out = out + probability * np.column_stack(_answer(model, rho, at, h - M @ x))
    return out[:, 0], out[:, 1:]


def without_output(
    model: Model, x: Inexact[Array, "r m"], q: Inexact[Array, "k"], at: Resolved
) -> tuple[Inexact[Array, "r m"], Inexact[Array, "r m"]]:
    """(Ū⁻¹ − V_aa)⁻¹Yᵀx = D Yᵀ answer, and what Ū is applied to in it; Ū = Σ_p norm_p U_p, the resolvent in the neurons' own norm.

    In the few columns of K = X Y: Ū Yᵀ = D Yᵀ(Σ norm − Σ_p norm_p C_pT_p P) and V_aa = Yᵀ own Y.
    """
    X, norm = model.sectors[0].factors[0], coupled_of(model).norm
    own = (X.T * (model.weight * q * model.A**2)) @ X
    U = norm.sum() * np.eye(len(own)) - np.tensordot(norm, at.CT, axes=1) @ at.P
    answer = solve(np.eye(len(own)) - U @ own @ at.P, U @ x)
    return answer, x + own @ (at.P @ answer)


def norm_moved(model: Model, rho: Inexact[Array, "i"], at: Resolved, c: Inexact[Array, "i"], along: Tangent) -> Any:
    """cᵀ dŪ c."""
    return _sector_moved(model, rho, at, c[None], coupled_of(model).norm[None, None], along)
