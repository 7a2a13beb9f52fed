"""Tables of more rows than choices are made with: the regression in tiles, rows by index from a file, the same fit."""

from types import SimpleNamespace

import numpy as np
import pytest

from onestride._backend import HOST, Backend, tiles
from onestride._errors import InputError
from onestride.estimator import OneStepClassifier, OneStepRegressor, _judge, _large, _models, _network, _table
from onestride.estimator._large import regression, tiled_outputs
from onestride.estimator._layer import Layer
from onestride.estimator._ridge import decompose
from tables import SMALL, draws, friedman

FEW = _judge.Effort(rows=150, width=16, neurons=8, maps=(1,))


@pytest.fixture
def small_sample(monkeypatch):
    """Every table counts as large: 150 rows and 16 neurons choose, 100 rows are left out in turn, tiles have a few rows."""
    for module in (_judge, _models, _network):
        monkeypatch.setitem(module.EFFORTS, "default", FEW)
    for module in (_large, _models, _network):
        monkeypatch.setattr(module, "LEFT_OUT_ROWS", 100)
    monkeypatch.setattr(tiles, "TILE_BYTES", 40_000)


def backends():
    return [HOST, Backend("strict"), Backend("torch")]


@pytest.mark.parametrize("backend", backends(), ids=lambda backend: backend.device)
@pytest.mark.parametrize("anchored", [False, True])
def test_tiles_give_the_regression_of_the_whole(backend, anchored, seed, monkeypatch):
    if backend.device != "cpu":
        pytest.importorskip({"torch": "torch", "strict": "array_api_strict"}[backend.device])
    monkeypatch.setattr(tiles, "TILE_BYTES", 8_000)
    monkeypatch.setattr(tiles, "DEVICE_ROWS", 32)
    rng = draws(seed, 70)
    Z, Y, w = rng.standard_normal((130, 3)), rng.standard_normal((130, 2)), rng.uniform(0.3, 3, 130)
    layer = Layer(rng.standard_normal((9, 3)), rng.standard_normal(9), "erf", True, Z[:9] if anchored else None)
    shown, alphas = np.sort(rng.permutation(130)[:40]), np.array([0.01, 1.0])
    whole, tiled = decompose(layer.design(Z), Y, w), regression(layer, Z, Y, w, shown, backend)
    np.testing.assert_allclose(tiled.eigenvalues, whole.eigenvalues, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(tiled.left_out(alphas), whole.left_out(alphas)[:, shown], rtol=1e-7, atol=1e-9)
    for alpha in alphas:
        for one, other in zip(tiled.readout(alpha), whole.readout(alpha), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)
    readout = whole.readout(1.0)
    many = np.tile(Z, (1000, 1)) if backend.on_host else Z  # enough for tiles
    predicted = tiled_outputs(layer, many, readout, backend)
    np.testing.assert_allclose(predicted[:130], layer.outputs(Z, readout), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("gradient", ["shared", "full", "neurons"])
def test_a_large_table_is_fitted_on_all_rows(gradient, small_sample, seed):
    """The readout is ridge regression on all rows at the chosen penalty, and left-out errors are those of rows not chosen with."""
    X, y = friedman(seed, n=600, d=5)
    model = OneStepRegressor(40, gradient=gradient, step_size=1.0, random_state=seed).fit(X, y)
    Z, t = model._inputs.standardised(X), (y - y.mean()) / y.std()
    path = decompose(model._layer.design(Z), t[:, None], np.ones(600))
    np.testing.assert_allclose(model.predict(X), path.readout(model.alpha_).coefficients[:, 0] @ model._layer.design(Z).T
                               * y.std() + path.readout(model.alpha_).intercept * y.std() + y.mean(), rtol=1e-6)  # fmt: skip
    left_out = np.square(path.left_out(np.array([model.alpha_]))[0]).mean() * y.var()
    assert model.loo_error_ == pytest.approx(left_out, rel=0.5)
    assert model.explain().facts.judged_rows == 150
    plain = OneStepRegressor(40, step_size=0, random_state=seed).fit(X, y)
    assert model.score(X, y) > 0.8 < plain.score(X, y)


def test_outlying_targets_of_a_large_table_are_pulled_in(small_sample, seed):
    X, y = friedman(seed, n=600, d=5)
    rng = draws(seed, 71)
    hit = rng.choice(600, 5, replace=False)
    wild = y.copy()
    wild[hit] += 50 * y.std()
    model = OneStepRegressor(30, step_size=0, random_state=seed).fit(X, wild)
    assert model.n_outlying_targets_ == 5
    assert np.mean((model.predict(X) - y) ** 2) < 0.4 * y.var()


def test_rows_may_lie_in_a_file(small_sample, seed, tmp_path, monkeypatch):
    """Statistics from a part of the rows, and the same predictions as from memory."""
    monkeypatch.setattr(_table, "MANY_ROWS", 400)
    X, y = friedman(seed, n=900, d=5)
    X[5:80, 2], X[5, 3] = np.nan, np.nan  # one gap is filled and not told of
    file = np.memmap(tmp_path / "X", np.float64, "w+", shape=X.shape)
    file[:] = X
    models = [OneStepRegressor(30, random_state=seed).fit(A, y) for A in (file, X)]
    assert models[0]._missing.told.tolist() == [False, False, True, False, False]
    np.testing.assert_array_equal(models[0].predict(X), models[1].predict(file))
    assert models[0].score(X, y) > 0.8


def test_a_classifier_of_a_large_table_has_all_rows(small_sample, seed, monkeypatch):
    X, y = friedman(seed, n=600, d=5)
    model = OneStepClassifier(30, random_state=seed).fit(X, y > np.median(y))
    assert model.score(X, y > np.median(y)) > 0.85
    monkeypatch.setattr(_network, "MOST_NUMBERS", 200 * 30)
    part = OneStepClassifier(30, random_state=seed).fit(X, y > np.median(y))
    assert part.score(X, y > np.median(y)) > 0.8


def test_a_device_that_is_not_there_is_told(seed):
    X, y = friedman(seed, n=50)
    with pytest.raises(InputError, match="device must be"):
        OneStepRegressor(SMALL, device="gpu").fit(X, y)
    with pytest.raises(InputError, match="device must be"):
        OneStepRegressor(SMALL, device=0).fit(X, y)


def test_the_penalty_is_chosen_by_rows_that_chose_nothing_else(monkeypatch):
    """Left-out rows are fresh ones while there are some, then those of the search; none is there twice."""
    monkeypatch.setattr(_network, "LEFT_OUT_ROWS", 20)
    recipe, taken = SimpleNamespace(keep_rows=False), np.arange(30)
    many, few = (_network._shown(taken, n, recipe, None, np.random.default_rng(0)) for n in (60, 40))
    assert many.size == few.size == np.unique(few).size == 20
    assert not np.isin(many, taken).any()
    assert set(range(30, 40)) <= set(few.tolist())
