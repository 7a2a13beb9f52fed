"""The limiting spectrum of F₀F₀ᵀ/n, the untrained features: density, bands, the atom at 0 and what lies outside the bands.

The profile equations of the untrained network continued to λ = −E − i0 give the density Σ_i w_i Im ρ_i/π at E > 0. While
n, N ≪ d²/2 the network is one row and one neuron with the linear sector (`bulk`); beyond, its rows are lengths of x and
every resolved degree l is a sector with a bulk of its own: B_l eigenvalues around (N/B_l) k_l², far apart when n, N ≫ B_l.
The mean features of a row of length |x|, b(r), are a spike outside those bands: the length of x.

There the density of the one bulk has a closed form (`bulk.bulk_density`); elsewhere each E is continued separately from a large imaginary part, all of them at once: a walk along the real axis can change
branch, and does so where the spectrum has two bands.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from onestride._numerics import Array, Float, inverse, solve
from onestride.functions import Function
from onestride.problem import Problem, Step
from onestride.result import TheoryError
from onestride.theory.bulk import bulk_density
from onestride.theory.profile import degrees
from onestride.theory.profile.harmonics import degrees_resolved
from onestride.theory.profile.neurons import LearnedDirection
from onestride.theory.profile.quadratic_form import mean_gram
from onestride.theory.profile.sectors import Means, Model, Sector

IMAGINARY = 1e-10  # ε/E: how far above the real axis the density is read
_DARK = 1e-6  # density · E below which E is outside the support
_LOWEST = 1e-12  # eigenvalues below this fraction of the largest count as 0
_NOTHING = 1e-13  # share of E σ² below which a part of σ is rounding
_SCAN = 1200
_BAND_POINTS = 500
_RADII = 5  # nodes of the length of x; seven change the law by less than 1e-4
_BINS = 48
_VISIBLE = 60  # times max(n, N): with more harmonics the bulk of a degree is that of noise to the eye
_STRIDE = 12  # of the points, every so many is continued from a large imaginary part
_ROUNDS = 10
_NEAR_BULK = 40  # points of the scan around the centre of each sector's bulk


@dataclass(frozen=True)
class Law:
    """A law on [0, ∞): density on a grid that resolves the band edges, bands (lower, upper), the atom at 0, and spikes.

    spikes: single eigenvalues outside the bands, made by the means of the features; decreasing.
    """

    grid: Float[Array, "E"]
    density: Float[Array, "E"]
    bands: tuple[tuple[float, float], ...]
    atom: float
    spikes: tuple[float, ...] = ()

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
            return 0.0 * E + 1.0
        steps = np.diff(self.grid) * (self.density[1:] + self.density[:-1]) / 2
        total = np.concatenate([[0.0], np.cumsum(steps)])
        share: Array = total / total[-1]
        return self.atom + (1 - self.atom) * np.interp(E, self.grid, share)


def histogram_law(draws: Float[Array, "draws r"], rows: int) -> Law:
    """The law of eigenvalues that were computed, as a histogram in log E: its density at the middle of every bin."""
    values = draws[draws > _LOWEST * draws.max(initial=0.0)]
    if not values.size:
        return Law(np.empty(0), np.empty(0), (), 1.0)
    heights, ends = np.histogram(np.log(values), bins=_BINS)
    grid = np.exp((ends[1:] + ends[:-1]) / 2)
    density = heights / (draws.shape[0] * rows) / np.diff(ends) / grid
    return Law(grid, density, ((float(values.min()), float(values.max())),), 1 - values.size / (draws.shape[0] * rows))


def visible_degrees(problem: Problem) -> int:
    """How many degrees have a part of the bulk, or of a curve, that is seen to be their own."""
    return degrees_resolved(problem.d, max(problem.n, problem.N), factor=_VISIBLE)


def resolves_degrees(problem: Problem) -> bool:
    """Whether degrees beyond the first are sectors of their own at these sizes."""
    return visible_degrees(problem) > 1


def untrained_model(problem: Problem) -> Model:
    """The network before its step: every resolved degree on the lengths of x, or one row and the linear sector."""
    return _untrained_model(problem.replace(step=Step.none()))  # pyright: ignore[reportArgumentType]


@lru_cache(maxsize=16)
def _untrained_model(problem: Problem) -> Model:
    if resolves_degrees(problem):
        model, least = degrees.build_untrained(problem, radii=_RADII), _NOTHING * problem.sigma.second_moment
        # without sectors and noise that a polynomial activation does not have
        sectors = tuple(s for s in model.sectors if np.square(s.K).max() > least)
        return replace(model, sectors=sectors, rest=np.where(model.rest > least, model.rest, 0.0))
    one, none = np.ones(1), np.zeros(1)
    sigma, target = problem.sigma, problem.target
    K, teacher = np.full((1, 1), sigma.coefficients[1]), np.full((1, 1), target.coefficients[1])
    linear = Sector(float(problem.d), K, one[:, None], one, teacher, one[:, None], one[:, None, None])
    means, rest = Means(((1.0, none[:, None]),), (), none), np.full((1, 1), sigma.nonlinear_power)
    learned, tail = LearnedDirection(0.0, 0.0, False, 0.0), np.full(1, target.nonlinear_power)
    length = np.full(1, np.sqrt(problem.d))
    return Model(
        problem, "bulk", learned, problem.d, none, length, one, none, none, one, one, (linear,), rest, means, tail
    )


class Line(NamedTuple):
    """Solutions (ρ_i, q_k) at λ = −E(1 + iε) for increasing E."""

    E: Float[Array, "E"]
    rho: Array
    q: Array


def solve_line(model: Model, E: Array, known: Line | None = None, *, hasty: bool = False) -> Line:
    """The equations at every E, from the nearest known solution; at some of them and where that fails by `stieltjes`.

    Below the real axis one solution only has all of ρ and q/λ above it.
    """
    E = np.asarray(E, float)
    lam = -E - 1j * IMAGINARY * E
    if known is None:
        few = np.unique(E)[::_STRIDE]
        known = Line(few, *stieltjes(model, -few - 1j * IMAGINARY * few, hasty=hasty))
    rho, q = np.empty((E.size, model.w.size), complex), np.empty((E.size, model.weight.size), complex)
    left = np.arange(E.size)
    for _ in range(_ROUNDS):  # those that fail again from the nearest that did not
        nearest = np.abs(np.log(E[left])[:, None] - np.log(known.E)).argmin(1)
        rho[left], q[left], size = _newton(model, lam[left], known.rho[nearest], known.q[nearest], 1e-12, most=12)
        right = (np.imag(rho[left]) > 0).all(1) & (np.imag(q[left] / lam[left, None]) > 0).all(1) & (size < 1e-8)
        solved, left = left[right], left[~right]
        if not left.size or not solved.size:
            break
        known = Line(*(np.concatenate([x, y[solved]]) for x, y in zip(known, (E, rho, q), strict=True)))
    if left.size:
        rho[left], q[left] = stieltjes(model, lam[left], hasty=hasty)
    return Line(E, rho, q)


def stieltjes(model: Model, lam: Array, *, hasty: bool = False) -> tuple[Array, Array]:
    """(ρ_i, q_k), E × rows and E × neurons, at complex λ with Im λ < 0, where Im ρ > 0.

    Σ w_i ρ_i is the Stieltjes transform of the law of FFᵀ/n at −λ. Newton's method, with a fixed-point step, which keeps
    Im ρ > 0, wherever it would leave the upper half plane. `hasty`: with few and rough solutions on the way, good enough for
    a picture: within 0.1 % of a band's end it may take the wrong branch.
    """
    lam = np.atleast_1d(np.asarray(lam, complex))
    real, imag = np.real(lam), np.imag(lam)
    far = 1e2 * (np.abs(lam).max() + largest_possible(model) * (1 + model.problem.phi))
    depth = np.maximum(-imag, 1e-300)
    per_decade, on_the_way = (1.5, 0.1) if hasty else (2.5, 1e-6)
    steps = max(2, int(np.ceil(np.log10(far / depth.min()) * per_decade)))
    rho = np.repeat(1 / (real - 1j * far)[:, None], model.w.size, axis=1)
    q = np.ones((lam.size, model.weight.size), complex)
    for fraction in np.linspace(0, 1, steps):
        target = real - 1j * far ** (1 - fraction) * depth**fraction
        rho, q, _ = _newton(model, target, rho, q, 1e-12 if fraction == 1 else on_the_way)
    return rho, q


def _newton(
    model: Model, lam: Array, rho: Array, q: Array, tolerance: float, *, most: int = 80
) -> tuple[Array, Array, Array]:
    """Newton at fixed λ from a nearby solution, and the size of each last step; converged elements are dropped."""
    out_rho, out_q, active, rows = rho.copy(), q.copy(), np.arange(lam.size), rho.shape[1]
    last = np.full(lam.size, np.inf)
    for _ in range(most):
        residual, jacobian = _equations(model, lam, rho, q)
        with np.errstate(all="ignore"):
            step = solve(jacobian, -residual[..., None])[..., 0]
            size = np.abs(step).max(1)
            step *= np.minimum(1, 0.5 / np.maximum(size, 1e-300))[:, None]
            new_rho, new_q = rho * (1 + step[:, :rows]), q * (1 + step[:, rows:])
            bad = ~((new_rho.imag > 0).all(1) & np.isfinite(new_q).all(1))
            # 1/ρ − residual/ρ is the right side of the equation: half a step of the fixed-point map
            fixed_rho = 0.5 * rho * (1 + 1 / (1 - residual[:, :rows]))
            fixed_q = 0.5 * q * (1 + 1 / (1 - residual[:, rows:]))
        rho, q = np.where(bad[:, None], fixed_rho, new_rho), np.where(bad[:, None], fixed_q, new_q)
        out_rho[active], out_q[active], last[active] = rho, q, np.where(bad, np.inf, size)
        on = bad | ~(size < tolerance)
        if not on.any():
            break
        lam, rho, q, active = lam[on], rho[on], q[on], active[on]
    return out_rho, out_q, last


def _one_row_each(model: Model) -> list[Array]:
    """X, Y, strength, share and dim of every sector at every p of its law; none where neurons are of several kinds."""
    laws = [(s, g, share) for s in model.sectors for g, share in zip(s.strength[0], s.share, strict=True)]
    each = [(s.factors[0][0, 0], s.factors[1][0], g, share, s.dim) for s, g, share in laws if s.factors[1].size]
    return [np.array(part) for part in zip(*each, strict=True)] if model.weight.size == 1 else []


def _equations(model: Model, lam: Array, rho: Array, q: Array) -> tuple[Array, Array]:
    """`equations.residual_and_jacobian` at many λ: residuals (E × m) and Jacobians (E × m × m) of a small model."""
    n, N, rows = model.problem.n, model.problem.N, rho.shape[1]
    D, wq = model.w * rho, model.weight * q
    row = 1 / rho - lam[:, None] - model.N_over_n * (wq @ model.rest)
    column = 1 / q - 1 - D @ model.rest.T
    jacobian = np.zeros((lam.size, rows + q.shape[1], rows + q.shape[1]), complex)
    VV, H, SS = jacobian[:, :rows, :rows], np.repeat(model.rest[None], lam.size, 0).astype(complex), 0.0
    if one_row := _one_row_each(model):  # all sectors and strengths at once
        X, Y, g, share, dim = one_row
        P, C, on_rows = D @ (Y * Y).T, wq * (X * X * g * N / dim), share * dim / n
        with np.errstate(all="ignore"):
            T = 1 / (1 + P * C)
            CT, KE, S = C * T, X * T, X * X * T * P
            row = row - (CT * on_rows) @ (Y * Y)
            column = column - (S @ (share * g))[:, None]
            VV += ((CT * CT * on_rows) @ np.square(Y[:, :, None] * Y[:, None, :]).reshape(len(Y), -1)).reshape(VV.shape)
            H += ((KE * KE * share * g) @ (Y * Y))[:, None, :]
            SS = ((S * S) @ (share * N / dim * g * g))[:, None, None]
    for sector in () if one_row else model.sectors:
        X, Y = sector.factors
        P, identity = (Y * D[:, None, :]) @ Y.T, np.eye(X.shape[1])
        for g, share in zip(sector.strength.T, sector.share, strict=True):
            C = (X.T * (wq * g * (N / sector.dim))[:, None, :]) @ X
            T = inverse(identity + P @ C)
            V, KE, S = Y.T @ (C @ T) @ Y, (X @ T) @ Y, X @ (T @ P) @ X.T
            row = row - (share * sector.dim / n) * np.diagonal(V, axis1=1, axis2=2)
            column = column - share * g * np.diagonal(S, axis1=1, axis2=2)
            VV += (share * sector.dim / n) * V * V
            H += (share * g)[:, None] * KE * KE
            SS = SS + (share * N / sector.dim) * g[:, None] * g * S * S
    jacobian[:, :rows, :rows] *= rho[:, :, None] * D[:, None, :]
    jacobian[:, :rows, rows:] = -model.N_over_n * rho[:, :, None] * np.swapaxes(H, 1, 2) * wq[:, None, :]
    jacobian[:, rows:, :rows] = -q[:, :, None] * H * D[:, None, :]
    jacobian[:, rows:, rows:] = q[:, :, None] * SS * wq[:, None, :]
    jacobian -= np.eye(rows + q.shape[1])
    return np.concatenate([rho * row, q * column], axis=1), jacobian


def untrained_density(problem: Problem, E: Array, *, hasty: bool = False) -> Array:
    """The density of F₀F₀ᵀ/n at points E > 0, the atom at 0 excluded; `hasty` as in `stieltjes`."""
    if _has_closed_form(problem):
        return bulk_density(problem, E)
    model = untrained_model(problem)
    return _density(model, solve_line(model, E, hasty=hasty), atom_at_zero(problem))


def _has_closed_form(problem: Problem) -> bool:
    """Whether one bulk is all there is, of features with a linear and another part."""
    return not resolves_degrees(problem) and problem.sigma.coefficients[1] != 0 and problem.sigma.nonlinear_power > 0


def _density(model: Model, line: Line, atom: float) -> Float[Array, "E"]:
    lam = -line.E - 1j * IMAGINARY * line.E
    return np.maximum((line.rho @ model.w - atom / lam).imag, 0.0) / np.pi


def atom_at_zero(problem: Problem) -> float:
    """1 − rank/n: features have rank min(n, N), and at most the sectors' dimensions when σ is a polynomial they hold."""
    model, rank = untrained_model(problem), min(problem.n, problem.N)
    if model.rest.max() <= _NOTHING * problem.sigma.second_moment:
        rank = min(
            rank, round(sum(s.dim * np.linalg.matrix_rank(s.K, 1e-7 * np.abs(s.K).max()) for s in model.sectors))
        )
    return 1 - rank / problem.n


def network_alone(problem: Problem) -> Problem:
    """The problem but for what its untrained features do not depend on: step, penalty, labels."""
    return problem.replace(
        step=Step.none(), steps=1, batch="fresh", ridge=1.0, noise=0.0, teacher=(0.0, 1.0), directions=1
    )


def untrained_law(problem: Problem) -> Law:
    """Density, bands, atom and spikes of F₀F₀ᵀ/n."""
    kept = _kept_law(network_alone(problem), problem.sigma)  # pyright: ignore[reportArgumentType]
    return replace(kept, grid=kept.grid.copy(), density=kept.density.copy())


@lru_cache(maxsize=16)
def _kept_law(problem: Problem, sigma: Function) -> Law:
    """The same, kept; the function is named since a registered name may change its meaning."""
    assert sigma == problem.sigma
    model = untrained_model(problem)
    if largest_possible(model) == 0:
        return Law(np.empty(0), np.empty(0), (), 1.0)
    scan, atom = _scan(model), atom_at_zero(problem)
    line = known = None if _has_closed_form(problem) else solve_line(model, scan)

    def density_at(E: Array) -> Array:
        nonlocal known
        if known is None:
            return bulk_density(problem, E)
        found = solve_line(model, E, known)
        known = Line(*map(np.concatenate, zip(known, found, strict=True)))  # nearer to what is asked next
        return _density(model, found, atom)

    def bright(E: Array) -> Array:
        return density_at(E) * E > _DARK * (1 - atom)

    inside = bright(scan)
    if not inside.any():
        raise TheoryError(
            f"the bulk of the untrained features was not found: at n = {problem.n}, d = {problem.d}, N = {problem.N} it is "
            f"narrower than the {scan.size} points of the search"
        )
    turns = np.flatnonzero(np.diff(np.concatenate([[inside[0]], inside]).astype(int)))
    left, right, rising = scan[turns - 1], scan[turns], inside[turns]
    for _ in range(5 if len(model.sectors) == 1 else 3):  # each round narrows every bracket 64-fold
        points = left + (right - left) * np.linspace(0, 1, 65)[:, None]
        same = bright(points.ravel()).reshape(points.shape) == rising
        first = np.maximum(np.argmax(same, axis=0), 1)
        column = np.arange(turns.size)
        left, right = points[first - 1, column], points[first, column]
    edges = [0.0] * bool(inside[0]) + ((left + right) / 2).tolist()
    bands = tuple(zip(edges[::2], edges[1::2], strict=True))
    grid = np.concatenate([band_grid(a, b) for a, b in bands])
    density = density_at(grid)
    density[np.isin(grid, edges)] = 0.0  # exactly, so that a gap contributes nothing
    return Law(grid, density, bands, atom, () if line is None else _spikes(model, bands, line))


def _scan(model: Model) -> Float[Array, "E"]:
    """Where bands are looked for: everywhere, and closely around the centre of each sector's bulk."""
    scan = np.concatenate([np.geomspace(_LOWEST, 1e-2, _SCAN // 2, endpoint=False), np.linspace(1e-2, 1, _SCAN // 2)])
    scan *= largest_possible(model)
    if len(model.sectors) == 1:
        return scan
    n, N = model.problem.n, model.problem.N
    for sector in model.sectors:
        centre = max(1.0, N / sector.dim) * model.weight @ (sector.K**2 @ model.w) * max(1.0, sector.dim / n)
        width = np.sqrt(sector.dim / n) + np.sqrt(sector.dim / N)
        scan = np.append(scan, centre * np.exp(np.linspace(-3, 3, _NEAR_BULK) * min(width, 1.0)))
    return np.unique(scan[(scan > 0) & (scan <= largest_possible(model))])


def _spikes(model: Model, bands: tuple[tuple[float, float], ...], line: Line) -> tuple[float, ...]:
    """Eigenvalues of the mean features above each band: where det(I + D M) changes sign, by bisection."""
    b = model.means.cases[0][1]
    if not b.any():
        return ()
    ends = [a for a, _ in bands[1:]] + [2 * bands[-1][1] + 4 * model.problem.N * float(model.weight @ (b**2 @ model.w))]

    def jumps(E: Array) -> list[tuple[float, float]]:
        _, *pair = solve_line(model, E, line)
        count = [
            spikes_below(model.w * rho, mean_gram(model, b, q)) for rho, q in zip(*map(np.real, pair), strict=True)
        ]
        return [(E[i], E[i + 1]) for i in np.flatnonzero(np.diff(count))]

    t = (1 - np.cos(np.pi * np.linspace(0, 1, _NEAR_BULK)[1:-1])) / 2
    gaps = zip((end for _, end in bands), ends, strict=True)
    brackets = [bracket for lower, upper in gaps for bracket in jumps(lower * (upper / lower) ** t)]
    for _ in range(4):
        brackets = [finer for bracket in brackets for finer in jumps(np.linspace(*bracket, 33))]
    return tuple(sorted(((left + right) / 2 for left, right in brackets), reverse=True))


def spikes_below(D: Float[Array, "m"], M: Float[Array, "m m"]) -> int:
    """An integer that grows by one where λ passes an eigenvalue of the special sector: n₋(D) − n₋(D⁻¹ + M).

    (D⁻¹ + M)⁻¹ is a block of the resolvent, which falls with λ between its poles: so at a pole an eigenvalue of
    D⁻¹ + M passes 0 from below, and at ρ_i = 0, no pole, one of D⁻¹ and of D⁻¹ + M passes ∞.
    """
    root = np.sqrt(np.abs(D))
    values = np.linalg.eigvalsh(np.diag(np.sign(D)) + root[:, None] * M * root)
    return int((D < 0).sum() - (values < 0).sum())


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


def largest_possible(model: Model) -> float:
    """An upper bound of the bulk: (Σ_l max|K_l|·‖X_l‖‖Y_l‖ + √rest‖Z‖)²/n with the norms of Gaussian matrices."""
    n, N = model.problem.n, model.problem.N
    bound = np.sqrt(model.rest.max()) * (1 + np.sqrt(N / n))
    for sector in model.sectors:
        bound += np.abs(sector.K).max() * (1 + np.sqrt(sector.dim / n)) * (1 + np.sqrt(N / sector.dim))
    return float(1.01 * bound**2)
