"""Curves against α and everything at the chosen α, at two qualities: what the explorer draws.

`QUICK` answers while a slider moves: the isotropic level of the profile theory on a coarse quadrature, with every degree
of the inputs where they are resolved, and the bulk as it was before the step. `FULL` is what `predict`, `learned` and `spectrum` return, a second or two later.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from onestride._numerics import Array
from onestride.problem import Problem, Step
from onestride.result import QUANTITIES, Status, TheoryError, plain
from onestride.theory.baselines import closed_baselines
from onestride.theory.density import largest_possible, resolves_degrees, untrained_density, untrained_model
from onestride.theory.direction import direction
from onestride.theory.expansion import expansion_distance
from onestride.theory.learned import DEGREE, learned, predicted_fractions, teacher_degrees
from onestride.theory.outliers import crossing, real_path, special_eigenvalues, spike_model
from onestride.theory.plateau import window_of
from onestride.theory.predict import predict, predict_grid
from onestride.theory.profile import degrees
from onestride.theory.profile.build import Verdict, build_model, try_model
from onestride.theory.profile.equations import Solution, solve
from onestride.theory.profile.errors import STRONG, errors, errors_at
from onestride.theory.profile.sectors import Model
from onestride.theory.profile.strength import BEST_LEVEL
from onestride.theory.reliability import known_off
from onestride.theory.spectrum import spectrum


@dataclass(frozen=True)
class Quality:
    """Level and quadrature nodes of the profile theory, and how many exponents a curve has."""

    name: str
    level: str
    nodes: int
    points: int
    words: str


QUICK = Quality(
    "quick",
    "isotropic",
    13,
    7,
    "Quick theory while you move: isotropic gradient noise, coarse quadrature, bulk as before the step.",
)
FULL = Quality("full", BEST_LEVEL, 21, 26, "Profile theory with every degree of the inputs: what one.predict returns.")
QUALITIES = {q.name: q for q in (QUICK, FULL)}
BASELINES = ("best-linear", "linear-ridge", "direction-only", "bayes")  # that are drawn
HIGHEST_WINDOW = 6  # plateaus and thresholds are drawn up to this ℓ
SOLVED = Verdict(Status.SOLVED, "")
_RADII = 2  # nodes of the length of x while a slider moves


def exponents(problem: Problem, quality: Quality) -> Array:
    """Where a curve is computed: 0 to 1/2, further down when α is negative."""
    return np.linspace(min(0.0, max(problem.step.exponent, -1.0)), 0.5, quality.points)


@dataclass(frozen=True)
class _Cell:
    """Ridge objective, training MSE and test error, the learned share of degrees 1 … 4, and how it ended."""

    errors: tuple[float, float, float]
    fraction: Array
    verdict: Verdict = SOLVED


def _cell(problem: Problem, quality: Quality, start: Solution | None) -> tuple[_Cell, Solution | None]:
    """One step size: errors and learned shares from one solution of the profile equations."""

    def nothing(verdict: Verdict) -> tuple[_Cell, None]:
        return _Cell((math.nan, math.nan, math.nan), np.full(DEGREE, np.nan), verdict), None

    model = try_model(problem, quality.level, nodes=quality.nodes, build=_coarse if quality is QUICK else build_model)
    if isinstance(model, Verdict):
        return nothing(model)
    same = start is not None and start.rho.size == model.w.size and start.q.size == model.theta.size
    solution = solve(model, problem.ridge, start if same else None)
    if not solution.converged:
        words = f"the equations were not solved: residual {solution.residual:.1e}"
        return nothing(Verdict(Status.NOT_CONVERGED, words))
    values, verdict = _errors(problem, model, solution, quality)
    reason = known_off(problem)
    if verdict is SOLVED and reason is not None:
        verdict = Verdict(Status.INACCURATE, reason)
    return _Cell(values, predicted_fractions(model, solution), verdict), solution


def _coarse(problem: Problem, level: str, *, nodes: int) -> Model:
    """`build_model` at a level of one degree, or as coarsely with every degree: within 2 % of `predict`'s, 4 % at α = 1/2."""
    if not resolves_degrees(problem):
        return build_model(problem, level, nodes=nodes)
    return degrees.build(problem, level=level, nodes=2 * round(3 * nodes / 8) + 1, radii=_RADII)


def _errors(
    problem: Problem, model: Model, solution: Solution, quality: Quality
) -> tuple[tuple[float, float, float], Verdict]:
    if quality is QUICK or model.learned.amplitude <= STRONG:
        return errors_at(model, solution), SOLVED
    checked = errors(problem, [problem.step], [problem.ridge], level=quality.level)  # with its check of the quadrature
    status: Status = checked.status[0, 0]
    train_loss, train_mse, test_error = (float(getattr(checked, name)[0, 0]) for name in QUANTITIES)
    return (train_loss, train_mse, test_error), SOLVED if status is Status.SOLVED else Verdict(
        status, str(checked.message[0, 0])
    )


def curves(problem: Problem, quality: Quality) -> dict[str, Any]:
    """Errors and learned shares against α, with the untrained network, the n → ∞ plateaus and the baselines."""
    alphas = exponents(problem, quality)
    cells: list[_Cell] = []
    last = None
    for alpha in alphas:
        cell, last = _cell(problem.at(exponent=float(alpha)), quality, last)
        cells.append(cell)
    before, _ = _cell(problem.replace(step=Step.none()), quality, None)
    columns = np.array([cell.errors for cell in cells])
    listed, closed = teacher_degrees(problem), closed_baselines(problem)
    return {
        "alpha": plain(alphas),
        **{name: plain(columns[:, i]) for i, name in enumerate(QUANTITIES)},
        "degrees": listed,
        "fraction": {str(k): plain(np.array([cell.fraction[k - 1] for cell in cells])) for k in listed},
        "untrained": dict(zip(QUANTITIES, map(plain, before.errors), strict=True)),
        "untrained_status": before.verdict.status.name.lower(),
        "untrained_message": before.verdict.message,
        "untrained_fraction": {str(k): plain(before.fraction[k - 1]) for k in listed},
        "limit": _plateaus(problem),
        "baselines": {name: plain(closed[name]) for name in BASELINES},
        "status": [cell.verdict.status.name.lower() for cell in cells],
        "messages": [cell.verdict.message for cell in cells],
        "message": next((cell.verdict.message for cell in cells if cell.verdict.message), ""),
        "quality": quality.name,
        "words": quality.words,
    }


def _plateaus(problem: Problem) -> dict[str, Any]:
    """Both errors in every window ℓ = 1 … 6 as n → ∞, and the ends of the windows."""
    ells = range(1, HIGHEST_WINDOW + 1)
    ends = [((ell - 1) / (2 * ell), ell / (2 * ell + 2)) for ell in ells]
    middles = [(a + b) / 2 if problem.step.constant else problem.step.exponent for a, b in ends]
    grid = predict_grid(problem, middles, [problem.ridge], method="plateau")
    return {"windows": ends} | {name: plain(getattr(grid, name)[:, 0]) for name in ("train_loss", "test_error")}


# ---------------------------------------------------------------------- at the chosen α


def here(problem: Problem, quality: Quality) -> dict[str, Any]:
    """Errors, learned shares and spectrum at the problem's own α, and the numbers that enter the formulas."""
    row = facts(problem)
    row |= _here_full(problem) if quality is FULL else _here_quick(problem)
    row |= {"quality": quality.name, "words": quality.words, "expansion": _expansion(problem, row["spectrum"])}
    return row


def _expansion(problem: Problem, found: dict[str, Any] | None) -> dict[str, Any] | None:
    """‖F − F_ℓ‖/√n along the learned direction beside ‖F‖/√n = √(largest eigenvalue); None outside every window."""
    ell = window_of(problem.step)
    if not found or not math.isfinite(ell) or problem.sigma.coefficients[1] == 0:
        return None
    largest = max([found["edge"] or 0.0, *found["leading"]])
    distance = expansion_distance(problem, int(ell))
    return {"ell": int(ell), "distance": plain(distance), "norm": plain(math.sqrt(largest))}


def facts(problem: Problem) -> dict[str, Any]:
    """What needs no equation to be solved: sizes, η, the window ℓ, coefficients, the direction β."""
    ell = window_of(problem.step)
    beta = direction(problem)
    return {
        "n": problem.n,
        "d": problem.d,
        "N": problem.N,
        "eta": problem.eta,
        "window": None if not math.isfinite(ell) else int(ell),
        "threshold": math.isnan(ell),
        "activation": plain(problem.sigma.coefficients[:7]),
        "teacher": plain(problem.target.coefficients[:7]),
        "teacher_power": plain(problem.target.second_moment),
        "overlap": plain(beta.overlap),
        "length": plain(beta.s),
        "residual_power": plain(beta.residual_power),
    }


def _here_quick(problem: Problem) -> dict[str, Any]:
    cell, _ = _cell(problem, QUICK, None)
    return {
        **dict(zip(QUANTITIES, map(plain, cell.errors), strict=True)),
        "fraction": {str(k): plain(cell.fraction[k - 1]) for k in teacher_degrees(problem)},
        "status": cell.verdict.status.name.lower(),
        "message": cell.verdict.message,
        "spectrum": None if math.isnan(cell.errors[2]) else _quick_spectrum(problem),
    }


def _quick_spectrum(problem: Problem) -> dict[str, Any]:
    """The bulk before the step on a coarse grid, and outliers read off the walk of `outliers` without refining them."""
    model = untrained_model(problem)
    scale = largest_possible(model)
    if scale == 0:
        return {"untrained": None, "trained": None, "leading": [], "degrees": [], "edge": None, "message": ""}
    # the bulk of degree l is about B_l times narrower and lower than that of degree one
    grid = scale * np.geomspace(1e-4, 1, 140) if len(model.sectors) == 1 else scale * np.geomspace(1e-6, 1, 240)
    density = untrained_density(problem, grid)
    bright = np.flatnonzero(density * grid > 1e-6)
    edge = float(grid[min(bright[-1] + 1, grid.size - 1)]) if bright.size else 0.0
    leading: list[float] = []
    if problem.eta > 0:
        leading = _rough_outliers(spike_model(problem, QUICK.level, QUICK.nodes), edge)
    law = {"grid": plain(grid), "density": plain(density)}
    return {"untrained": law, "trained": None, "leading": leading, "degrees": [], "edge": edge, "message": ""}


def _rough_outliers(model: Model, edge: float) -> list[float]:
    """Where eigenvalues of the special sector cross 1 on the walk down to `edge`, by interpolation in logarithms."""
    path = real_path(model, edge, accuracy=0.1)
    if len(path) < 2:
        return []
    energy = np.log([-float(np.real(s.lam)) for s in path])
    values = np.maximum([special_eigenvalues(model, s)[:6] for s in path], 1e-300)
    found: list[float] = []
    for column in values.T:
        i = crossing(column)
        if i is not None:
            above, below = np.log(column[i : i + 2])
            t = above / (above - below)
            found.append(float(np.exp(energy[i] + t * (energy[i + 1] - energy[i]))))
    return sorted(found, reverse=True)


def _here_full(problem: Problem) -> dict[str, Any]:
    prediction = predict(problem, throw=False)
    row: dict[str, Any] = {name: plain(getattr(prediction, name)) for name in QUANTITIES}
    status = prediction.status
    row |= {"status": status.name.lower(), "message": "" if status is Status.SOLVED else prediction.message}
    row |= {"accuracy": prediction.accuracy, "fraction": {}, "spectrum": None}
    if math.isnan(prediction.test_error):
        return row
    try:
        shares = learned(problem)
        row["fraction"] = {str(k): plain(v) for k, v in zip(shares.degrees, shares.fraction, strict=True)}
        found = spectrum(problem)
    except TheoryError as error:
        return row | {"message": row["message"] or str(error)}
    told = found.to_dict()
    kept = ("leading", "degrees", "edge", "message", "untrained", "trained", "expected", "on_direction")
    kept += ("between", "between_degrees")
    row["spectrum"] = {name: told.get(name) for name in kept}
    return row
