"""The routes of the explorer: a page, its theory, its simulations, its files. Every mistake is answered by a sentence."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import BrokenExecutor
from contextlib import asynccontextmanager
from functools import wraps
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
from onestride.web.browse import browse
from onestride.web.figures import write_figure
from onestride.web.guard import LARGEST_BODY, Guard
from onestride.web.presets import PRESETS
from onestride.web.query import DEFAULTS, as_command, as_python, as_toml, read_problem, write_query
from onestride.web.simulation import BusyError, Simulations, check_seeds
from onestride.web.workers import Workers

STATIC = Path(__file__).parent / "static"
PATIENCE = 30.0  # seconds that the rest of a request may take to come
Handler = Callable[[Request], Awaitable[Response]]


def create_app(store: Path, *, host: str = "127.0.0.1") -> Starlette:
    """The application; simulations go to, and are read from, the folder `store` only."""
    workers = Workers()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        workers.warm("quick")
        yield
        simulations().cancel()
        workers.close()

    def simulations() -> Simulations:
        return app.state.simulations

    async def page(request: Request) -> Response:
        """The page itself; with a bad address it says so, and so does the status."""
        workers.warm("full")
        try:
            _problem(request)
            status = 200
        except InputError:
            status = 400
        return FileResponse(STATIC / "index.html", status)

    async def about(_: Request) -> Response:
        """What the page needs to build itself."""
        presets = [preset.to_dict() for preset in PRESETS]
        return JSONResponse(
            {"version": __version__, "defaults": DEFAULTS, "functions": list(function_names()), "presets": presets}
        )

    async def problem(request: Request) -> Response:
        """The problem of an address, and the same in other words."""
        asked = _problem(request)
        words = {"python": as_python(asked), "toml": as_toml(asked), "command": as_command(asked)}
        return JSONResponse({"query": write_query(asked), "copies": words, "d": asked.d, "N": asked.N})

    def theory(task: str) -> Handler:
        async def respond(request: Request) -> Response:
            quality = request.query_params.get("quality", "full")
            if quality not in QUALITIES:
                raise InputError(f"quality must be one of {', '.join(QUALITIES)}, got {quality[:40]!r}")
            asked = _problem(request, "quality")
            if quality == "quick":
                return Response(await workers.theory(task, asked, quality), media_type="application/json")
            async with workers.turn:
                if await request.is_disconnected():  # the page has moved on while this waited
                    return _sentence("nobody waits for this answer any more", 499)
                return Response(await workers.theory(task, asked, quality), media_type="application/json")

        return respond

    async def points(request: Request) -> Response:
        return JSONResponse(simulations().points(_problem(request)))

    async def state(_: Request) -> Response:
        return JSONResponse(simulations().state())

    async def start(request: Request) -> Response:
        data = await _body(request)
        query, seeds = data.get("query", {}), check_seeds(data.get("seeds", 8))
        if not isinstance(query, dict) or not all(isinstance(v, str) for v in query.values()):
            raise InputError("query must be a table of strings, as in the address of the page")
        try:
            job = simulations().start(_checked(read_problem(query)), seeds)
        except BusyError as error:
            return _sentence(str(error), 409)
        return JSONResponse(job.to_dict())

    async def cancel(request: Request) -> Response:
        await _body(request)
        simulations().cancel()
        return JSONResponse(simulations().state())

    async def rows(_: Request) -> Response:
        simulations().refresh()
        return JSONResponse(browse(simulations().store, simulations().path.name))

    def download(kind: str, media: str) -> Handler:
        async def respond(request: Request) -> Response:
            asked = _problem(request)
            async with workers.turn:
                answers = [await workers.theory(task, asked, "full") for task in ("curves", "here")]
            measured = simulations().points(asked)
            data = await workers.run("full", write_figure, asked.step.exponent, *answers, measured, kind)
            headers = {"content-disposition": f'attachment; filename="onestride.{kind}"'}
            return Response(data, media_type=media, headers=headers)

        return respond

    app = Starlette(
        routes=[
            Route("/", page),
            Route("/api/about", _told(about)),
            Route("/api/problem", _told(problem)),
            Route("/api/curves", _told(theory("curves"))),
            Route("/api/here", _told(theory("here"))),
            Route("/api/points", _told(points)),
            Route("/api/store", _told(rows)),
            Route("/api/simulation", _told(state)),
            Route("/api/simulation/start", _told(start), methods=["POST"]),
            Route("/api/simulation/cancel", _told(cancel), methods=["POST"]),
            Route("/download/figure.pdf", _told(download("pdf", "application/pdf"))),
            Route("/download/figure.csv", _told(download("csv", "text/csv"))),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(Guard, bound=host)],
        exception_handlers={HTTPException: _http_error},
        lifespan=lifespan,
    )
    app.state.simulations = Simulations(store)
    return app


def _told(handler: Handler) -> Handler:
    """Turn wrong input into a 400, a broken store into a 409 and a lost worker into a 503, each with its sentence."""

    @wraps(handler)
    async def respond(request: Request) -> Response:
        try:
            return await handler(request)
        except StoreError as error:
            return _sentence(str(error), 409)
        except TimeoutError:
            return _sentence(f"the rest of the request did not come within {PATIENCE:g} s", 408)
        except OSError as error:
            return _sentence(f"the store cannot be used: {error.strerror or error}", 409)
        except BrokenExecutor:
            words = "the process that computed this was ended by the system (out of memory?); ask again"
            return _sentence(words, 503)
        except ValueError as error:  # InputError and TheoryError
            return _sentence(str(error), 400)

    return respond


def _sentence(words: str, status: int) -> Response:
    return JSONResponse({"error": words}, status)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    known = {404: "there is nothing at this address", 405: f"{request.method} is not possible at this address"}
    return _sentence(known.get(error.status_code, error.detail), error.status_code)


def _problem(request: Request, *others: str) -> Problem:
    """The problem of the address; a parameter given twice is a mistake."""
    pairs = [(name, value) for name, value in request.query_params.multi_items() if name not in others]
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{twice[:40]!r} is given more than once in the address")
    return _checked(read_problem(dict(pairs)))


def _checked(problem: Problem) -> Problem:
    """`problem`, if its step is a number."""
    _ = problem.eta
    return problem


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
