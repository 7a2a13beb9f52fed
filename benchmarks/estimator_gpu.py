"""A fit of a million rows from a memory-mapped file on a GPU: seconds by the clock, and what the prediction explains.

python benchmarks/estimator_gpu.py [--rows 1000000] [--width 4096] [--device cuda]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from onestride.estimator import OneStepRegressor


def friedman(rng, n: int, d: int):
    X = rng.random((n, d), dtype=np.float32)
    signal = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, signal + rng.standard_normal(n), signal


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10**6)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--inputs", type=int, default=20)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        X = np.memmap(Path(folder) / "X", np.float32, "w+", shape=(arguments.rows, arguments.inputs))
        X[:], y, _ = friedman(rng, arguments.rows, arguments.inputs)
        X_test, _, clean = friedman(rng, 100_000, arguments.inputs)
        start = time.perf_counter()
        model = OneStepRegressor(arguments.width, device=arguments.device, verbose=True, random_state=0).fit(X, y)
        fitted = time.perf_counter()
        predicted = model.predict(X_test)
        done = time.perf_counter()
    error = np.mean((predicted - clean) ** 2)
    print(f"{arguments.rows} rows, {arguments.inputs} columns, width {arguments.width}, {arguments.device}: fit {fitted - start:.1f} s, "
          f"{len(X_test)} predictions {done - fitted:.1f} s, squared error {error:.4f} against the signal (noise 1); "
          f"{model.first_layer_} {model.gradient_} {model.steps_}, step {model.step_size_:g}")  # fmt: skip
