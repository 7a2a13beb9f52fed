"""10,000 predictions of the default level on two cores: 100 problems (n, φ = d/n, ψ = N/n drawn) × 10 exponents × 10 penalties.

    python benchmarks/theory_grid.py [--problems 100] [--workers 2]
    python benchmarks/theory_grid.py --against ../before/src --problems 8     the same numbers by another version, in turns

With `--against` the seconds are processor seconds of one core, so that a busy machine can compare.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

SRC = Path(__file__).parents[1] / "src"
EXPONENTS, RIDGES = np.linspace(0.05, 0.5, 10), np.geomspace(1e-3, 1, 10)


def sizes(count: int) -> list[tuple[int, int, int]]:
    """n from 500 to 5,000, d/n from 0.1 to 1, N/n from 0.5 to 3."""
    rng = np.random.default_rng(0)
    n = np.exp(rng.uniform(np.log(500), np.log(5000), count))
    d, N = (n * np.exp(rng.uniform(np.log(low), np.log(high), count)) for low, high in ((0.1, 1), (0.5, 3)))
    return [(round(a), round(b), round(c)) for a, b, c in zip(n, d, N, strict=True)]


def predict(given: tuple[int, int, int]) -> tuple[float, list[list[list[float]]]]:
    """Processor seconds, and the three errors on exponents × penalties."""
    import onestride as one

    n, d, N = given
    step = one.Step(constant=1.0, exponent=0.3)
    problem = one.Problem(n=n, d=d, N=N, activation="relu", teacher=(0, 1, 0.7071), noise=0.5, step=step)
    started = time.process_time()
    grid = one.predict_grid(problem, EXPONENTS, RIDGES)
    return time.process_time() - started, [grid.train_loss.tolist(), grid.train_mse.tolist(), grid.test_error.tolist()]


def elsewhere(src: Path, given: tuple[int, int, int]) -> tuple[float, np.ndarray]:
    """`predict` with another version of the package, after a prediction that is not counted."""
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import json, theory_grid as t; "
    code += f"t.predict((300, 200, 400)); print(json.dumps(t.predict({given!r})))"
    path = os.pathsep.join([str(src), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE, check=True
    )
    seconds, found = json.loads(done.stdout.splitlines()[-1])
    return seconds, np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--against", type=Path)
    args = parser.parse_args()
    problems, cells = sizes(args.problems), EXPONENTS.size * RIDGES.size
    if args.against is None:
        started = time.perf_counter()
        with ProcessPoolExecutor(args.workers) as pool:
            found = list(pool.map(predict, problems))
        wall, busy = time.perf_counter() - started, sum(seconds for seconds, _ in found)
        solved = np.isfinite([values for _, values in found]).all(1).mean()
        print(
            f"{cells * len(problems)} predictions on {args.workers} cores: {wall:.1f} s, {busy:.1f} s of processor time, ",
            end="",
        )
        print(f"{1000 * busy / (cells * len(problems)):.1f} ms each; {100 * solved:.1f} % have a number")
        return
    total = np.zeros(2)
    gap = 0.0
    for given in problems:
        (before, old), (now, new) = (elsewhere(src, given) for src in (args.against.resolve(), SRC))
        total += before, now
        gap = max(gap, float(np.nanmax(np.abs(new / old - 1))))
        print(
            f"{given}: {10 * before:.1f} ms each before, {10 * now:.1f} now; {before / now:.2f} times as fast",
            flush=True,
        )
    print(f"together {total[0] / total[1]:.2f} times as fast; largest relative difference {gap:.1e}")


if __name__ == "__main__":
    main()
