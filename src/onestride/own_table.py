"""The rows of a table, checked and standardised, and what a Gaussian model makes of them.

The rows themselves are the inputs of a problem (`Table`), and predictions for it come from them. Beside them stands what a Gaussian
single-index model makes of the table, the stand-in, for whatever needs a law of x:

    Σ          the correlations of the columns
    β⋆         ridge regression; its energies along the eigenvectors of Σ from two halves of the rows, β_a β_b, free of noise
    ϱ          overlap of a fit with β⋆: indices of two halves correlate as 1/(1 + 2t), those of all rows have ϱ² = 1/(1 + t)
    σ⋆         c_k = a_k/(√k! ϱ^k), Σ_k a_k h_k(s) the least squares fit to y along s, the index of rows that did not fit it, as normal scores;
               their standard errors have that of a_k and that of ϱ, which is (1 − ϱ²)k/√(d − 1) of c_k
    noise²     what Σ_k k! c_k² leaves: noise and further directions, which the stand-in cannot tell apart

Rows that repeat another in every column and the target: a row that is left out must not be among the others, or errors look smaller than
they are. They are merged where chance would not have made a single pair of them, were columns independent: n²/2 Π_j Σ_v p_j(v)² < 1, p_j(v) the
share of rows whose column j is v. Where columns have few values, rows may well be equal, and they stay.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from dataclasses import dataclass, replace
from math import factorial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from onestride._errors import InputError, one_of
from onestride._numerics import Array, Float, hermite_table, root_factorials
from onestride.own_files import Columns, read_columns
from onestride.table import Table, TableFacts

Repeats = Literal["auto", "merge", "keep"]
FEWEST_ROWS = 50
LARGEST, SMALLEST = 1e100, 1e-140  # of a number: its square must be one, and that of its small changes
DEGREES = 3
_FOLDS = 5
_PENALTIES = np.logspace(-6, 3, 28)
_SURE = 2.0  # standard errors: Hermite coefficients below count as none
_LEAST = 1e-9  # of an eigenvalue over the largest
_FOUND = 0.3  # overlap below which nothing is divided by it


def read_table(X: Any, y: Any = None, target: str | None = None, repeats: Repeats = "auto") -> Table:
    """The rows, checked and standardised, and their Gaussian stand-in."""
    one_of("repeats", repeats, ("auto", "merge", "keep"))
    columns, note = _merged(read_columns(X, y, target), repeats)
    rows, notes = columns.X.shape[0], [*columns.notes, *([note] if note else [])]
    if rows < FEWEST_ROWS:
        raise InputError(
            f"a table needs at least {FEWEST_ROWS} rows, got {rows}{' after merging equal ones' if note else ''}"
        )
    if max(np.abs(columns.X).max(), np.abs(columns.y).max()) > LARGEST:
        raise InputError(f"numbers of a table must be at most {LARGEST:g} in size; give columns another unit")
    for name, size in zip((*columns.names, ""), np.abs(np.column_stack([columns.X, columns.y])).max(0), strict=True):
        if 0 < size < SMALLEST:
            which = f"column {name!r}" if name else "y"
            raise InputError(
                f"the numbers of {which} are at most {size:.3g} in size and must reach {SMALLEST:g}, or be 0, as their squares count; give it another unit"
            )
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
    source = (str(X), target, repeats) if isinstance(X, str | Path) else (None, None, repeats)  # to read it again
    return _with_standin(Columns(Z, t, names), (centre, unit), notes, source)


def table_again(named: dict[str, Any]) -> Table:
    """The table that a problem in a file names, read from where it was."""
    known = {"file", "target", "repeats", "digest", "rows", "columns"}
    if not isinstance(named, dict) or not set(named) <= known:
        raise InputError(f"inputs.table must have some of {', '.join(sorted(known))}, got {str(named)[:80]}")
    if "file" not in named:
        raise InputError(
            "inputs was a table in memory, whose rows are not written with a problem: make the problem again with from_data, or "
            "write that of its Gaussian stand-in, problem.replace(inputs=problem.inputs.standin)"
        )
    table = read_table(named["file"], None, named.get("target"), named.get("repeats", "auto"))
    if named.get("digest", table.digest) != table.digest:
        raise InputError(
            f"inputs: the table {named['file']} has other rows than when the problem was written; use from_data"
        )
    return table


def _merged(columns: Columns, repeats: Repeats) -> tuple[Columns, str]:
    """Each row once, and what is said of it; as they are where repeats are wanted, or are what chance makes."""
    both = np.column_stack([columns.X, columns.y])
    first = np.sort(np.unique(both, axis=0, return_index=True)[1])
    n, more = len(both), len(both) - first.size
    if not more:
        return columns, ""
    told = f"{more} of {n} rows {'repeats' if more == 1 else 'repeat'} another"
    alike = [float(np.sum((np.unique(column, return_counts=True)[1] / n) ** 2)) for column in both.T]
    if repeats == "keep" or (repeats == "auto" and n**2 / 2 * np.prod(alike) >= 1):
        return columns, f"{told} and are kept: {'as asked for' if repeats == 'keep' else 'columns of so few values'}"
    return replace(columns, X=columns.X[first], y=columns.y[first]), f"{told} and are counted once"


def _with_standin(
    columns: Columns, unit: tuple[float, float], notes: list[str], source: tuple[str | None, str | None, str]
) -> Table:
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
        target_scale=unit[1], link=(0.0, *index.link), noise=facts.noise, facts=facts, index=index.score, source=source,
    )  # fmt: skip


@dataclass(frozen=True)
class _Index:
    energy: Float[Array, "d"]
    score: Float[Array, "n"]
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
    normal = _normal_scores(score)
    along, spread = _hermite_coefficients(normal, t)
    k, ways = np.arange(1, DEGREES + 1), max(Z.shape[1] - 1, 1)
    size = root_factorials(DEGREES)[1:] * (overlap**k if overlap > _FOUND else 1.0)
    found = along / size
    stderr = np.hypot(spread / size, k * np.abs(found) * (1 - overlap**2) / np.sqrt(ways))
    link = np.where(np.abs(found) > _SURE * stderr, found, 0.0)
    power = float(np.sum((link * root_factorials(DEGREES)[1:]) ** 2))
    link = link / np.sqrt(max(power / 0.999, 1.0))
    energy = np.maximum((vectors.T @ a) * (vectors.T @ b), 0.0)
    if not energy.any():
        energy = (vectors.T @ (a + b)) ** 2 + 1e-12
    linear = _linear_share(score, t, size[0])
    return _Index(energy, normal, overlap, *linear, tuple(link.tolist()), tuple(stderr.tolist()))


def _linear_share(score: Float[Array, "n"], t: Float[Array, "n"], overlap: float) -> tuple[float, float]:
    """Squared correlation of an index, as it is, with t, freed of its overlap, and the standard error of that."""
    z = (score - score.mean()) / (score.std() or 1.0)
    r = float((z * t).mean())
    moved = z * t - r * (z**2 + t**2) / 2  # both have their variance from these rows, too
    return min((r / overlap) ** 2, 1.0), float(2 * abs(r) * moved.std() / np.sqrt(t.size) / overlap**2)


def _hermite_coefficients(s: Float[Array, "n"], t: Float[Array, "n"]) -> tuple[Float[Array, "k"], Float[Array, "k"]]:
    """a_k of t ≈ m(s) = Σ_k a_k h_k(s), k = 1 … 3, by least squares, and their standard errors: s are normal scores, t has unit variance.

    A row moves a_k by (t − m)h_k + ∫ h_k dm − a_k t²/2 over n: by its own residual, by the ranks of all others, by their variance.
    """
    order = np.argsort(s)
    h, y = hermite_table(s[order], DEGREES)[1:], t[order]
    untied = hermite_table(_normal_scores(np.arange(s.size, dtype=float)), DEGREES)[1:]
    gram = untied @ untied.T / s.size  # the identity, but for the tails that n ranks do not reach
    a = np.linalg.solve(gram, h @ y / s.size)
    m = a @ h
    by_ranks = np.cumsum((h + np.roll(h, 1, 1)) / 2 * np.diff(m, prepend=m[0]), 1)
    moved = np.linalg.solve(gram, (y - m) * h + by_ranks) - a[:, None] * y**2 / 2
    return a, moved.std(1) / np.sqrt(s.size)


def _normal_scores(score: Float[Array, "n"]) -> Float[Array, "n"]:
    """Φ⁻¹ of the ranks; equal scores have the mean of theirs."""
    _, place, counts = np.unique(score, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    return np.asarray(ndtri((ranks[place] - 0.5) / score.size), float)


def ridge_direction(Z: Float[Array, "n d"], t: Float[Array, "n"]) -> Float[Array, "d"]:
    """Ridge regression at the penalty with the smallest leave-one-out error."""
    centre, mean = Z.mean(0), t.mean()
    U, s, right = np.linalg.svd(Z - centre, full_matrices=False)
    p = U.T @ (t - mean)
    h = s[:, None] ** 2 / (s[:, None] ** 2 + _PENALTIES * s[0] ** 2)
    left_out = np.square(((t - mean)[:, None] - U @ (h * p[:, None])) / (1 - U**2 @ h)).mean(0)
    best = h[:, int(np.argmin(left_out))]
    return right.T @ (best * p / np.maximum(s, 1e-12 * s[0]))
