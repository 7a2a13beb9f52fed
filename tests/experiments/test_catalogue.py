"""The catalogue and the pages of the experiments."""

import ast
import inspect
import io
import json
import re
import shutil
from contextlib import redirect_stdout
from importlib import import_module

import pytest

import onestride as one
from onestride.cli import main
from onestride.experiments.catalogue import QUESTIONS, run_experiment
from onestride.experiments.outcome import Settings
from places import DOCS

PAGES = DOCS / "experiments"


def test_there_are_so_many_experiments():
    assert len(QUESTIONS) == 25


@pytest.mark.parametrize("name", QUESTIONS)
def test_documentation_has_a_page_and_a_figure(name):
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    for part in ("**Claim.**", "**Verdict:", "**What surprised us.**", f"]({name}.png)"):
        assert part in text
    assert (PAGES / f"{name}.png").stat().st_size > 10_000
    assert f"({name}.md)" in (PAGES / "index.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder that one command writes, and what it says."""
    folder, said = tmp_path_factory.mktemp("experiment"), io.StringIO()
    with pytest.raises(SystemExit) as stop, redirect_stdout(said):
        main(["experiment", "rank-one-gradient", "--size", "small", "--seeds", "2", "--out", str(folder)])
    assert stop.value.code == 0
    return folder, said.getvalue()


def test_one_command_writes_figure_page_and_numbers(written):
    folder, said = written
    assert "rank-one-gradient:" in said
    suffixes = {path.suffix for path in folder.iterdir()}
    assert suffixes == {".pdf", ".png", ".csv", ".html", ".md", ".json"}
    json.loads((folder / "rank-one-gradient.json").read_text(encoding="utf-8"))
    page = (folder / "rank-one-gradient.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "src=" not in page


@pytest.mark.parametrize(
    ("bad", "words"),
    [({"size": "huge"}, "size must be"), ({"seeds": 1}, "seeds must be"), ({"device": "abacus"}, "device must be")],
)
def test_bad_settings_are_refused_in_a_sentence(bad, words):
    with pytest.raises(one.InputError, match=words):
        Settings(**bad)


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_simulation_of_an_experiment_is_told_the_device(name):
    """Where it runs is passed by name, `device=` or `backend=`, to all that can run elsewhere."""
    module = import_module(f"onestride.experiments.{name.replace('-', '_')}")
    here = {name for name, f in vars(module).items() if inspect.isfunction(f) and f.__name__ != "choose"}
    places = {name: {"device", "backend"} & set(inspect.signature(getattr(module, name)).parameters) for name in here}
    for call in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(call, ast.Call):
            called = call.args[0] if getattr(call.func, "id", "") == "partial" else call.func
            place = places.get(getattr(called, "id", ""))
            assert not place or {keyword.arg for keyword in call.keywords} & {*place, None}, ast.unparse(call)


def test_an_experiment_on_another_device_finds_the_same():
    here, there = (run_experiment("gains", Settings("small", 2, device)) for device in ("cpu", "strict"))
    assert here.judgement.words == there.judgement.words
    for mine, yours in zip(here.judgement.rows, there.judgement.rows, strict=True):
        assert yours["measured"] == pytest.approx(mine["measured"], rel=1e-8)


def test_unknown_experiment_is_refused_with_a_hint(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["experiment", "stair-case"])
    assert stop.value.code == 2
    assert "did you mean 'staircase'" in capsys.readouterr().err


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_table_of_verdicts_is_that_of_the_pages(name):
    (verdict,) = re.findall(r"\*\*Verdict: (.*?)\.\*\*", (PAGES / f"{name}.md").read_text(encoding="utf-8"))
    assert re.search(
        rf"^\| \[{name}\].*\| {re.escape(verdict)} \|$", (PAGES / "index.md").read_text(encoding="utf-8"), re.MULTILINE
    )


def test_figure_is_drawn_again_from_its_numbers_and_only_from_them(written, tmp_path, capsys):
    folder = ["--out", str(tmp_path)]
    with pytest.raises(SystemExit) as stop:
        main(["experiment", "rank-one-gradient", "--from-data", *folder])
    assert stop.value.code == 2
    assert "run `onestride experiment rank-one-gradient" in " ".join(capsys.readouterr().err.split())
    shutil.copytree(written[0], tmp_path, dirs_exist_ok=True)
    table, page = tmp_path / "rank-one-gradient.csv", tmp_path / "rank-one-gradient.html"

    def texts_written():  # the drawing's coordinates may differ in their last digit
        texts = {
            p.suffix: p.read_text(encoding="utf-8") for p in tmp_path.iterdir() if p.suffix not in (".png", ".pdf")
        }
        return texts | {".html": re.sub(r"<svg.*</svg>", "", texts[".html"], flags=re.DOTALL)}

    before = texts_written()
    page.write_text("", encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["experiment", "rank-one-gradient", "--from-data", *folder])
    assert texts_written() == before
    table.write_text("panel,series\n", encoding="utf-8")
    with pytest.raises(SystemExit) as stop:
        main(["experiment", "rank-one-gradient", "--from-data", *folder])
    assert stop.value.code == 2
    assert "is not the table of this figure" in " ".join(capsys.readouterr().err.split())
