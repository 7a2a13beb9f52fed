"""Several steps on inputs with a covariance: the identity, one step, networks that take the steps, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from onestride import Covariance, Problem, Step
from onestride.result import Status
from onestride.simulation.network import draw_network, draw_teacher, trained_weights
from onestride.theory.profile import covariance, schedule
from onestride.theory.profile import errors as profile
from onestride.theory.profile.anisotropy import Counts, directions, sigma_of
from onestride.theory.profile.correlated import Course, course_directions, travel_correlated
from onestride.theory.profile.equations import solve
from onestride.theory.profile.errors import errors_at
from onestride.theory.profile.leading import learned, to_first_order
from onestride.theory.profile.moves import one_step
from onestride.theory.profile.travel import stable, travel
from tolerances import assert_agrees, assert_close, seeds_from


def problem(**changes) -> Problem:
    fields = {"n": 200, "d": 100, "N": 250, "teacher": (0, 1, 0.5), "noise": 0.5, "inputs": "power", "steps": 2}
    return Problem(**(fields | {"step": Step(exponent=0.2)} | changes))


def errors_of(model, lam=0.03) -> np.ndarray:
    found = [(chance, member.at(lam)) for chance, member in model.members]
    return np.sum([chance * np.array(errors_at(here, solve(here, lam))) for chance, here in found], axis=0)


@pytest.mark.long
@pytest.mark.parametrize("changes", [{"gradient": "labels", "step": Step(exponent=0.4)}, {"steps": 3}])
def test_the_identity_gives_the_theory_of_isotropic_inputs(changes):
    p = problem(**changes, inputs="gaussian")
    same = covariance.build(p.replace(inputs=Covariance((1.0,) * p.d)))
    assert_close(errors_of(same), errors_of(schedule.build(p)), rel=0.01)


@pytest.mark.long
def test_a_direction_that_labels_do_not_depend_on_changes_nothing():
    p = problem()
    several = p.replace(teacher=lambda z: z[..., 1] + 0.5 * (z[..., 1] ** 2 - 1), directions=2)
    assert_close(errors_of(covariance.build(several)), errors_of(covariance.build(p)), rel=2e-3)


def test_every_direction_brings_the_covariance_with_it():
    """σ(z) = z without noise and n ≫ d: W ← W + ηa(β⋆ − Wᵀa)ᵀΣ, so that t = Wᵀa is a polynomial of Σ."""
    p = problem(activation=(0, 1.0), teacher=(0, 1), noise=0.0, n_step=10**9, step=Step(constant=0.3, exponent=0.0))
    course = travel_correlated(p, 31)
    assert isinstance(course, Course)
    lam, end = course.sigma.eigenvalues, course.end
    star = end.weight * end.A @ end.L[:, 0] * np.sqrt(p.N)  # sᵀΣ^{1/2}t
    left = (1 - 0.3 * lam) ** 2  # of β⋆ − t after two steps, less what is left of p
    assert_close(star, np.sum(course.sigma.energy[0] * lam * (1 - left)), rel=1e-3)
    for j, unit in enumerate(course.units):
        for i, other in enumerate(course.units):
            assert abs(course.frame.inner(unit, other) - (i == j)) < 1e-6


@pytest.mark.statistical(rate=2e-3)
@pytest.mark.parametrize("changes", [{}, {"gradient": "labels", "step": Step(exponent=0.4)}])
def test_the_weights_of_drawn_networks_follow_the_map(changes, seed):
    """Mean of A s·ω, |ω|² and |Σ^{1/2}ω|² (ω = Σ^{1/2}w) over the neurons: 3 checks, k = 5, 8 seeds, 4 % floor: below 2 in 1,000."""
    p = problem(**changes, n=400, d=200, N=400, inputs=Covariance((1.6,) * 100 + (0.4,) * 100))
    lam, measured = p.law.eigenvalues(p.d), []
    for s in seeds_from(seed, 8):
        network, star = draw_network(p, s), draw_teacher(p, s)
        W, A = trained_weights(p, network, s), network.a * np.sqrt(p.N)
        measured.append([(W @ (lam * star) * A).mean(), (W**2 @ lam).mean(), (W**2 @ lam**2).mean()])
    course = travel(p)
    assert isinstance(course, Course)
    end, units = course.end, course.units
    again = course.frame.gram(units, units, lam)
    kept = np.prod(1 + course.grows[:, None] * lam[:, None], axis=2) ** 2
    twice = np.einsum("ai,ij,aj->a", end.L, again, end.L) + kept @ lam**2 / p.d + course.noise * np.mean(lam**3)
    theory = [end.L[:, 0] * end.A, end.v + (end.L**2).sum(1), twice]
    for expected, found in zip(theory, np.array(measured).T, strict=True):
        assert_agrees(float(end.weight @ expected), found, floor=0.04)


def test_the_noise_of_a_batch_adds_to_what_is_learned_along_a_spike():
    """As after one step, for any number of nodes: LAPACK's singular vectors have either sign, and −ν learned 10 % less."""
    p = problem(n=308, d=23, N=1308, activation="silu", step=Step(constant=2.0, exponent=0.4))
    ends = [travel_correlated(p, nodes).end for nodes in (31, 61)]
    lengths = [end.weight @ (end.L**2).sum(1) for end in ends]
    assert_close(*lengths, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("activation", "steps", "c"), [("relu", 2, 1.0), ("tanh", 3, 0.5), ("silu", 3, 0.5)])
def test_draws_are_as_accurate_on_few_nodes_after_several_steps(monkeypatch, activation, steps, c):
    """Against 45 nodes of the readout and all of z, ar1, d = 18: within 0.15 %."""
    p = problem(
        n=400, d=18, N=400, inputs="ar1", activation=activation, steps=steps, step=Step(constant=c, exponent=0.3)
    )
    few = errors_of(covariance.build(p))
    monkeypatch.setattr(covariance, "after_steps", lambda nodes, chance, *, every: Counts(nodes, 45, chance))
    assert_close(few, errors_of(covariance.build(p)), rel=1.5e-3)


@pytest.mark.parametrize("refused", [(0, 1), (0,), ()])
def test_other_draws_are_followed_where_the_likeliest_has_a_number(monkeypatch, refused):
    """Where fewer nodes give something else at every penalty, the others are not built; elsewhere they are walked at the penalties left."""
    built, walked = [], []

    def model(*_, likeliest=False, **__):
        built.append(likeliest)
        one = SimpleNamespace(learned=SimpleNamespace(amplitude=5.0))
        one.members = ((1.0, one),) if likeliest else ((0.6, one), (0.4, one))
        return one

    def walk(_, lam, trail, member):
        walked.append((member, list(lam)))
        values = np.full((3, lam.size), 1.0 + member)
        values[:, list(refused)] += len(walked) == 2  # the one on fewer nodes
        return values, np.zeros(lam.size), np.ones(lam.size, int), np.full(lam.size, Status.SOLVED.value, object)

    for name, fake in (("try_model", model), ("build_model", model), ("_walk", walk)):
        monkeypatch.setattr(profile, name, fake)
    p, ridges = problem(inputs="ar1"), [0.1, 1.0]
    found = profile.errors(p, [p.step], ridges)
    left = [lam for j, lam in enumerate(ridges) if j not in refused]
    assert built == [True, True, *([False] if left else [])]
    assert walked == [(0, ridges), (0, ridges), *([(1, left)] if left else [])]
    told = [j in refused for j in range(2)]
    assert ["too few" in message for message in found.message[0]] == told
    np.testing.assert_allclose(found.test_error[0], np.where(told, np.nan, 0.6 * 1 + 0.4 * 2))


def test_descent_is_stable_up_to_the_bound():
    for factor, grows in ((0.9, False), (1.2, True)):
        p = problem(activation=(0, 1.0), teacher=(0, 1), steps=12)
        p = p.replace(step=Step(constant=factor * stable(p), exponent=0.0))
        assert (travel(p).powers[-1] > travel(p).powers[3]) == grows
    assert_close(stable(p.replace(inputs=Covariance((1.0,) * p.d))), 2 / (1 + p.d / p.n), rel=1e-9)


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "close"),
    [
        ({"inputs": "elliptic", "teacher": (0, 1), "step": Step(exponent=0.1)}, 2e-3),
        ({"inputs": Covariance.spiked(100, 8.0, 0.5), "gradient": "labels"}, 5e-3),
        ({"gradient": "labels", "activation": "tanh"}, 2e-3),
    ],
    ids=["lengths", "spike", "power"],
)
def test_one_step_is_the_theory_of_one_step(changes, close):
    p, sigma = problem(**changes, steps=1), sigma_of(problem(**changes))
    at = directions(p, sigma)
    course = travel_correlated(p, 31)
    assert isinstance(course, Course)
    both = ((at, one_step(p, at, 31)), course_directions(p, course))
    expected, found = (errors_of(covariance.Builder(p, *moved, 31, 1e-7).model) for moved in both)
    assert_close(found, expected, rel=close)


def test_neurons_that_are_all_alike_have_one_learned_direction():
    """A constant readout has one node of A: there is no second singular value to look at."""
    p = problem(readout="constant", gradient="labels", inputs="power", steps=2)
    path = travel(p)
    assert path.end.A.size == 1
    E = learned(path)
    assert E.shape[0] == 1
    np.testing.assert_allclose(np.abs(E @ path.end.L[0]), np.linalg.norm(path.end.L[0]), rtol=1e-9)


def test_what_is_left_off_no_direction_is_every_weight():
    path = travel(problem())
    values = np.linalg.svd(np.sqrt(path.end.weight)[:, None] * path.end.L, compute_uv=False)
    assert to_first_order(path, 0) == pytest.approx(np.sqrt(path.end.weight @ (path.end.L**2).sum(1)))
    assert to_first_order(path, values.size - 1) == pytest.approx(values[-1])
