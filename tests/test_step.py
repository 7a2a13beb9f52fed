"""The step size and lists of them: what they mean, files, sweeps, and mistakes in a sentence."""

from __future__ import annotations

import numpy as np
import pytest

import onestride as one
from onestride import InputError, Problem, Step
from onestride.problem import Schedule
from onestride.simulation.network import draw_network, gradient, step_batch, trained_weights
from onestride.sweeps.cells import group_cells, problem_content, problem_of

MIXED = [Step(constant=1, exponent=0.2), Step(constant=0.5, exponent=0.3)]


def make(**changes) -> Problem:
    return Problem(**({"n": 60, "d": 20, "N": 30, "activation": "tanh"} | changes))


def test_a_list_gives_each_step_its_size():
    p = make(step=MIXED)
    assert p.steps == 2
    assert p.etas == (60**0.2, 0.5 * 60**0.3)
    assert isinstance(p.step, Schedule)
    assert (p.step.constant, p.step.exponent) == (1, 0.3)


def test_equal_steps_are_one_step_repeated():
    assert make(step=[Step(constant=2, exponent=0.1)] * 3) == make(step=Step(constant=2, exponent=0.1), steps=3)
    assert make(step=[Step()]) == make(step=Step())
    assert make(step=[Step.none(), Step(constant=0, exponent=0.3)]).etas == (0.0, 0.0)


def test_another_exponent_moves_all_steps_alike():
    p = make(step=MIXED)
    assert p.at(exponent=0.3) == p
    np.testing.assert_allclose(p.at(exponent=0.4).etas, np.array(p.etas) * 60**0.1)
    same = make(step=[Step(constant=c, exponent=0.2) for c in (1, 3)]).at(exponent=0.5)
    assert [step.exponent for step in same.step.each] == [0.5, 0.5]
    np.testing.assert_allclose(p.replace(step=p.step.replace(constant=2)).etas, 2 * np.array(p.etas))


def test_files_bring_a_list_back():
    p = make(step=MIXED)
    assert Problem.from_toml(p.to_toml()) == Problem.from_json(p.to_json()) == p
    assert p.to_dict()["step"] == [{"constant": 1.0, "exponent": 0.2}, {"constant": 0.5, "exponent": 0.3}]
    assert make(step=Step(exponent=0.2), steps=2).to_dict()["step"] == {"constant": 1.0, "exponent": 0.2}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"step": MIXED, "steps": 3}, "steps must be left out or 2 when step is a list of 2, got 3"),
        ({"step": []}, r"step must be a Step\(constant=…, exponent=…\) or a list of them, got \[\]"),
        ({"step": [1, 2]}, r"or a list of them, got \[1, 2\]"),
        ({"step": [{"constant": -1}, {}]}, "constant must be a finite number, 0 or more, got -1"),
    ],
)
def test_mistakes_are_told_in_a_sentence(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        make(**changes)


def test_sweeps_keep_a_list_and_the_keys_of_a_single_step():
    p = make(step=MIXED)
    assert problem_of(problem_content(p)) == p
    (group,) = group_cells([(p, (0,)), (p.at(exponent=0.4), (0,))])
    assert [group.cell(pair) for pair in group.pairs] == [p, p.at(exponent=0.4)]
    assert group.contents[0] == problem_content(p)
    assert len(group_cells([(p, (0,)), (make(step=MIXED[::-1]), (0,))])) == 2
    assert problem_content(make(step=Step(exponent=0.2)))["step"] == {"constant": 1.0, "exponent": 0.2}


def test_steps_of_different_sizes_are_taken_one_after_the_other():
    p, seed = make(step=MIXED), 3
    network = draw_network(p, seed)
    W = network.W0
    for step, eta in enumerate(p.etas):
        W = W + eta * gradient(p, type(network)(W, network.a), step_batch(p, seed, step)).G
    np.testing.assert_allclose(trained_weights(p, network, seed), W, rtol=1e-12)
    np.testing.assert_allclose(
        one.simulate_grid(p, [0.4], [0.1], [seed]).test_error.values[0, 0, 0],
        one.simulate(p.at(exponent=0.4), [seed]).test_error.values[0],
    )
