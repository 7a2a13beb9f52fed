"""Errors and learned shares along an axis: α with its windows and baselines, or any other number of a problem.

A curve begins on even positions. Then the interval beside the sharpest bend is halved, and again, until none is left or there
are enough: at large n the staircase is steep between the windows and flat within them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onestride._numerics import Array
from onestride.problem import Problem, Step
from onestride.result import QUANTITIES, plain
from onestride.theory.baselines import closed_baselines
from onestride.theory.learned import teacher_degrees
from onestride.theory.predict import predict_grid
from onestride.theory.profile.equations import Solution
from onestride.theory.quick import Cell, Quality, cell, errors_along, stability, words_of
from onestride.theory.reliability import known_off, off_at

BASELINES = ("best-linear", "linear-ridge", "direction-only", "bayes")  # that are drawn
HIGHEST_WINDOW = 6  # plateaus and thresholds are drawn up to this ℓ
_BEND = 0.05  # of a learned share, or of the test error over its mean
_MORE = {"quick": 2.5, "full": 2.0}  # times as many positions as a curve begins with, at most
_AGAIN = 11  # positions of a full curve of several steps, whose cells take 0.3 s each
_CELLS = 13  # of a map, each way
_ELSEWHERE = 21  # positions of a full curve along another axis, whose untrained network moves as well


def curves(problem: Problem, quality: Quality) -> dict[str, Any]:
    """Errors and learned shares against α, with the untrained network, the n → ∞ plateaus and the baselines."""
    return positions(problem, quality) | limits(problem, quality)


def positions(problem: Problem, quality: Quality) -> dict[str, Any]:
    """Errors and learned shares against α."""
    few = quality.points if problem.steps == 1 else min(quality.points, _AGAIN)
    even = np.linspace(min(0.0, max(problem.step.exponent, -1.0)), 0.5, few)
    return _columns(problem, *_refined(lambda alpha: problem.at(exponent=alpha), even, quality), quality)


def even_curves(
    problem: Problem, exponents: Sequence[float], ridges: Sequence[float], quality: Quality
) -> list[dict[str, Any]]:
    """`curves` for several penalties, at the exponents given and no others, with E[f̂ h_k] at each."""
    rows = [[cell(problem.at(exponent=a, ridge=lam), quality, None)[0] for lam in ridges] for a in exponents]
    found: list[dict[str, Any]] = []
    for cells, lam in zip(map(list, zip(*rows, strict=True)), ridges, strict=True):
        own = problem.at(ridge=lam)
        curve = _columns(own, np.array(exponents), cells, quality) | limits(own, quality)
        found.append(curve | {"components": [plain(c.components) for c in cells]})
    return found


def limits(problem: Problem, quality: Quality) -> dict[str, Any]:
    """What is the same for every α: the untrained network, the n → ∞ plateaus and the baselines."""
    before, _ = cell(problem.replace(step=Step.none()), quality, None)
    closed, told = closed_baselines(problem), _baselines_known(problem)
    return {
        "axis": "exponent",
        "untrained": dict(zip(QUANTITIES, map(plain, before.errors), strict=True)),
        "untrained_status": before.verdict.status.name.lower(),
        "untrained_message": before.verdict.message,
        "untrained_fraction": {str(k): plain(before.fraction[k - 1]) for k in teacher_degrees(problem)},
        "untrained_components": plain(before.components),
        "before": _before(before, problem, closed, told),
        "limit": _plateaus(problem),
        "baselines": {name: plain(closed[name]) if name in told else None for name in BASELINES},
        "stable": stability(problem),
        "windows": bool(problem.sigma.coefficients[1] != 0),  # without a linear part there are none
    }


def along(
    problem: Problem,
    axis: str,
    at: Callable[[float], Problem],
    ends: tuple[float, float],
    quality: Quality,
    *,
    log: bool,
) -> dict[str, Any]:
    """The same against another axis, where `at` makes the problem of a position; without the step it moves too."""
    fold: Callable[[float], float] = (lambda t: float(10**t)) if log else float
    few = min(quality.points if problem.steps == 1 else _AGAIN, _ELSEWHERE)
    low, high = (math.log10(end) if log else end for end in ends)
    even = np.linspace(low, high, few)
    t, cells = _refined(lambda s: at(fold(s)), even, quality)
    problems = [at(fold(s)) for s in t]
    before = [cell(p.replace(step=Step.none()), quality, None)[0] for p in problems]
    here = cell(problem.replace(step=Step.none()), quality, None)[0]
    closed = [closed_baselines(p) for p in problems]
    told = _baselines_known(problem)
    return _columns(problem, np.array([fold(s) for s in t]), cells, quality) | {
        "axis": axis,
        "untrained": {name: plain(np.array([b.errors[i] for b in before])) for i, name in enumerate(QUANTITIES)},
        "untrained_fraction": {
            str(k): plain(np.array([b.fraction[k - 1] for b in before])) for k in teacher_degrees(problem)
        },
        "untrained_components": plain(here.components),
        "baselines": {
            name: plain(np.array([row[name] for row in closed])) if name in told else None for name in BASELINES
        },
        "before": _before(here, problem, closed_baselines(problem), told),
        "limit": None,
        "stable": None,
        "windows": False,
    }


def error_map(problem: Problem, ridges: tuple[float, float], quality: Quality) -> dict[str, Any]:
    """The test error over (α, λ), λ from end to end in logarithms, which of it is known to be off, and where the rest is least.

    Where there is no number at all, `message` says why.
    """
    alphas = np.linspace(0, 0.5, _CELLS)
    lams = np.geomspace(min(ridges[0], problem.ridge), max(ridges[1], problem.ridge), _CELLS)
    columns = [problem.at(exponent=float(a)) for a in alphas]
    table = np.array([errors_along(at, lams, quality) for at in columns])
    off = np.array([_off(at, lams, errors) for at, errors in zip(columns, table, strict=True)])
    row: dict[str, Any] = {
        "alpha": plain(alphas),
        "ridge": plain(lams),
        "test_error": plain(table),
        "off": off.tolist(),
    }
    row["best"], trusted = None, np.where(off, np.nan, table)
    if np.isfinite(trusted).any():
        i, j = np.unravel_index(np.nanargmin(trusted), table.shape)
        row["best"] = {"alpha": plain(alphas[i]), "ridge": plain(lams[j]), "test_error": plain(table[i, j])}
    nothing = "" if np.isfinite(table).any() else cell(columns[0], quality, None)[0].verdict.message
    return row | {"message": nothing, "quality": quality.name}


def _off(problem: Problem, ridges: Array, errors: Array) -> list[bool]:
    """Which of these errors are known to be off by more than 5 %."""
    if not np.isfinite(errors).any():
        return [False] * ridges.size
    whole = known_off(problem) is not None
    return [whole or off_at(problem, float(lam), float(e)) is not None for lam, e in zip(ridges, errors, strict=True)]


def _before(untrained: Cell, problem: Problem, closed: dict[str, float], told: set[str]) -> dict[str, Any]:
    """What the problem itself reaches without the step: errors, shares, and ridge regression on its inputs."""
    row: dict[str, Any] = dict(zip(QUANTITIES, map(plain, untrained.errors), strict=True))
    row["fraction"] = {str(k): plain(untrained.fraction[k - 1]) for k in teacher_degrees(problem)}
    return row | {"linear-ridge": plain(closed["linear-ridge"]) if "linear-ridge" in told else None}


def _refined(at: Callable[[float], Problem], even: Array, quality: Quality) -> tuple[Array, list[Cell]]:
    """Positions and their cells: the even ones, and those that halve the intervals beside the sharpest bends."""
    found: dict[float, tuple[Cell, Solution | None]] = {}

    def compute(x: float) -> None:
        nearest = min(found, key=lambda other: abs(other - x)) if found else None
        found[x] = cell(at(x), quality, None if nearest is None else found[nearest][1])

    for x in even:
        compute(float(x))
    while len(found) < _MORE[quality.name] * even.size:
        x = np.array(sorted(found))
        bends = _bends(x, [found[float(s)][0] for s in x])
        sharpest = int(np.argmax(bends))
        if bends[sharpest] <= _BEND or x[sharpest + 1] - x[sharpest] < 1e-3 * (x[-1] - x[0]):
            break
        compute(float(x[sharpest] + x[sharpest + 1]) / 2)
    ordered = sorted(found)
    return np.array(ordered), [found[x][0] for x in ordered]


def _bends(x: Array, cells: list[Cell]) -> Array:
    """How far a straight line may be off between neighbours, judged by the bend at either end.

    Of a learned share, or of the test error over its mean; 0 beside what has no number.
    """
    error = np.array([c.errors[2] for c in cells])
    scaled = error / np.nanmean(error) if np.isfinite(error).any() else error
    values, width = np.column_stack([scaled, np.array([c.fraction for c in cells])]), np.diff(x)
    slope = np.diff(values, axis=0) / width[:, None]
    bend = np.nan_to_num(np.abs(np.diff(slope, axis=0))).max(1)
    ends = np.pad(bend, 1)
    return np.maximum(ends[:-1], ends[1:]) * width / 2


def _columns(problem: Problem, x: Array, cells: list[Cell], quality: Quality) -> dict[str, Any]:
    columns, listed = np.array([c.errors for c in cells]), teacher_degrees(problem)
    return {
        "x": plain(x),
        **{name: plain(columns[:, i]) for i, name in enumerate(QUANTITIES)},
        "degrees": listed,
        "fraction": {str(k): plain(np.array([c.fraction[k - 1] for c in cells])) for k in listed},
        "status": [c.verdict.status.name.lower() for c in cells],
        "messages": [c.verdict.message for c in cells],
        "message": next((c.verdict.message for c in cells if c.verdict.message), ""),
        "quality": quality.name,
        "words": words_of(problem, quality),
    }


def _baselines_known(problem: Problem) -> set[str]:
    """Which of the closed baselines hold: one direction and the linear fit know no covariance, lengths change every power."""
    if problem.law.freedom is not None:
        return {"bayes"}
    if not problem.law.isotropic:
        return {"best-linear", "bayes"}
    return {name for name in BASELINES if problem.steps == 1 or name != "direction-only"}


def _plateaus(problem: Problem) -> dict[str, Any]:
    """Both errors in every window ℓ = 1 … 6 after the exact step as n → ∞, and the ends of the windows."""
    ells = range(1, HIGHEST_WINDOW + 1)
    ends = [((ell - 1) / (2 * ell), ell / (2 * ell + 2)) for ell in ells]
    middles = [(a + b) / 2 if problem.step.constant else problem.step.exponent for a, b in ends]
    grid = predict_grid(problem, middles, [problem.ridge], method="exact-plateau")
    return {"windows": ends} | {name: plain(getattr(grid, name)[:, 0]) for name in ("train_loss", "test_error")}
