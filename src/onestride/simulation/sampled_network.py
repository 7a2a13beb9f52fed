"""`sample_network`: neurons before and after the step and the leading singular vectors of the features, of one seed.

Along the direction of the gradient, β̂ = β/|β|, the first step moves neuron j by c₁η|β|a_j, up to what is noise: neurons
that lay around 0 come to lie on a line. The leading left singular vectors of F are functions of X̃β̂, near its powers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onestride._backend import choose
from onestride._numerics import Array, Float, hermite_table
from onestride.problem import Problem
from onestride.simulation.features import feature_rows
from onestride.simulation.memory import require_room, spectrum_memory
from onestride.simulation.network import draw_batch, draw_network, ridge_roles, step_gradient, trained_weights
from onestride.simulation.spectrum import HIGHEST_OVERLAP, decompose


@dataclass(frozen=True)
class SampledNetwork:
    """Some samples and some neurons of a draw.

    z: X̃β̂. vectors: √n u_k, the largest first, each with the sign that makes its largest overlap with an H_k(X̃β̂) positive.
    readout: √N a_j. before, after: w_j·β̂ in W₀ and in W.
    """

    z: Float[Array, "points"]
    vectors: Float[Array, "count points"]
    readout: Float[Array, "neurons"]
    before: Float[Array, "neurons"]
    after: Float[Array, "neurons"]


def sample_network(
    problem: Problem, seed: int, points: int, *, count: int = 3, device: str | None = None
) -> SampledNetwork:
    """The first `points` samples of the ridge regression and the first `points` neurons."""
    backend, count = choose(device), min(count, problem.n, problem.N)
    room = spectrum_memory(problem, count, backend, full=False)
    require_room(problem, room.memory, backend)
    network = draw_network(problem, seed)
    beta = step_gradient(problem, network, seed, backend).beta
    beta = beta / np.linalg.norm(beta)
    X = draw_batch(problem, seed, ridge_roles(problem)[0], None, problem.n).X
    W = trained_weights(problem, network, seed, backend=backend)
    rows = feature_rows(problem, X, W, backend, stored=room.stores_features)
    _, vectors = decompose(rows, problem.n, count, full=False)
    z = X @ beta
    inner = hermite_table(z, HIGHEST_OVERLAP)[1:] @ vectors
    sign = np.sign(inner[np.abs(inner).argmax(0), np.arange(count)])
    return SampledNetwork(
        z=z[:points],
        vectors=np.sqrt(problem.n) * (sign * vectors).T[:, :points],
        readout=np.sqrt(problem.N) * network.a[:points],
        before=network.W0[:points] @ beta,
        after=W[:points] @ beta,
    )
