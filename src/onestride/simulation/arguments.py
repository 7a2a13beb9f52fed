"""What every measurement is asked for: seeds, test samples, step sizes; wrong ones are refused in a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np

from onestride._errors import InputError, is_whole
from onestride._numerics import Array, Float, Int
from onestride._progress import OnProgress as OnProgress
from onestride.problem import Problem

LARGEST = 10**100  # of a size: its cube is still a floating-point number
MOST_SEEDS = 1_000_000


def test_rows(problem: Problem, n_test: int | None) -> int:
    """Number of test samples: as asked for, else 2n and at least 2000."""
    if n_test is None:
        return max(2 * problem.n, 2000)
    if not is_whole(n_test) or not 1 <= n_test <= LARGEST:
        raise InputError(f"n_test must be a whole number from 1 to 10^100, got {str(n_test)[:40]}")
    return int(n_test)


def seed_tuple(seeds: int | Iterable[int]) -> tuple[int, ...]:
    """Seeds 0 … k−1 for a number k, or the distinct non-negative whole numbers given."""
    try:
        given = tuple(islice(range(seeds) if isinstance(seeds, int | np.integer) else seeds, MOST_SEEDS + 1))
        numbers = tuple(map(int, given))
    except (TypeError, ValueError, OverflowError):
        given, numbers = None, ()
    if len(numbers) > MOST_SEEDS:
        raise InputError(f"seeds: there must be at most {MOST_SEEDS:,}, got {seeds!r:.40}")
    distinct = len(set(numbers)) == len(numbers) and numbers == given
    if isinstance(seeds, bool) or not numbers or min(numbers) < 0 or max(numbers) >= 2**63 or not distinct:
        raise InputError(
            f"seeds must be a whole number above 0 or a list of distinct ones from 0 to 2^63 − 1, got {seeds!r:.80}"
        )
    return numbers


def step_sizes(
    problem: Problem, exponents: Float[Array, "exponents"], *, untrained: bool
) -> tuple[Float[Array, "networks"], Int[Array, "which"]]:
    """The distinct sizes η to measure, increasing, and which of them is each exponent's; η = 0 first if `untrained`."""
    sizes = [problem.step.replace(exponent=float(a)).size(problem.n) for a in exponents]
    etas, which = np.unique([0.0, *sizes] if untrained else sizes, return_inverse=True)
    return etas, which
