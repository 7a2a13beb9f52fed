"""Who may talk to the server: this page, from this machine, and nobody else.

A page on the internet can make a browser send requests to 127.0.0.1, and by changing its DNS entry even read the answers.
Such requests carry the foreign name in `Host` or `Origin`, or say `Sec-Fetch-Site: cross-site`; they are refused.
"""

from __future__ import annotations

import ipaddress
import socket

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LONGEST_ADDRESS = 8000
LARGEST_BODY = 64 * 1024
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


def is_own_host(host: str, bound: str) -> bool:
    """Whether a `Host` header names this server: loopback, the address it was bound to, or, when it listens on every
    address, any literal IP address or the machine's own name (a foreign DNS name is neither).
    """
    name = _host_name(host)
    if name in ("localhost", "127.0.0.1", "::1") or name == bound.lower():
        return True
    if bound not in ("0.0.0.0", "::"):
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name in (socket.gethostname().lower(), socket.getfqdn().lower())
    return True


def _host_name(host: str) -> str:
    """The name in `name:port`, `[::1]:port` or `name`."""
    host = host.strip().lower()
    return host[1:].split("]")[0] if host.startswith("[") else host.rsplit(":", 1)[0] if ":" in host else host


class Guard:
    """Middleware: refuses foreign and oversized requests, and puts the security headers on every answer."""

    def __init__(self, app: ASGIApp, bound: str) -> None:
        self.app = app
        self.bound = bound

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request and pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *((k.encode(), v.encode()) for k, v in HEADERS.items())]
            await send(message)

        refusal = self.refusal(scope)
        if refusal is None:
            await self.app(scope, receive, with_headers)
        else:
            status, sentence = refusal
            await JSONResponse({"error": sentence}, status)(scope, receive, with_headers)

    def refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Why this request is refused, if it is."""
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if not is_own_host(host, self.bound):
            return 403, "the explorer answers only to the address it was started on; open that address in the browser"
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return 403, "requests from other origins are refused"
        site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode", "")
        opened = scope["method"] == "GET" and scope["path"] == "/" and mode == "navigate"  # a link to the page is fine
        if site in ("cross-site", "same-site") and not opened:
            return 403, "requests from other origins are refused"
        if "\0" in scope["path"]:
            return 404, "no page has a null byte in its name"
        if len(scope["query_string"]) + len(scope.get("raw_path") or b"") > LONGEST_ADDRESS:
            return 414, f"the address must be at most {LONGEST_ADDRESS} characters long"
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            return 413, f"a request may carry at most {LARGEST_BODY} bytes"
        return None
