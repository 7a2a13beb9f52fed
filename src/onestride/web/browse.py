"""A store as rows for the page: one per problem, measured means beside theory, and which parameters vary."""

from __future__ import annotations

from typing import Any

from onestride.result import plain
from onestride.store import Store
from onestride.sweeps.rows import MEASURED, flat_problem, stored_rows
from onestride.web.query import in_reach, write_query

MOST_ROWS = 4000


def browse(store: Store, name: str) -> dict[str, Any]:
    """Rows (what varies, measured ± standard error, theory, address), the values of each axis, and what all share."""
    stored = stored_rows(store)
    flat = [flat_problem(row.problem) for row in stored]
    columns = {field: list(dict.fromkeys(row[field] for row in flat)) for field in (flat[0] if flat else ())}
    varying = {field: _sorted(values) for field, values in columns.items() if len(values) > 1}
    rows = []
    for row, fields in list(zip(stored, flat, strict=True))[:MOST_ROWS]:
        item: dict[str, Any] = {field: fields[field] for field in varying}
        item |= {"seeds": len(row.runs), "failed": len(row.failures), "status": row.status}
        item |= {
            "reason": row.failures[0] if row.failures else "",
            "query": write_query(row.problem) if in_reach(row.problem) else None,
        }
        for quantity in MEASURED:
            mean = stderr = None
            if row.runs:
                found = row.estimate(quantity)
                mean, stderr = plain(found.mean), plain(found.stderr)
            item[quantity] = {"mean": mean, "stderr": stderr, "theory": plain(row.predicted(quantity))}
        rows.append(item)
    return {
        "store": name,
        "rows": rows,
        "total": len(stored),
        "axes": varying,
        "fixed": {field: values[0] for field, values in columns.items() if len(values) == 1},
        "quantities": list(MEASURED),
    }


def _sorted(values: list[Any]) -> list[Any]:
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return sorted(values) if numbers else values
