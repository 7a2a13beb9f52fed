"""Features after a step of every size, stored or made anew, against their definition."""

from __future__ import annotations

import numpy as np
import pytest

from networks import EXPONENTS, LIBRARIES, RIDGES, largest_gap, problem
from onestride._backend import Backend, choose, prefetched
from onestride.simulation import memory, shifted
from onestride.simulation.cost import Plan
from onestride.simulation.features import Trained, feature_rows, features, fitted_rows, train_further
from onestride.simulation.network import draw_batch, draw_network, step_gradient, trained_weights
from onestride.simulation.run import simulate_grid
from onestride.simulation.streamed import ridge_tasks

ETAS = np.array([0.0, 0.7, 3.0])


@pytest.mark.parametrize("library", ["cpu", *LIBRARIES])
@pytest.mark.parametrize("sizes", [{"n": 40, "N": 60}, {"n": 60, "N": 40}], ids=["n < N", "n > N"])
def test_features_of_every_step_size_are_those_of_the_definition(library, sizes):
    p = problem(d=20, **sizes)
    plan = Plan(p, len(ETAS), backend=choose(library))
    network, X = draw_network(p, 3), draw_batch(p, 3, "ridge_inputs", "ridge_noise", p.n).X
    G = step_gradient(p, network, 3).G
    trained = Trained(plan, ETAS, (3,), plan.backend.put(network.W0), plan.backend.put(G))
    plain = [p.sigma(X @ (network.W0 + eta * G).T) for eta in ETAS]
    get = plan.backend.get
    for F, expected in zip(features(trained)(X), plain, strict=True):
        np.testing.assert_allclose(get(F), expected, rtol=1e-12, atol=1e-13)
    for rows, F in zip(fitted_rows(trained, lambda: prefetched(ridge_tasks(plan, 3))), plain, strict=True):
        np.testing.assert_allclose(get(rows.whole()), F.T if p.n <= p.N else F, rtol=1e-12, atol=1e-13)
    for stored in (True, False):
        rows = feature_rows(p, X, network.W0 + 3.0 * G, plan.backend, stored=stored)
        np.testing.assert_allclose(get(rows.whole()), plain[2].T if p.n <= p.N else plain[2], rtol=1e-12, atol=1e-13)


def test_features_after_several_steps_are_those_of_the_last_weights():
    p = problem(n=40, d=20, N=60, steps=2)
    network, X = draw_network(p, 1), draw_batch(p, 1, "ridge_inputs", "ridge_noise", p.n).X
    trained = train_further(Plan(p, len(ETAS)), ETAS, 1)
    for F, eta in zip(features(trained)(X), ETAS, strict=True):
        W = trained_weights(p, network, 1, eta) if eta else network.W0
        np.testing.assert_array_equal(F, p.sigma(X @ W.T))


def test_a_device_too_small_for_everything_gives_the_same_numbers(monkeypatch):
    """W₀ is drawn anew, G waits on the host, F is made anew for each pass, one factor at a time."""
    here = simulate_grid(problem(), EXPONENTS, RIDGES, 1)
    monkeypatch.setattr(memory, "require_memory", lambda *_: None)
    monkeypatch.setattr(Backend, "total_memory", lambda _: 0.0)
    monkeypatch.setattr(Backend, "free_memory", lambda _: 0.0)
    assert not Plan(problem(), backend=choose("strict")).keeps_weights
    there = simulate_grid(problem(), EXPONENTS, RIDGES, 1, device="strict")
    assert largest_gap(there, here, raw=True) < 1e-9
    assert largest_gap(there, here) < 1e-7  # what is averaged over noise is solved to the same residual, and smaller


@pytest.mark.parametrize("sizes", [{}, {"n": 150, "N": 60}], ids=["dual", "primal"])
def test_a_host_too_small_for_the_features_makes_them_anew(sizes, monkeypatch):
    p = problem(**sizes)
    here = simulate_grid(p, EXPONENTS, RIDGES, 1)
    monkeypatch.setattr(shifted, "DIRECT_BELOW", 0)
    monkeypatch.setattr(memory, "require_memory", lambda *_: None)
    monkeypatch.setattr(Backend, "free_memory", lambda _: 0.0)
    there = simulate_grid(p, EXPONENTS, RIDGES, 1)
    assert largest_gap(there, here, raw=True) < 1e-9
    assert largest_gap(there, here) < 1e-7  # what is averaged over noise is solved to the same residual, and smaller
