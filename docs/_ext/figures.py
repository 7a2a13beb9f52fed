"""Figures of gallery scripts: `onestride.plot.draw` returns a figure that pyplot does not know, so it is looked up by name."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from sphinx.errors import ExtensionError
from sphinx_gallery.scrapers import figure_rst


def scrape(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save every figure that this block of the script has made."""
    paths = []
    for figure in block_vars["example_globals"].values():
        if isinstance(figure, Figure) and not hasattr(figure, "_onestride_shown"):
            figure._onestride_shown = True  # pyright: ignore
            if not all(axes.get_ylabel() and axes.get_title() for axes in figure.axes):
                raise ExtensionError("every panel of a gallery's figure has a title and a label of its axis")
            path = next(block_vars["image_path_iterator"])
            figure.savefig(path, dpi=160)
            paths.append(path)
    return figure_rst(paths, gallery_conf["src_dir"])
