"""Shapes in signatures can be checked: `make shapes` does so for all tests."""

import inspect

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from onestride._numerics import adapted_rule, solve
from onestride.comparison import check
from onestride.result import Estimate
from shapes import checked


def test_a_wrong_shape_is_found():
    with pytest.raises(TypeCheckError, match=r"parameters of onestride\._numerics\.solve"):
        checked(inspect.unwrap(solve))(np.eye(3), np.ones((2, 2)))
    with pytest.raises(TypeCheckError, match="parameters of"):
        checked(inspect.unwrap(Estimate.__init__))(object.__new__(Estimate), ["not", "an", "array"])


def test_right_shapes_pass_and_answers_stay():
    assert checked(solve)(np.eye(3), np.ones((3, 2))).shape == (3, 2)
    x, w = checked(adapted_rule)(np.tanh)
    assert x.shape == w.shape
    assert checked(solve).__doc__ == solve.__doc__


def test_a_function_without_shapes_is_left_as_it_is():
    assert checked(check) is check
