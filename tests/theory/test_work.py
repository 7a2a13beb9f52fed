"""How much a call of the theory computes, counted: paths of neurons, splines, questions whether a step may be trusted."""

from __future__ import annotations

import weakref
from dataclasses import replace

import numpy as np
import pytest

import onestride as one
from onestride import diagnosis
from onestride._numerics import relative_gap
from onestride.functions import Function
from onestride.inputs import Covariance
from onestride.result import Errors, Status
from onestride.theory import search
from onestride.theory.profile import correlated, covariance, one_neuron, smoothing, travel
from onestride.theory.profile.build import try_model
from onestride.theory.profile.errors import SEARCHING
from onestride.theory.profile.one_neuron import Bend, advance, look, untrained
from onestride.theory.registry import Theory
from onestride.theory.reliability import known_off

TWO_STEPS = one.Problem(
    n=120, d=60, N=80, teacher=[0, 1, 0.5], noise=0.5, gradient="labels", step=one.Step(exponent=0.2), steps=2
)


@pytest.fixture
def valley(monkeypatch):
    """A theory whose error is smallest at η = 7 and λ = 1."""

    def errors(problem, steps, ridges):
        eta = max(problem.eta, 1e-9)
        test = 1 + 0.1 * np.log(eta / 7) ** 2 + 0.01 * np.log(np.atleast_2d(ridges)) ** 2
        status = np.full(test.shape, Status.SOLVED, object)
        return Errors(test, test, test, 0 * test, np.zeros(test.shape, int), status, status)

    theory = Theory("valley", errors, "", lambda problem: None, every_degree=True)
    monkeypatch.setattr(search, "choose", lambda *given: theory)


@pytest.mark.usefixtures("valley")
def test_a_search_asks_of_few_steps_whether_they_may_be_trusted(monkeypatch):
    """Once of each, of two in a row that may not at most, and not between those that may but for the best: 33 times before that."""
    asked = []

    def known_off(problem):
        asked.append(problem.eta)
        return "too large" if problem.eta > 20 else None

    monkeypatch.setattr(search, "known_off", known_off)
    this = search.Search(TWO_STEPS, ("step", "ridge"), "auto", None)
    best, ends = this.over(("step", "ridge"))
    this.over(("step",))
    assert best.eta == pytest.approx(7, rel=0.01)
    assert ends == ()
    assert len(asked) == len(set(asked)) < 15
    assert sum(eta > 20 for eta in asked) == 2 < sum(this._steps() > 20)


@pytest.mark.parametrize(("level", "every"), [(None, True), ("isotropic", False)])
def test_a_search_marks_numbers_as_its_level_has_them(level, every, monkeypatch):
    asked = []
    monkeypatch.setattr(search, "mark", lambda *given, **how: asked.append(how["every_degree"]) or given[3])
    p = TWO_STEPS.replace(steps=1)
    search.Search(p, ("ridge",), "auto", level)._errors(p, np.array([0.1]))
    assert asked == [every]


@pytest.mark.usefixtures("valley")
def test_the_end_of_what_may_be_trusted_is_found_where_the_error_falls_to_it(monkeypatch):
    """By halving between the last step of the scan that may and the next; told as the search's end."""
    monkeypatch.setattr(search, "known_off", lambda p: "too large" if p.eta > 5 else None)
    best, ends = search.Search(TWO_STEPS, ("step",), "auto", None).over(("step",))
    assert 4.7 < best.eta <= 5
    assert ends == ("step",)


@pytest.mark.usefixtures("valley")
def test_a_size_that_is_off_between_two_that_are_not_is_no_optimum(monkeypatch):
    """The best step is asked about in the end, and the search goes on without it."""
    monkeypatch.setattr(search, "known_off", lambda p: "off" if 6.5 < p.eta < 7.5 else None)
    best, _ = search.Search(TWO_STEPS, ("step",), "auto", None).over(("step",))
    assert 5 < best.eta <= 6.5 or 7.5 <= best.eta < 9


def test_a_diagnosis_asks_of_no_step_beyond_two_that_are_off(monkeypatch):
    asked = []
    monkeypatch.setattr(diagnosis, "known_off", lambda p: asked.append(p.eta) or "off")
    assert list(diagnosis._exponents(TWO_STEPS)) == [1.0]
    assert len(asked) == 2
    assert list(diagnosis._exponents(TWO_STEPS.replace(steps=1))) == [1.0]
    assert len(asked) == 8  # one step is quick to ask about


@pytest.mark.parametrize("inputs", ["gaussian", one.Covariance((0.5, 1.5) * 30)])
def test_a_model_of_a_search_follows_its_neurons_once(inputs):
    """On its own nodes: those of a prediction are for a prediction."""
    travel._travel.cache_clear()
    try_model(TWO_STEPS.replace(inputs=inputs), nodes=SEARCHING)
    assert travel._travel.cache_info().misses == 1


def test_one_spline_for_all_neurons(monkeypatch):
    """And the numbers of `smooth` to what a spline is worth, few points or many; a function out of range leaves the other."""
    made, spline = [], smoothing.CubicSpline
    monkeypatch.setattr(smoothing, "CubicSpline", lambda *given: made.append(given) or spline(*given))
    v = np.array([0.3, 1.0, 2.5, 1.0])
    f, other = (TWO_STEPS.replace(activation=name).sigma for name in ("tanh", "softplus"))
    for far, count in ((5.0, 1), (400.0, 4)):
        t = np.random.default_rng(0).uniform(-far, far, (4, 300)) * np.array([[1], [1], [0.05], [0.2]])
        found = smoothing.smooth_on_lines(f, other, t, v)
        exact = [*smoothing.smooth(f, t, v[:, None]), *smoothing.smooth(other, t, v[:, None])[:2]]
        np.testing.assert_allclose(found[[0, 1, 2, 3, 5, 6]], exact, atol=3e-5, rtol=1e-5)
        assert len(made) <= count
        made.clear()
    cubed = Function("e^z³", lambda z: np.exp(z**3), centred=False)
    found = smoothing.smooth_on_lines(f, cubed, t, v)
    assert np.isnan(found[5:]).all()
    assert np.isfinite(found[:5]).all()


def test_odd_bends_have_the_sign_of_every_step_and_not_of_rounding():
    """Whatever the order of the nodes; M̂ is the sum over steps, in which they would cancel."""
    p = TWO_STEPS.replace(activation="tanh", teacher=[0, 1, 0, 0.3])
    state, along = untrained(p, 15), []
    for step in range(2):
        seen = look(p, state)
        bend = Bend.of(state, seen)
        turned = seen._replace(u=seen.u[::-1], w=seen.w[::-1], R=seen.R[::-1], power=seen.power[::-1])
        turned = turned._replace(response=type(seen.response)(*(part[:, ::-1] for part in seen.response)))
        assert relative_gap(Bend.of(state, turned).by[:5], bend.by[:5]).max() < 1e-6
        along.append(float((state.weight * state.A**3) @ bend.by))
        state = advance(p, state, seen, bend, p.etas[0], first=step == 0)
    assert min(along) > 0


def test_neurons_hundreds_of_times_as_long_are_not_followed():
    """Told before the work, by what it would take; two steps may go further than twenty."""
    state = untrained(TWO_STEPS, 15)
    state = replace(state, L=60 * np.sqrt(TWO_STEPS.N) * state.L)
    look(TWO_STEPS, state)
    sentence = "the 20 steps give neurons weights of .* of their length, too large for so many steps to be followed"
    with pytest.raises(one.TheoryError, match=sentence):
        look(TWO_STEPS.replace(steps=20), state)


@pytest.mark.parametrize(
    "changes", [{}, {"gradient": "full"}, {"inputs": "ar1"}, {"inputs": "elliptic"}, {"batch": "reused"}]
)
def test_the_work_of_many_strong_steps_is_counted_on_the_way(changes, monkeypatch):
    """100 of √n with erf took 30 s, and 250 with random lengths 18 GB: what a step has shown is gone after it."""
    shown = list[weakref.ref[np.ndarray]]()

    def remembered(problem, seen):
        shown.append(weakref.ref(seen.response.mu))
        return seen

    for module in (one_neuron, correlated):
        monkeypatch.setattr(module, "look", lambda *given: remembered(given[0], look(*given)))
    p = TWO_STEPS.replace(n=1000, d=500, N=1500, activation="erf", steps=6, step=one.Step(exponent=0.5), **changes)
    travel.travel(p)
    assert len(shown) >= 6 or p.batch == "reused"
    assert sum(reference() is not None for reference in shown) <= 1
    monkeypatch.setattr(one_neuron, "_MOST_WORK", 2e5)
    travel._travel.cache_clear()
    with pytest.raises(
        one.TheoryError, match=r"the 6 steps give neurons weights of .* too large for so many steps to be followed"
    ):
        travel.travel(p)


def test_a_covariance_of_few_directions_has_few_nodes_of_neurons():
    """Its numbers are marked; with nodes of every neuron's weights and length they took up to six minutes."""
    fields = {"n": 300, "N": 320, "noise": 0.5, "inputs": "ar1", "step": one.Step(exponent=0.0), "steps": 1}
    few, many = (TWO_STEPS.replace(d=d, **fields) for d in (34, 300))
    assert known_off(few) is not None
    assert known_off(many) is None
    assert covariance.build(few, likeliest=True).weight.size <= 31 * 3 * 3
    spiked = many.replace(inputs=Covariance.spiked(300, 60.0, 0.5))
    assert covariance.build(spiked, likeliest=True).weight.size > 31 * 9
