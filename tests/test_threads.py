"""Work side by side: who helps whom, and that everybody is counted out again."""

from threading import Barrier, Event, get_ident

import pytest

from onestride._backend import threads
from waiting import LIMIT


@pytest.fixture
def three(monkeypatch):
    monkeypatch.setattr(threads, "_blas_threads", lambda: 3)
    return Barrier(3)


def test_work_inside_busy_threads_is_done_by_themselves(three):
    def work(_):
        three.wait(LIMIT)  # all three are at work
        found = threads.spare(), threads.together(lambda k: (k, get_ident()), range(5))
        three.wait(LIMIT)
        return *found, get_ident()

    for idle, done, own in threads.together(work, range(3)):
        assert idle == 0
        assert done == [(k, own) for k in range(5)]
    assert threads.spare() == 2
    assert threads._busy == 0


def test_idle_threads_help_inside(monkeypatch):
    monkeypatch.setattr(threads, "_blas_threads", lambda: 3)
    both, ended, pair = Barrier(2), Event(), Barrier(2)

    def inner(_):
        pair.wait(LIMIT)  # passed by two threads at once or never
        return get_ident()

    def outer(first):
        both.wait(LIMIT)
        if not first:
            return ended.wait(LIMIT)
        try:
            return set(threads.together(inner, range(2)))
        finally:
            ended.set()

    seen, held = threads.together(outer, [True, False])
    assert len(seen) == 2
    assert held


def test_those_that_fail_are_counted_out(three):
    def fail(_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        threads.together(fail, range(3))
    assert threads._busy == 0
