"""What the page shows as panels of `plot`, for the PDF and the CSV."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from onestride._errors import InputError
from onestride.plot import Panel, Series, save, to_csv

THRESHOLDS = ((0.0, "0"), (0.25, "1/4"), (1 / 3, "1/3"), (0.375, "3/8"))
WORDS = {"train_loss": "ridge objective", "test_error": "test error"}
BASELINES = {
    "linear-ridge": "ridge on the inputs",
    "best-linear": "best linear predictor",
    "direction-only": "best function of βᵀx",
    "bayes": "noise alone",
}
EXPONENT = "α in η = c·n$^α$"


def panels(exponent: float, curves: dict[str, Any], here: dict[str, Any], points: dict[str, Any]) -> list[Panel]:
    """Both errors, the spectrum and the learned shares as `theory` gives them; `points` as `simulation.points` does."""
    nothing = all(v is None for v in curves.get("test_error", [])) and not points.get("test_error")
    if nothing or "alpha" not in curves:
        raise InputError(f"there is nothing to draw: {curves['message']}")
    alpha = curves["alpha"]
    drawn = []
    for name in ("test_error", "train_loss"):
        series = _theory(alpha, curves[name], curves["status"])
        x, y = _stairs(curves["limit"]["windows"], curves["limit"][name])
        series.append(Series("limit n → ∞", x, y, kind="limit"))
        measured = points.get(name)
        if measured:
            values = ([row[k] for row in measured] for k in ("alpha", "mean", "stderr"))
            x, y, error = (_floats(v) for v in values)
            series.append(Series(f"simulation, {points['seeds']} seeds", x, y, error, "simulation"))
        lines = [(curves["untrained"][name], "without the step")]
        if name == "test_error":
            lines += [(curves["baselines"][k], words) for k, words in BASELINES.items()]
        lines = [(float(at), label) for at, label in lines if at is not None]
        options: dict[str, Any] = {"verticals": THRESHOLDS, "horizontals": lines}
        drawn.append(Panel(WORDS[name], EXPONENT, WORDS[name], series, **options))
    drawn.append(_spectrum_panel(here, points))
    series = [
        Series(f"degree {k}", alpha, _floats(curves["fraction"][str(k)]), colour=i)
        for i, k in enumerate(curves["degrees"])
    ]
    for i, k in enumerate(curves["degrees"]):
        row = points.get("learned", {}).get(str(k))
        if row:
            at = [exponent]
            label = f"degree {k}, simulation"
            series.append(Series(label, at, _floats([row["mean"]]), _floats([row["stderr"]]), "simulation", i))
    drawn.append(
        Panel(
            "learned share of each degree",
            EXPONENT,
            "share",
            series,
            verticals=THRESHOLDS,
            ylim=(-0.06, 1.05),
        )
    )
    return drawn


def _theory(alpha: list[float], values: list[float | None], status: list[str]) -> list[Series]:
    """The curve; where it is known to be off by more than 5 % a line of its own, grey and dashed."""
    off = [s == "inaccurate" for s in status]
    if not any(off):
        return [Series("theory at this n", alpha, _floats(values))]
    ends = [own or (i > 0 and off[i - 1]) or (i + 1 < len(off) and off[i + 1]) for i, own in enumerate(off)]
    good = [None if bad else v for v, bad in zip(values, off, strict=True)]
    marked = [v if end else None for v, end in zip(values, ends, strict=True)]
    known = [Series("theory at this n", alpha, _floats(good))] if any(v is not None for v in good) else []
    return [*known, Series("theory, known to be off by more than 5 %", alpha, _floats(marked), colour=4)]


def _spectrum_panel(here: dict[str, Any], points: dict[str, Any]) -> Panel:
    found, series = here.get("spectrum"), []
    histogram = points.get("histogram")
    if histogram:
        series.append(Series("simulation", histogram["edges"], histogram["density"], kind="histogram"))
    lines: list[tuple[float, str]] = []
    if found:
        for name, label, colour in (("untrained", "bulk before the step", 4), ("trained", "bulk after it", 0)):
            if found[name]:
                grid, density = _floats(found[name]["grid"]), _floats(found[name]["density"])
                series.append(Series(label, grid, [a * b for a, b in zip(grid, density, strict=True)], colour=colour))
        lines = [(x, f"k = {k}" if k else "") for x, k in zip(found["leading"], found["degrees"], strict=True)]
    return Panel(
        "spectrum of FFᵀ/n", "eigenvalue", "density per log eigenvalue", series, logx=True, verticals=lines,
        xlim=_range(found, lines),
    )  # fmt: skip


def _range(found: dict[str, Any] | None, lines: list[tuple[float, str]]) -> tuple[float, float] | None:
    law = (found or {}).get("trained") or (found or {}).get("untrained")
    if not law:
        return None
    weight = [x * (y or 0) for x, y in zip(law["grid"], law["density"], strict=True)]
    seen = [x for x, w in zip(law["grid"], weight, strict=True) if w > 0.02 * max(weight)]
    return (seen[0] / 1.5, 1.6 * max([seen[-1], *(at for at, _ in lines)])) if seen else None


def _floats(values: list[float | None]) -> list[float]:
    return [float("nan") if v is None else v for v in values]


def _stairs(windows: list[list[float]], values: list[float | None]) -> tuple[list[float], list[float]]:
    """A line with a step at the end of each window."""
    x = [end for window in windows for end in window]
    return x, [v for v in _floats(values) for _ in range(2)]


def write_figure(exponent: float, curves: bytes, here: bytes, points: dict[str, Any], kind: str) -> bytes:
    """The PDF or CSV of what is shown, from the answers the page got."""
    drawn = panels(exponent, json.loads(curves), json.loads(here), points)
    if kind == "csv":
        return to_csv(drawn).encode()
    with tempfile.TemporaryDirectory() as folder:
        save(drawn, Path(folder) / "figure")
        return (Path(folder) / "figure.pdf").read_bytes()
