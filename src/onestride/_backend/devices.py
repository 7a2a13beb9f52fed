"""Devices: arrays of one library on one device in one precision, and which of them a name means."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
import psutil
from scipy import linalg

from onestride._backend import tiles
from onestride._backend.arrays import DeviceArray
from onestride._errors import InputError, one_of, quoted

LARGE = 2**30  # bytes: arrays from there on travel in parts
COPIERS = 8
PART = 2**25  # bytes
ONE_BY_ONE = 1024  # matrices of that size are factorised one after the other: devices have stacks of small ones in mind
# how many numbers a matrix has that is worth half precision, and the largest of those that are put there as they are
HALF_FROM, HALF_RANGE = 2**24, (2.0**-6, 2.0**9)
# page-locked memory is reserved by several threads, where torch has not been told otherwise: it is what a first call waits for
PINNED = "pinned_use_cuda_host_register:True,pinned_num_register_threads:8"


@dataclass(frozen=True)
class Backend:
    """Arrays of one library on one device in one precision; `xp` is its array-API namespace."""

    device: str = "cpu"
    dtype: str = "float64"

    @property
    def xp(self) -> ModuleType:
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

    def put(self, host: DeviceArray, dtype: str | None = None) -> Any:
        """A host array, on the device, in this precision (or another); an array that is there already as it is."""
        kind = getattr(self.xp, dtype or self.dtype)
        if not isinstance(host, np.ndarray):
            return self.xp.astype(host, kind, copy=False)
        if self.on_host:
            return host.astype(kind, copy=False)
        if self._is_torch:
            torch = importlib.import_module("torch")
            tensor = torch.from_numpy(host if host.flags.writeable and host.flags.c_contiguous else host.copy())
            if self.device == "torch" or host.nbytes < LARGE or kind != tensor.dtype:
                return tensor.to(self._torch_device).to(kind)
            out = self.empty(*host.shape, dtype=dtype)
            self._in_parts(out, tensor)
            return out
        return self.xp.asarray(host, dtype=kind)

    def get(self, array: Any) -> np.ndarray:
        """A float64 host array."""
        if isinstance(array, np.ndarray):
            return array.astype(np.float64, copy=False)
        if self._is_torch and (self.device == "torch" or array.element_size() != 8 or 8 * array.numel() < LARGE):
            return array.detach().cpu().double().numpy()
        if self._is_torch:
            out = np.empty(tuple(array.shape))
            self._in_parts(importlib.import_module("torch").from_numpy(out), array)
            return out
        if self.device == "cupy":
            return importlib.import_module("cupy").asnumpy(array).astype(np.float64)
        return np.asarray(array, dtype=np.float64)

    def fetched(self, array: Any) -> Future[np.ndarray]:
        """`get`, in a thread, while the device goes on; the array must not change meanwhile."""
        self._wait()
        pool = ThreadPoolExecutor(1)
        found = pool.submit(self.get, array)
        pool.shutdown(wait=False)
        return found

    @contextmanager
    def beside(self, purpose: str) -> Iterator[None]:
        """Work beside what the device does otherwise, in the order of its `purpose`; it is done when this ends."""
        if not self.device.startswith("cuda"):
            yield
            return
        own = _side_stream(self._torch_device, purpose)
        with importlib.import_module("torch").cuda.stream(own):
            yield
        own.synchronize()

    def hold(self, array: Any) -> None:
        """Take over an array made `beside`: its memory is not used again there before what reads it here is done."""
        if self.device.startswith("cuda"):
            array.record_stream(importlib.import_module("torch").cuda.current_stream(self._torch_device))

    def empty(self, *shape: int, dtype: str | None = None) -> Any:
        """An uninitialised array."""
        return self.xp.empty(shape, dtype=getattr(self.xp, dtype or self.dtype), **self.where)

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
        return self.xp.eye(size, dtype=getattr(self.xp, dtype), **self.where)

    def copy(self, array: Any) -> Any:
        """The same numbers in other memory."""
        return array.clone() if self._is_torch else self.xp.asarray(array, copy=True)

    def cholesky(self, stack: Any) -> tuple[Any, Any]:
        """Lower Cholesky factors of a stack of matrices, and an array that is 0 if all of them are positive definite."""
        if self._is_torch:
            torch = importlib.import_module("torch")
            if stack.shape[-1] < ONE_BY_ONE:
                return torch.linalg.cholesky_ex(stack)  # does not wait for the device
            factors, failures = zip(*(torch.linalg.cholesky_ex(one) for one in stack), strict=True)
            return torch.stack(factors), torch.stack(failures)
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

    def factor(self, array: Any, dtype: str, unit: float | None = None) -> tuple[Any, float]:
        """An array over a unit, in `dtype`, to enter `add_product`; and the unit, by its largest number unless given.

        Where `fast_products` round to 11 bits it is put in half precision, which has as many: twice as fast, and half the bytes.
        """
        large = dtype == "float32" and array.shape[-2] * array.shape[-1] >= HALF_FROM
        if not (large and self.device.startswith("cuda") and self._rounds and _half(self._torch_device)):
            return self.put(array, dtype), 1.0
        if unit is None:
            largest = float(abs(array).max())
            usual = HALF_RANGE[0] <= largest <= HALF_RANGE[1] or not 0 < largest < np.inf
            unit = 1.0 if usual else float(2.0 ** np.round(np.log2(largest)))
        return self.put(array if unit == 1 else array / unit, "float16"), unit

    def add_product(self, C: Any, A: Any, B: Any, scale: float = 1.0) -> None:
        """C += scale·AB in place; A and B may be `factor`s."""
        if self._is_torch and A.dtype != C.dtype:
            torch = importlib.import_module("torch")
            product = torch.addmm if C.ndim == 2 else torch.baddbmm
            product(C, A, B, alpha=scale, out_dtype=C.dtype, out=C)
        elif self._is_torch:
            (C.addmm_ if C.ndim == 2 else C.baddbmm_)(A, B, alpha=scale)
        else:
            product = A @ B
            if scale != 1.0:
                product *= scale
            C += product

    def tiles(self, rows: int, row_length: int) -> Iterator[slice]:
        """Slices that cut `rows` rows of `row_length` doubles into the tiles that suit the device."""
        return tiles.tiles(rows, row_length, on_host=self.on_host)

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

    def _wait(self) -> None:
        """Until the device has done what it was told in this thread."""
        if self.device.startswith("cuda"):
            importlib.import_module("torch").cuda.current_stream(self._torch_device).synchronize()

    @property
    def _rounds(self) -> bool:
        return importlib.import_module("torch").backends.cuda.matmul.allow_tf32

    def _in_parts(self, target: Any, source: Any) -> None:
        """Copy rows between device and host in several threads, by way of page-locked memory: its cores fill or empty the pages that are not."""
        torch, rows = importlib.import_module("torch"), source.shape[0]
        size = max(1, PART * rows // (8 * source.numel()))

        def copy(start: int) -> None:
            part = slice(start, start + size)
            stage = torch.empty_like(source[part], device="cpu", pin_memory=True)
            if source.is_cuda:
                with self.beside("copies"):
                    stage.copy_(source[part], non_blocking=True)
                target[part].numpy()[...] = stage.numpy()
            else:
                stage.numpy()[...] = source[part].numpy()
                with self.beside("copies"):
                    target[part].copy_(stage, non_blocking=True)

        self._wait()
        with ThreadPoolExecutor(COPIERS) as pool:
            list(pool.map(copy, range(0, rows, size)))

    @property
    def where(self) -> dict[str, str]:
        """The keyword that puts a new array there."""
        return {"device": self._torch_device} if self._is_torch else {}

    @property
    def _is_torch(self) -> bool:
        return self.device.startswith(("cuda", "torch"))

    @property
    def _torch_device(self) -> str:
        return "cpu" if self.device == "torch" else self.device


@lru_cache
def _side_stream(device: str, purpose: str) -> Any:
    return importlib.import_module("torch").cuda.Stream(device, priority=-1)


@lru_cache
def _half(device: str) -> bool:
    """Whether products of halves can be added to floats: not with every version of torch."""
    torch = importlib.import_module("torch")
    for shape, product in (((16, 16), torch.addmm), ((2, 16, 16), torch.baddbmm)):
        C, A = torch.ones(shape, device=device), torch.ones(shape, dtype=torch.float16, device=device)
        try:
            product(C, A, A, alpha=-1.0, out_dtype=C.dtype, out=C)
        except (TypeError, RuntimeError):
            return False
        if not bool((C == -15).all()):
            return False
    return True


HOST = Backend()


def choose(device: str | None = None, dtype: str | None = None) -> Backend:
    """The backend of a device ('cpu', 'cuda', 'cuda:1', 'torch' for torch on the CPU, 'cupy') and a precision.

    None is the default: NumPy in float64.
    """
    name = require_device(HOST.device if device is None else device)
    if dtype is not None:
        one_of("dtype", dtype, ("float64", "float32"))
    return Backend(name, HOST.dtype if dtype is None else dtype)


def backend_of(z: DeviceArray) -> Backend:
    """Where an array lives, and its precision."""
    library, dtype = type(z).__module__.split(".")[0], str(z.dtype).rpartition(".")[2]
    if library == "torch":
        where = str(getattr(z, "device"))  # noqa: B009
        return Backend("torch" if where == "cpu" else where, dtype)
    return Backend({"numpy": "cpu", "array_api_strict": "strict"}.get(library, library), dtype)


def project(X: DeviceArray, directions: np.ndarray) -> np.ndarray:
    """X times a thin host array, as a host array, wherever X lives."""
    if isinstance(X, np.ndarray):
        return X @ directions
    backend = backend_of(X)
    return backend.get(X @ backend.put(directions))


def through_host(f: Callable[[np.ndarray], np.ndarray], z: DeviceArray) -> Any:
    """f(z) for an f that knows NumPy only: z travels to the host, and the result to where z was."""
    backend = backend_of(z)
    return backend.put(f(backend.get(z)))


def require_device(device: str) -> str:
    """The device's name if it is one and is there, else a sentence."""
    name, _, number = device.partition(":") if isinstance(device, str) else ("", "", "")
    if name not in ("cpu", "torch", "cuda", "cupy", "strict") or (number and not (name == "cuda" and number.isdigit())):
        raise InputError(f"device must be cpu, cuda, cuda:0, torch (on the CPU) or cupy, got {quoted(device)}")
    library = {"cuda": "torch", "torch": "torch", "cupy": "cupy"}.get(name)
    if library is None:
        return device
    if name == "cuda":
        os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", PINNED)
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
