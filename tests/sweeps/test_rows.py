"""Rows, counts and tables from records that were put by hand: what is shown, what is left out, in which order."""

import math
from dataclasses import replace

import onestride as one
from onestride.store import Record, Store
from onestride.sweeps.cells import NUMERICS, problem_content, run_cell, theory_cell
from onestride.sweeps.curves import curves, panel
from onestride.sweeps.export import cell_table, to_csv
from onestride.sweeps.rows import stored_rows
from onestride.sweeps.status import store_status

NAMES = [f"{before}{name}" for before in ("", "untrained_") for name in ("train_loss", "train_mse", "test_error")]
PROBLEM = {"n": 30, "d": 15, "N": 45}


def put(path, *records: Record) -> Store:
    with Store(path, create=True) as store:
        store.put(*records)
    return Store(path)


def run(seed: int, value: float = 0.5, **fields) -> Record:
    cell = run_cell(problem_content(one.Problem(**PROBLEM | fields)), seed)
    return Record.new("run", cell, dict.fromkeys(NAMES, value), {}, numerics=NUMERICS["run"])


def failure(seed: int) -> Record:
    cell = {"of": "run", "cell": run_cell(problem_content(one.Problem(**PROBLEM)), seed), "attempt": 1}
    return Record.new("failure", cell, {"reason": "no memory"}, {}, numerics=NUMERICS["failure"])


def theory(numerics: int) -> Record:
    values = dict.fromkeys(NAMES, 0.4) | {"method": "profile", "status": "solved", "message": "solved"}
    return Record.new(
        "theory", theory_cell(problem_content(one.Problem(**PROBLEM)), "auto"), values, {}, numerics=numerics
    )


def test_a_failure_that_was_made_good_is_not_shown(tmp_path):
    (row,) = stored_rows(put(tmp_path, failure(0), failure(1), run(1)))
    assert row.failures == ("no memory",)
    (row,) = stored_rows(put(tmp_path, run(0)))
    assert row.failures == ()


def test_results_of_other_numerics_are_not_shown(tmp_path):
    (row,) = stored_rows(put(tmp_path, run(0), theory(NUMERICS["theory"] - 1)))
    assert row.theory is None
    (row,) = stored_rows(put(tmp_path, theory(NUMERICS["theory"])))
    assert row.predicted("test_error") == 0.4


def test_z_counts_how_far_theory_lies_above_the_measurement(tmp_path):
    """0.5 and 0.7 measured, 0.6 ± 0.1, and 0.4 predicted."""
    (row,) = stored_rows(put(tmp_path, run(0, 0.5), run(1, 0.7), theory(NUMERICS["theory"])))
    assert math.isclose(row.z("test_error"), -2)


def test_status_counts_whole_cells_and_cells_that_failed(tmp_path):
    described = {
        "name": "s",
        "sweep": {"method": "none", "problem": PROBLEM | {"seeds": 2}, "axes": {"ridge": [0.1, 1.0]}},
    }
    sweep = Record.new("sweep", described, {"cells": 2}, {}, numerics=NUMERICS["sweep"])
    (entry,) = store_status(put(tmp_path, sweep, run(0), failure(1))).sweeps
    assert (entry.cells, entry.known, entry.failed) == (2, 0, 1)
    assert store_status(Store(tmp_path)).reasons == {"no memory": 1}
    made_good = store_status(put(tmp_path, run(1)))
    (entry,) = made_good.sweeps
    assert (entry.cells, entry.known, entry.failed) == (2, 1, 0)
    assert made_good.reasons == {}


def test_a_number_that_is_not_there_is_an_empty_field(tmp_path):
    (row,) = stored_rows(put(tmp_path, run(0, math.nan)))
    header, line = to_csv(cell_table([row])).decode().splitlines()
    fields = dict(zip(header.split(","), line.replace('"[0.0, 1.0]"', "").split(","), strict=True))
    assert (fields["test_error"], fields["test_error_stderr"], fields["test_error_theory"]) == ("", "", "")
    assert fields["seeds"] == "1"


def test_curves_run_along_their_axis_whatever_the_order_of_rows(tmp_path):
    rows = stored_rows(put(tmp_path, *(run(0, ridge, ridge=ridge) for ridge in (0.3, 0.1, 0.2))))
    along, (curve,) = curves([rows[2], rows[0], rows[1]])
    assert along == "ridge"
    assert curve.x == curve.mean == [0.1, 0.2, 0.3]
    assert [panel("", [curve], name, "test_error").logx for name in ("ridge", "exponent")] == [True, False]


def test_sizes_that_go_together_make_one_curve(tmp_path):
    rows = stored_rows(put(tmp_path, *(run(0, d, d=d, N=3 * d) for d in (10, 20, 15))))
    along, (curve,) = curves(rows)
    assert (along, curve.label, curve.panel) == ("d", "", "")
    assert curve.x == curve.mean == [10, 15, 20]


def test_a_figure_of_a_row_marks_theory_that_is_not_solved(tmp_path):
    solved = theory(NUMERICS["theory"])
    marked = replace(solved, values=solved.values | {"status": "inaccurate"})
    kinds = []
    for name, record in {"solved": solved, "marked": marked}.items():
        (row,) = stored_rows(put(tmp_path / name, run(0), record))
        kinds.append([(s.label, s.kind) for s in row.panels()[0].series])
    assert kinds[0] == [("theory", "simulation"), ("simulation", "simulation")]
    assert kinds[1] == [("theory, marked", "marked"), ("simulation", "simulation")]
