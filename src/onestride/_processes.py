"""Processes: children that end with their parent, and signals that go elsewhere for a while."""

from __future__ import annotations

import os
import signal
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
