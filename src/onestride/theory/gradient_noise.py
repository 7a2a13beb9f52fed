"""What the step does besides the rank-one part: it also moves row j by 2c₂ηa_j M w_j and by noise of higher order.

    M = (1/n) Xᵀ diag(r) X,     r the residual in the gradient,  r = σ⋆(z⋆) + N(0, σ_ε² (+ Var f₀ in full mode)).

M has a limiting spectral law, seen by the bulk of directions, and another one seen by e = β⋆ minus its part along β:

    bulk   m(x) = 1/(−x + E[r/(1 + φ₀ r m)]),                                  φ₀ = d/n_step
    e      G_e(x) = 1/((1 − ρ_e²)(A₁₁ − x − A₀₁²/A₀₀)),  A_ab = E[r z⋆^{a+b}/(1 + φ₀ r m)],
           ρ_e² = c⋆₁²/(c⋆₁² + φ₀ E r²)

The higher orders have covariance ∝ S = (1/n) Xᵀ diag(r²) X, which is large where M is large: along an eigenvector of M
with eigenvalue x its mean is Im[m E r²/(1 + φ₀ r m)]/Im m.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import roots_hermitenorm

from onestride._numerics import Array, gauss_density
from onestride.functions import Function
from onestride.problem import Problem
from onestride.theory.direction import direction

_HEIGHT = 1e-4  # of the real axis, in standard deviations of the law
_GRID = 700  # points x before refinement
_RESIDUALS = 160  # nodes kept of the law of r


@dataclass(frozen=True)
class SpectralNodes:
    """Nodes of a spectral law of M: eigenvalue, probability, and the mean of S there."""

    eigenvalue: Array
    weight: Array
    power: Array


@dataclass(frozen=True)
class ResidualLaw:
    """Nodes of the residual: r, r z⋆, r z⋆² and r² averaged over each, and probabilities."""

    r: Array
    rz: Array
    rzz: Array
    rr: Array
    weight: Array


def spectral_laws(problem: Problem, nodes: int = 20) -> tuple[SpectralNodes, SpectralNodes]:
    """The laws of M seen by the bulk and by the teacher's direction."""
    beta = direction(problem)
    extra = problem.noise**2 + beta.output_power
    return _laws(problem.target, extra, problem.d / problem.step_samples, nodes)


def residual_law(target: Function, extra: float) -> ResidualLaw:
    """Nodes of r = σ⋆(z⋆) + N(0, extra), compressed so that E r, E r z⋆, E r z⋆² and E r² are kept."""
    z, w = target.rule
    w = w * gauss_density(z)
    kept = w > 1e-14
    z, w = z[kept], w[kept] / w[kept].sum()
    r = target(z)
    if extra > 0:
        g, wg = roots_hermitenorm(24)
        r = (r[:, None] + np.sqrt(extra) * g).ravel()
        z, w = np.repeat(z, g.size), np.outer(w, wg / wg.sum()).ravel()
    order = np.argsort(r, kind="stable")
    r, z, w = r[order], z[order], w[order]
    share = np.cumsum(w * (1e-3 + r * r / (w @ r**2)))
    group = np.minimum((share / share[-1] * _RESIDUALS).astype(int), _RESIDUALS - 1)
    total = np.bincount(group, w, _RESIDUALS)
    kept = total > 0

    def mean(values: Array) -> Array:
        return np.bincount(group, w * values, _RESIDUALS)[kept] / total[kept]

    return ResidualLaw(mean(r), mean(r * z), mean(r * z * z), mean(r * r), total[kept])


@lru_cache(maxsize=64)
def _laws(target: Function, extra: float, phi: float, nodes: int) -> tuple[SpectralNodes, SpectralNodes]:
    law = residual_law(target, extra)
    power = target.second_moment + extra
    sd = np.sqrt(phi * power)
    if not sd > 0:
        point = SpectralNodes(np.zeros(1), np.ones(1), np.zeros(1))
        return point, point
    linear = target.coefficients[1] ** 2
    unseen = phi * power / (linear + phi * power)  # 1 − ρ_e²
    far = np.arcsinh(40 * (14 + 1 / sd))
    x = sd * np.sinh(np.linspace(-far, far, _GRID)) / 40
    m = _stieltjes(x, law, phi, sd)
    for _ in range(9):  # refine where the e-law turns fast: an eigenvalue of M that sticks out along the teacher
        e = _teacher_transform(x, m, law, phi, unseen, sd)
        turn = np.abs(np.diff(np.angle(e)))
        wide = (turn > 0.25) & (np.diff(x) > _HEIGHT * sd / 4)
        if not wide.any():
            break
        new = (x[:-1][wide] + x[1:][wide]) / 2
        at = np.searchsorted(x, new)
        x, m = np.insert(x, at, new), np.insert(m, at, _stieltjes(new, law, phi, sd))
    e = _teacher_transform(x, m, law, phi, unseen, sd)
    spread = m * (law.weight @ (law.rr[:, None] / (1 + phi * law.r[:, None] * m)))
    with np.errstate(divide="ignore", invalid="ignore"):
        local = np.where(np.imag(m) > 1e-12, np.imag(spread) / np.imag(m), power)
    bulk = _bins(x, np.imag(m), local, sd, nodes)
    eigenvalue = bulk.eigenvalue - bulk.weight @ bulk.eigenvalue  # two exact moments: mean 0, variance φ₀ E r²
    eigenvalue *= sd / np.sqrt(bulk.weight @ eigenvalue**2)
    bulk = SpectralNodes(eigenvalue, bulk.weight, bulk.power * (power / (bulk.weight @ bulk.power)))
    return bulk, _bins(x, np.imag(e), local, sd, nodes)


def _stieltjes(x: Array, law: ResidualLaw, phi: float, sd: float) -> Array:
    """m(x + i0) of the bulk, every point continued by itself from far above the real axis."""
    r, w = law.r[:, None], law.weight
    heights = np.geomspace(50 * sd, _HEIGHT * sd, 30)
    m = -1 / (x + 1j * heights[0])
    for height in heights:
        target = x + 1j * height
        for _ in range(40):
            part = r / (1 + phi * r * m)
            mean = w @ part
            step = -(1 / m + target - mean) / (-1 / m**2 + phi * (w @ part**2))
            step *= np.minimum(1, 0.5 * np.abs(m) / np.maximum(np.abs(step), 1e-300))
            new = m + step
            fixed = (m + 1 / (mean - target)) / 2  # keeps Im m > 0
            new = np.where(new.imag > 0, new, fixed)
            change = np.abs(new - m) / np.abs(new)
            m = new
            if change.max() < (1e-10 if height == heights[-1] else 1e-3):
                break
    return m


def _teacher_transform(x: Array, m: Array, law: ResidualLaw, phi: float, unseen: float, sd: float) -> Array:
    part = 1 / (1 + phi * law.r[:, None] * m)
    A00, A01, A11 = ((law.weight * v) @ part for v in (law.r, law.rz, law.rzz))
    return 1 / (unseen * (A11 - (x + 1j * _HEIGHT * sd) - A01**2 / A00))


def _bins(x: Array, density: Array, power: Array, sd: float, nodes: int) -> SpectralNodes:
    """Cut a law into bins of equal ∫ density (1 + x²/var); each becomes one node at its mean."""
    mass = np.where(density > 6e-5 / sd, density, 0.0) * np.gradient(x) / np.pi
    share = np.cumsum(mass * (1 + (x / sd) ** 2))
    group = np.minimum((share / share[-1] * nodes).astype(int), nodes - 1)
    total = np.bincount(group, mass, nodes)
    kept = total > 0
    mean = np.bincount(group, mass * x, nodes)[kept] / total[kept]
    at = np.bincount(group, mass * power, nodes)[kept] / total[kept]
    return SpectralNodes(mean, total[kept] / total.sum(), at)
