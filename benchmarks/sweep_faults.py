"""Kill a random worker and then the driver of a real sweep with SIGKILL, restart it, and look for harm; many times over.

    python benchmarks/sweep_faults.py [rounds] [pool|dask]

Each round runs `onestride sweep run` on 200 cells with two seeds. A round passes when, after one restart, all cells are
there, no key was written twice, no line is damaged, every value is bit-equal to an undisturbed run, and no process is left.
With `dask` a real scheduler and two workers run as processes of their own; one worker and the driver are killed.
"""

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import contextlib
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from onestride.store import Store

PROGRAM = str(Path(sys.executable).parent / "onestride")
SWEEP = """method = "finite-step"
[problem]
n = 100
N = 150
activation = "tanh"
teacher = [0, 1, 0.7071]
noise = 0.5
seeds = 2
[axes]
d = {linspace = [40, 59, 20]}
exponent = [0.0, 0.1, 0.2, 0.3, 0.4]
ridge = [0.1, 1.0]
"""
CELLS, RUNS, GROUPS = 200, 400, 20


def command(folder: Path, store: str, *options: str) -> list[str]:
    (folder / "sweep.toml").write_text(SWEEP)
    where = ["--store", str(folder / store), "--threads", "1"]  # the number of BLAS threads changes the last digits
    return [PROGRAM, "sweep", "run", str(folder / "sweep.toml"), *where, *options]


def values(store: Path) -> dict[str, str]:
    """Every stored result as text, so that equal means bit-equal."""
    return {r.key: json.dumps(r.values) for r in Store(store) if r.kind in ("run", "theory")}


def start(arguments: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        arguments,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
    )


def finish(arguments: list[str]) -> None:
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=300)


def reference(folder: Path) -> tuple[dict[str, str], float]:
    """The undisturbed run, and how long it took."""
    started = time.perf_counter()
    finish(command(folder, "undisturbed", "--workers", "2"))
    found = values(folder / "undisturbed")
    assert len(found) == RUNS + CELLS
    return found, time.perf_counter() - started


def pool_workers(driver: psutil.Process) -> list[psutil.Process]:
    """The processes that compute: children of the server that forks them, or of the driver where there is none."""
    with contextlib.suppress(psutil.NoSuchProcess):
        family = driver.children(recursive=True)
        return [p for p in family if p.ppid() != driver.pid] or family
    return []


def wait_for(condition, seconds: float, what: str) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, f"waited {seconds} s for {what}"
        time.sleep(0.02)


def alive(process: psutil.Process) -> bool:
    """Running, and not only waiting for its exit code to be collected."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def written(store: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in store.glob("journal-*.jsonl"))


def verify(folder: Path, store: str, expected: dict[str, str]) -> str:
    check = Store(folder / store).check()
    assert check.healthy, check
    assert check.twice == 0, f"{check.twice} keys were written twice"
    assert check.kinds["run"] == RUNS
    found = values(folder / store)
    assert found.keys() == expected.keys()
    different = sum(found[key] != expected[key] for key in expected)
    assert different == 0, f"{different} values differ from the undisturbed run"
    return f"{CELLS}/{CELLS} cells, {check.files} journals, {check.quarantined} torn lines set aside"


def pool_round(folder: Path, seed: int, expected: dict[str, str]) -> str:
    """One round with the default pool."""
    rng, store = random.Random(seed), f"pool-{seed}"
    arguments = command(folder, store, "--workers", "2")
    driver = start(arguments)
    seen = psutil.Process(driver.pid)
    family: set[psutil.Process] = set()
    wait_for(lambda: len(pool_workers(seen)) >= 2 or driver.poll() is not None, 60, "two workers")
    target = rng.uniform(0.02, 0.5) * (RUNS + CELLS)
    wait_for(lambda: written(folder / store) >= target or driver.poll() is not None, 120, "results")
    family |= set(seen.children(recursive=True))
    victims = pool_workers(seen)
    assert victims, "the sweep ended before a worker could be killed"
    time.sleep(rng.uniform(0, 0.1))  # anywhere in a task or a write
    rng.choice(victims).kill()
    target = rng.uniform(target / (RUNS + CELLS), 0.9) * (RUNS + CELLS)
    wait_for(lambda: written(folder / store) >= target or driver.poll() is not None, 120, "results")
    family |= set(seen.children(recursive=True))
    time.sleep(rng.uniform(0, 0.05))
    assert driver.poll() is None, "the sweep ended before the driver could be killed"
    driver.kill()
    driver.wait()
    wait_for(lambda: not any(map(alive, family)), 20, "workers to end with the driver")
    before = written(folder / store)
    finish(arguments)
    return f"killed at {before} of {RUNS + CELLS} results; " + verify(folder, store, expected)


@contextlib.contextmanager
def dask_cluster(folder: Path, workers: int = 2) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A real scheduler and workers as processes; its address and the workers."""
    file = folder / "scheduler.json"
    file.unlink(missing_ok=True)
    options = ["--scheduler-file", str(file)]
    part = [sys.executable, "-m"]
    scheduler = [
        *part,
        "distributed.cli.dask_scheduler",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--no-dashboard",
        *options,
    ]
    worker = [*part, "distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1", "--no-dashboard", *options]
    worker += ["--local-directory", str(folder)]
    processes = [start(scheduler)]
    try:
        wait_for(lambda: file.exists() and file.read_text().strip().endswith("}"), 60, "the scheduler")
        processes += [start(worker) for _ in range(workers)]
        yield json.loads(file.read_text())["address"], processes[1:]
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGKILL)
            process.wait()


def dask_round(folder: Path, seed: int, expected: dict[str, str]) -> str:
    """One round with a Dask scheduler and two workers of its own; one worker stays to finish the work."""
    rng, store = random.Random(seed), f"dask-{seed}"
    with dask_cluster(folder) as (address, workers):
        arguments = command(folder, store, "--dask", address)
        driver = start(arguments)
        target = rng.uniform(0.02, 0.5) * (RUNS + CELLS)
        wait_for(lambda: written(folder / store) >= target or driver.poll() is not None, 120, "results")
        rng.choice(workers).kill()
        target = rng.uniform(target / (RUNS + CELLS), 0.9) * (RUNS + CELLS)
        wait_for(lambda: written(folder / store) >= target or driver.poll() is not None, 120, "results")
        assert driver.poll() is None, "the sweep ended before the driver could be killed"
        family = psutil.Process(driver.pid).children(recursive=True)
        driver.kill()
        driver.wait()
        wait_for(lambda: not any(map(alive, family)), 20, "the driver's processes to end")
        before = written(folder / store)
        finish(arguments)
    return f"killed at {before} of {RUNS + CELLS} results; " + verify(folder, store, expected)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    kinds = sys.argv[2:] or ["pool", "dask"]
    folder = Path(tempfile.mkdtemp(prefix="onestride-faults-"))
    try:
        expected, seconds = reference(folder)
        print(f"undisturbed: {len(expected)} results in {seconds:.1f} s", flush=True)
        for kind in kinds:
            passed = 0
            for seed in range(rounds):
                told = {"pool": pool_round, "dask": dask_round}[kind](folder, seed, expected)
                passed += 1
                print(f"{kind} {seed}: {told}", flush=True)
            print(f"{kind}: {passed} of {rounds} rounds without harm", flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
