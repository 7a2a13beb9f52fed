"""Features of rows of a table before and after a step that other rows of it take, and the kernel laws that they show.

    W = W₀ + (η/√N) A_j ⟨r σ'(w_jᵀx) x⟩,     r = y − f₀(x) or y,     a_j = A_j/√N,

the average over the rows of the step. Given them and f₀ neurons are independent, and f₀ is for many neurons the Gaussian process it
is for any number of them: M neurons stand for N, with steps of the same size η/√N each. A neuron's own part of f₀, a_jσ(w_jᵀx), is
that of N neurons.

A law of m rows and M neurons describes n rows and N neurons best where they are about as many: tails of a column average out over many
of them, not over few. So laws are taken of the largest number of rows and of halves of it, of N neurons (of 2,048, if N is larger or n
is far above m), each from several draws of rows and neurons, and errors between two sizes are interpolated in log n. A step is told as a
factor on the errors without one, both from the same draws.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from onestride._numerics import Array, Float, hermite_table
from onestride.functions import Function
from onestride.problem import Problem
from onestride.table import Table
from onestride.theory.table.kernel_law import FIXED, KernelLaw, kernel_law

ROWS = 2000  # the most of one law
FEWEST = 40  # rows of a law
DEGREES = 4  # of what is learned along the table's index
DRAWS = 3  # of rows and neurons: more where they are few


class Effort(NamedTuple):
    """How much is asked of the rows: the most of one law without a step, and with one, neurons that count as many, and draws."""

    rows: int = ROWS
    paired_rows: int = 1000
    many: int = 2048
    draws: int = 24


FULL = Effort()
OF_A_MAP = Effort(many=1024, draws=6)


@dataclass(frozen=True)
class Network:
    """What the features depend on; `strength` is η/√N, `step_rows` the rows of the step, `width` N (of the residual's gradient)."""

    sigma: Function
    weights: str
    readout: str
    gradient: str
    strength: float = 0.0
    step_rows: int = 0
    width: int = 0

    @property
    def untrained(self) -> Network:
        """Without the step."""
        return replace(self, strength=0.0, step_rows=0, width=0)


def network_of(problem: Problem) -> Network:
    """The network of a problem before its step."""
    return Network(problem.sigma, problem.weights, problem.readout, problem.gradient)


def ladder(rows: int, most: int) -> list[int]:
    """Numbers of rows of the laws: the largest and halves of it."""
    sizes = [min(rows, most)]
    while sizes[-1] // 2 >= FEWEST:
        sizes.append(sizes[-1] // 2)
    return sizes


def errors_by_size(
    table: Table,
    network: Network,
    n: int,
    N: int,
    ridges: Float[Array, "penalties"],
    *,
    paired: bool,
    effort: Effort = FULL,
) -> Float[Array, "6 penalties"]:
    """Three errors, and what else `KernelLaw.errors` has, at n rows and N neurons.

    The smaller number of rows counts less where it does not show the γ that is asked for, and not at all a factor e below.
    paired: from at most half of the rows, so that the step has the other half.
    """
    weights: list[float] = []
    rows: list[int] = []
    found: list[Array] = []
    for weight, laws, apart in weighted_laws(table, network, n, N, paired=paired, effort=effort):
        weights.append(weight)
        rows.append(laws[0].rows)
        found.append(np.log(_average(np.array([law.errors(n, N, ridges) for law in laws]), apart)))
    logs, fewer = np.array(found), np.array(rows) < max(rows)
    shares = np.array(weights)[:, None] * np.where(fewer[:, None], np.clip(1 - logs[:, 4], 0, 1), 1.0)
    return np.exp(np.einsum("wp,wep->ep", shares / shares.sum(0), logs))


def weighted_laws(
    table: Table, network: Network, n: int, N: int, *, paired: bool, effort: Effort = FULL
) -> Iterator[tuple[float, list[KernelLaw], float]]:
    """Laws whose answers for n rows and N neurons are averaged: with these weights, over several draws, so many with rows of their own."""
    sizes = ladder(table.rows // 2 if paired else table.rows, effort.paired_rows if paired else effort.rows)
    for m, by_rows in _around(n, sizes):
        for M, by_neurons in _neurons(n, m, N, effort.many):
            draws = min(DRAWS * max(sizes[0] // m, round(np.sqrt(effort.many / M))), effort.draws)
            laws = [law_of_draw(table, network, m, M, k) for k in range(draws)]
            yield by_rows * by_neurons, laws, table.rows / m


def linear_errors(table: Table, n: int) -> float:
    """The test error of ridge regression on n rows of the columns themselves, at its best penalty."""
    out, ridges = 0.0, np.logspace(-6, 3, 28)
    for m, weight in _around(n, ladder(table.rows, ROWS)):
        some = np.random.default_rng(m).permutation(table.rows)[:m]
        law = kernel_law(table.X[some], table.y[some], fixed=True)
        out += weight * float(np.log(law.errors(n, FIXED, ridges * FIXED)[2].min()))
    return float(np.exp(out))


def _around(value: int, sizes: list[int]) -> list[tuple[int, float]]:
    """The sizes of a falling list on both sides of a number, with the shares of an interpolation of logarithms."""
    above = [size for size in sizes if size >= value][-1:]
    below = [size for size in sizes if size < value][:1]
    if not above or not below:
        return [((above or below)[0], 1.0)]
    share = float(np.log(above[0] / value) / np.log(above[0] / below[0]))
    return [(above[0], 1.0)] if share == 0 else [(above[0], 1 - share), (below[0], share)]


def _neurons(n: int, m: int, N: int, many: int) -> list[tuple[int, float]]:
    """N neurons where m rows show all that n rows see: n ≤ m, or N ≤ m/8. Many, where γ has to go further down: n ≥ 2m and N ≥ m/2."""
    if many <= N:
        return [(many, 1.0)]
    share = float(np.clip(max(1 - np.log2(n / m), np.log(m / (2 * N)) / np.log(4)), 0.0, 1.0))
    return [(M, s) for M, s in ((max(N, 10), share), (many, 1 - share)) if s > 0]


def _average(found: Float[Array, "draws 6 penalties"], apart: float) -> Float[Array, "6 penalties"]:
    """Over the draws, of which `apart` have rows of their own."""
    draws, mean = len(found), np.maximum(found.mean(0), 1e-300)
    between = found[:, 2].std(0, ddof=1) / np.sqrt(draws) / mean[2]
    mean[3] = np.maximum(mean[3] / np.sqrt(min(draws, apart)), between)
    return mean


@lru_cache(maxsize=1024)
def law_of_draw(table: Table, network: Network, m: int, M: int, draw: int) -> KernelLaw:
    """The law of m rows and M neurons after a step on other rows; one draw has the same of them for every step."""
    F, fit = features_of_draw(table, network, m, M, draw)
    along = (
        np.column_stack([hermite_table(table.index[fit], DEGREES)[1:].T, table.y[fit]]) if table.index.size else None
    )
    return kernel_law(F, table.y[fit], along)


def features_of_draw(table: Table, network: Network, m: int, M: int, draw: int) -> tuple[Float[Array, "m M"], Array]:
    """The features of m rows, and which rows they are."""
    rng = np.random.default_rng((m, M, draw))
    order = rng.permutation(table.rows)
    fit, step = order[:m], order[len(order) - network.step_rows :]
    sigma, d = network.sigma, table.X.shape[1]
    W = rng.standard_normal((M, d))
    W /= np.linalg.norm(W, axis=1, keepdims=True) if network.weights == "sphere" else np.sqrt(d)
    A = rng.standard_normal(M) if network.readout == "gaussian" else np.ones(M)
    if network.readout == "rademacher":
        A = rng.choice([-1.0, 1.0], M)
    if network.strength:
        W = W + network.strength * _pull(network, W, A, table.X[step], table.y[step])
    return np.asarray(sigma(table.X[fit] @ W.T), float), fit


def _pull(network: Network, W: Array, A: Array, X: Float[Array, "n d"], y: Float[Array, "n"]) -> Float[Array, "M d"]:
    """A_j⟨r σ'(w_jᵀx) x⟩ of every neuron."""
    before = X @ W.T
    slope = network.sigma.derivative(before) / len(y)
    if network.gradient == "labels":
        return A[:, None] * ((slope * y[:, None]).T @ X)
    output = network.sigma(before)
    r = y - output @ A / np.sqrt(A.size)
    own = 1 / np.sqrt(network.width) - 1 / np.sqrt(A.size)
    return A[:, None] * ((slope * r[:, None]).T @ X - own * A[:, None] * ((slope * output).T @ X))
