"""Panels computed on request, part by part: the best step, penalty and split; a learning curve; the atlas.

A page asks for one part at a time, a search, a size of the curve or a point of the plane, so that it shows how far it is, draws what is
there, and can give up. Parts are kept: the same question is answered at once.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, cast

from onestride._errors import InputError
from onestride.learning_curves import scaling
from onestride.problem import Problem
from onestride.result import TheoryError, plain
from onestride.theory.atlas import axes, best_at, plane_of
from onestride.theory.optimum import Variable, optimum
from onestride.web.own import here
from onestride.web.workers import Overtime, Workers, time_limit

LARGEST = 1500  # n, d and N of a point that is simulated
KEPT = 600  # parts in memory
TIME_LIMIT = 90.0  # seconds of computing for one part


def best(problem: Problem, over: str) -> dict[str, Any]:
    """The optimum over some of step, ridge and split."""
    found = optimum(problem, cast("list[Variable]", over.split(",")), each=False)
    told = found.to_dict()
    there = found.problem
    sizes = {"constant": there.step.constant, "exponent": there.step.exponent, "d": there.d, "N": there.N}
    return told | sizes | {"untrained": plain(found.prediction.test_error + found.prediction.test_gain)}


def point(
    problem: Problem, along: str, size: str, hold: str = "sizes", tuned: str = "0", seeds: str = "0"
) -> dict[str, Any]:
    """One size of a learning curve, measured with so many seeds where it is small enough."""
    how: dict[str, Any] = {
        "hold": hold,
        "tuned": tuned == "1",
        "seeds": int(_number("seeds", seeds)),
        "largest": LARGEST,
    }
    found = scaling(problem, along, [_number("size", size)], **how)  # pyright: ignore[reportArgumentType]
    there = found.problems[0]
    row = {"n": there.n, "d": there.d, "N": there.N, "ridge": there.ridge, "at": float(found.at[0])}
    row |= {name: plain(getattr(found, name)[0]) for name in ("test_error", "untrained", "excess")}
    row |= {"measured": next(iter(found.measured.values()), None)}
    return row | {"status": found.status[0].name.lower(), "message": found.predictions[0].message}


def points(problem: Problem, plane: str = "") -> dict[str, Any]:
    """Where the points of a plane are."""
    over = plane_of(problem, plane or None)
    x, y = axes(problem, over)
    return {"plane": over, "x": plain(x), "y": plain(y)}


def cell(problem: Problem, plane: str, x: str, y: str, near: str = "0") -> dict[str, Any]:
    """One point of a plane: the best test error, its step and penalty, and the best without a step."""
    place = [_number(name, text) for name, text in (("x", x), ("y", y), ("near", near))]
    found = best_at(problem, plane_of(problem, plane), *place)
    return dict(zip(("test_error", "step", "ridge", "untrained"), map(plain, found), strict=True))


PARTS: dict[str, Callable[..., dict[str, Any]]] = {"best": best, "point": point, "points": points, "cell": cell}
OWN = {"here": here}  # of a table's page
OPTIONS = {"best": {"over"}, "point": {"along", "size", "hold", "tuned", "seeds"}, "points": {"plane"}}
OPTIONS |= {"cell": {"plane", "x", "y", "near"}}
NEEDED = {"best": ("over",), "point": ("along", "size"), "cell": ("plane", "x", "y")}


def options_of(part: str, query: Mapping[str, str]) -> dict[str, str]:
    """What the address says of the part itself; the rest is the problem."""
    if part not in PARTS:
        raise InputError(f"a panel has the parts {', '.join(PARTS)}, got {part[:40]!r}")
    return {name: value for name, value in query.items() if name in OPTIONS[part]}


def answer(part: str, problem: Problem, options: dict[str, str]) -> bytes:
    """One part as JSON, made in a worker."""
    missing = [name for name in NEEDED.get(part, ()) if name not in options]
    if missing:
        words = f"the question is not complete: {part} needs {' and '.join(missing)} in the address"
        return json.dumps({"failed": True, "message": words}).encode()
    try:
        with time_limit(TIME_LIMIT):
            return json.dumps(plain((PARTS | OWN)[part](problem, **options)), allow_nan=False).encode()
    except (InputError, TheoryError) as error:
        return json.dumps({"failed": True, "message": str(error)}).encode()


class Panels:
    """Parts that were computed; one at a time, so that the figures of the page have a process left."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self.turn = asyncio.Semaphore(1)  # parts wait outside the pool, where they can give up
        self._kept: OrderedDict[Any, bytes] = OrderedDict()

    async def ask(self, part: str, problem: Problem, options: dict[str, str]) -> bytes:
        """One part, from memory when it was asked before."""
        key = (part, problem, tuple(sorted(options.items())))
        if key not in self._kept:
            try:
                self._kept[key] = await self._workers.run("full", answer, part, problem, options)
            except (Overtime, MemoryError) as error:
                words = (
                    f"took longer than {TIME_LIMIT:g} s"
                    if isinstance(error, Overtime)
                    else "needs more memory than there is"
                )
                return json.dumps({"failed": True, "message": f"this part {words} and was stopped"}).encode()
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return self._kept[key]


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{name} must be a number, got {text[:40]!r}") from None
