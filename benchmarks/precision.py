"""How much smaller error bars are than plain ones, and whether they are honest: twenty problems, λ from 0.01 to 1.

    python benchmarks/precision.py --n 1000 --seeds 200 --workers 16 --out precision.json

gain       variance of plain values over variance of precise ones, seed by seed: how many times fewer seeds give the same
           error bar. Cost per seed: time this script on the version before.
coverage   share of 95 % intervals (Student's t, 8 seeds) that hold the mean over all seeds, 400 repetitions at n = 200.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import stdtrit
from threadpoolctl import threadpool_limits

from onestride.problem import Problem, Step
from onestride.result import QUANTITIES, Estimate, Luck
from onestride.simulation.run import simulate_grid

RIDGES = [0.01, 0.03, 0.1, 0.3, 1.0]
QUADRATIC, CUBIC = [0, 1, 0.7071], [0, 1, 0.5, 0.3]
PART = 10  # seeds of one task


def problems(n: int) -> dict[str, Problem]:
    """Twenty problems: activations, teachers with light and heavy tails, shapes, noise, steps, laws, variants."""

    def make(
        phi: float = 0.5, psi: float = 1 / 3, teacher: object = QUADRATIC, alpha: float = 0.3, **more: object
    ) -> Problem:
        d = round(phi * n)
        given = {"noise": 0.5, "step": Step(constant=1, exponent=alpha)} | more
        return Problem(n=n, d=d, N=round(d / psi), teacher=teacher, **given)

    return {
        "relu, quadratic": make(),
        "relu, cubic": make(teacher=CUBIC),
        "relu, quadratic, α = 0.1": make(alpha=0.1),
        "relu, quadratic, α = 0.45": make(alpha=0.45),
        "relu, cubic, α = 0.45, no noise": make(teacher=CUBIC, alpha=0.45, noise=0.0),
        "relu, n = N": make(psi=0.5),
        "relu, wide": make(phi=0.3, psi=0.1),
        "relu, narrow": make(phi=0.25, psi=0.5),
        "relu, d ≪ n": make(phi=0.08, psi=0.08),
        "relu, labels": make(gradient="labels", alpha=0.4),
        "tanh, relu teacher": make(activation="tanh", teacher="relu", alpha=0.4),
        "tanh, cubic": make(activation="tanh", teacher=CUBIC, alpha=0.4),
        "erf, linear": make(activation="erf", teacher=[0, 1]),
        "softplus, quadratic, little noise": make(activation="softplus", noise=0.1),
        "gelu, cubic, n = 4N": make(activation="gelu", teacher=CUBIC, phi=0.2, psi=0.8),
        "silu, tanh teacher, much noise": make(activation="silu", teacher="tanh", noise=1.0),
        "relu, power-law inputs": make(inputs="power"),
        "relu, three times the samples in the step": make(n_step=3 * n, alpha=0.4),
        "elu, quadratic, signs in the readout": make(activation="elu", readout="rademacher"),
        "relu, two directions": make(teacher=QUADRATIC, directions=2, mix="sum"),
    }


def part(problem: Problem, first: int) -> dict[str, np.ndarray]:
    """Plain values and luck of some seeds, axes (quantities, networks, seeds, penalties)."""
    with threadpool_limits(1):
        grid = simulate_grid(problem, [problem.step.exponent], RIDGES, range(first, first + PART))
    both = [[getattr(one, name)[0, :] for one in (grid.untrained, grid)] for name in QUANTITIES]
    found = {"plain": [[e.raw.values for e in pair] for pair in both]}
    found |= {name: [[getattr(e.luck, name) for e in pair] for pair in both] for name in ("freed", "slopes")}
    return {name: np.array(v) for name, v in found.items()} | {"moments": both[0][0].luck.moments}


def collect(problem: Problem, seeds: int, pool: ProcessPoolExecutor) -> tuple[dict[str, np.ndarray], float]:
    """All seeds, and the seconds they took."""
    started = time.perf_counter()
    parts = list(pool.map(partial(part, problem), range(0, seeds, PART)))
    found = {name: np.concatenate([p[name] for p in parts], axis=2) for name in ("plain", "freed", "slopes")}
    return found | {"moments": np.concatenate([p["moments"] for p in parts])}, time.perf_counter() - started


def estimate(found: dict[str, np.ndarray], q: int, network: int, seeds: slice) -> Estimate:
    luck = Luck(found["freed"][q, network, seeds], found["slopes"][q, network, seeds], found["moments"][seeds])
    return Estimate.freed(found["plain"][q, network, seeds], luck)


def gains(found: dict[str, np.ndarray]) -> dict[str, list[list[float]]]:
    """Variance ratios by quantity, of the untrained and the trained network, at each penalty; and of the test gain."""
    whole = slice(None)
    out = {name: [] for name in QUANTITIES}
    for q, name in enumerate(QUANTITIES):
        for network in (0, 1):
            e = estimate(found, q, network, whole)
            out[name].append((e.raw.values.var(0, ddof=1) / e.values.var(0, ddof=1)).tolist())
    fall = estimate(found, 2, 0, whole) - estimate(found, 2, 1, whole)
    out["test_gain"] = [(fall.raw.values.var(0, ddof=1) / fall.values.var(0, ddof=1)).tolist()]
    return out


def coverage(found: dict[str, np.ndarray], seeds: int, size: int = 8) -> dict[str, dict[str, float]]:
    """Shares of intervals that hold the mean of all seeds, whose own error is in the interval's width."""
    out = {}
    t = stdtrit(size - 1, 0.975)
    for q, name in enumerate(QUANTITIES):
        for network, which in enumerate(("untrained", "trained")):
            whole = estimate(found, q, network, slice(None))
            groups = [estimate(found, q, network, slice(i, i + size)) for i in range(0, seeds - size + 1, size)]
            pairs = {"precise": groups, "plain": [g.raw for g in groups]}
            row = {}
            for kind, estimates in pairs.items():
                gap = np.array([e.mean - whole.mean for e in estimates])  # the whole is precise: nearly without error
                row[kind] = float((np.abs(gap) <= t * np.array([e.stderr for e in estimates])).mean())
            shift = whole.values - whole.raw.values
            row["bias z"] = float(np.abs(shift.mean(0) / (shift.std(0, ddof=1) / np.sqrt(seeds))).max())
            out[f"{which} {name}"] = row
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--only", type=int, default=20, help="so many of the problems")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    result: dict[str, object] = {"n": args.n, "seeds": args.seeds, "ridges": RIDGES, "gains": {}, "coverage": {}}

    def save() -> None:  # after every problem: a run that is cut short keeps what it has
        if args.out:
            args.out.write_text(json.dumps(result, indent=1))

    with ProcessPoolExecutor(args.workers) as pool:
        for name, problem in list(problems(args.n).items())[: args.only] if args.seeds else []:
            found, seconds = collect(problem, args.seeds, pool)
            result["gains"][name] = gains(found) | {"seconds": seconds}
            save()
            shown = {q: np.round(v[-1], 1).tolist() for q, v in gains(found).items()}
            print(
                f"{name:45} median {np.median(np.array([gains(found)[q] for q in QUANTITIES])):5.2f}  {shown}",
                flush=True,
            )
        for trained in (0, 1) if args.seeds else ():
            all_of = [g[q][trained] for g in result["gains"].values() for q in QUANTITIES]
            print(
                "trained" if trained else "untrained",
                "median gain",
                np.median(all_of, axis=0).round(2),
                np.median(all_of).round(2),
            )
        for name, problem in list(problems(200).items())[: args.only] if args.repetitions else []:
            found, _ = collect(problem, 8 * args.repetitions, pool)
            result["coverage"][name] = coverage(found, 8 * args.repetitions)
            save()
            print(f"{name:45} {result['coverage'][name]}", flush=True)
    kinds = {
        kind: [row[kind] for rows in result["coverage"].values() for row in rows.values()]
        for kind in ("precise", "plain")
    }
    print({kind: (np.mean(v).round(4), np.min(v).round(4)) for kind, v in kinds.items() if v})


if __name__ == "__main__":
    main()
