"""`explore`: start the server on this machine, open the page, and stop with Ctrl+C."""

from __future__ import annotations

import errno
import ipaddress
import os
import signal
import socket
import threading
import time
import webbrowser
from asyncio import TimerHandle, Transport
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from onestride._errors import InputError
from onestride.problem import Problem
from onestride.web.app import PATIENCE, create_app

DEFAULT_PORT = 8750


def explore(
    store: Path,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    browser: bool = True,
    table: Problem | None = None,
    say: Callable[[str], None],
) -> None:
    """Serve until interrupted. `port=None` takes 8750, or any free port when that is taken. With a table its page is opened."""
    listener = listen(host, port)
    bound, taken = listener.getsockname()[:2]
    everywhere, here = ipaddress.ip_address(bound).is_unspecified, ipaddress.ip_address(bound).is_loopback
    address = page_address(bound if everywhere else host, taken)
    server = make_server(create_app(store, host=bound if everywhere else host, table=table))
    address += "table" if table is not None else ""
    to = f"go to the folder {store}" if _may_hold(store) else f"are refused: {store} is no folder and cannot be one"
    say(f"The explorer is at {address}. Simulations {to}. Stop it with Ctrl+C.")
    if not here:
        where = "every address of this machine" if everywhere else bound
        say(f"It listens on {where}: whoever can reach that can use it and write to the folder.")
    if browser:
        threading.Thread(target=_open_when_ready, args=(server, address), daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        # before and after the server's own: an exception would break into its start and be told as a traceback
        signal.signal(number, lambda *_: setattr(server, "should_exit", True))
    with suppress(KeyboardInterrupt):
        server.run(sockets=[listener])


def make_server(app: ASGIApp) -> uvicorn.Server:
    """The server of an application; it keeps no connection that says nothing."""
    config = uvicorn.Config(app, http=Connection, log_level="warning", timeout_graceful_shutdown=2, server_header=False)
    return Server(config)


class Server(uvicorn.Server):
    """uvicorn's, for which a second Ctrl+C means what the first one did: it would break off the end with a traceback."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End; connections have two seconds to."""
        self.should_exit = True


class Connection(H11Protocol):
    """HTTP as uvicorn speaks it, with an end to waiting: a request must be told within `patience` of its first word.

    uvicorn itself closes a connection that rests after an answer, but not one that never asks or asks by halves.
    """

    patience = PATIENCE
    _end: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:
        """Wait for a request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Go on waiting unless the head of a request is complete."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._wait()
        else:
            self._rest()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is left to wait for."""
        self._rest()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._end = self._end or self.loop.call_later(self.patience, self.transport.close)

    def _rest(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None


def listen(host: str, port: int | None) -> socket.socket:
    """A socket bound to host and port, or a sentence why there is none."""
    if not host.strip():
        raise InputError(f"host must be a name or an address, got {host!r}; 0.0.0.0 listens on every address")
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
        except (OSError, TypeError, ValueError) as error:  # the last two: a name that cannot be written as one
            listener.close()
            number = getattr(error, "errno", None)
            if number == errno.EADDRINUSE and port is None and attempt:
                continue
            told = getattr(error, "strerror", None) or "it is not a name of a machine"
            reason = "it is in use" if number == errno.EADDRINUSE else told
            raise InputError(f"port {attempt} on host {host!r} cannot be used: {reason}; choose another") from None
        return listener
    raise AssertionError("unreachable")


def page_address(host: str, port: int) -> str:
    """The address to open in a browser."""
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}/"


def _may_hold(store: Path) -> bool:
    """Whether a folder is there, or nothing is in its way."""
    return next(place for place in (store, *store.absolute().parents) if os.path.exists(place)).is_dir()


def _open_when_ready(server: uvicorn.Server, address: str) -> None:
    while not server.started:
        time.sleep(0.02)
    webbrowser.open(address)
