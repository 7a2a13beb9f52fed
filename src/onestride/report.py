"""Reports: self-contained HTML pages with the figures, the numbers and their provenance beside them."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onestride._errors import require
from onestride.experiments.outcome import Outcome
from onestride.experiments.reproduce import Reproduction
from onestride.plot import save, to_svg


def require_report() -> None:
    """Raise a sentence unless the libraries of a report are here; call it before the work that is to be reported."""
    require("matplotlib", "jinja2", extra="report", what="the report")


def write_report(reproduction: Reproduction, out: Path) -> Path:
    """Write report.html, figures (PDF, PNG, CSV), claims (CSV, JSON, Markdown) and provenance; return the page."""
    require_report()
    figures = {"overview": reproduction.overview}
    figures |= {_stem(claim.number, claim.statement): claim.panels for claim in reproduction.claims if claim.panels}
    drawings = {claim.number: to_svg(claim.panels, columns=3) for claim in reproduction.claims if claim.panels}
    page = _render(
        "report.html.jinja", reproduction=reproduction, overview=to_svg(reproduction.overview), drawings=drawings
    )
    with _staged(out) as folder:
        for stem, panels in figures.items():
            save(panels, folder / stem, columns=3)
        texts = {
            "claims.csv": _claims_csv(reproduction),
            "claims.md": _claims_markdown(reproduction),
            "report.html": page,
        }
        texts["claims.json"] = _json([claim.to_dict() for claim in reproduction.claims])
        texts["provenance.json"] = _json(reproduction.provenance)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    return out / "report.html"


def write_outcome(outcome: Outcome, provenance: dict[str, Any], out: Path) -> Path:
    """Write one experiment's page (HTML, Markdown), its figure (PDF, PNG, CSV) and its numbers; return the page."""
    require_report()
    drawing = to_svg(outcome.panels, columns=outcome.columns)
    page = _render("experiment.html.jinja", outcome=outcome, drawing=drawing, provenance=provenance)
    with _staged(out) as folder:
        save(outcome.panels, folder / outcome.name, columns=outcome.columns)
        (folder / f"{outcome.name}.html").write_text(page, encoding="utf-8")
        (folder / f"{outcome.name}.md").write_text(_outcome_markdown(outcome, provenance), encoding="utf-8")
        numbers = outcome.to_dict() | {"provenance": provenance}
        (folder / f"{outcome.name}.json").write_text(_json(numbers), encoding="utf-8")
    return out / f"{outcome.name}.html"


def _outcome_markdown(outcome: Outcome, provenance: dict[str, Any]) -> str:
    where = "; ".join(f"{name}: {value}" for name, value in provenance.items())
    parts = [f"# {outcome.name}", outcome.question, f"**Claim.** {outcome.claim}"]
    parts += [f"**Verdict: {outcome.verdict}.** {outcome.finding}", f"**What surprised us.** {outcome.surprise}"]
    parts += [f"![{outcome.name}]({outcome.name}.png)", f"*{outcome.caption}*"]
    return "\n\n".join([*parts, f"Run with `onestride experiment {outcome.name}`. {where}."]) + "\n"


def _render(template: str, **values: Any) -> str:
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("onestride"), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["typeset"] = _typeset
    environment.filters["number"] = lambda x: f"{x:.4g}" if isinstance(x, float) else "" if x is None else str(x)
    return environment.get_template(template).render(**values)


def _typeset(text: str) -> Any:
    """F_ℓ and n^(−0.2) as subscripts and superscripts; the rest is escaped."""
    from markupsafe import Markup, escape

    marked = re.sub(r"(?<![A-Za-z])([A-Za-zα-ωΑ-Ω])_([ℓkj0-9])", r"\1<sub>\2</sub>", str(escape(text)))
    return Markup(re.sub(r"\^\(([^)]*)\)|\^(-?[\w.]+)", lambda m: f"<sup>{m[1] or m[2]}</sup>", marked))


@contextmanager
def _staged(out: Path) -> Iterator[Path]:
    """A temporary folder inside `out` whose files are moved into place when all of them are written."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as folder:
        yield Path(folder)
        for path in sorted(Path(folder).iterdir()):
            os.replace(path, out / path.name)


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
        lines += (
            ["", f"![Claim {c.number}]({_stem(c.number, c.statement)}.png)", "", f"*{c.caption}*"] if c.panels else []
        )
    where = "; ".join(f"{name}: {value}" for name, value in reproduction.provenance.items())
    return "\n".join([*lines, "", "## Provenance", "", where + ".", ""])


def _json(data: object) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False)
