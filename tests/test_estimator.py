"""The estimators: scikit-learn's own checks, exact identities, honesty of the step, and what a user of tables tries."""

import contextlib
import io
import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import onestride
from onestride import InputError
from onestride.estimator import OneStepClassifier, OneStepFeatures, OneStepRegressor
from onestride.estimator._network import HeldOut, Settings, draw_layer, gradient, stepped
from onestride.estimator._ridge import best_penalty, ridge_path, ridge_solutions

SMALL = 24


@parametrize_with_checks(
    [
        OneStepRegressor(width=SMALL),
        OneStepClassifier(width=SMALL),
        OneStepFeatures(width=SMALL),
        OneStepFeatures(width=SMALL, step_size=0),
        OneStepRegressor(width=SMALL, step_size=1, steps=2, gradient="neurons", whiten=True, skip=False),
    ]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


def friedman(n=400, d=10, noise=1.0, seed=0):
    return make_friedman1(n, d, noise=noise, random_state=seed)


# ---------------------------------------------------------------- ridge


@pytest.mark.parametrize(("n", "p"), [(40, 15), (20, 35)])
def test_left_out_residual_is_that_of_a_fit_without_the_row(n, p):
    rng = np.random.default_rng(0)
    F, Y, w = rng.standard_normal((n, p)) + 1, rng.standard_normal((n, 2)), rng.uniform(0.2, 3, n)
    for alpha, left_out in zip(
        (0.01, 1.0, 30.0), ridge_path(F, Y, w).left_out(np.array([0.01, 1.0, 30.0])), strict=True
    ):
        for i in range(n):
            rest = np.arange(n) != i
            model = Ridge(alpha=alpha).fit(F[rest], Y[rest], w[rest])
            np.testing.assert_allclose(left_out[i], Y[i] - model.predict(F[[i]])[0], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("n", "p"), [(60, 20), (25, 40)])
def test_penalty_and_scores_are_those_of_ridgecv(n, p):
    rng = np.random.default_rng(1)
    F, y, alphas = rng.standard_normal((n, p)), rng.standard_normal(n), np.logspace(-1, 3, 9)
    path = ridge_path(F, y[:, None], np.ones(n))
    peer = RidgeCV(alphas, store_cv_results=True).fit(F, y)
    np.testing.assert_allclose(np.square(path.left_out(alphas))[:, :, 0].T, peer.cv_results_, rtol=1e-8)
    assert best_penalty(path, alphas)[0] == pytest.approx(peer.alpha_)


@pytest.mark.parametrize(("n", "p"), [(40, 15), (20, 35)])
def test_cholesky_and_eigenvectors_give_the_same_ridge(n, p):
    rng = np.random.default_rng(2)
    F, Y, w = rng.standard_normal((n, p)), rng.standard_normal((n, 3)), rng.uniform(0.2, 3, n)
    path = ridge_path(F, Y, w)
    for alpha, (coefficients, intercept) in zip(
        (0.01, 10.0), ridge_solutions(F, Y, w, np.array([0.01, 10.0])), strict=True
    ):
        np.testing.assert_allclose(coefficients, path.coefficients(alpha), atol=1e-10)
        np.testing.assert_allclose(intercept, path.intercept(path.coefficients(alpha)), atol=1e-10)


# ---------------------------------------------------------------- the step


@pytest.mark.parametrize("activation", ["erf", "softplus"])
def test_step_is_the_gradient_of_the_fitted_network(activation):
    """Both kinds against finite differences of ½⟨(y − f)²⟩, along every entry of R (symmetric) or W."""
    rng = np.random.default_rng(3)
    Z, Y, w = rng.standard_normal((30, 4)), rng.standard_normal((30, 2)), rng.uniform(0.5, 2, 30)
    settings = Settings(7, activation, True, "shared", 1, 1.0, 0.0, np.ones(1))
    layer = draw_layer(np.ones(4, bool), settings, rng, Z.dtype)
    c = rng.standard_normal((11, 2))

    def loss(W):
        f = type(layer)(W, layer.b, activation, True).design(Z) @ c
        return 0.5 * float(w @ np.square(Y - f).sum(1))

    residual, h = Y - layer.design(Z) @ c, 1e-6
    G = np.zeros_like(layer.W)
    for index in np.ndindex(G.shape):
        E = np.zeros_like(G)
        E[index] = h
        G[index] = -(loss(layer.W + E) - loss(layer.W - E)) / (2 * h)
    P = np.zeros((4, 4))
    for i, j in np.ndindex(P.shape):
        E = np.zeros((4, 4))
        E[i, j] += h / 2
        E[j, i] += h / 2
        P[i, j] = -(loss(layer.W @ (np.eye(4) + E)) - loss(layer.W @ (np.eye(4) - E))) / (2 * h)
    for kind, expected in (("neurons", G), ("shared", layer.W @ P)):
        change = gradient(layer, Z, residual, c, w, kind)
        assert np.linalg.norm(change) == pytest.approx(np.linalg.norm(layer.W))
        np.testing.assert_allclose(change, expected * np.linalg.norm(layer.W) / np.linalg.norm(expected), atol=1e-6)
        assert np.linalg.norm(stepped(layer, change, 2.0).W) == pytest.approx(np.linalg.norm(layer.W))


def test_zero_step_is_random_features():
    X, y = friedman()
    zero = OneStepFeatures(SMALL, step_size=0, random_state=0)
    Z = StandardScaler().fit_transform(X)
    fitted = zero.fit(X, y)
    np.testing.assert_allclose(fitted.transform(X)[:, SMALL:], Z, atol=1e-12)
    lengths = np.linalg.norm(fitted._network.layer.W, axis=1)
    np.testing.assert_allclose(lengths, fitted.input_scale_)
    unsupervised = clone(zero).set_params(input_scale=fitted.input_scale_).fit(X)  # no target needed
    np.testing.assert_array_equal(unsupervised.transform(X), fitted.transform(X))


def test_no_step_is_taken_unless_it_gains_more_than_one_standard_error():
    held_out = HeldOut((0.0, 1.0, 3.0), (1.0, 0.95, 0.9), (0.0, 0.05, 0.1), (0.0, 0.06, 0.2))
    assert held_out.choice() == 0
    assert HeldOut(held_out.steps, held_out.errors, held_out.gain, (0.0, 0.04, 0.2)).choice() == 1
    assert HeldOut().choice() == 0


@pytest.mark.parametrize("gradient", ["shared", "neurons"])
def test_leave_one_out_flatters_a_step_on_noise_and_held_out_rows_do_not(gradient):
    """The left-out row has shaped the features; only rows that built nothing tell what fresh rows will say.

    Mean over six seeds; of twelve, leave-one-out over fresh error was 0.45 to 0.99 (shared), 0.32 to 0.61 (neurons).
    """
    ratios, honest = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((200, 60)), rng.standard_normal(200)
        fresh, z = rng.standard_normal((2000, 60)), rng.standard_normal(2000)
        model = OneStepRegressor(64, step_size=3, gradient=gradient, input_scale=1, alphas=[0.1], random_state=0)
        model.fit(X, y)
        ratios.append(model.loo_error_ / np.mean((model.predict(fresh) - z) ** 2))
        judged = clone(model).set_params(step_size="auto", alphas=None).fit(X, y)
        assert judged.held_out_.steps == (0, 1, 3)
        honest.append(min(judged.held_out_.errors))
    assert np.mean(ratios) < 0.8
    assert np.mean(honest) > 0.95  # of the target's variance: nothing to learn, and it shows


def test_a_step_gains_on_fresh_rows_where_inputs_are_irrelevant():
    X, y = friedman(3000, 20)
    plain = OneStepRegressor(256, step_size=0, random_state=0).fit(X[:1500], y[:1500])
    model = OneStepRegressor(256, random_state=0).fit(X[:1500], y[:1500])
    errors = [np.mean((m.predict(X[1500:]) - y[1500:]) ** 2) for m in (plain, model)]
    assert model.step_size_ > 0
    assert errors[1] < 0.8 * errors[0]
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert model.feature_importances_[:5].sum() > 0.97  # the other fifteen inputs are noise
    assert np.linalg.norm(model.direction_) == pytest.approx(1)
    assert np.square(model.direction_[:5]).sum() > 0.9


def test_too_few_rows_mean_no_step():
    X, y = friedman(9)
    model = OneStepRegressor(SMALL, random_state=0).fit(X, y)
    assert model.step_size_ == 0
    assert model.held_out_ == HeldOut()


# ---------------------------------------------------------------- tables


@pytest.mark.parametrize("gradient", ["shared", "neurons"])
def test_weight_equals_repetition_and_zero_weight_removal(gradient):
    X, y = friedman(120)
    rng = np.random.default_rng(5)
    weights = rng.integers(0, 4, len(y))
    rows = rng.permutation(np.repeat(np.arange(len(y)), weights))
    model = OneStepRegressor(40, gradient=gradient, random_state=0)
    weighted, repeated = clone(model).fit(X, y, sample_weight=weights), clone(model).fit(X[rows], y[rows])
    assert weighted.step_size_ == repeated.step_size_
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6)
    assert weighted.held_out_.errors == pytest.approx(repeated.held_out_.errors)


def test_order_of_rows_does_not_matter():
    X, y = friedman(150)
    order = np.random.default_rng(6).permutation(150)
    one, two = (OneStepRegressor(40, random_state=0).fit(X[k], y[k]) for k in (np.arange(150), order))
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-7)


def test_units_of_inputs_and_target_do_not_matter():
    X, y = friedman(200)
    one = OneStepRegressor(40, random_state=0).fit(X, y)
    two = OneStepRegressor(40, random_state=0).fit(X * 1000 - 7, 5 * y + 3)
    np.testing.assert_allclose(5 * one.predict(X) + 3, two.predict(X * 1000 - 7), rtol=1e-5)
    assert two.loo_error_ == pytest.approx(25 * one.loo_error_, rel=1e-5)


@pytest.mark.parametrize("whiten", [False, True])
def test_float32_is_kept_and_close_to_float64(whiten):
    X, y = friedman(300)
    double = OneStepRegressor(40, step_size=1, input_scale=1, whiten=whiten, random_state=0).fit(X, y)
    single = clone(double).fit(X.astype(np.float32), y.astype(np.float32))
    assert single.predict(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.predict(X.astype(np.float32)), double.predict(X), rtol=2e-2, atol=2e-2)
    features = OneStepFeatures(40, step_size=1, whiten=whiten, random_state=0).fit(X.astype(np.float32), y)
    assert features.transform(X.astype(np.float32)).dtype == np.float32


def test_several_targets_share_the_layer_and_predict_together():
    X, y = friedman(300)
    Y = np.column_stack([y, -2 * y + 1])
    model = OneStepRegressor(40, random_state=0).fit(X, Y)
    assert model.predict(X).shape == Y.shape
    np.testing.assert_allclose(model.predict(X)[:, 1], -2 * model.predict(X)[:, 0] + 1, rtol=1e-6)


def test_constant_columns_and_constant_target_are_harmless():
    X, y = friedman(60)
    X = np.hstack([X, np.full((60, 2), 3.7)])
    assert np.isfinite(OneStepRegressor(SMALL, random_state=0).fit(X, y).predict(X + 1)).all()
    np.testing.assert_allclose(OneStepRegressor(SMALL, random_state=0).fit(X, np.full(60, 2.5)).predict(X), 2.5)


@pytest.mark.parametrize("classes", [2, 3])
def test_string_labels_and_probabilities(classes):
    rng = np.random.default_rng(7)
    X = rng.standard_normal((900, 5))
    chance = 1 / (1 + np.exp(-8 * X[:, 0] * X[:, 1]))
    code = (rng.random(900) < chance).astype(int) + (classes == 3) * (X[:, 2] > 1)
    y = np.array(["ant", "bee", "cat"])[code]
    model = OneStepClassifier(128, random_state=0).fit(X[:600], y[:600])
    P, predicted = model.predict_proba(X[600:]), model.predict(X[600:])
    np.testing.assert_allclose(P.sum(1), 1)
    assert (model.classes_[P.argmax(1)] == predicted).all()
    assert (predicted == y[600:]).mean() > 0.7
    loss = -np.log(P[np.arange(300), np.searchsorted(model.classes_, y[600:])]).mean()
    shares = np.array([(y[:600] == label).mean() for label in model.classes_])
    assert loss < 0.9 * -(shares * np.log(shares)).sum()  # better than always saying the shares
    gap = P.max(1).mean() - (predicted == y[600:]).mean()
    assert abs(gap) < 0.07  # confidence is near accuracy: standard error 0.025


# ---------------------------------------------------------------- scikit-learn's world


def test_pipeline_grid_search_clone_pickle_and_html():
    X, y = friedman(120)
    pipeline = make_pipeline(StandardScaler(), OneStepRegressor(SMALL, random_state=0))
    search = GridSearchCV(pipeline, {"onestepregressor__step_size": [0, 1.0]}, cv=2).fit(X, y)
    assert search.best_params_["onestepregressor__step_size"] in (0, 1.0)
    model = clone(search.best_estimator_).fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert len(pickle.dumps(model)) < 100_000  # the layer, not the table
    assert "OneStepRegressor" in model._repr_html_()
    features = make_pipeline(OneStepFeatures(SMALL, random_state=0), Ridge())
    assert cross_val_score(features, X, y, cv=2).mean() > 0.3


def test_output_can_be_a_data_frame_with_names():
    pandas = pytest.importorskip("pandas")
    X, y = friedman(60, 5)
    frame = pandas.DataFrame(X, columns=list("abcde"))
    out = OneStepFeatures(3, random_state=0).set_output(transform="pandas").fit(frame, y).transform(frame)
    assert list(out.columns) == ["onestep0", "onestep1", "onestep2", *"abcde"]
    plain = OneStepFeatures(3, skip=False, random_state=0).fit(X, y)
    assert list(plain.get_feature_names_out()) == ["onestep0", "onestep1", "onestep2"]


def test_sample_weight_is_routed():
    import sklearn

    X, y = friedman(90)
    weights = np.arange(90) % 3.0
    with sklearn.config_context(enable_metadata_routing=True):
        model = OneStepRegressor(SMALL, random_state=0).set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        routed = make_pipeline(scaler, model).fit(X, y, sample_weight=weights)
        plain = make_pipeline(StandardScaler(), clone(model)).fit(X, y)
    direct = clone(model).fit(StandardScaler().fit_transform(X), y, sample_weight=weights)
    Z = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(routed[-1].predict(Z), direct.predict(Z))
    assert not np.allclose(plain[-1].predict(Z), direct.predict(Z))


def test_arrays_of_other_libraries_are_accepted():
    strict = pytest.importorskip("array_api_strict")
    X, y = friedman(60)
    model = OneStepRegressor(SMALL, random_state=0).fit(X, y)
    other = clone(model).fit(strict.asarray(X), strict.asarray(y))
    np.testing.assert_array_equal(other.predict(strict.asarray(X)), model.predict(X))


def test_torch_tensors_are_accepted():
    torch = pytest.importorskip("torch")
    X, y = friedman(60)
    model = OneStepRegressor(SMALL, random_state=0).fit(X, y)
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
        ({"gradient": "adam"}, "gradient must be 'shared' or 'neurons', got 'adam'"),
        ({"alphas": [1, -1]}, r"alphas must be a list of numbers above 0, up to 1e\+100, got \[1, -1\]"),
        ({"skip": "yes"}, "skip must be True or False, got 'yes'"),
        ({"activation": "reul"}, "no function is called 'reul'; did you mean 'relu'?"),
    ],
)
def test_wrong_parameter_is_told_in_a_sentence(parameters, sentence):
    X, y = friedman(30)
    with pytest.raises(InputError, match=sentence):
        OneStepRegressor(**parameters).fit(X, y)


def test_only_zero_weights_and_a_single_class_are_refused():
    X, y = friedman(30)
    with pytest.raises(InputError, match="sample_weight must have an entry above 0"):
        OneStepRegressor(SMALL).fit(X, y, sample_weight=np.zeros(30))
    with pytest.raises(InputError, match="y must have 2 classes or more"):
        OneStepClassifier(SMALL).fit(X, np.ones(30, int))
    with pytest.raises(InputError, match="a step needs a target"):
        OneStepFeatures(SMALL).fit(X)


# ---------------------------------------------------------------- explain


def test_explanation_of_a_step_that_helps_names_what_was_measured():
    X, y = friedman(1500, 12)
    model = OneStepRegressor(256, random_state=0).fit(X, y)
    e = model.explain()
    assert e.helps
    assert "One step helps" in e.verdict
    assert e.facts.spikes >= 1
    assert e.facts.effective_dimension == pytest.approx(12, rel=0.05)
    assert e.facts.held_out.errors[-1] < e.facts.held_out.errors[0]
    assert e.problem is not None
    assert 0 < e.predicted < 1.05
    assert "held-out error" in str(e)
    assert json.loads(json.dumps(e.to_dict()))["helps"] is True


def test_explanation_finds_the_hermite_profile_of_a_single_index_table():
    """y = (H₁ + H₂/2 + noise/2)/√1.75 along one direction: what the twin assumes holds, so its error is the measured one."""
    rng = np.random.default_rng(11)
    X = rng.standard_normal((1000, 20))
    z = X[:, 0]
    e = (
        OneStepRegressor(128, step_size=0, random_state=0)
        .fit(X, z + 0.5 * (z * z - 1) + 0.5 * rng.standard_normal(1000))
        .explain()
    )
    np.testing.assert_allclose(e.facts.hermite[:2], np.array([1, 0.5]) / np.sqrt(1.75), atol=0.08)
    np.testing.assert_allclose(e.facts.hermite[2:], 0, atol=0.05)
    assert e.problem.d == 20


def test_explanation_says_that_there_is_no_linear_signal():
    """x₁x₂: information exponent two, the literal first step has nothing to follow."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((800, 12))
    e = OneStepRegressor(128, random_state=0).fit(X, X[:, 0] * X[:, 1]).explain()
    assert any("No linear signal" in reason for reason in e.reasons)
    assert e.facts.linear_share < 0.02
    assert (
        e.predicted is None or abs(e.predicted - e.predicted_untrained) < 0.01
    )  # theory: the twin's step gains nothing


def test_explanation_of_a_linear_target_says_that_the_skip_connection_has_it():
    """A useless step passes one standard error now and then, at no cost; of twenty tables two took it."""
    explanations = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((400, 12))
        y = X @ rng.standard_normal(12) + 2 * rng.standard_normal(400)
        explanations.append(OneStepRegressor(128, random_state=0).fit(X, y).explain())
    declined = [e for e in explanations if e.helps is False]
    assert len(declined) >= 2
    for e in declined:
        assert "does not help" in e.verdict
        assert any("target is linear" in reason for reason in e.reasons)


def test_explanation_of_noise_and_of_a_step_that_was_asked_for():
    rng = np.random.default_rng(10)
    X, y = rng.standard_normal((300, 10)), rng.standard_normal(300)
    e = OneStepRegressor(64, random_state=0).fit(X, y).explain()
    assert not e.helps
    assert any("Little to learn" in reason for reason in e.reasons)
    asked = OneStepRegressor(64, step_size=1, random_state=0).fit(X, y).explain()
    assert asked.helps is None
    assert "not judged" in asked.verdict
    assert "No step was taken" in OneStepRegressor(64, step_size=0, random_state=0).fit(X, y).explain().verdict


def test_front_door_has_the_three():
    assert onestride.OneStepRegressor is OneStepRegressor
    assert onestride.OneStepClassifier is OneStepClassifier
    assert onestride.OneStepFeatures is OneStepFeatures


def test_documentation_prints_what_its_comments_say():
    text = (Path(__file__).parents[1] / "docs" / "estimator.md").read_text(encoding="utf-8")
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
