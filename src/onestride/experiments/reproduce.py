"""The main job: every claim of the paper, checked by simulation beside theory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onestride.experiments import claims_errors, claims_features
from onestride.experiments.claim import SIZES, Claim, Sizes, paper_problem
from onestride.experiments.provenance import provenance
from onestride.functions import InputError
from onestride.plot import Panel, Series
from onestride.simulation.arguments import OnProgress
from onestride.simulation.run import simulate_grid
from onestride.theory.plateau import window
from onestride.theory.predict import predict_grid


@dataclass(frozen=True)
class Reproduction:
    """The claims table, the overview figure and where the numbers come from."""

    size: str
    claims: tuple[Claim, ...]
    overview: tuple[Panel, ...] = field(repr=False)
    overview_caption: str
    provenance: dict[str, Any]


def reproduce(size: str = "standard", *, progress: OnProgress | None = None) -> Reproduction:
    """Check every claim at the sizes called `size`: small, standard or large."""
    if size not in SIZES:
        raise InputError(f"size must be one of {', '.join(SIZES)}, got {size!r}")
    sizes, started = SIZES[size], time.perf_counter()
    done, total = 0, 10

    def stage(run: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal done
        result = run(*arguments)
        done += 1
        if progress is not None:
            progress(done, total)
        return result

    first = stage(claims_features.rank_one_gradient, sizes)
    second, third = stage(claims_features.spikes, sizes)
    runs = stage(claims_errors.equivalence_runs, sizes)
    fourth = claims_features.expansion(sizes, runs)
    fifth_sixth = stage(claims_errors.equivalence, sizes, runs)
    gains = stage(claims_errors.gain_runs, sizes)
    seventh_eighth = stage(claims_errors.gains, sizes, gains)
    ninth = stage(claims_errors.learned_parts, sizes)
    broken = [stage(claims_features.no_linear_activation, sizes), stage(claims_errors.no_linear_teacher, sizes)]
    overview, caption = stage(error_curve, sizes)
    claims = (first, second, third, fourth, *fifth_sixth, *seventh_eighth, ninth, *broken)
    where = provenance(time.perf_counter() - started, size=size, n=list(sizes.ns), seeds=sizes.seeds)
    return Reproduction(size, claims, overview, caption, where)


def error_curve(sizes: Sizes) -> tuple[tuple[Panel, ...], str]:
    """The overview: train and test error against α, finite-n theory, limit, simulation and baselines."""
    n = sizes.ns[min(1, len(sizes.ns) - 1)]
    problem = paper_problem(n, exponent=0.0, noise=0.5)
    curve, points = np.linspace(0, 0.5, 41), np.linspace(0, 0.5, 11)
    smooth = predict_grid(problem, curve, [problem.ridge])
    fine = np.setdiff1d(np.linspace(0.001, 0.47, 500), [0.25])
    steps = predict_grid(problem, fine[~np.isnan([window(a) for a in fine])], [problem.ridge], method="plateau")
    measured = simulate_grid(problem, points, [problem.ridge], sizes.seeds)
    thresholds = [(0.0, "0"), (0.25, "1/4"), (1 / 3, "1/3"), (0.375, "3/8")]
    linear = problem.target.nonlinear_power + problem.noise**2
    panels = []
    for name, title in (("train_loss", "ridge objective"), ("test_error", "test error")):
        estimate = getattr(measured, name)
        series = (
            Series("profile theory at this n", curve, getattr(smooth, name)[:, 0]),
            Series("limit n → ∞", steps.exponents, getattr(steps, name)[:, 0], kind="limit"),
            Series("simulation", points, estimate.mean[:, 0], estimate.stderr[:, 0], "simulation"),
        )
        base = float(getattr(smooth.untrained, name)[0, 0])
        lines = [(base, "random features (no step)")]
        lines += [(linear, "best linear predictor")] if name == "test_error" else []
        named = f"{title}, n = {n:,}"
        panels.append(Panel(named, "α in η = n$^α$", title, series, verticals=thresholds, horizontals=lines))
    caption = (
        f"Train and test error after one step of size η = n^α. n = {n}, d = n/2, N = 3n/2, ReLU, teacher H₁ + H₂/√2, "
        f"noise 0.5, λ = 0.1, labels-only gradient, {sizes.seeds} seeds (mean ± standard error). Vertical lines: the "
        "thresholds (ℓ−1)/(2ℓ)."
    )
    return tuple(panels), caption
