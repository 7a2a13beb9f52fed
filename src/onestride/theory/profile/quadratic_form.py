"""Y = yᵀRy and its derivatives: the errors of the ridge fit, read off a solution of the profile equations.

The mean features b_k span a special sector with Gram matrix M and resolvent (D̃⁻¹ + M)⁻¹; every other sector answers with
its U. With h₀ and h_l the teacher's parts,

    M = N Σ_k w_k q_k b_k b_kᵀ,      D̃ = D, once for each block of the special sector,
    Y = h₀ᵀ(D̃⁻¹ + M)⁻¹h₀ + Σ_l Σ_p π_p h_lᵀ U_lp h_l + Σ_i w_i ρ_i (tail_i + σ_ε²).

When the learned direction is t = Wᵀa the linear part has no component along a, which adds to M

    Xᵀ(D⁻¹ + V₀ − V_aa)⁻¹X,   X = √N Σ_k w_k q_k A_k K_k b_kᵀ,   V_aa = Σ_k w_k q_k A_k² K_k K_kᵀ      (K of sector 1).

When the means reach the teacher's direction in sector 1, that direction is a block of the special sector: its D̃ is
U₁ = Σ_p π_p U_1p and its h is h₁. Teachers of several directions have several parts h_l in a sector, and a node of their law
sees combinations of them: hᵀUh and π_p are matrices then (`Sector.teacher_frame`).

Where the directions of sector 1 hang together (inputs with a covariance) the special sector is that of `coupled`.

Ridge objective λY, training error −λ² ∂Y/∂λ, and by the leave-one-out identity the test error is −∂Y/∂t at
λ_i = λ + t/ρ_i².
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from onestride._numerics import Array, Float, Inexact, solve
from onestride.theory.profile.coupled import coupled_form
from onestride.theory.profile.equations import Solution, block
from onestride.theory.profile.sectors import Model, Sector

Tangent = tuple[Array, Array]  # dρ, dq


def mean_gram(model: Model, b: Float[Array, "k m"], q: Inexact[Array, "k"]) -> Inexact[Array, "m m"]:
    """N Σ_k w_k q_k b_k b_kᵀ, with the parts that are independent from neuron to neuron."""
    weight, means = model.problem.N * model.weight * q, model.means
    M = sum(((part.T * weight) @ part for part in means.independent), (b.T * weight) @ b)
    for sector, at, excess in _carried(model):
        if excess is not None:
            K, count = sector.K, range(excess.shape[1])
            blocks = [[(K.T * (weight * excess[:, a, c])) @ K for c in count] for a in count]
            M[at, at] += np.block(blocks)
    return M


def _carried(model: Model) -> Iterator[tuple[Sector, slice, Float[Array, "k _ _"] | None]]:
    """The sectors that carry blocks of the special sector: where those are, and their excess."""
    means, start = model.means, model.means.h.size
    for sector, combined, excess in zip(model.sectors, means.carried, means.excess, strict=False):
        stop = start + combined.shape[0] * model.w.size
        yield sector, slice(start, stop), excess
        start = stop


class Gram(NamedTuple):
    """M of the special sector for mean features b, and what the direction a adds to it, XᵀY = Zᵀ D Z (t = Wᵀa only)."""

    b: Float[Array, "k m"]
    M: Inexact[Array, "m m"]
    K: Float[Array, "k i"] | None = None
    Y: Inexact[Array, "i m"] | None = None
    Z: Inexact[Array, "i m"] | None = None


def special_gram(model: Model, b: Float[Array, "k m"], rho: Inexact[Array, "i"], q: Inexact[Array, "k"]) -> Gram:
    """M with Z = (I + (V₀ − V_aa) D)⁻¹X and Y = D Z."""
    M = mean_gram(model, b, q)
    if not model.learned.through_output:
        return Gram(b, M)
    N, wq, linear, D = model.problem.N, model.weight * q, model.sectors[0], model.w * rho
    K = linear.K * np.sqrt(linear.mean_strength)[:, None]
    X = (K.T * (np.sqrt(N) * wq * model.A)) @ b
    rest = (K.T * (wq * (N / linear.dim - model.A**2))) @ K  # V₀ − V_aa
    Z = solve(np.eye(D.size) + rest * D, X)
    Y = D[:, None] * Z
    return Gram(b, M + X.T @ Y, K, Y, Z)


def gram_moved(model: Model, at: Gram, x: Inexact[Array, "m"], along: Tangent) -> Any:
    """xᵀ dM x: Σ_k w_k dq_k (N (b_k·x)² + 2√N A_k (b_k·x) y_k − (N/B − A_k²) y_k²) + (Zx)ᵀ dD (Zx) with y = K Y x."""
    d_rho, d_q = along
    N, u = model.problem.N, at.b @ x
    each = N * (u * u + sum((part @ x) ** 2 for part in model.means.independent) + _excess_form(model, x))
    if at.K is None or at.Y is None or at.Z is None:
        return (model.weight * d_q) @ each
    y, z = at.K @ (at.Y @ x), at.Z @ x
    each = each + 2 * np.sqrt(N) * model.A * u * y - (N / model.sectors[0].dim - model.A**2) * y * y
    return (model.weight * d_q) @ each + z @ (model.w * d_rho * z)


def _excess_form(model: Model, x: Inexact[Array, "m"]) -> Any:
    """Σ_ab excess_ab (K x_a)_k (K x_b)_k on the carried blocks of x."""
    form: Any = 0.0
    for sector, at, excess in _carried(model):
        if excess is not None:
            Kx = sector.K @ x[at].reshape(-1, model.w.size).T
            form = form + np.einsum("ka,kab,kb->k", Kx, excess, Kx)
    return form


class Answer(NamedTuple):
    """What a sector makes of vectors on the rows at one node of the teacher's law: h seen there, x = U h and b = D⁻¹x."""

    frame: Float[Array, "c m"]
    strength: Array
    h: Array
    x: Array
    b: Array


def answers(
    model: Model, sector: Sector, h: Inexact[Array, "i m"], rho: Inexact[Array, "i"], q: Inexact[Array, "k"]
) -> list[Answer]:
    """U h for every node of the law along the teacher, from D⁻¹U = I − Yᵀ(C T)Y D."""
    D, Y = model.w * rho, sector.factors[1]
    P = (Y * D) @ Y.T
    out: list[Answer] = []
    for frame, g in zip(sector.teacher_frame, sector.teacher_strength.T, strict=True):
        seen = h @ frame.T
        b = seen - Y.T @ (block(model, sector, P, q, g).CT @ ((Y * D) @ seen))
        out.append(Answer(frame, g, seen, D[:, None] * b, b))
    return out


def answered(found: list[Answer]) -> Inexact[Array, "i m"]:
    """Σ_t frame_tᵀ U_t frame_t h."""
    return np.sum([a.x @ a.frame for a in found], axis=0)


def _moved(model: Model, sector: Sector, answer: Answer, along: Tangent) -> Any:
    """Derivative of hᵀUh: bᵀ dD b − Σ_k (N/B) w_k dq_k g_k (K x)_k²."""
    d_rho, d_q = along
    Kx = sector.K @ answer.x
    weight = model.weight * d_q * answer.strength * (model.problem.N / sector.dim)
    return (model.w * d_rho) @ (answer.b * answer.b).sum(1) - weight @ (Kx * Kx).sum(1)


def carrier(
    model: Model, rho: Inexact[Array, "i"], q: Inexact[Array, "k"]
) -> tuple[Inexact[Array, "m m"], Inexact[Array, "m"]]:
    """D̃ of the special sector and D̃h: D, and Σ_t frame_tᵀframe_t ⊗ U_t on the blocks that sectors carry."""
    D, means = model.w * rho, model.means
    size = sum((combined.shape[0] * D.size for combined in means.carried), means.h.size)
    wide, known = np.zeros((size, size), D.dtype), np.zeros(size, D.dtype)
    plain = np.tile(D, means.h.size // D.size)
    wide[: plain.size, : plain.size], known[: plain.size] = np.diag(plain), plain * means.h
    for (sector, at, _), combined in zip(_carried(model), means.carried, strict=True):
        Y = sector.factors[1]
        YD = Y * D
        inner = [block(model, sector, YD @ Y.T, q, g).CT for g in sector.teacher_strength.T]
        seen = sector.teacher_frame @ combined.T
        shares = np.einsum("tca,tcb->tab", seen, seen)
        # U_t = D − (Y D)ᵀ(C T)_t (Y D)
        less = np.einsum("abij->aibj", YD.T @ np.tensordot(shares, np.stack(inner), ((0,), (0,))) @ YD)
        wide[at, at] = np.kron(shares.sum(0), np.diag(D)) - less.reshape(wide[at, at].shape)
        known[at] = (answered(answers(model, sector, sector.h, rho, q)) @ combined.T).T.ravel()
    return wide, known


def special_answer(
    model: Model, M: Inexact[Array, "m m"], wide: Inexact[Array, "m m"], known: Inexact[Array, "m"]
) -> Inexact[Array, "m"]:
    """X = (I + D̃M)⁻¹D̃h, which is (D̃⁻¹ + M)⁻¹h."""
    if np.iscomplexobj(wide) or np.diag(wide).min() <= 0:
        return solve(np.eye(known.size) + wide @ M, known)
    # for λ > 0 in a form whose matrix has eigenvalues ≥ 1, block by block of D̃ = RRᵀ
    plain = slice(0, model.means.h.size)
    root = np.sqrt(np.diag(wide)[plain])
    try:
        lower = [(at, np.linalg.cholesky((wide[at, at] + wide[at, at].T) / 2)) for _, at, _ in _carried(model)]
    except np.linalg.LinAlgError:  # rounding has made it singular
        return solve(np.eye(known.size) + wide @ M, known)

    def times_root(A: Array) -> Array:
        out = np.empty_like(A)
        out[..., plain] = A[..., plain] * root
        for at, R in lower:
            out[..., at] = A[..., at] @ R
        return out

    start = known.copy()
    start[plain] /= root
    for at, R in lower:
        start[at] = solve_triangular(R, known[at], lower=True)
    x = solve(np.eye(known.size) + times_root(times_root(M).T), start)
    x[plain] *= root
    for at, R in lower:
        x[at] = R @ x[at]
    return x


def left_in_sectors(model: Model, M: Inexact[Array, "m m"], x: Inexact[Array, "m"]) -> list[Inexact[Array, "i _"]]:
    """H − Mx in every sector: what the special sector leaves of the teacher's parts there."""
    out: list[Array] = [sector.h for sector in model.sectors]
    for l, (_, at, _) in enumerate(_carried(model)):
        out[l] = out[l] - (M[at] @ x).reshape(-1, model.w.size).T @ model.means.carried[l]
    return out


def quadratic_form(model: Model, solution: Solution, tangents: Sequence[Tangent] = ()) -> tuple[Any, list[Any]]:
    """Y and its derivative along each tangent (dρ, dq) of the solution."""
    rho, q = solution.rho, solution.q
    tail, plain, carrying = model.tail + model.problem.noise**2, model.means.h.size, len(model.means.carried)
    if model.means.coupled is not None:
        carrying = 1
    Y: Any = (model.w * rho) @ tail
    derivatives: list[Any] = [(model.w * d_rho) @ tail for d_rho, _ in tangents]

    def add(probability: float, sector: Sector, left: Array) -> None:
        nonlocal Y
        for answer in answers(model, sector, left, rho, q):
            Y += probability * np.sum((sector.h @ answer.frame.T) * answer.x)
            for j, along in enumerate(tangents):
                derivatives[j] += probability * _moved(model, sector, answer, along)

    for sector in model.sectors[carrying:]:
        add(1.0, sector, sector.h)
    if model.means.coupled is not None:
        special, moved = coupled_form(model, rho, q, tangents)
        return Y + special, [a + b for a, b in zip(derivatives, moved, strict=True)]
    wide, known = carrier(model, rho, q)
    for probability, b in model.means.cases:
        at = special_gram(model, b, rho, q)
        x = special_answer(model, at.M, wide, known)
        Y += probability * (model.means.h @ x[:plain])
        left = (model.means.h - at.M[:plain] @ x).reshape(-1, rho.size)
        for j, along in enumerate(tangents):
            moved = np.sum(left * left * (model.w * along[0]))
            derivatives[j] += probability * (moved - gram_moved(model, at, x, along))
        for sector, rest in zip(model.sectors[:carrying], left_in_sectors(model, at.M, x), strict=False):
            add(probability, sector, rest)
    return Y, derivatives
