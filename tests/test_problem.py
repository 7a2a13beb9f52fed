"""Problem and Step: what they accept, what they refuse and in which words, and that files give them back."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onestride as one
from onestride.functions import InputError
from onestride.problem import Problem, Step

SIZES = {"n": 20, "d": 10, "N": 30}


def make(**changes) -> Problem:
    return Problem(**(SIZES | changes))


finite = st.floats(allow_nan=False, allow_infinity=False)
coefficients = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=8).map(lambda c: (0.0, *c))
names = st.sampled_from(["relu", "tanh", "softplus", "erf", "sin"])
problems = st.builds(
    Problem,
    n=st.integers(1, 10**7),
    d=st.integers(1, 10**7),
    N=st.integers(1, 10**7),
    activation=names | coefficients,
    teacher=names | coefficients,
    noise=st.floats(0, 1e300),
    ridge=st.floats(min_value=5e-324, max_value=1e300),
    step=st.builds(Step, constant=st.floats(0, 1e300), exponent=finite),
    gradient=st.sampled_from(["full", "labels"]),
    weights=st.sampled_from(["sphere", "gaussian"]),
    readout=st.sampled_from(["gaussian", "constant", "rademacher"]),
    n_step=st.none() | st.integers(1, 10**7),
    centred=st.booleans(),
)


# ---------------------------------------------------------------- values


def test_every_documented_field_is_accepted():
    problem = one.Problem(
        n=2000, d=1000, N=3000, activation="relu", teacher=[0, 1, 0.7071], noise=0.5, ridge=0.1,
        step=one.Step(constant=1.0, exponent=0.3), gradient="full", weights="sphere", readout="gaussian", n_step=None,
    )  # fmt: skip
    assert (problem.phi, problem.psi) == (0.5, 1 / 3)
    assert problem.eta == 2000**0.3
    assert problem.step_samples == 2000
    assert problem.replace(n_step=500).step_samples == 500
    assert problem.teacher == (0, 1, 0.7071)


def test_no_step_is_random_features():
    assert Step.none().size(10**6) == 0
    assert make(step=Step.none()).eta == 0
    assert make().step == Step.none()


@pytest.mark.parametrize(
    ("name", "value"), [("n", 3), ("ridge", 2.0), ("step", Step(exponent=1)), ("nonsense", 1), ("eta", 2.0)]
)
def test_problem_is_frozen(name, value):
    problem = make()
    before = problem.to_json()
    with pytest.raises((ValueError, AttributeError)):
        setattr(problem, name, value)
    assert problem.to_json() == before


def test_step_is_frozen():
    with pytest.raises((ValueError, AttributeError)):
        Step().constant = 2.0


@settings(deadline=None, max_examples=50)
@given(problems)
def test_equal_problems_have_equal_hashes(problem):
    twin = Problem(**{name: getattr(problem, name) for name in Problem.model_fields})
    assert twin == problem
    assert hash(twin) == hash(problem)
    assert {problem: 1}[twin] == 1
    assert problem.replace(n=problem.n + 1) != problem


def test_a_problem_with_a_callable_teacher_is_hashable():
    assert hash(make(teacher=np.sin)) == hash(make(teacher=np.sin))
    assert make(teacher=np.sin) != make(teacher=np.cos)


@settings(deadline=None, max_examples=100)
@given(problems)
def test_json_and_toml_round_trip(problem):
    assert Problem.from_json(problem.to_json()) == problem
    assert Problem.from_toml(problem.to_toml()) == problem
    assert Problem.from_dict(problem.to_dict()) == problem


def test_problem_survives_pickling():
    problem = make(step=Step(exponent=0.3), teacher=[0, 1, 2])
    assert pickle.loads(pickle.dumps(problem)) == problem


def test_files_may_leave_out_what_has_a_default():
    assert Problem.from_toml("n = 20\nd = 10\nN = 30\n[step]\nexponent = 0.3\n") == make(step=Step(exponent=0.3))
    assert Problem.from_json('{"n": 20, "d": 10, "N": 30}') == make()


def test_numpy_scalars_and_arrays_are_accepted_and_become_plain():
    problem = make(
        n=np.int64(20),
        d=np.uint8(10),
        N=np.float64(30),
        ridge=np.float32(0.5),
        noise=np.int32(1),
        teacher=np.array([0, 1, 0.5]),
        activation=np.array([0, 1.0]),
        step=Step(constant=np.float64(2), exponent=np.float32(0.25)),
        n_step=np.int32(7),
    )
    assert problem == make(
        ridge=0.5, noise=1.0, teacher=[0, 1, 0.5], activation=[0, 1], step=Step(constant=2, exponent=0.25), n_step=7
    )
    assert type(problem.n) is int
    assert type(problem.ridge) is float
    assert all(type(c) is float for c in problem.teacher)
    assert Problem.from_json(problem.to_json()) == problem


def test_at_changes_only_what_is_asked():
    problem = make(step=Step(constant=2.0, exponent=0.1), ridge=0.3, noise=0.7)
    assert problem.at() == problem
    assert problem.at(exponent=0.4) == problem.replace(step=Step(constant=2.0, exponent=0.4))
    assert problem.at(ridge=5) == problem.replace(ridge=5.0)
    assert problem.at(exponent=0.4, ridge=5).noise == 0.7
    with pytest.raises(InputError, match="ridge must be a finite number above 0, got -1"):
        problem.at(ridge=-1)
    with pytest.raises(InputError, match="exponent must be a finite number, got nan"):
        problem.at(exponent=math.nan)


def test_replace_validates():
    with pytest.raises(InputError, match="noise must be a finite number, 0 or more, got -2"):
        make().replace(noise=-2)
    with pytest.raises(InputError, match="lambda is not an argument of Problem"):
        make().replace(**{"lambda": 3})


# ---------------------------------------------------------------- refusals: argument, given, allowed


BAD = [
    ("n", 0, "a whole number, 1 or more", "0"),
    ("n", -5, "a whole number, 1 or more", "-5"),
    ("n", 2.5, "a whole number, 1 or more", "2.5"),
    ("n", math.nan, "a whole number, 1 or more", "nan"),
    ("n", math.inf, "a whole number, 1 or more", "inf"),
    ("n", "20", "a whole number, 1 or more", "'20'"),
    ("n", True, "a whole number, 1 or more", "True"),
    ("n", None, "a whole number, 1 or more", "None"),
    ("d", 0, "a whole number, 1 or more", "0"),
    ("N", [3], "a whole number, 1 or more", "[3]"),
    ("n_step", 0, "a whole number, 1 or more", "0"),
    ("ridge", 0, "a finite number above 0", "0"),
    ("ridge", -0.1, "a finite number above 0", "-0.1"),
    ("ridge", math.nan, "a finite number above 0", "nan"),
    ("ridge", math.inf, "a finite number above 0", "inf"),
    ("ridge", "0.1", "a finite number above 0", "'0.1'"),
    ("ridge", None, "a finite number above 0", "None"),
    ("ridge", 1j, "a finite number above 0", "1j"),
    ("noise", -1, "a finite number, 0 or more", "-1"),
    ("noise", 10**400, "a finite number, 0 or more", "1000"),
    ("gradient", "ful", "'full' or 'labels'", "'ful'"),
    ("weights", "cube", "'sphere' or 'gaussian'", "'cube'"),
    ("readout", 3, "'gaussian', 'constant' or 'rademacher'", "3"),
    ("centred", "maybe", "True or False", "'maybe'"),
    ("step", 0.3, "Step", "0.3"),
    ("step", "large", "Step", "'large'"),
    ("activation", 7, "a name or Hermite coefficients", "7"),
    ("activation", np.tanh, "a name or Hermite coefficients", "tanh"),
    ("activation", [0, math.nan], "all finite", "nan"),
    ("teacher", None, "a name, a list of Hermite coefficients or a function", "None"),
    ("teacher", [0, "one"], "a name, a list of Hermite coefficients or a function", "'one'"),
    ("teacher", [], "a name, a list of Hermite coefficients or a function", "[]"),
    ("teacher", [0, 10**400], "a name, a list of Hermite coefficients or a function", "1000"),
    ("teacher", np.polynomial.Polynomial([0, 1]), "hashable", "Polynomial"),
]


@pytest.mark.parametrize(("name", "value", "allowed", "given"), BAD, ids=lambda v: str(v)[:20])
def test_mistakes_name_argument_given_and_allowed(name, value, allowed, given):
    with pytest.raises(InputError) as caught:
        make(**{name: value})
    sentence = str(caught.value)
    assert sentence.startswith(name)
    assert allowed in sentence
    assert given in sentence.split("got")[-1]
    assert "\n" not in sentence
    assert "pydantic" not in sentence


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"activation": "rely"}, "activation: no function is called 'rely'; did you mean 'relu'"),
        ({"teacher": "tahn"}, "teacher: no function is called 'tahn'; did you mean 'tanh'"),
        ({"teacher": [0.5, 1]}, "must be 0 .*got 0.5"),
        ({"teacher": [0]}, "teacher: a list of Hermite coefficients needs 2 to 65 numbers, got 1"),
        ({"teacher": lambda z: 1.0}, "teacher: .* must act elementwise"),
        ({"teacher": lambda z: np.exp(z**2)}, "teacher: .* overflows"),
        ({"teacher": lambda z: np.where(z > 1, np.nan, z)}, "teacher: .* it is nan at z = "),
        ({"steps": 10**9}, "steps must be a whole number from 1 to 1,000,000, got 1000000000"),
        ({"n": 10**301}, "n must be a whole number of at most 1e300, got 1000"),
        ({"n": 10**5000}, "n must be a whole number of at most 1e300, got a number of thousands of digits"),
        ({"noise": 10**5000}, "noise must be a finite number, 0 or more, got a number of thousands of digits"),
        ({"teacher": [math.nan] * 1000}, r"all finite, got \[nan, nan, .{60,80}…$"),
        ({"d": 0, "inputs": one.Covariance([1.0, 2.0])}, r"^d must be a whole number, 1 or more, got 0$"),
        ({"ridgee": 2}, "ridgee is not an argument of Problem; did you mean 'ridge'"),
        ({"xyzzy": 2}, "xyzzy is not an argument of Problem; known: n, d, N, "),
        ({"step": {"constant": -1}}, "step: constant must be a finite number, 0 or more, got -1"),
        ({"step": {"exponant": 1}}, "step: exponant is not an argument of Step; did you mean 'exponent'"),
    ],
)
def test_mistakes_are_told_in_a_sentence(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        make(**changes)


def test_all_mistakes_are_reported_at_once():
    with pytest.raises(InputError) as caught:
        Problem(n=-1, d=2, ridge=-3, activation="rely", gradient="no", noize=1)
    for part in ("n must be", "N is missing", "ridge must be", "'rely'", "gradient must be", "did you mean 'noise'"):
        assert part in str(caught.value)
    assert "d must" not in str(caught.value)


def test_arguments_go_by_name():
    with pytest.raises(InputError, match=r"by name, Step\(constant=…, exponent=…\), got 1"):
        Step(1, 0.3)
    with pytest.raises(InputError, match=r"by name, Problem\(n=…, d=…, N=…\), got 300"):
        Problem(300, 150, 200)


def test_what_is_no_problem_is_told():
    for function in (one.predict, one.simulate):
        with pytest.raises(InputError, match=r"problem must be a Problem\(n=…, d=…, N=…\), got \{'n': 300\}"):
            function({"n": 300})


def test_step_mistakes():
    with pytest.raises(InputError, match="constant must be a finite number, 0 or more, got -1"):
        Step(constant=-1)
    with pytest.raises(InputError, match="exponent must be a finite number, got inf"):
        Step(exponent=math.inf)
    with pytest.raises(InputError, match="alpha is not an argument of Step"):
        Step(alpha=0.3)


@pytest.mark.parametrize("step", [Step(exponent=1000), Step(constant=1e300, exponent=50)])
def test_a_step_too_large_for_a_float_is_refused(step):
    with pytest.raises(InputError, match="too large"):
        make(step=step).eta


def test_a_tiny_or_absent_step_never_overflows():
    assert Step(constant=0, exponent=1000).size(10) == 0
    assert Step(exponent=-1000).size(10) == 0


def test_callable_teacher_cannot_be_written_to_a_file():
    problem = make(teacher=lambda z: z**2)
    for write in (problem.to_json, problem.to_toml, problem.to_dict):
        with pytest.raises(InputError, match=r"teacher is a Python function and cannot be written.*register\("):
            write()


@pytest.mark.parametrize(
    ("read", "text", "sentence"),
    [
        (Problem.from_json, "{", "not valid JSON"),
        (Problem.from_json, "[1, 2]", "table of named values, got list"),
        (Problem.from_json, "3", "table of named values, got int"),
        (Problem.from_json, '{"n": NaN, "d": 1, "N": 1}', "n must be a whole number"),
        (Problem.from_json, '{"n": 1}', "d is missing; N is missing"),
        (Problem.from_toml, "n = ", "not valid TOML"),
        (Problem.from_toml, "n = 1\nd = 1\nN = 1\nridge = inf", "ridge must be a finite number above 0, got inf"),
        (Problem.from_dict, 3, "table of named values, got int"),
    ],
)
def test_bad_files_are_told_in_a_sentence(read, text, sentence):
    with pytest.raises(InputError, match=sentence):
        read(text)


def test_smallest_sizes_are_problems():
    problem = Problem(n=1, d=1, N=1)
    assert (problem.phi, problem.psi, problem.eta) == (1.0, 1.0, 0.0)


def test_a_users_list_is_not_kept():
    c = [0, 1, 0.5]
    problem = make(teacher=c)
    c[1] = 99
    assert problem.teacher == (0, 1, 0.5)


def test_the_size_of_the_step_is_set_by_the_samples_of_the_fit():
    """η = c·n^α; n_step enters through the gradient only."""
    p = one.Problem(n=1600, d=100, N=200, n_step=100, step=one.Step(constant=0.5, exponent=0.5))
    assert p.eta == p.replace(n_step=None).eta == 20.0
    assert (p.step_samples, p.replace(n_step=None).step_samples) == (100, 1600)
