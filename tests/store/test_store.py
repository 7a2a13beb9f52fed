"""The store: nothing written is lost, nothing damaged is believed, old stores stay readable."""

import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import onestride.store as module
from onestride import InputError
from onestride.store import Record, Store, StoreError, content_key, replace_file
from onestride.store.journal import encode
from places import OLD_STORE
from waiting import LIMIT


def record(i: int, **values: float) -> Record:
    return Record.new("note", {"problem": {"n": i}, "seed": 0}, {"x": i / 3} | values, {"host": "here"})


def filled(path: Path, count: int = 5) -> Path:
    with Store(path, create=True) as store:
        store.put(*(record(i) for i in range(count)))
    (journal,) = path.glob("journal-*.jsonl")
    return journal


def test_key_depends_on_content_and_not_on_its_order():
    assert content_key("run", {"a": 1, "b": [0.5, 2]}) == content_key("run", {"b": [0.5, 2], "a": 1})
    keys = {content_key("run", {"a": 1}), content_key("theory", {"a": 1}), content_key("run", {"a": 1}, 2)}
    assert len(keys) == 3


def test_key_is_the_same_on_every_machine_and_in_every_version():
    assert content_key("run", {"problem": {"n": 30, "noise": 0.5}, "seed": 7}) == "2f153942e9907cd9d199ffdb35f9c733"


def test_what_is_put_is_read_back_exactly(tmp_path):
    values = {"nan": math.nan, "inf": math.inf, "minus": -math.inf, "tiny": 5e-324, "third": 1 / 3, "word": "é\n"}
    with Store(tmp_path, create=True) as store:
        store.put(Record.new("note", {"a": 1}, values | {"list": [1.0, math.nan]}, {}))
    (found,) = Store(tmp_path)
    assert math.isnan(found.values.pop("nan"))
    assert found.values.pop("list")[0] == 1.0
    assert found.values == {name: value for name, value in values.items() if name != "nan"}


def test_every_line_is_valid_json(tmp_path):
    for line in filled(tmp_path).read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_known_keys_are_not_written_again(tmp_path):
    filled(tmp_path)
    with Store(tmp_path) as store:
        assert store.put(record(1), record(2)) == 0
        assert store.put(record(1), record(9), record(9)) == 1
    assert Store(tmp_path).check().twice == 0


def test_opening_and_reading_changes_nothing_on_disk(tmp_path):
    filled(tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}
    store = Store(tmp_path)
    store.check()
    store.refresh()
    assert {p: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_journal_cut_at_every_byte_of_its_last_record_loses_only_that_record(tmp_path):
    journal = filled(tmp_path / "whole")
    data = journal.read_bytes()
    last = data.rindex(b"\n", 0, -1) + 1
    for cut in range(last, len(data)):
        folder = tmp_path / str(cut)
        folder.mkdir()
        torn = folder / journal.name
        torn.write_bytes(data[:cut])
        store = Store(folder)
        whole = cut == len(data) - 1  # only the newline is missing
        assert len(store) == 4 + whole
        moved = store.heal()
        if cut > last and not whole:
            assert [(d.line, d.offset, d.raw, d.reason) for d in moved] == [
                (5, last, data[last:cut], "the last line is torn")
            ]
            aside = json.loads((folder / "quarantine.jsonl").read_text())
            assert aside["raw"].encode("latin-1") == data[last:cut]
        else:
            assert moved == []
        assert torn.read_bytes() == (data if whole else data[:last])
        with store:
            store.put(record(4))
        assert len(Store(folder)) == 5
        assert Store(folder).check().healthy


@pytest.mark.parametrize("where", ["head", "checksum", "key", "number", "end", "newline"])
def test_changed_byte_is_found_reported_with_its_place_and_set_aside(tmp_path, where):
    journal = filled(tmp_path)
    data = journal.read_bytes()
    lines = data.split(b"\n")
    start, length = len(lines[0]) + 1, len(lines[1])
    place = {"head": 1, "checksum": 9, "key": length // 3, "number": lines[1].index(b"0.33") + 3, "end": length - 1}
    at = start + (length if where == "newline" else place[where])
    journal.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    store = Store(tmp_path)
    (damage,) = store.damage
    assert (damage.file, damage.line, damage.offset) == (journal.name, 2, start)
    assert str(damage).startswith(f"{journal.name}, line 2 (byte {start},")
    lost = {1, 2} if where == "newline" else {1}  # a changed newline joins two lines
    assert {r.cell["problem"]["n"] for r in store} == set(range(5)) - lost
    check = store.check()
    assert not check.healthy
    assert check.damage == (damage,)
    assert store.heal() == [damage]
    assert json.loads((tmp_path / "quarantine.jsonl").read_text())["raw"].encode("latin-1") == damage.raw
    assert Store(tmp_path).check().healthy
    assert Store(tmp_path).check().quarantined == 1


def test_several_writers_share_a_store(tmp_path):
    with Store(tmp_path, create=True) as one, Store(tmp_path, create=True) as two:
        one.put(record(1))
        two.put(record(2))
        assert [r.key for r in one.refresh()] == [record(2).key]
        assert one.refresh() == []
        two.put(record(3))
        assert [r.key for r in one.refresh()] == [record(3).key]
        assert one.others_write()
    assert len(Store(tmp_path)) == 3
    assert not Store(tmp_path).others_write()


MANY = """
from onestride.store import Record, Store
with Store(PATH, create=True) as store:
    for i in range(FIRST, FIRST + 200):
        store.put(Record.new("note", {"problem": {"n": i}, "seed": 0}, {"x": i / 3}, {"host": "here"}))
"""


def test_processes_writing_at_once_lose_nothing(tmp_path):
    codes = [f"PATH = {str(tmp_path)!r}\nFIRST = {150 * k}" + MANY for k in range(3)]
    writers = [subprocess.Popen([sys.executable, "-c", code]) for code in codes]
    assert [writer.wait(LIMIT) for writer in writers] == [0, 0, 0]
    check = Store(tmp_path).check()
    assert check.healthy
    assert check.kinds == {"note": 500}
    assert check.files == 3


def test_journal_of_a_living_writer_is_not_repaired(tmp_path):
    with Store(tmp_path, create=True) as writer:
        writer.put(record(1))
        (journal,) = tmp_path.glob("journal-*.jsonl")
        with journal.open("ab") as file:
            file.write(encode(record(2))[:-20])  # as if a write were under way
        other = Store(tmp_path)
        assert len(other) == 1
        assert other.heal() == []
        assert journal.read_bytes().endswith(encode(record(2))[:-20])
    assert len(Store(tmp_path).heal()) == 1


WRITER = """
import os, sys, types
import onestride.store as module
from onestride.store import Record, Store

def tell(word):
    print(word, flush=True)
    sys.stdin.readline()

def flock(file, how):
    tell("locking")
    real.flock(file, how)

def write(file, data):
    if torn:
        torn.pop()
        written = real_write(file, bytes(data)[: len(data) // 2])
        tell("half a line")
        return written
    return real_write(file, data)

real, real_write, torn = module.fcntl, os.write, []
module.fcntl = types.SimpleNamespace(flock=flock, LOCK_EX=real.LOCK_EX, LOCK_NB=real.LOCK_NB)
os.write = write
with Store(PATH, create=True) as store:
    store.put(Record.new("note", {"i": 1}, {}, {}))
    torn.append(True)
    store.put(Record.new("note", {"i": 2}, {}, {}))
    store.put(Record.new("note", {"i": 3}, {}, {}))
"""


@pytest.mark.skipif(module.fcntl is None, reason="no file locks here")
def test_another_process_that_looks_and_heals_at_the_worst_moments_drops_nothing(tmp_path):
    """A looks for abandoned journals just when B locks its own, and heals just when B has written half a line."""
    code = f"PATH = {str(tmp_path)!r}\n" + WRITER
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == "locking\n"
        looking = contextlib.ExitStack()
        for path in Store(tmp_path, create=True)._journals():
            looking.enter_context(module._abandoned(path, None))
        print("go on", file=writer.stdin, flush=True)
        assert writer.stdout.readline() == "half a line\n"
        looking.close()
        moved = Store(tmp_path, create=True).heal()
        print("go on", file=writer.stdin, flush=True)
        assert writer.wait(LIMIT) == 0
    assert moved == []
    assert {r.cell["i"] for r in Store(tmp_path)} == {1, 2, 3}
    assert Store(tmp_path).check().healthy


@pytest.mark.parametrize("how", ["replaced", "removed"])
def test_journal_that_is_taken_from_its_writer_is_written_again(tmp_path, how):
    """Where locks say nothing, on another machine, a silent writer may be taken for a dead one."""
    with Store(tmp_path, create=True) as store:
        store.put(record(1))
        (journal,) = tmp_path.glob("journal-*.jsonl")
        replace_file(journal, b"") if how == "replaced" else journal.unlink()
        store.put(record(2))
        assert len(Store(tmp_path)) == 2
        (journal,) = (path for path in tmp_path.glob("journal-*.jsonl") if path.stat().st_size)
        replace_file(journal, b"") if how == "replaced" else journal.unlink()
    assert len(Store(tmp_path)) == 2
    assert Store(tmp_path).check().healthy


def test_a_line_that_is_being_written_is_no_damage_and_is_read_when_it_is_whole(tmp_path):
    journal = filled(tmp_path, 1)
    line = encode(record(7))
    with journal.open("ab") as file:
        file.write(line[:-20])
    store = Store(tmp_path)
    assert store.refresh() == []
    assert (len(store), store.damage) == (1, [])
    with journal.open("ab") as file:
        file.write(line[-20:])
    assert [r.key for r in store.refresh()] == [record(7).key]
    assert store.damage == []


@pytest.mark.skipif(module.fcntl is None, reason="needs locks")
def test_damage_in_the_journal_of_a_living_writer_is_told_with_its_place_until_it_is_set_aside(tmp_path):
    """Lines are counted on from one look to the next."""
    with Store(tmp_path, create=True) as writer:
        writer.put(record(1), record(2))
        store = Store(tmp_path)
        (journal,) = tmp_path.glob("journal-*.jsonl")
        end = journal.stat().st_size
        with journal.open("ab") as file:
            file.write(b"no record\n")
        assert store.refresh() == []
        (damage,) = store.damage
        assert (damage.line, damage.offset) == (3, end)
        assert store.heal() == []
        assert store.damage == [damage]
    assert store.heal() == [damage]
    assert store.damage == []


def test_a_journal_of_another_machine_is_abandoned_when_it_was_still_for_long(tmp_path):
    """Locks do not reach there."""
    journal = filled(tmp_path, 1).rename(tmp_path / "journal-elsewhere-1-1.jsonl")
    store = Store(tmp_path)
    assert store.others_write()
    long_ago = time.time() - 2 * module.FOREIGN_SECONDS
    os.utime(journal, (long_ago, long_ago))
    assert not store.others_write()


def test_lines_are_brought_to_the_disk_once_a_second(tmp_path, monkeypatch):
    synced, now = [], 100.0
    with Store(tmp_path, create=True) as store:
        journal = store.open_journal()
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", synced.append)
            patched.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
            for i, now in enumerate((100.0, 100.9, 101.1, 102.0)):  # noqa: B007 - what the clock says
                store.put(record(i))
    assert synced == [journal, journal]


def test_contradicting_records_are_reported(tmp_path):
    with Store(tmp_path, create=True) as one, Store(tmp_path, create=True) as two:
        one.put(record(1), record(2), record(3, y=math.nan))
        two.put(record(1, x=1 / 3 * (1 + 1e-5)), record(2, x=2 / 3 * (1 + 1e-12)), record(3, y=math.nan))
    check = Store(tmp_path).check()
    assert check.twice == 3
    assert check.conflicts == (record(1).key,)
    assert not check.healthy


@pytest.mark.skipif(module.fcntl is None, reason="needs locks")
def test_a_journal_that_another_has_healed_meanwhile_is_not_taken(tmp_path, monkeypatch):
    """It is replaced between the look at it and the lock, which is then one of the file that is gone."""
    journal, real = filled(tmp_path), os.open

    def replaced(path, *options, **more):
        opened = real(path, *options, **more)
        if path == journal:
            monkeypatch.undo()
            replace_file(journal, journal.read_bytes())
        return opened

    monkeypatch.setattr(os, "open", replaced)
    with module._abandoned(journal, None) as free:
        assert not free
    with module._abandoned(journal, None) as free:
        assert free


def test_store_of_the_first_schema_is_read():
    store = Store(OLD_STORE)
    assert store.check().healthy
    assert len(store.records("run")) == 12
    assert all(r.numerics == 1 for r in store)
    assert all(r.key == content_key(r.kind, r.cell, 1) for r in store)


def test_store_of_a_newer_schema_is_refused_in_a_sentence(tmp_path):
    import zlib

    body = b'{"schema":99,"kind":"run"}'
    line = b'{"sum":"%08x",' % zlib.crc32(body) + body[1:] + b"\n"
    (tmp_path / "journal-new-1-1.jsonl").write_bytes(line)
    with pytest.raises(StoreError, match=r"newer version \(schema 99, this one reads up to 2\)"):
        Store(tmp_path)


def test_missing_store_and_file_in_its_place_are_sentences(tmp_path):
    with pytest.raises(InputError, match="there are no results in"):
        Store(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="store must be a folder, got the file"):
        Store(tmp_path / "file", create=True)


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT)


WRITE = """
from onestride.store import Record, Store, StoreError
store = Store(PATH, create=True)
try:
    for i in range(1000):
        store.put(Record.new("note", {"i": i}, {"x": i / 3}, {}))
    print("all")
except StoreError as error:
    print(i, error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits")
def test_full_disk_is_a_sentence_and_keeps_what_was_written(tmp_path):
    """A limit on the size of files stands for the disk: a write is cut short in the middle of a line."""
    limit = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
    result = python(limit + f"PATH = {str(tmp_path)!r}" + WRITE)
    count, sentence = result.stdout.strip().split(" ", 1)
    assert sentence == f"the store {tmp_path} cannot be written: File too large; what was written before is safe"
    store = Store(tmp_path)
    assert len(store) == int(count) > 10
    assert store.check().healthy  # not even a torn line


@pytest.mark.skipif(not hasattr(os, "setuid"), reason="POSIX permissions")
def test_read_only_folder_is_a_sentence():
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        store.mkdir()
        os.chmod(folder, 0o755)
        os.chmod(store, 0o555)
        lose_root = "import os, onestride.store\nif os.getuid() == 0:\n    os.setuid(65534)\n"
        result = python(lose_root + f"PATH = {str(store)!r}" + WRITE)
        assert result.stdout == f"0 the store {store} cannot be written: Permission denied\n"
