"""`inputs`: other laws of the inputs, correlated inputs and a real table, against the theory for their own covariance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from onestride._backend import HOST, Backend, choose, stream
from onestride._numerics import Array
from onestride.comparison import ERROR_TOLERANCE, Agreement, Check, Pair, agree, check, together
from onestride.estimate import label_skewness
from onestride.experiments.kit import EXPONENT, problem_at, row_of, sideways
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.probes import ridge_risk
from onestride.experiments.tables import components, table
from onestride.experiments.verdict import by_name, decide_each, listed, marks
from onestride.inputs import Covariance
from onestride.plot import Panel, Series, theory_series
from onestride.problem import Problem
from onestride.result import Estimate, PredictionGrid
from onestride.simulation.network import Batch, draw_inputs, draw_network, draw_teacher, gradient, labels
from onestride.simulation.run import simulate_grid
from onestride.theory.predict import predict_grid

CLAIM = "The errors are universal: of independent entries only mean and variance matter, of others their covariance and length."
SIZES = {"n": (150, 600, 3000), "N": (300, 900, 900), "points": (3, 21, 21), "seeds": (4, 20, 12)}
INDEPENDENT = {
    "gaussian": "gaussian",
    "uniform": "uniform",
    "rademacher": "rademacher",
    "student": "Student, 5 degrees",
}
DEPENDENT = {"ar1": "AR(1)", "power": "power-law spectrum", "elliptic": "elliptic"}
ROWS = {"table": "rows of the table", "gaussian rows": "as many Gaussian rows"}
JUDGED = ("uniform", "rademacher", "student", "ar1", "power", "elliptic", "table")
EXPONENTS = (0.0, 0.25, 0.5)
TABLE_DIMS = 50  # principal components of the digits kept, with their own variances; the rest is close to constant


@dataclass(frozen=True)
class Data:
    """Test errors at `EXPONENTS` by law, and the theory of each law's covariance; rows of a table have that of the table."""

    errors: dict[str, Estimate]
    theories: dict[str, PredictionGrid]

    def theory(self, law: str) -> PredictionGrid:
        """The theory of this law: of Gaussian inputs for independent entries."""
        return self.theories["table" if law in ROWS else "gaussian" if law in INDEPENDENT else law]


def measure(size: SimpleNamespace, progress: Progress) -> Data:
    """Simulate every law on the same problem; rows of a table at their own size, beside Gaussian rows of its covariance."""
    problem = problem_at(size.n, activation="softplus")
    digits, values = components(table("digits")[0], TABLE_DIMS)
    small = problem.replace(n=600, d=TABLE_DIMS, N=size.N, inputs=Covariance(tuple(values.tolist())))
    laws = (*INDEPENDENT, *DEPENDENT)
    errors: dict[str, Estimate] = {}
    for law in laws:
        grid = simulate_grid(problem.replace(inputs=law), EXPONENTS, [problem.ridge], size.seeds, device=size.device)
        errors[law] = grid.test_error[:, 0]
        progress(len(errors) / (len(laws) + 2))
    for name, rows in zip(ROWS, (digits, None), strict=True):
        found = [on_rows(small, rows, seed, backend=choose(size.device)) for seed in range(size.seeds)]
        errors[name] = Estimate(np.array(found))
        progress(len(errors) / (len(laws) + 2))
    curve = np.linspace(0, 0.5, size.points)
    problems = {law: problem.replace(inputs=law) for law in ("gaussian", *DEPENDENT)} | {"table": small}
    return Data(errors, {law: predict_grid(p, curve, [p.ridge]) for law, p in problems.items()})


def on_rows(problem: Problem, rows: Array | None, seed: int, *, backend: Backend) -> Array:
    """Test error at every exponent when step, ridge and test samples are disjoint rows of a table.

    Without a table the rows are as many Gaussian ones: what the finite sizes alone do.
    """
    rng, n = stream(seed, "step_inputs"), problem.n
    pool = draw_inputs(problem, rng, 1797, backend=HOST) if rows is None else rows[rng.permutation(rows.shape[0])]
    beta_star = draw_teacher(problem, seed)[None]
    signal = labels(problem, beta_star, pool)
    y = signal + problem.noise * stream(seed, "step_noise").standard_normal(signal.size)
    step, train, test = (Batch(pool[s], signal[s], y[s]) for s in (slice(n), slice(n, 2 * n), slice(2 * n, None)))
    network = draw_network(problem, seed)
    G = gradient(problem, network, step, backend=backend).G
    etas = [problem.at(exponent=a).eta for a in EXPONENTS]
    risks = [ridge_risk(problem, network.W0 + eta * G, train, test, backend=backend)[0] for eta in etas]
    return np.array(risks) + problem.noise**2


def judge(data: Data) -> Judgement:
    """A law passes when the errors at all exponents agree with the theory of its covariance, within ERROR_TOLERANCE.

    The table is judged by the logarithm of its error over that of as many Gaussian rows of its covariance, paired by seed:
    at its size the theory is off for Gaussian rows too, and its errors have heavy tails.
    """
    among = len(EXPONENTS)
    checks: dict[str, Sequence[Check]] = {}
    rows, gaps = [], []
    for law, errors in data.errors.items():
        theory = np.interp(EXPONENTS, data.theory(law).exponents, data.theory(law).test_error[:, 0])
        tails = label_skewness(data.theory(law).problem)
        pairs = [agree(float(theory[i]), errors[i], among=among, skewness=tails) for i in range(among)]
        checks[law] = pairs
        rows += [_row(pair, inputs=law, alpha=alpha) for pair, alpha in zip(pairs, EXPONENTS, strict=True)]
        worst = max(pairs, key=lambda pair: abs(pair.measured / pair.predicted - 1))
        gaps.append(f"{law} {worst.measured / worst.predicted - 1:+.1%} (z = {-worst.z:+.1f})")
    ratio = Estimate(np.log(data.errors["table"].values / data.errors["gaussian rows"].values))
    checks["table"] = [check(ratio[i], -ERROR_TOLERANCE, ERROR_TOLERANCE, among=among) for i in range(among)]
    told = listed({law: found for law, found in checks.items() if law != "gaussian rows"})
    return Judgement(
        words=decide_each({law: checks[law] for law in JUDGED}),
        finding=(
            f"Test error beside the theory of the inputs' own covariance at α = {', '.join(f'{a:g}' for a in EXPONENTS)}, largest gap of "
            f"measured from predicted: {', '.join(gaps)}. Within {ERROR_TOLERANCE:.0%} at every α ({len(ratio.values)} seeds; "
            f"the table: of Gaussian rows), {told}. At the table's size (α = 1/2) the logarithm of its error over that of "
            f"Gaussian rows is {ratio.mean[-1]:+.2f} ± {ratio.stderr[-1]:.1g}.{marks(*data.theories.values())}"
        ),
        surprise=_what_matters(checks, data.theory("table").problem),
        rows=rows,
    )


def _row(pair: Pair, **where: Any) -> dict[str, Any]:
    """The numbers with z of measured from predicted before the outcome; None for what is not finite."""
    row = row_of(pair, **where)
    row |= {"z": -pair.z, "outcome": row.pop("outcome")}
    return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in row.items()}


def _what_matters(checks: dict[str, Sequence[Check]], small: Problem) -> str:
    """Independent entries of other laws beside one length shared by all entries, and the theory at the table's size."""
    words = {
        Agreement.AGREES: "agree with",
        Agreement.DIFFERS: "do not follow",
        Agreement.UNDECIDED: "are, at these seeds, undecided beside",
    }

    def told(laws: Sequence[str], theory: str) -> str:
        found = by_name({law: checks[law] for law in laws})
        return "; ".join(f"{', '.join(laws)} {words[outcome]} {theory}" for outcome, laws in found.items() if laws)

    rows = "agrees for" if together(checks["gaussian rows"]) is Agreement.AGREES else "is not shown to hold even for"
    return (
        f"Of independent entries {told([law for law in INDEPENDENT if law != 'gaussian'], 'the theory of Gaussian ones')}. Of inputs with a covariance "
        f"or a random length {told(tuple(DEPENDENT), 'the theory of their own')}. At the table's size (n is {small.n / (small.d**2 / 2):.2g} of d²/2) the theory {rows} "
        "Gaussian rows of its covariance."
    )


def draw(data: Data) -> Figure:
    """Test errors against α beside theory: independent entries, dependent ones each with its own, the table."""
    n, small, seeds = data.theory("gaussian").problem.n, data.theory("table").problem, len(data.errors["table"].values)
    size = f"n = {n}, d = n/2, N = 3n/2"
    panels = []
    first = 0
    for title, names in (
        (f"independent entries, {size}", INDEPENDENT),
        (f"dependent entries, {size}", DEPENDENT),
        (f"digits: n = {small.n}, d = {small.d}, N = {small.N}", ROWS),
    ):
        theory: list[Series] = []
        for colour, law in enumerate(names if names is DEPENDENT else list(names)[:1]):
            grid = data.theory(law)
            label = f"theory, {names[law]}" if names is DEPENDENT else "theory, table" if names is ROWS else "theory"
            theory += theory_series(label, grid.exponents, grid.test_error[:, 0], grid.status[:, 0], first + colour)
        measured = sideways(EXPONENTS, 0.008, {name: data.errors[law] for law, name in names.items()}, first)
        panels.append(Panel(title, EXPONENT, "test error", (*theory, *measured), logy=True))
        first += len(names)
    caption = (
        f"Softplus, teacher H₁ + H₂/√2, noise 0.5, λ = 0.1, η = n^α, literal gradient. AR(1): Σ_ij = 0.8^|i−j|; power-law: "
        f"eigenvalues ∝ k^−½; both of trace d. Elliptic: multivariate Student law, 5 degrees, identity covariance. Each has its own theory. Digits: 1,797 "
        f"images, {TABLE_DIMS} leading principal components scaled to trace d, theory of their covariance, disjoint rows for step, ridge and test, labels "
        f"from the teacher. Points are shifted sideways. {seeds} seeds, mean ± standard error."
    )
    names = INDEPENDENT | DEPENDENT | ROWS
    gaps = {name: data.errors[law].mean[-1] / data.theory(law).test_error[-1, 0] - 1 for law, name in names.items()}
    headline = f"At α = {EXPONENTS[-1]:g} simulation is off its theory by " + ", ".join(
        f"{gap:+z.0%} ({name})" for name, gap in gaps.items()
    )
    return Figure(panels, caption, columns=3, title=headline)
