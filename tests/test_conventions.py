"""Conventions: there and back is the identity, and published formulas come out in their own scaling."""

from __future__ import annotations

import numpy as np
import pytest

import onestride as one
from onestride.conventions import PAPERS, convert, problem_from
from tolerances import CLOSED_FORM, EXACT, assert_close

NATIVE = {
    "moniri2024": {"gradient": "labels"},
    "ba2022": {"gradient": "labels", "weights": "gaussian"},
    "cui2024": {"gradient": "labels", "readout": "constant", "n_step": 20000},
    "dandi2024": {"gradient": "labels", "readout": "rademacher", "n_step": 20000},
    "mei2022": {"step": one.Step.none()},
}


def problem(**changes):
    fields = {"n": 2000, "d": 1000, "N": 1500, "activation": "tanh", "teacher": "sin", "noise": 0.3, "ridge": 0.02}
    return one.Problem(**(fields | {"step": one.Step(constant=2, exponent=0.5)} | changes))


@pytest.mark.parametrize("paper", PAPERS)
def test_there_and_back_is_the_identity(paper):
    p = problem(**NATIVE[paper])
    conversion = convert(p, paper)
    back = problem_from(paper, **conversion.parameters)
    assert conversion.differences == ()
    assert_close([back.ridge, back.eta], [p.ridge, p.eta], rel=EXACT, abs_=EXACT)
    same = set(type(p).model_fields) - {"ridge", "step"}
    assert {k: getattr(back, k) for k in same} == {k: getattr(p, k) for k in same}


@pytest.mark.parametrize("paper", PAPERS)
def test_conversion_reads_as_words(paper):
    text = str(convert(problem(gradient="full"), paper))
    assert paper[-4:] in text
    assert "lam = " in text or "ridge = " in text


def test_what_does_not_carry_over_is_said():
    text = str(convert(problem(gradient="full", readout="gaussian"), "cui2024"))
    assert "not the same" in text
    assert "gradient='labels'" in text
    assert "constant" in text


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize("change", [{"weights": "gaussian"}, {"weights": "sphere"}, {"centred": False}])
def test_what_does_not_come_back_is_said(paper, change):
    p = problem(**NATIVE[paper] | change)
    conversion = convert(p, paper)
    back = problem_from(paper, **conversion.parameters)
    (name,) = change
    assert any(("W₀" if name == "weights" else name) in words for words in conversion.differences) >= (
        getattr(back, name) != getattr(p, name)
    )


def test_numbers_of_the_table():
    p = problem()
    assert_close(convert(p, "cui2024").parameters["lam"], 0.02 * 2000 / 1500, rel=EXACT)
    assert_close(convert(p, "cui2024").parameters["eta_tilde"], 2 * np.sqrt(2000 / 1500), rel=EXACT)
    weak = problem(step=one.Step(constant=2, exponent=0.2))
    assert_close(convert(weak, "cui2024").parameters["eta_tilde"], 2 * 2000**0.2 / np.sqrt(1500), rel=EXACT)
    assert_close(convert(weak, "ba2022").parameters["eta"], 2 * 2000**0.2, rel=EXACT)
    assert_close(convert(p, "mei2022").parameters["lam"], 0.02 * 1000 / 1500, rel=EXACT)
    assert convert(p, "ba2022").parameters["lam"] == 0.02
    assert convert(p, "ba2022").parameters["psi1"] == convert(p, "mei2022").parameters["psi2"] == 2


def test_noise_is_left_out_where_the_paper_leaves_it_out():
    p = problem()
    assert_close(convert(p, "ba2022").test_error(1.0), 0.91, rel=EXACT)
    assert convert(p, "cui2024").test_error(1.0) == 1.0


def mei_montanari(psi1, psi2, lam, c1, nonlinear, F1, Fstar, tau2):
    """Mei & Montanari 2022: risk without noise of random-features ridge regression, from their χ."""
    z2, lam = c1**2 / nonlinear, lam / nonlinear
    z4, z6, u = z2**2, z2**3, np.sqrt(psi1 * psi2 * lam)
    a = b = 1.0
    for _ in range(20_000):
        a = psi1 / (u + b + z2 * b / (1 + z2 * a * b))
        b = psi2 / (u + a + z2 * a / (1 + z2 * a * b))
    x, p = -a * b, psi1 * psi2
    E0 = -(x**5) * z6 + 3 * x**4 * z4 + (p - psi1 - psi2 + 1) * x**3 * z6 - 2 * x**3 * z4 - 3 * x**3 * z2
    E0 += (psi1 + psi2 - 3 * p + 1) * x**2 * z4 + 2 * x**2 * z2 + x**2 + 3 * p * x * z2 - p
    E1 = psi2 * x**3 * z4 - psi2 * x**2 * z2 + p * x * z2 - p
    E2 = x**5 * z6 - 3 * x**4 * z4 + (psi1 - 1) * x**3 * z6 + 2 * x**3 * z4 + 3 * x**3 * z2
    E2 += -(psi1 + 1) * x**2 * z4 - 2 * x**2 * z2 - x**2
    return F1 * E1 / E0 + (tau2 + Fstar) * E2 / E0 + Fstar


@pytest.mark.parametrize(("n", "d", "N"), [(2000, 1000, 1500), (500, 1000, 3000), (4000, 1000, 700)])
def test_mei_montanari_risk_in_their_scaling_is_ours_less_the_noise(n, d, N):
    """Our m₁, m₂ limit (method='plateau', no step) through `convert` equals their E₀, E₁, E₂ formula."""
    p = problem(n=n, d=d, N=N, step=one.Step.none(), ridge=0.05, teacher=[0, 1, 2**-0.5])
    conversion = convert(p, "mei2022")
    q, sigma = conversion.parameters, p.sigma
    theirs = mei_montanari(
        q["psi1"], q["psi2"], q["lam"], sigma.coefficients[1], sigma.nonlinear_power, 1.0, 1.0, p.noise**2
    )
    ours = conversion.test_error(one.predict(p, method="plateau").test_error)
    assert_close(ours, theirs, rel=CLOSED_FORM)


def test_bad_arguments_are_named():
    with pytest.raises(one.InputError, match="did you mean 'cui2024'"):
        convert(problem(), "cui2025")
    with pytest.raises(one.InputError, match="did you mean 'alpha'"):
        problem_from("cui2024", d=10, alfa=1)
    with pytest.raises(one.InputError, match="missing"):
        problem_from("cui2024", d=10)
    good = convert(problem(**NATIVE["dandi2024"]), "dandi2024").parameters
    with pytest.raises(one.InputError, match="vocabulary"):
        problem_from("dandi2024", **(good | {"vocabulary": (1, 2), "weights": (0.5, 0.5)}))
    with pytest.raises(one.InputError, match="alpha"):
        problem_from("dandi2024", **(good | {"alpha": -1}))
    with pytest.raises(one.InputError, match="lam"):
        problem_from("dandi2024", **(good | {"lam": 0}))
    for paper, name, given in [
        ("ba2022", "d", "many"),
        ("ba2022", "eta", -1),
        ("ba2022", "lam", "small"),
        ("cui2024", "d", 10**400),
        ("cui2024", "eta_tilde", None),
        ("dandi2024", "vocabulary", 3),
        ("dandi2024", "vocabulary", ("a",)),
        ("mei2022", "d", 0),
    ]:
        good = convert(problem(), paper).parameters
        with pytest.raises(one.InputError, match=rf"^{name} must be .*, got "):
            problem_from(paper, **(good | {name: given}))
    with pytest.raises(one.InputError, match=r"paper must be one of .*, got \['cui2024'\]"):
        convert(problem(), ["cui2024"])
    with pytest.raises(one.InputError, match="problem must be a Problem"):
        convert(None, "cui2024")
