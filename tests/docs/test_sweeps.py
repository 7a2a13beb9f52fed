"""docs/sweeps.md keeps its promises: files parse, commands exist, scripts run."""

import os
import re
import subprocess
import sys
from pathlib import Path

from onestride.cli import app
from onestride.sweeps.spec import parse_sweep, read_sweep, tomllib
from places import ROOT
from waiting import LIMIT

PAGE = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def script(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(text)
    return subprocess.run(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, timeout=LIMIT, env=dict(os.environ)
    )


def test_the_file_shown_is_the_example():
    (text,) = blocks("toml")
    assert parse_sweep(tomllib.loads(text), "sweep").points == read_sweep(ROOT / "examples" / "sweep.toml").points


def test_commands_and_options_shown_exist():
    lines = re.findall(r"^onestride (.*?)(?:\s+#.*)?$", "\n".join(blocks("sh")), re.MULTILINE)
    assert len(lines) == 6
    for line in lines:
        group, name = line.split()[:2]
        known = {n for argument in app[group][name].assemble_argument_collection() for n in argument.names}
        assert set(re.findall(r"--[\w-]+", line)) <= known
    options = set(re.findall(r"`(--[\w-]+)", PAGE))
    known = {
        n for name in ("run", "export") for a in app["sweep"][name].assemble_argument_collection() for n in a.names
    }
    assert options <= known


def test_python_shown_runs(tmp_path):
    run, read = blocks("python")
    first = script(tmp_path, run)
    assert first.returncode == 0, first.stderr
    assert len(first.stdout.splitlines()) == 4
    second = script(tmp_path, read)
    assert second.stdout == "4 0.1 solved\n", second.stderr


def test_functions_registered_in_a_script_reach_the_workers(tmp_path):
    text = """
import onestride as one
one.register("my_cube", lambda z: z**3, lambda z: 3 * z**2)
if __name__ == "__main__":
    described = {"method": "none", "problem": {"n": 20, "d": 10, "N": 30, "activation": "my_cube", "seeds": 2}}
    (row,) = one.sweep(described, "results", workers=1)
    print(len(row.runs), row.failures)
"""
    assert script(tmp_path, text).stdout == "2 ()\n"


def test_a_poisonous_cell_is_given_up_and_recorded_while_the_others_finish(tmp_path):
    text = """
import multiprocessing, os
import onestride as one

def deadly(z):
    if multiprocessing.parent_process() is not None and z.size > 50_000:
        os._exit(9)
    return z**3

one.register("deadly", deadly, lambda z: 3 * z**2)
if __name__ == "__main__":
    problem = {"n": 40, "d": 20, "N": 60, "seeds": 1}
    described = {"method": "none", "problem": problem, "axes": {"activation": ["tanh", "deadly"]}}
    for row in one.sweep(described, "results", workers=2):
        print(row.problem.activation, len(row.runs), *row.failures)
"""
    told = sorted(script(tmp_path, text).stdout.splitlines())
    assert told == [
        "deadly 0 its process died 3 times, killed by the system (out of memory?) or by hand",
        "tanh 1",
    ]
    status = subprocess.run(
        [Path(sys.executable).parent / "onestride", "sweep", "status", "--store", "results"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "uses a function of your own" in status.stdout
    assert "failed 1 times: its process died 3 times" in status.stdout


def test_unguarded_script_is_told_what_to_do(tmp_path):
    text = """
import onestride as one
for row in one.sweep({"method": "none", "problem": {"n": 20, "d": 10, "N": 30, "seeds": 1}}, "results", workers=1):
    print(row)
"""
    result = script(tmp_path, text)
    assert result.returncode != 0
    assert 'a script must run the sweep under `if __name__ == "__main__":`' in result.stderr
