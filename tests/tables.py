"""Tables for the tests of the estimators, each drawn from a stream of its own."""

import numpy as np
from sklearn.datasets import make_friedman1

SMALL = 24  # neurons that are enough for most tests


def draws(seed, stream):
    """A generator of its own for each test."""
    return np.random.default_rng(stream + 1000 * seed)


def friedman(seed, n=400, d=10, noise=1.0):
    return make_friedman1(n, d, noise=noise, random_state=seed)


def weighted_table(seed, stream, n=150, d=6):
    """Distinct rows, correlated columns, weights that are no counts: nothing merges, so a path that forgets them shows."""
    rng = draws(seed, stream)
    X = rng.standard_normal((n, d)) @ (np.eye(d) + 0.3) + 1
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2 / 5 + 0.3 * rng.standard_normal(n), rng.uniform(0.1, 5, n)


def single_index(seed, stream):
    """H₁ + H₂/2 + noise/2 of the first of twenty normal inputs."""
    rng = draws(seed, stream)
    X = rng.standard_normal((1000, 20))
    return X, X[:, 0] + 0.5 * (X[:, 0] ** 2 - 1) + 0.5 * rng.standard_normal(1000)
