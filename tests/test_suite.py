"""The tests themselves: where they wait, and which of them are long."""

import re
from pathlib import Path

from conftest import LONG

FOLDER = Path(__file__).parent
FILES = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("test_*.py") if path != Path(__file__)}


def test_waiting_is_done_in_one_place():
    """`waiting.wait_for` has the one limit; a test that sleeps hopes that something has happened meanwhile."""
    for name, text in FILES.items():
        assert not re.search(r"\btime\.sleep\(|\btimeout=[1-9][\d_.]*[,)]", text), name


def test_long_tests_exist():
    for entry in LONG:
        file, _, name = entry.partition("::")
        assert not name or f"def {name}(" in FILES[file], entry
