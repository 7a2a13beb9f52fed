"""The tables of docs/estimator.md from benchmarks/estimator_tables.csv: errors, ranks, goals, costs, calibration.

    python benchmarks/estimator_report.py [--csv benchmarks/estimator_tables.csv] [--docs docs/estimator.md]

With --docs the part between the two marks is written anew; else it is printed.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
from estimator_methods import METHODS, OTHERS, TREES
from estimator_tables import CLASSIFICATION, DEVELOPMENT
from scipy.stats import rankdata
from scipy.stats import t as student

HERE = Path(__file__).parent
MARKS = "<!-- results: benchmarks/estimator_report.py -->", "<!-- end of results -->"
OURS, BASE = "one step", "random features"


class Results:
    """Errors and the rest by table, method and split."""

    def __init__(self, path: Path) -> None:
        with path.open(newline="") as file:
            self.rows = list(csv.DictReader(file))
        self.by = {(r["table"], r["method"], int(r["split"])): r for r in self.rows}
        self.methods = [m for m in METHODS if any(r["method"] == m for r in self.rows)]
        names = {r["table"] for r in self.rows}
        self.tables = sorted(names, key=lambda t: (t in CLASSIFICATION, t not in DEVELOPMENT, t))
        self.splits = sorted({int(r["split"]) for r in self.rows})

    def values(self, table: str, method: str, key: str = "error") -> np.ndarray:
        """One per split, NaN where it was not measured."""
        cells = (self.by.get((table, method, s), {}).get(key) for s in self.splits)
        return np.array([float(cell) if cell not in (None, "") else np.nan for cell in cells])

    def mean(self, table: str, method: str, key: str = "error") -> float:
        found = self.values(table, method, key)
        return float(np.nanmean(found)) if np.isfinite(found).any() else np.nan

    def complete(self, method: str) -> list[int]:
        """The splits in which the method was measured on every table; the first when there is none."""
        found = np.isfinite([self.values(t, method) for t in self.tables]).all(axis=0)
        return [s for s, there in zip(self.splits, found, strict=True) if there] or self.splits[:1]


def errors(r: Results, methods: list[str], splits: list[int]) -> list[str]:
    """Mean errors over these splits; bold the best of the methods of equal width. Then CPU seconds and mean ranks of complete columns."""
    equal = [m for m in methods if m not in OTHERS]
    kept = [r.splits.index(s) for s in splits]
    lines = ["| table | n, d | " + " | ".join(methods) + " |", "|---|---|" + "---|" * len(methods)]
    means = {(t, m): float(np.mean(r.values(t, m)[kept])) for t in r.tables for m in methods}
    for table in r.tables:
        any_row = next(row for row in r.rows if row["table"] == table)
        best = np.nanmin([means[table, m] for m in equal])
        cells = [_cell(means[table, m], m in equal and means[table, m] == best) for m in methods]
        mark = " †" if table in DEVELOPMENT else ""
        lines.append(f"| {table}{mark} | {any_row['rows']}, {any_row['inputs']} | " + " | ".join(cells) + " |")
    seconds = [[r.mean(t, m, "seconds") for t in r.tables] for m in methods]
    medians = [f"{np.nanmedian(s):.2f}" if np.isfinite(s).any() else "" for s in seconds]
    lines.append("| median CPU seconds of fit |  | " + " | ".join(medians) + " |")
    for name, some in (("mean rank, all", methods), ("mean rank, no trees", [m for m in methods if m not in TREES])):
        complete = [m for m in some if all(np.isfinite(means[t, m]) for t in r.tables)]
        ranks = np.mean([rankdata([means[t, m] for m in complete]) for t in r.tables], axis=0)
        by = dict(zip(complete, ranks, strict=True))
        lines.append(f"| {name} |  | " + " | ".join(f"{by[m]:.2f}" if m in by else "" for m in methods) + " |")
    return lines


def _cell(value: float, bold: bool) -> str:
    return "" if np.isnan(value) else f"**{value:.3g}**" if bold else f"{value:.3g}"


def against(r: Results, other: str, ours: str = OURS) -> str:
    """A sentence: where it is better and worse, and where beyond noise (95 % paired t over splits)."""
    gaps = {t: r.values(t, ours) - r.values(t, other) for t in r.tables}
    gaps = {t: g[np.isfinite(g)] for t, g in gaps.items() if np.isfinite(g).any()}
    sure = {t: g.size > 1 and abs(g.mean()) > student.ppf(0.975, g.size - 1) * g.std(ddof=1) / np.sqrt(g.size) for t, g in gaps.items()}  # fmt: skip
    words = []
    for name, sign in (("at or below", -1), ("above", 1)):
        found = [t for t, g in gaps.items() if (g.mean() <= 0) == (sign < 0)]
        beyond = [t for t in found if sure[t]]
        words.append(f"{name} on {len(found)} of {len(gaps)}, beyond noise on {len(beyond)}" + (f" ({', '.join(beyond)})" if beyond else ""))  # fmt: skip
    return f"- {ours} against {other}: {'; '.join(words)}."


def seconds_of_both(r: Results, table: str) -> tuple[float, float]:
    """Of our fits and of those of random features, over the splits in which both were measured on one machine."""
    ours, base = (r.values(table, method, "seconds") for method in (OURS, BASE))
    both = np.isfinite(ours) & np.isfinite(base)
    return float(ours[both].sum()), float(base[both].sum())


def gains(r: Results) -> list[str]:
    """By table: change against random features, what was chosen, cost."""
    lines = [
        f"| table | {OURS} against {BASE} (± standard error) | chosen, by split | cost ratio |",
        "|---|---|---|---|",
    ]
    costs: dict[str, tuple[float, float]] = {}
    for table in r.tables:
        gap, base = r.values(table, OURS) - r.values(table, BASE), r.mean(table, BASE)
        stderr = gap.std(ddof=1) / np.sqrt(gap.size) / base
        chosen = ", ".join(r.by[table, OURS, s]["chosen"] for s in r.splits if (table, OURS, s) in r.by)
        costs[table] = seconds_of_both(r, table)
        cost = costs[table][0] / costs[table][1]
        lines.append(f"| {table} | {gap.mean() / base:+.1%} ± {stderr:.1%} | {chosen} | {cost:.2f} |")
    total = np.sum(list(costs.values()), axis=0)
    return [*lines, "", f"- All fits together cost {total[0] / total[1]:.2f} times those of {BASE}."]


def calibration(r: Results, kept: list[str]) -> list[str]:
    """Log loss and expected calibration error beside the share of wrong labels."""
    methods = [m for m in kept if any(np.isfinite(r.values(t, m, "log_loss")).any() for t in r.tables)]
    lines = ["| table | " + " | ".join(methods) + " |", "|---|" + "---|" * len(methods)]
    for table in (t for t in r.tables if t in CLASSIFICATION):
        cells = [", ".join(f"{r.mean(table, m, key):.3f}" for key in ("error", "log_loss", "ece")) for m in methods]
        lines.append(f"| {table} | " + " | ".join(cells) + " |")
    return lines


def report(r: Results) -> str:
    """All of it: methods with all splits, those with fewer beside ours, the goals, calibration."""
    whole = [m for m in r.methods if r.complete(m) == r.splits]
    parts = [*errors(r, whole, r.splits), ""]
    for splits in sorted({tuple(r.complete(m)) for m in r.methods if m not in whole}, key=len, reverse=True):
        beside = [m for m in r.methods if tuple(r.complete(m)) == splits or m in (OURS, "boosting")]
        named = ", ".join(map(str, splits))
        parts += [f"Split {named} alone, with the methods that were measured on no more of them on every table:", ""]
        parts += [*errors(r, beside, list(splits)), ""]
    others = [m for m in r.methods if m not in (OURS, "linear ridge")]
    parts += [*gains(r), *(against(r, other) for other in others), ""]
    parts += ["Share of wrong labels, log loss and expected calibration error (15 bins) of the classifiers:", ""]
    return "\n".join([*parts, *calibration(r, whole)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", default=HERE / "estimator_tables.csv", type=Path)
    parser.add_argument("--docs", type=Path)
    arguments = parser.parse_args()
    text = report(Results(arguments.csv))
    if arguments.docs:
        page = arguments.docs.read_text(encoding="utf-8")
        before, rest = page.split(MARKS[0])
        _, after = rest.split(MARKS[1])
        arguments.docs.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}", encoding="utf-8")
    else:
        print(text)
