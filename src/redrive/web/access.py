"""The door: who calls, whether they may, and how often.

A route is declared as data and cannot be without its permissions; what is not declared does not
exist. The tenant comes with the key and from nowhere else. A right key is let in whatever else came from
its address: 256 bits cannot be guessed, and a neighbour behind the same proxy must not lock others out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from redrive.core.limits import Rate
from redrive.core.ports import Store
from redrive.office.access import Credential, Permission, roles_with, verify
from redrive.web.limits import Allowance, client_name
from redrive.web.problems import FORBIDDEN, METHOD_NOT_ALLOWED, RATE_LIMITED, UNAUTHENTICATED, Refusal

_SCHEME = "bearer "


class Anyone(Enum):
    """The mark of a route that needs no key."""

    ANYONE = "anyone"


PUBLIC = Anyone.ANYONE


@dataclass(frozen=True, slots=True)
class Call:
    """One request that was let in."""

    request: Request
    known: Credential | None = None

    @property
    def credential(self) -> Credential:
        """Who calls; a Refusal on a public route, which knows nobody."""
        if self.known is None:
            raise _unauthenticated("this route knows no key")
        return self.known

    @property
    def tenant(self) -> str:
        """The tenant that the key belongs to."""
        tenant = self.credential.tenant
        if tenant is None:
            raise Refusal(FORBIDDEN, "this key belongs to no tenant: use a submit key of one")
        return tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One route. `allowed`: a key needs one of these permissions. `described`: its part of the OpenAPI.

    `unbound`: it is about all tenants, so a key that is bound to one is refused.
    """

    method: str
    path: str
    name: str
    summary: str
    allowed: frozenset[Permission] | Anyone
    answer: Callable[[Call], Awaitable[Response]]
    described: Mapping[str, Any]
    status: int = 200
    shown: bool = True
    unbound: bool = False


@dataclass(frozen=True, slots=True)
class Rates:
    """How often a key may call, and how often an address may come with a wrong one."""

    a_key: Rate = field(default_factory=partial(Rate, 6_000, 60.0))
    wrong_keys: Rate = field(default_factory=partial(Rate, 30, 60.0))


class Gate:
    """Lets calls in, by the keys of one store."""

    def __init__(self, store: Store, rates: Rates) -> None:
        self._store = store
        self._keys = Allowance(rates.a_key)
        self._strangers = Allowance(rates.wrong_keys)

    async def admit(
        self, request: Request, allowed: frozenset[Permission] | Anyone, *, unbound: bool = False
    ) -> Call:
        """The call, or Refusal: 401, 403 or 429."""
        if isinstance(allowed, Anyone):
            return Call(request)
        credential = await self._identify(request)
        wait_s = self._keys.take(credential.id)
        if wait_s is not None:
            raise rate_limited("this key has made too many requests", wait_s)
        if not any(map(credential.may, allowed)):
            needed = " or ".join(sorted(allowed))
            raise Refusal(FORBIDDEN, f"a key with role {credential.role} has no permission to {needed}")
        if unbound and credential.tenant is not None:
            raise Refusal(FORBIDDEN, "this is about all tenants: use a key that belongs to none")
        return Call(request, credential)

    async def _identify(self, request: Request) -> Credential:
        header = request.headers.get("authorization")
        if header is None:
            raise _unauthenticated("there is no Authorization header")
        text = header[len(_SCHEME) :].strip() if header[: len(_SCHEME)].lower() == _SCHEME else ""
        credential = await verify(self._store, text)
        if credential is not None:
            return credential
        wait_s = self._strangers.take(client_name(request))
        if wait_s is not None:
            raise rate_limited("too many wrong keys came from this address", wait_s)
        raise _unauthenticated("the key is unknown, wrong, revoked or has ended", ', error="invalid_token"')


class GuardedRoute(APIRoute):
    """A route behind the gate. FastAPI routes to it and describes it, and reads nothing for it."""

    def __init__(self, route: Route, gate: Gate) -> None:
        self.allowed = route.allowed
        self.unbound = route.unbound

        async def endpoint(request: Request) -> Response:
            call = await gate.admit(request, route.allowed, unbound=route.unbound)
            return await route.answer(call)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            response = await endpoint(Request(scope, receive))
            await response(scope, receive, send)

        self.address_methods: set[str] = {route.method}
        super().__init__(
            route.path,
            endpoint,
            methods=[route.method],
            status_code=route.status,
            name=route.name,
            operation_id=route.name,
            summary=route.summary,
            response_model=None,
            openapi_extra={**route.described, **_who(route)},
            include_in_schema=route.shown,
        )
        self.app = app

    @property
    def answered_methods(self) -> set[str]:
        """The methods, and HEAD where there is GET: the server leaves the body out."""
        methods = self.methods or set()
        return methods | {"HEAD"} if "GET" in methods else methods

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] == "http" and scope["method"] == "HEAD" and "HEAD" in self.answered_methods:
            return super().matches({**scope, "method": "GET"})
        return super().matches(scope)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or say which methods the address has, also by other routes."""
        if scope["method"] not in self.answered_methods:
            raise HTTPException(
                METHOD_NOT_ALLOWED.status, headers={"Allow": ", ".join(sorted(self.address_methods))}
            )
        await self.app(scope, receive, send)


def _who(route: Route) -> dict[str, Any]:
    """Who may call, for the description."""
    if isinstance(route.allowed, Anyone):
        return {}
    return {"x-roles": [role.value for role in roles_with(route.allowed)], "x-unbound": route.unbound}


def _unauthenticated(detail: str, more: str = "") -> Refusal:
    headers = {"WWW-Authenticate": f'Bearer realm="redrive"{more}'}
    return Refusal(UNAUTHENTICATED, detail, headers=headers)


def rate_limited(detail: str, wait_s: int) -> Refusal:
    """Too much at once, or too often: come back in so many seconds."""
    return Refusal(RATE_LIMITED, detail, headers={"Retry-After": str(wait_s)})
