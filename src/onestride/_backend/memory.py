"""Memory: what is free on a device now, and the sentence for work that does not fit."""

from __future__ import annotations

from onestride._backend.devices import HOST, Backend
from onestride._errors import InputError


def fits(needed: float, backend: Backend = HOST) -> bool:
    """Whether so many bytes are free now on the device, with a little to spare."""
    return needed <= (0.9 if backend.on_host else 0.99) * backend.free_memory()


def require_memory(needed: float, what: str, backend: Backend = HOST) -> None:
    """Refuse, in a sentence, work that does not fit into the memory that is free now on the device."""
    if not fits(needed, backend):
        free = backend.free_memory()
        raise InputError(
            f"{what} needs about {needed / 2**30:.3g} GiB of memory and {free / 2**30:.3g} GiB are free; "
            "use smaller sizes or a larger machine"
        )
