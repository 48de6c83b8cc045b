"""What every admin route has: how it is declared and described, its parameters, versions, and the office's
verbs for whoever calls.

A parameter that is unknown, given twice or does not fit is refused: a mistyped `limt` never means "all". The
actor of the audit is the key, the scope is its tenant, and its role says whether it may reveal. ETags (RFC
9110, strong only) say which version of a thing someone read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from starlette.responses import Response

from redrive.core.ports import PAGE
from redrive.office.access import Permission
from redrive.office.audit import Actor
from redrive.office.office import ActingOffice, Office
from redrive.web import description
from redrive.web.access import Call, Route
from redrive.web.description import Described, reference
from redrive.web.documents import misfit
from redrive.web.limits import client_name
from redrive.web.problems import (
    BAD_JSON,
    CHANGED,
    INVALID,
    NO_IF_MATCH,
    NOT_FOUND,
    NOT_JSON,
    TOO_LARGE,
    FieldError,
    ProblemType,
    Refusal,
)

Answer = Callable[[Call], Awaitable[Response]]

READ: Final = frozenset({Permission.READ})
OPERATE: Final = frozenset({Permission.OPERATE})
ADMINISTER: Final = frozenset({Permission.ADMINISTER})

NAME: Final[Described] = {"type": "string", "minLength": 1}
_REPEATABLE: Final = description.repeatable(
    "A repeat of the same request under the same key, within 24 hours, is answered with the first operation."
)
_WITH_BODY = (BAD_JSON, TOO_LARGE, NOT_JSON)

Flag = Literal["true", "false"]
Limit = Annotated[int, msgspec.Meta(ge=1, le=PAGE, description=f"How many at most, 1 to {PAGE}.")]
FilterText = Annotated[str, msgspec.Meta(max_length=2_000, description="Which letters; empty: all.")]
Cursor = Annotated[str, msgspec.Meta(max_length=500, description="The `cursor` of the page before.")]
Reveal = Annotated[
    Flag, msgspec.Meta(description="Without masks; needs the permission to reveal, and is in the audit.")
]
DryRun = Annotated[Flag, msgspec.Meta(description="Only say what would be taken: nothing is started.")]


class Parameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The parameters of a route, each of which stands there once."""


T = TypeVar("T", bound=Parameters)


class NoParameters(Parameters, frozen=True):
    """A route without parameters."""


def asked(call: Call, kind: type[T]) -> T:
    """The parameters of a call, or Refusal."""
    given = call.request.query_params.multi_items()
    twice = {name for name, _ in given if [one for one, _ in given].count(name) > 1}
    if twice:
        errors = [FieldError(name[:80], "is given more than once") for name in sorted(twice)]
        raise Refusal(INVALID, "the address cannot be used: see errors", errors)
    try:
        return msgspec.convert(dict(given), kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal(INVALID, "the address cannot be used: see errors", [misfit(error, kind)]) from None


def parameters(kind: type[Parameters]) -> list[dict[str, Any]]:
    """The same for the OpenAPI document."""
    _, components = msgspec.json.schema_components([kind])
    schema = components[kind.__name__]
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": inner}
        for name, inner in schema.get("properties", {}).items()
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminRoute:
    """One route of a room, as data; `document` is what it answers with, `started` where it answers 202."""

    method: str
    path: str
    name: str
    summary: str
    allowed: frozenset[Permission]
    document: str
    query: type[Parameters] = NoParameters
    body: str | None = None
    started: bool = False
    dry_run: str | None = None
    problems: tuple[ProblemType, ...] = ()
    parameters: tuple[Described, ...] = ()
    tagged: bool = False
    download: tuple[str, ...] = ()
    unbound: bool = False

    def to(self, answer: Answer) -> Route:
        """The route with what answers it."""
        return Route(
            method=self.method,
            path=f"/admin/dlq{self.path}",
            name=self.name,
            summary=self.summary,
            allowed=self.allowed,
            answer=answer,
            described=self._described(),
            status=202 if self.started else 200,
            unbound=self.unbound,
        )

    def _described(self) -> Described:
        headers = [*self.parameters, *([_REPEATABLE] if self.started else [])]
        described: Described = {
            "parameters": [*self._path_parameters(), *parameters(self.query), *headers],
            "responses": self._answers() | description.problems(self._problems()),
            "security": [{"key": []}],
        }
        if self.body is not None:
            content = {"application/json": {"schema": reference(self.body)}}
            described["requestBody"] = {"required": True, "content": content}
        return described

    def _path_parameters(self) -> list[Described]:
        names = [part[1:-1] for part in self.path.split("/") if part.startswith("{")]
        return [{"name": name, "in": "path", "required": True, "schema": NAME} for name in names]

    def _problems(self) -> tuple[ProblemType, ...]:
        missing = (NOT_FOUND,) if "{" in self.path else ()
        given = _WITH_BODY if self.body is not None else ()
        return (*description.GUARDED, INVALID, *missing, *given, *self.problems)

    def _answers(self) -> Described:
        answers: Described = {}
        if self.download:
            schema = {"schema": {"type": "string"}}
            answers["200"] = {"description": "The file.", "content": dict.fromkeys(self.download, schema)}
            return answers
        if self.dry_run is not None:
            answers["200"] = description.document(self.dry_run)
        done = description.document(self.document)
        if self.started:
            where = {"Location": description.header("Where its progress can be asked.")}
            done["headers"] = where | description.replayed()
        if self.tagged:
            done["headers"] = {"ETag": description.header("Its version, for `If-Match`.")}
        answers["202" if self.started else "200"] = done
        return answers


def if_match(*, required: bool) -> dict[str, Any]:
    """The header that says which version is meant."""
    return {
        "name": "If-Match",
        "in": "header",
        "required": required,
        "schema": {"type": "string"},
        "description": "The `ETag` it had when it was read.",
    }


class AdminRoom(ABC):
    """Some routes on the office of one open store; `body_bytes`: how large a new payload may be."""

    def __init__(self, office: Office, body_bytes: int) -> None:
        self._office = office
        self._body_bytes = body_bytes

    @abstractmethod
    def routes(self) -> list[Route]:
        """The routes, with what answers each."""

    def acting(self, call: Call) -> ActingOffice:
        """The office's verbs within what the caller may see."""
        return acting(self._office, call)


def acting(office: Office, call: Call) -> ActingOffice:
    """The verbs of an office for whoever calls."""
    key = call.credential
    actor = Actor(f"{key.name or key.role}#{key.id}", f"http {client_name(call.request)}")
    return office.acting(actor, key.tenant, reveals=key.may(Permission.REVEAL))


def tag(version: str | int) -> str:
    """A version as an ETag."""
    return f'"{version}"'


def demand(call: Call, version: str | int, *, required: bool = False) -> bool:
    """Refusal when the caller means another version; whether one was named at all."""
    header = call.request.headers.get("if-match")
    if header is None:
        if required:
            raise Refusal(NO_IF_MATCH, "this changes what was read: say with If-Match which version that was")
        return False
    named = [one.strip() for one in header.split(",")]
    if named != ["*"] and tag(version) not in named:
        raise Refusal(CHANGED, "someone or something changed it after it was read: nothing was done")
    return True
