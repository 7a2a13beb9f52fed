"""Laws of the inputs: their moments, how they differ, what one of one's own needs, and the digits of stored results."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import onestride as one
from onestride.functions import InputError
from onestride.inputs import AR1, InputLaw, input_law, law_names, register
from onestride.problem import Problem
from onestride.simulation.network import draw_inputs
from onestride.sweeps.cells import problem_content
from onestride.sweeps.rows import stored_rows

LAWS = ("gaussian", "uniform", "rademacher", "student", "ar1", "power", "elliptic")


def make(**changes) -> Problem:
    return Problem(**({"n": 60, "d": 20, "N": 30} | changes))


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


# ---------------------------------------------------------------- one's own


def test_a_registered_law_is_drawn(laplace):
    assert law_names() == (*LAWS, "laplace")
    p = make(inputs="laplace")
    expected = np.random.default_rng(3).laplace(0, 0.5**0.5, (5, p.d))
    np.testing.assert_array_equal(draw_inputs(p, np.random.default_rng(3), 5), expected)
    assert one.simulate(p, 2).test_error.mean != one.simulate(make(), 2).test_error.mean
    with pytest.raises(one.TheoryError, match="Gaussian inputs with identity covariance, got inputs='laplace'"):
        one.predict(p)


def test_a_registered_law_is_stored_with_its_fingerprint(laplace):
    before = problem_content(make(inputs="laplace"))
    assert "registered" in before
    assert not any("registered" in problem_content(make(inputs=name)) for name in LAWS)
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
    with pytest.raises(InputError, match=r"inputs must be 'gaussian', 'uniform', .*'power' or 'elliptic', got"):
        make(inputs=name)
