"""The figure that is downloaded: what the page got is what is drawn, and what is known to be off is marked."""

import numpy as np
import pytest

from onestride import InputError
from onestride.web.figures import BASELINES, panels

NAMES = ("test_error", "train_loss")
CURVES = {
    "x": [0.0, 0.1, 0.2, 0.3],
    "test_error": [1.0, 0.9, 0.8, None],
    "train_loss": [0.5, 0.4, 0.3, None],
    "status": ["solved", "solved", "inaccurate", "not_converged"],
    "limit": {"windows": [[0.0, 0.25], [0.25, 1 / 3]], "test_error": [1.1, None], "train_loss": [0.6, 0.5]},
    "untrained": {"test_error": 1.2, "train_loss": None},
    "baselines": dict.fromkeys(BASELINES, 0.7) | {"bayes": None},
    "degrees": [1, 2],
    "fraction": {"1": [0.1, 0.2, 0.3, None], "2": [0.0, 0.0, 0.1, None]},
    "message": "no theory, says the test",
}
LAW = {"grid": [0.01, 1.0, 2.0, 4.0], "density": [0.0, 1.0, 1.0, None]}
HERE = {"spectrum": {"untrained": LAW, "trained": None, "leading": [8.0], "degrees": [1]}}
POINTS = {
    "seeds": 3,
    "test_error": [{"alpha": 0.1, "mean": 0.95, "stderr": None}],
    "learned": {"2": {"mean": 0.05, "stderr": 0.01}},
}


def drawn(points=POINTS):
    return panels(0.2, CURVES, HERE, points)


def test_theory_known_to_be_off_is_a_line_of_its_own_that_meets_its_neighbours():
    series = {s.label: np.asarray(s.y) for s in drawn()[0].series}
    np.testing.assert_array_equal(series["theory at this n"], [1.0, 0.9, np.nan, np.nan])
    np.testing.assert_array_equal(series["theory, known to be off by more than 5 %"], [np.nan, 0.9, 0.8, np.nan])


def test_limit_has_a_step_at_the_end_of_each_window():
    (limit,) = [s for s in drawn()[0].series if s.kind == "limit"]
    np.testing.assert_array_equal(limit.x, [0, 0.25, 0.25, 1 / 3])
    np.testing.assert_array_equal(limit.y, [1.1, 1.1, np.nan, np.nan])


def test_lines_that_have_no_number_are_left_out_and_only_the_test_error_has_baselines():
    test, train, *_ = drawn()
    assert [label for _, label in test.horizontals] == ["without the step", *list(BASELINES.values())[:3]]
    assert train.horizontals == []


def test_measured_points_are_drawn_at_their_own_exponents():
    test, _, _, learned = drawn()
    (errors,) = [s for s in test.series if s.kind == "simulation"]
    assert (errors.label, list(errors.x), list(errors.y)) == ("simulation, 3 seeds", [0.1], [0.95])
    (share,) = [s for s in learned.series if s.kind == "simulation"]
    assert (share.label, share.x, share.colour) == ("degree 2, simulation", [0.2], 1)


def test_spectrum_is_a_density_per_log_eigenvalue_and_its_axis_holds_every_spike():
    spectrum = drawn()[2]
    (bulk,) = spectrum.series
    np.testing.assert_array_equal(bulk.y, [0.0, 1.0, 2.0, np.nan])
    assert spectrum.xlim == pytest.approx((1 / 1.5, 1.6 * 8))
    assert spectrum.verticals == [(8.0, "k = 1")]


def test_nothing_to_draw_is_a_sentence():
    empty = CURVES | dict.fromkeys(NAMES, [None] * 4)
    with pytest.raises(InputError, match="there is nothing to draw: no theory, says the test"):
        panels(0.2, empty, HERE, {})
    assert len(panels(0.2, empty, {}, POINTS)) == 4
