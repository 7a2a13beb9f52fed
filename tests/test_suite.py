"""The tests themselves: where they wait, and which of them are long."""

import ast
import re
from pathlib import Path

from conftest import LONG

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


def test_long_tests_exist():
    for entry in LONG:
        file, _, name = entry.partition("::")
        assert not name or f"def {name}(" in FILES[file], entry
