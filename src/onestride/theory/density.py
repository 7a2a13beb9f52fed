"""The limiting spectrum of F₀F₀ᵀ/n, the untrained features: density, bands and the atom at 0.

The equations of `bulk` continued to λ = −E − i0 give the density Im ρ/π at E > 0. Each E is continued separately from
a large imaginary part, all of them at once: a walk along the real axis can change branch, and does so where the
spectrum has two bands.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onestride._numerics import Array, Float
from onestride.problem import Problem
from onestride.result import TheoryError

IMAGINARY = 1e-10  # ε/E: how far above the real axis the density is read
_DARK = 1e-6  # density · E below which E is outside the support
_LOWEST = 1e-12  # eigenvalues below this fraction of the largest count as 0
_SCAN = 1200
_BAND_POINTS = 500


@dataclass(frozen=True)
class Law:
    """A law on [0, ∞): density on a grid that resolves the band edges, bands (lower, upper) and the atom at 0."""

    grid: Float[Array, "E"]
    density: Float[Array, "E"]
    bands: tuple[tuple[float, float], ...]
    atom: float

    @property
    def edge(self) -> float:
        """The upper end of the support."""
        return self.bands[-1][1] if self.bands else 0.0

    def mass(self) -> float:
        """∫ density, atom excluded."""
        return float(np.trapezoid(self.density, self.grid)) if self.grid.size else 0.0

    def cumulative(self, E: Array) -> Array:
        """The distribution function, atom included and normalised to 1."""
        if not self.grid.size:
            return np.ones_like(np.asarray(E, float))
        steps = np.diff(self.grid) * (self.density[1:] + self.density[:-1]) / 2
        total = np.concatenate([[0.0], np.cumsum(steps)])
        return self.atom + (1 - self.atom) * np.interp(E, self.grid, total / total[-1])


def stieltjes(lam: Array, phi: float, psi: float, c1: float, nonlinear_power: float) -> tuple[Array, Array]:
    """(ρ, q) at complex λ with Im λ < 0, where ρ(λ) = lim tr(FFᵀ + λn)⁻¹ has Im ρ > 0.

    ρ is the Stieltjes transform of the law of FFᵀ/n at −λ. Newton on (ρ, q), with a fixed-point step, which keeps
    Im ρ > 0, wherever Newton would leave the upper half plane.
    """
    lam = np.atleast_1d(np.asarray(lam, complex))
    real, imag = np.real(lam), np.imag(lam)
    a, g = c1 * c1, nonlinear_power
    far = 1e2 * (np.abs(lam).max() + (a + g) * (1 + phi / psi) * (1 + 1 / psi) * (1 + phi))
    depth = np.maximum(-imag, 1e-300)
    steps = max(2, int(np.ceil(np.log10(far / depth.min()) * 2.5)))
    rho, q = 1 / (real - 1j * far), np.ones_like(lam)
    for fraction in np.linspace(0, 1, steps):
        target = real - 1j * far ** (1 - fraction) * depth**fraction
        rho, q = _newton(target, rho, q, (phi, psi, a, g), 1e-12 if fraction == 1 else 1e-6)
    return rho, q


def _newton(
    lam: Array, rho: Array, q: Array, constants: tuple[float, float, float, float], tolerance: float
) -> tuple[Array, Array]:
    """Newton at fixed λ from a nearby solution; elements that have converged are dropped."""
    phi, psi, a, g = constants
    out_rho, out_q, active = rho.copy(), q.copy(), np.arange(lam.size)
    for _ in range(80):
        V0 = a * q / psi
        T = 1 / (1 + rho * V0)
        U, V = rho * T, V0 * T
        right, left = lam + q * g * phi / psi + phi * V, 1 + rho * g + a * U
        a11, a12 = -1 / rho**2 + phi * V * V, -phi * (g + a * T * T) / psi
        a21, a22 = -(g + a * T * T), -1 / q**2 + (a * U) ** 2 / psi
        f1, f2 = 1 / rho - right, 1 / q - left
        with np.errstate(all="ignore"):
            det = a11 * a22 - a12 * a21
            d_rho, d_q = (a12 * f2 - a22 * f1) / det, (a21 * f1 - a11 * f2) / det
            size = np.maximum(np.abs(d_rho / rho), np.abs(d_q / q))
            cap = np.minimum(1, 0.5 / np.maximum(size, 1e-300))
            new_rho, new_q = rho + cap * d_rho, q + cap * d_q
        bad = ~(new_rho.imag > 0) | ~np.isfinite(new_rho) | ~np.isfinite(new_q)
        rho = np.where(bad, 0.5 * (rho + 1 / right), new_rho)
        q = np.where(bad, 0.5 * (q + 1 / left), new_q)
        out_rho[active], out_q[active] = rho, q
        on = bad | ~(size < tolerance)
        if not on.any():
            break
        lam, rho, q, active = lam[on], rho[on], q[on], active[on]
    return out_rho, out_q


def untrained_density(problem: Problem, E: Array) -> Array:
    """The density of F₀F₀ᵀ/n at points E > 0, the atom at 0 excluded."""
    E = np.asarray(E, float)
    c1, power = problem.sigma.coefficients[1], problem.sigma.nonlinear_power
    lam = -E - 1j * IMAGINARY * E
    rho, _ = stieltjes(lam, problem.phi, problem.psi, c1, power)
    return np.maximum((rho - atom_at_zero(problem) / lam).imag, 0.0) / np.pi


def atom_at_zero(problem: Problem) -> float:
    """1 − rank/n: features have rank min(n, N), and min(n, N, d) when σ is linear."""
    rank = min(problem.n, problem.N)
    if problem.sigma.nonlinear_power <= 1e-13 * problem.sigma.second_moment:
        rank = min(rank, problem.d)
    return 1 - rank / problem.n


def untrained_law(problem: Problem) -> Law:
    """Density, bands and atom of F₀F₀ᵀ/n."""
    scale = largest_possible(problem)
    if scale == 0:
        return Law(np.empty(0), np.empty(0), (), 1.0)
    scan = np.concatenate([np.geomspace(_LOWEST, 1e-2, _SCAN // 2, endpoint=False), np.linspace(1e-2, 1, _SCAN // 2)])
    scan *= scale

    share = 1 - atom_at_zero(problem)

    def bright(E: Array) -> Array:
        return untrained_density(problem, E) * E > _DARK * share

    inside = bright(scan)
    if not inside.any():
        raise TheoryError(
            f"the bulk of the untrained features was not found: at n = {problem.n}, d = {problem.d}, N = {problem.N} it is "
            f"narrower than the {scan.size} points of the search"
        )
    turns = np.flatnonzero(np.diff(np.concatenate([[inside[0]], inside]).astype(int)))
    left, right, rising = scan[turns - 1], scan[turns], inside[turns]
    for _ in range(5):  # each round narrows every bracket 64-fold
        points = left + (right - left) * np.linspace(0, 1, 65)[:, None]
        same = bright(points.ravel()).reshape(points.shape) == rising
        first = np.maximum(np.argmax(same, axis=0), 1)
        column = np.arange(turns.size)
        left, right = points[first - 1, column], points[first, column]
    edges = [0.0] * bool(inside[0]) + ((left + right) / 2).tolist()
    bands = tuple(zip(edges[::2], edges[1::2], strict=True))
    grid = np.concatenate([band_grid(a, b) for a, b in bands])
    density = untrained_density(problem, grid)
    density[np.isin(grid, edges)] = 0.0  # exactly, so that a gap contributes nothing
    return Law(grid, density, bands, atom_at_zero(problem))


def band_grid(lower: float, upper: float, points: int = _BAND_POINTS) -> Float[Array, "points"]:
    """Points of a band, dense at both ends, where densities start like a square root or, at a hard edge, diverge.

    Wide bands are spaced in log E.
    """
    t = (1 - np.cos(np.pi * np.linspace(0, 1, points))) / 2
    if lower > 0.05 * upper:
        return lower + (upper - lower) * t
    lower = max(lower, _LOWEST * upper)
    grid = lower * (upper / lower) ** t
    grid[-1] = upper
    return grid


def largest_possible(problem: Problem) -> float:
    """An upper bound of the bulk: (|c₁|·‖X̃‖‖W₀‖ + c_{>1}‖Z‖)²/n with the norms of Gaussian matrices."""
    phi, psi, sigma = problem.phi, problem.psi, problem.sigma
    linear = abs(sigma.coefficients[1]) * (1 + np.sqrt(phi)) * (1 + 1 / np.sqrt(psi))
    other = np.sqrt(sigma.nonlinear_power) * (1 + np.sqrt(phi / psi))
    return float(1.01 * (linear + other) ** 2)
