"""Nodes of samples and neurons along the learned direction: moments, drawn steps, the form of the direction."""

import numpy as np
import pytest

import onestride as one
from onestride.theory.direction import direction
from onestride.theory.profile.neurons import learned_direction, neuron_nodes, normal_rule, readout_rule
from tolerances import assert_close


def problem(**changes):
    fields = {"n": 800, "d": 400, "N": 600, "teacher": [0, 1, 0.5], "noise": 0.5, "step": one.Step(exponent=0.4)}
    return one.Problem(**(fields | changes))


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (0.1, 0.0), (1.0, 0.25)])
def test_normal_rule_has_the_moments_of_a_standard_normal(scale, shift):
    x, w = normal_rule(61, scale, shift=shift)
    assert_close([w @ x**k for k in range(7)], [1, 0, 1, 0, 3, 0, 15], rel=1e-7, abs_=1e-9)
    assert np.abs(x).max() == pytest.approx(7.5) or shift


@pytest.mark.parametrize(("readout", "fourth"), [("gaussian", 3), ("rademacher", 1), ("constant", 1)])
def test_readout_rule_has_the_moments_of_the_readout(readout, fourth):
    A, w = readout_rule(problem(readout=readout), 41)
    assert_close([w.sum(), w @ A**2, w @ A**4], [1, 1, fourth], rel=1e-8)


@pytest.mark.parametrize("readout", ["gaussian", "rademacher", "constant"])
@pytest.mark.parametrize("gradient", ["labels", "full"])
def test_weight_along_the_direction_has_the_variance_of_both_parts(readout, gradient):
    """θ = amplitude·A + O/√d: E θ² = amplitude² + 1/d, and E θA = amplitude."""
    p = problem(readout=readout, gradient=gradient)
    learned = learned_direction(p)
    nodes = neuron_nodes(p, learned, 41, min_weight=1e-12, strength=None)
    assert_close(nodes.weight @ nodes.theta**2, learned.amplitude**2 + 1 / p.d, rel=1e-8)
    if learned.through_output or readout != "gaussian":
        assert_close(nodes.weight @ (nodes.theta * nodes.A), learned.amplitude, rel=1e-8)


def test_strength_widens_the_weights_along_the_direction():
    p = problem(gradient="full")
    learned = learned_direction(p)
    wide = neuron_nodes(p, learned, 41, min_weight=1e-12, strength=lambda A: np.full_like(A, 4.0))
    assert_close(wide.weight @ wide.theta**2, learned.amplitude**2 + 4 / p.d, rel=1e-8)


def test_neurons_too_rare_to_exist_are_dropped_and_the_rest_sum_to_one():
    p = problem()
    learned = learned_direction(p)
    every, kept = (neuron_nodes(p, learned, 41, min_weight=m, strength=None) for m in (1e-12, 1e-4))
    assert kept.theta.size < every.theta.size
    assert kept.weight.min() > 1e-4
    assert kept.weight.sum() == pytest.approx(1)


def test_labels_only_direction_is_that_of_the_gradient():
    p = problem(gradient="labels")
    learned, beta = learned_direction(p), direction(p)
    assert (learned.overlap, learned.through_output, learned.tilt) == (beta.overlap, False, 0.0)
    assert_close(learned.amplitude, p.sigma.coefficients[1] * p.eta * beta.s / np.sqrt(p.N), rel=1e-14)


def test_without_a_step_the_literal_direction_is_the_output_before_it():
    """t = W₀ᵀa has length 1, lies along p and does not know the teacher."""
    learned = learned_direction(problem(gradient="full", step=one.Step.none()))
    assert learned.tilt == 1
    assert learned.overlap == 0
    assert_close(learned.amplitude, 1 / np.sqrt(600), rel=1e-14)


@pytest.mark.parametrize("readout", ["gaussian", "constant"])
def test_the_power_of_the_residual_is_that_of_drawn_networks(readout):
    """300 networks of 100 neurons on 400 samples of 10 inputs: to 1 %; equal readouts see the square in the labels, 18 % of the power."""
    p = one.Problem(n=400, d=10, N=100, teacher=[0, 1, 0.7071], readout=readout, step=one.Step(exponent=0.3))
    rng, power = np.random.default_rng(5), []
    for _ in range(300):
        W, X = rng.standard_normal((100, 10)), rng.standard_normal((400, 10))
        W /= np.linalg.norm(W, axis=1, keepdims=True)
        a = np.ones(100) if readout == "constant" else rng.standard_normal(100)
        power.append(np.square(p.target(X[:, 0]) - p.sigma(X @ W.T) @ a / 10).mean())
    assert direction(p).residual_power == pytest.approx(np.mean(power), rel=0.04)
