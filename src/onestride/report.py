"""Reports: self-contained HTML pages with the figures, the numbers and their provenance beside them."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from onestride._errors import InputError, require
from onestride.drawing.files import dark_variables, describe, read
from onestride.drawing.words import minus
from onestride.experiments.catalogue import OVERVIEW, PAPER, WHOLE
from onestride.experiments.outcome import Figure, Judgement, Outcome
from onestride.plot import save
from onestride.result import json_text
from onestride.sweeps.task import versions


def require_report() -> None:
    """Raise a sentence unless the libraries of a report are here; call it before the work that is to be reported."""
    require("matplotlib", "jinja2", extra="report", what="the report")


def provenance(seconds: float, **settings: Any) -> dict[str, Any]:
    """What to write beside every number: versions, system, settings, and how long it took."""
    took = {"seconds": round(seconds, 1), "finished": datetime.now(UTC).isoformat(timespec="seconds")}
    return versions() | {"cores": os.cpu_count()} | settings | took


def write_report(
    outcomes: Sequence[Outcome], provenance: dict[str, Any], out: Path, *, explorer: Mapping[str, str] | None = None
) -> Path:
    """Write report.html, figures (PDF, PNG, CSV), claims (CSV, JSON, Markdown) and provenance; return the page.

    `explorer` has the address of each experiment's problem on the page of `onestride explore`.
    """
    require_report()
    overview = next((o for o in outcomes if o.name == OVERVIEW), outcomes[0])
    with _staged(out) as folder:
        drawings = {o.name: _save(o.figure, folder / _stem(o)) for o in outcomes}
        shown = {"outcomes": outcomes, "overview": overview, "drawings": drawings, "numbers": PAPER, "whole": WHOLE}
        shown |= {"explorer": explorer or {}, "stems": {o.name: _stem(o) for o in outcomes}}
        texts = {
            "report.html": _render("report.html.jinja", provenance=provenance, **shown),
            "claims.csv": _claims_csv(outcomes),
            "claims.md": _claims_markdown(outcomes, provenance),
            "claims.json": json_text([claim_dict(o) for o in outcomes]),
            "provenance.json": json_text(provenance),
        }
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    return out / "report.html"


def claim_dict(outcome: Outcome) -> dict[str, Any]:
    """An outcome with the numbers of the claims that it checks."""
    return {"numbers": PAPER[outcome.name]} | outcome.to_dict()


def write_outcome(
    outcome: Outcome, provenance: dict[str, Any], out: Path, *, explorer: Mapping[str, str] | None = None
) -> Path:
    """Write one experiment's page (HTML, Markdown), its figure (PDF, PNG, CSV) and its numbers; return the page."""
    require_report()
    figure = outcome.figure
    with _staged(out) as folder:
        shown = {"outcome": outcome, "drawing": _save(figure, folder / outcome.name), "explorer": explorer or {}}
        page = _render("experiment.html.jinja", provenance=provenance, **shown)
        (folder / f"{outcome.name}.html").write_text(page, encoding="utf-8")
        (folder / f"{outcome.name}.md").write_text(_outcome_markdown(outcome, provenance), encoding="utf-8")
        drawn = {"title": figure.title, "columns": figure.columns, "panels": describe(figure.panels)}
        numbers = outcome.to_dict() | {"provenance": provenance, "figure": drawn}
        (folder / f"{outcome.name}.json").write_text(json_text(numbers), encoding="utf-8")
    return out / f"{outcome.name}.html"


def read_outcome(name: str, folder: Path) -> tuple[Outcome, dict[str, Any]]:
    """What `write_outcome` wrote, with its provenance: words of NAME.json, numbers of NAME.csv, means taken again over the seeds."""
    try:
        told = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        table = (folder / f"{name}.csv").read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(
            f"--from-data needs {error.filename}, which is not there: run `onestride experiment {name} --out {folder}` first"
        ) from None
    if "figure" not in told:
        raise InputError(f"--from-data: {folder / name}.json is of an older version, without the panels of its figure")
    try:
        panels = read(told["figure"]["panels"], table)
    except (KeyError, ValueError) as error:
        raise InputError(f"--from-data: {folder / name}.csv is not the table of this figure: {error}") from None
    figure = Figure(panels, told["caption"], told["figure"]["columns"], told["figure"]["title"])
    judged = Judgement(told["verdict"], told["finding"], told["surprise"], told["rows"])
    return Outcome(name, told["question"], told["claim"], judged, figure), told["provenance"]


def _save(figure: Figure, stem: Path) -> str:
    """Its files, and the drawing for a page."""
    return save(figure.panels, stem, columns=figure.columns, title=figure.title)


def _outcome_markdown(outcome: Outcome, provenance: dict[str, Any]) -> str:
    where = "; ".join(f"{name}: {value}" for name, value in provenance.items())
    parts = [f"# {outcome.name}", outcome.question, f"**Claim.** {outcome.claim}"]
    told = outcome.judgement
    parts += [f"**Verdict: {told.words}.** {told.finding}", f"**What surprised us.** {told.surprise}"]
    parts += [f"![{outcome.name}]({outcome.name}.png)", f"*{outcome.figure.caption}*"]
    date, size = (provenance.get(name) for name in ("finished", "size"))
    parts += (
        [f"Size {size}, finished {date}. The numbers of the figure, seed by seed: [CSV]({outcome.name}.csv)."]
        if date
        else []
    )
    run = f"Run with `onestride experiment {outcome.name}`; drawn again from the CSV with `--from-data`. {where}."
    return minus("\n\n".join([*parts, run])) + "\n"


def _render(template: str, **values: Any) -> str:
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("onestride"), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["typeset"] = _typeset
    environment.filters["number"] = _number
    return environment.get_template(template).render(dark_variables=dark_variables(), **values)


def _number(value: Any) -> str:
    return minus(f"{value:.4g}") if isinstance(value, float) else "" if value is None else str(value)


def _typeset(text: str) -> Any:
    """F_ℓ and n^(−0.2) as subscripts and superscripts, real minus signs; the rest is escaped."""
    from markupsafe import Markup, escape

    plain = str(escape(minus(text)))
    marked = re.sub(
        r"(?<![A-Za-z])([A-Za-zα-ωΑ-Ω]⋆?)_(?:\{([^}]*)\}|([ℓkj0-9]))",
        lambda m: f"{m[1]}<sub>{m[2] or m[3]}</sub>",
        plain,
    )
    return Markup(re.sub(r"\^\(([^)]*)\)|\^(−?[\w.]+)", lambda m: f"<sup>{m[1] or m[2]}</sup>", marked))


@contextmanager
def _staged(out: Path) -> Iterator[Path]:
    """A temporary folder inside `out` whose files are moved into place when all of them are written."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as folder:
        yield Path(folder)
        for path in sorted(Path(folder).iterdir()):
            os.replace(path, out / path.name)


def _stem(outcome: Outcome) -> str:
    return f"claim-{outcome.name}"


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
    return minus("\n".join([*lines, "", "## Provenance", "", where + ".", ""]))
