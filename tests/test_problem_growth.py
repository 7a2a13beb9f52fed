"""What Problem grew for the open questions: laws of the inputs, several steps, several directions."""

from __future__ import annotations

import numpy as np
import pytest

import onestride as one
from onestride._backend import stream
from onestride.conventions import convert
from onestride.functions import InputError
from onestride.problem import Problem, Step
from onestride.result import Status
from onestride.simulation.equivalent import measure_distance, measure_limit
from onestride.simulation.learned import measure_learned
from onestride.simulation.network import (
    Network,
    draw_batch,
    draw_directions,
    draw_network,
    draw_teacher,
    gradient,
    labels,
    step_batch,
    step_gradient,
    trained_weights,
    weights_path,
)
from onestride.theory.assumptions import beyond_the_model
from onestride.theory.baselines import baselines
from onestride.theory.giant_step import giant_step

LAWS = ("gaussian", "uniform", "rademacher", "student", "ar1", "power", "elliptic")


def make(**changes) -> Problem:
    base = {"n": 60, "d": 20, "N": 30, "activation": "softplus", "teacher": (0, 1, 0.7), "noise": 0.3}
    return Problem(**(base | {"step": Step(exponent=0.3)} | changes))


# ---------------------------------------------------------------- fields


@pytest.mark.parametrize(
    "changes",
    [{"inputs": law} for law in LAWS] + [{"steps": 4, "batch": "reused", "directions": 3, "mix": "staircase"}],
)
def test_files_give_the_new_fields_back(changes):
    p = make(**changes)
    assert Problem.from_json(p.to_json()) == p
    assert Problem.from_toml(p.to_toml()) == p


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"inputs": "cauchy"}, "inputs must be 'gaussian', .* got 'cauchy'"),
        ({"steps": 0}, "steps must be a whole number, 1 or more, got 0"),
        ({"batch": "old"}, "batch must be 'fresh' or 'reused', got 'old'"),
        ({"directions": 21}, "directions must be at most d = 20, as orthonormal directions are, got 21"),
        ({"mix": "max"}, "mix must be 'sum' or 'staircase', got 'max'"),
    ],
)
def test_mistakes_are_told_in_a_sentence(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        make(**changes)


@pytest.mark.parametrize("method", ["profile", "finite-step", "plateau"])
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"directions": 4}, "at most 3 of them, got directions=4"),
        ({"fresh": False, "inputs": "elliptic"}, "fresh=False"),
    ],
)
def test_every_theory_names_the_failing_assumption(method, changes, sentence):
    p = make(**changes)
    with pytest.raises(one.TheoryError, match=sentence):
        one.predict(p, method=method)
    refused = one.predict(p, method=method, throw=False)
    assert refused.status is Status.ASSUMPTION
    assert np.isnan(refused.test_error)


@pytest.mark.parametrize("method", ["finite-step", "plateau"])
def test_only_the_profile_theory_describes_several_steps(method):
    with pytest.raises(one.TheoryError, match="one gradient step, got steps=2"):
        one.predict(make(steps=2), method=method)


def test_several_steps_on_one_batch_need_rows_of_one_length():
    with pytest.raises(one.TheoryError, match="several steps on one batch needs inputs without random lengths"):
        one.predict(make(steps=2, inputs="elliptic", batch="reused"))


def test_closed_forms_refuse_too():
    with pytest.raises(InputError, match="random lengths"):
        baselines(make(inputs="elliptic"))
    with pytest.raises(InputError, match="one gradient step"):
        giant_step(make(steps=2, readout="constant", gradient="labels"))
    for measure in (measure_distance, measure_limit):
        with pytest.raises(InputError, match="one step and one direction"):
            measure(make(steps=2), 2)
    with pytest.raises(InputError, match="one direction, got directions=2"):
        giant_step(make(directions=2, readout="constant", gradient="labels"))
    with pytest.raises(InputError, match="at most 3 directions, got directions = 4"):
        measure_learned(make(directions=4))
    with pytest.raises(InputError, match="one step and one direction of the teacher, got steps=2, batch='reused'"):
        convert(make(steps=2, batch="reused"), "moniri2024")


def test_steps_without_a_step_are_the_random_features_of_the_theory():
    p = make(n=200, d=100, N=300, step=Step.none())
    assert one.predict(p.replace(steps=5)).test_error == one.predict(p).test_error


def test_several_steps_are_beyond_the_theory_only_when_a_step_is_taken():
    assert beyond_the_model(make(steps=5, step=Step.none())) is None
    assert "steps=5" in (beyond_the_model(make(steps=5, step=Step(exponent=0.3))) or "")
    assert beyond_the_model(make(steps=1, step=Step(exponent=0.3))) is None


# ---------------------------------------------------------------- several steps


def test_one_step_is_what_it_was():
    p, seed = make(), 3
    network = draw_network(p, seed)
    X = stream(seed, "step_inputs").standard_normal((p.n, p.d))
    y = p.target(X @ draw_teacher(p, seed)) + p.noise * stream(seed, "step_noise").standard_normal(p.n)
    np.testing.assert_allclose(step_batch(p, seed).y, y, rtol=1e-13, atol=1e-13)
    G = step_gradient(p, network, seed).G
    np.testing.assert_array_equal(trained_weights(p, network, seed), network.W0 + p.eta * G)
    by_batch = [one.simulate(p.replace(batch=batch), 2).test_error.values for batch in ("fresh", "reused")]
    np.testing.assert_array_equal(*by_batch)


@pytest.mark.parametrize("batch", ["fresh", "reused"])
def test_several_steps_are_steps_one_after_the_other(batch):
    p, seed = make(steps=3, batch=batch), 1
    network = draw_network(p, seed)
    W = network.W0
    for t in range(3):
        data = draw_batch(p, seed, "step_inputs", "step_noise", p.n, t if batch == "fresh" else 0)
        W = W + p.eta * gradient(p, Network(W, network.a), data).G
    np.testing.assert_allclose(trained_weights(p, network, seed), W, rtol=1e-13)
    first = next(iter(weights_path(p, network, seed, p.eta)))
    np.testing.assert_array_equal(first, trained_weights(p.replace(steps=1), network, seed))


@pytest.mark.statistical(rate=2e-6)
def test_fresh_batches_are_independent_and_a_reused_one_is_the_first(seed):
    fresh, reused = make(steps=3), make(steps=3, batch="reused")
    np.testing.assert_array_equal(step_batch(reused, 1000 * seed, 2).X, step_batch(fresh, 1000 * seed, 0).X)
    X = [step_batch(fresh, 1000 * seed, t).X.ravel() for t in range(3)]
    assert np.abs(np.corrcoef(X) - np.eye(3)).max() < 5 / np.sqrt(fresh.n * fresh.d)


def test_several_steps_through_simulate_match_the_definition():
    p, seed = make(steps=2), 4
    network = draw_network(p, seed)
    F = p.sigma(draw_batch(p, seed, "ridge_inputs", None, p.n).X @ trained_weights(p, network, seed).T)
    y = draw_batch(p, seed, "ridge_inputs", "ridge_noise", p.n).y
    a = np.linalg.solve(F.T @ F / p.n + p.ridge * np.eye(p.N), F.T @ y / p.n)
    measured = one.simulate(p, [seed])
    assert measured.train_mse.raw.values[0] == pytest.approx(((y - F @ a) ** 2).mean(), rel=1e-9)
    single = one.simulate(p.replace(steps=1), [seed])
    assert measured.untrained is not None
    assert single.untrained is not None
    before, after = (found.untrained.test_error.raw.values[0] for found in (measured, single))
    assert before == pytest.approx(after, rel=1e-12)
    assert measured.test_error.values[0] != single.test_error.values[0]


def test_the_ridge_regression_may_have_the_samples_of_the_step():
    p, seed = make(fresh=False, N=15), 2
    network, batch = draw_network(p, seed), step_batch(p, seed)
    F = p.sigma(batch.X @ trained_weights(p, network, seed).T)
    a = np.linalg.solve(F.T @ F / p.n + p.ridge * np.eye(p.N), F.T @ batch.y / p.n)
    loss = np.mean((batch.y - F @ a) ** 2) + p.ridge * a @ a
    np.testing.assert_allclose(one.simulate(p, [seed]).train_loss.raw.values, [loss])
    assert one.simulate(p.replace(fresh=True), [seed]).train_loss.values[0] != loss
    assert Problem.from_toml(p.to_toml()) == p


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"n_step": 7}, "fresh=False needs n_step = n"),
        ({"steps": 2}, "fresh=False needs one batch"),
    ],
)
def test_one_batch_for_both_layers_must_be_one(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        make(fresh=False, **changes)
    make(fresh=False, steps=2, batch="reused")


def test_steps_on_a_reused_batch_lower_its_loss():
    p = make(steps=6, batch="reused", step=Step(constant=0.5))
    network, data = draw_network(p, 0), step_batch(p, 0)
    path = [network.W0, *weights_path(p, network, 0, p.eta)]
    losses = [((data.y - p.sigma(data.X @ W.T) @ network.a) ** 2).mean() for W in path]
    assert (np.diff(losses) < 0).all()


# ---------------------------------------------------------------- several directions


def test_directions_are_orthonormal_and_begin_with_the_teacher():
    p = make(directions=3)
    B = draw_directions(p, 5)
    np.testing.assert_allclose(B @ B.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(B[0], draw_teacher(p, 5), rtol=1e-12)
    np.testing.assert_array_equal(draw_directions(make(), 5), draw_teacher(make(), 5)[None])


@pytest.mark.statistical(rate=1e-5)
@pytest.mark.parametrize("mix", ["sum", "staircase"])
def test_labels_of_several_directions_have_the_power_of_one(mix, seed):
    p = make(directions=3, mix=mix, teacher=(0, 1.0))
    X = np.random.default_rng(1000 * seed).standard_normal((200_000, p.d))
    B = draw_directions(p, 1000 * seed)
    y = labels(p, B, X)
    z1, z2, z3 = (X @ B.T).T
    by_hand = z1 + z2 + z3 if mix == "sum" else z1 + z1 * z2 + z1 * z2 * z3
    np.testing.assert_allclose(y, by_hand / np.sqrt(3), atol=1e-12)
    assert y.mean() == pytest.approx(0, abs=0.02)
    assert (y**2).mean() == pytest.approx(1, abs=0.05)
