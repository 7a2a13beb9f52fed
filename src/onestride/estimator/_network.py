"""The network behind the estimators: a spherical first layer, the step of a fitted network, and its honest choice.

network    f(z) = c₀ + cᵀσ(W₀Rz + b) + lᵀz,   rows of W₀ of length s (the input scale), b ~ N(0, 1), R = I before the step
readout    (c, l, c₀) by ridge regression
step       shared   R = I + ηP,  P the symmetric part of −∂/∂R of ½⟨(y − f)²⟩ at R = I,  ⟨r ∇f zᵀ⟩;  W = W₀R
           neurons  W = W₀ + ηG,  G = −∂/∂W of the same: every neuron moves on its own, as in the theory of one step

The antisymmetric part of ∂/∂R is left out: to first order it rotates the inputs, which a spherical W₀ does not feel. η is
given as the length of the step relative to the layer, ρ = |ηW₀P|/|W₀| (ρ = |ηG|/|W₀|), and W is brought back to the
length of W₀, so that the step changes directions and not the input scale.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from onestride._numerics import Array
from onestride.estimator._ridge import Decomposition, Readout, best_penalty, decompose, ridge_solutions
from onestride.functions import Function, activation

GradientKind = Literal["shared", "neurons"]

SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)  # input scales that leave-one-out chooses from
STEPS = (0.0, 1.0, 3.0)  # relative step sizes ρ that held-out rows choose from
AROUND = (0.01, 0.1, 1.0, 10.0, 100.0)  # penalties tried for each, as multiples of the one without a step
LIFT = 100.0  # the step is taken at this multiple of the chosen penalty: its residual keeps more signal
FOLDS = 3
FEWEST_ROWS = 12  # with fewer distinct rows no step can be judged
ENOUGH_ROWS = 2000  # with more, two of the three folds judge well enough


@dataclass(frozen=True)
class Layer:
    """σ(WZᵀ + b) with rows w_j (N × d), followed by the inputs themselves when `skip`."""

    W: Array
    b: Array
    activation: Any  # its name and not the function, which does not pickle
    skip: bool

    @property
    def sigma(self) -> Function:
        """The activation σ, not centred: the intercept is fitted."""
        return activation(self.activation, centred=False)

    def design(self, Z: Array) -> Array:
        """Features of standardised rows, n × (N + d), in the precision of Z."""
        hidden = self.sigma(Z @ self.W.T + self.b).astype(Z.dtype, copy=False)
        return np.hstack([hidden, Z]) if self.skip else hidden

    def outputs(self, Z: Array, readout: Readout) -> Array:
        """f(z), n × outputs, in the precision of Z."""
        c, c0 = (part.astype(Z.dtype) for part in readout)
        return self.design(Z) @ c + c0

    def slopes(self, Z: Array) -> Array:
        """σ'(WZᵀ + b), n × N."""
        return self.sigma.derivative(Z @ self.W.T + self.b)

    def input_gradients(self, Z: Array, coefficients: Array) -> Iterator[Array]:
        """∇_z of each output in turn at every row, n × d."""
        N, slopes = self.W.shape[0], self.slopes(Z)
        for c in coefficients.T:
            gradients = (slopes * c[:N]) @ self.W
            yield gradients + c[N:] if self.skip else gradients


@dataclass(frozen=True)
class HeldOut:
    """Mean squared errors on rows that neither built the features nor fitted the readout, one per step size ρ.

    `gain` is the fall against ρ = 0, row by row on the same rows, and `stderr` its standard error. In units of the
    target's variance; empty when the step size was given or there were too few rows.
    """

    steps: tuple[float, ...] = ()
    errors: tuple[float, ...] = ()
    gain: tuple[float, ...] = ()
    stderr: tuple[float, ...] = ()

    def choice(self) -> float:
        """The step with the smallest error among those that gain more than one standard error; else none."""
        sure = [(e, s) for s, e, g, se in zip(self.steps, self.errors, self.gain, self.stderr, strict=True) if g > se]
        return min(sure)[1] if sure else 0.0


@dataclass(frozen=True)
class Stage:
    """A layer, its ridge regression, the penalty leave-one-out chose and the error it measured."""

    layer: Layer
    path: Decomposition
    alpha: float
    left_out_error: float


@dataclass(frozen=True)
class FittedNetwork:
    """The fit before and after the step (the same when ρ = 0), and what chose the step."""

    untrained: Stage
    trained: Stage
    scale: float
    step: float
    held_out: HeldOut
    direction: Array


@dataclass(frozen=True)
class Recipe:
    """What the estimators hand down; `scale` and `step` are None when they are to be chosen."""

    width: int
    activation: Any
    skip: bool
    gradient: GradientKind
    steps: int
    scale: float | None
    step: float | None
    alphas: Array


def draw_layer(varies: Array, recipe: Recipe, generator: np.random.Generator, dtype: np.dtype) -> Layer:
    """Rows of W₀ uniform on the unit sphere of the inputs that vary (d booleans), biases standard normal."""
    W = generator.standard_normal((recipe.width, varies.size))
    if varies.any():
        W *= varies
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    b = generator.standard_normal(recipe.width)
    return Layer(W.astype(dtype), b.astype(dtype), recipe.activation, recipe.skip)


def step_direction(layer: Layer, readout: Readout, Z: Array, Y: Array, w: Array, kind: GradientKind) -> Array:
    """The direction of the step, ΔW (N × d), scaled to |ΔW| = |W|; zero when there is nothing to follow.

    G = ⟨[(r cᵀ) ∘ σ'(Wz + b)] zᵀ⟩ over rows; the shared map's gradient is WᵀG = ⟨r ∇f zᵀ⟩.
    """
    W, (c, c0) = layer.W, readout
    residual = Y - layer.design(Z) @ c - c0
    pull = layer.slopes(Z)
    pull *= (residual * w[:, None]) @ c[: W.shape[0]].T
    change = G = pull.T @ Z
    if kind == "shared":
        change = (W @ W.T) @ G + (W @ G.T) @ W  # W(P + Pᵀ) with P = WᵀG, without a d × d matrix
    size = np.linalg.norm(change)
    return change * (np.linalg.norm(W) / size) if size > 0 else change


def stepped(layer: Layer, change: Array, step: float) -> Layer:
    """W + ρΔW, brought back to the length of W."""
    W = layer.W / (1 + step) + change * (step / (1 + step))  # that direction for every ρ up to the largest number
    W *= np.linalg.norm(layer.W) / np.linalg.norm(W)
    return replace(layer, W=W.astype(layer.W.dtype))


def take_steps(
    layer: Layer, change: Array, step: float, Z: Array, Y: Array, w: Array, alpha: float, recipe: Recipe
) -> Layer:
    """The layer after `recipe.steps` steps of size ρ on the same rows, the readout fitted again before each but the first."""
    layer = stepped(layer, change, step)
    for _ in range(recipe.steps - 1):
        (readout,) = ridge_solutions(layer.design(Z), Y, w, np.array([alpha]))
        layer = stepped(layer, step_direction(layer, readout, Z, Y, w, recipe.gradient), step)
    return layer


def judge_steps(
    layer: Layer, Z: Array, Y: Array, w: Array, alpha: float, recipe: Recipe, generator: np.random.Generator
) -> HeldOut:
    """Build features and readout on two thirds of the rows, measure on the rest, for every ρ on the same rows.

    Each ρ has the penalty that suits it best on the held-out rows. The input scale and α, the penalty without a step, come
    from all rows; they are the same for every ρ.
    """
    n = Z.shape[0]
    if n < FEWEST_ROWS or not Y.any():
        return HeldOut()
    fold = generator.permutation(n) % FOLDS
    judged = range(FOLDS if n <= ENOUGH_ROWS else FOLDS - 1)
    losses = np.empty((len(STEPS), len(AROUND), n))
    for k in judged:
        out = fold == k
        Zk, Yk, wk = Z[~out], Y[~out], w[~out]
        *readouts, strong = ridge_solutions(layer.design(Zk), Yk, wk, alpha * np.array([*AROUND, LIFT]))
        change = step_direction(layer, strong, Zk, Yk, wk, recipe.gradient)
        for i, step in enumerate(STEPS):
            trained = layer
            if step:
                trained = take_steps(layer, change, step, Zk, Yk, wk, LIFT * alpha, recipe)
                readouts = ridge_solutions(trained.design(Zk), Yk, wk, alpha * np.array(AROUND))
            design = trained.design(Z[out])
            for j, (coefficients, intercept) in enumerate(readouts):
                losses[i, j, out] = np.square(Y[out] - intercept - design @ coefficients).mean(1)
    rows = np.isin(fold, list(judged))
    return _paired(losses[:, :, rows], w[rows])


def _paired(losses: Array, w: Array) -> HeldOut:
    """Per ρ the best penalty's mean loss, and its gain over ρ = 0 with the standard error of the paired difference."""
    share = w / w.sum()
    best = [loss[int(np.argmin(loss @ share))] for loss in losses]
    gains = [best[0] - loss for loss in best]
    means = [float(g @ share) for g in gains]
    errors = [float(np.sqrt(np.square(share * (g - m)).sum())) for g, m in zip(gains, means, strict=True)]
    return HeldOut(STEPS, tuple(float(loss @ share) for loss in best), tuple(means), tuple(errors))


def fit_network(Z: Array, Y: Array, w: Array, recipe: Recipe, generator: np.random.Generator) -> FittedNetwork:
    """Choose scale and penalty by leave-one-out, the step by held-out rows, then fit on all rows.

    Leave-one-out is honest for the untrained layer, which saw no target; for a step it is not, because the left-out row
    has already shaped the features.
    """
    unit = draw_layer(np.abs(Z).max(axis=0) > 0, recipe, generator, Z.dtype)
    scales = SCALES if recipe.scale is None else (recipe.scale,)
    stages = (_stage(replace(unit, W=unit.W * unit.W.dtype.type(scale)), Z, Y, w, recipe) for scale in scales)
    untrained, scale = min(zip(stages, scales, strict=True), key=lambda pair: pair[0].left_out_error)
    layer, alpha = untrained.layer, untrained.alpha
    change = step_direction(layer, untrained.path.readout(LIFT * alpha), Z, Y, w, recipe.gradient)
    step, held_out = recipe.step, HeldOut()
    if step is None:
        held_out = judge_steps(layer, Z, Y, w, alpha, recipe, generator)
        step = held_out.choice()
    trained = untrained
    if step:
        trained = _stage(take_steps(layer, change, step, Z, Y, w, LIFT * alpha, recipe), Z, Y, w, recipe)
    return FittedNetwork(untrained, trained, scale, step, held_out, _leading(change))


def _stage(layer: Layer, Z: Array, Y: Array, w: Array, recipe: Recipe) -> Stage:
    path = decompose(layer.design(Z), Y, w)
    return Stage(layer, path, *best_penalty(path, recipe.alphas))


def _leading(change: Array) -> Array:
    """The unit direction of input space along which the step moves the layer most; its largest entry is positive."""
    _, values, right = np.linalg.svd(change.astype(np.float64), full_matrices=False)
    direction = right[0] if values[0] > 0 else np.zeros(change.shape[1])
    return direction * np.sign(direction[np.argmax(np.abs(direction))])
