"""The experiments from the paper: they run, say something sane, and would say something else if the numbers were wrong."""

from __future__ import annotations

import math
from importlib import import_module

import numpy as np
import pytest

from onestride import Problem, Step
from onestride.experiments import alignment, equivalence, rank_one_gradient, spectrum, spike_count, staircase
from onestride.experiments.catalogue import QUESTIONS
from onestride.experiments.outcome import Settings
from onestride.plot import draw, to_csv
from onestride.simulate.equivalent import VARIANTS, measure_equivalence, measure_expansions
from onestride.simulate.spectrum import leading_vectors

NAMES = ("rank-one-gradient", "spectrum", "spike-count", "alignment", "equivalence", "staircase")


@pytest.fixture(scope="module")
def outcomes():
    """Each experiment once, at its small size."""
    done = {}

    def get(name):
        if name not in done:
            seen: list[float] = []
            module = import_module(f"onestride.experiments.{name.replace('-', '_')}")
            done[name] = module.run(Settings("small", report=seen.append))
            assert seen == sorted(seen)
            assert 0 <= seen[0] <= seen[-1] <= 1
        return done[name]

    return get


@pytest.mark.parametrize("name", NAMES)
def test_experiment_runs_and_says_something_sane(outcomes, name):
    outcome = outcomes(name)
    assert outcome.name == name
    assert name in QUESTIONS
    for text in (outcome.verdict, outcome.finding, outcome.surprise, outcome.claim, outcome.caption):
        assert text
        assert "nan" not in text.lower().split()
        assert "None" not in text
    assert "±" in outcome.finding or name == "spike-count"
    for row in outcome.rows:
        numbers = [v for v in row.values() if isinstance(v, float)]
        assert all(math.isfinite(v) for v in numbers), row


@pytest.mark.parametrize("name", NAMES)
def test_figure_has_theory_and_simulation(outcomes, name):
    panels = outcomes(name).panels
    kinds = {s.kind for panel in panels for s in panel.series}
    assert "simulation" in kinds
    assert kinds & {"theory", "limit"} or any(panel.verticals for panel in panels)
    for panel in panels:
        assert panel.xlabel
        assert panel.ylabel
        assert any(np.isfinite(np.asarray(s.y, float)).any() for s in panel.series)
    assert len(to_csv(panels).splitlines()) > 20
    draw(panels, columns=outcomes(name).columns)


def test_rank_one_verdict_follows_the_slopes():
    falls, stays = (-0.45, 0.05), (-0.02, 0.02)
    assert rank_one_gradient.judge(falls, stays, falls).startswith("holds, with β from the residual")
    assert rank_one_gradient.judge(falls, falls, falls) == "holds for either β"
    assert rank_one_gradient.judge(stays, stays, stays) == "does not hold"
    assert rank_one_gradient.judge(stays, stays, falls) == "holds in part"


def test_spectrum_verdict_counts_spikes():
    assert spectrum.judge({0: 0.0, 1: 1.0, 2: 2.0, 3: 2.8}, [True] * 6) == "holds at this n and c"
    assert spectrum.judge({0: 0.0, 1: 1.0, 2: 1.2, 3: 3.0}, [True] * 5).endswith("in window 2")
    assert "not where theory" in spectrum.judge({1: 1.0}, [False])


def test_spike_count_verdict_needs_agreement_slopes_and_position():
    right = [(0.0, 0.0), (0.24, 0.25), (0.33, 1 / 3)]
    assert spike_count.judge(1.0, right, 0.1) == "holds as a limit, not at this n"
    assert spike_count.judge(1.0, right, 0.01) == "holds"
    assert spike_count.judge(0.5, right, 0.01) == "theory and simulation count differently"
    assert spike_count.judge(1.0, [(0.4, 0.25)], 0.01).startswith("does not hold")


def test_alignment_verdict():
    assert alignment.judge(1.0, [0.95, 0.95, 0.95], [1, 1, 1]) == "holds"
    assert alignment.judge(1.0, [0.95, 0.7, 0.3], [1, 1, 1]).startswith("holds as a limit")
    assert alignment.judge(1.0, [0.95, 0.95, 0.3], [1, 1, 0.4]).startswith("does not hold")
    assert alignment.judge(0.5, [1, 1, 1], [1, 1, 1]) == "theory and simulation differ"


def test_equivalence_verdict_separates_open_closed_and_undecided_gaps():
    assert equivalence.judge({"a": (0.01, 0.005), "b": (-0.02, 0.005)}) == "holds to a few percent"
    assert equivalence.judge({"a": (0.01, 0.005), "b": (0.2, 0.01)}) == "not at this size: 1 of 2 gaps are above 2 %"
    assert equivalence.judge({"a": (0.01, 0.005), "b": (0.05, 0.05)}).startswith(
        "consistent with it: no gap above 2 % is proven, 1 of 2"
    )


def test_staircase_verdict_and_onset():
    assert staircase.onset([0, 0.25, 0.5], [0, 0, 0.4]) == pytest.approx(0.3125)
    assert math.isnan(staircase.onset([0, 0.5], [0, 0.05]))
    right = [0.25, 0.33, 0.37]
    assert staircase.judge(1.0, right, right) == "holds"
    assert "degree 4 is not learned" in staircase.judge(1.0, [0.2, 0.37, math.nan], right)
    assert "in order" in staircase.judge(1.0, [0.1, 0.2, 0.3], right)
    assert staircase.judge(1.0, right, [0.25, 0.25, 0.25]).startswith("does not hold")
    assert staircase.judge(0.2, right, right) == "theory and simulation differ"


def test_planted_wrong_beta_flips_the_verdict(monkeypatch):
    """An experiment whose gradient kept the untrained output, but whose β did not, must not say that the claim holds."""
    real = rank_one_gradient.measure_gradient

    def planted(problem, seeds):
        from dataclasses import replace

        measured = real(problem.replace(gradient="full"), seeds)
        return replace(measured, distance_residual=measured.distance_labels)

    monkeypatch.setattr(rank_one_gradient, "measure_gradient", planted)
    assert rank_one_gradient.run(Settings("small")).verdict == "does not hold"


def test_leading_vectors_are_those_of_the_measured_spectrum():
    from onestride.simulate.spectrum import measure_spectrum

    problem = Problem(n=200, d=80, N=120, step=Step(constant=2.0, exponent=0.3), gradient="labels")
    z, vectors = leading_vectors(problem, 3, 2)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=0), 1)
    overlap = (z @ vectors[:, 0]) ** 2 / (z @ z)
    assert overlap == pytest.approx(measure_spectrum(problem, [3], count=2).overlaps.mean[0, 1], rel=1e-8)


def test_expansions_agree_with_the_single_window_measurement():
    problem = Problem(n=150, d=60, N=100, teacher=(0, 1, 0.7), step=Step(exponent=0.29), gradient="labels")
    many, one = measure_expansions(problem, 2, [5]), measure_equivalence(problem, 2, [5])
    for i, name in enumerate(("F", "F_2")):
        v = VARIANTS.index(name)
        assert many.train_loss.mean[v] == pytest.approx(one.train_loss.mean[i], rel=1e-9)
        assert many.test_error.mean[v] == pytest.approx(one.test_error.mean[i], rel=1e-9)
    assert float(many.column_means.mean) == pytest.approx(float(one.column_means.mean), rel=1e-9)
