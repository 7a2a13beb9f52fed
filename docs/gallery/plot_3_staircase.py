"""The staircase, and how slowly it forms
=========================================

How much of each Hermite degree of the teacher one step learns, against the exponent of the step: theory from n = 10³, where
it is a ramp, to n = 10¹², where the steps of the limit begin to show. Nothing is simulated here: no machine holds n = 10¹².
"""

# %%
# A teacher with equal power in degrees 1 to 3 and an activation that is neither odd nor even, so that no c_k vanishes.
import numpy as np

import onestride as one
from onestride.plot import Panel, Series, draw

alphas = np.linspace(0.0, 0.48, 25)


def fractions(n: int) -> np.ndarray:
    """The learned fraction of degrees 1, 2, 3 at each exponent."""
    problem = one.Problem(
        n=n,
        d=n // 4,
        N=n // 2,
        n_step=4 * n,
        activation="shifted_erf",
        teacher=[0, 1, 2**-0.5, 6**-0.5],
        ridge=0.01,
        gradient="labels",
    )
    return np.array(
        [
            one.learned(problem.replace(step=one.Step(exponent=float(a)))).fraction
            for a in alphas
        ]
    )


# %%
# Degree k is learned for α > (k−1)/(2k) in the limit: 0, 1/4, 1/3.
sizes = {"n = 10³": 10**3, "n = 10⁶": 10**6, "n = 10¹²": 10**12}
learned = {label: fractions(n) for label, n in sizes.items()}

# %%
# Random features already know most of degree 1. Degree 2 stops below 1 until z⁴ is available to cancel the mean of z².
figure = draw(
    [
        Panel(
            f"degree {k + 1}",
            "α = log η / log n",
            "fraction learned",
            [
                Series(label, alphas, values[:, k], colour=i)
                for i, (label, values) in enumerate(learned.items())
            ],
            verticals=[(k / (2 * (k + 1)), "threshold")],
            ylim=(-0.05, 1.05),
        )
        for k in range(3)
    ],
    columns=3,
)
