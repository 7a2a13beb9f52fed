"""The law of the untrained features: it integrates to one, its transform stays in its half-plane, degrees have bulks."""

from __future__ import annotations

import numpy as np
import pytest

import onestride as one
from onestride.theory.bulk import bulk_density
from onestride.theory.density import (
    _density,
    _equations,
    atom_at_zero,
    largest_possible,
    solve_line,
    spikes_below,
    stieltjes,
    untrained_density,
    untrained_law,
    untrained_model,
)
from onestride.theory.profile.equations import residual_and_jacobian
from profiles import by_sizes as problem
from recorded import key_of
from tolerances import EXACT, assert_agrees, assert_close, seeds_from

SHAPES = [(1500, 750, 2250), (1500, 1500, 750), (1000, 500, 1000), (1000, 30, 4000), (1000, 5000, 400)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("activation", ["softplus", (0, 1.0), (0, 1.0, 1e-3)])
def test_density_integrates_to_one_less_the_atom(shape, activation):
    law = untrained_law(problem(shape=shape, activation=activation))
    assert abs(law.mass() + law.atom - 1) < 1e-3  # 1e-3 at a hard edge (N = n), 1e-4 otherwise
    assert (law.density >= 0).all()


@pytest.mark.parametrize("activation", ["relu", "tanh", "shifted_erf"])
@pytest.mark.parametrize("shape", [(1500, 1500, 750), (1000, 500, 1000), (1000, 5000, 400)])
def test_quartic_gives_the_density_of_one_bulk(shape, activation):
    p = problem(shape=shape, activation=activation)
    model = untrained_model(p)
    E = largest_possible(model) * np.geomspace(1e-4, 1, 50)
    continued = _density(model, solve_line(model, E), atom_at_zero(p))
    assert_close(bulk_density(p, E), continued, rel=0, abs_=1e-8 * continued.max())


def test_density_has_the_right_mean():
    """tr FFᵀ/n² = (N/n) E σ²: a moment that no normalisation enforces."""
    p = problem()
    law = untrained_law(p)
    mean = np.trapezoid(law.grid * law.density, law.grid)
    assert_close(mean, p.N / p.n * p.sigma.second_moment, rel=1e-3)


@pytest.mark.parametrize("shape", SHAPES[:3])
def test_transform_maps_the_upper_half_plane_to_itself(shape):
    p = problem(shape=shape, activation="softplus")
    rng = np.random.default_rng(0)
    z = rng.uniform(-2, 6, 200) + 1j * 10.0 ** rng.uniform(-6, 2, 200)  # ρ(λ) is the transform at z = −λ
    c1, power = p.sigma.coefficients[1], p.sigma.nonlinear_power
    rho, q = (x[:, 0] for x in stieltjes(untrained_model(p), -z))
    assert (rho.imag > 0).all()
    assert (np.abs(rho) <= 1 / z.imag * (1 + 1e-9)).all()
    U = rho / (1 + rho * c1**2 * q / p.psi)
    assert_close(q * (1 + rho * power + c1**2 * U), np.ones_like(q), rel=0, abs_=1e-9)


def test_transform_continues_the_positive_penalty_solution():
    from onestride.theory.bulk import solve_bulk

    p = problem()
    lam = np.array([1e-3, 0.1, 10.0])
    c1, power = p.sigma.coefficients[1], p.sigma.nonlinear_power
    rho, _ = stieltjes(untrained_model(p), lam - 1e-13j)
    assert_close(rho[:, 0].real, solve_bulk(lam, p.phi, p.psi, c1, power).rho, rel=EXACT)


@pytest.mark.parametrize("shape", [(1000, 500, 2000), (1000, 500, 300)])
def test_without_a_linear_part_the_law_is_marchenko_pastur(shape):
    p = problem(shape=shape, activation=(0, 0, 1.0))
    ratio, power = p.N / p.n, p.sigma.nonlinear_power
    low, high = power * (1 - np.sqrt(ratio)) ** 2, power * (1 + np.sqrt(ratio)) ** 2
    law = untrained_law(p)
    assert_close(law.bands, [(low, high)], rel=1e-6)
    E = np.linspace(low, high, 13)[1:-1]
    assert_close(untrained_density(p, E), np.sqrt((high - E) * (E - low)) / (2 * np.pi * power * E), rel=1e-7)


def test_softplus_has_two_bands_of_equal_mass():
    law = untrained_law(problem(activation="softplus"))
    assert len(law.bands) == 2
    inside = law.grid < law.bands[0][1]
    assert_close(np.trapezoid(law.density[inside], law.grid[inside]), 0.5, rel=1e-3)


@pytest.mark.parametrize(("shape", "atom"), [((1000, 500, 1500), 0.0), ((1000, 500, 400), 0.6)])
def test_atom_is_the_missing_rank(shape, atom):
    assert_close(untrained_law(problem(shape=shape)).atom, atom, rel=EXACT, abs_=EXACT)
    assert_close(untrained_law(problem(shape=shape, activation=(0, 1.0))).atom, max(atom, 0.5), rel=EXACT)


# ---------------------------------------------------------------------- n, N of order d² and beyond

FEW_INPUTS = [(600, 20, 900), (600, 24, 300)]


@pytest.mark.parametrize("shape", FEW_INPUTS)
@pytest.mark.parametrize("weights", ["sphere", "gaussian"])
def test_equations_at_many_points_are_those_at_one(shape, weights):
    p = problem(shape=shape, weights=weights)
    model, rng = untrained_model(p), np.random.default_rng(1)
    m, k = model.w.size, model.weight.size
    lam = -rng.uniform(0.1, 5, 3) - 1j * rng.uniform(0.1, 1, 3)
    rho, q = (rng.uniform(-1, 1, (3, x)) + 1j * rng.uniform(0.1, 1, (3, x)) for x in (m, k))
    residual, jacobian = _equations(model, lam, rho, q)
    for i in range(3):
        one_residual, one_jacobian = residual_and_jacobian(model, lam[i], rho[i], q[i])
        assert_close(residual[i], one_residual, rel=1e-10, abs_=1e-12)
        assert_close(jacobian[i], one_jacobian, rel=1e-10, abs_=1e-12)


def test_each_degree_has_a_bulk_of_its_own():
    """N ≫ n ≫ B_2 = 54: d and B_2 eigenvalues around (N/B_l) k_l² (1 + B_l/n), the rest below; the mean is exact."""
    p = problem(shape=(2000, 10, 20000))
    law, model = untrained_law(p), untrained_model(p)
    for (low, high), sector, count in zip(law.bands[-2:], model.sectors[1::-1], (54, 10), strict=True):
        inside = (law.grid >= low) & (law.grid <= high)
        assert_close(p.n * np.trapezoid(law.density[inside], law.grid[inside]), count, rel=2e-3)
        centre = p.N / sector.dim * model.weight @ (sector.K**2 @ model.w)
        assert low < centre < high
    assert_close(law.mass(), 1, rel=1e-3)
    mean = np.trapezoid(law.grid * law.density, law.grid) + p.N / p.n * model.w @ model.means.cases[0][1][0] ** 2
    assert_close(mean, p.N / p.n * p.sigma.second_moment, rel=2e-3)


@pytest.mark.parametrize("shape", FEW_INPUTS)
def test_polynomial_features_have_the_rank_of_their_degrees(shape):
    """σ = z + H_2/10 at n > d + B_2: the atom at 0 is what the two sectors leave."""
    n, d, N = shape
    law = untrained_law(problem(shape=shape, activation=(0, 1.0, 0.1)))
    rank = min(n, N, d + d * (d + 1) // 2 - 1)
    assert_close(law.atom, 1 - rank / n, rel=EXACT)
    assert_close(law.mass(), rank / n, rel=2e-3)


@pytest.mark.statistical(rate=5e-3)
@pytest.mark.parametrize("shape", FEW_INPUTS)
def test_untrained_eigenvalues_lie_in_the_bands_of_their_degrees(shape, seed, on_file):
    """12 seeds, k = 5: 4e-4 for each of twelve. Deciles of the law to 0.004 (measured: 0.002); the eigenvalue d + 1 is the length of x, to 5 %.

    The last eigenvalue before an edge is on average where the law has put 0.281 of one beyond it: −1.2065 is the mean of Tracy
    and Widom's law, and 2·1.2065^(3/2)/3π the number beyond it. To 8 %: a band of d = 20 or 24 eigenvalues is up to 3.6 % off (60 seeds).
    """
    p = problem(0.0, shape=shape)

    def simulate(seeds):
        return [[values] for values in one.measure_spectrum(p, seeds, count=1).untrained_eigenvalues.values]

    drawn = on_file(key_of("untrained eigenvalues", p.to_dict()), list(seeds_from(seed, 12)), simulate)
    law, found = untrained_law(p), np.array([values for (values,) in drawn])
    n, d = shape[:2]
    nothing = max(n - shape[2], 0) / n
    for E in np.interp(np.linspace(nothing + 0.05, 0.98, 8), law.cumulative(law.grid), law.grid):
        share = nothing + (found <= E).sum(1) / n
        assert_agrees(1, 1 + share - law.cumulative(np.array([E]))[0], floor=0.004)
    assert len(law.spikes) == 1
    assert_agrees(law.spikes[0], found[:, -d - 1], floor=0.05)
    top, below = law.bands[-1], law.bands[-2]
    for column, edge, inwards in ((-1, top[1], -1), (-d, top[0], 1), (-d - 2, below[1], -1)):
        near = edge * (1 + inwards * np.linspace(0, 0.3, 3001))
        beyond = n * np.abs(law.cumulative(near) - law.cumulative(near[:1]))
        assert_agrees(float(np.interp(0.281, beyond, near)), found[:, column], floor=0.08)


def test_count_of_poles_changes_where_the_resolvent_has_one():
    """D = diag(1/(x_i + λ)) of a diagonal matrix with either sign, M of rank 2: poles are −(eigenvalues of x + M)."""
    rng = np.random.default_rng(3)
    x, B = np.sort(rng.uniform(1, 4, 6)), rng.standard_normal((6, 2))
    M = B @ B.T
    poles = np.linalg.eigvalsh(np.diag(x) + M)
    for lam in -rng.uniform(0.5, 12, 40):
        # eigenvalues above −λ of the sum, less those of the diagonal part alone
        expected = (poles > -lam).sum() - (x > -lam).sum()
        assert spikes_below(1 / (x + lam), M) == expected
