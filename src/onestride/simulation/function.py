"""`sample_function`: the fitted predictor f̂ at fresh inputs, with and without the step, beside z = β⋆ᵀx."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from onestride._backend import choose, map_tiles, project
from onestride._numerics import Array, Float
from onestride.problem import Problem
from onestride.simulation.features import feature_rows
from onestride.simulation.memory import learned_memory, require_room
from onestride.simulation.network import (
    draw_batch,
    draw_directions,
    draw_network,
    held_out_tiles,
    ridge_roles,
    trained_weights,
)
from onestride.simulation.ridge import fit_rows


@dataclass(frozen=True)
class SampledFunction:
    """f̂(x) = âᵀσ(Wx) at fresh inputs: `z` is β⋆ᵀx (of several directions the first), `untrained` with W₀ in W's place."""

    z: Float[Array, "points"]
    untrained: Float[Array, "points"]
    trained: Float[Array, "points"]


def sample_function(problem: Problem, seed: int, points: int, *, device: str | None = None) -> SampledFunction:
    """Fit the ridge regression of one seed with and without the step, and evaluate both at `points` fresh inputs."""
    backend = choose(device)
    room = learned_memory(problem, points, backend)
    require_room(problem, room.memory, backend)
    network, direction = draw_network(problem, seed), draw_directions(problem, seed)[0]
    batch = draw_batch(problem, seed, *ridge_roles(problem), problem.n)
    ridge, dual = np.array([problem.ridge]), problem.n <= problem.N
    rows = partial(feature_rows, problem, batch.X, backend=backend, stored=room.stores_features)
    weights = (network.W0, trained_weights(problem, network, seed, backend=backend))
    readouts = [fit_rows(rows(W), backend.put(batch.y), ridge, dual=dual).coefficients[:, 0] for W in weights]
    z: list[Array] = []
    f: list[Array] = []
    for X, _ in held_out_tiles(problem, seed, points, backend):
        z.append(project(X, direction))
        features = (map_tiles(problem.sigma, backend.put(X) @ backend.put(W).T) for W in weights)
        f.append(np.stack([backend.get(F @ a) for F, a in zip(features, readouts, strict=True)]))
    untrained, trained = np.concatenate(f, axis=1)
    return SampledFunction(np.concatenate(z), untrained, trained)
