"""Figures as data first: a figure is a list of panels, a panel a list of series; one function draws any of them.

Theory is drawn as lines, simulation as points with error bars, limits as dotted lines; theory that is marked as
inaccurate as a thin dashed line with hollow points. A theory and the simulation it is
compared with share a colour; colours also differ in lightness, line style and marker, so a grey copy stays readable.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from onestride._errors import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from onestride.problem import Problem
    from onestride.theory.atlas import Atlas, Plane

COLOURS = ("#0b3c6f", "#d55e00", "#009e73", "#cc79a7", "#7a7a7a")
DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (4, 1.5, 1, 1.5)), (0, (2, 1)), (0, (8, 3, 2, 3)))
MARKERS = ("o", "s", "^", "D", "v")

STYLE: Any = {
    "font.family": ["STIXGeneral", "DejaVu Serif", "DejaVu Sans"],  # the later ones lend glyphs such as ᵀ and ₁
    "mathtext.fontset": "stix",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.4,
    "figure.constrained_layout.use": True,
    "pdf.fonttype": 42,
    "svg.hashsalt": "onestride",
    "savefig.dpi": 200,
}


@dataclass(frozen=True)
class Series:
    """One curve, one set of points, or one histogram (x are the bin edges)."""

    label: str
    x: ArrayLike
    y: ArrayLike
    error: ArrayLike | None = None
    kind: Literal["theory", "marked", "simulation", "limit", "histogram", "scatter"] = "theory"
    colour: int = 0


@dataclass(frozen=True)
class Panel:
    """One set of axes: what is drawn and how the axes read. Lines are (position, label) pairs."""

    title: str
    xlabel: str
    ylabel: str
    series: Sequence[Series]
    logx: bool = False
    logy: bool = False
    verticals: Sequence[tuple[float, str]] = ()
    horizontals: Sequence[tuple[float, str]] = ()
    xticks: Sequence[float] = ()
    xnames: Sequence[str] = ()  # words in place of the numbers at xticks
    xlim: tuple[float, float] | None = None
    ylim: tuple[float, float] | None = None  # widened where a measured point would lie outside


@dataclass(frozen=True)
class Map:
    """A quantity over a plane: values (y × x) as colours, each written into its cell."""

    title: str
    xlabel: str
    ylabel: str
    x: ArrayLike
    y: ArrayLike
    values: ArrayLike
    log: bool = False


def atlas(
    problem: Problem, over: Plane | None = None, x: ArrayLike | None = None, y: ArrayLike | None = None
) -> Figure:
    """Maps of the best test error and of the best step over (φ, ψ), (n, N) or (n, noise); `theory.atlas` has the numbers.

    Drawn in seconds: on the few nodes of a map, errors to about 2 %. `one.optimum` answers for one point.
    """
    from onestride.theory.atlas import atlas as compute

    return draw(atlas_maps(compute(problem, over, x, y)))


def atlas_maps(found: Atlas) -> list[Map]:
    """The best test error, and the step that reaches it."""
    names = {"phi": "φ = d/n", "psi": "ψ = d/N", "n": "samples n", "N": "neurons N", "noise": "noise σ_ε"}
    axes = names[found.over[0]], names[found.over[1]], found.x, found.y
    return [Map("best test error", *axes, found.test_error), Map("best step η", *axes, found.step, log=True)]


def theory_series(label: str, x: ArrayLike, y: ArrayLike, status: Any, colour: int = 0) -> list[Series]:
    """A theory's curve; numbers whose status is not solved as a second, dashed one that says so."""
    from onestride.result import Status

    x, y = np.asarray(x, float), np.asarray(y, float)
    solved = np.array([s is Status.SOLVED for s in np.ravel(np.asarray(status, object))])
    series = []
    if solved.any() or not np.isfinite(y).any():
        series.append(Series(label, x, np.where(solved, y, np.nan), colour=colour))
    if np.isfinite(y[~solved]).any():
        series.append(Series(f"{label}, known to be off", x, np.where(solved, np.nan, y), kind="marked", colour=colour))
    return series


def draw(panels: Sequence[Panel | Map], *, columns: int = 2) -> Figure:
    """Draw the panels in a grid. The figure is not pyplot's: no backend is chosen, no window opens, a notebook shows it."""
    require("matplotlib", extra="plot", what="a figure")
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    with rc_context(STYLE):
        figure = Figure(figsize=(3.5 * columns, 3.1 * rows))
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, squeeze=False)
        for axis in axes.flat[len(panels) :]:
            axis.set_visible(False)
        for axis, panel in zip(axes.flat, panels, strict=False):
            if isinstance(panel, Map):
                _draw_map(axis, panel)
            else:
                _draw_panel(axis, panel)
    figure._repr_png_ = partial(_png, figure)  # pyright: ignore[reportAttributeAccessIssue] - what notebooks ask for
    return figure


def _png(figure: Figure) -> bytes:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=144)
    return data.getvalue()


def _draw_map(axis: Any, panel: Map) -> None:
    values = np.asarray(panel.values, float)
    shades = np.log(np.maximum(values, 1e-3)) if panel.log else values
    axis.imshow(shades, origin="lower", aspect="auto", cmap="viridis", alpha=0.55)
    for i, j in np.ndindex(*values.shape):
        if np.isfinite(values[i, j]):
            axis.text(j, i, f"{values[i, j]:.3g}", ha="center", va="center", fontsize=7)
    axis.set_xticks(range(values.shape[1]), [f"{v:.3g}" for v in np.ravel(panel.x)])
    axis.set_yticks(range(values.shape[0]), [f"{v:.2g}" for v in np.ravel(panel.y)])
    axis.set_xlabel(panel.xlabel)
    axis.set_ylabel(panel.ylabel)
    axis.set_title(panel.title, pad=6)


def _draw_panel(axis: Any, panel: Panel) -> None:
    for s in panel.series:
        _draw_series(axis, s)
    for position, label in panel.verticals:
        axis.axvline(position, color="0.75", linewidth=0.7, zorder=0)
        if label:
            place = axis.get_xaxis_transform()
            axis.text(position, 1.0, label, transform=place, ha="center", va="bottom", fontsize=7, color="0.35")
    for i, (position, label) in enumerate(panel.horizontals):
        axis.axhline(position, color="0.45", linewidth=0.9, linestyle=DASHES[1 + i % 4], label=label, zorder=0)
    axis.set_xlabel(panel.xlabel)
    axis.set_ylabel(panel.ylabel)
    axis.set_title(panel.title, pad=14 if panel.verticals else 6)
    if panel.logx:
        axis.set_xscale("log")
    if len(panel.xticks):
        axis.set_xticks(panel.xticks, panel.xnames or [f"{t:g}" for t in panel.xticks])
        axis.set_xticks([], minor=True)
    if panel.xnames:
        axis.tick_params(axis="x", labelrotation=60)
    if panel.logy:
        axis.set_yscale("log")
    if panel.xlim:
        axis.set_xlim(*panel.xlim)
    if panel.ylim:
        axis.set_ylim(*_with_points(panel.ylim, panel.series))
    if panel.logy and axis.get_ylim()[1] < 50 * axis.get_ylim()[0]:  # 0.2, 0.5 read better than 2 × 10⁻¹
        low, high = axis.get_ylim()
        ticks = [m * 10.0**k for k in range(-12, 13) for m in (1, 2, 3, 5) if low <= m * 10.0**k <= high]
        axis.set_yticks(ticks, [f"{t:g}" for t in ticks])
        axis.set_yticks([], minor=True)
    if len(axis.get_legend_handles_labels()[1]) > 0:
        _legend_below(axis, ncols=1 if len(panel.series) < 3 else 2)


def _with_points(limits: tuple[float, float], series: Sequence[Series]) -> tuple[float, float]:
    """The limits, widened so that every measured point and its error bar lie inside."""
    low, high = limits
    margin = 0.03 * (high - low)
    for s in series:
        if s.kind == "simulation":
            y = np.asarray(s.y, float)
            error = np.zeros_like(y) if s.error is None else np.nan_to_num(np.asarray(s.error, float))
            inside = np.isfinite(y)
            low = min([low, *(y - error - margin)[inside]])
            high = max([high, *(y + error + margin)[inside]])
    return low, high


def _legend_below(axis: Any, ncols: int) -> None:
    """A legend under the axis label, however low the words at the ticks hang."""
    from matplotlib.transforms import ScaledTranslation

    figure = axis.figure
    words = axis.xaxis.get_tightbbox(figure.canvas.get_renderer())
    inches = (axis.get_window_extent().y0 - words.y0) / figure.dpi + 0.03
    under = axis.transAxes + ScaledTranslation(0, -inches, figure.dpi_scale_trans)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=under, ncols=ncols, borderaxespad=0)


def _draw_series(axis: Any, s: Series) -> None:
    x, y = np.asarray(s.x, float), np.asarray(s.y, float)
    colour, dash, marker = (palette[s.colour % len(palette)] for palette in (COLOURS, DASHES, MARKERS))
    if s.kind == "theory":
        axis.plot(x, y, color=colour, linestyle=dash, label=s.label, zorder=2)
    elif s.kind == "marked":  # theory's numbers that are not to be trusted: thin, dashed, hollow
        hollow = {"linestyle": (0, (1, 2)), "linewidth": 0.9, "marker": "o", "markersize": 3, "markerfacecolor": "none"}
        axis.plot(x, y, color=colour, alpha=0.6, label=s.label, zorder=1, **hollow)
    elif s.kind == "limit":
        axis.plot(x, y, color=colour, linestyle=":", linewidth=1.1, label=s.label, zorder=1)
    elif s.kind == "histogram":
        axis.stairs(y, x, fill=True, color="0.82", label=s.label, zorder=0)  # x are the edges
    elif s.kind == "scatter":
        axis.plot(x, y, ".", color=colour, markersize=1.6, alpha=0.35, label=s.label, zorder=1, rasterized=True)
    else:
        error = None if s.error is None else np.nan_to_num(np.asarray(s.error, float))
        options = {"markersize": 4, "capsize": 2, "elinewidth": 0.9, "markerfacecolor": "white", "zorder": 3}
        axis.errorbar(x, y, error, fmt=marker, color=colour, label=s.label, **options)


def to_csv(panels: Sequence[Panel]) -> str:
    """The numbers behind a figure: panel, series, kind, x, y, error."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["panel", "series", "kind", "x", "y", "error"])
    for panel in panels:
        for s in panel.series:
            x, y = np.atleast_1d(np.asarray(s.x, float)), np.atleast_1d(np.asarray(s.y, float))
            error = np.full(y.shape, np.nan) if s.error is None else np.asarray(s.error, float)
            for xi, yi, ei in zip(x, y, np.broadcast_to(error, y.shape), strict=False):
                row = [f"{v:.10g}" if math.isfinite(v) else "" for v in (xi, yi, ei)]
                writer.writerow([panel.title, s.label, s.kind, *row])
    return text.getvalue()


def save(panels: Sequence[Panel], stem: Path, *, columns: int = 2) -> None:
    """Write stem.pdf, stem.png and stem.csv."""
    import matplotlib

    figure = draw(panels, columns=columns)
    stem.with_suffix(".csv").write_text(to_csv(panels), encoding="utf-8")
    for suffix in (".pdf", ".png"):
        metadata = {"CreationDate": None} if suffix == ".pdf" else None  # the same numbers give the same file
        with matplotlib.rc_context(STYLE):
            figure.savefig(stem.with_suffix(suffix), metadata=metadata)


def to_svg(panels: Sequence[Panel], *, columns: int = 2) -> str:
    """Inline SVG for a self-contained page."""
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context(STYLE):
        draw(panels, columns=columns).savefig(text, format="svg", metadata={"Date": None})
    svg = text.getvalue()
    return svg[svg.index("<svg") :]
