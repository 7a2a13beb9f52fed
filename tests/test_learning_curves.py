"""Learning curves: each point is `predict`'s, exponents are slopes, simulated points agree, bad input gets its sentence."""

from __future__ import annotations

import numpy as np
import pytest

import onestride as one
from onestride.learning_curves import panels
from onestride.result import Status

PROBLEM = one.Problem(n=400, d=80, N=200, teacher=[0, 1, 0.5], noise=0.5, step=one.Step(constant=1, exponent=0.2))


def test_points_are_predictions_and_the_slope_is_that_of_the_excess():
    found = one.scaling(PROBLEM, "n", [200, 400, 800])
    for size, error, before in zip((200, 400, 800), found.test_error, found.untrained, strict=True):
        there = one.predict(PROBLEM.replace(n=size))
        assert error == pytest.approx(there.test_error, rel=1e-9)
        assert before == pytest.approx(there.untrained.test_error, rel=1e-9)
    excess = found.test_error - 0.25
    middle = np.log(excess[2] / excess[0]) / np.log(4)
    assert found.exponent[1] == pytest.approx(middle, rel=1e-9)
    last = np.log(excess[2] / excess[1]) / np.log(2)
    assert f"at n = 800, there like n^{last:.2g} above the noise" in found.message


def test_no_trusted_exponent_is_made_from_a_number_that_is_off():
    found = one.scaling(PROBLEM.replace(n=300, d=150, N=300, step=one.Step(exponent=0.3)), "n", [100, 1e4, 1e6, 1e7])
    assert [s is Status.SOLVED for s in found.status] == [True, True, False, False]
    fall = np.diff(np.log(found.excess)) / np.diff(np.log(found.at))
    assert found.exponent == pytest.approx(fall[[0, 0, 2, 2]], rel=1e-9)
    assert f"there like n^{fall[0]:.2g} above" in found.message
    alone = one.scaling(found.problem, "n", [1e4, 1e6])
    assert np.isnan(alone.exponent).all()
    assert "like" not in alone.message


def test_landmarks_are_where_sizes_meet():
    found = one.scaling(PROBLEM.replace(step=one.Step.none()), "n", [50, 150, 300, 5000])
    assert found.landmarks == pytest.approx({"n = N": 200.0, "n = d": 80.0, "n = d²/2": 3200.0}, rel=1e-9)


def test_ratios_go_along_and_sizes_stay():
    stay = one.scaling(PROBLEM, "N", [100, 400]).problems
    assert [(p.n, p.d, p.N) for p in stay] == [(400, 80, 100), (400, 80, 400)]
    along = one.scaling(PROBLEM.replace(n_step=200), "d", [40, 160], hold="ratios").problems
    assert [(p.n, p.d, p.N, p.n_step) for p in along] == [(200, 40, 100, 100), (800, 160, 400, 400)]


def test_a_curve_reaches_sizes_no_machine_has():
    found = one.scaling(PROBLEM, "n", [1e6, 1e12, 1e15], hold="ratios")
    assert all(s is Status.SOLVED for s in found.status)
    assert np.isfinite(found.test_error).all()


def test_tuned_points_have_the_best_penalty():
    found = one.scaling(PROBLEM, "n", [300, 600], tuned=True)
    for p, error in zip(found.problems, found.test_error, strict=True):
        best = one.optimal_ridge(p)
        assert p.ridge == pytest.approx(best.ridge, rel=1e-6)
        assert error == pytest.approx(best.test_error, rel=1e-9)
    before = one.optimal_ridge(found.problems[0].replace(step=one.Step.none()))
    assert found.untrained[0] == pytest.approx(before.test_error, rel=1e-6)  # at its own best penalty


def test_points_are_simulated_up_to_the_largest_of_all_sizes():
    small = PROBLEM.replace(n=60, d=20, N=40)
    found = one.scaling(small, "N", [40, 80], seeds=1, largest=70, method="finite-step")  # the second has more neurons
    assert sorted(found.simulated) == [0]


def test_simulated_points_lie_on_the_curve():
    """Eight seeds, z below 5: false-alarm rate below 1e-3 with seven degrees of freedom for two points."""
    found = one.scaling(PROBLEM, "n", [200, 400, 50_000], seeds=8, largest=1000)
    assert sorted(found.simulated) == [0, 1]
    for i, simulation in found.simulated.items():
        z = (float(simulation.test_error.mean) - found.test_error[i]) / float(simulation.test_error.stderr)
        assert abs(z) < 7
    drawn = panels(found)
    assert [s.kind for s in drawn[0].series] == ["theory", "theory", "simulation"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"along": "m"}, "along must be 'n', 'd' or 'N', got 'm'"),
        ({"hold": "both"}, "hold must be 'sizes' or 'ratios', got 'both'"),
        ({"at": [1e16]}, "at must be sizes up to 1e15, got 1e+16"),
        ({"at": []}, "at must be a non-empty list"),
        ({"at": np.arange(1.0, 10_002)}, "at must be at most 10,000 sizes, got 10,001"),
    ],
)
def test_bad_input_gets_its_sentence(given, words):
    with pytest.raises(one.InputError, match=words.replace("+", r"\+")):
        one.scaling(PROBLEM, **given)
