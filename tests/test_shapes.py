"""Shapes in signatures are checked while the tests run."""

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from onestride._numerics import adapted_rule, gauss_density, solve
from onestride.result import Estimate


def test_a_wrong_shape_is_found():
    with pytest.raises(TypeCheckError, match=r"parameters of onestride\._numerics\.solve"):
        solve(np.eye(3), np.ones((2, 2)))
    with pytest.raises(TypeCheckError, match=r"parameters of onestride\.result\.Estimate"):
        Estimate(["not", "an", "array"])


def test_right_shapes_pass_and_answers_stay():
    assert solve(np.eye(3), np.ones((3, 2))).shape == (3, 2)
    x, w = adapted_rule(np.tanh)
    assert np.isclose(w @ gauss_density(x), 1)
    assert solve.__name__ == "solve"
    assert "A⁻¹b" in solve.__doc__
