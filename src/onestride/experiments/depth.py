"""`depth`: a three-layer network f(x) = aᵀσ(W₂σ(W₁x)), one step on the first, the second or both hidden layers.

A step on W₂ alone is the step of a two-layer network whose inputs are h = σ(W₁x), and theory describes it as such: h is close to
Gaussian with covariance Σ_h = c₁²W₁W₁ᵀ + Var_{>1} I, and of β⋆ᵀx it holds u, the best linear function of h, with
ϱ² = c₁²β⋆ᵀW₁ᵀΣ_h⁻¹W₁β⋆. So with m = E σ² and an eigenvalue s of W₁W₁ᵀ

    inputs h/√m of N coordinates, eigenvalues (c₁²s + Var_{>1})/m, the direction of u having energies ∝ s/(c₁²s + Var_{>1})²
    teacher Σ_k c⋆_k ϱ^k H_k(u), noise σ_ε² + what it lacks of E σ⋆²,     step m η.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from onestride._backend import Backend, choose, stream
from onestride._numerics import Array, hermite_table
from onestride.comparison import ERROR_TOLERANCE, GAIN_FLOOR, GAIN_TOLERANCE, Check, Pair, agree, check
from onestride.experiments.kit import EXPONENT, pm, problem_at, row_of, rows_along, sideways
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.probes import ABOVE, over_seeds
from onestride.experiments.verdict import beside_theory, count_check, decide_each, listed, tally, worded
from onestride.inputs import Covariance
from onestride.plot import Panel, theory_series
from onestride.problem import Problem
from onestride.result import Estimate, PredictionGrid, Status
from onestride.simulation.gradient import largest_singular_values
from onestride.simulation.network import draw_batch, draw_network, draw_teacher, gradient, step_batch
from onestride.simulation.ridge import ridge_path
from onestride.simulation.rows import Rows
from onestride.simulation.spectrum import decompose
from onestride.theory.predict import predict_grid

CLAIM = "A hidden layer's first gradient is near rank one, makes a spike along the teacher's direction and lowers the error."
SIZES = {"n": (120, 500, 1500), "seeds": (4, 24, 16), "points": (5, 21, 21)}
MODES = {"two layers": "two-layer network", "first": "step on W₁", "second": "step on W₂", "both": "step on both"}
GRADIENTS = ("two layers", "W₁", "W₂")
EXPONENTS = (0.0, 0.125, 0.25, 0.375, 0.5)
QUANTITIES = {  # titles and labels of the panels
    "test error": ("gain by the step, paired", "fall of the test error"),
    "spikes": ("spikes", "spikes of F"),
    "alignment": ("leading left singular vector of F", "overlap with Xβ⋆"),
}


@dataclass(frozen=True)
class Data:
    """`QUANTITIES` without and with the step (modes × (1 + exponents) × 3), and s₂/s₁ of the three gradients."""

    problem: Problem
    values: Estimate
    ratios: Estimate
    theory: dict[str, PredictionGrid] = field(default_factory=dict)

    @property
    def judged(self) -> dict[str, list[Pair]]:
        """Test errors and gains beside theory by mode, at every exponent, where theory does not mark its own."""
        among, out = 2 * len(EXPONENTS) * len(self.theory), dict[str, list[Pair]]()
        for mode, grid in self.theory.items():
            i, pairs = list(MODES).index(mode), out.setdefault(mode, [])
            room = GAIN_FLOOR * float(grid.untrained.test_error[0, 0])
            for j, at in enumerate(int(np.argmin(abs(grid.exponents - alpha))) for alpha in EXPONENTS):
                if grid.status[at, 0] is not Status.SOLVED:
                    continue
                error, gain = float(grid.test_error[at, 0]), float(grid.test_gain[at, 0])
                pairs += [
                    agree(error, self.stepped(0)[i, j], among=among, quantity="test error"),
                    agree(gain, self.gain[i, j], GAIN_TOLERANCE, absolute=room, among=among, quantity="gain"),
                ]
        return out

    def stepped(self, quantity: int) -> Estimate:
        """One of the quantities with the step, modes × exponents."""
        return self.values[:, 1:, quantity]

    @property
    def gain(self) -> Estimate:
        """Fall of the test error by the step, modes × exponents."""
        return self.values[:, :1, 0] - self.stepped(0)


@dataclass(frozen=True)
class Deep:
    """W₁ (N × d), W₂ (N × N), a (N); rows of W₂ are scaled so that its pre-activations have variance 1."""

    W1: Any
    W2: Any
    a: Any


def draw_deep(problem: Problem, seed: int) -> Deep:
    """The two-layer network of this seed with one more layer of N neurons between its weights and its readout."""
    network = draw_network(problem, seed)
    W2 = stream(seed, "probe").standard_normal((problem.N, problem.N))
    W2 /= np.linalg.norm(W2, axis=1, keepdims=True) * np.sqrt(problem.sigma.second_moment)
    return Deep(network.W0, W2, network.a)


def deep_gradient(problem: Problem, net: Deep, X: Any, y: Any) -> tuple[Any, Any]:
    """The negative gradients of (1/2n)‖y − f‖² in W₁ and W₂, by the chain rule; arrays of any library."""
    sigma, n = problem.sigma, X.shape[0]
    first = X @ net.W1.T
    hidden = sigma(first)
    second = hidden @ net.W2.T
    residual = y - sigma(second) @ net.a
    back2 = residual[:, None] * sigma.derivative(second) * net.a
    back1 = (back2 @ net.W2) * sigma.derivative(first)
    return back1.T @ X / n, back2.T @ hidden / n


def measure(size: SimpleNamespace, progress: Progress) -> Data:
    """One step of size n^α, then ridge regression on the last hidden layer."""
    problem = problem_at(size.n, N=size.n, activation="softplus")
    values, ratios = over_seeds(partial(one_seed, problem, backend=choose(size.device)), size.seeds, progress)
    known = {"two layers": problem, "second": as_two_layers(problem)}
    theory = {mode: predict_grid(p, np.linspace(0, 0.5, size.points), [p.ridge]) for mode, p in known.items()}
    return Data(problem, values, ratios, theory)


def as_two_layers(problem: Problem) -> Problem:
    """The problem that a step on W₂ solves, with its inputs h = σ(W₁x); the spectrum is that of one drawn W₁."""
    sigma, target, W1 = problem.sigma, problem.target, draw_network(problem, 0).W0
    s = np.maximum(np.linalg.eigvalsh(W1 @ W1.T), 0.0)
    seen = sigma.coefficients[1] ** 2 * s
    values = seen + sigma.nonlinear_power
    overlap = np.sqrt(np.sum(seen / values) / problem.d)
    kept = overlap ** np.arange(target.coefficients.size)
    lacks = target.second_moment - float(np.sum((kept * target.normalised) ** 2))
    step = problem.step.replace(constant=sigma.second_moment * problem.step.constant)
    return problem.replace(
        d=problem.N,
        inputs=Covariance(tuple(values.tolist()), tuple((s / values**2).tolist())),
        teacher=tuple(np.trim_zeros(kept * target.coefficients, "b").tolist()),
        noise=float(np.sqrt(problem.noise**2 + max(lacks, 0.0))),
        step=step,
    )


def one_seed(problem: Problem, seed: int, *, backend: Backend) -> tuple[Array, Array]:
    """`QUANTITIES` without and with the step, shape (modes, 1 + exponents, 3), and s₂/s₁ of the three gradients."""
    sigma, put, get = problem.sigma, backend.put, backend.get
    net, step, network = draw_deep(problem, seed), step_batch(problem, seed), draw_network(problem, seed)
    G = put(gradient(problem, network, step, backend=backend).G)
    W0, W1, W2 = put(network.W0), put(net.W1), put(net.W2)
    G1, G2 = deep_gradient(problem, Deep(W1, W2, put(net.a)), put(step.X), put(step.y))
    train = draw_batch(problem, seed, "ridge_inputs", "ridge_noise", problem.n)
    test = draw_batch(problem, seed, "test_inputs", None, 2 * problem.n)
    score = hermite_table(train.X @ draw_teacher(problem, seed), 1)[1]
    etas = [0.0, *(problem.at(exponent=a).eta for a in EXPONENTS)]
    X, T = put(train.X), put(test.X)

    def features(mode: str, eta: float, inputs: Any) -> Any:
        if mode == "two layers":
            return sigma(inputs @ (W0 + eta * G).T)
        first = W1 + eta * G1 if mode in ("first", "both") else W1
        second = W2 + eta * G2 if mode in ("second", "both") else W2
        return sigma(sigma(inputs @ first.T) @ second.T)

    out = np.empty((len(MODES), len(etas), len(QUANTITIES)))
    for i, mode in enumerate(MODES):
        edge = np.inf
        for j, eta in enumerate(etas):
            F = features(mode, eta, X)
            coefficients = ridge_path(F, train.y, np.array([problem.ridge]), backend=backend).coefficients[:, 0]
            found = get(features(mode, eta, T) @ put(coefficients))
            error = ((test.signal - found) ** 2).mean() + problem.noise**2
            centred = Rows.longer(F - backend.xp.mean(F, axis=0, keepdims=True), backend)
            values, vectors = decompose(centred, problem.n, 1)
            edge = values[-1] if j == 0 else edge
            out[i, j] = error, (values > ABOVE**2 * edge).sum(), (vectors[:, 0] @ score) ** 2 / (score @ score)
    singular = [largest_singular_values(matrix, 2, backend=backend) for matrix in (G, G1, G2)]
    return out, np.array([s[1] / s[0] for s in singular])


def judge(data: Data) -> Judgement:
    """The picture survives where the gradient is near rank one, a spike points at the teacher and the error falls."""
    gain, spikes, aligned = data.gain[:, -1], data.stepped(1)[:, -1], data.stepped(2)[:, -1]
    rows: list[dict] = []
    survive: dict[str, list[Check]] = {}
    for i, label in enumerate(MODES.values()):
        for k, name in enumerate(QUANTITIES):
            rows += rows_along("alpha", EXPONENTS, data.stepped(k)[i], network=label, quantity=name)
        if i:  # the others are measured by the two-layer network
            half = Estimate(aligned.values[:, i] - aligned.values[:, 0] / 2)
            count = count_check(spikes[i], 0.5, np.inf, among=9)
            survive[label] = [count, check(half, low=0, among=9), check(gain[i], low=0, among=9)]
    for i, name in enumerate(GRADIENTS):
        rows += rows_along("alpha", (0.0,), data.ratios[i], network=name, quantity="s₂/s₁ of the gradient")
    judged = data.judged
    for mode, pairs in judged.items():
        rows += [row_of(pair, network=MODES[mode], quantity=f"{pair.quantity} beside theory") for pair in pairs]
    return Judgement(
        words=beside_theory(decide_each(survive), [pair for pairs in judged.values() for pair in pairs]),
        finding=(
            f"At α = 1/2 and n = {data.problem.n} do spike, alignment and gain all survive? {listed(survive)}. Gain in test "
            f"error: {_each(gain)}. Overlap of the leading feature vector with X̃β⋆: {_each(aligned)}. Second over first "
            f"singular value of the gradient: {_each(data.ratios, GRADIENTS)}.{_theory_words(data)}"
        ),
        surprise=(
            f"The {_beside(gain, 'first', 'two layers')}; the {_beside(gain, 'both', 'first')}. {_last_stretch(data)} Alignment counts as surviving at half the two-layer "
            "network's overlap."
        ),
        rows=rows,
    )


def _theory_words(data: Data) -> str:
    """Errors at the largest exponent beside theory, and how all of them and the gains fare."""
    told = []
    for mode, grid in data.theory.items():
        i = list(MODES).index(mode)
        pairs = data.judged[mode]
        measured = f"{pm(data.stepped(0)[i, -1])}, gain {pm(data.gain[i, -1], 2)}"
        theory = f"{grid.test_error[-1, 0]:.3g}, gain {grid.test_gain[-1, 0]:.2g}"
        told.append(f"{MODES[mode]} {measured} (theory {theory}; {tally(pairs)})")
    rule = f"{ERROR_TOLERANCE:.0%} of an error, {GAIN_TOLERANCE:.0%} of a gain"
    return f" Test error beside theory at α = 1/2, all α within {rule}: {'; '.join(told)}." if told else ""


def _each(estimate: Estimate, names: Iterable[str] = tuple(MODES.values())) -> str:
    """Mean ± standard error by name."""
    return ", ".join(f"{name} {pm(estimate[i], 2)}" for i, name in enumerate(names))


def _beside(gain: Estimate, one: str, other: str) -> str:
    """The gain of one way to step beside another at the largest exponent, paired by seed."""
    a, b = (gain[list(MODES).index(mode)] for mode in (one, other))
    how = worded(
        a - b,
        GAIN_TOLERANCE * abs(float(b.mean)),
        above="gains more than",
        below="gains less than",
        equal=f"gains the same, within {GAIN_TOLERANCE:.0%}, as",
        unclear="is not told apart in its gain from",
    )
    return f"{MODES[one]} {how} the {MODES[other]} ({pm(a - b, 2)})"


def _last_stretch(data: Data) -> str:
    """What the last increase of the exponent does to the error, and how many spikes each network ends with."""
    errors, spikes = data.stepped(0), data.stepped(1)[:, -1]
    changes = _each(errors[:, -1] - errors[:, -2])
    return f"From α = {EXPONENTS[-2]:g} to {EXPONENTS[-1]:g} the test error changes by {changes}. Spikes there: {_each(spikes)}."


def draw(data: Data) -> Figure:
    """Test error, spikes and alignment of every network against α."""
    panels = []
    for k, axes in enumerate(QUANTITIES.values()):
        found = data.stepped(k) if k else data.gain
        series = sideways(EXPONENTS, 0.006, {name: found[i] for i, name in enumerate(MODES.values())})
        if k == 0:
            for mode, grid in data.theory.items():
                label, colour = f"theory, {MODES[mode]}", list(MODES).index(mode)
                series += theory_series(label, grid.exponents, grid.test_gain[:, 0], grid.status[:, 0], colour)
        panels.append(Panel(axes[0], EXPONENT, axes[1], series, horizontals=[] if k else [(0.0, "no gain")]))
    caption = (
        f"f(x) = aᵀσ(W₂σ(W₁x)), softplus, teacher H₁ + H₂/√2, noise 0.5, n = {data.problem.n}, d = n/2, N = n in both layers, "
        f"λ = 0.1, η = n^α, literal gradients at initialisation; ridge regression on the last hidden layer, fresh samples. Spikes: "
        f"singular values of the centred features {ABOVE - 1:.0%} above the untrained network's largest. Theory of the step on W₂: that of a two-layer "
        f"network on inputs with the covariance of σ(W₁x). Points are shifted sideways. {len(data.ratios.values)} seeds, mean ± standard error."
    )
    title = f"At α = 1/2 and n = {data.problem.n} the test error falls by: {_each(data.gain[:, -1])}"
    return Figure(panels, caption, columns=3, title=title)
