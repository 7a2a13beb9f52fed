"""Numbers that others published, against our simulation (benchmarks/published.py says which and how to convert)."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

import onestride as one

ROOT = Path(__file__).parents[2]
FILE = ROOT / "benchmarks" / "published.py"


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


KAPPA_SIGN = np.sqrt(2 / np.pi), np.sqrt(1 - 2 / np.pi)  # E zσ(z), and what is left of E σ²
KAPPA_ERF = 2 / np.sqrt(3 * np.pi), 0.200364


def logistic_on_gaussian_covariates(seed: int, ratio: float, D: int = 200) -> tuple[float, float]:
    """Test error and train loss of one draw of the notebook's model: D inputs, 2D erf features, a teacher of D sign features."""
    from onestride.estimator._logistic import _THOROUGH, _solution

    (a, b), (c, e), rng = KAPPA_SIGN, KAPPA_ERF, np.random.default_rng(seed)
    n, width = int(ratio * 2 * D), 2 * D
    T, F, theta = rng.normal(size=(D, D)) / D**0.5, rng.normal(size=(width, D)) / D**0.5, rng.normal(size=D)
    X = rng.normal(size=(n, D))
    y = np.sign((a * X @ T.T + b * rng.normal(size=(n, D))) @ theta)
    V = (c * X @ F.T + e * rng.normal(size=(n, width))) / width**0.5
    values, U = np.linalg.eigh(V.T @ V)
    keep = values > 1e-10 * values[-1]
    start = np.zeros((keep.sum(), 2)), np.zeros(2)
    shares = np.stack([y > 0, y < 0], 1).astype(float)
    # of two classes both have a column: ½α(|C₁|² + |C₂|²) = ½(α/2)|C₁ − C₂|²
    C, c0 = _solution(V @ U[:, keep], values[keep], shares, np.ones(n), 2 * 0.01, start, _THOROUGH)
    w = U[:, keep] @ (C[:, 0] - C[:, 1])
    loss = np.log1p(np.exp(-y * (V @ w + c0[0] - c0[1]))).mean()
    overlap = a * c * theta @ T @ F.T @ w / np.sqrt(width * D)
    power = (c**2 * np.sum((F.T @ w) ** 2) + e**2 * w @ w) / width
    labels = (a**2 * np.sum((T.T @ theta) ** 2) + b**2 * theta @ theta) / D
    return float(np.arccos(overlap / np.sqrt(power * labels)) / np.pi), float(loss)


@pytest.mark.parametrize(
    ("ratio", "test", "train"), [(0.5, 0.3816, 0.1048), (1.0, 0.3408, 0.1563), (1.5, 0.3175, 0.2045)]
)
def test_logistic_readout_gives_the_published_errors(ratio, test, train):
    """State evolution of others against our solver, D = 200 for their 1,000: within 5 standard errors of six draws."""
    found = np.array([logistic_on_gaussian_covariates(seed, ratio) for seed in range(6)])
    for values, number in zip(found.T, (test, train), strict=True):
        assert abs(values.mean() - number) < 5 * values.std(ddof=1) / np.sqrt(6)


def entries() -> list[dict]:
    return tomllib.loads(FILE.with_suffix(".toml").read_text(encoding="utf-8"))["number"]


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry["name"])
def test_every_published_number_is_checked_or_says_why_not(entry):
    assert entry["source"]
    assert entry["caveat"]
    assert ("check" in entry) != ("why_not" in entry)
    if "check" in entry:
        path, _, name = entry["check"].partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert f"def {name}" in text
    else:
        assert len(entry["why_not"]) > 30


@pytest.mark.parametrize("entry", [e for e in entries() if "ours_stderr" in e], ids=lambda entry: entry["name"])
def test_our_numbers_beside_the_published_ones(entry):
    """Every number within 3 of its standard errors, those on the page; by chance 0.3 % of each."""
    for ours, spread, theirs in zip(entry["ours"], entry["ours_stderr"], entry["values"], strict=True):
        assert abs(ours - theirs) < 3 * np.hypot(spread, entry.get("stderr", 0.0))


def test_the_page_shows_every_published_number():
    page = (ROOT / "docs" / "published.md").read_text(encoding="utf-8")
    for entry in entries():
        assert entry["source"] in page
        assert entry["commit"] in page
        for value in entry["values"]:
            assert re.search(rf"\b{value:g}", page), value
        for value in entry.get("ours", ()):
            assert re.search(rf"\b{value:g}", page), value
