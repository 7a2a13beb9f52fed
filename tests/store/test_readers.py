"""Readers that remember how far they have read, while somebody else changes what lies before that place."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import onestride.store as module
from onestride.store import Record, Store, StoreError
from onestride.store.journal import encode
from waiting import LIMIT

LONG = 50  # letters, so that one record is longer than another


def record(i: int, letters: int = 0) -> Record:
    return Record.new("note", {"i": i}, {"x": i / 3, "word": "a" * letters}, {})


def numbers(store: Store) -> list[int]:
    return sorted(r.cell["i"] for r in store)


class Torn:
    """A journal whose writer is gone, as a file that a test may write to."""

    def __init__(self, folder: Path) -> None:
        with Store(folder, create=True) as store:
            store.put(record(0))
        (self.path,) = folder.glob("journal-*.jsonl")

    def add(self, *lines: bytes) -> None:
        with self.path.open("ab") as file:
            file.writelines(lines)


def test_a_line_dropped_before_the_place_of_a_reader_costs_it_nothing(tmp_path):
    """The journal grew by more than was dropped: it is longer than when the reader looked, and all lines have moved."""
    journal = Torn(tmp_path)
    journal.add(b"no record\n", encode(record(1)))
    reader = Store(tmp_path)
    assert numbers(reader) == [0, 1]
    journal.add(*(encode(record(i)) for i in (2, 3, 4)))
    assert len(Store(tmp_path).heal()) == 1
    assert [r.cell["i"] for r in reader.refresh()] == [2, 3, 4]
    assert numbers(reader) == [0, 1, 2, 3, 4]
    assert reader.damage == []
    assert reader.refresh() == []


def test_a_journal_that_was_cut_and_grew_to_the_same_length_is_read(tmp_path):
    """What came is as long as what was dropped, so that the length says nothing."""
    journal = Torn(tmp_path)
    line = encode(record(2))
    journal.add(b"-" * (len(line) - 1) + b"\n", encode(record(1)))
    reader = Store(tmp_path)
    journal.add(line)
    assert len(Store(tmp_path).heal()) == 1
    assert [r.cell["i"] for r in reader.refresh()] == [2]
    assert reader.damage == []


def test_a_last_line_that_only_wants_its_newline_is_no_damage_after_a_line_before_it_is_dropped(tmp_path):
    journal = Torn(tmp_path)
    journal.add(b"no record\n", encode(record(1)), encode(record(2, LONG))[:-1])
    reader = Store(tmp_path)
    assert numbers(reader) == [0, 1, 2]
    assert len(Store(tmp_path).heal()) == 1
    assert reader.refresh() == []
    assert reader.damage == []
    assert numbers(reader) == [0, 1, 2]


def test_a_reader_forgets_damage_that_another_has_set_aside(tmp_path):
    journal = Torn(tmp_path)
    journal.add(b"no record\n", encode(record(1)))
    reader = Store(tmp_path)
    assert len(reader.damage) == 1
    assert len(Store(tmp_path).heal()) == 1
    before = journal.path.stat().st_ino
    assert reader.heal() == []
    assert journal.path.stat().st_ino == before, "written again without need"
    assert reader.damage == []


def test_lines_that_a_full_disk_took_back_are_not_read_over(tmp_path, monkeypatch):
    """Two records in one write: the first is there whole when the disk is full, is read, and is taken back."""
    writer = Store(tmp_path, create=True)
    writer.put(record(0))
    reader, real, seen = Store(tmp_path), os.write, []

    def full(file, data):
        if seen:
            raise OSError(28, "No space left on device")
        written = real(file, bytes(data)[: len(encode(record(1))) + 7])
        seen.extend(reader.refresh())
        return written

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StoreError, match="No space left on device; what was written before is safe"):
        writer.put(record(1), record(2))
    monkeypatch.undo()
    assert [r.cell["i"] for r in seen] == [1]
    writer.put(record(3, LONG), record(4))
    assert [r.cell["i"] for r in reader.refresh()] == [3, 4]
    assert reader.damage == []
    writer.put(record(1), record(2))
    writer.close()
    assert numbers(Store(tmp_path)) == [0, 1, 2, 3, 4]
    assert Store(tmp_path).check().healthy


def test_a_store_that_is_made_again_in_another_order_under_a_reader_is_read(tmp_path):
    """As from a backup: journals of the same name hold other lines."""
    journal = Torn(tmp_path / "store")
    journal.add(encode(record(1)))
    reader = Store(tmp_path / "store")
    shutil.rmtree(tmp_path / "store")
    assert reader.refresh() == []
    (tmp_path / "store").mkdir()
    journal.add(encode(record(2, LONG)), encode(record(3, LONG)))
    assert [r.cell["i"] for r in reader.refresh()] == [2, 3]
    assert reader.damage == []


def test_a_journal_that_goes_while_a_reader_looks_is_no_mistake(tmp_path, monkeypatch):
    journal = Torn(tmp_path)
    reader = Store(tmp_path)
    monkeypatch.setattr(reader, "_journals", lambda: [journal.path])
    journal.path.unlink()
    assert reader.refresh() == []
    assert not reader.others_write()
    assert reader.heal() == []


def test_a_store_removed_under_its_writer_is_made_again_with_all_it_held(tmp_path):
    with Store(tmp_path / "store", create=True) as writer:
        writer.put(record(0), record(1))
        reader = Store(tmp_path / "store")
        shutil.rmtree(tmp_path / "store")
        writer.put(record(2))
        assert [r.cell["i"] for r in reader.refresh()] == [2]
        assert numbers(Store(tmp_path / "store")) == [0, 1, 2]
        shutil.rmtree(tmp_path / "store")
    assert numbers(Store(tmp_path / "store")) == [0, 1, 2]


def test_a_store_removed_under_its_writer_while_the_disk_is_full_is_made_again_when_it_is_not(tmp_path, monkeypatch):
    """What the writer holds is then all there is of it."""
    real = os.write
    with Store(tmp_path / "store", create=True) as writer:
        writer.put(record(0), record(1))
        shutil.rmtree(tmp_path / "store")

        def full(file, data):
            if list((tmp_path / "store").glob("journal-*")):  # the new one
                raise OSError(28, "No space left on device")
            return real(file, data)

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(StoreError, match="No space left on device"):
            writer.put(record(2))
        monkeypatch.undo()
        writer.put(record(3))
    assert set(numbers(Store(tmp_path / "store"))) >= {0, 1, 3}
    assert Store(tmp_path / "store").check().healthy


@pytest.mark.skipif(module.fcntl is None, reason="needs locks")
def test_a_line_that_its_living_writer_has_not_finished_is_no_damage_to_check(tmp_path):
    with Store(tmp_path, create=True) as writer:
        writer.put(record(0))
        (journal,) = tmp_path.glob("journal-*.jsonl")
        with journal.open("ab") as file:
            file.write(encode(record(1))[:-20])
        assert Store(tmp_path).check().healthy
    (damage,) = Store(tmp_path).check().damage
    assert damage.reason == "the last line is torn"


def test_lines_after_those_of_a_closed_writer_are_told_with_their_place(tmp_path):
    """It is read on where its own lines end."""
    store = Store(tmp_path, create=True)
    store.put(record(0), record(1))
    store.close()
    (journal,) = tmp_path.glob("journal-*.jsonl")
    with journal.open("ab") as file:
        file.write(b"no record\n")
    assert store.refresh() == []
    (damage,) = store.damage
    assert damage.line == 3


def test_a_disk_that_is_full_while_lines_are_set_aside_loses_none_and_leaves_no_half_note(tmp_path, monkeypatch):
    journal = Torn(tmp_path)
    journal.add(b"no record\n", encode(record(1)), b"nor this one\n")
    data, store, real = journal.path.read_bytes(), Store(tmp_path), os.write
    aside = tmp_path / "quarantine.jsonl"
    aside.write_text('{"note":1}\n')

    def full(file, given):
        monkeypatch.setattr(os, "write", refuse)
        return real(file, bytes(given)[:30])

    def refuse(file, given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StoreError, match="cannot be repaired: No space left on device; nothing was lost"):
        store.heal()
    monkeypatch.undo()
    assert journal.path.read_bytes() == data
    assert aside.read_text() == '{"note":1}\n'
    assert sorted(os.listdir(tmp_path)) == sorted([journal.path.name, aside.name])
    assert len(store.heal()) == 2
    assert len([json.loads(line) for line in aside.read_text().splitlines()]) == 3


LIMITED = """
import resource, signal
from onestride.store import Store, StoreError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = Store(PATH)
resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, MOST))
try:
    store.heal()
except StoreError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits")
@pytest.mark.parametrize("limit", [100, 600])
def test_a_limit_on_files_while_lines_are_set_aside_leaves_the_journal(tmp_path, limit):
    """Too little for the notes, and enough for them but too little for the journal that is left."""
    journal = Torn(tmp_path)
    journal.add(b"no record\n", *(encode(record(i)) for i in range(1, 9)))
    data = journal.path.read_bytes()
    code = f"PATH, MOST = {str(tmp_path)!r}, {limit}" + LIMITED
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT)
    assert result.stdout == f"the store {tmp_path} cannot be repaired: File too large; nothing was lost\n"
    assert journal.path.read_bytes() == data
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".new")]
    aside = tmp_path / "quarantine.jsonl"
    assert len([json.loads(line) for line in aside.read_text().splitlines()]) == (limit == 600)
