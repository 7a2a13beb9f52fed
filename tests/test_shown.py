"""Every result shows itself: three lines in a terminal, a table in a notebook, axes, frames; one base for all."""

import json
import sys
from functools import cache

import numpy as np
import pytest

import onestride as one
from onestride import _html
from onestride.diagnosis import Diagnosis, Finding
from onestride.drawing import Map, Panel
from onestride.estimate import Estimate
from onestride.experiments.outcome import Figure, Judgement, Outcome
from onestride.plot import Series
from onestride.shown import Result, text
from onestride.store import Store
from onestride.sweeps.plan import SweepPlan
from onestride.sweeps.spec import read_sweep
from onestride.theory.atlas import Atlas

P = one.Problem(
    n=120, d=60, N=90, teacher=[0, 1, 0.7071], noise=0.5, ridge=0.5, step=one.Step(constant=1.0, exponent=0.3)
)
SWEEP = {"problem": {"n": 20, "d": 10, "N": 12, "constant": 1.0, "seeds": 2}, "axes": {"exponent": [0.1, 0.3]}}


@cache
def results() -> dict[str, Result]:
    """One of each kind, small."""
    comparison = one.compare(P, 2)
    plane = np.ones((2, 3))
    rows = [{"n": 60, "gap": 0.1}, {"n": 120, "gap": 0.05}]
    figure = Figure([Panel("gap", "n", "gap", [Series("", [60, 120], [0.1, 0.05])])], "caption")
    found = [
        comparison.prediction,
        comparison.simulation,
        comparison,
        comparison.rows[0],
        Estimate(np.arange(6.0).reshape(3, 2)),
        one.predict_grid(P, [0.1, 0.3], [0.1, 1.0]),
        one.simulate_grid(P, [0.1, 0.3], [0.1, 1.0], 2),
        one.spectrum(P, density=False),
        one.learned(P),
        one.measure_spectrum(P, 2, count=2),
        one.measure_learned(P, 2),
        one.measure_density(P, 1),
        one.optimal_ridge(P, throw=False),
        one.plan(P),
        Diagnosis(P, (Finding("penalty", "it is too small", {"ridge": 0.5}, "Use λ near 1"),), "one cause"),
        one.baselines(P)["bayes"],
        one.scaling(P, at=[100, 120]),
        Outcome("gaps", "does it close?", "yes", Judgement("confirmed", "gap 0.05", "", rows), figure),
        SweepPlan("small", {"ridge": [1]}, 4, 0, 1, 8, 0, 4, 0, 1e9, 1e6, 2, 1, 3.0, "timed"),
        Atlas(P, ("phi", "psi"), np.arange(3.0), np.arange(2.0), plane, plane, plane, 2 * plane),
    ]
    names = [type(result).__name__ for result in found]
    return {
        f"{name}{names[:i].count(name) or ''}": result
        for i, (name, result) in enumerate(zip(names, found, strict=True))
    }


NAMES = ["Prediction", "Simulation", "Comparison", "Pair", "Estimate", "PredictionGrid", "Simulation1", "Spectrum", "Learned", "MeasuredSpectrum", "MeasuredLearned", "MeasuredDensity", "OptimalRidge", "Plan", "Diagnosis", "Baseline", "Scaling", "Outcome", "SweepPlan", "Atlas"]  # fmt: skip


def test_every_kind_is_here():
    assert tuple(results()) == tuple(NAMES)


def kinds(base=Result):
    for kind in base.__subclasses__():
        yield kind
        yield from kinds(kind)


def test_every_result_shows_itself_by_the_same_words():
    """A dataclass that forgets repr=False would print its fields, pages of them."""
    for kind in kinds():
        assert kind.__repr__ is Result.__repr__, kind


@pytest.mark.parametrize("name", NAMES)
def test_three_lines_in_a_terminal(name):
    shown = repr(results()[name])
    assert 1 <= len(shown.splitlines()) <= 3
    assert len(shown) < 700
    assert "array(" not in shown
    assert shown.startswith(type(results()[name]).__name__ + ": ")


def test_a_prediction_tells_gain_and_status():
    shown = repr(results()["Prediction"])
    assert "test_gain" in shown
    assert "status solved" in shown


@pytest.mark.parametrize("name", NAMES)
def test_a_table_in_a_notebook(name):
    result = results()[name]
    page = result._repr_html_()
    assert page.startswith("<table>")
    assert page.endswith("</table>")
    assert page.count("<td") == page.count("</td>")
    assert len(page) < 20_000


def test_baselines_are_a_short_list():
    found = one.baselines(P)
    assert len(repr(found).splitlines()) == 1 + len(found)
    assert found._repr_html_().count("<tr>") == len(found)


def test_grids_have_a_picture_in_a_notebook():
    for name in ("PredictionGrid", "Simulation1", "Scaling"):
        assert "<svg" in results()[name]._repr_html_()
    assert "nan" not in _html.curves([1, 2, 3], [[1.0, np.nan, 2.0]])
    assert _html.curves([1], [[1.0]]) == ""


@pytest.mark.parametrize("name", NAMES)
def test_plot_returns_axes(name):
    pytest.importorskip("matplotlib")
    from matplotlib import pyplot
    from matplotlib.axes import Axes

    result = results()[name]
    if name in ("Diagnosis", "Pair"):
        with pytest.raises(one.InputError, match="is words and has no figure"):
            result.plot()
        return
    axes = np.atleast_1d(result.plot())
    assert all(isinstance(axis, Axes) for axis in axes)
    assert len(axes) == len(result.panels())
    assert all(isinstance(panel, Panel | Map) for panel in result.panels())
    pyplot.close("all")


def test_plot_draws_on_given_axes():
    from matplotlib.figure import Figure as Canvas

    ax = Canvas().subplots()
    assert results()["PredictionGrid"].plot(ax) is ax
    assert len(ax.lines) == 2


@pytest.mark.parametrize("name", NAMES)
def test_frames(name):
    pytest.importorskip("pandas")
    pytest.importorskip("xarray")
    result = results()[name]
    frame, cube = result.to_pandas(), result.to_xarray()
    assert cube.attrs["result"] == type(result).__name__
    first = next(iter(result._variables()))
    assert len(frame) == cube[first].size
    if "problem" in cube.attrs:
        assert json.loads(cube.attrs["problem"])["n"] == result.problem.n
        assert (frame["n"] == result.problem.n).all() or name == "Scaling"


def test_frames_hold_the_same_numbers():
    grid = results()["PredictionGrid"]
    frame = grid.to_pandas().set_index(["exponent", "ridge"])
    assert frame.loc[(0.3, 1.0), "test_error"] == grid.test_error[1, 1]
    assert frame.loc[(0.3, 1.0), "status"] == "solved"
    measured = results()["Simulation1"]
    cube = measured.to_xarray()
    assert cube.test_error.dims == ("seed", "exponent", "ridge")
    np.testing.assert_allclose(cube.test_error.mean("seed"), measured.test_error.mean)


@pytest.mark.parametrize(
    ("call", "library"), [("to_pandas", "pandas"), ("to_xarray", "xarray"), ("plot", "matplotlib")]
)
def test_what_is_missing_is_told_with_its_command(monkeypatch, call, library):
    monkeypatch.setitem(sys.modules, library, None)
    extra = "plot" if call == "plot" else "export"
    with pytest.raises(ImportError, match=rf"needs {library}.*pip install 'onestride\[{extra}\]'"):
        getattr(results()["Prediction"], call)()


def test_json_has_the_problem_in_it():
    told = json.loads(results()["Prediction"].to_json())
    assert one.Problem.from_dict(told["problem"]) == P
    own = one.predict(P.replace(teacher=np.tanh, step=one.Step.none()))
    assert json.loads(own.to_json())["problem"]["teacher"] == "tanh"


def test_a_problem_reads_as_it_is_typed():
    shown = repr(P)
    assert "gradient" not in shown
    assert eval(shown, {"Problem": one.Problem, "Step": one.Step}) == P
    assert str(P).startswith("n = 120, d = 60, N = 90; relu")
    assert "η = 1·n^0.3" in P._repr_html_()


def test_functions_stores_and_sweeps_read_well(tmp_path):
    assert repr(one.activation("relu")).startswith("Function('relu', activation or teacher: c0 = 0, c1 = 0.5")
    described = read_sweep(SWEEP)
    assert repr(described) == "Sweep('sweep'): 2 cells (exponent × 2), theory auto"
    assert "exponent" in described._repr_html_()
    assert repr(Store(tmp_path, create=True)).endswith(": no records")


@pytest.mark.long
def test_a_sweep_keeps_and_shows_its_rows(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as executor:
        running = one.sweep(SWEEP, tmp_path, executor=executor)
        assert "0 of 2 cells" in repr(running)
        first = next(running)
        assert "theory" in repr(first)
        assert "<table>" in first._repr_html_()
        running.finish()
    assert len(running.rows) == 2
    assert list(running.to_pandas()["exponent"]) == [0.1, 0.3]
    assert running.to_xarray().sizes["cell"] == 2
    assert "<td>" in running._repr_html_()
    assert len(running.panels()) == 1
    assert len(first.panels()) == 1
    assert "run" in repr(Store(tmp_path))


def test_long_lists_are_told_by_size_and_range():
    assert text(list(map(float, range(20)))) == "20 values from 0 to 19"
    assert text([None] * 20) == "20 values"
    assert text({"mean": 1.23456, "stderr": 0.0123}) == "1.235 ± 0.012"
    assert text({"mean": 1.0, "stderr": None}) == "1"
