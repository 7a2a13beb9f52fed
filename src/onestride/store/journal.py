"""The lines of a journal: records, their keys, how they are written, and how damage is noticed.

A line is believed when its checksum is right, it has the shape of a record, its key is the hash of its content, and the
check of its kind (`expect`), where there is one, finds nothing wrong. Anything else is a `DamagedLine`, never a crash.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

SCHEMA = 2  # raised with an entry in _UPGRADES whenever old lines would be read wrongly
TORN = "the last line is torn"
_HEAD = re.compile(rb'\{"sum":"([0-9a-f]{8})",')
_HEAD_LENGTH = len('{"sum":"00000000",')


class StoreError(OSError):
    """The store cannot be read or written; the sentence says why and what is safe."""


class DamagedLine(ValueError):
    """A line of a journal that is not what was written there."""


@dataclass(frozen=True)
class Record:
    """One stored result: `cell` says what was computed, `numerics` by which version of the numerics.

    `cell`, `values` and `provenance` are dictionaries of plain JSON values; NaN and infinity are allowed in `values`.
    """

    kind: str
    key: str
    cell: dict[str, Any]
    numerics: int
    values: dict[str, Any]
    provenance: dict[str, Any] = field(repr=False)

    @classmethod
    def new(
        cls, kind: str, cell: dict[str, Any], values: dict[str, Any], provenance: dict[str, Any], *, numerics: int = 1
    ) -> Record:
        """A record with the key of its content."""
        return cls(kind, content_key(kind, cell, numerics), cell, numerics, values, provenance)


@dataclass(frozen=True)
class Damage:
    """A line that cannot be trusted: its file, line number (from 1), byte offset, why, and the bytes found there."""

    file: str
    line: int
    offset: int
    reason: str
    raw: bytes = field(repr=False)

    def __str__(self) -> str:
        return f"{self.file}, line {self.line} (byte {self.offset}, {len(self.raw)} bytes): {self.reason}"


def content_key(kind: str, cell: dict[str, Any], numerics: int = 1) -> str:
    """A hash of what is computed, from canonical JSON."""
    text = json.dumps([kind, cell, numerics], sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def encode(record: Record) -> bytes:
    """The line of a record, newline included."""
    data = {"schema": SCHEMA, "kind": record.kind, "key": record.key, "cell": record.cell}
    data |= {"numerics": record.numerics, "values": _finite(record.values), "provenance": record.provenance}
    body = json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
    return b'{"sum":"%08x",' % zlib.crc32(body) + body[1:] + b"\n"


def decode(line: bytes) -> Record:
    """The record of a line (without its newline), brought to the present schema; `DamagedLine` if it is not intact."""
    head = _HEAD.match(line)
    if head is None:
        raise DamagedLine("not a line of a journal")
    if zlib.crc32(b"{" + line[_HEAD_LENGTH:]) != int(head[1], 16):
        raise DamagedLine("the checksum does not match")
    try:
        data = json.loads(line, object_hook=_number if b'{"float":' in line else None, parse_constant=_no_constant)
        if rb"\ud" in line:  # half of a pair is no text: no file could hold it
            json.dumps(data, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError):
        raise DamagedLine("the checksum matches, but it is not the JSON of a record") from None
    record = _record(data)
    check = _EXPECTED.get(record.kind)
    if check is not None and (wrong := check(record)):
        raise DamagedLine(f"the checksum matches, but {wrong}")
    return record


_FIELDS = {"kind": str, "cell": dict, "numerics": int, "values": dict, "provenance": dict}


def _record(data: dict[str, Any]) -> Record:
    """The record in a parsed line of any schema, whose key must be that of its content."""
    schema = data.get("schema")
    if type(schema) is not int or schema < 1:
        raise DamagedLine("the checksum matches, but schema is not a whole number above 0")
    if schema > SCHEMA:
        raise StoreError(
            f"the store was written by a newer version (schema {schema}, this one reads up to {SCHEMA}); update onestride"
        )
    for old in range(schema, SCHEMA):
        data = _UPGRADES[old](data)
    for name, kind in _FIELDS.items():
        if type(data.get(name)) is not kind:
            raise DamagedLine(f"the checksum matches, but {name} is missing or of the wrong type")
    try:
        key = content_key(data["kind"], data["cell"], data["numerics"])
    except (ValueError, RecursionError):
        raise DamagedLine("the checksum matches, but its cell has no key") from None
    if data.get("key", key) != key:
        raise DamagedLine("the checksum matches, but the key is not that of its content")
    return Record(data["kind"], key, *(data[name] for name in ("cell", "numerics", "values", "provenance")))


def _from_1(data: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 had no numerics tag, nor one in its keys; what it held was computed by the first numerics."""
    return {name: value for name, value in data.items() if name != "key"} | {"numerics": 1}


_UPGRADES = {1: _from_1}
_EXPECTED: dict[str, Callable[[Record], str | None]] = {}


def expect(**checks: Callable[[Record], str | None]) -> None:
    """Say what records of a kind look like: `check(record)` is None, or what is wrong as the end of a sentence."""
    _EXPECTED.update(checks)


def _finite(values: Any) -> Any:
    """JSON has no NaN and no infinity: they are written as {"float": "nan"}."""
    if isinstance(values, dict):
        return {name: _finite(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return [_finite(value) for value in values]
    if isinstance(values, float) and not math.isfinite(values):
        return {"float": repr(values)}
    return values


def _number(data: dict[str, Any]) -> Any:
    return float(data["float"]) if data.keys() == {"float"} else data


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def replace_file(path: Path, data: bytes) -> None:
    """Write a file so that it is either the old or the new one at any moment."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with new.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def append(file: int, data: bytes, *, sync: bool) -> None:
    """Write at the end of an open file, to the disk at once or when it likes: all of it or, where that fails, nothing."""
    end = os.fstat(file).st_size
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(file, left) :]
        if sync:
            os.fsync(file)
    except BaseException:
        os.ftruncate(file, end)
        raise


@dataclass(frozen=True)
class Seen:
    """How far a journal was read: what told it from others then, bytes and lines, and the last of these bytes."""

    stamp: tuple[int, ...] = ()
    offset: int = 0
    line: int = 0
    last: bytes = b""

    def after(self, data: bytes, line: int) -> Seen:
        """The place behind `data`, which ends with this line."""
        return replace(self, offset=self.offset + len(data), line=line, last=(self.last + data)[-_KNOWN_BY:])


_KNOWN_BY = 4096  # bytes before the place of a reader by which it knows them again: a line, mostly several


def unread(path: Path, seen: Seen) -> tuple[Seen, bytes]:
    """From where to read a journal, and what is there: from its beginning when it is no longer what was read.

    It is not when somebody has set aside a line before that place, or taken back one that did not fit on the disk; its length
    says nothing, as it may have grown since.
    """
    if _stamp(path.stat()) == seen.stamp:
        return seen, b""
    with path.open("rb") as file:
        stamp = _stamp(os.fstat(file.fileno()))
        file.seek(seen.offset - len(seen.last))
        if file.read(len(seen.last)) != seen.last:
            file.seek(0)
            seen = Seen()
        return replace(seen, stamp=stamp), file.read()


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def lines(data: bytes, line: int = 0, offset: int = 0) -> Iterator[tuple[int, int, bytes, bool]]:
    """Number, byte offset and content of each line, and whether it is ended by a newline."""
    *ended, tail = data.split(b"\n")
    for raw in ended:
        line += 1
        yield line, offset, raw, True
        offset += len(raw) + 1
    if tail:
        yield line + 1, offset, tail, False


def split_lines(path: Path) -> tuple[list[tuple[bytes, Record]], list[Damage]]:
    """The intact lines of a journal with their records, and the damaged ones."""
    intact, bad = [], []
    for number, at, raw, ended in lines(path.read_bytes()):
        try:
            intact.append((raw, decode(raw)))
        except DamagedLine as error:
            bad.append(Damage(path.name, number, at, str(error) if ended else TORN, raw))
    return intact, bad


def ends_well(path: Path) -> bool:
    """Whether the file is empty or its last line is ended."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
