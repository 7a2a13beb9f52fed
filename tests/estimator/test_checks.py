"""What is handed to the estimators: arrays of any library, and a sentence for what is wrong."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone

import onestride
from onestride import InputError
from onestride.estimator import OneStepClassifier, OneStepFeatures, OneStepRegressor
from tables import SMALL, draws, friedman, single_index


def test_arrays_of_other_libraries_are_accepted(seed):
    strict = pytest.importorskip("array_api_strict")
    X, y = friedman(seed, 60)
    model = OneStepRegressor(SMALL, random_state=seed).fit(X, y)
    other = clone(model).fit(strict.asarray(X), strict.asarray(y))
    np.testing.assert_array_equal(other.predict(strict.asarray(X)), model.predict(X))


def test_torch_tensors_are_accepted(seed):
    torch = pytest.importorskip("torch")
    X, y = friedman(seed, 60)
    model = OneStepRegressor(SMALL, random_state=seed).fit(X, y)
    other = clone(model).fit(torch.tensor(X, requires_grad=True), torch.tensor(y))
    np.testing.assert_array_equal(other.predict(torch.tensor(X)), model.predict(X))


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"width": 0}, "width must be a whole number, 1 or more, got 0"),
        ({"steps": 1.5}, "steps must be a whole number, 1 or more, got 1.5"),
        ({"step_size": -1}, "step_size must be 'auto' or a finite number, 0 or more, got -1"),
        ({"step_size": "big"}, "step_size must be 'auto' or a finite number, 0 or more, got 'big'"),
        ({"input_scale": 0}, "input_scale must be 'auto' or a finite number, from 1e-6 to 1e6, got 0"),
        ({"gradient": "adam"}, "gradient must be 'auto', 'shared', 'neurons', 'full', 'diagonal', got 'adam'"),
        ({"effort": "low"}, "effort must be 'default' or 'high', got 'low'"),
        ({"alphas": [1, -1]}, r"alphas must be a list of numbers above 0, up to 1e\+100, got \[1, -1\]"),
        ({"skip": "yes"}, "skip must be True or False, got 'yes'"),
        ({"robust": 1}, "robust must be True or False, got 1"),
        ({"activation": "reul"}, "no function is called 'reul'; did you mean 'relu'?"),
    ],
)
def test_wrong_parameter_is_told_in_a_sentence(parameters, sentence, seed):
    X, y = friedman(seed, 30)
    with pytest.raises(InputError, match=sentence):
        OneStepRegressor(**parameters).fit(X, y)


def test_only_zero_weights_and_a_single_class_are_refused(seed):
    X, y = friedman(seed, 30)
    with pytest.raises(InputError, match="sample_weight must have an entry above 0"):
        OneStepRegressor(SMALL).fit(X, y, sample_weight=np.zeros(30))
    with pytest.raises(InputError, match="y must have 2 classes or more"):
        OneStepClassifier(SMALL).fit(X, np.ones(30, int))
    with pytest.raises(InputError, match="a step needs a target"):
        OneStepFeatures(SMALL).fit(X)


def test_what_does_not_fit_into_the_precision_is_told(seed):
    X, y = friedman(seed, 60)
    single = X.astype(np.float32)
    model = OneStepRegressor(SMALL, random_state=seed)
    with pytest.raises(InputError, match="60 of 60 rows of X have a prediction that does not fit into float32"):
        model.fit(single, y * 1e100).predict(single)
    with pytest.warns(UserWarning, match="far outside"), pytest.raises(InputError, match="does not fit into float64"):
        model.set_params(robust=False).fit(X, y).predict(X * 1e308)
    features = OneStepFeatures(SMALL, activation="relu", robust=False, random_state=seed).fit(X, y)
    with pytest.warns(UserWarning, match="far outside"), pytest.raises(InputError, match="a feature that does not fit"):
        features.transform(X * 1e308)


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (["a"] * 30, "y must hold numbers, got .*'a'.*; a classifier takes labels"),
        ([10**400] * 30, "y must hold numbers that fit into float64"),
        (csr_matrix(np.ones((30, 1))), "y must be a dense array of numbers, got a sparse matrix"),
        (np.full(30, np.nan), "y contains NaN"),
        (np.full(30, np.inf), "y contains infinity"),
        (np.array([np.inf] * 30, object), "y must hold numbers that fit into float64"),
    ],
)
def test_target_that_is_no_number_is_told_in_a_sentence(y, sentence):
    X, _ = friedman(0, 30)
    with pytest.raises(ValueError, match=sentence):
        OneStepRegressor(SMALL).fit(X, y)


def test_weights_beyond_numbers_are_refused_and_small_ones_are_not(seed):
    X, y = friedman(seed, 30)
    with pytest.raises(InputError, match=r"sample_weight must add up to at most 1e\+100, got an entry of 1e\+300"):
        OneStepRegressor(SMALL).fit(X, y, sample_weight=np.full(30, 1e300))
    model = OneStepRegressor(SMALL, alphas=[1e-9, 1], random_state=seed).fit(X, y, sample_weight=np.full(30, 1e-300))
    np.testing.assert_allclose(model.predict(X), y.mean())  # next to penalties that were asked for they are nothing
    assert model.alpha_ in (1e-9, 1)


@pytest.mark.parametrize("exponent", [-960, -20, 27, 300])
def test_the_unit_of_weights_does_not_matter(exponent, seed):
    """Penalties of our own go with it: of the ridge regression, of landmarks and of the logistic readout."""
    X, y = friedman(seed, 120)
    w, unit = draws(seed, 12).uniform(0.2, 2, 120), 2.0**exponent
    for kind, target in ((OneStepRegressor, y), (OneStepClassifier, np.digitize(y, [13, 17]))):
        plain = kind(SMALL, random_state=seed).fit(X, target, sample_weight=w)
        model = clone(plain).fit(X, target, sample_weight=w * unit)
        np.testing.assert_array_equal(model.predict(X), plain.predict(X))
        assert model.alpha_ == plain.alpha_ * unit
    assert model.logistic_alpha_ == plain.logistic_alpha_ * unit


def test_many_copies_of_every_row_are_a_weight(seed):
    X, y = friedman(seed, 60)
    model = OneStepClassifier(SMALL, random_state=seed).fit(X, y > 14, sample_weight=np.full(60, 100))
    copies = clone(model).fit(np.repeat(X, 100, 0), np.repeat(y > 14, 100))
    np.testing.assert_allclose(copies.predict_proba(X), model.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("kind", [OneStepRegressor, OneStepClassifier])
@pytest.mark.parametrize("coefficients", [[0, 1e100], [0, 1e308], [1e200, 1]])
def test_activation_too_large_to_compute_with_is_told_in_a_sentence(kind, coefficients):
    X, y = friedman(0, 30)
    with pytest.raises(InputError, match=r"activation needs E σ² of at most 1e\+60, got "):
        kind(SMALL, activation=coefficients).fit(X, y > 14)


@pytest.mark.parametrize("coefficients", [[0, 1, 0.5], (0.0, 1.0, 0.5), np.array([0, 1, 0.5])])
def test_activation_may_be_a_list_of_hermite_coefficients(coefficients, seed):
    X, y = single_index(seed, 24)
    model = OneStepRegressor(SMALL, activation=coefficients, random_state=seed).fit(X, y)
    registered = onestride.register("linear_plus_square", lambda z: z + (z * z - 1) / 2, lambda z: 1 + z)
    named = OneStepRegressor(SMALL, activation=registered.name, random_state=seed).fit(X, y)
    np.testing.assert_allclose(model.predict(X), named.predict(X), rtol=1e-6)
    assert model.explain().problem.activation == (0, 1, 0.5)
    assert pickle.loads(pickle.dumps(clone(model).fit(X, y))).predict(X) == pytest.approx(model.predict(X))


def test_read_only_and_object_arrays_are_taken(seed):
    X, y = friedman(seed, 60)
    expected = OneStepRegressor(SMALL, whiten=True, random_state=seed).fit(X, y).predict(X)
    for array in (X, y):
        array.flags.writeable = False
    for table, target in ((X, y), (X.astype(object), y.astype(object))):
        model = OneStepRegressor(SMALL, whiten=True, random_state=seed).fit(table, target)
        np.testing.assert_allclose(model.predict(table), expected)
