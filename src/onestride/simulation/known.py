"""Moments of one draw whose expectations are known exactly: the luck of a seed, in numbers.

    fit        (1/n) Σ_i ψ_j(z_i)                                  ψ_j = Π_l H/√l! of z = (β₁ᵀx, …, β_kᵀx), degree ≥ 1
    step       βᵀΣβ_l − E[g z_l]                                   β = Xᵀr/n₀, r the residual of the gradient
    weights    (d/N) Σ_j (w_jᵀv)² − 1,   v = Σβ_l/|Σβ_l|           w_j the rows of W₀
    tilt       |b|² − |b − b_y|² − (d − k) E y²/n₀                 b, b_y the parts of β and Xᵀy/n₀ across the teacher; Σ = I

have mean 0. The first two need a Gaussian x, whose z is N(0, I_k) exactly; in the last two signs do it: of the rows of W₀,
which make E[f₀z] = 0, and of the readout, which make E[b_yᵀ(b − b_y)] = 0. Other laws, and teachers of more than two
directions, have none of these moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from onestride._backend import DeviceArray, project
from onestride._numerics import Array, Float
from onestride.estimate import is_known
from onestride.problem import Problem
from onestride.simulation.network import draw_directions
from onestride.teachers import Target, all_products, hermite_components, joint_hermite

# by the number of directions: degree of the moments (a cubic teacher's square has degree 6), degree to which the predictor
# is expanded, and Gauss-Hermite nodes of each coordinate, for coefficients that need not be exact
DEGREES = {1: 8, 2: 4}
EXPANDED = {1: 4, 2: 3}
NODES = {1: 14, 2: 10}
NODES_BESIDE = 6


@dataclass(frozen=True)
class Averages:
    """What is known of a teacher g, and a grid to average on: of z, and of ζ = βᵀx freed of z where the step is known.

    taught
        E[g ψ_j], constant first, of all products of the coordinates (z, ζ) up to `degree`; `power` is E g².
    z, weight, g
        Nodes (nodes × coordinates), probabilities, and the teacher there.
    psi, expanded
        Every ψ_j of z, and those of (z, ζ) that the predictor is expanded in, at the nodes.
    """

    degree: int
    taught: Float[Array, "expanded"]
    power: float
    z: Float[Array, "nodes coordinates"]
    weight: Float[Array, "nodes"]
    g: Float[Array, "nodes"]
    psi: Float[Array, "products nodes"]
    expanded: Float[Array, "expanded nodes"]


@lru_cache(maxsize=32)
def averages(target: Target, beside: bool) -> Averages:
    """Of a teacher of one or two directions."""
    k, degree = target.directions, EXPANDED[target.directions]
    rules = [hermegauss(NODES[k])] * k + [hermegauss(NODES_BESIDE)] * beside
    z = np.stack(np.meshgrid(*[x for x, _ in rules], indexing="ij"), -1).reshape(-1, k + beside)
    weight = np.stack(np.meshgrid(*[w / w.sum() for _, w in rules], indexing="ij"), -1).reshape(-1, k + beside).prod(1)
    own = dict(zip(all_products(k, degree), hermite_components(target, degree), strict=True))
    taught = np.array([own.get(product, 0.0) for product in all_products(k + beside, degree)])
    g = target(z[:, 0] if k == 1 else z[:, :k])
    tables = joint_hermite(z[:, :k], DEGREES[k]), joint_hermite(z, degree)
    return Averages(degree, taught, target.second_moment, z, weight, g, *tables)


@dataclass(frozen=True)
class KnownMoments:
    """The coordinates of one seed, and the moments of its draws; `averages` is None where none are known.

    `coordinates` are the teacher's directions and, once the step is known, that of ζ; of a stack of seeds they have one
    more axis, the first.
    """

    problem: Problem
    coordinates: Float[Array, "*s coordinates d"]
    averages: Averages | None = field(repr=False)

    @classmethod
    def of(cls, problem: Problem, seed: int) -> KnownMoments:
        """Those of one seed."""
        known = averages(problem.target, False) if is_known(problem) else None
        return cls(problem, draw_directions(problem, seed), known)

    def after_step(self, beta: Float[Array, "d"]) -> KnownMoments:
        """With ζ, the direction of the step across the teacher's; for a teacher of one direction, as more would be slow."""
        across = self.across(beta[:, None])[:, 0]
        if self.averages is None or self.problem.directions > 1 or not self.problem.d > 1 or not across.any():
            return self
        coordinates = np.vstack([self.coordinates, across / np.sqrt(across @ self.image(across[None])[0])])
        return replace(self, coordinates=coordinates, averages=averages(self.problem.target, True))

    @classmethod
    def stacked(cls, each: Sequence[KnownMoments]) -> KnownMoments:
        """Those of several seeds of one problem."""
        return replace(each[0], coordinates=np.stack([one.coordinates for one in each]))

    def image(self, rows: Float[Array, "*s m d"]) -> Float[Array, "*s m d"]:
        """Σ applied to each row."""
        times = self.problem.law.times
        return rows if times is None else times(rows)

    def across(self, directions: Float[Array, "*s d k"]) -> Float[Array, "*s d k"]:
        """What of each direction, a column, is uncorrelated with all coordinates."""
        return directions - self.coordinates.mT @ (self.image(self.coordinates) @ directions)

    def psi(self, z: Float[Array, "*s n coordinates"]) -> Float[Array, "*s n expanded"]:
        """The functions of (z, ζ) that the predictor is expanded in."""
        assert self.averages is not None
        return np.moveaxis(joint_hermite(z, self.averages.degree), 0, -1)

    def sums(self, X: DeviceArray) -> Float[Array, "fit"]:
        """Σ_i ψ_j(z_i) of every ψ_j but the constant."""
        if self.averages is None:
            return np.zeros(0)
        k = self.problem.directions
        return joint_hermite(project(X, self.coordinates[:k].T), DEGREES[k])[1:].sum(1)

    def of_draw(
        self, fit: Float[Array, "*s fit"], beta: Float[Array, "*s 2 d"] | None, along: Float[Array, "*s N k"] | None
    ) -> Float[Array, "*s moments"]:
        """All moments: those of the fit; of Xᵀr/n₀ and Xᵀy/n₀; of W₀Σβ_l. What was not noted counts as 0."""
        stack = fit.shape[:-1]
        if self.averages is None:
            return np.zeros((*stack, 0))
        problem, k = self.problem, self.problem.directions
        teacher, parts = self.coordinates[..., :k, :], [np.zeros((*stack, size)) for size in (k, k, 1)]
        if beta is not None:
            parts[0] = (teacher @ beta[..., 0, :, None])[..., 0] - self.averages.taught[1 : k + 1]
        if along is not None:
            parts[1] = (along**2).mean(-2) * problem.d / (self.image(teacher) ** 2).sum(-1) - 1
        if beta is not None and problem.law.times is None and problem.readout != "constant":
            across = beta - (beta @ teacher.mT) @ teacher
            b, rest = across[..., 0, :], across[..., 0, :] - across[..., 1, :]
            power = (problem.d - k) * (self.averages.power + problem.noise**2) / problem.step_samples
            parts[2] = ((b**2).sum(-1) - (rest**2).sum(-1) - power)[..., None]
        return np.concatenate([fit, *parts], axis=-1)


def count(problem: Problem) -> int:
    """How many moments are known of one seed of a problem."""
    if not is_known(problem):
        return 0
    return len(all_products(problem.directions, DEGREES[problem.directions])) + 2 * problem.directions
