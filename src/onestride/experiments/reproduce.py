"""The main job: the experiments that check the paper, one after the other."""

from __future__ import annotations

from functools import partial

from onestride.experiments.catalogue import PAPER, run_experiment
from onestride.experiments.outcome import Outcome, Settings
from onestride.simulation.arguments import OnProgress

SCALE = 0.6  # of the experiments' own sample sizes, so that all of them together take minutes
WHOLE = ("spectrum",)  # in full: below n = 2,000 its third spike is not clear of the bulk
OVERVIEW = "staircase"  # the experiment whose figure stands first


def reproduce(size: str = "standard", *, progress: OnProgress | None = None) -> list[Outcome]:
    """Check every claim at the sizes called `size`: small, standard or large."""

    def report(done: int, fraction: float) -> None:
        if progress is not None:
            progress(round(100 * (done + fraction)), 100 * len(PAPER))

    return [
        run_experiment(name, Settings(size, scale=1.0 if name in WHOLE else SCALE, report=partial(report, done)))
        for done, name in enumerate(PAPER)
    ]
