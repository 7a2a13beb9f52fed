"""A constant readout: one matrix moves all neurons, which therefore see inputs as if these had a covariance."""

import numpy as np
import pytest

import onestride as one
from onestride.problem import Step
from onestride.theory.profile import degrees, one_readout
from onestride.theory.profile.equations import solve
from onestride.theory.profile.errors import errors_at
from onestride.theory.profile.neurons import learned_direction
from onestride.theory.profile.one_readout import together_of
from onestride.theory.profile.strength import strength
from tolerances import assert_agrees, assert_close, seeds_from

QUADRATIC = [0, 1, 2**-0.5]
SILU = {"n": 500, "d": 250, "N": 750, "activation": "silu", "noise": 0.5}
RELU = {"n": 500, "d": 250, "N": 750, "n_step": 2000, "activation": "relu", "teacher": QUADRATIC, "noise": 0.5}
STRONG = {
    "labels of one degree": (SILU, 3.0),
    "labels of two": (SILU | {"teacher": QUADRATIC}, 3.0),
    "many samples in the step": (RELU | {"gradient": "labels"}, 4.0),
    "two directions": (SILU | {"d": 200, "N": 600, "teacher": [0, 1, 0.7], "directions": 2}, 2.0),
}
QUANTITIES = ("train_loss", "train_mse", "test_error")


def constant(given, c=3.0, **changes):
    return one.Problem(**{"ridge": 0.1, "readout": "constant"} | given | changes, step=Step(constant=c, exponent=0.5))


def errors_of(problem, **few):
    model = degrees.build(problem, **few)
    return np.array(errors_at(model, solve(model, problem.ridge)))


@pytest.fixture
def first_order(monkeypatch):
    """What `memory` makes of it, as for other readouts."""

    def errors(problem):
        with monkeypatch.context() as patched:
            patched.setattr(degrees, "together_of", lambda *_: None)
            return errors_of(problem)

    return errors


@pytest.mark.statistical(rate=4e-4)
@pytest.mark.parametrize("name", STRONG)
def test_errors_agree_with_simulation(name, seed):
    """Gaps of 160 to 320 seeds: 0.3 to 2.4 %."""
    p = constant(*STRONG[name])
    simulated = one.simulate(p, seeds_from(seed, 40), untrained=False)
    for quantity, theory in zip(QUANTITIES, errors_of(p), strict=True):
        assert_agrees(theory, getattr(simulated, quantity).values, floor=0.03)


def test_to_first_order_errors_were_up_to_eleven_percent_lower(first_order):
    """Labels of one degree, which simulation bears out above."""
    p = constant(*STRONG["labels of one degree"])
    assert_close(first_order(p) / errors_of(p), [0.939, 0.885, 0.912], rel=5e-3)


@pytest.mark.parametrize("name", STRONG)
def test_small_steps_are_those_of_first_order(name, first_order):
    p = constant(STRONG[name][0], 0.002)
    assert_close(errors_of(p), first_order(p), rel=3e-5)


def test_more_nodes_change_nothing(monkeypatch):
    p = constant(*STRONG["labels of two"])
    found = errors_of(p)
    assert_close(errors_of(p, nodes=41, radii=8), found, rel=1e-4)
    monkeypatch.setattr(one_readout, "_NODES", 96)
    assert_close(errors_of(p), found, rel=2e-3)


@pytest.mark.statistical(rate=1e-3)
def test_what_all_neurons_see_is_that_of_a_drawn_batch(seed):
    """T = 1 + ντM of batches of labels alone: T²'s mean and second moment off the plane, and its products of t̂ and e."""
    p = constant(SILU | {"n": 1000, "d": 400, "N": 900, "gradient": "labels", "teacher": [0, 1, 0.5]}, 2.0)
    learned = learned_direction(p, through_output=False)  # β, without what is left of p
    together = together_of(p, learned, strength(p, "full", learned))
    frame, T = together.nodes.frame, together.T
    pairs = {"tt": (0, 0), "te": (0, 1), "ee": (1, 1)}
    predicted = [T**2 @ together.nodes.weight, T**4 @ together.nodes.weight]
    predicted += [np.einsum("p,pc,pc->", T**2, frame[:, :, a], frame[:, :, b]) for a, b in pairs.values()]
    found = []
    for k in range(24):
        rng = np.random.default_rng([seed, k])
        X = rng.standard_normal((p.n, p.d))
        y = p.target(X[:, 0]) + p.noise * rng.standard_normal(p.n)
        M, beta = (X.T * y) @ X / p.n, X.T @ y / p.n
        t = beta / np.linalg.norm(beta)
        e = np.eye(p.d)[0] - t[0] * t
        e /= np.linalg.norm(e)
        drawn = np.eye(p.d) + 2 * p.sigma.coefficients[2] * p.eta / np.sqrt(p.N) * M
        square = drawn @ drawn
        others = [np.diag(power)[1:].mean() for power in (square, square @ square)]
        found.append([*others, t @ square @ t, t @ square @ e, e @ square @ e])
    for values, theory in zip(np.array(found).T, predicted, strict=True):
        assert_agrees(theory, values, floor=0.06)
