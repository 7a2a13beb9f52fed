"""What a sweep costs beyond computing: 10,000 tiny cells, each a group of its own, and the resume of the finished sweep.

    python benchmarks/sweep_overhead.py [cells] [workers]

Overhead per cell is (wall time − computing time / workers) / cells, where the computing time is the sum of the seconds
the workers report, so starting the pool, sending tasks and writing the store all count as overhead.
"""

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from onestride.store import Store
from onestride.sweeps.drive import cores


def main() -> None:
    cells = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    workers = int(sys.argv[2]) if len(sys.argv) > 2 else cores()
    folder = Path(tempfile.mkdtemp())
    text = f"""method = "none"
[problem]
n = 20
d = 10
N = 30
seeds = 1
exponent = 0.2
[axes]
noise = {{linspace = [0, 1, {cells}]}}
"""
    (folder / "tiny.toml").write_text(text)
    program = [str(Path(sys.executable).parent / "onestride"), "sweep", "run", str(folder / "tiny.toml")]
    command = [*program, "--store", str(folder / "store"), "--workers", str(workers), "--json"]

    def timed() -> float:
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return time.perf_counter() - started

    wall = timed()
    computing = sum(record.provenance["seconds"] for record in Store(folder / "store").records("run"))
    resume = timed()
    shutil.rmtree(folder)
    print(f"{cells} cells, {workers} workers: {wall:.1f} s, of which computing {computing / workers:.1f} s")
    print(
        f"overhead per cell {1000 * (wall - computing / workers) / cells:.2f} ms; resume of the finished sweep {resume:.2f} s"
    )


if __name__ == "__main__":
    main()
