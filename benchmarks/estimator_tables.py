"""The estimators against other methods on real tables: equal width, fixed splits, selection inside the training rows.

    python benchmarks/estimator_tables.py TABLES --out results.jsonl [--splits 0 1 2 3 4] [--jobs 2]
    python benchmarks/estimator_tables.py TABLES --out results.jsonl --csv benchmarks/estimator_tables.csv
    python benchmarks/estimator_report.py

TABLES is a folder of .npz files with X, y and, where splits are fixed, test_mask (rows × splits). At most 4,000 training
rows, width 512. Every result is one line of JSON, written when it is there; a second run continues the first. Regression:
squared error over that of the training mean. Classification (tables named below): share of wrong labels. Times are CPU
seconds of fit with one thread, selection included. The recipe was developed on DEVELOPMENT tables with splits 5 to 7.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np
from estimator_methods import METHODS

MOST_ROWS = 4000
CLASSIFICATION = ("vehicle", "segment", "optdigits", "spambase")
DEVELOPMENT = (
    "yacht", "concrete", "kin8nm", "pol", "elevators", "cpu_act", "wine_quality_red", "segment", "spambase",
)  # fmt: skip

DEFAULT = [
    "linear ridge", "random features", "one step", "one step, high effort", "Nystroem", "Nystroem + skip",
    "random-feature boosting", "boosting", "XGBoost",
]  # fmt: skip


def load(folder: Path, name: str, split: int):
    """Standardised training and test inputs, targets (rows × outputs; ±1 per class), and the labels."""
    from sklearn.preprocessing import StandardScaler

    table = np.load(folder / f"{name}.npz")
    X, y, rng = table["X"], table["y"], np.random.default_rng(1000 + split)
    if "test_mask" in table.files:
        test = table["test_mask"][:, split]
    else:
        test = np.zeros(len(y), bool)
        test[rng.permutation(len(y))[: len(y) // 10]] = True
    train = np.flatnonzero(~test)
    if len(train) > MOST_ROWS:
        train = rng.choice(train, MOST_ROWS, replace=False)
    X = X[:, X[train].std(0) > 0]
    scaler = StandardScaler().fit(X[train])
    if name in CLASSIFICATION:
        Y = np.where(y[:, None] == np.unique(y), 1.0, -1.0)
        Y = Y[:, 1:] if Y.shape[1] == 2 else Y
    else:
        Y = ((y - y[train].mean()) / y[train].std())[:, None]
    return scaler.transform(X[train]), Y[train], y[train], scaler.transform(X[test]), Y[test], y[test]


def wrong(predicted, Y, classes: bool) -> float:
    if not classes:
        return float(np.mean((predicted - Y) ** 2) / np.mean(Y**2))
    if Y.shape[1] == 1:
        return float(np.mean((predicted > 0) != (Y > 0)))
    return float(np.mean(predicted.argmax(1) != Y.argmax(1)))


def calibration(P, codes, bins: int = 15) -> dict:
    """Mean log loss, and the expected calibration error: |confidence − accuracy| averaged over bins of confidence."""
    confidence, right = P.max(1), P.argmax(1) == codes
    bin_of = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = [abs(confidence[bin_of == k].sum() - right[bin_of == k].sum()) for k in range(bins)]
    log_loss = -np.log(np.maximum(P[np.arange(len(codes)), codes], 1e-15)).mean()
    return {"log_loss": float(log_loss), "ece": float(sum(gaps) / len(codes))}


def measure(folder: Path, name: str, split: int, method: str) -> dict:
    X, Y, y, Xt, Yt, yt = load(folder, name, split)
    classes = name in CLASSIFICATION
    start, wall = time.process_time(), time.perf_counter()
    predict, note = METHODS[method](X, Y, y, split, classes)
    seconds, wall = time.process_time() - start, time.perf_counter() - wall
    row = {"table": name, "split": split, "method": method, "error": wrong(predict(Xt), Yt, classes)}
    if classes and getattr(predict, "probabilities", None):
        row |= calibration(predict.probabilities(Xt), np.searchsorted(np.unique(y), yt))
    return row | {"seconds": seconds, "wall": wall, "rows": len(X), "inputs": X.shape[1], "note": note}


def run(arguments) -> None:
    out = Path(arguments.out)
    done = {(r["table"], r["split"], r["method"]) for r in read(out)}
    names = arguments.tables or sorted(p.stem for p in Path(arguments.folder).glob("*.npz"))
    cells = [(n, s, m) for s in arguments.splits for n in names for m in arguments.methods if (n, s, m) not in done]
    with ProcessPoolExecutor(arguments.jobs) as pool, out.open("a") as journal:
        futures = {pool.submit(measure, Path(arguments.folder), *cell): cell for cell in cells}
        for k, future in enumerate(as_completed(futures), 1):
            try:
                row = future.result()
            except Exception as error:
                print(f"{futures[future]}: {type(error).__name__}: {error}", flush=True)
                continue
            journal.write(json.dumps(row) + "\n")
            journal.flush()
            print(f"{k}/{len(cells)} {row['table']} {row['split']} {row['method']}: {row['error']:.4f} ({row['seconds']:.1f} s)", flush=True)  # fmt: skip


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")] if path.exists() else []


def write_csv(rows: list[dict], path: Path) -> None:
    names = ["table", "split", "method", "rows", "inputs", "error", "log_loss", "ece", "seconds", "chosen"]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        for row in sorted(rows, key=lambda r: (r["table"], r["method"], r["split"])):
            row = row | {"chosen": row["note"].get("kind", "")}
            cells = [row.get(name, "") for name in names]
            writer.writerow([f"{cell:.5g}" if isinstance(cell, float) else cell for cell in cells])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--out", required=True)
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--splits", nargs="*", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--methods", nargs="*", choices=list(METHODS), default=DEFAULT)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--csv", help="do not run: write the results there, one row per table, split and method")
    arguments = parser.parse_args()
    if arguments.csv:
        write_csv([row for row in read(Path(arguments.out)) if row["split"] in arguments.splits], Path(arguments.csv))
    else:
        run(arguments)
