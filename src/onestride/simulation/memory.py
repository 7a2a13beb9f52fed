"""How much memory each measurement takes: one function of its sizes for each, which its guard and `plan` ask.

Counted are the arrays alive at the same time, at the largest of the stages

    gradient     W₀, G and a product of their shape; two tiles n₀ × N
    fit          W₀, G, X̃W₀ᵀ and X̃Gᵀ (or their Gram matrices), F if there is room for it, factors of min(n, N)² numbers
    test         W₀, G and tiles

and beside them the blocks of inputs that are drawn ahead. float32 takes as much: it is checked against float64.
"""

from __future__ import annotations

from typing import NamedTuple

from onestride import _backend
from onestride._backend import current, fits, require_memory
from onestride._errors import InputError
from onestride.problem import Problem
from onestride.simulation import krylov, shifted
from onestride.simulation.features import device_memory
from onestride.simulation.streamed import worth_streaming

LARGEST = 10**100  # of a size: its cube is still a floating-point number
BLOCK_OBJECTS = 1024.0  # bytes that naming one block of draws takes


class Sizes(NamedTuple):
    """The sizes of a problem as floating-point numbers, m = min(n, N), `longest` = max(n, N)."""

    n: float
    d: float
    N: float
    n0: float
    m: float
    longest: float


def sizes(problem: Problem) -> Sizes:
    """The sizes of a problem, if they can be counted with."""
    n, d, N, n0 = problem.n, problem.d, problem.N, problem.step_samples
    for name, size in {"n": n, "d": d, "N": N, "n_step": n0, "steps": problem.steps}.items():
        if size > LARGEST:
            raise InputError(f"{name} must be at most 10^100 for a simulation, got a number of {len(str(size))} digits")
    return Sizes(float(n), float(d), float(N), float(n0), float(min(n, N)), float(max(n, N)))


def require_room(problem: Problem, needed: float, **beside: float | None) -> None:
    """Refuse, in a sentence with the sizes and what is `beside` them, a measurement that needs more than is free."""
    named = {"n": problem.n, "d": problem.d, "N": problem.N, "n_step": problem.n_step} | beside
    require_memory(needed, ", ".join(f"{name} = {size:.6g}" for name, size in named.items() if size is not None))


# ---------------------------------------------------------------------------------------------- the measurements


def memory_needed(problem: Problem, steps: int = 2, penalties: int = 1, n_test: float | None = None) -> float:
    """Bytes of `simulate_grid` with so many step sizes (the untrained network's is one) and penalties."""
    n, d, N, n0, _, _ = sizes(problem)
    tests = max(2 * n, 2000) if n_test is None else n_test
    several = problem.steps > 1
    held = 8.0 * N * d * (steps if several else 2)
    together = worth_streaming(problem, steps) or several  # stages that draw one after the other
    ahead = max(n0, n, tests) if together else n0 + n + tests
    ahead = _drawn(problem, ahead, noisy=max(n0, n) if together else n0 + n)
    step = _gradient(problem) + (held if several else 0.0)
    read = 3 * _tiles(tests, N) + 8.0 * penalties * (steps * N + 3 * _tiles(tests, N) / (8 * N))
    if worth_streaming(problem, steps):
        fit = 3 * _tiles(n, N) + 8.0 * (2 * steps + 2) * N**2
    elif current().on_host:
        fit = 8.0 * (1 if several else 2) * n * N + _factors(problem, penalties)
        whole = fit + 8.0 * n * N
        fit = whole if not several and fits(held + whole + ahead) else fit
    else:
        return max(device_memory(problem), 8.0 * 2 * N * d + 8 * _tiles(max(n, n0, tests), N))
    return max(step, held + fit, held + read) + ahead


def learned_memory(problem: Problem, n_test: float) -> float:
    """Bytes of `measure_learned`: W₀, W, X̃ and F; then tiles."""
    n, d, N, *_ = sizes(problem)
    held = 8.0 * (2 * N * d + n * d)
    read = (2 + 6 / N) * _tiles(n_test, N) + _drawn(problem, n_test)  # six polynomials of every row
    fit = held + _factors(problem, 1) + 8.0 * n * 3
    return max(_measured_step(problem), _with_features(problem, fit), held + read)


def spectrum_memory(problem: Problem, count: int, *, full: bool) -> float:
    """Bytes of `measure_spectrum`: W₀, W, X̃ and F; a Gram matrix and its copy, or Lanczos vectors and their images."""
    n, d, N, _, m, longest = sizes(problem)
    vectors = min(krylov.MAX_BLOCKS * (count + krylov.SPARE), m)
    decomposition = 2 * m**2 if full else 2 * m * vectors + longest * (count + krylov.SPARE)
    held = 8.0 * (2 * N * d + n * d + decomposition + n * (2 * count + 40))
    return max(_measured_step(problem), _with_features(problem, held))


def density_memory(problem: Problem) -> float:
    """Bytes of `measure_density`: W₀, W, X̃ and F; the Lanczos vectors of every probe."""
    n, d, N, _, m, longest = sizes(problem)
    lanczos = krylov.PROBES * (min(krylov.STEPS, m) * m + longest + 3 * m)
    return max(_measured_step(problem), _with_features(problem, 8.0 * (2 * N * d + n * d + lanczos)))


def expansion_memory(problem: Problem, kept: int) -> float:
    """Bytes of `measure_expansions` and `measure_equivalence`, which keep so many n × N arrays: six more at a time."""
    n, d, N, *_ = sizes(problem)
    held = 8.0 * (2 * N * d + n * d + kept * n * N)
    fit, read = 8.0 * 4 * n * N + _factors(problem, 1), _drawn(problem, 2 * n) + 6 * _tiles(2 * n, N)
    return max(_measured_step(problem), held + max(fit, read))


def limit_memory(problem: Problem) -> float:
    """Bytes of `measure_limit`: F₀ and n × n factors, also when n > N."""
    n, d, N, *_ = sizes(problem)
    held = 8.0 * (N * d + n * d + n * N + n**2)
    return max(_measured_step(problem), held + max(8.0 * 2 * n * N, 3 * _tiles(2 * n, N) + _drawn(problem, 2 * n)))


def gradient_memory(problem: Problem) -> float:
    """Bytes of `measure_gradient`: the batch, W₀, G, and their difference from a rank-one matrix."""
    _, d, N, n0, _, _ = sizes(problem)
    batch = _drawn(problem, n0, noisy=n0) + (8.0 * n0 * d if n0 * d > _backend.BLOCK_NUMBERS else 0.0)
    return _gradient(problem) + 8.0 * 2 * N * d + batch


# ----------------------------------------------------------------------------------------------------- their parts


def _tiles(rows: float, width: float) -> float:
    """Bytes of one tile of `_backend.tiles`."""
    least = 1 if current().on_host else _backend.DEVICE_ROWS
    return 8.0 * width * min(rows, max(least, _backend.TILE_BYTES // (8 * width)))


def _drawn(problem: Problem, rows: float, noisy: float = 0.0) -> float:
    """Bytes of samples drawn ahead: as many blocks as `prefetched` has at hand, with labels, and the names of all.

    The label noise of all the samples that have any is drawn at once.
    """
    d, block = float(problem.d), float(max(_backend.BLOCK_NUMBERS, problem.d))
    ahead = min(_backend.threads(), _backend.MOST_AHEAD) + 2
    return 8.0 * min(rows * d, ahead * block) * (1 + 2 / d) + 8.0 * 2 * noisy + BLOCK_OBJECTS * rows * d / block


def _gradient(problem: Problem) -> float:
    """Bytes of one gradient: W₀, G, a product of their shape, two tiles, and the residuals."""
    _, d, N, n0, _, _ = sizes(problem)
    return 8.0 * (3 * N * d + 2 * n0) + 2 * _tiles(n0, N)


def _measured_step(problem: Problem) -> float:
    """Bytes of the step of a measurement that has drawn X̃ and keeps W₀."""
    n, d, N, n0, _, _ = sizes(problem)
    weights = 8.0 * N * d * (1 if problem.steps == 1 else 2)
    return _gradient(problem) + weights + 8.0 * n * d + _drawn(problem, max(n0, n), noisy=max(n0, n))


def _with_features(problem: Problem, held: float) -> float:
    """With F if there is room for it, else with the tiles in which `feature_rows` makes it anew."""
    n, _, N, _, m, longest = sizes(problem)
    whole = held + 8.0 * n * N
    return whole if fits(whole) else held + _tiles(longest, m)


def _factors(problem: Problem, penalties: int) -> float:
    """Bytes of the factors of `solve_shifted` and of its vectors."""
    *_, m, longest = sizes(problem)
    vectors = 8.0 * penalties * (4 * longest + 8 * m)
    if m < shifted.DIRECT_BELOW:
        return 8.0 * 2 * m**2 + vectors
    copies = max(2, penalties) if penalties <= shifted.CHOLESKY_UP_TO else 2
    return 4.0 * copies * m**2 + _tiles(longest, m) / 2 + vectors
