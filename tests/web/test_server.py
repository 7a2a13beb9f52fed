"""The explorer's server: it answers its own page, refuses others, survives nonsense, and loses nothing that finished."""

import asyncio
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from types import SimpleNamespace

import httpx
import psutil
import pytest
from starlette.applications import Starlette

import onestride as one
from onestride.cli import main
from onestride.store import Store
from onestride.sweeps.rows import stored_rows
from onestride.sweeps.task import Task, perform
from onestride.theory import quick_curves
from onestride.web import app as app_module
from onestride.web import serve
from onestride.web import workers as workers_module
from onestride.web.app import STATIC
from onestride.web.background import Job, Simulations, _Curve
from onestride.web.guard import is_own_host
from onestride.web.query import read_problem
from onestride.web.simulation import check_size, fill
from onestride.web.workers import GivenUp, Overtime, Workers, joined, lasting_answer
from waiting import LIMIT, run_async, wait_for

SMALL = {"n": "300", "ridge": "0.2"}


def start(client, query, seeds):
    return client.post("/api/simulation/start", json={"query": query, "seeds": seeds})


def ended(client, state):
    """The job once it does not run any more."""
    job = wait_for(lambda: (j := job_of(client))["state"] != "running" and j, f"the job to be {state}")
    assert job["state"] == state, job
    return job


def job_of(client):
    return client.get("/api/simulation").json()["job"]


# ---------------------------------------------------------------------- answers


def test_page_loads_with_its_headers(client):
    page = client.get("/")
    assert page.status_code == 200
    assert "onestride" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"


def test_every_file_of_the_page_is_there_and_names_no_other_host(client):
    page = client.get("/").text
    linked = {part.split('"')[0] for part in page.split('"/static/')[1:]}
    files = {path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file()}
    assert linked | {"index.html"} <= files
    for name in files:
        file = client.get(f"/static/{name}")
        assert file.status_code == 200
        assert not re.findall(r"""["'(]\s*(?:https?:)?//(?!www\.w3\.org)""", file.text), name


def test_quick_and_full_answers_have_the_page_s_numbers(client):
    quick = client.get("/api/curves", params=SMALL | {"quality": "quick"}).json()
    assert len(quick["x"]) == len(quick["test_error"])
    fast, here = (client.get("/api/here", params=SMALL | {"quality": quality}).json() for quality in ("quick", "full"))
    assert (fast["quality"], here["quality"]) == ("quick", "full")
    assert here["test_error"] == pytest.approx(one.predict(read_problem(SMALL)).test_error)


def test_curve_along_another_axis_and_the_map_are_asked_for(client):
    found = client.get("/api/curves", params=SMALL | {"quality": "quick", "axis": "noise"}).json()
    assert (found["axis"], found["x"][0], found["x"][-1]) == ("noise", 0, 2)
    assert found["test_error"] == sorted(found["test_error"])
    told = client.get("/api/map", params=SMALL | {"quality": "quick"}).json()
    assert told["best"]["test_error"] == min(v for row in told["test_error"] for v in row)
    assert told["message"] == ""
    nothing = client.get("/api/map", params=SMALL | {"quality": "quick", "fresh": "false"}).json()
    assert nothing["message"].startswith(
        "the readout is fitted on the samples of the step"
    )  # `predict` has a number, the map has none
    few = client.get("/api/map", params=SMALL | {"quality": "quick", "n": "30"}).json()
    assert (few["best"], few["message"]) == (None, "")  # all are known to be off, which is no reason not to draw them
    refused = client.get("/api/curves", params=SMALL | {"axis": "seeds"})
    assert refused.status_code == 400
    assert refused.json()["error"].startswith("axis must be one of exponent, ridge, n")


def test_downloads_are_a_pdf_and_its_numbers(client):
    pdf = client.get("/download/figure.pdf", params=SMALL)
    assert pdf.content.startswith(b"%PDF")
    assert "attachment" in pdf.headers["content-disposition"]
    text = client.get("/download/figure.csv", params=SMALL).text
    assert text.startswith("panel,series,kind,x,y,error")
    assert "learned share of each degree" in text


def test_download_of_a_problem_without_theory_is_a_sentence(client):
    answered = client.get("/download/figure.csv", params={"n": "8"})
    assert answered.status_code == 400
    assert "nothing to draw: the theory describes large problems" in answered.json()["error"]


# ---------------------------------------------------------------------- who may ask


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example"},
        {"host": ""},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
    ],
    ids=str,
)
def test_foreign_requests_are_refused(client, headers):
    for path in ("/api/about", "/api/here", "/static/main.js"):
        answered = client.get(path, headers=headers)
        assert answered.status_code == 403
        assert answered.json()["error"].count(" ") > 3
    assert client.post("/api/simulation/start", json={}, headers=headers).status_code == 403


def test_own_page_and_links_to_it_are_not_refused(client):
    assert (
        client.get(
            "/api/about", headers={"origin": str(client.base_url).rstrip("/"), "sec-fetch-site": "same-origin"}
        ).status_code
        == 200
    )
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get("/", headers=link).status_code == 200
    assert client.get("/api/about", headers=link).status_code == 403


@pytest.mark.parametrize(
    ("host", "bound", "own"),
    [
        ("localhost:8750", "127.0.0.1", True),
        ("[::1]:8750", "127.0.0.1", True),
        ("192.168.1.7:8750", "127.0.0.1", False),
        ("192.168.1.7:8750", "0.0.0.0", True),
        ("evil.example:8750", "0.0.0.0", False),
        ("lab.example:8750", "lab.example", True),
    ],
)
def test_host_names(host, bound, own):
    assert is_own_host(host, bound) is own


# ---------------------------------------------------------------------- nonsense

ADDRESSES = [
    *({name: value} for name in ("n", "phi", "ridge", "exponent", "constant", "teacher", "activation", "gradient")
      for value in ("", "abc", "NaN", "-inf", "1e999", "9" * 250, "\u2028\x00", "[1]", "true", "../../etc/passwd")),
    {"n": "0"}, {"n": "-5"}, {"noise": "x" * 5000}, {"quality": "best"}, {"__proto__": "1"}, {"n ": "5"},
    {"exponent": "1e10"}, {"constant": "1e300", "exponent": "5"},
]  # fmt: skip


@pytest.mark.parametrize("path", ["/", "/api/problem", "/api/curves", "/api/points", "/download/figure.csv"])
def test_wrong_addresses_get_a_4xx_with_a_sentence(client, path):
    for address in ADDRESSES:
        if address == {"activation": "true"} or (path in ("/", "/api/problem") and "quality" in address):
            continue
        answered = client.get(path, params=address)
        assert 400 <= answered.status_code < 500, (address, answered.status_code)
        if path != "/":
            assert answered.json()["error"].count(" ") > 3, address
            assert "Traceback" not in answered.text


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2f..%2fproblem.py",
        "/static//etc/passwd",
        "/static/%00",
        "/api/store/../../etc/passwd",
        "/nothing",
        "/api/points/1",
        "/" + "a" * 9000,
    ],
)
def test_path_tricks_read_nothing(client, path):
    connection = http.client.HTTPConnection(client.base_url.host, client.base_url.port)  # sends the path as it is
    connection.request("GET", path)
    with closing(connection), connection.getresponse() as answered:
        assert 400 <= answered.status < 500
        assert json.load(answered)["error"].count(" ") > 2


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b"null", b'{"seeds": 1e99}', b'{"seeds": "8"}', b'{"seeds": 0}', b'{"seeds": true}',
     b'{"query": []}', b'{"query": {"n": 5}}', b'{"query": {"n": "1e9"}}', b'{"query": {"x": "y"}}', b"\xff\xfe",
     b"[" * 30000, b'{"seeds": NaN}', b'{"query": {"teacher": "0,nan"}}', b"x" * 70000],
    ids=lambda b: b[:30].decode("latin-1"),
)  # fmt: skip
def test_wrong_bodies_start_nothing(client, body):
    answered = client.post("/api/simulation/start", content=body, headers={"content-type": "application/json"})
    assert 400 <= answered.status_code < 500
    assert answered.json()["error"].count(" ") > 3
    assert client.post("/api/simulation/start", content=body).status_code in (400, 413)


def test_wrong_methods_are_refused(client):
    assert client.get("/api/simulation/start").status_code == 405
    assert client.delete("/api/about").status_code == 405


def test_server_still_answers_after_all_of_that(client):
    assert client.get("/api/about").status_code == 200


# ---------------------------------------------------------------------- simulations


def test_simulation_arrives_point_by_point_and_is_stored(client, store):
    assert start(client, SMALL, 3).status_code == 200
    ended(client, "done")
    points = client.get("/api/points", params=SMALL).json()
    problem = read_problem(SMALL)
    expected = one.simulate(problem, 3)
    (at,) = [p for p in points["test_error"] if p["alpha"] == problem.step.exponent]
    assert at["mean"] == pytest.approx(float(expected.test_error.mean))
    assert at["stderr"] == pytest.approx(float(expected.test_error.stderr))
    assert points["learned"]["1"]["mean"] == pytest.approx(float(one.measure_learned(problem, 3).fraction.mean[0]))
    assert len(points["test_error"]) == 10
    assert sum(points["histogram"]["density"]) > 0
    rows = stored_rows(Store(store))
    assert {len(row.runs) for row in rows} == {3}
    assert all(row.status == "solved" for row in rows)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The store that a finished simulation of three seeds leaves."""
    path = tmp_path_factory.mktemp("finished")
    fill(path, read_problem(SMALL), 3)
    return path


def test_store_can_be_browsed_with_theory_beside_simulation(server, gate, client, finished):
    with server.using(finished, gate):
        found = client.get("/api/store").json()
    assert found["total"] == 10
    assert list(found["axes"]) == ["exponent"]
    row = found["rows"][0]
    assert row["test_error"]["theory"] == pytest.approx(row["test_error"]["mean"], rel=0.5)
    assert read_problem(row["query"]).n == 300


def test_store_with_a_covariance_can_be_browsed(server, gate, client, tmp_path):
    """It answered 500: a covariance is not JSON."""
    problem = read_problem({"n": "20", "inputs": "spiked"})
    with Store(tmp_path / "spiked", create=True) as results:
        results.put(*perform(Task(problem, ((0.3, 0.1),), (0.1,), 0, "auto", 1)))
    with server.using(tmp_path / "spiked", gate):
        found = client.get("/api/store").json()
    assert found["fixed"]["inputs"].startswith("Covariance(d = 10, ")
    assert read_problem(found["rows"][0]["query"]) == problem


def test_restarted_server_shows_what_was_finished(finished):
    again = Simulations(finished)
    assert again.points(read_problem(SMALL))["seeds"] == 3
    assert again.state()["runs"][0]["words"].startswith("n = 300")


def test_second_simulation_waits_and_cancel_keeps_what_is_done(client, gate):
    gate.shut()
    assert start(client, SMALL, 60).status_code == 200
    refused = start(client, SMALL, 3)
    assert refused.status_code == 409
    assert "running" in refused.json()["error"]
    wait_for(lambda: job_of(client)["done"] == 1, "the first part")
    assert client.post("/api/simulation/cancel", json={}).json()["job"]["state"] == "cancelled"
    assert job_of(client)["state"] == "cancelled"
    assert client.get("/api/points", params=SMALL).json()["seeds"] == 1


def test_store_that_cannot_be_written_is_a_sentence(server, client, gate, tmp_path):
    (tmp_path / "file").write_text("")
    with server.using(tmp_path / "file" / "store", gate):
        refused = start(client, SMALL, 2)
    assert refused.status_code == 409
    assert refused.json()["error"].endswith("store cannot be written: Not a directory")


def test_size_limit_names_an_n_that_is_allowed():
    problem = read_problem({"n": "1e6"})
    with pytest.raises(one.InputError, match=r"up to n = ([\d,]+)") as caught:
        check_size(problem)
    largest = str(caught.value).split("up to n = ")[1].split(";")[0].replace(",", "")
    check_size(read_problem({"n": largest}))


def test_activation_that_overflows_ends_with_its_sentence(client):
    query = SMALL | {"activation": "0,1,0,0,0,0,0,0,0,0,0,0,0,0,1", "constant": "1e9", "exponent": "9"}
    assert start(client, query, 2).status_code == 200
    assert "overflows" in ended(client, "failed")["message"]


def launch(store, **options):
    """The real program, as soon as it has told its address."""
    code = "from onestride.cli import main; main()"
    command = [sys.executable, "-c", code, "explore", "--no-browser", "--port", "0", "--store", str(store)]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    return program, program.stdout.readline().split("is at ")[1].split("/.")[0]


def fetch(address, data=None):
    answered = httpx.get(address, timeout=LIMIT) if data is None else httpx.post(address, json=data, timeout=LIMIT)
    return answered.raise_for_status().json()


def test_killed_server_loses_no_finished_seed_and_leaves_no_process(tmp_path):
    program, address = launch(tmp_path)
    query = SMALL | {"n": "100"}
    fetch(f"{address}/api/simulation/start", {"query": query, "seeds": 60})
    done = wait_for(lambda: (d := fetch(f"{address}/api/simulation")["job"]["done"]) >= 6 and d, "two seeds")
    children = psutil.Process(program.pid).children(recursive=True)
    os.kill(program.pid, signal.SIGKILL)
    program.communicate(timeout=LIMIT)
    assert Simulations(tmp_path).points(read_problem(query))["seeds"] >= done // 3
    _, alive = psutil.wait_procs(children, timeout=LIMIT)
    assert not alive


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_server_ends_quietly_on_ctrl_c_and_on_terminate(tmp_path, how):
    program, address = launch(tmp_path)
    fetch(f"{address}/api/about")
    program.send_signal(how)
    _, errors = program.communicate(timeout=LIMIT)
    assert errors == ""
    assert program.returncode == 0


def test_a_second_ctrl_c_does_not_break_off_the_end():
    """uvicorn would cancel what is still ending, and print where."""
    server = serve.make_server(Starlette())
    for _ in range(2):
        server.handle_exit(signal.SIGINT, None)
    assert server.should_exit
    assert not server.force_exit


def test_ctrl_c_while_the_workers_load_is_quiet(tmp_path):
    """A terminal sends it to the workers, too, whose first second goes into imports."""
    program, _ = launch(tmp_path, start_new_session=True)
    wait_for(lambda: len(psutil.Process(program.pid).children()) >= 2, "a worker beside the resource tracker")
    os.killpg(program.pid, signal.SIGINT)
    _, errors = program.communicate(timeout=LIMIT)
    assert errors == ""
    assert program.returncode == 0


def test_ctrl_c_while_the_server_is_imported_is_quiet(tmp_path):
    """The signal comes in the midst of an import, where a KeyboardInterrupt may be swallowed."""
    code = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "onestride.web.serve":
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                pass  # as some libraries do
sys.meta_path.insert(0, Finder())
from onestride.cli import main
main()
"""
    command = [sys.executable, "-c", code, "explore", "--no-browser", "--port", "-1", "--store", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_taken_port_is_told_in_a_sentence(tmp_path, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        with pytest.raises(SystemExit) as ended:
            main(["explore", "--no-browser", "--port", port, "--store", str(tmp_path)])
    assert ended.value.code == 2
    assert f"port {port} on host '127.0.0.1' cannot be used: it is in use" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["", " "])
def test_host_must_be_named(tmp_path, capsys, host):
    with pytest.raises(SystemExit) as ended:
        main(["explore", "--no-browser", "--port", "0", "--host", host, "--store", str(tmp_path)])
    assert ended.value.code == 2
    assert f"host must be a name or an address, got {host!r}" in capsys.readouterr().err


@pytest.mark.parametrize("store", ["", " "])
def test_store_must_be_named(monkeypatch, capsys, store):
    """A path of no letters is the current folder, which nobody asked for."""
    monkeypatch.setattr(serve, "explore", lambda *_, **__: pytest.fail("the server was started"))
    with pytest.raises(SystemExit):
        main(["explore", "--no-browser", "--store", store])
    assert "store must be the name of a folder" in capsys.readouterr().err


def test_host_that_is_no_name_is_a_sentence():
    with pytest.raises(one.InputError, match=r"port 0 on host 'é{70}' cannot be used: it is not a name of a machine"):
        serve.listen("é" * 70, 0)


@pytest.mark.parametrize(
    ("host", "words"), [("127.0.0.1", ""), ("0", "every address of this machine"), ("0.0.0.0", "every address")]
)
def test_listening_everywhere_is_told(tmp_path, monkeypatch, host, words):
    said, bound = [], []
    monkeypatch.setattr(serve, "make_server", lambda app: SimpleNamespace(run=lambda sockets: sockets[0].close()))
    monkeypatch.setattr(serve, "create_app", lambda store, host, **_: bound.append(host))
    monkeypatch.setattr(serve.signal, "signal", lambda *_: None)
    serve.explore(tmp_path, host=host, port=0, browser=False, say=said.append)
    assert len(said) == 1 + bool(words)
    assert words in said[-1]
    assert "at http://127.0.0.1:" in said[0]
    assert bound == ["127.0.0.1" if not words else "0.0.0.0"]
    assert f"Simulations go to the folder {tmp_path}." in said[0]
    (tmp_path / "file").touch()
    serve.explore(tmp_path / "file" / "x", host=host, port=0, browser=False, say=said.append)
    assert "file/x is no folder and cannot be one" in said[1 + bool(words)]


# ---------------------------------------------------------------------- connections


@pytest.mark.parametrize("words", [b"", b"GET /api/about HT", b"GET /api/about HTTP/1.1\r\nHost: 127.0.0.1\r\nX"])
def test_connection_that_asks_by_halves_is_closed(server, monkeypatch, words):
    monkeypatch.setattr(serve.Connection, "patience", 0.1)
    host, port = server.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=LIMIT) as half:
        half.sendall(words)
        assert half.recv(1) == b""


def test_second_request_by_halves_is_closed(server, monkeypatch):
    host, port = server.address.removeprefix("http://").split(":")
    with closing(http.client.HTTPConnection(host, int(port), timeout=LIMIT)) as half:
        half.request("GET", "/static/icon.svg")
        assert half.getresponse().read()
        monkeypatch.setattr(serve.Connection, "patience", 0.1)  # the first request has come whole, however slowly
        with suppress(ConnectionError):  # on a machine that stood still meanwhile uvicorn has closed it before
            half.sock.sendall(b"GET /static/icon.svg HT")
            assert half.sock.recv(1) == b""


def test_body_that_does_not_come_is_answered(server, store, monkeypatch):
    monkeypatch.setattr(app_module, "PATIENCE", 0.1)
    host, port = server.address.removeprefix("http://").split(":")
    with closing(http.client.HTTPConnection(host, int(port), timeout=LIMIT)) as half:
        half.putrequest("POST", "/api/simulation/start")
        half.putheader("content-type", "application/json")
        half.putheader("content-length", "100")
        half.endheaders(b"{")
        with half.getresponse() as answered:
            assert answered.status == 408
            assert "did not come within 0.1 s" in json.load(answered)["error"]


# ---------------------------------------------------------------------- workers


def test_long_computation_is_stopped(monkeypatch):
    def forever(*_):
        while True:
            pass

    monkeypatch.setattr(quick_curves, "curves", forever)
    monkeypatch.setitem(workers_module.TIME_LIMIT, "quick", 0.2)
    with pytest.raises(Overtime):
        lasting_answer("curves", read_problem(SMALL).to_dict(), "quick")


def test_computation_is_stopped_where_it_is_given_up(monkeypatch):
    given_up = bytearray(8)

    def forever(*_):
        given_up[3] = 1
        while True:
            pass

    monkeypatch.setattr(workers_module, "_given_up", given_up)
    monkeypatch.setattr(quick_curves, "curves", forever)
    with pytest.raises(GivenUp):
        lasting_answer("curves", read_problem(SMALL).to_dict(), "quick", 3)


class Endless(Workers):
    """Workers whose answers do not come by themselves."""

    async def run(self, pool, function, *arguments):
        await self.__dict__.setdefault("answered", asyncio.Event()).wait()
        return b"{}"


def test_question_is_given_up_with_the_last_who_waits():
    async def scenario():
        workers, problem = Endless(), read_problem(SMALL)
        first, second = (asyncio.create_task(workers.theory("map", problem, "full")) for _ in range(2))
        while not workers._running or not len(workers._free) < workers_module.SLOTS:
            await asyncio.sleep(0)
        told = []
        for one_of_them in (first, second):
            one_of_them.cancel()
            await asyncio.gather(one_of_them, return_exceptions=True)
            await asyncio.sleep(0)
            told.append(sum(workers._given_up))
        workers.answered.set()
        while len(workers._free) < workers_module.SLOTS:
            await asyncio.sleep(0)
        return told, sum(workers._given_up), workers._running

    assert run_async(scenario()) == ([0, 1], 0, {})


def test_question_of_a_page_that_has_gone_is_given_up(server, monkeypatch):
    monkeypatch.setattr(Workers, "run", Endless.run)
    workers, (host, port) = server.app.state.workers, server.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=LIMIT) as page:
        page.sendall(f"GET /api/map?n=77 HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        wait_for(lambda: any(key[1].n == 77 for key in workers._running), "the question")
    wait_for(lambda: not any(key[1].n == 77 for key in workers._running), "its end")
    workers.answered.set()
    wait_for(lambda: len(workers._free) == workers_module.SLOTS, "its slot")
    del workers.answered


class InThisProcess(Workers):
    """Workers whose answers are made here, one failure after another and then a success."""

    def __init__(self, *failures):
        super().__init__()
        self.failures, self.asked = list(failures), 0

    async def run(self, pool, function, *arguments):
        self.asked += 1
        if self.failures:
            raise self.failures.pop(0)
        return b"{}"


@pytest.mark.parametrize(
    ("failure", "words"), [(Overtime(), "took longer than 90 s"), (MemoryError(), "not enough memory")]
)
def test_failure_that_may_pass_is_told_once_and_not_kept(failure, words):
    async def ask_three_times():
        workers = InThisProcess(failure)
        return [await workers.theory("here", read_problem(SMALL), "full") for _ in range(3)], workers.asked

    (first, *others), asked = run_async(ask_three_times())
    assert words in json.loads(first)["message"]
    assert others == [b"{}", b"{}"]
    assert asked == 2


@pytest.mark.parametrize("name", ["quick", "full"])
def test_theory_runs_at_normal_priority(server, name):
    """A second of theory must stay seconds on a busy machine; only simulations stand back."""
    assert run_async(server.app.state.workers.run(name, os.nice, 0)) == os.nice(0)


def test_lost_worker_is_told(server, client, monkeypatch):
    async def lost(*_):
        raise workers_module.BrokenExecutor

    monkeypatch.setattr(Workers, "run", lost)
    answered = client.get("/api/here", params={"n": "61", "quality": "full"})
    assert answered.status_code == 503
    assert "ask again" in answered.json()["error"]


def test_dead_worker_is_replaced(monkeypatch):
    monkeypatch.setitem(workers_module.PROCESSES, "quick", 1)

    async def scenario():
        workers = Workers()
        try:
            with pytest.raises(workers_module.BrokenExecutor):
                await workers.run("quick", os._exit, 1)
            return await workers.run("quick", abs, -3)
        finally:
            workers.close()

    assert run_async(scenario()) == 3


def test_a_question_that_is_dropped_does_not_break_the_end_of_its_pool(monkeypatch):
    """At the end of the server, and of a worker, the pool's thread died of futures that asyncio had cancelled."""
    monkeypatch.setitem(workers_module.PROCESSES, "quick", 1)
    mistakes = []
    monkeypatch.setattr(threading, "excepthook", mistakes.append)

    async def scenario():
        workers = Workers()
        try:
            asked = [asyncio.create_task(workers.run("quick", time.sleep, LIMIT)) for _ in range(5)]
            while len(workers._pools.get("quick", SimpleNamespace(_pending_work_items=()))._pending_work_items) < 5:
                await asyncio.sleep(0)
            pool = workers._pools["quick"]
            for question in asked:
                question.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
            kept = [item.future.cancelled() for item in pool._pending_work_items.values()]
            thread = pool._executor_manager_thread
        finally:
            workers.close()
        await asyncio.to_thread(thread.join)
        return kept

    assert run_async(scenario()) == [False] * 5
    assert mistakes == []


def test_curves_are_the_same_for_every_exponent_and_maps_for_every_penalty_on_their_axes():
    asked = []

    async def compute(self, key):
        asked.append((key[1].step.exponent, key[1].ridge))
        return b"{}"

    async def ask():
        pool = type("Asked", (Workers,), {"_compute": compute})()
        for task, exponent, ridge in (("curves", 0.4, 1), ("curves", -0.3, 1), ("map", 0.4, 1), ("map", 0.4, 20)):
            await pool.theory(task, read_problem(SMALL).at(exponent=exponent, ridge=ridge), "quick")

    run_async(ask())
    assert asked == [(0.0, 1), (-0.3, 1), (0.0, 1e-4), (0.0, 20)]


def test_answers_asked_for_last_are_kept(monkeypatch):
    monkeypatch.setattr(workers_module, "KEPT", 2)

    async def asked(self, *_):
        return b"{}"

    async def ask():
        pool = type("Asked", (Workers,), {"_asked": asked})()
        for n in ("100", "200", "100", "300"):
            await pool.theory("here", read_problem(SMALL | {"n": n}), "quick")
        return [key[1].n for key in pool._kept]

    assert run_async(ask()) == [100, 300]


def test_parts_of_an_answer_are_one_table_unless_one_of_them_failed():
    assert json.loads(joined([b'{"x": [1, 2]}', b'{"limit": null}'])) == {"x": [1, 2], "limit": None}
    assert json.loads(joined([b'{"x": [1, 2]}', b'{"message": "no", "failed": true}']))["message"] == "no"


def test_a_job_counts_three_parts_of_every_seed_and_a_curve_the_most_seeds():
    """The page takes its bar and "3 of 8 seeds" from both; an exponent that was chosen later may have fewer seeds."""
    told = Job(read_problem(SMALL), 8, None, None, done=9).to_dict()
    assert (told["total"], told["done"] * told["seeds"] // told["total"]) == (24, 3)
    assert _Curve(None, {0.1: {0: {}, 1: {}}, 0.3: {0: {}}}).seeds == 2
