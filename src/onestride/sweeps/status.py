"""How far the sweeps of a store are."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from onestride.functions import InputError
from onestride.store import Record, Store
from onestride.sweeps.cells import NUMERICS, cell_content, group_cells, key_of, run_cell, theory_cell
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

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


def store_status(store: Store) -> StoreStatus:
    """Count what is there and what is missing."""
    failed = {}
    for record in store.records("failure"):
        key = key_of(record.cell["of"], record.cell["cell"])
        if key not in store:
            failed[key] = record.values["reason"]
    runs = [record for record in store.records("run") if record.numerics == NUMERICS["run"]]
    theory = [record for record in store.records("theory") if record.numerics == NUMERICS["theory"]]
    cells = {repr(sorted(record.cell["problem"].items())) for record in (*runs, *theory)}
    sweeps = tuple(_sweep(store, record, failed) for record in store.records("sweep"))
    return StoreStatus(sweeps, len(cells), len(runs), len(theory), dict(Counter(failed.values()).most_common(10)))


def _sweep(store: Store, record: Record, failed: dict[str, str]) -> SweepStatus:
    name, started = record.cell["name"], str(record.provenance.get("started", ""))[:16].replace("T", " ")
    try:
        sweep = parse_sweep(record.cell["sweep"], name)
    except InputError:
        return SweepStatus(name, record.values["cells"], None, None, started)
    known = bad = cells = 0
    for group in group_cells(sweep.points):
        shared, constant = group.content, group.problem.step.constant
        for pair in group.pairs:
            content = cell_content(shared, pair, constant)
            keys = [key_of("run", run_cell(content, seed)) for seed in group.seeds]
            if sweep.method != "none":
                keys.append(key_of("theory", theory_cell(content, sweep.method)))
            cells += 1
            missing = [key for key in keys if key not in store]
            known += not missing
            bad += any(key in failed for key in missing)
    return SweepStatus(name, cells, known, bad, started)
