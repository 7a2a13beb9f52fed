"""Maps of the best step: one cell is what `optimum` finds, to the accuracy of a map."""

from __future__ import annotations

import numpy as np
import pytest

import onestride as one
from onestride.plot import draw
from onestride.theory.atlas import Atlas, _at, _errors, atlas, best_at
from onestride.theory.baselines import linear_ridge


def problem(**changes) -> one.Problem:
    fields = {"n": 200, "d": 100, "N": 200, "teacher": (0, 1, 0.5), "noise": 0.3, "step": one.Step(exponent=0.3)}
    return one.Problem(**(fields | changes))


@pytest.mark.long
def test_a_cell_is_the_optimum():
    found, best = atlas(problem(), x=[0.5], y=[0.5]), one.optimum(problem())
    assert found.test_error[0, 0] == pytest.approx(best.test_error, rel=0.02)
    assert found.step[0, 0] == pytest.approx(best.step, rel=0.5)  # flat: half of the step is 0.5 % of the error
    assert found.test_error[0, 0] < found.untrained[0, 0]
    assert "best step" in found.message


@pytest.mark.long
def test_axes_of_the_other_plane_and_its_figure():
    found = atlas(problem(), "n-noise", x=[60, 120], y=[0.0, 1.0])
    assert found.over == ("n", "noise")
    assert found.panels()[0].xlabel == "samples n, with d and N in proportion"
    assert (found.test_error[1] > found.test_error[0] + 0.9).all()  # noise is part of the error
    figure = draw(found.panels())
    assert len(figure.axes) == 2
    with pytest.raises(one.InputError, match="over must be one of 'phi-psi', 'n-N', 'n-noise', got 'n-d'"):
        atlas(problem(), "n-d")


@pytest.mark.long
def test_a_table_has_one_plane():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 3))
    table = one.from_data(X, np.tanh(X[:, 0]) + 0.3 * rng.standard_normal(120), N=64, step=one.Step(exponent=0.5))
    told = []
    found = atlas(table, x=[64], y=[64], progress=lambda *done: told.append(done))
    assert found.over == ("n", "N")
    assert told == [(1, 1)]
    best = one.optimum(table.replace(n=64))
    assert found.test_error[0, 0] == pytest.approx(best.test_error, rel=0.01)
    with pytest.raises(one.InputError, match="over must be 'n-N', as d and the noise of a table are its own"):
        atlas(table, "n-noise")


def test_the_gain_is_a_share_of_the_error_without_a_step():
    found = Atlas(problem(), ("n", "N"), np.ones(1), np.ones(1), *(np.full((1, 1), v) for v in (1.5, 3.0, 0.1, 2.0)))
    assert found.gain.item() == 0.25
    assert "lowers the best test error by up to 25%" in found.message


def test_a_best_step_is_told_only_where_a_step_has_a_number(monkeypatch):
    """No step that may be trusted: the best is unknown, not none at all; the next point looks around as the first did."""
    good = lambda problem, eta, penalties: np.full(penalties.size, np.nan if eta else 1.0)  # noqa: E731
    monkeypatch.setattr("onestride.theory.atlas._errors", good)
    assert best_at(problem(), "phi-psi", 0.5, 0.5, near=np.nan) == pytest.approx(
        (np.nan, np.nan, np.nan, 1.0), nan_ok=True
    )
    monkeypatch.setattr("onestride.theory.atlas._errors", lambda problem, eta, penalties: 1.0 + eta + 0 * penalties)
    assert best_at(problem(), "phi-psi", 0.5, 0.5)[:2] == (1.0, 0.0)


def test_a_best_penalty_is_that_of_the_best_step(monkeypatch):
    """Errors with their least at η = 4 and λ = 1; without a step at λ = 0.1, and larger."""

    def valley(problem, eta, penalties):
        place = (np.log(eta / 4), np.log(penalties)) if eta else (1.0, np.log(penalties / 0.1))
        return 1.0 + place[0] ** 2 + place[1] ** 2

    monkeypatch.setattr("onestride.theory.atlas._errors", valley)
    lowest, step, ridge, untrained = best_at(problem(), "n-N", 100, 100)
    assert (lowest, step, ridge, untrained) == pytest.approx((1.0, 4.0, 1.0, 2.0), rel=0.01)


def test_numbers_known_to_be_off_do_not_count(monkeypatch):
    assert np.isfinite(_errors(problem(), 2.0, np.array([0.1, 1.0]))).all()
    monkeypatch.setattr("onestride.theory.atlas.known_off", lambda _: "why")
    assert np.isnan(_errors(problem(), 2.0, np.array([0.1, 1.0]))).all()


def test_points_of_every_plane_are_problems():
    p = problem(n_step=50)
    sizes = {
        over: (at.n, at.d, at.N, at.n_step, at.noise)
        for over, y in (("phi-psi", 0.5), ("n-N", 30), ("n-noise", 0.7))
        for at in (_at(p, over, 0.4 if over == "phi-psi" else 400, y),)
    }
    assert sizes["phi-psi"] == (250, 100, 200, 50, 0.3)
    assert sizes["n-N"] == (400, 100, 30, 50, 0.3)
    assert sizes["n-noise"] == (400, 200, 400, 100, 0.7)


def test_exponents_without_a_step_are_the_known_ones():
    """Random features of a linear activation with N ≫ d are ridge regression on x: with eigenvalues λ_p ∝ p^−a and teacher
    energies λ_pβ_p² ∝ p^−(1 + 2ra) the tuned excess falls like n^(−2ra/(1 + 2ra)) with noise (Cui et al. 2021), and without noise at
    a vanishing penalty like n^(−2ra), r ≤ 1 (Bordelon et al. 2020). With Σ = I and n ≫ d it falls like 1/n. d = 20,000: exponents to 0.05.
    """
    a, r, d = 1.5, 0.4, 20_000
    p = np.arange(1.0, d + 1)
    law = one.Covariance(tuple(p**-a), tuple(p ** (a - 1 - 2 * r * a)))
    ns = np.array([200, 400])

    def excess(noise: float, ridge: float | None) -> np.ndarray:
        problems = (one.Problem(n=int(n), d=d, N=100, teacher=(0, 1.0), noise=noise, inputs=law) for n in ns)
        return np.array([linear_ridge(q, ridge) - noise**2 for q in problems])

    noisy, clean = (float(np.diff(np.log(x))[0] / np.log(2)) for x in (excess(1.0, None), excess(0.0, 1e-9)))
    assert noisy == pytest.approx(-2 * r * a / (1 + 2 * r * a), abs=0.05)
    assert clean == pytest.approx(-2 * r * a, abs=0.05)
    flat = one.Problem(n=100, d=20, N=4000, activation=(0, 1.0), teacher=(0, 1.0), noise=1.0)
    assert one.scaling(flat, "n", [4000, 8000], tuned=True).exponent[0] == pytest.approx(-1, abs=0.05)
