"""Theory that is known to be off: sweeps keep its number and its status, and never show it as solved."""

import csv
import dataclasses
from concurrent.futures import Executor, Future
from importlib import import_module

import numpy as np
import pytest

import onestride as one
from onestride.cli import main
from onestride.result import Status
from onestride.store import Store
from onestride.sweeps.curves import curves
from onestride.sweeps.rows import stored_rows

task = import_module("onestride.sweeps.task")
SWEEP = {
    "method": "finite-step",
    "problem": {"n": 300, "d": 150, "N": 450, "noise": 0.5, "seeds": 2},
    "axes": {"exponent": [0.0, 0.2, 0.4], "ridge": [0.1, 1.0]},
}


class Here(Executor):
    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        future.set_result(fn(*args))
        return future


def marked(errors, where):
    status, message = errors.status.copy(), errors.message.copy()
    status[where] = Status.INACCURATE
    message[where] = "known to be off by 8 %"
    return dataclasses.replace(errors, status=status, message=message)


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A sweep whose theory marks what has the largest exponent, and without the step what has the penalty 1."""
    real = task.predict_grid

    def predict_grid(problem, exponents, ridges, **options):
        grid = real(problem, exponents, ridges, **options)
        largest = np.broadcast_to(np.array(exponents)[:, None] == 0.4, (len(exponents), len(ridges)))
        untrained = np.broadcast_to(np.array(ridges)[None] == 1.0, (1, len(ridges)))
        return dataclasses.replace(
            grid, trained=marked(grid.trained, largest), untrained=marked(grid.untrained, untrained)
        )

    monkeypatch.setattr(task, "predict_grid", predict_grid)
    rows = list(one.sweep(SWEEP, tmp_path / "s", executor=Here(), workers=1))
    assert len(rows) == 6
    return tmp_path / "s"


def test_rows_carry_the_number_and_the_status(store):
    for row in stored_rows(Store(store)):
        off = row.problem.step.exponent == 0.4
        assert row.status == ("inaccurate" if off else "solved")
        expected = one.predict(row.problem, method="finite-step", throw=False)
        assert row.predicted("test_error") == pytest.approx(expected.test_error, rel=1e-8)
        flat = row.to_dict()
        assert flat["message"] == ("known to be off by 8 %" if off else "solved")
        assert flat["untrained_status"] == ("inaccurate" if row.problem.ridge == 1.0 else "solved")


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".nc"])
def test_exports_show_the_status(store, tmp_path, suffix):
    if suffix != ".csv":
        pandas, xarray = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    file = tmp_path / f"x{suffix}"
    with pytest.raises(SystemExit) as stop:
        main(["sweep", "export", str(file), "--store", str(store)])
    assert not stop.value.code
    if suffix == ".csv":
        found = {(line["exponent"], line["status"]) for line in csv.DictReader(file.read_text().splitlines())}
    elif suffix == ".parquet":
        frame = pandas.read_parquet(file)
        found = {(str(e), s) for e, s in zip(frame["exponent"], frame["status"], strict=True)}
    else:
        data = xarray.open_dataset(file, engine="scipy")
        found = {(str(float(e)), str(s)) for e in data.exponent for s in np.ravel(data.status.sel(exponent=e))}
    assert found == {("0.0", "solved"), ("0.2", "solved"), ("0.4", "inaccurate")}


def test_curves_keep_marked_theory_apart(store):
    rows = stored_rows(Store(store))
    _, errors = curves(rows, "test_error")
    for curve in errors:
        assert np.isnan(curve.theory).tolist() == [False, False, True]
        assert np.isnan(curve.marked).tolist() == [True, True, False]
    _, gains = curves(rows, "test_gain")  # a gain needs the network without the step, marked at the penalty 1
    assert [np.isnan(curve.theory).tolist() for curve in gains] == [[False, False, True], [True, True, True]]


def test_plots_draw_marked_theory_dashed_and_name_it(store, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    with pytest.raises(SystemExit) as stop:
        main(["sweep", "plot", "--store", str(store), "--out", str(tmp_path / "f")])
    assert not stop.value.code
    lines = list(csv.DictReader((tmp_path / "f.csv").read_text().splitlines()))
    kinds = {(line["kind"], line["x"]) for line in lines if line["y"] and line["kind"] != "simulation"}
    assert kinds == {("theory", "0"), ("theory", "0.2"), ("marked", "0.4")}
    assert all(line["series"].endswith(", marked") for line in lines if line["kind"] == "marked")
    assert "Marked theory, dashed, was not solved or is known to be off" in " ".join(capsys.readouterr().out.split())


def test_marked_series_are_dashed_thin_and_hollow():
    pytest.importorskip("matplotlib")
    from onestride.plot import Panel, Series, draw

    panel = Panel("", "x", "y", [Series("solved", [0, 1], [0, 1]), Series("off", [1, 2], [1, 2], kind="marked")])
    solid, dashed = draw([panel]).axes[0].get_lines()
    assert (solid.get_linestyle(), dashed.get_linestyle()) == ("-", "--")
    assert dashed.get_markerfacecolor() == "none"
    assert dashed.get_linewidth() < solid.get_linewidth()


def test_the_count_of_agreement_leaves_marked_cells_out(store, tmp_path, capsys):
    (tmp_path / "s.toml").write_text(
        'method = "finite-step"\n[problem]\nn = 300\nd = 150\nN = 450\nnoise = 0.5\nseeds = 2\n'
        "[axes]\nexponent = [0.0, 0.2, 0.4]\nridge = [0.1, 1.0]\n"
    )
    with pytest.raises(SystemExit):
        main(["sweep", "run", str(tmp_path / "s.toml"), "--store", str(store)])
    said = " ".join(capsys.readouterr().out.split())
    assert "of the measured test error in " in said
    assert " of 4 cells." in said
    assert "In 2 more cells the theory's number is marked" in said
