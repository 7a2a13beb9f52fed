"""What experiments share: the problems they ask about, and the numbers, rows, series and panels made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onestride._numerics import Array
from onestride.comparison import Check, Pair
from onestride.plot import Panel, Series
from onestride.problem import Problem, Step
from onestride.result import Estimate, PredictionGrid, Simulation
from onestride.theory.baselines import baselines
from onestride.theory.direction import direction
from onestride.theory.plateau import window

THRESHOLDS = ((0.0, "0"), (0.25, "1/4"), (1 / 3, "1/3"), (0.375, "3/8"))
WINDOWS = {0.15: 1, 0.29: 2}  # one exponent in each of the first two windows: ℓ
EXPONENT = "α = log(η/c)/log n"
QUADRATIC = (0.0, 1.0, 2**-0.5)  # H₁ + H₂/√2
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
ERRORS = {"train_loss": "ridge objective", "test_error": "test error"}


def problem_at(n: int, *, exponent: float = 0.0, constant: float = 1.0, **fields: Any) -> Problem:
    """The shape d = n/2, N = 3n/2, teacher H₁ + H₂/√2, noise 0.5, λ = 0.1 and the step c·n^α, unless `fields` say otherwise."""
    shape: dict[str, Any] = {"n": n, "d": n // 2, "N": 3 * n // 2, "teacher": QUADRATIC, "noise": 0.5, "ridge": 0.1}
    shape["step"] = Step(constant=constant, exponent=exponent)
    return Problem(**shape | fields)


def paper_problem(n: int, **fields: Any) -> Problem:
    """The talk's setting 2: as `problem_at`, with ReLU, no noise and the labels-only gradient."""
    own: dict[str, Any] = {"activation": "relu", "noise": 0.0, "gradient": "labels"}
    return problem_at(n, **own | fields)


def spiked_problem(n: int, *, step_samples: int = 4, **fields: Any) -> Problem:
    """Where three spikes are seen: erf(z + ½), d = N = n/2, no noise, the labels-only gradient on 4n samples."""
    own: dict[str, Any] = {"N": n // 2, "n_step": step_samples * n, "activation": "shifted_erf"}
    return paper_problem(n, **own | fields)


def seeds_along(ns: Sequence[int], seeds: int) -> list[tuple[int, int]]:
    """Each n with its seeds: so many at the largest, up to four times as many where they are cheap, at a cost like n³."""
    return [(n, int(min(4 * seeds, seeds * (ns[-1] / n) ** 1.5))) for n in ns]


def ns_of(runs: Iterable[Any]) -> list[int]:
    """The sample sizes of measurements."""
    return [run.problem.n for run in runs]


def seeds_of(runs: Sequence[Any]) -> str:
    """How many seeds there are at the smallest and at the largest n, for a caption."""
    first, last = (f"at n = {run.problem.n}" for run in (runs[0], runs[-1]))
    return f"{len(runs[0].seeds)} seeds {first} to {len(runs[-1].seeds)} {last}"


def constant_part(problem: Problem) -> float:
    """√3 c₂φ₀ E r² Var σ′ η²/√N: what the gradient's fluctuations add to ‖F − F_ℓ‖/√n along the constant vector.

    Row j of W grows to squared length 1 + η²a_j²φ₀ E r² Var σ′ (the isotropic level of the profile theory), and E σ(√v Z) − E σ(Z) ≈ c₂(v − 1).
    """
    sigma, phi0 = problem.sigma, problem.d / problem.step_samples
    inflation = phi0 * direction(problem).residual_power * sigma.derivative_variance * problem.eta**2
    return float(np.sqrt(3) * abs(sigma.coefficients[2]) * inflation / np.sqrt(problem.N))


def number(n: float) -> str:
    """A whole number in words: 10⁹ for a large power of ten, else its digits."""
    digits = str(round(n))
    power = len(digits) - 1
    return f"10{str(power).translate(SUPERSCRIPTS)}" if power > 4 and digits.strip("0") == "1" else digits


def pm(estimate: Estimate, digits: int = 3, kind: str = "g") -> str:
    """Mean ± standard error; `kind` "f" counts digits behind the point."""
    return f"{float(estimate.mean):.{digits}{kind}} ± {float(estimate.stderr):.1g}"


def mean_of(estimate: Estimate, name: str = "measured") -> dict[str, float]:
    """Mean and standard error of a line of numbers."""
    return {name: float(estimate.mean), "stderr": float(estimate.stderr)}


def row_of(found: Check, **labels: Any) -> dict[str, Any]:
    """A line of the deciding numbers: labels, theory where there is one, measured ± stderr, outcome."""
    theory = {"theory": float(found.predicted)} if isinstance(found, Pair) else {}
    return labels | theory | {"measured": found.mean, "stderr": found.stderr, "outcome": found.outcome.name.lower()}


def points(label: str, x: ArrayLike, found: Estimate | Sequence[Estimate], colour: int = 0) -> Series:
    """Measured means with their standard errors, from one estimate of many numbers or one for each."""
    parts = [found] if isinstance(found, Estimate) else found
    mean, error = (np.concatenate([np.ravel(getattr(e, name)) for e in parts]) for name in ("mean", "stderr"))
    seeds = [values for e in parts for values in e.values.reshape(len(e.values), -1).T]
    return Series(label, x, mean, error, "simulation", colour, seeds)


def both_models(found: Simulation) -> Array:
    """Test errors without and with the first step of a grid, seeds × 2 × penalties."""
    assert found.untrained is not None
    return np.stack([model.test_error.values[:, 0] for model in (found.untrained, found)], axis=1)


def both_predicted(grids: Sequence[PredictionGrid]) -> Array:
    """The same of predictions, grids × 2 × penalties."""
    return np.array([[grid.untrained.test_error[0], grid.test_error[0]] for grid in grids])


def each(found: Estimate) -> list[Estimate]:
    """The numbers of an estimate (seeds × numbers), one by one."""
    return [found[i] for i in range(found.values.shape[1])]


def best_linear(problem: Problem) -> list[tuple[float, str]]:
    """The best linear predictor's test error, as the horizontal line of a panel."""
    return [(baselines(problem)["best-linear"].test_error, "best linear predictor")]


def inside_windows(exponents: Iterable[float]) -> list[float]:
    """Those below 1/2 that are not a threshold."""
    return [float(a) for a in exponents if a < 0.5 and not np.isnan(window(a))]


def exponent_panel(title: str, label: str, series: Sequence[Series], lines: Sequence[tuple[float, str]] = ()) -> Panel:
    """A quantity against α with the thresholds of the windows."""
    return Panel(title, EXPONENT, label, series, verticals=THRESHOLDS, horizontals=lines)


def rows_along(name: str, x: Sequence[float], found: Estimate, **labels: Any) -> list[dict[str, Any]]:
    """A line for every value of x, which is called `name`: labels, x, mean, standard error."""
    numbers = zip(x, np.ravel(found.mean).tolist(), np.ravel(found.stderr).tolist(), strict=True)
    return [labels | {name: at, "value": mean, "stderr": stderr} for at, mean, stderr in numbers]


def sideways(x: Sequence[float], gap: float, found: dict[str, Estimate], first: int = 0) -> list[Series]:
    """Measured means by label in colours from `first` on, shifted by `gap` so that their bars do not cover each other."""
    shifts = [gap * (i - (len(found) - 1) / 2) for i in range(len(found))]
    return [points(name, [a + shifts[i] for a in x], found[name], colour=first + i) for i, name in enumerate(found)]
