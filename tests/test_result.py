"""Results: one way to tell them as JSON, to show them in a notebook and to take one cell of a grid."""

import json
import math

import numpy as np
import pytest

import onestride as one
from onestride.result import (
    GAINS,
    QUANTITIES,
    Errors,
    Estimate,
    Prediction,
    PredictionGrid,
    Simulation,
    Status,
    json_text,
    plain,
)

P = one.Problem(n=60, d=30, N=40, teacher=[0, 1, 0.7071], step=one.Step(exponent=0.3))
EXPONENTS, RIDGES = np.array([0.2, 0.3]), np.array([0.1, 1.0, 10.0])


def prediction(**changes):
    fields = {"problem": P, "method": "profile", "train_loss": 0.5, "train_mse": 0.25, "test_error": 1.0}
    fields |= {"status": Status.SOLVED, "message": "solved", "accuracy": "5 %", "residual": 1e-12, "iterations": 7}
    return Prediction(**(fields | changes))


def simulation(shape=(), **changes):
    seeds = (0, 1, 2)
    values = np.arange(3.0 * math.prod(shape)).reshape(3, *shape)
    return Simulation(P, seeds, *(Estimate(values + k) for k in range(3)), **changes)


def grid_of_simulations():
    axes = {"exponents": EXPONENTS, "ridges": RIDGES}
    return simulation((2, 3), **axes, untrained=simulation((2, 3), **axes))


def test_a_prediction_tells_what_json_can_hold():
    told = prediction(test_error=math.nan, untrained=prediction(test_error=2.0)).to_dict()
    assert told["test_error"] is None
    assert told["test_gain"] is None
    assert told["status"] == "solved"
    assert told["untrained"] == {"train_loss": 0.5, "train_mse": 0.25, "test_error": 2.0}
    assert {*QUANTITIES, *GAINS, "residual", "method", "message", "accuracy", "iterations"} < set(told)
    assert "untrained" not in prediction().to_dict()
    json.dumps(told, allow_nan=False)


def test_a_simulation_tells_means_errors_and_values():
    told = grid_of_simulations()[1, 2].to_dict()
    assert told["seeds"] == [0, 1, 2]
    assert told["test_error"]["values"] == [7.0, 13.0, 19.0]
    assert told["test_error"]["mean"] == 13.0
    assert told["untrained"]["test_error"] == {"mean": 13.0}
    assert told["test_gain"]["values"] == [0.0, 0.0, 0.0]
    assert {"test_gain", "untrained", "spot_check"}.isdisjoint(simulation().to_dict())


def test_both_grids_are_indexed_alike():
    cell = grid_of_simulations()[1, 2]
    assert cell.problem == P.at(exponent=0.3, ridge=10.0)
    np.testing.assert_array_equal(cell.test_error.values, [7, 13, 19])
    assert cell.untrained is not None
    with pytest.raises(IndexError, match="single cell"):
        cell[0, 0]

    numbers = np.arange(6.0).reshape(2, 3)
    words = np.full((2, 3), "solved", object)
    trained = Errors(numbers, numbers, numbers, numbers, numbers.astype(int), np.full((2, 3), Status.SOLVED), words)
    found = PredictionGrid(P, "profile", EXPONENTS, RIDGES, trained, trained, "5 %")
    assert found[1, 2].problem == cell.problem
    assert found[1, 2].test_error == 5.0
    assert found.to_dict()["status"] == [["solved"] * 3] * 2
    json.dumps(found.to_dict(), allow_nan=False)


def test_estimates_outcomes_and_arrays_become_plain():
    nested = {1: np.array([1.0, np.inf]), "status": Status.NOT_CONVERGED, "e": Estimate(np.array([1.0, 3.0]))}
    assert plain(nested) == {"1": [1.0, None], "status": "not_converged", "e": {"mean": 2.0, "stderr": 1.0}}


def test_json_has_null_for_what_is_not_finite():
    data = [{"theory": math.nan, "stderr": np.inf, "n": 5, "words": "λ", "problem": P}]
    text = json_text(data)
    assert "λ" in text
    assert json.loads(text) == [{"theory": None, "stderr": None, "n": 5, "words": "λ", "problem": P.to_dict()}]
    assert json.loads(json_text(data, ascii_only=True)) == json.loads(text)
    assert json_text(data, ascii_only=True).isascii()


@pytest.mark.parametrize("result", [prediction(message="<b>"), simulation(), grid_of_simulations()], ids=repr)
def test_a_notebook_shows_names_values_and_errors(result):
    page = result._repr_html_()
    assert page.startswith("<table>")
    assert "<b>" not in page
    assert ("&lt;b&gt;" in page) == isinstance(result, Prediction)
    assert "<th>test_error</th>" in page
    assert ("±" in page) == isinstance(result, Simulation)


def test_a_figure_of_one_prediction_marks_what_is_known_to_be_off():
    found = prediction(status=Status.INACCURATE, untrained=prediction())
    series = found.panels()[0].series
    assert [(s.label, s.kind) for s in series] == [
        ("predicted, known to be off", "marked"),
        ("without the step", "simulation"),
    ]


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_a_figure_of_a_grid_runs_from_left_to_right_and_says_c(order):
    stepped = P.replace(step=one.Step(constant=2, exponent=0.3))
    alphas = np.array([0.1, 0.2, 0.3])
    expected = one.predict_grid(stepped, alphas, [0.1]).test_error[:, 0]
    error, gain = one.predict_grid(stepped, alphas[order], [0.1]).panels()
    assert (error.xlabel, gain.ylabel) == ("exponent α of η = 2·n^α", "gain in test error")
    np.testing.assert_array_equal(error.series[0].x, alphas)
    np.testing.assert_allclose(error.series[0].y, expected)
    ridges = np.array([0.1, 1.0, 10.0])
    (curve,) = one.predict_grid(stepped, [0.3], ridges[order]).panels()[0].series
    np.testing.assert_array_equal(curve.x, ridges)
    np.testing.assert_allclose(curve.y, one.predict_grid(stepped, [0.3], ridges).test_error[0])


def test_gains_are_falls_of_the_objective_and_of_the_test_error():
    before = prediction(train_loss=0.9, train_mse=0.4, test_error=1.7)
    found = prediction(untrained=before)
    assert (found.train_gain, found.test_gain) == pytest.approx((0.4, 0.7))
    assert (before.train_gain, before.test_gain) == (0, 0)
