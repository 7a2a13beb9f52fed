"""The step of the estimators' network: the gradient it says, chosen on rows that never built it, and no other."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from onestride._backend import threads
from onestride.estimator import OneStepFeatures, OneStepRegressor, _judge, _network
from onestride.estimator._judge import EFFORTS, Move, judge_moves
from onestride.estimator._layer import Layer, Recipe, draw_layer, step_direction, stepped, weight_gradient
from onestride.estimator._network import HeldOut
from onestride.estimator._ridge import best_penalty, decompose, ridge_solutions
from tables import SMALL, draws, friedman, weighted_table
from tolerances import assert_close


@pytest.mark.parametrize("activation", ["erf", "softplus"])
def test_step_is_the_gradient_of_the_fitted_network(activation, seed):
    """Both kinds against finite differences of ½⟨(y − f)²⟩, along every entry of R (symmetric) or W."""
    rng = draws(seed, 3)
    Z, Y, w = rng.standard_normal((30, 4)), rng.standard_normal((30, 2)), rng.uniform(0.5, 2, 30)
    recipe = Recipe(7, activation, True, "shared", 1, 1.0, 0.0, np.ones(1))
    layer = draw_layer(np.ones(4, bool), recipe, rng, Z.dtype)
    c = rng.standard_normal((11, 2))

    def loss(W):
        f = type(layer)(W, layer.b, activation, True).design(Z) @ c
        return 0.5 * float(w @ np.square(Y - f).sum(1))

    h = 1e-6
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
        change = step_direction(layer, weight_gradient(layer, (c, np.zeros(2)), Z, Y, w), kind)
        assert np.linalg.norm(change) == pytest.approx(np.linalg.norm(layer.W))
        np.testing.assert_allclose(change, expected * np.linalg.norm(layer.W) / np.linalg.norm(expected), atol=1e-6)
        assert np.linalg.norm(stepped(layer, change, 2.0).W) == pytest.approx(np.linalg.norm(layer.W))


def test_zero_step_is_random_features(seed):
    X, y = friedman(seed)
    zero = OneStepFeatures(SMALL, step_size=0, robust=False, random_state=seed)
    Z = StandardScaler().fit_transform(X)
    fitted = zero.fit(X, y)
    np.testing.assert_allclose(fitted.transform(X)[:, SMALL:], Z, atol=1e-12)
    lengths = np.linalg.norm(fitted._layer.W, axis=1)
    np.testing.assert_allclose(lengths, fitted.input_scale_)
    unsupervised = clone(zero).set_params(input_scale=fitted.input_scale_).fit(X)  # no target needed
    np.testing.assert_array_equal(unsupervised.transform(X), fitted.transform(X))


def test_no_step_is_taken_unless_it_gains_more_than_one_standard_error():
    held_out = HeldOut((0.0, 1.0, 3.0), (1.0, 0.95, 0.9), (0.0, 0.05, 0.1), (0.0, 0.06, 0.2))
    assert held_out.choice() == 0
    assert HeldOut(held_out.steps, held_out.errors, held_out.gain, (0.0, 0.04, 0.2)).choice() == 1
    assert HeldOut().choice() == 0


@pytest.mark.parametrize("kind", ["shared", "neurons"])
@pytest.mark.parametrize("judged", [2, 3])
def test_held_out_errors_are_those_of_networks_that_never_saw_the_rows(kind, judged, seed, monkeypatch):
    """Every fold against scikit-learn's ridge on the other rows alone: step, readout, best penalty, paired gain, its error."""
    rng = draws(seed, 12)
    n, alpha = 60, 0.3
    Z, Y, w = rng.standard_normal((n, 4)), rng.standard_normal((n, 2)), rng.uniform(0.2, 3, n)
    recipe = Recipe(7, "erf", True, kind, 2, None, None, np.ones(1))
    layer = draw_layer(np.ones(4, bool), recipe, rng, Z.dtype)
    monkeypatch.setattr(_judge, "ENOUGH_ROWS", (n, n if judged == 3 else n - 1))
    move = Move(kind, 2)
    held_out = judge_moves(layer, Z, Y, w, alpha, [move], EFFORTS["default"], draws(seed, 30))[move]

    fold = draws(seed, 30).permutation(n) % 3
    losses = np.full((3, 5, n), np.nan)
    for k in range(judged):
        rest, out = fold != k, fold == k
        for i, rho in enumerate((0.0, 1.0, 3.0)):
            trained = layer
            for _ in range(2 if rho else 0):
                strong = Ridge(alpha=100 * alpha).fit(trained.design(Z[rest]), Y[rest], w[rest])
                readout = strong.coef_.T, strong.intercept_
                change = step_direction(trained, weight_gradient(trained, readout, Z[rest], Y[rest], w[rest]), kind)
                trained = stepped(trained, change, rho)
            for j, multiple in enumerate((0.01, 0.1, 1.0, 10.0, 100.0)):
                model = Ridge(alpha=multiple * alpha).fit(trained.design(Z[rest]), Y[rest], w[rest])
                losses[i, j, out] = np.square(Y[out] - model.predict(trained.design(Z[out]))).mean(1)
    rows = fold < judged
    share = w[rows] / w[rows].sum()
    best = [loss[np.argmin(loss @ share)] for loss in losses[:, :, rows]]
    gains = np.array([best[0] - loss for loss in best])
    np.testing.assert_allclose(held_out.errors, [loss @ share for loss in best], rtol=1e-8)
    np.testing.assert_allclose(held_out.gain, gains @ share, atol=1e-10)
    spread = np.sqrt(np.square(share * (gains - (gains @ share)[:, None])).sum(1))
    np.testing.assert_allclose(held_out.stderr, spread, atol=1e-10)


def test_a_step_goes_down_the_loss_of_the_network_that_takes_it(seed):
    """A short one: the readout is held, so to first order the loss must fall, by the length of the gradient times ρ."""
    rng = draws(seed, 13)
    Z, Y, w = rng.standard_normal((80, 5)), rng.standard_normal((80, 1)), rng.uniform(0.2, 3, 80)
    recipe = Recipe(9, "tanh", True, "neurons", 1, None, None, np.ones(1))
    layer = draw_layer(np.ones(5, bool), recipe, rng, Z.dtype)
    ((c, c0),) = ridge_solutions(layer.design(Z), Y, w, np.array([1.0]))
    change = step_direction(layer, weight_gradient(layer, (c, c0), Z, Y, w), "neurons")

    def loss(network):
        return float(w @ np.square(Y - network.design(Z) @ c - c0).sum(1))

    along = change - layer.W * (change * layer.W).sum() / np.square(layer.W).sum()  # the length of W is kept
    moved = type(layer)(layer.W + 1e-4 * along, layer.b, "tanh", True)
    assert loss(stepped(layer, change, 1e-4)) == pytest.approx(loss(moved), abs=1e-5 * loss(layer))
    assert loss(stepped(layer, change, 1e-4)) - loss(layer) == pytest.approx(loss(moved) - loss(layer), rel=0.05)
    assert loss(type(layer)(layer.W + 1e-4 * change, layer.b, "tanh", True)) < loss(layer)


def test_the_penalty_of_each_step_is_the_best_by_weight():
    losses = np.array([[[1.0, 0.0], [0.0, 2.0]]] * 3)  # steps × penalties × rows
    assert _judge._paired(losses, np.array([3.0, 1.0]), _judge.STEPS).errors == (0.5, 0.5, 0.5)
    assert _judge._paired(losses, np.array([1.0, 1.0]), _judge.STEPS).errors == (0.5, 0.5, 0.5)
    assert _judge._paired(losses, np.array([1.0, 3.0]), _judge.STEPS).errors == (0.25, 0.25, 0.25)


def test_moves_go_on_after_the_first_fold_and_are_told_by_weight(monkeypatch):
    """Losses of the first fold: unweighted the first move is best and the second worst, by weight it is the other way round."""
    tried = [Move(kind, 1) for kind in ("shared", "neurons", "full")]
    by_row = {tried[0]: [1.0, 0.0], tried[1]: [0.0, 2.0], tried[2]: [0.1, 1.6], Move("none", 0): [9.0, 9.0]}
    ways = [(Move("none", 0), 0.0), *((move, step) for move in tried for step in move.steps)]
    monkeypatch.setattr(_judge, "_steps_taken", lambda *given: [c for c in ways if c[0] in (ways[0][0], *given[5])])
    monkeypatch.setattr(_judge, "_maps_applied", lambda *_: [])
    monkeypatch.setattr(_judge, "_measured", lambda c, rows, out: (c, np.tile(by_row[c[0]], (5, 1))))
    fold, w = np.repeat([0, 1, 2], 2), np.tile([5.0, 1.0], 3)
    losses = _judge.fold_losses(None, np.ones((6, 1)), np.ones((6, 1)), w, 1.0, tried, EFFORTS["default"], fold)
    assert [bool(np.isnan(losses[move, move.steps[0]][:, fold > 0]).any()) for move in tried] == [True, False, False]

    of_none = {(Move("none", 0), 0.0): np.array([[1.0, 0.0, np.nan], [0.0, 2.0, np.nan]])}
    chosen = _judge.chosen_losses(of_none, tried[0], 0.0, np.array([3.0, 1.0, 1.0]))
    np.testing.assert_array_equal(chosen, [0.0, 2.0, np.nan])  # unweighted the other penalty is the better one


@pytest.mark.parametrize("step_size", ["auto", 1.0])
def test_fit_is_the_recipe_step_by_step(step_size, seed):
    """The whole fit again from its parts: scale and penalty by leave-one-out, the step from 100 times that penalty."""
    X, y = friedman(seed, 150)
    rng = draws(seed, 14)
    w = rng.uniform(0.2, 3, 150)
    order = np.lexsort(X.T[::-1])  # distinct rows are sorted, which fixes the folds
    X, y, w = X[order], y[order], w[order]
    alphas = np.logspace(-3, 2, 6)
    model = OneStepRegressor(
        20, step_size=step_size, alphas=alphas, steps=2, gradient="shared", robust=False, random_state=seed + 1
    )
    model.fit(X, y, sample_weight=w)

    Z = StandardScaler().fit(X, sample_weight=w).transform(X)
    mean = np.average(y, weights=w)
    spread = np.sqrt(np.average(np.square(y - mean), weights=w))
    Y = ((y - mean) / spread)[:, None]
    recipe = Recipe(20, "erf", True, "shared", 2, None, None, alphas)
    generator = np.random.default_rng(np.random.RandomState(seed + 1).randint(np.iinfo(np.int32).max))
    unit = draw_layer(np.ones(10, bool), recipe, generator, Z.dtype)

    def stage(layer):
        alpha, error = best_penalty(decompose(layer.design(Z), Y, w), alphas)
        return error, alpha, layer

    scaled = [(*stage(type(unit)(scale * unit.W, unit.b, "erf", True)), scale) for scale in (0.25, 0.5, 1.0, 2.0, 4.0)]
    error, alpha, layer, scale = min(scaled, key=lambda s: s[0])
    held_out, move = HeldOut(), Move("shared", 2)
    if step_size == "auto":
        held_out = judge_moves(layer, Z, Y, w, alpha, [move], EFFORTS["default"], generator)[move]
    rho = held_out.choice() if held_out.steps else step_size
    for _ in range(2 if rho else 0):
        strong = Ridge(alpha=100 * alpha).fit(layer.design(Z), Y, w)
        readout = strong.coef_.reshape(1, -1).T, strong.intercept_
        layer = stepped(layer, step_direction(layer, weight_gradient(layer, readout, Z, Y, w), "shared"), rho)
    error, alpha, _ = stage(layer)
    final = Ridge(alpha=alpha).fit(layer.design(Z), Y, w)
    assert model.step_size_ == rho
    assert model.input_scale_ == scale
    assert model.alpha_ == pytest.approx(alpha)
    assert model.loo_error_ == pytest.approx(error * spread**2)
    np.testing.assert_allclose(model.held_out_.errors, held_out.errors, rtol=1e-6)
    expected = mean + spread * final.predict(layer.design(Z)).ravel()
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-5, atol=1e-5 * spread)


def test_random_state_draws_weights_biases_and_held_out_rows(seed):
    X, y = friedman(seed, 100)
    one, same, other = (OneStepRegressor(SMALL, input_scale=1, random_state=seed + k).fit(X, y) for k in (1, 1, 2))
    np.testing.assert_array_equal(one.predict(X), same.predict(X))
    assert one.held_out_ == same.held_out_ != other.held_out_
    layers = [OneStepFeatures(SMALL, step_size=0, random_state=seed + k).fit(X)._layer for k in (1, 2)]
    assert not np.intersect1d(layers[0].W, layers[1].W).size
    assert not np.intersect1d(layers[0].b, layers[1].b).size


@pytest.mark.parametrize("gradient", ["shared", "neurons"])
def test_leave_one_out_flatters_a_step_on_noise_and_held_out_rows_do_not(gradient, seed):
    """The left-out row has shaped the features; only rows that built nothing tell what fresh rows will say.

    Leave-one-out over fresh error on one table: 0.68 ± 0.16 (shared), 0.42 ± 0.08 (neurons); held-out error 1.01 ± 0.02 (mean
    ± standard deviation over 360 tables). Means over twelve independent tables; bounds five standard deviations away or more.
    """
    ratios, honest = [], []
    for table in range(12):
        rng = draws(seed, table)
        X, y = rng.standard_normal((200, 60)), rng.standard_normal(200)
        fresh, z = rng.standard_normal((2000, 60)), rng.standard_normal(2000)
        model = OneStepRegressor(64, step_size=3, gradient=gradient, input_scale=1, alphas=[0.1], random_state=table)
        model.fit(X, y)
        ratios.append(model.loo_error_ / np.mean((model.predict(fresh) - z) ** 2))
        judged = clone(model).set_params(step_size="auto", alphas=None).fit(X, y)
        assert judged.held_out_.steps == (0, 1, 3)
        honest.append(min(judged.held_out_.errors))
    assert np.mean(ratios) < {"shared": 0.92, "neurons": 0.55}[gradient]
    assert np.mean(honest) > 0.97  # of the target's variance: nothing to learn, and it shows


def test_a_step_gains_on_fresh_rows_where_inputs_are_irrelevant(seed):
    """Five of twenty inputs matter.

    Over 60 seeds (mean ± standard deviation): error ratio 0.46 ± 0.07, importance of the five 0.978 ± 0.005, their share of
    the direction 0.958 ± 0.019. Each bound is five standard deviations away.
    """
    X, y = friedman(seed, 3000, 20)
    plain = OneStepRegressor(256, step_size=0, random_state=seed).fit(X[:1500], y[:1500])
    model = OneStepRegressor(256, random_state=seed).fit(X[:1500], y[:1500])
    errors = [np.mean((m.predict(X[1500:]) - y[1500:]) ** 2) for m in (plain, model)]
    assert model.step_size_ > 0
    assert errors[1] < 0.82 * errors[0]
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert model.feature_importances_[:5].sum() > 0.95  # the other fifteen inputs are noise
    assert np.linalg.norm(model.direction_) == pytest.approx(1)
    assert np.square(model.direction_[:5]).sum() > 0.86


def test_a_fit_side_by_side_is_the_fit_one_after_the_other(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((90, 4))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.standard_normal(90)
    fits = []
    for cores in (1, 6, 9):  # with nine, maps are learned ahead
        monkeypatch.setattr(threads, "_blas_threads", lambda cores=cores: cores)
        fits.append(OneStepRegressor(24, random_state=0).fit(X, y))
    for other in fits[1:]:
        assert fits[0].held_out_.steps == other.held_out_.steps
        assert fits[0].first_layer_ == other.first_layer_
        assert_close(fits[0].predict(X), other.predict(X), rel=1e-6)


def test_too_few_rows_mean_no_step(seed):
    X, y = friedman(seed, 9)
    model = OneStepRegressor(SMALL, random_state=seed).fit(X, y)
    assert model.step_size_ == 0
    assert model.held_out_ == HeldOut()


def test_direction_points_along_its_largest_entry():
    for sign in (1, -1):
        np.testing.assert_allclose(_network._leading(sign * np.outer([1, 2], [0.6, -0.8])), [-0.6, 0.8])


@pytest.mark.parametrize("whiten", [False, True])
def test_direction_is_where_the_step_moves_the_layer_most(whiten, seed):
    """From the features alone: W before and after by the network's own coordinates, in standardised columns."""
    X, y, w = weighted_table(seed, 21)
    options = {
        "whiten": whiten,
        "input_scale": 1,
        "gradient": "neurons",
        "alphas": [1.0],
        "robust": False,
        "random_state": seed,
    }
    model = OneStepRegressor(SMALL, step_size=1, **options).fit(X, y, sample_weight=w)
    plain = OneStepRegressor(SMALL, step_size=0, **options).fit(X, y, sample_weight=w)
    before, after = plain._layer.W, model._layer.W
    # after = s(before + ΔW) with |ΔW| = |before| = |after|: the s that gives ΔW this length
    cosine = (before * after).sum() / np.square(before).sum()
    change = after * 2 * cosine - before
    _, _, right = np.linalg.svd(change)
    Z = StandardScaler().fit(X, sample_weight=w).transform(X)
    coordinates = (
        OneStepFeatures(1, step_size=0, whiten=whiten, robust=False).fit(X, y, sample_weight=w).transform(X)[:, 1:]
    )
    rotation = np.linalg.lstsq(Z, coordinates, rcond=None)[0]
    expected = rotation @ right[0]
    expected /= np.linalg.norm(expected)
    assert abs(expected @ model.direction_) == pytest.approx(1, abs=1e-8)
    if not whiten:
        assert model.direction_[np.argmax(np.abs(model.direction_))] > 0


@pytest.mark.parametrize("step_size", [1e-300, 1e300])
def test_a_step_of_any_size_is_a_direction(step_size, seed):
    """ρ → ∞ leaves the step alone; ρ → 0 leaves nothing of it."""
    X, y = friedman(seed, 60)
    model = OneStepRegressor(SMALL, step_size=step_size, random_state=seed).fit(X, y)
    near = OneStepRegressor(SMALL, step_size=1e8 if step_size > 1 else 0, random_state=seed).fit(X, y)
    np.testing.assert_allclose(model.predict(X), near.predict(X), rtol=1e-4)


def test_the_gradient_of_anchored_neurons_is_that_of_the_loss():
    """Σ w|y − f|²/2 with f = cᵀσ(w_jᵀ(z − a_j) + b_j) + c₀, by central differences."""
    rng = np.random.default_rng(0)
    Z, Y, w = rng.standard_normal((30, 4)), rng.standard_normal((30, 2)), rng.uniform(0.5, 2.0, 30)
    layer = Layer(rng.standard_normal((5, 4)), rng.standard_normal(5), "tanh", True, rng.standard_normal((5, 4)))
    c, c0 = rng.standard_normal((9, 2)), rng.standard_normal(2)

    def loss(W):
        return float(w @ np.square(Y - replace(layer, W=W).design(Z) @ c - c0).sum(1)) / 2

    expected, h = np.empty((5, 4)), 1e-5 * np.eye(20).reshape(20, 5, 4)
    expected.flat = [-(loss(layer.W + e) - loss(layer.W - e)) / 2e-5 for e in h]
    np.testing.assert_allclose(weight_gradient(layer, (c, c0), Z, Y, w), expected, rtol=1e-6, atol=1e-7)
