"""How close is close enough: one place for the tolerances of the tests, each with its reason."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

EXACT = 1e-10  # quantities with a closed form: coefficients, residuals of equations, identities
CLOSED_FORM = 1e-6  # errors against a published formula
K = 5.0  # standard errors allowed between theory and a mean over seeds


def seeds_from(seed: int, count: int) -> range:
    """`count` seeds that no other value of the fixture `seed` draws: 0, 1, … at 0."""
    return range(1000 * seed, 1000 * seed + count)


def deviations(*shape: int) -> np.ndarray:
    """Planted spread that is nobody's luck: over the first axis, the seeds, mean 0 and variance 1 exactly.

    √(2(s − 1)/s) cos(π(k + ½)m/s) for seed k of s, m = 1 … s − 1 in turn for what follows: those are uncorrelated.
    """
    s = shape[0]
    m = 1 + np.arange(np.prod(shape[1:], dtype=int)).reshape(shape[1:]) % (s - 1)
    return np.sqrt(2 * (s - 1) / s) * np.cos(np.pi * np.multiply.outer(np.arange(s) + 0.5, m) / s)


def stratified(rng: np.random.Generator, size: int) -> np.ndarray:
    """Standard normal draws, one per quantile: the labels' square is heavy-tailed, and its mean then hardly varies."""
    return norm.ppf((rng.permutation(size) + rng.uniform(size=size)) / size)


def false_alarm_rate(repeats: int, checks: int = 1, k: float = K) -> float:
    """Bound on the chance that correct code fails: `checks` two-sided t-tests with repeats − 1 degrees of freedom."""
    return float(checks * 2 * student.sf(k, repeats - 1))


def assert_agrees(theory: float, values: np.ndarray, *, floor: float, k: float = K) -> None:
    """The mean over seeds of `values` lies within max(floor·|theory|, k standard errors) of `theory`.

    `floor` is the finite-size gap of an asymptotic theory, relative, stated by the test; the band never falls below
    it. With k = 5 the false-alarm rate of one check, beyond that floor, is at most 1.6e-4 for 16 seeds, 1.6e-3 for 8
    and 7.5e-3 for 5 (Student's t with seeds − 1 degrees of freedom; `false_alarm_rate` gives other numbers of seeds).
    A test states the sum over its checks as `@pytest.mark.statistical(rate=…)`; `make seeds` counts over 100 other seeds.
    """
    values = np.asarray(values, float)
    assert np.isfinite(values).all()
    assert values.ndim == 1
    assert values.size >= 5, "fewer than 5 seeds give no usable standard error"
    mean, stderr = values.mean(), values.std(ddof=1) / np.sqrt(values.size)
    band = max(floor * abs(theory), k * stderr)
    assert abs(mean - theory) <= band, (
        f"theory {theory:.6g}, measured {mean:.6g} ± {stderr:.2g} ({values.size} seeds): "
        f"off by {abs(mean - theory):.3g}, allowed {band:.3g}"
    )


def assert_close(actual, expected, *, rel: float, abs_: float = 0.0) -> None:
    """Elementwise |actual − expected| ≤ rel·|expected| + abs_, NaN never passing."""
    np.testing.assert_allclose(actual, expected, rtol=rel, atol=abs_, equal_nan=False)
