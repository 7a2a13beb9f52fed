"""How time and memory grow with n on this machine, against the count of operations; and one problem with n ≫ N.

    python benchmarks/scaling.py [--sizes 500 1000 2000 4000 8000] [--million]

d = n/2, N = 3n/2, 8 exponents × 3 penalties, one seed; each size in a process of its own, so that its peak memory is its
own. --million runs n = 10⁶, d = 1000, N = 2000 at one exponent and penalty, streaming its rows.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import onestride as one
from onestride.simulation.cost import plan
from onestride.simulation.run import simulate_grid

EXPONENTS, RIDGES = np.linspace(0.05, 0.45, 8), np.array([0.01, 0.1, 1.0])
TESTS = 20_000  # at most: a million samples need no two million test samples
STEP = one.Step(constant=1.0, exponent=0.3)


def problem(n: int, d: int, N: int) -> one.Problem:
    return one.Problem(n=n, d=d, N=N, activation="relu", teacher=(0, 1, 0.7071), noise=0.5, step=STEP)


def memory(name: str) -> float:
    """GiB of this process, as Linux counts them: VmRSS now, VmHWM at the peak."""
    (kilobytes,) = re.findall(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(kilobytes) / 2**20


def run_one(n: int, d: int, N: int, exponents: int) -> dict[str, float]:
    p, alphas = problem(n, d, N), EXPONENTS[-exponents:]
    ridges = RIDGES if exponents > 1 else RIDGES[1:2]
    simulate_grid(problem(64, 32, 96), alphas, ridges, 1)
    planned = plan(p, alphas, ridges, 1, n_test=min(2 * n, TESTS))
    expected = planned.seconds  # timed now, not beside the run
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak is counted from here on
    start = time.perf_counter()
    simulate_grid(p, alphas, ridges, 1, n_test=min(2 * n, TESTS))
    seconds = time.perf_counter() - start
    used = memory("VmHWM") - before
    return {
        "n": n,
        "seconds": seconds,
        "planned_seconds": expected,
        "GiB": used,
        "planned_GiB": planned.memory / 2**30,
        "flops": planned.flops,
        "GFLOP/s": planned.flops / seconds / 1e9,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="*", default=[500, 1000, 2000, 4000, 8000])
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--one", type=int, nargs=4, metavar=("n", "d", "N", "exponents"))
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run_one(*options.one)))
        return
    jobs = [(n, n // 2, 3 * n // 2, 8) for n in options.sizes]
    jobs += [(10**6, 1000, 2000, 1)] if options.million else []
    rows = []
    for job in jobs:
        command = [sys.executable, __file__, "--one", *map(str, job)]
        rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        print(json.dumps(rows[-1]), flush=True)
    large = [row for row in rows if 1000 <= row["n"] <= 8000]
    if len(large) > 1:
        n = np.log([row["n"] for row in large])
        for name in ("seconds", "GiB", "flops"):
            print(f"{name} ∝ n^{np.polyfit(n, np.log([row[name] for row in large]), 1)[0]:.2f}")


if __name__ == "__main__":
    main()
