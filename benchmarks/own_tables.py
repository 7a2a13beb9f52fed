"""Learning curves of real tables, predicted from half of the rows and then measured.

    python benchmarks/own_tables.py TABLES --out own_tables.csv [--size small|standard|large] [--workers 2] [--only yacht sml]
    python benchmarks/own_tables.py TABLES --again own_tables.csv      # predict once more for what was measured
    python benchmarks/own_tables.py --report own_tables.csv

TABLES is a folder of .npz files with X and y. Of each table half of the rows, drawn with seed 0, goes to `one.from_data`; errors of a ReLU network
with and without one step of size η = √n (as many rows for the step as for the fit, others) are predicted for n' rows and N neurons, each at
its best penalty of 17. Then they are measured: rows of the fit and of the step drawn from all rows, tests on rows of the other half that are in
neither. Errors are shares of the variance of y. Equal rows count once. Of classification tables the target is whether a row is of the first class.
"""

from __future__ import annotations

import argparse
import csv
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np
from scipy.linalg import eigh

import onestride as one
from onestride.result import Status
from onestride.theory.table.errors import with_spread

NOTHING = 1e-3  # a change below this is none
CLASSES = ("vehicle", "segment", "optdigits", "spambase")
PENALTIES = np.logspace(-6, 2, 17)
MOST_TESTED = 2000
MOST_WORK = 3200 * 4096  # n N
SIZES = {
    "small": ((100, 400, 1600), (64, 256, 1024)),
    "standard": ((100, 200, 400, 800, 1600, 3200), (64, 256, 1024)),
    "large": ((100, 200, 400, 800, 1600, 3200, 6400, 12800), (64, 256, 1024, 4096)),
}
FIELDS = (
    "table",
    "rows",
    "d",
    "n",
    "N",
    "step",
    "repeats",
    "measured",
    "stderr",
    "predicted",
    "spread",
    "gap",
    "status",
)


def load(path: Path):
    """All rows, equal ones once, and which of them predict."""
    arrays = np.load(path)
    X, y = arrays["X"].astype(float), arrays["y"].astype(float)
    if path.stem in CLASSES:
        y = np.where(y == np.unique(y)[0], 1.0, -1.0)
    first = np.sort(np.unique(np.column_stack([X, y]), axis=0, return_index=True)[1])
    X, y = X[first], y[first]
    order = np.random.default_rng(0).permutation(len(y))
    return X, y, order[: len(y) // 2], order[len(y) // 2 :]


def network(rng, N: int, d: int):
    W = rng.standard_normal((N, d))
    return W / np.linalg.norm(W, axis=1, keepdims=True), rng.standard_normal(N) / np.sqrt(N)


def relu(H):
    return np.maximum(H, 0.0) - 1 / np.sqrt(2 * np.pi)


def after_step(W, a, X, y, eta: float):
    """W + ηG, G the negative gradient of half the mean squared residual."""
    H = X @ W.T
    pull = (H > 0) * ((y - relu(H) @ a) / len(y))[:, None]
    return W + eta * a[:, None] * (pull.T @ X)


def ridge_errors(F, y, Ft, yt):
    """Test errors at every penalty of min (1/n)|y − Fa|² + λ|a|²."""
    n, N = F.shape
    if n <= N:
        values, U = eigh(F @ F.T, overwrite_a=True, check_finite=False)
        p, T = U.T @ y, Ft @ (F.T @ U)
    else:
        values, V = eigh(F.T @ F, overwrite_a=True, check_finite=False)
        p, T = V.T @ (F.T @ y), Ft @ V
    coefficients = p[:, None] / (np.maximum(values, 0.0)[:, None] + n * PENALTIES)
    return np.mean(np.square(yt[:, None] - T @ coefficients), axis=0)


def measure(rng, Z, t, other, n: int, N: int, step: bool):
    """Test errors without and, if asked for, with a step, by penalty; one draw of rows and network."""
    tested = rng.permutation(other)[: min(MOST_TESTED, max(len(other) // 3, len(other) - n), len(t) - (1 + step) * n)]
    free = rng.permutation(np.setdiff1d(np.arange(len(t)), tested))
    fit, pull = free[:n], free[n : 2 * n]
    W, a = network(rng, N, Z.shape[1])
    out = [ridge_errors(relu(Z[fit] @ W.T), t[fit], relu(Z[tested] @ W.T), t[tested])]
    if step:
        V = after_step(W, a, Z[pull], t[pull], np.sqrt(n))
        out.append(ridge_errors(relu(Z[fit] @ V.T), t[fit], relu(Z[tested] @ V.T), t[tested]))
    return np.array(out)


def repeats(n: int, N: int) -> int:
    return int(np.clip(20000 // (n + N // 2), 3, 24))


def measured(path: Path, n: int, N: int):
    """Rows of the result for one n and N: without a step, and with one where there are rows for it."""
    X, y, half, other = load(path)
    mean, scale = X[half].mean(0), X[half].std(0)
    Z = ((X - mean) / np.where(scale > 0, scale, 1.0))[:, scale > 0]
    t = (y - y[half].mean()) / y[half].std()
    step = 2 * n <= 0.9 * len(y)
    rng = np.random.default_rng((n, N))
    draws = np.array([measure(rng, Z, t, other, n, N, step) for _ in range(repeats(n, N))])
    rows = []
    for k in range(1 + step):
        best = int(np.argmin(draws[:, k].mean(0)))
        value, error = draws[:, k, best].mean(), draws[:, k, best].std(ddof=1) / np.sqrt(len(draws))
        sizes = {"table": path.stem, "rows": len(y), "d": Z.shape[1], "n": n, "N": N, "step": k, "repeats": len(draws)}
        rows.append(sizes | {"measured": value, "stderr": error})
    return rows


def predicted(path: Path, rows):
    """The same rows with what `from_data` on half of the table's rows predicts for them."""
    X, y, half, _ = load(path)
    problem = one.from_data(X[half], y[half], step=one.Step(constant=1.0, exponent=0.5))
    out = []
    for row in rows:
        there = problem.replace(n=row["n"], N=row["N"])
        found = there if row["step"] else there.replace(step=one.Step.none())
        grid = one.predict_grid(found, [found.step.exponent], PENALTIES).trained
        trusted = np.array([status is Status.SOLVED for status in grid.status[0]])
        j = int(np.argmin(np.where(trusted, grid.test_error[0], np.inf)))
        told = {"predicted": grid.test_error[0, j], "spread": with_spread(found, PENALTIES)[3, j]}
        gap = told["predicted"] / row["measured"] - 1
        out.append(row | told | {"gap": gap, "status": grid.status[0, j].name.lower()})
    return out


def jobs(paths, size: str):
    sizes, widths = SIZES[size]
    for path in paths:
        rows = len(load(path)[1])
        for n in sorted({*(n for n in sizes if n <= 0.8 * rows), int(0.9 * rows) if 0.9 * rows <= sizes[-1] else 100}):
            for N in widths:
                if n * N <= MOST_WORK:
                    yield path, n, N


def report(rows) -> None:
    """By table; a step's change is decided where the mean over the cells is two of its standard errors away from none."""
    print(
        "| table | rows, d | median gap, no step | with a step | largest gap | a step changes the error by, measured | predicted | sign |"
    )
    print("|---|---|---|---|---|---|---|---|")
    names, right, outcomes = sorted({row["table"] for row in rows}), 0, []
    for name in names:
        mine = [row for row in rows if row["table"] == name]
        gaps = [np.median([abs(r["gap"]) for r in mine if r["step"] == k]) for k in (0, 1)]
        by = {(r["n"], r["N"], r["step"]): r for r in mine}
        pairs = [(by[n, N, 0], r) for (n, N, s), r in by.items() if s]
        change, expected = (np.array([np.log(b[key] / a[key]) for a, b in pairs]) for key in ("measured", "predicted"))
        error = change.std(ddof=1) / np.sqrt(change.size)
        nothing = max(abs(change.mean()), abs(expected.mean())) < NOTHING
        agrees = nothing or change.mean() * expected.mean() > 0
        right += agrees
        outcomes.append(
            "right" if nothing else "undecided" if abs(change.mean()) < 2 * error else "right" if agrees else "wrong"
        )
        worst = max(mine, key=lambda r: abs(r["gap"]))
        print(f"| {name} | {mine[0]['rows']}, {mine[0]['d']} | {gaps[0]:.1%} | {gaps[1]:.1%} | {worst['gap']:+.0%} (n = {worst['n']}, "
              f"N = {worst['N']}) | {np.expm1(change.mean()):+.1%} ± {error:.1%} | {np.expm1(expected.mean()):+.1%} | {outcomes[-1]} |")  # fmt: skip
    gaps = [np.array([abs(r["gap"]) for r in rows if r["step"] == k]) for k in (0, 1)]
    every = np.concatenate(gaps)
    near = [
        abs(r["predicted"] - r["measured"]) <= 3 * np.hypot(r["stderr"], r["spread"] * r["predicted"]) for r in rows
    ]
    print(f"\n{every.size} numbers: median gap {np.median(every):.1%}, without a step {np.median(gaps[0]):.1%}, with one {np.median(gaps[1]):.1%}; "
          f"within 10 %: {np.mean(every < 0.1):.0%}; within 3 standard errors: {np.mean(near):.0%}. Sign of the change by a step the same on {right} of "
          f"{len(names)} tables; where it is decided, right on {outcomes.count('right')} and wrong on {outcomes.count('wrong')}.")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, default=Path("own_tables.csv"))
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--again", type=Path, help="predict once more for what was measured")
    options = parser.parse_args()
    if options.report:
        return report(read(options.report))
    paths = sorted(p for p in options.tables.glob("*.npz") if not options.only or p.stem in options.only)
    todo, rows = sorted(jobs(paths, options.size), key=lambda job: -job[1] * job[2]), []
    with ProcessPoolExecutor(options.workers) as pool:
        if options.again:
            rows = read(options.again)
        else:
            for done in as_completed([pool.submit(measured, *job) for job in todo]):
                rows += done.result()
            write(options.out.with_suffix(".measured.csv"), rows)
        asked = [pool.submit(predicted, path, [r for r in rows if r["table"] == path.stem]) for path in paths]
        rows = [row for done in asked for row in done.result()]
    write(options.out, rows)
    report(rows)


def read(path: Path):
    with path.open() as file:
        rows = [
            {k: v if k in ("table", "status") else float(v or "nan") for k, v in row.items()}
            for row in csv.DictReader(file)
        ]
    return [row | {k: int(row[k]) for k in ("rows", "d", "n", "N", "step", "repeats")} for row in rows]


def write(path: Path, rows) -> None:
    rows.sort(key=lambda r: (r["table"], r["n"], r["N"], r["step"]))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)


if __name__ == "__main__":
    main()
