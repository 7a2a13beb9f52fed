"""The pages can be read without a network: a build that loads anything from elsewhere, or searches nothing, has failed."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import SphinxError

# what a page may not load: scripts, styles, pictures and fonts from elsewhere (links are fine)
OUTSIDE = re.compile(
    r"<(?:script|img|iframe|source)[^>]*?src=\"(?:https?:)?//|<link[^>]*?href=\"(?:https?:)?//|@import|url\([\"']?(?:https?:)?//"
)


def _check(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None or app.builder.name != "html":
        return
    html = Path(app.outdir)
    for path in [*html.glob("**/*.html"), *html.glob("**/*.css")]:
        if found := OUTSIDE.search(path.read_text(encoding="utf-8")):
            raise SphinxError(f"{path.name} needs a network: {found.group()}")
    searched = (html / "searchindex.js").read_text(encoding="utf-8")
    if not all(f'"{stem}"' in searched for stem in ("staircas", "hermit", "leav")):
        raise SphinxError("the search does not find staircase, Hermite and leave")
    theory = (html / "theory.html").read_text(encoding="utf-8")
    if theory.count("<math") <= 100 or "\\frac" in theory:
        raise SphinxError("formulas of theory.html are not MathML")


def setup(app: Sphinx) -> dict[str, bool]:
    """Run the check after every build."""
    app.connect("build-finished", _check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
