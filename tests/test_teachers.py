"""Teachers of several directions: moments against closed forms and draws, and the sentence of every mistake."""

from __future__ import annotations

import numpy as np
import pytest

import onestride as one
from onestride import InputError, Problem
from onestride.functions import Function
from onestride.functions import teacher as function
from onestride.simulation.network import draw_batch, draw_directions
from onestride.teachers import (
    Teacher,
    all_products,
    degree_fractions,
    degree_powers,
    direction_fractions,
    hermite_components,
    joint_hermite,
    teacher,
)
from tolerances import assert_close


def parity(z):
    return z[..., 0] * z[..., 1]


def two_layer(z):
    return np.maximum(z[..., 0], 0) + np.maximum(z[..., 1] - z[..., 0], 0) + np.tanh(z[..., 1] + z[..., 2])


def make(**changes) -> Problem:
    return Problem(**({"n": 60, "d": 20, "N": 50} | changes))


def joint(f, k) -> Teacher:
    made = make(teacher=f, directions=k).target
    assert isinstance(made, Teacher)
    return made


def test_a_polynomial_has_the_moments_of_its_hermite_expansion():
    """g = H₁(z₁) + 0.5 H₂(z₁)z₂ − 0.3 H₃(z₂) + 2 z₁z₂ + 7: centred, C = 1, powers by degree 1, 4, 0.5 + 0.54."""
    g = joint(
        lambda z: (
            7
            + z[..., 0]
            + 0.5 * (z[..., 0] ** 2 - 1) * z[..., 1]
            - 0.3 * (z[..., 1] ** 3 - 3 * z[..., 1])
            + 2 * z[..., 0] * z[..., 1]
        ),
        2,
    )
    assert_close(g.shift, 7.0, rel=1e-9)
    assert_close(g.second_moment, 1 + 4 + 0.5 + 0.54, rel=1e-9)
    assert_close(g.coefficients[:4], [0, 1, 0, 0], rel=1e-7, abs_=1e-9)
    assert_close(g.nonlinear_power, 5.04, rel=1e-8)
    assert_close(g.tensor(2), [[0, 2], [2, 0]], rel=1e-8, abs_=1e-8)
    third = np.zeros((2, 2, 2))
    third[1, 1, 1] = -1.8
    third[0, 0, 1] = third[0, 1, 0] = third[1, 0, 0] = 1.0
    assert_close(g.tensor(3), third, rel=1e-7, abs_=1e-7)
    assert_close(degree_powers(hermite_components(g, 4), 2), [0, 1, 4, 1.04, 0], rel=1e-8, abs_=1e-8)


@pytest.mark.parametrize(
    ("f", "k"), [(two_layer, 3), (lambda z: np.tanh(z[..., 0] + z[..., 1] ** 3 - 3 * z[..., 1]), 2)]
)
def test_moments_are_those_of_draws(f, k):
    """10⁶ draws; the numbers are deterministic and were within 3 standard errors when written down."""
    g, z = joint(f, k), np.random.default_rng(3).standard_normal((10**6, k))
    y = g(z)
    u = z @ g.rotation.T
    assert_close(y.mean(), 0, rel=0, abs_=4e-3)
    assert_close((y**2).mean(), g.second_moment, rel=5e-3)
    assert_close(y @ u / len(y), [g.coefficients[1], *[0] * (k - 1)], rel=5e-3, abs_=5e-3)
    assert_close(np.einsum("i,ia,ib->ab", y, u, u) / len(y) - y.mean() * np.eye(k), g.tensor(2), rel=0, abs_=0.01)
    assert_close(g.at(u), y, rel=1e-9, abs_=1e-12)


def test_the_rotation_turns_the_mean_direction_to_the_first_axis_and_leaves_one_that_is_there():
    for k in (2, 3):
        g = teacher((0.0, 1.0, 0.5), k)
        assert isinstance(g, Teacher)
        assert_close(g.rotation @ g.rotation.T, np.eye(k), rel=0, abs_=1e-12)
        assert_close(g.rotation[0], np.full(k, k**-0.5), rel=1e-7)
        stairs = teacher((0.0, 1.0, 0.5), k, "staircase")
        assert isinstance(stairs, Teacher)
        assert_close(stairs.rotation, np.eye(k), rel=0, abs_=1e-6)
        assert_close(g.second_moment, 1.5, rel=1e-7)
        assert_close(stairs.second_moment, sum(1.5**j for j in range(1, k + 1)) / k, rel=1e-7)


def test_a_teacher_without_linear_part_keeps_its_axes():
    g = joint(parity, 2)
    assert g.coefficients[1] == 0
    assert_close(g.rotation, np.eye(2), rel=0, abs_=0)
    assert_close(g.second_moment, 1.0, rel=1e-9)


def test_a_function_of_one_coordinate_is_still_mixed():
    """What takes (m, k) to (m, k) is σ⋆ of each coordinate, as before; what takes it to (m,) is a function of all of them."""
    z = np.random.default_rng(0).standard_normal((7, 2))
    mixed = make(teacher=np.tanh, directions=2).target
    assert_close(mixed(z), np.tanh(z).sum(1) / np.sqrt(2), rel=1e-12)
    stairs = make(teacher=np.tanh, directions=2, mix="staircase").target
    assert_close(stairs(z), (np.tanh(z[:, 0]) + np.tanh(z).prod(1)) / np.sqrt(2), rel=1e-12)
    assert_close(joint(parity, 2)(z), z.prod(1), rel=1e-9, abs_=1e-9)
    assert isinstance(make(teacher=np.tanh).target, Function)


def test_labels_are_the_teacher_of_the_coordinates():
    p = make(teacher=two_layer, directions=3, noise=0.3)
    batch, B = draw_batch(p, 4, "ridge_inputs", "ridge_noise", 50), draw_directions(p, 4)
    assert_close(batch.signal, two_layer(batch.X @ B.T) - p.target.shift, rel=1e-12)


def test_many_directions_can_be_mixed_and_drawn():
    p = make(teacher=(0, 1.0, 0.3), directions=6)
    assert np.isfinite(one.simulate(p, 2).test_error.mean)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"teacher": lambda z: z[..., 0] / 0.0 * 0.0}, r"must be finite, it is nan at z = \("),
        ({"teacher": lambda z: z.sum()}, r"must take an array \(5, 2\) to \(5,\), a function of all .* got shape \(\)"),
        ({"teacher": lambda z: z[..., 2]}, "must accept an array .* of coordinates, but it raised: index 2 is out of"),
        ({"teacher": lambda z: z[..., 0] * 1j}, "must return real numbers, got type complex128"),
        ({"teacher": parity, "directions": 4}, "directions must be at most 3 for a teacher that is a function of all"),
        (
            {"teacher": parity, "mix": "staircase"},
            "mix='staircase' multiplies functions of one coordinate, and teacher",
        ),
        ({"teacher": lambda z: np.exp((z**2).sum(-1))}, "grows too fast to be averaged: 98% of E g"),
        ({"teacher": "nobody"}, "teacher: no function is called 'nobody'"),
        ({"teacher": parity, "directions": 1}, "teacher: the value of function 'parity' must"),
    ],
)
def test_mistakes_are_told_in_a_sentence(changes, sentence):
    with np.errstate(all="ignore"), pytest.raises(InputError, match=sentence):
        make(**({"directions": 2} | changes))


def test_a_registered_teacher_of_several_directions_goes_to_files_and_back():
    one.register("some_parity", parity, directions=2)
    p = make(teacher="some_parity", directions=2)
    again = Problem.from_json(p.to_json())
    assert again == p
    assert again.target is p.target
    with pytest.raises(InputError, match="'some_parity' is a function of 2 coordinates and needs directions=2, got 3"):
        make(teacher="some_parity", directions=3)
    one.register("some_parity", np.tanh, lambda z: 1 - np.tanh(z) ** 2)  # a name has one meaning, the last
    assert isinstance(make(teacher="some_parity").target, Function)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"directions": 4}, "directions must be a whole number from 1 to 3, got 4"),
        ({"derivative": np.cos}, "derivative goes with a function of one coordinate"),
        ({"value": np.tanh}, r"must take an array \(5, 2\) to \(5,\)"),
        ({"name": "no word"}, "name must be a word such as 'parity', got 'no word'"),
    ],
)
def test_what_cannot_be_registered_is_told(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        one.register(**({"name": "other", "value": parity, "directions": 2} | arguments))


def test_products_of_hermite_polynomials_are_orthonormal_and_counted():
    z = np.random.default_rng(1).standard_normal((4, 3))
    table = joint_hermite(z, 3)
    every = all_products(3, 3)
    assert len(every) == table.shape[0] == 20
    assert_close(table[every.index((0, 2))], z[:, 0] * z[:, 2], rel=1e-12)
    assert_close(table[every.index((1, 1))], (z[:, 1] ** 2 - 1) / np.sqrt(2), rel=1e-12)


def test_fractions_of_what_is_taught():
    """f̂ = z₁/2 + 3z₂: of g = z₁ + z₂ it has (½ + 3)/2 of degree 1, ½ and 3 of its directions; of degree 2, which g lacks, NaN."""
    taught, found = np.zeros(6), np.zeros(6)
    taught[1:3], found[1:3] = 1.0, (0.5, 3.0)
    assert_close(degree_fractions(found, taught, 2)[0], 1.75, rel=1e-12)
    assert np.isnan(degree_fractions(found, taught, 2)[1])
    assert_close(direction_fractions(found, taught, 2)[:, 0], [0.5, 3.0], rel=1e-12)
    assert_close(hermite_components(function((0.0, 1.0, 0.5)), 2), [0, 1, 0.5 * np.sqrt(2)], rel=1e-12)
