"""Which activations profit?
============================

How much of the linear and of the quadratic part of the teacher one step learns, for ten activations and a polynomial.
"""

# %%
# The features after the step contain c_k·(learned direction)^k. An odd activation such as tanh has only odd powers: it cannot
# learn H₂, whatever the step. One of our own, H₁/2 + H₄/20, has c₂ = 0 as well, but its fourth power contains H₂.
import onestride as one
from onestride.plot import Panel, Series, draw

NAMES = (
    "relu",
    "leaky_relu",
    "softplus",
    "gelu",
    "silu",
    "elu",
    "tanh",
    "erf",
    "sigmoid",
    "sin",
)
shares = {}
for spec in (*NAMES, (0, 0.5, 0, 0, 0.05)):
    problem = one.Problem(
        n=1000,
        d=500,
        N=1500,
        activation=spec,
        teacher=[0, 1, 2**-0.5],
        noise=0.5,
        step=one.Step(exponent=0.4),
    )
    name = spec if isinstance(spec, str) else "H₁/2 + H₄/20"
    c, share = problem.sigma.coefficients, one.learned(problem).fraction
    print(f"{name:13s} c1 {c[1]:+.3f}  c2 {c[2]:+.3f}  ", end="")
    print(f"learned: degree 1 {share[0]:.2f}, degree 2 {share[1]:.2f}")
    shares[name] = share

# %%
# Points are theory, sorted by the share of degree 2; the experiment ``activations`` has the simulation beside them.
order = sorted(shares, key=lambda name: shares[name][1])
places = list(range(len(order)))


def panel(degree: int) -> Panel:
    """One degree of the teacher."""
    values = [shares[name][degree - 1] for name in order]
    points = Series("", places, values, kind="simulation", colour=degree - 1)
    return Panel(
        f"degree {degree}; n = 1000, η = n^0.4",
        "",
        "fraction learned",
        [points],
        xticks=places,
        xnames=order,
    )


figure = draw([panel(1), panel(2)])
