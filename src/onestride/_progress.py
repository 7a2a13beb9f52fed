"""Progress of long calls: a bar in a terminal, a line of text in a notebook, nothing elsewhere.

A call shows itself only once it has taken two seconds. `progress=False` is silence, `progress=True` a line of text wherever it
runs, and a function of (done, total) hears everything from the start. Only the outermost call of a process shows itself.
"""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from onestride._errors import InputError, quoted

OnProgress = Callable[[int, int], None]  # hears how many parts of how many are done
WAIT = 2.0  # seconds before anything is shown
BETWEEN = 0.5  # seconds between two lines of text
_inside = 0  # calls that show themselves already, or a program that has its own bar


@contextmanager
def silent() -> Iterator[None]:
    """Nothing below shows itself: whoever calls has a bar of its own."""
    global _inside
    _inside += 1
    try:
        yield
    finally:
        _inside -= 1


@contextmanager
def shown(progress: OnProgress | bool | None, label: str) -> Iterator[OnProgress]:
    """Whom to tell how much is done: the function given, or what shows it here."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InputError(f"progress must be a function of (done, total), True, False or None, got {quoted(progress)}")
    with silent():
        if callable(progress):
            yield progress
            return
        where = place() if progress is None else "text" if progress else "nowhere"
        told = _Text(label) if where == "text" else _Bar(label) if where == "terminal" else None
        try:
            yield told or (lambda done, total: None)
        finally:
            if told is not None:
                told.end()


def place() -> Literal["terminal", "text", "nowhere"]:
    """Where progress would be seen; nowhere inside another call, in a worker process, or where nobody looks."""
    from multiprocessing import parent_process

    if _inside > 1 or parent_process() is not None:
        return "nowhere"
    if "ipykernel" in sys.modules:
        return "text"
    return "terminal" if sys.stderr is not None and sys.stderr.isatty() else "nowhere"


class _Shown(ABC):
    """Waits, then shows every call."""

    def __init__(self, label: str) -> None:
        self.label, self.started, self.latest = label, time.monotonic(), 0.0

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self.started >= WAIT:
            self.show(done, total)

    @abstractmethod
    def show(self, done: int, total: int) -> None:
        """Say how much is done."""

    @abstractmethod
    def end(self) -> None:
        """Leave nothing half-written."""


class _Text(_Shown):
    """One line of text that is written over, as a notebook can show it without any widget."""

    width = 0

    def show(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.latest < BETWEEN and done < total:
            return
        self.latest, taken = now, now - self.started
        left = f", about {taken * (total - done) / done:.0f} s left" if 0 < done < total else ""
        words = f"{self.label}: {done} of {total}, {taken:.0f} s{left}"
        print("\r" + words.ljust(self.width), end="", flush=True)
        self.width = len(words)

    def end(self) -> None:
        if self.width:
            print("\r" + " " * self.width, end="\r", flush=True)


def new_bar() -> Any:
    """A bar on the error stream of a terminal: what is done, of how much, how long it took and will take; it goes when it is done."""
    from rich import progress as rich
    from rich.console import Console

    columns = [rich.TextColumn("{task.description}"), rich.BarColumn(), rich.MofNCompleteColumn()]
    columns += [rich.TimeElapsedColumn(), rich.TimeRemainingColumn()]
    return rich.Progress(*columns, console=Console(stderr=True), transient=True)


class _Bar(_Shown):
    """A bar that is there from the first call that is shown."""

    bar: Any = None

    def show(self, done: int, total: int) -> None:
        if self.bar is None:
            self.bar = new_bar()
            self.bar.start()
            self.bar.add_task(self.label)
        self.bar.update(self.bar.task_ids[0], completed=done, total=total)

    def end(self) -> None:
        if self.bar is not None:
            self.bar.stop()
