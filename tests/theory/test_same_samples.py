"""The map on one batch: one step as on a fresh one, a linear network, drawn networks."""

from __future__ import annotations

import numpy as np
import pytest

from onestride import Problem, Step
from onestride.simulation.network import draw_network, draw_teacher, gradient, step_batch, weights_path
from onestride.theory.profile.one_neuron import travel_fresh
from onestride.theory.profile.same_samples import travel_again
from onestride.theory.profile.travel import stable, travel
from recorded import key_of
from tolerances import assert_agrees, seeds_from


def problem(**changes) -> Problem:
    fields = {
        "n": 600,
        "d": 300,
        "N": 800,
        "activation": "relu",
        "teacher": (0, 1, 0.5),
        "noise": 0.3,
        "batch": "reused",
    }
    return Problem(**(fields | {"step": Step(constant=1, exponent=0.3)} | changes))


@pytest.mark.parametrize("gradient", ["full", "labels"])
def test_one_step_is_one_on_a_fresh_batch(gradient):
    """To the 0.2 % of the rows' points."""
    p = problem(gradient=gradient)
    again, fresh = travel_again(p, 31), travel_fresh(p, 31)
    for one, other in ((again.end.v, fresh.end.v), (again.end.b, fresh.end.b), (again.end.star, fresh.end.star)):
        np.testing.assert_allclose(one, other, rtol=1e-2)
    np.testing.assert_allclose((again.end.L**2).sum(1), (fresh.end.L**2).sum(1), rtol=1e-2, atol=1e-6)
    np.testing.assert_allclose(again.powers, fresh.powers, rtol=5e-3)
    np.testing.assert_allclose(again.shared_power, fresh.shared_power, rtol=5e-3)


def test_a_linear_network_is_descent_of_least_squares():
    """σ(z) = z, labels linear: t_T = (1 − ηS)^T p + (1 − (1 − ηS)^T) S⁺(…), moments of S = XᵀX/n by a drawn matrix, 5 %."""
    p = problem(activation=(0, 1.0), teacher=(0, 1.0), steps=3, step=Step(constant=0.5), n=3000, d=1500, N=5000)
    rng = np.random.default_rng(0)
    X, star, out = rng.standard_normal((p.n, p.d)), np.eye(p.d)[0], np.eye(p.d)[1]
    y, t = X @ star + p.noise * rng.standard_normal(p.n), out
    powers = []
    for eta in p.etas:
        powers.append(np.mean((y - X @ t) ** 2))
        t = t + eta * X.T @ (y - X @ t) / p.n
    end = travel(p).end
    slope = (end.weight * end.A) @ end.L * np.sqrt(p.N)
    np.testing.assert_allclose(travel(p).powers, powers, rtol=0.05)
    np.testing.assert_allclose(slope[0], t @ star, rtol=0.05)
    np.testing.assert_allclose(slope @ slope, t @ t, rtol=0.05)


@pytest.mark.statistical(rate=4e-3)
@pytest.mark.parametrize("gradient_kind", ["full", "labels"])
def test_drawn_networks_follow_the_map(gradient_kind, seed, on_file):
    """Weight on β⋆ times A, |w|² and E r² before the last step: 3 checks, k = 5, 16 seeds; floors 4 %, 4 % and 25 %.

    The literal gradient's power, a quarter of the labels', differs by 30 % from draw to draw here, beyond the bound of descent, and its map is
    that of large n: 8 ± 3 % high (120 seeds), with steps of 0.7 times the size 12 ± 1 % low. The rate is that of groups of 16 of those seeds.
    """
    p = problem(gradient=gradient_kind, steps=3, step=Step(constant=1, exponent=0.15))

    def drawn(s):
        network, star = draw_network(p, s), draw_teacher(p, s)
        A = network.a * np.sqrt(p.N)
        *_, before, W = weights_path(p, network, s, p.eta)
        r = gradient(p, type(network)(before, network.a), step_batch(p, s)).residual
        return [(W @ star * A).mean(), (W**2).sum(1).mean(), np.mean(r**2)]

    key = key_of("drawn networks, one batch", p.to_dict())
    measured = on_file(key, seeds_from(seed, 16), lambda seeds: [drawn(s) for s in seeds])
    path = travel(p)
    end = path.end
    theory = [end.weight @ (end.L[:, 0] * end.A), end.weight @ (end.v + (end.L**2).sum(1)), path.powers[-1]]
    for expected, found, floor in zip(theory, np.array(measured).T, (0.04, 0.04, 0.25), strict=True):
        assert_agrees(float(expected), found, floor=floor)


def test_descent_on_one_batch_is_stable_up_to_its_bound():
    """For σ(z) = z: the residual's power falls below the bound, and grows above it after enough steps."""
    for factor, grows in ((0.9, False), (1.4, True)):
        p = problem(activation=(0, 1.0), steps=12)
        p = p.replace(step=Step(constant=factor * stable(p)))
        powers = travel(p).powers
        assert (powers[-1] > powers[-4]) == grows
