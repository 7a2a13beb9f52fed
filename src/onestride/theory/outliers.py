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

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from onestride._numerics import Array, Float, hermite_table, monomials_in_hermite
from onestride.problem import Problem
from onestride.theory.direction import direction
from onestride.theory.profile.equations import Solution, newton
from onestride.theory.profile.build import build_model
from onestride.theory.profile.quadratic_form import special_gram
from onestride.theory.profile.sectors import Model
from onestride.theory.profile.strength import level_name

HIGHEST_OVERLAP = 4  # overlaps are given with H_0 … H_4
_ALL_DEGREES = 40  # enough for sums over every degree
_RARE = 0.03  # neuron nodes of weight below this over N are dropped: no neuron of a real network is there
_EDGE_ACCURACY = 1e-4
_STRENGTHS = 6


@dataclass(frozen=True)
class Outliers:
    """Predicted outliers of FFᵀ/n, largest first.

    edge: upper end of the bulk. leading: positions. overlaps, teacher_overlaps (outliers × 5): squared overlaps with
    H_k(β̂ᵀx) and H_k(β⋆ᵀx), k = 0 … 4. power_overlaps (outliers × 4): with (βᵀx)^k, k = 1 … 4. on_direction: squared
    length on all functions of β̂ᵀx. strengths: what the special sector reaches at the edge, 1 being the threshold,
    separated or not, with the degree of each in `degrees` (0: about the norm of x or a constant, not about a direction).
    """

    edge: float
    leading: Float[Array, "outliers"]
    overlaps: Float[Array, "outliers 5"]
    teacher_overlaps: Float[Array, "outliers 5"]
    power_overlaps: Float[Array, "outliers 4"]
    on_direction: Float[Array, "outliers"]
    strengths: Float[Array, "strengths"]
    degrees: tuple[int, ...]
    converged: bool

    @property
    def leading_degrees(self) -> tuple[int, ...]:
        """The Hermite degree that dominates each outlier."""
        return tuple(dominant_degree(row) for row in self.overlaps)

    def visible(self, degree: int) -> bool:
        """Whether a spike of this degree leaves the bulk."""
        pairs = zip(self.strengths, self.degrees, strict=True)
        return self.converged and any(value > 1 and k == degree for value, k in pairs)


def dominant_degree(overlaps: Array) -> int:
    """The degree with the largest of the squared overlaps with H_0, H_1, …, besides the constant.

    0 for a spike that is the constant (features that are not centred). The second spike is z², so H_0 comes with H_2.
    """
    return 0 if overlaps[0] > 10 * overlaps[1:].max() else int(np.argmax(overlaps[1:])) + 1


def crossing(values: Array) -> int | None:
    """Between which point of the walk down in E and the next an eigenvalue of the special sector reaches 1, if it does."""
    at = np.flatnonzero((values[:-1] < 1) & (values[1:] >= 1))
    return int(at[0]) if at.size else None


def spike_model(problem: Problem, level: str, nodes: int) -> Model:
    """The profile for spikes and the edge: without neurons that a real network of N has none of."""
    return build_model(problem, level, nodes=nodes, min_weight=_RARE / problem.N)


def find_outliers(problem: Problem, level: str = "isotropic", *, nodes: int = 41) -> Outliers:
    """Positions and overlaps of the outliers after the step, by the profile theory at `level`.

    Levels that resolve the spectrum of M do so on a few nodes, which leave gaps inside the bulk; their walk ends at the
    edge of the isotropic level at the latest.
    """
    floor = 0.0
    if level_name(level) not in ("rank-one", "isotropic"):
        isotropic = real_path(spike_model(problem, "isotropic", nodes))
        floor = _energy(isotropic[-1]) if isotropic else 0.0
    model = spike_model(problem, level, nodes)
    path = real_path(model, floor)
    spectra, found = _crossings(model, path)
    if not path or found is None:
        none = np.empty(0)
        empty = np.empty((0, HIGHEST_OVERLAP + 1))
        return Outliers(np.nan, none, empty, empty, empty[:, 1:], none, none, (), False)
    # the part of a vector that is h_k(t̂ᵀx) has inner product cos^k with h_k(uᵀx), cos = uᵀt̂
    amplitudes = np.array([a for _, a, _ in found]).reshape(-1, _ALL_DEGREES + 1)
    k = np.arange(_ALL_DEGREES + 1)
    along_beta = amplitudes * direction_cosine(model) ** k
    along_teacher = amplitudes * model.learned.overlap**k
    same = not model.learned.through_output
    kept = slice(0, HIGHEST_OVERLAP + 1)
    powers = monomials_in_hermite(HIGHEST_OVERLAP)[1:]
    powers /= np.linalg.norm(powers, axis=1, keepdims=True)
    return Outliers(
        edge=_energy(path[-1]),
        leading=np.array([E for E, _, _ in found]),
        overlaps=along_beta[:, kept] ** 2,
        teacher_overlaps=along_teacher[:, kept] ** 2,
        power_overlaps=(along_beta[:, kept] @ powers.T) ** 2,
        on_direction=np.array([total for _, _, total in found]) if same else (along_beta**2).sum(1),
        strengths=spectra[-1],
        degrees=_degrees(model, path[-1], spectra.shape[1]),
        converged=True,
    )


def _crossings(model: Model, path: list[Solution]) -> tuple[Array, list[tuple[float, Array, float]] | None]:
    """Leading eigenvalues of the special sector along the path, and the outlier of each that crosses 1.

    None where numbers of very different sizes leave no root to bracket, or a residue that is not positive.
    """
    spectra, found = np.empty((0, 0)), []
    try:
        spectra = np.array([special_eigenvalues(model, s)[:_STRENGTHS] for s in path])
        for k in range(spectra.shape[1] if path else 0):
            at = crossing(spectra[:, k])
            if at is not None:
                with np.errstate(all="ignore"):
                    found.append(_refine(model, path[at], path[at + 1], k))
    except (np.linalg.LinAlgError, ValueError):
        return spectra, None
    return spectra, found if all(np.isfinite(amplitudes).all() for _, amplitudes, _ in found) else None


def direction_cosine(model: Model) -> float:
    """β̂ᵀt̂ of the profile's direction: 1 when that is β, else t = (1 − c₁²η)p + c₁η(β + c₁p) and βᵀp = −c₁."""
    if not model.learned.through_output:
        return 1.0
    problem = model.problem
    c1, s, eta = problem.sigma.coefficients[1], direction(problem).s, problem.eta
    length = model.learned.amplitude * np.sqrt(problem.N)
    return float((c1 * eta * (s * s - c1**2) - c1 * (1 - c1**2 * eta)) / (length * s))


def real_path(model: Model, floor: float = 0.0, *, accuracy: float = _EDGE_ACCURACY) -> list[Solution]:
    """Solutions at λ = −E from far above the spectrum down to the bulk edge (or `floor`), to `accuracy` of it."""
    size, kind = model.w.size, model.theta.size
    plain = np.ones(kind)
    if not model.finite:  # pre-activations out of the range of the smoothed activation
        return []
    mean = _mean(model)
    start = (mean.T * (model.problem.N * model.weight)) @ mean
    root = np.sqrt(np.tile(model.w, mean.shape[1] // size))
    power = model.rest + sum(s.mean_strength[:, None] * s.K**2 for s in model.sectors)
    trace = model.weight @ (power @ model.w) * model.N_over_n
    E = 4 * float(np.linalg.eigvalsh(root[:, None] * start * root)[-1]) + 20 * float(trace) * (1 + model.problem.phi)
    path: list[Solution] = []
    rho, q, ratio = np.full(size, -1 / E), plain, 1.25
    with np.errstate(all="ignore"):
        while ratio - 1 > accuracy:
            found = newton(model, -E, rho, q, cap=0.3, steps=30)
            if _physical(model, found):
                path.append(found)
                rho, q = found.rho, found.q
            elif not path:
                return []
            else:
                ratio = 1 + (ratio - 1) / 2
            E = _energy(path[-1]) / ratio
            if floor > 0 and E / floor < 1:
                if _energy(path[-1]) / floor < 1 + accuracy:
                    break
                E = floor
    return path


def _mean(model: Model) -> Array:
    """The mean features b_k."""
    return model.means.cases[0][1]


def _physical(model: Model, s: Solution) -> bool:
    """Above the bulk: ρ < 0, q > 0 and ∂/∂λ tr R < 0; a solution that fails this is on another branch."""
    if not (s.converged and (s.rho < 0).all() and (s.q > 0).all()):
        return False
    return bool(model.w @ s.tangent(1.0)[0] < 0)


def _energy(s: Solution) -> float:
    return -float(np.real(s.lam))


def _symmetric(model: Model, s: Solution) -> tuple[Array, Array]:
    mean = _mean(model)
    root = np.sqrt(np.tile(-model.w * s.rho, mean.shape[1] // s.rho.size))
    return root, root[:, None] * special_gram(model, mean, s.rho, s.q)[0] * root


def special_eigenvalues(model: Model, s: Solution) -> Array:
    """Eigenvalues of |D₂|^½ M |D₂|^½, decreasing."""
    return np.linalg.eigvalsh(_symmetric(model, s)[1])[::-1]


def _refine(model: Model, above: Solution, below: Solution, k: int) -> tuple[float, Array, float]:
    """Position, inner products with h_0 … h_40(z) and squared length on all functions of z, between two solutions."""
    last = above

    def excess(E: float) -> float:
        nonlocal last
        last = newton(model, -E, last.rho, last.q, cap=0.3)
        return float(special_eigenvalues(model, last)[k]) - 1

    root_found: Any = brentq(excess, _energy(below), _energy(above), xtol=1e-10 * _energy(above))
    E = float(root_found)
    at = newton(model, -E, last.rho, last.q, cap=0.3)
    root, matrix = _symmetric(model, at)
    x = np.linalg.eigh(matrix)[1][:, -1 - k]
    v = root * x
    d_rho, d_q = at.tangent(1.0)
    dM = special_gram(model, _mean(model), at.rho, at.q, (d_rho, d_q))[1]
    moved = np.tile(model.w * d_rho, v.size // d_rho.size)
    residue = -np.sum(moved * x * x / root**2) + v @ dM @ v
    on_z = v[: model.w.size]
    amplitudes = hermite_table(model.z, _ALL_DEGREES) @ on_z / np.sqrt(residue)
    return E, amplitudes, float(np.sum(on_z**2 / model.w) / residue)


def _degrees(model: Model, s: Solution, count: int) -> tuple[int, ...]:
    """Of the leading eigenvectors, the Hermite degree that dominates; 0 when it is constant or about |x|, g·f(z)."""
    root, matrix = _symmetric(model, s)
    leading, size = np.linalg.eigh(matrix)[1][:, ::-1][:, :count], model.w.size
    overlaps = (hermite_table(model.z, 8) @ (root[:, None] * leading)[:size]) ** 2
    on_z = np.sum(leading[:size] ** 2, axis=0)
    return tuple(0 if on_z[k] < 0.5 else dominant_degree(overlaps[:, k]) for k in range(count))
