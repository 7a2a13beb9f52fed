"""The notebooks run from top to bottom, each in a namespace of its own, and show every result in HTML."""

import ast
import json

import pytest

from places import ROOT

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def cells(path) -> list[str]:
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data["nbformat"] == 4
    assert not any(cell.get("outputs") for cell in data["cells"]), "notebooks are kept without outputs"
    return ["".join(cell["source"]) for cell in data["cells"] if cell["cell_type"] == "code"]


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["first_steps", "staircase", "your_own_table"]


@pytest.mark.long
@pytest.mark.usefixtures("recorded_seeds")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, capsys):
    """Cell by cell, as Jupyter does: the value of the last expression is shown, by `_repr_html_` where it has one."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pytest.importorskip("pandas")
    pytest.importorskip("sklearn")
    names: dict[str, object] = {"__name__": "__main__"}
    shown = 0
    for code in cells(path):
        tree = ast.parse(code)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, path.name, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), path.name, "eval"), names)
            if hasattr(value, "_repr_html_"):
                assert "<table" in value._repr_html_()
                shown += 1
    assert shown >= 1
    assert pyplot.get_fignums()
    pyplot.close("all")
