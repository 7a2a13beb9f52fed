"""What theory expects of the fitted network on rows like these: its error from half of the rows, and with more of them.

The features of the layer have a kernel, and the rows of one half show its law (`theory.table.kernel_law`). A step is taken on the other half,
so that the rows of the law have not seen it. With these very features

    test error at n rows = min over γ of (A − dA/dlog γ)/(1 − q/n),     z(γ) < n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onestride._numerics import Array, Float
from onestride.estimator._judge import EFFORTS, LIFT, Move, learned_map, take_steps
from onestride.estimator._layer import Layer, step_direction, weight_gradient
from onestride.estimator._ridge import ridge_solutions
from onestride.theory.table.kernel_law import KernelLaw, kernel_law

MOST_ROWS = 1500  # that the prediction is made from
FEWEST_ROWS = 80


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of the table, n × d and n × outputs, the untrained layer with its penalty, and the move it takes."""

    layer: Layer
    move: Move
    alpha: float
    Z: Array
    Y: Array

    @classmethod
    def of(cls, layer: Layer, move: Move, alpha: float, Z: Array, Y: Array) -> Sample:
        """At most `MOST_ROWS` rows."""
        rows = np.random.default_rng(0).permutation(len(Z))[:MOST_ROWS]
        return cls(layer, move, alpha, Z[rows], Y[rows])


@dataclass(frozen=True)
class Outlook:
    """Predicted errors without and with the step, relative to the variance of the target, and their relative standard errors."""

    laws: tuple[tuple[KernelLaw, ...], tuple[KernelLaw, ...]]

    def errors(self, n: float) -> tuple[float, float]:
        """At n rows."""
        without, trained = (float(np.mean([best(law, n)[0] for law in laws])) for laws in self.laws)
        return without, trained

    def stderr(self, n: float) -> tuple[float, float]:
        """Relative, by the number of rows and by how the halves differ."""
        out = [np.array([best(law, n) for law in laws]) for laws in self.laws]
        return tuple(
            float(np.hypot(np.mean(o[:, 1]) / np.sqrt(2), np.ptp(o[:, 0]) / 2 / np.mean(o[:, 0]))) for o in out
        )  # pyright: ignore[reportReturnType]


def best(law: KernelLaw, n: float) -> tuple[float, float]:
    """The smallest error over the penalties, and its relative standard error."""
    some = (law.z < n * (1 - 1e-6)) & (law.u >= law.lowest(n))
    test = (law.A - law.slope)[some] / (1 - law.q[some] / n)
    j = int(np.argmin(test))
    return float(test[j]), float(law.stderr[some][j])


def outlook(sample: Sample, step: float) -> Outlook:
    """Laws of both halves of the rows before and after a step of size ρ on the other half."""
    halves = np.array_split(np.arange(len(sample.Z)), 2)
    pairs = [_pair(sample, step, fit, shown) for fit, shown in (halves, halves[::-1])]
    return Outlook((tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)))


def _pair(sample: Sample, step: float, fit: Array, shown: Array) -> tuple[KernelLaw, KernelLaw]:
    layer, Z, Y = sample.layer, sample.Z[fit], sample.Y[fit]
    before = _law(layer, sample.Z[shown], sample.Y[shown])
    if not step:
        return before, before
    w, move, (guide, strength) = np.ones(len(Z)), sample.move, layer.leader(sample.alpha)
    if move.is_map:
        moved = learned_map(layer, Z, Y, w, move, step, EFFORTS["default"]).applied(layer, step)
        return before, _law(moved.settled(Z, Y, w, strength)[0], sample.Z[shown], sample.Y[shown])
    kind = "neurons" if move.kind == "neurons" else "shared"
    (readout,) = ridge_solutions(guide.design(Z), Y, w, np.array([LIFT * strength]))
    change = step_direction(guide, weight_gradient(guide, readout, Z, Y, w), kind, layer)
    trained = take_steps(layer, change, step, Z, Y, w, LIFT * strength, kind, move.repeats, guide)
    return before, _law(trained.settled(Z, Y, w, strength)[0], sample.Z[shown], sample.Y[shown])


def _law(layer: Layer, Z: Float[Array, "n d"], Y: Float[Array, "n outputs"]) -> KernelLaw:
    """The intercept is free: features and targets are centred."""
    F, T = layer.design(Z).astype(float), Y.astype(float)
    return kernel_law(F - F.mean(0), T - T.mean(0), fixed=True)
