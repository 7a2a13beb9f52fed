"""One seed's errors: plain, and freed of the luck whose law is known.

    plain      what labels y = g + σu give
    freed      the same averaged over the noise: both training errors and the test error are gg + 2σ·gu + σ²·uu, and
               freed = gg + σ²·(uu of noise of length √n, the mean over u and some more draws of it)
    precise    freed_i − Σ_k b_k m_ik,   m the moments of seed i (`known`), b the slopes (`slopes`) of the *other* seeds

All three have the same expectation: b is independent of m_i and E m_i = 0. A ridge regression on the samples of the step
(`fresh=False`) has features that know u, so its labels are not split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onestride._backend.threads import together
from onestride._numerics import Array, Float, Int
from onestride.result import Estimate, Luck
from onestride.simulation.features import Trained
from onestride.simulation.held_out import GAP, HeldOut
from onestride.simulation.network import draw_noise, ridge_roles
from onestride.simulation.ridge import SplitPath
from onestride.simulation.slopes import neurons, slopes


@dataclass(frozen=True)
class Drawn:
    """Ridge objective, training error and test error (first axis) of one seed, or of a stack of them, and the luck in them."""

    plain: Float[Array, "3 networks *s penalties"]
    freed: Float[Array, "3 networks *s penalties"]
    slopes: Float[Array, "3 networks *s penalties moments"]
    moments: Float[Array, "*s moments"]

    def apart(self) -> list[Drawn]:
        """Each seed of a stack."""
        plain, freed, slope = (np.moveaxis(part, 2, 0) for part in (self.plain, self.freed, self.slopes))
        return [Drawn(*one) for one in zip(plain, freed, slope, self.moments, strict=True)]


def measured(
    trained: Trained,
    paths: list[SplitPath],
    held: HeldOut,
    fit: Float[Array, "*s fit"],
    beta: Float[Array, "*s 2 d"] | None,
) -> Drawn:
    """Put the parts of one seed together; `fit` are the moments of its labels, `beta` Xᵀr/n₀ and Xᵀy/n₀ of the step.

    Of a stack of seeds everything has one more axis, in what is returned after that of the networks.
    """
    problem, known, noise = trained.plan.problem, held.known, trained.plan.problem.noise
    u = trained.drawn(lambda seed: draw_noise(seed, ridge_roles(problem)[1], problem.n))
    unit = problem.n / (u**2).sum(-1)[..., None]
    train = np.stack([[path.loss for path in paths], [path.mse for path in paths]])  # 2 × networks × parts × penalties
    whole = np.array([1.0, 2 * noise, noise**2])
    averaged = np.stack([np.moveaxis(path.noise, -2, 0) for path in paths], axis=1)
    both = held.with_noise(noise)
    plain = [*np.einsum("...ap,a->...p", train, whole), both.power(GAP, GAP) + noise**2]
    if problem.fresh:
        train_freed = train[..., 0, :] + noise**2 * averaged
        freed = [*train_freed, held.error() + noise**2 * (1 + held.noise(unit))]
    else:
        freed = [*plain[:2], both.error() + noise**2]
    cells = neurons(trained, known)
    tilt = np.zeros(u.shape[:-1])
    if beta is not None:
        first, b = known.coordinates[..., 0, :], beta[..., 0, :]
        tilt = np.asarray(np.sqrt(((b - first * (first * b).sum(-1, keepdims=True)) ** 2).sum(-1)))

    def of_network(j: int) -> Array:
        return slopes(trained, j, paths[j], held, unit, cells and (cells, tilt))

    networks = range(len(paths))
    each = together(of_network, networks) if trained.plan.networks_at_once > 1 else list(map(of_network, networks))
    along = None if cells is None else cells.before[..., : problem.directions]
    slope = np.nan_to_num(np.stack(each, axis=1))
    return Drawn(np.array(plain), np.array(freed), slope, known.of_draw(fit, beta, along))


def estimates(drawn: Sequence[Drawn], which: Int[Array, "exponents"]) -> list[Estimate]:
    """The three errors of these networks, axes (seeds, networks, penalties)."""
    plain, freed, slope = (
        np.stack([getattr(one, name)[:, which] for one in drawn], axis=1) for name in ("plain", "freed", "slopes")
    )
    moments = np.stack([one.moments for one in drawn])
    return [Estimate.freed(plain[q], Luck(freed[q], slope[q], moments)) for q in range(3)]
