"""Sweeps: right numbers, nothing computed twice, failures recorded, seeds added until the answer is certain."""

import math
import shutil
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor

import numpy as np
import pytest
from scipy.stats import t as student

import onestride as one
from onestride.store import Store
from onestride.sweeps.pool import NoWorkers, WorkerLost
from onestride.sweeps.rows import MEASURED, stored_rows
from onestride.sweeps.statistics import FIRST_LOOK, sequence_stderr
from places import OLD_STORE

BASE = {"n": 30, "d": 15, "N": 45, "activation": "tanh", "teacher": [0, 1, 0.5], "noise": 0.5, "seeds": 3}
SWEEP = {
    "method": "finite-step",
    "problem": BASE,
    "axes": {"exponent": [0.0, 0.2, 0.4], "ridge": [0.1, 1.0], "d": [10, 15]},
}
GRID = SWEEP["axes"]


class Here(Executor):
    """Runs tasks in this process, one after the other, and counts them."""

    def __init__(self):
        self.tasks = []

    def submit(self, fn, /, *args, **kwargs):
        self.tasks.append(args[0])
        future = Future()
        future.set_result(fn(*args))
        return future

    @property
    def computed(self):
        """(problem, pair, seed) of every cell that was asked for."""
        return [(task.problem, pair, task.seed) for task in self.tasks for pair in task.pairs]


def run(source, store, **options):
    here = Here()
    rows = list(one.sweep(source, store, executor=here, workers=1, **options))
    return rows, here


def exact(store) -> dict:
    return {r.key: r.values for r in Store(store) if r.kind in ("run", "theory")}


def test_rows_are_what_simulate_and_predict_say(tmp_path):
    rows, _ = run(SWEEP, tmp_path)
    assert len(rows) == 12
    for row in rows:
        measured = one.simulate(row.problem, 3)
        predicted = one.predict(row.problem, method="finite-step", throw=False)
        assert row.seeds == (0, 1, 2)
        assert row.status == predicted.status.name.lower()
        for name in MEASURED:
            np.testing.assert_allclose(row.estimate(name).values, getattr(measured, name).values, rtol=1e-8, atol=1e-8)
            assert row.predicted(name) == pytest.approx(getattr(predicted, name), rel=1e-8)


def test_a_row_has_students_interval_paired_gain_and_z(tmp_path):
    rows, _ = run(SWEEP, tmp_path)
    flat, row = rows[0].to_dict(), rows[0]
    values = row.test_gain.values
    before = np.array([r.values["untrained_test_error"] for r in row.runs])
    np.testing.assert_array_equal(row.test_gain.raw.values, before - row.test_error.raw.values)
    low, high = student.interval(0.95, 2, values.mean(), values.std(ddof=1) / np.sqrt(3))
    assert (flat["test_gain_low"], flat["test_gain_high"]) == pytest.approx((low, high))
    z = (row.predicted("test_gain") - values.mean()) / (values.std(ddof=1) / np.sqrt(3))
    assert flat["test_gain_z"] == pytest.approx(z)
    assert flat["test_gain_theory"] == row.predicted("test_gain")


def test_cells_that_differ_in_exponent_and_penalty_are_one_task_per_seed(tmp_path):
    _, here = run(SWEEP, tmp_path)
    assert len(here.tasks) == 2 * (3 + 1)  # two values of d; three seeds and one theory each
    assert all(len(task.pairs) == 6 for task in here.tasks)


def test_nothing_is_computed_twice(tmp_path):
    first, _ = run(SWEEP, tmp_path)
    again, here = run(SWEEP, tmp_path)
    assert here.tasks == []
    assert [row.to_dict() for row in again] == [row.to_dict() for row in first]
    assert Store(tmp_path).check().twice == 0


def test_a_larger_sweep_computes_only_what_is_new(tmp_path):
    run(SWEEP, tmp_path)
    larger = SWEEP | {"axes": GRID | {"exponent": [0.0, 0.1, 0.2, 0.4]}, "problem": BASE | {"seeds": 4}}
    reports = []
    rows, here = run(larger, tmp_path, progress=reports.append)
    assert (reports[0].cells, reports[0].cells_known, reports[0].known) == (16, 0, 12 * 4)
    wanted = {(seed, pair[0]) for _, pair, seed in here.computed}
    assert wanted == {(None, 0.1), (0, 0.1), (1, 0.1), (2, 0.1), (3, 0.0), (3, 0.1), (3, 0.2), (3, 0.4)}
    assert len(here.computed) == len(set(here.computed)) == 2 * 2 * 8
    fresh, _ = run(larger, tmp_path / "fresh")
    for row, other in zip(rows, fresh, strict=True):
        np.testing.assert_allclose(row.test_error.values, other.test_error.values, rtol=1e-9)


def test_a_store_of_the_first_schema_is_known_work(tmp_path):
    shutil.copytree(OLD_STORE, tmp_path / "old")
    axes = {"exponent": [0.0, 0.2, 0.4], "ridge": [0.1, 1.0]}
    rows, here = run({"problem": BASE | {"seeds": 2}, "axes": axes}, tmp_path / "old")
    assert [task.seed for task in here.tasks] == [None]  # its theory did not know which numbers are off
    assert len(rows) == 6
    assert all(len(row.runs) == 2 and row.status == "inaccurate" for row in rows)  # n = 30


def test_a_damaged_line_is_computed_again_to_the_bit(tmp_path):
    run(SWEEP, tmp_path)
    before = exact(tmp_path)
    (journal,) = tmp_path.glob("journal-*.jsonl")
    lines = journal.read_bytes().splitlines(keepends=True)
    broken = next(i for i, line in enumerate(lines) if b'"kind":"run"' in line)
    lines[broken] = lines[broken].replace(b'"test_error":', b'"test_errar":')
    journal.write_bytes(b"".join(lines))
    with pytest.warns(UserWarning, match=f"set aside and to be computed again: {journal.name}, line {broken + 1} "):
        rows, here = run(SWEEP, tmp_path)
    assert len(here.computed) == 1
    assert exact(tmp_path) == before
    assert len(rows) == 12
    assert Store(tmp_path).check().quarantined == 1


FAILING = {
    "method": "none",
    "problem": BASE | {"activation": [0, 1, 0, 0.3], "seeds": 2},
    "axes": {"exponent": [0.1, 90.0], "ridge": [0.1, 1.0]},
}


def test_a_failing_cell_is_recorded_and_stops_nothing(tmp_path):
    rows, _ = run(FAILING, tmp_path)
    good = [row for row in rows if row.problem.step.exponent == 0.1]
    bad = [row for row in rows if row.problem.step.exponent == 90.0]
    assert all(len(row.runs) == 2 and not row.failures for row in good)
    assert all(not row.runs and len(row.failures) == 2 for row in bad)
    assert "overflows on the features" in bad[0].failures[0]
    assert "overflows on the features" in stored_rows(Store(tmp_path))[-1].to_dict()["reason"]
    assert math.isnan(bad[0].to_dict()["test_error"])


def test_failures_are_tried_again_only_when_asked(tmp_path):
    run(FAILING, tmp_path)
    rows, here = run(FAILING, tmp_path)
    assert here.tasks == []
    assert sum(len(row.failures) for row in rows) == 4
    rows, here = run(FAILING, tmp_path, retry_failed=True)
    assert {pair[0] for _, pair, _ in here.computed} == {90.0}
    assert sum(len(row.failures) for row in rows) == 4
    assert {r.cell["attempt"] for r in Store(tmp_path).records("failure")} == {1, 2}


def test_failures_of_another_sweep_do_not_count(tmp_path):
    run(FAILING, tmp_path)
    reports = []
    run(SWEEP, tmp_path, progress=reports.append)
    assert {report.failed for report in reports} == {0}
    run(FAILING, tmp_path, progress=reports.append)
    assert reports[-1].failed == 4


def test_workers_simulate_on_a_device(tmp_path):
    """The reference implementation of the array standard stands for a device; the record says where it was computed."""
    rows, _ = run(SWEEP, tmp_path / "here")
    there, executor = run(SWEEP, tmp_path / "there", device="strict")
    assert {task.device for task in executor.tasks} == {"strict"}
    for a, b in zip(rows, there, strict=True):
        np.testing.assert_allclose(a.test_error.values, b.test_error.values, rtol=1e-9)
        assert a.theory == b.theory
    assert {r.provenance.get("device") for r in Store(tmp_path / "there") if r.kind == "run"} == {"strict"}


def test_a_device_that_is_not_there_ends_the_sweep_before_it_begins(tmp_path):
    with pytest.raises(one.InputError, match="device must be cpu, cuda"):
        one.sweep(SWEEP, tmp_path / "store", workers=2, device="abacus")
    assert not (tmp_path / "store").exists()


def test_any_executor_gives_the_same_bits(tmp_path):
    run(SWEEP, tmp_path / "here")
    with ThreadPoolExecutor(2) as threads:
        list(one.sweep(SWEEP, tmp_path / "threads", executor=threads, threads=1))
    list(one.sweep(SWEEP, tmp_path / "pool", workers=2, threads=1))
    assert exact(tmp_path / "here") == exact(tmp_path / "threads") == exact(tmp_path / "pool")


def test_records_say_where_they_come_from(tmp_path):
    run(SWEEP, tmp_path, threads=1)
    for record in Store(tmp_path).records("run"):
        known = {"onestride", "python", "numpy", "scipy", "commit", "system", "host", "seconds", "threads", "finished"}
        assert known <= record.provenance.keys()


def test_leaving_the_loop_early_loses_nothing(tmp_path):
    loop = one.sweep(SWEEP, tmp_path, workers=2)
    next(loop)
    loop.close()
    there = len(exact(tmp_path))
    assert there >= 6 * 4
    rows, here = run(SWEEP, tmp_path)
    assert len(rows) == 12
    assert len(here.computed) == 12 * 4 - there
    assert Store(tmp_path).check().twice == 0


def test_stop_finishes_what_runs_and_starts_nothing_new(tmp_path):
    reports = []
    rows = list(one.sweep(SWEEP, tmp_path, workers=1, progress=reports.append, stop=lambda: reports[-1].done > 0))
    assert len(rows) < 12
    assert 0 < reports[-1].done < reports[-1].total
    assert len(exact(tmp_path)) == reports[-1].done


def test_two_sweeps_on_one_store_at_once_share_the_work(tmp_path):
    one_loop = one.sweep(SWEEP, tmp_path, workers=1)
    next(one_loop)
    other = list(one.sweep(SWEEP, tmp_path, workers=1))
    rest = list(one_loop)
    assert len(other) == 12
    assert len(rest) == 11
    check = Store(tmp_path).check()
    assert check.healthy
    assert check.kinds["run"] == 36


def test_a_lost_task_is_recorded_as_a_failure(tmp_path, monkeypatch):
    class Doomed(Executor):
        def submit(self, fn, /, *args, **kwargs):
            future = Future()
            future.set_exception(WorkerLost("its process died 3 times"))
            return future

    rows = list(one.sweep(SWEEP, tmp_path, executor=Doomed(), workers=1))
    assert len(rows) == 12
    assert all(set(row.failures) == {"its process died 3 times"} for row in rows)


def test_a_broken_executor_ends_the_sweep_with_a_sentence(tmp_path):
    class Broken(Executor):
        def submit(self, fn, /, *args, **kwargs):
            future = Future()
            future.cancel()
            return future

    with pytest.raises(ConnectionError, match=r"gave up its tasks.*run the sweep again to resume"):
        list(one.sweep(SWEEP, tmp_path, executor=Broken(), workers=1))
    assert Store(tmp_path).records("failure") == []


def test_seeds_are_added_until_the_standard_error_is_reached(tmp_path):
    source = SWEEP | {"axes": {"exponent": [0.2, 0.4], "ridge": [0.1, 1.0]}}
    rows, here = run(source, tmp_path, target_stderr=0.03, max_seeds=400)
    count = len(rows[0].seeds)
    assert FIRST_LOOK < count < 400
    assert all(row.seeds == tuple(range(count)) for row in rows)  # seeds stay paired
    assert all(sequence_stderr(row.test_error.values) <= 0.03 for row in rows)
    assert len(here.computed) == len(set(here.computed))
    again, here = run(source, tmp_path, target_stderr=0.03, max_seeds=400)
    assert here.tasks == []
    assert [row.seeds for row in again] == [row.seeds for row in rows]


def test_added_seeds_are_capped(tmp_path):
    source = SWEEP | {"axes": {"exponent": [0.2]}}
    rows, _ = run(source, tmp_path, target_stderr=1e-6, max_seeds=13)
    assert rows[0].seeds == tuple(range(13))


def test_failing_cells_get_no_further_seeds(tmp_path):
    rows, _ = run(FAILING, tmp_path, target_stderr=10.0, max_seeds=50)
    assert {len(row.runs) + len(row.failures) for row in rows} == {FIRST_LOOK}
    rows, _ = run(FAILING, tmp_path / "few", target_stderr=1e-9, max_seeds=3)
    assert {len(row.runs) + len(row.failures) for row in rows} == {3}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"target_stderr": 0}, "target_stderr must be a number above 0, got 0"),
        ({"workers": 0}, "workers must be a whole"),
    ],
)
def test_wrong_options_are_sentences(tmp_path, options, sentence):
    with pytest.raises(one.InputError, match=sentence):
        one.sweep(SWEEP, tmp_path, **options)


@pytest.mark.parametrize("lost", [NoWorkers("no processes"), BrokenExecutor("gone"), CancelledError()])
def test_workers_that_end_with_a_driver_that_is_told_to_are_no_mistake(tmp_path, lost):
    """A batch system tells all processes of a job; without that request it is one."""

    class Gone(Executor):
        def submit(self, *_, **__):
            future = Future()
            future.set_exception(lost)
            asked.append(True)
            return future

    asked = []
    assert list(one.sweep(SWEEP, tmp_path, executor=Gone(), stop=lambda: bool(asked))) == []
    assert asked
    with pytest.raises((one.InputError, ConnectionError)):
        list(one.sweep(SWEEP, tmp_path, executor=Gone()))
    assert not Store(tmp_path).records("failure")
