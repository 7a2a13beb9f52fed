"""Seeds that documents and statistical tests simulate, on file: of each simulation the first is drawn again and must be
the one on file.

A simulation that is not on file is run. `ONESTRIDE_RECORD=1 pytest tests/docs tests/theory tests/agreement tests/experiments
tests/test_*.py`, in one process, runs all of them and writes them down; delete the file before to drop what nobody asks for
any more.
"""

import functools
import hashlib
import os

import numpy as np
import pytest

from onestride.simulation import learned, run
from onestride.simulation.luck import Drawn
from places import TESTS

FILE = TESTS / "fixtures" / "simulated_seeds.npz"
PARTS = ("plain", "freed", "slopes", "moments")
RECORD = bool(os.environ.get("ONESTRIDE_RECORD"))


@functools.cache
def known() -> dict[str, np.ndarray]:
    return dict(np.load(FILE)) if FILE.exists() else {}


def key_of(*what) -> str:
    """What a simulation depends on beside its seeds."""
    return hashlib.sha256(repr(what).encode()).hexdigest()[:16]


def digits(numbers) -> list[str]:
    """To twelve digits, as powers differ in the last."""
    return [f"{x:.12g}" for x in numbers]


class Recorded:
    """Values by seed of what was simulated: from the file where it has all that are asked for."""

    def __init__(self) -> None:
        self.drawn_again: set[str] = set()

    def __call__(self, key, seeds, simulate):
        """The arrays of every seed, `simulate(seeds)` where the file does not have them."""
        at = {int(seed): i for i, seed in enumerate(known().get(f"{key}.seeds", ()))}
        if RECORD or not at.keys() >= {*seeds}:
            drawn = simulate(seeds)
            if RECORD:
                self.keep(key, seeds, drawn)
            return drawn
        parts = [known()[f"{key}.{i}"] for i in range(sum(name.startswith(f"{key}.") for name in known()) - 1)]
        drawn = [tuple(part[at[seed]].astype(float) for part in parts) for seed in seeds]
        if key not in self.drawn_again:
            self.drawn_again.add(key)
            for now, then in zip(simulate(seeds[:1])[0], drawn[0], strict=True):
                atol = 1e-6 * np.nanmax(np.abs(then), initial=0)
                np.testing.assert_allclose(now, then, rtol=1e-6, atol=atol, err_msg=f"{FILE} is stale")
        return drawn

    @staticmethod
    def keep(key, seeds, drawn):
        before = {int(seed): i for i, seed in enumerate(known().get(f"{key}.seeds", ()))}
        others = [seed for seed in before if seed not in seeds]
        known()[f"{key}.seeds"] = np.array([*others, *seeds])
        for i, part in enumerate(zip(*drawn, strict=True)):
            old = [known()[f"{key}.{i}"][before[seed]] for seed in others]
            known()[f"{key}.{i}"] = np.stack([*old, *part]).astype(np.float32)
        np.savez_compressed(FILE, **known())


@pytest.fixture(scope="session")
def on_file():
    """For a simulation that a test does itself: `on_file(key_of(what it depends on), seeds, simulate)`."""
    return Recorded()


@pytest.fixture
def recorded_seeds(monkeypatch):
    recorded, every_seed, one_seed = Recorded(), run._every_seed, learned._one_seed

    def errors(plan, etas, ridges, seeds, executor, tell):
        def simulate(these):
            return [
                [getattr(one, part) for part in PARTS] for one in every_seed(plan, etas, ridges, these, executor, tell)
            ]

        if callable(plan.problem.teacher):  # has no name to be found by
            return every_seed(plan, etas, ridges, seeds, executor, tell)
        key = key_of(plan.problem.to_dict(), plan.tests, plan.backend.dtype, digits((*etas, *ridges)))
        return [Drawn(*parts) for parts in recorded(key, seeds, simulate)]

    def parts_learned(problems, seed, degrees, n_test, backend, *, stored):
        def simulate(these):
            return [[one_seed(problems, each, degrees, n_test, backend, stored=stored)] for each in these]

        if callable(problems[0].teacher):
            return simulate([seed])[0][0]
        key = key_of("learned", [at.to_dict() for at in problems], n_test, backend.dtype)
        return recorded(key, [seed], simulate)[0][0]

    monkeypatch.setattr(run, "_every_seed", errors)
    monkeypatch.setattr(learned, "_one_seed", parts_learned)
