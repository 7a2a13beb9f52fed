"""What the explorer says is so: nothing beyond what was computed, and marked where it is stale, wrong or known to be off."""

import json
import re

import pytest

from waiting import CHROMIUM, LIMIT, Gate, opened, wait_for

playwright_api = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
expect = playwright_api.expect
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="the browser tests need chromium or Chrome on the PATH")
SMALL = "/?n=200"


@pytest.fixture
def page(profile, store):
    with opened(profile) as page:
        yield page


@pytest.fixture(scope="module")
def small(profile):
    """The page of the small problem, for the tests that only read it."""
    with opened(profile) as page:
        page.goto(SMALL)
        settled(page)
        yield page


@pytest.fixture(scope="module")
def strong(profile):
    """The same after a strong step; measured there (tests/theory/test_quick.py): ‖F − F₃‖ is larger than ‖F‖."""
    with opened(profile) as page:
        page.goto(f"{SMALL}&constant=5&exponent=0.36")
        settled(page)
        yield page


def settled(page):
    """Whatever the full theory says of the problem asked for is drawn, and put into words a moment later."""
    page.locator("#quality[data-settled=true]").wait_for()
    page.evaluate("() => new Promise((done) => setTimeout(done))")


def enter(page, name, text):
    page.locator(f"#control-{name}-number").fill(text)
    page.locator(f"#control-{name}-number").press("Enter")


def features(page):
    return page.locator("#formulas section", has_text="The features")


def test_features_are_called_close_to_their_expansion_only_where_they_are(small, strong, page):
    expect(features(small)).to_contain_text("≈")
    expect(features(small)).to_contain_text("What the sum leaves out along β: 6 % of ‖F‖")
    expect(features(strong)).not_to_contain_text("≈")
    expect(features(strong)).to_contain_text("Not at this n: what they leave out along β is")
    page.goto(f"{SMALL}&exponent=0.5")
    settled(page)
    expect(features(page)).not_to_contain_text("≈")
    expect(features(page)).to_contain_text("no finite sum of spikes stands for F")
    enter(page, "constant", "0")
    settled(page)
    expect(features(page)).to_contain_text("No step was taken.")
    expect(features(page)).not_to_contain_text("The bulk moves too")


def test_axis_names_alpha_for_any_constant_of_the_step(strong):
    for figure in ("test_error", "train_loss", "learned"):
        expect(strong.locator(f"#{figure} .axis-label")).to_have_text("α in η = c·nα")


def test_learned_shares_stand_beside_those_without_the_step(small):
    expect(small.locator("#sentence")).to_contain_text(
        "learned 76 % of degree 1 and 8 % of degree 2, without the step 63 % and 1 %"
    )
    assert small.locator("#learned .level").count() == 2


def test_every_baseline_is_drawn_or_named_and_a_better_one_is_told(small):
    words = " ".join(small.locator("#test_error .baseline-label").all_text_contents())
    for name in (
        "without the step",
        "ridge on the inputs",
        "best linear predictor",
        "best function of βᵀx",
        "noise alone",
    ):
        assert name in words
    expect(small.locator("#sentence")).to_contain_text(
        "Ridge regression on the inputs, with its best penalty, does better: 1.71"
    )


def test_fewer_spikes_than_the_window_has_come_with_the_reason(small):
    expect(small.locator("#sentence")).to_contain_text("one eigenvalue leaves the bulk")
    expect(small.locator("#note-spectrum")).to_contain_text(
        "this window has spikes of degree 1, 2; not visible at n = 200"
    )
    window = small.locator("#formulas section", has_text="The window: ℓ = 2")
    expect(window).to_contain_text(
        "As n → ∞ it has spikes of degree 1, 2. At n = 200 and this c one eigenvalue leaves the bulk."
    )


def test_a_symbol_keeps_its_letter_at_the_head_of_a_sentence(small):
    script = "async words => (await import('/static/text.js')).asSentence(words)"
    for words in (
        "n must be a number",
        "phi must be",
        "α = 1/4 is a threshold",
        "d is too small",
        "λ must be positive",
    ):
        assert small.evaluate(script, words) == f"{words}."
    assert small.evaluate(script, "a simulation is running") == "A simulation is running."
    assert small.evaluate(script, "ridge must be positive") == "Ridge must be positive."


def test_a_power_of_ten_and_the_exponent_of_the_step_are_two_exponents(page):
    page.goto("/?n=1000000000&exponent=0.29")
    settled(page)
    step = page.locator("#formulas section", has_text="The step")
    outer = step.locator("msup", has=page.locator("msup")).first
    assert outer.evaluate("e => [...e.children].map(c => c.textContent)") == ["(109)", "0.29"]
    assert outer.locator("msup").evaluate("e => [...e.children].map(c => c.textContent)") == ["10", "9"]


def test_numbers_of_an_earlier_alpha_are_marked_until_the_new_ones_are_there(page):
    page.goto(SMALL)
    settled(page)
    expect(page.locator("#sentence")).to_have_attribute("aria-busy", "false")
    held, holding = [], [True]
    page.route("**/api/here*", lambda route: held.append(route) if holding else route.continue_())
    page.locator("#control-exponent").press("ArrowRight")
    for name in ("sentence", "formulas", "spectrum", "note-spectrum"):
        expect(page.locator(f"#{name}.stale")).to_have_attribute("aria-busy", "true")
    expect(page.locator("#test_error.stale")).to_have_count(0)  # the curve is the same for every α
    expect(page.locator("#formulas section", has_text="The step")).to_contain_text(
        "2000.3="
    )  # of one problem, not of two
    holding.clear()
    for route in held:
        route.continue_()
    settled(page)
    expect(page.locator("#formulas section", has_text="The step")).to_contain_text("2000.305=")
    expect(page.locator(".stale")).to_have_count(0)


def test_numbers_that_come_before_the_first_frame_are_told_to_be_there(page, small):
    """On a machine with other things to do a page may get its answers first."""
    page.add_init_script("window.frames_ = []; window.requestAnimationFrame = (draw) => frames_.push(draw)")
    page.goto(SMALL)  # as `small`, whose answers are kept
    page.locator("html:not([data-here=''])[data-here]").wait_for(state="attached")
    for name in ("sentence", "formulas", "spectrum", "note-spectrum"):
        expect(page.locator(f"#{name}:not(.stale)")).to_have_attribute("aria-busy", "false")


def test_a_mistake_in_one_call_does_not_silence_the_one_asked_meanwhile(small):
    seen = small.evaluate("""async () => {
        const { latest } = await import("/static/net.js");
        const seen = [];
        let fail;
        const call = latest(async (x) => {
            seen.push(x);
            if (x === 1) await new Promise((_, refuse) => { fail = refuse; });
        });
        const first = call(1).catch(() => {});
        call(2);
        fail(new Error("the first"));
        await first;
        return seen;
    }""")
    assert seen == [1, 2]


def test_an_answer_whose_body_does_not_come_is_none(small):
    """A request may be given up, and a connection may end, once the head of the answer is there."""
    told = small.evaluate("""async () => {
        const { ask } = await import("/static/net.js");
        const real = window.fetch;
        const told = {};
        const half = (error) => Object.assign(new Response(), { json: () => Promise.reject(error) });
        const answers = {
            "given up": () => half(new DOMException("", "AbortError")),
            "cut off": () => half(new TypeError("network error")),
            "no JSON": () => new Response("<p>"),
            "a word of the server": () => new Response('{"error": "no"}', { status: 400 }),
            "an error without words": () => new Response("", { status: 500 }),
            "whole": () => new Response('{"x": 1}'),
        };
        window.fetch = async (path, options) => (path in answers ? answers[path]() : real(path, options));
        for (const path in answers) told[path] = await ask(path).then((x) => x, (error) => `${error.name}: ${error.message}`);
        const given = new AbortController();
        const late = ask("whole", { signal: given.signal });
        given.abort();
        told["come too late"] = await late.catch((error) => error.name);
        window.fetch = real;
        return told;
    }""")
    silent = "Error: the server does not answer; start it again with: onestride explore"
    assert told == {
        "given up": "AbortError: ",
        "cut off": silent,
        "no JSON": "Error: the server answered 200",
        "a word of the server": "Error: no",
        "an error without words": "Error: the server answered 500",
        "whole": {"x": 1},
        "come too late": "AbortError",
    }


def test_a_fraction_is_a_number_and_a_comma_gets_help(page):
    page.goto(f"{SMALL}&phi=1/2")
    settled(page)
    expect(page.locator("#control-phi-number")).to_have_value("0.5")
    enter(page, "exponent", "1/3")
    settled(page)
    expect(page.locator("#formulas")).to_contain_text("α lies on a threshold between two windows")
    enter(page, "exponent", "0,3")
    expect(page.locator("#banner")).to_contain_text("without commas (type 0.3), got '0,3'")
    enter(page, "exponent", "0.3")
    expect(page.locator("#banner")).to_be_hidden()


def test_a_wrong_value_goes_nowhere(page):
    page.goto(SMALL)
    settled(page)
    address = page.url
    enter(page, "n", "1.5")
    expect(page.locator("#control-n-number")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#banner")).to_contain_text("n must be a whole number")
    expect(page.locator("#run")).to_be_disabled()
    expect(page.locator("#run")).to_have_text("Simulate")
    expect(page.locator("#sentence.stale")).to_be_visible()
    expect(page.locator("#quality")).to_have_text("Nothing is computed while a value is wrong.")
    assert page.locator("#copy button").first.is_disabled()
    assert page.locator("#download-pdf").get_attribute("aria-disabled") == "true"
    with page.expect_response(lambda answer: "/api/problem" in answer.url and answer.status == 400):
        enter(page, "n", "2.5")  # what is asked before the address is written
    assert page.url == address
    enter(page, "n", "300")
    settled(page)
    expect(page.locator("#run")).to_have_text("Simulate at n = 300")
    expect(page.locator("#run")).to_be_enabled()
    expect(page.locator("#banner")).to_be_hidden()
    assert not page.locator("#copy button").first.is_disabled()
    page.wait_for_url(re.compile(r"/\?n=300$"))


REASON = "known to be off by more than 5 %: n is too close to d²/2"


def mark_off(route):
    """An answer of the server with every number above α = 1/4 known to be off."""
    answer = route.fetch(timeout=1000 * LIMIT)
    found = answer.json()
    if "x" in found:
        off = [a > 0.25 for a in found["x"]]
        found |= {
            "status": ["inaccurate" if x else "solved" for x in off],
            "messages": [REASON if x else "" for x in off],
        }
    elif "exponent=0.1" not in route.request.url:
        found |= {"status": "inaccurate", "message": REASON}
    route.fulfill(response=answer, body=json.dumps(found))


def test_features_larger_than_all_their_parts_are_not_called_close_to_them(page):
    def enlarge(route):
        answer = route.fetch(timeout=1000 * LIMIT)
        found = answer.json()
        found["expansion"]["norm"] *= 10
        route.fulfill(response=answer, body=json.dumps(found))

    page.route("**/api/here*", enlarge)
    page.goto(SMALL)
    settled(page)
    expect(features(page)).to_contain_text("How well a sum of spikes stands for F is not known here")
    expect(features(page)).not_to_contain_text("‖")


def test_numbers_known_to_be_off_are_dashed_and_told(page):
    page.route("**/api/here*", mark_off)
    page.route("**/api/curves*", mark_off)
    page.goto(SMALL)
    settled(page)
    expect(page.locator("#quality")).to_have_attribute("data-quality", "off")
    expect(page.locator("#quality")).to_have_text(f"K{REASON[1:]}.")
    expect(page.locator("#sentence")).to_contain_text("These numbers are known to be off by more than 5 %.")
    for figure in ("test_error", "train_loss"):
        assert page.locator(f"#{figure} .curve.off").count() == 1
        assert page.locator(f"#{figure} .curve:not(.off)").count() == 1
        expect(page.locator(f"#{figure} .here-dot.off")).to_be_attached()
        expect(page.locator(f"#{figure} .here-label")).to_contain_text("known to be off")
    for figure in ("function", "spectrum"):
        expect(page.locator(f"#{figure} .curve.off")).to_have_count(1)
    enter(page, "exponent", "0.1")  # here the theory holds; further up the curve it does not
    settled(page)
    expect(page.locator("#quality")).to_have_attribute("data-quality", "full")
    expect(page.locator("#quality")).to_contain_text(f"Dashed: {REASON}")
    for figure in ("test_error .here-dot", "function .curve", "spectrum .curve"):
        expect(page.locator(f"#{figure}.off")).to_have_count(0)


def test_a_chart_of_equal_values_is_drawn(page):
    rows = [{"exponent": a, "seeds": 2, "status": "solved", "query": None, "reason": ""} for a in (0.1, 0.3)]
    same = {"mean": 2.0, "stderr": 0.0, "theory": 2.0}
    rows = [row | {"test_error": same, "train_loss": same} for row in rows]
    store = {"store": "equal", "rows": rows, "total": 2, "axes": {"exponent": [0.1, 0.3]}, "fixed": {}}
    store["quantities"] = ["test_error", "train_loss"]
    page.route("**/api/store", lambda route: route.fulfill(json=store))
    page.goto(f"{SMALL}#store")
    expect(page.locator("#store-title")).to_have_text("test error against exponent α")
    expect(page.locator("#store-chart .mark")).to_have_count(2)
    assert page.locator("#store-chart .tick-label", has_text=re.compile("^2$")).count() == 1
    expect(page.locator("#store-words")).not_to_contain_text("lines are drawn")
    store["axes"] |= {"activation": [f"f{i}" for i in range(7)]}
    store["rows"] = [row | {"activation": name} for row in rows for name in store["axes"]["activation"]]
    page.goto("about:blank")
    page.goto(f"{SMALL}#store&by=activation")
    expect(page.locator("#store-words")).to_contain_text("Only 5 of 7 lines are drawn.")


# ---------------------------------------------------------------------- what the figures show


def told(page, figure):
    """The series that are drawn, by name."""
    return page.locator(f"#{figure}").evaluate("svg => Object.fromEntries(svg.told.map((s) => [s.label, s]))")


@pytest.fixture(scope="module")
def shared(profile, server, tmp_path_factory):
    """One page and one store for the tests of axes, pins, gains and files."""
    folder = tmp_path_factory.mktemp("figures")
    with server.using(folder / "store", Gate(folder / "gate")), opened(profile) as page:
        yield page


@pytest.fixture
def figures(shared):
    """That page at its problem, whatever the test before it left behind: in the address, or beside it."""
    address = "/?n=200&exponent=0.2"
    if not (shared.url.endswith(address) and shared.evaluate(UNTOUCHED)):
        shared.set_viewport_size({"width": 1280, "height": 900})
        shared.evaluate("() => location.host && localStorage.clear()")
        shared.goto("about:blank")  # another hash alone would not load the page again
        shared.goto(address)
    settled(shared)
    return shared


# an address is written a moment after the values have changed; what is switched on or open is not in it
UNTOUCHED = """() => {
  const none = (what) => !document.querySelector(what);
  return document.documentElement.dataset.asked === '{"n":"200","exponent":"0.2"}' && innerWidth === 1280 && innerHeight === 900 && scrollY === 0
    && none('.legend [aria-pressed=false], .zoomed, details[open], :is(#draw, #play, #tell, #view-store)[aria-pressed=true]')
    && none(':is(#why-list, #drawer, #tip, #banner, #preset-note):not([hidden])');
}"""


def test_first_figure_is_the_teacher_and_what_is_learned_of_it(figures):
    assert figures.locator(".grid svg[role=img]").first.get_attribute("id") == "function"
    drawn = told(figures, "function")
    at = drawn["teacher"]["x"].index(2)
    assert drawn["teacher"]["y"][at] == pytest.approx(2 + 0.7071 * 3)
    assert drawn["without the step"]["y"][at] < drawn["after the step"]["y"][at] < drawn["teacher"]["y"][at]


def test_a_simulation_draws_the_predictor_and_gains_have_paired_bars(figures):
    figures.locator("#seeds").fill("3")
    figures.locator("#run").click()
    expect(figures.locator("#job-state")).to_contain_text("3 seeds finished")
    expect(figures.locator("#legend-test_error")).to_contain_text("simulation, 3 seeds")  # the points follow the words
    expect(figures.locator("#function .dots")).to_be_attached()
    assert len(told(figures, "function")["f̂(x), simulated"]["x"]) == 400
    errors = told(figures, "test_error")["simulation"]
    figures.locator("#gain").check()
    expect(figures.locator("figure.first h2")).to_have_text("Gain in test error")
    gains = told(figures, "test_error")["simulation"]
    assert gains["error"][0] < errors["error"][0]  # at α = 0 both networks are almost the same
    assert "gain=1" in figures.url
    neurons = told(figures, "neurons")
    assert len(neurons["after, simulated"]["x"]) == 300  # N
    assert "√n·u₁, simulated" in told(figures, "vectors")
    figures.locator("#gain").uncheck()
    expect(figures.locator("figure.first h2")).to_have_text("Test error")


def test_pinned_curves_stay_with_their_name_and_in_the_address(figures):
    figures.locator("#pin").click()
    figures.locator("#pins input").fill("before")
    figures.locator("#pins input").press("Enter")
    expect(figures.locator("#test_error .ghost[data-series=before]")).to_be_attached()
    old = told(figures, "test_error")["theory"]["y"]
    enter(figures, "ridge", "0.5")
    settled(figures)
    drawn = told(figures, "test_error")
    assert drawn["before"]["y"] == pytest.approx(old)
    assert drawn["theory"]["y"] != pytest.approx(old)
    figures.reload()
    expect(figures.locator("#pins input")).to_have_value("before")
    expect(figures.locator("#test_error .ghost[data-series=before]")).to_be_attached()
    figures.locator("#pins button").click()
    expect(figures.locator(".ghost")).to_have_count(0)
    enter(figures, "ridge", "0.1")
    settled(figures)


def test_any_quantity_is_drawn_along_any_axis(figures):
    figures.locator("#axis").select_option("ridge")
    expect(figures.locator("#test_error .axis-label")).to_have_text("penalty λ")
    settled(figures)
    expect(figures.locator("#sentence")).to_contain_text("the test error from")
    figures.locator("#quantity").select_option("gap")
    expect(figures.locator("#train_loss")).to_have_attribute("aria-label", re.compile("Test minus training error"))
    first, *_, last = told(figures, "train_loss")["theory"]["y"]
    assert first > last  # a small penalty overfits
    box = figures.locator("#test_error").bounding_box()
    figures.mouse.click(box["x"] + 0.7 * box["width"], box["y"] + 60)
    settled(figures)
    assert 0.5 < float(figures.locator("#control-ridge-number").input_value()) < 5
    figures.locator("#axis").select_option("exponent")
    figures.locator("#quantity").select_option("train_loss")
    enter(figures, "ridge", "0.1")
    settled(figures)
    assert figures.url.endswith("/?n=200&exponent=0.2")


def test_values_under_the_pointer_are_read_out(figures):
    box = figures.locator("#learned").bounding_box()
    figures.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    expect(figures.locator("#tip")).to_contain_text("degree 1: 0.")
    before = re.search(r"degree 1: [0-9.]+", figures.locator("#tip").inner_text()).group()
    expect(figures.locator("#learned .cross")).to_be_attached()
    enter(figures, "exponent", "0.25")  # the pointer rests where it is
    enter(figures, "noise", "1.5")
    expect(figures.locator("#tip")).not_to_contain_text(before)
    settled(figures)
    expect(figures.locator("#learned .cross")).to_be_attached()
    figures.mouse.move(2, 2)
    expect(figures.locator("#tip")).to_be_hidden()


def test_map_is_read_out_cell_by_cell(figures):
    figures.locator("#map:not(.stale) .best").wait_for(state="attached")
    box = figures.locator("#map").bounding_box()
    figures.locator("#map").hover(position={"x": 0.6 * box["width"], "y": 0.5 * box["height"]})
    expect(figures.locator("#tip")).to_contain_text(re.compile(r"α = 0\.\d+, λ = .*: \d"))
    figures.mouse.move(2, 2)


def test_legend_switches_its_line_off_and_on(figures):
    switch = figures.locator("#legend-test_error button", has_text="theory at this n")
    switch.click()
    expect(figures.locator("#test_error [data-series=theory]")).to_have_count(0)
    assert "theory" not in told(figures, "test_error")
    switch.click()
    expect(figures.locator("#test_error [data-series=theory]")).to_be_attached()


@pytest.mark.parametrize("figure", ["test_error", "spectrum", "map", "neurons"])
def test_figure_is_looked_at_closer_and_whole_again(figures, figure):
    box = figures.locator("figure", has=figures.locator(f"#{figure}"))
    figures.locator(f"#{figure}:not(.stale) .tick-label").first.wait_for(state="attached")
    width = f"() => (({{ low, high, log }}) => (log ? Math.log(high / low) : high - low))(document.getElementById('{figure}').scale.x)"
    before = figures.evaluate(width)
    box.locator("[data-zoom=closer]").click()
    assert figures.evaluate(width) == pytest.approx(0.6 * before)
    box.locator("[data-zoom=all]").click()
    assert figures.evaluate(width) == pytest.approx(before)


def test_formulas_follow_the_problem_while_the_keyboard_is_on_one_of_their_symbols(figures):
    """As after Back: they kept the numbers of the problem before, unmarked."""
    figures.locator("#open-formulas").click()
    figures.locator("#formulas .sym[data-symbol=n]").first.focus()
    number = "document.getElementById('control-exponent-number')"
    figures.evaluate(f"() => {{ {number}.value = '0.25'; {number}.dispatchEvent(new Event('change')); }}")
    settled(figures)
    expect(figures.locator("#formulas section", has_text="The step")).to_contain_text("2000.25=")
    assert figures.evaluate("() => document.activeElement.dataset.symbol") == "n"
    figures.locator("#close-formulas").click()
    enter(figures, "exponent", "0.2")


def test_zoom_ends_where_the_problem_leaves_it(figures):
    box = figures.locator("figure.first")
    box.locator("[data-zoom=closer]").click()
    expect(figures.locator("figure.first.zoomed")).to_be_attached()
    enter(figures, "exponent", "0.45")
    expect(figures.locator("figure.first:not(.zoomed)")).to_be_attached()


def test_teacher_is_drawn_with_the_keys_and_goes_into_the_address(figures):
    figures.locator("#draw").click()
    expect(figures.locator("#function [data-series^=drawn]")).to_be_attached()
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "ArrowUp"):
        figures.keyboard.press(key)
    figures.wait_for_url(re.compile(r"teacher=0,1\."))
    figures.keyboard.press("Escape")
    expect(figures.locator("#function [data-series^=drawn]")).to_have_count(0)


def test_teacher_drawn_with_the_pointer_is_its_projection(figures):
    script = """async () => {
      const { project } = await import("/static/draw.js");
      const z = Array.from({ length: 121 }, (_, i) => -3 + i / 20);
      return project(z.map((x) => 2 + 0.5 * x - 0.3 * (x * x - 1) + 0.1 * (x ** 3 - 3 * x)));
    }"""
    assert figures.evaluate(script) == pytest.approx([2, 0.5, -0.3, 0.1, 0], abs=1e-9)
    figures.locator("#draw").click()
    box = figures.locator("#function").bounding_box()
    figures.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.3 * box["height"])
    figures.mouse.down()
    figures.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 0.7 * box["height"])
    figures.mouse.up()
    figures.wait_for_url(re.compile(r"teacher=0,-"))  # a line that falls
    figures.locator("#draw").click()


def test_figures_fill_the_window(figures):
    """Two rows of four on a large screen, four figures in sight on a small one."""
    feet = "all => all.map((e) => e.getBoundingClientRect().bottom)"
    for (width, height), seen in (((1920, 1080), 8), ((2560, 1440), 8), ((1280, 720), 4)):
        figures.set_viewport_size({"width": width, "height": height})

        def filled(height=height, seen=seen):  # the page hears of its new size a moment later
            inside = [foot for foot in figures.locator(".grid figure").evaluate_all(feet) if foot <= height]
            controls = figures.locator("#controls").bounding_box()["height"]
            return len(inside) == seen and max(inside) > height - 40 and controls > height - 120

        wait_for(filled, f"{seen} figures in a window of {width} × {height}")
    figures.set_viewport_size({"width": 1280, "height": 900})


def test_every_figure_can_be_saved(figures):
    for kind, begins in (("CSV", b"series,x,y,error\ntheory"), ("SVG", b"<svg xmlns"), ("PNG", b"\x89PNG")):
        figures.locator("figure.first .files summary").click()
        with figures.expect_download() as waiting:
            figures.locator("figure.first .files button", has_text=kind).click()
        assert waiting.value.suggested_filename == f"onestride-test_error.{kind.lower()}"
        assert waiting.value.path().read_bytes().startswith(begins)
        if kind == "SVG":  # the numbers of the axes as on the page
            numbers = re.findall(r'class="tick-label"[^>]*style="([^"]*)"', waiting.value.path().read_text())
            assert numbers
            assert all("font-size: 11.5px" in style for style in numbers)


def test_play_moves_its_slider_to_the_end(figures):
    enter(figures, "constant", "9.5")
    figures.locator("#play-over").select_option("constant")
    figures.locator("#play").click()
    expect(figures.locator("#control-constant-number")).to_have_value("10")
    expect(figures.locator("#play")).to_have_text("▶ Play")
    enter(figures, "constant", "1")


def test_map_marks_the_least_error_and_a_click_goes_there(figures):
    figures.locator("#map:not(.stale) .best").wait_for(state="attached")
    words = figures.locator("#map").get_attribute("aria-label")
    assert re.search(r"least [\d.]+ at α = 0\.\d+, λ = ", words)
    box = figures.locator("#map").bounding_box()
    figures.locator("#map").click(position={"x": 0.9 * box["width"], "y": 0.4 * box["height"]})
    expect(figures.locator("#control-exponent-number")).to_have_value(re.compile(r"0\.4"))
    enter(figures, "exponent", "0.2")
    enter(figures, "ridge", "0.1")


def test_why_names_causes_and_a_click_changes_the_problem(figures):
    figures.locator("#why").click()
    fix = figures.locator("#why-list li", has_text="too small").get_by_role("button", name="Use λ near")
    value = fix.inner_text().split()[3]
    fix.click()
    expect(figures.locator("#control-ridge-number")).to_have_value(value)
    expect(figures.locator("#why-list")).to_be_hidden()
    enter(figures, "ridge", "0.1")


def test_story_goes_from_scene_to_scene_by_address(figures):
    figures.locator("#tell").click()
    expect(figures.locator("#story")).to_contain_text("1/6 The data")
    expect(figures.locator("#sentence")).to_contain_text("Without a step the test error is")
    figures.locator("#story button", has_text="Next").click()
    figures.wait_for_url(re.compile(r"#scene=2$"))
    expect(figures.locator("figure.told #learned")).to_be_attached()
    figures.locator("#story button", has_text="×").click()
    expect(figures.locator("#story")).to_be_hidden()
    assert "scene" not in figures.url


def test_names_of_lines_do_not_collide(figures):
    """At every α and two sizes of the window the boxes of all names in the error figure are apart."""
    script = """svg => {
      const boxes = [...svg.querySelectorAll(".baseline-label, .here-label")].map((t) => t.getBoundingClientRect());
      const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top + 3 || b.bottom <= a.top + 3;
      return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => !apart(a, b))).length;
    }"""
    for width in (1280, 700):
        figures.set_viewport_size({"width": width, "height": 720})
        for noise in ("0.2", "0.9", "1.6"):
            enter(figures, "noise", noise)
            wait_for(lambda: figures.locator("html").evaluate("(e) => e.dataset.curves === e.dataset.asked"), "curves")
            wait_for(lambda: figures.locator("#test_error").evaluate(script) == 0, "names that do not collide")


DRAWN = """async ([size, horizontals, spikes]) => {
  const { draw } = await import('/static/chart.js');
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  document.createElement('figure').append(Object.assign(svg, { size }));
  const axis = (high) => ({ low: 0, high, ticks: [], format: String, label: '' });
  draw(svg, { x: axis(1), y: axis(30), horizontals, series: [{ kind: 'spikes', names: ['k = 2', 'k = 1'], y: [0, 0], ...spikes }] });
  const told = (name) => [...svg.querySelectorAll(name)].map((t) => [t.textContent, ...['x', 'y'].map((c) => Number(t.getAttribute(c)))]);
  const negative = [...svg.querySelectorAll('rect')].filter((r) => r.getAttribute('height') < 0 || r.getAttribute('width') < 0).length;
  const { inner, toX, toY } = svg.scale;
  return { lines: told('.baseline-label'), spikes: told('.spike-label'), negative, foot: inner.y + inner.h, at: horizontals.map((h) => toY(h.at)), x: spikes.x.map(toX) };
}"""


def test_names_of_crowded_lines_stay_in_the_figure_and_have_their_values(small):
    """As on a phone: a name that has no room at its line is not put where it would seem to name another."""
    names = {"without": 5.5, "best function of βᵀx": 2.1, "ridge on the inputs": 1.7, "noise alone": 0.25}
    horizontals = [{"at": at, "label": name} for name, at in names.items()]
    drawn = small.evaluate(DRAWN, [[350, 180], horizontals, {"x": []}])
    place = dict(zip(names, drawn["at"], strict=True))
    told = " ".join(text for text, *_ in drawn["lines"])
    assert all(name in told for name in names)
    for text, _, y in drawn["lines"]:
        assert y < drawn["foot"]
        if text in names:
            assert min(place.values(), key=lambda line: abs(line - y + 4)) == place[text]
        else:
            assert all(f"{name} {names[name]}" in text for name in names if name in text)
    assert small.evaluate(DRAWN, [[30, 30], horizontals, {"x": []}])["negative"] == 0  # a figure without height yet


def test_the_name_of_a_spike_stands_beside_its_taller_neighbour(small):
    drawn = small.evaluate(DRAWN, [[500, 250], [], {"x": [0.9, 0.899]}])
    (_, first, above), (_, second, below) = drawn["spikes"]
    assert above < below
    assert first == pytest.approx(drawn["x"][0])
    assert second < drawn["x"][1] - 8
    assert small.locator("figure:has(#spectrum) h2 sup").inner_text() == "⊤"


def test_new_fields_have_controls_and_a_missing_spectrum_its_reason(page):
    page.goto("/?n=200&steps=2&constant=0.5")
    expect(page.locator("#formulas section", has_text="Several steps")).to_contain_text("Stable")
    expect(page.locator("#test_error .stable")).to_be_attached()
    expect(page.locator("#sentence")).to_contain_text("Two steps of size")
    expect(page.locator("#spectrum + .notice")).to_contain_text("the page does not draw the spectrum")
    expect(page.locator("#vectors + .notice")).to_contain_text("the page does not draw the spectrum")
    expect(page.locator("#vectors")).to_have_attribute("aria-label", re.compile("nothing is known of them$"))
    assert page.locator("#vectors > g").evaluate("(e) => getComputedStyle(e).visibility") == "hidden"  # an old axis
    assert page.locator("#control-kappa").is_hidden()
    page.locator("#control-inputs").select_option("spiked")
    expect(page.locator("#control-kappa")).to_be_visible()
    page.locator("#control-directions").select_option("2")
    expect(page.locator("#control-mix")).to_be_visible()


def test_formulas_of_isotropic_inputs_are_not_said_of_others(page):
    page.goto("/?n=100&inputs=elliptic&steps=2&constant=0.5")
    page.locator("#formulas section").first.wait_for(state="attached")
    formulas = page.locator("#formulas")
    expect(formulas.locator("section", has_text="The direction found")).to_contain_text("holds for inputs of identity")
    expect(formulas).not_to_contain_text("E y²")
    expect(formulas.locator("section", has_text="Several steps")).not_to_contain_text("/")
    expect(page.locator("#neurons + .notice")).to_contain_text("holds for inputs of identity")
    assert page.locator("#neurons .curve").count() == 0
    page.goto("/?n=100&steps=2&constant=0.5")
    settled(page)
    expect(formulas).to_contain_text("E y²")
    expect(formulas.locator("section", has_text="Several steps")).to_contain_text("/")
    expect(page.locator("#neurons + .notice")).to_be_hidden()
    assert page.locator("#neurons .curve").count() == 1  # before the steps


def test_numbers_that_read_alike_are_not_said_to_differ(small):
    """A step that does nothing is not said to lower 2.25 to 2.25, nor a baseline to do better than 2.25 with 2.25."""
    script = "async ([f, curves]) => (await import('/static/formulas.js')).sentence(f, curves)"
    before = {"test_error": 2.2501, "fraction": {}, "linear-ridge": 2.2499}
    here = {"test_error": 2.25, "eta": 8, "steps": 1, "fraction": {}, "status": "solved"}
    assert small.evaluate(script, [here, {"before": before}]) == (
        "A step of size <b>η = 8</b> leaves the test error at <b>2.25</b>."
    )
    after = here | {"test_error": 2.1, "steps": 2}
    assert small.evaluate(script, [after, {"before": before | {"linear-ridge": 1.9}}]) == (
        "Two steps of size <b>η = 8</b> lower the test error from 2.25 to <b>2.10</b> (−6.7 %). "
        "Ridge regression on the inputs, with its best penalty, does better: 1.90."
    )


def test_the_learned_shares_are_those_of_the_full_theory_in_every_place(strong):
    """The quick ones are others here: 0.1 apart."""
    words = strong.locator("#sentence").inner_text()
    first, second = re.search(r"learned (\S+) % of degree 1 and (\S+) % of degree 2", words).groups()
    told = f"{first} % of degree 1, {second} % of degree 2"
    expect(strong.locator("#learned")).to_have_attribute(
        "aria-label", f"Share of each degree learned against α: {told} at 0.36"
    )
    expect(strong.locator("#function")).to_have_attribute("aria-label", re.compile(f"learned of it: {told}$"))


def test_a_share_that_is_not_known_is_not_said_to_be_0(small):
    script = "async (here) => (await import('/static/figures.js')).sharesOf(here, ' at 0.3')"
    assert small.evaluate(script, {"fraction": {"1": None, "2": -0.4}}) == ": −40 % of degree 2 at 0.3"
    assert small.evaluate(script, {"fraction": {"1": None}}) == ""
    script = "async (here) => (await import('/static/presets.js')).ANSWERS.shares(here)"
    assert small.evaluate(script, {"fraction": {}}) == ""


def test_formulas_say_what_holds_for_this_problem(small):
    """Beyond α = 1/2, without a step, without a linear part, of a long teacher, of several directions."""
    script = """async (changes) => {
      const { formulas } = await import('/static/formulas.js');
      const known = await (await fetch('/api/here?n=200&quality=quick')).json();
      const values = { teacher: '0,1', noise: '0', exponent: '0.7', constant: '1', gradient: 'full' };
      return changes.map((change) => {
        const box = document.createElement('div');
        box.innerHTML = formulas({ ...known, expansion: null, ...change }, values);
        return [...box.children].map((card) => card.textContent);
      });
    }"""
    square = {"window": None, "threshold": True, "activation": [0, 0, 1, 0, 0, 0, 0]}
    changes = [{"window": None}, {"eta": 0}, square, {"teacher": [0, 1, 1, 1, 1, 1, 0]}, {"directions": 2}]
    beyond, none, square, long, several = map(" ".join, small.evaluate(script, changes))
    assert "α = 0.7 lies beyond every window." in beyond
    assert "The windowNone: no step was taken." in none
    assert "threshold" not in square
    assert "How well a sum of spikes stands for F is not known here." in square
    assert "H4+…" in long
    assert "yₖ is the part of degree k of the labels" in several
    assert all("…" not in text and "yₖ" not in text for text in (beyond, none, square))


@pytest.mark.parametrize(
    "ends", [[1.2e-8, 2.1e-8], [-2e-5, 8e-5], [1.082e10, 1.09e10], [0, 3e7], [-0.3, 0.6], [1e-12, 1e-12]]
)
def test_numbers_on_an_axis_tell_its_ticks_apart_and_have_room(small, ends):
    script = """async ([low, high]) => {
      const { draw, niceTicks } = await import('/static/chart.js');
      const figure = document.body.appendChild(document.createElement('figure'));
      const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
      figure.append(Object.assign(svg, { size: [400, 260] }));
      const y = niceTicks(low, high);
      draw(svg, { x: { low: 0, high: 1, ticks: [], format: String, label: '' }, y, series: [] });
      const out = [...svg.querySelectorAll('.tick-label')].map((t) => [t.textContent, t.getAttribute('x') - t.getComputedTextLength()]);
      figure.remove();
      return [y.ticks.length, out];
    }"""
    count, told = small.evaluate(script, ends)
    assert len({text for text, _ in told}) == len(told) == count
    assert all(left >= 0 for _, left in told)
    assert any(0.99 < _number(text) / max(map(abs, ends)) < 1.5 for text, _ in told)


def _number(text):
    """7·10⁻⁹, −0.3, 10¹⁰."""
    plain = str.maketrans("−⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "--0123456789")
    size, power = re.fullmatch(r"(?:(−?[\d.,]+)(?:·|$))?(?:10([⁻⁰-⁹¹²³]+))?", text).groups()
    return float((size or "1").replace(",", "").translate(plain)) * 10.0 ** int((power or "0").translate(plain))


def test_a_gain_of_nothing_is_not_said_to_be_a_loss(small):
    """As the sentence above it."""
    script = "async ([f, curves]) => (await import('/static/presets.js')).ANSWERS.gain(f, curves)"
    before = {"before": {"test_error": 1.8660}}
    assert small.evaluate(script, [{"test_error": 1.8675}, before]) == "Now the step leaves the test error at 1.87."
    assert small.evaluate(script, [{"test_error": 1.95}, before]) == "Now the step loses 0.084: from 1.87 to 1.95."


def test_what_only_the_full_theory_covers_is_not_said_to_have_none(page):
    """The readout fitted on the samples of the step: the quick theory has no number, and the full one is held back."""
    page.route(re.compile("quality=full"), lambda route: None)
    page.goto(f"{SMALL}&fresh=false")
    expect(page.locator("#sentence")).to_have_text(
        "The quick theory has no number for this problem; the full one is asked."
    )
    expect(page.locator("#quality")).to_have_text("…")


def test_a_map_of_numbers_known_to_be_off_is_drawn_as_that(small):
    script = """async (map) => {
      const { mapFigure } = await import('/static/map.js');
      const figure = document.body.appendChild(document.createElement('figure'));
      const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
      const list = document.createElement('ul');
      figure.append(Object.assign(svg, { size: [400, 260], id: 'off' }), list);
      mapFigure(svg, list, { map, alpha: 0.1, ridge: 1 });
      figure.remove();
      return [svg.getAttribute('aria-label'), svg.querySelectorAll('.cell-off').length, list.textContent];
    }"""
    off = {"alpha": [0, 0.5], "ridge": [0.1, 10], "test_error": [[1, 2], [3, 4]], "off": [[True] * 2] * 2, "best": None}
    words, crossed, legend = small.evaluate(script, off)
    assert words.endswith("every number is known to be off by more than 5 %")
    assert (crossed, "least" in legend) == (4, False)


def test_a_vector_of_degree_0_is_constant_or_unknown(small):
    script = "async (found) => (await import('/static/network.js')).partsOf(found, 0)"
    assert small.evaluate(script, {"degrees": [0], "overlaps": [[0.81, 0, 0.1]]}) == [pytest.approx(0.9), 0, 0]
    assert small.evaluate(script, {"degrees": [0], "overlaps": [[0.3, 0, 0.1]]}) is None
    assert small.evaluate(script, {"degrees": [], "overlaps": []}) is None


def test_an_atlas_says_which_points_have_no_number(page):
    """A point where no step may be trusted is blank, and no gain of 100 %."""
    known = {"test_error": 1.0, "step": 2.0, "ridge": 0.1, "untrained": 2.0}
    none = dict.fromkeys(known) | {"untrained": 2.0}
    points = {"plane": "phi-psi", "x": [0.1, 1], "y": [0.1, 1]}
    page.route("**/api/panel/points*", lambda route: route.fulfill(json=points))
    page.route("**/api/panel/cell*", lambda route: route.fulfill(json=known if "x=0.1" in route.request.url else none))
    page.goto(f"{SMALL}#atlas=phi-psi,gain")
    expect(page.locator("#panels")).to_contain_text("by up to 50 %")
    expect(page.locator("#panels")).to_contain_text("Blank: 2 of 4 points, without a number that may be trusted.")


# ---------------------------------------------------------------------- answers late, in another order, or none


def hold(page, pattern, which=lambda request: True):
    """Requests that are kept waiting, in the order they came; from then on those of `which`."""
    held = []
    page.route(pattern, lambda route: held.append(route) if which(route.request) else route.fallback())
    return held


def came(page, held, count=1):
    """Wait for so many held requests; the page goes on meanwhile."""
    wait_for(lambda: page.evaluate("() => 1") and len(held) >= count, "a request")
    return held


def heard(page):
    """Whatever the page makes of the answers it has got is made: two turns of its server, two of its own and a frame."""
    page.evaluate(
        "async () => { for (let k = 0; k < 2; k++) { await fetch('/api/about').then((answer) => answer.json());"
        " await new Promise((done) => setTimeout(done)); } await new Promise((done) => requestAnimationFrame(done)); }"
    )


def asked(page):
    return json.loads(page.locator("html").get_attribute("data-asked"))


def fail_with(page, pattern, status):
    """Every such request finds no server (status 0), or a server with a mistake; the list is emptied to end it."""
    on = [True]

    def answer(route):
        if not on:
            route.fallback()
        elif status:
            route.fulfill(status=status, body="Internal Server Error")
        else:
            route.abort()

    page.route(pattern, answer)
    return on


SILENT = "The server does not answer; start it again with: onestride explore."


def test_of_several_problems_that_are_opened_the_last_is_shown(page):
    page.goto(SMALL)
    settled(page)
    held = hold(page, "**/api/problem*", lambda request: not asking["here"])
    asking = {"here": False}
    page.locator("#tell").click()
    came(page, held)
    asking["here"] = True
    page.locator("#story button", has_text="Next").click()
    page.locator("html[data-asked*='0.2041241452']").wait_for(state="attached")  # the teacher of the second scene
    held[0].continue_()
    heard(page)
    expect(page.locator("#story b")).to_have_text("2/6 Random first layer. ")
    assert "0.2041241452" in asked(page)["teacher"]


def test_back_goes_to_the_scene_and_the_view_of_its_address(page):
    page.goto(f"{SMALL}#gain=1")
    settled(page)
    page.locator("#gain").uncheck()
    page.locator("#tell").click()
    page.wait_for_url(re.compile("#scene=1"))
    page.wait_for_url(re.compile("constant=0"))
    settled(page)
    page.locator("#axis").select_option("noise")
    page.locator("#story button", has_text="Next").click()
    page.wait_for_url(re.compile("teacher="))
    page.locator("#axis").select_option("ridge")
    page.go_back()
    expect(page.locator("#story b")).to_have_text("1/6 The data. ")
    expect(page.locator("#axis")).to_have_value("noise")
    page.go_back()
    expect(page.locator("#story")).to_be_hidden()
    expect(page.locator("#axis")).to_have_value("exponent")
    page.locator('html[data-asked=\'{"n":"200"}\']').wait_for(state="attached")


def test_a_link_to_a_place_on_the_page_leaves_the_view_in_the_address(page):
    page.goto(f"{SMALL}#gain=1")
    settled(page)
    page.evaluate("() => document.querySelector('.skip').click()")
    page.wait_for_url(re.compile("#gain=1$"))
    assert page.locator("#gain").is_checked()


def test_an_address_is_not_given_up_where_the_server_is_silent(page):
    on = fail_with(page, "**/api/problem*", 0)
    page.goto(SMALL)
    expect(page.locator("#banner")).to_have_text(SILENT)
    expect(page.locator("#control-n-number")).to_have_value("200")
    on.clear()
    enter(page, "ridge", "0.2")
    settled(page)
    expect(page.locator("#banner")).to_be_hidden()
    page.wait_for_url(re.compile(r"n=200&ridge=0\.2$"))


@pytest.mark.parametrize("name", ["curves", "here", "map"])
def test_a_question_without_an_answer_is_told_until_it_has_one(page, name):
    """An answer to another question is none to this one."""
    others = {"curves", "here", "map"} - {name, "map"}
    fail_with(page, re.compile(f"/api/{name}.*quality=full"), 500)
    held = hold(page, re.compile("quality=quick"))
    with page.expect_response(lambda answer: f"/api/{name}" in answer.url and answer.status == 500):
        page.goto(SMALL)
    for route in came(page, held, 2):  # nor is the quick one, which comes last
        route.continue_()
    for other in others:
        page.evaluate("name => fetch(`/api/${name}?n=200&quality=full`).then((answer) => answer.json())", other)
    page.locator("html[data-here*='200'][data-curves*='200']").wait_for(state="attached")
    heard(page)
    expect(page.locator("#banner")).to_have_text("The server answered 500.")
    page.unroute_all()
    enter(page, "noise", "0.4")
    settled(page)
    page.locator("#map:not(.stale) .best").wait_for(state="attached")
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.locator(".stale")).to_have_count(0)


def test_what_was_said_of_a_value_is_not_said_of_the_next(page):
    page.goto(SMALL)
    settled(page)
    enter(page, "n", "1.5")
    expect(page.locator("#banner")).to_contain_text("n must be a whole number")
    on = fail_with(page, "**/api/**", 0)
    enter(page, "n", "300")
    expect(page.locator("#banner")).to_have_text(SILENT)
    expect(page.locator("#control-n-number")).to_have_attribute("aria-invalid", "false")
    expect(page.locator("#quality")).not_to_contain_text("wrong")
    expect(page.locator("#sentence.stale")).to_be_visible()
    assert page.url.endswith(SMALL)
    on.clear()
    enter(page, "n", "310")
    settled(page)
    expect(page.locator("#banner")).to_be_hidden()


def test_what_is_said_of_a_bad_address_ends_with_another_problem(page):
    page.goto("/?n=abc")
    expect(page.locator("#banner")).to_contain_text("The page shows its default problem instead")
    page.locator("#preset").select_option(label="staircase")
    settled(page)
    expect(page.locator("#banner")).to_be_hidden()


def test_a_title_is_that_of_the_numbers_below_it(page):
    """Also while those of the next problem are on the way."""
    page.goto(SMALL)
    settled(page)
    fail_with(page, "**/api/curves*", 0)
    enter(page, "noise", "0.4")
    page.locator("#test_error.stale").wait_for(state="attached")
    expect(page.locator("#test_error .baseline-label", has_text="no gain")).to_have_count(0)
    page.locator("#gain").check()
    expect(page.locator("figure.first h2")).to_have_text("Gain in test error")
    expect(page.locator("#test_error .baseline-label", has_text="no gain")).to_be_attached()
    page.locator("#gain").uncheck()
    page.locator("#quantity").select_option("gap")
    expect(page.locator("#train_loss")).to_have_attribute("aria-label", re.compile("Test minus training error"))


def test_pinned_curves_are_drawn_along_their_own_axis_only(page):
    page.goto(f"{SMALL}#pin=A%3Fn%3D300")
    settled(page)
    expect(page.locator("#test_error .ghost")).to_be_attached()
    held = hold(page, re.compile("/api/curves.*n=300"))
    page.locator("#axis").select_option("ridge")
    expect(page.locator("#test_error .axis-label")).to_have_text("penalty λ")
    settled(page)
    expect(page.locator("#test_error .ghost")).to_have_count(0)
    for route in came(page, held):
        route.continue_()
    expect(page.locator("#test_error .ghost")).to_be_attached()
    low, *_, high = told(page, "test_error")["A"]["x"]
    assert (low, high) == pytest.approx((1e-4, 10))


def test_a_figure_is_dragged_along_the_axis_that_is_drawn(page):
    page.goto(SMALL)
    settled(page)
    fail_with(page, "**/api/curves*", 0)
    page.locator("#axis").select_option("n")
    box = page.locator("#test_error").bounding_box()
    page.mouse.click(box["x"] + 0.9 * box["width"], box["y"] + 100)
    expect(page.locator("#control-exponent-number")).to_have_value(re.compile(r"0\.4"))
    expect(page.locator("#control-n-number")).to_have_value("200")


def test_why_says_nothing_where_there_is_no_answer(page):
    page.goto(SMALL)
    settled(page)
    fail_with(page, "**/api/why*", 0)
    page.locator("#why").click()
    expect(page.locator("#why-list")).to_have_text(SILENT)


def test_news_of_a_simulation_are_taken_in_their_order(page, gate):
    """An answer from before the simulation began, which comes last, does not end the watch."""
    held, holding = [], [True]

    def answer(route):
        if holding:
            holding.clear()
            held.append((route, route.fetch(timeout=1000 * LIMIT)))
        else:
            route.fallback()

    page.route("**/api/simulation", answer)
    page.goto(SMALL)
    came(page, held)
    gate.shut()
    page.locator("#seeds").fill("2")
    with page.expect_response("**/api/simulation/start"):
        page.locator("#run").click()
    heard(page)
    held[0][0].fulfill(response=held[0][1])
    expect(page.locator("#job-state")).to_contain_text("0 of 2 seeds")
    gate.open()
    expect(page.locator("#job-state")).to_contain_text("2 seeds finished")
    expect(page.locator("#legend-test_error")).to_contain_text("simulation, 2 seeds")


def test_a_simulation_whose_news_fail_is_watched_again(page, gate):
    page.goto(SMALL)
    settled(page)
    gate.shut()
    page.locator("#seeds").fill("2")
    on = fail_with(page, "**/api/simulation", 500)
    page.locator("#run").click()
    expect(page.locator("#job-state")).to_have_text("The server answered 500.")
    on.clear()
    expect(page.locator("#job-state")).to_contain_text("0 of 2 seeds")
    on.append(True)
    expect(page.locator("#job-state")).to_have_text("The server answered 500.")
    on.clear()
    gate.open()
    expect(page.locator("#job-state")).to_contain_text("2 seeds finished")


def test_another_choice_is_played_from_its_own_beginning(page):
    """Not with the numbers of the one before."""
    page.goto(SMALL)
    settled(page)
    page.locator("#play").click()
    expect(page.locator("#control-n-number")).not_to_have_value("200")
    page.evaluate(
        "() => { window.seen = []; const e = document.getElementById('control-exponent-number');"
        " const value = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value');"
        " Object.defineProperty(e, 'value', { get() { return value.get.call(this); }, set(v) { seen.push(v); value.set.call(this, v); } }); }"
    )
    page.locator("#play-over").select_option("exponent")
    page.wait_for_function("() => window.seen.length >= 3")
    page.locator("#play").click()
    assert all(0 <= float(value) <= 0.5 for value in page.evaluate("() => window.seen"))


def test_a_teacher_is_drawn_only_where_there_is_a_figure(page):
    held = hold(page, "**/api/here*")
    page.goto(SMALL)
    came(page, held)
    page.locator("#draw").click()
    for key in ("ArrowUp", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    expect(page.locator("#draw")).to_have_attribute("aria-pressed", "false")
    assert "teacher" not in asked(page)


def test_a_preset_is_shown_where_the_store_was(page):
    page.goto(f"{SMALL}#store")
    expect(page.locator("#store-words, #store .notice").first).not_to_be_empty()
    page.locator("#preset").select_option(label="staircase")
    expect(page.locator("#explore")).to_be_visible()
    expect(page.locator("#store")).to_be_hidden()
    settled(page)
    assert "#store" not in page.url
    page.go_back()
    expect(page.locator("#store")).to_be_visible()


@pytest.mark.parametrize("kind", ["SVG", "PNG", "CSV"])
def test_a_figure_is_saved_without_a_word_of_the_browser(page, kind):
    """The content policy refuses styles in attributes."""
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(SMALL)
    settled(page)
    box = page.locator("figure.first")
    box.locator(".files summary").click()
    with page.expect_download() as waiting:
        box.get_by_role("button", name=kind, exact=True).click()
    file = waiting.value.path().read_bytes()
    assert said == []
    assert waiting.value.suggested_filename == f"onestride-test_error.{kind.lower()}"
    assert file[:4] == {"SVG": b"<svg", "PNG": b"\x89PNG", "CSV": b"seri"}[kind]
    if kind == "SVG":
        title = re.search(rb"<text[^>]*>Test error</text>", file).group()
        assert b"font: 600 16px serif" in title
        assert b"fill: rgb(" in title


def test_a_value_that_is_no_number_has_no_place_in_a_figure(page):
    said = []
    page.on("console", lambda message: "400" not in message.text and said.append(message.text))
    page.goto(SMALL)
    settled(page)
    enter(page, "exponent", "abc")
    expect(page.locator("#banner")).to_contain_text("xponent must be a finite number, got 'abc'")
    page.locator("#gain").check()
    expect(page.locator("#test_error .baseline-label", has_text="no gain")).to_be_attached()
    expect(page.locator("#test_error .here")).to_have_count(0)
    assert said == []


def test_nothing_is_sent_before_the_page_is_ready(page):
    """The browser would send the form itself, which the content policy refuses in the console."""
    said = []
    page.on("console", lambda message: said.append(message.text))
    held = hold(page, "**/api/about")
    page.goto(SMALL)
    came(page, held)
    expect(page.locator("#run")).to_be_disabled()
    page.locator("#seeds").press("Enter")
    held[0].continue_()
    settled(page)
    expect(page.locator("#run")).to_be_enabled()
    assert said == []


def test_a_number_far_beyond_its_figure_is_a_place_far_beyond_it(small):
    """1e300 is no number of an SVG."""
    said = []
    small.on("console", lambda message: said.append(message.text))
    script = DRAWN.replace(
        "horizontals, series:",
        "horizontals, series: [{ kind: 'line', x: [0, 0.5, 1], y: [1, 1e300, 2], label: 'far' }], other:",
    )
    small.evaluate(script, [[500, 250], [], {"x": []}])
    assert said == []


def test_a_name_of_an_axis_ends_on_the_line_it_began_on(small):
    """Also behind a foot and a power that stand together, as in β⋆ᵀx."""
    script = """text => [0, text.getNumberOfChars() - 1].map((k) => text.getStartPositionOfChar(k).y)"""
    for figure, words in (("function", "z = β⋆⊤x"), ("vectors", "β̂⊤x"), ("neurons", "√N·aj")):
        name = small.locator(f"#{figure} .axis-label")
        expect(name).to_have_text(words)
        first, last = name.evaluate(script)
        assert last == pytest.approx(first + 3 * (figure == "neurons"))
