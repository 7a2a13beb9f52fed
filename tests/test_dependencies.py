"""Dependencies that are true: floors that are tested, extras that are asked for before the work, a backend left alone."""

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import onestride
from onestride._errors import InputError, MissingLibrary, require
from places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def test_oldest_pins_every_floor_and_nothing_else():
    groups = [PROJECT["dependencies"], *EXTRAS.values()]
    floors = {entry.replace(">=", "==") for group in groups for entry in group if not entry.startswith("onestride[")}
    lines = (ROOT / "tests" / "oldest.txt").read_text(encoding="utf-8").splitlines()
    assert sorted(floors) == [line for line in lines if not line.startswith("#")]


def test_every_dependency_is_locked_at_a_release_that_is_allowed():
    lines = (ROOT / "tests" / "locked.txt").read_text(encoding="utf-8").splitlines()
    locked = dict(line.split("==") for line in lines if not line.startswith("#"))
    groups = [PROJECT["dependencies"], *(group for extra, group in EXTRAS.items() if extra != "torch")]
    needed = [Requirement(entry) for group in groups for entry in group if not entry.startswith("onestride[")]
    assert needed
    assert [str(need) for need in needed if not need.specifier.contains(locked.get(need.name, "0"))] == []


# ---------------------------------------------------------------------- extras


def run_without(libraries: list[str], code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter in which these libraries cannot be imported."""
    block = f"import sys\nfor name in {libraries!r}: sys.modules[name] = None\n"
    env = os.environ | environment
    return subprocess.run([sys.executable, "-c", block + code], capture_output=True, text=True, env=env, check=False)


MISSING = [
    (
        ["reproduce", "--size", "small"],
        ["matplotlib", "jinja2"],
        "the report needs matplotlib and jinja2, which are not installed: pip install 'onestride[report]'",
    ),
    (
        ["experiment", "errors", "--size", "small"],
        ["matplotlib"],
        "the report needs matplotlib, which is not installed: pip install 'onestride[report]'",
    ),
    (
        ["experiment", "all", "--size", "small"],
        ["sklearn"],
        "the experiment inputs needs scikit-learn, which is not installed: pip install 'onestride[estimator]'",
    ),
    (
        ["sweep", "plot", "--store", "nowhere"],
        ["matplotlib"],
        "a figure needs matplotlib, which is not installed: pip install 'onestride[plot]'",
    ),
    (
        ["explore", "--no-browser"],
        ["starlette"],
        "the explorer needs starlette, which is not installed: pip install 'onestride[explore]'",
    ),
    (
        ["sweep", "run", str(ROOT / "examples" / "sweep.toml"), "--store", "nowhere", "--dask", "local"],
        ["distributed"],
        "dask needs distributed, which is not installed: pip install 'onestride[cluster]'",
    ),
]
# what a command would do is replaced by a failure: it must not come so far
EVERY = """
import onestride.experiments.catalogue as catalogue
def work(*_, **__): raise AssertionError("the work began")
catalogue.reproduce = catalogue.import_module = work
from onestride.cli import main
for arguments, missing, _ in MISSING:
    for name in LIBRARIES:
        sys.modules.pop(name, None)
    sys.modules |= dict.fromkeys(missing)
    try:
        main(arguments)
    except SystemExit as stop:
        print(stop.code)
"""


def test_a_missing_extra_is_told_before_the_work():
    """In one process, as starting one per command takes a second each; what they share is loaded without any extra."""
    libraries = sorted({name for _, missing, _ in MISSING for name in missing})
    result = run_without(libraries, f"LIBRARIES = {libraries}\nMISSING = {MISSING}\n{EVERY}")
    assert result.stderr.splitlines() == [f"onestride: {sentence}" for *_, sentence in MISSING]
    assert (result.returncode, result.stdout) == (0, "2\n" * len(MISSING))


def test_drawing_without_matplotlib_is_a_sentence():
    code = """from onestride.plot import Panel, draw, save, to_svg
for drawn in (draw, to_svg, lambda panels: save(panels, "nowhere/stem")):
    try:
        drawn([Panel("", "", "", [])])
    except ImportError as error:
        print(error)"""
    told = "a figure needs matplotlib, which is not installed: pip install 'onestride[plot]'"
    assert run_without(["matplotlib"], code).stdout.splitlines() == [told] * 3


def test_a_missing_library_is_both_wrong_input_and_an_import_error():
    with pytest.raises(
        MissingLibrary, match=r"^x needs no_such_library, which is not installed: pip install 'onestride"
    ):
        require("numpy", "no_such_library", extra="plot", what="x")
    assert issubclass(MissingLibrary, InputError)
    assert issubclass(MissingLibrary, ImportError)


def test_the_extras_named_bring_the_libraries_asked_for():
    calls = [
        node
        for path in Path(onestride.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "require"
    ]
    assert len(calls) >= 8
    for call in calls:
        words = {word.arg: word.value for word in call.keywords}
        brought = {
            entry.split(">=")[0].replace("scikit-learn", "sklearn")
            for entry in EXTRAS[ast.literal_eval(words["extra"])]
        }
        assert {ast.literal_eval(library) for library in call.args} <= brought


# ---------------------------------------------------------------------- matplotlib's backend is the user's

DRAW = """
import io, matplotlib
from onestride.plot import Panel, Series, draw, to_svg
panels = [Panel("title", "x", "y", [Series("points", [0, 1], [1, 2], [0.1, 0.1], "simulation")])]
figure = draw(panels)
figure.savefig(io.BytesIO(), format="pdf")
assert figure._repr_png_().startswith(b"\\x89PNG")  # what a notebook shows
assert to_svg(panels).startswith("<svg")
"""


def test_drawing_chooses_no_backend_where_none_is_chosen():
    result = run_without([], DRAW + "print('matplotlib.pyplot' in sys.modules)", MPLBACKEND="")
    assert (result.stdout, result.stderr) == ("False\n", "")


def test_drawing_needs_no_display_and_leaves_the_backend_alone():
    code = DRAW + "print(matplotlib.get_backend())"
    result = run_without([], code, MPLBACKEND="tkagg", DISPLAY="", WAYLAND_DISPLAY="")
    assert (result.stdout.lower(), result.stderr) == ("tkagg\n", "")


def test_no_measured_point_lies_outside_the_axes():
    from onestride.plot import Panel, Series, draw

    points = Series("points", [0, 1, 2], [0.5, 1.2, float("nan")], [0.1, 0.2, 0.0], "simulation")
    line = Series("theory", [0, 1], [-3.0, 9.0])
    (axis,) = draw([Panel("", "x", "y", [points, line], ylim=(0.0, 1.05))]).axes
    low, high = axis.get_ylim()
    assert low == 0.0
    assert 1.4 < high < 1.5
