"""Theories by name: adding one is registering it, and "auto" takes the first of finite n that applies."""

import pytest

import onestride as one
from onestride.theory import finite_step, plateau, registry
from onestride.theory.predict import METHODS, Theory, register
from onestride.theory.profile.strength import LEVELS, Level, level_name

PROBLEM = one.Problem(n=400, d=200, N=600, step=one.Step(exponent=0.3))


@pytest.fixture(autouse=True)
def _registry(monkeypatch):
    monkeypatch.setattr(registry, "_THEORIES", dict(registry._THEORIES))


def domain(problem):
    return None if problem.step.exponent > 0.5 else "only large steps"


def test_methods_are_the_theories_of_the_package():
    assert METHODS == ("auto", "profile", "finite-step", "plateau", "exact-plateau", "table")


def test_a_registered_theory_is_asked_by_name_and_its_sentence_is_told():
    register(Theory("mine", finite_step.errors, lambda p: f"for n = {p.n}", domain))
    mine, same = one.predict(PROBLEM, method="mine"), one.predict(PROBLEM, method="finite-step")
    assert (mine.method, mine.accuracy) == ("mine", "for n = 400")
    assert mine.test_error == same.test_error
    assert registry.methods() == (*METHODS, "mine")


def test_auto_takes_the_first_of_finite_n_whose_domain_holds():
    large = PROBLEM.replace(N=8).at(exponent=0.7)
    assert registry.choose(large, "auto", None).name == "profile"  # none applies: the first says why
    register(Theory("limit", plateau.errors, "", lambda problem: None, limit=True))
    register(Theory("mine", finite_step.errors, "", domain))
    assert registry.choose(large, "auto", None).name == "mine"
    assert registry.choose(PROBLEM, "auto", None).name == "profile"


def test_unknown_names_are_told_what_is_known():
    with pytest.raises(one.InputError, match="auto, profile, finite-step, plateau, exact-plateau, table, got 'magic'"):
        one.predict(PROBLEM, method="magic")
    with pytest.raises(
        one.InputError, match="level goes with method='profile', got level='full' with method='plateau'"
    ):
        one.predict(PROBLEM, method="plateau", level="full")


@pytest.mark.parametrize(("code", "name"), [*zip(("T2", "T2i", "T2M", "T2S"), LEVELS[:4], strict=True)])
def test_levels_answer_to_their_codes(code, name):
    assert level_name(code) == level_name(name) == name
    assert one.predict(PROBLEM, level=code) == one.predict(PROBLEM, level=name)
    assert one.spectrum(PROBLEM, level=code, density=False).level == name
    assert one.learned(PROBLEM, level=code).level == name


def test_literal_types_are_the_choices():
    from typing import get_args

    from onestride.theory.optimum import VARIABLES, Variable

    assert get_args(registry.Method) == METHODS
    assert get_args(Level) == LEVELS
    assert get_args(Variable) == VARIABLES
