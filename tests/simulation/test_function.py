"""The sampled predictor is the one that is measured."""

import numpy as np
import pytest

from onestride.problem import Problem, Step
from onestride.simulation.function import sample_function
from onestride.simulation.learned import measure_learned


@pytest.mark.parametrize("changes", [{}, {"N": 60, "fresh": False}], ids=["dual", "primal, same batch"])
def test_regression_of_the_samples_gives_the_measured_shares(changes):
    """Both evaluate f̂ at the same test inputs of a seed, so regression on H_0 … H_4 of z gives the same shares."""
    problem = Problem(**({"n": 120, "d": 40, "N": 200, "teacher": [0, 1, 0.7], "step": Step(exponent=0.4)} | changes))
    sampled, measured = sample_function(problem, 3, 4000), measure_learned(problem, [3], n_test=4000)
    z = sampled.z
    table = np.stack([np.ones_like(z), z, z**2 - 1, z**3 - 3 * z, z**4 - 6 * z**2 + 3])
    for f, expected in ((sampled.trained, measured), (sampled.untrained, measured.untrained)):
        found = np.linalg.lstsq(table.T, f, rcond=None)[0][1:3] / [1, 0.7]
        assert found == pytest.approx(expected.fraction.values[0], abs=1e-9)
