"""Tables from arrays, data frames and files: .csv, .parquet and .npz. What is not a number is told by column and row."""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

import csv
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from onestride._errors import InputError, hint, quoted, require
from onestride._numerics import Array, Float

KINDS = (".csv", ".parquet", ".npz")
_MISSING = ("", "na", "nan", "n/a", "null", "none", "?")


@dataclass(frozen=True)
class Columns:
    """Numbers of a table, and the names of its columns."""

    X: Float[Array, "n d"]
    y: Float[Array, "n"]
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()


def read_columns(X: Any, y: Any = None, target: str | None = None) -> Columns:
    """X and y of an array, a data frame or a file, checked."""
    if isinstance(X, str | Path):
        if y is not None:
            raise InputError("y is read from the file and must be left out; target names its column")
        X, y = _read_file(Path(X), target)
        target = None if y is not None else target or list(X)[-1]
    columns, names = _columns(X)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"the columns of X must have different names, got {twice!r} more than once")
    columns, names, notes = _without_counter(columns, names)
    if target is not None:
        if y is not None:
            raise InputError(f"give y or target, not both; got target={quoted(target)}")
        if target not in names:
            raise InputError(f"target must be a column of the table, got {target!r}; {hint(target, names)}")
        y = columns.pop(names.index(target))
        names = [name for name in names if name != target]
    if y is None:
        raise InputError("y is missing: give the target's values, or target, the name of its column")
    numbers = _numbers("y" if target is None else f"the target {target!r}", _one_column(y))
    if not columns:
        raise InputError("X has no columns beside the target")
    table = np.stack([_numbers(f"column {name!r}", column) for name, column in zip(names, columns, strict=True)], 1)
    if len(table) != numbers.size:
        raise InputError(f"X and y must have as many rows as each other, got {len(table)} and {numbers.size}")
    return Columns(table, numbers, tuple(names), notes)


def _without_counter(columns: list[Any], names: list[str]) -> tuple[list[Any], list[str], tuple[str, ...]]:
    """Without a column that has no name and counts the rows, as some programs write it."""
    for j, name in enumerate(names):
        if name.strip() in ("", "Unnamed: 0"):
            column = np.asarray(columns[j])
            if column.dtype.kind in "if" and np.array_equal(column - column[0], np.arange(column.size)):
                kept = [k for k in range(len(names)) if k != j]
                words = "left out, as it counts the rows: the column without a name"
                return [columns[k] for k in kept], [names[k] for k in kept], (words,)
    return columns, names, ()


def _columns(X: Any) -> tuple[list[Any], list[str]]:
    """The columns of an array or a data frame, and their names."""
    if hasattr(X, "lazy") and hasattr(X, "collect"):  # polars' plan of a frame
        X = X.collect()
    if isinstance(X, dict):
        named = cast("dict[str, Any]", X)
        odd = next((name for name, column in named.items() if np.ndim(column) != 1), None)
        if odd is not None:
            raise InputError(f"the columns of X must be lists of numbers, got {quoted(named[odd])} for {quoted(odd)}")
        return list(named.values()), [str(name) for name in named]
    if hasattr(X, "columns") and hasattr(X, "__getitem__"):  # pandas, polars
        return [np.asarray(X[name]) for name in X.columns], [str(name) for name in X.columns]
    array = np.asarray(X)
    if array.ndim != 2 or not array.size:
        raise InputError(f"X must be a table of rows and columns, n × d, got an array of shape {array.shape}")
    return [array[:, j] for j in range(array.shape[1])], [f"x{j + 1}" for j in range(array.shape[1])]


def _one_column(y: Any) -> Array:
    column = np.asarray(y)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise InputError(f"y must be one column of numbers, got an array of shape {column.shape}")
    return column


def _numbers(name: str, column: Array) -> Float[Array, "n"]:
    """One column as numbers, or a sentence with the first row that is none (counted from 1)."""
    array = np.asarray(column)
    if array.dtype.kind in "OUS":
        _refuse_text(name, array)
        array = np.array([np.nan if _is_missing(value) else float(value) for value in array])
    elif array.dtype.kind not in "biuf":
        raise InputError(f"{name} must hold numbers, got values of type {array.dtype}")
    numbers = array.astype(float)
    gone = np.flatnonzero(np.isnan(numbers))
    if gone.size:
        count = "a missing value" if gone.size == 1 else f"{gone.size} missing values, the first"
        raise InputError(f"{name} has {count} in row {gone[0] + 1}; fill them in or leave those rows out")
    if not np.isfinite(numbers).all():
        raise InputError(f"{name} must hold finite numbers, got {numbers[~np.isfinite(numbers)][0]} in row "
                         f"{np.flatnonzero(~np.isfinite(numbers))[0] + 1}")  # fmt: skip
    return numbers


def _is_missing(value: Any) -> bool:
    return value is None or str(value).strip().lower() in _MISSING or str(value) == "<NA>"


def _refuse_text(name: str, column: Array) -> None:
    for i, value in enumerate(column):
        try:
            float(0.0 if _is_missing(value) else value)
        except (TypeError, ValueError):
            what = "text" if isinstance(value, str) else f"a {type(value).__name__}"
            if re.fullmatch(r"\s*[+-]?\d+,\d+\s*", str(value)):
                raise InputError(
                    f"{name} has a decimal comma, {value!r} in row {i + 1}; write numbers with a point"
                ) from None
            raise InputError(
                f"{name} holds {what}, {str(value)[:40]!r} in row {i + 1}; encode it as numbers first, such as one column of "
                "0 and 1 for each value"
            ) from None


def _read_file(path: Path, target: str | None) -> tuple[Any, Any]:
    """X and y of a file; y is None where the target is a column."""
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise InputError(f"a table must be a file ending in {', '.join(KINDS)}, got {path.name!r}")
    try:
        if kind == ".npz":
            return _read_arrays(path, target)
        return (_read_csv(path) if kind == ".csv" else _read_parquet(path)), None
    except InputError:
        raise
    except (OSError, ValueError, csv.Error, zipfile.BadZipFile) as error:  # pyarrow's and numpy's are ValueErrors
        raise InputError(f"the table {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _read_csv(path: Path) -> dict[str, Array]:
    """Columns by the names in the first line; separated by commas, semicolons or tabs."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        first = file.readline()
        file.seek(0)
        separator = max(",;\t", key=first.count)
        lines = [line for line in csv.reader(file, delimiter=separator) if any(part.strip() for part in line)]
    if len(lines) < 2:
        raise InputError(f"the table {path} must have a line of names and lines of numbers, got {len(lines)} lines")
    names = [name.strip() for name in lines[0]]
    if all(_is_number(name) for name in names):
        raise InputError(
            f"the first line of {path.name} must have the names of the columns, got numbers: {', '.join(names)[:60]}"
        )
    for i, line in enumerate(lines[1:], 1):
        if len(line) != len(names):
            raise InputError(
                f"row {i} of {path.name} must have {len(names)} values, as the first line has, got {len(line)}"
            )
    if len(set(names)) < len(names):
        raise InputError(f"the columns of {path.name} must have different names, got {', '.join(names)[:80]}")
    return {name: _as_numbers([line[j] for line in lines[1:]]) for j, name in enumerate(names)}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _as_numbers(column: list[str]) -> Array:
    """Numbers where all are, else the text as it is, for a sentence."""
    try:
        return np.array(column, float)
    except ValueError:
        return np.array(column, object)


def require_reader(path: Path) -> None:
    """The library that reads this file."""
    if path.suffix.lower() == ".parquet":
        require("pyarrow", extra="export", what="reading .parquet")


def _read_parquet(path: Path) -> Any:
    require_reader(path)
    import pyarrow.parquet as parquet

    table = parquet.read_table(path)
    return {name: table.column(name).to_numpy() for name in table.column_names}


def _read_arrays(path: Path, target: str | None) -> tuple[Any, Any]:
    with np.load(path, allow_pickle=False) as arrays:
        wanted = target or "y"
        if not {"X", wanted} <= set(arrays.files):
            raise InputError(f"{path.name} must hold the arrays X and {wanted}, got {', '.join(arrays.files)}")
        return arrays["X"], arrays[wanted]
