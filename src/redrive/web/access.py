"""The door: who calls, whether they may, and how often.

A route is declared as data and cannot be without its permissions; what is not declared does not
exist. The tenant comes with the key and from nowhere else. A right key is let in whatever else came from
its address: 256 bits cannot be guessed, and a neighbour behind the same proxy must not lock others out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, Protocol

from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from redrive.core.limits import Rate
from redrive.core.store import Store
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


class Door(Protocol):
    """What stands before routes: it lets a request in and has it answered, or refuses it."""

    async def open(self, request: Request, route: Route) -> Response: ...


class KeyLookups:
    """Looks keys up in a store; what was found holds for the rest of that round of the event loop.

    Whoever is answered by it had come before the look, so that a key that is revoked is refused at once.
    Known weakness: a store that answers in a later round, as a server does, is asked for each call.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._round = 0
        self._found: dict[str, Credential] = {}

    async def find(self, text: str) -> Credential | None:
        """The credential of a key's text, or None where it is not let in."""
        known = self._found.get(text)
        if known is not None:
            return known
        asyncio.get_running_loop().call_soon(self._end_round)
        asked = self._round
        found = await verify(self._store, text)
        if found is not None and asked == self._round:
            self._found[text] = found
        return found

    def _end_round(self) -> None:
        self._round += 1
        self._found.clear()


class Gate:
    """Lets calls in, by the keys of one store."""

    def __init__(self, store: Store, rates: Rates) -> None:
        self._lookups = KeyLookups(store)
        self._keys = Allowance(rates.a_key)
        self._strangers = Allowance(rates.wrong_keys)

    async def open(self, request: Request, route: Route) -> Response:
        """The answer of a route, or Refusal."""
        return await route.answer(await self.admit(request, route.allowed, unbound=route.unbound))

    async def admit(
        self, request: Request, allowed: frozenset[Permission] | Anyone, *, unbound: bool = False
    ) -> Call:
        """The call, or Refusal: 401, 403 or 429."""
        if isinstance(allowed, Anyone):
            return Call(request)
        header = request.headers.get("authorization")
        if header is None:
            raise _unauthenticated("there is no Authorization header")
        text = header[len(_SCHEME) :].strip() if header[: len(_SCHEME)].lower() == _SCHEME else ""
        credential = await self.identify(request, text)
        self.check(credential, allowed, unbound=unbound)
        return Call(request, credential)

    def check(self, credential: Credential, allowed: frozenset[Permission], *, unbound: bool) -> None:
        """Refusal unless the key may this, now."""
        wait_s = self._keys.take(credential.id)
        if wait_s is not None:
            raise rate_limited("this key has made too many requests", wait_s)
        if not any(map(credential.may, allowed)):
            needed, roles = " or ".join(sorted(allowed)), " or ".join(roles_with(allowed))
            problem = f"a key with role {credential.role} has no permission to {needed}"
            raise Refusal(FORBIDDEN, f"{problem}: use one with role {roles}")
        if unbound and credential.tenant is not None:
            raise Refusal(FORBIDDEN, "this is about all tenants: use a key that belongs to none")

    async def identify(self, request: Request, text: str) -> Credential:
        """The credential of a key's text; Refusal, and soon a pause, where it is wrong."""
        credential = await self._lookups.find(text)
        if credential is not None:
            return credential
        self.count_stranger(request)
        raise _unauthenticated("the key is unknown, wrong, revoked or has ended", ', error="invalid_token"')

    def count_stranger(self, request: Request) -> None:
        """One more wrong key or link; Refusal where too many came from this address."""
        wait_s = self._strangers.take(client_name(request))
        if wait_s is not None:
            raise rate_limited("too many wrong keys came from this address", wait_s)


class GuardedRoute(APIRoute):
    """A route behind a door. FastAPI routes to it and describes it, and reads nothing for it."""

    def __init__(self, route: Route, door: Door) -> None:
        self.allowed = route.allowed
        self.unbound = route.unbound
        self.door = door

        async def endpoint(request: Request) -> Response:
            return await door.open(request, route)

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
    """Too much at once, or too often: come back in `wait_s` seconds."""
    return Refusal(RATE_LIMITED, detail, headers={"Retry-After": str(wait_s)})
