"""The plateaus Δ_ℓ and Λ_ℓ: the talk's formulas, their limits, high precision, and the limit model simulated directly."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onestride as one
from onestride import functions
from onestride.result import Prediction, Status
from onestride.theory.bulk import bulk_of, solve_bulk
from onestride.theory.direction import direction
from onestride.theory.plateau import HIGHEST_DEGREE, active_powers, captured, smoothed_powers, window
from recorded import key_of
from tolerances import EXACT, assert_agrees, assert_close, false_alarm_rate, seeds_from, stratified

ALL_POWERS = (0.0, 1.0, 0.5, 0.3, -0.2, 0.1, 0.05)  # an activation with c₁ … c₆ ≠ 0
TEACHER = (0.0, 1.0, 1 / math.sqrt(2), -0.4, 0.1, 0.07, 0.02)


def middle(ell: int) -> float:
    """An exponent inside window ℓ."""
    return ((ell - 1) / (2 * ell) + ell / (2 * ell + 2)) / 2


def make(ell: int = 1, **changes) -> one.Problem:
    base = {
        "n": 2000, "d": 1000, "N": 3000, "activation": ALL_POWERS, "teacher": TEACHER, "noise": 0.5, "ridge": 0.1,
        "gradient": "labels", "step": one.Step(exponent=middle(ell)) if ell else one.Step.none(),
    }  # fmt: skip
    return one.Problem(**(base | changes))


def plateau(problem: one.Problem, **options) -> Prediction:
    return one.predict(problem, method="plateau", **options)


def m1_m2(problem: one.Problem) -> tuple[float, float]:
    sigma = problem.sigma
    bulk = solve_bulk(problem.ridge, problem.phi, problem.psi, sigma.coefficients[1], sigma.nonlinear_power)
    return float(bulk.m1), float(bulk.m2)


CASES = [
    {},
    {"ridge": 1e-3},
    {"ridge": 50.0},
    {"noise": 0.0, "n": 500, "N": 400},
    {"n": 3000, "d": 30, "N": 30_000},
    {"n": 300, "d": 3000, "N": 60, "noise": 2.0},
]


# ---------------------------------------------------------------- the talk's formulas


@pytest.mark.parametrize("case", CASES, ids=str)
def test_first_two_plateaus_are_the_talks(case):
    """Formulas (1) and (2) of the talk."""
    problem = make(1, **case)
    (m1, m2), phi, psi, lam = m1_m2(problem), problem.phi, problem.psi, problem.ridge
    c1, c2 = problem.teacher[1:3]
    s2 = c1**2 + phi * (problem.target.second_moment + problem.noise**2)
    delta1 = psi * lam * c1**4 * m2 / (phi * s2)
    delta2 = delta1 + 4 * psi * lam * c1**4 * c2**2 * m1 / (3 * phi * s2**2)
    assert plateau(problem).train_gain == pytest.approx(delta1, rel=1e-9)
    assert plateau(make(2, **case)).train_gain == pytest.approx(delta2, rel=1e-9)


def xi(p: int, i: int) -> mp.mpf:
    """x^p = Σ_i ξ_{p,i} H_i, ξ_{p,i} = p!/(2^j j! i!), j = (p − i)/2."""
    if i > p or (p - i) % 2:
        return mp.mpf(0)
    j = (p - i) // 2
    return mp.factorial(p) / (mp.mpf(2) ** j * mp.factorial(j) * mp.factorial(i))


def talk_delta(problem: one.Problem, ell: int, m1, m2) -> mp.mpf:
    """The general Δ_ℓ of the talk with its matrix Ω, in whatever precision is set."""
    phi, psi, lam = (mp.mpf(v) for v in (problem.d, problem.d, problem.ridge))
    phi, psi = phi / problem.n, psi / problem.N
    c = [mp.mpf(float(v)) for v in problem.target.coefficients]
    power = sum(mp.factorial(k) * v**2 for k, v in enumerate(problem.teacher)) + mp.mpf(problem.noise) ** 2
    s2 = c[1] ** 2 + phi * power
    r = [mp.factorial(p) * psi * (m2 if p == 1 else m1) / phi * (c[1] / mp.sqrt(s2)) ** p for p in range(ell + 1)]
    inverse = mp.matrix(ell, ell)
    for i in range(1, ell + 1):
        for j in range(1, ell + 1):
            rest = sum(mp.factorial(k) * xi(i, k) * xi(j, k) for k in range(min(i, j) + 1) if k != 1)
            inverse[i - 1, j - 1] = s2 ** (mp.mpf(i + j) / 2) * psi / phi * (m2 * xi(i, 1) * xi(j, 1) + m1 * rest)
    b = mp.matrix([
        sum(c[p] * r[p] * xi(i, p) for p in range(1, ell + 1)) * s2 ** (mp.mpf(i) / 2) for i in range(1, ell + 1)
    ])  # fmt: skip
    return lam * (b.T * mp.lu_solve(inverse, b))[0]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("ell", [1, 2, 3, 4, 5])
def test_general_plateau_is_the_talks(ell, case):
    problem = make(ell, **case)
    with mp.workdps(50):
        expected = talk_delta(problem, ell, *map(mp.mpf, m1_m2(problem)))
    assert plateau(problem).train_gain == pytest.approx(float(expected), rel=1e-8)


# ---------------------------------------------------------------- the test error


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("ell", [1, 2, 3, 5])
def test_test_gain_is_the_derivative_of_the_training_gain(ell, case):
    """Λ_ℓ = −(φ/(ψ m₁))² d/dλ[Δ_ℓ/λ], the derivative by a five-point difference of the talk's formula."""
    problem = make(ell, **case)
    step = 1e-3

    def scaled(k):
        at = problem.at(ridge=problem.ridge * (1 + k * step))
        with mp.workdps(30):
            return float(talk_delta(at, ell, *map(mp.mpf, m1_m2(at)))) / at.ridge

    slope = (8 * (scaled(1) - scaled(-1)) - (scaled(2) - scaled(-2))) / (12 * step * problem.ridge)
    rho = problem.psi / problem.phi * m1_m2(problem)[0]
    assert plateau(problem).test_gain == pytest.approx(-slope / rho**2, rel=1e-6)


def test_train_mean_square_obeys_the_envelope_theorem_on_the_plateau():
    problem, lam, step = make(3), np.array([1e-3, 0.1, 10.0]), 1e-3

    def loss(k):
        return one.predict_grid(problem, [middle(3)], lam * (1 + k * step), method="plateau").train_loss[0]

    slope = (8 * (loss(1) - loss(-1)) - (loss(2) - loss(-2))) / (12 * step)
    mse = one.predict_grid(problem, [middle(3)], lam, method="plateau").train_mse[0]
    assert_close(mse, loss(0) - slope, rel=1e-7)


# ---------------------------------------------------------------- windows


@pytest.mark.parametrize("ell", range(1, 30))
def test_windows_and_thresholds(ell):
    low, high = (ell - 1) / (2 * ell), ell / (2 * ell + 2)
    gap = high - low
    assert window(low + 0.01 * gap) == window(middle(ell)) == window(high - 0.01 * gap) == ell
    assert math.isnan(window(low))
    assert math.isnan(window(high))


@pytest.mark.parametrize(("alpha", "ell"), [(-3.0, 0), (-1e-6, 0), (1e-6, 1), (0.5, math.inf), (2.0, math.inf)])
def test_window_outside_the_papers_range(alpha, ell):
    assert window(alpha) == ell


@pytest.mark.parametrize("alpha", [0.0, 0.25, 1 / 3, 0.375])
def test_a_threshold_has_no_plateau_and_says_so(alpha):
    problem = make(step=one.Step(exponent=alpha))
    p = plateau(problem, throw=False)
    assert p.status is Status.THRESHOLD
    assert f"α = {alpha:g}" in p.message
    assert all(math.isnan(v) for v in (p.train_loss, p.train_mse, p.test_error, p.test_gain))
    assert math.isfinite(p.untrained.test_error)
    with pytest.raises(one.TheoryError, match="threshold"):
        plateau(problem)


@pytest.mark.parametrize("alpha", [0.5, 0.7])
def test_steps_of_root_n_are_beyond_the_plateaus(alpha):
    p = plateau(make(step=one.Step(exponent=alpha)), throw=False)
    assert p.status is Status.ASSUMPTION
    assert "α < 1/2" in p.message
    assert math.isnan(p.test_error)


def test_a_vanishing_step_gains_nothing():
    p = plateau(make(step=one.Step(exponent=-0.3)))
    assert (p.train_gain, p.test_gain) == (0, 0)
    assert p.test_error == plateau(make(0)).test_error


def test_no_step_ignores_the_exponent():
    p = plateau(make(step=one.Step(constant=0.0, exponent=0.25)))
    assert p.status is Status.SOLVED
    assert p.test_gain == 0


def test_the_constant_of_the_step_does_not_matter_inside_a_window():
    small, large = (plateau(make(step=one.Step(constant=c, exponent=0.3))) for c in (0.01, 100.0))
    assert small.test_error == large.test_error


# ---------------------------------------------------------------- structure


@settings(deadline=None, max_examples=40)
@given(
    st.integers(10, 5000), st.integers(10, 5000), st.integers(10, 5000), st.floats(-8, 6), st.floats(0, 3),
    st.sampled_from(["relu", "tanh", "softplus", ALL_POWERS]), st.sampled_from([TEACHER, "relu", "sin", (0.0, 1.0)]),
    st.sampled_from(["labels", "full"]),
)  # fmt: skip
def test_gains_are_not_negative_and_training_gains_grow_with_the_window(
    n, d, N, log_ridge, noise, act, teacher, gradient
):
    """Freeing more directions cannot raise the training objective; the limit theory's test gain is ≥ 0 too."""
    problem = make(
        1, n=n, d=d, N=N, ridge=10**log_ridge, noise=noise, activation=act, teacher=teacher, gradient=gradient
    )
    grid = one.predict_grid(problem, [middle(ell) for ell in range(1, 9)], [problem.ridge], method="plateau")
    slack = 1e-12 * (problem.target.second_moment + noise**2)
    assert np.all(grid.train_gain[:, 0] >= -slack)
    assert np.all(np.diff(grid.train_gain[:, 0]) >= -slack)
    assert np.all(grid.train_loss > 0)
    assert np.all(grid.train_mse[:, 0] <= grid.train_loss[:, 0] * (1 + 1e-9))
    test_slack = 1e-9 * grid[0, 0].untrained.test_error
    assert np.all(grid.test_gain[:, 0] >= -test_slack)
    assert np.all(np.diff(grid.test_gain[:, 0]) >= -test_slack)
    assert np.all(grid.test_error[:, 0] >= noise**2 * (1 - 1e-9))


def test_a_teacher_without_linear_part_gains_nothing():
    for gradient in ("labels", "full"):
        p = plateau(make(3, teacher=[0, 0, 1, 0.5], gradient=gradient))
        assert p.train_gain == pytest.approx(0, abs=1e-15)
        assert p.test_gain == pytest.approx(0, abs=1e-15)


def test_a_linear_teacher_gains_nothing_beyond_the_first_window_from_even_powers():
    """t has a single component H₁; adding x² (components 0 and 2) cannot capture more of it."""
    one_, two = (plateau(make(ell, teacher=[0, 1])) for ell in (1, 2))
    assert one_.test_gain > 0
    assert two.test_gain == pytest.approx(one_.test_gain, rel=1e-12)


@pytest.mark.parametrize(("activation", "ell", "same_as"), [("relu", 3, 2), ("tanh", 2, 1), ("erf", 4, 3)])
def test_powers_with_vanishing_coefficient_are_skipped(activation, ell, same_as):
    """ReLU has c₃ = 0, odd activations have c₂ = c₄ = 0: their windows add nothing."""
    upper, lower = (plateau(make(k, activation=activation)) for k in (ell, same_as))
    assert upper.test_error == lower.test_error
    assert upper.train_loss == lower.train_loss
    assert active_powers(make(activation=activation), ell) == active_powers(make(activation=activation), same_as)


@pytest.mark.parametrize(("readout", "powers"), [("gaussian", [1, 2]), ("constant", [1]), ("rademacher", [1, 2])])
def test_readouts_of_one_size_free_fewer_directions(readout, powers):
    """The theory of finite n tends to the limit of the exact step for each readout, and not to that of another."""
    p = make(2, n=10**16, d=10**16 // 2, N=3 * 10**16 // 2, activation="softplus", readout=readout)
    assert active_powers(p, 2) == powers
    assert_close(one.predict(p).test_error, one.predict(p, method="exact-plateau").test_error, rel=2e-3)
    six = make(6, readout=readout)
    assert active_powers(six, 6) == {"gaussian": [1, 2, 3, 4, 5, 6], "constant": [1], "rademacher": [1, 2]}[readout]


def test_skipping_a_power_is_not_skipping_a_window():
    """With c₂ = 0 the third window frees x and x³ only: the talk's sum restricted to those rows."""
    problem = make(3, activation=(0.0, 1.0, 0.0, 0.3))
    assert active_powers(problem, 3) == [1, 3]
    gains = [plateau(make(k, activation=(0.0, 1.0, 0.0, 0.3))).train_gain for k in (1, 2, 3)]
    assert gains[0] == gains[1] < gains[2]


def test_an_activation_without_linear_part_is_told_in_a_sentence():
    problem = make(1, activation=(0.0, 0.0, 1.0))
    with pytest.raises(one.TheoryError, match="needs c₁ ≠ 0"):
        plateau(problem)
    assert plateau(problem, throw=False).status is Status.ASSUMPTION
    assert plateau(problem.replace(step=one.Step.none())).status is Status.SOLVED


def test_an_uncentred_activation_is_told_in_a_sentence():
    with pytest.raises(one.TheoryError, match="centred"):
        plateau(make(1, activation="relu", centred=False))
    assert plateau(make(1, activation="tanh", centred=False)).status is Status.SOLVED  # its mean is 0 anyway


def test_scaling_the_teacher_scales_the_gains_in_labels_mode():
    """β scales with the labels, its direction does not change."""
    t = 7.0
    p, q = plateau(make(3)), plateau(make(3, teacher=[t * c for c in TEACHER], noise=t * 0.5))
    for name in ("train_loss", "train_mse", "test_error", "train_gain", "test_gain"):
        assert getattr(q, name) == pytest.approx(t**2 * getattr(p, name), rel=1e-9)


def test_an_infinite_penalty_still_fits_the_free_directions():
    """λ → ∞: the ridge part vanishes, the polynomial fit remains: E y² minus the projection of t on 1..x^ℓ's span."""
    problem = make(2, ridge=1e8)
    rho = direction(problem).overlap
    t1, t2 = TEACHER[1] * rho, TEACHER[2] * rho**2
    # spans of x and x² = H₂ + 1 under N(0, 1): x captures t₁², x² captures (2t₂)²/3
    left = problem.target.second_moment + 0.25 - t1**2 - (2 * t2) ** 2 / 3
    p = plateau(problem)
    assert p.train_loss == pytest.approx(left, rel=1e-6)
    # the fitted x²-coefficient 2t₂/3 leaves a constant; fresh data pay the same
    assert p.test_error == pytest.approx(left, rel=1e-6)


# ---------------------------------------------------------------- high windows


@pytest.mark.parametrize("ell", [9, 16, HIGHEST_DEGREE])
def test_high_windows_to_high_precision(ell):
    """Monomials up to x^ℓ are nearly dependent; 60 digits and normal equations say what the answer is."""
    before = dict(functions._REGISTRY)
    try:
        one.register(
            "bent",
            lambda z: np.maximum(z - 0.5, 0) + 0.2 * np.exp(-z * z),
            lambda z: (z > 0.5) - 0.4 * z * np.exp(-z * z),
        )
        problem = make(ell, activation="bent", teacher=[0.0] + [1 / math.factorial(k) for k in range(1, 40)])
        assert active_powers(problem, ell) == list(range(1, ell + 1))
        with mp.workdps(60):
            expected = talk_delta(problem, ell, *map(mp.mpf, m1_m2(problem)))
        p = plateau(problem)
    finally:
        functions._REGISTRY.clear()
        functions._REGISTRY.update(before)
        functions.resolve.cache_clear()
    assert p.status is Status.SOLVED
    assert p.train_gain == pytest.approx(float(expected), rel=1e-6)


def test_windows_beyond_the_highest_degree_say_what_was_left_out():
    p = plateau(make(HIGHEST_DEGREE + 3))
    assert str(HIGHEST_DEGREE) in p.message
    last = plateau(make(HIGHEST_DEGREE))  # the highest window of which nothing is left out
    assert last.message == Status.SOLVED.value
    assert p.test_gain >= last.test_gain - 1e-12


# ---------------------------------------------------------------- grids


def test_grid_equals_cell_by_cell():
    alphas, lams = [-0.2, 0.0, 0.1, 0.25, 0.3, 0.34, 0.47, 0.5], [1e-8, 1e-2, 3.0, 1e5]
    problem = make(1)
    grid = one.predict_grid(problem, alphas, lams, method="plateau")
    assert grid.test_error.shape == (8, 4)
    for i, alpha in enumerate(alphas):
        for j, lam in enumerate(lams):
            alone, cell = plateau(problem.at(exponent=alpha, ridge=lam), throw=False), grid[i, j]
            assert cell.problem == alone.problem
            assert cell.status is alone.status is grid.status[i, j]
            assert cell.message == alone.message
            for name in ("train_loss", "train_mse", "test_error", "train_gain", "test_gain"):
                a, b = getattr(alone, name), getattr(cell, name)
                np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-14)
                np.testing.assert_equal(getattr(grid, name)[i, j], b)
            assert cell.untrained.test_error == pytest.approx(alone.untrained.test_error, rel=1e-12)


@pytest.mark.parametrize(
    ("exponents", "ridges", "sentence"),
    [
        ([], [1.0], "exponents must be a non-empty list"),
        ([0.1], [], "ridges must be a non-empty list"),
        ([math.nan], [1.0], "exponents .*nan"),
        ([0.1], [0.0], "ridges must be .*above 0"),
        ([0.1], [-1.0], "ridges must be .*above 0"),
        ([0.1], [[1.0], [2.0]], "ridges"),
        (["a"], [1.0], "exponents must be a list of finite numbers"),
    ],
)
def test_bad_axes_are_told_in_a_sentence(exponents, ridges, sentence):
    with pytest.raises(one.InputError, match=sentence):
        one.predict_grid(make(1), exponents, ridges, method="plateau")


def test_unknown_method_is_told_in_a_sentence():
    with pytest.raises(one.InputError, match=r"method must be one of .*plateau.*got 'plato'"):
        one.predict(make(1), method="plato")


def test_results_can_be_written_as_json():
    import json

    row = plateau(make(step=one.Step(exponent=0.25)), throw=False).to_dict()
    assert json.loads(json.dumps(row, allow_nan=False))["test_error"] is None


# ---------------------------------------------------------------- the limit model, simulated


SEEDS = 24
FINITE_SIZE = 4 / 400  # the theory's corrections are O(1/d); four of them at d = 400


def centred_relu(z: np.ndarray) -> np.ndarray:
    return np.maximum(z, 0) - 1 / math.sqrt(2 * math.pi)


def unit_rows(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    w = rng.standard_normal((rows, columns))
    return w / np.linalg.norm(w, axis=1, keepdims=True)


def limit_model_of(k: int, n: int, d: int, N: int, lam: float, tests: int) -> np.ndarray:
    """Ridge on F₀ plus unpenalised g, …, g^ℓ, g = X̃β/|β|, β = Xᵀy/n, for ℓ = 0..3: objectives and test errors of seed k.

    β⋆ᵀx is drawn stratified. Drawn plainly, the mean of y² of a seed is skewed and spreads by 10 %, and t-statistics of
    24 seeds are far from Student's law.
    """
    rng, found = np.random.default_rng([2024, k]), np.empty((2, 4))
    star, W = unit_rows(rng, 1, d)[0], unit_rows(rng, N, d)

    def draw(size):
        x = rng.standard_normal((size, d))
        z = stratified(rng, size)
        x += np.outer(z - x @ star, star)
        return x, z + (z * z - 1) / math.sqrt(2) + 0.5 * rng.standard_normal(size)

    x, y = draw(n)
    beta = x.T @ y / n
    beta /= np.linalg.norm(beta)
    x, y = draw(n)
    x_test, y_test = draw(tests)
    features = np.hstack([centred_relu(x @ W.T), (x @ beta)[:, None] ** np.arange(1, 4)])
    fresh = np.hstack([centred_relu(x_test @ W.T), (x_test @ beta)[:, None] ** np.arange(1, 4)])
    gram = features.T @ features
    for ell in range(4):
        A, B = features[:, : N + ell], fresh[:, : N + ell]
        penalty = lam * n * (np.arange(N + ell) < N)
        w = np.linalg.solve(gram[: N + ell, : N + ell] + np.diag(penalty), A.T @ y)
        found[:, ell] = np.mean((y - A @ w) ** 2) + lam * np.sum(w[:N] ** 2), np.mean((y_test - B @ w) ** 2)
    return found


@pytest.fixture(scope="module")
def limit_model(seed, on_file) -> tuple[np.ndarray, np.ndarray]:
    """Objective and test error by seed and ℓ."""
    sizes = {"n": 1200, "d": 400, "N": 600, "lam": 0.05, "tests": 3000}
    seeds = list(seeds_from(seed, SEEDS))
    drawn = on_file(key_of("limit model", sizes), seeds, lambda these: [[limit_model_of(k, **sizes)] for k in these])
    objective, error = np.stack([found for (found,) in drawn], axis=1)
    return objective, error


# ReLU has c₃ = 0, so a window never frees x³ for it; a polynomial with ReLU's c₁ and power and c₃ ≠ 0 stands in for ℓ = 3
def limit_prediction(ell: int) -> Prediction:
    free = [k for k in (1, 2, 3) if k <= ell]
    problem = one.Problem(
        n=1200, d=400, N=600, activation="relu", teacher=[0, 1, 1 / math.sqrt(2)], noise=0.5, ridge=0.05, gradient="labels"
    )  # fmt: skip
    c1, power = problem.sigma.coefficients[1], problem.sigma.nonlinear_power
    c3 = 1e-3
    same_bulk = [0.0, c1, math.sqrt((power - 6 * c3**2) / 2), c3]
    step = one.Step(exponent=middle(ell)) if free else one.Step.none()
    return plateau(problem.replace(activation=same_bulk, step=step))


@pytest.mark.statistical(rate=2e-4)
@pytest.mark.parametrize("ell", [0, 1, 2, 3])
def test_limit_model_agrees_with_the_plateaus(limit_model, ell):
    """n, d, N = 1200, 400, 600, λ = .05, noise variance .25, centred ReLU, y = H₁ + H₂/√2.

    Four quantities per ℓ (objective, test error, and both gains paired by seed), 24 seeds, band
    max(1 % of the error, 5 standard errors): false-alarm rate below 16 × 4.7e-5 = 7.5e-4 over all ℓ.
    """
    assert false_alarm_rate(SEEDS, checks=16) < 1e-3
    objective, error = limit_model
    p = limit_prediction(ell)
    assert_agrees(p.train_loss, objective[:, ell], floor=FINITE_SIZE)
    assert_agrees(p.test_error, error[:, ell], floor=FINITE_SIZE)
    if ell:  # differences of errors: their finite-size gap is 1 % of the errors, not of the difference
        relative = FINITE_SIZE * p.untrained.test_error / p.test_gain
        assert_agrees(p.test_gain, error[:, 0] - error[:, ell], floor=relative)
        relative = FINITE_SIZE * p.untrained.train_loss / p.train_gain
        assert_agrees(p.train_gain, objective[:, 0] - objective[:, ell], floor=relative)


# ---------------------------------------------------------------- the direction of the gradient, simulated


@pytest.mark.statistical(rate=7e-3)
@pytest.mark.parametrize("gradient", ["full", "labels"])
@pytest.mark.parametrize("readout", ["gaussian", "constant", "rademacher"])
@pytest.mark.parametrize("n_step", [None, 1000])
def test_direction_of_the_gradient(gradient, readout, n_step, seed, on_file):
    """β = Xᵀr/n_step at n = 2000, d = 400, N = 800: |β|², β⋆ᵀβ, E r² and Var f₀ over 8 seeds.

    Band max(1 %, 5 standard errors): false-alarm rate of one check 1.6e-3 beyond the finite-size floor; seeds are fixed.
    """
    problem = one.Problem(
        n=2000, d=400, N=800, activation="relu", teacher=[0, 1, 1 / math.sqrt(2)], noise=0.5,
        gradient=gradient, readout=readout, n_step=n_step,
    )  # fmt: skip
    n, d, N = n_step or 2000, 400, 800

    def drawn(k):
        rng = np.random.default_rng([7, k])
        star, W = unit_rows(rng, 1, d)[0], unit_rows(rng, N, d)
        a = {
            "gaussian": lambda: rng.standard_normal(N) / math.sqrt(N),
            "constant": lambda: np.full(N, 1 / math.sqrt(N)),
            "rademacher": lambda: rng.choice([-1.0, 1.0], N) / math.sqrt(N),
        }[readout]()
        x, z = rng.standard_normal((n, d)), stratified(rng, n)
        x += np.outer(z - x @ star, star)
        r = z + (z * z - 1) / math.sqrt(2) + 0.5 * rng.standard_normal(n)
        f0 = centred_relu(x @ W.T) @ a
        if gradient == "full":
            r = r - f0
        beta = x.T @ r / n
        return np.array([beta @ beta, star @ beta, np.mean(r**2), np.mean(f0**2)])

    key = key_of("direction of the gradient", problem.to_dict())
    rows = [row for (row,) in on_file(key, seeds_from(seed, 8), lambda seeds: [[drawn(k)] for k in seeds])]
    s2, overlap, power, output = np.array(rows).T
    theory = direction(problem)
    assert_agrees(theory.s**2, s2, floor=FINITE_SIZE)
    assert_agrees(theory.s * theory.overlap, overlap, floor=FINITE_SIZE)
    assert_agrees(theory.residual_power, power, floor=FINITE_SIZE)
    if gradient == "full":
        assert_agrees(theory.output_power, output, floor=FINITE_SIZE)
        extra = 2 * problem.sigma.coefficients[2] ** 2 * N / d if readout == "constant" else 0.0
        assert theory.output_power == pytest.approx(problem.sigma.second_moment + extra, rel=EXACT)


def test_direction_of_a_teacher_without_power():
    theory = direction(make(1, teacher=[0, 0], noise=0.0))
    assert theory.s == 0
    assert theory.overlap == 0


@pytest.mark.parametrize(
    ("activation", "alpha", "tolerance"), [("relu", 0.3, 3e-4), ("shifted_erf", 0.36, 1e-3), ("softplus", 0.2, 3e-4)]
)
@pytest.mark.parametrize("gradient", ["labels", "full"])
def test_the_exact_step_has_the_limit_of_smoothed_powers(activation, alpha, tolerance, gradient):
    """The default theory at n = 1e15, windows 2, 3 and 1; in the first two the paper's limits are 0.3 to 1.2 % below."""
    problem = one.Problem(
        n=10**15,
        d=10**15 // 2,
        N=3 * 10**15 // 2,
        activation=activation,
        teacher=[0, 1, 0.5, 0.4],
        noise=0.5,
        ridge=0.1,
    )
    problem = problem.replace(gradient=gradient, step=one.Step(exponent=alpha))
    found = one.predict(problem).test_error
    assert one.predict(problem, method="exact-plateau").test_error == pytest.approx(found, rel=tolerance)
    assert (abs(plateau(problem).test_error / found - 1) > 3 * tolerance) == (alpha > 0.25)


def test_smoothed_powers_are_means_over_a_normal_number():
    z = np.linspace(-2, 2, 9)
    g, weight = np.polynomial.hermite_e.hermegauss(12)
    expected = ((z[:, None] + math.sqrt(0.7) * g) ** np.arange(6)[:, None, None]) @ (weight / weight.sum())
    hermite = np.array([np.polynomial.hermite_e.HermiteE.basis(i)(z) / math.sqrt(math.factorial(i)) for i in range(6)])
    np.testing.assert_allclose(smoothed_powers(5, 0.7) @ hermite, expected, atol=1e-12)


def test_what_spikes_capture_has_its_derivative():
    """By λ: of the cube alone, which is of degree one and three, so that more of one is less of the other."""
    p = one.Problem(n=1000, d=500, N=1500, activation="relu", teacher=[0, 1, 0.7, 0.5], noise=0.5)
    at, h = np.array([0.02, 0.3]), 1e-6
    low, (_, slope), high = (captured(bulk_of(p, at + s * h), [3], p.target.normalised, 0.7) for s in (-1, 0, 1))
    np.testing.assert_allclose(slope, (high[0] - low[0]) / (2 * h), rtol=1e-6)
