"""Quadrature nodes: a sample's coordinate z along the learned direction, a neuron's readout A and weight θ along it.

After the step a neuron sees σ(θ z + rest). Along the learned direction its weight is

    labels   θ = c₁ η s A/√N + O/√d,   direction β = Xᵀr/n,      overlap with β⋆: c⋆₁/s
    full     θ = |t| A/√N + O/√d,      direction t = Wᵀa,        overlap with β⋆: c₁ η c⋆₁/|t|,
             |t|² = (1 − c₁² η)² + (c₁ η)² (s² − c₁²)

with A = √N a and O ~ N(0, 1). The literal ("full") gradient contains the network's own output f₀ and so depends on
p = W₀ᵀa; conditioning on t = Wᵀa accounts for that, W = a tᵀ + (I − aaᵀ)W̃.
"""

# pyright: reportConstantRedefinition=false, reportMissingTypeStubs=false
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import roots_hermitenorm

from onestride._numerics import Array, Float
from onestride.problem import Problem
from onestride.theory.direction import direction

_FARTHEST = 7.5  # standard normal nodes end here: weight 1e-12
_OFFSETS = 5  # Gauss-Hermite nodes in O; they spread θ by 1/√d only


@dataclass(frozen=True)
class LearnedDirection:
    """The learned direction: θ = amplitude·A + O/√d, and its overlap with β⋆."""

    amplitude: float
    overlap: float
    through_output: bool  # the direction is t = Wᵀa (full gradient), not β
    tilt: float  # its cosine with p = W₀ᵀa, negative once the step has turned the output round


class Neurons(NamedTuple):
    """Nodes k of the joint law of (A, θ) with their weights."""

    A: Float[Array, "k"]
    theta: Float[Array, "k"]
    weight: Float[Array, "k"]


def learned_direction(problem: Problem, *, through_output: bool | None = None) -> LearnedDirection:
    """Amplitude and overlap of the learned direction.

    `through_output` chooses the form by hand: in labels mode both are right, t = p + c₁ηβ then, and differ by O(1/d).
    """
    beta, c1, teacher_c1 = direction(problem), problem.sigma.coefficients[1], problem.target.coefficients[1]
    eta, full = problem.eta, problem.gradient == "full"
    if not (full if through_output is None else through_output):
        return LearnedDirection(c1 * eta * beta.s / math.sqrt(problem.N), beta.overlap, False, 0.0)
    kept = 1 - c1**2 * eta if full else 1.0  # what is left of p = W₀ᵀa
    length = np.hypot(kept, c1 * eta * np.sqrt(max(beta.s**2 - (c1**2 if full else 0.0), 0.0)))
    overlap = np.clip(c1 * eta * teacher_c1 / length, -1, 1) if length > 0 else 0.0  # rounding may pass 1
    tilt = kept / length if length > 0 else 0.0
    return LearnedDirection(float(length / math.sqrt(problem.N)), float(overlap), True, float(tilt))


@lru_cache(maxsize=256)
def normal_rule(
    nodes: int, scale: float = 1.0, *, shift: float = 0.0
) -> tuple[Float[Array, "nodes"], Float[Array, "nodes"]]:
    """Nodes and probabilities for N(0, 1): the trapezoid rule in u, x = scale·sinh u, |x| ≤ 7.5.

    Nodes crowd near 0 on the given scale: functions of θz vary over |z| ~ 1/θ, which defeats Gauss-Hermite at large θ.
    `shift` moves them all, in units of their distance in u: the rule is as good anywhere.
    """
    u, distance = np.linspace(-1, 1, nodes, retstep=True)
    u = (u + shift * distance) * np.arcsinh(_FARTHEST / scale)
    x = scale * np.sinh(u)
    w = np.exp(-x * x / 2) * np.cosh(u)
    return _kept(x, w / w.sum())


@lru_cache(maxsize=1)
def _offsets() -> tuple[Float[Array, "o"], Float[Array, "o"]]:
    """Nodes and probabilities of O."""
    O, w = roots_hermitenorm(_OFFSETS)
    return _kept(O, w / w.sum())


def _kept(x: Array, w: Array) -> tuple[Array, Array]:
    """Nodes and probabilities that serve many, and so must not change."""
    x.flags.writeable = w.flags.writeable = False
    return x, w


def resolution(amplitude: float, nodes: int) -> tuple[int, float]:
    """Nodes of z and the scale on which they crowd near 0: |z| ~ 1/θ for strong steps."""
    scale = 1 / max(1.0, amplitude)
    return 2 * round(nodes * np.arcsinh(_FARTHEST / scale) / np.arcsinh(_FARTHEST) / 2 - 0.5) + 1, scale


def readout_rule(
    problem: Problem, nodes: int, scale: float = 1.0, *, shift: float = 0.0
) -> tuple[Float[Array, "nodes"], Float[Array, "nodes"]]:
    """Nodes and probabilities for A = √N a; Gaussian ones crowd near 0 on the given scale."""
    if problem.readout == "constant":
        return np.ones(1), np.ones(1)
    if problem.readout == "rademacher":
        return np.array([-1.0, 1.0]), np.full(2, 0.5)
    return normal_rule(nodes, scale, shift=shift)


def neuron_nodes(
    problem: Problem,
    learned: LearnedDirection,
    nodes: int,
    *,
    min_weight: float,
    strength: Callable[[Array], Array] | None,
    shift: float = 0.0,
) -> Neurons:
    """Nodes of (A, θ).

    `strength` gives the factor by which the step changes the variance of O at a given A. Without it only θ matters; then
    θ is Gaussian if a is, and one dimension is enough.
    """
    spread = 1 / np.sqrt(problem.d)
    if strength is None and problem.readout == "gaussian" and not learned.through_output:
        A, weight = normal_rule(nodes, shift=shift)
        theta = A * np.hypot(learned.amplitude, spread)
    else:
        A, wa = readout_rule(problem, nodes, shift=shift)
        O, wo = _offsets()
        A, O = (x.ravel() for x in np.meshgrid(A, O, indexing="ij"))
        inflated = 1.0 if strength is None else np.sqrt(strength(A))
        theta = learned.amplitude * A + spread * inflated * O
        weight = np.outer(wa, wo).ravel()
    kept = weight > min_weight
    return Neurons(A[kept], theta[kept], weight[kept] / weight[kept].sum())
