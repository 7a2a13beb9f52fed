"""`depth`: a three-layer network f(x) = aᵀσ(W₂σ(W₁x)), one step on the first, the second or both hidden layers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import numpy as np

from onestride._backend import Backend, choose, stream
from onestride._numerics import Array, hermite_table
from onestride.comparison import GAIN_TOLERANCE, Check, check
from onestride.experiments.kit import EXPONENT, pm, problem_at, rows_along, sideways
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.probes import ABOVE, over_seeds
from onestride.experiments.verdict import count_check, decide_each, listed, worded
from onestride.plot import Panel
from onestride.problem import Problem
from onestride.result import Estimate
from onestride.simulation.network import Batch, draw_batch, draw_network, draw_teacher, gradient, step_batch
from onestride.simulation.ridge import ridge_path

CLAIM = "A hidden layer's first gradient is near rank one, makes a spike along the teacher's direction and lowers the error."
SIZES = {"n": (120, 500, 3000), "seeds": (4, 8, 8)}
MODES = {"two layers": "two-layer network", "first": "step on W₁", "second": "step on W₂", "both": "step on both"}
GRADIENTS = ("two layers", "W₁", "W₂")
EXPONENTS = (0.0, 0.125, 0.25, 0.375, 0.5)
QUANTITIES = {  # titles and labels of the panels
    "test error": ("test error", "test error"),
    "spikes": ("spikes", "spikes of F"),
    "alignment": ("leading left singular vector of F", "overlap with Xβ⋆"),
}


@dataclass(frozen=True)
class Data:
    """`QUANTITIES` without and with the step (modes × (1 + exponents) × 3), and s₂/s₁ of the three gradients."""

    problem: Problem
    values: Estimate
    ratios: Estimate

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

    W1: Array
    W2: Array
    a: Array


def draw_deep(problem: Problem, seed: int) -> Deep:
    """The two-layer network of this seed with one more layer of N neurons between its weights and its readout."""
    network = draw_network(problem, seed)
    W2 = stream(seed, "probe").standard_normal((problem.N, problem.N))
    W2 /= np.linalg.norm(W2, axis=1, keepdims=True) * np.sqrt(problem.sigma.second_moment)
    return Deep(network.W0, W2, network.a)


def deep_gradient(problem: Problem, net: Deep, batch: Batch) -> tuple[Array, Array]:
    """The negative gradients of (1/2n)‖y − f‖² in W₁ and W₂, by the chain rule."""
    sigma, n = problem.sigma, batch.X.shape[0]
    first = batch.X @ net.W1.T
    hidden = sigma(first)
    second = hidden @ net.W2.T
    residual = batch.y - sigma(second) @ net.a
    back2 = residual[:, None] * sigma.derivative(second) * net.a
    back1 = (back2 @ net.W2) * sigma.derivative(first)
    return back1.T @ batch.X / n, back2.T @ hidden / n


def measure(size: SimpleNamespace, progress: Progress) -> Data:
    """One step of size n^α, then ridge regression on the last hidden layer."""
    problem = problem_at(size.n, N=size.n, activation="softplus")
    return Data(problem, *over_seeds(partial(one_seed, problem, backend=choose(size.device)), size.seeds, progress))


def one_seed(problem: Problem, seed: int, *, backend: Backend) -> tuple[Array, Array]:
    """`QUANTITIES` without and with the step, shape (modes, 1 + exponents, 3), and s₂/s₁ of the three gradients."""
    sigma, net, step = problem.sigma, draw_deep(problem, seed), step_batch(problem, seed)
    network = draw_network(problem, seed)
    G = gradient(problem, network, step, backend=backend).G
    G1, G2 = deep_gradient(problem, net, step)
    train = draw_batch(problem, seed, "ridge_inputs", "ridge_noise", problem.n)
    test = draw_batch(problem, seed, "test_inputs", None, 2 * problem.n)
    score = hermite_table(train.X @ draw_teacher(problem, seed), 1)[1]
    etas = [0.0, *(problem.at(exponent=a).eta for a in EXPONENTS)]

    def features(mode: str, eta: float, X: Array) -> Array:
        if mode == "two layers":
            return sigma(X @ (network.W0 + eta * G).T)
        W1 = net.W1 + eta * G1 if mode in ("first", "both") else net.W1
        W2 = net.W2 + eta * G2 if mode in ("second", "both") else net.W2
        return sigma(sigma(X @ W1.T) @ W2.T)

    out = np.empty((len(MODES), len(etas), len(QUANTITIES)))
    for i, mode in enumerate(MODES):
        edge = np.inf
        for j, eta in enumerate(etas):
            F = features(mode, eta, train.X)
            coefficients = ridge_path(F, train.y, np.array([problem.ridge]), backend=backend).coefficients[:, 0]
            error = ((test.signal - features(mode, eta, test.X) @ coefficients) ** 2).mean() + problem.noise**2
            U, s, _ = np.linalg.svd(F - F.mean(0), full_matrices=False)
            edge = s[0] if j == 0 else edge
            out[i, j] = error, (s > ABOVE * edge).sum(), (U[:, 0] @ score) ** 2 / (score @ score)
    singular = [np.linalg.svd(matrix, compute_uv=False) for matrix in (G, G1, G2)]
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
    return Judgement(
        words=decide_each(survive),
        finding=(
            f"At α = 1/2 and n = {data.problem.n} do spike, alignment and gain all survive? {listed(survive)}. Gain in test "
            f"error: {_each(gain)}. Overlap of the leading feature vector with X̃β⋆: {_each(aligned)}. Second over first "
            f"singular value of the gradient: {_each(data.ratios, GRADIENTS)}."
        ),
        surprise=(
            f"{_beside(gain, 'first', 'two layers')}; {_beside(gain, 'both', 'first')}. {_last_stretch(data)} Alignment counts as surviving at half the two-layer "
            "network's overlap."
        ),
        rows=rows,
    )


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
    return f"{MODES[one]} {how} {MODES[other]} ({pm(a - b, 2)})"


def _last_stretch(data: Data) -> str:
    """What the last increase of the exponent does to the error, and how many spikes each network ends with."""
    errors, spikes = data.stepped(0), data.stepped(1)[:, -1]
    falls = _each(errors[:, -2] - errors[:, -1])
    return f"From α = {EXPONENTS[-2]:g} to {EXPONENTS[-1]:g} the test error falls by {falls}. Spikes there: {_each(spikes)}."


def draw(data: Data) -> Figure:
    """Test error, spikes and alignment of every network against α."""
    untrained = data.values[:, 0, 0].mean
    lines = [(untrained[0], "untrained, two layers"), (untrained[1], "untrained, three")]
    panels = []
    for k, axes in enumerate(QUANTITIES.values()):
        series = sideways(EXPONENTS, 0.006, {name: data.stepped(k)[i] for i, name in enumerate(MODES.values())})
        panels.append(Panel(axes[0], EXPONENT, axes[1], series, horizontals=[] if k else lines))
    caption = (
        f"f(x) = aᵀσ(W₂σ(W₁x)), softplus, teacher H₁ + H₂/√2, noise 0.5, n = {data.problem.n}, d = n/2, N = n in both layers, "
        f"λ = 0.1, η = n^α, literal gradients at initialisation; ridge regression on the last hidden layer, fresh samples. Spikes: "
        f"singular values of the centred features {ABOVE - 1:.0%} above the untrained network's largest. Points are shifted "
        f"sideways. {len(data.ratios.values)} seeds, mean ± standard error."
    )
    return Figure(panels, caption, columns=3)
