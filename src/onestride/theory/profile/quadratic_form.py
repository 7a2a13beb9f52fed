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

Ridge objective λY, training error −λ² ∂Y/∂λ, and by the leave-one-out identity the test error is −∂Y/∂t at
λ_i = λ + t/ρ_i².
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from onestride._numerics import Array, Float, Inexact, solve
from onestride.theory.profile.equations import Solution, block
from onestride.theory.profile.sectors import Model, Sector

Tangent = tuple[Array, Array]  # dρ, dq


def mean_gram(model: Model, b: Float[Array, "k m"], q: Inexact[Array, "k"]) -> Inexact[Array, "m m"]:
    """N Σ_k w_k q_k b_k b_kᵀ, with the parts that are independent from neuron to neuron."""
    weight, means = model.problem.N * model.weight * q, model.means
    M = sum(((part.T * weight) @ part for part in means.independent), (b.T * weight) @ b)
    if means.excess is not None:
        K, e = model.sectors[0].K, means.carried
        blocks = [[(K.T * (weight * means.excess[:, a, c])) @ K for c in range(e)] for a in range(e)]
        M[-e * K.shape[1] :, -e * K.shape[1] :] += np.block(blocks)
    return M


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
    excess, K = model.means.excess, model.sectors[0].K
    if excess is None:
        return 0.0
    Kx = K @ x[-model.means.carried * K.shape[1] :].reshape(-1, K.shape[1]).T
    return np.einsum("ka,kab,kb->k", Kx, excess, Kx)


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
    out = []
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


def carrier(model: Model, rho: Inexact[Array, "i"], q: Inexact[Array, "k"]) -> Inexact[Array, "m m"]:
    """D̃ of the special sector: D, and Σ_t frame_tᵀframe_t ⊗ U_t on the blocks that carry the teacher's directions."""
    D, blocks = model.w * rho, model.means.h.size // rho.size
    wide = np.diag(np.tile(D, blocks))
    if model.means.carried:
        size, linear = model.means.carried * D.size, model.sectors[0]
        Y = linear.factors[1]
        YD = Y * D
        inner = [block(model, linear, YD @ Y.T, q, g).CT for g in linear.teacher_strength.T]
        shares = np.einsum("tca,tcb->tab", linear.teacher_frame, linear.teacher_frame)
        # U_t = D − (Y D)ᵀ(C T)_t (Y D)
        mixed = np.tensordot(shares, np.stack(inner), ((0,), (0,)))
        less = np.einsum("abij->aibj", YD.T @ mixed @ YD)
        wide[-size:, -size:] = np.kron(shares.sum(0), np.diag(D)) - less.reshape(size, size)
    return wide


def special_answer(
    model: Model, M: Inexact[Array, "m m"], wide: Inexact[Array, "m m"], h: Float[Array, "m"]
) -> Inexact[Array, "m"]:
    """X = (D̃⁻¹ + M)⁻¹h."""
    size = model.means.carried * model.w.size
    if np.iscomplexobj(wide) or np.diag(wide).min() <= 0:
        return wide @ solve(np.eye(h.size) + M @ wide, h)
    # for λ > 0 in a form whose matrix has eigenvalues ≥ 1
    root = np.sqrt(np.diag(wide))
    last = np.linalg.cholesky((wide[-size:, -size:] + wide[-size:, -size:].T) / 2) if size else None

    def times_root(A: Array) -> Array:
        out = A * root
        if last is not None:
            out[..., -size:] = A[..., -size:] @ last
        return out

    x = solve(np.eye(h.size) + times_root(times_root(M).T), times_root(h))
    out = root * x
    if last is not None:
        out[-size:] = last @ x[-size:]
    return out


def quadratic_form(model: Model, solution: Solution, tangents: Sequence[Tangent] = ()) -> tuple[Any, list[Any]]:
    """Y and its derivative along each tangent (dρ, dq) of the solution."""
    rho, q = solution.rho, solution.q
    tail = model.tail + model.problem.noise**2
    Y: Any = (model.w * rho) @ tail
    derivatives: list[Any] = [(model.w * d_rho) @ tail for d_rho, _ in tangents]
    for sector in model.sectors[1:] if model.means.carried else model.sectors:
        for answer in answers(model, sector, sector.h, rho, q):
            Y += np.sum(answer.h * answer.x)
            for j, along in enumerate(tangents):
                derivatives[j] += _moved(model, sector, answer, along)
    wide, h = carrier(model, rho, q), model.means.h
    for probability, b in model.means.cases:
        at = special_gram(model, b, rho, q)
        x = special_answer(model, at.M, wide, h)
        Y += probability * (h @ x)
        for j, along in enumerate(tangents):
            moved = _moved_special(model, rho, q, h - at.M @ x, along)
            derivatives[j] += probability * (moved - gram_moved(model, at, x, along))
    return Y, derivatives


def _moved_special(
    model: Model, rho: Inexact[Array, "i"], q: Inexact[Array, "k"], b: Inexact[Array, "m"], along: Tangent
) -> Any:
    """bᵀ dD̃ b, block by block."""
    size, carried = rho.size, model.means.carried
    dD = model.w * along[0]
    parts = b.reshape(-1, size)
    moved = sum(part @ (dD * part) for part in parts[: len(parts) - carried])
    if carried:
        linear = model.sectors[0]
        moved += sum(_moved(model, linear, a, along) for a in answers(model, linear, parts[-carried:].T, rho, q))
    return moved
