"""How much memory each measurement takes: one function of its sizes for each, which its guard and `plan` ask.

Counted are the arrays alive at the same time, at the largest of the stages

    gradient     W₀, G and a product of their shape; two tiles n₀ × N
    fit          W₀, G, X̃W₀ᵀ and X̃Gᵀ (or their Gram matrices), F if there is room for it, factors of min(n, N)² numbers
    test         W₀, G and tiles

and beside them the blocks of inputs that are drawn ahead. float32 takes as much: it is checked against float64.
"""

from __future__ import annotations

from typing import NamedTuple

from onestride._backend import HOST, Backend, fits, require_memory, streams, tiles
from onestride._errors import InputError
from onestride.problem import Problem
from onestride.simulation import krylov
from onestride.simulation.arguments import LARGEST
from onestride.simulation.shifted import way

BLOCK_OBJECTS = 1024.0  # bytes that naming one block of draws takes


class Sizes(NamedTuple):
    """The sizes of a problem as floating-point numbers, m = min(n, N), `longest` = max(n, N)."""

    n: float
    d: float
    N: float
    n0: float
    m: float
    longest: float


class Room(NamedTuple):
    """Bytes that a measurement takes at its peak, and whether the whole of F is among them or made anew in tiles."""

    memory: float
    stores_features: bool = True


def sizes(problem: Problem) -> Sizes:
    """The sizes of a problem, if they can be counted with."""
    n, d, N, n0 = problem.n, problem.d, problem.N, problem.step_samples
    for name, size in {"n": n, "d": d, "N": N, "n_step": n0, "steps": problem.steps}.items():
        if size > LARGEST:
            raise InputError(f"{name} must be at most 10^100 for a simulation, got a number of {len(str(size))} digits")
    return Sizes(float(n), float(d), float(N), float(n0), float(min(n, N)), float(max(n, N)))


def require_room(problem: Problem, needed: float, backend: Backend, **beside: float | None) -> None:
    """Refuse, in a sentence with the sizes and what is `beside` them, a measurement that needs more than is free."""
    named = {"n": problem.n, "d": problem.d, "N": problem.N, "n_step": problem.n_step} | beside
    what = ", ".join(f"{name} = {size:.6g}" for name, size in named.items() if size is not None)
    require_memory(needed, what, backend)


# ---------------------------------------------------------------------------------------------- the measurements


def learned_memory(problem: Problem, n_test: float, backend: Backend = HOST) -> Room:
    """Room of `measure_learned`: W₀, G, W, X̃ and F; then tiles."""
    n, d, N, *_ = sizes(problem)
    held = 8.0 * (3 * N * d + n * d)
    read = (2 + 6 / N) * tile(n_test, N, backend) + drawn(problem, n_test)  # six polynomials of every row
    fit = held + factors(problem, 1, backend) + 8.0 * n * 3
    return _with_features(problem, fit, held + read, backend)


def spectrum_memory(problem: Problem, count: int, backend: Backend = HOST, *, full: bool) -> Room:
    """Room of `measure_spectrum`: W₀, G, W, X̃ and F; a Gram matrix and its copy, or Lanczos vectors and their images."""
    n, d, N, _, m, longest = sizes(problem)
    vectors = min(krylov.MAX_BLOCKS * (count + krylov.SPARE), m)
    decomposition = 2 * m**2 if full else 2 * m * vectors + longest * (count + krylov.SPARE)
    held = 8.0 * (3 * N * d + n * d + decomposition + n * (2 * count + 50))
    return _with_features(problem, held, 0.0, backend)


def density_memory(problem: Problem, backend: Backend = HOST) -> Room:
    """Room of `measure_density`: W₀, W, X̃ and F; the Lanczos vectors of every probe."""
    n, d, N, _, m, longest = sizes(problem)
    lanczos = krylov.PROBES * (min(krylov.STEPS, m) * m + longest + 3 * m)
    return _with_features(problem, 8.0 * (2 * N * d + n * d + lanczos), 0.0, backend)


def distance_memory(problem: Problem, backend: Backend = HOST) -> Room:
    """Room of `measure_distance`: F, F_ℓ, the features of a rank-one step, and two more n × N arrays."""
    n, d, N, *_ = sizes(problem)
    return Room(max(_measured_step(problem, backend), 8.0 * (2 * N * d + n * d + 5 * n * N)))


def expansion_memory(problem: Problem, backend: Backend = HOST) -> Room:
    """Room of `measure_expansions`: the noise of the Gaussian equivalent as it is drawn, and three more n × N arrays at a time, six tiles in the test."""
    n, d, N, *_ = sizes(problem)
    noise = ahead(3 * n, N)
    held = 8.0 * (2 * N * d + n * d) + noise
    joined = 8.0 * n * N if 3 * n * N > streams.BLOCK_NUMBERS else 0.0
    fit = 8.0 * 3 * n * N + joined + factors(problem, 1, backend)
    read = drawn(problem, 2 * n) + 6 * tile(2 * n, N, backend)
    return Room(max(_measured_step(problem, backend), held + max(fit, read)))


def limit_memory(problem: Problem, backend: Backend = HOST) -> Room:
    """Room of `measure_limit`: F₀ and n × n factors, also when n > N."""
    n, d, N, *_ = sizes(problem)
    held = 8.0 * (N * d + n * d + n * N + n**2)
    read = 3 * tile(2 * n, N, backend) + drawn(problem, 2 * n)
    return Room(max(_measured_step(problem, backend), held + max(8.0 * 2 * n * N, read)))


def gradient_memory(problem: Problem, backend: Backend = HOST) -> Room:
    """Room of `measure_gradient`: the batch, W₀, G, and their difference from a rank-one matrix."""
    _, d, N, n0, _, _ = sizes(problem)
    batch = drawn(problem, n0, noisy=n0) + (8.0 * n0 * d if n0 * d > streams.BLOCK_NUMBERS else 0.0)
    return Room(gradient(problem, backend) + 8.0 * 2 * N * d + batch)


# ----------------------------------------------------------------------------------------------------- their parts


def tile(rows: float, width: float, backend: Backend) -> float:
    """Bytes of one tile of `Backend.tiles`."""
    return 8.0 * width * min(rows, tiles.tile_rows(width, on_host=backend.on_host))


def drawn(problem: Problem, rows: float, noisy: float = 0.0) -> float:
    """Bytes of samples drawn ahead: as many blocks as `prefetched` has at hand, with labels, and the names of all.

    The label noise of all the samples that have any is drawn at once.
    """
    d, block = float(problem.d), float(max(streams.BLOCK_NUMBERS, problem.d))
    return ahead(rows, d) * (1 + 2 / d) + 8.0 * 2 * noisy + BLOCK_OBJECTS * rows * d / block


def ahead(rows: float, length: float) -> float:
    """Bytes of rows of random numbers drawn block by block, as many at a time as `prefetched` has at hand."""
    blocks = min(streams.threads(), streams.MOST_AHEAD) + 2
    return 8.0 * min(rows * length, blocks * max(streams.BLOCK_NUMBERS, length))


def gradient(problem: Problem, backend: Backend) -> float:
    """Bytes of one gradient: W₀, G, a product of their shape, two tiles, and the residuals."""
    _, d, N, n0, _, _ = sizes(problem)
    return 8.0 * (3 * N * d + 2 * n0) + 2 * tile(n0, N, backend)


def factors(problem: Problem, penalties: int, backend: Backend, *, sides: int = 1) -> float:
    """Bytes of the factors of `solve_shifted` and of its vectors, of so many right-hand sides."""
    *_, m, longest = sizes(problem)
    vectors = 8.0 * penalties * sides * (4 * longest + 8 * m)
    chosen = way(min(problem.n, problem.N), penalties, backend)
    if not chosen.refined:
        return 8.0 * 2 * m**2 + vectors
    copies = 2 if chosen.tridiagonal else max(2, penalties)
    return 4.0 * copies * m**2 + tile(longest, m, backend) / 2 + vectors


def _measured_step(problem: Problem, backend: Backend) -> float:
    """Bytes of the step of a measurement that has drawn X̃ and keeps W₀."""
    n, d, N, n0, _, _ = sizes(problem)
    weights = 8.0 * N * d * (1 if problem.steps == 1 else 2)
    return gradient(problem, backend) + weights + 8.0 * n * d + drawn(problem, max(n0, n), noisy=max(n0, n))


def _with_features(problem: Problem, held: float, read: float, backend: Backend) -> Room:
    """With F, beside what is `held`, if there is room for it, else with the tiles in which it is made anew."""
    n, _, N, _, m, longest = sizes(problem)
    whole = held + 8.0 * n * N
    stored = fits(whole, backend)
    return Room(
        max(_measured_step(problem, backend), whole if stored else held + tile(longest, m, backend), read), stored
    )
