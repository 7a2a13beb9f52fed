"""Versions, machine and settings behind the numbers."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

from onestride.sweeps.task import versions


def provenance(seconds: float, **settings: Any) -> dict[str, Any]:
    """What to write beside every number: versions, system, settings, and how long it took."""
    took = {"seconds": round(seconds, 1), "finished": datetime.now(UTC).isoformat(timespec="seconds")}
    return versions() | {"cores": os.cpu_count()} | settings | took
