"""`full-training`: random features, one step, several steps, a fully trained network, linear and kernel ridge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from onestride._backend import Backend, choose, stream
from onestride._numerics import Array
from onestride.comparison import Check, check
from onestride.estimate import label_skewness
from onestride.experiments.kit import pm, points
from onestride.experiments.outcome import Figure, Judgement, Progress
from onestride.experiments.probes import over_seeds
from onestride.experiments.tables import table
from onestride.experiments.verdict import UNDECIDED, by_name, decide_each, spoken
from onestride.plot import Panel
from onestride.problem import Problem, Step
from onestride.result import Estimate
from onestride.simulation.network import Batch, Network, draw_directions, draw_network, gradient, labels
from onestride.simulation.ridge import ridge_path

CLAIM = "One step followed by ridge regression brings most of what training the whole network brings."
TEACHERS = {"H₁": (0, 1.0), "H₁ + H₂": (0, 2**-0.5, 0.5), "H₃": (0, 0, 0, 6**-0.5)}
TASKS = (*TEACHERS, "diabetes", "cancer", "digits")
SIZES = {
    "n": (100, 240, 320),
    "N": (40, 100, 140),
    "limit": (3000, 5000, 8000),
    "tasks": (("H₁ + H₂", "diabetes"), TASKS, TASKS),
    "seeds": (2, 5, 6),
}
STEPS = (0, 1, 2, 4, 8)
CONSTANTS = (0.03, 0.1, 0.3, 1.0)  # η = c√n, chosen on validation samples like every penalty
RIDGES = np.geomspace(1e-3, 1e2, 6)
DECAYS = (1e-3, 1e-2, 3e-2, 1e-1)  # weight decay of the fully trained network
WIDTHS = (0.3, 1.0, 3.0)  # of the Gaussian kernel, exp(−|x − x'|²/(2 width² d))
METHODS = (*(f"{t} steps" for t in STEPS), "full", "linear", "kernel")


class Dataset(NamedTuple):
    """Train, validation and test samples; targets have variance about 1."""

    train: Batch
    validation: Batch
    test: Batch


@dataclass(frozen=True)
class Data:
    """Test error of every method over the target's variance, by task; how often the optimiser stopped by itself."""

    n: int
    N: int
    errors: dict[str, Estimate]
    converged: float

    def check(self, task: str, measured: Estimate, **bounds: Any) -> Check:
        """A check that knows how skewed the power of a teacher's labels is, which the values here are not freed of."""
        tails = label_skewness(teacher_problem(task, self.n, self.N), freed=False) if task in TEACHERS else 0.0
        return check(measured, **bounds, skewness=tails)


def measure(size: SimpleNamespace, progress: Progress) -> Data:
    """Every method gets the same samples; penalties and step sizes are chosen on the validation samples."""
    errors, stopped = {}, []
    for i, task in enumerate(size.tasks):
        run = partial(compete, task, size)
        errors[task], converged = over_seeds(run, size.seeds, progress, part=(i, len(size.tasks)))
        stopped.append(converged.mean)
    return Data(size.n, size.N, errors, float(np.mean(stopped)))


def teacher_problem(name: str, n: int, N: int) -> Problem:
    """A teacher in d = n/8 dimensions with noise 0.3."""
    return Problem(n=n, d=n // 8, N=N, activation="gelu", teacher=TEACHERS[name], noise=0.3, step=Step(exponent=0.5))


def draw_dataset(name: str, n: int, N: int, seed: int) -> tuple[Problem, Dataset]:
    """A teacher's samples, or rows of a bundled table; n train and n/4 validation rows."""
    rng = stream(seed, "probe")
    if name in TEACHERS:
        problem = teacher_problem(name, n, N)
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
    return problem, Dataset(*(Batch(X[s], signal[s], y[s]) for s in parts))


def compete(task: str, size: SimpleNamespace, seed: int) -> tuple[Array, Array]:
    """Test error of every method over the variance of the test target, and whether the optimiser converged."""
    problem, dataset = draw_dataset(task, size.n, size.N, seed)
    network, backend = draw_network(problem, seed), choose(size.device)
    trained = [train_fully(problem, network, dataset.train, decay, size.limit) for decay in DECAYS]
    candidates: dict[str, list[tuple[Array, Array]]] = {m: [] for m in METHODS}
    for constant in CONSTANTS:
        W, eta = network.W0, constant * problem.eta
        for t in range(max(STEPS) + 1):
            if t in STEPS and (t or constant == CONSTANTS[0]):
                features = [problem.sigma(b.X @ W.T) for b in dataset]
                candidates[f"{t} steps"] += ridge_candidates(features, dataset, backend=backend)
            W = W + eta * gradient(problem, Network(W, network.a), dataset.train, backend=backend).G
            if not np.isfinite(W).all() or np.abs(W).max() > 1e6:
                break  # a step size that diverges is not a candidate
    for net, _ in trained:
        validation, test = (problem.sigma(b.X @ net.W0.T) @ net.a for b in (dataset.validation, dataset.test))
        candidates["full"].append((validation, test))
    candidates["linear"] += ridge_candidates([b.X for b in dataset], dataset, backend=backend)
    for width in WIDTHS:
        grams = [gaussian_kernel(b.X, dataset.train.X, width) for b in dataset]
        candidates["kernel"] += kernel_candidates(grams, dataset)
    chosen = [best(candidates[m], dataset) for m in METHODS]
    return np.array(chosen), np.array(all(done for _, done in trained))


def best(candidates: list[tuple[Array, Array]], dataset: Dataset) -> float:
    """The test error of the candidate with the smallest validation error; predictions are (validation, test) pairs."""
    scores = [((dataset.validation.y - v) ** 2).mean() for v, _ in candidates]
    prediction = candidates[int(np.argmin(scores))][1]
    return float(((dataset.test.signal - prediction) ** 2).mean() / dataset.test.signal.var())


def ridge_candidates(features: list[Array], dataset: Dataset, *, backend: Backend) -> list[tuple[Array, Array]]:
    """Predictions of ridge regression with an intercept at every penalty."""
    F, validation, test = features
    mean, centre = dataset.train.y.mean(), F.mean(0)
    a = ridge_path(F - centre, dataset.train.y - mean, RIDGES, backend=backend).coefficients
    return [((validation - centre) @ c + mean, (test - centre) @ c + mean) for c in a.T]


def gaussian_kernel(X: Array, Z: Array, width: float) -> Array:
    """exp(−|x − z|²/(2 width² d))."""
    square = (X**2).sum(1)[:, None] + (Z**2).sum(1) - 2 * X @ Z.T
    return np.exp(-square / (2 * width**2 * X.shape[1]))


def kernel_candidates(grams: list[Array], dataset: Dataset) -> list[tuple[Array, Array]]:
    """Predictions of kernel ridge regression at every penalty."""
    K, validation, test = grams
    mean, n = dataset.train.y.mean(), K.shape[0]
    duals = [np.linalg.solve(K + lam * np.eye(n), dataset.train.y - mean) for lam in RIDGES]
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


def judge(data: Data) -> Judgement:
    """How much of the way from random features to full training does one step go?"""
    rows, shares, sentences = [], [], []
    most: dict[str, Sequence[Check]] = {}
    told = {"0 steps": "random features", "1 steps": "one step"} | {m: m for m in METHODS[len(STEPS) - 1 :]}
    for task, errors in data.errors.items():
        by = {method: errors[i] for i, method in enumerate(METHODS)}
        rows += [
            {"task": task, "method": method, "error": float(e.mean), "stderr": float(e.stderr)}
            for method, e in by.items()
        ]
        step, way = (by["0 steps"] - by[method] for method in ("1 steps", "full"))
        if data.check(task, way, low=0).agrees:  # only where full training is shown to gain at all
            shares.append(f"{step.mean / way.mean:.0%} ({task})")
            half = Estimate(step.values - 0.5 * way.values)
            most[task] = [data.check(task, half, low=0, among=len(data.errors))]
        sentences.append(f"{task}: {', '.join(f'{words} {pm(by[method])}' for method, words in told.items())}")
    way_gone = (
        f"Where full training is shown to beat random features, one step goes this part of the way: {', '.join(shares)}."
        if shares
        else f"Full training is shown to beat random features on none of the {len(data.errors)} tasks."
    )
    return Judgement(
        words=decide_each(most) if most else f"{UNDECIDED}: full training is shown to gain on no task",
        finding=(
            f"{way_gone} {'; '.join(sentences)}. L-BFGS stopped by its own criterion in {data.converged:.0%} of the draws."
        ),
        surprise=(
            f"The tuned Gaussian kernel beside the fully trained network: {_beside(data, 'kernel', 'full')}. Full training beside random features: "
            f"{_beside(data, 'full', '0 steps')}. A second step of the literal gradient on the same samples beside one: {_beside(data, '2 steps', '1 steps')}."
        ),
        rows=rows,
    )


def _beside(data: Data, one: str, other: str) -> str:
    """On which tasks one method has the smaller or the larger error than the other, paired by draw."""
    a, b = METHODS.index(one), METHODS.index(other)
    found = by_name(
        {task: [data.check(task, e[a] - e[b], high=0, among=len(data.errors))] for task, e in data.errors.items()}
    )
    words = {outcome: spoken(outcome, "better on", "worse on", "not told apart on") for outcome in found}
    return ", ".join(f"{words[outcome]} {' and '.join(tasks)}" for outcome, tasks in found.items() if tasks)


def draw(data: Data) -> Figure:
    """Test error against the number of steps, a panel per task, with the other methods as lines."""
    words = {"full": "fully trained", "linear": "linear ridge", "kernel": "kernel ridge"}
    panels, seeds = [], len(next(iter(data.errors.values())).values)
    for name, e in data.errors.items():
        paired = Estimate(e.values - e.values[:, :1])  # against random features, seed by seed
        series = [points("steps, then ridge", STEPS, paired[: len(STEPS)])]
        lines = [(float(paired.mean[METHODS.index(m)]), w) for m, w in words.items()]
        axes = f"{name}: random features {e.mean[0]:.2g}", "first-layer steps", "change of test error / variance"
        panels.append(Panel(*axes, series, horizontals=lines, xticks=STEPS, shared=False))
    digits = " Digits: the digit as a number." if "digits" in data.errors else ""
    caption = (
        f"Test error over the variance of the noiseless target (tables: of the target), minus that of random features, paired by seed. GELU, N = {data.N}; {data.n} training samples (at most 60 % of a table), n/4 "
        f"for choosing λ, η = c√n with c in {', '.join(f'{c:g}' for c in CONSTANTS)}, weight decay and kernel width. Steps and ridge "
        f"use the same samples, literal gradient, a kept during the steps. Teachers: d = n/8, unit power, noise 0.3. "
        f"Fully trained: both layers, L-BFGS to convergence with weight decay.{digits} {seeds} seeds, mean ± standard error."
    )
    step, full = (METHODS.index(m) for m in ("1 steps", "full"))
    title = "Change of the test error by one step, and by full training: " + "; ".join(
        f"{name} {pm(e[step] - e[0], 2)}, {pm(e[full] - e[0], 2)}" for name, e in data.errors.items()
    )
    return Figure(panels, caption, columns=3 if len(panels) > 2 else 2, title=title)
