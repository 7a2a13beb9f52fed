"""What neurons do along the directions of a step when the inputs have a covariance: their weights, and the mean features.

Before the step ω = Σ^{1/2}w has covariance Σ/d, after it G_k/d, G_k = Σ + x_kΣ² + b F_k bᵀ (`covariance`), where the batch knows
two directions b₁ = Σs and b₂ = Σ^{1/2}ν: given ν a sample is x_i = z⋆Σβ⋆ + r_iν/E r² + a fresh part, so

    E M = [Σβ⋆ ν] m [Σβ⋆ ν]ᵀ,   m = [[E r(z⋆² − 1), E r²z⋆/E r²], [·, E r³/(E r²)²]],
    F_k = 2ν_k m + ν_k² m B m + τ²φ₀ Var σ' S,   B_ab the inner products, S the same moments with r² in the place of r.

(A teacher of several directions has a b for each of them, and E r(uuᵀ − I), E r²u/E r².)

Along the coordinates u of the rows weights have covariance κ_k = uᵀG_ku, ω_u = L_kξ/√d with L_kL_kᵀ = κ_k. Given them

    drift    the other weights have mean G_ku κ_k⁻¹ω_u: features K along Σu, Σ²u, b₁ and b₂; sector 1 counts that much too much
    length   v = wᵀΣw moves with ω_u; its spread is 2(S₂ − 1)/d on the sphere (2S₂/d for Gaussian rows), new for each neuron
    own      the literal gradient lengthens a neuron: 2τ wᵀΣγ_j, of variance (E r²/n)(S₂²(Eψ² − ψ₀² − ψ₁²) + (S₃ − S₂²)Var σ')
    mean     2ντ tr(ΣM)/d moves all of them, of variance (E r²/n)(S₂² + 2S₄/d)
    memory   xᵀMx/d varies over x by 2E r²S₂²/n
    output   1 + a_jℓ·w_j is a neuron's squared length, ℓ = −2p (sphere) + 12c₃ηS₂Xᵀr/n: length and weights along Σ^{1/2}ℓ go together

The last four are those of `memory`, for Σ = I the same.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from onestride._numerics import Array, Float, Int
from onestride.problem import Problem
from onestride.theory.profile.anisotropy import Directions, Vector
from onestride.theory.profile.memory import own_slope
from onestride.theory.profile.moves import Moves
from onestride.theory.profile.sectors import Means, in_few_columns

AGAIN = "moved by M: "  # begins the names of directions Mb
LEAST = 0.1  # of the variance left to a neuron: no real one has a_j near 1


class Bent(NamedTuple):
    """What degree three of σ adds for ω_u² beyond its mean: to θ, and along Σ²u and Σs_a.

    A step moves ω by τΣ(6c₃(β·w)ω + 3c₃T(s·ω, s·ω)s), T = E[g H₃(u)]; `directions` has the mean of it.
    """

    theta: Float[Array, "k u"]
    twice: Float[Array, "k u"]
    star: Float[Array, "k a"]

    @classmethod
    def of(cls, problem: Problem, at: Directions, a: Float[Array, "k"], xi: Float[Array, "k u"], known: Known) -> Bent:
        """With y = κ⁻¹ω_u: Σ²u (βᵀΣ^{1/2}u y)y and Σs T(sᵀΣu y, sᵀΣu y), less their means."""
        frame, lam, u = at.frame, at.sigma.eigenvalues, at.rows
        kappa, across = frame.gram(u, u, lam), frame.gram(u, u, lam**2)
        told = np.linalg.inv(kappa) @ known.first / np.sqrt(problem.d)
        yy = told @ (xi[:, :, None] * xi[:, None, :] - np.eye(len(u))) @ told.transpose(0, 2, 1)
        along = np.array([frame.inner(at.bend, x) for x in u])
        to_stars = frame.gram(at.batch[:-1], u)
        once = problem.steps == 1
        T = 3 * once * problem.sigma.coefficients[3] * problem.eta * problem.target.tensor(3)
        twice = a[:, None] * (yy @ along)
        star = a[:, None] * np.einsum("abc,au,bv,kuv->kc", T, to_stars, to_stars, yy)
        return cls(twice @ across + star @ to_stars, twice, star)


class Weights(NamedTuple):
    """Neurons (A, ξ): θ along the coordinates of the rows, v = wᵀΣw off them, probabilities.

    at: which readout of the moves. quadratic: ν_k. noise: x_k. grown: tr G_k/d. ratio: share of v that is not along further directions. off: the share of tr Σ that is not along
    the coordinates of the rows. batch: F_k. spread: L_k⁻ᵀ, so that κ_k⁻¹ω_u = L_k⁻ᵀξ/√d. towards: F_k bᵀu.
    """

    A: Float[Array, "k"]
    at: Int[Array, "k"]
    xi: Float[Array, "k u"]
    weight: Float[Array, "k"]
    theta: Float[Array, "k u"]
    v: Float[Array, "k"]
    aside: Float[Array, "k"]
    quadratic: Float[Array, "k"]
    noise: Float[Array, "k"]
    grown: Float[Array, "k"]
    ratio: Float[Array, "k"]
    off: float
    batch: Float[Array, "k b b"]
    spread: Float[Array, "k u u"]
    towards: Float[Array, "k b u"]
    known: Known
    bent: Bent

    @classmethod
    def after(
        cls,
        problem: Problem,
        at: Directions,
        moves: Moves,
        which: Int[Array, "k"],
        xi: Float[Array, "k u"],
        weight: Float[Array, "k"],
        gram: Callable[[int], Float[Array, "u u"]],
    ) -> Weights:
        """The neurons after the steps."""
        d, lam, A, frame = problem.d, at.sigma.eigenvalues, moves.A[which], at.frame
        nu, noise, kept = moves.quadratic[which], moves.noise[which], moves.kept(lam)
        grown = (kept**2 @ lam / d)[which] + noise * at.sigma.moment(2)
        F = _by_the_batch(at, moves, which)
        to_batch = np.pad(frame.gram(at.batch, at.rows), ((0, len(at.batch)), (0, 0)))
        towards = F @ to_batch
        first = np.array([[lam * frame.dot(u, v) for v in at.rows] for u in at.rows])
        kappa: Array = (
            np.moveaxis(first @ kept.T**2, 2, 0)[which] + noise[:, None, None] * gram(2) + to_batch.T @ towards
        )
        L = np.linalg.cholesky(kappa)
        spread = np.linalg.inv(L).transpose(0, 2, 1)
        known = Known.of(at, moves, which, first, spread)
        bent = Bent.of(problem, at, A / np.sqrt(problem.N), xi, known)
        theta = moves.learned[which] + np.einsum("kab,kb->ka", L, xi) / np.sqrt(d) + bent.theta
        aside = _aside(problem, at, A / np.sqrt(problem.N), xi, known, gram)
        # per coordinate that is not one of the rows
        off, v = (d - float(np.trace(gram(1)))) / (d - len(at.rows)), aside * grown + (moves.on[which] ** 2).sum(1)
        strengths = (nu, noise, grown, aside * grown / v, off)
        return cls(A, which, xi, weight, theta, v, aside, *strengths, F, spread, towards, known, bent)

    def stretch(self, at: Directions) -> Float[Array, "k"]:
        """E/G: the variance of a neuron's weights along the teacher's unlearned directions (their mean) relative to that without F."""
        frame, lam, e = at.frame, at.sigma.eigenvalues, at.teacher.e
        to_e, first = frame.gram(at.batch, e), (float(np.trace(frame.gram(e, e, lam**power))) for power in (1, 2))
        plain = next(first) + self.noise * next(first)
        return 1 + np.einsum("ae,kab,be->k", to_e, self.batch[:, : len(to_e), : len(to_e)], to_e) / plain


class Across(NamedTuple):
    """Weights along e, the teacher's only unlearned direction: √d times their mean is drift·ξ, their variance beside it own/d."""

    drift: Float[Array, "k u"]
    own: Float[Array, "k"]
    whole: Float[Array, "k"]

    @classmethod
    def of(cls, at: Directions, moves: Moves, kinds: Weights) -> Across:
        """G_k between e and the rows' coordinates, given them, and along e."""
        frame, lam, e = at.frame, at.sigma.eigenvalues, at.teacher.e[0]
        kept, to_e = moves.kept(lam)[kinds.at] ** 2, frame.gram(at.batch, [e])[:, 0]
        first = np.array([lam * frame.dot(e, x) for x in (*at.rows, e)]).T
        first = kept @ first + np.multiply.outer(kinds.noise, lam @ first)
        first[:, :-1] += np.einsum("a,kau->ku", to_e, kinds.towards[:, : to_e.size])
        first[:, -1] += kinds.batch[:, : to_e.size, : to_e.size] @ to_e @ to_e
        drift = np.einsum("ku,kuv->kv", first[:, :-1], kinds.spread)
        return cls(drift, np.maximum(first[:, -1] - (drift**2).sum(1), 0.01 * first[:, -1]), first[:, -1])


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


class Known(NamedTuple):
    """What weights along the rows' coordinates after the steps tell of those before, ω_u⁰ = first ξ/√d on average, and of ℓ·w: by
    Cov(ω, ω⁰) = (1 + νM)Σ; bend: the same of the part of ℓ that degree three makes.
    """

    first: Float[Array, "k u u"]
    pull: Float[Array, "k u"]
    bend: Float[Array, "k u"]

    @classmethod
    def of(
        cls, at: Directions, moves: Moves, which: Int[Array, "k"], first: Array, spread: Float[Array, "k u u"]
    ) -> Known:
        """From E M and what is left of the first weights."""
        frame, lam, kept = at.frame, at.sigma.eigenvalues, moves.kept(at.sigma.eigenvalues)
        nu, to_batch = moves.quadratic[which][:, None, None], frame.gram(at.batch, at.rows)
        told = np.moveaxis(first @ kept.T, 2, 0)[which] + nu * (to_batch.T @ moves.mean @ to_batch)
        both = (at.pull, 2 * at.sigma.moment(2) * at.bend)
        direct = np.array([[frame.dot(u, x) for u in at.rows] for x in both]) @ kept.T
        by_batch = frame.gram(both, [b / lam for b in at.batch]) @ moves.mean @ to_batch
        seen = np.moveaxis(direct, 2, 0)[which] + nu * by_batch
        pull, bend = np.moveaxis(seen @ spread, 1, 0)
        return cls(told @ spread, pull, bend)


def _by_the_batch(at: Directions, moves: Moves, which: Int[Array, "k"]) -> Float[Array, "k 2b 2b"]:
    """F_k on the directions b and M̃b."""
    lam, nu, noise, m = at.sigma.eigenvalues, moves.quadratic[which], moves.noise[which], moves.mean
    B = np.pad(at.star_moved, (0, 1))
    B[-1, -1] = moves.noise_length
    left = np.stack([moves.left(lam, at.frame.dot(b, b)) for b in at.batch], axis=1)[which]
    left = (left[:, :, None] + left[:, None, :]) * nu[:, None, None]
    own = moves.square - moves.power * np.outer(
        m[-1], m[-1]
    )  # of M: what is fresh in its samples is across their residuals
    c = _further_spread(at, own * moves.spread / (moves.power or 1.0), moves.spread)
    F = left * m + np.multiply.outer(nu**2, m @ B @ m + own * moves.spread / (moves.power or 1.0))
    F = F + np.multiply.outer(noise / (moves.power or 1.0) - nu**2 * moves.spread / (moves.power or 1.0), moves.square)
    cross = left * c + np.multiply.outer(nu**2, m + c @ B @ m)
    again = np.multiply.outer(nu**2, c + c.T + c @ B @ c.T)
    return np.block([[F, cross.transpose(0, 2, 1)], [cross, again]])


def _further_spread(at: Directions, excess: Float[Array, "b b"], spread: float) -> Float[Array, "b b"]:
    """C of M̂ = … + b̃ c bᵀ + h.c., b̃ = M̃b: M's samples know b, so that |Mb|² is not that of another direction but has this excess."""
    s = [b / at.sigma.eigenvalues for b in at.batch]
    gram = at.frame.gram(s, s)
    values, V = np.linalg.eigh(gram)
    values = np.maximum(values, 1e-12 * values.max())
    root, inverse = ((V * values**power) @ V.T for power in (0.5, -0.5))
    values, V = np.linalg.eigh(root @ excess @ root / (spread or 1.0))
    c = inverse @ ((V * (np.sqrt(np.maximum(1 + values, 0.0)) - 1)) @ V.T) @ inverse
    return np.linalg.lstsq(at.frame.gram(at.batch, at.batch), at.frame.gram(at.batch, s), rcond=1e-9)[0] @ c


def _aside(
    problem: Problem, at: Directions, a: Array, xi: Float[Array, "k u"], known: Known, gram: Callable[[int], Array]
) -> Float[Array, "k"]:
    """wᵀΣw off the coordinates of the rows before the step, given the weights along them."""
    d, sphere = problem.d, problem.weights == "sphere"
    inverse = np.linalg.inv(gram(1))
    shape = inverse @ gram(2) @ inverse - sphere * inverse  # of ω_u⁰ in it, off its mean
    shape = known.first.transpose(0, 2, 1) @ shape @ known.first
    across = np.einsum("ka,kab,kb->k", xi, shape, xi) - np.trace(shape, axis1=1, axis2=2)
    along = ((xi @ np.linalg.cholesky(gram(1)).T) ** 2).sum(1)
    output, bend = ((part * xi).sum(1) / np.sqrt(d) for part in (known.pull - known.bend, known.bend))
    aside = 1 + (across - along) / d + a * output - sphere * a**2
    return np.maximum(aside, LEAST) * np.exp(a * bend)


class _Blocks(NamedTuple):
    """Vectors of the special sector by name: f of the row, memory (f times xᵀMx/d), directions, and the teacher's, in columns."""

    bases: dict[str, Float[Array, "r i"]]
    neurons: int

    def vector(self, **parts: Array) -> Float[Array, "k m"]:
        """Side by side, 0 where nothing is given; a part may leave out the last columns."""
        out: list[Array] = []
        for name, B in self.bases.items():
            part = parts.get(name, np.zeros((self.neurons, 0)))
            out.append(np.pad(part, ((0, 0), (0, len(B) - part.shape[1]))))
        return np.concatenate(out, axis=1)


def moved_means(
    problem: Problem,
    at: Directions,
    moves: Moves,
    kinds: Weights,
    parts: Float[Array, "parts k i"],
    teacher: tuple[Float[Array, "i"], Float[Array, "i k"]],
    w: Float[Array, "i"],
    linear: tuple[Float[Array, "k r"], Float[Array, "r i"]],
    second: Second | None,
) -> tuple[Means, dict[str, Vector], tuple[Array, ...], tuple[Array, ...]]:
    """The special sector without its masses; its directions by name, their columns, and what sector 1 counts too much.

    K = X Y as in `linear`.
    """
    frame, lam, u = at.frame, at.sigma.eigenvalues, at.rows
    carried = {f"sigma{j}": frame.off(lam * x, u) for j, x in enumerate(_turning(at))}
    carried |= {f"twice{j}": frame.off(lam**2 * x, u) for j, x in enumerate(_turning(at))}
    batch = [*(frame.off(b, u) for b in at.batch), *at.batch]
    carried |= dict(zip(_of_batch(at), batch, strict=True))
    carried["pull"] = frame.off(at.pull, u)
    carried |= {f"further{j}": x for j, x in enumerate(moves.further)}
    taught = {f"teacher{a}": e for a, e in enumerate(at.teacher.e)}
    (X, Y), count = linear, kinds.A.size
    both, B = in_few_columns(np.concatenate([parts[0], parts[-1]]), w)
    b, e = both[:count], both[count:]
    bases = {"f": np.vstack([B, teacher[0]]), "memory": B} | dict.fromkeys(carried, Y)
    bases |= {name: np.vstack([Y, h]) for name, h in zip(taught, teacher[1].T, strict=True)}
    if second is not None:
        bases["squared"] = np.vstack([second.Y, second.h])
    blocks = _Blocks(bases, count)
    column = (
        X * np.sqrt(kinds.ratio / ((problem.d - len(u)) * kinds.off * kinds.grown))[:, None]
    )  # K per unit of ω_j √d
    drifts = _drifts(at, kinds)
    less = [blocks.vector(**{name: column * c[:, j, None] for name, c in drifts.items()}) for j in range(len(u))]
    drift = sum(kinds.xi[:, j, None] * part for j, part in enumerate(less))
    per_weight = X / np.sqrt(kinds.v)[:, None]
    drift = drift + blocks.vector(**{f"further{j}": per_weight * m[kinds.at, None] for j, m in enumerate(moves.on.T)})
    bent = {f"twice{j}": per_weight * m[:, None] for j, m in enumerate((kinds.bent.twice @ _shares(at).T).T)}
    drift = drift + blocks.vector(
        **bent, **{f"star{a}": per_weight * m[:, None] for a, m in enumerate(kinds.bent.star.T)}
    )
    added, taken = _batch_parts(at, kinds, blocks, column)
    with_pull, pulled = _pulled(problem, at, moves, kinds, blocks, e, column, less)
    independent = [*(blocks.vector(f=part) for part in _lengths(problem, at, moves, kinds, e)), *added, *with_pull]
    less = [*less, *taken, *pulled]
    if second is not None:
        mean, beside = second.parts(kinds)
        drift = drift + blocks.vector(squared=mean)
        less.append(blocks.vector(teacher0=column * np.sqrt(second.across.own)[:, None]))
        independent.append(less[-1] + blocks.vector(squared=beside))
    cases = [
        (p, blocks.vector(f=b + mean, memory=memory) + drift)
        for p, mean, memory in _of_the_batch(problem, at, moves, kinds, e)
    ]
    h = np.concatenate([np.eye(len(B))[-1] * (name in ("f", "squared", *taught)) for name, B in blocks.bases.items()])
    return Means(tuple(cases), tuple(independent), h), carried | taught, tuple(blocks.bases.values()), tuple(less)


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


def _batch_parts(at: Directions, kinds: Weights, blocks: _Blocks, column: Array) -> tuple[list[Array], list[Array]]:
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
    problem: Problem, at: Directions, moves: Moves, kinds: Weights, e: Float[Array, "k r"]
) -> list[Float[Array, "k r"]]:
    """What is new for each neuron in its squared length: before the step, and by its own gradient."""
    d, sphere, sigma, S = problem.d, problem.weights == "sphere", problem.sigma, at.sigma.moment
    second, _ = left_over(at)
    spread = 2 * (second * (1 - len(at.rows) / d) - sphere) / d
    slope = S(2) ** 2 * own_slope(sigma) + (S(3) - S(2) ** 2) * sigma.derivative_variance
    own = np.sqrt(slope) * moves.own[kinds.at] * kinds.aside / kinds.v
    return [size * e for size in (np.sqrt(max(spread, 0.0)), own[:, None])]


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
    blocks: _Blocks,
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
