"""What a sweep will cost: what the store knows is not counted as work."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

import onestride as one
from onestride.store import Record, Store
from onestride.sweeps import plan
from onestride.sweeps.drive import largest_memory
from onestride.sweeps.plan import make_plan, work
from onestride.sweeps.spec import read_sweep

BASE = {"n": 30, "d": 15, "N": 45, "noise": 0.5, "seeds": 2}
AXES = {"exponent": [0.0, 0.2], "ridge": [0.1, 1.0]}
FIRST = {"method": "finite-step", "problem": BASE, "axes": AXES}
LARGER = FIRST | {"axes": AXES | {"exponent": [0.0, 0.2, 0.4]}}


def test_what_is_bound_to_its_own_d_is_planned_too():
    """The trial that times a sweep is smaller; a covariance of d eigenvalues and many directions do not fit into it."""
    law = {"eigenvalues": [1.0] * 11 + [4.0]}
    for own in ({"inputs": law}, {"inputs": one.Covariance(law["eigenvalues"])}, {"directions": 12}):
        sweep = read_sweep({"method": "none", "problem": BASE | {"d": 12} | own, "axes": AXES})
        assert len(sweep.points) == 4
        assert make_plan(sweep, workers=1).basis.startswith("timed now, on one thread: one seed at n = 30, d = 12, N =")


def test_known_cells_cost_nothing(tmp_path):
    empty = make_plan(read_sweep(LARGER), workers=2)
    assert (empty.cells, empty.groups, empty.runs, empty.predictions) == (6, 1, 12, 6)
    assert (empty.cells_known, empty.runs_known, empty.predictions_known, empty.workers) == (0, 0, 0, 2)
    with ThreadPoolExecutor(1) as executor:
        list(one.sweep(FIRST, tmp_path, executor=executor))
    left = make_plan(read_sweep(LARGER), Store(tmp_path), workers=2)
    assert (left.cells_known, left.runs_known, left.predictions_known) == (4, 8, 4)
    assert 0 < left.flops < empty.flops
    seeds = make_plan(read_sweep(FIRST | {"problem": BASE | {"seeds": 3}}), Store(tmp_path), workers=2)
    assert (seeds.cells_known, seeds.runs_known, seeds.predictions_known) == (0, 8, 4)  # a seed is missing in each
    assert left.basis.startswith("timed now, on one thread: one seed at n = 30, d = 15, N = 45 (")
    known = make_plan(read_sweep(FIRST), Store(tmp_path))
    assert (known.flops, known.seconds, known.basis) == (0, 0, "nothing is left to compute")


def test_a_seed_of_a_sweep_is_as_much_work_as_simulate_says_of_it():
    group = read_sweep(FIRST).groups[0]
    there = one.plan(group.problem, AXES["exponent"], AXES["ridge"], seeds=1)
    assert (work(group), largest_memory([group])) == (there.flops, there.memory)


def test_workers_share_the_cores(monkeypatch):
    monkeypatch.setattr("onestride.sweeps.plan.cores", lambda: 8)
    monkeypatch.setattr("onestride.sweeps.plan._estimate", lambda *_: (1.0, "timed before"))
    assert [make_plan(read_sweep(FIRST), workers=workers).threads for workers in (1, 3, 20)] == [8, 2, 1]


def test_the_time_is_that_of_the_trials_for_all_that_is_left_by_the_workers(monkeypatch):
    """A clock that each trial moves on by ten seconds: two exponents of three are predicted, one seed of two is drawn."""
    clock = [0.0]
    monkeypatch.setattr(plan, "perform", lambda task: clock.__setitem__(0, clock[0] + 10))
    monkeypatch.setattr(plan, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    drawn, predicted = 2 * 10, 10 * 3 / 2  # the trial is of the whole problem, and small enough
    for workers in (1, 4):
        assert make_plan(read_sweep(LARGER), workers=workers).seconds == pytest.approx((drawn + predicted) / workers)
    assert make_plan(read_sweep(LARGER | {"method": "none"}), workers=1).seconds == pytest.approx(drawn)


def test_where_nothing_is_known_no_result_is_looked_up(tmp_path, monkeypatch):
    """The keys of a million cells take a minute."""
    expected = make_plan(read_sweep(LARGER), workers=1).to_dict()
    monkeypatch.setattr("onestride.sweeps.cells.key_of", lambda *_: pytest.fail("a key was made"))
    monkeypatch.setattr(plan, "perform", lambda _: [])
    for store in (None, Store(tmp_path, create=True)):
        found = make_plan(read_sweep(LARGER), store, workers=1).to_dict()
        assert {name: found[name] for name in found if name not in ("seconds", "basis")} == {
            name: expected[name] for name in expected if name not in ("seconds", "basis")
        }


def test_the_time_of_a_prediction_is_that_of_the_prediction(monkeypatch):
    """Its pairs are chosen once: a look at all of them for each took longer than the prediction, and was timed with it."""
    axes = {"exponent": [i / 1000 for i in range(40)], "ridge": [0.1 + i for i in range(40)]}
    sweep = read_sweep({"problem": BASE, "axes": axes})
    (group,) = sweep.groups
    looks, real = [], type(group).exponents.fget
    monkeypatch.setattr(type(group), "exponents", property(lambda self: looks.append(1) or real(self)))
    monkeypatch.setattr(plan, "perform", lambda _: [])
    assert make_plan(sweep, workers=1).basis.endswith("; workers taken as fully parallel")
    assert len(looks) < 20


@pytest.mark.parametrize("known", [False, True])
def test_reading_and_planning_tell_how_far_they_are(tmp_path, monkeypatch, known):
    monkeypatch.setattr("onestride.sweeps.spec.TELL_EVERY", 2)
    monkeypatch.setattr(plan, "perform", lambda _: [])
    told = []
    sweep = read_sweep({"problem": BASE, "axes": AXES | {"noise": [0.1, 0.2]}}, progress=lambda *at: told.append(at))
    assert told == [(0, 8), (2, 8), (4, 8), (6, 8)]
    told.clear()
    with Store(tmp_path, create=True) as store:
        if known:
            store.put(Record.new("note", {}, {}, {}))
        make_plan(sweep, store, workers=1, progress=lambda *at: told.append(at))
    assert told == [(0, 8), (4, 8), (8, 8)]
