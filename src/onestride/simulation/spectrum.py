"""`measure_spectrum`: eigenvalues of FFᵀ/n after the exact step, and what its leading left singular vectors are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import eigh

from onestride._backend import Backend, DeviceArray, choose, on_host
from onestride._errors import InputError, is_whole, quoted, true_or_false
from onestride._numerics import Array, Bool, Float, hermite_table
from onestride._progress import shown
from onestride.drawing import Panel, Series
from onestride.problem import Problem, expect
from onestride.result import Estimate, Result
from onestride.shown import Variables
from onestride.simulation.arguments import OnProgress, seed_tuple
from onestride.simulation.features import feature_rows, told_of_overflow
from onestride.simulation.krylov import leading_eigenpairs
from onestride.simulation.memory import require_room, spectrum_memory
from onestride.simulation.network import (
    Batch,
    Gradient,
    at_exponents,
    draw_batch,
    draw_network,
    draw_teacher,
    drawn_weights,
    gradient,
    ridge_roles,
    step_batch,
    step_gradient,
)
from onestride.simulation.rows import Rows

HIGHEST_OVERLAP = 4  # overlaps are measured with H_0 … H_4
DIRECTION_DEGREE = 10  # "all functions of z" means polynomials up to this degree
_VALUES = (
    "eigenvalues",
    "untrained_eigenvalues",
    "leading",
    "overlaps",
    "teacher_overlaps",
    "power_overlaps",
    "on_direction",
    "alignment",
)


@dataclass(frozen=True, repr=False)
class MeasuredSpectrum(Result):
    """The spectrum of FFᵀ/n; the names of `theory.spectrum.Spectrum`, each an `Estimate` with seeds on the first axis.

    β is Xᵀr/n of the step; after several steps (W − W₀)ᵀa, along which they have moved the neurons together.

    eigenvalues, untrained_eigenvalues
        All min(n, N) eigenvalues of FFᵀ/n and of F₀F₀ᵀ/n on the same draw, increasing; without a full decomposition
        only the leading ones, and the largest of F₀F₀ᵀ/n.
    leading
        The largest eigenvalues of FFᵀ/n, decreasing; outliers or not.
    overlaps, teacher_overlaps
        Axes (seeds, leading, k): squared overlap of the left singular vector with H_k(X̃β/|β|), with H_k(X̃β⋆).
    power_overlaps
        Axes (seeds, leading, k − 1): squared overlap with the power (X̃β)^k, k = 1 … 4, the spikes of the paper.
    on_direction
        Axes (seeds, leading): squared length of its projection on polynomials of X̃β/|β| of degree ≤ 10, less the
        11/n expected of a random vector.
    alignment
        β⋆ᵀβ/|β| of the draw.
    """

    _told = ("seeds", *_VALUES[2:], "untrained_edge", "outliers")
    _brief = ("leading", "outliers", "untrained_edge", "alignment")
    _equation = "eigenvalues of FFᵀ/n, F = σ(X̃Wᵀ)"

    problem: Problem
    seeds: tuple[int, ...]
    eigenvalues: Estimate = field(repr=False)
    untrained_eigenvalues: Estimate = field(repr=False)
    leading: Estimate
    overlaps: Estimate
    teacher_overlaps: Estimate
    power_overlaps: Estimate
    on_direction: Estimate
    alignment: Estimate

    def panels(self) -> Sequence[Panel]:
        """The eigenvalues of all seeds as a histogram, and the means of the leading ones."""
        every = self.eigenvalues.values.ravel()
        heights, edges = np.histogram(every, bins=60, density=True)
        marks = [(float(place), "") for place in self.leading.mean[:6]]
        series = [Series("simulated", edges, heights, kind="histogram")]
        return [Panel("spectrum of FFᵀ/n", "eigenvalue", "density", series, verticals=marks)]

    def _axes(self) -> dict[str, Sequence[int]]:
        count = self.leading.values.shape[1]
        return {"seed": self.seeds, "place": range(1, count + 1), "k": range(self.overlaps.values.shape[2])}

    def _variables(self) -> Variables:
        found: Variables = {
            name: (("seed", "place"), getattr(self, name).values) for name in ("leading", "on_direction")
        }
        found |= {
            name: (("seed", "place", "k"), getattr(self, name).values) for name in ("overlaps", "teacher_overlaps")
        }
        return found | {
            name: (("seed",), getattr(self, name).values) for name in ("alignment", "untrained_edge", "outliers")
        }

    @property
    def untrained_edge(self) -> Estimate:
        """The largest eigenvalue of F₀F₀ᵀ/n."""
        return Estimate(self.untrained_eigenvalues.values[:, -1])

    @property
    def outliers(self) -> Estimate:
        """How many of `leading` are spikes, judged from data alone, per seed."""
        edge = self.untrained_eigenvalues.values[:, -1:]
        return Estimate(are_spikes(self.leading.values, edge, self.on_direction.values).sum(1).astype(float))


def are_spikes(leading: Array, edge: Array, on_direction: Array) -> Bool[Array, "seeds leading"]:
    """A spike lies above every eigenvalue of F₀F₀ᵀ/n and more than half of its vector is a function of X̃β.

    The first condition alone would not do: after a strong step the bulk itself is wider.
    """
    return (leading > edge) & (on_direction > 0.5)


def measure_spectrum(
    problem: Problem,
    seeds: int | Iterable[int] = 4,
    *,
    count: int = 6,
    full: bool = True,
    device: str | None = None,
    progress: OnProgress | bool | None = None,
) -> MeasuredSpectrum:
    """Measure the spectrum of FFᵀ/n and the overlaps of its `count` leading left singular vectors.

    Draws are those of `simulate`, seed by seed; β is the learned direction (`MeasuredSpectrum`), β⋆ the teacher's first. The features are those
    of the ridge regression: F = σ(X̃Wᵀ) on fresh X̃.

    full
        False: only the leading eigenvalues, from a few dozen products with F instead of a whole decomposition.
    device
        As in `simulate_grid`.

    >>> problem = one.Problem(n=60, d=30, N=40, step=one.Step(exponent=0.3))
    >>> one.measure_spectrum(problem, seeds=2, count=3).leading.values.shape
    (2, 3)
    """
    expect(problem)
    how: dict[str, Any] = {"count": count, "full": full, "device": device, "progress": progress}
    return measure_spectrum_along(problem, [problem.step.exponent], seeds, **how)[0]


@told_of_overflow
def measure_spectrum_along(
    problem: Problem,
    exponents: Sequence[float],
    seeds: int | Iterable[int] = 4,
    *,
    count: int = 6,
    full: bool = True,
    device: str | None = None,
    progress: OnProgress | bool | None = None,
) -> list[MeasuredSpectrum]:
    """`measure_spectrum` at each exponent of the step: they share the draws, the gradient and the spectrum without a step."""
    true_or_false(full=full)
    seed_list, chosen = seed_tuple(seeds), at_exponents(problem, exponents)
    top = min(problem.n, problem.N)
    if not is_whole(count) or not 1 <= count <= top:
        raise InputError(f"count must be a whole number from 1 to min(n, N) = {top}, got {quoted(count)}")
    if problem.sigma.second_moment == 0:
        raise InputError(
            f"activation must not be 0 everywhere, got {problem.sigma.name!r}: its features have no spectrum"
        )
    rows: list[list[dict[str, Array]]] = []
    backend = choose(device)
    room = spectrum_memory(problem, int(count), backend, full=full)
    require_room(problem, room.memory, backend)
    with shown(progress, "measuring the spectrum") as tell:
        for i, seed in enumerate(seed_list):
            rows.append(_one_seed(chosen, seed, int(count), full, backend, stored=room.stores_features))
            tell(i + 1, len(seed_list))
    return [
        MeasuredSpectrum(at, seed_list, *(Estimate(np.stack([seed[k][name] for seed in rows])) for name in _VALUES))
        for k, at in enumerate(chosen)
    ]


def _one_seed(
    problems: Sequence[Problem], seed: int, count: int, full: bool, backend: Backend, *, stored: bool
) -> list[dict[str, Array]]:
    """The values of one seed after each of the steps."""
    problem, n = problems[0], problems[0].n
    beta_star = draw_teacher(problem, seed)
    network = draw_network(problem, seed)
    step = step_gradient(problem, network, seed, backend)
    untrained, *trained = drawn_weights(problems, network, seed, backend, step)
    X = draw_batch(problem, seed, ridge_roles(problem)[0], None, n).X
    rows = partial(feature_rows, problem, backend.put(X), backend=backend, stored=stored)
    before, _ = decompose(rows(untrained()), n, 0, full=full)
    a, taught = backend.put(network.a), hermite_table(X @ beta_star, HIGHEST_OVERLAP)
    output = backend.get(untrained().T @ a)
    out: list[dict[str, Array]] = []
    for W in trained:
        beta = step.beta if problem.steps == 1 else backend.get(W().T @ a) - output
        beta = beta / (np.linalg.norm(beta) or 1.0)  # labels that are all 0 have no direction
        after, vectors = decompose(rows(W()), n, count, full=full)
        out.append(
            {
                "eigenvalues": after,
                "untrained_eigenvalues": before,
                "leading": after[::-1][:count],
                **_along(X @ beta, vectors),
                "teacher_overlaps": _overlaps(vectors, taught),
                "alignment": np.array(beta @ beta_star),
            }
        )
    return out


def _along(z: Float[Array, "n"], vectors: Float[Array, "n leading"]) -> dict[str, Array]:
    """What of the vectors are functions of z."""
    polynomials, chance = hermite_table(z, DIRECTION_DEGREE), (DIRECTION_DEGREE + 1) / z.size
    powers = np.stack([polynomials[1] ** k for k in range(1, HIGHEST_OVERLAP + 1)])
    basis, _ = np.linalg.qr(polynomials.T)
    on_direction = ((basis.T @ vectors) ** 2).sum(0)
    return {
        "overlaps": _overlaps(vectors, polynomials[: HIGHEST_OVERLAP + 1]),
        "power_overlaps": _overlaps(vectors, powers),
        "on_direction": np.maximum(on_direction - chance, 0.0) / max(1 - chance, chance),
    }


def decompose(
    rows: Rows, n: int, count: int, *, full: bool = True
) -> tuple[Float[Array, "values"], Float[Array, "n count"]]:
    """Eigenvalues of FFᵀ/n, increasing, and the `count` leading left singular vectors as columns (n × count).

    `rows` are those of Fᵀ when n ≤ N, else of F. All min(n, N) eigenvalues, or only as many as vectors unless `full`:
    then from products with F alone.
    """
    backend, xp = rows.backend, rows.backend.xp
    if not all(np.isfinite(float(xp.linalg.vector_norm(tile))) for _, tile in rows):
        raise OverflowError
    if full:
        values, vectors = _eigenpairs(rows.gram(backend.dtype), count, backend)
    else:
        values, vectors = leading_eigenpairs(rows, max(count, 1))
        values, vectors = values[::-1], vectors[:, :count]
    if rows.width < n:  # right singular vectors: u = Fv/|Fv|
        vectors = rows @ vectors
        vectors = vectors / xp.sqrt(xp.sum(vectors * vectors, axis=0))
    return values / n, backend.get(vectors)


def _eigenpairs(K: DeviceArray, count: int, backend: Backend) -> tuple[Array, DeviceArray]:
    """All eigenvalues of K, increasing, and the `count` last vectors, the largest first; K as `Rows.gram` leaves it."""
    xp, m = backend.xp, K.shape[0]
    if on_host(K):
        values, vectors = eigh(K, lower=False, eigvals_only=True, check_finite=False), np.empty((m, 0))
        if count:
            wanted = [m - count, m - 1]
            _, vectors = eigh(K, lower=False, subset_by_index=wanted, overwrite_a=True, check_finite=False)
        vectors = vectors[:, ::-1]
    elif count:
        values, vectors = xp.linalg.eigh(K)
        vectors = xp.flip(vectors[:, m - count :], axis=1)
    else:
        values, vectors = xp.linalg.eigvalsh(K), backend.empty(m, 0)
    return np.maximum(backend.get(values), 0.0), vectors


def _overlaps(
    vectors: Float[Array, "n leading"], polynomials: Float[Array, "degrees n"]
) -> Float[Array, "leading degrees"]:
    """(uᵀh)²/|h|² for unit columns u and rows h: shape (leading, polynomials)."""
    inner = polynomials @ vectors
    return (inner**2 / (polynomials**2).sum(1)[:, None]).T


def leading_vectors(
    problem: Problem, seed: int, count: int, *, device: str | None = None
) -> tuple[Float[Array, "n"], Float[Array, "n count"]]:
    """X̃β/|β| (n) and the `count` leading left singular vectors of F (n × count, unit columns) of one draw."""
    X, vectors, _, step = _after_step(problem, seed, count, choose(device))
    return X @ step.beta / np.linalg.norm(step.beta), vectors


def largest_sample_share(problem: Problem, seed: int, k: int, *, device: str | None = None) -> float:
    """How much of the k-th leading left singular vector of F (from 1) is a cubic polynomial, without constant, of x⋆ᵀx.

    x⋆ is the input of the step whose residual is largest: a sample that the gradient may remember on its own.
    """
    X, vectors, batch, step = _after_step(problem, seed, k, choose(device))
    powers = np.vander(X @ batch.X[np.abs(step.residual).argmax()] / np.sqrt(problem.d), 4)[:, :3]
    basis, _ = np.linalg.qr(powers - powers.mean(0))
    return float(((basis.T @ vectors[:, k - 1]) ** 2).sum())


def _after_step(problem: Problem, seed: int, count: int, backend: Backend) -> tuple[Array, Array, Batch, Gradient]:
    """X̃, the `count` leading left singular vectors of F after one step, the samples of the step and its gradient."""
    room = spectrum_memory(problem, count, backend, full=True)
    require_room(problem, room.memory, backend)
    network, batch = draw_network(problem, seed), step_batch(problem, seed)
    step = gradient(problem, network, batch, backend)
    X = draw_batch(problem, seed, ridge_roles(problem)[0], None, problem.n).X
    W = network.W0 + problem.eta * step.G
    _, vectors = decompose(feature_rows(problem, X, W, backend, stored=room.stores_features), problem.n, count)
    return X, vectors, batch, step
