"""Versions, machine and settings behind the numbers."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from typing import Any

import numpy as np
import scipy

from onestride import __version__


def provenance(seconds: float, **settings: Any) -> dict[str, Any]:
    """What to write beside every number: versions, system, settings, and how long it took."""
    return {
        "onestride": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        **settings,
        "seconds": round(seconds, 1),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
