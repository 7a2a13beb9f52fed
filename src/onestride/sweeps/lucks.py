"""The luck of a seed in a record of a store, and out of the records of many seeds; see `simulation.luck`.

    {"moments": [m₁, …], "freed": {name: value}, "slopes": {name: [b₁, …]}}       for each measured error `name`

Slopes weigh numbers of mean 0 and need not be exact: nine digits. Records of earlier versions have no luck: a cell
with one of them shows plain values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onestride.result import Estimate, Luck


def luck_record(found: Mapping[str, Estimate]) -> dict[str, Any]:
    """The luck of one seed, the first of these estimates, as plain JSON values."""
    lucks = {name: estimate.luck for name, estimate in found.items() if estimate.luck is not None}
    moments = next((luck.moments[0] for luck in lucks.values()), np.zeros(0))
    return {
        "moments": _digits(moments, 12),
        "freed": {name: float(luck.freed[0]) for name, luck in lucks.items()},
        "slopes": {name: _digits(luck.slopes[0], 9) for name, luck in lucks.items()},
    }


def _digits(values: np.ndarray, digits: int) -> list[float]:
    return [float(f"{v:.{digits}g}") for v in values]


def measured(runs: Sequence[Mapping[str, Any]], name: str) -> Estimate:
    """One error over the seeds of a cell, from the values of their records, freed of luck where every one tells it."""
    plain = np.array([run[name] for run in runs], float)
    lucks: list[dict[str, Any]] = [run["luck"] for run in runs if run.get("luck")]
    if not lucks or len(lucks) < len(runs) or len({len(luck["moments"]) for luck in lucks}) > 1:
        return Estimate(plain)
    freed, slopes = (np.array([luck[part][name] for luck in lucks], float) for part in ("freed", "slopes"))
    return Estimate.freed(plain, Luck(freed, slopes, np.array([luck["moments"] for luck in lucks], float)))


def wrong_luck(values: dict[str, Any], names: Sequence[str]) -> str | None:
    """What is wrong with the luck of a record, as the end of a sentence; None when nothing is, or it has none."""
    luck = values.get("luck")
    if luck is None:
        return None
    if not isinstance(luck, dict) or not all(isinstance(luck.get(part), kind) for part, kind in _PARTS.items()):
        return "its luck is none"
    moments = luck["moments"]
    lists = [moments, *(luck["slopes"].get(name) for name in names)]
    if not all(isinstance(one, list) and len(one) == len(moments) and all(map(is_number, one)) for one in lists):
        return "its luck is none"
    return None if all(is_number(luck["freed"].get(name)) for name in names) else "its luck is none"


LARGEST = 2**63  # a whole number beyond it is no number of ours, and may be none that a float can hold
_PARTS = {"moments": list, "freed": dict, "slopes": dict}


def is_number(value: object) -> bool:
    """A float, or a whole number that one can hold."""
    return type(value) is float or (type(value) is int and abs(value) < LARGEST)
