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

from onestride._numerics import Array, Float, Int
from onestride.result import Estimate, Luck
from onestride.simulation.features import Trained
from onestride.simulation.held_out import GAP, HeldOut
from onestride.simulation.network import draw_noise, ridge_roles
from onestride.simulation.ridge import SplitPath
from onestride.simulation.slopes import neurons, slopes


@dataclass(frozen=True)
class Drawn:
    """Train loss, train MSE and test error (first axis) of one seed, and the luck in them."""

    plain: Float[Array, "3 networks penalties"]
    freed: Float[Array, "3 networks penalties"]
    slopes: Float[Array, "3 networks penalties moments"]
    moments: Float[Array, "moments"]


def measured(
    trained: Trained, paths: list[SplitPath], held: HeldOut, fit: Float[Array, "fit"], beta: Float[Array, "2 d"] | None
) -> Drawn:
    """Put the parts of one seed together; `fit` are the moments of its labels, `beta` Xᵀr/n₀ and Xᵀy/n₀ of the step."""
    problem, known = trained.plan.problem, held.known
    u, noise = draw_noise(trained.seed, ridge_roles(problem)[1], problem.n), problem.noise
    unit = problem.n / float(u @ u)
    train = np.stack([[path.loss for path in paths], [path.mse for path in paths]])  # 2 × networks × parts × penalties
    whole, averaged = np.array([1.0, 2 * noise, noise**2]), np.stack([path.noise for path in paths], axis=1)
    both = held.with_noise(noise)
    plain = [*np.einsum("qnap,a->qnp", train, whole), both.power(GAP, GAP) + noise**2]
    if problem.fresh:
        train_freed = train[:, :, 0] + noise**2 * averaged
        freed = [*train_freed, held.error() + noise**2 * (1 + held.noise(unit))]
    else:
        freed = [*plain[:2], both.error() + noise**2]
    cells = neurons(trained, known)
    tilt = (
        0.0
        if beta is None
        else float(np.linalg.norm(beta[0] - known.coordinates[0] * (known.coordinates[0] @ beta[0])))
    )
    each = [slopes(trained, j, path, held, unit, cells and (cells, tilt)) for j, path in enumerate(paths)]
    moments = known.of_draw(fit, beta, None if cells is None else cells.before[:, : problem.directions])
    return Drawn(np.array(plain), np.array(freed), np.nan_to_num(np.stack(each, axis=1)), moments)


def estimates(drawn: Sequence[Drawn], which: Int[Array, "exponents"]) -> list[Estimate]:
    """The three errors of these networks, axes (seeds, networks, penalties)."""
    plain, freed, slope = (
        np.stack([getattr(one, name)[:, which] for one in drawn], axis=1) for name in ("plain", "freed", "slopes")
    )
    moments = np.stack([one.moments for one in drawn])
    return [Estimate.freed(plain[q], Luck(freed[q], slope[q], moments)) for q in range(3)]
