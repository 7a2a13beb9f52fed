"""A table as the inputs of a problem: its rows, standardised, and the Gaussian inputs that stand in for them.

A `Table` is a `Covariance`, that of its columns, with the energies of the linear signal along the eigenvectors: whatever needs a law
of x takes that one. The theory of tables (`theory/table`) takes the rows and their labels instead.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from onestride._errors import InputError
from onestride._numerics import Array, Float
from onestride.inputs import Covariance

NO_LAW = "the rows of a table have none; their Gaussian stand-in, problem.replace(inputs=problem.inputs.standin), can be simulated and has every theory"


@dataclass(frozen=True)
class TableFacts:
    """What was estimated on the rows, as shares of the variance of y, with standard errors; `print` it for the words.

    linear: explained by the best linear function, for n → ∞. link: c_1, c_2, c_3 of y along that direction, which a finite fit knows with
    the overlap `overlap`. explained: by the link along that direction. noise: what is left, noise or further directions.
    """

    rows: int
    columns: int
    effective_dimension: float
    linear: float
    linear_stderr: float
    link: tuple[float, ...]
    link_stderr: tuple[float, ...]
    overlap: float
    explained: float
    noise: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        link = ", ".join(f"{c:+.3f} ± {e:.3f}" for c, e in zip(self.link, self.link_stderr, strict=True)).replace(
            "-", "−"
        )
        lines = [
            f"{self.rows} rows of {self.columns} columns, which count as {self.effective_dimension:.1f} uncorrelated ones",
            f"a linear function explains {self.linear:.1%} ± {self.linear_stderr:.1%} of the target",
            f"along its direction (found with overlap {self.overlap:.2f}) c₁, c₂, c₃ are {link}",
            f"one direction explains {self.explained:.1%}; noise and other directions {1 - self.explained:.1%}",
        ]
        return "\n".join([*lines, *self.notes])


@dataclass(frozen=True, eq=False, repr=False)
class Table(Covariance):
    """The rows behind a problem, made by `from_data`: X (n × d) standardised, y of mean 0 and variance 1.

    `target_mean` and `target_scale` take predictions back to the unit of y; `link` and `noise` are those of the stand-in, and `facts`
    says how they were found; `index` has a row's place along its direction, as a normal score. `source` is the file, the target and what
    was done with repeated rows. Tables with the same rows are equal.
    """

    X: Float[Array, "n d"] = field(default_factory=lambda: np.empty((0, 0)))
    y: Float[Array, "n"] = field(default_factory=lambda: np.empty(0))
    names: tuple[str, ...] = ()
    target_mean: float = 0.0
    target_scale: float = 1.0
    link: tuple[float, ...] = (0.0, 1.0)
    noise: float = 0.0
    facts: TableFacts | None = None
    index: Float[Array, "n"] = field(default_factory=lambda: np.empty(0))
    source: tuple[str | None, str | None, str] = (None, None, "auto")

    @cached_property
    def digest(self) -> str:
        """A name for these rows."""
        return hashlib.sha256(self.X.tobytes() + self.y.tobytes()).hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Table({len(self.y)} rows, {len(self.eigenvalues)} columns)"

    @property
    def fields(self) -> dict[str, Any]:
        """What a problem takes from its table."""
        return {"d": len(self.eigenvalues), "inputs": self, "teacher": self.link, "noise": self.noise}

    def as_data(self) -> dict[str, Any]:
        """Where the rows are, not the rows: how a problem in a file names its table."""
        file, target, repeats = self.source
        named = {"file": file, "target": target, "repeats": repeats, "digest": self.digest} if file else {}
        told = {"rows": self.rows, "columns": len(self.eigenvalues)} | named
        return {"table": {name: value for name, value in told.items() if value is not None}}

    def wrong_size(self, d: int) -> str:
        """The number of inputs is not free."""
        return f"d is the number of columns of the table, {len(self.eigenvalues)}, and cannot change, got d = {d}"

    def fill(self, generator: np.random.Generator, X: Float[Array, "n d"]) -> None:
        """There is nothing to draw."""
        raise InputError(f"inputs must have a law to be drawn from, and {NO_LAW}")

    def __deepcopy__(self, memo: dict[int, Any]) -> Table:
        return self

    @property
    def rows(self) -> int:
        """How many."""
        return len(self.y)

    @property
    def standin(self) -> Covariance:
        """Gaussian inputs with the covariance of the columns."""
        return Covariance(self.eigenvalues, self.teacher)
