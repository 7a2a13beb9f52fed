"""A store as rows for the page: one per problem, measured means beside theory, and which parameters vary."""

from __future__ import annotations

from typing import Any

from onestride.store import Store

MOST_ROWS = 5000


def browse(store: Store, name: str) -> dict[str, Any]:
    """Rows and axes."""
    return {"store": name, "rows": [], "axes": []}
