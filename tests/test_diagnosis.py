"""Diagnosis and the optimal penalty: each failure is produced on purpose and must be named."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import onestride as one
from onestride import diagnosis
from onestride.diagnosis import _penalty, needed_constant
from onestride.result import Status
from tolerances import assert_close


def problem(alpha=0.45, c=1.0, **changes):
    fields = {
        "n": 1000,
        "d": 500,
        "N": 1500,
        "teacher": [0, 1, 2**-0.5],
        "gradient": "labels",
        "ridge": 0.7,
        "activation": "relu",
    }
    return one.Problem(**(fields | {"step": one.Step(constant=c, exponent=alpha)} | changes))


def test_activation_without_linear_part():
    found = one.diagnose(problem(activation=(0, 0, 1.0)))
    assert "no-linear-part" in found.causes
    assert "c₁ = 0" in str(found)


def test_a_better_step_has_the_error_that_is_promised():
    """n = 4d, so that a factor of the step is not mistaken for one in other units."""
    given = problem(alpha=0.1, n=400, d=100, N=300, noise=0.5)
    (finding,) = [f for f in one.diagnose(given).findings if f.cause == "step-too-small"]
    factor = finding.numbers["better_eta"] / given.eta
    there = one.predict(given.replace(step=one.Step(constant=factor, exponent=0.1)))
    assert_close(finding.numbers["better_error"], there.test_error, rel=1e-6)


def test_teacher_without_linear_part():
    assert "teacher-without-linear-part" in one.diagnose(problem(teacher=[0, 0, 1.0])).causes


def test_wrong_window():
    found = one.diagnose(problem(alpha=0.2, c=0.5))
    finding = next(f for f in found.findings if f.cause == "wrong-window")
    assert finding.numbers["degree"] == 2
    assert_close(finding.numbers["threshold"], 0.25, rel=1e-12)


def test_prefactor_too_small_names_the_one_that_is_enough():
    p = problem(alpha=0.3)
    found = one.diagnose(p)
    finding = next(f for f in found.findings if f.cause == "prefactor-too-small")
    assert finding.numbers["degree"] == 2
    needed = finding.numbers["needed_c"]
    assert 1 < needed < 3
    enough = one.spectrum(p.replace(step=p.step.replace(constant=1.05 * needed)), density=False)
    short = one.spectrum(p.replace(step=p.step.replace(constant=0.93 * needed)), density=False)
    assert 2 in enough.degrees
    assert 2 not in short.degrees


def test_readouts_of_one_size_take_degrees_alike():
    """A constant readout has one spike, ±1 have two; more samples lower what there is of the others."""
    fields = {"activation": "shifted_erf", "teacher": [0, 1, 0.5, 0.5], "alpha": 0.36, "gradient": "labels"}
    for readout, alike in (("gaussian", []), ("constant", [(2, 1), (3, 1)]), ("rademacher", [(3, 1)])):
        p = problem(**fields).replace(readout=readout)
        found = [f for f in one.diagnose(p).findings if f.cause == "readouts-of-one-size"]
        assert [(f.numbers["degree"], f.numbers["below"]) for f in found] == alike
        assert (
            one.spectrum(p, density=False).expected
            == {"gaussian": (1, 2, 3), "constant": (1,), "rademacher": (1, 2)}[readout]
        )


def test_an_eigenvalue_between_two_bulks_has_not_left_the_uppermost():
    """Its label changes from the length of x to degree two at c = 0.53; the second eigenvalue leaves at c = 2."""
    p = one.Problem(
        n=1507, d=259, N=2049, activation="shifted_erf", teacher=[0, 1, 0.3, 0.3], noise=0.5, ridge=10,
        readout="rademacher", gradient="labels", step=one.Step(constant=0.5, exponent=0.4),
    )  # fmt: skip
    finding = next(f for f in one.diagnose(p).findings if f.cause == "prefactor-too-small")
    enough = one.spectrum(p.replace(step=p.step.replace(constant=1.05 * finding.numbers["needed_c"])), density=False)
    assert finding.numbers["degree"] == 2
    assert 2 in enough.degrees


def test_odd_activation_misses_the_square():
    found = one.diagnose(problem(activation="tanh"))
    finding = next(f for f in found.findings if f.cause == "activation-misses-degree")
    assert finding.numbers == {"degree": 2.0, "share": pytest.approx(0.5)}


def test_penalty_far_from_optimal():
    found = one.diagnose(problem(ridge=1e-4))
    finding = next(f for f in found.findings if f.cause == "penalty")
    assert 0.3 < finding.numbers["best_ridge"] < 2
    assert finding.numbers["best_error"] < finding.numbers["test_error"]


def test_a_penalty_is_judged_by_the_error_above_the_noise(monkeypatch):
    """No predictor goes below noise² = 9: what a penalty costs is measured against the rest, 5 % of it being too much."""
    p = problem(n=200, d=100, N=300, noise=3.0)
    found = one.optimal_ridge(p)
    monkeypatch.setattr(diagnosis, "optimal_ridge", lambda _: found)  # a second each
    best = found.test_error
    above = best - 9.0
    assert 0 < above < best / 2
    assert [f.cause for f in _penalty(p, best + 0.06 * above)] == ["penalty"]
    assert not list(_penalty(p, best + 0.04 * above))


def test_errors_named_are_those_predicted():
    p = problem(n=500, d=250, N=750, alpha=0.35, gradient="full", noise=0.5, ridge=0.1)
    found = one.diagnose(p)
    here = one.predict(p)
    numbers = {f.cause: f.numbers for f in found.findings}
    for cause in ("penalty", "step-too-small"):  # to rounding: a neighbouring step may have been solved before
        assert_close(numbers[cause]["test_error"], here.test_error, rel=1e-12)
    assert_close(numbers["penalty"]["best_error"], one.optimal_ridge(p).test_error, rel=1e-12)
    assert f"from {here.untrained.test_error:.4g} to {here.test_error:.4g}" in found.summary


def test_step_too_large():
    found = one.diagnose(problem(alpha=0.5, c=40, teacher=[0, 1.0], noise=0.5, ridge=0.1))
    finding = next(f for f in found.findings if f.cause == "step-too-large")
    assert finding.numbers["better_eta"] < finding.numbers["eta"] / 2


def test_only_a_number_that_may_be_trusted_is_a_better_step():
    """Steps of half and a quarter the size, and none, with errors put by hand."""
    p = problem(n=200, d=100, N=300, noise=0.0)
    here = one.predict(p, throw=False)

    def told(quarter, untrained, status=Status.SOLVED):
        base = replace(here, test_error=untrained, status=status, untrained=None)
        predicted = replace(here, test_error=1.0, status=Status.SOLVED, untrained=base)
        sizes = {1.0: predicted, 0.25: replace(predicted, test_error=quarter, status=status)}
        return [(f.cause, f.change) for f in diagnosis._step_size(p, predicted, sizes)]

    c = p.step.constant
    assert told(0.5, 0.7) == [("step-too-large", f"Use c near {c / 4:.3g}")]
    assert told(0.7, 0.5) == [("step-too-large", "Take no step")]
    assert told(0.5, 0.7, Status.INACCURATE) == []


def test_a_step_is_judged_by_the_error_above_the_noise(monkeypatch):
    """Of 1 above noise² = 9 a step may cost 2 %."""
    p = problem(n=200, d=100, N=300, noise=3.0)
    here = replace(one.predict(p, throw=False), test_error=10.0, status=Status.SOLVED)
    for better, causes in ((9.97, ["step-too-large"]), (9.985, [])):
        sizes = {1.0: here, 0.25: replace(here, test_error=better)}
        assert [f.cause for f in diagnosis._step_size(p, replace(here, untrained=None), sizes)] == causes


@pytest.mark.parametrize(
    ("alpha", "degrees", "between", "found"),
    [
        (0.25, (), (), [("prefactor-too-small", 1), ("wrong-window", 2)]),  # a threshold: the window below it
        (0.3, (), (), [("prefactor-too-small", 1), ("prefactor-too-small", 2)]),
        (0.3, (1,), (), [("prefactor-too-small", 2)]),
        (0.3, (1,), (2,), []),
    ],
)
def test_every_spike_that_is_not_seen_has_its_cause(alpha, degrees, between, found, monkeypatch):
    monkeypatch.setattr(diagnosis, "needed_constant", lambda *_: 2.0)
    seen = SimpleNamespace(degrees=degrees, between_degrees=between, strengths={})
    assert [(f.cause, f.numbers["degree"]) for f in diagnosis._spikes(problem(alpha), seen)] == found


@pytest.mark.parametrize(("off", "enough"), [(6.0, np.inf), (np.inf, 10.0)])
def test_no_larger_step_is_asked_for_where_the_theory_is_known_to_be_off(off, enough, monkeypatch):
    """The spike leaves the bulk at c = 10."""
    at = lambda p: p.step.constant  # noqa: E731
    spike = lambda p, **_: SimpleNamespace(converged=True, leading_degrees=(2,) if at(p) >= 10 else ())  # noqa: E731
    monkeypatch.setattr(diagnosis, "find_outliers", spike)
    monkeypatch.setattr(diagnosis, "known_off", lambda p: "why" if at(p) >= off else None)
    assert needed_constant(problem(), 2) == pytest.approx(enough, rel=0.02)


def test_no_step():
    assert one.diagnose(problem(c=0.0)).causes[0] == "no-step"


def test_step_beyond_theory():
    found = one.diagnose(problem(alpha=0.55))
    assert "step-beyond-theory" in found.causes
    assert "predicted test error" in found.summary  # of this n


def test_no_spike_of_an_even_activation_is_asked_for():
    causes = one.diagnose(problem(activation=[0, 0, 1.0], alpha=0.1)).causes
    assert "no-linear-part" in causes
    assert not {"wrong-window", "prefactor-too-small"} & set(causes)


def test_step_beyond_what_the_theory_tabulates_is_a_finding_not_an_error():
    assert one.diagnose(problem(alpha=0.5, c=3000)).causes == ("no-theory",)


def test_powers_beyond_all_numbers_have_no_structure():
    """E g² = ∞ hides a linear part."""
    beyond = one.Problem(
        n=103, d=18, N=24, teacher=[0, 1e150], step=one.Step(exponent=0.3), directions=2, mix="staircase"
    )
    (finding,) = one.diagnose(beyond).findings
    assert finding.cause == "no-theory"
    assert "needs E σ⋆² of at most" in finding.sentence


def test_healthy_problem_has_no_findings():
    found = one.diagnose(problem(alpha=0.45, c=3.5, ridge=1.0))
    assert found.causes == ()
    assert "lowers the predicted test error" in found.summary


def test_diagnosis_is_ready_for_json():
    import json

    assert json.loads(json.dumps(one.diagnose(problem(alpha=0.7)).to_dict(), allow_nan=False))["findings"]


def test_spike_that_is_visible_needs_less_than_what_it_has():
    assert needed_constant(problem(alpha=0.3, c=1.0), 7, largest=3) == np.inf


def test_no_spectrum_is_asked_for_where_the_theory_is_known_to_be_off(monkeypatch):
    """A minute went by for a constant that was then given in spite of it."""

    def asked(*_, **__):
        raise AssertionError("a spectrum was asked for")

    monkeypatch.setattr(diagnosis, "find_outliers", asked)
    beyond = one.Problem(n=100, d=50, N=150, activation="relu", step=one.Step(exponent=1.0))
    assert needed_constant(beyond, 2) == np.inf


# ---------------------------------------------------------------------- the optimal penalty


@pytest.mark.parametrize("method", ["profile", "plateau"])
def test_optimal_penalty_beats_its_neighbours(method):
    best = one.optimal_ridge(problem(alpha=0.3), method=method)
    assert not best.at_boundary
    for factor in (0.5, 0.9, 1.1, 2):
        other = one.predict(best.problem.at(ridge=best.ridge * factor), method=method)
        assert other.test_error > best.test_error


def test_optimal_penalty_of_random_features_with_linear_activation_is_known():
    """σ(z) = z and N ≫ n, d: ridge regression on the inputs, whose best λ is φ·rest/c⋆₁² (times N/d for the scaling)."""
    p = problem(activation=(0, 1.0), c=0.0, n=2000, d=1000, N=10**7, noise=0.5)
    best = one.optimal_ridge(p, method="plateau", bounds=(1e-3, 1e8))
    expected = p.phi * 1.25 / 1.0 * p.N / p.d
    assert_close(best.ridge, expected, rel=0.01)
    from onestride.theory.baselines import linear_ridge

    assert_close(best.test_error, linear_ridge(p), rel=1e-3)


def test_minimum_outside_the_range_is_reported():
    best = one.optimal_ridge(problem(alpha=0.3), bounds=(1e-6, 1e-3), level="T2", method="profile")
    assert best.at_boundary
    assert best.ridge == pytest.approx(1e-3)
    assert "upper end" in best.message


def test_optimal_penalty_is_that_of_the_level_asked_for():
    """At c = 3, α = 1/2 the levels have different best penalties: T2's is a minimum of T2's error, not of the default's."""
    p = problem(n=1000, d=500, N=1500, alpha=0.5, c=3, teacher=[0, 1, 2**-0.5])
    best = one.optimal_ridge(p, level="T2")
    around = best.ridge * np.array([1 / 1.1, 1, 1.1])
    errors = one.predict_grid(p, [0.5], around, level="T2").test_error[0]
    assert errors.argmin() == 1
    assert_close(best.test_error, errors[1], rel=1e-9)


def test_starting_penalty_plays_no_part():
    a, b = (one.optimal_ridge(problem(ridge=r), method="finite-step") for r in (1e-3, 10.0))
    assert_close(a.ridge, b.ridge, rel=1e-12)


def test_bad_bounds_are_named():
    with pytest.raises(one.InputError, match="bounds"):
        one.optimal_ridge(problem(), bounds=(1.0, 0.1))


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": 2, "n": 1000, "d": 500, "N": 750},  # at d = 100 two steps take twice as long
        {"inputs": one.Covariance((1.5,) * 50 + (0.5,) * 50)},
        {"directions": 2, "mix": "staircase", "teacher": (0, 1.0)},
    ],
    ids=str,
)
@pytest.mark.long
def test_every_problem_that_is_predicted_is_diagnosed(changes):
    found = one.diagnose(problem(alpha=0.2, **({"n": 200, "d": 100, "N": 150, "ridge": 1e-4} | changes)))
    assert "no-theory" not in found.causes
    assert "the step lowers the predicted test error" in found.summary


def test_a_readout_fitted_on_the_samples_of_the_step_is_diagnosed_where_it_is_predicted():
    """It said that no theory holds where `predict` has a number; the spectrum alone has none."""
    given = {"n": 300, "d": 100, "N": 200, "activation": "tanh", "noise": 0.5, "fresh": False}
    p = one.Problem(**given, step=one.Step(constant=1.0, exponent=0.2))
    found = one.diagnose(p)
    assert found.summary.startswith(
        "the spectrum of features on the samples of the step is not described; the step lowers"
    )
    assert f"{one.predict(p).test_error:.4g}" in found.summary
    assert "no-theory" not in found.causes
    assert one.diagnose(p.replace(steps=2, batch="reused")).causes == ("no-theory",)
