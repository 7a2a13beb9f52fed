"""`onestride optimum` and `onestride scaling`: the best step, penalty and split, and how the error falls with size."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from cyclopts import Parameter

from onestride.cli.options import AS_IN_README, Flag, Json, Method, Number, ProblemOptions, Whole
from onestride.cli.out import check_figure, save_figure
from onestride.cli.show import emit, say, table

if TYPE_CHECKING:
    from onestride.learning_curves import Scaling


def optimum(
    *,
    options: ProblemOptions = AS_IN_README,
    over: str = "step,ridge",
    method: Method = "auto",
    json_: Json = False,
) -> None:
    """Find the step, the penalty and the split of the samples with the smallest predicted test error.

    Parameters
    ----------
    over
        What is tuned, with commas: step, ridge, split. The budget of a split is n + n_step.
    """
    from onestride.theory.optimum import optimum as run

    problem = options.build()
    found = run(problem, cast("Any", tuple(over.split(","))), method=method)
    if emit(found.with_problem(), json_):
        return
    say(str(problem))
    say(f"{found.message}.")


def scaling(
    *,
    options: ProblemOptions = AS_IN_README,
    along: Literal["n", "d", "N"] = "n",
    first: Number = 100,
    last: Number = 1e6,
    points: Whole = 13,
    hold: Literal["sizes", "ratios"] = "sizes",
    tuned: Flag = False,
    seeds: Annotated[Whole, Parameter(help="Seeds of simulated points; 0 for none.")] = 0,
    largest: Whole = 2000,
    out: Path | None = None,
    method: Method = "auto",
    json_: Json = False,
) -> None:
    """Predict how the test error falls with n, d or N, and its exponent.

    Parameters
    ----------
    along
        The size that changes: samples n, inputs d or neurons N.
    first
        Smallest size.
    last
        Largest size, up to 1e15.
    points
        Sizes between them, in equal ratios.
    hold
        sizes: the others stay. ratios: they go along.
    tuned
        Take the best penalty at every point.
    largest
        Points with n, d and N up to this are simulated.
    out
        Write the figure there (.pdf, .png and .csv beside each other).
    """
    import numpy as np

    from onestride._errors import InputError
    from onestride.learning_curves import MOST_POINTS
    from onestride.learning_curves import scaling as run

    if out is not None:
        check_figure("--out", out)
        _require_figure(options.data)
    if not 0 < first < last or not 2 <= points <= MOST_POINTS:
        raise InputError(
            f"--first and --last must be 0 < first < last and --points from 2 to {MOST_POINTS:,}, got {first:g}, {last:g} and {points:,}"
        )
    problem, at = options.build(), np.geomspace(first, last, points)
    found = run(problem, along, at, hold=hold, tuned=tuned, seeds=seeds, largest=largest, method=method)
    if out is not None:
        from onestride.learning_curves import panels

        save_figure("--out", out, panels(found))
    if emit(found.with_problem(), json_):
        return
    _show(found)


def _require_figure(data: Path | None) -> None:
    """The libraries of the figure, and of the table that is read first, in one sentence."""
    from onestride._errors import require, require_all
    from onestride.own_files import require_reader

    figure = partial(require, "matplotlib", extra="plot", what="a figure")
    require_all(figure, *([] if data is None else [partial(require_reader, data)]))


def _show(found: Scaling) -> None:
    rows = table(found.along, "test error", "without a step", "exponent", "λ", "simulated", "")
    for i, size in enumerate(found.at):
        measured = f"{found.simulated[i].test_error:.4f}" if i in found.simulated else ""
        status = "" if found.status[i].name == "SOLVED" else found.status[i].name.lower().replace("_", " ")
        numbers = (found.test_error[i], found.untrained[i], found.exponent[i], found.ridge[i])
        rows.add_row(f"{size:.4g}", *(f"{x:.4g}" for x in numbers), measured, status)
    say(str(found.problem))
    say(rows)
    passed = [f"{words} at {found.along} = {size:.3g}" for words, size in found.landmarks.items()]
    if passed:
        say(f"On the way: {', '.join(passed)}.")
    say(f"{found.message}.")
