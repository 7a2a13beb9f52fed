"""Measured errors on the rows of a table: those of the step, of the fit and of the test are drawn from it, all different.

Seed by seed: n_step rows take the step, n others fit the second layer, and the rest are tested. Rows of one table are shared by the seeds, so
that standard errors say how sure the mean over draws is, not how it would be on another table.
"""

# pyright: reportConstantRedefinition=false, reportMissingTypeStubs=false
from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from onestride._backend import stream
from onestride._errors import InputError
from onestride._numerics import Array, Float
from onestride._progress import shown
from onestride.problem import Problem
from onestride.result import Estimate, Simulation
from onestride.simulation.arguments import OnProgress
from onestride.simulation.network import Batch, Network, draw_network, gradient
from onestride.table import Table

FEWEST_TESTS = 20


def enough_rows(problem: Problem, table: Table) -> str | None:
    """Why the problem cannot be measured on the rows of its table; None where it can."""
    if problem.steps > 1 or not problem.fresh:
        return (
            f"a table is measured after one step on rows of its own, got steps={problem.steps}, fresh={problem.fresh}"
        )
    if problem.teacher != table.link or problem.noise != table.noise:
        return "the labels of a table are its own, and another teacher or noise does not change them"
    needed = problem.n + (problem.step_samples if problem.eta else 0) + FEWEST_TESTS
    if needed > table.rows:
        each = 2 if problem.eta and problem.n_step is None else 1
        most = (table.rows - FEWEST_TESTS - (problem.n_step or 0 if problem.eta else 0)) // each
        return (
            f"n = {problem.n} rows for the fit{f', {problem.step_samples} for the step' if problem.eta else ''} and {FEWEST_TESTS} for a test are "
            f"more than the {table.rows} of the table" + (f"; n up to {most} can be measured" if most > 0 else "")
        )
    return None


def simulate_rows(
    problem: Problem,
    table: Table,
    alphas: Float[Array, "exponents"],
    ridges: Float[Array, "penalties"],
    seeds: tuple[int, ...],
    *,
    untrained: bool,
    progress: OnProgress | bool | None,
) -> Simulation:
    """`simulate_grid` on the rows of a table."""
    reason = enough_rows(problem, table)
    if reason is not None:
        raise InputError(reason)
    sizes = [problem.step.replace(exponent=float(a)).size(problem.n) for a in alphas]
    found: list[Array] = []
    with shown(progress, "measuring") as tell:
        for i, seed in enumerate(seeds):
            found.append(_one_seed(problem, table, [0.0, *sizes], ridges, seed))
            tell(i + 1, len(seeds))
    loss, mse, test = np.moveaxis(np.array(found), 2, 0)  # seeds × sizes × penalties each
    first = [Estimate(np.repeat(part[:, :1], alphas.size, axis=1)) for part in (loss, mse, test)]
    base = Simulation(problem, seeds, first[0], first[1], first[2]) if untrained else None
    after = Estimate(loss[:, 1:]), Estimate(mse[:, 1:]), Estimate(test[:, 1:])
    return Simulation(problem, seeds, *after, base, alphas, ridges)


def _one_seed(
    problem: Problem, table: Table, etas: list[float], ridges: Array, seed: int
) -> Float[Array, "sizes 3 penalties"]:
    """Objective, training and test error after steps of these sizes, at every penalty."""
    order, network = stream(seed, "ridge_inputs").permutation(table.rows), draw_network(problem, seed)
    taken = problem.step_samples if any(etas) else 0
    step, fit, test = order[:taken], order[taken : taken + problem.n], order[taken + problem.n :]
    G = np.zeros_like(network.W0)
    if taken:
        G = gradient(problem, network, Batch(table.X[step], table.y[step], table.y[step])).G
    out: list[Array] = []
    for eta in etas:
        moved = Network(network.W0 + eta * G, network.a)
        F, T = (np.asarray(problem.sigma(table.X[rows] @ moved.W0.T), float) for rows in (fit, test))
        out.append(_ridge(F, table.y[fit], T, table.y[test], ridges))
    return np.array(out)


def _ridge(F: Array, y: Array, T: Array, t: Array, ridges: Array) -> Float[Array, "3 penalties"]:
    """Errors of min (1/n)|y − Fa|² + λ|a|² from one factorisation, primal or dual."""
    n, N = F.shape
    if n <= N:
        values, U = eigh(F @ F.T, check_finite=False)
        along, left = U.T @ y, U
        tested = T @ (F.T @ U)
        squared = np.maximum(values, 0.0)
    else:
        values, V = eigh(F.T @ F, check_finite=False)
        along, left = V.T @ (F.T @ y), F @ V
        tested = T @ V
        squared = np.ones(N)
    share = along[:, None] / (np.maximum(values, 0.0)[:, None] + n * ridges)
    fitted = left @ (share * (np.maximum(values, 0.0)[:, None] if n <= N else 1.0))
    mse = np.mean((y[:, None] - fitted) ** 2, axis=0)
    norm = np.sum(share**2 * squared[:, None], axis=0)
    return np.array([mse + ridges * norm, mse, np.mean((t[:, None] - tested @ share) ** 2, axis=0)])
