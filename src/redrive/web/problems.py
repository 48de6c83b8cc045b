"""What goes wrong, as RFC 9457 problems: the one place that turns an error into an answer.

An answer never holds a path, a traceback or the store's own words: those go to the log under the problem's
`instance`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from redrive.core.errors import Conflict, InvalidMessage, RedriveError, StoreError, StoreFull
from redrive.core.redaction import redact
from redrive.mail.writing.mail import InvalidMail


@dataclass(frozen=True, slots=True)
class ProblemType:
    """One kind of problem: its name in the `type` address, its status, and what to do about it."""

    name: str
    status: int
    title: str
    advice: str


BAD_JSON: Final = ProblemType(
    "bad-json",
    400,
    "The body cannot be read as JSON",
    "Send one JSON document in UTF-8, at most 32 levels deep.",
)
BAD_QUERY: Final = ProblemType(
    "bad-query",
    400,
    "The filter or the SQL cannot be answered",
    "Fix it at the `position` in `errors`, counted from 0.",
)
UNAUTHENTICATED: Final = ProblemType(
    "unauthenticated", 401, "A valid key is needed", "Send `Authorization: Bearer rdk_…` with a live key."
)
FORBIDDEN: Final = ProblemType(
    "forbidden", 403, "This key may not do that", "Use a key whose role is granted this route."
)
NOT_FOUND: Final = ProblemType(
    "not-found", 404, "There is no such thing here", "Check the address; a key sees its own tenant alone."
)
METHOD_NOT_ALLOWED: Final = ProblemType(
    "method-not-allowed", 405, "This address has other methods", "Use a method that `Allow` names."
)
CONFLICT: Final = ProblemType(
    "conflict",
    409,
    "The dedupe key belongs to another message",
    "Send the same payload, or use another dedupe key.",
)
WRONG_STATE: Final = ProblemType(
    "wrong-state",
    409,
    "Its present state does not allow that",
    "Read it again: someone may have done it already, or it has ended.",
)
CHANGED: Final = ProblemType(
    "changed",
    412,
    "It has changed since it was read",
    "Read it again, look at what changed, and repeat with its new ETag.",
)
TOO_LARGE: Final = ProblemType(
    "too-large", 413, "The body is too large", "Send less at once, or a reference to what is large."
)
NOT_JSON: Final = ProblemType(
    "not-json", 415, "The body is not declared as JSON", "Send `Content-Type: application/json`."
)
INVALID: Final = ProblemType(
    "invalid",
    422,
    "What was sent cannot be accepted",
    "Fix every entry of `errors`; nothing of the request was accepted.",
)
KEY_REUSED: Final = ProblemType(
    "idempotency-key-reused",
    422,
    "The Idempotency-Key belongs to another body",
    "Repeat a request byte for byte, or send the new one under a new key.",
)
NO_IF_MATCH: Final = ProblemType(
    "if-match-needed",
    428,
    "It is not said which version is meant",
    "Read it, and send its `ETag` as `If-Match`.",
)
RATE_LIMITED: Final = ProblemType(
    "rate-limited", 429, "Too many requests", "Wait as many seconds as `Retry-After` says."
)
UNEXPECTED: Final = ProblemType(
    "unexpected",
    500,
    "Something unexpected happened",
    "Give your operator the `instance`: the log has the cause under it.",
)
UNAVAILABLE: Final = ProblemType(
    "unavailable",
    503,
    "The service cannot answer now",
    "Repeat after `Retry-After`, with the same Idempotency-Key: the first try may have been accepted.",
)

PROBLEMS: Final = (
    BAD_JSON,
    BAD_QUERY,
    UNAUTHENTICATED,
    FORBIDDEN,
    NOT_FOUND,
    METHOD_NOT_ALLOWED,
    CONFLICT,
    WRONG_STATE,
    CHANGED,
    TOO_LARGE,
    NOT_JSON,
    INVALID,
    KEY_REUSED,
    NO_IF_MATCH,
    RATE_LIMITED,
    UNEXPECTED,
    UNAVAILABLE,
)


NO_REVEAL: Final = "this key may not reveal: use an operator's or admin's, or one made with --reveal"
MEDIA_TYPE = "application/problem+json"
_BUSY_S, _FULL_S = 5, 30
_NO_HEADERS: Mapping[str, str] = {}

logger = logging.getLogger("redrive.web")


class FieldError(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that is wrong; `index` is its place in a batch, `position` the character, from 0."""

    field: str
    problem: str
    index: int | None = None
    position: int | None = None


class ProblemDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem as it is sent."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: tuple[FieldError, ...] = ()


class Refusal(RedriveError):
    """A request that is not granted; becomes a problem."""

    def __init__(
        self,
        kind: ProblemType,
        detail: str,
        errors: Iterable[FieldError] = (),
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> None:
        self.kind, self.detail, self.headers = kind, detail, headers
        self.errors = tuple(errors)
        super().__init__(detail)


def answer_to(error: Exception) -> Response:
    """The answer to whatever a route raised."""
    refused, instance = told(error)
    problem = ProblemDocument(
        type=f"/docs#{refused.kind.name}",
        title=refused.kind.title,
        status=refused.kind.status,
        detail=refused.detail,
        instance=instance,
        errors=refused.errors,
    )
    return Response(
        msgspec.json.encode(problem),
        refused.kind.status,
        headers=dict(refused.headers),
        media_type=MEDIA_TYPE,
    )


def told(error: Exception) -> tuple[Refusal, str]:
    """What an error is to the caller, and the name under which the log has its cause."""
    instance = f"urn:uuid:{uuid4()}"
    refused = _refused(error)
    if refused.kind.status >= 500:
        _log(refused, error, instance)
    return refused, instance


def _refused(error: Exception) -> Refusal:
    match error:
        case Refusal():
            return error
        case InvalidMessage():
            return Refusal(INVALID, "nothing was accepted: see errors", field_errors(error))
        case Conflict():
            return Refusal(CONFLICT, str(error))
        case StoreError():
            return _unavailable(error)
        case HTTPException():
            return _routing(error)
        case ClientDisconnect():
            return Refusal(BAD_JSON, "the connection ended before the body did")
        case _:
            detail = "the request failed for a reason that is in the log; nothing more is said here"
            return Refusal(UNEXPECTED, detail)


def field_errors(error: InvalidMessage) -> list[FieldError]:
    """Everything that is wrong with a message or a mail."""
    if isinstance(error, InvalidMail):
        return [FieldError(field, problem, error.index) for field, problem in error.problems]
    return [FieldError("", error.problem, error.index)]


def _unavailable(error: StoreError) -> Refusal:
    if isinstance(error, StoreFull):
        detail = "the store has no room for new work; what was accepted before still drains"
        return Refusal(UNAVAILABLE, detail, headers={"Retry-After": str(_FULL_S)})
    detail = "the store does not answer; a submit may or may not have been accepted"
    return Refusal(UNAVAILABLE, detail, headers={"Retry-After": str(_BUSY_S)})


def _routing(error: HTTPException) -> Refusal:
    headers = error.headers or _NO_HEADERS
    if error.status_code == METHOD_NOT_ALLOWED.status:
        return Refusal(METHOD_NOT_ALLOWED, f"use {headers.get('Allow', 'another method')}", headers=headers)
    if error.status_code == NOT_FOUND.status:
        return Refusal(NOT_FOUND, "no route has this address: /openapi.json lists them")
    return Refusal(BAD_JSON, "the request cannot be read")


def _log(refused: Refusal, error: Exception, instance: str) -> None:
    fields = {"instance": instance, "status": refused.kind.status, "error": redact(str(error))}
    if refused.kind is UNEXPECTED:
        logger.error("Request failed unexpectedly", extra={"fields": fields}, exc_info=error)
    else:
        logger.warning("Request not answered: %s", refused.detail, extra={"fields": fields})
