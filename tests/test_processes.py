"""Child processes end with their parent; signals go elsewhere for a while."""

import signal
import subprocess
import sys
import threading

import pytest

from onestride._processes import end_with_parent, signals_to
from waiting import LIMIT

PARENT = """
import multiprocessing, os, signal, threading
from onestride._processes import end_with_parent

def child(told):
    end_with_parent()
    told.put(os.getpid())
    threading.Event().wait()

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    context.Process(target=child, args=(told,)).start()
    print(told.get(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_child_ends_when_its_parent_is_killed(tmp_path):
    """The child holds the pipe open: `communicate` comes back only when it has ended, too."""
    (tmp_path / "script.py").write_text(PARENT)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    out, _ = subprocess.Popen([sys.executable, str(tmp_path / "script.py")], **pipes).communicate(timeout=LIMIT)
    assert int(out) > 0


def test_a_process_without_a_parent_of_ours_lives_on():
    end_with_parent()


def test_signals_go_elsewhere_while_the_block_runs_and_back_after_it():
    heard, before = [], signal.getsignal(signal.SIGINT)
    with signals_to(lambda number, _: heard.append(number), signal.SIGINT):
        signal.raise_signal(signal.SIGINT)
    assert heard == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is before


def test_in_another_thread_signals_stay_where_they_are():
    seen = []

    def look():
        with signals_to(signal.SIG_IGN, signal.SIGINT):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]
