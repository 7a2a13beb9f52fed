"""Between two bulks: where they are dark, and the single eigenvalues there.

With n, N ≫ B_l the B_l eigenvalues of degree l are a bulk of their own, far above that of the degrees beyond: the special
sector may have an eigenvalue between the two, below the one and above the other. The equations are followed at
λ = −E(1 + iε): the solution is real there to O(ε), though ρ_i and q_k may have either sign, and

    n₋(D) − n₋(D⁻¹ + M)     (`density.spikes_below`)

grows by one where E passes such an eigenvalue on its way down.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from onestride._numerics import Array, Float
from onestride.theory.density import spikes_below
from onestride.theory.profile.equations import Solution, newton
from onestride.theory.profile.quadratic_form import Gram, gram_moved, special_gram
from onestride.theory.profile.sectors import Means, Model

BLUR = 1e-3  # a density is read at E(1 + iε): relative width of its smoothing
_ABOVE_AXIS = 1e-6  # ε
_EXACT = 1e-9  # what a solution leaves of the equations
_READ = 1e-6  # the same where a density is read: it changes by less than that beside 1/E
_DARK = 1e-4  # density · E below which E lies in a gap: a tenth of an eigenvalue at n = 1,000
_RATIO = 1.1  # of neighbouring E
_EDGE = 3e-3
_ALONG = 0.3  # the largest change of a logarithm along a tangent
_PROBES = (0.5, 0.75, 0.25, 0.9)  # where a gap is looked for between the estimated ends of two bulks, in log E
_HEAVY = 0.02  # share of the mass between two points of a density above which one is put between them
_LOWEST = 1e-6  # a gap that goes further down has no bulk below it
_RARE = 0.03  # rows of weight below this over n are dropped
_BISECTIONS = 10
_POLISH = 4


class Gap(NamedTuple):
    """Solutions at decreasing E in a gap, to 0.3 % of its ends."""

    line: list[Solution]

    @property
    def lower(self) -> float:
        """The upper end of the bulk below."""
        return energy(self.line[-1])

    @property
    def upper(self) -> float:
        """The lower end of the bulk above."""
        return energy(self.line[0])


class Eigenvalue(NamedTuple):
    """A solution at an eigenvalue of the special sector, its vector v = |D|^½x and the residue's δ."""

    at: Solution
    vector: Float[Array, "m"]
    residue: float


def energy(s: Solution) -> float:
    """E = −λ."""
    return -float(np.real(s.lam))


def same_gap(model: Model, above: Solution, below: Solution) -> bool:
    """Whether no bulk lies between two solutions: −E tr R and Σ w q, both ∫ E/(E − x) over some law, grow on the way down."""

    def moments(s: Solution) -> Array:
        return np.array([-energy(s) * (model.w @ np.real(s.rho)), model.weight @ np.real(s.q)])

    start, end = moments(above), moments(below)
    return bool((end >= start - 1e-9 * np.abs(start)).all())


def ahead_of(s: Solution, way: complex) -> tuple[Array, Array]:
    """(ρ, q) further along λ by their slopes, in logarithms."""
    step = s.answer(1.0) * way
    return s.rho * np.exp(step[: s.rho.size]), s.q * np.exp(step[s.rho.size :])


def from_neighbour(model: Model, lam: complex, start: Solution | None, accuracy: float = _EXACT) -> Solution | None:
    """The solution near that of another E, along its tangent: below the real axis only one has both ρ and q/λ above it."""
    if start is None:
        return None
    rho, q = ahead_of(start, lam - start.lam)
    if not max(np.abs(np.log(rho / start.rho)).max(), np.abs(np.log(q / start.q)).max()) < _ALONG:
        rho, q = start.rho, start.q * (lam / start.lam)
    found = newton(model, lam, rho, q, start.factors, tolerance=accuracy, steps=20, cap=0.7, sparing=True)
    above = (np.imag(found.rho) > 0).all() and (np.imag(found.q / lam) > 0).all()
    return found if found.residual <= accuracy and above else None


def from_far(model: Model, lam: complex, far: float, accuracy: float = _EXACT) -> Solution | None:
    """The solution by continuation from a large imaginary part, in large steps or in small ones."""
    for ratio in (5.0, 1.6):
        count = int(np.ceil(np.log(-far / lam.imag) / np.log(ratio))) + 1
        heights = np.geomspace(far, -lam.imag, count)
        rho, q = np.full(model.w.size, 1 / complex(lam.real, -far)), np.ones(model.theta.size, complex)
        found, factors = None, None
        for height in heights:
            at, enough = complex(lam.real, -height), accuracy if height == heights[-1] else 1e-3
            found = newton(model, at, rho, q, factors, tolerance=enough, steps=60, cap=0.7, sparing=True)
            rho, q, factors = found.rho, found.q, found.factors
            if not (found.residual < 1e-2 and (np.imag(rho) > 0).all()):
                found = None
                break
        if found is not None:
            return found
    return None


def _on_the_way(model: Model, lam: complex, start: Solution | None, halvings: int = 2) -> Solution | None:
    """The solution near that of another E, by others between the two where it is not found at once."""
    found = from_neighbour(model, lam, start, _READ)
    if found is not None or start is None or not halvings:
        return found
    middle = _on_the_way(model, -np.sqrt(lam * start.lam), start, halvings - 1)
    return None if middle is None else _on_the_way(model, lam, middle, halvings - 1)


def densities(
    model: Model, points: Float[Array, "E"], far: float, atom: float, known: list[Solution] | None = None
) -> Float[Array, "E"]:
    """Σ_i w_i Im ρ_i/π at each E(1 + iε), NaN where no solution is found.

    From the top down, where the spectrum is not yet near, each from the nearest solution there is; `known` has those of other points
    and gets those of these.
    """
    values, known = np.full(points.size, np.nan), [] if known is None else known
    with np.errstate(all="ignore"):
        for i in np.argsort(-points):
            lam = complex(-points[i], -BLUR * points[i])
            start = min(known, key=lambda s: abs(np.log(s.lam / lam)), default=None)
            found = _on_the_way(model, lam, start) or from_far(model, lam, max(far, float(points[i])), _READ)
            if found is not None:
                known.append(found)
                values[i] = max(float(np.imag(model.w @ found.rho)) - (atom / lam).imag, 0.0) / np.pi
    return values


def refined(
    grid: Float[Array, "E"], density: Float[Array, "E"], at: Callable[[Array], Array], rounds: int
) -> tuple[Array, Array]:
    """A density with intervals that carry much of the mass halved, so many times."""
    for _ in range(rounds):
        heavy = np.flatnonzero(np.diff(grid) * (density[1:] + density[:-1]) > 2 * _HEAVY)
        middle = np.sqrt(grid[heavy] * grid[heavy + 1])
        grid, density = np.insert(grid, heavy + 1, middle), np.insert(density, heavy + 1, at(middle))
    return grid, density


def bright_ends(grid: Float[Array, "E"], bright: Array) -> Float[Array, "ends"]:
    """Where it turns bright and dark again, in turn."""
    turns = np.flatnonzero(np.diff(np.concatenate([[False], bright, [False]]).astype(int)))
    return grid[np.minimum(turns, grid.size - 1)]


def without_rare_rows(model: Model) -> Model:
    """The model without kinds of samples of which n has none: each would be an island of its own in a gap."""
    kept = model.w > _RARE / model.problem.n

    def columns(x: Array) -> Array:
        return x[..., np.tile(kept, x.shape[-1] // kept.size)]

    means = Means(
        tuple((p, columns(b)) for p, b in model.means.cases),
        tuple(map(columns, model.means.independent)),
        columns(model.means.h),
        model.means.carried,
        model.means.excess,
    )
    sectors = tuple(replace(s, K=s.K[:, kept], h=s.h[kept]) for s in model.sectors)
    rows = {name: getattr(model, name)[kept] for name in ("z", "r", "tail")}
    share = model.w[kept] / model.w[kept].sum()
    return replace(model, **rows, w=share, sectors=sectors, rest=model.rest[:, kept], means=means)


def find_gaps(model: Model, edge: float) -> list[Gap]:
    """The gaps below the bulk that ends at `edge`, from the top: between degree l and all that lies below it."""
    gaps: list[Gap] = []
    with np.errstate(all="ignore"):
        for l in range(len(model.sectors)):
            lower, upper = _estimate(model, l)
            upper = min([upper, edge, *(gap.lower for gap in gaps)])
            for t in _PROBES if 0 < lower < upper else ():
                probe = from_far(model, _lam(lower * (upper / lower) ** t), 10 * edge)
                if probe is not None and _dark(model, probe):
                    gaps.append(Gap([*_walk(model, probe, _RATIO)[::-1], probe, *_walk(model, probe, 1 / _RATIO)]))
                    break
    return [gap for gap in gaps if gap.lower > _LOWEST * gap.upper]


def eigenvalues_in(model: Model, gap: Gap) -> list[Eigenvalue]:
    """The eigenvalues of the special sector in a gap, decreasing; one that is no pole of the resolvent is left out."""
    counts = [_count(model, s) for s in gap.line]
    found: list[Eigenvalue | None] = []
    with np.errstate(all="ignore"):
        for above, below, many in zip(gap.line[:-1], gap.line[1:], np.diff(counts), strict=True):
            for k in range(many):
                found.append(_locate(model, above, below, k))
    return [x for x in found if x is not None]


def _lam(E: float) -> complex:
    return complex(-E, -_ABOVE_AXIS * E)


def _dark(model: Model, s: Solution) -> bool:
    return bool(np.imag(model.w @ s.rho) * energy(s) < np.pi * _DARK)


def _estimate(model: Model, l: int) -> tuple[float, float]:
    """About where the bulk of the degrees above the (l+1)-th ends and that one's begins, without a step; nothing, where
    that one's is not clear of the rest.
    """
    n, N = model.problem.n, model.problem.N

    def power(K: Array) -> float:
        return float(model.weight @ (K**2 @ model.w))

    sector = model.sectors[l]
    shrunk = max(1 - np.sqrt(sector.dim / n), 0.0) * max(1 - np.sqrt(sector.dim / N), 0.0)
    upper = 1.5 * N / sector.dim * power(sector.K) * shrunk**2  # what lies below pushes it up
    noise, norm = float(model.weight @ (model.rest @ model.w)), 0.0
    for other in model.sectors[l + 1 :]:
        if other.dim > max(n, N):
            noise += power(other.K)
        else:
            norm += np.sqrt(power(other.K)) * (1 + np.sqrt(other.dim / n)) * (1 + np.sqrt(N / other.dim))
    norm += np.sqrt(noise) * (1 + np.sqrt(N / n))
    return (float(min(norm**2, upper / 2)), upper) if upper > norm**2 / 4 else (0.0, 0.0)


def _walk(model: Model, start: Solution, ratio: float) -> list[Solution]:
    """Solutions at E multiplied by `ratio` again and again, in smaller steps near the end of the gap."""
    line: list[Solution] = []
    here, lowest = start, 0.9 * _LOWEST * energy(start)
    while abs(ratio - 1) > _EDGE and energy(here) > lowest:
        found = from_neighbour(model, _lam(energy(here) * ratio), here)
        order = () if found is None else (here, found) if ratio < 1 else (found, here)
        if found is not None and _dark(model, found) and same_gap(model, *order):
            line.append(found)
            here = found
        else:
            ratio = float(np.sqrt(ratio))
    return line


def _special(model: Model, rho: Array, q: Array) -> tuple[Array, Gram]:
    """D and M of the special sector at real ρ, q."""
    b = model.means.cases[0][1]
    return np.tile(model.w * rho, b.shape[1] // rho.size), special_gram(model, b, rho, q)


def _count(model: Model, s: Solution) -> int:
    D, gram = _special(model, np.real(s.rho), np.real(s.q))
    return spikes_below(D, gram.M)


def _locate(model: Model, above: Solution, below: Solution, k: int) -> Eigenvalue | None:
    """The (k+1)-th eigenvalue from the top between two solutions: by bisection, then Newton's method at real λ."""
    base = _count(model, above)
    for _ in range(_BISECTIONS):
        middle = from_neighbour(model, _lam(np.sqrt(energy(above) * energy(below))), above)
        if middle is None:
            return None
        above, below = (middle, below) if _count(model, middle) <= base + k else (above, middle)
    E, rho, q = energy(above), np.real(above.rho), np.real(above.q)
    for _ in range(_POLISH):
        at = newton(model, -E, rho, q, cap=0.3)
        if not at.converged:
            return None
        found = at_pole(model, at)
        moved = E + found[0] / found[1].residue
        rho, q = at.rho, at.q
        if not (found[1].residue > 0 and abs(moved / E - 1) < 0.01):
            return None
        if abs(moved / E - 1) < 1e-10:
            return found[1]
        E = moved
    return None


def at_pole(model: Model, at: Solution, k: int | None = None) -> tuple[float, Eigenvalue]:
    """The eigenvalue μ of |D|^½(D⁻¹ + M)|D|^½ next to 0 (or its k-th largest), with vector and δ = vᵀ ∂(D⁻¹ + M)/∂λ v."""
    D, gram = _special(model, at.rho, at.q)
    root = np.sqrt(np.abs(D))
    values, vectors = np.linalg.eigh(np.diag(np.sign(D)) + root[:, None] * gram.M * root)
    chosen = int(np.argmin(np.abs(values))) if k is None else -1 - k
    x = vectors[:, chosen]
    v = root * x
    d_rho, d_q = at.tangent(1.0)
    moved = gram_moved(model, gram, v, (d_rho, d_q))
    residue = -np.sum(np.tile(model.w * d_rho, D.size // d_rho.size) * (x / root) ** 2) + moved
    return float(values[chosen]), Eigenvalue(at, v, float(residue))
