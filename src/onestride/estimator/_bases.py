"""Layers to start from: dense on the columns, dense on columns and ranks, sparse on both, landmarks; which, and its move, by held-out rows.

dense     rows of W₀ uniform on the sphere, b ~ N(0, 1)
ranks     the same on the columns and their normal scores (`_ranks`): signals that are functions of single, skewed columns
sparse    neuron j sees one, two or three of them, and stands at a training row a_j: σ(w_jᵀ(z − a_j) + b_j), sums of functions of few columns
landmarks a Gaussian kernel at training rows (`_landmarks`), on the inputs of the better of the first two, and moved by it

Every layer is drawn without the target, so that leave-one-out chooses its input scale honestly. Moves are judged for each on the same rows; a
layer other than dense is taken when what held-out rows choose for it gains more than one standard error over what they choose for the
dense one, and given up after the first fold when it is behind there. Of the others only the two best moves of the dense one are judged.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from onestride._backend.threads import cores, together
from onestride._numerics import Array
from onestride.estimator._judge import (
    FEWEST_ROWS,
    FOLDS,
    SURVIVORS,
    Effort,
    HeldOut,
    Known,
    Move,
    best_move,
    chosen_losses,
    fold_losses,
    held_out_errors,
    learn,
    split,
)
from onestride.estimator._landmarks import QUICK_NEURONS, QUICK_ROWS, Landmarks, led
from onestride.estimator._layer import Layer, Recipe, draw_layer
from onestride.estimator._ridge import Decomposition, best_penalty, decompose

BaseName = Literal["dense", "ranks", "sparse", "landmarks"]
SPARE_CORES = 8  # with so many the maps of other layers are learned beside those of the first, wanted or not
ORDERS = (1, 2, 3)  # columns that a neuron of a sparse layer sees


class Base(NamedTuple):
    """A layer with rows of unit length, how many leading columns it sees, and whether ranks are among them."""

    name: BaseName
    unit: Layer
    columns: int
    ranked: bool


class Scaled(NamedTuple):
    """A base at its input scale: the layer, its regression, the penalty that leave-one-out chose and the error it measured.

    Layers other than the first are regressed on when they are taken.
    """

    base: Base
    layer: Layer
    scale: float
    path: Decomposition | None
    alpha: float
    left_out_error: float


def base_names(recipe: Recipe, rows: int) -> list[BaseName]:
    """What is tried: the one asked for, or all where a step is to be chosen and ranks were made; landmarks come after their guide."""
    if recipe.first_layer != "auto":
        return ["ranks" if recipe.first_layer == "landmarks" else recipe.first_layer]
    several = recipe.step is None and rows >= FEWEST_ROWS and recipe.ranks
    return ["dense", "ranks", "sparse"] if several else ["dense"]


def draw_base(name: BaseName, Z: Array, recipe: Recipe, generator: np.random.Generator) -> Base:
    """Drawn for the rows Z (n × all columns) of the sample, of which it uses no target."""
    columns = Z.shape[1] // 2 if name == "dense" and recipe.ranks else Z.shape[1]
    varies = np.abs(Z[:, :columns]).max(axis=0) > 0
    unit = draw_layer(varies, recipe, generator, Z.dtype)
    if name == "sparse" and varies.any():
        order = np.minimum(np.array(ORDERS)[np.arange(recipe.width) % len(ORDERS)], varies.sum())
        rank = np.where(varies, generator.random(unit.W.shape), 2.0).argsort(axis=1).argsort(axis=1)
        W = unit.W * (rank < order[:, None])
        W /= np.linalg.norm(W, axis=1, keepdims=True)
        unit = replace(unit, W=W.astype(Z.dtype), anchors=Z[generator.integers(len(Z), size=recipe.width)])
    return Base(name, unit, columns, recipe.ranks and name != "dense")


def quick_errors(
    base: Base, scales: tuple[float, ...], Z: Array, Y: Array, w: Array, alphas: Array
) -> dict[float, tuple[float, float]]:
    """By scale the penalty and the leave-one-out error with some rows and neurons."""
    part = slice(None, None, len(Z) // QUICK_ROWS)
    Z, Y, w, unit = Z[part, : base.columns], Y[part], w[part], base.unit.first(QUICK_NEURONS)
    found = together(lambda s: best_penalty(decompose(unit.at_scale(s).design(Z), Y, w), alphas), scales)
    return dict(zip(scales, found, strict=True))


def shortlist(base: Base, scales: tuple[float, ...], Z: Array, Y: Array, w: Array, alphas: Array) -> tuple[float, ...]:
    """All scales of few rows; of many the best one for some rows and neurons."""
    if len(Z) <= 2 * QUICK_ROWS or len(scales) == 1:
        return scales
    errors = quick_errors(base, scales, Z, Y, w, alphas)
    return (min(errors, key=lambda s: errors[s][1]),)


def roughly_scaled(
    base: Base, scales: tuple[float, ...], Z: Array, Y: Array, w: Array, alphas: Array, width: int
) -> Scaled:
    """As `scaled`, but of many rows some tell the penalty too: held-out rows look around it."""
    if len(Z) <= 2 * QUICK_ROWS:
        return scaled(base, scales, Z, Y, w, alphas, width)
    errors = quick_errors(base, scales, Z, Y, w, alphas)
    scale = min(errors, key=lambda s: errors[s][1])
    return Scaled(base, base.unit.first(width).at_scale(scale), scale, None, *errors[scale])


def scaled(base: Base, scales: tuple[float, ...], Z: Array, Y: Array, w: Array, alphas: Array, width: int) -> Scaled:
    """The base at that of the scales with the smallest leave-one-out error."""
    best: Scaled | None = None
    for scale in scales:
        layer = base.unit.first(width).at_scale(scale)
        path = decompose(layer.design(Z[:, : base.columns]), Y, w)
        found = Scaled(base, layer, scale, path, *best_penalty(path, alphas))
        best = found if best is None or found.left_out_error < best.left_out_error else best
    assert best is not None
    return best


class Choice(NamedTuple):
    """The base taken, its move and size ρ (0: none), and what held-out rows said of every move of it."""

    which: Scaled
    move: Move
    step: float
    judged: dict[Move, HeldOut]

    @property
    def promising(self) -> list[Move]:
        """The two best moves."""
        return sorted(self.judged, key=lambda move: min(self.judged[move].errors[1:]))[:SURVIVORS]


def choose_base(
    candidates: list[tuple[Scaled, list[Move]]],
    landmarks: Landmarks | None,
    sample: tuple[Array, Array, Array],
    effort: Effort,
    generator: np.random.Generator,
) -> Choice | None:
    """The first of the candidates, or one that gains more than a standard error over it; None with too few rows to tell.

    Landmarks come last, led by the better of the layers that are dense (of few rows by each), with its two best moves.
    """
    Z, Y, w = sample
    if len(Z) < FEWEST_ROWS or not Y.any():
        return None
    folds, known = split(len(Z), generator), tuple(Known({}, {}) for _ in range(FOLDS))
    judged: list[tuple[Choice, Array]] = []

    def judge(pair: tuple[Scaled, list[Move]]) -> list[tuple[Choice, Array]]:
        which, asked = pair
        behind = judged[0][1] if judged else None
        rows = Z[:, : which.base.columns]
        losses = fold_losses(which.layer, rows, Y, w, which.alpha, asked, effort, folds, behind, known)
        if losses is None:
            return []
        errors = held_out_errors(asked, losses, w)
        move = best_move(errors) if errors else Move("none", 0)
        step = errors[move].choice() if errors else 0.0
        return [(Choice(which, move, step, errors), chosen_losses(losses, move, step, w))]

    def learn_ahead(pair: tuple[Scaled, list[Move]]) -> None:
        out, columns = folds == 0, pair[0].base.columns
        learn(pair[0].layer, Z[~out, :columns], Y[~out], w[~out], pair[1], effort, known[0].maps)

    ahead = candidates[1:] if cores() >= SPARE_CORES else []
    ways = [partial(judge, candidates[0]), *(partial(learn_ahead, pair) for pair in ahead)]
    judged += together(lambda way: way() or [], ways)[0]
    promising = judged[0][0].promising
    others = [(which, [move for move in asked if move in promising]) for which, asked in candidates[1:]]
    judged += [one for found in together(judge, others) for one in found]
    if landmarks is not None:
        dense = [one for one in judged if one[0].which.base.name in ("dense", "ranks")]
        dense.sort(key=lambda one: mean_of(one[1], w))
        guides = [guide for guide, _ in (dense if len(Z) <= 2 * QUICK_ROWS else dense[:1])]
        led_by = together(lambda g: judge((guided(landmarks, g.which, sample), g.promising)), guides)
        judged += [one for found in led_by for one in found]
    best = judged[0]
    for one in judged[1:]:
        if gains(judged[0][1], one[1], w) and mean_of(one[1], w) < mean_of(best[1], w):
            best = one
    return best[0]


def guided(landmarks: Landmarks, guide: Scaled, sample: tuple[Array, Array, Array]) -> Scaled:
    """Landmarks on the columns of a layer whose moves they take, at the scale and penalty that suit the rows."""
    Z, Y, w = sample
    columns = guide.base.columns
    unit = led(landmarks, guide.layer, guide.alpha, columns)
    layer, alpha = unit.first(guide.layer.width).settled(Z[:, :columns], Y, w, 1.0)
    return Scaled(guide.base._replace(name="landmarks", unit=unit), layer, layer.scale, None, alpha, np.nan)


def mean_of(losses: Array, w: Array) -> float:
    """By weight, over the rows that were judged."""
    known = np.isfinite(losses)
    return float(np.average(losses[known], weights=w[known]))


def gains(before: Array, after: Array, w: Array) -> bool:
    """Whether losses fall by more than the standard error of their paired difference."""
    known = np.isfinite(before) & np.isfinite(after)
    share = w[known] / w[known].sum()
    gain = before[known] - after[known]
    mean = float(share @ gain)
    return mean > float(np.sqrt(np.square(share * (gain - mean)).sum()))
