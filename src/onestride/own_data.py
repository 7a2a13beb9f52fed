"""`from_data`: the problem behind a table of one's own.

The rows themselves are the inputs of the problem (`Table`), and predictions for it come from them. Beside them stands what a Gaussian
single-index model makes of the table, the stand-in, for whatever needs a law of x:

    Σ          the correlations of the columns
    β⋆         ridge regression; its energies along the eigenvectors of Σ from two halves of the rows, β_a β_b, free of noise
    ϱ          overlap of a fit with β⋆: indices of two halves correlate as 1/(1 + 2t), those of all rows have ϱ² = 1/(1 + t)
    σ⋆         c_k = ⟨y H_k(s)⟩/(k! ϱ^k), s the index of rows that did not fit it, as normal scores
    noise²     what Σ_k k! c_k² leaves: noise and further directions, which the stand-in cannot tell apart
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np
from scipy.stats import norm, rankdata

from onestride._errors import InputError
from onestride._numerics import Array, Float, hermite_table, root_factorials
from onestride.own_files import Columns, read_columns
from onestride.problem import Problem
from onestride.table import Table, TableFacts

FEWEST_ROWS = 50
DEGREES = 3
_FOLDS = 5
_PENALTIES = np.logspace(-6, 3, 28)
_SURE = 2.0  # standard errors: Hermite coefficients below count as none
_LEAST = 1e-9  # of an eigenvalue over the largest
_FOUND = 0.3  # overlap below which nothing is divided by it


def from_data(
    X: Any, y: Any = None, *, target: str | None = None, N: int = 512, activation: Any = "relu", **fields: Any
) -> Problem:
    """The problem behind a table: `predict`, `scaling` and `optimum` answer for a network on rows like these.

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
    N, activation, fields
        As in `Problem`; n is the number of rows unless it is given. Errors are shares of the variance of y:
        `problem.inputs.target_scale**2` takes them back to its unit.
    """
    taken = {"d", "inputs", "teacher", "noise", "directions", "mix"} & set(fields)
    if taken:
        raise InputError(
            f"{min(taken)} comes from the table and cannot be given to from_data, got {fields[min(taken)]!r}"
        )
    table = read_table(X, y, target)
    of_table: dict[str, Any] = {
        "d": len(table.eigenvalues),
        "inputs": table,
        "teacher": table.link,
        "noise": table.noise,
    }
    return Problem(**{"n": table.rows, "N": N, "activation": activation} | of_table | fields)


def read_table(X: Any, y: Any = None, target: str | None = None) -> Table:
    """The rows, checked and standardised, and their Gaussian stand-in."""
    columns = read_columns(X, y, target)
    rows, notes = columns.X.shape[0], list[str]()
    if rows < FEWEST_ROWS:
        raise InputError(f"a table needs at least {FEWEST_ROWS} rows, got {rows}")
    mean, scale = columns.X.mean(0), columns.X.std(0)
    varies = scale > 1e-12 * np.maximum(np.abs(mean), np.abs(columns.X).max(0))
    if not varies.any():
        raise InputError("every column of X is constant: there is nothing to learn from")
    if not varies.all():
        dropped = [name for name, kept in zip(columns.names, varies, strict=True) if not kept]
        shown = ", ".join(dropped[:5]) + (" …" if len(dropped) > 5 else "")
        notes.append(f"left out, being constant: {shown}")
    centre, unit = float(columns.y.mean()), float(columns.y.std())
    if not unit > 1e-12 * np.abs(columns.y).max():
        raise InputError(f"y is the same number, {centre:.6g}, in every row: there is nothing to learn")
    Z, t = ((columns.X - mean) / np.where(varies, scale, 1.0))[:, varies], (columns.y - centre) / unit
    names = tuple(name for name, kept in zip(columns.names, varies, strict=True) if kept)
    return _with_standin(Columns(Z, t, names), (centre, unit), notes)


def _with_standin(columns: Columns, unit: tuple[float, float], notes: list[str]) -> Table:
    """The table of standardised columns, with mean and scale of the target."""
    Z, t = columns.X, columns.y
    n, d = Z.shape
    values, vectors = np.linalg.eigh(Z.T @ Z / n)
    values = np.maximum(values, _LEAST * values[-1])
    index = _index(Z, t, vectors)
    explained = float(sum(factorial(k) * c**2 for k, c in enumerate(index.link, 1)))
    if not any(index.link):
        notes.append("no direction is found: linear regression explains nothing that the rows can show")
    facts = TableFacts(
        rows=n, columns=d, effective_dimension=float(d**2 / np.sum(values**2) * (values.mean() ** 2)),
        linear=index.linear, linear_stderr=index.linear_stderr, link=index.link, link_stderr=index.stderr,
        overlap=index.overlap, explained=explained, noise=float(np.sqrt(1 - explained)), notes=tuple(notes),
    )  # fmt: skip
    return Table(
        tuple(values.tolist()), tuple(index.energy.tolist()), X=Z, y=t, names=columns.names, target_mean=unit[0],
        target_scale=unit[1], link=(0.0, *index.link), noise=facts.noise, facts=facts,
    )  # fmt: skip


@dataclass(frozen=True)
class _Index:
    energy: Float[Array, "d"]
    overlap: float
    linear: float
    linear_stderr: float
    link: tuple[float, ...]
    stderr: tuple[float, ...]


def _index(Z: Float[Array, "n d"], t: Float[Array, "n"], vectors: Float[Array, "d d"]) -> _Index:
    """The direction of the signal and the function along it, from rows that did not fit it."""
    n = t.size
    order = np.random.default_rng(0).permutation(n)
    a, b = (ridge_direction(Z[part], t[part]) for part in np.array_split(order, 2))
    score = np.empty(n)
    for part in np.array_split(order, _FOLDS):
        rest = np.setdiff1d(order, part)
        beta = ridge_direction(Z[rest], t[rest])
        score[part] = Z[part] @ beta / (np.linalg.norm(Z[rest] @ beta) / np.sqrt(rest.size) or 1.0)
    shared = float(np.corrcoef(Z @ a, Z @ b)[0, 1]) if a.any() and b.any() else 0.0
    t_half = (1 / max(shared, 1e-6) - 1) / 2  # noise over signal of a fit to all rows
    overlap = float(1 / np.sqrt(1 + t_half * _FOLDS / (_FOLDS - 1)))
    H = hermite_table(norm.ppf((rankdata(score) - 0.5) / n), DEGREES)[1:]
    k = np.arange(1, DEGREES + 1)
    size = root_factorials(DEGREES)[1:] * (overlap**k if overlap > _FOUND else 1.0)
    found, stderr = (H * t).mean(1) / size, (H * t).std(1) / np.sqrt(n) / size
    link = np.where(np.abs(found) > _SURE * stderr, found, 0.0)
    power = float(np.sum((link * root_factorials(DEGREES)[1:]) ** 2))
    link = link / np.sqrt(max(power / 0.999, 1.0))
    energy = np.maximum((vectors.T @ a) * (vectors.T @ b), 0.0)
    if not energy.any():
        energy = (vectors.T @ (a + b)) ** 2 + 1e-12
    linear, spread = float(found[0] ** 2), float(2 * abs(found[0]) * stderr[0])
    return _Index(energy, overlap, min(linear, 1.0), spread, tuple(link.tolist()), tuple(stderr.tolist()))


def ridge_direction(Z: Float[Array, "n d"], t: Float[Array, "n"]) -> Float[Array, "d"]:
    """Ridge regression at the penalty with the smallest leave-one-out error."""
    centre, mean = Z.mean(0), t.mean()
    U, s, right = np.linalg.svd(Z - centre, full_matrices=False)
    p = U.T @ (t - mean)
    h = s[:, None] ** 2 / (s[:, None] ** 2 + _PENALTIES * s[0] ** 2)
    left_out = np.square(((t - mean)[:, None] - U @ (h * p[:, None])) / (1 - U**2 @ h)).mean(0)
    best = h[:, int(np.argmin(left_out))]
    return right.T @ (best * p / np.maximum(s, 1e-12 * s[0]))
