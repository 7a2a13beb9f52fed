"""Errors measured on the rows of a table: the same ridge regression as any, rows that never meet, and sentences for too few of them."""

import numpy as np
import pytest

import onestride as one
from onestride.simulation.own_rows import _ridge


@pytest.fixture(scope="module")
def table():
    """The problem of 300 rows: n = 80, N = 40."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    y = X[:, 0] + 0.3 * (X[:, 0] ** 2 - 1) + 0.5 * rng.standard_normal(300)
    return one.from_data(X, y, n=80, N=40, ridge=0.05, step=one.Step(exponent=0.5))


@pytest.mark.parametrize("n", [30, 70])
def test_one_factorisation_gives_the_ridge_fit(n):
    """Primal and dual, N = 50: the normal equations solved at each penalty."""
    rng = np.random.default_rng(n)
    F, T, y, t = (rng.standard_normal(shape) for shape in ((n, 50), (40, 50), n, 40))
    ridges = np.array([1e-3, 0.1, 3.0])
    found = _ridge(F, y, T, t, ridges)
    for j, lam in enumerate(ridges):
        a = np.linalg.solve(F.T @ F + n * lam * np.eye(50), F.T @ y)
        mse = np.mean((y - F @ a) ** 2)
        np.testing.assert_allclose(found[:, j], [mse + lam * a @ a, mse, np.mean((t - T @ a) ** 2)], rtol=1e-8)


@pytest.mark.statistical(rate=3e-3)
@pytest.mark.long
def test_what_is_measured_is_what_is_predicted(table, seed):
    """Six draws of rows; the prediction itself is known to 8 % by its 300 rows: three of them, a false-alarm rate of 3e-3."""
    seeds = range(1000 * seed, 1000 * seed + 6)
    found, expected = one.simulate(table, seeds), one.predict(table)
    assert found.test_error.mean == pytest.approx(expected.test_error, rel=0.25)
    assert found.train_mse.mean == pytest.approx(expected.train_mse, rel=0.25)
    assert found.untrained.test_error.mean == pytest.approx(expected.untrained.test_error, rel=0.25)
    again = one.simulate(table, [1000 * seed + 2])
    assert again.test_error.values[0] == found.test_error.values[2]
    assert {row.quantity for row in one.compare(table, seeds).rows} >= {"test_error", "test_gain"}


@pytest.mark.long
def test_a_learning_curve_is_measured_as_far_as_the_rows_go(table):
    found = one.scaling(table, "n", [60, 100, 200], seeds=2)
    assert sorted(found.simulated) == [0, 1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"n": 150},
            "n = 150 rows for the fit, 150 for the step and 20 for a test are more than the 300 of the table; n up to 140",
        ),
        ({"n": 290, "step": one.Step.none()}, "n = 290 rows for the fit and 20 for a test .* n up to 280"),
        ({"steps": 2}, "one step on rows of its own, got steps=2"),
    ],
)
def test_rows_that_are_not_there_get_a_sentence(table, changes, words):
    with pytest.raises(one.InputError, match=words):
        one.simulate(table.replace(**changes), 2)
