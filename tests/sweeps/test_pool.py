"""The pool: a worker that dies takes nothing but its own task with it."""

import os

import pytest

from onestride.sweeps.pool import SturdyPool, WorkerLost


def test_a_poisonous_task_is_given_up_after_three_deaths_and_harms_no_other():
    with SturdyPool(2) as pool:
        futures = [pool.submit(abs, -i) for i in range(6)]
        poison = pool.submit(os._exit, 3)
        futures += [pool.submit(abs, -i) for i in range(6, 12)]
        assert [future.result(60) for future in futures] == list(range(12))
        with pytest.raises(WorkerLost, match="its process died 3 times"):
            poison.result(60)


def test_the_pool_hands_exceptions_through():
    with SturdyPool(1) as pool, pytest.raises(ZeroDivisionError):
        pool.submit(divmod, 1, 0).result(60)
