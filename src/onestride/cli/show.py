"""What the commands print: tables, sentences, JSON and progress bars."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from onestride.cli.spelling import console, knows_all

if TYPE_CHECKING:
    from onestride.comparison import Comparison
    from onestride.result import Prediction, Simulation


def emit(data: Any, as_json: bool) -> bool:
    """Print JSON if asked, and say whether that was done."""
    if as_json:
        from onestride.result import json_text

        print(json_text(data, ascii_only=not knows_all()))
    return as_json


def say(item: Any) -> None:
    """Print words or a table."""
    console(highlight=False, markup=False).print(item)


def table(*columns: str, rows: Iterable[Iterable[str]] = ()) -> Any:
    """A table; words are set left, numbers right."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(columns):
        made.add_column(name, justify="left" if i == 0 or name in ("claim", "question", "verdict") else "right")
    for row in rows:
        made.add_row(*row)
    return made


def subscript(k: int) -> str:
    """The digits of k as subscripts."""
    return "".join(chr(0x2080 + int(digit)) for digit in str(k))


def show_prediction(p: Prediction) -> None:
    """Predicted errors with and without the step."""
    from onestride.result import LABELS, QUANTITIES, Status

    pairs = {name: (getattr(p, name), getattr(p.untrained or p, name)) for name in QUANTITIES}
    rows = [(LABELS[name], f"{a:.5f}", f"{b:.5f}", f"{b - a:+.5f}") for name, (a, b) in pairs.items()]
    say(str(p.problem))
    say(table("", "after the step", "untrained", "gain", rows=rows))
    if p.status is Status.SOLVED:
        say(f"method {p.method}: {p.accuracy}.")
    else:
        say(f"Not to be relied on: {p.message}.")


def show_simulation(s: Simulation) -> None:
    """Measured errors with and without the step."""
    from onestride.result import LABELS, QUANTITIES

    base, single = s.untrained or s, len(s.seeds) == 1

    def number(of: Simulation, name: str) -> str:
        return f"{getattr(of, name).mean:.5f}" if single else f"{getattr(of, name):.5f}"

    rows = [(LABELS[name], number(s, name), number(base, name)) for name in QUANTITIES]
    rows += [(LABELS[name], number(s, name), "") for name in ("train_gain", "test_gain")]
    say(str(s.problem))
    say(table("", "after the step", "untrained", rows=rows))
    over = (
        "of one seed; two or more have a standard error"
        if single
        else f"mean ± standard error over {len(s.seeds)} seeds"
    )
    say(f"{over}; gains are paired by seed.")
    if s.tails:
        say(f"{s.tails}.")
    if s.spot_check is not None:
        say(f"Computed in float32; the first seed in float64 differs by {s.spot_check:.1e} at most.")


def show_comparison(c: Comparison) -> None:
    """Predicted beside measured, and the verdict."""
    from onestride.result import LABELS

    rows = table("", "predicted", "measured", "stderr", "95 % interval", "z", "outcome")
    for row in c.rows:
        low, high = row.interval
        numbers = [f"{row.predicted:.5f}", f"{row.measured:.5f}", f"{row.stderr:.5f}", f"{low:.4f} … {high:.4f}"]
        rows.add_row(LABELS[row.quantity], *numbers, f"{row.z:+.1f}", row.outcome.name.lower())
    say(str(c.problem))
    say(rows)
    say(c.verdict)


@contextmanager
def progress_bar(label: str) -> Iterator[Any]:
    """A progress bar on the terminal's error stream; nothing when that is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from onestride._progress import new_bar

    with new_bar() as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
