"""How tests wait: for a state that must come, behind one generous limit; and how they hold a job open: at a gate."""

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onestride.web import simulation

LIMIT = 300  # seconds; a backstop for a program that hangs, not a measure of its speed
# the shell has no window to draw, so it takes less of the processor
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)


def run_async(coroutine: Any) -> Any:
    """The coroutine's result, from a thread of its own: where playwright has run, this thread already has a loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, asyncio.wait_for(coroutine, LIMIT)).result()


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """The first true value of `condition()`, which must come and must stay."""
    end = time.monotonic() + LIMIT
    while not (found := condition()):
        assert time.monotonic() < end, f"waited {LIMIT} s for {what}"
        time.sleep(0.02)
    return found


@contextmanager
def opened(profile: Any) -> Iterator[Any]:
    """A tab, which must make no mistake; what the browser remembers of it is forgotten afterwards."""
    page, mistakes = profile.new_page(), []
    page.on("pageerror", lambda error: mistakes.append(str(error)))
    yield page
    forget(page)
    page.close()
    assert not mistakes, mistakes


def forget(page: Any) -> None:
    """Of a page that is just being loaded there is nothing to ask, so it is waited for; one that was not found has no memory."""
    from playwright.sync_api import Error

    for _ in range(2):
        with suppress(Error):
            page.wait_for_load_state()
            return page.evaluate("() => location.protocol === 'http:' && localStorage.clear()")


@dataclass(frozen=True)
class Gate:
    """A file: while it exists, whoever comes by waits. It works across processes, and those that wait may be killed."""

    file: Path

    def shut(self) -> None:
        self.file.touch()

    def open(self) -> None:
        self.file.unlink(missing_ok=True)

    def pass_by(self) -> None:
        while self.file.exists():
            time.sleep(0.01)


@dataclass(frozen=True)
class HeldWork:
    """The work of the explorer's simulation, with a gate after each part that is done."""

    gate: Gate

    def __call__(self, fields: dict[str, Any], seeds: int, store: str, report: Any) -> None:
        simulation.work(fields, seeds, store, _HeldReport(report, self.gate))


@dataclass(frozen=True)
class _HeldReport:
    report: Any
    gate: Gate

    def send(self, words: Any) -> None:
        self.report.send(words)
        self.gate.pass_by()
