"""What values freed of luck change in the experiments: each is judged twice on the same draws, with them and with plain values.

    python benchmarks/verdicts.py [--size small] [--only NAME …] [--out verdicts.json]

Printed are the verdicts, and how many of an experiment's standard errors became smaller, and by how much in the median.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from onestride.experiments.catalogue import QUESTIONS, run_experiment
from onestride.experiments.outcome import Settings
from onestride.result import Estimate, Luck

FREED = Estimate.freed


def plain_only(_: type[Estimate], plain: np.ndarray, luck: Luck) -> Estimate:
    """An estimate that knows nothing of luck."""
    return Estimate(plain)


def judged(name: str, size: str, *, plain: bool) -> dict[str, Any]:
    """Verdict and standard errors of one experiment."""
    Estimate.freed = classmethod(plain_only) if plain else FREED  # pyright: ignore[reportAttributeAccessIssue]
    try:
        outcome = run_experiment(name, Settings(size=size))
    finally:
        Estimate.freed = FREED  # pyright: ignore[reportAttributeAccessIssue]
    told = outcome.judgement
    errors = [row["stderr"] for row in told.rows if isinstance(row.get("stderr"), float)]
    return {
        "verdict": told.verdict.name.lower(),
        "words": str(getattr(told.words, "value", told.words)),
        "finding": told.finding,
        "stderr": errors,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="small")
    parser.add_argument("--only", nargs="*", default=list(QUESTIONS))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found: dict[str, Any] = {}
    for name in args.only:
        started = time.process_time()
        found[name] = {kind: judged(name, args.size, plain=kind == "plain") for kind in ("plain", "precise")}
        plain, precise = found[name]["plain"], found[name]["precise"]
        ratio = np.array(plain["stderr"]) / np.array(precise["stderr"]) if plain["stderr"] else np.ones(0)
        ratio = ratio[np.isfinite(ratio)]
        moved = ratio[ratio != 1]
        smaller = (
            f"{moved.size} of {ratio.size} error bars changed, {np.median(moved):.2f} times smaller"
            if moved.size
            else ""
        )
        same = "same" if plain["words"] == precise["words"] else "CHANGED"
        print(
            f"{name}: {same}: {plain['words']} → {precise['words']}; {smaller} ({time.process_time() - started:.0f} s)"
        )
        if args.out:
            args.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
