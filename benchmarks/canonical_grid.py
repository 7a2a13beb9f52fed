"""The canonical grid on this machine's cores: notebook style, scikit-learn, ours, and the floor of the matrix products.

    python benchmarks/canonical_grid.py [--quick]

n = 2000, d = 1000, N = 3000, ReLU, H₁ + H₂/√2, 10 exponents × 8 penalties, one seed, train and test errors (2000 test
samples). The floor is six n × d × N products and ten symmetric Gram matrices at the product rate of this run. --quick
times the first two on four cells only and scales up.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.linear_model import Ridge

import onestride as one
from onestride.simulation.network import draw_batch, draw_network, draw_teacher, stream
from onestride.simulation.run import simulate_grid

EXPONENTS, RIDGES, TESTS = np.linspace(0.0, 0.45, 10), np.logspace(-3, 1, 8), 2000
STEP = one.Step(constant=1.0, exponent=0.3)
P = one.Problem(n=2000, d=1000, N=3000, activation="relu", teacher=(0, 1, 0.7071), noise=0.5, step=STEP)


def data(seed: int = 0):
    network = draw_network(P, seed)
    step = draw_batch(P, seed, "step_inputs", "step_noise", P.n)
    train = draw_batch(P, seed, "ridge_inputs", "ridge_noise", P.n)
    T = stream(seed, "test_inputs").standard_normal((TESTS, P.d))
    return network, step, train, T, P.target(T @ draw_teacher(P, seed))


def one_step(network, step, alpha: float) -> np.ndarray:
    W, a, shift = network.W0, network.a, P.sigma.shift
    pre = step.X @ W.T
    r = step.y - (np.maximum(pre, 0) - shift) @ a
    return W + P.n**alpha * (a[:, None] * (((pre > 0) * r[:, None]).T @ step.X) / P.n)


def cell(draws, alpha: float, lam: float, fit) -> tuple[float, float]:
    network, step, train, T, signal = draws
    W = one_step(network, step, alpha)
    shift = P.sigma.shift
    F, FT = np.maximum(train.X @ W.T, 0) - shift, np.maximum(T @ W.T, 0) - shift
    a = fit(F, train.y, lam)
    mse = np.mean((train.y - F @ a) ** 2)
    return mse + lam * a @ a, np.mean((signal - FT @ a) ** 2) + P.noise**2


def notebook(F, y, lam):
    n, N = F.shape
    return np.linalg.inv(F.T @ F / n + lam * np.eye(N)) @ (F.T @ y / n)


def sklearn_ridge(F, y, lam):
    return Ridge(alpha=lam * F.shape[0], fit_intercept=False).fit(F, y).coef_


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((P.n, P.d)), rng.standard_normal((P.d, P.N))
    product, best, also = np.inf, np.inf, np.inf
    for _ in range(5):
        for _ in range(4):
            start = time.perf_counter()
            A @ B
            product = min(product, time.perf_counter() - start)
        start = time.perf_counter()
        ours = simulate_grid(P, EXPONENTS, RIDGES, [0], n_test=TESTS, untrained=False)
        best = min(best, time.perf_counter() - start)
        start = time.perf_counter()
        simulate_grid(P, EXPONENTS, RIDGES, [0], n_test=TESTS)
        also = min(also, time.perf_counter() - start)
    rate = 2 * P.n * P.d * P.N / product
    floor = (6 * 2 * P.n * P.d * P.N + 10 * P.n**2 * P.N) / rate
    print(f"products run at {rate / 1e9:.0f} GFLOP/s; floor {floor:.2f} s", flush=True)
    print(f"ours: {best:.2f} s (best of 5), {best / floor:.2f} × the floor", flush=True)
    print(f"ours, and the network without a step: {also:.2f} s, {also / floor:.2f} × the floor", flush=True)
    draws = data()
    cells = [(i, j) for i in range(EXPONENTS.size) for j in range(RIDGES.size)]
    for name, fit in (("notebook style", notebook), ("scikit-learn", sklearn_ridge)):
        chosen = cells[::23] if quick else cells
        gap, start = 0.0, time.perf_counter()
        for i, j in chosen:
            loss, test = cell(draws, EXPONENTS[i], RIDGES[j], fit)
            gap = max(
                gap,
                abs(ours.train_loss.raw.values[0, i, j] / loss - 1),
                abs(ours.test_error.raw.values[0, i, j] / test - 1),
            )
        taken = (time.perf_counter() - start) * len(cells) / len(chosen)
        print(f"{name}: {taken:.1f} s, {taken / best:.1f} × ours; largest difference {gap:.1e}", flush=True)


if __name__ == "__main__":
    main()
