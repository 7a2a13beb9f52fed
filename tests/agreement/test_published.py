"""Numbers that others published, against our simulation (benchmarks/published.py says which and how to convert)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import onestride as one

FILE = Path(__file__).parents[2] / "benchmarks" / "published.py"


@pytest.fixture(scope="module")
def published():
    spec = importlib.util.spec_from_file_location("published", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_descent_on_one_reused_batch_gives_the_published_curve(published):
    """d = 600 for their 5,000, eight seeds for their 32: nine numbers within 5 standard errors (1e-3 each by chance)."""
    problem = one.Problem(
        n=1800, d=600, N=2, centred=False, teacher=published.teacher, directions=2, step=one.Step(constant=0.6)
    )
    runs = [published.descend(problem, seed) for seed in range(8)]
    errors, overlaps = (np.array(values) for values in zip(*runs, strict=True))
    for values, numbers in ((errors, dict(enumerate(published.TEST_ERROR))), (overlaps, published.OVERLAP)):
        for step, number in numbers.items():
            z = (values[:, step].mean() - number) / (values[:, step].std(ddof=1) / np.sqrt(8))
            assert abs(z) < 5
