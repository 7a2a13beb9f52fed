"""Bulk and outliers of FFᵀ/n for any model of the profile theory: several steps, inputs with a covariance.

The bulk density is Σ_i w_i Im ρ_i/π of the same equations at λ = −E − i0, whatever the rows, neurons and sectors are. Outliers lie
where the special sector's resolvent (D̃⁻¹ + M)⁻¹ has a pole: with D̃ < 0 above the bulk,

    outlier at E   ⇔   an eigenvalue of −D̃ M equals 1     (all of them fall as E grows).

That is the rule of `outliers`, with D̃ where directions of sector 1 are carried or hang together. What the vectors of these eigenvalues
are is not computed: a batch leaves traces in several blocks, of which the functions of one coordinate are a part only.
"""

# pyright: reportMissingTypeStubs=false, reportConstantRedefinition=false
from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
from scipy.optimize import brentq  # pyright: ignore[reportUnknownVariableType]

from onestride._numerics import Array, Float
from onestride.problem import Problem
from onestride.result import TheoryError
from onestride.theory.density import Law, band_grid
from onestride.theory.gaps import BLUR, bright_ends, densities, energy, refined
from onestride.theory.outliers import RARE, crossing, real_path
from onestride.theory.profile.build import Ending, try_model
from onestride.theory.profile.coupled import coupled_special
from onestride.theory.profile.equations import Solution, newton
from onestride.theory.profile.quadratic_form import carrier, special_gram
from onestride.theory.profile.sectors import Model, all_in_columns

_NODES = 25
_MOST = 12  # eigenvalues of the special sector that are followed
_POINTS = 120
_SEEN = 3e-3  # columns of K over its largest: edge and outliers move by 1e-4, shares of the eigenvalues by 3e-4
_BRIGHT = 10 * BLUR  # E times density from which on E is inside the bulk


class Positions(NamedTuple):
    """Upper end of the bulk, outliers above it (decreasing) and what each eigenvalue of the special sector reaches at it."""

    edge: float
    leading: Float[Array, "outliers"]
    strengths: Float[Array, "strengths"]


def every_model(problem: Problem, *, likeliest: bool = False) -> list[tuple[float, Model]]:
    """The models whose spectra are looked at, with their chances: those of `predict`, one for each draw of teacher and batch that it
    averages over, the most probable first or `likeliest` alone, on fewer nodes and columns.
    """
    found = try_model(problem, nodes=_NODES, min_weight=RARE / problem.N, likeliest=likeliest)
    if isinstance(found, Ending):
        raise TheoryError(found.message)
    models = list[tuple[float, Model]]()
    for chance, model in sorted(found.members, key=lambda member: -member[0]):
        sectors, rest = all_in_columns(model.sectors, model.rest, model.w, model.weight, least=_SEEN)
        models.append((chance, replace(model, sectors=sectors, rest=rest)))
    return models


def any_model(problem: Problem) -> Model:
    """That of the most probable draw."""
    return every_model(problem, likeliest=True)[0][1]


def strengths_at(model: Model, s: Solution) -> Float[Array, "strengths"]:
    """Leading eigenvalues of −D̃ M, decreasing."""
    rho, q = np.real(s.rho), np.real(s.q)
    few = None if model.means.coupled is not None else model.few
    _, b = max(model.means.cases if few is None else few.cases, key=lambda case: case[0])
    if few is None:
        wide, M = coupled_special(model, b, rho, q)
    else:
        wide, M = carrier(model, rho, q)[0], special_gram(model, b, rho, q, few).M
    values, vectors = np.linalg.eigh(-(wide + wide.T) / 2)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.linalg.eigvalsh(root.T @ M @ root)[::-1][:_MOST]


def positions(model: Model, floor: float = 0.0) -> Positions:
    """Follow the equations from far above the spectrum down to the edge of the bulk, or to `floor`."""
    path = real_path(model, floor, far=_far(model))
    if not path:
        raise TheoryError("the profile equations were not solved above the spectrum, so its edge is not known")
    reached = np.array([strengths_at(model, s) for s in path])
    found = [at for at in map(crossing, reached.T) if at is not None]
    places = [_place(model, path[at], path[at + 1], k) for k, at in enumerate(found)]
    return Positions(energy(path[-1]), np.sort([E for E in places if E is not None])[::-1], reached[-1])


def mean_positions(models: list[tuple[float, Model]]) -> Positions:
    """The positions of the first model, its outliers averaged over all draws; where a draw has fewer, the end of the bulk stands for them.

    Simulated means of the largest (inputs "power", 120 seeds): 67.5 ± 1.5, 93.3 ± 2.1, 17.7 ± 0.8; so averaged 69.8, 95.5, 16.4, of the
    most probable draw 63.8, 88.0, 13.1.
    """
    (chance, model), *others = models
    first = positions(model)
    leading, edges = chance * first.leading, np.full(first.leading.size, first.edge)
    for chance, model in others if leading.size else ():
        found = np.append(positions(model, first.edge).leading, edges)
        leading = leading + chance * found[: leading.size]
    return first._replace(leading=leading)


def _place(model: Model, above: Solution, below: Solution, k: int) -> float | None:
    """Where the k-th eigenvalue of the special sector is 1 between two solutions; None where it is not."""
    last = above

    def excess(E: float) -> float:
        nonlocal last
        last = newton(model, -E, last.rho, last.q, cap=0.3)
        return float(strengths_at(model, last)[k]) - 1

    ends = energy(below), energy(above)
    with np.errstate(all="ignore"):
        if not excess(ends[1]) < 0 < excess(ends[0]):  # it meets another: between two steps of the path all the same
            return float(np.sqrt(ends[0] * ends[1]))
        last = above
        try:
            return cast("float", brentq(excess, *ends, xtol=1e-6 * ends[1]))
        except (
            ValueError
        ):  # the last step of the path is on another branch: continued from further away it stays below 1
            return None


def _far(model: Model) -> float:
    """An E above every eigenvalue: of the bulk by its trace, and four times further while the special sector reaches 1/4."""
    powers = [float(model.weight @ (s.mean_strength[:, None] * s.K**2 @ model.w)) for s in model.sectors]
    power = float(model.weight @ (model.rest @ model.w)) + sum(powers)
    E = 20 * power * (model.N_over_n + 1) * (1 + model.problem.phi)
    while E < 1e12:
        far = newton(model, -E, np.full(model.w.size, -1 / E), np.ones(model.theta.size), cap=0.3, steps=30)
        if far.converged and strengths_at(model, far)[0] < 1 / 4:
            break
        E *= 4
    return E


def bulk_law(model: Model, edge: float) -> Law:
    """The density up to the edge, smoothed by 0.1 % of E, with its bands and the atom 1 − min(n, N)/n at 0."""
    n, N = model.problem.n, model.problem.N
    atom = 1 - min(n, N) / n

    known = list[Solution]()

    def at(points: Array) -> Array:
        return densities(model, points, 10 * edge, atom, known)

    grid = band_grid(1e-5 * edge, 1.1 * edge, _POINTS)
    grid, density = refined(grid, at(grid), at, rounds=2)
    ends: list[float] = bright_ends(grid, density * grid > _BRIGHT).tolist()
    if ends:
        ends[-1] = edge
    return Law(grid, np.nan_to_num(density), tuple(zip(ends[::2], ends[1::2], strict=True)), atom)
