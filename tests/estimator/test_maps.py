"""Maps of the inputs: where a target varies without linear and quadratic part, refined by the network itself."""

import numpy as np
import pytest
from sklearn.base import clone

from onestride.estimator import OneStepRegressor
from onestride.estimator._judge import EFFORTS, Move, best_move, judge_moves, moves
from onestride.estimator._layer import Recipe, draw_layer
from onestride.estimator._maps import LearnedMap, learn_maps, outer_map, quadratic_map, start_maps
from onestride.estimator._network import HeldOut
from onestride.estimator._ridge import ridge_solutions
from tables import SMALL, draws, friedman


def without_low_degrees(seed, n, d=12):
    """z₁(z₂² − 1): no linear part, no quadratic part; its square has one."""
    X = draws(seed, 60).standard_normal((n, d))
    return X, X[:, 0] * (X[:, 1] ** 2 - 1)


def small_layer(seed, d=4, width=9):
    recipe = Recipe(width, "erf", True, "auto", 1, 1.0, None, np.ones(1))
    return draw_layer(np.ones(d, bool), recipe, draws(seed, 61), np.dtype(float))


def test_quadratic_map_counts_rows_by_weight(seed):
    X, y = without_low_degrees(seed, 60, 4)
    w = np.arange(60) % 3 + 1.0
    again = quadratic_map(np.repeat(X, w.astype(int), 0), np.repeat(y, w.astype(int))[:, None], np.ones(int(w.sum())))
    np.testing.assert_allclose(quadratic_map(X, y[:, None], w), again, atol=1e-12)


def test_quadratic_map_sees_a_target_whose_own_second_coefficients_vanish(seed):
    """The two inputs hold most of it: their share over 100 seeds 0.86 ± 0.03; the residual alone has 0.2."""
    X, y = without_low_degrees(seed, 4000)
    M = quadratic_map(X, y[:, None], np.ones(len(y)))
    assert np.trace(M[:2, :2]) > 0.6 * np.trace(M)
    part = X.T @ (y[:, None] * X) / len(y) / y.std()
    square = (y**2 - np.mean(y**2)) / np.std(y**2)
    other = X.T @ (square[:, None] * X) / len(y)
    mean = X.T @ X / len(y)
    np.testing.assert_allclose(
        M, (part - mean * y.mean() / y.std()) @ (part - mean * y.mean() / y.std()) + other @ other, atol=1e-9
    )


def test_outer_map_is_the_mean_of_gradients_by_finite_differences(seed):
    rng = draws(seed, 62)
    layer, Z, w = small_layer(seed), rng.standard_normal((30, 4)), rng.uniform(0.5, 2, 30)
    c, h = rng.standard_normal((13, 2)), 1e-6
    slopes = np.stack(
        [(layer.design(Z + h * e) @ c - layer.design(Z - h * e) @ c) / (2 * h) for e in np.eye(4)], axis=2
    )
    expected = np.einsum("n,noi,noj->ij", w / w.sum(), slopes, slopes)
    np.testing.assert_allclose(outer_map(layer, c, Z, w), expected, rtol=1e-6, atol=1e-8)


def test_a_map_keeps_the_length_of_the_layer_and_the_identity_changes_nothing(seed):
    layer = small_layer(seed)
    np.testing.assert_allclose(LearnedMap(np.eye(4), 1.0, 1.0).applied(layer, 10.0).W, layer.W)
    root = np.diag([1.0, 0.5, 0.0, 0.0])
    moved = LearnedMap(root, 2.0, 1.0).applied(layer, 10.0)
    assert np.linalg.norm(moved.W) == pytest.approx(2 * np.linalg.norm(layer.W))
    direction = layer.W + 10 * layer.W @ root * np.linalg.norm(layer.W) / np.linalg.norm(layer.W @ root)
    assert np.sum(moved.W * direction) == pytest.approx(np.linalg.norm(moved.W) * np.linalg.norm(direction))
    assert LearnedMap(np.zeros((4, 4)), 1.0, 1.0).applied(layer, 10.0) is layer


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_maps_turn_to_the_inputs_that_matter_and_diagonal_ones_are_diagonal(kind, seed):
    X, y = without_low_degrees(seed, 1500, 8)
    layer, w = small_layer(seed, 8, 64), np.ones(1500)
    learned = list(learn_maps(start_maps(layer, X, y[:, None], w, 10.0, 64), X, y[:, None], w, 10.0, kind, 3))
    assert len(learned) == 3
    M = learned[-1].root @ learned[-1].root
    assert np.trace(M[:2, :2]) > 0.9 * np.trace(M)
    if kind == "diagonal":
        np.testing.assert_allclose(M, np.diag(np.diag(M)), atol=1e-12)


def test_default_learns_a_target_without_linear_and_quadratic_part(seed):
    """Random features leave all of it, and so does a gradient step; four maps leave 0.03 ± 0.02 over 20 seeds."""
    X, y = without_low_degrees(seed, 3000)
    model = OneStepRegressor(100, random_state=seed).fit(X[:1500], y[:1500])
    assert model.gradient_ in ("full", "diagonal")
    assert model.steps_ in EFFORTS["default"].maps
    errors = [
        np.mean((m.predict(X[1500:]) - y[1500:]) ** 2) / y.var()
        for m in (model, clone(model).set_params(step_size=0).fit(X[:1500], y[:1500]))
    ]
    assert errors[0] < 0.3
    assert errors[1] > 0.5
    assert model.feature_importances_[:2].sum() > 0.9
    assert np.square(model.direction_[:2]).sum() > 0.9


def test_moves_are_judged_on_rows_that_built_none_of_them(seed):
    """On pure noise no move gains; the errors of all of them are near 1 or above."""
    rng = draws(seed, 63)
    Z, Y, w = rng.standard_normal((300, 6)), rng.standard_normal((300, 1)), np.ones(300)
    tried = moves(Recipe(40, "erf", True, "auto", 1, None, None, np.ones(1)), 6, EFFORTS["default"])
    assert tried == [Move("shared", 1), Move("full", 4), Move("diagonal", 4)]
    judged = judge_moves(small_layer(seed, 6, 40), Z, Y, w, 30.0, tried, EFFORTS["default"], rng)
    assert list(judged) == tried
    assert min(min(h.errors) for h in judged.values()) > 0.85


def test_maps_of_a_fold_are_learned_without_its_rows(seed, monkeypatch):
    from onestride.estimator import _judge

    rng = draws(seed, 64)
    Z, Y, w = rng.standard_normal((90, 4)), rng.standard_normal((90, 1)), np.ones(90)
    layer, move, seen = small_layer(seed), Move("full", 1), []
    true = _judge.start_maps
    monkeypatch.setattr(
        _judge, "start_maps", lambda layer, Zk, *rest: (seen.append(len(Zk)), true(layer, Zk, *rest))[1]
    )
    held = judge_moves(layer, Z, Y, w, 1.0, [move], EFFORTS["default"], draws(seed, 65))[move]
    assert seen == [60, 60, 60]
    fold, losses = draws(seed, 65).permutation(90) % 3, np.empty((5, 90))
    for k in range(3):
        rest, out = fold != k, fold == k
        start = true(layer, Z[rest], Y[rest], w[rest], 10.0, 128)
        (learned,) = learn_maps(start, Z[rest], Y[rest], w[rest], 10.0, "full", 1)
        moved = learned.applied(layer, 10.0)
        penalties = learned.alpha * np.array([0.01, 0.1, 1, 10, 100])
        for j, (c, c0) in enumerate(ridge_solutions(moved.design(Z[rest]), Y[rest], w[rest], penalties)):
            losses[j, out] = np.square(Y[out] - c0 - moved.design(Z[out]) @ c)[:, 0]
    assert held.errors[1] == pytest.approx(losses.mean(1).min())


def test_the_best_move_is_the_surest_of_the_smallest():
    low = HeldOut((0.0, 10.0), (1.0, 0.5), (0.0, 0.5), (0.0, 0.6))
    sure = HeldOut((0.0, 1.0, 3.0), (1.0, 0.8, 0.9), (0.0, 0.2, 0.1), (0.0, 0.1, 0.05))
    assert best_move({Move("full", 2): low, Move("shared", 1): sure}) == Move("shared", 1)
    assert best_move({Move("full", 2): low}) == Move("full", 2)


def test_large_tables_choose_on_a_sample_and_fit_on_all_rows(seed, monkeypatch):
    """With few rows and neurons for the choice: the readout still has every neuron, and every row counts."""
    from onestride.estimator import _models
    from onestride.estimator._judge import Effort

    X, y = friedman(seed, 900)
    monkeypatch.setitem(_models.EFFORTS, "default", Effort(rows=200, width=20, neurons=16))
    model = OneStepRegressor(60, first_layer="dense", random_state=seed).fit(X, y)
    assert model._layer.W.shape == (60, 10)
    same = OneStepRegressor(
        60, step_size=model.step_size_, input_scale=model.input_scale_, gradient="shared", random_state=seed
    )
    if model.gradient_ == "shared":
        np.testing.assert_allclose(same.fit(X, y).predict(X), model.predict(X))
    changed = y.copy()
    changed[::2] += 5.0
    assert not np.allclose(clone(model).fit(X, changed).predict(X), model.predict(X), atol=1.0)
    wide = OneStepRegressor(SMALL, effort="high", random_state=seed).fit(X[:200], y[:200])
    assert wide.score(X, y) > 0.5
