"""Small problems, this version against another in the same run: seconds per seed, and their ratio.

    python benchmarks/small_sizes.py --against ../before/src [--sizes 250 500 1000 2000] [--seeds 16]
    python benchmarks/small_sizes.py --against ../before/src --sizes 1024 --seeds 64 --penalties 4 --device cuda

d = n/2, N = 3n/2, ReLU, H₁ + H₂/√2, 8 exponents and the untrained network, 3 penalties. Each version runs in a process of its
own, after a first call that is not counted; the two take turns, and the least of `--repeats` counts. Fix cores with taskset.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

SRC = Path(__file__).parents[1] / "src"
RIDGES = [0.01, 0.1, 1.0, 0.001]


def measure(n: int, seeds: int, penalties: int, device: str) -> dict[str, float]:
    """Seconds of a first and of a second call, and a sum of what was found."""
    import onestride as one

    step = one.Step(constant=1.0, exponent=0.3)
    problem = one.Problem(n=n, d=n // 2, N=3 * n // 2, activation="relu", teacher=(0, 1, 0.7071), noise=0.5, step=step)
    exponents, ridges = np.linspace(0.05, 0.45, 8), RIDGES[:penalties]
    times = []
    for _ in range(2):
        started = time.perf_counter()
        found = one.simulate_grid(problem, exponents, ridges, seeds, device=device)
        times.append(time.perf_counter() - started)
    return {"first": times[0], "seconds": times[1], "sum": float(found.test_error.values.sum())}


def run(src: Path, *given: object) -> dict[str, float]:
    """`measure` with another version of the package."""
    path = os.pathsep.join([str(src), *filter(None, [os.environ.get("PYTHONPATH")])])
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import json, small_sizes as s; "
    code += f"print(json.dumps(s.measure(*{given!r})))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[250, 500, 1000, 2000])
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--penalties", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    for n in args.sizes:
        best: dict[str, dict[str, float]] = {}
        for _ in range(args.repeats):
            for name, src in (("before", args.against.resolve()), ("now", SRC)):
                found = run(src, n, args.seeds, args.penalties, args.device)
                best[name] = min(found, best.get(name, found), key=lambda one: one["seconds"])
        before, now = best["before"], best["now"]
        each = {name: 1000 * found["seconds"] / args.seeds for name, found in best.items()}
        print(
            f"n = {n}, {args.seeds} seeds on {args.device}: {now['seconds']:.2f} s, the first time {now['first']:.2f} s; "
            f"{each['now']:.1f} ms per seed, before {each['before']:.1f}: {each['before'] / each['now']:.2f} times as fast; "
            f"sums differ by {abs(now['sum'] / before['sum'] - 1):.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
