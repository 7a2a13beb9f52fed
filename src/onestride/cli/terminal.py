"""The terminal as it is: streams that know few letters, streams that are closed, errors that become one sentence."""

from __future__ import annotations

import codecs
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from cyclopts import CycloptsError, UnusedCliTokensError

from onestride._errors import InputError
from onestride._processes import signals_to
from onestride.cli.spelling import spelled

INTERRUPTED = 130
CLOSED = 141  # what a shell calls a program whose reader went away


class Ended(KeyboardInterrupt):
    """The program was told to end by another signal than Ctrl-C, or its terminal was closed."""


def _end(number: int, frame: FrameType | None) -> None:
    """What is under way tidies up, as after Ctrl-C; the same once more ends it at once, but a terminal may say twice that it closes."""
    server = signal.getsignal(signal.SIGTERM)
    if (
        number != signal.SIGTERM and callable(server) and server is not _end
    ):  # such as that of the page, which has a way of its own
        server(signal.SIGTERM, frame)
        return
    signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN)
    raise Ended(signal.Signals(number).name, 128 + number)


def _endings() -> list[int]:
    """The signals that would end the program without a word; under nohup one of them does not."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    return [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]


@contextmanager
def sentences() -> Iterator[None]:
    """Every error that leaves the block is one sentence on the error stream, with an exit code and no traceback."""
    _open_streams()
    try:
        try:
            with signals_to(_end, *_endings()):
                yield
        finally:
            sys.stdout.flush()
    except UnusedCliTokensError as error:
        _stop(
            f"this command does not take {' '.join(error.unused_tokens or ())!r}; options go by name, --name value", 2
        )
    except CycloptsError as error:
        ours = error.__cause__ if isinstance(error.__cause__, InputError) else error  # a converter's own sentence
        sentence = " ".join(str(ours).split())
        behind = re.fullmatch(r"Unknown option: (.+)\. Did you mean \1\?", sentence)  # no help
        _stop(f"{behind[1]} stands behind a lone --, behind which no option is read" if behind else sentence, 2)
    except Ended as ended:
        name, code = ended.args
        _stop(f"ended by {name}; nothing half-written is left behind", code)
    except KeyboardInterrupt:
        _stop("interrupted; nothing half-written is left behind", INTERRUPTED)
    except BrokenPipeError:
        _close(sys.stdout)
        raise SystemExit(CLOSED) from None
    except (ValueError, OSError) as error:
        _stop(str(error) or type(error).__name__, 2)
    except MemoryError as error:
        _stop(f"there is not enough memory for this{f' ({error})' if str(error) else ''}; choose smaller sizes", 2)
    except Exception as error:
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        where = "" if place is None else f" in {os.path.basename(place.tb_frame.f_code.co_filename)}:{place.tb_lineno}"
        _stop(f"a mistake of onestride itself, please report it: {type(error).__name__}{where}: {error}", 70)


def _stop(sentence: str, code: int) -> NoReturn:
    sentence = re.sub(r"(?:\\udc[89a-f][0-9a-f])+", _as_typed, sentence)
    with suppress(OSError):
        print(f"onestride: {sentence}", file=sys.stderr, flush=True)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # what is left in it cannot be written, so do not try again when the program ends
            _close(stream)
    raise SystemExit(code)


def _as_typed(quoted: re.Match[str]) -> str:
    """Letters of an argument that Python, told of no letters but ASCII, kept byte by byte."""
    return bytes.fromhex(quoted[0].replace(r"\udc", "")).decode("utf-8", "replace")


def _close(stream: object) -> None:
    """Let what is still to be written to a stream go nowhere."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # pyright: ignore[reportAttributeAccessIssue]
        os.close(nowhere)


def _open_streams() -> None:
    """Letters that a stream does not know are spelled out, and a stream that is closed leads nowhere."""
    while (nowhere := os.open(os.devnull, os.O_RDWR)) < 3:  # else words would go into the next file, a journal
        os.set_inheritable(nowhere, True)
    os.close(nowhere)
    codecs.register_error("onestride.spell", _spell)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - while the program lives
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="onestride.spell")


def _spell(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    before = error.object[max(error.start - 1, 0) : error.start]
    return spelled(before + error.object[error.start :], error.encoding)[len(before) :], len(error.object)
