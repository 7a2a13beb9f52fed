"""Leading five singular triplets of F against a full decomposition: time ratio and agreement.

python benchmarks/spectrum_triplets.py [--n 16384] [--device cuda]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import onestride as one
from onestride._backend import choose, map_tiles
from onestride.simulation.network import draw_batch, draw_network, step_gradient
from onestride.simulation.rows import Rows
from onestride.simulation.spectrum import decompose


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=16384)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    n, step = options.n, one.Step(constant=2.0, exponent=0.3)
    p = one.Problem(n=n, d=n // 2, N=3 * n // 2, activation="relu", teacher=(0, 1, 0.7071), noise=0.5, step=step)
    backend = choose(options.device)
    network = draw_network(p, 0)
    W = network.W0 + p.eta * step_gradient(p, network, 0, backend).G
    X = draw_batch(p, 0, "ridge_inputs", None, n).X
    F = map_tiles(p.sigma, backend.put(X) @ backend.put(W).T)
    small = F[:2048, :2048]
    for full in (False, True):
        decompose(Rows.longer(small, backend), 2048, 5, full=full)  # warm up
    seconds, found = {}, {}
    for full in (False, True):
        start = time.perf_counter()
        values, vectors = decompose(Rows.longer(F, backend), n, 5, full=full)
        seconds[full], found[full] = time.perf_counter() - start, (values[-5:], np.abs(vectors))
        print(f"{'full' if full else 'leading five'}: {seconds[full]:.2f} s", flush=True)
    gaps = [np.abs(a - b).max() for a, b in zip(found[True], found[False], strict=True)]
    print(
        f"n = {n}: {seconds[True] / seconds[False]:.0f} × faster; values differ by {gaps[0]:.1e}, vectors by {gaps[1]:.1e}"
    )


if __name__ == "__main__":
    main()
