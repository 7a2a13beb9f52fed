"""Laws of the inputs: their moments, how they differ, what one of one's own needs, and the digits of stored results."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import onestride as one
from onestride._backend import stream
from onestride.functions import InputError
from onestride.inputs import AR1, Covariance, InputLaw, input_law, law_names, register
from onestride.problem import Problem
from onestride.simulation.network import draw_directions, draw_inputs, draw_teacher
from onestride.sweeps.cells import problem_content, problem_of
from onestride.sweeps.rows import stored_rows

LAWS = ("gaussian", "uniform", "rademacher", "student", "ar1", "power", "elliptic")


def make(**changes) -> Problem:
    return Problem(**({"n": 60, "d": 20, "N": 30} | changes))


def two_values(d: int) -> Covariance:
    return Covariance((1.5,) * (d // 2) + (0.5,) * (d // 2))


@pytest.fixture
def laplace(monkeypatch):
    """A registered law, forgotten after the test."""
    monkeypatch.setattr("onestride.inputs._REGISTRY", {name: input_law(name) for name in LAWS})

    def fill(generator, X):
        X[...] = generator.laplace(0, 0.5**0.5, X.shape)

    return register(InputLaw("laplace", fill))


@pytest.mark.statistical(rate=2e-3)
@pytest.mark.parametrize("law", LAWS)
def test_inputs_have_mean_zero_and_the_stated_covariance(law, seed):
    p, rows = make(inputs=law, d=6), 200_000
    X = draw_inputs(p, np.random.default_rng(1000 * seed), rows)
    expected = np.eye(p.d)
    if law == "ar1":
        expected = AR1 ** np.abs(np.subtract.outer(np.arange(p.d), np.arange(p.d)))
    elif law == "power":
        eigenvalues = np.arange(1, p.d + 1) ** -0.5
        expected = np.diag(eigenvalues / eigenvalues.mean())
    assert np.trace(expected) == pytest.approx(p.d)
    # student, elliptic with 5 degrees of freedom: E x⁴ = 9, so an entry of XᵀX/rows has standard error √8/447 = 0.006; what
    # breaks 0.04 is one x² above 0.04·rows, a chance of 9e-10 each or 1.1e-3 in all 1.2 million
    np.testing.assert_allclose(X.mean(0), 0, atol=0.015)
    np.testing.assert_allclose(X.T @ X / rows, expected, atol=0.04)


@pytest.mark.statistical(rate=1e-6)
def test_laws_differ_where_they_should(seed):
    """Lengths by the spread of their logarithms, 0.736 ± 0.009, 0.349 ± 0.006 and 0.227 ± 0.002: 7 standard errors.

    The standard deviation of x² itself has no use here: with 5 degrees of freedom x⁴ has tail exponent 5/4, and its mean
    over 4,000 rows is decided by the largest of them.
    """
    draws = {law: draw_inputs(make(inputs=law, d=40), np.random.default_rng(1000 * seed), 4000) for law in LAWS}
    assert set(np.unique(draws["rademacher"])) == {-1.0, 1.0}
    assert np.abs(draws["uniform"]).max() < np.sqrt(3)
    fourth = {law: (X**4).mean() for law, X in draws.items()}
    assert fourth["rademacher"] < fourth["uniform"] < fourth["gaussian"] < fourth["student"]
    spread = {law: np.log((X**2).sum(1)).std() for law, X in draws.items()}
    assert spread["elliptic"] > 1.8 * spread["student"]  # one length for all entries
    assert spread["student"] > 1.3 * spread["gaussian"]


@pytest.mark.parametrize("law", ["ar1", "power", Covariance.spiked(20, 4.0, 0.3), Covariance(tuple(range(1, 21)))])
def test_the_teachers_argument_has_variance_one(law):
    p = make(inputs=law, directions=3)
    B = draw_directions(p, 3)
    np.testing.assert_allclose(B @ p.law.times(B).T, np.eye(3), atol=1e-12)


def test_isotropic_teachers_are_unit_vectors_as_before():
    g = stream(5, "teacher").standard_normal(20)
    np.testing.assert_array_equal(draw_teacher(make(inputs="rademacher"), 5), g / np.linalg.norm(g))


@pytest.mark.parametrize("law", ["ar1", "power"])
def test_eigenvalues_are_those_of_the_covariance(law):
    times, of = input_law(law).times, input_law(law).eigenvalues
    for d in (1, 2, 30):
        np.testing.assert_allclose(np.sort(of(d)), np.linalg.eigvalsh(times(np.eye(d))), rtol=1e-9)
    assert of(20_000).sum() == pytest.approx(20_000)  # no matrix of that size


# ---------------------------------------------------------------- a covariance


def test_a_covariance_is_scaled_and_says_so():
    given = Covariance((1.0, 2.0, 3.0), teacher=(1.0, 0.0, 1.0))
    assert given.eigenvalues == (0.5, 1.0, 1.5)
    assert given.teacher == (0.5, 0.0, 0.5)  # Σ λ β² = 1
    assert "scaled by 0.5 to trace d" in repr(given)
    assert Covariance(given.eigenvalues, given.teacher) == given


def test_a_matrix_gives_its_eigenvalues_and_the_teachers_energies():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6, 9))
    Sigma, beta = A @ A.T, rng.standard_normal(6)
    given = Covariance.from_matrix(Sigma, teacher=beta)
    np.testing.assert_allclose(np.array(given.eigenvalues), np.linalg.eigvalsh(Sigma) * 6 / np.trace(Sigma))
    assert np.dot(given.eigenvalues, given.teacher) == pytest.approx(1)
    # βᵀΣ²β/βᵀΣβ in any unit of β
    moved = np.dot(np.square(given.eigenvalues), given.teacher)
    assert moved == pytest.approx(beta @ Sigma @ Sigma @ beta / (beta @ Sigma @ beta) * 6 / np.trace(Sigma))


def test_a_spike_has_its_overlap_with_the_teacher():
    given = Covariance.spiked(10, 4.0, 0.6)
    values, energy = np.array(given.eigenvalues), np.array(given.teacher)
    assert values.max() == pytest.approx(5 * 10 / 14)
    assert energy[0] / energy.sum() == pytest.approx(0.36)


def test_a_covariance_is_written_and_read():
    p = make(d=3, inputs=Covariance((1.0, 2.0, 3.3), teacher=(0.1, 1.0, 0.0)))
    assert Problem.from_toml(p.to_toml()) == Problem.from_json(p.to_json()) == Problem.from_dict(p.to_dict()) == p
    assert problem_of(problem_content(p)) == p
    assert len({p, p.replace(inputs=Covariance((1.0, 2.0, 3.4)))}) == 2


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (lambda: Covariance((1.0, -1.0)), "eigenvalues of a covariance must be positive, got one of -1"),
        (lambda: Covariance((1.0, np.nan)), "eigenvalues must be a list of finite numbers"),
        (lambda: Covariance("many"), "eigenvalues must be a list of finite numbers, got 'many'"),
        (lambda: Covariance((1.0, 1.0), (1.0,)), "teacher must hold the energy β⋆² along each of the 2 eigenvectors"),
        (lambda: Covariance((1.0, 1.0), (0.0, 0.0)), "not all 0"),
        (lambda: Covariance.from_matrix(np.ones((2, 3))), "Sigma must be a square matrix"),
        (
            lambda: Covariance.from_matrix([[1.0, 0.5], [0.0, 1.0]]),
            "Sigma must be symmetric.*got entries that differ by 0.5",
        ),
        (lambda: Covariance.from_matrix("ar1"), "Sigma must be a square matrix of finite numbers, got 'ar1'"),
        (
            lambda: Covariance.from_matrix([[1.0], [1.0, 2.0]]),
            r"Sigma must be a square matrix of finite numbers, got \[\[",
        ),
        (lambda: Covariance.from_matrix(np.ones((0, 0))), r"got an array of shape \(0, 0\) and type float64"),
        (lambda: Covariance.from_matrix(1j * np.eye(2)), r"got an array of shape \(2, 2\) and type complex128"),
        (
            lambda: Covariance.from_matrix(np.eye(2), teacher=[0, 0]),
            r"teacher must be a direction of d = 2 .* got \[0, 0\]",
        ),
        (lambda: Covariance.spiked("60", 2), "needs a whole number d ≥ 2, .* got d = '60', kappa = 2"),
        (lambda: Covariance.spiked(60.0, 2), "got d = 60.0"),
        (lambda: Covariance.spiked(60, "3"), "got d = 60, kappa = '3'"),
        (lambda: make(inputs=np.eye(20)), r"Covariance\.from_matrix\(Sigma\).*got an array of shape \(20, 20\)"),
        (lambda: Covariance.from_matrix(np.ones((2, 2))), "must be positive"),
        (lambda: Covariance.spiked(10, -2.0), "kappa > −1"),
        (lambda: make(inputs=Covariance((1.0, 1.0))), "inputs must have as many eigenvalues as d = 20, got 2"),
        (lambda: make(inputs={"eigenvalues": 5}), "eigenvalues must be a list of finite numbers, got 5"),
    ],
)
def test_a_wrong_covariance_is_refused_in_a_sentence(given, sentence):
    with pytest.raises(InputError, match=sentence):
        given()


@pytest.mark.statistical(rate=1e-6)
def test_inputs_with_a_covariance_have_it(seed):
    p = make(inputs=two_values(20))
    X = draw_inputs(p, np.random.default_rng(1000 * seed), 100_000)
    np.testing.assert_allclose(X.T @ X / len(X), np.diag(p.inputs.eigenvalues), atol=0.04)  # 7 standard errors


# ---------------------------------------------------------------- one's own


def test_a_registered_law_is_drawn(laplace):
    assert law_names() == (*LAWS, "laplace")
    p = make(inputs="laplace")
    expected = np.random.default_rng(3).laplace(0, 0.5**0.5, (5, p.d))
    np.testing.assert_array_equal(draw_inputs(p, np.random.default_rng(3), 5), expected)
    assert one.simulate(p, 2).test_error.mean != one.simulate(make(), 2).test_error.mean
    with pytest.raises(one.TheoryError, match="the law 'laplace' does not state it"):
        one.predict(p)


def test_a_registered_law_is_stored_with_its_fingerprint(laplace):
    before = problem_content(make(inputs="laplace"))
    assert "registered" in before
    assert {name for name in LAWS if "registered" in problem_content(make(inputs=name))} == {"ar1", "power"}
    register(InputLaw("laplace", lambda generator, X: generator.standard_normal(out=X)))
    assert problem_content(make(inputs="laplace")) != before


def test_a_store_with_a_law_of_ones_own_is_read_without_it(laplace, monkeypatch, tmp_path):
    described = {"problem": {"n": 20, "d": 10, "N": 30, "inputs": "laplace", "seeds": 2}, "method": "none"}
    with ThreadPoolExecutor(1) as executor:
        (row,) = one.sweep(described, tmp_path, executor=executor)
    monkeypatch.setattr("onestride.inputs._REGISTRY", {name: input_law(name) for name in LAWS})
    assert one.Store(tmp_path).check().healthy
    (again,) = stored_rows(one.Store(tmp_path))
    assert again.problem.inputs == "laplace"
    np.testing.assert_array_equal(again.test_error.values, row.test_error.values)


@pytest.mark.parametrize(
    ("law", "sentence"),
    [
        (InputLaw("two words", lambda generator, X: None), "name must be a word such as 'laplace', got 'two words'"),
        (InputLaw("silent", lambda generator, X: None), r"'silent' of the inputs must have E\|x\|² = d, got nan·d"),
        (InputLaw("wide", lambda generator, X: X.fill(2.0)), "got 4·d"),
    ],
)
def test_a_wrong_law_is_refused(law, sentence):
    with pytest.raises(InputError, match=sentence):
        register(law)
    assert law.name not in law_names()


@pytest.mark.parametrize("name", ["cauchy", 3, ["gaussian"], None])
def test_an_unknown_law_is_refused_by_name(name):
    with pytest.raises(
        InputError, match=r"inputs must be 'gaussian', 'uniform', .*'power', 'elliptic' or a Covariance.*, got"
    ):
        make(inputs=name)
