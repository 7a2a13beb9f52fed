"""Laws of the inputs x: mean 0 and E|x|² = d. A table of them; adding one is one entry, or a call of `register`."""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onestride._errors import InputError
from onestride._numerics import Array, Float

Fill = Callable[[np.random.Generator, Array], None]

STUDENT_FREEDOM = 5  # degrees of freedom of "student" and "elliptic" inputs
AR1 = 0.8  # Σ_ij = AR1^|i−j| of "ar1" inputs
POWER = 0.5  # eigenvalues ∝ k^−POWER of "power" inputs


@dataclass(frozen=True)
class InputLaw:
    """A law of x in R^d for every d; `fill(generator, X)` overwrites the rows of X with independent samples of it."""

    name: str
    fill: Fill


def _gaussian(generator: np.random.Generator, X: Float[Array, "n d"]) -> None:
    generator.standard_normal(out=X)


def _uniform(generator: np.random.Generator, X: Float[Array, "n d"]) -> None:
    X[...] = generator.uniform(-np.sqrt(3), np.sqrt(3), X.shape)


def _rademacher(generator: np.random.Generator, X: Float[Array, "n d"]) -> None:
    X[...] = generator.choice([-1.0, 1.0], X.shape)


def _student(generator: np.random.Generator, X: Float[Array, "n d"]) -> None:
    X[...] = generator.standard_t(STUDENT_FREEDOM, X.shape)
    X *= np.sqrt((STUDENT_FREEDOM - 2) / STUDENT_FREEDOM)


def _elliptic(generator: np.random.Generator, X: Float[Array, "n d"]) -> None:
    generator.standard_normal(out=X)
    X *= np.sqrt((STUDENT_FREEDOM - 2) / generator.chisquare(STUDENT_FREEDOM, (X.shape[0], 1)))


def _ar1(generator: np.random.Generator, X: Float[Array, "n d"]) -> None:
    generator.standard_normal(out=X)
    for j in range(1, X.shape[1]):
        X[:, j] = AR1 * X[:, j - 1] + np.sqrt(1 - AR1**2) * X[:, j]


def _power(generator: np.random.Generator, X: Float[Array, "n d"]) -> None:
    generator.standard_normal(out=X)
    eigenvalues = np.arange(1.0, X.shape[1] + 1) ** -POWER
    X *= np.sqrt(eigenvalues / eigenvalues.mean())


_REGISTRY: dict[str, InputLaw] = {
    law.name: law
    for law in (
        InputLaw("gaussian", _gaussian),
        InputLaw("uniform", _uniform),
        InputLaw("rademacher", _rademacher),
        InputLaw("student", _student),
        InputLaw("ar1", _ar1),
        InputLaw("power", _power),
        InputLaw("elliptic", _elliptic),
    )
}


def law_names() -> tuple[str, ...]:
    """Names that `Problem(inputs=…)` accepts."""
    return tuple(_REGISTRY)


def input_law(name: object) -> InputLaw:
    """The law called `name`."""
    if not isinstance(name, str) or name not in _REGISTRY:
        *others, last = map(repr, _REGISTRY)
        raise InputError(f"inputs must be {', '.join(others)} or {last}, got {name!r}")
    return _REGISTRY[name]


def register(law: InputLaw) -> InputLaw:
    """Make a law usable as `Problem(inputs=…)`; 4,000 samples are drawn to see that E|x|² is d."""
    if not law.name.isidentifier():
        raise InputError(f"name must be a word such as 'laplace', got {law.name!r}")
    X = np.full((4000, 8), np.nan)
    law.fill(np.random.default_rng(0), X)
    power = float((X**2).mean())
    if not abs(power - 1) < 0.2:  # NaN too: what was not filled
        raise InputError(f"the law {law.name!r} of the inputs must have E|x|² = d, got {power:.3g}·d")
    _REGISTRY[law.name] = law
    return law
