"""Puts the routes together: all behind one gate, one OpenAPI document, one set of safe headers.

The app has to be open, and stays so for as long as the API is served. Without a mail desk there are no routes
for mails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from redrive.app import Redrive
from redrive.mail.desk import Desk
from redrive.version import __version__
from redrive.web import emails, health, messages
from redrive.web.access import Door, Gate, GuardedRoute, Rates, Route
from redrive.web.admin import routes as admin
from redrive.web.description import SECURITY
from redrive.web.docs_page import DocsPage
from redrive.web.emails import Emails
from redrive.web.health import HealthRoutes
from redrive.web.messages import MessageRoutes
from redrive.web.metrics import MetricsRoute
from redrive.web.pages.door import PageDoor
from redrive.web.pages.live import LivePages
from redrive.web.pages.routes import page_routes
from redrive.web.problems import ProblemDocument, answer_to

if TYPE_CHECKING:
    from redrive.telemetry.traces import Traces

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
                given = {name for name, _ in message["headers"]}
                message["headers"] += [header for header in _HEADERS if header[0] not in given]
            await send(message)

        try:
            await self._routes(scope, receive, send_safely)
        except Exception as error:
            if begun:
                raise
            await answer_to(error)(scope, receive, send_safely)


_ABOUT = (
    "Submit mails and messages that are never lost: 202 means durably stored. Find dead letters and bring "
    "them back. Errors are problems (RFC 9457) and say what to do. Names are camelCase, times ISO 8601 "
    "with Z."
)
_SCHEMAS = (*emails.SCHEMAS, *messages.SCHEMAS, *health.SCHEMAS, *admin.SCHEMAS, ProblemDocument)


class Api(FastAPI):
    """FastAPI's routes and description, behind one layer of ours in place of its own five."""

    def __init__(self, traces: Traces | None = None) -> None:
        super().__init__(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
        self._middleware = Middleware(self.router)
        self._traces = traces
        self.live: LivePages | None = None

    def close(self) -> None:
        """End what would otherwise go on: streams of pages."""
        if self.live is not None:
            self.live.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self
        if self._traces is None:
            await self._middleware(scope, receive, send)
            return
        with self._traces.receiving(scope.get("headers", ())):
            await self._middleware(scope, receive, send)


def make_api(
    app: Redrive,
    mail: Desk | None,
    *,
    ready: Callable[[], bool] = lambda: True,
    rates: Rates = Rates(),  # noqa: B008 - immutable
    proxied: bool = False,
) -> Api:
    """The API of an open app; `ready` is whether this process's worker, if any, reaches the store.

    `proxied`: all requests come through proxies that were named.
    """
    api = Api(app.telemetry.traces)
    gate = Gate(app.store, rates)
    _add(api, gate, Emails(mail, app.office).routes() if mail is not None else [])
    _add(api, gate, MessageRoutes(app).routes())
    _add(api, gate, admin.admin_routes(app))
    _add(api, gate, HealthRoutes(app.store, app.office, ready).routes())
    _add(api, gate, MetricsRoute(app.store).routes())
    _add(api, gate, DocsPage(_describe(api)).routes())
    door = PageDoor(app, gate)
    api.live = LivePages()
    _add(api, door, page_routes(app, door, api.live, proxied=proxied))
    _share_methods([route for route in api.routes if isinstance(route, GuardedRoute)])
    api.router.default = _nowhere(door, api.router.default)
    return api


def _nowhere(door: PageDoor, otherwise: ASGIApp) -> ASGIApp:
    """An address that nothing has: a page for someone's browser, a problem for a program."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive) if scope["type"] == "http" else None
        if request is None or request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
            await otherwise(scope, receive, send)
        else:
            await (await door.lost(request))(scope, receive, send)

    return answer


def _add(api: FastAPI, door: Door, routes: Sequence[Route]) -> None:
    api.router.routes += [GuardedRoute(route, door) for route in routes]


def _share_methods(routes: Sequence[GuardedRoute]) -> None:
    """Let the routes of one address know one another's methods; HEAD is where GET is."""
    methods: dict[str, set[str]] = {}
    for route in routes:
        route.address_methods = methods.setdefault(route.path, set())
        route.address_methods |= route.answered_methods


def _describe(api: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title="Redrive", version=__version__, openapi_version="3.1.0", description=_ABOUT, routes=api.routes
    )
    _, schemas = msgspec.json.schema_components(_SCHEMAS, ref_template="#/components/schemas/{name}")
    return document | {"components": {"schemas": schemas, "securitySchemes": SECURITY}}
