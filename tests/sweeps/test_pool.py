"""The pool: a worker that dies takes nothing but its own task with it."""

import os
import signal
from concurrent.futures import ProcessPoolExecutor

import pytest

from onestride.sweeps import pool as pools
from onestride.sweeps.pool import NoWorkers, SturdyPool, WorkerLost
from waiting import LIMIT


def test_a_poisonous_task_is_given_up_after_three_deaths_and_harms_no_other():
    with SturdyPool(2) as pool:
        futures = [pool.submit(abs, -i) for i in range(6)]
        poison = pool.submit(os._exit, 3)
        futures += [pool.submit(abs, -i) for i in range(6, 12)]
        assert [future.result(LIMIT) for future in futures] == list(range(12))
        with pytest.raises(WorkerLost, match="its process died 3 times"):
            poison.result(LIMIT)


def test_the_pool_hands_exceptions_through():
    with SturdyPool(1) as pool, pytest.raises(ZeroDivisionError):
        pool.submit(divmod, 1, 0).result(LIMIT)


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="POSIX signals")
def test_workers_never_hear_an_interrupt_not_even_while_they_load():
    """What a worker has blocked is blocked in the server that forked it, too."""
    with SturdyPool(1) as pool:
        blocked = pool.submit(signal.pthread_sigmask, signal.SIG_BLOCK, ()).result(LIMIT)
    assert {signal.SIGINT, signal.SIGHUP} <= set(blocked)
    assert not {signal.SIGINT, signal.SIGHUP} & set(signal.pthread_sigmask(signal.SIG_BLOCK, ()))


def test_a_server_of_processes_that_is_lost_is_no_failure_of_the_task(monkeypatch):
    """It was stored as one, and the next run did not compute the cell."""
    losses = [EOFError("unexpected EOF"), ConnectionRefusedError("Connection refused")]

    def lost(**how):
        if losses:
            raise losses.pop()
        return ProcessPoolExecutor(**how)

    monkeypatch.setattr(pools, "ProcessPoolExecutor", lost)
    with SturdyPool(1) as pool:
        assert pool.submit(abs, -1).result(LIMIT) == 1
    losses += [EOFError("unexpected EOF")] * pools.TRIES
    with SturdyPool(1) as pool, pytest.raises(NoWorkers, match="end before they begin"):
        pool.submit(abs, -1).result(LIMIT)
