"""Neurons turn along β by what the first-order gradient says, and leading vectors are functions of X̃β."""

import numpy as np

import onestride as one
from onestride._backend import choose
from onestride.simulation.network import draw_network, step_gradient
from onestride.simulation.sampled_network import sample_network

SIZES = {"n": 400, "d": 200, "N": 600, "noise": 0.0}


def test_neurons_move_along_a_line_and_the_first_vector_is_linear():
    problem = one.Problem(**SIZES, activation="tanh", teacher=(0, 1), step=one.Step(constant=3, exponent=0.45))
    drawn = sample_network(problem, 1, 10_000)
    beta = step_gradient(problem, draw_network(problem, 1), 1, choose(None)).beta
    slope = problem.sigma.coefficients[1] * problem.eta * np.linalg.norm(beta) / np.sqrt(problem.N)
    moved = drawn.after - drawn.before
    assert abs(np.polyfit(drawn.readout, moved, 1)[0] / slope - 1) < 0.1
    assert drawn.before.std() < 2 / np.sqrt(problem.d)
    assert np.corrcoef(drawn.z, drawn.vectors[0])[0, 1] > 0.9
    assert np.allclose(np.mean(drawn.vectors**2, axis=1), 1)


def test_few_points_and_few_neurons_are_kept():
    problem = one.Problem(**SIZES, step=one.Step(constant=1, exponent=0.2))
    drawn = sample_network(problem, 0, 50, count=2)
    assert drawn.vectors.shape == (2, 50)
    assert [len(x) for x in (drawn.z, drawn.readout, drawn.before, drawn.after)] == [50] * 4
