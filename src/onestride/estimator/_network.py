"""A fit: scale and penalty by leave-one-out, the move of the first layer by held-out rows, then all rows.

Leave-one-out is honest for the untrained layer, which saw no target; for a moved one it is not, because the left-out row has
already shaped the features. What is chosen is chosen with few neurons and some of the rows (`_judge.Effort`); at full size there are
two regressions, before and after the move, each with one Gram matrix, one eigendecomposition and one product for leave-one-out.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace

import numpy as np

from onestride._numerics import Array
from onestride.estimator._judge import EFFORTS, LIFT, Effort, best_move, judge_moves, learned_map, moves, take_steps
from onestride.estimator._judge import FEWEST_ROWS as FEWEST_ROWS
from onestride.estimator._judge import STEPS as STEPS
from onestride.estimator._judge import HeldOut as HeldOut
from onestride.estimator._judge import Move as Move
from onestride.estimator._layer import Layer, Recipe, draw_layer, step_direction
from onestride.estimator._ridge import Decomposition, best_penalty, decompose
from onestride.estimator._targets import pulled_in

QUIET_SECONDS = 10.0  # progress is told after this long
SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)  # input scales that leave-one-out chooses from


@dataclass(frozen=True)
class Stage:
    """A layer, its ridge regression, the penalty leave-one-out chose and the error it measured."""

    layer: Layer
    path: Decomposition
    alpha: float
    left_out_error: float


@dataclass(frozen=True)
class FittedNetwork:
    """The fit before and after the step (the same when ρ = 0), and what chose the step.

    `targets` are those it was fitted to, `outlying` tells which of them were pulled in (n × outputs). `judged` has the
    held-out errors of every move that was tried, `held_out` those of the one taken.
    """

    untrained: Stage
    trained: Stage
    scale: float
    step: float
    held_out: HeldOut
    direction: Array
    targets: Array
    outlying: Array
    move: Move
    judged: dict[Move, HeldOut]


class Progress:
    """Tells on stderr what a fit is doing, once it has taken ten seconds."""

    def __init__(self, wanted: bool = False) -> None:
        self.wanted, self.start = wanted, time.perf_counter()

    def tell(self, what: str) -> None:
        """One line: seconds so far and what comes next."""
        seconds = time.perf_counter() - self.start
        if self.wanted and seconds > QUIET_SECONDS:
            print(f"onestride: {seconds:.0f} s, now {what}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Sample:
    """The rows and neurons that choices are made with; all of them when there are few."""

    Z: Array
    Y: Array
    w: Array
    unit: Layer
    whole: bool


def fit_network(
    Z: Array,
    Y: Array,
    w: Array,
    recipe: Recipe,
    generator: np.random.Generator,
    effort: Effort = EFFORTS["default"],
    progress: Progress | None = None,
) -> FittedNetwork:
    """Choose on a sample, fit on all rows; Z n × d standardised, Y n × outputs of unit variance, w n."""
    tell = (progress or Progress()).tell
    unit = draw_layer(np.abs(Z).max(axis=0) > 0, recipe, generator, Z.dtype)
    sample = _sample(unit, Z, Y, w, recipe, effort, generator)
    small, scale, chosen_targets, outlying = _untrained(sample, recipe)
    untrained = small
    if not sample.whole:
        tell(f"regression before the step, {len(Z)} rows, {len(unit.W)} neurons")
        layer = replace(unit, W=unit.W * unit.W.dtype.type(scale))
        path = decompose(layer.design(Z), Y, w)
        path, outlying = _pulled(path, Y, recipe)
        untrained = _stage(layer, path, recipe)
    if outlying.any():
        Y = untrained.path.targets
    sample = replace(sample, Y=chosen_targets)
    tell(f"choice of the step on {len(sample.Z)} rows, {len(sample.unit.W)} neurons")
    move, step, judged = _chosen_move(sample, small, recipe, effort, generator)
    layer, direction = _moved(untrained, sample, small, Z, Y, w, move, step, effort)
    tell(f"regression after the step, {len(Z)} rows, {len(unit.W)} neurons" if step else "the last numbers")
    trained = _stage(layer, decompose(layer.design(Z), Y, w), recipe) if step else untrained
    held_out = judged.get(move, HeldOut())
    return FittedNetwork(untrained, trained, scale, step, held_out, direction, Y, outlying, move, judged)


def _sample(
    unit: Layer, Z: Array, Y: Array, w: Array, recipe: Recipe, effort: Effort, generator: np.random.Generator
) -> Sample:
    n, N = len(Z), len(unit.W)
    whole = (n <= effort.rows and effort.width >= N) or not Y.any()
    if whole or (recipe.scale is not None and recipe.step == 0):  # nothing to choose
        return Sample(Z, Y, w, unit, True)
    rows = np.sort(generator.choice(n, effort.rows, replace=False)) if n > effort.rows else slice(None)
    return Sample(Z[rows], Y[rows], w[rows], unit.first(effort.width), False)


def _untrained(sample: Sample, recipe: Recipe) -> tuple[Stage, float, Array, Array]:
    """The layer at the scale with the smallest leave-one-out error, that scale, the targets, and which were pulled in.

    Outlying targets are told by the middle scale, before any of them is asked to choose.
    """
    scales = SCALES if recipe.scale is None else (recipe.scale,)
    middle = scales[len(scales) // 2]
    unit, Y = sample.unit, sample.Y
    outlying = np.zeros(Y.shape, bool)
    best = None
    for scale in sorted(scales, key=lambda s: s != middle):
        layer = replace(unit, W=unit.W * unit.W.dtype.type(scale))
        path = decompose(layer.design(sample.Z), Y, sample.w)
        if scale == middle:
            path, outlying = _pulled(path, Y, recipe)
            Y = path.targets if outlying.any() else Y
        stage = _stage(layer, path, recipe)
        if best is None or stage.left_out_error < best[0].left_out_error:
            best = stage, scale
    assert best is not None
    return *best, Y, outlying


def _pulled(path: Decomposition, Y: Array, recipe: Recipe) -> tuple[Decomposition, Array]:
    """The regression of the targets with outliers pulled in, and which were."""
    outlying = np.zeros(Y.shape, bool)
    if recipe.pull and len(Y) >= FEWEST_ROWS and Y.any():
        pulled, outlying = pulled_in(path, Y, recipe.alphas)
        path = path.of(pulled) if outlying.any() else path
    return path, outlying


def _stage(layer: Layer, path: Decomposition, recipe: Recipe) -> Stage:
    return Stage(layer, path, *best_penalty(path, recipe.alphas))


def _chosen_move(
    sample: Sample, small: Stage, recipe: Recipe, effort: Effort, generator: np.random.Generator
) -> tuple[Move, float, dict[Move, HeldOut]]:
    """The move, its size ρ (0 for none) and what held-out rows said of all that were tried."""
    tried = moves(recipe, sample.Z.shape[1], effort)
    if recipe.step is not None:
        return tried[0], recipe.step, {}
    judged = judge_moves(small.layer, sample.Z, sample.Y, sample.w, small.alpha, tried, effort, generator)
    if not judged:
        return tried[0], 0.0, {}
    move = best_move(judged)
    return move, judged[move].choice(), judged


def _moved(
    untrained: Stage,
    sample: Sample,
    small: Stage,
    Z: Array,
    Y: Array,
    w: Array,
    move: Move,
    step: float,
    effort: Effort,
) -> tuple[Layer, Array]:
    """The layer after the move, and the unit direction of input space along which it goes most."""
    layer, alpha = untrained.layer, LIFT * untrained.alpha
    if move.is_map and step:
        learned = learned_map(small.layer, sample.Z, sample.Y, sample.w, move, step, effort)
        return learned.applied(layer, step), _leading(learned.root)
    kind = "neurons" if move.kind == "neurons" else "shared"
    change = step_direction(layer, untrained.path.readout(alpha), Z, Y, w, kind)
    moved = take_steps(layer, change, step, Z, Y, w, alpha, kind, move.repeats) if step else layer
    return moved, _leading(change)


def _leading(change: Array) -> Array:
    """The unit direction of input space along which the step moves the layer most; its largest entry is positive."""
    _, values, right = np.linalg.svd(change.astype(np.float64), full_matrices=False)
    direction = right[0] if values[0] > 0 else np.zeros(change.shape[1])
    return direction * np.sign(direction[np.argmax(np.abs(direction))])
