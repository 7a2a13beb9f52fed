"""Activations and teachers: value, derivative and Hermite coefficients of one scalar function in one object.

Hermite polynomials are the probabilists', unnormalised: c_k = E[f(Z) H_k(Z)]/k!, Z ~ N(0, 1). **Functions are centred
by default**: c_0 is subtracted from the value, so E f(Z) = 0, as the theory assumes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from math import factorial
from typing import ClassVar

import numpy as np
from numpy.polynomial import hermite_e

from onestride._backend import apply_special, namespace, through_host
from onestride._errors import InputError as InputError
from onestride._errors import did_you_mean, short
from onestride._numerics import Array, Float, adapted_rule, gauss_density, hermite_table, root_factorials

ScalarMap = Callable[[Array], Array]

DEGREES = 64  # Hermite coefficients kept
_SQRT_2PI, _SQRT_PI = float(np.sqrt(2 * np.pi)), float(np.sqrt(np.pi))


@dataclass(frozen=True, eq=False, repr=False)
class Function:
    """A scalar function f of a standard normal variable, minus its mean c_0 when `centred`.

    >>> import numpy as np
    >>> from onestride.functions import Function
    >>> Function("wave", np.sin, np.cos).coefficients[:4].round(3)  # c_0 to c_3
    array([ 0.   ,  0.607,  0.   , -0.101])
    """

    name: str
    raw: ScalarMap
    raw_derivative: ScalarMap | None = None
    centred: bool = True
    exact: tuple[float, ...] | None = None  # Hermite coefficients when they are known, as for a polynomial
    directions: ClassVar[int] = 1

    def __repr__(self) -> str:
        leading = ", ".join(f"c{k} = {c:.4g}" for k, c in enumerate(self.coefficients[:5]))
        use = "activation or teacher" if self.raw_derivative is not None else "teacher"
        return f"Function({self.name!r}, {use}{'' if self.centred else ', not centred'}: {leading})"

    def __call__(self, z: Array, out: Array | None = None) -> Array:
        """f(z), centred if asked; z may be an array of any library. A NumPy result may go into `out`, even into z."""
        values = _evaluate(self.raw, z)
        return values - self.shift if out is None else np.subtract(values, self.shift, out=out)

    def derivative(self, z: Array) -> Array:
        """f'(z); the shift by c_0 does not enter."""
        if self.raw_derivative is None:
            raise InputError(
                f"function {self.name!r} has no derivative, so it can be a teacher but not an activation; "
                f"give one: register({self.name!r}, value, derivative)"
            )
        return _evaluate(self.raw_derivative, z)

    @cached_property
    def rule(self) -> tuple[Float[Array, "nodes"], Float[Array, "nodes"]]:
        """Quadrature nodes and (Lebesgue) weights that resolve the kinks of f."""
        return adapted_rule(self.raw)

    @cached_property
    def _raw_coefficients(self) -> Float[Array, "degrees"]:
        if self.exact is not None:
            return np.pad(np.array(self.exact, float), (0, DEGREES + 1 - len(self.exact)))
        x, w = self.rule
        return hermite_table(x, DEGREES) @ (w * gauss_density(x) * self.raw(x)) / root_factorials(DEGREES)

    @property
    def shift(self) -> float:
        """What is subtracted from the raw function: c_0 when centred, else 0."""
        return float(self._raw_coefficients[0]) if self.centred else 0.0

    @cached_property
    def coefficients(self) -> Float[Array, "degrees"]:
        """c_0 … c_64; values below 1e-13 of the function's size are rounding and set to 0."""
        c = self._raw_coefficients.copy()
        if self.centred:
            c[0] = 0.0
        if self.exact is not None:
            return c
        x, w = self.rule
        size = np.sqrt((w * gauss_density(x)) @ self.raw(x) ** 2)
        c[np.abs(c) * root_factorials(DEGREES) <= 1e-13 * size] = 0.0
        return c

    @property
    def normalised(self) -> Float[Array, "degrees"]:
        """c_k√k!, the coefficients of the normalised polynomials H_k/√k!; their squares sum to E f²."""
        return self.coefficients * root_factorials(DEGREES)

    def tensor(self, degree: int) -> Float[Array, "*axes"]:
        """L! c_l = E[f H_l], with l axes of length 1: what `teachers.Teacher` has for several directions."""
        return np.full((1,) * degree, self.coefficients[degree] * factorial(degree))

    @cached_property
    def second_moment(self) -> float:
        """E f(Z)²."""
        x, w = self.rule
        return float((w * gauss_density(x)) @ self(x) ** 2)

    @property
    def nonlinear_power(self) -> float:
        """E f² − c_0² − c_1²: for an activation c_{>1}², for a teacher what no linear predictor can reach."""
        c = self.coefficients
        return max(self.second_moment - c[0] ** 2 - c[1] ** 2, 0.0)

    @cached_property
    def derivative_variance(self) -> float:
        """Var f'(Z) = E f'² − c_1²."""
        x, w = adapted_rule(self.derivative)  # its jumps are the kinks of f, which need finer panels here
        return max(float((w * gauss_density(x)) @ self.derivative(x) ** 2) - self.coefficients[1] ** 2, 0.0)

    @cached_property
    def growth(self) -> float:
        """The power with which f grows far out, between 20 and 40: 1 of ReLU, 0 of what is bounded."""
        return growth_between(self(np.array([-20.0, 20.0])), self(np.array([-40.0, 40.0])))


def growth_between(near: Array, far: Array) -> float:
    """The exponent of a growth from |z| = 20 to 40; 0 where there is none."""
    first, last = float(np.abs(near).max()), float(np.abs(far).max())
    return float(np.log2(last) - np.log2(first)) if last > first > 0 else 0.0


def _evaluate(f: ScalarMap, z: Array) -> Array:
    """f(z); on the host when f was written for NumPy and z lives elsewhere."""
    if namespace(z) is np:
        return f(z)
    try:
        values = f(z)
        if type(values) is type(z):
            return values
    except Exception:  # whatever a foreign array makes of it; the host will tell a true mistake
        pass
    return through_host(f, z)


def hermite_polynomial(coefficients: Sequence[float]) -> Function:
    """Σ_k c_k H_k as a function: [0, 1, 0.7071] is H_1 + H_2/√2."""
    c = np.asarray(coefficients, float)
    if c.ndim != 1 or not 2 <= c.size <= DEGREES + 1:
        raise InputError(f"a list of Hermite coefficients needs 2 to {DEGREES + 1} numbers, got {c.size}")
    if not np.isfinite(c).all():
        raise InputError(f"Hermite coefficients must be finite numbers, got {list(coefficients)}")
    derivative = hermite_e.hermeder(c)
    return Function(
        "[" + ", ".join(f"{v:g}" for v in c) + "]",
        lambda z: _hermite_sum(z, c.tolist()),
        lambda z: _hermite_sum(z, derivative.tolist()),
        exact=tuple(c.tolist()),
    )


def _hermite_sum(z: Array, c: Sequence[float]) -> Array:
    """Σ_k c_k H_k(z) by Clenshaw's recurrence; inf or NaN where it overflows, which is told by who asks for it."""
    with np.errstate(over="ignore", invalid="ignore"):
        above, here = 0.0 * z, 0.0 * z + c[-1]  # b_{k+1}, b_k with b_k = c_k + z b_{k+1} − (k + 1) b_{k+2}
        for k in range(len(c) - 2, -1, -1):
            above, here = here, c[k] + z * here - (k + 1) * above
    return here


def _positive(z: Array) -> Array:
    xp = namespace(z)
    return np.maximum(z, 0.0) if xp is np else xp.clip(z, 0.0)


def _is_positive(z: Array) -> Array:
    """1 where z > 0, else 0, in the precision of z."""
    xp = namespace(z)
    return np.greater(z, 0).astype(getattr(z, "dtype", float)) if xp is np else xp.astype(z > 0, z.dtype)


_sigmoid, _normal_cdf, _erf = (partial(apply_special, name) for name in ("expit", "ndtr", "erf"))


def _exp(z: Array) -> Array:
    return namespace(z).exp(z)


def _tanh(z: Array) -> Array:
    return namespace(z).tanh(z)


_REGISTRY: dict[str, Function] = {
    f.name: f
    for f in (
        Function("relu", _positive, _is_positive),
        Function("leaky_relu", lambda z: 0.99 * _positive(z) + 0.01 * z, lambda z: 0.01 + 0.99 * _is_positive(z)),
        Function("softplus", lambda z: _positive(z) + namespace(z).log1p(_exp(-abs(z))), _sigmoid),
        Function("gelu", lambda z: z * _normal_cdf(z), lambda z: _normal_cdf(z) + z * _exp(-z * z / 2) / _SQRT_2PI),
        Function("silu", lambda z: z * _sigmoid(z), lambda z: _sigmoid(z) * (1 + z * _sigmoid(-z))),
        Function("elu", lambda z: _positive(z) + namespace(z).expm1(-_positive(-z)), lambda z: _exp(-_positive(-z))),
        Function("tanh", _tanh, lambda z: 1 - _tanh(z) ** 2),
        Function("erf", _erf, lambda z: 2 / _SQRT_PI * _exp(-z * z)),
        # c₁ … c₄ ≠ 0, and large enough for its third spike to be seen on a small machine: ReLU, softplus, GELU and SiLU have
        # c₃ = 0, tanh and erf c₂ = 0; ELU has all of them, but its third spike needs n above 2·10⁴
        Function("shifted_erf", lambda z: _erf(z + 0.5), lambda z: 2 / _SQRT_PI * _exp(-((z + 0.5) ** 2))),
        Function("sigmoid", _sigmoid, lambda z: _sigmoid(z) * _sigmoid(-z)),
        Function("sin", lambda z: namespace(z).sin(z), lambda z: namespace(z).cos(z)),
    )
}
_BUILT_IN = dict(_REGISTRY)


def is_own(name: object) -> bool:
    """Whether a name was registered, or registered again, in this process."""
    return isinstance(name, str) and name in _REGISTRY and _REGISTRY[name] is not _BUILT_IN.get(name)


def function_names() -> tuple[str, ...]:
    """Names that `Problem(activation=…)` and `Problem(teacher=…)` accept.

    >>> from onestride.functions import function_names
    >>> "relu" in function_names()
    True
    """
    return tuple(_REGISTRY)


def register(name: str, value: ScalarMap, derivative: ScalarMap | None = None) -> Function:
    """Make `name` usable as an activation (with its derivative) or as a teacher (without).

    >>> register("cube", lambda z: z**3, lambda z: 3 * z**2)

    The value must be finite on [-42, 42], square-integrable under N(0, 1) and work on arrays; the derivative is checked
    against finite differences. Registering the same name again replaces the earlier function, but none that is built in.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise InputError(f"name must be a word such as 'cube', got {name!r}")
    if name in _BUILT_IN:
        raise InputError(f"name must be a new one, got {name!r}, which is built in")
    f = Function(name, value, derivative)
    _check(f)
    _REGISTRY[name] = f
    resolve.cache_clear()
    return f


def activation(spec: str | tuple[float, ...], *, centred: bool = True) -> Function:
    """The activation called `spec`, or the polynomial with those Hermite coefficients.

    >>> relu = one.activation("relu")
    >>> print(relu.coefficients[:3].round(4))
    [0.     0.5    0.1995]
    """
    f = resolve(spec, centred)
    if f.raw_derivative is None:
        f.derivative(np.zeros(1))  # says so now, not in the middle of a run
    return f


def teacher(spec: str | tuple[float, ...] | ScalarMap) -> Function:
    """The (centred) teacher: a name, Hermite coefficients, or any function of an array."""
    return resolve(spec, True)


@lru_cache(maxsize=256)
def resolve(spec: str | tuple[float, ...] | ScalarMap, centred: bool) -> Function:
    """Look up a name, build a polynomial, or wrap and check a callable."""
    if isinstance(spec, str):
        if spec not in _REGISTRY:
            hints = (
                f"no function is called {short(spec)};",
                did_you_mean(spec, _REGISTRY),
                f"known: {', '.join(_REGISTRY)}",
            )
            raise InputError(" ".join(filter(None, hints)))
        f = _REGISTRY[spec]
        return f if f.centred == centred else replace(f, centred=centred)
    if isinstance(spec, Function):
        return spec if spec.centred == centred else replace(spec, centred=centred)
    if callable(spec):
        f = Function(getattr(spec, "__name__", "callable"), spec, centred=centred)
        _check(f)
        return f
    f = hermite_polynomial(spec)
    return f if centred else replace(f, centred=False)


def _check(f: Function) -> None:
    """Refuse a function that is not vectorised, overflows, is not square-integrable, or has a wrong derivative."""
    grid = np.linspace(-42, 42, 2001)
    with np.errstate(all="ignore"):
        _check_shape(f.name, "value", f.raw, grid)
        bad = grid[~np.isfinite(np.square(np.asarray(f.raw(grid), float)))]
        if bad.size:
            z = bad[np.argmin(np.abs(bad))]
            raise InputError(
                f"function {f.name!r} overflows: it is {float(f.raw(np.array([z]))[0]):g} at z = {z:.4g}; "
                "it must be finite on [-42, 42] and so must its square"
            )
        x, w = f.rule
        power = w * gauss_density(x) * f.raw(x) ** 2
        if power[np.abs(x) > 34].sum() > 1e-10 * power.sum():  # the density underflows at 38
            raise InputError(f"function {f.name!r} is not square-integrable under N(0, 1): E f(Z)² diverges")
        if f.raw_derivative is None:
            return
        _check_shape(f.name, "derivative", f.raw_derivative, grid)
        if not np.isfinite(f.raw_derivative(grid)).all():
            z = grid[~np.isfinite(f.raw_derivative(grid))][0]
            raise InputError(f"the derivative of {f.name!r} is not finite at z = {z:.4g}; it must be on [-42, 42]")
        z, step = np.linspace(-4, 4, 161) + 1e-3 * np.e, 1e-5
        numeric = (f.raw(z + step) - f.raw(z - step)) / (2 * step)
        given = np.asarray(f.raw_derivative(z), float)
        gap = np.abs(given - numeric) / (1e-3 + np.abs(numeric) + np.abs(f.raw(z)))
        if not gap.max() < 1e-5:
            i = int(np.nanargmax(np.where(np.isfinite(gap), gap, np.inf)))
            raise InputError(
                f"the derivative of {f.name!r} is wrong: at z = {z[i]:.4g} it gives {given[i]:.6g}, "
                f"finite differences give {numeric[i]:.6g}"
            )


def _check_shape(name: str, part: str, f: ScalarMap, grid: Array) -> None:
    try:
        values = np.asarray(f(grid))
    except Exception as error:
        raise InputError(f"the {part} of function {name!r} must accept an array, but it raised: {error}") from None
    if values.shape != grid.shape:
        raise InputError(
            f"the {part} of function {name!r} must act elementwise: for an array of shape {grid.shape} "
            f"it returned shape {values.shape}"
        )
    if values.dtype.kind not in "fiub":
        raise InputError(f"the {part} of function {name!r} must return real numbers, got type {values.dtype}")
