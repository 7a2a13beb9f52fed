"""The spectrum while a slider moves: the bulk before the step on a coarse grid, and spikes to one per cent.

The bulk depends on the activation and the sizes alone: it is kept while any other number moves. The walk down to it in E = −λ doubles its steps; each solution
begins at the one before, carried on along d log(ρ, q)/d log E.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from onestride._numerics import Array, Float
from onestride.functions import Function
from onestride.problem import Problem
from onestride.result import plain
from onestride.theory.density import (
    largest_possible,
    network_alone,
    resolves_degrees,
    untrained_density,
    untrained_model,
)
from onestride.theory.gaps import ahead_of, energy, same_gap
from onestride.theory.outliers import crossing, far_above, is_physical, special_eigenvalues, spike_model
from onestride.theory.profile.equations import Solution, newton
from onestride.theory.profile.sectors import Model

_RATIO, _NEAR = 2.0, 0.1  # of two neighbours of the walk, and of the last ones above the edge
_TOLERANCE, _STEPS = 1e-4, 8  # of Newton's method: they move a spike by less than the ratio does
_SPIKES = 6
_POINTS = {False: (1e-4, 140), True: (1e-6, 200)}  # lowest E over the largest, and points; degrees resolved or not


class _Bulk(NamedTuple):
    """Density of the untrained features on a grid, and the upper end of what is seen of it."""

    grid: Float[Array, "E"]
    density: Float[Array, "E"]
    edge: float


def quick_spectrum(problem: Problem, level: str, nodes: int) -> dict[str, Any]:
    """What the page draws: the bulk before the step, and the eigenvalues above it after the step."""
    bulk = _bulk(network_alone(problem), problem.sigma)  # pyright: ignore[reportArgumentType]
    if bulk is None:
        return {"untrained": None, "trained": None, "leading": [], "degrees": [], "edge": None, "message": ""}
    leading = rough_outliers(spike_model(problem, level, nodes), bulk.edge) if problem.eta > 0 else []
    law = {"grid": plain(bulk.grid), "density": plain(bulk.density)}
    return {"untrained": law, "trained": None, "leading": leading, "degrees": [], "edge": bulk.edge, "message": ""}


@lru_cache(maxsize=64)
def _bulk(problem: Problem, sigma: Function) -> _Bulk | None:
    """None where all features are 0; the function is named since a registered name may change its meaning."""
    assert sigma == problem.sigma
    scale = largest_possible(untrained_model(problem))
    if scale == 0:
        return None
    # the bulk of degree l is about B_l times narrower and lower than that of degree one
    lowest, points = _POINTS[resolves_degrees(problem)]
    grid = scale * np.geomspace(lowest, 1, points)
    density = untrained_density(problem, grid, hasty=True)
    bright = np.flatnonzero(density * grid > 1e-6)
    return _Bulk(grid, density, float(grid[min(bright[-1] + 1, grid.size - 1)]) if bright.size else 0.0)


def rough_outliers(model: Model, edge: float) -> list[float]:
    """Where eigenvalues of the special sector cross 1 on the walk down to `edge`, by interpolation in logarithms."""
    path = _walk(model, edge)
    if len(path) < 2:
        return []
    at = np.log([energy(s) for s in path])
    values = np.maximum([special_eigenvalues(model, s)[:_SPIKES] for s in path], 1e-300)
    found: list[float] = []
    for column in values.T:
        i = crossing(column)
        if i is not None:
            above, below = np.log(column[i : i + 2])
            found.append(float(np.exp(at[i] + above / (above - below) * (at[i + 1] - at[i]))))
    return sorted(found, reverse=True)


def _walk(model: Model, floor: float) -> list[Solution]:
    """`outliers.real_path`, coarsely: solutions at λ = −E from far above the spectrum down to the bulk edge or `floor`."""
    if not model.finite:
        return []
    E, ratio = far_above(model), _RATIO
    rho, q, path = np.full(model.w.size, -1 / E), np.ones(model.theta.size), list[Solution]()
    with np.errstate(all="ignore"):
        while ratio - 1 > _NEAR:
            found = newton(model, -E, rho, q, cap=0.3, steps=_STEPS, tolerance=_TOLERANCE)
            if is_physical(model, found, found.tangent(1.0)[0]) and (not path or same_gap(model, path[-1], found)):
                path.append(found)
            elif not path:
                return []
            else:
                ratio = 1 + (ratio - 1) / 2
            E = energy(path[-1]) / ratio
            if floor > 0 and E / floor < 1:
                if energy(path[-1]) / floor < 1 + _NEAR:
                    break
                E = floor
            rho, q = ahead_of(path[-1], -energy(path[-1]) * float(np.log(E / energy(path[-1]))))
    return path
