"""What experiments share: sizes as asked for, points from one estimate or several, both models of a run in one array."""

import numpy as np
import pytest

from onestride.experiments.kit import both_models, both_predicted, each, pm, points, problem_at
from onestride.experiments.outcome import Settings
from onestride.result import Estimate
from onestride.simulation.run import simulate_grid
from onestride.theory.predict import predict_grid
from tolerances import deviations

SIZES = {"n": (10, 20, 30), "seeds": (4, 6, 8), "readout_seeds": (2, 3, 5)}


@pytest.mark.parametrize(("seeds", "expected"), [(None, (20, 6, 3)), (9, (20, 9, 9))])
def test_seeds_asked_for_replace_every_number_of_seeds_and_no_size(seeds, expected):
    size = Settings("standard", seeds=seeds).of(SIZES)
    assert (size.n, size.seeds, size.readout_seeds) == expected


def test_problem_is_that_of_the_paper_unless_fields_say_otherwise():
    problem = problem_at(40, exponent=0.5, constant=2.0, noise=0.0)
    assert (problem.d, problem.N, problem.noise, problem.ridge) == (20, 60, 0.0, 0.1)
    assert problem.eta == pytest.approx(2 * 40**0.5)


def test_points_of_one_estimate_are_those_of_its_parts():
    found = Estimate(np.array([1.0, 2.0, 3.0]) + 0.1 * deviations(4, 3))
    whole, parts = points("a", [0, 1, 2], found, colour=1), points("a", [0, 1, 2], each(found), colour=1)
    np.testing.assert_allclose(whole.y, [1, 2, 3])
    np.testing.assert_allclose(whole.error, 0.05)
    np.testing.assert_allclose((parts.y, parts.error), (whole.y, whole.error))
    assert (parts.kind, parts.colour) == ("simulation", 1)
    assert (pm(each(found)[2]), pm(each(found)[2], 2, "f")) == ("3 ± 0.05", "3.00 ± 0.05")


def test_both_models_hold_the_errors_without_and_with_the_step():
    problem, ridges = problem_at(40), [0.1, 1.0]
    found, theory = simulate_grid(problem, [0.4], ridges, 3), predict_grid(problem, [0.4], ridges)
    assert found.untrained is not None
    both = both_models(found)
    assert both.shape == (3, 2, 2)
    np.testing.assert_array_equal(both[:, 0] - both[:, 1], found.test_gain.values[:, 0])
    np.testing.assert_array_equal(both_predicted([theory])[0, 0] - both_predicted([theory])[0, 1], theory.test_gain[0])
