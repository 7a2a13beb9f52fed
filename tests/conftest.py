"""The explorer for tests: one server and one browser per process, and for every test a store and a gate of its own."""

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from waiting import LIMIT, Gate, HeldWork


@dataclass(frozen=True)
class Server:
    """The real server in a thread of this process."""

    app: Any
    address: str

    @contextmanager
    def using(self, store, gate):
        """Read from and write to `store`; jobs stop at `gate`, and end with the test."""
        from onestride.web.simulation import Simulations

        simulations = self.app.state.simulations = Simulations(store, work=HeldWork(gate))
        try:
            yield
        finally:
            simulations.cancel()
            gate.open()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    from onestride.web.app import create_app
    from onestride.web.serve import listen, make_server, page_address

    listener = listen("127.0.0.1", 0)
    app = create_app(tmp_path_factory.mktemp("explorer"))
    running = make_server(app)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    yield Server(app, page_address("127.0.0.1", listener.getsockname()[1]).rstrip("/"))
    running.should_exit = True
    thread.join()


@pytest.fixture
def gate(tmp_path):
    return Gate(tmp_path / "gate")


@pytest.fixture
def store(server, gate, tmp_path):
    """The store of this test, empty; the server uses it."""
    with server.using(tmp_path / "store", gate):
        yield tmp_path / "store"


@pytest.fixture
def client(server, store):
    import httpx

    with httpx.Client(base_url=server.address, timeout=LIMIT) as client:
        yield client
