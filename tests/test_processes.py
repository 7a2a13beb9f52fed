"""Child processes end with their parent."""

import subprocess
import sys

import pytest

from waiting import LIMIT

PARENT = """
import multiprocessing, os, signal, time
from onestride._processes import end_with_parent

def child(told):
    end_with_parent()
    told.put(os.getpid())
    time.sleep(600)

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
    from onestride._processes import end_with_parent

    end_with_parent()
