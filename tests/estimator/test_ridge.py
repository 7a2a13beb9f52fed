"""Ridge regression of the estimators: leave-one-out and penalties as scikit-learn has them, by refitting."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge, RidgeCV

from onestride.estimator._ridge import best_penalty, decompose, ridge_solutions
from tables import draws


@pytest.mark.parametrize(("n", "p"), [(40, 15), (20, 35)])
def test_left_out_residual_is_that_of_a_fit_without_the_row(n, p, seed):
    rng = draws(seed, 0)
    F, Y, w = rng.standard_normal((n, p)) + 1, rng.standard_normal((n, 2)), rng.uniform(0.2, 3, n)
    for alpha, left_out in zip(
        (0.01, 1.0, 30.0), decompose(F, Y, w).left_out(np.array([0.01, 1.0, 30.0])), strict=True
    ):
        for i in range(n):
            rest = np.arange(n) != i
            model = Ridge(alpha=alpha).fit(F[rest], Y[rest], w[rest])
            np.testing.assert_allclose(left_out[i], Y[i] - model.predict(F[[i]])[0], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("n", "p"), [(60, 20), (25, 40)])
def test_penalty_and_scores_are_those_of_ridgecv(n, p, seed):
    rng = draws(seed, 1)
    F, y, alphas = rng.standard_normal((n, p)), rng.standard_normal(n), np.logspace(-1, 3, 9)
    path = decompose(F, y[:, None], np.ones(n))
    peer = RidgeCV(alphas, store_cv_results=True).fit(F, y)
    np.testing.assert_allclose(np.square(path.left_out(alphas))[:, :, 0].T, peer.cv_results_, rtol=1e-8)
    assert best_penalty(path, alphas)[0] == pytest.approx(peer.alpha_)


def test_penalty_is_chosen_by_weight(seed):
    """Two halves with targets of opposite kinds: the half that counts decides."""
    rng = draws(seed, 25)
    F = rng.standard_normal((80, 5))
    y = np.where(np.arange(80) < 40, F @ np.ones(5), 3 * rng.standard_normal(80))
    w, alphas = np.where(np.arange(80) < 40, 1.0, 1e-3), np.array([1e-3, 1e3])
    path = decompose(F, y[:, None], w)
    left_out = np.square(path.left_out(alphas))[:, :, 0]
    assert best_penalty(path, alphas) == pytest.approx((1e-3, np.average(left_out[0], weights=w)))


@pytest.mark.parametrize(("n", "p"), [(40, 15), (20, 35)])
def test_cholesky_and_eigenvectors_give_the_same_ridge(n, p, seed):
    rng = draws(seed, 2)
    F, Y, w = rng.standard_normal((n, p)), rng.standard_normal((n, 3)), rng.uniform(0.2, 3, n)
    path = decompose(F, Y, w)
    for alpha, (coefficients, intercept) in zip(
        (0.01, 10.0), ridge_solutions(F, Y, w, np.array([0.01, 10.0])), strict=True
    ):
        np.testing.assert_allclose(coefficients, path.readout(alpha).coefficients, atol=1e-10)
        np.testing.assert_allclose(intercept, path.readout(alpha).intercept, atol=1e-10)
