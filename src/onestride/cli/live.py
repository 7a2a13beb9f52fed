"""What a long command shows while it runs, and how it is stopped."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onestride.sweeps.ledger import Progress

PLAIN_SECONDS = 5.0  # between lines of progress when the output is not a terminal


@contextmanager
def stopping() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C (or SIGTERM) came; the second one ends the program at once."""
    asked: list[int] = []

    def handle(number: int, _: Any) -> None:
        asked.append(number)
        if len(asked) > 1:
            os.write(2, b"\nstopped at once; what was finished is stored\n")
            os._exit(130)
        os.write(2, b"\nfinishing what is running; Ctrl-C again stops at once\n")

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def reporter() -> Iterator[Callable[[Progress], None]]:
    """A bar on a terminal, a plain line now and then elsewhere; both on the error stream."""
    started = time.monotonic()

    def first(p: Progress) -> str:
        return f"{p.cells_known:,} of {p.cells:,} cells already known, {p.total - p.done:,} results to compute"

    def rate(p: Progress) -> float:
        return (p.done - p.known) / max(time.monotonic() - started, 1e-9)

    def words(p: Progress) -> str:
        if not rate(p):
            return ""
        return f"{rate(p):.3g}/s, {duration((p.total - p.done) / rate(p))} left, {p.failed:,} failed"

    if not sys.stderr.isatty():
        shown = [0.0]

        def line(p: Progress) -> None:
            if not shown[0]:
                print(first(p), file=sys.stderr, flush=True)
            elif time.monotonic() - shown[0] < PLAIN_SECONDS and p.done < p.total:
                return
            elif words(p):
                print(f"{p.done:,}/{p.total:,} results, {words(p)}", file=sys.stderr, flush=True)
            shown[0] = time.monotonic()

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True, highlight=False)
    with Bar(BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[words]}"), console=console) as bar:
        tasks: list[Any] = []

        def draw(p: Progress) -> None:
            if not tasks:
                bar.console.print(first(p))
                tasks.append(bar.add_task("", words=""))
            bar.update(tasks[0], completed=p.done, total=p.total, words=words(p))

        yield draw


def duration(seconds: float) -> str:
    """Seconds in the unit that reads best."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
