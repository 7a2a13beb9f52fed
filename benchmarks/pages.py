"""Runs experiments at their standard size and puts their pages where the documentation shows them.

python benchmarks/pages.py              every experiment, then the claims of the paper
python benchmarks/pages.py inputs depth only these
python benchmarks/pages.py --redraw     the pages that have their numbers beside them, drawn again, and the figure of the README; nothing is computed

Writes docs/experiments/NAME.md, .png and its numbers (.csv by seed, .json), the verdicts in docs/experiments/index.md, docs/claims.md, and
renews the words that docs/theory.md quotes from those pages. Takes about half an hour on two quiet cores.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from onestride.drawing import save
from onestride.drawing.files import read
from onestride.experiments.catalogue import QUESTIONS

DOCS = Path(__file__).parents[1] / "docs"
PAGE, NUMBERS = (".md", ".png"), (".csv", ".json")
# page: what docs/theory.md quotes from it
QUOTES = {
    "experiments/rank-one-gradient.md": [
        r"the distance is \S+ ± \S+ and goes like n\^\([^)]*\) with β = Xᵀ\(y − f₀\)/n"
    ],
    "experiments/gains.md": [r"Ridge with the powers of X̃β free gives \S+ ± \S+ and [\d.]+ ± [\d.]*\d"],
    "experiments/errors.md": [r"Within 5% of the profile theory at this n: [^;]*"],
    "experiments/constant-step.md": [r"gains within 20% of theory: [^.]*"],
    "experiments/giant-step.md": [
        r"for n₀ = 20d fixed point .*?; for n₀ = d/2 fixed point .*?, profile theory \S+ ± [\d.]+%"
    ],
    "experiments/spectrum.md": [r"Within 5% of the theory's places: .*? differ by at most [\d.]*\d"],
    "experiments/spike-count.md": [r"In \S+ ± \S+ of \d+ cells .*? is that of the finite-n theory"],
    "experiments/alignment.md": [r"Squared overlaps at n = \d+ \(\d+ seeds\) within 0.05 of the profile theory: [^.]*"],
    "experiments/staircase.md": [r"within 0.05 of the profile theory \(\d+ seeds\): [^.]*"],
    "experiments/activations.md": [r"gains of the \d+ activations within 20% of theory \(\d+ seeds\): [^;]*"],
    "experiments/regularisation.md": [r"Best errors within 5% of theory: [^;]*"],
    "experiments/finite-size.md": [r"0 within 5%: [^.]*"],
}


def onestride(*words: str) -> None:
    """Run the command line in a process of its own."""
    subprocess.run([sys.executable, "-c", "from onestride.cli import main; main()", *words], check=True)


def renew_index(name: str) -> None:
    """The verdict of the page, in the table of all verdicts."""
    (verdict,) = re.findall(r"\*\*Verdict: (.*?)\.\*\*", (DOCS / f"experiments/{name}.md").read_text(encoding="utf-8"))
    index = DOCS / "experiments/index.md"
    row = re.compile(rf"^(\| \[{name}\].*\| )[^|]*( \|)$", re.MULTILINE)
    told = index.read_text(encoding="utf-8")
    index.write_text(
        row.sub(lambda m: m[1] + verdict + m[2], told, count=1), encoding="utf-8"
    )  # below is the size large


def renew_quotes() -> None:
    """Replace what docs/theory.md quotes by what the pages say now; a quote that has no pattern or match stays."""
    theory = DOCS / "theory.md"
    lines = theory.read_text(encoding="utf-8").splitlines(keepends=True)
    for page, patterns in QUOTES.items():
        said = [m[0] for m in re.finditer(patterns[0], (DOCS / page).read_text(encoding="utf-8"))]
        rows = [i for i, line in enumerate(lines) if re.match(rf"\|.*\]\({re.escape(page)}\) \| “", line)]
        for i, words in zip(rows, said, strict=False):
            lines[i] = re.sub(r"“.*?”", lambda _, words=words: f"“{words}”", lines[i], count=1)
    theory.write_text("".join(lines), encoding="utf-8")


def redraw() -> None:
    """Page and picture of every experiment whose numbers are kept."""
    with tempfile.TemporaryDirectory() as folder:
        for name in QUESTIONS:
            numbers = [DOCS / "experiments" / f"{name}{suffix}" for suffix in NUMBERS]
            if all(path.exists() for path in numbers):
                for path in numbers:
                    shutil.copy(path, folder)
                onestride("experiment", name, "--from-data", "--out", folder)
                publish(name, Path(folder), PAGE)
    overview()


def publish(name: str, folder: Path, suffixes: tuple[str, ...]) -> None:
    """Files of one experiment into the documentation, and its verdict into the table."""
    page = DOCS / "experiments" / f"{name}.md"
    large = (
        re.search(r"\n## At `--size large`.*", page.read_text(encoding="utf-8"), re.DOTALL) if page.exists() else None
    )
    for suffix in suffixes:
        shutil.copy(folder / f"{name}{suffix}", page.with_suffix(suffix))
    if large:  # was written by hand and stays
        page.write_text(page.read_text(encoding="utf-8") + large[0], encoding="utf-8")
    renew_index(name)


def overview() -> None:
    """docs/images/overview.png: the errors of setting 2 from the numbers of the page `errors`, each panel with its n."""
    numbers, table = (DOCS / "experiments" / f"errors{suffix}" for suffix in (".json", ".csv"))
    told = json.loads(numbers.read_text(encoding="utf-8"))
    (n,) = re.findall(r"n = \d+", told["caption"])
    panels = read(told["figure"]["panels"], table.read_text(encoding="utf-8"))
    shown = [replace(panel, title=f"{panel.ylabel}, {n}") for panel in panels[3:5]]
    with tempfile.TemporaryDirectory() as folder:
        save(shown, Path(folder, "overview"))
        shutil.copy(Path(folder, "overview.png"), DOCS / "images")


def main(names: list[str]) -> None:
    """Run, copy, renew."""
    with tempfile.TemporaryDirectory() as folder:
        for name in names or QUESTIONS:
            onestride("experiment", name, "--out", folder)
            publish(name, Path(folder), (*PAGE, *NUMBERS))
        if not names:
            onestride("reproduce", "--out", f"{folder}/claims")
            for file in [path for kind in ("claims.md", "*.png") for path in Path(folder, "claims").glob(kind)]:
                shutil.copy(file, DOCS / file.name)
    overview()
    renew_quotes()


if __name__ == "__main__":
    redraw() if sys.argv[1:] == ["--redraw"] else main(sys.argv[1:])
