"""Can a better penalty replace the step?
=========================================

Test error against the penalty, without a step and after steps of two sizes, with the best penalty of each.
"""

# %%
# All penalties of one step come from one factorisation (simulation) or one walk in λ (theory).
import numpy as np

import onestride as one
from onestride.plot import Panel, Series, draw

problem = one.Problem(
    n=300,
    d=150,
    N=450,
    activation="relu",
    teacher=[0, 1, 2**-0.5],
    noise=0.5,
    step=one.Step(),
)
alphas = (0.25, 0.4)
fine, coarse = np.geomspace(1e-3, 30, 25), np.geomspace(1e-3, 30, 7)
theory = one.predict_grid(problem, alphas, fine)
measured = one.simulate_grid(problem, alphas, coarse, seeds=8)

# %%
# The best penalty depends on the step, and the best error after the step is below anything the penalty alone can reach.
series, lines = [], []
for i, label in enumerate(("no step", *(f"η = n^{a:g}" for a in alphas))):
    curve = theory.untrained.test_error[0] if i == 0 else theory.test_error[i - 1]
    found = measured.untrained.test_error[0] if i == 0 else measured.test_error[i - 1]
    step = one.Step.none() if i == 0 else one.Step(exponent=alphas[i - 1])
    best = one.optimal_ridge(problem.replace(step=step), level="isotropic")
    print(
        f"{label}: best penalty {best.ridge:.2f}, test error there {best.test_error:.3f}"
    )
    series.append(Series(f"{label}, theory", fine, curve, colour=i))
    series.append(
        Series(
            f"{label}, simulation", coarse, found.mean, found.stderr, "simulation", i
        )
    )

figure = draw([Panel("n = 300, 8 seeds", "penalty λ", "test error", series, logx=True)])
