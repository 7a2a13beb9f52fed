"""Inputs of any array library as NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj, is_cupy_array, is_numpy_array, is_torch_array


def as_numpy(X: Any) -> Any:
    """A torch, CuPy or other array-API array as NumPy; everything else (lists, data frames, None) unchanged."""
    array: Any = X
    if not is_array_api_obj(X) or is_numpy_array(X):
        return X
    if is_torch_array(X):
        return array.detach().cpu().numpy()
    return array.get() if is_cupy_array(X) else np.from_dlpack(array)
