"""The routes of a table's page, /table, where the explorer was started with one; parts of panels for either page."""

from __future__ import annotations

from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from onestride._errors import InputError
from onestride.problem import Problem
from onestride.web.own import about_table, copies, read_own, write_own
from onestride.web.panels import options_of
from onestride.web.query import once

PAGE = Path(__file__).parent / "static" / "table.html"


def own_routes() -> list[Route]:
    """Of the page and its answers."""
    return [
        Route("/table", page),
        Route("/api/table", about),
        Route("/api/table/problem", problem),
        Route("/api/table/here", drawn),
        Route("/api/table/panel/{part}", panel),
    ]


async def page(request: Request) -> Response:
    """The page; with a bad address it says so, and so does the status."""
    try:
        _asked(request)
        status = 200
    except InputError:
        status = 400
    return FileResponse(PAGE, status)


async def about(request: Request) -> Response:
    """What the page needs to build itself."""
    return JSONResponse(about_table(_table(request)))


async def problem(request: Request) -> Response:
    """The problem of an address, and the same as a command."""
    asked = _asked(request)
    return JSONResponse({"query": write_own(asked), "copies": copies(asked)})


async def drawn(request: Request) -> Response:
    """What is drawn of it."""
    return await part_of_panel(request, "here", _asked(request), {})


async def panel(request: Request) -> Response:
    """One part of a panel."""
    part = request.path_params["part"]
    options = options_of(part, request.query_params)
    return await part_of_panel(request, part, _asked(request, *options), options)


async def part_of_panel(request: Request, part: str, asked: Problem, options: dict[str, str]) -> Response:
    """Wait for a turn, unless the page has moved on meanwhile, and compute it."""
    panels = request.app.state.panels
    async with panels.turn:
        if await request.is_disconnected():
            raise HTTPException(499, "nobody waits for this answer any more")
        return Response(await panels.ask(part, asked, options), media_type="application/json")


def _table(request: Request) -> Problem:
    table = request.app.state.table
    if table is None:
        raise HTTPException(404, "there is nothing at this address")
    return table


def _asked(request: Request, *others: str) -> Problem:
    """The problem of the address; a parameter given twice is a mistake."""
    base, asked = _table(request), once(request.query_params.multi_items())
    return read_own(base, {name: value for name, value in asked.items() if name not in others})
