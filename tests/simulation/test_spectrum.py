"""Leading triplets and densities from products alone, against full decompositions."""

from __future__ import annotations

import numpy as np
import pytest

import onestride as one
from networks import LIBRARIES, problem
from onestride.simulation import panels
from onestride.simulation.density import measure_density
from onestride.simulation.krylov import lanczos_quadrature, leading_eigenpairs
from onestride.simulation.learned import measure_learned_along
from onestride.simulation.network import draw_batch, draw_network, step_gradient
from onestride.simulation.rows import Rows
from onestride.simulation.spectrum import decompose, measure_spectrum, measure_spectrum_along
from tolerances import assert_agrees, seeds_from


@pytest.mark.parametrize("library", ["cpu", *LIBRARIES])
@pytest.mark.parametrize("sizes", [{"n": 300, "N": 450}, {"n": 500, "N": 300}], ids=["n < N", "n > N"])
def test_leading_triplets_equal_those_of_a_full_decomposition(library, sizes):
    p = problem(**sizes, d=150, step=one.Step(constant=2.0, exponent=0.35))
    full, lanczos = measure_spectrum(p, 2), measure_spectrum(p, 2, full=False, device=library)
    np.testing.assert_allclose(lanczos.leading.values, full.leading.values, rtol=1e-10)
    np.testing.assert_allclose(lanczos.overlaps.values, full.overlaps.values, atol=1e-6)
    np.testing.assert_allclose(lanczos.untrained_edge.values, full.untrained_edge.values, rtol=1e-10)
    np.testing.assert_array_equal(lanczos.outliers.values, full.outliers.values)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("sizes", [{"n": 150, "N": 200}, {"n": 200, "N": 150}], ids=["n < N", "n > N"])
def test_a_full_decomposition_is_the_same_on_every_device(library, sizes, monkeypatch):
    monkeypatch.setattr(panels, "DEVICE_BLOCK", 16)  # a device has only the lower triangle of the Gram matrix
    p = problem(**sizes, d=80, step=one.Step(constant=2.0, exponent=0.35))
    here, there = (measure_spectrum(p, 1, device=device) for device in ("cpu", library))
    np.testing.assert_allclose(there.eigenvalues.values, here.eigenvalues.values, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(there.overlaps.values, here.overlaps.values, atol=1e-7)


@pytest.mark.parametrize(
    "changes", [{}, {"steps": 3}, {"steps": 3, "batch": "reused"}, {"steps": 2, "readout": "constant"}]
)
def test_spikes_of_several_steps_are_functions_of_what_all_of_them_learned(changes):
    """Three steps make an eigenvalue of 10 and more beside a bulk that ends at 3; along β of the first step lies 5 to 64 % of its vector."""
    p = problem(n=400, d=200, N=600, activation="softplus", noise=0.5, step=one.Step(exponent=0.3), **changes)
    found = measure_spectrum(p, 2, count=2)
    assert (found.leading.values[:, 0] > 1.5 * found.untrained_edge.values).all()
    assert (found.on_direction.values[:, 0] > 0.85).all()
    assert (found.outliers.values >= 1).all()


def test_lanczos_falls_back_when_eigenvalues_coincide():
    values, vectors = leading_eigenpairs(Rows.stored(np.eye(30)), 3)
    np.testing.assert_allclose(values, 1.0)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(3), atol=1e-12)


def test_lanczos_quadrature_is_exact_for_moments_of_each_probe():
    B = np.random.default_rng(0).standard_normal((90, 60))
    nodes, weights = lanczos_quadrature(Rows.stored(B), np.random.default_rng(5), probes=3, steps=12)
    V = np.random.default_rng(5).standard_normal((60, 3))
    V /= np.linalg.norm(V, axis=0)
    power = V
    for k in range(8):
        moment = float((V * power).sum() / 3)
        assert (weights * nodes**k).sum() == pytest.approx(moment, rel=1e-10)
        power = B.T @ (B @ power)


@pytest.mark.statistical(rate=3e-3)
@pytest.mark.parametrize(("n", "N"), [(200, 300), (300, 200)], ids=["n < N", "n > N"])
def test_measured_density_is_the_smoothed_spectrum(n, N, seed):
    """The mass in each quarter of the range against a full decomposition, 10 seeds, k = 5, no floor: unbiased.

    Eight random probes of 200 coordinates miss a mass by 0.3 to 1.5 % of the whole, so one seed says little.
    """
    p = problem(n=n, d=100, N=N)
    found = measure_density(p, seeds_from(seed, 10))
    assert found.to_dict()["density"]["mean"] == found.density.mean.tolist()
    step = found.points[1] - found.points[0]
    missed = []
    for k, row in zip(found.seeds, found.density.values, strict=True):
        network = draw_network(p, k)
        W = network.W0 + p.eta * step_gradient(p, network, k).G
        X = draw_batch(p, k, "ridge_inputs", None, p.n).X
        values, _ = decompose(Rows.longer(p.sigma(X @ W.T)), p.n, 0)
        sides = [found.points[:, None] + sign * values for sign in (-1, 1)]  # folded at 0
        kernel = sum(np.exp(-((side / found.width) ** 2) / 2) for side in sides)
        exact = kernel.sum(1) / (found.width * np.sqrt(2 * np.pi) * p.n)
        missed.append((row - exact).reshape(4, -1).sum(1) * step)
    for quarter in np.transpose(missed):
        assert_agrees(1, 1 + quarter, floor=0)
    np.testing.assert_allclose(np.trapezoid(found.untrained_density.values, found.points), min(1, N / n), atol=0.01)


def test_the_density_after_a_step_that_widens_the_bulk_has_all_but_its_spikes():
    """27 of the 300 eigenvalues lie above those of F₀; each of the 5 that are left out counts 1/300 up to the luck of eight probes."""
    p = problem(n=300, d=150, N=450, activation="relu", step=one.Step(constant=3.0, exponent=0.5))
    found = measure_density(p, [0])
    exact = measure_spectrum(p, [0]).eigenvalues.values[0]
    whole = np.trapezoid(found.density.values[0], found.points)
    assert 1 - 10 / 300 < whole < 1.005
    assert (exact > found.points[-1]).sum() <= 5
    assert found.points[-1] < exact[-1] / 2  # a spike far away does not make the rest narrow
    assert found.beyond.mean == pytest.approx((exact > found.points[-1]).mean(), abs=0.01)


def test_short_steps_have_the_direction_of_their_sum_and_not_of_the_output():
    """What two batches of 400 samples in 20 dimensions show of the teacher's; W₀ᵀa, 10⁵ times as long as they move it, shows nothing."""
    p = problem(n=400, d=20, N=100, gradient="labels", steps=2, step=one.Step(constant=1e-5))
    assert (measure_spectrum(p, 3, count=1).alignment.values > 0.9).all()


def test_what_lies_beyond_the_points_is_that_of_the_step():
    """A spike that the step has made: without it nothing lies there."""
    p = problem(step=one.Step(constant=3, exponent=0.4))
    spectrum = measure_spectrum(p, 1, count=2)
    spike, edge = float(spectrum.leading.values[0, 0]), float(spectrum.untrained_edge.values[0])
    assert spike > 2 * edge
    found = measure_density(p, 1, points=np.linspace(0, 1.5 * edge, 20))
    assert found.beyond.values[0] > 0.1 / p.n
    assert measure_density(p.replace(step=one.Step.none()), 1, points=found.points).beyond.values[0] == 0


def test_exponents_measured_along_are_those_measured_alone():
    """They share draws, gradient and the untrained network, and change no digit."""
    p, alphas = problem(n=60, d=30, N=50), [0.1, 0.4]
    for along, alone, names in (
        (
            measure_spectrum_along,
            measure_spectrum,
            ("eigenvalues", "untrained_eigenvalues", "overlaps", "on_direction"),
        ),
        (measure_learned_along, one.measure_learned, ("fraction", "unexplained")),
    ):
        for alpha, found in zip(alphas, along(p, alphas, 2), strict=True):
            own = alone(p.at(exponent=alpha), 2)
            assert found.problem == own.problem
            for name in names:
                np.testing.assert_allclose(
                    getattr(found, name).values, getattr(own, name).values, rtol=1e-12, atol=1e-14
                )
