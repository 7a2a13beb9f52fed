"""`full-training`: random features, one step, several steps, a fully trained network, linear and kernel ridge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from onestride._backend import stream
from onestride._numerics import Array
from onestride.compare import Agreement, Check, Pair, check
from onestride.experiments.claim import UNDECIDED, decide_each
from onestride.experiments.outcome import Outcome, Settings
from onestride.experiments.probes import said
from onestride.experiments.tables import table
from onestride.plot import Panel, Series
from onestride.problem import Problem, Step
from onestride.result import Estimate
from onestride.simulation.network import Batch, Network, draw_directions, draw_network, gradient, labels
from onestride.simulation.ridge import ridge_path

STEPS = (0, 1, 2, 4, 8)
CONSTANTS = (0.03, 0.1, 0.3, 1.0)  # η = c√n, chosen on validation samples like every penalty
RIDGES = np.geomspace(1e-3, 1e2, 6)
DECAYS = (1e-3, 1e-2, 3e-2, 1e-1)  # weight decay of the fully trained network
WIDTHS = (0.3, 1.0, 3.0)  # of the Gaussian kernel, exp(−|x − x'|²/(2 width² d))
METHODS = (*(f"{t} steps" for t in STEPS), "full", "linear", "kernel")


@dataclass(frozen=True)
class Task:
    """Train, validation and test samples; targets have variance about 1."""

    train: Batch
    validation: Batch
    test: Batch


def run(settings: Settings) -> Outcome:
    """Every method gets the same samples; penalties and step sizes are chosen on the validation samples."""
    n, N, limit = settings.pick(100, 240, 2000), settings.pick(40, 100, 1000), settings.pick(3000, 5000, 20000)
    seeds = settings.seed_count(2, 5, 8)
    tasks = settings.pick(("H₁ + H₂", "diabetes"), *[("H₁", "H₁ + H₂", "H₃", "diabetes", "cancer", "digits")] * 2)
    data: dict[str, Array] = {}
    stopped = []
    for i, name in enumerate(tasks):
        runs = []
        for seed in range(seeds):
            problem, task = make_task(name, n, N, seed)
            row, converged = compete(problem, task, seed, limit)
            runs.append(row)
            stopped.append(converged)
            settings.progress((i + (seed + 1) / seeds) / len(tasks))
        data[name] = np.array(runs)
    return judge(data, n, N, seeds, float(np.mean(stopped)))


def make_task(name: str, n: int, N: int, seed: int) -> tuple[Problem, Task]:
    """A teacher in d = n/8 dimensions with noise 0.3, or rows of a bundled table; n train and n/4 validation rows."""
    teachers = {"H₁": (0, 1.0), "H₁ + H₂": (0, 2**-0.5, 0.5), "H₃": (0, 0, 0, 6**-0.5)}
    rng = stream(seed, "probe")
    if name in teachers:
        problem = Problem(
            n=n, d=n // 8, N=N, activation="gelu", teacher=teachers[name], noise=0.3, step=Step(exponent=0.5)
        )
        X = rng.standard_normal((n + n // 4 + 2000, problem.d))
        signal = labels(problem, draw_directions(problem, seed), X)
        y = signal + problem.noise * rng.standard_normal(signal.size)
    else:
        X, y = table(name)
        order = rng.permutation(y.size)
        X, y = X[order], y[order]
        signal, n = y, min(n, int(0.6 * y.size))
        problem = Problem(n=n, d=X.shape[1], N=N, activation="gelu", step=Step(exponent=0.5))
    parts = slice(n), slice(n, n + n // 4), slice(n + n // 4, None)
    return problem, Task(*(Batch(X[s], signal[s], y[s]) for s in parts))


def compete(problem: Problem, task: Task, seed: int, limit: int) -> tuple[Array, bool]:
    """Test error of every method over the variance of the test target, and whether the optimiser converged."""
    network = draw_network(problem, seed)
    trained = [train_fully(problem, network, task.train, decay, limit) for decay in DECAYS]
    candidates: dict[str, list[tuple[Array, Array]]] = {m: [] for m in METHODS}
    for constant in CONSTANTS:
        W, eta = network.W0, constant * problem.eta
        for t in range(max(STEPS) + 1):
            if t in STEPS and (t or constant == CONSTANTS[0]):
                candidates[f"{t} steps"] += ridge_candidates([problem.sigma(b.X @ W.T) for b in parts(task)], task)
            W = W + eta * gradient(problem, Network(W, network.a), task.train).G
            if not np.isfinite(W).all() or np.abs(W).max() > 1e6:
                break  # a step size that diverges is not a candidate
    for net, _ in trained:
        validation, test = (problem.sigma(b.X @ net.W0.T) @ net.a for b in (task.validation, task.test))
        candidates["full"].append((validation, test))
    candidates["linear"] += ridge_candidates([b.X for b in parts(task)], task)
    for width in WIDTHS:
        grams = [gaussian_kernel(b.X, task.train.X, width) for b in parts(task)]
        candidates["kernel"] += kernel_candidates(grams, task)
    chosen = [best(candidates[m], task) for m in METHODS]
    return np.array(chosen), all(done for _, done in trained)


def parts(task: Task) -> tuple[Batch, Batch, Batch]:
    """Train, validation, test."""
    return task.train, task.validation, task.test


def best(candidates: list[tuple[Array, Array]], task: Task) -> float:
    """The test error of the candidate with the smallest validation error; predictions are (validation, test) pairs."""
    scores = [((task.validation.y - v) ** 2).mean() for v, _ in candidates]
    prediction = candidates[int(np.argmin(scores))][1]
    return float(((task.test.signal - prediction) ** 2).mean() / task.test.signal.var())


def ridge_candidates(features: list[Array], task: Task) -> list[tuple[Array, Array]]:
    """Predictions of ridge regression with an intercept at every penalty."""
    F, validation, test = features
    mean, centre = task.train.y.mean(), F.mean(0)
    a = ridge_path(F - centre, task.train.y - mean, RIDGES).coefficients
    return [((validation - centre) @ c + mean, (test - centre) @ c + mean) for c in a.T]


def gaussian_kernel(X: Array, Z: Array, width: float) -> Array:
    """exp(−|x − z|²/(2 width² d))."""
    square = (X**2).sum(1)[:, None] + (Z**2).sum(1) - 2 * X @ Z.T
    return np.exp(-square / (2 * width**2 * X.shape[1]))


def kernel_candidates(grams: list[Array], task: Task) -> list[tuple[Array, Array]]:
    """Predictions of kernel ridge regression at every penalty."""
    K, validation, test = grams
    mean, n = task.train.y.mean(), K.shape[0]
    duals = [np.linalg.solve(K + lam * np.eye(n), task.train.y - mean) for lam in RIDGES]
    return [(validation @ c + mean, test @ c + mean) for c in duals]


def full_loss(flat: Array, problem: Problem, batch: Batch, decay: float) -> tuple[float, Array]:
    """(1/2n)‖y − σ(XWᵀ)a‖² + (decay/2)(‖W‖² + ‖a‖²) and its gradient in (W, a)."""
    N, d, n = problem.N, problem.d, batch.X.shape[0]
    W, a = flat[: N * d].reshape(N, d), flat[N * d :]
    pre = batch.X @ W.T
    F = problem.sigma(pre)
    residual = batch.y - F @ a
    back = residual[:, None] * problem.sigma.derivative(pre) * a
    G = np.concatenate([(-back.T @ batch.X / n).ravel(), -F.T @ residual / n]) + decay * flat
    return float(residual @ residual / (2 * n) + decay * (flat @ flat) / 2), G


def train_fully(problem: Problem, network: Network, batch: Batch, decay: float, limit: int) -> tuple[Network, bool]:
    """Both layers by L-BFGS from the untrained network until the loss stops falling, and whether it did."""
    start = np.concatenate([network.W0.ravel(), network.a])
    options = {"maxiter": limit, "maxfun": 2 * limit, "ftol": 1e-7, "gtol": 1e-6, "maxcor": 20}
    result = minimize(full_loss, start, (problem, batch, decay), jac=True, method="L-BFGS-B", options=options)
    size = problem.N * problem.d
    return Network(result.x[:size].reshape(problem.N, problem.d), result.x[size:]), bool(result.success)


def judge(data: dict[str, Array], n: int, N: int, seeds: int, converged: float) -> Outcome:
    """How much of the way from random features to full training does one step go?"""
    rows, panels, sentences = [], [], []
    shares: dict[str, float] = {}
    most: dict[str, Sequence[Check | Pair]] = {}
    full, linear, kernel = (METHODS.index(m) for m in ("full", "linear", "kernel"))
    for name, values in data.items():
        e = Estimate(values)
        rows += [
            {"task": name, "method": m, "error": float(e.mean[i]), "stderr": float(e.stderr[i])}
            for i, m in enumerate(METHODS)
        ]
        k = len(STEPS)
        series = [Series("step(s), then ridge", STEPS, e.mean[:k], e.stderr[:k], "simulation")]
        lines = [
            (float(e.mean[i]), w)
            for i, w in ((full, "fully trained"), (linear, "linear ridge"), (kernel, "kernel ridge"))
        ]
        panels.append(
            Panel(name, "first-layer steps", "test error / variance", series, horizontals=lines, xticks=STEPS)
        )
        way = Estimate(values[:, 0] - values[:, full])
        if check(way, low=0).agrees:  # only where full training is shown to gain at all
            shares[name] = float((values[:, 0] - values[:, 1]).mean() / way.mean)
            half = Estimate(values[:, 0] - values[:, 1] - 0.5 * (values[:, 0] - values[:, full]))
            most[name] = [check(half, low=0, among=len(data))]
        sentences.append(
            f"{name}: random features {said(values[:, 0])}, one step {said(values[:, 1])}, {STEPS[-1]} steps {said(values[:, k - 1])}, "
            f"full {said(values[:, full])}, linear {said(values[:, linear])}, kernel {said(values[:, kernel])}"
        )
    told = (
        ", ".join(f"{share:.0%} ({name})" for name, share in shares.items())
        or "no task, as full training is shown to gain in none"
    )
    return Outcome(
        name="full-training",
        question="How much of what full training gains does one step reach, on teachers and on real tables?",
        claim="One step followed by ridge regression brings most of what training the whole network brings.",
        verdict=decide_each(most) if most else f"{UNDECIDED}: full training is shown to gain on no task",
        finding=(
            f"Where full training is shown to beat random features, one step goes this part of the way: {told}. "
            f"{'; '.join(sentences)}. L-BFGS stopped by its own criterion in {converged:.0%} of the draws."
        ),
        surprise=(
            f"The tuned Gaussian kernel beside the fully trained network: {_beside(data, 'kernel', 'full')}. Full training beside random features: "
            f"{_beside(data, 'full', '0 steps')}. A second step of the literal gradient on the same samples beside one: {_beside(data, '2 steps', '1 steps')}."
        ),
        rows=rows,
        panels=tuple(panels),
        caption=(
            f"Test error over the variance of the noiseless target (tables: of the target). GELU, N = {N}; {n} training samples (at most 60 % of a table), n/4 "
            f"for choosing λ, η = c√n with c in {', '.join(f'{c:g}' for c in CONSTANTS)}, weight decay and kernel width. Steps and ridge "
            f"use the same samples, literal gradient, a kept during the steps. Teachers: d = n/8, unit power, noise 0.3. "
            f"Fully trained: both layers, L-BFGS to convergence with weight decay. Digits: the digit as a number. {seeds} seeds, mean ± standard error."
        ),
        columns=3 if len(panels) > 2 else 2,
    )


def _beside(data: dict[str, Array], one: str, other: str) -> str:
    """On which tasks one method has the smaller or the larger error than the other, paired by draw."""
    a, b = METHODS.index(one), METHODS.index(other)
    found = {
        name: check(Estimate(values[:, a] - values[:, b]), high=0, among=len(data)).outcome
        for name, values in data.items()
    }
    words = {Agreement.AGREES: "better on", Agreement.DIFFERS: "worse on", Agreement.UNDECIDED: "not told apart on"}
    groups = {how: [name for name in data if found[name] is outcome] for outcome, how in words.items()}
    return ", ".join(f"{how} {' and '.join(names)}" for how, names in groups.items() if names)
