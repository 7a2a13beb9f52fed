"""The command line as a user types it: output, JSON, sentences, exit codes."""

import json
import subprocess
import sys
from importlib import import_module

import pytest

from onestride.cli import main

SMALL = ["--n", "60", "--d", "30", "--N", "90"]
ONE_DEGREE = ["--n", "20", "--d", "80", "--N", "30"]  # quick


def run(capsys, *arguments):
    """Exit code, standard output and standard error of one command."""
    try:
        main(list(arguments))
        code = 0
    except SystemExit as stop:
        code = stop.code or 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_lists_every_command(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for command in [
        "predict",
        "simulate",
        "compare",
        "spectrum",
        "diagnose",
        "optimum",
        "scaling",
        "reproduce",
        "functions",
    ]:
        assert command in out


def test_help_needs_no_heavy_import():
    script = (
        "import sys, onestride.cli; print([m for m in ('numpy','scipy','pydantic','matplotlib') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


@pytest.mark.parametrize(
    "command",
    [
        ["predict"],
        ["simulate", "--seeds", "2"],
        ["compare", "--seeds", "3"],
        ["spectrum"],
        ["diagnose"],
        ["optimum", "--over", "ridge"],
        ["scaling", "--last", "300", "--points", "2"],
    ],
)
def test_json_is_strict_json(capsys, command):
    sizes = ONE_DEGREE if command == ["diagnose"] else SMALL
    code, out, _ = run(capsys, *command, *sizes, "--json")
    assert code == 0
    assert json.loads(out, parse_constant=pytest.fail)


def test_predict_prints_method_and_accuracy(capsys):
    code, out, _ = run(capsys, "predict", "--n", "300", "--d", "150", "--N", "450")
    assert code == 0
    assert "method profile" in out
    assert "test error" in out


def test_predict_says_when_its_numbers_are_not_to_be_relied_on(capsys):
    heavy = (*SMALL, "--activation", "0,1,0,1")
    code, out, _ = run(capsys, "predict", *heavy)
    assert code == 0
    assert "Not to be relied on: the equations are solved, but" in " ".join(out.split())
    assert "method profile" not in out
    code, out, _ = run(capsys, "predict", *heavy, "--json")
    assert json.loads(out)["status"] == "inaccurate"


@pytest.mark.parametrize(
    "command",
    [
        "predict",
        "simulate",
        "compare",
        "spectrum",
        "scaling",
        *(pytest.param(command, marks=pytest.mark.long) for command in ("diagnose", "plan", "optimum --over ridge")),
    ],
)
def test_every_command_begins_with_the_problem_it_solves(capsys, command):
    n, d, N = (
        (60, 30, 90) if "optimum" in command else (20, 80, 30)
    )  # degree one alone: quick, but no theory to search by
    sizes = ["--n", str(n), "--d", str(d), "--N", str(N)]
    _, out, _ = run(capsys, *command.split(), *sizes, "--exponent", "0.2", "--readout", "constant", "--n-step", "70")
    first = " ".join(out.split())
    start = f"n = {n}, d = {d}, N = {N}; relu, teacher [0, 1, 0.7071], noise 0.5, λ = 0.1, η = 1·n^0.2 = "
    assert first.startswith(start)
    assert "full gradient, readout constant, n_step 70 " in first


def test_functions_lists_relu_to_five_digits(capsys):
    code, out, _ = run(capsys, "functions")
    assert code == 0
    assert "0.19947" in out


def test_problem_file_and_options_combine(capsys, tmp_path):
    path = tmp_path / "p.toml"
    path.write_text('n = 60\nd = 30\nN = 90\nactivation = "tanh"\nteacher = [0, 1]\n', encoding="utf-8")
    code, out, _ = run(capsys, "predict", "--problem", str(path), "--ridge", "0.7")
    assert code == 0
    assert "tanh" in out
    assert "λ = 0.7" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["predict", "--n", "abc"], "--n must be a whole number, got 'abc'"),
        (["predict", "--n", "1000.5"], "--n must be a whole number, got '1000.5'"),
        (["predict", "--n", "2,000"], "--n must be a whole number without commas (type 2000), got '2,000'"),
        (["predict", "--n", "2,5"], "--n must be a whole number, got '2,5'"),
        (["predict", "--n", "1,000,000"], "--n must be a whole number without commas (type 1000000), got"),
        (["predict", "--ridge", "0,3"], "--ridge must be a finite number without commas (type 0.3), got '0,3'"),
        (["simulate", "--seeds", "2.5"], "--seeds must be a whole number, got '2.5'"),
        (["scaling", "--points", "100000000"], "--points from 2 to 10,000, got 100, 1e+06 and 100,000,000"),
        (["predict", "--n", "1e30"], "of at most 1e+18, got n = 1000000000000000000000000000000,"),
        (["predict", "--n", "-4"], "n must be a whole number"),
        (["predict", "--ridge", "-1"], "ridge must be a finite number above 0, got -1.0"),
        (["predict", "--activation", "relo"], "did you mean 'relu'"),
        (["predict", "--teacher", "0,1,x"], "teacher must be"),
        (["predict", "--gradient", "half"], "gradient must be 'full' or 'labels', got 'half'"),
        (["predict", "--method", "magic"], "method must be one of"),
        (["predict", "problem.toml"], "this command does not take 'problem.toml'; options go by name, --name value"),
        (["predict", "--problem", "missing.toml"], "cannot be read"),
        (["predict", "--N", "9"], "N and n_step of at least 10"),
        (["simulate", "--seeds", "0"], "seeds must be"),
        (["simulate", "--N", "100000000"], "GiB of memory"),
        (["nonsense"], "nonsense"),
        (["predict", "--nonsense", "1"], "nonsense"),
        (["reproduce", "--size", "huge"], "size"),
    ],
)
def test_errors_are_one_sentence_and_exit_code_two(capsys, arguments, words):
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert words in err
    assert err.startswith("onestride: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_interrupt_is_a_sentence(capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("onestride.simulation.run"), "simulate_grid", interrupted)
    code, _, err = run(capsys, "simulate", *SMALL)
    assert code == 130
    assert "interrupted" in err
