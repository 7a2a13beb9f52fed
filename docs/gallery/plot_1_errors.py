r"""Errors against the size of the step
======================================

One step of size :math:`\eta = n^\alpha`: theory at this *n* as a line, simulation as points, the limit *n* → ∞ dotted.
"""

# %%
# A problem at a small size, with the quadratic teacher H₁ + H₂/√2.
import numpy as np

import onestride as one
from onestride.plot import Panel, Series, draw

problem = one.Problem(
    n=400,
    d=200,
    N=600,
    activation="relu",
    teacher=[0, 1, 2**-0.5],
    noise=0.5,
    ridge=0.1,
    step=one.Step(),
)

# %%
# Theory on a fine grid of exponents, simulation on a coarse one: all exponents of a seed share one draw and one gradient.
fine, coarse = np.linspace(0, 0.5, 26), np.linspace(0, 0.5, 6)
inside = [
    a
    for a in np.linspace(0.004, 0.45, 120)
    if min(abs(a - t) for t in (0.25, 1 / 3, 0.375)) > 1e-3
]
theory = one.predict_grid(problem, fine, [0.1])
limit = one.predict_grid(problem, inside, [0.1], method="exact-plateau")
measured = one.simulate_grid(problem, coarse, [0.1], seeds=8)

# %%
# The staircase of the limit is invisible at this size; the theory at this *n* is not a staircase, and the points follow it.
THRESHOLDS = ((0.25, "1/4"), (1 / 3, "1/3"), (0.375, "3/8"))


def panel(name: str, words: str) -> Panel:
    """One quantity against the exponent."""
    points = getattr(measured, name)
    series = (
        Series("theory, n = 400", fine, getattr(theory, name)[:, 0]),
        Series("limit n → ∞", inside, getattr(limit, name)[:, 0], kind="limit"),
        Series(
            "simulation, 8 seeds",
            coarse,
            points.mean[:, 0],
            points.stderr[:, 0],
            "simulation",
        ),
    )
    return Panel(words, "α = log η / log n", words, series, verticals=THRESHOLDS)


figure = draw(
    [panel("train_loss", "ridge objective"), panel("test_error", "test error")]
)
