"""What the records of a sweep look like, so that a line of a store that is intact and means nothing is found when it is read.

Each check returns None, or what is wrong as the end of a sentence; `sweeps.cells` hands them to the store, so every reader of a sweep uses them.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from onestride.functions import InputError
from onestride.problem import Problem
from onestride.result import QUANTITIES
from onestride.step import read_step
from onestride.store import Record
from onestride.sweeps.lucks import LARGEST, is_number, wrong_luck

NUMBERS = (*QUANTITIES, *(f"untrained_{name}" for name in QUANTITIES))
WORDS = ("method", "status", "message")
ORIGIN = dict.fromkeys(("seconds", "together", "threads"), False)  # of a record; whether it is a text
ORIGIN |= dict.fromkeys(("host", "onestride", "commit", "finished"), True)


def _run(record: Record) -> str | None:
    wrong = _run_cell(record.cell) or _numbers(record.values) or wrong_luck(record.values, NUMBERS)
    return wrong or _origin(record.provenance)


def _theory(record: Record) -> str | None:
    return _theory_cell(record.cell) or _numbers(record.values) or _words(record.values, WORDS)


def _failure(record: Record) -> str | None:
    cell, of = record.cell.get("cell"), record.cell.get("of")
    if of not in ("run", "theory") or not isinstance(cell, dict):
        return "it does not say what failed"
    wrong = _whole(record.cell, "attempt", 1) or _words(record.values, ("reason",))
    return wrong or (_run_cell if of == "run" else _theory_cell)(cell)


def _sweep(record: Record) -> str | None:
    if not isinstance(record.cell.get("sweep"), dict):
        return "the description of the sweep is missing"
    return _words(record.cell, ("name",)) or _whole(record.values, "cells", 0)


def _run_cell(cell: dict[str, Any]) -> str | None:
    return _problem(cell) or _whole(cell, "seed", 0)


def _theory_cell(cell: dict[str, Any]) -> str | None:
    return _problem(cell) or _words(cell, ("method",))


def _numbers(values: dict[str, Any]) -> str | None:
    return next((f"{name} is missing or not a number" for name in NUMBERS if not is_number(values.get(name))), None)


def _origin(provenance: dict[str, Any]) -> str | None:
    """What an export has of the provenance; each may be missing."""
    for name, is_word in ORIGIN.items():
        value = provenance.get(name)
        if value is not None and not (isinstance(value, str) if is_word else is_number(value)):
            return f"{name} of its provenance is not a {'text' if is_word else 'number'}"
    return None


def _words(values: dict[str, Any], names: tuple[str, ...]) -> str | None:
    return next((f"{name} is missing or not a text" for name in names if not isinstance(values.get(name), str)), None)


def _whole(values: dict[str, Any], name: str, least: int) -> str | None:
    value = values.get(name)
    good = type(value) is int and least <= value < LARGEST
    return None if good else f"{name} is missing or not a whole number from {least} on"


def _problem(cell: dict[str, Any]) -> str | None:
    """The problem of a cell; what many cells share is validated once."""
    content = cell.get("problem")
    if not isinstance(content, dict):
        return "its problem is missing"
    shared = {name: value for name, value in content.items() if name not in ("ridge", "step", "registered")}
    step = content.get("step", {})
    try:
        n = _size(json.dumps(shared, sort_keys=True))
        Problem(n=1, d=1, N=1, ridge=content.get("ridge", 0.1))
        read_step(step).size(n)
    except (ValueError, TypeError, ArithmeticError) as error:
        return f"its problem is none: {error}"
    return None


@lru_cache(maxsize=10_000)
def _size(text: str) -> int:
    """The samples of the problem in this text, which must be one, whatever its functions and input law are called."""
    content = json.loads(text)
    named = [name for name in ("activation", "teacher", "inputs") if isinstance(content.get(name), str)]
    for name in named:  # perhaps registered by whoever wrote it
        del content[name]
    problem = Problem.from_dict(content)
    if max(problem.n, problem.d, problem.N, problem.step_samples) >= LARGEST:
        raise InputError("its sizes are beyond all bounds")
    return problem.n


SHAPES = {"run": _run, "theory": _theory, "failure": _failure, "sweep": _sweep}
