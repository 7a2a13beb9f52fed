"""The real program: killed, interrupted, out of disk; and what its commands print and write."""

import contextlib
import csv as python_csv
import importlib.util
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import onestride as one
from onestride.cli import main
from onestride.store import Store
from places import ROOT
from waiting import LIMIT, wait_for

PROGRAM = str(Path(sys.executable).parent / "onestride")
SMALL = """method = "finite-step"
[problem]
n = 200
N = 300
noise = 0.5
seeds = 2
[axes]
exponent = [0.0, 0.2, 0.4]
ridge = [0.1, 1.0]
d = [100, 150]
"""


def benchmark():
    spec = importlib.util.spec_from_file_location("sweep_faults", ROOT / "benchmarks" / "sweep_faults.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.GROUPS = 8  # fewer cells, and enough to be killed among
    return module


faults = benchmark()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    return tmp_path


def onestride(folder, *arguments):
    """Run a command in this process, which saves the second that a new one needs to start."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(list(arguments))
        except SystemExit as stop:
            code = stop.code or 0
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """The small sweep in a store, and its rows."""
    path = tmp_path_factory.mktemp("swept")
    (path / "small.toml").write_text(SMALL)
    return path / "s", list(one.sweep(path / "small.toml", path / "s", workers=1))


@pytest.fixture
def filled(folder, swept):
    """A folder with the small sweep and a copy of its store, and the rows."""
    shutil.copytree(swept[0], folder / "s")
    return folder, swept[1]


def exact(store):
    return {r.key: r.values for r in Store(store) if r.kind in ("run", "theory")}


# ---------------------------------------------------------------------- faults


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    return folder, faults.reference(folder)[0]


def test_killed_worker_and_killed_driver_cost_nothing(undisturbed):
    """One round of benchmarks/sweep_faults.py: bit-equal after a restart, no process left."""
    folder, expected = undisturbed
    assert faults.pool_round(folder, 0, expected)


def test_killed_dask_worker_and_killed_driver_cost_nothing(undisturbed):
    """The same with a real Dask scheduler and two workers as processes of their own."""
    pytest.importorskip("distributed")
    folder, expected = undisturbed
    assert faults.dask_round(folder, 0, expected)


def test_two_drivers_at_once_lose_nothing(undisturbed):
    folder, expected = undisturbed
    drivers = [faults.start(faults.command(folder, "shared", "--workers", "1")) for _ in range(2)]
    assert [driver.wait(LIMIT) for driver in drivers] == [0, 0]
    check = Store(folder / "shared").check()
    assert check.healthy
    assert faults.values(folder / "shared") == expected


def _hears():
    """Whatever the tests run under, nohup as well."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def driving(arguments, told):
    """A sweep as a process group of its own, what it says in the file `told`."""
    with told.open("w") as file:
        options = {"stdout": subprocess.DEVNULL, "stderr": file, "start_new_session": True, "preexec_fn": _hears}
        driver = subprocess.Popen(arguments, **options)
    try:
        yield driver
    finally:
        driver.kill()
        driver.wait()


@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP"])
def test_interrupt_finishes_what_runs_and_says_how_to_resume(undisturbed, name):
    """The sweep is held half-way, so that it cannot end before it has heard the interrupt, or that its terminal closes."""
    folder, expected = undisturbed
    options, told, store = ("--workers", "2"), folder / f"{name}.txt", folder / name
    arguments, gate = faults.held_command(folder, name, *options, results=faults.results() // 2)
    with driving(arguments, told) as driver:
        wait_for(lambda: faults.written(store) > 20 or driver.poll() is not None, "results")
        os.killpg(driver.pid, getattr(signal, name))  # as a terminal does: to the workers, too
        wait_for(lambda: "finishing what is running" in told.read_text() or driver.poll() is not None, "its answer")
        gate.unlink()
        driver.wait(LIMIT)
    err = told.read_text()
    assert driver.returncode == 130, err
    assert "finishing what is running" in err
    assert f"resume with: onestride sweep run {folder / 'sweep.toml'} --store {store} --threads 1" in err
    assert "Traceback" not in err
    assert "arning" not in err
    assert 20 < len(exact(store)) < len(expected)
    assert not Store(store).records("failure")
    faults.finish(faults.command(folder, name, *options))
    faults.verify(folder, name, expected)


def test_second_interrupt_stops_at_once(undisturbed):
    folder, _ = undisturbed
    told = folder / "twice.txt"
    arguments, gate = faults.held_command(folder, "twice", "--workers", "1", results=0)
    with driving(arguments, told) as driver:
        wait_for(lambda: faults.reached(gate).exists() or driver.poll() is not None, "a task at the gate")
        family = faults.psutil.Process(driver.pid).children(recursive=True)
        driver.send_signal(signal.SIGINT)
        wait_for(lambda: "finishing what is running" in told.read_text() or driver.poll() is not None, "its answer")
        driver.send_signal(signal.SIGINT)
        assert driver.wait(LIMIT) == 130, told.read_text()
    assert "stopped at once" in told.read_text()
    wait_for(lambda: not any(map(faults.alive, family)), "workers to end")


@contextlib.contextmanager
def tmpfs(path: Path, size: str):
    path.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], capture_output=True)
    if made.returncode:
        pytest.skip("mounting a small tmpfs needs more rights than this process has")
    try:
        yield
    finally:
        subprocess.run(["umount", str(path)], check=True)


@pytest.mark.skipif(not shutil.which("mount"), reason="no mount here")
def test_full_disk_ends_the_sweep_with_a_sentence_and_loses_nothing(folder):
    small = folder / "disk"
    with tmpfs(small, "16k"):
        result = onestride(folder, "sweep", "run", "small.toml", "--store", "disk/store")
        assert result.returncode == 2
        told = "onestride: the store disk/store cannot be written: No space left on device; what was written before is safe"
        assert told in result.stderr
        assert "Traceback" not in result.stderr
        there = exact(small / "store")
        assert Store(small / "store").check().healthy
        subprocess.run(["mount", "-o", "remount,size=4m", str(small)], check=True)
        assert onestride(folder, "sweep", "run", "small.toml", "--store", "disk/store").returncode == 0
        assert onestride(folder, "sweep", "run", "small.toml", "--store", "fresh").returncode == 0
        assert 0 < len(there) < 36
        assert exact(small / "store") == exact(folder / "fresh")


# ---------------------------------------------------------------------- commands


def test_commands_follow_each_other(folder):
    plan = json.loads(onestride(folder, "sweep", "plan", "small.toml", "--json").stdout)
    assert (plan["cells"], plan["groups"], plan["runs"], plan["predictions"]) == (12, 2, 24, 12)
    assert plan["flops"] > 0
    assert plan["memory"] > 0
    assert plan["seconds"] > 0
    first = onestride(folder, "sweep", "run", "small.toml", "--store", "s")
    assert "0 of 12 cells already known, 36 results to compute" in first.stderr
    assert "36 of 36 results are in s." in first.stdout
    assert "Theory lies within 3 standard errors" in first.stdout
    again = onestride(folder, "sweep", "run", "small.toml", "--store", "s", "--json")
    assert "12 of 12 cells already known" in again.stderr
    assert json.loads(again.stdout) == {"results": 36, "done": 36, "failed": 0, "stopped": False, "store": "s"}
    known = json.loads(onestride(folder, "sweep", "plan", "small.toml", "--store", "s", "--json").stdout)
    assert (known["cells_known"], known["flops"], known["seconds"]) == (12, 0, 0)
    status = json.loads(onestride(folder, "sweep", "status", "--store", "s", "--json").stdout)
    (entry,) = status["sweeps"]
    assert (entry["name"], entry["cells"], entry["known"], entry["failed"]) == ("small", 12, 12, 0)
    assert not status["running"]
    assert "Every line is intact" in onestride(folder, "store", "check", "s").stdout


def test_exports_hold_the_exact_numbers(filled):
    pandas, xarray = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    folder, rows = filled
    shown = ["test_error", "test_error_stderr", "test_error_low", "train_gain_z", "test_error_theory"]
    numbers = [*shown, "d", "ridge", "exponent"]
    for name in ("x.csv", "x.parquet", "x.nc", "seeds.csv"):
        options = ["--by-seed"] * name.startswith("seeds")
        result = onestride(folder, "sweep", "export", "--store", "s", name, *options)
        assert result.stdout == f"12 cells written to {name}.\n", result.stderr
    csv = pandas.DataFrame(list(python_csv.DictReader((folder / "x.csv").read_text().splitlines())))
    csv[numbers] = csv[numbers].map(float)
    parquet = pandas.read_parquet(folder / "x.parquet")
    data = xarray.open_dataset(folder / "x.nc", engine="scipy")
    assert dict(data.sizes) == {"d": 2, "ridge": 2, "exponent": 3}
    assert data.attrs["n"] == 200
    assert len(csv) == len(parquet) == 12
    for row in rows:
        place = {"d": row.problem.d, "ridge": row.problem.ridge, "exponent": row.problem.step.exponent}
        wanted = row.to_dict()
        assert float(data.test_error.sel(place)) == wanted["test_error"]
        assert float(data.test_gain_theory.sel(place)) == wanted["test_gain_theory"]
        for frame in (csv, parquet):
            (line,) = frame.query(
                "d == @place['d'] and ridge == @place['ridge'] and exponent == @place['exponent']"
            ).index
            for name in shown:
                assert frame.loc[line, name] == wanted[name]
            assert frame.loc[line, "status"] == "solved"
    by_seed = list(python_csv.DictReader((folder / "seeds.csv").read_text().splitlines()))
    assert len(by_seed) == 24
    assert {float(line["test_error"]) for line in by_seed} == {
        value for row in rows for value in row.test_error.raw.values
    }


def test_plot_writes_a_figure_and_the_numbers_behind_it(filled):
    pytest.importorskip("matplotlib")
    folder, rows = filled
    result = onestride(folder, "sweep", "plot", "--store", "s", "--out", "figures/f", "--y", "test_gain")
    assert result.stdout == "figures/f.pdf, .png and .csv: test_gain against exponent, 2 panels.\n"
    text = (folder / "figures" / "f.csv").read_text().splitlines()
    assert len(text) == 1 + 2 * 12
    mean = rows[0].test_gain.mean
    assert any(line.startswith("d = 100,λ = 0.1,simulation,0,") and f"{mean:.10g}" in line for line in text)


def test_failures_are_shown_and_change_the_exit_code(folder):
    text = (
        SMALL.replace("0.4]", "0.4, 90]")
        .replace("noise", "activation = [0, 1, 0, 0.3]\nnoise")
        .replace("finite-step", "none")
    )
    (folder / "bad.toml").write_text(text)
    result = onestride(folder, "sweep", "run", "bad.toml", "--store", "s")
    assert result.returncode == 1
    assert "32 of 32 results are in s, 8 of them failed." in " ".join(result.stdout.split())
    status = onestride(folder, "sweep", "status", "--store", "s").stdout
    assert "failed 8 times: activation" in status


def test_damage_is_told_by_the_commands(filled):
    folder, _ = filled
    (journal,) = (folder / "s").glob("journal-*.jsonl")
    journal.write_bytes(journal.read_bytes().replace(b'"test_error":', b'"test_errar":', 1))
    check = onestride(folder, "store", "check", "s")
    assert check.returncode == 1
    assert f"damaged: {journal.name}, line" in check.stdout
    run = onestride(folder, "sweep", "run", "small.toml", "--store", "s")
    assert f"set aside and to be computed again: {journal.name}, line" in run.stderr
    assert "11 of 12 cells already known, 1 result to compute" in run.stderr
    assert onestride(folder, "store", "check", "s").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["sweep", "run", "none.toml", "--store", "s"], "none.toml cannot be read"),
        (["sweep", "run", "small.toml"], "requires an argument"),
        (["sweep", "run", "small.toml", "--store", "small.toml"], "store must be a folder, got the file small.toml"),
        (
            ["sweep", "run", "small.toml", "--store", "/dev/null/x"],
            "the store /dev/null/x cannot be written: Not a directory",
        ),
        (["sweep", "status", "--store", "empty"], "there are no results in empty"),
        (["store", "check", "empty"], "there are no results in empty"),
        (["sweep", "export", "--store", "empty", "x.csv"], "there are no results in empty"),
    ],
)
def test_wrong_arguments_are_sentences(folder, arguments, sentence):
    result = onestride(folder, *arguments)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_absent_scheduler_is_a_sentence():
    pytest.importorskip("distributed")
    from onestride.sweeps.cluster import dask_executor

    with pytest.raises(one.InputError, match="dask: no scheduler answers at tcp://127"):
        dask_executor("tcp://127.0.0.1:9", timeout=0.5).__enter__()


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="POSIX signals")
def test_an_interrupt_while_a_cluster_starts_is_heard_after_it(monkeypatch):
    """It was lost, and the sweep ran to its end."""
    distributed = pytest.importorskip("distributed")
    from onestride._processes import signals_to
    from onestride.sweeps.cluster import dask_executor

    heard = []

    def start(**_):
        signal.raise_signal(signal.SIGINT)
        assert heard == []
        raise OSError("none today")

    monkeypatch.setattr(distributed, "LocalCluster", start)
    with signals_to(lambda number, _: heard.append(number), signal.SIGINT), pytest.raises(OSError, match="none today"):
        dask_executor("local").__enter__()
    assert heard == [signal.SIGINT]
