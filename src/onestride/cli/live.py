"""What a long command shows while it runs, and how it is stopped."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from onestride._processes import signals_to

if TYPE_CHECKING:
    from onestride.sweeps.ledger import Progress

PLAIN_SECONDS = 5.0  # between lines of progress when the output is not a terminal


@contextmanager
def stopping() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C came, SIGTERM, or the end of the terminal; the second Ctrl-C or SIGTERM ends the program at once."""
    asked: list[int] = []

    def handle(number: int, _: Any) -> None:
        asked.append(number)
        at_once = len(asked) > 1 and number in ENDING[:2]  # a terminal that closes may say so twice
        words = (
            "stopped at once; what was finished is stored"
            if at_once
            else "finishing what is running; Ctrl-C again stops at once"
        )
        if at_once or len(asked) == 1:
            with suppress(OSError):  # nobody reads it any more
                os.write(2, f"\n{words}\n".encode())
        if at_once:
            os._exit(130)

    nohup = [number for number in ENDING[2:] if signal.getsignal(number) == signal.SIG_IGN]
    with signals_to(handle, *(number for number in ENDING if number not in nohup)):
        yield lambda: bool(asked)


ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Report:
    """Called with the progress of a sweep, of which it keeps the last: moves a bar, or prints a line now and then."""

    def __init__(self, bar: Any = None) -> None:
        self.last: Progress | None = None
        self._bar, self._started, self._shown = bar, monotonic(), 0.0

    def __call__(self, p: Progress) -> None:
        """Show it, if anybody still looks: a terminal that was closed costs no result."""
        with suppress(OSError):
            self._show(p)

    def _show(self, p: Progress) -> None:
        first, self.last = self.last is None, p
        more = p.total - p.done
        known = f"{p.cells_known:,} of {p.cells:,} cells already known, {more:,} result{'s' * (more != 1)} to compute"
        rate = (p.done - p.known) / max(monotonic() - self._started, 1e-9)
        left = f"{rate:.3g}/s, {duration((p.total - p.done) / rate)} left, {p.failed:,} failed" if rate else ""
        if self._bar is not None:
            if first:
                self._bar.console.print(known)
                self._bar.add_task("", words="")
            self._bar.update(self._bar.task_ids[0], completed=p.done, total=p.total, words=left)
        elif first or p.done >= p.total or monotonic() - self._shown >= PLAIN_SECONDS:
            if first or left:
                print(known if first else f"{p.done:,}/{p.total:,} results, {left}", file=sys.stderr, flush=True)
            self._shown = monotonic()


@contextmanager
def reporter() -> Iterator[Report]:
    """A bar on a terminal, a plain line now and then elsewhere; both on the error stream."""
    if not sys.stderr.isatty():
        yield Report()
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (rich.BarColumn(), rich.MofNCompleteColumn(), rich.TextColumn("{task.fields[words]}"))
    with rich.Progress(*columns, console=Console(stderr=True, highlight=False)) as bar:
        yield Report(bar)


def duration(seconds: float) -> str:
    """Seconds in the unit that reads best."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def about(seconds: float) -> str:
    """An estimate of a time, which is never nothing."""
    return "less than a second" if seconds < 0.5 else f"about {duration(seconds)}"
