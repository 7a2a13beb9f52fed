"""Every choice a `Problem` has, in combinations drawn at random: asked of the theory, and held to simulation.

    python benchmarks/every_choice.py --problems 400 --seeds 24 --workers 16 --out every_choice.json
    python benchmarks/every_choice.py --problems 4000 --seeds 0 --asks       all that theory says, nothing simulated
    python benchmarks/every_choice.py --problems 4000 --kinds --minutes 9    the kinds that `accuracy` tells apart, each as often as the others;
                                                                             only what has unmarked numbers after the steps is simulated

What counts: an end that is neither a number nor a sentence, seconds of processor, what is refused, and of the numbers that are not marked
the share within max(3 standard errors, 2 %) by kind of inputs and of steps.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
import traceback
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

RIDGES = (0.001, 0.01, 0.1, 1.0)
ACTIVATIONS = ("relu", "tanh", "softplus", "erf", "silu", "gelu", "elu", "sigmoid", [0, 1, 0.4], [0, 1, 0, 0.3])
TEACHERS = ([0, 1, 0.7071], [0, 1], "tanh", "relu", [0, 0.4, 1], [0, 1, 0, 0.4], [0, 0, 1])
INPUTS = ("gaussian", "gaussian", "uniform", "rademacher", "student", "ar1", "power", "elliptic", "spike", "two")
ASKS = ("spectrum", "learned", "diagnose", "optimal_ridge", "optimum", "baselines", "giant_step")


def draw(rng: np.random.Generator) -> dict[str, Any]:
    """Arguments of a problem."""

    def pick(values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    n = round(np.exp(rng.uniform(np.log(200), np.log(900))))
    d = max(12, round(n * np.exp(rng.uniform(np.log(0.04), np.log(1.2)))))
    drawn = {"n": n, "d": d, "N": round(n * np.exp(rng.uniform(np.log(0.3), np.log(2.5))))}
    drawn |= {"activation": pick(ACTIVATIONS), "teacher": pick(TEACHERS), "noise": pick([0.0, 0.3, 0.5, 1.0])}
    drawn |= {"gradient": pick(["full", "labels"]), "weights": pick(["sphere", "sphere", "gaussian"])}
    drawn |= {"readout": pick(["gaussian", "gaussian", "constant", "rademacher"]), "inputs": pick(INPUTS)}
    drawn |= {"steps": pick([1, 1, 2, 3]), "directions": pick([1, 1, 1, 2, 3]), "mix": pick(["sum", "staircase"])}
    several = drawn["steps"] > 1
    drawn |= {
        "batch": pick(["fresh", "reused"]) if several else "fresh",
        "fresh": rng.random() < (0.95 if several else 0.7),
    }
    drawn |= {"centred": rng.random() < 0.9, "kappa": float(np.sqrt(d) * rng.uniform(0.1, 2))}
    drawn |= {"constant": float(np.exp(rng.uniform(np.log(0.2), np.log(2)))), "exponent": float(rng.uniform(0.0, 0.5))}
    if rng.random() < 0.25:
        drawn["n_step"] = max(20, round(n * pick([0.3, 2.0])))
    return drawn


def problem_of(drawn: dict[str, Any]) -> Any:
    import onestride as one

    given = dict(drawn)
    given.pop("kind", None)
    kappa, step = given.pop("kappa"), one.Step(constant=given.pop("constant"), exponent=given.pop("exponent"))
    if given["inputs"] == "spike":
        given["inputs"] = one.Covariance.spiked(given["d"], kappa, overlap=0.5)
    elif given["inputs"] == "two":
        given["inputs"] = one.Covariance(tuple(np.where(np.arange(given["d"]) % 2, 0.4, 1.6)))
    return one.Problem(step=step, **given)


def draws_by_kind(rng: np.random.Generator, count: int) -> list[dict[str, Any]]:
    """Draws of every kind of `accuracy` in turn, those that a `Problem` refuses left out."""
    import onestride as one
    from onestride.theory.profile.accuracy import kind_of

    waiting: dict[str, list[dict[str, Any]]] = defaultdict(list)
    while sum(map(len, waiting.values())) < 20 * count or min(map(len, waiting.values())) < 1:
        drawn = draw(rng)
        try:
            kind = kind_of(problem_of(drawn))
        except one.InputError:
            continue
        if kind:
            waiting[kind].append(drawn | {"kind": kind})
    turns = zip(*(waiting[kind][:count] for kind in sorted(waiting)), strict=False)
    return [drawn for turn in turns for drawn in turn][:count]


def work(job: tuple[dict[str, Any], int, bool]) -> dict[str, Any]:
    """What theory says of one problem, and by how much simulation differs."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import onestride as one

    drawn, seeds, asks = job
    found: dict[str, Any] = {"drawn": drawn, "ends": {}, "seconds": {}}
    warnings.simplefilter("error")
    try:
        problem = problem_of(drawn)
    except one.InputError as error:
        return found | {"refused": str(error)}

    def asked(name: str, ask: Any) -> Any:
        begun, answer = time.process_time(), None
        try:
            answer = ask()
            found["ends"][name] = "answer"
        except (one.TheoryError, one.InputError) as error:
            found["ends"][name] = str(error)
        except Exception:
            found["ends"][name] = "TRACEBACK " + traceback.format_exc(limit=-4)
        found["seconds"][name] = time.process_time() - begun
        return answer

    grid = asked("predict_grid", lambda: one.predict_grid(problem, [problem.step.exponent], RIDGES))
    for name in ASKS if asks else ():
        asked(name, lambda name=name: getattr(one, name)(problem))
    if "kind" in drawn and grid is not None and not any(status.name == "SOLVED" for status in grid.trained.status.flat):
        seeds = 0
    if seeds and grid is not None:
        measured = asked(
            "simulate_grid",
            lambda: one.simulate_grid(problem, [problem.step.exponent], RIDGES, seeds=seeds, progress=False),
        )
        if measured is not None:
            found["cells"] = compared(measured, grid)
    return found


def compared(measured: Any, theory: Any) -> list[dict[str, Any]]:
    cells = []
    for trained, m, t in ((False, measured.untrained, theory.untrained), (True, measured, theory.trained)):
        for j, ridge in enumerate(RIDGES):
            gap, error = [], []
            for name in ("train_loss", "train_mse", "test_error"):
                estimate = getattr(m, name)
                mean, stderr = (float(np.atleast_2d(part)[0, j]) for part in (estimate.mean, estimate.stderr))
                gap.append(float(getattr(t, name)[0, j]) / mean - 1)
                error.append(stderr / mean)
            cell = {"trained": trained, "ridge": ridge, "gap": gap, "stderr": error}
            cells.append(cell | {"status": t.status[0, j].name, "message": str(t.message[0, j])})
    return cells


def report(results: list[dict[str, Any]]) -> None:
    ends = [(name, end, r) for r in results for name, end in r["ends"].items()]
    broken = [(name, end, r["drawn"]) for name, end, r in ends if end.startswith("TRACEBACK")]
    print(f"{len(results)} problems, {len(ends)} calls, {len(broken)} ended in neither a number nor a sentence")
    for name, end, drawn in broken[:12]:
        print("  ", name, drawn, "\n", end)
    seconds = defaultdict(list)
    for r in results:
        for name, value in r["seconds"].items():
            seconds[name].append((value, r["drawn"]))
    for name, values in seconds.items():
        times = np.array([value for value, _ in values])
        print(
            f"{name:14s} median {np.median(times):6.2f}, 99 % {np.quantile(times, 0.99):6.2f}, slowest {times.max():6.2f} CPU s"
        )
        print("   slowest:", max(values, key=lambda pair: pair[0])[1])
    cells = [(r["drawn"], c) for r in results for c in r.get("cells", ())]
    print(Counter((c["trained"], c["status"]) for _, c in cells))
    print(Counter(c["message"][:110] for _, c in cells if c["status"] not in ("SOLVED", "INACCURATE")).most_common(20))
    within: dict[Any, list[int]] = defaultdict(lambda: [0, 0, 0])
    problems: dict[Any, set[str]] = defaultdict(set)
    for drawn, cell in cells:
        if cell["status"] != "SOLVED":
            continue
        gap, error = np.abs(cell["gap"]), np.array(cell["stderr"])
        several = drawn["batch"] + " steps" if drawn["steps"] > 1 else "one step"
        kinds = [("all",), ("inputs", drawn["inputs"]), ("schedule", several), ("readout", drawn["readout"])]
        kinds += [
            ("directions", drawn["directions"]),
            ("fresh", drawn["fresh"]),
            ("inputs × schedule", drawn["inputs"], several),
        ]
        if "kind" in drawn:
            kinds = [("all",), (drawn["kind"],)]
        for kind in kinds if cell["trained"] else [("untrained", drawn.get("kind", drawn["inputs"]))]:
            total = within[kind]
            total[0] += 3
            total[1] += int(np.sum(gap <= np.maximum(3 * error, 0.02)))
            total[2] += int(np.sum(gap - 3 * error > 0.05))
            problems[kind].add(json.dumps(drawn))
    for kind, (count, good, far) in sorted(within.items(), key=str):
        print(
            f"{' '.join(map(str, kind)):45s} {len(problems[kind]):4d} problems {count:6d} numbers, {100 * good / count:5.1f} % within; "
            f"off by more than 5 %: {far}"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--draw", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=24)
    parser.add_argument("--asks", action="store_true", help="ask the other functions of the theory, too")
    parser.add_argument("--kinds", action="store_true", help="as many of each kind that `accuracy` tells apart")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60.0, help="what has ended by then is reported")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rng, until = np.random.default_rng(options.draw), time.monotonic() + 60 * options.minutes
    drawn = draws_by_kind(rng, options.problems) if options.kinds else [draw(rng) for _ in range(options.problems)]
    jobs = [(each, options.seeds, options.asks) for each in drawn]
    results: list[dict[str, Any]] = []
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for found in pool.imap_unordered(work, jobs):
            results.append(found)
            if time.monotonic() > until:
                break
        pool.terminate()
    if options.out:
        options.out.write_text(json.dumps(results))
    report(results)


if __name__ == "__main__":
    main()
