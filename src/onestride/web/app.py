"""The routes of the explorer: a page, its theory, its simulations, its files. Every mistake is answered by a sentence."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from concurrent.futures import BrokenExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from onestride import __version__
from onestride._errors import InputError
from onestride.functions import function_names
from onestride.problem import Problem
from onestride.store import StoreError
from onestride.theory.quick import QUALITIES
from onestride.web.axes import AXES, check_axis
from onestride.web.background import BusyError, Simulations
from onestride.web.browse import browse
from onestride.web.figures import write_figure
from onestride.web.guard import LARGEST_BODY, Guard
from onestride.web.own_routes import own_routes, part_of_panel
from onestride.web.panels import Panels, options_of
from onestride.web.presets import PRESETS
from onestride.web.query import DEFAULTS, copies, once, read_problem, write_query
from onestride.web.simulation import check_seeds
from onestride.web.workers import Workers

STATIC = Path(__file__).parent / "static"
PATIENCE = 30.0  # seconds that the rest of a request may take to come


def create_app(store: Path, *, host: str = "127.0.0.1", table: Problem | None = None) -> Starlette:
    """The application; simulations go to, and are read from, the folder `store` only. `table`: a problem made by from_data."""
    guard = Middleware(Guard, bound=host)
    refusals: Any = dict.fromkeys((HTTPException, ValueError, OSError, BusyError, BrokenExecutor), _refuse)
    app = Starlette(routes=_routes(), middleware=[guard], exception_handlers=refusals, lifespan=_lifespan)
    app.state.workers, app.state.simulations = Workers(), Simulations(store)
    app.state.panels, app.state.table = Panels(app.state.workers), table
    return app


def _routes() -> list[Route | Mount]:
    return [
        Route("/", page),
        Route("/api/about", about),
        Route("/api/problem", problem),
        Route("/api/curves", partial(theory, "curves")),
        Route("/api/here", partial(theory, "here")),
        Route("/api/map", partial(theory, "map")),
        Route("/api/why", partial(theory, "why")),
        Route("/api/panel/{part}", panel),
        *own_routes(),
        Route("/api/points", points),
        Route("/api/store", rows),
        Route("/api/simulation", state),
        Route("/api/simulation/start", start, methods=["POST"]),
        Route("/api/simulation/cancel", cancel, methods=["POST"]),
        Route("/download/figure.pdf", partial(download, "pdf", "application/pdf")),
        Route("/download/figure.csv", partial(download, "csv", "text/csv")),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    for pool in ("quick", "beside"):
        app.state.workers.warm(pool)
    yield
    app.state.simulations.cancel()
    app.state.workers.close()


def _workers(request: Request) -> Workers:
    return request.app.state.workers


def _simulations(request: Request) -> Simulations:
    return request.app.state.simulations


# ---------------------------------------------------------------------- the page and its theory


async def page(request: Request) -> Response:
    """The page itself; with a bad address it says so, and so does the status."""
    _workers(request).warm("full")
    try:
        _problem(request)
        status = 200
    except InputError:
        status = 400
    return FileResponse(STATIC / "index.html", status)


async def about(_: Request) -> Response:
    """What the page needs to build itself."""
    told = {"version": __version__, "defaults": DEFAULTS, "functions": list(function_names())}
    told |= {"axes": {name: asdict(axis) for name, axis in AXES.items()}}
    return JSONResponse(told | {"presets": [asdict(preset) for preset in PRESETS]})


async def problem(request: Request) -> Response:
    """The problem of an address, and the same in other words."""
    asked = _problem(request)
    return JSONResponse({"query": write_query(asked), "copies": copies(asked), "d": asked.d, "N": asked.N})


async def theory(task: str, request: Request) -> Response:
    """The curves against α or another axis, or everything at the chosen α; slow questions wait for their turn."""
    quality = request.query_params.get("quality", "full")
    if quality not in QUALITIES:
        raise InputError(f"quality must be one of {', '.join(QUALITIES)}, got {quality[:40]!r}")
    axis = check_axis(request.query_params.get("axis", "exponent")) if task == "curves" else "exponent"
    asked, workers = _problem(request, "quality", "axis"), _workers(request)
    answer = asyncio.ensure_future(workers.theory(task, asked, quality, axis))
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({answer, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():  # the page has moved on
            raise HTTPException(499, "nobody waits for this answer any more")
        return Response(answer.result(), media_type="application/json")
    finally:
        leaving.cancel()
        answer.cancel()


async def _left(request: Request) -> None:
    """Wait until whoever asked has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def panel(request: Request) -> Response:
    """One part of a panel for the problem of the address."""
    part = request.path_params["part"]
    options = options_of(part, request.query_params)
    return await part_of_panel(request, part, _problem(request, *options), options)


async def download(kind: str, media: str, request: Request) -> Response:
    """What the page shows, as a file."""
    asked, workers = _problem(request), _workers(request)
    answers = [await workers.theory(task, asked, "full") for task in ("curves", "here")]
    measured = _simulations(request).points(asked)
    data = await workers.run("full", write_figure, asked.step.exponent, *answers, measured, kind)
    headers = {"content-disposition": f'attachment; filename="onestride.{kind}"'}
    return Response(data, media_type=media, headers=headers)


# ---------------------------------------------------------------------- simulations


async def points(request: Request) -> Response:
    """What was measured for the problem of the address."""
    return JSONResponse(_simulations(request).points(_problem(request)))


async def rows(request: Request) -> Response:
    """The store as rows."""
    simulations = _simulations(request)
    simulations.refresh()
    return JSONResponse(browse(simulations.store, simulations.path.name))


async def state(request: Request) -> Response:
    """The job that runs or ran, and what is finished."""
    return JSONResponse(_simulations(request).state())


async def start(request: Request) -> Response:
    """Begin a simulation."""
    data = await _body(request)
    query, seeds = data.get("query", {}), check_seeds(data.get("seeds", 8))
    if not isinstance(query, dict) or not all(isinstance(v, str) for v in query.values()):
        raise InputError("query must be a table of strings, as in the address of the page")
    return JSONResponse(_simulations(request).start(read_problem(query), seeds).to_dict())


async def cancel(request: Request) -> Response:
    """End the running simulation."""
    await _body(request)
    _simulations(request).cancel()
    return await state(request)


# ---------------------------------------------------------------------- what is asked, and refusals


def _problem(request: Request, *others: str) -> Problem:
    """The problem of the address; a parameter given twice is a mistake."""
    return read_problem(once(pair for pair in request.query_params.multi_items() if pair[0] not in others))


async def _body(request: Request) -> dict[str, Any]:
    """A JSON object, read up to a limit."""
    if request.headers.get("content-type", "").split(";")[0] != "application/json":
        raise InputError("the body must be JSON (content-type: application/json)")
    data = b""
    async with asyncio.timeout(PATIENCE):
        async for chunk in request.stream():
            data += chunk
            if len(data) > LARGEST_BODY:
                raise InputError(f"the body must be at most {LARGEST_BODY} bytes")
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError):
        raise InputError("the body is not valid JSON") from None
    if not isinstance(parsed, dict):
        raise InputError("the body must be a JSON object")
    return parsed


async def _refuse(request: Request, error: Exception) -> Response:
    """Status and sentence of every failure that is not a bug."""
    status, words = 400, str(error)  # InputError and TheoryError
    match error:
        case HTTPException():
            known = {404: "there is nothing at this address", 405: f"{request.method} is not possible at this address"}
            status, words = error.status_code, known.get(error.status_code, error.detail)
        case StoreError() | BusyError():
            status = 409
        case TimeoutError():
            status, words = 408, f"the rest of the request did not come within {PATIENCE:g} s"
        case OSError():
            status, words = 409, f"the store cannot be used: {error.strerror or error}"
        case BrokenExecutor():
            status, words = 503, "the process that computed this was ended by the system (out of memory?); ask again"
    return JSONResponse({"error": words}, status)
