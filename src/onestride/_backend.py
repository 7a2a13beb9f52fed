"""Where arrays live, where random numbers come from, and how much memory there is.

The only file that knows torch or CuPy exists. Draws are made on the host, so one seed is the same data on every device.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, TypeVar

import numpy as np
import psutil
from scipy import linalg, special

from onestride._errors import InputError

T = TypeVar("T")
Role = Literal[
    "teacher", "weights", "readout", "step_inputs", "step_noise", "ridge_inputs", "ridge_noise", "test_inputs", "probe"
]
_CHILD: dict[Role, int] = {
    "teacher": 0,
    "weights": 1,
    "readout": 2,
    "step_inputs": 3,
    "step_noise": 4,
    "ridge_inputs": 5,
    "ridge_noise": 6,
    "test_inputs": 7,
    "probe": 8,
}

TILE_BYTES = 64 * 2**20  # rows that enter matrix products are processed in tiles of about this size
CACHE_BYTES = 2**20  # elementwise work in tiles that stay in cache
DEVICE_ROWS = 2048
MOST_AHEAD = 16  # blocks drawn in advance: more would only fill memory
BLOCK_NUMBERS = 2**24  # random numbers drawn from one stream; larger arrays take several streams, drawn in parallel


# --------------------------------------------------------------------------------------------------- random numbers


def stream(seed: int, role: Role, part: int = 0, block: int = 0) -> np.random.Generator:
    """The random stream of one role of one seed: the same alone, in a batch of 100, or on another machine.

    `part` numbers independent streams of one role, such as the batches of several steps; `block` the row blocks of an
    array that is drawn in parallel. 0 and 0 is the role's own.
    """
    key = (_CHILD[role], part, block) if block else (_CHILD[role], part) if part else (_CHILD[role],)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def row_blocks(rows: int, row_length: int) -> list[slice]:
    """The row blocks of a random array: as many whole rows as 2²⁴ numbers hold, each block with its own stream."""
    size = max(1, BLOCK_NUMBERS // max(row_length, 1))
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]


def prefetched(tasks: Iterable[Callable[[], T]]) -> Iterator[T]:
    """The results of the tasks in order; the next ones are computed in threads while one is used."""
    workers = min(threads(), MOST_AHEAD)
    with ThreadPoolExecutor(workers) as pool:
        waiting = []
        for task in tasks:
            waiting.append(pool.submit(task))
            if len(waiting) > workers:
                yield waiting.pop(0).result()
        while waiting:
            yield waiting.pop(0).result()


def in_threads(work: Callable[[int, int], None], rows: int) -> None:
    """Do `work` from row i to row j for equal shares of the rows, one per thread; NumPy lets them run side by side."""
    workers = min(threads(), rows)
    if workers < 2:
        work(0, rows)
        return
    edges = np.linspace(0, rows, workers + 1).astype(int)
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, edges[:-1], edges[1:]))


@lru_cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def threads() -> int:
    """How many threads elementwise work may use: as many as the linear algebra does, so workers of a pool do not fight."""
    return max((library.num_threads for library in _blas().lib_controllers), default=1)


# ----------------------------------------------------------------------------------------------------------- tiles


def tiles(rows: int, row_length: int) -> Iterator[slice]:
    """Slices that cut `rows` rows of `row_length` doubles into pieces of about 64 MiB.

    On a device a piece has at least 2048 rows: its matrix products need them.
    """
    size = max(1, TILE_BYTES // (8 * max(row_length, 1)))
    if not current().on_host:
        size = max(size, DEVICE_ROWS)
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def map_tiles(f: Callable[..., Any], *arrays: Any, out: Any = None) -> Any:
    """Apply f to arrays with the same rows, into `out`: on the host in threads and in tiles that stay in cache.

    There f(*tiles, out=tile) writes its result into a tile of `out`; elsewhere f(*tiles) returns it.
    """
    first = arrays[0]
    if not isinstance(first, np.ndarray):
        if out is None:
            return f(*arrays)
        for rows in tiles(*first.shape):
            out[rows, :] = f(*(a[rows, :] for a in arrays))
        return out
    out = np.empty_like(first) if out is None else out

    size = max(1, CACHE_BYTES // (8 * max(first.shape[1], 1)))

    def work(start: int, stop: int) -> None:
        for i in range(start, stop, size):
            rows = slice(i, min(i + size, stop))
            f(*(a[rows] for a in arrays), out=out[rows])

    in_threads(work, first.shape[0])
    return out


# --------------------------------------------------------------------------------------------------------- devices


@dataclass(frozen=True)
class Backend:
    """Arrays of one library on one device in one precision; `xp` is its array-API namespace."""

    device: str = "cpu"
    dtype: str = "float64"

    @cached_property
    def xp(self) -> Any:
        """The array namespace: NumPy, or the compatible face of torch or CuPy."""
        if self.device == "cpu":
            return np
        if self.device == "cupy":
            return importlib.import_module("array_api_compat.cupy")
        if self.device == "strict":  # the reference implementation of the standard, for tests
            return importlib.import_module("array_api_strict")
        return importlib.import_module("array_api_compat.torch")

    @property
    def on_host(self) -> bool:
        """Whether arrays are NumPy arrays."""
        return self.device == "cpu"

    @property
    def eps(self) -> float:
        """Rounding unit of the precision."""
        return float(np.finfo(self.dtype).eps)

    def put(self, host: Any, dtype: str | None = None) -> Any:
        """A host array, on the device, in this precision (or another); an array that is there already as it is."""
        kind = getattr(self.xp, dtype or self.dtype)
        if not isinstance(host, np.ndarray):
            return self.xp.astype(host, kind, copy=False)
        if self.on_host:
            return host.astype(kind, copy=False)
        if self._is_torch:
            torch = importlib.import_module("torch")
            tensor = torch.from_numpy(host if host.flags.writeable and host.flags.c_contiguous else host.copy())
            return tensor.to(self._torch_device).to(kind)
        return self.xp.asarray(host, dtype=kind)

    def get(self, array: Any) -> np.ndarray:
        """A float64 host array."""
        if isinstance(array, np.ndarray):
            return array.astype(np.float64, copy=False)
        if self._is_torch:
            return array.detach().cpu().double().numpy()
        if self.device == "cupy":
            return importlib.import_module("cupy").asnumpy(array).astype(np.float64)
        return np.asarray(array, dtype=np.float64)

    def empty(self, *shape: int, dtype: str | None = None) -> Any:
        """An uninitialised array."""
        return self.xp.empty(shape, dtype=getattr(self.xp, dtype or self.dtype), **self._where)

    def zeros(self, *shape: int, dtype: str | None = None) -> Any:
        """An array of zeros."""
        out = self.empty(*shape, dtype=dtype)
        out[...] = 0.0
        return out

    def host_empty(self, *shape: int) -> np.ndarray:
        """An uninitialised host array that is quick to copy to the device (page-locked memory for CUDA)."""
        if not self.device.startswith("cuda"):
            return np.empty(shape)
        return importlib.import_module("torch").empty(shape, dtype=self.xp.float64, pin_memory=True).numpy()

    def eye(self, size: int, dtype: str) -> Any:
        """The identity."""
        return self.xp.eye(size, dtype=getattr(self.xp, dtype), **self._where)

    def copy(self, array: Any) -> Any:
        """The same numbers in other memory."""
        return array.clone() if self._is_torch else self.xp.asarray(array, copy=True)

    def cholesky(self, stack: Any) -> tuple[Any, Any]:
        """Lower Cholesky factors of a stack of matrices, and an array that is 0 if all of them are positive definite."""
        if self._is_torch:
            return importlib.import_module("torch").linalg.cholesky_ex(stack)  # does not wait for the device
        L = self.xp.linalg.cholesky(stack)
        return L, self.xp.sum(0.0 * L)  # CuPy writes NaN where others raise

    def solve_triangular(self, L: Any, B: Any) -> Any:
        """L⁻¹B for a lower triangular L."""
        if self.on_host:
            return linalg.solve_triangular(L, B, lower=True, check_finite=False)
        if self._is_torch:
            return importlib.import_module("torch").linalg.solve_triangular(L, B, upper=False)
        if self.device == "cupy":
            return importlib.import_module("cupyx.scipy.linalg").solve_triangular(L, B, lower=True)
        return self.xp.linalg.solve(L, B)

    def add_product(self, C: Any, A: Any, B: Any, scale: float = 1.0) -> None:
        """C += scale·AB in place."""
        if self._is_torch:
            (C.addmm_ if C.ndim == 2 else C.baddbmm_)(A, B, alpha=scale)
        else:
            product = A @ B
            product *= scale
            C += product

    def total_memory(self) -> float:
        """Bytes that the device has."""
        if self.device.startswith("cuda"):
            return float(importlib.import_module("torch").cuda.mem_get_info(self._torch_device)[1])
        if self.device == "cupy":
            return float(importlib.import_module("cupy").cuda.Device().mem_info[1])
        return float(psutil.virtual_memory().total)

    def free_memory(self) -> float:
        """Bytes free on the device now."""
        if self.device.startswith("cuda"):
            cuda = importlib.import_module("torch").cuda
            cached = cuda.memory_reserved(self._torch_device) - cuda.memory_allocated(self._torch_device)
            return float(cuda.mem_get_info(self._torch_device)[0] + cached)
        if self.device == "cupy":
            return float(importlib.import_module("cupy").cuda.Device().mem_info[0])
        return float(psutil.virtual_memory().available)

    @contextmanager
    def fast_products(self, wanted: bool) -> Iterator[None]:
        """Let float32 products round their factors to 11 bits where a device is several times faster so (TF32)."""
        if not wanted or not self.device.startswith("cuda"):
            yield
            return
        matmul = importlib.import_module("torch").backends.cuda.matmul
        before, matmul.allow_tf32 = matmul.allow_tf32, True
        try:
            yield
        finally:
            matmul.allow_tf32 = before

    @property
    def _where(self) -> dict[str, str]:
        return {"device": self._torch_device} if self._is_torch else {}

    @property
    def _is_torch(self) -> bool:
        return self.device.startswith(("cuda", "torch"))

    @property
    def _torch_device(self) -> str:
        return "cpu" if self.device == "torch" else self.device


_HOST = Backend()
_CURRENT: ContextVar[Backend] = ContextVar("backend", default=_HOST)


def current() -> Backend:
    """The backend that simulations run on now: NumPy in float64 unless `using` says otherwise."""
    return _CURRENT.get()


@contextmanager
def using(device: str | None = None, dtype: str | None = None) -> Iterator[Backend]:
    """Run simulations on a device ('cpu', 'cuda', 'cuda:1', 'torch' for torch on the CPU, 'cupy') in a precision.

    What is None stays as it was outside.
    """
    outside = current()
    chosen = Backend(require_device(device) if device else outside.device, dtype or outside.dtype)
    if chosen.dtype not in ("float64", "float32"):
        raise InputError(f"dtype must be 'float64' or 'float32', got {dtype!r}")
    token = _CURRENT.set(chosen)
    try:
        yield chosen
    finally:
        _CURRENT.reset(token)


def require_device(device: str) -> str:
    """The device's name if it is one and is there, else a sentence."""
    name, _, number = device.partition(":")
    if name not in ("cpu", "torch", "cuda", "cupy", "strict") or (number and not (name == "cuda" and number.isdigit())):
        raise InputError(f"device must be cpu, cuda, cuda:0, torch (on the CPU) or cupy, got {device!r}")
    library = {"cuda": "torch", "torch": "torch", "cupy": "cupy"}.get(name)
    if library is None:
        return device
    try:
        module = importlib.import_module(library)
    except ImportError:
        install = "pip install 'onestride[torch]'" if library == "torch" else "pip install cupy-cuda12x"
        raise InputError(f"device {device!r} needs {library}, which is not installed: {install}") from None
    found = module.cuda.device_count() if name == "cuda" else 1
    if int(number or 0) >= found:
        raise InputError(
            f"device {device!r} was asked for, but torch sees {found or 'no'} CUDA device{'s'[: found != 1]}"
        )
    return device


def namespace(z: Any) -> Any:
    """The array namespace of an array; NumPy itself for NumPy."""
    if isinstance(z, np.ndarray | np.generic | float | int):
        return np
    return importlib.import_module("array_api_compat").array_namespace(z)


def apply_special(name: str, z: Any) -> Any:
    """erf, ndtr or expit of any library's array."""
    if namespace(z) is np:
        return getattr(special, name)(z)
    module = {"torch": "torch.special", "cupy": "cupyx.scipy.special"}.get(type(z).__module__.split(".")[0])
    if module is not None:
        return getattr(importlib.import_module(module), name)(z)
    return namespace(z).asarray(getattr(special, name)(np.asarray(z)))


def fits(needed: float) -> bool:
    """Whether so many bytes are free now on the current device, with a little to spare."""
    return needed <= (0.9 if current().on_host else 0.99) * current().free_memory()


def require_memory(needed: float, what: str) -> None:
    """Refuse, in a sentence, work that does not fit into the memory that is free now on the current device."""
    if not fits(needed):
        free = current().free_memory()
        raise InputError(
            f"{what} needs about {needed / 2**30:.3g} GiB of memory and {free / 2**30:.3g} GiB are free; "
            "use smaller sizes or a larger machine"
        )
