"""Luck in the records of a store: precise rows, plain ones where a record is older, and none that means nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import onestride as one
from onestride.result import QUANTITIES
from onestride.sweeps.lucks import measured, wrong_luck
from onestride.sweeps.shapes import NUMBERS, SHAPES
from onestride.sweeps.task import Task, perform

PROBLEM = one.Problem(n=40, d=16, N=50, teacher=[0, 1, 0.7], noise=0.5, step=one.Step(constant=1, exponent=0.3))


@pytest.fixture(scope="module")
def runs():
    return [perform(Task(PROBLEM, ((0.3, 0.1),), (0.1,), seed, "none"))[0] for seed in range(3)]


def test_records_give_back_what_simulate_says(runs):
    alone = one.simulate(PROBLEM.at(ridge=0.1), 3)
    for name in QUANTITIES:
        found = measured([run.values for run in runs], name)
        np.testing.assert_allclose(found.values, getattr(alone, name).values, rtol=1e-8)
        np.testing.assert_allclose(found.raw.values, getattr(alone, name).raw.values, rtol=1e-12)


def test_a_record_of_an_earlier_version_makes_the_cell_plain(runs):
    older = replace(runs[0], values={name: v for name, v in runs[0].values.items() if name != "luck"})
    assert SHAPES["run"](older) is None
    found = measured([run.values for run in (older, *runs[1:])], "test_error")
    np.testing.assert_array_equal(found.values, [run.values["test_error"] for run in runs])


@pytest.mark.parametrize("part", ["moments", "freed", "slopes"])
def test_luck_that_means_nothing_is_found(runs, part):
    luck = runs[0].values["luck"]
    assert wrong_luck(runs[0].values, NUMBERS) is None
    for wrong in (None, [], {}, {"moments": ["x"]}):
        if wrong != luck[part]:
            assert wrong_luck({"luck": luck | {part: wrong}}, NUMBERS) == "its luck is none"
