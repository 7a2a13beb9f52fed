"""Moments of one draw whose expectations are known exactly: the luck of a seed, in numbers.

    fit       (1/n) Σ_i ψ_j(z_i)                        0,          ψ_j = Π_l H/√l! of z = (β₁ᵀx, …, β_kᵀx), degree ≥ 1
    step      (1/n₀) Σ_i r_i z_il  −  E[g z_l]          0,          r the residual of the gradient
    weights   (d/N) Σ_j (w_jᵀv)² − 1,  v = Σβ_l/|Σβ_l|  0,          w_j the rows of W₀

The first two need a Gaussian x, whose z is N(0, I_k) exactly; E[f₀ z] = 0 because rows and −rows of W₀ are as likely. Other
laws, and teachers of more directions than can be averaged over, have none of these moments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from onestride._numerics import Array, Float
from onestride.problem import Problem
from onestride.simulation.network import draw_directions
from onestride.teachers import MOST_DIRECTIONS, Target, all_products, hermite_components, joint_hermite

# by the number of directions: degree of the moments (a cubic teacher's square has degree 6), degree to which the predictor
# is expanded, and Gauss-Hermite nodes of each coordinate, for coefficients that need not be exact
DEGREES = {1: 8, 2: 4, 3: 3}
EXPANDED = {1: 4, 2: 3, 3: 2}
NODES = {1: 20, 2: 10, 3: 7}


@dataclass(frozen=True)
class Averages:
    """What is known of a teacher g: its moments, and a grid of z to average on.

    taught
        E[g ψ_j], constant first, as far as the predictor is expanded; `power` is E g².
    z, weight, g, psi
        Nodes (nodes × k), probabilities, the teacher and every ψ_j there (products × nodes).
    """

    taught: Float[Array, "expanded"]
    power: float
    z: Float[Array, "nodes k"]
    weight: Float[Array, "nodes"]
    g: Float[Array, "nodes"]
    psi: Float[Array, "products nodes"]


@lru_cache(maxsize=32)
def averages(target: Target) -> Averages:
    """Of a teacher of at most three directions."""
    k = target.directions
    x, w = hermegauss(NODES[k])
    w = w / w.sum()
    z = np.stack(np.meshgrid(*[x] * k, indexing="ij"), -1).reshape(-1, k)
    weight = np.prod(np.stack(np.meshgrid(*[w] * k, indexing="ij"), -1).reshape(-1, k), axis=1)
    g = target(z[:, 0] if k == 1 else z)
    taught = hermite_components(target, EXPANDED[k])
    return Averages(taught, target.second_moment, z, weight, g, joint_hermite(z, DEGREES[k]))


@dataclass(frozen=True)
class KnownMoments:
    """The directions of one seed's teacher, and the moments of its batches; `averages` is None where none are known."""

    problem: Problem
    directions: Float[Array, "k d"]
    averages: Averages | None = field(repr=False)

    @classmethod
    def of(cls, problem: Problem, seed: int) -> KnownMoments:
        """Those of one seed."""
        known = problem.law.normal and problem.directions <= MOST_DIRECTIONS
        return cls(problem, draw_directions(problem, seed), averages(problem.target) if known else None)

    @property
    def expanded(self) -> int:
        """How many ψ_j the predictor is expanded in, the constant among them."""
        return 0 if self.averages is None else self.averages.taught.size

    def psi(self, X: Float[Array, "n d"], degree: int) -> Float[Array, "products n"]:
        """ψ_j of the rows of X, constant first."""
        return joint_hermite(X @ self.directions.T, degree)

    def sums(self, X: Float[Array, "n d"]) -> Float[Array, "fit"]:
        """Σ_i ψ_j(z_i) of every ψ_j but the constant."""
        if self.averages is None:
            return np.zeros(0)
        return self.psi(X, DEGREES[self.problem.directions])[1:].sum(1)

    def of_step(self, Xr: Float[Array, "d"] | None) -> Float[Array, "k"]:
        """From Xᵀr/n₀; 0 where it was not noted."""
        if self.averages is None:
            return np.zeros(0)
        k = self.problem.directions
        return np.zeros(k) if Xr is None else self.directions @ Xr - self.averages.taught[1 : k + 1]

    def of_weights(self, along: Float[Array, "N k"]) -> Float[Array, "k"]:
        """From W₀Σβ_l."""
        if self.averages is None:
            return np.zeros(0)
        scale = (self.images**2).sum(1) / self.problem.d
        return (along**2).mean(0) / scale - 1

    @property
    def images(self) -> Float[Array, "k d"]:
        """Σβ_l."""
        times = self.problem.law.times
        return self.directions if times is None else times(self.directions)


def count(problem: Problem) -> int:
    """How many moments are known of one seed of a problem."""
    if not problem.law.normal or problem.directions > MOST_DIRECTIONS:
        return 0
    return len(all_products(problem.directions, DEGREES[problem.directions])) - 1 + 2 * problem.directions
