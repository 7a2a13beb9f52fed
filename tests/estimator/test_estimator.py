"""The estimators: scikit-learn's own checks, exact identities, honesty of the step, and what a user of tables tries."""

import contextlib
import io
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import onestride
from onestride.estimator import OneStepClassifier, OneStepFeatures, OneStepRegressor
from onestride.estimator._logistic import PENALTIES, _chosen_penalty, fit_logistic
from onestride.estimator._ridge import decompose
from places import DOCS
from tables import SMALL, draws, friedman, weighted_table


@parametrize_with_checks(
    [
        OneStepFeatures(width=SMALL, step_size=0),
        OneStepRegressor(width=SMALL, step_size=1, steps=2, gradient="neurons", whiten=True, skip=False),
    ]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@parametrize_with_checks([OneStepRegressor(width=SMALL), OneStepClassifier(width=SMALL), OneStepFeatures(width=SMALL)])
def test_scikit_learn_check_where_the_table_chooses(estimator, check):
    check(estimator)


@pytest.mark.parametrize("whiten", [False, True])
def test_importances_are_mean_squared_slopes_by_weight(whiten, seed):
    """Against finite differences of the prediction in standardised inputs."""
    X, y, w = weighted_table(seed, 16)
    model = OneStepRegressor(SMALL, step_size=1, whiten=whiten, robust=False, random_state=seed).fit(
        X, y, sample_weight=w
    )
    scale, h = StandardScaler().fit(X, sample_weight=w).scale_, 1e-5
    slopes = np.array([(model.predict(X + h * e) - model.predict(X - h * e)) / (2 * h) for e in np.diag(scale)])
    influence = np.square(slopes) @ w
    np.testing.assert_allclose(model.feature_importances_, influence / influence.sum(), atol=1e-6)
    assert not np.allclose(model.feature_importances_, np.square(slopes).sum(1) / np.square(slopes).sum(), atol=1e-4)


@pytest.mark.parametrize("classes", [2, 3])
def test_readout_of_the_classifier_is_scikit_learns_logistic_regression(classes, seed):
    """On the same features at the same penalty, by weight; one row in three is given twice, with unlike labels.

    Two classes have two opposite columns here and one there, which halves the square of the coefficients.
    """
    X, _, w = weighted_table(seed, 17, n=90)
    labels = np.searchsorted(np.quantile(X[:, 1], np.arange(1, classes) / classes), X[:, 1])
    twins = np.arange(0, 90, 3)
    X, w = np.vstack([X, X[twins]]), np.append(w, w[twins] / 2)
    labels = np.append(labels, (labels[twins] + 1) % classes)
    fixed = {"width": 10, "step_size": 0, "input_scale": 1, "alphas": [1.0], "random_state": seed}
    model = OneStepClassifier(**fixed).fit(X, labels, w)
    F = OneStepFeatures(**fixed).fit(X, labels, w).transform(X)
    penalty = model.logistic_alpha_ / (2 if classes == 2 else 1)
    peer = LogisticRegression(C=1 / penalty, tol=1e-8, max_iter=5000).fit(F, labels, w)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(F), atol=2e-3)
    assert {model.logistic_alpha_ / 2, model.logistic_alpha_ / 4} & set(PENALTIES)  # a row weighs 3 on average


@pytest.mark.parametrize(("rows", "width"), [(60, 100), (200, 20)])
def test_logistic_readout_is_the_same_from_few_and_from_many_rows(rows, width, seed):
    """The slope of the penalised loss vanishes at the solution, primal and dual."""
    rng = draws(seed, 70)
    F, w, labels = rng.standard_normal((rows, width)) + 1, rng.uniform(0.5, 2, rows), rng.integers(3, size=rows)
    shares = np.eye(4)[labels]  # the fourth class has no row
    (c, c0), alpha = fit_logistic(decompose(F, shares[:, :3], w), shares, rng)
    P = softmax(F @ c + c0, axis=1)
    np.testing.assert_array_equal(P[:, 3], 0)
    np.testing.assert_allclose((w @ (P - shares))[:3], 0, atol=2e-3 * w.sum())
    slope = F.T @ (w[:, None] * (P - shares)) + alpha * c
    assert np.abs(slope[:, :3]).max() < 2e-3 * w.sum()


def test_rows_of_no_weight_have_no_say_in_the_penalty_of_the_logistic_readout(seed):
    """Half of the rows, whose labels are turned round."""
    F, w = draws(seed, 71).standard_normal((90, 3)), np.where(np.arange(90) % 2, 1.0, 1e-9)
    labels = F[:, 0] > 0
    both = (np.eye(2)[one.astype(int)] for one in (labels, labels ^ (w < 1)))
    assert len({fit_logistic(decompose(F, shares, w), shares, draws(seed, 72))[1] for shares in both}) == 1


@pytest.mark.parametrize("whiten", [False, True])
def test_float32_is_kept_and_close_to_float64(whiten, seed):
    X, y = friedman(seed, 300)
    double = OneStepRegressor(40, step_size=1, input_scale=1, whiten=whiten, random_state=seed).fit(X, y)
    single = clone(double).fit(X.astype(np.float32), y.astype(np.float32))
    assert single.predict(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.predict(X.astype(np.float32)), double.predict(X), rtol=2e-2, atol=2e-2)
    features = OneStepFeatures(40, step_size=1, whiten=whiten, random_state=seed).fit(X.astype(np.float32), y)
    assert features.transform(X.astype(np.float32)).dtype == np.float32


def test_several_targets_share_the_layer_and_predict_together(seed):
    X, y = friedman(seed, 300)
    Y = np.column_stack([y, -2 * y + 1])
    model = OneStepRegressor(40, random_state=seed).fit(X, Y)
    assert model.predict(X).shape == Y.shape
    np.testing.assert_allclose(model.predict(X)[:, 1], -2 * model.predict(X)[:, 0] + 1, rtol=1e-6)


@pytest.mark.parametrize("classes", [2, 3])
def test_string_labels_and_probabilities(classes, seed):
    """Fitted on 600 rows, judged on 3,000.

    Over 100 seeds, three classes: accuracy 0.790 ± 0.015, loss 0.52 ± 0.04 of that of the shares, confidence minus accuracy
    0.026 ± 0.013 (mean ± standard deviation), two classes better. Each bound is five standard deviations away or more.
    """
    rng = draws(seed, 7)
    X = rng.standard_normal((3600, 5))
    chance = 1 / (1 + np.exp(-8 * X[:, 0] * X[:, 1]))
    code = (rng.random(3600) < chance).astype(int) + (classes == 3) * (X[:, 2] > 1)
    y = np.array(["ant", "bee", "cat"])[code]
    model = OneStepClassifier(128, random_state=seed).fit(X[:600], y[:600])
    P, predicted, truth = model.predict_proba(X[600:]), model.predict(X[600:]), y[600:]
    np.testing.assert_allclose(P.sum(1), 1)
    assert (model.classes_[P.argmax(1)] == predicted).all()
    assert (predicted == truth).mean() > 0.71
    loss = -np.log(P[np.arange(3000), np.searchsorted(model.classes_, truth)]).mean()
    shares = np.array([(y[:600] == label).mean() for label in model.classes_])
    assert loss < 0.8 * -(shares * np.log(shares)).sum()  # better than always saying the shares
    assert abs(P.max(1).mean() - (predicted == truth).mean()) < 0.1  # confidence is near accuracy


def test_pipeline_grid_search_clone_pickle_and_html(seed):
    X, y = friedman(seed, 120)
    pipeline = make_pipeline(StandardScaler(), OneStepRegressor(SMALL, random_state=seed))
    search = GridSearchCV(pipeline, {"onestepregressor__step_size": [0, 1.0]}, cv=2).fit(X, y)
    assert search.best_params_["onestepregressor__step_size"] in (0, 1.0)
    model = clone(search.best_estimator_).fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert len(pickle.dumps(model)) < 100_000  # the layer, not the table
    assert "OneStepRegressor" in model._repr_html_()
    features = make_pipeline(OneStepFeatures(SMALL, random_state=seed), Ridge())
    assert cross_val_score(features, X, y, cv=2).mean() > 0.3


def test_output_can_be_a_data_frame_with_names(seed):
    pandas = pytest.importorskip("pandas")
    X, y = friedman(seed, 60, 5)
    frame = pandas.DataFrame(X, columns=list("abcde"))
    out = OneStepFeatures(3, random_state=seed).set_output(transform="pandas").fit(frame, y).transform(frame)
    assert list(out.columns) == ["onestep0", "onestep1", "onestep2", *"abcde"]
    plain = OneStepFeatures(3, skip=False, random_state=seed).fit(X, y)
    assert list(plain.get_feature_names_out()) == ["onestep0", "onestep1", "onestep2"]


def test_sample_weight_is_routed(seed):
    import sklearn

    X, y = friedman(seed, 90)
    weights = np.arange(90) % 3.0
    with sklearn.config_context(enable_metadata_routing=True):
        model = OneStepRegressor(SMALL, random_state=seed).set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        routed = make_pipeline(scaler, model).fit(X, y, sample_weight=weights)
        plain = make_pipeline(StandardScaler(), clone(model)).fit(X, y)
    direct = clone(model).fit(StandardScaler().fit_transform(X), y, sample_weight=weights)
    Z = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(routed[-1].predict(Z), direct.predict(Z))
    assert not np.allclose(plain[-1].predict(Z), direct.predict(Z))


def test_class_without_weight_is_never_predicted(seed):
    X, y = friedman(seed, 90)
    labels = np.searchsorted(np.quantile(y, [1 / 3, 2 / 3]), y)
    model = OneStepClassifier(SMALL, random_state=seed).fit(X, labels, sample_weight=labels != 1)
    assert list(model.classes_) == [0, 1, 2]
    assert 1 not in model.predict(X)
    assert "nan" not in str(model.explain())


def test_features_that_were_not_fitted_say_so(seed):
    with pytest.raises(NotFittedError):
        OneStepFeatures().transform(friedman(seed, 5)[0])


def test_front_door_has_the_three():
    assert onestride.OneStepRegressor is OneStepRegressor
    assert onestride.OneStepClassifier is OneStepClassifier
    assert onestride.OneStepFeatures is OneStepFeatures


WITHOUT_EXTRAS = """
import pydoc, sys
for name in ("sklearn", "matplotlib", "pandas", "pyarrow", "xarray", "jinja2", "distributed", "starlette", "uvicorn"):
    sys.modules[name] = None  # as if it were not installed
import onestride as one
sentence = "the estimators need scikit-learn: pip install 'onestride[estimator]'"
for name in ("estimator", "OneStepFeatures", "OneStepRegressor", "OneStepClassifier"):
    assert not hasattr(one, name)
    assert name not in dir(one)
    try:
        getattr(one, name)
    except AttributeError as error:
        assert str(error) == sentence
for line in ("from onestride import OneStepRegressor", "from onestride import estimator", "import onestride.estimator"):
    try:
        exec(line)
    except ImportError as error:
        assert str(error) == sentence, error
    else:
        raise AssertionError(line)
from onestride import *
assert Problem is one.Problem
assert "simulate" in pydoc.render_doc("onestride")
"""


def test_package_is_whole_without_scikit_learn_and_the_other_extras():
    result = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_star_import_brings_the_estimators_where_scikit_learn_is():
    names: dict = {}
    exec("from onestride import *", names)
    assert names["OneStepRegressor"] is OneStepRegressor


def test_documentation_prints_what_its_comments_say():
    text = (DOCS / "estimator.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    printed, expected = io.StringIO(), []
    names: dict = {}
    with contextlib.redirect_stdout(printed):
        for block in blocks:
            exec(compile(block, "docs/estimator.md", "exec"), names)
            expected += re.findall(r"^print\(.*\)\s+# (.*)$", block, re.MULTILINE)
    (output,) = re.findall(r"```text\n(.*?)\n```", text, re.DOTALL)
    assert len(expected) == 5
    assert printed.getvalue().splitlines() == [*expected, *output.splitlines()]


def test_the_penalty_of_a_part_of_the_rows_is_its_share_of_the_whole():
    """The loss is a sum over rows: what is fitted to two thirds of them is stationary at two thirds of the penalty."""
    rng = np.random.default_rng(0)
    basis, w = rng.standard_normal((90, 3)), np.ones(90)
    shares = np.eye(2)[(basis[:, 0] + rng.standard_normal(90) > 0).astype(int)]
    alpha, (C, c0) = _chosen_penalty(basis, np.full(3, 90.0), shares, w, np.random.default_rng(1))
    rows = np.random.default_rng(1).permutation(90)
    rest = np.setdiff1d(rows, rows[::3])
    pull = basis[rest].T @ (softmax(basis[rest] @ C + c0, axis=1) - shares[rest])
    np.testing.assert_allclose(pull, -2 / 3 * alpha * C, atol=0.02 * np.abs(alpha * C).max())
