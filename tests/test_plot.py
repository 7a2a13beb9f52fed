"""Figures as data: every number is in the table, every measured point inside its axes."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import onestride as one
from onestride.drawing import figure as drawing
from onestride.drawing.files import dark_variables, describe, read
from onestride.drawing.palette import COLOURS, DARK, PAPER
from onestride.drawing.words import minus, typeset
from onestride.plot import Panel, Series, draw, to_csv, to_svg
from onestride.result import Status


def panel(*series, **options):
    return Panel("errors", "x", "y", series, **options)


def test_table_holds_every_number_with_its_own_error_and_nothing_for_what_is_not_finite():
    theory = Series("theory", [1.0, 2.0], [0.5, np.nan])
    points = Series("points", [1.0, 2.0], [0.25, 0.75], error=[0.01, np.inf], kind="simulation")
    flat = Series("flat", [3.0, 4.0], [1.0, 2.0], error=0.5, kind="simulation")
    rows = list(csv.DictReader(io.StringIO(to_csv([panel(theory, points, flat)]))))
    assert [tuple(row[name] for name in ("series", "x", "y", "error")) for row in rows] == [
        ("theory", "1", "0.5", ""),
        ("theory", "2", "", ""),
        ("points", "1", "0.25", "0.01"),
        ("points", "2", "0.75", ""),
        ("flat", "3", "1", "0.5"),
        ("flat", "4", "2", "0.5"),
    ]
    assert {(row["panel"], row["kind"]) for row in rows} == {("errors", "theory"), ("errors", "simulation")}


@pytest.mark.parametrize(("value", "error"), [(1.4, 0.3), (-0.4, 0.3), (0.9, 0.3), (0.1, 0.3), (1.4, None)])
def test_limits_are_widened_to_hold_a_measured_point_and_its_bar(value, error):
    bar = None if error is None else [error, error]
    points = Series("points", [0.0, 1.0], [0.5, value], error=bar, kind="simulation")
    low, high = draw([panel(points, ylim=(0.0, 1.0))]).axes[0].get_ylim()
    assert low < value - (error or 0) < value + (error or 0) < high or error is None
    assert low < value < high
    assert low <= 0.0 < 1.0 <= high


def test_a_bar_that_reaches_below_zero_leaves_a_logarithmic_axis_as_it_is():
    points = Series("points", [0.0, 1.0], [0.5, 0.2], error=[0.1, 0.3], kind="simulation")
    low, high = draw([panel(points, ylim=(0.1, 1.0), logy=True)]).axes[0].get_ylim()
    assert (low, high) == (0.1, 1.0)


def test_limits_are_not_widened_for_theory_or_for_what_is_not_finite():
    theory = Series("theory", [0.0, 1.0], [0.5, 9.0])
    points = Series("points", [0.0, 1.0], [0.5, np.nan], error=[0.1, 5.0], kind="simulation")
    assert draw([panel(theory, points, ylim=(0.0, 1.0))]).axes[0].get_ylim() == (0.0, 1.0)


def test_the_staircase_is_one_call():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    problem = one.Problem(n=200, d=100, N=150, teacher=[0, 1, 0.7071], noise=0.5)  # no step: drawn with c = 1
    ax = one.plot.staircase(problem, [0.1, 0.2, 0.3], seeds=2)
    labels = ax.get_legend_handles_labels()[1]
    assert {"theory", typeset("n → ∞"), "without the step", "simulation, 2 seeds"} <= set(labels)
    assert one.plot.staircase(problem, [0.1, 0.3], quantity="train_loss", ax=ax) is ax
    with pytest.raises(one.InputError, match="quantity must be one of train_loss, train_mse, test_error, got 'loss'"):
        one.plot.staircase(problem, quantity="loss")
    pyplot.close("all")


def test_the_staircase_says_its_constant_and_takes_exponents_in_any_order():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    problem = one.Problem(n=200, d=100, N=150, teacher=[0, 1, 0.7071], noise=0.5)
    ax = one.plot.staircase(problem, [0.3, 0.1, 0.2], seeds=1)
    theory = ax.lines[0]
    assert theory.get_xdata().tolist() == [0.1, 0.2, 0.3]
    assert ax.get_xlabel() == typeset("exponent α")
    assert "simulation, 1 seed" in ax.get_legend_handles_labels()[1]
    ax = one.plot.staircase(problem.replace(step=one.Step(constant=3)), [0.3])
    assert ax.get_xlabel() == typeset("exponent α of η = 3·n^α")
    assert [line.get_markevery() for line in ax.lines[:2]] == [[0], [0]]  # one point is no line
    pyplot.close("all")


def test_the_staircase_is_the_limit_of_the_step_that_is_drawn():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    problem = one.Problem(n=200, d=100, N=150, teacher=[0, 1, 0.7071], noise=0.5, step=one.Step())
    _, limit = one.plot.staircase(problem, [0.29]).lines[:2]
    assert limit.get_ydata() == pytest.approx(one.predict(problem.at(exponent=0.29), method="exact-plateau").test_error)
    pyplot.close("all")


def test_a_number_between_two_that_are_missing_is_seen():
    y = [1.0, np.nan, 2.0, 3.0, np.nan, 4.0, np.nan]
    for kind in ("theory", "limit"):
        (line,) = draw([panel(Series("a", range(7), y, kind=kind))]).axes[0].lines
        assert (line.get_marker(), line.get_markevery()) == ("o", [0, 5])
    (line,) = draw([panel(Series("a", range(3), [1.0, 2.0, 3.0]))]).axes[0].lines
    assert line.get_marker() == "None"


def test_what_is_known_to_be_off_is_drawn_whatever_else_is_missing():
    status = [Status.SOLVED, Status.SOLVED, Status.INACCURATE]
    good, off = one.plot.theory_series("theory", [1, 2, 3], [np.nan, 2.0, 3.0], status)
    assert (good.kind, off.kind, off.label) == ("theory", "marked", "theory, known to be off")
    np.testing.assert_array_equal(off.y, [np.nan, np.nan, 3.0])
    np.testing.assert_array_equal(good.y, [np.nan, 2.0, np.nan])
    lines = draw([panel(good, off)]).axes[0].lines
    assert [line.get_linestyle() for line in lines] == ["-", "--"]
    assert lines[1].get_markerfacecolor() == "none"


def test_a_map_has_plain_numbers_at_its_axes():
    axis = draw([one.plot.Map("plane", "x", "y", [0.1974, 3000], [64, 100], np.ones((2, 2)))]).axes[0]
    assert [t.get_text() for t in (*axis.get_xticklabels(), *axis.get_yticklabels())] == ["0.197", "3000", "64", "100"]
    for log, shades in ((False, [1, 10, 100]), (True, np.log([1, 10, 100]))):
        axis = draw([one.plot.Map("plane", "x", "y", [1, 2, 3], [1], [[1, 10, 100]], log=log)]).axes[0]
        np.testing.assert_allclose(axis.images[0].get_array()[0], shades)


def test_a_notebook_shows_the_first_figure_after_its_own_cell(monkeypatch):
    """The figure that loads pyplot comes before the notebook knows of it: it is told at once."""
    matplotlib = pytest.importorskip("matplotlib")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    told = []
    shell = SimpleNamespace(enable_matplotlib=told.append)
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(matplotlib, "get_backend", lambda: "module://matplotlib_inline.backend_inline")
    drawing._pyplot()
    assert told == []  # pyplot was there
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot")
    assert drawing._pyplot() is pyplot
    assert told == ["inline"]


def lab(colours, cones=None):
    """CIELAB of sRGB colours as a reader without green or red cones sees them (Machado, Oliveira and Fernandes 2009)."""
    matrices = {
        "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    }
    rgb = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in colours])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(linear @ np.array(matrices[cones]).T, 0, 1) if cones else linear
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
    xyz = linear @ np.array(to_xyz).T / [0.95047, 1, 1.08883]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


@pytest.mark.parametrize(("colours", "paper"), [(COLOURS, "#ffffff"), ([DARK[c] for c in COLOURS], PAPER)])
def test_colours_stay_apart_for_every_reader_in_grey_and_from_the_paper(colours, paper):
    pairs = np.triu_indices(len(colours), 1)
    for cones in (None, "deutan", "protan"):
        seen = lab(colours, cones)
        assert np.linalg.norm(seen[:, None] - seen, axis=2)[pairs].min() > 35
    grey = lab(colours)[:, 0]
    assert np.abs(grey[:, None] - grey)[pairs].min() > 7
    luminance = [((light + 16) / 116) ** 3 for light in (*grey, lab([paper])[0, 0])]
    ratios = [(max(y, luminance[-1]) + 0.05) / (min(y, luminance[-1]) + 0.05) for y in luminance[:-1]]
    assert min(ratios) >= 3


@pytest.mark.parametrize(
    ("words", "set_"),
    [
        ("α = log(η/c)/log n", r"$\alpha  = \log (\eta /c)/\log  n$"),
        ("‖F − F_ℓ‖/√n", r"$\Vert F - F_{\ell }\Vert /\sqrt{n}$"),
        ("cos²ᵏ(β, β⋆)", r"$\cos ^{2k}(\beta ,\ \beta _{\star })$"),
        ("after the step, η = 2n^0.3", r"after the step, $\eta  = 2n^{0.3}$"),
        ("u₁ with H_k(X̃β)", r"$u_{1}$ with $H_{k}(\tilde{X}\beta )$"),
        ("N = 3n/2, α = 1/2", r"$N = 3n/2$, $\alpha  = 1/2$"),
        ("a step of shifted_erf, -0.3", "a step of shifted_erf, −0.3"),
        ("5 % of x^", "5 % of x^"),
        ("$x_1$ as it is", "$x_1$ as it is"),
    ],
)
def test_formulas_in_words_are_set_as_mathematics(words, set_):
    assert typeset(words) == set_


def test_minus_signs_are_real_and_hyphens_stay():
    assert minus("-0.3 and (-2), n^(-0.45)") == "−0.3 and (−2), n^(−0.45)"
    for words in ("1e-4, 2026-11-16, two-layer, claim-9.png", "[2]-1, f(x)-1, a/-1"):
        assert minus(words) == words


def test_one_legend_below_everything_names_each_series_once_and_is_not_clipped():
    names = ("relu", "a rather long name, turned")
    both = [Series("theory", [0, 1], [1, 2]), Series("points", [0, 1], [1, 2], [0.1, 0.1], "simulation", 1)]
    many = [Series(f"a curve with the number {i}", [0, 1], [i, i], colour=i) for i in range(9)]
    panels = [
        Panel("", "x", "y", both, xticks=[0, 1], xnames=names),
        Panel("", "x", "z", [*both, Series("theory", [0, 1], [3, 4], colour=2)]),
        Panel("", "x", "z", many),
    ]
    figure = draw(panels)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert not any(axis.get_legend() for axis in figure.axes)
    words = [text.get_text() for text in legend.get_texts()]
    assert len(words) == len(set(words)) == 11
    box, page = legend.get_window_extent(), figure.bbox
    assert page.x0 <= box.x0 < box.x1 <= page.x1
    assert page.y0 <= box.y0
    assert box.y1 <= min(axis.xaxis.get_tightbbox().y0 for axis in figure.axes if axis.get_visible())


def test_panels_that_show_one_quantity_share_its_axis():
    low, high = (Series("s", [0, k], [k, 2 * k]) for k in (1, 10))
    same, own = (draw([panel(low, shared=shared), panel(high, shared=shared)]).axes for shared in (True, False))
    assert same[0].get_ylim() == same[1].get_ylim()
    assert same[0].get_xlim() == same[1].get_xlim()
    assert own[0].get_ylim() != own[1].get_ylim()
    assert draw([panel(low), Panel("", "x", "another", [high])]).axes[0].get_ylim()[1] < 3


def test_a_figure_comes_back_from_its_table_with_means_taken_over_the_seeds():
    seeds = [np.array([1.0, 2.0, 4.0]), np.array([3.0, 5.0])]
    points = Series("p", [0.1, 0.2], [7 / 3, 4.0], [1.0, 1.0], "simulation", 1, seeds)
    bars = Series("h", [0.0, 1.0, 2.0], [3.0, 4.0], kind="histogram")
    line = Series("", [0.0, 1.0], [1.0, np.nan])
    panels = [panel(points, line, logx=True, verticals=[(0.1, "k")]), panel(bars)]
    table = to_csv(panels)
    again = read(json.loads(json.dumps(describe(panels))), table)
    assert to_csv(again) == table
    (found, back), (edges,) = (p.series for p in again)
    np.testing.assert_allclose(found.y, [7 / 3, 4.0])
    np.testing.assert_allclose(found.error, [np.std(v, ddof=1) / np.sqrt(v.size) for v in seeds])
    np.testing.assert_array_equal(edges.x, bars.x)
    assert (found.kind, found.colour, back.label, again[0].logx) == ("simulation", 1, "", True)
    doubled = read(describe(panels), table.replace(",4,,2,0", ",10,,2,0"))
    assert np.asarray(doubled[0].series[0].y)[0] == pytest.approx(13 / 3)


def test_colours_of_a_drawing_are_variables_of_the_page():
    svg = to_svg([panel(Series("s", [0, 1], [0, 1]))])
    assert f"var(--on-{COLOURS[0][1:]}, {COLOURS[0]})" in svg
    left = set(re.findall(r"(?<!, )#[0-9a-f]{6}", svg))
    assert not left & set(DARK)
    assert all(f"--on-{light[1:]}: {dark};" in dark_variables() for light, dark in DARK.items())


def test_far_points_do_not_flatten_the_rest():
    points = Series("p", [0, 1, 2], [0.1, 0.2, 1000.0], [0.01] * 3, "simulation")
    axis = draw([panel(points, linear_to=1.0)]).axes[0]
    y = axis.transData.transform([(0, 0.1), (0, 0.2), (0, 1000.0)])[:, 1]
    assert (y[1] - y[0]) / (y[2] - y[0]) > 0.01
