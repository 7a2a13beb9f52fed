"""Figures of one's own from the same parts as every figure here: series in panels, drawn by one function.

A result draws itself, `result.plot()`; this is for what no result has. `drawing` has the parts and all that knows matplotlib.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from onestride._errors import InputError, require
from onestride._progress import OnProgress
from onestride.drawing import COLOURS as COLOURS
from onestride.drawing import DASHES as DASHES
from onestride.drawing import MARKERS as MARKERS
from onestride.drawing import STYLE as STYLE
from onestride.drawing import Map as Map
from onestride.drawing import Panel as Panel
from onestride.drawing import Series as Series
from onestride.drawing import axes_of
from onestride.drawing import draw as draw
from onestride.drawing import save as save
from onestride.drawing import to_csv as to_csv
from onestride.drawing import to_svg as to_svg
from onestride.problem import Problem, Step, expect, grid_axis
from onestride.result import LABELS, QUANTITIES, exponent_words
from onestride.result import theory_series as theory_series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from onestride.theory.atlas import Plane


def atlas(
    problem: Problem, over: Plane | None = None, x: ArrayLike | None = None, y: ArrayLike | None = None
) -> Figure:
    """Maps of the best test error and of the best step over (φ, ψ), (n, N) or (n, noise); `theory.atlas` has the numbers, and says what stays as it is.

    Drawn in seconds: on the few nodes of a map, errors to about 2 %. `one.optimum` answers for one point.

    >>> problem = one.Problem(n=200, d=100, N=150, teacher=[0, 1, 0.7071], noise=0.5)
    >>> len(one.plot.atlas(problem, "n-N", [200], [150]).axes) >= 2
    True
    """
    from onestride.theory.atlas import atlas as compute

    return draw(compute(problem, over, x, y).panels())


def staircase(
    problem: Problem,
    exponents: ArrayLike | None = None,
    *,
    seeds: int = 0,
    quantity: Literal["test_error", "train_loss", "train_mse"] = "test_error",
    progress: OnProgress | bool | None = None,
    ax: Axes | None = None,
) -> Axes:
    """One call from a problem to the picture: an error against the exponent α of the step η = c·n^α.

    A line is the theory at this n, dotted its n → ∞ limit ("exact-plateau"), a staircase with a step at each α = (ℓ−1)/(2ℓ); with
    `seeds` points are simulated at six of the exponents (26 from 0 to 1/2 unless given). A problem that takes no step is drawn with c = 1. Returns the
    matplotlib axes.

    >>> problem = one.Problem(n=200, d=100, N=150, teacher=[0, 1, 0.7071], noise=0.5)
    >>> one.plot.staircase(problem, [0.0, 0.2, 0.4]).get_ylabel()
    'test error'
    """
    from onestride.simulation.run import simulate_grid
    from onestride.theory.predict import predict_grid

    expect(problem)
    require("matplotlib", extra="plot", what="a figure")
    if quantity not in QUANTITIES:
        raise InputError(f"quantity must be one of {', '.join(QUANTITIES)}, got {quantity!r}")
    stepped = problem if problem.step.constant else problem.replace(step=Step(constant=1.0))
    alphas = np.unique(grid_axis("exponents", np.linspace(0, 0.5, 26) if exponents is None else exponents))
    theory = predict_grid(stepped, alphas, [problem.ridge])
    steps = np.unique(np.linspace(alphas.min(), alphas.max(), 201))  # so that the stairs are steep
    limit = predict_grid(stepped, steps, [problem.ridge], method="exact-plateau")
    series = theory_series("theory", alphas, getattr(theory, quantity)[:, 0], theory.status[:, 0])
    series.append(Series("n → ∞", steps, getattr(limit, quantity)[:, 0], kind="limit", colour=4))
    if seeds:
        few = alphas[np.unique(np.linspace(0, alphas.size - 1, 6).round().astype(int))]
        simulated = simulate_grid(stepped, few, [problem.ridge], seeds, untrained=False, progress=progress)
        found, count = getattr(simulated, quantity), len(simulated.seeds)
        words = f"simulation, {count} seed{'s' * (count != 1)}"
        series.append(Series(words, few, found.mean[:, 0], found.stderr[:, 0], kind="simulation"))
    without = [(float(getattr(theory.untrained, quantity)[0, 0]), "without the step")]
    title = f"{problem.sigma.name}, n = {problem.n:,}, d = {problem.d:,}, N = {problem.N:,}"
    return axes_of([Panel(title, exponent_words(stepped), LABELS[quantity], series, horizontals=without)], ax)
