"""Formulas become MathML while the pages are built: no script, no font and no server is needed to read them."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)
CORRECTIONS = {
    "<mi>&#x0007E;</mi>": "<mo>&#x0223C;</mo>",  # ∼ and ± want the space of a relation and of an operator
    "<mi>&#x000B1;</mi>": "<mo>&#x000B1;</mo>",
    "<mo>&#x022C6;</mo>": "<mi>&#x022C6;</mi>",  # ⋆ is a name here, not a product
    **{  # bars are fences: no space inside
        wrong: f'<mo stretchy="false" lspace="0" rspace="0">{bar}</mo>'
        for bar in ("&#x0007C;", "&#x02016;", "|")
        for wrong in (
            f'<mo stretchy="false">{bar}</mo>',
            f'<mo fence="false" stretchy="false">{bar}</mo>',
            f"<mo>{bar}</mo>",
        )
    },
}
UNKNOWN = re.compile(r"<m[a-z]+[^>]*>(?:\\[A-Za-z]+|&)</m[a-z]+>")  # a command that the converter let through


def to_mathml(node: nodes.Node, display: str) -> str:
    """The formula of a math node."""
    source = node.astext().strip()
    formula = convert(source, display=display)
    for wrong, right in CORRECTIONS.items():
        formula = formula.replace(wrong, right)
    if found := UNKNOWN.search(formula):
        logger.warning("no MathML for %s in the formula %s", found.group(), source, location=node)
    return formula


def visit_inline(writer: Any, node: nodes.Node) -> None:
    """Write a formula in a line of text."""
    writer.body.append(to_mathml(node, "inline"))
    raise nodes.SkipNode


def visit_block(writer: Any, node: nodes.Node) -> None:
    """Write a displayed formula, which scrolls on a narrow screen."""
    writer.body.append(f'<div class="formula">{to_mathml(node, "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer; `html_math_renderer = "mathml"` chooses it."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
