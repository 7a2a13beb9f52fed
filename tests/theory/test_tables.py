"""The theory of tables: kernel laws against exact ones, rows of a known problem against its theory, steps against none."""

import numpy as np
import pytest

import onestride as one
from onestride.result import Status
from onestride.theory.table.errors import stepped_networks
from onestride.theory.table.kernel_law import FIXED, kernel_law
from onestride.theory.table.rows import ladder

RIDGES = np.array([1e-4, 1e-2, 1.0])


def exact(seed):
    """Eigenvalues, energies, noise 0.1; and labels and features F = (x√ξ)G of 400 rows and 800 neurons."""
    rng, D = np.random.default_rng(seed), 500
    xi, v = np.arange(1, D + 1) ** -1.5, np.arange(1, D + 1) ** -0.8
    v /= np.linalg.norm(v)
    X = rng.standard_normal((400, D))
    y = X @ v + np.sqrt(0.1) * rng.standard_normal(400)
    return xi, v**2, y, (X * np.sqrt(xi)) @ rng.standard_normal((D, 800))


@pytest.fixture(scope="module")
def spectrum():
    return exact(0)


def test_rows_show_the_functions_of_the_kernel():
    """Z and q to 2 %; A, an average of squares, on average over six draws (one has a standard deviation of 7 to 8 %)."""
    ratios = []
    for seed in range(6):
        xi, v2, y, F = exact(seed)
        law = kernel_law(F, y)
        u = law.shown + np.array([0.5, 2, 4])
        g = np.exp(u)[:, None]
        for found, expected in ((law.z, xi / (xi + g)), (law.q, (xi / (xi + g)) ** 2)):
            np.testing.assert_allclose(np.interp(u, law.u, found), expected.sum(1), rtol=0.02)
        ratios.append(np.interp(u, law.u, law.A) / (g / (xi + g) @ v2 + 0.1))
    np.testing.assert_allclose(np.mean(ratios, 0), 1, atol=0.09)


def test_errors_at_the_sizes_of_the_law_are_those_of_its_fit(spectrum):
    """Leave-one-out errors of m rows and M neurons at penalties that were not on its grid; the others by the equivalents."""
    _, _, y, F = spectrum
    law, (m, M) = kernel_law(F, y), F.shape
    ridges = np.array([0.03, 0.7, 20])
    found = law.errors(m, M, ridges)
    for j, lam in enumerate(ridges):
        S = F @ np.linalg.solve(F.T @ F + m * lam * np.eye(M), F.T)
        r = y - S @ y
        expected = (y @ r / m, np.mean(r**2), np.mean((r / (1 - np.diag(S))) ** 2))
        assert found[2, j] == pytest.approx(expected[2], rel=1e-3)
        assert tuple(found[:2, j]) == pytest.approx(expected[:2], rel=0.1)


def test_training_error_is_the_derivative_of_the_objective(spectrum):
    """Objective − λ d objective/dλ = training error, for other sizes than those of the law and beyond it."""
    _, _, y, F = spectrum
    law = kernel_law(F, y)
    for n, N in ((200, 100), (150, 800), (800, 2000)):
        for lam in (1e-2, 1.0):
            low, mid, high = law.errors(n, N, lam * np.array([0.9, 1.0, 1.1])).T
            slope = (high[0] - low[0]) / 0.2
            assert mid[0] - slope == pytest.approx(mid[1], rel=0.02)


def test_fixed_features_are_the_limit_of_many_neurons(spectrum):
    _, _, y, F = spectrum
    law = kernel_law(F, y, fixed=True)
    many = law.errors(300, 10**9, RIDGES * 10**9)
    np.testing.assert_allclose(law.errors(300, FIXED, RIDGES * FIXED)[:4], many[:4], rtol=1e-4)
    both = kernel_law(F, np.stack([y, y], 1), fixed=True)
    np.testing.assert_allclose(both.A, law.A)


def rows_of(problem, rows, seed=0):
    """Rows drawn from a problem with Gaussian inputs."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, problem.d))
    z = X[:, 0]
    return X, problem.target(z) + problem.noise * rng.standard_normal(rows)


def problem_of(rows, d):
    problem = one.Problem(
        n=400, d=d, N=300, teacher=[0, 0.8, 0.3], noise=0.5, step=one.Step(constant=1.0, exponent=0.5)
    )
    X, y = rows_of(problem, rows)
    return problem, one.from_data(X, y, N=300, n=400, step=problem.step)


@pytest.fixture(scope="module")
def table():
    """The problem that 160 rows make."""
    return problem_of(160, 10)[1]


@pytest.mark.long
def test_rows_of_a_problem_have_the_errors_of_its_theory():
    """With and without the step; 900 labels have their power to 6 % (a standard error), and columns are standardised by them."""
    problem, table = problem_of(900, 30)
    power = problem.target.second_moment + problem.noise**2
    expected, found = (one.predict_grid(p, [0.5], [0.01, 0.3]) for p in (problem, table))
    np.testing.assert_allclose(found.untrained.test_error * power, expected.untrained.test_error, rtol=0.12)
    gain = [grid.trained.test_error / grid.untrained.test_error for grid in (found, expected)]
    np.testing.assert_allclose(gain[0], gain[1], rtol=0.08)


def test_a_vanishing_step_gives_the_untrained_network(table):
    weak = one.predict(table.replace(step=one.Step(constant=1e-6, exponent=0.0)))
    assert weak.test_error == pytest.approx(weak.untrained.test_error, rel=1e-5)


def test_labels_of_a_table_are_its_own_and_the_stand_in_takes_others(table):
    for changed in (table.replace(noise=0.1), table.replace(steps=2), table.replace(fresh=False)):
        assert one.predict(changed, throw=False).status is Status.ASSUMPTION
    assert one.predict(table.replace(n=10_000), throw=False).status is Status.INACCURATE
    with pytest.raises(one.InputError, match="labels of a table are its own"):
        one.simulate(table.replace(noise=0.1), 1)
    standin = table.replace(inputs=table.inputs.standin, noise=0.1)
    assert one.predict(standin, throw=False).method == "profile"


def test_a_step_is_one_of_as_many_rows_as_take_it(table):
    """Between powers of two in the logarithm, of at most half of the rows; a weak step counts less."""
    for n_step, rows in ((70, 70), (10_000, table.inputs.rows // 2)):
        for eta, whole in ((10.0, 1.0), (2.0**-8 * table.N**0.5, 0.25)):
            stepped = table.replace(n_step=n_step, step=one.Step(constant=eta, exponent=0.0))
            shares, networks = zip(*stepped_networks(table.inputs, stepped), strict=True)
            assert sum(shares) == pytest.approx(whole)
            mean = np.dot(shares, np.log([network.step_rows for network in networks])) / sum(shares)
            assert mean == pytest.approx(np.log(rows), abs=1e-3)


def test_laws_are_of_halves_of_the_rows():
    assert ladder(3000, 400) == [400, 200, 100, 50]
    assert ladder(70, 2000) == [70]


@pytest.mark.long
def test_what_rows_say_is_learned_is_what_theory_says():
    """Shares of both degrees before and after the step, of 900 rows of a problem with 30 Gaussian inputs: to 0.08, two standard errors of
    a moment of degree two over its size.
    """
    problem, table = problem_of(900, 30)
    found, expected = one.learned(table.replace(ridge=0.1)), one.learned(problem.replace(ridge=0.1))
    assert found.degrees == expected.degrees == (1, 2)
    np.testing.assert_allclose(found.fraction, expected.fraction, atol=0.08)
    np.testing.assert_allclose(found.untrained.fraction, expected.untrained.fraction, atol=0.08)
    assert found.fraction[0] > found.untrained.fraction[0]
    assert found.unexplained * 0.98 == pytest.approx(expected.unexplained, abs=0.05)  # in units of E y²
    assert found.level == "table"


@pytest.mark.long
def test_what_is_learned_goes_on_below_the_smallest_scale_that_rows_show():
    """Ten times the 300 rows: theory has 0.93 of degree two, the rows themselves show 0.84, and their power leads to 0.92."""
    problem, table = problem_of(300, 12)
    many = {"n": 3000, "N": 2048, "ridge": 1e-3, "step": one.Step.none()}
    found, expected = one.learned(table.replace(**many)), one.learned(problem.replace(**many))
    np.testing.assert_allclose(found.fraction, expected.fraction, atol=0.04)


def test_what_is_left_of_the_labels_is_the_energy_of_the_kernel(spectrum):
    """E y(y − f̂) = A(γ): read off the rows left out, and from the differential equation."""
    _, _, y, F = spectrum
    law = kernel_law(F, y, y[:, None])
    u = law.shown + np.array([0.5, 2, 4])
    np.testing.assert_allclose(np.interp(u, law.at, law.left[0, :-1]), np.interp(u, law.u, law.A), rtol=0.1)
    assert law.left[0, -1] == pytest.approx(np.mean(y**2))


def test_every_function_answers_for_the_rows_or_says_why_not(table):
    seen = one.spectrum(table)
    assert seen.level == "table"
    assert seen.untrained.mass() + seen.untrained.atom == pytest.approx(1, abs=0.03)
    assert seen.leading.size == 0 or seen.leading.min() > seen.edge
    simple = one.baselines(table)
    assert set(simple) == {"random-features", "linear-ridge", "best-linear"}
    assert simple["best-linear"].test_error < simple["linear-ridge"].test_error < 1
    assert "predicted test error" in one.diagnose(table).summary
    with pytest.raises(one.InputError, match="stand-in"):
        one.measure_learned(table)
    with pytest.raises(one.InputError, match="needs none"):
        one.plan(table)
    assert "stand-in" in one.predict(table, method="profile", throw=False).message
    with pytest.raises(one.TheoryError, match="one gradient step"):
        one.learned(table.replace(steps=2))


def test_spectrum_of_rows_ends_where_it_does_on_average(table, monkeypatch):
    """Over networks: the largest eigenvalue without a step is 2 and 4, and after it two and one lie above their mean; of three on average one."""
    before, after = np.array([[2.0, 1.0, 0.5], [4.0, 1.0, 0.5]]), np.array([[9.0, 3.5, 0.5], [8.0, 2.5, 0.5]])
    monkeypatch.setattr("onestride.theory.spectrum.table_eigenvalues", lambda _: (before, after, 160))
    found = one.spectrum(table)
    assert found.edge == 3.0
    np.testing.assert_allclose(found.leading, [8.5, 3.0])
    before, after = np.vstack([before, [3.0, 1.0, 0.5]]), np.vstack([after, [7.0, 2.5, 0.5]])
    np.testing.assert_allclose(one.spectrum(table).leading, [8.0])


def test_degrees_of_freedom_go_on_without_a_jump(spectrum):
    """Below the smallest γ that rows show: z and its derivative, q = z + dz/dlog γ."""
    _, _, y, F = spectrum
    law = kernel_law(F, y)
    for part in (law.z, law.q):
        below, above = np.interp(law.shown + np.array([-0.05, 0.01]), law.u, part)
        assert below == pytest.approx(above, rel=0.05)
        assert below > above


def test_errors_at_small_penalties_are_those_of_the_rows_or_marked():
    """Kernel of 12 columns, 100 of 2,000 rows: 0.599 ± 0.008 at λ = 0.1 in 40 draws, ± 5 % by the rows; it was 14 % low and not marked."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((2000, 12))
    y = 20 + 3 * np.tanh(X[:, 0] + X[:, 1]) + X[:, 2] * X[:, 3] + rng.standard_normal(2000)
    problem = one.from_data(X, y, n=100, N=4096, ridge=0.1)
    found = one.predict(problem, throw=False)
    assert found.test_error == pytest.approx(0.599, rel=0.1)
    assert found.status is Status.INACCURATE
    assert "amplifies what it cannot follow 2.29 times" in found.message
    assert one.predict(problem.replace(ridge=10.0)).status is Status.SOLVED
