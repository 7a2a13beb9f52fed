"""A sweep that runs: an iterator over its rows that keeps those it has yielded, and shows them."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

from onestride import _html
from onestride.drawing import Panel
from onestride.shown import Result, Variables
from onestride.sweeps.curves import curves, panels
from onestride.sweeps.export import cell_table
from onestride.sweeps.rows import Row, tails_words


class Running(Result, Iterator[Row]):
    """The rows of a sweep, one after the other as their cells finish; `rows` are those that have come.

    `finish()` runs it to the end; `to_pandas()`, `to_xarray()`, `plot()` and a notebook show what has come so far.
    """

    def __init__(self, name: str, cells: int, rows: Generator[Row, None, None]) -> None:
        self.name, self.cells = name, cells
        self.rows: list[Row] = []
        self._coming = rows

    def __iter__(self) -> Running:
        return self

    def __next__(self) -> Row:
        row = next(self._coming)
        self.rows.append(row)
        return row

    def close(self) -> None:
        """Stop: what runs is finished and stored."""
        self._coming.close()

    def finish(self) -> Running:
        """Run to the end."""
        for _ in self:
            pass
        return self

    def to_dict(self) -> dict[str, Any]:
        """Its name, how many cells it has, and those that have come."""
        return {"name": self.name, "cells": self.cells, "rows": [row.to_dict() for row in self.rows]}

    def _first_line(self) -> str:
        return f"{self.name!r}, {len(self.rows)} of {self.cells} cells have come"

    def _second_line(self) -> str:
        if len(self.rows) < self.cells:
            return "iterate over it, or call finish(), to compute the others"
        return tails_words(self.rows)

    def _repr_html_(self) -> str:
        shown = ("n", "d", "N", "activation", "exponent", "ridge", "seeds", "test_error", "test_error_stderr")
        shown += ("test_error_theory", "status")
        lines = [[_short(line[name]) for name in shown] for line in cell_table(self.rows)]
        told = tails_words(self.rows)
        return _html.grid(f"Sweep {self._first_line()}{'. ' * bool(told)}{told}", shown, lines)

    def panels(self) -> Sequence[Panel]:
        """Test errors against the first parameter that varies, split by the others."""
        along, found = curves(self.rows)
        return panels(found, along, "test_error")

    def _axes(self) -> dict[str, Sequence[int]]:
        return {"cell": range(len(self.rows))}

    def _variables(self) -> Variables:
        lines = cell_table(self.rows)
        return {name: (("cell",), [line[name] for line in lines]) for name in (lines[0] if lines else ())}


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
