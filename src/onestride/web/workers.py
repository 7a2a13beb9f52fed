"""Theory off the event loop: two pools of processes, so that slow work never stands in the way of quick work.

Equal questions asked at the same time share one computation, answers are kept, and no computation outlives its limit. The
limit is in seconds of computing, not of the clock, so that an answer does not depend on what else the machine does.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from onestride._errors import InputError
from onestride._processes import end_with_parent
from onestride.problem import Problem
from onestride.web.axes import AXES
from onestride.web.query import write_query

KEPT = 400  # answers in memory, of 2 to 30 kB
TIME_LIMIT = {"quick": 20.0, "full": 90.0}  # seconds of computing
PROCESSES = {"quick": 2, "full": 2}


class Overtime(Exception):
    """A computation ran past its limit."""


@contextmanager
def deaf() -> Iterator[None]:
    """Processes started meanwhile never hear Ctrl+C, not even while they load: a blocked signal is blocked in a child."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # once it runs it leaves the mask alone
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start_worker() -> None:
    """What every child process does first: no Ctrl+C of its own, an end when the server ends, failures as NaN."""
    import numpy as np

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    np.seterr(all="ignore")  # they end as NaN and a sentence


def start_theory() -> None:
    """A process for theory: one BLAS thread, and the tables of the default activation filled."""
    from threadpoolctl import threadpool_limits

    import onestride.theory.quick as theory

    start_worker()
    threadpool_limits(1)
    problem = Problem(n=1000, d=500, N=1500, ridge=0.1, teacher=(0, 1, 0.5))
    theory.here(problem, theory.QUICK)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `Overtime` in the main thread after so many seconds of computing, where the system can."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise Overtime

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def lasting_answer(task: str, fields: dict[str, Any], quality: str) -> bytes:
    """One answer as JSON, made in a worker and good for ever; `Overtime` or `MemoryError` when there is none today.

    `fields` are those of the problem, or for a curve along another axis the address and the name of the axis.
    """
    from onestride.theory.quick import QUALITIES, here
    from onestride.theory.quick_curves import curves
    from onestride.web.axes import curve, penalty_map
    from onestride.web.why import why

    chosen = QUALITIES[quality]
    try:
        with time_limit(TIME_LIMIT[quality]):
            if task == "along":
                found = curve(fields["query"], fields["axis"], chosen)
            else:
                found = {"curves": curves, "here": here, "map": penalty_map, "why": why}[task](
                    Problem.from_dict(fields), chosen
                )
            return json.dumps(found, allow_nan=False).encode()
    except InputError as error:
        return _failure(str(error), quality)
    except (ArithmeticError, ValueError, IndexError) as error:  # numbers no equation was made for
        return _failure(f"the theory has no number for this problem: {str(error) or type(error).__name__}", quality)


def _failure(sentence: str, quality: str) -> bytes:
    return json.dumps({"message": sentence, "failed": True, "quality": quality}).encode()


def _passing(error: BaseException, quality: str) -> bytes:
    """What is told of a failure that may not come again."""
    if isinstance(error, MemoryError):
        return _failure("there was not enough memory for the theory of this problem", quality)
    return _failure(f"the theory took longer than {TIME_LIMIT[quality]:g} s for this problem and was stopped", quality)


class Workers:
    """The pools and the answers they gave."""

    def __init__(self) -> None:
        self._pools: dict[str, ProcessPoolExecutor] = {}
        self._kept: OrderedDict[Any, bytes] = OrderedDict()
        self._running: dict[Any, asyncio.Task[bytes]] = {}
        # slow questions wait outside the pool, where they can give up
        self.turn = {"quick": nullcontext(), "full": asyncio.Semaphore(PROCESSES["full"])}

    async def theory(self, task: str, problem: Problem, quality: str, axis: str = "exponent") -> bytes:
        """`curves`, `here`, `map` or `why` as JSON, from memory when it was asked before."""
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
            self._running[key] = asyncio.create_task(self._compute(key))
            self._running[key].add_done_callback(lambda _: self._running.pop(key, None))
        return await asyncio.shield(self._running[key])

    async def _compute(self, key: tuple[str, Problem, str, str]) -> bytes:
        """Ask a worker, and keep what it says if it would say so again."""
        task, problem, quality, axis = key
        fields = problem.to_dict()
        if axis != "exponent":
            task, fields = "along", {"query": write_query(problem), "axis": axis}
        try:
            found = await self.run(quality, lasting_answer, task, fields, quality)
        except (Overtime, MemoryError) as error:
            return _passing(error, quality)
        self._kept[key] = found
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return found

    async def run(self, pool: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in a pool; once more in a fresh pool if a worker died."""
        for attempt in (1, 2):
            executor = self._pool(pool)
            try:
                with deaf():  # asking may start a process
                    future = executor.submit(function, *arguments)
                return await asyncio.wrap_future(future)
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
            children = list((pool._processes or {}).values())
            pool.shutdown(wait=False, cancel_futures=True)
            for child in children:
                with suppress(ValueError, OSError):
                    child.terminate()
        self._pools.clear()
