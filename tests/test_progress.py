"""Progress of long calls: shown where somebody looks, by the outermost call only, and silent when asked."""

import pytest

import onestride as one
from onestride import _progress

P = one.Problem(n=30, d=20, N=25)


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(_progress, "WAIT", 0.0)
    monkeypatch.setattr(_progress, "BETWEEN", 0.0)


def test_nobody_looks_nothing_is_shown(at_once, capsys):
    one.simulate(P, 2)
    shown = capsys.readouterr()
    assert shown.out == shown.err == ""


def test_a_line_of_text_where_it_is_asked_for(at_once, capsys):
    one.simulate(P, 3, progress=True)
    shown = capsys.readouterr().out
    assert "simulating: 3 of 3" in shown
    assert shown.endswith("\r")


def test_a_notebook_has_a_line_and_false_is_silence(at_once, capsys, monkeypatch):
    monkeypatch.setattr(_progress, "place", lambda: "text")
    one.measure_learned(P, 2, n_test=100)
    assert "2 of 2" in capsys.readouterr().out
    one.measure_learned(P, 2, n_test=100, progress=False)
    assert capsys.readouterr().out == ""


def test_a_terminal_has_a_bar(at_once, monkeypatch, capsys):
    monkeypatch.setattr(_progress, "place", lambda: "terminal")
    with _progress.shown(None, "words") as tell:
        tell(1, 2)
        assert tell.bar is not None
    assert tell.bar.finished or tell.bar.live.is_started is False


def test_only_the_outermost_call_shows_itself(monkeypatch):
    monkeypatch.setitem(_progress.sys.modules, "ipykernel", object())
    with _progress.silent():
        assert _progress.place() == "text"
        with _progress.silent():
            assert _progress.place() == "nowhere"


def test_quick_calls_show_nothing(capsys):
    with _progress.shown(True, "quick") as tell:
        tell(1, 2)
    assert capsys.readouterr().out == ""


def test_a_function_hears_everything():
    heard = []
    one.simulate(P, 2, progress=lambda done, total: heard.append((done, total)))
    assert heard[-1] == (2, 2)
