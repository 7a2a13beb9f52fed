"""A fit of a million rows from a memory-mapped file on a GPU, and what single precision would save there.

    python benchmarks/estimator_gpu.py [--rows 1000000] [--width 4096] [--device cuda]

First seconds by the clock of fit and predictions, stage by stage on stderr, a small fit before it so that libraries are loaded. Then the Gram matrix of
the same number of features, 65,536 rows, in double precision, in single and with factors rounded to 11 bits (TF32), and how many steps of conjugate
gradients, preconditioned by the Cholesky factor of that matrix and with products in double precision, bring the readout to 10⁻¹⁰ at three
penalties: each step is one more pass over the rows. A leave-one-out choice of the penalty would need them for every penalty and every row.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from onestride.estimator import OneStepRegressor, _network

PENALTIES = (1e-9, 1e-4, 10.0)
MOST_STEPS = 100


def friedman(rng, n: int, d: int):
    X = rng.random((n, d), dtype=np.float32)
    signal = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, signal + rng.standard_normal(n), signal


def fit_from_file(rows: int, width: int, inputs: int, device: str) -> str:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        X = np.memmap(Path(folder) / "X", np.float32, "w+", shape=(rows, inputs))
        X[:], y, _ = friedman(rng, rows, inputs)
        X_test, _, clean = friedman(rng, 100_000, inputs)
        start = time.perf_counter()
        model = OneStepRegressor(width, device=device, verbose=True, random_state=0).fit(X, y)
        fitted = time.perf_counter()
        predicted = model.predict(X_test)
        done = time.perf_counter()
    error = np.mean((predicted - clean) ** 2)
    return (f"{rows} rows, {inputs} columns, width {width}, {device}: fit {fitted - start:.1f} s, "
            f"{len(X_test)} predictions {done - fitted:.1f} s, squared error {error:.4f} against the signal (noise 1); "
            f"{model.first_layer_} {model.gradient_} {model.steps_}, step {model.step_size_:g}")  # fmt: skip


def precisions(width: int, inputs: int, device: str, rows: int = 65_536) -> None:
    """Prints seconds of a Gram matrix in three precisions, and the refinement each needs."""
    import torch

    where = "cpu" if device == "torch" else device
    torch.manual_seed(0)
    Z = torch.randn(rows, inputs, dtype=torch.float64, device=where)
    F = torch.erf(Z @ torch.randn(inputs, width, dtype=torch.float64, device=where) / inputs**0.5)
    right = F.T @ torch.sin(Z[:, :1] * Z[:, 1:2])
    for name, dtype, fast in (("float64", torch.float64, False), ("float32", torch.float32, False), ("TF32", torch.float32, True)):  # fmt: skip
        torch.backends.cuda.matmul.allow_tf32 = fast
        G = F.to(dtype)
        seconds = []
        for _ in range(3):
            start = synchronised(where)
            K = G.T @ G
            seconds.append(synchronised(where) - start)
        torch.backends.cuda.matmul.allow_tf32 = False
        steps = [refinement(F, K.double(), right, alpha) for alpha in PENALTIES]
        print(f"Gram matrix in {name}: {min(seconds):.4f} s, {2e-12 * rows * width**2 / min(seconds):.1f} Tflop/s; refinement steps at penalties "
              f"{', '.join(f'{alpha:g}: {count}' for alpha, count in zip(PENALTIES, steps, strict=True))}", flush=True)  # fmt: skip


def synchronised(where: str) -> float:
    import torch

    if where != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()


def refinement(F, K, right, alpha: float) -> str:
    """Steps of conjugate gradients on (FᵀF + α)c = right, preconditioned by K + α, until the residual is 10⁻¹⁰ of the right-hand side."""
    import torch

    unit, shift = torch.eye(len(K), dtype=K.dtype, device=K.device), alpha
    L, failed = torch.linalg.cholesky_ex(K + shift * unit)
    while failed:
        shift = max(10 * shift, 1e-12 * float(K.trace()))
        L, failed = torch.linalg.cholesky_ex(K + shift * unit)
    c, r = torch.zeros_like(right), right.clone()
    z = torch.cholesky_solve(r, L)
    direction, size = z, float((r * z).sum())
    for k in range(MOST_STEPS):
        if float(r.norm() / right.norm()) < 1e-10:
            return str(k)
        product = F.T @ (F @ direction) + alpha * direction
        length = size / float((direction * product).sum())
        c, r = c + length * direction, r - length * product
        z = torch.cholesky_solve(r, L)
        size, before = float((r * z).sum()), size
        direction = z + (size / before) * direction
    return f"more than {MOST_STEPS}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10**6)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--inputs", type=int, default=20)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    _network.QUIET_SECONDS = 0.0
    shape = (arguments.width, arguments.inputs, arguments.device)
    print(fit_from_file(10_000, 512, *shape[1:]), flush=True)
    print(fit_from_file(arguments.rows, *shape), flush=True)
    precisions(*shape)
