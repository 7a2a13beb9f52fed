"""What is missing of the extras is told at once, before the work, with one command that installs all of it."""

import sys

import pytest

from onestride.cli import main

REPORT = "the report needs matplotlib and jinja2"
TABLES = "the experiment inputs needs scikit-learn"
FIGURE = "a figure needs matplotlib"
PARQUET = "reading .parquet needs pyarrow"


@pytest.mark.parametrize(
    ("command", "missing", "told", "extras"),
    [
        (
            ["experiment", "all"],
            ["matplotlib", "jinja2", "sklearn"],
            f"{REPORT}, {TABLES}, which are",
            "report,estimator",
        ),
        (
            ["experiment", "inputs"],
            ["jinja2", "sklearn"],
            f"the report needs jinja2, {TABLES}, which are",
            "report,estimator",
        ),
        (["experiment", "errors"], ["matplotlib", "jinja2", "sklearn"], f"{REPORT}, which are", "report"),
        (["experiment", "all"], ["sklearn"], f"{TABLES}, which is", "estimator"),
        (["reproduce"], ["matplotlib", "jinja2", "sklearn", "pandas"], f"{REPORT}, which are", "report"),
        (["experiment", "inputs", "--from-data"], ["jinja2", "sklearn"], "the report needs jinja2, which is", "report"),
        (["scaling", "--out", "x"], ["matplotlib", "pyarrow"], f"{FIGURE}, which is", "plot"),
        (
            ["scaling", "--out", "x", "--data", "t.parquet"],
            ["matplotlib", "pyarrow"],
            f"{FIGURE}, {PARQUET}, which are",
            "plot,export",
        ),
        (["scaling", "--out", "x", "--data", "t.PARQUET"], ["pyarrow"], f"{PARQUET}, which is", "export"),
        (["sweep", "plot", "--store", "s"], ["matplotlib", "pandas"], f"{FIGURE}, which is", "plot"),
        (
            ["explore", "--no-browser"],
            ["starlette", "uvicorn", "matplotlib"],
            "the explorer needs starlette, uvicorn and matplotlib, which are",
            "explore",
        ),
        (
            ["explore", "--no-browser", "--data", "t.parquet", "--target", "y"],
            ["starlette", "pyarrow"],
            f"the explorer needs starlette, {PARQUET}, which are",
            "explore,export",
        ),
    ],
)
def test_all_that_is_missing_is_told_at_once(capsys, monkeypatch, tmp_path, command, missing, told, extras):
    def work(*_, **__):
        raise AssertionError("the work began")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("onestride.experiments.catalogue.import_module", work)
    monkeypatch.setattr("onestride.experiments.catalogue.reproduce", work)
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SystemExit) as stop:
        main(command)
    assert stop.value.code == 2
    assert capsys.readouterr().err == f"onestride: {told} not installed: pip install 'onestride[{extras}]'\n"
    assert list(tmp_path.iterdir()) == []


def test_an_experiment_that_is_none_is_told_first(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(SystemExit):
        main(["experiment", "nonsense"])
    assert "no experiment is called 'nonsense'" in capsys.readouterr().err
