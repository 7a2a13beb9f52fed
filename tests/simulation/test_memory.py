"""Each measurement states its memory; NumPy's own count of what was allocated says whether that is true.

tracemalloc hears of every NumPy array, in every thread, and gives the same number every time. Tiles are made small, so
that the arrays whose sizes the formulas count dominate.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import onestride as one
from onestride._backend import Backend, streams, tiles
from onestride.simulation import cost, equivalent, gradient, memory, ridge
from onestride.simulation.cost import Plan

SQUARE = {"n": 560, "d": 280, "N": 560}
DUAL = {"n": 320, "d": 210, "N": 1060}
PRIMAL = {"n": 2100, "d": 140, "N": 300}
WIDE = {"n": 140, "d": 1400, "N": 350}

Measurement = tuple[Callable[[one.Problem], Any], Callable[[one.Problem], float]]
MEASUREMENTS: dict[str, Measurement] = {
    "simulate": (lambda p: one.simulate(p, [0]), lambda p: Plan(p).memory),
    "grid": (
        lambda p: one.simulate_grid(p, [0.1, 0.2, 0.3], np.geomspace(0.01, 1, 6), [0]),
        lambda p: Plan(p, 4, 6).memory,
    ),
    "three penalties": (
        lambda p: one.simulate_grid(p, [0.3], [0.1, 1.0, 2.0], [0], untrained=False, n_test=500),
        lambda p: Plan(p, 1, 3, 500).memory,
    ),
    "float32": (lambda p: one.simulate(p, [0], dtype="float32"), lambda p: Plan(p).memory),
    "learned": (lambda p: one.measure_learned(p, [0]), lambda p: memory.learned_memory(p, max(4 * p.n, 4000)).memory),
    "spectrum": (lambda p: one.measure_spectrum(p, [0]), lambda p: memory.spectrum_memory(p, 6, full=True).memory),
    "leading": (
        lambda p: one.measure_spectrum(p, [0], full=False),
        lambda p: memory.spectrum_memory(p, 6, full=False).memory,
    ),
    "density": (lambda p: one.measure_density(p, [0]), lambda p: memory.density_memory(p).memory),
    "expansions": (
        lambda p: equivalent.measure_expansions(p, 2, [0]),
        lambda p: memory.expansion_memory(p).memory,
    ),
    "distance": (
        lambda p: equivalent.measure_distance(p, 2, [0]),
        lambda p: memory.distance_memory(p).memory,
    ),
    "limit": (lambda p: equivalent.measure_limit(p, 2, [0]), lambda p: memory.limit_memory(p).memory),
    "gradient": (lambda p: gradient.measure_gradient(p, [0]), lambda p: memory.gradient_memory(p).memory),
}


def problem(**fields: Any) -> one.Problem:
    step = one.Step(constant=1.0, exponent=0.3)
    return one.Problem(**({"teacher": (0, 1, 0.7071), "noise": 0.5, "step": step} | fields))


def peak(work: Callable[[], Any]) -> tuple[float, Any]:
    """Most bytes that were allocated at the same time, and what the work gave."""
    tracemalloc.start()
    try:
        found = work()
        return tracemalloc.get_traced_memory()[1], found
    finally:
        tracemalloc.stop()


def assert_states_its_need(name: str, p: one.Problem) -> Any:
    """What was measured."""
    run, need = MEASUREMENTS[name]
    run(problem(n=30, d=10, N=40))  # tables that are made once
    stated, (taken, found) = need(p), peak(lambda: run(p))
    assert taken > 5e6  # large enough for the formula to matter
    assert taken / 1.5 < stated < 1.5 * taken
    return found


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(tiles, "TILE_BYTES", 2**20)
    monkeypatch.setattr(streams, "threads", lambda: 1)


@pytest.mark.parametrize("shape", [DUAL, PRIMAL], ids=["n < N", "n > N"])
@pytest.mark.parametrize("name", MEASUREMENTS)
def test_a_measurement_takes_the_memory_it_states(name, shape):
    assert_states_its_need(name, problem(**shape))


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("simulate", WIDE),
        ("learned", WIDE),
        ("spectrum", WIDE),
        ("spectrum", SQUARE),
        ("simulate", SQUARE | {"steps": 2}),
        ("learned", SQUARE | {"steps": 2}),
        ("simulate", DUAL | {"n_step": 4200}),
        ("learned", DUAL | {"n_step": 4200}),
        ("simulate", PRIMAL | {"inputs": "rademacher"}),
        ("learned", PRIMAL | {"inputs": "student"}),
        ("simulate", PRIMAL | {"directions": 3}),
    ],
)
def test_every_kind_of_problem_takes_the_memory_it_states(name, fields):
    assert_states_its_need(name, problem(**fields))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", ["simulate", "grid", "learned", "spectrum"])
def test_many_samples_drawn_in_blocks_take_the_memory_they_state(name, threads, monkeypatch):
    """`simulate` streams; the others keep X̃ and F, and say so."""
    monkeypatch.setattr(cost, "STREAM_ABOVE", 0)
    monkeypatch.setattr(streams, "BLOCK_NUMBERS", 2**15)
    monkeypatch.setattr(streams, "threads", lambda: threads)
    p = problem(n=5_600, d=70, N=210)
    assert Plan(p, 4).streams
    assert_states_its_need(name, p)


def test_a_simulation_that_streams_does_not_grow_with_the_samples(monkeypatch):
    monkeypatch.setattr(cost, "STREAM_ABOVE", 0)
    monkeypatch.setattr(streams, "BLOCK_NUMBERS", 2**16)
    few, many = (peak(lambda n=n: one.simulate(problem(n=n, d=50, N=200), [0], n_test=500))[0] for n in (4_000, 16_000))
    blocks = 4 * 8 * 2**16  # how many of those drawn ahead are there at the peak is a matter of time
    assert many - few < 8 * 6 * (16_000 - 4_000) + blocks  # a few vectors of n numbers; no n × d or n × N array


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("learned", {"n": 320, "d": 20, "N": 2100}),
        ("learned", {"n": 4200, "d": 20, "N": 210}),
        ("spectrum", {"n": 320, "d": 20, "N": 2100}),
        ("spectrum", {"n": 3000, "d": 20, "N": 480}),
        ("leading", {"n": 2500, "d": 20, "N": 250}),
        ("density", {"n": 300, "d": 20, "N": 2000}),
    ],
)
def test_without_room_for_the_features_they_are_made_anew(name, shape, monkeypatch):
    if name == "density":
        monkeypatch.setattr(tiles, "TILE_BYTES", 2**21)  # 2 MB, whatever the size, are not counted: less than one tile
    run, need = MEASUREMENTS[name]
    p = problem(**shape)
    stored, here = need(p), run(p)
    monkeypatch.setattr(Backend, "free_memory", lambda _: 0.0)
    monkeypatch.setattr(memory, "require_memory", lambda *_: None)
    assert need(p) < stored
    there = assert_states_its_need(name, p)
    fields = {"learned": ("fraction", "unexplained"), "density": ("density", "untrained_density")}
    for field in fields.get(name, ("eigenvalues", "untrained_eigenvalues", "overlaps")):
        a, b = getattr(there, field).values, getattr(here, field).values
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7 * np.abs(b).max())


@pytest.mark.parametrize("shape", [SQUARE, PRIMAL], ids=["n = N", "n > N"])
def test_the_plan_states_the_memory_of_the_grid(shape):
    p, exponents, ridges = problem(**shape), [0.0, 0.2], [0.01, 0.1]
    stated = cost.plan(p, exponents, ridges, 1, n_test=1000).memory
    taken, _ = peak(lambda: one.simulate_grid(p, exponents, ridges, 1, n_test=1000))
    assert taken / 1.5 < stated < 1.5 * taken


# ----------------------------------------------------------------------------------------------------------- refusals

SIZES = [{"n": 10**26}, {"d": 10**26}, {"N": 10**26}, {"n_step": 10**26}, {"n": 10**12}, {"N": 10**299}]


@pytest.mark.parametrize("sizes", SIZES, ids=[f"{k}=1e{len(str(v)) - 1}" for s in SIZES for k, v in s.items()])
@pytest.mark.parametrize("name", MEASUREMENTS)
def test_sizes_beyond_every_machine_are_refused_in_a_sentence(name, sizes):
    p = problem(**({"n": 60, "d": 20, "N": 80} | sizes))
    (key,) = sizes
    with pytest.raises(one.InputError, match=rf"\b{key} (= .*GiB of memory|must be at most 10\^100)"):
        MEASUREMENTS[name][0](p)


@pytest.mark.parametrize("bad", [10**26, 10**400, 0, -3, 2.5, True, "9"])
@pytest.mark.parametrize("run", [one.simulate, one.measure_learned], ids=["simulate", "measure_learned"])
def test_a_bad_number_of_test_samples_is_refused_in_a_sentence(run, bad):
    with pytest.raises(one.InputError, match="n_test"):
        run(problem(n=30, d=10, N=40), 1, n_test=bad)


def test_seeds_beyond_counting_are_refused_in_a_sentence():
    from itertools import count

    for seeds in (10**12, 10**400, count()):
        with pytest.raises(one.InputError, match="seeds: there must be at most 1,000,000"):
            one.simulate(problem(n=30, d=10, N=40), seeds)
    with pytest.raises(one.InputError, match="seeds must be"):
        one.simulate(problem(n=30, d=10, N=40), [0.5])


def test_a_penalty_that_needs_the_singular_values_asks_for_their_memory(monkeypatch):
    F, y = np.random.default_rng(0).standard_normal((40, 60)), np.ones(40)
    monkeypatch.setattr(Backend, "free_memory", lambda _: 1e5)
    with pytest.raises(one.InputError, match=r"a penalty as small as λ = 1e-14 needs about .* GiB"):
        ridge.ridge_path(F, y, np.array([1e-14]))
