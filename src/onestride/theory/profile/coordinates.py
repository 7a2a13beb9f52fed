"""Nodes of the inputs' coordinates along the directions that neurons have weights on (`one_neuron`)."""

# pyright: reportMissingTypeStubs=false
from __future__ import annotations

import numpy as np
from scipy.special import roots_hermitenorm

from onestride._numerics import Array, Float
from onestride.result import TheoryError
from onestride.theory.profile.neurons import normal_rule

_STAR = {1: 31, 2: 25, 3: 17}  # nodes of each coordinate along the teacher
_UNSEEN = 0.05  # weights along a direction, over a row's length, below which it is all but none
_LEAST = 1e-9  # probability of a node that is kept where the teacher has several


def coordinates(
    strength: Float[Array, "dirs"], k: int, most: int, degree: int | None = None
) -> tuple[Float[Array, "u dirs"], Float[Array, "u"]]:
    """Nodes of u, the first k along the teacher's directions; more of them where neurons have large weights.

    Along a direction where they have none only the labels tell: of a polynomial few nodes know all moments that are asked for.
    """
    few = min(2 * (degree or 0) + 3, _STAR[k])
    rules = [
        normal_rule(_STAR[k], 1 / max(1.0, s)) if s > _UNSEEN or degree is None else hermite(few) for s in strength[:k]
    ]
    rules += [hermite(3 if s < _UNSEEN else min(5 + 2 * int(np.ceil(4 * max(s - 0.5, 0.0))), 25)) for s in strength[k:]]
    u, w, least = np.empty((1, 0)), np.ones(1), 1e-12 if k == 1 else _LEAST
    for x, share in rules:  # what is unlikely already becomes no likelier: all products would take GiBs
        product = np.outer(w, share)
        at, here = np.nonzero(product > least)
        if at.size > most:
            told = f"weights of {strength.max():.2g} of their length along the teacher and what batches add"
            raise TheoryError(f"the steps give neurons {told}, too large to be averaged over {k} directions")
        u, w = np.column_stack([u[at], x[here]]), product[at, here]
    return u, w / w.sum()


def hermite(count: int) -> tuple[Array, Array]:
    """Nodes and probabilities of a normal variable."""
    x, w = roots_hermitenorm(count)
    return x, w / w.sum()
