"""Seconds of a fit against the floor of its counted arithmetic, as n grows.

    python benchmarks/estimator_speed.py [--rows 2000 8000 20000] [--width 512]

One thread. Every regression of the fit is counted from its shapes: Gram matrix n p², product for leave-one-out 2 n p², penalties
4 n p per penalty, eigendecomposition 4 p³, Cholesky factors p³/3 each, the inputs of the neurons 2 n N d. The floor is their sum at the
speed of a large matrix product in the same process.
"""

from __future__ import annotations

import argparse
import os
import time

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np
from sklearn.datasets import make_friedman1

from onestride.estimator import OneStepRegressor, _judge, _layer, _maps, _network
from onestride.estimator._ridge import decompose, ridge_solutions

FLOPS = {"count": 0.0}


def counted_decompose(features, targets, weights):
    n, p = features.shape
    small = min(n, p)
    FLOPS["count"] += n * p * small + 2 * n * p * small + 4 * small**3 + 4 * n * small * 31
    return decompose(features, targets, weights)


def counted_solutions(features, targets, weights, alphas):
    n, p = features.shape
    FLOPS["count"] += n * p * min(n, p) + len(alphas) * min(n, p) ** 3 / 3
    return ridge_solutions(features, targets, weights, alphas)


def counted_design(self, Z, plain=_layer.Layer.design):
    FLOPS["count"] += 2.0 * len(Z) * self.W.size
    return plain(self, Z)


def speed() -> float:
    """Flops per CPU second of a large product."""
    A = np.random.default_rng(0).standard_normal((1500, 1500))
    times = []
    for _ in range(3):
        start = time.process_time()
        A @ A
        times.append(time.process_time() - start)
    return 2 * 1500**3 / min(times)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[2000, 8000, 20000])
    parser.add_argument("--width", type=int, default=512)
    arguments = parser.parse_args()
    _network.decompose = _maps.decompose = counted_decompose
    _judge.ridge_solutions = counted_solutions
    _layer.Layer.design = counted_design
    print("| n | seconds | counted, Gflop | floor, s | ratio |\n|---|---|---|---|---|")
    for n in arguments.rows:
        X, y = make_friedman1(n, 20, noise=1.0, random_state=0)
        FLOPS["count"] = 0.0
        start = time.process_time()
        OneStepRegressor(arguments.width, random_state=0).fit(X, y)
        seconds = time.process_time() - start
        floor = FLOPS["count"] / speed()
        print(f"| {n} | {seconds:.2f} | {FLOPS['count'] / 1e9:.0f} | {floor:.2f} | {seconds / floor:.1f} |", flush=True)
