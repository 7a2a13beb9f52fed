"""`onestride explore`: a local page that draws theory while a slider moves."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def explore(
    *,
    port: int | None = None,
    host: str = "127.0.0.1",
    store: Path = Path("explorer"),
    browser: Annotated[bool, Parameter(negative="--no-browser")] = True,
) -> None:
    """Open a local page: sliders, theory that follows them, simulations in the background, stores to browse.

    Parameters
    ----------
    port
        Port of the page [8750, or a free one].
    host
        Address to listen on; anything but 127.0.0.1 lets other machines in.
    store
        Folder that simulations are written to and read from; that of a sweep can be browsed.
    browser
        Open the page in the browser.
    """
    with _leaving_at_once():
        from onestride._errors import require

        require("starlette", "uvicorn", "matplotlib", extra="explore", what="the explorer")
        from onestride.web.serve import explore as run

        run(store, host=host, port=port, browser=browser, say=lambda words: print(words, flush=True))


@contextmanager
def _leaving_at_once() -> Iterator[None]:
    """Until the server takes over, Ctrl+C ends the program there and then.

    Nothing has been started or written by then; and a KeyboardInterrupt in the midst of an import can get lost.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: os._exit(0)) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
