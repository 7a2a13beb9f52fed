"""Signals that end the program: one sentence each, nothing half-written, nohup respected."""

import signal
import subprocess
import sys

import pytest

from onestride._processes import signals_to
from onestride.cli import main
from onestride.cli.terminal import sentences
from places import ROOT
from waiting import LIMIT


def program(*arguments, code):
    """The program in a process of its own."""
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, timeout=LIMIT)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_real_interrupt_is_one_sentence():
    """The program sends itself the signal in the middle of its work; a shell's background jobs start by ignoring it."""
    code = "import os, signal, onestride.theory.predict as m\nfrom onestride.cli import main\n"
    code += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "m.predict = lambda *_, **__: os.kill(os.getpid(), signal.SIGINT)\nmain()"
    result = program("predict", code=code)
    assert result.returncode == 128 + signal.SIGINT
    assert result.stderr == b"onestride: interrupted; nothing half-written is left behind\n"


ENDED = {
    "SIGINT": b"onestride: interrupted; nothing half-written is left behind\n",
    "SIGTERM": b"onestride: ended by SIGTERM; nothing half-written is left behind\n",
    "SIGHUP": b"onestride: ended by SIGHUP; nothing half-written is left behind\n",
}
USUAL = "import os, signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
USUAL += "for number in (signal.SIGTERM, signal.SIGHUP): signal.signal(number, signal.SIG_DFL)\n"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("name", ENDED)
def test_a_signal_while_the_program_loads_is_one_sentence(name):
    """The first half second, in which a traceback of imports was written; the installed program begins there."""
    code = "class Finder:\n    def find_spec(self, name, *_):\n        if name == 'cyclopts':\n"
    code += f"            os.kill(os.getpid(), signal.{name})\nsys.meta_path.insert(0, Finder())\n"
    result = program("predict", code=f"{USUAL}{code}from onestride.__main__ import main\nmain()")
    assert result.returncode == 128 + getattr(signal, name)
    assert result.stderr == ENDED[name]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_program_told_to_end_tidies_up_and_says_so(tmp_path, name):
    """A file that is being replaced when the signal comes is the old one, and its new half is gone."""
    (tmp_path / "x").write_text("old")
    code = "import onestride.theory.predict as m\nfrom pathlib import Path\nfrom onestride.cli import main\n"
    code += "from onestride.store import replace_file\n"
    code += f"os.fsync = lambda _: os.kill(os.getpid(), signal.{name})\n"
    code += f"m.predict = lambda *_, **__: replace_file(Path({str(tmp_path / 'x')!r}), b'new')\nmain()"
    result = program("predict", code=USUAL + code)
    assert result.returncode == 128 + getattr(signal, name)
    assert result.stderr == ENDED[name]
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_text() == "old"


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="POSIX signals")
def test_under_nohup_the_end_of_the_terminal_ends_nothing(capsys, monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        work = lambda: signal.raise_signal(signal.SIGHUP) or []  # noqa: E731
        monkeypatch.setattr("onestride.functions.function_names", work)
        with pytest.raises(SystemExit) as stop:
            main(["functions", "--json"])
        assert not stop.value.code
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert capsys.readouterr().out == "{}\n"


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="POSIX signals")
def test_who_has_a_way_to_end_hears_the_end_of_the_terminal_as_sigterm():
    """As the server of the page: an exception in its loop was a traceback."""
    before, heard = signal.signal(signal.SIGHUP, signal.SIG_DFL), []
    try:
        with sentences(), signals_to(lambda number, _: heard.append(number), signal.SIGTERM):
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert heard == [signal.SIGTERM]


def test_the_installed_program_begins_where_signals_are_heard():
    assert 'onestride = "onestride.__main__:main"' in (ROOT / "pyproject.toml").read_text()
