"""The repository keeps its promises: commands exist, files are named truly; test_pages runs the example of the README."""

import contextlib
import re
import tomllib
from fnmatch import fnmatch

import pytest

import onestride
from onestride.cli import app
from onestride.cli.options import ProblemOptions
from places import CLONE, DOCS, ROOT
from snippets import called, code_blocks, commands

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_command_without_options_takes_the_problem_of_the_readme():
    _, code = code_blocks(README, "python")
    names: dict = {}
    exec(compile(code[: code.index("p = ")], "README.md", "exec"), names)
    (sizes,) = re.findall(r"the problem above at n = ([\d,]+), d = ([\d,]+), N = ([\d,]+)", README)
    n, d, N = (int(size.replace(",", "")) for size in sizes)
    assert ProblemOptions().build() == names["problem"].replace(n=n, d=d, N=N)


def test_readme_one_line_activation_works():
    (line,) = re.findall(r"`(one\.register\(.*?\))`", README)
    exec(f"import onestride as one\n{line}")


def commands_in(text: str) -> set[str]:
    return {m for block in code_blocks(text, "sh") for m in re.findall(r"^onestride (\w+)", block, re.MULTILINE)}


def test_commands_in_the_readme_exist():
    assert commands_in(README)
    assert commands_in(README) <= set(app)


def test_options_in_the_readme_exist():
    for block in code_blocks(README, "sh"):
        for line in re.findall(r"^onestride (.*?)(?:\s+#.*)?$", block, re.MULTILINE):
            command = called(line)
            names = {name for argument in command.assemble_argument_collection() for name in argument.names}
            assert set(re.findall(r"--[\w-]+", line)) <= names | {"--help"}


def test_every_command_and_option_is_documented(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    for name, command in commands():
        with contextlib.suppress(SystemExit):
            app([*name, "--help"])
        lines = capsys.readouterr().out.splitlines()
        assert len(lines[2]) > 20, f"{name} has no sentence"
        for argument in command.assemble_argument_collection():
            option = argument.names[0]
            if option == "*":  # the group of problem options, whose members follow
                continue
            (line,) = [text for text in lines[1:] if re.search(rf"{re.escape(option)}(?![\w-])", text)]
            words = re.sub(r"[^a-zA-Zα-ω ]", " ", line.split(option, 1)[1]).split()
            assert len(words) >= 2, f"{name} {option} has no description: {line}"


@pytest.mark.parametrize(
    "name", ["README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile", ".ci/run"]
)
def test_promised_file_exists(name):
    assert (ROOT / name).is_file()


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
URLS = PROJECT["project"]["urls"]
OWNER = URLS["Repository"].removeprefix("https://github.com/")


@pytest.mark.skipif(not CLONE, reason="an sdist has no pictures")
def test_the_readme_survives_away_from_the_repository():
    """On PyPI relative links lead nowhere: all are absolute, and those of this repository lead to files that are there."""
    here = re.compile(rf"^https://(?:raw\.githubusercontent|github)\.com/{OWNER}/(?:blob/main/|tree/main/|main/)?")
    for target in re.findall(r"\]\(([^)\s]+)\)", README):
        assert target.startswith("https://"), target
        if here.match(target):
            assert (ROOT / here.sub("", target)).exists(), target


def test_the_address_of_the_repository_is_decided_once():
    """`Repository` of pyproject.toml: nowhere stands another owner of a repository of this name."""
    assert all(url.startswith(URLS["Repository"]) for url in URLS.values())
    named = set()
    for path in [*ROOT.glob("*.md"), *DOCS.glob("**/*.md"), ROOT / "CITATION.cff", ROOT / "paper" / "paper.typ"]:
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"github(?:usercontent)?\.com/([\w-]+/onestride)\b", text)) <= {OWNER}, path
        named |= {path.name} if URLS["Repository"] in text else set()
    assert {"README.md", "CITATION.cff", "cite.md", "REPRODUCE.md", "paper.typ"} <= named


def test_every_benchmark_and_page_can_be_reproduced():
    page = (ROOT / "REPRODUCE.md").read_text(encoding="utf-8")
    unnamed = {"digits.py"}  # prints a table for developers
    for script in (ROOT / "benchmarks").glob("*.py"):
        assert script.name in page or script.name in unnamed | {"any_seed.py", "wheel.py"}, script.name
    made = [name.replace("NAME", "*") for name in re.findall(r"`(docs/[^`]+)`", page)]
    for picture in DOCS.glob("**/*.png"):
        name = picture.relative_to(ROOT).as_posix()
        assert name.startswith(("docs/_build", "docs/auto_gallery")) or any(fnmatch(name, m) for m in made), name


def test_what_reproduces_is_there():
    page = (ROOT / "REPRODUCE.md").read_text(encoding="utf-8")
    for name in re.findall(r"[\w/]+\.py\b", page):
        assert (ROOT / name).is_file() or (ROOT / "benchmarks" / name).is_file(), name
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for path in (ROOT / "REPRODUCE.md", ROOT / "CONTRIBUTING.md", ROOT / "README.md"):
        assert set(re.findall(r"`?make (\w+)[` ]", path.read_text(encoding="utf-8"))) <= {*targets, "and"}, path


@pytest.mark.skipif(not CLONE, reason="an sdist has no pictures")
def test_links_between_documents_lead_somewhere():
    for path in [ROOT / "README.md", ROOT / "REPRODUCE.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("**/*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)\)", path.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_the_version_is_decided_once():
    """`onestride.__version__`: the build reads it there, the newest heading of the changelog and every citation name it."""
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert "version" not in PROJECT["project"]
    source = (ROOT / PROJECT["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8")
    assert f'__version__ = "{onestride.__version__}"' in source
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest
    assert newest[1] == onestride.__version__
    for path in (ROOT / "CITATION.cff", ROOT / "README.md", DOCS / "cite.md"):
        cited = re.findall(
            r"^\s*version(?::| +=) +\{?([\d.]+\w*)\}?,?$", path.read_text(encoding="utf-8"), re.MULTILINE
        )
        assert cited == [onestride.__version__], path


def test_all_extra_brings_no_torch():
    assert "torch" not in " ".join(PROJECT["project"]["optional-dependencies"]["all"])
