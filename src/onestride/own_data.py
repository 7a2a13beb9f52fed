"""`from_data`: the problem behind a table of one's own."""

from __future__ import annotations

from typing import Any

from onestride._errors import InputError, quoted
from onestride.own_table import Repeats, read_table
from onestride.problem import Problem


def from_data(
    X: Any,
    y: Any = None,
    *,
    target: str | None = None,
    N: int = 512,
    activation: Any = "relu",
    repeats: Repeats = "auto",
    **fields: Any,
) -> Problem:
    """The problem behind a table: `predict`, `scaling`, `optimum`, `learned` and `spectrum` answer for a network on rows like these.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(120, 12))
    >>> problem = one.from_data(X, X[:, 0] + 0.1 * rng.normal(size=120))
    >>> problem.d, problem.inputs
    (12, Table(120 rows, 12 columns))

    `one.predict(problem).test_error` is then a share of the variance of y, `one.scaling(problem, "n", [100, 1000])` the learning curve,
    and `print(problem.inputs.facts)` says what was found in the rows.

    Parameters
    ----------
    X
        Rows: an array n × d, a data frame, or the path of a .csv, .parquet or .npz file. Numbers only, none missing, 50 rows or more.
        Columns are standardised; those that are constant are left out, which `facts.notes` says.
    y
        The target, n numbers; left out when `target` names it.
    target
        The column of X that is the target. Of a file it is the last one unless named here; of an .npz file the array y.
    repeats
        Rows that repeat another in every column: ``"auto"`` counts them once where chance would not have made them, ``"merge"`` always,
        ``"keep"`` never. `facts.notes` says what was done.
    N, activation, fields
        As in `Problem`; n is the number of rows unless it is given. Errors are shares of the variance of y:
        `problem.inputs.target_scale**2` takes them back to its unit.
    """
    taken = {"d", "inputs", "teacher", "noise", "directions", "mix"} & set(fields)
    if taken:
        raise InputError(
            f"{min(taken)} comes from the table and cannot be given to from_data, got {quoted(fields[min(taken)])}"
        )
    table = read_table(X, y, target, repeats)
    return Problem(**{"n": table.rows, "N": N, "activation": activation} | table.fields | fields)
