"""x = (BᵀB + s)⁻¹b in full precision from rough factors: preconditioned conjugate gradients, all columns in the same passes over B.

    r = b − (BᵀB + s)x,   z = Pr,   d = z + (rᵀz/r₋ᵀz₋)d,   x += (rᵀz/dᵀ(BᵀB + s)d)d,      P ≈ (BᵀB + s)⁻¹

Each column stops at its own bound |x − x*|/|x| ≤ |r|/(s|x|). A pass reads the whole of B, so what depends on a solution, (BᵀB + s)⁻¹x, starts
as soon as x is good enough for it, beside the columns that are still under way.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType
from typing import Any, cast

import numpy as np

from onestride._backend import Backend, DeviceArray, on_host
from onestride._numerics import Array, Float
from onestride.simulation.panels import Solver
from onestride.simulation.rows import Rows

TOLERANCE = 1e-12  # bound on the relative error of the solutions, or the rounding of a direct solution if larger
SLOPE_TOLERANCE = 1e-7  # of what only weighs numbers of mean 0, or is averaged over (`slopes`, `luck`)
MAX_STEPS = 30
TRUSTED_STEPS = 6  # so many leave the residual of the recurrence within rounding of the true one


@dataclass(frozen=True)
class Refined:
    """x and Bx of every column of b, all shifts of the first, then of the next; (BᵀB + s)⁻¹x of the first, and B times it."""

    x: DeviceArray
    image: DeviceArray
    again: Any = None
    again_image: Any = None


@dataclass(frozen=True)
class Systems:
    """The operator BᵀB + s for every shift, its rough inverse in `dtype`, and a norm of BᵀB that tells its rounding."""

    rows: Rows
    shifts: Float[Array, "shifts"]
    solver: Solver
    dtype: str
    norm: float

    def sought(self, b: DeviceArray, tolerance: float) -> Columns:
        """Solutions for each column of b and every shift, none of them begun."""
        return Columns(self, columns_for(b, self.shifts.size, self.rows.backend), tolerance)


def refine(systems: Systems, b: DeviceArray, exact: int, *, twice: bool) -> Refined | None:
    """Solve for all columns of b, those beyond the first `exact` to SLOPE_TOLERANCE, and the first `twice`.

    None unless the residuals become small.
    """
    p, backend = systems.shifts.size, systems.rows.backend
    sought = [systems.sought(b[..., :exact], TOLERANCE)]
    if b.shape[-1] > exact:
        sought.append(systems.sought(b[..., exact:], SLOPE_TOLERANCE))
    again: list[Columns] = []
    while True:
        if twice and not again and sought[0].bound(p) < SLOPE_TOLERANCE / 10:
            again = [Columns(systems, sought[0].first(p), SLOPE_TOLERANCE)]
        active = [one for one in (*sought, *again) if one.at.size]
        if not active:
            x, image = (
                backend.xp.concat(parts, axis=-1) for parts in zip(*(one.found() for one in sought), strict=True)
            )
            return Refined(x, image, *(again[0].found() if again else ()))
        if not _pass(systems, active):
            return None


def _pass(systems: Systems, active: list[Columns]) -> bool:
    """One step of every column; False if it leads nowhere."""
    backend, rows = systems.rows.backend, systems.rows
    xp = backend.xp
    size = [_norms(one.r, xp) for one in active]  # unit columns: float32 has a narrow range
    unit = xp.concat([_ratio(one.r, length, xp) for one, length in zip(active, size, strict=True)], axis=-1)
    which = np.concatenate([one.at % systems.shifts.size for one in active])
    z = backend.put(systems.solver(backend.put(unit, systems.dtype), which))
    edges = np.cumsum([0, *(one.at.size for one in active)]).tolist()
    parts = [slice(i, j) for i, j in pairwise(edges)]
    d = [one.towards(z[..., i] * length) for one, i, length in zip(active, parts, size, strict=True)]
    applied, along = rows.gram_apply(xp.concat(d, axis=-1) if len(d) > 1 else d[0])
    return all(one.advance(applied[..., i], along[..., i]) for one, i in zip(active, parts, strict=True))


class Columns:
    """Columns under way, `at` which places, their solutions x, images Bx, residuals r and directions d; and those that are done."""

    def __init__(self, systems: Systems, right: DeviceArray, tolerance: float) -> None:
        self._systems, self._right = systems, right
        backend, rows = systems.rows.backend, systems.rows
        shifts = np.tile(systems.shifts, right.shape[-1] // systems.shifts.size)
        self._s = backend.put(np.asarray(shifts, float))
        self._least = np.maximum(tolerance, backend.eps * systems.norm / shifts)
        self.at = np.arange(shifts.size)
        self.x, self.image = backend.zeros(*right.shape), backend.zeros(*rows.stack, rows.length, shifts.size)
        self.r: DeviceArray = self.x + right
        self._d: DeviceArray | None = None
        self._power: Any = None
        self._steps, self._again = 0, False
        self._left = np.full(shifts.size, np.inf)
        self._done: list[tuple[Any, Any, Any]] = []

    def bound(self, count: int) -> float:
        """The largest bound on the relative error of the first so many columns."""
        return float(self._left[self.at < count].max(initial=0.0))

    def first(self, count: int) -> DeviceArray:
        """The first columns of x as they are now."""
        return self._ordered(1)[..., :count]

    def found(self) -> tuple[DeviceArray, DeviceArray]:
        """X and Bx."""
        return self._ordered(1), self._ordered(2)

    def towards(self, z: DeviceArray) -> DeviceArray:
        """The next direction."""
        xp = self._xp
        now = xp.sum(self.r * z, axis=-2, keepdims=True)
        d = z if self._d is None else z + _ratio(now, self._power, xp) * self._d
        self._d, self._power = d, now
        return d

    def advance(self, applied: DeviceArray, along: DeviceArray) -> bool:
        """One step along it, given BᵀBd and Bd; False if the numbers are no longer finite or there were too many steps."""
        xp, d = self._xp, self._d
        assert d is not None
        q = applied + self._s * d
        step = _ratio(self._power, xp.sum(d * q, axis=-2, keepdims=True), xp)
        self.x, self.r, self.image = self.x + step * d, self.r - step * q, self.image + step * along
        self._steps += 1
        self._judge()
        if not np.isfinite(self._left).all() or self._steps > MAX_STEPS:
            return False
        if self._steps <= TRUSTED_STEPS:
            self._put_aside(self._left <= self._least)
            return True
        return bool((self._left > self._least).any()) or self._certain()

    def _certain(self) -> bool:
        """After many steps: whether the true residual is as small as the one of the recurrence; if not, once more from there."""
        applied, self.image = self._systems.rows.gram_apply(self.x)
        self.r = self._right - applied - self._s * self.x
        self._judge()
        if (self._left <= 4 * self._least).all():
            self._put_aside(np.full(self.at.size, True))
            return True
        before, self._again, self._d, self._steps = self._again, True, None, 0
        return not before

    def _judge(self) -> None:
        left = self._backend.get(_norms(self.r, self._xp) / (self._s * _norms(self.x, self._xp)))
        self._left = left.reshape(-1, left.shape[-1]).max(0)

    def _put_aside(self, done: Any) -> None:
        """Columns that are done take no further part; on a device all wait for the last, as a pass costs the same."""
        if done.all():
            self._done.append((self.at, self.x, self.image))
            self.at, self._left = self.at[:0], self._left[:0]
        elif done.any() and on_host(self.x):
            self._done.append((self.at[done], self.x[:, done], self.image[:, done]))
            kept = ~done
            self.at, self._left, self._least, self._s = (a[kept] for a in (self.at, self._left, self._least, self._s))
            arrays = (self.x, self.image, self.r, self._d, self._power, self._right)
            self.x, self.image, self.r, self._d, self._power, self._right = (cast("Array", a)[:, kept] for a in arrays)

    def _ordered(self, which: int) -> DeviceArray:
        under_way = [(self.at, self.x, self.image)] if self.at.size else []
        parts = [*self._done, *under_way]
        if len(parts) == 1:
            return parts[0][which]
        order = np.argsort(np.concatenate([part[0] for part in parts]))
        return self._xp.concat([part[which] for part in parts], axis=1)[:, order]

    @property
    def _backend(self) -> Backend:
        return self._systems.rows.backend

    @property
    def _xp(self) -> ModuleType:
        return self._backend.xp


def columns_for(b: DeviceArray, shifts: int, backend: Backend) -> DeviceArray:
    """Every column of b once for each shift."""
    zeros = backend.zeros(b.shape[-2], shifts)
    return backend.xp.concat([b[..., k : k + 1] + zeros for k in range(b.shape[-1])], axis=-1)


def _norms(columns: DeviceArray, xp: ModuleType) -> DeviceArray:
    return xp.sqrt(xp.sum(columns * columns, axis=-2, keepdims=True))


def _ratio(a: DeviceArray, b: DeviceArray, xp: ModuleType) -> DeviceArray:
    """a/b, and 0 where b is 0: a column that is solved exactly stays where it is."""
    return a / xp.where(b == 0, xp.ones_like(b), b)
