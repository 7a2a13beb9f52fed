"""What every figure of an experiment must be."""

from __future__ import annotations

import json

from onestride.drawing.files import describe, read
from onestride.drawing.words import typeset
from onestride.experiments.outcome import Figure
from onestride.plot import to_csv
from onestride.result import json_text

SEVERAL = ("theory", "simulation")  # names that may have several colours, told by other names


def assert_reads_well(figure: Figure) -> None:
    """An answer above it, one look for one name, no panel twice, formulas that can be set, seeds behind the points."""
    assert any(letter.isdigit() for letter in figure.title)
    assert "nan" not in figure.title
    titles = [(panel.title, panel.ylabel) for panel in figure.panels]
    assert len(set(titles)) == len(titles)
    looks: dict[tuple[str, int], set[str]] = {}
    for panel in figure.panels:
        for s in panel.series:
            if s.label and s.label not in SEVERAL:
                looks.setdefault((s.kind, s.colour % 35), set()).add(s.label)
    assert all(len(names) == 1 for names in looks.values()), looks
    words = [w for p in figure.panels for w in (p.title, p.xlabel, p.ylabel, *(s.label for s in p.series))]
    for word in [figure.title, *words]:
        assert not {"^", "_"} & set(typeset(word).split("$")[0]), word
    table = to_csv(figure.panels)
    assert to_csv(read(json.loads(json_text(describe(figure.panels))), table)) == table
    series = [s for panel in figure.panels for s in panel.series]
    assert any(s.seeds is not None for s in series) or all(s.error is None for s in series)
