"""How many operations of each kind this machine does in a second, measured in the small."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np

from onestride._backend import Backend, DeviceArray
from onestride.functions import Function
from onestride.simulation.shifted import factors

TRIAL = 1536  # size of the products that are timed


def measured_rates(sigma: Function, backend: Backend, *, tridiagonal: bool) -> dict[str, float]:
    """Operations per second of each kind on a device; factorisations are tridiagonal forms or Cholesky's."""
    m = TRIAL if backend.on_host else 2 * TRIAL
    rng = np.random.default_rng(0)
    A = backend.put(rng.standard_normal((m, m)))
    A32 = backend.put(A, "float32")
    K32 = A32.T @ A32 + m * backend.eye(m, "float32")

    def rate(work: Callable[[], DeviceArray], count: float) -> float:
        times: list[float] = []
        for _ in range(3):
            started = perf_counter()
            result = work()
            if not backend.on_host:
                float(backend.xp.sum(result))  # wait for the device
            times.append(perf_counter() - started)
        return count / min(times)

    def factorise() -> DeviceArray:
        solver = factors(backend.copy(K32), np.ones(1), backend, tridiagonal=tridiagonal, last=True)
        return solver(K32[:, :1], np.zeros(1, int))

    with backend.fast_products(True):
        low = rate(lambda: A32 @ A32, 2 * m**3)
    return {
        "float64 product": rate(lambda: A @ A, 2 * m**3),
        "float32 product": low,
        "factorisation": rate(factorise, (4 / 3 if tridiagonal else 1 / 3) * m**3),
        "activation": rate(lambda: sigma(A + 0.5 * A), m * m),
        "draws": rate(lambda: backend.put(rng.standard_normal((m, m))), m * m),
    }
