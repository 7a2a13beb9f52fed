"""The article: every measured number stands in its source, none else is in the text, and the figures are made from stored data."""

import csv
import importlib.util
import re
import tomllib

import pytest

from places import ROOT

PAPER = ROOT / "paper"
NUMBERS = tomllib.loads((PAPER / "numbers.toml").read_text(encoding="utf-8"))
TEXT = (PAPER / "paper.typ").read_text(encoding="utf-8")


SPEC = importlib.util.spec_from_file_location("build", PAPER / "build.py")
BUILD = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(BUILD)


def digits(text: str) -> str:
    return re.sub(r"[\s,%±]", "", text).rstrip("0")


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_of_the_article_stands_in_its_source(name):
    entry = NUMBERS[name]
    assert entry["words"] in (ROOT / entry["source"]).read_text(encoding="utf-8")
    for part in entry["value"].split(" ± "):
        assert digits(part) in re.sub(r"[\s,%]", "", entry["words"]), entry


def test_every_number_is_used():
    assert set(re.findall(r'#m\("(\w+)"\)', TEXT)) == set(NUMBERS)


def test_no_measured_number_stands_in_the_text_by_itself():
    """Decimals and percentages outside formulas come from numbers.toml; formulas hold sizes and settings."""
    body = TEXT[TEXT.index("*Summary.*") : TEXT.index("#bibliography")]
    body = re.sub(r"\$[^$]*\$", "", body)
    body = re.sub(r'#m\("\w+"\)|image\([^)]*\)|stroke: [\d.]+pt', "", body)
    assert re.findall(r"\d+\.\d+|\d+ ?%", body) == []


def test_every_reference_is_listed_and_cited():
    listed = set(re.findall(r"^(\w+):$", (PAPER / "references.yml").read_text(encoding="utf-8"), re.MULTILINE))
    cited = set(re.findall(r"@(\w+\d{4})", TEXT))
    assert cited == listed


def test_figures_come_from_stored_data():
    for name in BUILD.TITLES:
        panel = BUILD.read(name)
        assert len(panel.series) >= 2
    with (PAPER / "data" / "errors.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    theory = {round(float(row["x"]), 6): float(row["y"]) for row in rows if row["series"] == "theory"}
    for row in rows:
        if row["series"] == "simulation":
            gap = abs(theory[round(float(row["x"]), 6)] - float(row["y"]))
            assert gap < 4 * float(row["error"]), "theory and simulation of the figure agree, 16 seeds"


def test_the_pdf_is_made_from_this_text_these_numbers_and_these_figures():
    pdf = (PAPER / "paper.pdf").read_bytes()
    assert pdf[:5] == b"%PDF-"
    assert BUILD.made_from().encode() in pdf, "the PDF is older than its text, numbers or figures: make paper"


def test_the_article_compiles(tmp_path):
    pytest.importorskip("typst")
    pdf = BUILD.compiled(tmp_path / "paper.pdf").read_bytes()
    assert len(pdf) > 50_000
    assert BUILD.made_from().encode() in pdf


def test_the_article_counts_the_experiments():
    from onestride.experiments.catalogue import QUESTIONS

    assert len(QUESTIONS) == 25
    assert "Twenty-five experiments" in TEXT
