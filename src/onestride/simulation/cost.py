"""The plan of a simulation: which algorithm, how much memory and how many operations, decided before it starts.

- n ≫ N and large            rows stream past, one Gram matrix for every step size (`streamed`)
- fewer than 400 unknowns    solved in float64 at once
- otherwise                  float32 factors refined in float64 (`shifted`): a Cholesky factorisation for each of up to
                             four penalties, one tridiagonal form for more; on a device always Cholesky
- only leading triplets      block Lanczos instead of 9m³ operations (`krylov`)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

from numpy.typing import ArrayLike

from onestride._backend import HOST, Backend, choose, fits, streams, tiles
from onestride._errors import InputError, true_or_false
from onestride.drawing import Panel, Series
from onestride.problem import Problem, expect, exponent_axis, grid_axis
from onestride.result import Result
from onestride.simulation import memory
from onestride.simulation.arguments import seed_tuple, step_sizes, test_rows
from onestride.simulation.network import PROBES
from onestride.simulation.rates import measured_rates
from onestride.simulation.shifted import Way, way
from onestride.table import Table

REFINEMENTS = 5  # passes over F that the refinement of one step size takes: 3 to 8 were measured
COLUMNS = 3 + PROBES  # for each penalty: fitted to the signal, to noise, and how the first changes with λ
SMALL_BELOW = 2**21  # numbers of F: up to there several cores are busier with a seed each than with one together
SMALL_ON_DEVICE = 2**24  # the same for a device, which takes small seeds in one call
MOST_TOGETHER = 64  # seeds in one call of a device: more would not make it busier
# bytes: half of a tridiagonal form is matrix-vector products, which should stay in the cache that cores share
SHARED_CACHE = 2**25
STREAM_ABOVE = 2**27  # numbers, 1 GiB: less is stored, which also serves penalties too small for a Gram matrix


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


@dataclass(frozen=True, repr=False)
class Plan(Result):
    """How `simulate_grid` measures a problem, and what that costs: every stage does as it says.

    networks
        Distinct step sizes, the untrained network's among them.
    seconds, basis
        An estimate from rates that are measured when it is first asked for, and these rates in words.
    """

    _told = ("problem", "method", "device", "exponents", "penalties", "seeds")
    _told += ("flops", "memory", "seconds", "basis", "operations")
    _brief = ("exponents", "penalties", "seeds", "device")
    _sentences = ("method",)

    problem: Problem
    networks: int = 2
    penalties: int = 1
    n_test: int | None = None
    backend: Backend = HOST
    exponents: int = 1
    seeds: int = 1

    def _first_line(self) -> str:
        """With the time where rates have been measured; a repr measures nothing."""
        known = f"seconds {self.seconds:.3g}" if "_rates" in self.__dict__ else "seconds when asked for"
        counted = f"memory {self.memory / 2**30:.3g} GiB, {self.flops:.3g} operations"
        return f"{known}, {counted}, {super()._first_line()}"

    def panels(self) -> Sequence[Panel]:
        """Operations of one seed by their kind."""
        counts = {part.name: getattr(self.operations, part.name) for part in fields(self.operations)}
        some = {name: count for name, count in counts.items() if count > 0}
        places = list(range(len(some)))
        series = [Series("one seed", places, list(some.values()), kind="simulation")]
        return [Panel("cost", "", "operations", series, logy=True, xticks=places, xnames=list(some))]

    # ------------------------------------------------------------------------------------------------- decisions

    @property
    def tests(self) -> int:
        """Number of test samples."""
        return test_rows(self.problem, self.n_test)

    @cached_property
    def streams(self) -> bool:
        """Whether rows stream past: the features are large and the Gram matrices of all step sizes are smaller."""
        n, N = self.problem.n, self.problem.N
        return 3 * n * N > STREAM_ABOVE and n > N * max(self.networks, 2)

    @cached_property
    def together(self) -> int:
        """Seeds in one call of a device: products and factorisations of small ones do not keep it busy."""
        p, most = self.problem, max(self.problem.N, self.problem.step_samples, self.problem.n, self.tests)
        small = max(p.n, self.tests, p.step_samples) * p.N <= SMALL_ON_DEVICE and most * p.d <= streams.BLOCK_NUMBERS
        if self.backend.on_host or self.streams or p.steps > 1 or p.law.times is not None or not small:
            return 1
        room = 0.5 * self.backend.free_memory() / self._stacked_seed
        return max(1, min(self.seeds, int(room), MOST_TOGETHER))

    @cached_property
    def side_by_side(self) -> int:
        """Seeds measured at a time, each on one core of the host; on a device each alone."""
        if not self.backend.on_host or self.streams or self.problem.n * self.problem.N > SMALL_BELOW:
            return 1
        most = min(self.seeds, streams.threads())
        return next((k for k in range(most, 1, -1) if fits(k * self._one_seed, self.backend)), 1)

    @cached_property
    def networks_at_once(self) -> int:
        """Networks of one seed fitted at a time, each on one core of the host, where none is idle and their tridiagonal forms stay in cache."""
        n, _, N, _, m, _ = memory.sizes(self.problem)
        cores, by_seeds = streams.threads(), self.seeds > 1 and self.problem.n * self.problem.N <= SMALL_BELOW
        if (
            self.networks < cores
            or by_seeds
            or not (self.way.refined and self.way.tridiagonal and self.stores_features)
        ):
            return 1
        several = self._weights + self._host_fit + 8.0 * n * N + (cores - 1) * self._another + self._ahead()
        return cores if 2.0 * cores * m**2 <= SHARED_CACHE and fits(several, self.backend) else 1

    @cached_property
    def way(self) -> Way:
        """How the ridge regressions are solved."""
        return way(min(self.problem.n, self.problem.N), self.penalties, self.backend, only_gram=self.streams)

    @cached_property
    def keeps_weights(self) -> bool:
        """Whether the device can hold W₀ and G beside the features, judged by its whole memory."""
        if self.backend.on_host:
            return True
        return self._device_fit + self._weights < 0.97 * self.backend.total_memory()

    @cached_property
    def stores_products(self) -> bool:
        """Whether a device can hold X̃W₀ᵀ and X̃Gᵀ, which serve all step sizes; else F is made from X̃ and W."""
        if self.backend.on_host or self.streams or self.problem.steps > 1:
            return True
        return self._products_fit < 0.97 * self.backend.total_memory()

    @cached_property
    def stores_features(self) -> bool:
        """Whether F is stored for one step size after the other, or made anew in every pass."""
        n, _, N, _, m, _ = memory.sizes(self.problem)
        if self.streams or self.problem.steps > 1:
            return False
        if not self.stores_products:
            return self._device_fit + 8.0 * n * N < 0.97 * self.backend.total_memory()
        if self.backend.on_host:
            return fits(self._weights + self._host_fit + 8.0 * n * N + self._ahead(), self.backend)
        return fits(8.0 * 3 * n * N + 20.0 * m**2 + self.keeps_weights * self._weights, self.backend)

    @property
    def device(self) -> str:
        """Where it runs."""
        return self.backend.device

    @property
    def method(self) -> str:
        """The algorithm in words."""
        if self.streams:
            return "rows stream, one Gram matrix for each step size"
        side = "dual (n ≤ N)" if self.problem.n <= self.problem.N else "primal (n > N)"
        anew = "" if self.stores_products or self.stores_features else ", features made anew in every pass"
        return f"{side}, {'float32 factors refined in float64' if self.way.refined else 'float64'}{anew}"

    # ---------------------------------------------------------------------------------------------------- memory

    @cached_property
    def memory(self) -> float:
        """Bytes at the peak, of all seeds measured at a time."""
        return self.together * self._stacked_seed if self.together > 1 else self.side_by_side * self._one_seed

    @cached_property
    def _stacked_seed(self) -> float:
        """Bytes of each seed of a stack on a device: W₀, G, X; two products, F and what makes it; K and its factors."""
        n, d, N, n0, m, _ = memory.sizes(self.problem)
        rows, columns = max(n, n0, float(self.tests)), COLUMNS * self.penalties
        factors = 4.0 * m**2 * (2 + self.penalties) + 8.0 * 8 * (n + N) * columns
        return 8.0 * (2 * N * d + 2 * rows * d + 5 * rows * N) + factors + 8.0 * self.networks * N * columns

    @cached_property
    def _one_seed(self) -> float:
        """Bytes at the peak of one seed; the parts are those of `simulation.memory`."""
        n, _, N, n0, _, _ = memory.sizes(self.problem)
        if not self.backend.on_host and not self.streams:
            return max(self._device_fit, self._weights + 8 * memory.tile(max(n, n0, self.tests), N, self.backend))
        several = self.problem.steps > 1
        held = self._weights
        step = memory.gradient(self.problem, self.backend) + (held if several else 0.0)
        tile = memory.tile(self.tests, N, self.backend)
        read = 3 * tile + 8.0 * self.penalties * (3 * self.networks * N + (3 + 6) * tile / (8 * N))
        if self.streams:
            fit = 3 * memory.tile(n, N, self.backend) + 8.0 * (2 * self.networks + 2) * N**2
        else:
            fit = self._host_fit + self.stores_features * 8.0 * n * N + (self.networks_at_once - 1) * self._another
        return max(step + self._ahead(), held + max(fit, read) + self._ahead(of_the_step=False))

    @property
    def _weights(self) -> float:
        """W₀ and G, or W after several steps of every size, which wait on the host."""
        _, d, N, *_ = memory.sizes(self.problem)
        return 8.0 * N * d * (self.networks if self.problem.steps > 1 and self.backend.on_host else 2)

    def _ahead(self, *, of_the_step: bool = True) -> float:
        """Samples drawn ahead; stages that draw one after the other need the largest of theirs only, and those of the step go with it."""
        n, _, _, n0, _, _ = memory.sizes(self.problem)
        together = self.streams or self.problem.steps > 1
        n0 = n0 if of_the_step or together else 0
        rows = max(n0, n, self.tests) if together else n0 + n + self.tests
        return memory.drawn(self.problem, rows, noisy=max(n0, n) if together else n0 + n)

    @property
    def _host_fit(self) -> float:
        """X̃W₀ᵀ and X̃Gᵀ, or F after several steps, and the factors."""
        n, _, N, *_ = memory.sizes(self.problem)
        products = 8.0 * (1 if self.problem.steps > 1 else 2) * n * N
        return products + memory.factors(self.problem, self.penalties, self.backend, sides=COLUMNS - 1)

    @property
    def _another(self) -> float:
        """F and factors of one more network that is fitted at the same time."""
        n, _, N, *_ = memory.sizes(self.problem)
        return 8.0 * n * N + memory.factors(self.problem, self.penalties, self.backend, sides=COLUMNS - 1)

    @property
    def _products_fit(self) -> float:
        """X̃W₀ᵀ, X̃Gᵀ, a float32 Gram matrix, its factors (triangles, as many at a time as there is room for) and a few tiles."""
        n, _, N, _, m, _ = memory.sizes(self.problem)
        return 8.0 * (2 * n * N + m**2 + 6 * tiles.DEVICE_ROWS * m)

    @property
    def _device_fit(self) -> float:
        """That, or X̃, W, triangles and tiles where it is too much; one penalty's factor overwrites the Gram matrix."""
        if self.stores_products:
            return self._products_fit
        n, d, N, _, m, _ = memory.sizes(self.problem)
        triangles = (1 if self.penalties == 1 else 2) * m**2 / 4
        return 8.0 * (n * d + N * d + triangles + 6 * tiles.DEVICE_ROWS * m)

    # ------------------------------------------------------------------------------------------- operations, time

    @cached_property
    def operations(self) -> Operations:
        """Count one seed.

        gradient 4n₀dN; X̃W₀ᵀ and X̃Gᵀ for n + n_test samples 4(n + n_test)dN; per step size a symmetric Gram matrix nNm,
        m = min(n, N), a factorisation, and passes over F. Several steps have no products in common.
        """
        n, d, N, n0, m, _ = memory.sizes(self.problem)
        tests, networks, penalties = float(self.tests), self.networks, self.penalties
        several = self.problem.steps > 1
        gradients = self.problem.steps * self.exponents if several else 1
        passes = 1 if self.stores_features or several else REFINEMENTS + 2
        made = networks if several else 2 if self.stores_products else networks * passes
        return Operations(
            products=4.0 * n0 * d * N * gradients + 2.0 * d * N * (n * made + tests * (networks if several else 2)),
            grams=1.0 * networks * n * N * m,
            factors=networks * (4 / 3 * m**3 if self.way.tridiagonal else penalties * m**3 / 3),
            refinement=4.0 * networks * REFINEMENTS * n * N * COLUMNS * penalties * self.way.refined,
            predictions=2.0 * networks * tests * N * COLUMNS * penalties,
            elementwise=1.0 * networks * (n + tests) * N + 2.0 * n0 * N,
            drawn=1.0 * d * (N + n0 + n + tests),
        )

    @property
    def flops(self) -> float:
        """Operations of linear algebra of all seeds."""
        return self.operations.flops * self.seeds

    @cached_property
    def _rates(self) -> dict[str, float]:
        return measured_rates(self.problem.sigma, self.backend, tridiagonal=self.way.tridiagonal)

    @property
    def seconds(self) -> float:
        """Operations of each kind over their rate."""
        count, rates = self.operations, self._rates
        exact = rates["float64 product"]
        return self.seeds * (
            (count.products + count.predictions) / exact
            + count.grams / (rates["float32 product"] if self.way.refined else exact)
            + count.factors / rates["factorisation"]
            + count.refinement / (exact / 2)  # thin products wait for memory
            + count.elementwise / rates["activation"]
            + count.drawn / rates["draws"]
        )

    @property
    def basis(self) -> str:
        """What the seconds rest on."""
        return "measured now: " + ", ".join(f"{name} {value / 1e9:.3g} G/s" for name, value in self._rates.items())


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
    """Time and memory of `simulate_grid` with the same arguments, before starting: counted, then timed in the small.

    >>> found = one.plan(one.Problem(n=2000, d=1000, N=3000), seeds=8)
    >>> print(f"{found.memory / 2**30:.2f} GiB; {found.method}")
    0.28 GiB; dual (n ≤ N), float32 factors refined in float64
    """
    expect(problem)
    true_or_false(untrained=untrained)
    if isinstance(problem.inputs, Table):
        raise InputError(
            "inputs must have a law for a plan; on the rows of a table simulate takes seconds and needs none"
        )
    alphas = exponent_axis(problem, [problem.step.exponent] if exponents is None else exponents)
    lams = grid_axis("ridges", [problem.ridge] if ridges is None else ridges, positive=True)
    etas, _ = step_sizes(problem, alphas, untrained=untrained)
    found = Plan(problem, etas.size, lams.size, n_test, choose(device), alphas.size, len(seed_tuple(seeds)))
    _ = found.memory  # refuses sizes that cannot be counted with
    return found
