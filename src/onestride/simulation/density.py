"""`measure_density`: the smoothed spectrum of FFᵀ/n, from products with F alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real

import numpy as np

from onestride._backend import choose, stream
from onestride._errors import InputError, quoted
from onestride._numerics import Array, Float, gauss_density
from onestride.drawing import Panel, Series
from onestride.problem import Problem, grid_axis
from onestride.result import Estimate, Result
from onestride.shown import Variables
from onestride.simulation.arguments import seed_tuple
from onestride.simulation.features import feature_rows, told_of_overflow
from onestride.simulation.krylov import lanczos_quadrature
from onestride.simulation.memory import density_memory, require_room
from onestride.simulation.network import draw_batch, draw_network, ridge_roles, trained_weights
from onestride.simulation.rows import Rows

_SPIKES = 5  # of the eigenvalues after a step: so many may lie beyond the points


@dataclass(frozen=True, repr=False)
class MeasuredDensity(Result):
    """The spectral density of FFᵀ/n, all n eigenvalues counted, smoothed by a Gaussian; axes (seeds, points).

    points, width
        Where it is given, and the standard deviation of the smoothing.
    density, untrained_density
        After the step, and for F₀ on the same draw. For n > N the n − N zero eigenvalues are left out of both. What is
        smoothed to below 0 is counted above, at the same distance: there are no eigenvalues below.
    beyond
        Axis (seeds,): share of the n eigenvalues after the step above the last point, spikes as a rule.
    """

    _told = ("seeds", "points", "width", "density", "untrained_density", "beyond")
    _brief = ("points", "width", "density")

    problem: Problem
    seeds: tuple[int, ...]
    points: Float[Array, "points"]
    width: float
    density: Estimate
    untrained_density: Estimate
    beyond: Estimate

    def panels(self) -> Sequence[Panel]:
        """Both densities, means over the seeds."""
        shown = {"without the step": self.untrained_density, "after the step": self.density}
        series = [Series(name, self.points, e.mean, colour=4 * (1 - k)) for k, (name, e) in enumerate(shown.items())]
        return [Panel("spectrum of FFᵀ/n", "eigenvalue", "density", series)]

    def _axes(self) -> dict[str, Sequence[float]]:
        return {"seed": self.seeds, "eigenvalue": self.points.tolist()}

    def _variables(self) -> Variables:
        names = ("density", "untrained_density")
        return {name: (("seed", "eigenvalue"), getattr(self, name).values) for name in names}


@told_of_overflow
def measure_density(
    problem: Problem,
    seeds: int | Iterable[int] = 4,
    *,
    points: Array | None = None,
    width: float | None = None,
    device: str | None = None,
) -> MeasuredDensity:
    """The smoothed density of the spectrum without a full decomposition, by stochastic Lanczos quadrature.

    By default 200 points cover the spectrum of F₀ and, after the step, all but five eigenvalues, which may be spikes far away
    (`beyond` is their share), and `width` is 2 % of that range: sharper than that the quadrature (8 probes, 80 steps) would
    show its own nodes.

    >>> problem = one.Problem(n=60, d=30, N=40, step=one.Step(exponent=0.3))
    >>> found = one.measure_density(problem, seeds=1)
    >>> found.points.size, found.density.values.shape
    (200, (1, 200))
    """
    seed_list = seed_tuple(seeds)
    asked = None if points is None else grid_axis("points", points)
    if width is not None and not (isinstance(width, Real) and 0 < width < np.inf):
        raise InputError(f"width must be a finite number above 0, got {quoted(width)}")
    pairs: list[tuple[Array, Array]] = []
    backend = choose(device)
    room = density_memory(problem, backend)
    require_room(problem, room.memory, backend)
    for seed in seed_list:
        network = draw_network(problem, seed)
        X = draw_batch(problem, seed, ridge_roles(problem)[0], None, problem.n).X
        W = trained_weights(problem, network, seed, backend=backend)
        rows = partial(feature_rows, problem, X, backend=backend, stored=room.stores_features)
        pairs.append((_quadrature(rows(network.W0), problem.n, seed), _quadrature(rows(W), problem.n, seed)))
    top = max(max(float(before[0].max()), _below(after, _SPIKES / problem.n)) for before, after in pairs)
    width = 0.02 * top if width is None else float(width)
    points = np.linspace(0.0, 1.1 * top, 200) if asked is None else asked

    def smooth(k: int) -> Estimate:
        return Estimate(np.array([_smoothed(points, width, *pair[k]) for pair in pairs]))

    beyond = Estimate(np.array([after[1, after[0] > points.max()].sum() for _, after in pairs]))
    return MeasuredDensity(problem, seed_list, points, width, smooth(1), smooth(0), beyond)


def _smoothed(
    points: Float[Array, "points"], width: float, nodes: Float[Array, "nodes"], weights: Float[Array, "nodes"]
) -> Float[Array, "points"]:
    """Σ_i w_i g(x − θ_i), g a Gaussian of this width, folded at 0."""
    sides = [gauss_density((points[:, None] + sign * nodes) / width) @ weights / width for sign in (-1, 1)]
    return np.where(points < 0, 0.0, sides[0] + sides[1])


def _below(quadrature: Float[Array, "2 nodes"], share: float) -> float:
    """The largest node with more than this share of all eigenvalues at it and above; the least, if they are fewer."""
    nodes, weights = quadrature[:, np.argsort(-quadrature[0])]
    return float(nodes[min(int(np.searchsorted(np.cumsum(weights), share, side="right")), nodes.size - 1)])


def _quadrature(rows: Rows, n: int, seed: int) -> Float[Array, "2 nodes"]:
    nodes, weights = lanczos_quadrature(rows, stream(seed, "probe"))
    if not np.isfinite(nodes).all():
        raise OverflowError
    return np.stack([nodes / n, weights * rows.width / n])
