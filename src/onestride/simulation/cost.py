"""The cost model: floating-point operations and memory of a simulation, counted, and its time from measured rates.

Which method runs follows from it:

- n ≫ N and large            rows stream past, one Gram matrix for every step size (`streamed`)
- fewer than 400 unknowns    solved in float64 at once
- otherwise                  float32 factors refined in float64 (`shifted`): a Cholesky factorisation for each of up to
                             four penalties, one tridiagonal form for more; on a device always Cholesky
- only leading triplets      block Lanczos instead of 9m³ operations (`krylov`)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onestride._backend import current, using
from onestride.problem import Problem, exponent_axis, grid_axis
from onestride.simulation.memory import memory_needed, sizes
from onestride.simulation.run import seed_tuple, test_rows
from onestride.simulation.shifted import CHOLESKY_UP_TO, DIRECT_BELOW, factors, tridiagonal_solver
from onestride.simulation.streamed import worth_streaming

REFINEMENTS = 5  # passes over F that the refinement of one step size takes: 3 to 8 were measured
TRIAL = 1536  # size of the products that are timed


@dataclass(frozen=True)
class Operations:
    """Floating-point operations of one seed, by kind; elementwise and drawn numbers count one each."""

    products: float
    grams: float
    factors: float
    refinement: float
    predictions: float
    elementwise: float
    drawn: float

    @property
    def flops(self) -> float:
        """All operations of linear algebra."""
        return self.products + self.grams + self.factors + self.refinement + self.predictions


@dataclass(frozen=True)
class Plan:
    """What a simulation will do and cost; `seconds` is an estimate from rates measured now."""

    problem: Problem
    method: str
    device: str
    exponents: int
    penalties: int
    seeds: int
    operations: Operations
    flops: float
    memory: float
    seconds: float
    basis: str

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        names = ("method", "device", "exponents", "penalties", "seeds", "flops", "memory", "seconds", "basis")
        row = {name: getattr(self, name) for name in names}
        return {"problem": self.problem.to_dict(), **row, "operations": asdict(self.operations)}


def operations(
    problem: Problem, exponents: int, penalties: int, n_test: int | None = None, *, untrained: bool = True
) -> Operations:
    """Count one seed, with the network without the step unless `untrained` is False.

    gradient 4n₀dN; X̃W₀ᵀ and X̃Gᵀ for n + n_test samples 4(n + n_test)dN; per step size a symmetric Gram matrix nNm,
    m = min(n, N), a factorisation, and passes over F. Several steps have no products in common.
    """
    n, d, N, n0, m, _ = sizes(problem)
    tests, steps = float(test_rows(problem, n_test)), exponents + untrained
    several = problem.steps > 1
    gradient = 4.0 * n0 * d * N * (problem.steps * exponents if several else 1)
    features = 2.0 * (n + tests) * d * N * (steps if several else 2)
    tridiagonal = current().on_host and (m < DIRECT_BELOW or penalties > CHOLESKY_UP_TO)
    direct = m < DIRECT_BELOW or worth_streaming(problem, steps)
    return Operations(
        products=gradient + features,
        grams=1.0 * steps * n * N * m,
        factors=steps * (4 / 3 * m**3 if tridiagonal else penalties * m**3 / 3),
        refinement=0.0 if direct else 4.0 * steps * REFINEMENTS * n * N * penalties,
        predictions=2.0 * steps * tests * N * penalties,
        elementwise=1.0 * steps * (n + tests) * N + 2.0 * n0 * N,
        drawn=1.0 * d * (N + n0 + n + tests),
    )


def plan(
    problem: Problem,
    exponents: ArrayLike | None = None,
    ridges: ArrayLike | None = None,
    seeds: int | Iterable[int] = 8,
    *,
    n_test: int | None = None,
    device: str | None = None,
    untrained: bool = True,
) -> Plan:
    """Time and memory of `simulate_grid` with the same arguments, before starting: counted, then timed in the small."""
    alphas = exponent_axis(problem, [problem.step.exponent] if exponents is None else exponents)
    lams = grid_axis("ridges", [problem.ridge] if ridges is None else ridges, positive=True)
    steps, seeds = alphas.size + untrained, len(seed_tuple(seeds))
    with using(device) as backend:
        count = operations(problem, alphas.size, lams.size, n_test, untrained=untrained)
        memory = memory_needed(problem, steps, lams.size, test_rows(problem, n_test))
        rates = _rates(problem, lams.size)
        direct = min(problem.n, problem.N) < DIRECT_BELOW or worth_streaming(problem, steps)
    exact = rates["float64 product"]
    seconds = seeds * (
        (count.products + count.predictions) / exact
        + count.grams / (exact if direct else rates["float32 product"])
        + count.factors / rates["factorisation"]
        + count.refinement / (exact / 2)  # thin products wait for memory
        + count.elementwise / rates["activation"]
        + count.drawn / rates["draws"]
    )
    if worth_streaming(problem, steps):
        method = "rows stream, one Gram matrix for each step size"
    else:
        side = "dual (n ≤ N)" if problem.n <= problem.N else "primal (n > N)"
        method = f"{side}, {'float64' if direct else 'float32 factors refined in float64'}"
    basis = ", ".join(f"{name} {value / 1e9:.3g} G/s" for name, value in rates.items())
    total = count.flops * seeds
    return Plan(
        problem,
        method,
        backend.device,
        alphas.size,
        lams.size,
        seeds,
        count,
        total,
        memory,
        seconds,
        f"measured now: {basis}",
    )


def _rates(problem: Problem, penalties: int) -> dict[str, float]:
    """Operations per second of each kind on the current device."""
    backend, m = current(), TRIAL if current().on_host else 2 * TRIAL
    rng = np.random.default_rng(0)
    A = backend.put(rng.standard_normal((m, m)))
    A32 = backend.put(A, "float32")

    def rate(work: Callable[[], Any], count: float) -> float:
        times = []
        for _ in range(3):
            started = time.perf_counter()
            result = work()
            if not backend.on_host:
                float(backend.xp.sum(result))  # wait for the device
            times.append(time.perf_counter() - started)
        return count / min(times)

    K32 = A32.T @ A32 + m * backend.eye(m, "float32")
    if backend.on_host and penalties > CHOLESKY_UP_TO:
        factorisation = rate(lambda: tridiagonal_solver(K32.copy(), np.ones(1)), 4 / 3 * m**3)
    else:

        def factorise() -> Any:
            solver = factors(backend.copy(K32), np.ones(1), last=True)
            return K32[0, :1] if solver is None else solver(K32[:, :1])

        factorisation = rate(factorise, m**3 / 3)
    with backend.fast_products(True):
        low = rate(lambda: A32 @ A32, 2 * m**3)
    return {
        "float64 product": rate(lambda: A @ A, 2 * m**3),
        "float32 product": low,
        "factorisation": factorisation,
        "activation": rate(lambda: problem.sigma(A + 0.5 * A), m * m),
        "draws": rate(lambda: backend.put(rng.standard_normal((m, m))), m * m),
    }
