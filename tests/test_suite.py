"""The tests themselves: where they wait, which of them are long, and what they keep on file."""

import ast
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import recorded
from conftest import LONG, dealt_out

FOLDER = Path(__file__).parent
FILES = {
    path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8")
    for path in FOLDER.rglob("test_*.py")
    if path != Path(__file__)
}


def test_waiting_is_done_in_one_place():
    """`waiting.wait_for` has the one limit; a test that sleeps hopes that something has happened meanwhile."""
    for name, text in FILES.items():
        assert not re.search(r"\btime\.sleep\(|\btimeout=[1-9][\d_.]*[,)]", text), name


def test_statistical_tests_state_their_rate_and_take_the_seed():
    """The fixture `seed` reaches a test by itself or through a fixture of its file; `make seeds` counts the alarms."""
    for name, text in FILES.items():
        functions = {f.name: f for f in ast.parse(text).body if isinstance(f, ast.FunctionDef)}

        def seeded(f: ast.FunctionDef, known: dict[str, ast.FunctionDef] = functions) -> bool:
            names = [a.arg for a in f.args.args]
            return "seed" in names or any(seeded(known[n]) for n in names if n in known)

        for f in functions.values():
            marks = [ast.unparse(d) for d in f.decorator_list if "mark.statistical" in ast.unparse(d)]
            assert not marks or (re.fullmatch(r"pytest\.mark\.statistical\(rate=[\d.e-]+\)", marks[0]) and seeded(f)), (
                f"{name}::{f.name}"
            )


def test_every_test_that_needs_torch_runs_in_make_devices():
    """Those of five files were skipped everywhere."""
    chosen = re.search(r"^ON_DEVICES := (.*)$", (FOLDER.parent / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    need = {name for name, text in FILES.items() if re.search(r"import .*\b(TORCH|LIBRARIES)\b", text)}
    assert chosen is not None
    assert need == {f"simulation/test_{name}.py" for name in chosen[1].split()}


def test_long_tests_exist():
    for entry in LONG:
        file, _, name = entry.partition("::")
        assert not name or f"def {name}(" in FILES[file], entry


def test_every_worker_begins_with_long_tests_and_a_folder_is_not_torn():
    def item(folder: str, number: int, *, is_long: bool) -> SimpleNamespace:
        path = FOLDER / folder / "test_x.py"
        return SimpleNamespace(path=path, number=number, get_closest_marker=lambda _: is_long or None)

    items = [item(folder, k, is_long=k < 5) for folder in ("cli", "docs", "web") for k in range(20)]
    order = dealt_out(items, 2)
    assert sorted(map(id, order)) == sorted(map(id, items))
    folders = [[i.path.parent.name for i in run if i.number < 5] for run in (order[:30], order[30:])]
    assert folders == [["web"] * 5, ["docs"] * 5 + ["cli"] * 5]
    assert [i.number < 5 for i in order] == [True] * 5 + [False] * 25 + [True] * 10 + [False] * 20


def test_seeds_on_file_are_used_only_while_the_first_is_drawn_as_it_was(monkeypatch):
    on_file = {"key.seeds": np.array([0, 1]), "key.0": np.array([[1.0, np.nan], [2.0, 3.0]], np.float32)}
    monkeypatch.setattr(recorded, "known", lambda: on_file)
    monkeypatch.setattr(recorded, "RECORD", False)

    def drawing(shift, drawn):
        def simulate(seeds):
            drawn.extend(seeds)
            return [(np.array([1.0 + seed + shift, np.nan if seed == 0 else 3.0]),) for seed in seeds]

        return simulate

    drawn = []
    ((first,), (second,)) = recorded.Recorded()("key", [0, 1], drawing(0, drawn))
    np.testing.assert_array_equal([first, second], on_file["key.0"])
    assert drawn == [0]
    with pytest.raises(AssertionError, match="stale"):
        recorded.Recorded()("key", [0, 1], drawing(1e-4, drawn))
    recorded.Recorded()("key", [0, 2], drawing(1e-4, drawn := []))
    assert drawn == [0, 2]
