"""Seconds of a fit against the floor of its counted arithmetic, as n grows.

    python benchmarks/estimator_speed.py [--rows 2000 8000 20000] [--width 512] [--threads 1] [--parts]

Every regression of the fit is counted from its shapes, a product of n × p and p × q as 2npq: Gram matrix n p² (it is symmetric), products for
left-out residuals 2 m p² and 4 m p per penalty for m rows, eigendecomposition 4 p³, Cholesky factors p³/3 each, the inputs of the neurons
2 n N d, features of landmarks n N (N + 2d) (a triangular matrix), whose Cholesky factor and its inverse are 2 N³/3. The floor is their sum at the speed of the product FᵀG of two n × p matrices of this fit's size, measured beside it.
With several threads seconds are the least of two fits, after a small one that makes what is made once. With `--parts` seconds of one more fit are told by part.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from functools import cached_property
from threading import Lock

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = sys.argv[sys.argv.index("--threads") + 1] if "--threads" in sys.argv else "1"

import numpy as np
from sklearn.datasets import make_friedman1

from onestride.estimator import (
    OneStepRegressor,
    _bases,
    _explain,
    _judge,
    _landmarks,
    _large,
    _layer,
    _maps,
    _models,
    _network,
)
from onestride.estimator._ridge import decompose, ridge_solutions

FLOPS = {"count": 0.0}
LOCK = Lock()  # regressions are made by several threads


def count(flops: float) -> None:
    with LOCK:
        FLOPS["count"] += flops


def counted_decompose(features, targets, weights):
    n, p = features.shape
    small = min(n, p)
    count(n * p * small + 2 * n * p * small + 4 * small**3 + 4 * n * small * 31)
    return decompose(features, targets, weights)


def counted_regression(layer, Z, Y, w, shown=None, backend=_large.HOST, plain=_large.regression):
    if shown is not None:
        n, p, m = len(Z), layer.width + Z.shape[1], len(shown)
        count(n * p * p + 4 * p**3 + 2 * m * p * p + 4 * m * p * 31)
        count(2 * layer.width**3 / 3 if isinstance(layer, _landmarks.Landmarks) else 0)
    return plain(layer, Z, Y, w, shown, backend)


def counted_solutions(features, targets, weights, alphas):
    n, p = features.shape
    count(n * p * min(n, p) + len(alphas) * min(n, p) ** 3 / 3)
    return ridge_solutions(features, targets, weights, alphas)


def counted_design(self, Z, plain=_layer.Layer.design):
    count(2.0 * len(Z) * self.W.size)
    return plain(self, Z)


def counted_kernel(self, Z, plain=_landmarks.Landmarks.design):
    count(1.0 * len(Z) * self.width * (self.width + 2 * Z.shape[1]))
    return plain(self, Z)


def timed_parts(parts: dict[str, float]) -> None:
    """Have the parts of a fit add their seconds."""
    inner = {"sums": "_sums", "eigendecomposition": "_eigh"}
    outer = {"scales": "_untrained", "choice": "_chosen", "sample": "_regressed", "pulling in": "tiled_outputs",
             "move": "_moved", "regression on all rows": "regression", "penalty": "_stage"}  # fmt: skip
    named = [(_models, "read_table", "reading the table"), *((_network, name, label) for label, name in outer.items()),
             *((_large, name, f"  of it {label}") for label, name in inner.items()),
             (_large, "_add_gram", "    of it Gram matrix"), (_landmarks.Landmarks, "_mapped", "Cholesky factors of landmarks, in choice and regression")]  # fmt: skip
    for module, name, label in named:
        plain, parts[label] = vars(module)[name], 0.0
        lazy = isinstance(plain, cached_property)

        def timed(*given, call=plain.func if lazy else plain, label=label, **options):
            start = clock()
            try:
                return call(*given, **options)
            finally:
                with LOCK:
                    parts[label] += clock() - start

        setattr(module, name, cached_property(timed) if lazy else timed)
        if lazy:
            vars(module)[name].__set_name__(module, name)


def speed(n: int, p: int) -> float:
    """Flops per second of FᵀG, n × p each, by the clock that the fit is measured with."""
    F, G = np.random.default_rng(0).standard_normal((2, n, p))
    times = []
    for _ in range(3):
        start = clock()
        F.T @ G
        times.append(clock() - start)
    return 2 * n * p * p / min(times)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[2000, 8000, 20000])
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--threads", type=int, default=1, help="1: CPU seconds; more: seconds by the clock")
    parser.add_argument(
        "--parts", action="store_true", help="seconds by part, of one more fit; for a single number of rows"
    )
    arguments = parser.parse_args()
    clock = time.process_time if arguments.threads == 1 else time.perf_counter
    for module in (_network, _maps, _bases, _large, _explain, _landmarks):
        module.decompose = counted_decompose
    for module in (_judge, _network):
        module.ridge_solutions = counted_solutions
    _network.regression = counted_regression
    _layer.Layer.design = counted_design
    _landmarks.Landmarks.design = counted_kernel
    print(
        "| n | width | random features, s | seconds | counted, Gflop | floor, s | ratio |\n|---|---|---|---|---|---|---|"
    )
    several = arguments.threads > 1
    if several:
        warnings.simplefilter("ignore")
        OneStepRegressor(64, random_state=0).fit(
            *make_friedman1(5000, 20, random_state=0)
        )  # what is made once: threads, tables
    for n in arguments.rows:
        X, y = make_friedman1(n, 20, noise=1.0, random_state=0)
        start = clock()
        OneStepRegressor(arguments.width, step_size=0, random_state=0).fit(X, y)
        plain = clock() - start
        seconds = []
        for _ in range(1 + several):
            FLOPS["count"] = 0.0
            start = clock()
            model = OneStepRegressor(arguments.width, random_state=0).fit(X, y)
            seconds.append(clock() - start)
        flops, least = FLOPS["count"], min(seconds)
        floor = flops / speed(min(n, 20_000), arguments.width + 20)
        print(f"| {n} | {arguments.width} | {plain:.2f} | {least:.2f} | {flops / 1e9:.0f} | {floor:.2f} | {least / floor:.1f} |", flush=True)  # fmt: skip
        if arguments.parts:
            print(f"\nfits {', '.join(f'{s:.2f}' for s in seconds)} s; {model.first_layer_}, {model.gradient_}, penalty {model.alpha_:.3g}, left-out error {model.loo_error_:.12g}")  # fmt: skip
            parts: dict[str, float] = {}
            timed_parts(parts)
            start = clock()
            OneStepRegressor(arguments.width, random_state=0).fit(X, y)
            print("\n".join(f"{label}: {s:.3f} s" for label, s in {"whole fit": clock() - start, **parts}.items()), flush=True)  # fmt: skip
