"""`explain()`: facts computed once more, reasons that follow from them, and predictions beside what was measured."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm, rankdata
from sklearn.preprocessing import StandardScaler

import onestride
from onestride.estimator import OneStepClassifier, OneStepFeatures, OneStepRegressor, _explain
from onestride.estimator._network import HeldOut
from onestride.estimator._ridge import best_penalty, decompose
from tables import SMALL, draws, friedman, single_index, weighted_table


def test_facts_of_an_explanation_are_those_of_the_table_by_weight(seed):
    """Each number once more from features, inputs and target, with NumPy alone."""
    X, y, w = weighted_table(seed, 19)
    options = {"width": SMALL, "input_scale": 1, "alphas": np.logspace(-3, 3, 7), "robust": False, "random_state": seed}
    model = OneStepRegressor(step_size=1, **options).fit(X, y, sample_weight=w)
    facts, share = model.explain().facts, w / w.sum()
    Y = y - share @ y

    def spectrum(step_size):
        F = OneStepFeatures(step_size=step_size, **options).fit(X, y, sample_weight=w).transform(X)
        left, values, _ = np.linalg.svd((F - share @ F) * np.sqrt(share)[:, None], full_matrices=False)
        aligned = np.square(left[:, :5].T @ (np.sqrt(share) * Y)).sum() / (share @ np.square(Y))
        return np.square(values), aligned

    (after, aligned), (before, aligned_before) = spectrum(1), spectrum(0)
    np.testing.assert_allclose(facts.eigenvalues, after[:5], rtol=1e-6)
    np.testing.assert_allclose(facts.untrained_eigenvalues, before[:5], rtol=1e-6)
    assert facts.spikes == (after > before[0]).sum()
    assert (facts.aligned, facts.untrained_aligned) == pytest.approx((aligned, aligned_before))

    Z = StandardScaler().fit(X, sample_weight=w).transform(X)
    covariance = np.cov(Z.T, aweights=w, ddof=0)
    assert facts.effective_dimension == pytest.approx(np.trace(covariance) ** 2 / np.square(covariance).sum())
    assert facts.kurtosis == pytest.approx((share @ Z**4 / (share @ Z**2) ** 2).max())
    left_out = best_penalty(decompose(Z, Y[:, None], w), options["alphas"])[1]
    assert facts.linear_share == pytest.approx(1 - left_out / (share @ np.square(Y)))
    z = norm.ppf((rankdata(Z @ model.direction_) - 0.5) / len(y))
    hermite = np.array([z, z**2 - 1, z**3 - 3 * z, z**4 - 6 * z**2 + 3])
    factorials = np.array([1, 2, 6, 24])
    expected = hermite @ (share * Y) / factorials / np.sqrt(share @ np.square(Y))
    np.testing.assert_allclose(facts.hermite, expected, atol=1e-8)
    np.testing.assert_allclose(facts.hermite_null, np.sqrt(6 / 150 / factorials))


def test_spikes_are_eigenvalues_above_all_of_those_without_a_step(seed):
    """A gentle step in features without skip connection, where eigenvalues may stay close below the edge."""
    X, y = friedman(seed, 200)
    options = {"width": SMALL, "input_scale": 1, "alphas": [1.0], "skip": False, "random_state": seed}
    after, before = (
        np.linalg.eigvalsh(np.cov(OneStepFeatures(step_size=rho, **options).fit(X, y).transform(X).T))
        for rho in (0.5, 0)
    )
    assert OneStepRegressor(step_size=0.5, **options).fit(X, y).explain().facts.spikes == (after > before[-1]).sum()


def test_constant_target_and_target_left_constant_by_weights_are_explained(seed):
    """Of any value: 0.1 averages to itself, though its sums round. Two classes, one of weight zero: the other is certain."""
    X, _ = friedman(seed, 60)
    X = np.vstack([X, X[:40], X[:20]])
    model = OneStepRegressor(SMALL, random_state=seed).fit(X, np.full(120, 0.1))
    np.testing.assert_array_equal(model.predict(X), 0.1)
    assert model.loo_error_ == 0
    labels = np.arange(120) % 2
    classifier = OneStepClassifier(SMALL, random_state=seed).fit(X, labels, sample_weight=1.0 - labels)
    assert (classifier.predict(X) == 0).all()
    assert classifier.predict_proba(X)[:, 0].min() > 0.999
    single = OneStepRegressor(SMALL, random_state=seed).fit(X, np.arange(120.0), sample_weight=np.arange(120) == 50)
    for fitted in (model, classifier, single, OneStepFeatures(SMALL, step_size=0).fit(X)):
        e = fitted.explain()
        assert "nothing to learn" in str(e)
        assert e.helps is None
        assert e.reasons == ()
        assert json.loads(json.dumps(e.to_dict(), allow_nan=False))["constant"] is True


def test_explanation_of_any_activation_and_of_few_rows(seed):
    """A function without a name has no problem of its own, but a prediction; with few rows there is none."""
    X, y = single_index(seed, 24)
    for spec in ([0, 0, 1], onestride.activation("relu")):
        e = OneStepRegressor(SMALL, activation=spec, random_state=seed).fit(X, y).explain()
        assert e.predicted_untrained > 0
    assert e.problem is None
    few = OneStepRegressor(SMALL, random_state=seed).fit(X[:60], y[:60]).explain()
    assert few.predicted is None
    assert "too few" in few.theory_message


def test_explanation_of_a_step_that_helps_names_what_was_measured(seed):
    X, y = friedman(seed, 1500, 12)
    model = OneStepRegressor(256, gradient="shared", random_state=seed).fit(X, y)
    e = model.explain()
    assert e.helps
    assert "One step helps" in e.verdict
    assert e.facts.spikes >= 1
    assert e.facts.effective_dimension == pytest.approx(12, rel=0.05)
    assert e.facts.held_out.errors[-1] < e.facts.held_out.errors[0]
    assert e.problem is not None
    assert 0 < e.predicted < e.predicted_untrained < 1
    assert e.theory_message.count("within two standard errors") == 2  # or not within them
    assert list(e.with_more_rows) == [3000, 15000]
    assert e.with_more_rows[15000] < e.with_more_rows[3000] < e.predicted
    assert "held-out error" in str(e)
    told = json.loads(json.dumps(e.to_dict(), allow_nan=False))
    assert told["helps"] is True
    assert told["held_out"]["errors"] == list(e.facts.held_out.errors)
    assert told["problem"] == e.problem.to_dict()


def test_explanation_finds_the_hermite_profile_of_a_single_index_table(seed):
    """y = (H₁ + H₂/2 + noise/2)/√1.75 along one direction.

    The direction is learned, not given, which shrinks c₁ and c₂ a little. Over 100 seeds the four deviate by −0.026 ± 0.018,
    −0.028 ± 0.019, −0.005 ± 0.015, −0.008 ± 0.005 (mean ± standard deviation); tolerances: the mean and five of these.
    """
    X, y = single_index(seed, 11)
    e = OneStepRegressor(128, step_size=0, random_state=seed).fit(X, y).explain()
    deviation = np.array(e.facts.hermite) - np.array([1, 0.5, 0, 0]) / np.sqrt(1.75)
    assert (np.abs(deviation) < [0.12, 0.125, 0.08, 0.035]).all()
    assert e.problem.d == 20


def test_explanation_says_that_there_is_no_linear_signal(seed):
    """x₁x₂: information exponent two, the literal first step has nothing to follow.

    The linear share passes 0.02 by luck in fewer than one of 1,000 tables of this size: of 1,500 the largest was 0.015.
    """
    rng = draws(seed, 8)
    X = rng.standard_normal((1600, 12))
    e = OneStepRegressor(128, random_state=seed).fit(X, X[:, 0] * X[:, 1]).explain()
    assert any("No linear signal" in reason for reason in e.reasons)
    assert e.facts.linear_share < 0.02


@pytest.mark.long
def test_explanation_of_a_linear_target_says_that_the_skip_connection_has_it(seed):
    """A useless step passes one standard error now and then, at no cost: 34 of 360 tables took it.

    Fewer than two of six declined: probability 5e-5.
    """
    declined = []
    for table in range(6):
        rng = draws(seed, table)
        X = rng.standard_normal((400, 12))
        y = X @ rng.standard_normal(12) + 2 * rng.standard_normal(400)
        told = OneStepRegressor(128, random_state=seed).fit(X, y).explain()
        declined += [told] * (told.helps is False)
        if len(declined) == 2:
            break
    assert len(declined) == 2
    for e in declined:
        assert "does not help" in e.verdict
        assert any("target is linear" in reason for reason in e.reasons)


def test_the_problem_of_an_explanation_is_the_table(seed):
    X, y = single_index(seed, 22)
    e = OneStepRegressor(64, step_size=2, random_state=seed).fit(X, y).explain()
    assert (e.problem.n, e.problem.d, e.problem.N) == (1000, 20, 64)
    np.testing.assert_allclose(np.sort(e.problem.inputs.y), np.sort((y - y.mean()) / y.std()), atol=1e-9)
    assert "leave-one-out" not in e.theory_message
    assert f"{e.predicted_untrained:.4g}" in str(e)


@pytest.mark.long
def test_predictions_from_half_of_the_rows_are_what_is_measured_on_others(seed):
    """Predicted over measured on 4,000 fresh rows, without and with a step, which half of the rows learn less well.

    Over 40 seeds 1 ± 7 % and 11 ± 8 % (mean ± standard deviation); limits are five of these from the mean.
    """
    X, y = friedman(seed, 5000)
    test = X[1000:], y[1000:]
    for step, part, limit in ((0, "predicted_untrained", 0.36), (1, "predicted", 0.51)):
        model = OneStepRegressor(128, step_size=step, random_state=seed).fit(X[:1000], y[:1000])
        error = np.mean(np.square(model.predict(test[0]) - test[1])) / np.var(y[:1000])
        assert abs(getattr(model.explain(), part) / error - 1) < limit


@pytest.mark.parametrize(
    ("changes", "measured", "told"),
    [
        ({}, 0.5, "measured 0.5: within"),
        ({}, 0.9, "not within two standard errors, the rows differ"),
        ({"kurtosis": 600.0}, 0.9, "heavy tails (kurtosis 600)"),
        ({"rows": 150}, 0.9, "150 rows are few"),
    ],
)
def test_a_prediction_outside_the_error_bar_says_why(changes, measured, told, seed):
    X, y = friedman(seed, 100)
    facts = OneStepRegressor(SMALL, step_size=0, random_state=seed).fit(X, y).explain().facts
    facts = replace(facts, **{"rows": 1000, "kurtosis": 3.0} | changes)
    assert told in _explain._beside(facts, "without a step", 0.51, 0.05, measured, False)
    assert "falls so fast" in _explain._beside(replace(facts, kurtosis=3.0), "without a step", 0.5, 0.05, 0.9, True)


def test_verdict_says_which_way_the_best_step_went(seed):
    X, y = friedman(seed, 100)
    facts = OneStepRegressor(SMALL, step_size=0, random_state=seed).fit(X, y).explain().facts
    for gain, word in ((0.01, "lowers"), (-0.01, "raises")):
        held_out = HeldOut((0.0, 1.0, 3.0), (0.5, 0.5 - gain, 0.6), (0.0, gain, -0.1), (0.0, 0.02, 0.02))
        e = _explain.explain_fit(replace(facts, held_out=held_out))
        assert f"the best one {word} the held-out error by 2.0% (± 4.0%), so none was taken" in e.verdict
        assert e.facts.error == 0.5
        assert e.facts.signal_to_noise == 1
    perfect = HeldOut((0.0, 1.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0))
    told = _explain.explain_fit(replace(facts, held_out=perfect)).verdict
    assert "the best one changes the held-out error by less than 0.1% (± less than 0.1%), so none was taken" in told


@pytest.mark.parametrize("rows", [2, 3, 300])
def test_linear_regression_that_explains_nothing_is_told_alike_in_words_and_table(rows):
    rng = draws(0, 11)
    X, y = rng.standard_normal((rows, 5)), rng.standard_normal(rows)
    e = OneStepRegressor(SMALL, step_size=0, random_state=0).fit(X, y).explain()
    assert e.facts.linear_share < -0.005
    words = f"explains nothing (its leave-one-out R² is {e.facts.linear_share:.1%})"
    assert f"No linear signal: linear regression {words}. The" in str(e)
    assert f"  linear regression    {words};" in str(e)
    nearly = str(_explain.explain_fit(replace(e.facts, linear_share=-1e-4)))
    assert nearly.count("explains 0.0%") == 2


def test_explanation_of_noise_and_of_a_step_that_was_asked_for(seed):
    rng = draws(seed, 10)
    X, y = rng.standard_normal((300, 10)), rng.standard_normal(300)
    e = OneStepRegressor(64, random_state=seed).fit(X, y).explain()
    assert not e.helps
    assert any("Little to learn" in reason for reason in e.reasons)
    asked = OneStepRegressor(64, step_size=1, random_state=seed).fit(X, y).explain()
    assert asked.helps is None
    assert "not judged" in asked.verdict
    assert "No step was taken" in OneStepRegressor(64, step_size=0, random_state=seed).fit(X, y).explain().verdict


def test_an_explanation_in_a_notebook_has_what_was_judged():
    X, y = single_index(0, 20)
    e = OneStepRegressor(64, random_state=0).fit(X, y).explain()
    assert len(e.facts.held_out.steps) > 1
    assert "steps [0, " in e._repr_html_()
    assert "ones; a linear function" in repr(e)  # the lines of a table's problem, one after the other
