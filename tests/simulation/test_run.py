"""The simulation against brute force, identities and its own invariances."""

from dataclasses import replace
from inspect import isfunction, signature
from types import ModuleType

import numpy as np
import pytest

import onestride as one
from onestride._backend import stream, streams
from onestride.simulation.cost import Plan
from onestride.simulation.equivalent import VARIANTS, measure_distance, measure_expansions, measure_limit
from onestride.simulation.gradient import measure_gradient
from onestride.simulation.network import draw_batch, draw_network, draw_teacher, gradient, step_gradient
from onestride.simulation.ridge import _from_svd, ridge_path
from onestride.simulation.rows import Rows
from onestride.simulation.shifted import solve_gram
from onestride.sweeps.task import Task, perform

QUANTITIES = ("train_loss", "train_mse", "test_error")


def problem(**changes):
    base = {"n": 60, "d": 20, "N": 80, "activation": "softplus", "teacher": [0, 1, 0.7071], "noise": 0.5, "ridge": 0.1}
    return one.Problem(**(base | {"step": one.Step(exponent=0.3)} | changes))


@pytest.mark.parametrize("mode", ["full", "labels"])
@pytest.mark.parametrize("name", ["softplus", "tanh", "gelu"])
def test_gradient_matches_finite_differences_of_the_loss(mode, name):
    p = problem(activation=name, gradient=mode)
    network, batch = draw_network(p, 0), draw_batch(p, 0, "step_inputs", "step_noise", p.n)
    direction = np.random.default_rng(1).standard_normal(network.W0.shape)

    def loss(t):
        output = p.sigma(batch.X @ (network.W0 + t * direction).T) @ network.a
        if mode == "full":
            return ((batch.y - output) ** 2).sum() / (2 * p.n)
        return -(batch.y @ output) / p.n  # the part of the loss that labels-only keeps

    h = 1e-5
    numeric = -(loss(h) - loss(-h)) / (2 * h)
    assert np.vdot(gradient(p, network, batch).G, direction) == pytest.approx(numeric, rel=1e-7)


def test_gradient_does_not_depend_on_the_tile_size(monkeypatch):
    p = problem()
    network, batch = draw_network(p, 0), draw_batch(p, 0, "step_inputs", "step_noise", p.n)
    whole = gradient(p, network, batch).G
    monkeypatch.setattr("onestride._backend.tiles.TILE_BYTES", 8 * p.N * 7)
    np.testing.assert_allclose(gradient(p, network, batch).G, whole, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("shape", [(30, 50), (50, 30), (40, 40), (1, 1), (1, 5), (5, 1), (2, 2), (3, 2)])
def test_one_factorisation_equals_one_solve_per_penalty(shape):
    rng = np.random.default_rng(0)
    F, y, ridges = rng.standard_normal(shape), rng.standard_normal(shape[0]), np.geomspace(1e-4, 1e4, 9)
    path = ridge_path(F, y, ridges)
    n, N = shape
    for j, lam in enumerate(ridges):
        a = np.linalg.solve(F.T @ F / n + lam * np.eye(N), F.T @ y / n)
        mse = ((y - F @ a) ** 2).mean()
        np.testing.assert_allclose(path.coefficients[:, j], a, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(path.train_mse[j], mse, rtol=1e-7, atol=1e-12)
        np.testing.assert_allclose(path.train_loss[j], mse + lam * a @ a, rtol=1e-9)


@pytest.mark.parametrize("shape", [(30, 50), (50, 30)])
def test_primal_equals_dual(shape):
    rng = np.random.default_rng(0)
    F, y, lam = rng.standard_normal(shape), rng.standard_normal(shape[0]), 0.03
    shift = np.array([lam * shape[0]])
    primal = solve_gram(F.T @ F, F.T @ y, shift)
    dual = F.T @ solve_gram(F @ F.T, y, shift)
    np.testing.assert_allclose(primal, dual, rtol=1e-10, atol=1e-13)


def test_tiny_penalties_go_through_the_svd_and_agree():
    rng = np.random.default_rng(0)
    F, y = rng.standard_normal((40, 60)), rng.standard_normal(40)
    tiny, usual = np.array([1e-13]), np.array([1e-3])
    rows = Rows.stored(F.T)
    np.testing.assert_allclose(
        _from_svd(rows, y, usual, dual=True).train_loss, ridge_path(F, y, usual).train_loss, rtol=1e-10
    )
    path = ridge_path(F, y, tiny)  # interpolation: objective is λ times the squared minimal norm
    minimal = np.linalg.pinv(F) @ y
    np.testing.assert_allclose(path.coefficients[:, 0], minimal, rtol=1e-8)
    np.testing.assert_allclose(path.train_loss, tiny * minimal @ minimal, rtol=1e-6)


def test_ridge_accepts_read_only_arrays_and_changes_nothing():
    rng = np.random.default_rng(0)
    F, y, ridges = rng.standard_normal((30, 40)), rng.standard_normal(30), np.array([0.1, 1.0])
    for array in (F, y, ridges):
        array.setflags(write=False)
    ridge_path(F, y, ridges)


def test_neuron_permutation_changes_nothing():
    rng = np.random.default_rng(0)
    F, y, ridges = rng.standard_normal((50, 40)), rng.standard_normal(50), np.array([0.1, 1.0])
    order = rng.permutation(40)
    path, permuted = ridge_path(F, y, ridges), ridge_path(np.ascontiguousarray(F[:, order]), y, ridges)
    np.testing.assert_allclose(permuted.coefficients, path.coefficients[order], rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(permuted.train_loss, path.train_loss, rtol=1e-12)


def test_zero_step_is_random_features():
    """Plain code, written from the definition, gives the same numbers."""
    p = problem(step=one.Step.none())
    s = one.simulate(p, seeds=[5], n_test=500)
    W0, X = draw_network(p, 5).W0, stream(5, "ridge_inputs").standard_normal((p.n, p.d))
    beta = draw_teacher(p, 5)
    y = p.target(X @ beta) + p.noise * stream(5, "ridge_noise").standard_normal(p.n)
    F = p.sigma(X @ W0.T)
    a = np.linalg.solve(F.T @ F / p.n + p.ridge * np.eye(p.N), F.T @ y / p.n)
    T = stream(5, "test_inputs").standard_normal((500, p.d))
    test = ((p.target(T @ beta) - p.sigma(T @ W0.T) @ a) ** 2).mean() + p.noise**2
    assert s.train_mse.raw.values[0] == pytest.approx(((y - F @ a) ** 2).mean(), rel=1e-8)
    assert s.test_error.raw.values[0] == pytest.approx(test, rel=1e-9)
    assert s.test_gain.values[0] == pytest.approx(0, abs=1e-12)


def test_without_the_untrained_network_the_numbers_are_the_same():
    p = problem()
    both = one.simulate_grid(p, [0.1, 0.3], [0.1, 1.0], 2, n_test=300)
    alone = one.simulate_grid(p, [0.1, 0.3], [0.1, 1.0], 2, n_test=300, untrained=False)
    for name in QUANTITIES:
        np.testing.assert_allclose(getattr(alone, name).values, getattr(both, name).values, rtol=1e-12)
    assert alone.untrained is None
    assert alone.cell(1, 0).untrained is None
    assert "test_gain" not in alone.to_dict()
    with pytest.raises(one.InputError, match="simulate with untrained=True"):
        _ = alone.test_gain
    assert one.simulate(p, [1], n_test=300, untrained=False).test_error.values == pytest.approx(
        one.simulate(p, [1], n_test=300).test_error.values, rel=1e-12
    )


def test_equal_steps_are_measured_once():
    ticks: list[tuple[int, int]] = []
    same = [0.3, 0.1, 0.3]
    s = one.simulate_grid(problem(), same, [1.0], 1, n_test=100, progress=lambda k, total: ticks.append((k, total)))
    assert ticks[-1] == (3, 3)
    np.testing.assert_array_equal(s.test_error.values[:, 0], s.test_error.values[:, 2])
    alone = one.simulate_grid(problem(), [0.1], [1.0], 1, n_test=100)
    np.testing.assert_allclose(s.test_error.values[:, 1], alone.test_error.values[:, 0], rtol=1e-12)


@pytest.mark.parametrize("run", [one.simulate_grid, one.predict_grid, one.plan])
def test_exponents_of_a_problem_without_a_step_are_refused_in_a_sentence(run):
    p = problem(step=one.Step.none())
    with pytest.raises(
        one.InputError, match=r"exponents must be \[0\] .* takes no step .* got 2 exponents from 0 to 0.3; give it one"
    ):
        run(p, [0.0, 0.3], [0.1])


def test_a_problem_without_a_step_has_its_own_exponent():
    p = problem(step=one.Step(constant=0, exponent=0.2))
    assert one.simulate_grid(p, [0.2], [1.0], 1, n_test=100).test_gain.values == pytest.approx(np.zeros((1, 1, 1)))
    assert one.predict_grid(p, [0.2], [1.0]).test_gain == pytest.approx(np.zeros((1, 1)))
    task = Task(p, ((0.1, 0.1), (0.3, 0.1)), (0.1,), 0, "profile")
    runs = [record.values for record in perform(task)]  # of a sweep with c = 0 on an axis: the same at every exponent
    assert runs[0] == runs[1]
    assert runs[0]["test_error"] == runs[0]["untrained_test_error"]
    theory = [record.values for record in perform(replace(task, seed=None))]
    assert theory[0]["test_error"] == theory[1]["test_error"] == theory[0]["untrained_test_error"]


def test_features_after_the_step_equal_the_definition():
    p = problem()
    s = one.simulate(p, seeds=[2], n_test=300)
    network = draw_network(p, 2)
    W = network.W0 + p.eta * step_gradient(p, network, 2).G
    batch = draw_batch(p, 2, "ridge_inputs", "ridge_noise", p.n)
    F = p.sigma(batch.X @ W.T)
    a = np.linalg.solve(F.T @ F / p.n + p.ridge * np.eye(p.N), F.T @ batch.y / p.n)
    T = stream(2, "test_inputs").standard_normal((300, p.d))
    error = ((p.target(T @ draw_teacher(p, 2)) - p.sigma(T @ W.T) @ a) ** 2).mean() + p.noise**2
    assert s.test_error.raw.values[0] == pytest.approx(error, rel=1e-9)


def ridge_errors(p, F, y, test, signal, free=0):
    """Objective and test error of min (1/n)|y − Fw|² + λ|w|², the last `free` columns without a penalty."""
    penalty = p.ridge * np.diag(np.arange(F.shape[1]) < F.shape[1] - free).astype(float)
    w = np.linalg.solve(F.T @ F / p.n + penalty, F.T @ y / p.n)
    return ((y - F @ w) ** 2).mean() + w @ penalty @ w, ((signal - test @ w) ** 2).mean() + p.noise**2


def test_what_stands_for_the_features_is_that_of_plain_code():
    """F, F_ℓ = F₀ + Σ c_k(c₁η)^k(X̃β)^k(a^k)ᵀ, the same with c₁X̃W₀ᵀ + c_{>1}Z for F₀, and the limit model."""
    p, seed, ell = problem(n=50, d=20, N=40, step=one.Step(constant=1.5, exponent=0.3)), 3, 2
    network = draw_network(p, seed)
    step = step_gradient(p, network, seed)
    batch, T = draw_batch(p, seed, "ridge_inputs", "ridge_noise", p.n), stream(seed, "test_inputs")
    T, noise = T.standard_normal((2 * p.n, p.d)), stream(seed, "probe")
    c, signal = p.sigma.coefficients, p.target(T @ draw_teacher(p, seed))
    rest = np.sqrt(p.sigma.second_moment - c[1] ** 2)

    def matrices(X):
        pre, z = X @ network.W0.T, X @ step.beta
        spikes = sum(c[k] * (c[1] * p.eta) ** k * np.outer(z**k, network.a**k) for k in range(1, ell + 1))
        gauss = c[1] * pre + rest * noise.standard_normal(pre.shape)
        return p.sigma(X @ (network.W0 + p.eta * step.G).T), p.sigma(pre) + spikes, gauss + spikes

    train, test = matrices(batch.X), matrices(T)
    plain = np.array([ridge_errors(p, F, batch.y, t, signal) for F, t in zip(train, test, strict=True)])
    found = measure_distance(p, ell, [seed])
    gap = train[0] - train[1]
    assert found.distance.values[0] == pytest.approx(np.linalg.norm(gap, 2) / np.sqrt(p.n), rel=1e-8)
    assert found.column_means.values[0] == pytest.approx(np.linalg.norm(gap.mean(0)), rel=1e-8)
    expansions = measure_expansions(p, ell, [seed])
    same = [0, 1 + ell, VARIANTS.index("Gaussian F_window")]
    np.testing.assert_allclose(expansions.train_loss.values[0, same], plain[:, 0], rtol=1e-8)
    np.testing.assert_allclose(expansions.test_error.values[0, same], plain[:, 1], rtol=1e-8)
    assert expansions.column_means.values[0] == pytest.approx(np.linalg.norm(gap.mean(0)), rel=1e-8)
    limit = measure_limit(p, 3, [seed])
    for highest in range(4):
        powers = [k for k in range(1, highest + 1) if c[k] != 0]
        F, t = (
            np.column_stack([p.sigma(X @ network.W0.T), *((X @ step.beta) ** k for k in powers)]) for X in (batch.X, T)
        )
        loss, error = ridge_errors(p, F, batch.y, t, signal, len(powers))
        assert limit.train_loss.values[0, highest] == pytest.approx(loss, rel=1e-6)
        assert limit.test_error.values[0, highest] == pytest.approx(error, rel=1e-6)


@pytest.mark.parametrize("mode", ["full", "labels"])
def test_distances_of_the_gradient_are_those_of_plain_code(mode):
    p, seed = problem(gradient=mode, n_step=90), 2
    network, batch = draw_network(p, seed), draw_batch(p, seed, "step_inputs", "step_noise", 90)
    G, c1 = gradient(p, network, batch).G, p.sigma.coefficients[1]
    residual = batch.y - p.sigma(batch.X @ network.W0.T) @ network.a
    found = measure_gradient(p, [seed])
    np.testing.assert_allclose(found.singular_values.values[0], np.linalg.svd(G)[1][:5], rtol=1e-8)
    for r, distance in ((batch.y, found.distance_labels), (residual, found.distance_residual)):
        away = np.linalg.norm(G - c1 * np.outer(network.a, batch.X.T @ r / 90), 2)
        assert distance.values[0] == pytest.approx(away, rel=1e-8)


def test_seed_alone_equals_seed_in_a_batch():
    p = problem()
    batch, alone = one.simulate(p, seeds=9), one.simulate(p, seeds=[7])
    for name in QUANTITIES:
        assert getattr(alone, name).raw.values[0] == getattr(batch, name).raw.values[7]


def test_grid_cell_equals_single_simulation():
    p = problem()
    grid = one.simulate_grid(p, [0.0, 0.2, 0.4], [0.01, 1.0], seeds=2)
    single = one.simulate(p.at(exponent=0.4, ridge=0.01), seeds=2)
    for name in (*QUANTITIES, "train_gain", "test_gain"):
        np.testing.assert_allclose(getattr(grid.cell(2, 0), name).values, getattr(single, name).values, rtol=1e-8)


def test_errors_scale_as_the_square_of_the_labels():
    """y → ty with the labels-only gradient and η → η/t leaves W unchanged, so every error is multiplied by t²."""
    t = 3.0
    p = problem(gradient="labels", teacher=[0, 1, 0.5], noise=0.2)
    q = p.replace(teacher=[0, t, 0.5 * t], noise=0.2 * t, step=one.Step(constant=1 / t, exponent=0.3))
    a, b = one.simulate(p, seeds=2), one.simulate(q, seeds=2)
    for name in QUANTITIES:
        np.testing.assert_allclose(getattr(b, name).values, t * t * getattr(a, name).values, rtol=1e-9)


@pytest.mark.parametrize("ridge", [1e8, 1e200])
def test_infinite_penalty_predicts_zero(ridge):
    p = problem(ridge=ridge)
    s = one.simulate(p, seeds=3)
    mean_square = [np.mean(draw_batch(p, k, "ridge_inputs", "ridge_noise", p.n).y ** 2) for k in range(3)]
    np.testing.assert_allclose(s.train_mse.raw.values, mean_square, rtol=1e-5)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 5, 3), (5, 1, 3), (5, 3, 1), (2, 1, 1)])
@pytest.mark.parametrize("lam", [1e-10, 1.0, 1e8])
def test_smallest_sizes_give_finite_numbers(sizes, lam):
    n, d, N = sizes
    s = one.simulate(problem(n=n, d=d, N=N, ridge=lam), seeds=3, n_test=20)
    for name in QUANTITIES:
        assert np.isfinite(getattr(s, name).values).all()
        assert (getattr(s, name).values >= 0).all()


@pytest.mark.statistical(rate=1e-12)
def test_weights_and_readout_follow_their_options(seed):
    big = {"n": 10, "d": 400, "N": 3000}
    sphere, gaussian = (draw_network(problem(**big, weights=law), 1000 * seed) for law in ("sphere", "gaussian"))
    np.testing.assert_allclose(np.linalg.norm(sphere.W0, axis=1), 1, rtol=1e-12)
    assert np.linalg.norm(gaussian.W0, axis=1).std() > 0.01
    assert abs((gaussian.W0**2).sum() / 3000 - 1) < 0.01
    assert abs((sphere.a**2).sum() - 1) < 0.2
    np.testing.assert_allclose(draw_network(problem(**big, readout="constant"), 0).a, 3000**-0.5)
    np.testing.assert_allclose(np.abs(draw_network(problem(**big, readout="rademacher"), 0).a), 3000**-0.5)


def test_n_step_changes_only_the_step():
    a, b = one.simulate(problem(n_step=30), seeds=2), one.simulate(problem(n_step=300), seeds=2)
    np.testing.assert_array_equal(a.untrained.test_error.raw.values, b.untrained.test_error.raw.values)
    assert not np.allclose(a.test_error.values, b.test_error.values)


def test_progress_reaches_the_total():
    seen = []
    one.simulate_grid(problem(), [0.1, 0.2], [0.1], seeds=2, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(k, 6) for k in range(1, 7)]


@pytest.mark.parametrize("steps", [1, 2])
def test_seeds_side_by_side_are_the_seeds_one_after_the_other(steps, monkeypatch):
    """Each on one core where the problem is small; the memory of the plan is that of all of them."""
    p, ticks = problem(steps=steps), []
    monkeypatch.setattr(streams, "threads", lambda: 1)
    assert Plan(p, seeds=5).side_by_side == 1
    alone, memory = one.simulate_grid(p, [0.1, 0.3], [0.01, 1.0], 5), Plan(p, seeds=5).memory
    monkeypatch.setattr(streams, "threads", lambda: 3)
    assert (Plan(p, seeds=5).side_by_side, Plan(p, seeds=2).side_by_side, Plan(p).side_by_side) == (3, 2, 1)
    assert Plan(p, seeds=5).memory == 3 * memory
    assert Plan(problem(n=4000, N=4000), seeds=5).side_by_side == 1
    together = one.simulate_grid(p, [0.1, 0.3], [0.01, 1.0], 5, progress=lambda *now: ticks.append(now))
    for name in QUANTITIES:
        np.testing.assert_allclose(getattr(together, name).values, getattr(alone, name).values, rtol=1e-11)
    assert ticks == [(k + 1, 15) for k in range(15)]


@pytest.mark.parametrize("bad", [0, -1, [], [1, 1], [-2], True, "x", 2.5])
def test_bad_seeds_are_refused_in_a_sentence(bad):
    with pytest.raises(one.InputError, match="seeds must be"):
        one.simulate(problem(), seeds=bad)


@pytest.mark.parametrize(
    ("axis", "bad"), [("exponents", [np.nan]), ("ridges", [0.0]), ("ridges", [-1]), ("ridges", [])]
)
def test_bad_grid_axes_are_refused_in_a_sentence(axis, bad):
    arguments = {"exponents": [0.1], "ridges": [0.1]} | {axis: bad}
    for run in (one.simulate_grid, one.predict_grid):
        with pytest.raises(one.InputError, match=f"{axis} must be"):
            run(problem(), **arguments)


def test_sizes_beyond_memory_are_refused_before_anything_is_allocated():
    p = problem(n=10**7, d=10**6, N=10**7)
    assert Plan(p).memory > 1e15
    with pytest.raises(one.InputError, match="GiB of memory"):
        one.simulate(p, seeds=1)


def test_a_module_of_the_package_can_be_imported_by_its_full_name():
    """`simulate` and `sweep` are functions, and the packages of their modules."""
    import onestride.simulation.run as run
    import onestride.sweeps.drive as drive

    assert isinstance(run, ModuleType)
    assert run.simulate is one.simulate
    assert drive.sweep is one.sweep
    assert isfunction(one.simulate)
    assert signature(one.simulate) == signature(run.simulate)


@pytest.mark.parametrize(
    "changes",
    [
        {"activation": (0, 1, 0, 1), "step": one.Step(constant=1e60, exponent=0.5)},
        {"activation": (0, 1, 1), "step": one.Step(constant=1e3, exponent=0.5), "steps": 6},
        {"activation": (0, 1e200)},
        {"teacher": (0, 1e200), "gradient": "full", "step": one.Step(constant=1, exponent=0.5)},
    ],
    ids=["a step", "six steps", "features", "labels"],
)
@pytest.mark.parametrize(
    "measure", [one.simulate, one.measure_learned, one.measure_spectrum, one.measure_density], ids=lambda f: f.__name__
)
def test_what_overflows_is_refused_in_a_sentence_and_without_a_warning(measure, changes):
    with pytest.raises(one.InputError, match="overflows on the features of a step of size"):
        measure(problem(n=40, d=20, N=30).replace(**changes), 2)


def test_single_seed_has_no_error_bar():
    assert np.isnan(one.simulate(problem(), seeds=1).test_error.stderr)


@pytest.mark.parametrize("at_once", [2, 3])
def test_networks_fitted_side_by_side_are_those_fitted_one_after_the_other(at_once, monkeypatch):
    p, ridges = problem(n=410, d=60, N=430, step=one.Step(constant=1.0, exponent=0.3)), np.geomspace(0.01, 1.0, 6)
    monkeypatch.setattr(Plan, "networks_at_once", 1)
    apart = one.simulate_grid(p, [0.0, 0.1, 0.2, 0.3], ridges, [0], n_test=300)
    monkeypatch.setattr(Plan, "networks_at_once", at_once)
    together = one.simulate_grid(p, [0.0, 0.1, 0.2, 0.3], ridges, [0], n_test=300)
    for name in ("train_loss", "train_mse", "test_error"):
        ours, theirs = getattr(together, name), getattr(apart, name)
        np.testing.assert_allclose(ours.raw.values, theirs.raw.values, rtol=1e-12)
        np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-9)
    with pytest.raises(one.InputError, match="overflows"):
        one.simulate_grid(p.replace(activation=(0, 1, 1, 1, 1)), [0.1, 30.0, 40.0], ridges, [0], n_test=300)
