"""One request of someone who is signed in, or is about to be; and what a page route is.

A form's fields are read here, within bounds: an unknown one is not asked for, one that is given twice counts
with its last, or as a list where a page asks for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from redrive.office.access import Permission
from redrive.office.audit import Actor
from redrive.office.office import ActingOffice, Office
from redrive.office.sessions import SignedIn, form_token
from redrive.web.access import Anyone, Call, Route
from redrive.web.admin.route import Parameters
from redrive.web.documents import misfit
from redrive.web.limits import client_name, read_body
from redrive.web.problems import INVALID, FieldError, Refusal

_FIELDS: Final = 20_000
_LARGE: Final = 64 * 1024
FIELD: Final = 2_000
"""How many characters a plain field of a form may have."""


P = TypeVar("P", bound=Parameters)


class Form:
    """What a form sent."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

    def text(self, name: str, default: str = "", *, most: int = FIELD) -> str:
        """A field's last value; Refusal where it has more than `most` characters."""
        return _bounded(name, self.whole(name, default), most)

    def whole(self, name: str, default: str = "") -> str:
        """The same however long it is: for a text that is checked by who takes it."""
        return next((value for known, value in reversed(self._fields) if known == name), default)

    def texts(self, name: str) -> tuple[str, ...]:
        """All of a field's values."""
        return tuple(_bounded(name, value, FIELD) for known, value in self._fields if known == name)

    def number(self, name: str, digits: int = 12) -> int | None:
        """A whole number; None where the field is empty, Refusal where it is something else."""
        text = self.text(name).strip()
        if not text:
            return None
        if not text.isdecimal() or len(text) > digits:
            raise Refusal(INVALID, "nothing was done", [FieldError(name, "is not a whole number")])
        return int(text)

    def unknown_verb(self) -> Refusal:
        """The answer to a button that no page has."""
        return Refusal(INVALID, "nothing was done", [FieldError("verb", "is not one of these")])

    def flag(self, name: str) -> bool:
        """Whether a box is ticked."""
        return self.text(name) != ""


def _bounded(name: str, text: str, most: int) -> str:
    if len(text) > most:
        error = FieldError(name, f"has more than {most:,} characters")
        raise Refusal(INVALID, "nothing was done: see errors", [error])
    return text


async def read_form(request: Request, most: int) -> Form:
    """The form of a request; Refusal when it is something else, or too large."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Refusal(INVALID, "the body is not a form of these pages")
    body = await read_body(request, most)
    try:
        return Form(await asyncio.to_thread(_fields, body) if len(body) > _LARGE else _fields(body))
    except ValueError:
        raise Refusal(INVALID, "the form cannot be read") from None


def _fields(body: bytes) -> list[tuple[str, str]]:
    text = body.decode("ascii")
    return parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS, errors="strict")


@dataclass(frozen=True, slots=True)
class Visit(Call):
    """One request. `token` is the session's, empty for who is not signed in."""

    office: Office | None = None
    session: SignedIn | None = None
    token: str = ""
    form: Form = field(default_factory=lambda: Form([]))

    @property
    def acting(self) -> ActingOffice:
        """The office's verbs within what the visitor may see."""
        return self.acting_from(self.credential.name or self.credential.role)

    def acting_from(self, name: str) -> ActingOffice:
        key, office = self.credential, self.office
        if office is None:
            raise TypeError("a visit has an office")
        actor = Actor(f"{name}#{key.id}", f"dashboard {client_name(self.request)}")
        return office.acting(actor, key.tenant, reveals=key.may(Permission.REVEAL))

    @property
    def form_token(self) -> str:
        """What each form of this visitor carries."""
        return form_token(self.token) if self.token else ""

    @property
    def now(self) -> int:
        """The store's clock."""
        return 0 if self.office is None else self.office.store.now()

    @property
    def query(self) -> QueryParams:
        return self.request.query_params

    def named(self, name: str) -> str:
        """A part of the address."""
        return str(self.request.path_params[name])

    def may(self, permission: str) -> bool:
        """Whether to show what needs this permission."""
        return self.known is not None and self.known.may(Permission(permission))

    @property
    def places(self) -> list[list[tuple[str, str]]]:
        """The navigation as far as it is for this visitor."""
        groups = [
            [
                (one.name, one.path)
                for one in group
                if self.may(one.permission) and (self.unbound or not one.unbound)
            ]
            for group in PLACES
        ]
        return [group for group in groups if group]

    @property
    def unbound(self) -> bool:
        """Whether all tenants are this visitor's to see."""
        return self.known is not None and self.known.tenant is None


@dataclass(frozen=True, slots=True)
class NavigationPlace:
    """A page of the navigation, and who finds it there."""

    name: str
    path: str
    permission: Permission = Permission.READ
    unbound: bool = False


PLACES: Final = (
    (
        NavigationPlace("overview", "/"),
        NavigationPlace("letters", "/letters"),
        NavigationPlace("operations", "/operations"),
        NavigationPlace("messages", "/messages"),
        NavigationPlace("queues", "/queues"),
        NavigationPlace("tenants", "/tenants"),
        NavigationPlace("mail", "/mail"),
        NavigationPlace("alerts", "/alerts"),
    ),
    (
        NavigationPlace("audit", "/audit", Permission.ADMINISTER, unbound=True),
        NavigationPlace("sql", "/sql", Permission.ADMINISTER, unbound=True),
        NavigationPlace("keys", "/keys", Permission.ADMINISTER, unbound=True),
    ),
)
"""The navigation: the daily ones, then those of admins."""


PageAnswer = Callable[[Visit], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRoute:
    """One page, or what a form of one does. `allowed`: the visitor's key needs one of these."""

    path: str
    answer: PageAnswer
    allowed: frozenset[Permission] | Anyone
    method: str = "GET"
    unbound: bool = False

    def route(self) -> Route:
        """As the server knows it."""

        async def answer(call: Call) -> Response:
            if not isinstance(call, Visit):
                raise TypeError("pages stand behind their own door")
            return await self.answer(call)

        return Route(
            method=self.method,
            path=self.path,
            name=f"{self.method} {self.path}",
            summary="",
            allowed=self.allowed,
            answer=answer,
            described={},
            shown=False,
            unbound=self.unbound,
        )


def asked_of(visit: Visit, kind: type[P]) -> P:
    """The parameters of a page; an empty one is as if it were not given, and an unknown one is ignored."""
    known = {one.encode_name for one in msgspec.structs.fields(kind)}
    given = {name: text for name, text in visit.query.items() if name in known and text != ""}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal(INVALID, "the address cannot be used: see errors", [misfit(error, kind)]) from None
