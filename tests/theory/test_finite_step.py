"""The finite-step theory, and the smoothed functions all finite-n theories share."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

import onestride as one
from onestride import Step
from onestride.functions import resolve
from onestride.result import Status
from onestride.theory import finite_step, plateau
from onestride.theory.direction import direction
from onestride.theory.expansion import expansion_distance
from onestride.theory.profile import errors as profile
from onestride.theory.profile.smoothing import LARGEST_REACH, smooth, smooth_directly
from profiles import by_ratios as problem
from tolerances import EXACT, assert_close

# ------------------------------------------------------------------ smoothing


def relu_smoothed(t, v):
    s = np.sqrt(v)
    density, below = np.exp(-t * t / (2 * v)) / np.sqrt(2 * np.pi), ndtr(t / s)
    mean, square = t * below + s * density, (t * t + v) * below + t * s * density
    return mean - resolve("relu", True).shift, below, square - mean**2 - v * below**2, s / 2 * density


@pytest.mark.parametrize("v", [0.01, 0.3, 0.9, 0.9987, 1.5, 4.1, 100.0, 5e4])
def test_smoothed_relu_matches_its_closed_form(v):
    t = np.sqrt(v) * np.linspace(-6, 6, 301)
    for got, exact in zip(smooth(resolve("relu", True), t, v), relu_smoothed(t, v), strict=True):
        assert_close(got, exact, rel=0, abs_=1e-12 * v)


@pytest.mark.parametrize("name", ["tanh", "softplus", "gelu", "sin", "elu"])
def test_table_and_direct_quadrature_agree(name):
    f, t = resolve(name, True), np.linspace(-8, 8, 33)
    for table, direct in zip(smooth(f, t, 0.97), smooth_directly(f, t, 0.97), strict=True):
        assert_close(table, direct, rel=0, abs_=1e-12)


def test_smoothing_far_from_the_kink_is_exact():
    """θz of thousands: μ = t, k = 1, and k₂ must be 0 although Var f − v k² cancels."""
    t = np.array([-6000.0, -300.0, 300.0, 6000.0])
    mu, k, k2, e = smooth(resolve("relu", True), t, 1.0)
    assert_close(mu + resolve("relu", True).shift, np.maximum(t, 0), rel=1e-13, abs_=1e-12)
    assert_close(k, t > 0, rel=1e-12, abs_=1e-12)
    assert_close(np.stack([k2, e]), 0, rel=0, abs_=1e-11)


def test_smoothing_beyond_its_reach_is_nan_not_wrong():
    assert np.isnan(smooth(resolve("relu", True), np.array([2 * LARGEST_REACH]), 1.0).mu).all()


@pytest.mark.parametrize("overlap", [0.3, 0.7, 0.95, 0.999])
def test_teacher_with_a_kink_is_split_to_1e_8(overlap):
    """h0, h1, hr of the relu teacher against closed forms, ζ of variance 1 − ρ² however small."""
    z, v = np.linspace(-5, 5, 41), 1 - overlap**2
    for got, exact in zip(
        smooth_directly(resolve("relu", True), overlap * z, v), relu_smoothed(overlap * z, v), strict=True
    ):
        assert_close(got, exact, rel=0, abs_=1e-10)


def test_smoothed_mean_is_the_hermite_series_at_unit_variance():
    f = resolve((0.0, 1.0, 0.5, 0.2), True)
    t = np.linspace(-3, 3, 13)
    assert_close(smooth(f, t, 1.0).mu, np.polynomial.polynomial.polyval(t, [0, 1, 0.5, 0.2]), rel=1e-12, abs_=1e-12)


# ------------------------------------------------------------------ the theory

# reference values of the theory (train, test) at n = 1500 from an independent prototype, to the digits it printed
PUBLISHED = [
    ("softplus", "labels", (0.5, 1.5), 0.0, 0.2, 1e-2, "0.2322", "2.158"),
    ("softplus", "labels", (0.5, 1.5), 0.0, 0.5, 1e-1, "0.5116", "1.28"),
    ("relu", "labels", (0.5, 1.5), 0.5, 0.3, 1e-1, "0.5375", "1.94"),
    ("relu", "labels", (1.0, 0.5), 0.0, 0.4, 1e0, "1.388", "1.558"),
    ("tanh", "labels", (1.0, 0.5), 0.0, 0.5, 1e-3, "0.6952", "2.708"),
    ("softplus", "full", (0.5, 1.5), 0.0, 0.2, 1e-1, "0.6116", "1.513"),
    ("softplus", "full", (0.5, 1.5), 0.0, 0.4, 1e-3, "0.03946", "2.896"),
]


@pytest.mark.parametrize(("act", "gradient", "shape", "noise", "alpha", "lam", "train", "test"), PUBLISHED)
def test_reproduces_the_published_numbers(act, gradient, shape, noise, alpha, lam, train, test):
    p = one.predict(
        problem(activation=act, gradient=gradient, shape=shape, noise=noise, step=Step(exponent=alpha), ridge=lam),
        method="finite-step",
    )
    assert f"{p.train_loss:.4g}" == train
    assert f"{p.test_error:.4g}" == test


@pytest.mark.parametrize("gradient", ["labels", "full"])
def test_zero_step_is_random_features(gradient):
    """At η = 0 and n = 1e9 (O(1/d) gone) finite-step equals the plateau theory's untrained errors."""
    p = problem(n=10**9, gradient=gradient, noise=0.5)
    lam = np.geomspace(1e-3, 1, 4)
    a, b = finite_step.errors(p, [Step.none()], lam), plateau.errors(p, [Step.none()], lam)
    for name in ("train_loss", "train_mse", "test_error"):
        assert_close(getattr(a, name), getattr(b, name), rel=1e-7)


@pytest.mark.parametrize("gradient", ["labels", "full"])
def test_plateau_is_the_limit_of_large_n_inside_a_window(gradient):
    """α = 0.2, window 1: the gap falls with n, to 1e-3 at n = 1e14."""
    gaps = []
    for n in (10**8, 10**11, 10**14):
        p = problem(n=n, gradient=gradient, step=Step(exponent=0.2))
        a, b = (t.errors(p, [p.step], [0.1]) for t in (finite_step, plateau))
        gaps.append(max(abs(a.train_loss / b.train_loss - 1).item(), abs(a.test_error / b.test_error - 1).item()))
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-3


@pytest.mark.parametrize("gradient", ["labels", "full"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_is_the_profile_theory_for_weak_steps(activation, gradient):
    """η = n^α with α → −∞ ∪ n → ∞: at n = 1e8, η = 1 the frozen bulk is exact to 1e-5."""
    p = problem(n=10**8, activation=activation, gradient=gradient, step=Step(exponent=0.0), noise=0.5)
    a, b = finite_step.errors(p, [p.step], [0.1]), profile.errors(p, [p.step], [0.1])
    for name in ("train_loss", "train_mse", "test_error"):
        assert_close(getattr(a, name), getattr(b, name), rel=1e-5)


@pytest.mark.parametrize("gradient", ["labels", "full"])
def test_train_mse_is_the_derivative_of_the_objective(gradient):
    """Train MSE = −λ² dY/dλ with objective λY, by central differences."""
    p, lam, h = problem(gradient=gradient, step=Step(exponent=0.3)), 0.1, 1e-5
    e = finite_step.errors(p, [p.step], [lam * (1 - h), lam, lam * (1 + h)])
    Y = e.train_loss[0] / (lam * np.array([1 - h, 1, 1 + h]))
    assert_close(e.train_mse[0, 1], -(lam**2) * (Y[2] - Y[0]) / (2 * h * lam), rel=1e-8)


def test_ten_thousand_cells_come_from_one_call():
    g = one.predict_grid(
        problem(step=Step()), np.linspace(0, 0.5, 100), np.geomspace(1e-3, 1, 100), method="finite-step"
    )
    assert g.test_error.shape == (100, 100)
    assert np.isfinite(g.test_error).all()
    assert g.trained.residual.max() < EXACT


def test_a_failed_assumption_is_nan_with_a_sentence():
    p = one.predict(problem(step=Step(exponent=0.6)), method="finite-step", throw=False)
    assert np.isnan([p.train_loss, p.train_mse, p.test_error]).all()
    assert p.status is Status.ASSUMPTION
    assert "α ≤ 1/2" in p.message


# ------------------------------------------------------------------ distance from the expansion


@pytest.mark.parametrize("readout", ["rademacher", "gaussian"])
@pytest.mark.parametrize("n_step", [None, 500])
def test_distance_from_the_expansion_of_a_quadratic_activation(readout, n_step):
    """σ = H₁ + c₂H₂: μ(u; v) = u + c₂(u² + v − 1), so F − F₂ is c₂(v − 1) and F − F₁ that and c₂u².

    With v − 1 = κA², κ = η²(d/n_step) E r² Var σ'/N, Var σ' = 4c₂², the first is √N c₂κ √(E A⁴); and with u = θz,
    θ² = τ²A², the second is √N c₂ √(E A⁴) · √((κ + τ²)² + 2τ⁴).
    """
    c2 = 0.3
    p = problem(activation=(0.0, 1.0, c2), readout=readout, noise=0.5, n_step=n_step, step=Step(exponent=0.4))
    beta, fourth = direction(p), 3.0 if readout == "gaussian" else 1.0
    kappa = p.eta**2 * p.d / p.step_samples * beta.residual_power * 4 * c2**2 / p.N
    tau2 = (p.eta * beta.s) ** 2 / p.N
    size = np.sqrt(p.N) * c2 * np.sqrt(fourth)
    assert_close(expansion_distance(p, 2), size * kappa, rel=1e-6)
    assert_close(expansion_distance(p, 1), size * np.hypot(kappa + tau2, np.sqrt(2) * tau2), rel=1e-6)


@pytest.mark.parametrize("activation", ["relu", "tanh", "softplus"])
def test_how_far_weak_steps_are_from_the_level_full(activation):
    """As docs/methods.md says: test errors within 1 %, training errors within 2.5 %."""
    p = one.Problem(n=1500, d=750, N=2250, activation=activation, teacher=[0, 1, 0.7071], step=Step())
    quick, full = (
        one.predict_grid(p, [0, 0.1, 0.25], [0.1, 1.0], **how) for how in ({"method": "finite-step"}, {"level": "full"})
    )
    for name, limit in {"test_error": 0.01, "train_loss": 0.025, "train_mse": 0.025}.items():
        assert_close(getattr(quick, name), getattr(full, name), rel=limit)
