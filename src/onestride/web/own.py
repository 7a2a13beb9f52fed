"""The explorer on a table of one's own: its address, and what is drawn of it.

The address has the sizes themselves, n and N; the samples of the step by their ratio to n. What it leaves out is as in the problem
that the explorer was started with.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onestride._errors import InputError, hint
from onestride.functions import function_names
from onestride.problem import Problem, Step
from onestride.result import TheoryError, plain
from onestride.table import Table
from onestride.theory.baselines import baselines
from onestride.theory.learned import learned
from onestride.theory.predict import predict, predict_grid

RANGES = {"n": (10, 1e9), "N": (10, 1e6), "ridge": (1e-9, 1e9), "constant": (0, 1e6), "exponent": (-2, 2)}
RANGES |= {"step_samples": (1e-3, 1e3)}
WHOLE = ("n", "N")
CHOICES = {"gradient": ("full", "labels"), "weights": ("sphere", "gaussian")}
CHOICES |= {"readout": ("gaussian", "constant", "rademacher")}
PENALTIES = np.geomspace(1e-5, 10, 25)


def write_own(problem: Problem) -> dict[str, str]:
    """The address of a problem of the table, every parameter written out."""
    numbers = {"n": problem.n, "N": problem.N, "ridge": problem.ridge, "constant": problem.step.constant}
    numbers |= {"exponent": problem.step.exponent, "step_samples": problem.step_samples / problem.n}
    told = {name: f"{value:.10g}" for name, value in numbers.items()}
    sigma = (
        problem.activation if isinstance(problem.activation, str) else ",".join(f"{c:.10g}" for c in problem.activation)
    )
    return told | {"activation": sigma} | {name: getattr(problem, name) for name in CHOICES}


def read_own(base: Problem, query: Mapping[str, str]) -> Problem:
    """The problem of an address; mistakes are told in a sentence."""
    given = write_own(base)
    for name in query:
        if name not in given:
            raise InputError(f"{name[:40]!r} is not a parameter of the table's page; {hint(name, given)}")
    given |= dict(query)
    value = {name: _within(name, given[name]) for name in RANGES}
    n = int(value["n"])
    if given["activation"] not in function_names() and "," not in given["activation"]:
        raise InputError(f"activation must be one of {', '.join(function_names())}, got {given['activation'][:40]!r}")
    return base.replace(
        n=n,
        N=int(value["N"]),
        ridge=value["ridge"],
        step=Step(constant=value["constant"], exponent=value["exponent"]),
        n_step=None if value["step_samples"] == 1 else max(1, round(value["step_samples"] * n)),
        activation=given["activation"] if "," not in given["activation"] else given["activation"].split(","),
        **{name: given[name] for name in CHOICES},
    )


def _within(name: str, text: str) -> float:
    (low, high), kind = RANGES[name], "whole number" if name in WHOLE else "number"
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not low <= number <= high or (name in WHOLE and not number.is_integer()):
        raise InputError(f"{name} must be a {kind} from {low:g} to {high:g}, got {text[:40]!r}")
    return number


def about_table(base: Problem) -> dict[str, Any]:
    """What the page needs to build itself."""
    table = base.inputs
    assert isinstance(table, Table)
    file, target, _ = table.source
    name = Path(file).name if file else "table"
    told = {"name": name, "target": target or "", "rows": table.rows, "columns": list(table.names)}
    told |= {"facts": str(table.facts).splitlines(), "scale": table.target_scale, "defaults": write_own(base)}
    return told | {"functions": list(function_names()), "choices": {k: list(v) for k, v in CHOICES.items()}}


def here(problem: Problem) -> dict[str, Any]:
    """Errors against λ with and without the step, what is predicted at its own, and what is learned."""
    ridges = np.unique(np.append(PENALTIES, problem.ridge))
    grid, found = predict_grid(problem, [problem.step.exponent], ridges), predict(problem, throw=False)
    row: dict[str, Any] = {"ridge": plain(ridges), "test_error": plain(grid.trained.test_error[0])}
    row |= {
        "untrained": plain(grid.untrained.test_error[0]),
        "status": [s.name.lower() for s in grid.trained.status[0]],
    }
    row |= {"here": found.to_dict(), "before": plain(found.untrained.test_error if found.untrained else np.nan)}
    row |= {"message": found.message, "accuracy": found.accuracy, "eta": problem.eta, "fraction": {}, "baselines": {}}
    try:
        shares = learned(problem)
    except TheoryError:
        return row
    row["fraction"] = {str(k): plain(v) for k, v in zip(shares.degrees, shares.fraction, strict=True)}
    before = shares.untrained.fraction if shares.untrained else shares.fraction
    row["untrained_fraction"] = {str(k): plain(v) for k, v in zip(shares.degrees, before, strict=True)}
    row["baselines"] = {name: plain(one.test_error) for name, one in baselines(problem).items()}
    return row


def copies(problem: Problem) -> dict[str, str]:
    """The same as a command, and as a problem in a file where the table is one."""
    table = problem.inputs
    assert isinstance(table, Table)
    file, target, _ = table.source
    options = {"N": problem.N, "n": problem.n, "ridge": repr(problem.ridge), "constant": repr(problem.step.constant)}
    options |= {"exponent": repr(problem.step.exponent), "activation": write_own(problem)["activation"]}
    options |= {"n-step": problem.n_step} if problem.n_step else {}
    options |= {name: getattr(problem, name) for name in CHOICES if getattr(problem, name) != CHOICES[name][0]}
    named = ["--target", shlex.quote(target)] if target else []
    words = ["onestride", "predict", "--data", shlex.quote(file or "table.csv"), *named]
    return {"command": " ".join([*words, *(f"--{name}={shlex.quote(str(value))}" for name, value in options.items())])}
