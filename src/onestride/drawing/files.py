"""A figure's files: its table, seed by seed, from which it is drawn again; PDF, PNG, and SVG that follows a dark page."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onestride.drawing.figure import draw
from onestride.drawing.palette import DARK, STYLE
from onestride.drawing.panels import Panel, Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = ("panel", "series", "kind", "x", "y", "error", "seed", "curve")
NUMBERS = ("x", "y", "error", "seeds")  # the fields of a series that are columns of the table


def to_csv(panels: Sequence[Panel]) -> str:
    """The numbers behind a figure, one line per point and, where a point is a mean over seeds, one per seed.

    >>> panel = one.plot.Panel("growth", "x", "y", [one.plot.Series("squares", [1, 2], [1, 4])])
    >>> print(one.plot.to_csv([panel]).splitlines()[2])
    growth,squares,theory,2,4,,,0
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    drawn = [(panel.title, s) for panel in panels for s in panel.series]
    for curve, (title, s) in enumerate(drawn):
        for x, y, error, seed in _points(s):
            numbers = [f"{v:.10g}" if math.isfinite(v) else "" for v in (x, y, error)]
            writer.writerow([title, s.label, s.kind, *numbers, seed, curve])
    return text.getvalue()


def _points(s: Series) -> list[tuple[float, float, float, int | str]]:
    """x, y, error and seed of every line of the table; a histogram has one more edge than heights."""
    x, y = (np.atleast_1d(np.asarray(values, float)) for values in (s.x, s.y))
    if s.seeds is not None:
        by_point = zip(x, s.seeds, strict=True)
        return [(a, float(v), math.nan, seed) for a, values in by_point for seed, v in enumerate(np.ravel(values))]
    error = np.broadcast_to(math.nan if s.error is None else np.asarray(s.error, float), y.shape)
    points: list[tuple[float, float, float, int | str]] = [(a, v, e, "") for a, v, e in zip(x, y, error, strict=False)]
    return [*points, (x[-1], math.nan, math.nan, "")] if s.kind == "histogram" else points


def describe(panels: Sequence[Panel]) -> list[dict[str, Any]]:
    """All of the panels but the numbers of the table."""
    told = []
    for panel in panels:
        series = [{k: v for k, v in vars(s).items() if k not in NUMBERS} for s in panel.series]
        own = {f.name: getattr(panel, f.name) for f in fields(panel) if f.name != "series"}
        own |= {name: [(float(at), label) for at, label in own[name]] for name in ("verticals", "horizontals")}
        own |= {"xticks": [float(tick) for tick in panel.xticks], "xnames": list(panel.xnames)}
        told.append(own | {"series": series})
    return told


def read(told: Sequence[Mapping[str, Any]], table: str) -> list[Panel]:
    """The panels of `describe` with the numbers of `to_csv`; means and standard errors are computed from the seeds.

    >>> from onestride.drawing.files import describe, read
    >>> panel = one.plot.Panel("growth", "x", "y", [one.plot.Series("squares", [1, 2], [1, 4])])
    >>> read(describe([panel]), one.plot.to_csv([panel]))[0].series[0].y
    array([1., 4.])
    """
    rows: dict[int, list[dict[str, str]]] = {}
    lines = csv.DictReader(io.StringIO(table))
    if lacking := set(COLUMNS) - set(lines.fieldnames or ()):
        raise ValueError(f"it has no column {', '.join(sorted(lacking))}")
    for row in lines:
        rows.setdefault(int(row["curve"]), []).append(row)
    panels, curve = [], 0
    for panel in told:
        series = []
        for s in panel["series"]:
            series.append(_read_series(s, rows.get(curve, [])))
            curve += 1
        panels.append(Panel(**{**panel, "series": series}))
    return panels


def _read_series(told: Mapping[str, Any], rows: Sequence[Mapping[str, str]]) -> Series:
    x, y, error = (np.array([float(row[k] or "nan") for row in rows]) for k in ("x", "y", "error"))
    if rows and rows[0]["seed"]:
        starts = [i for i, row in enumerate(rows) if row["seed"] == "0"]
        seeds = np.split(y, starts[1:])
        error = [v.std(ddof=1) / math.sqrt(v.size) if v.size > 1 else math.nan for v in seeds]
        return Series(**told, x=x[starts], y=[v.mean() for v in seeds], error=error, seeds=seeds)
    if told["kind"] == "histogram":
        return Series(**told, x=x, y=y[:-1])
    return Series(**told, x=x, y=y, error=error if np.isfinite(error).any() else None)


def save(panels: Sequence[Panel], stem: str | Path, *, columns: int = 2, title: str = "") -> str:
    """Write stem.pdf, stem.png and stem.csv; return the same figure as `to_svg` does.

    >>> import tempfile
    >>> from pathlib import Path
    >>> panel = one.plot.Panel("growth", "x", "y", [one.plot.Series("squares", [1, 2], [1, 4])])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     svg = one.plot.save([panel], Path(folder, "growth"))
    ...     sorted(path.suffix for path in Path(folder).iterdir())
    ['.csv', '.pdf', '.png']
    """
    figure, stem = _laid_out(panels, columns, title), Path(stem)
    import matplotlib  # after `draw` has said what is missing

    stem.with_suffix(".csv").write_text(to_csv(panels), encoding="utf-8")
    for suffix in (".pdf", ".png"):
        metadata = {"CreationDate": None} if suffix == ".pdf" else None  # the same numbers give the same file
        with matplotlib.rc_context(STYLE):
            figure.savefig(stem.with_suffix(suffix), metadata=metadata)
    return _svg(figure)


def to_svg(panels: Sequence[Panel], *, columns: int = 2, title: str = "") -> str:
    """Inline SVG for a self-contained page: colours are variables of the page, so that a dark one has its own.

    >>> one.plot.to_svg([one.plot.Panel("growth", "x", "y", [one.plot.Series("squares", [1, 2], [1, 4])])])[:4]
    '<svg'
    """
    return _svg(_laid_out(panels, columns, title))


def _laid_out(panels: Sequence[Panel], columns: int, title: str) -> Figure:
    """The figure with every part in its place, once for all the files: finding the places takes most of the time."""
    figure = draw(panels, columns=columns, title=title)
    import matplotlib  # after `draw` has said what is missing

    with matplotlib.rc_context(STYLE):
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return figure


def _svg(figure: Figure) -> str:
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(text, format="svg", metadata={"Date": None}, transparent=True)
    svg = text.getvalue()
    return re.sub(r"#[0-9a-f]{6}\b", lambda m: _variable(m[0]), svg[svg.index("<svg") :])


def _variable(colour: str) -> str:
    return f"var(--on-{colour[1:]}, {colour})" if colour in DARK else colour


def dark_variables() -> str:
    """What the colours of `to_svg` are on a dark page, as CSS."""
    return " ".join(f"--on-{light[1:]}: {dark};" for light, dark in DARK.items())
