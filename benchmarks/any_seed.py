"""The statistical tests for other seeds: how often does each fail, and is that its stated false-alarm rate?

    python benchmarks/any_seed.py --seeds 1:100 --workers 16 --limit 240 --out any_seed.json

Runs `pytest -m statistical` in --workers processes with ONESTRIDE_TEST_SEED = 1 … 100. Every test function runs once with
the first seed; then cheap ones come first, so that a run that is stopped, by --limit seconds or by hand, has all seeds of
most tests. Prints a table and ends with 1 when a test failed more often than its stated rate p allows: when
P(at least as many of as many runs) < 0.1 % at p. Needs only what the tests need; files that cannot be collected here are
named and left out.
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import contextlib
import heapq
import io
import json
import math
import multiprocessing
import queue
import signal
import sys
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest
from scipy.stats import binom

ROOT = Path(__file__).parents[1]
OPTIONS = ["-q", "-p", "no:cacheprovider", "-W", "ignore::DeprecationWarning"]
SURPRISE = 1e-3  # a table of a hundred tests then cries wolf once in ten


@dataclass
class Tally:
    """One test over seeds."""

    rate: float
    passed: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    seconds: float = 0.0
    message: str = ""

    @property
    def runs(self) -> int:
        return len(self.passed) + len(self.failed)

    @property
    def suspicious(self) -> bool:
        return bool(self.failed) and bool(binom.sf(len(self.failed) - 1, self.runs, self.rate) < SURPRISE)


class Collected:
    """pytest plugin: rate of every test, grouped by function, and files that cannot be collected."""

    def __init__(self) -> None:
        self.rates: dict[str, float] = {}
        self.groups: dict[str, list[str]] = defaultdict(list)
        self.left_out: list[str] = []

    def pytest_collectreport(self, report) -> None:
        if report.failed:
            self.left_out.append(f"{report.nodeid}: {str(report.longrepr).splitlines()[-1]}")

    def pytest_collection_finish(self, session) -> None:
        for item in session.items:
            self.rates[item.nodeid] = item.get_closest_marker("statistical").kwargs["rate"]
            self.groups[item.nodeid.split("[")[0]].append(item.nodeid)


class Reports:
    """pytest plugin: (test, passed, seconds, first line of the error) of every test that was not skipped."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, bool, float, str]] = []
        self.seconds = 0.0  # of all tests with their fixtures

    def pytest_runtest_logreport(self, report) -> None:
        self.seconds += report.duration
        if report.failed or (report.when == "call" and report.passed):
            crash = getattr(report.longrepr, "reprcrash", None)
            words = crash.message.splitlines()[0] if crash else str(report.longrepr or "")[-200:]
            self.rows.append((report.nodeid, bool(report.passed), report.duration, words))


def silently(arguments: list[str], plugin: object) -> None:
    os.chdir(ROOT)
    for folder in ("src", "tests"):
        if str(ROOT / folder) not in sys.path:
            sys.path.insert(0, str(ROOT / folder))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        pytest.main([*OPTIONS, *arguments], plugins=[plugin])


def collect(marks: str, files: list[str]) -> Collected:
    found = Collected()
    silently(["--collect-only", "--continue-on-collection-errors", "-m", marks, *files], found)
    return found


def run_groups(marks: str, groups: list[str], seed: int) -> tuple[list[str], int, float, list]:
    """Some test functions, all their cases, with one seed, in this process."""
    os.environ["ONESTRIDE_TEST_SEED"] = str(seed)
    reports = Reports()
    silently(["-m", marks, *groups], reports)
    return groups, seed, reports.seconds, reports.rows


def table(tallies: dict[str, Tally]) -> str:
    order = sorted(tallies.items(), key=lambda row: (-len(row[1].failed), row[0]))
    lines = ["failed   runs  stated rate   s/run  test"]
    for name, t in order:
        mark = "  << more than stated" if t.suspicious else ""
        mean = t.seconds / max(t.runs, 1)
        lines.append(f"{len(t.failed):6d} {t.runs:6d}  {t.rate:11.1e} {mean:7.2f}  {name}{mark}")
        if t.failed:
            lines.append(f"{'':36}seeds {t.failed}: {t.message}"[:400])
    runs, failed = sum(t.runs for t in tallies.values()), sum(len(t.failed) for t in tallies.values())
    expected = sum(t.runs * t.rate for t in tallies.values())
    return "\n".join([*lines, f"{failed} of {runs} runs failed; the stated rates allow {expected:.1f} on average."])


def drive(tests: Collected, args: argparse.Namespace, tallies: dict[str, Tally]) -> None:
    """Fill `tallies` until all is done, or the limit is reached, or someone interrupts."""
    start, told = time.monotonic(), time.monotonic()
    first, *others = args.seeds
    waiting = [(-1, first + i / len(tests.groups), group) for i, group in enumerate(tests.groups)]
    done: queue.SimpleQueue = queue.SimpleQueue()
    running = 0
    with multiprocessing.get_context("spawn").Pool(args.workers) as pool:  # leaving it ends the workers
        while waiting or running:
            while waiting and running < args.workers:
                cost, seed, group = heapq.heappop(waiting)
                groups = [group]
                while waiting and waiting[0][:2] == (cost, seed):
                    groups.append(heapq.heappop(waiting)[2])
                task = (args.marks, groups, int(seed))
                pool.apply_async(run_groups, task, callback=done.put, error_callback=done.put)
                running += 1
            try:
                answer = done.get(timeout=1)
            except queue.Empty:
                answer = None
            if isinstance(answer, BaseException):
                raise answer
            if answer is not None:
                running -= 1
                groups, seed, seconds, rows = answer
                add(tallies, seed, rows)
                cost = math.ceil(math.log2(max(seconds, 1)))  # those of about equal cost run together
                if seed == first:
                    for other in others:
                        heapq.heappush(waiting, (cost, other, groups[0]))
            if time.monotonic() - told > args.every:
                told = time.monotonic()
                print(f"\n{told - start:.0f} s, {len(waiting)} to do\n{table(tallies)}", flush=True)
                save(tallies, args.out)
            if time.monotonic() - start > args.limit:
                print(f"\nstopped after {args.limit} s: {len(waiting) + running} to do")
                return


def add(tallies: dict[str, Tally], seed: int, rows: list) -> None:
    for name, passed, seconds, message in rows:
        t = tallies[name]
        (t.passed if passed else t.failed).append(seed)
        t.seconds += seconds
        t.message = t.message or message


def save(tallies: dict[str, Tally], out: Path | None) -> None:
    if out is not None:
        out.write_text(json.dumps({name: asdict(t) for name, t in tallies.items()}, indent=1), encoding="utf-8")


def seed_range(text: str) -> list[int]:
    first, _, last = text.partition(":")
    return list(range(int(first), int(last or first) + 1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="test files or names; all of tests/ without any")
    parser.add_argument("--seeds", type=seed_range, default=seed_range("1:100"), help="first:last")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--every", type=float, default=60, help="seconds between partial tables")
    parser.add_argument("--marks", default="statistical and not slow", help="as for pytest -m")
    parser.add_argument("--out", type=Path, help="JSON file")
    args = parser.parse_args()
    args.out = args.out and args.out.resolve()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    tests = collect(args.marks, args.files)
    tallies = {name: Tally(rate) for name, rate in tests.rates.items()}
    print(f"{len(tallies)} tests, {len(args.seeds)} seeds, {args.workers} workers", flush=True)
    for reason in tests.left_out:
        print(f"left out: {reason}")
    try:
        drive(tests, args, tallies)
    except KeyboardInterrupt:
        print("\ninterrupted")
    save(tallies, args.out)
    print(table(tallies))
    return int(not tallies or any(t.suspicious for t in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
