"""The command line: parse, call one function, print or write one thing. Heavy imports wait until they are needed."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from onestride import __version__
from onestride._progress import silent
from onestride.cli.best import optimum, scaling
from onestride.cli.explore import explore
from onestride.cli.options import AS_IN_README, Device, Json, MaybeWhole, Method, ProblemOptions, Seeds, Size
from onestride.cli.out import check_folder
from onestride.cli.show import (
    emit,
    progress_bar,
    say,
    show_comparison,
    show_prediction,
    show_simulation,
    subscript,
    table,
)
from onestride.cli.spelling import console
from onestride.cli.sweeps import store_app, sweep_app
from onestride.cli.terminal import sentences

app = App(
    name="onestride",
    version=__version__,
    suppress_keyboard_interrupt=False,  # main() says a sentence
    help="What does a two-layer network learn in its first gradient step, and how much does that help?",
)


@app.command
def predict(*, options: ProblemOptions = AS_IN_README, method: Method = "auto", json_: Json = False) -> None:
    """Predict train and test error after one step, and without it."""
    from onestride.result import Status, TheoryError
    from onestride.theory.predict import predict as run

    prediction = run(options.build(), method=method, throw=False)
    if prediction.status not in (Status.SOLVED, Status.INACCURATE):
        raise TheoryError(prediction.message)
    if not emit(prediction.with_problem(), json_):
        show_prediction(prediction)


@app.command
def simulate(
    *,
    options: ProblemOptions = AS_IN_README,
    seeds: Seeds = 8,
    device: str = "cpu",
    dtype: Literal["float64", "float32"] = "float64",
    json_: Json = False,
) -> None:
    """Measure train and test error after one step, and without it.

    Parameters
    ----------
    device
        cpu (NumPy), cuda or cuda:1 (torch), torch (on the CPU), cupy; one seed is the same data on all.
    dtype
        float32 is quicker on some machines; one cell is then checked in float64.
    """
    from onestride.simulation.run import simulate as run

    problem = options.build()
    with progress_bar("simulating") as progress:
        simulation = run(problem, seeds, device=device, dtype=dtype, progress=progress)
    if not emit(simulation.with_problem(), json_):
        show_simulation(simulation)


@app.command
def plan(
    *, options: ProblemOptions = AS_IN_README, seeds: Seeds = 8, device: Device = "cpu", json_: Json = False
) -> None:
    """Tell the time and memory of a simulation before it starts."""
    from onestride.cli.live import about
    from onestride.simulation.cost import plan as run

    found = run(options.build(), seeds=seeds, device=device)
    if emit(found.with_problem(), json_):
        return
    say(str(found.problem))
    say(f"{found.flops:.3g} floating-point operations for {seeds} seeds, {found.memory / 2**30:.3g} GiB of memory.")
    say(f"Method: {found.method}.")
    told = about(found.seconds)
    say(f"{told[0].upper()}{told[1:]} on {found.device} ({found.basis}).")


@app.command
def compare(
    *,
    options: ProblemOptions = AS_IN_README,
    seeds: Seeds = 8,
    method: Method = "auto",
    device: Device = "cpu",
    json_: Json = False,
) -> None:
    """Predict and simulate, and say whether they agree, differ, or how many seeds would decide."""
    from onestride.comparison import compare as run

    problem = options.build()
    with progress_bar("simulating") as progress:
        comparison = run(problem, seeds, method=method, device=device, progress=progress)
    if not emit(comparison.with_problem(), json_):
        show_comparison(comparison)


@app.command
def spectrum(
    *,
    options: ProblemOptions = AS_IN_README,
    json_: Annotated[Json, Parameter(help="Print JSON, with the bulk densities.")] = False,
) -> None:
    """Predict the bulk of the feature spectrum, the spikes that leave it and what their singular vectors are."""
    from onestride.theory.spectrum import spectrum as run

    found = run(options.build(), density=json_)
    if emit(found.with_problem(), json_):
        return
    rows = table("spike", "eigenvalue of FFᵀ/n", "degree", "on functions of X̃β", "on H_k(X̃β⋆), same k")
    for i, (value, k) in enumerate(zip_longest(found.leading, found.degrees)):
        if k is None:  # after several steps, and with a covariance, positions only
            rows.add_row(str(i + 1), f"{value:.4g}", "", "", "")
            continue
        teacher = f"{found.teacher_overlaps[i, k]:.3f}" if k < found.teacher_overlaps.shape[1] else ""
        rows.add_row(str(i + 1), f"{value:.4g}", str(k), f"{found.on_direction[i]:.3f}", teacher)
    say(str(found.problem))
    if found.outliers:
        say(rows)
    say(f"{found.message}.")


@app.command
def diagnose(*, options: ProblemOptions = AS_IN_README, json_: Json = False) -> None:
    """Say why a problem shows no spike or generalises poorly, with the numbers behind it and what to change."""
    from onestride.diagnosis import diagnose as run

    diagnosis = run(options.build())
    if not emit(diagnosis.with_problem(), json_):
        say(str(diagnosis.problem))
        say(str(diagnosis))


@app.command
def functions(*, json_: Json = False) -> None:
    """List activations and teachers with their Hermite coefficients."""
    from onestride.functions import activation, function_names

    known = [activation(name) for name in function_names()]
    data = {f.name: {"mean removed": f.shift, "coefficients": f.coefficients[:7].tolist()} for f in known}
    if emit(data, json_):
        return
    rows = table("function", "mean removed", *(f"c{subscript(k)}" for k in range(1, 6)))
    for f in known:
        shift = 0.0 if abs(f.shift) < 1e-15 else f.shift
        rows.add_row(f.name, f"{shift:.5f}", *(f"{c:.5f}" if c else "0" for c in f.coefficients[1:6]))
    say(rows)
    say("c_k = E[f(Z)H_k(Z)]/k!, probabilists' Hermite polynomials. Functions are centred: the mean c₀ is removed.")


@app.command
def reproduce(
    *,
    size: Size = "standard",
    out: Path = Path("reproduction"),
    json_: Annotated[Json, Parameter(help="Print JSON instead of the table.")] = False,
) -> None:
    """Check every claim of the paper: prints the claims table, writes report.html, figures, numbers and provenance.

    Parameters
    ----------
    size
        small takes seconds, standard minutes (on two cores, from a fresh clone and with its installation, 5 min 33 s
        on 16 November 2026), large much longer.
    out
        Folder to write.
    """
    import time

    from onestride.experiments.catalogue import SCALE
    from onestride.experiments.catalogue import reproduce as run
    from onestride.report import claim_dict, provenance, require_report, write_report
    from onestride.web.presets import addresses

    check_folder("--out", out)
    require_report()
    started = time.perf_counter()
    with progress_bar("checking claims") as progress:
        outcomes = run(size, progress=progress)
    where = provenance(time.perf_counter() - started, size=size, scale=SCALE)
    page = write_report(outcomes, where, out, explorer=addresses())
    claims = [claim_dict(outcome) for outcome in outcomes]
    if not emit(claims, json_):
        columns = ("numbers", "question", "claim", "verdict")
        say(table("", *columns[1:], rows=([claim[name] for name in columns] for claim in claims)))
        say(f"Report: {page}")


@app.command
def experiment(
    name: str = "list",
    /,
    *,
    size: Size = "standard",
    seeds: MaybeWhole = None,
    device: str = "cpu",
    out: Path = Path("experiments"),
    from_data: Annotated[bool, Parameter(negative=())] = False,
    json_: Json = False,
) -> None:
    """Run a named experiment, `all` of them, or `list` them: one figure, one page, one verdict each.

    Parameters
    ----------
    name
        The experiment, or list, or all.
    size
        small takes seconds, standard minutes on two cores, large is for big machines.
    seeds
        Independent repeats; each experiment has its own default.
    device
        Where the simulation runs, as for simulate.
    out
        Folder to write.
    from_data
        Draw figure and page again from the numbers that an earlier run left in that folder, seed by seed; nothing is computed.
    """
    import time
    from functools import partial

    from onestride._errors import require_all
    from onestride.experiments.catalogue import QUESTIONS, require_experiment, run_experiment
    from onestride.experiments.outcome import Settings
    from onestride.report import provenance, read_outcome, require_report, write_outcome
    from onestride.web.presets import addresses

    if name == "list":
        if not emit(QUESTIONS, json_):
            say(table("experiment", "question", rows=QUESTIONS.items()))
        return
    check_folder("--out", out)
    names, data = (list(QUESTIONS) if name == "all" else [name]), []
    require_all(require_report, *(partial(require_experiment, chosen, run=not from_data) for chosen in names))
    for chosen in names:
        if from_data:
            outcome, where = read_outcome(chosen, out)
        else:
            started = time.perf_counter()
            with progress_bar(chosen) as progress:
                report = None if progress is None else (lambda part, show=progress: show(round(100 * part), 100))
                outcome = run_experiment(chosen, Settings(size, seeds, device, report))
            told = {"size": size, "seeds": seeds or "the experiment's own", "device": device}
            where = provenance(time.perf_counter() - started, **told)
        page = write_outcome(outcome, where, out, explorer=addresses())
        data.append(outcome.to_dict())
        if not json_:
            say(f"{outcome.name}: {outcome.judgement.words}.\n{outcome.judgement.finding}\n{page}\n")
    emit(data, json_)


app.command(optimum)
app.command(scaling)
app.command(explore)
app.command(sweep_app)
app.command(store_app)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; every error is one sentence and exit code 2."""
    with sentences(), silent():  # the commands have bars of their own
        app(arguments, console=console(), exit_on_error=False, print_error=False)
