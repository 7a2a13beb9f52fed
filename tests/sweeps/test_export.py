"""Tables for other programs: exact numbers, one dimension per parameter that varies, whole files or none."""

import csv
import importlib.util

import pytest

from onestride import Covariance, InputError, Problem
from onestride.store import Record, StoreError
from onestride.sweeps.cells import problem_content, run_cell
from onestride.sweeps.export import cell_table, changing, export, seed_table, to_csv, to_netcdf, varying
from onestride.sweeps.rows import Row

NAMES = [f"{before}{name}" for before in ("", "untrained_") for name in ("train_loss", "train_mse", "test_error")]


def row(value: float, seeds: int = 2, **fields) -> Row:
    problem = Problem(**{"n": 30, "d": 15, "N": 45} | fields)
    cells = [run_cell(problem_content(problem), seed) for seed in range(seeds)]
    runs = [Record.new("run", cell, dict.fromkeys(NAMES, value + cell["seed"]), {"host": "here"}) for cell in cells]
    return Row(problem, tuple(runs), None)


GRID = [row(d / 7 + ridge, d=d, ridge=ridge) for d in (10, 15) for ridge in (0.1, 1.0)]


def test_a_parameter_that_another_determines_is_no_axis():
    table = cell_table([row(1.0, d=10, N=30), row(1.0, d=15, N=45)])
    assert changing(table) == ["d", "N"]
    assert varying(table) == ["d"]
    assert varying(cell_table(GRID)) == ["d", "ridge"]


def test_numbers_read_back_exactly():
    lines = list(csv.DictReader(to_csv(cell_table(GRID)).decode().splitlines()))
    assert [float(line["test_error"]) for line in lines] == [float(r.test_error.mean) for r in GRID]


def test_seeds_have_a_line_each_with_where_they_were_computed():
    table = seed_table(GRID[:1])
    assert [(line["seed"], line["host"], line["commit"]) for line in table] == [(0, "here", None), (1, "here", None)]
    assert [line["test_error"] for line in table] == list(GRID[0].test_error.values)


def test_a_covariance_is_written_as_text_that_keeps_two_of_them_apart(tmp_path):
    laws = [Covariance.spiked(15, 5, overlap) for overlap in (0.2, 0.7)]
    table = cell_table([row(1.0, inputs=law) for law in laws])
    assert repr(laws[0]) == repr(laws[1])
    assert changing(table) == ["inputs"]
    assert all(line["inputs"].startswith("Covariance(d = 15, eigenvalues ") for line in table)
    if all(map(importlib.util.find_spec, ("pandas", "pyarrow"))):
        export(table, tmp_path / "x.parquet")


def test_netcdf_is_a_grid_where_the_cells_make_one_and_a_list_where_they_do_not(tmp_path):
    pytest.importorskip("pandas")
    xarray = pytest.importorskip("xarray")
    (tmp_path / "grid.nc").write_bytes(to_netcdf(cell_table(GRID)))
    data = xarray.open_dataset(tmp_path / "grid.nc", engine="scipy")
    assert dict(data.sizes) == {"d": 2, "ridge": 2}
    assert data.attrs["n"] == 30
    assert float(data.test_error.sel(d=15, ridge=1.0)) == float(GRID[3].test_error.mean)
    sparse = [row(1.0, d=10 + i, ridge=(7 * i % 10 + 1) / 10, N=40 + 3 * i % 10) for i in range(10)]
    sparse += [row(1.0, d=10, ridge=0.5), row(1.0, d=11, ridge=0.5)]
    (tmp_path / "sparse.nc").write_bytes(to_netcdf(cell_table(sparse)))
    assert dict(xarray.open_dataset(tmp_path / "sparse.nc", engine="scipy").sizes) == {"cell": 12}


def test_netcdf_has_sizes_beyond_its_whole_numbers(tmp_path):
    pytest.importorskip("pandas")
    xarray = pytest.importorskip("xarray")
    for name, rows in {"axis": [row(1.0, n=30), row(2.0, n=10**10)], "one": [row(1.0, n=10**10)]}.items():
        (tmp_path / f"{name}.nc").write_bytes(to_netcdf(cell_table(rows)))
        data = xarray.open_dataset(tmp_path / f"{name}.nc", engine="scipy")
        assert (data.attrs["n"] if name == "one" else data.n.values[-1]) == 1e10


def test_seeds_have_the_columns_of_a_run_whatever_else_a_record_holds(tmp_path):
    more = row(1.0, d=10)
    more.runs[0].values["extra"] = 10**400
    table = seed_table([row(1.0), more])
    assert len({tuple(line) for line in table}) == 1
    export(table, tmp_path / "seeds.csv")


def test_what_cannot_be_exported_is_a_sentence_and_leaves_no_file(tmp_path):
    with pytest.raises(InputError, match=r"must end in \.csv, \.parquet, \.nc, got 'x\.xls'"):
        export(cell_table(GRID), tmp_path / "x.xls")
    with pytest.raises(InputError, match="there are no results to export"):
        export([], tmp_path / "x.csv")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"x\.csv cannot be written: "):
        export(cell_table(GRID), tmp_path / "file" / "x.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
