"""The books of a sweep: what is counted, what is left, what is tried again."""

import os

import pytest

import onestride as one
from onestride.store import Record, Store
from onestride.sweeps.cells import NUMERICS
from onestride.sweeps.ledger import Ledger, Progress
from onestride.sweeps.spec import read_sweep

NAMES = [f"{before}{name}" for before in ("", "untrained_") for name in ("train_loss", "train_mse", "test_error")]
SWEEP = read_sweep(
    {"method": "none", "problem": {"n": 30, "d": 15, "N": 45, "seeds": 2}, "axes": {"ridge": [0.1, 1.0]}}
)
(GROUP,) = SWEEP.groups


def run(place: int, seed: int, value: float = 0.5) -> Record:
    return Record.new("run", GROUP.cells(seed)[place], dict.fromkeys(NAMES, value), {}, numerics=NUMERICS["run"])


def failure(place: int, seed: int, attempt: int = 1) -> Record:
    about = {"of": "run", "cell": GROUP.cells(seed)[place], "attempt": attempt}
    return Record.new("failure", about, {"reason": "no memory"}, {}, numerics=NUMERICS["failure"])


def books(path, *records: Record, target=None, max_seeds=20, retry_failed=False) -> Ledger:
    store = Store(path, create=True)
    store.put(*records)
    return Ledger(SWEEP, store, target=target, max_seeds=max_seeds, retry_failed=retry_failed)


def test_known_and_failed_results_are_counted_and_the_rest_is_left(tmp_path):
    ledger = books(tmp_path, run(0, 0), run(0, 1), failure(1, 0))
    (job,) = ledger.jobs
    assert ledger.begin(job) == (1,)
    assert ledger.progress == Progress(done=3, total=4, failed=1, known=3, cells=2, cells_known=1)
    assert ledger.task(job, 0, 1, None) is None
    task = ledger.task(job, 1, 1, None)
    assert task is not None
    assert (task.pairs, task.ridges, task.attempt) == ((GROUP.pairs[1],), (0.1, 1.0), 1)
    ledger.settle(job, 1, [run(1, 1)])
    assert job.left == {}
    assert ledger.progress.done == 4
    assert [(row.seeds, row.failures) for row in ledger.rows(job)] == [((0, 1), ()), ((1,), ("no memory",))]


def test_an_earlier_failure_is_tried_again_when_asked_for_and_counts_its_attempts(tmp_path):
    ledger = books(tmp_path, failure(0, 0, attempt=2), retry_failed=True)
    (job,) = ledger.jobs
    assert ledger.begin(job) == (0, 1)
    task = ledger.task(job, 0, None, None)
    assert task is not None
    assert task.attempt == 3
    ledger.settle(job, 0, [failure(0, 0, attempt=3), run(1, 0)])
    assert ledger.progress.failed == 1
    assert ledger.task(job, 0, None, None) is None  # a failure of this run is not tried again


def test_attempts_are_counted_whatever_the_order_in_which_journals_are_read(tmp_path):
    ledger = books(tmp_path, failure(0, 0, attempt=2), failure(0, 0, attempt=1), retry_failed=True)
    (job,) = ledger.jobs
    ledger.begin(job)
    task = ledger.task(job, 0, None, None)
    assert task is not None
    assert task.attempt == 3


def test_work_that_another_driver_has_done_meanwhile_is_not_done_again(tmp_path):
    ledger = books(tmp_path)
    (job,) = ledger.jobs
    ledger.begin(job)
    with Store(tmp_path) as other:
        other.put(run(0, 0), run(1, 0))
    ledger.learn(ledger.store.refresh())
    assert ledger.task(job, 0, None, None) is None
    assert ledger.task(job, 1, None, None) is not None


@pytest.mark.parametrize(("spread", "added"), [(0.0, None), (1.0, (8, 9, 10, 11))])
def test_seeds_are_added_to_what_is_uncertain_only(tmp_path, spread, added):
    """Eight seeds at first, however few the sweep has; half as many again at a time."""
    known = [run(place, seed, 1 + spread * seed) for place in (0, 1) for seed in range(8)]
    ledger = books(tmp_path, *known, target=0.1)
    (job,) = ledger.jobs
    assert job.group.seeds == tuple(range(8))
    assert ledger.begin(job) == ()
    assert ledger.add_seeds(job) == added
    assert len(job.group.seeds) == 8 + len(added or ())


def test_no_more_seeds_are_added_than_there_may_be(tmp_path):
    known = [run(place, seed, 1.0 + seed) for place in (0, 1) for seed in range(8)]
    ledger = books(tmp_path, *known, target=0.1, max_seeds=9)
    (job,) = ledger.jobs
    ledger.begin(job)
    assert ledger.add_seeds(job) == (8,)


@pytest.mark.parametrize(("slope", "added"), [(1.0, None), (0.0, (8, 9, 10, 11))], ids=["luck removed", "luck left"])
def test_the_target_is_one_of_values_freed_of_luck(tmp_path, slope, added):
    """Values 1 + m spread by 2.4; those less slope × moment not at all where the slope is 1."""

    def lucky(place: int, seed: int) -> Record:
        value = 1.0 + (seed - 3.5)
        luck = {
            "moments": [seed - 3.5],
            "freed": dict.fromkeys(NAMES, value),
            "slopes": {name: [slope] for name in NAMES},
        }
        values = dict.fromkeys(NAMES, value) | {"luck": luck}
        return Record.new("run", GROUP.cells(seed)[place], values, {}, numerics=NUMERICS["run"])

    ledger = books(tmp_path, *(lucky(place, seed) for place in (0, 1) for seed in range(8)), target=0.1)
    (job,) = ledger.jobs
    ledger.begin(job)
    assert ledger.add_seeds(job) == added


def test_a_sweep_and_its_damage_are_told_when_the_books_are_opened(tmp_path):
    (tmp_path / "journal-elsewhere-1-1.jsonl").write_text("no line\n")
    os.utime(tmp_path / "journal-elsewhere-1-1.jsonl", (0, 0))  # its writer is long gone
    with pytest.warns(UserWarning, match="set aside and to be computed again: journal-elsewhere"):
        ledger = books(tmp_path)
    (record,) = ledger.store.records("sweep")
    assert record.cell["sweep"] == SWEEP.data
    assert one.Store(tmp_path).check().quarantined == 1
