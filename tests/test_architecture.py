"""The shape of the package: imports go down, the two engines never meet, files stay small, public names are whole."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from functools import cache
from pathlib import Path

import pytest

import onestride
from places import TESTS

ROOT = Path(onestride.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# The layers of style.md, lowest first; parts of one row do not import each other.
LAYERS = [
    ("_errors", "_processes"),
    ("_numerics", "_backend", "_fields", "_html", "_progress", "drawing"),
    ("functions", "inputs", "step"),
    ("teachers", "table", "own_files"),
    ("own_table",),
    ("problem",),
    ("shown", "conventions"),
    ("estimate",),
    ("result",),
    ("theory", "simulation", "own_data"),
    ("comparison", "diagnosis", "store"),
    ("plot", "sweeps", "estimator"),
    ("learning_curves",),
    ("experiments",),
    ("web", "report"),
    ("cli",),
]
LEVEL = {part: level for level, row in enumerate(LAYERS) for part in row}
MODULES = {"conventions", "estimator", "plot"}  # public names that are modules
ROOT_FILES = {"__init__", "__main__"}  # the package's front door: lazy names, `python -m onestride`


def part_of(path: Path) -> str:
    relative = path.relative_to(ROOT)
    return relative.parts[0].removesuffix(".py")


def type_checking_only(tree: ast.Module) -> set[ast.AST]:
    return {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If)
        and "TYPE_CHECKING" in ast.dump(node.test)
        and not isinstance(node.test, ast.UnaryOp)
        for child in node.body
        for inner in ast.walk(child)
    }


@cache
def imported_modules(path: Path) -> set[str]:
    """Full names of every module a file imports, at the top or inside a function, relative ones resolved."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = ["onestride", *path.relative_to(ROOT).parent.parts]
    skipped = type_checking_only(tree)
    found: set[str] = set()
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *(node.module.split(".") if node.module else [])])
            found |= {f"{module}.{alias.name}" for alias in node.names} | {module}
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module":
            found |= {arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)}
    return found


def parts_imported(path: Path) -> set[str]:
    """Which parts of the package a file imports."""
    names = {m.split(".")[1] for m in imported_modules(path) if m.startswith("onestride.")}
    return {name for name in names if (ROOT / name).is_dir() or (ROOT / f"{name}.py").is_file()}


identify = {"argvalues": FILES, "ids": [str(p.relative_to(ROOT)) for p in FILES]}


def test_every_file_has_a_layer():
    unknown = {part_of(p) for p in FILES} - set(LEVEL) - ROOT_FILES
    assert not unknown, f"give {sorted(unknown)} a row in LAYERS, or move them into a part that has one"


def test_the_house_of_contributing_has_these_layers():
    page = (TESTS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = [
        row.replace("/", "").split(" · ") for row in re.findall(r"^    (\w\S*(?: · \S+)*)  +\w", page, re.MULTILINE)
    ]
    assert [set(row) for row in reversed(rows)] == [set(row) for row in LAYERS]


@pytest.mark.parametrize("path", **identify)
def test_imports_only_go_down(path):
    part = part_of(path)
    if part in ROOT_FILES:
        return
    wrong = {other for other in parts_imported(path) - {part} if LEVEL.get(other, 99) >= LEVEL[part]}
    assert not wrong, f"{part} may not import {sorted(wrong)}"


@pytest.mark.parametrize("path", [p for p in FILES if part_of(p) in ("theory", "simulation")], ids=str)
def test_theory_and_simulation_never_import_each_other(path):
    other = {"theory": "simulation", "simulation": "theory"}[part_of(path)]
    assert other not in parts_imported(path)


def test_theory_and_simulation_do_not_load_each_other():
    """At run time too, whatever path an import takes: a fresh interpreter loads one engine and looks for the other."""
    import subprocess
    import sys

    for engine, other in (("theory", "simulation"), ("simulation", "theory")):
        modules = [
            "onestride." + ".".join(p.relative_to(ROOT).with_suffix("").parts)
            for p in FILES
            if part_of(p) == engine and p.name != "__init__.py"
        ]
        unwanted = f"onestride.{other}"
        code = f"import sys; [__import__(m) for m in {modules!r}]; print([m for m in sys.modules if {unwanted!r} in m])"
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("path", **identify)
def test_no_file_is_above_400_lines(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


@pytest.mark.parametrize(
    ("library", "owner"),
    [("matplotlib", "drawing"), ("sklearn", "estimator"), ("torch", "_backend"), ("cupy", "_backend")],
)
def test_only_one_part_imports(library, owner):
    bundled = {ROOT / "experiments" / "tables.py"} if library == "sklearn" else set()  # the tables it ships with
    files = {p for p in FILES if any(m.split(".")[0] == library for m in imported_modules(p))}
    assert {part_of(p) for p in files - bundled} <= {owner}


@pytest.mark.parametrize("path", **identify)
def test_every_file_says_what_it_is(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", [n for n in onestride.__all__ if not n.startswith("__")])
def test_public_names_exist_and_are_documented(name):
    thing = getattr(onestride, name)
    assert inspect.getdoc(thing)
    assert name in dir(onestride)
    if inspect.isfunction(thing):
        assert thing.__annotations__.get("return"), f"{name} does not say what it returns"


def test_public_names_are_complete():
    """What the README's contract promises, and nothing listed twice."""
    promised = {"Problem", "Step", "predict", "predict_grid", "register", "InputError", "TheoryError"}
    promised |= {"simulate", "simulate_grid", "compare"}
    assert promised <= set(onestride.__all__)
    assert len(set(onestride.__all__)) == len(onestride.__all__)


def test_unknown_public_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        onestride.nonsense


def test_importing_the_package_loads_nothing_heavy():
    """`onestride --help` is instant because the front door is lazy."""
    import subprocess
    import sys

    heavy = ("numpy", "scipy", "matplotlib", "pydantic", "torch")
    code = f"import sys, onestride; print([m for m in {heavy!r} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_importlib_finds_every_module():
    for path in FILES:
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[-1] in ROOT_FILES or parts[0] in ("experiments", "plot", "report", "web", "estimator"):
            continue  # may need optional libraries
        importlib.import_module("onestride." + ".".join(parts))


def test_type_checkers_see_every_public_name():
    """The imports for type checkers and `_HOME`, which serves them at run time, name the same things in the same places."""
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in type_checking_only(tree) if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname: (node.module, alias.name) for node in imports for alias in node.names}
    assert seen == {
        name: ("onestride" if name in MODULES else f"onestride.{home}", name) for name, home in onestride._HOME.items()
    }


def test_a_public_function_stays_when_the_module_of_its_name_is_imported():
    for name in {part_of(path) for path in FILES} & set(onestride._HOME):
        module = importlib.import_module(f"onestride.{name}")
        assert getattr(onestride, name) is (module if name in MODULES else getattr(module, name))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_shapes_stand_in_signatures_only(path):
    """Float[Array, …] outside an annotation is evaluated at import, where newer releases of NumPy refuse it."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            names = {inner.id for inner in ast.walk(node.value) if isinstance(inner, ast.Name)}
            assert not names & {"Float", "Int", "Inexact"}, ast.unparse(node)


def test_no_test_changes_the_clock_of_the_whole_process():
    """The server of the explorer runs in a thread beside the tests: with another clock its loop sleeps for hours."""
    changed = re.compile(r"setattr\((?:[\w.]+\.)?time, |setattr\(\"time\.")
    for path in TESTS.rglob("*.py"):
        assert not changed.search(path.read_text(encoding="utf-8")), path
