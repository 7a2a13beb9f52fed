"""Where the tests find what is not a module."""

from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
DOCS = ROOT / "docs"
CLONE = (DOCS / "images").is_dir()  # an sdist leaves out what was made from the sources: pictures, numbers by seed
OLD_STORE = TESTS / "fixtures" / "store_schema_1"
