"""The network behind the estimators: a spherical first layer and the gradient step of a fitted network.

network    f(z) = c₀ + cᵀσ(W₀Rz + b) + lᵀz,   rows of W₀ of length s (the input scale), b ~ N(0, 1), R = I before the step
readout    (c, l, c₀) by ridge regression
step       shared   R = I + ηP,  P the symmetric part of −∂/∂R of ½⟨(y − f)²⟩ at R = I,  ⟨r ∇f zᵀ⟩;  W = W₀R
           neurons  W = W₀ + ηG,  G = −∂/∂W of the same: every neuron moves on its own, as in the theory of one step

The antisymmetric part of ∂/∂R is left out: to first order it rotates the inputs, which a spherical W₀ does not feel. η is
given as the length of the step relative to the layer, ρ = |ηW₀P|/|W₀| (ρ = |ηG|/|W₀|), and W is brought back to the
length of W₀, so that the step changes directions and not the input scale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from onestride._backend import HOST, Backend, map_tiles, namespace, on_host
from onestride._numerics import Array
from onestride.estimator._ridge import Readout
from onestride.functions import Function, activation

GradientKind = Literal["shared", "neurons"]


@dataclass(frozen=True)
class Layer:
    """σ(w_jᵀ(z − a_j) + b_j) with rows w_j and anchors a_j (N × d; None: all 0), followed by the inputs themselves when `skip`."""

    W: Array
    b: Array
    activation: Any  # its name and not the function, which does not pickle
    skip: bool
    anchors: Array | None = None

    @property
    def sigma(self) -> Function:
        """The activation σ, not centred: the intercept is fitted."""
        return activation(self.activation, centred=False)

    @property
    def bias(self) -> Array:
        """b_j − w_jᵀa_j: a neuron stays where its anchor is when its weights move."""
        return self.b if self.anchors is None else self.b - np.einsum("nd,nd->n", self.W, self.anchors)

    @property
    def width(self) -> int:
        """N, without what skips the layer."""
        return self.W.shape[0]

    def leader(self, alpha: float) -> tuple[Layer, float]:
        """The network whose moves this layer takes, and its penalty: itself at the given one."""
        return self, alpha

    def at_scale(self, scale: float) -> Layer:
        """The layer with rows of that length, in place of 1."""
        return replace(self, W=self.W * self.W.dtype.type(scale))

    def settled(self, Z: Array, Y: Array, w: Array, alpha: float) -> tuple[Layer, float]:
        """The layer after a move with the input scale and penalty that suit it: its own."""
        return self, alpha

    def placed(self, put: Callable[[Array], Any]) -> Layer:
        """The same where `put` brings its arrays."""
        return replace(self, W=put(self.W), b=put(self.bias), anchors=None)

    def first(self, count: int) -> Layer:
        """The layer of its first neurons."""
        anchors = None if self.anchors is None else self.anchors[:count]
        return replace(self, W=self.W[:count], b=self.b[:count], anchors=anchors)

    def design(self, Z: Array) -> Array:
        """Features of standardised rows, n × (N + d), in the precision of Z and where it lives."""
        if on_host(Z):  # every pass over n × N numbers counts
            N = self.width
            features = np.empty((len(Z), N + self.skip * Z.shape[1]), Z.dtype)
            hidden, features[:, N:] = features[:, :N], Z if self.skip else 0
            np.matmul(Z, self.W.T, out=hidden)
            bias, sigma = self.bias, self.sigma
            map_tiles(lambda z, out: sigma(np.add(z, bias, out=out), out=out), hidden, out=hidden)
            return features
        hidden, xp = self.sigma(Z @ self.W.T + self.bias), namespace(Z)
        hidden = hidden if hidden.dtype == Z.dtype else xp.astype(hidden, Z.dtype)
        return xp.concat([hidden, Z], axis=1) if self.skip else hidden

    def outputs(self, Z: Array, readout: Readout) -> Array:
        """f(z), n × outputs, in the precision of Z."""
        c, c0 = (part.astype(Z.dtype) for part in readout)
        return self.design(Z) @ c + c0

    def slopes(self, Z: Array) -> Array:
        """σ'(WZᵀ + b), n × N."""
        return self.sigma.derivative(Z @ self.W.T + self.bias)

    def input_gradients(self, Z: Array, coefficients: Array) -> Iterator[Array]:
        """∇_z of each output in turn at every row, n × d."""
        N, slopes = self.W.shape[0], self.slopes(Z)
        for c in coefficients.T:
            gradients = (slopes * c[:N]) @ self.W
            yield gradients + c[N:] if self.skip else gradients


@dataclass(frozen=True)
class Recipe:
    """What the estimators hand down; `scale` and `step` are None when they are to be chosen; `pull` in outlying targets.

    `keep_rows`: the features of all rows are wanted after the fit, as far as there is room. Large tables are fitted on the `backend`.
    `ranks`: the second half of the columns are ranks of the first.
    """

    width: int
    activation: Any
    skip: bool
    gradient: Literal["auto", "shared", "neurons", "full", "diagonal"]
    steps: int
    scale: float | None
    step: float | None
    alphas: Array
    pull: bool = False
    keep_rows: bool = False
    backend: Backend = HOST
    first_layer: Literal["auto", "dense", "ranks", "sparse", "landmarks"] = "dense"
    ranks: bool = False


def draw_layer(varies: Array, recipe: Recipe, generator: np.random.Generator, dtype: np.dtype) -> Layer:
    """Rows of W₀ uniform on the unit sphere of the inputs that vary (d booleans), biases standard normal."""
    W = generator.standard_normal((recipe.width, varies.size))
    if varies.any():
        W *= varies
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    b = generator.standard_normal(recipe.width)
    return Layer(W.astype(dtype), b.astype(dtype), recipe.activation, recipe.skip)


def weight_gradient(
    layer: Layer, readout: Readout, Z: Array, Y: Array, w: Array, features: Array | None = None
) -> Array:
    """G = ⟨[(r cᵀ) ∘ σ'(Wz + b)] (z − a)ᵀ⟩ over rows, N × d, up to a factor; with the features of the rows where they are known."""
    c, c0 = readout
    residual = Y - (layer.design(Z) if features is None else features) @ c - c0
    pull = layer.slopes(Z)
    pull *= (residual * w[:, None]) @ c[: layer.W.shape[0]].T
    G = pull.T @ Z
    if layer.anchors is not None:
        G -= pull.sum(axis=0)[:, None] * layer.anchors
    return G


def step_direction(layer: Layer, G: Array, kind: GradientKind, of: Layer | None = None) -> Array:
    """The direction of the step with that gradient, ΔW (N × d), scaled to |ΔW| = |W|; zero when there is nothing to follow.

    The shared map of one network may move the layer `of` another; its gradient is WᵀG = ⟨r ∇f zᵀ⟩.
    """
    W, change = layer.W, G
    V = W if of is None else of.W
    if kind == "shared":
        change = (V @ W.T) @ G + (V @ G.T) @ W  # V(P + Pᵀ) with P = WᵀG, without a d × d matrix
    size = np.linalg.norm(change)
    return change * (np.linalg.norm(V) / size) if size > 0 else change


def stepped(layer: Layer, change: Array, step: float) -> Layer:
    """W + ρΔW, brought back to the length of W."""
    W = layer.W / (1 + step) + change * (step / (1 + step))  # that direction for every ρ up to the largest number
    W *= np.linalg.norm(layer.W) / np.linalg.norm(W)
    return replace(layer, W=W.astype(layer.W.dtype))
