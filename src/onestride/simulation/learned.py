"""`measure_learned`: how much of each Hermite degree of the teacher the trained predictor has learned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from onestride._backend import Backend, choose, map_tiles, project
from onestride._errors import InputError
from onestride._numerics import Array, Float
from onestride._progress import shown
from onestride.drawing import Panel, Series
from onestride.problem import Problem, expect
from onestride.result import Estimate, Result
from onestride.shown import Variables
from onestride.simulation.arguments import OnProgress, seed_tuple, test_rows
from onestride.simulation.features import feature_rows, told_of_overflow
from onestride.simulation.memory import learned_memory, require_room
from onestride.simulation.network import (
    at_exponents,
    draw_batch,
    draw_directions,
    draw_network,
    drawn_weights,
    held_out_tiles,
    ridge_roles,
)
from onestride.simulation.ridge import fit_rows
from onestride.teachers import (
    MOST_DIRECTIONS,
    all_products,
    degree_fractions,
    degree_powers,
    direction_fractions,
    hermite_components,
    joint_hermite,
)

DEGREE = 4  # components H_1 … H_4; the constant is kept out of "unexplained" too


@dataclass(frozen=True, repr=False)
class MeasuredLearned(Result):
    """Measured components; the names of `theory.learned.Learned`, each an `Estimate`, plus the same without the step.

    degrees
        The k ≤ 4 that the teacher has, c⋆_k ≠ 0.
    fraction
        Axes (seeds, degrees): E[f̂(x) H_k(β⋆ᵀx)]/(c⋆_k k!); 1 is fully learned, 0 not at all. Of several directions the
        part of total degree k.
    by_direction
        Axes (seeds, directions, 4): the same of H_k(β_jᵀx) alone; NaN where the teacher has none.
    unexplained
        Axis (seeds): E f̂² outside the span of H_0 … H_4 of β⋆ᵀx (of products up to degree 4 for several directions); what
        the predictor says that is not about the teacher. The span is that of one draw: the theory's number has the variance
        of the components over draws in it, too.
    """

    _told = ("seeds", "degrees", "fraction", "by_direction", "unexplained")
    _brief = ("degrees", "fraction", "unexplained")
    _equation = "fraction of degree k: E[f̂(x) H_k(β⋆ᵀx)]/(c⋆_k k!)"

    problem: Problem
    seeds: tuple[int, ...]
    degrees: tuple[int, ...]
    fraction: Estimate
    by_direction: Estimate
    unexplained: Estimate
    untrained: MeasuredLearned | None = None

    def panels(self) -> Sequence[Panel]:
        """What is learned of each degree, after the step and without it."""
        shown = {"after the step": self} | ({} if self.untrained is None else {"without it": self.untrained})
        series = [
            Series(label, m.degrees, m.fraction.mean, m.fraction.stderr, kind="simulation", colour=4 * k)
            for k, (label, m) in enumerate(shown.items())
        ]
        return [Panel("learned", "Hermite degree", "fraction", series, xticks=self.degrees)]

    def _axes(self) -> dict[str, Sequence[int]]:
        return {"seed": self.seeds, "degree": self.degrees}

    def _variables(self) -> Variables:
        found: Variables = {"fraction": (("seed", "degree"), self.fraction.values)}
        if self.untrained is not None:
            found["untrained_fraction"] = (("seed", "degree"), self.untrained.fraction.values)
        return found | {"unexplained": (("seed",), self.unexplained.values)}


def measure_learned(
    problem: Problem,
    seeds: int | Iterable[int] = 4,
    *,
    n_test: int | None = None,
    device: str | None = None,
    progress: OnProgress | bool | None = None,
) -> MeasuredLearned:
    """Fit the ridge regression, with and without the step, and expand the predictor in Hermite polynomials of β⋆ᵀx.

    f̂ is regressed on H_0 … H_4 of β⋆ᵀx over `n_test` fresh inputs (4n, at least 4000), so sampling error of one
    component does not leak into another.

    >>> problem = one.Problem(n=60, d=30, N=40, teacher=[0, 1, 0.7071], step=one.Step(exponent=0.3))
    >>> one.measure_learned(problem, seeds=2).degrees
    (1, 2)
    """
    expect(problem)
    return measure_learned_along(
        problem, [problem.step.exponent], seeds, n_test=n_test, device=device, progress=progress
    )[0]


@told_of_overflow
def measure_learned_along(
    problem: Problem,
    exponents: Sequence[float],
    seeds: int | Iterable[int] = 4,
    *,
    n_test: int | None = None,
    device: str | None = None,
    progress: OnProgress | bool | None = None,
) -> list[MeasuredLearned]:
    """`measure_learned` at each exponent of the step: they share the draws, the gradient and the network without a step."""
    seed_list, chosen = seed_tuple(seeds), at_exponents(problem, exponents)
    rows = max(4 * problem.n, 4000) if n_test is None else test_rows(problem, n_test)
    if problem.directions > MOST_DIRECTIONS:
        raise InputError(
            f"measure_learned needs a teacher of at most {MOST_DIRECTIONS} directions, got directions = {problem.directions}"
        )
    least = len(all_products(problem.directions, DEGREE))
    if rows <= least:
        raise InputError(f"n_test must be above {least}, got {n_test}")
    degrees = teacher_degrees(problem)
    values = np.empty((len(seed_list), 1 + len(chosen), len(degrees) + DEGREE * problem.directions + 1))
    backend = choose(device)
    room = learned_memory(problem, rows, backend)
    require_room(problem, room.memory, backend, n_test=n_test)
    with shown(progress, "measuring what is learned") as tell:
        for i, seed in enumerate(seed_list):
            values[i] = _one_seed(chosen, seed, degrees, rows, backend, stored=room.stores_features)
            tell(i + 1, len(seed_list))

    def wrap(k: int, untrained: MeasuredLearned | None) -> MeasuredLearned:
        fraction, each, unexplained = np.split(values[:, k], [len(degrees), values.shape[2] - 1], axis=1)
        by_direction = Estimate(each.reshape(-1, problem.directions, DEGREE))
        shares = (Estimate(fraction), by_direction, Estimate(unexplained[:, 0]))
        return MeasuredLearned(chosen[max(k - 1, 0)], seed_list, degrees, *shares, untrained)

    return [wrap(k + 1, replace(wrap(0, None), problem=at)) for k, at in enumerate(chosen)]


def teacher_degrees(problem: Problem) -> tuple[int, ...]:
    """The degrees 1 ≤ k ≤ 4 that the teacher has: c⋆_k ≠ 0."""
    power = degree_powers(hermite_components(problem.target, DEGREE), problem.directions)
    return tuple(k for k in range(1, DEGREE + 1) if power[k] != 0)


def _one_seed(
    problems: Sequence[Problem], seed: int, degrees: tuple[int, ...], n_test: int, backend: Backend, *, stored: bool
) -> Float[Array, "networks parts"]:
    """Learned fractions by degree and by direction, and unexplained power, without the step and with each (first axis)."""
    problem, put, get = problems[0], backend.put, backend.get
    sigma, weights = problem.sigma, drawn_weights(problems, draw_network(problem, seed), seed, backend)
    batch = draw_batch(problem, seed, *ridge_roles(problem), problem.n)
    directions = draw_directions(problem, seed)
    ridge, dual = np.array([problem.ridge]), problem.n <= problem.N
    rows = partial(feature_rows, problem, put(batch.X), backend=backend, stored=stored)
    readouts = [fit_rows(rows(W()), put(batch.y), ridge, dual=dual).coefficients[:, 0] for W in weights]
    del batch, rows

    taught, k = hermite_components(problem.target, DEGREE), problem.directions
    gram = np.zeros((taught.size, taught.size))
    moments, power = np.zeros((taught.size, len(weights))), np.zeros(len(weights))
    for X, _ in held_out_tiles(problem, seed, n_test, backend):
        h = joint_hermite(project(X, directions.T), DEGREE)
        inputs = put(X)
        f = np.stack([get(map_tiles(sigma, inputs @ W().T) @ a) for W, a in zip(weights, readouts, strict=True)])
        gram += h @ h.T
        moments += h @ f.T
        power += (f**2).sum(1)
    components = np.linalg.solve(gram, moments)
    unexplained = (power - (components * moments).sum(0)) / (n_test - taught.size)
    chosen = [degree - 1 for degree in degrees]
    fraction = [degree_fractions(found, taught, k)[chosen] for found in components.T]
    by_direction = [direction_fractions(found, taught, k).ravel() for found in components.T]
    return np.concatenate([fraction, by_direction, unexplained[:, None]], axis=1)
