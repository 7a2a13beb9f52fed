"""Cells and their keys. A cell is one problem; a group is the cells that differ only in exponent and penalty.

Which records belong to a group is written here: one for every cell and part, where a part is a seed, or None for theory.
What is hashed is the problem without the fields that have their default value, so a field added to `Problem` later leaves
every old key as it was. The numerics tags are raised when the same description would give other numbers
or another status.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from onestride.inputs import Covariance
from onestride.problem import Problem
from onestride.store import Record, content_key, expect
from onestride.sweeps.shapes import SHAPES
from onestride.teachers import named_values

# of the theory 2: numbers known to be off are marked; 3: at random lengths errors are means over all of them
NUMERICS = {"run": 1, "theory": 3, "failure": 1, "sweep": 1}
Pair = tuple[float, float]  # exponent of the step and penalty
Part = int | None  # a seed, or None for the theory

_DEFAULTS: dict[str, Any] = {
    name: json.loads(Problem(n=1, d=1, N=1).model_dump_json(include={name}))[name]  # as plain JSON values
    for name, entry in Problem.model_fields.items()
    if not entry.is_required()
}
_SHARED = [name for name in Problem.model_fields if name not in ("step", "ridge")]
# Need no fingerprint. What joined the built-in ones later keeps its own, or stores would lose its cells.
_KNOWN_BY_NAME = frozenset(["relu", "leaky_relu", "softplus", "gelu", "silu", "elu", "tanh", "erf", "sigmoid", "sin"])
_KNOWN_LAWS = frozenset(["gaussian", "uniform", "rademacher", "student", "ar1", "power", "elliptic"])
_PROBES = np.array([-2.3, -0.4, 0.7, 1.9])  # where a registered function is evaluated to tell it from its namesakes
_MISSING = object()
expect(**SHAPES)


@dataclass(frozen=True)
class Group:
    """Cells that run as one task per part on common random numbers: the (exponent, penalty) pairs of one problem."""

    problem: Problem
    pairs: tuple[Pair, ...]
    seeds: tuple[int, ...]
    method: str = "auto"  # of the theory, "none" for none
    _keys: dict[Part, list[str]] = field(default_factory=dict, repr=False, compare=False)  # those asked for

    def cell(self, pair: Pair) -> Problem:
        """The problem of one pair."""
        return self.problem.at(exponent=pair[0], ridge=pair[1])

    @property
    def exponents(self) -> tuple[float, ...]:
        """Distinct exponents in the order given."""
        return tuple(dict.fromkeys(exponent for exponent, _ in self.pairs))

    @property
    def ridges(self) -> tuple[float, ...]:
        """Distinct penalties in the order given."""
        return tuple(dict.fromkeys(ridge for _, ridge in self.pairs))

    @property
    def parts(self) -> tuple[Part, ...]:
        """What is computed of every cell: its theory, unless there is none, and its seeds."""
        return self.seeds if self.method == "none" else (None, *self.seeds)

    @cached_property
    def contents(self) -> list[dict[str, Any]]:
        """The content of each cell, in the order of `pairs`."""
        return _contents(self.problem, self.pairs)

    def cells(self, part: Part) -> list[dict[str, Any]]:
        """What the records of a part are about, in the order of `pairs`."""
        if part is None:
            return [theory_cell(content, self.method) for content in self.contents]
        return [run_cell(content, part) for content in self.contents]

    def keys(self, part: Part) -> list[str]:
        """The keys of a part's records, in the order of `pairs`."""
        if part not in self._keys:
            self._keys[part] = [key_of(kind_of(part), cell) for cell in self.cells(part)]
        return self._keys[part]

    @property
    def keys_by_cell(self) -> list[tuple[str, ...]]:
        """All keys of each cell, in the order of `pairs`."""
        return list(zip(*(self.keys(part) for part in self.parts), strict=True))

    def with_seeds(self, more: Iterable[int]) -> Group:
        """The same cells with further seeds."""
        return replace(self, seeds=(*self.seeds, *more))


def group_cells(points: Iterable[tuple[Problem, tuple[int, ...]]], method: str = "auto") -> list[Group]:
    """Collect (problem, seeds) points into groups; a cell given twice is one cell with all its seeds."""
    seeds_of: dict[Any, dict[Problem, tuple[int, ...]]] = {}
    steps = {}  # each at the exponent 0: most cells share theirs
    for problem, seeds in points:
        if problem.step not in steps:
            steps[problem.step] = problem.step.replace(exponent=0.0)
        shared = (steps[problem.step], *(getattr(problem, name) for name in _SHARED))
        cells = seeds_of.setdefault(shared, {})
        cells[problem] = tuple(dict.fromkeys((*cells.get(problem, ()), *seeds)))
    groups = []
    for cells in seeds_of.values():
        problem = next(iter(cells)).at(exponent=0.0, ridge=1.0)
        for seeds in dict.fromkeys(cells.values()):  # cells with other seeds make another group
            pairs = tuple((cell.step.exponent, cell.ridge) for cell, own in cells.items() if own == seeds)
            groups.append(Group(problem, pairs, seeds, method))
    return groups


def problem_content(problem: Problem) -> dict[str, Any]:
    """The problem as plain JSON values without what has its default; a registered function or law adds its values."""
    return _contents(problem, [(problem.step.exponent, problem.ridge)])[0]


def problem_of(content: dict[str, Any]) -> Problem:
    """The inverse of `problem_content`."""
    return Problem.from_dict({name: value for name, value in content.items() if name != "registered"})


def _contents(problem: Problem, pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """The content of a problem at each of these pairs."""
    if callable(problem.teacher):
        problem.to_dict()  # says that it cannot be written
    shared: dict[str, Any] = {name: getattr(problem, name) for name in _SHARED}
    shared = {name: list(value) if isinstance(value, tuple) else value for name, value in shared.items()}
    prints = {}
    if problem.activation not in _KNOWN_BY_NAME and isinstance(problem.activation, str):
        prints["activation"] = np.asarray(problem.sigma.raw(_PROBES), float)
    if problem.teacher not in _KNOWN_BY_NAME and isinstance(problem.teacher, str):
        prints["teacher"] = named_values(problem.teacher, _PROBES)
    if isinstance(problem.inputs, Covariance):
        shared["inputs"] = problem.to_dict()["inputs"]
    elif problem.inputs not in _KNOWN_LAWS or problem.law.times is not None:  # before, β⋆ᵀΣβ⋆ was not 1: other numbers
        prints["inputs"] = np.empty(_PROBES.size)
        problem.law.fill(np.random.default_rng(0), prints["inputs"].reshape(2, 2))
    if prints:
        shared["registered"] = {name: [float(f"{v:.9g}") for v in values] for name, values in prints.items()}
    shared = _without_defaults(shared)
    steps = {exponent: problem.step.replace(exponent=exponent + 0.0).as_data() for exponent in {a for a, _ in pairs}}
    return [
        shared | _without_defaults({"ridge": ridge + 0.0, "step": steps[exponent]})
        for exponent, ridge in pairs  # + 0.0: no −0.0
    ]


def _without_defaults(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value != _DEFAULTS.get(name, _MISSING)}


def run_cell(content: dict[str, Any], seed: int) -> dict[str, Any]:
    """What one simulated record is about."""
    return {"problem": content, "seed": seed}


def theory_cell(content: dict[str, Any], method: str) -> dict[str, Any]:
    """What one theory record is about."""
    return {"problem": content, "method": method}


def kind_of(part: Part) -> str:
    """The kind of a part's records."""
    return "theory" if part is None else "run"


def key_of(kind: str, cell: dict[str, Any]) -> str:
    """The key of a record of this kind, with this version's numerics."""
    return content_key(kind, cell, NUMERICS[kind])


def failed_key(failure: Record) -> str:
    """The key of the record that a failure stands in the place of."""
    return key_of(failure.cell["of"], failure.cell["cell"])


def cell_name(cell: dict[str, Any]) -> str:
    """One text for all records of a cell: its problem as JSON."""
    return json.dumps(cell["problem"], sort_keys=True)
