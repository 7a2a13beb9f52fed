"""Every assumption that can fail is named in a sentence, with what was given."""

import numpy as np
import pytest

import onestride as one
from onestride.inputs import InputLaw, input_law, law_names, register
from onestride.result import Status
from onestride.theory.assumptions import (
    LARGEST_SIZE,
    beyond_the_model,
    failed_assumption,
    needs_identity,
    needs_rank_one,
)


def problem(**changes):
    fields = {"n": 400, "d": 200, "N": 600, "step": one.Step(exponent=0.3)}
    return one.Problem(**(fields | changes))


BEYOND = {
    "one gradient step": {"steps": 2},
    "at most 3 of them": {"directions": 4},
    "n, d, N and n_step of at most": {"n": 10 * LARGEST_SIZE},
    "at most 250 of them": {"steps": 251, "step": one.Step.none()},
    "d of at most 200,000 with inputs='power'": {"d": 200_001, "inputs": "power"},
    "d of at most 200,000 with inputs='elliptic'": {"d": 200_001, "inputs": "elliptic"},
    "n and n_step of at most 1e+07 with inputs='elliptic'": {"n_step": 10**7 + 1, "inputs": "elliptic"},
    "λ of at most": {"ridge": 1e61},
    "1/λ of at most": {"ridge": 1e-61},
    "the noise of at most": {"noise": 1e61},
    "E σ² of at most": {"activation": (0, 1e31)},
    "E σ⋆² of at most": {"teacher": (0, 1e31)},
}
FINITE = {
    "n, d, N and n_step of at least": {"d": 5},
    "with inputs with random lengths the theory needs c₁ ≠ 0": {"activation": (0, 0, 1.0), "inputs": "elliptic"},
    "needs a centred activation": {"activation": "relu", "centred": False, "gradient": "full"},
}


def test_a_usual_problem_breaks_none():
    assert failed_assumption(problem()) is None


@pytest.mark.parametrize(("words", "changes"), [*BEYOND.items()])
def test_what_no_theory_describes_is_named(words, changes):
    p = problem(**changes)
    assert words in beyond_the_model(p)
    assert failed_assumption(p) == beyond_the_model(p)


@pytest.mark.parametrize("size", ["n", "d", "N", "n_step"])
@pytest.mark.parametrize("exponent", [30, 300])
def test_sizes_beyond_every_machine_have_a_sentence_from_every_theory(size, exponent):
    """Whole numbers of Python that NumPy cannot take a root of; no warning either (they are errors in these tests)."""
    p = problem(**{size: 10**exponent})
    for method in ("auto", "finite-step", "plateau", "exact-plateau"):
        assert "n, d, N and n_step of at most 1e+18" in one.predict(p, method=method, throw=False).message
        with pytest.raises(one.TheoryError, match="n, d, N and n_step of at most"):
            one.optimum(p, method=method)
    assert set(one.scaling(p, along="n", at=[100]).landmarks) == set()


@pytest.mark.parametrize(
    "changes", [{"d": 10**11, "inputs": "ar1"}, {"n": 10**12, "inputs": "elliptic"}, {"steps": 10**6}]
)
def test_what_is_gone_through_one_by_one_is_counted_before(changes):
    """All eigenvalues, the lengths of all samples, all steps: 745 GiB, or hours."""
    p = problem(step=one.Step(constant=1e-3), **changes)
    assert one.predict(p, throw=False).message.startswith(("the theory goes through", "the theory follows"))
    for function in (one.learned, one.spectrum, one.optimum):
        with pytest.raises(one.TheoryError, match=r"the theory (goes through|follows)"):
            function(p)
    assert one.diagnose(p).causes == ("no-theory",)


def test_a_step_of_a_list_beyond_all_bounds_is_told_without_a_warning():
    steps = [one.Step(constant=0.1, exponent=0.5), one.Step(constant=1e100, exponent=0.0)]
    told = one.predict(problem(n=77, d=81, N=740, activation=(0, 1), step=steps), throw=False).message
    assert "the step is so large that pre-activations reach" in told


def test_a_step_beyond_all_bounds_is_told_without_a_warning():
    """Activation H₁ + H₂ + H₃ and c = 1,000: factors of lengths would overflow on the way to the sentence."""
    p = problem(n=400, d=200, N=600, activation=(0, 1, 1, 1), step=one.Step(constant=1e3, exponent=0.5))
    assert "the step is so large" in one.predict(p, throw=False).message


def test_several_steps_that_leave_the_range_of_numbers_are_told():
    """H₁ + … + H₃ and two steps of η = 47: the paths of the neurons overflow, whoever asks for them."""
    p = problem(n=1967, d=311, N=54, activation=(0, 3.2, -5, 12), gradient="labels", steps=2)
    p = p.replace(step=one.Step(constant=47.0, exponent=0.0))
    assert "in the course of 2 steps of this size numbers leave" in one.predict(p, throw=False).message
    for function in (one.learned, one.baselines):
        with pytest.raises(one.TheoryError, match=r"leave the range of floating point|may be trusted"):
            function(p)


def test_an_activation_that_is_zero_has_a_sentence():
    p = problem(activation=(0, 0))
    for function in (one.predict, one.spectrum, one.learned, one.optimum):
        with pytest.raises(one.TheoryError, match="an activation that is 0, got"):
            function(p)
    with pytest.raises(one.InputError, match="its features have no spectrum"):
        one.measure_spectrum(p.replace(n=20, d=10, N=20), seeds=1)


def test_nothing_is_tuned_where_labels_are_zero():
    with pytest.raises(one.TheoryError, match="the labels are all 0"):
        one.optimum(problem(teacher=(0, 0)))


def test_labels_that_are_zero_and_penalties_near_zero_warn_of_nothing():
    p = problem(n=300, d=150, N=450, teacher=(0, 0), noise=0.0, readout="constant")
    assert "any number of times the power of the labels" in one.predict(p, throw=False).message
    assert np.isfinite(one.measure_spectrum(p.replace(n=20, d=10, N=20), seeds=1).leading.values).all()
    small = one.Problem(n=46, d=12, N=15, activation="erf", ridge=1e-20, gradient="labels", readout="constant")
    assert one.giant_step(small.replace(step=one.Step(exponent=0.2))).status in Status


def test_a_law_that_does_not_state_its_covariance_is_named(monkeypatch):
    monkeypatch.setattr("onestride.inputs._REGISTRY", {name: input_law(name) for name in law_names()})
    register(InputLaw("own", lambda generator, X: generator.standard_normal(out=X)))
    assert "the law 'own' does not state it" in failed_assumption(problem(inputs="own"))
    register(InputLaw("own", lambda generator, X: generator.standard_normal(out=X), np.ones))
    assert failed_assumption(problem(inputs="own")) is None


@pytest.mark.parametrize("inputs", ["ar1", "elliptic", one.Covariance.spiked(200, 5.0)])
def test_what_is_derived_for_the_identity_says_so(inputs):
    p = problem(inputs=inputs)
    assert failed_assumption(p) is None
    assert "identity covariance" in needs_identity(p, "this")
    assert needs_identity(problem(inputs="rademacher"), "this") is None
    assert "level='full' needs inputs with identity" in one.predict(p, level="full", throw=False).message
    assert "identity" in one.predict(p, method="plateau", throw=False).message
    assert "identity" in one.predict(p, method="finite-step", throw=False).message


@pytest.mark.parametrize(("words", "changes"), [*FINITE.items()])
def test_what_the_finite_theories_need_is_named(words, changes):
    p = problem(**changes)
    assert beyond_the_model(p) is None
    assert words in failed_assumption(p)


@pytest.mark.parametrize(
    ("words", "changes"),
    [("α ≤ 1/2", {"step": one.Step(exponent=0.6)}), ("c₁ ≠ 0", {"activation": (0, 0, 1.0)})],
)
def test_what_expands_in_powers_of_a_rank_one_step_says_so_and_the_profile_theory_does_not(words, changes):
    p = problem(**changes)
    assert failed_assumption(p) is None
    assert f"this needs {words}" in needs_rank_one(p, "this").replace("a step of at most c·√n, ", "")
    assert needs_rank_one(p.replace(step=one.Step.none()), "this") is None
    assert words in one.predict(p, method="finite-step", throw=False).message


def test_several_steps_of_an_even_activation_are_refused():
    assert "with several steps the theory needs c₁ ≠ 0" in failed_assumption(
        problem(activation=(0, 0, 1.0), steps=2), schedules=True
    )


@pytest.mark.parametrize("changes", [{"centred": False}, {"steps": 3}])
def test_assumptions_about_the_step_matter_only_with_one(changes):
    assert failed_assumption(problem(**changes, step=one.Step.none())) is None
