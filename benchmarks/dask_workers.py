"""A sweep of 2,000 cells on local Dask workers: how many times as fast four of them are as one.

    python benchmarks/dask_workers.py [--workers 1 4] [--groups 50] [--n 400]

50 numbers of inputs d × 8 exponents × 5 penalties, two seeds: 100 tasks, each a seed of 40 cells. The time is that of the
whole command, the start of scheduler and workers included; every worker computes on one core.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from onestride.store import Store

SWEEP = """method = "none"
[problem]
n = {n}
N = {N}
teacher = [0, 1, 0.7071]
noise = 0.5
seeds = 2
[axes]
d = {{linspace = [{d}, {last}, {groups}]}}
exponent = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4]
ridge = [0.01, 0.03, 0.1, 0.3, 1.0]
"""


def run(n: int, groups: int, workers: int) -> tuple[float, float, int]:
    """Seconds of the command, seconds that the workers computed, and how many results there are."""
    folder = Path(tempfile.mkdtemp())
    sweep = SWEEP.format(n=n, N=3 * n // 2, d=n // 2, last=n // 2 + groups - 1, groups=groups)
    (folder / "sweep.toml").write_text(sweep)
    command = [sys.executable, "-m", "onestride", "sweep", "run", str(folder / "sweep.toml")]
    command += ["--store", str(folder / "store"), "--workers", str(workers), "--dask", "local", "--json"]
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - started
    records = list(Store(folder / "store").records("run"))
    computing = sum(record.provenance["seconds"] / record.provenance["together"] for record in records)
    shutil.rmtree(folder)
    return wall, computing, len(records)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--groups", type=int, default=50)
    parser.add_argument("--n", type=int, default=400)
    args = parser.parse_args()
    walls = {}
    for workers in args.workers:
        walls[workers], computing, results = run(args.n, args.groups, workers)
        print(f"{workers} workers: {walls[workers]:.1f} s for {40 * args.groups} cells ({results} results), ", end="")
        print(f"of which computing {computing / workers:.1f} s", flush=True)
    first, last = args.workers[0], args.workers[-1]
    print(f"{last} workers are {walls[first] / walls[last]:.2f} times as fast as {first}")


if __name__ == "__main__":
    main()
