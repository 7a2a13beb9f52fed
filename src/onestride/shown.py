"""What every result can do: tell itself as JSON, in three lines, as a table in a notebook, as a figure, as a frame.

A result names its parts (`_told`, `_brief`), its axes and variables (`_axes`, `_variables`) and its figure (`panels`); all else
is here, once.
"""

from __future__ import annotations

import enum
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from operator import attrgetter
from textwrap import shorten
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from onestride import _html, drawing
from onestride._errors import InputError, require
from onestride.problem import Problem

if TYPE_CHECKING:
    from pandas import DataFrame
    from xarray import Dataset

_LINE = 160  # letters of a line of the words
Variables = dict[str, tuple[tuple[str, ...], Any]]  # name → axes, values


class Result:
    """What every result can do. `_told` names what is told, fields or properties; of `prediction.method` it is `method`.

    `_brief` names what stands in the first line of the words, `_sentences` what stands in the second, `_equation` what is above
    the table of a notebook.
    """

    _told: ClassVar[tuple[str, ...]] = ()
    _brief: ClassVar[tuple[str, ...]] = ()
    _sentences: ClassVar[tuple[str, ...]] = ("verdict", "summary", "message")
    _equation: ClassVar[str] = ""
    _if_any: ClassVar[tuple[str, ...]] = ("spot_check", "tails", "trained", "untrained")  # left out when there is none

    # ------------------------------------------------------------------ JSON and words

    def to_dict(self) -> dict[str, Any]:
        """Numbers and words, ready for JSON: NaN becomes None, an estimate its mean and standard error."""
        told = {name.rpartition(".")[2]: attrgetter(name)(self) for name in self._told}
        return {name: plain(value) for name, value in told.items() if value is not None or name not in self._if_any}

    def to_json(self) -> str:
        """The same as JSON text, the problem included."""
        return json_text(self.with_problem())

    def with_problem(self) -> dict[str, Any]:
        """`to_dict` with the problem first: what `--json` prints."""
        problem = getattr(self, "problem", None)
        return ({} if problem is None else {"problem": plain(problem)}) | self.to_dict()

    def _within(self) -> dict[str, Any]:
        """What is told of it as a part of another result."""
        return self.to_dict()

    def _lines(self) -> Iterator[tuple[str, str]]:
        """Names and values of the table in a notebook; what is empty, or said by the status, is left out."""
        told = {name: text(value) for name, value in self.to_dict().items() if name != "problem"}
        return ((name, words) for name, words in told.items() if words and (name, words) != ("message", "solved"))

    def _first_line(self) -> str:
        """The numbers that matter, by the names they are asked for."""
        parts = {name.rpartition(".")[2]: attrgetter(name)(self) for name in self._brief}
        return ", ".join(f"{name} {_bracketed(plain(value))}" for name, value in parts.items())

    def _second_line(self) -> str:
        """What is to be said about them."""
        found = next((str(getattr(self, name)) for name in self._sentences if getattr(self, name, None)), "")
        return "" if found == "solved" else found

    def __repr__(self) -> str:
        rest = [shorten(line, _LINE, placeholder=" …") for line in (self._second_line(), _about(self)) if line]
        return "\n  ".join(
            [shorten(f"{type(self).__name__}: {self._first_line()}", 2 * _LINE, placeholder=" …"), *rest]
        )

    # ------------------------------------------------------------------ notebooks and figures

    def _picture(self) -> str:
        """A small picture for the table of a notebook, where there is something to see."""
        return ""

    def _repr_html_(self) -> str:
        about = _about(self)
        lines = itertools.chain(self._lines(), [("problem", about)] if about else [])
        return _html.table(type(self).__name__, lines, equation=self._equation, picture=self._picture())

    def panels(self) -> Sequence[drawing.Panel | drawing.Map]:
        """The figure as data."""
        raise InputError(f"a {type(self).__name__} is words and has no figure; print it")

    def plot(self, ax: Any = None) -> Any:
        """Draw it with matplotlib and return the axes, an array of them where there are several panels.

        With `ax` the first panel is drawn there. `pip install 'onestride[plot]'` brings matplotlib.
        """
        return drawing.axes_of(self.panels(), ax)

    # ------------------------------------------------------------------ frames

    def _axes(self) -> dict[str, Sequence[Any]]:
        """The axes of the variables, by name, with the values along them."""
        return {}

    def _variables(self) -> Variables:
        """The variables: by default every number and word that is told."""
        return {name: ((), v) for name, v in self.to_dict().items() if isinstance(v, str | bool | int | float)}

    def to_xarray(self) -> Dataset:
        """An `xarray.Dataset`: the variables with their axes, the problem in its attributes."""
        require("xarray", extra="export", what="to_xarray")
        from xarray import Dataset

        variables = {name: (axes, _host(values)) for name, (axes, values) in self._variables().items()}
        used = {axis for axes, _ in variables.values() for axis in axes}
        problem = getattr(self, "problem", None)
        about = {} if problem is None else {"problem": json.dumps(plain(problem), ensure_ascii=False)}
        coordinates = {name: np.asarray(values) for name, values in self._axes().items() if name in used}
        return Dataset(variables, coordinates, {"result": type(self).__name__} | about)

    def to_pandas(self) -> DataFrame:
        """A `pandas.DataFrame`: a row for each place along the axes, the sizes of the problem in its first columns.

        Of variables with different axes, those along the axes of the first one; `to_xarray` has all.
        """
        require("pandas", extra="export", what="to_pandas")
        from pandas import DataFrame

        variables, axes = self._variables(), self._axes()
        along = next(iter(variables.values()))[0] if variables else ()
        shape = tuple(len(axes[name]) for name in along)
        places = np.meshgrid(*(np.asarray(axes[name]) for name in along), indexing="ij")
        columns = {name: place.ravel() for name, place in zip(along, places, strict=True)}
        for name, (own, values) in variables.items():
            if set(own) <= set(along):
                spread = tuple(slice(None) if axis in own else np.newaxis for axis in along)
                columns[name] = np.broadcast_to(_host(values)[spread], shape).ravel()
        rows = int(np.prod(shape))
        about = {name: [value] * rows for name, value in _sizes(self).items() if name not in columns}
        return DataFrame(about | columns)


def _about(result: Result) -> str:
    """The problem in a line; where a function of it is not registered here, its fields."""
    problem = getattr(result, "problem", None)
    try:
        return "" if problem is None else "; ".join(str(problem).splitlines())
    except InputError:
        return repr(problem)


def _host(values: Any) -> np.ndarray:
    """An array; outcomes by their names."""
    array = np.asarray(values)
    return np.vectorize(plain, otypes=[object])(array).astype(str) if array.dtype == object else array


def _sizes(result: Result) -> dict[str, Any]:
    problem: Problem | None = getattr(result, "problem", None)
    if problem is None:
        return {}
    words = {"activation": problem.sigma.name, "teacher": problem.target.name}
    numbers = {name: getattr(problem, name) for name in ("n", "d", "N", "noise")}
    return (
        numbers | words | {"constant": problem.step.constant, "exponent": problem.step.exponent, "ridge": problem.ridge}
    )


# ---------------------------------------------------------------------- values as JSON and in words


def plain(value: Any) -> Any:
    """`value` as JSON has it: nested lists, None where a number is not finite, names in small letters for outcomes."""
    if type(value) is np.ndarray and value.dtype == np.float64 and value.ndim and np.isfinite(value).all():
        return value.tolist()  # the common case, in one go
    if isinstance(value, Result):
        return value._within()  # pyright: ignore[reportPrivateUsage]
    if isinstance(value, Problem):
        return (
            value.replace(teacher=(0, 1)).to_dict() | {"teacher": value.target.name}
            if callable(value.teacher)
            else value.to_dict()
        )
    if isinstance(value, enum.Enum):
        return value.name.lower()
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in cast("Mapping[Any, Any]", value).items()}
    if is_dataclass(value):
        return {part.name: plain(getattr(value, part.name)) for part in fields(value)}
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, np.ndarray) and value.ndim:
        return [plain(one) for one in value]
    if isinstance(value, tuple | list):
        return [plain(one) for one in cast("Iterable[Any]", value)]
    number = cast("float", value)
    return float(number) if np.isfinite(number) else None


def json_text(data: Any, *, ascii_only: bool = False) -> str:
    """Results, numbers and words as the text of a JSON file: what is not finite is null."""
    return json.dumps(plain(data), indent=2, ensure_ascii=ascii_only, allow_nan=False)


def text(value: Any) -> str:
    """A plain value in a few words: a number with four digits, mean ± standard error, size and range of what is long."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        parts = cast("list[Any]", value)
        long = len(parts) > 8 or any(isinstance(one, list) for one in parts)
        return _long(parts) if long else ", ".join(map(text, parts)) or "none"
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        if named.keys() >= {"mean", "stderr"} and np.ndim(named["mean"]) == 1:
            return text([{"mean": m, "stderr": e} for m, e in zip(named["mean"], named["stderr"], strict=True)])
        if named.keys() >= {"mean", "stderr"}:
            widest = np.array(named["stderr"], float)
            spread = f" ± {widest.max():.2g}{' at most' * (widest.ndim > 0)}" if np.isfinite(widest).all() else ""
            return f"{text(named['mean'])}{spread}"
        return ", ".join(f"{name} {_bracketed(one)}" for name, one in named.items())
    return "–" if value is None else str(value)


def _bracketed(value: Any) -> str:
    """Short lists in brackets, so that they are told apart from what follows."""
    several = isinstance(value, list) or (isinstance(value, dict) and np.ndim(value.get("mean", 0)) == 1)
    words = text(value)
    return f"[{words}]" if several and " values" not in words else words


def _long(parts: list[Any]) -> str:
    """How many values, and from where to where they go."""
    try:
        array = np.array(parts, float)  # None becomes NaN
    except (TypeError, ValueError):
        return f"{len(parts)} values"
    size = " × ".join(map(str, array.shape))
    if not np.isfinite(array).any():
        return f"{size} values"
    return f"{size} values from {np.nanmin(array):.4g} to {np.nanmax(array):.4g}"
