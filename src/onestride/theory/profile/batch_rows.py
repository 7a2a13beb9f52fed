"""The samples of the step as rows of the ridge regression: what a row that the step has seen carries.

With r the residual in the gradient, r̂ = r/√E r², φ₀ = d/n, ν the gradient's noise, n^½ |ν| = |Xᵀr/√n| off β⋆ and p = W₀ᵀa, and τ = ηA/√N,

    row       x·ν̂ = N(0, 1) + √φ₀ r̂,   and off ν̂, β⋆ and p the columns of X are orthogonal to r            (given Xᵀr)
    learned   z = t̂·x = N(0, 1) + √φ₀ (t̂·ν̂) r̂:        the row's own share of the gradient's mean, c₁τφ₀r
    own       σ(θz + s u + τφ₀r (σ'(w₀·x) − c₁)):       the rest of its own share, new for every neuron
    output    full gradient: r = y − c₁ p·x − √(Var f₀ − c₁²) ω, and the features hold ω: Σ_j a_j (σ − c₁H₁)(w_j·x) = √(Var f₀ − c₁²) ω

Rows are groups of Sobol's points (made normal) that have about the same z and r. What else is known of a row has a mean in its
group and varies in it along ξ ~ N(0, I): its coordinates x_δ = m_δ + Σ_c L_δc ξ_c in the plane of β⋆, p and ν off t̂, ω, and its label.
"""

# pyright: reportMissingTypeStubs=false, reportConstantRedefinition=false
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onestride._numerics import Array, Float
from onestride.problem import Problem
from onestride.theory.direction import direction
from onestride.theory.profile.batch_plane import Plane
from onestride.theory.profile.memory import Kinds
from onestride.theory.profile.one_neuron import labels_at
from onestride.theory.profile.same_samples import ROWS, sobol_normals

_EVERYWHERE = 0.4  # groups have equal shares of E(0.4 + r²/E r²): the tails carry the power of the labels
_GRID, _REACH = 120, 7.5  # nodes of a neuron's pre-activation; none at 0, where activations have their kinks


class GroupedRows(NamedTuple):
    """Groups of rows. plane: coordinates δ of the plane off t̂ as (m_δ, L_δ1, …), `output` the same of ω, label that of y; tail: the
    variance of y that ξ does not tell. unit: r̂, 0 on rows that the step has not seen.
    """

    w: Float[Array, "i"]
    z: Float[Array, "i"]
    r: Float[Array, "i"]
    unit: Float[Array, "i"]
    plane: Float[Array, "e i c"]
    output: Float[Array, "i c"]
    label: Float[Array, "i c"]
    tail: Float[Array, "i"]


def batch_rows(problem: Problem, plane: Plane, *, seen: bool, groups: tuple[int, int]) -> GroupedRows:
    """The rows of the batch in groups of z and of r; as they were if the step had not seen them with `seen` False."""
    full, phi0, k = problem.gradient == "full", problem.d / problem.step_samples, problem.directions
    points = sobol_normals(k + 5)
    star, (noise, across, on_p, omega, beside) = points[:, :k], points[:, k:].T
    y: Array = labels_at(problem, star)
    y = y - y.mean() + problem.noise * noise
    r, c1 = y, float(problem.sigma.coefficients[1])
    if full:
        r = y - c1 * on_p - np.sqrt(max(direction(problem).output_power - c1**2, 0.0)) * omega
    unit = r / np.sqrt(np.mean(r**2))
    z, *known = plane.axes @ np.stack([*star.T, on_p, across + (np.sqrt(phi0) * unit if seen else 0.0), beside])
    by_z = _cut(z, groups[0])
    group = by_z * groups[1]
    for at in np.unique(by_z):  # one label far beyond the others may leave groups of z without a row
        chosen = np.flatnonzero(by_z == at)
        group[chosen] += _cut(r[chosen], groups[1])
    rows = _grouped(group, z, r, unit if seen else 0 * unit, [*known, *([omega] if full else [])], y)
    return _with_output(rows) if full else rows


def _cut(x: Array, count: int) -> Array:
    """Which group of neighbouring values each x belongs to."""
    order = np.argsort(x, kind="stable")
    share = np.cumsum((_EVERYWHERE + x * x / np.mean(x * x))[order])
    out = np.empty(x.size, int)
    out[order] = np.minimum((share / share[-1] * count).astype(int), count - 1)
    return out


def _grouped(group: Array, z: Array, r: Array, unit: Array, known: list[Array], y: Array) -> GroupedRows:
    """Means over the groups, and the covariance of what varies in them as LLᵀ."""
    _, group = np.unique(group, return_inverse=True)
    count = np.bincount(group)

    def mean(v: Array) -> Array:
        return np.bincount(group, v) / count

    known = [*known, y]
    m = np.stack([mean(v) for v in known], 1)
    square = np.stack([np.stack([mean(a * b) for b in known], 1) for a in known], 1)
    L = np.linalg.cholesky(square - m[:, :, None] * m[:, None, :] + 1e-12 * np.eye(len(known)))
    blocks = np.concatenate([m[:, :, None], L], 2).transpose(1, 0, 2)
    plane, label = blocks[:-1, :, :-1], blocks[-1]
    sizes = (count / ROWS, mean(z), mean(r), mean(unit))
    return GroupedRows(*sizes, plane, np.zeros_like(plane[0]), label[:, :-1], label[:, -1] ** 2)


def _with_output(rows: GroupedRows) -> GroupedRows:
    """The last of what is known of a row is ω."""
    return rows._replace(plane=rows.plane[:-1], output=rows.plane[-1])


def with_test_rows(rows: GroupedRows, z: Array, w: Array, h: list[Array], noise: float) -> GroupedRows:
    """`rows` and after them rows that no step has seen, on which the fit is judged: h the teacher's parts there."""
    size, (e, _, c) = z.size, rows.plane.shape
    none, plane = np.zeros(size), np.zeros((e, size, c))
    output, label = np.zeros((size, c)), np.zeros((size, c))
    for at in range(e):
        plane[at, :, 1 + at] = 1.0
    if c > 1 + e:
        output[:, -1] = 1.0
    label[:, 0], label[:, 1 : 1 + h[1].shape[1]] = h[0], h[1]
    more = GroupedRows(w, z, none, none, plane, output, label, h[-1] + noise**2)
    both = (np.concatenate([a, b], axis=a.ndim - 2 if a.ndim > 1 else 0) for a, b in zip(rows, more, strict=True))
    return GroupedRows(*both)


def own_share(
    problem: Problem, kinds: Kinds, z: Float[Array, "i"], r: Float[Array, "i"]
) -> tuple[Float[Array, "k i"], Float[Array, "k i"]]:
    """What its own share beyond c₁ adds to the mean features b of a row; and κ = E[σ ψ], ψ the normalised nonlinear part of σ(w₀·x).

    Given the pre-activation θz + √v g the first one, w₀·x, has mean g a/√v and variance a(1 − a/v), a = |w₀|² off t̂.
    """
    sigma, c1 = problem.sigma, problem.sigma.coefficients[1]
    spread = np.sqrt(max(sigma.second_moment - c1**2, 1e-300))
    g = (np.arange(_GRID) + 0.5) * (2 * _REACH / _GRID) - _REACH
    weight = np.exp(-g * g / 2)
    weight /= weight.sum()
    added, kappa = np.zeros((kinds.A.size, z.size)), np.zeros((kinds.A.size, z.size))
    share = problem.eta * kinds.A / np.sqrt(problem.N) * (problem.d / problem.step_samples)
    for k, (theta, v, a) in enumerate(zip(kinds.theta, kinds.v, kinds.aside, strict=True)):
        h, along, own = theta * z[:, None] + np.sqrt(v) * g, min(a / v, 1.0), share[k] * r
        without = sigma(h)
        for node, p in ((-np.sqrt(3), 1 / 6), (0.0, 2 / 3), (np.sqrt(3), 1 / 6)):
            before = along * np.sqrt(v) * g + node * np.sqrt(a * (1 - along))
            seen = sigma(h + np.outer(own, sigma.derivative(before) - c1)) if own.any() else without
            added[k] += p * (seen @ weight)
            kappa[k] += p * (seen @ (weight * (sigma(before) - c1 * before))) / spread
        added[k] -= without @ weight
    return added, kappa
