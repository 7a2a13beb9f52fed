"""The reference page names what is exported, and every public name has an example that runs and prints what it says."""

import doctest
import inspect
import re
from operator import attrgetter

import pytest

import onestride
from onestride import functions, teachers
from places import DOCS

MODULES = ("conventions", "estimator", "plot")
NAMES = [name for name in onestride.__all__ if name not in MODULES and not name.startswith("__")]
EVERY = set(onestride._HOME) - set(MODULES)  # those that need an extra which is not here, too


@pytest.fixture(autouse=True)
def _registry(monkeypatch):
    monkeypatch.setattr(functions, "_REGISTRY", dict(functions._REGISTRY))
    monkeypatch.setattr(teachers, "_REGISTRY", dict(teachers._REGISTRY))
    yield
    functions.resolve.cache_clear()


def test_the_reference_page_documents_what_is_exported_and_nothing_else():
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\.\. auto\w+:: onestride\.(\w+)$", page, re.MULTILINE)
    assert len(documented) == len(set(documented))
    assert set(documented) == EVERY
    for module in MODULES:
        assert f"onestride.{module}" in page


@pytest.mark.parametrize("name", [*NAMES, "plot.staircase"])
def test_the_example_in_a_docstring_runs(name):
    thing = inspect.unwrap(attrgetter(name)(onestride))
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(thing), {"one": onestride}, name, None, 0)
    assert test.examples, f"{name} has no example"
    runner = doctest.DocTestRunner(verbose=False)
    told: list[str] = []
    runner.run(test, out=told.append)
    assert runner.failures == 0, "".join(told)
