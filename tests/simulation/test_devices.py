"""One kernel on every array library, and every faster way against the plain one."""

from __future__ import annotations

import importlib
import importlib.util
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import onestride as one
from onestride import _backend
from onestride._backend import Backend, row_blocks, stream, using
from onestride.simulation.cost import operations, plan
from onestride.simulation.krylov import lanczos_quadrature, leading_eigenpairs
from onestride.simulation.network import draw_batch, draw_network, step_gradient
from onestride.simulation.ridge import ridge_path
from onestride.simulation.run import simulate_grid
from onestride.simulation.shifted import IllConditionedError, Rows, solve_gram, solve_shifted
from onestride.simulation.spectrum import decompose, measure_density, measure_spectrum
from tolerances import assert_agrees, seeds_from

shifted = importlib.import_module("onestride.simulation.shifted")
streamed = importlib.import_module("onestride.simulation.streamed")
run = importlib.import_module("onestride.simulation.run")
cost = importlib.import_module("onestride.simulation.cost")
memory = importlib.import_module("onestride.simulation.memory")

QUANTITIES = ("train_loss", "train_mse", "test_error")
TORCH = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
LIBRARIES = ["strict", pytest.param("torch", marks=TORCH)]  # the reference implementation of the standard, and torch
EXPONENTS, RIDGES = [0.1, 0.3, 0.5], [0.01, 0.1, 1.0]


def problem(**changes) -> one.Problem:
    sizes = {"n": 512, "d": 256, "N": 768} | changes
    step = one.Step(constant=1.0, exponent=0.3)
    return one.Problem(**({"activation": "relu", "teacher": (0, 1, 0.7071), "noise": 0.5, "step": step} | sizes))


def largest_gap(a: one.Simulation, b: one.Simulation) -> float:
    return max(float(np.abs(getattr(a, q).values / getattr(b, q).values - 1).max()) for q in QUANTITIES)


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


@pytest.mark.parametrize(
    "name", ["relu", "leaky_relu", "softplus", "gelu", "silu", "elu", "tanh", "erf", "shifted_erf", "sigmoid", "sin"]
)
@pytest.mark.parametrize("library", LIBRARIES)
def test_activations_are_the_same_functions_in_every_library(library, name):
    z = np.linspace(-6, 6, 501)
    f = one.activation(name)
    with using(library) as backend:
        there = backend.put(z)
        np.testing.assert_allclose(backend.get(f(there)), f(z), rtol=1e-14, atol=1e-15)
        np.testing.assert_allclose(backend.get(f.derivative(there)), f.derivative(z), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_polynomial_is_the_same_function_in_every_library(library):
    z = np.linspace(-3, 3, 101)
    f = one.activation((0.0, 1.0, 0.5, -0.2))
    with using(library) as backend:
        np.testing.assert_allclose(backend.get(f(backend.put(z))), f(z), rtol=1e-13, atol=1e-14)


@pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_function_written_for_numpy_works_on_every_device(library):
    f = one.register("wave", lambda z: np.sin(z) * np.abs(z), lambda z: np.cos(z) * np.abs(z) + np.sin(z) * np.sign(z))
    z = np.linspace(-3, 3, 101)
    with using(library) as backend:
        np.testing.assert_allclose(backend.get(f(backend.put(z))), f(z), rtol=1e-14, atol=1e-15)


@pytest.mark.statistical(rate=1e-3)
def test_float32_is_close_and_says_how_close(seed):
    """Rounding times the condition of the system, 6e-8·‖FFᵀ‖/(λn): 1.4e-5 to 4.8e-4 over a hundred seeds, as the spike falls."""
    p, seeds = problem(), seeds_from(seed, 2)
    exact = simulate_grid(p, EXPONENTS, RIDGES, seeds)
    quick = simulate_grid(p, EXPONENTS, RIDGES, seeds, dtype="float32")
    assert exact.spot_check is None
    assert quick.spot_check is not None
    cell = [abs(getattr(quick, q).values[0, 2, 0] / getattr(exact, q).values[0, 2, 0] - 1) for q in QUANTITIES]
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

    monkeypatch.setattr(_backend.importlib, "import_module", missing)
    with pytest.raises(one.InputError, match=r"device 'cuda' needs torch, which is not installed: pip install"):
        one.simulate(problem(n=20, d=10, N=20), 1, device="cuda")


@TORCH
def test_a_missing_gpu_is_one_sentence():
    torch = importlib.import_module("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(one.InputError, match="torch sees no CUDA devices"):
        one.simulate(problem(n=20, d=10, N=20), 1, device="cuda")


def test_the_device_is_the_old_one_after_an_error():
    with pytest.raises(one.InputError), using("strict"):
        raise one.InputError("stop")
    assert _backend.current() == Backend("cpu", "float64")


# ------------------------------------------------------------------------------------------------------------ draws


@pytest.mark.statistical(rate=1e-6)
def test_an_array_drawn_in_blocks_starts_with_the_stream_of_its_role(monkeypatch, seed):
    """Two blocks of 6,400 numbers are uncorrelated within 5 standard errors: false-alarm rate 6e-7."""
    p, k = problem(n=300, d=50, N=400), 1000 * seed + 3
    whole = draw_batch(p, k, "ridge_inputs", "ridge_noise", 300)
    monkeypatch.setattr(_backend, "BLOCK_NUMBERS", 50 * 128)
    assert len(row_blocks(300, 50)) == 3
    parts = draw_batch(p, k, "ridge_inputs", "ridge_noise", 300)
    np.testing.assert_array_equal(parts.X[:128], whole.X[:128])
    np.testing.assert_array_equal(parts.X[128:256], stream(k, "ridge_inputs", block=1).standard_normal((128, 50)))
    np.testing.assert_allclose(parts.y - parts.signal, whole.y - whole.signal, atol=1e-12)
    assert np.abs(np.corrcoef(parts.X[:128].ravel(), parts.X[128:256].ravel())[0, 1]) < 5 / np.sqrt(6400)


def test_results_in_blocks_do_not_depend_on_the_number_of_threads(monkeypatch):
    p = problem(n=300, d=50, N=400)
    monkeypatch.setattr(_backend, "BLOCK_NUMBERS", 50 * 64)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(_backend, "threads", lambda threads=threads: threads)
        found.append(simulate_grid(p, EXPONENTS, RIDGES, 1).test_error.values)
    np.testing.assert_array_equal(*found)


# ----------------------------------------------------------------------------------------- shifted systems and ridge


def rows_of(B: np.ndarray) -> Rows:
    return Rows(*B.shape, lambda part: B[part])


@pytest.mark.parametrize("library", ["cpu", *LIBRARIES])
@pytest.mark.parametrize("shifts", [[3.0], [0.5, 50.0], [0.05, 0.1, 0.5, 1.0, 10.0, 100.0]], ids=["1", "2", "6"])
def test_refined_solutions_equal_plain_ones(library, shifts, monkeypatch):
    monkeypatch.setattr(shifted, "DIRECT_BELOW", 0)
    monkeypatch.setattr(shifted, "DEVICE_BLOCK", 64)
    rng = np.random.default_rng(0)
    B, b = rng.standard_normal((300, 170)) + 0.3, rng.standard_normal(170)
    with using(library) as backend:
        there = backend.put(B)
        rows = Rows(300, 170, lambda part: there[part, :])
        x, image = (backend.get(a) for a in solve_shifted(rows, backend.put(b), np.array(shifts)))
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
    x, _ = solve_shifted(rows_of(B), b, shifts)
    _, s, Vt = np.linalg.svd(B, full_matrices=False)
    for j, shift in enumerate(shifts):
        exact = Vt.T @ ((Vt @ b) / (s**2 + shift))
        bound = max(shifted.TOLERANCE, 2.3e-16 * np.sqrt(2) * np.linalg.norm(B.T @ B) / shift)
        assert np.linalg.norm(x[:, j] - exact) < 4 * bound * np.linalg.norm(exact)


@pytest.mark.parametrize("top", [1.0, 10.0, 100.0])
def test_the_residual_summed_along_the_way_is_the_true_one(top, monkeypatch):
    """So few steps leave no more rounding in it than one product does; computing it anew gives the same solution."""
    monkeypatch.setattr(shifted, "DIRECT_BELOW", 0)
    rng = np.random.default_rng(2)
    U, _, Vt = np.linalg.svd(rng.standard_normal((260, 180)), full_matrices=False)
    B, b = (U * np.geomspace(0.03, top, 180)) @ Vt, rng.standard_normal(180)
    for shifts in (np.array([1e-3, 1.0]), np.geomspace(1e-3, 10, 8)):
        x, image = solve_shifted(rows_of(B), b, shifts)
        goal = np.maximum(shifted.TOLERANCE, 2.3e-16 * np.sqrt(2) * np.linalg.norm(B.T @ B) / shifts)
        residual = np.linalg.norm(b[:, None] - B.T @ (B @ x) - shifts * x, axis=0)
        assert (residual < 2 * goal * shifts * np.linalg.norm(x, axis=0)).all()
        with monkeypatch.context() as patch:
            patch.setattr(shifted, "TRUSTED_STEPS", 0)
            again, image_again = solve_shifted(rows_of(B), b, shifts)
        np.testing.assert_allclose(again, x, rtol=1e-9, atol=1e-12 * np.abs(x).max())
        np.testing.assert_allclose(image_again, image, rtol=1e-9, atol=1e-12 * np.abs(image).max())


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
    x, _ = solve_shifted(rows_of(B), rng.standard_normal(80), np.array([1e-1]))
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


def test_a_device_too_small_for_everything_gives_the_same_numbers(monkeypatch):
    """W₀ is drawn anew, G waits on the host, F is made anew for each pass, one factor at a time."""
    here = simulate_grid(problem(), EXPONENTS, RIDGES, 1)
    monkeypatch.setattr(memory, "require_memory", lambda *_: None)
    monkeypatch.setattr(Backend, "total_memory", lambda _: 0.0)
    monkeypatch.setattr(Backend, "free_memory", lambda _: 0.0)
    with using("strict"):
        assert not run.holds_weights(problem())
    assert largest_gap(simulate_grid(problem(), EXPONENTS, RIDGES, 1, device="strict"), here) < 1e-9


@pytest.mark.parametrize("sizes", [{}, {"n": 150, "N": 60}], ids=["dual", "primal"])
def test_a_host_too_small_for_the_features_makes_them_anew(sizes, monkeypatch):
    p = problem(**sizes)
    here = simulate_grid(p, EXPONENTS, RIDGES, 1)
    monkeypatch.setattr(shifted, "DIRECT_BELOW", 0)
    monkeypatch.setattr(memory, "require_memory", lambda *_: None)
    monkeypatch.setattr(Backend, "free_memory", lambda _: 0.0)
    assert largest_gap(simulate_grid(p, EXPONENTS, RIDGES, 1), here) < 1e-9


# --------------------------------------------------------------------------------------------------------- streaming


def long_problem() -> one.Problem:
    return problem(n=3000, d=40, N=60)


@pytest.fixture
def streaming(monkeypatch):
    monkeypatch.setattr(streamed, "LARGE", 0)
    monkeypatch.setattr(_backend, "BLOCK_NUMBERS", 40 * 200)


def test_streamed_samples_give_the_same_numbers_as_stored_ones(monkeypatch, streaming):
    there = simulate_grid(long_problem(), EXPONENTS, RIDGES, 2)
    monkeypatch.setattr(streamed, "LARGE", 10**12)
    here = simulate_grid(long_problem(), EXPONENTS, RIDGES, 2)
    assert largest_gap(there, here) < 1e-10


def test_row_blocks_spread_over_workers_add_up_to_the_same_numbers(streaming):
    alone = simulate_grid(long_problem(), EXPONENTS, RIDGES, 1)
    with ThreadPoolExecutor(3) as pool:
        together = simulate_grid(long_problem(), EXPONENTS, RIDGES, 1, executor=pool)
    assert largest_gap(together, alone) < 1e-12


def test_row_blocks_run_on_a_real_dask_cluster():
    """Workers are processes of their own: nothing but the block numbers and the weights reaches them."""
    distributed = pytest.importorskip("distributed")
    p = problem(n=600_000, d=50, N=80)  # 3nN > 2²⁷ streams by itself
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        there = simulate_grid(p, [0.3], [0.1], 1, n_test=2000, executor=client.get_executor())
    here = simulate_grid(p, [0.3], [0.1], 1, n_test=2000)
    assert largest_gap(there, here) < 1e-12


def test_streamed_features_that_overflow_are_refused_in_a_sentence(streaming):
    one.register("steep", lambda z: z**9, lambda z: 9 * z**8)
    p = long_problem().replace(activation="steep", step=one.Step(constant=1e60, exponent=0.3))
    with np.errstate(all="ignore"), pytest.raises(one.InputError, match="'steep' overflows on the features of a step"):
        simulate_grid(p, [0.3], [0.1], 1)


def test_a_penalty_too_small_to_stream_is_refused_in_a_sentence(streaming):
    with pytest.raises(one.InputError, match="ridge = 1e-18 is too small for n = 3000 streamed samples"):
        simulate_grid(long_problem(), [0.3], [1e-18], 1)


# ---------------------------------------------------------------------------------------------------------- spectrum


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
    monkeypatch.setattr(shifted, "DEVICE_BLOCK", 16)  # a device has only the lower triangle of the Gram matrix
    p = problem(**sizes, d=80, step=one.Step(constant=2.0, exponent=0.35))
    here, there = (measure_spectrum(p, 1, device=device) for device in ("cpu", library))
    np.testing.assert_allclose(there.eigenvalues.values, here.eigenvalues.values, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(there.overlaps.values, here.overlaps.values, atol=1e-7)


def test_lanczos_falls_back_when_eigenvalues_coincide():
    values, vectors = leading_eigenpairs(rows_of(np.eye(30)), 3)
    np.testing.assert_allclose(values, 1.0)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(3), atol=1e-12)


def test_lanczos_quadrature_is_exact_for_moments_of_each_probe():
    B = np.random.default_rng(0).standard_normal((90, 60))
    nodes, weights = lanczos_quadrature(rows_of(B), np.random.default_rng(5), probes=3, steps=12)
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
    step = found.points[1] - found.points[0]
    missed = []
    for k, row in zip(found.seeds, found.density.values, strict=True):
        network = draw_network(p, k)
        W = network.W0 + p.eta * step_gradient(p, network, k).G
        X = draw_batch(p, k, "ridge_inputs", None, p.n).X
        values, _ = decompose(p.sigma(X @ W.T), 0)
        kernel = np.exp(-(((found.points[:, None] - values) / found.width) ** 2) / 2)
        exact = kernel.sum(1) / (found.width * np.sqrt(2 * np.pi) * p.n)
        missed.append((row - exact).reshape(4, -1).sum(1) * step)
    for quarter in np.transpose(missed):
        assert_agrees(1, 1 + quarter, floor=0)
    # of the mass near 0 about 8 ± 0.3 % is smoothed to below 0, where no points are
    assert found.untrained_density.values.sum(1) * step == pytest.approx(min(1, N / n), abs=0.1)


# -------------------------------------------------------------------------------------------------------------- cost


def test_the_count_of_operations_is_that_of_the_products():
    p = problem(n=2000, d=1000, N=3000)
    count = operations(p, exponents=10, penalties=8, n_test=2000)
    assert count.products == 6 * 2 * 2000 * 1000 * 3000
    assert count.grams == 11 * 2000 * 2000 * 3000
    assert count.factors == pytest.approx(11 * 4 / 3 * 2000**3)
    assert count.drawn == 1000 * (3000 + 3 * 2000)


def test_the_plan_names_the_method_and_needs_no_run(monkeypatch):
    names = ("float64 product", "float32 product", "factorisation", "activation", "draws")
    monkeypatch.setattr(cost, "_rates", lambda *_: dict.fromkeys(names, 1e9))
    small, large, long = (
        plan(problem(**sizes), seeds=2)
        for sizes in (
            {"n": 100, "d": 50, "N": 150},
            {"n": 2000, "d": 1000, "N": 3000},
            {"n": 10**6, "d": 1000, "N": 2000},
        )
    )
    assert "float64" in small.method
    assert "float32 factors" in large.method
    assert "stream" in long.method
    assert long.memory < 4 * 2**30
    assert 0 < small.seconds < large.seconds < long.seconds
    assert large.to_dict()["operations"]["products"] == large.operations.products
