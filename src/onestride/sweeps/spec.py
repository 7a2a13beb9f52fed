"""The file that describes a sweep: a base problem (or several), axes, zipped axes; every mistake told at once.

[problem]                 the fields of a Problem, with `exponent` and `constant` of the step beside them,
n = 300                   `phi` = d/n in place of d, `psi` = d/N in place of N, and `seeds`
…
[axes]                    the grid: every combination of these values replaces those of the base problem
ridge = [0.01, 0.1]
exponent = {linspace = [0, 0.5, 6]}      also logspace (powers of ten) and geomspace, as in NumPy

[[zip]]                   lists of equal length that run side by side
d = [100, 200]
N = [300, 400]
"""

from __future__ import annotations

import itertools
import math
import os
import sys
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from onestride import _html, functions, inputs, teachers
from onestride._errors import InputError, hint, is_whole, quoted
from onestride._progress import OnProgress
from onestride.problem import Problem, Step
from onestride.simulation.arguments import seed_tuple
from onestride.sweeps.cells import Group, group_cells
from onestride.theory.predict import METHODS

SPACES: dict[str, Callable[..., Any]] = {"linspace": np.linspace, "logspace": np.logspace, "geomspace": np.geomspace}
SIZES = ("n", "d", "N", "n_step")
STEP = ("constant", "exponent")
RATIOS = {"phi": "d", "psi": "N"}  # a ratio and the size it stands for
AXES = (*(name for name in Problem.model_fields if name != "step"), *STEP, *RATIOS)
FIELDS = (*AXES, "step", "seeds")
TABLES = ("problem", "axes", "zip", "method")
DEFAULT_SEEDS = 8
MOST_BYTES = 2**24  # of a file
MOST_CELLS = 1_000_000
MOST_RUNS = 10_000_000  # cells × seeds
TELL_EVERY = 1000  # cells
Axes = dict[str, list[Any]]


@dataclass(frozen=True, repr=False)
class Sweep:
    """A validated sweep: its cells with their seeds, and the theory that stands beside them (or "none")."""

    name: str
    points: tuple[tuple[Problem, tuple[int, ...]], ...] = field(repr=False)
    axes: dict[str, list[Any]]
    method: str
    data: dict[str, Any] = field(repr=False)

    def __repr__(self) -> str:
        axes = ", ".join(f"{name} × {len(values)}" for name, values in self.axes.items()) or "one problem"
        return f"Sweep({self.name!r}): {len(self.points)} cells ({axes}), theory {self.method}"

    def _repr_html_(self) -> str:
        lines = [("cells", str(len(self.points))), ("theory", self.method)]
        return _html.table(
            f"Sweep {self.name}", lines + [(name, ", ".join(map(str, v))) for name, v in self.axes.items()]
        )

    @cached_property
    def groups(self) -> list[Group]:
        """Its cells in groups that share their random numbers."""
        return group_cells(self.points, self.method)


def read_sweep(source: str | Path | dict[str, Any], *, progress: OnProgress | None = None) -> Sweep:
    """Read a TOML file, or a dictionary of the same shape; wrong ones raise an `InputError` with every mistake.

    `progress` hears how many cells of how many are read.
    """
    if isinstance(source, dict):
        return parse_sweep(_plain(source), "sweep", progress)
    if not isinstance(source, str | os.PathLike):
        raise InputError(f"source must be the path of a TOML file, a dictionary or a Sweep, got {quoted(source)}")
    path = Path(source)
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise InputError(f"the sweep file {path} must be at most {MOST_BYTES // 2**20} MiB long")
        data = tomllib.loads(text.decode("utf-8"))
    except InputError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the sweep file {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except (ValueError, RecursionError) as error:  # also lists nested too deeply, or thousands of digits
        raise InputError(f"{path} is not valid TOML: {error}") from None
    return parse_sweep(data, path.stem, progress)


def parse_sweep(data: dict[str, Any], name: str, progress: OnProgress | None = None) -> Sweep:
    """A sweep from the parsed file."""
    mistakes: list[str] = []
    _unknown(data, TABLES, "at the top of the file", mistakes)
    method = data.get("method", "auto")
    if method not in (*METHODS, "none"):
        mistakes.append(f"method must be one of {', '.join((*METHODS, 'none'))}, got {method!r}")
    bases = _tables(data, "problem", mistakes)
    if not bases and not mistakes:
        mistakes.append("a table [problem] is missing")
    zipped = [_axes(table, "[[zip]]", mistakes) for table in _tables(data, "zip", mistakes)]
    grid = _axes(data.get("axes", {}), "[axes]", mistakes)
    together = [{name: values} for name, values in grid.items()]  # tables of axes that run side by side
    together += [table for table in zipped if table]
    _check_axes(together, mistakes)
    for base in bases:
        _check_base(base, set().union(*together), mistakes)
    if not mistakes:
        _check_count(bases, together, mistakes)
    points = [] if mistakes else list(_expand(bases, together, mistakes, progress))
    if mistakes:
        told = list(dict.fromkeys(mistakes))
        count = "a mistake" if len(told) == 1 else f"{len(told)} mistakes"
        raise InputError(f"the sweep {name!r} has {count}:" + "".join(f"\n  - {sentence}" for sentence in told))
    axes = {key: values for table in together for key, values in table.items()}
    return Sweep(name, tuple(points), axes, method, data)


def require_known_to_workers(sweep: Sweep) -> None:
    """Say, before any work, that worker processes cannot know what was registered in a notebook or a session.

    A worker imports the script that runs the sweep, and with it what the script registers; a session has nothing to import.
    """
    main = sys.modules["__main__"]
    if hasattr(main, "__file__") or getattr(main, "__spec__", None) is not None:
        return
    for problem, _ in sweep.points:
        own = functions.is_own(problem.activation), teachers.is_own(problem.teacher), inputs.is_own(problem.inputs)
        names = (problem.activation, problem.teacher, problem.inputs)
        for name in itertools.compress(names, own):
            raise InputError(
                f"{name!r} was registered in a notebook or an interactive session, which worker processes cannot import: put the "
                "call of register into a module and run the sweep from a script that imports it, or compute in this process: "
                "sweep(…, executor=concurrent.futures.ThreadPoolExecutor(1))"
            )


# ---------------------------------------------------------------------- the parts of the file


def _tables(data: dict[str, Any], key: str, mistakes: list[str]) -> list[dict[str, Any]]:
    """A table or an array of tables."""
    found = data.get(key, [])
    found = [found] if isinstance(found, dict) else found
    if not isinstance(found, list) or not all(isinstance(table, dict) for table in found):
        mistakes.append(f"{key} must be a table [{key}] or several [[{key}]], got {data[key]!r}")
        return []
    return found


def _unknown(table: Iterable[str], known: Iterable[str], where: str, mistakes: list[str]) -> None:
    known = tuple(known)
    for name in table:
        if name not in known:
            own = {"step": "give `exponent` and `constant` instead", "seeds": "it belongs in [problem]"}
            mistakes.append(f"{name!r} {where} is not known; {own.get(name) or hint(name, known)}")


def _axes(table: Any, where: str, mistakes: list[str]) -> Axes:
    """The values of each axis of a table."""
    if not isinstance(table, dict):
        mistakes.append(f"{where} must be a table of axes, got {table!r}")
        return {}
    _unknown(table, AXES, f"in {where}", mistakes)
    axes = {}
    for name, given in table.items():
        if name in AXES and (values := _values(name, given, where, mistakes)):
            axes[name] = values
    return axes


def _values(name: str, given: Any, where: str, mistakes: list[str]) -> list[Any]:
    allowed = f"a non-empty list of values or one of {', '.join(f'{{{s} = [start, stop, count]}}' for s in SPACES)}"
    if isinstance(given, dict) and len(given) == 1 and set(given) <= set(SPACES):
        ((space, numbers),) = given.items()
        try:
            start, stop, count = numbers
            if not is_whole(count) or count < 1:
                raise ValueError(count)
            if count > MOST_CELLS:
                mistakes.append(f"{where} {name} must have at most {MOST_CELLS:,} values, got {count:,}")
                return []
            with np.errstate(all="ignore"):
                made = SPACES[space](float(start), float(stop), count)
        except (TypeError, ValueError, OverflowError):
            made = np.array([math.nan])
        if not np.isfinite(made).all():
            kinds = ", powers of ten," if space == "logspace" else " above 0," if space == "geomspace" else ""
            mistakes.append(
                f"{where} {name}: {space} takes [start, stop, count]{kinds} and makes finite numbers, got {numbers!r}"
            )
            return []
        # 12 digits, so that the fourth of linspace(0, 0.4, 5) is the 0.3 of a list
        values = [float(f"{v:.12g}") for v in made]
        return [round(v) for v in values] if name in SIZES else values
    if not isinstance(given, list) or not given:
        mistakes.append(f"{where} {name} must be {allowed}, got {given!r}")
        return []
    if len(given) > MOST_CELLS:
        mistakes.append(f"{where} {name} must have at most {MOST_CELLS:,} values, got {len(given):,}")
        return []
    for value in given:
        _check_value(name, value, where, mistakes)
    return given


def _check_axes(tables: list[Axes], mistakes: list[str]) -> None:
    names = [name for table in tables for name in table]
    for name in {name for name in names if names.count(name) > 1}:
        mistakes.append(f"the axis {name!r} is given more than once")
    for ratio, size in RATIOS.items():
        if ratio in names and size in names:
            mistakes.append(f"the axes {ratio!r} and {size!r} say the same thing; give one of them")
    for table in tables:
        lengths = {name: len(values) for name, values in table.items()}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            mistakes.append(f"the axes of a [[zip]] must have equal lengths; {told}")


def _check_base(base: dict[str, Any], axes: set[str], mistakes: list[str]) -> None:
    _unknown(base, FIELDS, "in [problem]", mistakes)
    for name, value in base.items():
        if name in FIELDS:
            _check_value(name, value, "[problem]", mistakes)
    if "step" in base and set(STEP) & set(base):
        mistakes.append("[problem] has a table step and also exponent or constant; give one of them")
    for ratio, size in RATIOS.items():
        if ratio in base and size in base:
            mistakes.append(f"[problem] has both {ratio} and {size}, which say the same thing; give one of them")
    ratio_of = {size: ratio for ratio, size in RATIOS.items()}
    for name in ("n", "d", "N"):
        if not {name, ratio_of.get(name, name)} & (set(base) | axes):
            mistakes.append(f"[problem] {name} is missing")


def _check_count(bases: list[dict[str, Any]], tables: list[Axes], mistakes: list[str]) -> None:
    """Refuse more than anybody can compute, before anything of it is built."""
    each = math.prod(len(next(iter(table.values()))) for table in tables)
    cells = each * len(bases)
    runs = each * sum(len(seed_tuple(base.get("seeds", DEFAULT_SEEDS))) for base in bases)
    if cells > MOST_CELLS:
        mistakes.append(f"a sweep must have at most {MOST_CELLS:,} cells, these axes make {cells:,}")
    elif runs > MOST_RUNS:
        mistakes.append(f"a sweep must have at most {MOST_RUNS:,} runs (cells × seeds), this one has {runs:,}")


def _check_value(name: str, value: Any, where: str, mistakes: list[str]) -> None:
    """Validate one value by itself, so that one mistake does not hide another."""
    try:
        if name == "seeds":
            seed_tuple(value)
        elif name in STEP:
            Step(**{name: value})
        elif name in RATIOS:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (number and math.isfinite(value) and value > 0):
                raise InputError(f"{name} must be a finite number above 0, got {value!r}")
        else:
            sizes: dict[str, Any] = {"n": 10**9, "d": 10**9, "N": 10**9}
            if name == "inputs" and (values := _eigenvalues(value)):
                sizes["d"] = len(values)  # whether it is the d of a cell is asked with the cell
            Problem(**(sizes | {name: value}))
    except InputError as error:
        mistakes.append(f"{where} {error}")


def _eigenvalues(given: Any) -> Any:
    """Those of a covariance, as an object or the table it is written as; None of anything else."""
    found = given.get("eigenvalues") if isinstance(given, dict) else getattr(given, "eigenvalues", None)
    return found if isinstance(found, list | tuple) else None


# ---------------------------------------------------------------------- the cells


def _expand(
    bases: list[dict[str, Any]], tables: list[Axes], mistakes: list[str], progress: OnProgress | None
) -> Iterable[tuple[Problem, tuple[int, ...]]]:
    """Every combination, in the order of the file, the last axis fastest."""
    ways = [[dict(zip(t, values, strict=True)) for values in zip(*t.values(), strict=True)] for t in tables]
    seen, count, total = set(), 0, len(bases) * math.prod(map(len, ways))
    for base in bases:
        seeds = seed_tuple(base.get("seeds", DEFAULT_SEEDS))
        for chosen in itertools.product(*ways):
            if progress is not None and count % TELL_EVERY == 0:
                progress(count, total)
            count += 1
            changes = {name: value for part in chosen for name, value in part.items()}
            try:
                problem = _problem(base, changes)
            except InputError as error:
                mistakes.append(str(error))
                continue
            if (problem, seeds) not in seen:
                seen.add((problem, seeds))
                yield problem, seeds


def _problem(base: dict[str, Any], changes: dict[str, Any]) -> Problem:
    values = {name: value for name, value in base.items() if name != "seeds"}
    for ratio, size in RATIOS.items():  # an axis replaces the ratio and the size it stands for
        if ratio in changes or size in changes:
            values.pop(ratio, None)
            values.pop(size, None)
    values |= changes
    step = values.pop("step", None)
    chosen = {name: values.pop(name) for name in STEP if name in values}
    if isinstance(step, list):
        values["step"] = step
    elif chosen or step is not None:
        values["step"] = Step(**({"constant": 1.0} | (step or {}) | chosen))
    if "phi" in values:
        values["d"] = _size("phi", values.pop("phi"), values["n"])
    if "psi" in values:
        values["N"] = _size("psi", values.pop("psi"), values["d"])
    problem = Problem(**values)
    if isinstance(step, list):
        problem = problem.replace(step=problem.step.replace(**chosen))
    problem.eta  # noqa: B018 - says now that the step is too large a number
    return problem


def _size(ratio: str, value: float, of: int) -> int:
    """The whole number nearest to d = φn or N = d/ψ."""
    try:
        return max(1, round(value * of if ratio == "phi" else of / value))
    except OverflowError:
        raise InputError(f"{ratio} = {value:g} makes {RATIOS[ratio]} too large a number") from None


def _plain(value: Any) -> Any:
    """Lists and numbers in place of arrays and tuples."""
    if isinstance(value, dict):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple | range):
        return [_plain(entry) for entry in value]
    return value
