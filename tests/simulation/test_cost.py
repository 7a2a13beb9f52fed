"""The plan: what it decides, what it counts, and that the simulation does as it says."""

from __future__ import annotations

import numpy as np
import pytest

import onestride as one
from networks import problem
from onestride._backend import HOST, Backend, choose
from onestride.simulation import cost, rates
from onestride.simulation.cost import Plan, plan

RATES = ("float64 product", "float32 product", "factorisation", "activation", "draws")


def test_the_plan_is_the_counted_work_over_the_rates(monkeypatch):
    """One seed at n = 1000, d = 500, N = 2000 (dual, float32 factors), two exponents and the untrained network."""
    n, d, N, tests, seeds, penalties, networks = 1000, 500, 2000, 1500, 3, 2, 3
    products = 4 * n * d * N + 4 * (n + tests) * d * N  # gradient; X̃W₀ᵀ and X̃Gᵀ
    grams = networks * n * n * N
    factors = networks * penalties * n**3 / 3
    refinement = 4 * networks * cost.REFINEMENTS * n * N * cost.COLUMNS * penalties  # signal, noise, slope
    predictions = 2 * networks * tests * N * cost.COLUMNS * penalties
    elementwise = networks * (n + tests) * N + 2 * n * N
    drawn = d * (N + n + n + tests)
    speeds = dict(zip(RATES, (1e9, 4e9, 2e9, 1e8, 5e7), strict=True))
    monkeypatch.setattr(cost, "measured_rates", lambda *_, **__: speeds)
    found = cost.plan(problem(n=n, d=d, N=N), [0.1, 0.3], [0.1, 1.0], seeds, n_test=tests)
    assert found.flops == pytest.approx(seeds * (products + grams + factors + refinement + predictions), rel=1e-12)
    seconds = (products + predictions) / 1e9 + grams / 4e9 + factors / 2e9 + refinement / 0.5e9
    seconds += elementwise / 1e8 + drawn / 5e7
    assert found.seconds == pytest.approx(seeds * seconds, rel=1e-12)
    assert (found.seeds, found.exponents, found.penalties) == (seeds, 2, 2)


@pytest.mark.parametrize(("tridiagonal", "factorisation"), [(False, 1 / 3), (True, 4 / 3)])
def test_rates_are_operations_over_seconds(tridiagonal, factorisation, monkeypatch):
    """A clock that moves by half a second between two looks at it."""
    now = iter(np.arange(0.0, 1e4, 0.5))
    monkeypatch.setattr(rates, "perf_counter", lambda: next(now))
    monkeypatch.setattr(rates, "TRIAL", 64)
    found = rates.measured_rates(problem().sigma, HOST, tridiagonal=tridiagonal)
    expected = (2 * 64**3, 2 * 64**3, factorisation * 64**3, 64**2, 64**2)
    assert found == pytest.approx({name: 2 * work for name, work in zip(RATES, expected, strict=True)})


def test_a_plan_counts_any_size_up_to_ten_to_the_hundred(monkeypatch):
    monkeypatch.setattr(cost, "measured_rates", lambda *_, **__: dict.fromkeys(RATES, 1e9))
    for size in (10**26, 10**100):
        p = cost.plan(problem(n=size, d=size, N=size), seeds=2)
        assert np.isfinite([p.flops, p.memory, p.seconds]).all()
        assert p.memory > 8.0 * float(size) ** 2
    with pytest.raises(one.InputError, match=r"d must be at most 10\^100 .* 201 digits"):
        cost.plan(problem(n=10, d=10**200, N=10))


def test_the_count_of_operations_is_that_of_the_products():
    p = problem(n=2000, d=1000, N=3000)
    count = Plan(p, 11, 8, 2000, exponents=10).operations
    assert count.products == 6 * 2 * 2000 * 1000 * 3000
    assert count.grams == 11 * 2000 * 2000 * 3000
    assert count.factors == pytest.approx(11 * 4 / 3 * 2000**3)
    assert count.drawn == 1000 * (3000 + 3 * 2000)


def test_the_plan_names_the_method_and_needs_no_run(monkeypatch):
    monkeypatch.setattr(cost, "measured_rates", lambda *_, **__: dict.fromkeys(RATES, 1e9))
    small, large, long = (
        plan(problem(**sizes), seeds=2)
        for sizes in (
            {"n": 100, "d": 50, "N": 150},
            {"n": 2000, "d": 1000, "N": 3000},
            {"n": 10**6, "d": 1000, "N": 2000},
        )
    )
    assert "float64" in small.method
    assert "float32 factors" in large.method
    assert "stream" in long.method
    assert long.memory < 4 * 2**30
    assert 0 < small.seconds < large.seconds < long.seconds
    assert large.to_dict()["operations"]["products"] == large.operations.products
    assert large.to_dict()["problem"] == large.problem.to_dict()
    assert "<th>seconds</th>" in large._repr_html_()


@pytest.mark.parametrize(
    ("fields", "penalties", "device", "decided"),
    [
        ({"n": 300, "N": 900}, 1, "cpu", (False, False, True)),
        ({"n": 500, "N": 900}, 4, "cpu", (False, True, False)),
        ({"n": 500, "N": 900}, 5, "cpu", (False, True, True)),
        ({"n": 10**6, "N": 900}, 1, "cpu", (True, False, True)),
        ({"n": 15_000, "N": 10_000}, 1, "cpu", (False, True, False)),  # two Gram matrices would be more than F
        ({"n": 300, "N": 900}, 9, "strict", (False, True, False)),
        ({"n": 10**6, "N": 900}, 9, "strict", (True, False, False)),
    ],
)
def test_the_plan_decides_the_algorithm(fields, penalties, device, decided):
    found = Plan(problem(**fields), 2, penalties, backend=choose(device))
    assert (found.streams, found.way.refined, found.way.tridiagonal) == decided


def test_memory_is_that_of_every_gram_matrix_and_of_all_seeds_at_a_time(monkeypatch):
    several = [Plan(problem(n=10**6, d=20, N=1000), networks).memory for networks in (1, 11)]
    assert several[1] - several[0] >= 8.0 * 2 * 10 * 1000**2
    monkeypatch.setattr(cost.streams, "threads", lambda: 4)
    assert Plan(problem(), seeds=9).memory == 4 * Plan(problem(), seeds=1).memory


def test_a_plan_without_room_keeps_and_stores_nothing(monkeypatch):
    roomy = Plan(problem(), backend=choose("strict"))
    assert roomy.keeps_weights
    assert roomy.stores_features
    monkeypatch.setattr(Backend, "total_memory", lambda _: 0.0)
    monkeypatch.setattr(Backend, "free_memory", lambda _: 0.0)
    assert roomy.stores_features  # it was decided before
    tight = Plan(problem(), backend=choose("strict"))
    assert not tight.keeps_weights
    assert not tight.stores_features


def test_equal_steps_are_planned_once_as_they_are_measured_once():
    assert plan(problem(), [0.3, 0.1, 0.3]).networks == 3
    assert plan(problem(), [0.3, 0.1, 0.3], untrained=False).networks == 2
    assert plan(problem(step=one.Step.none())).networks == 1
