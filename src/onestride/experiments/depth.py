"""`depth`: a three-layer network f(x) = aᵀσ(W₂σ(W₁x)), one step on the first, the second or both hidden layers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onestride._backend import stream
from onestride._numerics import Array, hermite_table
from onestride.compare import GAIN_TOLERANCE, Check, check
from onestride.experiments.claim import by_name, count_check, decide_each, worded
from onestride.experiments.outcome import Outcome, Settings
from onestride.experiments.probes import ABOVE, said
from onestride.plot import Panel, Series
from onestride.problem import Problem, Step
from onestride.result import Estimate
from onestride.simulation.network import Batch, draw_batch, draw_network, draw_teacher, gradient, step_batch
from onestride.simulation.ridge import ridge_path

MODES = ("two layers", "first", "second", "both")
LABELS = {"two layers": "two-layer network", "first": "step on W₁", "second": "step on W₂", "both": "step on both"}
EXPONENTS = (0.0, 0.125, 0.25, 0.375, 0.5)
QUANTITIES = ("test error", "spikes", "alignment")


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


def run(settings: Settings) -> Outcome:
    """One step of size n^α, then ridge regression on the last hidden layer."""
    n, seeds = settings.pick(120, 500, 3000), settings.seed_count(4, 8, 8)
    problem = Problem(
        n=n, d=n // 2, N=n, activation="softplus", teacher=(0.0, 1.0, 2**-0.5), noise=0.5, ridge=0.1, step=Step()
    )
    values, ratios = [], []
    for seed in range(seeds):
        measured, ratio = measure(problem, seed)
        values.append(measured)
        ratios.append(ratio)
        settings.progress((seed + 1) / seeds)
    return judge(problem, np.array(values), np.array(ratios), seeds)


def measure(problem: Problem, seed: int) -> tuple[Array, Array]:
    """`QUANTITIES` without and with the step, shape (modes, 1 + exponents, 3), and s₂/s₁ of the three gradients."""
    sigma, net, step = problem.sigma, draw_deep(problem, seed), step_batch(problem, seed)
    network = draw_network(problem, seed)
    G = gradient(problem, network, step).G
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
            coefficients = ridge_path(F, train.y, np.array([problem.ridge])).coefficients[:, 0]
            error = ((test.signal - features(mode, eta, test.X) @ coefficients) ** 2).mean() + problem.noise**2
            U, s, _ = np.linalg.svd(F - F.mean(0), full_matrices=False)
            edge = s[0] if j == 0 else edge
            out[i, j] = error, (s > ABOVE * edge).sum(), (U[:, 0] @ score) ** 2 / (score @ score)
    singular = [np.linalg.svd(matrix, compute_uv=False) for matrix in (G, G1, G2)]
    return out, np.array([s[1] / s[0] for s in singular])


def judge(problem: Problem, values: Array, ratios: Array, seeds: int) -> Outcome:
    """The picture survives where the gradient is near rank one, a spike points at the teacher and the error falls."""
    rows, panels = [], []
    survive: dict[str, list[Check]] = {}
    gain = values[:, :, :1, 0] - values[:, :, 1:, 0]
    for i, mode in enumerate(MODES):
        aligned = Estimate(values[:, i, -1, 2] - values[:, 0, -1, 2] / 2)
        if i:
            survive[LABELS[mode]] = [
                count_check(Estimate(values[:, i, -1, 1]), 0.5, np.inf, among=9),
                check(aligned, low=0, among=9),
                check(Estimate(gain[:, i, -1]), low=0, among=9),
            ]
        for k, name in enumerate(QUANTITIES):
            e = Estimate(values[:, i, 1:, k])
            row = {"network": LABELS[mode], "quantity": name}
            points = zip(EXPONENTS, e.mean, e.stderr, strict=True)
            rows += [row | {"alpha": a, "value": float(m), "stderr": float(x)} for a, m, x in points]
    words = ("test error", "spikes of F", "overlap with Xβ⋆")
    titles = ("test error", "spikes", "leading left singular vector of F")
    for k, label in enumerate(words):
        series = []
        for i, mode in enumerate(MODES):
            e = Estimate(values[:, i, 1:, k])
            x = np.add(EXPONENTS, 0.006 * (i - 1.5))
            series.append(Series(LABELS[mode], x, e.mean, e.stderr, "simulation", i))
        lines = []
        if k == 0:
            lines = [
                (values[:, 0, 0, 0].mean(), "untrained, two layers"),
                (values[:, 1, 0, 0].mean(), "untrained, three"),
            ]
        panels.append(Panel(titles[k], "α = log η / log n", label, series, horizontals=lines))
    for name, ratio in zip(("two layers", "W₁", "W₂"), ratios.T, strict=True):
        e = Estimate(ratio)
        rows.append({"network": name, "quantity": "s₂/s₁ of the gradient", "alpha": 0.0, "value": float(e.mean), "stderr": float(e.stderr)})  # fmt: skip
    told = "; ".join(f"{o.name.lower()}: {', '.join(names) or 'none'}" for o, names in by_name(survive).items())
    gains = ", ".join(f"{LABELS[m]} {said(gain[:, i, -1], 2)}" for i, m in enumerate(MODES))
    aligned = ", ".join(f"{LABELS[m]} {said(values[:, i, -1, 2], 2)}" for i, m in enumerate(MODES))
    rank = ", ".join(f"{name} {said(r, 2)}" for name, r in zip(("two layers", "W₁", "W₂"), ratios.T, strict=True))
    return Outcome(
        name="depth",
        question="What of the picture survives in a three-layer network, with a step on one hidden layer or on both?",
        claim="A hidden layer's first gradient is near rank one, makes a spike along the teacher's direction and lowers the error.",
        verdict=decide_each(survive),
        finding=(
            f"At α = 1/2 and n = {problem.n} do spike, alignment and gain all survive? {told}. Gain in test error: "
            f"{gains}. Overlap of the leading feature vector with X̃β⋆: {aligned}. Second over first singular value of the "
            f"gradient: {rank}."
        ),
        surprise=(
            f"{_beside(gain, 'first', 'two layers')}; {_beside(gain, 'both', 'first')}. {_last_stretch(values)} Alignment counts as surviving at half the two-layer "
            "network's overlap."
        ),
        rows=rows,
        panels=tuple(panels),
        caption=(
            f"f(x) = aᵀσ(W₂σ(W₁x)), softplus, teacher H₁ + H₂/√2, noise 0.5, n = {problem.n}, d = n/2, N = n in both layers, "
            f"λ = 0.1, η = n^α, literal gradients at initialisation; ridge regression on the last hidden layer, fresh samples. Spikes: "
            f"singular values of the centred features {ABOVE - 1:.0%} above the untrained network's largest. Points are shifted "
            f"sideways. {seeds} seeds, mean ± standard error."
        ),
        columns=3,
    )


def _beside(gain: Array, one: str, other: str) -> str:
    """The gain of one way to step beside another at the largest exponent, paired by seed."""
    a, b = (gain[:, MODES.index(mode), -1] for mode in (one, other))
    how = worded(
        Estimate(a - b),
        GAIN_TOLERANCE * abs(float(b.mean())),
        above="gains more than",
        below="gains less than",
        equal=f"gains the same, within {GAIN_TOLERANCE:.0%}, as",
        unclear="is not told apart in its gain from",
    )
    return f"{LABELS[one]} {how} {LABELS[other]} ({said(a - b, 2)})"


def _last_stretch(values: Array) -> str:
    """What the last increase of the exponent does to the error, and how many spikes each network ends with."""
    falls = ", ".join(f"{LABELS[m]} {said(values[:, i, -2, 0] - values[:, i, -1, 0], 2)}" for i, m in enumerate(MODES))
    spikes = ", ".join(f"{LABELS[m]} {said(values[:, i, -1, 1], 2)}" for i, m in enumerate(MODES))
    return f"From α = {EXPONENTS[-2]:g} to {EXPONENTS[-1]:g} the test error falls by {falls}. Spikes there: {spikes}."
