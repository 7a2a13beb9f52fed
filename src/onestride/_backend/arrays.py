"""Arrays of any library, and the functions that work on all of them."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import special


@runtime_checkable
class DeviceArray(Protocol):
    """An array of NumPy, torch, CuPy or the reference implementation: what the array-API standard says of them all."""

    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def ndim(self) -> int: ...

    if TYPE_CHECKING:  # more axes than two have none in the reference implementation

        @property
        def T(self) -> Any: ...

    def __getitem__(self, key: Any, /) -> Any: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...
    def __add__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __rmul__(self, other: Any, /) -> Any: ...
    def __truediv__(self, other: Any, /) -> Any: ...
    def __pow__(self, other: Any, /) -> Any: ...
    def __matmul__(self, other: Any, /) -> Any: ...
    def __eq__(self, other: Any, /) -> Any: ...


def on_host(z: object) -> TypeGuard[NDArray[Any]]:
    """Whether it is an array of NumPy."""
    return isinstance(z, np.ndarray)


def namespace(z: DeviceArray | float) -> ModuleType:
    """The array namespace of an array; NumPy itself for NumPy."""
    if isinstance(z, np.ndarray | np.generic | float | int):
        return np
    return importlib.import_module("array_api_compat").array_namespace(z)


def moved(z: Any, by: float, along: Any) -> Any:
    """The sum z + by·along: on a device in one pass where its library has that."""
    return namespace(z).add(z, along, alpha=by) if type(z).__module__.startswith("torch") else by * along + z


def apply_special(name: str, z: Any) -> Any:
    """erf, ndtr or expit of any library's array."""
    if namespace(z) is np:
        return getattr(special, name)(z)
    module = {"torch": "torch.special", "cupy": "cupyx.scipy.special"}.get(type(z).__module__.split(".")[0])
    if module is not None:
        return getattr(importlib.import_module(module), name)(z)
    return namespace(z).asarray(getattr(special, name)(np.asarray(z)))
