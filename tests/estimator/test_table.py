"""The table as the estimators see it: order, units, repetition and constant columns change nothing; far rows are told."""

import numpy as np
import pytest
from sklearn.base import clone

from onestride.estimator import OneStepClassifier, OneStepFeatures, OneStepRegressor
from onestride.estimator._table import connected_range, median_and_range, read_inputs, smooth_clip
from tables import SMALL, draws, friedman, weighted_table


@pytest.mark.parametrize("gradient", ["shared", "neurons"])
def test_weight_equals_repetition_and_zero_weight_removal(gradient, seed):
    X, y = friedman(seed, 120)
    rng = draws(seed, 5)
    weights = rng.integers(0, 4, len(y))
    rows = rng.permutation(np.repeat(np.arange(len(y)), weights))
    model = OneStepRegressor(40, gradient=gradient, random_state=seed)
    weighted, repeated = clone(model).fit(X, y, sample_weight=weights), clone(model).fit(X[rows], y[rows])
    assert weighted.step_size_ == repeated.step_size_
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6)
    assert weighted.held_out_.errors == pytest.approx(repeated.held_out_.errors)


def test_inputs_are_standardised_and_whitened_by_weight(seed):
    X, y, w = weighted_table(seed, 15)
    for whiten in (False, True):
        model = OneStepFeatures(3, step_size=0, whiten=whiten, random_state=seed).fit(X, y, sample_weight=w)
        Z = model.transform(X)[:, 3:]
        covariance = (Z * (w / w.sum())[:, None]).T @ Z
        np.testing.assert_allclose(w @ Z / w.sum(), 0, atol=1e-9)
        np.testing.assert_allclose(covariance if whiten else np.diag(covariance), np.eye(6) if whiten else 1, atol=1e-9)


def test_order_of_rows_does_not_matter(seed):
    X, y = friedman(seed, 150)
    order = draws(seed, 6).permutation(150)
    one, two = (OneStepRegressor(40, random_state=seed).fit(X[k], y[k]) for k in (np.arange(150), order))
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-7)


def test_units_of_inputs_and_target_do_not_matter(seed):
    X, y = friedman(seed, 200)
    one = OneStepRegressor(40, random_state=seed).fit(X, y)
    two = OneStepRegressor(40, random_state=seed).fit(X * 1000 - 7, 5 * y + 3)
    np.testing.assert_allclose(5 * one.predict(X) + 3, two.predict(X * 1000 - 7), rtol=1e-5)
    assert two.loo_error_ == pytest.approx(25 * one.loo_error_, rel=1e-5)


def test_constant_columns_and_constant_target_are_harmless(seed):
    X, y = friedman(seed, 60)
    X = np.hstack([X, np.full((60, 2), 3.7)])
    assert np.isfinite(OneStepRegressor(SMALL, random_state=seed).fit(X, y).predict(X + 1)).all()
    np.testing.assert_allclose(OneStepRegressor(SMALL, random_state=seed).fit(X, np.full(60, 2.5)).predict(X), 2.5)


def test_rows_far_outside_the_training_range_are_told_once(seed):
    X, y = friedman(seed, 200, 5)
    model = OneStepRegressor(SMALL, random_state=seed).fit(X, y)
    low, high = X[:, 3].min(), X[:, 3].max()
    far = X[:9].copy()
    far[4, 3] = high + 5 * (high - low)
    far[7, 3] = low - 1000 * (high - low)
    with pytest.warns(UserWarning, match="2 of 9 rows lie far outside") as told:
        model.predict(far)
    assert len(told) == 1
    assert told[0].filename == __file__
    message = str(told[0].message)
    assert f"row 7 with {far[7, 3]:.6g} in column 3, 1e+03 training ranges outside" in message
    assert f"outside [{low:.6g}, {high:.6g}]" in message


def test_every_way_to_predict_tells_of_far_rows_and_names_the_column(seed):
    pandas = pytest.importorskip("pandas")
    X, y = friedman(seed, 60, 5)
    table, labels = pandas.DataFrame(X, columns=list("abcde")), y > np.median(y)
    far = table.assign(b=1e6)
    classifier = OneStepClassifier(SMALL, random_state=seed).fit(table, labels)
    regressor = OneStepRegressor(SMALL, random_state=seed).fit(table, y)
    features = OneStepFeatures(SMALL, random_state=seed).fit(table, y)
    for call in (classifier.predict, classifier.predict_proba, classifier.decision_function):
        with pytest.warns(UserWarning, match="60 of 60 rows .* column 'b'") as told:
            call(far)
        assert len(told) == 1
    for call in (regressor.predict, features.transform):
        with pytest.warns(UserWarning, match="60 of 60 rows .* column 'b'"):
            call(far)


def test_the_edge_of_far_is_four_training_ranges(seed):
    """No word at 4 − ε ranges outside, nor of a constant column, nor where too few rows tell a range."""
    X, y = friedman(seed, 50, 5)
    X = np.hstack([X, np.full((50, 1), 3.0)])
    model = OneStepRegressor(SMALL, random_state=seed).fit(X, y)
    low, high = X.min(0), X.max(0)
    model.predict(np.vstack([high + 3.999 * (high - low), low - 3.999 * (high - low)]))  # a warning would be an error
    with pytest.warns(UserWarning, match="1 of 1 rows"):
        model.predict([high + 4.001 * (high - low)])
    np.testing.assert_array_equal(model.predict(X + np.array([0, 0, 0, 0, 0, 1e9])), model.predict(X))
    OneStepRegressor(SMALL, random_state=seed).fit(X[:11], y[:11]).predict(X[:11] + 100)


@pytest.mark.parametrize("law", ["normal", "uniform", "exponential", "student", "counts"])
def test_ordinary_rows_are_not_called_far(law, seed):
    """Fresh rows of the same law. Of 400 tables of 200 rows and ten columns none was told of (lognormal 4 %, t₃ 1.5 %)."""
    rng = draws(seed, 20)
    sample = {
        "normal": rng.standard_normal,
        "uniform": rng.random,
        "exponential": rng.standard_exponential,
        "student": lambda shape: rng.standard_t(8, shape),
        "counts": lambda shape: rng.poisson(0.1, shape).astype(float),
    }[law]
    X = sample((200, 10))
    OneStepFeatures(3, step_size=0, input_scale=1).fit(X).transform(sample((1000, 10)))  # a warning would be an error


@pytest.mark.parametrize("power", [-300, -200, -100, 160, 290])
def test_magnitude_of_inputs_and_targets_does_not_matter(power, seed):
    X, y = friedman(seed, 60)
    factor = 10.0**power
    model = OneStepRegressor(SMALL, random_state=seed).fit(X, y)
    scaled = clone(model).fit(X, y * factor)
    assert scaled.step_size_ == model.step_size_
    np.testing.assert_allclose(scaled.predict(X) / factor, model.predict(X), rtol=1e-6)
    np.testing.assert_allclose(clone(model).fit(X * factor, y).predict(X * factor), model.predict(X), rtol=1e-6)
    both = clone(model).fit(X, np.column_stack([y, y * factor])).predict(X)
    np.testing.assert_allclose(both[:, 1] / factor, both[:, 0], rtol=1e-6)
    assert str(scaled.explain()) == str(model.explain())


def test_constant_columns_count_for_nothing(seed):
    """Not in importances, not in the direction, and not in a prediction when they change."""
    X, y = friedman(seed, 200, 5)
    wide = np.insert(X, 2, 0.1, axis=1)  # 0.1 averages to 0.1 up to rounding
    changed = np.insert(X, 2, 7.0, axis=1)
    for whiten in (False, True):
        model = OneStepRegressor(SMALL, step_size=1, whiten=whiten, random_state=seed).fit(wide, y)
        np.testing.assert_allclose(model.predict(changed), model.predict(wide), rtol=1e-12)
        assert model.feature_importances_[2] == 0
        assert model.direction_[2] == 0
    layer = OneStepFeatures(SMALL, step_size=0, input_scale=2, random_state=seed).fit(wide)._layer
    np.testing.assert_allclose(
        np.linalg.norm(np.delete(layer.W, 2, axis=1), axis=1), 2
    )  # all of a row's length is used
    only = OneStepRegressor(SMALL, whiten=True, random_state=seed).fit(np.ones((20, 2)), y[:20])
    np.testing.assert_allclose(only.predict(np.ones((2, 2))), y[:20].mean())


def test_columns_are_scaled_by_quantiles_and_clipped_smoothly(seed):
    """The formula once more with NumPy's quantiles; weights are counts, so that repetition is a second way to get there."""
    rng = draws(seed, 40)
    X, counts = rng.standard_t(3, (301, 4)), rng.integers(1, 4, 301)
    rows = np.repeat(X, counts, axis=0)
    low, centre, high = np.quantile(rows, (0.05, 0.5, 0.95), axis=0, method="inverted_cdf")
    v = (X - centre) / ((high - low) / 2.4387)
    u = v / np.sqrt(1 + (v / 3) ** 2)
    inputs = read_inputs(X, counts.astype(float), whiten=False, clip=True)
    inside = ((inputs.low <= X) & (inputs.high >= X)).all(axis=1)
    mean = np.average(smooth_clip(v)[inside], axis=0, weights=counts[inside])
    Z = inputs.standardised(X)
    slope, shift = 1 / inputs.scale, inputs.mean
    np.testing.assert_allclose(Z[inside], ((u - shift) * slope)[inside], rtol=1e-4, atol=1e-4)
    assert inside.mean() > 0.98
    np.testing.assert_allclose(mean, shift, atol=0.05)
    np.testing.assert_allclose(np.average(Z, axis=0, weights=counts), 0, atol=1e-9)
    np.testing.assert_allclose(np.average(Z**2, axis=0, weights=counts), 1)


def test_wild_entries_move_nothing_and_say_nothing(seed):
    """A few entries of 10⁴ standard deviations leave scale and range as they were; far outside the range z goes to the median's."""
    X = draws(seed, 41).standard_normal((400, 2))
    wild = X.copy()
    wild[:2, 0] = 30.0, -1e4
    clean, spiked = (read_inputs(A, np.ones(400), whiten=False, clip=True) for A in (X, wild))
    np.testing.assert_allclose(spiked.spread, clean.spread, rtol=0.05)
    np.testing.assert_allclose((spiked.low, spiked.high), (clean.low, clean.high), rtol=0.5)
    far = clean.standardised(np.array([[1e4, 0.0], [1e300, 0.0], [-np.finfo(float).max, 0.0], [clean.centre[0], 0.0]]))
    np.testing.assert_allclose(far[:3, 0], far[3, 0], atol=1e-4)
    edge, beyond = clean.high, clean.high + 0.3 * (clean.high - clean.low)
    assert (np.abs(clean.standardised(np.stack([edge, beyond]))) < 4).all()


def test_a_direction_in_which_no_row_varies_is_not_seen(seed):
    """Of two near twins their mean is left; a spike in one of them counts half, and no slope reads their difference."""
    rng = draws(seed, 42)
    X = rng.standard_normal((200, 3))
    twins = np.hstack([X, X[:, :1] + 1e-6 * rng.standard_normal((200, 1))])
    inputs = read_inputs(twins, np.ones(200), whiten=False, clip=True)
    Z = inputs.standardised(twins)
    alone = read_inputs(X, np.ones(200), whiten=False, clip=True)
    assert alone.rotation is None
    np.testing.assert_allclose(Z[:, :3], alone.standardised(X), atol=1e-4)
    np.testing.assert_allclose(Z[:, 3], Z[:, 0], atol=1e-5)
    spiked = inputs.standardised(np.array([[2.0, 0, 0, 0], [0.0, 0, 0, 2], [0, 0, 0, 0]]))
    np.testing.assert_allclose(spiked[0], spiked[1], atol=1e-3)
    model = OneStepRegressor(SMALL, random_state=seed).fit(twins, X[:, 0] ** 2)
    np.testing.assert_allclose(model.feature_importances_[0], model.feature_importances_[3], rtol=1e-3)


def test_spread_of_a_column_that_is_mostly_one_value_is_that_of_the_others():
    column = np.zeros((100, 3))
    column[:3, 0], column[:8, 1], column[:30, 2] = 1.0, np.arange(10, 18), np.arange(30) / 30
    centre, spread = median_and_range(column, np.ones(100))
    np.testing.assert_array_equal(centre, 0)
    np.testing.assert_allclose(spread, [1, 13, 25 / 30 / 2.4387 * 1.0], rtol=0.5)
    np.testing.assert_array_equal(connected_range(column, centre, spread), [[0, 0, 0], [1, 17, 29 / 30]])


def test_the_range_ends_at_the_outermost_entry_that_has_a_neighbour():
    """Doubling distances stand alone; two near each other, or one value twice, do not."""
    body = np.linspace(-1, 1, 101)
    columns = [
        np.r_[body, 30, 100, 1000],
        np.r_[body, 30, 50, 1000],
        np.r_[body, -50, 40, 40],
        np.r_[body, 1.5, -1.2, 2.9],
    ]
    X = np.stack(columns, axis=1)
    low, high = connected_range(X, *median_and_range(X, np.ones(len(X))))
    np.testing.assert_allclose(low, [-1, -1, -1, -1.2])
    np.testing.assert_allclose(high, [1, 50, 40, 2.9])


def test_missing_entries_are_told_by_a_column_of_their_own(seed):
    """Where what is missing matters, a gap says so; importances and direction keep one entry per column."""
    X, y = friedman(seed, 600, 5)
    gone = draws(seed, 44).random(600) < 0.3
    X[gone, 4], y = np.nan, y + 10.0 * gone
    model = OneStepRegressor(40, random_state=seed).fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.8
    assert model.feature_importances_.shape == model.direction_.shape == (5,)
    assert model.feature_importances_.argmax() == 4
    assert np.isfinite(model.predict(np.full((1, 5), np.nan))).all()  # also where none was missing before
    names = OneStepFeatures(2, step_size=0).fit(X, y).get_feature_names_out()
    assert list(names[-2:]) == ["x4", "missing_x4"]


def test_missing_entries_count_as_the_median_by_weight(seed):
    X, y = friedman(seed, 80, 5)
    X[::7, 1] = np.nan
    w = draws(seed, 45).integers(1, 4, 80)
    there = ~np.isnan(X[:, 1])
    median = np.quantile(np.repeat(X[there, 1], w[there]), 0.5, method="inverted_cdf")
    by_hand = np.column_stack([np.where(there, X[:, 1], median) if j == 1 else X[:, j] for j in range(5)] + [~there])
    options = {"step_size": 0, "random_state": seed}
    one, two = (OneStepRegressor(SMALL, **options).fit(A, y, w).predict(A) for A in (X, by_hand))
    np.testing.assert_allclose(one, two, rtol=1e-9)
