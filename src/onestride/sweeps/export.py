"""Views of a store for other programs: CSV, Parquet and NetCDF, one line per cell or per cell and seed."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onestride._errors import InputError, require
from onestride.problem import Problem
from onestride.store import StoreError, replace_file
from onestride.sweeps.rows import Row, flat_problem
from onestride.sweeps.shapes import NUMBERS, ORIGIN

PARAMETERS = (*(name for name in Problem.model_fields if name != "step"), "constant", "exponent")
SPARSEST = 4  # a NetCDF grid may have this many times more places than there are cells
_WIDEST = 2**31  # NetCDF 3 has no whole numbers beyond it: they are written as floats
Table = list[dict[str, Any]]


def cell_table(rows: Sequence[Row]) -> Table:
    """One line per cell: the problem, means, standard errors, 95 % intervals, theory and z."""
    return [row.to_dict() for row in rows]


def seed_table(rows: Sequence[Row]) -> Table:
    """One line per cell and seed: the problem, the values, and where they were computed."""
    return [
        flat_problem(row.problem)
        | {"seed": run.cell["seed"]}
        | {name: run.values[name] for name in NUMBERS}
        | {name: run.provenance.get(name) for name in ORIGIN}
        for row in rows
        for run in row.runs
    ]


def check_suffix(path: Path) -> None:
    """Say that a file has a suffix that names no format."""
    if path.suffix not in WRITERS:
        raise InputError(f"the file must end in {', '.join(WRITERS)}, got {path.name!r}")


def export(table: Table, path: Path) -> None:
    """Write a table in the format its suffix names; the file is either complete or not there."""
    check_suffix(path)
    if not table:
        raise InputError("there are no results to export")
    data = WRITERS[path.suffix](table)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}") from None


def to_csv(table: Table) -> bytes:
    """Comma-separated values; floats in the shortest form that reads back exactly, NaN as an empty field."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(table[0]), lineterminator="\n")
    writer.writeheader()
    for line in table:
        writer.writerow({name: "" if value is None or value != value else value for name, value in line.items()})
    return text.getvalue().encode()


def to_parquet(table: Table) -> bytes:
    """An Apache Parquet file."""
    require("pandas", "pyarrow", extra="export", what="a .parquet file")
    import pandas

    data = io.BytesIO()
    pandas.DataFrame(table).to_parquet(data, index=False)
    return data.getvalue()


def to_netcdf(table: Table) -> bytes:
    """A NetCDF 3 file: one dimension per parameter that varies, or one dimension `cell` where a grid would be sparse."""
    require("pandas", "xarray", extra="export", what="a .nc file")
    import pandas
    import xarray

    frame = pandas.DataFrame(table)
    axes = varying(table)
    constant = {name: _attribute(table[0][name]) for name in PARAMETERS if name not in axes}
    frame = frame.drop(columns=[name for name in constant if name in frame])
    dimensions = [*axes, *(name for name in ("seed",) if name in frame and len(set(frame[name])) > 1)]
    size = math.prod(len(set(frame[name])) for name in dimensions)
    if dimensions and size <= SPARSEST * len(frame):
        data: Any = frame.set_index(dimensions).to_xarray()
    else:
        data = xarray.Dataset.from_dataframe(frame.rename_axis("cell"))
    for name in [name for name in data.variables if data[name].dtype.kind == "i" and abs(data[name]).max() >= _WIDEST]:
        data[name] = data[name].astype(float)
    for name in [name for name in data.variables if data[name].dtype == object]:
        data[name] = data[name].fillna("").astype(str) if name not in data.dims else data[name].astype(str)
    written = data.assign_attrs(constant).to_netcdf(engine="scipy")
    return bytes(written)


WRITERS = {".csv": to_csv, ".parquet": to_parquet, ".nc": to_netcdf}


def changing(table: Table) -> list[str]:
    """The parameters that differ between the lines."""
    return [name for name in PARAMETERS if len({line[name] for line in table}) > 1]


def varying(table: Table) -> list[str]:
    """The parameters that differ between the lines, without those that another one determines."""
    found: list[str] = []
    for name in changing(table):
        if not any(determines(table, other, name) for other in found):
            found.append(name)
    return found


def determines(table: Table, name: str, other: str) -> bool:
    """Whether each value of `name` goes with one value of `other`."""
    return len({(line[name], line[other]) for line in table}) == len({line[name] for line in table})


def _attribute(value: Any) -> Any:
    if isinstance(value, int):
        return int(value) if abs(value) < _WIDEST else float(value)
    return "" if value is None else value
