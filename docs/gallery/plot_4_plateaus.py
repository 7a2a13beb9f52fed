"""How large must n be for the limit?
=====================================

The gain of an exactly rank-one step, by the theory at finite n, against n, beside the plateau Λ_ℓ that it tends to.
"""

# %%
# Three exponents: in window 1, just above the first threshold, and well inside window 2 (softplus has c₃ = 0).
import numpy as np

import onestride as one
from onestride.plot import Panel, Series, draw

problem = one.Problem(
    n=1000,
    d=500,
    N=1500,
    activation="softplus",
    teacher=[0, 1, 2**-0.5],
    gradient="labels",
)
exponents = (0.20, 0.29, 0.355)
sizes = 10 ** np.arange(3, 15)


def resized(n: int) -> one.Problem:
    """The same ratios at another n."""
    return problem.replace(n=int(n), d=int(n) // 2, N=3 * int(n) // 2, step=one.Step())


gains = np.array(
    [
        one.predict_grid(resized(n), exponents, [0.1], level="rank-one").test_gain[:, 0]
        for n in sizes
    ]
)
limit = one.predict_grid(
    problem.replace(step=one.Step()), exponents, [0.1], method="plateau"
).test_gain[:, 0]

# %%
# At α = 0.2 the first plateau is there at once. At α = 0.29 the second is not reached at n = 10¹⁴.
series = []
for i, alpha in enumerate(exponents):
    series.append(Series(f"α = {alpha:g}", sizes, gains[:, i], colour=i))
    series.append(
        Series(
            f"its limit, {limit[i]:.3f}",
            sizes[[0, -1]],
            limit[[i, i]],
            kind="limit",
            colour=i,
        )
    )
figure = draw(
    [Panel("test gain of the step", "n", "fall of the test error", series, logx=True)]
)
