"""The report of a reproduction: one self-contained HTML page, the figures, the numbers and their provenance."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import tempfile
from pathlib import Path

from onestride.experiments.reproduce import Reproduction
from onestride.plot import save, to_svg


def write_report(reproduction: Reproduction, out: Path) -> Path:
    """Write report.html, figures (PDF, PNG, CSV), claims (CSV, JSON, Markdown) and provenance; return the page.

    Everything is written to a temporary folder first and moved into place file by file.
    """
    from jinja2 import Environment, PackageLoader

    out.mkdir(parents=True, exist_ok=True)
    environment = Environment(loader=PackageLoader("onestride"), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    figures = {"overview": reproduction.overview}
    figures |= {_stem(claim.number, claim.statement): claim.panels for claim in reproduction.claims if claim.panels}
    drawings = {claim.number: to_svg(claim.panels, columns=3) for claim in reproduction.claims if claim.panels}
    page = environment.get_template("report.html.jinja").render(
        reproduction=reproduction, overview=to_svg(reproduction.overview), drawings=drawings
    )
    with tempfile.TemporaryDirectory(dir=out) as folder:
        staged = Path(folder)
        for stem, panels in figures.items():
            save(panels, staged / stem, columns=3)
        (staged / "claims.csv").write_text(_claims_csv(reproduction), encoding="utf-8")
        (staged / "claims.json").write_text(_json([claim.to_dict() for claim in reproduction.claims]), encoding="utf-8")
        (staged / "claims.md").write_text(_claims_markdown(reproduction), encoding="utf-8")
        (staged / "provenance.json").write_text(_json(reproduction.provenance), encoding="utf-8")
        (staged / "report.html").write_text(page, encoding="utf-8")
        for path in sorted(staged.iterdir()):
            os.replace(path, out / path.name)
    return out / "report.html"


def _stem(number: str, statement: str) -> str:
    words = re.findall(r"[a-z]+", statement.lower())[:4]
    return f"claim-{number}-" + "-".join(words)


def _claims_csv(reproduction: Reproduction) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["number", "claim", "predicted", "measured", "verdict", "detail"])
    for c in reproduction.claims:
        writer.writerow([c.number, c.statement, c.predicted, c.measured, c.verdict, c.detail])
    return text.getvalue()


def _claims_markdown(reproduction: Reproduction) -> str:
    lines = ["# The claims, checked", "", "| | claim | predicted | measured | verdict |", "|---|---|---|---|---|"]
    lines += [
        f"| {c.number} | {c.statement} | {c.predicted} | {c.measured} | {c.verdict} |" for c in reproduction.claims
    ]
    for c in reproduction.claims:
        lines += ["", f"## {c.number}. {c.statement}", "", f"*{c.verdict[0].upper()}{c.verdict[1:]}.* {c.detail}"]
        lines += ["", c.caption] if c.caption else []
    where = "; ".join(f"{name}: {value}" for name, value in reproduction.provenance.items())
    return "\n".join([*lines, "", "## Provenance", "", where + ".", ""])


def _json(data: object) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False)
