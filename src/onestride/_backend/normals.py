"""NumPy's normal numbers, made on a device: the same stream, all of its words side by side.

A stream of `default_rng` is a linear congruential generator of 128 bits (PCG64): i steps from the state s it is at

    s_i = Aⁱs + Q_i c,      Q_i = 1 + A + … + Aⁱ⁻¹,

and its i-th word is made of s_i alone. NumPy's ziggurat makes a number of one word, 99 times in 100; else it asks for one
word more (the wedge of its layer), or for pairs of them (the tail). Which words begin a number is read off from those few.
The numbers are NumPy's to the bit, but for those of the tail (|x| > 3.65), whose logarithm may differ in its last digit.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from onestride._backend.devices import Backend

LEAST = 2**22  # numbers: fewer are drawn sooner by the host than a device takes to be told
_A = 0x2360ED051FC65DA44385DF649FCCF645
_WORD, _HALF, _SIZE, _LEAST = 2**64 - 1, 2**32 - 1, 2**128, -(2**63)
_LANE = 2**13  # consecutive words of one row
_MORE = 1.03  # words for each number; 1.023 are used
_PAIRS = 16  # asked for in the tail: all are refused once in 10¹⁴ times
_DIGITS = 2**52


class Wide(NamedTuple):
    """Unsigned numbers of 128 bits, each in two signed words."""

    hi: Any
    lo: Any


class Ziggurat(NamedTuple):
    """The tables of the layers, by the nine lowest bits of a word, layer and sign: widths over 2⁵², how much of a layer lies under the next; densities."""

    width: Any
    inside: Any
    density: Any
    below: Any


def draws_itself(backend: Backend, numbers: float = LEAST) -> bool:
    """Whether a device makes so many normal numbers itself."""
    return backend.device.startswith("cuda") and numbers >= LEAST and _agrees(backend)


def device_normals(generator: np.random.Generator, rows: int, length: int, backend: Backend) -> Any:
    """`generator.standard_normal((rows, length))` on the device, of a generator that is not moved on; None if it is not to be had so."""
    xp, state, count = backend.xp, generator.bit_generator.state, rows * length
    if state["bit_generator"] != "PCG64":
        return None
    words = _words(state["state"]["state"], state["state"]["inc"], int(_MORE * count) + 2 * _LANE, backend)
    numbers, keep = _numbers(words, _tables(backend), backend)
    found = words[:0] if keep is None else numbers[keep]
    return xp.reshape(found[:count], (rows, length)) if found.shape[0] >= count else None


@lru_cache
def _agrees(backend: Backend) -> bool:
    """Whether this is how the NumPy at hand draws."""
    theirs, ours = (
        np.random.default_rng(0).standard_normal(2**15),
        device_normals(np.random.default_rng(0), 1, 2**15, backend),
    )
    return ours is not None and bool(np.abs(backend.get(ours) - theirs).max() < 1e-14)


# --------------------------------------------------------------------------------------------------------- its words


def _words(state: int, increment: int, count: int, backend: Backend) -> Any:
    """The next words of PCG64: hi XOR lo of each state, turned by its six highest bits."""
    lanes = -(-count // _LANE)
    s, c = (_wide([x], backend) for x in (state, increment))
    starts = _multiply_add(_powers(_LANE, lanes, backend)[0], s, _times(_powers(_LANE, lanes, backend)[1], c))
    steps, sums = (Wide(x.hi[None, :], x.lo[None, :]) for x in _powers(1, _LANE, backend))
    hi, lo = _multiply_add(steps, Wide(starts.hi[:, None], starts.lo[:, None]), _times(sums, c))
    lo ^= hi
    turn = _shifted(hi, 58)
    left = (64 - turn) & 63
    low = (backend.xp.ones_like(left) << left) - 1
    low &= lo >> turn
    lo <<= left
    lo |= low
    return backend.xp.reshape(lo, (-1,))


@lru_cache(maxsize=8)
def _powers(stride: int, count: int, backend: Backend) -> tuple[Wide, Wide]:
    """Aⁱ and Q_i at i = 1, 2, …, or, for a stride above 1, at i = 0, stride, 2·stride, …: a state's word is made of the next state."""
    power, total = 1, 0
    for _ in range(stride):
        power, total = power * _A % _SIZE, (total * _A + 1) % _SIZE
    at = (1, 0) if stride > 1 else (power, total)
    powers, sums = [at[0]], [at[1]]
    for _ in range(count - 1):
        sums.append((sums[-1] * power + total) % _SIZE)
        powers.append(powers[-1] * power % _SIZE)
    return _wide(powers, backend), _wide(sums, backend)


def _wide(numbers: list[int], backend: Backend) -> Wide:
    parts = [np.array([(x >> shift) & _WORD for x in numbers], np.uint64).view(np.int64) for shift in (64, 0)]
    return Wide(*(backend.put(part, "int64") for part in parts))


def _times(a: Wide, b: Wide) -> Wide:
    return _multiply_add(a, b, Wide(0 * b.hi, 0 * b.lo))


def _multiply_add(a: Wide, b: Wide, c: Wide) -> Wide:
    """Ab + c modulo 2¹²⁸, by halves of words; signed words overflow as unsigned ones do."""
    (a1, a0), (b1, b0) = ((_shifted(x.lo, 32), x.lo & _HALF) for x in (a, b))
    middle = _shifted(a0 * b0, 32)
    middle += a1 * b0
    right = a0 * b1
    right += middle & _HALF
    hi = _shifted(middle, 32)
    hi += _shifted(right, 32)
    hi += a1 * b1
    hi += a.hi * b.lo
    hi += a.lo * b.hi
    hi += c.hi
    lo = a.lo * b.lo
    lo += c.lo
    hi += (lo ^ _LEAST) < (c.lo ^ _LEAST)  # carried
    return Wide(hi, lo)


def _shifted(x: Any, by: int) -> Any:
    """To the right, zeros coming in from the left."""
    return (x >> by) & (_WORD >> by)


# ------------------------------------------------------------------------------------------------------- its ziggurat


def _numbers(words: Any, tables: Ziggurat, backend: Backend) -> tuple[Any, Any]:
    """The number that each word would begin, and which of them do; None where the tail does not end."""
    xp, last = backend.xp, words.shape[0] - 2 * _PAIRS - 1
    place, size = words & 511, (words >> 9) & (_DIGITS - 1)
    x = xp.astype(size, xp.float64) * tables.width[place]
    keep = size < tables.inside[place]
    keep[last:] = True  # far beyond what is asked for, and nothing follows
    (rare,) = xp.nonzero(~keep)
    layer, own = place[rare] & 255, x[rare]
    chance = _uniform(words[rare + 1], xp)
    density, below = tables.density[layer], tables.below[layer]
    accepted = (below - density) * chance + density < xp.exp(-0.5 * own * own)
    (which,) = xp.nonzero(layer == 0)
    tail = rare[which]
    values, length = _tail(words, tail, size[tail], tables, backend)
    if values is None:
        return x, None
    x[tail], accepted[which] = values, True
    begins = _beginnings(rare, which, length, words.shape[0], backend)
    taken = _taken(rare, which, length, begins, words.shape[0], backend)
    keep[rare] = accepted & begins
    return x, keep & ~taken


def _beginnings(rare: Any, tail: Any, length: Any, count: int, backend: Backend) -> Any:
    """Which of the words at `rare`, each in need of more, were not taken by one before; of those that were, few would have taken another."""
    begins, xp = rare >= 0, backend.xp
    while True:
        now = ~_taken(rare, tail, length, begins, count, backend)[rare]
        if bool(xp.all(now == begins)):
            return begins
        begins = now


def _taken(rare: Any, tail: Any, length: Any, begins: Any, count: int, backend: Backend) -> Any:
    """The words that follow those that begin a number and need more: one, or in the tail up to its length."""
    xp = backend.xp
    taken = xp.zeros(count, dtype=xp.bool, **backend.where)
    taken[rare + 1] = begins
    further = xp.arange(2, 2 * _PAIRS + 1, **backend.where)
    some = (further < length[:, None]) & begins[tail][:, None]
    taken[(rare[tail][:, None] + further)[some]] = True
    return taken


def _tail(words: Any, tail: Any, size: Any, tables: Ziggurat, backend: Backend) -> tuple[Any, Any]:
    """±(r + ξ), ξ = −log(1 − u)/r with −2 log(1 − u') > ξ², at the first pair (u, u') of the words that follow; and how many words that took."""
    xp, r = backend.xp, float(tables.width[255]) * _DIGITS
    after = xp.arange(1, 2 * _PAIRS + 1, **backend.where)
    at = xp.reshape(tail[:, None] + after, (-1,))
    both = xp.reshape(-xp.log1p(-_uniform(words[at], xp)), (-1, _PAIRS, 2))
    beyond = both[..., 0] * (1 / r)
    ends = 2 * both[..., 1] > beyond * beyond
    if not bool(xp.all(xp.any(ends, axis=1))):
        return None, None
    first = xp.argmax(xp.astype(ends, xp.int8), axis=1)
    places = xp.arange(0, tail.shape[0], **backend.where) * _PAIRS + first
    value = r + xp.reshape(beyond, (-1,))[places]
    return xp.where((size >> 8) & 1 == 1, -value, value), 1 + 2 * (first + 1)


def _uniform(words: Any, xp: Any) -> Any:
    return xp.astype(_shifted(words, 11), xp.float64) * 2.0**-53


@lru_cache
def _tables(backend: Backend) -> Ziggurat:
    """Asked of NumPy itself, whose generator is set so that its next two words are those we choose."""
    half, widths, inside = 2**51, np.empty(256), np.zeros(256, np.int64)
    for layer in range(256):
        widths[layer] = _answer(layer, half)[0] / half
    for layer in (0, *range(2, 256)):
        under = widths[layer - 1] if layer else widths[255]
        low = int(under / widths[layer] * _DIGITS) - 64
        high = low + 128
        while low < high:  # the first size that is not taken at once
            middle = (low + high) // 2
            low, high = (middle + 1, high) if _answer(layer, middle)[1] else (low, middle)
        inside[layer] = low
    density = np.exp(-0.5 * (widths * _DIGITS) ** 2)
    below = np.concatenate([[1.0, 1.0], density[1:-1]])  # the layer under the first has the density 1
    found = (np.concatenate([widths, -widths]), density, below)
    width, density, below = (backend.put(part, "float64") for part in found)
    return Ziggurat(width, backend.put(np.concatenate([inside, inside]), "int64"), density, below)


def _answer(layer: int, size: int) -> tuple[float, bool]:
    """NumPy's number of a word with this layer and size, the word that follows being the smallest; and whether one word was enough."""
    first = layer | size << 9
    second = 1 - first % 2
    increment = (second - first * _A) % _SIZE
    before = (first - increment) * pow(_A, -1, _SIZE) % _SIZE
    generator: Any = np.random.PCG64(0)
    state = {"state": before, "inc": increment}
    generator.state = {"bit_generator": "PCG64", "state": state, "has_uint32": 0, "uinteger": 0}
    value = np.random.Generator(generator).standard_normal()
    return value, generator.state["state"]["state"] == first
