"""Processes: children that end with their parent and are deaf, semaphores that no driver clears away, signals that go elsewhere."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def end_with_parent() -> None:
    """In a child process: leave as soon as the parent is gone, even if it was killed and could tell nobody."""
    from multiprocessing import parent_process  # 15 ms that `onestride --help` does without

    parent = parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def quiet_tracker() -> None:
    """Start Python's tracker of semaphores so that it cleans up after a killed driver without calling that a leak."""
    from multiprocessing import get_all_start_methods

    if "forkserver" not in get_all_start_methods():
        return
    from multiprocessing import resource_tracker

    quiet = "ignore:resource_tracker:UserWarning"
    sys.warnoptions.append(quiet)  # handed to the tracker's process, which is started once
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # of the others it is deaf by itself
    try:
        resource_tracker.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        sys.warnoptions.remove(quiet)


@contextmanager
def deaf() -> Iterator[None]:
    """Processes started meanwhile never hear Ctrl+C, nor that the terminal was closed, not even while they load.

    Both go to all processes of a terminal, and the driver decides. A blocked signal is blocked in a child.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    quiet_tracker()  # once it runs it leaves the mask alone
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def signals_to(handler: Callable[[int, Any], Any] | signal.Handlers, *numbers: int) -> Iterator[None]:
    """These signals go to `handler` while the block runs; outside the main thread, which alone can say so, nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
