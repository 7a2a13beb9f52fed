"""Laws of the inputs x: mean 0 and E|x|² = d. A table of them; adding one is one entry, or a call of `register`.

    x = ℓ Σ^{1/2} g,     tr Σ = d,   E ℓ² = 1,   g with independent entries of mean 0 and variance 1.

A law states the eigenvalues of its Σ and what Σ does to a vector, so that the teacher's argument can be normalised,
β⋆ᵀΣβ⋆ = 1 (`normalised`): labels then have the law that the teacher says, whatever Σ is. `Covariance` is a Σ of one's own.
"""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import matmul_toeplitz

from onestride._errors import InputError
from onestride._numerics import Array, Float

Fill = Callable[[np.random.Generator, Array], None]

STUDENT_FREEDOM = 5  # degrees of freedom of "student" and "elliptic" inputs
AR1 = 0.8  # Σ_ij = AR1^|i−j| of "ar1" inputs
POWER = 0.5  # eigenvalues ∝ k^−POWER of "power" inputs
_LEAST = 1e-12  # of an eigenvalue over the largest: Σ^{-1/2} is never needed, but log λ is


@dataclass(frozen=True)
class Covariance:
    """Gaussian inputs with a covariance Σ of one's own, in the basis of its eigenvectors.

    eigenvalues
        Of Σ, d of them, all positive. Their sum, the trace, is scaled to d (the repr says by how much).
    teacher
        Energies β⋆_p² of the teacher's direction along the eigenvectors, in any unit: it is scaled to β⋆ᵀΣβ⋆ = 1. None: a
        direction without preference, drawn anew for each seed. With energies only the signs are drawn.

    >>> one.Covariance.spiked(10, 3.0)
    Covariance(d = 10, eigenvalues 0.769 to 3.08, teacher given)
    """

    eigenvalues: tuple[float, ...]
    teacher: tuple[float, ...] | None = None
    _scale: ClassVar[float] = 1.0  # what the eigenvalues were multiplied by, on each object

    def __post_init__(self) -> None:
        values = _numbers("eigenvalues", self.eigenvalues)
        if not (values > _LEAST * values.max()).all():
            raise InputError(f"eigenvalues of a covariance must be positive, got one of {values.min():g}")
        scale = values.size / values.sum()
        if abs(scale - 1) > 1e-12:
            values = values * scale
        object.__setattr__(self, "_scale", scale)
        object.__setattr__(self, "eigenvalues", tuple(values.tolist()))
        if self.teacher is None:
            return
        energies = _numbers("teacher", self.teacher)
        if energies.size != values.size or (energies < 0).any() or not energies.any():
            raise InputError(
                f"teacher must hold the energy β⋆² along each of the {values.size} eigenvectors, 0 or more and not all 0, "
                f"got {energies.size} numbers from {energies.min():g} to {energies.max():g}"
            )
        power = energies @ values
        if abs(power - 1) > 1e-12:
            energies = energies / power
        object.__setattr__(self, "teacher", tuple(energies.tolist()))

    def __repr__(self) -> str:
        values = np.array(self.eigenvalues)
        scaled = "" if abs(self._scale - 1) < 1e-9 else f", scaled by {self._scale:.4g} to trace d"
        teacher = "" if self.teacher is None else ", teacher given"
        return f"Covariance(d = {values.size}, eigenvalues {values.min():.3g} to {values.max():.3g}{scaled}{teacher})"

    def wrong_size(self, d: int) -> str:
        """The sentence for a problem with another number of inputs."""
        return f"inputs must have as many eigenvalues as d = {d}, got {len(self.eigenvalues)}"

    def fill(self, generator: np.random.Generator, X: Float[Array, "n d"]) -> None:
        """Overwrite the rows of X with independent samples, in the basis of the eigenvectors."""
        generator.standard_normal(out=X)
        X *= np.sqrt(self.eigenvalues)

    @classmethod
    def from_matrix(cls, Sigma: ArrayLike, *, teacher: ArrayLike | None = None) -> Covariance:
        """From a symmetric matrix Σ (d × d), and a direction β⋆ (d) in the same coordinates if it is to be fixed."""
        matrix = _real(Sigma)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size or not np.isfinite(matrix).all():
            raise InputError(f"Sigma must be a square matrix of finite numbers, got {_shown(Sigma)}")
        if (apart := np.abs(matrix - matrix.T).max()) > 1e-8 * np.abs(matrix).max():
            raise InputError(
                f"Sigma must be symmetric, as a covariance is, got entries that differ by {apart:.3g} from those across the diagonal"
            )
        values, vectors = np.linalg.eigh(matrix)
        if teacher is None:
            return cls(_tuple(values))
        direction = _numbers("teacher", teacher)
        if direction.size != values.size or not direction.any():
            raise InputError(
                f"teacher must be a direction of d = {values.size} numbers, not all 0, got {_shown(teacher)}"
            )
        return cls(_tuple(values), _tuple((vectors.T @ direction) ** 2))

    @classmethod
    def spiked(cls, d: int, kappa: float, overlap: float = 0.0) -> Covariance:
        """Σ ∝ I + κvvᵀ of trace d, the unit teacher having the overlap v·β⋆ with the spike (0: across it)."""
        whole, numbers = np.asarray(d).dtype.kind in "iu" and d >= 2, _real([kappa, overlap])
        if not (whole and numbers.size and np.isfinite(numbers).all() and kappa > -1 and abs(overlap) <= 1):
            raise InputError(
                f"a spiked covariance needs a whole number d ≥ 2, kappa > −1 and an overlap from −1 to 1, got d = {d!r}, kappa = {kappa!r}, "
                f"overlap = {overlap!r}"
            )
        values, energies = np.ones(d), np.full(d, (1 - overlap**2) / (d - 1))
        values[0], energies[0] = 1 + kappa, overlap**2
        return cls(_tuple(values * d / (d + kappa)), _tuple(energies))


def _tuple(values: Array) -> tuple[float, ...]:
    return tuple(float(v) for v in values)


def _numbers(name: str, values: object) -> Float[Array, "d"]:
    """A list of finite numbers as an array."""
    array = _real(values)
    if array.ndim != 1 or not array.size or not np.isfinite(array).all():
        raise InputError(f"{name} must be a list of finite numbers, got {_shown(values)}")
    return array


def _real(values: object) -> Array:
    """An array of real numbers; of what is none, one of no size and so of the wrong shape."""
    try:
        array = np.asarray(values)
        return array.astype(float) if array.dtype.kind in "fiub" else np.empty(0)
    except (TypeError, ValueError):  # lists of different lengths
        return np.empty(0)


def _shown(values: object) -> str:
    if isinstance(values, np.ndarray):
        array = cast("Array", values)
        return f"an array of shape {array.shape} and type {array.dtype}"
    text = " ".join(repr(values).split())
    return text if len(text) < 80 else f"{text[:77]}…"


@dataclass(frozen=True)
class InputLaw:
    """A law of x in R^d for every d; `fill(generator, X)` overwrites the rows of X with independent samples of it.

    eigenvalues
        Those of Σ at d; None where the law does not state them: then it can be simulated, and theory refuses it.
    times
        Σ applied to the rows of a matrix; None for the identity.
    freedom
        Degrees of freedom of the random length ℓ, ℓ² = (f − 2)/χ²_f; None where ℓ = 1.
    teacher
        Energies of the teacher along the eigenvectors, where they are fixed.
    normal
        Whether x is Gaussian, so that the teacher's argument is N(0, 1) exactly.

    >>> import numpy as np
    >>> from onestride.inputs import InputLaw
    >>> def coins(generator, X):
    ...     X[:] = np.sign(generator.standard_normal(X.shape))
    >>> InputLaw("coins", coins, eigenvalues=np.ones).name
    'coins'
    """

    name: str
    fill: Fill
    eigenvalues: Callable[[int], Array] | None = None
    times: Callable[[Array], Array] | None = None
    freedom: float | None = None
    teacher: tuple[float, ...] | None = None
    normal: bool = False

    @property
    def isotropic(self) -> bool:
        """Identity covariance and one length: what the theory of Gaussian inputs describes."""
        return self.eigenvalues is np.ones and self.freedom is None

    @property
    def plain(self) -> bool:
        """Independent standard normal entries, in the order in which they are drawn."""
        return self.fill is _gaussian

    def normalised(self, directions: Float[Array, "k d"]) -> Float[Array, "k d"]:
        """The rows combined so that β_jᵀx are uncorrelated with variance 1: β/√(βᵀΣβ) for one; as they are when Σ = I."""
        if self.times is None:
            return directions
        root = np.linalg.cholesky(directions @ self.times(directions).T)
        return np.linalg.solve(root, directions)


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


def _ar1_times(B: Float[Array, "k d"]) -> Float[Array, "k d"]:
    return matmul_toeplitz(AR1 ** np.arange(B.shape[1]), B.T).T


@lru_cache(maxsize=16)
def _ar1_eigenvalues(d: int) -> Float[Array, "d"]:
    """Decreasing: (1 − r²)/|e^{iθ} − r|² at the roots of (d − 1)θ + 2 arg(e^{iθ} − r) = kπ, k = 1 … d."""
    k = np.arange(1.0, d + 1)
    low, high = (k - 1) * np.pi / (d + 1), k * np.pi / (d + 1)  # each has one root, as the left side increases
    for _ in range(60):
        theta = (low + high) / 2
        beyond = (d - 1) * theta + 2 * np.arctan2(np.sin(theta), np.cos(theta) - AR1) > k * np.pi
        low, high = np.where(beyond, low, theta), np.where(beyond, theta, high)
    return (1 - AR1**2) / (1 - 2 * AR1 * np.cos((low + high) / 2) + AR1**2)


def _power(generator: np.random.Generator, X: Float[Array, "n d"]) -> None:
    generator.standard_normal(out=X)
    X *= np.sqrt(_power_eigenvalues(X.shape[1]))


def _power_eigenvalues(d: int) -> Float[Array, "d"]:
    eigenvalues = np.arange(1.0, d + 1) ** -POWER
    return eigenvalues / eigenvalues.mean()


def _power_times(B: Float[Array, "k d"]) -> Float[Array, "k d"]:
    return B * _power_eigenvalues(B.shape[1])


_REGISTRY: dict[str, InputLaw] = {
    law.name: law
    for law in (
        InputLaw("gaussian", _gaussian, np.ones, normal=True),
        InputLaw("uniform", _uniform, np.ones),
        InputLaw("rademacher", _rademacher, np.ones),
        InputLaw("student", _student, np.ones),
        InputLaw("ar1", _ar1, _ar1_eigenvalues, _ar1_times, normal=True),
        InputLaw("power", _power, _power_eigenvalues, _power_times, normal=True),
        InputLaw("elliptic", _elliptic, np.ones, freedom=STUDENT_FREEDOM),
    )
}
_BUILT_IN = dict(_REGISTRY)


@lru_cache(maxsize=16)
def excess_kurtosis(law: InputLaw) -> float:
    """E x⁴/(E x²)² − 3 of an entry, from a million that a generator of its own draws; 0 for Gaussian ones."""
    if law.normal:
        return 0.0
    X = np.empty((2**14, 64))
    law.fill(np.random.default_rng(0), X)
    return float(np.mean(X**4) / np.mean(X**2) ** 2 - 3)


def is_own(name: object) -> bool:
    """Whether a name was registered, or registered again, in this process."""
    return isinstance(name, str) and name in _REGISTRY and _REGISTRY[name] is not _BUILT_IN.get(name)


def law_names() -> tuple[str, ...]:
    """Names that `Problem(inputs=…)` accepts.

    >>> from onestride.inputs import law_names
    >>> "ar1" in law_names()
    True
    """
    return tuple(_REGISTRY)


def input_law(given: object) -> InputLaw:
    """The law of that name, or that of a `Covariance`."""
    if isinstance(given, Covariance):
        return _law_of(given)
    if not isinstance(given, str) or given not in _REGISTRY:
        hint = (
            ""
            if isinstance(given, str)
            else " (Covariance(eigenvalues), Covariance.from_matrix(Sigma) and Covariance.spiked(d, kappa) make one)"
        )
        raise InputError(f"inputs must be {', '.join(map(repr, _REGISTRY))} or a Covariance{hint}, got {_shown(given)}")
    return _REGISTRY[given]


@lru_cache(maxsize=64)
def _law_of(covariance: Covariance) -> InputLaw:
    values = np.array(covariance.eigenvalues)
    normal = type(covariance) is Covariance  # the rows of a table are not
    same = normal and np.ptp(values) <= 1e-12  # the identity, whatever its teacher
    eigenvalues: Callable[[int], Array] = np.ones if same else lambda d: values
    return InputLaw("covariance", covariance.fill, eigenvalues, lambda B: B * values, None, covariance.teacher, normal)


def read_inputs(given: object, d: int | None) -> str | Covariance:
    """What `Problem(inputs=…)` was given, checked: a name, a `Covariance` of d eigenvalues or the table it is written as."""
    if isinstance(given, dict):
        table = cast("dict[str, Any]", given)
        if "eigenvalues" in table and set(table) <= {"eigenvalues", "teacher"}:
            given = Covariance(table["eigenvalues"], table.get("teacher"))
    law = input_law(cast("object", given))
    if not isinstance(given, Covariance):
        return law.name
    if d is not None and len(given.eigenvalues) != d:
        raise InputError(given.wrong_size(d))
    return given


def register(law: InputLaw) -> InputLaw:
    """Make a law usable as `Problem(inputs=…)`; 4,000 samples are drawn to see that E|x|² is d.

    >>> from onestride.inputs import InputLaw, register
    >>> def uniform(generator, X):
    ...     X[:] = generator.uniform(-(3**0.5), 3**0.5, X.shape)
    >>> register(InputLaw("wide", uniform)).name
    'wide'
    """
    if not law.name.isidentifier():
        raise InputError(f"name must be a word such as 'laplace', got {law.name!r}")
    if law.name in _BUILT_IN:
        raise InputError(f"name must be a new one, got {law.name!r}, which is built in")
    X = np.full((4000, 8), np.nan)
    law.fill(np.random.default_rng(0), X)
    power = float((X**2).mean())
    if not abs(power - 1) < 0.2:  # NaN too: what was not filled
        raise InputError(f"the law {law.name!r} of the inputs must have E|x|² = d, got {power:.3g}·d")
    _REGISTRY[law.name] = law
    return law
