"""Teachers of several directions: labels g(z) of the coordinates z_j = β_jᵀx, with what the theory asks of them.

The gradient sees a teacher through E[g z] alone. In coordinates u = Qz, turned so that

    E[g u] = (C, 0, …, 0),   C = |E[g z]|,

it points along u₁, and u₂ … u_k have no part in it: what was c⋆₁ of a teacher of one direction is C, c⋆_l is the coefficient
of H_l(u₁), and tensors take the place of l! c⋆_l where other directions enter, E[g H_l(u)] with l indices.
**Teachers are centred**: E g is subtracted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement, product

import numpy as np
from numpy.polynomial.legendre import leggauss

from onestride import functions
from onestride._errors import InputError
from onestride._numerics import Array, Float, gauss_density, hermite_table, root_factorials
from onestride.functions import Function, ScalarMap, growth_between

JointMap = Callable[[Array], Array]  # (m, k) → (m)

MOST_DIRECTIONS = 3  # of a function of all coordinates, and of the theory: it is averaged on a grid of them
_ROUNDING = 1e-7  # of a teacher's size: what is smaller is the error of that grid
_EDGES = (0.0, 1.0, 2.2, 3.6, 5.5, 8.0)  # of its panels, kinks being mostly at 0
_PER_PANEL = {1: 16, 2: 12, 3: 7}
_FAR, _SHARE_BEYOND = 6.0, 0.05  # of a coordinate, and of E g² beyond it: a polynomial of degree 8 has 0.02
_HIGHEST = 24  # coefficients of E[g | u₁] kept
_COMPONENTS = 4  # total degree up to which products are kept


@dataclass(frozen=True, eq=False, repr=False)
class Teacher:
    """g of k coordinates, minus its mean; `raw` takes an array (m, k) to (m,).

    >>> from onestride.teachers import Teacher
    >>> import numpy as np
    >>> Teacher("both", 2, lambda z: z[:, 0] + z[:, 0] * z[:, 1], mean_free=True)(np.array([[1.0, 2.0]]))
    array([3.])
    """

    name: str
    directions: int
    raw: JointMap
    mean_free: bool = False  # E g = 0 as it stands
    degree: int | None = None  # of a polynomial

    def __repr__(self) -> str:
        return f"Teacher({self.name!r}, {self.directions} directions, E g² = {self.second_moment:.4g})"

    def __call__(self, z: Float[Array, "*m k"]) -> Float[Array, "*m"]:
        """g(z), centred."""
        return self.raw(z.reshape(-1, self.directions)).reshape(z.shape[:-1]) - self.shift

    @cached_property
    def rule(self) -> tuple[Float[Array, "m k"], Float[Array, "m"]]:
        """Nodes z and probabilities of N(0, I_k)."""
        return normal_grid(self.directions)

    @cached_property
    def shift(self) -> float:
        """E g of the raw function."""
        return 0.0 if self.mean_free else float(self.rule[1] @ self.raw(self.rule[0]))

    @cached_property
    def _values(self) -> Float[Array, "m"]:
        return self(self.rule[0])

    @cached_property
    def second_moment(self) -> float:
        """E g²."""
        return float(self.rule[1] @ self._values**2)

    @cached_property
    def growth(self) -> float:
        """The power with which g grows far out, along the axes and between them."""
        rays = np.array(list(product((-1.0, 0.0, 1.0), repeat=self.directions)))
        return growth_between(self(20 * rays), self(40 * rays))

    @cached_property
    def rotation(self) -> Float[Array, "k k"]:
        """Q of u = Qz: E[g u] = (C, 0, …, 0); the identity when E[g z] = 0."""
        z, w = self.rule
        mean = (w * self._values) @ z
        length, Q = np.linalg.norm(mean), np.eye(self.directions)
        if length <= _ROUNDING * np.sqrt(self.second_moment):
            return Q
        normal = mean / length - Q[0]  # of the mirror between it and the first axis
        return Q if normal @ normal < _ROUNDING**2 else Q - 2 * np.outer(normal, normal) / (normal @ normal)

    @cached_property
    def turned(self) -> tuple[Float[Array, "m"], Float[Array, "m k"], Float[Array, "m"]]:
        """The nodes as (g, u, probability)."""
        return self._values, self.rule[0] @ self.rotation.T, self.rule[1]

    def at(self, u: Float[Array, "*m k"]) -> Float[Array, "*m"]:
        """G at the turned coordinates."""
        return self(u @ self.rotation)

    @cached_property
    def normalised(self) -> Float[Array, "degrees"]:
        """c_l√l! of E[g | u₁]; c₁ = C."""
        g, u, w = self.turned
        c = hermite_table(u[:, 0], _HIGHEST) @ (w * g)
        c[np.abs(c) <= _ROUNDING * np.sqrt(self.second_moment)] = 0.0
        return c

    @property
    def coefficients(self) -> Float[Array, "degrees"]:
        """c_l = E[g H_l(u₁)]/l!."""
        return self.normalised / root_factorials(_HIGHEST)

    @property
    def nonlinear_power(self) -> float:
        """E g² − C²: what no linear predictor can reach."""
        return max(self.second_moment - self.normalised[1] ** 2, 0.0)

    def tensor(self, degree: int) -> Float[Array, "*axes"]:
        """E[g H_l(u)], l indices from 1 to k; for k = 1 this is l! c_l."""
        parts = self.components(degree)
        out = np.empty((self.directions,) * degree)
        for at in np.ndindex(out.shape):
            powers = np.bincount(at, minlength=self.directions)
            out[at] = parts[tuple(sorted(at))] * np.prod([root_factorials(int(p))[-1] for p in powers])
        return out

    def components(self, degree: int, *, turned: bool = True) -> dict[tuple[int, ...], float]:
        """E[g Π_j h_{l_j}(u_j)] of every product of this total degree, h_l = H_l/√l!; of z when not turned."""
        which = index_of(self.directions, degree)
        return dict(zip(products(self.directions, degree), self._components[int(turned), which].tolist(), strict=True))

    @cached_property
    def _components(self) -> Float[Array, "2 products"]:
        """Of z and of u, up to the degree that is asked for."""
        weighted = self.rule[1] * self._values
        both = (self.rule[0], self.turned[1])
        values = np.array([[weighted @ product for product in joint_hermite(u, _COMPONENTS)] for u in both])
        values[np.abs(values) <= _ROUNDING * np.sqrt(self.second_moment)] = 0.0
        return values


Target = Function | Teacher


# ---------------------------------------------------------------------- products of Hermite polynomials


def products(k: int, degree: int) -> list[tuple[int, ...]]:
    """The products of k coordinates of one total degree, each as its sorted list of coordinates: (0, 0), (0, 1), (1, 1)."""
    return list(combinations_with_replacement(range(k), degree))


def all_products(k: int, degree: int) -> list[tuple[int, ...]]:
    """Those of every total degree up to `degree`, in order."""
    return [p for l in range(degree + 1) for p in products(k, l)]


def index_of(k: int, degree: int) -> slice:
    """Where `all_products` holds the products of this total degree."""
    stop = len(all_products(k, degree))
    return slice(stop - len(products(k, degree)), stop)


def joint_hermite(u: Float[Array, "*m k"], degree: int) -> Float[Array, "products *m"]:
    """Π_j h_{l_j}(u_j) of every total degree up to `degree`, in the order of `products`."""
    k = u.shape[-1]
    table = hermite_table(np.moveaxis(u, -1, 0), degree)  # degrees × k × m
    powers = [np.bincount(np.array(p, int), minlength=k) for p in all_products(k, degree)]
    return np.stack([np.prod([table[l, j] for j, l in enumerate(row)], axis=0) for row in powers])


def hermite_components(target: Target, degree: int) -> Float[Array, "products"]:
    """E[g Π_j h_{l_j}(z_j)] of every product of total degree up to `degree`, as `all_products` counts them."""
    if isinstance(target, Function):
        return target.normalised[: degree + 1]
    return np.array([v for l in range(degree + 1) for v in target.components(l, turned=False).values()])


def degree_powers(components: Float[Array, "products"], k: int) -> Float[Array, "degrees"]:
    """Power of each total degree, 0 first."""
    degree = next(l for l in range(components.size) if index_of(k, l).stop == components.size)
    return np.array([(components[index_of(k, l)] ** 2).sum() for l in range(degree + 1)])


def degree_fractions(
    found: Float[Array, "products"], taught: Float[Array, "products"], k: int
) -> Float[Array, "degrees"]:
    """E[f̂ g_l]/E g_l² for degrees l ≥ 1, g_l the teacher's part of total degree l; NaN where it has none."""
    powers = degree_powers(taught, k)[1:]
    shared = [found[index_of(k, l)] @ taught[index_of(k, l)] for l in range(1, powers.size + 1)]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(powers != 0, np.array(shared) / powers, np.nan)


def direction_fractions(
    found: Float[Array, "products"], taught: Float[Array, "products"], k: int
) -> Float[Array, "directions degrees"]:
    """E[f̂ H_l(z_j)]/E[g H_l(z_j)] for each direction j and degree l ≥ 1; NaN where the teacher has none."""
    degree = degree_powers(taught, k).size - 1
    every = all_products(k, degree)
    at = np.array([[every.index((j,) * l) for l in range(1, degree + 1)] for j in range(k)])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(taught[at] != 0, found[at] / taught[at], np.nan)


@lru_cache(maxsize=4)
def normal_grid(k: int) -> tuple[Float[Array, "m k"], Float[Array, "m"]]:
    """Nodes and probabilities of N(0, I_k): Gauss-Legendre on panels of every coordinate, less nodes of no weight.

    For more directions than can be averaged over it is one node that is not a number, and so is every moment.
    """
    if k > MOST_DIRECTIONS:
        return np.full((1, k), np.nan), np.ones(1)
    x, w = leggauss(_PER_PANEL[k])
    edges = np.array([-e for e in _EDGES[:0:-1]] + list(_EDGES))
    half, middle = np.diff(edges)[:, None] / 2, (edges[1:] + edges[:-1])[:, None] / 2
    z = (middle + half * x).ravel()
    p = (half * w).ravel() * gauss_density(z)
    nodes = np.stack(np.meshgrid(*[z] * k, indexing="ij"), -1).reshape(-1, k)
    weight = np.prod(np.stack(np.meshgrid(*[p] * k, indexing="ij"), -1).reshape(-1, k), axis=1)
    kept = weight > 1e-17
    return nodes[kept], weight[kept] / weight[kept].sum()


# ---------------------------------------------------------------------- by name, by function, by mix

_REGISTRY: dict[str, tuple[int, JointMap]] = {}


def register(
    name: str, value: ScalarMap | JointMap, derivative: ScalarMap | None = None, *, directions: int = 1
) -> Function | Teacher:
    """Make `name` usable as an activation (with its derivative) or as a teacher (without).

    The value must be finite on [-42, 42], square-integrable under N(0, 1) and work on arrays; the derivative is checked
    against finite differences. With `directions` the value is a teacher of that many coordinates, of an array (…, k) to
    (…). Registering the same name again replaces the earlier function, but none that is built in.

    >>> one.register("cube", lambda z: z**3, lambda z: 3 * z**2)
    Function('cube', activation or teacher: c0 = 0, c1 = 3, c2 = 0, c3 = 1, c4 = 0)
    >>> one.register("parity", lambda z: z[..., 0] * z[..., 1], directions=2)
    Teacher('parity', 2 directions, E g² = 1)
    >>> problem = one.Problem(n=60, d=30, N=40, activation="cube", teacher="parity", directions=2)
    """
    if directions == 1:
        f = functions.register(name, value, derivative)
        _REGISTRY.pop(name, None)
        return f
    if not isinstance(name, str) or not name.isidentifier():
        raise InputError(f"name must be a word such as 'parity', got {name!r}")
    if directions not in range(1, MOST_DIRECTIONS + 1):
        raise InputError(f"directions must be a whole number from 1 to {MOST_DIRECTIONS}, got {directions!r}")
    if derivative is not None:
        raise InputError(f"derivative goes with a function of one coordinate, got one with directions = {directions}")
    if not _is_joint(name, value, directions):
        raise InputError(_wrong_shape(name, directions, f"({_PROBE}, {directions})"))
    made = _of_function(name, value, directions)
    _REGISTRY[name] = (directions, value)
    return made


def teacher(spec: str | tuple[float, ...] | ScalarMap | JointMap, directions: int = 1, mix: str = "sum") -> Target:
    """The centred teacher: σ⋆ of one direction, a function of all k coordinates, or a mix of σ⋆ of each."""
    if isinstance(spec, str) and spec in _REGISTRY:
        known, value = _REGISTRY[spec]
        if known != directions:
            raise InputError(
                f"teacher {spec!r} is a function of {known} coordinates and needs directions={known}, got {directions}"
            )
        return _joint(spec, value, directions, mix)
    if directions == 1:
        return functions.teacher(spec)
    if callable(spec) and not isinstance(spec, Function):
        name = getattr(spec, "__name__", "callable")
        if _is_joint(name, spec, directions):
            return _joint(name, spec, directions, mix)
    return _mixed(functions.teacher(spec), directions, mix)


def is_own(name: object) -> bool:
    """Whether a name is a teacher registered in this process, of one coordinate or of several."""
    return functions.is_own(name) or (isinstance(name, str) and name in _REGISTRY)


def named_values(name: str, probes: Float[Array, "m"]) -> Float[Array, "m"]:
    """Values of the registered teacher `name`, to tell it from its namesakes; its coordinates are the probes in turn."""
    if name not in _REGISTRY:
        return np.asarray(functions.teacher(name).raw(probes), float)
    directions, value = _REGISTRY[name]
    return np.asarray(value(np.stack([np.roll(probes, j) for j in range(directions)], axis=1)), float)


def _joint(name: str, value: JointMap, directions: int, mix: str) -> Teacher:
    if directions > MOST_DIRECTIONS:
        raise InputError(
            f"directions must be at most {MOST_DIRECTIONS} for a teacher that is a function of all of them, got {directions}"
        )
    if mix != "sum":
        raise InputError(
            f"mix={mix!r} multiplies functions of one coordinate, and teacher {name!r} is a function of all {directions} of them"
        )
    return _of_function(name, value, directions)


@lru_cache(maxsize=64)
def _of_function(name: str, value: JointMap, directions: int) -> Teacher:
    """A function of all coordinates, checked to be finite and square-integrable."""
    made = Teacher(name, directions, value)
    z, w = made.rule
    with np.errstate(all="ignore"):
        values = np.asarray(value(z), float)
        power = w * values**2
    bad = np.flatnonzero(~np.isfinite(power))
    if bad.size:
        at = bad[np.argmin((z[bad] ** 2).sum(1))]
        where = ", ".join(f"{v:.3g}" for v in z[at])
        raise InputError(f"teacher {name!r} must be finite, it is {values[at]:g} at z = ({where})")
    beyond = power[(z**2).max(1) > _FAR**2].sum() / max(power.sum(), np.finfo(float).tiny)
    if beyond > _SHARE_BEYOND:
        raise InputError(
            f"teacher {name!r} grows too fast to be averaged: {beyond:.0%} of E g(z)² come from |z_j| > {_FAR:g}, "
            "if it is finite at all"
        )
    return made


@lru_cache(maxsize=64)
def _mixed(sigma: Function, directions: int, mix: str) -> Teacher:
    """Σ_j σ⋆(z_j)/√k, or the staircase Σ_j σ⋆(z₁)⋯σ⋆(z_j)/√k."""

    def value(z: Float[Array, "m k"]) -> Float[Array, "m"]:
        parts = sigma(z)
        if mix == "staircase":
            parts = np.cumprod(parts, axis=1)
        return parts.sum(1) / np.sqrt(directions)

    degree = None if sigma.exact is None else (len(sigma.exact) - 1) * (directions if mix == "staircase" else 1)
    return Teacher(f"{mix} of {directions} {sigma.name}", directions, value, mean_free=True, degree=degree)


_PROBE = 5  # rows on which a function shows what it takes


@lru_cache(maxsize=64)
def _is_joint(name: str, value: ScalarMap | JointMap, directions: int) -> bool:
    """Whether a function takes (m, k) to (m,), all coordinates at once, and not to (m, k), each by itself."""
    z = np.random.default_rng(0).standard_normal((_PROBE + (directions == _PROBE), directions))
    try:
        with np.errstate(all="ignore"):
            values = np.asarray(value(z))
    except Exception as error:
        raise InputError(
            f"teacher {name!r} must accept an array (…, {directions}) of coordinates, but it raised: {error}"
        ) from None
    if values.shape not in (z.shape[:1], z.shape):
        raise InputError(_wrong_shape(name, directions, str(values.shape)))
    if values.dtype.kind not in "fiub":
        raise InputError(f"teacher {name!r} must return real numbers, got type {values.dtype}")
    return values.shape == z.shape[:1]


def _wrong_shape(name: str, directions: int, got: str) -> str:
    return (
        f"teacher {name!r} must take an array ({_PROBE}, {directions}) to ({_PROBE},), a function of all coordinates "
        f"(or to ({_PROBE}, {directions}), each coordinate by itself, for mix), got shape {got}"
    )
