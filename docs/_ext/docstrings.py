"""Docstrings are written for people who read the source; this makes them safe for reStructuredText.

Bars, stars and underscores of formulas are escaped, formulas and tables set apart keep their lines, and public names in
backticks become links; signatures of models are shortened.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel
from sphinx.application import Sphinx

import onestride

CODE = re.compile(r"(``.+?``|`[^`]+`)")
SPECIAL = re.compile(r"([|*\\]|_(?=[^\w]|$))")
ALIGNED = re.compile(r"^\s*\||\S {3,}\S")  # a row of a table


def plain(line: str) -> str:
    """Escape what reStructuredText would read as markup; link public names."""
    parts = CODE.split(line)
    for i, part in enumerate(parts):
        if i % 2 == 0:
            parts[i] = SPECIAL.sub(r"\\\1", part)
        elif part.strip("`") in onestride.__all__:
            parts[i] = f":py:obj:`~onestride.{part.strip('`')}`"
    return "".join(parts)


def paragraphs(lines: list[str]) -> list[list[str]]:
    """Runs of lines between blank ones."""
    found: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [p for p in found if p]


def tidy(lines: list[str]) -> list[str]:
    """The docstring as reStructuredText: indented paragraphs and tables as literal blocks, the others as words."""
    result: list[str] = []
    literal = False
    for p in paragraphs(lines):
        indented = all(line.startswith(" ") for line in p)
        aligned = sum(bool(ALIGNED.search(line)) for line in p) >= min(2, len(p))
        if p[0].startswith(">>>"):
            result += [*p, ""]
            literal = False
        elif indented or aligned:
            result += [] if literal else ["::", ""]
            result += [*(line if indented else "    " + line for line in p), ""]
            literal = True
        else:
            result += [*map(plain, p), ""]
            literal = False
    return result


def process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Rewrite a docstring in place, before napoleon reads its sections."""
    lines[:] = tidy(lines)


def signature(app: Sphinx, what: str, name: str, obj: Any, options: Any, given: str, returned: str) -> Any:
    """Fields of a model with their defaults, without the validators that pydantic writes into annotations."""
    if not (isinstance(obj, type) and issubclass(obj, BaseModel)):
        return None
    fields = [k if f.is_required() else f"{k}={f.default!r}" for k, f in obj.model_fields.items()]
    return f"(*, {', '.join(fields)})", None


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the hook."""
    app.connect("autodoc-process-docstring", process, priority=400)
    app.connect("autodoc-process-signature", signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
