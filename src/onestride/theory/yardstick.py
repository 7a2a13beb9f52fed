"""The untrained network with every degree of the inputs resolved: what the other theories are measured against.

With x = r x̂ and rows of W₀ of length s, a feature is exactly a sum over spherical harmonics of degree l,

    σ(s r u) = b(sr) + Σ_l k_l(sr) ⟨Y_l(ŵ), Y_l(x̂)⟩/√B_l,    b = E_u σ(sr u),   k_l(t) = E_u[σ(tu) P_l(u)],

u a coordinate of a point of S^{d−1}, P_l its orthonormal polynomials, B_l the multiplicity of degree l. Each degree is a
Gaussian block of dimension B_l (Hu, Lu and Misiakiewicz 2024; Defilippis, Loureiro and Misiakiewicz 2024). With nodes i of
r and k of s, ρ_i and q_k the diagonals of n(FFᵀ + λn)⁻¹ and λn(FᵀF + λn)⁻¹, D = diag(w_i ρ_i) and K_l = (k_l(s_k r_i)),

    V₀_l = (N/B_l) Σ_k w_k q_k K_l,k K_l,kᵀ,    U_l = (D⁻¹ + V₀_l)⁻¹,    V_l = V₀_l (I + D V₀_l)⁻¹,
    row      1/ρ_i = λ_i + (N/n) Σ_k w_k q_k rest²_ki + Σ_l (B_l/n) [V_l]_ii
    column   1/q_k = 1 + Σ_i w_i ρ_i rest²_ki + Σ_l K_l,kᵀ U_l K_l,k
    Y        = h₀ᵀ(D⁻¹ + N Σ_k w_k q_k b_k b_kᵀ)⁻¹h₀ + Σ_l h_lᵀ U_l h_l + Σ_i w_i ρ_i (h_rest²_i + σ_ε²).

The profile theory keeps l = 1 and one radius; where n or N is no longer far below d²/2, or the length of x matters, the
two differ, and the difference is what is known to be wrong with it.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.special import gammaln

from onestride._numerics import Array, solve
from onestride.functions import Function
from onestride.problem import Problem, Step

_RADII, _LENGTHS = 7, 5
_HIGHEST = 6  # degrees resolved at most
_RESOLVED = 60  # a degree is resolved while its multiplicity is below this many times max(n, N)
_COMPLEX_STEP = 1e-30
_SMALLEST, _ROUNDING = 1e-11, 1e-6  # residual aimed at; accepted when it no longer falls


class _Degrees(NamedTuple):
    """Nodes and blocks: rows i, columns k, degrees l (first axis of `K` and `h`; l = 0 is `b` and `h0`)."""

    w: Array
    weight: Array
    K: Array
    rest: Array
    b: Array
    h: Array
    h0: Array
    tail: Array
    multiplicity: Array
    n: int
    N: int


def untrained_errors(problem: Problem, ridges: tuple[float, ...]) -> Array:
    """Ridge objective, training error and test error (rows) at every λ (columns) without a step; NaN where unsolved."""
    return _untrained_errors(problem.replace(step=Step.none(), ridge=1.0), ridges)  # pyright: ignore[reportArgumentType]


@lru_cache(maxsize=256)
def _untrained_errors(problem: Problem, ridges: tuple[float, ...]) -> Array:
    values = np.full((3, len(ridges)), np.nan)
    x: Array | None = None
    with np.errstate(all="ignore"):
        model = _build(problem)
        size = model.w.size
        for j in np.argsort(ridges)[::-1]:
            lam = ridges[j]
            x = _solve(model, lam, x)
            if x is None:
                continue
            jacobian = _jacobian(model, np.full(size, lam), x)
            derivatives = []
            for speed in (np.ones(size), np.exp(-2 * x[:size])):  # ∂/∂λ, and the leave-one-out direction
                # rows of the residual are ρ_i(1/ρ_i − λ_i − …): moving λ_i moves row i by −ρ_i
                tangent = solve(jacobian, np.concatenate([np.exp(x[:size]) * speed, np.zeros(x.size - size)]))
                derivatives.append(np.imag(_form(model, x + 1j * _COMPLEX_STEP * tangent)) / _COMPLEX_STEP)
            values[:, j] = lam * np.real(_form(model, x)), -(lam**2) * derivatives[0], -derivatives[1]
    values.flags.writeable = False
    return values


def _build(problem: Problem) -> _Degrees:
    n, d, N = problem.n, problem.d, problem.N
    top = 1
    while top < _HIGHEST and _multiplicity(d, top + 1) < _RESOLVED * max(n, N):
        top += 1
    r, w = _radius_rule(d, _RADII)
    if problem.weights == "sphere":
        s, weight = np.ones(1), np.ones(1)
    else:
        s, weight = _radius_rule(d, _LENGTHS)
        s = s / np.sqrt(d)
    t = np.outer(s, r)
    features = _harmonics(problem.sigma, t.ravel(), d, top)
    K, rest = features[:-1].reshape(top + 1, *t.shape), features[-1].reshape(t.shape)
    teacher = _harmonics(problem.target, r, d, top)
    multiplicity = np.array([float(_multiplicity(d, l)) for l in range(1, top + 1)])
    tail = teacher[-1] + problem.noise**2
    return _Degrees(w, weight, K[1:], rest, K[0], teacher[1:-1], teacher[0], tail, multiplicity, n, N)


def _multiplicity(d: int, l: int) -> int:
    """B_l, the number of independent harmonics of degree l on S^{d−1}."""
    return comb(d + l - 1, l) - (comb(d + l - 3, l - 2) if l >= 2 else 0)


def _radius_rule(d: int, count: int) -> tuple[Array, Array]:
    """Gauss nodes and probabilities for |x|, x ~ N(0, I_d): |x|²/2 is a Gamma(d/2) variable."""
    k, a = np.arange(count), d / 2 - 1  # the three-term recurrence of the Laguerre polynomials (Golub and Welsch)
    y, vectors = eigh_tridiagonal(2 * k + 1 + a, np.sqrt(k[1:] * (k[1:] + a)))
    return np.sqrt(2 * y), vectors[0] ** 2


def _harmonics(f: Function, t: Array, d: int, top: int) -> Array:
    """b, k_1 … k_top and the variance of the rest of f(t u), one column for each t."""
    x, weight = f.rule
    values = f(x)
    log_norm = gammaln(d / 2) - gammaln((d - 1) / 2) - 0.5 * np.log(np.pi)
    out = np.empty((top + 2, t.size))
    for i, scale in enumerate(t):
        inside = np.abs(x) < scale
        u = x[inside] / scale
        p = np.exp(log_norm + (d - 3) / 2 * np.log1p(-u * u)) * weight[inside]
        p /= p.sum()
        centred = values[inside] - p @ values[inside]
        out[0, i] = p @ values[inside]
        left = centred
        below, here = np.zeros_like(u), np.ones_like(u)  # Q_{l−1}, Q_l with Q_l(1) = 1
        for l in range(1, top + 1):
            below, here = here, ((2 * l + d - 4) * u * here - (l - 1) * below) / (l + d - 3) if l > 1 else u
            basis = here / np.sqrt(p @ here**2)
            out[l, i] = p @ (centred * basis)
            left = left - out[l, i] * basis
        out[-1, i] = p @ left**2
    return out


def _blocks(m: _Degrees, D: Array, q: Array) -> tuple[Array, Array]:
    """V₀_l and U_l = (D⁻¹ + V₀_l)⁻¹ = (I + D V₀_l)⁻¹D of every degree."""
    V0 = np.einsum("lki,k,lkj->lij", m.K, m.weight * q, m.K) * (m.N / m.multiplicity)[:, None, None]
    return V0, solve(np.eye(D.size) + D[:, None] * V0, np.broadcast_to(np.diag(D), V0.shape))


def _residual(m: _Degrees, lam: Array, x: Array) -> Array:
    """Rows and columns of the equations, scaled by ρ_i and q_k, at x = (log ρ, log q)."""
    rho, q = np.exp(x[: m.w.size]), np.exp(x[m.w.size :])
    D, wq = m.w * rho, m.weight * q
    V0, U = _blocks(m, D, q)
    V = V0 - V0 @ U @ V0
    row = 1 / rho - lam - m.N / m.n * (wq @ m.rest) - (m.multiplicity / m.n) @ np.einsum("lii->li", V)
    column = 1 / q - 1 - m.rest @ D - np.einsum("lki,lij,lkj->k", m.K, U, m.K)
    return np.concatenate([rho * row, q * column])


def _jacobian(m: _Degrees, lam: Array, x: Array) -> Array:
    """Derivatives of the residual in (log ρ, log q), exact to rounding by complex steps."""
    moved = x + 1j * _COMPLEX_STEP * np.eye(x.size)
    return np.stack([np.imag(_residual(m, lam, v)) / _COMPLEX_STEP for v in moved], axis=1)


def _form(m: _Degrees, x: Array) -> complex:
    """Y."""
    rho, q = np.exp(x[: m.w.size]), np.exp(x[m.w.size :])
    D = m.w * rho
    _, U = _blocks(m, D, q)
    M = (m.b.T * (m.N * m.weight * q)) @ m.b
    special = m.h0 @ (D * solve(np.eye(D.size) + M * D, m.h0))
    return special + np.einsum("li,lij,lj->", m.h, U, m.h) + D @ m.tail


def _solve(m: _Degrees, lam: float, start: Array | None) -> Array | None:
    """(log ρ, log q) at λ: Newton from a larger λ's solution, or down from where ρ = 1/λ and q = 1; None when it fails."""
    if start is not None:
        found = _newton(m, lam, start, _SMALLEST)
        if found is not None:
            return found
    far = max(100.0, 10 * lam)
    for ratio in (8.0, 1.5):  # of neighbouring penalties on the way
        x: Array | None = np.concatenate([np.full(m.w.size, -np.log(far)), np.zeros(m.weight.size)])
        for value in np.geomspace(far, lam, int(np.ceil(np.log(far / lam) / np.log(ratio))) + 1):
            x = _newton(m, value, x, 1e-4) if x is not None else None
        x = _newton(m, lam, x, _SMALLEST) if x is not None else None
        if x is not None:
            return x
    return None


def _newton(m: _Degrees, lam: float, x: Array, tolerance: float) -> Array | None:
    """Newton's method with a capped step, after half-steps of the fixed-point map while far away."""
    row, last = np.full(m.w.size, lam), np.inf
    for _ in range(60):
        residual = _residual(m, row, x)
        size = np.abs(residual).max()
        if size < tolerance or _ROUNDING > size > 0.5 * last:
            return x
        last = size
        step = solve(_jacobian(m, row, x), -residual) if size < 1 else -0.5 * np.log1p(-residual)
        if not np.isfinite(step).all():
            return None
        x = x + step * min(1.0, 1.0 / np.abs(step).max())
    return None
