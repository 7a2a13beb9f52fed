"""Values freed of luck have the expectation of plain ones, and the luck is what it says.

A mean of values whose expectation is 0 lies within 4.5 standard errors of it: a false alarm in 10⁵ for each number tested,
and the seeds are fixed.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import onestride as one
from onestride._backend import stream, tiles
from onestride.result import QUANTITIES, Estimate, Luck
from onestride.simulation.held_out import HeldOut
from onestride.simulation.known import KnownMoments, count
from onestride.simulation.network import draw_batch, draw_network, step_batch, step_gradient
from onestride.simulation.ridge import _split_from_svd, fit_split, ridge_path
from onestride.simulation.rows import Rows
from onestride.simulation.shifted import solve_twice
from recorded import key_of

SIGMAS = 4.5


def problem(**changes) -> one.Problem:
    given = {"n": 40, "d": 16, "N": 50, "teacher": [0, 1, 0.5, 0.3], "noise": 0.5, "ridge": 0.1}
    return one.Problem(**given | {"step": one.Step(constant=1, exponent=0.4)} | changes)


def far_from_zero(values: np.ndarray) -> float:
    """The largest mean over the first axis in standard errors."""
    spread = values.std(0, ddof=1) / np.sqrt(values.shape[0])
    return float(np.max(np.abs(values.mean(0)) / np.where(spread > 0, spread, np.inf)))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"gradient": "labels", "weights": "gaussian", "n_step": 60, "noise": 2.0},
        {"inputs": "ar1", "readout": "rademacher"},
        {"directions": 2, "teacher": [0, 1, 0.5], "mix": "staircase"},
    ],
    ids=["full", "labels", "ar1", "two directions"],
)
def test_known_moments_have_mean_zero(changes, on_file):
    p = problem(**changes)

    def moments(seed):
        known, network, batch = KnownMoments.of(p, seed), draw_network(p, seed), step_batch(p, seed)
        fit = known.sums(draw_batch(p, seed, "ridge_inputs", None, p.n).X) / p.n
        beta = np.stack([step_gradient(p, network, seed).beta, batch.X.T @ batch.y / batch.y.size])
        return known.of_draw(fit, beta, network.W0 @ known.image(known.coordinates).T)

    key = key_of("known moments", p.to_dict())
    found = [each for (each,) in on_file(key, range(300), lambda seeds: [[moments(seed)] for seed in seeds])]
    assert np.array(found).shape == (300, count(p))
    assert far_from_zero(np.array(found)) < SIGMAS


@pytest.mark.long
@pytest.mark.parametrize(
    "changes", [{}, {"fresh": False}, {"inputs": "power", "n": 60, "N": 30}, {"inputs": "uniform"}], ids=str
)
def test_precise_values_have_the_mean_of_plain_ones(changes, recorded_seeds):
    p = problem(**changes)
    found = one.simulate_grid(p, [0.4], [0.01, 1.0], 150, n_test=1600)
    for part in (found, found.untrained):
        for name in QUANTITIES:
            estimate = getattr(part, name)
            assert far_from_zero(estimate.values - estimate.raw.values) < SIGMAS
            assert far_from_zero(estimate.luck.freed - estimate.raw.values) < SIGMAS


def test_precise_values_spread_less():
    found = one.simulate_grid(problem(n=80, d=30, N=80), [0.3], [1.0], 40)
    for part, least in ((found.untrained, 10), (found, 4)):  # at n = 1000 it is more
        for name in QUANTITIES:
            estimate = getattr(part, name)
            assert estimate.raw.values.var() > least * estimate.values.var()


def test_slopes_are_those_of_the_other_seeds():
    rng = np.random.default_rng(0)
    luck = Luck(rng.normal(size=(5, 2)), rng.normal(size=(5, 2, 3)), rng.normal(size=(5, 3)))
    for i, others in enumerate(np.delete(np.arange(5), i) for i in range(5)):
        wanted = luck.freed[i] - luck.slopes[others].mean(0) @ luck.moments[i]
        np.testing.assert_allclose(luck.precise()[i], wanted, rtol=1e-12)
    alone = Luck(luck.freed[:1], luck.slopes[:1], luck.moments[:1])
    np.testing.assert_array_equal(Estimate.freed(np.zeros((1, 2)), alone).values, luck.freed[:1])


def test_plain_values_stay_with_differences_and_cells():
    found = one.simulate_grid(problem(), [0.1, 0.4], [0.01, 1.0], 3)
    gain = found.test_gain[1, 0]
    plain = found.untrained.test_error.raw.values - found.test_error.raw.values
    np.testing.assert_array_equal(gain.raw.values, plain[:, 1, 0])
    np.testing.assert_array_equal(found.test_error[1, 0].luck.precise(), found.test_error.values[:, 1, 0])
    assert Estimate(plain).raw.values is plain


def test_labels_of_the_step_are_not_split():
    """With fresh=False the features know the noise: what is fitted to them must not be averaged over it."""
    found = one.simulate_grid(problem(fresh=False), [0.4], [0.1], 2)
    np.testing.assert_array_equal(found.train_loss.luck.freed, found.train_loss.raw.values)


def test_weights_that_come_in_tiles_have_the_same_luck(monkeypatch):
    """No product as large as the weights is made: on a full device it would not fit."""
    p = problem()
    whole = one.simulate(p, 3)
    monkeypatch.setattr(tiles, "TILE_BYTES", 8 * p.d * 7)
    parts = one.simulate(p, 3)
    for name in QUANTITIES:
        a, b = getattr(whole, name), getattr(parts, name)
        np.testing.assert_allclose(a.luck.slopes, b.luck.slopes, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(a.values, b.values, rtol=1e-9)


def test_other_laws_have_no_known_moments():
    found = one.simulate_grid(problem(inputs="student"), [0.4], [0.1], 2)
    assert found.train_loss.luck.moments.shape == (2, 0) == (2, count(problem(inputs="student")))
    np.testing.assert_array_equal(found.test_error.values, found.test_error.luck.freed)


def test_moments_are_the_same_when_rows_stream(monkeypatch):
    from onestride.simulation import cost

    p = problem(n=300, d=10, N=20)
    stored = one.simulate_grid(p, [0.4], [0.1], 2)
    monkeypatch.setattr(cost, "STREAM_ABOVE", 0)
    streamed = one.simulate_grid(p, [0.4], [0.1], 2)
    for name in QUANTITIES:
        np.testing.assert_allclose(getattr(streamed, name).values, getattr(stored, name).values, rtol=1e-8)


@pytest.mark.parametrize("shape", [(30, 50), (50, 30)], ids=["dual", "primal"])
def test_split_labels_add_up_and_slopes_are_derivatives(shape):
    rng = stream(0, "probe")
    F, g, u, lam = rng.normal(size=shape), rng.normal(size=shape[0]), rng.normal(size=shape[0]), np.array([0.1, 1.0])
    dual = shape[0] <= shape[1]
    U = np.column_stack([u, rng.normal(size=(shape[0], 2))])
    split = fit_split(Rows.longer(F), g, U, lam, dual=dual)
    whole, by_svd = (
        ridge_path(F, g + 0.7 * u, lam),
        _split_from_svd(Rows.longer(F), np.column_stack([g, U]), lam, dual=dual),
    )
    np.testing.assert_allclose(split.noise, by_svd.noise, rtol=1e-9)
    for name in ("loss", "mse"):
        parts = getattr(split, name)
        np.testing.assert_allclose(
            parts[0] + 1.4 * parts[1] + 0.49 * parts[2], getattr(whole, f"train_{name}"), rtol=1e-9
        )
        np.testing.assert_allclose(parts, getattr(by_svd, name), rtol=1e-9)
    np.testing.assert_allclose(split.coefficients, by_svd.coefficients, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(
        split.coefficients[:, :2] + 0.7 * split.coefficients[:, 2:4], whole.coefficients, atol=1e-12
    )
    h = 1e-5
    above, below = (ridge_path(F, g, lam * np.exp(t)).coefficients for t in (h, -h))
    np.testing.assert_allclose(split.coefficients[:, 4:6], (above - below) / (2 * h), atol=1e-8)


@pytest.mark.parametrize("shifts", [[3.0], [0.5, 3.0, 20.0], [0.5, 1.0, 2.0, 4.0, 8.0]], ids=len)
@pytest.mark.parametrize("width", [1, 20, 420])
def test_several_right_hand_sides_are_solved_as_each_alone(width, shifts):
    """Solved at once, and refined from float32 factors, by Cholesky and by a tridiagonal form."""
    rng = np.random.default_rng(1)
    B, b, s = rng.normal(size=(width + 5, width)), rng.normal(size=(width, 2)), np.array(shifts)
    solved = solve_twice(Rows.stored(B), b, s)
    x, image, again = solved.x, solved.image, solved.again
    for j, shift in enumerate(s):
        K = B.T @ B + shift * np.eye(width)
        wanted = np.linalg.solve(K, b)
        found = x[:, [j, j + s.size]]
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(image[:, [j, j + s.size]], B @ wanted, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(again[:, j], np.linalg.solve(K, wanted[:, 0]), rtol=1e-5, atol=1e-8)
        np.testing.assert_allclose(solved.again_image[:, j], B @ again[:, j], rtol=1e-9, atol=1e-12)


def test_a_half_of_the_test_samples_is_judged_by_the_fit_to_the_other():
    """ψ, g and f̂ = g − gap all independent of each other but f̂ = g/2: E(g − f̂)² = 1/4. 1,500 draws of 2 × 40 samples, one function.

    A fit to the same half would find its own luck.
    """
    rng, draws, half = np.random.default_rng(5), 1500, 40
    psi, g = rng.standard_normal((2, 2, draws, half))
    columns = np.stack([psi, g, g / 2, 0 * g, 0 * g], axis=-1)
    sums = (columns.mT @ columns)[:, None, :, None]  # halves, networks, draws, penalties
    known = SimpleNamespace(averages=SimpleNamespace(taught=np.zeros(1), power=1.0))
    found = HeldOut(sums, (half, half), known, np.zeros((0, 1, draws, 1))).error().ravel()
    assert abs(found.mean() - 0.25) < SIGMAS * found.std() / np.sqrt(draws)
