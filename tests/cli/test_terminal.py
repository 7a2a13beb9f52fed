"""The command line on terminals as they are: few letters, closed pipes, full disks, unwritable places, Ctrl-C."""

import io
import json
import os
import pkgutil
import struct
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest
from rich.text import Text

from onestride.cli import main, spelling
from onestride.cli.spelling import spelled
from onestride.cli.terminal import CLOSED
from waiting import LIMIT

SMALL = ["--n", "20", "--d", "80", "--N", "30"]  # degree one alone: quick
SWEEP = "[problem]\nn = 20\nd = 10\nN = 30\nseeds = 2\n[axes]\nridge = [0.1, 1.0]\nnoise = [0.1, 0.2]\n"
COMMAND = [sys.executable, "-c", "from onestride.cli import main; main()"]
ASCII = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture(scope="module", autouse=True)
def _loaded():
    """Commands import late: what one imports while a test has replaced a function would keep the replacement for good."""
    package = import_module("onestride")
    for module in pkgutil.walk_packages(package.__path__, "onestride."):
        with suppress(ImportError):
            import_module(module.name)


def program(*arguments, code=COMMAND[-1], env=None, **options):
    """The program in a process of its own."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 300} | options
    return subprocess.run([sys.executable, "-c", code, *arguments], env=os.environ | (env or {}), **options)


def test_python_runs_the_package():
    command = [sys.executable, "-m", "onestride", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert (result.returncode, result.stderr) == (0, "")
    assert import_module("onestride").__version__ in result.stdout


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A folder with a sweep file and the store it filled, with a failure and a damaged line in it."""
    import onestride as one

    folder = tmp_path_factory.mktemp("terminal")
    (folder / "s.toml").write_text(SWEEP)
    rows = list(one.sweep(folder / "s.toml", folder / "store", workers=1))
    assert len(rows) == 4
    with (folder / "store" / "journal-x-1-1.jsonl").open("w") as file:
        file.write("not a line\n")
    return folder


def all_commands(folder: Path) -> list[list[str]]:
    """Every command that prints words and ends by itself, and every one with a sentence of error."""
    store = ["--store", str(folder / "store")]
    commands = [[name, *SMALL] for name in ("predict", "plan", "spectrum", "diagnose")]
    commands += [["simulate", *SMALL, "--seeds", "2"], ["compare", *SMALL, "--seeds", "3"]]
    commands += [["functions"], ["functions", "--json"], ["experiment", "list"], ["--help"], ["sweep", "run", "--help"]]
    commands += [["sweep", "plan", str(folder / "s.toml"), *store], ["sweep", "run", str(folder / "s.toml"), *store]]
    commands += [["sweep", "status", *store], ["sweep", "export", str(folder / "λ.csv"), *store]]
    commands += [
        ["store", "check", str(folder / "store")],
        ["predict", "--exponent", "0.9"],
        ["predict", "--ridge", "λ"],
    ]
    return commands


EVERY = """
import io, json, sys
from onestride.cli import main
for command in json.load(sys.stdin):
    try:
        main(command)
    except SystemExit as stop:
        assert stop.code in (None, 0, 1, 2), (command, stop.code)
"""


def test_every_command_speaks_to_a_terminal_that_knows_ascii_only(store):
    """In one process, as starting one per command takes a second each."""
    given = json.dumps(all_commands(store)).encode()
    result = program(code=EVERY, env=ASCII, input=given)
    assert result.returncode == 0, result.stderr.decode()
    out, err = (" ".join(text.decode("ascii").split()) for text in (result.stdout, result.stderr))
    for words in ("lambda = 0.1", "eta = 1*n^0.3", "+/-", "FF^T/n", " c1 "):
        assert words in out
    assert "Traceback" not in err
    assert "lambda" in err  # the wrong penalty that was given


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX terminals")
def test_lines_fit_a_terminal_that_knows_ascii_only(store):
    """80 columns of a real one: letters are spelled out before lines are broken and borders drawn."""
    fcntl, pty, termios = map(import_module, ("fcntl", "pty", "termios"))
    commands = [*all_commands(store), ["predict", "--help"], ["scaling", *SMALL, "--points", "2"]]
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    streams = {"stdin": subprocess.PIPE, "stdout": writer, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", EVERY], env=env | ASCII | {"TERM": "dumb"}, **streams) as process:
        os.close(writer)
        process.stdin.write(json.dumps(commands).encode())
        process.stdin.close()
        told = b""
        with suppress(OSError):  # Linux's end of a terminal
            while more := os.read(reader, 65536):
                told += more
    os.close(reader)
    lines = told.decode("ascii").replace("\r", "").split("\n")
    paths = [line for line in lines if str(store) in line]
    assert process.returncode == 0
    assert [line for line in lines if len(line) > 80 and line not in paths] == []
    borders = [line for line in lines if line.startswith(("|", "+-"))]  # a sentence may be broken before +171%
    assert [line for line in borders if line[-1] != line[0]] == []
    text = " ".join(" ".join(lines).split())
    for words in ("lambda = 0.1", "c1 a beta^T", "H2/sqrt 2", "c*n^alpha"):
        assert words in text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("n = d²/2, FFᵀ/n", "n = d^2/2, FF^T/n"),
        ("‖G − c₁aβᵀ‖", "||G - c1 a beta^T||"),
        ("β = Xᵀy/n, 3√n, λn, X̃β⋆", "beta = X^T y/n, 3 sqrt n, lambda n, X beta*"),
        ("10⁻¹⁵ ≤ E σ⋆², W₀", "10^-15 <= E sigma*^2, W0"),
        ("naïve", "naive"),
        ("ΔF, Ω", "Delta F, Omega"),
    ],
)
def test_letters_are_spelled_so_that_they_can_be_read(text, told):
    assert spelled(text, "ascii") == told
    assert spelled(text, "utf-8") == text
    assert spelled("d² λ", "latin-1") == "d² lambda"


def test_styles_stay_with_their_words_where_letters_are_spelled(monkeypatch):
    monkeypatch.setattr(spelling, "knows_all", lambda *_: False)
    file = io.TextIOWrapper(io.BytesIO(), "ascii")
    spelling.console(file=file, force_terminal=True, color_system="standard").print(Text.assemble("λ² ", ("x", "bold")))
    file.flush()
    assert file.buffer.getvalue() == b"lambda^2 \x1b[1mx\x1b[0m\n"


def test_an_argument_in_other_letters_is_quoted_in_words():
    assert b"no function is called 'sigma'" in program("predict", "--activation", "σ", env=ASCII).stderr


def test_json_stays_exact_on_an_ascii_terminal(capsys):
    told = program("experiment", "list", "--json", env=ASCII).stdout.decode()
    with pytest.raises(SystemExit):
        main(["experiment", "list", "--json"])
    here = capsys.readouterr().out
    assert told.isascii()
    assert not here.isascii()
    assert json.loads(told) == json.loads(here)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes")
@pytest.mark.parametrize("command", [["functions"], ["functions", "--json"], ["--help"], ["nonsense"]])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_goes_away_ends_the_program_quietly(command, stream):
    reader, writer = os.pipe()
    os.close(reader)  # gone before the first byte
    try:
        result = program(*command, **{stream: writer})
    finally:
        os.close(writer)
    told = (result.stderr or b"") + (result.stdout or b"" if stream == "stderr" else b"")
    assert b"Traceback" not in told
    assert b"Broken pipe" not in told
    assert b"BrokenPipe" not in told
    if stream == "stdout" and command != ["nonsense"]:
        assert result.returncode == CLOSED  # and not 1, by which a sweep says that a cell failed


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_output_that_cannot_be_written_is_a_sentence():
    with open("/dev/full", "wb") as full:
        result = program("functions", "--json", stdout=full)
    assert result.returncode == 2
    assert b"No space left on device" in result.stderr
    assert result.stderr.count(b"\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX shell")
def test_closed_streams_are_no_error():
    shell = f"exec {sys.executable} -c '{COMMAND[-1]}' functions >&- 2>&-"
    assert subprocess.run(["sh", "-c", shell], timeout=LIMIT).returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX shell")
def test_where_all_streams_are_closed_no_file_gets_their_words(tmp_path):
    code = "import os, sys\nfrom onestride.cli.terminal import sentences\nwith sentences(), open(sys.argv[1], 'w'):\n"
    code += "    os.write(2, b'words'), os.system('echo words; echo words >&2')"
    shell = ["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', sys.executable, "-c", code, str(tmp_path / "journal")]
    assert subprocess.run(shell, timeout=LIMIT).returncode == 0
    assert (tmp_path / "journal").read_bytes() == b""


# ---------------------------------------------------------------------- places to write


def ended(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    return stop.value.code, capsys.readouterr().err


def never(*_, **__):
    raise AssertionError("the work was begun")


@pytest.mark.parametrize(
    ("command", "work"),
    [
        (["reproduce", "--out"], "onestride.experiments.catalogue.reproduce"),
        (["experiment", "staircase", "--out"], "onestride.experiments.catalogue.run_experiment"),
        (["sweep", "plot", "--store", "s", "--out"], "onestride.cli.sweeps._rows"),
        (["sweep", "export", "--store", "s"], "onestride.cli.sweeps._rows"),
    ],
)
@pytest.mark.parametrize("place", ["a file in the way", "a device", "a name too long"])
def test_a_place_that_cannot_be_written_is_told_before_the_work(capsys, monkeypatch, tmp_path, command, work, place):
    module, name = work.rsplit(".", 1)
    monkeypatch.setattr(import_module(module), name, never)
    (tmp_path / "file").write_text("")
    out = {"a file in the way": tmp_path / "file" / "x", "a device": "/dev/null/x", "a name too long": "x" * 300}
    code, err = ended(capsys, *command, f"{out[place]}.csv")
    assert code == 2
    assert "cannot be written: " in err
    assert "begun" not in err


def test_a_folder_in_the_place_of_a_file_is_told_before_the_work(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(import_module("onestride.cli.sweeps"), "_rows", never)
    (tmp_path / "x.csv").mkdir()
    for command in (["export", str(tmp_path / "x.csv")], ["plot", "--out", str(tmp_path / "x")]):
        code, err = ended(capsys, "sweep", *command, "--store", "s")
        assert code == 2
        assert "x.csv cannot be written: it is a folder" in err


def test_the_check_of_a_place_leaves_nothing_there(tmp_path):
    from onestride.cli.out import check_file, check_folder

    check_folder("--out", tmp_path / "a" / "b")
    check_file("--out", tmp_path / "a" / "b.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["--y", "loss"], ["--x", "teacher"], ["--out", ""]])
def test_plot_asks_for_what_it_knows_before_it_reads(capsys, monkeypatch, words):
    monkeypatch.setattr(import_module("onestride.cli.sweeps"), "_rows", never)
    code, err = ended(capsys, "sweep", "plot", "--store", "s", *words)
    assert code == 2
    assert " must be " in err


def test_scaling_says_before_the_work_that_its_figure_has_no_place(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("onestride.learning_curves.scaling", never)
    (tmp_path / "x.png").mkdir()
    for place, words in (("", "must be a name"), (tmp_path / "x", "x.png cannot be written: it is a folder")):
        code, err = ended(capsys, "scaling", "--out", str(place))
        assert code == 2
        assert words in err


def test_a_figure_makes_the_folders_that_are_missing(tmp_path):
    from onestride.cli.out import save_figure
    from onestride.plot import Panel, Series

    save_figure("--out", tmp_path / "a" / "b" / "x", [Panel("t", "x", "y", [Series("s", [1, 2], [1, 2])])])
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == ["x.csv", "x.pdf", "x.png"]


def test_one_seed_has_no_error_bar(capsys):
    with pytest.raises(SystemExit):
        main(["simulate", *SMALL, "--seeds", "1"])
    said = capsys.readouterr().out
    assert "nan" not in said
    assert "of one seed" in said


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("command", "moment", "words"),
    [
        ("plan", "onestride.sweeps.spec._problem", "reading the sweep"),
        ("plan", "onestride.sweeps.plan.kind_of", "planning"),
        ("run", "onestride.sweeps.spec._problem", "reading the sweep"),
        ("run", "onestride.sweeps.cells.key_of", "naming the results"),
    ],
)
def test_a_large_sweep_shows_what_it_does_before_its_work_and_can_be_left(
    capsys, monkeypatch, tmp_path, command, moment, words
):
    """A million cells take a minute; Ctrl-C comes in the midst of it."""
    (tmp_path / "s.toml").write_text(SWEEP)
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    module, name = moment.rsplit(".", 1)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module(module), name, interrupt)
    with pytest.raises(SystemExit) as stop:
        main(["sweep", command, str(tmp_path / "s.toml"), "--store", str(tmp_path / "store")])
    assert stop.value.code == 130
    assert words in screen.getvalue()
    assert screen.getvalue().endswith("onestride: interrupted; nothing half-written is left behind\n")
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "store").exists()


# ---------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "interrupted; nothing half-written is left behind"),
        (MemoryError(), 2, "there is not enough memory for this; choose smaller sizes"),
        (
            RecursionError("deep"),
            70,
            "a mistake of onestride itself, please report it: RecursionError in test_terminal",
        ),
        (
            ZeroDivisionError("x"),
            70,
            "a mistake of onestride itself, please report it: ZeroDivisionError in test_termina",
        ),
        (OSError(), 2, "onestride: OSError"),
    ],
)
@pytest.mark.parametrize(
    ("command", "work"),
    [
        (["predict"], "onestride.theory.predict.predict"),
        (["simulate"], "onestride.simulation.run.simulate"),
        (["plan"], "onestride.simulation.cost.plan"),
        (["compare"], "onestride.comparison.compare"),
        (["spectrum"], "onestride.theory.spectrum.spectrum"),
        (["diagnose"], "onestride.diagnosis.diagnose"),
        (["functions"], "onestride.functions.function_names"),
        (["reproduce"], "onestride.experiments.catalogue.reproduce"),
        (["experiment", "staircase"], "onestride.experiments.catalogue.run_experiment"),
        (["sweep", "plan", "s.toml"], "onestride.sweeps.spec.read_sweep"),
        (["sweep", "run", "s.toml", "--store", "s"], "onestride.sweeps.spec.read_sweep"),
        (["sweep", "status", "--store", "s"], "onestride.store.Store"),
        (["sweep", "export", "x.csv", "--store", "s"], "onestride.store.Store"),
        (["sweep", "plot", "--store", "s"], "onestride.store.Store"),
        (["store", "check", "s"], "onestride.store.Store"),
    ],
)
def test_every_error_of_every_command_is_one_sentence(capsys, monkeypatch, tmp_path, command, work, error, code, words):
    def fail(*_, **__):
        raise error

    module, name = work.rsplit(".", 1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(import_module(module), name, fail)
    found, err = ended(capsys, *command)
    assert found == code
    assert words in err
    assert err.count("\n") == 1
