"""Panels of the explorer and the page of a table: numbers of the package, part by part, in the address, never those of another problem."""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import onestride as one
from onestride.theory.atlas import atlas
from onestride.web.background import Job
from onestride.web.panels import Panels
from onestride.web.query import read_problem
from onestride.web.workers import Overtime
from waiting import CHROMIUM, opened

SMALL = {"n": "100", "phi": "0.5", "psi": "1", "noise": "0.5"}
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="the browser tests need chromium or Chrome on the PATH")


@pytest.fixture
def table(server, tmp_path):
    """The server with a table: 150 rows of three columns in a file."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3))
    y = 20 + 3 * np.tanh(X[:, 0]) + 0.5 * rng.standard_normal(150)
    file = tmp_path / "rows.csv"
    np.savetxt(file, np.column_stack([X, y]), delimiter=",", header="a,b,c,price", comments="")
    server.app.state.table = one.from_data(file, target="price", N=64, step=one.Step(exponent=0.5))
    yield server.app.state.table
    server.app.state.table = None


@pytest.fixture
def page(profile, store):
    with opened(profile) as page:
        yield page


# ---------------------------------------------------------------------- the server


def test_a_part_that_took_too_long_is_asked_again():
    """The sentence is not kept as the answer."""
    said = iter([Overtime(), b"{}"])

    class Workers:
        async def run(self, *_):
            word = next(said)
            if isinstance(word, Exception):
                raise word
            return word

    async def twice():
        panels = Panels(Workers())
        return [await panels.ask("best", read_problem(SMALL), {}) for _ in range(2)]

    with ThreadPoolExecutor(1) as beside:  # playwright's loop may be running here
        first, second = beside.submit(asyncio.run, twice()).result()
    assert b"and was stopped" in first
    assert second == b"{}"


def test_a_job_counts_the_stages_of_its_seeds():
    """Errors, spectrum and learned shares of each."""
    assert Job(read_problem(SMALL), 4, None, None).to_dict()["total"] == 12


def test_parts_are_what_the_package_says(client):
    problem = read_problem(SMALL)
    best, found = (
        client.get("/api/panel/best", params=SMALL | {"over": "ridge"}).json(),
        one.optimum(problem, ("ridge",)),
    )
    assert best["test_error"] == pytest.approx(found.test_error)
    assert best["untrained"] == pytest.approx(found.prediction.untrained.test_error)
    point = client.get("/api/panel/point", params=SMALL | {"along": "N", "size": "80"}).json()
    assert point["test_error"] == pytest.approx(one.predict(problem.replace(N=80)).test_error)
    assert point["excess"] == pytest.approx(point["test_error"] - 0.25)
    axes = client.get("/api/panel/points", params=SMALL | {"plane": "n-noise"}).json()
    assert (len(axes["x"]), axes["y"][0]) == (6, 0)
    cell = client.get("/api/panel/cell", params=SMALL | {"plane": "phi-psi", "x": "0.5", "y": "1"}).json()
    assert cell["test_error"] == pytest.approx(float(atlas(problem, x=[0.5], y=[1.0]).test_error[0, 0]))


@pytest.mark.parametrize(
    ("part", "options", "words"),
    [
        ("best", {"over": "lambda"}, "over must be some of"),
        ("best", {}, "the question is not complete: best needs over in the address"),
        ("point", {"along": "n"}, "the question is not complete: point needs size in the address"),
        ("cell", {"x": "1"}, "the question is not complete: cell needs plane and y in the address"),
        ("point", {"along": "m", "size": "9"}, "along must be"),
        ("point", {"along": "n", "size": "many"}, "size must be a number"),
        ("cell", {"plane": "n-d", "x": "1", "y": "1"}, "over must be one of"),
        ("dance", {}, "a panel has the parts best, point, points, cell"),
        ("best", {"over": "ridge", "colour": "red"}, "'colour' is not a parameter"),
    ],
)
def test_a_wrong_question_gets_a_sentence(client, part, options, words):
    found = client.get(f"/api/panel/{part}", params=SMALL | options).json()
    assert words in (found.get("error") or found["message"])


def test_without_a_table_its_page_is_not_there(client):
    assert client.get("/table").status_code == 404
    assert client.get("/api/table/here").status_code == 404


def test_the_page_of_a_table_has_its_numbers(client, table):
    about = client.get("/api/table").json()
    assert (about["name"], about["rows"], about["defaults"]["N"]) == ("rows.csv", 150, "64")
    asked = {"n": "80", "ridge": "0.2", "step_samples": "0.5"}
    here = client.get("/api/table/here", params=asked).json()
    expected = table.replace(n=80, ridge=0.2, n_step=40)
    assert here["here"]["test_error"] == pytest.approx(one.predict(expected).test_error)
    assert here["fraction"]["1"] == pytest.approx(one.learned(expected).fraction[0])
    command = client.get("/api/table/problem", params=asked).json()["copies"]["command"]
    assert "--target price" in command
    assert "--n-step=40" in command
    for wrong, words in (({"n": "3.5"}, "n must be a whole number from 10"), ({"d": "4"}, "'d' is not a parameter")):
        refused = client.get("/api/table/here", params=wrong)
        assert refused.status_code == client.get("/table", params=wrong).status_code == 400
        assert words in refused.json()["error"]


# ---------------------------------------------------------------------- the pages


@needs_browser
def test_a_panel_is_computed_on_request_and_from_its_address(page):
    page.goto("/?n=100&psi=1#best=ridge&curve=N,50,200,3,sizes,given")
    page.locator("#panel-best[data-state=done]").wait_for()
    page.locator("#panel-curve[data-state=done]").wait_for()
    assert "λ = " in page.locator("#panel-best .panel-words").inner_text()
    assert "neurons" not in page.locator("#panel-curve .panel-words").inner_text()
    assert "at N = 200, there like N^" in page.locator("#panel-curve .panel-words").inner_text()
    assert page.locator("#curve-error .curve").count() == 2
    assert page.locator("#curve-exponent .curve").count() == 1
    page.wait_for_url(re.compile("best=ridge"))
    page.locator("#panel-best button", has_text="Go there").click()
    page.wait_for_url(lambda url: "ridge=" in url)
    page.locator("#panel-best[data-state=stale]").wait_for()
    assert page.evaluate(
        "() => import('/static/panels.js').then((m) => m.exponents([1, 10, 100], [5, 0.5, 0.005]))"
    ) == (pytest.approx([-1, -1.5, -2]))


def change(page, name, value):
    page.locator(f"#control-{name}-number").fill(value)
    page.locator(f"#control-{name}-number").press("Enter")


@needs_browser
def test_a_panel_shows_what_was_asked_whatever_is_chosen_since(page):
    page.goto("/?n=100&psi=1#curve=N,50,200,2,sizes,given")
    page.locator("#panel-curve[data-state=done]").wait_for()
    words = page.locator("#panel-curve .panel-words").inner_text()
    page.locator("#curve-along").select_option("n")
    page.locator("#panel-curve > summary").click()
    page.locator("#panel-curve > summary").click()
    page.locator("#curve-error .axis-label", has_text="neurons N").wait_for()
    assert page.locator("#panel-curve .panel-words").inner_text() == words
    page.locator("#gain").check()  # which writes the address
    page.wait_for_url(re.compile("curve=N%2C50.*gain=1"))


@needs_browser
def test_a_panel_is_of_its_problem_again_once_that_is_back(page):
    page.goto("/?n=100&psi=1&noise=0.4#best=ridge")
    page.locator("#panel-best[data-state=done]").wait_for()
    change(page, "noise", "0.6")
    page.locator("#panel-best[data-state=stale]").wait_for()
    change(page, "noise", "0.4")
    page.locator("#panel-best[data-state=done]").wait_for()
    assert page.locator("#panel-best .panel-state").inner_text() == ""
    change(page, "noise", "0.6")
    page.locator("#panel-best button", has_text="Go there").click()  # the best of what was asked
    page.wait_for_url(re.compile(r"noise=0\.4.*ridge="))


@needs_browser
def test_numbers_of_the_problem_before_do_not_stand_under_a_new_question(page):
    page.goto("/?n=100&psi=1#best=ridge&curve=N,50,200,2,sizes,given")
    for name in ("best", "curve"):
        page.locator(f"#panel-{name}[data-state=done]").wait_for()
    page.route("**/api/panel/**", lambda route: route.fulfill(status=500, body=""))
    for name in ("best", "curve"):
        page.locator(f"#panel-{name} button[type=submit]").click()
        page.locator(f"#panel-{name}[data-state=failed]").wait_for()
        assert page.locator(f"#panel-{name} .panel-state").inner_text() == "The server answered 500."
        assert page.locator(f"#panel-{name} .panel-body > *").count() == 0
        assert page.locator(f"#panel-{name} .panel-words").inner_text() == ""
    page.unroute_all()
    page.locator("#panel-curve button[type=submit]").click()
    page.locator("#panel-curve[data-state=done]").wait_for()
    assert page.locator("#curve-error .curve").count() == 2


@needs_browser
def test_numbers_of_a_table_are_pale_until_those_asked_for_are_there(page, table):
    page.goto("/table")
    page.locator("#sentence[data-state=done]").wait_for()
    seen = "e => getComputedStyle(e).opacity"
    assert page.locator("#sentence").evaluate(seen) == "1"
    page.route("**/api/table/here*", lambda route: route.abort())
    page.locator("#control-n").fill("90")
    page.locator("#control-n").press("Enter")
    page.locator("#sentence[data-state=failed]").wait_for()
    assert "the server does not answer" in page.locator("#banner").inner_text().lower()
    page.wait_for_function("() => getComputedStyle(document.getElementById('sentence')).opacity === '0.4'")
    assert page.locator(".two").evaluate(seen) == "0.4"
    page.unroute_all()
    page.locator("#control-n").fill("91")
    page.locator("#control-n").press("Enter")
    page.locator("#sentence[data-state=done]").wait_for()
    assert page.locator("#sentence").evaluate(seen) == page.locator(".two").evaluate(seen) == "1"
    assert page.locator("#banner").is_hidden()


@needs_browser
def test_a_table_has_a_page_with_its_panels(page, table):
    page.goto("/table")
    page.locator("#sentence[data-state=done]").wait_for()
    assert "of the variance of the target" in page.locator("#sentence").inner_text()
    assert page.locator("#penalty .curve").count() >= 2
    page.locator("#control-n").fill("90")
    page.locator("#control-n").press("Enter")
    page.wait_for_url(re.compile(r"/table\?n=90"))
    page.locator("#sentence[data-state=done]").wait_for()
    page.locator("#panel-curve summary").click()
    for name, value in (("first", "40"), ("last", "100"), ("points", "2")):
        page.locator(f"#curve-{name}").fill(value)
    page.locator("#curve-seeds").check()
    page.locator("#panel-curve button[type=submit]").click()
    page.locator("#panel-curve[data-state=done]").wait_for()
    assert "at n = 100" in page.locator("#panel-curve .panel-words").inner_text()
    assert page.locator("#curve-error .mark").count() == 1  # 2 × 100 rows are more than the table has
    page.wait_for_url(re.compile("curve=n%2C40%2C100%2C2.*measured"))
    page.goto("/table?colour=red")
    page.locator("#sentence[data-state=failed]").wait_for()
    assert "'colour' is not a parameter" in page.locator("#banner").inner_text()
    page.locator("#control-n").fill("80")  # which is a way on
    page.locator("#control-n").press("Enter")
    page.locator("#sentence[data-state=done]").wait_for()
    page.wait_for_url(re.compile(r"/table\?n=80$"))
    page.goto("/table?n=seven")
    page.locator("#sentence[data-state=failed]").wait_for()
    assert "n must be a whole number" in page.locator("#banner").inner_text()
