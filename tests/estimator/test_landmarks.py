"""Landmarks: the kernel of Nyström at training rows, its slopes, and the moves it takes from a network."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from onestride._errors import InputError
from onestride.estimator import OneStepClassifier, OneStepFeatures, OneStepRegressor
from onestride.estimator._judge import EFFORTS, Move, learned_map, take_steps
from onestride.estimator._landmarks import Landmarks, _kernel, draw_landmarks, led
from onestride.estimator._layer import Recipe, draw_layer, step_direction, weight_gradient
from onestride.estimator._ridge import ridge_solutions
from tables import SMALL, draws, friedman


def some_landmarks(rng, n: int = 40, d: int = 3, count: int = 12) -> tuple[Landmarks, np.ndarray]:
    Z = rng.standard_normal((n, d))
    return draw_landmarks(Z, count, True, rng).at_scale(1.3), Z


def test_features_give_the_kernel_of_nystroem(seed):
    """φφᵀ/N = K_zA K_AA⁻¹ K_Az with K by its formula; at the landmarks themselves it is K_AA."""
    rng = draws(seed, 90)
    layer, Z = some_landmarks(rng)
    R = rng.standard_normal((3, 3))
    layer = Landmarks(7 * R, layer.b, "erf", True, layer.anchors, 1.3)  # a factor of R does not count
    A = layer.anchors
    gaps = A[:, None] - A
    unit = 1.3**2 / np.square(gaps @ R.T).sum(2).mean()
    cross = np.exp(-unit * np.square((Z[:, None] - A) @ R.T).sum(2))
    own = np.exp(-unit * np.square(gaps @ R.T).sum(2))
    design = layer.design(Z)
    assert design.shape == (40, 15)
    np.testing.assert_array_equal(design[:, 12:], Z)
    F = design[:, :12]
    np.testing.assert_allclose(F @ F.T / 12, cross @ np.linalg.solve(own, cross.T), atol=1e-5)


def test_a_kernel_is_at_most_one_wherever_its_rows_lie():
    """Equal rows of length 10⁸, whose squares round by more than 1."""
    far = 1e8 + np.arange(12.0).reshape(4, 3)
    K = _kernel(far, far)
    assert K.max() <= 1
    np.testing.assert_allclose(_kernel(far - 1e8, far - 1e8).diagonal(), 1, atol=1e-12)


def test_slopes_match_finite_differences(seed):
    rng = draws(seed, 91)
    layer, Z = some_landmarks(rng)
    c, h = rng.standard_normal((15, 2)), 1e-5
    for k, gradients in enumerate(layer.input_gradients(Z, c)):
        for j in range(3):
            shift = h * np.eye(3)[j]
            slope = (layer.design(Z + shift) - layer.design(Z - shift)) @ c[:, k] / (2 * h)
            np.testing.assert_allclose(gradients[:, j], slope, rtol=1e-5, atol=1e-5)


def test_moves_are_those_of_the_guide(seed):
    """A map multiplies R as it multiplies W, and so does a shared step, which goes on with the guide's own steps."""
    rng = draws(seed, 92)
    layer, Z = some_landmarks(rng, n=60)
    Y, w = np.sin(Z[:, :1]) + Z[:, 1:2] ** 2, np.ones(60)
    recipe = Recipe(20, "erf", True, "shared", 1, None, None, np.ones(1))
    guide = draw_layer(np.ones(3, bool), recipe, rng, Z.dtype)
    layer = led(layer, guide, 0.1, 3)
    one = learned_map(layer, Z, Y, w, Move("full", 2), 10.0, EFFORTS["default"])
    expected = np.eye(3) + 10 * np.sqrt(3) * one.root / np.linalg.norm(one.root)
    moved = one.applied(layer, 10.0)
    np.testing.assert_allclose(moved.W / np.linalg.norm(moved.W), expected / np.linalg.norm(expected))
    (readout,) = ridge_solutions(guide.design(Z), Y, w, np.array([10.0]))
    change = step_direction(guide, weight_gradient(guide, readout, Z, Y, w), "shared", layer)
    own = step_direction(guide, weight_gradient(guide, readout, Z, Y, w), "shared")
    np.testing.assert_allclose(guide.W @ change / np.linalg.norm(guide.W @ change), own / np.linalg.norm(own))
    twice = take_steps(layer, change, 1.0, Z, Y, w, 10.0, "shared", 2, guide)
    once = take_steps(layer, change, 1.0, Z, Y, w, 10.0, "shared", 1, guide)
    network = take_steps(guide, own, 1.0, Z, Y, w, 10.0, "shared", 1)
    (readout,) = ridge_solutions(network.design(Z), Y, w, np.array([10.0]))
    again = once.W + step_direction(network, weight_gradient(network, readout, Z, Y, w), "shared", once)
    np.testing.assert_allclose(twice.W / np.linalg.norm(twice.W), again / np.linalg.norm(again))


def test_the_map_finds_the_columns_that_matter(seed):
    rng = draws(seed, 93)
    X = rng.standard_normal((250, 8))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
    model = OneStepRegressor(SMALL, first_layer="landmarks", gradient="diagonal", random_state=seed).fit(
        X[:200], y[:200]
    )
    plain = OneStepRegressor(SMALL, first_layer="landmarks", step_size=0, random_state=seed).fit(X[:200], y[:200])
    assert (model.first_layer_, model.gradient_) == ("landmarks", "diagonal")
    assert model.feature_importances_[:2].sum() > 0.9
    assert model.score(X[200:], y[200:]) > plain.score(X[200:], y[200:])
    assert "landmarks" in str(model.explain())


def test_the_contract_holds(seed):
    """Weights count as repetition; single precision, pickles and classes; more landmarks than rows; what does not go together."""
    X, y = friedman(seed, n=80, d=5)
    counts = draws(seed, 94).integers(1, 4, 80)
    model = OneStepRegressor(SMALL, first_layer="landmarks", step_size=1.0, random_state=seed)
    weighted = clone(model).fit(X, y, sample_weight=counts).predict(X)
    np.testing.assert_allclose(clone(model).fit(np.repeat(X, counts, 0), np.repeat(y, counts)).predict(X), weighted)
    wide = model.fit(X, y).predict(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), wide)
    narrow = clone(model).fit(X.astype(np.float32), y.astype(np.float32)).predict(X.astype(np.float32))
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, wide, atol=0.02 * y.std())
    classes = OneStepClassifier(SMALL, first_layer="landmarks", random_state=seed).fit(X, y > np.median(y))
    assert classes.score(X, y > np.median(y)) > 0.8
    many = OneStepFeatures(500, first_layer="landmarks", step_size=0, random_state=seed).fit(X)
    assert many.transform(X).shape == (80, 90) == (80, len(many.get_feature_names_out()))
    with pytest.raises(InputError, match="gradient must not be 'neurons' for landmarks"):
        OneStepRegressor(SMALL, first_layer="landmarks", gradient="neurons").fit(X, y)
