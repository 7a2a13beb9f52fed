"""Where the tests find what is not a module."""

from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
DOCS = ROOT / "docs"
OLD_STORE = TESTS / "fixtures" / "store_schema_1"
