"""What a sweep says when its surroundings fail: killed drivers, dying schedulers, unguarded scripts. One sentence, no noise."""

import json
import subprocess
import sys

import pytest

from waiting import LIMIT, wait_for

SWEEP = "[problem]\nn = 20\nd = 10\nN = 30\nseeds = 2\n"
PROGRAM = [sys.executable, "-c", "from onestride.cli import main; main()"]


def program(*arguments: str, **options) -> "subprocess.Popen[str]":
    return subprocess.Popen([*arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


KILLED = """
import os, signal
from onestride.sweeps.pool import SturdyPool
from onestride.web import export

if __name__ == "__main__":
    BEGIN
    END
"""
BEGUN = {
    "sweep": "print(SturdyPool(1).submit(abs, -1).result(), flush=True)",
    "export": "export._part = abs; parts = export._computed([-1], 2); print(next(parts), flush=True)",
}


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("begin", BEGUN)
@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(130)"])
def test_a_killed_driver_leaves_no_warning_about_semaphores(tmp_path, begin, end):
    """`communicate` waits until the last process that could write has ended, Python's tracker of semaphores included."""
    (tmp_path / "script.py").write_text(KILLED.replace("BEGIN", BEGUN[begin]).replace("END", end))
    out, err = program(sys.executable, str(tmp_path / "script.py")).communicate(timeout=LIMIT)
    assert out == "1\n"
    assert err == ""


def test_the_tracker_of_semaphores_is_the_only_thing_made_quiet():
    from onestride.sweeps.pool import SturdyPool

    before = list(sys.warnoptions)
    SturdyPool(1).shutdown()
    assert sys.warnoptions == before


def test_a_script_without_a_guard_is_told_what_to_write(tmp_path):
    script = "import onestride as one\nlist(one.sweep('sweep.toml', 'store', workers=1))\n"
    (tmp_path / "sweep.toml").write_text(SWEEP)
    (tmp_path / "script.py").write_text(script)
    _, err = program(sys.executable, "script.py", cwd=tmp_path).communicate(timeout=LIMIT)
    assert err.count("Traceback") == 1  # the script's own
    assert err.splitlines()[-1].startswith("onestride._errors.InputError: worker processes end before they begin")
    assert 'under `if __name__ == "__main__":`' in err
    assert "resume" not in err


def test_a_scheduler_that_dies_is_one_sentence(tmp_path):
    """The scheduler has no workers, so that the sweep cannot be over before the scheduler is killed."""
    pytest.importorskip("distributed")
    file = tmp_path / "scheduler.json"
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    scheduler = program(sys.executable, "-m", "distributed.cli.dask_scheduler", *options)
    try:
        wait_for(lambda: file.exists() and file.read_text().strip().endswith("}"), "the scheduler's address")
        address = json.loads(file.read_text())["address"]
        (tmp_path / "sweep.toml").write_text(SWEEP)
        where = ["--store", str(tmp_path / "store"), "--dask", address]
        driver = program(*PROGRAM, "sweep", "run", str(tmp_path / "sweep.toml"), *where)
        assert driver.stderr is not None
        first = driver.stderr.readline()  # it is connected
        assert first == "0 of 1 cells already known, 3 results to compute\n"
    finally:
        scheduler.kill()
        scheduler.communicate()
    out, err = driver.communicate(timeout=LIMIT)
    assert driver.returncode == 2
    assert out == ""
    assert err == (
        "onestride: the executor gave up its tasks: they were cancelled, as when a scheduler ends; "
        "run the sweep again to resume\n"
    )
