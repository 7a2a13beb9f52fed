"""What a worker does: a grid that fails is tried in parts, and what is left of it has a reason."""

from importlib import import_module

import pytest

import onestride as one
from onestride.sweeps.cells import key_of, problem_content, run_cell, theory_cell
from onestride.sweeps.task import Task, failures_of, perform

task = import_module("onestride.sweeps.task")
PROBLEM = one.Problem(n=30, d=15, N=45, step=one.Step())
PAIRS = ((0.0, 0.1), (0.0, 1.0), (0.2, 0.1), (0.2, 1.0))


def test_its_keys_are_those_of_its_cells():
    contents = [problem_content(PROBLEM.at(exponent=exponent, ridge=ridge)) for exponent, ridge in PAIRS]
    assert Task(PROBLEM, PAIRS, (0.1, 1.0), 3, "auto").keys == [key_of("run", run_cell(c, 3)) for c in contents]
    theory = Task(PROBLEM, PAIRS, (0.1, 1.0), None, "profile")
    assert theory.keys == [key_of("theory", theory_cell(c, "profile")) for c in contents]


def test_one_bad_cell_leaves_the_others_their_values(monkeypatch):
    real = task.simulate_grid

    def simulate_grid(problem, exponents, ridges, *rest, **options):
        if 0.2 in exponents and 1.0 in ridges:
            raise ZeroDivisionError("the cell (0.2, 1)")
        return real(problem, exponents, ridges, *rest, **options)

    monkeypatch.setattr(task, "simulate_grid", simulate_grid)
    made = perform(Task(PROBLEM, PAIRS, (0.1, 1.0), 0, "auto", attempt=2))
    assert [record.kind for record in made] == ["run", "run", "run", "failure"]
    assert made[3].values == {"reason": "ZeroDivisionError: the cell (0.2, 1)"}
    assert made[3].cell["attempt"] == 2
    alone = one.simulate(PROBLEM.at(exponent=0.2, ridge=0.1), 1)
    assert made[2].values["test_error"] == pytest.approx(float(alone.test_error.raw.mean), rel=1e-9)


def test_a_task_that_did_not_come_back_fails_in_every_cell():
    lost = failures_of(Task(PROBLEM, PAIRS, (0.1, 1.0), 0, "auto"), "its process died")
    assert [record.kind for record in lost] == ["failure"] * 4
    assert {record.values["reason"] for record in lost} == {"its process died"}


def test_the_commit_is_read_from_the_files_of_a_checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(task, "__file__", str(tmp_path / "package" / "task.py"))
    (tmp_path / ".git" / "refs").mkdir(parents=True)
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/main\n")
    assert task.commit() is None  # the branch is packed away
    (tmp_path / ".git" / "refs" / "main").write_text("abc\n")
    assert task.commit() == "abc"
    (tmp_path / ".git" / "HEAD").write_text("def\n")
    assert task.commit() == "def"
