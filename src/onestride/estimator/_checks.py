"""What is handed to the estimators, checked: arrays of any library, parameters, weights; and what they hand back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj, is_cupy_array, is_numpy_array, is_torch_array
from numpy.typing import ArrayLike
from sklearn.utils.validation import _check_sample_weight

from onestride._backend import choose
from onestride._errors import InputError, is_whole
from onestride._numerics import Array
from onestride.estimator._judge import EFFORTS
from onestride.estimator._layer import Recipe
from onestride.functions import activation
from onestride.theory.assumptions import beyond

GRADIENTS = ("auto", "shared", "neurons", "full", "diagonal")
FIRST_LAYERS = ("auto", "dense", "ranks", "sparse", "landmarks")
DEFAULT_ALPHAS = np.logspace(-9, 6, 31)
_LARGEST_PENALTY = 1e100
_LARGEST_WEIGHT = 1e100  # of all rows together: its square is still a number


def as_numpy(X: Any) -> Any:
    """A torch, CuPy or other array-API array as NumPy; everything else (lists, data frames, None) unchanged."""
    array: Any = X
    if not is_array_api_obj(X) or is_numpy_array(X):
        return X
    if is_torch_array(X):
        return array.detach().cpu().numpy()
    return array.get() if is_cupy_array(X) else np.from_dlpack(array)


def read_recipe(given: Any) -> Recipe:
    """The parameters of an estimator, or a sentence about the first that is wrong."""
    width, steps = _whole("width", given.width), _whole("steps", given.steps)
    if given.gradient not in GRADIENTS:
        raise InputError(f"gradient must be {', '.join(map(repr, GRADIENTS))}, got {given.gradient!r}")
    if given.effort not in EFFORTS:
        raise InputError(f"effort must be {' or '.join(map(repr, EFFORTS))}, got {given.effort!r}")
    step = _auto("step_size", given.step_size, "0 or more", lambda x: x >= 0)
    scale = _auto("input_scale", given.input_scale, "from 1e-6 to 1e6", lambda x: 1e-6 <= x <= 1e6)
    for name in ("skip", "whiten", "robust", "verbose"):
        if not isinstance(getattr(given, name), bool | np.bool_):
            raise InputError(f"{name} must be True or False, got {getattr(given, name)!r}")
    spec, alphas = _activation(given.activation), _penalties(given.alphas)
    if not isinstance(given.device, str):
        raise InputError(f"device must be 'cpu', 'cuda', 'cuda:0' or 'cupy', got {given.device!r}")
    backend = choose(given.device)
    if given.first_layer not in FIRST_LAYERS:
        raise InputError(f"first_layer must be {', '.join(map(repr, FIRST_LAYERS))}, got {given.first_layer!r}")
    if given.first_layer == "landmarks" and given.gradient == "neurons":
        raise InputError("gradient must not be 'neurons' for landmarks, which move together; 'shared' is allowed")
    ranks = given.first_layer in ("ranks", "sparse", "landmarks") or (given.first_layer == "auto" and step is None)
    recipe = Recipe(width, spec, bool(given.skip), given.gradient, steps, scale, step, alphas, backend=backend)
    return replace(recipe, first_layer=given.first_layer, ranks=ranks)


def _whole(name: str, value: Any) -> int:
    if not is_whole(value) or value < 1:
        raise InputError(f"{name} must be a whole number, 1 or more, got {value!r}")
    return int(value)


def _auto(name: str, value: Any, allowed: str, test: Callable[[float], bool]) -> float | None:
    """None for "auto", else the number."""
    if isinstance(value, str) and value == "auto":
        return None
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else np.nan
    if not (np.isfinite(number) and test(number)):
        raise InputError(f"{name} must be 'auto' or a finite number, {allowed}, got {value!r}")
    return number


def _activation(spec: Any) -> Any:
    """A name (or function) as it is, a list of Hermite coefficients as a tuple; refused now when it is neither."""
    if not (isinstance(spec, str) or callable(spec)):
        try:
            spec = tuple(float(c) for c in spec)
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"activation must be a name or a list of Hermite coefficients, got {spec!r}") from None
    sigma = activation(spec, centred=False)  # pyright: ignore[reportArgumentType]
    with np.errstate(all="ignore"):
        reason = beyond({"E σ²": sigma.second_moment})
    if reason is not None:
        raise InputError(f"activation {reason}")
    return spec


def _penalties(alphas: ArrayLike | None) -> Array:
    """The penalties in rising order."""
    try:
        values = np.atleast_1d(np.asarray(DEFAULT_ALPHAS if alphas is None else alphas, float))
    except (TypeError, ValueError, OverflowError):
        values = np.empty(0)
    if values.ndim != 1 or not values.size or not ((values > 0) & (values <= _LARGEST_PENALTY)).all():
        raise InputError(f"alphas must be a list of numbers above 0, up to {_LARGEST_PENALTY:g}, got {alphas!r}")
    return np.sort(values)


def read_weights(sample_weight: ArrayLike | None, X: Array) -> Array:
    """One weight per row, 0 or more, with a sum whose square is a number."""
    if sample_weight is not None and not np.any(np.asarray(sample_weight)):
        raise InputError("sample_weight must have an entry above 0, got only zeros")
    weights = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
    if weights.max() > _LARGEST_WEIGHT / len(weights):
        raise InputError(f"sample_weight must add up to at most {_LARGEST_WEIGHT:g}, got an entry of {weights.max():g}")
    return weights


def by_row(weights: Array, alphas: Array, ours: bool) -> tuple[Array, Array, Array, int]:
    """Weights in units of a power of two near their mean; the penalties, the same in these units, and its exponent.

    Penalties that are `ours` suit weights of any size; those that somebody gave are meant beside the weights as they were given.
    """
    unit = int(np.round(np.log2(weights.mean())))
    with np.errstate(over="ignore", under="ignore"):
        given = np.ldexp(alphas, unit) if ours else alphas
        beside = alphas if ours else np.clip(np.ldexp(alphas, -unit), 1e-300, 1e200)
    return np.ldexp(weights, -unit), given, beside, unit


def finite(values: Array, kind: str) -> Array:
    """The values, or a sentence when one of them overflowed."""
    bad = ~np.isfinite(values).all(axis=1)
    if bad.any():
        raise InputError(
            f"{int(bad.sum())} of {len(values)} rows of X have a {kind} that does not fit into {values.dtype}, the first is "
            f"row {int(np.argmax(bad))}; give rows nearer to the training rows, or float64 in place of float32"
        )
    return values
