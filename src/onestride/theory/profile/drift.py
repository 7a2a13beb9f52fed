"""The mean features when inputs have a covariance: what neurons do along the directions of a step, on average given their kind.

A neuron's kind is (A, ξ), ξ its weights along the coordinates u of the rows (`along`, with G_k, κ_k, F_k and b). Given them

    drift    the other weights have mean G_ku κ_k⁻¹ω_u: features K along Σu, Σ²u, b and M̃b; sector 1 counts that much too much
    squares  (one direction) along e, the unlearned part of the teacher, ω_e = drift + own: in e ⊗ e of degree two its square has a mean
             and a part in proportion to `own`, which sector 1 has along e
    length   v = wᵀΣw moves with ω_u; its spread is 2(S₂ − 1)/d on the sphere (2S₂/d for Gaussian rows), new for each neuron
    own      the literal gradient lengthens a neuron: 2τ wᵀΣγ_j, of variance (E r²/n)(S₂²(Eψ² − ψ₀² − ψ₁²) + (S₃ − S₂²)Var σ')
    mean     2ντ tr(ΣM)/d moves all of them, of variance (E r²/n)(S₂² + 2S₄/d)
    memory   xᵀMx/d varies over x by 2E r²S₂²/n
    output   1 + a_jℓ·w_j is a neuron's squared length, ℓ = −2p (sphere) + 12c₃ηS₂Xᵀr/n: length and weights along Σ^{1/2}ℓ go together

The last four are those of `memory`, for Σ = I the same.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onestride._numerics import Array, Float, Int
from onestride.problem import Problem
from onestride.theory.profile.along import Across, Weights
from onestride.theory.profile.anisotropy import Directions, Vector
from onestride.theory.profile.coupled import Blocks
from onestride.theory.profile.memory import own_slope
from onestride.theory.profile.moves import Moves
from onestride.theory.profile.sectors import Means, columns

AGAIN = "moved by M: "  # begins the names of directions M̃b
_UNSEEN = 1e-4  # of the largest column: errors change by less than 1e-4
_MEANT = 3e-5  # columns of the mean features over the largest: errors change by 3e-6


class Second(NamedTuple):
    """Degree two for a teacher of one direction: K = X Y as in its sector, the dimension of that, and the teacher's part."""

    X: Float[Array, "k r"]
    Y: Float[Array, "r i"]
    dim: float
    h: Float[Array, "i"]
    across: Across

    def parts(self, kinds: Weights) -> tuple[Float[Array, "k r"], Float[Array, "k r"]]:
        """What e ⊗ e has of ω_e²: of its mean, and per unit of its own part beside that, ω_e² being (drift·ξ + own)²/d."""
        along = (self.across.drift * kinds.xi).sum(1)
        scale = kinds.ratio / (kinds.off * kinds.grown) / np.sqrt(2 * self.dim)
        mean = along**2 - (self.across.drift**2).sum(1)
        return tuple(self.X * (scale * part)[:, None] for part in (mean, 2 * along * np.sqrt(self.across.own)))


def moved_means(
    problem: Problem,
    at: Directions,
    moves: Moves,
    kinds: Weights,
    parts: Float[Array, "parts k i"],
    teacher: tuple[Float[Array, "i"], Float[Array, "i m"]],
    w: Float[Array, "i"],
    linear: tuple[Float[Array, "k r"], Float[Array, "r i"]],
    second: Second | None,
    lengths: float,
) -> tuple[Means, dict[str, Vector], tuple[Array, ...], tuple[Array, ...]]:
    """The special sector without its masses; its directions by name, their columns, and what sector 1 counts too much.

    K = X Y as in `linear`; lengths: the standard deviation of a neuron's own length that is not in its node.
    """
    u, carried = at.rows, _carried(at, moves, lifted=second is not None)
    taught = {f"teacher{a}": e for a, e in enumerate(at.teacher.e)}
    (X, Y), count = linear, kinds.A.size
    both, B, *_ = columns(np.concatenate([parts[0], parts[-1]]), w, np.tile(kinds.weight, 2), least=_MEANT)
    b, e = both[:count], both[count:]
    bases = {"f": np.vstack([B, teacher[0]]), "memory": B} | dict.fromkeys(carried, Y)
    bases |= {name: np.vstack([Y, h]) for name, h in zip(taught, teacher[1].T, strict=True)}
    if second is not None:
        bases["squared"] = np.vstack([second.Y, second.h])
    blocks = Blocks(bases, count)
    # K per unit of ω_j √d
    column = X * np.sqrt(kinds.ratio / ((problem.d - len(u)) * kinds.off * kinds.grown))[:, None]
    towards = _drifts(at, kinds)
    less = [blocks.vector(**{name: column * c[:, j, None] for name, c in towards.items()}) for j in range(len(u))]
    drift = sum(kinds.xi[:, j, None] * part for j, part in enumerate(less))
    per_weight = X / np.sqrt(kinds.v)[:, None]
    drift = drift + blocks.vector(**{f"further{j}": per_weight * m[kinds.at, None] for j, m in enumerate(moves.on.T)})
    bent = {f"twice{j}": per_weight * m[:, None] for j, m in enumerate((kinds.bent.twice @ _shares(at).T).T)}
    drift = drift + blocks.vector(
        **bent, **{f"star{a}": per_weight * m[:, None] for a, m in enumerate(kinds.bent.star.T)}
    )
    added, taken = _batch_parts(at, kinds, blocks, column)
    with_pull, pulled = _pulled(problem, at, moves, kinds, blocks, e, column, less)
    independent = [
        *(blocks.vector(f=part) for part in _lengths(problem, at, moves, kinds, e, lengths)),
        *added,
        *with_pull,
    ]
    drifts, less = less, [*less, *taken, *pulled]
    if second is not None:
        mean, beside = second.parts(kinds)
        drift = drift + blocks.vector(squared=mean)
        less.append(_beside(at, second.across, blocks, column, drifts))
        independent.append(less[-1] + blocks.vector(squared=beside))
    cases = [
        (p, blocks.vector(f=b + mean, memory=memory) + drift)
        for p, mean, memory in _of_the_batch(problem, at, moves, kinds, e)
    ]
    h = np.concatenate([np.eye(len(B))[-1] * (name in ("f", "squared", *taught)) for name, B in blocks.bases.items()])
    used, bases = _used(blocks, list(carried), [*(b for _, b in cases), *independent, *less], kinds.weight)
    means = Means(tuple((p, b[:, used]) for p, b in cases), tuple(b[:, used] for b in independent), h[used])
    return means, carried | taught, bases, tuple(b[:, used] for b in less)


def _carried(at: Directions, moves: Moves, *, lifted: bool) -> dict[str, Vector]:
    """The directions that features are carried along, by name: Σu, Σ²u, b, M̃b, the pull, further ones, and Σe where degree two has e ⊗ e."""
    frame, lam, u = at.frame, at.sigma.eigenvalues, at.rows
    carried = {f"sigma{j}": frame.off(lam * x, u) for j, x in enumerate(_turning(at))}
    carried |= {f"twice{j}": frame.off(lam**2 * x, u) for j, x in enumerate(_turning(at))}
    batch = [*(frame.off(b, u) for b in at.batch), *at.batch]
    carried |= dict(zip(_of_batch(at), batch, strict=True))
    carried["pull"] = frame.off(at.pull, u)
    carried |= {f"further{j}": x for j, x in enumerate(moves.further)}
    return carried | ({"lifted": frame.off(lam * at.teacher.e[0], u)} if lifted else {})


def _used(
    blocks: Blocks, names: list[str], vectors: list[Array], weight: Float[Array, "k"]
) -> tuple[Int[Array, "m"], tuple[Array, ...]]:
    """Columns of which neurons have more than `_UNSEEN` of the largest among those of the directions named, or for memory of the mean
    features', one of each at least; and the bases without the others.
    """
    size = np.sqrt(sum(weight @ np.square(vector) for vector in vectors))
    ends = [0, *np.cumsum([len(B) for B in blocks.bases.values()]).tolist()]
    parts = {name: np.arange(ends[j], ends[j + 1]) for j, name in enumerate(blocks.bases)}
    largest = max(float(size[parts[name]].max()) for name in names)
    kept = {name: slice(None) for name in parts}
    for name, scale in {"memory": float(size[parts["f"]].max()), **dict.fromkeys(names, largest)}.items():
        seen = np.flatnonzero(size[parts[name]] > _UNSEEN * scale)
        kept[name] = slice(1 + (seen[-1] if seen.size else 0))
    used = np.concatenate([parts[name][kept[name]] for name in parts])
    return used, tuple(B[kept[name]] for name, B in blocks.bases.items())


def _of_batch(at: Directions) -> list[str]:
    """Names of the directions that the batch knows."""
    names = [*(f"star{a}" for a in range(len(at.batch) - 1)), "noise"]
    return [*names, *(AGAIN + name for name in names)]


def _turning(at: Directions) -> list[Vector]:
    """The rows' coordinates u whose Σu off them are directions of their own: a spike's is not, v = αu + βu₂ being an eigenvector."""
    return at.rows[:1] if at.sigma.spike is not None else at.rows


def _shares(at: Directions) -> Float[Array, "turning u"]:
    """Σu of every coordinate of the rows, off them, on those of `_turning`: for a spike's (Σu₂)_⊥ = −(α/β)(Σu)_⊥."""
    frame, lam, u = at.frame, at.sigma.eigenvalues, at.rows
    if at.sigma.spike is None:
        return np.eye(len(u))
    first = frame.off(lam * u[0], u)
    norm = frame.inner(first, first)
    others = (frame.inner(frame.off(lam * x, u), first) / norm if norm > 1e-12 else 0.0 for x in u[1:])
    return np.array([[1.0, *others]])


def _drifts(at: Directions, kinds: Weights) -> dict[str, Float[Array, "k u"]]:
    """G_ku L_k⁻ᵀ along the carried directions."""
    sigma = _shares(at) @ kinds.spread
    batch = kinds.towards @ kinds.spread
    known = dict(zip(_of_batch(at), np.moveaxis(batch, 1, 0), strict=True))
    for j, part in enumerate(np.moveaxis(sigma, 1, 0)):
        known |= {f"sigma{j}": part, f"twice{j}": kinds.noise[:, None] * part}
    return known


def _beside(at: Directions, across: Across, blocks: Blocks, column: Array, drifts: list[Array]) -> Float[Array, "k m"]:
    """Weights that go with a neuron's own along e: (G_ke − drift)/√own."""
    batch = {name: column * x[:, None] for name, x in zip(_of_batch(at), across.batch.T, strict=True)}
    whole = blocks.vector(lifted=column, **batch)
    told = sum(x[:, None] * part for x, part in zip(across.drift.T, drifts, strict=True))
    return (whole - told) / np.sqrt(across.own)[:, None]


def _batch_parts(at: Directions, kinds: Weights, blocks: Blocks, column: Array) -> tuple[list[Array], list[Array]]:
    """F_k as squares, those that add and those that take away."""
    values, vectors = np.linalg.eigh(kinds.batch)
    out: tuple[list[Array], list[Array]] = ([], [])
    for j in range(values.shape[1]):
        for sign, parts in zip((1, -1), out, strict=True):
            size = np.sqrt(np.maximum(sign * values[:, j], 0.0))
            if size.any():
                each = {name: column * (size * vectors[:, i, j])[:, None] for i, name in enumerate(_of_batch(at))}
                parts.append(blocks.vector(**each))
    return out


def left_over(at: Directions) -> tuple[float, float]:
    """Tr Σ_c²/d and eᵀΣ_ce (of several e their mean) of Σ_c = Σ − Σu κ⁻¹ uᵀΣ over what is left of the trace, Σ_c the covariance given the
    weights along the rows' coordinates.
    """
    sigma, frame, e, d = at.sigma, at.frame, at.teacher.e, at.sigma.eigenvalues.size
    first, across, third = (frame.gram(at.rows, at.rows, sigma.eigenvalues**k) for k in (1, 2, 3))
    off, inverse = 1 - float(np.trace(first)) / d, np.linalg.inv(first)
    taken = 2 * np.trace(inverse @ third) - np.trace(inverse @ across @ inverse @ across)
    to_e = frame.gram(at.rows, e, sigma.eigenvalues)
    along = float(np.trace(frame.gram(e, e, sigma.eigenvalues) - to_e.T @ inverse @ to_e)) / len(e)
    return max((sigma.moment(2) - taken / d) / off**2, 0.5), max(along / off, 1e-3)


def _lengths(
    problem: Problem, at: Directions, moves: Moves, kinds: Weights, e: Float[Array, "k r"], before: float
) -> list[Float[Array, "k r"]]:
    """What is new for each neuron in its squared length: before the step, and by its own gradient."""
    sigma, S = problem.sigma, at.sigma.moment
    slope = S(2) ** 2 * own_slope(sigma) + (S(3) - S(2) ** 2) * sigma.derivative_variance
    own = np.sqrt(slope) * moves.own[kinds.at] * kinds.aside / kinds.v
    return [size * e for size in (before, own[:, None])]


def _of_the_batch(
    problem: Problem, at: Directions, moves: Moves, kinds: Weights, e: Float[Array, "k r"]
) -> list[tuple[float, Array, Array]]:
    """(probability, what tr(ΣM)/d adds, what xᵀMx/d multiplies) at three values of the former."""
    noise, S = moves.residual, at.sigma.moment
    shared = e * (2 * kinds.quadratic * kinds.aside / kinds.v)[:, None]
    memory = np.sqrt(2 * noise) * S(2) * shared
    root = np.sqrt(3 * noise * (S(2) ** 2 + 2 * S(4) / problem.d))
    if root == 0 or not kinds.quadratic.any():
        return [(1.0, 0 * shared, memory)]
    return [(p, mean * shared, memory) for mean, p in ((0.0, 2 / 3), (root, 1 / 6), (-root, 1 / 6))]


def _pulled(
    problem: Problem,
    at: Directions,
    moves: Moves,
    kinds: Weights,
    blocks: Blocks,
    e: Float[Array, "k r"],
    column: Array,
    drifts: list[Array],
) -> tuple[list[Array], list[Array]]:
    """Length and weights along Σ^{1/2}ℓ, given ω_u: one variable in both; sector 1 has the latter already."""
    frame, pull = at.frame, kinds.known.pull
    left = at.own - (pull**2).sum(1)
    if np.max(left) <= 1e-12:
        return [], []
    size = np.sqrt(np.maximum(left, 1e-12))
    moved = kinds.quadratic[:, None] * (
        moves.mean @ np.array([frame.inner(at.pull, b / at.sigma.eigenvalues) for b in at.batch])
    )
    along = blocks.vector(
        pull=column, **{name: column * x[:, None] for name, x in zip(_of_batch(at), moved.T, strict=False)}
    )
    along = (along - sum(x[:, None] * part for x, part in zip(pull.T, drifts, strict=True))) / size[:, None]
    size = kinds.A / np.sqrt(float(problem.N) * problem.d) * size / kinds.aside
    return [blocks.vector(f=e * size[:, None]) + along], [along]
