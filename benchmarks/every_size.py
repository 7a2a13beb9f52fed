"""Theory against another simulator at every size: random problems with n/d from 1 to 100; a section of docs/verification.md.

    python benchmarks/every_size.py simulate benchmarks/every_size.json --device cuda --workers 8
    python benchmarks/every_size.py predict benchmarks/every_size.json predicted.json [--every 1] [--level full]
    python benchmarks/every_size.py table predicted.json

`simulate` needs torch and nothing of this package: activations, their derivatives (by torch), gradient, ridge regression and
draws are written here a second time (what it gave on 17 November 2026, 250 problems × 48 seeds in 342 s on one H200, is kept in
every_size.json). `predict` adds the theory to each number, `table` prints the section. A number is within when |theory − simulation| ≤ max(3 standard errors, 2 %).
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
import math
import multiprocessing
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

EXPONENTS = (None, 0.1, 0.25, 0.4, 0.5)  # None: the network without a step
RIDGES = (0.001, 0.01, 0.1, 1.0)
QUANTITIES = ("train_loss", "train_mse", "test_error")
TEST_SAMPLES = 4096
ACTIVATIONS = ("relu", "tanh", "softplus", "gelu", "erf", "silu", "elu")
QUADRATIC = [0, 1, 2**-0.5]
TEACHERS = (QUADRATIC, QUADRATIC, [0, 1, 0.5, 0.3], [0, 1], [0, 1, 0, 0.4], [0, 1, 0.3, 0.3], [0, 0.5, 1])

Record = dict[str, Any]


def draw_problem(rng: random.Random) -> Record:
    """Arguments of a problem, beside `constant`, that of its step."""
    n = round(math.exp(rng.uniform(math.log(400), math.log(3000))))
    d = max(12, round(n / math.exp(rng.uniform(0, math.log(100)))))
    N = round(n * math.exp(rng.uniform(math.log(0.3), math.log(3))))
    drawn: Record = {"n": n, "d": d, "N": N, "activation": rng.choice(ACTIVATIONS), "teacher": rng.choice(TEACHERS)}
    drawn |= {"noise": rng.choice([0, 0.3, 0.5, 1.0]), "gradient": rng.choice(["full", "full", "labels"])}
    drawn |= {"constant": rng.choice([0.5, 1.0, 1.0, 1.0, 2.0, 3.0])}
    drawn |= {"readout": rng.choice(["gaussian"] * 4 + ["rademacher", "constant"])}
    drawn |= {"weights": rng.choice(["sphere"] * 3 + ["gaussian"])}
    share = rng.choice([None, None, None, None, 0.25, 4.0])
    return drawn | ({"n_step": max(50, int(n * share))} if share else {})


def simulate(job: tuple[Record, int, int, str]) -> Record:
    """The problem with mean and standard error of every number over its seeds."""
    problem, first, seeds, device = job
    values = np.array([simulate_seed(problem, first + seed, device) for seed in range(seeds)])
    stderr = values.std(0, ddof=1) / math.sqrt(seeds)
    return {"problem": problem, "seeds": seeds, "mean": rounded(values.mean(0), 6), "stderr": rounded(stderr, 3)}


def rounded(values: np.ndarray, digits: int) -> list:
    return np.vectorize(lambda value: float(f"{value:.{digits}g}"))(values).tolist()


def simulate_seed(p: Record, seed: int, device: str) -> list:
    """Objective, training and test error on exponents × penalties: one draw, the literal step, ridge regression on fresh rows."""
    import torch

    torch.set_default_dtype(torch.float64)
    generator = torch.Generator(device=device)
    generator.manual_seed(seed)

    def gauss(*shape: int) -> Any:
        return torch.randn(*shape, device=device, generator=generator)

    functions = {"silu": torch.nn.functional.silu, "elu": torch.nn.functional.elu, "gelu": torch.nn.functional.gelu}
    functions |= {"relu": torch.relu, "tanh": torch.tanh, "erf": torch.erf, "softplus": torch.nn.functional.softplus}
    activation = functions[p["activation"]]
    z = torch.linspace(-12, 12, 200_001, device=device)
    mean = (activation(z) * torch.exp(-z * z / 2)).sum() * (z[1] - z[0]) / math.sqrt(2 * math.pi)

    def sigma(x: Any) -> Any:
        return activation(x) - mean

    n, d, N, steps = p["n"], p["d"], p["N"], p.get("n_step") or p["n"]
    beta, W = gauss(d), gauss(N, d)
    beta /= beta.norm()
    W = W / W.norm(dim=1, keepdim=True) if p["weights"] == "sphere" else W / math.sqrt(d)
    a = gauss(N)
    a = {"gaussian": a, "rademacher": torch.sign(a), "constant": torch.ones_like(a)}[p["readout"]] / math.sqrt(N)

    def sample(size: int, *, noisy: bool = True) -> tuple[Any, Any]:
        X = gauss(size, d)
        labels = hermite_sum(p["teacher"], X @ beta)
        return X, (labels + p["noise"] * gauss(size) if noisy else labels)

    X, y = sample(steps)
    X2, y2 = sample(n)
    Xt, yt = sample(TEST_SAMPLES, noisy=False)  # the noise of test labels is known, and added exactly
    before = (X @ W.T).requires_grad_()
    (slope,) = torch.autograd.grad(activation(before).sum(), before)
    before = before.detach()
    residual = y - (sigma(before) @ a if p["gradient"] == "full" else 0)
    G = ((slope * residual[:, None]).T @ X / steps) * a[:, None]
    rows = []
    for alpha in EXPONENTS:
        W1 = W if alpha is None else W + p["constant"] * n**alpha * G
        F, Ft = sigma(X2 @ W1.T), sigma(Xt @ W1.T)
        K = F @ F.T
        for ridge in RIDGES:
            factor = torch.linalg.cholesky(K + ridge * n * torch.eye(n, device=device))
            w = F.T @ torch.cholesky_solve(y2[:, None], factor)[:, 0]
            mse, test = ((y2 - F @ w) ** 2).mean(), ((yt - Ft @ w) ** 2).mean() + p["noise"] ** 2
            rows.append([float(mse + ridge * (w**2).sum()), float(mse), float(test)])
    return np.array(rows).reshape(len(EXPONENTS), len(RIDGES), 3).tolist()


def hermite_sum(coefficients: list[float], z: Any) -> Any:
    """Σ c_k He_k(z) with He_{k+1} = z He_k − k He_{k−1}."""
    before, now, total = 0 * z, 0 * z + 1, 0 * z
    for k, c in enumerate(coefficients):
        total = total + c * now
        before, now = now, z * now - k * before
    return total


def predict(job: tuple[Record, str | None]) -> Record:
    """The run with theory and status of every cell."""
    from onestride.problem import Problem, Step
    from onestride.theory.predict import predict_grid

    run, level = job
    arguments = {k: v for k, v in run["problem"].items() if k != "constant"}
    problem = Problem(**arguments, step=Step(constant=run["problem"]["constant"]))
    grid = predict_grid(problem, EXPONENTS[1:], RIDGES, level=level)  # pyright: ignore[reportArgumentType]
    parts = (grid.untrained, grid.trained)
    theory = np.stack([np.concatenate([getattr(part, name) for part in parts]) for name in QUANTITIES], -1)
    status = [[cell.name for cell in row] for part in parts for row in part.status]
    return run | {"theory": theory.tolist(), "status": status}


def write_all(do: Callable[[Any], Record], jobs: list, out: Path, workers: int) -> None:
    """What `do` makes of every job, written as it comes."""
    done: list[Record] = []
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for record in pool.imap(do, jobs):
            done.append(record)
            lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in done)
            out.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
            print(f"\r{len(done)}/{len(jobs)}", end="", flush=True)
    print()


class Numbers:
    """Every number of the runs on axes (problem, exponent, penalty, quantity): gap, within, marked."""

    def __init__(self, runs: list[Record]) -> None:
        self.problems = [run["problem"] for run in runs]
        self.mean, self.stderr, self.theory = (np.array([r[k] for r in runs]) for k in ("mean", "stderr", "theory"))
        self.status = np.array([run["status"] for run in runs])
        self.gap = self.theory / self.mean - 1
        with np.errstate(invalid="ignore"):
            self.within = np.abs(self.gap) <= np.maximum(3 * self.stderr / self.mean, 0.02)  # NaN is never within
        self.marked = np.broadcast_to((self.status != "SOLVED")[..., None], self.mean.shape)

    def of(self, test: Callable[[Record], bool]) -> np.ndarray:
        """Where a test of the problem holds."""
        return np.broadcast_to(np.array([test(p) for p in self.problems])[:, None, None, None], self.mean.shape)

    def at(self, axis: int, i: int) -> np.ndarray:
        """Where the index of an axis is i."""
        return np.indices(self.mean.shape)[axis] == i

    def row(self, label: str, keep: np.ndarray) -> str:
        gap, plain = self.gap[keep], keep & ~self.marked
        return (
            f"| {label} | {keep.sum()} | {self.within[keep].mean():.1%} | {np.nanmedian(np.abs(gap)):.2%} | "
            f"{np.nanmedian(gap):+.2%} | {self.marked[keep].mean():.1%} | {self.within[plain].mean():.1%} | "
            f"{np.max(np.abs(self.gap[plain & ~self.within]), initial=0):.1%} |"
        )


def groups(x: Numbers) -> list[tuple[str, np.ndarray]]:
    """Label and numbers of every row of the table."""

    def between(low: float, high: float, value: Callable[[Record], float]) -> np.ndarray:
        return x.of(lambda p: low < value(p) <= high)

    rows = [("all", np.ones(x.mean.shape, bool))]
    rows += [(name.replace("_", " "), x.at(3, i)) for i, name in enumerate(QUANTITIES)]
    rows += [("no step" if a is None else f"α = {a:g}", x.at(1, i)) for i, a in enumerate(EXPONENTS)]
    rows += [(f"λ = {ridge:g}", x.at(2, i)) for i, ridge in enumerate(RIDGES)]
    rows += [(f"activation {name}", x.of(lambda p, name=name: p["activation"] == name)) for name in ACTIVATIONS]
    for low, high in ((0, 2), (2, 4), (4, 8), (8, 16), (16, 32), (32, 100)):
        words = f"n/d ≤ {high}" if low == 0 else f"n/d from {low} to {high}"
        rows.append((words, between(low, high, lambda p: p["n"] / p["d"])))
    for low, high in ((0, 20), (20, 35), (35, 60), (60, 120), (120, 10**9)):
        words = f"d ≤ {high}" if low == 0 else f"d > {low}" if high == 10**9 else f"d from {low + 1} to {high}"
        rows.append((words, between(low, high, lambda p: p["d"])))
    for key in ("gradient", "readout", "weights", "noise"):
        values = sorted({p[key] for p in x.problems})
        rows += [(f"{key} {value}", x.of(lambda p, k=key, v=value: p[k] == v)) for value in values]
    for value in sorted({p["constant"] for p in x.problems}):
        rows.append((f"c = {value:g}", x.of(lambda p, v=value: p["constant"] == v)))
    for low, high, words in ((0, 0.5, "n/4"), (0.5, 2, "n"), (2, 8, "4n")):
        rows.append((f"n_step = {words}", between(low, high, lambda p: (p.get("n_step") or p["n"]) / p["n"])))
    return rows


def by_status(x: Numbers) -> list[str]:
    """What a mark is worth; a cell is off when one of its numbers misses by more than 5 % and 3 standard errors beyond."""
    off = (np.abs(x.gap) > 0.05 + 3 * x.stderr / x.mean).any(-1)
    lines = [
        "| status | cells | off by more than 5 %, beyond 3 standard errors | numbers within |",
        "|---|---|---|---|",
    ]
    for status in sorted(set(x.status.flat), reverse=True):
        at = x.status == status
        lines.append(
            f"| {status.lower().replace('_', ' ')} | {at.sum()} | {off[at].sum()} | {x.within[at].mean():.1%} |"
        )
    return lines


def kinds(x: Numbers) -> list[str]:
    """The record behind `accuracy`: unmarked numbers by n/d and c."""
    lines = []
    for few in (False, True):
        for strong in (False, True):
            at = x.of(lambda p, f=few, s=strong: (p["n"] > 4 * p["d"]) == f and (p["constant"] > 1) == s) & ~x.marked
            words = f"n/d {'>' if few else '≤'} 4, c {'>' if strong else '≤'} 1"
            lines.append(f"{words}: {at.sum()} numbers, {x.within[at].mean():.1%} within")
    return lines


def describe(p: Record) -> str:
    """A problem in words."""
    teacher = " + ".join(f"{'' if c == 1 else f'{c:.2g} '}H{'₀₁₂₃'[k]}" for k, c in enumerate(p["teacher"]) if c)
    unusual = [f"{p[key]} {key}" for key, usual in (("readout", "gaussian"), ("weights", "sphere")) if p[key] != usual]
    unusual += [f"n_step = {p['n_step']}"] if p.get("n_step") else []
    words = [f"{p['activation']}, n = {p['n']}, d = {p['d']}, N = {p['N']}", f"{teacher}, noise {p['noise']:g}"]
    return ", ".join([*words, f"{p['gradient']} gradient, c = {p['constant']:g}", *unusual])


def table(runs: list[Record], worst: int = 10) -> str:
    x = Numbers(runs)
    unmarked = ~x.marked
    lines = [
        f"**{x.within.mean():.1%}** of {x.mean.size} numbers within, median gap {np.nanmedian(np.abs(x.gap)):.2%}; "
        f"{(~np.isfinite(x.theory)).sum()} without a value. Half of the numbers are known to within "
        f"{np.median(3 * x.stderr / x.mean):.1%} (3 standard errors) or better.\n",
        *by_status(x),
        "",
        "| group | numbers | within | median gap | median of theory/simulation − 1 | marked | within, unmarked "
        "| largest miss, unmarked |",
        "|---|---|---|---|---|---|---|---|",
        *(x.row(label, keep) for label, keep in groups(x) if keep.any()),
        f"\nThe {worst} worst problems, by the largest miss of a number that is not marked:\n",
        "| problem | numbers missed, of 60 | worst | α | λ | simulation | theory | gap |",
        "|---|---|---|---|---|---|---|---|",
    ]
    miss = np.where(unmarked & ~x.within, np.abs(x.gap), 0)
    for i in np.argsort(-miss.max((1, 2, 3)))[:worst]:
        a, r, q = np.unravel_index(np.argmax(miss[i]), miss[i].shape)
        step = "none" if EXPONENTS[a] is None else f"{EXPONENTS[a]:g}"
        lines.append(
            f"| {describe(x.problems[i])} | {(miss[i] > 0).sum()} | {QUANTITIES[q].replace('_', ' ')} | {step} | {RIDGES[r]:g} | "
            f"{x.mean[i, a, r, q]:.4g} ± {x.stderr[i, a, r, q]:.1g} | {x.theory[i, a, r, q]:.4g} | {x.gap[i, a, r, q]:+.1%} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    first, second, third = (commands.add_parser(name) for name in ("simulate", "predict", "table"))
    first.add_argument("out", type=Path)
    for name, default in (("--problems", 250), ("--draw", 1), ("--seeds", 48)):
        first.add_argument(name, type=int, default=default)
    first.add_argument("--device", default="cuda")
    for command in (second, third):
        command.add_argument("runs", type=Path)
    second.add_argument("out", type=Path)
    for command in (first, second):
        command.add_argument("--workers", type=int, default=2)
    second.add_argument("--every", type=int, default=1, help="keep each k-th problem")
    second.add_argument("--level", help="of the profile theory, the default otherwise")
    given = parser.parse_args()
    if given.command == "simulate":
        rng = random.Random(given.draw)
        drawn = [(draw_problem(rng), 100_000 * (i + 1000 * given.draw)) for i in range(given.problems)]
        return write_all(simulate, [(*each, given.seeds, given.device) for each in drawn], given.out, given.workers)
    runs = json.loads(given.runs.read_text(encoding="utf-8"))
    if given.command == "predict":
        return write_all(predict, [(run, given.level) for run in runs[:: given.every]], given.out, given.workers)
    print(table(runs))
    return print("\nUnmarked, by kind:", *kinds(Numbers(runs)), sep="\n", file=sys.stderr)


if __name__ == "__main__":
    main()
