"""Every size: from few inputs to as many as samples
====================================================

With *n* = 2,000 samples and *N* = 2,000 neurons the network learns quadratic functions of *d* inputs once there are not
many more of them than samples, d²/2 ~ n, and cubic ones at d³/6 ~ n, without any step. The default level of the theory
resolves them; the level ``"full"`` takes everything beyond the linear part for noise.
"""

# %%
# One problem, only its number of inputs changes.
import numpy as np

import onestride as one
from onestride.plot import Panel, Series, draw

n, ridge, alpha = 2000, 0.01, 0.4
problem = one.Problem(
    n=n,
    d=n,
    N=n,
    activation="relu",
    teacher=[0, 1, 2**-0.5],
    noise=0.5,
    step=one.Step(),
)
bend = np.geomspace(27, 256, 12)
sizes = np.round([16, 22, *bend, 512, 1024, n]).astype(int)


def predicted(level: str) -> np.ndarray:
    """Test error without a step and after it, one row for each d."""
    grids = [
        one.predict_grid(problem.replace(d=int(d)), [alpha], [ridge], level=level)
        for d in sizes
    ]
    return np.array([[g.untrained.test_error[0, 0], g.test_error[0, 0]] for g in grids])


every, linear = predicted("degrees"), predicted("full")

# %%
# The simulation takes minutes, so its numbers stand here:
# ``simulate_grid(problem.replace(d=d), [alpha], [ridge], seeds=8)``.
SIMULATED = np.array(
    [  # d, test error and standard error without a step, the same after it
        [16, 0.3561, 0.0016, 0.3608, 0.0018],
        [32, 0.4691, 0.0017, 0.4607, 0.0026],
        [64, 1.22, 0.019, 0.8683, 0.0071],
        [128, 2.231, 0.026, 1.307, 0.014],
        [256, 2.796, 0.057, 1.845, 0.021],
        [512, 3.284, 0.068, 2.483, 0.044],
        [1024, 4.101, 0.099, 3.546, 0.062],
        [2000, 5.144, 0.13, 4.867, 0.11],
    ]
)

# %%
# With many inputs the two levels agree. With few the step has little left to add: what it would bring, the quadratic part
# of the teacher, the network has learned without it.
FEW = ((round((6 * n) ** (1 / 3)), "d³/6 = n"), (round((2 * n) ** 0.5), "d²/2 = n"))


def panel(column: int, words: str) -> Panel:
    """One network against the number of inputs."""
    d, mean, stderr = SIMULATED[:, [0, 1 + 2 * column, 2 + 2 * column]].T
    series = (
        Series("theory, every degree", sizes, every[:, column]),
        Series("theory, level full", sizes, linear[:, column], colour=1),
        Series("simulation, 8 seeds", d, mean, stderr, "simulation"),
    )
    ticks = (16, 32, 64, 128, 256, 512, 1024, 2000)
    return Panel(
        words,
        "inputs d",
        "test error",
        series,
        logx=True,
        logy=True,
        verticals=FEW,
        xticks=ticks,
    )


figure = draw(
    [panel(0, "without a step"), panel(1, f"after a step of size $n^{{{alpha:g}}}$")]
)
