"""Theory off the event loop: pools of processes, so that slow work never stands in the way of quick work.

Equal questions asked at the same time share one computation and answers are kept. No computation outlives its limit, which is
in seconds of computing, not of the clock, so that an answer does not depend on what else the machine does; nor the last who
waited for it: on two cores, what nobody wants any more would slow down what somebody wants.
"""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import os
import signal
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from onestride._errors import InputError
from onestride._processes import deaf, end_with_parent
from onestride.problem import Problem
from onestride.web.axes import AXES
from onestride.web.query import write_query

KEPT = 400  # answers in memory, of 2 to 30 kB
TIME_LIMIT = {"quick": 20.0, "full": 90.0}  # seconds of computing
PROCESSES = {"quick": 1, "beside": 1, "full": 2}
BESIDE = ("limits", "here")  # of the quick answers: in another process than the curves, which so finds its models again
LOOK = 0.02  # seconds of computing between two looks at whether anybody waits
HALVES = ("positions", "limits")  # of the curves: while a slider moves each in a process of its own
SLOTS = 64  # of computations that can be given up, one for each under way

_given_up: Any = None  # in a worker: a byte for each slot, shared with the server


class Overtime(Exception):
    """A computation ran past its limit."""


class GivenUp(Exception):
    """Nobody waits for this computation any more."""


def start_worker() -> None:
    """What every child process does first: no Ctrl+C of its own, an end when the server ends, failures as NaN."""
    import numpy as np

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    np.seterr(all="ignore")  # they end as NaN and a sentence


def end(pool: ProcessPoolExecutor) -> None:
    """End its processes, whatever they do."""
    children = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for child in children:
        with suppress(ValueError, OSError):
            child.terminate()


def start_theory(given_up: Any = None) -> None:
    """A process for theory: one BLAS thread, and the tables of the default activation filled."""
    global _given_up  # how an initializer leaves something behind
    from threadpoolctl import threadpool_limits

    import onestride.theory.quick as theory
    from onestride.theory.quick_curves import curves

    start_worker()
    threadpool_limits(1)
    _given_up = given_up
    problem = Problem(n=1000, d=500, N=1500, ridge=0.1, teacher=(0, 1, 0.5))
    theory.here(problem, theory.QUICK)
    curves(problem, theory.QUICK)
    gc.freeze()  # what is loaded stays: looking through it for garbage takes a twentieth of an answer


@contextmanager
def time_limit(seconds: float, slot: int | None = None) -> Iterator[None]:
    """Raise `Overtime` after so many seconds of computing, `GivenUp` once that is said of the slot; where the system can."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    end = time.process_time() + seconds

    def look(*_: object) -> None:
        if slot is not None and _given_up is not None and _given_up[slot]:
            raise GivenUp
        if time.process_time() >= end:
            raise Overtime

    previous = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, LOOK, LOOK)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def lasting_answer(task: str, fields: dict[str, Any], quality: str, slot: int | None = None) -> bytes:
    """One answer as JSON, made in a worker and good for ever; `Overtime`, `GivenUp` or `MemoryError` when there is none today.

    `fields` are those of the problem, or for a curve along another axis the address and the name of the axis.
    """
    from onestride.theory.quick import QUALITIES, here
    from onestride.theory.quick_curves import curves, limits, positions
    from onestride.web.axes import curve, penalty_map
    from onestride.web.why import why

    chosen = QUALITIES[quality]
    try:
        with time_limit(TIME_LIMIT[quality], slot):
            if task == "along":
                found = curve(fields["query"], fields["axis"], chosen)
            else:
                tasks = {"curves": curves, "positions": positions, "limits": limits, "here": here}
                tasks |= {"map": penalty_map, "why": why}
                found = tasks[task](Problem.from_dict(fields), chosen)
            return json.dumps(found, allow_nan=False).encode()
    except InputError as error:
        return _failure(str(error), quality)
    except (ArithmeticError, ValueError, IndexError) as error:  # numbers no equation was made for
        return _failure(f"the theory has no number for this problem: {str(error) or type(error).__name__}", quality)


def joined(parts: list[bytes]) -> bytes:
    """Tables as JSON in one; the failure, where one of them is."""
    failed = next((part for part in parts if b'"failed": true' in part), None)
    return failed or b"{" + b", ".join(part[1:-1] for part in parts) + b"}"


async def _heard(future: Future[Any]) -> Any:
    """The result of a future of a pool, which stays as it is when nobody waits for it any more.

    `asyncio.wrap_future` would cancel it, and the thread that looks after a pool whose processes have ended breaks off, with a
    traceback, where it meets one that was cancelled by others; the futures behind it would never end.
    """
    loop = asyncio.get_running_loop()
    over = loop.create_future()

    def tell(_: Future[Any]) -> None:
        with suppress(RuntimeError):  # the loop has ended before
            loop.call_soon_threadsafe(lambda: over.done() or over.set_result(None))

    future.add_done_callback(tell)
    await over
    if future.cancelled():  # with its pool
        raise asyncio.CancelledError
    return future.result()


def _failure(sentence: str, quality: str) -> bytes:
    return json.dumps({"message": sentence, "failed": True, "quality": quality}).encode()


def _passing(error: BaseException, quality: str) -> bytes:
    """What is told of a failure that may not come again."""
    if isinstance(error, MemoryError):
        return _failure("there was not enough memory for the theory of this problem", quality)
    return _failure(f"the theory took longer than {TIME_LIMIT[quality]:g} s for this problem and was stopped", quality)


@dataclass
class _Question:
    """A computation under way, and how many wait for it."""

    task: asyncio.Task[bytes]
    waiting: int = 0


class Workers:
    """The pools and the answers they gave."""

    def __init__(self) -> None:
        self._pools: dict[str, ProcessPoolExecutor] = {}
        self._kept: OrderedDict[Any, bytes] = OrderedDict()
        self._running: dict[Any, _Question] = {}
        self._given_up: Any = multiprocessing.get_context("spawn").RawArray("b", SLOTS)
        self._free = set(range(SLOTS))
        # slow questions wait outside the pool, where they can give up
        self._turn = {"quick": nullcontext(), "full": asyncio.Semaphore(PROCESSES["full"])}

    async def theory(self, task: str, problem: Problem, quality: str, axis: str = "exponent") -> bytes:
        """`curves`, `here`, `map` or `why` as JSON, from memory when it was asked before; cancelled, it stops for good."""
        if task == "curves" and axis == "exponent":  # the same for every α, but for how far left the axis goes
            problem = problem.at(exponent=min(problem.step.exponent, 0.0))
        if task == "map":  # the same for every α and λ
            low, high = AXES["ridge"].low, AXES["ridge"].high
            problem = problem.at(exponent=0.0, ridge=problem.ridge if not low <= problem.ridge <= high else low)
        key = (task, problem, quality, axis)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        if key not in self._running:
            self._running[key] = _Question(asyncio.create_task(self._compute(key)))
        question = self._running[key]
        question.waiting += 1
        try:
            return await asyncio.shield(question.task)
        finally:
            question.waiting -= 1
            if not question.waiting:
                question.task.cancel()
                if self._running.get(key) is question:
                    self._running.pop(key)

    async def _compute(self, key: tuple[str, Problem, str, str]) -> bytes:
        """Ask a worker, and keep what it says if it would say so again."""
        task, problem, quality, axis = key
        fields = problem.to_dict()
        if axis != "exponent":
            task, fields = "along", {"query": write_query(problem), "axis": axis}
        try:
            async with self._turn[quality]:
                parts = HALVES if (task, quality) == ("curves", "quick") else (task,)
                found = joined(await asyncio.gather(*(self._asked(quality, part, fields) for part in parts)))
        except (Overtime, MemoryError) as error:
            return _passing(error, quality)
        self._kept[key] = found
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return found

    async def _asked(self, quality: str, task: str, fields: dict[str, Any]) -> bytes:
        """The answer of a worker, which is told when this is cancelled; its slot is free again once it has stopped."""
        slot = self._free.pop() if quality == "full" and self._free else None
        pool = "beside" if quality == "quick" and task in BESIDE else quality
        work = asyncio.ensure_future(self.run(pool, lasting_answer, task, fields, quality, slot))
        if slot is not None:
            work.add_done_callback(lambda _: self._release(slot))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if slot is not None:
                self._given_up[slot] = 1
            work.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody is left to be told
            raise

    def _release(self, slot: int) -> None:
        self._given_up[slot] = 0
        self._free.add(slot)

    async def run(self, pool: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in a pool; once more in a fresh pool if a worker died."""
        for attempt in (1, 2):
            executor = self._pool(pool)
            try:
                with deaf():  # asking may start a process
                    future = executor.submit(function, *arguments)
                return await _heard(future)
            except BrokenExecutor:
                if self._pools.get(pool) is executor:
                    self._pools.pop(pool)
                    executor.shutdown(wait=False)
                if attempt == 2:
                    raise
        raise AssertionError("unreachable")

    def _pool(self, name: str) -> ProcessPoolExecutor:
        if name not in self._pools:
            self._pools[name] = ProcessPoolExecutor(
                PROCESSES[name],
                mp_context=multiprocessing.get_context("spawn"),
                initializer=start_theory,
                initargs=(self._given_up,),
            )
        return self._pools[name]

    def warm(self, name: str) -> None:
        """Start a pool's processes now, so that the first question does not wait for them."""
        if name not in self._pools:
            with deaf():
                for _ in range(PROCESSES[name]):
                    self._pool(name).submit(os.getpid)

    def close(self) -> None:
        """End every process."""
        for pool in self._pools.values():
            end(pool)
        self._pools.clear()
