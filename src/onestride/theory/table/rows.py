"""Features of rows of a table before and after a step that other rows of it take, and the kernel laws that they show.

    W = W₀ + (η/√N) A_j ⟨r σ'(w_jᵀx) x⟩,     r = y − f₀(x) or y,     a_j = A_j/√N,

the average over the rows of the step. Given them and f₀ neurons are independent, and f₀ is for many neurons the Gaussian process it
is for any number of them: M neurons stand for N, with steps of the same size η/√N each.

A law of m rows describes n rows best where n is about m: tails of a column average out over many rows, not over few. So laws
are taken of the largest number of rows and of fourths of it, each from several draws of rows and neurons, and errors between two of these
sizes are interpolated in log n. A step is told as a factor on the errors without one, both from the same draws.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from onestride._numerics import Array, Float
from onestride.functions import Function
from onestride.problem import Problem
from onestride.table import Table
from onestride.theory.table.kernel_law import KernelLaw, kernel_law

NEURONS = 2048  # M
ROWS, PAIRED_ROWS = 2000, 1000  # the most of one law without a step, and with one
FEWEST = 40  # rows of a law
_DRAWS = (2, 4, 8, 16)  # of each size, the largest first


@dataclass(frozen=True)
class Network:
    """What the features depend on; `strength` is η/√N, `step_rows` the rows of the step."""

    sigma: Function
    weights: str
    readout: str
    gradient: str
    strength: float = 0.0
    step_rows: int = 0

    @property
    def untrained(self) -> Network:
        """Without the step."""
        return replace(self, strength=0.0)


def network_of(problem: Problem) -> Network:
    """The network of a problem before its step."""
    return Network(problem.sigma, problem.weights, problem.readout, problem.gradient)


def ladder(rows: int, most: int) -> list[int]:
    """Numbers of rows of the laws: the largest and fourths of it."""
    sizes = [min(rows, most)]
    while sizes[-1] // 4 >= FEWEST and len(sizes) < len(_DRAWS):
        sizes.append(sizes[-1] // 4)
    return sizes


def errors_by_size(
    table: Table, network: Network, n: int, N: int, ridges: Float[Array, "penalties"], *, paired: bool
) -> Float[Array, "5 penalties"]:
    """Three errors, their relative standard error and the reach of `KernelLaw.errors`, at n rows and N neurons.

    paired: from at most half of the rows, so that the step has the other half.
    """
    sizes = ladder(table.rows // 2 if paired else table.rows, PAIRED_ROWS if paired else ROWS)
    at = np.clip(np.interp(np.log(n), np.log(sizes[::-1]), np.arange(len(sizes))[::-1]), 0, len(sizes) - 1)
    first = int(at)
    found = _at_size(table, network, sizes[first], _DRAWS[first], n, N, ridges)
    if at == first:
        return found
    other = _at_size(table, network, sizes[first + 1], _DRAWS[first + 1], n, N, ridges)
    share = at - first
    return np.exp((1 - share) * np.log(found) + share * np.log(other))


def _at_size(
    table: Table, network: Network, m: int, draws: int, n: int, N: int, ridges: Array
) -> Float[Array, "5 penalties"]:
    found = np.array([law_of_draw(table, network, m, k).errors(n, N, ridges) for k in range(draws)])
    mean = np.maximum(found.mean(0), 1e-300)
    between = found[:, 2].std(0, ddof=1) / np.sqrt(draws) / mean[2]
    mean[3] = np.maximum(mean[3] / np.sqrt(min(draws, table.rows / m)), between)  # draws of few rows share them
    return mean


@lru_cache(maxsize=2048)
def law_of_draw(table: Table, network: Network, m: int, draw: int) -> KernelLaw:
    """The law of m rows and of `NEURONS` neurons after a step on other rows; one draw has the same of them for every step."""
    rng = np.random.default_rng((m, draw))
    order = rng.permutation(table.rows)
    fit, step = order[:m], order[len(order) - network.step_rows :]
    sigma, d = network.sigma, table.X.shape[1]
    W = rng.standard_normal((NEURONS, d))
    W /= np.linalg.norm(W, axis=1, keepdims=True) if network.weights == "sphere" else np.sqrt(d)
    A = rng.standard_normal(NEURONS) if network.readout == "gaussian" else np.ones(NEURONS)
    if network.readout == "rademacher":
        A = rng.choice([-1.0, 1.0], NEURONS)
    if network.strength:
        W = W + network.strength * _pull(network, W, A, table.X[step], table.y[step])
    return kernel_law(np.asarray(sigma(table.X[fit] @ W.T), float), table.y[fit])


def _pull(network: Network, W: Array, A: Array, X: Float[Array, "n d"], y: Float[Array, "n"]) -> Float[Array, "M d"]:
    """A_j⟨r σ'(w_jᵀx) x⟩ of every neuron."""
    before = X @ W.T
    r = y - network.sigma(before) @ A / np.sqrt(A.size) if network.gradient == "full" else y
    return A[:, None] * ((network.sigma.derivative(before) * (r / r.size)[:, None]).T @ X)
