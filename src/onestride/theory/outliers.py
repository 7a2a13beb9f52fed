"""Eigenvalues of FFᵀ/n that leave the bulk at a finite step, and the functions their left singular vectors are.

At λ = −E, E above the bulk, the profile equations have a real solution with ρ_i < 0 and q_k > 0. With the Gram matrix M
of the special sector and D₂ = diag(w_i ρ_i) twice,

    outlier at E   ⇔   an eigenvalue of |D₂|^½ M |D₂|^½ equals 1     (all of them fall as E grows).

At the bulk edge these eigenvalues are the *strengths*: the k-th spike separates iff the k-th strength exceeds 1.
The residue of (D₂⁻¹ + M)⁻¹ at the outlier gives the overlaps: with x the unit eigenvector, v = |D₂|^½x and
δ = vᵀ(∂/∂λ)(D₂⁻¹ + M)v, the squared overlap of the unit left singular vector with f(z), E f² = 1, is

    (Σ_i v_i f(z_i))²/δ.

This module holds the rule for what a spike is: an eigenvalue whose strength exceeds 1 (`crossing`, `Outliers.visible`),
named by the Hermite degree that dominates its vector (`dominant_degree`).
"""

# pyright: reportConstantRedefinition=false, reportMissingTypeStubs=false
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from scipy.optimize import brentq  # pyright: ignore[reportUnknownVariableType]

from onestride._numerics import Array, Float, hermite_table, monomials_in_hermite
from onestride.problem import Problem
from onestride.theory.density import resolves_degrees
from onestride.theory.direction import direction
from onestride.theory.gaps import (
    Eigenvalue,
    ahead_of,
    at_pole,
    eigenvalues_in,
    energy,
    find_gaps,
    same_gap,
    without_rare_rows,
)
from onestride.theory.profile import classic, degrees
from onestride.theory.profile.equations import Solution, newton
from onestride.theory.profile.quadratic_form import special_gram
from onestride.theory.profile.sectors import Model
from onestride.theory.profile.strength import level_name

HIGHEST_OVERLAP = 4  # overlaps are given with H_0 … H_4
_ALL_DEGREES = 12  # of a function of z; higher ones count as of the next
_ABOUT_Z = 0.25  # share of a spike's function that lies along z, below which it is about the length of x
_MOSTLY_Z = 0.5  # the same of a strength inside the bulk: z² and |x|² mix in two, and one has more than half along z
RARE = 0.03  # neuron nodes of weight below this over N are dropped: no neuron of a real network is there
_EDGE_ACCURACY = 1e-4
_WIDEST = 1.25  # from one point of the walk down in E to the next
_STRENGTHS = 6
_RADII = 3  # nodes of the length of x
_GAP_NODES = 25  # between two bulks: 41 move an eigenvalue by 0.2 %


@dataclass(frozen=True)
class Outliers:
    """Predicted outliers of FFᵀ/n, largest first.

    edge: upper end of the bulk. leading: positions. overlaps, teacher_overlaps (outliers × 5): squared overlaps with
    H_k(β̂ᵀx) and H_k(β⋆ᵀx), k = 0 … 4. power_overlaps (outliers × 4): with (βᵀx)^k, k = 1 … 4. on_direction: squared
    length on all functions of β̂ᵀx. leading_degrees: the Hermite degree that dominates each. strengths: what the special sector reaches at the edge, 1 being the threshold,
    separated or not, with the degree of each in `degrees` (0: about the norm of x or a constant, not about a direction).
    between: the same for each gap below the uppermost bulk, from the top; `edge` is then the end of the bulk below it
    and `ceiling` the lower end of that above.
    """

    edge: float
    leading: Float[Array, "outliers"]
    overlaps: Float[Array, "outliers 5"]
    teacher_overlaps: Float[Array, "outliers 5"]
    power_overlaps: Float[Array, "outliers 4"]
    on_direction: Float[Array, "outliers"]
    leading_degrees: tuple[int, ...]
    strengths: Float[Array, "strengths"]
    degrees: tuple[int, ...]
    converged: bool
    between: tuple[Outliers, ...] = ()
    ceiling: float = np.inf

    def visible(self, degree: int) -> bool:
        """Whether a spike of this degree leaves the uppermost bulk or lies between two."""
        pairs = zip(self.strengths, self.degrees, strict=True)
        above = any(value > 1 and k == degree for value, k in pairs)
        return self.converged and (above or any(degree in gap.leading_degrees for gap in self.between))


def dominant_degree(overlaps: Array) -> int:
    """The degree with the largest of the squared overlaps with H_0, H_1, …, besides the constant.

    0 for a spike that is the constant (features that are not centred). The second spike is z², so H_0 comes with H_2.
    """
    return 0 if overlaps[0] > 10 * overlaps[1:].max() else int(np.argmax(overlaps[1:])) + 1


def crossing(values: Array) -> int | None:
    """Between which point of the walk down in E and the next an eigenvalue of the special sector reaches 1, if it does."""
    at = np.flatnonzero((values[:-1] < 1) & (values[1:] >= 1))
    return int(at[0]) if at.size else None


@np.errstate(all="ignore")  # numbers out of range end as NaN or infinite, and the equations are not solved
def spike_model(
    problem: Problem,
    level: str,
    nodes: int,
    *,
    radii: int = _RADII,
    min_weight: float | None = None,
    shift: float = 0.0,
) -> Model:
    """The profile for spikes and the edge: every resolved degree, without neurons that a real network of N has none of."""
    level = "full" if level_name(level) == "degrees" else level_name(level)
    rare = RARE / problem.N if min_weight is None else min_weight
    if not resolves_degrees(problem):
        return classic.build(problem, level, nodes=nodes, min_weight=rare, shift=shift)
    few, lengths = 2 * round(3 * nodes / 8) + 1, radii if problem.eta > 0 else None
    return degrees.build(problem, level=level, nodes=few, radii=lengths, min_weight=rare, memory=False, shift=shift)


def find_outliers(problem: Problem, level: str = "isotropic", *, nodes: int = 41) -> Outliers:
    """Positions and overlaps of the outliers after the step, by the profile theory at `level`.

    Searched: everything above the uppermost bulk, and, where degrees beyond the first are resolved, the gaps between the
    bulk of each degree and what lies below it (`between`), each as far as it is dark. What the step remembers of its own
    batch (`degrees`) is left out. Levels that resolve the spectrum of M do so on a few nodes, which leave gaps inside the
    bulk; their walk ends at the edge of the isotropic level at the latest, and gaps are those of that level.
    """
    floor, dark = 0.0, "isotropic" if level_name(level) != "rank-one" else "rank-one"
    if level_name(level) not in ("rank-one", "isotropic"):
        isotropic = real_path(spike_model(problem, "isotropic", nodes))
        floor = energy(isotropic[-1]) if isotropic else 0.0
    model = spike_model(problem, level, nodes)
    path = real_path(model, floor)
    spectra, found = _crossings(model, path)
    if not path or found is None:
        return _outliers(model, np.nan, [], converged=False)
    edge, degree, between = energy(path[-1]), _degrees(model, path[-1], spectra.shape[1]), ()
    if resolves_degrees(problem):
        coarse = without_rare_rows(spike_model(problem, dark, min(nodes, _GAP_NODES)))
        gaps = find_gaps(coarse, edge)
        between = tuple(_outliers(coarse, gap.lower, eigenvalues_in(coarse, gap), ceiling=gap.upper) for gap in gaps)
    told = _outliers(model, edge, found, strengths=spectra[-1], degrees=degree, between=between)
    # strengths fall: the first are those of the spikes, and a spike has one name, that of its vector where it lies
    return replace(told, degrees=told.leading_degrees + degree[len(found) :])


def _outliers(model: Model, edge: float, found: list[Eigenvalue], **more: Any) -> Outliers:
    """What the vectors of the outliers are: their overlaps with functions of the learned and the teacher's direction."""
    # the part of a vector that is h_k(t̂ᵀx) has inner product cos^k with h_k(uᵀx), cos = uᵀt̂
    projected = [_on_direction(model, pole) for pole in found]
    amplitudes = np.array([a for a, _, _ in projected]).reshape(-1, _ALL_DEGREES + 1)
    totals = np.array([total for _, total, _ in projected])
    k = np.arange(_ALL_DEGREES + 1)
    seen = bool(model.z.any())  # before a step rows may have a length only
    cosine, overlap = (direction_cosine(model), model.learned.overlap) if seen else (0.0, 0.0)
    along_beta, along_teacher = amplitudes * cosine**k, amplitudes * overlap**k
    beyond = np.maximum(totals - (amplitudes**2).sum(1), 0) * cosine ** (2 * k[-1] + 2)
    kept = slice(0, HIGHEST_OVERLAP + 1)
    overlaps = along_beta[:, kept] ** 2
    powers = monomials_in_hermite(HIGHEST_OVERLAP)[1:]
    powers /= np.linalg.norm(powers, axis=1, keepdims=True)
    return Outliers(
        edge=edge,
        leading=np.array([energy(pole.at) for pole in found]),
        overlaps=overlaps,
        teacher_overlaps=along_teacher[:, kept] ** 2,
        power_overlaps=(along_beta[:, kept] @ powers.T) ** 2,
        on_direction=totals if cosine == 1 else (along_beta**2).sum(1) + beyond,
        leading_degrees=tuple(
            dominant_degree(row) if seen and share > _ABOUT_Z else 0
            for row, (_, _, share) in zip(overlaps, projected, strict=True)
        ),
        **cast("dict[str, Any]", {"strengths": np.empty(0), "degrees": (), "converged": True} | more),
    )


def _on_direction(model: Model, pole: Eigenvalue) -> tuple[Array, float, float]:
    """Of the left singular vector: inner products with h_k(z), squared length on all functions of z, that one's share."""
    _, group = np.unique(model.z, return_inverse=True)
    on_rows = pole.vector[: model.w.size]
    on_z, weight = np.bincount(group, on_rows), np.bincount(group, model.w)
    along = float(np.sum(on_z**2 / weight))
    every = np.sum(pole.vector**2 / np.tile(model.w, pole.vector.size // model.w.size))
    amplitudes = hermite_table(model.z, _ALL_DEGREES) @ on_rows / np.sqrt(pole.residue)
    return amplitudes, along / pole.residue, along / every


def _crossings(model: Model, path: list[Solution]) -> tuple[Array, list[Eigenvalue] | None]:
    """Leading eigenvalues of the special sector along the path, and the outlier of each that crosses 1.

    None where numbers of very different sizes leave no root to bracket, or a residue that is not positive.
    """
    spectra, found = np.empty((0, 0)), list[Eigenvalue]()
    try:
        spectra = np.array([special_eigenvalues(model, s)[:_STRENGTHS] for s in path])
        for k in range(spectra.shape[1] if path else 0):
            at = crossing(spectra[:, k])
            if at is not None:
                with np.errstate(all="ignore"):
                    found.append(_refine(model, path[at], path[at + 1], k))
    except (np.linalg.LinAlgError, ValueError):
        return spectra, None
    return spectra, found if all(pole.residue > 0 and np.isfinite(pole.vector).all() for pole in found) else None


def direction_cosine(model: Model) -> float:
    """β̂ᵀt̂ of the profile's direction: 1 when that is β, else t = p + c₁ηβ with p = W₀ᵀa of length 1.

    In labels mode βᵀp = 0. The literal gradient's β contains the output, βᵀp = −c₁.
    """
    if not model.learned.through_output:
        return 1.0
    problem = model.problem
    c1, s, eta = problem.sigma.coefficients[1], direction(problem).s, problem.eta
    length = model.learned.amplitude * np.sqrt(problem.N)
    along_p = -c1 if problem.gradient == "full" else 0.0
    return float((c1 * eta * s * s + along_p) / (length * s))


def real_path(
    model: Model, floor: float = 0.0, *, accuracy: float = _EDGE_ACCURACY, far: float | None = None
) -> list[Solution]:
    """Solutions at λ = −E from far above the spectrum down to the bulk edge (or `floor`), to `accuracy` of it.

    At the edge E₀ the solution ends like √(E − E₀): (∂ tr R/∂λ)⁻² falls to 0 there, linearly, and two points of the walk
    tell where. Each step leaves a quarter of the way to it, so that few are tried beyond the edge, where nothing is found.
    """
    if not model.finite:  # pre-activations out of the range of the smoothed activation
        return []
    E, dark = far_above(model) if far is None else far, 0.0
    if not E > 0:  # features that are all 0
        return []
    rho, q = np.full(model.w.size, -1 / E), np.ones(model.theta.size)
    path, flat = list[Solution](), list[float]()
    with np.errstate(all="ignore"):
        while True:
            found = newton(model, -E, rho, q, cap=0.3, steps=30)
            slope = found.tangent(1.0)
            if is_physical(model, found, slope[0]) and (not path or same_gap(model, path[-1], found)):
                path.append(found)
                flat.append(float(model.w @ slope[0]) ** -2)
            elif not path:
                return []
            else:
                dark = E
            here, ahead = energy(path[-1]), 0.0
            if len(path) > 1 and flat[-2] > flat[-1]:
                ahead = here - flat[-1] * (energy(path[-2]) - here) / (flat[-2] - flat[-1])
            if here < max(dark, ahead, floor) * (1 + accuracy):
                return path
            E = max(here / _WIDEST, ahead + (here - ahead) / 4, floor)
            E = (here + dark) / 2 if dark >= E else E
            rho, q = ahead_of(path[-1], here - E)


def far_above(model: Model) -> float:
    """An E above every eigenvalue: of the means, and of the bulk by its trace or, with several bulks, sector by sector."""
    n, N, mean = model.problem.n, model.problem.N, model.means.cases[0][1]
    start = (mean.T * (N * model.weight)) @ mean
    root = np.sqrt(np.tile(model.w, mean.shape[1] // model.w.size))
    spike = 4 * float(np.linalg.eigvalsh(root[:, None] * start * root)[-1])
    powers = [float(model.weight @ (s.mean_strength[:, None] * s.K**2 @ model.w)) for s in model.sectors]
    bulk = 20 * (float(model.weight @ (model.rest @ model.w)) + sum(powers)) * model.N_over_n * (1 + model.problem.phi)
    if len(powers) > 1:
        widths = [((1 + np.sqrt(s.dim / n)) * (1 + np.sqrt(s.dim / N))) ** 2 for s in model.sectors]
        tops = [N / s.dim * power * width for s, power, width in zip(model.sectors, powers, widths, strict=True)]
        bulk = max(bulk, 4 * max(tops))
    return spike + bulk


def is_physical(model: Model, s: Solution, slope: Array) -> bool:
    """Above the bulk: ρ < 0, q > 0 and ∂/∂λ tr R < 0; a solution that fails this is on another branch."""
    return s.converged and bool((s.rho < 0).all() and (s.q > 0).all() and model.w @ slope < 0)


def _symmetric(model: Model, s: Solution) -> tuple[Array, Array]:
    b = model.means.cases[0][1]
    root = np.sqrt(np.tile(-model.w * s.rho, b.shape[1] // s.rho.size))
    return root, root[:, None] * special_gram(model, b, s.rho, s.q).M * root


def special_eigenvalues(model: Model, s: Solution) -> Array:
    """Eigenvalues of |D₂|^½ M |D₂|^½, decreasing."""
    return np.linalg.eigvalsh(_symmetric(model, s)[1])[::-1]


def _refine(model: Model, above: Solution, below: Solution, k: int) -> Eigenvalue:
    """The outlier of the k-th eigenvalue between two solutions."""
    last = above

    def excess(E: float) -> float:
        nonlocal last
        last = newton(model, -E, last.rho, last.q, cap=0.3)
        return float(special_eigenvalues(model, last)[k]) - 1

    root_found = cast("float", brentq(excess, energy(below), energy(above), xtol=1e-10 * energy(above)))
    return at_pole(model, newton(model, -root_found, last.rho, last.q, cap=0.3), k)[1]


def _degrees(model: Model, s: Solution, count: int) -> tuple[int, ...]:
    """Of the leading eigenvectors, the Hermite degree that dominates; 0 when it is constant or about |x|, not about z."""
    root, matrix = _symmetric(model, s)
    leading, size = np.linalg.eigh(matrix)[1][:, ::-1][:, :count], model.w.size
    overlaps = (hermite_table(model.z, 8) @ (root[:, None] * leading)[:size]) ** 2
    _, group = np.unique(model.z, return_inverse=True)
    weight = np.bincount(group, model.w)

    def on_z(x: Array) -> float:
        return float(np.sum(np.bincount(group, np.sqrt(model.w) * x[:size]) ** 2 / weight))

    return tuple(
        dominant_degree(overlaps[:, k]) if model.z.any() and on_z(leading[:, k]) >= _MOSTLY_Z else 0
        for k in range(count)
    )
