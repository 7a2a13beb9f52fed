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
    spec = importlib.util.spec_from_file_location("build", PAPER / "build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    for name in build.TITLES:
        panel = build.read(name)
        assert len(panel.series) >= 2
    with (PAPER / "data" / "errors.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    theory = {round(float(row["x"]), 6): float(row["y"]) for row in rows if row["series"] == "theory"}
    for row in rows:
        if row["series"] == "simulation":
            gap = abs(theory[round(float(row["x"]), 6)] - float(row["y"]))
            assert gap < 4 * float(row["error"]), "theory and simulation of the figure agree, 16 seeds"


def test_the_pdf_is_there():
    assert (PAPER / "paper.pdf").read_bytes()[:5] == b"%PDF-"


@pytest.mark.long
def test_the_article_compiles(tmp_path):
    typst = pytest.importorskip("typst")
    typst.compile(str(PAPER / "paper.typ"), output=str(tmp_path / "paper.pdf"))
    assert (tmp_path / "paper.pdf").stat().st_size > 50_000
