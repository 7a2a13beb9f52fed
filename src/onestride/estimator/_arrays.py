"""Inputs of any array library as NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj, is_numpy_array, is_torch_array, to_device


def as_numpy(X: Any) -> Any:
    """A NumPy copy of a torch, CuPy or other array-API array; everything else (lists, data frames, None) unchanged."""
    if not is_array_api_obj(X) or is_numpy_array(X):
        return X
    if is_torch_array(X):
        X = X.detach()
    get = getattr(X, "get", None)  # CuPy's own way to the host
    return get() if get is not None else np.from_dlpack(to_device(X, "cpu"))
