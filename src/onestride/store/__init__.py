"""Crash-safe results: an append-only journal of JSON lines, one file per writer, read as one table.

A record says what was computed (`kind`, `cell`), holds the result (`values`) and where it came from (`provenance`). Its
`key` is a hash of what was computed, so equal work has equal keys in every sweep and on every machine. A line is

    {"sum":"1f0c9a7e","schema":2,"kind":…,"key":…,"cell":…,"numerics":1,"values":…,"provenance":…}

where `sum` is the CRC-32 of the rest of the line. A journal has its name only once its writer has locked it, so that no
other process can take it for abandoned. After a kill at most the last line of one file is torn. Damaged lines are
never dropped silently: they are reported with their place, moved to `quarantine.jsonl`, and their cells count as unknown.
Lines reach the operating system at once and the disk within a second: a killed process loses nothing it had put, a power
cut at most that second, and both leave a readable store. Nothing here knows what a simulation is.
"""

from __future__ import annotations

import json
import math
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onestride._errors import InputError, quoted
from onestride.store.journal import (
    TORN,
    Damage,
    DamagedLine,
    Record,
    Seen,
    StoreError,
    append,
    content_key,
    decode,
    encode,
    ends_well,
    expect,
    lines,
    replace_file,
    split_lines,
    unread,
)

try:
    import fcntl
except ImportError:  # pragma: no cover - not on this platform
    fcntl = None

__all__ = ["Check", "Damage", "Record", "Store", "StoreError", "content_key", "expect", "replace_file"]

SYNC_SECONDS = 1.0  # how long a line may wait for the disk
FOREIGN_SECONDS = 3600.0  # where locks say nothing, a journal is taken for abandoned when it was still for so long
QUARANTINE = "quarantine.jsonl"


@dataclass(frozen=True)
class Check:
    """What `Store.check` found. `healthy` is False when a line is damaged or two lines of one key disagree."""

    files: int
    kinds: dict[str, int]
    damage: tuple[Damage, ...]
    twice: int
    conflicts: tuple[str, ...]
    quarantined: int

    @property
    def healthy(self) -> bool:
        """Nothing is damaged now and nothing contradicts itself."""
        return not self.damage and not self.conflicts


class Store:
    """A folder of journals: a mapping from keys to records that any number of processes may extend at once.

    Opening it changes nothing on disk. `put` appends to a journal of this writer's own, `refresh` reads what others have
    added meanwhile, `heal` sets damaged lines aside, `check` verifies everything.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     len(one.Store(folder, create=True))
    0
    """

    def __init__(self, path: str | Path, *, create: bool = False) -> None:
        if not isinstance(path, str | os.PathLike):
            raise InputError(f"store must be the path of a folder, or a Store, got {quoted(path)}")
        self.path = Path(path)
        self.damage: list[Damage] = []
        self._records: dict[str, Record] = {}
        self._read: dict[Path, Seen] = {}
        self._journal: int | None = None
        self._journal_path: Path | None = None
        self._own = Seen()  # what this writer has put into its journal
        self._synced = 0.0
        with _sentence(self.path, "read"):
            if self.path.exists() and not self.path.is_dir():
                raise InputError(f"store must be a folder, got the file {self.path}")
        if not create and not self._journals():
            raise InputError(f"store: there are no results in {self.path}")
        self.refresh()

    # ------------------------------------------------------------------ reading

    def __repr__(self) -> str:
        kinds: dict[str, int] = {}
        for record in self._records.values():
            kinds[record.kind] = kinds.get(record.kind, 0) + 1
        counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items()) or "no records"
        damaged = f"; {len(self.damage)} damaged lines" if self.damage else ""
        return f"Store({str(self.path)!r}): {counts}{damaged}"

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, key: object) -> bool:
        return key in self._records

    def __iter__(self) -> Iterator[Record]:
        return iter(list(self._records.values()))

    def get(self, key: str) -> Record | None:
        """The record of a key, or None."""
        return self._records.get(key)

    def records(self, kind: str) -> list[Record]:
        """All records of one kind, in the order they were read."""
        return [record for record in self._records.values() if record.kind == kind]

    def refresh(self) -> list[Record]:
        """Read what was appended since the last look, by any writer; the new records."""
        fresh = []
        for path in self._journals():
            if path != self._journal_path:
                with _sentence(self.path, "read"), suppress(FileNotFoundError):  # removed since it was listed
                    fresh += self._read_on(path)
        return fresh

    def _read_on(self, path: Path) -> list[Record]:
        """The new records of one journal."""
        fresh = []
        seen, data = unread(path, self._read.get(path, Seen()))
        if seen.offset == 0:  # it is read for the first time, or again
            self.damage = [d for d in self.damage if d.file != path.name]
        whole, last = 0, seen.line
        for number, at, raw, ended in lines(data, seen.line, seen.offset):
            try:
                record = decode(raw)
            except DamagedLine as error:
                if not ended:
                    break  # a torn tail, or a line that is being written: look again next time
                self.damage.append(Damage(path.name, number, at, str(error), raw))
            else:
                if self._records.setdefault(record.key, record) is record:
                    fresh.append(record)
            if ended:
                whole, last = at + len(raw) + 1 - seen.offset, number
        self._read[path] = seen.after(data[:whole], last)
        return fresh

    def _journals(self) -> list[Path]:
        with _sentence(self.path, "read"):
            found = self.path.glob("journal-*.jsonl") if self.path.is_dir() else ()
            return sorted(path for path in found if path.is_file())

    def others_write(self) -> bool:
        """Whether another living process holds a journal of this store."""
        with _sentence(self.path, "read"):
            for path in self._journals():
                with suppress(FileNotFoundError), _abandoned(path, self._journal_path) as free:
                    if not free and path != self._journal_path:
                        return True
        return False

    # ------------------------------------------------------------------ writing

    def put(self, *records: Record) -> int:
        """Append what is not known yet, all of it in one write; how many records that were."""
        fresh = {record.key: record for record in records if record.key not in self._records}
        if fresh:
            self._append(b"".join(map(encode, fresh.values())), len(fresh))
            self._records |= fresh
        return len(fresh)

    def open_journal(self) -> int:
        """Make this writer's journal now, so that a store that cannot be written says so before work is done."""
        if self._journal is None:
            with _sentence(self.path, "written"):
                self._journal, self._journal_path = self._new_journal()
        return self._journal

    def _append(self, data: bytes, count: int) -> None:
        journal = self.open_journal()
        with _sentence(self.path, "written", "what was written before is safe"):
            self._write(journal, data)
            self._own = self._own.after(data, self._own.line + count)
            self._stay_named()

    def _write(self, journal: int, data: bytes) -> None:
        now = time.monotonic()
        due = now - self._synced > SYNC_SECONDS
        append(journal, data, sync=due)
        if due:
            self._synced = now

    def _stay_named(self) -> None:
        """Where locks say nothing another machine may have replaced our journal: what it held goes into a new one."""
        path, journal = self._journal_path, self._journal
        assert path is not None
        assert journal is not None
        with suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(journal)):
                return
        again, name = self._new_journal()
        try:
            os.lseek(journal, 0, os.SEEK_SET)
            while data := os.read(journal, 2**24):
                append(again, data, sync=False)
            os.fsync(again)
        except BaseException:  # the old one, which has no name any more, is all there is: keep it, and try again later
            os.close(again)
            name.unlink(missing_ok=True)
            raise
        self._journal, self._journal_path = again, name
        os.close(journal)

    def _new_journal(self) -> tuple[int, Path]:
        """A journal that is locked before others can see it: nobody may decide that it is abandoned while we live."""
        self.path.mkdir(parents=True, exist_ok=True)
        path = self.path / f"journal-{_host()}-{os.getpid()}-{time.time_ns():x}.jsonl"
        unnamed = path if fcntl is None else path.with_name(f".{path.name}.new")  # no locks, no need to wait for one
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        journal = os.open(unnamed, flags, 0o644)
        if fcntl is not None:
            try:
                with suppress(OSError):  # a file system without locks; there the time of the last write decides
                    fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.rename(unnamed, path)
            except BaseException:
                os.close(journal)
                unnamed.unlink(missing_ok=True)
                raise
        if os.name == "nt":  # where a folder is no file
            return journal, path
        folder = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return journal, path

    def close(self) -> None:
        """Bring everything to the disk and let go of the journal."""
        if self._journal is None:
            return
        try:
            with _sentence(self.path, "written", "what was written before is safe"):
                self._stay_named()
                os.fsync(self._journal)
        finally:
            journal, self._journal = self._journal, None
            path, self._journal_path = self._journal_path, None
            if path is not None:
                self._read[path], self._own = self._own, Seen()
            os.close(journal)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------ repair

    def heal(self) -> list[Damage]:
        """Move damaged lines and torn tails of journals nobody writes to `quarantine.jsonl`; what was moved."""
        moved: list[Damage] = []
        self.refresh()  # another may have set them aside already
        with _sentence(self.path, "repaired", "nothing was lost"):
            for path in self._journals():
                with suppress(FileNotFoundError):
                    if ends_well(path) and not any(d.file == path.name for d in self.damage):
                        continue
                    with _abandoned(path, self._journal_path) as free:
                        if free:
                            moved += self._heal_file(path)
        self.refresh()
        return moved

    def _heal_file(self, path: Path) -> list[Damage]:
        intact, bad = split_lines(path)
        if bad:
            found = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            notes = [
                {"file": d.file, "line": d.line, "offset": d.offset, "reason": d.reason, "found": found}
                | {"raw": d.raw.decode("latin-1")}
                for d in bad
            ]
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
            aside = os.open(self.path / QUARANTINE, flags, 0o644)
            try:
                append(aside, b"".join(json.dumps(note).encode() + b"\n" for note in notes), sync=True)
            finally:
                os.close(aside)
        replace_file(path, b"".join(line + b"\n" for line, _ in intact))
        return bad

    def check(self) -> Check:
        """Read every line of every journal again and say what is there, what is damaged, what contradicts itself."""
        kinds: dict[str, int] = {}
        damage: list[Damage] = []
        first: dict[str, Record] = {}
        twice, conflicts = 0, []
        journals = self._journals()
        for path in journals:
            with _sentence(self.path, "read"):
                intact, bad = split_lines(path)
                if bad and bad[-1].reason == TORN:
                    with _abandoned(path, None) as free:
                        bad = bad if free else bad[:-1]  # it is being written
            damage += bad
            for _, record in intact:
                known = first.setdefault(record.key, record)
                if known is record:
                    kinds[record.kind] = kinds.get(record.kind, 0) + 1
                else:
                    twice += 1
                    if not _close(known.values, record.values):
                        conflicts.append(record.key)
        aside = self.path / QUARANTINE
        with _sentence(self.path, "read"):
            quarantined = aside.read_bytes().count(b"\n") if aside.exists() else 0
        return Check(len(journals), kinds, tuple(damage), twice, tuple(conflicts), quarantined)


def _close(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Equal to rounding: the same work on another machine or beside other penalties differs in the last digits."""

    def same(x: Any, y: Any) -> bool:
        if isinstance(x, float) and isinstance(y, float):
            return math.isclose(x, y, rel_tol=1e-6) or (math.isnan(x) and math.isnan(y))
        return x == y

    return a.keys() == b.keys() and all(same(x, b[name]) for name, x in a.items())


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9.]", "_", socket.gethostname()) or "host"


@contextmanager
def _sentence(path: Path, verb: str, safe: str = "") -> Iterator[None]:
    """Turn an error of the operating system into a sentence."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"the store {path} cannot be {verb}: {reason}{safe and '; '}{safe}") from error


@contextmanager
def _abandoned(path: Path, own: Path | None) -> Iterator[bool]:
    """Whether no living process writes this journal; while the block runs nobody else may decide the same."""
    if path == own:
        yield False
        return
    still = time.time() - path.stat().st_mtime > FOREIGN_SECONDS
    if fcntl is None or not path.name.startswith(f"journal-{_host()}-"):
        yield still
        return
    file = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = os.path.samestat(os.fstat(file), path.stat())  # else it was healed by another meanwhile
        except BlockingIOError:
            free = False
        except OSError:  # no locks on this file system
            free = still
        yield free
    finally:
        os.close(file)
