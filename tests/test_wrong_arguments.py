"""Whatever is given in an argument's place, a sentence names the argument, what was given and what is allowed."""

import numpy as np
import pytest

import onestride as one
from onestride._errors import quoted

P = one.Problem(n=60, d=30, N=40, teacher=[0, 1, 0.5], noise=0.3, step=one.Step(exponent=0.3))
ROWS = np.random.default_rng(0).standard_normal((60, 2))
TAKE_A_PROBLEM = [one.predict, one.learned, one.simulate, one.compare, one.scaling, one.plan, one.baselines]
TAKE_A_PROBLEM += [one.giant_step, one.measure_learned, one.measure_spectrum, one.measure_density]
TAKE_A_PROBLEM += [one.diagnose, one.spectrum, one.optimum, one.optimal_ridge, one.plot.staircase, one.plot.atlas]


@pytest.mark.parametrize("function", TAKE_A_PROBLEM, ids=lambda f: f.__name__)
def test_something_else_in_a_problems_place(function):
    for given in (None, 3, {"n": 60}, one.Step()):
        with pytest.raises(one.InputError, match=r"problem must be a Problem\(n=…, d=…, N=…\), got "):
            function(given)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: one.predict(P, method=np.ones(2)), "method must be one of auto, profile, .* got array"),
        (lambda: one.predict(P, level=["full"]), r"level must be one of rank-one, .* got \['full'\]"),
        (lambda: one.predict(P, throw=np.ones(2)), "throw must be True or False, got array"),
        (lambda: one.predict_grid(P, 10**400, [0.1]), "exponents must be a list of finite numbers, got 1000.*…"),
        (lambda: one.predict_grid(P, [0.3], np.datetime64("2020-01-01")), "ridges must be a list of .* above 0, got"),
        (lambda: one.predict_grid(P, "0.3", [0.1]), "exponents must be a list of finite numbers, got '0.3'"),
        (lambda: one.simulate(P, 1, device=3), "device must be cpu, cuda, .*, got 3"),
        (lambda: one.simulate(P, 1, dtype=np.ones(2)), "dtype must be 'float64' or 'float32', got array"),
        (lambda: one.simulate(P, 1, executor="threads"), "executor must be an Executor, .*, got 'threads'"),
        (lambda: one.simulate(P, 1, untrained="no"), "untrained must be True or False, got 'no'"),
        (lambda: one.simulate(P, 1, progress=np.ones(2)), "progress must be a function of .*, got array"),
        (lambda: one.scaling(P, at=[60], seeds=np.ones(0)), "seeds must be a whole number above 0 or a list"),
        (lambda: one.simulate(P, [0, 2**63]), r"distinct ones from 0 to 2\^63 − 1, got"),
        (lambda: one.scaling(P, at=[60], largest="all"), "largest must be a number above 0, got 'all'"),
        (lambda: one.scaling(P, at=[60], tuned=2), "tuned must be True or False, got 2"),
        (lambda: one.measure_spectrum(P, 1, full=[]), r"full must be True or False, got \[\]"),
        (lambda: one.measure_density(P, 1, points=[]), r"points must be a non-empty list of finite numbers, got \[\]"),
        (lambda: one.measure_density(P, 1, width=[1]), r"width must be a finite number above 0, got \[1\]"),
        (lambda: one.from_data({"a": 1}, target="a"), "columns of X must be lists of numbers, got 1 for 'a'"),
        (lambda: one.from_data(ROWS, ROWS[:, 0], repeats=ROWS), "repeats must be 'auto', 'merge' or 'keep', got array"),
        (lambda: one.plot.staircase(P, [0.1], ax=3), "ax must be axes of matplotlib, got 3"),
        (lambda: one.plot.draw([]), "a figure needs one panel or more, got none"),
        (lambda: one.plot.Series("a", [1, 2], [1]), "x of the series 'a' must have 1 values, as y tells, got 2"),
        (lambda: one.plot.Series("a", [1], [1], kind="bar"), "kind of a series must be one of theory, .*, got 'bar'"),
        (lambda: one.sweep(3, "x"), "source must be the path of a TOML file, a dictionary or a Sweep, got 3"),
        (lambda: one.Store(3), "store must be the path of a folder, or a Store, got 3"),
        (lambda: one.simulate(P.replace(teacher=[0, 1e150]), 2), "overflows on the features .* or the labels do; "),
        (lambda: one.Problem.from_toml(3), "a problem in TOML is text, got 3"),
        (lambda: one.Problem.from_json(None), "a problem in JSON is text, got None"),
        (lambda: one.Problem(n=6, d=3, N=4, gradient=10**400), "gradient must be 'full' or 'labels', got 1000.*…"),
    ],
)  # fmt: skip
def test_a_wrong_argument(call, told):
    with pytest.raises(one.InputError, match=told) as refused:
        call()
    assert len(str(refused.value)) < 250
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("ridge", [1e300, 1e-320])
def test_penalties_at_the_ends_of_all_numbers_end_in_a_number_or_a_sentence(ridge):
    found = one.predict(P.replace(ridge=ridge), throw=False)
    assert np.isfinite(found.test_error) or found.message


@pytest.mark.parametrize(
    ("activation", "told"),
    [([0, 1e-200], "so small that its square is 0 in double precision, got '[0, 1e-200]'"), ([0, 0], "that is 0, got")],
)
def test_a_small_activation_is_not_said_to_be_0(activation, told):
    assert told in one.predict(P.replace(activation=activation), throw=False).message


def test_a_simulation_at_an_enormous_penalty_has_numbers():
    """Nothing is fitted: the training errors are the power of the labels, as just below."""
    p = P.replace(n=20, d=10, N=30)
    far, near = (one.simulate(p.replace(ridge=ridge), 2).train_mse.values for ridge in (1e300, 1e30))
    assert far == pytest.approx(near, rel=1e-12)


def test_numbers_of_any_kind_make_an_axis():
    from fractions import Fraction

    assert one.predict_grid(P, [Fraction(3, 10)], np.float32(0.5)).test_error.shape == (1, 1)


def test_what_was_given_is_quoted_in_one_short_line():
    assert quoted(np.zeros((2, 2))) == "array([[0., 0.], [0., 0.]])"
    assert len(quoted("a" * 300)) == 80
    assert quoted(10**5000) == "a number of thousands of digits"
