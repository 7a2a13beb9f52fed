"""`explore`: start the server on this machine, open the page, and stop with Ctrl+C."""

from __future__ import annotations

import errno
import signal
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn

from onestride._errors import InputError
from onestride.web.app import create_app

DEFAULT_PORT = 8750


def explore(
    store: Path, *, host: str = "127.0.0.1", port: int | None = None, browser: bool = True, say: Callable[[str], None]
) -> None:
    """Serve until interrupted. `port=None` takes 8750, or any free port when that is taken."""
    listener = listen(host, port)
    address = page_address(host, listener.getsockname()[1])
    app = create_app(store, host=host)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2, server_header=False)
    server = uvicorn.Server(config)
    say(f"The explorer is at {address}. Simulations go to the folder {store}. Stop it with Ctrl+C.")
    if browser:
        threading.Thread(target=_open_when_ready, args=(server, address), daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # an orderly end, after the server's own
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listener])


def listen(host: str, port: int | None) -> socket.socket:
    """A socket bound to host and port, or a sentence why there is none."""
    if port is not None and not 0 <= port <= 65535:
        raise InputError(f"port must be a whole number from 0 to 65535, got {port}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for attempt in (DEFAULT_PORT, 0) if port is None else (port,):
        # with the protocol named asyncio sends answers at once; without it each waits 40 ms for the client's ACK
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, attempt))
            listener.listen()  # whoever reads the address may come at once
        except OSError as error:
            listener.close()
            if error.errno == errno.EADDRINUSE and port is None and attempt:
                continue
            reason = "it is in use" if error.errno == errno.EADDRINUSE else (error.strerror or str(error))
            raise InputError(f"port {attempt} on host {host!r} cannot be used: {reason}; choose another") from None
        return listener
    raise AssertionError("unreachable")


def page_address(host: str, port: int) -> str:
    """The address to open in a browser."""
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}/"


def _open_when_ready(server: uvicorn.Server, address: str) -> None:
    while not server.started:
        time.sleep(0.02)
    webbrowser.open(address)
