"""Cells and their keys. A cell is one problem; a group is the cells that differ only in exponent and penalty.

What is hashed is the problem without the fields that have their default value, so a field added to `Problem` later leaves
every old key as it was. The numerics tags are raised when the same description would give other numbers
or another status.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from onestride.problem import Problem
from onestride.store import content_key, expect
from onestride.sweeps.shapes import SHAPES

NUMERICS = {"run": 1, "theory": 2, "failure": 1, "sweep": 1}  # theory 2: numbers known to be off are marked

_DEFAULTS: dict[str, Any] = {
    name: json.loads(Problem(n=1, d=1, N=1).model_dump_json(include={name}))[name]  # as plain JSON values
    for name, entry in Problem.model_fields.items()
    if not entry.is_required()
}
_SHARED = [name for name in Problem.model_fields if name not in ("step", "ridge")]
BUILT_IN = frozenset(
    ["relu", "leaky_relu", "softplus", "gelu", "silu", "elu", "tanh", "erf", "sigmoid", "sin"]
)  # need no fingerprint
expect(**SHAPES)
_PROBES = np.array([-2.3, -0.4, 0.7, 1.9])  # where a registered function is evaluated to tell it from its namesakes


@dataclass(frozen=True)
class Group:
    """Cells that run as one task per seed on common random numbers: the (exponent, penalty) pairs of one problem."""

    problem: Problem
    pairs: tuple[tuple[float, float], ...]
    seeds: tuple[int, ...]

    def cell(self, pair: tuple[float, float]) -> Problem:
        """The problem of one pair, whose numbers were validated when the sweep was read."""
        return _at(self.problem, *pair)

    @property
    def exponents(self) -> tuple[float, ...]:
        """Distinct exponents in the order given."""
        return tuple(dict.fromkeys(exponent for exponent, _ in self.pairs))

    @property
    def ridges(self) -> tuple[float, ...]:
        """Distinct penalties in the order given."""
        return tuple(dict.fromkeys(ridge for _, ridge in self.pairs))

    @property
    def content(self) -> dict[str, Any]:
        """The part of the cells' content that all share."""
        return problem_content(self.problem)


def group_cells(points: Iterable[tuple[Problem, tuple[int, ...]]]) -> list[Group]:
    """Collect (problem, seeds) points into groups; a cell given twice is one cell with all its seeds."""
    seeds_of: dict[Any, dict[Problem, tuple[int, ...]]] = {}
    for problem, seeds in points:
        shared = (problem.step.constant, *(getattr(problem, name) for name in _SHARED))
        cells = seeds_of.setdefault(shared, {})
        cells[problem] = tuple(dict.fromkeys((*cells.get(problem, ()), *seeds)))
    groups = []
    for cells in seeds_of.values():
        problem = _at(next(iter(cells)), 0.0, 1.0)
        for seeds in dict.fromkeys(cells.values()):  # cells with other seeds make another group
            pairs = tuple((cell.step.exponent, cell.ridge) for cell, own in cells.items() if own == seeds)
            groups.append(Group(problem, pairs, seeds))
    return groups


def _at(problem: Problem, exponent: float, ridge: float) -> Problem:
    """`problem.at` without validating the rest again, which is slow for thousands of cells."""
    step = problem.step.model_copy(update={"exponent": exponent})
    return problem.model_copy(update={"step": step, "ridge": ridge})


def problem_content(problem: Problem) -> dict[str, Any]:
    """The problem as plain JSON values without what has its default; a registered function adds its values."""
    if callable(problem.teacher):
        problem.to_dict()  # says that it cannot be written
    content: dict[str, Any] = {}
    for name in _SHARED:
        value = getattr(problem, name)
        value = list(value) if isinstance(value, tuple) else value
        if value != _DEFAULTS.get(name, _MISSING):
            content[name] = value
    content = cell_content(content, (problem.step.exponent, problem.ridge), problem.step.constant)
    for name, function in (("activation", "sigma"), ("teacher", "target")):
        spec = getattr(problem, name)
        if isinstance(spec, str) and spec not in BUILT_IN:
            values = np.asarray(getattr(problem, function).raw(_PROBES), float)
            content.setdefault("registered", {})[name] = [float(f"{v:.9g}") for v in values]
    return content


def problem_from(content: dict[str, Any]) -> Problem:
    """The inverse of `problem_content`."""
    return Problem.from_dict({name: value for name, value in content.items() if name != "registered"})


def cell_content(group: dict[str, Any], pair: tuple[float, float], constant: float) -> dict[str, Any]:
    """The content of one cell of a group."""
    data = group | {"ridge": pair[1] + 0.0, "step": {"constant": constant, "exponent": pair[0] + 0.0}}  # no −0.0
    return {name: value for name, value in data.items() if value != _DEFAULTS.get(name, _MISSING)}


def run_cell(content: dict[str, Any], seed: int) -> dict[str, Any]:
    """What one simulated record is about."""
    return {"problem": content, "seed": seed}


def theory_cell(content: dict[str, Any], method: str) -> dict[str, Any]:
    """What one theory record is about."""
    return {"problem": content, "method": method}


def key_of(kind: str, cell: dict[str, Any]) -> str:
    """The key of a record of this kind, with this version's numerics."""
    return content_key(kind, cell, NUMERICS[kind])


_MISSING = object()
