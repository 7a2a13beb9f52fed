"""Statistics of agreement, and theory against simulation as a user would run it."""

import json

import numpy as np
import pytest

import onestride as one
from onestride.compare import agree
from onestride.result import Estimate


def test_exact_theory_is_called_wrong_at_the_stated_rate():
    """With no floor and 99 % Student's t, 2000 exact predictions give 20 ± 4.5 false alarms; 45 has odds below 1e-6."""
    rng = np.random.default_rng(0)
    alarms = sum(not agree(1.0, Estimate(1 + 0.1 * rng.standard_normal(5)), 0.0).agrees for _ in range(2000))
    assert 3 < alarms < 45


def test_wrong_theory_is_caught():
    values = Estimate(1 + 0.01 * np.random.default_rng(0).standard_normal(8))
    assert agree(1.0, values, 0.02).agrees
    assert not agree(1.2, values, 0.02).agrees
    assert not agree(float("nan"), values, 0.02).agrees


@pytest.mark.parametrize("gradient", ["labels", "full"])
def test_default_theory_and_simulation_agree(gradient):
    """n = 500, 8 seeds; five rows at 99 %, so an exact theory would fail here about once in twenty seeds sets."""
    p = one.Problem(
        n=500, d=250, N=750, teacher=[0, 1, 0.7071], noise=0.5, step=one.Step(exponent=0.3), gradient=gradient
    )
    comparison = one.compare(p, seeds=8)
    assert comparison.agrees, comparison.verdict
    assert "agree" in comparison.verdict
    json.dumps(comparison.to_dict(), allow_nan=False)


def test_verdict_names_what_differs_and_what_to_expect():
    """The limit theory does not know the constant c; at c = 0.1 it promises a gain that is not there."""
    p = one.Problem(n=200, d=100, N=300, teacher=[0, 1, 0.7071], step=one.Step(constant=0.1, exponent=0.2))
    comparison = one.compare(p, seeds=8, method="plateau")
    assert not comparison.agrees
    assert "differ" in comparison.verdict
    assert "limit" in comparison.verdict


def test_without_a_step_gains_are_not_compared():
    p = one.Problem(n=100, d=50, N=150, teacher="relu")
    assert [row.quantity for row in one.compare(p, seeds=3).rows] == ["train_loss", "train_mse", "test_error"]


def test_one_seed_is_refused():
    with pytest.raises(one.InputError, match="seeds must be 2 or more"):
        one.compare(one.Problem(n=50, d=20, N=30), seeds=1)
