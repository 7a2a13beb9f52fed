"""`giant-step`: η of order √n (α = 1/2): the fixed point of Cui et al. 2024, the profile theory, and two readouts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from onestride._numerics import Array
from onestride.comparison import ERROR_TOLERANCE, Agreement, Check, check, seeds_words, together
from onestride.conventions import problem_from
from onestride.experiments.kit import best_linear, each, mean_of, pm, points, problem_at
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.verdict import FAILS, HOLDS, PARTLY, UNDECIDED, marks
from onestride.plot import Panel, Series, theory_series
from onestride.problem import Problem, Step
from onestride.result import Estimate, Prediction, Status
from onestride.simulation.run import simulate, simulate_grid
from onestride.theory.giant_step import giant_step
from onestride.theory.predict import predict

CLAIM = (
    "For a constant readout the error has an exact limit, a fixed point with an isotropic bulk (Cui et al. 2024), exact for "
    "n₀ ≫ d. A readout with more values learns more functions of the direction found (Dandi et al. 2024)."
)
PUBLISHED = {0.2: 0.2944, 0.667: 0.3185, 1.133: 0.2770, 1.6: 0.2057, 2.067: 0.1722, 2.533: 0.1549, 3.0: 0.1445}
SIZES = {
    "d": (80, 300, 1000),
    "seeds": (6, 30, 20),
    "ratios": ((0.5, 2.0), tuple(PUBLISHED), tuple(PUBLISHED)),
    "fine_ratios": (5, 29, 29),
    "n": (100, 400, 2000),  # of the readouts
    "readout_seeds": (6, 20, 12),
    "fine_constants": (3, 17, 17),
}
# Cui et al.'s two settings; n₀ = α₀d samples for the step, p = d neurons, α = n/d on the axis.
SETTINGS = {
    "n₀ = d/2": {"alpha0": 0.5, "eta_tilde": 1, "lam": 0.01, "teacher": "tanh"},
    "n₀ = 20d": {"alpha0": 20, "eta_tilde": 3, "lam": 0.1, "teacher": "sin"},
}
CONSTANTS = (0.5, 1.0, 2.0, 4.0, 8.0)
PROFILE, FIXED = "profile theory", "Cui et al."


def _fixed_point(problem: Problem) -> float:
    with np.errstate(over="ignore", invalid="ignore"):  # it says so itself when it diverges
        return giant_step(problem).test_error


THEORIES: dict[str, Callable[[Problem], float | Prediction]] = {
    PROFILE: lambda problem: predict(problem, throw=False),
    FIXED: _fixed_point,
}


@dataclass(frozen=True)
class Errors:
    """Test errors along x, measured (seeds × x) and by each theory, and the theories along a finer axis."""

    x: Sequence[float]
    measured: Estimate
    found: dict[str, list[float | Prediction]]
    fine: Array
    along: dict[str, list[float | Prediction]]

    @property
    def theory(self) -> dict[str, list[float]]:
        """The errors of each theory at x."""
        return {name: [_error(one) for one in values] for name, values in self.found.items()}

    @property
    def predictions(self) -> list[Prediction]:
        """What the profile theory says at x, with its marks."""
        return [one for one in self.found[PROFILE] if isinstance(one, Prediction)]

    def series(self, name: str, label: str, **options: Any) -> list[Series]:
        """A theory's line; numbers that it marks are drawn as such."""
        line = [_error(one) for one in self.along[name]]
        if name == FIXED:
            return [Series(label, self.fine, line, **options)]
        status = [one.status for one in self.along[name] if isinstance(one, Prediction)]
        return theory_series(label, self.fine, line, status, **options)

    def gap(self, name: str) -> Estimate:
        """Relative distance of simulation from a theory, averaged over x."""
        return Estimate((self.measured.values / np.array(self.theory[name]) - 1).mean(1))

    def row(self, i: int, setting: str, axis: str) -> dict[str, Any]:
        """One x; None for a theory that has no number."""
        found = {name: self.theory.get(name, [np.nan] * len(self.x))[i] for name in THEORIES}
        known = {name: float(value) if np.isfinite(value) else None for name, value in found.items()}
        return {"setting": setting, "axis": axis, "x": float(self.x[i])} | known | mean_of(self.measured[i])


@dataclass(frozen=True)
class Giant:
    """Cui et al.'s settings against n/d, and both readouts against c."""

    d: int
    problem: Problem
    settings: dict[str, Errors]
    readouts: dict[str, Errors]


def measure(size: SimpleNamespace, progress: Progress) -> Giant:
    """Both of Cui et al.'s settings against n/d, then constant and Gaussian readout against the prefactor c."""
    settings, readouts, seeds = {}, {}, size.seeds
    fine = np.linspace(size.ratios[0], size.ratios[-1], size.fine_ratios)
    for title, setting in SETTINGS.items():
        at = partial(_cui, size.d, setting)
        # each ratio has seeds of its own, so that the points are independent
        own = [range(i * seeds, (i + 1) * seeds) for i in range(len(size.ratios))]
        found = [simulate(at(r), s, device=size.device).test_error for r, s in zip(size.ratios, own, strict=True)]
        measured = Estimate(np.stack([e.values for e in found], axis=1))
        settings[title] = Errors(size.ratios, measured, _predicted(at, size.ratios), fine, _predicted(at, fine))
        progress(len(settings) / 3)
    problem = problem_at(size.n, gradient="labels", n_step=4 * size.n)
    exponents = 0.5 + np.log(CONSTANTS) / np.log(size.n)  # the same step with constant 1: one simulation serves all c
    fine = np.geomspace(CONSTANTS[0], CONSTANTS[-1], size.fine_constants)
    for readout, names in {"constant": (PROFILE, FIXED), "gaussian": (PROFILE,)}.items():
        base = problem.replace(readout=readout)
        at = partial(_stepped, base)
        how = {"untrained": False, "device": size.device}
        found = simulate_grid(base, exponents, [base.ridge], size.readout_seeds, **how).test_error[:, 0]
        theory, lines = (_predicted(at, x, names) for x in (CONSTANTS, fine))
        readouts[readout] = Errors(CONSTANTS, found, theory, fine, lines)
    return Giant(size.d, problem, settings, readouts)


def _cui(d: int, setting: dict[str, Any], ratio: float) -> Problem:
    return problem_from("cui2024", d=d, alpha=float(ratio), beta=1, activation="tanh", **setting)


def _stepped(problem: Problem, c: float) -> Problem:
    return problem.replace(step=Step(constant=float(c), exponent=0.5))


def _predicted(
    at: Callable[[float], Problem], x: Iterable[float], names: Iterable[str] = (PROFILE, FIXED)
) -> dict[str, list[float | Prediction]]:
    return {name: [THEORIES[name](at(v)) for v in x] for name in names}


def judge(data: Giant) -> Judgement:
    """Average distances from both theories, and the Gaussian readout beside the constant one, paired by seed."""
    few, many = data.settings.values()
    difference = data.readouts["constant"].measured - data.readouts["gaussian"].measured
    better = each(difference)
    lead = int(np.argmin(difference.mean))
    lead_clear = check(better[lead], low=0, among=len(better)).differs
    rows = [errors.row(i, title, "n/d") for title, errors in data.settings.items() for i in range(len(errors.x))]
    for readout, errors in data.readouts.items():
        rows += [errors.row(i, f"{readout} readout", "c") for i in range(len(CONSTANTS))]
    constant, gaussian = (_distance(errors) for errors in data.readouts.values())
    marked = marks(*(one for errors in (few, many, *data.readouts.values()) for one in errors.predictions))
    return Judgement(
        words=words(near_zero(many.gap(FIXED)), near_zero(few.gap(FIXED)), better),
        finding=(
            f"Average relative distance of simulation from theory over {len(few.x)} ratios n/d (d = {data.d}, {len(few.measured.values)} seeds each): for n₀ = 20d "
            f"fixed point {_percent(many.gap(FIXED))}, profile theory {_percent(many.gap(PROFILE))}; for n₀ = d/2 fixed point "
            f"{_percent(few.gap(FIXED))}, profile theory {_percent(few.gap(PROFILE))}. The constant readout's test error less the Gaussian one's is "
            + ", ".join(f"{pm(e, 2)} at c = {c:g}" for c, e in zip(CONSTANTS, better, strict=True))
            + f" (paired by seed).{marked}"
        ),
        surprise=(
            f"More values are {'not always better: the constant readout, which puts the whole step into one function of the direction found,' if lead_clear else 'not shown to be worse anywhere: the constant readout'} "
            f"has its largest mean lead on the Gaussian one at c = {CONSTANTS[lead]:g} ({pm(better[lead], 2)}; {pm(better[-1], 2)} at c = {CONSTANTS[-1]:g}). The profile theory is "
            f"{constant} from simulation at c = {CONSTANTS[-1]:g} for the constant readout, {gaussian} for "
            "the Gaussian one."
        ),
        rows=rows,
    )


def near_zero(gap: Estimate) -> Check:
    """Is an average relative gap within ERROR_TOLERANCE of 0?"""
    return check(gap, -ERROR_TOLERANCE, ERROR_TOLERANCE, among=2)


def words(far: Check, near: Check, better: Sequence[Estimate]) -> str:
    """From the fixed point's gaps at n₀ ≫ d and at n₀ = d/2, and the Gaussian readout's advantage at rising c."""
    above = [check(e, low=0, among=len(better)) for e in better]
    richer, poorer = above[-1].outcome, any(c.differs for c in above[:-1])
    if far.agrees and near.agrees and together(above) is Agreement.AGREES:
        return HOLDS
    if far.differs and richer is Agreement.DIFFERS:
        return FAILS
    told = {Agreement.AGREES: "within", Agreement.DIFFERS: "not within", Agreement.UNDECIDED: f"{UNDECIDED} within"}
    fixed = f"{told[far.outcome]} {ERROR_TOLERANCE:.0%} for n₀ ≫ d, {told[near.outcome]} it for n₀ = d/2"
    than = {Agreement.AGREES: "is better", Agreement.DIFFERS: "is not better", Agreement.UNDECIDED: f"is {UNDECIDED}"}
    readout = f"{than[richer]} at the largest c{' but worse at smaller ones' if poorer else ''}"
    unclear = [c for c in (far, near, above[-1]) if c.outcome is Agreement.UNDECIDED]
    wrong = far.differs or richer is Agreement.DIFFERS
    start = PARTLY if far.agrees or richer is Agreement.AGREES else FAILS if wrong else UNDECIDED
    seeds = f" ({seeds_words(unclear)})" if unclear else ""
    return f"{start}: the fixed point is {fixed}, the Gaussian readout {readout}{seeds}"


def _distance(errors: Errors) -> str:
    """Relative distance of the profile theory at the last x, and whether it marks its number."""
    last = errors.predictions[-1]
    if not np.isfinite(last.test_error):
        return "not solved, so no distance"
    off = " (marked as inaccurate)" if last.status is Status.INACCURATE else ""
    return f"{last.test_error / float(errors.measured.mean[-1]) - 1:+.0%}{off}"


def _error(found: float | Prediction) -> float:
    return found.test_error if isinstance(found, Prediction) else found


def _percent(e: Estimate) -> str:
    return f"{float(e.mean):+.1%} ± {float(e.stderr):.1%}"


def draw(data: Giant) -> Figure:
    """Both settings against n/d, and both readouts against c."""
    panels = []
    for title, errors in data.settings.items():
        series = [s for i, name in enumerate(errors.along) for s in errors.series(name, name, colour=i)]
        series.append(points(f"simulation, d = {data.d}", errors.x, errors.measured))
        if not panels:
            published = list(PUBLISHED), list(PUBLISHED.values())
            series.append(Series("published, d = 2000", *published, kind="simulation", colour=1))
        heading = f"tanh student of {SETTINGS[title]['teacher']}, {title}"
        panels.append(Panel(heading, "n/d", "test error", series, shared=False))  # teachers of different power
    series = []
    for k, (name, errors) in enumerate(data.readouts.items()):
        readout = "Gaussian" if name == "gaussian" else name
        series += errors.series(PROFILE, f"{PROFILE}, {readout}", colour=2 + k)
        if FIXED in errors.along:
            series += errors.series(FIXED, f"{FIXED}, {readout}", kind="limit", colour=2 + k)
        series.append(points(f"simulation, {readout}", CONSTANTS, errors.measured, colour=2 + k))
    axis = {"logx": True, "xticks": CONSTANTS, "horizontals": best_linear(data.problem)}
    panels.append(Panel("constant and Gaussian readout", "c, with η = c√n", "test error", series, shared=False, **axis))
    seeds = [len(errors.measured.values) for errors in (*data.settings.values(), *data.readouts.values())]
    caption = (
        f"Left and middle: settings of Cui et al. 2024 in their scaling, p = d = {data.d}, constant readout, η = η̃√p, labels-only gradient, "
        f"no noise; η̃ = 1, λ_C = 0.01 (left), η̃ = 3, λ_C = 0.1 (middle), {seeds[0]} seeds; published means are over 3 seeds. Right: ReLU, "
        f"teacher H₁ + H₂/√2, noise 0.5, λ = 0.1, n = {data.problem.n}, d = n/2, N = 3n/2, n₀ = 4n, η = c√n, labels-only gradient, "
        f"{seeds[-1]} seeds; the fixed point is drawn where its iteration converges. Mean ± standard error."
    )
    (constant, gaussian), at = (errors.measured for errors in data.readouts.values()), CONSTANTS[-1]
    title = f"At c = {at:g} the test error is {pm(constant[-1])} from a constant and {pm(gaussian[-1])} from a Gaussian readout"
    return Figure(panels, caption, columns=3, title=title)
