"""What the theory of finite n does not need: a step of at most √n, and an activation with a linear part."""

import numpy as np
import pytest

import onestride as one
from onestride import Problem, Step
from onestride.result import QUANTITIES, Status
from tolerances import assert_agrees, assert_close

SEEDS = 12


def problem(**changes):
    given = {"n": 400, "d": 150, "N": 300, "activation": "gelu", "teacher": [0, 1, 0.7], "noise": 0.5, "ridge": 0.1}
    return Problem(**given | changes)


def test_the_size_of_the_step_counts_and_not_its_exponent():
    p = problem()
    beyond, within = (
        one.predict(p.replace(step=step)) for step in (Step(exponent=0.65), Step(constant=p.n**0.15, exponent=0.5))
    )
    for name in QUANTITIES:
        assert_close(getattr(beyond, name), getattr(within, name), rel=1e-10)


@pytest.mark.parametrize(
    "changes", [{"activation": [0, 0, 0.5]}, {"activation": [0, 0, 0.5], "gradient": "labels", "teacher": [0, 0.5, 1]}]
)
def test_no_linear_part_is_the_limit_of_a_small_one(changes):
    p = problem(**changes, step=Step(exponent=0.25))
    small = [0, 1e-6, *p.sigma.coefficients[2:3]]
    for name in QUANTITIES:
        exact, near = (getattr(one.predict(q), name) for q in (p, p.replace(activation=small)))
        assert_close(exact, near, rel=1e-5)


STRONG, EVEN = {"step": Step(exponent=0.65)}, {"activation": [0, 0, 0.5], "step": Step(exponent=0.25)}


@pytest.mark.statistical(rate=0.01)
@pytest.mark.parametrize(
    "changes",
    [STRONG, STRONG | {"activation": "tanh", "gradient": "labels"}, EVEN, EVEN | {"gradient": "labels"}],
    ids=str,
)
def test_both_agree_with_simulation(changes, seed):
    """Within 3 % or five standard errors of 12 seeds, three numbers each: false alarms below 1e-3 each."""
    p = problem(**changes)
    predicted = one.predict(p, throw=False)
    simulated = one.simulate(p, seeds=range(1000 * seed, 1000 * seed + SEEDS), progress=False)
    assert predicted.status is Status.SOLVED
    for name in QUANTITIES:
        assert_agrees(getattr(predicted, name), np.asarray(getattr(simulated, name).values), floor=0.03)
