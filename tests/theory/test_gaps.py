"""Between two bulks: eigenvalues that have left the lower one and are not among the leading ones."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import onestride as one
from onestride.theory.gaps import same_gap
from onestride.theory.outliers import find_outliers
from tolerances import assert_agrees, assert_close, seeds_from


def problem(alpha, shape=(600, 24, 900), **more):
    n, d, N = shape
    fields = {"activation": "relu", "teacher": [0, 1, 2**-0.5], "noise": 0.5} | more
    return one.Problem(n=n, d=d, N=N, step=one.Step(constant=1, exponent=alpha), **fields)


@pytest.fixture(scope="module")
def few_inputs(seed):
    p = problem(0.4)
    return one.measure_spectrum(p, seeds_from(seed, 12), count=30)


@pytest.fixture(scope="module")
def strong():
    return find_outliers(problem(0.4), nodes=25)


@pytest.mark.statistical(rate=6e-3)
def test_eigenvalues_between_the_bulks_are_where_theory_puts_them(few_inputs):
    """Degree 1 is a bulk of d eigenvalues; z leaves it, z² and the length of x lie below it: 12 seeds, k = 5, floor 8 %."""
    predicted, d = one.spectrum(few_inputs.problem), few_inputs.problem.d
    assert predicted.degrees == (1,)
    assert_agrees(predicted.leading[0], few_inputs.leading.values[:, 0], floor=0.08)
    assert_agrees(predicted.on_direction[0], few_inputs.on_direction.values[:, 0], floor=0.05)
    assert predicted.between.size == 2
    for j in range(2):
        assert_agrees(predicted.between[j], few_inputs.leading.values[:, d + j], floor=0.08)
        assert_agrees(1 + predicted.between_on_direction[j], 1 + few_inputs.on_direction.values[:, d + j], floor=0.06)
    assert predicted.trained is not None
    law, values = predicted.trained, few_inputs.eigenvalues.values
    assert abs(law.mass() + law.atom - 1) < 0.01
    for E in np.interp(np.linspace(0.1, 0.95, 9), law.cumulative(law.grid), law.grid):
        assert_agrees(1, 1 + (values <= E).mean(1) - law.cumulative(np.array([E]))[0], floor=0.015)
    assert "between its bulks an eigenvalue lies at" in predicted.message


def test_length_of_x_is_between_the_bulks_before_any_step():
    """What a step of no size leaves there is the spike of the untrained law, known by its own equations."""
    from onestride.theory.density import untrained_law

    p = problem(-3.0)
    found = find_outliers(p, nodes=25)
    assert found.leading.size == 0
    assert len(found.between) == 1
    gap, law = found.between[0], untrained_law(p)
    assert gap.leading_degrees == (0,)
    assert_close(gap.leading, law.spikes, rel=0.01)
    assert_close((gap.edge, gap.ceiling), (law.bands[-2][1], law.bands[-1][0]), rel=0.03)


def test_square_leaves_the_second_bulk_before_it_leaves_the_first(strong):
    """At small α no degree is seen, at 0.4 degree 2 is between the bulks, where `visible` counts it."""
    assert not find_outliers(problem(0.1), nodes=25).visible(2)
    assert strong.visible(2)
    assert 2 not in strong.leading_degrees


def test_sizes_without_resolved_degrees_have_no_gap_to_search():
    assert find_outliers(problem(0.4, shape=(600, 600, 900)), nodes=17).between == ()


def test_overlaps_between_the_bulks_are_squared_lengths(strong):
    assert strong.between
    for gap in strong.between:
        assert (gap.overlaps >= 0).all()
        assert (gap.overlaps.sum(1) <= gap.on_direction + 1e-9).all()
        assert (gap.on_direction <= 1).all()
        assert (np.diff(gap.leading) < 0).all()


def test_a_bulk_between_two_solutions_is_seen():
    """All eigenvalues at 1: ρ = −1/(E − 1) and q = E/(E − 1) on either side of them."""
    model = SimpleNamespace(w=np.ones(1), weight=np.ones(1))

    def at(E):
        return SimpleNamespace(lam=-E, rho=np.array([-1 / (E - 1)]), q=np.array([E / (E - 1)]))

    assert same_gap(model, at(10.0), at(1.5))
    assert same_gap(model, at(0.9), at(0.1))
    assert not same_gap(model, at(1.5), at(0.9))
