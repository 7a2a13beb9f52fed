"""The page as one file: no server, no other file, and the package's numbers at every stop of its sliders."""

import re
import signal
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace

import pytest

import onestride as one
from onestride.cli import main
from onestride.web import export as exported
from onestride.web.export import STATIC, export, one_file
from onestride.web.query import read_problem
from waiting import CHROMIUM, LIMIT

STOPS = {"n": (200.0,), "constant": (1.0, 2.0), "ridge": (0.01,), "exponent": (0.0, 0.2, 0.5)}
ADDRESS = {"n": "200", "ridge": "0.01", "exponent": "0.2"}


def test_file_holds_every_part_of_the_page_and_asks_for_no_other():
    page = one_file('{"text": "</script>"}')
    assert "/static/" not in page
    assert not re.findall(r"""(?:src|href)="(?!data:|#|/download)""", page)
    assert '{"text": "<\\/script>"}' in page
    for module in STATIC.glob("*.js"):
        if module.name not in ("theme.js", "offline.js", "table.js"):
            assert f'"page/{module.name}": "data:' in page


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="POSIX signals")
def test_processes_start_deaf_and_end_with_an_interrupt_of_the_program(monkeypatch):
    """On Ctrl+C they wrote tracebacks, or were waited for; the tracker of semaphores is silent before there are any."""
    ended, order = [], []

    class Pool(ThreadPoolExecutor):
        _processes = {1: SimpleNamespace(terminate=lambda: ended.append(1))}  # noqa: RUF012

        def __init__(self, *_, **__):
            order.append("pool")
            super().__init__(1)

        def submit(self, _, error):
            found = Future()
            if error is None:
                found.set_result(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
            else:
                found.set_exception(error)
            return found

    monkeypatch.setattr(exported, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(exported, "quiet_tracker", lambda: order.append("tracker"))
    parts = exported._computed([None, KeyboardInterrupt()], 2)
    assert signal.SIGINT in next(parts)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert ended == []
    with pytest.raises(KeyboardInterrupt):
        next(parts)
    assert ended == [1]
    assert order == ["tracker", "pool"]


def test_covariance_cannot_be_exported(tmp_path):
    with pytest.raises(one.InputError, match="inputs=ar1 cannot be exported"):
        export(tmp_path / "page.html", {"inputs": "ar1"}, stops=STOPS)


def test_an_address_that_names_a_parameter_twice_is_not_exported(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["explore", "--export", str(tmp_path / "page.html"), "--address", "n=1000&n=2000"])
    assert ended.value.code == 2
    assert "'n' is given more than once in the address" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="the browser tests need chromium or Chrome on the PATH")
def test_exported_page_works_alone(browser, tmp_path):
    parts = []
    export(tmp_path / "page.html", ADDRESS, stops=STOPS, tell=lambda done, total: parts.append((done, total)))
    assert parts == [(1, 2), (2, 2)]
    context, asked, mistakes = browser.new_context(), [], []
    context.set_default_timeout(1000 * LIMIT)
    context.set_default_navigation_timeout(1000 * LIMIT)  # which old releases of playwright keep apart
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url.split(":")[0]))
    page.on("pageerror", lambda error: mistakes.append(str(error)))
    page.goto((tmp_path / "page.html").as_uri())
    page.locator("#quality[data-settled=true]").wait_for()
    page.locator("#vectors .dots").first.wait_for(state="attached")  # of the one seed that was simulated
    assert "Not here" in page.locator(".note").first.text_content()
    page.locator("#control-constant").press("ArrowRight")
    expected = one.predict(read_problem(ADDRESS | {"constant": "2"})).test_error
    page.locator("#sentence b", has_text=f"{expected:.3g}").wait_for()
    page.locator("#axis").select_option("constant")
    page.locator("#test_error .axis-label", has_text="c in η").wait_for()
    shown = page.locator("#test_error").evaluate("svg => svg.told.find((s) => s.label === 'theory').y")
    assert shown[1] == pytest.approx(expected, rel=1e-4)
    assert page.locator("#control-phi").is_disabled()
    assert page.locator("#story").is_hidden()  # its scenes are other problems than that of the file
    for address, words in (
        (
            "?activation=tanh",
            "Activation = tanh is not in this file, which has relu. The page shows its default problem",
        ),
        ("?constant=1.5#scene=3", "Constant = 1.5 is not in this file, which has 1, 2."),
        ("?colour=red", "'colour' is not a parameter of this file"),
    ):
        page.goto((tmp_path / "page.html").as_uri() + address)
        page.locator("#banner", has_text=words).wait_for()
        assert page.locator("#control-activation").input_value() == "relu"
        assert page.locator("#story").is_hidden()
    page.goto((tmp_path / "page.html").as_uri() + "?constant=4/2&teacher=0,1.0,0.7071")
    page.locator("#sentence b", has_text=f"{expected:.3g}").wait_for()
    assert page.locator("#banner").is_hidden()
    assert set(asked) <= {"file", "data"}
    assert not mistakes
    context.close()
