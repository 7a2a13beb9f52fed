"""The default theory held to the simulated values of another program: shares by problem, worst cells, times.

    python benchmarks/reference.py simulated.json [--groups QIM] [--worst 10]

The file holds problems (`config`, in the words of `Problem`) with rows of [mean, standard error] by exponent (None: no step)
and penalty. A number is within when |theory − simulation| ≤ max(3 standard errors, 2 %).
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import onestride as one

QUANTITIES = {"objective": "train_loss", "train_mse": "train_mse", "test": "test_error"}
NOT_OF_PROBLEM = ("constant", "alphas", "ridges", "seeds", "n_test", "name")


class Number(NamedTuple):
    """One number of the file beside its prediction."""

    where: str
    simulated: float
    stderr: float
    theory: float
    status: str

    @property
    def gap(self) -> float:
        return self.theory / self.simulated - 1

    @property
    def within(self) -> bool:
        return bool(abs(self.theory - self.simulated) <= max(3 * self.stderr, 0.02 * self.simulated))


def judge(case: dict[str, Any]) -> tuple[list[Number], float]:
    """Every number of a problem, and the CPU seconds of its prediction for each step."""
    c, rows = case["config"], {(row["alpha"], row["ridge"]): row for row in case["rows"]}
    problem = one.Problem(
        **{k: v for k, v in c.items() if k not in NOT_OF_PROBLEM}, step=one.Step(constant=c["constant"])
    )
    start = time.process_time()
    grid = one.predict_grid(problem, [a for a in c["alphas"] if a is not None], c["ridges"])
    seconds = (time.process_time() - start) / len(c["alphas"])
    numbers = []
    for (alpha, ridge), row in rows.items():
        part = grid.untrained if alpha is None else grid.trained
        at = (0 if alpha is None else int(np.argmin(np.abs(grid.exponents - alpha))), c["ridges"].index(ridge))
        for name, field in QUANTITIES.items():
            where = f"{c['name']}, {'no step' if alpha is None else f'α = {alpha:g}'}, λ = {ridge:g}, {name}"
            mean, stderr = row[name]
            numbers.append(Number(where, mean, stderr, float(getattr(part, field)[at]), part.status[at].name))
    return numbers, seconds


def paired(case: dict[str, Any], numbers: list[Number]) -> list[bool]:
    """Whether gains over no step, of the same draws, are within max(3 standard errors, 2 % of the error without a step).

    Labels of degree two and more are heavy-tailed: 48 draws do not show their mean power, which gains are free of.
    """
    found = {x.where: x for x in numbers}
    out: list[bool] = []
    for row in case["rows"]:
        for name in QUANTITIES if row["alpha"] is not None else ():
            end = f"λ = {row['ridge']:g}, {name}"
            before, after = (
                found[f"{case['config']['name']}, {at}, {end}"] for at in ("no step", f"α = {row['alpha']:g}")
            )
            gain, stderr = row[f"gain_{name}"]
            if after.status == "SOLVED" and before.status == "SOLVED":
                gap = before.theory - after.theory - gain
                out.append(bool(abs(gap) <= max(3 * stderr, 0.02 * before.simulated)))
    return out


def line(label: str, numbers: list[Number], gains: list[bool], seconds: float) -> str:
    plain = [x for x in numbers if x.status == "SOLVED"]
    if not plain:
        return f"| {label} | {len(numbers)} | 0 | | | | | | {seconds:.2f} |"
    within = np.mean([x.within for x in plain])
    far = sum(not x.within and abs(x.gap) > 0.08 for x in plain)
    gaps = np.abs([x.gap for x in plain])
    return (
        f"| {label} | {len(numbers)} | {len(plain)} | {within:.1%} | {np.median(gaps):.2%} | {gaps.max():.1%} | {far} | "
        f"{np.mean(gains):.1%} | {seconds:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("simulated", type=Path)
    parser.add_argument("--groups", default="QIM", help="first letters of the problems' names")
    parser.add_argument("--worst", type=int, default=10)
    given = parser.parse_args()
    cases = json.loads(given.simulated.read_text(encoding="utf-8"))
    every: list[Number] = []
    print(
        "| problem | numbers | unmarked | within | median gap | largest gap | beyond 8 % | paired gains within | CPU s per step |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for letter in given.groups:
        group, gained, spent = list[Number](), list[bool](), list[float]()
        for case in (x for x in cases if x["config"]["name"][0] == letter):
            numbers, seconds = judge(case)
            gains = paired(case, numbers)
            print(line(case["config"]["name"], numbers, gains, seconds), flush=True)
            group += numbers
            gained += gains
            spent.append(seconds)
        if group:
            print(line(f"all {letter}", group, gained, float(np.mean(spent))), flush=True)
        every += group
    print(f"\nThe {given.worst} worst unmarked numbers, by gap beyond max(3 standard errors, 2 %):\n")
    missed = sorted((x for x in every if x.status == "SOLVED" and not x.within), key=lambda x: -abs(x.gap))
    for x in missed[: given.worst]:
        print(f"{x.where}: {x.simulated:.4g} ± {x.stderr:.1g}, theory {x.theory:.4g}, {x.gap:+.1%}")


if __name__ == "__main__":
    main()
