"""The explorer as a person uses it: the real page in a real browser.

Screenshots of the main states go to the folder named by ONESTRIDE_SCREENSHOTS, if there is one.
"""

import os
import re
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from onestride.problem import Problem, Step
from onestride.store import Store
from onestride.sweeps.task import Task, perform
from onestride.web.query import read_problem
from waiting import CHROMIUM, LIMIT, opened

playwright_api = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
expect = playwright_api.expect
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="the browser tests need chromium or Chrome on the PATH")
SMALL = "?n=200&exponent=0.2"


def shot(page, name):
    """Nobody looks at what is not asked for, and drawing it takes as long as a second page."""
    if folder := os.environ.get("ONESTRIDE_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / name)  # which makes the folder


@pytest.fixture(scope="module")
def sweep_store(tmp_path_factory):
    """A store as a sweep leaves it: two activations, three exponents, two penalties, two seeds, with theory."""
    path = tmp_path_factory.mktemp("sweep")
    pairs = tuple((a, ridge) for a in (0.0, 0.25, 0.5) for ridge in (0.05, 0.5))
    with Store(path, create=True) as results:
        for activation in ("relu", "tanh"):
            problem = Problem(n=300, d=150, N=450, activation=activation, noise=0.3, step=Step())
            for seed in (0, 1, None):
                results.put(*perform(Task(problem, pairs, (0.05, 0.5), seed, "auto", 1)))
    return path


@contextmanager
def watched(profile, server):
    """A tab; a console error, an exception or a request to any other host fails the test."""
    with opened(profile) as page:
        page.set_viewport_size({"width": 1440, "height": 900})
        trouble, page.allowed = [], []
        page.on("console", lambda m: m.type in ("error", "warning") and trouble.append(m.text))
        page.on("request", lambda r: r.url.startswith((server.address, "data:")) or trouble.append(f"asked {r.url}"))
        yield page
    assert not [words for words in trouble if not any(known in words for known in page.allowed)]


@pytest.fixture
def page(profile, server, store):
    with watched(profile, server) as page:
        yield page


@pytest.fixture
def second(profile, server, store):
    with watched(profile, server) as page:
        yield page


@pytest.fixture(scope="module")
def small(profile, server):
    """The page of the small problem, for the tests that do not change the problem."""
    with watched(profile, server) as page:
        page.goto(f"/{SMALL}")
        settled(page)
        yield page


def settled(page):
    """The full theory of what was asked is drawn, and its words are written, which is done a moment later."""
    page.locator("#quality[data-quality=full]").wait_for()
    page.evaluate("() => new Promise((done) => setTimeout(done))")


def ready(page):
    page.locator("#test_error .curve").first.wait_for(state="attached")


def curve(page, figure="test_error"):
    return page.locator(f"#{figure} .curve").first.get_attribute("d")


def wait_for_change(page, before, figure="test_error"):
    expect(page.locator(f"#{figure} .curve").first).not_to_have_attribute("d", before)


def test_page_shows_its_figures_a_sentence_and_formulas(page):
    page.goto("/")
    settled(page)
    for figure in ("function", "test_error", "train_loss", "spectrum", "learned"):
        assert page.locator(f"#{figure} .curve").count() >= 1
    expect(page.locator("#sentence")).to_contain_text("lowers the test error from 2.19 to 1.95")
    assert page.locator("#formulas math").count() >= 8
    expect(page.locator("#formulas")).to_contain_text("7.94")
    shot(page, "light.png")


def dict_of(url):
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


def test_dragging_a_slider_moves_the_curve_and_the_address(page):
    page.goto(f"/{SMALL}")
    settled(page)
    before = curve(page)
    box = page.locator("#control-ridge").bounding_box()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.down()
    for share in (0.62, 0.68, 0.74, 0.8):
        page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
    wait_for_change(page, before)
    page.mouse.up()
    chosen = float(page.locator("#control-ridge-number").input_value())
    assert 0.3 < chosen < 5
    page.wait_for_url(lambda url: read_problem(dict_of(url)).ridge == pytest.approx(chosen, rel=1e-3))


def test_alpha_can_be_dragged_in_a_figure(page):
    page.goto(f"/{SMALL}")
    settled(page)
    box = page.locator("#test_error").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 100)
    page.mouse.up()
    page.wait_for_url(re.compile(r"exponent=0\.4"))


def test_another_activation_gives_another_curve_and_formula(page):
    page.goto(f"/{SMALL}")
    settled(page)
    before = curve(page)
    expect(page.locator("#formulas")).to_contain_text("0.721")  # c₁²η of ReLU, 0.25·2.885
    page.locator("#control-activation").select_option("tanh")
    wait_for_change(page, before)
    expect(page.locator("#formulas")).to_contain_text("1.06")  # of tanh, 0.6057²·2.885


LONG_ADDRESS = "/?n=200&exponent=0.45&activation=softplus&teacher=0,1,0.5,0.4,0.2&gradient=labels&readout=constant"


def test_address_carries_the_parameters(page):
    page.goto(LONG_ADDRESS)
    ready(page)
    assert page.locator("#control-exponent-number").input_value() == "0.45"
    assert page.locator("#control-activation").input_value() == "softplus"
    assert page.locator("#control-teacher-3").input_value() == "0.4"
    assert page.locator("#control-gradient").input_value() == "labels"
    page.reload()
    ready(page)
    assert page.locator("#control-readout").input_value() == "constant"


def test_bad_address_gets_a_sentence_on_a_working_page(page):
    page.allowed.append("400 (Bad Request)")  # the browser's own note about the page's status
    for query, words in (
        ("n=abc", "n must be a whole number"),
        ("colour=red", "'colour' is not a parameter"),
        ("n=1000&n=2000", "'n' is given more than once in the address"),
    ):
        page.goto(f"/?{query}")
        expect(page.locator("#banner")).to_contain_text(words)
        settled(page)
        expect(page.locator("#banner")).to_contain_text("The page shows its default problem instead")
        expect(page.locator("#test_error .curve").first).to_be_attached()
        shot(page, "bad-address.png")


def test_problem_without_theory_says_why_in_place(page):
    page.goto("/?activation=0,0,1&n=100&psi=20")
    expect(page.locator("figure .notice").first).to_contain_text(
        "needs n, d, N and n_step of at least 10", ignore_case=True
    )
    page.locator("#quality[data-settled=true]").wait_for()
    expect(page.locator("#quality")).to_have_attribute("data-quality", "none")  # no green dot
    expect(page.locator("#quality")).to_have_text("There is no theory for this problem.")
    shot(page, "no-theory.png")


def test_an_activation_without_a_linear_part_has_numbers_and_no_windows(page):
    page.goto("/?activation=0,0,0.5")
    page.locator("#quality[data-settled=true]").wait_for()
    expect(page.locator("#test_error .curve").first).to_be_attached()
    expect(page.locator("#test_error")).not_to_contain_text("window")
    page.goto("/")
    settled(page)
    expect(page.locator("#test_error")).to_contain_text("window")


def test_simulation_runs_shows_points_and_a_second_tab_sees_them(page, second, gate):
    page.goto(f"/{SMALL}")
    ready(page)
    second.goto(f"/{SMALL}")
    ready(second)
    gate.shut()  # the job stays at its first part until both tabs have shown it
    page.locator("#seeds").fill("4")
    page.locator("#run").click()
    expect(page.locator("#job-state")).to_contain_text("0 of 4 seeds")
    expect(second.locator("#job-state")).to_contain_text("0 of 4 seeds")
    expect(second.locator("#cancel")).to_be_visible()
    gate.open()
    expect(page.locator("#test_error .mark")).to_have_count(10)
    expect(page.locator("#job-state")).to_contain_text("4 seeds finished")
    expect(second.locator("#test_error .mark")).to_have_count(10)
    expect(page.locator("#spectrum .bar").first).to_be_attached()
    settled(page)
    shot(page, "simulated.png")


@pytest.fixture
def clocked(browser, server, store):
    """A tab whose clock the test moves: a profile has one clock, so this one has a profile of its own."""
    context = browser.new_context(base_url=server.address)
    context.set_default_timeout(1000 * LIMIT)
    context.set_default_navigation_timeout(1000 * LIMIT)  # which old releases of playwright keep apart
    context.clock.install()
    with opened(context) as page:
        yield page
    context.close()


def test_idle_tab_does_not_ask_for_news(clocked):
    page = clocked
    page.goto(f"/{SMALL}")
    settled(page)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(600_000)  # ten minutes by the page's clock
    page.evaluate("() => fetch('/api/about').then((answer) => answer.json())")  # after whatever the page has asked
    assert any(url.endswith("/api/about") for url in asked)
    assert not any(url.endswith("/api/simulation") for url in asked)


def test_simulation_can_be_cancelled(page, gate):
    page.goto(f"/{SMALL}")
    settled(page)
    gate.shut()
    page.locator("#seeds").fill("60")
    page.locator("#run").click()
    expect(page.locator("#cancel")).to_be_visible()
    before = curve(page)
    page.locator("#control-noise").press("ArrowRight")  # the page goes on working meanwhile
    wait_for_change(page, before)
    page.locator("#cancel").click()
    expect(page.locator("#job-state")).to_contain_text("Cancelled")
    expect(page.locator("#run")).to_be_enabled()


def test_too_large_a_simulation_is_refused_with_the_largest_allowed(page):
    page.allowed.append("400 (Bad Request)")
    page.goto("/?n=1000000")
    ready(page)
    page.locator("#run").click()
    expect(page.locator("#job-state")).to_contain_text("too large to simulate here")
    expect(page.locator("#job-state")).to_contain_text("goes up to n = ")


def test_store_of_a_sweep_is_browsed(page, server, gate, sweep_store):
    with server.using(sweep_store, gate):
        browse_the_store(page)


def browse_the_store(page):
    page.goto(f"/{SMALL}")
    ready(page)
    page.locator("#view-store").click()
    expect(page.locator("#store-title")).to_have_text("test error against exponent α")
    page.locator("#axes").get_by_label("a line for each").select_option("activation")
    page.locator("#axes").get_by_label("at penalty λ =").select_option("0.05")
    assert page.locator("#store-chart .curve").count() == 2
    assert page.locator("#store-chart .mark").count() == 6
    page.locator("#axes").get_by_label("show").select_option("train_loss")
    expect(page.locator("#store-title")).to_have_text("ridge objective against exponent α")
    shot(page, "store.png")
    expect(page.locator("#store-agreement")).to_have_text(
        re.compile(r"Theory is within 2 % or three standard errors in \d+ of 12; .*largest .* at ")
    )
    page.locator("#axes").get_by_label("as").select_option("gaps")
    expect(page.locator("#store-chart .cell")).to_have_count(6)
    page.reload()  # the address has all of it
    expect(page.locator("#store-chart .cell")).to_have_count(6)
    expect(page.locator("#store-title")).to_have_text("ridge objective against exponent α")
    page.locator("#store-table button").first.click()
    expect(page.locator("#control-n-number")).to_have_value("300")


def test_keyboard_alone_is_enough(page):
    page.goto(f"/{SMALL}")
    ready(page)

    def tab_to(selector):
        for _ in range(80):
            page.keyboard.press("Tab")
            if page.evaluate("s => document.activeElement.matches(s)", selector):
                return
        raise AssertionError(f"{selector} is not reached by Tab")

    tab_to("#copy summary")
    page.keyboard.press("Enter")
    expect(page.locator("[data-copy=python]")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("[data-copy=python]")).to_be_hidden()
    tab_to("#control-exponent")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#control-exponent-number")).to_have_value("0.205")
    settled(page)  # no formula changes from here on
    outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
    tab_to("#run")
    page.locator("#open-formulas").focus()
    page.keyboard.press("Enter")
    tab_to("#formulas .sym")
    expect(page.locator("#tip")).to_be_visible()
    first = page.locator("#tip").inner_text()
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").inner_text() != first


def test_symbols_are_explained_on_hover(small):
    small.locator("#open-formulas").click()
    small.locator("#formulas .sym[data-symbol=eta]").first.hover()
    expect(small.locator("#tip")).to_have_text("η: the size of the gradient step")
    expect(small.locator("#formulas section", has_text="The fit")).to_contain_text("λ‖â‖² = ")
    small.locator("#close-formulas").click()
    expect(small.locator("#formulas")).to_be_hidden()


def test_phone_width_needs_no_sideways_scrolling(page):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/")
    settled(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    for figure in ("function", "test_error", "train_loss", "spectrum", "learned"):
        assert page.locator(f"#{figure}").bounding_box()["width"] <= 390
    shot(page, "phone.png")
    page.locator("#control-phi").scroll_into_view_if_needed()
    box = page.locator("#test_error").bounding_box()
    assert box["y"] >= 0  # still in sight
    shot(page, "phone-controls.png")


def background(page):
    colour = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    return sum(map(int, re.findall(r"\d+", colour)[:3]))


def test_dark_follows_the_system_and_the_button(page):
    page.emulate_media(color_scheme="dark")
    page.goto("/")
    settled(page)
    assert background(page) < 150
    shot(page, "dark.png")
    page.locator("#theme").click()
    assert background(page) > 600
    page.reload()
    assert background(page) > 600


def test_lines_differ_without_colour(page):
    page.goto(LONG_ADDRESS)
    ready(page)
    # found and read in one go: a curve drawn anew in between has no style
    dashes = "() => [...document.querySelectorAll('#learned .curve')].map(c => getComputedStyle(c).strokeDasharray)"
    lines = page.evaluate(dashes)
    assert len({*lines, "2px, 5px"}) == 5  # one for each degree, and dots for what is learned without the step
    page.evaluate("() => (document.documentElement.style.filter = 'grayscale(1)')")
    shot(page, "grey.png")


def test_copies_are_those_of_the_server(small):
    small.context.grant_permissions(["clipboard-read", "clipboard-write"])
    expected = small.context.request.get(f"/api/problem{SMALL}", timeout=1000 * LIMIT).json()["copies"]
    for kind in ("python", "toml", "command"):
        small.locator("#copy summary").click()
        small.locator(f"[data-copy={kind}]").click()
        expect(small.locator("#toast")).to_contain_text(f"Copied as {kind}", ignore_case=True)
        assert small.evaluate("() => navigator.clipboard.readText()") == expected[kind]


def test_download_gives_the_figure(small):
    small.locator("#download summary").click()
    with small.expect_download() as waiting:
        small.locator("#download-csv").click()
    assert "test error,theory at this n,theory,0," in waiting.value.path().read_text()


def test_preset_sets_the_problem(page):
    page.goto("/")
    ready(page)
    page.locator("#preset").select_option(label="staircase")
    expect(page.locator("#preset-note")).to_contain_text("How much of each degree")
    ready(page)
    expect(page.locator("#learned .curve")).to_have_count(4)
    expect(page.locator("#preset-note b")).to_have_text(re.compile(r"Now \d+ % of degree 1, "))
    answer = page.locator("#preset-note b").inner_text()
    page.locator("#control-exponent").press("Home")  # α = 0: the answer follows
    expect(page.locator("#preset-note b")).not_to_have_text(answer)
    expect(page.locator("#preset-note b")).to_contain_text("Now ")
    page.go_back()
    expect(page.locator("#control-activation")).to_have_value("relu")
