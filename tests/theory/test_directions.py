"""The theory for teachers of several directions: one direction in disguise, drawn matrices, limits, simulation."""

from __future__ import annotations

import numpy as np
import pytest

import onestride as one
from onestride import Problem, Step
from onestride.result import Status
from onestride.theory.direction import direction, without_a_direction
from onestride.theory.profile import degrees, memory
from onestride.theory.profile.build import build_model
from onestride.theory.profile.equations import solve
from onestride.theory.profile.errors import errors, errors_at
from onestride.theory.profile.gradient_noise import gradient_noise
from onestride.theory.profile.harmonics import radius_rule, resolve
from onestride.theory.profile.quadratic_form import quadratic_form
from onestride.theory.profile.several import ball, resolve_several, sight_along
from onestride.theory.reliability import known_off
from tolerances import K, assert_agrees, assert_close, false_alarm_rate, seeds_from

ONE = Problem(n=20, d=10, N=20, teacher=(0.0, 1.0, 0.5, 0.2)).target
NAMES = ("train_loss", "train_mse", "test_error")
DISGUISES = {
    "second of two": (2, lambda z: ONE(z[..., 1])),
    "mean of two": (2, lambda z: ONE(z.sum(-1) / np.sqrt(2))),
    "first of three": (3, lambda z: ONE(z[..., 0])),
}


def two_layer(z):
    return np.maximum(z[..., 0], 0) + np.maximum(z[..., 1] - z[..., 0], 0) + np.tanh(z[..., 1] + z[..., 2])


def bent(z):
    """Linear, quadratic and mixed parts in two directions: M couples them to each other and to the learned one."""
    return z[..., 0] + 0.5 * (z[..., 0] ** 2 - 1) + 0.8 * z[..., 0] * z[..., 1] + 0.3 * z[..., 1] ** 2


def problem(**changes) -> Problem:
    fields = {"n": 400, "d": 60, "N": 500, "noise": 0.3, "teacher": bent, "directions": 2, "step": Step(exponent=0.4)}
    return Problem(**(fields | changes))


# ------------------------------------------------------------------ one direction in disguise


@pytest.mark.parametrize("level", ["degrees", "full", "isotropic"])
@pytest.mark.parametrize("name", DISGUISES)
@pytest.mark.parametrize("setting", [{"d": 30, "activation": "shifted_erf"}, {"d": 200, "gradient": "labels"}])
def test_a_function_of_one_of_several_coordinates_is_a_teacher_of_one_direction(setting, name, level):
    """To the nodes of M's laws, which are cut differently: 2e-3 at the levels that resolve them."""
    k, f = DISGUISES[name]
    plain = problem(teacher=(0.0, 1.0, 0.5, 0.2), directions=1, **setting)
    steps = [plain.step, Step.none()]
    expected = errors(plain, steps, [0.01, 0.3], level=level)
    found = errors(plain.replace(teacher=f, directions=k), steps, [0.01, 0.3], level=level)
    for quantity in NAMES:
        tolerance = 1e-8 if level == "isotropic" else 2e-3
        assert_close(getattr(found, quantity), getattr(expected, quantity), rel=tolerance)


def test_so_it_is_for_what_is_learned_the_baselines_and_the_other_theories():
    k, f = DISGUISES["mean of two"]
    plain = problem(teacher=(0.0, 1.0, 0.5, 0.2), directions=1, n=300)
    several = plain.replace(teacher=f, directions=k)
    expected, found = one.learned(plain), one.learned(several)
    assert found.degrees == expected.degrees
    assert_close(found.fraction, expected.fraction, rel=3e-3, abs_=3e-4)
    assert_close(found.unexplained, expected.unexplained, rel=3e-3)
    assert_close(found.by_direction[0, :2], found.by_direction[1, :2], rel=1e-4)  # by symmetry, to the nodes
    assert_close(found.by_direction[0, 0], expected.fraction[0], rel=3e-3)
    for method, level in (("finite-step", None), ("plateau", None), ("profile", "resolved")):
        pair = [one.predict_grid(p, [0.3], [0.1], method=method, level=level).test_error for p in (plain, several)]
        assert_close(pair[1], pair[0], rel=2e-3)
    before, after = (one.baselines(p) for p in (plain, several))
    assert_close([after[b].test_error for b in after], [before[b].test_error for b in after], rel=1e-5)


# ------------------------------------------------------------------ its parts


def test_several_coordinates_of_the_sphere_are_resolved_as_one_is():
    """f(ϱz + √(1−ϱ²) r c₁) has the parts that `harmonics` gives, and none along other coordinates."""
    sigma, D, L = Problem(n=20, d=10, N=20).sigma, 29, 4
    z, r = np.linspace(-2, 2, 7), radius_rule(D, 7)[0]
    expected = resolve(sigma, 0.6 * z, 0.8 * r, D, L)
    h0, *parts, rest = resolve_several(lambda u: sigma(u[..., 0]), sight_along(0.6, z, 2), r, D, L)
    assert_close(h0, expected[0], rel=0, abs_=3e-3)  # Gauss's nodes see a kink between them
    for l, part in enumerate(parts, 1):
        assert part.shape == (7, l + 1)
        assert_close(np.sqrt((part**2).sum(1)), np.abs(expected[l]), rel=0, abs_=5e-3)
    assert_close(rest, expected[-2], rel=0, abs_=5e-3)


@pytest.mark.parametrize("mix", ["sum", "staircase"])
@pytest.mark.parametrize("L", [2, 5])
def test_polynomial_teachers_are_resolved_exactly_on_few_nodes(mix, L):
    """On one node more than their degree, or L, as on many."""
    target = Problem(n=20, d=10, N=20, teacher=[0, 1, 0.7], directions=2, mix=mix).target
    z, r = np.linspace(-2, 2, 7), radius_rule(29, 7)[0]
    assert target.degree == (2 if mix == "sum" else 4)
    few, many = (resolve_several(target.at, sight_along(0.6, z, 2), r, 29, L, degree=k) for k in (target.degree, None))
    for a, b in zip(few, many, strict=True):
        assert_close(a, b, rel=0, abs_=1e-8)  # of many, those of weight below 1e-15 are left out


@pytest.mark.parametrize(("D", "k"), [(9, 3), (30, 2), (10**15, 3)])
def test_polynomials_of_several_coordinates_are_orthonormal_harmonics(D, k):
    """Orthonormal, the first degree is √D c, and those of one degree are orthogonal to all polynomials of lower degree."""
    nodes = ball(D, k, 4, 12)
    assert_close((nodes.basis.T * nodes.weight) @ nodes.basis, np.eye(nodes.basis.shape[1]), rel=0, abs_=1e-9)
    assert_close(nodes.basis[:, 1 : 1 + k], np.sqrt(D) * nodes.c, rel=1e-7, abs_=1e-7)
    lower = nodes.c[:, 0] * nodes.c[:, -1] * D
    assert_close((nodes.weight * lower) @ nodes.basis[:, -3:], 0, rel=0, abs_=1e-8)


def test_matrix_laws_are_those_of_drawn_matrices():
    """t̂ = β̂: means and mean squares of M along e and u₂, between them, and t̂ᵀMe, t̂ᵀMu₂; n = 4000, d = 200, 12 draws.

    Floor 5 % of 1 + the number, k = 5, eight checks with 11 degrees of freedom: false-alarm rate below 5e-3 beyond it.
    """
    assert false_alarm_rate(12, checks=8, k=K) < 5e-3
    p, rng, drawn = problem(n=4000, d=200, gradient="labels", noise=0.0), np.random.default_rng(5), []
    g = p.target
    for _ in range(12):
        X = rng.standard_normal((p.n, p.d))
        r = g.at(X[:, :2])
        beta = X.T @ r / p.n
        beta /= np.linalg.norm(beta)
        e = np.eye(p.d)[0] - beta[0] * beta
        u = np.eye(p.d)[1] - beta[1] * beta
        frame = np.stack([e / np.linalg.norm(e), u / np.linalg.norm(u)])
        image = np.stack([X.T @ (r * (X @ v)) / p.n for v in (*frame, beta)])
        first, second, cross = frame @ image[:2].T, image[:2] @ image[:2].T, image[2] @ frame.T
        drawn.append([first[0, 0], first[0, 1], first[1, 1], second[0, 0], second[0, 1], second[1, 1], *cross])
    noise = gradient_noise(p)
    law = noise.teacher_law(0.0)
    shares = np.einsum("pca,pcb->pab", law.frame, law.frame)
    assert_close(shares.sum(0), np.eye(2), rel=0, abs_=1e-9)
    m1, m2 = (np.tensordot(law.eigenvalue**power, shares, 1) for power in (1, 2))
    coupled = noise.coupling(0.0, direction(p).overlap)[0]
    expected = [m1[0, 0], m1[0, 1], m1[1, 1], m2[0, 0], m2[0, 1], m2[1, 1], *coupled]
    assert np.abs(coupled[1]) > 0.2
    for value, column in zip(expected, np.array(drawn).T, strict=True):
        assert_agrees(3 + value, 3 + column, floor=0.02)


@pytest.mark.parametrize(("directions", "n"), [(1, 2_000), (2, 2_000), (2, 400), (3, 2_000)])
def test_equal_eigenvalues_of_the_matrix_that_stick_out_are_all_there(directions, n):
    """y = Σ H₂(u_a)/√k: uᵀMu has the mean E[y(u² − 1)] = 2/√k along each, to 4 %, by groups
    of equal residuals. Two poles at one place turn the phase of det to where it was: one stretch and three were found, two were lost."""
    p = problem(teacher=[0, 0, 1], directions=directions, n=n, d=20, noise=0.0, gradient="labels")
    law = gradient_noise(p).teacher_law(0.0)
    mean = np.einsum("p,pca,pcb->ab", law.eigenvalue, law.frame, law.frame)
    assert_close(mean, 2 / np.sqrt(directions) * np.eye(directions), rel=0.04, abs_=0.02)


def test_a_step_that_stretches_two_directions_alike_gives_the_simulated_errors():
    """40 seeds, 18 November 2026: 0.807 ± 0.013 and 1.576 ± 0.024; with both stretches left out 0.900 and 1.756."""
    p = problem(
        n=510, d=24, N=183, n_step=1020, activation="elu", teacher=[0, 0, 1], noise=0.3, gradient="labels", ridge=0.01,
        directions=2, centred=False, step=Step(constant=0.4779, exponent=0.4903),
    )  # fmt: skip
    found = one.predict(p, throw=False)  # the mark is a caution here
    assert_close([found.train_mse, found.test_error], [0.807, 1.576], rel=0.03)


def test_what_the_length_tells_leaves_no_negative_variance():
    """E − XXᵀ = share·E + excess, and neither part has a negative eigenvalue while XᵀE⁻¹X ≤ 1."""
    rng = np.random.default_rng(2)
    root, X = rng.standard_normal((50, 3, 3)), rng.standard_normal((50, 3))
    E = root @ root.transpose(0, 2, 1)
    X *= (rng.uniform(0, 1, 50) / np.sqrt(memory.told(E, X)))[:, None]
    share, excess = memory.given_length(E, X)
    assert_close(share[:, None, None] * E + excess, E - X[:, :, None] * X[:, None, :], rel=0, abs_=1e-9)
    assert (np.linalg.eigvalsh(excess).min(1) > -1e-9 * np.abs(E).max((1, 2))).all()


def test_no_variance_of_a_trained_model_is_negative():
    """Where the length of a neuron tells all of its weight along one direction, the others keep theirs."""
    for step in (Step(constant=1e-6), Step(exponent=0.4)):
        means = build_model(problem(teacher=two_layer, directions=3, step=step)).means
        (excess,) = means.excess
        assert excess is not None
        assert np.linalg.eigvalsh(excess).min() > -1e-9


@pytest.mark.parametrize("gradient", ["full", "labels"])
def test_a_vanishing_step_is_no_step(gradient):
    """t̂ = p then: what the length of a neuron tells of its weight along the teacher must not be counted twice."""
    p = problem(
        teacher=two_layer, directions=3, d=200, gradient=gradient, step=Step(constant=1e-6), activation="softplus"
    )
    found = errors(p, [p.step, Step.none()], [0.01, 0.3])
    for quantity in NAMES:
        after, before = getattr(found, quantity)
        assert_close(after, before, rel=4e-3)


def test_errors_are_derivatives_of_the_quadratic_form():
    """Training error −λ² ∂Y/∂λ, by finite differences of Y, for three directions and every degree."""
    p = problem(teacher=two_layer, directions=3, d=40, activation="shifted_erf")
    model, lam, h = degrees.build(p, nodes=15), 0.1, 1e-4
    sides = [float(quadratic_form(model, solve(model, lam * (1 + s * h)))[0]) for s in (1, -1)]
    slope = (sides[0] - sides[1]) / (2 * h * lam)
    objective, train, _ = errors_at(model, solve(model, lam))
    assert_close(train, -(lam**2) * slope, rel=1e-5)
    assert_close(objective, lam * float(quadratic_form(model, solve(model, lam))[0]), rel=1e-12)


# ------------------------------------------------------------------ E[y z] = 0


def test_a_parity_says_that_one_step_learns_nothing_and_why():
    p = problem(teacher=lambda z: z[..., 0] * z[..., 1], d=300, n=600, N=700)
    assert direction(p).overlap == 0
    assert "E[y z] = 0" in (without_a_direction(p) or "")
    assert "E[y z] = 0" in one.predict(p).accuracy
    found = one.learned(p)
    assert "E[y z] = 0" in found.message
    assert found.degrees == (2,)
    assert abs(found.fraction[0]) < 0.02
    assert np.isnan(found.by_direction).all()
    assert without_a_direction(p.replace(step=Step.none())) is None
    assert without_a_direction(problem()) is None


def test_a_teacher_that_is_zero_leaves_the_noise():
    """g = 0: what the trained network fits is noise, and the untrained one's error is that of one direction that is 0."""
    nothing = [
        problem(teacher=f, directions=k) for k, f in ((1, (0.0, 0.0)), (2, lambda z: 0 * z[..., 0]), (3, (0.0, 0.0)))
    ]
    found = [one.predict(p).test_error for p in nothing]
    assert_close(found[1:], found[0], rel=2e-3)


# ------------------------------------------------------------------ where it is known to be off


def test_directions_that_are_stretched_or_bent_too_far_are_marked():
    parity = problem(teacher=lambda z: z[..., 0] * z[..., 1], d=25, n=700, N=340, activation="silu", noise=0.0)
    assert "stretches neurons along directions" in (known_off(parity.at(exponent=0.5)) or "")
    assert known_off(parity.at(exponent=0.3)) is None
    fields = {"d": 36, "n": 1450, "N": 2598, "n_step": 4350, "gradient": "labels", "activation": "tanh", "noise": 0.0}
    cubic = problem(
        teacher=lambda z: np.tanh(z[..., 0] + z[..., 1] ** 3 - 3 * z[..., 1]), **fields, step=Step(constant=2.0)
    )
    assert "bends neurons towards directions" in (known_off(cubic.at(exponent=0.5)) or "")
    assert known_off(cubic.at(exponent=0.2)) is None
    assert one.predict(cubic.at(exponent=0.5), throw=False).status is Status.INACCURATE


# ------------------------------------------------------------------ simulation


@pytest.mark.statistical(rate=3e-2)
def test_errors_and_learned_parts_agree_with_simulation(seed):
    """n = 500, d = 50, k = 3, 10 seeds: the three errors and the fractions of degrees 1 and 2, floor 4 % (of 1 for those)."""
    p = Problem(
        n=500, d=50, N=400, teacher=two_layer, directions=3, noise=0.3, activation="relu", step=Step(exponent=0.45)
    )
    assert false_alarm_rate(10, checks=5, k=K) < 3e-2
    seeds = seeds_from(seed, 10)
    measured, predicted = one.simulate(p, seeds), one.predict(p)
    for quantity in NAMES:
        assert_agrees(getattr(predicted, quantity), getattr(measured, quantity).values, floor=0.04)
    shares, found = one.learned(p), one.measure_learned(p, seeds)
    for i in range(2):
        assert_agrees(1 + shares.fraction[i], 1 + found.fraction.values[:, i], floor=0.04)


def test_a_model_of_several_directions_has_their_blocks():
    model = build_model(problem(teacher=two_layer, directions=3))
    assert [c.shape for c in model.means.carried] == [(3, 3)]
    assert [s.h.shape[1] for s in model.sectors[:3]] == [3, 6, 10][: len(model.sectors)]
    assert model.means.cases[0][1].shape[1] == 5 * model.w.size
