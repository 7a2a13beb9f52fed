"""Baselines: closed forms, their order, and a direct simulation of the linear one."""

from __future__ import annotations

import numpy as np
import pytest

import onestride as one
from onestride.result import Status
from onestride.simulation.network import draw_batch
from onestride.theory.baselines import BASELINES, kernel_bound, linear_ridge
from tolerances import EXACT, assert_agrees, assert_close, seeds_from


def problem(**changes):
    fields = {
        "n": 1000,
        "d": 500,
        "N": 1500,
        "teacher": [0, 1, 2**-0.5],
        "noise": 0.5,
        "step": one.Step(constant=1, exponent=0.4),
    }
    return one.Problem(**(fields | changes))


def test_every_baseline_has_a_value_and_a_sentence():
    rows = one.baselines(problem())
    assert tuple(rows) == BASELINES
    for name, row in rows.items():
        assert row.method == name
        assert np.isfinite(row.test_error)
        assert len(row.message) > 20
        assert row.to_dict()["test_error"] == row.test_error


def test_closed_forms():
    rows = one.baselines(problem())
    assert_close(rows["bayes"].test_error, 0.25, rel=EXACT)
    assert_close(rows["best-linear"].test_error, 1.25, rel=EXACT)
    assert_close(rows["kernel"].test_error, 1.25, rel=EXACT)


def test_direction_only_is_the_conditional_variance():
    """Labels gradient: ϱ² = 1/(1 + φ(2 + 0.25)); risk (1 − ϱ²) + (1 − ϱ⁴) + noise²."""
    square = 1 / (1 + 0.5 * 2.25)
    value = one.baselines(problem(gradient="labels"))["direction-only"].test_error
    assert_close(value, (1 - square) + (1 - square**2) + 0.25, rel=EXACT)


def test_random_features_is_the_untrained_prediction():
    p = problem()
    untrained = one.predict(p).untrained
    assert untrained is not None
    assert_close(one.baselines(p)["random-features"].test_error, untrained.test_error, rel=EXACT)


@pytest.mark.parametrize("ridge", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("sizes", [{}, {"d": 60}, {"d": 20}, {"n": 300, "d": 20}], ids=str)
def test_baselines_are_in_order(ridge, sizes):
    rows = {k: v.test_error for k, v in one.baselines(problem(ridge=ridge, **sizes)).items()}
    assert rows["bayes"] <= rows["direction-only"]
    assert rows["bayes"] <= rows["kernel"] <= rows["random-features"]
    assert rows["best-linear"] <= rows["linear-ridge"]


@pytest.mark.parametrize("inputs", ["gaussian", "ar1"])
def test_a_linear_teacher_without_noise_leaves_ridge_regression_nothing(inputs):
    p = one.Problem(n=1600, d=200, N=400, teacher=[0, 1], inputs=inputs)
    assert linear_ridge(p) == 0
    assert linear_ridge(p.replace(noise=1e-3)) == pytest.approx(1e-6 / (1 - 1 / 8), rel=1e-3)


def test_linear_ridge_has_its_best_penalty():
    p = problem()
    best = linear_ridge(p)
    optimum = p.phi * 1.25 / 1.0
    assert_close(best, linear_ridge(p, optimum), rel=EXACT)
    assert all(linear_ridge(p, optimum * f) > best for f in (0.5, 0.9, 1.1, 2.0))


def test_kernel_bound_keeps_the_power_of_degrees_that_are_not_resolved():
    """c₇²·7! = 0.3 of degree seven, above those resolved; of it 4,000 samples hold nothing, and 21/d at most lies in lower harmonics."""
    teacher = [0, 1, 0, 0, 0, 0, 0, (0.3 / 5040) ** 0.5]
    left = one.baselines(problem(d=60, n=4000, teacher=teacher))["kernel"].test_error - 0.25
    assert 0.3 * (1 - 21 / 60) < left <= 0.3 * (1 + 1e-9)


def test_kernel_bound_falls_as_samples_reach_the_harmonics_of_degree_two():
    """E h_2² = 1, of which 1 − 1/d lies in harmonics of degree 2, the rest in the length of x: B_2 = 1,829 at d = 60, n = 1,000 and 4,000."""
    few, many = (one.baselines(problem(d=60, n=n))["kernel"].test_error - 0.25 for n in (1000, 4000))
    assert_close(few, (1 - 1 / 60) * (1 - 1000 / 1829), rel=1e-3)
    assert_close(many, 0, rel=0, abs_=1e-6)
    near = problem(n=100, d=77, N=40)  # B_2 = 3,002: resolved up to max(n, N) = 50
    assert_close(one.baselines(near)["kernel"].test_error, 1.25, rel=0.04)


def test_kernel_bound_of_one_input_is_a_number():
    """One input has no harmonics of degree 2, of which a kernel would miss a part."""
    assert kernel_bound(problem(n=1, d=1, N=1)) == 0.25


@pytest.mark.statistical(rate=5e-5)
def test_linear_ridge_is_what_ridge_regression_gets(seed):
    """n = 400, d = 200, 40 seeds, k = 5, floor 1 %: false-alarm rate below 2e-5 per penalty."""
    n, d = 400, 200
    p = problem(n=n, d=d, N=600)
    rng = np.random.default_rng(1000 * seed + 1)
    for lam in (0.05, 0.625, 3.0):
        errors = []
        for _ in range(40):
            X = rng.standard_normal((n, d))
            y = p.target(X[:, 0]) + p.noise * rng.standard_normal(n)
            w = np.linalg.solve(X.T @ X / n + lam * np.eye(d), X.T @ y / n)
            w[0] -= 1
            errors.append(w @ w + 1.25)
        assert_agrees(linear_ridge(p, lam), np.array(errors), floor=0.01)


def test_purely_nonlinear_teacher_leaves_the_linear_fit_nothing():
    rows = one.baselines(problem(teacher=[0, 0, 1.0], gradient="labels"))
    assert_close(rows["linear-ridge"].test_error, 2.25, rel=EXACT)
    assert_close(rows["direction-only"].test_error, 2.25, rel=EXACT)


def test_a_baseline_without_a_theory_says_so_and_the_others_stand():
    """n = 8 is too small for the untrained network's theory: NaN with its status; closed forms need no size."""
    rows = one.baselines(problem(n=8))
    assert np.isnan(rows["random-features"].test_error)
    assert rows["random-features"].status is Status.ASSUMPTION
    assert {row.status for name, row in rows.items() if name != "random-features"} == {Status.SOLVED}


@pytest.mark.statistical(rate=2e-3)
def test_linear_ridge_with_a_covariance(seed):
    """Σ = I is the closed form; a covariance with two eigenvalues against ridge regressions, 8 seeds, k = 5, 2 % floor.

    A false alarm in 2 of 1,000 runs at most.
    """
    p = problem(n=300, d=150, teacher=(0, 1.0))
    flat = p.replace(inputs=one.Covariance((1.0,) * 150))
    for ridge in (0.1, None):
        assert_close(linear_ridge(flat, ridge), linear_ridge(p, ridge), rel=1e-9)
    bent = p.replace(inputs=one.Covariance((1.8,) * 75 + (0.2,) * 75))
    found = []
    for s in seeds_from(seed, 8):
        train = draw_batch(bent, s, "ridge_inputs", "ridge_noise", bent.n)
        test = draw_batch(bent, s, "test_inputs", None, 4000)
        w = np.linalg.solve(train.X.T @ train.X / bent.n + 0.3 * np.eye(bent.d), train.X.T @ train.y / bent.n)
        found.append(((test.signal - test.X @ w) ** 2).mean() + bent.noise**2)
    assert_agrees(linear_ridge(bent, 0.3), np.array(found), floor=0.02)
    assert linear_ridge(bent) <= linear_ridge(bent, 0.3)


def test_baselines_follow_covariances_and_several_steps():
    rows = one.baselines(problem(n=300, d=150, N=200, inputs="ar1"))
    assert "kernel" not in rows
    assert rows["bayes"].test_error < rows["best-linear"].test_error < rows["linear-ridge"].test_error
    once, thrice = (one.baselines(problem(gradient="labels", steps=k))["direction-only"].test_error for k in (1, 3))
    assert thrice < once
    with pytest.raises(one.InputError, match="random lengths"):
        one.baselines(problem(inputs="elliptic"))
