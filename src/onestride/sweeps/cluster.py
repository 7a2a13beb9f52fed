"""Dask as an executor: a running scheduler, or a real local cluster. The only file that imports distributed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from onestride._errors import InputError, require
from onestride._processes import deaf
from onestride.sweeps.drive import cores

ALLOWED_FAILURES = 10  # a dying worker marks every task it held as suspicious, not only the one that ran


@contextmanager
def dask_executor(address: str, workers: int | None = None, *, timeout: float = 10.0) -> Iterator[tuple[Executor, int]]:
    """An executor on the Dask scheduler at `address` ("local" starts one), and how many tasks it runs at once."""
    require("distributed", extra="cluster", what="dask")
    from distributed import Client, LocalCluster

    if address == "local":
        count = workers or cores()
        with deaf():  # a terminal sends Ctrl-C to all processes; the driver decides
            # any free port: without an address Dask takes its usual one, and warns where another cluster has it
            options: Any = {"dashboard_address": "127.0.0.1:0", "silence_logs": logging.ERROR}
            cluster = LocalCluster(n_workers=count, threads_per_worker=1, **options)
        with _quiet_logs(), cluster, Client(cluster) as client:
            yield _executor(client), count
        return
    with _quiet_logs():
        try:
            client = Client(address, timeout=timeout)
        except (OSError, ValueError, TimeoutError) as error:
            raise InputError(f"dask: no scheduler answers at {address} ({error or 'timed out'})") from None
        with client:
            threads: Any = client.nthreads()  # of each worker
            yield _executor(client), workers or max(sum(threads.values()), 1)


def _executor(client: Any) -> Executor:
    client.run_on_scheduler(_allow_failures, count=ALLOWED_FAILURES)
    return client.get_executor(pure=False)


def _allow_failures(dask_scheduler: Any, count: int) -> None:
    dask_scheduler.allowed_failures = max(dask_scheduler.allowed_failures, count)


@contextmanager
def _quiet_logs() -> Iterator[None]:
    """Dask's client writes tracebacks to its log when a scheduler ends; the driver says the same in a sentence."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in ("distributed", "tornado")]
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
