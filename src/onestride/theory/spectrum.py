"""`spectrum`: what theory says about the eigenvalues of FFᵀ/n before and after the step.

Before the step: `density`. After it the bulk density is Σ_i w_i Im ρ_i/π of the profile equations at λ = −E − i0, and
`outliers` gives what leaves the bulk. Section by section the names are those of `simulation.spectrum.MeasuredSpectrum`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from onestride import _html
from onestride._backend.threads import one_thread
from onestride._numerics import Array, Float
from onestride.drawing import Panel, Series
from onestride.problem import Problem, Step, expect
from onestride.result import Result, Status, TheoryError
from onestride.shown import Variables
from onestride.table import Table
from onestride.theory.any_model import any_model, bulk_law, every_model, mean_positions, positions
from onestride.theory.assumptions import failed_assumption, needs_identity
from onestride.theory.density import Law, atom_at_zero, band_grid, histogram_law, untrained_law
from onestride.theory.gaps import BLUR, bright_ends, densities, refined
from onestride.theory.outliers import Outliers, find_outliers, spike_model
from onestride.theory.plateau import active_powers, window_of
from onestride.theory.profile.equations import Solution
from onestride.theory.profile.strength import Level, level_name
from onestride.theory.reliability import known_off
from onestride.theory.table.errors import refused
from onestride.theory.table.shares import table_eigenvalues

_NODES = 17  # of z and A for the density: 1e-5 of what 41 give
_SHIFTS = (1 / 8, 3 / 8)  # of the nodes of A: the densities of both are averaged in the upper tail
_POINTS = 160
_DEFECT = 0.01  # mass that may be missing from the density without a word
_UNSOLVED = (
    "where the bulk ends after the step, and what leaves it, is not known: the equations of its density were not solved"
)


@dataclass(frozen=True, repr=False)
class Spectrum(Result):
    """The predicted spectrum of FFᵀ/n.

    untrained, trained
        `Law` of the bulk of F₀F₀ᵀ/n and FFᵀ/n: `grid`, `density`, `bands`, `atom` (at 0), `edge`. The density after the
        step is smoothed by 0.1 % of E; it is None when it was not asked for.
    edge
        Upper end of the bulk after the step; NaN where the equations of its density were not solved.
    leading
        Positions of the outliers, decreasing.
    overlaps, teacher_overlaps
        outliers × 5: squared overlap of the left singular vector with H_k(X̃β/|β|), with H_k(X̃β⋆), k = 0 … 4.
    power_overlaps
        outliers × 4: the same with the power (X̃β)^k, k = 1 … 4.
    on_direction
        Squared length of its projection on all functions of X̃β/|β|.
    degrees
        The Hermite degree that dominates each outlier (besides the constant): the second spike is z², not H₂. Empty, and all
        overlaps NaN, for several steps and for inputs with a covariance or random lengths: positions and bulk only.
    expected
        Degrees whose spike the n → ∞ theory puts in this window of α: k ≤ ℓ with c_k ≠ 0, and with a constant readout the lowest of them
        alone, with ±1 the lowest odd and even ones.
    between, between_overlaps, between_on_direction, between_degrees
        The same for eigenvalues below the uppermost bulk and above a lower one: with n, N ≫ d the d eigenvalues of degree
        one are a bulk of their own, and what has left that of the higher degrees (z², the length of x: degree 0) may lie
        below it. They are not among the leading eigenvalues.
    strengths
        degree → what that spike reaches at this n and c; it is visible iff above 1.
    status, message
        `INACCURATE` where the theory's errors are known to be off by more than 5 %: its spectrum is then no better.
    """

    _told = ("leading", "overlaps", "teacher_overlaps", "power_overlaps", "on_direction", "edge", "untrained_edge")
    _told += ("between", "between_overlaps", "between_on_direction", "between_degrees")
    _told += ("outliers", "degrees", "expected", "message", "status", "strengths", "level", "untrained", "trained")
    _brief = ("outliers", "leading", "degrees", "edge", "untrained_edge", "status")
    _equation = "eigenvalues of FFᵀ/n, F = σ(X̃Wᵀ)"

    problem: Problem
    level: str
    untrained: Law = field(repr=False)
    trained: Law | None = field(repr=False)
    edge: float
    leading: Float[Array, "outliers"]
    overlaps: Float[Array, "outliers 5"]
    teacher_overlaps: Float[Array, "outliers 5"]
    power_overlaps: Float[Array, "outliers 4"]
    on_direction: Float[Array, "outliers"]
    degrees: tuple[int, ...]
    between: Float[Array, "inner"]
    between_overlaps: Float[Array, "inner 5"]
    between_on_direction: Float[Array, "inner"]
    between_degrees: tuple[int, ...]
    expected: tuple[int, ...]
    strengths: dict[int, float]
    status: Status
    message: str

    def panels(self) -> Sequence[Panel]:
        """The densities with and without the step, and the outliers."""
        laws = {"without the step": self.untrained} | ({} if self.trained is None else {"after the step": self.trained})
        series = [Series(name, law.grid, law.density, colour=4 * (1 - k)) for k, (name, law) in enumerate(laws.items())]
        marks = [(float(place), f"{place:.3g}") for place in self.leading]
        return [Panel("spectrum of FFᵀ/n", "eigenvalue", "density", series, verticals=marks)]

    def _picture(self) -> str:
        law = self.trained or self.untrained
        return _html.curves(law.grid, [law.density], words="density of the eigenvalues")

    def _axes(self) -> dict[str, Sequence[float]]:
        axes: dict[str, Sequence[float]] = {"outlier": range(1, self.outliers + 1), "k": range(5)}
        axes["untrained_eigenvalue"] = self.untrained.grid.tolist()
        return axes if self.trained is None else axes | {"eigenvalue": self.trained.grid.tolist()}

    def _variables(self) -> Variables:
        found: Variables = {name: (("outlier",), getattr(self, name)) for name in ("leading", "on_direction")}
        found |= {name: (("outlier", "k"), getattr(self, name)) for name in ("overlaps", "teacher_overlaps")}
        found["untrained_density"] = (("untrained_eigenvalue",), self.untrained.density)
        return found if self.trained is None else found | {"density": (("eigenvalue",), self.trained.density)}

    @property
    def untrained_edge(self) -> float:
        """Upper end of the bulk without the step."""
        return self.untrained.edge

    @property
    def outliers(self) -> int:
        """How many eigenvalues leave the bulk."""
        return int(self.leading.size)


def beyond_the_spectrum(problem: Problem) -> str | None:
    """Why the functions that outliers follow are not known for this problem; None where they are."""
    return failed_assumption(problem) or needs_identity(problem, "the theory of the spectrum")


@one_thread()
def spectrum(problem: Problem, *, level: Level = "isotropic", density: bool = True) -> Spectrum:
    """Predict bulk, outliers and overlaps of FFᵀ/n.

    `level` is that of the profile theory: isotropic for the literal gradient (its fluctuations move the second outlier
    by tens of percent), rank-one for an exact rank-one step; at either every degree of the inputs that n and N resolve is a
    sector of its own, and what lies between their bulks is in `between`. `density=False` skips the bulk density after the step, the slow
    part. After several steps, and for inputs with a covariance, bulk and positions are those of the equations of `predict`
    (`level` plays no part), and what functions the vectors are is not known. Of a table it is that of its rows, a histogram. For α ≥ 0.45 the real edge is soft: a few eigenvalues lie above the predicted one.

    >>> problem = one.Problem(n=200, d=100, N=150, teacher=[0, 1, 0.7071], noise=0.5, step=one.Step(exponent=0.3))
    >>> found = one.spectrum(problem, density=False)
    >>> print(f"bulk up to {found.edge:.2f}, outliers at {found.leading.round(2)}")
    bulk up to 2.15, outliers at [4.29]
    """
    expect(problem)
    if isinstance(problem.inputs, Table):
        return _of_rows(problem)
    level = level_name(level)
    reason = failed_assumption(problem, schedules=True)
    if reason is not None:
        raise TheoryError(reason)
    if not problem.law.isotropic or (problem.steps > 1 and problem.eta > 0):
        return _by_position(problem, density)
    untrained = untrained_law(problem)
    found = find_outliers(problem, level)
    if not found.converged:
        raise TheoryError("the profile equations were not solved above the spectrum, so its edge is not known")
    ell = window_of(problem.step)
    expected = () if np.isnan(ell) else tuple(active_powers(problem, ell))
    message = _sentence(problem, found, expected, ell)
    trained = trained_law(problem, level, untrained, found) if density else None
    message += missing_mass(trained)
    return _spectrum(problem, level, (untrained, trained), found, message, known_off(problem), expected)


def missing_mass(trained: Law | None) -> str:
    """What is to be said of a density that is not all there."""
    if trained is None or abs(trained.mass() + trained.atom - 1) < _DEFECT:
        return ""
    return f"; the density after the step is unreliable, it integrates to {trained.mass() + trained.atom:.3g}"


def _spectrum(
    problem: Problem,
    level: str,
    laws: tuple[Law, Law | None],
    found: Outliers,
    message: str,
    off: str | None = None,
    expected: tuple[int, ...] = (),
) -> Spectrum:
    """The result; `off` says why its numbers are not to be relied on."""
    if laws[1] is not None and np.isnan(laws[1].mass()):
        found, message = replace(found, edge=np.nan), _UNSOLVED
    return Spectrum(
        problem=problem,
        level=level,
        untrained=laws[0],
        trained=laws[1],
        edge=found.edge,
        leading=found.leading,
        overlaps=found.overlaps,
        teacher_overlaps=found.teacher_overlaps,
        power_overlaps=found.power_overlaps,
        on_direction=found.on_direction,
        degrees=found.leading_degrees,
        between=np.concatenate([np.empty(0), *(gap.leading for gap in found.between)]),
        between_overlaps=np.concatenate([found.overlaps[:0], *(gap.overlaps for gap in found.between)]),
        between_on_direction=np.concatenate([np.empty(0), *(gap.on_direction for gap in found.between)]),
        between_degrees=tuple(k for gap in found.between for k in gap.leading_degrees),
        expected=expected,
        strengths=_strengths(found, expected),
        status=Status.SOLVED if off is None else Status.INACCURATE,
        message=message if off is None else f"{message}; {Status.INACCURATE.value}: {off}",
    )


def _positions_only(edge: float, leading: Float[Array, "outliers"]) -> Outliers:
    """Outliers without a word on their vectors."""
    unknown = np.full((leading.size, 5), np.nan)
    return Outliers(edge, leading, unknown, unknown, unknown[:, 1:], unknown[:, 0], (), np.empty(0), (), converged=True)


def _strengths(found: Outliers, expected: tuple[int, ...]) -> dict[int, float]:
    """By degree, the largest of each."""
    strengths: dict[int, float] = {}
    for degree, value in zip(found.degrees, found.strengths, strict=True):
        if degree:
            strengths.setdefault(degree, float(value))
    for degree, value in zip(expected, found.strengths, strict=False):  # one that is too weak to be told apart
        strengths.setdefault(degree, float(value))
    return strengths


def _of_rows(problem: Problem) -> Spectrum:
    """Eigenvalues of the features of a table's rows; those that the step puts above all that were there before are told."""
    reason = refused(problem)
    if reason is not None:
        raise TheoryError(reason)
    before, after, rows = table_eigenvalues(problem)
    edge = float(before[:, 0].mean())
    count = round(float((after > edge).sum(1).mean())) if problem.eta else 0
    message = (
        f"{_leaving(count)} the spectrum without a step, which ends at {edge:.4g}; of {rows} rows of the table, whose own few directions have no bulk, "
        "and what functions the vectors are is not known"
    )
    untrained, trained = (histogram_law(values, rows) for values in (before, after[:, count:]))
    return _spectrum(problem, "table", (untrained, trained), _positions_only(edge, after[:, :count].mean(0)), message)


def _edge_is_off(problem: Problem) -> str | None:
    """After a step under a covariance what Σ and M do to the strengths together is right on average, not at their ends."""
    if problem.eta == 0 or problem.law.isotropic or problem.law.freedom is not None:
        return None
    whose = "are means over draws" if problem.steps == 1 else "are those of the most probable draw"
    return (
        "after a step on inputs with a covariance the bulk ends below the place given (by a quarter: ReLU, ar1, n = 400, d = 200, c = 1, "
        f"α = 1/4); outliers {whose}, from which another may differ by a half"
    )


def _by_position(problem: Problem, density: bool) -> Spectrum:
    """Bulk and positions by the equations of `predict`, where the functions that the vectors are have no theory yet."""
    models = every_model(problem, likeliest=problem.steps > 1)  # of several steps the mean was no better
    model, found = models[0][1], mean_positions(models)
    if problem.law.isotropic:
        untrained = untrained_law(problem)
    else:
        before = any_model(problem.replace(step=Step.none()))
        untrained = bulk_law(before, positions(before).edge)
    trained = None if not density else untrained if problem.eta == 0 else bulk_law(model, found.edge)
    message = (
        f"{_leaving(found.leading.size)} the bulk, which ends at {found.edge:.4g}; what functions their vectors are is known for one step and "
        "inputs with identity covariance only"
    )
    if not problem.law.isotropic:
        message += "; where few eigenvalues of the inputs' covariance lie far apart, the bulk ends below that"
    message += missing_mass(trained)
    outliers, off = _positions_only(found.edge, found.leading), known_off(problem) or _edge_is_off(problem)
    return _spectrum(problem, model.level, (untrained, trained), outliers, message, off)


def trained_law(problem: Problem, level: str, untrained: Law, found: Outliers) -> Law:
    """The bulk density after the step, each E from its neighbour's solution, else continued from a large imaginary part.

    It is computed at the isotropic level at most: the finer levels take twenty times as long and differ in its far tail only.
    The upper tail of a bulk is made by neurons of large |A|, and after a strong step each node of A has an island of its own there.
    Nodes at 1/8 and 3/8 of their distance put |A| = |−A| on a rule four times as fine, and the islands grow together.
    """
    if not untrained.bands:
        return untrained
    chosen = level if level == "rank-one" else "isotropic"
    models = [spike_model(problem, chosen, _NODES, radii=2, min_weight=1e-7, shift=shift) for shift in _SHIFTS]
    edge = max(found.edge, untrained.edge)
    lower = max(untrained.bands[0][0] / 4, 1e-7 * edge)
    grid = band_grid(lower, 1.1 * edge, _POINTS)
    atom, known = atom_at_zero(problem), (list[Solution](), list[Solution]())

    def at(points: Array) -> Array:
        every = densities(models[0], points, 10 * edge, atom, known[0])
        tail = points > min([edge, *(gap.edge for gap in found.between)]) / 8
        every[tail] = (every[tail] + densities(models[1], points[tail], 10 * edge, atom, known[1])) / 2
        return every

    density = at(grid)
    while density[0] * grid[0] > 10 * BLUR and grid[0] > 1e-9 * edge:  # the bulk reaches further down than before
        more: Array = np.geomspace(float(grid[0]) / 16, float(grid[0]), 40)[:-1]
        grid, density = np.append(more, grid), np.append(at(more), density)
    grid, density = refined(grid, density, at, rounds=3)
    bright = density * grid > (2 if found.between else 10) * BLUR
    for gap in found.between:
        bright &= (grid <= gap.edge) | (grid >= gap.ceiling)
    ends = bright_ends(grid, bright)
    if ends.size:
        for end in (x for gap in found.between for x in (gap.edge, gap.ceiling)):  # better than the grid has it
            ends[np.abs(np.log(ends / end)).argmin()] = end
        ends[-1] = found.edge
    return Law(grid, density, tuple(zip(ends[::2].tolist(), ends[1::2].tolist(), strict=True)), atom)


def _leaving(count: int) -> str:
    return {0: "no eigenvalue leaves", 1: "1 eigenvalue leaves"}.get(count, f"{count} eigenvalues leave")


def _sentence(problem: Problem, found: Outliers, expected: tuple[int, ...], ell: float) -> str:
    if problem.eta == 0:
        return "no step was taken: the spectrum is that of random features"
    degrees = found.leading_degrees
    names = f" (degree {', '.join(map(str, degrees))})" if degrees else ""
    text = f"{_leaving(len(degrees))} the bulk, which ends at {found.edge:.4g}{names}{_between_sentence(found)}"
    if np.isnan(ell) and problem.sigma.coefficients[1] != 0:
        return f"{text}; α = {problem.step.exponent:g} is a threshold between two windows"
    seen = [k for k in (*degrees, *(k for gap in found.between for k in gap.leading_degrees)) if k]
    missing = [k for k in expected if k not in seen and k <= 4]
    unnamed = len(seen) - len(set(seen) & set(expected))  # no vector is said to be of a degree above four
    higher = [k for k in expected if k > 4][unnamed:]
    if (missing or higher) and np.isfinite(ell):  # α = 1/2 lies beyond every window
        several = len(higher) > 1
        if not several or missing[-1:] != [k for k in expected if k < higher[0]][-1:]:
            missing += higher[:1]
        which = ", ".join(map(str, missing)) + (" and above" if several else "")
        hidden = f"not visible at n = {problem.n}, c = {problem.step.constant:g}: {which}"
        listed = ", ".join(map(str, expected[:4])) + (", …" if len(expected) > 4 else "")
        return f"{text}; as n → ∞ this window has spikes of degree {listed}; {hidden}"
    return text


def _between_sentence(found: Outliers) -> str:
    """What lies below the uppermost bulk and outside every other."""
    told = [
        f"at {E:.4g} ({f'degree {k}' if k else 'the length of x'})"
        for gap in found.between
        for E, k in zip(gap.leading, gap.leading_degrees, strict=True)
    ]
    return f"; between its bulks an eigenvalue lies {', '.join(told)}" if told else ""
