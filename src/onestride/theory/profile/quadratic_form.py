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

Means and teacher lie in few columns of each block, b = b̂B and h = ĥB (`Model.few`), so that this is done in those:
hᵀ(D̃⁻¹ + BᵀM̂B)⁻¹h = ĥᵀ(D̂⁻¹ + M̂)⁻¹ĥ with D̂ = BD̃Bᵀ.

Where the directions of sector 1 hang together (inputs with a covariance) the special sector is that of `coupled`.

Ridge objective λY, training error −λ² ∂Y/∂λ, and by the leave-one-out identity the test error is −∂Y/∂t at
λ_i = λ + t/ρ_i².
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.linalg import solve_triangular

from onestride._numerics import Array, Float, Inexact, solve
from onestride.theory.profile.coupled import coupled_form
from onestride.theory.profile.equations import Solution, block
from onestride.theory.profile.sectors import FewColumns, Model, Sector

Tangent = tuple[Array, Array]  # dρ, dq


def mean_gram(
    model: Model, b: Float[Array, "*v k m"], q: Inexact[Array, "k"], few: FewColumns | None = None
) -> Inexact[Array, "*v m m"]:
    """N Σ_k w_k q_k b_k b_kᵀ, with the parts that are independent from neuron to neuron; in few columns, if given."""
    weight, means = model.problem.N * model.weight * q, model.means if few is None else few
    M = (b.mT * weight) @ b
    if means.independent:
        M += sum((part.T * weight) @ part for part in means.independent)
    for _, blocks, K, excess in _carried(model, few):
        if excess is not None:
            for a, left in enumerate(blocks):
                for c, right in enumerate(blocks):
                    M[..., left, right] += (K[a].T * (weight * excess[:, a, c])) @ K[c]
    return M


class _Carried(NamedTuple):
    """A sector that carries blocks of the special sector: where those are, its K in the coordinates of each, its excess."""

    sector: Sector
    blocks: Sequence[slice]
    K: Sequence[Array]
    excess: Float[Array, "k _ _"] | None


def _carried(model: Model, few: FewColumns | None) -> Iterator[_Carried]:
    means, size = model.means, model.w.size
    first = means.h.size // size
    for sector, combined, excess in zip(model.sectors, means.carried, means.excess, strict=False):
        each = range(first, first + combined.shape[0])
        if few is None:
            yield _Carried(sector, [slice(j * size, (j + 1) * size) for j in each], [sector.K for _ in each], excess)
        else:
            K = [] if excess is None else [few.K[j] for j in each]
            yield _Carried(sector, [few.blocks[j] for j in each], cast("list[Array]", K), excess)
        first = each.stop


class Gram(NamedTuple):
    """M of the special sector for mean features b, and what the direction a adds to it, XᵀDZ (t = Wᵀa only): K D Z = right @ y."""

    b: Float[Array, "*v k m"]
    M: Inexact[Array, "*v m m"]
    right: Float[Array, "k r"] | None = None
    y: Inexact[Array, "*v r m"] | None = None
    Z: Inexact[Array, "*v i m"] | None = None

    def case(self, v: int) -> Gram:
        """One of several b."""
        if self.y is None or self.Z is None:
            return Gram(self.b[v], self.M[v])
        return Gram(self.b[v], self.M[v], self.right, self.y[v], self.Z[v])


def special_gram(
    model: Model,
    b: Float[Array, "*v k m"],
    rho: Inexact[Array, "i"],
    q: Inexact[Array, "k"],
    few: FewColumns | None = None,
) -> Gram:
    """M with Z = (I + (V₀ − V_aa) D)⁻¹X; with K = right·Y, V₀ − V_aa = YᵀC Y and X = Yᵀc this is Yᵀ(I + C P)⁻¹c."""
    M = mean_gram(model, b, q, few)
    if not model.learned.through_output:
        return Gram(b, M)
    N, wq, linear = model.problem.N, model.weight * q, model.sectors[0]
    right, Y = linear.factors
    right = right * np.sqrt(linear.mean_strength)[:, None]
    P = (Y * (model.w * rho)) @ Y.T
    c = (right.T * (np.sqrt(N) * wq * model.A)) @ b
    C = (right.T * (wq * (N / linear.dim - model.A**2))) @ right
    inner = solve(np.eye(P.shape[0]) + C @ P, c)
    y = P @ inner
    return Gram(b, M + c.mT @ y, right, y, Y.T @ inner)


def gram_moved(model: Model, at: Gram, x: Inexact[Array, "m"], along: Tangent, few: FewColumns | None = None) -> Any:
    """xᵀ dM x: Σ_k w_k dq_k (N (b_k·x)² + 2√N A_k (b_k·x) y_k − (N/B − A_k²) y_k²) + (Zx)ᵀ dD (Zx) with y = K D Z x."""
    d_rho, d_q = along
    N, u, means = model.problem.N, at.b @ x, model.means if few is None else few
    each = N * (u * u + sum((part @ x) ** 2 for part in means.independent) + _excess_form(model, x, few))
    if at.right is None or at.y is None or at.Z is None:
        return (model.weight * d_q) @ each
    y, z = at.right @ (at.y @ x), at.Z @ x
    each = each + 2 * np.sqrt(N) * model.A * u * y - (N / model.sectors[0].dim - model.A**2) * y * y
    return (model.weight * d_q) @ each + z @ (model.w * d_rho * z)


def _excess_form(model: Model, x: Inexact[Array, "m"], few: FewColumns | None) -> Any:
    """Σ_ab excess_ab (K x_a)_k (K x_b)_k on the carried blocks of x."""
    form: Any = 0.0
    for _, blocks, K, excess in _carried(model, few):
        if excess is not None:
            Kx = np.stack([part @ x[at] for part, at in zip(K, blocks, strict=True)], axis=1)
            form = form + np.einsum("ka,kab,kb->k", Kx, excess, Kx)
    return form


class Answers(NamedTuple):
    """What a sector makes of vectors h on the rows at every node t of the teacher's law: x = U h and b = D⁻¹x, of h as seen there."""

    frame: Float[Array, "t c m"]
    strength: Float[Array, "t k"]
    x: Inexact[Array, "t *v i c"]
    b: Inexact[Array, "t *v i c"]


def answers(
    model: Model, sector: Sector, h: Inexact[Array, "*v i m"], rho: Inexact[Array, "i"], q: Inexact[Array, "k"]
) -> Answers:
    """U h for every node of the law along the teacher, from D⁻¹U = I − Yᵀ(C T)Y D."""
    D, Y, frame, g = model.w * rho, sector.factors[1], sector.teacher_frame, sector.teacher_strength.T
    YD = Y * D
    CT = block(model, sector, YD @ Y.T, q, g).CT
    CT, turned = (part.reshape(len(g), *(1,) * (h.ndim - 2), *part.shape[1:]) for part in (CT, frame.mT))
    seen = h @ turned
    b = seen - Y.T @ (CT @ (YD @ seen))
    return Answers(frame, g, D[:, None] * b, b)


def answered(found: Answers) -> Inexact[Array, "i m"]:
    """Σ_t frame_tᵀ U_t frame_t h."""
    return (found.x @ found.frame).sum(0)


def _sector_form(
    model: Model, sector: Sector, probability: Array, left: Array, solution: Solution, tangents: Sequence[Tangent]
) -> tuple[Any, list[Any]]:
    """Σ_v p_v Σ_t hᵀU_t h_v, and the derivatives of Σ_v p_v Σ_t h_vᵀU_t h_v, which are bᵀ dD b − Σ_k (N/B) w_k dq_k g_k (K x)_k²."""
    found = answers(model, sector, left, solution.rho, solution.q)
    Y = np.einsum("v,tic,tvic->", probability, sector.h @ found.frame.mT, found.x)
    X, columns = sector.factors
    Kx = X @ (columns @ found.x)
    rows = np.einsum("v,tvic,tvic->i", probability, found.b, found.b)
    neurons = np.einsum("v,tk,tvkc,tvkc->k", probability, found.strength, Kx, Kx) * (model.problem.N / sector.dim)
    return Y, [(model.w * d_rho) @ rows - (model.weight * d_q) @ neurons for d_rho, d_q in tangents]


def carrier(
    model: Model, rho: Inexact[Array, "i"], q: Inexact[Array, "k"]
) -> tuple[Inexact[Array, "m m"], Inexact[Array, "m"]]:
    """B D̃ Bᵀ and B D̃h in few columns: D̃ is D, and Σ_t frame_tᵀframe_t ⊗ U_t on the blocks that sectors carry."""
    D, few = model.w * rho, model.few
    size = few.blocks[-1].stop
    wide, known = np.zeros((size, size), D.dtype), np.zeros(size, D.dtype)
    for at, B, h in zip(few.blocks, few.bases, model.means.h.reshape(-1, D.size), strict=False):
        wide[at, at], known[at] = (B * D) @ B.T, B @ (D * h)
    start = model.means.h.size // D.size
    for (sector, blocks, _, _), combined in zip(_carried(model, few), model.means.carried, strict=True):
        Y, bases = sector.factors[1], few.bases[start : start + len(blocks)]
        inner = block(model, sector, (Y * D) @ Y.T, q, sector.teacher_strength.T).CT
        seen = sector.teacher_frame @ combined.T
        shares = np.einsum("tca,tcb->tab", seen, seen)
        less = np.tensordot(shares, inner, ((0,), (0,)))
        h = answered(answers(model, sector, sector.h, rho, q)) @ combined.T
        for a, left in enumerate(blocks):
            BD = bases[a] * D
            for c, right in enumerate(blocks):  # U_t = D − (Y D)ᵀ(C T)_t (Y D)
                wide[left, right] = shares[:, a, c].sum() * (BD @ bases[c].T) - (BD @ Y.T) @ less[a, c] @ (
                    (Y * D) @ bases[c].T
                )
            known[left] = bases[a] @ h[:, a]
        start += len(blocks)
    return wide, known


def special_answer(
    model: Model, M: Inexact[Array, "*v m m"], wide: Inexact[Array, "m m"], known: Inexact[Array, "m"]
) -> Inexact[Array, "*v m"]:
    """x̂ = B x, x = (D̃⁻¹ + M)⁻¹h: (I + BD̃Bᵀ M)⁻¹ BD̃h."""
    one = np.eye(known.size)
    try:
        if np.iscomplexobj(wide):
            raise np.linalg.LinAlgError
        root = np.linalg.cholesky((wide + wide.T) / 2)  # for λ > 0: in a form whose matrix has eigenvalues ≥ 1
    except np.linalg.LinAlgError:
        return solve(one + wide @ M, np.broadcast_to(known[:, None], (*M.shape[:-1], 1)))[..., 0]
    start = solve_triangular(root, known, lower=True)
    found = solve(one + root.T @ M @ root, np.broadcast_to(start[:, None], (*M.shape[:-1], 1)))
    return (root @ found)[..., 0]


def left_by_means(
    model: Model, M: Inexact[Array, "m m"], x: Inexact[Array, "m"]
) -> tuple[Inexact[Array, "_ i"], list[Inexact[Array, "i _"]]]:
    """H − Mx in the plain blocks and in every sector: what the special sector leaves of the teacher's parts there."""
    few, force = model.few, M @ x
    plain = model.means.h.reshape(-1, model.w.size)
    forces = np.stack([force[at] @ B for at, B in zip(few.blocks, few.bases, strict=True)])
    out: list[Array] = [sector.h for sector in model.sectors]
    start = plain.shape[0]
    for l, combined in enumerate(model.means.carried):
        out[l] = out[l] - forces[start : start + combined.shape[0]].T @ combined
        start += combined.shape[0]
    return plain - forces[: plain.shape[0]], out


def quadratic_form(model: Model, solution: Solution, tangents: Sequence[Tangent] = ()) -> tuple[Any, list[Any]]:
    """Y and its derivative along each tangent (dρ, dq) of the solution."""
    rho, q = solution.rho, solution.q
    tail, carrying = model.tail + model.problem.noise**2, len(model.means.carried)
    if model.means.coupled is not None:
        carrying = 1 + model.means.coupled.squared
    Y: Any = (model.w * rho) @ tail
    derivatives: list[Any] = [(model.w * d_rho) @ tail for d_rho, _ in tangents]

    def add(sector: Sector, probability: Array, left: Array) -> None:
        nonlocal Y
        more, moved = _sector_form(model, sector, probability, left, solution, tangents)
        Y += more
        derivatives[:] = [a + b for a, b in zip(derivatives, moved, strict=True)]

    for sector in model.sectors[carrying:]:
        add(sector, np.ones(1), sector.h[None])
    if model.means.coupled is not None:
        special, moved = coupled_form(model, rho, q, tangents)
        return Y + special, [a + b for a, b in zip(derivatives, moved, strict=True)]
    few, (wide, known) = model.few, carrier(model, rho, q)
    gram = special_gram(model, np.stack([b for _, b in few.cases]), rho, q, few)
    probabilities, besides = np.array([p for p, _ in few.cases]), list[list[Array]]()
    for v, x in enumerate(special_answer(model, gram.M, wide, known)):
        probability, at = probabilities[v], gram.case(v)
        Y += probability * (few.h @ x[: few.h.size])
        left, beside = left_by_means(model, at.M, x)
        besides.append(beside)
        for j, along in enumerate(tangents):
            moved = np.sum(left * left * (model.w * along[0]))
            derivatives[j] += probability * (moved - gram_moved(model, at, x, along, few))
    for l, sector in enumerate(model.sectors[:carrying]):
        add(sector, probabilities, np.stack([beside[l] for beside in besides]))
    return Y, derivatives
