"""Y = yᵀRy and its derivatives: the errors of the ridge fit, read off a solution of the profile equations.

The mean features b_k span a special sector with Gram matrix M and resolvent (D̃⁻¹ + M)⁻¹; every other sector answers with
its U. With h₀ and h_l the teacher's parts,

    M = N Σ_k w_k q_k b_k b_kᵀ,      D̃ = D, once for each block of the special sector,
    Y = h₀ᵀ(D̃⁻¹ + M)⁻¹h₀ + Σ_l Σ_p π_p h_lᵀ U_lp h_l + Σ_i w_i ρ_i (tail_i + σ_ε²).

When the learned direction is t = Wᵀa the linear part has no component along a, which adds to M

    Xᵀ(D⁻¹ + V₀ − V_aa)⁻¹X,   X = √N Σ_k w_k q_k A_k K_k b_kᵀ,   V_aa = Σ_k w_k q_k A_k² K_k K_kᵀ      (K of sector 1).

When the means reach the teacher's direction in sector 1, that direction is a block of the special sector: its D̃ is
U₁ = Σ_p π_p U_1p and its h is h₁.

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
    weight = model.problem.N * model.weight * q
    return sum(((part.T * weight) @ part for part in model.means.independent), (b.T * weight) @ b)


def special_gram(
    model: Model, b: Float[Array, "k m"], rho: Inexact[Array, "i"], q: Inexact[Array, "k"], along: Tangent | None = None
) -> tuple[Inexact[Array, "m m"], Inexact[Array, "m m"] | None]:
    """M of the special sector for mean features b, and its derivative along (dρ, dq) when asked."""
    M = mean_gram(model, b, q)
    dM = None if along is None else mean_gram(model, b, along[1])
    if not model.learned.through_output:
        return M, dM
    N, weight, linear = model.problem.N, model.weight, model.sectors[0]
    K = linear.K * np.sqrt(linear.mean_strength)[:, None]

    def cross(q: Array) -> Array:
        return (K.T * (np.sqrt(N) * weight * q * model.A)) @ b

    def rest(q: Array) -> Array:  # V₀ − V_aa
        return (K.T * (weight * q * (N / linear.dim - model.A**2))) @ K

    D = model.w * rho
    X = cross(q)
    E = solve(np.eye(D.size) + D[:, None] * rest(q), np.eye(D.size))
    Y = E @ (D[:, None] * X)
    M = M + X.T @ Y
    if dM is not None and along is not None:
        d_rho, d_q = along
        Z, dX = E.T @ X, cross(d_q)
        dM = dM + dX.T @ Y + Y.T @ dX + Z.T @ ((model.w * d_rho)[:, None] * Z) - Y.T @ rest(d_q) @ Y
    return M, dM


class Answer(NamedTuple):
    """What a sector makes of a vector h on the rows at one p of the teacher's law: x = U h and b = D⁻¹x."""

    share: float
    strength: Array
    x: Array
    b: Array


def answers(
    model: Model, sector: Sector, h: Inexact[Array, "i *m"], rho: Inexact[Array, "i"], q: Inexact[Array, "k"]
) -> list[Answer]:
    """U h for every p of the law along the teacher, from D⁻¹U = I − Yᵀ(C T)Y D."""
    D = model.w * rho
    Y = sector.factors[1]
    P, Dh = (Y * D) @ Y.T, (D * h.T).T
    out = []
    for share, g in zip(sector.teacher_share, sector.teacher_strength.T, strict=True):
        b = h - Y.T @ (block(model, sector, P, q, g).CT @ (Y @ Dh))
        out.append(Answer(float(share), g, (D * b.T).T, b))
    return out


def _moved(model: Model, sector: Sector, answer: Answer, along: Tangent) -> Any:
    """Derivative of hᵀUh: bᵀ dD b − Σ_k (N/B) w_k dq_k g_k (K x)_k²."""
    d_rho, d_q = along
    Kx = sector.K @ answer.x
    weight = model.weight * d_q * answer.strength * (model.problem.N / sector.dim)
    return answer.b @ (model.w * d_rho * answer.b) - weight @ (Kx * Kx)


def carrier(model: Model, rho: Inexact[Array, "i"], q: Inexact[Array, "k"]) -> Inexact[Array, "m m"]:
    """D̃ of the special sector."""
    D, blocks = model.w * rho, model.means.h.size // rho.size
    wide = np.diag(np.tile(D, blocks))
    if model.means.carried:
        size = D.size
        wide[-size:, -size:] = sum(a.share * a.x for a in answers(model, model.sectors[0], np.eye(size), rho, q))
    return wide


def special_answer(
    model: Model, M: Inexact[Array, "m m"], wide: Inexact[Array, "m m"], h: Float[Array, "m"]
) -> Inexact[Array, "m"]:
    """X = (D̃⁻¹ + M)⁻¹h."""
    size = model.w.size
    if np.iscomplexobj(wide) or np.diag(wide).min() <= 0:
        return wide @ solve(np.eye(h.size) + M @ wide, h)
    # for λ > 0 in a form whose matrix has eigenvalues ≥ 1
    root = np.diag(np.sqrt(np.diag(wide)))
    if model.means.carried:
        root[-size:, -size:] = np.linalg.cholesky((wide[-size:, -size:] + wide[-size:, -size:].T) / 2)
    return root @ solve(np.eye(h.size) + root.T @ M @ root, root.T @ h)


def quadratic_form(model: Model, solution: Solution, tangents: Sequence[Tangent] = ()) -> tuple[Any, list[Any]]:
    """Y and its derivative along each tangent (dρ, dq) of the solution."""
    rho, q = solution.rho, solution.q
    tail = model.tail + model.problem.noise**2
    Y: Any = (model.w * rho) @ tail
    derivatives: list[Any] = [(model.w * d_rho) @ tail for d_rho, _ in tangents]
    for sector in model.sectors[1:] if model.means.carried else model.sectors:
        for answer in answers(model, sector, sector.h, rho, q):
            Y += answer.share * (sector.h @ answer.x)
            for j, along in enumerate(tangents):
                derivatives[j] += answer.share * _moved(model, sector, answer, along)
    wide, h = carrier(model, rho, q), model.means.h
    for probability, b in model.means.cases:
        M, _ = special_gram(model, b, rho, q)
        x = special_answer(model, M, wide, h)
        Y += probability * (h @ x)
        for j, along in enumerate(tangents):
            dM = special_gram(model, b, rho, q, along)[1]
            derivatives[j] += probability * (_moved_special(model, rho, q, h - M @ x, along) - x @ dM @ x)
    return Y, derivatives


def _moved_special(
    model: Model, rho: Inexact[Array, "i"], q: Inexact[Array, "k"], b: Inexact[Array, "m"], along: Tangent
) -> Any:
    """bᵀ dD̃ b, block by block."""
    size, blocks = rho.size, b.size // rho.size
    dD = model.w * along[0]
    parts = b.reshape(blocks, size)
    carried = parts[-1:] if model.means.carried else parts[:0]
    plain = parts[: blocks - carried.shape[0]]
    moved = sum(part @ (dD * part) for part in plain)
    for part in carried:
        linear = model.sectors[0]
        moved += sum(a.share * _moved(model, linear, a, along) for a in answers(model, linear, part, rho, q))
    return moved
