"""Reports: self-contained HTML pages with the figures, the numbers and their provenance beside them."""

from __future__ import annotations

import csv
import io
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onestride._errors import require
from onestride.experiments.catalogue import PAPER
from onestride.experiments.outcome import Outcome
from onestride.experiments.reproduce import OVERVIEW
from onestride.plot import save, to_svg
from onestride.result import json_text


def require_report() -> None:
    """Raise a sentence unless the libraries of a report are here; call it before the work that is to be reported."""
    require("matplotlib", "jinja2", extra="report", what="the report")


def write_report(outcomes: Sequence[Outcome], provenance: dict[str, Any], out: Path) -> Path:
    """Write report.html, figures (PDF, PNG, CSV), claims (CSV, JSON, Markdown) and provenance; return the page."""
    require_report()
    drawings = {o.name: to_svg(o.figure.panels, columns=o.figure.columns) for o in outcomes}
    overview = next(o for o in outcomes if o.name == OVERVIEW)
    shown = {"outcomes": outcomes, "overview": overview, "drawings": drawings, "numbers": PAPER}
    page = _render("report.html.jinja", provenance=provenance, **shown)
    texts = {
        "report.html": page,
        "claims.csv": _claims_csv(outcomes),
        "claims.md": _claims_markdown(outcomes, provenance),
    }
    texts["claims.json"] = json_text([claim_dict(o) for o in outcomes])
    texts["provenance.json"] = json_text(provenance)
    with _staged(out) as folder:
        for o in outcomes:
            save(o.figure.panels, folder / _stem(o), columns=o.figure.columns)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    return out / "report.html"


def claim_dict(outcome: Outcome) -> dict[str, Any]:
    """An outcome with the numbers of the claims that it checks."""
    return {"numbers": PAPER[outcome.name]} | outcome.to_dict()


def write_outcome(outcome: Outcome, provenance: dict[str, Any], out: Path) -> Path:
    """Write one experiment's page (HTML, Markdown), its figure (PDF, PNG, CSV) and its numbers; return the page."""
    require_report()
    figure = outcome.figure
    drawing = to_svg(figure.panels, columns=figure.columns)
    page = _render("experiment.html.jinja", outcome=outcome, drawing=drawing, provenance=provenance)
    with _staged(out) as folder:
        save(figure.panels, folder / outcome.name, columns=figure.columns)
        (folder / f"{outcome.name}.html").write_text(page, encoding="utf-8")
        (folder / f"{outcome.name}.md").write_text(_outcome_markdown(outcome, provenance), encoding="utf-8")
        numbers = outcome.to_dict() | {"provenance": provenance}
        (folder / f"{outcome.name}.json").write_text(json_text(numbers), encoding="utf-8")
    return out / f"{outcome.name}.html"


def _outcome_markdown(outcome: Outcome, provenance: dict[str, Any]) -> str:
    where = "; ".join(f"{name}: {value}" for name, value in provenance.items())
    parts = [f"# {outcome.name}", outcome.question, f"**Claim.** {outcome.claim}"]
    told = outcome.judgement
    parts += [f"**Verdict: {told.words}.** {told.finding}", f"**What surprised us.** {told.surprise}"]
    parts += [f"![{outcome.name}]({outcome.name}.png)", f"*{outcome.figure.caption}*"]
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


def _stem(outcome: Outcome) -> str:
    return "overview" if outcome.name == OVERVIEW else f"claim-{outcome.name}"


def _claims_csv(outcomes: Sequence[Outcome]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["numbers", "experiment", "question", "claim", "verdict", "finding"])
    for o in outcomes:
        writer.writerow([PAPER[o.name], o.name, o.question, o.claim, o.judgement.words, o.judgement.finding])
    return text.getvalue()


def _claims_markdown(outcomes: Sequence[Outcome], provenance: dict[str, Any]) -> str:
    lines = ["# The claims, checked", "", "| | question | claim | verdict |", "|---|---|---|---|"]
    cells = ((PAPER[o.name], o.question, o.claim, o.judgement.words) for o in outcomes)
    lines += [f"| {' | '.join(text.replace('|', chr(92) + '|') for text in row)} |" for row in cells]
    for o in outcomes:
        told = o.judgement
        lines += [
            "",
            f"## {PAPER[o.name]}. {o.question}",
            "",
            f"*{told.words[0].upper()}{told.words[1:]}.* {told.finding}",
        ]
        lines += ["", f"![{o.name}]({_stem(o)}.png)", "", f"*{o.figure.caption}*"]
    where = "; ".join(f"{name}: {value}" for name, value in provenance.items())
    return "\n".join([*lines, "", "## Provenance", "", where + ".", ""])
