"""What a network learns of a table: shares of the function along the table's index, and the spectrum of its features.

The index s of a row is its place along the direction of the linear signal, as a normal score, from rows that did not fit it
(`own_table`); h_k = H_k/√k!. With g = h_k in `kernel_law`,

    learned share of degree k = 1 − E h_k(s)(y − f̂)/E h_k(s) y,     power of f̂ = test error + E y² − 2 E y(y − f̂).

A step adds its change on the same draws of rows and neurons, as it multiplies errors.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

import numpy as np

from onestride._numerics import Array, Float
from onestride.problem import Problem
from onestride.table import Table
from onestride.theory.table.errors import after_step, beyond_the_rows, stepped_networks, with_spread
from onestride.theory.table.rows import DEGREES, DRAWS, ROWS, Network, features_of_draw, network_of, weighted_laws


def table_shares(problem: Problem) -> tuple[Float[Array, "4"], float, str | None]:
    """The learned share of degrees 1 … 4, the power of f̂ outside their span, and why they are not to be relied on, if so."""
    table = problem.inputs
    assert isinstance(table, Table)
    left, labels = _unlearned(table, network_of(problem), problem, paired=False)
    if problem.eta:
        for weight, network in stepped_networks(table, problem):
            after, before = (_unlearned(table, one, problem, paired=True) for one in (network, network.untrained))
            left = left + weight * (after[0] / after[1] - before[0] / before[1]) * labels
    found = with_spread(problem, np.array([problem.ridge]))[:, 0]
    learned = labels - left
    power = found[2] - labels[-1] + 2 * learned[-1]
    outside = max(float(power - np.sum(learned[:-1] ** 2)), 0.0)
    return learned[:-1] / labels[:-1], outside, beyond_the_rows(problem, problem.ridge, *map(float, found[4:]))


def _unlearned(table: Table, network: Network, problem: Problem, *, paired: bool) -> Float[Array, "2 g"]:
    """E g(y − f̂) and E g y for g = h_1 … h_4 of the index, and last for y itself."""
    out = np.zeros((DEGREES + 1, 2))
    for weight, laws, _ in weighted_laws(table, network, problem.n, problem.N, paired=paired):
        out += weight * np.mean([law.unlearned(problem.n, problem.N, problem.ridge) for law in laws], axis=0)
    return out.T


def table_eigenvalues(problem: Problem) -> tuple[Float[Array, "draws r"], Float[Array, "draws r"], int]:
    """Eigenvalues of FFᵀ/m before and after the step, decreasing, on m ≤ n rows that leave as many for the step as it may have; and m."""
    table = problem.inputs
    assert isinstance(table, Table)
    network = network_of(problem)
    if problem.eta:
        network = after_step(
            problem, problem.eta / float(np.sqrt(problem.N)), min(problem.step_samples, table.rows // 2)
        )
    m = min(problem.n, ROWS, table.rows - network.step_rows)
    before = _eigenvalues(table, network.untrained, m, problem.N)
    return before, _eigenvalues(table, network, m, problem.N) if problem.eta else before, m


def _eigenvalues(table: Table, network: Network, m: int, N: int) -> Float[Array, "draws r"]:
    out: list[Array] = []
    for draw in range(DRAWS):
        F, _ = features_of_draw(table, network, m, N, draw)
        small = F @ F.T if m <= N else F.T @ F
        out.append(np.maximum(np.linalg.eigvalsh(small)[::-1] / m, 0.0))
    return np.array(out)
