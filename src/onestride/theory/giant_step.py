"""A step of size √n with a constant readout: the fixed point of Cui et al. 2024 (arXiv 2402.04980), as a cross-check.

Their scaling: f = aᵀσ(Wx)/√p with a = 1/√p before the step, sizes α = n/d, β = p/d, α₀ = n₀/d, step η = η̃√p, penalty
Σ(y − f)² + λ_C|a|² with λ_C = λn/N. The gradient uses the labels. With h₁ = E zσ, h⋆₁ = E zσ⋆, h⋆₂ = E σ⋆² + σ_ε² and
h_c = Var σ', a neuron sees rκ + √C z:

    ν² = h⋆₁² + h⋆₂/α₀,   spike r = η̃h₁ν,   bulk variance C = 1 + η̃²h⋆₂h_c/α₀,   alignment γ = h⋆₁/ν.

C is isotropic, which is exact for n₀ ≫ d only. It shares no code with the profile theory, which it checks.
"""

# pyright: reportMissingTypeStubs=false
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import roots_hermitenorm

from onestride._backend.threads import one_thread
from onestride._numerics import Array, gauss_density
from onestride.functions import Function, InputError
from onestride.problem import Problem, Step, expect
from onestride.result import Prediction, Status
from onestride.theory.assumptions import beyond_the_model, needs_identity

_NODES = 60
_TOLERANCE = 1e-11
_DAMPING = 0.5
_MOST = 5000  # sweeps
_SMOOTHING = 400  # inner Gauss-Hermite nodes
_NOTHING = (
    1e-25  # of the activation's power: a mean that is rounding (odd activations without a step) has no coefficient
)
ACCURACY = "exact as n → ∞ at α = 1/2 for n_step ≫ d; otherwise the bulk is treated as isotropic"


@dataclass(frozen=True)
class _Model:
    """Functions of κ at the nodes, and the eigenvalues D of C·W₀W₀ᵀ."""

    kappa: Array
    weight: Array
    mu0: Array
    mu1: Array
    mu2sq: Array
    h: Array
    h1: Array
    hh: Array
    D: Array
    D_weight: Array
    C: float
    alpha: float
    beta: float
    lam: float


@one_thread()
def giant_step(problem: Problem) -> Prediction:
    """Train and test errors from the fixed point of Cui et al., with the step and without it; the problem must have its readout and gradient.

    >>> problem = one.conventions.problem_from("cui2024", d=2000, alpha=1, beta=1, alpha0=0.5, eta_tilde=1, lam=0.01,
    ...                                        activation="tanh", teacher="tanh")
    >>> print(f"{one.giant_step(problem).test_error:.4f}")
    0.2872
    """
    expect(problem)
    if problem.readout != "constant" or problem.gradient != "labels":
        raise InputError(
            'giant_step needs readout="constant" and gradient="labels", as in Cui et al. 2024; '
            f"got readout={problem.readout!r}, gradient={problem.gradient!r}"
        )
    reason = beyond_the_model(problem) or needs_identity(problem, "the theory of giant steps")
    if reason is not None:
        raise InputError(reason)
    if not isinstance(problem.target, Function):
        raise InputError(f"giant_step describes a teacher of one direction, got directions={problem.directions}")
    return _solve(problem, problem.target, _solve(problem.replace(step=Step.none()), problem.target, None))


def _solve(problem: Problem, target: Function, untrained: Prediction | None) -> Prediction:
    with np.errstate(all="ignore"):  # what leaves the range of numbers has not converged
        model = _model(problem, target)
        state, residual, iterations = _iterate(model)
        res, V = _residual_and_V(model, state)
        mse = float(model.weight @ (res / (1 + V) ** 2))
    solved = bool(residual < _TOLERANCE)
    blank = 1.0 if solved else np.nan
    status = Status.SOLVED if solved else Status.NOT_CONVERGED
    return Prediction(
        problem,
        "giant-step",
        train_loss=blank * (mse + problem.ridge * float(state[4])),
        train_mse=blank * mse,
        test_error=blank * float(model.weight @ res),
        status=status,
        message=status.value,
        accuracy=ACCURACY,
        residual=residual,
        iterations=iterations,
        untrained=untrained,
    )


def _model(problem: Problem, target: Function) -> _Model:
    sigma = problem.sigma
    alpha0 = problem.step_samples / problem.d
    eta = problem.eta / np.sqrt(problem.N)  # η̃
    h1, power = sigma.coefficients[1], target.second_moment + problem.noise**2
    nu = np.sqrt(target.coefficients[1] ** 2 + power / alpha0)
    C = 1 + eta**2 * power * sigma.derivative_variance / alpha0
    gamma = target.coefficients[1] / nu if nu > 0 else 0.0
    kappa, weight = roots_hermitenorm(_NODES)
    weight = weight / weight.sum()
    mu0, mu1, square = _smoothed(sigma, eta * h1 * nu * kappa, np.sqrt(C))
    mu1 = mu1 / np.sqrt(C)
    h, first, square_h = _smoothed(target, gamma * kappa, np.sqrt(max(1 - gamma**2, 0.0)))
    beta = 1 / problem.psi
    x, w = _marchenko_pastur(beta)
    mu2sq = np.maximum(square - mu0**2 - C * mu1**2, 0.0)
    hh = square_h + problem.noise**2
    lam = problem.ridge * problem.n / problem.N
    return _Model(kappa, weight, mu0, mu1, mu2sq, h, first, hh, C * x, w, C, 1 / problem.phi, beta, lam)


def _smoothed(f: Function, mean: Array, scale: float) -> tuple[Array, Array, Array]:
    """E f, E[f z] and E f² of f(mean + scale·z), z ~ N(0, 1): by the function's own rule, which resolves its kinks."""
    if scale < 0.3 or np.abs(mean).max() > 42 - 9 * scale:  # beyond that rule: Gauss-Hermite
        z, w = roots_hermitenorm(_SMOOTHING)
        kept = w > 1e-20
        z, w = z[kept], w[kept] / w[kept].sum()
        values = f(mean[:, None] + scale * z)
        return values @ w, values @ (w * z), values**2 @ w
    x, w = f.rule
    z = (x - mean[:, None]) / scale
    p = w * gauss_density(z) / scale
    values = f(x)
    return p @ values, (p * z) @ values, p @ values**2


def _marchenko_pastur(beta: float) -> tuple[Array, Array]:
    """Nodes of the eigenvalues of W₀W₀ᵀ (p × p), density √((x₊−x)(x−x₋))/(2πβx), atom 1 − 1/β at 0 when β > 1."""
    lower, upper = (1 - np.sqrt(beta)) ** 2, (1 + np.sqrt(beta)) ** 2
    angle = (np.arange(400) + 0.5) * np.pi / 400  # the midpoint rule in this angle is spectrally accurate
    x = (lower + upper) / 2 - 2 * np.sqrt(beta) * np.cos(angle)
    w = (2 * np.sqrt(beta) * np.sin(angle)) ** 2 / (2 * np.pi * beta * x) * np.pi / 400
    w *= min(1.0, 1 / beta) / w.sum()
    if beta > 1:
        x, w = np.append(x, 0.0), np.append(w, 1 - 1 / beta)
    return x, w


def _residual_and_V(m: _Model, state: Array) -> tuple[Array, Array]:
    """E[(y − f̂)² | κ] on fresh data, and V(κ)."""
    mean, theta, psi, q1, q2, V1, V2 = state
    fit = m.mu0 * mean + m.mu1 * m.kappa * theta
    res = m.hh + fit**2 - 2 * fit * m.h - 2 * m.mu1 * psi * m.h1 + m.mu1**2 * q1 + m.mu2sq * q2
    return res, m.mu1**2 * V1 + m.mu2sq * V2


def _update(m: _Model, state: Array) -> Array:
    """One undamped sweep over (m, θ, ψ, q₁, q₂, V₁, V₂)."""
    mean, theta, *_ = state
    res, V = _residual_and_V(m, state)
    ratio, w1, w2 = m.alpha / m.beta, m.weight / (1 + V), m.weight / (1 + V) ** 2
    fit = m.mu0 * mean + m.mu1 * m.kappa * theta
    q1h, q2h = ratio * (w2 @ (m.mu1**2 * res)), ratio * (w2 @ (m.mu2sq * res))
    V1h, V2h = ratio * (w1 @ m.mu1**2), ratio * (w1 @ m.mu2sq)
    theta_h = ratio * (w1 @ (m.kappa * m.mu1 * (m.h - fit)))
    psi_h = ratio * (w1 @ (m.mu1 * m.h1))
    spike, rounding = w1 @ m.mu0**2, _NOTHING * (w1 @ (m.mu1**2 + m.mu2sq))
    mean = (w1 @ (m.mu0 * (m.h - m.mu1 * m.kappa * theta))) / spike if spike > rounding else 0.0
    D, w, S = m.D, m.D_weight, m.lam + V2h + V1h * m.D
    once, twice = w / S, w / S**2
    q_noise = q1h * D + q2h
    a, b = m.beta * theta_h**2 * m.C, m.beta * psi_h**2
    return np.array(
        [
            mean,
            m.beta * m.C * theta_h * once.sum(),
            m.beta * psi_h * (once @ D),
            twice @ (D * q_noise) + a * (twice @ D) + b * (twice @ D**2),
            twice @ q_noise + a * twice.sum() + b * (twice @ D),
            once @ D,
            once.sum(),
        ]
    )


def _iterate(m: _Model) -> tuple[Array, float, int]:
    """Damped iteration; stops on the undamped change, relative to the size of the unknowns."""
    state = np.array([0.0, 0.0, 0.0, 0.1, 0.1, 0.1, 0.1])
    change = np.inf
    for i in range(1, _MOST + 1):
        new = _update(m, state)
        change = float(np.abs(new - state).max() / (1 + np.abs(new).max()))
        if not np.isfinite(change):
            return state, np.inf, i
        if change < _TOLERANCE:
            return new, change, i
        state = _DAMPING * new + (1 - _DAMPING) * state
    return state, change, _MOST
