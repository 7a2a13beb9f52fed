"""A device's normal numbers are NumPy's."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

from networks import TORCH, largest_gap, problem
from onestride._backend import Backend, choose, device_normals, draws, normal_rows, prefetched, stream, streams, tiles
from onestride.simulation import network
from onestride.simulation.cost import Plan
from onestride.simulation.equivalent import measure_expansions
from onestride.simulation.run import simulate_grid
from waiting import LIMIT


@pytest.mark.parametrize("library", ["cpu", pytest.param("torch", marks=TORCH)])
@pytest.mark.parametrize("rows", [1, 300])
def test_a_device_draws_the_numbers_of_numpy(library, rows):
    for seed in range(3):
        theirs = stream(seed, "weights", block=seed).standard_normal((rows, 1000))
        backend = choose(library)
        ours = backend.get(device_normals(stream(seed, "weights", block=seed), rows, 1000, backend))
        tail = np.abs(theirs) > 3.654  # where the last digit of a logarithm enters
        assert np.array_equal(ours[~tail], theirs[~tail])
        np.testing.assert_allclose(ours[tail], theirs[tail], rtol=1e-15)


def test_another_generator_is_left_to_numpy():
    assert device_normals(np.random.Generator(np.random.Philox(0)), 1, 10, Backend()) is None


@TORCH
@pytest.mark.parametrize("kept", [True, False], ids=["weights kept", "weights set aside"])
def test_a_device_that_draws_itself_measures_the_same(kept, monkeypatch):
    p = problem(n=150, d=40, N=170)
    monkeypatch.setattr(streams, "BLOCK_NUMBERS", 1000)  # several blocks of each array, which are joined
    monkeypatch.setattr(tiles, "DEVICE_ROWS", 60)
    here = simulate_grid(p, [0.1, 0.3], [0.1], 1)
    monkeypatch.setattr(network, "draws_itself", lambda *_: True)
    monkeypatch.setattr(Plan, "keeps_weights", kept)
    assert largest_gap(simulate_grid(p, [0.1, 0.3], [0.1], 1, device="torch"), here) < 1e-9


@pytest.mark.parametrize("device", ["cpu", pytest.param("torch", marks=TORCH)])
def test_the_noise_of_the_equivalent_is_the_same_wherever_it_is_drawn_and_however_it_is_cut(device, monkeypatch):
    p = problem(n=60, d=20, N=70)
    monkeypatch.setattr(streams, "BLOCK_NUMBERS", 1000)  # blocks of fourteen rows
    here = measure_expansions(p, 1, [3])
    Z = np.vstack([stream(3, "probe", block=k).standard_normal((14 if k < 12 else 12, 70)) for k in range(13)])
    take = normal_rows(3, "probe", 180, 70, choose(device))
    np.testing.assert_array_equal(np.vstack([choose(device).get(take(rows)) for rows in (60, 7, 5, 108)]), Z)
    monkeypatch.setattr(tiles, "TILE_BYTES", 8 * 70 * 11)
    monkeypatch.setattr(tiles, "DEVICE_ROWS", 40)
    for module in (draws, network):
        monkeypatch.setattr(module, "draws_itself", lambda *_: device == "torch")
    found = measure_expansions(p, 1, [3], device=device)
    np.testing.assert_allclose(found.test_error.values, here.test_error.values, rtol=1e-9)
    np.testing.assert_allclose(found.train_loss.values, here.train_loss.values, rtol=1e-9)


@pytest.mark.parametrize(("workers", "ahead"), [(None, None), (1, 4), (3, 1)])
def test_what_is_drawn_ahead_comes_in_order_and_no_further_than_asked(workers, ahead):
    begun: list[int] = []
    for k, found in enumerate(prefetched((lambda i=i: begun.append(i) or i for i in range(20)), workers, ahead)):
        assert found == k
        if ahead is not None:
            assert max(begun) <= k + ahead


def test_tasks_left_half_way_are_waited_for_by_nobody():
    """The garbage collector may end them in a thread that holds what waiting for a thread needs: a deadlock, seen once."""
    gate = threading.Event()
    left = prefetched([lambda: 0, gate.wait, gate.wait], 1, 1)
    assert next(left) == 0
    closer = threading.Thread(target=left.close)
    closer.start()
    closer.join(LIMIT)
    held = closer.is_alive()
    gate.set()
    assert not held


def test_rows_left_half_way_need_no_garbage_collector(monkeypatch):
    monkeypatch.setattr(streams, "BLOCK_NUMBERS", 12)
    gc.disable()
    try:
        take = normal_rows(0, "probe", 9, 4, choose("cpu"))
        np.testing.assert_array_equal(
            np.concatenate([take(2), take(5)]),
            np.concatenate([stream(0, "probe", block=k).standard_normal((3, 4)) for k in range(3)])[:7],
        )
        left = weakref.ref(take)
        del take
        assert left() is None
    finally:
        gc.enable()
