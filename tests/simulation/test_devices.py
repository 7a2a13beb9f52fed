"""One kernel on every array library, and every faster way against the plain one."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import onestride as one
from networks import EXPONENTS, LIBRARIES, QUANTITIES, RIDGES, TORCH, largest_gap, problem
from onestride._backend import Backend, choose, devices, row_blocks, stream, streams
from onestride.simulation.cost import Plan
from onestride.simulation.network import draw_batch
from onestride.simulation.run import simulate_grid
from tolerances import seeds_from


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "changes",
    [{}, {"n": 900, "N": 500}, {"activation": "tanh", "steps": 2, "N": 520}],
    ids=["dual", "primal", "two steps"],
)
def test_every_array_library_gives_the_same_errors(library, changes):
    p = problem(**changes)
    here, there = (simulate_grid(p, EXPONENTS, RIDGES, 1, device=device) for device in ("cpu", library))
    assert np.abs(here.test_gain.values).min() > 1e-4  # the step does something
    assert largest_gap(there, here) < 1e-9


SHORT_OF_ROOM = {
    "one product at a time": {"keeps_weights": False},
    "features made anew from the inputs": {"stores_products": False, "stores_features": False},
    "and the weights set aside": {"stores_products": False, "stores_features": False, "keeps_weights": False},
    "features stored, products not": {"stores_products": False, "stores_features": True},
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("how", SHORT_OF_ROOM.values(), ids=SHORT_OF_ROOM)
def test_a_device_short_of_room_finds_the_same_errors(library, how, monkeypatch):
    p = problem(n=150, d=40, N=170)
    here = simulate_grid(p, EXPONENTS[:2], RIDGES[:2], 1)
    for name, value in how.items():
        monkeypatch.setattr(Plan, name, value)
    assert largest_gap(simulate_grid(p, EXPONENTS[:2], RIDGES[:2], 1, device=library), here) < 1e-9


@pytest.mark.parametrize(
    "name", ["relu", "leaky_relu", "softplus", "gelu", "silu", "elu", "tanh", "erf", "shifted_erf", "sigmoid", "sin"]
)
@pytest.mark.parametrize("library", LIBRARIES)
def test_activations_are_the_same_functions_in_every_library(library, name):
    z = np.linspace(-6, 6, 501)
    f = one.activation(name)
    backend = choose(library)
    there = backend.put(z)
    np.testing.assert_allclose(backend.get(f(there)), f(z), rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(backend.get(f.derivative(there)), f.derivative(z), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_polynomial_is_the_same_function_in_every_library(library):
    z = np.linspace(-3, 3, 101)
    f = one.activation((0.0, 1.0, 0.5, -0.2))
    backend = choose(library)
    np.testing.assert_allclose(backend.get(f(backend.put(z))), f(z), rtol=1e-13, atol=1e-14)


@pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_function_written_for_numpy_works_on_every_device(library):
    f = one.register("wave", lambda z: np.sin(z) * np.abs(z), lambda z: np.cos(z) * np.abs(z) + np.sin(z) * np.sign(z))
    z = np.linspace(-3, 3, 101)
    backend = choose(library)
    np.testing.assert_allclose(backend.get(f(backend.put(z))), f(z), rtol=1e-14, atol=1e-15)


@pytest.mark.statistical(rate=1e-3)
def test_float32_is_close_and_says_how_close(seed):
    """Rounding times the condition of the system, 6e-8·‖FFᵀ‖/(λn): 1.4e-5 to 4.8e-4 over a hundred seeds, as the spike falls."""
    p, seeds = problem(), seeds_from(seed, 2)
    exact = simulate_grid(p, EXPONENTS, RIDGES, seeds)
    quick = simulate_grid(p, EXPONENTS, RIDGES, seeds, dtype="float32")
    assert exact.spot_check is None
    assert quick.spot_check is not None
    cell = [abs(getattr(quick, q).raw.values[0, 2, 0] / getattr(exact, q).raw.values[0, 2, 0] - 1) for q in QUANTITIES]
    assert quick.spot_check == pytest.approx(max(cell), rel=1e-3)  # the largest step, the first penalty and seed
    assert 0 < quick.spot_check < 2e-3
    assert 0 < largest_gap(quick, exact) < 2e-3
    assert quick.cell(0, 0).to_dict()["spot_check"] == quick.spot_check


@pytest.mark.parametrize(
    ("device", "words"),
    [("abacus", "device must be"), ("cuda:x", "device must be"), ("torch:1", "device must be")],
)
def test_an_unknown_device_is_refused_in_a_sentence(device, words):
    with pytest.raises(one.InputError, match=words):
        one.simulate(problem(n=20, d=10, N=20), 1, device=device)


def test_an_unknown_precision_is_refused_in_a_sentence():
    with pytest.raises(one.InputError, match="dtype must be 'float64' or 'float32', got 'float16'"):
        one.simulate(problem(n=20, d=10, N=20), 1, dtype="float16")


def test_a_missing_library_is_one_sentence(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(devices.importlib, "import_module", missing)
    with pytest.raises(one.InputError, match=r"device 'cuda' needs torch, which is not installed: pip install"):
        one.simulate(problem(n=20, d=10, N=20), 1, device="cuda")


@TORCH
def test_a_missing_gpu_is_one_sentence():
    torch = importlib.import_module("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(one.InputError, match="torch sees no CUDA devices"):
        one.simulate(problem(n=20, d=10, N=20), 1, device="cuda")


def test_the_host_in_double_precision_is_the_default():
    assert choose() == Backend("cpu", "float64")
    assert choose(dtype="float32") == Backend("cpu", "float32")


# ------------------------------------------------------------------------------------------------------------ draws


@pytest.mark.statistical(rate=1e-6)
def test_an_array_drawn_in_blocks_starts_with_the_stream_of_its_role(monkeypatch, seed):
    """Two blocks of 6,400 numbers are uncorrelated within 5 standard errors: false-alarm rate 6e-7."""
    p, k = problem(n=300, d=50, N=400), 1000 * seed + 3
    whole = draw_batch(p, k, "ridge_inputs", "ridge_noise", 300)
    monkeypatch.setattr(streams, "BLOCK_NUMBERS", 50 * 128)
    assert len(row_blocks(300, 50)) == 3
    parts = draw_batch(p, k, "ridge_inputs", "ridge_noise", 300)
    np.testing.assert_array_equal(parts.X[:128], whole.X[:128])
    np.testing.assert_array_equal(parts.X[128:256], stream(k, "ridge_inputs", block=1).standard_normal((128, 50)))
    np.testing.assert_allclose(parts.y - parts.signal, whole.y - whole.signal, atol=1e-12)
    assert np.abs(np.corrcoef(parts.X[:128].ravel(), parts.X[128:256].ravel())[0, 1]) < 5 / np.sqrt(6400)


def test_results_in_blocks_do_not_depend_on_the_number_of_threads(monkeypatch):
    p = problem(n=300, d=50, N=400)
    monkeypatch.setattr(streams, "BLOCK_NUMBERS", 50 * 64)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(streams, "threads", lambda threads=threads: threads)
        found.append(simulate_grid(p, EXPONENTS, RIDGES, 1).test_error.values)
    np.testing.assert_array_equal(*found)
