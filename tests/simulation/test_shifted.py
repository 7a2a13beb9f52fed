"""Shifted systems: refined solutions against plain ones, and what happens when a precision does not do."""

from __future__ import annotations

import numpy as np
import pytest

from networks import LIBRARIES
from onestride._backend import HOST, choose
from onestride._backend.lapack import add_gram, apply_gram, rotate, times_triangle, tridiagonal_form
from onestride.simulation import panels, refined, shifted
from onestride.simulation.ridge import ridge_path
from onestride.simulation.rows import Rows
from onestride.simulation.shifted import (
    IllConditionedError,
    _norm,
    _require_digits,
    factors,
    solve_gram,
    solve_shifted,
)


@pytest.mark.parametrize("library", ["cpu", *LIBRARIES])
@pytest.mark.parametrize("shifts", [[3.0], [0.5, 50.0], [0.05, 0.1, 0.5, 1.0, 10.0, 100.0]], ids=["1", "2", "6"])
def test_refined_solutions_equal_plain_ones(library, shifts, monkeypatch):
    monkeypatch.setattr(shifted, "DIRECT_BELOW", 0)
    monkeypatch.setattr(panels, "DEVICE_BLOCK", 64)
    rng = np.random.default_rng(0)
    B, b = rng.standard_normal((300, 170)) + 0.3, rng.standard_normal(170)
    backend = choose(library)
    there = Rows.stored(backend.put(B), backend)
    x, image = (backend.get(a) for a in solve_shifted(there, backend.put(b), np.array(shifts)))
    for j, s in enumerate(shifts):
        plain = np.linalg.solve(B.T @ B + s * np.eye(170), b)
        assert np.linalg.norm(x[:, j] - plain) < 1e-11 * np.linalg.norm(plain)
    np.testing.assert_allclose(image, B @ x, rtol=1e-10, atol=1e-12)


def test_refinement_keeps_its_promise_for_large_spikes(monkeypatch):
    """|x − x*|/|x| is below the bound even when one eigenvalue is 10⁶ times the others and float32 alone is hopeless."""
    monkeypatch.setattr(shifted, "DIRECT_BELOW", 0)
    rng = np.random.default_rng(1)
    B = rng.standard_normal((400, 200)) + 1e3 * np.outer(rng.standard_normal(400), rng.standard_normal(200)) / 20
    b, shifts = rng.standard_normal(200), np.array([1.0, 30.0])
    x, _ = solve_shifted(Rows.stored(B), b, shifts)
    _, s, Vt = np.linalg.svd(B, full_matrices=False)
    for j, shift in enumerate(shifts):
        exact = Vt.T @ ((Vt @ b) / (s**2 + shift))
        bound = max(refined.TOLERANCE, 2.3e-16 * np.sqrt(2) * np.linalg.norm(B.T @ B) / shift)
        assert np.linalg.norm(x[:, j] - exact) < 4 * bound * np.linalg.norm(exact)


@pytest.mark.parametrize("top", [1.0, 10.0, 100.0])
def test_the_residual_summed_along_the_way_is_the_true_one(top, monkeypatch):
    """So few steps leave no more rounding in it than one product does; computing it anew gives the same solution."""
    monkeypatch.setattr(shifted, "DIRECT_BELOW", 0)
    rng = np.random.default_rng(2)
    U, _, Vt = np.linalg.svd(rng.standard_normal((260, 180)), full_matrices=False)
    B, b = (U * np.geomspace(0.03, top, 180)) @ Vt, rng.standard_normal(180)
    for shifts in (np.array([1e-3, 1.0]), np.geomspace(1e-3, 10, 8)):
        x, image = solve_shifted(Rows.stored(B), b, shifts)
        goal = np.maximum(refined.TOLERANCE, 2.3e-16 * np.sqrt(2) * np.linalg.norm(B.T @ B) / shifts)
        residual = np.linalg.norm(b[:, None] - B.T @ (B @ x) - shifts * x, axis=0)
        assert (residual < 2 * goal * shifts * np.linalg.norm(x, axis=0)).all()
        with monkeypatch.context() as patch:
            patch.setattr(refined, "TRUSTED_STEPS", 0)
            again, image_again = solve_shifted(Rows.stored(B), b, shifts)
        assert (np.linalg.norm(again - x, axis=0) < 4 * goal * np.linalg.norm(x, axis=0)).all()
        for found, whole in ((x, image), (again, image_again)):
            np.testing.assert_allclose(whole, B @ found, rtol=1e-9, atol=1e-12 * np.abs(whole).max())


def test_when_float32_fails_float64_takes_over(monkeypatch):
    monkeypatch.setattr(shifted, "DIRECT_BELOW", 0)
    used = []
    original = shifted._factorise_and_refine
    monkeypatch.setattr(
        shifted, "_factorise_and_refine", lambda *a: used.append((a[3], (r := original(*a)) is not None)) or r
    )
    rng = np.random.default_rng(0)
    U, _, Vt = np.linalg.svd(rng.standard_normal((80, 80)))
    B = (U * np.logspace(-2, 3.9, 80)) @ Vt  # rounding K to float32 is as large as its smallest eigenvalues
    x, _ = solve_shifted(Rows.stored(B), rng.standard_normal(80), np.array([1e-1]))
    assert used[-1] == ("float64", True)
    assert used[0] == ("float32", False)
    assert np.isfinite(x).all()


def test_shifts_too_small_for_a_gram_matrix_are_left_to_the_svd():
    B = np.random.default_rng(0).standard_normal((60, 40))
    with pytest.raises(IllConditionedError):
        solve_gram(B.T @ B, np.ones(40), np.array([1e-14]))
    y = np.random.default_rng(1).standard_normal(40)
    path = ridge_path(B.T, y, np.array([1e-14]))
    np.testing.assert_allclose(path.coefficients[:, 0], np.linalg.pinv(B.T) @ y, rtol=1e-7)
    K = np.diag([2.0, 1.0, 0.0])  # whose norm is taken for √2 of what it is
    for dtype, least in (("float64", 1e-10 * 10**0.5), ("float32", 1e-5 * 10**0.5)):
        _require_digits(np.array([1.0, 1.01 * least]), _norm(K, HOST), dtype)
        with pytest.raises(IllConditionedError):
            _require_digits(np.array([1.0, 0.99 * least]), _norm(K, HOST), dtype)


@pytest.mark.parametrize("library", ["cpu", *LIBRARIES])
def test_a_matrix_that_is_not_positive_definite_is_the_same_error_in_every_library(library):
    """One class for all, so that nobody has to read a message."""
    backend = choose(library)
    K = backend.put(np.diag([2.0, -3.0, 1.0]))
    with pytest.raises(np.linalg.LinAlgError):
        factors(K, np.array([0.5]), backend, tridiagonal=False, last=True)


def test_a_gram_matrix_that_is_not_positive_definite_goes_to_the_svd(monkeypatch):
    """The least shift is allowed, the tridiagonal form fails: the penalty is served all the same."""
    F, y, ridges = np.random.default_rng(0).standard_normal((40, 60)), np.ones(40), np.array([0.1])
    usual = ridge_path(F, y, ridges)

    def failing(*_):
        raise np.linalg.LinAlgError("planted")

    monkeypatch.setattr(shifted, "tridiagonal_solver", failing)
    np.testing.assert_allclose(ridge_path(F, y, ridges).coefficients, usual.coefficients, rtol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_tridiagonal_form_is_that_of_its_matrix(dtype):
    B = np.random.default_rng(3).standard_normal((90, 70))
    K = np.asfortranarray(B.T @ B, dtype)
    Q = np.asfortranarray(np.triu(K))  # the other triangle is not read
    diagonal, off, tau = tridiagonal_form(Q)
    columns = np.eye(70, dtype=dtype, order="F")
    rotate(Q, tau, columns, back=True)
    T = np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1)
    tolerance = 200 * np.finfo(dtype).eps
    np.testing.assert_allclose(columns @ T @ columns.T, K, atol=tolerance * np.abs(K).max())
    rotate(Q, tau, columns, back=False)
    np.testing.assert_allclose(columns, np.eye(70), atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gram_matrices_without_the_lock_are_plain_ones(dtype):
    rng = np.random.default_rng(9)
    B, K = rng.standard_normal((70, 40)).astype(dtype), np.asfortranarray(rng.standard_normal((40, 40)).astype(dtype))
    expected = np.where(np.tri(40, k=-1, dtype=bool), K, K + B.T @ B)  # what is below the diagonal is left alone
    add_gram(B, K)
    np.testing.assert_allclose(
        K, expected, rtol=1e-4 if dtype == "float32" else 1e-12, atol=1e-4 * (dtype == "float32")
    )


@pytest.mark.parametrize("rows", [1, 7, 70, 100])
def test_products_of_a_gram_matrix_by_blocks_of_rows_are_plain_ones(rows):
    rng = np.random.default_rng(10)
    B, V = rng.standard_normal((70, 40)), rng.standard_normal((40, 5))
    applied, image = apply_gram(B, V, rows)
    np.testing.assert_allclose(image, B @ V, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(applied, B.T @ (B @ V), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("more", [0, 3])
def test_rows_times_a_triangle_are_plain_products(more):
    """Rows that lie in a wider matrix are multiplied in their place, and what is beside them is left alone."""
    rng = np.random.default_rng(11)
    wide, U = rng.standard_normal((30, 12 + more)), np.asfortranarray(rng.standard_normal((12, 12)))
    before = wide.copy()
    times_triangle(wide[:, :12], U)
    np.testing.assert_allclose(wide[:, :12], before[:, :12] @ np.triu(U), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(wide[:, 12:], before[:, 12:])
