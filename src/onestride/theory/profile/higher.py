"""Degrees above one where inputs have a covariance: strengths are products of the eigenvalues, and so is what a teacher sees of them."""

# pyright: reportConstantRedefinition=false
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onestride._numerics import Array, Float
from onestride.teachers import products
from onestride.theory.profile.anisotropy import Nodes, Sigma, binned
from onestride.theory.profile.harmonics import multiplicity
from onestride.theory.profile.sectors import Sector

_PRODUCTS = 12  # bins of the products of strengths


class Energies(NamedTuple):
    """Energies of the teacher's directions in every bin, and by how much those of e ⊗ e on its diagonal differ from their squares."""

    energy: Float[Array, "k p"]
    beside_length: Float[Array, "k p"]


def seen_by(along: Float[Array, "k d"], sigma: Sigma, nodes: Nodes) -> Energies:
    """Energies e_p² in bins. Of degree two the length of x, a function of the row, holds e ⊗ e's part along Σ: κΣ/tr Σ², κ = eᵀΣe,
    which lies where λ_p is large; Σ_p (e_p² − κλ_p/tr Σ²)² is left on the diagonal.
    """
    lam = sigma.eigenvalues.copy()
    if sigma.spike is not None:  # not in the length of the rest
        lam[sigma.spike] = 0.0
    length = (along @ lam / (lam @ lam))[:, None]
    beside = length**2 * nodes.sum(lam**2) - 2 * length * nodes.sum(along * lam)
    return Energies(nodes.sum(along), beside)


def higher_sector(
    l: int, D: int, K: Array, h: Array, strength: Array, nodes: Nodes, teacher: Energies, kinds: Stretched
) -> Sector:
    """Degree l: strengths are products of l of those of degree one, in bins, and so is what each product of the teacher's
    directions sees of them (they are taken for orthogonal in every bin), where the batch has stretched neurons along each.
    """
    G, share, along, count = strength, nodes.share, teacher.energy, len(teacher.energy)
    for degree in range(2, l + 1):
        before = {product: j for j, product in enumerate(products(count, degree - 1))}
        G = (G[:, :, None] * strength[:, None, :]).reshape(G.shape[0], -1)
        share = np.outer(share, nodes.share).ravel()
        pairs = [np.outer(along[before[at[:-1]]], teacher.energy[at[-1]]) for at in products(count, degree)]
        if degree == 2:
            pairs = [_off_length(pair, teacher, *at) for pair, at in zip(pairs, products(count, 2), strict=True)]
        along = np.stack([pair.ravel() for pair in pairs])
        bins = binned(kinds.weight @ G, share, _PRODUCTS)
        G, along, share = bins.sum(share * G) / bins.share, bins.sum(along), bins.share
    frame = np.sqrt(along.T)[:, :, None] * np.eye(len(along))
    return Sector(multiplicity(D, l), K, G, share, h, G * kinds.stretch[:, None] ** l, frame)


class Stretched(NamedTuple):
    """Probabilities of the neurons, and by how much more the step has stretched them along the teacher than others: E/G."""

    weight: Float[Array, "k"]
    stretch: Float[Array, "k"]


def _off_length(pair: Float[Array, "p p"], teacher: Energies, a: int, b: int) -> Float[Array, "p p"]:
    """Energies of e_a ⊗ e_b without its part along Σ, which has none for two different directions."""
    if a != b:
        return pair
    left = np.maximum(pair + np.diag(teacher.beside_length[a]), 0.0)
    return left * (pair.sum() / left.sum())
