"""What surrounds every answer: the headers that keep it safe, and a problem where a route raised.

Nothing may be cached, framed, sniffed or run; there is no CORS header anywhere, so no page of another
origin reads an answer. This is the only layer between the server and the routes: each more costs every
request.
"""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from redrive.web.problems import answer_to

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = [
    (b"cache-control", b"no-store"),
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
]


class Middleware:
    """The one middleware."""

    def __init__(self, routes: ASGIApp) -> None:
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def send_safely(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] += _HEADERS
            await send(message)

        try:
            await self._routes(scope, receive, send_safely)
        except Exception as error:
            if begun:
                raise
            await answer_to(error)(scope, receive, send_safely)
