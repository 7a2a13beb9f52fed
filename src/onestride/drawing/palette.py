"""Colours, dashes and markers by number, for white paper and for a dark page.

The five colours stay apart for readers without green or red cones (CIE distance 35 and more) and in a grey copy
(8 steps of lightness and more); each has a contrast of 3 or more to its paper. Dash and marker differ as well.
"""

from __future__ import annotations

from typing import Any

COLOURS = ("#123a75", "#c8500a", "#439bd3", "#32071a", "#895348")
# seven each: beyond five series a colour comes again with another dash and marker
DASHES: tuple[Any, ...] = (
    "-",
    (0, (6, 2)),
    (0, (4, 1.5, 1, 1.5)),
    (0, (2, 1)),
    (0, (8, 3, 2, 3)),
    (0, (10, 2)),
    (0, (5, 1, 1, 1, 1, 1)),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

INK, LEVEL, SOFT, GUIDE, FILL = "#1c1c1c", "#6b6b6b", "#585858", "#bdbdbd", "#d3d3d3"
# what each of these is on a dark page, whose paper is PAPER
PAPER = "#15181d"
DARK = dict(zip(COLOURS, ("#8ab8e8", "#e8813a", "#b0e2aa", "#f1f727", "#94666d"), strict=True)) | {
    INK: "#e4e4e4",
    LEVEL: "#a0a0a0",
    SOFT: "#b4b4b4",
    GUIDE: "#4d525a",
    FILL: "#3a3f47",
    "#ffffff": PAPER,
}

STYLE: Any = {
    "font.family": ["STIXGeneral", "DejaVu Serif", "DejaVu Sans"],  # the later ones lend glyphs the first lacks
    "mathtext.fontset": "stix",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "legend.handlelength": 2.8,  # the longest dash and its gap
    "lines.linewidth": 1.4,
    "figure.constrained_layout.use": True,
    "pdf.fonttype": 42,
    "svg.hashsalt": "onestride",
    "savefig.dpi": 200,
}
