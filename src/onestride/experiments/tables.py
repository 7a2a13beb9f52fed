"""Real tables that ship with scikit-learn, no download; the only experiment file that knows scikit-learn."""

from __future__ import annotations

import numpy as np

from onestride._errors import require
from onestride._numerics import Array


def table(name: str) -> tuple[Array, Array]:
    """Standardised columns X (constant ones left out) and the standardised target y of a bundled table.

    ``"diabetes"`` (442 × 10, disease progression), ``"cancer"`` (569 × 30, benign or not), ``"digits"`` (1,797 × 61
    pixels, the digit taken as a number).
    """
    require("sklearn", extra="estimator", what=f"the table {name}")
    from sklearn import datasets

    load = {"diabetes": datasets.load_diabetes, "cancer": datasets.load_breast_cancer, "digits": datasets.load_digits}
    X, y = load[name](return_X_y=True)
    X, y = np.asarray(X, float), np.asarray(y, float)
    X = X[:, X.std(0) > 0]
    return (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()


def components(X: Array, dims: int) -> tuple[Array, Array]:
    """The leading principal components scaled together to E|x|² = dims, and their variances: rows of diagonal covariance."""
    U, values, _ = np.linalg.svd(X - X.mean(0), full_matrices=False)
    variances = values[:dims] ** 2 * dims / np.sum(values[:dims] ** 2)
    return U[:, :dims] * np.sqrt(X.shape[0] * variances), variances
