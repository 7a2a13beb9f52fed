"""Learned components: predicted by the leave-one-out bilinear form, measured by regression on fresh inputs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermeval, hermevander

import onestride as one
from onestride._backend import stream
from onestride.simulation import learned as simulated
from onestride.simulation.network import (
    Network,
    draw_batch,
    draw_network,
    draw_teacher,
    gradient,
    step_batch,
    step_gradient,
)
from onestride.theory.learned import _each_split, _polynomials_split, residual_moments
from onestride.theory.profile.build import build_model
from onestride.theory.profile.equations import solve
from onestride.theory.profile.quadratic_form import quadratic_form
from tolerances import assert_agrees, assert_close, seeds_from


def problem(alpha=0.45, **changes):
    fields = {
        "n": 600,
        "d": 300,
        "N": 900,
        "activation": "relu",
        "teacher": [0, 1, 2**-0.5],
        "ridge": 0.05,
        "gradient": "labels",
    }
    fields |= {"step": one.Step(constant=2, exponent=alpha)} | changes
    return one.Problem(**fields)


@pytest.mark.parametrize("d", [300, 12])
def test_polynomials_split_at_once_as_one_by_one(d):
    p = problem(d=d, teacher=[0, 1, 0.5, 0.2])
    model = build_model(p, "full", nodes=9) if d > 100 else build_model(p, nodes=9)
    (parts, both), (expected, products) = _polynomials_split(model, p.target), _each_split(model, p.target)
    assert_close(np.array(both), np.array(products), rel=1e-9, abs_=1e-9)
    for row, other in zip(parts, expected, strict=True):
        for x, y in zip(row, other, strict=True):
            assert_close(x, y[:, : x.shape[1]] if y.ndim > 1 else y, rel=1e-9, abs_=1e-9)


def test_only_degrees_of_the_teacher_are_listed():
    assert one.learned(problem(teacher=[0, 1, 0, 0.2])).degrees == (1, 3)
    assert one.measure_learned(problem(n=60, d=30, N=90, teacher=[0, 1, 0, 0.2]), 1).degrees == (1, 3)


def test_random_features_learn_only_the_linear_part():
    """Exactly 0 in the limit; at finite d the theory keeps O(1/d) of degree 2."""
    untrained = one.learned(problem(n=60000, d=30000, N=90000)).untrained
    assert untrained is not None
    assert 0.5 < untrained.fraction[0] < 1
    assert abs(untrained.fraction[1]) < 1e-3


def test_random_features_fraction_is_the_closed_form():
    """E[f̂ H₁] = c⋆₁(1 − U/ρ) for η = 0: the bilinear form between H₁/ρ and c⋆₁H₁."""
    from onestride.theory.bulk import solve_bulk

    p = problem(n=10**7, d=5 * 10**6, N=15 * 10**6)
    untrained = one.learned(p).untrained
    bulk = solve_bulk(p.ridge, p.phi, p.psi, p.sigma.coefficients[1], p.sigma.nonlinear_power)
    assert untrained is not None
    assert_close(untrained.fraction[0], 1 - float(bulk.U / bulk.rho), rel=1e-5)


def test_full_penalty_learns_nothing_and_large_samples_learn_the_linear_part():
    assert np.abs(one.learned(problem(ridge=1e8)).fraction).max() < 1e-4
    assert one.learned(problem(n=30000, ridge=1e-3, N=3000)).fraction[0] > 0.97


def test_full_penalty_leaves_nothing_unexplained_whatever_the_noise():
    """λ → ∞: f̂ → 0, and E f̂² = L − σ_ε² − E σ⋆² + 2E[σ⋆f̂] must leave no noise behind."""
    for noise in (0.0, 0.5, 2.0):
        assert one.learned(problem(ridge=1e8, noise=noise)).unexplained < 1e-4


def test_each_network_has_its_own_status(monkeypatch):
    """A step that is known to be off leaves the untrained network's numbers trusted, and the other way round."""
    from onestride.result import Status
    from onestride.theory import learned as module

    for off in (True, False):
        monkeypatch.setattr(module, "known_off", lambda p, off=off: "why" if (p.eta > 0) is off else None)
        found = one.learned(problem(n=200, d=100, N=300))
        assert found.untrained is not None
        states = [(x.status, "why" in x.message) for x in (found, found.untrained)]
        assert states[0] == ((Status.INACCURATE, True) if off else (Status.SOLVED, False))
        assert states[1] == ((Status.SOLVED, False) if off else (Status.INACCURATE, True))


def test_teacher_moment_is_the_sum_of_its_hermite_moments():
    """For a teacher of degree ≤ 4, E[σ⋆(y − f̂)] = Σ_k c⋆_k√k! E[h_k(y − f̂)]."""
    p = problem(teacher=[0, 0.8, 0.5, 0.2, 0.1])
    profile = build_model(p, "T2M")
    moments = residual_moments(profile, solve(profile, p.ridge))
    c = p.target.coefficients[:5] * np.sqrt([1, 1, 2, 6, 24])
    assert_close(moments[-1], moments[:-1] @ c, rel=1e-9)


def test_constant_rho_makes_the_moment_the_quadratic_form():
    """At η = 0 ρ is constant up to O(1/d), and E[y(y − f̂)] = Y/ρ."""
    p = problem(n=10**7, d=5 * 10**6, N=15 * 10**6, step=one.Step.none(), noise=0.3)
    profile = build_model(p, "T2")
    solution = solve(profile, p.ridge)
    Y, _ = quadratic_form(profile, solution)
    moment = residual_moments(profile, solution)[-1] + p.noise**2
    assert_close(moment, float(np.real(Y)) / solution.rho[0], rel=1e-5)


def test_power_of_the_predictor_is_not_negative():
    for ridge in (1e-4, 0.1, 100.0):
        assert one.learned(problem(ridge=ridge)).unexplained >= 0


@pytest.mark.statistical(rate=6e-3)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"gradient": "full", "activation": "softplus", "noise": 0.5, "ridge": 0.1},
        {"d": 600, "N": 300, "teacher": "relu", "activation": "tanh", "ridge": 0.01},
    ],
    ids=["relu", "softplus-full-noise", "tanh-wide-input"],
)
def test_measured_components_are_the_predicted_ones(changes, seed):
    """n = 600, 10 seeds, k = 5, floor 0.05 of full learning: false-alarm rate below 8e-4 per number."""
    p = problem(**changes)
    predicted, measured = one.learned(p), one.measure_learned(p, seeds_from(seed, 10))
    for a, b in ((predicted, measured), (predicted.untrained, measured.untrained)):
        assert a is not None
        assert b is not None
        for j in range(len(a.degrees)):
            assert_agrees(1 + a.fraction[j], 1 + b.fraction.values[:, j], floor=0.05)
        assert_agrees(a.unexplained, b.unexplained.values, floor=0.06)


def test_untrained_network_learns_degree_two_once_samples_reach_its_harmonics():
    """n = N/2, about d and 100 B_2: first degree 1 alone, then degrees 1 and 2 in full."""
    few, many = (
        one.learned(problem(n=n, d=20, N=2 * n, activation="softplus", teacher=[0, 1, 0.5], ridge=1e-4)).untrained
        for n in (25, 20_000)
    )
    assert few is not None
    assert many is not None
    assert few.fraction[1] < 0.3
    assert (many.fraction > 0.97).all()


@pytest.mark.statistical(rate=5e-3)
@pytest.mark.parametrize(("d", "activation"), [(30, "relu"), (20, "tanh")])
def test_measured_components_with_few_inputs_are_the_predicted_ones(d, activation, seed):
    """n = 600, 12 seeds, k = 5, floor 0.05 of full learning: false-alarm rate below 4e-4 per number, eight of them."""
    p = problem(0.4, d=d, activation=activation, teacher=[0, 1, 2**-0.5, 0.3], noise=0.5, gradient="full", ridge=0.1)
    predicted, measured = one.learned(p), one.measure_learned(p, seeds_from(seed, 12))
    for a, b in ((predicted, measured), (predicted.untrained, measured.untrained)):
        assert a is not None
        assert b is not None
        for j in range(3):
            assert_agrees(1 + a.fraction[j], 1 + b.fraction.values[:, j], floor=0.05)
        luck = b.fraction.values.var(axis=0, ddof=1) @ [1, 1, 6 * 0.3**2]  # of components, which theory counts here
        assert_agrees(a.unexplained, b.unexplained.values + luck, floor=0.08)


@pytest.mark.parametrize("sizes", [{"n": 60, "N": 90}, {"n": 90, "N": 60}], ids=["n < N", "n > N"])
@pytest.mark.parametrize("steps", [1, 2])
def test_measured_components_are_those_of_plain_code(sizes, steps):
    """Normal equations, least squares on H_0 … H_4, and the mean square of what is left, from their definitions."""
    p = problem(**sizes, d=30, noise=0.3, gradient="full", teacher=[0, 1, 0.5, 0.2], steps=steps)
    seed, rows = 4, 700
    network, beta = draw_network(p, seed), draw_teacher(p, seed)
    W = network.W0
    for step in range(steps):
        W = W + p.eta * gradient(p, Network(W, network.a), step_batch(p, seed, step)).G
    data = draw_batch(p, seed, "ridge_inputs", "ridge_noise", p.n)
    T = stream(seed, "test_inputs").standard_normal((rows, p.d))
    H = np.stack([hermeval(T @ beta, np.eye(5)[k]) for k in range(5)], axis=1)
    found = one.measure_learned(p, [seed], n_test=rows)
    assert found.untrained is not None
    for weights, measured in ((network.W0, found.untrained), (W, found)):
        F = p.sigma(data.X @ weights.T)
        a = np.linalg.solve(F.T @ F / p.n + p.ridge * np.eye(p.N), F.T @ data.y / p.n)
        f = p.sigma(T @ weights.T) @ a
        coefficients, left, _, _ = np.linalg.lstsq(H, f)
        assert measured.unexplained.values[0] == pytest.approx(left[0] / (rows - 5), rel=1e-7)
        np.testing.assert_allclose(measured.fraction.values[0], coefficients[1:4] / [1, 0.5, 0.2], rtol=1e-6)


def test_measured_components_rebuild_the_test_error(seed):
    """f̂ on the test inputs by plain code, H = (h_0 … h_4) of β⋆ᵀx there: what is measured is its regression on H.

    mean (σ⋆ − f̂)² = mean (Hδ)² + unexplained·(m − 5)/m, δ the error of the components, since the rest is orthogonal to H.
    """
    p, k, m = problem(noise=0.5, n=60, d=30, N=90), 1000 * seed, 500
    network, train = draw_network(p, k), draw_batch(p, k, "ridge_inputs", "ridge_noise", p.n)
    W = network.W0 + p.eta * step_gradient(p, network, k).G
    F = p.sigma(train.X @ W.T)
    a = np.linalg.solve(F.T @ F / p.n + p.ridge * np.eye(p.N), F.T @ train.y / p.n)
    X = stream(k, "test_inputs").standard_normal((m, p.d))
    H = hermevander(X @ draw_teacher(p, k), 4) / np.sqrt([1, 1, 2, 6, 24])
    components, (rest,), *_ = np.linalg.lstsq(H, p.sigma(X @ W.T) @ a)
    measured = one.measure_learned(p, [k], n_test=m)
    assert_close(measured.fraction.values[0], components[1:3], rel=1e-8)  # the teacher is h_1 + h_2
    assert_close(measured.unexplained.values[0], rest / (m - 5), rel=1e-8)
    delta = np.array([0, 1, 1, 0, 0]) - components
    rebuilt = np.mean((H @ delta) ** 2) + measured.unexplained.values[0] * (m - 5) / m + p.noise**2
    assert_close(one.simulate(p, [k], n_test=m).test_error.raw.values[0], rebuilt, rel=1e-8)


def test_bad_arguments_are_named():
    with pytest.raises(one.InputError, match="n_test"):
        one.measure_learned(problem(), 1, n_test=3)
    with pytest.raises(one.TheoryError, match="at least 10"):
        one.learned(problem(N=8))


@pytest.mark.slow
@pytest.mark.statistical(rate=3e-3)
@pytest.mark.parametrize("alpha", [0.2, 0.35, 0.5])
@pytest.mark.parametrize("gradient", ["labels", "full"])
def test_components_at_larger_size(alpha, gradient, seed):
    """n = 2000, 10 seeds, k = 5, floor 0.02: false-alarm rate below 8e-4 per number."""
    p = problem(alpha, n=2000, d=1000, N=3000, gradient=gradient, noise=0.3)
    predicted, measured = one.learned(p), one.measure_learned(p, seeds_from(seed, 10))
    for j in range(2):
        assert_agrees(1 + predicted.fraction[j], 1 + measured.fraction.values[:, j], floor=0.02)
    assert_agrees(predicted.unexplained, measured.unexplained.values, floor=0.03)


def test_the_predictor_is_expanded_over_four_times_the_samples(monkeypatch):
    rows = []
    monkeypatch.setattr(simulated, "_one_seed", lambda *given, **_: rows.append(given[3]) or np.zeros((2, 6)))
    for n in (500, 2000):
        one.measure_learned(one.Problem(n=n, d=20, N=30, step=one.Step()), seeds=1)
    assert rows == [4000, 8000]
