"""`inputs`: other laws of the inputs, correlated inputs and a real table, against the theory for Gaussian inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onestride._backend import stream
from onestride._numerics import Array
from onestride.compare import ERROR_TOLERANCE, Agreement, Check, Pair, agree, check, together
from onestride.experiments.claim import by_name, decide_each, marks
from onestride.experiments.outcome import Outcome, Settings
from onestride.experiments.probes import ridge_risk
from onestride.experiments.tables import table, whitened
from onestride.plot import Panel, Series, theory_series
from onestride.problem import Problem, Step
from onestride.result import Estimate
from onestride.simulation.network import Batch, draw_network, draw_teacher, gradient, labels
from onestride.simulation.run import simulate_grid
from onestride.theory.predict import predict_grid

INDEPENDENT = ("gaussian", "uniform", "rademacher", "student")
DEPENDENT = ("ar1", "power", "elliptic")
EXPONENTS = (0.0, 0.25, 0.5)
TABLE_DIMS = 50  # principal components of the digits kept; the rest is close to constant


def run(settings: Settings) -> Outcome:
    """Simulate every law on the same problem; rows of a table at their own size, beside Gaussian rows of that size."""
    n, seeds = settings.pick(150, 600, 4000), settings.seed_count(4, 20, 20)
    problem = Problem(
        n=n, d=n // 2, N=3 * n // 2, activation="softplus", teacher=(0.0, 1.0, 2**-0.5), noise=0.5, ridge=0.1,
        step=Step(),
    )  # fmt: skip
    laws = (*INDEPENDENT, *DEPENDENT)
    data: dict[str, Array] = {}
    for i, law in enumerate(laws):
        measured = simulate_grid(problem.replace(inputs=law), EXPONENTS, [problem.ridge], seeds)
        data[law] = measured.test_error.values[:, :, 0]
        settings.progress((i + 1) / (len(laws) + 2))
    small = problem.replace(n=600, d=TABLE_DIMS, N=settings.pick(300, 900, 900))
    rows = whitened(table("digits")[0], TABLE_DIMS)
    for i, name in enumerate(("table", "gaussian rows")):
        data[name] = np.array([on_rows(small, None if i else rows, seed) for seed in range(seeds)])
        settings.progress((len(laws) + 1 + i) / (len(laws) + 2))
    return judge(problem, small, data, seeds, np.linspace(0, 0.5, settings.pick(5, 21, 21)))


def on_rows(problem: Problem, rows: Array | None, seed: int) -> Array:
    """Test error at every exponent when step, ridge and test samples are disjoint rows of a table.

    Without a table the rows are as many Gaussian ones: what the finite sizes alone do.
    """
    rng, n = stream(seed, "step_inputs"), problem.n
    pool = rng.standard_normal((1797, problem.d)) if rows is None else rows[rng.permutation(rows.shape[0])]
    beta_star = draw_teacher(problem, seed)[None]
    signal = labels(problem, beta_star, pool)
    y = signal + problem.noise * stream(seed, "step_noise").standard_normal(signal.size)
    step, train, test = (Batch(pool[s], signal[s], y[s]) for s in (slice(n), slice(n, 2 * n), slice(2 * n, None)))
    network = draw_network(problem, seed)
    G = gradient(problem, network, step).G
    etas = [problem.at(exponent=a).eta for a in EXPONENTS]
    return np.array([ridge_risk(problem, network.W0 + eta * G, train, test)[0] for eta in etas]) + problem.noise**2


def judge(problem: Problem, small: Problem, data: dict[str, Array], seeds: int, curve: Array) -> Outcome:
    """A law passes when the errors at all exponents (on `curve`) agree with the theory for Gaussian inputs, within ERROR_TOLERANCE.

    The table is judged by the logarithm of its error over that of as many Gaussian rows, paired by seed: at its size
    the theory is off for Gaussian rows too, and its errors have heavy tails.
    """
    grids = [predict_grid(p, curve, [p.ridge]) for p in (problem, small)]
    smooth = {grid.problem.d: grid.test_error[:, 0] for grid in grids}
    status = {grid.problem.d: grid.status[:, 0] for grid in grids}
    rows, gaps = [], {}
    checks: dict[str, Sequence[Check | Pair]] = {}
    for law, values in data.items():
        where = small if law in ("table", "gaussian rows") else problem
        theory = np.interp(EXPONENTS, curve, smooth[where.d])
        e = Estimate(values)
        z = (e.mean - theory) / e.stderr
        gap = e.mean / theory - 1
        checks[law] = [agree(float(theory[i]), e[i], among=len(EXPONENTS)) for i in range(len(EXPONENTS))]
        worst = int(np.argmax(np.abs(gap)))
        gaps[law] = f"{law} {gap[worst]:+.1%} (z = {z[worst]:+.1f})"
        for i, alpha in enumerate(EXPONENTS):
            numbers = {"theory": theory[i], "measured": e.mean[i], "stderr": e.stderr[i], "z": z[i]}
            plain = {key: float(v) if np.isfinite(v) else None for key, v in numbers.items()}
            rows.append({"inputs": law, "alpha": alpha} | plain | {"outcome": checks[law][i].outcome.name.lower()})
    ratio = Estimate(np.log(data["table"] / data["gaussian rows"]))
    checks["table"] = [
        check(ratio[i], -ERROR_TOLERANCE, ERROR_TOLERANCE, among=len(EXPONENTS)) for i in range(len(EXPONENTS))
    ]
    last = float(ratio.mean[-1]), float(ratio.stderr[-1])

    def panel(title: str, laws: tuple[str, ...], where: Problem, names: dict[str, str]) -> Panel:
        lines = theory_series("theory, Gaussian inputs", curve, smooth[where.d], status[where.d])
        points = []
        for c, law in enumerate(laws):
            e = Estimate(data[law])
            shift = 0.008 * (c - (len(laws) - 1) / 2)
            points.append(Series(names.get(law, law), np.add(EXPONENTS, shift), e.mean, e.stderr, "simulation", c))
        return Panel(title, "α = log η / log n", "test error", (*lines, *points))

    size = f"n = {problem.n}, d = n/2, N = 3n/2"
    panels = (
        panel(f"independent entries, {size}", INDEPENDENT, problem, {"student": "Student, 5 degrees"}),
        panel(f"dependent entries, {size}", DEPENDENT, problem, {"ar1": "AR(1)", "power": "power-law spectrum"}),
        panel(
            f"digits, whitened: n = {small.n}, d = {small.d}, N = {small.N}", ("table", "gaussian rows"), small,
            {"table": "rows of the table", "gaussian rows": "as many Gaussian rows"},
        ),
    )  # fmt: skip
    isotropic = (*INDEPENDENT[1:], "elliptic", "table")  # identity covariance, not Gaussian
    judged = by_name({law: found for law, found in checks.items() if law != "gaussian rows"})
    told = "; ".join(f"{o.name.lower()}: {', '.join(laws) or 'none'}" for o, laws in judged.items())
    return Outcome(
        name="inputs",
        question="Does the Gaussian theory hold for inputs of other laws, for correlated ones and for a real table?",
        claim="The errors are universal: only the mean and the covariance of the inputs matter, not their law.",
        verdict=decide_each({law: checks[law] for law in isotropic}),
        finding=(
            f"Test error beside the theory for Gaussian inputs at α = {', '.join(f'{a:g}' for a in EXPONENTS)}, largest gap of "
            f"measured from predicted: {', '.join(gaps.values())}. Within {ERROR_TOLERANCE:.0%} at every α ({seeds} seeds; "
            f"the table: of Gaussian rows), {told}. At the table's size "
            f"(α = 1/2) the logarithm of its error over that of Gaussian rows is {last[0]:+.2f} ± {last[1]:.1g}.{marks(*grids)}"
        ),
        surprise=_what_matters(checks, small),
        rows=rows,
        panels=panels,
        caption=(
            f"Softplus, teacher H₁ + H₂/√2, noise 0.5, λ = 0.1, η = n^α, literal gradient. AR(1): Σ_ij = 0.8^|i−j|; power-law: "
            f"eigenvalues ∝ k^−½; both of trace d. Elliptic: multivariate Student law, 5 degrees, identity covariance. Digits: 1,797 "
            f"images, {TABLE_DIMS} leading principal components scaled to variance 1, disjoint rows for step, ridge and test, labels "
            f"from the teacher. Points are shifted sideways. {seeds} seeds, mean ± standard error."
        ),
        columns=3,
    )


def _what_matters(checks: dict[str, Sequence[Check | Pair]], small: Problem) -> str:
    """Independent entries of other laws beside one length shared by all entries, and the theory at the table's size."""
    words = {
        Agreement.AGREES: "agree with the theory for Gaussian ones",
        Agreement.DIFFERS: "do not follow the theory for Gaussian ones",
        Agreement.UNDECIDED: "are undecided at these seeds",
    }
    others = {outcome: [law for law in INDEPENDENT[1:] if together(checks[law]) is outcome] for outcome in words}
    entries = "; ".join(f"{', '.join(laws)} {words[outcome]}" for outcome, laws in others.items() if laws)
    rows = "agrees for" if together(checks["gaussian rows"]) is Agreement.AGREES else "is not shown to hold even for"
    return (
        f"Of independent entries {entries}. Inputs with one random length shared by all entries (elliptic), whose covariance is still the identity, "
        f"{words[together(checks['elliptic'])]}. At the table's size (n is {small.n / (small.d**2 / 2):.2g} of d²/2) the theory {rows} Gaussian rows."
    )
