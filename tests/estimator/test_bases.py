"""Layers to start from: ranks of columns, neurons that see few of them, and the choice by held-out rows."""

import numpy as np
import pytest
from scipy.stats import norm, rankdata
from sklearn.base import clone

from onestride._errors import InputError
from onestride.estimator import OneStepFeatures, OneStepRegressor
from onestride.estimator._bases import ORDERS, draw_base, gains
from onestride.estimator._layer import Recipe
from onestride.estimator._ranks import KNOTS, raw_scores
from onestride.estimator._table import read_inputs
from tables import SMALL, draws, friedman


def test_ranks_are_normal_scores_whatever_the_column(seed):
    """Of as many knots as rows they are Φ⁻¹((rank − ½)/n); a monotone function of a column has the same ones."""
    rng = draws(seed, 80)
    x = rng.standard_normal((KNOTS, 1))
    expected = norm.ppf((rankdata(x) - 0.5) / KNOTS)
    np.testing.assert_allclose(raw_scores(np.sort(x, axis=0), x)[:, 0], expected)
    X = np.hstack([x, np.exp(3 * x), np.repeat([0.0, 1.0], KNOTS // 2)[:, None], np.ones_like(x)])
    inputs = read_inputs(X, np.ones(KNOTS), whiten=False, clip=True).with_ranks(X, np.ones(KNOTS))
    Z = inputs.standardised(X)
    assert Z.shape == (KNOTS, 8)
    inside = np.abs(expected) < 1.5
    np.testing.assert_allclose(Z[inside, 5], (expected / expected.std())[inside], atol=0.1)
    np.testing.assert_array_equal(Z[:, 6:], 0)  # two values, or one, have nothing that their column does not say
    np.testing.assert_allclose(Z[:, 4:6].mean(0), 0, atol=1e-9)
    np.testing.assert_allclose(Z[:, 4:6].var(0), 1)


def test_equal_entries_have_the_mean_of_their_scores(seed):
    x = np.repeat([0.0, 1.0, 5.0], [50, 100, 50])[:, None]
    scores = raw_scores(x, x)[:, 0]
    levels = norm.ppf((np.arange(200) + 0.5) / 200)
    np.testing.assert_allclose(scores[[60]], (levels[50] + levels[149]) / 2, atol=1e-12)
    assert scores[0] < scores[60] < scores[-1]


def test_weights_count_as_repetition_in_ranks(seed):
    rng = draws(seed, 81)
    X, counts = np.exp(rng.standard_normal((60, 2))), rng.integers(1, 4, 60)
    y = np.log(X[:, 0]) + 0.1 * rng.standard_normal(60)
    model = OneStepRegressor(SMALL, first_layer="ranks", step_size=0, random_state=seed)
    weighted = model.fit(X, y, sample_weight=counts).predict(X)
    np.testing.assert_allclose(clone(model).fit(np.repeat(X, counts, 0), np.repeat(y, counts)).predict(X), weighted)


def test_neurons_of_a_sparse_layer_see_few_columns_and_stand_at_rows(seed):
    rng = draws(seed, 82)
    Z = rng.standard_normal((50, 6)) * np.array([1, 1, 0, 1, 1, 1])
    recipe = Recipe(30, "erf", True, "auto", 1, None, None, np.ones(1), first_layer="sparse", ranks=True)
    unit = draw_base("sparse", Z, recipe, rng).unit
    np.testing.assert_array_equal((unit.W != 0).sum(1), np.array(ORDERS)[np.arange(30) % 3])
    np.testing.assert_allclose(np.linalg.norm(unit.W, axis=1), 1)
    np.testing.assert_array_equal(unit.W[:, 2], 0)
    assert unit.anchors is not None
    assert all((anchor == Z).all(1).any() for anchor in unit.anchors)
    at_anchors = np.array([unit.design(a[None])[0, j] for j, a in enumerate(unit.anchors)])
    np.testing.assert_allclose(at_anchors, unit.sigma(unit.b))


def test_skewed_columns_are_seen_through_their_ranks(seed):
    """A smooth function of normal scores, given through a wild monotone function: held-out rows ask for ranks."""
    rng = draws(seed, 83)
    g = rng.standard_normal((600, 3))
    X, y = np.sinh(2 * g), np.sin(2 * g[:, 0]) + g[:, 1] * g[:, 2] + 0.1 * rng.standard_normal(600)
    dense, auto = (
        OneStepRegressor(64, first_layer=f, random_state=seed).fit(X[:300], y[:300]) for f in ("dense", "auto")
    )
    assert auto.first_layer_ != "dense"
    assert auto.score(X[300:], y[300:]) > dense.score(X[300:], y[300:]) + 0.05


def test_a_layer_that_gains_nothing_sure_is_not_taken(seed):
    """No target: dense. And the rule itself: a gain has to be larger than its standard error."""
    X = draws(seed, 84).standard_normal((120, 4))
    y = draws(seed, 85).standard_normal(120)
    assert OneStepRegressor(SMALL, step_size=0, random_state=seed).fit(X, y).first_layer_ == "dense"
    loss, w = draws(seed, 86).random(400), np.ones(400)
    assert gains(loss, loss - 0.01, w)
    assert not gains(loss, loss, w)
    noisy = loss + np.tile([1.0, -1.0], 200)
    assert not gains(loss, noisy - 0.01, w)
    assert gains(np.r_[loss, np.nan], np.r_[loss - 0.01, 5.0], np.ones(401))  # rows not judged do not count


def test_first_layer_is_named_or_chosen(seed):
    X, y = friedman(seed, 150, 5)
    for name in ("dense", "ranks", "sparse", "landmarks"):
        model = OneStepFeatures(SMALL, first_layer=name, random_state=seed).fit(X, y)
        assert model.first_layer_ == name
        columns = 5 if name == "dense" else 10
        assert model.transform(X).shape == (150, SMALL + columns) == (150, len(model.get_feature_names_out()))
    with pytest.raises(
        InputError, match="first_layer must be 'auto', 'dense', 'ranks', 'sparse', 'landmarks', got 'wide'"
    ):
        OneStepRegressor(first_layer="wide").fit(X, y)
