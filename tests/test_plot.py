"""Figures as data: every number is in the table, every measured point inside its axes."""

from __future__ import annotations

import csv
import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import onestride as one
from onestride import drawing
from onestride.plot import Panel, Series, draw, to_csv


def panel(*series, **options):
    return Panel("errors", "x", "y", series, **options)


def test_table_holds_every_number_with_its_own_error_and_nothing_for_what_is_not_finite():
    theory = Series("theory", [1.0, 2.0], [0.5, np.nan])
    points = Series("points", [1.0, 2.0], [0.25, 0.75], error=[0.01, np.inf], kind="simulation")
    flat = Series("flat", [3.0, 4.0], [1.0, 2.0], error=0.5, kind="simulation")
    rows = list(csv.DictReader(io.StringIO(to_csv([panel(theory, points, flat)]))))
    assert [tuple(row[name] for name in ("series", "x", "y", "error")) for row in rows] == [
        ("theory", "1", "0.5", ""),
        ("theory", "2", "", ""),
        ("points", "1", "0.25", "0.01"),
        ("points", "2", "0.75", ""),
        ("flat", "3", "1", "0.5"),
        ("flat", "4", "2", "0.5"),
    ]
    assert {(row["panel"], row["kind"]) for row in rows} == {("errors", "theory"), ("errors", "simulation")}


@pytest.mark.parametrize(("value", "error"), [(1.4, 0.3), (-0.4, 0.3), (0.9, 0.3), (0.1, 0.3), (1.4, None)])
def test_limits_are_widened_to_hold_a_measured_point_and_its_bar(value, error):
    bar = None if error is None else [error, error]
    points = Series("points", [0.0, 1.0], [0.5, value], error=bar, kind="simulation")
    low, high = draw([panel(points, ylim=(0.0, 1.0))]).axes[0].get_ylim()
    assert low < value - (error or 0) < value + (error or 0) < high or error is None
    assert low < value < high
    assert low <= 0.0 < 1.0 <= high


def test_limits_are_not_widened_for_theory_or_for_what_is_not_finite():
    theory = Series("theory", [0.0, 1.0], [0.5, 9.0])
    points = Series("points", [0.0, 1.0], [0.5, np.nan], error=[0.1, 5.0], kind="simulation")
    assert draw([panel(theory, points, ylim=(0.0, 1.0))]).axes[0].get_ylim() == (0.0, 1.0)


def test_the_staircase_is_one_call():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    problem = one.Problem(n=200, d=100, N=150, teacher=[0, 1, 0.7071], noise=0.5)  # no step: drawn with c = 1
    ax = one.plot.staircase(problem, [0.1, 0.2, 0.3], seeds=2)
    labels = ax.get_legend_handles_labels()[1]
    assert {"theory", "n → ∞", "without the step", "simulation, 2 seeds"} <= set(labels)
    assert one.plot.staircase(problem, [0.1, 0.3], quantity="train_loss", ax=ax) is ax
    with pytest.raises(one.InputError, match="quantity must be one of train_loss, train_mse, test_error, got 'loss'"):
        one.plot.staircase(problem, quantity="loss")
    pyplot.close("all")


def test_a_notebook_shows_the_first_figure_after_its_own_cell(monkeypatch):
    """The figure that loads pyplot comes before the notebook knows of it: it is told at once."""
    matplotlib = pytest.importorskip("matplotlib")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    told = []
    shell = SimpleNamespace(enable_matplotlib=told.append)
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(matplotlib, "get_backend", lambda: "module://matplotlib_inline.backend_inline")
    drawing._pyplot()
    assert told == []  # pyplot was there
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot")
    assert drawing._pyplot() is pyplot
    assert told == ["inline"]
