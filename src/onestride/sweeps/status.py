"""How far the sweeps of a store are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from onestride.functions import InputError
from onestride.store import Record, Store
from onestride.sweeps.cells import NUMERICS, cell_name, failed_key
from onestride.sweeps.spec import parse_sweep


@dataclass(frozen=True)
class SweepStatus:
    """One sweep that was run on a store: its cells, how many are whole, how many have a failure and no value.

    `known` and `failed` are None when the sweep uses a function that is not registered here.
    """

    name: str
    cells: int
    known: int | None
    failed: int | None
    started: str


@dataclass(frozen=True)
class StoreStatus:
    """All sweeps of a store, what it holds, and why things failed, with counts."""

    sweeps: tuple[SweepStatus, ...]
    cells: int
    runs: int
    predictions: int
    reasons: dict[str, int]


def store_status(store: Store) -> StoreStatus:
    """Count what is there and what is missing."""
    failed = {failed_key(record): record.values["reason"] for record in store.records("failure")}
    failed = {key: reason for key, reason in failed.items() if key not in store}
    runs = [record for record in store.records("run") if record.numerics == NUMERICS["run"]]
    theory = [record for record in store.records("theory") if record.numerics == NUMERICS["theory"]]
    cells = {cell_name(record.cell) for record in (*runs, *theory)}
    sweeps = tuple(_sweep(store, record, failed) for record in store.records("sweep"))
    return StoreStatus(sweeps, len(cells), len(runs), len(theory), dict(Counter(failed.values()).most_common(10)))


def _sweep(store: Store, record: Record, failed: dict[str, str]) -> SweepStatus:
    name, started = record.cell["name"], str(record.provenance.get("started", ""))[:16].replace("T", " ")
    try:
        sweep = parse_sweep(record.cell["sweep"], name)
    except InputError:
        return SweepStatus(name, record.values["cells"], None, None, started)
    missing = [[key for key in keys if key not in store] for group in sweep.groups for keys in group.keys_by_cell]
    known, bad = missing.count([]), sum(any(key in failed for key in keys) for keys in missing)
    return SweepStatus(name, len(missing), known, bad, started)
