"""Curves along any axis: few positions, more where they bend, and what the equations give at each."""

import numpy as np
import pytest

import onestride as one
from onestride.result import Status
from onestride.theory import quick_curves
from onestride.theory.quick import FULL, QUICK, cell, here
from onestride.theory.quick_curves import curves, error_map
from onestride.web.axes import AXES, curve
from onestride.web.query import read_problem

pytestmark = pytest.mark.long
# the staircase of four degrees at n = 10⁹, where shares jump from 0 to 1 between two windows
STAIRCASE = {"n": "1e9", "constant": "4", "phi": "0.25", "psi": "0.5", "step_samples": "4", "activation": "shifted_erf"}
STAIRCASE |= {"teacher": "0,1,0.7071,0.4082,0.2041", "noise": "0", "ridge": "0.01", "gradient": "labels"}


def test_quick_curve_of_a_steep_staircase_is_close_everywhere():
    """Errors within 4 %, shares within 5 points of the full theory (measured: 1.7 % and 2.7; before: 28 % and 21)."""
    problem = read_problem(STAIRCASE)
    quick = curves(problem, QUICK)
    assert 7 < len(quick["x"]) <= 18
    for alpha in (0.29, 0.32, 0.36, 0.42, 0.47):
        full, _ = cell(problem.at(exponent=alpha), FULL, None)
        assert np.interp(alpha, quick["x"], quick["test_error"]) == pytest.approx(full.errors[2], rel=0.04)
        for k in (1, 2, 3, 4):
            shown = np.interp(alpha, quick["x"], quick["fraction"][str(k)])
            assert shown == pytest.approx(full.fraction[k - 1], abs=0.05)


def test_smooth_curve_needs_no_more_positions():
    assert len(curves(read_problem({}), QUICK)["x"]) == QUICK.points


@pytest.mark.parametrize("axis", [name for name in AXES if name != "exponent"])
def test_curve_along_an_axis_passes_through_the_problems_on_it(axis):
    found = curve({"n": "300", "exponent": "0.2"}, axis, QUICK)
    assert found["x"] == sorted(found["x"])
    i = len(found["x"]) // 2
    value = str(round(found["x"][i])) if axis == "n" else f"{found['x'][i]:.10g}"
    problem = read_problem({"n": "300", "exponent": "0.2"} | {axis: value})
    expected = here(problem, QUICK)
    assert found["test_error"][i] == pytest.approx(expected["test_error"], rel=1e-6)
    assert found["fraction"]["1"][i] == pytest.approx(expected["fraction"]["1"], rel=1e-6)
    untrained = cell(problem.replace(step=one.Step.none()), QUICK, None)[0]
    assert found["untrained"]["test_error"][i] == pytest.approx(untrained.errors[2], rel=1e-6)


@pytest.mark.parametrize(
    ("address", "largest"),
    [({"inputs": "ar1"}, 0.02), ({"inputs": "spiked"}, 0.02), ({"steps": "2", "constant": "0.3"}, 0.01)],
    ids=str,
)
def test_quick_numbers_of_other_problems_are_close_to_those_of_predict(address, largest):
    problem = read_problem({"n": "400", "exponent": "0.2"} | address)
    row = here(problem, QUICK)
    assert row["test_error"] == pytest.approx(one.predict(problem, throw=False).test_error, rel=largest)
    assert row["spectrum"] is None
    assert "does not draw the spectrum: the command onestride spectrum has its bulk" in row["no_spectrum"]


def test_function_is_made_of_the_learned_shares():
    problem = read_problem({"n": "300"})
    row = here(problem, QUICK)
    taught = problem.target.normalised[:5]
    assert row["components"][1:3] == pytest.approx([row["fraction"][k] * taught[int(k)] for k in ("1", "2")])
    z = np.array(row["function"]["z"])
    assert row["function"]["teacher"] == pytest.approx(z + 0.7071 * (z**2 - 1), abs=1e-4)


def test_stability_bound_is_that_of_fresh_batches():
    """c₁²η < 2/(1 + d/n_step); ReLU has c₁ = 1/2, and at the bound's α the two are equal."""
    problem = read_problem({"steps": "3", "constant": "2"})
    told = here(problem, QUICK)["stable"]
    assert told["bound"] == pytest.approx(2 / 1.5)
    assert told["value"] == pytest.approx(problem.eta / 4)
    assert problem.at(exponent=told["exponent"]).eta / 4 == pytest.approx(told["bound"])
    assert here(read_problem({"steps": "3", "gradient": "labels", "n": "300"}), QUICK)["stable"] is None


def test_map_marks_what_is_known_to_be_off_and_its_least_is_not(monkeypatch):
    """Errors that fall with α: the least of all would be one of a step that is too strong."""
    monkeypatch.setattr(quick_curves, "errors_along", lambda at, ridges, _: np.full(ridges.size, 2 - at.step.exponent))
    problem = one.Problem(
        n=200, d=100, N=60, teacher=[0, 1, 0.7071], noise=0.5, readout="constant", step=one.Step(constant=4)
    )
    found = error_map(problem, (1e-4, 10.0), QUICK)
    off = np.array(found["off"])
    assert off[4:].all()
    assert not off[:4].any()
    assert found["best"]["alpha"] == found["alpha"][3]
    for alpha, column in ((found["alpha"][3], off[3]), (found["alpha"][4], off[4])):
        status = one.predict(problem.at(exponent=alpha), throw=False).status
        assert (status is Status.INACCURATE) == column.all()


def test_curve_is_marked_where_predict_marks_its_number():
    """At a small penalty, with readouts of one size: what the problem without its penalty does not show."""
    step = one.Step(constant=3, exponent=0.3)
    problem = one.Problem(n=400, d=40, N=800, noise=0.5, readout="constant", step=step)
    marks = {
        ridge: (
            one.predict(problem.at(ridge=ridge), throw=False).status,
            cell(problem.at(ridge=ridge), QUICK, None)[0].verdict.status,
        )
        for ridge in (1e-3, 1.0)
    }
    assert marks == {1e-3: (Status.INACCURATE, Status.INACCURATE), 1.0: (Status.SOLVED, Status.SOLVED)}
