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
from onestride import _backend
from onestride._backend import Backend
from onestride.simulation import cost, equivalent, gradient, memory, ridge, streamed

SQUARE = {"n": 800, "d": 400, "N": 800}
DUAL = {"n": 450, "d": 300, "N": 1500}
PRIMAL = {"n": 3000, "d": 200, "N": 420}
WIDE = {"n": 200, "d": 2000, "N": 500}

Measurement = tuple[Callable[[one.Problem], Any], Callable[[one.Problem], float]]
MEASUREMENTS: dict[str, Measurement] = {
    "simulate": (lambda p: one.simulate(p, [0]), memory.memory_needed),
    "grid": (
        lambda p: one.simulate_grid(p, [0.1, 0.2, 0.3], np.geomspace(0.01, 1, 6), [0]),
        lambda p: memory.memory_needed(p, 4, 6),
    ),
    "three penalties": (
        lambda p: one.simulate_grid(p, [0.3], [0.1, 1.0, 2.0], [0], untrained=False, n_test=500),
        lambda p: memory.memory_needed(p, 1, 3, 500),
    ),
    "float32": (lambda p: one.simulate(p, [0], dtype="float32"), memory.memory_needed),
    "learned": (lambda p: one.measure_learned(p, [0]), lambda p: memory.learned_memory(p, max(4 * p.n, 4000))),
    "spectrum": (lambda p: one.measure_spectrum(p, [0]), lambda p: memory.spectrum_memory(p, 6, full=True)),
    "leading": (
        lambda p: one.measure_spectrum(p, [0], full=False),
        lambda p: memory.spectrum_memory(p, 6, full=False),
    ),
    "density": (lambda p: one.measure_density(p, [0]), memory.density_memory),  # pyright: ignore
    "expansions": (
        lambda p: equivalent.measure_expansions(p, 2, [0]),
        lambda p: memory.expansion_memory(p, 0),
    ),
    "equivalence": (
        lambda p: equivalent.measure_equivalence(p, 2, [0]),
        lambda p: memory.expansion_memory(p, 3),
    ),
    "limit": (lambda p: equivalent.measure_limit(p, 2, [0]), memory.limit_memory),
    "gradient": (lambda p: gradient.measure_gradient(p, [0]), memory.gradient_memory),
}


def problem(**fields: Any) -> one.Problem:
    step = one.Step(constant=1.0, exponent=0.3)
    return one.Problem(**({"teacher": (0, 1, 0.7071), "noise": 0.5, "step": step} | fields))


def peak(work: Callable[[], Any]) -> float:
    """Most bytes that were allocated at the same time."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def assert_states_its_need(name: str, p: one.Problem) -> None:
    run, need = MEASUREMENTS[name]
    run(problem(n=30, d=10, N=40))  # tables that are made once
    stated, taken = need(p), peak(lambda: run(p))
    assert taken > 5e6  # large enough for the formula to matter
    assert taken / 1.5 < stated < 1.5 * taken


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(_backend, "TILE_BYTES", 2**21)
    monkeypatch.setattr(_backend, "threads", lambda: 1)


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
        ("simulate", DUAL | {"n_step": 6000}),
        ("learned", DUAL | {"n_step": 6000}),
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
    monkeypatch.setattr(streamed, "LARGE", 0)
    monkeypatch.setattr(_backend, "BLOCK_NUMBERS", 2**16)
    monkeypatch.setattr(_backend, "threads", lambda: threads)
    p = problem(n=8_000, d=100, N=300)
    assert streamed.worth_streaming(p, 4)
    assert_states_its_need(name, p)


def test_a_simulation_that_streams_does_not_grow_with_the_samples(monkeypatch):
    monkeypatch.setattr(streamed, "LARGE", 0)
    monkeypatch.setattr(_backend, "BLOCK_NUMBERS", 2**16)
    few, many = (peak(lambda n=n: one.simulate(problem(n=n, d=50, N=200), [0], n_test=500)) for n in (4_000, 32_000))
    blocks = 4 * 8 * 2**16  # how many of those drawn ahead are there at the peak is a matter of time
    assert many - few < 8 * 6 * (32_000 - 4_000) + blocks  # a few vectors of n numbers; no n × d or n × N array


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("learned", {"n": 450, "d": 20, "N": 3000}),
        ("learned", {"n": 6000, "d": 20, "N": 300}),
        ("spectrum", {"n": 450, "d": 20, "N": 3000}),
        ("spectrum", {"n": 3000, "d": 20, "N": 450}),
        ("leading", {"n": 3000, "d": 20, "N": 300}),
        ("density", {"n": 300, "d": 20, "N": 2000}),
    ],
)
def test_without_room_for_the_features_they_are_made_anew(name, shape, monkeypatch):
    run, need = MEASUREMENTS[name]
    p = problem(**shape)
    stored, here = need(p), run(p)
    monkeypatch.setattr(Backend, "free_memory", lambda _: 0.0)
    monkeypatch.setattr(memory, "require_memory", lambda *_: None)
    assert need(p) < stored
    assert_states_its_need(name, p)
    there = run(p)
    fields = {"learned": ("fraction", "unexplained"), "density": ("density", "untrained_density")}
    for field in fields.get(name, ("eigenvalues", "untrained_eigenvalues", "overlaps")):
        a, b = getattr(there, field).values, getattr(here, field).values
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7 * np.abs(b).max())


@pytest.mark.parametrize("shape", [SQUARE, PRIMAL], ids=["n = N", "n > N"])
def test_the_plan_states_the_memory_of_the_grid(shape, monkeypatch):
    monkeypatch.setattr(cost, "_rates", lambda *_: dict.fromkeys(RATES, 1e9))
    p, exponents, ridges = problem(**shape), [0.0, 0.2], [0.01, 0.1]
    stated = cost.plan(p, exponents, ridges, 1, n_test=1000).memory
    taken = peak(lambda: one.simulate_grid(p, exponents, ridges, 1, n_test=1000))
    assert taken / 1.5 < stated < 1.5 * taken


# ----------------------------------------------------------------------------------------------------------- refusals

SIZES = [{"n": 10**26}, {"d": 10**26}, {"N": 10**26}, {"n_step": 10**26}, {"n": 10**12}, {"N": 10**400}]


@pytest.mark.parametrize("sizes", SIZES, ids=[f"{k}=1e{len(str(v)) - 1}" for s in SIZES for k, v in s.items()])
@pytest.mark.parametrize("name", MEASUREMENTS)
def test_sizes_beyond_every_machine_are_refused_in_a_sentence(name, sizes):
    p = problem(**({"n": 60, "d": 20, "N": 80} | sizes))
    (key,) = sizes
    with pytest.raises(one.InputError, match=rf"\b{key} (= .*GiB of memory|must be at most 10\^100)"):
        MEASUREMENTS[name][0](p)


def test_a_plan_counts_any_size_up_to_ten_to_the_hundred(monkeypatch):
    monkeypatch.setattr(cost, "_rates", lambda *_: dict.fromkeys(RATES, 1e9))
    for size in (10**26, 10**100):
        p = cost.plan(problem(n=size, d=size, N=size), seeds=2)
        assert np.isfinite([p.flops, p.memory, p.seconds]).all()
        assert p.memory > 8.0 * float(size) ** 2
    with pytest.raises(one.InputError, match=r"d must be at most 10\^100 .* 401 digits"):
        cost.plan(problem(n=10, d=10**400, N=10))


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


# --------------------------------------------------------------------------------------------------------------- plan

RATES = ("float64 product", "float32 product", "factorisation", "activation", "draws")


def test_the_plan_is_the_counted_work_over_the_rates(monkeypatch):
    """One seed at n = 1000, d = 500, N = 2000 (dual, float32 factors), two exponents and the untrained network."""
    n, d, N, tests, seeds, penalties, networks = 1000, 500, 2000, 1500, 3, 2, 3
    products = 4 * n * d * N + 4 * (n + tests) * d * N  # gradient; X̃W₀ᵀ and X̃Gᵀ
    grams = networks * n * n * N
    factors = networks * penalties * n**3 / 3
    refinement = 4 * networks * cost.REFINEMENTS * n * N * penalties
    predictions = 2 * networks * tests * N * penalties
    elementwise = networks * (n + tests) * N + 2 * n * N
    drawn = d * (N + n + n + tests)
    rates = dict(zip(RATES, (1e9, 4e9, 2e9, 1e8, 5e7), strict=True))
    monkeypatch.setattr(cost, "_rates", lambda *_: rates)
    plan = cost.plan(problem(n=n, d=d, N=N), [0.1, 0.3], [0.1, 1.0], seeds, n_test=tests)
    assert plan.flops == pytest.approx(seeds * (products + grams + factors + refinement + predictions), rel=1e-12)
    seconds = (products + predictions) / 1e9 + grams / 4e9 + factors / 2e9 + refinement / 0.5e9
    seconds += elementwise / 1e8 + drawn / 5e7
    assert plan.seconds == pytest.approx(seeds * seconds, rel=1e-12)
    assert (plan.seeds, plan.exponents, plan.penalties) == (seeds, 2, 2)


@pytest.mark.parametrize(("penalties", "factorisation"), [(1, 1 / 3), (6, 4 / 3)], ids=["Cholesky", "tridiagonal"])
def test_rates_are_operations_over_seconds(penalties, factorisation, monkeypatch):
    """A clock that moves by half a second between two looks at it."""
    now = iter(np.arange(0.0, 1e4, 0.5))
    monkeypatch.setattr(cost.time, "perf_counter", lambda: next(now))
    monkeypatch.setattr(cost, "TRIAL", 64)
    rates = cost._rates(problem(n=30, d=10, N=40), penalties)
    expected = (2 * 64**3, 2 * 64**3, factorisation * 64**3, 64**2, 64**2)
    assert rates == pytest.approx({name: 2 * work for name, work in zip(RATES, expected, strict=True)})
