"""The dependencies stated are the dependencies tested: the constraints of `make oldest` are the floors of pyproject.toml."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_oldest_pins_every_floor_and_nothing_else():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    floors = {entry.replace(">=", "==") for group in groups for entry in group if not entry.startswith("onestride[")}
    lines = (ROOT / "tests" / "oldest.txt").read_text(encoding="utf-8").splitlines()
    assert sorted(floors) == [line for line in lines if not line.startswith("#")]
