"""The reference page names what is exported, and every public name has an example that runs and prints what it says."""

import doctest
import importlib
import inspect
import re

import pytest

import onestride
from onestride import functions, inputs, teachers
from places import DOCS

MODULES = ("conventions", "estimator", "plot")
NAMES = [name for name in onestride.__all__ if name not in MODULES and not name.startswith("__")]
EVERY = set(onestride._HOME) - set(MODULES)  # those that need an extra which is not here, too
PAGE = (DOCS / "api.md").read_text(encoding="utf-8")
# the functions of the reference page that live in modules, and the classes one makes oneself; results have theirs where they are returned
ELSEWHERE = re.findall(r"^\.\. autofunction:: (onestride\.\w+\.[\w.]+)$", PAGE, re.MULTILINE)
MADE = """conventions.Conversion comparison.Check drawing.Map drawing.Panel drawing.Series estimate.Estimate
    experiments.outcome.Settings functions.Function inputs.InputLaw step.Schedule teachers.Teacher"""


@pytest.fixture(autouse=True)
def _registry(monkeypatch):
    monkeypatch.setattr(functions, "_REGISTRY", dict(functions._REGISTRY))
    monkeypatch.setattr(teachers, "_REGISTRY", dict(teachers._REGISTRY))
    monkeypatch.setattr(inputs, "_REGISTRY", dict(inputs._REGISTRY))
    yield
    functions.resolve.cache_clear()


def test_the_reference_page_documents_what_is_exported_and_nothing_else():
    documented = re.findall(r"^\.\. auto\w+:: onestride\.(\w+)$", PAGE, re.MULTILINE)
    assert len(documented) == len(set(documented))
    assert set(documented) == EVERY
    for module in MODULES:
        assert f"onestride.{module}" in PAGE


def found(name: str) -> object:
    """What the full name stands for, its module imported."""
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


@pytest.mark.parametrize("name", [*(f"onestride.{n}" for n in (*NAMES, *MADE.split())), *ELSEWHERE])
def test_the_example_in_a_docstring_runs(name):
    thing = inspect.unwrap(found(name))
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(thing), {"one": onestride}, name, None, 0)
    assert test.examples, f"{name} has no example"
    runner = doctest.DocTestRunner(verbose=False)
    told: list[str] = []
    runner.run(test, out=told.append)
    assert runner.failures == 0, "".join(told)
