"""A device's normal numbers are NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from networks import TORCH, largest_gap, problem
from onestride._backend import Backend, choose, device_normals, stream
from onestride.simulation import network
from onestride.simulation.run import simulate_grid


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
def test_a_device_that_draws_itself_measures_the_same(monkeypatch):
    p = problem(n=150, d=40, N=170)
    here = simulate_grid(p, [0.1, 0.3], [0.1], 1)
    monkeypatch.setattr(network, "draws_itself", lambda *_: True)
    assert largest_gap(simulate_grid(p, [0.1, 0.3], [0.1], 1, device="torch"), here) < 1e-9
