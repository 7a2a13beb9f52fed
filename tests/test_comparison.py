"""Statistics of agreement, and theory against simulation as a user would run it."""

import json
import math
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

import onestride as one
from onestride.comparison import (
    Agreement,
    Check,
    agree,
    check,
    quantile,
    seeds_words,
    together,
)
from onestride.estimate import label_skewness, rounded
from onestride.result import LABELS, QUANTITIES, Estimate, Simulation, Status
from tolerances import deviations, seeds_from

MODULE = import_module("onestride.comparison")
P = one.Problem(n=200, d=100, N=300, teacher=[0, 1, 0.7071], noise=0.5, step=one.Step(exponent=0.3))
WEAK = one.Problem(n=200, d=100, N=300, teacher=[0, 1, 0.7071], step=one.Step(constant=0.1, exponent=0.2))


def spread(mean: float, stderr: float, seeds: int = 8) -> Estimate:
    """An estimate with exactly this mean and standard error."""
    return Estimate(mean + stderr * math.sqrt(seeds) * deviations(seeds))


@pytest.mark.parametrize(
    ("seeds", "among", "expected"),
    [(2, 1, 12.706), (3, 1, 4.303), (5, 1, 2.776), (8, 1, 2.365), (30, 1, 2.045), (2, 5, 63.657), (8, 5, 3.499)],
)
def test_quantile_is_that_of_the_printed_tables(seeds, among, expected):
    """Student's t at seeds − 1 degrees of freedom; 99 % each makes 95 % for five."""
    assert quantile(seeds, among) == pytest.approx(expected, abs=6e-4)


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize(("seeds", "intervals"), [(2, 5_000), (3, 5_000), (5, 20_000)])
def test_intervals_cover_the_truth_as_often_as_they_say(seeds, intervals, seed):
    """95 % of the intervals, ± 5 standard errors (0.31 %, 0.15 % each): a false alarm has odds below 1e-6 (binomial).

    With `seeds` degrees of freedom instead of seeds − 1 the coverage is 85 %, 91 % and 93.8 %.
    """
    draws = np.random.default_rng(1000 * seed + seeds).standard_normal((intervals, seeds))
    ends = np.array([check(Estimate(row)).interval for row in draws])
    covered = ((ends[:, 0] <= 0) & (ends[:, 1] >= 0)).mean()
    assert abs(covered - 0.95) < 5 * math.sqrt(0.95 * 0.05 / intervals)


@pytest.mark.statistical(rate=1e-4)
def test_exact_theories_are_called_different_at_the_stated_rate(seed):
    """Five exact numbers without any tolerance, 4,000 times: at most 5 % of them (and at least 4: Bonferroni) differ."""
    draws = np.random.default_rng(1000 * seed).standard_normal((4000, 5, 4))
    alarms = [
        together([agree(1.0, Estimate(1 + row), 0.0, among=5) for row in five]) is Agreement.DIFFERS for five in draws
    ]
    assert 0.035 < np.mean(alarms) < 0.065


def test_three_outcomes():
    good, wide, wrong = spread(1.0, 0.01), spread(1.0, 0.05), spread(1.2, 0.01)
    assert agree(1.0, good).outcome is Agreement.AGREES
    assert agree(1.0, wide).outcome is Agreement.UNDECIDED
    assert agree(1.0, wrong).outcome is Agreement.DIFFERS
    assert agree(math.nan, good).outcome is Agreement.DIFFERS
    assert not agree(math.nan, good).agrees
    clear = agree(1.0, spread(1.02, 0.001))  # 20 standard errors, and still within 5 %
    assert clear.agrees
    assert clear.z == pytest.approx(-20)


def test_agreement_needs_the_whole_interval():
    """At five seeds the interval is ± 2.776 standard errors: 0.018·2.776 = 0.04997 fits into 5 %, 0.0181 does not."""
    assert agree(1.0, spread(1.0, 0.0180, 5)).agrees
    assert not agree(1.0, spread(1.0, 0.0181, 5)).agrees
    assert agree(0.0, spread(0.0, 0.0180, 5), absolute=0.05).agrees
    assert agree(1.0, spread(1.0, 0.0180, 5), among=5).agrees  # others that are asked beside it do not make it harder
    assert check(spread(0.1, 0.0359, 5), low=0).agrees
    assert not check(spread(0.1, 0.0361, 5), low=0).agrees


def test_a_joint_interval_is_needed_to_differ():
    """2.5 standard errors outside its tolerance: alone a difference at eight seeds, one of five not yet."""
    value = spread(1.05 + 2.5 * 0.01, 0.01)
    assert agree(1.0, value).outcome is Agreement.DIFFERS
    assert agree(1.0, value, among=5).outcome is Agreement.UNDECIDED


@pytest.mark.parametrize("among", [1, 5])
@pytest.mark.parametrize("mean", [1.0, 1.02, 1.1])
def test_the_seeds_that_are_said_to_decide_do_and_one_fewer_does_not(mean, among):
    stderr, seeds = 0.04, 4
    row = agree(1.0, spread(mean, stderr, seeds), among=among)
    needed = row.seeds_needed
    assert row.outcome is Agreement.UNDECIDED
    assert needed is not None
    for count, decided in ((needed, True), (needed - 1, False)):
        again = Check(mean, stderr * math.sqrt(seeds / count), count, 0.95, 1.05, among)
        assert (again.outcome is not Agreement.UNDECIDED) is decided
    assert seeds_words([row]).startswith("about ")


def test_at_the_edge_no_number_of_seeds_is_promised():
    row = agree(1.0, spread(1.05, 0.01))
    assert row.outcome is Agreement.UNDECIDED
    assert row.seeds_needed is None
    assert "edge" in seeds_words([row])
    wide = agree(1.0, spread(1.0, 0.05))
    assert seeds_words([row, wide]).endswith("seeds would decide all but 1, at the edge of the tolerance")
    assert seeds_words([agree(1.0, spread(1.0, 0.001))]) == "these seeds decide"


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("seeds", [2, 3])
def test_two_seeds_never_make_a_wrong_theory_agree(seeds, seed):
    """At c = 0.1 the limit promises gains that are not there, however wide the interval from two seeds is.

    A number outside its tolerance agrees once in forty times at its edge; these are far from it, see WEAK.
    """
    comparison = one.compare(WEAK, seeds=seeds_from(seed, seeds), method="plateau")
    assert not comparison.agrees
    assert not any(row.agrees for row in comparison.rows if row.quantity in ("train_gain", "test_gain"))


def test_undecided_says_how_many_seeds(monkeypatch):
    """Planted around the theory: at three seeds 5 % make an interval of ± 22 %."""
    comparison = plant(monkeypatch, lambda mean: spread(mean, 0.05 * abs(mean), 3), seeds=3)
    assert comparison.outcome is Agreement.UNDECIDED
    assert comparison.verdict.startswith("Undecided after 3 seeds")
    assert "seeds would" in comparison.verdict
    assert all(f"{name} (" in comparison.verdict for name in LABELS.values())  # in words, as in the command's table
    assert not any(name in comparison.verdict + str(comparison) for name in LABELS)
    json.dumps(comparison.to_dict(), allow_nan=False)
    told = comparison.to_dict()
    assert told["outcome"] == "undecided"
    assert told["seeds_needed"] is None or told["seeds_needed"] > 3


@pytest.mark.statistical(rate=0.05)
@pytest.mark.parametrize("gradient", ["labels", "full"])
def test_default_theory_and_simulation_do_not_differ(gradient, seed):
    """n = 500, 8 seeds: of an exact theory's five numbers one would differ in at most one of twenty sets of seeds."""
    p = one.Problem(
        n=500, d=250, N=750, teacher=[0, 1, 0.7071], noise=0.5, step=one.Step(exponent=0.3), gradient=gradient
    )
    assert one.compare(p, seeds=seeds_from(seed, 8)).outcome is not Agreement.DIFFERS


def test_a_gain_has_the_room_of_a_share_of_the_error_where_it_is_small(monkeypatch):
    """20 % of a gain of 0.001 would be less than any theory can hold: 1 % of the error is allowed."""
    small = P.replace(step=one.Step(constant=0.01, exponent=0.0))
    prediction = one.predict(small)
    assert 0 < prediction.test_gain < 0.01 * prediction.test_error
    monkeypatch.setattr(MODULE, "predict", lambda *a, **k: prediction)
    rooms = {row.quantity: row.tolerance for row in one.compare(small, seeds=2).rows}
    assert rooms["test_gain"] == pytest.approx(0.01 * prediction.untrained.test_error)
    assert rooms["train_gain"] == pytest.approx(0.01 * prediction.untrained.train_loss)
    assert rooms["test_error"] == pytest.approx(0.05 * prediction.test_error)


def test_enough_seeds_agree(monkeypatch):
    """Simulated values planted around the theory: the verdict is agreement, and says its tolerance."""
    planted = plant(monkeypatch, lambda mean: spread(mean, 0.01 * abs(mean), 8))
    assert planted.agrees
    assert planted.verdict.endswith("lie within the tolerance (5% of an error, 20% of a gain or 1% of the error).")
    assert planted.seeds_needed == 8


def plant(monkeypatch, values, status=Status.SOLVED, seeds=8):
    """Compare with a simulation whose every error is `values` of the predicted one."""
    prediction = replace(one.predict(P), status=status, message="a reason" if status is not Status.SOLVED else "")
    monkeypatch.setattr(MODULE, "predict", lambda *a, **k: prediction)

    def simulated(problem, seeds, **options):
        before, after = ([values(getattr(p, name)) for name in QUANTITIES] for p in (prediction.untrained, prediction))
        return Simulation(problem, seeds, *after, untrained=Simulation(problem, seeds, *before))

    monkeypatch.setattr(MODULE, "simulate", simulated)
    return one.compare(P, seeds=seeds)


def test_labels_of_heavy_tails_leave_all_undecided():
    """Of 96 groups of 32 seeds of this problem (18 November 2026) the 95 % interval of the ridge objective missed the mean of all in 17 %, of 8 in 25 %."""
    heavy = one.Problem(n=400, d=200, N=300, teacher=[0, 1, 0.7071], directions=3, mix="staircase")
    skewness = label_skewness(heavy)
    assert skewness == pytest.approx(44, rel=0.01)
    assert label_skewness(heavy.replace(directions=1)) == 0  # whose seeds are freed of their labels' power
    for mean in (1.0, 2.0):
        row = agree(1.0, spread(mean, 1e-3, 32), skewness=skewness)
        assert row.outcome is Agreement.UNDECIDED
        assert row.seeds_needed == math.ceil(skewness**2)
        assert agree(1.0, spread(mean, 1e-3, 2000), skewness=skewness).outcome is not Agreement.UNDECIDED


def test_the_verdict_says_that_tails_are_heavy(monkeypatch):
    monkeypatch.setattr(MODULE, "label_skewness", lambda problem: 44.0)
    comparison = plant(monkeypatch, lambda mean: spread(mean, 0.001 * abs(mean), 8))
    assert comparison.outcome is Agreement.UNDECIDED
    assert comparison.verdict.startswith("Undecided after 8 seeds: the labels have tails so heavy")
    assert comparison.verdict.endswith("about 2000 seeds would decide.")


def test_the_verdict_says_that_no_number_of_seeds_decides(monkeypatch):
    monkeypatch.setattr(MODULE, "label_skewness", lambda problem: math.inf)
    comparison = plant(monkeypatch, lambda mean: spread(2 * mean, 0.001 * abs(mean), 8))
    assert comparison.outcome is Agreement.UNDECIDED
    assert comparison.seeds_needed is None
    assert comparison.verdict.startswith("Undecided, and no number of seeds decides: errors grow so fast")
    assert seeds_words(comparison.rows) == "no number of seeds would decide, as errors have no variance"
    other = agree(1.0, spread(1.0, 0.03, 8))
    assert seeds_words([other, *comparison.rows[:3]]).endswith("seeds would decide all but 3, without a variance")


def test_numbers_that_the_theory_marks_are_compared_and_shown_as_marked(monkeypatch):
    comparison = plant(monkeypatch, lambda mean: spread(mean, 0.001 * abs(mean), 8), Status.INACCURATE)
    assert comparison.agrees
    assert "The theory itself marks its numbers: a reason." in comparison.verdict
    assert comparison.to_dict()["status"] == "inaccurate"


def test_an_interval_that_is_said_to_cross_the_tolerance_does(monkeypatch):
    """2.5 standard errors beyond the tolerance at 8 seeds: its own interval lies outside, the joint one of five does not."""
    comparison = plant(monkeypatch, lambda mean: spread(mean * (1.05 + 2.5 * 0.01), 0.01 * abs(mean), 8))
    row = comparison.rows[0]
    assert row.outcome is Agreement.UNDECIDED
    assert row.interval[0] > row.high > row.joint_interval[0]
    assert (
        "the joint 99% interval of simulation over theory crosses the tolerance for ridge objective (+4% to +11%)"
        in comparison.verdict
    )
    assert "the 95% interval" not in comparison.verdict


def test_without_a_theory_the_reason_is_raised():
    beyond = P.replace(N=8)
    with pytest.raises(one.TheoryError, match="at least 10"):
        one.compare(beyond, seeds=2)


@pytest.mark.statistical(rate=1e-6)
def test_verdict_names_what_differs_and_what_to_expect(seed):
    """The limit theory does not know the constant c; at c = 0.1 it promises a gain that is not there, see WEAK."""
    comparison = one.compare(WEAK, seeds=seeds_from(seed, 8), method="plateau")
    assert comparison.outcome is Agreement.DIFFERS
    assert "differ" in comparison.verdict
    assert "limit" in comparison.verdict
    assert "gain in test error predicted" in comparison.verdict


def test_without_a_step_gains_are_not_compared():
    p = one.Problem(n=100, d=50, N=150, teacher="relu")
    assert [row.quantity for row in one.compare(p, seeds=3).rows] == ["train_loss", "train_mse", "test_error"]


def test_one_seed_is_refused():
    with pytest.raises(one.InputError, match="seeds must be 2 or more"):
        one.compare(one.Problem(n=50, d=20, N=30), seeds=1)


def test_the_command_prints_three_outcomes(capsys):
    from onestride.cli import main

    with pytest.raises(SystemExit) as stop:
        main(["compare", "--n", "100", "--d", "50", "--N", "150", "--seeds", "2"])
    assert stop.value.code == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "undecided" in printed
    assert "Undecided after 2 seeds" in printed


def test_seeds_that_would_decide_are_rounded_up():
    assert [rounded(seeds) for seeds in (7, 99, 100, 121, 6640)] == [7, 99, 100, 130, 6700]


def test_gap_is_relative_to_what_was_measured():
    assert agree(2.0, Estimate(np.array([1.0, 1.0]))).gap == 1.0
    assert agree(2.0, Estimate(np.array([-1.0, -1.0]))).gap == 3.0  # a gain may be below 0
