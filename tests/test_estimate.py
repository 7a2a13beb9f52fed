"""Labels with heavy tails: how skewed their power is, and what is said where ± of a few seeds says too little."""

import math

import numpy as np
import pytest

import onestride as one
from onestride.cli import main
from onestride.estimate import ENDLESS, MOST_KNOWN, Estimate, heavy_tails, is_known, label_skewness, nearly_normal
from onestride.result import Simulation
from onestride.simulation.known import DEGREES
from onestride.web.background import Job

HEAVY = one.Problem(n=400, d=20, N=30, teacher=[0, 1, 0.7071], directions=3, mix="staircase")
SENTENCE = "± is too narrow: labels with heavy tails, whose mean power over 8 seeds has skewness 16"


@pytest.mark.parametrize(("directions", "noise"), [(3, 0.0), (3, 0.7)])
def test_the_skewness_of_the_labels_power_is_that_of_a_chi_square(directions, noise):
    """A sum of linear functions is Gaussian, and so are its labels: their mean square is χ²_n/n, of skewness √(8/n)."""
    p = one.Problem(n=50, d=40, N=30, teacher=[0, 1], directions=directions, noise=noise)
    assert label_skewness(p) == pytest.approx(math.sqrt(8 / 50), rel=1e-6)


def test_values_that_are_not_freed_of_their_luck_have_the_skewness_of_their_labels():
    """With y = H₂(z) = z² − 1: E y² = 2, E y⁴ = 60, E y⁶ = 6040, by the moments 1, 3, 15, …, 10395 of z."""
    p = one.Problem(n=100, d=40, N=30, teacher=[0, 0, 1])
    assert label_skewness(p) == 0
    assert label_skewness(p, freed=False) == pytest.approx((6040 - 3 * 60 * 2 + 2 * 8) / 56**1.5 / 10, rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "endless"), [({}, False), ({"teacher": [0, 1, 0.5]}, True), ({"activation": [0, 1, 0.4]}, True)]
)
def test_squared_errors_of_random_lengths_have_no_variance_from_degree_two_on(changes, endless):
    """E ℓ⁸ is infinite with 5 degrees of freedom, E ℓ⁴ is not."""
    p = one.Problem(n=100, d=40, N=30, teacher=[0, 1], inputs="elliptic").replace(**changes)
    skewness = label_skewness(p)
    assert math.isinf(skewness) == endless
    assert (heavy_tails(skewness, 10**6) is not None) == endless
    if endless:
        assert one.simulate(p, 2).tails == ENDLESS


def test_what_is_freed_are_the_problems_whose_moments_are_known():
    assert sorted(DEGREES) == list(range(1, MOST_KNOWN + 1))
    assert [is_known(HEAVY.replace(directions=k)) for k in (1, 2, 3)] == [True, True, False]
    assert not is_known(HEAVY.replace(directions=1, inputs="uniform"))


def test_the_sentence_names_the_seeds_that_would_do():
    skewness = label_skewness(HEAVY)
    assert heavy_tails(skewness, 1) is None  # which has no error bar
    told = heavy_tails(skewness, 8)
    assert told is not None
    assert told.startswith(SENTENCE)
    assert told.endswith("about 2,000 seeds would do")
    assert (heavy_tails(skewness, 1900) is None, heavy_tails(skewness, 2000) is None) == (False, True)
    assert nearly_normal(skewness, 2000)
    assert (heavy_tails(1000.0, 8) or "").endswith("more than 10,000 seeds would do")


def simulated(problem, shape=(), **axes):
    values = 1 + np.arange(8.0 * math.prod(shape)).reshape(8, *shape)
    before = Simulation(problem, tuple(range(8)), *[Estimate(values + 1)] * 3)
    return Simulation(problem, tuple(range(8)), *[Estimate(values)] * 3, before, **axes)


@pytest.mark.parametrize("axes", [{}, {"exponents": np.array([0.0]), "ridges": np.array([0.1, 1.0])}])
def test_a_simulation_says_where_its_error_bars_are_too_narrow(axes):
    """In words, in a notebook and in JSON; of one direction, whose values are freed, there is nothing to say."""
    shape = tuple(len(values) for values in axes.values())
    heavy, freed = (simulated(HEAVY.replace(directions=k), shape, **axes) for k in (3, 1))
    told = heavy.tails
    assert told is not None
    for words in (repr(heavy), heavy._repr_html_(), heavy.to_json()):
        assert told in words
        assert words.count("too narrow") == 1
    assert freed.tails is None
    assert "tails" not in freed.to_dict()
    assert "too narrow" not in repr(freed) + freed._repr_html_()


def test_the_program_says_so(capsys):
    shape = ["--n", "100", "--d", "20", "--N", "30", "--teacher", "0,1,0.7071", "--seeds", "2"]
    for more, count in ((["--directions", "3", "--mix", "staircase"], 1), ([], 0)):
        with pytest.raises(SystemExit):
            main(["simulate", *shape, *more])
        assert capsys.readouterr().out.count("± is too narrow") == count


def test_the_page_says_so():
    assert Job(HEAVY, 8, None, None).to_dict()["tails"].startswith(SENTENCE)
    assert Job(HEAVY.replace(directions=1), 8, None, None).to_dict()["tails"] is None
