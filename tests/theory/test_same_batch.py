"""The readout fitted on the samples of the step: rows that have seen it, rows that have not, and simulation."""

import numpy as np
import pytest

import onestride as one
from onestride.result import Status
from onestride.theory.direction import direction
from onestride.theory.profile import degrees, same_batch
from onestride.theory.profile.batch_plane import plane_of
from onestride.theory.profile.batch_rows import batch_rows
from onestride.theory.profile.equations import solve
from onestride.theory.profile.errors import errors_at
from onestride.theory.profile.neurons import learned_direction
from onestride.theory.reliability import known_off


def make(**changes):
    given = {
        "n": 200, "d": 100, "N": 300, "teacher": [0, 1, 0.5], "noise": 0.3, "gradient": "labels", "readout": "rademacher",
        "fresh": False, "step": one.Step(constant=1, exponent=0.2), "ridge": 0.1,
    }  # fmt: skip
    return one.Problem(**(given | changes))


@pytest.mark.parametrize("gradient", ["labels", "full"])
def test_a_row_carries_its_own_share_of_the_gradient(gradient):
    """E[z r] = (t̂·β⋆) c⋆₁ − (t̂·p) c₁ + √φ₀ (t̂·ν) √E r², and all of x·ν̂ is in z and in the plane off it."""
    p = make(gradient=gradient)
    learned, power = learned_direction(p), direction(p).residual_power
    rows = batch_rows(p, plane_of(p, 31), seen=True, groups=(21, 13))
    tilt = learned.tilt if gradient == "full" else 0.0
    along = np.sqrt(1 - learned.overlap**2 - tilt**2)
    known = learned.overlap * 1.0 - tilt * p.sigma.coefficients[1] + np.sqrt(p.phi * power) * along
    assert rows.w @ (rows.z * rows.r) == pytest.approx(known, rel=0.01)
    carried = (rows.w @ (rows.z * rows.unit)) ** 2 + sum((rows.w @ (x[:, 0] * rows.unit)) ** 2 for x in rows.plane)
    c1 = p.sigma.coefficients[1] if gradient == "full" else 0.0
    assert carried == pytest.approx((1 + c1**2) / power + p.phi, rel=0.02)  # x and r̂ vary together within a group


def test_a_label_far_beyond_the_others_leaves_groups_without_a_row():
    """Sum of four degrees, d = 10 n: of 21 groups of z one is skipped by a row that is a group's share by itself."""
    p = make(teacher=[0, 1, 1, 1, 1], noise=0.0, d=2000)
    rows = batch_rows(p, plane_of(p, 31), seen=True, groups=(21, 9))
    assert rows.w.sum() == pytest.approx(1)
    assert 0 < rows.w.size <= 20 * 9


@pytest.mark.parametrize("gradient", ["labels", "full"])
def test_rows_that_have_not_seen_the_step_give_the_theory_of_fresh_samples(gradient):
    """Judged rows in place of the leave-one-out identity, groups in place of nodes, one Gram matrix in place of the sectors."""
    p, lam = make(gradient=gradient), np.array([0.01, 1.0])
    found = same_batch._errors(same_batch._build(p, seen=False), lam)
    model = degrees.build(p.replace(fresh=True), memory=False, radii=1)
    known = np.transpose([errors_at(model, solve(model, value)) for value in lam])
    assert found == pytest.approx(known, rel=0.015)


@pytest.mark.parametrize("gradient", ["labels", "full"])
def test_what_a_batch_shows_does_not_change_a_network_that_it_has_not_moved(gradient):
    """Whatever is known of the rows: the ratio is 1, up to the groups and what is left out, which the answer is therefore divided by."""
    p, lam = make(gradient=gradient), np.array([0.01, 1.0])
    seen, fresh = (same_batch._errors(same_batch._build(p, seen=seen, moved=False), lam) for seen in (True, False))
    assert seen / fresh == pytest.approx(1.0, abs=0.06)


@pytest.mark.parametrize("gradient", ["labels", "full"])
def test_neurons_in_few_columns_are_all_neurons(gradient, monkeypatch):
    p, lam = make(gradient=gradient, readout="gaussian", activation="tanh"), np.array([1e-3, 1.0])
    few = same_batch._build(p, seen=True)
    found = same_batch._errors(few, lam)
    monkeypatch.setattr(same_batch, "_columns", lambda functions: np.eye(len(functions)))
    every = same_batch._build(p, seen=True)
    assert few.neurons.shape[1] < every.neurons.shape[1] / 2
    assert found == pytest.approx(same_batch._errors(every, lam), rel=1e-7)


def test_without_a_step_nothing_is_seen():
    p = make(step=one.Step.none())
    assert one.predict(p).test_error == one.predict(p.replace(fresh=True)).test_error


def test_a_nearly_isotropic_covariance_has_the_ratio_of_isotropic_inputs():
    """Within 2 %: weights along the learned direction count to first order here, and M's law there and along the teacher is that of others."""
    lam, near = np.array([0.01, 1.0]), one.Covariance(tuple(1 + 1e-3 * np.linspace(-1, 1, 400)))
    for gradient in ("labels", "full"):
        p = make(n=800, d=400, N=1200, gradient=gradient, activation="tanh")
        found, known = same_batch.ratio(p.replace(inputs=near), lam), same_batch.ratio(p, lam)
        assert np.abs(1 - known).max() > 0.1
        assert found == pytest.approx(known, rel=0.02)


def test_directions_that_labels_do_not_depend_on_change_nothing():
    p, lam = make(gradient="full"), np.array([0.01, 1.0])
    more = p.replace(teacher=lambda z: z[..., 0] + 0.5 * (z[..., 0] ** 2 - 1), directions=2)
    assert same_batch.ratio(more, lam) == pytest.approx(same_batch.ratio(p, lam), rel=0.01)


# two problems of an independent simulator at λ = 0.1: ridge objective, training and test error, known within 1 %; fitted on fresh samples
# the first would have an objective of 0.37, the second of 0.094. Two more by
# ours, 48 seeds, known within 3 %: on fresh samples the objectives would be 0.0432 and 0.268
SIMULATED = [
    (
        {"n": 1447, "d": 636, "N": 855, "activation": "elu", "noise": 0.0, "step": one.Step(constant=1, exponent=0.3)},
        [0.2459, 0.195, 0.7101],
    ),
    (
        {"n": 1272, "d": 712, "N": 1881, "teacher": [0, 1], "noise": 0.0, "gradient": "full", "step": one.Step(constant=2, exponent=0.1)},
        [0.0518, 0.0149, 0.2806],
    ),
    (
        {"n": 379, "d": 94, "N": 758, "teacher": [0, 1], "noise": 0.2, "inputs": "power", "step": one.Step(constant=2, exponent=0.3)},
        [0.0354, 0.0114, 0.1156],
    ),
    (
        {"n": 307, "d": 276, "N": 614, "activation": "silu", "noise": 0.2, "gradient": "full", "readout": "gaussian", "directions": 2,
         "step": one.Step(constant=0.5, exponent=0.3)},
        [0.1412, 0.0521, 1.15],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "simulated"), SIMULATED)
def test_agrees_with_simulation(changes, simulated):
    """Within three standard errors or 2 %."""
    found = one.predict(make(**changes), throw=False)
    linear = (
        changes.get("teacher") == [0, 1] and not changes["noise"]
    )  # marked, as others of the kind are off by up to 14 %
    assert found.status is (Status.INACCURATE if linear else Status.SOLVED)
    assert [found.train_loss, found.train_mse, found.test_error] == pytest.approx(
        simulated, rel=0.06 if linear or changes["n"] < 1000 else 0.032
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"steps": 2, "batch": "reused"}, "is derived for one step, got steps=2"),
        ({"inputs": "elliptic"}, "needs inputs without random lengths"),
        ({"readout": "constant"}, "needs a random readout or an odd activation, got readout='constant'"),
    ],
)
def test_what_is_not_described_is_told(changes, sentence):
    with pytest.raises(one.TheoryError, match=sentence):
        one.predict(make(**changes))


def test_other_quantities_need_fresh_samples():
    with pytest.raises(one.TheoryError, match="fresh samples for the ridge regression, got fresh=False"):
        one.learned(make())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"teacher": [0, 1, 0, 0.4], "noise": 0.0}, "residuals of kurtosis 58 make a few of the 200 rows"),
        (
            {"teacher": [0, 1], "step": one.Step(constant=3, exponent=0.5)},
            "own shares of the gradient move their pre-activations by",
        ),
        (
            {"gradient": "full", "n": 500, "d": 40, "teacher": [0, 1], "step": one.Step(constant=1, exponent=0.5)},
            "the step is far beyond the largest with which descent is stable",
        ),
    ],
)
def test_what_is_known_to_be_off_is_marked(changes, sentence):
    p = make(**changes)
    assert known_off(p.replace(fresh=True)) is None
    assert sentence in known_off(p)


def test_without_a_linear_part_neurons_go_no_common_way_and_there_is_a_number():
    """c₁ = 0 and labels alone: the direction has no length."""
    p = make(n=40, d=30, N=20, activation=[0, 0, 1], inputs="power", readout="gaussian")
    found = one.predict(p, throw=False)
    assert 0 < found.train_mse < found.train_loss < 2
    assert 0.09 < found.test_error < 10
