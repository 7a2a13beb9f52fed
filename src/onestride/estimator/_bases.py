"""Layers to start from: dense on the columns, dense on columns and ranks, sparse on both; which of them, and its move, by held-out rows.

dense    rows of W₀ uniform on the sphere, b ~ N(0, 1)
ranks    the same on the columns and their normal scores (`_ranks`): signals that are functions of single, skewed columns
sparse   neuron j sees one, two or three of them, and stands at a training row a_j: σ(w_jᵀ(z − a_j) + b_j), sums of functions of few columns

Every layer is drawn without the target, so that leave-one-out chooses its input scale honestly. Moves are judged for each on the same rows; a
layer other than dense is taken when what held-out rows choose for it gains more than one standard error over what they choose for the
dense one, and given up after the first fold when it is behind there. Of the others only the two best moves of the dense one are judged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from onestride._numerics import Array
from onestride.estimator._judge import (
    FEWEST_ROWS,
    SURVIVORS,
    Effort,
    HeldOut,
    Move,
    best_move,
    chosen_losses,
    fold_losses,
    held_out_errors,
    split,
)
from onestride.estimator._layer import Layer, Recipe, draw_layer
from onestride.estimator._ridge import Decomposition, best_penalty, decompose

BaseName = Literal["dense", "ranks", "sparse"]
ORDERS = (1, 2, 3)  # columns that a neuron of a sparse layer sees
QUICK_ROWS, QUICK_NEURONS = 500, 256  # with more than twice the rows scales are sought with these


class Base(NamedTuple):
    """A layer with rows of unit length, and how many leading columns it sees."""

    name: BaseName
    unit: Layer
    columns: int


class Scaled(NamedTuple):
    """A base at its input scale: the layer, its regression, the penalty that leave-one-out chose and the error it measured."""

    base: Base
    layer: Layer
    scale: float
    path: Decomposition
    alpha: float
    left_out_error: float


def base_names(recipe: Recipe, rows: int) -> list[BaseName]:
    """What is tried: the one asked for, or all where a step is to be chosen and ranks were made."""
    if recipe.first_layer != "auto":
        return [recipe.first_layer]
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
    return Base(name, unit, columns)


def shortlist(base: Base, scales: tuple[float, ...], Z: Array, Y: Array, w: Array, alphas: Array) -> tuple[float, ...]:
    """All scales of few rows; of many the best one for some rows and neurons."""
    if len(Z) <= 2 * QUICK_ROWS or len(scales) == 1:
        return scales
    part = slice(None, None, len(Z) // QUICK_ROWS)
    Z, Y, w, unit = Z[part, : base.columns], Y[part], w[part], base.unit.first(QUICK_NEURONS)
    errors = {s: best_penalty(decompose(at_scale(unit, s).design(Z), Y, w), alphas)[1] for s in scales}
    return (min(errors, key=lambda s: errors[s]),)


def scaled(base: Base, scales: tuple[float, ...], Z: Array, Y: Array, w: Array, alphas: Array, width: int) -> Scaled:
    """The base at that of the scales with the smallest leave-one-out error."""
    best: Scaled | None = None
    for scale in scales:
        layer = at_scale(base.unit.first(width), scale)
        path = decompose(layer.design(Z[:, : base.columns]), Y, w)
        found = Scaled(base, layer, scale, path, *best_penalty(path, alphas))
        best = found if best is None or found.left_out_error < best.left_out_error else best
    assert best is not None
    return best


def at_scale(unit: Layer, scale: float) -> Layer:
    """The layer with rows of that length."""
    return replace(unit, W=unit.W * unit.W.dtype.type(scale))


class Choice(NamedTuple):
    """The base taken, its move and size ρ (0: none), and what held-out rows said of every move of it."""

    which: Scaled
    move: Move
    step: float
    judged: dict[Move, HeldOut]


def choose_base(
    candidates: list[tuple[Scaled, list[Move]]],
    Z: Array,
    Y: Array,
    w: Array,
    effort: Effort,
    generator: np.random.Generator,
) -> Choice | None:
    """The first of the candidates, or one that gains more than a standard error over it; None with too few rows to tell."""
    if len(Z) < FEWEST_ROWS or not Y.any():
        return None
    folds = split(len(Z), generator)
    best: Choice | None = None
    first = lowest = np.empty(0)
    promising: list[Move] | None = None
    for which, asked in candidates:
        tried = asked if promising is None else [move for move in asked if move in promising]
        behind = None if best is None else first
        rows = Z[:, : which.base.columns]
        losses = fold_losses(which.layer, rows, Y, w, which.alpha, tried, effort, folds, behind)
        if losses is None:
            continue
        judged = held_out_errors(tried, losses, w)
        move = best_move(judged) if judged else Move("none", 0)
        step = judged[move].choice() if judged else 0.0
        chosen = chosen_losses(losses, move, step, w)
        if best is None:
            promising = sorted(judged, key=lambda move: min(judged[move].errors[1:]))[:SURVIVORS]
            best, first, lowest = Choice(which, move, step, judged), chosen, chosen
        elif gains(first, chosen, w) and mean_of(chosen, w) < mean_of(lowest, w):
            best, lowest = Choice(which, move, step, judged), chosen
    return best


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
