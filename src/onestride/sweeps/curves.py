"""The curves behind a figure of a sweep: mean, standard error and theory against one parameter, split by the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onestride.drawing import Panel, Series
from onestride.functions import InputError
from onestride.result import LABELS
from onestride.sweeps.export import cell_table, changing, determines
from onestride.sweeps.rows import MEASURED, Row, solved

X_CHOICES = ("exponent", "ridge", "n", "d", "N", "noise", "constant", "phi", "psi", "n_step", "steps", "directions")
FIRST_X = X_CHOICES[:7]


@dataclass(frozen=True)
class Curve:
    """One line of theory and its measured points; `panel` and `label` name the other parameters, '' when none vary.

    `theory` is what was solved; `marked` the theory's numbers with another status, NaN elsewhere in both.
    """

    panel: str
    label: str
    x: list[float]
    mean: list[float]
    stderr: list[float]
    theory: list[float]
    marked: list[float]


def check_choice(y: str, x: str | None) -> None:
    """Say that a quantity or a parameter is none that can be drawn."""
    if y not in MEASURED:
        raise InputError(f"y must be one of {', '.join(MEASURED)}, got {y!r}")
    if x is not None and x not in X_CHOICES:
        raise InputError(f"x must be one of {', '.join(X_CHOICES)}, got {x!r}")


def curves(rows: Sequence[Row], y: str = "test_error", x: str | None = None) -> tuple[str, list[Curve]]:
    """The parameter on the x axis (the first that varies unless given) and the curves over it."""
    check_choice(y, x)
    table = cell_table(rows)
    if not table:
        raise InputError("there are no results to draw")
    differing = changing(table)
    along = x or next((name for name in FIRST_X if name in differing), "exponent")
    others = [name for name in differing if name != along and not determines(table, along, name)]
    colour = _colour(table, others)
    beside = [name for name in others if name not in colour]
    split: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in table:
        split.setdefault((_say(line, beside), _say(line, colour)), []).append(line)
    found = []
    for (panel, label), lines in split.items():
        ordered = sorted(lines, key=lambda line: line[along])
        columns = ([line[name] for line in ordered] for name in (along, y, f"{y}_stderr"))
        theory = [(line[f"{y}_theory"], solved(line, y)) for line in ordered]
        parts = ([value if good is wanted else math.nan for value, good in theory] for wanted in (True, False))
        found.append(Curve(panel, label, *columns, *parts))
    return along, found


def panels(found: Sequence[Curve], along: str, y: str) -> list[Panel]:
    """Each panel with its curves."""
    names = dict.fromkeys(curve.panel for curve in found)
    return [panel(name, [curve for curve in found if curve.panel == name], along, y) for name in names]


def panel(title: str, found: Sequence[Curve], along: str, y: str) -> Panel:
    """The curves of one panel, theory and the simulation it is compared with in one colour."""
    series = []
    for colour, curve in enumerate(found):
        words = f"theory, {curve.label}" if curve.label else "theory"
        if any(v == v for v in curve.theory):
            series.append(Series(words, curve.x, curve.theory, colour=colour))
        if any(v == v for v in curve.marked):
            series.append(Series(f"{words}, marked", curve.x, curve.marked, None, "marked", colour))
        series.append(Series(curve.label or "simulation", curve.x, curve.mean, curve.stderr, "simulation", colour))
    logx = along == "ridge" and all(v > 0 for curve in found for v in curve.x)
    axes = {"exponent": "exponent α of the step", "ridge": "penalty λ", "constant": "constant c of the step"}
    axes |= {"phi": "d/n", "psi": "d/N", **LABELS}
    return Panel(title, axes.get(along, along), axes[y], series, logx=logx)


def _colour(table: list[dict[str, Any]], others: list[str]) -> list[str]:
    """The parameter told by colour, with those it goes together with: the penalty if it varies, else the first."""
    if not others:
        return []
    chosen = "ridge" if "ridge" in others else "exponent" if "exponent" in others else others[0]
    return [n for n in others if n == chosen or (determines(table, chosen, n) and determines(table, n, chosen))]


def _say(line: dict[str, Any], names: list[str]) -> str:
    letters = {"ridge": "λ", "exponent": "α", "constant": "c"}
    return ", ".join(
        f"{letters.get(n, n)} = {line[n]:g}" if isinstance(line[n], int | float) else f"{line[n]}" for n in names
    )
