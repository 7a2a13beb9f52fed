"""`onestride explore`: a local page that draws theory while a slider moves."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, Token

from onestride._errors import InputError
from onestride._processes import signals_to
from onestride.cli.options import MaybeWhole


def _folder(_: Any, tokens: Sequence[Token]) -> Path:
    """A folder that is named: `Path("")` would be the current one."""
    if not tokens[0].value.strip():
        raise InputError("store must be the name of a folder, got ''; the current folder is .")
    return Path(tokens[0].value)


def explore(
    *,
    port: MaybeWhole = None,
    host: str = "127.0.0.1",
    store: Annotated[Path, Parameter(converter=_folder)] = Path("explorer"),
    browser: Annotated[bool, Parameter(negative="--no-browser")] = True,
    data: Path | None = None,
    target: str | None = None,
    export: Path | None = None,
    address: str = "",
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
    data
        A table of one's own, .csv, .parquet or .npz: the page opens on it.
    target
        The column of the table that is to be predicted [the last one].
    export
        Write the page as one HTML file that needs no server, with α, c, λ and n to move, and end; this takes minutes.
    address
        The problem to export: what stands after the ? in the address of the page, such as n=1000&activation=tanh.
    """
    if target is not None and data is None:
        raise InputError(f"--target names a column of --data, got --target {target} without it")
    if export is not None:
        return _export(export, address)
    # Until the server takes over, Ctrl+C ends the program there and then: nothing has been started or written by then, and
    # a KeyboardInterrupt in the midst of an import can get lost.
    with signals_to(lambda *_: os._exit(0), signal.SIGINT, signal.SIGTERM):
        from onestride._errors import require, require_all
        from onestride.own_files import require_reader

        needed = partial(require, "starlette", "uvicorn", "matplotlib", extra="explore", what="the explorer")
        require_all(needed, *([] if data is None else [partial(require_reader, data)]))
        from onestride.web.serve import explore as run

        table = None
        if data is not None:
            from onestride.own_data import from_data
            from onestride.step import Step

            table = from_data(data, target=target, step=Step(constant=1.0, exponent=0.5))
        run(store, host=host, port=port, browser=browser, table=table, say=lambda words: print(words, flush=True))


def _export(path: Path, address: str) -> None:
    from urllib.parse import parse_qsl

    from onestride._errors import require

    require("starlette", "uvicorn", "matplotlib", extra="explore", what="the explorer")
    from onestride.web.export import export
    from onestride.web.query import once

    query = once(parse_qsl(address.partition("#")[0].rpartition("?")[2], keep_blank_values=True))

    def tell(done: int, total: int) -> None:
        print(f"\r{done} of {total} parts", end="" if done < total else "\n", flush=True)

    export(path, query, processes=max(1, os.cpu_count() or 1), tell=tell)
    print(f"The page is in {path}.")
