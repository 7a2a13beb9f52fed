"""The numbers behind the figures of the article, computed once and stored in paper/data: about a minute on one core.

python paper/compute.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import onestride as one
from onestride.drawing import Panel, Series, to_csv

DATA = Path(__file__).parent / "data"
PROBLEM = one.Problem(
    n=500, d=250, N=750, teacher=[0, 1, 0.7071], noise=0.5, ridge=0.1, step=one.Step(constant=1.0, exponent=0.4)
)
FINE, COARSE = np.linspace(0, 0.5, 26), np.linspace(0, 0.5, 6)


def errors() -> Panel:
    """Test error against the exponent at n = 500: theory and simulation."""
    theory = one.predict_grid(PROBLEM, FINE, [PROBLEM.ridge])
    found = one.simulate_grid(PROBLEM, COARSE, [PROBLEM.ridge], 16).test_error
    without = np.full(FINE.size, theory.untrained.test_error[0, 0])
    series = [
        Series("theory", FINE, theory.test_error[:, 0]),
        Series("simulation", COARSE, found.mean[:, 0], found.stderr[:, 0], "simulation"),
        Series("without the step", FINE, without, kind="limit", colour=4),
    ]
    return Panel("errors", "exponent α", "test error", series)


def stairs() -> Panel:
    """The same from n = 10³ to 10¹⁵, ratios fixed, beside the limit."""
    series = []
    for k, (power, n) in enumerate((("10³", 10**3), ("10⁶", 10**6), ("10⁹", 10**9), ("10¹⁵", 10**15))):
        large = PROBLEM.replace(n=n, d=n // 2, N=3 * n // 2)
        grid = one.predict_grid(large, FINE, [PROBLEM.ridge], level="rank-one")
        series.append(Series(f"n = {power}", FINE, grid.test_error[:, 0], colour=k))
    limit = one.predict_grid(PROBLEM, np.linspace(0, 0.4, 161), [PROBLEM.ridge], method="plateau")
    series.append(Series("n → ∞", limit.exponents, limit.test_error[:, 0], kind="limit", colour=4))
    return Panel("stairs", "exponent α", "test error", series)


PEAKED = PROBLEM.replace(step=one.Step(constant=2.0, exponent=0.35))


def bulk() -> Panel:
    """Eigenvalues of FFᵀ/n after a step with c = 2: density, and a histogram of four draws up to the edge."""
    theory, found = one.spectrum(PEAKED), one.measure_spectrum(PEAKED, 4)
    edges = np.linspace(0, 1.2 * theory.edge, 61)
    counts, _ = np.histogram(found.eigenvalues.values.ravel(), bins=edges)
    heights = counts / (found.eigenvalues.values.size * np.diff(edges))
    series = [
        Series("four draws", edges, heights, kind="histogram"),
        Series("theory", theory.trained.grid, theory.trained.density),
    ]
    return Panel("bulk", "eigenvalue", "density", series)


def outliers() -> Panel:
    """The eigenvalues beyond: the mean of sixteen draws, and theory as a bar."""
    theory, found = one.spectrum(PEAKED, density=False), one.measure_spectrum(PEAKED, 16, full=False).leading
    count = np.arange(1, theory.outliers + 1)
    measured = found.mean[: count.size], found.stderr[: count.size]
    across = (count[:, None] + [-0.2, 0.2, np.nan]).ravel()
    series = [
        Series("theory", across, np.repeat(theory.leading, 3)),
        Series("sixteen draws", count, *measured, "simulation"),
    ]
    return Panel("outliers", "spike", "eigenvalue", series)


def main() -> None:
    """Compute and store all of them."""
    DATA.mkdir(exist_ok=True)
    for make in (errors, stairs, bulk, outliers):
        (DATA / f"{make.__name__}.csv").write_text(to_csv([make()]), encoding="utf-8")


if __name__ == "__main__":
    main()
