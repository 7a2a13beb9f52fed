"""The documentation keeps its promises: snippets print what they say, links lead somewhere; `make docs` builds the pages."""

import contextlib
import importlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

import onestride
from onestride import functions, inputs
from onestride.experiments.catalogue import QUESTIONS
from onestride.theory import registry
from onestride.theory.profile import accuracy
from places import CLONE, DOCS, ROOT, TESTS
from snippets import called, code_blocks

PAGES = sorted(DOCS.glob("*.md")) + sorted(DOCS.glob("experiments/*.md"))
SCRIPTS = sorted(DOCS.glob("gallery/plot_*.py"))
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
ELSEWHERE = {
    "sweeps.md": "docs/test_sweeps.py",
    "estimator.md": "estimator/test_estimator.py",
}  # pages with tests of their own


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def snippets(page: str) -> list[tuple[str, list[str]]]:
    """Python blocks with the lines they should print: comments after print(…), then a text block that follows."""
    found: list[tuple[str, list[str]]] = []
    for language, body in FENCE.findall(page):
        if language == "python":
            found.append((body, re.findall(r"^print\(.*\)\s+# (.*)$", body, re.MULTILINE)))
        elif language == "text" and found:
            found[-1][1].extend(body.splitlines())
    return found


def printed(code: str, names: dict[str, object]) -> list[str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "snippet", "exec"), names)
    return out.getvalue().splitlines()


@pytest.fixture(autouse=True)
def _registry(monkeypatch):
    """Functions, input laws and theories that a snippet registers are forgotten after it."""
    monkeypatch.setattr(functions, "_REGISTRY", dict(functions._REGISTRY))
    monkeypatch.setattr(inputs, "_REGISTRY", dict(inputs._REGISTRY))
    importlib.import_module("onestride.theory.predict")  # fills the registry
    monkeypatch.setattr(registry, "_THEORIES", dict(registry._THEORIES))
    yield
    functions.resolve.cache_clear()


WITH_CODE = [p for p in PAGES if p.name not in ELSEWHERE and snippets(text_of(p))]
WITH_CODE = [ROOT / "README.md", *WITH_CODE]


def test_pages_with_tests_of_their_own_have_them():
    for page, test in ELSEWHERE.items():
        if (DOCS / page).exists():
            assert page in text_of(TESTS / test)


@pytest.mark.usefixtures("recorded_seeds")
@pytest.mark.parametrize("path", WITH_CODE, ids=lambda p: p.stem)
def test_snippets_print_what_the_page_says(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for code, expected in snippets(text_of(path)):
        assert printed(code, names) == expected


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.stem)
def test_commands_shown_exist_with_their_options(path):
    for block in code_blocks(text_of(path), "sh"):
        for line in re.findall(r"^onestride (.*?)(?:\s+#.*)?$", block, re.MULTILINE):
            known = {name for argument in called(line).assemble_argument_collection() for name in argument.names}
            assert set(re.findall(r"--[\w-]+", line)) <= known | {"--help"}


def toctree_entries(page: str) -> list[str]:
    blocks = re.findall(r"^```{toctree}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    entries = [line for block in blocks for line in block.splitlines() if line and not line.startswith(":")]
    return [re.sub(r".*<(.*)>$", r"\1", entry) for entry in entries]


def test_every_page_is_in_a_table_of_contents():
    listed = [entry for path in PAGES for entry in toctree_entries(text_of(path))]
    for path in PAGES:
        name = path.relative_to(DOCS).with_suffix("").as_posix()
        assert name == "index" or any(Path(name).match(entry) for entry in listed), name


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.stem)
def test_rows_of_a_table_have_as_many_cells_as_its_head(path):
    """A bar inside a formula would start a new cell."""
    for table in re.findall(r"(?:^\|.*\n)+", text_of(path), re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1, table.splitlines()[0]


def test_every_experiment_has_a_picture_and_a_page():
    page = text_of(DOCS / "experiments.md")
    for name in QUESTIONS:
        assert f"experiments/{name}.png" in page
        assert f"experiments/{name}" in toctree_entries(page)


def resolve(target: str) -> object:
    """The object that a dotted name means."""
    parts = target.split(".")
    for i in range(len(parts), 0, -1):
        try:
            thing: object = importlib.import_module(".".join(parts[:i]))
        except ModuleNotFoundError:
            continue
        for part in parts[i:]:
            thing = getattr(thing, part)
        return thing
    raise ModuleNotFoundError(target)


DERIVATIONS = ("theory.md", "every-size.md")


@pytest.mark.parametrize("page", DERIVATIONS)
def test_every_formula_names_a_function_that_exists(page):
    targets = re.findall(r"{py:\w+}`[^`]*?~?(onestride[\w.]+)>?`", text_of(DOCS / page))
    assert len(targets) > 20
    for target in targets:
        resolve(target)


@pytest.mark.parametrize("page", DERIVATIONS)
def test_tests_named_in_the_theory_exist(page):
    tests = "".join(text_of(p) for p in TESTS.rglob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", text_of(DOCS / page))
    assert len(named) > 10
    for name in named:
        assert f"def {name}(" in tests, name


def test_what_the_theory_quotes_is_in_the_pages_it_names():
    page = text_of(DOCS / "theory.md")
    rows = re.findall(r"^\|.*\]\((.*?\.md)\) \| “(.*?)”", page, re.MULTILINE)
    assert len(rows) > 10
    for source, words in rows:
        assert words in text_of(DOCS / source)


NUMBERS = {  # of experiments, by the page that repeats them
    "expect.md": {
        "finite-size": ("+0.1% ± 0.4%", "+3.9% ± 0.5%", "+19% ± 3%"),
        "gains": ("0.336", "Λ₂ = 0.411"),
        "spike-count": ("α = 0.36 for n = 200", "0.275 for n = 10⁹"),
    },
    "theory.md": {"rank-one-gradient": ("0.319 ± 0.007", "0.102 ± 0.007")},
}


@pytest.mark.parametrize(("page", "name"), [(page, name) for page, names in NUMBERS.items() for name in names])
def test_numbers_of_experiments_are_those_of_their_pages(page, name):
    for number in NUMBERS[page][name]:
        assert number in text_of(DOCS / page), number
        assert number in text_of(DOCS / "experiments" / f"{name}.md"), number


def counts_of(path: Path) -> list[tuple[str, str]]:
    """Numbers simulated and the share of them within, by n/d and c."""
    return re.findall(r"^\| ([\d,]+) with n/d .*?\| ([\d.]+ %) \|", text_of(path), re.MULTILINE)


def test_counts_of_accuracy_are_the_same_everywhere():
    """README, what to expect, and the sentence that predictions carry."""
    told = [(f"{count:,}", within) for count, within in accuracy._MEASURED.values()]
    assert counts_of(ROOT / "README.md") == counts_of(DOCS / "expect.md") == told


def test_reference_names_what_is_exported():
    page = text_of(DOCS / "api.md")
    for name in onestride.__all__:
        assert name == "__version__" or re.search(rf":: onestride\.{name}\b", page), name
    assert set(re.findall(r":: onestride\.(\w+)$", page, re.MULTILINE)) <= set(onestride.__all__)


@pytest.mark.slow
@pytest.mark.skipif(not CLONE, reason="an sdist has no pictures")
def test_everything_builds_without_a_warning(tmp_path):
    """What `make docs` does: it runs the scripts of the gallery, and checks their figures, and that no page needs a network."""
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(DOCS), str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    for script in SCRIPTS:
        assert "sphx_glr" in text_of(tmp_path / "auto_gallery" / f"{script.stem}.html")
