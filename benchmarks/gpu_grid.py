"""A whole grid on one GPU: time, memory and share of the measured matrix-product rate.

    python benchmarks/gpu_grid.py [--sizes 4096 16384 32768 65536] [--plain 16384] [--device cuda] [--parts] [--cold]

d = n/2, N = 3n/2, ReLU, H₁ + H₂/√2, 8 exponents × 3 penalties, train and test (n test samples), one seed. The first
time a size runs, page-locked memory is reserved for its draws; sizes up to 32,768 run a second time. The plain version
keeps everything and factorises in float64 once per penalty. `--parts` waits for the device after every part and prints where
the time goes; `--cold` runs nothing before the first size, whose first call is then the first of the process.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from typing import Any

import numpy as np
import torch

import onestride as one
from onestride.simulation import features, network, run, shifted
from onestride.simulation.features import Trained
from onestride.simulation.network import draw_batch, draw_network, held_out_tiles
from onestride.simulation.panels import Panels
from onestride.simulation.rows import Rows
from onestride.simulation.run import simulate_grid

STEP = one.Step(constant=1.0, exponent=0.3)
EXPONENTS, RIDGES = np.linspace(0.05, 0.45, 8), np.array([0.01, 0.1, 1.0])
PARTS: dict[str, tuple[Any, str]] = {
    "draw": (network, "device_normals"),
    "weights": (run, "draw_weights"),
    "gradient": (run, "gradient_sums"),
    "products with the inputs": (features, "_products"),
    "Gram matrices": (Rows, "panels"),
    "factorisation": (Panels, "cholesky"),
    "refinement": (shifted, "refine"),
    "weights set aside": (Trained, "set_aside"),
    "weights back": (Trained, "at_hand"),
    "test": (run, "held_out"),
    "slopes": (run, "measured"),
}


class Timeline:
    """Seconds and calls by part, each without the parts inside it; draws in a thread of their own are beside the others."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = {}
        self._own = threading.local()
        for label, (owner, name) in PARTS.items():
            self._watch(label, owner, name)

    def _watch(self, label: str, owner: Any, name: str) -> None:
        plain = getattr(owner, name)

        def timed(*args: Any, **options: Any) -> Any:
            beside = threading.current_thread() is not threading.main_thread()
            inside = self._own.__dict__.setdefault("inside", [])
            wait = (lambda: None) if beside else torch.cuda.synchronize
            wait()
            start = time.perf_counter()
            inside.append(0.0)
            try:
                return plain(*args, **options)
            finally:
                wait()
                took, within = time.perf_counter() - start, inside.pop()
                if inside:
                    inside[-1] += took
                part = self.spent.setdefault(label + " (beside)" * beside, [0, 0.0])
                part[0] += 1
                part[1] += took - within

        setattr(owner, name, timed)

    def told(self) -> str:
        """One part after the other, and from then on from zero."""
        parts = "; ".join(f"{label} {seconds:.2f} s ({calls:.0f})" for label, (calls, seconds) in self.spent.items())
        self.spent.clear()
        return parts


def problem(n: int) -> one.Problem:
    return one.Problem(n=n, d=n // 2, N=3 * n // 2, activation="relu", teacher=(0, 1, 0.7071), noise=0.5, step=STEP)


def rate(work, flops: float, repeats: int = 3) -> float:
    work()
    torch.cuda.synchronize()
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return flops / best


def machine_rates(device: str) -> dict[str, float]:
    m = 8192
    A = torch.randn(m, m, dtype=torch.float64, device=device)
    S = A @ A.T + m * torch.eye(m, dtype=torch.float64, device=device)
    A32 = A.float()
    rates = {"gemm64": rate(lambda: A @ A, 2 * m**3), "cholesky64": rate(lambda: torch.linalg.cholesky(S), m**3 / 3)}
    rates["gemm32"] = rate(lambda: A32 @ A32, 2 * m**3)
    torch.backends.cuda.matmul.allow_tf32 = True
    rates["gemm_tf32"] = rate(lambda: A32 @ A32, 2 * m**3)
    torch.backends.cuda.matmul.allow_tf32 = False
    return rates


def flops(p: one.Problem, steps: int, penalties: int) -> dict[str, float]:
    """Six products n × d × N, and per step size a symmetric Gram matrix and a Cholesky factorisation per penalty."""
    n, d, N = p.n, p.d, p.N
    return {"products": 12.0 * n * d * N, "grams": 1.0 * steps * n * n * N, "cholesky": steps * penalties * n**3 / 3}


def plain(p: one.Problem, device: str, seed: int = 0) -> np.ndarray:
    """Form F and its Gram matrix, one Cholesky factorisation per penalty, everything kept; the same draws."""
    to = lambda x: torch.from_numpy(x).to(device)  # noqa: E731
    network = draw_network(p, seed)
    W, a = to(network.W0), to(network.a)
    batch = draw_batch(p, seed, "step_inputs", "step_noise", p.n)
    X, y = to(batch.X), to(batch.y)
    shift = p.sigma.shift
    torch.cuda.synchronize()
    start = time.perf_counter()
    pre = X @ W.T
    r = y - (torch.relu(pre) - shift) @ a
    G = a[:, None] * (((pre > 0) * r[:, None]).T @ X) / p.n
    del pre
    torch.cuda.synchronize()
    elapsed = time.perf_counter() - start
    batch = draw_batch(p, seed, "ridge_inputs", "ridge_noise", p.n)
    X, y = to(batch.X), to(batch.y)
    tests = [(to(T.copy()), to(s.copy())) for T, s in held_out_tiles(p, seed, p.n)]
    torch.cuda.synchronize()
    start = time.perf_counter()
    P, S = X @ W.T, X @ G.T
    T, signal = torch.cat([t for t, _ in tests]), torch.cat([s for _, s in tests])
    PT, ST = T @ W.T, T @ G.T
    out = np.empty((EXPONENTS.size, RIDGES.size, 2))
    for i, alpha in enumerate(EXPONENTS):
        eta = p.n**alpha
        F = torch.relu(P + eta * S) - shift
        K, FT = F @ F.T, torch.relu(PT + eta * ST) - shift
        for j, lam in enumerate(RIDGES):
            K.diagonal().add_(lam * p.n)
            alpha_hat = torch.cholesky_solve(y[:, None], torch.linalg.cholesky(K))[:, 0]
            K.diagonal().sub_(lam * p.n)
            out[i, j, 0] = lam * float(y @ alpha_hat)
            out[i, j, 1] = float(((signal - FT @ (F.T @ alpha_hat)) ** 2).mean()) + p.noise**2
    torch.cuda.synchronize()
    print(f"  plain: {elapsed + time.perf_counter() - start:.2f} s without drawing", flush=True)
    return out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=[4096, 16384, 32768, 65536])
    parser.add_argument("--plain", type=int, nargs="*", default=[4096, 16384])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    rates: dict[str, float] = {}
    timeline = Timeline() if options.parts else None
    start = time.perf_counter()
    torch.zeros(1, device=options.device)
    print(f"context {time.perf_counter() - start:.2f} s", flush=True)
    if not options.cold:
        rates = machine_rates(options.device)
        print(torch.cuda.get_device_name(), {k: f"{v / 1e12:.1f} TFLOP/s" for k, v in rates.items()}, flush=True)
        simulate_grid(problem(1024), EXPONENTS[:1], RIDGES, 1, device=options.device)  # warm up
    rows = []
    for n in options.sizes:
        p = problem(n)
        torch.cuda.reset_peak_memory_stats()
        times = []
        for _ in range(2 if n <= 32768 else 1):
            start = time.perf_counter()
            s = simulate_grid(p, EXPONENTS, RIDGES, 1, n_test=n, device=options.device, untrained=False)
            times.append(time.perf_counter() - start)
            if timeline is not None:
                print(f"  of {times[-1]:.2f} s: {timeline.told()}", flush=True)
        seconds = times[-1]
        count = flops(p, EXPONENTS.size, RIDGES.size)
        share = sum(count.values()) / seconds / rates.get("gemm64", np.nan)
        memory = torch.cuda.max_memory_allocated() / 2**30
        rows.append({"n": n, "seconds": times, "GiB": memory, "share": share, **count})
        taken = " s, then ".join(f"{t:.2f}" for t in times)
        print(f"n = {n}: {taken} s, {memory:.1f} GiB, {100 * share:.0f} % of the float64 product rate", flush=True)
        if n in options.plain:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            reference = plain(p, options.device)
            gap = max(
                np.abs(s.train_loss.raw.values[0] / reference[..., 0] - 1).max(),
                np.abs(s.test_error.raw.values[0] / reference[..., 1] - 1).max(),
            )
            print(f"  {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB; largest difference {gap:.1e}", flush=True)
        torch.cuda.empty_cache()
    print(json.dumps({"rates": rates, "rows": rows}))


if __name__ == "__main__":
    main()
