"""The page as one file: no server, no other file, and the package's numbers at every stop of its sliders."""

import re

import pytest

import onestride as one
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


def test_covariance_cannot_be_exported(tmp_path):
    with pytest.raises(one.InputError, match="inputs=ar1 cannot be exported"):
        export(tmp_path / "page.html", {"inputs": "ar1"}, stops=STOPS)


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
    assert set(asked) <= {"file", "data"}
    assert not mistakes
    context.close()
