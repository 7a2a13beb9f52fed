"""Lines of a store that somebody else has written: each is reported with its place and skipped, none ends a program."""

import copy
import json
import zlib

import pytest

import onestride as one
from onestride.cli import main
from onestride.store import Record, Store, _host, content_key
from onestride.store.journal import decode
from onestride.sweeps.cells import NUMERICS, problem_content, run_cell, theory_cell
from onestride.sweeps.rows import stored_rows
from onestride.sweeps.status import store_status

CONTENT = problem_content(one.Problem(n=30, d=15, N=45, step=one.Step(exponent=0.2)))
NUMBERS = {
    f"{before}{name}": 0.5 for before in ("", "untrained_") for name in ("train_loss", "train_mse", "test_error")
}
RECORDS = {
    "run": Record.new("run", run_cell(CONTENT, 0), NUMBERS, {}, numerics=NUMERICS["run"]),
    "theory": Record.new(
        "theory",
        theory_cell(CONTENT, "auto"),
        NUMBERS | {"method": "profile", "status": "solved", "message": "solved", "residual": 0.0},
        {},
        numerics=NUMERICS["theory"],
    ),
    "failure": Record.new(
        "failure",
        {"of": "run", "cell": run_cell(CONTENT, 1), "attempt": 1},
        {"reason": "no memory"},
        {},
        numerics=NUMERICS["failure"],
    ),
    "sweep": Record.new(
        "sweep",
        {"name": "s", "sweep": {"problem": {"n": 30, "d": 15, "N": 45, "seeds": 2}}},
        {"cells": 1},
        {},
        numerics=NUMERICS["sweep"],
    ),
}
DROP = object()


def summed(body: bytes) -> bytes:
    """A line with the right checksum, whatever its body."""
    return b'{"sum":"%08x",' % zlib.crc32(body) + body[1:]


def changed(kind: str, *path: str, to: object = DROP, key: str | None = None) -> bytes:
    """The line of a good record with one part changed or left out, its key and checksum made right again."""
    r = RECORDS[kind]
    data = {"schema": 2, "kind": r.kind, "key": r.key, "cell": r.cell, "numerics": r.numerics}
    data = copy.deepcopy(data | {"values": r.values, "provenance": r.provenance})
    place = data
    for name in path[:-1]:
        place = place[name]
    if path and to is DROP:
        del place[path[-1]]
    elif path:
        place[path[-1]] = to
    if path[:1] != ("key",):
        data["key"] = key or content_key(data.get("kind"), data.get("cell"), data.get("numerics"))
    return summed(json.dumps(data, separators=(",", ":")).encode())


def raw(kind: str, old: bytes, new: bytes) -> bytes:
    """The same by text, for what `json.dumps` would not write."""
    line = changed(kind)
    assert old in line
    return summed(b"{" + line[18:].replace(old, new, 1))


DEEP = b"[" * 100_000 + b"]" * 100_000
HOSTILE = {
    "empty line": b"",
    "not JSON": b"hello",
    "another object": b'{"a":1}',
    "bytes": b"\xff\xfe\x00\x01",
    "wrong checksum": changed("run").replace(b'"seed":0', b'"seed":1'),
    "sum alone": summed(b"{}"),
    "cut short": summed(b'{"schema":2,"kind":"ru'),
    "two objects": summed(b'{"schema":2}{"schema":2}'),
    "not UTF-8": raw("run", b'"provenance":{', b'"provenance":{"\xff":1'),
    "no schema": changed("run", "schema"),
    "schema a text": changed("run", "schema", to="2"),
    "schema true": changed("run", "schema", to=True),
    "schema 0": changed("run", "schema", to=0),
    "schema −1": changed("run", "schema", to=-1),
    "schema 1 without cell": summed(b'{"schema":1,"kind":"run","key":"x","values":{},"provenance":{}}'),
    "schema 1 without kind": summed(b'{"schema":1,"key":"x","cell":{},"values":{},"provenance":{}}'),
    "5,000 digits": raw("run", b'"seed":0', b'"seed":' + b"1" * 5000),
    "nested": raw("run", b'"provenance":{', b'"provenance":{"x":' + DEEP),
    "nested cell": raw("run", b'"seed":0', b'"seed":' + DEEP),
    "NaN": raw("run", b'"test_error":0.5', b'"test_error":NaN'),
    "infinite cell": raw("run", b'"seed":0', b'"seed":1e400'),
    "float of a word": raw("run", b'"test_error":0.5', b'"test_error":{"float":"many"}'),
    "float of a list": raw("run", b'"test_error":0.5', b'"test_error":{"float":[1]}'),
    "float in the cell": raw("run", b'"seed":0', b'"seed":{"float":"nan"}'),
    "no kind": changed("run", "kind"),
    "kind a list": changed("run", "kind", to=["run"]),
    "no key": changed("run", "key", to=None),
    "key of another": changed("run", key=RECORDS["theory"].key),
    "no cell": changed("run", "cell"),
    "cell a list": changed("run", "cell", to=[]),
    "no numerics": changed("run", "numerics"),
    "numerics true": changed("run", "numerics", to=True),
    "no values": changed("run", "values"),
    "values null": changed("run", "values", to=None),
    "no provenance": changed("run", "provenance"),
    "provenance a text": changed("run", "provenance", to="here"),
    "run without problem": changed("run", "cell", "problem"),
    "problem a list": changed("run", "cell", "problem", to=[1]),
    "problem without n": changed("run", "cell", "problem", "n"),
    "problem with n a word": changed("run", "cell", "problem", "n", to="many"),
    "problem with d of 400 digits": changed("run", "cell", "problem", "d", to=10**400),
    "problem with another field": changed("run", "cell", "problem", "layers", to=3),
    "problem with a negative penalty": changed("run", "cell", "problem", "ridge", to=-1),
    "step a list": changed("run", "cell", "problem", "step", to=[1]),
    "step without steps": changed("run", "cell", "problem", "step", to=[]),
    "half of a pair": changed("run", "cell", "problem", "inputs", to="\ud800"),
    "host a list": changed("run", "provenance", "host", to=["here"]),
    "seconds of 30 digits": changed("run", "provenance", "seconds", to=10**30),
    "step too large": changed("run", "cell", "problem", "step", to={"constant": 1.0, "exponent": 1e6}),
    "activation of nothing": changed("run", "cell", "problem", "activation", to={}),
    "run without seed": changed("run", "cell", "seed"),
    "seed a text": changed("run", "cell", "seed", to="0"),
    "seed below 0": changed("run", "cell", "seed", to=-1),
    "no test error": changed("run", "values", "test_error"),
    "test error null": changed("run", "values", "test_error", to=None),
    "test error a list": changed("run", "values", "test_error", to=[0.5]),
    "test error true": changed("run", "values", "test_error", to=True),
    "test error of 400 digits": changed("run", "values", "test_error", to=10**400),
    "no untrained error": changed("run", "values", "untrained_test_error"),
    "theory without method": changed("theory", "cell", "method"),
    "theory without status": changed("theory", "values", "status"),
    "theory with a number as message": changed("theory", "values", "message", to=3),
    "failure of nothing": changed("failure", "cell", "of"),
    "failure of another kind": changed("failure", "cell", "of", to="sweep"),
    "failure of a list": changed("failure", "cell", "of", to=["run"]),
    "failure without cell": changed("failure", "cell", "cell", to=None),
    "failure without seed": changed("failure", "cell", "cell", "seed"),
    "failure without attempt": changed("failure", "cell", "attempt", to="first"),
    "failure without reason": changed("failure", "values", "reason", to=None),
    "sweep without name": changed("sweep", "cell", "name", to=7),
    "sweep without description": changed("sweep", "cell", "sweep", to=[]),
    "sweep without count": changed("sweep", "values", "cells"),
}


def test_a_whole_pair_is_a_text():
    line = raw("run", b'"provenance":{', rb'"provenance":{"host":"\ud83d\ude00"')
    assert decode(line).provenance == {"host": "\U0001f600"}


def write(folder, *lines: bytes) -> None:
    (folder / f"journal-{_host()}-1-1.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))


def test_the_good_lines_are_good(tmp_path):
    write(tmp_path, *(changed(kind) for kind in RECORDS))
    store = Store(tmp_path)
    assert store.damage == []
    assert {record.kind: record for record in store} == RECORDS


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_line_is_reported_and_skipped(tmp_path, capsys, name):
    good = [changed(kind) for kind in ("theory", "failure", "sweep")]
    write(tmp_path, good[0], HOSTILE[name], *good[1:])
    store = Store(tmp_path)
    (damage,) = store.damage
    assert (damage.line, damage.offset) == (2, len(good[0]) + 1)
    assert damage.reason
    assert {record.kind for record in store} == {"theory", "failure", "sweep"}
    (row,) = stored_rows(store)
    assert row.to_dict()["status"] == "solved"
    assert [entry.cells for entry in store_status(store).sweeps] == [1]
    assert Store(tmp_path).check().damage == (damage,)
    for command, code in (["store", "check", str(tmp_path)], 1), (["sweep", "status", "--store", str(tmp_path)], 0):
        try:
            main(command)
            found = 0
        except SystemExit as stop:
            found = stop.code
        assert found == code
        assert "line 2 (byte" in " ".join(capsys.readouterr().out.split())
    assert store.heal() == [damage]
    assert Store(tmp_path).check().healthy
    assert len(Store(tmp_path)) == 3


@pytest.mark.parametrize(
    "described",
    [
        {},
        {"problem": 3},
        {"problem": {"n": 30, "d": 15, "N": 45}, "axes": {"ridge": {"linspace": [0.1, 1, 10**12]}}},
        {"problem": {"n": 30, "phi": 1e308, "N": 45}},
        {"problem": {"n": 30, "d": 15, "N": 45, "seeds": 10**12}},
        {"problem": {"n": 30, "d": 15, "N": 45, "seeds": [1e300]}},
        {"problem": {"n": 30, "d": 15, "N": 45}, "axes": {"ridge": {"linspace": [0, 10**400, 3]}}},
    ],
)
def test_a_described_sweep_that_is_none_does_not_end_status(tmp_path, described):
    write(tmp_path, changed("theory"), changed("sweep", "cell", "sweep", to=described))
    (entry,) = store_status(Store(tmp_path)).sweeps
    assert (entry.cells, entry.known, entry.failed) == (1, None, None)


@pytest.mark.parametrize("name", ["folder", "dangling link"])
def test_what_is_called_a_journal_and_is_no_file_is_left_alone(tmp_path, name):
    write(tmp_path, changed("run"))
    other = tmp_path / "journal-x-1-1.jsonl"
    other.mkdir() if name == "folder" else other.symlink_to(tmp_path / "nowhere")
    store = Store(tmp_path)
    assert len(store) == 1
    assert store.check().healthy
    assert store.heal() == []
    assert not store.others_write()
