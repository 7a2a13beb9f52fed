"""The explorer's addresses: every problem has one, every mistake gets a sentence, every copy works when pasted."""

import contextlib
import io
import json
import shlex

import pytest

import onestride as one
from onestride.cli import main
from onestride.diagnosis import Finding
from onestride.experiments.catalogue import QUESTIONS
from onestride.theory.assumptions import failed_assumption
from onestride.theory.quick import QUICK
from onestride.web.app import STATIC
from onestride.web.axes import _ends, curve
from onestride.web.presets import PRESETS
from onestride.web.query import DEFAULTS, as_command, as_python, copies, in_reach, read_problem, write_query
from onestride.web.why import _change

ADDRESSES = [
    {},
    {"n": "200", "phi": "0.7", "psi": "1.3", "noise": "0", "gradient": "labels", "readout": "constant"},
    {"activation": "0,1,-0.25", "teacher": "tanh", "step_samples": "4", "weights": "gaussian"},
    {"constant": "0", "exponent": "-0.2", "ridge": "1e-3", "teacher": "0,-1,0,0.5"},
    {"activation": "shifted_erf", "n": "100"},
    {"inputs": "uniform"},
    {"steps": "2", "batch": "reused", "constant": "0.2"},
    {"directions": "2", "mix": "staircase"},
]
SPIKED = {"inputs": "spiked", "kappa": "20", "overlap": "0.25", "n": "100"}


@pytest.mark.parametrize("address", [*ADDRESSES, SPIKED, {"inputs": "ar1", "fresh": "false"}])
def test_address_and_problem_are_inverse(address):
    problem = read_problem(address)
    assert in_reach(problem)
    assert read_problem(write_query(problem)) == problem


def test_what_the_page_has_no_control_for_is_not_in_reach():
    plain = read_problem({})
    for changes in ({"centred": False}, {"step": [one.Step(), one.Step(constant=2)]}, {"directions": 4}):
        assert not in_reach(plain.replace(**changes))
    assert not in_reach(plain.replace(inputs=one.Covariance(range(1, plain.d + 1))))
    spiked = one.Covariance.spiked(plain.d, 5.0, 0.5)
    assert in_reach(plain.replace(inputs=spiked))
    nearly = one.Covariance((*spiked.eigenvalues[:-1], 0.99 * spiked.eigenvalues[-1]), teacher=spiked.teacher)
    assert not in_reach(plain.replace(inputs=nearly))


def test_neurons_are_counted_from_whole_inputs():
    assert read_problem({"n": "101", "phi": "0.5", "psi": "0.02"}).N == 50 / 0.02


def test_empty_address_is_the_default_problem():
    assert read_problem({}) == read_problem(DEFAULTS)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ({"n": "ten"}, "n must be a whole number, got"),
        ({"n": "2,000"}, r"n must be a whole number without commas \(type 2000\), got '2,000'"),
        ({"steps": "2,5"}, "steps must be a whole number, got '2,5'"),
        ({"n": "1.5"}, "n must be a whole number"),
        ({"n": "1e16"}, "n must be a whole number"),
        ({"n": "nan"}, "n must be a whole number"),
        ({"phi": "0"}, "phi must be a number from 0.001 to 1000"),
        ({"psi": "inf"}, "psi must be a finite number"),
        ({"ridge": "0"}, "ridge must be a number from 1e-12"),
        ({"noise": "-1"}, "noise must be a number from 0 to"),
        ({"activation": "rleu"}, "activation must be one of"),
        ({"teacher": "1,1"}, "must be 0"),
        ({"teacher": "0,x"}, "teacher must be a finite number"),
        ({"teacher": ","}, "teacher must be a finite number"),
        ({"gradient": "both"}, "gradient must be"),
        ({"steps": "2.5"}, "steps must be a whole number from 1 to 20, got '2.5'"),
        ({"directions": "4"}, "directions must be a whole number from 1 to 3"),
        ({"fresh": "no"}, "fresh must be true or false, got 'no'"),
        ({"fresh": "false", "steps": "2"}, "fresh=False needs one batch"),
        ({"inputs": "cauchy"}, "inputs must be one of gaussian"),
        ({"inputs": "spiked", "n": "1e6"}, "inputs=spiked needs d from 2 to 20,000 on this page, got d = 500,000"),
        ({"inputs": "spiked", "overlap": "2"}, "overlap must be a number from 0 to 1"),
        ({"n": "1e15", "phi": "1000", "psi": "0.001"}, r"needs n, d, N and n_step of at most 1e\+18, got n = 1"),
        ({"colour": "red"}, "'colour' is not a parameter"),
        ({"teacher": "0," * 400}, "at most 300 characters"),
    ],
)
def test_bad_address_gets_a_sentence(address, words):
    with pytest.raises(one.InputError, match=words):
        read_problem(address)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("0,3", "type 0.3"),
        ("0,300", "type 0.300"),
        ("2,000", "type 2000 or 2.000"),
        ("1,000,000", "type 1000000"),
        ("2,000.5", "type 2000.5"),
    ],
)
def test_commas_in_a_number_get_help(text, hint):
    with pytest.raises(one.InputError, match=rf"ridge must be a finite number without commas \({hint}\), got '{text}'"):
        read_problem({"ridge": text})


def test_fraction_is_a_number():
    problem = read_problem({"phi": "1/3", "exponent": " 1/4 ", "teacher": "0,1,-1/2", "n": "900"})
    assert (problem.d, problem.step.exponent, problem.teacher) == (300, 0.25, (0.0, 1.0, -0.5))


@pytest.mark.parametrize("text", ["1/0", "1/3/4", "1_000", "0x10", "1e400", "½", "/2", "1e308/1e-308"])
def test_what_only_python_or_only_a_browser_reads_is_refused(text):
    with pytest.raises(one.InputError, match="ridge must be a finite number, got"):
        read_problem({"ridge": text})


@pytest.mark.parametrize("address", ADDRESSES)
def test_copied_python_builds_the_same_problem_and_prints_its_numbers(address):
    problem = read_problem(address | {"n": "20000"})
    printed, names = io.StringIO(), {}
    with contextlib.redirect_stdout(printed):
        exec(as_python(problem), names)
    assert names["problem"] == problem
    assert float(printed.getvalue().split()[0]) == pytest.approx(one.predict(problem, throw=False).test_error)


@pytest.mark.parametrize(
    ("address", "lines"),
    [
        ({"fresh": "false"}, 2),  # no theory of shares and spectrum
        ({"steps": "2", "constant": "1000", "n": "50"}, 2),  # gradient descent diverges
        ({"n": "10", "phi": "0.5"}, 2),
        ({"steps": "2", "constant": "0.2"}, 3),
        ({"inputs": "uniform"}, 4),
    ],
)
def test_copied_python_asks_for_nothing_that_has_no_answer(address, lines):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(as_python(read_problem({"n": "100"} | address)), {})
    assert printed.getvalue().count("\n") == lines


@pytest.mark.parametrize("address", [*ADDRESSES, SPIKED])
def test_copied_toml_is_the_same_problem(address):
    problem = read_problem(address)
    assert one.Problem.from_toml(copies(problem)["toml"]) == problem


@pytest.mark.parametrize("address", ADDRESSES)
def test_copied_command_predicts_the_same(address, capsys):
    problem = read_problem(address | {"n": "20000"})
    program, *arguments = shlex.split(as_command(problem))
    assert program == "onestride"
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--json"])
    assert ended.value.code == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["test_error"] == one.predict(problem, throw=False).test_error


def test_a_readout_fitted_on_the_samples_of_the_step_is_copied():
    assert as_command(read_problem({"fresh": "false"})).endswith(" --no-fresh")


def test_a_covariance_is_copied_by_its_spike_or_as_a_file():
    problem = read_problem(SPIKED)
    assert "inputs=one.Covariance.spiked(50, 20, 0.25)," in as_python(problem)
    assert as_command(problem).startswith("onestride predict --problem problem.toml")


def test_presets_have_the_teacher_that_they_name():
    (named,) = (p for p in PRESETS if "H₁ + H₂/√2" in p.name)
    assert read_problem(named.query).teacher == pytest.approx((0, 1, 0.5**0.5))


def test_every_experiment_has_a_preset():
    assert {p.name for p in PRESETS if p.group == "Experiments"} == set(QUESTIONS)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: p.name)
def test_preset_is_a_problem_the_theory_knows_and_a_question_the_page_answers(preset):
    assert preset.question.endswith("?")
    assert f"  {preset.answer}: (" in (STATIC / "presets.js").read_text(encoding="utf-8")
    assert failed_assumption(read_problem(preset.query), schedules=True) is None


@pytest.mark.parametrize("address", ADDRESSES)
def test_copied_command_names_every_field_that_is_not_a_default(address):
    """Read back by the options' names alone, without running it."""
    p, plain = read_problem(address), one.Problem(n=10, d=10, N=10)
    given = dict(word[2:].split("=", 1) for word in shlex.split(as_command(p))[2:])
    names = ("n", "d", "N", "noise", "ridge", "gradient", "weights", "readout", "n_step")
    for name in (*names, "steps", "batch", "inputs", "directions", "mix"):
        told, value = given.get(name.replace("_", "-")), getattr(p, name)
        assert value == getattr(plain, name) if told is None else told == str(value)
    assert (float(given["constant"]), float(given["exponent"])) == (p.step.constant, p.step.exponent)


@pytest.mark.parametrize(("name", "value"), [("n", {"phi": "4"}), ("phi", {"n": "9000"})])
def test_an_axis_ends_where_a_covariance_has_too_many_inputs(name, value):
    """At the end of the axis there is still a problem, with the most inputs, and a little beyond none."""
    query = {"inputs": "ar1", "n": "100", "phi": "0.5"} | value
    end = _ends(read_problem(query), name)[1]
    assert read_problem(query | {name: f"{end:.10g}"}).d == 20_000
    with pytest.raises(one.InputError, match="needs d from 2 to 20,000"):
        read_problem(query | {name: f"{1.2 * end:.10g}"})


def test_an_axis_may_end_at_sizes_that_no_theory_computes_with():
    found = curve({"n": "1e15", "phi": "1000", "psi": "2"}, "psi", QUICK)
    assert found["test_error"][0] is None
    assert found["test_error"][-1] > 0
    assert "of at most 1e+18" in found["message"]


@pytest.mark.parametrize(("cause", "better", "constant"), [("step-too-large", 2.0, "1"), ("step-too-small", 16.0, "8")])
def test_a_click_takes_the_step_that_is_better(cause, better, constant):
    finding = Finding(cause, "", {"eta": 8.0, "better_eta": better}, "")
    assert _change(read_problem({"constant": "4"}), finding) == {"constant": constant}
