"""What the page shows as panels of `plot`, for the PDF and the CSV."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from onestride._errors import InputError
from onestride._numerics import Array
from onestride.experiments.kit import ERRORS, THRESHOLDS
from onestride.plot import Panel, Series, save, to_csv

BASELINES = {
    "linear-ridge": "ridge on the inputs",
    "best-linear": "best linear predictor",
    "direction-only": "best function of βᵀx",
    "bayes": "noise alone",
}
EXPONENT = "α in η = c·n$^α$"


def write_figure(exponent: float, curves: bytes, here: bytes, points: dict[str, Any], kind: str) -> bytes:
    """The PDF or CSV of what is shown, from the answers the page got."""
    drawn = panels(exponent, json.loads(curves), json.loads(here), points)
    if kind == "csv":
        return to_csv(drawn).encode()
    with tempfile.TemporaryDirectory() as folder:
        save(drawn, Path(folder) / "figure")
        return (Path(folder) / "figure.pdf").read_bytes()


def panels(exponent: float, curves: dict[str, Any], here: dict[str, Any], points: dict[str, Any]) -> list[Panel]:
    """Both errors, the spectrum and the learned shares; theory as `quick` gives it, `points` as `Simulations.points` does."""
    nothing = all(v is None for v in curves.get("test_error", [])) and not points.get("test_error")
    if nothing or "x" not in curves:
        raise InputError(f"there is nothing to draw: {curves['message']}")
    errors = [_error_panel(name, curves, points) for name in ("test_error", "train_loss")]
    return [*errors, _spectrum_panel(here, points), _learned_panel(exponent, curves, points)]


def _numbers(values: Any) -> Array:
    """JSON's null is NaN."""
    return np.array(values, float)


def _error_panel(name: str, curves: dict[str, Any], points: dict[str, Any]) -> Panel:
    series = _theory(curves["x"], _numbers(curves[name]), np.array(curves["status"]) == "inaccurate")
    limit = curves["limit"]  # a line with a step at the end of each window
    series.append(Series("limit n → ∞", np.ravel(limit["windows"]), np.repeat(_numbers(limit[name]), 2), kind="limit"))
    if measured := points.get(name):
        x, y, error = (_numbers([row[k] for row in measured]) for k in ("alpha", "mean", "stderr"))
        series.append(Series(f"simulation, {points['seeds']} seeds", x, y, error, "simulation"))
    lines = [(curves["untrained"][name], "without the step")]
    if name == "test_error":
        lines += [(curves["baselines"][k], words) for k, words in BASELINES.items()]
    lines = [(float(at), label) for at, label in lines if at is not None]
    return Panel(ERRORS[name], EXPONENT, ERRORS[name], series, verticals=THRESHOLDS, horizontals=lines)


def _theory(alpha: list[float], values: Array, off: Array) -> list[Series]:
    """The curve; where it is known to be off by more than 5 % a line of its own, grey and dashed, up to the next point."""
    good, series = np.where(off, np.nan, values), []
    if not off.any() or not np.isnan(good).all():
        series.append(Series("theory at this n", alpha, good))
    if off.any():
        beside = off | np.append(off[1:], False) | np.append(False, off[:-1])
        marked = np.where(beside, values, np.nan)
        series.append(Series("theory, known to be off by more than 5 %", alpha, marked, colour=4))
    return series


def _spectrum_panel(here: dict[str, Any], points: dict[str, Any]) -> Panel:
    found, series = here.get("spectrum") or {}, []
    if histogram := points.get("histogram"):
        series.append(Series("simulation", histogram["edges"], histogram["density"], kind="histogram"))
    xlim, degrees = None, found.get("degrees", [])
    lines = [(x, f"k = {k}" if k else "") for x, k in zip(found.get("leading", []), degrees, strict=True)]
    between = zip(found.get("between", []), found.get("between_degrees", []), strict=True)
    lines += [(x, f"k = {k}" if k else "|x|") for x, k in between]
    for name, label, colour in (("untrained", "bulk before the step", 4), ("trained", "bulk after it", 0)):
        if law := found.get(name):
            grid = _numbers(law["grid"])
            weight = grid * _numbers(law["density"])
            series.append(Series(label, grid, weight, colour=colour))
            seen = grid[weight > 0.02 * np.nanmax(weight)]
            if seen.size:
                xlim = (float(seen[0]) / 1.5, 1.6 * float(max([seen[-1], *(at for at, _ in lines)])))
    axes = ("spectrum of FFᵀ/n", "eigenvalue", "density per log eigenvalue")
    return Panel(*axes, series, logx=True, verticals=lines, xlim=xlim)


def _learned_panel(exponent: float, curves: dict[str, Any], points: dict[str, Any]) -> Panel:
    degrees, learned = [str(k) for k in curves["degrees"]], points.get("learned", {})
    series = [
        Series(f"degree {k}", curves["x"], _numbers(curves["fraction"][k]), colour=i) for i, k in enumerate(degrees)
    ]
    for i, k in enumerate(degrees):
        if row := learned.get(k):
            measured = [exponent], _numbers([row["mean"]]), _numbers([row["stderr"]])
            series.append(Series(f"degree {k}, simulation", *measured, "simulation", i))
    title, ylim = "learned share of each degree", (-0.06, 1.05)
    return Panel(title, EXPONENT, "share", series, verticals=THRESHOLDS, ylim=ylim)
