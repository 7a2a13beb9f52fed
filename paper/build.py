"""The article from stored data: figures from paper/data, then paper/paper.pdf by Typst.

    make paper        or: pip install 'onestride[paper]' && python paper/build.py

Nothing is computed here; `paper/compute.py` makes the data.
"""

from __future__ import annotations

import csv
import hashlib
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from onestride.drawing import Panel, Series, draw

HERE = Path(__file__).parent
TITLES = {
    "errors": "n = 500",
    "stairs": "n from 10³ to 10¹⁵",
    "bulk": "bulk, c = 2, α = 0.35",
    "outliers": "outliers",
}
AXES = {
    "errors": ("exponent α", "test error"),
    "stairs": ("exponent α", "test error"),
    "bulk": ("eigenvalue of FFᵀ/n", "density"),
    "outliers": ("spike", "eigenvalue"),
}
LOOKS: dict[str, dict[str, Any]] = {"bulk": {"ylim": (0.0, 1.0)}, "outliers": {"xticks": (1, 2), "xlim": (0.5, 2.5)}}
COLOURS = {"without the step": 4, "n → ∞": 4}


def read(name: str) -> Panel:
    """A stored figure as a panel."""
    with (HERE / "data" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    series = []
    for k, label in enumerate(dict.fromkeys(row["series"] for row in rows)):
        mine = [row for row in rows if row["series"] == label]
        x, y, error = (np.array([float(row[c] or "nan") for row in mine]) for c in ("x", "y", "error"))
        kind: Any = mine[0]["kind"]
        if kind == "histogram":
            y = y[:-1]
        colour = COLOURS.get(label, k if name == "stairs" else 0)
        series.append(Series(label, x, y, error if np.isfinite(error).any() else None, kind, colour))
    return Panel(TITLES[name], *AXES[name], series, **LOOKS.get(name, {}))


def figures() -> None:
    """Both figures as SVG, with plain colours: Typst reads no variables of a page."""
    import matplotlib

    (HERE / "figures").mkdir(exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "onestride"}):
        for name, parts in (("staircase", ("errors", "stairs")), ("spectrum", ("bulk", "outliers"))):
            draw([read(part) for part in parts]).savefig(HERE / "figures" / f"{name}.svg", metadata={"Date": None})


def made_from() -> str:
    """A digest of text, printed numbers, references and figures, which the PDF carries as its keyword: an old one is noticed."""
    numbers = tomllib.loads((HERE / "numbers.toml").read_text(encoding="utf-8"))
    digest = hashlib.sha256(repr({name: entry["value"] for name, entry in numbers.items()}).encode())
    for path in [HERE / "paper.typ", HERE / "references.yml", *sorted((HERE / "figures").glob("*.svg"))]:
        digest.update(path.read_text(encoding="utf-8").encode())
    return digest.hexdigest()[:32]


def compiled(target: Path) -> Path:
    """The article as PDF."""
    import typst

    typst.compile(str(HERE / "paper.typ"), output=str(target), sys_inputs={"made_from": made_from()})
    return target


def main() -> None:
    """Draw and compile."""
    figures()
    print(compiled(HERE / "paper.pdf"))


if __name__ == "__main__":
    main()
