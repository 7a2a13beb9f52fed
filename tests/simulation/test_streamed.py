"""Rows that stream past against rows that are stored, on one machine and over workers."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

import onestride as one
from networks import EXPONENTS, RIDGES, largest_gap, problem
from onestride._backend import streams
from onestride.simulation import cost
from onestride.simulation.run import simulate_grid
from onestride.sweeps.cluster import dask_executor


def long_problem() -> one.Problem:
    return problem(n=3000, d=40, N=60)


@pytest.fixture
def streaming(monkeypatch):
    monkeypatch.setattr(cost, "STREAM_ABOVE", 0)
    monkeypatch.setattr(streams, "BLOCK_NUMBERS", 40 * 200)


def test_streamed_samples_give_the_same_numbers_as_stored_ones(monkeypatch, streaming):
    there = simulate_grid(long_problem(), EXPONENTS, RIDGES, 2)
    monkeypatch.setattr(cost, "STREAM_ABOVE", 10**12)
    here = simulate_grid(long_problem(), EXPONENTS, RIDGES, 2)
    assert largest_gap(there, here) < 1e-10
    assert largest_gap(there, here, raw=True) < 1e-10


def test_row_blocks_spread_over_workers_add_up_to_the_same_numbers(streaming):
    p = long_problem().replace(n_step=700)
    alone = simulate_grid(p, EXPONENTS, RIDGES, 1)
    with ThreadPoolExecutor(3) as pool:
        together = simulate_grid(p, EXPONENTS, RIDGES, 1, executor=pool)
    assert largest_gap(together, alone) < 1e-12


def test_row_blocks_run_on_a_real_dask_cluster(monkeypatch):
    """A worker is a process of its own: nothing but the block numbers and the weights reaches it. Another cluster has Dask's usual port."""
    monkeypatch.setattr(cost, "STREAM_ABOVE", 0)  # the driver alone decides
    pytest.importorskip("distributed")
    p = problem(n=400_000, d=50, N=20)
    assert p.n * p.d > streams.BLOCK_NUMBERS  # so that there are several blocks
    with socket.socket() as other:
        with suppress(OSError):  # somebody has it already
            other.bind(("127.0.0.1", 8787))
            other.listen()
        with dask_executor("local", 1) as (executor, _):
            there = simulate_grid(p, [0.3], [0.1], 1, n_test=2000, executor=executor)
    here = simulate_grid(p, [0.3], [0.1], 1, n_test=2000)
    assert largest_gap(there, here) < 1e-12


def test_streamed_features_that_overflow_are_refused_in_a_sentence(streaming):
    one.register("steep", lambda z: z**9, lambda z: 9 * z**8)
    p = long_problem().replace(activation="steep", step=one.Step(constant=1e60, exponent=0.3))
    with pytest.raises(one.InputError, match="'steep' overflows on the features of a step"):
        simulate_grid(p, [0.3], [0.1], 1)


def test_a_penalty_too_small_to_stream_is_refused_in_a_sentence(streaming):
    with pytest.raises(one.InputError, match="ridge = 1e-18 is too small for n = 3000 streamed samples"):
        simulate_grid(long_problem(), [0.3], [1e-18], 1)
