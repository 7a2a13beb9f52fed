"""How good is the mark `INACCURATE`? Random problems, simulated and predicted; what is marked, and what is off.

    python benchmarks/reliability.py --problems 80 --seeds 32 --device cuda --workers 14
    python benchmarks/reliability.py --exponents 0.55 0.65 0.75 0.9     steps beyond √n
    python benchmarks/reliability.py --even                             activations with c₁ = 0

A cell (problem, exponent, penalty) counts as off when one of its three numbers misses the simulation by more than 5 %
and that miss exceeds 5 % by three standard errors.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np

EXPONENTS, RIDGES = (0.0, 0.2, 0.3, 0.4, 0.5), (0.001, 0.01, 0.1, 1.0)
ACTIVATIONS = ("relu", "silu", "tanh", "softplus", "gelu", "elu", "erf", "sigmoid", "sin", "leaky_relu", "shifted_erf")
TEACHERS = ([0, 1, 0.7071], [0, 1, 0.5, 0.3], [0, 1], "tanh", "relu", [0, 0.3, 1], [0, 1, 0, 0.4], [0, 0.5, 0.5, 0.3])


EVEN = {
    "cos": (np.cos, lambda z: -np.sin(z)),
    "abs": (np.abs, np.sign),
    "gauss": (lambda z: np.exp(-z * z / 2), lambda z: -z * np.exp(-z * z / 2)),
}


def draw_problem(rng: np.random.Generator) -> dict[str, Any]:
    """Arguments of a problem and its step's constant, over everything the theory accepts."""

    def pick(values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    n = round(np.exp(rng.uniform(np.log(200), np.log(2000))))
    d = max(12, round(n * np.exp(rng.uniform(np.log(0.03), np.log(2)))))
    N = round(n * np.exp(rng.uniform(np.log(0.2), np.log(4))))
    activation = pick(ACTIVATIONS)
    if rng.random() < 0.25:
        higher = (rng.normal(size=3) * (0.7, 0.6, 0.3))[: int(rng.integers(1, 4))]
        activation = [0.0, 1.0, *np.round(higher, 3).tolist()]
    arguments = {"n": n, "d": d, "N": N, "activation": activation, "teacher": pick(TEACHERS)}
    arguments |= {"noise": pick([0, 0.3, 0.5, 1.0]), "gradient": pick(["full", "full", "labels"])}
    arguments |= {"weights": pick(["sphere", "sphere", "gaussian"])}
    arguments |= {"readout": pick(["gaussian", "gaussian", "constant", "rademacher"])}
    share = pick([None, None, None, 0.25, 4.0])
    if share:
        arguments["n_step"] = max(20, int(n * share))
    return {"arguments": arguments, "constant": float(np.round(np.exp(rng.uniform(np.log(0.5), np.log(12))), 2))}


def even(spec: dict[str, Any], i: int) -> dict[str, Any]:
    """The same problem with the i-th even activation."""
    return spec | {"arguments": spec["arguments"] | {"activation": [*EVEN, [0, 0, 0.5]][i % (len(EVEN) + 1)]}}


def work(job: tuple[dict[str, Any], int, str, tuple[float, ...]]) -> list[dict[str, Any]]:
    """Gaps, standard errors and status of every cell of one problem."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import onestride as one

    spec, seeds, device, exponents = job
    for name, functions in EVEN.items():
        one.register(name, *functions)
    problem = one.Problem(**spec["arguments"], step=one.Step(constant=spec["constant"], exponent=0.3))
    measured = one.simulate_grid(problem, exponents, RIDGES, seeds=seeds, device=device, progress=False)
    theory = one.predict_grid(problem, exponents, RIDGES)
    cells = []
    for i in (None, *range(len(exponents))):
        for j, ridge in enumerate(RIDGES):
            m, t, at = (
                (measured.untrained, theory.untrained, (0, j)) if i is None else (measured, theory.trained, (i, j))
            )
            gap, error = [], []
            for name in ("train_loss", "train_mse", "test_error"):
                estimate = getattr(m, name)
                mean, stderr = np.atleast_2d(estimate.mean)[at], np.atleast_2d(estimate.stderr)[at]
                gap.append(float(getattr(t, name)[at] / mean - 1))
                error.append(float(stderr / mean))
            cells.append(
                {
                    "problem": spec,
                    "exponent": None if i is None else exponents[i],
                    "ridge": ridge,
                    "gap": gap,
                    "stderr": error,
                    "status": t.status[at].name,
                    "message": str(t.message[at]),
                }
            )
    return cells


def report(cells: list[dict[str, Any]]) -> None:
    gap, error = (np.array([c[name] for c in cells]) for name in ("gap", "stderr"))
    status = np.array([c["status"] for c in cells])
    off = (np.abs(gap) - 3 * error > 0.05).any(1)
    beyond = (np.abs(gap) > 0.05).any(1)
    fine = (np.abs(gap) < np.maximum(3 * error, 0.02)).mean(1)
    for name in sorted(set(status)):
        at = status == name
        print(
            f"{name:14s} {at.sum():5d} cells; off {off[at].sum():4d}; measured gap above 5 % {beyond[at].sum():4d}; "
            f"numbers within max(3 standard errors, 2 %) {100 * fine[at].mean():.1f} %"
        )
    for k in np.flatnonzero(off & (status == "SOLVED")):
        c = cells[k]
        print("  unmarked:", c["problem"], c["exponent"], c["ridge"], np.round(gap[k], 3), np.round(error[k], 3))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", type=int, default=40)
    parser.add_argument("--draw", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=32)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--exponents", type=float, nargs="*", default=EXPONENTS)
    parser.add_argument("--even", action="store_true")
    parser.add_argument("--largest", type=int, default=8000, help="leave out problems of larger n, d or N")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rng = np.random.default_rng(options.draw)
    drawn = [draw_problem(rng) for _ in range(options.problems)]
    drawn = [spec for spec in drawn if max(spec["arguments"][size] for size in "ndN") <= options.largest]
    specs = [even(spec, i) if options.even else spec for i, spec in enumerate(drawn)]
    jobs = [(spec, options.seeds, options.device, tuple(options.exponents)) for spec in specs]
    cells: list[dict[str, Any]] = []
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for k, found in enumerate(pool.imap_unordered(work, jobs), 1):
            cells += found
            print(f"\r{k}/{len(jobs)}", end="", flush=True)
    print()
    if options.out:
        options.out.write_text(json.dumps(cells))
    report(cells)


if __name__ == "__main__":
    main()
