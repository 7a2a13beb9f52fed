"""Errors of a network on a table, on steps × penalties.

    errors after a step = errors without one × (after/before on the same draws of rows and neurons)

Steps are computed at sizes η/√N that are powers of two, and at powers of two of the rows of the step; between them the factor is interpolated
(in the logarithms; below the weakest step it goes to 1 with η). At most half of the table's rows take the step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from onestride._numerics import Array, Float
from onestride.problem import Problem, Step
from onestride.result import Errors, Status
from onestride.table import Table
from onestride.theory.registry import Theory
from onestride.theory.table.rows import FEWEST, FULL, ROWS, Effort, Network, errors_by_size, network_of

WEAKEST = 2.0**-6  # of η/√N: its factor differs from 1 by what is interpolated to 1
BEYOND_ROWS = 10.0  # times the rows of the table: as far as powers of γ may continue what they show
AMPLIFIED = 2.15  # 1/denominator of the test error: beyond, half of the errors measured are more than 10 % off (docs/own-data.md)


def refused(problem: Problem) -> str | None:
    """Why the theory of tables does not apply; None where it does."""
    table = problem.inputs
    if not isinstance(table, Table):
        return "this theory describes problems made by from_data, whose inputs are the rows of a table"
    if problem.teacher != table.link or problem.noise != table.noise:
        return (
            "the labels are those of the table, and another teacher or noise does not change them; its Gaussian stand-in, "
            "problem.replace(inputs=problem.inputs.standin), takes both"
        )
    if problem.eta == 0:
        return None
    if problem.steps > 1:
        return f"the theory of tables describes one gradient step, got steps={problem.steps}"
    if not problem.fresh:
        return "the theory of tables needs other rows for the ridge regression than for the step, got fresh=False"
    if table.rows < 2 * FEWEST:
        return f"a step needs rows of its own: {table.rows} rows are too few, {2 * FEWEST} are enough"
    return None


def errors(problem: Problem, steps: list[Step], ridges: ArrayLike, *, effort: Effort = FULL) -> Errors:
    """Train and test errors on steps × penalties."""
    lam = np.asarray(ridges, float)
    shape = (len(steps), lam.size)
    values, message = np.full((3, *shape), np.nan), np.full(shape, Status.SOLVED.value, object)
    status = np.full(shape, Status.SOLVED, object)
    for i, step in enumerate(steps):
        stepped = problem.replace(step=step)
        reason = refused(stepped)
        if reason is not None:
            status[i], message[i] = Status.ASSUMPTION, f"{Status.ASSUMPTION.value}: {reason}"
            continue
        found = with_spread(stepped, lam, effort)
        values[:, i] = found[:3]
        for j, (reach, amplified) in enumerate(found[4:].T):
            reason = beyond_the_rows(stepped, float(lam[j]), float(reach), float(amplified))
            if reason is not None:
                status[i, j], message[i, j] = Status.INACCURATE, f"{Status.INACCURATE.value}: {reason}"
    loss, training, test = values
    return Errors(loss, training, test, np.zeros(shape), np.zeros(shape, int), status, message)


def with_spread(
    problem: Problem, ridges: Float[Array, "penalties"], effort: Effort = FULL
) -> Float[Array, "6 penalties"]:
    """Objective, training and test error, the relative standard error of the last, how far beyond the rows it lies, and how much is amplified."""
    table = problem.inputs
    assert isinstance(table, Table)
    n, N, network = problem.n, problem.N, network_of(problem)
    found = errors_by_size(table, network, n, N, ridges, paired=False)
    if problem.eta:  # after over before, interpolated between powers of two of η/√N and of the rows of the step
        steps = stepped_networks(table, problem)
        found[:3] *= np.exp(sum(w * _log_factor(table, network, problem, ridges, effort) for w, network in steps))
    return found


def stepped_networks(table: Table, problem: Problem) -> Iterator[tuple[float, Network]]:
    """The networks whose change by their step is added up with these weights: at powers of two, and less where the step is weaker still."""
    strength, most = problem.eta / np.sqrt(problem.N), table.rows // 2
    for step_rows, share in _between(float(min(problem.step_samples, most)), float(most)):
        for size, weight in _between(max(strength, WEAKEST), np.inf):
            yield share * weight * min(strength / WEAKEST, 1.0), after_step(problem, size, round(step_rows))


def after_step(problem: Problem, strength: float, step_rows: int) -> Network:
    """The network of a problem after a step of size η/√N on so many rows."""
    width = problem.N if problem.gradient == "full" else 0
    return replace(network_of(problem), strength=strength, step_rows=step_rows, width=width)


def _log_factor(
    table: Table, network: Network, problem: Problem, ridges: Array, effort: Effort
) -> Float[Array, "3 penalties"]:
    pair = [
        errors_by_size(table, one, problem.n, problem.N, ridges, paired=True, effort=effort)[:3]
        for one in (network.untrained, network)
    ]
    return np.log(pair[1] / pair[0])


def _between(value: float, most: float) -> list[tuple[float, float]]:
    """The powers of two around a number, none above `most`, with the shares of an interpolation of logarithms."""
    low = 2.0 ** np.floor(np.log2(value))
    high = min(2 * low, most)
    if value == low or high <= low:
        return [(min(low, most), 1.0)]
    share = float(np.log(value / low) / np.log(high / low))
    return [(high, 1.0)] if share > 1 - 1e-9 else [(low, 1 - share), (high, share)]


def beyond_the_rows(problem: Problem, ridge: float, reach: float, amplified: float) -> str | None:
    """Why a number is too far from what the rows show; None where it is not."""
    table = problem.inputs
    assert isinstance(table, Table)
    if problem.n > BEYOND_ROWS * table.rows:
        return (
            f"n = {problem.n} is more than {BEYOND_ROWS:g} times the {table.rows} rows of the table: the curve is continued as a "
            "power of what they show"
        )
    allowed = np.e * max(problem.n / min(table.rows, ROWS), 1.0) ** 2
    if reach > allowed:
        return (
            f"the penalty λ = {ridge:.2g} is so small that the fit follows parts of the features that the {table.rows} rows of the table do "
            "not show"
        )
    if amplified > AMPLIFIED:
        return (
            f"the penalty λ = {ridge:.2g} is so small for n = {problem.n} and N = {problem.N} that the fit amplifies what it cannot follow "
            f"{amplified:.3g} times: beyond {AMPLIFIED:g} times half of the errors measured were more than 10 % off, most of those larger than predicted"
        )
    return None


def words(problem: Problem) -> str:
    """What the rows themselves say about the accuracy."""
    table = problem.inputs
    if refused(problem) is not None or not isinstance(table, Table):
        return "no answer"
    spread = float(with_spread(problem, np.array([problem.ridge]))[3, 0])
    far = problem.n / table.rows
    beyond = f", continued from {table.rows} to {problem.n} of them" if far > 1 else ""
    return f"from the rows of the table, ± {spread:.1%} by their number{beyond}"


THEORY = Theory("table", errors, words, refused, of_tables=True)
