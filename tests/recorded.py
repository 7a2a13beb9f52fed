"""Seeds that documents simulate, on file: of each simulation the first is drawn again and must be the one on file.

A simulation that is not on file is run. `ONESTRIDE_RECORD=1 pytest tests/docs`, in one process, runs all of them and writes them
down; delete the file before to drop what no document asks for any more.
"""

import hashlib
import os

import numpy as np
import pytest

from onestride.simulation import run
from onestride.simulation.luck import Drawn
from places import TESTS

FILE = TESTS / "fixtures" / "simulated_seeds.npz"
PARTS = ("plain", "freed", "slopes", "moments")
RECORD = bool(os.environ.get("ONESTRIDE_RECORD"))


def key_of(plan, etas, ridges):
    """What a simulation depends on beside its seeds; step sizes to twelve digits, as powers differ in the last."""
    numbers = [f"{x:.12g}" for x in (*etas, *ridges)]
    return hashlib.sha256(repr((plan.problem.to_dict(), plan.tests, numbers)).encode()).hexdigest()[:16]


@pytest.fixture
def recorded_seeds(monkeypatch):
    simulated, seen = run._every_seed, set()
    known = dict(np.load(FILE)) if FILE.exists() else {}

    def every_seed(plan, etas, ridges, seeds, executor, tell):
        if callable(plan.problem.teacher):  # has no name to be found by
            return simulated(plan, etas, ridges, seeds, executor, tell)
        key = key_of(plan, etas, ridges)
        at = {int(seed): i for i, seed in enumerate(known.get(f"{key}.seeds", ()))}
        if RECORD or not at.keys() >= {*seeds}:
            drawn = simulated(plan, etas, ridges, seeds, executor, tell)
            if RECORD and len(seeds) >= len(at):
                known[f"{key}.seeds"] = np.array(seeds)
                known.update({f"{key}.{part}": np.stack([getattr(one, part) for one in drawn]) for part in PARTS})
                np.savez_compressed(FILE, **known)
            return drawn
        drawn = [Drawn(*(known[f"{key}.{part}"][at[seed]] for part in PARTS)) for seed in seeds]
        if key not in seen:
            (now,) = simulated(plan, etas, ridges, seeds[:1], executor, tell)
            for part in PARTS:
                then = getattr(drawn[0], part)
                np.testing.assert_allclose(
                    getattr(now, part), then, rtol=1e-6, atol=1e-6 * np.abs(then).max(), err_msg=f"{FILE} is stale"
                )
            seen.add(key)
        return drawn

    monkeypatch.setattr(run, "_every_seed", every_seed)
