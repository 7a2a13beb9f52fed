"""A stack of seeds in one call of a device measures what each seed measures alone."""

from __future__ import annotations

import numpy as np
import pytest

import onestride as one
from networks import LIBRARIES, QUANTITIES, largest_gap
from onestride._backend import choose
from onestride.simulation import cost
from onestride.simulation.cost import Plan
from onestride.simulation.ridge import fit_split
from onestride.simulation.rows import Rows
from onestride.simulation.run import simulate_grid
from onestride.simulation.shifted import IllConditionedError

PLAIN, PRECISE = 1e-12, 1e-7  # slopes, which only weigh numbers of mean 0, are solved to 1e-6


def problem(**changes) -> one.Problem:
    given = {"n": 60, "d": 20, "N": 80, "teacher": [0, 1, 0.5, 0.3], "noise": 0.5}
    return one.Problem(**given | {"step": one.Step(constant=1, exponent=0.4)} | changes)


def measured(p: one.Problem, device: str, seeds=5, **how) -> one.Simulation:
    return simulate_grid(p, [0.1, 0.4], [0.01, 1.0], seeds, n_test=2000, device=device, **how)


@pytest.mark.long
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"n": 120, "N": 50},
        {"directions": 2, "teacher": [0, 1, 0.5], "mix": "sum", "inputs": "uniform"},
        {"gradient": "labels", "n_step": 90, "readout": "rademacher", "noise": 0.0},
        {"fresh": False, "activation": "tanh"},
    ],
    ids=["dual", "primal", "two directions", "labels", "not fresh"],
)
def test_seeds_together_are_the_seeds_alone(library, changes, monkeypatch):
    p = problem(**changes)
    assert Plan(p, 3, 2, 2000, choose(library), seeds=5).together == 5
    stack = measured(p, library)
    monkeypatch.setattr(cost, "MOST_TOGETHER", 1)
    for alone in (measured(p, library), measured(p, "cpu")):
        assert largest_gap(stack, alone, raw=True) < PLAIN
        assert largest_gap(stack, alone) < PRECISE
        assert largest_gap(stack.untrained, alone.untrained, raw=True) < PLAIN


def test_groups_of_seeds_take_their_own_draws(monkeypatch):
    """Seven seeds in groups of three, three and one; progress reaches the total."""
    ticks, p = [], problem()
    whole = measured(p, "strict", 7)
    monkeypatch.setattr(cost, "MOST_TOGETHER", 3)
    parts = measured(p, "strict", 7, progress=lambda *now: ticks.append(now))
    assert largest_gap(parts, whole, raw=True) < PLAIN
    assert ticks == [(k, 21) for k in (3, 6, 9, 12, 15, 18, 19, 20, 21)]


def test_a_stack_that_fails_is_measured_seed_by_seed():
    """Tiny penalties need a decomposition of each F: the stack gives up and the numbers are those of each alone."""
    p = problem()
    tiny, reference = (simulate_grid(p, [0.4], [1e-13], 3, device=device) for device in ("strict", "cpu"))
    for name in QUANTITIES:
        np.testing.assert_allclose(getattr(tiny, name).raw.values, getattr(reference, name).raw.values, rtol=1e-5)


def test_what_does_not_fit_into_a_stack_is_not_stacked():
    """Several steps, laws with a covariance, large features, and NumPy."""
    device = choose("strict")
    assert Plan(problem(), 3, 2, 2000, device, seeds=1).together == 1
    assert Plan(problem(), 3, 2, 2000, seeds=5).together == 1
    assert Plan(problem(steps=2), 3, 2, 2000, device, seeds=5).together == 1
    assert Plan(problem(inputs="power"), 3, 2, 2000, device, seeds=5).together == 1
    assert Plan(problem(n=8000, N=12000), 3, 2, 2000, device, seeds=5).together == 1
    large = Plan(problem(), 3, 2, 2000, device, seeds=500)
    assert large.together == cost.MOST_TOGETHER
    assert large.memory == large.together * Plan(problem(), 3, 2, 2000, device, seeds=2).memory / 2


def test_a_stack_raises_what_one_of_it_needs():
    rng, device = np.random.default_rng(0), choose("strict")
    F, g, U = (device.put(rng.standard_normal(shape)) for shape in ((2, 9, 6), (2, 6), (2, 6, 2)))
    with pytest.raises(IllConditionedError):
        fit_split(Rows.stored(F, device), g, U, np.array([1e-14]), dual=True)
