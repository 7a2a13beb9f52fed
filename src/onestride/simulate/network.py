"""Draws: the teacher, the untrained network, batches of data; and the exact gradient step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onestride._backend import Role, stream, tiles
from onestride._numerics import Array
from onestride.problem import Problem


@dataclass(frozen=True)
class Network:
    """W₀ (N × d) and the readout a (N) before the step."""

    W0: Array
    a: Array


@dataclass(frozen=True)
class Batch:
    """Inputs X (rows × d), noiseless labels σ⋆(Xβ⋆) and noisy labels y."""

    X: Array
    signal: Array
    y: Array


@dataclass(frozen=True)
class Gradient:
    """G = −∂L/∂W at W₀ (N × d), the residual r it used, and β = Xᵀr/n (d)."""

    G: Array
    residual: Array
    beta: Array


def draw_teacher(problem: Problem, seed: int) -> Array:
    """β⋆, uniform on the unit sphere of R^d."""
    g = stream(seed, "teacher").standard_normal(problem.d)
    return g / np.linalg.norm(g)


def draw_network(problem: Problem, seed: int) -> Network:
    """W₀ with unit rows (or Gaussian ones) and the readout a of size 1/√N."""
    N, d = problem.N, problem.d
    W0 = stream(seed, "weights").standard_normal((N, d))
    if problem.weights == "sphere":
        W0 /= np.linalg.norm(W0, axis=1, keepdims=True)
    else:
        W0 /= np.sqrt(d)
    generator = stream(seed, "readout")
    if problem.readout == "gaussian":
        a = generator.standard_normal(N)
    elif problem.readout == "rademacher":
        a = generator.choice([-1.0, 1.0], N)
    else:
        a = np.ones(N)
    return Network(W0, a / np.sqrt(N))


def draw_batch(problem: Problem, seed: int, inputs: Role, noise: Role | None, rows: int) -> Batch:
    """`rows` fresh samples; without a noise stream y is the noiseless signal."""
    X = stream(seed, inputs).standard_normal((rows, problem.d))
    signal = problem.target(X @ draw_teacher(problem, seed))
    y = signal if noise is None else signal + problem.noise * stream(seed, noise).standard_normal(rows)
    return Batch(X, signal, y)


def gradient(problem: Problem, network: Network, batch: Batch) -> Gradient:
    """The negative gradient of (1/2n)‖y − σ(XWᵀ)a‖² at W₀, row tile by row tile.

    G = (1/n) Σ_i r_i [a ∘ σ'(W₀x_i)] x_iᵀ with r = y − σ(XW₀ᵀ)a, or r = y for the labels-only gradient.
    """
    sigma, n = problem.sigma, batch.X.shape[0]
    G = np.zeros_like(network.W0)
    residual = batch.y.copy()
    for rows in tiles(n, network.W0.shape[0]):
        X = batch.X[rows]
        pre = X @ network.W0.T
        if problem.gradient == "full":
            residual[rows] -= sigma(pre) @ network.a
        slope = sigma.derivative(pre)
        slope *= residual[rows, None]
        G += slope.T @ X
    G *= network.a[:, None] / n
    return Gradient(G, residual, batch.X.T @ residual / n)


def step_gradient(problem: Problem, network: Network, seed: int) -> Gradient:
    """The gradient on the seed's own batch of the step."""
    return gradient(problem, network, draw_batch(problem, seed, "step_inputs", "step_noise", problem.step_samples))
