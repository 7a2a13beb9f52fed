"""What a long command shows: a line at the start and the end, few between; Ctrl-C asks once and ends at the second."""

import io
import signal
import sys

import pytest

from onestride.cli import live
from onestride.sweeps.ledger import Progress


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(live, "monotonic", lambda: now[0])
    return now


def progress(done: int, known: int = 2, failed: int = 0) -> Progress:
    return Progress(done=done, total=10, failed=failed, known=known, cells=5, cells_known=1)


def test_lines_come_first_last_and_now_and_then(clock, capsys):
    report = live.Report()
    for seconds, done in ((0, 2), (1, 3), (1, 4), (4, 6), (1, 7), (1, 10)):
        clock[0] += seconds
        report(progress(done, failed=done // 6))
    assert capsys.readouterr().err.splitlines() == [
        "1 of 5 cells already known, 8 results to compute",
        "6/10 results, 0.667/s, 6 s left, 1 failed",
        "10/10 results, 1/s, 0 s left, 1 failed",
    ]
    assert report.last == progress(10, failed=1)


def test_a_sweep_that_knows_everything_says_so_once(clock, capsys):
    report = live.Report()
    report(progress(10, known=10))
    report(progress(10, known=10))
    assert capsys.readouterr().err == "1 of 5 cells already known, 0 results to compute\n"


def test_a_terminal_gets_a_bar(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    with live.reporter() as report:
        report(progress(2))
        report(progress(10))
    told = sys.stderr.getvalue()
    assert "1 of 5 cells already known, 8 results to compute" in told
    assert "10/10" in told


def test_the_first_interrupt_asks_to_stop(capfd):
    with live.stopping() as stop:
        assert not stop()
        signal.raise_signal(signal.SIGINT)
        assert stop()
    assert capfd.readouterr().err == "\nfinishing what is running; Ctrl-C again stops at once\n"


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="POSIX signals")
def test_a_terminal_that_closes_asks_to_stop_however_often_it_says_so(capfd):
    """The shell says it, and the kernel: it must not end what is running as a second Ctrl-C does."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with live.stopping() as stop:
            signal.raise_signal(signal.SIGHUP)
            signal.raise_signal(signal.SIGHUP)
            assert stop()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
        with live.stopping() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert capfd.readouterr().err == "\nfinishing what is running; Ctrl-C again stops at once\n"


def test_a_stream_that_nobody_reads_any_more_costs_no_result(monkeypatch):
    class Closed(io.StringIO):
        def write(self, text: str, /) -> int:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(sys, "stderr", Closed())
    report = live.Report()
    report(progress(2))
    assert report.last == progress(2)


@pytest.mark.parametrize(("seconds", "words"), [(0.2, "0 s"), (119, "119 s"), (120, "2.0 min"), (2e5, "2.3 d")])
def test_durations_read_well(seconds, words):
    assert live.duration(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "less than a second"), (0.49, "less than a second"), (0.51, "about 1 s"), (2, "about 2 s")],
)
def test_an_estimate_is_never_no_time(seconds, words):
    assert live.about(seconds) == words
