"""The untrained network: m₁, m₂ and the random-features errors, against three formulations the package does not use.

Mei and Montanari's closed form, the two polynomial equations of the talk refined to 80 digits, and Marchenko-Pastur.
"""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onestride as one
from onestride.result import Status
from onestride.theory.bulk import RESIDUAL_TOLERANCE, solve_bulk
from tolerances import CLOSED_FORM, EXACT, assert_close

RELU = (0.5, 0.25 - 1 / (2 * math.pi))  # c₁ and c_{>1}² of centred ReLU

# ---------------------------------------------------------------- references


def mei_montanari_test_error(problem: one.Problem) -> float:
    """Their formula for the risk (neighbours.md), noise added, all at 60 digits; λ_MM = λψ."""
    with mp.workdps(60):
        c1, cg2 = mp.mpf(problem.sigma.coefficients[1]), mp.mpf(problem.sigma.nonlinear_power)
        p1, p2 = mp.mpf(problem.N) / problem.d, mp.mpf(problem.n) / problem.d
        z2 = c1**2 / cg2
        u = mp.sqrt(p1 * p2 * mp.mpf(problem.ridge) / p1 / cg2)

        def step(a, b):
            return p1 / (u + b + z2 * b / (1 + z2 * a * b)), p2 / (u + a + z2 * a / (1 + z2 * a * b))

        # alternate updates converge from the a = ∞ side; Newton then polishes to 50 digits
        a, b = float(p1 / u), float(p2 / u)
        fu, fz, f1, f2 = float(u), float(z2), float(p1), float(p2)
        for _ in range(20_000):
            new = f1 / (fu + b + fz * b / (1 + fz * a * b))
            b = f2 / (fu + new + fz * new / (1 + fz * new * b))
            if abs(new - a) <= 1e-15 * a:
                break
            a = new
        a, b = mp.findroot(lambda a, b: [x - y for x, y in zip(step(a, b), (a, b), strict=True)], (a, b), tol=1e-80)
        assert a > 0
        assert b > 0
        chi, z4, z6 = -a * b, z2**2, z2**3
        E0 = (
            -(chi**5) * z6 + 3 * chi**4 * z4 + (p1 * p2 - p1 - p2 + 1) * chi**3 * z6 - 2 * chi**3 * z4
            - 3 * chi**3 * z2 + (p1 + p2 - 3 * p1 * p2 + 1) * chi**2 * z4 + 2 * chi**2 * z2 + chi**2
            + 3 * p1 * p2 * chi * z2 - p1 * p2
        )  # fmt: skip
        E1 = p2 * chi**3 * z4 - p2 * chi**2 * z2 + p1 * p2 * chi * z2 - p1 * p2
        E2 = (
            chi**5 * z6 - 3 * chi**4 * z4 + (p1 - 1) * chi**3 * z6 + 2 * chi**3 * z4 + 3 * chi**3 * z2
            - (p1 + 1) * chi**2 * z4 - 2 * chi**2 * z2 - chi**2
        )  # fmt: skip
        linear, rest = mp.mpf(problem.target.coefficients[1]) ** 2, mp.mpf(problem.target.nonlinear_power)
        noise = mp.mpf(problem.noise) ** 2
        return float(linear * E1 / E0 + (noise + rest) * E2 / E0 + rest + noise)


def talk_equations(lam, phi, psi, c1sq, cg2, m1, m2):
    """The two equations of the talk, each as (sum of terms, sum of their sizes)."""
    Psi = [c1sq * m1 * m2 * lam * psi * m1 / phi, -c1sq * m1 * m2]
    first = [phi * m1 * cg2 * m1, phi * m1 * c1sq * m2, -phi * m2 * cg2 * m1, -phi * m2 * c1sq * m2, *Psi]
    second = [phi / psi * c1sq * m1 * m2, phi / psi * phi * m2, -phi / psi * phi * m1, *Psi]
    return [(sum(terms), sum(map(abs, terms))) for terms in (first, second)]


def refined(lam, phi, psi, c1, cg2, m1, m2):
    """Newton on the talk's equations at 80 digits from (m₁, m₂), and the λ-derivatives of the root it ends at."""
    with mp.workdps(80):
        lam, phi, psi, cg, a, b = (mp.mpf(float(v)) for v in (lam, phi, psi, cg2, m1, m2))
        cs = mp.mpf(float(c1)) ** 2

        def jacobian(a, b):
            Pa, Pb = cs * b * (2 * lam * psi * a / phi - 1), cs * a * (lam * psi * a / phi - 1)
            sum_ = phi * (cg * a + cs * b)
            return mp.matrix([
                [sum_ + phi * (a - b) * cg + Pa, -sum_ + phi * (a - b) * cs + Pb],
                [phi / psi * (cs * b - phi) + Pa, phi / psi * (cs * a + phi) + Pb],
            ])  # fmt: skip

        for _ in range(30):
            f = [value for value, _ in talk_equations(lam, phi, psi, cs, cg, a, b)]
            change = mp.lu_solve(jacobian(a, b), mp.matrix([-f[0], -f[1]]))
            a, b = a + change[0], b + change[1]
            if abs(change[0]) < mp.mpf(10) ** -60 * abs(a) and abs(change[1]) < mp.mpf(10) ** -60 * abs(b):
                break
        else:
            raise AssertionError("Newton at 80 digits did not settle: the start was not close to a root")
        dPsi = cs * a * b * psi * a / phi
        slope = mp.lu_solve(jacobian(a, b), mp.matrix([-dPsi, -dPsi]))
        return a, b, slope[0], slope[1]


# ---------------------------------------------------------------- Mei and Montanari


TEN_POINTS = [
    # n, d, N, activation, ridge, noise
    (2000, 1000, 3000, "relu", 0.1, 0.5),
    (1000, 1000, 1000, "relu", 0.01, 0.0),
    (3000, 1000, 500, "tanh", 0.1, 0.3),
    (500, 1000, 4000, "softplus", 1.0, 0.0),
    (1000, 200, 1000, "erf", 1e-4, 1.0),
    (1000, 100, 3000, "gelu", 1e-6, 0.5),
    (3000, 700, 1000, "sin", 1e-6, 0.1),
    (1000, 1_000_000, 1000, "relu", 0.1, 0.2),
    (1_000_000, 1000, 1_000_000, "relu", 0.1, 0.2),
    (1000, 1000, 1_000_000, "silu", 1e8, 0.2),
    (1_000_000, 1000, 1000, "elu", 1e-10, 0.2),
    (1000, 1000, 1_000_000, "relu", 1e-10, 0.2),
]


@pytest.mark.parametrize(("n", "d", "N", "activation", "ridge", "noise"), TEN_POINTS)
def test_zero_step_is_random_features(n, d, N, activation, ridge, noise):
    problem = one.Problem(n=n, d=d, N=N, activation=activation, teacher=[0, 1, 0.7071], ridge=ridge, noise=noise)
    prediction = one.predict(problem, method="plateau")
    assert prediction.status is Status.SOLVED
    assert prediction.test_error == pytest.approx(mei_montanari_test_error(problem), rel=CLOSED_FORM)
    assert prediction.test_gain == 0
    assert prediction.train_gain == 0


# ---------------------------------------------------------------- the talk's equations


@pytest.mark.parametrize("c", [RELU, (1.0, 0.3), (0.1, 2.0)], ids=str)
def test_the_talks_equations_hold(c):
    """To 1e-10 of the sizes of their own terms, over eighteen decades of λ, in one vectorised call."""
    c1, cg2 = c
    lam, phi, psi = np.meshgrid(10.0 ** np.arange(-10, 9), 10.0 ** np.arange(-3, 4), 10.0 ** np.arange(-3, 4))
    bulk = solve_bulk(lam, phi, psi, c1, cg2)
    for value, size in talk_equations(lam, phi, psi, c1**2, cg2, bulk.m1, bulk.m2):
        assert np.all(np.abs(value) <= EXACT * size)
    assert np.all(bulk.residual <= RESIDUAL_TOLERANCE)
    assert np.all((bulk.m1 > 0) & (bulk.m2 > 0) & (bulk.m2 <= bulk.m1))
    assert np.all((bulk.q > 0) & (bulk.q <= 1))
    assert np.all((bulk.d_m1 < 0) & (bulk.d_m2 < 0))


EXTREMES = list(itertools.product([1e-10, 1e-5, 1e-2, 1.0, 1e8], [1e-3, 0.5, 1.0, 1e3], [1e-3, 1 / 3, 1.0, 1e3]))


@pytest.mark.parametrize("c", [RELU, (1.0, 0.0), (0.1, 2.0)], ids=["relu", "linear", "mostly nonlinear"])
def test_root_and_derivatives_to_high_precision(c):
    """Against 80 digits, to what the problem's condition allows.

    At an interpolation threshold (n = N, and n = d when σ is linear) the root has a square-root singularity at λ = 0, so
    rounding ε in the equations moves it by ε/√λ, with λ measured against the features' scale N/n when that exceeds 1.
    """
    c1, cg2 = c
    for lam, phi, psi in EXTREMES:
        bulk = solve_bulk(lam, phi, psi, c1, cg2)
        reference = refined(lam, phi, psi, c1, cg2, bulk.m1, bulk.m2)
        code = (bulk.m1, bulk.m2, bulk.d_m1, bulk.d_m2)
        for name, value, exact in zip(("m1", "m2", "dm1", "dm2"), code, reference, strict=True):
            gap = abs((mp.mpf(float(value)) - exact) / exact)
            allowed = max(1e-12, 4 * np.finfo(float).eps / math.sqrt(lam * min(1.0, psi / phi)))
            assert gap < allowed, f"{name} at λ={lam}, φ={phi}, ψ={psi}: {float(gap):.1e}"


@pytest.mark.parametrize(("lam", "phi", "psi"), EXTREMES[::7])
def test_there_is_one_root_only(lam, phi, psi):
    """Scan every admissible ρ in (0, 1/λ): the scalar equation changes sign once, at the root the code returns."""
    c1sq, cg2 = RELU[0] ** 2, RELU[1]
    with mp.workdps(40):
        lam, phi, psi = map(mp.mpf, (lam, phi, psi))
        low = 1 / (lam + (c1sq + cg2) * phi / psi)
        ratio = (1 / lam) / low
        values = []
        grid = [low * ratio ** (mp.mpf(i) / 400) for i in range(1, 400)]
        for rho in grid:
            A, C = 1 + rho * cg2, rho * c1sq / psi
            h = A + c1sq * rho - C
            q = (mp.sqrt(h * h + 4 * A * C) - h) / (2 * A * C)
            V0 = c1sq * q / psi
            values.append(1 / rho - lam - q * cg2 * phi / psi - phi * V0 / (1 + rho * V0))
        changes = [i for i in range(len(values) - 1) if mp.sign(values[i]) != mp.sign(values[i + 1])]
    rho = float(solve_bulk(float(lam), float(phi), float(psi), *RELU).rho)
    if changes:
        assert len(changes) == 1
        assert grid[changes[0]] <= rho * (1 + 1e-12)
        assert rho <= grid[changes[0] + 1] * (1 + 1e-12)
    else:  # the root hides between an end of the bracket and its neighbour on the grid
        assert rho <= grid[0] * (1 + 1e-12) or rho >= grid[-1] * (1 - 1e-12)


def test_derivatives_match_finite_differences():
    lam, step = np.array([1e-4, 1e-2, 0.3, 5.0, 200.0]), 1e-4
    for phi, psi in [(0.5, 1 / 3), (1, 1), (0.2, 2.0), (3.0, 0.4)]:
        at = {k: solve_bulk(lam * (1 + k * step), phi, psi, *RELU) for k in (-2, -1, 0, 1, 2)}
        for name, slope in (("rho", "d_rho"), ("q", "d_q"), ("U", "d_U"), ("m1", "d_m1"), ("m2", "d_m2")):
            f = {k: getattr(b, name) for k, b in at.items()}
            numeric = (8 * (f[1] - f[-1]) - (f[2] - f[-2])) / (12 * step * lam)
            assert_close(getattr(at[0], slope), numeric, rel=1e-7)


def test_purely_nonlinear_activation_is_marchenko_pastur():
    """c₁ = 0: F₀ is an iid matrix with variance c_{>1}², ρ solves λ s ρ² + (λ + s(1/r − 1)) ρ − 1 = 0, s = c_{>1}²."""
    s = 0.7
    for lam, phi, psi in [(0.1, 0.5, 1 / 3), (1e-3, 1.0, 2.0), (10.0, 3.0, 0.1)]:
        bulk = solve_bulk(lam, phi, psi, 0.0, s)
        a, b = lam * s, lam + s * (phi / psi - 1)
        assert_close(bulk.rho, (math.sqrt(b * b + 4 * a) - b) / (2 * a), rel=1e-12)
        assert_close(bulk.U, bulk.rho, rel=1e-15)


def test_whole_grid_equals_point_by_point():
    lam, phi = np.array([[1e-6], [0.1], [7.0]]), np.array([0.3, 1.0, 20.0])
    grid = solve_bulk(lam, phi, 0.7, *RELU)
    assert grid.rho.shape == (3, 3)
    for i, j in itertools.product(range(3), range(3)):
        alone = solve_bulk(lam[i, 0], phi[j], 0.7, *RELU)
        for name in ("rho", "q", "U", "d_rho", "d_q", "d_U"):
            assert_close(getattr(grid, name)[i, j], getattr(alone, name), rel=1e-12)


def test_inputs_are_not_changed():
    lam = np.array([0.1, 1.0])
    lam.setflags(write=False)
    solve_bulk(lam, 0.5, 0.5, *RELU)
    assert lam.tolist() == [0.1, 1.0]


# ---------------------------------------------------------------- errors of the random-features model


sizes = st.integers(1, 1000)
random_features = st.builds(
    one.Problem,
    n=sizes,
    d=sizes,
    N=sizes,
    activation=st.sampled_from(["relu", "tanh", "erf", "softplus"]),
    teacher=st.sampled_from([(0.0, 1.0, 0.7071), "relu", "tanh", (0.0, 0.0, 1.0)]),
    noise=st.floats(0, 3),
    ridge=st.floats(-10, 8).map(lambda x: 10**x),
)


@settings(deadline=None, max_examples=60)
@given(random_features)
def test_random_features_errors_are_sane_everywhere(problem):
    """Train mean square ≤ ridge objective ≤ E y², which a = 0 attains; the test error is at least the noise."""
    p = one.predict(problem, method="plateau")
    power = problem.target.second_moment + problem.noise**2
    assert p.status is Status.SOLVED
    assert 0 <= p.train_mse <= p.train_loss * (1 + 1e-9)
    assert p.train_loss <= power * (1 + 1e-9)
    assert p.test_error >= problem.noise**2 * (1 - 1e-9)
    assert p.test_error >= p.train_mse * (1 - 1e-9)
    assert math.isfinite(p.test_error)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_infinite_penalty_gives_the_power_of_the_labels(activation):
    problem = one.Problem(n=700, d=400, N=900, activation=activation, teacher=[0, 1, 0.7071], noise=0.5, ridge=1e8)
    power = problem.target.second_moment + 0.25
    p = one.predict(problem, method="plateau")
    for value in (p.train_loss, p.train_mse, p.test_error):
        assert value == pytest.approx(power, rel=1e-7)


@settings(deadline=None, max_examples=30)
@given(random_features, st.floats(0.01, 100))
def test_scaling_the_teacher_scales_errors_by_the_square(problem, t):
    base = problem.replace(teacher=[0, 1, 0.5, 0.2])
    scaled = problem.replace(teacher=[0, t, 0.5 * t, 0.2 * t], noise=problem.noise * t)
    p, q = one.predict(base, method="plateau"), one.predict(scaled, method="plateau")
    for name in ("train_loss", "train_mse", "test_error"):
        assert getattr(q, name) == pytest.approx(t**2 * getattr(p, name), rel=1e-9)


def test_scaling_the_activation_scales_the_penalty():
    """σ → tσ with λ → t²λ is the same ridge problem."""
    base = one.Problem(n=700, d=400, N=900, activation=[0, 1, 0.4, 0.2], teacher=[0, 1, 0.5], noise=0.3, ridge=0.2)
    scaled = base.replace(activation=[0, 3, 1.2, 0.6], ridge=1.8)
    p, q = one.predict(base, method="plateau"), one.predict(scaled, method="plateau")
    for name in ("train_loss", "train_mse", "test_error"):
        assert getattr(q, name) == pytest.approx(getattr(p, name), rel=1e-10)


def test_training_errors_grow_with_the_penalty():
    problem = one.Problem(n=700, d=400, N=900, teacher=[0, 1, 0.7071], noise=0.5)
    grid = one.predict_grid(problem.replace(step=one.Step.none()), [0.0], 10.0 ** np.arange(-10, 9), method="plateau")
    assert np.all(np.diff(grid.train_loss[0]) > 0)
    assert np.all(np.diff(grid.train_mse[0]) > 0)


def test_objective_and_mean_square_obey_the_envelope_theorem():
    """L = mse + λ|a|² at the minimum, so L' = |a|² and mse = L − λL'."""
    lam, step = np.array([1e-6, 1e-3, 0.1, 3.0, 1e4]), 1e-4
    problem = one.Problem(n=700, d=400, N=900, teacher=[0, 1, 0.7071], noise=0.5)

    def at(k):
        return one.predict_grid(problem, [0.0], lam * (1 + k * step), method="plateau")

    slope = (8 * (at(1).train_loss - at(-1).train_loss) - (at(2).train_loss - at(-2).train_loss)) / (12 * step)
    loss, mse = at(0).train_loss[0], at(0).train_mse[0]
    assert_close(mse, loss - slope[0], rel=1e-7, abs_=1e-9 * loss.max())


def test_few_samples_and_no_structure_beat_nothing():
    """A teacher with no linear part is pure noise to random features: errors equal those of noise of the same power."""
    quadratic = one.Problem(n=700, d=400, N=900, teacher=[0, 0, 1 / math.sqrt(2)], noise=0.0)
    noise = quadratic.replace(teacher=[0, 0], noise=1.0)
    p, q = one.predict(quadratic, method="plateau"), one.predict(noise, method="plateau")
    assert p.test_error == pytest.approx(q.test_error, rel=1e-12)
    assert p.train_loss == pytest.approx(q.train_loss, rel=1e-12)
