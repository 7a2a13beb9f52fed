"""What the experiments share: problems, numbers of seeds, rows and phrases."""

from types import SimpleNamespace

import numpy as np
import pytest

from onestride.comparison import Agreement, agree
from onestride.experiments import kit
from onestride.experiments.verdict import count_check, spoken
from onestride.result import Estimate


def test_problems_differ_from_the_common_one_as_they_say():
    usual, paper, spiked = kit.problem_at(100), kit.paper_problem(100), kit.spiked_problem(100, exponent=0.3)
    assert (usual.d, usual.N, usual.noise, usual.gradient) == (50, 150, 0.5, "full")
    assert (paper.d, paper.N, paper.noise, paper.gradient) == (50, 150, 0.0, "labels")
    assert (spiked.d, spiked.N, spiked.step_samples, spiked.step.exponent) == (50, 50, 400, 0.3)
    assert kit.paper_problem(100, noise=0.2, constant=0.0).eta == 0


def test_seeds_are_more_where_they_are_cheap():
    assert kit.seeds_along((400, 800, 1600), 6) == [(400, 24), (800, 16), (1600, 6)]
    runs = [SimpleNamespace(problem=kit.problem_at(n), seeds=(0,) * k) for n, k in ((100, 8), (200, 2))]
    assert kit.ns_of(runs) == [100, 200]
    assert kit.seeds_of(runs) == "8 seeds at n = 100 to 2 at n = 200"


def test_rows_hold_mean_error_and_outcome():
    e = Estimate(np.array([1.0, 3.0]))
    assert kit.mean_of(e, "gain") == {"gain": 2.0, "stderr": 1.0}
    row = kit.row_of(agree(2.0, e, 0.0, absolute=1e9), n=7)
    assert row == {"n": 7, "theory": 2.0, "measured": 2.0, "stderr": 1.0, "outcome": "agrees"}
    assert kit.pm(e) == "2 ± 1"


def test_constant_part_grows_with_the_square_of_the_step():
    one, two = (kit.constant_part(kit.paper_problem(1000, constant=c, exponent=0.0)) for c in (1.0, 2.0))
    assert two == pytest.approx(4 * one)
    c2, power = 1 / np.sqrt(8 * np.pi), 2.0  # of relu, whose slope has variance 1/4; H₁ + H₂/√2
    assert one == pytest.approx(np.sqrt(3) * c2 * 0.5 * power * 0.25 / np.sqrt(1500), rel=1e-4)


@pytest.mark.parametrize(("seeds", "outcome"), [(4, Agreement.UNDECIDED), (40, Agreement.AGREES)])
def test_equal_counts_of_few_seeds_leave_room_for_another(seeds, outcome):
    assert count_check(Estimate(np.full(seeds, 3.0)), 2.9, 3.1).outcome is outcome


@pytest.mark.parametrize(("outcome", "word"), list(zip(Agreement, "abc", strict=True)))
def test_an_outcome_has_one_of_three_phrases(outcome, word):
    assert spoken(outcome, "a", "b", "c") == word


@pytest.mark.parametrize(
    ("n", "words"), [(1e9, "10⁹"), (1e15, "10¹⁵"), (10_000, "10000"), (658.0, "658"), (2e6, "2000000")]
)
def test_sizes_are_told_without_an_e(n, words):
    assert kit.number(n) == words
