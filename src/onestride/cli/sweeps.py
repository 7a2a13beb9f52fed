"""The commands `sweep` and `store`."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from onestride.cli.live import about, reporter, stopping
from onestride.cli.options import Flag, Json, MaybeNumber, MaybeWhole, OneSweep, Results, SweepFile, Whole
from onestride.cli.out import check_figure, check_file, save_figure
from onestride.cli.show import emit, progress_bar, say, table

if TYPE_CHECKING:
    from onestride.sweeps.ledger import Progress
    from onestride.sweeps.rows import Row
    from onestride.sweeps.spec import Sweep

sweep_app = App(name="sweep", help="Map many problems, theory beside simulation, in a store that cannot lose work.")
store_app = App(name="store", help="Look after a folder of results.")

MAX_PANELS = 12


@sweep_app.command
def plan(file: SweepFile, /, *, store: Path | None = None, workers: MaybeWhole = None, json_: Json = False) -> None:
    """Say what a sweep would compute and cost, without running it.

    Parameters
    ----------
    store
        A folder of results; what it knows is not counted as work.
    workers
        Worker processes [one per core].
    """
    from onestride.store import Store
    from onestride.sweeps.plan import make_plan

    sweep = _described(file)
    opened = None if store is None else Store(store, create=True)
    with progress_bar("planning") as progress:
        found = make_plan(sweep, opened, workers=workers, progress=progress)
    if emit(asdict(found), json_):
        return
    for name, values in found.axes.items():
        shown = [str(v) if not isinstance(v, float) else f"{v:g}" for v in values]
        say(f"{name}: {', '.join(shown if len(shown) <= 8 else [*shown[:3], '…', *shown[-2:]])} ({len(shown)})")
    counts = [
        ("cells", found.cells, found.cells_known),
        ("runs (cells × seeds)", found.runs, found.runs_known),
        ("predictions", found.predictions, found.predictions_known),
    ]
    rows = [(name, f"{total:,}", f"{known:,}", f"{total - known:,}") for name, total, known in counts]
    say(table("", "in all", "known", "left", rows=rows))
    say(
        f"{found.groups:,} group{'s' * (found.groups != 1)} of cells that share their random numbers. Work left: {_power(found.flops)} floating-point operations."
    )
    workers_said = f"{found.workers} worker{'s' * (found.workers != 1)} with {found.threads} BLAS thread{'s' * (found.threads > 1)} each"
    say(f"{workers_said}; memory up to {found.memory / 2**30:.2g} GiB per worker.")
    say(f"Time: {about(found.seconds)} ({found.basis}).")


@Parameter(name="*")
@dataclass(frozen=True)
class RunOptions:
    """How a sweep is computed: the arguments of `sweep`, and Dask."""

    workers: MaybeWhole = None
    "Worker processes [one per core that memory allows]."
    threads: MaybeWhole = None
    "BLAS threads of each worker [the cores divided among the workers; 1 with Dask]."
    dask: str | None = None
    "Address of a running Dask scheduler, or local to start one on this machine."
    device: str | None = None
    "Where workers simulate: cpu, cuda, cuda:0, torch (on the CPU) or cupy [cpu]; on a GPU there is one worker unless more are asked for."
    target_stderr: MaybeNumber = None
    "Add seeds until the test error of every cell is known with this standard error."
    max_seeds: Whole = 100
    "The most seeds a cell may get in that way."
    retry_failed: Flag = False
    "Compute again what failed in an earlier run."

    @contextmanager
    def arguments(self) -> Iterator[dict[str, Any]]:
        """Those of `sweep`, with an executor while the block runs."""
        given = asdict(self)
        dask = given.pop("dask")
        if dask is None:
            yield given
            return
        from onestride.sweeps.cluster import dask_executor

        with dask_executor(dask, self.workers) as (executor, count):
            yield given | {"executor": executor, "workers": count, "threads": self.threads or 1}


@sweep_app.command
def run(
    file: SweepFile,
    /,
    *,
    store: Annotated[Path, Parameter(help="Folder of results; made when it does not exist, shared with other sweeps.")],
    options: RunOptions = RunOptions(),
    json_: Annotated[Json, Parameter(help="Print a summary in JSON.")] = False,
) -> None:
    """Compute what the store does not know yet. Run it again to resume.

    Ctrl-C finishes what is running, stores it and stops; a second Ctrl-C stops at once. The exit code is 1 when a cell
    failed and 130 when the sweep was stopped.
    """
    import gc

    from onestride.store import Store
    from onestride.sweeps.drive import sweep

    gc.set_threshold(50_000)  # thousands of records live as long as the program: do not go through them again and again
    described = _described(file)
    _name(described)
    opened = Store(store, create=True)
    for damage in opened.heal():
        print(f"set aside and to be computed again: {damage}", file=sys.stderr)
    with stopping() as stop, options.arguments() as arguments, reporter() as report:
        tally = _tally(sweep(described, opened, **arguments, progress=report, stop=stop))
        stopped = stop()
    last = report.last
    assert last is not None  # it was told before the first task
    data = {"results": last.total, "done": last.done, "failed": last.failed, "stopped": stopped, "store": str(store)}
    if not emit(data, json_):
        _summarise(last, tally, store)
    if stopped and last.done < last.total:
        print(f"stopped; resume with: {shlex.join(['onestride', *sys.argv[1:]])}", file=sys.stderr)
        raise SystemExit(130)
    if last.failed:
        raise SystemExit(1)


def _tally(rows: Iterable[Row]) -> Counter[str]:
    """How many cells with solved theory there are, in how many of them it agrees, how many more are marked, and where ± says too little."""
    from onestride.sweeps.rows import SOLVED

    count: Counter[str] = Counter()
    for row in rows:
        z = row.z("test_error")
        if row.tails:
            count["heavy"] += 1
        elif z == z:
            count["judged" if row.status == SOLVED else "marked"] += 1
            count["agree"] += row.status == SOLVED and abs(z) <= 3
    return count


def _summarise(last: Progress, tally: Counter[str], store: Path) -> None:
    failed = f", {last.failed:,} of them failed" if last.failed else ""
    say(f"{last.done:,} of {last.total:,} results are in {store}{failed}.")
    if judged := tally["judged"]:
        say(
            f"Theory lies within 3 standard errors of the measured test error in {tally['agree']:,} of {judged:,} cells."
        )
    if marked := tally["marked"]:
        cells = f"{marked:,} {'more ' * bool(judged)}cell{'s' * (marked != 1)}"
        say(f"In {cells} the theory's number is marked: status and message are in every export.")
    if heavy := tally["heavy"]:
        cells = f"{heavy:,} {'more ' * bool(judged or marked)}cell{'s' * (heavy != 1)}"
        say(
            f"In {cells} ± is too narrow for the tails of the labels: tails, in every export, says how many seeds would do."
        )
    if last.failed:
        say(f"Why: onestride sweep status --store {shlex.quote(str(store))}")


@sweep_app.command
def status(*, store: Results, json_: Json = False) -> None:
    """Say how far each sweep of a store is, and what failed and why."""
    from onestride.store import Store
    from onestride.sweeps.status import store_status

    opened = Store(store)
    found = store_status(opened)
    running = opened.others_write()
    data = {"store": str(store), "running": running, "damaged": [str(d) for d in opened.damage]}
    if emit(data | asdict(found), json_):
        return
    rows = []
    for entry in found.sweeps:
        left = None if entry.known is None or entry.failed is None else entry.cells - entry.known - entry.failed
        told = ("?" if count is None else f"{count:,}" for count in (entry.cells, entry.known, entry.failed, left))
        rows.append((entry.name, *told, entry.started))
    say(table("sweep", "cells", "known", "failed", "left", "started", rows=rows))
    if any(entry.known is None for entry in found.sweeps):
        say("?: the sweep uses a function of your own, which this program does not know.")
    say(f"{found.runs:,} runs and {found.predictions:,} predictions of {found.cells:,} cells are in {store}.")
    say("A sweep is writing to it now." if running else "No sweep on this machine is writing to it.")
    for reason, count in found.reasons.items():
        say(f"failed {count:,} times: {reason}")
    for damage in opened.damage:
        say(f"damaged, computed again by the next run: {damage}")


@sweep_app.command
def export(file: Path, /, *, store: Results, sweep: OneSweep = None, by_seed: Flag = False) -> None:
    """Write the results of a store as .csv, .parquet or .nc (NetCDF), told by the suffix.

    Parameters
    ----------
    file
        File to write.
    by_seed
        One line per cell and seed instead of one per cell.
    """
    from onestride.sweeps.export import cell_table, check_suffix, export, seed_table
    from onestride.sweeps.rows import tails_words

    check_suffix(file)
    check_file("the file", file)
    rows = _rows(store, sweep)
    export((seed_table if by_seed else cell_table)(rows), file)
    say(f"{len(rows):,} cells written to {file}.")
    if told := tails_words(rows):
        say(told)


@sweep_app.command
def plot(
    *, store: Results, sweep: OneSweep = None, x: str | None = None, y: str = "test_error", out: Path = Path("sweep")
) -> None:
    """Draw the results of a store, theory as lines, simulation as points: OUT.pdf, OUT.png and OUT.csv.

    Theory whose status is not solved is drawn dashed, with hollow points, and named so in OUT.csv.

    Parameters
    ----------
    x
        Parameter of the horizontal axis [the first that varies: exponent, ridge, n, …].
    y
        Which quantity: train_loss, train_mse, test_error, train_gain or test_gain.
    out
        Name of the files, without suffix.
    """
    from onestride._errors import InputError, require
    from onestride.sweeps.curves import check_choice, curves, panels
    from onestride.sweeps.rows import tails_words

    check_choice(y, x)
    check_figure("--out", out)
    require("matplotlib", extra="plot", what="a figure")
    rows = _rows(store, sweep)
    along, found = curves(rows, y, x)
    drawn = panels(found, along, y)
    if len(drawn) > MAX_PANELS:
        raise InputError(
            f"this would be {len(drawn)} panels; give --sweep a file with fewer axes (at most {MAX_PANELS})"
        )
    save_figure("--out", out, drawn)
    say(f"{out.with_suffix('')}.pdf, .png and .csv: {y} against {along}, {len(drawn)} panel{'s' * (len(drawn) > 1)}.")
    if any(v == v for curve in found for v in curve.marked):
        say("Marked theory, dashed, was not solved or is known to be off: its status and message are in every export.")
    if told := tails_words(rows):
        say(told)


@store_app.command
def check(folder: Results, /, *, json_: Json = False) -> None:
    """Read every line of a store and verify it; the exit code is 1 when something is damaged."""
    from onestride.store import Store
    from onestride.sweeps import cells  # noqa: F401 - which knows what the records of a sweep look like

    found = Store(folder).check()
    data = {"files": found.files, "records": found.kinds, "twice": found.twice, "quarantined": found.quarantined}
    data |= {"damaged": [str(d) for d in found.damage], "conflicts": list(found.conflicts), "healthy": found.healthy}
    if not emit(data, json_):
        counts = ", ".join(f"{count:,} {kind}" for kind, count in found.kinds.items()) or "none"
        say(f"{found.files} journal{'s' * (found.files != 1)}; records: {counts}.")
        if found.twice:
            say(f"{found.twice:,} records were computed by two writers at once; equal ones count once.")
        for key in found.conflicts:
            say(f"two records of one key differ beyond rounding: {key}")
        for damage in found.damage:
            say(f"damaged: {damage}")
        if found.damage:
            say("The next `onestride sweep run` on this store sets damaged lines aside and computes their cells again.")
        if found.quarantined:
            say(
                f"{found.quarantined:,} damaged lines lie in {folder / 'quarantine.jsonl'}; their cells are computed again."
            )
        say("Every line is intact." if found.healthy else "The store is damaged.")
    if not found.healthy:
        raise SystemExit(1)


# ---------------------------------------------------------------------- helpers


def _described(file: Path) -> Sweep:
    """The sweep of a file; a million cells take half a minute."""
    from onestride.sweeps.spec import read_sweep

    with progress_bar("reading the sweep") as progress:
        return read_sweep(file, progress=progress)


def _name(sweep: Sweep) -> None:
    """Make the keys of all results, by which they are looked up, while it can be seen and left."""
    with progress_bar("naming the results") as progress:
        done = 0
        for group in sweep.groups:
            for part in group.parts:
                group.keys(part)
            done += len(group.pairs)
            if progress is not None:
                progress(done, len(sweep.points))


def _rows(store: Path, sweep: Path | None) -> list[Row]:
    from onestride.store import Store
    from onestride.sweeps.rows import stored_rows

    opened = Store(store)
    if sweep is None:
        return stored_rows(opened)
    described = _described(sweep)
    return stored_rows(opened, method=described.method, only=[problem for problem, _ in described.points])


def _power(x: float) -> str:
    if x < 1000:
        return f"{x:.0f}"
    exponent = len(f"{x:.0f}") - 1
    return f"{x / 10**exponent:.1f} × 10{str(exponent).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
