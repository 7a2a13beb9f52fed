"""Numbers known to be off are marked; the untrained network is held to an independent simulator and to limits."""

import itertools
import re
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

import onestride as one
from onestride._backend import threads
from onestride._backend.threads import one_thread
from onestride.inputs import Covariance
from onestride.problem import Step
from onestride.result import QUANTITIES, Status
from onestride.theory.baselines import linear_ridge
from onestride.theory.profile import errors as profile_module
from onestride.theory.profile.accuracy import _of_its_kind, accuracy
from onestride.theory.profile.build import Ending, try_model
from onestride.theory.profile.equations import MOST_STEPS
from onestride.theory.profile.errors import errors as profile_errors
from onestride.theory.profile.memory import tie
from onestride.theory.profile.neurons import learned_direction
from onestride.theory.reliability import _by_degrees, known_off
from onestride.theory.reliability_of_steps import fluctuation
from onestride.theory.tails import changed_by_entries, nonlinear_tails
from tolerances import assert_agrees, assert_close

RIDGES = (0.001, 0.01, 0.1, 1.0)
QUADRATIC = [0, 1, 0.7071067811865475]

# mean and standard error of 48 seeds without a step, by a simulator that shares no code with this package: ridge
# objective, training error, test error (rows) at the four penalties
SIMULATED = {
    "relu, n = 1.8 d²": (
        {"n": 1024, "d": 24, "N": 1536, "activation": "relu", "teacher": QUADRATIC, "noise": 0.5},
        [
            [0.034088, 0.139772, 0.394943, 0.940643],
            [0.008421, 0.070943, 0.221721, 0.676002],
            [0.749405, 0.485044, 0.478658, 0.864034],
        ],
        [
            [0.000311, 0.001061, 0.003115, 0.008410],
            [0.000115, 0.000657, 0.001778, 0.005953],
            [0.006130, 0.003099, 0.003777, 0.007235],
        ],
    ),
    "tanh, n = 1.3 d²": (
        {"n": 2048, "d": 40, "N": 1024, "activation": "tanh", "teacher": [0, 1, 0, 0.4], "noise": 0.3},
        [
            [0.521685, 0.690381, 0.968142, 1.161245],
            [0.487740, 0.575602, 0.868527, 1.057697],
            [1.875200, 1.352214, 1.127968, 1.128490],
        ],
        [
            [0.012752, 0.017517, 0.026068, 0.030971],
            [0.011841, 0.014168, 0.022956, 0.029135],
            [0.029786, 0.023916, 0.024536, 0.026188],
        ],
    ),
}


# ---------------------------------------------------------------------- the untrained network


def untrained_errors(problem, ridges):
    """Three errors (rows) at every λ without a step."""
    found = profile_errors(problem, [Step.none()], ridges)
    return np.stack([getattr(found, name)[0] for name in QUANTITIES])


@pytest.mark.parametrize("name", SIMULATED)
def test_every_degree_resolved_gives_the_simulated_errors(name):
    """Within max(3 standard errors, 2 %) of numbers nobody here simulated."""
    problem, mean, stderr = SIMULATED[name]
    gap = np.abs(untrained_errors(one.Problem(**problem), RIDGES) - mean)
    assert (gap <= np.maximum(3 * np.array(stderr), 0.02 * np.array(mean))).all()


@pytest.mark.parametrize("weights", ["sphere", "gaussian"])
def test_few_inputs_agree_with_a_simulation_of_ours(weights):
    """n = 300, d = 12, 40 seeds, floor 4 % (finite N and n), false alarms below 1.5e-5 a number."""
    problem = one.Problem(n=300, d=12, N=400, teacher=[0, 1, 0.4], noise=0.3, ridge=0.05, weights=weights)
    theory, sim = untrained_errors(problem, (0.05,))[:, 0], one.simulate(problem, seeds=40, untrained=False)
    for value, name in zip(theory, QUANTITIES, strict=True):
        assert_agrees(value, getattr(sim, name).values, floor=0.04)


@pytest.mark.parametrize("activation", ["relu", "tanh", (0.0, 1.0, 0.4, 0.2)])
@pytest.mark.parametrize("weights", ["sphere", "gaussian"])
def test_many_inputs_give_the_theory_of_one_degree(activation, weights):
    problem = one.Problem(
        n=10**7, d=5 * 10**6, N=10**7, activation=activation, teacher=QUADRATIC, noise=0.5, weights=weights
    )
    plain = one.predict_grid(problem, [0.0], RIDGES)
    assert (plain.status == Status.SOLVED).all()
    for row, name in zip(untrained_errors(problem, RIDGES), QUANTITIES, strict=True):
        assert_close(row, getattr(plain, name)[0], rel=1e-4)


def test_linear_features_without_end_are_ridge_regression_on_the_inputs():
    """N → ∞ with σ(z) = z: the kernel is w_jᵀx summed over neurons, N/d times the inputs' own, so λ is scaled by d/N."""
    problem = one.Problem(n=4000, d=2000, N=10**12, activation=[0, 1], teacher=[0, 1], noise=0.5)
    ridge = 0.3 * problem.N / problem.d
    found = untrained_errors(problem, (ridge,))[2, 0]
    assert_close(found, linear_ridge(problem, 0.3), rel=2e-3)  # the length of x, which the closed form leaves out


def test_the_multiplicity_of_each_degree_is_that_of_the_polynomials():
    """A degree-two activation has exactly 1 + d + (d + 2)(d − 1)/2 features: more neurons do not help, as λ/N → 0."""
    small = {"n": 4000, "d": 10, "activation": [0, 1, 1], "teacher": [0, 1, 0, 0.3], "noise": 0.2}
    few, many = (untrained_errors(one.Problem(N=N, **small), (1e-4 * N,))[2, 0] for N in (10**4, 10**7))
    assert_close(few, many, rel=1e-4)
    parameters = 1 + 10 + (10 + 2) * (10 - 1) // 2
    beyond = 0.3**2 * 6 + 0.2**2  # H₃ and the noise cannot be fitted by functions of degree two
    assert_close(many, beyond * (1 + parameters / 4000), rel=0.05)


# ---------------------------------------------------------------------- marks

MODERATE = {"n": 1000, "d": 500, "N": 1500, "teacher": QUADRATIC, "noise": 0.5}
KNOWN = {
    "few samples in the step": {"n": 400, "d": 350, "N": 800, "n_step": 100, "activation": "gelu"}
    | {"teacher": [0, 1, 0, 0.4], "gradient": "labels", "step": Step(constant=1, exponent=0.5)},
    "linear labels without noise": {
        "n": 900,
        "d": 32,
        "N": 1800,
        "teacher": [0, 1],
        "gradient": "labels",
        "ridge": 0.01,
    }
    | {"readout": "rademacher", "weights": "gaussian", "step": Step(constant=1, exponent=0.5)},
    "constant readout, few neurons": {"n": 300, "d": 150, "N": 450, "teacher": QUADRATIC, "noise": 0.5}
    | {"activation": "silu", "readout": "constant", "step": Step(constant=4, exponent=0.5)},
    "heavy-tailed features": {"n": 400, "d": 200, "N": 600, "activation": [0, 1, 0, 1], "ridge": 0.02}
    | {"teacher": QUADRATIC, "noise": 0.5},
    "a teacher mostly quadratic": {
        "n": 756,
        "d": 83,
        "N": 247,
        "activation": "relu",
        "teacher": [0, 0.5, 1],
        "noise": 0.5,
    }
    | {"step": Step(constant=2, exponent=0.5)},
    "one readout, few neurons": {"n": 744, "d": 124, "N": 303, "activation": "gelu", "teacher": QUADRATIC, "ridge": 1.0}
    | {"readout": "constant", "step": Step(constant=3, exponent=0.5)},
    "a step beyond measure": MODERATE | {"step": Step(constant=10, exponent=0.5)},
}
MANY = {"n": 2048, "d": 32, "N": 2048, "ridge": 0.001, "teacher": QUADRATIC, "noise": 0.5}
FINE = {
    "n of order d²": MANY,
    "constant readout, strong step": MODERATE
    | {"activation": "silu", "readout": "constant", "step": Step(constant=3, exponent=0.5)},
    "the example of the README": MODERATE | {"step": Step(constant=1, exponent=0.3)},
    "c = 3, Gaussian readout": MODERATE | {"step": Step(constant=3, exponent=0.5)},
    "no step": MODERATE,
    "constant readout": MODERATE | {"readout": "constant", "step": Step(constant=1, exponent=0.5)},
    "constant readout, labels": MODERATE
    | {"readout": "constant", "gradient": "labels", "step": Step(constant=3, exponent=0.5)},
    "a little cubic": MODERATE | {"activation": [0, 1, 0.2, 0.05]},
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_number_known_to_be_off_is_marked_and_kept(name):
    """Each was simulated with 20 seeds or more, and one of its numbers is off by 5 to 90 %."""
    problem = one.Problem(**KNOWN[name])
    with pytest.raises(one.TheoryError, match="known to be off by more than 5 %"):
        one.predict(problem)
    p = one.predict(problem, throw=False)
    assert p.status is Status.INACCURATE
    assert np.isfinite([p.train_loss, p.train_mse, p.test_error]).all()
    grid = one.predict_grid(problem, [problem.step.exponent], [problem.ridge])
    assert grid.status[0, 0] is Status.INACCURATE
    assert grid[0, 0].message == p.message
    assert p.to_dict()["status"] == "inaccurate"
    if name != "linear labels without noise":  # whose error is small and off, not what it has learned
        assert one.learned(problem).status is Status.INACCURATE


@pytest.mark.parametrize("name", FINE)
def test_a_number_that_simulation_bears_out_is_not_marked(name):
    assert one.predict(one.Problem(**FINE[name])).status is Status.SOLVED


def test_a_diagnosis_begins_with_the_mark():
    found = one.diagnose(one.Problem(**KNOWN["heavy-tailed features"]))
    assert found.causes[0] == "theory-inaccurate"
    assert "penalty" not in found.causes


def test_the_number_that_was_eight_times_too_large():
    """n = 2,048, d = 32, no step, λ = 0.001: six seeds give 0.8015(97); degree one alone says 6.57."""
    assert_close(one.predict(one.Problem(**MANY)).test_error, 0.8015, rel=0.02)


def test_a_level_of_one_degree_names_both_numbers():
    message = one.predict(one.Problem(**MANY), level="full", throw=False).message
    assert "6.57" in message
    assert "0.799" in message
    assert "d²/2 = 512" in message


def test_marks_of_a_level_of_one_degree_follow_each_penalty():
    """At n = 1024, d = 100 it is 13 % off at small λ and within 4 % at λ = 1."""
    problem = one.Problem(n=1024, d=100, N=1536, teacher=QUADRATIC, noise=0.5)
    found = one.predict_grid(problem, [0.0], [0.001, 1.0], level="full").status[0]
    assert [s.name for s in found] == ["INACCURATE", "SOLVED"]


def test_a_network_louder_than_the_labels_is_marked():
    """gelu, d = 16, constant readout: the output has nine times the labels' power; the training loss is 29 % off at α = 1/2."""
    p = one.Problem(n=679, d=16, N=1508, activation="gelu", readout="constant", step=one.Step(constant=1, exponent=0.5))
    assert "own output has 8.8 times the power of the labels" in (known_off(p) or "")
    assert known_off(p.replace(gradient="labels")) is None
    assert known_off(p.replace(readout="gaussian")) is None
    assert known_off(p.replace(step=one.Step.none())) is None


def test_a_comparison_that_was_not_solved_is_not_an_agreement():
    """A level of one degree at n of order d², every degree unsolved: marked; at n ≪ d² there is nothing to fear."""
    unsolved = np.full(3, np.nan)
    assert "of order d²/2" in (_by_degrees(one.Problem(**MANY), np.ones(3), unsolved) or "")
    assert _by_degrees(one.Problem(**MODERATE), np.ones(3), unsolved) is None


def test_degrees_beyond_the_last_are_told():
    problem = one.Problem(n=10**7, d=10, N=10**6, teacher=QUADRATIC, noise=0.5)
    assert "degrees of the inputs beyond" in one.predict(problem, throw=False).message


def test_the_best_penalty_is_never_one_that_is_known_to_be_off():
    with pytest.raises(one.TheoryError, match="known to be off"):
        one.optimal_ridge(one.Problem(**KNOWN["heavy-tailed features"]))


def test_the_limit_is_a_limit_and_is_not_marked():
    problem = one.Problem(**MANY).replace(step=Step(constant=1, exponent=0.1))
    assert one.predict(problem, method="plateau").status is Status.SOLVED


def test_accuracy_follows_the_problem():
    """The record quoted is that of problems like this one, by n/d and c (docs/verification.md), and of its level."""
    usual = one.Problem(**FINE["the example of the README"])
    kinds = [
        {},
        {"d": 100},
        {"step": Step(constant=3, exponent=0.3)},
        {"d": 100, "step": Step(constant=3, exponent=0.3)},
    ]
    words = [one.predict_grid(usual.replace(**changes), [0.3], [0.1]).accuracy for changes in kinds]
    assert len(set(words)) == 4
    assert [("n/d from 4 to 100" in text, "1 < c" in text) for text in words] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert "13,824" in one.predict(usual, level="full").accuracy
    assert not any("outside of them" in text for text in words)
    for changes, told in (
        ({"step": Step(constant=3.5, exponent=0.3)}, "c = 3.5"),
        ({"n": 20_000, "d": 10_000, "N": 30_000}, "n = 20,000"),
        ({"n": 399, "d": 570}, "n/d = 0.7 and n = 399"),
        ({"directions": 2, "step": Step(constant=2.5, exponent=0.1)}, "n = 1,000 and c = 2.5"),
    ):
        found = one.predict_grid(usual.replace(**changes), [0.1], [1.0]).accuracy
        assert found.endswith(f"; this problem, with {told}, lies outside of them")


@pytest.mark.parametrize("step", [Step.none(), Step(exponent=0.2)])
def test_every_kind_has_a_record_of_its_own(step):
    """A number of problems and of what was simulated of them, none of which is nothing."""
    kinds = [{}, {"steps": 2}, {"steps": 2, "batch": "reused"}, {"fresh": False}]
    laws = ["gaussian", "uniform", "ar1", "elliptic", Covariance.spiked(250, 20.0)]
    told = set()
    for kind, directions, law in itertools.product(kinds, [1, 2], laws):
        problem = one.Problem(n=500, d=250, N=600, step=step, directions=directions, inputs=law, **kind)
        text = accuracy(problem)
        assert int(re.findall(r"of ([\d,]+) numbers", text)[0].replace(",", "")) >= 24
        told.add(text)
    assert len(told) == (7 if step.constant == 0 else 19)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"directions": 2},
        {"steps": 2},
        {"steps": 2, "batch": "reused"},
        {"steps": 2, "directions": 2},
        {"inputs": "ar1"},
        {"fresh": False},
        {"fresh": False, "directions": 2},
        {"inputs": "rademacher"},
    ],
    ids=str,
)
def test_what_is_said_to_have_been_simulated_is_what_a_problem_is_held_to(changes):
    """Every range of the sentence is one of the table and is asked for, whichever kind of problem it is."""
    problem = one.Problem(n=1000, d=500, N=1000, step=Step(exponent=0.3)).replace(**changes)
    record = _of_its_kind(problem)
    told = record.sentence(problem)
    assert sum(f"{{{field}}}" in record.told for field in ("ratio", "n", "c")) == told.count("n from ") + told.count(
        "n/d from "
    ) + told.count("c ≤")
    low, high = record.n
    assert f"n from {low:,} to {high:,}" in told
    far = problem.replace(n=200_000, d=190_000, step=Step(constant=3.5, exponent=0.3))
    assert record.sentence(far).endswith(f"with n = 200,000{' and c = 3.5' if record.c else ''}, lies outside of them")
    if record.ratio:
        assert "n/d = 0.5" in record.sentence(problem.replace(d=2000))


def test_tails_of_hermite_polynomials():
    """E H₂⁴ = 60 and E H₃⁴ = 3348; H₂(√v z) has power 2v², its nonlinear part no other."""
    for degree, fourth, square in ((2, 60, 2), (3, 3348, 6)):
        tails, growth = nonlinear_tails(one.activation((0.0, 1.0, *[0.0] * (degree - 2), 1.0)), 0.0)
        assert_close(tails, fourth / square**2, rel=1e-9)
        assert_close(growth, 1.0, rel=1e-12)
    assert_close(nonlinear_tails(one.activation((0.0, 1.0, 1.0)), 3.0)[1], 16.0, rel=1e-9)
    assert nonlinear_tails(one.activation((0.0, 1.0)), 1.0) == (0.0, 1.0)


def test_fluctuation_is_the_length_that_a_drawn_gradient_adds():
    """|ηG_j|² less its rank-one part, mean over neurons and 20 seeds, floor 5 %."""
    problem = one.Problem(n=600, d=300, N=900, teacher=QUADRATIC, noise=0.5, gradient="labels", step=Step(constant=2.0))
    rng, values = np.random.default_rng(0), []
    c1 = problem.sigma.coefficients[1]
    for _ in range(20):
        X, W = rng.normal(size=(600, 300)), rng.normal(size=(900, 300))
        W /= np.linalg.norm(W, axis=1, keepdims=True)
        y = problem.target(X[:, 0]) + 0.5 * rng.normal(size=600)
        a = rng.normal(size=900) / 30
        slope = problem.sigma.derivative(X @ W.T) - c1
        G = (slope * a).T @ (y[:, None] * X) / 600
        values.append((problem.eta**2 * (G**2).sum(1)).mean())
    assert_agrees(fluctuation(problem), np.array(values), floor=0.05)


# ---------------------------------------------------------------------- threads


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_theory_runs_on_one_blas_thread_and_gives_the_others_back(monkeypatch):
    seen, real = [], profile_module.errors_at
    monkeypatch.setattr(
        profile_module,
        "errors_at",
        lambda *args, **kwargs: (seen.append(blas_threads()), real(*args, **kwargs))[1],
    )
    before = blas_threads()
    one.predict(one.Problem(n=100, d=50, N=100))
    assert all(threads == {1} for threads in seen)
    assert seen
    assert blas_threads() == before


def test_threads_that_overlap_are_all_limited_and_all_let_go():
    """One caller enters while another is inside and leaves after it; afterwards old and new threads have what they had."""
    before, inside, leave, seen = blas_threads(), threading.Event(), threading.Event(), []

    def other():
        with one_thread():
            seen.append(blas_threads())
            inside.set()
            leave.wait(300)
        seen.append(blas_threads())

    with one_thread():
        thread = threading.Thread(target=other)
        thread.start()
        assert inside.wait(300)
        with one_thread():
            pass
        assert blas_threads() == {1}
    leave.set()
    thread.join(300)
    late = threading.Thread(target=lambda: seen.append(blas_threads()))
    late.start()
    late.join(300)
    assert seen == [{1}, before, before]
    assert blas_threads() == before


def test_work_side_by_side_has_one_blas_thread_each_and_the_warnings_of_its_caller(monkeypatch):
    before = blas_threads()
    monkeypatch.setattr(threads, "_blas_threads", lambda: 4)

    def work(k):
        inner = threads.together(lambda j: (threads.cores(), j), range(3))
        return k / np.zeros(1), blas_threads(), inner

    with np.errstate(divide="ignore"):
        (one_by_one,) = threads.together(work, [1.0])
        found = threads.together(work, [1.0, -1.0])
    assert [float(f[0][0]) for f in found] == [np.inf, -np.inf]
    assert all(f[1:] == ({1}, [(4, 0), (4, 1), (4, 2)]) for f in found)
    assert one_by_one[1] == before
    assert blas_threads() == before
    with pytest.raises(ZeroDivisionError):
        threads.together(lambda k: 1 / k, [1, 0])
    assert blas_threads() == before


def test_threads_inside_threads_are_never_more_than_cores(monkeypatch):
    monkeypatch.setattr(threads, "_blas_threads", lambda: 4)
    lock, now, most = threading.Lock(), [0], [0]

    def inner(k):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        threading.Event().wait(0.002)  # so that others come in, if they may
        with lock:
            now[0] -= 1
        return k

    def outer(k):
        return threads.by_rows(lambda rows: sum(inner(i) for i in range(rows.start, rows.stop)), 20 + k, most=3)

    found = threads.together(outer, range(9))
    assert [sum(parts) for parts in found] == [(20 + k) * (19 + k) // 2 for k in range(9)]
    assert most[0] <= 4


# ---------------------------------------------------------------------- the whole range of a problem

numbers = st.floats(-40, 40).map(lambda v: float(f"{v:.3g}"))
polynomials = st.lists(numbers, min_size=1, max_size=5).map(lambda c: (0.0, *c))
named = st.sampled_from(["relu", "tanh", "softplus", "gelu", "elu", "sin", "shifted_erf", "silu"])
sizes = st.one_of(st.integers(1, 2000), st.integers(1, 9).flatmap(lambda k: st.integers(10**k, 10 ** (k + 1))))


def log_uniform(low, high):
    return st.floats(low, high).map(lambda v: float(f"{10**v:.3g}"))


steps = st.builds(Step, constant=st.one_of(st.just(0.0), log_uniform(-3, 3)), exponent=st.floats(-0.5, 0.55))
problems = st.builds(
    one.Problem,
    n=sizes,
    d=sizes,
    N=sizes,
    activation=st.one_of(named, polynomials),
    teacher=st.one_of(named, polynomials),
    noise=st.one_of(st.just(0.0), log_uniform(-3, 3), st.just(1e308)),
    ridge=st.one_of(log_uniform(-8, 6), st.just(1e-320), st.just(1e308)),
    step=steps,
    gradient=st.sampled_from(["full", "labels"]),
    weights=st.sampled_from(["sphere", "gaussian"]),
    readout=st.sampled_from(["gaussian", "constant", "rademacher"]),
    n_step=st.one_of(st.none(), sizes),
    centred=st.booleans(),
)


def check(problem):
    """A number that is right in all that can be known without simulating it, or a status with a sentence."""
    ridges = sorted({problem.ridge, min(4 * problem.ridge, 1e308)})
    grid = one.predict_grid(problem, [problem.step.exponent], ridges)
    slack = 1e-6
    for errors in (grid.trained, grid.untrained):
        for status, message in zip(errors.status[0], errors.message[0], strict=True):
            assert isinstance(status, Status)
            assert message
        assert (errors.iterations <= 2 * MOST_STEPS).all()  # no prediction takes for ever
        solved = np.isin(errors.status[0], [Status.SOLVED, Status.INACCURATE])
        loss, mse, test = (getattr(errors, name)[0] for name in QUANTITIES)
        assert np.isnan(loss[~solved]).all()
        if not solved.any():
            continue
        power = problem.target.second_moment + problem.noise**2
        assert (mse[solved] >= -slack * power).all()
        assert (mse[solved] <= loss[solved] * (1 + slack)).all()
        if problem.law.normal:  # else labels have a power of their own
            assert (loss[solved] <= power * (1 + slack)).all()
        assert (test[solved] >= problem.noise**2 * (1 - slack)).all()
        if solved.all() and len(ridges) == 2:
            assert loss[1] >= loss[0] * (1 - slack)
            assert mse[1] >= mse[0] - slack * power


@settings(max_examples=60, deadline=None, derandomize=True)
@given(problem=problems)
def test_every_problem_gets_a_number_or_a_sentence(problem):
    check(problem)


@pytest.mark.slow
@settings(max_examples=3000, deadline=None, derandomize=True)
@given(problem=problems)
def test_three_thousand_problems_get_a_number_or_a_sentence(problem):
    check(problem)


chosen = st.builds(
    one.Problem,
    n=st.integers(10, 600),
    d=st.integers(10, 200),
    N=st.integers(10, 600),
    activation=st.one_of(named, polynomials),
    teacher=st.one_of(named, polynomials),
    noise=st.sampled_from([0.0, 0.5]),
    ridge=log_uniform(-4, 1),
    step=st.builds(Step, constant=log_uniform(-2, 0.5), exponent=st.floats(0, 0.5)),
    gradient=st.sampled_from(["full", "labels"]),
    weights=st.sampled_from(["sphere", "gaussian"]),
    readout=st.sampled_from(["gaussian", "constant", "rademacher"]),
    inputs=st.sampled_from(["gaussian", "rademacher", "student", "ar1", "power", "elliptic"]),
    steps=st.integers(1, 3),
    batch=st.sampled_from(["fresh", "reused"]),
    directions=st.integers(1, 3),
    mix=st.sampled_from(["sum", "staircase"]),
)


@pytest.mark.slow
@settings(max_examples=400, deadline=None, derandomize=True)
@given(problem=chosen)
def test_every_combination_of_choices_gets_a_number_or_a_sentence(problem):
    """`benchmarks/every_choice.py` asks thousands, and simulates them."""
    check(problem)


SPIKED = one.Covariance.spiked(24, 4.0, 0.5)


@pytest.mark.parametrize(
    ("inputs", "batch", "readout"),
    [
        ("power", "fresh", "gaussian"),
        ("power", "fresh", "constant"),
        (SPIKED, "reused", "constant"),
    ],
    ids=str,
)
def test_several_steps_of_two_directions_under_a_covariance_have_a_model(inputs, batch, readout):
    """Neurons of one readout have one path, with one direction, and a teacher's directions need not be orthogonal along a spike."""
    p = one.Problem(n=60, d=24, N=50, activation="silu", teacher=[0, 1, 0.5], noise=0.3, inputs=inputs, batch=batch)
    p = p.replace(readout=readout, directions=2, steps=2, step=Step(constant=0.3, exponent=0.2))
    model = try_model(p, nodes=5)
    assert not isinstance(model, Ending)


EXTREME = {
    "an activation of 10⁻¹¹¹": {"n": 10, "d": 10, "N": 10, "activation": [0, 0, 2.7e-111]},
    "labels that are all 0": {"n": 43, "d": 10, "N": 43, "teacher": [0, 0], "noise": 0.0, "gradient": "labels"}
    | {"step": Step(constant=1.0, exponent=0.0)},
    "a teacher of 10⁻¹³": {"n": 200, "d": 100, "N": 150, "teacher": [0, 8.35e-13], "noise": 0.0, "gradient": "labels"}
    | {"step": Step(constant=1.0, exponent=0.3)},
    "d/n of 10⁷ with the labels' gradient": {"n": 824, "d": 7077737246, "N": 253, "gradient": "labels"}
    | {"step": Step(constant=0.2, exponent=-0.2)},
    "n = 10⁹, N = 100": {"n": 10**9, "d": 1000, "N": 100},
    "N = 10²⁶": {"n": 1000, "d": 500, "N": 10**26, "step": Step(constant=1, exponent=0.3)},
    "a linear part of 10⁻¹⁵⁴": {"n": 10, "d": 10, "N": 10, "activation": [0, 2.2e-154, 1], "inputs": "ar1"}
    | {"step": Step(constant=1.0, exponent=0.0)},
    "an activation of 10³⁰⁸": {"n": 100, "d": 50, "N": 100, "activation": [0, 1e308]},
    "an activation of 10¹⁵⁰": {"n": 100, "d": 50, "N": 100, "activation": [0, 1e150]},
    "noise of 10³⁰⁸": {"n": 100, "d": 50, "N": 100, "noise": 1e308, "step": Step(constant=1)},
    "a penalty of 10³⁰⁸": {"n": 100, "d": 50, "N": 100, "ridge": 1e308},
    "a penalty of 10⁻³²⁰": {"n": 100, "d": 50, "N": 100, "ridge": 1e-320},
    "a strong step with a polynomial": {"n": 583, "d": 61, "N": 122901, "activation": [0, 20.9, 9.13, -19.3, 0, 1.16]}
    | {"step": Step(constant=337, exponent=0.33), "gradient": "labels", "readout": "rademacher", "ridge": 43200.0},
    "a step so strong that Newton's method strays": {"n": 1888, "d": 2503, "N": 83, "activation": [0, 0.812, 0.0334]}
    | {"noise": 767.0, "ridge": 1e-6, "gradient": "labels", "n_step": 196, "step": Step(constant=156, exponent=-0.427)},
}


@pytest.mark.parametrize("ask", [one.predict, one.spectrum, one.learned, one.baselines])
@pytest.mark.parametrize("name", EXTREME)
def test_extreme_problems_end_in_a_result_or_a_sentence(name, ask):
    problem = one.Problem(**EXTREME[name])
    try:
        ask(problem, density=False) if ask is one.spectrum else ask(problem)
    except (one.TheoryError, one.InputError) as error:
        assert str(error)  # noqa: PT017


def test_weights_whose_covariance_is_not_positive_end_in_a_sentence(monkeypatch):
    def broken(*given):
        raise np.linalg.LinAlgError

    monkeypatch.setattr("onestride.theory.profile.build._every_degree", broken)
    p = one.Problem(n=741, d=21, N=932, teacher=QUADRATIC, noise=0.5, inputs="ar1", steps=2, step=Step(exponent=0.1))
    with pytest.raises(one.TheoryError, match="the covariance of the weights along what was learned is not positive"):
        one.predict(p)
    with pytest.raises(one.TheoryError, match="the covariance of the weights along what was learned is not positive"):
        one.spectrum(p, density=False)


def test_readouts_of_one_size_are_marked_where_degree_two_is_just_being_learned():
    p = one.Problem(
        n=200, d=20, N=300, activation="silu", teacher=QUADRATIC, readout="rademacher", step=Step(constant=2.0)
    )
    grid = one.predict_grid(p.replace(step=Step(constant=0.5)), [0.0, 0.5], [0.01, 1.0])
    marked = grid.trained.status == Status.INACCURATE
    assert marked.tolist() == [[False, False], [True, False]]
    assert "degree two of the inputs" in grid.trained.message[1, 0]
    assert one.predict_grid(p.replace(readout="gaussian"), [0.5], [0.01]).trained.status[0, 0] is Status.SOLVED


@pytest.mark.parametrize(
    ("changes", "marked"),
    [
        ({}, [True, True, False]),
        ({"n": 320, "N": 530}, [False, False, False]),
        ({"N": 180}, [False, False, False]),
        ({"activation": "relu"}, [False, False, False]),
    ],
    ids=["few", "more", "narrow", "lighter"],
)
def test_heavy_features_that_interpolate_are_marked_at_small_penalties(changes, marked):
    """[0, 1, 0.4] at n = 219, d = 60, N = 363: training errors of 96 seeds are 8.4 ± 1.9 and 7.2 ± 1.7 % higher (18 November 2026)."""
    fields = {"n": 219, "d": 60, "N": 363, "activation": [0, 1, 0.4], "teacher": QUADRATIC, "noise": 0.5}
    found = one.predict_grid(one.Problem(**(fields | changes)), [0.0], [0.001, 0.01, 0.1]).untrained
    assert (found.status[0] == Status.INACCURATE).tolist() == marked
    assert all("interpolate" in text for text in found.message[0, marked])


@pytest.mark.parametrize(
    ("changes", "marked"),
    [
        ({"n": 443, "d": 83, "N": 455, "activation": [0, 1, 0.8]}, [True, True, False]),
        ({"n": 300, "d": 150, "N": 310, "activation": "gelu"}, [True, False, False]),
        ({"n": 300, "d": 150, "N": 290, "activation": "gelu"}, [False, False, False]),
        ({"n": 300, "d": 150, "N": 400, "activation": "gelu"}, [False, False, False]),
    ],
    ids=["quadratic", "gelu", "fewer neurons", "more neurons"],
)
def test_training_errors_of_a_few_smallest_eigenvalues_are_marked(changes, marked):
    """[0, 1, 0.8]: 9.3 ± 2.6 % low at λ = 0.001 (96 seeds), gelu 15 ± 5 % at 0.0001 (120 seeds), 18 November 2026."""
    p = one.Problem(teacher=QUADRATIC, noise=0.5, **changes)
    found = one.predict_grid(p, [0.0], [0.0001, 0.001, 0.1]).untrained
    assert (found.status[0] == Status.INACCURATE).tolist() == marked
    assert all("the smallest" in text for text in found.message[0, marked])


def test_exact_labels_under_a_covariance_are_marked_without_a_step():
    """ar1, d = 152, tanh, y = β⋆ᵀx: small test errors of the untrained network are 10 % high (20 seeds of another simulator)."""
    p = one.Problem(n=1736, d=152, N=932, activation="tanh", teacher=[0, 1], inputs="ar1")
    found = one.predict_grid(p, [0.0], [0.001, 1.0]).untrained
    assert found.status[0].tolist() == [Status.INACCURATE, Status.SOLVED]
    assert (one.predict_grid(p.replace(inputs="gaussian"), [0.0], [0.001]).untrained.status == Status.SOLVED).all()


def test_labels_without_noise_that_are_learned_whole_are_marked():
    """Two directions, H₂ of each: 0.5 % of the labels' power are left at λ = 0.001, and 1.7 % of 40 seeds (18 November 2026)."""
    p = one.Problem(
        n=430, d=14, N=717, n_step=860, activation="softplus", teacher=[0, 0, 1], directions=2, readout="constant", gradient="labels",
        step=Step(constant=0.27, exponent=0.486),
    )  # fmt: skip
    found = one.predict_grid(p, [0.486], [0.001, 0.1])
    assert found.trained.status[0].tolist() == [Status.INACCURATE, Status.SOLVED]
    assert "the labels have no noise" in found.trained.message[0, 0]
    assert (found.untrained.status == Status.SOLVED).all()


def beside_a_spike(kappa, **changes):
    given = {"n": 500, "d": 95, "N": 900, "teacher": [0, 1], "noise": 0.3, "activation": "tanh", "gradient": "labels"}
    given |= changes
    return one.Problem(**{"step": Step(exponent=0.1)} | given, inputs=one.Covariance.spiked(given["d"], kappa, 0.5))


QUADRATIC_ALONG = {"d": 145, "n": 536, "N": 1251, "activation": "silu", "teacher": QUADRATIC}
POLYNOMIAL = {"d": 68, "n": 737, "N": 268, "activation": [0, 1, 0.4], "readout": "rademacher"}
OWN = {"gradient": "full", "activation": "erf", "readout": "constant", "n": 404, "N": 916, "step": Step(exponent=0.5)}


@pytest.mark.parametrize(
    ("kappa", "changes", "milder", "said"),
    [
        (8.0, {"d": 22}, {"d": 40}, "that of 21 directions, (tr Σ)²/tr Σ² beside its largest eigenvector"),
        (21.3, QUADRATIC_ALONG | {"steps": 2, "step": Step()}, {"steps": 1}, "makes neurons' weights there grow"),
        (15.4, POLYNOMIAL | {"step": Step(constant=1.76, exponent=0.432)}, {"step": Step(exponent=0.25)}, "the fluctuations of the gradient add"),
        (11.0, OWN, {"readout": "gaussian"}, "the network's own output along the largest eigenvector"),
        (11.0, OWN, {"gradient": "labels"}, "the network's own output along the largest eigenvector"),
    ],
    ids=["few", "grown", "noise", "own", "own of labels"],
)  # fmt: skip
def test_what_a_spike_does_to_few_inputs_and_strong_steps_is_marked(kappa, changes, milder, said):
    """Of 400 random problems with spikes these kinds were 9 to 67 % off (40 to 320 seeds, 18 November 2026)."""
    assert said in (known_off(beside_a_spike(kappa, **changes)) or "")
    assert known_off(beside_a_spike(kappa, **changes | milder)) is None


def test_very_few_heavy_entries_are_marked_at_every_penalty():
    """Student, d = 14, tanh, labels z⋆: at λ = 1 the untrained test error is 10.5 ± 1.3 % high (32 seeds, 18 November 2026)."""
    p = one.Problem(n=235, d=14, N=203, activation="tanh", teacher=[0, 1], noise=0.3, inputs="student")
    assert one.predict_grid(p, [0.0], [1.0]).untrained.status[0, 0] is Status.INACCURATE
    assert one.predict_grid(p.replace(d=30), [0.0], [1.0]).untrained.status[0, 0] is Status.SOLVED


def test_entries_that_several_steps_see_in_several_directions_are_marked_sooner():
    """±1 entries, two and three directions of tanh: test errors of 80 and 40 seeds 7.1 ± 0.5 and 6.0 ± 0.8 % above; of 140 0.1 ± 0.7."""
    p = one.Problem(
        n=408, d=70, N=188, activation="gelu", teacher="tanh", gradient="labels", weights="gaussian", readout="constant",
        inputs="rademacher", steps=2, directions=3, mix="staircase", step=Step(constant=1.435, exponent=0.353),
    )  # fmt: skip
    milder = (("steps", 1), ("inputs", "gaussian"), ("d", 140))
    assert "rademacher entries of the inputs have excess kurtosis -2" in (known_off(p) or "")
    assert "uniform entries" in (known_off(p.replace(inputs="uniform", directions=2)) or "")
    assert [known_off(p.replace(**{name: value})) for name, value in milder] == [None] * 3


def test_neurons_that_are_stretched_alike_are_marked_sooner():
    """silu, a constant readout, two eigenvalues: errors of 32 seeds are 10 to 15 % above (18 November 2026)."""
    halves = one.Covariance(tuple(np.where(np.arange(88) % 2, 0.4, 1.6)))
    p = one.Problem(
        n=743, d=88, N=633, activation="silu", teacher=[0, 0.4, 1], readout="constant", gradient="labels", inputs=halves,
        step=Step(constant=1.648, exponent=0.352),
    )  # fmt: skip
    assert "of the teacher's direction that it does not learn" in (known_off(p) or "")
    assert known_off(p.replace(step=Step(constant=0.8, exponent=0.352))) is None


ALIKE_ALL = {"n": 300, "d": 120, "N": 450, "activation": "softplus", "noise": 0.3, "ridge": 0.01, "readout": "constant"}


def test_neurons_of_one_readout_that_a_batch_moves_alike_are_marked_where_that_is_told_to_first_order():
    """softplus, c = 3, 20 seeds (19 November 2026): objective, training and test error were 21, 28 and 31 % low before `one_readout`."""
    p = one.Problem(**ALIKE_ALL, step=Step(constant=3, exponent=0.5))
    assert known_off(p) is None
    for off in (p.replace(inputs="uniform"), p.replace(d=30, n=500)):
        assert "move all neurons in the same way, by 0." in (known_off(off) or "")
    full = one.predict(p, level="full", throw=False)
    assert "move all neurons in the same way, by 0." in full.message
    assert full.test_error < 0.8 * one.predict(p).test_error
    milder = {"readout": "rademacher", "noise": 2.0, "step": Step(constant=0.5, exponent=0.5), "activation": "tanh"}
    assert [known_off(p.replace(inputs="uniform", **{name: value})) for name, value in milder.items()] == [None] * 4


def test_neurons_of_one_readout_that_are_stretched_along_few_directions_or_far_are_marked():
    """relu, c = 6, λ = 0.1: training error 12 ± 2 % low; gelu, c = 3, λ = 0.01: 16 ± 5 % low (48 seeds), d = 64: test error 13 ± 2 % high (32 seeds,
    20 November 2026).
    """
    strong = {"n": 433, "d": 294, "N": 882, "activation": "relu", "teacher": [0, 1, 0.3], "noise": 0.5}
    far = one.Problem(**strong, readout="constant", step=Step(constant=6, exponent=0.5))
    assert "off the learned direction 6.9 times" in (known_off(far) or "")
    assert known_off(far.replace(step=Step(constant=4, exponent=0.5))) is None
    strong |= {"n": 316, "d": 193, "N": 646, "activation": "gelu", "teacher": [0, 1], "noise": 1.0}
    small = one.Problem(**strong, gradient="labels", readout="constant", step=Step(constant=3, exponent=0.5))
    marks = one.predict_grid(small, [0.5], [0.01, 0.1]).status[0].tolist()
    assert marks == [Status.INACCURATE, Status.SOLVED]
    strong |= {"n": 343, "d": 64, "N": 208, "teacher": QUADRATIC, "noise": 0.3}
    few = one.Problem(**strong, readout="constant", step=Step(constant=3, exponent=0.5))
    assert "directions and is" in (known_off(few) or "")
    assert known_off(few.replace(step=Step(constant=0.5, exponent=0.5))) is None


SEVERAL = {
    "luck": {"n": 277, "d": 18, "N": 498, "n_step": 554, "activation": "erf", "teacher": [0, 1, 0, 0.4], "weights": "gaussian", "steps": 3, "step": Step(constant=1.949, exponent=0.222)},
    "turned": {"n": 456, "d": 243, "N": 144, "activation": "tanh", "teacher": "tanh", "noise": 0.3, "gradient": "labels", "inputs": "ar1", "steps": 3, "step": Step(constant=0.51, exponent=0.312)},
    "amplified": {"n": 342, "d": 42, "N": 643, "n_step": 684, "activation": "tanh", "teacher": [0, 1, 0, 0.4], "noise": 0.5, "gradient": "labels", "readout": "constant", "inputs": one.Covariance.spiked(42, 3.546, 0.5), "steps": 2, "step": Step(constant=0.344, exponent=0.488)},
}  # fmt: skip
SAID = {
    "luck": "what their batches add by chance is",
    "turned": "change neurons' first weights",
    "amplified": "make their first weights along the teacher",
}


@pytest.mark.parametrize("name", SEVERAL)
def test_several_steps_that_were_ten_percent_off_are_marked(name):
    """32 seeds, 18 November 2026: test errors 16 % low, 11 % high and 10 % low."""
    p = one.Problem(**SEVERAL[name])
    assert SAID[name] in (known_off(p) or "")
    assert known_off(p.replace(step=Step(constant=p.step.constant / 3, exponent=p.step.exponent))) is None


TWO_DIRECTIONS = {"n": 600, "N": 450, "teacher": [0, 0, 1], "directions": 2, "noise": 0.3, "activation": "gelu"}
SAME_SAMPLES = {
    "n": 606,
    "d": 612,
    "N": 1028,
    "activation": [0, 1, 0.4],
    "fresh": False,
    "noise": 1.0,
    "gradient": "labels",
}
HALVES = one.Covariance(tuple(np.where(np.arange(612) % 2, 0.4, 1.6)))


@pytest.mark.parametrize(
    ("given", "milder", "said"),
    [
        (TWO_DIRECTIONS | {"d": 137, "inputs": "ar1", "step": Step.none()}, {"d": 300}, "too few to average over for a teacher of several"),
        (TWO_DIRECTIONS | {"d": 300, "inputs": "ar1", "step": Step(exponent=0.5)}, {"inputs": "gaussian"}, "stretches neurons along directions"),
        (TWO_DIRECTIONS | {"d": 21, "inputs": "student", "step": Step.none()}, {"d": 60}, "for each direction of the teacher by itself"),
        ({"n": 209, "d": 12, "N": 270, "inputs": "elliptic", "step": Step.none()}, {"d": 40}, "there are 12 of them, too few"),
        (SAME_SAMPLES | {"inputs": HALVES, "step": Step(constant=0.2, exponent=0.43)}, {"inputs": "gaussian"}, "has kurtosis 15: with a covariance"),
    ],
    ids=["several directions", "stretched", "entries", "lengths", "same samples"],
)  # fmt: skip
def test_few_inputs_of_their_own_law_are_marked(given, milder, said):
    """12 to 30 % off, 24 to 320 seeds, 18 November 2026."""
    assert said in (known_off(one.Problem(**given)) or "")
    assert known_off(one.Problem(**given | milder)) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, ""),
        ({"teacher": [0, 1, 0.1]}, ""),
        ({"activation": "softplus", "teacher": "tanh"}, ""),
        ({"teacher": [0, 1, 0.7]}, "90% of the power of the labels"),
        ({"activation": [0, 1, 0.4]}, "63% of the power of the labels, or of the activation"),
        ({"teacher": [0, 1, 0, 0.4]}, "the teacher grows so fast"),
        ({"teacher": [0, 1, 0.4], "directions": 2, "mix": "staircase"}, "the teacher grows so fast"),
        ({"activation": [0, 1, 0, 0.3]}, "activation '[0, 1, 0, 0.3]' grows so fast"),
    ],
)
def test_errors_without_a_mean_or_a_variance_are_marked(given, said):
    """E ℓ^{2k} is infinite from 2k = 5 on, the degrees of freedom of the lengths: with degree three, not with degree two, E ℓ⁴ = 3.

    Of E y² = 1 + 0.49 (3·3 − 2 + 1) = 4.92 of H₁ + 0.7 H₂ 0.49·9 go like ℓ⁴, and of E σ² = 2.28 of H₁ + 0.4 H₂ 0.16·9.
    """
    fields = {"n": 1000, "d": 300, "N": 400, "teacher": [0, 1], "inputs": "elliptic", "step": Step.none()} | given
    reason = known_off(one.Problem(**fields))
    assert (reason is not None) == bool(said)
    assert said in (reason or "")


@pytest.mark.parametrize("readout", ["gaussian", "constant"])
@pytest.mark.parametrize("exponent", [0.05, 0.5])
def test_what_is_too_weakly_tied_to_be_marked_is_known_by_a_bound(readout, exponent):
    """The bound by M's largest eigenvalue is no less than the correlation itself, and says the same of the limit."""
    problem = one.Problem(
        n=20_000, d=9_000, N=30_000, activation="elu", readout=readout, teacher=QUADRATIC, noise=0.5, ridge=0.1,
        step=Step(exponent=exponent, constant=2.0),
    )  # fmt: skip
    learned = learned_direction(problem, through_output=True)
    exact, bound = tie(problem, learned), tie(problem, learned, beyond=0.45)
    assert bound >= exact > 0
    assert (bound > exact) == (exponent < 0.5)  # at the strongest step the bound says nothing and the law is made


def even(**changes):
    given = {"n": 500, "d": 150, "N": 400, "activation": "silu", "teacher": [0, 0, 1], "noise": 0.3, "n_step": 2000}
    return one.Problem(**given | changes, step=Step(), gradient="labels")


def test_neurons_stretched_along_a_teacher_that_is_not_learned_are_marked():
    """With these inputs the test error at α = ¼ is within 1 % of 24 seeds; with "ar1" 19 % below 20."""
    assert known_off(even().at(exponent=0.25)) is None
    for problem in (even().at(exponent=0.5), even(inputs="ar1").at(exponent=0.25)):
        assert "along the teacher's direction, which it does not learn" in (known_off(problem) or "")
        assert known_off(problem.replace(teacher=[0, 1, 0.7])) is None


def test_the_part_of_a_direction_that_is_not_learned_is_named():
    weak = even(d=14, N=200, activation="elu", teacher=[0, 0.2, 1], noise=0.5).at(exponent=0.4)
    assert "the 41 % of the teacher's direction that it does not learn" in (known_off(weak) or "")


def test_entries_that_are_not_gaussian_change_the_labels_power_as_counted():
    """z of ±1 entries with random β⋆, by its moments E z⁴ = 3 − 6/(d + 2): of degree two the first order is all."""
    problem = one.Problem(n=300, d=38, N=240, teacher=[0, 1, 0.5], inputs="rademacher")
    assert_close(changed_by_entries(problem), -6 / 40 * 0.25 / 0.5, rel=1e-9)
    assert changed_by_entries(problem.replace(inputs="gaussian")) == 0


@pytest.mark.parametrize(("changes", "marked"), [({}, True), ({"d": 38}, False), ({"step": Step.none()}, False)])
def test_labels_that_notice_the_law_of_few_entries_are_marked(changes, marked):
    given = {"n": 300, "d": 20, "N": 240, "activation": "erf", "teacher": [0, 1, 0, 0.3], "noise": 0.5, "step": Step()}
    cubic = one.Problem(**given | changes, inputs="rademacher")
    assert ("rademacher entries of the inputs have excess kurtosis -2" in (known_off(cubic) or "")) == marked
    assert known_off(cubic.replace(inputs="gaussian")) is None
    assert known_off(cubic.replace(teacher=[0, 1])) is None


def test_few_heavy_entries_are_marked_where_features_see_single_ones():
    """Student entries, d = 41, n = 622, N = 1,221: the training error is 58 % high at λ = 0.001 (40 seeds), right at λ = 1."""
    heavy = one.Problem(n=622, d=41, N=1221, activation="gelu", teacher="relu", noise=0.5, inputs="student")
    found = one.predict_grid(heavy, [0.0], [0.001, 1.0]).untrained
    assert found.status[0].tolist() == [Status.INACCURATE, Status.SOLVED]
    assert "41 of them" in found.message[0, 0]
    for changes in ({"d": 200, "n": 800}, {"inputs": "gaussian"}):
        assert one.predict_grid(heavy.replace(**changes), [0.0], [0.001]).untrained.status[0, 0] is Status.SOLVED


@pytest.mark.parametrize(
    ("activation", "gradient", "marked"), [("silu", "full", True), ("tanh", "full", False), ("silu", "labels", False)]
)
def test_outputs_that_add_up_to_a_function_of_random_lengths_are_marked(activation, gradient, marked):
    """Elliptic inputs, constant readout, n = 736, d = 154: the training error of silu is 27 % low (40 seeds)."""
    p = one.Problem(
        n=736, d=154, N=991, activation=activation, teacher=[0, 1], noise=1.0, inputs="elliptic", gradient=gradient
    )
    reason = known_off(p.replace(readout="constant", step=Step(constant=0.24, exponent=0.45)))
    assert ("a function of the length" in (reason or "")) == marked


def test_a_shared_mean_of_neurons_that_sees_the_length_of_few_heavy_entries_is_marked():
    """Student entries, d = 60: errors 5 % high at α = ½ with a constant readout."""
    heavy = one.Problem(n=500, d=60, N=400, teacher="tanh", noise=0.3, inputs="student", step=Step(), gradient="labels")
    assert "student entries" in (known_off(heavy.replace(readout="constant")) or "")
    assert known_off(heavy) is None
    assert known_off(heavy.replace(readout="constant", step=Step.none())) is None
