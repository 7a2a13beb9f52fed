"""`onestride explore --export page.html`: the page as one file, with the answers for every stop of four sliders inside.

The page is the served one: its modules are carried as data addresses that an import map names, and `offline.js` takes the
place of `net.js`. α, c, λ and n can be moved; everything else is as in the problem that was exported, of which one seed is
simulated where that is quick: the scatter of its predictor, its leading vectors and its neurons.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from onestride import __version__
from onestride._errors import InputError
from onestride._processes import deaf, quiet_tracker
from onestride.functions import function_names
from onestride.problem import Problem
from onestride.result import plain
from onestride.theory.outliers import find_outliers
from onestride.theory.quick import FULL, QUICK, facts, here
from onestride.theory.quick_curves import even_curves
from onestride.web.axes import AXES
from onestride.web.presets import PRESETS
from onestride.web.query import DEFAULTS, read_problem
from onestride.web.simulation import FUNCTION, MEASURES, NETWORK, check_size
from onestride.web.workers import end, start_theory

STATIC = Path(__file__).parent / "static"
WORDS = "Computed before this page was written, with the theory of one.predict, at every stop of the sliders."
STOPS: dict[str, tuple[float, ...]] = {
    "n": (1e2, 1e3, 1e4, 1e5, 1e6, 1e9, 1e12, 1e15),
    "constant": (0.1, 0.2, 0.5, 1, 2, 5, 10),
    "ridge": (1e-4, 1e-3, 0.01, 0.1, 1, 10),
    "exponent": tuple(k / 40 for k in range(21)),
}
NODES = 17  # of the spikes: positions within 0.5 % of those of one.spectrum
NOTE = (
    "A copy of the explorer without its server: α, c, λ and n move between stops that were computed before. {points} Not here: the other "
    "controls, simulations, a teacher of your own (the figures of another teacher are not in the file), panels, the store."
)
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data:; font-src data:"
)


def export(
    path: Path,
    query: Mapping[str, str],
    *,
    stops: Mapping[str, tuple[float, ...]] = STOPS,
    processes: int = 1,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Write the page of an address as one file; `tell` hears of the parts that are done."""
    problem = read_problem(query)
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise InputError(f"export must be a file in a folder that exists, got {str(path)!r}")
    if problem.law.times is not None:
        raise InputError(
            f"inputs={query['inputs']} cannot be exported: a covariance has no stops of n; choose another law"
        )
    own = {"n": problem.n, "constant": problem.step.constant, "ridge": problem.ridge, "exponent": problem.step.exponent}
    chosen = {name: tuple(sorted({*stops[name], own[name]})) for name in stops}
    parts = [(dict(query), n, c, chosen) for n in chosen["n"] for c in chosen["constant"]]
    curves: dict[str, Any] = {}
    rows: dict[str, Any] = {}
    laws: dict[str, Any] = {}
    for done, (some_curves, some_rows, law) in enumerate(_computed(parts, processes), 1):
        curves |= some_curves
        rows |= some_rows
        laws |= law
        tell(done, len(parts))
    defaults = DEFAULTS | dict(query)
    about = {"version": __version__, "defaults": defaults, "functions": list(function_names()), "stops": chosen}
    about |= {"axes": {name: asdict(AXES[name]) for name in chosen}, "presets": [asdict(p) for p in PRESETS[:0]]}
    data = {"about": about, "curves": curves, "here": rows, "laws": laws, "points": _points(problem)}
    points = "Points are one simulated seed of the problem that the page opens with." if data["points"] else ""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    path.write_text(one_file(text, NOTE.format(points=points)), encoding="utf-8")


def _points(problem: Problem) -> dict[str, Any] | None:
    """Predictor, leading vectors and neurons of one seed; None where the explorer would not simulate."""
    try:
        check_size(problem)
    except InputError:
        return None
    own = {"n": problem.n, "constant": problem.step.constant, "ridge": problem.ridge, "exponent": problem.step.exponent}
    return {"at": own} | {
        name: MEASURES[kind](problem, 0) for name, kind in (("function", FUNCTION), ("network", NETWORK))
    }


def _computed(parts: list[Any], processes: int) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    if processes == 1:
        yield from map(_part, parts)
        return
    quiet_tracker()  # before the pool makes semaphores
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=start_theory) as pool:
        with deaf():  # it starts the processes
            found = [pool.submit(_part, part) for part in parts]
        try:
            for part in found:
                yield part.result()
        except BaseException:  # an interrupt or a failure: nobody waits for the others
            end(pool)
            raise


def _part(asked: tuple[dict[str, str], float, float, dict[str, tuple[float, ...]]]) -> tuple[Any, Any, Any]:
    """Curves at every penalty and rows at every exponent, of one n and one constant."""
    query, n, constant, stops = asked
    problem = read_problem(query | {"n": str(round(n)), "constant": repr(float(constant))})
    found = even_curves(problem, stops["exponent"], stops["ridge"], FULL)
    curves = {
        f"{_key(n)} {_key(constant)} {_key(ridge)}": _short(curve) | {"words": WORDS}
        for ridge, curve in zip(stops["ridge"], found, strict=True)
    }
    rows = {f"{_key(n)} {_key(constant)} {_key(a)}": _short(_row(problem.at(exponent=a))) for a in stops["exponent"]}
    law = next((row["spectrum"].pop("untrained") for row in rows.values() if row["spectrum"]), None)
    for row in rows.values():
        if row["spectrum"]:
            row["spectrum"].pop("untrained", None)
    return curves, rows, {_key(n): law}


def _row(problem: Problem) -> dict[str, Any]:
    """What needs no penalty: the numbers of the formulas, and the spectrum with its spikes."""
    found = here(problem, QUICK)
    if found["spectrum"] and problem.eta > 0 and problem.steps == 1 and problem.law.isotropic:
        spikes = find_outliers(problem, nodes=NODES)
        told = {"leading": spikes.leading, "overlaps": spikes.overlaps, "on_direction": spikes.on_direction}
        found["spectrum"] |= plain(told | {"degrees": spikes.leading_degrees, "edge": spikes.edge})
    return (
        facts(problem)
        | {name: found[name] for name in ("spectrum", "expansion", "no_spectrum", "stable")}
        | {"words": WORDS}
    )


def _key(value: float) -> str:
    """The number as a browser writes it."""
    return (
        str(int(value)) if float(value).is_integer() and abs(value) < 1e21 else re.sub(r"e-0", "e-", repr(float(value)))
    )


def _short(value: Any) -> Any:
    """Five digits are more than a figure shows."""
    if isinstance(value, dict):
        return {key: _short(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_short(v) for v in value]
    return float(f"{value:.5g}") if isinstance(value, float) and math.isfinite(value) else value


# ---------------------------------------------------------------------- one file


def one_file(data: str, note: str = "") -> str:
    """The page with its styles, its modules and `data` inside, and on top a note of what it is."""
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    styles = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in ("style.css", "figures.css"))
    font = base64.b64encode((STATIC / "font" / "math.woff2").read_bytes()).decode()
    styles = styles.replace('url("font/math.woff2")', f'url("data:font/woff2;base64,{font}")')
    modules = {path.name: path.read_text(encoding="utf-8") for path in STATIC.glob("*.js")}
    modules["net.js"] = modules.pop("offline.js")
    del modules["table.js"]  # another page
    theme = modules.pop("theme.js")
    addresses = {f"page/{name}": _module(text) for name, text in modules.items()}
    inside = data.replace("</", "<\\/")
    icon = base64.b64encode((STATIC / "icon.svg").read_bytes()).decode()
    head = (
        f'<meta http-equiv="content-security-policy" content="{POLICY}">\n'
        f'<link rel="icon" href="data:image/svg+xml;base64,{icon}">\n<style>\n{styles}</style>\n<script>\n{theme}</script>\n'
        f'<script type="importmap">{json.dumps({"imports": addresses})}</script>\n'
        f'<script type="application/json" id="precomputed">{inside}</script>\n'
        '<script type="module">import "page/main.js";</script>\n'
    )
    page = re.sub(r"<(link|script)[^>]*/static/[^>]*>(</script>)?\n", "", page)
    page = page.replace(
        '<p class="note" id="preset-note"', f'<p class="note">{note}</p>\n<p class="note" id="preset-note"'
    )
    return page.replace("</head>", head + "</head>").replace("<html ", "<html data-offline ")


def _module(text: str) -> str:
    """A module whose imports go by name, as an address."""
    named = re.sub(r'from "\./(\w+\.js)"', r'from "page/\1"', text)
    return "data:text/javascript;base64," + base64.b64encode(named.encode()).decode()
