"""Cells whose labels have too heavy tails for their seeds: rows, exports and plots say so, and seeds are added."""

import csv

import pytest

import onestride as one
from onestride.cli import main
from onestride.cli.sweeps import _tally
from onestride.store import Record, Store
from onestride.sweeps.cells import NUMERICS, problem_content, run_cell
from onestride.sweeps.ledger import Ledger
from onestride.sweeps.rows import stored_rows, tails_words
from onestride.sweeps.running import Running
from onestride.sweeps.spec import read_sweep

NAMES = [f"{before}{name}" for before in ("", "untrained_") for name in ("train_loss", "train_mse", "test_error")]
SHAPE = {"n": 400, "d": 20, "N": 30, "teacher": (0, 1, 0.7071), "directions": 3}


def run(problem: one.Problem, seed: int, *, luck: bool = False) -> Record:
    values: dict = dict.fromkeys(NAMES, 1.0 + seed / 1000)
    if luck:
        values["luck"] = {"moments": [], "freed": dict.fromkeys(NAMES, 1.0), "slopes": {name: [] for name in NAMES}}
    cell = run_cell(problem_content(problem), seed)
    return Record.new("run", cell, values, {}, numerics=NUMERICS["run"])


@pytest.fixture
def store(tmp_path):
    """Eight seeds of a sum and of a staircase of three directions, at two penalties."""
    problems = [one.Problem(**SHAPE, mix=mix, ridge=ridge) for mix in ("sum", "staircase") for ridge in (0.1, 1.0)]
    with Store(tmp_path / "s", create=True) as opened:
        opened.put(*(run(p, seed) for p in problems for seed in range(8)))
    return tmp_path / "s"


def test_rows_say_where_their_error_bars_are_too_narrow(store):
    rows = stored_rows(Store(store))
    assert {(row.problem.mix, row.tails is None) for row in rows} == {("sum", True), ("staircase", False)}
    heavy = next(row for row in rows if row.tails)
    assert heavy.tails in repr(heavy)
    assert heavy.tails in heavy._repr_html_()
    assert [line["tails"] != "" for line in (row.to_dict() for row in rows)] == [row.tails is not None for row in rows]
    assert tails_words(rows).startswith("In 2 of 4 cells ± is too narrow")
    assert tails_words([row for row in rows if not row.tails]) == ""
    assert _tally(rows)["heavy"] == 2
    running = Running("s", 4, (row for row in rows)).finish()
    for words in (repr(running), running._repr_html_()):
        assert words.count("In 2 of 4 cells ± is too narrow") == 1


def test_cells_of_one_direction_are_freed_if_their_records_are(tmp_path):
    """Plain values, of records without luck, have the tails of their labels."""
    problem = one.Problem(n=40, d=20, N=30, teacher=(0, 0, 0, 0, 1))
    for luck in (False, True):
        with Store(tmp_path / str(luck), create=True) as opened:
            opened.put(*(run(problem, seed, luck=luck) for seed in range(8)))
        (row,) = stored_rows(Store(tmp_path / str(luck)))
        assert (row.tails is None) == luck


def test_exports_and_plots_say_it_once(store, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    for command in (["export", str(tmp_path / "x.csv")], ["plot", "--out", str(tmp_path / "f")]):
        with pytest.raises(SystemExit) as stop:
            main(["sweep", *command, "--store", str(store)])
        assert not stop.value.code
        assert " ".join(capsys.readouterr().out.split()).count("In 2 of 4 cells ± is too narrow") == 1
    lines = list(csv.DictReader((tmp_path / "x.csv").read_text(encoding="utf-8").splitlines()))
    assert {(line["mix"], line["tails"][:16]) for line in lines} == {("sum", ""), ("staircase", "± is too narrow:")}


@pytest.mark.parametrize(("mix", "added"), [("sum", None), ("staircase", (8, 9, 10, 11))])
def test_seeds_are_added_where_their_spread_says_too_little(tmp_path, mix, added):
    sweep = read_sweep({"method": "none", "problem": {**SHAPE, "mix": mix, "seeds": 2}, "axes": {"ridge": [0.1, 1.0]}})
    store = Store(tmp_path, create=True)
    store.put(*(run(problem, seed) for problem, _ in sweep.points for seed in range(8)))
    ledger = Ledger(sweep, store, target=0.1, max_seeds=20, retry_failed=False)
    (job,) = ledger.jobs
    ledger.begin(job)
    assert ledger.add_seeds(job) == added
