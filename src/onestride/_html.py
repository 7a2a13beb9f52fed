"""What a notebook shows of a result: a small table, its equation above it, a small picture beside it; text, no library."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np
from numpy.typing import ArrayLike

_INK = ("#0b3c6f", "#d55e00", "#009e73", "#cc79a7", "#7a7a7a")
_WIDTH, _HEIGHT, _MARGIN = 260, 120, 8
_MOST = 12  # rows of a grid


def table(caption: str, lines: Iterable[tuple[str, str]], *, equation: str = "", picture: str = "") -> str:
    """Names and values, one line each; everything but the picture is escaped."""
    cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in lines)
    above = f"<tr><td colspan='2'><em>{escape(equation)}</em></td></tr>" if equation else ""
    below = f"<tr><td colspan='2'>{picture}</td></tr>" if picture else ""
    return f"<table><caption>{escape(caption)}</caption>{above}{cells}{below}</table>"


def grid(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with a heading for each column; of many rows the first, with their number."""
    listed = list(rows)
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(v)}</td>" for v in row) + "</tr>" for row in listed[:_MOST])
    more = f"<tr><td colspan='{len(columns)}'>… {len(listed)} in all</td></tr>" if len(listed) > _MOST else ""
    return f"<table><caption>{escape(caption)}</caption><tr>{head}</tr>{body}{more}</table>"


def curves(x: ArrayLike, lines: Iterable[ArrayLike], *, words: str = "") -> str:
    """Curves over x as a small picture; what is not finite is left out, and nothing is drawn of less than two points."""
    across = np.asarray(x, float)
    heights = [np.asarray(line, float) for line in lines]
    seen = np.concatenate([h[np.isfinite(h)] for h in heights]) if heights else np.empty(0)
    if across.size < 2 or seen.size < 2:
        return ""
    span, rise = float(np.ptp(across)) or 1.0, float(np.ptp(seen)) or 1.0
    place = _MARGIN + (_WIDTH - 2 * _MARGIN) * (across - across.min()) / span
    drawn = ""
    for i, height in enumerate(heights):
        down = _HEIGHT - _MARGIN - (_HEIGHT - 2 * _MARGIN) * (height - seen.min()) / rise
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(place, down, strict=True) if np.isfinite(b))
        drawn += f"<polyline points='{points}' fill='none' stroke='{_INK[i % len(_INK)]}' stroke-width='1.5'/>"
    title = f"<title>{escape(words)}</title>"
    size = f"width='{_WIDTH}' height='{_HEIGHT}' viewBox='0 0 {_WIDTH} {_HEIGHT}'"
    return f"<svg xmlns='http://www.w3.org/2000/svg' role='img' {size}>{title}{drawn}</svg>"
