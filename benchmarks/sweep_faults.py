"""Kill a random worker and then the driver of a real sweep with SIGKILL, restart it, and look for harm; many times over.

    python benchmarks/sweep_faults.py [rounds] [pool|dask]

Each round runs `onestride sweep run` on 200 cells with two seeds. A round passes when, after one restart, all cells are
there, no key was written twice, no line is damaged, every value is bit-equal to an undisturbed run, and no process is left.
With `dask` a real scheduler and two workers run as processes of their own; one worker and the driver are killed.

The sweep that is to be killed is held at a gate, a file beside its store, before its last results, so that it cannot end
before it is killed:

    python benchmarks/sweep_faults.py held GATE STORE ARGUMENTS…     # the program, with that gate before every task
"""

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import contextlib
import functools
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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
d = {linspace = [40, LAST, GROUPS]}
exponent = [0.0, 0.1, 0.2, 0.3, 0.4]
ridge = [0.1, 1.0]
"""
GROUPS = 20  # inputs d: 40, 41, …; each makes ten cells, each of them two runs and a prediction
LIMIT = 300  # seconds; a backstop for a program that hangs, not a measure of its speed


def cells() -> int:
    return 10 * GROUPS


def results() -> int:
    return 3 * cells()


def nearly() -> int:
    """Results after which the sweep that is to be killed waits: two tasks of ten, already begun, do not end it."""
    return results() * 9 // 10


def command(folder: Path, store: str, *options: str, program: tuple[str, ...] = (PROGRAM,)) -> list[str]:
    text = SWEEP.replace("LAST", str(39 + GROUPS)).replace("GROUPS", str(GROUPS))
    (folder / "sweep.toml").write_text(text)
    where = ["--store", str(folder / store), "--threads", "1"]  # the number of BLAS threads changes the last digits
    return [*program, "sweep", "run", str(folder / "sweep.toml"), *where, *options]


def held_command(folder: Path, store: str, *options: str, results: int) -> tuple[list[str], Path]:
    """The same, held once the store has so many results, and the file to remove to let it go on."""
    gate = folder / f"{store}.gate"
    gate.write_text(str(results))
    program = (sys.executable, __file__, "held", str(gate), str(folder / store))
    return command(folder, store, *options, program=program), gate


def held(gate: Path, store: Path, perform: Callable[[Any], Any], task: Any) -> Any:
    """A task that begins only when the gate lets it: a picklable stand-in for `sweeps.task.perform`."""
    with contextlib.suppress(FileNotFoundError):
        while written(store) >= int(gate.read_text()):
            reached(gate).touch()
            time.sleep(0.02)
    return perform(task)


def reached(gate: Path) -> Path:
    """The file that says that a task waits at the gate; the program's handlers of signals are then in place."""
    return gate.with_suffix(".reached")


def run_held(gate: str, store: str, *arguments: str) -> None:
    """The program, with a gate before every task of a sweep."""
    from onestride.cli import main
    from onestride.sweeps import drive

    drive.perform = functools.partial(held, Path(gate), Path(store), drive.perform)
    sys.argv = [PROGRAM, *arguments]
    main()


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
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=LIMIT)


def reference(folder: Path) -> tuple[dict[str, str], float]:
    """The undisturbed run, and how long it took."""
    started = time.perf_counter()
    finish(command(folder, "undisturbed", "--workers", "2"))
    found = values(folder / "undisturbed")
    assert len(found) == results()
    return found, time.perf_counter() - started


def pool_workers(driver: psutil.Process) -> list[psutil.Process]:
    """The processes that compute: children of the server that forks them, or of the driver where there is none."""
    with contextlib.suppress(psutil.NoSuchProcess):
        family = driver.children(recursive=True)
        return [p for p in family if p.ppid() != driver.pid] or family
    return []


def wait_for(condition: Callable[[], Any], what: str) -> None:
    limit = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < limit, f"waited {LIMIT} s for {what}"
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
    assert check.kinds["run"] == 2 * cells()
    found = values(folder / store)
    assert found.keys() == expected.keys()
    different = sum(found[key] != expected[key] for key in expected)
    assert different == 0, f"{different} values differ from the undisturbed run"
    return f"{cells()} cells, {check.files} journals, {check.quarantined} torn lines set aside"


def pool_round(folder: Path, seed: int, expected: dict[str, str]) -> str:
    """One round with the default pool."""
    rng, store, options = random.Random(seed), f"pool-{seed}", ("--workers", "2")
    driver = start(held_command(folder, store, *options, results=nearly())[0])
    seen = psutil.Process(driver.pid)
    family: set[psutil.Process] = set()
    first, second = sorted(rng.uniform(0.02, 0.85) * results() for _ in range(2))
    wait_for(lambda: written(folder / store) >= first or driver.poll() is not None, "results")
    family |= set(seen.children(recursive=True))
    time.sleep(rng.uniform(0, 0.1))  # anywhere in a task or a write
    rng.choice(pool_workers(seen)).kill()
    wait_for(lambda: written(folder / store) >= second or driver.poll() is not None, "results")
    family |= set(seen.children(recursive=True))
    time.sleep(rng.uniform(0, 0.05))
    assert driver.poll() is None, f"the sweep ended with {driver.returncode}"
    driver.kill()
    driver.wait()
    wait_for(lambda: not any(map(alive, family)), "workers to end with the driver")
    before = written(folder / store)
    finish(command(folder, store, *options))
    return f"killed at {before} of {results()} results; " + verify(folder, store, expected)


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
        wait_for(lambda: file.exists() and file.read_text().strip().endswith("}"), "the scheduler")
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
        driver = start(held_command(folder, store, "--dask", address, results=nearly())[0])
        first, second = sorted(rng.uniform(0.02, 0.85) * results() for _ in range(2))
        wait_for(lambda: written(folder / store) >= first or driver.poll() is not None, "results")
        rng.choice(workers).kill()
        wait_for(lambda: written(folder / store) >= second or driver.poll() is not None, "results")
        assert driver.poll() is None, f"the sweep ended with {driver.returncode}"
        family = psutil.Process(driver.pid).children(recursive=True)
        driver.kill()
        driver.wait()
        wait_for(lambda: not any(map(alive, family)), "the driver's processes to end")
        before = written(folder / store)
        finish(command(folder, store, "--dask", address))
    return f"killed at {before} of {results()} results; " + verify(folder, store, expected)


def main() -> None:
    if sys.argv[1:2] == ["held"]:
        return run_held(*sys.argv[2:])
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
