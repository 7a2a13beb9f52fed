"""The options of a problem: what is not given is the problem of the README, or that of the file."""

import json
import re
from contextlib import suppress

import numpy as np
import pytest

import onestride as one
from onestride.cli import main
from onestride.cli.options import ProblemOptions


def test_options_change_the_problem_they_name_and_nothing_else():
    plain = ProblemOptions().build()
    assert ProblemOptions(n=70, n_step=50, readout="constant").build() == plain.replace(
        n=70, n_step=50, readout="constant"
    )
    assert ProblemOptions(exponent=0.1).build() == plain.at(exponent=0.1)
    assert ProblemOptions(constant=0.0).build().step == one.Step(constant=0.0, exponent=0.3)


def test_numbers_are_read_as_people_type_them(capsys):
    """A fraction of two numbers, as on the page; powers of ten and groups of digits where a count is asked for."""
    small = ("--n", "1e2", "--d", "5_0", "--N", "150.0", "--json")
    with suppress(SystemExit):
        main(["predict", "--exponent", "1/3", "--ridge", "1e-1", *small])
    given = json.loads(capsys.readouterr().out)["problem"]
    assert (given["n"], given["d"], given["N"], given["ridge"]) == (100, 50, 150, 0.1)
    assert given["step"]["exponent"] == 1 / 3


@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_a_file_is_read_first_and_options_change_it(tmp_path, suffix):
    written = one.Problem(n=60, d=30, N=90, step=one.Step(constant=2.0, exponent=0.2), noise=0.3)
    path = tmp_path / f"p{suffix}"
    path.write_text(written.to_json() if suffix == ".json" else written.to_toml())
    assert ProblemOptions(problem=path).build() == written
    expected = written.replace(ridge=0.7, step=one.Step(constant=2.0, exponent=0.4))
    assert ProblemOptions(problem=path, ridge=0.7, exponent=0.4).build() == expected


@pytest.mark.parametrize("text", ["0,1,0.5", "[0, 1, 0.5]"])
def test_coefficients_are_numbers_and_a_name_stays_a_name(text):
    problem = ProblemOptions(activation="tanh", teacher=text).build()
    assert problem.teacher == (0, 1, 0.5)
    assert problem.activation == "tanh"


def test_a_table_is_read_in_place_of_a_problem(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((60, 3))
    path = tmp_path / "t.csv"
    np.savetxt(path, rows, delimiter=",", header="a,b,c", comments="")
    problem = ProblemOptions(data=path, target="a", N=64, constant=2.0).build()
    assert (problem.n, problem.d, problem.N, problem.inputs.names) == (60, 2, 64, ("b", "c"))
    assert problem.step == one.Step(constant=2.0, exponent=0.3)
    assert ProblemOptions(data=path).build().inputs.names == ("a", "b")
    for options in ({"target": "a"}, {"data": path, "problem": path}, {"data": path, "teacher": "relu"}):
        with pytest.raises(one.InputError, match=r"target|not both|teacher comes from the table"):
            ProblemOptions(**options).build()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("p.toml", "n=\n", "p.toml: this is not valid TOML"),
        ("p.json", "[1]", "p.json: a problem in JSON is a table of named values, got list"),
        ("p.toml", "n = 10\nd = 0\nN = 5\n", "p.toml: d must be a whole number, 1 or more, got 0"),
    ],
)
def test_a_mistake_in_a_file_is_told_with_its_name(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(one.InputError, match=re.escape(f"--problem {tmp_path / words}")):
        ProblemOptions(problem=tmp_path / name).build()


def test_a_file_without_end_is_not_read_to_its_end(tmp_path, monkeypatch):
    """As /dev/zero is."""
    monkeypatch.setattr("onestride.cli.options.MOST_BYTES", 2**20)
    (tmp_path / "p.toml").write_bytes(b" " * (2**20 + 1))
    with pytest.raises(one.InputError, match=r"p\.toml must be at most 1 MiB long"):
        ProblemOptions(problem=tmp_path / "p.toml").build()


def test_options_behind_a_lone_dash_are_told_so(capsys):
    """Cyclopts suggests the very option that was given."""
    with pytest.raises(SystemExit) as stop:
        main(["predict", "--n", "60", "--", "30", "--N", "40"])
    assert stop.value.code == 2
    assert capsys.readouterr().err == "onestride: --N stands behind a lone --, behind which no option is read\n"
