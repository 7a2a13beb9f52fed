"""Double descent before and after the step
===========================================

With a small penalty the test error peaks where the number of neurons equals the number of samples. One step lowers the whole
curve; the peak stays.
"""

# %%
# Theory over 33 widths, simulation at seven of them. Theory is dashed where it is known to be off by more than 5 %: a
# network of 30 neurons is too small for it.
import numpy as np

import onestride as one
from onestride.plot import Panel, Series, draw, theory_series

n, ridge, alpha = 200, 1e-3, 0.3
problem = one.Problem(
    n=n,
    d=n // 2,
    N=n,
    teacher=[0, 1, 2**-0.5],
    noise=0.5,
    ridge=ridge,
    step=one.Step(exponent=alpha),
)
fine, coarse = np.geomspace(0.125, 8, 33), np.array([0.125, 0.25, 0.5, 1, 2, 4, 8])
theory = [
    one.predict(problem.replace(N=round(n * r)), level="isotropic", throw=False)
    for r in fine
]
measured = [one.simulate(problem.replace(N=round(n * r)), seeds=12) for r in coarse]

# %%
# The same random numbers are used with and without the step, so the difference is known better than either curve.
series = []
for i, (label, pick) in enumerate(
    {"no step": "untrained", "after the step": None}.items()
):
    lines = [getattr(p, pick) if pick else p for p in theory]
    points = [(getattr(s, pick) if pick else s).test_error for s in measured]
    curve, status = [p.test_error for p in lines], [p.status for p in lines]
    series += theory_series(f"{label}, theory", fine, curve, status, colour=i)
    means, errors = [e.mean for e in points], [e.stderr for e in points]
    series.append(
        Series(f"{label}, simulation", coarse, means, errors, "simulation", i)
    )
best = one.baselines(problem)["best-linear"].test_error
figure = draw(
    [
        Panel(
            f"n = {n}, λ = {ridge:g}",
            "N/n",
            "test error",
            series,
            logx=True,
            logy=True,
            xticks=coarse,
            horizontals=[(best, "best linear predictor")],
        )
    ]
)
