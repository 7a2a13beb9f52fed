"""The optimum against brute force on a grid, what each variable is worth alone, and bad input."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import onestride as one
from onestride.result import Status
from onestride.theory import finite_step
from onestride.theory.search import _step

PROBLEM = one.Problem(
    n=400, d=150, N=300, teacher=[0, 1, 0.7071], noise=0.5, step=one.Step(constant=1, exponent=0.25), ridge=0.1
)
QUICK = "finite-step"  # milliseconds, and without slopes: the search asks for errors alone


def quick_errors(problem, ridges):
    """Test errors at these penalties, without a word on where they are off."""
    return finite_step.errors(problem, [problem.step], ridges).test_error[0]


def test_step_and_penalty_equal_brute_force():
    """A grid of steps 3 % and penalties 5 % apart around the optimum finds nothing better by more than 1e-4."""
    found = one.optimum(PROBLEM, over=("step", "ridge"), method=QUICK)
    grid = []
    for factor in np.exp(0.03 * np.arange(-4, 5)):
        step = one.Step(constant=found.problem.step.constant * factor, exponent=0.25)
        ridges = found.ridge * np.exp(0.05 * np.arange(-4, 5))
        grid.append(quick_errors(PROBLEM.replace(step=step), ridges))
    assert found.at_boundary == ()
    assert found.test_error <= np.min(grid) * (1 + 1e-4)
    assert found.test_error == pytest.approx(one.predict(found.problem, method=QUICK).test_error, rel=1e-12)
    assert found.test_error < min(found.alone.values()) < found.before
    assert found.alone["ridge"] == pytest.approx(one.optimal_ridge(PROBLEM, method=QUICK).test_error, rel=1e-4)


@pytest.mark.long
def test_descent_along_slopes_equals_brute_force():
    """By the default theory: steps a factor of two apart, then 4 %, with penalties as close, find nothing better by 1e-3."""
    found, errors = one.optimum(PROBLEM, over=("step", "ridge"), each=False), []
    for apart, ridges in ((0.7, np.geomspace(0.01, 10, 13)), (0.04, found.ridge * np.exp(0.04 * np.arange(-3, 4)))):
        for k in range(-3, 4):
            step = one.Step(constant=found.problem.step.constant * np.exp(apart * k), exponent=0.25)
            grid = one.predict_grid(PROBLEM.replace(step=step), [0.25], ridges).trained
            errors += [
                e for e, status in zip(grid.test_error[0], grid.status[0], strict=True) if status.name == "SOLVED"
            ]
    assert found.test_error <= min(errors) * (1 + 1e-3)
    assert found.test_error == pytest.approx(one.predict(found.problem).test_error, rel=1e-9)


def test_split_equals_brute_force():
    """The budget is kept; shares of the samples from 15 % to 85 % with their best penalty find nothing better by 1e-3."""
    found = one.optimum(PROBLEM.replace(n=600, n_step=200), over=("ridge", "split"), method=QUICK)
    assert found.n + found.n_step == 800
    splits = [PROBLEM.replace(n=800 - n_step, n_step=n_step) for n_step in range(120, 681, 80)]
    errors = [one.optimal_ridge(p, method=QUICK).test_error for p in splits]
    assert found.test_error <= min(errors) * (1 + 1e-3)
    assert found.test_error >= min(errors) * (1 - 0.02)
    assert "samples for the step" in found.message


@pytest.mark.long
def test_nothing_around_the_joint_optimum_is_better():
    """Steps and penalties 10 % and shares of the samples 0.05 away, all 27 combinations: none by more than 1e-3."""
    found = one.optimum(PROBLEM, over=("step", "ridge", "split"), method=QUICK, each=False)
    assert found.alone == {}
    n, n_step = found.n, found.n_step
    for shift in (-40, 0, 40):
        there = found.problem.replace(n=n - shift, n_step=n_step + shift)
        for factor in (0.9, 1, 1.1):
            step = one.Step(constant=factor * found.step / float(there.n) ** 0.25, exponent=0.25)
            around = quick_errors(there.replace(step=step), found.ridge * np.array([0.9, 1, 1.1]))
            assert np.min(around) >= found.test_error * (1 - 1e-3)


@pytest.mark.parametrize("exponent", [-1e308, -400.0, -160.0, 0.3, 150.0, 1e308])
def test_a_step_has_its_size_where_its_exponent_leaves_the_range_of_numbers(exponent):
    """It was a traceback, or an infinite constant."""
    assert _step(10.0, 100.0, exponent).size(100) == pytest.approx(10)
    assert _step(0.0, 100.0, exponent).constant == 0


@pytest.mark.long
def test_a_variable_without_a_number_is_unknown_alone():
    """The step given is known to be off, so the penalty alone has no number; both together have one."""
    found = one.optimum(PROBLEM.replace(step=one.Step(constant=1e4, exponent=0.0)), method=QUICK)
    assert np.isnan(found.alone["ridge"])
    assert "ridge unknown" in found.message


@pytest.mark.long
@pytest.mark.statistical(rate=1e-3)
def test_gains_at_the_optimum_agree_with_simulation(seed):
    """The error and what the step adds to it, at the best step and penalty: within 3 % or 6 standard errors of 8 seeds, false alarms below 1e-3."""
    problem = one.Problem(n=200, d=60, N=120, teacher=[0, 1, 0.5], noise=0.5, step=one.Step(exponent=0.5))
    found = one.optimum(problem, each=False)
    measured = one.simulate(found.problem, seeds=range(1000 * seed, 1000 * seed + 8))
    assert found.prediction.test_gain > 0
    for name in ("test_error", "test_gain"):
        predicted, seen = getattr(found.prediction, name), getattr(measured, name)
        assert abs(predicted - float(seen.mean)) < max(0.03 * found.test_error, 6 * float(seen.stderr)), name


def test_a_step_that_only_hurts_is_not_taken():
    """A linear activation learns nothing by turning: the best step is none, or changes nothing."""
    p = one.Problem(n=300, d=50, N=200, activation=[0, 1], teacher=[0, 0, 1], noise=0.5, ridge=1.0)
    found = one.optimum(p, over=("step",), method=QUICK)
    assert found.test_error <= one.predict(p, method=QUICK).test_error * (1 + 1e-9)


@pytest.mark.parametrize("over", [(), ("steps",), ("ridge", "ridge"), "lambda"])
def test_bad_variables_get_a_sentence(over):
    with pytest.raises(one.InputError, match="over must be some of 'step', 'ridge', 'split', each once"):
        one.optimum(PROBLEM, over=over)


def test_nothing_is_split_where_one_batch_does_both():
    with pytest.raises(one.InputError, match="over='split' needs samples of their own for the step"):
        one.optimum(PROBLEM.replace(fresh=False), over=("split",))


def test_a_number_known_to_be_off_is_no_error_before_tuning(monkeypatch):
    """Nor is one variable told to be tuned alone where it is the only one."""
    p = one.Problem(n=200, d=100, N=150, noise=0.5)
    here = one.predict(p)
    found = SimpleNamespace(over=lambda names: (p, ()), alone=lambda name: 1.0)
    monkeypatch.setattr("onestride.theory.optimum.Search", lambda *_: found)
    for status, before in ((Status.SOLVED, here.test_error), (Status.INACCURATE, float("nan"))):
        given = replace(here, status=status)
        monkeypatch.setattr(
            "onestride.theory.optimum.predict", lambda *_, throw=True, given=given, **__: here if throw else given
        )
        best = one.optimum(p, ("ridge",))
        assert (best.before, best.alone) == (pytest.approx(before, nan_ok=True), {})
