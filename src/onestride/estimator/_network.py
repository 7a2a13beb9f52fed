"""A fit: scale and penalty by leave-one-out, the move of the first layer by held-out rows, then all rows.

Leave-one-out is honest for the untrained layer, which saw no target; for a moved one it is not, because the left-out row has
already shaped the features. What is chosen is chosen with few neurons and some of the rows (`_judge.Effort`); at full size there are
one regression after the move, with one Gram matrix and one eigendecomposition, and left-out residuals of some of the rows (`_large`).
The matrices of choices are small: threads share rows and regressions, with one BLAS thread each.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onestride._backend.threads import one_thread, together
from onestride._numerics import Array
from onestride.estimator._bases import (
    Base,
    Choice,
    Scaled,
    base_names,
    choose_base,
    draw_base,
    guided,
    roughly_scaled,
    scaled,
    shortlist,
)
from onestride.estimator._judge import EFFORTS, LIFT, Effort, learned_map, moves, take_steps
from onestride.estimator._judge import FEWEST_ROWS as FEWEST_ROWS
from onestride.estimator._judge import STEPS as STEPS
from onestride.estimator._judge import HeldOut as HeldOut
from onestride.estimator._judge import Move as Move
from onestride.estimator._landmarks import draw_landmarks
from onestride.estimator._large import LEFT_OUT_ROWS, regression, tiled_outputs
from onestride.estimator._layer import Layer, Recipe, step_direction, weight_gradient
from onestride.estimator._ridge import Decomposition, Readout, best_penalty, decompose, ridge_solutions
from onestride.estimator._table import narrowed
from onestride.estimator._targets import pulled_by, pulled_in

MOST_NUMBERS = 2 * 10**8  # of features that a logistic readout is fitted to; of more rows a part
QUIET_SECONDS = 10.0  # progress is told after this long
SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)  # input scales that leave-one-out chooses from


@dataclass(frozen=True)
class Sample:
    """The rows that choices are made with, and which of the table they are (None: all of them)."""

    Z: Array
    Y: Array
    w: Array
    rows: Array | None


@dataclass(frozen=True)
class Stage:
    """A layer, its ridge regression, the penalty leave-one-out chose and the error it measured."""

    layer: Layer
    path: Decomposition
    alpha: float
    left_out_error: float

    @property
    def readout(self) -> Readout:
        """At the chosen penalty."""
        return self.path.readout(self.alpha)


@dataclass(frozen=True)
class FittedNetwork:
    """The fit before and after the step (the same when ρ = 0), and what chose the step.

    `untrained` and `seen` are before and after on the `sample`, with regressions where the fit needed them; `trained` is the fit to all rows, the
    same as `seen` where the sample is the table. `targets` are those it was fitted to, `outlying` tells which of them were pulled in (n × outputs). `judged` has the held-out
    errors of every move that was tried, `held_out` those of the one taken. `shown` are the rows of `trained.path` (None: all).
    """

    base: Base
    untrained: Layer | Stage
    seen: Layer | Stage
    trained: Stage
    scale: float
    step: float
    held_out: HeldOut
    direction: Array
    targets: Array
    outlying: Array
    move: Move
    judged: dict[Move, HeldOut]
    sample: Sample
    shown: Array | None = None


class Progress:
    """Tells on stderr what a fit is doing, once it has taken ten seconds."""

    def __init__(self, wanted: bool = False) -> None:
        self.wanted, self.start = wanted, time.perf_counter()

    def tell(self, what: str) -> None:
        """One line: seconds so far and what comes next."""
        seconds = time.perf_counter() - self.start
        if self.wanted and seconds > QUIET_SECONDS:
            print(f"onestride: {seconds:.0f} s, now {what}", file=sys.stderr, flush=True)


def fit_network(
    Z: Any,
    Y: Array,
    w: Array,
    recipe: Recipe,
    generator: np.random.Generator,
    effort: Effort = EFFORTS["default"],
    progress: Progress | None = None,
) -> FittedNetwork:
    """Choose on a sample, fit on all rows; Z n × d standardised, Y n × outputs of unit variance, w n.

    Of a large table Z need only give rows by index.
    """
    tell = (progress or Progress()).tell
    sample = _sample(Z, Y, w, effort, generator)
    bases, targets, outlying = _untrained(sample, recipe, effort, generator)
    sample = replace(sample, Y=targets)
    tell(f"choice of the step on {len(sample.Z)} rows, {bases[0].layer.width} neurons")
    chosen, move, step, judged = _chosen(sample, bases, recipe, effort, generator)
    base, scale, first = chosen.base, chosen.scale, bases[0]
    Z, sample = narrowed(Z, base.columns), replace(sample, Z=sample.Z[:, : base.columns])
    unit, held_out = base.unit, judged.get(move, HeldOut())
    whole = sample.rows is None and recipe.width <= effort.width
    small: Layer | Stage = chosen.layer
    if small.leader(1.0)[0] is small or (
        whole and not step
    ):  # a layer that another leads moves without its own regression
        small = _regressed(chosen.layer, sample, recipe, chosen.path)
    if whole:
        layer, direction = _moved(chosen.layer, small, sample, move, step, effort, (Z, Y, w))
        trained = _regressed(layer, sample, recipe) if step else small
        assert isinstance(trained, Stage)
        return FittedNetwork(
            base, small, trained, trained, scale, step, held_out, direction, sample.Y, outlying, move, judged, sample
        )
    if sample.rows is None:
        Y = sample.Y
    elif recipe.pull:
        assert first.path is not None
        predicted = tiled_outputs(
            first.layer, narrowed(Z, first.base.columns), first.path.readout(first.alpha), recipe.backend
        )
        Y, outlying = pulled_by(predicted, Y, w, first.path, recipe.alphas)
    full = unit.at_scale(scale)
    tell(f"regression on {len(Z)} rows, {unit.width} neurons")
    layer, direction = _moved(full, small, sample, move, step, effort, (Z, Y, w))
    shown = None if sample.rows is None else _shown(sample.rows, len(Z), recipe, layer, generator)
    trained = _stage(layer, regression(layer, Z, Y, w, shown, recipe.backend), recipe)
    seen = layer.first(effort.width) if step else small
    return FittedNetwork(
        base, small, seen, trained, scale, step, held_out, direction, Y, outlying, move, judged, sample, shown
    )


def _sample(Z: Any, Y: Array, w: Array, effort: Effort, generator: np.random.Generator) -> Sample:
    n = len(Z)
    if n <= effort.rows:
        return Sample(Z[:], Y, w, None)
    rows = np.sort(generator.choice(n, effort.rows, replace=False))
    return Sample(Z[rows], Y[rows], w[rows], rows)


def _shown(taken: Array, n: int, recipe: Recipe, layer: Layer, generator: np.random.Generator) -> Array:
    """Rows whose left-out residuals choose the penalty: first those that no choice was made with."""
    most = max(LEFT_OUT_ROWS, MOST_NUMBERS // layer.width) if recipe.keep_rows else LEFT_OUT_ROWS
    fresh = np.ones(n, bool)
    fresh[taken] = False
    order = np.concatenate([generator.permutation(np.flatnonzero(fresh))[:most], taken])
    return np.sort(order[:most])


@one_thread()
def _untrained(
    sample: Sample, recipe: Recipe, effort: Effort, generator: np.random.Generator
) -> tuple[list[Scaled], Array, Array]:
    """The layers to start from, each at the scale with the smallest leave-one-out error; the targets, and which were pulled in.

    Outlying targets are told by the middle scale, before any of them is asked to choose.
    """
    scales = SCALES if recipe.scale is None else (recipe.scale,)
    middle = (scales[len(scales) // 2],)
    names = base_names(recipe, len(sample.Z))
    Z, Y, w, alphas, width = sample.Z, sample.Y, sample.w, recipe.alphas, effort.width
    base = draw_base(names[0], Z, recipe, generator)
    first = scaled(base, middle, Z, Y, w, alphas, width)
    assert first.path is not None
    path, outlying = _pulled(first.path, Y, recipe)
    if outlying.any():
        Y = path.targets
        first = Scaled(base, first.layer, first.scale, path, *best_penalty(path, alphas))
    parts = generator.spawn(len(names) - 1)

    def settle(k: int) -> Scaled:
        if k:
            return roughly_scaled(draw_base(names[k], Z, recipe, parts[k - 1]), scales, Z, Y, w, alphas, width)
        rest = shortlist(base, scales, Z, Y, w, alphas) if len(names) > 1 else scales
        rest = tuple(s for s in rest if s not in middle)
        return min(first, scaled(base, rest, Z, Y, w, alphas, width), key=_left_out) if rest else first

    return together(settle, range(len(names))), Y, outlying


def _left_out(one: Scaled) -> float:
    return one.left_out_error


def _pulled(path: Decomposition, Y: Array, recipe: Recipe) -> tuple[Decomposition, Array]:
    """The regression of the targets with outliers pulled in, and which were."""
    outlying = np.zeros(Y.shape, bool)
    if recipe.pull and len(Y) >= FEWEST_ROWS and Y.any():
        pulled, outlying = pulled_in(path, Y, recipe.alphas)
        path = path.of(pulled) if outlying.any() else path
    return path, outlying


def _stage(layer: Layer, path: Decomposition, recipe: Recipe) -> Stage:
    return Stage(layer, path, *best_penalty(path, recipe.alphas))


@one_thread()
def _regressed(layer: Layer, sample: Sample, recipe: Recipe, path: Decomposition | None = None) -> Stage:
    """The layer with its regression on the sample."""
    return _stage(layer, path or decompose(layer.design(sample.Z), sample.Y, sample.w), recipe)


@one_thread()
def _chosen(
    sample: Sample, bases: list[Scaled], recipe: Recipe, effort: Effort, generator: np.random.Generator
) -> Choice:
    """The layer to start from, its move and size ρ (0 for none) and what held-out rows said of its moves."""
    tried = [moves(recipe, which.base.columns, effort) if which.base.name != "sparse" else [] for which in bases]
    asked, rows = moves(recipe, bases[0].base.columns, effort)[0], (sample.Z, sample.Y, sample.w)
    landmarks = draw_landmarks(sample.Z, recipe.width, recipe.skip, generator.spawn(1)[0])
    if recipe.first_layer == "landmarks":
        bases = [guided(landmarks, bases[0], rows)]
    if recipe.first_layer == "landmarks" or len(bases) == 1 or recipe.gradient == "neurons":
        landmarks = None
    if recipe.step is not None:
        return Choice(bases[0], asked, recipe.step, {})
    if recipe.first_layer == "sparse":
        tried = [moves(recipe, bases[0].base.columns, effort)]
    found = choose_base(list(zip(bases, tried, strict=True)), landmarks, rows, effort, generator)
    return found or Choice(bases[0], asked, 0.0, {})


@one_thread()
def _moved(
    layer: Layer,
    small: Layer | Stage,
    sample: Sample,
    move: Move,
    step: float,
    effort: Effort,
    whole: tuple[Any, Array, Array],
) -> tuple[Layer, Array]:
    """The layer after the move, and the unit direction of input space along which it goes most.

    Maps and shared steps have d² numbers at most, which the sample and its network `small` give; where every neuron takes a step of its own,
    the regression on the `whole` table does.
    """
    Z, Y, w = sample.Z, sample.Y, sample.w
    guide, strength = small.layer.leader(small.alpha) if isinstance(small, Stage) else small.leader(1.0)
    if move.is_map and step:
        learned = learned_map(guide, Z, Y, w, move, step, effort)
        return learned.applied(layer, step).settled(Z, Y, w, strength)[0], _leading(learned.root)
    kind, alpha = "shared", LIFT * strength
    if move.kind == "neurons":
        kind = "neurons"
        if layer is not guide:
            guide, (Z, Y, w) = layer, (whole[0][:], *whole[1:])
    if isinstance(small, Stage) and guide is small.layer:
        readout = small.path.readout(alpha)
    else:
        (readout,) = ridge_solutions(guide.design(Z), Y, w, np.array([alpha]))
    change = step_direction(guide, weight_gradient(guide, readout, Z, Y, w), kind, layer)
    moved = take_steps(layer, change, step, Z, Y, w, alpha, kind, move.repeats, guide) if step else layer
    return moved.settled(sample.Z, sample.Y, sample.w, strength)[0] if step else moved, _leading(change)


def _leading(change: Array) -> Array:
    """The unit direction of input space along which the step moves the layer most; its largest entry is positive."""
    _, values, right = np.linalg.svd(change.astype(np.float64), full_matrices=False)
    direction = right[0] if values[0] > 0 else np.zeros(change.shape[1])
    return direction * np.sign(direction[np.argmax(np.abs(direction))])
