"""Panels to a figure: one legend for all of them, one scale for every quantity that several of them show."""

from __future__ import annotations

import io
import math
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from onestride._errors import InputError, quoted, require
from onestride.drawing.palette import COLOURS, DASHES, FILL, GUIDE, INK, LEVEL, MARKERS, SOFT, STYLE
from onestride.drawing.panels import Map, Panel, Series
from onestride.drawing.words import typeset

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(panels: Sequence[Panel | Map], *, columns: int = 2, title: str = "") -> Figure:
    """Draw the panels in a grid. The figure is not pyplot's: no backend is chosen, no window opens, a notebook shows it.

    >>> panel = one.plot.Panel("growth", "x", "y", [one.plot.Series("squares", [0, 1, 2], [0, 1, 4])])
    >>> one.plot.draw([panel]).axes[0].get_xlabel()
    'x'
    """
    _require(panels)
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    with rc_context(STYLE):
        figure = Figure(figsize=(3.5 * columns, 2.75 * rows + 0.5))
        FigureCanvasAgg(figure)
        _fill(figure, panels, rows, columns, title)
    figure._repr_png_ = partial(_png, figure)  # pyright: ignore[reportAttributeAccessIssue] - what notebooks ask for
    return figure


def axes_of(panels: Sequence[Panel | Map], ax: Axes | None = None, *, columns: int = 2) -> Any:
    """Draw with pyplot, for `.plot()` of a result: the axes, an array of them where there are several panels.

    With `ax` the first panel is drawn there. A notebook shows the figure, `matplotlib.pyplot.show()` opens it elsewhere.
    """
    _require(panels)
    if ax is not None and not hasattr(ax, "plot"):
        raise InputError(f"ax must be axes of matplotlib, got {quoted(ax)}")
    from matplotlib import rc_context

    pyplot = _pyplot()
    with rc_context(STYLE):
        if ax is not None:
            _draw_on([(ax, panels[0])])
            if ax.get_legend_handles_labels()[1]:
                ax.legend()
            return ax
        columns = min(columns, len(panels))
        rows = math.ceil(len(panels) / columns)
        figure = pyplot.figure(figsize=(3.5 * columns, 2.75 * rows + 0.5))
        axes = _fill(figure, panels, rows, columns)
    return axes[0] if len(panels) == 1 else np.array(axes, object)


def _require(panels: Sequence[Panel | Map]) -> None:
    require("matplotlib", extra="plot", what="a figure")
    if not panels:
        raise InputError("a figure needs one panel or more, got none")


def _pyplot() -> Any:
    """Pyplot. Loaded in a notebook by its first figure, it would show that one after the next cell: the notebook is told at once."""
    first, shell = "matplotlib.pyplot" not in sys.modules, sys.modules.get("IPython")
    import matplotlib
    from matplotlib import pyplot

    if first and "ipykernel" in sys.modules and shell is not None and "inline" in matplotlib.get_backend().lower():
        shell.get_ipython().enable_matplotlib("inline")
    return pyplot


def _fill(figure: Figure, panels: Sequence[Panel | Map], rows: int, columns: int, title: str = "") -> list[Axes]:
    """One set of axes for each panel, in a grid; places that stay empty are hidden."""
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    _draw_on(list(zip(axes, panels, strict=False)))
    if title:
        _headline(figure, title)
    _one_legend(figure)
    return axes[: len(panels)]


def _draw_on(drawn: Sequence[tuple[Axes, Panel | Map]]) -> None:
    """Panels on their axes: what they show first, then the limits they share, then what depends on these."""
    levels = _level_styles(panel for _, panel in drawn if isinstance(panel, Panel))
    for axis, panel in drawn:
        if isinstance(panel, Map):
            _draw_map(axis, panel)
        else:
            _draw_panel(axis, panel, levels)
    plain = [(axis, panel) for axis, panel in drawn if isinstance(panel, Panel)]
    _share_axes(plain)
    for axis, panel in plain:
        _plain_ticks(axis, panel)
        _name_verticals(axis, panel)


def _png(figure: Figure) -> bytes:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=144)
    return data.getvalue()


def _headline(figure: Figure, title: str) -> None:
    """The answer above the panels, broken into as many lines as it needs."""
    from textwrap import wrap

    whole = re.sub(r" ([±=<≤→]) ", "\u00a0\\1\u00a0", title)  # lines are not broken there
    lines = wrap(whole, width=int(15.5 * figure.get_figwidth()), break_long_words=False)
    figure.suptitle("\n".join(typeset(line.replace("\u00a0", " ")) for line in lines), fontsize=10.5)


def _level_styles(panels: Any) -> dict[str, Any]:
    """A dash for the horizontal line of each name, the same in every panel."""
    names = dict.fromkeys(label for panel in panels for _, label in panel.horizontals)
    return {name: DASHES[1 + i % 4] for i, name in enumerate(names)}


def _draw_map(axis: Any, panel: Map) -> None:
    values = np.asarray(panel.values, float)
    shades = np.log(np.maximum(values, 1e-3)) if panel.log else values
    axis.imshow(shades, origin="lower", aspect="auto", cmap="viridis", alpha=0.55)
    for i, j in np.ndindex(*values.shape):
        if np.isfinite(values[i, j]):
            axis.text(j, i, f"{values[i, j]:.3g}", ha="center", va="center", fontsize=7)
    axis.set_xticks(range(values.shape[1]), [_tick(v) for v in np.ravel(panel.x)])
    axis.set_yticks(range(values.shape[0]), [_tick(v) for v in np.ravel(panel.y)])
    axis.set_xlabel(typeset(panel.xlabel))
    axis.set_ylabel(typeset(panel.ylabel))
    axis.set_title(typeset(panel.title), pad=6)


def _draw_panel(axis: Any, panel: Panel, levels: dict[str, Any]) -> None:
    for s in panel.series:
        _draw_series(axis, s)
    for position, _ in panel.verticals:
        axis.axvline(position, color=GUIDE, linewidth=0.7, zorder=0)
    for position, label in panel.horizontals:
        axis.axhline(position, color=LEVEL, linewidth=0.9, linestyle=levels[label], label=typeset(label), zorder=0)
    axis.set_xlabel(typeset(panel.xlabel))
    axis.set_ylabel(typeset(panel.ylabel))
    if panel.logx:
        axis.set_xscale("log")
    if len(panel.xticks):
        axis.set_xticks(panel.xticks, [typeset(t) for t in panel.xnames] or [_number(t) for t in panel.xticks])
        axis.set_xticks([], minor=True)
    if panel.xnames:
        axis.tick_params(axis="x", labelrotation=60)
    if panel.logy:
        axis.set_yscale("log")
    elif panel.linear_to:
        axis.set_yscale("symlog", linthresh=panel.linear_to)
    if panel.xlim:
        axis.set_xlim(*panel.xlim)
    if panel.ylim:
        axis.set_ylim(*_with_points(panel.ylim, panel.series, panel.logy))


def _number(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def _tick(value: float) -> str:
    return _number(float(f"{value:.3g}"))


def _share_axes(drawn: Sequence[tuple[Any, Panel]]) -> None:
    """Axes of one name get the limits that hold all of them."""
    readers: tuple[tuple[str, Callable[[Panel], Any]], ...] = (
        ("xlim", lambda p: (p.xlabel, p.logx, tuple(p.xnames))),
        ("ylim", lambda p: (p.ylabel, p.logy, p.linear_to)),
    )
    for name, read in readers:
        groups: dict[Any, list[Any]] = {}
        for axis, panel in drawn:
            if panel.shared and read(panel)[0]:
                groups.setdefault(read(panel), []).append(axis)
        for axes in groups.values():
            lows, highs = zip(*(getattr(axis, f"get_{name}")() for axis in axes), strict=True)
            for axis in axes:
                getattr(axis, f"set_{name}")(min(lows), max(highs))


def _plain_ticks(axis: Any, panel: Panel) -> None:
    """0.2 and 0.5 read better than 2 × 10⁻¹ where a logarithmic axis spans less than two decades."""
    both = {
        "x": (axis.get_xlim(), panel.logx and not len(panel.xticks), 0.0),
        "y": (axis.get_ylim(), panel.logy, panel.linear_to),
    }
    for name, ((low, high), log, bend) in both.items():
        if bend or (log and high < 100 * low):
            ticks = _round_numbers(low, high, bend)
            getattr(axis, f"set_{name}ticks")(ticks, [_number(t) for t in ticks])
            getattr(axis, f"set_{name}ticks")([], minor=True)
        elif log:
            getattr(axis, f"{name}axis").set_minor_formatter("")


def _round_numbers(low: float, high: float, bend: float = 0.0) -> list[float]:
    """Some of 1, 2, 3, 5 times a power of ten between the limits, beyond ± `bend` and 0; evenly spaced ones where they are few."""
    from matplotlib.ticker import MaxNLocator

    steps = sorted({s * m * 10.0**k for k in range(-12, 13) for m in (1, 2, 3, 5) for s in (-1, 1)} | {0.0})
    inside = [t for t in steps if low <= t <= high and (t == 0 or abs(t) >= bend)]
    if len(inside) > 2:
        return inside
    return [float(t) for t in MaxNLocator(4).tick_values(low, high) if low <= t <= high]


def _name_verticals(axis: Any, panel: Panel) -> None:
    """Names above the vertical lines, in two rows where they would touch, and the title above them."""
    named = sorted((position, label) for position, label in panel.verticals if label)
    inches, rows, ends = 2.9, [], [-1.0, -1.0]
    for position, label in named:
        at = (axis.transScale + axis.transLimits).transform((position, 1.0))[0] * inches
        half = 0.026 * len(label)
        row = 0 if at - half > ends[0] + 0.04 else 1
        ends[row] = max(ends[row], at + half)
        rows.append(row)
        style = {"ha": "center", "va": "bottom", "fontsize": 7, "color": SOFT}
        place = axis.get_xaxis_transform()
        axis.annotate(typeset(label), (position, 1.0), (0, 9 * row), place, textcoords="offset points", **style)
    axis.set_title(typeset(panel.title), pad=6 + (8 + 9 * max(rows) if rows else 0))


def _with_points(limits: tuple[float, float], series: Sequence[Series], log: bool) -> tuple[float, float]:
    """The limits, widened so that every measured point and its error bar lie inside."""
    low, high = limits
    margin, room = (0.0, 1.08) if log else (0.03 * (high - low), 1.0)
    for s in series:
        if s.kind == "simulation":
            y = np.asarray(s.y, float)
            error = np.zeros_like(y) if s.error is None else np.nan_to_num(np.asarray(s.error, float))
            inside = np.isfinite(y)
            low = min([low, *((y - error - margin) / room)[inside & ((y > error) | (not log))]])
            high = max([high, *((y + error + margin) * room)[inside]])
    return low, high


def _one_legend(figure: Figure) -> None:
    """Every name once, below all panels; one that has several colours in the colour of the text: other names tell which."""
    known: dict[str, dict[str, Any]] = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            known.setdefault(label, {}).setdefault(_colour(handle), handle)
    handles = [next(iter(h.values())) if len(h) == 1 else _neutral(next(iter(h.values()))) for h in known.values()]
    widest = 4 * max(1, round(figure.get_figwidth() / 3.5))
    for ncols in range(min(len(handles), widest), 0, -1):
        legend = figure.legend(handles, list(known), loc="outside lower center", ncols=ncols)
        if ncols == 1 or legend.get_window_extent().width < 0.98 * figure.bbox.width:
            figure.set_figheight(figure.get_figheight() + 0.17 * math.ceil(len(handles) / ncols) - 0.2)
            return
        legend.remove()


def _colour(handle: Any) -> str:
    first = handle[0] if isinstance(handle, tuple) else handle
    return str(getattr(first, "get_color", first.get_facecolor if hasattr(first, "get_facecolor") else str)())


def _neutral(handle: Any) -> Any:
    """An entry for lines or points of several colours."""
    from matplotlib.lines import Line2D

    first = handle[0] if isinstance(handle, tuple) else handle
    if first.get_linestyle() in ("None", "none"):
        return Line2D([], [], color=INK, linestyle="none", marker="o", markersize=4, markerfacecolor="white")
    return Line2D([], [], color=INK, linestyle=":" if first.get_linestyle() == ":" else "-", linewidth=1.1)


def _draw_series(axis: Any, s: Series) -> None:
    x, y = np.asarray(s.x, float), np.asarray(s.y, float)
    label = typeset(s.label)
    colour, dash, marker = (palette[s.colour % len(palette)] for palette in (COLOURS, DASHES, MARKERS))
    alone = {"marker": "o", "markersize": 2.5, "markevery": places} if (places := _alone(y)) else {}
    if s.kind == "theory":
        axis.plot(x, y, color=colour, linestyle=dash, label=label, zorder=2, **alone)
    elif s.kind == "marked":  # theory's numbers that are not to be trusted: thin, dashed, hollow
        hollow = {"linestyle": (0, (1, 2)), "linewidth": 0.9, "marker": "o", "markersize": 3, "markerfacecolor": "none"}
        axis.plot(x, y, color=colour, alpha=0.6, label=label, zorder=1, **hollow)
    elif s.kind == "limit":
        axis.plot(x, y, color=colour, linestyle=":", linewidth=1.1, label=label, zorder=1, **alone)
    elif s.kind == "histogram":
        axis.stairs(y, x, fill=True, color=FILL, label=label, zorder=0)  # x are the edges
    elif s.kind == "scatter":
        axis.plot(x, y, ".", color=colour, markersize=1.6, alpha=0.35, label=label, zorder=1, rasterized=x.size > 2000)
    else:
        error = None if s.error is None else np.nan_to_num(np.asarray(s.error, float))
        options = {"markersize": 4, "capsize": 2, "elinewidth": 0.9, "markerfacecolor": "white", "zorder": 3}
        axis.errorbar(x, y, error, fmt=marker, color=colour, label=label, **options)


def _alone(y: Any) -> list[int]:
    """Where a number has none on either side: a line would not show it."""
    known = np.pad(np.isfinite(y), 1)
    return np.flatnonzero(known[1:-1] & ~known[:-2] & ~known[2:]).tolist()
